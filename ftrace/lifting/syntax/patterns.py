"""`match` as `if` and `elif`, so that traced values may decide what matches; `suppress` as `try`.

A pattern becomes a test and bindings: `case [float(), y] if y > 0:` asks
`_ft.sequence(s, 2) and isinstance(s[0], float)`, binds y = s[1], and asks the guard. A statement
with a mapping pattern, or with names bound inside an alternative, stays Python's own. `with
suppress(E):` becomes `try: ... except (E,): pass`, whose errors traced values may decide about.
"""

import ast
import contextlib
import copy
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ftrace.lifting.substitutes import python
from ftrace.lifting.syntax.expressions import at, load, method


class _Native(Exception):  # noqa: N818 - it is no error
    """A pattern that is left to Python."""


class Patterns(ast.NodeTransformer):
    """Rewrites the `match` and `with suppress` of one function, not those of functions in it.

    Args:
        fresh: makes names.
        outer: the function's globals, without names that are its own.

    Attributes:
        read: those of them that what is rewritten depends on.
    """

    def __init__(self, fresh: Callable[[], str], outer: Mapping[str, Any]) -> None:
        self.fresh = fresh
        self.outer = outer
        self.read: dict[str, Any] = {}

    def of(self, node: Any) -> Any:
        """A function's definition; the same object where nothing is rewritten."""
        if not any(isinstance(n, ast.Match | ast.With) for n in ast.walk(node)):
            return node
        node = copy.deepcopy(node)
        if not isinstance(node, ast.Lambda):
            whole = self.generic_visit(ast.Module(node.body, []))
            node.body = whole.body  # type: ignore[attr-defined]
        return ast.fix_missing_locations(node)

    def _kept(self, node: Any) -> Any:
        return node

    visit_Lambda = visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _kept  # noqa: N815

    def visit_Match(self, node: ast.Match) -> Any:
        self.generic_visit(node)
        name = self.fresh()
        try:
            rest: list[ast.stmt] = []
            for case in reversed(node.cases):
                rest = _chosen(case, load(name), rest)
        except _Native:
            return node
        kept = ast.Assign([ast.Name(name, ast.Store())], node.subject)
        return [at(node.subject, kept), *rest]

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        first, *others = node.items
        call = first.context_expr
        if others or first.optional_vars is not None or not isinstance(call, ast.Call):
            return node
        if self._value(call.func) is not contextlib.suppress or call.keywords:
            return node
        caught = ast.Tuple(call.args, ast.Load())
        handler = ast.ExceptHandler(caught, None, [ast.Pass()])
        return at(node, ast.Try(node.body, [handler], [], []))

    def _value(self, node: ast.expr) -> Any:
        """What a name, or an attribute of a module, stands for; None where that is not known."""
        if isinstance(node, ast.Name):
            found = self.read[node.id] = self.outer.get(node.id)
            return found
        if isinstance(node, ast.Attribute):
            module = self._value(node.value)
            return getattr(module, node.attr, None) if type(module) is ModuleType else None
        return None


def _chosen(case: ast.match_case, subject: ast.expr, rest: list[ast.stmt]) -> list[ast.stmt]:
    """A case, with what is done where it does not match."""
    tests, bound = _parts(case.pattern, subject)
    binding = [
        at(case.pattern, ast.Assign([ast.Name(name, ast.Store())], value)) for name, value in bound
    ]
    if case.guard is None or not binding:
        asked = [*tests, *([] if case.guard is None else [case.guard])]
        return _decided(case, asked, [*binding, *case.body], rest)
    first = _decided(case, tests, binding, [])  # a guard reads what the pattern binds
    again, _ = _parts(case.pattern, subject)
    return [*first, *_decided(case, [*again, case.guard], case.body, rest)]


def _decided(
    case: ast.match_case, tests: list[ast.expr], body: list[ast.stmt], rest: list[ast.stmt]
) -> list[ast.stmt]:
    if not tests:
        return body
    whole = tests[0] if len(tests) == 1 else at(tests[0], ast.BoolOp(ast.And(), tests))
    return [at(case.pattern, ast.If(whole, body, rest))]


_Parts = tuple[list[ast.expr], list[tuple[str, ast.expr]]]


def _parts(p: ast.pattern, x: ast.expr) -> _Parts:
    """What a pattern asks of a value, and what it binds."""
    rule = _RULES.get(type(p))
    if rule is None:
        raise _Native
    tests, bound = rule(p, x)
    return [at(p, t) for t in tests], [(name, at(p, copy.deepcopy(v))) for name, v in bound]


def _value(p: Any, x: ast.expr) -> _Parts:
    return [ast.Compare(copy.deepcopy(x), [ast.Eq()], [copy.deepcopy(p.value)])], []


