"""The text that calls a gufunc's loop: a function that goes over the axes it does not pass itself.

`apply_<arguments>_<depth>_<cores>(loop, data, numbers, arrays...)` reads sizes and steps from
`numbers`, in the order of `LoopNumbers.numbers`, and passes the loop's own as they lie there. With
`flags` it says whether the loop raised "invalid"; the flag is then as it was before.
`share_<arguments>_<cores>(threads, loop, data, numbers, arrays...)` has threads pass over ranges of
the batch, by what thread_regions.py says of regions.
"""

from ftrace.cpu.emit.thread_regions import (
    ALIGN,
    CAPTURED,
    FIRST,
    FUNCTION,
    SHARE,
    STOP,
    THREADS,
    WORDS,
)
from ftrace.cpu.foreign.gufuncs import INVALID

APART = 16  # ranges of elements begin at multiples: threads do not write to one line of a cache

FLAGS = (
    "declare i32 @fetestexcept(i32)\n"
    "declare i32 @feclearexcept(i32)\n"
    "declare i32 @feraiseexcept(i32)"
)


def apply_name(arguments: int, depth: int, cores: int, *, flags: bool) -> str:
    """The name of the function."""
    return f"apply_{arguments}_{depth}_{cores}{'_flags' if flags else ''}"


def apply_text(arguments: int, depth: int, cores: int, *, flags: bool) -> str:
    """The function: `i1 (ptr loop, ptr data, ptr numbers, ptr array, ...)`."""
    bases = "".join(f", ptr %base{k}" for k in range(arguments))
    name = apply_name(arguments, depth, cores, flags=flags)
    dims = depth * (1 + arguments)
    lines = [
        f"define internal i1 @{name}(ptr %loop, ptr %data, ptr %numbers{bases}) noinline {{",
        "entry:",
        f"  %args = alloca [{arguments} x ptr], align 8",
        f"  %dims = getelementptr i64, ptr %numbers, i64 {dims}",
        f"  %steps = getelementptr i64, ptr %dims, i64 {1 + cores}",
        *_numbers(arguments, depth),
    ]
    lines += _before() if flags else ["  br label %start", "start:"]
    lines += _around(arguments, depth)
    lines += _flags() if flags else ["  ret i1 false"]
    return "\n".join([*lines, "}"])


def _numbers(arguments: int, depth: int) -> list[str]:
    """Loads the sizes of the loops around, and the steps of each array in them."""
    names = [f"size{i}" for i in range(depth)]
    names += [f"step{i}_{k}" for i in range(depth) for k in range(arguments)]
    lines = []
    for at, name in enumerate(names):
        lines.append(f"  %{name}_at = getelementptr i64, ptr %numbers, i64 {at}")
        lines.append(f"  %{name} = load i64, ptr %{name}_at, align 8")
    total = "1"
    for i in range(depth):
        lines.append(f"  %total{i} = mul i64 {total}, %size{i}")
        total = f"%total{i}"
    lines.append(f"  %total = add i64 {total}, 0")
    return lines


def _around(arguments: int, depth: int) -> list[str]:
    """The loops around, as one: its number tells the place in each."""
    lines = [
        "  br label %next",
        "next:",
        "  %turn = phi i64 [ 0, %start ], [ %after, %run ]",
        "  %more = icmp slt i64 %turn, %total",
        "  br i1 %more, label %run, label %done",
        "run:",
    ]
    rest = "%turn"
    for i in reversed(range(depth)):
        lines.append(f"  %i{i} = urem i64 {rest}, %size{i}")
        lines.append(f"  %rest{i} = udiv i64 {rest}, %size{i}")
        rest = f"%rest{i}"
    for k in range(arguments):
        address = f"%base{k}"
        for i in range(depth):
            lines.append(f"  %far{i}_{k} = mul i64 %i{i}, %step{i}_{k}")
            lines.append(f"  %at{i}_{k} = getelementptr i8, ptr {address}, i64 %far{i}_{k}")
            address = f"%at{i}_{k}"
        lines.append(f"  %arg{k} = getelementptr ptr, ptr %args, i64 {k}")
        lines.append(f"  store ptr {address}, ptr %arg{k}, align 8")  # loops move these
    lines.append("  call void %loop(ptr %args, ptr %dims, ptr %steps, ptr %data)")
    return [*lines, "  %after = add i64 %turn, 1", "  br label %next", "done:"]


def _before() -> list[str]:
    """Notes and clears the flag. Clearing takes longer than asking."""
    return [
        f"  %before = call i32 @fetestexcept(i32 {INVALID})",
        "  %set = icmp ne i32 %before, 0",
        "  br i1 %set, label %unset, label %start",
        "unset:",
        f"  %cleared = call i32 @feclearexcept(i32 {INVALID})",
        "  br label %start",
        "start:",
    ]


