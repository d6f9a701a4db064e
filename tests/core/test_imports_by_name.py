"""Imports by name, which no contract sees, point down as all imports do; exceptions are named."""

import ast
import tomllib
from pathlib import Path

import ftrace

ROOT = Path(ftrace.__file__).parent
# Who asks for something above it when it meets an object that only what is above can explain.
UPWARDS = {
    ("core/device.py", "ftrace.gpu.eager.cupy_arrays"): "the first array of a GPU",
    ("core/nodes.py", "ftrace.sparse.traced_data"): "the first sparse array among arguments",
    (
        "lifting/substitutes/scipy_names.py",
        "ftrace.implicit",
    ): "a call of SciPy's that is ours, too",
    (
        "lifting/substitutes/scipy_names.py",
        "ftrace.sparse",
    ): "the first sparse array in lifted code",
    ("lax/restarting.py", "ftrace.lifting.restart"): "the first eager call that has to start again",
}


def layers():
    """The number of each module's layer, 0 at the bottom."""
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    names = [layer.replace("(", "").replace(")", "") for layer in reversed(contract["layers"])]
    split = [layer.replace("|", ":").split(":") for layer in names]
    return {name.strip(): i for i, layer in enumerate(split) for name in layer}


def named(source):
    """The modules of ftrace that a text imports by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            name = function.id if isinstance(function, ast.Name) else function
            module = node.args[0].value
            if name in ("lazy", "import_module") and str(module).startswith("ftrace."):
                yield module


def upwards(path, source, order):
    """The modules above its own that a file imports by name."""
    own = order.get(path.split("/")[0].removesuffix(".py"))
    return [] if own is None else [m for m in named(source) if order[m.split(".")[1]] > own]


def test_what_is_found():
    order = layers()
    assert order["core"] == 0 < order["lowering"] < order["control"] < order["api"]
    assert upwards("core/x.py", 'f = lazy("ftrace.numpy.cells", "f")', order)
    assert upwards("gpu/x.py", 'm = importlib.import_module("ftrace.api.vmap")', order)
    assert not upwards("api/x.py", 'f = lazy("ftrace.lifting.lifted", "lift")', order)


def test_imports_by_name_point_down():
    order = layers()
    found = {
        (name, module)
        for path in ROOT.rglob("*.py")
        for name in [path.relative_to(ROOT).as_posix()]
        for module in upwards(name, path.read_text(), order)
    }
    assert found == set(UPWARDS)
