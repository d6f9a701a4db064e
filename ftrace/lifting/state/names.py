"""What statements do with local names: which they store, load and need, and how they end.

Liveness is the classic backward analysis, over syntax. Names are those of one function; what a
nested function or comprehension loads counts as loaded where it is defined, what it stores does
not count. An exit is how control leaves a statement list.
"""

import ast
import builtins
import functools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ftrace.lifting.state.points import exits_by

NEXT: Final = 0  # falls off the end
BREAK: Final = 1
CONTINUE: Final = 2
RETURN: Final = 3
RAISE: Final = 4
CAUGHT: Final = 6  # an error that a handler may catch
BROKEN: Final = 5  # by its own `break`: of a loop whose `else` may break the loop around it

Names = frozenset[str]
NONE: Final[Names] = frozenset()

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES: Final = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS: Final = (ast.While, ast.For, ast.AsyncFor)
TRIES: Final = (ast.Try, ast.TryStar)


def stores(nodes: Iterable[ast.AST]) -> Names:
    """The names that statements bind or delete."""
    found: set[str] = set()
    for node in nodes:
        _stores(node, found)
    return frozenset(found)


def _stores(node: ast.AST, found: set[str]) -> None:
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, COMPREHENSIONS):
        found.update(_walruses(node))
        return
    name = _bound(node)
    if name:
        found.add(name)
    inner = getattr(node, "decorator_list", ()) if isinstance(node, SCOPES) else None
    for child in ast.iter_child_nodes(node) if inner is None else inner:
        _stores(child, found)


def _bound(node: ast.AST) -> str | None:
    """The name that a node itself binds or deletes."""
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.alias):
        return (node.asname or node.name).partition(".")[0]
    if isinstance(node, ast.MatchMapping):
        return node.rest
    return node.name if isinstance(node, _NAMED) else None


_NAMED: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)


def _walruses(node: ast.AST) -> set[str]:
    return {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}


def loads(nodes: Iterable[ast.AST]) -> Names:
    """The names that statements may read, nested functions included."""
    found: set[str] = set()
    left = [(node, NONE) for node in nodes]  # and the names that are others' there
    while left:
        n, hidden = left.pop()
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store):
            found.update({n.id} - hidden)  # `del x` needs x
        elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
            found.update({n.target.id} - hidden)
        elif isinstance(n, ast.Nonlocal):
            found.update(n.names)
        elif isinstance(n, ast.Call):
            found.update(getattr(n, "reads", ()))
        elif isinstance(n, COMPREHENSIONS):
            first = n.generators[0]
            left.append((first.iter, hidden))
            own = hidden | stores(g.target for g in n.generators)
            parts = (x for x in ast.iter_child_nodes(n) if x is not first)
            left += [(x, own) for x in (*parts, first.target, *first.ifs)]
            continue
        left += [(x, hidden) for x in ast.iter_child_nodes(n)]
    return frozenset(found)


REFLECTIVE: Final = ("locals", "vars", "dir", "eval", "exec")


def note_reflection(function: ast.AST, known: Names) -> None:
    """Let calls such as `locals()` and `eval(text)` count as reading all names of a function."""
    for n in ast.walk(function):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in REFLECTIVE:
            n.reads = known  # type: ignore[attr-defined]


