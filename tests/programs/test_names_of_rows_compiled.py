"""Rows of users that are called as ftrace's are: nothing but the row itself says what it does."""

import dataclasses
import importlib
import pkgutil

import numpy as np
import pytest

import ftrace
import ftrace.control
import ftrace.lowering
from ftrace.core.primitive import Primitive
from ftrace.primitives import table
from ftrace.primitives.elementwise import cos, sin
from ftrace.primitives.shape import reshape
from tests.programs.users_rows import KINDS, TRANSFORMED, Chain, X, tripled

CONTROL = [
    importlib.import_module(m.name)
    for package in (ftrace.control, ftrace.lowering)
    for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
OWN = table.by_name | {
    v.name: v for m in CONTROL for v in vars(m).values() if isinstance(v, Primitive)
}


def test_rows_of_ftrace_are_its_own_and_others_are_not():
    assert len(OWN) > 140
    assert all(row.own for row in OWN.values())
    assert not tripled("reshape").own
    assert not dataclasses.replace(sin, name="cos").own


LONG = ("library", "elementwise")  # chains of all names; others, which cost more, of control's
NAMES = {kind: [n for n in OWN if kind in LONG or n not in table.by_name] for kind in KINDS}
CHAINS = {kind: Chain([KINDS[kind](name) for name in names]) for kind, names in NAMES.items()}


@pytest.mark.sampled(2, each="name")
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_no_transformation_goes_by_names(name, kind, compiled):
    made, expected = TRANSFORMED[name]
    f = made(CHAINS[kind])
    np.testing.assert_array_equal((ftrace.jit(f) if compiled else f)(X), expected(X))


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in LONG])
def test_no_name_tells_how_a_row_that_holds_jaxprs_is_compiled(kind):
    chain = Chain([KINDS[kind](name) for name in table.by_name])
    np.testing.assert_array_equal(ftrace.jit(ftrace.grad(chain.squared))(X), 2 * X)


@pytest.mark.parametrize("kind", KINDS)
def test_no_analysis_goes_by_names(kind):
    f = CHAINS[kind].summed
    assert not ftrace.check_differentiable(f, X).findings
    assert not ftrace.debug.blame(f, X)
    kept = ftrace.saved_residuals(f, X)
    assert {k.kind for k in kept} <= {"intermediate"}  # a value of a row called "name" has none


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
