"""From source files to a fixed sample of mutants: places, texts, identities.

A *unit* is what one change belongs to: a top-level function, a method, or a column of a row
(`sub.jvp`). A mutant is a span of a file and the text that replaces it. Its identity is made of
the unit, the operator and the texts, so that it survives edits elsewhere in the file. Error
messages, documentation, annotations and the samples of rows are not mutated.
"""

import ast
import difflib
import random
import textwrap
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tools.mutation import operators

SEED = 2
# Columns and arguments of rows that say how they are tested or described, and type annotations.
NOT_MUTATED = frozenset(
    {"samples", "errors", "doc", "domain", "domains", "points", "name", "lower"}
)
COLUMNS = ("jvp", "transpose", "batch", "type", "partial", "2", "3", "4")
ROW_COLUMNS = (
    *COLUMNS,
    "impl",
    "out",
    "weak",
    "mask",
    "zeros",
    "effects",
    "stage",
    "linear_in",
    "multiple",
)
# Changes of a whole column: for rows whose rules are functions, which are units themselves.
COARSE = ("other-rule", "neighbour-rule", "drop-partial", "drop-stage", "drop-effects")
# The kinds of change whose survival would be worst come into the sample first.
PRIORITY = (
    "drop-tag-check",
    "drop-liveness-check",
    "negate-tag-check",
    "negate-liveness-check",
    "drop-zero-handling",
    "drop-renew",
    "drop-fresh",
    "drop-owned",
    "drop-materialise",
    "drop-collapse",
    "drop-spread",
    "drop-mask",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file."""

    path: str
    unit: str
    operator: str
    start: int
    end: int
    before: str
    after: str
    line: int
    number: int

    @property
    def name(self) -> str:
        """The identity: where, what kind, and a number made of the texts."""
        key = f"{self.before}\0{self.after}\0{self.number}".encode()
        place = self.path.removeprefix("ftrace/").removesuffix(".py")
        return f"{place}:{self.unit}:{self.operator}:{zlib.crc32(key) & 0xFFFFFF:06x}"

    @property
    def row(self) -> str:
        """The name before the column, or of the function or class."""
        return self.unit.partition(".")[0]

    @property
    def column(self) -> str:
        """The column of a row; empty for functions and methods."""
        last = self.unit.rpartition(".")[2]
        return last if last.isdigit() or (last in ROW_COLUMNS and "." in self.unit) else ""

    def applied(self, source: str) -> str:
        """The source with the change."""
        return source[: self.start] + self.after + source[self.end :]

    def diff(self, source: str) -> str:
        """The change as a unified diff."""
        lines = difflib.unified_diff(
            source.splitlines(),
            self.applied(source).splitlines(),
            self.path,
            self.name,
            "",
            "",
            2,
            "",
        )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Edit:
    node: ast.AST
    operator: str
    after: str


class _Places:
    """Text positions of nodes: `ast` counts bytes of a line, Python strings characters."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def _at(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        first = self._at(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return first, self._at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end]


# ---------------------------------------------------------------------------------- units


def units(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(name, node) of every part of a module that is mutated."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if not node.name.endswith(("_samples", "_errors")):
                yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name not in ("__repr__", "__init__"):
                    yield f"{node.name}.{part.name}", part
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = node.targets[0]
            if row_of(node) and isinstance(target, ast.Name):
                yield from _columns(target.id, node.value)


def row_of(node: ast.AST) -> str | None:
    """The name of the row that a statement makes: the first text, or `name=`, of the call."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return None
    call = node.value
    named = [k.value for k in call.keywords if k.arg == "name"] or call.args[:1]
    made = operators.called(call) == "Primitive" or not operators.called(call)[:1].isupper()
    if named and made and isinstance(named[0], ast.Constant) and isinstance(named[0].value, str):
        target = node.targets[0]
        public = isinstance(target, ast.Name) and not target.id.startswith("_")
        return named[0].value if public else None
    return None


def _columns(row: str, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    for i, argument in enumerate(call.args[1:], 1):
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            yield f"{row}.{'impl' if i == 1 else i}", argument
    for keyword in call.keywords:
        if keyword.arg and keyword.arg not in NOT_MUTATED:
            yield f"{row}.{keyword.arg}", keyword


# ---------------------------------------------------------------------------------- edits


class _Finder:
    """Collects the edits of one unit."""

    def __init__(self, places: _Places, bound: frozenset[str]) -> None:
        self.text = places.text
        self.bound = bound
        self.edits: list[_Edit] = []

    def unit(self, node: ast.AST) -> list[_Edit]:
        if isinstance(node, ast.keyword):
            self._add(node.value, operators.of_column(node, self.text))
            self._expression(node.value)
        elif isinstance(node, ast.FunctionDef):
            known = {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
            self._body(node.body, known)
        else:
            self._expression(node)
        return self.edits

    def _add(self, node: ast.AST, changes: Iterator[operators.Change]) -> None:
        self.edits += [_Edit(node, name, after) for name, after in changes]

    def _body(self, body: Sequence[ast.stmt], known: set[str]) -> None:
        for node in body:
            if operators.droppable(node, known):
                self.edits.append(_Edit(node, "drop-statement", "pass"))
            self._statement(node, known)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known.add(node.targets[0].id)

    def _statement(self, node: ast.stmt, known: set[str]) -> None:
        if isinstance(node, _NOT_MUTATED) or _is_docstring(node):
            return
        if isinstance(node, ast.FunctionDef):
            self._body(node.body, {a.arg for a in (*node.args.args, *node.args.kwonlyargs)})
            return
        if isinstance(node, ast.If):
            self._condition(node)
        for part in _expressions(node):
            self._expression(part)
        handlers = (h.body for h in getattr(node, "handlers", ()))
        blocks = (getattr(node, field, None) for field in ("body", "orelse", "finalbody"))
        for block in (*handlers, *(b for b in blocks if isinstance(b, list))):
            self._body(block, known)

    def _condition(self, node: ast.If) -> None:
        for name, after in operators.of_condition(node):
            test = operators.wrapped(node.test, self.text(node.test))
            self.edits.append(_Edit(node.test, name, f"not {test}" if after == "not" else after))

    def _expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.JoinedStr) or _is_error(node):
            return
        operator = operators.EXPRESSIONS.get(type(node))
        if operator:
            self._add(node, operator(node, self.text, self.bound))
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                after = f"not {operators.wrapped(test, self.text(test))}"
                self.edits.append(_Edit(test, f"negate-{operators.checks(test)}", after))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword) and child.arg in NOT_MUTATED | {"strict"}:
                continue
            self._expression(child)


_NOT_MUTATED = (ast.Raise, ast.Import, ast.ImportFrom, ast.ClassDef)
_TYPES_AND_TARGETS = ("annotation", "returns", "targets", "target", "type")


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement evaluates, without those of the statements in it."""
    for field, value in ast.iter_fields(node):
        if field in _TYPES_AND_TARGETS:
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.withitem):
                yield part.context_expr
            elif isinstance(part, ast.expr):
                yield part


def _is_error(node: ast.AST) -> bool:
    """Whether a call builds an error, whose words are tested elsewhere."""
    return operators.called(node).endswith(("Error", "leaked"))


def _neighbour_rules(tree: ast.Module, text: operators.Text) -> dict[str, list[str]]:
    """For each column of a row, that of the row before it made by the same constructor."""
    last: dict[tuple[str, str, str], str] = {}
    found: dict[str, list[str]] = {}
    for name, node in units(tree):
        row, _, column = name.partition(".")
        value = node.value if isinstance(node, ast.keyword) else node
        if not isinstance(value, ast.expr) or column not in (*COLUMNS, "impl", "out"):
            continue
        shape = f"{type(value).__name__}{_arity(value)}"
        before = last.get((column, shape, "")) if shape else None
        if before is not None and before.replace(row, "") != text(value).replace(row, ""):
            found[name] = [before]
        last[column, shape, ""] = text(value)
    return found


def _arity(value: ast.expr) -> str:
    if isinstance(value, ast.Lambda):
        return ",".join(a.arg for a in (*value.args.args, *value.args.kwonlyargs))
    return "name" if isinstance(value, ast.Name | ast.Attribute) else ""


# ---------------------------------------------------------------------------------- mutants


@cache
def mutants_of(path: str, source: str) -> tuple[Mutant, ...]:
    """All mutants of a file in the order of their places; each changes what the file means."""
    tree = ast.parse(source)
    places = _Places(source)
    bound = frozenset(
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ) | {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    rules = _neighbour_rules(tree, places.text)
    found: list[Mutant] = []
    numbers: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for unit, node, statement in _with_statements(tree):
        simple = _simple(statement)
        seen: dict[ast.stmt, set[str | None]] = {}
        edits = _Finder(places, bound).unit(node)
        value = node.value if isinstance(node, ast.keyword) else node
        edits += [_Edit(value, "neighbour-rule", text) for text in rules.get(unit, ())]
        for edit in edits:
            start, end = places.span(edit.node)
            before = source[start:end]
            key = (unit, edit.operator, before, edit.after)
            mutant = Mutant(
                path, unit, edit.operator, start, end, before, edit.after,
                getattr(edit.node, "lineno", 0), numbers[key],
            )  # fmt: skip
            around = simple.get(edit.node, statement)
            first, last = places.span(around)
            indent = "if 1:\n" + " " * around.col_offset if around.col_offset else ""
            if around not in seen:
                seen[around] = {_meaning(indent + source[first:last])}
            meaning = _meaning(indent + source[first:start] + edit.after + source[end:last])
            if meaning and meaning not in seen[around]:
                seen[around].add(meaning)
                numbers[key] += 1
                found.append(mutant)
    return tuple(sorted(found, key=lambda m: (m.start, m.end, m.after)))


def _with_statements(tree: ast.Module) -> Iterator[tuple[str, ast.AST, ast.stmt]]:
    """The units, each with the statement it is a part of."""
    of_row = {
        node.targets[0].id: node
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for name, node in units(tree):
        whole = node if isinstance(node, ast.FunctionDef) else of_row[name.partition(".")[0]]
        yield name, node, whole


def _simple(statement: ast.stmt) -> dict[ast.AST, ast.stmt]:
    """The parts of a statement, each with the statement without a body that it is in, if one is.

    A change of one of these changes no other, so that it alone tells what the change means.
    """
    return {
        part: inner
        for inner in ast.walk(statement)
        if isinstance(inner, ast.stmt) and not hasattr(inner, "body")
        for part in ast.walk(inner)
    }


def _meaning(statement: str) -> str | None:
    """The syntax tree of a statement, or None where the text is no program."""
    try:
        return ast.dump(ast.parse(statement))
    except SyntaxError:
        return None


def sample(mutants: Sequence[Mutant], wanted: int, most: int) -> list[Mutant]:
    """A fixed choice: at least `wanted` of each unit, its most telling kinds of change first.

    Of a row's columns those with rules are units; its other columns count where it has none.

    Args:
        mutants: all mutants of a file.
        wanted: how many of one unit at least, where it has so many.
        most: how many of one unit at most.
    """
    chosen: list[Mutant] = []
    for unit, found in _by_unit(mutants).items():
        rng = random.Random(f"{SEED}:{found[0].path}:{unit}")
        order = sorted(found, key=lambda m: (_rank(m.operator), rng.random()))
        checks = sum(m.operator in PRIORITY[:2] for m in found)
        count = min(most, max(wanted, checks, len(found) // 16))
        chosen += order[:count]
    return sorted(chosen, key=lambda m: (m.path, m.start, m.end, m.after))


def _by_unit(mutants: Sequence[Mutant]) -> dict[str, list[Mutant]]:
    """Mutants by unit; of a row without a rule written in place, by row."""
    rules = [m for m in mutants if m.column in COLUMNS]
    written = {m.row for m in rules if m.operator not in COARSE}
    ruled = {m.row for m in rules}
    found: dict[str, list[Mutant]] = defaultdict(list)
    for m in mutants:
        fine = m.column in COLUMNS and m.operator not in COARSE
        if not m.column or fine:
            found[m.unit].append(m)
        elif m.row not in written and (m.column in COLUMNS or m.row not in ruled):
            found[m.row].append(m)
    return found


def _rank(operator: str) -> int:
    return PRIORITY.index(operator) if operator in PRIORITY else len(PRIORITY)


def excerpt(text: str) -> str:
    """A text in one line, shortened."""
    return textwrap.shorten(" ".join(text.split()), 60, placeholder=" ...")
