"""`jit`: trace once per signature, compile the jaxpr, call it as one primitive.

The cache of traces is `control/traces.py`, the row and the choice of a backend
`control/rows/jit.py`, the compiler `lowering/` and `cpu/`; here are the options, the object that
users get, and the switches that belong to compiling.
"""

import copy
import functools
import inspect
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from ftrace.api.calls import (
    brief,
    check_callable,
    check_hashable,
    name_of,
    parameters,
    shortened,
)
from ftrace.api.compiled.accepted import check_options
from ftrace.api.compiled.devices import check_together
from ftrace.api.compiled.inspecting import ShapeDtypeStruct
from ftrace.api.compiled.prepared import Compiled, Prepared, Promise
from ftrace.api.compiled.signatures import ANOTHER, Signature
from ftrace.control.functions import argument_paths, flatten_call
from ftrace.control.rows.jit import BACKENDS, executable, jit_call
from ftrace.control.rows.raising import called
from ftrace.control.traces import CachedTrace, Traces
from ftrace.core import config, errors
from ftrace.core.avals import LIMIT, check_int
from ftrace.core.device import LIBRARIES, platform
from ftrace.core.errors import DtypeError, FtraceError, TreeError
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.lazy import lazy
from ftrace.core.naming import Named
from ftrace.core.sameness import Static
from ftrace.core.trace import EVAL, ctx, lifted, remember
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.quiet import quietly
from ftrace.lifting.restart import Restart

P = ParamSpec("P")
R = TypeVar("R")


_lowered = lazy("ftrace.lowering.program.backends", "Lowered")


class JitFunction(Named, Generic[P, R]):
    """What `jit` returns: a callable with `trace`, `lower` and `clear_cache`."""

    def __init__(self, fun: Callable[P, R], options: "Options") -> None:
        self._fun = fun
        self._options = options
        restart = Restart(fun, options.lift)
        self._traces = Traces(fun, options.key, sorted(options.nums), restart)
        self._last: Signature | None = None
        self._before: Jaxpr | None = None  # what was called last
        functools.update_wrapper(self, fun, updated=())
        self.__ftrace__ = (fun, ("jit", options.key))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Trace and compile at a new signature, then run the code."""
        try:
            last = self._last
            if last is not None and not kwargs and ctx.trace is EVAL:
                found = last.call(args)
                if found is not ANOTHER:
                    return found
            return self._call(args, kwargs)
        except FtraceError as error:
            raise shortened(error)  # noqa: B904 - the same error, with fewer frames

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        settings = config.config.settings
        if settings.disable_jit:
            return lifted(self._fun)(*args, **kwargs)
        evaluated = ctx.trace is EVAL
        leaves, entry = self._find(args, kwargs)
        for x in leaves:
            if type(x) is int and not -LIMIT <= x <= LIMIT:
                self._refuse_wide(x, args, kwargs)
        operands = [*entry.captured, *leaves]
        if LIBRARIES and evaluated:
            check_together(self._fun, (args, kwargs), entry.captured, sorted(self._options.nums))
        if evaluated and settings.compile:
            why = functools.partial(self._why, entry.jaxpr)
            run = executable(entry.jaxpr, platform(operands), name_of(self._fun), why)
            self._before = entry.jaxpr
            outs = run(operands)
            if not kwargs and not self._options.nums:
                self._last = Signature.of(args, entry, run, settings)
        elif evaluated:
            with quietly():
                outs = jit_call(*operands, jaxpr=entry.jaxpr, name=name_of(self._fun))
        elif self._options.inline:
            outs = eval_jaxpr(entry.jaxpr, operands)
        else:
            outs = called(jit_call, operands, entry.jaxpr, name=name_of(self._fun))
        return entry.out_tree.unflatten(outs)

    def _why(self, jaxpr: Jaxpr) -> str:
        """Why this is compiled, and not what was called last."""
        before = self._before
        if before is None:
            return "its first call"
        if before is jaxpr:
            return "other settings or another device"
        if before.in_avals != jaxpr.in_avals:
            return f"{list(jaxpr.in_avals)} after {list(before.in_avals)}"
        return "static arguments, or something that it reads from outside, have changed"

    def _refuse_wide(self, x: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, tree = flatten_call(args, kwargs)
        path = argument_paths(self._fun, tree)[[leaf is x for leaf in leaves].index(True)]
        check_int(x, LIMIT, f"The argument {path} of {name_of(self._fun)}")

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], CachedTrace]:
        fun, args, kwargs, static = self._options.bind(self._fun, args, kwargs)
        return self._traces.find(fun, args, kwargs, static)

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Jaxpr:
        """The jaxpr for these arguments (arrays or `ShapeDtypeStruct`s)."""
        args = tuple(map(_stand_in, args))  # type: ignore[assignment]
        kwargs = {k: _stand_in(v) for k, v in kwargs.items()}  # type: ignore[assignment]
        return self._find(args, kwargs)[1].jaxpr

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The program for these arguments (arrays or `ShapeDtypeStruct`s), to look at.

        Returns:
            An object with `jaxpr`, `passes`, `program`, `kernels`, `launches`, `llvm` or `cuda`,
            `asm` and `cost()`. It is for the device of the arguments; `lower(x).on("sm_90")` is
            for a GPU of that architecture, which need not be there. `lower(x).compile()` is the
            compiled function for arguments of these types.

        Example:
            >>> import numpy as np, ftrace
            >>> f = ftrace.jit(lambda x: np.sin(x) * x)
            >>> print(*f.lower(np.ones(3)).kernels)
            kernel k1(in x0:f8[1], out o1:f8[1]; n0:i8):
              for v1 < n0:
                v2:f8 = x0[v1]
                v3:f8 = sin v2
                v4:f8 = mul v3 v2
                o1[v1] = v4
        """
        promise = self._promise(args, kwargs)
        return _lowered(
            promise.entry.jaxpr, promise.place, BACKENDS, functools.partial(Compiled, promise)
        )

    def _promise(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Promise:
        """What is compiled ahead of its calls."""
        given = tree_flatten((args, kwargs))[0]
        args = tuple(map(_stand_in, args))
        kwargs = {k: _stand_in(v) for k, v in kwargs.items()}
        fun, args, kwargs, static = self._options.bind(self._fun, args, kwargs)
        leaves, entry = self._traces.find(fun, args, kwargs, static)
        place = platform(given)  # the trace takes notice of CuPy
        tree = self._traces.apart(args, kwargs).tree
        skipped = sorted(self._options.nums)
        return Promise(self._fun, self._traces, entry, leaves, tree, place, skipped)

    def clear_cache(self) -> None:
        """Forget every trace of this function."""
        self._traces.clear()
        self._last = None

    def __deepcopy__(self, memo: Any) -> Any:
        fun = copy.deepcopy(self._fun, memo)  # another one of a method, and of an object
        return self if fun is self._fun else JitFunction(fun, self._options)

    def _parts(self) -> Any:
        return JitFunction, (self._fun, self._options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self._fun)}>"


