"""Value ranges: what is known of integers while a function is traced, and who asks."""

import itertools
import random

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.interpreters import value_ranges
from ftrace.interpreters.value_ranges import ValueRange, value_range

RNG = np.random.default_rng(3)
X = RNG.normal(size=6)


def seen(f, *args):
    """The range of what a function leaves, as it is known while the function is traced."""
    found = []

    def traced(*xs):
        y = ftrace.lift(f)(*xs)
        found.append(value_range(y))
        return y

    ftrace.jit(traced).trace(*args)
    return found[-1]


def chosen(x):
    best = 0
    for j in range(6):
        if x[j] < x[best]:
            best = j
    return best


def of_counts(x):
    n = 0
    for v in x:
        if v > 0:
            n = n + 1
    return n


KNOWN = {
    "chosen among counters": (chosen, (0, 5)),
    "counted in branches": (of_counts, (0, 6)),
    "argmax": (lambda x: fnp.argmax(x), (0, 5)),
    "argmin of rows": (lambda x: fnp.argmin(fnp.reshape(x, (2, 3)), axis=1), (0, 2)),
    "comparison": (lambda x: (x[0] > 0) * 3, (0, 3)),
    "negated": (lambda x: -fnp.argmax(x) - 1, (-6, -1)),
    "products": (lambda x: (fnp.argmax(x) - 2) * (1 - fnp.argmin(x)), (-12, 8)),
    "clipped": (lambda x: fnp.clip(fnp.floor(x[0]).astype(int), -1, 4), (-1, 4)),
    "remainder of anything": (lambda x: fnp.floor(x[0]).astype(int) % 5, (0, 4)),
    "quotient": (lambda x: (fnp.argmax(x) - 3) // 2, (-2, 1)),
    "absolute": (lambda x: abs(fnp.argmax(x) - 4), (0, 4)),
    "both bits": (lambda x: fnp.argmax(x) & 3, (0, 3)),
    "a bit of either": (lambda x: fnp.argmax(x) | 8, (8, 15)),
    "of elements": (lambda x: fnp.stack([fnp.argmax(x), fnp.argmin(x) + 3])[::-1], (0, 8)),
    "least of several": (
        lambda x: fnp.minimum(fnp.argmax(x), 2) + fnp.maximum(fnp.argmax(x), 1),
        (1, 7),
    ),
    "as another integer": (lambda x: fnp.argmax(x).astype(np.int8), (0, 5)),
    "largest of integers": (lambda x: fnp.max((x > 0) * 2), (0, 2)),
    "surely greater": (lambda x: fnp.argmax(x) + 9 > fnp.argmin(x), (1, 1)),
    "surely not equal": (lambda x: fnp.argmax(x) == fnp.argmin(x) + 6, (0, 0)),
}
UNKNOWN = {
    "an argument": lambda x: fnp.floor(x[0]).astype(int),
    "a float": lambda x: fnp.argmax(x) * 1.0,
    "too large for its type": lambda x: (fnp.argmax(x) + 125).astype(np.int8),
    "overflowing": lambda x: (fnp.argmax(x) + 2**62) * 4,
    "a remainder by what may be 0": lambda x: 7 % fnp.argmax(x),
    "a quotient by what may be 0": lambda x: 7 // fnp.argmax(x),
    "a quotient by what may be negative": lambda x: fnp.argmax(x) // (fnp.argmin(x) - 9),
    "filled where there is none": lambda x: (
        ((x > 0) * 2 + 5).at[fnp.argmax(x) + 9].get(mode="fill")
    ),
    "a sum": lambda x: fnp.sum((x > 0) * 1),
    "an element of an array": lambda x: fnp.asarray(np.array([3, 9]))[(x[0] > 0) * 1],
}


@pytest.mark.parametrize("name", KNOWN)
def test_ranges_follow_from_those_of_operands(name):
    f, (low, high) = KNOWN[name]
    assert seen(f, X) == ValueRange(low, high)


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_said_of_what_may_be_anything(name):
    found = seen(UNKNOWN[name], X)
    limits = np.iinfo(np.int8 if "for its type" in name else np.int64)
    assert found is None or found == (limits.min, limits.max)


def test_transformations_are_looked_through():
    def f(x):
        return x[fnp.argmax(x)]

    for traced in (
        ftrace.jit(ftrace.vmap(ftrace.grad(f))).trace(X.reshape(2, 3)),
        ftrace.jit(lambda x: lax.cond(x[0] > 0, f, lambda x: x[0], x)).trace(X),
    ):
        assert "mode='clip'" in str(traced)
        assert "mode='raise'" not in str(traced)


def test_what_an_arm_reads_from_around_it_is_known():
    found = []

    def f(x):
        i = fnp.argmax(x) + 1

        def arm():
            found.append(value_range(i))
            return i

        return lax.cond(x[0] > 0, arm, lambda: 0)

    assert seen(f, X) == ValueRange(0, 6)
    assert found[-1] == ValueRange(1, 6)


OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: fnp.minimum(a, b),
    lambda a, b: fnp.maximum(a, b),
    lambda a, b: a // (abs(b) + 1),
    lambda a, b: a % (abs(b) + 2),
    lambda a, b: fnp.where(a < b, a, b + 1),
    lambda a, b: abs(a) & abs(b),
    lambda a, b: abs(a) | abs(b),
    lambda a, b: (a <= b) * a - (a >= b) * b + (a == b) * 2 - (a > b) * 1,
    lambda a, b: -a,
    lambda a, b: fnp.clip(a, -3, 9),
    lambda a, b: lax.cond(a > b, lambda a, b: a - 1, lambda a, b: b + 2, a, b),
)


