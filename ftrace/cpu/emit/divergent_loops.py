"""Loops whose lanes end at different times.

Where little is read after the loop, a lane that is done holds that in every iteration; where it is
computed last, the mask costs nothing. More values would cost a blend each. So they iterate freely:
what lanes that are done compute is not looked at, and only an iteration in which some lane ends
stops for it. Those leave what is read after the loop, and the mask gets smaller. This is a loop in
a
loop: the inner one iterates until some lane ends, under a mask that stays.
"""

from collections.abc import Sequence
from functools import reduce

from ftrace.cpu.emit import divergent_lanes, interrupts
from ftrace.cpu.emit.emitter import Carried, State
from ftrace.cpu.llvm.text import Typed
from ftrace.cpu.llvm.vector_idioms import both, invert, join, part
from ftrace.lowering.kernel.ir import While

HELD = 2  # values read after a loop that lanes hold in every iteration
Round = tuple[list[Typed], list[Typed], Typed]  # carried, read afterwards, who iterates again


def repeat(s: State, stmt: While) -> None:
    """Write a While that lanes leave one by one."""
    _Ending(s, stmt).write()


class _Ending:
    """One loop.

    Attributes:
        read: places of what is read afterwards.
        inits: the first values.
        deadline: when it stops for divergent_lanes, if it leaves them behind.
    """

    def __init__(self, s: State, stmt: While) -> None:
        self.s, self.stmt, self.outer = s, stmt, s.mask
        self.read = [i for i, v in enumerate(stmt.outs) if v in s.read]
        self.inits = [s.wide(a) for a in stmt.inits]
        self.deadline = divergent_lanes.Deadline(s) if s.leaving is stmt else None
        self.watch = interrupts.watch(s, stmt.body)

    def write(self) -> None:
        """Rounds, of one iteration or until some lane ends; then what they leave."""
        s, text, n = self.s, self.s.text, len(self.inits)
        again, done = text.fresh("again"), text.fresh("done")
        s.push()
        active = both(text, self.outer, self._more(self.inits))
        assert active is not None
        starts = text.any(active) if self.deadline is None else self.deadline.first(active)
        start = [] if self.watch is None else [self.watch.begin()]
        first, before = [self.inits[i] for i in self.read], text.block
        text.branch(starts, again, done)
        text.label(again)
        free = len(first) > HELD
        counts = [] if self.deadline is None else self.deadline.counts
        held = first if free else []
        around = Carried(text, [*start, *self.inits, active, *counts, *held], before)
        if self.watch is not None:
            self.watch.left = around.values[0]
        values = around.values[len(start) :]
        carried, mask, rest = values[:n], values[n], values[n + 1 :]
        if self.deadline is not None:
            self.deadline.counts = rest[:2]
        run = self._freely if free else self._in_step
        left, held, stays = run(carried, mask, rest[len(counts) :])
        goes_on = text.any(stays) if self.deadline is None else self.deadline.goes_on(stays)
        counts = [] if self.deadline is None else self.deadline.counts
        now = [] if self.watch is None else [self.watch.left]
        for count in now:
            goes_on = text.op("and", goes_on, text.compare("ne", count, text.like(count, 0)))
        around.close([*now, *left, stays, *counts, *(held if free else ())])
        last = text.block
        text.branch(goes_on, again, done)
        text.label(done)
        s.pop()
        if self.watch is not None:
            self.watch.left = text.phi("i8", 1, [(start[0], before), (now[0], last)])
        for i, a, b in zip(self.read, first, held, strict=True):
            s.define(self.stmt.outs[i], text.phi(a.dtype, a.lanes, [(a, before), (b, last)]))
        if self.deadline is not None:
            s.behind = text.phi("b1", s.lanes, [(active, before), (stays, last)])
            s.mask = both(text, self.outer, invert(text, s.behind))
        if self.watch is not None:
            self.watch.end()

    def _define(self, values: Sequence[Typed]) -> None:
        for var, value in zip(self.stmt.params, values, strict=True):
            self.s.define(var, value)

    def _more(self, values: Sequence[Typed]) -> Typed:
        """Which lanes iterate again, with these values carried."""
        s = self.s
        s.push()
        self._define(values)
        (more,) = s.block(self.stmt.cond)
        s.pop()
        return s.widen(more)

    def _turn(self, values: Sequence[Typed], mask: Typed) -> list[Typed]:
        s = self.s
        s.push()
        self._define(values)
        s.mask = mask
        left = [s.widen(v) for v in s.block(self.stmt.body)]
        s.mask = self.outer
        s.pop()
        return left

    def _in_step(self, carried: Sequence[Typed], mask: Typed, _: Sequence[Typed]) -> Round:
        """One iteration; lanes that are done keep what is read afterwards."""
        text = self.s.text
        left = self._turn(carried, mask)
        if self.watch is not None:
            self.watch.turn()
        for i in self.read:
            left[i] = text.select(mask, left[i], carried[i])
        if self.deadline is not None:
            self.deadline.turned()
        stays = text.op("and", mask, self._more(left))
        return left, [left[i] for i in self.read], stays

    def _freely(self, carried: Sequence[Typed], mask: Typed, held: Sequence[Typed]) -> Round:
        """Turns until some lane ends."""
        text, n = self.s.text, len(carried)
        turn, event = text.fresh("turn"), text.fresh("event")
        pieces, before = self._pieces(mask), text.block
        counts = [] if self.deadline is None else self.deadline.counts
        text.jump(turn)
        text.label(turn)
        start = [] if self.watch is None else [self.watch.left]
        around = Carried(text, [*carried, *start, *counts[:1]], before)
        if self.watch is not None:
            self.watch.left = around.values[n]
        left = self._turn(around.values[:n], mask)
        more = self._pieces(self._more(left))
        ended = [text.op("and", a, invert(text, b)) for a, b in zip(pieces, more, strict=True)]
        some = text.any(reduce(lambda a, b: text.op("or", a, b), ended))
        if self.deadline is not None:
            self.deadline.counts = [around.values[-1], counts[1]]
            some = text.op("or", some, self.deadline.turned())
        if self.watch is not None:
            some = text.op("or", some, invert(text, self.watch.turn()))
        watched = [] if self.watch is None else [self.watch.left]
        around.close(
            [*left, *watched, *(() if self.deadline is None else self.deadline.counts[:1])]
        )
        text.branch(some, event, turn)
        text.label(event)
        over = join(text, ended)
        now = [text.select(over, left[i], x) for i, x in zip(self.read, held, strict=True)]
        return left, now, text.op("and", mask, invert(text, over))

    def _pieces(self, mask: Typed) -> list[Typed]:
        """A mask in parts of a register's lanes: compares give those, and joining takes time."""
        widest = max(int(v.dtype[1:]) for v in self.inits)
        size = min(mask.lanes, self.s.text.host.vector_bytes // widest)
        return [part(self.s.text, mask, k, size) for k in range(0, mask.lanes, size)]
