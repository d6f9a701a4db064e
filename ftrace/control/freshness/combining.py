"""Operators and what is put together, as the reader of functions takes them (`stack.py`)."""

import dis
import operator
import sys
from collections.abc import Collection
from typing import Any, Final

from ftrace.control.freshness.bytecode import Instruction
from ftrace.control.freshness.meanings import note_class
from ftrace.control.freshness.names_of_calls import BINARY, COMPARING, UNARY
from ftrace.control.freshness.stack import Reader, Stack, on, popped
from ftrace.control.freshness.values import (
    NOTHING,
    TRACED,
    Container,
    Value,
    bag,
    constant,
    is_container,
    united,
)
from ftrace.core.sameness import SCALARS

_COMPARE: Final = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq,
    "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: Final = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod,
    "//": operator.floordiv, "&": operator.and_, "|": operator.or_,
}  # fmt: skip
_SYMBOLS: Final = [symbol for _, symbol in dis._nb_ops]  # type: ignore[attr-defined]
_SHIFT: Final = {11: 0, 12: 4}.get(sys.version_info[1], 5)  # of the comparison in its argument


# ---------------------------------------------------------------------------------- operators


@on("BINARY_OP")
def _binary(m: Reader, stack: Stack, i: Instruction) -> None:
    a, b = popped(stack, 2)
    symbol = _SYMBOLS[i.arg]
    if symbol == "[]":  # BINARY_SUBSCR since 3.14
        stack.append(m.item(a, b))
        return
    if symbol.startswith("%") and a.refs and type(a.refs[0]) is str:
        m.show(b)
    if a.origin is not None and _updates(m, i, a.origin[2]):
        m.facts.without(*a.origin[:2])
    sign = symbol.rstrip("=")
    stack.append(_operated(m, a, b, _ARITHMETIC.get(sign), BINARY[sign]))


def _updates(m: Reader, i: Instruction, key: Any) -> bool:
    """Whether the result is stored where the left operand came from (`self.calls += 1`)."""
    following = m.frame.listing.instructions
    at = next(n for n, j in enumerate(following) if j is i) + 1
    while at < len(following) and following[at].name in ("SWAP", "COPY"):
        at += 1
    store = following[at]
    return store.name == "STORE_SUBSCR" or (store.name.startswith("STORE_") and store.value == key)


def _operated(m: Reader, a: Value, b: Value, by: Any, names: Collection[str]) -> Value:
    for v, w in ((a, b), (b, a)):
        if v.refs and type(v.refs[0]) not in SCALARS:
            m.use(v, w.traced)
            if w.traced:
                m.operate(v.refs, [w], names)
    if a.traced or b.traced:
        return TRACED
    if by is not None and _are_plain(a, b):
        try:
            return m.computed(by(a.refs[0], b.refs[0]))
        except Exception:  # the run says so, too
            return NOTHING
    lists = any(isinstance(x, Container) or is_container(x) for v in (a, b) for x in v.refs)
    found = [m.within([a, b]) if lists else NOTHING]
    found += [m.operate(v.refs, [w], names) for v, w in ((a, b), (b, a))]
    return united(found)


def _tuple(*parts: Any) -> tuple[Any, ...]:
    return parts


def _are_plain(a: Value, b: Value) -> bool:
    """Whether both are known, and small enough to be computed with here."""
    if not (a.exact and b.exact and _is_plain(a) and _is_plain(b)):
        return False
    return isinstance(a.refs[0], str) is isinstance(b.refs[0], str)


def _is_plain(v: Value) -> bool:
    x = v.refs[0]
    return type(x) in (bool, int, float) or (type(x) is str and len(x) < 1000)


@on("COMPARE_OP")
def _compare(m: Reader, stack: Stack, i: Instruction) -> None:
    a, b = popped(stack, 2)
    stack.append(_operated(m, a, b, _COMPARE[dis.cmp_op[i.arg >> _SHIFT]], COMPARING))


@on("IS_OP")
def _is(m: Reader, stack: Stack, i: Instruction) -> None:
    a, b = popped(stack, 2)
    if a.exact and b.exact:
        stack.append(constant((a.refs[0] is b.refs[0]) != bool(i.arg)))
    else:
        none = (a.traced and b.exact and b.refs[0] is None) or (
            b.traced and a.exact and a.refs[0] is None
        )
        stack.append(constant(bool(i.arg)) if none else NOTHING)


@on("CONTAINS_OP")
def _contains(m: Reader, stack: Stack, i: Instruction) -> None:
    item, container = popped(stack, 2)
    if item.exact and container.exact and type(item.refs[0]) in SCALARS:
        holder, key = container.refs[0], item.refs[0]
        if type(holder) is str and type(key) is str:
            stack.append(constant((key in holder) != bool(i.arg)))
            return
        if isinstance(holder, dict) and is_container(holder):
            if key in holder:
                m.read("item", holder, key, holder[key])
            else:
                m.facts.absent("item", holder, key, m.site)
            complete = key not in m.stored and ... not in m.stored
            stack.append(Value(((key in holder) != bool(i.arg),), complete))
            return
    m.use(item, container.traced)
    m.use(container, item.traced)
    m.within([container])
    m.operate(container.refs, [item])
    m.operate(item.refs, [container], ("__eq__", "__hash__"))
    stack.append(TRACED if container.traced and item.traced else NOTHING)


