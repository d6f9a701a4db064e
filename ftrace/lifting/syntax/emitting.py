"""Writing the rewritten statements of one function: the user's own, or a region of it.

Each statement that a traced value may decide is written as the native statement, preceded by the
question whether it is undecided, and what is done then. What stays Python's stays as it is.
"""

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ftrace.lifting.staging.catching import Trying
from ftrace.lifting.staging.checks import Asserting, Raising
from ftrace.lifting.staging.sites import BranchSite, Site
from ftrace.lifting.staging.staged_loops import ForLoop, WhileLoop
from ftrace.lifting.state import names
from ftrace.lifting.state.names import BREAK, CONTINUE, RAISE, RETURN, Liveness, Names
from ftrace.lifting.state.points import exits_by
from ftrace.lifting.syntax.expressions import (
    ClassBody,
    Expressions,
    at,
    load,
    local,
    may_be_same,
    method,
    undecided,
)


@dataclass
class _Native:
    """A loop that runs natively; `used` says whether a site in it may hand it over."""

    flag: str
    mark: str
    used: bool = False


@dataclass(frozen=True)
class Place:
    """Where a statement list stands in the function being emitted.

    Attributes:
        live: where its jumps lead.
        after: the names needed after the list.
        rest: the statements that follow, to the end of the function emitted.
        blocked: the construct that keeps jumps out of the list from being staged.
        loop: the innermost native loop around it.
    """

    live: Liveness
    after: Names
    rest: tuple[ast.stmt, ...] = ()
    blocked: ast.stmt | None = None
    loop: _Native | None = None


def positional(params: Sequence[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(p) for p in params], None, [], [], None, [])


def forget(name: str) -> ast.stmt:
    """`if name is _ft.missing: del name`."""
    test = ast.Compare(load(name), [ast.Is()], [method("missing")])
    return ast.If(test, [ast.Delete([ast.Name(name, ast.Del())])], [])


def leave(way: int, value: ast.expr | None = None) -> ast.stmt:
    """`return _ft.leave(way, value, _ft.locals())`."""
    parts = [ast.Constant(way), value or ast.Constant(None), local()]
    return ast.Return(ast.Call(method("leave"), parts, []))


