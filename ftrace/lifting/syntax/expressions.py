"""Rewriting expressions: calls, conditional expressions, `and`, `or`, `not`, chained comparisons.

As with statements, what is known is left to Python and only an undecided test is handed to a
site: `(site.choose(t, ...) if _ft.undecided(t := test) else a if t else b)`. In comprehensions,
which have a scope of their own, the parts are lambdas instead of regions.
"""

import ast
import copy
from typing import Any, Final

from ftrace.lifting.sources.asking import is_missed
from ftrace.lifting.staging.sites import And, Choice, Or
from ftrace.lifting.state.names import NONE, REFLECTIVE


def load(name: str) -> ast.Name:
    """The value of a name."""
    return ast.Name(name, ast.Load())


def method(name: str) -> ast.Attribute:
    """`_ft.name`."""
    return ast.Attribute(load("_ft"), name, ast.Load())


def local() -> ast.Call:
    """`_ft.locals()`."""
    return ast.Call(method("locals"), [], [])


def undecided(name: str, test: ast.expr) -> ast.expr:
    """Whether a test, kept as `name`, is undecided; mostly it is True or False itself."""
    value = ast.NamedExpr(ast.Name(name, ast.Store()), test)
    parts: list[ast.expr] = [
        ast.Compare(value, [ast.IsNot()], [ast.Constant(True)]),
        ast.Compare(load(name), [ast.IsNot()], [ast.Constant(False)]),
        ast.Call(method("undecided"), [load(name)], []),
    ]
    return ast.BoolOp(ast.And(), parts)


