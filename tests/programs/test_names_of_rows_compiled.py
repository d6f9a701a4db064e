"""Rows of users that are called as ftrace's are: nothing but the row itself says what it does."""

import dataclasses
import importlib
import pkgutil

import numpy as np
import pytest

import ftrace
import ftrace.control
import ftrace.lowering
from ftrace import lax
from ftrace.core.primitive import Primitive
from ftrace.primitives import table
from ftrace.primitives.elementwise import cos, sin
from ftrace.primitives.shape import reshape

CONTROL = [
    importlib.import_module(m.name)
    for package in (ftrace.control, ftrace.lowering)
    for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
OWN = table.by_name | {
    v.name: v for m in CONTROL for v in vars(m).values() if isinstance(v, Primitive)
}


def tripled(name, lower=None):
    """Three times x, under a name."""
    row = ftrace.Primitive(
        name=name,
        impl=lambda x: 3 * x,
        type=lambda x: x,
        jvp="linear",
        transpose=lambda ct, x: (row(ct),),
        batch=lambda axis, values, dims: (row(*values), dims[0]),
        lower=lower,
        doc="Three times x.",
    )
    return row


def test_rows_of_ftrace_are_its_own_and_others_are_not():
    assert len(OWN) > 140
    assert all(row.own for row in OWN.values())
    assert not tripled("reshape").own
    assert not dataclasses.replace(sin, name="cos").own


X = np.array([0.5, 2.0])
ROWS = [tripled(name) for name in OWN]


def summed(x):
    """x + x, by the way of every row."""
    for row in ROWS:
        x = row(x) - x * 2
    return x + x


def squared(x):
    """The sum of x ** 2, of which every row has a part in the derivative."""
    for row in ROWS:
        x = row(x) - x * 2
    return (x * x).sum()


def looped(x):
    return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, summed(c[1])), (0, x))[1]


@ftrace.custom_vjp
def ruled(x):
    return summed(x)


ruled.defvjp(lambda x: (summed(x), None), lambda _, ct: (summed(ct),))

everything = ftrace.checkpoint(summed, policy=ftrace.checkpoint_policies.everything_saveable)
TRANSFORMED = {
    "nothing": (summed, 2 * X),
    "jvp": (lambda x: ftrace.jvp(summed, (x,), (x,))[1], 2 * X),
    "linearize": (lambda x: ftrace.linearize(summed, x)[1](x), 2 * X),
    "vjp": (lambda x: ftrace.vjp(summed, x)[1](x)[0], 2 * X),
    "linear_transpose": (lambda x: ftrace.linear_transpose(summed, x)(x)[0], 2 * X),
    "grad": (ftrace.grad(squared), 2 * X),
    "hessian": (ftrace.hessian(squared), 2 * np.eye(2)),
    "jet": (lambda x: ftrace.jet(squared, (x,), ((x, x),))[1][1], 2 * (X @ X + X @ X)),
    "vmap": (ftrace.vmap(summed), 2 * X),
    "grad of vmap": (ftrace.grad(lambda x: ftrace.vmap(squared)(x[None]).sum()), 2 * X),
    "checkpoint": (ftrace.grad(lambda x: ftrace.checkpoint(squared)(x)), 2 * X),
    "policy": (ftrace.grad(lambda x: everything(x).sum()), np.full(2, 2.0)),
    "scan": (lambda x: lax.scan(lambda c, _: (summed(c), None), x, None, length=2)[0], 4 * X),
    "grad of scan": (
        ftrace.grad(lambda x: lax.scan(lambda c, _: (summed(c), None), x, None, length=2)[0].sum()),
        np.full(2, 4.0),
    ),
    "while": (looped, 4 * X),
    "jvp of while": (lambda x: ftrace.jvp(looped, (x,), (x,))[1], 4 * X),
    "cond": (lambda x: lax.cond(x[0] > 0, summed, lambda x: x, x), 2 * X),
    "rule": (ftrace.grad(lambda x: ruled(x).sum()), np.full(2, 2.0)),
    "rule forwards": (lambda x: ftrace.jvp(ruled, (x,), (x,))[1], 2 * X),
    "vectorize": (ftrace.vectorize(summed), 2 * X),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_no_transformation_goes_by_names(name, compiled):
    f, expected = TRANSFORMED[name]
    np.testing.assert_array_equal((ftrace.jit(f) if compiled else f)(X), expected)


def test_no_analysis_goes_by_names():
    assert not ftrace.check_differentiable(squared, X).findings
    assert not ftrace.debug.blame(squared, X)
    (kept,) = ftrace.saved_residuals(squared, X)
    assert kept.kind == "intermediate"  # a value of a row called "name" has none


def test_a_changed_copy_of_a_row_of_ftrace_does_what_its_columns_say():
    doubled = dataclasses.replace(sin, impl=lambda x: 2 * x)
    renamed = dataclasses.replace(sin, name="cos")
    other = dataclasses.replace(reshape, impl=lambda x, new_sizes: np.reshape(2 * x, new_sizes))
    x = np.array([0.5, 2.0])

    def f(x):
        return doubled(x), renamed(x), other(x, new_sizes=(2, 1))

    for found in (f(x), ftrace.jit(f)(x)):
        np.testing.assert_array_equal(found[0], 2 * x)
        np.testing.assert_allclose(found[1], np.sin(x), rtol=1e-15)
        np.testing.assert_array_equal(found[2], 2 * x[:, None])
    assert renamed.lower is sin.lower
    own = tripled("sin", cos.lower)
    assert own.lower is None
