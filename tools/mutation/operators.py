"""What a planted bug can be: for a node of the syntax tree, the texts that could replace it.

Each operator is a function from a node to (name of the operator, replacement) pairs. Replacements
are built from the source texts of the node's parts, so that the difference is as small as a slip
of a programmer: a dropped term, swapped operands, a flipped sign, a shifted axis, a removed check.
Operators know ftrace's rows by name (`neg`, `select`, `collapse`), not what they mean to a file.
"""

import ast
from collections.abc import Callable, Iterator

Change = tuple[str, str]  # operator, replacement
Text = Callable[[ast.AST], str]

# Calls with a first operand that a careless rule would forget to make.
_WRAPPERS = (
    "collapse spread materialise instantiate renew owned move_axis place_axis reversed sorted "
    "squeeze reshape convert_element_type broadcast_rank0 place add_axis plain whole_mask conj "
    "neg expand_dims rev frozen strengthen reduce_sum _full _nonzero abs real imag sign transpose "
    "flatten_masked"
)
WRAPPERS = frozenset(_WRAPPERS.split())
METHODS = frozenset({"fresh", "copy", "view"})
TERMS = {
    "add": (0, 1),
    "mul": (0, 1),
    "sub": (0,),
    "div": (0,),
    "bitwise_and": (0, 1),
    "bitwise_or": (0, 1),
}
_ORDERED = (
    "sub div pow mod rem floor_divide atan2 copysign complex gt ge lt le xlogy ldexp igamma "
    "igammac zeta polygamma shift_left shift_right"
)
ORDERED = frozenset(_ORDERED.split())
_PAIRS = (
    "add sub,mul div,sin cos,sinh cosh,gt lt,ge le,eq ne,max min,fmax fmin,real imag,floor ceil,"
    "bitwise_and bitwise_or,exp expm1,log log1p,reduce_max reduce_min,reduce_and reduce_or,"
    "argmax argmin,cummax cummin,shift_left shift_right,igamma igammac,i0 i1,i0e i1e,asin acos,"
    "asinh acosh,scatter_add scatter,erf erfc,isnan isinf,logaddexp logaddexp2,exp2 exp,"
    "log2 log10,gather scatter,square sqrt,maximum minimum,any all,"
    "cumsum cumprod,copysign nextafter,tan tanh"
)
NEIGHBOURS = {a: b for p in _PAIRS.split(",") for a, b in (p.split(), p.split()[::-1])}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.FloorDiv: "*",
}
_MASKS: dict[object, str] = {"same": "", "move": "same", "sum": "", "call": ""}
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.Tuple, ast.List)
DROPPABLE = frozenset({"partial", "effects", "stage", "out", "mask"})


def wrapped(node: ast.AST, text: str) -> str:
    """The text of an expression, in parentheses where its context could take it apart."""
    return text if isinstance(node, _ATOMS) else f"({text})"