class Expressions(ast.NodeTransformer):
    """Rewrites copies of expressions and of statements without blocks."""

    def __init__(self, template: Any, emitter: Any) -> None:
        self.template = template
        self.emitter = emitter
        self.inner = False  # in a comprehension

    def of(self, node: Any) -> Any:
        """The rewritten copy of a node."""
        return ast.fix_missing_locations(self.visit(copy.deepcopy(node)))

    def iterable(self, node: ast.expr) -> Any:
        """What a `for` runs over: there `range`, `zip` and `enumerate` take traced values."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            new = ast.Call(
                ast.Call(method("iterating"), [load(node.func.id)], []),
                [self.iterable(a) if node.func.id in _RUNNING else self.of(a) for a in node.args],
                [self.of(k) for k in node.keywords],
            )
            return at(node, new)
        return self.of(node)

    # ------------------------------------------------------------------ calls and functions

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            if not node.args and "__class__" in self.template.cells:
                node.args = [load("__class__"), load(self.template.first)]
            return self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and _is_helper(node.func.value):
            return self.generic_visit(node)
        if _is_fold(node):
            return self._folded(node)
        self.generic_visit(node)
        node.func = at(node.func, ast.Call(method("call"), [node.func], []))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.args = self.visit(node.args)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self._target(node, is_static=_is_static(node.slice))
        self.generic_visit(node)
        if _is_static(node.slice):
            return node
        key = _Slices().visit(node.slice)
        new = at(node, ast.Call(method("item"), [node.value, key], []))
        if node.end_lineno == node.lineno:  # where guards look for it (`control/guards.py`)
            new.end_col_offset = node.end_col_offset
        return new

    def _target(self, node: ast.Subscript | ast.Attribute, is_static: bool) -> Any:
        """What is bound at traced places: `x[i][j] = v` as `_ft.into(x, i)[j] = v`."""
        holder, keys = node.value, []
        while isinstance(holder, ast.Subscript) and not (keys and _is_static(holder.slice)):
            holder, keys = holder.value, [holder.slice, *keys]
        if keys and not all(map(_is_static, keys)) and not any(map(_is_sliced, keys)):
            args = [self.visit(x) for x in (holder, *keys)]
            if isinstance(node, ast.Subscript):
                node.slice = self.visit(node.slice)
        else:
            self.generic_visit(node)
            args = [node.value]
        if len(args) > 1 or not is_static:
            node.value = at(node.value, ast.Call(method("into"), args, []))
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """An array that the function will write may have to be a traced one."""
        is_item = isinstance(node.value, ast.Subscript)
        self.generic_visit(node)
        if is_item and isinstance(node.value, ast.Call):
            bound = ((t.id, node.lineno) for t in node.targets if isinstance(t, ast.Name))
            if not self.template.read_late.isdisjoint(bound):
                node.value.args.append(ast.Constant(True))
        for name in getattr(node, "names", ()):
            node.value = self._cell(load(name), node.value)
        for target in node.targets:
            node.value = self._cell(target, node.value)
        return node

    def _cell(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """The value that an assignment binds, part by part where both sides are tuples."""
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            parts = [*target.elts, *value.elts]
            if len(parts) == 2 * len(value.elts) and not any(map(_is_starred, parts)):
                pairs = zip(target.elts, value.elts, strict=True)
                value.elts = [self._cell(t, v) for t, v in pairs]
            return value
        if isinstance(target, ast.Tuple | ast.List) and not any(map(_is_starred, target.elts)):
            written = [ast.Constant(i) for i, t in enumerate(target.elts) if self._is_written(t)]
            new = isinstance(value, ast.Call) and written
            return at(value, ast.Call(method("cells"), [value, *written], [])) if new else value
        if (
            not self._is_written(target)
            or isinstance(value, ast.Constant | ast.Name)
            or _is_cell(value)
        ):
            return value
        return at(value, ast.Call(method("cell"), [value], []))

    def _is_written(self, target: ast.expr) -> bool:
        return isinstance(target, ast.Name) and target.id in self.template.written

    # ------------------------------------------------------------------ comprehensions

    def visit_ListComp(self, node: Any) -> Any:
        """The first iterable belongs to the scope outside; no walrus may stand in any."""
        outer, self.inner = self.inner, True
        try:
            self.generic_visit(node)
        finally:
            self.inner = outer
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815 - ast's

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        words = ast.Constant("comprehension")
        node.ifs = [at(t, ast.Call(method("decided"), [t, words], [])) for t in node.ifs]
        return node

    def _folded(self, node: ast.Call) -> Any:
        """`fold(x for v in items if test)`: `_ft.fold(fold, False, level)()`."""
        comp: Any = node.args[0]
        fn = self.visit(node.func)
        level = self._level(comp.generators, comp.elt)
        listed = ast.Constant(isinstance(comp, ast.ListComp))
        node.func = at(node.func, ast.Call(method("fold"), [fn, listed, level], []))
        node.args = [self.visit(a) for a in node.args[1:]]
        node.keywords = [self.visit(k) for k in node.keywords]
        return node

    def _level(self, generators: list[ast.comprehension], element: ast.expr) -> Any:
        """One `for` of a comprehension: `_ft.level(items, lambda it: (parts for v in it))`."""
        (first, *others), items = generators, self.iterable(generators[0].iter)
        outer, self.inner = self.inner, True
        try:
            tests = [self.visit(t) for t in first.ifs] or [ast.Constant(True)]
            inside = self._level(others, element) if others else self.visit(element)
            target = self.visit(first.target)
        finally:
            self.inner = outer
        test = tests.pop()
        while tests:
            test = ast.Call(method("both"), [tests.pop(), _lambda(test)], [])
        part = ast.Tuple([_lambda(test), _lambda(inside)], ast.Load())
        parts = ast.GeneratorExp(part, [ast.comprehension(target, load(_ITEMS), [], 0)])
        taking = ast.Lambda(ast.arguments([], [ast.arg(_ITEMS)], None, [], [], None, []), parts)
        return at(element, ast.Call(method("level"), [items, taking], []))

    # ------------------------------------------------------------------ decisions

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        original = copy.deepcopy(node)
        self.generic_visit(node)
        if self.inner:
            arms = [_lambda(node.body), _lambda(node.orelse)]
            return at(node, ast.Call(method("choose"), [node.test, *arms], []))
        site = Choice(self.template, original, (), None, NONE, NONE)
        return self._asked(node, site, node.test, lambda t: ast.IfExp(t, node.body, node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        first, *others = node.values
        rest = others[0] if len(others) == 1 else at(others[0], ast.BoolOp(node.op, others))
        is_and = isinstance(node.op, ast.And)
        original = copy.deepcopy(rest)
        first, rest = self.visit(first), self.visit(rest)
        if self.inner:
            verb = method("both" if is_and else "either")
            return at(node, ast.Call(verb, [first, _lambda(rest)], []))
        site = (And if is_and else Or)(self.template, original, (), None, NONE, NONE)
        return self._asked(node, site, first, lambda t: ast.BoolOp(node.op, [t, rest]))

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 and (may_be_same(node) or isinstance(node.ops[0], _IN)):
            return self._related(node)
        if len(node.ops) == 1 or self.inner:
            return self.generic_visit(node)
        parts: list[ast.expr] = []
        left = node.left
        for i, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if i < len(node.ops) - 1 and not isinstance(right, ast.Name | ast.Constant):
                name = self.emitter.temp("c")
                kept: Any = ast.NamedExpr(ast.Name(name, ast.Store()), right)
                parts.append(at(node, ast.Compare(left, [op], [at(right, kept)])))
                left = at(right, load(name))
            else:
                parts.append(at(node, ast.Compare(left, [op], [right])))
                left = copy.deepcopy(right)
        return self.visit(at(node, ast.BoolOp(ast.And(), parts)))

    def _related(self, node: ast.Compare) -> Any:
        """`x is y`, `x in y`."""
        x, y = self.visit(node.left), self.visit(node.comparators[0])
        contained = isinstance(node.ops[0], _IN)
        made = ast.Call(method("contains"), [y, x], []) if contained else None
        made = at(node, made or ast.Call(method("same"), [x, y], []))
        negate = isinstance(node.ops[0], ast.IsNot | ast.NotIn)
        return at(node, ast.Call(method("negated"), [made], [])) if negate else made

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Where an AttributeError may be caught, numbers have no attributes of arrays."""
        if not isinstance(node.ctx, ast.Load):
            return self._target(node, is_static=True)
        self.generic_visit(node)
        if not is_missed(self.template.outer, node.attr):
            return node
        return at(node, ast.Call(method("attribute_of"), [node.value, ast.Constant(node.attr)], []))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return at(node, ast.Call(method("negated"), [node.operand], []))
        return node

    def _asked(self, node: ast.expr, site: Any, test: ast.expr, known: Any) -> Any:
        t = self.emitter.temp("t")
        asked = undecided(t, test)
        staged = self.emitter.call(site, "choose", load(t))
        return at(node, ast.IfExp(asked, staged, known(load(t))))


