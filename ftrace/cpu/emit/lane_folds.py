"""Folds in registers: the trees of `ir.Fold`, and the fold's part of a combining store.

The state of a fold is a list of values ("cells"): one accumulator; for floats' max and min also
the last NaN met, which keeps the comparison off the critical path; for a sum in blocks the
block's sum, and the high and low part of all blocks before it; for a pair the value and its
index. Each cell holds `ways` accumulators as one vector, or one accumulator per lane where the
loop runs inside lanes. Where the index of a pair is the loop's own (it *counts*), iterations come
in the order of their indices, so that only what is more extreme is taken; such a pair starts as
(identity, 0), which is right where nothing is taken: then the first element is the identity.
lowering/kernel/fold_trees.py is the same in NumPy.
"""

from collections.abc import Callable, Sequence

from ftrace.cpu.llvm.casts import cast
from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.llvm.vector_idioms import both, invert, part
from ftrace.cpu.mathematics.llvm_spelling import compare, extreme_of, spell
from ftrace.cpu.mathematics.pieces import two_sum
from ftrace.lowering.kernel.fold_trees import identity
from ftrace.lowering.kernel.ir import PAIRS, Fold, Loop

_SPELLED = {"sum": "add", "prod": "mul"}
State = list[Typed]


def combine_values(text: Text, op: str, a: Typed, b: Typed) -> Typed:
    """One step of a fold that is an operation: a op b."""
    return spell(text, _SPELLED.get(op, op), (a, b), a.dtype)


def _tracks_nan(fold: Fold) -> bool:
    return fold.acc[0] == "f" and fold.op in ("max", "min")


def width(fold: Fold) -> int:
    """How many of a loop's results belong to a fold."""
    return 2 if fold.op in PAIRS else 1


def counting(stmt: Loop) -> list[bool]:
    """Per fold of a loop, whether it is a pair whose index is the number of the iteration."""
    found, first = list[bool](), 0
    for fold in stmt.folds:
        first += width(fold)
        found.append(fold.op in PAIRS and stmt.body.results[first - 1] == stmt.axis)
    return found


def start(text: Text, fold: Fold, index: str, lanes: int, counts: bool) -> State:
    """The state before the first iteration; `index` is the type of a pair's index."""
    first = text.const(identity(fold.op, fold.acc), fold.acc, lanes)
    if fold.block:
        return [first, first, first]
    if fold.op in PAIRS:
        return [first, text.const(0 if counts else _last(index), index, lanes)]
    return [first, text.const(0.0, fold.acc, lanes)] if _tracks_nan(fold) else [first]


def _last(index: str) -> int:
    bits = 8 * int(index[1:])
    return 2 ** (bits - 1) - 1 if index[0] == "i" else 2**bits - 1


def step(
    text: Text,
    fold: Fold,
    state: State,
    values: Sequence[Typed],
    mask: Typed | None,
    counts: bool,
) -> State:
    """Take in one value per accumulator; those masked off stay."""
    value = cast(text, values[0], fold.acc)
    acc = state[0]
    if fold.op in PAIRS:
        given, before = (value, values[1]), (acc, state[1])
        wins = _better(text, fold, value, acc) if counts else _wins(text, fold, given, before)
        take = both(text, wins, mask)
        assert take is not None
        return [text.select(take, a, b) for a, b in zip(given, state, strict=True)]
    if _tracks_nan(fold):
        nan = both(text, text.compare("uno", value, value), mask)
        assert nan is not None
        best = extreme_of(text, fold.op, acc, value)
        return [_kept(text, mask, best, acc), text.select(nan, value, state[1])]
    return [_kept(text, mask, combine_values(text, fold.op, acc, value), acc), *state[1:]]


def _kept(text: Text, mask: Typed | None, new: Typed, old: Typed) -> Typed:
    return new if mask is None else spell(text, "select", (mask, new, old), new.dtype)


def _better(text: Text, fold: Fold, a: Typed, b: Typed) -> Typed:
    """Whether a value is more extreme than another: NaN is more so than all but NaN."""
    op = "gt" if fold.op == "argmax" else "lt"
    if a.dtype[0] != "f":
        return compare(text, op, a, b)
    return text.op("and", text.compare("u" + op, a, b), text.compare("ord", b, b))


def _wins(text: Text, fold: Fold, a: Sequence[Typed], b: Sequence[Typed]) -> Typed:
    """Whether pair a comes before pair b: more extreme, or equal and of a lower index."""
    better = compare(text, "gt" if fold.op == "argmax" else "lt", a[0], b[0])
    same = compare(text, "eq", a[0], b[0])
    if fold.acc[0] == "f":
        nan_a = text.compare("uno", a[0], a[0])
        nan_b = text.compare("uno", b[0], b[0])
        better = text.op("or", better, text.op("and", nan_a, invert(text, nan_b)))
        same = text.op("or", same, text.op("and", nan_a, nan_b))
    return text.op("or", better, text.op("and", same, compare(text, "lt", a[1], b[1])))


