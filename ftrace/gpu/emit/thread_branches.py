"""Branches and repetitions, of one element.

An `If` whose arms are cheap is written as selects: a warp runs both arms anyway where its
elements differ, and registers are saved. Arms that load, or work long, stay behind a branch.
"""

from collections.abc import Sequence
from typing import Final

from ftrace.gpu.emit import cuda_spelling
from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.pressure import work
from ftrace.lowering.kernel.ir import Atom, Block, If, KernelVar, Let, Stmt, While
from ftrace.lowering.kernel.traversal import inside

CHEAP: Final = 48  # work up to which both arms are computed
FOLD_OPS: Final = {"sum": "add", "prod": "mul"}


def combined(fold: str, pair: Sequence[str], dtype: str) -> str:
    """Two values of a fold (no pair) as one."""
    return cuda_spelling.spell(FOLD_OPS.get(fold, fold), pair, [dtype, dtype], dtype)


def branch(w: Writer, stmt: If) -> None:
    """One of two blocks."""
    if _is_cheap((*stmt.then.stmts, *stmt.orelse.stmts)):
        w.statements(w, (*stmt.then.stmts, *stmt.orelse.stmts))
        for out, a, b in zip(stmt.outs, stmt.then.results, stmt.orelse.results, strict=True):
            args = [w.value(stmt.cond), w.value(a), w.value(b)]
            w.declare(out, cuda_spelling.spell("select", args, ["b1", a.dtype, b.dtype], out.dtype))
        return
    _open(w, stmt.outs)
    with w.apart():
        with w.braces(f"if ({w.value(stmt.cond)})"):
            _arm(w, stmt.then, stmt.outs)
        if stmt.orelse.stmts or stmt.outs:
            with w.braces("else"):
                _arm(w, stmt.orelse, stmt.outs)


def _is_cheap(stmts: Sequence[Stmt]) -> bool:
    pure = all(isinstance(s, Let | If) for s in inside(Block(tuple(stmts))))
    return pure and work(stmts) <= CHEAP


def _open(w: Writer, outs: Sequence[KernelVar], inits: Sequence[Atom] = ()) -> None:
    """Declare variables that are assigned in blocks."""
    for number, var in enumerate(outs):
        if var.id not in w.arrays:
            start = f" = {w.value(inits[number])}" if inits else ""
            w.line(f"{w.type(var.dtype)} {w.name(var)}{start};")


def _arm(w: Writer, block: Block, outs: Sequence[KernelVar]) -> None:
    w.statements(w, block.stmts)
    for out, result in zip(outs, block.results, strict=True):
        w.line(f"{w.name(out)} = {w.value(result)};")


def repeat(w: Writer, stmt: While) -> None:
    """A loop of one element; what it carries becomes its outs."""
    _open(w, stmt.params, stmt.inits)
    with w.braces("for (;;)"), w.apart():
        w.statements(w, stmt.cond.stmts)
        w.line(f"if (!{w.value(stmt.cond.results[0])}) break;")
        w.statements(w, stmt.body.stmts)
        following(w, stmt.params, stmt.body.results)
    for out, var in zip(stmt.outs, stmt.params, strict=True):
        w.declare(out, w.name(var))


def carry(w: Writer, params: Sequence[KernelVar], inits: Sequence[Atom]) -> None:
    """Declare what a loop carries."""
    _open(w, params, inits)


def following(w: Writer, params: Sequence[KernelVar], left: Sequence[Atom]) -> None:
    """Give carried variables their next values, all at once."""
    new = [(v, a) for v, a in zip(params, left, strict=True) if v != a]
    own = set(params)
    for var, atom in new:
        if len(new) > 1 and atom in own:
            w.line(f"const {w.type(var.dtype)} n{var.id} = {w.value(atom)};")
    for var, atom in new:
        value = f"n{var.id}" if len(new) > 1 and atom in own else w.value(atom)
        w.line(f"{w.name(var)} = {value};")
