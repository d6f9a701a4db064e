"""Calls out of ftrace: rows that run a Python function on the host, on concrete arrays.

Three rows share their columns and differ in what may be done with them. `pure_callback` may be
dropped where nobody reads its result; `io_callback` has an effect and may not; `debug_callback`
has no result and looks at primals only, so that it is no obstacle to a derivative. All of them are
callbacks of a compiled program, which runs them in program order. Under `vmap` the host function
sees one member after another, unless its `vmap_method` says that it takes the mapped axis itself.
The solvers of `root.py` and `linear_solve.py` that need plain values are pure callbacks, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ftrace.control.functions import frozen, name_of
from ftrace.core import source
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import free, is_array, on_device, to_host
from ftrace.core.dtypes import canonical, is_inexact
from ftrace.core.errors import CallbackError, RuleError, SolverError
from ftrace.core.jaxpr import Eqn, Var
from ftrace.core.primitive import NONDIFFERENTIABLE, Effects, Primitive, Unsupported
from ftrace.core.records import record
from ftrace.core.source import Location
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, place_axis

VMAP_METHODS: Final = ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized")
CUSTOM_FIX: Final = (
    "Put the call in a function with a custom_jvp or custom_vjp rule, or make it with "
    "ftrace.external, which takes jvp=, vjp= or fd=; stop_gradient on its arguments says that it "
    "has no derivative."
)


SOLVER_FIX: Final = (
    "Differentiate through ftrace.lax.custom_root or custom_linear_solve, or give it a custom rule."
)


@record(eq=False)
class Host:
    """A host function and what is known of it.

    Attributes:
        fn: the user's function.
        flat: the same as a function of flat arrays, results as they come.
        what: what it is called in messages: `pure_callback of f`.
        results: what it promised; their containers are `tree`, None if results are ignored.
        place: the user's line that called it.
        fix: what to do about a derivative that is missing.
        vmap_method: one of `VMAP_METHODS`.
        copies: whether it gets contiguous arrays of its own, which it may write.
        solves: whether it looks for a solution: a member that finds none is NaN, since it may lie
            on a side of a mapped `cond` that is not taken.
    """

    fn: Callable[..., Any]
    flat: Callable[..., Any]
    what: str
    results: tuple[ShapedArray, ...] = ()
    tree: PyTreeDef | None = None
    place: Location | None = None
    fix: str = CUSTOM_FIX
    vmap_method: str = "sequential"
    copies: bool = False
    solves: bool = False

    def __call__(self, *values: Any) -> list[Any]:
        """Run it: arrays that it cannot write, or copies, in; arrays of the caller's own out."""
        try:
            answer = self.flat(*map(_copied if self.copies else _lent, values))
        except Exception as error:
            note = f"Raised in {self.what}, called at {source.describe(self.place)}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise
        return [] if self.tree is None else self._checked(answer, self.tree)

    def _checked(self, answer: Any, tree: PyTreeDef) -> list[Any]:
        leaves, given = tree_flatten(answer)
        if given != tree:
            raise CallbackError(
                f"{self.what} returned containers that differ from those it promised "
                f"{tree_mismatch(tree, given, 'result')}.",
                "Return what result_shape_dtypes describes, or describe what is returned.",
                place=self.place,
            )
        parts = zip(leaves, self.results, paths(tree, "result"), strict=True)
        return [self._part(x, a, path) for x, a, path in parts]

    def _part(self, x: Any, promised: ShapedArray, path: str) -> Any:
        """One result as a new array: a function may well use its memory again."""
        given = np.asarray(to_host(x))
        weak = issubclass(type(x), bool | int | float | complex) and not issubclass(
            type(x), np.generic
        )
        alike = given.dtype == promised.dtype or (
            weak and np.can_cast(given.dtype, promised.dtype, "same_kind")
        )
        if given.shape != promised.shape or not alike:
            raise CallbackError(
                f"{self.what} promised {promised} as {path} and returned "
                f"{aval(given.shape, given.dtype) if given.dtype.kind in 'biufc' else repr(x)}.",
                "Return the shape and dtype that were promised "
                f"(`.astype(np.{promised.dtype})`), or promise what is returned.",
                place=self.place,
            )
        copy = np.array(given, promised.dtype)
        return free(copy) if copy.ndim else copy[()]

    def mapped(self, axis: Axis) -> "Host":
        """The same function, whose results have a leading axis."""
        wide = tuple(aval((axis.size, *a.shape), a.dtype) for a in self.results)
        return replace(self, results=wide)

    def member_by_member(self, axis: Axis, mapped: Sequence[bool]) -> "Host":
        """A host function of operands mapped at axis 0 that runs this one on each member."""

        def members(*values: Any) -> Any:
            rows = [
                self._member([v[i] if m else v for v, m in zip(values, mapped, strict=True)])
                for i in range(axis.size)
            ]
            if self.tree is None:
                return None
            columns = zip(*rows, strict=True) if rows else [[] for _ in self.results]
            stacked = [
                np.array(c, a.dtype).reshape(axis.size, *a.shape)
                for c, a in zip(columns, self.results, strict=True)
            ]
            return self.tree.unflatten(stacked)

        return replace(self.mapped(axis), flat=members)

    def where_active(self) -> "Host":
        """The same of a boolean in front, which is called where that is true; else zeros."""

        def asked(active: Any, *values: Any) -> Any:
            if active:
                return self.flat(*values)
            nothing = [np.zeros(a.shape, a.dtype) for a in self.results]
            return None if self.tree is None else self.tree.unflatten(nothing)

        return replace(self, flat=asked)

    def _member(self, values: Sequence[Any]) -> list[Any]:
        try:
            return self(*values)
        except SolverError:
            if not self.solves:
                raise
            return [np.full(a.shape, np.nan, a.dtype) for a in self.results]

    @property
    def __name__(self) -> str:
        return name_of(self.fn)