def called(node: ast.AST) -> str:
    """The last name of what is called: `add` of `add(x, y)`, `renew` of `core.renew(x)`."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def checks(node: ast.AST) -> str:
    """What kind of check an operand of `and`, or a condition, is."""
    names = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    for name, kind in (("owner", "tag-check"), ("owns", "tag-check"), ("alive", "liveness-check")):
        if name in names:
            return kind
    return "zero-handling" if "ZERO" in names else "condition"


# ---------------------------------------------------------------------------------- expressions


def of_call(node: ast.Call, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """Operands dropped, swapped or left unwrapped, and another function called."""
    name, args = called(node), node.args
    plain = not any(isinstance(a, ast.Starred) for a in args)
    if isinstance(node.func, ast.Attribute) and name in METHODS and not args:
        yield f"drop-{name}", text(node.func.value)
    if plain and args:
        for i in TERMS.get(name, ()) if len(args) == 2 else ():
            yield "drop-term", wrapped(args[i], text(args[i]))
        if name in WRAPPERS:
            yield _dropped(name), wrapped(args[0], text(args[0]))
    if plain and len(args) >= 2 and name in ORDERED:
        yield "swap-operands", _with_args(node, text, [args[1], args[0], *args[2:]])
    if plain and name == "select" and len(args) == 3:
        yield "swap-operands", _with_args(node, text, [args[0], args[2], args[1]])
        yield "drop-select", wrapped(args[1], text(args[1]))
    if not plain and len(args) >= 2 and name not in ("zip", "map"):
        yield "swap-operands", _with_args(node, text, [args[1], args[0], *args[2:]])
    other = NEIGHBOURS.get(name)
    if isinstance(node.func, ast.Name) and other in bound:
        yield "neighbour", str(other) + text(node).removeprefix(name)


def _dropped(name: str) -> str:
    return "flip-sign" if name == "neg" else f"drop-{name}"


def _with_args(node: ast.Call, text: Text, args: list[ast.expr]) -> str:
    keywords = [
        f"{k.arg}={text(k.value)}" if k.arg else f"**{text(k.value)}" for k in node.keywords
    ]
    return f"{text(node.func)}({', '.join([*map(text, args), *keywords])})"


def of_attribute(node: ast.Attribute, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """NumPy's or Python's neighbouring function."""
    if text(node.value) in ("np", "operator") and node.attr in NEIGHBOURS:
        yield "neighbour", f"{text(node.value)}.{NEIGHBOURS[node.attr]}"


def of_binop(node: ast.BinOp, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """The other sign, the other order, or one term alone."""
    left, right = (wrapped(x, text(x)) for x in (node.left, node.right))
    other = _BINARY.get(type(node.op))
    if other and not _is_text(node):
        yield "flip-sign" if other in "+-" else "other-operator", f"({left} {other} {right})"
    if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod) and not _is_text(node):
        symbol = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}[type(node.op)]
        yield "swap-operands", f"({right} {symbol} {left})"
    yield "drop-term", left
    if isinstance(node.op, ast.Add | ast.BitOr | ast.BitAnd):
        yield "drop-term", right


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(x, ast.JoinedStr | ast.List | ast.Tuple) for x in (node.left, node.right))


def of_boolop(node: ast.BoolOp, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """One operand dropped; `and` for `or`."""
    word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    parts = [wrapped(v, text(v)) for v in node.values]
    for i, value in enumerate(node.values):
        left = parts[:i] + parts[i + 1 :]
        yield f"drop-{checks(value)}", f"({f' {word} '.join(left)})" if left[1:] else left[0]
    yield "and-or", f"({f' {other} '.join(parts)})"


def of_compare(node: ast.Compare, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """The comparison at the boundary, or its opposite."""
    if len(node.ops) == 1:
        left, right = (wrapped(x, text(x)) for x in (node.left, node.comparators[0]))
        yield "compare", f"({left} {_COMPARE[type(node.ops[0])]} {right})"
    else:
        last = " ".join(
            f"{'<' if isinstance(o, ast.LtE) else '<='} {wrapped(c, text(c))}"
            for o, c in zip(node.ops, node.comparators, strict=True)
        )
        if all(isinstance(o, ast.Lt | ast.LtE) for o in node.ops):
            yield "compare", f"({wrapped(node.left, text(node.left))} {last})"


def of_ifexp(node: ast.IfExp, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """The two sides exchanged; one side always."""
    body, test, other = (wrapped(x, text(x)) for x in (node.body, node.test, node.orelse))
    yield f"negate-{checks(node.test)}", f"({other} if {test} else {body})"
    yield "one-side", body
    yield "one-side", other


def of_unary(node: ast.UnaryOp, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """Without its sign or its `not`."""
    kind = "drop-not" if isinstance(node.op, ast.Not) else "flip-sign"
    if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield kind, wrapped(node.operand, text(node.operand))


def of_constant(node: ast.Constant, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """Off by one, twice as much, or the other truth."""
    value = node.value
    if isinstance(value, bool):
        yield "constant", str(not value)
    elif isinstance(value, int):
        yield "off-by-one", str(value + 1)
        if value > 0:
            yield "off-by-one", str(value - 1)
    elif isinstance(value, float):
        yield "constant", repr(value * 2 if value else 1.0)
    elif isinstance(value, str) and value in ("f", "c", "fc", "iu", "b"):
        yield "other-kind", repr({"f": "c", "c": "f", "fc": "f", "iu": "i", "b": "i"}[value])


def of_slice(node: ast.Slice, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """The other end of a sequence."""
    if node.lower and not node.upper and not node.step:
        yield "other-end", f":{text(node.lower)}"
    elif node.upper and not node.lower and not node.step:
        yield "other-end", f"{text(node.upper)}:"


def of_sequence(node: ast.Tuple | ast.List, text: Text, bound: frozenset[str]) -> Iterator[Change]:
    """Parts in another order, or one left out."""
    elts, brackets = node.elts, "()" if isinstance(node, ast.Tuple) else "[]"
    starred = any(isinstance(e, ast.Starred) for e in elts)
    rules = len(elts) == 2 and any(isinstance(e, ast.Lambda) for e in elts)
    if not isinstance(node.ctx, ast.Load) or len(elts) < 2 or not (starred or rules):
        return
    parts = [text(e) for e in elts]
    yield "swap-parts", f"{brackets[0]}{', '.join([parts[1], parts[0], *parts[2:]])}{brackets[1]}"


EXPRESSIONS: dict[type[ast.AST], Callable[..., Iterator[Change]]] = {
    ast.Attribute: of_attribute,
    ast.Call: of_call,
    ast.BinOp: of_binop,
    ast.BoolOp: of_boolop,
    ast.Compare: of_compare,
    ast.IfExp: of_ifexp,
    ast.UnaryOp: of_unary,
    ast.Constant: of_constant,
    ast.Slice: of_slice,
    ast.Tuple: of_sequence,
    ast.List: of_sequence,
}


# ---------------------------------------------------------------------------------- statements


def of_condition(node: ast.If) -> Iterator[Change]:
    """Replacements of an `if` statement's condition: never, and the opposite."""
    leaves = isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
    kind = "check" if isinstance(node.body[-1], ast.Raise) else checks(node.test)
    if leaves:
        yield f"drop-{kind}", "False"
    if kind != "check":
        yield f"negate-{kind}", "not"


def droppable(node: ast.stmt, known: set[str]) -> bool:
    """Whether a statement can be left out and leave a program that still runs."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return not isinstance(target, ast.Name | ast.Tuple) or getattr(target, "id", "") in known
    return isinstance(node, ast.Break | ast.Continue)


# ---------------------------------------------------------------------------------- columns


def of_column(keyword: ast.keyword, text: Text) -> Iterator[Change]:
    """Replacements of a column of a row: another kind of rule, or none."""
    value, name = keyword.value, keyword.arg
    if isinstance(value, ast.Name) and value.id in ("LINEAR", "NONDIFFERENTIABLE"):
        yield "other-rule", '"nondifferentiable"' if value.id == "LINEAR" else '"linear"'
    if name == "mask" and isinstance(value, ast.Constant):
        yield "drop-mask", repr(_MASKS[value.value])
    if name in DROPPABLE - {"mask"}:
        yield f"drop-{name}", "None"
    if name == "jvp" and isinstance(value, ast.Tuple):
        first, second, *both = map(text, value.elts)
        for pair in ((first, "None"), ("None", second)):
            if pair != (first, second):
                yield "drop-rule", f"({', '.join((*pair, *both))})"