class ClassBody(Expressions):
    """The body of a class: what lambdas would be needed for stays, as they do not see its names."""

    visit_IfExp = visit_BoolOp = ast.NodeTransformer.generic_visit  # noqa: N815 - ast's

    def visit_Compare(self, node: ast.Compare) -> Any:
        return super().visit_Compare(node) if len(node.ops) == 1 else self.generic_visit(node)

    def _kept(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _kept  # noqa: N815 - ast's
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _kept  # noqa: N815


def at(old: Any, new: Any) -> Any:
    """A new node at the first line of an old one: a call that spans lines is given its last."""
    for name in ("lineno", "end_lineno"):
        setattr(new, name, old.lineno)
    for name in ("col_offset", "end_col_offset"):
        setattr(new, name, old.col_offset)
    return ast.fix_missing_locations(new)


_IN: Final = (ast.In, ast.NotIn)


def may_be_same(node: ast.Compare) -> bool:
    """Whether a comparison is one by identity, of what may be bools."""
    parts = (node.left, *node.comparators)
    constants = [p.value for p in parts if isinstance(p, ast.Constant)]
    known = len(parts) == 2 and any(type(c) is not bool for c in constants)
    return not known and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)


_RUNNING: Final = frozenset({"range", "zip", "enumerate", "reversed"})  # over their arguments
_ITEMS: Final = "_ft_items"
_FOLDS: Final = frozenset({"sum", "any", "all", "min", "max", "prod"})
_STOPPED: Final = frozenset({"any", "all"})  # by an item: what follows it is not computed


def _is_fold(node: ast.Call) -> bool:
    """Whether a call may fold a comprehension of which not all is computed (`folding.py`)."""
    comp = node.args[0] if node.args else None
    name = getattr(node.func, "id", getattr(node.func, "attr", None))
    stopped = False
    if isinstance(comp, ast.GeneratorExp):
        known = name in _FOLDS
        stopped = name in _STOPPED
    else:  # a list is complete before the arguments that follow are asked for
        plain = all(isinstance(a, ast.Constant | ast.Name) for a in node.args[1:])
        plain = plain and all(isinstance(k.value, ast.Constant | ast.Name) for k in node.keywords)
        known = isinstance(comp, ast.ListComp) and plain and (name in _FOLDS or name == "len")
    return (
        known
        and (stopped or any(g.ifs for g in comp.generators))  # type: ignore[union-attr]
        and not any(g.is_async for g in comp.generators)  # type: ignore[union-attr]
        and not any(map(_is_of_scope, ast.walk(comp)))  # type: ignore[arg-type]
    )


def _is_of_scope(node: ast.AST) -> bool:
    """Whether a node means something else in a lambda."""
    reflects = isinstance(node, ast.Name) and node.id in REFLECTIVE
    return reflects or isinstance(node, ast.NamedExpr | ast.Await)


def _is_helper(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "_ft"


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _is_cell(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _is_helper(node.func.value)
        and node.func.attr == "cell"
    )


def _lambda(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


class _Slices(ast.NodeTransformer):
    """Slices of a key as calls of `slice`."""

    def visit_Slice(self, node: ast.Slice) -> Any:
        parts = [p or ast.Constant(None) for p in (node.lower, node.upper, node.step)]
        return at(node, ast.Call(method("slice"), parts, []))


def _is_sliced(key: ast.expr) -> bool:
    return any(isinstance(n, ast.Slice) for n in ast.walk(key))


def _is_static(key: ast.expr) -> bool:
    """Whether a subscript holds constants only."""
    return not any(isinstance(n, ast.Name) for n in ast.walk(key))
