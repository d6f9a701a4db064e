"""Signals reach Python while native loops run: now and then a loop lets Python look.

A loop counts down what it has in a register. At zero it calls `ftrace_poll`, which looks at the
clock, chooses how many iterations come before the next look (about a millisecond of them), and
every 40 ms calls Python, where handlers of signals run. If one raised, as Ctrl-C does, the loop
ends at once, every other loop at its first look, and `main` fails as it does when a callback
raised. What a call knows is its *state*, four words whose address lies just before the slots:
when to call Python next, whether a handler raised, the callback, and where a look finds whether a
handler raised. What a loop knows is its *cell*: how many iterations are left, how many there were,
and when it last looked. Of the threads that share a loop (thread_regions.py) only the one that
called calls Python; the others have states of their own that show where its handlers raise.
"""

import time
from collections.abc import Sequence
from typing import Final

from ftrace.cpu.emit.emitter import Carried, State
from ftrace.cpu.llvm.text import Text, Typed
from ftrace.lowering.kernel.ir import Block, Let, Load, Loop, Stmt, While, blocks_of
from ftrace.lowering.kernel.traversal import inside

LOOK: Final = -3  # the number with which native code lets Python look for signals
POLL: Final = "ftrace_poll"
AVAILABLE: Final = hasattr(time, "clock_gettime")
PERIOD: Final = 40_000_000  # nanoseconds between two calls of Python
SHORT, RIGHT, LONG = 125_000, 1_000_000, 8_000_000  # nanoseconds between two looks
PLAIN: Final = 4096  # iterations before the first look where each takes nanoseconds


def first(body: Block) -> int:
    """How many iterations of a body run before the first look."""
    return 1 if any(isinstance(s, Loop | While) for s in inside(body)) else PLAIN


def polls(block: Block) -> bool:
    """Whether a loop in a block of a kernel looks for signals."""
    return AVAILABLE and any(map(_looks, block.stmts))


def _looks(stmt: Stmt) -> bool:
    if type(stmt) is Let or type(stmt) is Load:  # nearly all of them
        return False
    if isinstance(stmt, While) or (isinstance(stmt, Loop) and stmt.params):
        return True
    return any(map(polls, blocks_of(stmt)))


class SignalWatch:
    """The looks of one loop of a kernel.

    Attributes:
        left: iterations before the next look, where the text is being written; the loop carries
            it, and stops where it is 0 after an iteration.
    """

    def __init__(self, s: State, body: Block) -> None:
        self.text = s.text
        self.left: Typed
        declare(s.text)
        self._cell = f"%{s.text.fresh('cell')}"
        s.scopes[0].lines += cell(self._cell, first(body))
        self._state = state(s)

    def begin(self) -> Typed:
        """What the loop carries first: looks do not begin anew when it is entered again."""
        self.left = self.text.let(f"load i64, ptr {self._cell}, align 8", "i8", 1)
        return self.left

    def turn(self) -> Typed:
        """Count an iteration, and look if it is time; whether the loop may go on."""
        text = self.text
        look, go = text.fresh("look"), text.fresh("watched")
        less = text.sub(self.left, Typed("1", "i8", 1))
        before = text.block
        text.branch(text.compare("sle", less, Typed("0", "i8", 1)), look, go)
        text.label(look)
        more = text.let(f"call i64 @{POLL}(ptr {self._state}, ptr {self._cell})", "i8", 1)
        text.jump(go)
        text.label(go)
        self.left = text.phi("i8", 1, [(less, before), (more, look)])
        return text.compare("ne", self.left, Typed("0", "i8", 1))

    def end(self) -> None:
        """Behind the loop: `left` is what it carried last."""
        self.text.line(f"store i64 {self.left.name}, ptr {self._cell}, align 8")


def state(s: State) -> str:
    """The state of the call, where a kernel is written."""

    def read() -> Typed:
        place = s.text.let("getelementptr ptr, ptr %slots, i64 -1", "i8", 1)
        return s.text.let(f"load ptr, ptr {place.name}, align 8", "i8", 1)

    return s.hoisted(-1, "state", read).name


def watch(s: State, body: Block) -> SignalWatch | None:
    """The looks of a loop, if this system has a clock for them."""
    return SignalWatch(s, body) if AVAILABLE else None


def close(
    watch: SignalWatch | None, around: Carried, left: Sequence[Typed], head: str, done: str
) -> None:
    """End the body of a loop that carries a watch's count first, and begin block `done`."""
    if watch is None:
        around.close(left)
        around.text.jump(head)
        around.text.label(done)
        return
    carried = around.values[0]
    watch.left = carried
    goes_on = watch.turn()
    around.close([watch.left, *left])
    watch.text.branch(goes_on, head, done)
    watch.text.label(done)
    watch.left = carried
    watch.end()


def idle(text: Text) -> str:
    """Name of a function that looks for signals, for a thread that waits for others."""
    declare(text)
    text.declare("ftrace_idle", _IDLE)
    return "@ftrace_idle"


