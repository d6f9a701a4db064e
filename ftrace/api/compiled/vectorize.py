"""`vectorize`: a scalar function with native control flow, at every place of arrays, in one kernel.

The function is traced once on numbers; what it closes over becomes operands, and what depends on
these alone is computed outside. Where everything is a number, the result is one row
(control/rows/vectorized.py); a function that works with arrays inside is mapped over all places.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ftrace.api.calls import brief, check_argnums, to_transform
from ftrace.api.compiled.compiling import Options, jit
from ftrace.control.drawing import ELEMENTS
from ftrace.control.functions import (
    Staged,
    argument_avals,
    argument_paths,
    flatten_call,
    name_of,
    parameters,
    stage_function,
)
from ftrace.control.once import Staging, checked
from ftrace.control.rows.partials import Pattern, complex_partials, partials
from ftrace.control.rows.raising import Noted, Several, again, joined, kinds_of, without_errors
from ftrace.control.rows.vectorized import vectorize_call
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError, LiftError, ShapeError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.tree import PyTreeDef, paths
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import zeros
from ftrace.lifting.state.outliving import Outliving
from ftrace.lowering.fusion.fusible import is_scalar_program
from ftrace.primitives.linear import broadcast_in_dim
from ftrace.primitives.shape import reshape

POLICIES = ("auto", "cache", "recompute")


def vectorize(
    fun: Callable[..., Any] | None = None,
    *,
    residuals: str = "auto",
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    lift: bool = True,
) -> Any:
    """Apply a function of numbers at every place of arrays, as one compiled kernel.

    The function is ordinary Python: `if`, `while`, `for`, `break`, early `return`, `math` and
    NumPy functions; every element takes its own way through it. Arguments broadcast as in NumPy,
    and an axis of size 1 is never copied. Its derivative is computed in a kernel, too, whatever
    mode the program around it uses: in forward mode if it loops, else in the shorter mode.

    Args:
        fun: a function of numbers, or containers of them, that returns numbers, or containers of
            them. It may close over arrays, of which it may use elements, and over traced values.
        residuals: what reverse mode keeps: partial derivatives (`"cache"`), or only the
            operands, from which they are computed again (`"recompute"`); `"auto"` takes what
            moves fewer bytes.
        static_argnums, static_argnames: arguments that are Python values, never traced.
        lift: whether native control flow on traced values is rewritten.

    Returns:
        A function of arrays of any shapes that broadcast together, with `fun`'s containers; each
        result has the broadcast shape.

    Raises:
        ShapeError: arguments that do not broadcast; both are named.
        LiftError: something that has no meaning for one element: a result that is not a number,
            a print or callback, state that the elements would have to hand on.
        Exception: what `fun` raises of some element, with the index of the first as a note.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.vectorize
        ... def root(x):
        ...     z = x
        ...     while abs(z * z - x) > 1e-12 * x:
        ...         z = (z + x / z) / 2
        ...     return z
        >>> root(np.array([4.0, 9.0]))
        array([2., 3.])
        >>> ftrace.grad(lambda x: root(x).sum())(np.array([4.0, 9.0]))
        array([0.25      , 0.16666667])

    Source: J. Revels et al., Dynamic Automatic Differentiation of GPU Broadcast Kernels (2018).
    """
    static: Any = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    if fun is None:
        return functools.partial(vectorize, residuals=residuals, lift=lift, **static)
    scalar = to_transform(fun, "vectorize", lift)
    options = Options(fun, static_argnums, static_argnames, None, False, lift)
    return jit(_everywhere(fun, residuals, scalar, options), lift=lift, **static)


def _everywhere(
    fun: Callable[..., Any], residuals: str, scalar: Any, options: Options
) -> Callable[..., Any]:
    """`fun` at every place, with the signature of `fun`."""
    if residuals not in POLICIES:
        raise ShapeError(
            f"residuals={residuals!r} of vectorize is none of {', '.join(map(repr, POLICIES))}.",
            "'auto' chooses by the bytes that each moves.",
        )

    @functools.wraps(fun)
    def everywhere(*args: Any, **kwargs: Any) -> Any:
        call = _Call(scalar, args, kwargs, options)
        return call.tree.unflatten(call.run(residuals))

    return everywhere


def elementwise_partials(
    fun: Callable[..., Any], *, argnums: Any = None, holomorphic: bool = False
) -> Callable[..., Any]:
    """Results and all partial derivatives of a scalar function at every place of arrays.

    One kernel computes the M results and the N x M partials of each element, if all are real
    numbers; those that the caller's compiled program does not use are left out.

    Args:
        fun: as for `vectorize`.
        argnums: positions or names of the arguments by which to differentiate; all by default.
        holomorphic: complex results are complex-analytic functions of complex arguments.

    Returns:
        A function that gives `(ys, partials)`: for each result (in its containers) a tuple with,
        for each argument, an array (or containers of arrays) of the broadcast shape. The partial
        of a real result by a complex number x + iy is d/dx - i d/dy, as the gradient is.

    Raises:
        DtypeError: a complex result by a complex argument, without `holomorphic`.
        ShapeError, LiftError: as `vectorize`.

    Example:
        >>> import numpy as np, ftrace
        >>> f = ftrace.elementwise_partials(lambda x, y: x * x * y)
        >>> y, (dx, dy) = f(np.array([1.0, 2.0]), 3.0)
        >>> y, dx, dy
        (array([ 3., 12.]), array([ 6., 12.]), array([1., 4.]))

    Source: J. Revels et al., Dynamic Automatic Differentiation of GPU Broadcast Kernels (2018).
    """
    scalar = to_transform(fun, "elementwise_partials", True)
    options = Options(fun, None, None, None, False, True)

    @functools.wraps(fun)
    def everywhere(*args: Any, **kwargs: Any) -> Any:
        call = _Call(scalar, args, kwargs, options)
        return call.with_partials(argnums, holomorphic)

    return jit(everywhere)


class _Program(NamedTuple):
    """What is computed for each element.

    Attributes:
        jaxpr: (what is the same for all, leaves of the arguments) -> leaves of the result.
        shared: what is the same for all.
    """

    jaxpr: Jaxpr
    shared: list[Any]


class _Call:
    """One call: the arguments, the shape they broadcast to, and the function traced on numbers."""

    def __init__(
        self, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
    ) -> None:
        self.fun, self.static = fun, sorted(options.nums)
        traced, args, kwargs, _ = options.bind(fun, args, kwargs)
        self.leaves, self.in_tree = flatten_call(args, kwargs)
        avals = argument_avals(fun, self.leaves, self.in_tree, self.static)
        self.shape = self._broadcast(avals)
        self.scalars = [a if a.weak else aval((), a.dtype) for a in avals]
        state = Outliving.of(fun)

        def attempt() -> Staged:
            staged = stage_function(traced, self.in_tree, self.scalars)
            if state is not None:
                state.check_members()
            return staged

        try:
            staged = checked(Staging(attempt), traced, ELEMENTS)
        except LiftError:
            if state is not None:
                state.check_members(matters=True)
            raise
        self.tree: PyTreeDef = staged.out_tree
        jaxpr, self.errors = without_errors(staged.jaxpr)
        self.count = len(staged.jaxpr.outvars)
        self._check(jaxpr)
        self.program = _hoisted(jaxpr, staged.captured)

    def _broadcast(self, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
        shape: tuple[int, ...] = ()
        for i, a in enumerate(avals):
            try:
                shape = np.broadcast_shapes(shape, a.shape)
            except ValueError:
                names = argument_paths(self.fun, self.in_tree, self.static)
                raise ShapeError(
                    f"vectorize: {names[i]} of {name_of(self.fun)} has shape {a.shape}, which does "
                    f"not broadcast with {shape}, the shape of the arguments before it.",
                    "Axes are aligned at the last one; each pair must be equal or have a 1.",
                ) from None
        return shape

    def _check(self, jaxpr: Jaxpr) -> None:
        for a, path in zip(jaxpr.out_avals, paths(self.tree, "the result"), strict=False):
            if a.shape:
                raise LiftError(
                    f"vectorize: {path} of {name_of(self.fun)} is {a}, not a number.",
                    "The function computes one element: return numbers, several of them as a "
                    "tuple; use vmap for functions of rows.",
                )
        if jaxpr.effects:
            raise LiftError(
                f"vectorize: {name_of(self.fun)} has an effect ({', '.join(jaxpr.effects)}).",
                "Elements are computed together and in no order: take prints and callbacks out, "
                "or use vmap.",
            )

    def run(self, keep: str) -> list[Any]:
        """The results everywhere."""
        jaxpr, shared = self.program
        if not _is_kernel(jaxpr, shared):
            return self._noted(self._mapped(jaxpr))
        operands = [self._stretched(x) for x in (*shared, *self.leaves)]
        outs = vectorize_call(*operands, jaxpr=self._flagged(), active=(), keep=keep)
        return self._checked(outs, operands)

    # --- errors

    def _flagged(self) -> Jaxpr:
        """The results of one element, and whether it has an error, if any may."""
        if not self.errors:
            return self.program.jaxpr

        def flagged(*xs: Any) -> list[Any]:
            outs = eval_jaxpr(self.program.jaxpr, xs)
            return [*outs[: self.count], joined([e.noted(outs) for e in self.errors]).bad]

        return trace_closed(flagged, self.program.jaxpr.in_avals)

    def _checked(self, outs: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The results; the first element that has an error is computed again to say which."""
        if self.errors:
            jaxpr, errors = self.program.jaxpr, self.errors

            def throw(xs: Sequence[Any], index: tuple[int, ...]) -> None:
                with quietly():
                    found = eval_jaxpr(jaxpr, xs)
                for noted in (e.noted(found) for e in errors):
                    if noted.bad:
                        noted.thrower(noted.values, index)

            thrower = Several(throw, kinds_of(e.thrower for e in errors))
            again(Noted(outs[self.count], operands, thrower))
        return list(outs[: self.count])

    def _stretched(self, x: Any) -> Any:
        shape = typeof(x).shape
        if shape == self.shape:
            return x
        kept = tuple(range(len(self.shape) - len(shape), len(self.shape)))
        return broadcast_in_dim(x, shape=self.shape, broadcast_dimensions=kept)

    def _mapped(self, jaxpr: Jaxpr) -> list[Any]:
        """For functions that work with arrays inside: every place is a member of a batch."""
        shared = self.program.shared
        size = int(np.prod(self.shape, dtype=int))
        flat = [reshape(self._stretched(x), new_sizes=(size,)) for x in self.leaves]
        axis = Axis(size, None)
        dims = [*(None for _ in shared), *(0 for _ in flat)]
        found = batch_flat(lambda *xs: eval_jaxpr(jaxpr, xs), axis, [*shared, *flat], dims)
        placed = [place_axis(y, d, axis, 0) for y, d in zip(*found, strict=True)]
        return [reshape(y, new_sizes=(*self.shape, *typeof(y).shape[1:])) for y in placed]

    def _noted(self, outs: list[Any]) -> list[Any]:
        """The results of `_mapped`; an error of a member is raised."""
        if self.errors:
            again(joined([e.noted(outs) for e in self.errors]))
        return outs[: self.count]

    # --- partials

    def with_partials(self, argnums: Any, holomorphic: bool) -> tuple[Any, Any]:
        """Results, and for each of them the partials by each argument."""
        jaxpr, shared = self.program
        args = self.in_tree.children()[0].children()
        chosen = range(len(args)) if argnums is None else _numbers(self.fun, argnums, len(args))
        first = [0]
        for part in args:
            first.append(first[-1] + part.num_leaves)
        wanted = {i for n in chosen for i in range(first[n], first[n + 1])}
        count = len(shared)
        active = (False,) * count + tuple(
            i in wanted and is_inexact(a.dtype) for i, a in enumerate(self.scalars)
        )
        if _is_kernel(jaxpr, shared):
            flagged = self._flagged()
            computed, pattern = partials(flagged, active)
            operands = [self._stretched(x) for x in (*shared, *self.leaves)]
            found = vectorize_call(*operands, jaxpr=computed, active=(), keep="auto")
            slopes = found[len(flagged.outvars) :]
            outs = self._checked(found, operands)
        else:
            computed, pattern = complex_partials(jaxpr, active, self.count)
            if not holomorphic:
                self._check_real(pattern)
            found = self._mapped(computed)
            slopes = found[len(jaxpr.outvars) :]
            outs = self._noted(found)
        known = dict(zip(pattern, slopes, strict=True))

        def partial(j: int, i: int) -> Any:
            found = known.get((j, count + i))
            if found is not None:
                return found
            by, of = self.scalars[i].dtype, typeof(outs[j]).dtype
            return zeros(aval(self.shape, np.result_type(of, by) if by.kind == "c" else of))

        rows = [
            tuple(
                args[n].unflatten([partial(j, i) for i in range(first[n], first[n + 1])])
                for n in chosen
            )
            for j in range(self.count)
        ]
        return self.tree.unflatten(outs), self.tree.unflatten(rows)

    def _check_real(self, pattern: Pattern) -> None:
        """Raise where one number cannot say how a complex one moves: it moves in two directions."""
        jaxpr = self.program.jaxpr
        pairs = [(jaxpr.out_avals[j].dtype.kind, jaxpr.in_avals[i].dtype.kind) for j, i in pattern]
        if ("c", "c") in pairs:
            raise DtypeError(
                f"elementwise_partials: {name_of(self.fun)} has a complex result that depends on a "
                "complex argument.",
                "For a complex-analytic function pass holomorphic=True; otherwise take a function "
                "of the real and the imaginary part, or let it return these.",
            )