def written(function: ast.AST) -> Names:
    """The names through which a function writes items, or operates in place."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        else:
            continue
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            found.add(target.id)
    return frozenset(found)


_PURE: Final = frozenset({"np", "numpy", "fnp", "math"})
_CHANGING: Final = frozenset({"next", "setattr", "delattr"})  # of the builtins


def is_write(node: ast.AST) -> bool:
    """Whether a node changes an item or an attribute, or calls what might."""
    if isinstance(node, ast.Call):
        found = [n.id for n in ast.walk(node.func) if isinstance(n, ast.Name)]
        return not all(n in _PURE or (hasattr(builtins, n) and n not in _CHANGING) for n in found)
    return isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)


def read_late(function: ast.AST) -> frozenset[tuple[str, int]]:
    """The assignments `x = xs[i]`, by name and line, whose x may be read after a later write."""
    nodes = [n for n in ast.walk(function) if hasattr(n, "lineno")]
    writes: list[int] = [n.end_lineno for n in nodes if is_write(n)]  # type: ignore[attr-defined]
    loaded: dict[str, list[int]] = {}
    for n in nodes:
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            loaded.setdefault(n.id, []).append(n.lineno)
    found: set[tuple[str, int]] = set()
    for s in nodes:
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Subscript):
            end = s.end_lineno or s.lineno
            first = min((w for w in writes if w > end), default=sys.maxsize)
            for x in s.targets:
                lines = loaded.get(x.id, ()) if isinstance(x, ast.Name) else ()
                if any(n > first or n < s.lineno for n in lines):  # or in the next iteration
                    found.add((x.id, s.lineno))  # type: ignore[attr-defined]
    return frozenset(found)


@functools.lru_cache(maxsize=10_000)
def outer_names(code: types.CodeType) -> tuple[str, ...]:
    """The globals and attributes that code names, its comprehensions and functions included."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return tuple(dict.fromkeys((*code.co_names, *(n for c in inner for n in outer_names(c)))))


# ---------------------------------------------------------------------------------- exits


def exits(stmts: Iterable[ast.stmt]) -> frozenset[int]:
    """The jumps by which statements may leave the list they stand in."""
    found: set[int] = set()
    for s in stmts:
        if isinstance(s, ast.Return):
            found.add(RETURN)
        elif isinstance(s, ast.Break):
            found.add(BREAK)
        elif isinstance(s, ast.Continue):
            found.add(CONTINUE)
        elif exits_by(s):
            found.add(RAISE)
        elif isinstance(s, LOOPS):
            found |= exits(s.body) - {BREAK, CONTINUE}
            found |= exits(s.orelse)
        elif not isinstance(s, SCOPES):
            for block in blocks(s):
                found |= exits(block)
    return frozenset(found)


def blocks(stmt: ast.stmt) -> list[list[ast.stmt]]:
    """The statement lists of a compound statement."""
    found = [
        value
        for _, value in ast.iter_fields(stmt)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
    ]
    parts = (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ()))
    return found + [part.body for part in parts]


def completes(stmts: Sequence[ast.stmt]) -> bool:
    """Whether control may reach the end of the list."""
    return all(map(_completes, stmts))


def _completes(s: ast.stmt) -> bool:
    if isinstance(s, ast.Return | ast.Break | ast.Continue | ast.Raise):
        return False
    if isinstance(s, ast.If):
        return completes(s.body) or completes(s.orelse)
    if isinstance(s, ast.While) and is_true(s.test):
        return BREAK in exits(s.body)
    if isinstance(s, ast.With):
        return completes(s.body)
    if isinstance(s, TRIES):
        ways = [[*s.body, *s.orelse], *(h.body for h in s.handlers)]
        return any(map(completes, ways)) and completes(s.finalbody)
    return True


def is_true(test: ast.expr) -> bool:
    """Whether a test is a constant that holds."""
    return isinstance(test, ast.Constant) and bool(test.value)


# ---------------------------------------------------------------------------------- liveness