def _singleton(p: Any, x: ast.expr) -> _Parts:
    return [ast.Compare(copy.deepcopy(x), [ast.Is()], [ast.Constant(p.value)])], []


def _as(p: Any, x: ast.expr) -> _Parts:
    tests, bound = ([], []) if p.pattern is None else _parts(p.pattern, x)
    return tests, bound if p.name is None else [*bound, (p.name, x)]


def _or(p: Any, x: ast.expr) -> _Parts:
    found = [_parts(part, x) for part in p.patterns]
    if any(bound for _, bound in found):
        raise _Native
    if not all(tests for tests, _ in found):  # `_` among them matches everything
        return [], []
    each = [t[0] if len(t) == 1 else ast.BoolOp(ast.And(), t) for t, _ in found]
    return [ast.BoolOp(ast.Or(), each)], []


def _sequence(p: Any, x: ast.expr) -> _Parts:
    n = len(p.patterns)
    star = next((i for i, s in enumerate(p.patterns) if isinstance(s, ast.MatchStar)), None)
    parts = [ast.Constant(n if star is None else n - 1), ast.Constant(star is not None)]
    tests: list[ast.expr] = [_asked("sequence", x, *parts)]
    bound: list[tuple[str, ast.expr]] = []
    for i, part in enumerate(p.patterns):
        if i == star:
            if part.name is not None:
                ends = [ast.Constant(i), ast.Constant(n - 1 - i)]
                bound.append((part.name, _asked("middle", x, *ends)))
            continue
        place = i if star is None or i < star else i - n
        item = ast.Subscript(copy.deepcopy(x), ast.Constant(place), ast.Load())
        more, names = _parts(part, at(p, item))
        tests, bound = [*tests, *more], [*bound, *names]
    return tests, bound


def _class(p: ast.MatchClass, x: ast.expr) -> _Parts:
    tests: list[ast.expr] = [_asked("instance", x, p.cls)]
    if not (p.patterns or p.kwd_patterns):
        return tests, []
    keys: list[ast.expr] = [ast.Constant(k) for k in p.kwd_attrs]
    given = [p.cls, ast.Constant(len(p.patterns)), *keys]
    tests.append(ast.Compare(_asked("parts", x, *given), [ast.IsNot()], [ast.Constant(None)]))
    bound: list[tuple[str, ast.expr]] = []
    for i, part in enumerate((*p.patterns, *p.kwd_patterns)):
        value = ast.Subscript(_asked("parts", x, *given), ast.Constant(i), ast.Load())
        more, names = _parts(part, at(p, value))
        tests, bound = [*tests, *more], [*bound, *names]
    return tests, bound


def _asked(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(method(name), [copy.deepcopy(a) for a in args], [])


_RULES: dict[type[ast.pattern], Callable[[Any, ast.expr], _Parts]] = {
    ast.MatchValue: _value,
    ast.MatchSingleton: _singleton,
    ast.MatchAs: _as,
    ast.MatchOr: _or,
    ast.MatchSequence: _sequence,
    ast.MatchClass: _class,
}

# ---------------------------------------------------------------------------------- what they ask

_THEMSELVES = (
    *(bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple),
)  # `float(x)` matches a float and binds it


def sequence(x: Any, n: int, more: bool) -> bool:
    """Whether a sequence pattern of n parts, `more` if one is starred, may match."""
    match x:
        case [*_]:
            return len(x) >= n if more else len(x) == n
        case _:
            return False


def middle(x: Any, before: int, after: int) -> list[Any]:
    """What a starred name is bound to."""
    return list(x[before : len(x) - after])


def instance(x: Any, cls: Any) -> bool:
    """Whether a class pattern may match.

    Raises:
        TypeError: no class, as Python says it.
    """
    if not isinstance(cls, type):
        raise TypeError("called match pattern must be a class")
    return python.is_instance(x, cls)


def parts(x: Any, cls: Any, positional: int, *names: str) -> tuple[Any, ...] | None:
    """What the parts of a class pattern are matched with; None where an attribute is missing.

    Raises:
        TypeError: more positional parts than the class has, as Python says it.
    """
    if positional and issubclass(cls, _THEMSELVES) and not hasattr(cls, "__match_args__"):
        known: tuple[str, ...] | None = None
    else:
        known = getattr(cls, "__match_args__", ())
    if positional > (1 if known is None else len(known)):
        allowed = 1 if known is None else len(known)
        raise TypeError(
            f"{cls.__name__}() accepts {allowed} positional sub-patterns ({positional} given)"
        )
    wanted = (*(() if known is None else known[:positional]), *names)
    missing = object()
    found = tuple(getattr(x, name, missing) for name in wanted)
    if any(v is missing for v in found):
        return None
    return (x, *found) if known is None and positional else found
