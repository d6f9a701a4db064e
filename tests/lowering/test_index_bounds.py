"""Reading and writing by index arrays in compiled code: ranges, modes, dtypes, and in place."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.lowering.kernel.ir import loops_of
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.program.program import Copy, Scan, ScatterStep, every
from ftrace.primitives.index import gather, scatter, scatter_add
from ftrace.primitives.scatter import scatter_max, scatter_min, scatter_mul

X = np.arange(12.0).reshape(4, 3) + 0.5
FAR = {
    "i1": [0, -1, 3, -4, 100, -100],
    "i8": [0, -1, 3, -4, 2**62, -(2**62)],
    "u1": [0, 1, 3, 200],
    "u8": [0, 1, 3, 2**64 - 1, 2**63],
    "i4": [0, -1, 3, 2**31 - 1],
}


def read(x, *indices, axes=(0,), mode="raise"):
    return gather(x, *indices, axes=axes, mode=mode)


@pytest.mark.parametrize("dtype", FAR)
def test_indices_of_every_dtype_read_what_the_library_reads(dtype):
    i = np.array(FAR[dtype], dtype)
    for mode in ("clip", "wrap", "fill", "drop"):
        for x in (X, X.astype("f4"), X.astype(int), X > 3, X * 1j):
            compiled = ftrace.jit(lambda x, i, mode=mode: read(x, i, mode=mode) * 1)
            expected = read(x, i, mode=mode) * 1
            np.testing.assert_array_equal(compiled(x, i), expected)
            assert compiled.lower(x, i).cost().callbacks == 0


@pytest.mark.parametrize("dtype", FAR)
def test_an_index_out_of_range_raises_with_its_number(dtype):
    compiled = ftrace.jit(lambda x, i: read(x, i) + 1)
    inside = np.array([n for n in FAR[dtype] if -4 <= n < 4], dtype)
    np.testing.assert_array_equal(compiled(X, inside), X[inside] + 1)
    for n in FAR[dtype]:
        if not -4 <= n < 4:
            with pytest.raises(IndexError, match=f"Index {n} is out of bounds for axis 0"):
                compiled(X, np.array([0, n, 1], dtype))
    np.testing.assert_array_equal(compiled(X, inside), X[inside] + 1)
    assert compiled.lower(X, inside).cost().callbacks == 0


def test_several_index_arrays_and_axes_of_size_one_and_none():
    i, j = np.array([[1, -1], [0, 2]]), np.array([[0, 2], [-3, 1]])
    f = ftrace.jit(lambda x, i, j: x[i, j] - x[:, i].sum(0)[..., 0])
    np.testing.assert_array_equal(f(X, i % 3, j), X[i % 3, j] - X[:, i % 3].sum(0)[..., 0])
    for n, bad in ((4, (4, 0)), (3, (0, 3))):
        with pytest.raises(IndexError, match=f"with size {n}"):
            f(X, np.full((2, 2), bad[0] % 3 if n == 3 else bad[0]), np.full((2, 2), bad[1]))
    one = np.ones((1, 3))
    np.testing.assert_array_equal(ftrace.jit(lambda i: one[i])(np.array([0, -1])), one[[0, -1]])
    with pytest.raises(IndexError, match="Index 1 is out of bounds for axis 0 with size 1"):
        ftrace.jit(lambda i: one[i] * 2)(np.array([0, 1]))
    with pytest.raises(IndexError, match="with size 0"):
        ftrace.jit(lambda i: np.zeros((0, 2))[i] * 2)(np.array([0]))
    empty = ftrace.jit(lambda i: np.zeros((0, 2))[i] * 2)(np.zeros(0, int))
    assert empty.shape == (0, 2)


def test_what_is_read_is_computed_where_it_is_read():
    """A producer is fused into the read, and the read into its reader."""
    f = ftrace.jit(lambda x, i: (np.sin(x)[i] * 2).sum())
    i = np.array([3, 0, 3])
    assert f.lower(X, i).cost().kernels <= 3
    np.testing.assert_allclose(f(X, i), (np.sin(X)[i] * 2).sum(), rtol=1e-14)


def summed(x):
    return lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i] * x[-1 - i], 0.0)


def test_a_loop_that_indexes_by_its_counter_calls_no_python():
    x = np.linspace(-1, 2, 50)
    f = ftrace.jit(summed)
    np.testing.assert_allclose(f(x), (x * x[::-1]).sum(), rtol=1e-13)
    assert f.lower(x).cost().callbacks == 0


def test_a_loop_stops_at_the_first_index_out_of_range():
    seen = []

    def body(i, s):
        ftrace.debug.callback(lambda k: seen.append(int(k)), i)
        return s + X[:, 0][2 * i]

    with pytest.raises(IndexError, match="ndex 4 is out of bounds for axis 0 with size 4"):
        ftrace.jit(lambda: lax.fori_loop(0, 10, body, 0.0))()
    assert seen == [0, 1, 2]


def test_a_native_loop_ends_with_the_error_that_python_has():
    def first(x):
        i = 0
        while x[i] > 0:
            i += 1
        return i

    f = ftrace.jit(first)
    assert f(np.array([1.0, 2.0, -1.0])) == 2
    with pytest.raises(IndexError, match="out of bounds"):
        f(np.ones(3))


def test_derivatives_of_reads_agree_with_those_of_the_library():
    x, i = np.linspace(1, 2, 6), np.array([0, 5, 5, -2])

    def f(x):
        return (np.sin(x)[i] * x[i] ** 2).sum()

    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(x), ftrace.grad(f)(x), rtol=1e-14)
    np.testing.assert_allclose(
        ftrace.jit(ftrace.hessian(f))(x), ftrace.hessian(f)(x), rtol=1e-13, atol=1e-15
    )


# --- scatters

WRITES = (scatter, scatter_add, scatter_mul, scatter_min, scatter_max)
AT = np.array([2, 0, -1, 2, 2])
J = np.array([1, 1, 0, 1, -3])
V = np.linspace(-2, 3, 15).reshape(5, 3)


@pytest.mark.sampled(3, each="write")
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i2", "u1", "?", "c16"])
@pytest.mark.parametrize("write", WRITES)
def test_updates_are_the_librarys_bit_for_bit(write, dtype):
    if dtype == "c16" and write in (scatter_min, scatter_max):
        return
    x, v = (X * 3).astype(dtype), (np.abs(V) if dtype == "u1" else V).astype(dtype)
    cases = [
        ((x, v, AT), {"axes": (0,)}),
        ((x, v[:, 0], AT, J), {"axes": (0, 1)}),
        ((x, np.ascontiguousarray(v.T)[:, :4].T[:3], J[:3]), {"axes": (1,)}),
        ((x, v[0], np.int64(-2)), {"axes": (0,)}),
    ]
    for args, where in cases:
        if where["axes"] == (1,):
            args = (args[0], np.resize(v, (3, 4)), args[2])
        for mode in ("raise", "drop", "clip", "wrap"):
            f = ftrace.jit(lambda *a, w=where, m=mode: write(*a, **w, mode=m))
            expected = write(*args, **where, mode=mode)
            found = f(*args)
            np.testing.assert_array_equal(found, expected)
            native = dtype != "f2" and not (dtype == "c16" and write is scatter_mul)
            if native or write is scatter:
                assert f.lower(*args).cost().callbacks == 0


def test_rows_without_elements_are_changed_to_nothing():
    for dtype in ("f8", "f2"):  # native, and by the library
        x = np.zeros((3, 0), dtype)
        f = ftrace.jit(lambda x: scatter_add(x, x[:2], np.array([2, 0]), axes=(0,), mode="raise"))
        assert f(x).shape == (3, 0)


def test_nan_and_zeros_of_either_sign_in_extremes():
    special = np.array([np.nan, 0.0, -0.0, 1.0, np.inf, -np.inf])
    x, v = (a.ravel() for a in np.meshgrid(special, special))
    for write in (scatter_min, scatter_max):
        f = ftrace.jit(lambda x, v, w=write: w(x, v, np.arange(36), axes=(0,), mode="raise"))
        with np.errstate(invalid="ignore"):
            expected = write(x, v, np.arange(36), axes=(0,), mode="raise")
        np.testing.assert_array_equal(f(x, v), expected)


def test_a_write_out_of_range_raises_and_leaves_the_argument():
    f = ftrace.jit(lambda x, i: scatter_add(x, np.ones((2, 3)), i, axes=(0,), mode="raise"))
    x = X.copy()
    with pytest.raises(IndexError, match="Index -5 is out of bounds for axis 0 with size 4"):
        f(x, np.array([0, -5]))
    f(x, np.array([0, 0]))
    np.testing.assert_array_equal(x, X)


LOOPS = {
    "one": lambda i, s, x: s.at[i].add(x[i]),
    "chain": lambda i, s, x: s.at[i].add(x[i]).at[-1 - i].mul(2.0),
    "from itself": lambda i, s, x: s.at[i].set(s[i - 1] + x[i]),
    "read before": lambda i, s, x: s.at[i].set(x[i] + s.sum()),
    "read after": lambda i, s, x: s.at[i].add(1.0) + 0.5 * s,
    "read between": lambda i, s, x: s.at[i].add(x[i]).at[0].add(s[i]),
    "itself at places": lambda i, s, x: s.at[i].set(s[s.astype(int) % 2][i]),
    "as its update": lambda i, s, x: s.at[np.arange(6)[::-1]].set(s),
    "two of one": lambda i, s, x: s.at[i].add(1.0) - s.at[0].add(x[i]),
    "reshaped": lambda i, s, x: s.reshape(2, 3).at[i % 2].add(x[:3]).reshape(6),
    "not always": lambda i, s, x: lax.cond(i % 2, lambda s: s.at[i].add(x[i]), lambda s: s, s),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_changes_in_place_what_nobody_else_reads(name):
    body, x = LOOPS[name], np.linspace(-1, 2, 6)

    def f(x):
        return lax.fori_loop(0, 6, lambda i, s: body(i, s, x), np.ones(6) * x[1])

    with ftrace.disable_jit():
        expected = f(x)
    np.testing.assert_allclose(ftrace.jit(f)(x), expected, rtol=1e-14, atol=1e-15)
    g = ftrace.grad(lambda x: (f(x) * np.arange(6)).sum())
    np.testing.assert_allclose(ftrace.jit(g)(x), g(x), rtol=1e-12, atol=1e-13)


def test_two_carries_that_change_places_stay_two():
    def body(i, state):
        a, b = state
        return b.at[i].add(1.0), a.at[i].mul(3.0)

    def f(a, b):
        return lax.fori_loop(0, 5, body, (a, b))

    with ftrace.disable_jit():
        expected = f(np.arange(5.0), np.ones(5))
    for found, right in zip(ftrace.jit(f)(np.arange(5.0), np.ones(5)), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_an_update_in_place_copies_nothing():
    """The time of a loop of updates is linear in its length: the array is not copied."""
    f = ftrace.jit(lambda x: lax.fori_loop(0, 9, lambda i, s: s.at[i].add(1.0), x * 2))
    program = f.lower(np.ones(1000)).program
    copies = [s for s in every(program.steps) if isinstance(s, Copy)]
    assert not [c for c in copies if program.slots[c.source].aval.shape == (1000,)]


# --- derivatives of reads add into one array

READS = {
    "square": lambda i, s, x: s + x[i] * x[i],
    "two places": lambda i, s, x: s + x[i] * x[-1 - i] ** 2,
    "twice the total": lambda i, s, x: s * x[i] + x[0] * x.sum(),
    "by a list": lambda i, s, x: s + (x[[0, 1, 1]] * x[i]).sum(),
    "rows": lambda i, s, x: s + (x.reshape(3, 2)[i % 3] * x[i]).sum(),
    "chosen": lambda i, s, x: s + np.where(x[i] > 0, np.sqrt(np.abs(x[i])), x[i]),
}


@pytest.mark.parametrize("name", READS)
def test_gradients_of_loops_of_reads_are_the_interpreted_ones(name):
    body, x = READS[name], np.linspace(-1, 2, 6) + 0.05

    def f(x):
        return lax.fori_loop(0, 6, lambda i, s: body(i, s, x), 0.25)

    g = ftrace.grad(f)
    np.testing.assert_allclose(ftrace.jit(g)(x), g(x), rtol=1e-12, atol=1e-13)
    h = ftrace.hessian(f)
    np.testing.assert_allclose(ftrace.jit(h)(x), h(x), rtol=1e-11, atol=1e-12)
    rows = np.stack([x, x * 2, -x])
    np.testing.assert_allclose(
        ftrace.jit(ftrace.vmap(g))(rows), ftrace.vmap(g)(rows), rtol=1e-12, atol=1e-13
    )


def test_the_gradient_of_a_loop_of_reads_copies_no_array():
    def wrapping(x):
        n = x.shape[0]
        return lax.fori_loop(0, n, lambda i, s: s + x[i - 1] * x[(i * i) % n], 0.0)

    program = ftrace.jit(ftrace.grad(wrapping)).lower(np.ones(1000)).program
    (loop,) = [s for s in program.steps if isinstance(s, Scan) and s.reverse]
    assert [type(s) for s in loop.body].count(ScatterStep) == 2
    assert not any(isinstance(s, Copy) for s in loop.body)
    whole = [k for k in loop.body if isinstance(k, Launch) and loops_of(k.kernel.body)]
    assert not whole, "no kernel passes over the array"


def scatters_of(f, *args):
    lowered = ftrace.jit(f).lower(*args)
    return sum(isinstance(s, ScatterStep) for s in every(lowered.program.steps)), lowered.passes


def test_only_sums_into_zeros_that_nobody_else_reads_are_changed():
    i, v = np.array([1, 0]), np.ones(2)

    def into(base, v=v):
        return scatter_add(base, v, i, axes=(0,), mode="clip")

    total = np.arange(4.0)
    cases = {
        "a sum": (lambda x: x * 2 + into(fnp.zeros(4)), True),
        "the other way round": (lambda x: into(fnp.zeros(4)) + x * 2, True),
        "two": (lambda x: x * 2 + (into(fnp.zeros(4)) + into(fnp.zeros(4))), True),
        "read twice": (lambda x: [x * 2 + (s := into(fnp.zeros(4))), s], False),
        "with itself": (lambda x: (s := into(fnp.zeros(4))) + s + 0 * x, False),
        "into ones": (lambda x: x * 2 + into(fnp.ones(4)), False),
        "into an argument": (lambda x: x * 2 + into(x), False),
        "a difference": (lambda x: x * 2 - into(fnp.zeros(4)), False),
        "set": (lambda x: x * 2 + scatter(fnp.zeros(4), v, i, axes=(0,), mode="clip"), False),
    }
    for name, (f, changed) in cases.items():
        _, passes = scatters_of(f, total)
        assert ("accumulate" in passes) is changed, name
        found, expected = ftrace.jit(f)(total), f(total)
        for y, z in zip(np.atleast_2d(found), np.atleast_2d(expected), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-15)


def test_a_carry_that_is_read_after_its_update_keeps_its_values_until_then():
    def body(i, state):
        s, total = state
        changed = s.at[i].add(1.0)
        return changed, total + (changed * s).sum()

    def f(x):
        return lax.fori_loop(0, 6, body, (x * 2, 0.0))

    x = np.linspace(-1, 2, 6)
    with ftrace.disable_jit():
        expected = f(x)
    for found, right in zip(ftrace.jit(f)(x), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-14)


def test_the_gradient_of_elements_by_the_counter_has_no_scatter():
    program = ftrace.jit(ftrace.grad(summed)).lower(np.ones(1000)).program
    steps = [
        *program.steps,
        *(s for loop in program.steps if isinstance(loop, Scan) for s in loop.body),
    ]
    assert not any(isinstance(s, ScatterStep) for s in steps)
