"""Guards: has the user rebound a name that a traced function read?

Arrays a function captured are read again at every call, so writing into them needs no guard.
Rebinding does: the closure cells and globals that the code (and the user's own functions it
calls) names, and the attribute and item paths it reads from them, are listed once, and one
generated expression of identity tests checks them at each call. Modules, functions and classes
are not guarded.
"""

import dis
import functools
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any

from ftrace.core import source
from ftrace.core.device import is_array
from ftrace.core.trace import Tracer

_UNGUARDED = (types.ModuleType, type, types.BuiltinFunctionType, types.FunctionType)
_MISSING = object()
_MAX_FUNCTIONS = 200
_LIBRARIES = (source.PACKAGE, *(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib")))
_ENDS = ("CACHE", "RESUME", "PRECALL", "PUSH_NULL", "NOP")

Path = tuple[tuple[str, Any], ...]  # ("attr", name) or ("item", key) steps

_TEMPLATE = """
def guard():
    try:
        return {tests}
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return False
"""


def make_guard(fun: Callable[..., Any]) -> Callable[[], bool] | None:
    """A function that tells whether every name `fun` read is still bound to the same object.

    Returns:
        None if there is nothing to guard.
    """
    tests: list[str] = []
    scope: dict[str, Any] = {}
    for i, (holder, key, path) in enumerate(_reads(fun)):
        base = _fetch(holder, key)
        if base is _MISSING or isinstance(base, Tracer):
            continue
        path, value = _stable(base, path)
        if _is_code(value):
            continue
        scope[f"h{i}"], scope[f"v{i}"] = holder, value
        text = f"h{i}.cell_contents" if isinstance(holder, types.CellType) else f"h{i}[{key!r}]"
        tests.append(f"{text}{_text(path)} is v{i}")
    if not tests:
        return None
    exec(compile(_TEMPLATE.format(tests=" and ".join(tests)), "<ftrace guard>", "exec"), scope)
    return scope["guard"]


def _text(path: Path) -> str:
    return "".join(f".{step}" if kind == "attr" else f"[{step!r}]" for kind, step in path)


def captured_arrays(fun: Callable[..., Any]) -> dict[str, Any]:
    """The arrays that the function and its callees name, or its object has, by their names."""
    found: dict[str, Any] = {}
    if isinstance(fun, types.MethodType):
        mine = getattr(fun.__self__, "__dict__", {})
        found = {f"self.{name}": value for name, value in mine.items()}
    for holder, key, path in _reads(fun):
        base = _fetch(holder, key)
        if base is not _MISSING:
            path, value = _stable(base, path)
            found[key + _text(path)] = value
    return {name: value for name, value in found.items() if is_array(value)}


def _is_code(value: Any) -> bool:
    """Modules, functions and classes, which are not guarded."""
    if isinstance(value, _UNGUARDED):
        return True
    return callable(value) and type(value).__module__.partition(".")[0] in ("numpy", "ftrace")


def _fetch(holder: Any, key: Any) -> Any:
    if isinstance(holder, types.CellType):
        try:
            return holder.cell_contents
        except ValueError:  # a cell that is not filled yet
            return _MISSING
    return holder.get(key, _MISSING)


def _stable(base: Any, path: Path) -> tuple[Path, Any]:
    """The longest part of a path that gives one object, and it (`w.T` is new each time)."""
    while path:
        first, second = _walk(base, path), _walk(base, path)
        if first is second and first is not _MISSING:
            return path, first
        path = path[:-1]
    return path, base


def _walk(value: Any, path: Path) -> Any:
    for kind, key in path:
        try:
            value = getattr(value, key) if kind == "attr" else value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            return _MISSING
    return value


def _reads(fun: Callable[..., Any]) -> Iterator[tuple[Any, Any, Path]]:
    """(cell or globals, name, path) of everything the function and its callees read."""
    seen: set[Any] = set()
    queue = [fun]
    found: set[Any] = set()
    while queue and len(seen) < _MAX_FUNCTIONS:
        f = queue.pop()
        layer = getattr(f, "__ftrace__", None)
        if layer is not None:
            queue.append(layer[0])
            continue
        if isinstance(f, functools.partial):
            queue.append(f.func)
            continue
        if isinstance(f, types.MethodType):
            f = f.__func__
        if not isinstance(f, types.FunctionType) or f in seen or _is_library(f):
            continue
        seen.add(f)
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        for name, path in _named_paths(f.__code__):
            holder: Any = cells.get(name, f.__globals__)
            key = (id(holder), name, path)
            if key in found:
                continue
            found.add(key)
            yield holder, name, path
            value = _fetch(holder, name)
            if callable(value):
                queue.append(value)


def _is_library(f: types.FunctionType) -> bool:
    """Whether a function belongs to ftrace or to an installed package."""
    name = f.__code__.co_filename
    return name.startswith(_LIBRARIES) or name.startswith("<f")


def _named_paths(code: types.CodeType) -> Iterator[tuple[str, Path]]:  # noqa: C901, PLR0912 - one scan
    """Names the code loads from outside, each with the longest attribute/item path it reads."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _named_paths(const)
    name: str | None = None
    path: list[tuple[str, Any]] = []
    item: Any = _MISSING
    for op in dis.get_instructions(code):
        if op.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME"):
            if name is not None:
                yield name, tuple(path)
            name, path, item = op.argval, [], _MISSING
        elif name is None or op.opname in _ENDS:
            continue
        elif op.opname == "LOAD_ATTR":
            path.append(("attr", op.argval))
        elif op.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and item is _MISSING:
            item = op.argval
        elif _is_subscript(op) and isinstance(item, str | int):
            path.append(("item", item))
            item = _MISSING
        else:
            yield name, tuple(path)
            name = None
    if name is not None:
        yield name, tuple(path)


def _is_subscript(op: dis.Instruction) -> bool:
    return op.opname == "BINARY_SUBSCR" or op.argrepr == "[]"
