"""Tracers as arrays: methods, properties, NumPy's protocols, creation, values that are needed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import (
    AxisError,
    ConcretizationTypeError,
    DtypeError,
    RuleError,
    ShapeError,
    TracerArrayConversionError,
    UnexpectedTracerError,
)
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.trace import Tracer
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.numpy.promote import TRACED
from ftrace.numpy.ufuncs import UFUNCS

A = np.array([[1.5, -0.5, 2.0], [0.25, 3.0, -1.0]])
Z = np.array([1 + 2j, 0.5 - 1j])


def outputs(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple | list) else [y]


def staged(f: Callable[..., Any], *xs: Any) -> Any:
    return trace_to_jaxpr(lambda *ts: outputs(f(*ts)), [typeof(x) for x in xs])[0]


def assert_as_plain(f: Callable[..., Any], *xs: Any) -> None:
    """A function gives the same on tracers and on arrays."""
    expected = outputs(f(*xs))
    found = eval_jaxpr(staged(f, *xs), xs)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert (np.shape(x), np.asarray(x).dtype) == (np.shape(y), np.asarray(y).dtype)
        np.testing.assert_allclose(x, y, rtol=1e-12)


METHODS: list[Callable[[Any], Any]] = [
    lambda x: x.sum(),
    lambda x: x.sum(0),
    lambda x: x.sum(axis=1, keepdims=True),
    lambda x: x.prod(axis=0),
    lambda x: x.max(),
    lambda x: x.min(axis=1),
    lambda x: x.mean(axis=0),
    lambda x: x.var(),
    lambda x: x.std(axis=1, ddof=1),
    lambda x: x.all(),
    lambda x: x.any(axis=0),
    lambda x: x.argmax(),
    lambda x: x.argmin(axis=1),
    lambda x: x.cumsum(),
    lambda x: x.cumprod(axis=1),
    lambda x: x.reshape(3, 2),
    lambda x: x.reshape((3, 2)),
    lambda x: x.reshape(-1),
    lambda x: x.ravel(),
    lambda x: x.flatten(),
    lambda x: x.transpose(),
    lambda x: x.transpose(1, 0),
    lambda x: x.transpose((1, 0)),
    lambda x: x.T,
    lambda x: x.mT,
    lambda x: x.real,
    lambda x: x.imag,
    lambda x: x[None].squeeze(),
    lambda x: x.swapaxes(0, 1),
    lambda x: x.diagonal(),
    lambda x: x.trace(),
    lambda x: x.dot(x.T),
    lambda x: x.clip(-0.2, 1.0),
    lambda x: x.round(1),
    lambda x: x.conj(),
    lambda x: x.repeat(2, axis=0),
    lambda x: x.take([0, 2], axis=1),
    lambda x: x.argsort(axis=0),
    lambda x: x.astype(np.float32),
    lambda x: x.astype(int),
    lambda x: x.copy(),
    lambda x: abs(x),
    lambda x: -x,
    lambda x: +x,
    lambda x: round(x[0, 0], 1),
    lambda x: x @ x.T,
    lambda x: x @ [1.0, 2.0, 3.0],
    lambda x: [1.0, 2.0] @ x,
    lambda x: ~(x > 0),
    lambda x: x[0].searchsorted(0.3),
    lambda x: tuple(row.sum() for row in x),
    lambda x: np.float64(len(x) + x.ndim + x.size + x.shape[1] + x.itemsize + x.nbytes) * x,
]


@pytest.mark.parametrize("f", METHODS)
def test_methods_and_properties_are_ndarrays(f: Callable[[Any], Any]) -> None:
    assert_as_plain(f, A)


def test_complex_methods_are_ndarrays() -> None:
    for f in (lambda x: x.real, lambda x: x.imag, lambda x: x.conj(), lambda x: abs(x)):
        assert_as_plain(f, Z)


def test_every_function_is_reached_by_numpys_dispatch() -> None:
    missing = [
        name
        for name, plain in vars(np).items()
        if hasattr(plain, "_implementation")
        and hasattr(fnp, name)
        and getattr(fnp, name) is not plain
        and plain not in TRACED
    ]
    assert not missing
    assert len(TRACED) + len(UFUNCS) > 300


def test_passive_names_are_numpys() -> None:
    assert fnp.pi is np.pi
    assert fnp.float32 is np.float32
    assert fnp.ndarray is np.ndarray
    assert fnp.promote_types is np.promote_types


def test_functions_have_numpys_names_and_a_pointer_to_its_documentation() -> None:
    for name in ("sin", "sum", "max", "matmul", "cumulative_sum", "hsplit", "quantile", "nanmax"):
        function = getattr(fnp, name)
        assert function.__name__ == name
        assert f"`numpy.{name}`" in function.__doc__
    assert "`numpy.linalg.norm`" in fnp.linalg.norm.__doc__


def test_without_a_transformation_the_functions_are_numpys() -> None:
    x = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    assert type(fnp.cumsum(x)) is np.ma.MaskedArray
    assert fnp.sin([0.0]).dtype == np.float64
    assert fnp.zeros(2, "i4").flags.owndata
    with pytest.raises(TypeError, match="unexpected keyword"):
        fnp.sum(A, axes=0)


def test_the_namespace_of_a_tracer_is_ftrace_numpy() -> None:
    def f(x: Any) -> Any:
        assert x.__array_namespace__() is fnp
        return x.__array_namespace__(api_version="2024.12").sin(x)

    assert [e.primitive.name for e in staged(f, A).eqns] == ["sin"]


def test_a_function_without_a_rule_raises_and_names_itself() -> None:
    for f, name in (
        (lambda x: np.array_str(x), "numpy.array_str"),
        (lambda x: np.busday_count(x, x), "busday_count"),
    ):
        with pytest.raises(RuleError, match=name):
            staged(f, np.eye(2))


def test_options_without_a_rule_raise_and_name_themselves() -> None:
    for f, option in (
        (lambda x: np.pad(x, 9, mode="reflect", reflect_type="odd"), "reflect_type='odd'"),
        (lambda x: np.reshape(x, (3, 2), order="K"), "order='K'"),
    ):
        with pytest.raises(RuleError, match=option):
            staged(f, A)


def test_a_leaked_tracer_raises_in_every_door() -> None:
    kept: list[Any] = []
    staged(lambda x: kept.append(x) or x * 2, A)
    (leaked,) = kept
    for f in (
        lambda: np.sin(leaked),
        lambda: fnp.sin(leaked),
        lambda: leaked + 1.0,
        lambda: leaked.sum(),
        lambda: fnp.sum(leaked),
        lambda: np.concatenate([leaked, A]),
        lambda: fnp.concatenate([A, leaked]),
    ):
        with pytest.raises(UnexpectedTracerError):
            f()


# ---------------------------------------------------------------------------------- creation

CREATIONS: list[Callable[[Any], Any]] = [
    lambda m: m.zeros(3),
    lambda m: m.zeros((2, 3), np.int32),
    lambda m: m.ones((2,), bool),
    lambda m: m.full((2, 2), 7),
    lambda m: m.full(3, [1.0, 2.0, 3.0], dtype=np.float32),
    lambda m: m.zeros_like(A, shape=(4,)),
    lambda m: m.arange(5),
    lambda m: m.arange(2, 11, 3),
    lambda m: m.arange(5, 0, -2, dtype=np.int16),
    lambda m: m.arange(0.5, 2.0, 0.25),
    lambda m: m.arange(0),
    lambda m: m.linspace(0, 1, 5),
    lambda m: m.linspace(1, 3, 4, endpoint=False),
    lambda m: m.linspace(0, 10, 4, dtype=int),
    lambda m: m.linspace(2.0, 3.0, 1),
    lambda m: m.linspace(0, 1, 3, retstep=True),
    lambda m: m.logspace(0, 2, 3),
    lambda m: m.geomspace(1, 8, 4),
    lambda m: m.eye(3),
    lambda m: m.eye(2, 4, k=1, dtype=np.int64),
    lambda m: m.identity(2),
    lambda m: m.tri(3, 4, -1),
    lambda m: m.array([[1, 2], [3, 4]]),
    lambda m: m.array([1, 2.5], dtype=np.float32),
    lambda m: m.array(3.5, ndmin=2),
    lambda m: m.asarray([True, False]),
    lambda m: m.meshgrid(np.arange(2), np.arange(3)),
    lambda m: m.indices((2, 3)),
    lambda m: m.fromfunction(lambda i, j: i + 10 * j, (2, 3)),
    lambda m: m.diag([1.0, 2.0], 1),
    lambda m: m.unravel_index(np.array([5, 0, 3]), (2, 3)),
    lambda m: m.ravel_multi_index((np.array([1, 0]), np.array([2, 1])), (2, 3)),
    lambda m: m.ravel_multi_index((np.array([3, 0]), np.array([2, 1])), (2, 3), mode="wrap"),
    lambda m: m.bincount(np.array([1, 1, 3])),
    lambda m: m.bincount(np.array([1, 1, 3]), weights=np.array([0.5, 1.0, 2.0]), minlength=6),
    lambda m: m.unique(np.array([3, 1, 3]), return_counts=True),
    lambda m: m.union1d([1, 2], [2, 3]),
    lambda m: m.where(np.array([0, 1, 1])),
]


@pytest.mark.parametrize("make", CREATIONS)
def test_creation_inside_a_transformation_is_traced_and_equals_numpys(
    make: Callable[[Any], Any],
) -> None:
    expected = outputs(make(np))

    def inside(x: Any) -> Any:
        return make(fnp)

    ys, tangents = jvp_flat(lambda x: outputs(inside(x)), [1.0], [np.float64(1.0)])
    for y, t, wanted in zip(ys, tangents, expected, strict=True):
        assert t is ZERO
        assert (np.shape(y), np.asarray(y).dtype) == (np.shape(wanted), wanted.dtype)
        np.testing.assert_allclose(y, wanted, rtol=1e-14)


def test_what_is_made_inside_belongs_to_the_region() -> None:
    def f(x: Any) -> Any:
        for made in (fnp.zeros(2), fnp.array([1.0]), fnp.arange(3), fnp.asarray(A), fnp.eye(2)):
            assert isinstance(made, Tracer)
        assert not isinstance(np.zeros(2), Tracer)
        return x

    staged(f, 1.0)


def test_nested_lists_with_tracers_become_arrays() -> None:
    def f(x: Any) -> Any:
        return fnp.array([[x, 2.0], [3, x * x]]), fnp.asarray((x, 1)), fnp.stack([x, 1.0])

    for y, wanted in zip(
        eval_jaxpr(staged(f, np.float64(3.0)), [np.float64(3.0)]),
        ([[3.0, 2.0], [3.0, 9.0]], [3.0, 1.0], [3.0, 1.0]),
        strict=True,
    ):
        np.testing.assert_array_equal(y, np.array(wanted))


def test_ragged_lists_and_shapes_that_cannot_be_raise_named_errors() -> None:
    for f, error, phrase in (
        (lambda x: fnp.array([x, [x, x]]), ShapeError, "nested list"),
        (lambda x: fnp.reshape(fnp.ones(6) * x, (4,)), ShapeError, "cannot reshape"),
        (lambda x: fnp.concatenate([fnp.ones((2, 2)), fnp.ones((2, 3))]), ShapeError, "joined"),
        (lambda x: fnp.concatenate([x, x]), ShapeError, "zero-dimensional"),
        (lambda x: fnp.sum(x * A, axis=2), AxisError, "axis 2 is out of bounds"),
        (lambda x: fnp.sum(x * A, axis=(0, 0)), AxisError, "twice"),
        (lambda x: fnp.squeeze(x * A, axis=0), ShapeError, "squeeze"),
        (lambda x: fnp.matmul(x * A, A), ShapeError, "sums over axis"),
        (lambda x: fnp.matmul(x, A), ShapeError, "rank 0"),
        (lambda x: fnp.einsum("ij,jk", x * A, A), ShapeError, "label 'j'"),
        (lambda x: fnp.sin("text"), DtypeError, "cannot be traced"),
        (lambda x: fnp.broadcast_to(x * A, (3, 3)), ShapeError, "cannot be broadcast"),
        (lambda x: fnp.max(x * np.zeros((0, 2))), ValueError, "zero-size array"),
    ):
        with pytest.raises(error, match=phrase):
            staged(f, 1.0)


def test_shapes_and_ranges_need_known_integers() -> None:
    for f in (
        lambda n: fnp.zeros(n),
        lambda n: fnp.arange(n),
        lambda n: fnp.linspace(0.0, 1.0, n),
        lambda n: fnp.tile(A, n),
    ):
        with pytest.raises(ConcretizationTypeError):
            staged(f, np.int64(3))


# ---------------------------------------------------------------------------------- known values

NEEDING: list[tuple[Callable[[Any], Any], list[float]]] = [
    (lambda x: np.nonzero(x > 0)[0] * x.sum(), [0.0, 12.0]),
    (lambda x: np.unique(x), [2.0, 1.0, 3.0]),
    (lambda x: np.extract(x > 0, x), [1.0, 3.0]),
    (lambda x: np.setdiff1d(x, [2.0]), [2.0, 1.0]),
    (lambda x: np.intersect1d(x, [2.0, 1.5]), [1.0, 3.0]),
    (lambda x: np.setxor1d(x, [2.0, 9.0]), [2.0, 1.0, 0.0]),
    (lambda x: np.trim_zeros(x * (x > 1)), [1.0, 0.0, 3.0]),
    (lambda x: np.repeat(x, (x > 0).astype(int)), [1.0, 3.0]),
    (lambda x: np.unique_counts(x).values, [2.0, 1.0, 3.0]),
]


@pytest.mark.parametrize(("f", "tangent"), NEEDING)
def test_under_differentiation_the_primal_decides_shapes(
    f: Callable[[Any], Any], tangent: list[float]
) -> None:
    x = np.array([1.5, -0.5, 2.0])
    (y,), (t,) = jvp_flat(lambda v: [f(v)], [x], [np.array([1.0, 2.0, 3.0])])
    np.testing.assert_allclose(y, f(x))
    np.testing.assert_allclose(t, tangent)


def test_a_known_condition_chooses_parts_even_while_staging() -> None:
    assert_as_plain(lambda x: np.compress([True, False], x, axis=0), A)
    assert_as_plain(lambda x: np.repeat(x, [2, 0], axis=0), A)


@pytest.mark.parametrize("f", [f for f, _ in NEEDING])
def test_while_staging_shapes_that_depend_on_values_raise_with_the_fix(
    f: Callable[[Any], Any],
) -> None:
    with pytest.raises(ConcretizationTypeError, match="fixed shape"):
        staged(f, np.array([1.5, -0.5, 2.0]))


def test_bincount_with_a_length_works_while_staging() -> None:
    i = np.array([0, 2, 2])
    (found,) = eval_jaxpr(staged(lambda k: fnp.bincount(k, length=4), i), [i])
    np.testing.assert_array_equal(found, [1, 0, 2, 0])


def test_conversions_of_an_unknown_value_raise_with_the_fix() -> None:
    for f in (lambda x: math.sin(x), lambda x: np.array([x, 1.0]), lambda x: x.view(np.int64)):
        with pytest.raises(TracerArrayConversionError):
            staged(f, np.float64(1.0))


# ---------------------------------------------------------------------------------- vectorize


def test_vectorize_maps_a_function_over_leading_axes_of_traced_arrays() -> None:
    scaled = fnp.vectorize(lambda v, s: v / v.sum() * s, signature="(n),()->(n)")
    assert_as_plain(lambda x, s: scaled(x * x, s), A, np.array([[1.0], [2.0], [3.0]]))
    plus = fnp.vectorize(lambda a, b: (a * b, a - b))
    assert_as_plain(lambda x, y: plus(x, y), A, np.array([1.0, 2.0, 3.0]))
    power = fnp.vectorize(lambda a, n: a**n, excluded={1})
    assert_as_plain(lambda x: power(x, 2), A)


def test_vectorize_refuses_arguments_that_do_not_fit_its_signature() -> None:
    f = fnp.vectorize(lambda v: v.sum(), signature="(n,m)->()")
    with pytest.raises(ShapeError, match="fewer than 2 core axes"):
        staged(lambda x: f(x), np.ones(3))
    with pytest.raises(ValueError, match="signature"):
        fnp.vectorize(np.sum, signature="n->()")


def test_norms_have_derivative_zero_at_zero() -> None:
    zero = np.zeros(3)
    for f in (
        np.linalg.norm,
        lambda x: np.linalg.norm(x, 3),
        lambda x: np.linalg.norm(x[None], "fro"),
        lambda x: fnp.linalg.vector_norm(x),
    ):
        (y,), (t,) = jvp_flat(lambda x, f=f: [f(x)], [zero], [np.ones(3)])
        assert (y, t) == (0.0, 0.0)


def test_sinc_has_its_derivatives_at_zero() -> None:
    def slope(x: Any) -> Any:
        return jvp_flat(lambda v: [np.sinc(v)], [x], [np.float64(1.0)])[1]

    (first,) = slope(np.float64(0.0))
    assert first == 0.0
    _, (second,) = jvp_flat(slope, [np.float64(0.0)], [np.float64(1.0)])
    np.testing.assert_allclose(second, -(np.pi**2) / 3, rtol=1e-12)


def test_parts_of_complex_arrays_are_views_that_can_be_written() -> None:
    def f(z: Any) -> Any:
        z = z * 1.0
        z.real[0] = 5.0
        z.imag *= 2.0
        z.real = z.real + z.imag
        return z

    assert_as_plain(f, Z)


def test_nan_to_num_works_in_place_where_it_is_asked_to() -> None:
    def f(x: Any) -> Any:
        x = x * 1.0
        y = np.nan_to_num(x, copy=False, nan=3.0)
        return x + y

    assert_as_plain(f, np.array([1.0, np.nan]))


def test_a_known_scalar_can_be_formatted_and_an_unknown_one_only_shows_its_type() -> None:
    seen: list[str] = []
    jvp_flat(lambda x: [seen.append(f"{x:.2f} {x[()]}") or x], [np.float64(1.5)], [np.float64(1)])
    staged(lambda x: seen.append(f"{x!r}") or x, 1.0)
    assert seen[0] == "1.50 1.5"
    assert "f64" in seen[1]


def test_two_component_cross_products_equal_the_third_component() -> None:
    x, y = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0.5, 4.0])
    (found,) = eval_jaxpr(staged(fnp.cross, x, y), [x, y])
    np.testing.assert_allclose(found, x[:, 0] * y[1] - x[:, 1] * y[0])
    z = np.array([1.0, 2.0, 3.0])
    (found,) = eval_jaxpr(staged(fnp.cross, x[0], z), [x[0], z])
    np.testing.assert_allclose(found, np.cross([1.0, 2.0, 0.0], z))


def test_polynomial_division_gives_quotient_and_remainder() -> None:
    u, v = np.array([2.0, -3.0, 1.0, 5.0]), np.array([1.0, 2.0])
    quotient, remainder = np.polydiv(u, v)
    ys, _ = jvp_flat(lambda a, b: list(np.polydiv(a, b)), [u, v], [u, v])
    np.testing.assert_allclose(ys[0], quotient)
    np.testing.assert_allclose(ys[1], remainder)
