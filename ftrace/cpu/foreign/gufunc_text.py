"""The text that calls a gufunc's loop: a function that goes over the axes it does not pass itself.

`apply_<arguments>_<depth>_<cores>(loop, data, numbers, arrays...)` reads sizes and steps from
`numbers`, in the order of `LoopNumbers.numbers`, and passes the loop's own as they lie there. With
`flags` it says whether the loop raised "invalid"; the flag is then as it was before.
"""

from ftrace.cpu.foreign.gufuncs import INVALID

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
