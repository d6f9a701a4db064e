"""Which code asks what only lifted code answers; `reach.py` finds the functions to look at.

Python asks a tracer for its truth or its items, and tracing fails: that starts lifting. But
`type(x) is float`, `(x > 0) is True`, `case True:`, `hasattr(x, "__len__")` and an AttributeError
that is caught ask nobody, and would be wrong in silence. Their instructions are looked for, once
for each code object; what the names in it stand for is looked up for each function.
"""

import builtins
import dis
import itertools
import operator
import types
import typing
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from ftrace.core.device import recognise
from ftrace.core.foreign import STRICT, is_strict
from ftrace.core.records import record
from ftrace.core.traced_text import READERS, is_reader
from ftrace.core.weak import dropping

_ATTRIBUTES: Final = [set(dir(t)) for t in (np.ndarray, np.float64, float, int, complex)]
DIFFERENT: Final = frozenset(set.union(*_ATTRIBUTES) - set.intersection(*_ATTRIBUTES))
"""The attributes that some of the values lack that are traced."""
_PROTOCOLS: Final = frozenset(("Iterable", "Sized", "Container", "Collection", "Hashable"))
_QUESTIONS: Final = (type, operator.is_, operator.is_not)
_QUESTIONING: Final = frozenset(
    (
        *("type", "is_", "is_not", "hasattr", "getattr", "isinstance", "issubclass"),
        *("AttributeError", "Exception"),
    )
)
_OWN: Final = frozenset(("self", "cls"))
_CAUGHT: Final = frozenset(("AttributeError", "Exception"))

_ARITHMETIC: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_METHODS: Final[dict[str, tuple[str, ...]]] = {
    "BINARY_OP": tuple(f"{p}{name}" for name in _ARITHMETIC for p in ("", "r", "i")),
    "UNARY_NEGATIVE": ("neg",),
    "UNARY_POSITIVE": ("pos",),
    "UNARY_INVERT": ("invert",),
    "UNARY_NOT": ("bool", "len"),
    **{f"POP_JUMP_{d}IF_{t}": ("bool", "len") for d in ("", "FORWARD_") for t in ("TRUE", "FALSE")},
    **dict.fromkeys(("BINARY_SUBSCR", "BINARY_SLICE"), ("getitem",)),
    **dict.fromkeys(("STORE_SUBSCR", "STORE_SLICE"), ("setitem",)),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), ("getattr", "getattribute", "get")),
    "STORE_ATTR": ("setattr", "set"),
    "CONTAINS_OP": ("contains", "iter", "next", "eq"),
    **dict.fromkeys(("GET_ITER", "UNPACK_SEQUENCE"), ("iter", "next", "getitem")),
    "BEFORE_WITH": ("enter", "exit"),
    **dict.fromkeys(
        ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"),
        ("format", "str", "repr"),
    ),
}
_IMPLIED: Final = {
    dis.opmap[op]: frozenset(f"__{name}__" for name in names)
    for op, names in _METHODS.items()
    if op in dis.opmap
}
"""By an instruction: the methods of users' classes that it may run."""
_CALLED: Final = frozenset((*dir(builtins), *dir(operator)))
"""By name, what may run the method `__name__`."""
_COMPARE: Final = dis.opmap["COMPARE_OP"]
_COMPARING: Final = {
    "<": ("__lt__", "__gt__"),
    "<=": ("__le__", "__ge__"),
    **{"==": ("__eq__",), "!=": ("__eq__", "__ne__")},
}
_COMPARING.update({">": _COMPARING["<"], ">=": _COMPARING["<="]})
_IMPORT: Final = dis.opmap["IMPORT_NAME"]
_BUILD: Final = dis.opmap["LOAD_BUILD_CLASS"]
_IS: Final = dis.opmap["IS_OP"]
_HANDLER: Final = dis.opmap["PUSH_EXC_INFO"]
_TYPE_ERRORS: Final = frozenset(("TypeError", "Exception", "BaseException"))
_FORMATTING: Final = frozenset(("str", "format", "__format__"))
_GLOBAL: Final = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"))


@record
class CodeFacts:
    """What is known of a code object, with that of the functions and comprehensions in it.

    Attributes:
        names: it uses, those of methods that its operators run among them.
        asks: whether it does, whatever the names stand for.
        asked: the names that it compares by identity with: it asks if they stand for a bool.
        texts: the texts in it.
        modules: those it imports.
        defines: whether it defines a class.
        catches: whether it may catch a TypeError.
        formats: whether it may make a text of a value.
    """

    names: frozenset[str]
    asks: bool
    asked: frozenset[str]
    texts: frozenset[str]
    modules: frozenset[str]
    defines: bool
    catches: bool
    formats: bool


