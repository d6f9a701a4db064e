"""Every mistake of `mistakes.py` raises its class with the message of its golden section (D1).

A message has three sentences: what, with the values and the argument's path; where, in the user's
file; what to do. The golden files are meant to be read.
"""

import pickle
import re
import traceback

import numpy as np
import pytest

import ftrace
from ftrace import errors
from ftrace.__main__ import main
from ftrace.core.config import config
from ftrace.core.trace import EVAL, ctx
from ftrace.interpreters import captures
from tests.golden.mistakes import MISTAKES
from tools import error_pages

PLACE = re.compile(r"\S*mistakes\.py:\d+")
LATER = {"FtraceError", "CallbackError", "BackendError", "DeviceMemoryError", "KernelError"}


def file_of(error: type[Exception]) -> str:
    return f"errors/{error.__name__}.txt"


def provoke(name: str) -> Exception:
    with pytest.raises(MISTAKES[name].error) as caught:
        MISTAKES[name].run()
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_raises_its_class_with_the_golden_message(name, golden):
    error = provoke(name)
    assert type(error) is MISTAKES[name].error
    golden.check(file_of(type(error)), name, PLACE.sub("<file>:<line>", str(error)))


@pytest.mark.parametrize("name", [n for n, m in MISTAKES.items() if m.error is not IndexError])
def test_a_message_says_what_where_and_what_to_do(name):
    error = provoke(name)
    assert isinstance(error, errors.FtraceError)
    what, where, fix = str(error).split("\n")
    assert what == error.what
    assert PLACE.search(where), where
    assert fix == error.fix
    assert fix[-1] == "."


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_leaves_nothing_behind(name):
    settings, floating = config.settings, np.geterr()
    provoke(name)
    assert ctx.trace is EVAL
    assert config.settings is settings
    assert np.geterr() == floating
    assert not captures._marks
    assert ftrace.grad(lambda x: np.sin(x) * x)(0.0) == 0.0


def test_every_class_that_can_be_raised_has_a_mistake():
    public = {c for c in vars(errors).values() if isinstance(c, type)} - {errors.FreshnessWarning}
    provoked = {m.error for m in MISTAKES.values()} - {IndexError}
    assert {c.__name__ for c in public - provoked} == LATER


@pytest.mark.parametrize("error", sorted({m.error for m in MISTAKES.values()}, key=str))
def test_no_golden_section_is_out_of_date(error, golden):
    asked = {name for name, m in MISTAKES.items() if m.error is error}
    if golden.update:
        sections = golden.sections(file_of(error))
        for name in sections.keys() - asked:
            del sections[name]
    assert golden.sections(file_of(error)).keys() == asked


def test_every_class_has_a_code_of_its_own_which_a_traceback_shows():
    codes = [kind.code for kind in error_pages.classes()]
    assert len(set(codes)) == len(codes) == 30
    error = provoke("a write to an argument")
    assert error.code == "FT1106"
    shown = "".join(traceback.format_exception(error)).splitlines()[-1]
    assert shown == "FT1106: `python -m ftrace explain FT1106` says more."
    assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__ == [shown]


def test_the_pages_of_errors_are_those_of_the_classes_and_the_golden_messages(golden):
    if not golden.update:
        assert error_pages.FILE.read_text(encoding="utf-8") == error_pages.page(), "make golden"


@pytest.mark.parametrize("asked", ["FT1201", "MatrixError"])
def test_the_command_line_explains_an_error(asked, capsys):
    assert main(["explain", asked]) == 0
    said = capsys.readouterr().out
    assert said.startswith("FT1201  MatrixError  An array of a shape that a function of matrices")
    assert "raises\n`numpy.linalg.LinAlgError` itself" in said


def test_the_command_line_names_all_errors_and_refuses_others(capsys):
    assert main(["explain"]) == 0
    names = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert names == [kind.__name__ for kind in error_pages.classes()]
    assert main(["explain", "FT9"]) == 1
    assert "FT9" in capsys.readouterr().out


def test_errors_are_kin_to_pythons():
    assert issubclass(errors.DtypeError, TypeError)
    assert issubclass(errors.ShapeError, ValueError)
    assert issubclass(errors.TreeError, ValueError)
    assert issubclass(errors.AxisError, (ValueError, IndexError))
    assert issubclass(errors.AxisError, IndexError)
    assert issubclass(errors.ConcretizationTypeError, TypeError)
    assert issubclass(errors.RuleError, NotImplementedError)
    assert issubclass(errors.CustomRuleError, TypeError)
    assert issubclass(errors.BackendError, RuntimeError)


def test_the_traceback_shows_only_the_users_frames_unless_all_are_asked_for():
    def depth() -> int:
        with pytest.raises(errors.ShapeError) as caught:
            ftrace.grad(lambda x: np.sin(x))(np.ones(3))
        return len(caught.traceback)

    with ftrace.config.update(traceback="user"):
        short = depth()
    with ftrace.config.update(traceback="full"):
        full = depth()
    assert short < full


def test_a_users_own_exception_passes_through_unchanged():
    class OwnError(Exception):
        pass

    def f(x):
        raise OwnError("own words")

    for transform in (ftrace.grad, ftrace.jit, ftrace.vmap, ftrace.checkpoint, ftrace.jacfwd):
        with pytest.raises(OwnError, match=r"^own words$"):
            transform(f)(np.ones(2))
        assert ctx.trace is EVAL
