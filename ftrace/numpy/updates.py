"""`x.at[key].set(v)`: functional updates in JAX's form, for tracers and (`fnp.at`) for arrays.

Every method returns a new array and leaves `x` alone. Indices out of range follow JAX: reads
clip, updates are dropped, unless `mode` says otherwise; a negative index first counts from the
end. Indices are brought into range here, by rows, so that only plain ones reach the gather and
scatter rows. Keys are understood by `indexing.py`.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np

from ftrace.core.avals import check_int, typeof
from ftrace.core.errors import RuleError
from ftrace.numpy import ufuncs
from ftrace.numpy.assigning import assignable, fitted, is_mask, setitem_value
from ftrace.numpy.indexing import Advanced, Plan, advanced, basic
from ftrace.numpy.promote import cast, strong, value
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.elementwise import bitwise_and, clamp, ge, gt, lt, mod, neg, select
from ftrace.primitives.index import scatter, scatter_add
from ftrace.primitives.linear import add, broadcast_in_dim, transpose
from ftrace.primitives.scatter import scatter_max, scatter_min, scatter_mul

Row = Callable[..., Any]
MODES: Final = ("promise_in_bounds", "raise", "clip", "drop", "fill", "wrap")
HINTS: Final = frozenset({"indices_are_sorted", "unique_indices"})
SCATTERS: Final = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "true_divide": "divide",
    "minimum": "min",
    "maximum": "max",
}
"""The method of an update that adds up what a ufunc does at indices."""


def at(x: Any, key: Any = ...) -> Any:
    """Functional updates: `at(x)[key].set(v)` is `x` after `x[key] = v`.

    Args:
        x: an array or tracer.
        key: optionally the key itself, as in array-api-extra: `at(x, key).set(v)`.

    Returns:
        An object to be indexed, whose items have the methods `set`, `add`, `subtract`,
        `multiply`, `divide`, `power`, `min`, `max` and `get`.

    Example:
        >>> import numpy as np, ftrace.numpy as fnp
        >>> fnp.at(np.zeros(3))[1].add(2.0)
        array([0., 2., 0.])
    """
    helper = At(x)
    return helper if key is ... else helper[key]


class At:
    """What `x.at` is: index it."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        if type(array) is int:
            check_int(array, np.iinfo(np.int64).max, "at()")
        self.array = strong(value(array))

    def __getitem__(self, key: Any) -> "Update":
        return Update(self.array, key)


