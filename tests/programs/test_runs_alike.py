"""Ordinary programs that keep something from run to run, and compute the same in each of them.

They cache, log, count and reuse what is theirs: traced once for many elements or iterations they
are right, so there must be no error; each is compared with plain Python's loop.
"""

import collections
import contextlib
import dataclasses
import functools
import gc
import heapq
import io
import itertools
import logging
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import Any, ClassVar

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.control import once
from ftrace.errors import LiftError

_Fun = Callable[[Any], Any]
_X = np.array([1.3, -0.7, 2.1, 0.4])
_SCALAR = ftrace.ShapeDtypeStruct((), np.float64)
_logger = logging.getLogger(__name__)
PROGRAMS: dict[str, Callable[[], _Fun]] = {}


def _program(make: Callable[[], _Fun]) -> Callable[[], _Fun]:
    PROGRAMS[make.__name__] = make
    return make


# ---------------------------------------------------------------------------------- caches


@_program
def functools_cache() -> _Fun:
    @functools.cache
    def table(n: int) -> Any:
        return np.arange(n) * 1.0

    return lambda x: x * table(3).sum()


@_program
def cached_property() -> _Fun:
    class Model:
        @functools.cached_property
        def w(self) -> Any:
            return np.ones(3) * 2

        def __call__(self, x: Any) -> Any:
            return x * self.w.sum()

    return Model()


@_program
def table_made_at_first_use() -> _Fun:
    class Model:
        made = None

        def table(self) -> Any:
            if self.made is None:
                self.made = np.linspace(0, 1, 5)
            return self.made

        def __call__(self, x: Any) -> Any:
            return x * self.table()[2]

    return Model()


@_program
def table_of_a_default_dict() -> _Fun:
    table = collections.defaultdict(lambda: 2.0)
    return lambda x: x * table["k"]


@_program
def memo_of_a_recursion() -> _Fun:
    memo: dict[int, int] = {}

    def fib(n: int) -> int:
        if n < 2:
            return n
        if n not in memo:
            memo[n] = fib(n - 1) + fib(n - 2)
        return memo[n]

    return lambda x: x * fib(10)


@_program
def memo_that_forgets() -> _Fun:
    @functools.lru_cache(maxsize=1)
    def g(n: int) -> float:
        return n * 2.0

    return lambda x: x * g(1) + g(2)


@_program
def weak_cache() -> _Fun:
    class Key:
        pass

    found: Any = weakref.WeakKeyDictionary()
    key = Key()

    def f(x: Any) -> Any:
        if key not in found:
            found[key] = 2.0
        return x * found[key]

    return f


@_program
def nodes_kept_by_value() -> _Fun:
    class Node:
        nodes: ClassVar[dict[float, Any]] = {}

        def __new__(cls, k: float) -> Any:
            node = cls.nodes.get(k)
            if node is None:
                node = cls.nodes[k] = object.__new__(cls)
            return node

        def __init__(self, k: float) -> None:
            self.k = k

    return lambda x: Node(2.0).k * x + Node(3.0).k * x


@_program
def compiled_at_first_use() -> _Fun:
    made: dict[str, Any] = {}

    def f(x: Any) -> Any:
        if "g" not in made:
            made["g"] = ftrace.jit(lambda y: y * 2)
        return made["g"](x)

    return f


# ---------------------------------------------------------------------------------- notes


@_program
def logs() -> _Fun:
    def f(x: Any) -> Any:
        _logger.debug("called with %s", type(x))
        return x * 2

    return f


@_program
def counts_by_name() -> _Fun:
    counts: Any = collections.Counter()

    def f(x: Any) -> Any:
        counts["calls"] += 1
        return x * 2

    return f


@_program
def counts_that_are_printed() -> _Fun:
    state, text = types.SimpleNamespace(n=0), io.StringIO()

    def f(x: Any) -> Any:
        state.n += 1
        if state.n % 100 == 0:
            print(state.n, file=text)
        print(f"call {state.n}", file=text)
        return x * 2

    return f


@_program
def counts_under_a_lock() -> _Fun:
    lock, counts = threading.Lock(), {"n": 0}

    def f(x: Any) -> Any:
        with lock:
            counts["n"] += 1
        return x * 2

    return f


