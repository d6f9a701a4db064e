"""ftrace asks values for their real type: `isinstance` answers for what a tracer stands for."""

import ast
import importlib
import pathlib
from typing import Any

import numpy as np

import ftrace
from ftrace.core.trace import Tracer

ROOT = pathlib.Path(ftrace.__file__).parent
ANSWERS = (np.ndarray, np.bool_, np.int64, np.float32, np.complex128, bool, int, float, complex)


def is_misled(kinds: Any) -> bool:
    """Whether a tracer is one of these classes by what it says, but not by its type."""
    return not issubclass(Tracer, kinds) and any(issubclass(c, kinds) for c in ANSWERS)


def questions(source: str, namespace: dict[str, Any]) -> list[int]:
    """Lines that ask `isinstance(x, T)` where a tracer's type and its answer differ."""
    found = []
    for node in ast.walk(ast.parse(source)):
        kinds: Any = None
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            kinds = node.args[1]
        elif isinstance(node, ast.MatchClass):
            kinds = node.cls
        if kinds is None:
            continue
        try:
            if is_misled(eval(ast.unparse(kinds), namespace)):
                found.append(node.lineno)
        except NameError:  # a variable: it may hold any class
            found.append(node.lineno)
    return found


def test_no_question_of_ours_takes_a_tracer_for_what_it_stands_for():
    wrong = []
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        if "isinstance(" in source or "match " in source:
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
            wrong += [f"{path}:{line}" for line in questions(source, vars(module))]
    assert not wrong, "write issubclass(type(x), T) at\n" + "\n".join(wrong)


def test_the_check_sees_classes_constants_variables_and_patterns():
    space = {"np": np, "KINDS": (str, np.generic), "Tracer": Tracer}
    text = """
isinstance(x, np.ndarray)
isinstance(x, str | KINDS[1])
isinstance(x, KINDS)
isinstance(x, kinds)
match x:
    case float(): pass
isinstance(x, Tracer)
isinstance(x, (str, list, np.ufunc))
issubclass(type(x), np.ndarray)
"""
    assert sorted(questions(text, space)) == [2, 3, 4, 5, 7]