def flush(text: Text, state: State) -> State:
    """End a block: its sum moves to the high and low parts."""
    total, high, low = state
    high, error = two_sum(text, high, total)
    return [text.like(total, 0.0), high, text.add(low, error)]


def join(text: Text, fold: Fold, a: State, b: State) -> State:
    """Two accumulators become one; `a` holds the lower ways."""
    if fold.block:
        high, error = two_sum(text, a[1], b[1])
        return [a[0], high, text.add(text.add(a[2], b[2]), error)]
    if fold.op in PAIRS:
        take = _wins(text, fold, b, a)
        return [text.select(take, y, x) for x, y in zip(a, b, strict=True)]
    if _tracks_nan(fold):
        nan = text.select(text.compare("uno", a[1], a[1]), a[1], b[1])
        return [extreme_of(text, fold.op, a[0], b[0]), nan]
    return [combine_values(text, fold.op, a[0], b[0])]


def follow(text: Text, fold: Fold, a: State, b: State) -> State:
    """The state after iterations that left `b` alone, behind those that left `a`.

    As `step` does it: of values that are equal, and of NaNs, the later one stays.
    """
    if _tracks_nan(fold):
        later = text.compare("uno", b[1], b[1])
        return [extreme_of(text, fold.op, a[0], b[0]), text.select(later, b[1], a[1])]
    return join(text, fold, a, b)


def fold_lanes(text: Text, fold: Fold, state: State) -> State:
    """One accumulator from a vector of them: the upper half onto the lower, repeatedly."""
    count = state[0].lanes
    if fold.op in PAIRS and count > 1:
        return _least_extreme(text, fold, *state)
    while count > 1:
        count //= 2
        lower = [part(text, cell, 0, count) for cell in state]
        upper = [part(text, cell, count, count) for cell in state]
        state = join(text, fold, lower, upper)
    return state


def _least_extreme(text: Text, fold: Fold, value: Typed, index: Typed) -> State:
    """One pair from a vector of them: the extreme first, then the least index that it has.

    As by `join`, in fewer instructions. Pairs of one index are one pair.
    """
    lanes, op = value.lanes, "max" if fold.op == "argmax" else "min"
    best = text.splat(_halved(text, lambda a, b: extreme_of(text, op, a, b), value), lanes)
    found = compare(text, "eq", value, best)
    if value.dtype[0] == "f":
        nan = text.compare("uno", value, value)
        some = text.splat(text.any(nan), lanes)
        found = text.op("or", text.op("and", some, nan), text.op("and", invert(text, some), found))
    last = text.like(index, _last(index.dtype))
    places = text.select(found, index, last)
    least = _halved(text, lambda a, b: combine_values(text, "min", a, b), places)
    here = text.op("and", found, compare(text, "eq", index, text.splat(least, lanes)))
    bits = value
    if value.dtype[0] == "f":
        bits = text.convert("bitcast", value, f"i{value.dtype[1:]}")
    chosen = text.select(here, bits, text.like(bits, 0))
    one = _halved(text, lambda a, b: text.op("or", a, b), chosen)
    return [text.convert("bitcast", one, value.dtype) if bits is not value else one, least]


def _halved(text: Text, join: Callable[[Typed, Typed], Typed], vector: Typed) -> Typed:
    """The lanes of a vector as one: the upper half onto the lower, repeatedly."""
    while vector.lanes > 1:
        half = vector.lanes // 2
        vector = join(part(text, vector, 0, half), part(text, vector, half, half))
    return vector


def fold_list(text: Text, fold: Fold, states: Sequence[State]) -> State:
    """The same for accumulators that are apart."""
    while len(states) > 1:
        half = len(states) // 2
        pairs = zip(states[:half], states[half:], strict=True)
        states = [join(text, fold, a, b) for a, b in pairs]
    return states[0]


def finish(text: Text, fold: Fold, state: State) -> list[Typed]:
    """What the loop leaves."""
    if fold.block:
        _, high, low = state
        finite = text.compare("olt", text.fabs(low), text.like(low, float("inf")))
        return [text.select(finite, text.add(high, low), high)]
    if fold.op in PAIRS:
        value, index = state
        none = text.compare("eq", index, text.like(index, _last(index.dtype)))
        return [value, text.select(none, text.like(index, 0), index)]
    if _tracks_nan(fold):
        return [text.select(text.compare("uno", state[1], state[1]), state[1], state[0])]
    return state
