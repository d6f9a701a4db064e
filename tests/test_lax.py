"""`ftrace.lax`: every row is there, calls have JAX's signatures, and mistakes are named."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.primitive import Primitive
from ftrace.primitives import table

JAX_NAMES = {
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "not": "bitwise_not",
    "isfinite": "is_finite",
    "i0": "bessel_i0",
    "i0e": "bessel_i0e",
    "i1": "bessel_i1",
    "i1e": "bessel_i1e",
}
# a write of a cell (dynamic_update_slice is the public one), ftrace.checkpoint_name, and windows
INNER = {"update_slice", "name", "window_argmax", "window_argmin"}
INNER |= {"reduce_window_sum", "reduce_window_max", "reduce_window_min"}
INNER |= {"split_ties", "join_ties", "outside_over", "free_basis", "regular_for"}  # of derivatives
INNER |= {"alike_ties", "cofactor_slope", "moved_beside", "steep_mul", "solve_again"}
INNER |= {"cofactor", "logm_slope", "triangular_inv", "triangular_product", "select_branch"}
MATRICES = {  # rows of matrices under other names
    "banded_solve": "solve_banded", "definite_banded_solve": "solveh_banded", "factored": "schur",
    "least_squares": "lstsq", "sylvester": "solve_sylvester",
}  # fmt: skip

X = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])
V = X[0]
B = np.arange(24.0).reshape(2, 3, 4) / 10 - 1
W = np.array([[2.0, -1.0], [0.5, 1.5], [-3.0, 0.25]])

# (name, function of one float array, its value by NumPy, the array)
CALLS = {
    "reshape": (lambda x: lax.reshape(x, (3, 2)), X.reshape(3, 2), X),
    "reshape of a transpose": (lambda x: lax.reshape(x, (6,), (1, 0)), X.T.ravel(), X),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 1)), B.transpose(2, 0, 1), B),
    "broadcast": (lambda x: lax.broadcast(x, (2, 2)), np.broadcast_to(V, (2, 2, 3)), V),
    "broadcast_in_dim": (
        lambda x: lax.broadcast_in_dim(x, (3, 2), (0,)),
        np.stack([V, V], axis=1),
        V,
    ),
    "collapse": (lambda x: lax.collapse(x, 1), B.reshape(2, 12), B),
    "collapse from the end": (lambda x: lax.collapse(x, -3, -1), B.reshape(6, 4), B),
    "squeeze": (lambda x: lax.squeeze(x, (-1,)), V, V[:, None]),
    "expand_dims": (lambda x: lax.expand_dims(x, (-1, 0)), V[None, :, None], V),
    "rev": (lambda x: lax.rev(x, (-1,)), X[:, ::-1], X),
    "concatenate": (lambda x: lax.concatenate([x, W.T], 1), np.concatenate([X, W.T], 1), X),
    "split": (lambda x: lax.split(x, (1, 2), 1)[1], X[:, 1:], X),
    "pad": (
        lambda x: lax.pad(x, 9.0, [(1, -1, 1), (0, 1, 0)]),
        np.array([[9, 9, 9, 9], [0.5, -1.25, 2, 9], [9, 9, 9, 9]]),
        X,
    ),
    "slice": (lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)), X[:, ::2], X),
    "slice without strides": (lambda x: lax.slice(x, (1, 0), (2, 2)), X[1:2, :2], X),
    "slice_in_dim": (lambda x: lax.slice_in_dim(x, -2, None, axis=1), X[:, -2:], X),
    "index_in_dim": (lambda x: lax.index_in_dim(x, -1, 1), X[:, -1:], X),
    "index_in_dim without the axis": (lambda x: lax.index_in_dim(x, 1, 0, False), X[1], X),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, np.int32(-2)), (1, 2)), X[1:, 1:], X),
    "dynamic_slice_in_dim": (lambda x: lax.dynamic_slice_in_dim(x, 9, 2, 1), X[:, 1:], X),
    "dynamic_index_in_dim": (lambda x: lax.dynamic_index_in_dim(x, -3, 1, False), X[:, 0], X),
    "dynamic_update_slice": (
        lambda x: lax.dynamic_update_slice(x, np.array([[7.0, 8.0]]), (1, -2)),
        np.array([[0.5, -1.25, 2.0], [3.0, 7.0, 8.0]]),
        X,
    ),
    "dynamic_update_slice_in_dim": (
        lambda x: lax.dynamic_update_slice_in_dim(x, np.array([[7.0], [8.0]]), 0, 1),
        np.array([[7.0, -1.25, 2.0], [8.0, 0.75, -0.5]]),
        X,
    ),
    "dynamic_update_index_in_dim": (
        lambda x: lax.dynamic_update_index_in_dim(x, np.array([7.0, 8.0]), -1, 1),
        np.array([[0.5, -1.25, 7.0], [3.0, 0.75, 8.0]]),
        X,
    ),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (-1, 0)), B.sum((0, 2)), B),
    "reduce_sum of one axis": (lambda x: lax.reduce_sum(x, 1), B.sum(1), B),
    "reduce_prod": (lambda x: lax.reduce_prod(x, (1,)), X.prod(1), X),
    "reduce_max": (lambda x: lax.reduce_max(x, (0,)), X.max(0), X),
    "reduce_min": (lambda x: lax.reduce_min(x, (0, 1)), X.min(), X),
    "cumsum": (lambda x: lax.cumsum(x, 1), X.cumsum(1), X),
    "cumsum from the end": (lambda x: lax.cumsum(x, -1, True), X[:, ::-1].cumsum(1)[:, ::-1], X),
    "cumprod": (lambda x: lax.cumprod(x), X.cumprod(0), X),
    "cummax": (lambda x: lax.cummax(x, axis=1), np.maximum.accumulate(X, 1), X),
    "cummin": (lambda x: lax.cummin(x, axis=1), np.minimum.accumulate(X, 1), X),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), np.logaddexp.accumulate(X, 1), X),
    "sort": (lambda x: lax.sort(x, 0), np.sort(X, 0), X),
    "sort_key_val": (
        lambda x: lax.sort_key_val(x, 2 * x, 0)[1],
        2 * np.take_along_axis(X, np.argsort(X, 0), 0),
        X,
    ),
    "sort by a first key": (
        lambda x: lax.sort((np.array([1, 0, 1]), x), num_keys=2)[1],
        np.array([-1.25, 0.5, 2.0]),
        V,
    ),
    "top_k": (lambda x: lax.top_k(x, 2)[0], -np.sort(-X, 1)[:, :2], X),
    "top_k of the first axis": (lambda x: lax.top_k(x, 1, axis=0)[0], X.max(0)[None], X),
    "dot of vectors": (lambda x: lax.dot(x, V), np.dot(V, V), V),
    "dot of a matrix and a vector": (lambda x: lax.dot(x, V), X @ V, X),
    "dot of matrices": (lambda x: lax.dot(x, W), X @ W, X),
    "batch_matmul": (
        lambda x: lax.batch_matmul(x, np.cos(B).transpose(0, 2, 1)),
        B @ np.cos(B).transpose(0, 2, 1),
        B,
    ),
    "dot_general": (
        lambda x: lax.dot_general(x, np.cos(B), (([1], [1]), ([0], [0]))),
        np.einsum("bij,bik->bjk", B, np.cos(B)),
        B,
    ),
    "select": (lambda x: lax.select(X > 0, x, -x), np.abs(X), X),
    "clamp": (lambda x: lax.clamp(-1.0, x, 1.0), np.clip(X, -1, 1), X),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), X**3, X),
    "reciprocal": (lambda x: lax.reciprocal(x), 1 / X, X),
    "full_like of a value": (lambda x: lax.full_like(X, lax.reduce_sum(x, 0)), V.sum() + 0 * X, V),
    "convert_element_type": (lambda x: lax.convert_element_type(x, "f4"), X.astype("f4"), X),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 23), X, X),
}


@pytest.fixture(params=CALLS)
def call(request):
    return CALLS[request.param]


def test_every_row_of_the_table_is_public():
    names = {JAX_NAMES.get(name, name) for name in table.by_name} - INNER - {"special"}
    homes = (lax, lax.linalg, ftrace.scipy.special, ftrace.scipy.linalg, ftrace.numpy.linalg)
    names = {MATRICES.get(n, n) for n in names}
    assert sorted(n for n in names if not any(hasattr(home, n) for home in homes)) == []


@pytest.mark.parametrize("name", ["sin", "add", "lt", "erf", "bitwise_and", "is_finite"])
def test_elementwise_functions_are_the_rows_themselves(name):
    rows = {JAX_NAMES.get(row, row): table.by_name[row] for row in table.by_name}
    assert getattr(lax, name) is rows[name]


def test_a_call_gives_numpys_value_with_numpys_type(call):
    f, expected, x = call
    y = f(x)
    assert type(y) is type(expected[()])
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-15 if y.dtype == float else 1e-7)


def test_the_result_shares_no_memory_with_the_operand(call):
    f, _, x = call
    y = f(x)
    assert not np.may_share_memory(y, x)
    assert np.ndim(y) == 0 or (y.flags.writeable and y.base is None)


def test_jit_gives_the_same_value(call):
    f, _, x = call
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-14, strict=True)


def test_vmap_gives_the_stacked_loop(call):
    f, _, x = call
    xs = np.stack([x, x * 0.5 - 0.1, 1 - x], axis=-1)
    actual = ftrace.vmap(f, in_axes=-1, out_axes=-1)(xs)
    expected = np.stack([f(xs[..., i]) for i in range(3)], axis=-1)
    np.testing.assert_allclose(actual, expected, rtol=1e-14)


def test_both_modes_agree_with_differences(call):
    f, _, x = call
    rng = np.random.default_rng(3)
    v = rng.normal(size=x.shape)
    y, t = ftrace.jvp(f, (x,), (v,))
    if y.dtype == np.float64 and f is not CALLS["reduce_precision"][0]:
        h = 1e-6
        np.testing.assert_allclose(t, (f(x + h * v) - f(x - h * v)) / (2 * h), atol=1e-8)
    w = rng.normal(size=np.shape(y)).astype(y.dtype)
    (ct,) = ftrace.vjp(f, x)[1](w[()])
    np.testing.assert_allclose(np.vdot(w, t), np.vdot(ct, v), rtol=1e-6)


def test_creation_functions():
    np.testing.assert_array_equal(lax.iota(np.float32, 3), np.float32([0, 1, 2]), strict=True)
    np.testing.assert_array_equal(
        lax.broadcasted_iota("i4", (2, 3), -1), np.int32([[0, 1, 2]] * 2), strict=True
    )
    np.testing.assert_array_equal(lax.full((2,), 3), np.array([3, 3]), strict=True)
    np.testing.assert_array_equal(lax.full((), 3, "f4"), np.float32(3), strict=True)
    np.testing.assert_array_equal(
        lax.full_like(np.ones((2, 1), "f4"), 1, shape=(3,)), np.ones(3, "f4"), strict=True
    )
    assert lax.broadcast_shapes((4, 1, 2), (3, 1)) == (4, 3, 2)


def test_arg_reductions_have_the_dtype_asked_for():
    np.testing.assert_array_equal(lax.argmax(X, 1, np.int32), np.int32([2, 0]), strict=True)
    np.testing.assert_array_equal(lax.argmin(X, -2), np.array([0, 0, 1]), strict=True)


def test_boolean_and_bitwise_reductions():
    flags = np.array([[True, False], [True, True]])
    np.testing.assert_array_equal(lax.reduce_and(flags, (0,)), [True, False])
    np.testing.assert_array_equal(lax.reduce_or(flags, (1,)), [True, True])
    np.testing.assert_array_equal(lax.reduce_xor(flags, (1,)), [True, False])
    assert lax.reduce_xor(np.array([5, 3, 1]), (0,)) == 7


def test_top_k_puts_nan_first_and_keeps_the_order_of_ties():
    values, indices = lax.top_k(np.array([1.0, np.nan, 3.0, 3.0, -np.inf]), 4)
    np.testing.assert_array_equal(values, [np.nan, 3.0, 3.0, 1.0])
    np.testing.assert_array_equal(indices, [1, 2, 3, 0])


@pytest.mark.parametrize(
    ("x", "away", "even"),
    [
        (0.5, 1.0, 0.0),
        (-0.5, -1.0, -0.0),
        (1.5, 2.0, 2.0),
        (2.5, 3.0, 2.0),
        (-2.5, -3.0, -2.0),
        (0.49999999999999994, 0.0, 0.0),
        (-0.3, -0.0, -0.0),
        (4503599627370497.0, 4503599627370497.0, 4503599627370497.0),
        (np.inf, np.inf, np.inf),
        (np.nan, np.nan, np.nan),
    ],
)
def test_round_halves_away_from_zero_or_to_even(x, away, even):
    x = np.float64(x)
    first, second = lax.round(x), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    np.testing.assert_array_equal([first, second], [away, even])
    assert [np.signbit(first), np.signbit(second)] == [np.signbit(away), np.signbit(even)]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "i8"])
def test_bit_functions_count_twos_complement(dtype):
    info = np.iinfo(dtype)
    x = np.array([0, 1, 7, info.max, info.min], dtype)
    width = 8 * x.dtype.itemsize
    patterns = [int(v) % (1 << width) for v in x]
    counted = np.array([p.bit_count() for p in patterns], dtype)
    np.testing.assert_array_equal(lax.population_count(x), counted, strict=True)
    two = np.full(5, 2, dtype)
    logical = np.array([p >> 2 for p in patterns], f"u{width // 8}").astype(dtype)
    np.testing.assert_array_equal(lax.shift_right_logical(x, two), logical, strict=True)
    signed = [p - (1 << width) if p >> (width - 1) else p for p in patterns]
    arithmetic = np.array([s >> 2 for s in signed], f"i{width // 8}").astype(dtype)
    np.testing.assert_array_equal(lax.shift_right_arithmetic(x, two), arithmetic, strict=True)


def test_bits_of_a_float_and_back():
    bits = lax.bitcast_convert_type(X, np.int64)
    np.testing.assert_array_equal(bits, X.view(np.int64), strict=True)
    np.testing.assert_array_equal(lax.bitcast_convert_type(bits, float), X, strict=True)


def test_dot_widens_on_request():
    x = np.array([200, 100], np.uint8)
    assert lax.dot(x, x, None, np.int32) == 50000
    assert lax.dot(x, x, preferred_element_type=np.int32).dtype == np.int32


def test_stop_gradient_takes_containers():
    def f(p):
        q = lax.stop_gradient(p)
        return p["a"] * q["b"][0]

    gradient = ftrace.grad(f)({"a": 2.0, "b": (5.0,)})
    assert gradient == {"a": 5.0, "b": (0.0,)}


def test_a_traced_start_counts_from_the_end_and_is_clamped():
    def f(i):
        return lax.dynamic_slice(np.arange(5), (i,), (2,))

    indices = [-9, -2, 0, 2, 4]
    expected = np.array([[0, 1], [3, 4], [0, 1], [2, 3], [3, 4]])
    np.testing.assert_array_equal(ftrace.vmap(f)(np.array(indices)), expected)
    np.testing.assert_array_equal([ftrace.jit(f)(i) for i in indices], expected)
    np.testing.assert_array_equal([f(i) for i in indices], expected)


MISTAKES = {
    "reshape to another size": (lambda x: lax.reshape(x, (4,)), ShapeError, "do not fill"),
    "reshape with -1": (lambda x: lax.reshape(x, (-1,)), ShapeError, "do not fill"),
    "an axis that is not there": (lambda x: lax.reduce_sum(x, (2,)), AxisError, "2 axes"),
    "an axis twice": (lambda x: lax.reduce_max(x, (1, -1)), AxisError, "twice"),
    "an incomplete permutation": (lambda x: lax.transpose(x, (0,)), AxisError, "permutation"),
    "too few starts": (lambda x: lax.slice(x, (0,), (1,)), ShapeError, "1 start_indices"),
    "a slice that is too long": (
        lambda x: lax.dynamic_slice(x, (0, 0), (1, 4)),
        ShapeError,
        "does not fit",
    ),
    "too few dynamic starts": (lambda x: lax.dynamic_slice(x, (0,), (1,)), ShapeError, "one for"),
    "too few paddings": (lambda x: lax.pad(x, 0.0, [(1, 1, 0)]), ShapeError, "1 paddings"),
    "parts of another total": (lambda x: lax.split(x, (1, 1), 1), ShapeError, "split"),
    "arrays of other shapes": (
        lambda x: lax.concatenate([x, W], 0),
        ShapeError,
        "concatenate",
    ),
    "arrays of other dtypes": (
        lambda x: lax.concatenate([x, np.ones((2, 3), "f4")], 0),
        DtypeError,
        "concatenate",
    ),
    "no arrays": (lambda x: lax.concatenate([], 0), ShapeError, "no arrays"),
    "inner sizes": (lambda x: lax.dot(x, x), ShapeError, r"\(2, 3\) and \(2, 3\)"),
    "ranks of batches": (lambda x: lax.batch_matmul(x, B), ShapeError, "batch_matmul"),
    "k too large": (lambda x: lax.top_k(x, 4), ShapeError, "size 3"),
    "an array to fill with": (lambda x: lax.full((2,), x), ShapeError, "fill value"),
    "squeezing a long axis": (lambda x: lax.squeeze(x, (0,)), ShapeError, "squeeze"),
    "no axes to merge": (lambda x: lax.collapse(x, 2), ShapeError, "at least one axis"),
    "bits of floats": (lambda x: lax.population_count(x), DtypeError, "no integer array"),
    "a half as a start": (
        lambda x: lax.dynamic_slice(x, (0.5, 0), (1, 1)),
        DtypeError,
        "A dynamic slice was to start at f64",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("transform", [lambda f: f, ftrace.jit], ids=["eager", "jit"])
def test_a_mistake_is_named_before_anything_runs(name, transform):
    f, error, phrase = MISTAKES[name]
    with pytest.raises(error, match=phrase):
        transform(f)(X)


def test_an_index_outside_the_axis_raises_pythons_error():
    with pytest.raises(IndexError, match="out of bounds"):
        lax.index_in_dim(X, 3, 1)


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\)"):
        lax.broadcast_shapes((2,), (3,))


def test_rows_do_not_broadcast_or_promote_while_tracing():
    with pytest.raises(ShapeError, match="do not broadcast"):
        ftrace.jit(lax.add)(X, V)
    with pytest.raises(DtypeError, match="do not promote"):
        ftrace.jit(lax.add)(X, X.astype("f4"))


ROWS_OF_LAX = sorted(
    name for name in dir(lax) if isinstance(row := getattr(lax, name), Primitive) and row.takes
)


@pytest.mark.parametrize("name", ROWS_OF_LAX)
def test_a_row_writes_into_no_operand(name: str) -> None:
    """What NumPy and SciPy take for `out` behind the operands is refused: JAX knows no such."""
    row = getattr(lax, name)
    assert row.takes
    operands = [np.ones(2)] * row.takes
    extra = np.full(2, 77.0)
    for call in (
        lambda x: row(x, *operands[1:], extra),
        lambda x: row(x, *operands[1:], out=extra),
        lambda x: row(x, *operands[1:], where=False),
    ):
        for way in (lambda f: f, ftrace.jit, lambda f: lambda x: ftrace.jvp(f, (x,), (x,))):
            with pytest.raises(
                DtypeError,
                match=f"{row.name} was given .* operands and the params .* and no params",
            ):
                way(call)(operands[0])
    np.testing.assert_array_equal(extra, 77.0)
