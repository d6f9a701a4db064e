"""Loops inside teams: over the threads of a team, or one iteration after the other."""

from ftrace.gpu import branches, folds
from ftrace.gpu.layout import COLUMN
from ftrace.gpu.regions import elements
from ftrace.gpu.writer import Writer
from ftrace.lowering.ir import Atom, Loop

Folded = list[tuple[folds.Accumulator, list[Atom]]]


def loop(w: Writer, stmt: Loop) -> None:
    """Write a loop; its outs are bound after it."""
    lanes = stmt.axis.id in w.layout.lanes
    folded = folds.accumulators(w, stmt, w.layout.width if lanes else 1)
    branches.carry(w, stmt.params, stmt.inits)
    if lanes:
        _lanes(w, stmt, folded)
    else:
        _serial(w, stmt, folded)
    results: list[str] = []
    for one, _ in folded:
        if one.fold.block:
            one.flush()
        if lanes:
            folds.together(w, one)
        results += one.result(stmt.extent)
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
        branches.following(w, stmt.params, left)


def _lanes(w: Writer, stmt: Loop, folded: Folded) -> None:
    """Neighbouring iterations fall on neighbouring threads."""
    index, axis, width = w.layout.index, f"b{stmt.axis.id}", w.layout.width
    step = w.layout.threads * width
    start = f"({index})lane" if width == 1 else f"({index})lane * {width}"
    turns = any(one.fold.block for one, _ in folded)
    if turns:
        w.line(f"unsigned turn{stmt.axis.id} = 0;")
    head = f"for ({index} {axis} = {start}; {axis} < {w.count(stmt.extent)}; {axis} += {step}"
    before = w.only
    w.only = "valid" if w.layout.team == COLUMN else ""
    with w.braces(f"{head}{f', ++turn{stmt.axis.id}' if turns else ''})"):
        _flushes(w, folded, f"turn{stmt.axis.id}")

        def after(at: str) -> None:
            missing = w.only if w.layout.team != COLUMN else ""
            for one, values in folded:
                one.step(values, at, missing)

        elements(w, stmt, stmt.body.stmts, after)
    w.only = before


def _flushes(w: Writer, folded: Folded, turn: str) -> None:
    """End the blocks of folds that end before this turn."""
    for one, _ in folded:
        if one.fold.block:
            with w.braces(f"if ({turn} % {one.fold.block // one.fold.ways} == 0)"):
                one.flush()
