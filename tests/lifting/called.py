"""Functions for test_calls.py: what a call means on traced values. Module-level, as users' are."""

import functools
import itertools
import math

import numpy as np

import ftrace

UNARY = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos,
    "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    "asinh": math.asinh, "atanh": math.atanh, "exp": math.exp, "exp2": math.exp2,
    "expm1": math.expm1, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "sqrt": math.sqrt, "cbrt": math.cbrt, "fabs": math.fabs,
    "degrees": math.degrees, "radians": math.radians, "gamma": math.gamma,
    "lgamma": math.lgamma, "erf": math.erf, "erfc": math.erfc,
}  # fmt: skip
"""Of a number in (0, 1)."""

WHOLE = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "ulp": math.ulp,
}
"""Without a derivative."""


def _square_root(v):
    return math.sqrt(v)


def _sine_and_sum(a, b):
    return math.sin(a) + b


MADE_BEFORE = np.vectorize(_square_root)


@functools.lru_cache
def remembered(v):
    return math.sin(v)


def traced_by_name(f):
    @functools.wraps(f)
    def wrapper(*args):
        return 2.0 * f(*args)

    return wrapper


@traced_by_name
def doubled(v):
    return math.exp(v)


@functools.singledispatch
def dispatched(v):
    return math.sin(v)


@dispatched.register
def _(v: str):
    return len(v)


class Point:
    def __init__(self, x):
        self.x = math.sin(x)

    def norm(self):
        return math.fabs(self.x) + self(2.0)

    def __call__(self, y):
        return math.cos(y * self.x)


class Scaled(Point):
    def __init__(self, x, scale):
        super().__init__(x)
        self.x = self.x * scale

    @staticmethod
    def power(v):
        return math.pow(v, 3)

    @classmethod
    def made(cls, x):
        return cls(math.fabs(x), 2.0)


def acosh(x):
    return math.acosh(x + 1)


def power(x):
    return math.pow(x, 2.5) + math.pow(2, x) + pow(x, 3)


def atan2(x):
    return math.atan2(x, 2) + math.atan2(-1.0, x)


def fmod(x):
    return math.fmod(5.3, x) + math.fmod(-x, 0.4)


def remainder(x):
    return math.remainder(5.3, x) + math.remainder(x, -0.4)


def hypot(x):
    return math.hypot(x, 2, 3) + math.hypot(x) + math.dist([x, 1.0], (2.0, 3.0))


def log(x):
    return math.log(x, 3) + math.log(5, x + 2)


def fsum(x):
    return math.fsum([x, 1.0, 2]) + math.fsum(x * i for i in range(3)) + math.fsum([1, 2])


def prod(x):
    return math.prod([x, 2.0, x]) * math.prod(x + i for i in range(2))


def copysign(x):
    return math.copysign(x, -1) + math.copysign(2.0, x)


def parts(x):
    return math.modf(x + 3)[0] * math.modf(x + 3)[1] + math.frexp(x + 4)[0] + math.ldexp(x, 3)


def constants(x):
    return math.pi * x + math.e + math.tau * x


def minimum(x):
    return min(x, 2.0, x * x) + min([3, x]) + min((x * i for i in (1, 2)), default=0.0)


def maximum(x):
    return max([x, 2.0, 3 * x]) + max(x * i for i in range(4)) + max([], default=x)


def extreme_by_key(x):
    return (
        min(1.0, x, -2.0, key=lambda v: (v - x) ** 2)
        + max([(x, 1.0), (2.0, 3 * x)], key=lambda pair: pair[0] * pair[1])[1]
    )


def long_extremes(x):
    many = np.linspace(-1.0, 1.0, 40) * x
    return min(many) * 3 + max(many) + sum(many * many)


def sums(x):
    return sum([x, 1.0, x * x]) + sum((x**i for i in range(3)), 10.0)


def absolute(x):
    return abs(x - 2) + divmod(x, 0.2)[1] + abs(complex(x, 2.0))


def numbers(x):
    return float(x) * 2 + float(3) + int(2.7) + float("1.5")


def order(x):
    first, second, third = sorted([x, 0.1, 2.0])
    down = sorted([x, 0.1, 2.0], key=lambda v: v * v, reverse=True)
    return first + 10 * second + 100 * third + down[0] * x + sorted([3, 1])[0]


