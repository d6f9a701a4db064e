"""The elements that one thread takes at once: neighbours along one axis, or as far apart.

Loads come first, and stores of neighbours last: as vectors of up to 16 bytes where memory allows.
In between, the statements run in a loop over the elements that the compiler unrolls. It could not
move loads over stores by itself, which may be to the same memory for all it knows. What does not
vary with the axis stands before that loop. In a ragged end, missing elements do what the last one
does, and store nothing: so nothing else needs a mask.
"""

from collections.abc import Callable, Iterable, Sequence

from ftrace.gpu.emit import cuda_spelling
from ftrace.gpu.emit.writer import Writer
from ftrace.lowering.kernel.ir import Block, If, Let, Load, Loop, Stmt, Store, While
from ftrace.lowering.kernel.traversal import inside, outs_of, uses_of


def elements(
    w: Writer, loop: Loop, stmts: Sequence[Stmt], after: Callable[[str, str], None] | None = None
) -> None:
    """Write statements for the elements from `b<axis>` on.

    Args:
        w: the walk.
        loop: the loop over the axis.
        stmts: what to do.
        after: writes what comes last for each element, given its index in arrays (`[e]`
            or nothing) and what must hold for it to exist (or nothing).
    """
    axis, count = loop.axis, w.layout.width * w.layout.batch
    if count == 1:
        w.line(f"const {w.layout.index} i{axis.id} = b{axis.id};")
        with w.inside(axis):
            w.statements(w, stmts)
            if after:
                after("", "")
        return
    same, stmts = apart(w, stmts, {axis.id, *w.arrays})
    w.statements(w, same)
    loads, stores = _early(w, stmts), _late(w, axis.id, stmts)
    for load in loads:
        _read(w, loop, load)
    for number, store in enumerate(stores):
        w.line(f"{_pack(w, store)} q{number};")
    with w.unrolled(count):
        exists = _element(w, loop)
        with w.inside(axis, both(w.only, exists)):
            for stmt in stmts:
                if isinstance(stmt, Load) and stmt in loads:
                    value = f"p{stmt.out.id}.v[e]"
                    w.declare(stmt.out, f"{value} != 0" if stmt.out.dtype == "b1" else value)
                    _keep(w, stmt, w.value(stmt.out))
                elif isinstance(stmt, Store) and stmt in stores:
                    w.line(f"q{stores.index(stmt)}.v[e] = {w.value(stmt.value)};")
                    _keep(w, stmt, w.value(stmt.value))
                else:
                    w.statements(w, [stmt])
            if after:
                after("[e]", exists)
    for number, store in enumerate(stores):
        _write(w, loop, store, number)


def _keep(w: Writer, stmt: Load | Store, value: str) -> None:
    """Keep an element for the next pass, if it is held."""
    if id(stmt) in w.held.saved:
        w.line(f"{w.kept(w.held.saved[id(stmt)])} = {value};")


def _element(w: Writer, loop: Loop) -> str:
    """Name the element's index; what must hold for it to exist."""
    axis, index = loop.axis.id, w.layout.index
    apart = f" * {w.threads * w.layout.split}" if w.layout.batch > 1 else ""
    at = f"b{axis} + ({index})e{apart}"
    if not w.layout.ragged:
        w.line(f"const {index} i{axis} = {at};")
        return ""
    exists = f"{at} < {w.count(loop.extent)}"
    w.line(f"const {index} i{axis} = {exists} ? {at} : {w.count(loop.extent)} - 1;")
    return exists


def both(*conditions: str) -> str:
    """The conjunction of conditions, some of which may be empty."""
    return " && ".join(c for c in conditions if c)


def apart(w: Writer, stmts: Sequence[Stmt], seeds: Iterable[int]) -> tuple[list[Stmt], list[Stmt]]:
    """Statements that depend on none of some variables and may run at any time; the others."""
    varying = set(seeds)
    free: list[Stmt] = []
    rest: list[Stmt] = []
    for stmt in stmts:
        if _is_pure(w, stmt) and not any(getattr(a, "id", None) in varying for a in uses_of(stmt)):
            free.append(stmt)
        else:
            varying.update(v.id for v in outs_of(stmt))
            rest.append(stmt)
    return free, rest