@_program
def times_of_calls() -> _Fun:
    spent: Any = collections.defaultdict(float)

    def timed(g: _Fun) -> _Fun:
        @functools.wraps(g)
        def wrapper(x: Any) -> Any:
            start = time.perf_counter()
            try:
                return g(x)
            finally:
                spent[g.__name__] += time.perf_counter() - start

        return wrapper

    double = timed(lambda x: x * 2)
    return lambda x: double(x) + 1


@_program
def warnings_that_are_caught() -> _Fun:
    def f(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("old", stacklevel=1)
        return x * 2

    return f


@_program
def warned_once() -> _Fun:
    seen: set[str] = set()

    def f(x: Any) -> Any:
        if "old" not in seen:
            seen.add("old")
        return x * 2

    return f


@_program
def stack_of_a_profiler() -> _Fun:
    stack: list[str] = []
    totals: dict[str, int] = {}

    def f(x: Any) -> Any:
        stack.append("f")
        y = x * 2
        totals[stack[-1]] = totals.get(stack[-1], 0) + 1
        stack.pop()
        return y

    return f


@_program
def shapes_of_layers() -> _Fun:
    class Layer:
        def __init__(self) -> None:
            self.calls, self.last, self.w = 0, None, np.ones(2)

        def __call__(self, x: Any) -> Any:
            self.calls += 1
            self.last = x.shape
            return self.w.sum() * x

    layers = [Layer(), Layer()]

    def f(x: Any) -> Any:
        for layer in layers:
            x = np.tanh(layer(x))
        return x

    return f


@_program
def host_functions_that_count() -> _Fun:
    count = itertools.count()

    def host(v: Any) -> Any:
        next(count)
        return np.asarray(v) * 2

    return lambda x: ftrace.pure_callback(host, _SCALAR, x)


# ---------------------------------------------------------------------------------- rebuilt


@_program
def attribute_rebuilt() -> _Fun:
    class Model:
        def __call__(self, x: Any) -> Any:
            self.h = []
            for k in range(3):
                self.h.append(x * k)
            return self.h[0] + self.h[1] + self.h[2]

    return Model()


@_program
def array_attribute_rebuilt() -> _Fun:
    class Model:
        def __call__(self, x: Any) -> Any:
            self.h = np.zeros(3)
            self.h = self.h + 1
            return (self.h * x).sum()

    return Model()


@_program
def dict_cleared() -> _Fun:
    scratch: dict[str, Any] = {}

    def f(x: Any) -> Any:
        scratch.clear()
        scratch["a"] = x * 2
        y = scratch["a"] + 1
        scratch.clear()
        return y

    return f


@_program
def array_refilled() -> _Fun:
    array = np.zeros(3)

    def f(x: Any) -> Any:
        array[...] = [1, 2, 3]
        return (x * array).sum() + array[1]

    return f


@_program
def queue_emptied() -> _Fun:
    queue: Any = collections.deque()

    def f(x: Any) -> Any:
        queue.append((x, 0))
        total = 0.0
        while queue:
            v, n = queue.popleft()
            total = total + v
            if n < 2:
                queue.append((v * 2, n + 1))
        return total

    return f


@_program
def heap_rebuilt() -> _Fun:
    heap: list[float] = []

    def f(x: Any) -> Any:
        heap.clear()
        for v in (3.0, 1.0, 2.0):
            heapq.heappush(heap, v)
        return x * heapq.heappop(heap)

    return f


@_program
def object_reset() -> _Fun:
    state = types.SimpleNamespace(a=0.0, b=0.0)

    def f(x: Any) -> Any:
        state.a, state.b = 1.0, 2.0
        state.a += 1
        state.b *= 3
        return x * state.a * state.b

    return f


@_program
def closure_rebuilt() -> _Fun:
    class Model:
        def __call__(self, x: Any) -> Any:
            self.activation = lambda v: v * 2
            return self.activation(x)

    return Model()


@_program
def compiled_anew() -> _Fun:
    made: dict[str, Any] = {}

    def f(x: Any) -> Any:
        made["g"] = ftrace.jit(lambda y: y * 2)
        return made["g"](x)

    return f


@_program
def rule_made_anew() -> _Fun:
    made: dict[str, Any] = {}

    def f(x: Any) -> Any:
        rule = ftrace.custom_jvp(lambda y: y * 2)
        rule.defjvp(lambda p, t: (rule(*p), t[0] * 2))
        made["rule"] = rule
        return made["rule"](x)

    return f


@_program
def rule_made_anew_in_a_call() -> _Fun:
    return ftrace.jit(rule_made_anew())


@_program
def mode_set_and_set_back() -> _Fun:
    class Model:
        training = False

        def train(self, value: bool) -> None:
            self.training = value

        def __call__(self, x: Any) -> Any:
            self.train(True)
            y = x * 2 if self.training else x
            self.train(False)
            return y

    return Model()


@_program
def settings_in_a_stack() -> _Fun:
    stack = [1.0]

    @contextlib.contextmanager
    def scaled(by: float) -> Generator[None]:
        stack.append(by)
        try:
            yield
        finally:
            stack.pop()

    def f(x: Any) -> Any:
        with scaled(3.0):
            return x * stack[-1]

    return f


@_program
def depth_of_a_recursion() -> _Fun:
    class Walk:
        depth = 0

        def run(self, x: Any, n: int) -> Any:
            self.depth += 1
            try:
                return x if n == 0 else x + self.run(x, n - 1)
            finally:
                self.depth -= 1

    walk = Walk()
    return lambda x: walk.run(x, 3)


@_program
def numbered_nodes() -> _Fun:
    numbers = itertools.count()
    known: dict[int, Any] = {}

    class Node:
        def __init__(self, value: Any) -> None:
            self.value, self.number = value, next(numbers)
            known[self.number] = self

    def f(x: Any) -> Any:
        nodes = [Node(x), Node(2 * x)]
        nodes.sort(key=lambda n: -n.number)
        return nodes[0].value - nodes[1].value + known[nodes[0].number].value

    return f


@_program
def iterator_of_equal_items() -> _Fun:
    twos = itertools.repeat(2.0)
    return lambda x: x * next(twos)


@_program
def replaced_dataclass() -> _Fun:
    @dataclasses.dataclass
    class Settings:
        a: float = 1.0
        b: float = 2.0

    settings = Settings()

    def f(x: Any) -> Any:
        own = dataclasses.replace(settings, a=3.0)
        own.b = 4.0
        return x * own.a * own.b

    return f


def _at(i: Any) -> Any:
    return lax.dynamic_index_in_dim(_X, i, keepdims=False)


TRANSFORMED: dict[str, Callable[[_Fun], Any]] = {
    "vmap": lambda f: ftrace.vmap(f)(_X),
    "vmap of a lambda": lambda f: ftrace.vmap(lambda x: f(x))(_X),
    "vmap in jit": lambda f: ftrace.jit(ftrace.vmap(f))(_X),
    "vmap of jit": lambda f: ftrace.vmap(ftrace.jit(f))(_X),
    "vmap with what is not mapped": lambda f: ftrace.vmap(
        lambda x, n: f(x) + 0 * range(n * 2)[-1], in_axes=(0, None)
    )(_X, 3),
    "vmap of vmap": lambda f: ftrace.vmap(ftrace.vmap(f))(_X[:, None])[:, 0],
    "vmap inside grad": lambda f: ftrace.value_and_grad(lambda w: ftrace.vmap(f)(w * _X).sum())(
        1.0
    )[0],
    "vectorize": lambda f: ftrace.vectorize(f)(_X),
    "map": lambda f: lax.map(f, _X),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(x)), 0.0, _X)[1],
    "scan in jit": lambda f: ftrace.jit(lambda xs: lax.scan(lambda c, x: (c, f(x)), 0.0, xs)[1])(
        _X
    ),
    "fori_loop": lambda f: lax.fori_loop(0, 4, lambda i, c: c + f(_at(i)), 0.0),
    "while_loop": lambda f: lax.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] + f(_at(c[0]))), (0, 0.0)
    )[1],
}
SUMS = ("vmap inside grad", "fori_loop", "while_loop")
OPAQUE = (host_functions_that_count.__name__, "vmap inside grad")


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("way", TRANSFORMED)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_whose_runs_are_alike_is_right(name: str, way: str) -> None:
    if (name, way) == OPAQUE:
        way = "map"  # a host function has no derivative
    run, f, plain = TRANSFORMED[way], PROGRAMS[name](), PROGRAMS[name]()
    values = [plain(x) for x in _X]
    expected = sum(values) if way in SUMS else values
    for _ in range(3):
        np.testing.assert_allclose(run(f), expected)


