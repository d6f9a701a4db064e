"""What one run leaves for the next, in functions that are traced once for many: a named error."""

import collections
import contextlib
import contextvars
import functools
import heapq
import itertools
import operator
import types
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.errors import LiftError, UnexpectedTracerError

_four = np.array([1.3, -0.7, 2.1, 1.3])
_count = 0
_Fun = Callable[[Any], Any]


class Counter:
    """Counts its calls."""

    of_class = 0

    def __init__(self) -> None:
        self.n = 0

    def step(self, x: Any) -> Any:
        self.n += 1
        return x * self.n

    def __call__(self, x: Any) -> Any:
        return self.step(x)


def _attribute() -> _Fun:
    counter = Counter()
    return lambda x: counter.step(x) + counter.step(2 * x)


def _of_class() -> _Fun:
    Counter.of_class = 0

    def f(x: Any) -> Any:
        Counter.of_class += 1
        return x * Counter.of_class

    return f


def _set_by_name() -> _Fun:
    space = types.SimpleNamespace(k=0.0)

    def f(x: Any) -> Any:
        setattr(space, "k", space.k + 1)  # noqa: B010
        return x * space.k

    return f


def _nonlocal() -> _Fun:
    c = 0

    def f(x: Any) -> Any:
        nonlocal c
        c += 1
        return x * c

    return f


def _global() -> _Fun:
    def f(x: Any) -> Any:
        global _count
        _count += 1
        return x * _count

    return f


def _default() -> _Fun:
    def f(x: Any, seen: dict[str, int] = {}) -> Any:  # noqa: B006
        seen["n"] = seen.get("n", 0) + 1
        return x * seen["n"]

    return f


def _drawn_from(it: Any) -> _Fun:
    return lambda x: x * next(it)


def _sent_to() -> _Fun:
    def sums() -> Any:
        total = 0.0
        while True:
            total += yield total

    it = sums()
    next(it)
    return lambda x: x + it.send(1.0)


