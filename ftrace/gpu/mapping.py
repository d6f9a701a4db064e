"""How the loops of a kernel fall on the grid: the only file of this backend that chooses.

Loops that hold everything else are owners: their iterations are independent pieces of work. What
is left inside decides who does a piece: one thread where it is short or loops run in order, a
warp or a block where its loops go along memory, a column of threads where the owners do. Then
the folds get as many accumulators as there are threads in a team (`refolded`), and a launch its
numbers of blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Protocol

from ftrace.core.errors import BackendError
from ftrace.gpu.layout import (
    BLOCK,
    BLOCK_THREADS,
    COLUMN,
    LARGE,
    SIGNED,
    SMALL,
    THREAD,
    WARP,
    WARP_LANES,
    Geometry,
    Layout,
    Mapped,
    has_tree,
)
from ftrace.lowering.ir import (
    Alloc,
    Atom,
    Block,
    Fold,
    If,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    Var,
    While,
    loops_of,
)
from ftrace.lowering.launching import Launch
from ftrace.lowering.traversal import inside
from ftrace.lowering.traversal import mapped as changed

VECTOR: Final = 16  # bytes that a thread reads or writes at once
SHORT: Final = 16  # iterations up to which one thread does a loop by itself
ROW: Final = 1024  # iterations up to which a warp does a loop
LONG: Final = 8192  # iterations from which a block has all the threads that it may have
MANY: Final = 2048  # threads of a processor
GRID: Final = 65535  # blocks along y and z


class Machine(Protocol):
    """What is asked of a device."""

    @property
    def processors(self) -> int: ...


def mapped(
    launch: Launch, table: Sequence[int], alignment: Sequence[int], device: Machine
) -> Mapped:
    """A kernel with its place on the grid.

    Args:
        launch: the kernel and its operands; its schedule is the CPU's and not looked at.
        table: the program's numbers.
        alignment: for each buffer a power of two that divides the address of coordinates 0.
        device: where it will run.
    """
    return _Mapper(launch, table, alignment, device).run()


@dataclass
class _Access:
    """A load or store, and the loops around it."""

    stmt: Load | Store
    loops: tuple[Loop, ...]
    guarded: bool


class _Mapper:
    """A kernel, with its numbers."""

    def __init__(
        self, launch: Launch, table: Sequence[int], alignment: Sequence[int], device: Machine
    ) -> None:
        self.kernel, self.device = launch.kernel, device
        scalars = zip(launch.kernel.scalars, launch.scalars, strict=True)
        self.numbers = {v: table[e] for v, e in scalars if v.dtype == "i8"}
        self.buffers = {b.name: b for b in launch.kernel.buffers}
        self.alignment = dict(zip(self.buffers, alignment, strict=True))
        self.steps: dict[str, tuple[int, ...]] = {}
        for b, o in zip(launch.kernel.buffers, launch.operands, strict=True):
            numbers = iter(o.steps)
            known = {"one": 1, "minus": -1}
            self.steps[b.name] = tuple(
                known[s] if s in known else table[next(numbers)] for s in b.steps
            )
        if any(isinstance(s, Alloc) for s in inside(self.kernel.body)):
            raise BackendError(
                f"Kernel {self.kernel.name} cannot be compiled for a GPU: its scratch memory has "
                "no place there.",
                "Nothing that ftrace lowers needs any; a pass that adds it cannot be used here.",
            )
        self.accesses = list(_accesses(launch.kernel.body, (), False))

    def size(self, atom: Atom) -> int:
        return int(atom.value) if isinstance(atom, Lit) else self.numbers[atom]

    def extent(self, loops: Sequence[Loop]) -> int:
        return prod(self.size(loop.extent) for loop in loops)

    def run(self) -> Mapped:
        layout, owners = self.layout()
        kernel = replace(self.kernel, body=refolded(self.kernel.body, layout))
        return Mapped(kernel, layout, (self.geometry(layout, owners),))

    # --- who does what

    def layout(self) -> tuple[Layout, list[Loop]]:
        """The layout, and its owners, the first one varying fastest."""
        owners, rest = _owners(self.kernel.body)
        pieces = [s for s in rest.stmts if isinstance(s, Loop)]
        lanes = [found for s in pieces if (found := self.lane(s)) is not None]
        longest = max((self.size(x.extent) for x in lanes), default=0)
        index = self.index(owners)
        if not lanes or (owners and longest <= SHORT):
            owners = self.fastest_first(owners)
            return self.vectors(Layout(THREAD, _ids(owners), index=index), owners[:1]), owners
        if owners and self.score(owners[-1]) > max(self.score(x) for x in lanes):
            owners = owners[::-1]
            if self.extent(owners) >= self.device.processors * MANY // 2:
                return Layout(THREAD, _ids(owners), index=index), owners
            threads = 32 if longest > 256 else 8
            return Layout(COLUMN, _ids(owners), _ids(lanes), threads, index=index), owners
        threads = BLOCK_THREADS if longest <= LONG else 1024
        plan = (
            Layout(WARP, threads=WARP_LANES)
            if owners and longest <= ROW
            else Layout(BLOCK, threads=threads)
        )
        owners = owners[::-1]
        plan = replace(plan, owners=_ids(owners), lanes=_ids(lanes), index=index)
        return self.vectors(plan, lanes), owners

    def fastest_first(self, owners: Sequence[Loop]) -> list[Loop]:
        """Owners with the one along memory first, the others from the inside out."""
        if not owners:
            return []
        inner = list(owners[::-1])
        best = max(inner, key=lambda o: (self.score(o), -inner.index(o)))
        return [best, *(o for o in inner if o is not best)]

    def lane(self, loop: Loop) -> Loop | None:
        """The loop, this one or one inside it, that is spread over the threads of a team."""
        below = [found for s in loop.body.stmts if isinstance(s, Loop) and (found := self.lane(s))]
        if not is_free(loop):
            return below[0] if len(below) == 1 else None
        inner = max(below, key=self.score, default=None)
        if inner is None or len(below) > 1:
            return loop
        here, there = (min(self.size(x.extent), 4 * WARP_LANES) for x in (loop, inner))
        return inner if (self.score(inner), there) >= (self.score(loop), here) else loop

    def score(self, loop: Loop) -> int:
        """What neighbouring iterations of a loop are worth: more accesses along memory than not."""
        total = 0
        for access in self.accesses:
            if all(around is not loop for around in access.loops):
                continue
            steps = self.steps[access.stmt.buffer]
            along = [s for a, s in zip(access.stmt.at, steps, strict=True) if a == loop.axis]
            if along:
                total += 4 if [abs(s) for s in along] == [1] else -1
        return total

    # --- how

    def vectors(self, layout: Layout, along: Sequence[Loop]) -> Layout:
        """The layout with as many elements per thread as memory and registers are good for."""
        body = [s for loop in along for s in inside(loop.body)]
        if not along or any(isinstance(s, Loop | While) for s in body):
            return layout
        axes = {loop.axis for loop in along}
        found = [a for a in self.accesses if axes & set(a.stmt.at)]
        width = (
            VECTOR // max(int(self.buffers[a.stmt.buffer].dtype[1:]) for a in found) if found else 1
        )
        width = min(width, 4)
        while width > 1:
            names = self.fitting(found, axes, width)
            sizes = [self.size(loop.extent) for loop in along]
            enough = min(sizes) >= width * (layout.threads if layout.lanes else 1)
            if names and enough:
                ragged = any(n % width for n in sizes)
                return replace(layout, width=width, vectors=names, ragged=ragged)
            width //= 2
        return layout

    def fitting(self, found: Sequence[_Access], axes: set[Var], width: int) -> tuple[str, ...]:
        """Buffers whose every `width` neighbours lie on a boundary of as many bytes."""
        names: dict[str, bool] = {}
        for access in found:
            buffer, steps = self.buffers[access.stmt.buffer], self.steps[access.stmt.buffer]
            size = int(buffer.dtype[1:])
            fits = self.alignment[buffer.name] % (size * width) == 0
            runs = 0
            for atom, step, kind in zip(access.stmt.at, steps, buffer.steps, strict=True):
                if atom in axes:
                    runs += 1
                    fits = fits and kind == "one"
                elif isinstance(atom, Lit):
                    fits = fits and atom.value * step % width == 0
                else:
                    fits = fits and step % width == 0
            fits = fits and runs == 1 and not access.guarded
            names[buffer.name] = names.get(buffer.name, True) and fits
        return tuple(name for name, fits in names.items() if fits)

    def index(self, owners: Sequence[Loop]) -> str:
        """The type of indices that holds every offset of every affine access."""
        largest, negative = max(1, self.extent(owners)), False
        for loop in loops_of(self.kernel.body):
            largest = max(largest, self.size(loop.extent))
        for access in self.accesses:
            axes = {loop.axis: self.size(loop.extent) - 1 for loop in access.loops}
            far = 0
            for atom, step in zip(access.stmt.at, self.steps[access.stmt.buffer], strict=True):
                if isinstance(atom, Lit):
                    reach = atom.value
                else:
                    reach = axes.get(atom, abs(self.numbers.get(atom, 0)))
                far += abs(reach * step)
                negative = negative or reach * step < 0 or step < 0
            largest = max(largest, far)
        if negative:
            return SIGNED if largest < 2**30 else LARGE
        return SMALL if largest < 2**31 - 2**26 else LARGE

    # --- how many

    def geometry(self, layout: Layout, owners: Sequence[Loop]) -> Geometry:
        sizes = [self.size(o.extent) for o in owners]
        if 0 in sizes:
            return Geometry(None, (1, 1, 1))
        fill = self.device.processors * MANY
        if layout.team == THREAD:
            if not owners:
                return Geometry((1, 1, 1), (1, 1, 1))
            across = -(-sizes[0] // layout.width)
            x = min(BLOCK_THREADS, 1 << (across - 1).bit_length())
            y = BLOCK_THREADS // x if len(owners) > 1 else 1
            wide, rows = -(-across // x), prod(sizes[1:])
            y = min(y, 1 << (rows - 1).bit_length())
            high = min(-(-rows // y), GRID)
            if len(owners) > 1:  # rows of one thread share what it keeps
                high = min(high, max(1, 4 * fill // (wide * x * y)))
            return Geometry((wide, high, 1), (x, y, 1))
        if layout.team == COLUMN:
            high = min(prod(sizes[1:]), GRID)
            return Geometry((-(-sizes[0] // WARP_LANES), high, 1), (WARP_LANES, layout.threads, 1))
        teams = prod(sizes)
        if layout.team == WARP:
            per_block = BLOCK_THREADS // WARP_LANES
            blocks = min(-(-teams // per_block), 4 * fill // BLOCK_THREADS)
            return Geometry((blocks, 1, 1), (BLOCK_THREADS, 1, 1))
        blocks = min(teams, 4 * fill // layout.threads)
        return Geometry((blocks, 1, 1), (layout.threads, 1, 1))


def _ids(loops: Sequence[Loop]) -> tuple[int, ...]:
    return tuple(loop.axis.id for loop in loops)


def _accesses(block: Block, loops: tuple[Loop, ...], guarded: bool) -> list[_Access]:
    found: list[_Access] = []
    for stmt in block.stmts:
        match stmt:
            case Load() | Store():
                found.append(_Access(stmt, loops, guarded))
            case Loop():
                found += _accesses(stmt.body, (*loops, stmt), guarded)
            case If():
                found += _accesses(stmt.then, loops, True) + _accesses(stmt.orelse, loops, True)
            case While():
                found += _accesses(stmt.cond, loops, True) + _accesses(stmt.body, loops, True)
            case _:
                pass
    return found


def is_free(loop: Loop) -> bool:
    """Whether the iterations of a loop may run at once: none carries or combines into a cell."""
    combining = (s for s in inside(loop.body) if isinstance(s, Store) and s.combine is not None)
    return not loop.params and not any(loop.axis not in s.at for s in combining)


def _owners(block: Block) -> tuple[list[Loop], Block]:
    """The outer loops that hold all others, and what is inside the last of them."""
    inner = [s for s in block.stmts if isinstance(s, Loop)]
    if len(inner) != 1 or inner[0].folds or not is_free(inner[0]) or _reads_outputs(block):
        return [], block
    below, rest = _owners(inner[0].body)
    return [inner[0], *below], rest


def _reads_outputs(block: Block) -> bool:
    """Whether a block reads, beside its loop, what it may have written."""
    written = {s.buffer for s in inside(block) if isinstance(s, Store)}
    beside = Block(tuple(s for s in block.stmts if not isinstance(s, Loop)))
    return any(isinstance(s, Load) and s.buffer in written for s in inside(beside))


# --- folds as threads do them


def refolded(block: Block, layout: Layout) -> Block:
    """A block whose folds have an accumulator for each that the threads of a team have."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Loop) and stmt.folds:
            lanes = stmt.axis.id in layout.lanes
            ways = layout.threads * layout.width if lanes else 1
            stmt = replace(stmt, folds=tuple(_refolded(f, ways) for f in stmt.folds))
        return changed(stmt, lambda b: refolded(b, layout))

    return Block(tuple(map(change, block.stmts)), block.results)


def _refolded(fold: Fold, ways: int) -> Fold:
    if not has_tree(fold):
        return replace(fold, ways=1)
    return replace(fold, ways=ways, block=fold.block // fold.ways * ways)
