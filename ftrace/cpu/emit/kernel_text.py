"""Kernel IR to LLVM text: one walk over a kernel, one function of a module.

The function is `void @symbol(ptr %slots, ptr %table)`: `slots` holds base addresses, `table`
64-bit integers (byte offsets, steps, sizes, literals as bits); lowering/kernel/launching.py says
which. It writes no globals and keeps its state in registers, so it may run in many threads at once.
Loops that threads share are functions of their own (thread_regions.py).
Statements are written by lane_loops.py, lane_branches.py and lane_memory.py, operations by
llvm_spelling.py, some quotients by shared_divisors.py.
"""

from ftrace.cpu.emit import lane_branches, lane_loops, lane_memory
from ftrace.cpu.emit.emitter import State
from ftrace.cpu.emit.shared_divisors import quotient, shares
from ftrace.cpu.llvm.text import Processor, Text
from ftrace.cpu.mathematics.llvm_spelling import spell
from ftrace.lowering.kernel.ir import Block, If, Let, Load, Loop, Store, While
from ftrace.lowering.kernel.launching import Launch


def emit(launch: Launch, symbol: str, host: Processor, declarations: dict[str, str]) -> str:
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
    state = State(text, launch, _block, symbol)
    state.push()
    state.block(launch.kernel.body)
    state.pop()
    return state.function(symbol, "ptr noalias readonly %slots, ptr noalias readonly %table")


def _block(s: State, block: Block) -> None:
    """Write the statements of a block in order."""
    for stmt in block.stmts:
        match stmt:
            case Let():
                let(s, stmt)
            case Load():
                lane_memory.load(s, stmt)
            case Store():
                lane_memory.store(s, stmt)
            case Loop():
                lane_loops.loop(s, stmt)
            case If():
                lane_branches.branch(s, stmt)
            case While():
                lane_branches.repeat(s, stmt)


def let(s: State, stmt: Let) -> None:
    """Write an operation: once where its operands are uniform, else in every lane."""
    args = [s.value(a) for a in stmt.args]
    if s.lanes > 1 and any(v.lanes > 1 for v in args):
        args = [s.wide(a) for a in stmt.args]
    if shares(s, stmt.op, args, stmt.args):
        s.define(stmt.out, quotient(s, args, stmt.args))
    else:
        s.define(stmt.out, spell(s.text, stmt.op, args, stmt.out.dtype))
