"""Numerical derivatives along a direction, and whether a derivative agrees with them.

Central differences are extrapolated (Ridders 1982, "Accurate computation of F'(x) and F'(x)F''(x)",
after Richardson) and say how far they can be trusted. Everything here runs on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.control.functions import Apart, flatten_call, is_no_value
from ftrace.core.avals import typeof
from ftrace.core.device import on_device, to_host
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import ConcretizationTypeError, DerivativeError, DtypeError
from ftrace.core.trace import Tracer
from ftrace.core.tree import paths, tree_flatten, tree_mismatch

TOLERANCE: Final = {2: 5e-2, 4: 5e-3, 8: 1e-6}  # by bytes of the least precise float
WIDTH: Final = 2.0**-6  # the first step, in units of a number's size
SMALL: Final = 1e-2
STEPS: Final = 12
SHRINKING: Final = 1.6  # of steps
KINK: Final = 0.9  # of the last step's difference between the sides
ROUGH: Final = 1e-3  # a part of the derivative: as far as single precision inside may be off

Function = Callable[..., Any]


class UnstableError(DerivativeError):
    """Numerical derivatives cannot tell."""


class Estimate(NamedTuple):
    """A numerical derivative, and how far apart its two best values are."""

    leaves: list[Any]
    error: float


class Point:
    """Arguments as a flat list, of which the floats move.

    Args:
        leaves: the list.
        args: the arguments that other leaves make.

    Raises:
        DtypeError: none is a float.
    """

    def __init__(
        self, leaves: Sequence[Any], args: Callable[[Sequence[Any]], tuple[Any, ...]]
    ) -> None:
        self.leaves, self.args = [host(x) for x in leaves], args
        self.moving = [is_inexact(dtype_of(x)) for x in self.leaves]
        if not any(self.moving):
            raise DtypeError(
                "Derivatives were asked with respect to arguments that hold no float.",
                "Give at least one float, or an array of floats.",
            )

    @classmethod
    def of(cls, args: tuple[Any, ...]) -> Point:
        """The point with these arguments."""
        apart = Apart(*flatten_call(args), is_no_value)
        return cls(apart.leaves, lambda leaves: apart.tree.unflatten(list(leaves))[0])

    def direction(self, rng: np.random.Generator) -> list[Any]:
        """A random tangent for each float, None for the others."""
        return [
            (random_like(rng, x) * size_of(x)).astype(dtype_of(x))[()] if m else None
            for x, m in zip(self.leaves, self.moving, strict=True)
        ]

    def moved(self, tangents: Sequence[Any], step: float) -> tuple[Any, ...]:
        """The arguments along a direction, in double precision."""
        return self.args(
            [
                x if t is None else (wide(x) + step * wide(t))[()]
                for x, t in zip(self.leaves, tangents, strict=True)
            ]
        )


class Comparison:
    """Tolerances, steps and random directions of one check.

    Args:
        atol, rtol: how far apart values may be; by the least precise dtype if not given.
        eps: the first step of differences, relative to the size of each number.
    """

    def __init__(
        self, atol: float | None = None, rtol: float | None = None, eps: float | None = None
    ) -> None:
        self.atol, self.rtol, self.eps = atol, rtol, eps
        self.rng = np.random.default_rng(0)

    def primals(self, f: Function, args: tuple[Any, ...], result: Any, what: str) -> None:
        """Compare a result beside derivatives with the function's own."""
        plain, tree = tree_flatten(f(*args))
        beside, other = tree_flatten(result)
        words = tree_mismatch(tree, other, "result")
        if words:
            raise DerivativeError(
                f"In {what} the function returns another structure than alone: {words}.",
                "The rule must return what the function returns.",
            )
        for path, a, b in zip(
            paths(tree, "result"), map(host, plain), map(host, beside), strict=True
        ):
            if np.shape(a) != np.shape(b) or not self.is_close(b, a, 0.0, [a]):
                raise DerivativeError(
                    f"In {what} the function returns {path} = {_brief(b)}; alone it returns"
                    f" {_brief(a)}.",
                    "The rule must return the value that the function returns.",
                )

    def difference(self, f: Function, point: Point, tangents: Sequence[Any]) -> Estimate:
        """The derivative along a direction."""

        def at(step: float) -> list[Any]:
            return [wide(host(y)) for y in floats(f(*point.moved(tangents, step)))]

        with np.errstate(all="ignore"):
            return _ridders(at, self.eps or WIDTH)

    def compare(self, found: Sequence[Any], expected: Estimate, what: str, result: Any) -> None:
        """Raise where derivatives are apart by more than differences can tell."""
        found = [host(y) for y in found if is_inexact(dtype_of(y))]
        results = [host(y) for y in tree_flatten(result)[0]]
        atol, rtol = self.tolerances([*found, *results])
        size = max(1.0, largest(expected.leaves))
        allowed = max(10 * (atol + rtol * size), ROUGH * size)
        if not np.isfinite(allowed) or expected.error > allowed:
            raise UnstableError(
                f"{what} cannot be checked: numerical derivatives differ by {expected.error:.1e}"
                " from one step, or from one side, to the other.",
                "Choose a point away from kinks and jumps, a smaller `eps`, or a larger `atol`.",
            )
        for i, (a, e) in enumerate(zip(found, expected.leaves, strict=True)):
            if np.shape(a) != np.shape(e) or not self.is_close(a, e, expected.error, results):
                where = f" (result {i})" if len(found) > 1 else ""
                raise DerivativeError(
                    f"{what}{where} is {_brief(a)} in a random direction; by differences it is"
                    f" {_brief(e)}.",
                    "Correct the rule, or allow a larger error by `atol` and `rtol`.",
                )

    def is_close(self, a: Any, e: Any, error: float, results: Sequence[Any]) -> bool:
        """Whether values agree, relative to the largest; NaN equals NaN."""
        atol, rtol = self.tolerances([a, *results])
        a, e = np.asarray(a), np.asarray(e)
        if a.dtype.kind not in "fc" and e.dtype.kind not in "fc":
            return bool(np.array_equal(a, e))
        scale = max(1.0, largest([e])) if self.rtol is None else np.abs(wide(e))
        same = np.isclose(wide(a), wide(e), rtol=0.0, atol=0.0, equal_nan=True)
        return bool(np.all(same | (np.abs(wide(a) - wide(e)) <= atol + rtol * scale + 2 * error)))

    def tolerances(self, values: Iterable[Any]) -> tuple[float, float]:
        """Absolute and relative, by the least precise of some values."""
        dtypes = [dtype_of(v) for v in values]
        sizes = [d.itemsize // (2 if d.kind == "c" else 1) for d in dtypes if d.kind in "fc"]
        usual = TOLERANCE[min(8, min(sizes, default=8))]
        return (
            usual if self.atol is None else self.atol,
            usual if self.rtol is None else self.rtol,
        )


def verify_gradient(
    fun: Function, leaves: Sequence[Any], gradient: Sequence[Any], what: str
) -> None:
    """Compare a gradient with differences of its function, along one direction.

    Args:
        fun: returns the scalar, a function of the leaves.
        leaves: where.
        gradient: what belongs to each; None for what has no derivative.
        what: the function's name.

    Raises:
        DerivativeError: they disagree, or differences cannot tell.
        ConcretizationTypeError: the values are not known, as under `jit`.
    """
    if any(isinstance(x, Tracer) for x in leaves):
        raise ConcretizationTypeError(
            f"The gradient of {what} was asked to verify itself where values are traced.",
            "Verify it outside other transformations: `grad(f, verify=True)(x)`.",
        )
    check = Comparison()
    point = Point(leaves, tuple)
    ts = point.direction(check.rng)
    pairs = [(g, t) for g, t in zip(gradient, ts, strict=True) if t is not None]
    found = product([g for g, _ in pairs], [t for _, t in pairs])
    expected = check.difference(fun, point, ts)
    real = Estimate([np.real(y) for y in expected.leaves], expected.error)
    check.compare([np.asarray(found)], real, f"The gradient of {what}", [g for g, _ in pairs])


def _ridders(at: Callable[[float], list[Any]], width: float) -> Estimate:
    """The derivative of a function of a step at zero, extrapolated from central differences."""
    middle = at(0.0)
    tableau: list[list[Any]] = []
    best, least, gap, before = middle, np.inf, np.inf, np.inf
    for k in range(STEPS):
        step = width / SHRINKING**k
        ahead, behind = at(step), at(-step)
        sides = zip(ahead, middle, behind, strict=True)
        before, gap = gap, largest((a - 2 * m + b) / step for a, m, b in sides)
        row = [[(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]]
        for m in range(1, k + 1):
            factor = SHRINKING ** (2 * m)
            finer, coarser = row[-1], tableau[-1][m - 1]
            pairs = zip(finer, coarser, strict=True)
            row.append([(factor * a - b) / (factor - 1) for a, b in pairs])
            error = max(_apart(row[m], finer), _apart(row[m], coarser))
            if error <= least:
                best, least = row[m], error
        if k and _apart(row[-1], tableau[-1][-1]) > 2 * least:
            break  # rounding has taken over
        tableau.append(row)
    # What one side differs from the other shrinks with the step, but not at a kink.
    return Estimate(best, max(least, gap) if gap > KINK * before else least)


def _apart(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return largest([x - y for x, y in zip(xs, ys, strict=True)])


# --- numbers


def host(x: Any) -> Any:
    """A value, copied from a device if it is there."""
    return to_host(x) if on_device(x) else x


def dtype_of(x: Any) -> np.dtype[Any]:
    """The dtype of an array or number."""
    return np.dtype(x.dtype) if hasattr(x, "dtype") else np.asarray(x).dtype


def size_of(x: Any) -> Any:
    """By how much a number may move: by its own size, so that it stays in a function's domain."""
    size = np.abs(wide(x))
    return np.where(size == 0, 1.0, np.maximum(size, SMALL))


def wide(x: Any) -> Any:
    """A value in double precision."""
    return np.asarray(
        x,
        np.result_type(np.float64, dtype_of(x))
        if dtype_of(x).kind != "f" or dtype_of(x).itemsize <= 8
        else None,
    )


def random_like(rng: np.random.Generator, x: Any) -> Any:
    """Normal numbers like a value, none of them near zero."""
    values = rng.standard_normal(np.shape(x))
    values = np.asarray(values + np.copysign(0.1, values))
    if dtype_of(x).kind == "c":
        values = values + 1j * rng.standard_normal(np.shape(x))
    return values.astype(dtype_of(x))[()]


def cotangent_like(rng: np.random.Generator, y: Any) -> Any:
    """A random cotangent of a result; None if it has none."""
    y = host(y)
    return random_like(rng, y) if is_inexact(dtype_of(y)) else None


def leaves_of(args: tuple[Any, ...]) -> list[Any]:
    """The leaves of arguments that may be traced."""
    return Apart(*flatten_call(args), is_no_value).leaves


def like(directions: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Directions in the dtypes of what moves along them."""
    return [
        None if t is None else np.asarray(t).astype(typeof(x).dtype)[()]
        for t, x in zip(directions, values, strict=True)
    ]


def floats(tree: Any) -> list[Any]:
    """The leaves that have derivatives."""
    return [x for x in tree_flatten(tree)[0] if is_inexact(dtype_of(x))]


def product(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real part of the bilinear product of two lists of arrays."""
    return float(
        sum(np.sum(np.real(wide(host(x)) * wide(host(y)))) for x, y in zip(xs, ys, strict=True))
    )


def largest(values: Iterable[Any]) -> float:
    """The largest size of a finite number; infinite where something is none."""
    found = 0.0
    for v in values:
        sizes = np.abs(np.asarray(v))
        if sizes.size:
            found = max(found, float(np.max(np.nan_to_num(sizes, nan=np.inf, posinf=np.inf))))
    return found


def _brief(x: Any) -> str:
    text = np.array2string(np.asarray(x), precision=6, threshold=6, edgeitems=2)
    return text.replace("\n", "")
