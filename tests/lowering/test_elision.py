"""Copy elision: what steps make is made where a concatenation or a reshape would copy it."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.lowering.program.program import Callback, Copy, Launch, PartOf, every
from tests.lowering.programs import planned
from tests.lowering.test_plan import checked

RNG = np.random.default_rng(7)
A, B = RNG.normal(size=(2, 24, 24)) / 4
STACK = RNG.normal(size=(30, 24, 24)) / 4


def joined(a, b):
    return np.concatenate([a @ b, b @ a])


def stacked(a, b):
    return np.stack([a @ b, b @ a, a @ a])


def of_one_row(a, b):
    """The leading axis has one element, and the second is joined."""
    return np.concatenate([(a @ b)[None], (b @ a)[None]], axis=1)


def across(a, b):
    """Columns of the results are no parts of it."""
    return np.concatenate([a @ b, b @ a], axis=1)


def nested(a, b):
    left = np.concatenate([a @ b, b @ a])
    return np.concatenate([left, a @ a, np.concatenate([b @ b, a @ b @ a])])


def twice(a, b):
    c = a @ b
    return np.concatenate([c, c]), np.concatenate([c, b @ a])


def a_result_too(a, b):
    c = a @ b
    return np.concatenate([c, b @ a, a @ a, b @ b]), c


def with_an_argument(a, b):
    return np.concatenate([a @ b, b @ a, a @ a, a, b @ b])


def with_what_kernels_make(a, b):
    return np.concatenate([np.sin(a), a @ b, b @ a, b[:1], a @ a, b @ b])


def of_the_same(a, b):
    """Operands that are read from the result's own parts."""
    c = a @ b
    return np.concatenate([c[-1:], c, b @ a, c[:1]])


def read_later(a, b):
    """What lies in a part is read after the whole was used for the last time."""
    c = a @ b
    whole = np.concatenate([c, b @ a])
    return np.exp(whole * 0.5) @ a, c @ np.tanh(c)


def changed_later(a, b, rows):
    """The whole is changed in place, and a part is not."""
    c = a @ b
    whole = np.concatenate([c, b @ a])
    changed = whole.copy()
    changed[rows] = 1.0
    return changed @ a, c @ b


def changed_part(a, b, rows):
    """A part is what a scatter starts from."""
    c = a @ b
    changed = c.copy()
    changed[rows] += 1.0
    return np.concatenate([changed, b @ a]), np.concatenate([c, b @ b]) * 2.0


def read_as_a_whole_and_in_part(a, b):
    """One kernel reads the whole where it writes, and parts of it elsewhere."""
    c, d = a @ b, b @ a
    whole = np.concatenate([c, d])
    return (np.exp(whole) + np.concatenate([d[::-1], c.T])) @ a


def read_as_a_whole_and_in_part_at_the_same_place(a, b):
    c, d = a @ b, b @ a
    whole = np.stack([c, d])
    return (np.exp(whole) + c) @ a, (np.stack([d, a @ a]) * d[::-1]) @ b


def carried_in_two_shapes(a, b):
    """A loop's value is read where the next one lies, and elsewhere in another shape."""
    wide = np.concatenate([np.concatenate([b, a], axis=1), np.concatenate([a, b], axis=1)])

    def step(y, _):
        long = np.reshape(y, (12, 48))
        left = long @ wide
        return np.sin(y) + long[::-1][0, :24] * 1.5, left

    return lax.scan(step, a @ b, None, length=4)


def reshaped(a, b):
    return (a @ b).reshape(8, 72), (b @ a)[None], (a @ a).reshape(-1)


def reshaped_parts(a, b):
    return np.concatenate([(a @ b).reshape(-1), (b @ a).reshape(-1)]).reshape(2, 24, 24) @ a


def of_a_library(a, b):
    return np.concatenate([np.linalg.solve(a, b), np.sort(a, axis=0), a @ b])


def of_a_loop(a, b, stack):
    """A trajectory behind its start, as integrators return it."""

    def step(y, m):
        y = np.tanh(y @ m + b)
        return y, y

    last, path = lax.scan(step, a, stack)
    return np.concatenate([a[None], path]), last


def in_a_loop(a, b, stack):
    def step(y, m):
        z = np.concatenate([y[12:] @ m, y[:12] @ m])
        return z, (z @ b).reshape(8, 72)

    return lax.scan(step, a, stack)


def in_a_while(a, b):
    def step(c):
        i, y = c
        return i + 1, np.concatenate([y[12:] @ b, y[:12] @ a])

    return lax.while_loop(lambda c: c[0] < 5, step, (0, a))[1]


def in_arms(a, b):
    def one(a, b):
        return np.concatenate([a @ b, b @ a])

    def other(a, b):
        return np.concatenate([a, b @ b])

    return [lax.cond(np.sum(a) > bound, one, other, a, b) for bound in (-1e9, 1e9)]