def _numbers(fun: Any, argnums: Any, count: int) -> tuple[int, ...]:
    wanted: Any = check_argnums("elementwise_partials", argnums)
    known = parameters(fun)
    given: tuple[Any, ...] = wanted if isinstance(wanted, tuple) else (wanted,)
    given = tuple(known.index(n) if n in known else n for n in given)
    if not all(issubclass(type(n), int) and -count <= n < count for n in given):
        raise ShapeError(
            f"argnums of elementwise_partials is {brief(argnums)}; there are {count} arguments.",
            "Count positional arguments from 0, or give their names.",
        )
    return tuple(n % count for n in given)


def _is_kernel(jaxpr: Jaxpr, shared: Sequence[Any]) -> bool:
    """Whether one element is numbers all through; partials are by real numbers."""
    real = all(a.dtype.kind != "c" for a in (*jaxpr.in_avals, *jaxpr.out_avals))
    return real and is_scalar_program(jaxpr)


def _hoisted(jaxpr: Jaxpr, captured: Sequence[Any]) -> _Program:
    """The function with what depends on captured values alone computed outside."""
    if not captured:
        return _Program(jaxpr, [])
    n = len(captured)
    known: set[Any] = set(jaxpr.invars[:n])
    outer, inner = [], []
    for eqn in jaxpr.eqns:
        read = [a for a in eqn.invars if type(a) is Var]
        if all(a in known for a in read):
            outer.append(eqn)
            known.update(eqn.outvars)
        else:
            inner.append(eqn)
    used = {a for e in inner for a in e.invars if type(a) is Var} | set(jaxpr.outvars)
    passed = [v for v in (*jaxpr.invars[:n], *(v for e in outer for v in e.outvars)) if v in used]
    shared = eval_jaxpr(Jaxpr(jaxpr.invars[:n], outer, passed), captured)
    return _Program(Jaxpr([*passed, *jaxpr.invars[n:]], inner, jaxpr.outvars), shared)
