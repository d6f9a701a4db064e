"""Device functions whose results are exact: conversions, integer and float quotients.

The values of what C++ leaves undefined are those of the CPU backend (cpu/llvm/casts.py,
division.py). Float16 is converted in integers; NVRTC takes the device's instructions instead, which
round to nearest even and keep subnormals as these do (only the bits of a NaN differ).
"""

from typing import Final

_TYPES: Final = {"f4": ("float", "f"), "f8": ("double", "")}

_HALF: Final = {
    "ft_cast_f2_f4": """
static inline float ft_cast_f2_f4(unsigned short h) {
#ifdef __CUDACC_RTC__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
#else
  int size = h & 0x7fff;
  int bits = __float_as_int(__int_as_float(size << 13) * 0x1p112f);
  if (size >= 0x7c00) bits |= 0x7f800000;
  return __int_as_float(h & 0x8000 ? bits | (-2147483647 - 1) : bits);
#endif
}
""",
    "ft_cast_f4_f2": """
static inline unsigned short ft_cast_f4_f2(float x) {
#ifdef __CUDACC_RTC__
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  unsigned bits = (unsigned)__float_as_int(x), size = bits & 0x7fffffffu, half;
  if (size >= 0x47800000u) {
    half = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (size < 0x38800000u) {  // the addition rounds as a subnormal float16 is rounded
    half = (unsigned)__float_as_int(__int_as_float((int)size) + 0.5f) - 0x3f000000u;
  } else {
    half = (size + 0xc8000fffu + (size >> 13 & 1u)) >> 13;
  }
  return (unsigned short)(half | (bits >> 16 & 0x8000u));
#endif
}
""",
    "ft_cast_f8_f2": """
static inline unsigned short ft_cast_f8_f2(double x) {
  // through a float32 rounded to odd, which makes the second rounding right
  float near = (float)x;
  double back = (double)near;
  int bits = __float_as_int(near);
  if (!(bits & 1) && (back < x || back > x)) bits += fabs(back) > fabs(x) ? -1 : 1;
  return ft_cast_f4_f2(__int_as_float(bits));
}
""",
}

# 1 / d and (1 / d) / d for d >= 1 or NaN: an estimate of the reciprocal, one step of Newton's
# method as in the device's own division. The quarter keeps the estimate from being subnormal. Where
# the result is, a few next to a tie are off by one; more than that would take registers.
_RECIPROCAL: Final = {
    "ft_reciprocal_f4": """
static inline float ft_reciprocal_f4(float d) {
  float near;
#ifdef __CUDACC_RTC__
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(0.25f * d));
#else
  near = 1 / (0.25f * d);
#endif
  near *= 0.25f;
  return d == __int_as_float(0x7f800000) ? 0 : fmaf(near, fmaf(-d, near, 1), near);
}
""",
    "ft_reciprocal_square_f4": """
static inline float ft_reciprocal_square_f4(float d) {
  float above = ft_reciprocal_f4(d), near = above * above;
  return d == __int_as_float(0x7f800000) ? 0 : fmaf(fmaf(-d, near, above), above, near);
}
""",
}

_TO_SIGNED: Final = """
static inline {to} ft_cast_{source}_{code}({type} x) {{
  return x >= -{bound}{f} && x < {bound}{f} ? ({to})x : {low};
}}
"""

_TO_U8: Final = """
static inline unsigned long long ft_cast_{source}_u8({type} x) {{
  bool upper = x >= 0x1p63{f};
  unsigned long long whole = (unsigned long long)ft_cast_{source}_i8(upper ? x - 0x1p63{f} : x);
  return upper ? whole ^ 0x8000000000000000ULL : whole;
}}
"""

_FLOOR_DIVIDE: Final = """
static inline {type} ft_floor_divide_{code}({type} a, {type} b) {{
  if (b == 0) return 0;
  if (b == -1) return ({type})(0 - ({wide})a);
  {type} quotient = a / b, rest = a - quotient * b;
  return quotient - (rest != 0 && (rest ^ b) < 0);
}}
"""

_REMAINDER: Final = """
static inline {type} ft_rem_{code}({type} a, {type} b) {{
  return b == 0 || b == -1 ? 0 : a % b;
}}
"""

_MOD: Final = """
static inline {type} ft_mod_{code}({type} a, {type} b) {{
  {type} rest = ft_rem_{code}(a, b);
  return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}}
"""

_FLOAT_MOD: Final = """
static inline {type} ft_mod_{source}({type} a, {type} b) {{
  {type} rest = fmod{f}(a, b);
  if (b == 0) return rest;
  if (rest == 0) return copysign{f}(rest, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}}
"""

_FLOAT_FLOOR_DIVIDE: Final = """
static inline {type} ft_floor_divide_{source}({type} a, {type} b) {{
  if (b == 0) return a / b;
  {type} rest = fmod{f}(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign{f}(quotient, a / b);
  {type} whole = floor{f}(quotient);
  return quotient - whole > 0.5{f} ? whole + 1 : whole;
}}
"""


def _functions() -> dict[str, str]:
    made = {**_HALF, **_RECIPROCAL}
    low = {"i4": "(-2147483647 - 1)", "i8": "(-9223372036854775807LL - 1)"}
    signed = {
        "i4": ("int", "unsigned", "0x1p31"),
        "i8": ("long long", "unsigned long long", "0x1p63"),
    }
    for source, (kind, f) in _TYPES.items():
        names = {"source": source, "type": kind, "f": f}
        for code, (to, _, bound) in signed.items():
            made[f"ft_cast_{source}_{code}"] = _TO_SIGNED.format(
                **names, code=code, to=to, bound=bound, low=low[code]
            )
        made[f"ft_cast_{source}_u8"] = _TO_U8.format(**names)
        made[f"ft_mod_{source}"] = _FLOAT_MOD.format(**names)
        made[f"ft_floor_divide_{source}"] = _FLOAT_FLOOR_DIVIDE.format(**names)
    for code, (kind, wide, _) in signed.items():
        for name, text in (("floor_divide", _FLOOR_DIVIDE), ("rem", _REMAINDER), ("mod", _MOD)):
            made[f"ft_{name}_{code}"] = text.format(code=code, type=kind, wide=wide)
    return made


EXACT: Final[dict[str, str]] = _functions()