STRUCTURES = {
    f.__name__: f
    for f in (
        joined,
        stacked,
        of_one_row,
        across,
        nested,
        twice,
        a_result_too,
        with_an_argument,
        with_what_kernels_make,
        of_the_same,
        read_later,
        changed_later,
        changed_part,
        read_as_a_whole_and_in_part,
        read_as_a_whole_and_in_part_at_the_same_place,
        carried_in_two_shapes,
        reshaped,
        reshaped_parts,
        of_a_library,
        of_a_loop,
        in_a_loop,
        in_a_while,
        in_arms,
    )
}

ROWS = np.array([3, 20])
MORE = {
    "of_a_loop": (STACK,),
    "in_a_loop": (STACK,),
    "changed_later": (ROWS,),
    "changed_part": (ROWS,),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_programs_give_the_values_of_their_functions(name):
    f = STRUCTURES[name]
    args = (A, B, *MORE.get(name, ()))
    checked(f, *args)
    wanted = f(*args)
    for found in (ftrace.jit(f)(*args), ftrace.jit(lambda a, *more: f(a * 1.0, *more))(*args)):
        for y, e in zip(*map(ftrace.tree_util.tree_leaves, (found, wanted)), strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "c16", "i8", "?"])
def test_elements_of_any_size(dtype):
    a, b = (A * 8).astype(dtype), (B * 8).astype(dtype)

    def f(a, b):
        return np.concatenate([np.sort(a, 0), np.sort(b, 0), a]), np.sort(a, 0).reshape(12, 48)

    for found in (checked(f, a, b) and ftrace.jit(f)(a, b),):
        for y, e in zip(found, f(a, b), strict=True):
            assert y.dtype == e.dtype
            np.testing.assert_array_equal(y, e)


def passes_over(f, *args):
    """Kernels and copies of a program, and parts."""
    steps = list(every(planned(f, *args).steps))
    return tuple(sum(isinstance(s, kind) for s in steps) for kind in (Launch, Copy, PartOf))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("joined", (0, 0, 2)),
        ("stacked", (0, 0, 3)),
        ("of_one_row", (0, 0, 2)),
        ("nested", (0, 0, 7)),
        ("reshaped", (0, 0, 3)),
        ("reshaped_parts", (0, 0, 2)),
        ("with_an_argument", (0, 1, 5)),
    ],
)
def test_nothing_is_copied_that_can_be_made_in_its_place(name, expected):
    assert passes_over(STRUCTURES[name], A, B) == expected


def test_what_pays_not_stays_a_kernel():
    assert passes_over(across, A, B) == (1, 0, 0)
    small = RNG.normal(size=(4, 4))
    assert passes_over(joined, small, small)[2] == 0  # a kernel over few bytes
    assert passes_over(lambda a, b: np.concatenate([np.sin(a), np.cos(b)]), A, B) == (1, 0, 0)
    few = passes_over(
        lambda a, b: np.concatenate([a @ b, *(np.sin(a) * k for k in range(9))]), A, B
    )
    assert few[2] == 0


def test_a_row_of_python_writes_beside_its_part():
    """It knows arrays, not addresses in them."""

    def host(a):
        return np.asarray(a) * 2.0

    def f(a, b):
        one = ftrace.pure_callback(host, ftrace.ShapeDtypeStruct(a.shape, a.dtype), a)
        return np.concatenate([one, a @ b])

    program = planned(f, A, B)
    assert any(isinstance(s, Callback) for s in every(program.steps))
    np.testing.assert_array_equal(ftrace.jit(f)(A, B), np.concatenate([A * 2.0, A @ B]))


# ---------------------------------------------------------------------------------- rolled loops


def layers(ws, x):
    for w in ws:
        x = np.tanh(x @ w)
    return np.sum(x * x)


def test_a_rolled_gradient_is_written_where_it_is_returned():
    x = RNG.normal(size=(4, 24))
    f = ftrace.grad(layers)
    *_, parts = passes_over(f, STACK, x)
    with ftrace.config.update(roll=0):
        wanted = ftrace.jit(ftrace.grad(layers))(STACK, x)
    np.testing.assert_array_equal(ftrace.jit(f)(STACK, x), wanted)
    assert parts >= 3  # the first layer, the others, and each of these in its shape
    program = planned(f, STACK, x)
    whole = STACK.nbytes // 2
    assert all(program.table[s.size] < whole for s in every(program.steps) if isinstance(s, Copy))


def test_loops_count_down_where_their_values_are_read_backwards():
    def f(xs, c):
        found = []
        for x in xs:
            c = np.sin(c * x) + c @ x
            found.append(c)
        return np.stack(found[::-1]), c

    low = ftrace.jit(f).lower(STACK, A)
    assert any("rolled" in str(p) or "became a loop" in str(p) for p in low.rolled)
    with ftrace.config.update(roll=0):
        plain = ftrace.jit(lambda xs, c: f(xs, c))(STACK, A)
    for y, e in zip(ftrace.jit(f)(STACK, A), plain, strict=True):
        np.testing.assert_array_equal(y, e)
    checked(f, STACK, A)
