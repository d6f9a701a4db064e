"""The text of the pool of threads (thread_pool.py): who runs which ranges of a shared loop.

One region (cpu/emit/thread_regions.py) is open at a time. Its caller opens the *gate* by a new
number; ranges of iterations are claimed, by the caller too, by adding to a counter, so that a
thread that comes late or not at all costs nothing: whoever is there does the rest. The caller then
closes the gate and waits until no worker is *active*. A worker counts itself active before it looks
at the gate, and the caller closes before it looks who is active, so that none reads a region that
is gone. A worker looks at the gate for some microseconds after its last range, then sleeps; a
caller wakes those that sleep. Whoever finds the pool in use, by another thread of Python say, runs
all iterations alone.
"""

import platform
from typing import Final

from ftrace.cpu.emit.thread_regions import (
    ALIGN,
    FIRST,
    FUNCTION,
    IDLE,
    SHARE,
    SLOTS,
    STOP,
    THREADS,
)

STATE: Final = "ftrace_pool"
WORKER: Final = "ftrace_worker"
HOLD: Final = "ftrace_hold"
# words of the state, those that threads write often on lines of their own
OWNER, GATE, NEXT, ACTIVE, SLEEPING, WORKERS = 0, 8, 16, 24, 32, 40
REGION, LAST, RANGE, LIMIT, NUMBER = 48, 49, 50, 51, 52
MUTEX, CONDITION = 56, 64  # room for 64 bytes each
WORDS: Final = 80
PARTS: Final = 4  # ranges per thread: some may take longer than others
LOOKS: Final = 800  # at the gate before a worker sleeps: 10 to 40 us, as long as pauses are
WAITS: Final = 1000  # looks of a caller before it lets others run, and looks for signals

_X86, _ARM = ("llvm.x86.sse2.pause", "", ""), ("llvm.aarch64.hint", "i32", "i32 1")
_PAUSES: Final = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}
"""What tells a processor that a loop waits: name, types and operands of LLVM's intrinsic."""


def pool_text() -> str:
    """`void ftrace_share(ptr region)`, `ptr ftrace_worker(ptr)` and `i64 ftrace_hold()`.

    `ftrace_hold` lets nobody claim any more, waits for ranges that are claimed, and gives the first
    iteration that nobody has claimed.
    """
    name, types, operands = _PAUSES.get(platform.machine().lower(), ("", "", ""))
    words = {
        **{f"{name}_at": _state(name, word) for name, word in _NAMED.items()},
        **{name: _load(name, word) for name, word in _READ.items()},
        "SHARE": SHARE,
        "PARTS": PARTS,
        "STATE": STATE,
        "WORKER": WORKER,
        "HOLD": HOLD,
        "LOOKS": LOOKS,
        "WAITS": WAITS,
        "pause": f"call void @{name}({operands})" if name else "",
    }
    declared = f"declare void @{name}({types})\n" if name else ""
    return declared + _TEXT.format(**words)


_NAMED: Final = {
    "owner": OWNER,
    "gate": GATE,
    "next": NEXT,
    "active": ACTIVE,
    "sleeping": SLEEPING,
    "workers": WORKERS,
    "region": REGION,
    "last": LAST,
    "range": RANGE,
    "limit": LIMIT,
    "number": NUMBER,
    "mutex": MUTEX,
    "condition": CONDITION,
}
_READ: Final = {
    "function": FUNCTION,
    "slots": SLOTS,
    "first": FIRST,
    "stop": STOP,
    "align": ALIGN,
    "threads": THREADS,
    "idle": IDLE,
}


def _state(name: str, word: int) -> str:
    """The address of a word of the state."""
    return f"%{name}_at = getelementptr i64, ptr @{STATE}, i64 {word}"


def _load(name: str, word: int) -> str:
    """A word of the region."""
    kind = "ptr" if name in ("function", "slots", "idle") else "i64"
    return (
        f"%{name}_word = getelementptr i64, ptr %region, i64 {word}\n"
        f"  %{name} = load {kind}, ptr %{name}_word, align 8"
    )