@pytest.mark.parametrize("seed", range(20))
def test_values_lie_in_their_ranges(seed):
    """Programs of random operations on indices: their ranges hold whatever they are given."""
    choice = random.Random(seed)
    steps = [(choice.choice(OPERATIONS), choice.random(), choice.random()) for _ in range(9)]
    numbers = [choice.randrange(-4, 5) for _ in range(3)]

    def f(x):
        values = [fnp.argmax(x), fnp.argmin(x) - 3, (x[0] > 0) * 2 + numbers[0]]
        values += [fnp.where(x[1] > 0, n, -n) for n in numbers]
        for operation, i, j in steps:
            a, b = (values[int(k * len(values))] for k in (i, j))
            values.append(operation(a, b))
        return fnp.stack([fnp.asarray(v, dtype=np.int64) for v in values])

    ranges = []

    def traced(x):
        y = f(x)
        ranges[:] = [value_range(y[k]) for k in range(y.shape[0])]
        return y

    ftrace.jit(traced).trace(X)
    lows, highs = (np.array([r[k] for r in map(tuple, ranges)]) for k in (0, 1))
    for x in (*RNG.normal(size=(40, 6)), np.zeros(6), -np.ones(6)):
        y = np.asarray(f(x))
        assert (lows <= y).all()
        assert (y <= highs).all()


# ---------------------------------------------------------------------------------- indices


def test_an_index_that_is_in_range_is_not_looked_at():
    def f(x):
        return x[chosen_in(x)]

    def chosen_in(x):
        best = 0
        for j in range(6):
            if x[j] < x[best]:
                best = j
        return best

    low = ftrace.jit(f).lower(X)
    assert "raise" not in str(low.jaxpr)
    assert low.cost().callbacks == 0
    assert ftrace.jit(f)(X) == X.min()


@pytest.mark.parametrize("offset", [-7, -1, 1, 3])
def test_an_index_that_may_be_out_of_range_is(offset):
    def f(x):
        best = 0
        for j in range(6):
            if x[j] < x[best]:
                best = j
        return x[best + offset]

    for least in range(6):
        x = np.abs(X) + (np.arange(6) != least)
        try:
            wanted = f(x)
        except IndexError:
            with pytest.raises(IndexError, match="out of bounds"):
                ftrace.jit(f)(x)
        else:
            assert ftrace.jit(f)(x) == wanted


def selection_sort(x):
    a = x.copy()
    for i in range(len(a)):
        least = i
        for j in range(i + 1, len(a)):
            if a[j] < a[least]:
                least = j
        a[i], a[least] = a[least], a[i]
    return a * np.arange(len(a))


