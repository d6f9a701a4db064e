"""The text of the allocator behind recycling.py: `malloc`, `calloc`, `realloc` and `free`.

A *block* begins with a head: its length and, if it is short, where the C library's block lies that
it is in; a longer one is a mapping of whole pages, and says there whether it was moved to grow.
Memory that is given out lies behind the head.
The blocks that wait for use are a table, the oldest first, in the *state* (an array of words, the
first argument of everything here), and every use of it is between `acquire` and `release`. Python's
objects are not touched, so that any thread may call, and who has the lock never waits for the GIL.
"""

import mmap
import sys
from typing import Final

HEAD: Final = 64  # bytes, so that what lies behind is aligned to vectors
PAGE: Final = (
    4096  # what lengths are rounded to; the system rounds further where its own are larger
)
LIMIT: Final = 1 << 16  # bytes of the shortest mapping; what is shorter is not kept
HUGE: Final = 1 << 21  # bytes of a huge page: from here on the system is asked for them
MOVED: Final = 1 << 25  # bytes from which a block that grows is not copied
MOST: Final = 256  # blocks that are kept: looking through them takes less than a page fault
WASTE: Final = 3  # a block serves requests that leave at most 1/8 (2 ** -3) of it unused
LOCK, BOUND, KEPT, COUNT, POISON, TABLE = range(6)
WORDS: Final = TABLE + 2 * MOST
NUMPY: Final = ("malloc", "calloc", "realloc", "free")  # what a handler needs, in its order
TAPES: Final = ("regrow", "discard")  # realloc and free without the state


STATE: Final = "recycler_state"


def allocator_text() -> str:
    """The functions of `NUMPY` and `TAPES`, and `trim`, their names behind `recycling_`.

    Those of tapes use the symbol `STATE`.

    Raises:
        AttributeError: this system has no anonymous mappings.
    """
    advice, mremap, stretch = "", "", _REFUSED
    if hasattr(mmap, "MADV_HUGEPAGE"):
        advice = f"%ignored3 = call i32 @madvise(ptr %start, i64 %length, i32 {mmap.MADV_HUGEPAGE})"
    if sys.platform == "linux":
        mremap, stretch = _MREMAP, _STRETCH
    return _TEXT.format(
        mremap=mremap,
        stretch=stretch,
        state=STATE,
        advice=advice,
        protection=mmap.PROT_READ | mmap.PROT_WRITE,
        flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
        head=HEAD,
        head_mask=HEAD - 1,
        up=HEAD + PAGE - 1,
        page=PAGE,
        limit=LIMIT,
        huge=HUGE,
        huge_mask=HUGE - 1,
        most=MOST,
        moved=MOVED,
        waste=WASTE,
        bound=BOUND,
        kept=KEPT,
        count=COUNT,
        poison=POISON,
        table=TABLE,
    )


MAY_MOVE: Final = 1  # MREMAP_MAYMOVE
_MREMAP: Final = "declare ptr @mremap(ptr, i64, i64, i32, ...)"
_STRETCH: Final = (
    f"call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %start, i64 %has, i64 %length, i32 {MAY_MOVE})"
)
_REFUSED: Final = "select i1 true, ptr inttoptr (i64 -1 to ptr), ptr %start"