def _stand_in(tree: Any) -> Any:
    """An argument with arrays, of which only the types are read, in place of its structs."""
    leaves, treedef = tree_flatten(tree)
    if not any(isinstance(x, ShapeDtypeStruct) for x in leaves):
        return tree
    return treedef.unflatten(
        [
            np.broadcast_to(np.zeros((), x.dtype), x.shape) if type(x) is ShapeDtypeStruct else x
            for x in leaves
        ]
    )


class Options:
    """Static arguments and the rest of `jit`'s options."""

    __slots__ = ("inline", "key", "lift", "names", "nums", "parameters")

    def __init__(
        self, fun: Any, nums: Any, names: Any, donate: Any, inline: bool, lift: bool
    ) -> None:
        self.parameters = parameters(fun)
        given_nums = _tuple("static_argnums", nums, int)
        given_names = _tuple("static_argnames", names, str)
        donated = _tuple("donate_argnums", donate, int)
        for option, positions in (("static_argnums", given_nums), ("donate_argnums", donated)):
            for n in positions:
                _check_position(fun, option, n, self.parameters)
        for name in given_names:
            _check_name(fun, name)
        known = len(self.parameters)
        self.nums = frozenset(n % known if n < 0 else n for n in given_nums) | frozenset(
            self.parameters.index(n) for n in given_names if n in self.parameters
        )
        self.names = frozenset(given_names) | frozenset(
            self.parameters[n] for n in self.nums if n < len(self.parameters)
        )
        for option, flag in (("inline", inline), ("lift", lift)):
            if type(flag) is not bool:
                raise DtypeError(f"{option} of jit is {flag!r}.", "Give True or False.")
        self.inline = inline
        self.lift = lift
        self.key = (
            tuple(sorted(self.nums)),
            tuple(sorted(self.names)),
            donated,
            inline,
            lift,
        )

    def bind(
        self, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any], Any]:
        """The function of the dynamic arguments, these, and the static ones as a key."""
        if not self.nums and not self.names:
            return fun, args, kwargs, ()
        fixed = {i: a for i, a in enumerate(args) if i in self.nums}
        named = {k: v for k, v in kwargs.items() if k in self.names}
        for label, value in [*fixed.items(), *named.items()]:
            check_hashable(fun, label, value)
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        rest = {k: v for k, v in kwargs.items() if k not in named}
        total = len(args)

        def partial(*values: Any, **keywords: Any) -> Any:
            supply = iter(values)
            full = [fixed[i] if i in fixed else next(supply) for i in range(total)]
            return lifted(fun)(*full, **keywords, **named)

        partial.__name__ = name_of(fun)
        static = (
            tuple((i, Static(v)) for i, v in fixed.items()),
            tuple((k, Static(named[k])) for k in sorted(named)),
        )
        return partial, dynamic, rest, static