def _lent(x: Any) -> Any:
    """An operand that may be read; one of a device as a NumPy array, since this is the host."""
    return to_host(x) if on_device(x) else frozen(x)


def _copied(x: Any) -> Any:
    return np.array(to_host(x), order="C") if is_array(x) else x


def definition(fn: Any) -> str:
    """Where a function is written, or what kind of compiled function it is."""
    while True:
        for attribute in ("__wrapped__", "py_func", "func", "__func__"):
            inner = getattr(fn, attribute, None)
            if callable(inner):
                fn = inner
                break
        else:
            break
    code = getattr(fn, "__code__", None)
    if code is not None:
        return f"defined at {code.co_filename}:{code.co_firstlineno}"
    return f"a compiled {type(fn).__name__} without Python source"


# ---------------------------------------------------------------------------------- columns


def _impl(*values: Any, host: Host, **params: Any) -> list[Any]:
    return host(*values)


def _type(*avals: ShapedArray, host: Host, **params: Any) -> Any:
    return host.results


def _jvp(row: Callable[[], Primitive]) -> Callable[..., Any]:
    """Only a call whose results have no tangent anyway can be differentiated."""

    def jvp(primals: Any, tangents: Any, *, host: Host, **params: Any) -> Any:
        if any(is_inexact(a.dtype) for a in host.results):
            raise RuleError(
                f"Cannot differentiate through {host.what}: it is opaque, and has no derivative "
                f"of its own.\n"
                f"note: {name_of(host.fn)} is {definition(host.fn)}",
                host.fix,
                place=host.place,
            )
        return row()(*primals, host=host, **params), [ZERO] * len(host.results)

    return jvp


def _batch(row: Callable[[], Primitive]) -> Callable[..., Any]:
    def batch(axis: Axis, values: Any, dims: Any, *, host: Host, **params: Any) -> Any:
        mapped = [d is not None for d in dims]
        every = host.vmap_method == "broadcast_all"
        single = Axis(1) if host.vmap_method == "expand_dims" else axis
        widened = every or host.vmap_method == "expand_dims"
        values = [
            place_axis(v, d, axis if d is not None or every else single, 0)
            if d is not None or widened
            else v
            for v, d in zip(values, dims, strict=True)
        ]
        if host.vmap_method == "sequential":
            wide = host.member_by_member(axis, mapped)
        else:
            wide = host.mapped(axis)
        return row()(*values, host=wide, **params), [0] * len(host.results)

    return batch


