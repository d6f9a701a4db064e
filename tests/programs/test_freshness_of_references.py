"""What a function reads through weak references and behind `numpy.frompyfunc` is fresh."""

import functools
import gc
import weakref

import numpy as np
import pytest

from ftrace import grad, jit


class Held:
    value = 3.0

    def get(self):
        return self.value


def called(held):
    reference = weakref.ref(held)
    return lambda x: x * reference().value


def method(held):
    reference = weakref.WeakMethod(held.get)
    return lambda x: x * reference()()


def proxy(held):
    shown = weakref.proxy(held)
    return lambda x: x * shown.value


def values(held):
    known = weakref.WeakValueDictionary(a=held)
    return lambda x: x * known["a"].value


def keys(held):
    known = weakref.WeakKeyDictionary({held: [held]})
    return lambda x: x * known[held][0].value


def behind_a_ufunc(held):
    ufunc = np.frompyfunc(lambda v: v * held.value, 1, 1)
    return lambda x: x * ufunc(1.0)


@pytest.mark.parametrize("make", [called, method, proxy, values, keys, behind_a_ufunc])
def test_what_is_reached_by_a_hidden_way_is_read_again_when_it_changes(make):
    held = Held()
    f = make(held)
    compiled, differentiated = jit(f), jit(grad(f))
    assert (compiled(2.0), differentiated(2.0)) == (6.0, 3.0)
    held.value = 5.0
    assert (compiled(2.0), differentiated(2.0)) == (10.0, 5.0)


def test_a_trace_does_not_keep_alive_what_is_referred_to_weakly():
    held = Held()
    reference = weakref.ref(held)
    f = jit(lambda x: x * (7.0 if reference() is None else reference().value))
    assert f(2.0) == 6.0
    del held
    gc.collect()
    assert reference() is None
    assert f(2.0) == 14.0


def unbounded(read):
    return functools.cache(lambda: read())


def bounded(read):
    return functools.lru_cache(maxsize=2)(lambda: read())


@pytest.mark.parametrize("cached", [unbounded, bounded])
def test_a_cache_that_is_cleared_is_asked_again(cached):
    held = Held()
    kept = cached(lambda: held.value)
    f = jit(lambda x: x * kept())
    assert f(2.0) == 6.0
    held.value = 5.0
    assert f(2.0) == 6.0
    kept.cache_clear()
    assert f(2.0) == 10.0
    held.value = 7.0
    kept.cache_clear()
    assert kept() == 7.0
    assert f(2.0) == 14.0


def test_a_cache_that_others_fill_costs_no_trace():
    traced = []
    kept = functools.cache(lambda k: 3.0 * k)

    def f(x):
        traced.append(0)
        return x * kept(1)

    compiled = jit(f)
    for k in range(40):
        assert compiled(2.0) == 6.0
        kept(k)
    assert len(traced) == 1


def test_a_method_that_is_cached_for_its_objects():
    class Model:
        scale = 3.0

        @functools.lru_cache  # noqa: B019
        def factor(self):
            return self.scale

    model = Model()
    f = jit(lambda x: x * model.factor())
    assert f(2.0) == 6.0
    model.scale = 5.0
    Model.factor.cache_clear()
    assert f(2.0) == 10.0
