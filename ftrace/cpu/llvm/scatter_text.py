"""The text of a scatter: a function that changes an array at computed places, in order.

`scatter_<combine>_<dtype>(out, updates, places, numbers)` reads from `numbers` how many updates and
how many places there are, and the elements of a place. Places are int64; a negative one counts from
the end, and one that there is not is left out. A complex number is two real ones, and what is only
copied is copied as an integer.
"""

from typing import Final

from ftrace.cpu.llvm.text import LLVM_TYPE

_MEANINGS: Final = {
    "add": {"f": "fadd", "i": "add", "u": "add", "b": "or", "c": "fadd"},
    "mul": {"f": "fmul", "i": "mul", "u": "mul", "b": "and"},
}
_GREATER: Final = {"f": "fcmp oge", "i": "icmp sge", "u": "icmp uge", "b": "icmp uge"}
_LESS: Final = {"f": "fcmp ole", "i": "icmp sle", "u": "icmp ule", "b": "icmp ule"}


def scatter_name(combine: str, dtype: str) -> str:
    """The name of the function."""
    return f"scatter_{combine}_{dtype}"


def scatter_text(combine: str, dtype: str) -> str:
    """The function."""
    kind, size = dtype[0], int(dtype[1:])
    parts = 2 if kind == "c" or size == 16 else 1
    if combine == "set":
        scalar, change = f"i{8 * size // parts}", "  %new{s} = select i1 true, {t} %v{s}, {t} %v{s}"
    elif combine in _MEANINGS:
        scalar = (
            "i8" if kind == "b" else LLVM_TYPE[f"{'f' if kind == 'c' else kind}{size // parts}"]
        )
        change = f"  %new{{s}} = {_MEANINGS[combine][kind]} {{t}} %old{{s}}, %v{{s}}"
    else:
        scalar = "i8" if kind == "b" else LLVM_TYPE[dtype]
        change = _extreme((_GREATER if combine == "max" else _LESS)[kind], is_float=kind == "f")
    step = "\n".join([_BEFORE, change, _AFTER])
    one, each = (step.format(t=scalar, s=suffix) for suffix in ("_one", "_each"))
    name = scatter_name(combine, dtype)
    return _LOOP.format(name=name, t=scalar, parts=parts, one=one, each=each)


def _extreme(compare: str, *, is_float: bool) -> str:
    """The old value where it is the extreme one, or NaN."""
    lines = [f"  %wins{{s}} = {compare} {{t}} %old{{s}}, %v{{s}}"]
    if is_float:
        lines += [
            "  %nan{s} = fcmp uno {t} %old{s}, %old{s}",
            "  %stays{s} = or i1 %wins{s}, %nan{s}",
        ]
    kept = "%stays{s}" if is_float else "%wins{s}"
    return "\n".join([*lines, f"  %new{{s}} = select i1 {kept}, {{t}} %old{{s}}, {{t}} %v{{s}}"])


_BEFORE: Final = "  %old{s} = load {t}, ptr %to{s}\n  %v{s} = load {t}, ptr %from{s}"
_AFTER: Final = "  store {t} %new{s}, ptr %to{s}"
_LOOP: Final = """
define internal void @{name}(ptr %out, ptr %updates, ptr %places, ptr %numbers) noinline {{
entry:
  %count = load i64, ptr %numbers
  %many_at = getelementptr i64, ptr %numbers, i64 1
  %many = load i64, ptr %many_at
  %size_at = getelementptr i64, ptr %numbers, i64 2
  %elements = load i64, ptr %size_at
  %size = mul i64 %elements, {parts}
  %alone = icmp eq i64 %size, 1
  br i1 %alone, label %single, label %loop
single:
  %k = phi i64 [ 0, %entry ], [ %k_next, %skip ]
  %k_more = icmp ult i64 %k, %count
  br i1 %k_more, label %find, label %done
find:
  %at_at = getelementptr i64, ptr %places, i64 %k
  %at_given = load i64, ptr %at_at
  %at_ended = add i64 %at_given, %many
  %at_below = icmp slt i64 %at_given, 0
  %at = select i1 %at_below, i64 %at_ended, i64 %at_given
  %at_there = icmp ult i64 %at, %many
  br i1 %at_there, label %change, label %skip
change:
  %to_one = getelementptr {t}, ptr %out, i64 %at
  %from_one = getelementptr {t}, ptr %updates, i64 %k
{one}
  br label %skip
skip:
  %k_next = add i64 %k, 1
  br label %single
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %behind ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %place_at = getelementptr i64, ptr %places, i64 %i
  %place_given = load i64, ptr %place_at
  %place_ended = add i64 %place_given, %many
  %place_below = icmp slt i64 %place_given, 0
  %place = select i1 %place_below, i64 %place_ended, i64 %place_given
  %there = icmp ult i64 %place, %many
  br i1 %there, label %begin, label %behind
begin:
  %to = mul i64 %place, %size
  %from = mul i64 %i, %size
  %row = getelementptr {t}, ptr %out, i64 %to
  %update = getelementptr {t}, ptr %updates, i64 %from
  br label %inner
inner:
  %j = phi i64 [ 0, %begin ], [ %j_next, %element ]
  %rest = icmp ult i64 %j, %size
  br i1 %rest, label %element, label %behind
element:
  %to_each = getelementptr {t}, ptr %row, i64 %j
  %from_each = getelementptr {t}, ptr %update, i64 %j
{each}
  %j_next = add i64 %j, 1
  br label %inner
behind:
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}}
"""
