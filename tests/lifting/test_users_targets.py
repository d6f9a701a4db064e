"""Methods of users' classes that assignments run, and properties of tuples, dicts and the like."""

import enum
from typing import Any, NamedTuple

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError


class Positive:
    """A descriptor that stores absolute values and shows at most 1."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        v = vars(instance)[self.name]
        return v if v < 1 else 1.0 + 0 * v

    def __set__(self, instance: Any, v: Any) -> None:
        if v < 0:
            v = -v
        vars(instance)[self.name] = v

    def __delete__(self, instance: Any) -> None:
        v = vars(instance)[self.name]
        vars(instance)[self.name] = v / 2 if v > 0.5 else v


class Shown:
    """A descriptor that an instance's own attribute hides."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return instance.v if instance.v > 0 else 2 * instance.v


class Body:
    other: Any
    mass = Positive()
    shown = Shown()

    def __init__(self, v: Any) -> None:
        self.v = v

    @property
    def speed(self) -> Any:
        return self._speed if self._speed < 2 else 2.0 + 0 * self._speed

    @speed.setter
    def speed(self, v: Any) -> None:
        if v < 0:
            raise ValueError("speeds are not negative")
        self._speed = v

    @speed.deleter
    def speed(self) -> None:
        self._speed = self.v if self.v > 0 else 0.0

    def __getitem__(self, i: int) -> Any:
        return self.v if self.v > 0 else 3 * self.v

    def __setitem__(self, i: int, v: Any) -> None:
        self.v = v if v > 0 else -v * (i + 1)

    def __delitem__(self, i: int) -> None:
        if self.v > 0:
            self.v = self.v * 5


class Kept:
    a: Any
    b: Any

    def __setattr__(self, name: str, v: Any) -> None:
        object.__setattr__(self, name, v if v > 0 else -v)

    def __delattr__(self, name: str) -> None:
        v = getattr(self, name)
        object.__setattr__(self, name, v * 3 if v > 0.65 else v)


class Rows:
    def __init__(self, x: Any) -> None:
        self.rows, self.weight = [[x, 1.0], [2.0, x]], x

    def __getitem__(self, i: int) -> Any:
        self.weight = self.weight + i if self.weight > 0 else 2 * self.weight
        return self.rows[i]


class Pair(NamedTuple):
    n: Any
    total: Any

    @property
    def mean(self) -> Any:
        return self.total / self.n if self.n > 0.65 else 3 * self.total


class Table(dict[str, Any]):
    @property
    def first(self) -> Any:
        return self["a"] if self["a"] > 0 else 4 * self["a"]


class Act(enum.Enum):
    RELU = 1
    LEAKY = 2

    @property
    def slope(self) -> float:
        return 0.0 if self is Act.RELU else 0.1

    def __call__(self, x: Any) -> Any:
        return x if x > 0 else self.slope * x


def speed(x: Any) -> Any:
    b = Body(x)
    b.speed = x * x
    b.speed += x + 2
    return b.speed


def deleted(x: Any) -> Any:
    b = Body(x)
    del b.speed
    b.mass = x
    del b.mass
    del b[0]
    return b.speed + b.mass + b.v


def mass(x: Any) -> Any:
    b = Body(x)
    b.mass, b.other = 2 * x, x
    b.mass *= -0.4
    b.mass = b.mass + b.other
    return b.mass


def shown(x: Any) -> Any:
    b = Body(x)
    before = b.shown
    b.shown = x * x
    return before + b.shown


def items(x: Any) -> Any:
    b = Body(x)
    b[0] = x
    b[1] -= 2 * x
    (b[2], c) = x, b[0]
    for b[3] in (x, 2 * x):
        c = c + b.v
    return b.v + c


def every_attribute(x: Any) -> Any:
    k = Kept()
    k.a = x
    setattr(k, "b", x - 0.1)  # noqa: B010
    k.b += k.a
    del k.a
    delattr(k, "b")
    return k.a * k.b


def chained(x: Any) -> Any:
    r = Rows(x)
    r[0][1] = 5 * x
    r[1][0] += r[0][1]
    return r.weight * r.rows[0][0] + 2 * r.rows[0][1] + 3 * r.rows[1][0] + 4 * r.rows[1][1]


