"""The text of the native entry (entry.py): how it reads its arguments, and how it calls Python.

A *plan* is what the entry knows of a program: words at fixed places, then for each array its slot,
its number of axes (-1 where it is not looked at), dtype and shape, then -1.
"""

from typing import Final, NamedTuple

from ftrace.cpu.runtime.main import FAILED

REJECTED: Final = 2  # an operand is not what was planned, or needs a copy first
PLAIN: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
MAIN, TABLE, CALLBACK, COUNT, SLOTS, STACK, RELEASE, ITEMS = range(8)


class ArgumentLayout(NamedTuple):
    """Where the fields of objects lie, in bytes."""

    kind: int
    data: int
    ndim: int
    shape: int
    descr: int
    flags: int


CALL_BACK, NDARRAY = "call_back", "ndarray_class"  # objects, whose addresses are theirs
API: Final[dict[str, str]] = {  # function -> its declaration
    "PyEval_SaveThread": "ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "void @PyEval_RestoreThread(ptr)",
    "PyGILState_Ensure": "i32 @PyGILState_Ensure()",
    "PyGILState_Release": "void @PyGILState_Release(i32)",
    "PyErr_Occurred": "ptr @PyErr_Occurred()",
    "PyLong_FromSsize_t": "ptr @PyLong_FromSsize_t(i64)",
    "PyObject_CallOneArg": "ptr @PyObject_CallOneArg(ptr, ptr)",
    "Py_DecRef": "void @Py_DecRef(ptr)",
}


def callback_text() -> str:
    """Declarations of Python's functions, and `i32 callback(i64)`, the way into Python.

    `stop` is what a program that runs no rows is given in its place: it asks Python only for what
    has a negative number.
    """
    lines = [f"declare {text}" for text in API.values()]
    lines += [f"@{name} = external global i8" for name in (CALL_BACK, NDARRAY)]
    return (
        "\n".join(lines)
        + f"""

define i32 @callback(i64 %number) {{
  %state = call i32 @PyGILState_Ensure()
  %n = call ptr @PyLong_FromSsize_t(i64 %number)
  %answer = call ptr @PyObject_CallOneArg(ptr @{CALL_BACK}, ptr %n)
  call void @Py_DecRef(ptr %n)
  call void @Py_DecRef(ptr %answer)
  call void @PyGILState_Release(i32 %state)
  %raised = icmp eq ptr %answer, null
  %code = zext i1 %raised to i32
  ret i32 %code
}}

define i32 @stop(i64 %number) {{
  %row = icmp sge i64 %number, 0
  br i1 %row, label %end, label %ask
end:
  ret i32 {FAILED}
ask:
  %code = call i32 @callback(i64 %number)
  ret i32 %code
}}
"""
    )


def entry_text(layout: ArgumentLayout) -> str:
    """`ptr enter(ptr self, ptr arguments, i64 count)`: a loop over the items, then main.

    Loops of NumPy's, which main calls, leave Python's error where memory ends.
    """
    words = {
        "count": _word("count", COUNT, "i64"),
        "total": _word("total", SLOTS, "i64"),
        "stack": _word("stack", STACK, "i64"),
        "main": _word("main", MAIN, "ptr"),
        "table": _word("table", TABLE, "ptr"),
        "callback": _word("callback", CALLBACK, "ptr"),
        "release": _word("release", RELEASE, "i64"),
    }
    fields = {
        "kind": _field("kind", layout.kind, "ptr"),
        "descr": _field("descr", layout.descr, "i64"),
        "rank": _field("rank", layout.ndim, "i32"),
        "flags": _field("flags", layout.flags, "i32"),
        "shape": _field("shape", layout.shape, "ptr"),
        "data": _field("data", layout.data, "ptr"),
    }
    numbers = {
        "offset": layout.data,
        "mask": PLAIN,
        "rejected": REJECTED,
        "items": ITEMS,
        "ndarray": NDARRAY,
    }
    return _ENTRY.format(**words, **fields, **numbers)


def _word(name: str, position: int, kind: str) -> str:
    """Load a word of the plan."""
    return (
        f"  %{name}_at = getelementptr i64, ptr %plan, i64 {position}\n"
        f"  %{name} = load {kind}, ptr %{name}_at"
    )


def _field(name: str, offset: int, kind: str) -> str:
    """Load a field of the object."""
    return (
        f"  %{name}_at = getelementptr i8, ptr %object, i64 {offset}\n"
        f"  %{name} = load {kind}, ptr %{name}_at"
    )


