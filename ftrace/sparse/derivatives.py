"""`jacobian`, `hessian`: sparse derivatives by few passes; `pattern`: where they have elements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.calls import brief, name_of, to_transform
from ftrace.api.compiled.compiling import jit
from ftrace.api.derivatives.autodiff import grad, jvp, linearize, vjp
from ftrace.api.derivatives.verifying import DRAWS
from ftrace.api.vmap import vmap
from ftrace.core.avals import strengthen, typeof
from ftrace.core.config import update
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import (
    DerivativeError,
    DtypeError,
    HostMemoryError,
    ShapeError,
    UnexpectedTracerError,
)
from ftrace.core.lazy import lazy
from ftrace.core.naming import Named
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.sparse.building import csr_array
from ftrace.sparse.colouring import Colouring, coloured
from ftrace.sparse.dependence import dependence

_csr = lazy("scipy.sparse", "csr_array")
_issparse = lazy("scipy.sparse", "issparse")
MODES: Final = ("auto", "forward", "reverse")
Function = Callable[..., Any]


def pattern(fun: Function, x: Any, *args: Any, at_point: bool = False, lift: bool = True) -> Any:
    """Where the Jacobian of a function has elements.

    Args:
        fun: of an array `Float[Array, "*n"]`, and others that stay, to one `Float[Array, "*m"]`.
        x: the first argument, of which only shape and dtype matter without `at_point`.
        *args: the others, likewise.
        at_point: leave out what is zero at these arguments in particular: sides of decisions that
            are not taken, products with zero. Else the pattern is right for all arguments.
        lift: whether loops and decisions by traced values are rewritten (`ftrace.lift`).

    Returns:
        A boolean `scipy.sparse.csr_array` of shape (m.size, n.size). It may have elements that are
        always zero, and lacks none.

    Raises:
        DtypeError: x or the result is no array of floats.
        HostMemoryError: the pattern is nearly full, and too large.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.sparse.pattern(np.diff, np.zeros(3)).toarray().astype(int)
        array([[1, 1, 0],
               [0, 1, 1]])
    """
    return _found(to_transform(fun, "sparse.pattern", lift), _floats(x), args, at_point)[0]


def _found(fun: Function, x: Any, args: tuple[Any, ...], at_point: bool) -> tuple[Any, list[Any]]:
    """The pattern, and the captured arrays whose content it may depend on."""
    leaves, tree = tree_flatten(args)

    def pushed(p: Any, t: Any, *rest: Any) -> list[Any]:
        return tree_flatten(jvp(lambda p: fun(p, *tree.unflatten(rest)), (p,), (t,))[1])[0]

    a = strengthen(typeof(x))
    with update(roll=0):  # what depends on what is known best where each iteration stands alone
        jaxpr, captured = trace_to_jaxpr(pushed, [a, a, *map(typeof, leaves)])
    avals = [v.aval for v in jaxpr.outvars]
    if len(avals) != 1 or not is_inexact(avals[0].dtype):
        raise DtypeError(
            f"A sparse derivative needs a function that returns one array of floats, and"
            f" {name_of(fun)} returned {', '.join(map(repr, avals))}.",
            "ftrace.flatten_util.ravel_pytree makes one vector of a container.",
        )
    values = [*captured, x, None, *leaves]
    known = [at_point and not isinstance(v, Tracer) for v in values]
    return dependence(jaxpr, values, known, len(captured) + 1), list(jaxpr.consts)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a sparse derivative is computed; it may be kept, pickled, and given to another call.

    Attributes:
        pattern: a boolean `scipy.sparse.csr_array`.
        colouring: which columns and rows are computed together.
    """

    pattern: Any
    colouring: Colouring

    @property
    def passes(self) -> int:
        """Directional derivatives and pullbacks that one evaluation takes."""
        return self.colouring.forward + self.colouring.reverse


