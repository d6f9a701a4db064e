"""Device functions that CUDA lacks, or whose edge values are not scipy's, in both precisions.

float32 is computed in float32 throughout: a device may do float64 at a 64th of the speed. Near
its roots left of zero digamma has the absolute error of the terms that cancel there, as lgamma
has in CUDA. The expansions are those of coefficients.py.

In the texts `$T` is the C type, `$d` the dtype and `$f` the end of CUDA's names and literals.
"""

import math
from string import Template
from typing import Final

from ftrace.gpu.emit.cuda_spelling import literal
from ftrace.gpu.prelude.coefficients import COEFFICIENTS, ROOT

_LOGISTIC: Final = {
    # the denominator is in [1, 2]: a fast reciprocal, corrected once, for the called division
    "f4": """
static inline float ft_logistic_f4(float x) {
  float e = expf(-fabsf(x)), above = x >= 0 ? 1 : e, below = 1 + e;
#ifdef __CUDACC_RTC__
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(below));
#else
  float reciprocal = 1 / below;
#endif
  float quotient = above * reciprocal;
  return fmaf(fmaf(-quotient, below, above), reciprocal, quotient);
}
""",
    "f8": """
static inline double ft_logistic_f8(double x) {
  double e = exp(-fabs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}
""",
}

_LGAMMA: Final = """
static inline $T ft_lgamma_$d($T x) {
  return x == -$inf ? x : lgamma$f(x);
}
"""

# left of 0 a sum of two negative terms; right of it the square in the exponential is exact
_LOG_NDTR: Final = """
static inline $T ft_log_ndtr_$d($T x) {
  $T scaled = 0.5$f * erfcx$f(fabs$f(x) * $rsqrt2);
  if (x < 0) return log$f(scaled) - 0.5$f * x * x;
  $T y = x > 40 ? 40 : x, square = y * y, lost = fma$f(y, y, -square);
  $T power = exp$f(-0.5$f * square);
  return log1p$f(-(scaled * fma$f(-0.5$f * lost, power, power)));
}
"""

# reflection left of 0; the asymptotic series from 10; the root on the right is split in two parts
_DIGAMMA: Final = """
static inline $T ft_digamma_$d($T x) {
  if (x == 0) return copysign$f($inf, -x);
  $T sum = 0;
  if (x < 0) {
    $T rest = x - rint$f(x);
    if (rest == 0) return $nan;
    sum = -$pi * cospi$f(rest) / sinpi$f(rest);  // tan$f would bring float64 into float32
    x = 1 - x;
  }
  if (x > 10) {
    $T z = 1 / (x * x);
    return sum + (log$f(x) - 0.5$f / x - z * $series);
  }
  for (; x > 2; sum += 1 / x) x -= 1;
  if (x < 1) sum -= 1 / x;
  $T u = x < 1 ? x : x - 1, v = u - 0.5$f;
  return sum + ((u - $high) - $low) * $polynomial;
}
"""

# the argument's square is rounded: what was lost, times the logarithm's derivative, is put back
_BESSEL_NEAR: Final = """
static inline $T ft_i${n}_near_$d($T x) {
  $T square = x * x, v = 0.25$f * square, lost = 0.25$f * fma$f(x, x, -square);
  $T value = 1 + v * $polynomial;
  return $start(value + value * (lost * $slope / sqrt$f(1 + v * $bend)));
}
"""

_BESSEL_FAR: Final = """
static inline $T ft_i${n}_far_$d($T x) {
  $T v = 1 / x;
  return $polynomial / sqrt$f(x);
}
"""

_BESSEL: Final = """
static inline $T ft_i${n}_$d($T x) {
  $T size = fabs$f(x), value;
  if (size > 10) {
    $grown
  } else {
    value = ft_i${n}_near_$d(size);
  }
  return $signed;
}
"""

_BESSEL_SCALED: Final = """
static inline $T ft_i${n}e_$d($T x) {
  $T size = fabs$f(x);
  $T value = size > 10 ? ft_i${n}_far_$d(size) : exp$f(-size) * ft_i${n}_near_$d(size);
  return $signed;
}
"""

_TYPES: Final = {"f4": {"T": "float", "f": "f"}, "f8": {"T": "double", "f": ""}}

# float32 takes the root of e**x where that overflows: there I(x) is finite as scipy's in float64
_GROWN: Final = {
    "f4": """bool far = size > 88;
    float power = expf(far ? 0.5f * size : size);
    value = power * ft_i${n}_far_f4(size);
    if (far) value *= power;""",
    "f8": "value = exp(size) * ft_i${n}_far_f8(size);",
}

# the start of the series, the logarithm's derivative nearly: slope / sqrt(1 + bend v), and the sign
_BESSELS: Final = {
    "0": ("", 1.0, 1.0, "value"),
    "1": ("0.5$f * x * ", 0.5, 1 / 3, "x < 0 ? -value : value"),
}


def _functions() -> dict[str, str]:
    made = {f"ft_logistic_{dtype}": text for dtype, text in _LOGISTIC.items()}
    for dtype, names in _TYPES.items():
        high, low = ROOT[dtype]
        parts = {
            **names,
            "d": dtype,
            "rsqrt2": literal(math.sqrt(0.5), dtype),
            "pi": literal(math.pi, dtype),
            "inf": literal(math.inf, dtype),
            "nan": literal(math.nan, dtype),
        }
        made[f"ft_lgamma_{dtype}"] = Template(_LGAMMA).substitute(parts)
        made[f"ft_log_ndtr_{dtype}"] = Template(_LOG_NDTR).substitute(parts)
        made[f"ft_digamma_{dtype}"] = Template(_DIGAMMA).substitute(
            parts,
            polynomial=_horner("digamma", dtype),
            series=_horner("digamma_far", dtype, "z"),
            high=literal(high, dtype),
            low=literal(low, dtype),
        )
        made |= _bessel(parts)
    return made


def _bessel(parts: dict[str, str]) -> dict[str, str]:
    """I0 and I1, and both with the exponential taken away, of one dtype."""
    made: dict[str, str] = {}
    dtype = parts["d"]
    for n, (first, slope, bend, signed) in _BESSELS.items():
        own = parts | {"n": n, "signed": signed, "grown": _GROWN[dtype].replace("${n}", n)}
        own |= {"slope": literal(slope, dtype), "bend": literal(bend, dtype)}
        near = own | {"start": Template(first).substitute(parts)}
        near["polynomial"] = _horner(f"i{n}_near", dtype)
        far = own | {"polynomial": _horner(f"i{n}_far", dtype)}
        made[f"ft_i{n}_near_{dtype}"] = Template(_BESSEL_NEAR).substitute(near)
        made[f"ft_i{n}_far_{dtype}"] = Template(_BESSEL_FAR).substitute(far)
        made[f"ft_i{n}_{dtype}"] = Template(_BESSEL).substitute(own)
        made[f"ft_i{n}e_{dtype}"] = Template(_BESSEL_SCALED).substitute(own)
    return made


def _horner(name: str, dtype: str, variable: str = "v") -> str:
    """A polynomial, with fused multiplications."""
    *lower, text = (literal(c, dtype) for c in COEFFICIENTS[name, dtype])
    for coefficient in reversed(lower):
        text = f"fma{_TYPES[dtype]['f']}({variable}, {text}, {coefficient})"
    return text


SPECIAL: Final[dict[str, str]] = _functions()
