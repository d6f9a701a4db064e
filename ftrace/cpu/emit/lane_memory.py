"""Loads and stores: what an index map means for lanes.

The emitter, not the kernel, finds out how an access runs: coordinates that all lanes share make
it one scalar; the lane axis with step one or minus a run of elements, forwards or backwards; with
another step, or twice, a strided gather; a coordinate that was computed makes it a gather. Parts
of an address that outer loops fix are computed there. Booleans are bytes in memory. Alignment is
never more than the element's.
"""

from collections.abc import Callable
from typing import NamedTuple

from ftrace.cpu.emit.emitter import State
from ftrace.cpu.emit.lane_folds import combine_values
from ftrace.cpu.llvm.text import MANGLED, Typed, memory_type, type_of
from ftrace.cpu.llvm.vector_idioms import extended, iota, lane, part, reverse
from ftrace.lowering.kernel.ir import (
    Atom,
    Buffer,
    Lit,
    Load,
    Store,
)

SHORTEST = 16  # bytes that can be written past the caches
HALF = 8  # bytes: half of the shortest register, which has a mask of its own length
UNIFORM, RUN, BACKWARDS, SCATTERED = "uniform", "run", "backwards", "scattered"


class LaneAccess(NamedTuple):
    """Where the lanes lie.

    `pointer` is a scalar, the place of the first lane; `offsets` are the lanes' distances from
    there in elements, where they are neither 0, 1, 2 ... nor 0, -1, -2 ...; `distinct` says that
    no two lanes meet.
    """

    kind: str
    pointer: str
    offsets: Typed | None
    buffer: Buffer
    distinct: bool


def load(s: State, stmt: Load) -> None:
    """Write a load."""
    place = _access(s, stmt.buffer, stmt.at)
    s.define(stmt.out, _read(s, place, s.mask if place.kind == SCATTERED else s.loading))


def store(s: State, stmt: Store) -> None:
    """Write a store; with `combine` a read before it."""
    place = _access(s, stmt.buffer, stmt.at)
    if s.lanes == 1 or place.distinct:
        value = s.value(stmt.value) if place.kind == UNIFORM else s.wide(stmt.value)
        if stmt.combine is not None:
            value = combine_values(s.text, stmt.combine, _read(s, place, s.mask), value)
        if place.kind == RUN and stmt.combine is None and stmt.buffer in s.launch.schedule.streams:
            _stream(s, place.pointer, _in_memory(s, value))
        else:
            _write(s, place, value, s.mask)
    elif stmt.combine is None:
        raise s.fail(f"two iterations may write one element of {place.buffer.name}")
    else:
        _one_by_one(s, place, s.wide(stmt.value), stmt.combine)


# --- addresses


def _access(s: State, name: str, at: tuple[Atom, ...]) -> LaneAccess:
    buffer, operand = s.buffers[name]
    entries = iter(operand.steps)
    fixed: list[tuple[int, Atom, str, int]] = []
    along: list[tuple[str, int]] = []
    free: list[tuple[Atom, str, int]] = []
    for atom, step in zip(at, buffer.steps, strict=True):
        entry = next(entries) if step == "any" else -1
        if isinstance(atom, Lit) and atom.value == 0:
            continue
        if s.lanes > 1 and atom == s.axis:
            along.append((step, entry))
        elif s.lanes > 1 and s.value(atom).lanes > 1:
            free.append((atom, step, entry))
            continue
        fixed.append((s.depth_of(atom), atom, step, entry))
    pointer = _pointer(s, buffer, sorted(fixed, key=lambda term: term[0]))
    if free:
        apart = not along and [a for a, _, _ in free] == [s.apart]
        return LaneAccess(SCATTERED, pointer, _free(s, along, free), buffer, apart)
    if not along:
        return LaneAccess(UNIFORM, pointer, None, buffer, s.lanes == 1)
    if len(along) == 1 and along[0][0] != "any":
        kind = RUN if along[0][0] == "one" else BACKWARDS
        return LaneAccess(kind, pointer, None, buffer, True)
    return LaneAccess(SCATTERED, pointer, _strided(s, along), buffer, len(along) == 1)


