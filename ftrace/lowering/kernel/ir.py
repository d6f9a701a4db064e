"""Kernel IR: twelve kinds of frozen values that say what a kernel computes, and nothing else.

A kernel is a nest of `Loop`s over scalars. Iterations of a loop are independent except for its
folds, so no order is promised and a backend may vectorise, block or distribute any loop; a loop
with carried values (`params`) is the exception: it runs in order. How loops run is a `Schedule`
(schedule.py), beside the kernel and never inside it. Sizes, strides, offsets and literals are
run-time operands, so that one compiled kernel serves all sizes.

Rules that no field shows (verify.py checks them): every variable is bound once; coordinates are
`i8` and there are as many as the buffer has steps; `If` and `While` hold no `Loop`; a condition
of a `While` stores nothing; a `Store` names every enclosing loop unless it combines.

Scalar types are NumPy's codes: b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8, and f2 in buffers and casts only
(arithmetic on float16 happens in f4, rounded after every operation). Complex numbers are split:
a complex array is read through real buffers of twice the step. The operations of `Let` are those
of `core/scalar.py`; `reference.py` says what everything means, `show.py` prints it.
"""

from typing import Final, Union

from ftrace.core.records import record

DTYPES: Final = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
STEPS: Final = ("one", "minus", "any")
SPACES: Final = ("in", "out")
FOLDS: Final = ("sum", "prod", "max", "min", "and", "or", "xor", "argmax", "argmin")
PAIRS: Final = ("argmax", "argmin")  # folds of (value, index): the first extreme, or first NaN


@record
class KernelVar:
    """A scalar value bound once: by a statement, a loop or a kernel operand."""

    id: int
    dtype: str

    def __hash__(self) -> int:
        return self.id  # a field by field hash took a tenth of the time to build a kernel


@record(eq=False)
class Lit:
    """A constant that stays in the code: 0, 1, -1, 2, 0.5, and others that shape the code.

    Equal literals make equal code: -0.0 is not 0.0, and NaN is itself.
    """

    value: bool | int | float
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lit) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.value) if self.value == self.value else 0

    def _key(self) -> tuple[str, str]:
        return repr(self.value), self.dtype


Atom = KernelVar | Lit


@record
class Buffer:
    """Memory seen through one index map.

    The element at coordinates `c` lies at `base + sum(c[i] * step[i])`. A step of class `one` is
    1, of class `minus` is -1; the number of an `any` step is a run-time operand (in elements).

    Attributes:
        name: unique in its kernel.
        dtype: element type.
        steps: class of each coordinate's step.
        space: `in` is read only, `out` is written, and read only where it was written before at
            the same coordinates.
    """

    name: str
    dtype: str
    steps: tuple[str, ...]
    space: str


@record
class Block:
    """Statements in order, and the values they leave."""

    stmts: tuple["Stmt", ...]
    results: tuple[Atom, ...] = ()


@record
class Let:
    """`out = op(args)`; for `cast` and `bitcast` the type of `out` says to what."""

    out: KernelVar
    op: str
    args: tuple[Atom, ...]


@record
class Load:
    """`out = buffer[at]`."""

    out: KernelVar
    buffer: str
    at: tuple[Atom, ...]


@record
class Store:
    """`buffer[at] = value`, or with `combine` (a fold's name) `buffer[at] op= value`."""

    buffer: str
    at: tuple[Atom, ...]
    value: Atom
    combine: str | None = None