class Liveness:
    """Which names statements need, given what is needed after them.

    Attributes:
        jumps: exit -> the names needed at its target.
        always: names needed everywhere (a handler may run after any statement).
    """

    def __init__(self, jumps: Mapping[int, Names], always: Names = NONE) -> None:
        self.jumps = jumps
        self.always = always

    def before(self, stmts: Sequence[ast.stmt], after: Names) -> Names:
        """The names needed before a statement list."""
        for s in reversed(stmts):
            after = self.statement(s, after)
        return after | self.always

    def afters(self, stmts: Sequence[ast.stmt], after: Names) -> list[Names]:
        """The names needed after each statement of a list."""
        found: list[Names] = []
        for s in reversed(stmts):
            found.append(after | self.always)
            after = self.statement(s, after)
        return found[::-1]

    def within(self, more: Mapping[int, Names] | None = None, always: Names = NONE) -> "Liveness":
        """The analysis of a block inside, with other targets of jumps."""
        return Liveness({**self.jumps, **(more or {})}, self.always | always)

    def statement(self, s: ast.stmt, after: Names) -> Names:
        """The names needed before one statement."""
        rule = getattr(self, f"_{type(s).__name__.lower()}", None)
        if rule is None:
            return after | loads([s])
        return rule(s, after)

    def _if(self, s: ast.If, after: Names) -> Names:
        return loads([s.test]) | self.before(s.body, after) | self.before(s.orelse, after)

    def _while(self, s: ast.While, after: Names) -> Names:
        return self.head(s, after)

    def _for(self, s: ast.For, after: Names) -> Names:
        return loads([s.iter]) | self.head(s, after)

    def _return(self, s: ast.Return, after: Names) -> Names:
        return loads([s])

    def _raise(self, s: ast.Raise, after: Names) -> Names:
        return loads([s]) | self.jumps.get(RAISE, NONE)

    def _break(self, s: ast.Break, after: Names) -> Names:
        return self.jumps.get(BREAK, NONE)

    def _continue(self, s: ast.Continue, after: Names) -> Names:
        return self.jumps.get(CONTINUE, NONE)

    def _with(self, s: ast.With, after: Names) -> Names:
        inner = self.before(s.body, after)
        return loads(s.items) | (inner - _targets(i.optional_vars for i in s.items))

    def _try(self, s: ast.Try, after: Names) -> Names:
        last = loads(s.finalbody)
        after = after | last
        ends = self.within({e: n | last for e, n in self.jumps.items()}, last)
        caught = self.jumps.get(RAISE, NONE) | last
        for h in s.handlers:
            bound = NONE if h.name is None else frozenset({h.name})
            kind = NONE if h.type is None else loads([h.type])
            caught |= kind | (ends.before(h.body, after) - bound)
        body = ends.within({RAISE: caught}, caught)  # any statement may raise
        return body.before(s.body, ends.before(s.orelse, after))

    _trystar = _try

    def _match(self, s: ast.Match, after: Names) -> Names:
        found = loads([s.subject]) | after  # there may be no case for it
        for case in s.cases:
            guard = NONE if case.guard is None else loads([case.guard])
            inner = loads([case.pattern]) | guard | self.before(case.body, after)
            found |= inner - stores([case.pattern])
        return found

    def _assign(self, s: ast.Assign, after: Names) -> Names:
        return loads([s]) | (after - _targets(s.targets))

    def _annassign(self, s: ast.AnnAssign, after: Names) -> Names:
        return loads([s]) | (after if s.value is None else after - _targets([s.target]))

    def _functiondef(self, s: ast.FunctionDef | ast.ClassDef, after: Names) -> Names:
        return loads([s]) | (after - {s.name})

    _classdef = _functiondef

    def head(self, s: ast.While | ast.For, after: Names) -> Names:
        """The names needed where a loop decides about its next iteration."""
        done = self.done(s, after)
        test = loads([s.test]) if isinstance(s, ast.While) else NONE
        targets = _targets([s.target]) if isinstance(s, ast.For) else NONE
        head = done | test
        while True:
            inner = self.within({BREAK: after, CONTINUE: head})
            new = head | (inner.before(s.body, head) - targets)
            if new == head:
                return head
            head = new

    def done(self, s: ast.While | ast.For, after: Names) -> Names:
        """The names needed when a loop has turned for the last time, without `break`."""
        if isinstance(s, ast.While) and is_true(s.test):
            return NONE
        return self.before(s.orelse, after)


def _targets(targets: Iterable[ast.expr | None]) -> Names:
    """The names that assignment targets certainly bind."""
    found: set[str] = set()
    for t in targets:
        if isinstance(t, ast.Name):
            found.add(t.id)
        elif isinstance(t, ast.Tuple | ast.List):
            found |= _targets(t.elts)
        elif isinstance(t, ast.Starred):
            found |= _targets([t.value])
    return frozenset(found)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and everything in it that runs with it: not the bodies of nested functions."""
    yield node
    if isinstance(node, SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        yield from own_nodes(child)
