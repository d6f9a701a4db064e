"""The way from Python into a compiled program: one native function that NumPy arrays are given to.

Reading `array.ctypes.data` takes longer than a small program runs. So arrays are handed over as
objects: a native function in the place of a builtin's checks that each is a plain, contiguous,
aligned array of the planned type and shape, takes its address from the object, and calls `main`.
Where the fields lie is NumPy's public struct; it is checked on sample arrays
before use, and where it does not hold NumPy is asked for addresses instead. The other direction
is here too: `callback` calls Python, and what Python raises leaves through the entry.
"""

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.cpu.calls import call_back
from ftrace.cpu.compile import Module, compile_module, host
from ftrace.cpu.main import FINISHED

REJECTED: Final = 2  # an operand is not what was planned, or needs a copy first
STACK_SLOTS: Final = 4096
STACK_ARENA: Final = 4096
FASTCALL: Final = 0x80  # METH_FASTCALL
PLAIN: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
# Words of a plan before its items; an item is (slot, ndim or -1 for no check, descr, *shape).
MAIN, TABLE, CALLBACK, COUNT, SLOTS, STACK, RELEASE, ITEMS = range(8)

Enter = Callable[..., int]


class Item(NamedTuple):
    """An array that a program is given: its slot, and what it must be (None: made by ourselves)."""

    slot: int
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]


class Layout(NamedTuple):
    """Where the fields of objects lie, in bytes."""

    kind: int
    data: int
    ndim: int
    shape: int
    descr: int
    flags: int


class Needs(NamedTuple):
    """What a program needs of its entry.

    Attributes:
        slots: their number.
        arena: bytes to take from the stack; None if the arena is given, behind the items: an
            array of bytes with 64 to spare.
        release: whether it may run so long that other threads should have the GIL. They may keep
            it for milliseconds, so that releasing it costs short programs dearly.
    """

    slots: int
    arena: int | None
    release: bool


def bind(addresses: tuple[int, int], items: Sequence[Item], needs: Needs) -> Enter:
    """A function of arrays that runs a program.

    Args:
        addresses: of main and of the table; the caller keeps them alive.
        items: the arrays it takes, in order.
        needs: what else to prepare.

    Returns:
        A function that gives FINISHED, or REJECTED where an array is not what was planned. What
        a callback raises, it raises.
    """
    native = _native()
    if native.make is None or needs.slots > STACK_SLOTS:
        return _portable(addresses, items, needs)
    given = len(items) + (needs.arena is None)
    words = [*addresses, native.callback, given, needs.slots, needs.arena or 0, needs.release]
    for slot, dtype, shape in items:
        words += [slot, -1] if dtype is None else [slot, len(shape), id(dtype), *shape]
    return native.make(np.array([*words, -1], np.int64))


def _portable(addresses: tuple[int, int], items: Sequence[Item], needs: Needs) -> Enter:
    """The same with NumPy's own means, and with the GIL."""
    main = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(addresses[0])
    callback = _native().callback
    slots, arena, _ = needs

    def enter(*arrays: Any) -> int:
        if len(arrays) != len(items) + (arena is None):
            return REJECTED
        bases = np.zeros(slots + 1, np.uintp)
        for item, array in zip(items, arrays, strict=False):
            if item.dtype is not None and not _is_plain(array, item):
                return REJECTED
            bases[item.slot] = array.ctypes.data
        block = arrays[-1] if arena is None else np.empty(arena + 64, np.uint8)
        bases[slots] = -(-block.ctypes.data // 64) * 64
        return main(bases.ctypes.data, addresses[1], callback)

    return enter


def _is_plain(array: Any, item: Item) -> bool:
    return (
        type(array) is np.ndarray
        and array.dtype is item.dtype
        and array.shape == item.shape
        and array.flags.c_contiguous
        and array.flags.aligned
    )


class _Native:
    """Compiled code of this process, and what makes builtins of it."""

    def __init__(self, layout: Layout | None) -> None:
        api = ctypes.pythonapi
        symbols = {n: ctypes.cast(getattr(api, n), ctypes.c_void_p).value or 0 for n in _API}
        text = _declarations() + (_entry(layout) if layout else "")
        self._module: Module = compile_module(text, symbols, host())
        self.callback = self._module.address("callback")
        self.make: Callable[[np.ndarray[Any, Any]], Enter] | None = None
        if layout is None:
            return
        name = ctypes.create_string_buffer(b"enter")
        method = _MethodDef(ctypes.addressof(name), self._module.address("enter"), FASTCALL, None)
        prototype = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        new: Any = prototype(("PyCFunction_NewEx", api))
        self._kept = (name, method)  # builtins point into them
        self.make = lambda plan: new(ctypes.addressof(method), plan, None)


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_void_p),
    )


@functools.cache
def _native() -> _Native:
    """The entry of this process: never freed, since builtins point into it."""
    return _Native(measure())


# --- where fields lie


