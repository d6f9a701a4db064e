"""How each operation of core/scalar.py that is "within 2 ULP" is written: op -> function of Text."""

from collections.abc import Callable
from typing import Final

from ftrace.cpu.mathematics.exponential import exp, exp2, expm1, logistic
from ftrace.cpu.mathematics.hyperbolic import tanh
from ftrace.cpu.mathematics.logarithm import log, log1p, log2, log10
from ftrace.cpu.mathematics.trigonometric import cos, sin
from ftrace.cpu.text import Value

SPELLINGS: Final[dict[str, Callable[..., Value]]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "logistic": logistic,
}
