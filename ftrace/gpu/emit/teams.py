"""The iterations of a kernel's outer loops, spread over teams of threads.

The owners' loops are gone in the code: every team finds the coordinates of its iterations from
its number. What stood between these loops is done by every team, and stored by the first.
"""

from collections.abc import Sequence

from ftrace.gpu.emit import tiles
from ftrace.gpu.emit.coordinates import bind, coordinates, product
from ftrace.gpu.emit.regions import apart, elements
from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.holding import held
from ftrace.gpu.grid.layout import BLOCK, BLOCK_THREADS, COLUMN, THREAD, TILE, WARP, WARP_LANES
from ftrace.gpu.grid.nests import flattened
from ftrace.lowering.kernel.ir import Block, Loop, Stmt, Store
from ftrace.lowering.kernel.traversal import inside, outs_of


def teams(w: Writer) -> None:
    """Write the body of a kernel for every team."""
    stmts, owners = flattened(w.kernel, w.layout.owners)
    _first_only(w, stmts, owners)
    plain = [s for s, _ in stmts]
    if w.partial:  # the second function does the rest, and the stores before
        loop = next(k for k, s in enumerate(plain) if isinstance(s, Loop))
        plain = [*apart(w, plain[:loop], ())[0], plain[loop]]
    same, plain = apart(w, plain, w.layout.owners)
    w.statements(w, same)
    threads = _threads if owners else _one
    {THREAD: threads, TILE: tiles.tiled, WARP: _warps, BLOCK: _blocks, COLUMN: _columns}[
        w.layout.team
    ](w, plain, owners)


def _first_only(
    w: Writer, stmts: Sequence[tuple[Stmt, tuple[int, ...]]], owners: Sequence[Loop]
) -> None:
    """Stores outside of some owners' loops are for the first iteration of these."""
    for stmt, around in stmts:
        missing = [f"i{o.axis.id} == 0" for o in owners if o.axis.id not in around]
        for below in inside(Block((stmt,))):
            if isinstance(below, Store) and missing:
                w.guards[id(below)] = " && ".join(missing)


# --- the kinds of teams


def _one(w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop]) -> None:
    """A kernel without owners: one thread."""
    w.statements(w, stmts)


def _threads(w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop]) -> None:
    """Every thread takes some neighbours along the first owner, and goes through the others."""
    first, *rows = owners
    axis, index, width = first.axis.id, w.layout.index, w.layout.width
    number = f"(({index})blockIdx.x * blockDim.x + threadIdx.x)"
    w.line(f"const {index} b{axis} = {number}{f' * {width}' if width > 1 else ''};")
    w.line(f"if (b{axis} >= {w.count(first.extent)}) return;")
    if not rows:
        elements(w, first, stmts)
        return
    stmts = _hoisted(w, first, stmts, {o.axis.id for o in rows})
    start = f"({index})blockIdx.y * blockDim.y + threadIdx.y"
    step = f"({index})gridDim.y * blockDim.y"
    with w.braces(f"for ({index} row = {start}; row < {product(w, rows)}; row += {step})"):
        coordinates(w, rows, "row")
        bind(w, rows)
        elements(w, first, stmts)


def _hoisted(w: Writer, first: Loop, stmts: Sequence[Stmt], rows: set[int]) -> list[Stmt]:
    """Write what all rows share, into arrays; what is left."""
    early, rest = apart(w, stmts, rows)
    if not early:
        return rest
    kept = [v for s in early for v in outs_of(s)]
    width = w.layout.width
    if width > 1:
        for v in kept:
            w.line(f"{w.type(v.dtype)} v{v.id}[{width}];")
        w.arrays.update(v.id for v in kept)
        elements(w, first, early)
    else:
        w.line(f"const {w.layout.index} i{first.axis.id} = b{first.axis.id};")
        with w.inside(first.axis):
            w.statements(w, early)
    return rest


def _warps(w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop]) -> None:
    """Every warp is a team, or several; beyond the last team, copies of it."""
    index, threads = w.layout.index, w.threads
    per_block, per_warp = BLOCK_THREADS // threads, WARP_LANES // threads
    w.line(f"const unsigned lane = threadIdx.x % {threads};")
    start = f"({index})blockIdx.x * {per_block} + threadIdx.x / {WARP_LANES} * {per_warp}"
    _numbered(w, stmts, owners, start, f"({index})gridDim.x * {per_block}")


def _blocks(w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop]) -> None:
    """Every block is a team, or every row of blocks."""
    index = w.layout.index
    w.line("const unsigned lane = threadIdx.x;")
    along = "y" if w.partial else "x"
    if w.partial:
        w.line("const unsigned part = blockIdx.x;")
    _numbered(w, stmts, owners, f"({index})blockIdx.{along}", f"({index})gridDim.{along}")


def _numbered(
    w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop], start: str, step: str
) -> None:
    w.only, w.common = "lane == 0", True
    if not owners:
        _row(w, stmts)
        return
    index, count = w.layout.index, product(w, owners)
    w.team, w.teams = "(long long)team", f"(long long)({count})"
    several = w.threads < WARP_LANES
    number = "first" if several else "team"
    with w.braces(f"for ({index} {number} = {start}; {number} < {count}; {number} += {step})"):
        if several:  # the lanes of a warp stay together
            w.line(f"const {index} own = first + threadIdx.x % {WARP_LANES} / {w.threads};")
            w.line(f"const bool valid = own < {count};")
            w.line(f"const {index} team = valid ? own : {count} - 1;")
            w.only, w.valid = "valid && lane == 0", "valid"
        coordinates(w, owners, "team")
        bind(w, owners)
        _row(w, stmts)


def _row(w: Writer, stmts: Sequence[Stmt]) -> None:
    """What a team does, with what it keeps between its passes."""
    if w.layout.held:
        dtypes = {b.name: b.dtype for b in w.kernel.buffers}
        w.held = held(stmts, w.layout.lanes, dict(w.layout.same), dtypes)
        for number, dtype in enumerate(w.held.dtypes):
            w.line(f"Pack<{w.type(dtype)}, {w.layout.width}> h{number}[{w.layout.held}];")
    w.statements(w, stmts)


def _columns(w: Writer, stmts: Sequence[Stmt], owners: Sequence[Loop]) -> None:
    """The threads of a block with the same x are a team; beyond the last column, copies of it."""
    index, (first, *rows) = w.layout.index, owners
    extent = w.count(first.extent)
    w.line("const unsigned lane = threadIdx.y;")
    if w.partial:
        w.line("const unsigned part = blockIdx.z;")
    w.line(f"const {index} column = ({index})blockIdx.x * {w.layout.across} + threadIdx.x;")
    w.line(f"const bool valid = column < {extent};")
    w.line(f"const {index} i{first.axis.id} = valid ? column : {extent} - 1;")
    bind(w, [first])
    w.only, w.valid, w.common = "valid && lane == 0", "valid", True
    w.team, w.teams = f"(long long)i{first.axis.id}", f"(long long)({product(w, owners)})"
    if not rows:
        w.statements(w, stmts)
        return
    w.team = f"(row * (long long)({extent}) + i{first.axis.id})"
    head = f"for ({index} row = blockIdx.y; row < {product(w, rows)}; row += gridDim.y)"
    with w.braces(head):
        coordinates(w, rows, "row")
        bind(w, rows)
        w.statements(w, stmts)