def test_sorting_by_hand_compiles_as_loops():
    x = RNG.normal(size=14)
    low = ftrace.jit(selection_sort).lower(x)
    assert sum("became a loop" in note for note in low.rolled) >= 5
    np.testing.assert_array_equal(ftrace.jit(selection_sort)(x), selection_sort(x))
    order = np.argsort(np.argsort(x))
    np.testing.assert_array_equal(
        ftrace.jit(ftrace.grad(lambda x: np.sum(selection_sort(x))))(x), order.astype(float)
    )


def test_an_index_out_of_range_in_a_rolled_loop_is_refused_in_its_turn():
    """The first iteration with such an index says so, with its value."""

    def f(x, places):
        c = x[0]
        for t in range(40):
            c = np.sin(c) + x[places[t]]
        return c

    places = RNG.integers(-6, 6, size=40)
    low = ftrace.jit(f).lower(X, places)
    assert any("became a loop" in note for note in low.rolled)
    np.testing.assert_allclose(ftrace.jit(f)(X, places), f(X, places), rtol=1e-12)
    for bad, later in itertools.pairwise((31, 12, 3)):
        places[bad] = 6 + bad
        with pytest.raises(IndexError, match=rf"{6 + bad}"):
            ftrace.jit(f)(X, places)
        assert later < bad


def test_integers_that_stay_small_are_not_asked_whether_they_fit():
    def f(x):
        n, total = 0, 0
        for v in x:
            if v > 0:
                n = n + 1
                total = total + 2 * n * n
        return n * x[0] + total

    assert "raise" not in str(ftrace.jit(f).trace(X))
    assert ftrace.jit(f)(X) == f(X)


def test_integers_that_may_grow_too_large_are():
    def f(x):
        n = 3
        for v in x:
            if v > 0:
                n = n * n
        return n * 1.0

    x = np.ones(6)
    with pytest.raises(ftrace.errors.DtypeError, match="of more than 64 bits"):
        ftrace.jit(f)(x)
    x[3:] = -1
    assert ftrace.jit(f)(x) == 3**8


def test_a_narrow_integer_takes_what_fits_without_a_question():
    def f(x, table):
        return table + chosen(x)

    table = np.arange(4, dtype=np.uint8)
    assert "raise" not in str(ftrace.jit(f).trace(X, table))
    assert ftrace.jit(f)(X, table).dtype == np.uint8
    np.testing.assert_array_equal(ftrace.jit(f)(X, table), f(X, table))
    with pytest.raises(OverflowError):
        ftrace.jit(lambda x, t: t + (chosen(x) + 300))(X, table)


# ---------------------------------------------------------------------------------- what changes


def outcome(f, *args):
    """What a function gives, or its error."""
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


def agrees(f, *args):
    """Whether a compiled function does the same."""
    return str(outcome(ftrace.jit(f), *args)) == str(outcome(f, *args))


@pytest.mark.parametrize("place", [2, 5, 20])
def test_what_a_region_writes_later_is_not_what_was_read_before(place):
    def f(x, places):
        k = np.zeros(3, dtype=int)
        k[1] = places[0]
        y = x[2]
        if x[0] > 0:
            j = k[1]
            if x[1] > 0:
                k[:] = 5
                y = x[j]
        return y, k

    x = np.array([0.3, 1.0, 2.0, 0.5, -0.2, 0.7])
    assert agrees(f, x, np.array([place]))


def test_an_array_that_is_read_and_written_in_one_region():
    def f(x):
        k = np.zeros(3, dtype=int)
        k[1] = (x[0] > 0) * 1
        y = x[2]
        if x[0] > 0:
            j = k[1]
            k[1] = 17
            y = x[j] + x[k[1] - 14]
        return y, k

    for x in (np.abs(X), -np.abs(X)):
        assert agrees(f, x)


def test_nothing_is_written_behind_an_error_that_is_caught():
    def both(x):
        a, k = x.copy(), np.argmax(x)
        try:
            a[k * 3], a[k] = 5.0, 7.0
        except IndexError:
            a[0] += 0.5
        return a

    def several(x):
        a, k = x.copy(), np.argmax(x)
        try:
            a[np.array([k, k * 3])], a[np.array([0, k])] = 5.0, 7.0
        except IndexError:
            a[k] += 1.0
        return a

    for least in range(6):
        x = np.arange(6.0) * (np.arange(6) == least)
        assert agrees(both, x)
        assert agrees(several, x)