def _pointer(s: State, buffer: Buffer, fixed: list[tuple[int, Atom, str, int]]) -> str:
    """The address of the first lane, as far out as each part of it is known."""
    text = s.text
    place = s.hoisted(-1, ("base", buffer.name), lambda: _base(s, buffer))
    key: tuple[object, ...] = (buffer.name,)
    for depth, atom, step, entry in fixed:
        key = (*key, atom, step, entry)

        def advance(place: Typed = place, a: Atom = atom, step: str = step, entry: int = entry):
            far = _times(s, s.scalar(a), step, entry)
            kind = memory_type(buffer.dtype)
            return text.let(f"getelementptr {kind}, ptr {place.name}, i64 {far.name}", "i8", 1)

        place = s.hoisted(depth, key, advance)
    return place.name


def _base(s: State, buffer: Buffer) -> Typed:
    text, operand = s.text, s.buffers[buffer.name][1]
    slot, far = text.fresh(), s.entry(operand.offset)
    text.line(f"%{slot} = getelementptr ptr, ptr %slots, i64 {operand.slot}")
    base = text.let(f"load ptr, ptr %{slot}, align 8", "i8", 1)
    return text.let(f"getelementptr i8, ptr {base.name}, i64 {far.name}", "i8", 1)


def _times(s: State, v: Typed, step: str, entry: int) -> Typed:
    """A scalar coordinate times its step."""
    if step == "one":
        return v
    if step == "minus":
        return s.text.sub(Typed("0", "i8", 1), v)
    return s.text.mul(v, s.entry(entry))


def _strided(s: State, along: list[tuple[str, int]]) -> Typed:
    """Distances of the lanes along the lane axis."""

    def make() -> Typed:
        total = Typed("0", "i8", 1)
        for step, entry in along:
            total = s.text.add(total, _times(s, Typed("1", "i8", 1), step, entry))
        return s.text.mul(s.text.splat(total, s.lanes), iota("i8", s.lanes))

    return s.hoisted(-1, ("strided", tuple(along), s.lanes), make)


def _free(s: State, along: list[tuple[str, int]], free: list[tuple[Atom, str, int]]) -> Typed:
    """Distances of the lanes where coordinates were computed."""
    total = _strided(s, along) if along else None
    for atom, step, entry in free:
        far = s.wide(atom)
        if step == "minus":
            far = s.text.sub(s.text.like(far, 0), far)
        elif step == "any":
            far = s.text.mul(far, s.spread(s.entry(entry), -1))
        total = far if total is None else s.text.add(total, far)
    assert total is not None
    return total


# --- reading and writing


def _in_registers(s: State, v: Typed, dtype: str) -> Typed:
    return s.text.compare("ne", v, s.text.like(v, 0)) if dtype == "b1" else v


def _in_memory(s: State, v: Typed) -> Typed:
    return s.text.convert("zext", v, "u1") if v.dtype == "b1" else v


def _stored(dtype: str) -> str:
    return "u1" if dtype == "b1" else dtype


def _size(dtype: str) -> int:
    return int(dtype[1:])


def _true(lanes: int) -> Typed:
    return Typed("splat (i1 true)", "b1", lanes)


def _read(s: State, place: LaneAccess, mask: Typed | None) -> Typed:
    dtype = _stored(place.buffer.dtype)
    lanes = 1 if place.kind == UNIFORM else s.lanes
    if place.kind == SCATTERED:
        got = _gather(s, place, dtype, mask)
    elif place.kind == BACKWARDS:
        turned = None if mask is None else reverse(s.text, mask)
        got = reverse(s.text, _read_run(s, _end(s, place), dtype, lanes, turned))
    else:
        got = _read_run(s, place.pointer, dtype, lanes, mask if lanes > 1 else None)
    return _in_registers(s, got, place.buffer.dtype)


def _end(s: State, place: LaneAccess) -> str:
    """The lowest address of lanes that run backwards."""
    kind = memory_type(place.buffer.dtype)
    given = f"getelementptr {kind}, ptr {place.pointer}, i64 {1 - s.lanes}"
    return s.text.let(given, "i8", 1).name