# ---------------------------------------------------------------------------------- what is kept


def _appended() -> tuple[_Fun, list[int]]:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x * 2

    return f, calls


def test_a_run_whose_traces_leave_nothing_that_is_read_takes_place_once() -> None:
    f, calls = _appended()
    ftrace.vmap(f)(_X)
    assert len(calls) == 1


def test_effects_take_place_once() -> None:
    made: dict[str, Any] = {}
    seen: list[float] = []

    def f(x: Any) -> Any:
        made["scale"] = [2.0]
        ftrace.io_callback(lambda v: seen.append(float(v)), None, x, ordered=True)
        return x * made["scale"][0]

    np.testing.assert_array_equal(ftrace.vmap(f)(_X), 2 * _X)
    assert seen == list(_X)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    watch = once.watch_of

    def counted(*args: Any) -> Any:
        found.append(args)
        return watch(*args)

    monkeypatch.setattr(once, "watch_of", counted)
    return found


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda x: f(x)], ids=["itself", "lambda"])
@pytest.mark.parametrize("make", [lambda: _appended()[0], attribute_rebuilt])
def test_a_second_call_walks_nothing(make: Any, wrap: Any, walks: list[Any]) -> None:
    f = make()
    ftrace.vmap(wrap(f))(_X)
    first = len(walks)
    assert first > 0
    for _ in range(3):
        ftrace.vmap(f if wrap(f) is f else wrap(f))(_X)
    assert len(walks) == first


