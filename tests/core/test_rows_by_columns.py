"""No file asks which primitive it has: it asks for a column, or for a way to compute it."""

import ast
from pathlib import Path

import ftrace

ROOT = Path(ftrace.__file__).parent
ALLOWED = {
    "control/rows/raising.py": "its own row, which it takes out and puts back",
    "control/rows/scan.py": "its own row, of which it makes one that keeps fewer states",
    "gpu/eager/cupy_arrays.py": "where operands of rows of ours are integers of the host",
    "gpu/eager/cupy_library.py": "a table of evaluations on CuPy arrays, one for each row of ours",
    "lowering/planning/pipeline.py": "the rows and passes that a user names",
}
SAME = "whether two equations have one and the same primitive"


def asks(node):
    """Whether an expression compares a primitive, or looks it up."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if sum(map(is_primitive, sides)) > 1:
            return False  # SAME
        others = [s for s in sides if not is_primitive(s)]
        nothing = all(isinstance(s, ast.Constant) and s.value is None for s in others)
        return any(map(is_primitive, sides)) and not nothing
    if isinstance(node, ast.Subscript):
        return is_primitive(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "get" and any(map(is_primitive, node.args))
    return False


def is_primitive(node):
    """`eqn.primitive`, its name, or a variable that stands for a primitive."""
    if isinstance(node, ast.Attribute) and node.attr == "name":
        return is_primitive(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr == "primitive"
    return isinstance(node, ast.Name) and node.id in ("primitive", "row", "prim")


def places(source):
    return [node.lineno for node in ast.walk(ast.parse(source)) if asks(node)]


def test_what_is_asked_for():
    assert places("x = eqn.primitive is scan_call") == [1]
    assert places("x = row.name == 'add'") == [1]
    assert places("x = TABLE.get(e.primitive.name)") == [1]
    assert places("x = TABLE[e.primitive]") == [1]
    assert places("x = e.primitive in VIEWS") == [1]
    assert not places("x = a.primitive is b.primitive")
    assert not places("x = row is None")
    assert not places("x = e.primitive.label is None")


def test_no_file_asks_which_primitive_it_is():
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        lines = places(path.read_text())
        if lines:
            found[name] = lines
    assert not found.keys() - ALLOWED.keys(), found
