"""Functions compiled ahead of their calls: `jit(f).lower(x).compile()` and `prepare(f, x)`.

Neither object ever traces or compiles at a call: what is not of its signature is an error, and so
is a call after something that the trace rests on has changed. `Prepared` also writes results into
arrays of the caller's.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.api.calls import brief, name_of, shortened
from ftrace.api.compiled.devices import check_together
from ftrace.api.compiled.signatures import Signature
from ftrace.control.functions import argument_avals, argument_paths, is_zero_d
from ftrace.control.rows.jit import executable
from ftrace.control.traces import CachedTrace, Traces
from ftrace.core.avals import LIMIT, ShapedArray, check_int
from ftrace.core.config import config
from ftrace.core.device import LIBRARIES, platform
from ftrace.core.errors import (
    BackendError,
    ConcretizationTypeError,
    DeviceError,
    DtypeError,
    FtraceError,
    ShapeError,
    TreeError,
)
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.records import record
from ftrace.core.trace import EVAL, Tracer, ctx
from ftrace.core.tree import LEAF, PyTreeDef, paths, tree_flatten

# without NumPy's protocol, which takes longer than the question
may_share_memory: Final = getattr(np.may_share_memory, "_implementation", np.may_share_memory)
_AGAIN: Final = "Compile it for these arguments, too, or call jit(f), which does so by itself."


@record(eq=False)
class Promise:
    """What a compiled function will be called with.

    Attributes:
        fun: the user's function.
        traces: where its arguments are taken apart.
        entry: its trace.
        leaves, tree: arguments of the signature, without the static ones.
        place: the platform of the arrays.
        skipped: positions of the static arguments.
    """

    fun: Any
    traces: Traces
    entry: CachedTrace
    leaves: Sequence[Any]
    tree: PyTreeDef
    place: str
    skipped: Sequence[int]


class Compiled:
    """A function compiled for one signature: `jit(f).lower(*args).compile()`.

    Attributes:
        in_avals, out_avals: types of its arguments and results, leaf by leaf.
        in_tree, out_tree: the containers of `(args, kwargs)` and of the result.
        lowered: the program that was compiled, to look at.

    Example:
        >>> import numpy as np, ftrace
        >>> f = ftrace.jit(lambda x: np.sin(x) * x).lower(np.ones(2)).compile()
        >>> f(np.array([0.0, 1.0]))
        array([0.        , 0.84147098])
        >>> f.cost_analysis()["bytes accessed"]
        32
    """

    def __init__(self, promise: Promise, lowered: Any) -> None:
        entry = promise.entry
        self._promise = promise
        self._name = name_of(promise.fun)
        if any(isinstance(x, Tracer) for x in entry.captured):
            raise ConcretizationTypeError(
                f"{self._name} reads values of an outer transformation, so that its code is only "
                "for them.",
                "Pass them as arguments, or call jit(f) inside of the transformation.",
            )
        self.lowered = lowered
        jaxpr: Jaxpr = entry.jaxpr
        self._run = executable(jaxpr, promise.place, self._name, lambda: "it was asked to be")
        self._into = getattr(self._run, "into", None)  # where a backend can
        self._consts = tuple(jaxpr.consts)
        self._settings = config.settings
        self.in_avals: tuple[ShapedArray, ...] = tuple(jaxpr.in_avals[len(entry.captured) :])
        self.out_avals: tuple[ShapedArray, ...] = tuple(jaxpr.out_avals)
        self.in_tree, self.out_tree = promise.tree, entry.out_tree
        self._zero_d = [not a.shape and is_zero_d(x) for a, x in self._pairs(promise.leaves)]
        self._captured = tuple(entry.captured)
        self._plain = entry.out_tree == LEAF
        self._last: Signature | None = None

    def _pairs(self, leaves: Sequence[Any]) -> Any:
        return zip(self.in_avals, leaves, strict=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the code; static arguments are left out.

        Raises:
            TreeError, ShapeError, DtypeError, DeviceError: arguments of another signature.
            ConcretizationTypeError: a traced argument.
            BackendError: something that the function read from outside has changed since.
        """
        try:
            outs = self._run(self.operands(args, kwargs))
        except FtraceError as error:
            raise shortened(error)  # noqa: B904 - the same error, with fewer frames
        return outs[0] if self._plain else self.out_tree.unflatten(outs)

    def operands(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """What the code is given: captured values and the leaves of the arguments.

        Raises:
            FtraceError: as `__call__`.
        """
        last = self._last
        if last is not None and not kwargs and ctx.trace is EVAL and last.fits(args):
            return (*self._captured, *args) if self._captured else args
        operands = self._checked(args, kwargs)
        if not kwargs:
            self._last = Signature.of(args, self._promise.entry, self._run, self._settings)
        return operands

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        promise, entry = self._promise, self._promise.entry
        given = promise.traces.apart(args, kwargs)
        if given.tree != self.in_tree or given.tree.order != self.in_tree.order:
            raise TreeError(
                f"{self._name} was compiled for arguments of the structure {self.in_tree}, and "
                f"called with {given.tree}.",
                f"{_AGAIN} Static arguments are left out of the call.",
            )
        avals = argument_avals(promise.fun, given.leaves, given.tree, promise.skipped)
        if tuple(avals) != self.in_avals:
            self._refuse(avals)
        for i, x in enumerate(given.leaves):
            if isinstance(x, Tracer) or ctx.trace is not EVAL:
                raise ConcretizationTypeError(
                    f"{self._name} was compiled for {promise.place} arrays, and called while "
                    f"another transformation traces (argument {self._path(i)}).",
                    "Transform the function itself, or jit(f), and compile the result.",
                )
            if type(x) is int and not -LIMIT <= x <= LIMIT:
                check_int(x, LIMIT, f"The argument {self._path(i)} of {self._name}")
            if not avals[i].shape and is_zero_d(x) != self._zero_d[i]:
                kinds = ("a scalar", "an array of rank 0")
                raise DtypeError(
                    f"The argument {self._path(i)} of {self._name} is "
                    f"{kinds[not self._zero_d[i]]}, and was {kinds[self._zero_d[i]]} before.",
                    _AGAIN,
                )
        operands = [*entry.captured, *given.leaves]
        if LIBRARIES:
            check_together(promise.fun, (args, kwargs), entry.captured, promise.skipped)
        if given.leaves and platform(operands) != promise.place:
            raise DeviceError(
                f"{self._name} was compiled for {promise.place} arrays, and called with "
                f"{platform(operands)} arrays.",
                _AGAIN,
            )
        if entry.guard is not None and not entry.guard():
            raise BackendError(
                f"Something that {self._name} reads from outside has changed since it was "
                "compiled.",
                "Lower and compile it again, or call jit(f), which does so by itself.",
            )
        return operands

    def _path(self, i: int) -> str:
        promise = self._promise
        return argument_paths(promise.fun, self.in_tree, promise.skipped)[i]

    def _refuse(self, avals: Sequence[ShapedArray]) -> None:
        for i, (planned, given) in enumerate(zip(self.in_avals, avals, strict=True)):
            if planned != given:
                kind = ShapeError if planned.shape != given.shape else DtypeError
                raise kind(
                    f"{self._name} was compiled for an argument {self._path(i)} of type "
                    f"{planned}, and called with {given}.",
                    _AGAIN,
                )

    def write(self, operands: Sequence[Any], out: Sequence[Any]) -> None:
        """Run the code, and put its results into arrays of their types.

        Args:
            operands: what `operands` gave.
            out: an array for each result.
        """
        into = self._into
        if into is not None and _is_apart(out, (*operands, *self._consts)):
            into(operands, out)
            return
        for array, result in zip(out, self._run(operands), strict=True):
            array[...] = result

    def as_text(self) -> str:
        """Machine code as text; on a GPU registers and stack, too."""
        return self.lowered.asm

    def cost_analysis(self) -> dict[str, int]:
        """Counts of the program, by JAX's names where it has one (see `Lowered.cost`)."""
        return self.lowered.cost_analysis()

    def __repr__(self) -> str:
        types = ", ".join(map(str, self.in_avals))
        return f"<{self._name} compiled for ({types})>"


class Prepared:
    """A compiled function that may write into arrays of the caller's: `prepare(f, *avals)`.

    Attributes:
        compiled: the compiled function.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Run the code.

        Args:
            args: arguments of the signature, without static ones.
            out: arrays, in the containers of the result, that are written; they are what is
                returned. None: new ones.

        Raises:
            FtraceError: as `Compiled`; arrays of `out` that do not fit.
        """
        compiled = self.compiled
        if out is None:
            return compiled(*args)
        try:
            compiled.write(compiled.operands(args, {}), self._fitting(out))
        except FtraceError as error:
            raise shortened(error)  # noqa: B904 - the same error, with fewer frames
        return out

    def empty(self) -> Any:
        """Uninitialised arrays that `out` may be, on the CPU: rank 0 for numbers, too."""
        compiled = self.compiled
        return compiled.out_tree.unflatten([np.empty(a.shape, a.dtype) for a in compiled.out_avals])

    def _fitting(self, out: Any) -> list[Any]:
        """The arrays of `out`, which have the types of the results and may be written."""
        compiled = self.compiled
        tree = compiled.out_tree
        leaves, given = ([out], LEAF) if type(out) is np.ndarray else tree_flatten(out)
        if given is not tree and given != tree:
            raise TreeError(
                f"`out` has the structure {given}, and the result has {tree}.",
                "Give an array for each array of the result: `empty()` makes them.",
            )
        for i, (array, a) in enumerate(zip(leaves, compiled.out_avals, strict=True)):
            if _is_plain(array, a):
                continue
            if type(array) is not np.ndarray and type(array) not in LIBRARIES:
                raise DtypeError(
                    f"{paths(tree, 'out')[i]} is {brief(array)}, which is no array.",
                    "Give arrays that can be written: `empty()` makes them.",
                )
            if array.dtype != a.dtype or array.shape != a.shape:
                kind = ShapeError if array.shape != a.shape else DtypeError
                raise kind(
                    f"{paths(tree, 'out')[i]} is {array.dtype} of shape {array.shape}, and the "
                    f"result {a.dtype} of shape {a.shape}.",
                    "Give arrays of the result's types: `empty()` makes them.",
                )
            if type(array) is np.ndarray and not array.flags.writeable:
                raise DtypeError(
                    f"{paths(tree, 'out')[i]} is read-only.", "Give an array that can be written."
                )
        return leaves

    def __repr__(self) -> str:
        return repr(self.compiled).replace("compiled", "prepared", 1)


def _is_plain(x: Any, a: ShapedArray) -> bool:
    """Whether machine code may write a result of this type there."""
    return type(x) is np.ndarray and x.dtype is a.dtype and x.shape == a.shape and x.flags.carray


def _is_apart(out: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether machine code may write results at once: plain arrays in memory of their own."""
    for i, x in enumerate(out):
        if type(x) is not np.ndarray or not x.flags.carray or not x.dtype.isnative:
            return False
        for other in (*others, *out[:i]):
            if issubclass(type(other), np.ndarray) and may_share_memory(x, other):
                return False
    return True
