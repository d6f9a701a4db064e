"""The exception tree. Every class's docstring is its documentation page.

A message has three sentences: what happened, with the values; where in the user's file; what to
do. `FtraceError(what, fix)` adds the place by itself, and the class's code as a note. JAX's names
are used where JAX has one.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from ftrace.core import source

made: Callable[["FtraceError"], None] | None = None
"""Told of each error that says what tracing cannot do: `trace.py` remembers it."""


MOST: Final = 1500  # characters of a sentence, however large what it speaks of


def brief(text: str, most: int = MOST) -> str:
    """A text without its middle, where it is long: two fifths of what is left are its end."""
    if len(text) <= most:
        return text
    end = 2 * most // 5
    return f"{text[: most - end - 5]} ... {text[-end:]}"


class FtraceError(Exception):
    """The root of all errors that ftrace raises on purpose.

    Each class has a `code`, which a traceback shows below the message.
    """

    code: ClassVar = "FT1000"

    def __init__(self, what: str, fix: str = "", *, place: source.Location | None = None) -> None:
        where = source.describe(place or source.here.place or source.location())
        what, where, fix = brief(what), brief(where, MOST // 3), brief(fix)
        self.what, self.where, self.fix = what, where, fix
        parts = [what, f"At {where}" if where else "", fix]
        text = "\n".join(part for part in parts if part)
        super().__init__(text)
        self.args = (text,)  # NumPy's AxisError leaves it alone
        self.add_note(f"{self.code}: `python -m ftrace explain {self.code}` says more.")
        if made is not None and isinstance(self, REFUSALS):
            made(self)

    def __reduce__(self) -> Any:
        """Copies and pickles have the same words; `__init__` would look for a place anew."""
        return _again, (type(self), self.args, self.__dict__)


def _again(cls: type[FtraceError], args: tuple[Any, ...], state: dict[str, Any]) -> FtraceError:
    error = cls(state["what"], state["fix"])
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(FtraceError, ValueError):
    """A setting that does not exist, or a value that it cannot have.

    Raised by `ftrace.config.update` and `set_default`, and by `import ftrace.config` for an
    environment variable `FTRACE_<NAME>`.
    """

    code: ClassVar = "FT1001"


class UnexpectedTracerError(FtraceError):
    """A tracer was used after, or outside, the transformation that made it.

    A tracer stands for a value while `grad`, `vmap` or `jit` runs a function. Storing it in a
    global, an attribute or a closure and using it later has no meaning: the value it stood for
    existed only during that run. Return the value from the function instead. The same error is
    raised when a custom rule closes over a tracer of the transformation being applied, and when
    a thread started inside a transformed function uses its tracers.

    Example:
        leaked = []
        ftrace.grad(lambda x: leaked.append(x) or x * x)(1.0)
        leaked[0] + 1.0  # UnexpectedTracerError: return it with has_aux=True instead
    """

    code: ClassVar = "FT1100"


class ConcretizationTypeError(FtraceError, TypeError):
    """A Python value was asked of something that has none yet.

    While `jit` stages a function or `vmap` batches it, a traced value has a shape and a dtype
    but no single value. The three subclasses say which conversion was asked for.

    A function that catches one (`try: y = float(x)`, `except TypeError:`) would take another path
    than it takes on plain values: `jit`, `vmap`, `grad` and the others then trace it again with
    `float` and its like rewritten (`ftrace.lift`), or raise the error after all. The same holds for
    `LiftError` and `MutationError`. `isinstance(x, ftrace.Tracer)` asks without an error.
    """

    code: ClassVar = "FT1101"


class TracerBoolConversionError(ConcretizationTypeError):
    """`if`, `while`, `and`, `or`, `not` or `bool()` on a traced value.

    Under `grad`, `jvp` and `vjp` this works: the primal decides. `jit` and `vmap` lift functions
    whose source can be read (`ftrace.lift`) unless `lift=False`. Elsewhere use `ftrace.lax.cond`,
    `ftrace.lax.while_loop` or `numpy.where`, or mark the argument static.
    """

    code: ClassVar = "FT1102"


class TracerIntegerConversionError(ConcretizationTypeError):
    """`int()`, `range()`, a shape or a list index was given a traced value.

    Shapes and Python indices must be known while tracing: mark the argument static
    (`static_argnums`), or index with `numpy.take`, which accepts traced indices. In lifted
    functions (`ftrace.lift`) traced integers also index lists and bound loops.
    """

    code: ClassVar = "FT1103"


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was asked to become a plain array or float.

    `np.array([t, 1.0])`, `plain[i] = t`, `math.sin(t)`, `float(t)` ask a tracer for numbers that
    would drop its derivative or do not exist yet. Use `ftrace.numpy.array`/`stack`,
    `ftrace.numpy.zeros` for arrays that are filled later, and `numpy.sin`; or `ftrace.lift(f)`,
    which does so in the user's own functions: every transformation lifts by itself where it must.
    """

    code: ClassVar = "FT1104"