class Emitter:
    """Writes the rewritten statements of one function: the user's own (the root) or a region."""

    def __init__(self, template: Any, root: bool, final: Names = names.NONE) -> None:
        self.template = template
        self.root = root
        self.final = final  # the names needed at the end of the function
        self.expressions = Expressions(template, self)
        self.unbinds = False  # whether a name may be unbound because a traced value decided

    def explained(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body, in which an unbound name says why it is."""
        if not self.unbinds:
            return body
        explain = ast.Expr(ast.Call(method("explain"), [], []))
        handler = ast.ExceptHandler(method("NameError"), None, [explain, ast.Raise()])
        return [ast.copy_location(ast.Try(body, [handler], [], []), body[0])]

    def temp(self, kind: str) -> str:
        """A new name that users do not have."""
        self.template.count += 1
        return f"_ft_{kind}{self.template.count}"

    def probe(self) -> ast.expr:
        """A function whose closure shows the cells, and whose globals are the user's."""
        cells: list[ast.expr] = [load(name) for name in sorted(self.template.cells | {"_ft"})]
        return ast.Lambda(positional(()), ast.Tuple(cells, ast.Load()))

    def site(self, site: Site) -> ast.expr:
        """`_ft.sites[n]`."""
        self.template.sites.append(site)
        return ast.Subscript(
            method("sites"), ast.Constant(len(self.template.sites) - 1), ast.Load()
        )

    def call(self, site: Site, verb: str, *args: ast.expr) -> ast.expr:
        """`_ft.sites[n].verb(*args, _ft.locals(), probe)`."""
        target = ast.Attribute(self.site(site), verb, ast.Load())
        return ast.Call(target, [*args, local(), self.probe()], [])

    def block(self, stmts: Sequence[ast.stmt], place: Place) -> list[ast.stmt]:
        """Rewrite a statement list."""
        emitted: list[ast.stmt] = []
        afters = place.live.afters(stmts, place.after)
        for i, (s, after) in enumerate(zip(stmts, afters, strict=True)):
            here = replace(place, after=after, rest=(*stmts[i + 1 :], *place.rest))
            new = self.statement(s, here)
            emitted += [n if hasattr(n, "lineno") else at(s, n) for n in new]
        return emitted

    def statement(self, s: ast.stmt, place: Place) -> list[ast.stmt]:
        """Rewrite one statement; `place.rest` is what follows it."""
        rule = getattr(self, f"_{type(s).__name__.lower()}", None)
        return [self.expressions.of(s)] if rule is None else rule(s, place)

    # ------------------------------------------------------------------ jumps

    def _return(self, s: ast.Return, place: Place) -> list[ast.stmt]:
        if isinstance(s.value, ast.IfExp):
            s.value.is_returned = not place.live.always  # type: ignore[attr-defined]
        if self.root:
            return [self.expressions.of(s)]
        value = self.expressions.of(s.value) if s.value is not None else None
        return [leave(RETURN, value)]

    def _break(self, s: ast.Break, place: Place) -> list[ast.stmt]:
        return [copy.copy(s)] if self.root or place.loop else [leave(BREAK)]

    def _continue(self, s: ast.Continue, place: Place) -> list[ast.stmt]:
        return [copy.copy(s)] if self.root or place.loop else [leave(CONTINUE)]

    def _raise(self, s: ast.Raise, place: Place) -> list[ast.stmt]:
        if exits_by(s):
            return [self._raised(s, place)]
        if self.root or isinstance(place.blocked, names.TRIES) or s.exc is None:
            return [self.expressions.of(s)]
        site = Raising(self.template, s, (), place.live, place.after, names.NONE)
        return [ast.Return(self.call(site, "raised"))]

    def _raised(self, s: Any, place: Place) -> ast.stmt:
        """A `raise` that is an exit: of an error, of what is handled, of what was noted."""
        if self.root and s.exc is not None:
            return self.expressions.of(s)
        if self.root:
            return ast.Return(ast.Call(method("give_up"), [], []))
        if s.exc is None and not getattr(s, "is_again", False):
            return leave(RAISE)
        site = Raising(self.template, s, (), place.live, place.after, names.NONE)
        return ast.Return(self.call(site, "raised" if s.exc is not None else "again"))

    def _assign(self, s: Any, place: Place) -> list[ast.stmt]:
        new = self.expressions.of(s)
        if self.root or not getattr(s, "is_guarded", False):
            return [new]
        caught = ast.Return(ast.Call(method("caught"), [local(), self.probe()], []))
        handler = ast.ExceptHandler(method("Exception"), None, [caught])
        return [at(s, ast.Try([new], [handler], [], []))]

    def _global(self, s: ast.Global | ast.Nonlocal, place: Place) -> list[ast.stmt]:
        return [copy.copy(s)]

    _nonlocal = _global

    # ------------------------------------------------------------------ definitions

    def _functiondef(self, s: Any, place: Place) -> list[ast.stmt]:
        new = copy.copy(s)
        new.decorator_list = [*map(self.expressions.of, s.decorator_list)]
        new.args = self.expressions.of(s.args)
        return [new]

    _asyncfunctiondef = _functiondef

    def _classdef(self, s: ast.ClassDef, place: Place) -> list[ast.stmt]:
        return [ClassBody(self.template, self).of(s)]

    # ------------------------------------------------------------------ if

    def _if(self, s: ast.If, place: Place) -> list[ast.stmt]:
        test = self.expressions.of(s.test)
        body, orelse = self.block(s.body, place), self.block(s.orelse, place)
        if _is_decided(s.test):
            return [ast.If(test, body, orelse)]
        t = self.temp("t")
        asked = undecided(t, test)
        site = BranchSite(self.template, s, place.rest, place.live, place.after, self.final)
        native = at(s, ast.If(load(t), body, orelse))
        jumps = names.exits(s.body) | names.exits(s.orelse)
        return [ast.If(asked, self._staged(site, jumps, place, load(t)), [native])]

    def _staged(
        self, site: Site, jumps: frozenset[int], place: Place, *args: ast.expr
    ) -> list[ast.stmt]:
        """What is done where a statement is undecided."""
        self.unbinds = True
        if not jumps:
            return self._results(site, place, *args)
        if place.loop is not None:
            place.loop.used = True
            return [ast.Assign([_store(place.loop.flag)], ast.Constant(True)), ast.Break()]
        if place.blocked is not None:
            site.blocked = place.blocked
        verb = "value" if self.root else "outcome"
        return [ast.Return(self.call(site, verb, *args))]

    def _results(self, site: Site, place: Place, *args: ast.expr) -> list[ast.stmt]:
        """`x, y = site.results(...)`, for the names that the statement changes and others read."""
        site.results_of = tuple(sorted(site.stored & place.after & self.template.plain))
        call = self.call(site, "results", *args)
        if not site.results_of:
            return [ast.Expr(call)]
        target = ast.Tuple([_store(n) for n in site.results_of], ast.Store())
        return [ast.Assign([target], call), *map(forget, site.results_of)]

    # ------------------------------------------------------------------ loops

    def _while(self, s: ast.While, place: Place) -> list[ast.stmt]:
        loop = _Native(self.temp("h"), self.temp("m"))
        site = WhileLoop(self.template, s, place.rest, place.live, place.after, self.final)
        body = self._body(s, loop, place)
        orelse = self.block(s.orelse, place)
        test = self.expressions.of(s.test)
        if _is_decided(s.test):
            if not loop.used:
                return [ast.While(test, body, orelse)]
            flag: list[ast.stmt] = [ast.Assign([_store(loop.flag)], ast.Constant(False))]
        else:
            t = self.temp("t")
            asked = undecided(t, test)
            flagged = ast.NamedExpr(_store(loop.flag), asked)
            test = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), flagged), load(t)])
            orelse, flag = _unless(loop.flag, orelse), []
        return [
            self._mark(loop, s),
            *flag,
            ast.While(test, body, orelse),
            self._handed_over(site, s, loop, place),
        ]

    def _for(self, s: ast.For, place: Place) -> list[ast.stmt]:
        loop = _Native(self.temp("h"), self.temp("m"))
        items = self.temp("i")
        site = ForLoop(self.template, s, place.rest, place.live, place.after, self.final)
        body = self._body(s, loop, place)
        orelse = _unless(loop.flag, self.block(s.orelse, place))
        verb = method("counted" if loop.used else "items")
        over = ast.Call(verb, [self.expressions.iterable(s.iter)], [])
        asked = ast.Call(method("is_endless"), [load(items)], [])
        source = ast.IfExp(load(loop.flag), ast.Tuple([], ast.Load()), load(items))
        return [
            ast.Assign([_store(items)], over),
            self._mark(loop, s),
            ast.Assign([_store(loop.flag)], asked),
            ast.For(self.expressions.of(s.target), source, body, orelse),
            self._handed_over(site, s, loop, place, load(items)),
        ]

    def _mark(self, loop: _Native, s: ast.While | ast.For) -> ast.stmt:
        """Remember the state before a loop."""
        runs = ast.Constant(loop.used or isinstance(s, ast.While))
        writes = ast.Constant(any(map(names.is_write, ast.walk(s))))
        mark = ast.Call(method("mark"), [local(), self.probe(), runs, writes], [])
        return ast.Assign([_store(loop.mark)], mark)

    def _body(self, s: ast.While | ast.For, loop: _Native, place: Place) -> list[ast.stmt]:
        """The body of a native loop."""
        head = place.live.head(s, place.after)
        live = place.live.within({BREAK: place.after, CONTINUE: head})
        return self.block(s.body, Place(live, head, loop=loop))

    def _handed_over(
        self, site: Site, s: ast.While | ast.For, loop: _Native, place: Place, *args: ast.expr
    ) -> ast.stmt:
        jumps = (names.exits(s.body) - {BREAK, CONTINUE}) | names.exits(s.orelse)
        staged = self._staged(site, jumps, place, load(loop.mark), *args)
        forget = ast.Assign([_store(loop.mark)], ast.Constant(None))  # it holds arrays
        return ast.If(load(loop.flag), [*staged, forget], [])

    # ------------------------------------------------------------------ blocks

    def _with(self, s: ast.With, place: Place) -> list[ast.stmt]:
        new = copy.copy(s)
        managers = [self.temp("m") for _ in s.items]
        new.items = [self.expressions.of(i) for i in s.items]
        for item, manager in zip(new.items, managers, strict=True):
            kept = ast.NamedExpr(_store(manager), item.context_expr)
            item.context_expr = at(item.context_expr, kept)
        blocked = place.blocked if isinstance(place.blocked, names.TRIES) else s
        body = self.block(s.body, replace(place, blocked=blocked))
        managed = ast.Call(method("looked_after"), [load(m) for m in managers], [])
        inner: list[ast.stmt] = [ast.With([ast.withitem(managed, None)], body)]
        handler = ast.ExceptHandler(method("Exception"), None, [_handling(), ast.Raise()])
        new.body = [ast.Try(inner, [handler], [], [])]  # before the manager sees the error
        return [new]

    def _try(self, s: Any, place: Place) -> list[ast.stmt]:
        new = self._native(s, place)
        if not s.handlers and RAISE not in place.live.jumps:
            return [new]
        attempt = self.temp("a")
        site = Trying(self.template, s, place.rest, place.live, place.after, self.final)
        started = ast.Call(method("attempt"), [local(), self.probe()], [])
        over = ast.Attribute(load(attempt), "is_over", ast.Load())
        new.body = [ast.With([ast.withitem(load(attempt), None)], new.body)]
        for name in ("orelse", "finalbody"):
            stmts = getattr(new, name)
            unless = ast.UnaryOp(ast.Not(), over)
            setattr(new, name, [ast.If(unless, stmts, [])] if stmts else [])
        jumps = names.exits([s]) | ({RAISE} & place.live.jumps.keys())
        forgotten = ast.Assign([_store(attempt)], ast.Constant(None))  # it holds arrays
        return [
            ast.Assign([_store(attempt)], started),
            new,
            ast.If(over, self._staged(site, jumps, place, load(attempt)), []),
            forgotten,
        ]

    def _native(self, s: Any, place: Place) -> Any:
        later = [*s.handlers, *s.orelse, *s.finalbody]
        live = place.live.within(always=names.loads(later) | place.after)
        inside = replace(place, blocked=s, live=live)
        new = copy.copy(s)
        new.body = self.block(s.body, inside)
        new.orelse = self.block(s.orelse, inside)
        new.finalbody = self.block(s.finalbody, inside)
        new.handlers = []
        for handler in s.handlers:
            new.handlers.append(copy.copy(handler))
            new.handlers[-1].type = handler.type and self.expressions.of(handler.type)
            new.handlers[-1].body = [_handling(), *self.block(handler.body, inside)]
        return new

    def _trystar(self, s: Any, place: Place) -> list[ast.stmt]:
        return [self._native(s, place)]

    def _match(self, s: ast.Match, place: Place) -> list[ast.stmt]:
        new = copy.copy(s)
        compares = any(isinstance(p, _COMPARED) for c in s.cases for p in ast.walk(c.pattern))
        of = self._decided if compares else lambda e, _: self.expressions.of(e)
        new.subject = of(s.subject, "match")
        new.cases = []
        for case in s.cases:
            new.cases.append(copy.copy(case))
            if case.guard is not None:
                new.cases[-1].guard = self._decided(case.guard, "match")
            new.cases[-1].body = self.block(case.body, place)
        return [new]

    def _decided(self, e: ast.expr, construct: str) -> ast.expr:
        parts: list[ast.expr] = [self.expressions.of(e), ast.Constant(construct)]
        return at(e, ast.Call(method("decided"), parts, []))

    def _assert(self, s: ast.Assert, place: Place) -> list[ast.stmt]:
        t = self.temp("t")
        asked = undecided(t, self.expressions.of(s.test))
        site = Asserting(self.template, s, (), place.live, place.after, names.NONE)
        check = ast.Expr(self.call(site, "check", load(t)))
        message = s.msg and self.expressions.of(s.msg)
        known = at(s, ast.Assert(load(t), message))
        return [ast.If(load("__debug__"), [ast.If(asked, [check], [known])], [])]


def _handling() -> ast.stmt:
    """What begins where an error is handled."""
    return ast.Expr(ast.Call(method("handling"), [], []))


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _unless(flag: str, stmts: list[ast.stmt]) -> list[ast.stmt]:
    """The `else` of a loop, which is skipped where the loop is staged."""
    return [ast.If(ast.UnaryOp(ast.Not(), load(flag)), stmts, [])] if stmts else []


_COMPARED: Final = (ast.MatchValue, ast.MatchSingleton)  # patterns that ask for the value


def _is_decided(test: ast.expr) -> bool:
    """Whether a test never gives a traced value."""
    if isinstance(test, ast.Compare):
        identity = all(isinstance(op, ast.Is | ast.IsNot) for op in test.ops)
        return identity and not may_be_same(test)
    return isinstance(test, ast.Constant)
