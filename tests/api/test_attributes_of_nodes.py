"""Attributes of objects among the arguments that are no fields are missed by name."""

import copy
import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.errors import TracerAttributeError, TreeError


@dataclasses.dataclass
class Model:
    """Sets an attribute that is no field."""

    w: float

    def __post_init__(self) -> None:
        self.scale = 3.0


@dataclasses.dataclass
class Advised:
    """The same as the error advises."""

    w: float
    scale: float = dataclasses.field(init=False, metadata={"static": True})

    def __post_init__(self) -> None:
        self.scale = 3.0


@dataclasses.dataclass
class Hiding:
    """Has a default behind an attribute that is no field."""

    w: float
    scale = 1.0

    def __post_init__(self) -> None:
        self.scale = 3.0


@dataclasses.dataclass
class Caching:
    """Has properties."""

    w: float
    kind = "a"
    inner: ClassVar[Any]

    @functools.cached_property
    def doubled(self) -> Any:
        return self.w * 2

    @property
    def broken(self) -> Any:
        return self.inner


class Fields(NamedTuple):
    """The fields of a pair."""

    w: Any
    b: Any


class Pair(Fields):
    """Has a dict besides its fields."""

    k: Any


def _value(m: Any) -> Any:
    return m.w * m.scale


def _plain() -> Any:
    return "text"