def _is_pure(w: Writer, stmt: Stmt) -> bool:
    """Whether it does not matter when a statement runs: it reads inputs and writes nothing."""
    return all(
        isinstance(s, Let | If | While)
        or (isinstance(s, Load) and w.buffers[s.buffer][0].space == "in")
        for s in inside(Block((stmt,)))
    )


# --- memory


def _early(w: Writer, stmts: Sequence[Stmt]) -> list[Load]:
    """The loads that can come first: nothing before them computes where, or stores there."""
    found: list[Load] = []
    stored: set[str] = set()
    computed: set[int] = set()
    for stmt in stmts:
        if isinstance(stmt, Load) and stmt.buffer not in stored and id(stmt) not in w.held.taken:
            known = not any(getattr(a, "id", None) in computed for a in stmt.at)
            found += [stmt] if known else []
        computed.update(v.id for v in outs_of(stmt))
        stored.update(s.buffer for s in _stores([stmt]))
    return found


def _late(w: Writer, axis: int, stmts: Sequence[Stmt]) -> list[Store]:
    """The stores that can come last, as vectors: nothing else touches their buffers after them."""
    found: list[Store] = []
    touched: set[str] = set()
    for stmt in reversed(stmts):
        free = isinstance(stmt, Store) and stmt.combine is None and stmt.buffer not in touched
        if isinstance(stmt, Store) and free and id(stmt) not in w.guards and _runs(w, axis, stmt):
            found.append(stmt)
        touched.update(s.buffer for s in inside(Block((stmt,))) if isinstance(s, Load | Store))
    return [s for s in found[::-1] if sum(t.buffer == s.buffer for t in _stores(stmts)) == 1]


def _stores(stmts: Iterable[Stmt]) -> list[Store]:
    return [s for s in inside(Block(tuple(stmts))) if isinstance(s, Store)]


def _runs(w: Writer, axis: int, access: Load | Store) -> bool:
    """Whether neighbours along an axis are neighbours in a buffer that takes vectors."""
    if id(access) in w.held.taken or id(access) in w.held.dead:
        return False
    steps = w.buffers[access.buffer][0].steps
    along = [s for a, s in zip(access.at, steps, strict=True) if getattr(a, "id", None) == axis]
    return access.buffer in w.layout.vectors and along == ["one"]


def _pack(w: Writer, access: Load | Store) -> str:
    count = w.layout.width * w.layout.batch
    return f"Pack<{cuda_spelling.MEMORY[w.buffers[access.buffer][0].dtype]}, {count}>"


def _whole(w: Writer, loop: Loop) -> str:
    """Whether all elements of the thread exist."""
    axis = loop.axis.id
    return f"b{axis} + {w.layout.width} <= {w.count(loop.extent)}"


def _read(w: Writer, loop: Loop, load: Load) -> None:
    pack, name = _pack(w, load), f"p{load.out.id}"
    if not _runs(w, loop.axis.id, load):
        w.line(f"{pack} {name};")
        _read_each(w, loop, load)
        return
    first = w.place(load, loop.axis.id)
    read = f"{name} = *(const {pack}*)&{first};"
    if not w.layout.ragged:
        w.line(f"const {pack} {read}")
        return
    w.line(f"{pack} {name};")
    with w.braces(f"if ({_whole(w, loop)})"):
        w.line(read)
    with w.braces("else"):
        _read_each(w, loop, load)


def _read_each(w: Writer, loop: Loop, load: Load) -> None:
    with w.unrolled(w.layout.width * w.layout.batch):
        _element(w, loop)
        with w.inside(loop.axis):
            w.line(f"p{load.out.id}.v[e] = {w.place(load)};")


def _write(w: Writer, loop: Loop, store: Store, number: int) -> None:
    first = w.place(store, loop.axis.id)
    write = f"*({_pack(w, store)}*)&{first} = q{number};"
    if not w.layout.ragged:
        w.line(f"if ({w.only}) {write}" if w.only else write)
        return
    whole = both(w.only, _whole(w, loop))
    with w.braces(f"if ({whole})"):
        w.line(write)
    with w.braces("else"), w.unrolled(w.layout.width):
        exists = both(w.only, _element(w, loop))
        with w.inside(loop.axis):
            w.line(f"if ({exists}) {w.place(store)} = q{number}.v[e];")