_TEXT: Final = """
@{state} = external global i8
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
{mremap}
declare i32 @madvise(ptr, i64, i32)
declare i32 @sched_yield()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)

define internal void @recycling_acquire(ptr %state) {{
entry:
  br label %try
try:
  %swap = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %mine, label %done, label %wait
wait:
  %ignored = call i32 @sched_yield()
  br label %try
done:
  ret void
}}

define internal void @recycling_release(ptr %state) {{
  store atomic i64 0, ptr %state release, align 8
  ret void
}}

; take entry i out of the table, under the lock
define internal ptr @recycling_remove(ptr %state, i64 %i) {{
  %count_at = getelementptr i64, ptr %state, i64 {count}
  %kept_at = getelementptr i64, ptr %state, i64 {kept}
  %table = getelementptr i64, ptr %state, i64 {table}
  %at = getelementptr {{ ptr, i64 }}, ptr %table, i64 %i
  %length_at = getelementptr i64, ptr %at, i64 1
  %start = load ptr, ptr %at
  %length = load i64, ptr %length_at
  %kept = load i64, ptr %kept_at
  %less = sub i64 %kept, %length
  store i64 %less, ptr %kept_at
  %count = load i64, ptr %count_at
  %last = sub i64 %count, 1
  store i64 %last, ptr %count_at
  %behind = getelementptr {{ ptr, i64 }}, ptr %at, i64 1
  %left = sub i64 %last, %i
  %bytes = mul i64 %left, 16
  call void @llvm.memmove.p0.p0.i64(ptr %at, ptr %behind, i64 %bytes, i1 false)
  ret ptr %start
}}

define internal void @recycling_give_back(ptr %start) {{
  %length = load i64, ptr %start
  %short = icmp ult i64 %length, {limit}
  br i1 %short, label %library, label %system
library:
  %around_at = getelementptr i64, ptr %start, i64 1
  %around = load ptr, ptr %around_at
  call void @PyMem_RawFree(ptr %around)
  ret void
system:
  %ignored = call i32 @munmap(ptr %start, i64 %length)
  ret void
}}

; give the oldest blocks back until at most so many bytes are kept
define void @recycling_trim(ptr %state, i64 %bytes) {{
entry:
  %kept_at = getelementptr i64, ptr %state, i64 {kept}
  br label %loop
loop:
  call void @recycling_acquire(ptr %state)
  %kept = load i64, ptr %kept_at
  %enough = icmp ule i64 %kept, %bytes
  br i1 %enough, label %done, label %more
more:
  %oldest = call ptr @recycling_remove(ptr %state, i64 0)
  call void @recycling_release(ptr %state)
  call void @recycling_give_back(ptr %oldest)
  br label %loop
done:
  call void @recycling_release(ptr %state)
  ret void
}}

; the block that wastes least, of equal ones the one that was used last
define internal ptr @recycling_take(ptr %state, i64 %length) {{
entry:
  %count_at = getelementptr i64, ptr %state, i64 {count}
  %table = getelementptr i64, ptr %state, i64 {table}
  %part = lshr i64 %length, {waste}
  %bar = add i64 %part, 1
  call void @recycling_acquire(ptr %state)
  %count = load i64, ptr %count_at
  br label %head
head:
  %above = phi i64 [ %count, %entry ], [ %i, %look ]
  %best = phi i64 [ -1, %entry ], [ %best_now, %look ]
  %waste = phi i64 [ %bar, %entry ], [ %waste_now, %look ]
  %end = icmp eq i64 %above, 0
  %exact = icmp eq i64 %waste, 0
  %stop = or i1 %end, %exact
  br i1 %stop, label %chosen, label %look
look:
  %i = sub i64 %above, 1
  %length_at = getelementptr {{ ptr, i64 }}, ptr %table, i64 %i, i32 1
  %has = load i64, ptr %length_at
  %over = sub i64 %has, %length
  %better = icmp ult i64 %over, %waste
  %best_now = select i1 %better, i64 %i, i64 %best
  %waste_now = select i1 %better, i64 %over, i64 %waste
  br label %head
chosen:
  %none = icmp slt i64 %best, 0
  br i1 %none, label %done, label %found
found:
  %block = call ptr @recycling_remove(ptr %state, i64 %best)
  br label %done
done:
  %taken = phi ptr [ null, %chosen ], [ %block, %found ]
  call void @recycling_release(ptr %state)
  ret ptr %taken
}}

; large ones begin where a huge page may
define internal ptr @recycling_map(i64 %length) {{
entry:
  %large = icmp uge i64 %length, {huge}
  %spare = select i1 %large, i64 {huge}, i64 0
  %total = add i64 %length, %spare
  %first = call ptr @mmap(ptr null, i64 %total, i32 {protection}, i32 {flags}, i32 -1, i64 0)
  %failed = icmp eq ptr %first, inttoptr (i64 -1 to ptr)
  %plain = xor i1 %large, true
  %done = or i1 %failed, %plain
  br i1 %done, label %as_is, label %cut
as_is:
  ret ptr %first
cut:
  %from = ptrtoint ptr %first to i64
  %negative = sub i64 0, %from
  %before = and i64 %negative, {huge_mask}
  %behind = sub i64 %spare, %before
  %start = getelementptr i8, ptr %first, i64 %before
  %end = getelementptr i8, ptr %start, i64 %length
  %ignored1 = call i32 @munmap(ptr %first, i64 %before)
  %ignored2 = call i32 @munmap(ptr %end, i64 %behind)
  {advice}
  ret ptr %start
}}

; a block of the C library; null where there is no memory
define internal ptr @recycling_short(i64 %length) {{
  %total = add i64 %length, {head}
  %around = call ptr @PyMem_RawMalloc(i64 %total)
  %none = icmp eq ptr %around, null
  br i1 %none, label %failed, label %align
align:
  %from = ptrtoint ptr %around to i64
  %up = add i64 %from, {head_mask}
  %aligned = and i64 %up, -{head}
  %start = inttoptr i64 %aligned to ptr
  %around_at = getelementptr i64, ptr %start, i64 1
  store i64 %length, ptr %start
  store ptr %around, ptr %around_at
  ret ptr %start
failed:
  ret ptr null
}}

; a new mapping; where there is no memory, what is kept is given back first
define internal ptr @recycling_fresh(ptr %state, i64 %length) {{
entry:
  %first = call ptr @recycling_map(i64 %length)
  %failed = icmp eq ptr %first, inttoptr (i64 -1 to ptr)
  br i1 %failed, label %again, label %mapped
again:
  call void @recycling_trim(ptr %state, i64 0)
  %second = call ptr @recycling_map(i64 %length)
  %gone = icmp eq ptr %second, inttoptr (i64 -1 to ptr)
  br i1 %gone, label %none, label %mapped
none:
  ret ptr null
mapped:
  %start = phi ptr [ %first, %entry ], [ %second, %again ]
  store i64 %length, ptr %start
  %mark_at = getelementptr i64, ptr %start, i64 1
  store i64 0, ptr %mark_at
  ret ptr %start
}}

define internal i64 @recycling_length(i64 %size) {{
  %up = add i64 %size, {up}
  %length = and i64 %up, -{page}
  ret i64 %length
}}

define ptr @recycling_malloc(ptr %state, i64 %size) {{
entry:
  %length = call i64 @recycling_length(i64 %size)
  %is_short = icmp ult i64 %length, {limit}
  br i1 %is_short, label %library, label %look
library:
  %short = call ptr @recycling_short(i64 %length)
  br label %made
look:
  %taken = call ptr @recycling_take(ptr %state, i64 %length)
  %empty = icmp eq ptr %taken, null
  br i1 %empty, label %new, label %made
new:
  %fresh = call ptr @recycling_fresh(ptr %state, i64 %length)
  br label %made
made:
  %start = phi ptr [ %short, %library ], [ %taken, %look ], [ %fresh, %new ]
  %none = icmp eq ptr %start, null
  br i1 %none, label %failed, label %done
done:
  %memory = getelementptr i8, ptr %start, i64 {head}
  ret ptr %memory
failed:
  ret ptr null
}}

define ptr @recycling_calloc(ptr %state, i64 %number, i64 %size) {{
  %product = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %number, i64 %size)
  %bytes = extractvalue {{ i64, i1 }} %product, 0
  %over = extractvalue {{ i64, i1 }} %product, 1
  br i1 %over, label %failed, label %fits
fits:
  %memory = call ptr @recycling_malloc(ptr %state, i64 %bytes)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %failed, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %memory, i8 0, i64 %bytes, i1 false)
  ret ptr %memory
failed:
  ret ptr null
}}

; what is too large to be kept, or slow to copy, grows in place where the system can move pages; it
; is marked and not kept, since what grows to its size again would grow in place again
define ptr @recycling_realloc(ptr %state, ptr %old, i64 %size) {{
entry:
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %plain, label %look
plain:
  %first = call ptr @recycling_malloc(ptr %state, i64 %size)
  ret ptr %first
look:
  %start = getelementptr i8, ptr %old, i64 -{head}
  %has = load i64, ptr %start
  %length = call i64 @recycling_length(i64 %size)
  %over = sub i64 %has, %length
  %bar = lshr i64 %length, {waste}
  %fits = icmp ule i64 %over, %bar
  br i1 %fits, label %stay, label %move
stay:
  ret ptr %old
move:
  %bound_at = getelementptr i64, ptr %state, i64 {bound}
  %bound = load i64, ptr %bound_at
  %not_kept = icmp ugt i64 %length, %bound
  %long = icmp ugt i64 %length, {moved}
  %too_large = or i1 %not_kept, %long
  %was_mapped = icmp uge i64 %has, {limit}
  %will_be = icmp uge i64 %length, {limit}
  %mapped = and i1 %was_mapped, %will_be
  %stretch = and i1 %too_large, %mapped
  br i1 %stretch, label %try, label %fetch
try:
  %stretched = {stretch}
  %refused = icmp eq ptr %stretched, inttoptr (i64 -1 to ptr)
  br i1 %refused, label %fetch, label %stretched_to
stretched_to:
  store i64 %length, ptr %stretched
  %mark_at = getelementptr i64, ptr %stretched, i64 1
  store i64 1, ptr %mark_at
  %same = getelementptr i8, ptr %stretched, i64 {head}
  ret ptr %same
fetch:
  %new = call ptr @recycling_malloc(ptr %state, i64 %size)
  %none = icmp eq ptr %new, null
  br i1 %none, label %failed, label %copy
copy:
  %had = sub i64 %has, {head}
  %shrinks = icmp ult i64 %size, %had
  %bytes = select i1 %shrinks, i64 %size, i64 %had
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %bytes, i1 false)
  call void @recycling_free(ptr %state, ptr %old, i64 0)
  ret ptr %new
failed:
  ret ptr null
}}

define void @recycling_free(ptr %state, ptr %memory, i64 %ignored) {{
entry:
  %bound_at = getelementptr i64, ptr %state, i64 {bound}
  %kept_at = getelementptr i64, ptr %state, i64 {kept}
  %count_at = getelementptr i64, ptr %state, i64 {count}
  %poison_at = getelementptr i64, ptr %state, i64 {poison}
  %table = getelementptr i64, ptr %state, i64 {table}
  %nothing = icmp eq ptr %memory, null
  br i1 %nothing, label %done, label %look
look:
  %start = getelementptr i8, ptr %memory, i64 -{head}
  %length = load i64, ptr %start
  %poison = load i64, ptr %poison_at
  %spoil = icmp ne i64 %poison, 0
  br i1 %spoil, label %spoiled, label %ask
spoiled:
  %size = sub i64 %length, {head}
  call void @llvm.memset.p0.i64(ptr %memory, i8 -1, i64 %size, i1 false)
  br label %ask
ask:
  %bound = load i64, ptr %bound_at
  %too_large = icmp ugt i64 %length, %bound
  %too_small = icmp ult i64 %length, {limit}
  %mark_at = getelementptr i64, ptr %start, i64 1
  %mark = load i64, ptr %mark_at
  %marked = icmp ne i64 %mark, 0
  %one_of = or i1 %too_large, %too_small
  %unwanted = or i1 %one_of, %marked
  br i1 %unwanted, label %back, label %loop
back:
  call void @recycling_give_back(ptr %start)
  ret void
loop:
  call void @recycling_acquire(ptr %state)
  %kept = load i64, ptr %kept_at
  %count = load i64, ptr %count_at
  %sum = add i64 %kept, %length
  %heavy = icmp ugt i64 %sum, %bound
  %many = icmp eq i64 %count, {most}
  %full = or i1 %heavy, %many
  br i1 %full, label %evict, label %store
evict:
  %oldest = call ptr @recycling_remove(ptr %state, i64 0)
  call void @recycling_release(ptr %state)
  call void @recycling_give_back(ptr %oldest)
  br label %loop
store:
  %at = getelementptr {{ ptr, i64 }}, ptr %table, i64 %count
  %length_at = getelementptr i64, ptr %at, i64 1
  store ptr %start, ptr %at
  store i64 %length, ptr %length_at
  %more = add i64 %count, 1
  store i64 %more, ptr %count_at
  store i64 %sum, ptr %kept_at
  call void @recycling_release(ptr %state)
  ret void
done:
  ret void
}}

define ptr @recycling_regrow(ptr %old, i64 %size) {{
  %new = call ptr @recycling_realloc(ptr @{state}, ptr %old, i64 %size)
  ret ptr %new
}}

define void @recycling_discard(ptr %memory) {{
  call void @recycling_free(ptr @{state}, ptr %memory, i64 0)
  ret void
}}
"""