def test_booleans_of_python_index_lists():
    def f(x):
        i, j = bool(x[0] > 0), not x[1] > 0
        return [10, 20, 30][i], (1.0, 2.0)[j], range(3, 9)[i], ([1, 2], [3, 4])[i][j]

    for x in itertools.product((-1.0, 1.0), repeat=2):
        assert ftrace.jit(f)(np.array(x)) == f(np.array(x))


def test_narrow_integers_index_long_lists():
    def f(x):
        i = np.argmax(x).astype(np.int8) - np.int8(3)
        return list(range(200))[i], range(300)[i], np.arange(200)[i]

    for least in range(6):
        x = 1.0 * (np.arange(6) == least)
        assert ftrace.jit(f)(x) == f(x)


def test_traces_that_are_compared_know_the_same_ranges():
    """A function that changes something is traced again, to see whether it computes the same."""
    log = {}

    def f(x):
        log[len(log)] = 1
        best = 0
        for j in range(6):
            if x[j] < x[best]:
                best = j
        return x[best] + x[np.argmax(x)]

    def scaled(x):
        return ftrace.vmap(lambda k: f(x * k))(x)

    def of_indices(x):
        def read(i):
            log[len(log)] = 2
            return x[i]

        return ftrace.vmap(read)(np.argsort(x))

    np.testing.assert_allclose(ftrace.jit(scaled)(X), [f(X * k) for k in X], rtol=1e-15)
    np.testing.assert_array_equal(ftrace.jit(of_indices)(X), np.sort(X))


# ---------------------------------------------------------------------------------- large programs


def test_what_lies_too_deep_is_taken_for_anything(monkeypatch):
    monkeypatch.setattr(value_ranges, "DEEP", 10)

    def f(x):
        k = fnp.argmax(x)
        for i in range(40):
            k = (k * 5 + i) % 6
        return k

    def counted(x):
        k = fnp.argmax(x)
        for _ in range(40):
            k = k + 1
        return k

    assert seen(f, X) == ValueRange(0, 5)
    assert seen(counted, X) == ValueRange(-(2**63), 2**63 - 1)


def test_calls_in_calls_are_not_followed_without_end(monkeypatch):
    followed = []
    interpreter = value_ranges._Ranges
    equation = interpreter.equation
    monkeypatch.setattr(
        interpreter, "equation", lambda *args: followed.append(1) or equation(*args)
    )
    step = ftrace.jit(lambda k: fnp.minimum(k + 1, 5))
    twice = step
    for _ in range(14):
        twice = ftrace.jit(lambda k, once=twice: once(once(k)))
    assert seen(lambda x: step(step(fnp.argmax(x))), X) == ValueRange(2, 5)
    followed.clear()
    assert seen(lambda x: twice(fnp.argmax(x)), X) in (None, (-(2**63), 2**63 - 1))
    assert len(followed) < 10_000
    assert ftrace.jit(lambda x: x[twice(fnp.argmax(x))])(X) == X[5]


def at_places(offset):
    """Places that are known to lie so far from an index of six."""
    return lambda x: fnp.stack([fnp.argmax(x), fnp.argmin(x)]) + offset


@pytest.mark.parametrize("offset", [-8, -6, -3, 0, 1, 6])
def test_arrays_of_indices_are_as_numpys(offset):
    """Those that may be negative count from the end, and those that may be too large are asked."""
    places = at_places(offset)
    for x in RNG.normal(size=(8, 6)):
        for read in (lambda x: x[places(x)], lambda x: fnp.take(x, places(x))):
            try:
                wanted = x[np.asarray(places(x))]
            except IndexError:
                with pytest.raises(IndexError):
                    ftrace.jit(read)(x)
            else:
                np.testing.assert_array_equal(ftrace.jit(read)(x), wanted)


@pytest.mark.parametrize("offset", [-8, -3, 0, 1, 6])
def test_writes_at_arrays_of_indices_are_as_numpys(offset):
    places = at_places(offset)

    def written(x):
        y = x * 1.0
        y[places(x)] = 7.0
        return y

    for x in RNG.normal(size=(4, 6)):
        expected = x.copy()
        try:
            expected[np.asarray(places(x))] = 7.0
        except IndexError:
            with pytest.raises(IndexError):
                ftrace.jit(written)(x)
        else:
            np.testing.assert_array_equal(ftrace.jit(written)(x), expected)
