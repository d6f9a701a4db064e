"""The cases of the generated tests: every row of the table with some of its samples.

A run takes six samples of each row: the first, and others that a seed chooses, which the run prints
and FTRACE_LAWS_SEED repeats. `FTRACE_LAWS=all` takes every sample, `FTRACE_LAWS=fast` two of them,
and `FTRACE_LAWS_ROWS=sin,add` only those rows (`tools/mutate.py` asks for all samples of the rows
that a change can reach). `FTRACE_LAWS_MODULE=some.module` takes the rows of that module in place of
those of the table: of one that holds jaxprs, or of a user's. Random directions are seeded by the
row's name, so a failure repeats. One table says how closely numbers must agree, and why.
"""

import importlib
import os
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives.linear import PYTHON_SCALARS
from ftrace.primitives.table import ALL

LAWS = os.environ.get("FTRACE_LAWS", "")
FAST = LAWS == "fast"
KEPT = 6
SEED = os.environ.get("FTRACE_LAWS_SEED", "0")  # tests/conftest.py chooses one
_WANTED = os.environ.get("FTRACE_LAWS_ROWS")
_MODULE = os.environ.get("FTRACE_LAWS_MODULE")
_FOUND = (
    ALL
    if _MODULE is None
    else tuple(
        v
        for v in vars(importlib.import_module(_MODULE)).values()
        if isinstance(v, Primitive) and [*v.samples()]
    )
)
ROWS = tuple(row for row in _FOUND if _WANTED is None or row.name in _WANTED.split(","))

# How closely two ways to the same number agree, relative to the largest number involved.
# Rounding of a short sum of products is a few units in the last place: 2^-11, 2^-24, 2^-53.
ROUNDING = {2: 4e-3, 4: 2e-5, 8: 1e-12}
# Central differences with step 1e-4, extrapolated once: the truncation error is about 1e-16
# times the fifth derivative, and rounding divided by the step gives about 1e-12. Derivatives of
# second order divide by the step a second number that has only rounding errors. The bound
# leaves room for samples close to a singularity.
DIFFERENCES = 1e-6
STEP = 1e-4
# Where results are rounded to single precision only a long step tells; such rows are linear.
LONG_STEP = 0.25


@dataclass(frozen=True)
class Case:
    """A row and one of its samples."""

    row: Primitive
    sample: Sample

    @property
    def args(self) -> tuple[Any, ...]:
        return self.sample.args

    @cached_property
    def avals(self) -> tuple[ShapedArray, ...]:
        return tuple(typeof(a) for a in self.args)

    @cached_property
    def differentiable(self) -> tuple[int, ...]:
        """The operands that have tangents."""
        return tuple(i for i, a in enumerate(self.avals) if dtypes.is_inexact(a.dtype))

    @cached_property
    def double(self) -> bool:
        """Whether all floats among the operands are of double precision."""
        return is_double(self.avals)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(self.row.name.encode()))

    def flat(self, *args: Any) -> list[Any]:
        """The row as a function of flat values to a list of results."""
        result = self.row(*args, **self.sample.params)
        return list(result) if self.row.multiple else [result]

    def types(self, *avals: ShapedArray) -> list[ShapedArray]:
        """What the type rule says, as a list."""
        result = self.row.type(*avals, **self.sample.params)
        return list(result) if self.row.multiple else [result]

    @property
    def name(self) -> str:
        params = [f"{k}={_short(v)}" for k, v in sorted(self.sample.params.items())]
        return "-".join([self.row.name, *map(repr, self.avals), *params])[:90]


def is_double(avals: Iterable[ShapedArray]) -> bool:
    """Whether all floats are of double precision."""
    sizes = {"f": 8, "c": 16}
    return all(a.dtype.itemsize == sizes.get(a.dtype.kind, a.dtype.itemsize) for a in avals)


def _short(value: Any) -> str:
    text = value.name if isinstance(value, np.dtype) else repr(value)
    return text.replace(" ", "")


