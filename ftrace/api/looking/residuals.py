"""What the backward pass keeps: `saved_residuals` and `print_saved_residuals`.

The function is linearized once, exactly as `vjp` does it, over a trace that notes which row made
which array (`interpreters/noting.py`); the arrays among the literals of the recorded linear
program are the residuals, and the numbers that depend on arguments. Their bytes are those of the
memory they hold, counted once; of numbers, those of their dtype.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.api.calls import check_callable, name_of
from ftrace.control.functions import FlatFunction, argument_avals, argument_paths, flatten_call
from ftrace.control.remat.budgets import Budget
from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.avals import typeof
from ftrace.core.device import is_array
from ftrace.core.errors import ConcretizationTypeError
from ftrace.core.jaxpr import Eqn, Literal
from ftrace.core.kinds import loses
from ftrace.core.trace import Tracer
from ftrace.interpreters.captures import owner
from ftrace.interpreters.jvp import JVPTracer
from ftrace.interpreters.linearize import Tape, linearize_flat
from ftrace.interpreters.noting import UNNAMED, Note, NotingTrace, is_number, own
from ftrace.interpreters.quiet import quietly


@dataclass(frozen=True, slots=True)
class Residual:
    """One array or number that is kept between the forward and the backward pass.

    Attributes:
        kind: "argument", "captured" (an array of the user that is no argument), "named" (by
            `checkpoint_name`) or "intermediate".
        name: the argument's path, the given name, the primitive that computed it, or the variable
            by which the function captures it (where it has none itself, "captured array").
        shape, dtype: of the array.
        bytes: of the memory it holds; 0 where an earlier residual holds the same memory.
        place: the user's `file:line: code` that computed (or, for a captured array, first read)
            it; empty for an argument.
        why: what reads it in the backward pass.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bytes: int
    place: str
    why: str

    def __str__(self) -> str:
        what = {
            "argument": f"argument {self.name}",
            "captured": UNNAMED if self.name == UNNAMED else f"{UNNAMED} {self.name}",
            "named": f"value named {self.name!r}",
        }.get(self.kind, f"result of {self.name}")
        at = f", at {self.place}" if self.place else ""
        shape = ",".join(map(str, self.shape))
        return f"{self.bytes:>12,} bytes: {self.dtype}[{shape}] {what}{at}; {self.why}"


class SavedResiduals(tuple[Residual, ...]):
    """The residuals of a function, in the order in which the backward pass reads them last.

    Prints as a table. `bytes` is the memory that all of them hold together.
    """

    __slots__ = ()

    @property
    def bytes(self) -> int:
        """The memory that the residuals hold."""
        return sum(r.bytes for r in self)

    def __repr__(self) -> str:
        lines, plural = [str(r) for r in self], "" if len(self) == 1 else "s"
        return "\n".join([*lines, f"{self.bytes:>12,} bytes in {len(self)} residual{plural}"])


def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> SavedResiduals:
    """List the arrays that `vjp(fun, *args)` keeps for its backward pass.

    Args:
        fun: function of arrays, or containers of arrays. It is run once.
        *args, **kwargs: its arguments, with their values.

    Returns:
        A tuple of records (name, shape, dtype, bytes, the user's line, and why it is kept) whose
        `bytes` is the memory held between the two passes. A number counts as its dtype does, if it
        is an argument or was computed; constants of the program are not counted. Arrays of the user
        count where `vjp` keeps a copy of them or keeps them alive.

    Raises:
        ConcretizationTypeError: an argument is a traced value.

    Example:
        >>> import numpy as np, ftrace
        >>> found = ftrace.saved_residuals(lambda x: np.sum(np.sin(x) ** 2), np.ones(100))
        >>> [(r.name, r.bytes) for r in found], found.bytes
        ([('cos', 800), ('mul', 800)], 1600)
    """
    check_callable(fun, "saved_residuals")
    leaves, tree = flatten_call(args, kwargs)
    argument_avals(fun, leaves, tree)
    paths = argument_paths(fun, tree)
    leaves = [own(x) for x in leaves]
    for x, path in zip(leaves, paths, strict=True):
        if isinstance(x, Tracer):
            raise ConcretizationTypeError(
                f"saved_residuals runs {name_of(fun)}, and its argument {path} is a traced value.",
                "Call it outside transformations, on arrays.",
            )
    flat = FlatFunction(fun, tree)
    trace = NotingTrace(_captured(fun))

    def noted(*inputs: JVPTracer) -> Any:
        for x, given, path in zip(inputs, leaves, paths, strict=True):
            for value in (x.primal, given):
                if is_array(value) or is_number(value):
                    trace.enter(value, Note("argument", path))
        return flat(*inputs)

    def linearized() -> Tape:
        return linearize_flat(noted, leaves, outlives=True)[1]

    with quietly():
        tape = core.run(trace, linearized)
    trace.alive = False
    return _records(tape, trace)


def _captured(fun: Any) -> dict[int, str]:
    """The variables by which a function captures arrays, by the arrays."""
    fun = inspect.unwrap(fun)
    try:
        found = inspect.getclosurevars(fun)
    except (TypeError, ValueError):  # no Python function, or a cell of its closure is empty
        return {}
    names = {**found.globals, **found.nonlocals}
    return {id(x): name for name, x in names.items() if is_array(x)}


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the arrays that `vjp(fun, *args)` keeps for its backward pass, and their total.

    Args:
        fun: function of arrays, or containers of arrays. It is run once.
        *args, **kwargs: its arguments, with their values.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.print_saved_residuals(lambda x: np.sum(x**2), np.ones(100))
             800 bytes: float64[100] result of mul, at ...; read by mul
             800 bytes in 1 residual
    """
    print(repr(saved_residuals(fun, *args, **kwargs)))


def _records(tape: Tape, trace: NotingTrace) -> SavedResiduals:
    values: dict[int, Any] = {}
    readers: dict[int, dict[str, None]] = {}
    for eqn in tape.eqns:
        for a in eqn.invars:
            if type(a) is Literal and (is_array(a.value) or trace.find(a.value) is not None):
                values[id(a.value)] = a.value
                readers.setdefault(id(a.value), {})[_reader(eqn, a.value, trace)] = None
    held: set[int] = set()
    found: list[Residual] = []
    for key, value in values.items():
        a = typeof(value)
        root = owner(value) if is_array(value) else value
        size = root.nbytes if is_array(value) else a.dtype.itemsize
        note = trace.origin(value) or Note("intermediate", "unknown")
        found.append(
            Residual(
                note.kind,
                note.name,
                a.shape,
                a.dtype,
                0 if id(root) in held else size,
                source.describe(note.place),
                ", ".join(readers[key]),
            )
        )
        held.add(id(root))
    return SavedResiduals(found)


def _reader(eqn: Eqn, array: Any, trace: NotingTrace) -> str:
    """Why a linear equation keeps an array."""
    if loses(eqn) != "memory":
        return f"read by {eqn.primitive.name}"
    policy = eqn.params.get("policy")
    note = trace.find(array)
    if policy is None or note is None or note.kind in ("argument", "captured"):
        return "read by checkpoint"
    if isinstance(policy, Budget):
        return f"read by checkpoint with a budget of {policy.nbytes:,} bytes"
    return f"read by checkpoint with policy {name_of(policy)}"
