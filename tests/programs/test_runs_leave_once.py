"""Runs that ftrace makes to compare them leave nothing: what one run does is there, once."""

import collections
import functools

import numpy as np
import pytest

import ftrace

COUNT = 0
LOG: list = []


class Model:
    """An object whose calls leave traces of many kinds."""

    def __init__(self):
        self.w = np.ones(4)
        self.calls = 0
        self.seen = {}
        self.queue = collections.deque()
        self.names = set()

    def views(self, y):
        view = self.w[:]
        view *= 2.0
        return y * 3.0

    def counts(self, y):
        self.calls += 1
        return y * 3.0

    def nests(self, y):
        self.seen["last"] = [self.calls]
        self.queue.append(len(self.queue))
        self.names.add(len(self.names))
        return y * 3.0

    def content(self):
        return self.w.tolist(), self.calls, self.seen, list(self.queue), self.names


def counts_globally(y):
    global COUNT
    COUNT += 1
    LOG.append(COUNT)
    return y * 3.0


MAPS = {
    "vmap": lambda f: ftrace.vmap(f)(np.ones(3)),
    "map": lambda f: ftrace.lax.map(f, np.ones(3)),
    "jit of vmap": lambda f: ftrace.jit(ftrace.vmap(f))(np.ones(3)),
    "vectorize": lambda f: ftrace.vectorize(f)(np.ones(3)),
}


@pytest.mark.parametrize("name", ["views", "counts", "nests"])
@pytest.mark.parametrize("way", MAPS.values(), ids=MAPS)
def test_a_call_leaves_what_one_run_leaves(way, name):
    once, mapped = Model(), Model()
    getattr(once, name)(1.0)
    try:
        result = way(getattr(mapped, name))
    except ftrace.errors.FtraceError:
        before = Model().content()
        assert mapped.content() in (before, once.content())
    else:
        np.testing.assert_array_equal(result, np.full(3, 3.0))
        assert mapped.content() == once.content()


@pytest.mark.parametrize("way", [MAPS["vmap"], MAPS["map"]])
def test_globals_and_logs_are_those_of_one_run(way):
    global COUNT
    COUNT = 0
    LOG.clear()
    np.testing.assert_array_equal(way(functools.partial(counts_globally)), np.full(3, 3.0))
    assert (COUNT, LOG) == (1, [1])


@pytest.mark.parametrize("way", [MAPS["vmap"], MAPS["map"]])
def test_variables_of_a_closure_are_those_of_one_run(way):
    count = 0

    def counts(y):
        nonlocal count
        count += 1
        return y * (3.0 if count else 2.0)

    np.testing.assert_array_equal(way(counts), np.full(3, 3.0))
    assert count == 1


def test_an_error_leaves_what_one_run_leaves():
    model = Model()

    def reads(y):
        view = model.w[:]
        view *= 2.0
        return y * model.w.sum()

    with pytest.raises(ftrace.errors.FtraceError):
        ftrace.vmap(reads)(np.ones(3))
    assert model.w.tolist() in ([1.0] * 4, [2.0] * 4)
