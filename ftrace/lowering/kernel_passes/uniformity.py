"""Which variables differ between the lanes of a loop.

Values of straight code show it themselves (they are vectors or not); the variables of inner loops
must be known before their bodies are written.
"""

from ftrace.lowering.kernel.ir import Atom, Block, If, KernelVar, Let, Lit, Load, Loop, Stmt, While


def varying_in(block: Block, axis: KernelVar) -> set[int]:
    """Ids of the variables that depend on a lane loop's axis."""
    found = {axis.id}
    _block(block, found)
    return found


def _differs(found: set[int], atoms: tuple[Atom, ...]) -> bool:
    return any(not isinstance(a, Lit) and a.id in found for a in atoms)


def _block(block: Block, found: set[int]) -> None:
    for stmt in block.stmts:
        _stmt(stmt, found)


def _stmt(stmt: Stmt, found: set[int]) -> None:
    match stmt:
        case Let():
            if _differs(found, stmt.args):
                found.add(stmt.out.id)
        case Load():
            if _differs(found, stmt.at):
                found.add(stmt.out.id)
        case If():
            _if(stmt, found)
        case Loop():
            _loop(stmt, found)
        case While():
            _while(stmt, found)
        case _:
            return


def _if(stmt: If, found: set[int]) -> None:
    chosen = _differs(found, (stmt.cond,))
    _block(stmt.then, found)
    _block(stmt.orelse, found)
    for out, a, b in zip(stmt.outs, stmt.then.results, stmt.orelse.results, strict=True):
        if chosen or _differs(found, (a, b)):
            found.add(out.id)


def _loop(stmt: Loop, found: set[int]) -> None:
    folded = len(stmt.outs) - len(stmt.params)
    _carried(stmt.params, stmt.inits, stmt.body, folded, found)
    for out, left in zip(stmt.outs[:folded], stmt.body.results, strict=False):
        if _differs(found, (left,)):
            found.add(out.id)
    _pairs(stmt, found)
    for out, param in zip(stmt.outs[folded:], stmt.params, strict=True):
        if param.id in found:
            found.add(out.id)


def _pairs(stmt: Loop, found: set[int]) -> None:
    """Value and index of a pair differ together."""
    first = 0
    for fold in stmt.folds:
        if fold.op in ("argmax", "argmin"):
            pair = stmt.outs[first : first + 2]
            if _differs(found, pair):
                found.update(v.id for v in pair)
            first += 1
        first += 1


def _while(stmt: While, found: set[int]) -> None:
    _carried(stmt.params, stmt.inits, stmt.body, 0, found)
    _block(stmt.cond, found)
    if _differs(found, stmt.cond.results):  # lanes end at different times
        found.update(p.id for p in stmt.params)
        _block(stmt.cond, found)
        _block(stmt.body, found)
    for out, param in zip(stmt.outs, stmt.params, strict=True):
        if param.id in found:
            found.add(out.id)


def _carried(
    params: tuple[KernelVar, ...],
    inits: tuple[Atom, ...],
    body: Block,
    skip: int,
    found: set[int],
) -> None:
    """A carried variable differs once its start or its next value does: a fixed point."""
    found.update(p.id for p, a in zip(params, inits, strict=True) if _differs(found, (a,)))
    while True:
        before = len(found)
        _block(body, found)
        for param, left in zip(params, body.results[skip:], strict=True):
            if _differs(found, (left,)):
                found.add(param.id)
        if len(found) == before:
            return
