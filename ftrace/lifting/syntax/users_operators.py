"""Operators, items, attributes and truth of users' classes in lifted code.

`a * b`, `a[i]`, `a.norm`, `with a:` run methods that no call names. Where tracing failed in one of
them (`Territory.follow`), the functions are rewritten once more with each of these written as a
call of `_ft.operate`, `_ft.attribute` or `_ft.managed`. These follow Python's protocols with the
methods lifted; values that are not of a class written in Python go Python's own way.
"""

import ast
import functools
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ftrace.core.trace import Tracer, lifted
from ftrace.lifting.staging.managers import LiftedManager
from ftrace.lifting.state.roots import is_denied
from ftrace.lifting.substitutes import array_functions, python
from ftrace.lifting.substitutes.scipy_names import is_sparse, is_traced, traceable
from ftrace.lifting.syntax.expressions import at, load, method

_BINARY: Final = {
    **{
        name: (getattr(operator, name), f"__{name}__", f"__r{name}__")
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
    },
    "divmod": (divmod, "__divmod__", "__rdivmod__"),
    **{
        name: (getattr(operator, plain), f"__{name}__", f"__r{name}__")
        for name, plain in (
            *(("and", "and_"), ("or", "or_"), ("xor", "xor")),
            *(("lshift", "lshift"), ("rshift", "rshift")),
        )
    },
    **{
        name: (getattr(operator, name), f"__{name}__", f"__{other}__")
        for name, other in zip(
            ("lt", "le", "gt", "ge", "eq", "ne"), ("gt", "ge", "lt", "le", "eq", "ne"), strict=True
        )
    },
}
_UNARY: Final = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}
_WORDS: Final[dict[type[ast.AST], str]] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Mod: "mod"},
    **{ast.FloorDiv: "floordiv", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and"},
    **{ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift"},
    **{ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"},
    **{ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.In: "in", ast.NotIn: "in"},
}
ITERATING: Final = ("range", "zip", "enumerate", "reversed")
_SEQUENCES: Final = (list, tuple, str, bytes, bytearray)  # their operators come after the other's


# ---------------------------------------------------------------------------------- what they do


def own_method(x: Any, name: str) -> Callable[..., Any] | None:
    """The lifted method of a value whose class is written in Python, by a user."""
    if issubclass(type(x), Tracer | np.ndarray | np.generic | type):
        return None
    found = getattr(type(x), name, None)
    if type(found) is not types.FunctionType:
        return None
    if is_denied(found.__code__.co_filename, str(found.__globals__.get("__name__"))):
        return None
    return types.MethodType(lifted(found), x)


def operate(name: str, *args: Any) -> Any:
    """An operator by its name, with the methods of users' classes lifted.

    A sparse matrix of SciPy's becomes one that may meet traced values.
    """
    if any(map(is_sparse, args)) and any(map(is_traced, args)):
        args = tuple(map(traceable, args))
    if name in _BINARY:
        return _binary(name, *args)
    if name[0] == "i" and name[1:] in _BINARY:
        made = own_method(args[0], f"__{name}__")
        found = NotImplemented if made is None else made(args[1])
        if found is not NotImplemented:
            return found
        if own_method(args[0], f"__{name[1:]}__") or own_method(args[1], f"__r{name[1:]}__"):
            return _binary(name[1:], *args)
        return getattr(operator, f"__{name}__")(*args)
    if name == "in":
        made = own_method(args[1], "__contains__")
        return python.contains(args[1], args[0]) if made is None else made(args[0])
    made = own_method(args[0], {"getitem": "__getitem__", "truth": "__bool__"}.get(name, ""))
    made = made or own_method(args[0], f"__{name}__")
    if made is not None:
        return made(*args[1:])
    return _UNARY[name](*args) if name in _UNARY else _PLAIN[name](*args)


_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "getitem": array_functions.item,
    "truth": lambda x: x,
    "iter": lambda x: x,
}


def _binary(name: str, a: Any, b: Any) -> Any:
    plain, forward, backward = _BINARY[name]
    mine, theirs = own_method(a, forward), own_method(b, backward)
    if mine is None and theirs is None:
        return plain(a, b)
    if mine is None and not isinstance(a, _SEQUENCES):
        native = getattr(type(a), forward, None)
        mine = None if native is None else functools.partial(native, a)
    sides = [(mine, b), (theirs, a)]
    if type(a) is type(b) and plain not in _COMPARING:
        del sides[1]
    elif type(a) is not type(b) and issubclass(type(b), type(a)) and theirs is not None:
        sides.reverse()
    for side, other in sides:
        found = NotImplemented if side is None else side(other)
        if found is not NotImplemented:
            return found
    return plain(a, b)  # raises, or compares by identity


_COMPARING: Final = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def attribute(x: Any, name: str) -> Any:
    """`x.name`, with a property, descriptor or `__getattr__` of a user's class lifted."""
    kind = type(x)
    if issubclass(kind, Tracer):
        return python.attribute(x, name)
    classes = _classes_asked(x)
    found = _of_classes(classes, name)
    if type(found) is property and type(found.fget) is types.FunctionType:
        return lifted(found.fget)(x.__self__ if kind is super else x)
    return _of_instance(x, name, found) if classes and kind is not super else getattr(x, name)


def _classes_asked(x: Any) -> tuple[type, ...]:
    """The classes in which Python looks for attributes of an object; none if it looks elsewhere."""
    kind = type(x)
    if kind is types.ModuleType or issubclass(kind, np.ndarray | type):
        return ()
    if kind is super:
        classes = x.__self_class__.__mro__
        return classes[classes.index(x.__thisclass__) + 1 :]
    # written in C: object's, and those of tuples, dicts and numbers
    own = type(kind.__getattribute__) is not types.WrapperDescriptorType
    return () if own else kind.__mro__


def _of_instance(x: Any, name: str, found: Any) -> Any:
    """An attribute of an object whose class has `found` under its name."""
    if type(found) is functools.cached_property:
        if name not in vars(x):
            vars(x)[name] = lifted(found.func)(x)
        return vars(x)[name]
    stored = name in getattr(x, "__dict__", ())
    read = own_method(found, "__get__")
    if read is not None and (hasattr(type(found), "__set__") or not stored):
        return read(x, type(x))
    fallback = own_method(x, "__getattr__")
    if fallback is None or found is not None or stored:
        return getattr(x, name)
    return fallback(name)


def class_attribute(kind: type, name: str) -> Any:
    """What a class has under a name, before it is bound to an object."""
    return _of_classes(kind.__mro__, name)


def _of_classes(classes: Iterable[type], name: str) -> Any:
    return next((vars(c)[name] for c in classes if name in vars(c)), None)


def fetched(x: Any, name: str, *default: Any) -> Any:
    """`getattr`."""
    if default and issubclass(type(x), Tracer):
        return python.fetched(x, name, default[0])
    try:
        return attribute(x, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def by_method(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A builtin (`abs`, `float`) that asks its first argument for a method."""

    @functools.wraps(plain, ("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def builtin(*args: Any, **options: Any) -> Any:
        made = own_method(args[0], name) if args else None
        return plain(*args, **options) if made is None else made(*args[1:], **options)

    return builtin


def functions() -> dict[Any, Callable[..., Any]]:
    """What takes the place of Python's functions that run methods of users' classes."""
    table = {plain: functools.partial(operate, name) for name, (plain, *_) in _BINARY.items()}
    table |= {plain: functools.partial(operate, name) for name, plain in _UNARY.items()}
    return table | {operator.getitem: functools.partial(operate, "getitem"), getattr: fetched}


def managed(x: Any) -> Any:
    """What `with x` enters."""
    enter, leave = own_method(x, "__enter__"), own_method(x, "__exit__")
    return x if enter is None or leave is None else LiftedManager(x, enter, leave)


# ---------------------------------------------------------------------------------- where they are


class Operators(ast.NodeTransformer):
    """Writes the operators of one function, not those of functions in it, as calls."""

    def of(self, node: Any) -> Any:
        """A function's own statements, rewritten in place."""
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = [self.visit(s) for s in node.body]
        return ast.fix_missing_locations(node)

    def _kept(self, node: Any) -> Any:
        return node

    visit_Lambda = visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _kept  # noqa: N815
    visit_Raise = visit_JoinedStr = _kept  # noqa: N815 - texts are read by `checks.py`

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return _operated(node, _WORDS[type(node.op)], node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = _test(node.operand)
            return node
        if isinstance(node.operand, ast.Constant):
            return node
        return _operated(node, _WORDS[type(node.op)], node.operand)

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) > 1 or isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        op = node.ops[0]
        made = _operated(node, _WORDS[type(op)], node.left, node.comparators[0])
        return at(node, ast.UnaryOp(ast.Not(), made)) if isinstance(op, ast.NotIn) else made

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        name = f"i{_WORDS[type(node.op)]}"
        value = _operated(node, name, load(node.target.id), node.value)
        return at(node, ast.Assign([node.target], value))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.ctx, ast.Load):
            node.slice = self.visit(node.slice)
            return self._target(node, None)
        self.generic_visit(node)
        if _is_sliced(node):
            return node
        return _operated(node, "getitem", node.value, node.slice)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if not isinstance(node.ctx, ast.Load):
            return self._target(node, node.attr)
        self.generic_visit(node)
        if node.attr.startswith("__") and not node.attr.endswith("__"):
            return node
        return at(node, ast.Call(method("attribute"), [node.value, ast.Constant(node.attr)], []))

    def _target(self, node: ast.Subscript | ast.Attribute, name: str | None) -> Any:
        """What is assigned or deleted in an object (`users_targets.py`)."""
        holder, keys = node.value, []
        while isinstance(holder, ast.Subscript) and not _is_sliced(holder):
            holder, keys = holder.value, [holder.slice, *keys]
        args: list[ast.expr] = [ast.Constant(name), *map(self.visit, (holder, *keys))]
        node.value = at(node.value, ast.Call(method("target"), args, []))
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if any(isinstance(t, ast.Tuple | ast.List) for t in node.targets):
            node.value = _operated(node.value, "iter", node.value)
        return node

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        if not _is_counted(node.iter):
            node.iter = _operated(node.iter, "iter", node.iter)
        return node

    def visit_withitem(self, node: ast.withitem) -> Any:
        self.generic_visit(node)
        made = ast.Call(method("managed"), [node.context_expr], [])
        node.context_expr = at(node.context_expr, made)
        return node

    def _decision(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = _test(node.test)
        return node

    visit_If = visit_While = visit_IfExp = _decision  # noqa: N815

    def visit_Assert(self, node: ast.Assert) -> Any:
        node.test = _test(self.visit(node.test))
        return node


def _operated(node: Any, name: str, *args: ast.expr) -> Any:
    return at(node, ast.Call(method("operate"), [ast.Constant(name), *args], []))


def _is_sliced(node: ast.Subscript) -> bool:
    return any(isinstance(n, ast.Slice | ast.Starred) for n in ast.walk(node.slice))


def _is_counted(node: ast.expr) -> bool:
    """Whether a loop runs over what takes traced values."""
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return named and node.func.id in ITERATING  # type: ignore[union-attr]


def _test(node: ast.expr) -> ast.expr:
    """A test whose truth a method may tell."""
    if isinstance(node, ast.Name | ast.Call) and not isinstance(node, ast.Constant):
        return _operated(node, "truth", node)
    return node