def mapped(x):
    return sum(map(_square_root, [x, 2.0])) + functools.reduce(_sine_and_sum, [x, 2.0, x])


def accumulated(x):
    return sum(itertools.accumulate([x, 2.0, x], _sine_and_sum))


def arrays(x):
    return np.array([[x, 2.0], (1, x)]).sum() + np.asarray([x]).sum() + np.array([1.0]).sum()


def full(x):
    return np.full(3, x).sum() + np.full_like(np.ones(3), x).sum()


def filled(x):
    out = np.zeros(3)
    for i in range(3):
        out[i] = x * i
    grid = np.empty((2, 2))
    grid[:] = 1.0
    grid[0] += x * x
    like = np.ones_like(np.arange(2.0))
    like[1] = x
    return out.sum() + grid.sum() + like.prod()


def items(x):
    i = int(x * 4)
    pairs = [(1.0, x), (x, 3.0), (2.0, 2.0), (0.5, x * x)]
    a, b = pairs[i]
    return np.arange(5.0)[i] * x + [1.0, 2.0, x, 4.0][i] + range(3, 11, 2)[i] * x + a * b


def rows(x):
    i = int(x * 2)
    return (np.arange(6.0).reshape(2, 3)[i] * x).sum() + np.eye(3)[i, 1:].sum() * x


def joined(x):
    columns = np.c_[np.array([x, 1.0]), np.ones(2)]
    return (np.r_[x, 1.0, 2:4] * np.arange(4.0)).sum() + (columns * [[1.0, 2.0]]).sum()


def vectorized(x):
    values = np.array([x, 2.0])
    return (
        np.vectorize(_square_root)(values).sum()
        + MADE_BEFORE(values).sum()
        + np.frompyfunc(_square_root, 1, 1)(values).sum()
    )


def iterated(x):
    made = np.fromiter((x * i for i in range(3)), float).sum()
    return made + sum(v * i[0] for i, v in np.ndenumerate(np.array([x, 2.0, x])))


def scalars(x):
    return np.float64(x) * 2 + np.float32(0.5)


def lists(x):
    return (
        np.diag([x, 1.0]).sum()
        + np.linalg.norm([x, 1.0])
        + np.sqrt([x, 1.0]).sum()
        + np.concatenate([[x], [1.0]]).sum()
        + np.outer([x, 1.0], [1.0, 2.0]).sum()
        + np.linspace(x, 1, 4)[1]
    )


def methods(x):
    return np.ones(2).dot(np.array([x, 2.0])) + np.arange(3.0).take([1, int(x)]).sum() * x


def own(x):
    p = Scaled.made(x)
    return Point(x).norm() + p.norm() + p(x) + Scaled.power(x) + p.power(x)


def partials(x):
    return functools.partial(_sine_and_sum, x)(2.0) + functools.partial(math.sin)(x)


def local(x):
    def inner(v):
        return math.sin(v) * x

    return inner(x) + (lambda v: math.cos(v))(x)


def wrapped(x):
    return doubled(x) + remembered(x) + remembered(2.0) + dispatched(x) * dispatched("two")


def trees(x):
    tree = ftrace.tree.map(_square_root, {"a": x, "b": (2.0, x)})
    return tree["a"] * tree["b"][1] + ftrace.tree.reduce(_sine_and_sum, tree)


def numpy_of_functions(x):
    v = np.array([x, -x])
    whole = np.apply_along_axis(_sum_of_sines, 0, v)
    return (
        whole
        + np.fromfunction(_shifted, (2, 2)).sum() * x
        + np.piecewise(v, [v > 0], [_doubled_items, 1.0]).sum()
    )


def _sum_of_sines(v):
    return sum(math.sin(abs(e)) for e in v)


def _shifted(i, j):
    return np.array(i) + j


def _doubled_items(v):
    return np.array([e * math.sqrt(4.0) for e in v])


def generated(x):
    def sines(n):
        for i in range(n):
            yield math.sin(x) * i

    total = sum(sines(3))
    for a, b in zip(sines(3), [1, 2, 3], strict=True):
        total = total + a * b
    return total


def kinds(x):
    v = np.array([x, 1.0])
    a = x if isinstance(x, float) else 100.0 * x
    b = v.sum() if isinstance(v, np.ndarray) and not isinstance(v, (int, float)) else 0.0
    c = x if type(v) is np.ndarray and not np.isscalar(v) else 0.0
    return a + b + c
