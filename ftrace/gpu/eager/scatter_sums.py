"""Sums of what falls on one place: kernels whose results do not depend on the order of threads.

Integers are added up by atomic operations, in any order. So are floats: as integers. The largest
exponent among the values of a place gives the unit in which they are counted, so fine that no sum
of theirs is rounded worse than one by floats: with 62 bits for float32, less the bits of the number
of updates, and twice as many for float64. Where a value is infinite or NaN, flags take the place of
the sum.

Scratch memory is that of the places, or where updates are fewer, of the updates: then the sum of a
place is kept where its first update lies. A place that gets only -0.0, or nothing, keeps its bits.
"""

from string import Template
from typing import Any, Final

import numpy as np

from ftrace.gpu.emit.kernel_source import HEADER
from ftrace.gpu.runtime.copying import contiguous
from ftrace.gpu.runtime.current_device import current
from ftrace.gpu.runtime.device_interface import Device

THREADS: Final = 256
MOST: Final = 1 << 20  # blocks
BITS: Final = 62
LARGE: Final = 1 << 30  # elements, of which scratch memory takes three words of 64 bits at most
_modules: Final[dict[tuple[Device, str, str], Any]] = {}


def added(rows: Any, places: Any, values: Any) -> Any:
    """Rows with what was added to each.

    Args:
        rows: a matrix of float32, float64, complex, or integers of four or eight bytes.
        places: rows' numbers, as int64; a number that is none adds nothing.
        values: for each place a row of the same type.
    """
    device = current(rows)
    rows, places, values = (
        x if x.flags.c_contiguous else contiguous(x, device) for x in (rows, places, values)
    )
    if rows.dtype.kind == "c":
        part = np.dtype(rows.dtype.char.lower())
        return added(rows.view(part), places, values.view(part)).view(rows.dtype)
    out = device.empty(rows.shape, rows.dtype)
    if not values.size or not rows.size:
        device.copy(device.pointer(out), device.pointer(rows), rows.nbytes)
    elif rows.dtype.kind in "iu":
        device.copy(device.pointer(out), device.pointer(rows), rows.nbytes)
        run = _Run(device, rows, values, WHOLE[rows.dtype.itemsize])
        run("add", values.size, out, places, values)
    else:
        _floats(device, rows, places, values, out)
    return out


class _Run:
    """Launches functions of the kernels for some operands."""

    def __init__(self, device: Device, rows: Any, values: Any, types: dict[str, str]) -> None:
        large = max(rows.size, values.size) >= LARGE
        index = "long long" if large else "unsigned"
        key = (device, types["name"], index)
        if key not in _modules:
            text = TEXTS[types["text"]].substitute(types, Index=index, THREADS=THREADS)
            _modules[key] = device.compile(text, ENTRIES[types["text"]])
        self._functions = _modules[key]
        self._device = device
        self._sizes = (*rows.shape, len(values))

    def __call__(self, name: str, size: int, *operands: Any) -> None:
        """One thread for each of `size` elements; None is an array that is not there."""
        device = self._device
        words = [0 if x is None else x if type(x) is int else device.pointer(x) for x in operands]
        blocks = min(-(-size // THREADS), MOST)
        words = [*words, *self._sizes, size]
        device.launch(self._functions[name], (blocks, 1, 1), (THREADS, 1, 1), 0, words)


def _floats(device: Device, rows: Any, places: Any, values: Any, out: Any) -> None:
    count, width = rows.shape
    m = len(values)
    run = _Run(device, rows, values, FLOATS[rows.dtype.itemsize])
    few = m < count
    size = min(m, count) * width
    ends = np.cumsum([size * rows.dtype.itemsize // 4, -(-size // 2), count if few else 0])
    scratch = device.empty((int(ends[-1]),), np.int64)
    sums, peaks = scratch[: ends[0]], scratch[ends[0] : ends[1]]
    first = scratch[ends[1] :] if few else None
    run("clear", scratch.size, scratch)
    if few:
        device.copy(device.pointer(out), device.pointer(rows), rows.nbytes)
        run("find", m, places, first)
    bits = BITS - m.bit_length()
    run("peak", values.size, places, values, first, peaks, sums)
    run("sum", values.size, places, values, first, peaks, sums, bits)
    run("finish", size, places, rows, first, peaks, sums, bits, out)


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


TEXTS: Final = {
    "whole": Template(
        HEADER
        + _kernel(
            "add",
            3,
            """
    const $Index j = i / width;
    const long long place = ((const long long*)a.w[1])[j];
    if (place >= 0 && place < count)
      atomicAdd(($T*)a.w[0] + (place * width + (i - j * width)), (($T*)a.w[2])[i]);
""",
        )
    ),
    "float": Template(
        HEADER
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
    const long long place = ((const long long*)a.w[0])[i];
    if (place >= 0 && place < count) atomicMax((Sum*)a.w[1] + place, (Sum)(updates - i));
""",
        )
        + _kernel(
            "peak",
            5,
            """
    const $Index j = i / width;
    const long long place = ((const long long*)a.w[0])[j];
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
    const long long place = ((const long long*)a.w[0])[j];
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
            7,
            """
    const $Index j = i / width;
    long long at = i;
    if (a.w[2]) {  // of a place whose first update this is
      const long long place = ((const long long*)a.w[0])[j];
      if (ft_slot(place, count, (const Sum*)a.w[2], updates) != j) continue;
      at = place * width + (i - j * width);
    }
    const unsigned peak = ((const unsigned*)a.w[3])[i];
    const $T x = ((const $T*)a.w[1])[at];
    $T y = x;
    const Sum* const sum = (const Sum*)a.w[4] + (long long)i * $WORDS;
    if (peak == $TOP) {
      union { $U u; $T v; } end;
      end.u = ($U)$TOP << (WHOLE - 1);
      y = x + (sum[0] == UP ? end.v : sum[0] == DOWN ? -end.v : end.v - end.v);
    } else if (peak) {
      const int most = (int)a.w[5];
      double low = 0.0;
      for (int k = $WORDS - 1; k > 0; --k)
        low = ((double)(long long)sum[k] + low) * ft_power(-most);
      const long long all = (long long)sum[0];
      const double high = (double)(all >> 32) * 4294967296.0;
      const double units = high + ((double)(all & 0xffffffffLL) + low);
      const int e = (int)peak - $BIAS - most, half = e / 2;
      y = ($T)((double)x + units * ft_power(half) * ft_power(e - half));
    }
    (($T*)a.w[6])[at] = y;
""",
        )
    ),
}
