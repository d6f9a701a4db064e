"""Functions that change what they read, or read much: each for a planted bug of the guards."""

import collections
import sys
import types

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import jit, lax, vmap
from ftrace.control import once
from ftrace.control.changing import may_change, rebinds
from ftrace.control.drawing import is_source, may_draw, names_draw
from ftrace.control.guards import Watch
from ftrace.control.traces import counter
from ftrace.core import errors
from ftrace.interpreters.captures import COPY_LIMIT

X = np.array([1.0, 2.0, 3.0])
SEEN = []
NOTE = SEEN.append


def noted(x):
    NOTE(1)
    return x * len(SEEN)


def test_a_method_of_a_list_is_known_to_change_it_by_any_name():
    with pytest.raises(errors.LiftError, match="noted changes what it reads"):
        vmap(noted)(X)


def test_what_lets_a_function_read_what_it_changes_is_watched():
    log, table = [], np.zeros(1)

    def f(x):
        log.append("called")
        return x * len(log) if table[0] > 0 else x

    for _ in range(2):
        np.testing.assert_array_equal(vmap(f)(X), X)
    table[0] = 1.0
    with pytest.raises(errors.LiftError, match="f changes what it reads"):
        vmap(f)(X)


def test_a_function_of_two_numbers_may_keep_a_log():
    log = []

    def added(a, b):
        log.append("called")
        return a + b

    assert lax.reduce(X, 0.0, added, (0,)) == 6.0


def test_modules_that_are_imported_while_runs_are_compared_stay(monkeypatch):
    monkeypatch.setitem(sys.modules, "ftrace_test_here", types.ModuleType("ftrace_test_here"))

    def f(x):
        import ftrace_test_here

        return x * bool(ftrace_test_here)

    before = Watch(f).snapshot()
    monkeypatch.setitem(sys.modules, "ftrace_test_later", types.ModuleType("ftrace_test_later"))
    before.restore()
    assert "ftrace_test_later" in sys.modules


def test_objects_in_a_large_array_are_compared():
    table = np.array([types.SimpleNamespace(w=2.0)] * (COPY_LIMIT // 8 + 1), dtype=object)
    f = jit(lambda x: x * table[0].w)
    with ftrace.config.update(check_captures=False):
        assert f(2.0) == 4.0
        table[0] = types.SimpleNamespace(w=3.0)
        assert f(2.0) == 6.0


GROW = {
    collections.deque: lambda log: log.append(len(log)),
    list: lambda log: log.append(len(log)),
    set: lambda log: log.add(len(log)),
    dict: lambda log: log.update({len(log): 1}),
    types.SimpleNamespace: lambda log: setattr(log, f"k{len(vars(log))}", 1),
}


@pytest.mark.parametrize("kind", GROW)
def test_only_one_of_the_runs_that_are_compared_leaves_something(kind):
    log = kind()

    def f(x):
        GROW[kind](log)
        return x

    vmap(f)(X)
    assert len(getattr(log, "__dict__", log)) == 1


def test_a_function_that_writes_only_into_what_it_made_is_run_once(monkeypatch):
    monkeypatch.setattr(once, "_compared", None)
    for _ in range(2):
        np.testing.assert_array_equal(vmap(lambda x: [x].append(1) or x * 2.0)(X), 2.0 * X)


def test_a_program_made_ahead_has_the_integers_of_containers_as_its_trace_has():
    f = jit(lambda p: np.ones(p["n"]) * p["w"])
    given = {"n": 2, "w": 3.0}
    np.testing.assert_array_equal(f.lower(given).compile()(given), [3.0, 3.0])


def test_a_function_that_begins_to_count_for_other_arguments_is_named():
    count = []

    def f(x):
        if np.ndim(x):
            count.append(1)
        return x * (1 + len(count))

    np.testing.assert_array_equal(vmap(f)(X), X)
    with pytest.raises(errors.LiftError, match="f changes what it reads, a list"):
        vmap(f)(np.ones((3, 2)))


def test_functions_of_array_modules_change_nothing_whatever_their_names():
    assert not may_change(lambda x: np.add(x, fnp.sort(x)))
    assert may_change(lambda x: X.sort())


class Same:
    """Equal to every other one."""

    def __init__(self, counts):
        self.counts = counts

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def test_functions_of_different_objects_that_are_equal_are_told_apart():
    def of(thing):
        def f(x):
            log.append("called")
            return x * len(log) if thing.counts else x

        return f

    log = []
    good, bad = Same(False), Same(True)
    np.testing.assert_array_equal(vmap(of(good))(X), X)
    with pytest.raises(errors.LiftError, match="f changes what it reads"):
        vmap(of(bad))(X)


def test_what_a_walk_leaves_is_of_no_use():
    kept = []

    def f(x):
        kept.append(x)
        return np.sum(x * 2.0)

    ftrace.debug.blame(f, X)
    with pytest.raises(errors.UnexpectedTracerError):
        kept[0] + 1.0


COUNT = 0


def test_a_count_is_what_one_run_leaves():
    log = []

    def f(x):
        global COUNT
        COUNT += 1
        n = len(log)
        log.append(n)
        return x

    vmap(f)(X)
    assert (COUNT, len(log)) == (1, 1)


def test_what_an_array_function_gives_may_be_another_array():
    def f(x):
        np.ravel(X)[0] = 5.0
        return x

    assert may_change(f)


def test_what_has_the_name_of_a_class_of_pythons_may_give_what_is_there_already():
    def filling(scope):
        exec("def f(x):\n    out = dict()\n    out.update(x)\n    return x", scope)
        return scope["f"]

    assert not may_change(filling({}))
    assert not may_change(filling({"dict": dict}))
    assert may_change(filling({"dict": lambda: GROW}))


def test_ftraces_own_random_numbers_are_none_of_a_shared_generator():
    assert not may_draw(lambda key: ftrace.random.normal(key))
    assert may_draw(lambda key: np.random.normal())  # noqa: NPY002 - what is asked about


def test_a_variable_that_an_inner_function_rebinds_is_rebound():
    n = 0

    def f(x):
        def g():
            nonlocal n
            n += 1
            return x

        return g()

    assert rebinds(f.__code__)
    assert not rebinds(test_a_count_is_what_one_run_leaves.__code__)


def test_a_method_of_a_generator_is_a_source_of_random_numbers():
    rng = np.random.default_rng(0)
    assert is_source(rng.normal)
    assert is_source(rng)
    assert not is_source([].append)


def test_what_a_comprehension_makes_may_be_filled():
    def f(x):
        out = [v for v in (x, x)]  # noqa: C416 - what is asked about
        out.append(x)
        return out

    assert not may_change(f)


def test_names_of_random_numbers_are_known():
    assert names_draw({"np", "random"})
    assert not names_draw({"np", "abs"})


def test_the_trace_that_was_not_used_for_longest_goes_first():
    f = jit(lambda x: x * 2.0)
    with ftrace.config.update(kept_traces=4):
        for n in (1, 2, 3, 4, 1, 5):
            f(np.ones(n))
        before = counter.count
        f(np.ones(1))
        assert counter.count == before
        f(np.ones(2))
        assert counter.count == before + 1