class Update:
    """What `x.at[key]` is: its methods read, or update in a copy, the indexed elements.

    All take `mode` ("promise_in_bounds", "raise", "clip", "drop", "fill", "wrap"), and JAX's
    hints `indices_are_sorted` and `unique_indices`, which change nothing.
    """

    __slots__ = ("array", "key")

    def __init__(self, array: Any, key: Any) -> None:
        self.array = array
        self.key = key

    def get(self, *, mode: str | None = None, fill_value: Any = None, **hints: bool) -> Any:
        """The indexed elements; out of range they are clipped, or `fill_value` (mode "fill")."""
        mode = _checked(mode or "clip", hints)
        x, plan = self.array, self._plan(mode)
        if not isinstance(plan, Advanced):
            y = plan.get(x)
            return copy_row(y) if y is x else y
        if mode not in ("fill", "drop"):
            return _ranged(plan, x, mode).get(x)
        inside = _inside(plan, x)
        y = _ranged(plan, x, "clip").get(x)
        return select(inside, y, filler(typeof(x).dtype, fill_value))

    def set(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with the indexed elements replaced."""
        if is_mask(self.key):
            _checked(mode or "drop", hints)
            return setitem_value(self.array, self.key, values)
        return self._put(assignable(values, self.array.dtype), scatter, mode, hints)

    def add(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with `values` added; an element indexed twice gets both."""
        return self._combine(values, ufuncs.add, scatter_add, mode, hints)

    def subtract(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with `values` subtracted."""
        return self.add(neg(assignable(values, self.array.dtype)), mode=mode, **hints)

    def multiply(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with the indexed elements multiplied by `values`."""
        return self._combine(values, ufuncs.multiply, scatter_mul, mode, hints)

    def divide(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with the indexed elements divided by `values`."""
        return self._through_ones(values, ufuncs.divide, mode, hints)

    def power(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with the indexed elements raised to `values`."""
        return self._through_ones(values, ufuncs.power, mode, hints)

    def min(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with the smaller of the indexed elements and `values`."""
        return self._combine(values, ufuncs.minimum, scatter_min, mode, hints)

    def max(self, values: Any, *, mode: str | None = None, **hints: bool) -> Any:
        """A copy of `x` with the larger of the indexed elements and `values`."""
        return self._combine(values, ufuncs.maximum, scatter_max, mode, hints)

    mul = multiply

    def _plan(self, mode: str) -> Plan:
        """The plan of the key; integers out of range are left to the mode."""
        shape = self.array.shape
        try:
            found = basic(shape, self.key)
        except IndexError:
            if mode in ("raise", "promise_in_bounds"):
                raise
            return advanced(shape, self.key, lenient=True)
        return advanced(shape, self.key, lenient=True) if found is None else found

    def _put(self, v: Any, row: Row, mode: str | None, hints: dict[str, bool]) -> Any:
        mode = _checked(mode or "drop", hints)
        x, plan = self.array, self._plan(mode)
        v = fitted(v, plan)
        if not isinstance(plan, Advanced):
            return plan.put(x, v)
        dropping = mode in ("drop", "fill")
        return _ranged(plan, x, mode).put(x, v, "drop" if dropping else "raise", row)

    def _combine(
        self, values: Any, operate: Row, row: Row, mode: str | None, hints: dict[str, bool]
    ) -> Any:
        """Basic keys and masks name an element once, so they are read, combined and written."""
        x = self.array
        v = assignable(values, x.dtype)
        plan = self._plan(_checked(mode or "drop", hints))
        if not isinstance(plan, Advanced):
            v = operate(plan.get(x), fitted(v, plan))
            return plan.put(x, v)
        return self._put(v, row, mode, hints)

    def _through_ones(
        self, values: Any, operate: Row, mode: str | None, hints: dict[str, bool]
    ) -> Any:
        """As JAX: operate with the product of all values an element gets."""
        x = self.array
        one = x.dtype.type(1)
        ones = broadcast_in_dim(one, shape=x.shape, broadcast_dimensions=()) if x.ndim else one
        factors = Update(ones, self.key).multiply(values, mode=mode, **hints)
        return cast(operate(x, factors), x.dtype)


def _checked(mode: str, hints: dict[str, bool]) -> str:
    if mode not in MODES or not HINTS.issuperset(hints):
        what = f"mode={mode!r}" if mode not in MODES else f"the options {', '.join(hints)}"
        raise RuleError(
            f"x.at[...] was called with {what}.",
            f"Modes are {', '.join(MODES)}; options are {', '.join(sorted(HINTS))}.",
        )
    return mode


def _within_signed(i: Any, size: int) -> Any:
    """Indices that int64 holds: larger ones become others out of range, alike modulo the size."""
    if typeof(i).dtype != np.uint64:
        return i
    n = max(size, 1)
    beyond = n * ((1 << 62) // n)
    larger = add(mod(i, np.uint64(n)), np.uint64(beyond))
    return select(gt(i, np.uint64(np.iinfo(np.int64).max)), larger, i)


def _from_end(plan: Advanced, x: Any) -> list[tuple[Any, int]]:
    """The indices, negative ones counted from the end, each with its axis' size."""
    shape = plan.basic.shape
    found: list[tuple[Any, int]] = []
    for i, axis in zip(plan.indices, plan.axes, strict=True):
        n = shape[axis]
        i = cast(_within_signed(i, n), np.dtype(np.int64))
        found.append((select(lt(i, 0), add(i, n), i), n))
    return found


def _ranged(plan: Advanced, x: Any, mode: str) -> Advanced:
    """The plan with every index in range, or at the axis' size where it is to be dropped."""
    if mode in ("raise", "promise_in_bounds"):
        return plan
    indices: list[Any] = []
    for i, n in _from_end(plan, x):
        if mode == "clip":
            i = clamp(0, i, max(n - 1, 0))
        elif mode == "wrap":
            i = mod(i, max(n, 1))
        else:
            i = select(lt(i, 0), n, i)
        indices.append(i)
    return plan.at(tuple(indices))


def _inside(plan: Advanced, x: Any) -> Any:
    """Which elements of the result were in range, at the result's shape."""
    inside = reduce(bitwise_and, (bitwise_and(ge(i, 0), lt(i, n)) for i, n in _from_end(plan, x)))
    kept = len(typeof(inside).shape)
    gathered = plan.gathered
    inside = broadcast_in_dim(inside, shape=gathered, broadcast_dimensions=tuple(range(kept)))
    return inside if plan.permutation is None else transpose(inside, permutation=plan.permutation)


def filler(dtype: np.dtype[Any], fill_value: Any) -> Any:
    """The value read out of range: NaN, or the least signed and the greatest unsigned integer."""
    if fill_value is not None:
        return dtype.type(fill_value)
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.True_
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if dtype.kind == "i" else limits.max)