_ENTRY: Final = """
define ptr @enter(ptr %self, ptr %args, i64 %given) {{
entry:
  %plan_at = getelementptr i8, ptr %self, i64 {offset}
  %plan = load ptr, ptr %plan_at
{count}
{total}
{stack}
  %right = icmp eq i64 %given, %count
  br i1 %right, label %begin, label %reject
begin:
  %room = add i64 %total, 2
  %words = alloca ptr, i64 %room, align 8
  %slots = getelementptr ptr, ptr %words, i64 1
  %scratch = alloca i8, i64 %stack, align 64
  %base_at = getelementptr ptr, ptr %slots, i64 %total
  store ptr %scratch, ptr %base_at
  %first = getelementptr i64, ptr %plan, i64 {items}
  br label %item
item:
  %i = phi i64 [ 0, %begin ], [ %i_next, %store ]
  %spec = phi ptr [ %first, %begin ], [ %spec_next, %store ]
  %slot = load i64, ptr %spec
  %last = icmp slt i64 %slot, 0
  br i1 %last, label %arena, label %read
read:
  %object_at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object_at
  %ndim_at = getelementptr i64, ptr %spec, i64 1
  %ndim = load i64, ptr %ndim_at
  %rest = getelementptr i64, ptr %spec, i64 2
  %ours = icmp slt i64 %ndim, 0
  br i1 %ours, label %store, label %check
check:
{kind}
  %is_array = icmp eq ptr %kind, @{ndarray}
  br i1 %is_array, label %fields, label %reject
fields:
{descr}
{rank}
{flags}
{shape}
  %wanted = load i64, ptr %rest
  %same_type = icmp eq i64 %descr, %wanted
  %rank64 = sext i32 %rank to i64
  %same_rank = icmp eq i64 %rank64, %ndim
  %plain = and i32 %flags, {mask}
  %is_plain = icmp eq i32 %plain, {mask}
  %good2 = and i1 %same_type, %same_rank
  %good3 = and i1 %good2, %is_plain
  %sizes = getelementptr i64, ptr %rest, i64 1
  %behind = getelementptr i64, ptr %sizes, i64 %ndim
  br i1 %good3, label %axes, label %reject
axes:
  %a = phi i64 [ 0, %fields ], [ %a_next, %axis ]
  %more = icmp slt i64 %a, %ndim
  br i1 %more, label %axis, label %store
axis:
  %n_at = getelementptr i64, ptr %shape, i64 %a
  %m_at = getelementptr i64, ptr %sizes, i64 %a
  %n = load i64, ptr %n_at
  %m = load i64, ptr %m_at
  %a_next = add i64 %a, 1
  %same = icmp eq i64 %n, %m
  br i1 %same, label %axes, label %reject
store:
  %spec_next = phi ptr [ %rest, %read ], [ %behind, %axes ]
{data}
  %slot_at = getelementptr ptr, ptr %slots, i64 %slot
  store ptr %data, ptr %slot_at
  %i_next = add i64 %i, 1
  br label %item
arena:
  %own = icmp eq i64 %i, %given
  br i1 %own, label %run, label %align
align:
  %block_at = getelementptr ptr, ptr %args, i64 %i
  %block = load ptr, ptr %block_at
  %memory_at = getelementptr i8, ptr %block, i64 {offset}
  %memory = load i64, ptr %memory_at
  %up = add i64 %memory, 63
  %aligned = and i64 %up, -64
  store i64 %aligned, ptr %base_at
  br label %run
run:
{main}
{table}
{callback}
{release}
  %long = icmp ne i64 %release, 0
  br i1 %long, label %without, label %within
within:
  %code1 = call i32 %main(ptr %slots, ptr %table, ptr %callback)
  br label %done
without:
  %thread = call ptr @PyEval_SaveThread()
  %code2 = call i32 %main(ptr %slots, ptr %table, ptr %callback)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %done
done:
  %code = phi i32 [ %code1, %within ], [ %code2, %without ]
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %good, label %raised
good:
  %ended = sext i32 %code to i64
  %answer = call ptr @PyLong_FromSsize_t(i64 %ended)
  ret ptr %answer
raised:
  ret ptr null
reject:
  %no = call ptr @PyLong_FromSsize_t(i64 {rejected})
  ret ptr %no
}}
"""