def _gate(e: Eqn, active: Var) -> list[Eqn] | None:
    """A function that takes the mapped axis itself gets all batch elements."""
    host: Host = e.params["host"]
    if host.vmap_method != "sequential":
        return None
    params = {**e.params, "host": host.where_active()}
    return [Eqn(e.primitive, [active, *e.invars], params, e.outvars, e.source)]


def _effects(*, ordered: bool, **params: Any) -> Effects:
    return frozenset({"ordered" if ordered else "unordered"})


_NOT_LINEAR: Final = Unsupported(
    "Reverse mode (grad, vjp) was asked to go through a call of a host function on tangents, whose "
    "transpose is not known.",
    "Give a vjp rule beside the jvp rule.",
)


pure_callback_call: Final = Primitive(
    name="pure_callback",
    impl=_impl,
    type=_type,
    jvp=_jvp(lambda: pure_callback_call),
    transpose=_NOT_LINEAR,
    batch=_batch(lambda: pure_callback_call),
    gate=_gate,
    host=lambda host, **_: host.what,
    zeros=True,
    multiple=True,
    doc="Run a host function of arrays that has no effects.",
)

io_callback_call: Final = Primitive(
    name="io_callback",
    impl=_impl,
    type=_type,
    jvp=_jvp(lambda: io_callback_call),
    transpose=_NOT_LINEAR,
    batch=_batch(lambda: io_callback_call),
    host=lambda host, **_: host.what,
    effects=_effects,
    zeros=True,
    multiple=True,
    doc="Run a host function of arrays for its effects, at every call.",
)

debug_callback_call: Final = Primitive(
    name="debug_callback",
    impl=_impl,
    type=_type,
    jvp=NONDIFFERENTIABLE,
    transpose=_NOT_LINEAR,
    batch=_batch(lambda: debug_callback_call),
    host=lambda host, **_: host.what,
    effects=_effects,
    multiple=True,
    doc="Show values to a host function; derivatives pass by.",
)


# ---------------------------------------------------------------------------------- calls


def host_of(
    what: str, fn: Callable[..., Any], call: PyTreeDef, promise: Any, **options: Any
) -> Host:
    """The host function of one call.

    Args:
        what: `pure_callback`, for messages.
        fn: the user's function.
        call: containers of its `(args, kwargs)`.
        promise: results as a container of objects with `shape` and `dtype`.
        **options: other attributes of `Host`.
    """
    structs, tree = tree_flatten(promise)

    def flat(*values: Any) -> Any:
        args, kwargs = call.unflatten(values)
        return fn(*args, **kwargs)

    return Host(
        fn,
        flat,
        f"{what} of {name_of(fn)}",
        tuple(promised(what, s, path) for s, path in zip(structs, paths(tree), strict=True)),
        tree,
        source.location(),
        **options,
    )


def promised(what: str, struct: Any, path: str) -> ShapedArray:
    """The aval that an object with `shape` and `dtype` describes."""
    shape, dtype = getattr(struct, "shape", None), getattr(struct, "dtype", None)
    if shape is None or dtype is None:
        if issubclass(type(struct), bool | int | float | complex):
            dtype = typeof(struct).dtype
            return aval((), dtype)
        raise CallbackError(
            f"{what}: result_shape_dtypes{path} is {struct!r}, which describes no array.",
            "Give ftrace.ShapeDtypeStruct(shape, dtype), or an array like the result.",
        )
    return aval(tuple(shape), canonical(dtype))


def solver_call(*operands: Any, fun: Callable[..., Any], out_avals: Sequence[ShapedArray]) -> Any:
    """Call a solver of plain arrays; a rule around it says what its derivative is.

    Args:
        *operands: what it is given, as arrays of its own.
        fun: the solver; it returns a list of arrays, which are converted to `out_avals`.
        out_avals: the types of its results.
    """

    def flat(*values: Any) -> tuple[Any, ...]:
        found = fun(*values)
        return tuple(np.asarray(y, a.dtype) for y, a in zip(found, out_avals, strict=True))

    host = Host(
        fun,
        flat,
        "a solver that runs on the host",
        tuple(out_avals),
        tree_flatten(tuple(out_avals))[1],
        source.location(),
        SOLVER_FIX,
        copies=True,
        solves=True,
    )
    return pure_callback_call(*operands, host=host)
