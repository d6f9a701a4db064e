"""Walking through kernel IR, and rewriting it: what every pass needs.

`rewritten` changes statements where they stand, `substituted` gives them other names, `Fresh` has
names that are not taken.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ftrace.lowering.kernel.ir import (
    Atom,
    Block,
    If,
    Kernel,
    KernelVar,
    Let,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    While,
    blocks_of,
)


def inside(block: Block) -> Iterator[Stmt]:
    """Every statement of a block and of those in it."""
    for stmt in block.stmts:
        yield stmt
        for below in blocks_of(stmt):
            yield from inside(below)


def operands_of(stmt: Stmt) -> tuple[Atom, ...]:
    """Atoms that a statement reads apart from coordinates, and those that its blocks leave."""
    left = tuple(a for b in blocks_of(stmt) for a in b.results)
    match stmt:
        case Let():
            return stmt.args
        case Store():
            return (stmt.value,)
        case If():
            return (stmt.cond, *left)
        case While():
            return (*stmt.inits, *left)
        case Loop():
            return (stmt.extent, *stmt.inits, *left)
        case Load():
            return ()


def place_of(stmt: Stmt) -> tuple[Atom, ...]:
    """The coordinates of a load or store."""
    return stmt.at if isinstance(stmt, Load | Store) else ()


def uses_of(stmt: Stmt) -> set[Atom]:
    """All that a statement and those in it read."""
    used = {*operands_of(stmt), *place_of(stmt)}
    for block in blocks_of(stmt):
        for below in inside(block):
            used.update(operands_of(below), place_of(below))
    return used


def outs_of(stmt: Stmt) -> tuple[KernelVar, ...]:
    """The variables that a statement binds for those after it."""
    if isinstance(stmt, Let | Load):
        return (stmt.out,)
    return stmt.outs if isinstance(stmt, Loop | If | While) else ()


def variables_of(kernel: Kernel) -> list[KernelVar]:
    """Every variable of a kernel."""
    found = list(kernel.scalars)
    for stmt in inside(kernel.body):
        found += outs_of(stmt)
        if isinstance(stmt, Loop):
            found += [stmt.axis, *stmt.params]
        elif isinstance(stmt, While):
            found += stmt.params
    return found


def mapped(stmt: Stmt, change: Callable[[Block], Block]) -> Stmt:
    """A statement with its blocks changed."""
    if isinstance(stmt, Loop):
        return replace(stmt, body=change(stmt.body))
    if isinstance(stmt, If):
        return replace(stmt, then=change(stmt.then), orelse=change(stmt.orelse))
    if isinstance(stmt, While):
        return replace(stmt, cond=change(stmt.cond), body=change(stmt.body))
    return stmt


def rewritten(block: Block, change: Callable[[Stmt], Stmt]) -> Block:
    """A block with each statement changed, then those inside what it became."""
    stmts = [mapped(change(s), lambda b: rewritten(b, change)) for s in block.stmts]
    return Block(tuple(stmts), block.results)


class Fresh:
    """Variables that a kernel does not have yet: each call makes one."""

    __slots__ = ("_last",)

    def __init__(self, kernel: Kernel) -> None:
        self._last = max((v.id for v in variables_of(kernel)), default=0)

    def __call__(self, dtype: str) -> KernelVar:
        """A new variable."""
        self._last += 1
        return KernelVar(self._last, dtype)


def substituted(stmt: Stmt, env: Mapping[KernelVar, Any]) -> Stmt:
    """A statement under other names, of what it binds as of what it reads."""

    def of(atoms: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(a if isinstance(a, Lit) else env.get(a, a) for a in atoms)

    def block(b: Block) -> Block:
        return Block(tuple(substituted(s, env) for s in b.stmts), of(b.results))

    match stmt:
        case Let():
            return replace(stmt, out=of((stmt.out,))[0], args=of(stmt.args))
        case Load():
            return replace(stmt, out=of((stmt.out,))[0], at=of(stmt.at))
        case Store():
            return replace(stmt, at=of(stmt.at), value=of((stmt.value,))[0])
        case If():
            stmt = replace(stmt, outs=of(stmt.outs), cond=of((stmt.cond,))[0])
        case While():
            stmt = replace(stmt, outs=of(stmt.outs), inits=of(stmt.inits))
        case Loop():
            outs, (extent,), inits = of(stmt.outs), of((stmt.extent,)), of(stmt.inits)
            stmt = replace(stmt, outs=outs, extent=extent, inits=inits)
    return mapped(stmt, block)
