"""The instructions of Python as the reader of functions takes them: a stack of `Value`s.

One pass goes over a code object in order; the stack at a jump's target is kept until the pass gets
there, and what no kept stack and no predecessor reaches is passed over: so the side of a branch
that a known value does not take. An instruction that is not in the table pops and pushes as `dis`
says, and what it pops counts as used.
"""

import dis
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any, Final

from ftrace.control.freshness.bytecode import Instruction
from ftrace.control.freshness.calling import Calling
from ftrace.control.freshness.facts import COMPARED
from ftrace.control.freshness.names_of_calls import ENTERING, TRUTH
from ftrace.control.freshness.reading import Frame
from ftrace.control.freshness.values import (
    NOTHING,
    NULL,
    UNCHANGING,
    Container,
    Instance,
    Made,
    Value,
    bag,
    class_of,
    constant,
    is_container,
    is_ndarray,
    joined,
    united,
)
from ftrace.core.sameness import SCALARS

_GENERATOR: Final = 0x20
Stack = list[Value]
Handle = Callable[["Reader", Stack, Instruction], Any]
HANDLES: Final[dict[str, Handle]] = {}


def on(*names: str) -> Callable[[Handle], Handle]:
    """The handler of instructions."""

    def enter(handle: Handle) -> Handle:
        HANDLES.update(dict.fromkeys(names, handle))
        return handle

    return enter


class Reader(Calling):
    """The walk of one function and of all that it calls."""

    def __init__(self, most: int = COMPARED) -> None:
        super().__init__(most)
        self._kept: dict[int, Stack] = {}
        self.keywords: tuple[str, ...] = ()  # of keyword arguments, for the next call

    def go(self, frame: Frame) -> None:
        """One pass over the instructions."""
        outer, self._kept = self._kept, {}
        kept = self._kept
        stack: Stack | None = []
        handlers = frame.listing.handlers
        try:
            for i in frame.listing.instructions:
                coming = kept.pop(i.offset, None)
                if coming is not None:
                    stack = list(coming) if stack is None else _merged(stack, coming)
                if i.offset in frame.heads:
                    head = frame.heads[i.offset]
                    stack = list(head) if stack is None else _merged(stack, head)
                if stack is None:
                    continue
                self.here = i
                for h in handlers:
                    if h.start <= i.offset < h.end and h.target not in kept:
                        depth = h.depth
                        kept[h.target] = [
                            *stack[:depth],
                            *[NOTHING] * (depth - len(stack)),
                            NOTHING,
                        ]
                handle = HANDLES.get(i.name, _other)
                stack = None if handle(self, stack, i) is _STOP or i.ends else stack
        finally:
            self._kept = outer

    def jump(self, stack: Stack, target: int) -> None:
        """Keep the stack for a jump."""
        kept = self._kept if target > self.here.offset else self.frame.heads
        known = kept.get(target)
        new = list(stack) if known is None else _merged(known, stack)
        if known is None and kept is not self._kept:  # a loop, whose turns leave the stack alone
            self.frame.changed = True
        kept[target] = new

    def truth(self, value: Value) -> bool | None:
        """What Python decides by a value, if it is known."""
        if value.exact:
            x = value.refs[0]
            if type(x) in SCALARS:
                return bool(x)
            if is_container(x):
                if not isinstance(x, UNCHANGING):
                    self.facts.add("length", x, None, len(x), self.site)
                return bool(len(x))
            if type(x) in _TRUE:
                return True
        for x in value.refs:  # what has no such method is true, until it gets one
            for name in TRUTH:
                self.note_member(class_of(x).__mro__, name)
        self.use(value)
        self.operate(value.refs, [], TRUTH)
        return None


_STOP: Final = object()
_TRUE: Final = (types.FunctionType, types.MethodType, type, types.ModuleType, Made)


def _merged(a: Stack, b: Stack) -> Stack:
    if len(a) != len(b):
        return [*a[: min(len(a), len(b))], *[NOTHING] * abs(len(a) - len(b))]
    return [x if x is y else joined(x, y) for x, y in zip(a, b, strict=True)]


def popped(stack: Stack, n: int) -> Stack:
    """The uppermost values, taken away."""
    if not n:
        return []
    found = stack[-n:]
    del stack[-n:]
    return [NOTHING] * (n - len(found)) + found


