"""Finding the syntax of a function, and compiling syntax as if it stood in the same place.

`find` gives the node of a function in the syntax of its file: by name and line, a lambda by the
columns of its instructions. `compile_function` compiles a definition inside a frame of free
names (and of the class it stands in, for names like `__x`), so that the code reads the original
cells. Files are parsed once; line numbers stay those of the file.
"""

import ast
import linecache
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ftrace.core.errors import LiftError

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_FLAGS = 0x1FF0000  # the future statements among the flags of a code object


@dataclass(frozen=True, slots=True)
class Source:
    """Where a function comes from.

    Attributes:
        node: its definition. Not to be changed: files are shared.
        owner: the class it is defined in, or None.
        filename: its file.
        flags: future statements.
    """

    node: Definition
    owner: str | None
    filename: str
    flags: int


_files: dict[str, tuple[list[str], list[tuple[Definition, str | None]]]] = {}


def find(fn: types.FunctionType) -> Source | None:
    """The definition of a function, or None if there is no source.

    Raises:
        LiftError: the source is not that of the running function.
    """
    code = fn.__code__
    candidates = [
        (node, owner)
        for node, owner in _definitions(code.co_filename, fn.__globals__)
        if _is_at(node, code)
    ]
    if len(candidates) > 1:
        candidates = _narrowest(candidates, code)
    if not candidates:
        return None
    node, owner = candidates[0]
    if parameter_names(node) != _own_parameters(code):
        raise LiftError(
            f"The source of {fn.__qualname__} has changed since it was loaded: its parameters "
            f"are {_own_parameters(code)}, and those in {code.co_filename} "
            f"{parameter_names(node)}.",
            "Load the module again.",
        )
    return Source(node, owner, code.co_filename, code.co_flags & _FLAGS)


def no_source(fn: types.FunctionType) -> LiftError:
    """The error for a function whose syntax is not known."""
    return LiftError(
        f"The source of {fn.__qualname__} cannot be read ({fn.__code__.co_filename}), so its "
        "control flow cannot be lifted.",
        "Put the function in a file or a notebook cell, or write ftrace.lax.cond and while_loop.",
    )


def _definitions(filename: str, scope: dict[str, Any]) -> list[tuple[Definition, str | None]]:
    """Every function of a file, with the class it is defined in."""
    lines = linecache.getlines(filename, scope)
    found = _files.get(filename)
    if found is None or found[0] != lines:
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            return []
        found = _files[filename] = (lines, list(_walk(tree, None)))
    return found[1]


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


def parameter_names(node: Definition) -> list[str]:
    """The names of all parameters, in the order of local variables."""
    a = node.args
    star = [x for x in (a.vararg, a.kwarg) if x is not None]
    return [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, *star)]


def _own_parameters(code: types.CodeType) -> list[str]:
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return list(code.co_varnames[:n])


def compile_function(node: ast.FunctionDef, free: Iterable[str], source: Source) -> types.CodeType:
    """The code of a definition in which these names are free."""
    inner: ast.stmt = node
    if source.owner is not None:
        inner = ast.ClassDef(source.owner, [], [], [node], [])
    names = [ast.arg(name) for name in sorted(set(free))]
    frame = ast.FunctionDef("_ft_frame", _plain(names), [inner], [])
    for new in (inner, frame):
        ast.copy_location(new, node)
    module = ast.fix_missing_locations(ast.Module([frame], []))
    code = compile(module, source.filename, "exec", source.flags, dont_inherit=True)
    for _ in range(2 if source.owner is None else 3):
        code = _last_code(code.co_consts)
    return code


def _plain(names: Sequence[ast.arg]) -> ast.arguments:
    return ast.arguments([], list(names), None, [], [], None, [])


def _last_code(consts: tuple[Any, ...]) -> types.CodeType:
    return next(c for c in reversed(consts) if isinstance(c, types.CodeType))
