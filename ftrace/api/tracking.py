"""`track`, `gradient_of`, `with_gradient`: gradients of expressions, where they stand.

A `with track(...)` block is what reverse mode runs a function under: inside of it operations on
the variables are computed and recorded, and a gradient walks back over what there is so far.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from ftrace.api.calls import (
    ArgumentSelection,
    brief,
    check_callable,
    differentiable,
    name_of,
)
from ftrace.api.derivatives.jacobians import backward_pass, hessian, split_first
from ftrace.api.derivatives.unit_vectors import chunks
from ftrace.api.modes.mode_choice import jacobian
from ftrace.core import device
from ftrace.core import trace as core
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DerivativeError, DtypeError, MutationError, UnexpectedTracerError
from ftrace.core.registration import register_record
from ftrace.core.trace import ctx, lifted
from ftrace.core.tree import tree_flatten, tree_map
from ftrace.interpreters.captures import digest, owned
from ftrace.interpreters.linearize import Linearization
from ftrace.interpreters.quiet import quietly


class _Pair(NamedTuple):
    """What a `Differentiated` holds as a tuple."""

    value: Any
    gradient: Any


@register_record
class Differentiated(_Pair):
    """A value and its gradient.

    Attributes:
        value: of the expression.
        gradient: by the variable, or by the name of each, if there are several. Of an array, or of
            a container, it has blocks as `jacrev` gives them.
    """

    _second: Callable[[], Any] | None = None

    def __getstate__(self) -> None:
        """Copies and what is pickled are the pair alone: functions cannot be pickled."""

    @functools.cached_property
    def hessian(self) -> Any:
        """The second derivatives, computed when they are first asked for.

        By one variable the Hessian itself, by several a dict of dicts by their names (by several
        positional ones a tuple of tuples). It is the Hessian of the function as it is when it is
        asked for, at the variables that the call was given: where an array that the function reads
        was changed in between, and that changes its value or gradient there, an error says so. A
        change that alters neither cannot be told.

        Raises:
            DerivativeError: this is no result of `with_gradient` itself, or the function has
                another value or gradient by now, as when an array that it reads was changed.
            MutationError: an argument that stays was changed.

        Example:
            >>> import ftrace
            >>> r = ftrace.with_gradient(lambda a, b: a * b + a**2, a=3.0, b=8.0)
            >>> float(r.hessian["a"]["a"]), float(r.hessian["a"]["b"])
            (2.0, 1.0)
        """
        if self._second is None:
            raise DerivativeError(
                "Only what with_gradient itself returns has a Hessian: this was made by a `track` "
                "block, or has been through jit, vmap or a function of trees.",
                "Ask for .hessian where with_gradient is called, nest `track` blocks, or use "
                "ftrace.hessian.",
            )
        return self._second()


def with_gradient(fun: Callable[..., Any], /, *args: Any, **variables: Any) -> Differentiated:
    """The value of a function, and its gradient by the variables that are named.

    Args:
        fun: function of arrays, or containers of arrays; its result may be any array.
        *args: arguments that stay; without names, those to differentiate by.
        **variables: the arguments to differentiate by.

    Returns:
        A `Differentiated`: `.value`, `.gradient` and, computed when asked for, `.hessian`. The
        gradient by one variable is bare, by several a dict (by several positional ones a tuple).

    Raises:
        DtypeError: there is nothing to differentiate by, or a variable has no derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> r = ftrace.with_gradient(lambda a: np.sin(3 * a), a=1.2)
        >>> round(float(r.value), 7), round(float(r.gradient), 6)
        (-0.4425204, -2.690275)
        >>> r = ftrace.with_gradient(lambda a, b: a * b + a**2, a=3.0, b=8.0)
        >>> float(r.gradient["a"]), float(r.gradient["b"])
        (14.0, 3.0)
        >>> float(r.hessian["a"]["b"])
        1.0

    Source: `with gradient` of pqR (R. Neal, 2019).
    """
    check_callable(fun, "with_gradient")
    names = tuple(variables)
    if not names and not args:
        raise DtypeError(
            f"with_gradient of {name_of(fun)} was given nothing to differentiate by.",
            "Name the variables: with_gradient(f, a=1.2).",
        )

    @functools.wraps(fun, updated=())
    def paired(*args: Any, **kwargs: Any) -> Any:
        y = lifted(fun)(*args, **kwargs)
        return y, y

    chosen: Any = names or tuple(range(len(args)))
    chosen = chosen[0] if len(chosen) == 1 else chosen
    made = jacobian(paired, chosen, has_aux=True, mode="auto")
    at = (args, tree_map(_kept, variables)) if names else (tree_map(_kept, args), {})
    before = _state(args) if names else None
    gradient, value = made(*args, **variables)
    found = gradient
    if len(names) > 1:
        gradient = _by_name(gradient, value, names)
    result = Differentiated(value, gradient)
    known = tree_map(_kept, (value, found))

    def second() -> Any:
        if before is not None and before != _state(args):
            raise MutationError(
                f"An argument of {name_of(fun)} that stays was changed since its gradient was "
                "computed.",
                "Ask for .hessian before, or pass a copy.",
            )
        return _hessian(fun, paired, made, chosen, at, known)

    result._second = second
    return result


def _state(args: Any) -> list[Any]:
    """What tells whether arguments are what they were: digests, which hold no memory."""
    leaves = tree_flatten(args)[0]
    return [_state_of(x) for x in leaves]


def _state_of(x: Any) -> Any:
    if not device.is_array(x) or isinstance(x, core.Tracer):
        return id(x)
    if not issubclass(type(x), np.ndarray) or x.dtype.hasobject:
        return None  # of a GPU: value and gradient are compared
    return x.shape, x.dtype, digest(x)


def _kept(x: Any) -> Any:
    """A leaf as it is now: an array may be written before second derivatives are asked for."""
    return x.copy() if device.is_array(x) else x


def _hessian(fun: Any, paired: Any, made: Any, chosen: Any, at: Any, known: Any) -> Any:
    """Second derivatives where the value was computed, by the variables of the gradient."""
    args, variables = at
    second, value = hessian(paired, chosen, has_aux=True)(*args, **variables)
    again = known
    if not all(isinstance(x, core.Tracer) for x in tree_flatten(known)[0]):
        gradient, y = made(*args, **variables)  # the same passes: rounded in the same way
        again = y, gradient
    for what, before, now in zip(("value", "gradient"), known, again, strict=True):
        if not _agree(before, now):
            raise DerivativeError(
                f"{name_of(fun)} has another {what} than when its gradient was computed: "
                "something that it reads was changed.",
                "Ask for .hessian before, or pass what changes as an argument.",
            )
    if not isinstance(chosen, tuple) or not variables:
        return second
    tree = tree_flatten(value)[1]
    inner = {name: tree_flatten(x)[1] for name, x in variables.items()}
    return tree.unflatten(
        [
            {
                name: inner[name].unflatten(
                    [
                        None if columns is None else dict(zip(chosen, columns, strict=True))
                        for columns in _below(inner[name], b)
                    ]
                )
                for name, b in zip(chosen, rows, strict=True)
            }
            for rows in _below(tree, second)
        ]
    )


def _agree(before: Any, now: Any) -> bool:
    """Whether two trees are one but for rounding: passes may add up in another order."""
    xs, ys = tree_flatten(before)[0], tree_flatten(now)[0]
    return len(xs) == len(ys) and all(map(_close, xs, ys))


def _close(x: Any, y: Any) -> bool:
    if isinstance(x, core.Tracer) or isinstance(y, core.Tracer):
        return True
    if not device.is_array(x) and not issubclass(type(x), int | float | complex | np.generic):
        return True  # text and other settings
    dtype = typeof(x).dtype
    if typeof(x) != typeof(y) or not is_inexact(dtype):
        return typeof(x) == typeof(y) and bool(np.all(x == y))
    limit = 64 * float(np.finfo(dtype).eps)
    return bool(np.allclose(x, y, rtol=limit, atol=0, equal_nan=True))


def _below(tree: Any, x: Any) -> list[Any]:
    """The subtrees of x at the leaves of a tree."""
    return tree.flatten_up_to(x) if tree.children() else [x]


def _by_name(gradient: Any, value: Any, names: tuple[str, ...]) -> Any:
    """Blocks in the structure of the value, each a tuple: the same with a dict for each tuple."""
    tree = tree_flatten(value)[1]
    return tree.unflatten([dict(zip(names, b, strict=True)) for b in _below(tree, gradient)])


@contextmanager
def _running(trace: core.Trace) -> Generator[None]:
    """As `core.run`, of a block of statements."""
    before = ctx.trace
    ctx.trace = trace
    core.running.add(trace)
    device.watch()
    try:
        yield
        if trace in core.refused:
            raise core.caught(core.refused[trace])
    except Exception as error:
        meant = core.meant_by(error, trace)
        if meant is error:
            raise
        raise meant from None
    finally:
        ctx.trace = before
        core.running.discard(trace)
        core.remember(core.refused.pop(trace, None))


class _Blocks(threading.local):
    """The blocks that are open in this thread, outermost first."""

    def __init__(self) -> None:
        self.open: list[Track] = []


_blocks: Final = _Blocks()


class Track:
    """A block in which gradients of expressions are known; `track` makes it."""

    def __init__(self, variables: dict[str, Any]) -> None:
        self._given = variables
        self._variables: dict[str, Any] = {}
        self._program: Any = None
        self._chosen: Any = None
        self._guard: Any = None

    def __enter__(self) -> Self:
        def block(**variables: Any) -> None: ...

        names = tuple(self._given)
        chosen = ArgumentSelection(block, names, (), self._given)
        leaves, tree = differentiable("The gradient", block, chosen, False, False)
        self._program = program = Linearization(leaves)
        self._variables = dict(zip(names, tree.unflatten(program.inputs)[0], strict=True))
        self._chosen = chosen
        self._guard = _running(program.jvp)
        self._guard.__enter__()
        _blocks.open.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _blocks.open.remove(self)
        try:
            self._guard.__exit__(kind, error, traceback)
        finally:
            self._program.end(finished=error is None, outlives=False, error=error)

    def __getattr__(self, name: str) -> Any:
        variables = self.__dict__.get("_variables", {})
        if name in variables:
            return variables[name]
        given = ", ".join(self.__dict__.get("_given", ())) or "none"
        raise AttributeError(
            f"track has no variable {name!r}; it has {given}"
            + ("." if variables else ", inside of `with track(...) as t`.")
        )

    def gradient_of(self, y: Any) -> Any:
        """The gradient of an expression by the variables of this block.

        Args:
            y: an array or number that was computed in the block, or a container of these.

        Returns:
            By one variable the gradient itself, by several a dict by their names. Of a number it
            has the shapes of the variables, of an array the Jacobian's, `y.shape + x.shape`, of a
            container its structure. In a block inside of others it is an expression of these.

        Raises:
            UnexpectedTracerError: outside of the block, or inside of another transformation.
            DtypeError: y is complex, or no array.
        """
        program = self._open("gradient_of")
        leaves, tree = tree_flatten(y)
        ctx.trace, before = program.jvp.parent, ctx.trace
        try:
            with quietly():
                values, tape = program.tape(leaves)
                blocks = self._blocks(values, tape)
        finally:
            ctx.trace = before
        return tree.unflatten(blocks)

    def value_of(self, y: Any) -> Any:
        """An expression without its derivative: it may leave the block."""
        program = self._open("value_of")
        leaves, tree = tree_flatten(y)
        values = [program.jvp.unpack(x)[0] for x in leaves]
        return tree.unflatten(owned(values, program.leaves))

    def result_of(self, y: Any) -> Differentiated:
        """The value of an expression, and its gradient."""
        return Differentiated(self.value_of(y), self.gradient_of(y))

    def _open(self, what: str) -> Any:
        program = self._program
        if program is None or not program.jvp.alive:
            raise UnexpectedTracerError(
                f"{what} was asked of a `track` block that is not open.",
                "Ask inside of `with ftrace.track(x=...) as t:`.",
            )
        if ctx.trace is not program.jvp:
            raise UnexpectedTracerError(
                f"{what} was asked inside of a {ctx.trace.name} that began in the `track` block.",
                "Ask the innermost block, or return the value from the transformed function first.",
            )
        return program

    def _blocks(self, values: list[Any], tape: Any) -> list[Any]:
        avals = []
        for y in values:
            a = typeof(y)
            if a.dtype.kind == "c":
                raise DtypeError(
                    f"gradient_of was asked for that of a complex value, {a!r}.",
                    "Ask for that of its real and its imaginary part.",
                )
            avals.append(a)
        leaves = self._program.leaves
        ((basis, count),) = chunks(avals, None)
        rows = backward_pass(tape, basis, leaves, (count, 0))
        columns = [split_first(r, typeof(x), avals) for r, x in zip(rows, leaves, strict=True)]
        found = []
        for i, a in enumerate(avals):
            if not is_inexact(a.dtype):
                found.append(None)
                continue
            parts = self._chosen.tree.unflatten(owned([c[i] for c in columns], leaves))
            names = tuple(self._given)
            found.append(parts[0] if len(names) == 1 else dict(zip(names, parts, strict=True)))
        return found


def track(**variables: Any) -> Track:
    """Open a block in which the gradient of any expression can be asked for.

    In the block `t.x` is the variable x, and `t.gradient_of(y)` the gradient of an expression;
    `ftrace.gradient_of(y)` is that of the innermost block, also in functions that are called there.
    Blocks nest: the gradient that an inner one gives is an expression of the outer one. Values
    leave a block by `t.value_of(y)` or `t.result_of(y)`. Code in the block is not lifted.

    Args:
        **variables: arrays, numbers, or containers of them.

    Returns:
        A `Track`, for `with`.

    Raises:
        DtypeError: a variable has no derivative, or there is none.

    Example:
        >>> import numpy as np, ftrace
        >>> with ftrace.track(a=7.0) as t:
        ...     r = t.a**2
        ...     value, slope = t.value_of(r), t.gradient_of(r)
        >>> float(value), float(slope)
        (49.0, 14.0)
        >>> with ftrace.track(a=7.0) as t:
        ...     with ftrace.track(a=t.a) as inner:
        ...         slope = inner.gradient_of(inner.a**3)
        ...     second = t.gradient_of(slope)
        >>> float(second)
        42.0

    Source: `track gradient` of pqR (R. Neal, 2019).
    """
    if not variables:
        raise DtypeError("track was given no variable.", "Name them: `with track(x=2.0) as t:`.")
    for name in variables:
        if hasattr(Track, name):
            raise DtypeError(
                f"track cannot have a variable {name!r}, which is a method of the block.",
                f"Call it {name}_ or otherwise.",
            )
    return Track(variables)


def gradient_of(y: Any) -> Any:
    """The gradient of an expression by the variables of the innermost `track` block.

    Args:
        y: as in `Track.gradient_of`.

    Raises:
        UnexpectedTracerError: there is no block.

    Example:
        >>> import ftrace
        >>> with ftrace.track(a=3.0, b=8.0) as t:
        ...     g = ftrace.gradient_of(t.a * t.b + t.a**2)
        >>> float(g["a"]), float(g["b"])
        (14.0, 3.0)
    """
    if not _blocks.open:
        raise UnexpectedTracerError(
            f"gradient_of was given {brief(y)} outside of a `track` block.",
            "Ask inside of `with ftrace.track(x=...) as t:`, or use ftrace.grad.",
        )
    return _blocks.open[-1].gradient_of(y)
