"""If and While: branches where all lanes agree, masks and selects where they do not.

In lanes, an arm that is expensive or touches memory is skipped for a vector in which no lane takes
it, and runs under a mask otherwise; cheap arms are both computed. Where nothing differs between
lanes (or there is one lane), both are plain branches; loops that lanes leave one by one are
divergent_loops.py's.
"""

from ftrace.core.scalar import OPS
from ftrace.cpu.emit import divergent_lanes, divergent_loops, interrupts
from ftrace.cpu.emit.emitter import Carried, State
from ftrace.cpu.llvm.text import Typed
from ftrace.cpu.llvm.vector_idioms import both, invert, zero
from ftrace.cpu.mathematics.llvm_spelling import spell
from ftrace.lowering.kernel.ir import Block, If, Let, While

FEW = 4  # statements in both arms that are computed rather than jumped over by a uniform branch


def branch(s: State, stmt: If) -> None:
    """Write an If."""
    cond = s.value(stmt.cond)
    if _cheap(stmt.then) and _cheap(stmt.orelse) and (cond.lanes > 1 or _small(stmt)):
        then, orelse = s.block(stmt.then), s.block(stmt.orelse)
        outs = [_select(s, cond, a, b) for a, b in zip(then, orelse, strict=True)]
    elif cond.lanes == 1:
        outs = _uniform(s, cond, stmt)
    else:
        outs = _masked(s, cond, stmt)
    for var, value in zip(stmt.outs, outs, strict=True):
        s.define(var, value)


def _cheap(block: Block) -> bool:
    """Whether to compute a block for lanes that do not need it."""
    for stmt in block.stmts:
        if isinstance(stmt, If):
            if not (_cheap(stmt.then) and _cheap(stmt.orelse)):
                return False
        elif not isinstance(stmt, Let) or OPS[stmt.op].costly:
            return False
    return True


def _small(stmt: If) -> bool:
    return bool(stmt.outs) and len(stmt.then.stmts) + len(stmt.orelse.stmts) <= FEW


def _select(s: State, cond: Typed, a: Typed, b: Typed) -> Typed:
    if a == b:
        return a
    lanes = max(cond.lanes, a.lanes, b.lanes)
    cond, a, b = (s.text.splat(v, lanes) for v in (cond, a, b))
    return spell(s.text, "select", (cond, a, b), a.dtype)


def _uniform(s: State, cond: Typed, stmt: If) -> list[Typed]:
    """One arm or the other."""
    text = s.text
    then, orelse, done = text.fresh("then"), text.fresh("else"), text.fresh("done")
    wide = [s.lanes > 1 and v.id in s.varying for v in stmt.outs]
    text.branch(cond, then, orelse)
    ends: list[tuple[list[Typed], str]] = []
    for label, block in ((then, stmt.then), (orelse, stmt.orelse)):
        text.label(label)
        left = _arm(s, block, s.mask, s.loading)
        left = [s.widen(v) if w else v for v, w in zip(left, wide, strict=True)]
        ends.append((left, text.block))
        text.jump(done)
    text.label(done)
    (a, from_a), (b, from_b) = ends
    return [
        text.phi(x.dtype, x.lanes, [(x, from_a), (y, from_b)]) for x, y in zip(a, b, strict=True)
    ]


def _arm(s: State, block: Block, mask: Typed | None, loading: Typed | None) -> list[Typed]:
    """A block as a scope of its own, under a mask."""
    outer = s.mask, s.loading
    s.mask, s.loading = mask, loading
    s.push()
    left = s.block(block)
    s.pop()
    s.mask, s.loading = outer
    return left


def _masked(s: State, cond: Typed, stmt: If) -> list[Typed]:
    """Both arms, each only if some lane takes it."""
    then = _taken(s, stmt.then, cond, stmt.skips)
    otherwise = None if _cheap(stmt.orelse) else invert(s.text, cond)
    orelse = _taken(s, stmt.orelse, otherwise, stmt.skips)
    return [_select(s, cond, a, b) for a, b in zip(then, orelse, strict=True)]


def _taken(s: State, block: Block, cond: Typed | None, skips: bool) -> list[Typed]:
    """What a block leaves where `cond` holds; anything elsewhere."""
    if cond is None or _cheap(block):
        return s.block(block)
    text = s.text
    active = both(text, s.mask, cond)
    assert active is not None
    arm, done = text.fresh("arm"), text.fresh("done")
    some = text.any(active)
    before = text.block
    text.branch(some, arm, done)
    text.label(arm)
    left = [s.widen(v) for v in _arm(s, block, active, s.loading if skips else active)]
    end = text.block
    text.jump(done)
    text.label(done)
    return [text.phi(v.dtype, v.lanes, [(zero(v.dtype, v.lanes), before), (v, end)]) for v in left]


def repeat(s: State, stmt: While) -> None:
    """Write a While."""
    if s.lanes > 1 and divergent_lanes.differs(stmt, s.varying):
        divergent_loops.repeat(s, stmt)
    else:
        _repeat_together(s, stmt)


def _repeat_together(s: State, stmt: While) -> None:
    """A loop that all lanes leave in the same iteration, if any of them is in it."""
    text = s.text
    wide = [s.lanes > 1 and v.id in s.varying for v in stmt.params]
    inits = [s.wide(a) if w else s.scalar(a) for a, w in zip(stmt.inits, wide, strict=True)]
    test, work, done = (text.fresh(name) for name in ("test", "work", "done"))
    watch = interrupts.watch(s, stmt.body)
    counts = [] if watch is None else [watch.begin()]
    s.push()
    before = text.block
    text.jump(test)
    text.label(test)
    around = Carried(text, [*counts, *inits], before)
    values = around.values[len(counts) :]
    s.push()
    for var, value in zip(stmt.params, values, strict=True):
        s.define(var, value)
    (more,) = s.block(stmt.cond)
    text.branch(more, work, done)
    text.label(work)
    left = s.block(stmt.body)
    left = [s.widen(v) if w else v for v, w in zip(left, wide, strict=True)]
    s.pop()
    interrupts.close(watch, around, left, test, done)
    s.pop()
    for var, value in zip(stmt.outs, values, strict=True):
        s.define(var, value)
