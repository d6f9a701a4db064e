"""Containers among the arguments that a traced function changes: refused, or given back."""

import collections
import copy
import dataclasses
import functools
import types
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import lax, tree_util
from ftrace.errors import MutationError


@dataclasses.dataclass
class Pair:
    """An object with fields."""

    w: Any
    b: Any = 0.5

    @functools.cached_property
    def doubled(self) -> Any:
        return self.w * 2


@dataclasses.dataclass(slots=True)
class Slots:
    """The same without a dict."""

    w: Any


@tree_util.register_pytree_node_class
class Registered:
    """An object that says itself how it is taken apart."""

    def __init__(self, w: Any, cache: Any = None) -> None:
        self.w, self.cache = w, cache

    def tree_flatten(self) -> Any:
        return (self.w * 1.0,), None

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Any:
        return cls(*children)


def attribute(p: Any) -> Any:
    p.w = p.w * 2
    return p.w * 3


def by_name(p: Any) -> Any:
    setattr(p, "w", p.w * 2)  # noqa: B010
    return p.w * 3


def augmented(p: Any) -> Any:
    p.w += 1.0
    return p.w * 3


def setting(p: Any) -> Any:
    value = p.w
    p.w = 1.0
    return value * 3


def deleted(p: Any) -> Any:
    value = p.w
    del p.w
    return value * 3


