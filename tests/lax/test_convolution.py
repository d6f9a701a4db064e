"""Convolutions: values against a naive loop and SciPy, all transformations, and mistakes."""

import itertools

import numpy as np
import pytest
from scipy import signal

import ftrace
from ftrace import lax
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from tests.lax.agreement import COMPOSITIONS, assert_agrees, direction

RNG = np.random.default_rng(71)


def naive(x, k, strides, pads, steps, spread, features=1, batches=1):  # noqa: PLR0913
    """(batch, feature, space) by (out, in, space), one product at a time."""
    n, c, *space = x.shape
    o, i, *window = k.shape
    wide = [(m - 1) * s + 1 + a + b for m, s, (a, b) in zip(space, steps, pads, strict=True)]
    full = np.zeros((n, c, *wide))
    for place in np.ndindex(*space):
        at = tuple(p * s + a for p, s, (a, _) in zip(place, steps, pads, strict=True))
        if all(0 <= q < m for q, m in zip(at, wide, strict=True)):
            full[(..., *at)] = x[(..., *place)]
    out = [
        (m - (w - 1) * d - 1) // s + 1
        for m, w, s, d in zip(wide, window, strides, spread, strict=True)
    ]
    z = np.zeros((n // batches, o, *out))
    for b, f, *place in np.ndindex(*z.shape):
        group = f // (o // max(features, batches))
        member = b + group * (n // batches) if batches > 1 else b
        first = group * i if features > 1 else 0
        for j, *inside in np.ndindex(i, *window):
            at = [p * s + q * d for p, q, s, d in zip(place, inside, strides, spread, strict=True)]
            z[(b, f, *place)] += full[(member, first + j, *at)] * k[(f, j, *inside)]
    return z


# lhs shape, rhs shape, strides, padding, lhs dilation, rhs dilation, feature and batch groups
CASES = {
    "one axis": ((2, 3, 7), (4, 3, 3), (1,), ((0, 0),), (1,), (1,), 1, 1),
    "stride and padding": ((1, 2, 8), (3, 2, 3), (2,), ((1, 2),), (1,), (1,), 1, 1),
    "stride that leaves a rest": ((1, 1, 9), (1, 1, 2), (3,), ((0, 0),), (1,), (1,), 1, 1),
    "cut": ((1, 1, 8), (2, 1, 2), (1,), ((-1, -2),), (1,), (1,), 1, 1),
    "lhs dilation": ((1, 2, 4), (2, 2, 3), (1,), ((2, 1),), (3,), (1,), 1, 1),
    "rhs dilation": ((1, 1, 9), (2, 1, 3), (1,), ((1, 0),), (1,), (3,), 1, 1),
    "everything": ((2, 2, 5), (3, 2, 2), (2,), ((2, 1),), (2,), (3,), 1, 1),
    "two axes": ((1, 2, 4, 5), (2, 2, 2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1), (1, 1), 1, 1),
    "two axes dilated": ((1, 1, 4, 3), (1, 1, 2, 2), (2, 1), ((1, 1),) * 2, (1, 2), (2, 1), 1, 1),
    "feature groups": ((2, 4, 5), (6, 2, 2), (1,), ((1, 0),), (1,), (1,), 2, 1),
    "depthwise": ((1, 3, 5), (3, 1, 2), (2,), ((1, 1),), (1,), (1,), 3, 1),
    "batch groups": ((4, 2, 5), (6, 2, 2), (1,), ((0, 1),), (1,), (1,), 1, 2),
    "three axes": (
        (1, 1, 3, 2, 3),
        (1, 1, 2, 2, 2),
        (1,) * 3,
        ((0, 1),) * 3,
        (1,) * 3,
        (1,) * 3,
        1,
        1,
    ),
    "no space": ((3, 2), (4, 2), (), (), (), (), 1, 1),
    "kernel longer than the operand": ((1, 1, 2), (1, 1, 3), (1,), ((0, 0),), (1,), (1,), 1, 1),
}
over_cases = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def operands(case):
    x = RNG.normal(size=case[0])
    return x, np.cos(np.arange(1.0, 1.0 + np.prod(case[1])) ** 1.2).reshape(case[1])


def convolved(case, x, k):
    _, _, strides, pads, steps, spread, features, batches = case
    return lax.conv_general_dilated(
        x,
        k,
        strides,
        pads,
        steps,
        spread,
        feature_group_count=features,
        batch_group_count=batches,
    )


@over_cases
def test_values_are_those_of_the_naive_loop(case):
    x, k = operands(case)
    y = convolved(case, x, k)
    np.testing.assert_allclose(y, naive(x, k, *case[2:]), rtol=1e-13, atol=1e-13)
    assert y.base is None
    assert y.flags.writeable
    np.testing.assert_allclose(ftrace.jit(lambda *a: convolved(case, *a))(x, k), y, rtol=1e-14)


@pytest.mark.sampled(3, each="composition")
@pytest.mark.slow
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("name", ["everything", "two axes", "feature groups", "batch groups"])
@pytest.mark.parametrize("operand", ["lhs", "rhs", "both"])
def test_every_transformation_agrees_with_differences(composition, name, operand):
    case = CASES[name]
    x, k = operands(case)

    def by_rhs(z):
        return convolved(case, x, z)

    def by_both(z):
        return convolved(case, z, np.sin(k * np.sum(z * z)))

    f, at = {
        "lhs": (lambda z: convolved(case, z, k), x),
        "rhs": (by_rhs, k),
        "both": (by_both, x * 0.3),
    }[operand]
    assert_agrees(composition, f, at)


@over_cases
def test_both_operands_have_the_transposed_of_the_linear_map(case):
    x, k = operands(case)
    y, pull = ftrace.vjp(lambda x, k: convolved(case, x, k), x, k)
    w = direction(y)
    to_x, to_k = pull(w)
    vx, vk = direction(x), direction(k)
    assert (to_x.shape, to_k.shape) == (x.shape, k.shape)
    np.testing.assert_allclose(np.vdot(to_x, vx), np.vdot(w, convolved(case, vx, k)), atol=1e-12)
    np.testing.assert_allclose(np.vdot(to_k, vk), np.vdot(w, convolved(case, x, vk)), atol=1e-12)


@pytest.mark.parametrize("in_axes", [(0, 0), (2, None), (None, 1), (3, 0)])
@pytest.mark.parametrize("name", ["feature groups", "batch groups", "everything"])
def test_vmap_is_the_loop_for_each_choice_of_operands(name, in_axes):
    case = CASES[name]
    x, k = operands(case)
    xs, ks = (
        a if d is None else np.stack([a, a * a, 1 - a], axis=d)
        for a, d in zip((x, k), in_axes, strict=True)
    )
    actual = ftrace.vmap(lambda x, k: convolved(case, x, k), in_axes)(xs, ks)
    for i in range(3):
        a, b = (
            z if d is None else np.take(z, i, axis=d)
            for z, d in zip((xs, ks), in_axes, strict=True)
        )
        np.testing.assert_allclose(actual[i], convolved(case, a, b), rtol=1e-13, atol=1e-13)


def test_a_mapped_axis_may_be_empty():
    xs, k = np.zeros((0, 1, 2, 5)), np.ones((3, 2, 2))
    assert ftrace.vmap(lambda x: lax.conv(x, k, (1,), "SAME"))(xs).shape == (0, 1, 3, 5)


@pytest.mark.parametrize("mode", ["valid", "same", "full"])
def test_values_are_scipys_correlation(mode):
    x, k = RNG.normal(size=(6, 7)), RNG.normal(size=(3, 2))
    low = {"valid": (0, 0), "full": (2, 1), "same": (1, 0)}[mode]
    high = {"valid": (0, 0), "full": (2, 1), "same": (1, 1)}[mode]
    pads = tuple(zip(low, high, strict=True))
    y = lax.conv_general_dilated(x[None, None], k[None, None], (1, 1), pads)
    if mode == "same":  # SciPy keeps the middle of the full correlation
        middle = signal.correlate(x, k, "full")
        expected = middle[1:7, 1:8]
    else:
        expected = signal.correlate(x, k, mode)
    np.testing.assert_allclose(y[0, 0], expected, rtol=1e-12, atol=1e-12)


def test_large_arrays_are_gathered_in_pieces(monkeypatch):
    from ftrace.primitives import conv as module

    x, k = RNG.normal(size=(5, 2, 9)), RNG.normal(size=(3, 2, 2))
    expected = lax.conv(x, k, (1,), "VALID")
    for limit in (1, 70, 100):
        monkeypatch.setattr(module, "GATHERED", limit)
        np.testing.assert_allclose(lax.conv(x, k, (1,), "VALID"), expected, rtol=1e-13)


@pytest.mark.parametrize("layout", list(itertools.permutations("NHWC"))[::5])
def test_layouts_are_permutations_of_axes(layout):
    x, k = RNG.normal(size=(2, 3, 5, 6)), RNG.normal(size=(4, 3, 2, 3))
    spec, kernel = "".join(layout), "WOHI"
    moved = x.transpose([{"N": 0, "C": 1, "H": 2, "W": 3}[c] for c in spec])
    # the order of space is that of the kernel: W, then H
    turned = k.transpose([{"O": 0, "I": 1, "W": 2, "H": 3}[c] for c in kernel])
    y = lax.conv_general_dilated(
        moved, turned, (2, 1), ((0, 1), (1, 0)), dimension_numbers=(spec, kernel, "CWNH")
    )
    swapped = np.swapaxes(x, 2, 3)  # W first
    expected = naive(swapped, k, (2, 1), ((0, 1), (1, 0)), (1, 1), (1, 1))
    np.testing.assert_allclose(y, expected.transpose(1, 2, 0, 3), rtol=1e-12, atol=1e-12)


def test_dimension_numbers_may_be_axes():
    x, k = RNG.normal(size=(1, 5, 2)), RNG.normal(size=(3, 2, 4))
    numbers = lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (1, 2, 0))
    assert lax.conv_dimension_numbers(x.shape, k.shape, ("NWC", "WIO", "WNC")) == numbers
    y = lax.conv_general_dilated(x, k, (1,), "VALID", dimension_numbers=numbers)
    expected = lax.conv(x.transpose(0, 2, 1), k.transpose(2, 1, 0), (1,), "VALID")
    np.testing.assert_allclose(y, expected.transpose(2, 0, 1), rtol=1e-14)


@pytest.mark.parametrize(
    ("sizes", "window", "strides", "kind", "expected"),
    [
        ((5, 5), (2, 3), (1, 2), "SAME", [(0, 1), (1, 1)]),
        ((5,), (2,), (1,), "SAME_LOWER", [(1, 0)]),
        ((5,), (2,), (1,), "valid", [(0, 0)]),
        ((4,), (1,), (3,), "SAME", [(0, 0)]),
        ((7,), (4,), (3,), "SAME", [(1, 2)]),
        ((0,), (3,), (1,), "SAME", [(1, 1)]),
    ],
)
def test_named_paddings(sizes, window, strides, kind, expected):
    assert lax.padtype_to_pads(sizes, window, strides, kind) == expected


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_gives_as_many_windows_as_strides_fit(n, stride, dilation):
    x, k = np.ones((1, 1, n)), np.ones((1, 1, 3))
    y = lax.conv_general_dilated(x, k, (stride,), "SAME", rhs_dilation=(dilation,))
    assert y.shape[2] == -(-n // stride)


@pytest.mark.parametrize("kind", ["SAME", "VALID"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_transpose_has_the_shape_and_values_of_a_transpose(kind, size, stride):
    """With the kernel turned around it is the transpose of the convolution of that padding."""
    m = 4
    n = m * stride if kind == "SAME" else m * stride + max(size - stride, 0)
    k = RNG.normal(size=(size, 2, 3))  # (space, features of the result, features of x)
    x = RNG.normal(size=(1, m, 3))
    y = lax.conv_transpose(x, k, (stride,), kind, transpose_kernel=True)
    assert y.shape == (1, n, 2)

    def forward(z):
        return lax.conv_general_dilated(
            z, k, (stride,), kind, dimension_numbers=("NWC", "WIO", "NWC")
        )

    if forward(np.zeros((1, n, 2))).shape == x.shape:
        (expected,) = ftrace.linear_transpose(forward, np.zeros((1, n, 2)))(x)
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_conv_transpose_with_numbers_and_with_those_of_the_convolution():
    x, k = RNG.normal(size=(1, 4, 1)), RNG.normal(size=(3, 1, 1))
    plain = lax.conv_transpose(x, k, (2,), [(2, 1)])
    np.testing.assert_array_equal(
        plain, lax.conv_transpose(x, k, (2,), [(0, 1)], use_consistent_padding=True)
    )
    kernel = k.transpose(2, 1, 0)
    direct = lax.conv_with_general_padding(x.transpose(0, 2, 1), kernel, (1,), [(2, 1)], (2,), None)
    np.testing.assert_allclose(plain[0, :, 0], direct[0, 0], rtol=1e-14)


@pytest.mark.parametrize("composition", ["grad", "vmap of grad", "grad of grad"])
def test_conv_transpose_under_transformations(composition):
    k = RNG.normal(size=(3, 2, 2))
    x = RNG.normal(size=(1, 3, 2))
    assert_agrees(composition, lambda z: lax.conv_transpose(z, k, (2,), "SAME"), x)


def test_complex_gradients_follow_the_bilinear_rule():
    x = RNG.normal(size=(1, 2, 5)) + 1j * RNG.normal(size=(1, 2, 5))
    k = RNG.normal(size=(1, 2, 2)) + 1j * RNG.normal(size=(1, 2, 2))
    y, pull = ftrace.vjp(lambda x: lax.conv(x, k, (1,), "VALID"), x)
    w = RNG.normal(size=y.shape) + 1j * RNG.normal(size=y.shape)
    v = RNG.normal(size=x.shape) + 1j * RNG.normal(size=x.shape)
    np.testing.assert_allclose(np.sum(pull(w)[0] * v), np.sum(w * lax.conv(v, k, (1,), "VALID")))


def test_the_dtype_is_kept_or_the_one_asked_for():
    x, k = np.full((1, 1, 3), 100, np.uint8), np.ones((1, 1, 2), np.uint8)
    assert lax.conv(x, k, (1,), "VALID").dtype == np.uint8
    y = lax.conv(x, k, (1,), "VALID", preferred_element_type=np.int32)
    np.testing.assert_array_equal(y, np.int32([[[200, 200]]]), strict=True)
    z = lax.conv(x.astype("f4"), k.astype("f4"), (1,), "VALID", precision=lax.Precision.HIGHEST)
    assert z.dtype == np.float32


def test_a_masked_side_contributes_no_nan():
    def f(x):
        y = lax.conv(x[None, None], np.ones((1, 1, 2)), (1,), "VALID")[0, 0]
        return np.sum(np.where(y > 100.0, np.sqrt(y - 200.0), y))

    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ftrace.grad(f)(np.ones(3)), [1.0, 2.0, 1.0])


X, K = np.ones((1, 2, 5)), np.ones((4, 2, 3))
MISTAKES = {
    "ranks": (lambda: lax.conv(X, K[0], (1,), "SAME"), ShapeError, "same number of axes of space"),
    "features": (
        lambda: lax.conv(X, K[:, :1], (1,), "SAME"),
        ShapeError,
        "2 features of lhs in 1 groups and a kernel with 1 in features",
    ),
    "dtypes": (lambda: lax.conv(X, K.astype("f4"), (1,), "SAME"), DtypeError, "do not promote"),
    "booleans": (lambda: lax.conv(X > 0, K > 0, (1,), "SAME"), DtypeError, "not defined for bool"),
    "strides": (lambda: lax.conv(X, K, (1, 1), "SAME"), ShapeError, "2 window_strides"),
    "no stride": (lambda: lax.conv(X, K, (0,), "SAME"), ShapeError, "at least 1"),
    "a padding that is none": (lambda: lax.conv(X, K, (1,), "HALF"), ShapeError, "'HALF'"),
    "padding without pairs": (
        lambda: lax.conv_general_dilated(X, K, (1,), (1,)),
        ShapeError,
        "was given the padding",
    ),
    "too many paddings": (
        lambda: lax.conv_general_dilated(X, K, (1,), ((1, 1), (1, 1))),
        ShapeError,
        "2 paddings",
    ),
    "cutting more than there is": (
        lambda: lax.conv_general_dilated(X, K, (1,), ((-3, -3),)),
        ShapeError,
        "must not cut more",
    ),
    "named padding of a dilated operand": (
        lambda: lax.conv_general_dilated(X, K, (1,), "SAME", lhs_dilation=(2,)),
        ShapeError,
        "use lax.conv_transpose",
    ),
    "both sorts of groups": (
        lambda: lax.conv_general_dilated(
            X, K, (1,), "SAME", feature_group_count=2, batch_group_count=2
        ),
        ShapeError,
        "at most one of them",
    ),
    "groups that do not divide": (
        lambda: lax.conv_general_dilated(X, K, (1,), "SAME", batch_group_count=2),
        ShapeError,
        "1 batch members of lhs",
    ),
    "out features that do not divide": (
        lambda: lax.conv_general_dilated(X, K[:3, :1], (1,), "SAME", feature_group_count=2),
        ShapeError,
        "3 out features of rhs",
    ),
    "dimension numbers of another rank": (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NHWC", "HWIO", "NHWC")),
        ShapeError,
        "do not name the 3 axes",
    ),
    "letters of space that differ": (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NHC", "WIO", "NHC")),
        ShapeError,
        "needs each of",
    ),
    "one string": (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), "NHC"),
        DtypeError,
        "Give three strings",
    ),
    "axes twice": (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ((0, 1, 1), (0, 1, 2), (0, 1, 2))),
        AxisError,
        "no permutation of 3 axes",
    ),
    "an empty kernel": (lambda: lax.conv(X, K[..., :0], (1,), "VALID"), ShapeError, "empty window"),
    "a precision that is none": (
        lambda: lax.conv(X, K, (1,), "SAME", "exact"),
        DtypeError,
        "the precision 'exact'",
    ),
    "too many precisions": (
        lambda: lax.dot(X[0, 0], X[0, 0], (None, None, None)),
        DtypeError,
        "was given the precision",
    ),
    "transposed padding": (
        lambda: lax.conv_transpose(X, X, (1,), "SAME_LOWER"),
        ShapeError,
        "Use 'SAME', 'VALID'",
    ),
    "no default layout": (
        lambda: lax.conv_transpose(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME"),
        ShapeError,
        "no default layout for 6 axes",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    f, error, phrase = MISTAKES[name]
    with pytest.raises(error, match=phrase):
        f()


@pytest.mark.parametrize("precision", [None, "highest", lax.Precision.HIGH, ("float32", None)])
def test_precision_is_accepted_everywhere_and_changes_nothing(precision):
    a = RNG.normal(size=(3, 3))
    numbers = (((1,), (0,)), ((), ()))
    for y in (
        lax.dot(a, a, precision),
        lax.dot(a, a, precision=precision),
        lax.dot_general(a, a, numbers, precision),
        lax.batch_matmul(a, a, precision),
        lax.dot_general(a, a, numbers, precision=precision, preferred_element_type=np.float64),
    ):
        np.testing.assert_array_equal(y, a @ a)


def test_compiled_convolution_equals_the_interpreted_one():
    case = CASES["two axes"]
    x, k = operands(case)
    loss = ftrace.grad(lambda x, k: np.sum(np.tanh(convolved(case, x, k))), argnums=(0, 1))
    expected = loss(x, k)
    for a, e in zip(ftrace.jit(loss)(x, k), expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-13)
