"""Instructions of code objects, read alike on Python 3.11, 3.12 and 3.13.

`listing` gives each with its name, its argument as a name or constant where it is one, and where
it jumps to. What differs between the versions ends here and in `stack.py`, whose table of handlers
has the names of all of them.
"""

import dis
import sys
import types
from typing import Any, Final, NamedTuple

_RELATIVE: Final = frozenset(dis.hasjrel)
_NAMED: Final = frozenset(dis.hasname)
_CONSTANT: Final = frozenset(dis.hasconst)
LOCAL: Final = frozenset((*dis.haslocal, *dis.hasfree))
_ENDS: Final = frozenset(
    ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")
) | {"JUMP_BACKWARD_NO_INTERRUPT"}
_PAIRS: Final = ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST")
_NOWHERE: Final = -1
_SHIFTS: Final = {"LOAD_GLOBAL": 1, "LOAD_SUPER_ATTR": 2}
if sys.version_info >= (3, 12):
    _SHIFTS["LOAD_ATTR"] = 1


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        offset: where it is, in bytes.
        name: what it does.
        code: the number of that.
        arg: its number.
        value: the name or constant that the number stands for, or the names of a pair.
        target: where it may jump to, or -1.
        ends: whether control never falls through it.
    """

    offset: int
    name: str
    code: int
    arg: int
    value: Any
    target: int
    ends: bool


class Handler(NamedTuple):
    """Where an exception goes that is raised in a range of instructions."""

    start: int
    end: int
    target: int
    depth: int


class Listing(NamedTuple):
    """The instructions of a code object.

    Attributes:
        code: the code object.
        instructions: in order.
        loops: offsets of all that stand in a loop.
        handlers: of exceptions.
    """

    code: types.CodeType
    instructions: list[Instruction]
    loops: frozenset[int]
    handlers: list[Handler]


_listings: dict[int, Listing] = {}  # by the id of the code: hashing a code hashes its constants
_LIMIT: Final = 256  # a listing keeps its code alive, and what others know of that


def listing(code: types.CodeType) -> Listing:
    """The instructions of a code object, decoded once."""
    found = _listings.get(id(code))
    if found is None:
        if len(_listings) > _LIMIT:
            _listings.clear()
        found = _listings[id(code)] = _decode(code)
    return found


def _decode(code: types.CodeType) -> Listing:
    raw = code.co_code
    made: list[Instruction] = []
    loops: set[int] = set()
    i, extended, first = 0, 0, -1
    prefixed: dict[int, int] = {}  # where a jump goes that goes to the prefix of an instruction
    while i < len(raw):
        number, arg, offset = raw[i], raw[i + 1] | extended, i
        i += 2
        while i < len(raw) and raw[i] == 0:  # inline caches
            i += 2
        if number == dis.EXTENDED_ARG:
            extended, first = arg << 8, offset if first < 0 else first
            continue
        if first >= 0:
            prefixed[first] = offset
        extended, first = 0, -1
        name = dis.opname[number]
        target = _NOWHERE
        if number in _RELATIVE:
            backward = "BACKWARD" in name
            target = i - 2 * arg if backward else i + 2 * arg
            if backward:
                loops.update(range(target, offset + 1, 2))
        value = meaning(code, number, name, arg)
        made.append(Instruction(offset, name, number, arg, value, target, name in _ENDS))
    if prefixed:
        made = [i._replace(target=prefixed.get(i.target, i.target)) for i in made]
    return Listing(code, made, frozenset(loops), _handlers(code))


def meaning(code: types.CodeType, number: int, name: str, arg: int) -> Any:
    """What the number of an instruction stands for."""
    if number in _NAMED:
        return code.co_names[arg >> _SHIFTS.get(name, 0)]
    if number in _CONSTANT and name != "LOAD_SMALL_INT":
        return code.co_consts[arg]
    if number in LOCAL:
        if name in _PAIRS:
            return _local(code, arg >> 4), _local(code, arg & 15)
        return _local(code, arg)
    return arg


def _local(code: types.CodeType, arg: int) -> str:
    return code._varname_from_oparg(arg)  # type: ignore[attr-defined]


def _handlers(code: types.CodeType) -> list[Handler]:
    """The table of exceptions, whose numbers have six bits to a byte."""
    table = iter(code.co_exceptiontable)
    found: list[Handler] = []

    def number() -> int:
        byte = next(table)
        total = byte & 63
        while byte & 64:
            byte = next(table)
            total = total << 6 | byte & 63
        return total

    while True:
        try:
            start = number() * 2
        except StopIteration:
            return found
        length, target, packed = number() * 2, number() * 2, number()
        found.append(Handler(start, start + length, target, (packed >> 1) + (packed & 1)))


_positions: dict[int, tuple[types.CodeType, list[Any]]] = {}


def position(code: types.CodeType, offset: int) -> Any:
    """(file, line, last line, column, last column) of an instruction; None if not known."""
    found = _positions.get(id(code))
    if found is None:
        if len(_positions) > _LIMIT:
            _positions.clear()
        found = _positions[id(code)] = (code, list(code.co_positions()))
    place = found[1][offset // 2]
    return None if None in place else (code.co_filename, *place)
