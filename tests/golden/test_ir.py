"""The printed form of fifteen programs and of what each transformation makes of them.

The text is an interface: one equation a line, params sorted, names in order of appearance. Each
golden section is the jaxpr of the function, of its jvp, its linear part, its gradient (of the sum
of all results) and its batched form.
"""

import numpy as np
import pytest

import ftrace
from ftrace.core.check import check_jaxpr
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.pretty import to_text
from ftrace.core.tree import tree_flatten, tree_map
from tests.golden.files import HERE
from tests.golden.programs import PROGRAMS


def total(f):
    """The sum of a function's results: something to take the gradient of."""

    def summed(*args):
        return sum(np.sum(y) for y in tree_flatten(f(*args))[0])

    return summed


def stacked(args):
    return tree_map(lambda x: np.stack([x, x]), args)


FORMS = {
    "jaxpr": lambda f, args: ftrace.make_jaxpr(f)(*args),
    "jvp": lambda f, args: ftrace.make_jaxpr(lambda *a: ftrace.jvp(f, a, a))(*args),
    "linearize": lambda f, args: ftrace.make_jaxpr(ftrace.linearize(f, *args)[1])(*args),
    "grad": lambda f, args: ftrace.make_jaxpr(ftrace.grad(total(f)))(*args),
    "batch": lambda f, args: ftrace.make_jaxpr(ftrace.vmap(f))(*stacked(args)),
}
CASES = [(p, f) for p in PROGRAMS for f in FORMS]


@pytest.mark.parametrize(("program", "form"), CASES)
def test_a_program_prints_as_in_its_golden_section(program, form, golden):
    jaxpr = FORMS[form](*PROGRAMS[program])
    check_jaxpr(jaxpr)
    golden.check(f"ir/{program.replace(' ', '_')}.txt", form, str(jaxpr))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_printed_form_is_the_same_twice(program):
    f, args = PROGRAMS[program]
    for form in FORMS:
        assert str(FORMS[form](f, args)) == str(FORMS[form](f, args))


@pytest.mark.parametrize("program", PROGRAMS)
def test_evaluating_the_jaxpr_gives_the_functions_value(program):
    f, args = PROGRAMS[program]
    jaxpr = ftrace.make_jaxpr(f)(*args)
    with np.errstate(invalid="ignore"):  # the side of a where that is not taken
        outs = eval_jaxpr(jaxpr, tree_flatten(args)[0])
        expected = tree_flatten(f(*args))[0]
    for actual, value in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(actual, value)


def test_no_golden_file_is_out_of_date():
    files = {path.stem for path in (HERE / "ir").glob("*.txt")}
    assert files == {program.replace(" ", "_") for program in PROGRAMS}


def test_source_lines_are_appended_on_request():
    f, args = PROGRAMS["guarded"]
    text = to_text(ftrace.make_jaxpr(f)(*args), source=True)
    lines = [line for line in text.split("\n") if "#" in line]
    assert [line.split("  # ")[1].split(":")[0] for line in lines] == ["programs.py"] * len(lines)
    assert all(line.endswith("(guarded)") for line in lines)
    assert len(lines) == len(ftrace.make_jaxpr(f)(*args).eqns)