_TEXT: Final = """
@{STATE} = external global i64
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i64 @pthread_self()

define i64 @{HOLD}() {{
entry:
  {next_at}
  {last_at}
  {active_at}
  %last = load i64, ptr %last_at, align 8
  %next = atomicrmw xchg ptr %next_at, i64 %last seq_cst
  br label %look
look:
  %active = load atomic i64, ptr %active_at seq_cst, align 8
  %over = icmp eq i64 %active, 0
  br i1 %over, label %done, label %wait
wait:
  %yielded = call i32 @sched_yield()
  br label %look
done:
  ret i64 %next
}}

define void @{SHARE}(ptr %region) {{
entry:
  {function}
  {slots}
  {first}
  {stop}
  {align}
  {threads}
  {idle}
  {owner_at}
  {gate_at}
  {next_at}
  {active_at}
  {sleeping_at}
  {workers_at}
  {region_at}
  {last_at}
  {range_at}
  {limit_at}
  {number_at}
  {mutex_at}
  {condition_at}
  %workers = load atomic i64, ptr %workers_at monotonic, align 8
  %others = sub i64 %threads, 1
  %fewer = icmp slt i64 %workers, %others
  %helpers = select i1 %fewer, i64 %workers, i64 %others
  %some = icmp sgt i64 %helpers, 0
  br i1 %some, label %cut, label %alone
cut:
  %all = add i64 %helpers, 1
  %pieces = mul i64 %all, {PARTS}
  %many = sub i64 %stop, %first
  %piece = udiv i64 %many, %pieces
  %padded = add i64 %piece, %align
  %multiple = udiv i64 %padded, %align
  %range = mul i64 %multiple, %align
  %whole = icmp sge i64 %range, %many
  br i1 %whole, label %alone, label %take
take:
  %me = call i64 @pthread_self()
  %pair = cmpxchg ptr %owner_at, i64 0, i64 %me seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %open, label %alone
alone:
  call void %function(ptr %region, i64 %first, i64 %stop, i64 0)
  ret void
open:
  store ptr %region, ptr %region_at, align 8
  store i64 %stop, ptr %last_at, align 8
  store i64 %range, ptr %range_at, align 8
  store i64 %helpers, ptr %limit_at, align 8
  store atomic i64 %first, ptr %next_at monotonic, align 8
  %before = load i64, ptr %number_at, align 8
  %number = add i64 %before, 1
  store i64 %number, ptr %number_at, align 8
  store atomic i64 %number, ptr %gate_at seq_cst, align 8
  %asleep = load atomic i64, ptr %sleeping_at seq_cst, align 8
  %sleepers = icmp sgt i64 %asleep, 0
  br i1 %sleepers, label %wake, label %work
wake:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex_at)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition_at)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex_at)
  br label %work
work:
  call void @claim(i64 0)
  store atomic i64 0, ptr %gate_at seq_cst, align 8
  br label %look
look:
  %looks = phi i64 [ 0, %work ], [ %looked, %wait ], [ 0, %let ], [ 0, %listen ]
  %active = load atomic i64, ptr %active_at seq_cst, align 8
  %over = icmp eq i64 %active, 0
  br i1 %over, label %done, label %wait
wait:
  {pause}
  %looked = add i64 %looks, 1
  %long = icmp sge i64 %looked, {WAITS}
  br i1 %long, label %let, label %look
let:
  %yielded = call i32 @sched_yield()
  %deaf = icmp eq ptr %idle, null
  br i1 %deaf, label %look, label %listen
listen:
  call void %idle(ptr %slots)
  br label %look
done:
  store atomic i64 0, ptr %owner_at seq_cst, align 8
  ret void
}}

define internal void @claim(i64 %worker) {{
entry:
  {next_at}
  {region_at}
  {last_at}
  {range_at}
  %region = load ptr, ptr %region_at, align 8
  %stop = load i64, ptr %last_at, align 8
  %range = load i64, ptr %range_at, align 8
  {function}
  br label %more
more:
  %at = atomicrmw add ptr %next_at, i64 %range monotonic
  %left = icmp slt i64 %at, %stop
  br i1 %left, label %run, label %done
run:
  %end = add i64 %at, %range
  %inside = icmp slt i64 %end, %stop
  %to = select i1 %inside, i64 %end, i64 %stop
  call void %function(ptr %region, i64 %at, i64 %to, i64 %worker)
  br label %more
done:
  ret void
}}

define ptr @{WORKER}(ptr %given) {{
entry:
  {gate_at}
  {active_at}
  {sleeping_at}
  {limit_at}
  {mutex_at}
  {condition_at}
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %seen, %pause ], [ %gate, %leave ], [ %seen, %awake ]
  %looks = phi i64 [ 0, %entry ], [ %looked, %pause ], [ 0, %leave ], [ 0, %awake ]
  %gate = load atomic i64, ptr %gate_at seq_cst, align 8
  %closed = icmp eq i64 %gate, 0
  %known = icmp eq i64 %gate, %seen
  %nothing = or i1 %closed, %known
  br i1 %nothing, label %idle, label %enter
idle:
  %looked = add i64 %looks, 1
  %tired = icmp sge i64 %looked, {LOOKS}
  br i1 %tired, label %sleep, label %pause
pause:
  {pause}
  br label %look
sleep:
  %locked = call i32 @pthread_mutex_lock(ptr %mutex_at)
  %sleepers = atomicrmw add ptr %sleeping_at, i64 1 seq_cst
  br label %check
check:
  %now = load atomic i64, ptr %gate_at seq_cst, align 8
  %still_closed = icmp eq i64 %now, 0
  %still_known = icmp eq i64 %now, %seen
  %still = or i1 %still_closed, %still_known
  br i1 %still, label %doze, label %awake
doze:
  %waited = call i32 @pthread_cond_wait(ptr %condition_at, ptr %mutex_at)
  br label %check
awake:
  %fewer = atomicrmw sub ptr %sleeping_at, i64 1 seq_cst
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex_at)
  br label %look
enter:
  %place = atomicrmw add ptr %active_at, i64 1 seq_cst
  %open = load atomic i64, ptr %gate_at seq_cst, align 8
  %same = icmp eq i64 %open, %gate
  br i1 %same, label %count, label %leave
count:
  %limit = load i64, ptr %limit_at, align 8
  %room = icmp slt i64 %place, %limit
  br i1 %room, label %work, label %leave
work:
  call void @claim(i64 1)
  br label %leave
leave:
  %out = atomicrmw sub ptr %active_at, i64 1 seq_cst
  br label %look
}}
"""