def measure() -> Layout | None:
    """The layout of array objects, or None where it is not the one we know."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    head = object.__basicsize__
    layout = Layout(head - 8, head, head + 8, head + 16, head + 40, head + 48)
    if np.ndarray.__basicsize__ < layout.flags + 4:
        return None
    grid = np.zeros((3, 5, 7), np.float32)
    bytes_ = np.zeros(17, np.uint8)
    samples = [grid, grid[:, 1:, ::2], grid.T, np.zeros(()), np.zeros((0, 4), np.int16)]
    samples += [bytes_, bytes_[1:].view(np.int64), np.asfortranarray(grid), np.array([1j])]
    return layout if all(_fits(layout, a) for a in samples) else None


def _fits(layout: Layout, array: np.ndarray[Any, Any]) -> bool:
    """Whether the fields of an array are where the layout says; pointers are followed last."""
    base = id(array)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(base + offset).value

    def half(offset: int) -> int:
        return ctypes.c_int32.from_address(base + offset).value

    plain = (
        word(layout.kind) == id(np.ndarray)
        and word(layout.data) == array.ctypes.data
        and word(layout.descr) == id(array.dtype)
        and half(layout.ndim) == array.ndim
        and half(layout.flags) == array.flags.num
    )
    if not plain:
        return False
    shape = (ctypes.c_int64 * array.ndim).from_address(word(layout.shape)) if array.ndim else ()
    return tuple(shape) == array.shape


# --- the native function


_API: Final[dict[str, str]] = {  # function -> its declaration
    "PyEval_SaveThread": "ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "void @PyEval_RestoreThread(ptr)",
    "PyGILState_Ensure": "i32 @PyGILState_Ensure()",
    "PyGILState_Release": "void @PyGILState_Release(i32)",
    "PyLong_FromSsize_t": "ptr @PyLong_FromSsize_t(i64)",
    "PyObject_CallOneArg": "ptr @PyObject_CallOneArg(ptr, ptr)",
    "Py_DecRef": "void @Py_DecRef(ptr)",
}


def _declarations() -> str:
    """What both directions need, and the way back into Python."""
    lines = [f"declare {text}" for text in _API.values()]
    return (
        "\n".join(lines)
        + f"""

define i32 @callback(i64 %number) {{
  %state = call i32 @PyGILState_Ensure()
  %n = call ptr @PyLong_FromSsize_t(i64 %number)
  %answer = call ptr @PyObject_CallOneArg(ptr inttoptr (i64 {id(call_back)} to ptr), ptr %n)
  call void @Py_DecRef(ptr %n)
  call void @Py_DecRef(ptr %answer)
  call void @PyGILState_Release(i32 %state)
  %raised = icmp eq ptr %answer, null
  %code = zext i1 %raised to i32
  ret i32 %code
}}
"""
    )


def _entry(layout: Layout) -> str:
    """The entry for a layout: a loop over the items of a plan, then main."""
    return f"""
define ptr @enter(ptr %self, ptr %args, i64 %given) {{
entry:
  %plan_at = getelementptr i8, ptr %self, i64 {layout.data}
  %plan = load ptr, ptr %plan_at
{_word("count", COUNT, "i64")}
{_word("total", SLOTS, "i64")}
{_word("stack", STACK, "i64")}
  %right = icmp eq i64 %given, %count
  br i1 %right, label %begin, label %reject
begin:
  %room = add i64 %total, 1
  %slots = alloca ptr, i64 %room, align 8
  %scratch = alloca i8, i64 %stack, align 64
  %base_at = getelementptr ptr, ptr %slots, i64 %total
  store ptr %scratch, ptr %base_at
  %first = getelementptr i64, ptr %plan, i64 {ITEMS}
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
{_field("kind", layout.kind, "ptr")}
  %is_array = icmp eq ptr %kind, inttoptr (i64 {id(np.ndarray)} to ptr)
  br i1 %is_array, label %fields, label %reject
fields:
{_field("descr", layout.descr, "i64")}
{_field("rank", layout.ndim, "i32")}
{_field("flags", layout.flags, "i32")}
{_field("shape", layout.shape, "ptr")}
  %wanted = load i64, ptr %rest
  %same_type = icmp eq i64 %descr, %wanted
  %rank64 = sext i32 %rank to i64
  %same_rank = icmp eq i64 %rank64, %ndim
  %plain = and i32 %flags, {PLAIN}
  %is_plain = icmp eq i32 %plain, {PLAIN}
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
{_field("data", layout.data, "ptr")}
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
  %memory_at = getelementptr i8, ptr %block, i64 {layout.data}
  %memory = load i64, ptr %memory_at
  %up = add i64 %memory, 63
  %aligned = and i64 %up, -64
  store i64 %aligned, ptr %base_at
  br label %run
run:
{_word("main", MAIN, "ptr")}
{_word("table", TABLE, "ptr")}
{_word("callback", CALLBACK, "ptr")}
{_word("release", RELEASE, "i64")}
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
  %finished = icmp eq i32 %code, 0
  br i1 %finished, label %good, label %raised
good:
  %yes = call ptr @PyLong_FromSsize_t(i64 {FINISHED})
  ret ptr %yes
raised:
  ret ptr null
reject:
  %no = call ptr @PyLong_FromSsize_t(i64 {REJECTED})
  ret ptr %no
}}
"""


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
