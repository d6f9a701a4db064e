"""Sums of what falls on one place: kernels whose results do not depend on the order of threads.

Integers are added up by atomic operations, in any order. So are floats: as integers. The largest
exponent among the values of a place gives the unit in which they are counted, so fine that no sum
of theirs is rounded worse than one by floats: with 62 bits for float32, less the bits of the number
of updates, and twice as many for float64. Where a value is infinite or NaN, flags take the place of
the sum.

Scratch memory is that of the places, or where updates are fewer, of the updates: then the sum of a
place is kept where its first update lies. A place that gets only -0.0, or nothing, keeps its bits.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from string import Template
from typing import Any, Final

import numpy as np

from ftrace.gpu.emit.kernel_source import HEADER
from ftrace.gpu.handwritten.launch_protocol import Launching

Triple = tuple[int, int, int]
Started = tuple[Any, Triple, Triple, tuple[Any, ...]]  # function, grid, block, words
THREADS: Final = 256
MOST: Final = 1 << 20  # blocks
BITS: Final = 62
LARGE: Final = 1 << 30  # elements, of which scratch memory takes three words of 64 bits at most


def can_add(dtype: np.dtype[Any]) -> bool:
    """Whether there are kernels for a type: float32, float64, complex, integers of 4 or 8 bytes."""
    return dtype.char in "fdFD" or (dtype.kind in "iu" and dtype.itemsize >= 4)


class ScatterSum:
    """What adds rows of values to rows of an array, in place.

    Args:
        device: where they are.
        dtype: of the elements.
        count, width: of rows, and of the elements of one.
        updates: the number of rows that are added.
    """

    def __init__(
        self, device: Launching, dtype: np.dtype[Any], count: int, width: int, updates: int
    ) -> None:
        parts = 1 + (dtype.kind == "c")
        size, width = dtype.itemsize // parts, width * parts
        self._device = device
        self._sizes = (count, width, updates)
        self._whole = dtype.kind in "iu"
        self._given = updates * width if count else 0
        self._few = updates < count  # then a sum lies where the first update of its place does
        self._sums = min(updates, count) * width
        self._words = size // 4  # of a sum
        self._bits = BITS - updates.bit_length()
        types = (WHOLE if self._whole else FLOATS)[size]
        index = "long long" if max(count, updates) * width >= LARGE else "unsigned"
        self._functions = _functions(device, types["name"], index) if self._given else {}

    @property
    def room(self) -> int:
        """Bytes of the scratch memory."""
        if self._whole or not self._given:
            return 0
        return 8 * (self._first() + self._sizes[0] * self._few)

    def _first(self) -> int:
        """Where the numbers of first updates begin in scratch memory, behind sums and peaks."""
        return self._sums * self._words + -(-self._sums // 2)

    def __call__(self, out: int, places: int, values: int) -> None:
        """Add; the arrays, given by their addresses, are contiguous."""
        scratch = self._device.empty((self.room,), np.uint8) if self.room else None
        sums = 0 if scratch is None else self._device.pointer(scratch)
        for function, grid, block, words in self.launches((out, places, values), sums):
            self._device.launch(function, grid, block, 0, words)

    def launches(self, arrays: Sequence[Any], sums: Any, *, aligned: bool = False) -> list[Started]:
        """What is launched.

        Args:
            arrays: addresses, or what stands for them, of the sums, the places and the values.
            sums: that of the scratch memory.
            aligned: not looked at.
        """
        out, places, values = arrays
        if not self._given:
            return []
        if self._whole:
            return [self._launch("add", self._given, out, places, values)]
        peaks = sums + 8 * self._sums * self._words
        first = sums + 8 * self._first() if self._few else 0
        found = [self._launch("clear", self.room // 8, sums)]
        if self._few:
            found.append(self._launch("find", self._sizes[2], places, first))
        each = places, values, first, peaks, sums
        return [
            *found,
            self._launch("peak", self._given, *each),
            self._launch("sum", self._given, *each, self._bits),
            self._launch("finish", self._sums, places, first, peaks, sums, self._bits, out),
        ]

    def _launch(self, name: str, size: int, *words: Any) -> Started:
        """One thread for each of `size` elements."""
        grid = (min(-(-size // THREADS), MOST), 1, 1)
        return self._functions[name], grid, (THREADS, 1, 1), (*words, *self._sizes, size)


@lru_cache(maxsize=256)
def _functions(device: Launching, name: str, index: str) -> Mapping[str, Any]:
    """The kernels for a type, with indices of another."""
    types = next(t for t in (*WHOLE.values(), *FLOATS.values()) if t["name"] == name)
    text = TEXTS[types["text"]].substitute(types, Index=index, THREADS=THREADS)
    return device.compile(text, ENTRIES[types["text"]])


WHOLE: Final = {
    4: {"text": "whole", "name": "u4", "T": "unsigned"},
    8: {"text": "whole", "name": "u8", "T": "unsigned long long"},
}
FLOATS: Final = {
    4: {"text": "float", "name": "f4", "T": "float", "U": "unsigned", "WORDS": "1"}
    | {"MANTISSA": "24", "TOP": "255", "BIAS": "126"},
    8: {"text": "float", "name": "f8", "T": "double", "U": "unsigned long long", "WORDS": "2"}
    | {"MANTISSA": "53", "TOP": "2047", "BIAS": "1022"},
}
ENTRIES: Final = {"whole": ("add",), "float": ("clear", "find", "peak", "sum", "finish")}

_EACH: Final = """
  const $Index width = ($Index)a.w[N - 3], size = ($Index)a.w[N - 1];
  const long long count = a.w[N - 4], updates = a.w[N - 2];
  const $Index step = ($Index)gridDim.x * $THREADS;
  for ($Index i = ($Index)blockIdx.x * $THREADS + threadIdx.x; i < size; i += step) {
"""


def _kernel(name: str, words: int, body: str) -> str:
    """The text of a kernel over elements; the sizes follow its operands."""
    each = _EACH.replace("N", str(words + 4))
    head = f'extern "C" __global__ void __launch_bounds__($THREADS) {name}'
    return f"{head}(const Words<{words + 4}> a) {{{each}{body}  }}\n}}\n"


_PLACE: Final = """
// the place of an update, which a negative number counts from the end
static __device__ long long ft_place(long long places, long long j, long long count) {
  const long long place = ((const long long*)places)[j];
  return place < 0 ? place + count : place;
}
"""
TEXTS: Final = {
    "whole": Template(
        HEADER
        + _PLACE
        + _kernel(
            "add",
            3,
            """
    const $Index j = i / width;
    const long long place = ft_place(a.w[1], j, count);
    if (place >= 0 && place < count)
      atomicAdd(($T*)a.w[0] + (place * width + (i - j * width)), (($T*)a.w[2])[i]);
""",
        )
    ),
    "float": Template(
        HEADER
        + _PLACE
        + """
typedef unsigned long long Sum;
static const Sum UP = 1, DOWN = 2, NONE = 4;  // instead of a sum: what is not finite
static const int WHOLE = $MANTISSA;

static __device__ $U ft_bits($T v) {
  union { $T v; $U u; } both;
  both.v = v;
  return both.u;
}

static __device__ double ft_power(int e) {  // two to the e, where that is a normal number
  union { Sum u; double v; } both;
  both.u = (Sum)(e + 1023) << 52;
  return both.v;
}

static __device__ int ft_exponent($U bits) {  // at least 1, that of subnormal numbers
  const int e = (int)(bits >> (WHOLE - 1)) & $TOP;
  return e ? e : 1;
}

// where the sum of a place is kept, or -1: `first` tells the first update of each place
static __device__ long long ft_slot(long long place, long long count, const Sum* first, Sum m) {
  if (place < 0 || place >= count) return -1;
  return first ? (long long)(m - first[place]) : place;
}
"""
        + _kernel("clear", 1, "    ((Sum*)a.w[0])[i] = 0;\n")
        + _kernel(
            "find",
            2,
            """
    const long long place = ft_place(a.w[0], i, count);
    if (place >= 0 && place < count) atomicMax((Sum*)a.w[1] + place, (Sum)(updates - i));
""",
        )
        + _kernel(
            "peak",
            5,
            """
    const $Index j = i / width;
    const long long place = ft_place(a.w[0], j, count);
    const long long slot = ft_slot(place, count, (const Sum*)a.w[2], updates);
    const $U bits = ft_bits(((const $T*)a.w[1])[i]);
    const $U minus = ($U)1 << (8 * sizeof($U) - 1);
    if (slot < 0 || bits == minus) continue;
    const long long at = slot * width + (i - j * width);
    unsigned* const peak = (unsigned*)a.w[3] + at;
    const unsigned e = ft_exponent(bits);
    if (*(volatile unsigned*)peak < e) atomicMax(peak, e);
    if (e == $TOP) {
      const bool infinite = (bits << 1) == (($U)$TOP << WHOLE);
      atomicOr((Sum*)a.w[4] + at * $WORDS, !infinite ? NONE : bits & minus ? DOWN : UP);
    }
""",
        )
        + _kernel(
            "sum",
            6,
            """
    const $Index j = i / width;
    const long long place = ft_place(a.w[0], j, count);
    const long long slot = ft_slot(place, count, (const Sum*)a.w[2], updates);
    if (slot < 0) continue;
    const long long at = slot * width + (i - j * width);
    const unsigned peak = ((const unsigned*)a.w[3])[at];
    const $U bits = ft_bits(((const $T*)a.w[1])[i]);
    if (peak == $TOP || !(bits << 1)) continue;
    const int most = (int)a.w[5], e = ft_exponent(bits);
    Sum left = bits & ((($U)1 << (WHOLE - 1)) - 1);
    if ((bits >> (WHOLE - 1)) & $TOP) left |= (Sum)1 << (WHOLE - 1);
    const bool below = bits >> (8 * sizeof($U) - 1);
    Sum* const sum = (Sum*)a.w[4] + at * $WORDS;
    int drop = (int)peak - e + WHOLE - most;  // bits below the unit
    for (int k = 0; k < $WORDS && left; ++k, drop -= most) {
      Sum units;
      if (drop <= 0) {
        units = left << -drop;
        left = 0;
      } else if (k < $WORDS - 1) {
        units = drop < 64 ? left >> drop : 0;
        if (drop < 64) left -= units << drop;
      } else {
        units = drop < 64 ? (left + ((Sum)1 << (drop - 1))) >> drop : 0;
      }
      if (units) atomicAdd(sum + k, below ? 0 - units : units);
    }
""",
        )
        + _kernel(
            "finish",
            6,
            """
    const $Index j = i / width;
    long long at = i;
    if (a.w[1]) {  // of a place whose first update this is
      const long long place = ft_place(a.w[0], j, count);
      if (ft_slot(place, count, (const Sum*)a.w[1], updates) != j) continue;
      at = place * width + (i - j * width);
    }
    const unsigned peak = ((const unsigned*)a.w[2])[i];
    if (!peak) continue;
    $T* const out = ($T*)a.w[5] + at;
    const $T x = *out;
    const Sum* const sum = (const Sum*)a.w[3] + (long long)i * $WORDS;
    if (peak == $TOP) {
      union { $U u; $T v; } end;
      end.u = ($U)$TOP << (WHOLE - 1);
      *out = x + (sum[0] == UP ? end.v : sum[0] == DOWN ? -end.v : end.v - end.v);
    } else {
      const int most = (int)a.w[4];
      double low = 0.0;
      for (int k = $WORDS - 1; k > 0; --k)
        low = ((double)(long long)sum[k] + low) * ft_power(-most);
      const long long all = (long long)sum[0];
      const double high = (double)(all >> 32) * 4294967296.0;
      const double units = high + ((double)(all & 0xffffffffLL) + low);
      const int e = (int)peak - $BIAS - most, half = e / 2;
      *out = ($T)((double)x + units * ft_power(half) * ft_power(e - half));
    }
""",
        )
    ),
}
