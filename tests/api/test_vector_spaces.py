"""Users' types as vector spaces: products, and their own addition of derivatives (A8, D5)."""

import dataclasses

import numpy as np
import pytest

import ftrace
from ftrace import errors


@dataclasses.dataclass
class Quaternion:
    w: float
    x: float
    y: float
    z: float

    def __mul__(self, o):
        return Quaternion(
            self.w * o.w - self.x * o.x - self.y * o.y - self.z * o.z,
            self.w * o.x + self.x * o.w + self.y * o.z - self.z * o.y,
            self.w * o.y - self.x * o.z + self.y * o.w + self.z * o.x,
            self.w * o.z + self.x * o.y - self.y * o.x + self.z * o.w,
        )


@dataclasses.dataclass
class Interval:
    """Between two ends; its product is what products of its members lie in."""

    low: float
    high: float

    def __mul__(self, o):
        ends = [a * b for a in (self.low, self.high) for b in (o.low, o.high)]
        return Interval(
            np.minimum(np.minimum(ends[0], ends[1]), np.minimum(ends[2], ends[3])),
            np.maximum(np.maximum(ends[0], ends[1]), np.maximum(ends[2], ends[3])),
        )


SUMS = []


def joined(a, b):
    """The sum of derivatives by a quaternion, counted."""
    SUMS.append(1)
    return Quaternion(a.w + b.w, a.x + b.x, a.y + b.y, a.z + b.z)


@dataclasses.dataclass
class Counted(Quaternion):
    """A quaternion whose derivatives are added by `joined`."""


@dataclasses.dataclass
class Bound:
    """An interval of derivatives: where two meet, the hull of both."""

    low: float
    high: float


def hull(a, b):
    return Bound(np.minimum(a.low, b.low), np.maximum(a.high, b.high))


ftrace.register_vector_space(
    Counted,
    add=lambda a, b: Counted(*dataclasses.astuple(joined(a, b))),
    seed=lambda one: Counted(one, 0 * one, 0 * one, 0 * one),
)


@dataclasses.dataclass
class Firm:
    """A pair whose second part is 1 wherever two cotangents have met."""

    low: float
    high: float


ftrace.register_vector_space(Firm, add=lambda a, b: Firm(a.low + b.low, np.float64(1.0)))
ftrace.register_vector_space(
    Bound, add=hull, zeros_like=lambda b: Bound(np.inf + b.low, -np.inf + b.high)
)


def rotated(q, r):
    p = q * r * q
    return p.w**2 + p.x


def values(q):
    return np.array(dataclasses.astuple(q))


Q, R = (1.0, 2.0, 0.5, -0.3), (0.2, 0.1, 0.7, 0.4)