def _read_run(s: State, pointer: str, dtype: str, lanes: int, mask: Typed | None) -> Typed:
    kind, align = type_of(dtype, lanes), _size(dtype)
    if mask is None:
        return s.text.let(f"load {kind}, ptr {pointer}, align {align}", dtype, lanes)
    if _is_half(s, dtype, lanes):
        whole = _read_run(s, pointer, dtype, HALF * 2, _of_half(s, mask))
        return part(s.text, whole, 0, HALF)
    name = f"llvm.masked.load.v{lanes}{MANGLED[memory_type(dtype)]}.p0"
    flags = type_of("b1", lanes)
    s.text.declare(name, f"declare {kind} @{name}(ptr, i32, {flags}, {kind})")
    given = f"ptr {pointer}, i32 {align}, {flags} {mask.name}, {kind} zeroinitializer"
    return s.text.let(f"call {kind} @{name}({given})", dtype, lanes)


def _is_half(s: State, dtype: str, lanes: int) -> bool:
    """Whether lanes of bytes are half of the shortest register that a mask is made for."""
    return s.text.host.vector_bytes == 64 and _size(dtype) == 1 and lanes == HALF


def _of_half(s: State, mask: Typed) -> Typed:
    """A mask of eight lanes as one of sixteen, the others off.

    LLVM 22 puts them off by a `kmovb` that it takes for a copy, and leaves out where it spills mask
    registers: the bytes behind the last lane were written. So an `and` puts them off, with a value
    that LLVM does not know.
    """

    def make() -> Typed:
        known = s.text.let("icmp ne ptr %slots, null", "b1", 1)
        bits = s.text.let(f"select i1 {known.name}, i16 {2**HALF - 1}, i16 0", "i2", 1)
        return s.text.let(f"bitcast i16 {bits.name} to <{HALF * 2} x i1>", "b1", HALF * 2)

    return s.text.op("and", extended(s.text, mask, HALF * 2), s.hoisted(-1, ("half",), make))


def _pointers(s: State, place: LaneAccess) -> str:
    assert place.offsets is not None
    kind, offsets = memory_type(place.buffer.dtype), place.offsets
    given = f"getelementptr {kind}, ptr {place.pointer}, <{s.lanes} x i64> {offsets.name}"
    return s.text.let(given, "i8", s.lanes).name


def _each(s: State, place: LaneAccess) -> list[str]:
    """The addresses of all lanes, as scalars."""
    assert place.offsets is not None
    kind = memory_type(place.buffer.dtype)
    found: list[str] = []
    for k in range(s.lanes):
        far = lane(s.text, place.offsets, k)
        given = f"getelementptr {kind}, ptr {place.pointer}, i64 {far.name}"
        found.append(s.text.let(given, "i8", 1).name)
    return found


def _collect(s: State, place: LaneAccess, dtype: str) -> Typed:
    """A gather without a mask: scalar loads are faster than the instruction made for it."""
    got = Typed("poison", dtype, s.lanes)
    kind = type_of(dtype, s.lanes)
    for k, address in enumerate(_each(s, place)):
        one = _read_run(s, address, dtype, 1, None)
        given = f"insertelement {kind} {got.name}, {memory_type(dtype)} {one.name}, i64 {k}"
        got = s.text.let(given, dtype, s.lanes)
    return got


def _gather(s: State, place: LaneAccess, dtype: str, mask: Typed | None) -> Typed:
    if mask is None:
        return _collect(s, place, dtype)
    lanes, kind = s.lanes, type_of(dtype, s.lanes)
    name = f"llvm.masked.gather.v{lanes}{MANGLED[memory_type(dtype)]}.v{lanes}p0"
    flags, places = type_of("b1", lanes), f"<{lanes} x ptr>"
    s.text.declare(name, f"declare {kind} @{name}({places}, i32, {flags}, {kind})")
    given = f"{places} {_pointers(s, place)}, i32 {_size(dtype)}, "
    given += f"{flags} {(mask or _true(lanes)).name}, {kind} zeroinitializer"
    return s.text.let(f"call {kind} @{name}({given})", dtype, lanes)


def _write(s: State, place: LaneAccess, value: Typed, mask: Typed | None) -> None:
    value = _in_memory(s, value)
    if place.kind == SCATTERED:
        _scatter(s, place, value, mask)
    elif place.kind == BACKWARDS:
        turned = None if mask is None else reverse(s.text, mask)
        _write_run(s, _end(s, place), reverse(s.text, value), turned)
    else:
        _write_run(s, place.pointer, value, mask)


