"""What Python reads of the content of an array while a function is traced is seen to change.

Arrays of more than 64 KiB are guarded as small ones are; above 64 MiB a warning says that they are
not. Captures are not checked here, as in users' programs.
"""

import types
import warnings

import numpy as np
import pytest

import ftrace
from ftrace.control.freshness import facts
from ftrace.control.traces import counter
from ftrace.errors import FreshnessWarning

SHAPE = 100, 100  # 80 kB


@pytest.fixture(autouse=True)
def as_for_users():
    with ftrace.config.update(check_captures=False):
        yield


def at(a, i):
    return a[i]


READS = {
    "element": lambda a, x: x * a[3, 4],
    "element from the end": lambda a, x: x * a[-97, 4],
    "element of a row": lambda a, x: x * a[3][4],
    "element of a slice": lambda a, x: x * a[3:5][0, 4],
    "element of the transposed": lambda a, x: x * a.T[4, 3],
    "element of all of it, flat": lambda a, x: x * a.reshape(-1)[304],
    "element of a ravelled one": lambda a, x: x * a.ravel()[304],
    "element of a function's view": lambda a, x: x * np.transpose(a)[4, 3],
    "element of a function's result": lambda a, x: x * np.asarray(a)[3, 4],
    "element of one flipped": lambda a, x: x * np.flip(a)[-4][-5],
    "element of one of two": lambda a, x: x * (a if x is None else a.T)[4, 3],
    "element of a subscript in a function": lambda a, x: x * at(at(a.T, 4), 3),
    "element at a computed place": lambda a, x: x * sum(a[i, i + 1] for i in range(5)),
    "row": lambda a, x: x * a[3].sum(),
    "rows": lambda a, x: x * a[2:5].max(),
    "every seventh": lambda a, x: x * a[::3].sum(),
    "sum": lambda a, x: x * a.sum(),
    "function": lambda a, x: x * np.count_nonzero(a),
    "number of elements": lambda a, x: x * len(np.flatnonzero(a)),
    "decision": lambda a, x: x * 2.0 if a[3, 4] > 0 else x,
    "truth": lambda a, x: x * 2.0 if a.any() else x,
    "number": lambda a, x: x * float(a[3, 4]),
    "item": lambda a, x: x * a.item(3, 4),
    "list": lambda a, x: x * a.tolist()[3][4],
    "also an operand": lambda a, x: (x * a).sum() * a[3, 4],
    "both": lambda a, x: x * a[3, 4] + (a * x)[0, 0] + a.mean(),
    "unpacked": lambda a, x: x * next(iter(a[3:]))[4],
}

TRANSFORMS = {
    "jit": ftrace.jit,
    "jit of grad": lambda f: ftrace.jit(ftrace.grad(lambda x: f(x) * x)),
    "jit of vmap": lambda f: lambda x: ftrace.jit(ftrace.vmap(f))(np.full(2, x)),
    "vectorize": lambda f: lambda x: ftrace.vectorize(f)(np.full(2, x)),
}