class TracerAttributeError(FtraceError, AttributeError):
    """A traced array was asked for what only memory has: flags, strides, bytes, a shape to set.

    Or an object among the arguments of a transformed function, which has its fields only, for an
    attribute that is none. Then the error is raised in the end also if `hasattr` or a handler
    catches it.
    """

    code: ClassVar = "FT1105"


class AbsentNameError(FtraceError, AttributeError):
    """A name of JAX's that ftrace has not, on purpose. The message says what to use instead."""

    code: ClassVar = "FT1207"


class MutationError(FtraceError, ValueError):
    """A write that would have escaped the transformation, or changed a value already used.

    Arguments of a transformed function, arrays captured from outside it and their views are
    frozen while it runs: write to a copy (`x = x.copy()`). A large array captured by `grad`,
    `vjp` or `linearize` is read-only until the transforming call returns.

    Lists, dicts and objects among the arguments are put together anew for a transformed function.
    One that it changes (`p.w = p.w * 2`, `d["n"] += 1`) must be among what it returns: the caller's
    own stays as it was.
    """

    code: ClassVar = "FT1106"


class LiftError(FtraceError):
    """Native control flow or a NumPy constructor could not be rewritten for tracing."""

    code: ClassVar = "FT1107"


REFUSALS: Final = (ConcretizationTypeError, MutationError, LiftError, UnexpectedTracerError)
"""What a function is told only because it is traced: no result comes of one that catches it."""


class ShapeError(FtraceError, ValueError):
    """Shapes do not fit: broadcasting, reshaping, contracting, stacking, mapped axis sizes."""

    code: ClassVar = "FT1200"


class MatrixError(ShapeError, np.linalg.LinAlgError):
    """An array of a shape that a function of matrices refuses: not square, or without two axes.

    A matrix whose *values* are refused, as it is singular or not positive definite, raises
    `numpy.linalg.LinAlgError` itself, as in NumPy.
    """

    code: ClassVar = "FT1201"


class DtypeError(FtraceError, TypeError):
    """A value or dtype that ftrace does not trace, or that the operation is not defined for.

    Also any other argument of the wrong Python type: no function, no tuple, a static argument
    that cannot be hashed.
    Also raised when `grad` is asked of a function of integers or of a complex output without
    `holomorphic=True`.
    """

    code: ClassVar = "FT1203"


class DomainError(FtraceError, ValueError):
    """A value outside of what a function is defined for: a negative probability or rate."""

    code: ClassVar = "FT1204"


class RangeError(DomainError, OverflowError):
    """A Python integer that is too large: for a dtype, a size, an axis."""

    code: ClassVar = "FT1205"


class TreeError(FtraceError, ValueError):
    """Two nested containers that must have the same structure do not. Paths name the place."""

    code: ClassVar = "FT1206"