def _rotated() -> _Fun:
    d = collections.deque([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        d.rotate(1)
        return x * d[0]

    return f


def _popped() -> _Fun:
    numbers = [float(i) for i in range(40)]
    return lambda x: x * numbers.pop()


def _heap() -> _Fun:
    numbers = [float(i) for i in range(40)]
    return lambda x: x * heapq.heappop(numbers)


def _replaced() -> _Fun:
    hooks = [lambda v: v * 2]

    def f(x: Any) -> Any:
        result = hooks[0](x)
        hooks[0] = lambda v: v * 3
        return result + len(hooks)

    return f


def _appended_and_read() -> _Fun:
    calls: list[int] = []

    def g(k: float, x: Any) -> Any:
        calls.append(1)
        return x * k * len(calls)

    return functools.partial(g, 2.0)


def _context() -> _Fun:
    v = contextvars.ContextVar("v", default=1.0)

    def f(x: Any) -> Any:
        k = v.get()
        v.set(k + 1)
        return x * k

    return f


def _first() -> _Fun:
    state = types.SimpleNamespace(first=True)

    def f(x: Any) -> Any:
        if not state.first:
            return 2 * x
        state.first = False
        return x

    return f


def _from_the_fourth_on() -> _Fun:
    state = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        state.n += 1
        return x if state.n < 4 else 2 * x

    return f


def _previous() -> _Fun:
    state = types.SimpleNamespace(last=None)

    def f(x: Any) -> Any:
        step = x if state.last is None else x - state.last
        state.last = x
        return step

    return f


def _written_arrays() -> _Fun:
    array = np.zeros(3)

    def f(x: Any) -> Any:
        array[:] += 1
        return (x * array).sum()

    return f


def _tables() -> _Fun:
    tables = [np.full(3, float(i)) for i in range(40)]
    return lambda x: (x * tables.pop()).sum()


def _of_a_property() -> _Fun:
    class Dial:
        n = 0

        @property
        def next(self) -> int:
            self.n += 1
            return self.n

    dial = Dial()
    return lambda x: x * dial.next


def _bound_method() -> _Fun:
    calls: list[int] = []
    note = calls.append

    def f(x: Any) -> Any:
        note(1)
        return x * len(calls)

    return f


def _set_by_operator() -> _Fun:
    counts = {"n": 0}

    def f(x: Any) -> Any:
        operator.setitem(counts, "n", counts["n"] + 1)
        return x * counts["n"]

    return f


def _either(known: bool) -> _Fun:
    """What a name holds may be its own, or from outside."""
    shared: list[int] = []

    def f(x: Any) -> Any:
        out = shared if known else []
        out.append(1)
        return x * len(out)

    return f


def _by_turns() -> _Fun:
    shared: list[int] = []

    def f(x: Any) -> Any:
        out: list[int] = []
        for _ in range(2):
            out.append(1)
            out = shared
        return x * len(out)

    return f


def _by_a_helper() -> _Fun:
    shared: list[int] = []

    def add(out: list[int]) -> int:
        out.append(1)
        return len(out)

    return lambda x: x * add(shared)


def _given_by_a_context() -> _Fun:
    shared: list[int] = []

    @contextlib.contextmanager
    def opened() -> Generator[list[int]]:
        yield shared

    def f(x: Any) -> Any:
        with opened() as out:
            out.append(1)
        return x * len(shared)

    return f


def _of_an_item_of_an_item() -> _Fun:
    rows = [[0.0]]

    def f(x: Any) -> Any:
        rows[0][0] += 1
        return x * rows[0][0]

    return f


def _of_a_host_function() -> _Fun:
    state = types.SimpleNamespace(n=0.0)

    def f(x: Any) -> Any:
        state.n += 1
        k = state.n
        return ftrace.pure_callback(lambda v: v * k, scalar, x)

    scalar = ftrace.ShapeDtypeStruct((), np.float64)
    return f


def _of_an_inner_loop() -> _Fun:
    state = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        state.n += 1
        k = state.n
        return lax.scan(lambda c, _: (c * k, None), x, None, 2)[0]

    return f


CARRIED: dict[str, Callable[[], _Fun]] = {
    "an attribute": _attribute,
    "a method": lambda: Counter().step,
    "an object that is called": Counter,
    "an attribute of a class": _of_class,
    "setattr": _set_by_name,
    "nonlocal": _nonlocal,
    "global": _global,
    "a default": _default,
    "an iterator": lambda: _drawn_from(iter(range(40))),
    "a generator": lambda: _drawn_from(float(i) for i in range(40)),
    "count": lambda: _drawn_from(itertools.count()),
    "cycle": lambda: _drawn_from(itertools.cycle([1.0, 2.0])),
    "filter": lambda: _drawn_from(filter(None, range(40))),
    "send": _sent_to,
    "deque": _rotated,
    "pop": _popped,
    "heap": _heap,
    "an item": _replaced,
    "len of what is appended": _appended_and_read,
    "a context variable": _context,
    "a first run": _first,
    "a fourth run": _from_the_fourth_on,
    "the previous argument": _previous,
    "an array": _written_arrays,
    "arrays of a list": _tables,
    "a property": _of_a_property,
    "a method by name": _bound_method,
    "operator.setitem": _set_by_operator,
    "one of two": lambda: _either(True),
    "by turns": _by_turns,
    "a helper": _by_a_helper,
    "what a context gives": _given_by_a_context,
    "an item of an item": _of_an_item_of_an_item,
    "a host function's closure": _of_a_host_function,
    "an inner loop": _of_an_inner_loop,
}

TRANSFORMED: dict[str, Callable[[_Fun], Any]] = {
    "vmap": lambda f: ftrace.vmap(f)(_four),
    "vmap in jit": lambda f: ftrace.jit(ftrace.vmap(f))(_four),
    "vectorize": lambda f: ftrace.vectorize(f)(_four),
    "map": lambda f: lax.map(f, _four),
    "scan": lambda f: lax.scan(lambda c, x: (c + f(x), x), 0.0, _four),
    "fori_loop": lambda f: lax.fori_loop(0, 4, lambda i, c: c + f(c), 1.0),
    "while_loop": lambda f: lax.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, f(c[1])), (0, 1.0)
    ),
}


@pytest.mark.sampled(3, each="make")
@pytest.mark.parametrize("transformed", TRANSFORMED.values(), ids=TRANSFORMED)
@pytest.mark.parametrize("make", CARRIED.values(), ids=CARRIED)
def test_what_a_run_leaves_for_the_next_is_an_error(
    make: Callable[[], _Fun], transformed: Callable[[_Fun], Any]
) -> None:
    with pytest.raises(
        (LiftError, UnexpectedTracerError),
        match=r"changes what it reads, .* once for all|overwrites `",
    ):
        transformed(make())


