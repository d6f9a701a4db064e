"""Copies and pickles of functions that ftrace made, of jaxprs and of errors."""

import copy
import functools
import pickle
import subprocess
import sys

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.errors import FtraceError, ShapeError
from ftrace.primitives.elementwise import sin
from tests.core import named


def again(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("f", named.FUNCTIONS, ids=lambda f: f.__name__)
def test_a_decorated_function_is_copied_and_pickled_as_functions_are(f):
    f(1.5)  # what was compiled is no part of it
    assert copy.copy(f) is f
    assert copy.deepcopy([f])[0] is f
    assert again(f) is f


def test_a_function_without_a_name_of_its_own_is_pickled_by_its_parts():
    fixed = ftrace.jit(named.power, static_argnums=1)
    assert fixed(3.0, 2) == 9.0
    other = again(fixed)
    assert other is not fixed
    assert other(3.0, 3) == 27.0
    traced = []
    other(3.0, 3)
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(ftrace.jit(ftrace.grad(named.power)))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(ftrace.jit(lambda x: traced))


def test_an_object_that_holds_a_jitted_function_is_copied():
    model = named.Model(2.0)
    assert model.step(3.0) == 6.0
    deep, flat, read = copy.deepcopy(model), copy.copy(model), again(named.Plain())
    assert deep.step is flat.step is model.step
    assert deep.weights is not model.weights
    assert (deep.step(3.0), read.step(2.0)) == (6.0, 8.0)


class Scaled:
    def __init__(self):
        self.scale = 2.0
        self.step = ftrace.jit(self.scaled)
        self.part = ftrace.jit(functools.partial(self.scaled))

    def scaled(self, x):
        return x * self.scale

    __call__ = scaled


def test_copies_of_objects_run_their_own_methods():
    model = Scaled()
    assert model.step(3.0) == model.part(3.0) == 6.0
    other = copy.deepcopy(model)
    other.scale = 5.0
    assert other.step(3.0) == other.part(3.0) == 15.0
    assert model.step(3.0) == model.part(3.0) == 6.0
    called = ftrace.jit(model)
    another = copy.deepcopy(called)
    model.scale = 7.0
    assert (called(3.0), another(3.0)) == (21.0, 6.0)


def program(x):
    y = lax.while_loop(lambda c: c < 9.0, lambda c: c + x, x) + named.cube(x) + named.twice(x)
    z = lax.scan(lambda c, t: (c * x + t, c), x, np.arange(3.0))[1].sum()
    return lax.cond(x > 1.0, lambda: y * z, lambda: np.sin(y)) + ftrace.checkpoint(np.tanh)(z)


def test_jaxprs_are_pickled_without_what_was_compiled():
    jaxpr = ftrace.make_jaxpr(program)(2.0)
    run = ftrace.jit(lambda x: eval_jaxpr(jaxpr, [x])[0])
    with ftrace.config.update(compile=True):
        value = run(2.0)
    other = again(jaxpr)
    assert str(other) == str(jaxpr)
    assert eval_jaxpr(other, [2.0])[0] == pytest.approx(value, rel=1e-14)
    slopes = [ftrace.grad(lambda x, j=j: eval_jaxpr(j, [x])[0])(2.0) for j in (jaxpr, other)]
    assert slopes[0] == slopes[1]
    assert copy.deepcopy(jaxpr) is jaxpr


def test_rows_are_pickled_by_their_variables():
    assert again(sin) is sin
    assert again(named.twice) is named.twice
    hidden = copy.copy(named.twice)
    assert hidden is named.twice
    lonely = ftrace.Primitive(
        name="lonely", impl=abs, type=abs, jvp=abs, transpose=abs, batch=abs, doc=""
    )
    with pytest.raises(pickle.PicklingError, match="variable of that name"):
        pickle.dumps(lonely)


def test_errors_keep_their_words_through_copies():
    with pytest.raises(ShapeError) as caught:
        np.ones(3) @ ftrace.grad(lambda x: np.reshape(x, (7,)).sum())(np.ones(3))
    error = caught.value
    error.add_note("a note")
    for other in (copy.copy(error), copy.deepcopy(error), again(again(error))):
        assert type(other) is ShapeError
        assert str(other) == str(error)
        assert (other.what, other.where, other.fix) == (error.what, error.where, error.fix)
        assert other.__notes__ == error.__notes__
        assert other.__notes__[-1] == "a note"


def test_every_class_of_errors_is_pickled():
    todo = [FtraceError]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if cls.__module__ == "ftrace.core.errors":
            other = again(cls("What.", "Fix."))
            assert (type(other), other.what, other.fix) == (cls, "What.", cls("", "Fix.").fix)


def test_another_process_reads_what_this_one_wrote():
    jaxpr = ftrace.make_jaxpr(program)(2.0)
    model = named.Plain()
    model.step(1.0)
    data = pickle.dumps((jaxpr, model, named.cube, ftrace.jit(named.power, static_argnums=1)))
    text = (
        "import pickle, sys\n"
        "jaxpr, model, cube, power = pickle.load(sys.stdin.buffer)\n"
        "from ftrace.core.jaxpr import eval_jaxpr\n"
        "print(eval_jaxpr(jaxpr, [2.0])[0], model.step(2.0), cube(2.0), power(2.0, 5))"
    )
    done = subprocess.run([sys.executable, "-c", text], input=data, capture_output=True, check=True)
    expected = (eval_jaxpr(jaxpr, [2.0])[0], 8.0, 8.0, 32.0)
    assert tuple(map(float, done.stdout.split())) == pytest.approx(expected, rel=1e-14)
