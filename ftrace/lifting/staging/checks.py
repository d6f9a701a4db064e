"""`assert` and `raise` where traced values decide: errors that are made when the function runs.

The expression of the error is compiled as a region and evaluated on the host, with the values
that the member has there: so its text and its class are Python's. Derivatives pass by.
"""

import ast
import builtins
import copy
from collections.abc import Callable
from typing import Any

from ftrace.control.rows.raising import fail_where, follow
from ftrace.core.trace import Tracer
from ftrace.lifting.staging.sites import Region, Site
from ftrace.lifting.state import names
from ftrace.lifting.state.leaves import truth
from ftrace.lifting.state.local_state import MISSING, LocalFrame, Outcome
from ftrace.lifting.state.names import RAISE, RETURN
from ftrace.lifting.state.throwing import RaisedFrom, parts
from ftrace.primitives.compare import bitwise_not


class Thrown(Site):
    """An expression that an error is made of, evaluated when the error is raised."""

    def prepared(
        self, frame: LocalFrame, expr: ast.expr | None
    ) -> tuple[list[Any], Callable[..., Any]]:
        """The traced values that an expression reads, and a function of theirs that gives it."""
        if expr is None:
            return [], lambda *_: None
        paths = _Paths(frame)
        region = self._region_of(paths.visit(copy.deepcopy(expr)))

        def evaluated(*values: Any) -> Any:
            supply = iter(values)
            state = {n: v for n, v in frame.state.items() if n not in paths.found}
            for name, (leaves, made) in paths.found.items():
                state[name] = made([next(supply) if isinstance(x, Tracer) else x for x in leaves])
            return region.call(frame.copied(state), state).value

        traced = [x for leaves, _ in paths.found.values() for x in leaves if isinstance(x, Tracer)]
        return traced, evaluated

    def _region_of(self, expr: ast.expr) -> Region:
        cache = self.__dict__.setdefault("_regions", {})
        key = ast.dump(expr)
        if key not in cache:
            made = ast.copy_location(ast.Return(expr), expr)
            cache[key] = self.region([ast.fix_missing_locations(made)], {RETURN: names.NONE})
        return cache[key]


class Raising(Thrown):
    """`raise`."""

    def raised(self, local: Any, probe: Any) -> Outcome:
        """The exit of a region by `raise`."""
        frame = LocalFrame(local, probe)
        values, made = self.prepared(frame, self.node.exc)
        reasons, reason = self.prepared(frame, self.node.cause)
        kind, origin = _kind_of(frame, self.node.exc), RaisedFrom()
        of_handled = getattr(self.node, "is_from_handled", False)
        n, m = len(values), len(values) + len(reasons)

        def throw(*values: Any) -> None:
            error, cause = made(*values[:n]), ()
            if of_handled:
                cause = (origin.error(values[m:]),)
            elif self.node.cause is not None:
                cause = (reason(*values[n:m]),)
            origin.throw(error() if isinstance(error, type) else error, values[m:], *cause)

        throw.tells_origin = origin.is_known  # type: ignore[attr-defined]
        fail_where(True, (*values, *reasons, *origin.values), throw, kind)
        follow()
        return Outcome(RAISE, frame.state)

    def again(self, local: Any, probe: Any) -> Outcome:
        """The exit of a handler by `raise`."""
        return self.template.helper.reraise(LocalFrame(local, probe))


class Asserting(Thrown):
    """`assert`."""

    def check(self, test: Any, local: Any, probe: Any) -> None:
        """Check a traced condition when the function runs; the message sees the values then."""
        values, made = self.prepared(LocalFrame(local, probe), self.node.msg)

        def throw(*values: Any) -> None:
            raise AssertionError(*(() if self.node.msg is None else (made(*values),)))

        fail_where(bitwise_not(truth(test)), values, throw, AssertionError)


def _kind_of(frame: LocalFrame, expr: Any) -> type[BaseException]:
    """The class of an error, as far as its expression tells."""
    called = expr.func if isinstance(expr, ast.Call) else expr
    found = _Paths(frame).value(called)
    if isinstance(found, BaseException):
        return type(found)
    fits = isinstance(found, type) and issubclass(found, BaseException)
    return found if fits else BaseException


class _Paths(ast.NodeTransformer):
    """Puts names in the place of paths (`a`, `a.b.c`) that lead to traced values.

    Attributes:
        found: name -> the value's leaves, and the value with others in their places.
    """

    def __init__(self, frame: LocalFrame) -> None:
        self._frame = frame
        self.found: dict[str, tuple[list[Any], Callable[[list[Any]], Any]]] = {}

    def value(self, node: ast.AST) -> Any:
        """What a path leads to; MISSING if it is none, or leads nowhere."""
        if isinstance(node, ast.Name):
            for scope in (self._frame.state, self._frame.globals, vars(builtins)):
                if node.id in scope:
                    return scope[node.id]
            return MISSING
        if not isinstance(node, ast.Attribute):
            return MISSING
        holder = self.value(node.value)
        if holder is MISSING or isinstance(holder, Tracer):
            return MISSING
        return getattr(holder, node.attr, MISSING)

    def visit_Name(self, node: ast.Name) -> Any:
        return self._replaced(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        new = self._replaced(node)
        return self.generic_visit(node) if new is node else new

    def _replaced(self, node: Any) -> Any:
        found = self.value(node)
        if found is MISSING or not isinstance(node.ctx, ast.Load):
            return node
        leaves, made = parts(found)
        if not any(isinstance(x, Tracer) for x in leaves):
            return node
        name = node.id if isinstance(node, ast.Name) else f"_ft_c_{ast.unparse(node)}"
        name = name.replace(".", "_")
        self.found[name] = leaves, made
        return ast.copy_location(ast.Name(name, ast.Load()), node)
