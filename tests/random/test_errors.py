"""What random functions refuse: every message says what was given and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import random
from ftrace.errors import DtypeError, ShapeError, TracerIntegerConversionError

KEY = random.PRNGKey(0)
KEYS = random.split(KEY, 3)

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # keys
    "a seed as a key": (lambda: random.normal(0), DtypeError, r"given i64.*as its key.*PRNGKey"),
    "no array as a key": (lambda: random.bits("k"), DtypeError, r"bits was given a str as its key"),
    "None as a key": (lambda: random.split(None), DtypeError, r"split was given a NoneType as"),
    "signed words": (
        lambda: random.uniform(np.array([0, 1])),
        DtypeError,
        r"uniform was given i64\[2\] as its key, not uint32\[2\]",
    ),
    "several keys": (
        lambda: random.normal(KEYS, (2,)),
        ShapeError,
        r"normal takes one key, uint32\[2\], and was given u32\[3,2\].*\n.*\n.*ftrace.vmap",
    ),
    "several keys of multinomial": (
        lambda: random.multinomial(KEYS, 3, np.ones(2) / 2),
        ShapeError,
        r"multinomial takes one key",
    ),
    "three words": (lambda: random.fold_in(np.zeros(3, "u4"), 1), ShapeError, r"given u32\[3\]"),
    "a float seed": (lambda: random.PRNGKey(0.5), DtypeError, r"seed=.*which is no integer"),
    "a boolean seed": (lambda: random.PRNGKey(True), DtypeError, r"seed=bool.*is no integer"),
    "several seeds": (lambda: random.key(np.arange(3)), ShapeError, r"has axes.*\n.*\n.*vmap"),
    "a huge seed": (lambda: random.key(2**64), DtypeError, r"more than 64 bits.*\n.*\n.*2\*\*64"),
    "a small seed": (lambda: random.key(-(2**63) - 1), DtypeError, r"more than 64 bits"),
    "negative data": (lambda: random.fold_in(KEY, -1), DtypeError, r"data=-1, which is not in 0"),
    "large data": (lambda: random.fold_in(KEY, 2**32), DtypeError, r"not in 0 \.\. 2\*\*32 - 1"),
    "data with axes": (lambda: random.fold_in(KEY, np.arange(2)), ShapeError, r"data=i64\[2\]"),
    "float data": (lambda: random.fold_in(KEY, 1.5), DtypeError, r"data=.*which is no integer"),
    "words that are no keys": (
        lambda: random.wrap_key_data(np.zeros(3, np.uint32)),
        ShapeError,
        r"wrap_key_data was given u32\[3\]",
    ),
    "words that are as many as a key's": (
        lambda: random.key_data(np.zeros((2, 3), np.uint32)),
        ShapeError,
        r"key_data was given u32\[2,3\]",
    ),
    "keys with two axes": (
        lambda: random.normal(KEYS.reshape(3, 1, 2)),
        ShapeError,
        r"given u32\[3,1,2\].*\n.*\n.*ftrace.vmap",
    ),
    "data of no keys": (lambda: random.key_data(np.zeros(2)), DtypeError, r"given f64\[2\]"),
    # shapes
    "a float size": (
        lambda: random.normal(KEY, (2.0,)),
        DtypeError,
        r"normal was given shape=\(2\.0,\), which is no tuple of integers",
    ),
    "a negative size": (lambda: random.bits(KEY, (-1,)), ShapeError, r"a negative size"),
    "no count": (lambda: random.split(KEY, 2.5), DtypeError, r"split was given shape=2\.5"),
    "parameters that do not broadcast": (
        lambda: random.beta(KEY, np.ones(2), np.ones(3)),
        ShapeError,
        r"beta was given parameters of shapes \(2,\) and \(3,\), which do not broadcast",
    ),
    "a shape that is too small": (
        lambda: random.rayleigh(KEY, np.ones(3), (1,)),
        ShapeError,
        r"given shape=\(1,\) and parameters of shape \(3,\).*\n.*\n.*of the whole result",
    ),
    "a shape that does not fit": (
        lambda: random.gamma(KEY, np.ones(3), (3, 2)),
        ShapeError,
        r"given shape=\(3, 2\) and parameters of shape \(3,\)",
    ),
    # dtypes
    "integers of normal": (
        lambda: random.normal(KEY, (), int),
        DtypeError,
        r"normal was given dtype=int64, which is not a float or complex dtype",
    ),
    "signed bits": (lambda: random.bits(KEY, (), int), DtypeError, r"is not an unsigned dtype"),
    "floats of randint": (
        lambda: random.randint(KEY, (), 0, 2, float),
        DtypeError,
        r"dtype=float64, which is not an integer dtype",
    ),
    "unsigned signs": (
        lambda: random.rademacher(KEY, (), np.uint8),
        DtypeError,
        r"is not a signed, float or complex dtype",
    ),
    "complex exponentials": (
        lambda: random.exponential(KEY, (), complex),
        DtypeError,
        r"dtype=complex128, which is not a float dtype.*\n.*\n.*astype",
    ),
    "strings": (lambda: random.uniform(KEY, (), "U3"), DtypeError, r"cannot be traced"),
    # parameters
    "a complex parameter": (
        lambda: random.gamma(KEY, 1j),
        DtypeError,
        r"gamma was given a=.*which is not real",
    ),
    "a complex degree of freedom": (
        lambda: random.f(KEY, 1j, 2.0),
        DtypeError,
        r"random.f was given dfnum=.*which is not real",
    ),
    "float bounds": (
        lambda: random.randint(KEY, (2,), 0, 2.5),
        DtypeError,
        r"maxval=.*which is no integer.*\n.*\n.*astype",
    ),
    "an integer probability": (
        lambda: random.bernoulli(KEY, 1),
        DtypeError,
        r"p=.*which is no float.*\n.*\n.*between 0 and 1",
    ),
    "scalar logits": (lambda: random.categorical(KEY, 0.5), ShapeError, r"logits=.*\n.*\n.*axis"),
    "complex logits": (
        lambda: random.categorical(KEY, np.ones(2, complex)),
        ShapeError,
        r"logits=c128\[2\]",
    ),
    "too many categories": (
        lambda: random.categorical(KEY, np.zeros(3), shape=(4,), replace=False),
        ShapeError,
        r"asked for 4 of 3 categories",
    ),
    "a permuted scalar": (
        lambda: random.permutation(KEY, np.int64(3)),
        ShapeError,
        r"x=i64\[\], which has no axes",
    ),
    "a negative permutation": (lambda: random.permutation(KEY, -2), ShapeError, r"negative size"),
    "a choice from a scalar": (lambda: random.choice(KEY, np.float64(3)), ShapeError, r"no axes"),
    "a choice from nothing": (
        lambda: random.choice(KEY, 0, (2,)),
        ShapeError,
        r"asked for 2 of 0 members.*\n.*\n.*at least one",
    ),
    "too large a choice": (
        lambda: random.choice(KEY, 3, (2, 2), replace=False),
        ShapeError,
        r"asked for 4 of 3 members without replacement",
    ),
    "probabilities of others": (
        lambda: random.choice(KEY, 3, p=np.ones(2)),
        ShapeError,
        r"p=f64\[2\] for 3 members",
    ),
    "complex probabilities": (
        lambda: random.choice(KEY, 2, p=np.array([0.5, 0.5j])),
        ShapeError,
        r"p=c128\[2\] for 2 members",
    ),
    "a scalar alpha": (lambda: random.dirichlet(KEY, 1.0), ShapeError, r"alpha=.*has no axes"),
    "a scalar p": (lambda: random.multinomial(KEY, 3, 0.5), ShapeError, r"p=.*has no axes"),
    "trials that do not fit": (
        lambda: random.multinomial(KEY, np.ones(3), np.ones(2) / 2),
        ShapeError,
        r"multinomial was given shape=\(\) and parameters of shape \(3,\)",
    ),
    "a scalar mean": (
        lambda: random.multivariate_normal(KEY, 0.0, np.eye(1)),
        ShapeError,
        r"mean of shape \(\) and cov of shape \(1, 1\)",
    ),
    "a covariance of others": (
        lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(3)),
        ShapeError,
        r"end with \(n,\) and \(n, n\)",
    ),
    "several exponents": (lambda: random.ball(KEY, 3, np.ones(2)), ShapeError, r"p=f64\[2\]"),
    "negative rows": (lambda: random.orthogonal(KEY, -1), ShapeError, r"negative size"),
    "negative columns": (
        lambda: random.orthogonal(KEY, 2, m=-1),
        ShapeError,
        r"orthogonal was.*negative size",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_arguments_are_named(name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_wrong_arguments_are_named_while_tracing() -> None:
    with pytest.raises(ShapeError, match=r"takes one key.*given u32\[3,2\]"):
        ftrace.jit(lambda k: random.normal(k, (2,)))(KEYS)


def test_a_traced_size_is_refused_as_everywhere() -> None:
    with pytest.raises(TracerIntegerConversionError):
        ftrace.jit(lambda n: random.normal(KEY, (n,)))(3)


def test_traced_python_numbers_are_parameters_as_plain_ones_are() -> None:
    expected = random.randint(KEY, (20,), 0, 5)
    np.testing.assert_array_equal(
        ftrace.jit(lambda n: random.randint(KEY, (20,), 0, n))(5), expected
    )
    np.testing.assert_array_equal(
        ftrace.jit(lambda p: random.bernoulli(KEY, p, (20,)))(0.25),
        random.bernoulli(KEY, 0.25, (20,)),
    )


def test_results_are_the_callers_own() -> None:
    x = random.normal(KEY, (3,))
    expected = x.copy()
    x[:] = 0
    np.testing.assert_array_equal(random.normal(KEY, (3,)), expected)
    members = np.arange(5.0)
    for f in (random.permutation, random.choice):
        found = f(KEY, members[:1]) if f is random.permutation else f(KEY, members, (5,))
        assert not np.shares_memory(found, members)


def test_parameters_out_of_range_give_nan_or_the_documented_value() -> None:
    assert np.isnan(random.gamma(KEY, np.array([-1.0, np.nan]))).all()
    assert random.gamma(KEY, 0.0) == 0.0
    assert list(random.poisson(KEY, np.array([np.nan, 0.0]))) == [-1, 0]
    n, p = np.array([-1.0, 5.0, np.nan, np.inf]), np.array([0.5, 1.5, 0.5, 0.5])
    assert np.isnan(random.binomial(KEY, n, p)).all()
    assert list(random.binomial(KEY, 7, np.array([0.0, 1.0]))) == [0.0, 7.0]
    assert list(random.randint(KEY, (3,), 5, np.array([5, 3, 6]))) == [5, 5, 5]
    assert random.geometric(KEY, 0.2, (3,), np.uint8).dtype == np.uint8


def test_chances_of_zero_and_the_least_uniform_number_are_drawn_as_they_should() -> None:
    assert not random.bernoulli(KEY, np.float16(0), (10_000,)).any()
    least = random.normal(random.PRNGKey(13512), (1000,), np.float32).min()
    np.testing.assert_allclose(least, -5.42, atol=0.01)  # of the uniform number 0
    np.testing.assert_array_equal(random.key_data(KEYS), KEYS)


def test_bounds_beyond_the_dtype_mean_its_ends() -> None:
    small = random.randint(KEY, (2000,), -1000, 1000, np.int8)
    assert (small.min(), small.max()) == (-128, 127)
    wide = random.randint(KEY, (2000,), np.int64(-5), np.int64(2**40), np.uint8)
    assert (wide.min(), wide.max()) == (0, 255)
    assert random.randint(KEY, (), 2**70, 2**71, np.int32) == 2**31 - 1
    assert random.randint(KEY, (2000,), 0, 2**64, np.uint64).max() > 2**63