@record
class Fold:
    """How the values that a loop's iterations leave become one.

    The tree is part of the meaning, so that results do not depend on vector widths. A value is
    converted to `acc`; iteration i goes to accumulator i mod `ways`, which starts at the fold's
    identity; at the end the accumulators are combined pairwise, the upper half onto the lower:
    `a[i] = a[i] op a[i + half]`. Sums and products of floats need this order; for the other folds
    it makes no difference.

    With `near` > 0 neighbours come first everywhere. The iterations are cut into groups of `near`,
    of which the last one is filled up with the identity. A group's values become one, pairwise,
    `v[i] = v[2i] op v[2i + 1]`; group g goes to accumulator g mod `ways`, and the accumulators are
    combined like a group. On a GPU these are the elements of a thread, then the threads of a warp,
    its warps, and blocks.

    With `block` > 0 (sums of floats only) each accumulator is a pair (hi, lo) that starts at
    (0, 0), and the iterations are cut into blocks of `block`. In every block each way has a
    running sum s from 0; at the block's end, the last and ragged one too,
    `(hi, e) = two_sum(hi, s); lo += e`. At the end, pairwise as above (or with 2i and 2i + 1),
    `(hi[i], e) = two_sum(hi[i], hi[i + half]); lo[i] = (lo[i] + lo[i + half]) + e`. The result is
    `hi[0] + lo[0]`, or `hi[0]` where `lo[0]` is not finite (a sum that holds or reaches infinity).
    `two_sum(a, b)` is Knuth's: `s = a + b; t = s - a; e = (a - (s - t)) + (b - t)`.

    The identities are 0, 1, all bits set (`and`), no bits (`or`, `xor`), and for `max` and `min`
    the least and greatest value of the type (of floats -inf and inf). A pair (value, index) over
    no iterations is (identity, 0); otherwise the extreme with the least index, or the NaN with
    the least index if there is one.

    Attributes:
        op: one of FOLDS. `max` and `min` propagate NaN.
        acc: type of the accumulators and of the result (of the value, for pairs).
        ways: accumulators, a power of two.
        block: iterations per block, a multiple of `ways` and `near`; 0 for no blocks.
        near: neighbouring iterations of a group, a power of two; 0 for the upper half onto the
            lower.
    """

    op: str
    acc: str
    ways: int = 1
    block: int = 0
    near: int = 0


@record
class Loop:
    """`for axis < extent: body`.

    The body leaves one value per fold (a pair leaves value and index), then the next values of
    the carried variables. `outs` are the folded values (pairs: value, index), then the last
    carried ones. A fold over no iterations gives the fold's identity.
    """

    outs: tuple[KernelVar, ...]
    axis: KernelVar
    extent: Atom
    body: Block
    folds: tuple[Fold, ...] = ()
    params: tuple[KernelVar, ...] = ()
    inits: tuple[Atom, ...] = ()


@record
class If:
    """Evaluate one of two blocks; `outs` are its results.

    `skips` says that it only leaves out what nothing reads: where `cond` does not hold, the
    elements that its blocks load exist all the same.
    """

    outs: tuple[KernelVar, ...]
    cond: Atom
    then: Block
    orelse: Block
    skips: bool = False


@record
class While:
    """Repeat: `params` start as `inits`; while `cond` leaves true, `body` leaves the next ones."""

    outs: tuple[KernelVar, ...]
    params: tuple[KernelVar, ...]
    inits: tuple[Atom, ...]
    cond: Block
    body: Block


Stmt = Union[Let, Load, Store, Loop, If, While]  # noqa: UP007 - named in Block above


@record
class Kernel:
    """A loop nest over buffers.

    Attributes:
        name: for printing and symbols.
        buffers: what it reads and writes.
        scalars: run-time operands: sizes (i8) and literals.
        body: statements; leaves no values.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[KernelVar, ...]
    body: Block


def blocks_of(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks directly inside a statement."""
    if type(stmt) is Let or type(stmt) is Load:  # nearly all of them
        return ()
    if isinstance(stmt, Loop):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then, stmt.orelse)
    if isinstance(stmt, While):
        return (stmt.cond, stmt.body)
    return ()


def loops_of(block: Block) -> list[Loop]:
    """Every loop of a block, outer ones first."""
    found: list[Loop] = []
    for stmt in block.stmts:
        if isinstance(stmt, Loop):
            found.append(stmt)
        for inner in blocks_of(stmt):
            found.extend(loops_of(inner))
    return found