def _tuple(option: str, value: Any, kind: type) -> tuple[Any, ...]:
    """An option that is one integer (or name) or several, as a tuple."""
    found = () if value is None else (value,) if issubclass(type(value), kind) else value
    if not isinstance(found, Sequence) or not all(issubclass(type(v), kind) for v in found):
        raise DtypeError(
            f"{option} of jit must be of {kind.__name__}, or a tuple of them, not {brief(value)}.",
            "Positions go into static_argnums, parameter names into static_argnames.",
        )
    return tuple(found)


def _check_position(fun: Any, option: str, n: int, known: tuple[str, ...]) -> None:
    if -len(known) <= n < len(known) or (
        n >= 0 and _accepts(fun, inspect.Parameter.VAR_POSITIONAL)
    ):
        return
    raise TreeError(
        f"{option}={n} of jit names a parameter that {name_of(fun)}({', '.join(known)}) does not "
        "have.",
        "Count positional parameters from 0.",
    )


def _check_name(fun: Any, name: str) -> None:
    if _accepts(fun, inspect.Parameter.VAR_KEYWORD) or name in inspect.signature(fun).parameters:
        return
    raise TreeError(
        f"static_argnames={name!r} of jit names a parameter that "
        f"{name_of(fun)}({', '.join(inspect.signature(fun).parameters)}) does not have.",
        "Give the name as it is written in the function's signature.",
    )


def _accepts(fun: Any, kind: Any) -> bool:
    """Whether a function has a parameter of this kind, or a signature that cannot be known."""
    try:
        return any(p.kind == kind for p in inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return True


def jit(
    fun: Callable[P, R] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    inline: bool = False,
    lift: bool = True,
    **options: Any,
) -> Any:
    """Trace and compile a function once per signature, and run the machine code after that.

    Elementwise operations, views, reductions and control flow become native loops; rows that
    have no kernel run on NumPy and SciPy from the middle of the program. A new size of a known
    structure is traced and planned again, but shares the machine code.
    `ftrace.config.update(compile=False)` evaluates the traced program row by row instead.

    Args:
        fun: function of arrays, or containers of arrays. Without it, `jit(**options)` is a
            decorator. Inside a container strings, functions and the like are static; so are its
            Python integers and booleans, once tracing finds that Python needs them (a number of
            layers): then each value is traced anew.
        static_argnums, static_argnames: arguments that are Python values: part of the
            signature, hashable, never traced.
        donate_argnums: arguments whose memory may be reused. Donation happens only where
            nobody else holds the array; in this release it is accepted and has no effect.
        inline: under an outer trace, record the function's equations instead of a call.
        lift: where a traced value decides Python's control flow, or is stored into a plain
            array, the function is traced again, lifted (`ftrace.lift`), and from then on at
            once. False leaves it and all that it calls as they are: questions such as
            `type(x) is float` are then answered for a tracer.
        options: JAX's `compiler_options`, `keep_unused` and `donate_argnames`, which have no
            effect; `device`, `backend` and shardings may be None.

    Returns:
        A function with `fun`'s signature. `f.trace(*args)` gives its jaxpr, `f.lower(*args)` an
        object with `.jaxpr`, `.passes`, `.program`, `.kernels`, `.launches`, `.llvm` (on a GPU
        `.cuda`), `.asm`, `.cost()` and `.compile()`.

    Raises:
        TracerBoolConversionError: Python's `if` or `while` on a traced value, with `lift=False`.
        LiftError: a function that traced values decide in cannot be lifted; the message names
            the construct.
        UnexpectedTracerError: a traced value escaped from an earlier call.
        BackendError: a kernel cannot be compiled; the message names it.

    Example:
        >>> import numpy as np, ftrace
        >>> f = ftrace.jit(lambda x: np.sin(x) * x)
        >>> f(np.array([0.0, 1.0]))
        array([0.        , 0.84147098])
    """
    if options:
        check_options("jit", options)
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            inline=inline,
            lift=lift,
        )
    check_callable(fun, "jit")
    kept = Options(fun, static_argnums, static_argnames, donate_argnums, inline, lift)
    return JitFunction(fun, kept)


