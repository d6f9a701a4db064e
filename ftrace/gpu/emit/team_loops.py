"""Loops inside teams: over the threads of a team, or one iteration after the other."""

from collections.abc import Generator
from contextlib import contextmanager

from ftrace.gpu.emit import team_folds, thread_branches
from ftrace.gpu.emit.regions import elements
from ftrace.gpu.emit.writer import Writer
from ftrace.lowering.kernel.ir import Atom, Block, Let, Loop, Stmt

Folded = list[tuple[team_folds.Accumulator, list[Atom]]]


def loop(w: Writer, stmt: Loop) -> None:
    """Write a loop; its outs are bound after it."""
    lanes = stmt.axis.id in w.layout.lanes
    folded = team_folds.accumulators(w, stmt)
    thread_branches.carry(w, stmt.params, stmt.inits)
    if not lanes:
        _serial(w, stmt, folded)
    elif w.layout.split == 1 or w.partial:
        _lanes(w, stmt, folded)
    for one, _ in folded:
        if one.fold.block and not (lanes and w.stage):
            one.flush()
    if lanes and folded:
        team_folds.together(w, [one for one, _ in folded])
    if w.partial:
        return
    results = [value for one, _ in folded for value in one.result(stmt.extent)]
    results += [w.name(v) for v in stmt.params]
    for out, value in zip(stmt.outs, results, strict=True):
        w.declare(out, value)


def _serial(w: Writer, stmt: Loop, folded: Folded) -> None:
    index, axis = w.layout.index, f"i{stmt.axis.id}"
    common = w.common
    head = f"for ({index} {axis} = 0; {axis} < {w.count(stmt.extent)}; ++{axis})"
    with w.braces(head), w.inside(stmt.axis):
        w.common = common
        _flushes(w, folded, axis)
        w.statements(w, stmt.body.stmts)
        for one, values in folded:
            one.step(values, "", "")
        left = stmt.body.results[len(stmt.body.results) - len(stmt.params) :]
        thread_branches.following(w, stmt.params, left)


def _lanes(w: Writer, stmt: Loop, folded: Folded) -> None:
    """Neighbouring iterations fall on neighbouring threads."""
    start, step = _shares(w)
    step *= w.layout.batch
    before, w.only = w.only, w.valid
    with _pieces(w, stmt, start, step, any(one.fold.block for one, _ in folded)):
        _flushes(w, folded, f"turn{stmt.axis.id}")
        for one, _ in folded:
            one.open()

        def after(at: str, exists: str) -> None:
            for one, values in folded:
                one.step(values, at, exists)

        elements(w, *_inner(w, stmt), after)
        for one, _ in folded:
            one.close()
    w.only = before


@contextmanager
def _pieces(w: Writer, stmt: Loop, start: str, step: int, counted: bool) -> Generator[None]:
    """A loop over what a thread takes at once; one of known length where rows are held."""
    index, axis, turn = w.layout.index, f"b{stmt.axis.id}", f"turn{stmt.axis.id}"
    extent = w.count(stmt.extent)
    if w.layout.held:
        w.line("#pragma unroll")
        with w.braces(f"for (int c = 0; c < {w.layout.held}; ++c)"):
            w.line(f"const {index} {axis} = {start} + ({index})(c * {step});")
            if counted:
                w.line(f"const int {turn} = c;")
            with w.braces(f"if ({axis} < {extent})"):
                yield
        return
    if counted:
        w.line(f"unsigned {turn} = 0;")
    following = f"{axis} += {step}{f', {turn} += {w.layout.batch}' if counted else ''}"
    with w.braces(f"for ({index} {axis} = {start}; {axis} < {extent}; {following})"):
        yield


def _shares(w: Writer) -> tuple[str, int]:
    """Where a thread's share of a loop starts, and how far apart its pieces are.

    The blocks of a split loop take turns: each takes what all its threads can.
    """
    index, split, width = w.layout.index, w.layout.split, w.layout.width
    lane = f"({index})lane"
    if split > 1:
        lane = f"(({index})part * {w.threads} + lane)"
    return f"{lane} * {width}" if width > 1 else lane, w.threads * split * width


def _inner(w: Writer, stmt: Loop) -> tuple[Loop, tuple[Stmt, ...]]:
    """The loop whose elements a thread takes, and its statements; of two joined, the inner one."""
    for axis, quotient, remainder in w.layout.joined:
        if axis == stmt.axis.id:
            (outer, inner), rest = stmt.body.stmts[:2], stmt.body.stmts[2:]
            assert isinstance(outer, Let)
            assert isinstance(inner, Let)
            index, count = w.layout.index, w.count(outer.args[1])
            w.line(f"const {index} i{quotient} = b{axis} / ({count});")
            w.line(f"const {index} b{remainder} = b{axis} - i{quotient} * ({count});")
            w.axes.add(quotient)
            return Loop((), inner.out, outer.args[1], Block(())), rest
    return stmt, stmt.body.stmts


def _flushes(w: Writer, folded: Folded, turn: str) -> None:
    """End the blocks of folds that end before this iteration."""
    for one, _ in folded:
        if one.fold.block:
            rounds = one.fold.block // (one.fold.ways * max(one.fold.near, 1))
            with w.braces(f"if ({turn} % {rounds} == 0)"):
                one.flush()