def _lists(x: Any) -> Any:
    parts = []
    table: dict[str, Any] = {}
    for i in range(3):
        parts.append(x * i)
        table["last"] = parts[i]
    return sum(parts) + table["last"]


def _arrays(x: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x * i
        out[i] += 1.0
    rest = [0.0] * 3
    rest[1] += 2.0
    copy = dict(a=1.0)  # noqa: C408 - a class is called
    copy["b"] = 3.0
    return out.sum() + rest[1] + copy["b"]


class _Point:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.both = [v * 2 for v in (x, x)]


def _objects(x: Any) -> Any:
    return _Point(x).x + _Point(x).both[0]


@pytest.mark.parametrize("f", [_lists, _arrays, _objects], ids=lambda f: f.__name__)
def test_a_function_that_changes_only_what_it_makes_is_not_walked(
    f: _Fun, walks: list[Any]
) -> None:
    np.testing.assert_allclose(ftrace.vmap(lambda x: f(x))(_X), [f(x) for x in _X])
    np.testing.assert_allclose(lax.map(f, _X), [f(x) for x in _X])
    assert not walks


class _Model:
    def __init__(self) -> None:
        self.child = types.SimpleNamespace(parent=self)
        self.scale = 2.0

    def __call__(self, x: Any) -> Any:
        self.h = [x]
        return self.h[0] * self.scale

    def step(self, x: Any) -> Any:
        return self(x)


@pytest.mark.parametrize(
    "of", [lambda m: m, lambda m: m.step, lambda m: lambda x: m(x)], ids=["object", "method", "lam"]
)
def test_what_is_kept_goes_with_the_model(of: Any) -> None:
    model = _Model()
    np.testing.assert_allclose(ftrace.vmap(of(model))(_X), 2 * _X)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_what_is_kept_is_not_asked_where_a_closure_is_over_something_else() -> None:
    def over(m: Any) -> _Fun:
        return lambda x: m.run(x)

    def counting(x: Any) -> Any:
        counter.n += 1
        return x * counter.n

    plain = types.SimpleNamespace(run=_appended()[0])
    counter = types.SimpleNamespace(n=0, run=counting)
    ftrace.vmap(over(plain))(_X)
    with pytest.raises(LiftError, match="changes what it reads, `n`"):
        ftrace.vmap(over(counter))(_X)


def test_a_count_of_a_kernel_that_makes_a_difference_is_put_back_and_named() -> None:
    counts, unread = {"n": 0}, {"n": 0}

    def f(x: Any) -> Any:
        counts["n"] += 1
        return x * counts["n"]

    def g(x: Any) -> Any:
        unread["n"] += 1
        return x * 2

    with pytest.raises(LiftError, match=r"overwrites `counts\['n'\]`"):
        ftrace.vectorize(f)(_X)
    assert counts == {"n": 0}
    np.testing.assert_array_equal(ftrace.vectorize(g)(_X), 2 * _X)


def test_a_compiled_object_may_have_an_attribute_that_is_none() -> None:
    class Model:
        table: Any = None

        def __call__(self, x: Any) -> Any:
            return x * (2 if self.table is None else self.table)

    model = Model()
    f = ftrace.jit(model)
    assert f(3.0) == 6.0
    model.table = 5.0
    assert f(3.0) == 15.0
