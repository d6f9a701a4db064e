"""How the expensive operations of core/scalar.py are written as LLVM text: op -> function of Text.

The first part are those "within 2 ULP", written out here for every vector width; the others call
SciPy lane by lane (libraries.py). `SPELLINGS[op](text, *operands)` appends instructions and returns
the value; operands are of one type, f4 or f8, and of any number of lanes. Branches are written
only for huge arguments of sin, cos and tan.
"""

from collections.abc import Callable
from typing import Final

from ftrace.cpu.llvm.text import Typed
from ftrace.cpu.mathematics.erf import erf, erfc
from ftrace.cpu.mathematics.exponential import exp, exp2, expm1, logistic
from ftrace.cpu.mathematics.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from ftrace.cpu.mathematics.inverse import acos, asin, atan, atan2
from ftrace.cpu.mathematics.libraries import SCIPY, library_call
from ftrace.cpu.mathematics.logarithm import log, log1p, log2, log10
from ftrace.cpu.mathematics.power import cbrt, hypot, pow_
from ftrace.cpu.mathematics.trigonometric import cos, sin, tan

SPELLINGS: Final[dict[str, Callable[..., Typed]]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "cbrt": cbrt,
    "pow": pow_,
    "atan2": atan2,
    "hypot": hypot,
    "logistic": logistic,
    "erf": erf,
    "erfc": erfc,
    **{op: library_call(op) for op in SCIPY},
}