_known: dict[int, tuple["weakref.ref[Any]", CodeFacts]] = {}


def facts(code: types.CodeType) -> CodeFacts:
    """What is known of a code object: looked at once."""
    key = id(code)
    entry = _known.get(key)
    if entry is None:
        dead = dropping(code, _known, key)
        entry = _known[key] = dead, _looked_at(code)
    return entry[1]


def asks(fn: types.FunctionType, scope: Mapping[str, Any]) -> bool:
    """Whether a function asks such a question; `scope` is what its names stand for."""
    found = facts(fn.__code__)
    if found.asks:
        return True
    compared = [_stands_for(name, scope) for name in found.asked]
    used = [scope[name] for name in found.names if name in scope]
    if any(type(v) in (bool, np.bool) for v in compared) or any(map(is_question, used)):
        return True
    names = found.names
    if "hasattr" in names or "getattr" in names:
        texts = {t for v in used if type(v) in (str, tuple, list) for t in _texts(v)}
        if not DIFFERENT.isdisjoint(texts | found.texts):
            return True
    if _names_device(names, used):
        return True
    asking = "isinstance" in names or "issubclass" in names
    return asking and any(map(_asks_the_type, _with_members(used, names)))


def is_given_away(fn: types.FunctionType, scope: Mapping[str, Any]) -> bool:
    """Whether a function may give values to code that takes plain numbers alone."""
    found = facts(fn.__code__)
    used = (scope[name] for name in found.names if name in scope)
    return not STRICT.isdisjoint(found.modules) or any(map(is_strict, used))


def reads_texts(fn: types.FunctionType, scope: Mapping[str, Any]) -> bool:
    """Whether a function may read numbers out of texts by what cannot be asked to refuse some."""
    names = facts(fn.__code__).names
    return not names.isdisjoint(name for _, name in READERS) or any(
        is_reader(scope[name]) for name in names if name in scope
    )


def is_question(value: Any) -> bool:
    """Whether a value is a function of Python's that asks such a question."""
    return any(value is q for q in _QUESTIONS)


def _names_device(names: frozenset[str], used: list[Any]) -> bool:
    """Whether a function names the arrays of a device: only lifted code is told of them."""
    modules = [v for v in used if type(v) is types.ModuleType and "ndarray" in names]
    held: list[Any] = [*used, *(vars(m).get("ndarray") for m in modules)]
    for fn in (v for v in used if type(v) is types.FunctionType):
        held += getattr(fn, "registry", ())  # of a function of singledispatch
    return any(issubclass(type(v), type) and recognise(v) for v in held)


def is_missed(names: Iterable[str], attribute: str) -> bool:
    """Whether code that uses these names may catch that a number lacks an attribute."""
    return attribute in DIFFERENT and not _CAUGHT.isdisjoint(names)


def scope_of(fn: types.FunctionType) -> dict[str, Any]:
    """What the global and captured names that a function uses stand for."""
    names, space = facts(fn.__code__).names, fn.__globals__
    scope = {name: space[name] for name in names & space.keys()}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not filled yet
            scope.pop(name, None)
    return scope


def _stands_for(name: str, scope: Mapping[str, Any]) -> Any:
    """The value of `name` or `name.attribute`."""
    first, _, attribute = name.partition(".")
    value = scope.get(first)
    return getattr(value, "__dict__", {}).get(attribute) if attribute else value


def _with_members(values: Iterable[Any], names: frozenset[str]) -> Iterator[Any]:
    """Values, what is in tuples among them, and what modules among them hold under these names."""
    for v in values:
        yield v
        if type(v) is tuple:
            yield from v
        elif type(v) is types.ModuleType:
            yield from (vars(v)[name] for name in names & vars(v).keys())


def _asks_the_type(kinds: Any) -> bool:
    """Whether `isinstance(x, kinds)` asks for `type(x)`: of protocols and of `typing.Union`."""
    if not isinstance(kinds, type):
        return kinds is typing.Union or kinds is typing.Optional or is_union(kinds)
    return bool(vars(kinds).get("_is_protocol")) or (
        kinds.__module__ == "collections.abc" and kinds.__name__ in _PROTOCOLS
    )


def is_union(kinds: Any) -> bool:
    """Whether it is a union of types, however written."""
    return typing.get_origin(kinds) in (typing.Union, types.UnionType)