def cell(name: str, iterations: int) -> list[str]:
    """Text of a function's entry that makes a loop's cell."""
    words = (iterations, iterations, 0)
    lines = [f"  {name} = alloca [3 x i64], align 8"]
    for k, word in enumerate(words):
        lines.append(f"  {name}_{k} = getelementptr i64, ptr {name}, i64 {k}")
        lines.append(f"  store i64 {word}, ptr {name}_{k}, align 8")
    return lines


def declare(text: Text) -> None:
    """Make a module have `ftrace_poll`."""
    text.declare(POLL, RUNTIME)


STATE: Final = """  %state = alloca [4 x i64], align 8
  %raised = getelementptr i64, ptr %state, i64 1
  %asking = getelementptr i64, ptr %state, i64 2
  %looked_at = getelementptr i64, ptr %state, i64 3
  %before = getelementptr ptr, ptr %slots, i64 -1
  store i64 0, ptr %state, align 8
  store i64 0, ptr %raised, align 8
  store ptr %callback, ptr %asking, align 8
  store ptr %raised, ptr %looked_at, align 8
  store ptr %state, ptr %before, align 8"""

WORKER: Final = f"""  %before = getelementptr ptr, ptr %slots, i64 -1
  %called = load ptr, ptr %before, align 8
  %looked_at = getelementptr i64, ptr %called, i64 3
  %raised = load ptr, ptr %looked_at, align 8
  %own = alloca [4 x i64], align 8
  %own_looks = getelementptr i64, ptr %own, i64 3
  store i64 {(1 << 63) - 1}, ptr %own, align 8
  store ptr %raised, ptr %own_looks, align 8
  %calls = icmp eq i64 %worker, 0
  %state = select i1 %calls, ptr %called, ptr %own"""
"""The state of a thread that shares a loop: the call's, or one that never calls Python."""

RUNTIME: Final = f"""declare i32 @clock_gettime(i32, ptr)

define internal i64 @{POLL}(ptr %state, ptr %cell) noinline cold {{
entry:
  %time = alloca [2 x i64], align 8
  %looked_at = getelementptr i64, ptr %state, i64 3
  %raised_at = load ptr, ptr %looked_at, align 8
  %raised = load atomic i64, ptr %raised_at monotonic, align 8
  %over = icmp ne i64 %raised, 0
  br i1 %over, label %stop, label %look
look:
  %failed = call i32 @clock_gettime(i32 {getattr(time, "CLOCK_MONOTONIC", 0)}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %next = add i64 %now, {PERIOD}
  %due = load i64, ptr %state, align 8
  %early = icmp slt i64 %now, %due
  br i1 %early, label %adapt, label %renew
renew:
  store i64 %next, ptr %state, align 8
  %new = icmp eq i64 %due, 0
  br i1 %new, label %adapt, label %ask
ask:
  %asking_at = getelementptr i64, ptr %state, i64 2
  %asking = load ptr, ptr %asking_at, align 8
  %code = call i32 %asking(i64 {LOOK})
  %good = icmp eq i32 %code, 0
  br i1 %good, label %adapt, label %fail
fail:
  store atomic i64 1, ptr %raised_at monotonic, align 8
  br label %stop
adapt:
  %stride_at = getelementptr i64, ptr %cell, i64 1
  %last_at = getelementptr i64, ptr %cell, i64 2
  %last = load i64, ptr %last_at, align 8
  store i64 %now, ptr %last_at, align 8
  %stride = load i64, ptr %stride_at, align 8
  %passed = sub i64 %now, %last
  %short = icmp slt i64 %passed, {SHORT}
  %less = icmp slt i64 %passed, {RIGHT}
  %some = select i1 %less, i64 1, i64 0
  %up = select i1 %short, i64 3, i64 %some
  %known = icmp ne i64 %last, 0
  %long = icmp sgt i64 %passed, {LONG}
  %slow = and i1 %long, %known
  %down = select i1 %slow, i64 3, i64 0
  %grown = shl i64 %stride, %up
  %shrunk = lshr i64 %grown, %down
  %none = icmp eq i64 %shrunk, 0
  %one = select i1 %none, i64 1, i64 %shrunk
  %huge = icmp sgt i64 %one, {1 << 40}
  %chosen = select i1 %huge, i64 {1 << 40}, i64 %one
  store i64 %chosen, ptr %stride_at, align 8
  store i64 %chosen, ptr %cell, align 8
  ret i64 %chosen
stop:
  store i64 0, ptr %cell, align 8
  ret i64 0
}}
"""

_IDLE: Final = f"""define internal void @ftrace_idle(ptr %slots) noinline cold {{
  %cell = alloca [3 x i64], align 8
  store [3 x i64] zeroinitializer, ptr %cell, align 8
  %before = getelementptr ptr, ptr %slots, i64 -1
  %state = load ptr, ptr %before, align 8
  %more = call i64 @{POLL}(ptr %state, ptr %cell)
  ret void
}}
"""