def prepare(fun: Callable[..., Any], *avals: Any) -> Prepared:
    """Trace and compile a function for one signature, ahead of its calls.

    Args:
        fun: function of arrays, or containers of arrays; what `jit` returned keeps its options.
        avals: its arguments: arrays, of which only the types are read, `ShapeDtypeStruct`s, and
            the values of static arguments.

    Returns:
        A callable object (`Prepared`). `g(*args)` computes as `fun` does and never traces or
        compiles; static arguments are left out. `g(*args, out=arrays)` writes the results into
        arrays of the caller's and allocates none on the CPU; `g.empty()` makes such arrays. Where
        `out` overlaps an argument, a capture or itself, or is no contiguous array, the
        results are computed first and copied.

    Raises:
        TreeError, ShapeError, DtypeError: at a call, arguments of another signature.
        BackendError: at a call, something that the function read from outside has changed since.

    Example:
        >>> import numpy as np, ftrace
        >>> x = np.array([0.0, 1.0, 2.0])
        >>> g = ftrace.prepare(ftrace.grad(lambda x: np.sum(x**3)), x)
        >>> out = g.empty()
        >>> g(x, out=out) is out
        True
        >>> out
        array([ 0.,  3., 12.])
    """
    check_callable(fun, "prepare")
    jitted = fun if isinstance(fun, JitFunction) else jit(fun)
    lowered = jitted.lower(*avals)
    return Prepared(lowered.compile())


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None]:
    """Inside the block, jitted functions run as plain Python.

    Example:
        >>> import ftrace
        >>> with ftrace.disable_jit():
        ...     ftrace.jit(lambda x: x + 1 if x > 0 else x)(2)
        3
    """
    with config.update(disable_jit=disable):
        yield


@contextmanager
def ensure_compile_time_eval() -> Generator[None]:
    """Inside the block, operations on concrete values compute now, even while tracing.

    Raises:
        UnexpectedTracerError: an operation inside meets a traced value.

    Example:
        >>> import ftrace, ftrace.numpy as fnp
        >>> def f(x):
        ...     with ftrace.ensure_compile_time_eval():
        ...         n = int(fnp.sum(fnp.ones(3)))
        ...     return x * n
        >>> float(ftrace.jit(f)(2.0))
        6.0
    """
    before = ctx.trace
    ctx.trace = EVAL
    try:
        yield
    except errors.REFUSALS as error:
        ctx.trace = before
        remember(error)
        raise
    finally:
        ctx.trace = before


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """A function that appears in jaxprs as one call with its name.

    Args:
        fun: function of arrays, or containers of arrays.
        name: the name to show (default: the function's own).
    """
    check_callable(fun, "named_call")
    label = name or name_of(fun)
    jitted = jit(fun)

    @functools.wraps(fun, updated=())
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if ctx.trace is EVAL:
            return lifted(fun)(*args, **kwargs)
        leaves, entry = jitted._find(args, kwargs)
        outs = called(jit_call, [*entry.captured, *leaves], entry.jaxpr, name=label)
        return entry.out_tree.unflatten(outs)

    return wrapper


def block_until_ready(x: Any) -> Any:
    """Wait until every array in a container is computed, and return it.

    On the CPU arrays are ready when they are returned; on a GPU this waits for the stream.
    """
    for leaf in tree_flatten(x)[0]:
        wait = getattr(getattr(leaf, "device", None), "synchronize", None)
        if wait is not None:
            wait()
    return x