def _other(m: Reader, stack: Stack, i: Instruction) -> Any:
    """An instruction that is not in the table."""
    has = i.arg if i.code >= dis.HAVE_ARGUMENT else None
    effect = dis.stack_effect(i.code, has, jump=False)
    taken = popped(stack, max(0, -effect) + (0 if effect > 0 else 1))
    for v in taken:
        m.use(v)
    if i.target >= 0:
        m.jump([*stack, *[NOTHING] * (len(taken) + effect)], i.target)
    stack.extend([NOTHING] * (len(taken) + effect))


# ---------------------------------------------------------------------------------- moving


@on(
    "RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "EXTENDED_ARG", "TO_BOOL",
    "SETUP_ANNOTATIONS", "GET_YIELD_FROM_ITER", "NOT_TAKEN", "CONVERT_VALUE",
)  # fmt: skip
def _nothing(m: Reader, stack: Stack, i: Instruction) -> None:
    pass


@on("PUSH_NULL")
def _null(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.append(NULL)


@on("LOAD_CONST")
def _const(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.append(constant(i.value))


@on("LOAD_SMALL_INT")
def _small(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.append(constant(i.arg))


@on("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE")
def _load(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.append(m.variable(m.frame, i.value))


@on("LOAD_FAST_AND_CLEAR")
def _load_and_clear(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.append(NOTHING)


@on("LOAD_FAST_LOAD_FAST")
def _load_two(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.extend(m.variable(m.frame, name) for name in i.value)


@on("STORE_FAST", "STORE_DEREF")
def _store(m: Reader, stack: Stack, i: Instruction) -> None:
    m.bind(m.frame, i.value, popped(stack, 1)[0])


@on("STORE_FAST_LOAD_FAST")
def _store_load(m: Reader, stack: Stack, i: Instruction) -> None:
    m.bind(m.frame, i.value[0], popped(stack, 1)[0])
    stack.append(m.variable(m.frame, i.value[1]))


@on("STORE_FAST_STORE_FAST")
def _store_two(m: Reader, stack: Stack, i: Instruction) -> None:
    for name in i.value:
        m.bind(m.frame, name, popped(stack, 1)[0])


@on("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
def _global(m: Reader, stack: Stack, i: Instruction) -> None:
    if i.name == "LOAD_FROM_DICT_OR_GLOBALS":
        stack.pop()
    local = m.frame.names.get(i.value) if i.name == "LOAD_NAME" else None
    if i.name == "LOAD_GLOBAL" and i.arg & 1:
        stack.append(NULL)
    stack.append(local or m.name(i.value))


@on("IMPORT_NAME")
def _import(m: Reader, stack: Stack, i: Instruction) -> None:
    level, names = popped(stack, 2)
    name = "." * level.refs[0] + i.value
    if level.refs[0]:
        name = importlib.util.resolve_name(name, m.frame.globals.get("__package__") or "")
    parent = name if names.refs[0] else name.partition(".")[0]
    stack.append(m.imported(parent))


@on("IMPORT_FROM")
def _import_from(m: Reader, stack: Stack, i: Instruction) -> None:
    for module in stack[-1].refs:
        path = f"{module.__name__}.{i.value}"
        if i.value not in vars(module) and path in sys.modules:
            stack.append(m.imported(path))
            return
    stack.append(m.attribute(stack[-1], i.value))


@on("LOAD_FROM_DICT_OR_DEREF")
def _class_deref(m: Reader, stack: Stack, i: Instruction) -> None:
    stack[-1] = m.variable(m.frame, i.value)


@on("STORE_GLOBAL")
def _store_global(m: Reader, stack: Stack, i: Instruction) -> None:
    m.write(m.frame.globals, i.value, popped(stack, 1)[0])


@on("STORE_NAME")
def _store_name(m: Reader, stack: Stack, i: Instruction) -> None:
    m.frame.store(i.value, popped(stack, 1)[0])


@on("DELETE_FAST", "DELETE_DEREF", "DELETE_NAME", "DELETE_GLOBAL")
def _delete(m: Reader, stack: Stack, i: Instruction) -> None:
    pass


@on("POP_TOP", "POP_EXCEPT", "END_FOR")
def _drop(m: Reader, stack: Stack, i: Instruction) -> None:
    effect = dis.stack_effect(i.code, i.arg if i.code >= dis.HAVE_ARGUMENT else None)
    popped(stack, -effect)


@on("PUSH_EXC_INFO")
def _pushed_error(m: Reader, stack: Stack, i: Instruction) -> None:
    stack[-1:] = [NOTHING, m.caught()]


@on("CHECK_EG_MATCH")
def _matched_group(m: Reader, stack: Stack, i: Instruction) -> None:
    group, _ = popped(stack, 2)
    stack.extend((group, group))


@on("COPY")
def _copy(m: Reader, stack: Stack, i: Instruction) -> None:
    stack.append(stack[-i.arg] if i.arg <= len(stack) else NOTHING)


@on("SWAP")
def _swap(m: Reader, stack: Stack, i: Instruction) -> None:
    if i.arg <= len(stack):
        stack[-1], stack[-i.arg] = stack[-i.arg], stack[-1]


# ---------------------------------------------------------------------------------- reading


@on("LOAD_ATTR", "LOAD_METHOD")
def _attribute(m: Reader, stack: Stack, i: Instruction) -> None:
    value = popped(stack, 1)[0]
    if dis.stack_effect(i.code, i.arg) == 1:
        stack.append(NULL)
    stack.append(m.attribute(value, i.value))


@on("LOAD_SUPER_ATTR")
def _super_attribute(m: Reader, stack: Stack, i: Instruction) -> None:
    _, cls, me = popped(stack, 3)
    above = m.call(constant(super), [cls, me])
    if i.arg & 1:
        stack.append(NULL)
    stack.append(m.attribute(above, i.value))


@on("STORE_ATTR")
def _store_attribute(m: Reader, stack: Stack, i: Instruction) -> None:
    value, holder = popped(stack, 2)
    m.set_attribute(holder, i.value, value)


@on("BINARY_SUBSCR")
def _item(m: Reader, stack: Stack, i: Instruction) -> None:
    value, index = popped(stack, 2)
    stack.append(m.item(value, index))


@on("BINARY_SLICE")
def _slice(m: Reader, stack: Stack, i: Instruction) -> None:
    value, start, stop = popped(stack, 3)
    m.use(start)
    stack.append(m.item(value, stop._replace(complete=False)))


@on("BUILD_SLICE")
def _build_slice(m: Reader, stack: Stack, i: Instruction) -> None:
    for v in popped(stack, i.arg):
        m.use(v)
    stack.append(NOTHING)


@on("STORE_SUBSCR")
def _store_item(m: Reader, stack: Stack, i: Instruction) -> None:
    value, holder, index = popped(stack, 3)
    m.use(index, holder.traced)
    m.use(value, holder.traced)
    key = index.refs[0] if index.exact and type(index.refs[0]) in SCALARS else ...
    for ref in holder.refs:
        if isinstance(ref, Container):
            m.grow(ref.hold([value]))
        elif isinstance(ref, Instance) or (
            hasattr(type(ref), "__setitem__") and not is_ndarray(ref)
        ):
            m.write(ref, key, value)


@on("STORE_SLICE")
def _store_slice(m: Reader, stack: Stack, i: Instruction) -> None:
    value, holder, start, stop = popped(stack, 4)
    for v in (value, start, stop):
        m.use(v, holder.traced)


# ---------------------------------------------------------------------------------- control


@on("GET_ITER")
def _iter(m: Reader, stack: Stack, i: Instruction) -> None:
    value = popped(stack, 1)[0]
    stack.append(value._replace(origin=None))


@on("FOR_ITER")
def _for(m: Reader, stack: Stack, i: Instruction) -> None:
    after = dis.stack_effect(i.code, i.arg, jump=True)
    over = [*stack, *[NOTHING] * after] if after >= 0 else stack[:after]
    m.jump(over, i.target)
    stack.append(m.elements(stack[-1]))


@on(
    "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE",
)  # fmt: skip
def _branch(m: Reader, stack: Stack, i: Instruction) -> Any:
    value = popped(stack, 1)[0]
    if "NONE" in i.name:
        taken = (value.refs[0] is None) if value.exact else False if value.traced else None
        if taken is not None and "NOT" in i.name:
            taken = not taken
    else:
        known = m.truth(value)
        taken = None if known is None else known == i.name.endswith("TRUE")
    if taken is not False:
        m.jump(stack, i.target)
    return _STOP if taken and i.target > i.offset else None


@on("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _branch_or_pop(m: Reader, stack: Stack, i: Instruction) -> Any:
    known = m.truth(stack[-1])
    taken = None if known is None else known == ("TRUE" in i.name)
    if taken is not False:
        m.jump(stack, i.target)
    if taken:
        return _STOP
    stack.pop()
    return None


@on("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(m: Reader, stack: Stack, i: Instruction) -> None:
    m.jump(stack, i.target)


@on("RAISE_VARARGS")
def _raise(m: Reader, stack: Stack, i: Instruction) -> None:
    m.throw(*popped(stack, i.arg))


@on("RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE")
def _return(m: Reader, stack: Stack, i: Instruction) -> None:
    value = constant(i.value) if i.name == "RETURN_CONST" else popped(stack, 1)[0]
    if i.name == "YIELD_VALUE":
        stack.append(m.received())  # by `send`
        value = bag(value.refs, traced=value.traced)
    elif m.frame.listing.code.co_flags & _GENERATOR:
        m.throw(value)  # in a StopIteration
        if m.frame.result is not None and value.exact and value.refs[0] is None:
            return  # it only ends
    m.frame.result = joined(m.frame.result, value)
    if m.frame.number == 1:  # of what is traced: an element is a constant among its results
        m.use(m.within([value]))


@on("SEND")
def _send(m: Reader, stack: Stack, i: Instruction) -> None:
    m.use(popped(stack, 1)[0])
    given = m.elements(stack[-1])  # what another generator yields, or returns in the end
    left = len(stack) + dis.stack_effect(i.code, i.arg, jump=True)
    m.jump([*stack[:left], given], i.target)
    stack.append(given)


@on("END_SEND")
def _end_send(m: Reader, stack: Stack, i: Instruction) -> None:
    del stack[-2:-1]


# ---------------------------------------------------------------------------------- calls


@on("MAKE_FUNCTION")
def _function(m: Reader, stack: Stack, i: Instruction) -> None:
    code = popped(stack, 1)[0].refs[0]
    extra = i.arg.bit_count() if dis.stack_effect(i.code, 15) < 0 else 0  # none since 3.13
    parts = popped(stack, extra)
    made = m.frame.made.get(i.offset)
    if made is None:
        made = m.frame.made[i.offset] = Made(
            code, m.frame, m.within(parts[: (i.arg & 3).bit_count()])
        )
    stack.append(constant(made))


@on("SET_FUNCTION_ATTRIBUTE")
def _function_attribute(m: Reader, stack: Stack, i: Instruction) -> None:
    value, function = popped(stack, 2)
    if i.arg & 3 and function.exact:
        made = function.refs[0]
        made.defaults = m.within([made.defaults, value])
    stack.append(function)


@on("KW_NAMES")
def _names(m: Reader, stack: Stack, i: Instruction) -> None:
    m.keywords = i.value


@on("CALL")
def _call(m: Reader, stack: Stack, i: Instruction) -> None:
    names, m.keywords = m.keywords, ()
    _called(m, stack, i.arg, names)


@on("CALL_KW")
def _call_kw(m: Reader, stack: Stack, i: Instruction) -> None:
    _called(m, stack, i.arg, popped(stack, 1)[0].refs[0])


def _called(m: Reader, stack: Stack, n: int, names: tuple[str, ...]) -> None:
    args = popped(stack, n)
    first, second = popped(stack, 2)
    if first is NULL:
        callee = second
    else:
        callee = first
        if second is not NULL:
            args = [second, *args]
    named = dict(zip(names, args[len(args) - len(names) :], strict=True))
    stack.append(m.call(callee, args[: len(args) - len(names)], named))


@on("CALL_FUNCTION_EX")
def _call_ex(m: Reader, stack: Stack, i: Instruction) -> None:
    more = popped(stack, 2 if i.arg & 1 else 1)
    first, second = popped(stack, 2)
    callee = second if first is NULL else first
    given = m.within(more)
    stack.append(m.call(callee, [], {}, given))


@on("BEFORE_WITH")
def _with(m: Reader, stack: Stack, i: Instruction) -> None:
    value = popped(stack, 1)[0]
    error = [m.caught()] if value.refs else []  # that its `__exit__` gets
    found = [NOTHING, m.operate(value.refs, error, ENTERING), Value(value.refs)]
    stack.extend((NOTHING, united(found)))


@on("CALL_INTRINSIC_1")
def _intrinsic(m: Reader, stack: Stack, i: Instruction) -> None:
    pass  # a list made a tuple, a sign, a generator's end: what it is put together from stays
