"""No file asks which primitive it has: it asks for a column, or for a way to compute it."""

import ast
from pathlib import Path

import ftrace

ROOT = Path(ftrace.__file__).parent
ALLOWED = {
    "control/rows/raising.py": "its own row, which it takes out and puts back",
    "control/rows/repeats_as_scans.py": "the loops of a pass, which it replaces",
    "control/rows/scan.py": "its own row, of which it makes one that keeps fewer states",
    "gpu/eager/cupy_arrays.py": "where operands of rows of ours are integers of the host",
    "gpu/eager/cupy_library.py": "a table of evaluations on CuPy arrays, one for each row of ours",
    "primitives/index.py": "its own row, of which it says what an equation reads",
    "lowering/planning/pipeline.py": "the rows and passes that a user names",
}


def asks(node):
    """Whether an expression compares a primitive, or looks it up."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if sum(map(is_primitive, sides)) > 1:
            return False  # whether two equations have one
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


# What goes over the equations of a jaxpr, and what for. Whoever needs another traversal asks first
# whether one of these answers the question.
TRAVERSALS = {
    "evaluation, staging and transformation": {
        "core/jaxpr.py", "interpreters/linearize.py", "interpreters/staging.py",
        "api/compiled/vectorize.py",
    },
    "whether there is a loop": {"core/kinds.py"},
    "fusion": {
        "lowering/fusion/fuse.py", "lowering/fusion/inline.py",
        "lowering/loops/interchange.py", "lowering/loops/small_loops.py",
    },
    "facts that flow forwards": {
        "interpreters/abstract.py", "control/remat/peak_memory.py",
        "control/rows/while_loop.py", "lifting/state/sharing.py", "numpy/provenance.py",
    },
    "what the backward pass keeps": {
        "control/remat/budgets.py", "control/remat/checkpoint.py", "control/remat/saving.py",
        "control/remat/mincut.py",
    },
    "taking equations out": {
        "interpreters/invariants.py", "interpreters/induction.py",
        "control/rows/gating.py", "control/rows/raising.py", "lifting/staging/merging.py",
        "lowering/planning/pipeline.py", "lowering/planning/refusals.py",
    },
    "where few numbers are live, what may run on random numbers": {
        "api/modes/chain_products.py", "api/derivatives/measured_chunks.py",
    },
    "repeats": {
        "lowering/rolling/listing.py", "lowering/rolling/literals.py",
        "control/rows/repeats_as_scans.py",
    },
    "sums of scatters": {"lowering/fusion/accumulation.py"},
    "what arms touch, how long a program is": {
        "control/forms/narrow_arms.py", "control/rows/jit.py",
    },
    "batch elements apart": {
        "lowering/loops/batch_axes.py", "lowering/loops/loop_blocks.py",
        "lowering/loops/loop_regions.py",
    },
    "systems with one matrix": {"lowering/fusion/shared_systems.py"},
    "copies that are not made": {"lowering/memory/assembly.py"},
    "printing, checking, telling where a value was made": {
        "core/check.py", "core/pretty.py", "interpreters/noting.py", "api/looking/residuals.py",
    },
}  # fmt: skip


def goes_over(source):
    """Whether some loop or comprehension runs over equations."""
    loops = (
        node.iter
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.For | ast.comprehension)
    )
    return any(
        isinstance(n, ast.Attribute) and n.attr == "eqns" for loop in loops for n in ast.walk(loop)
    )


def test_traversals_of_equations_are_these():
    assert goes_over("for e in jaxpr.eqns: pass")
    assert goes_over("x = [e for i, e in enumerate(jaxpr.eqns)]")
    assert not goes_over("n = len(jaxpr.eqns)")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if goes_over(path.read_text())
    }
    assert found == set().union(*TRAVERSALS.values())