def _texts(x: Any) -> Iterator[str]:
    """The texts in a constant, or in a list or tuple."""
    if type(x) is str:
        yield x
    elif type(x) in (tuple, frozenset, list):
        for item in x:
            yield from _texts(item)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions and comprehensions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes(const)


def _looked_at(code: types.CodeType) -> CodeFacts:
    names: set[str] = set()
    written: set[str] = set()
    asked: set[str] = set()
    texts: set[str] = set()
    modules: set[str] = set()
    sure = False
    for c in codes(code):
        names.update(c.co_freevars)
        texts.update(*map(_texts, c.co_consts))
        ops = frozenset(c.co_code[::2])
        names.update(("__build_class__",) if _BUILD in ops else ())
        names.update(*(_IMPLIED[op] for op in ops & _IMPLIED.keys()))
        names.update(f"__{name}__" for name in c.co_names if name in _CALLED)
        if _IMPORT in ops:
            modules.update(i.argval for i in dis.get_instructions(c) if i.opcode == _IMPORT)
        if _COMPARE in ops or _IS in ops or "type" in c.co_names:
            instructions = list(dis.get_instructions(c))
            for i in instructions:
                if i.opcode == _COMPARE:
                    symbol = i.argrepr.removeprefix("bool(").removesuffix(")")
                    names.update(_COMPARING.get(symbol, ()))
            sure |= _identifies(instructions, asked) or bool({*_typed(instructions, c)} - _OWN)
        written.update(c.co_names)
    names.update(filter(str.isidentifier, texts))  # of getattr and its like
    return CodeFacts(
        frozenset(names | written),
        sure or _asks_by_name(written),
        frozenset(asked),
        frozenset(texts),
        frozenset(modules),
        "__build_class__" in names,
        not _TYPE_ERRORS.isdisjoint(written) or any(map(_catches_all, codes(code))),
        not _FORMATTING.isdisjoint(names | written) or any("%" in t for t in texts),
    )


def _catches_all(code: types.CodeType) -> bool:
    """Whether there is an `except:`."""
    if _HANDLER not in code.co_code[::2]:
        return False
    ops = [i.opname for i in dis.get_instructions(code)]
    return ("PUSH_EXC_INFO", "POP_TOP") in itertools.pairwise(ops)


def _asks_by_name(names: set[str]) -> bool:
    if not names.isdisjoint(("is_", "is_not")):
        return True
    if not names.isdisjoint(("isinstance", "issubclass")) and not names.isdisjoint(_PROTOCOLS):
        return True
    return not (names.isdisjoint(_CAUGHT) or names.isdisjoint(DIFFERENT))


def _typed(instructions: list[dis.Instruction], code: types.CodeType) -> Iterator[str]:
    """The local names whose type is asked for; "" of anything else."""
    for i, load in enumerate(instructions):
        if load.argval != "type" or load.opname == "LOAD_CONST":
            continue
        if load.opname not in _GLOBAL:
            if "builtins" in code.co_names:
                yield ""
            continue
        given = instructions[i + 1 : i + 4]
        call = given[2] if given[1].opname == "PRECALL" else given[1]
        known = given[0].opname == "LOAD_FAST" and call.opname == "CALL" and call.arg == 1
        yield given[0].argval if known else ""


def asked_parameters(code: types.CodeType) -> frozenset[str] | None:
    """The parameters that code asks about, if it asks about nothing else."""
    if facts(code).names & _QUESTIONING != frozenset(("type",)):
        return None
    instructions = list(dis.get_instructions(code))
    names = frozenset(_typed(instructions, code)) - _OWN
    stored = {i.argval for i in instructions if i.opname == "STORE_FAST"}
    known = names <= set(code.co_varnames[: code.co_argcount]) - stored
    return names if known and not _identifies(instructions, set()) else None


def _identifies(instructions: list[dis.Instruction], asked: set[str]) -> bool:
    """Whether something is compared by identity with what may be True or False.

    With a name that is not local it depends on what that stands for: it goes to `asked`.
    """
    for i, op in enumerate(instructions):
        if op.opcode != _IS:
            continue
        right = instructions[i - 1]
        if right.opname == "LOAD_CONST":
            if type(right.argval) in (bool, int):
                return True
        elif right.opname in _GLOBAL:
            asked.add(right.argval)
        elif right.opname == "LOAD_ATTR" and instructions[i - 2].opname in _GLOBAL:
            asked.add(f"{instructions[i - 2].argval}.{right.argval}")  # as `Kind.NAME`
        elif right.opname != "LOAD_ATTR" or right.argval != "__class__":
            return True
    return False