def beside_traced_places(x: Any) -> Any:
    """What is bound at traced places of lists is so beside an object whose setter decides."""
    b, rows = Body(x), [[x, 1.0], [2.0, x]]
    i = 1 if x > 0 else 0
    b.mass = x
    rows[i][0] = b.mass
    rows[i][i] += 3 * x
    return rows[0][0] + 2 * rows[0][1] + 3 * rows[1][0] + 4 * rows[1][1]


def within_a_loop(x: Any) -> Any:
    b, total = Body(x), 0.0
    b.speed = x * x
    while total < 3:
        b.speed = b.speed + 0.5
        b[0] = b.speed - 1.5
        total = total + b.speed + b.v
    return total


def of_a_tuple(x: Any) -> Any:
    p = Pair(x, 2 * x)
    return p.mean + Pair(x + 1, x).mean


PROGRAMS = [
    *(speed, deleted, mass, shown, items, every_attribute, chained),
    *(beside_traced_places, within_a_loop, of_a_tuple),
    lambda x: Table(a=x).first,
    lambda x: sum(a(x) * a.slope for a in Act),
]
POINTS = np.array([0.7, -0.6])


@pytest.mark.parametrize("f", PROGRAMS)
def test_what_assignments_run_is_lifted(f: Any) -> None:
    want = [float(f(x)) for x in POINTS.tolist()]
    slopes = [(f(x + 1e-6) - f(x - 1e-6)) / 2e-6 for x in POINTS.tolist()]
    np.testing.assert_allclose([ftrace.jit(f)(x) for x in POINTS], want)
    np.testing.assert_allclose(ftrace.vmap(f)(POINTS), want)
    np.testing.assert_allclose([ftrace.grad(f)(x) for x in POINTS], slopes, rtol=1e-5, atol=1e-8)
    derivative = ftrace.jit(ftrace.vmap(ftrace.grad(f)))(POINTS)
    np.testing.assert_allclose(derivative, slopes, rtol=1e-5, atol=1e-8)


def test_an_error_of_a_setter_is_raised_where_its_values_are() -> None:
    def f(x: Any) -> Any:
        b = Body(x)
        b.speed = x
        return b.speed

    assert ftrace.jit(f)(0.5) == 0.5
    with pytest.raises(ValueError, match="speeds are not negative"):
        ftrace.jit(f)(-0.5)

    def caught(x: Any) -> Any:
        b = Body(x)
        b.speed = 3.0
        try:
            b.speed = x
        except ValueError:
            return 1 - x
        return b.speed

    with pytest.raises(LiftError, match="none that can be followed"):
        ftrace.jit(caught)(0.5)


def test_what_only_some_of_the_chosen_have_is_not_bound() -> None:
    def item(x: Any, i: int) -> Any:
        tables = [{"a": x}, {"a": x, "b": 1.0}]
        tables[i]["b"] = x  # type: ignore[typeddict-unknown-key]
        return tables[0]

    def attribute(x: Any, i: int) -> Any:
        bodies = [Body(x), Body(x)]
        bodies[i].new = x  # type: ignore[attr-defined]
        return bodies[0].v

    for f, what in ((item, "key 'b'"), (attribute, "attribute 'new'")):
        with pytest.raises(LiftError, match=what):
            ftrace.jit(f)(1.0, 0)


LOG: list[float] = []


class Logging:
    @property
    def asked(self) -> float:
        LOG.append(1.0)
        return 2.0

    @staticmethod
    def noted() -> None:
        LOG.extend(v for v in (1.0, 2.0))

    def note(self) -> None:
        [LOG.append(v) for v in (1.0, 2.0)]


def noting(x: Any) -> None:
    if x > 0:
        Logging().note()


def noting_statically(x: Any) -> None:
    if x > 0:
        Logging.noted()


def noting_by_a_property(x: Any) -> Any:
    made = Logging()
    return made.asked if x > 0 else 0.0


def noting_in_a_comprehension(x: Any) -> None:
    if x > 0:
        [LOG.append(v) for v in (1.0,)]


@pytest.mark.parametrize(
    "decides", [noting, noting_statically, noting_by_a_property, noting_in_a_comprehension]
)
def test_what_a_method_changes_is_seen_where_only_the_method_names_it(decides: Any) -> None:
    """It would be changed whether the arm is taken or not."""

    def f(x: Any) -> Any:
        decides(x)
        decides(-x)
        return x

    with pytest.raises(LiftError, match="`LOG` is a list"):
        ftrace.jit(f)(1.5)
    assert LOG == []
