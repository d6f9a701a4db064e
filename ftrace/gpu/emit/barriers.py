"""Barriers inside a team: between a write and a read of one place by two threads.

Two loops whose iterations fall on the same threads need none. Blocks and columns meet at
`__syncthreads`, the lanes of a warp at `__syncwarp`.
"""

from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.layout import THREAD, WARP
from ftrace.lowering.kernel.ir import Atom, Block, Load, Loop, Stmt, Store
from ftrace.lowering.kernel.traversal import inside


def before(w: Writer, stmt: Stmt) -> None:
    """Write a barrier if a statement of the whole team needs one in front of it."""
    if w.layout.team == THREAD or not w.common:
        return
    body = list(inside(Block((stmt,))))
    stores = [s for s in body if isinstance(s, Store) and id(s) not in w.held.dead]
    loads: list[Load | Store] = [
        s for s in body if isinstance(s, Load) and id(s) not in w.held.taken
    ]
    loads = [s for s in loads if w.buffers[s.buffer][0].space == "out"]
    loads += [s for s in stores if s.combine is not None]
    if isinstance(stmt, Loop) and stmt.axis.id not in w.layout.lanes:
        # its statements look for themselves; an iteration meets what the one before it did
        w.written.update(dict.fromkeys((s.buffer for s in stores), ()))
        w.read.update(s.buffer for s in loads)
        return
    foreign = [s for s in loads if not _own(w, stmt, s)]
    if any(s.buffer in w.written for s in foreign) or any(s.buffer in w.read for s in stores):
        barrier(w)
        w.written.clear()
        w.read.clear()
    w.read.update(s.buffer for s in foreign)
    for store in stores:
        w.written[store.buffer] = _key(stmt, store) if isinstance(stmt, Loop) else ()


def barrier(w: Writer) -> None:
    """All threads of a team meet."""
    w.line("__syncwarp();" if w.layout.team == WARP else "__syncthreads();")


def _own(w: Writer, stmt: Stmt, load: Load | Store) -> bool:
    """Whether a thread reads what it wrote itself; copies wrote nothing."""
    if not isinstance(stmt, Loop) or w.valid or w.layout.ragged:
        return False
    return w.written.get(load.buffer) == _key(stmt, load)


def _key(loop: Loop, access: Load | Store) -> tuple[Atom | None, ...]:
    """The extent of a loop and the coordinates in it, with the loop's axis unnamed."""
    return (loop.extent, *(None if a == loop.axis else a for a in access.at))
