"""Kernel IR to CUDA C: one walk over a kernel, one function per stage.

A function is `extern "C" __global__ void symbol_0(const Words<N> a)`: the words are the buffers'
base pointers, their steps of class `any`, and the kernel's scalars. teams.py writes how the
owners' iterations get their threads, team_loops.py and team_folds.py what the threads of a team
share, regions.py the elements that one thread takes at once, tiles.py what lies across.
"""

from collections.abc import Container, Sequence
from typing import Final

from ftrace.gpu.emit import barriers, cuda_spelling, team_loops, teams, thread_branches, tiles
from ftrace.gpu.emit.bounded_quotients import quotient
from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid.layout import BLOCK, BLOCK_THREADS, COLUMN, GridLayout
from ftrace.lowering.kernel.ir import Buffer, If, Kernel, Let, Load, Loop, Stmt, Store, While

HEADER: Final = f"""\
template <int N> struct Words {{ long long w[N]; }};
template <class T, int N> struct alignas(sizeof(T) * N) Pack {{ T v[N]; }};
template <class T> inline void ft_add_exact(T& high, T& low, T other, T other_low) {{
  const T s = high + other, t = s - high;
  low = (low + other_low) + ((high - (s - t)) + (other - t));
  high = s;
}}
{tiles.PLACE}"""  # once per source, before the functions


def emit(
    kernel: Kernel, layout: GridLayout, symbol: str, given: Container[str] = frozenset()
) -> str:
    """The text of a kernel's functions.

    Args:
        kernel: as `mapping.mapped` leaves it.
        layout: how its loops fall on the grid.
        symbol: the functions are `symbol_0`, `symbol_1` ..., one per stage.
        given: the names of buffers whose one element is in its word, instead of their address.

    Raises:
        BackendError: the kernel holds something that this backend cannot do.
    """
    stages = range(2 if layout.split > 1 else 1)
    return "\n".join(_function(kernel, layout, k, f"{symbol}_{k}", given) for k in stages)


def _function(
    kernel: Kernel, layout: GridLayout, stage: int, symbol: str, given: Container[str]
) -> str:
    w = Writer(kernel, layout, stage, statements)
    count = _operands(w, given)
    teams.teams(w)
    if w.shared:
        w.lines[:0] = [
            f"  __shared__ __align__(16) unsigned char shared[2][{w.shared}];",
            "  unsigned phase = 0;",
        ]
    head = f'extern "C" __global__ void __launch_bounds__({_threads(w)})'
    parameter = f"const {'__grid_constant__ ' if given else ''}Words<{count}> a"
    return "\n".join([f"{head} {symbol}({parameter}) {{", *w.lines, "}\n"])


def _threads(w: Writer) -> int:
    """The most threads of a block."""
    if w.layout.team == BLOCK:
        return w.threads
    return w.layout.across * w.threads if w.layout.team == COLUMN else BLOCK_THREADS


def _operands(w: Writer, given: Container[str]) -> int:
    """Names for what the words hold; how many there are."""
    at = 0
    for b in w.kernel.buffers:
        kind = _pointer(b)
        w.line(f"{kind} g_{b.name} = ({kind}){'&' if b.name in given else ''}a.w[{at}];")
        at += 1
    for b in w.kernel.buffers:
        words = [f"a.w[{at + k}]" for k in range(b.steps.count("any"))]
        w.buffers[b.name] = (b, words)
        at += len(words)
    for v in w.kernel.scalars:
        w.declare(v, _scalar(f"a.w[{at}]", v.dtype))
        at += 1
    if w.layout.split > 1:
        w.line(f"unsigned char* scratch = (unsigned char*)a.w[{at}];")
        at += 1
    return max(at, 1)


def _pointer(b: Buffer) -> str:
    return f"{'const ' if b.space == 'in' else ''}{cuda_spelling.MEMORY[b.dtype]}*"


def _scalar(word: str, dtype: str) -> str:
    """A scalar from its word."""
    if dtype[0] == "f":
        whole = "i" + dtype[1:]
        part = f"(({cuda_spelling.REGISTER[whole]}){word})"
        return cuda_spelling.spell("bitcast", [part], [whole], dtype)
    return f"{word} != 0" if dtype == "b1" else f"({cuda_spelling.REGISTER[dtype]}){word}"


def statements(w: Writer, stmts: Sequence[Stmt]) -> None:
    """Write statements in order."""
    for stmt in stmts:
        barriers.before(w, stmt)
        match stmt:
            case Let():
                let(w, stmt)
            case Load():
                load(w, stmt)
            case Store():
                store(w, stmt)
            case Loop():
                team_loops.loop(w, stmt)
            case If():
                thread_branches.branch(w, stmt)
            case While():
                thread_branches.repeat(w, stmt)


def let(w: Writer, stmt: Let) -> None:
    """An operation."""
    w.made[stmt.out.id] = stmt
    if function := quotient(stmt, w.made):
        w.declare(stmt.out, f"{function}({w.value(stmt.args[1])})")
        return
    args, dtypes = [w.value(a) for a in stmt.args], [a.dtype for a in stmt.args]
    w.declare(stmt.out, cuda_spelling.spell(stmt.op, args, dtypes, stmt.out.dtype))


def load(w: Writer, stmt: Load) -> None:
    """One element."""
    if id(stmt) in w.held.taken:
        w.declare(stmt.out, w.kept(w.held.taken[id(stmt)]))
        return
    place = w.place(stmt)
    w.declare(stmt.out, f"{place} != 0" if stmt.out.dtype == "b1" else place)
    if id(stmt) in w.held.saved:
        w.line(f"{w.kept(w.held.saved[id(stmt)])} = {w.value(stmt.out)};")


def store(w: Writer, stmt: Store) -> None:
    """One element; by one thread where its team has it in common."""
    place, value = w.place(stmt), w.value(stmt.value)
    number = w.held.saved.get(id(stmt))
    if stmt.combine is not None:
        before = place if number is None else w.kept(number)
        value = thread_branches.combined(stmt.combine, [before, value], stmt.value.dtype)
    if number is not None:
        w.line(f"{w.kept(number)} = {value};")
    if id(stmt) not in w.held.dead:
        w.line(f"{w.guarded(stmt)}{place} = {value};")
