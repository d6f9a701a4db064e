"""Derivatives of plain programs by differences, where they are smooth.

Differences of several step sizes and from both sides must agree, so that a kink, a jump or too
steep a place is passed over and is no false alarm.
"""

import operator
from typing import Any

import numpy as np

from ftrace.tree_util import tree_leaves, tree_map
from tests.fuzz.comparing import Case, Mismatch, Raised, Skip, show


def is_real(x: Any) -> bool:
    """Whether derivatives with respect to a leaf are taken: float64 alone."""
    return isinstance(x, float) or (isinstance(x, np.ndarray) and x.dtype == np.float64)


def differentiable(args: Any) -> tuple[int, ...]:
    """The arguments all of whose leaves are float64."""
    found = tuple(i for i, a in enumerate(args) if all(map(is_real, tree_leaves(a))))
    if not found:
        raise Skip
    return found


def direction(args: Any, nums: tuple[int, ...]) -> Any:
    """A direction for the differentiable arguments."""
    rng = np.random.default_rng(7)
    return tuple(tree_map(lambda x: rng.normal(size=np.shape(x))[()], args[i]) for i in nums)


def moved(args: Any, nums: tuple[int, ...], v: Any, h: float) -> Any:
    """Arguments moved along a direction; arrays in place, since views depend on layouts."""
    out = list(args)
    for i, d in zip(nums, v, strict=True):
        out[i] = tree_map(lambda x, y: operator.iadd(x, h * y), args[i], d)
    return tuple(out)


def along(gradients: Any, v: Any) -> Any:
    """The inner product of gradients with a direction."""
    pairs = zip(tree_leaves(gradients), tree_leaves(v), strict=True)
    return sum(np.sum(g * d) for g, d in pairs)


class Slope:
    """A program's loss near one of its calls: where it is differentiated, and along what."""

    def __init__(self, case: Case, k: int) -> None:
        if any(isinstance(e, Raised) for e in case.expected[: k + 1]):
            raise Skip
        self.case, self.k = case, k
        self.args, self.kwargs = case.plain().arguments(k)
        self.nums = differentiable(self.args)
        self.v = direction(self.args, self.nums)
        self.base = self.at(0.0)

    def at(self, h: float) -> float:
        """The loss of plain Python at a distance along the direction."""
        module = self.case.plain()
        for k in range(self.k + 1):
            module.change(k)
        args = moved(module.arguments(self.k)[0], self.nums, self.v, h)
        return float(module.loss(self.kwargs)(*args))

    def is_invalid(self) -> bool:
        """Whether an operation of plain Python leaves its domain, NumPy's warnings made errors."""
        try:
            with np.errstate(invalid="raise", divide="raise"):
                self.at(0.0)
        except FloatingPointError:
            return True
        return False

    def differences(self) -> float:
        """The derivative along the direction; `Skip` where the loss is not smooth."""
        found = []
        for h in (1e-4, 2.5e-5, 1e-6):
            try:
                right, left = self.at(h), self.at(-h)
            except (ValueError, TypeError, AssertionError):  # the program's own, a step away
                raise Skip from None
            found.append((right - left) / (2 * h))
            gap = abs(right + left - 2 * self.base) / h
            if not np.isfinite(gap) or gap > 1e-2 * (1 + abs(found[-1])) + 1e3 * h:
                raise Skip
        scale = 1.0 + abs(self.base) + abs(found[0])
        if scale > 1e5 or max(abs(found[i] - found[i + 1]) for i in (0, 1)) > 1e-4 * scale:
            raise Skip
        return found[1]

    def check(self, actual: Any) -> None:
        """Raise unless a derivative along the direction agrees with differences."""
        if np.isnan(actual) and self.is_invalid():
            raise Skip  # zero times the NaN or infinite derivative of an element never shown
        expected = self.differences()
        if not np.isclose(actual, expected, rtol=2e-4, atol=2e-4 * (1 + abs(self.base))):
            raise Mismatch(f"derivative {show(actual)}, differences {expected:.6f}")