def test_quaternions_in_both_modes_and_twice():
    q, r = Quaternion(*Q), Quaternion(*R)
    gradient = ftrace.grad(rotated)(q, r)
    step = 1e-6 * np.eye(4)
    for i in range(4):
        ends = [rotated(Quaternion(*(np.array(Q) + s * step[i])), r) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(values(gradient)[i], slope, rtol=1e-7)
        unit = Quaternion(*np.eye(4)[i])
        zero = Quaternion(0.0, 0.0, 0.0, 0.0)
        tangent = ftrace.jvp(rotated, (q, r), (unit, zero))[1]
        np.testing.assert_allclose(tangent, slope, rtol=1e-7)
    twice = ftrace.grad(lambda q: ftrace.grad(rotated)(q, r).x)(q)
    forward = ftrace.jvp(
        lambda q: ftrace.grad(rotated)(q, r), (q,), (Quaternion(0.0, 1.0, 0.0, 0.0),)
    )
    np.testing.assert_allclose(values(twice), values(forward[1]), rtol=1e-12)


def test_a_types_own_addition_is_called_where_derivatives_meet():
    expected = values(ftrace.grad(rotated)(Quaternion(*Q), Quaternion(*R)))
    for way in (
        ftrace.grad(rotated),
        ftrace.jit(ftrace.grad(rotated)),
        ftrace.grad(ftrace.jit(rotated)),
        ftrace.grad(ftrace.checkpoint(rotated)),
    ):
        SUMS.clear()
        np.testing.assert_allclose(values(way(Counted(*Q), Counted(*R))), expected, rtol=1e-12)
        assert len(SUMS) > 3
    many = Counted(*(np.full(3, x) for x in Q))
    batched = ftrace.vmap(ftrace.grad(rotated), (0, None))(many, Counted(*R))
    np.testing.assert_allclose(values(batched), np.stack([expected] * 3, 1))


def test_a_gradient_begins_with_the_types_seed():
    def product(q, r):
        return Counted(*values_of(q * r))

    def values_of(q):
        return q.w, q.x, q.y, q.z

    value, gradient = ftrace.value_and_grad(product)(Counted(*Q), Counted(*R))
    np.testing.assert_allclose(values(value), values(Quaternion(*Q) * Quaternion(*R)))
    np.testing.assert_allclose(values(gradient), [R[0], -R[1], -R[2], -R[3]])  # of the real part


def test_an_addition_that_is_no_sum():
    def f(b):
        return 3 * b.low + 5 * np.sin(b.low) - b.low + 2.0 * b.high + 7.0 * b.high

    start = Bound(0.0, 1.0)
    for way in (ftrace.grad(f), ftrace.jit(ftrace.grad(f))):
        assert values(way(start)).tolist() == [-1.0, 7.0]
    many = ftrace.vmap(ftrace.grad(f))(Bound(np.zeros(2), np.ones(2)))
    assert values(many).tolist() == [[-1.0, -1.0], [7.0, 7.0]]
    nested = ftrace.vmap(ftrace.vmap(ftrace.grad(f)))(Bound(np.zeros((2, 3)), np.ones((2, 3))))
    assert nested.low.shape == (2, 3)
    mixed = ftrace.vmap(ftrace.jit(ftrace.grad(f)))(Bound(np.zeros(2), np.ones(2)))
    assert values(mixed).tolist() == [[-1.0, -1.0], [7.0, 7.0]]


def test_an_addition_that_knows_its_result_does_so_for_all_members_of_members():
    def f(b):
        return 3 * b.low + 5 * b.low + b.high

    many = Firm(np.zeros((2, 3)), np.ones((2, 3)))
    within = ftrace.vmap(ftrace.vmap(ftrace.grad(f)))(many)
    around = ftrace.grad(lambda b: ftrace.vmap(ftrace.vmap(f))(b).sum())(many)
    for found in (within, around):
        np.testing.assert_array_equal(found.low, np.full((2, 3), 8.0))
        np.testing.assert_array_equal(found.high, np.ones((2, 3)))


def test_intervals():
    def width(a, b):
        product = a * b * a
        return product.high - product.low

    a, b = Interval(-1.0, 2.0), Interval(0.5, 3.0)
    found = ftrace.grad(width)(a, b)  # a * b = [-3, 6], times a: [-6, 12]
    assert width(a, b) == 18.0
    np.testing.assert_allclose(values(found), [-6.0, 15.0])  # of b1 a1² - a0 b1 a1
    assert values(ftrace.jit(ftrace.grad(width))(a, b)).tolist() == values(found).tolist()


def test_mistakes():
    with pytest.raises(errors.DtypeError, match="class of containers"):
        ftrace.register_vector_space(float)
    with pytest.raises(errors.DtypeError, match="add of the vector space Interval"):
        ftrace.register_vector_space(Interval, add=3)

    @dataclasses.dataclass
    class Broken:
        a: float

    ftrace.register_vector_space(Broken, add=lambda a, b: a.a + b.a)
    with pytest.raises(errors.TreeError, match="add of the vector space Broken"):
        ftrace.grad(lambda x: x.a * np.sin(x.a))(Broken(1.0))


@pytest.mark.parametrize("dtype", [object, np.longdouble])
def test_dtypes_without_derivatives_are_refused_by_name(dtype):
    odd = np.array([1.0, 2.0], dtype)
    for way in (ftrace.grad, ftrace.jit, ftrace.vmap):
        with pytest.raises(errors.DtypeError, match=f"dtype {odd.dtype} cannot be traced"):
            way(lambda x: np.sum(x * x))(odd)
        with pytest.raises(errors.DtypeError, match=f"dtype {odd.dtype} cannot be traced"):
            way(lambda x: np.sum(x * odd))(np.ones(2))
