"""How the loops of a kernel fall on the grid: the only file of this backend that chooses.

Loops that hold everything else are owners: their iterations are independent pieces of work. What
is left inside decides who does a piece: one thread where it is short or loops run in order, a
warp or a block where its loops go along memory, a column of threads where the owners do. Then
the folds get as many accumulators as there are threads in a team (`refolded`), and a launch its
numbers of blocks.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, Protocol

from ftrace.gpu.grid import nests, tiling
from ftrace.gpu.grid.holding import held
from ftrace.gpu.grid.layout import (
    BLOCK,
    BLOCK_THREADS,
    COLUMN,
    LARGE,
    SIGNED,
    SMALL,
    THREAD,
    TILE,
    WARP,
    WARP_LANES,
    Geometry,
    GridLayout,
    Mapped,
    parts,
)
from ftrace.gpu.grid.nests import Access, Piece
from ftrace.gpu.grid.pressure import registers, varying, work
from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
    Kernel,
    KernelVar,
    Lit,
    Load,
    Loop,
    Store,
    While,
    loops_of,
)
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.traversal import inside, uses_of

VECTOR: Final = 16  # bytes that a thread reads or writes at once
SHORT: Final = 8  # iterations up to which one thread does a loop by itself
ROW: Final = 1024  # iterations up to which a warp does a loop
PASSES: Final = 256  # and up to which it does several, and holds what they share
ADDING: Final = 4  # if rows are added up on the way: then there are sums to hold as well
SHARE: Final = 8  # of a longer row's iterations that a thread has then
EACH: Final = 16  # iterations that a thread of a block has before there are more of them
NARROW: Final = 8  # columns side by side that a block has at least: 32 bytes
MANY: Final = 2048  # threads of a processor
GRID: Final = 65535  # blocks along y and z
BATCH: Final = 4  # elements of a column that a thread takes at once
REGISTERS: Final = {2: 35, 4: 24, 8: 32, 16: 48}  # of a thread, for values of so many elements
WORK: Final = 256  # of a thread, for all its elements: more is no longer limited by memory
PIECES: Final = 16  # pieces of a row that a thread holds
HELD: Final = 40  # registers that they may take
PLAIN: Final = 16  # additions up to which a thread's sum is as good as one in blocks
BESIDE: Final = 40  # registers that everything else takes
BLOCKS: Final = 8  # warps of a block: teams of a warp should leave no more of a device idle
PARTS: Final = 256  # blocks that share a loop


class DeviceLimits(Protocol):
    """What is asked of a device."""

    @property
    def processors(self) -> int: ...

    @property
    def shared(self) -> int: ...


def mapped(
    launch: Launch, table: Sequence[int], alignment: Sequence[int], device: DeviceLimits
) -> Mapped:
    """A kernel with its place on the grid.

    Args:
        launch: the kernel and its operands; its schedule is the CPU's and not looked at.
        table: the program's numbers.
        alignment: for each buffer a power of two that divides the address of coordinates 0.
        device: where it will run.
    """
    return _Mapper(launch, table, alignment, device).run()


class _Mapper:
    """A kernel, with its numbers."""

    def __init__(
        self, launch: Launch, table: Sequence[int], alignment: Sequence[int], device: DeviceLimits
    ) -> None:
        self.kernel, self.device = launch.kernel, device
        self.launch, self.table = launch, table
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
        self.accesses = nests.accesses(launch.kernel.body)
        self.plane: tiling.Plane | None = None

    def size(self, atom: Atom) -> int:
        return int(atom.value) if isinstance(atom, Lit) else self.numbers[atom]

    def extent(self, loops: Sequence[Loop]) -> int:
        return prod(self.size(loop.extent) for loop in loops)

    def owners(self) -> tuple[list[Loop], Block]:
        """As `nests.owners` finds them; none that never iterates, where other work is outside."""
        owners, rest = nests.owners(self.kernel.body)
        around, cut = self.kernel.body, (owners, rest)
        for k, loop in enumerate(owners):
            if len(around.stmts) > 1:
                cut = owners[:k], around  # what else is there has these owners
            if not self.size(loop.extent):
                return cut
            around = loop.body
        return owners, rest

    def run(self) -> Mapped:
        owners, rest = self.owners()
        pieces = [p for s in rest.stmts if isinstance(s, Loop) for p in self.pieces(s)]
        if not pieces or (owners and max(map(self.length, pieces)) <= SHORT):
            self.plane = self.tiles(owners)
            owners = self.fastest_first(owners)
            layout = GridLayout(TILE if self.plane else THREAD)
            body = Block(tuple(s for s, _ in nests.flattened(self.kernel, _ids(owners))[0]))
            layout = self.vectors(layout, [Piece(o, o) for o in owners[:1]], [body])
            layout = self.squares(layout)
            pieces = []
        else:
            layout, owners = self.team(owners[::-1], pieces), owners[::-1]
            layout = self.shared(layout, owners, pieces, rest)
            pieces = pieces if layout.team != THREAD else []
        index = self.index(owners, pieces)
        return self.finished(replace(layout, owners=_ids(owners), index=index), owners, pieces)

    def finished(
        self, layout: GridLayout, owners: Sequence[Loop], pieces: Sequence[Piece]
    ) -> Mapped:
        """The kernel as its layout has it, with the numbers of its launches."""
        pairs = [p for p in pieces if p.is_joined]
        kernel, axes = nests.joined(self.kernel, pairs)
        lanes = [axes.get(p.outer.axis.id, p.outer.axis).id for p in pieces]
        triples = [(axes[p.outer.axis.id].id, p.outer.axis.id, p.inner.axis.id) for p in pairs]
        layout = replace(layout, lanes=tuple(lanes), joined=tuple(triples))
        if pieces:
            each = layout.threads * layout.width * layout.split
            layout = replace(layout, plain=max(map(self.length, pieces)) <= PLAIN * each)
        kernel, layout = self.holding(kernel, layout, owners)
        kernel = replace(kernel, body=nests.refolded(kernel.body, layout))
        extra = tuple(self.length(p) for p in pairs)
        stages = self.geometry(layout, owners)
        if layout.split == 1:
            return Mapped(kernel, layout, stages, 0, extra)
        cells = sum(map(parts, pieces[0].outer.folds))
        scratch = 8 * cells * layout.split * self.extent(owners)
        return Mapped(kernel, layout, stages, scratch, extra)

    # --- who does what

    def pieces(self, loop: Loop) -> list[Piece]:
        """The loops that a team's threads share: this one, some inside it, those it repeats."""
        below = [p for s in loop.body.stmts if isinstance(s, Loop) for p in self.pieces(s)]
        if not nests.is_free(loop):
            return below
        inner = nests.joinable(loop)
        if inner is not None and not (below and below[0].is_joined):
            return [Piece(loop, inner)]
        if len(below) != 1:
            return [Piece(loop, loop)]
        (one,) = below
        here, there = (min(n, 4 * WARP_LANES) for n in (self.size(loop.extent), self.length(one)))
        longer = (self.score(one.inner), there) >= (self.score(loop), here)
        return [one if longer else Piece(loop, loop)]

    def length(self, piece: Piece) -> int:
        return self.extent([piece.outer, piece.inner] if piece.is_joined else [piece.outer])

    def team(self, owners: Sequence[Loop], pieces: Sequence[Piece]) -> GridLayout:
        """Who does a piece of work: the layout without its axes."""
        longest = max(map(self.length, pieces))
        if owners and self.score(owners[0]) > max(self.score(p.inner) for p in pieces):
            if self.extent(owners) >= self.device.processors * MANY // 2:
                return GridLayout(THREAD)
            across = min(WARP_LANES, _up(self.size(owners[0].extent)))
            threads = (1024 if longest > 8 * WARP_LANES else BLOCK_THREADS) // across
            threads = min(threads, _up(longest))
            if longest < 2 * threads * EACH:  # no other blocks will share the columns
                while across > NARROW and 2 * self.groups(owners, across) < self.device.processors:
                    across //= 2
            layout = GridLayout(COLUMN, threads=threads, across=across)
            return self.batches(layout, pieces)
        full = self.device.processors * MANY
        many = self.extent(owners) * WARP_LANES * BLOCKS >= full
        of_warps = ROW if len(pieces) == 1 else min(ROW, PASSES)
        if owners and longest <= of_warps and (many or longest <= 4 * WARP_LANES):
            threads = min(WARP_LANES, max(_power(longest // 8), 4))
            if self.extent(owners) * threads < full:
                threads = WARP_LANES
            layout = GridLayout(WARP, threads=threads)
        else:
            stores = (s for s in inside(self.kernel.body) if isinstance(s, Store))
            adding = any(s.combine is not None for s in stores)
            wide = adding and any(b.dtype[1:] == "8" for b in self.kernel.buffers)
            large = self.index(owners, pieces) == LARGE
            most = 512 if large or wide else 1024  # else registers spill
            threads = max(BLOCK_THREADS, _up(longest // (ADDING if adding else EACH)))
            if many and longest <= ROW:
                threads = max(WARP_LANES, _up(longest // SHARE))
            layout = GridLayout(BLOCK, threads=min(threads, most))
        return self.vectors(layout, pieces, [p.inner.body for p in pieces])

    def shared(
        self, layout: GridLayout, owners: Sequence[Loop], pieces: Sequence[Piece], rest: Block
    ) -> GridLayout:
        """The layout with several blocks per team, where teams alone do not fill the device."""
        if layout.team not in (BLOCK, COLUMN) or not self.is_one_sweep(pieces, rest):
            return layout
        column = layout.team == COLUMN
        across = layout.across if column else 1
        blocks = self.extent(owners)
        if column:
            blocks = self.groups(owners, across)
        wanted = self.device.processors * MANY // (layout.threads * across) // max(blocks, 1)
        split = _power(min(wanted, self.length(pieces[0]) // (layout.threads * EACH), PARTS))
        if split <= 1:
            return layout
        joint = min(split, 1024 // across) if column else max(split, WARP_LANES)
        return replace(layout, split=split, joint=joint)

    def groups(self, owners: Sequence[Loop], across: int) -> int:
        """How many groups of so many neighbouring columns there are."""
        return -(-self.size(owners[0].extent) // across) * self.extent(owners[1:])

    def is_one_sweep(self, pieces: Sequence[Piece], rest: Block) -> bool:
        """Whether a team has one loop, which folds and reads nothing that the team wrote."""
        loops = [s for s in rest.stmts if isinstance(s, Loop)]
        if len(loops) != 1 or loops[0] is not pieces[0].outer or not loops[0].folds:
            return False
        written = {s.buffer for s in rest.stmts if isinstance(s, Store)}
        body = list(inside(loops[0].body))
        stored = {s.buffer for s in body if isinstance(s, Store)}
        read = {s.buffer for s in body if isinstance(s, Load)}
        after = {s.buffer for s in rest.stmts if isinstance(s, Load)}
        return not written & read and not stored & after

    def fastest_first(self, owners: Sequence[Loop]) -> list[Loop]:
        """Owners with the plane's or the one along memory first, the others from the inside out."""
        if not owners:
            return []
        inner = list(owners[::-1])
        best = max(inner, key=lambda o: (self.score(o), -inner.index(o)))
        first = [self.plane.first, self.plane.second] if self.plane else [best]
        return [*first, *(o for o in inner if all(o is not one for one in first))]

    def score(self, loop: Loop) -> int:
        """What neighbouring iterations of a loop are worth: elements that lie side by side."""
        total = 0
        for access in self.accesses:
            at, steps = access.stmt.at, self.steps[access.stmt.buffer]
            along = [abs(s) for a, s in zip(at, steps, strict=True) if a == loop.axis]
            if along and any(x is loop for x in access.loops):
                elements = self.extent([x for x in access.loops if x.axis in at])
                total += elements * (4 if along == [1] else -1)
        return total

    # --- how

    def vectors(
        self, layout: GridLayout, along: Sequence[Piece], bodies: Sequence[Block]
    ) -> GridLayout:
        """The layout with as many elements per thread as memory and registers are good for.

        A load below an `If` is for one element alone: neighbouring threads should take neighbours.
        """
        alone = (s for body in bodies for s in inside(body))
        if not along or any(isinstance(s, Loop | While) for s in alone):
            return layout
        axes = {p.inner.axis for p in along}
        found = [a for a in self.accesses if axes & set(a.stmt.at)]
        across = [a for a in found if self.plane and a.stmt.buffer in self.plane.buffers]
        if any(a.guarded for a in self.accesses) or not found:
            return layout
        width = VECTOR // max(int(self.buffers[a.stmt.buffer].dtype[1:]) for a in found)
        vary = varying(self.kernel.body, axes)
        if self.plane:  # elements go to shared memory one by one
            width = min(width, 4 * self.largest())
        width = self.room(bodies, width, vary)
        while width > 1:
            names = self.fitting(found, axes, vary, width)
            if self.plane and self.size(self.plane.second.extent) % width == 0:
                names += self.fitting(across, {self.plane.second.axis}, set(), width)
            ragged = any(self.length(p) % width for p in along)
            cut = any(self.size(p.inner.extent) % width for p in along if p.is_joined)
            runs = sum(a.stmt.buffer in names for a in found)  # else neighbours would spread
            enough = min(map(self.length, along)) >= width * layout.threads
            if names and 2 * runs >= len(found) and not cut and enough:
                return replace(layout, width=width, vectors=names, ragged=ragged)
            width //= 2
        return layout

    def batches(self, layout: GridLayout, pieces: Sequence[Piece]) -> GridLayout:
        """The layout with several iterations at once, if they are there and leave registers."""
        bodies = [p.inner.body for p in pieces]
        whole = any(isinstance(s, Loop | While) for b in bodies for s in inside(b))
        shortest = min(map(self.length, pieces))
        blocks = [f.block // f.ways for p in pieces for f in p.outer.folds]
        whole = whole or any(p.is_joined for p in pieces) or any(n % BATCH for n in blocks)
        if whole or shortest < 2 * BATCH * layout.threads:
            return layout
        batch = self.room(bodies, BATCH)
        return replace(layout, batch=batch, ragged=batch > 1)

    def room(
        self, bodies: Sequence[Block], most: int, vary: Collection[KernelVar] | None = None
    ) -> int:
        """How many elements a thread has registers and time for, a power of two up to `most`.

        Where it is known what varies from one to the next, the rest is there once.
        """
        taken, each, shared = 0.0, 0, 0.0
        for body in bodies:
            left = [a for a in body.results if isinstance(a, KernelVar)]
            own = body.stmts
            if vary is not None:
                own = [s for s in own if not uses_of(s).isdisjoint(vary)]
            here = registers(own, left)
            taken, each = max(taken, here), max(each, work(own))
            shared = max(shared, registers(body.stmts, left) - here)
        width = most
        while width > 1 and (width * taken + shared > REGISTERS[width] or width * each > WORK):
            width //= 2
        return width

    def fitting(
        self, found: Sequence[Access], axes: set[KernelVar], vary: set[KernelVar], width: int
    ) -> tuple[str, ...]:
        """Buffers whose every `width` neighbours lie on a boundary of as many bytes."""
        names: dict[str, bool] = {}
        for access in found:
            buffer, steps = self.buffers[access.stmt.buffer], self.steps[access.stmt.buffer]
            size = int(buffer.dtype[1:])
            fits = self.alignment[buffer.name] % (size * width) == 0
            for atom, step, kind in zip(access.stmt.at, steps, buffer.steps, strict=True):
                if atom in axes:
                    fits = fits and kind == "one"
                elif isinstance(atom, Lit):
                    fits = fits and atom.value * step % width == 0
                else:
                    fits = fits and step % width == 0 and atom not in vary
            names[buffer.name] = names.get(buffer.name, True) and fits
        return tuple(name for name, fits in names.items() if fits)

    def index(self, owners: Sequence[Loop], pieces: Sequence[Piece]) -> str:
        """The type of indices that holds every offset of every affine access."""
        largest, negative = max(1, self.extent(owners), *map(self.length, pieces)), False
        for loop in loops_of(self.kernel.body):
            largest = max(largest, self.size(loop.extent))
        for access in self.accesses:
            axes = {loop.axis: self.size(loop.extent) - 1 for loop in access.loops}
            far = 0
            for atom, step in zip(access.stmt.at, self.steps[access.stmt.buffer], strict=True):
                if isinstance(atom, Lit):
                    reach = atom.value
                else:
                    reach = axes.get(atom, self.numbers.get(atom, 0))
                far += abs(reach * step)
                negative = negative or reach * step < 0 or step < 0
            largest = max(largest, far)
        if negative:
            return SIGNED if largest < 2**30 else LARGE
        return SMALL if largest < 2**31 - 2**26 else LARGE

    def holding(
        self, kernel: Kernel, layout: GridLayout, owners: Sequence[Loop]
    ) -> tuple[Kernel, GridLayout]:
        """The kernel with rows in registers, if they are gone over several times and fit."""
        if layout.team not in (WARP, BLOCK) or layout.split > 1 or layout.joined:
            return kernel, layout
        more, axes = nests.settled(kernel, layout.lanes)
        if axes:
            lanes = replace(layout, lanes=(*layout.lanes, *axes))
            found, sums = self.in_registers(more, lanes, owners)
            if sums:
                return more, found
        return kernel, self.in_registers(kernel, layout, owners)[0]

    def in_registers(
        self, kernel: Kernel, layout: GridLayout, owners: Sequence[Loop]
    ) -> tuple[GridLayout, int]:
        """The layout with a kernel's rows in registers, if they fit; how many sums are there."""
        same = self.same()
        stmts = [s for s, _ in nests.flattened(kernel, _ids(owners))[0]]
        dtypes = {b.name: b.dtype for b in kernel.buffers}
        found = held(stmts, layout.lanes, same, dtypes)
        if not found.registers:
            return layout, 0
        lanes = [s for s in inside(Block(tuple(stmts))) if isinstance(s, Loop)]
        lanes = [s for s in lanes if s.axis.id in layout.lanes]
        longest = max(self.size(s.extent) for s in lanes)
        pieces = _up(-(-longest // (layout.threads * layout.width)))
        taken = pieces * layout.width * found.registers
        longer = max(work(s.body.stmts) for s in lanes)
        if pieces > PIECES or pieces * layout.width * longer > 4 * WORK:
            return layout, 0
        if taken > min(HELD, 65536 // layout.threads - BESIDE):
            return layout, 0
        return replace(layout, held=pieces, same=tuple(same.items())), found.sums

    def same(self) -> dict[str, str]:
        """Buffers that see the same memory in the same steps as one before them."""
        first: dict[Any, str] = {}
        found: dict[str, str] = {}
        for b, o in zip(self.kernel.buffers, self.launch.operands, strict=True):
            key = b.dtype, o.slot, self.table[o.offset], b.steps, self.steps[b.name]
            if key in first:
                found[b.name] = first[key]
            first.setdefault(key, b.name)
        return found

    def tiles(self, owners: Sequence[Loop]) -> tiling.Plane | None:
        """The plane whose squares fit shared memory, of as many buffers as do."""
        plane = tiling.plane(owners, self.accesses, self.buffers, self.steps, self.size)
        if plane is None:
            return None
        size = self.largest()
        room = self.device.shared // (tiling.side(size) ** 2 * size)
        return replace(plane, buffers=plane.buffers[:room]) if room else None

    def largest(self) -> int:
        """The bytes of the largest elements."""
        return max(int(b.dtype[1:]) for b in self.buffers.values())

    def squares(self, layout: GridLayout) -> GridLayout:
        """The layout with the sides of its tiles."""
        if self.plane is None:
            return layout
        size = self.largest()
        across = tiling.ROW_BYTES // (layout.width * size)
        return replace(layout, tiles=self.plane.buffers, side=tiling.side(size), across=across)

    # --- how many

    def geometry(self, layout: GridLayout, owners: Sequence[Loop]) -> tuple[Geometry, ...]:
        sizes = [self.size(o.extent) for o in owners]
        stages = 2 if layout.split > 1 else 1
        if 0 in sizes:
            return (Geometry(None, (1, 1, 1)),) * stages
        if layout.team == THREAD:
            return (self._of_threads(layout, sizes),)
        if layout.team == TILE:
            wide, high = (-(-n // layout.side) for n in sizes[:2])
            down = BLOCK_THREADS // layout.across
            grid = wide, min(high * prod(sizes[2:]), GRID), 1
            return (Geometry(grid, (layout.across, down, 1)),)
        if layout.team == COLUMN:
            wide, high = -(-sizes[0] // layout.across), min(prod(sizes[1:]), GRID)
            first = Geometry((wide, high, layout.split), (layout.across, layout.threads, 1))
            return (first, Geometry((wide, high, 1), (layout.across, layout.joint, 1)))[:stages]
        teams, fill = prod(sizes), max(1024, 4 * self.device.processors * MANY)
        if layout.team == WARP:
            per_block = BLOCK_THREADS // layout.threads
            blocks = min(-(-teams // per_block), fill // BLOCK_THREADS)
            return (Geometry((blocks, 1, 1), (BLOCK_THREADS, 1, 1)),)
        blocks = min(teams, fill // layout.threads)
        if layout.split == 1:
            return (Geometry((blocks, 1, 1), (layout.threads, 1, 1)),)
        first = Geometry((layout.split, min(teams, GRID), 1), (layout.threads, 1, 1))
        return first, Geometry((min(teams, fill // layout.joint), 1, 1), (layout.joint, 1, 1))

    def _of_threads(self, layout: GridLayout, sizes: Sequence[int]) -> Geometry:
        """Blocks of 256 threads: as long as leaves few idle, then as high as that leaves room."""
        if not sizes:
            return Geometry((1, 1, 1), (1, 1, 1))
        across, rows = -(-sizes[0] // layout.width), prod(sizes[1:])
        x = min(BLOCK_THREADS, _up(across))
        if len(sizes) > 1 and x > WARP_LANES:
            x = min((BLOCK_THREADS, 128, 64, WARP_LANES), key=lambda n: -(-across // n) * n)
        y = min(BLOCK_THREADS // x, _up(rows))
        wide, high = -(-across // x), min(-(-rows // y), GRID)
        if len(sizes) > 1:  # the rows of one thread share what it keeps
            high = min(high, max(1, 4 * self.device.processors * MANY // (wide * x * y)))
        return Geometry((wide, high, 1), (x, y, 1))


def _ids(loops: Sequence[Loop]) -> tuple[int, ...]:
    return tuple(loop.axis.id for loop in loops)


def _up(n: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(n - 1, 0).bit_length()


def _power(n: int) -> int:
    """The greatest power of two that is no larger; 0 for none."""
    return 1 << (n.bit_length() - 1) if n > 0 else 0
