"""`Primitive`: one row per primitive, complete at construction, and `bind` which applies it.

A row is a value: all its rules are columns. A missing rule is written down as
`Unsupported("why")`, never absent. Calling a row binds it: the current trace processes it, and
the current trace is restored afterwards, whatever the rule did. `Trace.process` therefore only
*sets* the current trace, never restores it. The columns:

    name       printed in jaxprs
    impl       evaluates on plain arrays and scalars
    type       operand avals -> result aval (a tuple of avals when `multiple`)
    jvp        (primals, tangents, **params) -> (result, tangent); or LINEAR, NONDIFFERENTIABLE
    transpose  (ct, *operands, **params) -> one cotangent or None per operand; an operand the
               row is linear in arrives as `Linear(aval)`
    batch      (axis, values, dims, **params) -> (result, dim); `axis` has a size and a name
    partial    (known, **params) -> Split, for rows that hold jaxprs (see interpreters/partial.py)
    mask       how a masked cotangent crosses the transpose: "same", "move", "sum", "call" or ""
    effects    params -> effect names
    stage      turns functions in params into jaxprs when the row is staged
    lower      how elements of the result come from elements of the operands: `Pointwise`,
               `Elementwise`, `Moving`, `Reduction` or `Cumulative` (core/scalar.py); None:
               compiled programs call `impl`
    samples    yields Sample(args, params) for the generated tests; errors yields inputs that raise
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ftrace.core.avals import ShapedArray
from ftrace.core.device import PLAIN
from ftrace.core.errors import RuleError
from ftrace.core.scalar import Cumulative, Elementwise, Moving, Pointwise, Reduction
from ftrace.core.trace import EVAL, ctx

Effects = frozenset[str]
NO_EFFECTS: Final[Effects] = frozenset()


class Linear:
    """In a transpose rule: the operand whose cotangent is asked for. Only its aval is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Linear({self.aval})"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A rule that does not exist, why, and what to do. Calling it raises `RuleError`."""

    why: str
    fix: str = "Write it with supported operations, or give it a custom rule."

    def __call__(self, *args: Any, **params: Any) -> Any:
        raise RuleError(self.why, self.fix)


LINEAR: Final = "linear"  # jvp column: the row is linear in all its operands together
NONDIFFERENTIABLE: Final = "nondifferentiable"  # jvp column: the result has no tangent


@dataclass(frozen=True, slots=True)
class Sample:
    """Operands and parameters on which the generated tests try a row."""

    args: tuple[Any, ...]
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A call that must raise `error` with `phrase` in its message."""

    args: tuple[Any, ...]
    params: dict[str, Any]
    error: type[Exception]
    phrase: str


def _no_samples() -> Iterable[Any]:
    return ()


Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Primitive:
    """A primitive operation and everything that ftrace knows about it.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.core.primitive import Primitive, Unsupported
        >>> twice = ftrace.Primitive(
        ...     name="twice",
        ...     impl=lambda x: 2 * x,
        ...     type=lambda x: x,
        ...     jvp="linear",
        ...     transpose=lambda ct, x: (twice(ct),),
        ...     batch=lambda axis, values, dims: (twice(*values), dims[0]),
        ...     doc="Two times x.",
        ... )
        >>> float(ftrace.grad(lambda x: twice(x) * x)(3.0))
        12.0
    """

    name: str
    impl: Rule
    type: Rule
    jvp: Rule | str
    transpose: Rule
    batch: Rule
    doc: str
    partial: Rule | None = None
    mask: str = ""
    zeros: bool = False
    effects: Rule | None = None
    stage: Rule | None = None
    lower: Pointwise | Elementwise | Moving | Reduction | Cumulative | None = None
    linear_in: tuple[int, ...] = ()
    samples: Callable[[], Iterable[Any]] = _no_samples
    errors: Callable[[], Iterable[Any]] = _no_samples
    multiple: bool = False

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive (bind it to the current trace)."""
        trace = ctx.trace
        if trace is EVAL:
            for a in args:
                if type(a) not in PLAIN:
                    return trace.process(self, args, params)
            return self.impl(*args, **params)
        try:
            return trace.process(self, args, params)
        finally:
            ctx.trace = trace

    def __repr__(self) -> str:
        return self.name
