"""Statements whose errors are exits: what a `try` needs when traced values decide about errors.

What may raise is evaluated before anything is bound, and followed by a question: is there a member
with an error by now? For such members the statement list ends there. The question is an `if`, so
that arms and loops treat it as they treat any jump:

    y = math.log(x)   ->   t = math.log(x); if _ft.failing(): <raise>; y = t
"""

import ast
import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

_DIVIDING: Final = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_COMPUTING: Final = ("abs", "float", "int", "len", "max", "min", "pow", "round", "sum")
_PARTS: Final[dict[type[ast.expr], tuple[str, ...]]] = {  # evaluated in any case, in this order
    ast.Call: ("func", "args", "keywords"),
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.Compare: ("left", "comparators"),
    ast.Tuple: ("elts",),
    ast.List: ("elts",),
    ast.Subscript: ("value", "slice"),
}
_ITERATING: Final = ("range", "zip", "enumerate", "reversed")


def may_raise(node: ast.AST | None) -> bool:
    """Whether evaluating an expression may raise an error that a traced value decides about."""
    if node is None or isinstance(node, ast.Lambda):
        return False
    if isinstance(node, ast.Call):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVIDING):
        return True
    if isinstance(node, ast.Subscript):
        return True
    return any(map(may_raise, ast.iter_child_nodes(node)))


def exits_by(s: ast.stmt) -> bool:
    """Whether a statement is a `raise` that is an exit."""
    return getattr(s, "is_exit", False)


def an_exit(at: ast.AST, exc: ast.expr | None = None) -> ast.Raise:
    """A `raise` that is an exit; without an error, of those that are noted already."""
    node: Any = ast.copy_location(ast.Raise(exc, None), at)
    node.is_exit = True
    return node


