"""When a traced value may become a Python value, and what the error says when it may not."""

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import (
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)


def test_a_branch_reads_the_primal_through_nested_gradients():
    def f(x):
        return x * x * x if x > 1 else x

    assert ftrace.grad(ftrace.grad(f))(2.0) == 12.0


def test_a_branch_inside_an_inner_gradient():
    assert ftrace.grad(lambda x: ftrace.grad(lambda y: y * x if x > 1 else y)(1.0))(2.0) == 1.0


def test_a_native_loop_is_differentiated():
    def newton(x):
        z = x
        while abs(z * z - x) > 1e-13:
            z = z - (z * z - x) / (2 * z)
        return z

    np.testing.assert_allclose(ftrace.grad(newton)(2.0), 0.5 / np.sqrt(2.0))
    np.testing.assert_allclose(ftrace.grad(ftrace.grad(newton))(2.0), -0.0883883, rtol=1e-5)


def test_float_of_a_value_with_a_derivative_at_any_level_is_refused():
    def f(x):
        return x * ftrace.grad(lambda y: y * float(x))(1.0)

    with pytest.raises(TracerArrayConversionError, match="derivative"):
        ftrace.grad(f, lift=False)(2.0)
    assert ftrace.grad(f)(2.0) == 4.0


def test_float_of_a_comparison_or_a_constant_is_allowed():
    def f(x):
        return x * float(x > 1.0) + float(ftrace.numpy.sin(0.0))

    assert ftrace.grad(f)(2.0) == 1.0


@pytest.mark.parametrize(
    "use", [float, complex, np.asarray, lambda x: x.item(), lambda x: x.tolist()]
)
def test_conversions_that_would_drop_a_derivative_are_refused(use):
    with pytest.raises(TracerArrayConversionError):
        ftrace.grad(lambda x: (use(x), x)[1], lift=False)(2.0)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ftrace.jit(f, lift=False),
        lambda f: lambda x: ftrace.vmap(f, lift=False)(np.array([x, x])),
    ],
)
@pytest.mark.parametrize(
    ("use", "error"),
    [
        (bool, TracerBoolConversionError),
        (lambda x: 1 if x > 0 else 2, TracerBoolConversionError),
        (lambda x: x > 0 and x < 1, TracerBoolConversionError),
        (int, TracerIntegerConversionError),
        (range, TracerIntegerConversionError),
        (lambda x: [1, 2, 3][x], TracerIntegerConversionError),
        (float, TracerArrayConversionError),
        (np.asarray, TracerArrayConversionError),
        (lambda x: np.array([x, 1]), TracerArrayConversionError),
        (lambda x: np.full(3, x), TracerArrayConversionError),
        (lambda x: np.zeros(3).__setitem__(0, x), TracerArrayConversionError),
    ],
)
def test_batch_and_staging_tracers_have_no_python_value(transform, use, error):
    with pytest.raises(error):
        transform(lambda x: (use(x), x)[1])(2)


def test_a_store_of_a_tracer_into_a_plain_array_names_both_causes_and_fixes():
    def f(x):
        out = np.zeros(3)
        out[0] = x
        return out[0]

    with pytest.raises(TracerArrayConversionError, match=r"ftrace\.numpy\.zeros"):
        ftrace.grad(f, lift=False)(1.0)


def test_math_functions_are_told_to_use_numpy():
    import math

    with pytest.raises(TracerArrayConversionError, match=r"numpy\.sin"):
        ftrace.grad(lambda x: math.sin(x), lift=False)(1.0)


def test_print_shows_the_value_where_one_is_known_and_repr_what_it_is():
    shown = []
    ftrace.grad(lambda x: (shown.append(str(x * 2.0)), x)[1])(1.5)
    assert shown[0] == "3.0"
    ftrace.jit(lambda x: (shown.append(repr(x)), x)[1])(1.5)
    assert "f64" in shown[1]


def test_the_error_names_the_users_line():
    with pytest.raises(TracerBoolConversionError) as caught:
        ftrace.jit(lambda x: x if x > 0 else -x, lift=False)(1.0)
    assert "test_concretization.py" in str(caught.value)
