"""The text form of jaxprs: stable, golden-tested, one equation a line.

Names are letters in order of appearance, params are sorted, sub-jaxprs are indented, large
constants appear by type only. `to_text(jaxpr, source=True)` adds the user's line to each equation.
"""

from typing import Any

import numpy as np

from ftrace.core import source as places
from ftrace.core.errors import brief
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.scan_layout import ScanLoop
from ftrace.core.trace import numbers


class _Names:
    """Letters for variables, in order of first use."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}

    def of(self, v: Var) -> str:
        found = self.names.get(v)
        if found is None:
            found = self.names[v] = _letters(len(self.names))
        return found

    def binder(self, v: Var) -> str:
        return f"{self.of(v)}:{v.aval!r}"

    def atom(self, a: Any) -> str:
        return self.of(a) if isinstance(a, Var) else literal_text(a)


def _letters(n: int) -> str:
    text = chr(ord("a") + n % 26)
    while n >= 26:
        n = n // 26 - 1
        text = chr(ord("a") + n % 26) + text
    return text


def literal_text(literal: Literal) -> str:
    """`2.0` for a Python scalar, `2.0:f32` for a NumPy scalar."""
    value = literal.value
    if issubclass(type(value), np.generic):
        return f"{value.item()!r}:{literal.aval!r}".removesuffix("[]")
    return numbers(value) if issubclass(type(value), np.ndarray) else brief(repr(value))


def to_text(jaxpr: Jaxpr, *, source: bool = False) -> str:
    """The printed form of a jaxpr.

    Args:
        jaxpr: what to print.
        source: append the user's file, line and function to each equation.
    """
    return _print(jaxpr, _Names(), "", source)


def _print(jaxpr: Jaxpr, names: _Names, indent: str, source: bool) -> str:
    consts = " ".join(names.binder(v) for v in jaxpr.constvars)
    binders = " ".join(names.binder(v) for v in jaxpr.invars)
    head = f"{{ lambda {consts + ' ; ' if consts else ''}{binders} . let"
    lines = [_equation(e, names, indent + "    ", source) for e in jaxpr.eqns]
    outs = ", ".join(names.atom(v) for v in jaxpr.outvars)
    tail = f"({outs},)" if len(jaxpr.outvars) == 1 else f"({outs})"
    if not lines:
        return f"{head} in {tail} }}"
    body = "\n".join(lines)
    return f"{head}\n{body}\n{indent}  in {tail} }}"


def _equation(eqn: Eqn, names: _Names, indent: str, source: bool) -> str:
    params = _params(eqn.params, indent, source)
    operands = " ".join(names.atom(a) for a in eqn.invars)
    outs = " ".join(names.binder(v) for v in eqn.outvars)
    text = f"{indent}{outs} = {eqn.primitive.name}{params}{' ' if operands else ''}{operands}"
    return f"{text}  # {places.short(eqn.source)}" if source and eqn.source else text


def _params(params: dict[str, Any], indent: str, source: bool) -> str:
    shown = [(k, params[k]) for k in sorted(params) if params[k] is not None]
    if not shown:
        return ""
    values = [f"{k}={_value(v, indent + '  ', source)}" for k, v in shown]
    if any("\n" in v for v in values):
        return "[\n" + "\n".join(f"{indent}  {v}" for v in values) + f"\n{indent}]"
    return f"[{' '.join(values)}]"


def _value(value: Any, indent: str, source: bool) -> str:
    inner = getattr(value, "jaxpr", value)
    if isinstance(inner, Jaxpr):
        return _print(inner, _Names(), indent, source)
    if isinstance(value, ScanLoop):
        return repr(value)
    if isinstance(value, tuple):
        items = [_value(v, indent, source) for v in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, np.dtype):
        return value.name
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return numbers(value) if issubclass(type(value), np.ndarray) else brief(repr(value))