class Points:
    """Puts questions behind what may raise.

    Args:
        fresh: makes names.
    """

    def __init__(self, fresh: Callable[[], str]) -> None:
        self.fresh = fresh

    def block(self, stmts: Iterable[ast.stmt]) -> list[ast.stmt]:
        """A statement list."""
        found: list[ast.stmt] = []
        for s in stmts:
            rule = getattr(self, f"_{type(s).__name__.lower()}", None)
            found += [s] if rule is None else rule(s)
        return [ast.fix_missing_locations(s) for s in found]

    def _question(self, at: ast.AST) -> ast.stmt:
        asked = ast.Call(ast.Attribute(_load("_ft"), "failing", ast.Load()), [], [])
        return ast.copy_location(ast.If(asked, [an_exit(at)], []), at)

    def _before(self, e: Any, names: Sequence[str] = ()) -> tuple[list[ast.stmt], Any]:
        """What is done before an expression is used, and what is used instead."""
        if not may_raise(e):
            return [], e
        before, e = self._arguments(e)
        name = self.fresh()
        kept: Any = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], e), e)
        kept.is_guarded, kept.names = True, names
        return [*before, kept, self._question(e)], ast.copy_location(_load(name), e)

    def _arguments(self, e: ast.expr) -> tuple[list[ast.stmt], Any]:
        """What raises before a call that may do more than compute is done first."""
        acts = any(isinstance(n, ast.Call) and not _computes(n.func) for n in ast.walk(e))
        fields = _PARTS.get(type(e), ())
        if not acts or not fields or (isinstance(e, ast.Compare) and len(e.ops) > 1):
            return [], e
        before: list[ast.stmt] = []

        def first(part: Any) -> Any:
            if isinstance(part, list):
                return [first(x) for x in part]
            if any(isinstance(n, ast.Slice) for n in (part, *getattr(part, "elts", ()))):
                return part  # no expression by itself
            if isinstance(part, ast.Attribute | ast.Starred | ast.keyword):
                return self._with_parts(part, value=first(part.value))
            more, part = self._before(part)
            before.extend(more)
            return part

        parts = {name: first(getattr(e, name)) for name in fields}
        return before, self._with_parts(e, **parts)

    def _with_parts(self, s: Any, **parts: Any) -> Any:
        new = copy.copy(s)
        for name, value in parts.items():
            setattr(new, name, value)
        return new

    # ------------------------------------------------------------------ simple statements

    def _assign(self, s: ast.Assign) -> list[ast.stmt]:
        names = [t.id for t in s.targets if isinstance(t, ast.Name)]
        before, value = self._before(s.value, names)
        asked = [self._question(s)] if any(map(_stores_an_item, s.targets)) else []
        return [*before, self._with_parts(s, value=value, is_guarded=True), *asked]

    def _annassign(self, s: ast.AnnAssign) -> list[ast.stmt]:
        before, value = self._before(s.value)
        return [*before, self._with_parts(s, value=value)]

    def _augassign(self, s: ast.AugAssign) -> list[ast.stmt]:
        before, value = self._before(s.value)
        after = [self._question(s)] if _stores_an_item(s.target) else []
        if isinstance(s.op, _DIVIDING) and isinstance(s.target, ast.Name):
            after = [self._question(s)]
            parts: list[ast.expr] = [
                ast.Constant(type(s.op).__name__),
                _load(s.target.id),
                copy.copy(value),
            ]
            call = ast.Call(ast.Attribute(_load("_ft"), "dividing", ast.Load()), parts, [])
            before += [ast.copy_location(ast.Expr(call), s), self._question(s)]
        return [*before, self._with_parts(s, value=value, is_guarded=True), *after]

    def _return(self, s: ast.Return) -> list[ast.stmt]:
        before, value = self._before(s.value)
        return [*before, self._with_parts(s, value=value)]

    def _expr(self, s: ast.Expr) -> list[ast.stmt]:
        before, value = self._before(s.value)
        return [*before, self._with_parts(s, value=value)]

    def _raise(self, s: ast.Raise) -> list[ast.stmt]:
        if s.exc is None or exits_by(s):
            return [s]
        node: Any = an_exit(s, s.exc)
        node.cause, node.is_from_handled = s.cause, getattr(s, "is_from_handled", False)
        return [node]

    def _assert(self, s: ast.Assert) -> list[ast.stmt]:
        before, test = self._before(s.test)
        error = ast.Call(_load("AssertionError"), [] if s.msg is None else [s.msg], [])
        failed = an_exit(s, ast.copy_location(error, s))
        check = ast.copy_location(ast.If(test, [ast.copy_location(ast.Pass(), s)], [failed]), s)
        return [ast.copy_location(ast.If(_load("__debug__"), [*before, check], []), s)]

    # ------------------------------------------------------------------ compound statements

    def _if(self, s: ast.If) -> list[ast.stmt]:
        before, test = self._before(s.test)
        body, orelse = self.block(s.body), self.block(s.orelse)
        return [*before, self._with_parts(s, test=test, body=body, orelse=orelse)]

    def _while(self, s: ast.While) -> list[ast.stmt]:
        before, test = self._before(s.test)
        body, orelse = self.block(s.body), self.block(s.orelse)
        if not before:
            return [self._with_parts(s, body=body, orelse=orelse)]
        leave = ast.copy_location(ast.Break(), s)
        stop = ast.If(ast.UnaryOp(ast.Not(), test), [*orelse, leave], [])
        whole = ast.While(ast.Constant(True), [*before, ast.copy_location(stop, s), *body], [])
        return [ast.copy_location(whole, s)]

    def _for(self, s: ast.For) -> list[ast.stmt]:
        e = s.iter
        counted = isinstance(e, ast.Call) and isinstance(e.func, ast.Name)
        counted = counted and e.func.id in _ITERATING  # type: ignore[union-attr]
        before, source = ([], e) if counted else self._before(e)
        body, orelse = self.block(s.body), self.block(s.orelse)
        return [*before, self._with_parts(s, iter=source, body=body, orelse=orelse)]

    def _with(self, s: ast.With) -> list[ast.stmt]:
        return [self._with_parts(s, body=self.block(s.body))]

    def _match(self, s: ast.Match) -> list[ast.stmt]:
        before, subject = self._before(s.subject)
        cases = [self._with_parts(c, body=self.block(c.body)) for c in s.cases]
        return [*before, self._with_parts(s, subject=subject, cases=cases)]

    def _try(self, s: ast.Try) -> list[ast.stmt]:
        """Its own body is treated when it is staged; what no handler takes goes on."""
        handlers = [self._with_parts(h, body=self.block(h.body)) for h in s.handlers]
        orelse, final = self.block(s.orelse), self.block(s.finalbody)
        body = s.body if s.handlers else self.block(s.body)
        new = self._with_parts(s, body=body, handlers=handlers, orelse=orelse, finalbody=final)
        return [new, self._question(s)] if s.handlers else [new]


def _computes(function: ast.expr) -> bool:
    """Whether a function is known, by its name, to do nothing but compute."""
    if isinstance(function, ast.Name):
        return function.id in _COMPUTING
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) == "math"


def _stores_an_item(target: ast.expr) -> bool:
    """Whether an assignment may raise an error that a traced index decides about."""
    return any(
        isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in ast.walk(target)
    )


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
