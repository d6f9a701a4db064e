"""Questions of type are found wherever a function gets to the code that asks, or are refused."""

import dataclasses
import functools
import gc
import json
import operator
import sys

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import LiftError
from ftrace.lifting.sources import reach
from ftrace.lifting.sources.reach import asking
from tests.lifting import asked, reached
from tests.lifting.importing import late, later
from tests.lifting.reached import PROGRAMS, REFUSED, Box, Holder, kind


def value(f, *args, argnums=0):
    return ftrace.value_and_grad(f, argnums)(*args)[0]


def jitted(f, *args, argnums=0):
    return ftrace.jit(f)(*args)


TRANSFORMS = (jitted, value)
ASK = operator.eq


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_questions_are_found_far_from_the_function(f):
    for x in (0.5, np.float64(0.5)):
        want = f(x)
        assert [jitted(f, x), value(f, x), ftrace.jvp(f, (x,), (1.0,))[0]] == [want] * 3


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED)
def test_questions_that_cannot_be_answered_are_refused_where_they_are_asked(f):
    for transform in TRANSFORMS:
        with pytest.raises(LiftError, match="asks for the type or the identity"):
            transform(f, 0.5)
    assert sys.getprofile() is None


def test_a_profiler_of_the_user_stays():
    calls = []

    def profile(frame, event, arg):
        calls.append(event)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        assert jitted(PROGRAMS["method"], 0.5) == 1.0
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(before)
    assert calls


def of_act(act, x):
    return act(x) * x


class Model:
    def __init__(self, act=None):
        self.act = act

    def loss(self, x):
        return x * self.helper(x)

    def helper(self, x):
        return kind(x)

    def by_attribute(self, x):
        return x * self.act(x)


@dataclasses.dataclass
class Net:
    w: object

    @property
    def kind(self):
        return kind(self.w)

    def __add__(self, other):
        return self.w * kind(other)


@dataclasses.dataclass
class Outer:
    net: object


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_a_function_is_made_of_or_given_is_looked_at(transform):
    x = 0.5
    assert transform(Model().loss, x) == 1.0
    assert transform(Model(kind).by_attribute, x) == 1.0
    assert transform(functools.partial(of_act, kind), x) == 1.0
    assert transform(lambda n: n.kind * n.w, Net(x)) == 1.0
    assert transform(lambda n: n + n.w, Net(x)) == 1.0
    assert transform(lambda n: n["a"].net.kind * n["a"].net.w, {"a": Outer(Net(x))}) == 1.0
    assert transform(lambda acts, x: acts[0](x) * x, [kind], x, argnums=1) == 1.0
    assert transform(lambda acts, x: acts["a"](x) * x, {"a": kind}, x, argnums=1) == 1.0
    assert transform(ftrace.checkpoint(lambda x: x * kind(x)), x) == 1.0
    model = Model()
    assert transform(lambda x: model.loss(x), x) == 1.0


def test_dataclasses_are_left_as_they_are():
    def f(x):
        made = reached.Record(x)
        return made.kind * x if "__post_init__" not in vars(made) else x

    assert jitted(f, 0.5) == 1.0


def test_every_transformation_looks():
    x, f = 0.5, (lambda v: v * kind(v))
    assert ftrace.jit(of_act, static_argnums=0)(kind, x) == 1.0
    assert ftrace.jit(lambda x, act=None: act(x) * x, static_argnames="act")(x, act=kind) == 1.0
    assert ftrace.value_and_grad(of_act, 1)(kind, x)[0] == 1.0
    assert ftrace.vjp(f, x)[0] == ftrace.linearize(f, x)[0] == 1.0
    assert ftrace.jacfwd(f)(x) == ftrace.jacrev(f)(x) == ftrace.linear_transpose(f, x)(1.0)[0] == 2
    assert ftrace.jacfwd(lambda a, v: a[0](v) * v, 1)([kind], x) == 2.0
    assert ftrace.jacrev(lambda a, v: a[0](v) * v, 1)([kind], x) == 2.0
    assert ftrace.vjp(lambda v, a: a[0](v) * v, x, [kind])[0] == 1.0
    assert ftrace.jvp(lambda v, a: a[0](v) * v, (x, [kind]), (1.0, [None]))[0] == 1.0
    assert ftrace.hessian(lambda v: v * v * kind(v))(x) == 4.0
    assert "2.0" in str(ftrace.make_jaxpr(of_act, static_argnums=0)(kind, x))
    assert ftrace.eval_shape(lambda x: np.ones(int(kind(x))), x).shape == (2,)
    rows = np.array([0.5])
    assert ftrace.vmap(f)(rows) == ftrace.vectorize(f)(rows) == 1.5
    assert ftrace.vmap(lambda v, a: a[0](v) * v, in_axes=(0, None))(rows, [kind]) == 1.5


def test_modules_that_the_function_imports_are_looked_at():
    for f, transform, name in ((late, jitted, "late"), (later, value, "later")):
        assert f"tests.lifting.asked_{name}" not in sys.modules
        assert transform(f, 0.5) == 1.0


def test_names_that_stand_for_something_else_later_are_looked_at_again(monkeypatch):
    def f(x):
        return asked.kind(x) * x

    monkeypatch.setattr(asked, "kind", lambda x: 5.0)
    gradient, compiled = ftrace.value_and_grad(f), ftrace.jit(f)
    assert gradient(0.5)[0] == compiled(0.5) == 2.5
    monkeypatch.setattr(asked, "kind", kind)
    assert gradient(0.5)[0] == compiled(0.5) == 1.0
    model = Model(lambda x: 7.0)
    gradient, compiled = ftrace.value_and_grad(model.by_attribute), ftrace.jit(model.by_attribute)
    assert gradient(0.5)[0] == compiled(0.5) == 3.5
    model.act = kind
    assert gradient(0.5)[0] == compiled(0.5) == 1.0


