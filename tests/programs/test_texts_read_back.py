"""Texts of values that are differentiated, read back as numbers: refused by every reader."""

import ast
import fractions
import json
from decimal import Decimal

import pytest

from ftrace import grad, jacfwd, jvp
from ftrace.errors import ConcretizationTypeError


def _through_a_helper(x):
    return _read(f"{x:.6f}") * x


def _read(text):
    return float(Decimal(text))


UNASKED = {
    "complex": lambda x: complex(str(x)).real * x,
    "a decimal": lambda x: float(Decimal(str(x))) * x,
    "a fraction": lambda x: float(fractions.Fraction(f"{x}")) * x,
    "a literal": lambda x: ast.literal_eval(format(x, ".3f")) * x,
    "JSON": lambda x: json.loads("%s" % x) * x,  # noqa: UP031
    "a helper": _through_a_helper,
}


@pytest.mark.parametrize("f", UNASKED.values(), ids=UNASKED)
def test_readers_of_numbers_that_ask_no_text_are_asked_for_it(f):
    assert f(1.25) == 1.5625
    for derivative in (grad(f), jacfwd(f), lambda x: jvp(f, (x,), (1.0,))):
        with pytest.raises(ConcretizationTypeError, match="the text of a value that is being"):
            derivative(1.25)


CHANGED_TEXTS = {
    "added": lambda x: float(str(x) + "0") * x,
    "added to": lambda x: float("0" + str(x)) * x,
    "cut": lambda x: float(str(x)[:4]) * x,
    "stripped": lambda x: float(f" {x} ".strip() if x < 0 else str(x).strip()) * x,
    "split": lambda x: float(str(x).split(";")[0]) * x,
    "written into another": lambda x: float("%s0" % str(x)) * x,  # noqa: UP031
}


@pytest.mark.parametrize("f", CHANGED_TEXTS.values(), ids=CHANGED_TEXTS)
def test_what_is_made_of_a_text_is_one_of_the_same_value(f):
    assert f(1.25) == 1.5625
    with pytest.raises(ConcretizationTypeError, match="the text of a value that is being"):
        grad(f)(1.25)


def test_texts_of_values_that_are_not_differentiated_are_read():
    def f(x, k):
        return complex(str(k)).real * x + float(Decimal(f"{k}"))

    assert grad(f)(2.0, 3) == 3.0