def samples_of(row: Primitive) -> list[Sample]:
    """Samples of a row: as many as this run takes."""
    found = list(row.samples())
    if FAST and len(found) > 2:
        return [found[0], found[len(found) // 2]]
    if LAWS == "all" or len(found) <= KEPT:
        return found
    chosen = random.Random(f"{SEED} {row.name}").sample(found[1:], KEPT - 1)
    return [found[0], *(s for s in found if any(s is c for c in chosen))]


CASES = tuple(Case(row, sample) for row in ROWS for sample in samples_of(row))
# Rows whose complex results have phases that mean nothing: neither have derivatives of them, which
# reverse mode refuses. tests/primitives/test_decompositions.py has what does not depend on them.
PHASES = {"eigh", "svd"}
DIFFERENTIABLE = tuple(
    c
    for c in CASES
    if c.row.jvp is not NONDIFFERENTIABLE
    and not isinstance(c.row.jvp, Unsupported)
    and c.differentiable
    and not (c.row.name in PHASES and any(a.dtype.kind == "c" for a in c.avals))
)


def parametrised(name: str, values: Iterable[Any], ids: Callable[[Any], str]) -> Any:
    """`pytest.mark.parametrize` with an id for each value."""
    values = list(values)
    return pytest.mark.parametrize(name, values, ids=[ids(v) for v in values])


def over_cases(cases: Iterable[Case] = CASES) -> Any:
    """Run a test for each case."""
    return parametrised("case", cases, lambda c: c.name)


def over_operands(cases: Iterable[Case], operands: Callable[[Case], Iterable[Any]]) -> Any:
    """Run a test for each case and each choice of operands."""
    pairs = [(case, choice) for case in cases for choice in operands(case)]
    names = [f"{case.name}-{_short(choice)}" for case, choice in pairs]
    return pytest.mark.parametrize(("case", "operands"), pairs, ids=names)


# ---------------------------------------------------------------------------------- values


def random_like(rng: np.random.Generator, a: ShapedArray) -> Any:
    """A random value of an aval: a tangent or a cotangent."""
    values = np.asarray(rng.uniform(-1, 1, a.shape))
    if a.dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, a.shape)
    return np.asarray(values).astype(a.dtype)[()]


def directions(case: Case, active: Sequence[int], rng: np.random.Generator) -> list[Any]:
    """A random tangent for each active operand, symbolic zeros for the others."""
    return [random_like(rng, a) if i in active else ZERO for i, a in enumerate(case.avals)]


def moved(args: Sequence[Any], tangents: Sequence[Any], step: float) -> list[Any]:
    """The operands moved along a direction; Python scalars stay Python scalars."""
    return [
        a if t is ZERO else (type(a)(a + step * t) if type(a) in PYTHON_SCALARS else a + step * t)
        for a, t in zip(args, tangents, strict=True)
    ]


def difference(
    f: Callable[..., list[Any]], args: Sequence[Any], tangents: Sequence[Any], width: float = STEP
) -> list[Any]:
    """The derivative of `f` along a direction, by central differences extrapolated once."""

    def central(step: float) -> list[Any]:
        after, before = f(*moved(args, tangents, step)), f(*moved(args, tangents, -step))
        return [(a - b) / (2 * step) for a, b in zip(after, before, strict=True)]

    pairs = zip(central(width), central(width / 2), strict=True)
    return [(4 * fine - coarse) / 3 for coarse, fine in pairs]


def materialised(tangents: Sequence[Any], primals: Sequence[Any]) -> list[Any]:
    """Tangents with symbolic zeros made real."""
    return [instantiate(t, p) for t, p in zip(tangents, primals, strict=True)]


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real part of the bilinear product of two lists of arrays."""
    return float(sum(np.sum(np.real(np.multiply(x, y))) for x, y in zip(xs, ys, strict=True)))


def in_double(value: Any) -> Any:
    """A value with its floats converted to double precision."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc":
        return value.astype("c16" if value.dtype.kind == "c" else "f8")
    return value


# ---------------------------------------------------------------------------------- agreement


def precision(values: Iterable[Any]) -> float:
    """The tolerance of the least precise dtype among some values."""
    sizes = {"f": 1, "c": 2}
    found = [np.asarray(v).dtype for v in values]
    widths = [d.itemsize // sizes[d.kind] for d in found if d.kind in sizes]
    return ROUNDING[min(widths, default=8)]


def assert_close(
    actual: Any, expected: Any, tolerance: float | None = None, message: str = ""
) -> None:
    """Equal shapes and, relative to the largest number, equal values; NaN equals NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{message} shape {actual.shape}, not {expected.shape}"
    if expected.dtype.kind not in "fc" and actual.dtype.kind not in "fc":
        np.testing.assert_array_equal(actual, expected, err_msg=message)
        return
    tolerance = precision((actual, expected)) if tolerance is None else tolerance
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * scale, err_msg=message
    )


def assert_all_close(
    actual: Sequence[Any], expected: Sequence[Any], tolerance: float | None = None
) -> None:
    """`assert_close` for each pair of two lists of the same length."""
    assert len(actual) == len(expected), f"{len(actual)} results, not {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert_close(a, e, tolerance, f"result {i}")


def assert_type(value: Any, expected: ShapedArray, message: str = "") -> None:
    """The value has this shape and dtype."""
    found = typeof(value)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), (
        f"{message} {found}, not {expected}"
    )
