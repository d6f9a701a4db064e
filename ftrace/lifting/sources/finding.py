"""Finding the syntax of a function, and compiling syntax as if it stood in the same place.

`find` gives the node of a function in the syntax of its file. The file is compiled, and only a
definition whose code is that of the running function counts: the file may have been edited since,
or may be another one of the same name. `compile_function` compiles a definition inside a frame of
free names (and of the class it stands in, for names like `__x`), so that the code reads the
original cells. Files are compiled once; line numbers are those of the file.
"""

import ast
import linecache
import sys
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ftrace.core.errors import LiftError
from ftrace.core.records import record
from ftrace.lifting.state.names import own_nodes

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_FLAGS: Final = 0x1FF0000  # the future statements among the flags of a code object


@record
class Source:
    """Where a function comes from.

    Attributes:
        node: its definition. Not to be changed: files are shared.
        owner: the class it is defined in, or None.
        filename: its file.
        flags: future statements.
        imported: the names that the module imports, whose methods are compiled differently.
    """

    node: Definition
    owner: str | None
    filename: str
    flags: int
    imported: tuple[str, ...]


@record
class _File:
    """The functions of a file, as syntax and as code."""

    lines: list[str]
    nodes: list[tuple[Definition, str | None]]  # with the class each is defined in
    codes: dict[str, list[types.CodeType]]  # by name
    imported: tuple[str, ...] = ()


_files: dict[tuple[str, int, bool], _File] = {}


def find(fn: types.FunctionType) -> Source | None:
    """The definition of a function, or None if there is no source, or only that of other code."""
    for _ in range(2):
        # pytest rewrites `assert` where it loads a file, not in functions that lifted code defines
        for asserting in (True, False) if "@pytest_ar" in fn.__globals__ else (False,):
            found = _find(_file(fn, asserting), fn.__code__)
            if found is not None:
                return found
        linecache.checkcache(fn.__code__.co_filename)  # edited, and loaded again
    return None


def _find(file: _File, code: types.CodeType) -> Source | None:
    same = [c for c in file.codes.get(code.co_name, ()) if _same(c, code)]
    same.sort(key=lambda c: c.co_firstlineno != code.co_firstlineno)
    for found in same:
        nodes = [pair for pair in file.nodes if _is_at(pair[0], found)]
        if len(nodes) > 1:
            nodes = _narrowest(nodes, found)
        if nodes:
            return Source(*nodes[0], code.co_filename, code.co_flags & _FLAGS, file.imported)
    return None


def missing(fn: types.FunctionType) -> tuple[str, str]:
    """For messages: why there is no syntax of a function, and what to do."""
    name, file = fn.__qualname__, fn.__code__.co_filename
    if not _file(fn).lines:
        return (
            f"The source of {name} cannot be read ({file})",
            "Put the function in a file or a notebook cell",
        )
    return (
        f"{file} does not hold the code of {name} that runs: it was edited since, or the code was "
        "made elsewhere",
        "Load the module again",
    )


def no_source(fn: types.FunctionType) -> LiftError:
    """The error for a function whose syntax is not known."""
    what, fix = missing(fn)
    return LiftError(
        f"{what}, so that its control flow cannot be lifted.",
        f"{fix}, or write ftrace.lax.cond and while_loop.",
    )


def _file(fn: types.FunctionType, asserting: bool = False) -> _File:
    """The file of a function, as it is now; `asserting`: with `assert` as pytest rewrites it."""
    name, flags = fn.__code__.co_filename, fn.__code__.co_flags & _FLAGS
    lines = linecache.getlines(name, fn.__globals__)
    found = _files.get((name, flags, asserting))
    if found is None or found.lines != lines:
        found = _files[name, flags, asserting] = _read(name, flags, lines, asserting)
    return found


def _read(name: str, flags: int, lines: list[str], asserting: bool) -> _File:
    text = "".join(lines)
    try:
        tree = _parsed(text)
        rewritten = _parsed(text)
        if asserting:
            rewriting = sys.modules["_pytest.assertion.rewrite"]
            rewriting.rewrite_asserts(rewritten, text.encode(), name, None)
        top = _compiled(rewritten, name, flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):  # no Python
        return _File(lines, [], {})
    codes: dict[str, list[types.CodeType]] = {}
    for code in _codes(top):
        codes.setdefault(code.co_name, []).append(code)
    own = [n for s in tree.body for n in own_nodes(s)]
    imports = [a for n in own if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names]
    names = (a.asname or a.name.partition(".")[0] for a in imports)
    imported = tuple(name for name in names if name != "*")
    return _File(lines, list(_walk(tree, None)), codes, imported)


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(text)


def _compiled(tree: ast.Module, name: str, flags: int) -> types.CodeType:
    """Compile what Python has compiled, and warned of, before."""
    with warnings.catch_warnings(action="ignore"):
        return compile(tree, name, "exec", flags, dont_inherit=True)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)


_PARTS: Final = (
    *("co_name", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable"),
)


def _same(a: Any, b: Any) -> bool:
    """Whether two constants, code objects among them, mean the same: on whatever lines."""
    if type(a) is not type(b):
        return False
    if isinstance(a, types.CodeType):
        parts = all(getattr(a, part) == getattr(b, part) for part in _PARTS)
        return parts and _same(a.co_consts, b.co_consts)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, frozenset):
        return set(map(repr, a)) == set(map(repr, b))
    return a == b if issubclass(type(a), int) else repr(a) == repr(b)  # -0.0 is not 0.0


def _walk(node: ast.AST, owner: str | None) -> Iterator[tuple[Definition, str | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child, owner
        yield from _walk(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _is_at(node: Definition, code: types.CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


def _narrowest(
    candidates: list[tuple[Definition, str | None]], code: types.CodeType
) -> list[tuple[Definition, str | None]]:
    """The innermost of several lambdas on one line that has all instructions of the code."""
    places = [
        (line, column)
        for line, _, column, _ in list(code.co_positions())[1:]
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    fitting: list[tuple[Definition, str | None]] = []
    for node, owner in candidates:
        if isinstance(node, ast.Lambda):
            first = (node.body.lineno, node.body.col_offset)
            last = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
            if places and all(first <= place < last for place in places):
                fitting.append((node, owner))
    return fitting[-1:]


def compile_function(node: ast.FunctionDef, free: Iterable[str], source: Source) -> types.CodeType:
    """The code of a definition in which these names are free."""
    inner: ast.stmt = node
    if source.owner is not None:
        # the name of the class counts for `__x` only, and must not hide the class itself
        inner = ast.ClassDef("__" + source.owner, [], [], [node], [])
    names = [ast.arg(name) for name in sorted(set(free))]
    frame = ast.FunctionDef("_ft_frame", _plain(names), [inner], [])
    for new in (inner, frame):
        ast.copy_location(new, node)
    imports: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in source.imported]
    module = ast.fix_missing_locations(ast.Module([*imports, frame], []))
    code = _compiled(module, source.filename, source.flags)
    for _ in range(2 if source.owner is None else 3):
        code = _last_code(code.co_consts)
    return code


def _plain(names: Sequence[ast.arg]) -> ast.arguments:
    return ast.arguments([], list(names), None, [], [], None, [])


def _last_code(consts: tuple[Any, ...]) -> types.CodeType:
    return next(c for c in reversed(consts) if isinstance(c, types.CodeType))