def _logged() -> _Fun:
    log: list[str] = []

    def f(x: Any) -> Any:
        log.append("called")
        return x * 2

    return f


def _counted_only() -> _Fun:
    counter = Counter()

    def f(x: Any) -> Any:
        counter.n += 1
        return x * 2

    return f


def _cached() -> _Fun:
    memo: dict[str, float] = {}

    def f(x: Any) -> Any:
        if "k" not in memo:
            memo["k"] = 3.0
        return x * memo["k"]

    return f


def _set_default() -> _Fun:
    store: dict[str, float] = {}
    return lambda x: store.setdefault("k", 2.0) * x


def _lru() -> _Fun:
    g = functools.lru_cache(lambda k: k * 2.0)
    return lambda x: x * g(3)


def _own_list() -> _Fun:
    def f(x: Any) -> Any:
        parts: list[Any] = []
        for i in range(3):
            parts.append(x * i)  # noqa: PERF401 - the call is what is tested
        return sum(parts)

    return f


def _own_iterator() -> _Fun:
    def f(x: Any) -> Any:
        it = iter([1.0, 2.0])
        return x * next(it) + next(it)

    return f


def _restored() -> _Fun:
    depth = [0]

    def f(x: Any) -> Any:
        depth[0] += 1
        try:
            return x * depth[0]
        finally:
            depth[0] -= 1

    return f


def _context_restored() -> _Fun:
    v = contextvars.ContextVar("v", default=1.0)

    def f(x: Any) -> Any:
        token = v.set(2.0)
        try:
            return x * v.get()
        finally:
            v.reset(token)

    return f


ALIKE: dict[str, Callable[[], _Fun]] = {
    "a log": _logged,
    "a cache": _cached,
    "setdefault": _set_default,
    "lru_cache": _lru,
    "a list of its own": _own_list,
    "an iterator of its own": _own_iterator,
    "set back": _restored,
    "a context variable set back": _context_restored,
}


@pytest.mark.parametrize("transformed", TRANSFORMED.values(), ids=TRANSFORMED)
@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE)
def test_runs_that_are_alike_go_on_as_in_python(
    make: Callable[[], _Fun], transformed: Callable[[_Fun], Any]
) -> None:
    f = make()
    expected = ftrace.tree.leaves(transformed(_plain(make())))
    for _ in range(3):
        got = ftrace.tree.leaves(transformed(f))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("name", sorted(TRANSFORMED.keys() - {"vectorize"}))
def test_a_count_that_nobody_reads_is_no_error(name: str) -> None:
    test_runs_that_are_alike_go_on_as_in_python(_counted_only, TRANSFORMED[name])


def _plain(f: _Fun) -> _Fun:
    """The same, linear as all of them are, from two runs of it."""
    zero, one = f(0.0), f(1.0)
    return lambda x: zero + (one - zero) * x


def test_a_kept_comparison_sees_what_begins_to_change() -> None:
    state = types.SimpleNamespace(counts=False, n=0)

    def f(x: Any) -> Any:
        if state.counts:
            state.n += 1
        return x * state.n

    np.testing.assert_array_equal(ftrace.vmap(f)(_four), 0 * _four)
    np.testing.assert_array_equal(ftrace.vmap(f)(_four), 0 * _four)
    state.n = 2
    np.testing.assert_array_equal(ftrace.vmap(f)(_four), 2 * _four)
    state.counts = True
    with pytest.raises(LiftError, match="changes what it reads, `n`"):
        ftrace.vmap(f)(_four)


def test_code_that_is_replaced_is_looked_at_anew() -> None:
    c = 0

    def f(x: Any) -> Any:
        nonlocal c
        c = 7
        return x

    def g(x: Any) -> Any:
        nonlocal c
        c += 1
        return x * c

    ftrace.vmap(f)(_four)
    ftrace.vmap(f)(_four)
    f.__code__ = g.__code__
    with pytest.raises(LiftError, match="changes what it reads, `c`"):
        ftrace.vmap(f)(_four)
