"""Rows of users that are called as ftrace's are: nothing but the row itself says what it does."""

import dataclasses
import importlib
import pkgutil

import numpy as np
import pytest

import ftrace
import ftrace.control
from ftrace.core.primitive import Primitive
from ftrace.primitives import table
from ftrace.primitives.elementwise import cos, sin
from ftrace.primitives.shape import reshape

CONTROL = [
    importlib.import_module(f"ftrace.control.{m.name}")
    for m in pkgutil.iter_modules(ftrace.control.__path__)
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


def test_any_name_may_be_given_to_a_row():
    rows = [tripled(name) for name in OWN]

    def everything(x):
        for row in rows:
            x = row(x) - x * 2
        return x

    x = np.array([0.5, 2.0])
    for f in (everything, ftrace.jit(everything), ftrace.vmap(everything)):
        np.testing.assert_array_equal(f(x), x)


@pytest.mark.parametrize(
    "name",
    [
        "reshape",
        "cond",
        "while",
        "scan",
        "dot_general",
        "select",
        "mul",
        "add",
        "jit",
        "name",
        "eq",
    ],
)
def test_derivatives_and_analyses_do_not_go_by_names(name):
    row = tripled(name)

    def f(x):
        return (row(x) * x).sum()

    x = np.array([0.5, 2.0])
    np.testing.assert_array_equal(ftrace.jit(ftrace.grad(f))(x), 6 * x)
    np.testing.assert_array_equal(ftrace.grad(ftrace.checkpoint(f))(x), 6 * x)
    np.testing.assert_array_equal(ftrace.linear_transpose(row, x)(x)[0], 3 * x)
    assert not ftrace.check_differentiable(f, x).findings


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