def _write_run(s: State, pointer: str, value: Typed, mask: Typed | None) -> None:
    kind, align = type_of(value.dtype, value.lanes), _size(value.dtype)
    if mask is None:
        s.text.line(f"store {kind} {value.name}, ptr {pointer}, align {align}")
        return
    if _is_half(s, value.dtype, value.lanes):
        _write_run(s, pointer, extended(s.text, value, HALF * 2), _of_half(s, mask))
        return
    name = f"llvm.masked.store.v{value.lanes}{MANGLED[memory_type(value.dtype)]}.p0"
    flags = type_of("b1", value.lanes)
    s.text.declare(name, f"declare void @{name}({kind}, ptr, i32, {flags})")
    given = f"{kind} {value.name}, ptr {pointer}, i32 {align}, {flags} {mask.name}"
    s.text.line(f"call void @{name}({given})")


def _stream(s: State, pointer: str, value: Typed) -> None:
    """A store past the caches where the lanes are whole vectors; else an ordinary one."""
    text = s.text
    width = min(value.lanes * _size(value.dtype), text.host.vector_bytes)
    if width < SHORTEST or s.mask is not None:
        _write_run(s, pointer, value, s.mask)
        return
    past, through, done = text.fresh("past"), text.fresh("through"), text.fresh("done")
    low = text.op(
        "and", text.let(f"ptrtoint ptr {pointer} to i64", "i8", 1), text.const(width - 1, "i8")
    )
    whole = text.compare("eq", low, text.const(0, "i8"))
    text.branch(whole, past, through)
    text.label(past)
    kind = type_of(value.dtype, value.lanes)
    text.line(f"store {kind} {value.name}, ptr {pointer}, align {width}, !nontemporal !{{i32 1}}")
    text.jump(done)
    text.label(through)
    _write_run(s, pointer, value, None)
    text.jump(done)
    text.label(done)


def _scatter(s: State, place: LaneAccess, value: Typed, mask: Typed | None) -> None:
    lanes, kind = s.lanes, type_of(value.dtype, s.lanes)
    name = f"llvm.masked.scatter.v{lanes}{MANGLED[memory_type(value.dtype)]}.v{lanes}p0"
    flags, places = type_of("b1", lanes), f"<{lanes} x ptr>"
    s.text.declare(name, f"declare void @{name}({kind}, {places}, i32, {flags})")
    given = f"{kind} {value.name}, {places} {_pointers(s, place)}, i32 {_size(value.dtype)}, "
    given += f"{flags} {(mask or _true(lanes)).name}"
    s.text.line(f"call void @{name}({given})")


def _one_by_one(s: State, place: LaneAccess, value: Typed, combine: str) -> None:
    """Combine lanes that may meet, in order."""
    each_lane(s, lambda at: _combine_lane(s, place, lane(s.text, value, at), combine, at))


def _combine_lane(s: State, place: LaneAccess, value: Typed, combine: str, at: Typed) -> None:
    assert place.offsets is not None
    kind, far = memory_type(place.buffer.dtype), lane(s.text, place.offsets, at)
    given = f"getelementptr {kind}, ptr {place.pointer}, i64 {far.name}"
    pointer = s.text.let(given, "i8", 1).name
    old = _read_run(s, pointer, _stored(place.buffer.dtype), 1, None)
    old = _in_registers(s, old, place.buffer.dtype)
    _write_run(s, pointer, _in_memory(s, combine_values(s.text, combine, old, value)), None)


def each_lane(s: State, body: Callable[[Typed], None]) -> None:
    """A loop over the active lanes."""
    text = s.text
    head, test, work, step, done = (text.fresh("lane") for _ in range(5))
    before, following = text.block, text.fresh()
    text.jump(head)
    text.label(head)
    at = text.let(f"phi i64 [ 0, %{before} ], [ %{following}, %{step} ]", "i8", 1)
    text.branch(text.compare("ult", at, Typed(str(s.lanes), "i8", 1)), test, done)
    text.label(test)
    if s.mask is None:
        text.jump(work)
    else:
        text.branch(lane(text, s.mask, at), work, step)
    text.label(work)
    body(at)
    text.jump(step)
    text.label(step)
    text.line(f"%{following} = add i64 {at.name}, 1")
    text.jump(head)
    text.label(done)