def namespace(w: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(w=w, b=1.0)


def new_attribute(p: Any) -> Any:
    p.new = p.w * 2
    return p.w * 3


def item(d: Any) -> Any:
    d["w"] = d["w"] * 2
    return d["w"] * 3


def new_item(d: Any) -> Any:
    d["new"] = d["w"] * 2
    return d["w"] * 3


def no_item(d: Any) -> Any:
    return d.pop("w") * 3


def element(xs: Any) -> Any:
    xs[0] = xs[0] * 2
    return xs[0] * 3


def appended(xs: Any) -> Any:
    xs.append(xs[0] * 2)
    return xs[0] * 3


def inside(d: Any) -> Any:
    d["p"][0].w = d["p"][0].w * 2
    return d["p"][0].w * 3


def in_an_arm(p: Any) -> Any:
    if p.w > 0:
        p.w = p.w * 2
    return p.w * 3


PROGRAMS: list[tuple[Any, Any, str]] = [
    (attribute, Pair, r"p\.w"),
    (attribute, Slots, r"p\.w"),
    (attribute, Registered, r"p\.w"),
    (by_name, Pair, r"p\.w"),
    (augmented, Pair, r"p\.w"),
    (setting, Pair, r"p\.w"),
    (deleted, Pair, r"p\.w"),
    (item, lambda w: {"w": w}, r"d\['w'\]"),
    (new_item, lambda w: {"w": w}, r"d\['new'\]"),
    (no_item, lambda w: {"w": w}, r"d\['w'\]"),
    (element, lambda w: [w], r"xs\[0\]"),
    (appended, lambda w: [w], r"xs\[1\]"),
    (inside, lambda w: {"a": 1.0, "p": (Pair(w), 1.0)}, r"d\['p'\]\[0\]\.w"),
    (in_an_arm, Pair, r"p\.w"),
    (attribute, namespace, r"p\.w"),
    (deleted, namespace, r"p\.w"),
    (new_attribute, namespace, r"p\.new"),
    (in_an_arm, namespace, r"p\.w"),
    (element, lambda w: collections.deque([w]), r"xs\[0\]"),
    (appended, lambda w: collections.deque([w], maxlen=3), r"xs\[1\]"),
]
TRANSFORMS: dict[str, Any] = {
    "jit": lambda f, make: ftrace.jit(f)(make(2.0)),
    "jit by name": lambda f, make: ftrace.jit(lambda x, **kw: f(*kw.values()) * x)(
        2.0, **{f.__code__.co_varnames[0]: make(2.0)}
    ),
    "grad": lambda f, make: ftrace.grad(f)(make(2.0)),
    "second": lambda f, make: ftrace.grad(lambda x, y: f(y) * x, argnums=(0, 1))(1.0, make(2.0)),
    "jacfwd": lambda f, make: ftrace.jacfwd(f)(make(2.0)),
    "jvp": lambda f, make: ftrace.jvp(f, (make(2.0),), (make(1.0),)),
    "vjp": lambda f, make: ftrace.vjp(f, make(2.0)),
    "linearize": lambda f, make: ftrace.linearize(f, make(2.0)),
    "vmap": lambda f, make: ftrace.vmap(lambda x, *a: f(*a) * x, in_axes=(0, None))(
        np.ones(2), make(2.0)
    ),
    "checkpoint": lambda f, make: ftrace.grad(lambda x: ftrace.checkpoint(f)(make(x)))(2.0),
    "cond": lambda f, make: lax.cond(True, f, f, make(2.0)),
    "jit of grad": lambda f, make: ftrace.jit(lambda p: ftrace.grad(f)(p))(make(2.0)),
}


@pytest.mark.parametrize("way", TRANSFORMS)
@pytest.mark.parametrize(("f", "make", "what"), PROGRAMS)
def test_what_would_be_lost_is_refused(f: Any, make: Any, what: str, way: str) -> None:
    if way in ("second", "vmap", "jit by name"):
        what = what[what.index("\\") :] if "\\" in what else what
    with pytest.raises(MutationError, match=rf"(?s){what}` is changed by .*copy\.copy"):
        TRANSFORMS[way](f, make)


def test_a_deque_at_its_limit_may_be_changed_and_returned() -> None:
    def shifted(xs: Any) -> Any:
        xs.append(xs[0] * xs[1])
        return xs

    got = ftrace.jit(shifted)(collections.deque([2.0, 3.0], maxlen=2))
    assert (list(got), got.maxlen) == ([3.0, 6.0], 2)
    with pytest.raises(MutationError, match=r"xs\[0\]` is changed by"):
        ftrace.jit(lambda xs: shifted(xs)[0])(collections.deque([2.0, 3.0], maxlen=2))


def test_the_error_says_where_and_of_what() -> None:
    with pytest.raises(MutationError) as caught:
        ftrace.grad(attribute)(Pair(2.0))
    assert "`p.w` is changed by attribute" in str(caught.value)
    assert "p.w = p.w * 2" in caught.value.where


def test_the_cures_of_the_error() -> None:
    def on_a_copy(p: Any) -> Any:
        p = copy.copy(p)
        return attribute(p)

    def returned(p: Any) -> Any:
        attribute(p)
        return p

    p = Pair(2.0)
    assert ftrace.jit(on_a_copy)(p) == 12.0
    assert ftrace.grad(on_a_copy)(p).w == 6.0
    assert ftrace.jit(returned)(p).w == 4.0
    value, new = ftrace.jit(lambda p: (attribute(p), [p]))(p)
    assert (value, new[0].w) == (12.0, 4.0)
    assert p.w == 2.0


def test_what_changes_nothing_of_the_callers_is_no_error() -> None:
    def made(p: Any) -> Any:
        mine = Pair(p.w)
        mine.w = mine.w * 2
        replaced = dataclasses.replace(p, w=p.w * 2)
        replaced.w = replaced.w + 1
        parts = list(vars(p).values())
        parts.append(mine.w)
        return attribute(mine) + replaced.w + sum(parts)

    def unchanged(p: Any) -> Any:
        p.w = p.w
        p.b, before = 0.5, p.b
        p.b = before
        return p.w * p.doubled

    def put_back(d: Any) -> Any:
        d["w"], before = d["w"] * 2, d["w"]
        y = d["w"] * 3
        d["w"] = before
        d["list"] = list(d["list"])
        return y

    def cached(r: Any) -> Any:
        r.cache = r.w * 2
        return r.cache * r.w

    for f in (made, unchanged):
        assert ftrace.jit(f)(Pair(2.0)) == f(Pair(2.0))
        assert ftrace.grad(f)(Pair(2.0)).w == ftrace.grad(lambda w, f=f: f(Pair(w)))(2.0)
    assert ftrace.jit(put_back)({"w": 2.0, "list": [1.0]}) == 12.0
    assert ftrace.jit(cached)(Registered(2.0)) == 8.0


def test_what_reading_puts_into_a_defaultdict_is_no_change() -> None:
    def read(d: Any) -> Any:
        return d["w"] * 3 + d["none"] + sum(d["list"])

    def counted(d: Any) -> Any:
        d["n"] += 1
        return d["w"] * d["n"]

    assert ftrace.jit(read)(collections.defaultdict(float, {"w": 2.0, "list": [1.0]})) == 7.0
    assert ftrace.grad(read)(collections.defaultdict(list, {"w": 2.0, "none": 0.0}))["w"] == 3.0
    with pytest.raises(MutationError, match=r"d\['n'\]"):
        ftrace.jit(counted)(collections.defaultdict(int, {"w": 2.0}))


def test_iterations_have_containers_of_their_own() -> None:
    def step(c: Any, x: Any) -> Any:
        x["a"] = x["a"] * 2
        c["sum"] = c["sum"] + x["a"]
        return c, x["a"]

    total, ys = lax.scan(step, {"sum": 0.0}, {"a": np.arange(3.0)})
    assert total["sum"] == 6.0
    np.testing.assert_array_equal(ys, [0.0, 2.0, 4.0])

    def body(c: Any) -> Any:
        c["i"] = c["i"] + 1
        return {"i": c["i"]}

    assert lax.while_loop(lambda c: c["i"] < 3, body, {"i": 0})["i"] == 3


def test_arguments_that_are_not_traced_are_the_callers_own() -> None:
    state = {"n": 1}

    def f(x: Any, state: Any) -> Any:
        state["n"] += 1
        return x * state["n"]

    assert ftrace.grad(f)(3.0, state) == 2.0
    assert state == {"n": 2}