def test_functions_made_for_each_call_are_told_apart_by_what_their_names_stand_for(monkeypatch):
    def asking_by_name():
        return lambda x: x * (2.0 if ASK(x > 0, True) else 3.0)

    def holding(f):
        return lambda x: x * (f(x) if callable(f) else 2.0)

    def asking_what_is_held(question, double=2.0):
        def f(x, twice=double):
            return x * (twice if question(x > 0, True) else 3.0)

        return f

    x, npx = 1.0, np.float64(1.0)
    for question in (operator.eq, operator.is_, operator.eq):
        monkeypatch.setitem(globals(), "ASK", question)
        for make in (asking_by_name, lambda q=question: asking_what_is_held(q)):
            for value in (x, npx):
                for _ in range(2):
                    assert ftrace.grad(make())(value) == make()(value)
    for double in (2.0, kind, 2.0, "no"):
        f = asking_what_is_held(lambda a, b: True, double)
        g = holding(double)
        assert asking(f).asks == asking(g).asks == (double is kind)


@pytest.mark.parametrize("transform", [ftrace.jit, ftrace.grad])
def test_without_source_a_flag_that_is_not_traced_may_decide(transform):
    space: dict = {}
    exec("flag = True\ndef f(x):\n    return x if flag else x * 3", space)
    assert transform(space["f"])(2.0) == (2.0 if transform is ftrace.jit else 1.0)
    exec("flag = True\ndef f(x):\n    return x if (x > 0) is flag else x * 3", space)
    with pytest.raises(LiftError, match="its source is not known"):
        transform(space["f"])(2.0)


@pytest.mark.parametrize("transform", [ftrace.jit, ftrace.grad])
@pytest.mark.parametrize("kind", ["[{}][0]", "sum({})"])
def test_without_source_a_comprehension_that_asks_is_refused(transform, kind):
    items = kind.format("1.0 if type(v) is float else 2.0 for v in values(x)")
    space: dict = {}
    exec(f"def values(x):\n    return [x]\ndef f(x):\n    return x * {items}", space)
    assert space["f"](2.0) == 2.0
    with pytest.raises(LiftError, match="its source is not known"):
        transform(space["f"])(2.0)


def test_functions_without_source_are_refused_if_they_ask_about_traced_values():
    text = (
        "def f(x):\n    return x * 2 if type(x) is float else x * 3\n"
        "def g(x, mode='a'):\n    return x * 2 if type(mode) is str else x * 3\n"
        "def h(x, mode='a'):\n    mode = x\n    return x * 2 if type(mode) is str else x * 3\n"
    )
    space: dict = {}
    exec(text, space)
    for transform in TRANSFORMS:
        assert transform(space["g"], 0.5) == 1.0
        for name in "fh":
            with pytest.raises(LiftError, match="its source is not known"):
                transform(space[name], 0.5)


def test_what_is_looked_for_is_looked_for_once():
    def f(x):
        return np.sin(x) * 2

    found = asking(f)
    assert not found.asks
    assert asking(f) is found
    assert asking(ftrace.jit(f)) is found
    model = Model(kind)
    assert asking(model.loss) is asking(model.loss)
    assert asking(model.loss) is not asking(Model().loss)
    assert asking(model.by_attribute).asks
    assert not asking(Model().by_attribute).asks


def test_what_is_seen_is_no_more_than_what_names_reach():
    class Repr:
        def __repr__(self):
            return f"{type(self).__name__}"

        def __eq__(self, other):
            return type(other) is type(self)

        __hash__ = None

    thing = Repr()

    def f(x):
        return x if thing is not None else -x

    def g(x):
        return x if thing == x else -x

    assert not asking(f).asks
    assert asking(g).asks
    assert asking(g).implied
    assert not asking(PROGRAMS["deep"]).implied
    assert asking(PROGRAMS["property"]).implied
    assert not asking(Holder).asks
    assert asking(Box(1.0).method).asks
    assert reached.HOLDER.act is kind


def test_functions_of_one_code_may_have_defaults_of_any_kind():
    def made(*defaults):
        def f(x, k=0, s=""):
            return x * 2.0

        f.__defaults__ = defaults
        return f

    for defaults in ((0, ""), ((1, 2), "a"), ([1], "a"), ({}, None), (np.ones(2), ""), (1.5,), ()):
        f = made(*(0,) * (2 - len(defaults)), *defaults)
        assert ftrace.jit(f)(1.5) == 3.0
        assert ftrace.jvp(f, (1.5,), (1.0,))[1] == 2.0


def test_functions_made_anew_are_known_by_the_one_before_them(monkeypatch):
    def made(number):
        return lambda x: x + number

    found = asking(made(1.0))
    monkeypatch.setattr(reach, "_shared", {})
    assert asking(made(2.0)) is found
    assert asking(made(np.float64(2.0))) is not found


def _takes_plain_numbers(x):
    return json.dumps(x)


def _catches(x):
    try:
        return x + 1
    except TypeError:
        return x


def test_what_takes_plain_numbers_matters_where_an_error_is_caught():
    assert not asking(lambda x: _takes_plain_numbers(x)).asks
    assert not asking(lambda x: _catches(x)).asks
    assert asking(lambda x: _takes_plain_numbers(_catches(x))).asks


def calling(h):
    return lambda x: (h or np.sin)(x)


def test_a_function_that_is_gone_is_not_taken_for_none():
    def helper(x):  # made anew, and forgotten
        return type(x)(2.0)

    assert asking(calling(helper)).asks
    del helper
    gc.collect()
    assert not asking(calling(None)).asks
