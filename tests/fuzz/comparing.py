"""A program in plain Python: its values, and how they are compared with those of ftrace.

Read next: `slopes.py`, derivatives by differences, then `checking.py`.
"""

import copy
import functools
import importlib.util
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ftrace.errors import FtraceError
from ftrace.tree_util import tree_flatten, tree_leaves, tree_map
from tests.fuzz.modules import BORDER, PRELUDE, PRELUDE_OF_HELPERS

CALLS = 3
JOINED = (
    (np.dtype(np.float32), np.dtype(np.float64)),
    (np.dtype(np.complex64), np.dtype(np.complex128)),
)


class Skip(Exception):  # noqa: N818
    """The program says nothing here: it is not smooth, has no derivative, or fails in Python."""


class Mismatch(AssertionError):  # noqa: N818
    """Not what plain Python gives."""


@functools.lru_cache(8)
def compiled_once(part: str, path: str) -> Any:
    """The code of a module; what is traced is compiled anew each time, so that nothing is known."""
    return compile(part, path, "exec", dont_inherit=True)


def load(folder: Path, text: str, *, plain: bool = False) -> ModuleType:
    """A program as a fresh module, its helpers as another."""
    code = compiled_once if plain else compiled_once.__wrapped__
    main, _, helpers = text.partition(BORDER)
    texts = (("fuzz_helpers", PRELUDE_OF_HELPERS + helpers), ("fuzz_program", PRELUDE + main))
    for name, part in texts:
        path = folder / f"{name}.py"
        if not path.exists() or path.read_text(encoding="utf-8") != part:
            path.write_text(part, encoding="utf-8")
            linecache.checkcache(str(path))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(code(part, str(path)), module.__dict__)
    return module


def _itself(h: Any) -> Any:
    return h


def _fresh(x: Any) -> Any:
    return x.copy("K") if isinstance(x, np.ndarray) else x


def _renewing(h: Any) -> Any:
    """A function whose results share no memory with its arguments."""

    def renewed(*args: Any, **kwargs: Any) -> Any:
        return tree_map(_fresh, h(*args, **kwargs))

    return renewed


class Case:
    """A program and what plain Python makes of it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.text = folder, text
        self.tolerance = 5e-4 if "float32" in text else 1e-8
        module = self.plain()
        self.compiled = getattr(module, "COMPILE", False)
        self.checked = getattr(module, "CHECKED", False)
        self.expected: list[Any] = []
        for k in range(CALLS):
            module.change(k)
            args, kwargs = module.arguments(k)
            self.expected.append(copied(outcome_of(lambda: module.f(*args, **kwargs))))  # noqa: B023

    def plain(self) -> ModuleType:
        """The program for plain Python: what is wrapped gives new arrays, as when traced."""
        module = load(self.folder, self.text, plain=True)
        if getattr(module, "WRAP", _itself)(len) is not len:
            module.WRAP = _renewing
        return module

    def traced(self) -> ModuleType:
        """The program for transformations, before its first call."""
        module = load(self.folder, self.text)
        module.change(0)
        return module


@dataclass
class Raised:
    """An exception in the place of a value."""

    error: Exception


def outcome_of(call: Callable[[], Any]) -> Any:
    """A value, or the exception of the user's own code."""
    try:
        return call()
    except (FtraceError, RecursionError):
        raise
    except Exception as error:
        return Raised(error)


def copied(tree: Any) -> Any:
    """A copy that shares no memory."""
    return copy.deepcopy(tree)


# ---------------------------------------------------------------------------------- comparisons


def compare(actual: Any, expected: Any, tolerance: float = 1e-8, *, dtypes: bool = True) -> None:
    """Raise unless structures, shapes, dtypes (not of Python numbers) and values agree."""
    (a, atree), (e, etree) = tree_flatten(actual), tree_flatten(expected)
    if atree != etree:
        raise Mismatch(f"structure {atree}, not {etree}")
    for x, y in zip(a, e, strict=True):
        p, q = np.asarray(x), np.asarray(y)
        weak = type(y) in (int, float, complex) and p.dtype != bool
        if p.shape != q.shape:
            raise Mismatch(f"shape {p.shape}, not {q.shape}")
        joined = (q.dtype, p.dtype) in JOINED  # two arms of a decision have one
        if dtypes and p.dtype != q.dtype and not (weak or joined):
            raise Mismatch(f"dtype {p.dtype}, not {q.dtype}")
        if not np.allclose(p, q, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise Mismatch(f"value {show(p)}, not {show(q)}")


def show(x: Any) -> str:
    """An array in one short line."""
    return " ".join(np.array2string(np.asarray(x), precision=6, threshold=20).split())


def unshared(result: Any, arguments: Any) -> None:
    """Raise if results share memory with arguments or each other, or are read-only."""
    arrays = [x for x in tree_leaves(result) if isinstance(x, np.ndarray) and x.size]
    inputs = [x for x in tree_leaves(arguments) if isinstance(x, np.ndarray)]
    for i, x in enumerate(arrays):
        if any(np.shares_memory(x, other) for other in [*inputs, *arrays[:i]]):
            raise Mismatch("a result shares memory with an argument or another result")
        if not x.flags.writeable:
            raise Mismatch("a result is read-only")


def called(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A transformed call, whose arguments must stay as they are."""
    before = copied(args)
    result = f(*args, **kwargs)
    for x, y in zip(tree_leaves(args), tree_leaves(before), strict=True):
        if np.asarray(x).tobytes() != np.asarray(y).tobytes():
            raise Mismatch(f"an argument was written: {show(x)}, before {show(y)}")
    unshared(result, args)
    return result
