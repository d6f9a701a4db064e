"""Kernel IR to LLVM text: one walk over a kernel, one function of a module.

The function is `void @symbol(ptr %slots, ptr %table)`: `slots` holds base addresses, `table`
64-bit integers (byte offsets, steps, sizes, literals as bits); lowering/launching.py says which.
It writes no globals and keeps its state in registers, so it may run in many threads at once.
Statements are written by loops.py, branches.py and memory.py, operations by spelling.py, some
quotients by quotients.py.
"""

from ftrace.cpu import branches, loops, memory
from ftrace.cpu.quotients import quotient, shares
from ftrace.cpu.spelling import spell
from ftrace.cpu.state import State
from ftrace.cpu.text import Host, Text
from ftrace.lowering.ir import Alloc, Block, If, Let, Load, Loop, Store, While
from ftrace.lowering.launching import Launch


def emit(launch: Launch, symbol: str, host: Host, declarations: dict[str, str]) -> str:
    """The text of a kernel's function.

    Args:
        launch: the kernel, how it runs and where its operands are.
        symbol: name of the function.
        host: what the code is made for.
        declarations: of the module; what this function needs is added, by name.

    Returns:
        `define internal void @symbol(ptr %slots, ptr %table) {...}`

    Raises:
        BackendError: the kernel holds something that this backend cannot do.
    """
    text = Text(host, declarations)
    state = State(text, launch, _block)
    state.push()
    state.block(launch.kernel.body)
    state.pop()
    if launch.schedule.streams:
        text.line("fence seq_cst")  # what was written past the caches is there for other threads
    text.line("ret void")
    body = "\n".join(line for line in text.lines if line)
    # the frame pointer lets LLVM align the frame: else spilled registers lie across cache lines
    return (
        f"define internal void @{symbol}(ptr noalias readonly %slots, ptr noalias readonly %table)"
        f' nounwind "frame-pointer"="all" {{\nentry:\n{body}\n}}\n'
    )


def _block(s: State, block: Block) -> None:
    """Write the statements of a block in order."""
    for stmt in block.stmts:
        match stmt:
            case Let():
                let(s, stmt)
            case Load():
                memory.load(s, stmt)
            case Store():
                memory.store(s, stmt)
            case Loop():
                loops.loop(s, stmt)
            case If():
                branches.branch(s, stmt)
            case While():
                branches.repeat(s, stmt)
            case Alloc():
                raise s.fail("scratch memory has no place on this backend yet")


def let(s: State, stmt: Let) -> None:
    """Write an operation: once where its operands are uniform, else in every lane."""
    args = [s.value(a) for a in stmt.args]
    if s.lanes > 1 and any(v.lanes > 1 for v in args):
        args = [s.wide(a) for a in stmt.args]
    if shares(s, stmt.op, args, stmt.args):
        s.define(stmt.out, quotient(s, args, stmt.args))
    else:
        s.define(stmt.out, spell(s.text, stmt.op, args, stmt.out.dtype))
