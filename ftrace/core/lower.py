"""Kinds: the closed set of ways to compute a primitive, which its `lower` column names.

A compiler asks what an equation's primitive *does*, never what it is called (core/kinds.py). Kinds
are data: rules that core only stores, and lowering runs. A primitive of several ways lists them
best first; behind the last one stands its `impl`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ftrace.core.records import record
from ftrace.core.scalar import ANY, OPS

Rule = Callable[..., Any]


def _always(operands: Any, result: Any) -> bool:
    return True


@record
class Pointwise:
    """An element of the result depends on the operands' elements at the same place.

    Attributes:
        rule: the name of a `ScalarOp` (operands are brought to their common type), or a function
            `(builder, out aval, *values, **params) -> value`.
        kinds: dtype kinds of operands for which a function is written; an op knows its own. With
            "c" it takes complex operands too, as their parts.
        when: (operand avals, result aval) -> whether kernels can do this case of the row.
        loop: what computes it where kernels cannot.
    """

    rule: str | Rule
    kinds: str = ANY
    when: Callable[[Any, Any], bool] = _always
    loop: "Gufunc | None" = None

    def accepts(self, dtypes: Sequence[np.dtype[Any]]) -> bool:
        """Whether real operands of these dtypes can be lowered."""
        kinds = OPS[self.rule].kinds if isinstance(self.rule, str) else self.kinds
        return all(d.kind in kinds for d in dtypes)


@record
class Moving:
    """An element of the result is one of the operands' elements, from another place.

    Attributes:
        rule: `(builder, index, out aval, *operands, **params) -> value`, where an operand gives
            its element with `x.at(index)`; a row of several results also gets `position`.
        reads: where. "axes": coordinates are coordinates of the result, or 0; "shifted": affine in
            them; "computed": by scalar operands; "choice": of an operand, by a coordinate.
        when: (operand avals, result aval) -> whether kernels can do this case of the row.
        memory: whether row-major memory stays as it is; with "choice", that of the operands, one
            behind the other.
        joins: params -> the axis along which operands are put one behind the other, so that
            neighbours may be put together first, by the same row.
        part: params -> (starts, sizes) of the part of operand 0, without gaps, that the result is
            ("shifted") or that operand 1 replaces ("choice"); None where there is none.
    """

    rule: Rule
    reads: Literal["axes", "shifted", "computed", "choice"]
    when: Callable[[Any, Any], bool] = _always
    memory: bool = False
    joins: Rule | None = None
    part: Rule | None = None


@record
class Elementwise:
    """Elements of all results come from the operands' elements at the same place, by a jaxpr.

    Attributes:
        jaxpr: (operand avals, **params) -> a jaxpr over rank-0 values; None where this is not the
            case. An operand of rank 0 is the same for all elements.
        stored: whether results are stored, as what reads them would compute all again.
    """

    jaxpr: Rule
    stored: bool = False


@record
class Reduction:
    """An element of the result is a fold of elements along `axes` (or `axis`).

    Attributes:
        fold: the name of a fold of kernel IR.
        kinds: dtype kinds that can be lowered.
    """

    fold: str
    kinds: str = ANY


@record
class Cumulative:
    """An element of the result joins the elements along `axis` up to its own, in their order.

    The row's params are `axis` and `reverse`: from the end.

    Attributes:
        rule: the name of a `ScalarOp` that joins the result before with an element, or a function
            `(builder, out aval, state, value) -> (result, next state)`, where a state is a list
            of real scalars (of float16: float32).
        start: dtype -> the state before the first element; for an operation on complex numbers,
            of each part.
        kinds: dtype kinds that kernels can do.
        prefixes: what joins elements where all that the row does is to join them, from nothing:
            the name of the operation, for machines with code of their own for prefixes.
    """

    rule: str | Rule
    start: Callable[[np.dtype[Any]], tuple[Any, ...]]
    kinds: str = ANY
    prefixes: str = ""


@record
class Product:
    """Sums of products of two operands.

    Attributes:
        dims: params -> ((contracted, contracted), (batch, batch)) axes.
        loop: what computes those that BLAS and kernels do not.
    """

    dims: Rule
    loop: "Gufunc | None" = None


class Cores(NamedTuple):
    """An array as a gufunc takes it: the axes that one iteration of its loop works on.

    Attributes:
        at: its position, among the row's operands or results.
        axes: its core axes, in the order of the signature, None for one that the array lacks; its
            other axes are those of the batch.
        into: the result whose memory the gufunc works on in the operand's place, after a copy,
            where it overwrites what it is given.
        dtype: in which it is given, if that is another one; of an operand that is a literal.
    """

    at: int
    axes: tuple[int | None, ...] = ()
    into: int | None = None
    dtype: np.dtype[Any] | None = None

    def of_rank(self, ndim: int) -> tuple[int, ...]:
        """The core axes that an array of so many axes has, counted from the first."""
        return tuple(a % ndim for a in self.axes if a is not None)


class GufuncCall(NamedTuple):
    """How a gufunc computes the results of a row.

    Attributes:
        module, name: where it is, e.g. `numpy.fft._pocketfft_umath` and `fft`.
        signature: its signature, by any names of core axes.
        inputs: what it is given: operands, and numbers of NumPy that it takes besides.
        outputs: the results in its order; a type for one that nobody wants.
        fails: whether the floating-point flag "invalid" behind it means that it failed. Then the
            row is evaluated by its `impl`, which says so.
        operations: how many there are, for a loop that has threads share them by itself: it is
            given the number of threads in the place of its data.
    """

    module: str
    name: str
    signature: str
    inputs: tuple[Cores | np.generic, ...]
    outputs: tuple[Any, ...]
    fails: bool = False
    operations: int = 0


@record
class Gufunc:
    """A compiled loop of NumPy's computes the results: that of a gufunc, or of a ufunc.

    Attributes:
        call: (operand avals, **params) -> `GufuncCall`; None where `impl` does something else.
    """

    call: Rule


def elementwise_call(
    module: str, name: str, given: Sequence[np.dtype[Any] | None], outputs: Sequence[Any]
) -> GufuncCall:
    """How a ufunc computes the results of a row.

    Args:
        module, name: where it is.
        given: for each operand the dtype in which it is given, if that is another one.
        outputs: the position of a result for each of its outputs, or the type of an unwanted one.
    """
    signature = f"{','.join(['()'] * len(given))}->{','.join(['()'] * len(outputs))}"
    inputs = tuple(Cores(k, dtype=d) for k, d in enumerate(given))
    made = tuple(Cores(x) if type(x) is int else x for x in outputs)
    return GufuncCall(module, name, signature, inputs, made)


@record
class Call:
    """The row is a name for the equations of a jaxpr of the same operands.

    Attributes:
        jaxpr: (operand avals, **params) -> the jaxpr; None where there is none yet.
        loses: what is lost with the name: "nothing"; "memory": what the derivative stores is
            another choice; "rule": the derivative is another one.
    """

    jaxpr: Rule
    loses: Literal["nothing", "memory", "rule"] = "nothing"


@record
class Expansion:
    """Other rows compute it, and are put in its place once no derivative will be asked for.

    Attributes:
        rule: `(*operands, **params) -> result`, by calls of these rows; None where they do not.
    """

    rule: Rule


@record
class Scattering:
    """The result is operand 0, changed at computed places, one update after the other.

    Operand 1 holds the updates, operand 2, an int64 for each, their places in the leading axes of
    operand 0, counted in row-major order; a place that there is not is left out.

    Attributes:
        combine: params -> "set", "add", "mul", "min" or "max": what an update does.
    """

    combine: Rule


@record
class Solving:
    """The result solves systems: operand 0 holds their matrices, operand 1 right-hand sides.

    It is another way to compute what the row has a way for, where several rows have one matrix.

    Attributes:
        factors: the row whose results are the factors of the matrices.
        solution: the row of the factors and right-hand sides; its parameter `transposed` says
            whether the matrices are meant transposed.
        leads: whether the program itself asks for this solution, which then has the factors of its
            own matrix; if not, those of the transposed matrix do.
    """

    factors: Any
    solution: Any
    leads: bool


@record
class Refusal:
    """Nothing: the row's `impl` raises an error, and is only called where operand 0 holds.

    Operand 0 is a boolean of rank 0.
    """


@record
class Branch:
    """Operand 0, clamped, says which of some jaxprs the other operands go through.

    Attributes:
        jaxprs: params -> the jaxprs.
    """

    jaxprs: Rule


class Layout(NamedTuple):
    """What a loop does, and what its operands and results are.

    The operands are the length where `first` is 1, constants, what is carried, and arrays with an
    element for each iteration; the results are what is carried, the number of iterations where
    `records`, and an array (or a tape) of what the iterations leave.

    Attributes:
        body: (constants, carried, elements) -> (carried, what it leaves).
        cond: (constants, carried) -> whether to go on; None: it is counted.
        n_consts, n_carry: how many operands there are of these kinds.
        length: the number of iterations, where it is known.
        first: 1 if operand 0 is the number of iterations, else 0.
        reverse: whether the last element comes first.
        records: whether a loop with a condition leaves tapes and counts its iterations.
        along: for each array with elements (first, step): the element of number 0, and how many
            further that of the next one lies; None: each in its turn.
    """

    body: Any
    cond: Any
    n_consts: int
    n_carry: int
    length: int | None = None
    first: int = 0
    reverse: bool = False
    records: bool = False
    along: tuple[tuple[int, int], ...] | None = None

    def consts(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The entries of the constants in a list with one for each operand."""
        return operands[self.first : self.first + self.n_consts]

    def carry(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The entries of what is carried in a list with one for each operand."""
        start = self.first + self.n_consts
        return operands[start : start + self.n_carry]

    def xs(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The entries of what has an element for each iteration."""
        return operands[self.first + self.n_consts + self.n_carry :]


@record
class Iteration:
    """A body again and again on what it carries.

    Attributes:
        layout: (number of operands, **params) -> `Layout`.
    """

    layout: Rule


@record
class Replay:
    """A counted loop run backwards, with few of its states kept: by a schedule.

    Attributes:
        halves: params -> what it runs (`core/scan_layout.py`), and the jaxprs of one iteration
            forwards and one backwards.
    """

    halves: Rule


Kind = (
    Pointwise
    | Moving
    | Elementwise
    | Reduction
    | Cumulative
    | Product
    | Gufunc
    | Call
    | Expansion
    | Scattering
    | Solving
    | Refusal
    | Branch
    | Iteration
    | Replay
)
Ways = tuple[Kind, ...]
NO_WAYS: Final[Ways] = ()


def ways_of(lower: Any) -> Ways:
    """A `lower` column as a tuple of ways."""
    if lower is None:
        return NO_WAYS
    return lower if isinstance(lower, tuple) else (lower,)