@pytest.mark.parametrize("order", ["C", "F", "gaps"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_was_read_of_a_large_array_is_seen_to_change(read, order):
    array = np.zeros((200, 200))[::2, ::2] if order == "gaps" else np.zeros(SHAPE, order=order)
    jitted = ftrace.jit(lambda x: read(array, x))
    for value in (0.0, 5.0, -0.5):
        array[3, 4] = value
        assert jitted(2.0) == read(array, 2.0)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("name", ["element", "sum", "decision", "number of elements"])
def test_it_is_under_every_transformation(name, transform):
    holder = types.SimpleNamespace(array=np.zeros(SHAPE))
    made = transform(lambda x: READS[name](holder.array, x))
    for value in (0.0, 5.0):
        holder.array[3, 4] = value
        fresh = transform(lambda x: READS[name](holder.array, x))
        np.testing.assert_array_equal(made(2.0), fresh(2.0))


KINDS = {
    "complex": np.zeros(20_000, complex),
    "bool": np.zeros(90_000, bool),
    "records": np.zeros(20_000, [("a", "f8"), ("b", "i4")])["b"],
    "dates": np.zeros(20_000, "M8[s]"),
    "text": np.zeros(20_000, "U3"),
    "a subclass": np.zeros((20_000, 1)).view(np.matrix),
    "masked": np.ma.masked_array(np.zeros(20_000), np.zeros(20_000, bool)),
    "memory that is mapped": np.frombuffer(bytearray(160_000)),
}


@pytest.mark.parametrize("array", KINDS.values(), ids=KINDS)
def test_every_kind_of_array_is_compared(array):
    jitted = ftrace.jit(lambda x: x * np.count_nonzero(array.astype(bool)))
    for value in (0, 1):
        array[3] = value
        assert jitted(2.0) == 2.0 * np.count_nonzero(array.astype(bool))


class Plain:
    def __init__(self, n):
        self.array = np.zeros(n)


class WithEquality(Plain):
    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return 1


@pytest.mark.parametrize("cls", [Plain, WithEquality])
@pytest.mark.parametrize("n", [100, 20_000])
@pytest.mark.parametrize("read", [lambda a: a[3], lambda a: a.sum(), np.count_nonzero])
def test_arrays_of_static_arguments_are_compared(cls, n, read):
    def f(x, model):
        return x * read(model.array)

    model = cls(n)
    jitted = ftrace.jit(f, static_argnums=1)
    for value in (0.0, 5.0):
        model.array[3] = value
        assert jitted(2.0, model) == f(2.0, model)


def test_operands_of_static_arguments_are_not():
    model = Plain(20_000)
    jitted = ftrace.jit(lambda x, model: x * model.array, static_argnums=1)
    jitted(2.0, model)
    model.array[3] = 5.0
    assert traces(jitted, 2.0, model) == 0
    assert jitted(2.0, model)[3] == 10.0


def traces(f, *args):
    before = counter.count
    f(*args)
    return counter.count - before


def test_an_element_that_was_not_read_may_change():
    array = np.zeros(SHAPE)
    jitted = ftrace.jit(lambda x: x * array[3, 4] + array[7][2])
    jitted(1.0)
    array[4, 3] = 5.0
    assert traces(jitted, 1.0) == 0
    array[7, 2] = 5.0
    assert traces(jitted, 1.0) == 1


OPERANDS = {
    "whole": lambda a, x: a * x,
    "product": lambda a, x: a @ (x * np.ones(100)),
    "row": lambda a, x: a[3] * x,
    "slice": lambda a, x: a[3:7, ::2] * x,
    "loop": lambda a, x: sum(a[i] * x for i in range(3)),
    "traced place": lambda a, x: a[x.astype(int)] * x,
    "traced row and a column": lambda a, x: a[x.astype(int), 3] * x,
    "layout": lambda a, x: x * a.shape[0] * len(a) * a.ndim,
}


@pytest.mark.parametrize("use", OPERANDS.values(), ids=OPERANDS)
def test_operands_are_not_compared(use):
    array, x = np.zeros(SHAPE), np.float64(2.0)
    jitted = ftrace.jit(lambda x: use(array, x))
    jitted(x)
    array[3, 4] = 5.0
    assert traces(jitted, x) == 0
    np.testing.assert_array_equal(jitted(x), use(array, x))


def test_a_function_that_changes_what_it_reads_of_a_large_array_is_traced_at_each_call():
    array = np.zeros(SHAPE)

    def f(x):
        array[0, 0] += 1.0
        return x * array.sum()

    jitted = ftrace.jit(f)
    assert [jitted(2.0) for _ in range(3)] == [2.0, 4.0, 6.0]


def test_read_only_arrays_are_not_compared():
    array = np.zeros(SHAPE)
    array.flags.writeable = False
    jitted = ftrace.jit(lambda x: x * array.sum())
    jitted(2.0)
    array.flags.writeable = True
    array[3, 4] = 5.0
    assert traces(jitted, 2.0) == 0


LARGEST = facts.COMPARED // 8


def test_a_warning_tells_of_arrays_that_are_too_large_to_be_compared():
    table = np.zeros(LARGEST + 1)
    jitted = ftrace.jit(lambda x: x * table.max())
    with pytest.warns(FreshnessWarning, match=r"`table`.* 64 MiB.*table\.flags\.writeable"):
        jitted(2.0)


@pytest.mark.parametrize(
    "use",
    [
        lambda a, x: (a * x)[0],
        lambda a, x: a[:3] * x,
        lambda a, x: a[3] * x,
        lambda a, x: x * len(a) * a.size,
        lambda a, x: a[x.astype(int)] * x,
        lambda a, x: a[x.astype(int), ...] * x,
    ],
)
def test_none_is_given_where_no_content_is_read(use):
    table = np.zeros(LARGEST + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ftrace.jit(lambda x: use(table, x))(np.float64(2.0))


def test_none_is_given_for_what_nobody_can_change():
    table = np.zeros(LARGEST + 1)
    table.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ftrace.jit(lambda x: x * table[::2].max())(2.0)