WAYS: dict[str, Any] = {
    "jit": lambda m: ftrace.jit(_value)(m),
    "grad": lambda m: ftrace.grad(_value)(m).w,
    "hessian": lambda m: ftrace.hessian(_value)(m),
    "vmap": lambda m: ftrace.vmap(lambda m, x: _value(m) * x, in_axes=(None, 0))(m, np.ones(2)),
    "vectorize": lambda m: ftrace.vectorize(_value)(m),
    "scan": lambda m: lax.scan(lambda c, x: (c, c.scale * x), m, np.ones(2))[1],
    "cond": lambda m: lax.cond(True, _value, _value, m),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_field_is_missed_by_name(way: str) -> None:
    with pytest.raises(
        TracerAttributeError, match=r"(?s)`scale` of a Model.*no field.*field\(init"
    ):
        WAYS[way](Model(2.0))
    with pytest.raises(AttributeError):
        WAYS[way](Model(2.0))


@pytest.mark.parametrize("way", [w for w in WAYS if w != "hessian"])
def test_what_the_error_advises_works(way: str) -> None:
    wanted = {"grad": 3.0, "scan": [3.0, 3.0], "vmap": [6.0, 6.0]}.get(way, 6.0)
    np.testing.assert_allclose(WAYS[way](Advised(2.0)), wanted)


@pytest.mark.parametrize("way", WAYS)
def test_a_default_of_the_class_is_not_read_instead(way: str) -> None:
    with pytest.raises(TreeError, match=r"(?s)`scale` of a Hiding.*1\.0.*instead of 3\.0"):
        WAYS[way](Hiding(2.0))


def _has(m: Any) -> Any:
    return m.w * 3.0 if hasattr(m, "scale") else m.w


def _or_one(m: Any) -> Any:
    return m.w * getattr(m, "scale", 1.0)


def _catches(m: Any) -> Any:
    try:
        return m.w * m.scale
    except AttributeError:
        return m.w


def _of_a_copy(m: Any) -> Any:
    return _or_one(copy.copy(m))


def _nested(m: Any) -> Any:
    return ftrace.vmap(lambda m, x: _or_one(m) * x, in_axes=(None, 0))(m, np.ones(2)).sum()


def _of_its_dict(m: Any) -> Any:
    return m.w * vars(m).get("scale", 1.0)


def _held_by_its_dict(m: Any) -> Any:
    return m.w * (3.0 if "scale" in m.__dict__ else 1.0)


def _missed_by_its_dict(m: Any) -> Any:
    try:
        return m.w * vars(m)["scale"]
    except KeyError:
        return m.w


def _among_all(m: Any) -> Any:
    return m.w * {"scale": 1.0, **vars(m)}["scale"]


def _counted(m: Any) -> Any:
    return m.w * (3.0 if len(vars(m)) > 1 else 1.0)


ASKING = [
    *(_has, _or_one, _catches, _of_a_copy, _nested),
    *(_of_its_dict, _held_by_its_dict, _missed_by_its_dict, _among_all, _counted),
]
TAKING: dict[str, Any] = {
    "jit": lambda f, m: ftrace.jit(f)(m),
    "grad": lambda f, m: ftrace.grad(f)(m),
    "jvp": lambda f, m: ftrace.jvp(f, (m,), (m,)),
    "vmap": lambda f, m: ftrace.vmap(lambda m, x: f(m) * x, in_axes=(None, 0))(m, np.ones(2)),
    "inside": lambda f, m: ftrace.jit(lambda d: f(d["m"][0]))({"m": [m], "a": 1.0}),
    "scan": lambda f, m: lax.scan(lambda c, x: (c, f(c) * x), m, np.ones(2))[1],
    "cond": lambda f, m: lax.cond(True, f, f, m),
}


@pytest.mark.parametrize("way", TAKING)
@pytest.mark.parametrize("asking", ASKING)
def test_whether_an_object_has_what_is_no_field_is_not_answered_wrong(
    asking: Any, way: str
) -> None:
    @dataclasses.dataclass
    class Own:
        w: float

    m = Own(2.0)
    plain = ftrace.jit(asking)(m)
    assert plain == (4.0 if asking is _nested else 2.0)  # it has none
    TAKING[way](asking, m)
    vars(m)["scale"] = 3.0
    if asking is not _nested:
        assert asking(m) == 6.0
    for _ in range(2):
        with pytest.raises(TracerAttributeError, match=r"(?s)`scale` of a Own.*no field"):
            TAKING[way](asking, m)
    assert ftrace.jit(asking)(Own(2.0)) == plain
    assert not hasattr(Own(2.0), "scale")
    assert not hasattr(Own, "scale")


def test_who_sets_the_attribute_may_ask_for_it() -> None:
    def sets(m: Any) -> Any:
        m.scale = 5.0
        return _or_one(m)

    def makes(m: Any) -> Any:
        return _or_one(dataclasses.replace(m, w=m.w)) + _or_one(Model(m.w))

    assert ftrace.jit(sets)(Model(2.0)) == 10.0
    assert ftrace.grad(makes)(Model(2.0)).w == 6.0


def test_what_comes_back_holds_its_fields_alone() -> None:
    m = Model(2.0)
    assert vars(ftrace.jit(lambda m: m)(m)) == {"w": 2.0}
    assert vars(ftrace.grad(lambda m: m.w)(m)) == {"w": 1.0}
    summed = ftrace.tree.map(lambda x, y: x + y, m, ftrace.grad(lambda m: m.w)(m))
    assert summed.w == 3.0


def test_an_attribute_that_a_named_tuple_cannot_carry() -> None:
    pair = Pair(1.0, 2.0)
    assert ftrace.jit(lambda p: p.w * getattr(p, "k", 1.0))(pair) == 1.0
    pair.k = 3.0
    with pytest.raises(TracerAttributeError, match="`k` of a Pair"):
        ftrace.jit(lambda p: p.w * getattr(p, "k", 1.0))(pair)


def test_what_fields_give_again_is_no_error() -> None:
    m = Caching(2.0)
    assert m.doubled == 4.0
    assert ftrace.jit(lambda m: m.doubled)(m) == 4.0
    assert ftrace.grad(lambda m: m.doubled)(m).w == 2.0
    assert ftrace.jit(lambda m: m.w * len(m.kind))(m) == 2.0
    vars(m)["note"] = "not used"
    assert ftrace.jit(lambda m: m.w)(m) == 2.0


def test_other_missing_attributes() -> None:
    with pytest.raises(TracerAttributeError, match="`inner` of a Caching"):
        ftrace.jit(lambda m: m.broken)(Caching(2.0))
    pair = Pair(1.0, 2.0)
    pair.k = 3.0
    with pytest.raises(TracerAttributeError, match="`k` of a Pair"):
        ftrace.jit(lambda p: p.w * p.k)(pair)
    with pytest.raises(AttributeError, match="no attribute 'nothing'") as caught:
        ftrace.jit(lambda x: x * _plain().nothing)(1.0)
    assert type(caught.value) is AttributeError

    def handles(m: Any) -> Any:
        try:
            return m.absent
        except AttributeError:
            return m.w

    assert ftrace.jit(handles)(Caching(2.0)) == 2.0


def test_the_dict_of_an_object_that_left_something_behind_shows_its_fields() -> None:
    def f(m: Any) -> Any:
        n, held = copy.copy(m), vars(m)
        held["other"] = 2.0
        again = copy.deepcopy(n).w + held.pop("other") + held.setdefault("w", 5.0)
        return again * n.w + vars(m)["w"] * vars(m).get("none", 1.0) + held.pop("none", 0.0)

    m = Model(1.5)
    for way in ("jit", "grad", "vmap"):
        TAKING[way](f, m)
    assert ftrace.jit(f)(m) == f(m)
    for asking in (lambda held: held["none"], lambda held: held.pop("none")):
        with pytest.raises(KeyError, match="none"):
            ftrace.jit(lambda m, asking=asking: asking(vars(m)))(m)