@on("UNARY_NOT", "UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE")
def _unary(m: Reader, stack: Stack, i: Instruction) -> None:
    v = popped(stack, 1)[0]
    if i.name == "UNARY_NOT":
        known = m.truth(v)
        if known is not None:
            stack.append(constant(not known))
            return
    m.use(v)
    if v.traced:
        stack.append(TRACED)
        return
    if v.exact and type(v.refs[0]) in (int, float) and i.name == "UNARY_NEGATIVE":
        stack.append(m.computed(-v.refs[0]))
        return
    stack.append(united([NOTHING, m.operate(v.refs, [], UNARY[i.name])]))


# ---------------------------------------------------------------------------------- building


@on("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING")
def _build(m: Reader, stack: Stack, i: Instruction) -> None:
    parts = popped(stack, i.arg)
    plain = i.name == "BUILD_TUPLE" and all(p.exact and type(p.refs[0]) in SCALARS for p in parts)
    if plain and parts:
        stack.append(constant(m.one(_tuple, *(p.refs[0] for p in parts))))
    else:
        _put_together(m, stack, parts, parts if i.name != "BUILD_SET" else None)


@on("BUILD_MAP")
def _build_map(m: Reader, stack: Stack, i: Instruction) -> None:
    _put_together(m, stack, popped(stack, 2 * i.arg)[1::2])


@on("BUILD_CONST_KEY_MAP")
def _build_const_map(m: Reader, stack: Stack, i: Instruction) -> None:
    _put_together(m, stack, popped(stack, i.arg + 1)[:-1])


def _put_together(m: Reader, stack: Stack, values: Stack, parts: Stack | None = None) -> None:
    made = m.container()
    m.grow(made.make(values, parts))
    stack.append(constant(made))


@on("LIST_APPEND", "SET_ADD", "MAP_ADD")
def _append(m: Reader, stack: Stack, i: Instruction) -> None:
    values = popped(stack, 2 if i.name == "MAP_ADD" else 1)
    _grown(m, stack, i.arg, values[-1:])


@on("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE")
def _extend(m: Reader, stack: Stack, i: Instruction) -> None:
    value = popped(stack, 1)[0]
    added = m.within([value]) if i.name.startswith("DICT") else m.elements(value)
    _grown(m, stack, i.arg, [added])


def _grown(m: Reader, stack: Stack, at: int, values: Stack) -> None:
    for x in stack[-at].refs if at <= len(stack) else ():
        if isinstance(x, Container):
            m.grow(x.hold(values))


@on("LIST_TO_TUPLE")
def _same(m: Reader, stack: Stack, i: Instruction) -> None:
    pass


@on("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
def _format(m: Reader, stack: Stack, i: Instruction) -> None:
    both = i.name == "FORMAT_WITH_SPEC" or (i.name == "FORMAT_VALUE" and i.arg & 4)
    for v in popped(stack, 2 if both else 1):
        m.use(v)
        m.show(v)
    stack.append(NOTHING)


@on("UNPACK_SEQUENCE", "UNPACK_EX")
def _unpack(m: Reader, stack: Stack, i: Instruction) -> None:
    n = i.arg if i.name == "UNPACK_SEQUENCE" else (i.arg & 255) + (i.arg >> 8) + 1
    value = popped(stack, 1)[0]
    found = [_parts_of(m, x, n) for x in value.refs]
    if not found or value.bag or None in found or i.name == "UNPACK_EX":
        part = m.elements(value)
        rest = part._replace(complete=False, bag=True)  # a list of what is over, or one of it
        stack.extend([rest if i.name == "UNPACK_EX" else part] * n)
        return
    for places in list(zip(*found, strict=True))[::-1]:
        part = united(places)
        stack.append(part if value.complete else part._replace(complete=False))


def _parts_of(m: Reader, x: Any, n: int) -> list[Value] | None:
    """What is at each place of something with n items, if that is known."""
    if isinstance(x, Container):
        return x.parts if x.parts is not None and len(x.parts) == n else None
    if not isinstance(x, tuple | list) or not is_container(x) or len(x) != n:
        return None
    if isinstance(x, list):
        m.facts.add("length", x, None, n, m.site)
    return [m.item_at(x, k) for k in range(n)]


# ---------------------------------------------------------------------------------- match


@on("MATCH_KEYS")
def _match_keys(m: Reader, stack: Stack, i: Instruction) -> None:
    subject, keys = stack[-2:]
    _matched(m, stack, subject, [m.item(subject, constant(k)) for k in keys.refs[0]])


@on("MATCH_CLASS")
def _match_class(m: Reader, stack: Stack, i: Instruction) -> None:
    subject, kind, named = popped(stack, 3)
    for x in subject.refs:
        note_class(m, x)
    places = [getattr(x, "__match_args__", ())[: i.arg] for x in kind.refs]
    names = {name for found in (*places, named.refs[0]) for name in found}
    _matched(m, stack, subject, [subject, *(m.attribute(subject, name) for name in sorted(names))])


def _matched(m: Reader, stack: Stack, subject: Value, parts: Stack) -> None:
    """A tuple of what was found, or None."""
    stack.append(bag((x for v in parts for x in v.refs), traced=subject.traced))