class SparseDerivative(Named):
    """A function that returns a sparse matrix; `jacobian` and `hessian` make it."""

    def __init__(self, fun: Function, mode: str, given: Any, what: str) -> None:
        self.fun, self.mode, self.what, self.given = fun, mode, what, given
        self._compiled: Any = jit(self._matrix)
        self._read: list[tuple[Any, Any]] = []  # captured arrays, and what was in them
        self._probed: set[Any] = set()
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, x: Any, *args: Any) -> Any:
        """The matrix at `x`; `args` are further arguments of the function.

        Returns:
            A `scipy.sparse.csr_array`; in transformed functions an `ftrace.sparse.Sparse`.
        """
        x = _floats(x)
        if isinstance(x, Tracer):
            if self.given is not None:
                self._probe_traced(x, args)
            return self._matrix(x, *args)
        if any(not np.array_equal(array, before) for array, before in self._read):
            self._read.clear()
            self._compiled.clear_cache()
        if self.given is not None:
            self._probe(x, args)
        return self._compiled(x, *args)

    def plan(self, x: Any, *args: Any) -> Plan:
        """The pattern and colouring for arguments like these."""
        given = self.given
        if isinstance(given, Plan):
            return given
        if given is not None:
            places = _given_pattern(given)
        else:
            places, read = _found(self.fun, _floats(x), args, False)
            known = {id(array) for array, _ in self._read}
            fresh = (c for c in read if issubclass(type(c), np.ndarray) and c.flags.writeable)
            self._read += [(c, c.copy()) for c in fresh if id(c) not in known]
        if self.mode == "symmetric":
            if places.shape[0] != places.shape[1]:
                raise ShapeError(
                    f"The pattern of the {self.what} of {name_of(self.fun)} has shape "
                    f"{places.shape}, and a Hessian is square.",
                    "Leave the pattern out, or make it by ftrace.sparse.pattern(grad(f), x).",
                )
            places = (places + places.T).tocsr()
            places.sum_duplicates()
        return Plan(places, coloured(places, self.mode))

    def _matrix(self, x: Any, *args: Any) -> Any:
        plan = self.plan(x, *args)
        p = plan.pattern
        return csr_array((_data(self.fun, plan, x, args), p.indices, p.indptr), shape=p.shape)

    def _probe(self, x: Any, args: tuple[Any, ...]) -> None:
        """Refuse a pattern of the user's that lacks elements, once for each shape and dtype."""
        key = x.shape, x.dtype
        if key not in self._probed:
            self._probe_at(x, args)
            self._probed.add(key)

    def _probe_traced(self, x: Tracer, args: tuple[Any, ...]) -> None:
        """As `_probe`, where there are no values: they are drawn, unless the pattern has it all."""
        a = typeof(x)
        key = a.shape, a.dtype
        if key in self._probed:
            return
        if self._lacks_nothing(x, args):
            self._probed.add(key)
            return
        leaves, tree = tree_flatten((x, *args))
        values = [v.known(exact=False) if isinstance(v, Tracer) else v for v in leaves]
        before, ctx.trace = ctx.trace, EVAL
        try:
            for draw in DRAWS:
                rng = np.random.default_rng(0)
                pairs = zip(values, leaves, strict=True)
                point = [draw(rng, typeof(t)) if v is UNKNOWN else v for v, t in pairs]
                drawn, *others = tree.unflatten(point)
                self._probe_at(drawn, tuple(others))
        except UnexpectedTracerError:
            raise DerivativeError(
                f"The pattern of the {self.what} of {name_of(self.fun)} may lack elements, and the "
                "function reads traced values from outside: it cannot be tried here.",
                "Pass what it reads as arguments, call it once outside of transformations, or "
                "leave the pattern out.",
            ) from None
        finally:
            ctx.trace = before
        self._probed.add(key)

    def _lacks_nothing(self, x: Any, args: tuple[Any, ...]) -> bool:
        """Whether the pattern has every element that there can be."""
        try:
            places = _found(self.fun, x, args, False)[0]
        except HostMemoryError:
            return False
        given = self.plan(x, *args).pattern
        return given.shape == places.shape and places.multiply(given).nnz == places.nnz

    def _probe_at(self, x: Any, args: tuple[Any, ...]) -> None:
        """Refuse a pattern that lacks elements, as a random product shows."""
        out, p = typeof(self.fun(x, *args)), self.plan(x).pattern
        if p.shape != (out.size, x.size):
            raise ShapeError(
                f"The pattern has shape {p.shape}, and the {self.what} of {name_of(self.fun)}"
                f" {(out.size, x.size)}.",
                "Leave the pattern out, or make it by ftrace.sparse.pattern.",
            )
        v = np.random.default_rng(0).standard_normal(x.shape).astype(x.dtype)
        found = self._compiled(x, *args) @ v.reshape(-1)
        wanted = jvp(lambda x: self.fun(x, *args), (x,), (v,))[1].reshape(-1)
        close = np.finfo(x.dtype).eps ** 0.5 * max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
        if not np.allclose(found, wanted, rtol=0.0, atol=close, equal_nan=True):
            worst = int(np.argmax(np.abs(found - wanted)))
            raise DerivativeError(
                f"The pattern lacks elements: row {worst} of the {self.what} of {name_of(self.fun)}"
                " times a random vector is another number without them.",
                "Leave the pattern out: it is found by ftrace.sparse.pattern.",
            )


def _data(fun: Function, plan: Plan, x: Any, args: tuple[Any, ...]) -> Any:
    """The elements of a sparse derivative, in the order of its pattern."""
    f = lambda p: fnp.reshape(fun(p, *args), -1)  # noqa: E731
    colouring, (m, n) = plan.colouring, plan.pattern.shape
    parts = []
    if colouring.forward:
        _, push = linearize(f, x)
        seeds = _one_hot(colouring.columns, colouring.forward, x.dtype)
        parts.append(fnp.reshape(vmap(push)(seeds.reshape(-1, *x.shape)), -1))
    if colouring.reverse:
        y, pull = vjp(f, x)
        seeds = _one_hot(colouring.rows, colouring.reverse, y.dtype)
        parts.append(fnp.reshape(vmap(lambda ct: pull(ct)[0])(seeds), -1))
    coo = plan.pattern.tocoo()
    i = np.where(colouring.mirrored, coo.col, coo.row)
    j = np.where(colouring.mirrored, coo.row, coo.col)
    by_columns = colouring.columns[j] * m + i
    by_rows = colouring.forward * m + colouring.rows[i] * n + j
    if not parts:
        return fnp.zeros(0, x.dtype)
    computed = parts[0] if len(parts) == 1 else fnp.concatenate(parts)
    places = np.where(colouring.by_rows, by_rows, by_columns)
    return fnp.take(computed, places, mode="clip")  # all are inside: nothing is to be checked


