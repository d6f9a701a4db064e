"""What is lifted is the code that runs: never other code that stands where it should stand."""

import functools
import importlib
import linecache
import math
import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import LiftError
from ftrace.lifting.sources import finding

BODY = "    if x > 0:\n        return x * 2\n    return -x\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes, or rewrites, the file of a module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "module_of_mine.py"
    clock = iter(range(1, 100))

    def write(text):
        path.write_text(textwrap.dedent(text))
        os.utime(path, (0, next(clock)))  # edits within one tick of the clock are seen
        importlib.invalidate_caches()

    yield write
    sys.modules.pop("module_of_mine", None)


def load():
    import module_of_mine  # pyright: ignore[reportMissingImports]

    return module_of_mine


EDITS = {
    "operator": ("x * 2", "x + 2"),
    "constant": ("x * 2", "x * 3"),
    "zero": ("-x\n", "-x * 0.0\n"),
    "argument": ("f(x)", "f(x, y=1)"),
    "default": ("x * 2", "(lambda a=2.0: a)() * x"),
    "name": ("x * 2", "abs(x)"),
    "handler": ("return -x", "try:\n        return -x\n    except ValueError:\n        pass"),
}


@pytest.mark.parametrize(("old", "new"), EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("transform", [ftrace.jit, ftrace.vmap])
def test_an_edited_file_is_not_run(module, old, new, transform):
    module("def f(x):\n" + BODY)
    f = load().f
    module("def f(x):\n" + BODY.replace(old, new) if old != "f(x)" else f"def {new}:\n" + BODY)
    xs = np.array([1.5, -2.0])
    got = transform(f)(xs) if transform is ftrace.vmap else [transform(f)(x) for x in xs]
    np.testing.assert_array_equal(got, [3.0, 2.0])


def test_numbers_that_are_equal_are_not_the_same():
    assert not finding._same((0, 1.0), (0.0, 1.0))
    assert not finding._same(0.0, -0.0)
    assert not finding._same((1, True), (1, 1))
    assert not finding._same((1,), (1, 2))
    assert not finding._same(10**5000, 10**5000 + 1)
    assert finding._same(float("nan"), float("nan"))
    assert finding._same(frozenset("abc"), frozenset("cba"))
    assert not finding._same(frozenset("abc"), frozenset("abd"))


def test_a_loop_of_an_edited_file_says_why():
    scope = {}
    text = "def test_a_loop_of_an_edited_file_says_why(x):\n    while x > 1:\n        x = x / 2\n"
    exec(compile(text + "    return x", __file__, "exec"), scope)
    f = scope["test_a_loop_of_an_edited_file_says_why"]
    with pytest.raises(LiftError, match="does not hold the code") as e:
        ftrace.jit(f)(8.0)
    assert "6 times" in e.value.what
    assert "Load the module again" in e.value.fix
    with pytest.raises(LiftError, match="does not hold the code"):
        ftrace.lift(f).source  # noqa: B018


def test_lines_put_in_above_do_not_matter(module):
    module("def f(x):\n" + BODY)
    f = load().f
    module(
        "import os.path\nfrom math import *\n\n\ndef g(x):\n    return x\n\n\ndef f(x):\n" + BODY
    )
    assert [ftrace.jit(f)(x) for x in (1.5, -2.0)] == [3.0, 2.0]
    assert "undecided" in ftrace.lift(f).source


def test_a_module_that_is_loaded_again(module):
    loop = "def f(x):\n    while x > 1:\n        x = x {}\n    return x\n"
    module(loop.format("/ 2"))
    first = load()
    assert ftrace.jit(first.f)(8.0) == 1.0
    linecache.getlines(first.__file__)
    module(loop.format("- 3"))
    assert ftrace.jit(importlib.reload(first).f)(8.0) == -1.0


def test_code_compiled_under_the_name_of_a_file(module):
    module("def f(x):\n" + BODY)
    path = load().__file__
    scope = {}
    exec(compile("def f(x):\n" + BODY.replace("* 2", "* 5"), path, "exec"), scope)
    assert ftrace.jit(scope["f"])(1.5) == 7.5


def test_a_file_that_is_no_python_has_no_functions(tmp_path):
    path = tmp_path / "calc.txt"
    path.write_text("def f(x: this is\n")
    scope = {}
    exec(compile("def f(x):\n" + BODY, str(path), "exec"), scope)
    assert ftrace.jit(scope["f"])(1.5) == 3.0


# ---------------------------------------------------------------------------------- what is found

pair = (lambda x: x if x > 0 else 0 * x), (lambda x: x if x < 0 else 0 * x)
inner = lambda: lambda x: x if x > 1 else 1.0  # noqa: E731
twins = (lambda x: x if x > 2 else 2.0), (lambda x: x if x > 2 else 2.0)


def kept(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


class Kept:
    __scale = 2.0

    @property
    def doubled(self):
        return lambda x: x * self.__scale if x > 0 else x

    def __init__(self):
        super().__init__()

    @kept
    def decorated(self, x, *rest, flag=frozenset({"a", "b"}), **options):
        assert isinstance(flag, frozenset)
        return x if x > 0 and "a" in {"a", "b", "c"} else -x

    def own_class(self, x):
        return Kept.__scale * x if x > 0 else x

    async def awaited(self, x):
        return x

    def yielded(self, xs):
        yield from (x**2 for x in xs if [y + 1 for y in xs])


def documented(x):
    """With a docstring."""
    assert x is not None, "pytest rewrites this"
    return x if x > 0 else -x


FOUND = {
    "first of two": (pair[0], 1.5),
    "second of two": (pair[1], 0.0),
    "nested": (inner(), 1.5),
    "first twin": (twins[0], 2.0),
    "second twin": (twins[1], 2.0),
    "private": (Kept().doubled, 3.0),
    "decorated": (Kept().decorated, 1.5),
    "own class": (Kept().own_class, 3.0),
    "asserting": (documented, 1.5),
}


@pytest.mark.parametrize(("f", "value"), FOUND.values(), ids=FOUND)
def test_the_source_of_a_function_is_found(f, value):
    assert "undecided" in ftrace.lift(f).source
    assert ftrace.jit(f)(1.5) == value


def test_every_function_of_the_standard_library_is_its_source():
    import argparse
    import asyncio.base_events
    import statistics
    import typing

    seen = 0
    for m in (argparse, asyncio.base_events, statistics, typing, np.lib._function_base_impl):
        for x in list(vars(m).values()):
            for f in [x, *(vars(x).values() if isinstance(x, type) else ())]:
                if type(f) is type(kept) and f.__code__.co_filename == m.__file__:
                    seen += 1
                    assert finding.find(f) is not None, f
    assert seen > 300


def test_functions_that_lifted_code_defines_are_found():
    def f(x):
        def root(v):
            assert v is not None
            return math.sqrt(v) if v > 0 else 0.0 * v

        return root(x) + (lambda v: math.sin(v) if v > 0 else v)(x)

    assert ftrace.jit(f)(4.0) == 2.0 + math.sin(4.0)
    assert ftrace.jit(f)(-1.0) == -1.0


def test_functions_that_yield_and_await_are_found():
    assert finding.find(Kept.awaited).node.name == "awaited"
    assert finding.find(Kept.yielded).node.name == "yielded"
    assert finding.find(Kept.__init__).owner == "Kept"


def test_warnings_of_the_compiler_are_not_given_again(module):
    module("def f(x):\n    s = '\\d' is not 3\n" + BODY)
    with warnings.catch_warnings(action="ignore"):
        f = load().f
    assert "undecided" in ftrace.lift(f).source


def test_without_columns_lambdas_of_one_line_are_told_apart_or_refused(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import ftrace\n"
        "pair = (lambda x: x if x > 0 else 3 * x), (lambda x: x if x < 0 else 5 * x)\n"
        "print(*(float(ftrace.jit(f)(x)) for f in pair for x in (1.0, -1.0)))\n"
    )
    out = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", path], capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == ["1.0", "-3.0", "5.0", "-1.0"]


def _scaled(x, s=2.0, *, t=1.0):
    if x > 0:
        return x * s * t
    return x


def _by_ten(x, s=2.0, *, t=1.0):
    if x > 0:
        return x * s * t * 10
    return x


def _first(f):
    return lambda x: f(np.array([x, -x]))[0]


@pytest.mark.parametrize(
    "way",
    [
        ftrace.jit,
        ftrace.lift,
        ftrace.vectorize,
        lambda f: _first(ftrace.vmap(f)),
        lambda f: _first(ftrace.jit(ftrace.vmap(f))),
        lambda f: lambda x: x * ftrace.grad(ftrace.jit(f))(x),
        lambda f: lambda x: x * ftrace.jit(ftrace.grad(f))(x),
    ],
)
def test_defaults_and_code_of_a_lifted_helper_are_those_of_the_call(way):
    def outer(x):
        return _scaled(x) + x

    f, code = way(outer), _scaled.__code__
    try:
        for name, value in (
            ("__name__", "_scaled"),
            ("__defaults__", (3.0,)),
            ("__kwdefaults__", {"t": 5.0}),
            ("__kwdefaults__", {"t": 7.0}),
            ("__code__", _by_ten.__code__),
        ):
            setattr(_scaled, name, value)
            assert f(1.5) == outer(1.5), (name, value)
        _scaled.__kwdefaults__["t"] = 0.5
        assert f(1.5) == outer(1.5)
    finally:
        _scaled.__code__, _scaled.__defaults__ = code, (2.0,)
        _scaled.__kwdefaults__ = {"t": 1.0}