class AxisError(FtraceError, np.exceptions.AxisError):
    """An axis that the array does not have, or one named twice."""

    code: ClassVar = "FT1202"

    def __str__(self) -> str:
        return str(self.args[0])


class RuleError(FtraceError, NotImplementedError):
    """A primitive has no rule for this transformation. The message says why, and what instead."""

    code: ClassVar = "FT1300"


class CustomRuleError(FtraceError, TypeError):
    """A user's derivative rule is missing, or returned the wrong structure, shape or dtype."""

    code: ClassVar = "FT1301"


class CallbackError(FtraceError):
    """A host callback failed, or returned something other than it promised."""

    code: ClassVar = "FT1302"


class JaxprError(FtraceError):
    """A jaxpr is not well formed. This is a bug in ftrace: please report it with the message.

    The other causes are a user's own `Primitive` whose rules do not fit its type rule, and a user's
    pass (`ftrace.passes`), which the message names.
    """

    code: ClassVar = "FT1400"

    def __init__(self, what: str, fix: str = "", *, place: source.Location | None = None) -> None:
        report = "This is a bug of ftrace, or of your own Primitive: please report this message."
        super().__init__(what, fix or report, place=place)


class BackendError(FtraceError, RuntimeError):
    """Compiling or running on a device failed: no driver, out of memory, a kernel's error."""

    code: ClassVar = "FT1401"


class KernelError(BackendError):
    """A compiler for devices refused a generated kernel. This is a bug in ftrace: please report it.

    `source` is the whole text that was refused; the message shows the lines around the complaint.
    """

    code: ClassVar = "FT1402"

    def __init__(self, what: str, fix: str = "", *, source: str = "") -> None:
        super().__init__(what, fix)
        self.source = source


class DeviceMemoryError(BackendError, MemoryError):
    """A device has too little free memory. The message says how much was asked for, and is free.

    What CuPy's memory pool held in reserve was given back and the allocation tried again before
    this is raised. Nothing is left behind: after arrays are freed the next call works.
    """

    code: ClassVar = "FT1404"


class DeviceError(FtraceError, TypeError):
    """Values of different devices met, or elements on a GPU were asked for as a NumPy array.

    Nothing that the user made moves between host and GPU by itself. Move one of the two before
    the call: `ftrace.device_put(x)` makes a CuPy array, `ftrace.device_get(x)` a NumPy array.
    Numbers, and arrays that `ftrace.numpy` makes inside a transformation, go with what they meet.
    """

    code: ClassVar = "FT1403"


class BudgetError(FtraceError, MemoryError):
    """A number of bytes that no choice of what is kept, and what is computed again, stays within.

    Raised by `checkpoint(budget=)` when it is differentiated, with the least that would do.
    """

    code: ClassVar = "FT1405"


class HostMemoryError(FtraceError, MemoryError):
    """An array that a transformation would make does not fit into memory: a whole Jacobian."""

    code: ClassVar = "FT1406"


class SolverError(FtraceError, RuntimeError):
    """A numerical solver found no solution: it did not converge, or a matrix is singular.

    Raised by `ftrace.implicit` with SciPy's own message. A derivative raises it too where none
    exists: the equation's Jacobian is singular at the solution, which is a multiple root, a flat
    minimum, or one of several solutions that touch.
    """

    code: ClassVar = "FT1303"


class DerivativeError(FtraceError, AssertionError):
    """A derivative is not that of its function, as numerical differences show.

    Raised by `ftrace.testing`, and by what was made with `verify=`. The message has both values. It
    also says so where differences cannot tell, as at a kink.
    """

    code: ClassVar = "FT1304"


class FreshnessWarning(UserWarning):
    """A compiled function reads more than can be watched for changes.

    Pass what changes as an argument, or call `clear_cache()` after a change. Up to 4,000 visits of
    functions, what they read is compared at each call; so is what they read of the content of an
    array while they are traced, up to 64 MiB. Arrays that are read-only are not compared.
    """