def _one_hot(colours: Any, count: int, dtype: Any) -> Any:
    """For each colour the vector with ones where it is."""
    return (colours == np.arange(count)[:, None]).astype(dtype)


def jacobian(
    fun: Function, *, mode: str = "auto", pattern: Any = None, lift: bool = True
) -> SparseDerivative:
    """Make a function that returns the Jacobian as a sparse matrix, by few directional derivatives.

    The pattern is found at the first call with an argument of some shape (`ftrace.sparse.pattern`),
    coloured, and kept; each call is then one compiled program.

    Args:
        fun: of an array `Float[Array, "*n"]`, and others that stay, to an array.
        mode: "forward", "reverse", or "auto": what takes the fewest passes, also a few rows by
            reverse and the rest by forward mode.
        pattern: where there are elements, if that is known: a sparse matrix, or a `Plan` of another
            call (`jacobian(f).plan(x)`).
        lift: as in `pattern`.

    Returns:
        A function of the arguments of `fun` that returns a `scipy.sparse.csr_array` of shape
        (m.size, n.size); in transformed functions an `ftrace.sparse.Sparse`.

    Raises:
        DtypeError: an argument or the result is no array of floats, or another mode.
        ShapeError, DerivativeError: the pattern given has another shape, or lacks elements, as one
            product with random numbers shows (where x is traced, of random x).
        HostMemoryError: the function mixes all of its elements, and they are too many.

    Example:
        >>> import numpy as np, ftrace
        >>> J = ftrace.sparse.jacobian(lambda x: x[1:] * x[:-1])
        >>> J(np.array([1.0, 2.0, 3.0])).toarray()
        array([[2., 1., 0.],
               [0., 3., 2.]])
        >>> J.plan(np.zeros(3)).passes
        2

    Source: Curtis, Powell and Reid, On the Estimation of Sparse Jacobian Matrices, 1974.
    """
    fun = to_transform(fun, "sparse.jacobian", lift)
    if mode not in MODES:
        raise DtypeError(
            f"mode must be one of {MODES}, not {brief(mode)}.", 'Leave it out for "auto".'
        )
    return SparseDerivative(fun, mode, pattern, "Jacobian")


def hessian(fun: Function, *, pattern: Any = None, lift: bool = True) -> SparseDerivative:
    """Make a function that returns the Hessian as a sparse matrix, by few products with vectors.

    Args:
        fun: of an array `Float[Array, "*n"]`, and others that stay, to a scalar.
        pattern, lift: as in `jacobian`.

    Returns:
        A function of the arguments of `fun` that returns a symmetric `scipy.sparse.csr_array` of
        shape (n.size, n.size).

    Raises:
        DtypeError, ShapeError, DerivativeError, HostMemoryError: as `jacobian`.

    Example:
        >>> import numpy as np, ftrace
        >>> H = ftrace.sparse.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))
        >>> H(np.array([1.0, 2.0, 3.0])).toarray()
        array([[4., 2., 0.],
               [2., 6., 4.],
               [0., 4., 0.]])

    Source: Gebremedhin, Tarafdar, Manne and Pothen, New Acyclic and Star Coloring Algorithms with
    Application to Computing Hessians, 2007.
    """
    return SparseDerivative(
        grad(to_transform(fun, "sparse.hessian", lift)), "symmetric", pattern, "Hessian"
    )


def _floats(x: Any) -> Any:
    x = x if isinstance(x, Tracer) else np.asarray(x)
    if not is_inexact(x.dtype):
        raise DtypeError(
            f"A sparse derivative needs an argument of floats, not {typeof(x)!r}.",
            "Convert it: np.asarray(x, float).",
        )
    return x


def _given_pattern(given: Any) -> Any:
    if not _issparse(given) and not issubclass(type(given), np.ndarray):
        raise DtypeError(
            f"pattern must be a sparse matrix, an array or a Plan, not {brief(given)}.",
            "Make it by ftrace.sparse.pattern(f, x), or leave it out.",
        )
    if given.ndim != 2:
        raise ShapeError(
            f"pattern must be a matrix, and has shape {given.shape}.",
            "It has a row for each element of the result, and a column for each of the argument.",
        )
    made = _csr(given)
    made.sum_duplicates()
    return _csr((np.ones(made.nnz, bool), made.indices, made.indptr), shape=made.shape)
