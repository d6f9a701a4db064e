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
    mask       how a masked cotangent crosses the transpose: "same", "move", "sum", "call" or "";
               or a rule (mask, *operands, **params) -> masks of the operands, for what was read
    clear      (mask, *operands, **params) -> operands, where known elements that meet no result in
               the mask are zero, of a row whose transpose sums over such; None: it does not
    steep      operands of which one may be an infinite slope where the function is finite, if none
               of them is known to be tame
    effects    params -> effect names
    stage      turns functions in params into jaxprs when the row is staged
    lower      how compiled programs compute it: a way, or several, best first (core/lower.py);
               None: they call `impl`
    linear_in  the operands it is linear in: in all of them together, or (`bilinear`) in each alone
    decides    (operands, results, params) -> what stays the same as long as it decides alike;
               None: it is smooth or, without tangents, its own result
    label      params -> the name by which policies of `checkpoint` know its result
    host       params -> what of the user's it calls, for messages
    calm       it computes no numbers, so that NumPy has nothing to warn about
    gate       (equation, active) -> equations that raise nothing and end where `active` is false;
               None where it does so already (control/rows/gating.py)
    meets      (avals, cts, cts, **params) -> cotangents of all results, where those that two
               equations found meet, None for what one did not read; None: each is added
    samples    yields Sample(args, params) for the generated tests; errors yields inputs that raise

Names belong to whoever chooses them: a user's row may be called `reshape`. What must be known of a
row is a column; none is told apart by its name. `own` says that it is one of ftrace's.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import BuiltinFunctionType, CodeType
from typing import Any, Final

from ftrace.core.arguments import BARE, row_error
from ftrace.core.avals import ShapedArray
from ftrace.core.device import PLAIN
from ftrace.core.errors import RuleError
from ftrace.core.lower import NO_WAYS, Kind, Ways, ways_of
from ftrace.core.naming import Named, attribute, variable_of
from ftrace.core.trace import EVAL, ctx

Effects = frozenset[str]
NO_EFFECTS: Final[Effects] = frozenset()
RAISES: Final = "raises"  # the effect of a row that may raise an error when it is run


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


def smooth(operands: Any, results: Any, params: Any) -> None:
    """The `decides` column of a row without tangents that has no jumps either."""


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


def _is_own() -> bool:
    """Whether the row being made is ftrace's: made while one of its modules is executed."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("ftrace", "dataclasses"):
            return False
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


_lowered: dict[int, tuple[Any, Any]] = {}  # id of the `lower` of a row of ours: that, and the impl


Rule = Callable[..., Any]
_OPEN: Final = CO_VARARGS | CO_VARKEYWORDS  # how a rule takes more than it names


def _counting(impl: Rule, operands: int) -> Rule:
    """The same of so many operands and no params: a ufunc would take more, `out` and options."""
    code: CodeType | None = getattr(impl, "__code__", None)
    if code is not None and not (code.co_flags & _OPEN or code.co_kwonlyargcount):
        if code.co_argcount == operands and not getattr(impl, "__defaults__", None):
            return impl
    elif type(impl) is BuiltinFunctionType:
        return impl
    if operands == 1:
        return lambda x: impl(x)
    if operands == 2:
        return lambda x, y: impl(x, y)
    if operands == 3:
        return lambda x, y, z: impl(x, y, z)

    def counted(*args: Any) -> Any:
        if len(args) != operands:
            raise TypeError(f"{len(args)} operands where {operands} are taken")
        return impl(*args)

    return counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Primitive(Named):
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
    mask: str | Rule = ""
    clear: Rule | None = None
    steep: tuple[int, ...] = ()
    zeros: bool = False
    effects: Rule | None = None
    stage: Rule | None = None
    prune: Rule | None = None
    lower: Kind | Ways | None = None
    linear_in: tuple[int, ...] = ()
    bilinear: bool = False
    decides: Rule | None = None
    label: Rule | None = None
    host: Rule | None = None
    calm: bool = False
    gate: Rule | None = None
    meets: Rule | None = None
    samples: Callable[[], Iterable[Any]] = _no_samples
    errors: Callable[[], Iterable[Any]] = _no_samples
    multiple: bool = False
    own: bool = field(init=False, default=False, repr=False)
    ways: Ways = field(init=False, default=NO_WAYS, repr=False)
    takes: int | None = field(init=False, default=None, repr=False)  # operands, and no params

    def __post_init__(self) -> None:
        lower = self.lower
        if _is_own():
            rule: CodeType | None = getattr(self.type, "__code__", None)
            if rule is not None and not (rule.co_flags & _OPEN or rule.co_kwonlyargcount):
                object.__setattr__(self, "takes", rule.co_argcount)
                object.__setattr__(self, "impl", _counting(self.impl, rule.co_argcount))
            object.__setattr__(self, "own", True)
            _lowered.setdefault(id(lower), (lower, self.impl))
        elif lower is not None and _lowered.get(id(lower), (0, self.impl))[1] is not self.impl:
            # a row of ours with another `impl`, by dataclasses.replace: kernels would not know it
            object.__setattr__(self, "lower", None)
        object.__setattr__(self, "ways", ways_of(self.lower))

    def _parts(self) -> Any:
        found = variable_of(self, self.name, "ftrace")
        return None if found is None else (attribute, found)

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive (bind it to the current trace)."""
        trace = ctx.trace
        try:
            if trace is EVAL:
                for a in args:
                    if type(a) not in PLAIN:
                        return trace.process(self, args, params)
                return self.impl(*args, **params)
            try:
                return trace.process(self, args, params)
            finally:
                ctx.trace = trace
        except BARE as error:
            if self.stage is not None or (named := row_error(error, self, args, params)) is error:
                raise
            raise named from error

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        """The name, as functions have one."""
        return self.name


def bound(row: Callable[..., Any]) -> Callable[..., Any]:
    """A row as it is called most often: calling a method costs half of calling an object."""
    return row.__call__ if type(row) is Primitive else row
