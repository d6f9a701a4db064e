"""Records: what dataclasses do, they do."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from ftrace.core.records import record


@record
class Point:
    x: int
    y: Any = 0
    seen: list[int] = field(default_factory=list, compare=False)
    norm: int = field(init=False, default=-1, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", abs(self.x))


@dataclass(frozen=True, slots=True)
class Other:
    x: int
    y: Any = 0
    seen: list[int] = field(default_factory=list, compare=False)
    norm: int = field(init=False, default=-1, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", abs(self.x))


@record
class Named(Point):
    name: str = ""

    def __repr__(self) -> str:
        return self.name


@record(eq=False)
class Alone:
    x: int


@record
class Empty:
    """No fields."""


def test_a_record_answers_as_the_dataclass_of_the_same_fields():
    for args, kwargs in (((-3,), {}), ((1, "b"), {}), ((1,), {"y": 2, "seen": [1]})):
        mine, theirs = Point(*args, **kwargs), Other(*args, **kwargs)
        assert repr(mine) == repr(theirs).replace("Other", "Point")
        assert [getattr(mine, f.name) for f in fields(mine)] == [
            getattr(theirs, f.name) for f in fields(theirs)
        ]
        assert hash(mine) == hash(theirs)
    assert Point.__match_args__ == Other.__match_args__
    assert is_dataclass(Point)
    assert not hasattr(Point(1), "__dict__")


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"z": 1})])
def test_wrong_arguments_raise_before_and_after_the_first_instance(args, kwargs):
    @record
    class Fresh:
        x: int
        y: int = 0
        seen: list[int] = field(default_factory=list)

    for _ in range(2):
        with pytest.raises(TypeError, match="__init__"):
            Fresh(*args, **kwargs)
        Fresh(1)


def test_equal_fields_are_equal_records_of_one_class():
    assert Point(1, 2) == Point(1, 2, [5])
    assert Point(1, 2) != Point(1, 3)
    assert Point(1) != Other(1)
    assert Point(1) != Named(1)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    one = Alone(1)
    assert one != Alone(1)
    assert len({one, one, Alone(1)}) == 2


def test_fields_cannot_be_changed_and_replace_makes_another():
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="'x'"):
        point.x = 2  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError, match="'x'"):
        del point.x  # pyright: ignore[reportAttributeAccessIssue]
    assert replace(point, x=-2) == Point(-2)
    assert replace(point, x=-2).norm == 2
    assert Point(1).seen is not Point(1).seen


def test_a_derived_record_has_both_fields_and_keeps_its_own_methods():
    named = Named(1, name="n")
    assert (named.x, named.name, named.norm, repr(named)) == (1, "n", 1, "n")
    match named:
        case Named(1, 0, [], "n"):
            pass
        case _:
            pytest.fail("a record is no pattern")


def test_records_are_copied_and_pickled():
    point = Point(1, {"a": [2]}, [3])
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert other == point
        assert other.seen == [3]
        assert other.norm == 1
    assert copy.deepcopy(point).y is not point.y