def _flags() -> list[str]:
    """Whether the loop raised the flag; then it is as before."""
    return [
        f"  %found = call i32 @fetestexcept(i32 {INVALID})",
        "  %failed = icmp ne i32 %found, 0",
        "  br i1 %failed, label %clear, label %clean",
        "clear:",
        f"  %again = call i32 @feclearexcept(i32 {INVALID})",
        "  br label %clean",
        "clean:",
        "  br i1 %set, label %restore, label %end",
        "restore:",
        "  %restored = call i32 @feraiseexcept(i32 %before)",
        "  br label %end",
        "end:",
        "  ret i1 %failed",
    ]


def share_name(arguments: int, cores: int) -> str:
    """The name of the function whose loop threads share."""
    return f"share_{arguments}_{cores}"


def share_text(arguments: int, cores: int) -> str:
    """The functions `void (i64 threads, ptr loop, ptr data, ptr numbers, ptr array, ...)`."""
    name = share_name(arguments, cores)
    words = ["loop", "data", "numbers", *(f"base{k}" for k in range(arguments))]
    given = ", ".join(["i64 %threads", *(f"ptr %{word}" for word in words)])
    ranges = "ptr %region, i64 %first, i64 %stop, i64 %worker"
    functions = [
        (f"{name}_range", ranges, _range(arguments, cores, words)),
        (name, given, _region(name, words, 1 if cores else APART)),
    ]
    return "\n".join(
        "\n".join([f"define internal void @{f}({p}) {{", "entry:", *body, "  ret void", "}"])
        for f, p, body in functions
    )


def _at(base: str, word: int) -> str:
    return f"getelementptr i64, ptr %{base}, i64 {word}"


def _range(arguments: int, cores: int, words: list[str]) -> list[str]:
    """Calls the loop for a range of the batch."""
    lines = [
        f"  %args = alloca [{arguments} x ptr], align 8",
        f"  %dims = alloca [{1 + cores} x i64], align 8",
        f"  %captured_at = {_at('region', CAPTURED)}",
        "  %captured = load ptr, ptr %captured_at, align 8",
    ]
    for k, word in enumerate(words):
        lines.append(f"  %{word}_at = {_at('captured', k)}")
        lines.append(f"  %{word} = load ptr, ptr %{word}_at, align 8")
    lines.append("  %count = sub i64 %stop, %first")
    lines.append("  store i64 %count, ptr %dims, align 8")
    for k in range(1, 1 + cores):
        lines.append(f"  %size{k}_at = {_at('numbers', k)}")
        lines.append(f"  %size{k} = load i64, ptr %size{k}_at, align 8")
        lines.append(f"  %dim{k} = {_at('dims', k)}")
        lines.append(f"  store i64 %size{k}, ptr %dim{k}, align 8")
    lines.append(f"  %steps = {_at('numbers', 1 + cores)}")
    for k in range(arguments):
        lines.append(f"  %step{k}_at = {_at('steps', k)}")
        lines.append(f"  %step{k} = load i64, ptr %step{k}_at, align 8")
        lines.append(f"  %far{k} = mul i64 %first, %step{k}")
        lines.append(f"  %from{k} = getelementptr i8, ptr %base{k}, i64 %far{k}")
        lines.append(f"  %arg{k} = getelementptr ptr, ptr %args, i64 {k}")
        lines.append(f"  store ptr %from{k}, ptr %arg{k}, align 8")
    return [*lines, "  call void %loop(ptr %args, ptr %dims, ptr %steps, ptr %data)"]


def _region(name: str, words: list[str], align: int) -> list[str]:
    """Describes all ranges, and has them run."""
    lines = [
        f"  %captured = alloca [{len(words)} x ptr], align 8",
        f"  %region = alloca [{WORDS} x i64], align 64",
        "  %count = load i64, ptr %numbers, align 8",
    ]
    for k, word in enumerate(words):
        lines.append(f"  %{word}_at = {_at('captured', k)}")
        lines.append(f"  store ptr %{word}, ptr %{word}_at, align 8")
    given = dict.fromkeys(range(WORDS), "ptr null") | {
        FUNCTION: f"ptr @{name}_range",
        CAPTURED: "ptr %captured",
        FIRST: "i64 0",
        STOP: "i64 %count",
        ALIGN: f"i64 {align}",
        THREADS: "i64 %threads",
    }
    for k, value in given.items():
        lines.append(f"  %word{k} = {_at('region', k)}")
        lines.append(f"  store {value}, ptr %word{k}, align 8")
    return [*lines, f"  call void @{SHARE}(ptr %region)"]
