"""The text of the kernels of running.py, for a dtype, a way of joining, and a plan."""

from string import Template
from typing import Any, Final, Protocol

import numpy as np

from ftrace.core.records import record
from ftrace.gpu.emit.cuda_spelling import MEMORY, literal
from ftrace.gpu.emit.kernel_source import HEADER
from ftrace.gpu.prelude.prelude import definitions

SHORT: Final = "short_lines"
TILES: Final = "tiles"


class Lines(Protocol):
    """What a text needs to know of a plan."""

    @property
    def short(self) -> bool: ...
    @property
    def lanes(self) -> int: ...
    @property
    def pack(self) -> int: ...
    @property
    def packs(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def across(self) -> int: ...
    @property
    def reach(self) -> int: ...


@record
class Joining:
    """How elements are joined.

    Attributes:
        element: the C type of an element in memory.
        part: that of the parts of a *state*, which is what prefixes are joined as.
        neutral: the parts of a state that is joined with nothing else.
        lift, lower: expressions: the state of an element `x`, and the element of a state `s`.
        join: statements that return the state of `a` and the `b` after it.
        bytes: of a state.
    """

    element: str
    part: str
    neutral: tuple[str, ...]
    lift: str
    lower: str
    join: str
    bytes: int


def joining(kind: str, dtype: np.dtype[Any]) -> Joining:
    """How elements of a dtype are joined.

    Args:
        kind: "add", "mul", "max", "min" or "logaddexp".
        dtype: of the elements. Sums of float16 are float32 until they are stored.
    """
    if dtype.kind == "c":
        return _of_complex(kind, f"f{dtype.itemsize // 2}")
    if dtype.kind == "b":
        kind, dtype = {"add": "max", "mul": "min"}.get(kind, kind), np.dtype("u1")
        least = {"max": 0, "min": 1}[kind]
    else:
        least = _neutral(kind, dtype)
    code = f"{dtype.kind}{dtype.itemsize}"
    element = MEMORY[code]
    lift, lower = "x", "s.v[0]"
    if code == "f2":
        lift, lower, code = "ft_cast_f2_f4(x)", "ft_cast_f4_f2(s.v[0])", "f4"
    elif code[0] in "iu":
        signed = code[0] == "i" and kind in ("max", "min")
        code = f"{'i' if signed else 'u'}{max(dtype.itemsize, 4)}"
        lift, lower = f"({MEMORY[code]})x", f"({element})s.v[0]"
    part, size = MEMORY[code], int(code[1:])
    if kind == "logaddexp":
        neutral = (literal(-np.inf, code), literal(-1, code))
        value = lower.replace("s.v[0]", "(s.v[0] + log1p(s.v[1]))")
        return Joining(element, part, neutral, f"{lift}, 0", value, LOGADDEXP, 2 * size)
    join = FIRST.get(kind, REAL[kind]) if dtype.char == "e" else REAL[kind]
    return Joining(element, part, (literal(least, code),), lift, lower, join, size)


def _neutral(kind: str, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return {"add": -0.0, "mul": 1, "max": -np.inf, "min": np.inf, "logaddexp": 0}[kind]
    info = np.iinfo(dtype)
    return {"add": 0, "mul": 1, "max": info.min, "min": info.max}[kind]


def _of_complex(kind: str, code: str) -> Joining:
    part, size = MEMORY[code], int(code[1:])
    element = f"Pack<{part}, 2>"
    lift, lower = "x.v[0], x.v[1]", "{{s.v[0], s.v[1]}}"
    if kind == "mul":  # no number is neutral beside infinities: a third part tells what is
        one, zero = literal(1, code), literal(0, code)
        lift += f", {zero}"
        return Joining(element, part, (one, zero, one), lift, lower, COMPLEX["mul"], 3 * size)
    value = literal({"add": -0.0, "max": -np.inf, "min": np.inf}[kind], code)
    return Joining(element, part, (value, value), lift, lower, COMPLEX[kind], 2 * size)


REAL: Final = {
    "add": "return {{a.v[0] + b.v[0]}};",
    "mul": "return {{a.v[0] * b.v[0]}};",
    "max": "return a.v[0] > b.v[0] || a.v[0] != a.v[0] ? a : b;",
    "min": "return a.v[0] < b.v[0] || a.v[0] != a.v[0] ? a : b;",
}
# Of zeros of both signs NumPy's loops for float16 take the first, all others the second.
FIRST: Final = {
    "max": "return a.v[0] >= b.v[0] || a.v[0] != a.v[0] ? a : b;",
    "min": "return a.v[0] <= b.v[0] || a.v[0] != a.v[0] ? a : b;",
}

# A state is m + log(1 + r): the greatest element, and exp(x - m) added up over all others.
LOGADDEXP: Final = """\
const Part e = a.v[0] == b.v[0] ? (Part)1 : exp(-fabs(a.v[0] - b.v[0]));
  if (b.v[0] > a.v[0]) return {{b.v[0], b.v[1] + (1 + a.v[1]) * e}};
  return {{b.v[0] != b.v[0] ? b.v[0] : a.v[0], a.v[1] + (1 + b.v[1]) * e}};"""

_ORDER: Final = """\
const bool none = a.v[0] != a.v[0] || a.v[1] != a.v[1];
  const bool known = a.v[1] == a.v[1] && b.v[1] == b.v[1];
  const bool first = (a.v[0] {0} b.v[0] && known) || (a.v[0] == b.v[0] && a.v[1] {0}= b.v[1]);
  return none || first ? a : b;"""

COMPLEX: Final = {
    "add": "return {{a.v[0] + b.v[0], a.v[1] + b.v[1]}};",
    "mul": """\
if (a.v[2] != 0) return b;
  if (b.v[2] != 0) return a;
  return {{a.v[0] * b.v[0] - a.v[1] * b.v[1], a.v[0] * b.v[1] + a.v[1] * b.v[0], 0}};""",
    "max": _ORDER.format(">"),
    "min": _ORDER.format("<"),
}


def source(
    how: Joining, plan: Lines, reverse: bool, aligned: bool, across: bool, single: bool
) -> str:
    """The complete text.

    Args:
        how: elements are joined.
        plan: how lines fall on threads.
        reverse: whether lines begin at their end.
        aligned: whether all that a thread reads at once is a vector.
        across: whether a line's elements are no neighbours.
        single: whether a line is one tile.
    """
    values = {
        "ELEMENT": how.element,
        "PART": how.part,
        "PARTS": len(how.neutral),
        "NEUTRAL": ", ".join(how.neutral),
        "LIFT": how.lift,
        "LOWER": how.lower,
        "JOIN": how.join,
        "LANES": plan.lanes,
        "PACK": plan.pack,
        "PACKS": plan.packs,
        "THREADS": plan.threads,
        "LINES": plan.across,
        "REACH": plan.reach,
        "REVERSE": "true" if reverse else "false",
        "ALIGNED": "true" if aligned else "false",
        "SINGLE": "true" if single else "false",
        "MEMBERS": plan.threads // plan.across,
        "WRITE": _WRITE_ACROSS if across else _WRITE_ALONG,
        "UNITS": plan.threads // plan.across // plan.lanes,
    }
    if plan.short:
        parts = [_ALONG, _SHORT]
    else:
        lines, tile = (_ACROSS, _TILE_ACROSS) if across else (_ALONG, _TILE_ALONG)
        parts = [lines, _EARLIER, tile, _LOOK]
    text = Template(_COMMON + "".join(parts)).substitute(values)
    return HEADER + definitions(text) + text


_COMMON: Final = """
typedef $ELEMENT Element;
typedef $PART Part;
struct State { Part v[$PARTS]; };

static __device__ State neutral() { return {{$NEUTRAL}}; }
static __device__ State lift(Element x) { return {{$LIFT}}; }
static __device__ Element lower(State s) { return $LOWER; }
static __device__ State join(State a, State b) {
  $JOIN
}

static __device__ State up(State s, int d) {
  for (int p = 0; p < $PARTS; ++p) s.v[p] = __shfl_up_sync(0xffffffffu, s.v[p], d, $LANES);
  return s;
}
static __device__ State down(State s, int d) {
  for (int p = 0; p < $PARTS; ++p) s.v[p] = __shfl_down_sync(0xffffffffu, s.v[p], d, $LANES);
  return s;
}
static __device__ State last(State s) {
  for (int p = 0; p < $PARTS; ++p) s.v[p] = __shfl_sync(0xffffffffu, s.v[p], $LANES - 1, $LANES);
  return s;
}
"""

_ALONG: Final = """
// the elements of a thread, from `at` in a line of n on; beyond its end, neutral ones
static __device__ void read(const Element* x, long long at, long long n, State* s) {
  #pragma unroll
  for (int j = 0; j < $PACKS; ++j) {
    const long long p = at + j * ($LANES * $PACK);
    if ($ALIGNED) {
      typedef Pack<Element, $PACK> Vector;
      if (p < n) {
        const Vector v = *(const Vector*)(x + ($REVERSE ? n - $PACK - p : p));
        #pragma unroll
        for (int e = 0; e < $PACK; ++e)
          s[j * $PACK + e] = lift(v.v[$REVERSE ? $PACK - 1 - e : e]);
      } else {
        #pragma unroll
        for (int e = 0; e < $PACK; ++e) s[j * $PACK + e] = neutral();
      }
    } else {
      #pragma unroll
      for (int e = 0; e < $PACK; ++e)
        s[j * $PACK + e] = p + e < n ? lift(x[$REVERSE ? n - 1 - p - e : p + e]) : neutral();
    }
  }
}

static __device__ void write(Element* y, long long at, long long n, State before, State* s) {
  #pragma unroll
  for (int j = 0; j < $PACKS; ++j) {
    const long long p = at + j * ($LANES * $PACK);
    if ($ALIGNED) {
      typedef Pack<Element, $PACK> Vector;
      if (p < n) {
        Vector v;
        #pragma unroll
        for (int e = 0; e < $PACK; ++e)
          v.v[$REVERSE ? $PACK - 1 - e : e] = lower(join(before, s[j * $PACK + e]));
        *(Vector*)(y + ($REVERSE ? n - $PACK - p : p)) = v;
      }
    } else {
      #pragma unroll
      for (int e = 0; e < $PACK; ++e)
        if (p + e < n) y[$REVERSE ? n - 1 - p - e : p + e] = lower(join(before, s[j * $PACK + e]));
    }
  }
}

// makes elements prefixes of what the lanes have; returns all of it
static __device__ State prefixes(unsigned lane, State* s) {
  State all = neutral();
  #pragma unroll
  for (int j = 0; j < $PACKS; ++j) {
    State* const own = s + j * $PACK;
    #pragma unroll
    for (int e = 1; e < $PACK; ++e) own[e] = join(own[e - 1], own[e]);
    State to = own[$PACK - 1];
    #pragma unroll
    for (int d = 1; d < $LANES; d *= 2) {
      const State earlier = up(to, d);
      if (lane >= d) to = join(earlier, to);
    }
    State before = up(to, 1);
    before = lane ? join(all, before) : all;
    all = join(all, last(to));
    #pragma unroll
    for (int e = 0; e < $PACK; ++e) own[e] = join(before, own[e]);
  }
  return all;
}

// what the lanes of a warp have, in the first lane
static __device__ State together(State s) {
  for (int d = 1; d < $LANES; d *= 2) s = join(s, down(s, d));
  return s;
}

"""

_SHORT: Final = """
extern "C" __global__ void __launch_bounds__($THREADS) short_lines(const Words<4> a) {
  const long long n = a.w[2];
  const long long line = blockIdx.x * (long long)($THREADS / $LANES) + threadIdx.x / $LANES;
  const unsigned lane = threadIdx.x % $LANES;
  const long long own = line < a.w[3] ? line : a.w[3] - 1;
  const Element* const x = (const Element*)a.w[0] + own * n;
  Element* const y = (Element*)a.w[1] + own * n;
  State before = neutral(), s[$PACK * $PACKS];
  for (long long at = 0; at < n; at += $LANES * $PACK * $PACKS) {
    read(x, at + lane * $PACK, n, s);
    const State all = prefixes(lane, s);
    if (line == own) write(y, at + lane * $PACK, n, before, s);
    before = join(before, all);
  }
}
"""

_ACROSS: Final = """
// the elements of a thread, from `at` in a line of n on, a step apart; then neutral ones
static __device__ void read(const Element* x, long long at, long long n, long long step, State* s) {
  #pragma unroll
  for (int e = 0; e < $PACK; ++e) {
    const long long p = at + e;
    s[e] = p < n ? lift(x[($REVERSE ? n - 1 - p : p) * step]) : neutral();
  }
}

static __device__ void write(
    Element* y, long long at, long long n, long long step, State before, State* s) {
  #pragma unroll
  for (int e = 0; e < $PACK; ++e) {
    const long long p = at + e;
    if (p < n) y[($REVERSE ? n - 1 - p : p) * step] = lower(join(before, s[e]));
  }
}

// makes elements prefixes of what the thread has; returns all of it
static __device__ State prefixes(State* s) {
  #pragma unroll
  for (int e = 1; e < $PACK; ++e) s[e] = join(s[e - 1], s[e]);
  return s[$PACK - 1];
}

static __device__ State together(State s) { return s; }
"""

_EARLIER: Final = """
// what the units of a block before this one have, and all of them; each has a thread that `leads`
static __device__ State earlier(State own, unsigned unit, unsigned column, bool leads, State* all) {
  __shared__ State cells[$UNITS][$LINES];
  __syncthreads();
  if (leads) cells[unit][column] = own;
  __syncthreads();
  State before = neutral(), sum = neutral();
  for (unsigned u = 0; u < $UNITS; ++u) {
    if (u == unit) before = sum;
    sum = join(sum, cells[u][column]);
  }
  *all = sum;
  return before;
}

// states that other blocks may read as soon as a flag is set
struct Board { State* states; unsigned* flags; };

static __device__ void tell(Board b, long long cell, State s) {
  volatile Part* const to = b.states[cell].v;
  for (int p = 0; p < $PARTS; ++p) to[p] = s.v[p];
  __threadfence();
  *(volatile unsigned*)(b.flags + cell) = 1;
}

static __device__ State told(Board b, long long cell) {
  while (!*(volatile unsigned*)(b.flags + cell)) {
  }
  __threadfence();
  const volatile Part* const from = b.states[cell].v;
  State s;
  for (int p = 0; p < $PARTS; ++p) s.v[p] = from[p];
  return s;
}

extern "C" __global__ void __launch_bounds__($THREADS) tiles(const Words<8> a) {
  const long long n = a.w[2], lines = a.w[3], count = a.w[5];
  unsigned tile = blockIdx.x;
  if (!$SINGLE) {  // in the order in which blocks start
    __shared__ unsigned next;
    if (threadIdx.x == 0 && threadIdx.y == 0) next = atomicAdd((unsigned*)a.w[7], 1u);
    __syncthreads();
    tile = next;
  }
  // where states lie: those of a line's tiles, then those of the ends of its groups of tiles
  const long long members = $MEMBERS * $REACH, groups = (count + members - 1) / members;
  State s[$PACK * $PACKS], all;
"""

_TILE_ALONG: Final = """\
  const unsigned unit = threadIdx.x / $LANES, lane = threadIdx.x % $LANES, member = threadIdx.x;
  const unsigned column = 0;
  const long long line = tile / count, k = tile - line * count;
  const long long at = (k * $THREADS + unit * $LANES) * ($PACK * $PACKS) + lane * $PACK;
  const bool valid = true, leads = lane == 0;
  const long long cell = line * count, beside = 1, end = lines * count + line * groups;
  read((const Element*)a.w[0] + line * n, at, n, s);
  const State own = prefixes(lane, s);
"""
_WRITE_ALONG: Final = "  write((Element*)a.w[1] + line * n, at, n, before, s);\n"

_TILE_ACROSS: Final = """\
  const unsigned unit = threadIdx.y, column = threadIdx.x, member = threadIdx.y;
  const long long inner = a.w[4], wide = (lines + $LINES - 1) / $LINES, k = tile / wide;
  const long long line = (tile - k * wide) * $LINES + column;
  const long long at = (k * $UNITS + unit) * $PACK;
  const bool valid = line < lines, leads = true;
  const long long cell = line, beside = lines, end = lines * count + line;
  const long long start = line / inner * inner * n + line % inner;
  read((const Element*)a.w[0] + start, at, valid ? n : 0, inner, s);
  const State own = prefixes(s);
"""
_WRITE_ACROSS: Final = "  write((Element*)a.w[1] + start, at, valid ? n : 0, inner, before, s);\n"

_LOOK: Final = """\
  State before = earlier(own, unit, column, leads, &all);
  if (!$SINGLE) {
    const Board board = {(State*)a.w[6], (unsigned*)a.w[7] + 1};
    const bool speaks = unit == 0 && leads && valid;
    const long long group = k / members, first = group * members;
    if (speaks) tell(board, cell + k * beside, all);
    State seen = neutral(), sum;
    for (int r = 0; r < $REACH; ++r) {
      const long long other = first + member * $REACH + r;
      if (valid && other < k) seen = join(seen, told(board, cell + other * beside));
    }
    earlier(together(seen), unit, column, leads, &sum);
    if (group && valid) sum = join(told(board, end + (group - 1) * beside), sum);
    if (speaks && k - first == members - 1) tell(board, end + group * beside, join(sum, all));
    before = join(sum, before);
  }
$WRITE}
"""
