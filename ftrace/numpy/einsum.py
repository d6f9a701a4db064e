"""`einsum`: sums of products in index notation, pair by pair through `dot_general`.

An operand is a pair of an array and its labels. A label that occurs twice in one operand takes a
diagonal, one that nothing else needs is summed at once, an axis of size 1 where the label is
longer is dropped. Pairs follow `numpy.einsum_path`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import canonical
from ftrace.core.errors import ShapeError
from ftrace.numpy import ufuncs, views
from ftrace.numpy.promote import cast, common_dtype, numpy_function, strong, value
from ftrace.numpy.shaping import diagonal
from ftrace.primitives.dot import dot_general
from ftrace.primitives.elementwise import mul, select
from ftrace.primitives.linear import broadcast_in_dim, reduce_sum, transpose
from ftrace.primitives.shape import squeeze

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
Labelled = tuple[Any, str]


@numpy_function
def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: str = "K",
    casting: Any = "safe",
) -> Any:
    """A sum of products in index notation, as `einsum("ij,jk->ik", a, b)`."""
    subscripts, arrays = _arguments(operands)
    shapes = [typeof(x).shape for x in arrays]
    inputs, output = _parse(subscripts, [len(s) for s in shapes])
    _check_sizes(inputs, shapes)
    target = common_dtype(*arrays) if dtype is None else canonical(dtype)
    for i, x in enumerate(arrays):
        if not np.can_cast(typeof(x).dtype, target, casting):
            raise TypeError(
                f"einsum: operand {i} is {typeof(x)}, which {casting!r} forbids to cast"
            )
    if len(arrays) == 1 and out is None and set(inputs[0]) == set(output):
        step = _rearranging(shapes[0], inputs[0], output)
        x = cast(arrays[0], target)
        return views.stepped(x, step.get(x), step) if x is arrays[0] else step.get(x)
    terms = [(cast(x, target), labels) for x, labels in zip(arrays, inputs, strict=True)]
    terms = _without_ones(terms)
    for pair in _path(inputs, output, shapes):
        first, second = (terms[i] for i in pair)
        terms = [t for i, t in enumerate(terms) if i not in pair]
        needed = set(output).union(*(labels for _, labels in terms))
        terms.append(_product(first, second, needed))
    found, labels = _single(*terms[0], set(output))
    found = _ordered(found, labels, output)
    return ufuncs.finish(np.matmul, found, out)


@lru_cache(maxsize=256)
def _rearranging(shape: tuple[int, ...], labels: str, output: str) -> views.Rows:
    """Axes permuted and diagonals taken, which in NumPy gives a view."""
    axes = [labels.index(c) for c in output]
    inverse = tuple(np.argsort(axes).tolist())
    places = np.indices(shape, sparse=True)
    chosen: Any = np.True_
    for place, c in zip(places, labels, strict=True):
        chosen = chosen & (place == places[labels.index(c)])

    def get(x: Any) -> Any:
        found, left = _single(x, labels, set(output))
        return _ordered(found, left, output)

    def put(x: Any, v: Any) -> Any:
        wide = transpose(v, permutation=inverse)
        dims = tuple(sorted(axes))
        wide = broadcast_in_dim(wide, shape=shape, broadcast_dimensions=dims)
        return select(np.broadcast_to(chosen, shape), wide, x)

    return views.Rows(get, put)


def _arguments(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Subscripts and arrays from either of einsum's two forms."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [strong(value(x)) for x in operands[1:]]
    arrays = [strong(value(x)) for x in operands[0 : len(operands) // 2 * 2 : 2]]
    lists = list(operands[1 : len(operands) // 2 * 2 : 2])
    if len(operands) % 2:
        lists.append(operands[-1])
    texts = ["".join("..." if k is Ellipsis else LETTERS[k] for k in each) for each in lists]
    if len(operands) % 2:
        return ",".join(texts[:-1]) + "->" + texts[-1], arrays
    return ",".join(texts), arrays


def _parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Labels of each operand and of the result; `...` written out in unused letters."""
    left, arrow, right = subscripts.partition("->")
    inputs = left.split(",")
    odd = set(f"{left.replace(',', '')}{right}".replace("...", "")) - set(LETTERS)
    if odd:
        raise ValueError(
            f"invalid subscript {min(odd)!r} in einstein sum subscripts string, subscripts must be "
            "letters"
        )
    if len(inputs) != len(ranks):
        raise ValueError(
            f"einsum {subscripts!r} names {len(inputs)} operands, but {len(ranks)} were given"
        )
    unused = [c for c in LETTERS if c not in subscripts]
    extra = [
        r - len(t.replace("...", "")) if "..." in t else 0
        for t, r in zip(inputs, ranks, strict=True)
    ]
    hidden = "".join(unused[: max(extra)])
    for i, text in enumerate(inputs):
        inputs[i] = text.replace("...", hidden[len(hidden) - extra[i] :])
        if len(inputs[i]) != ranks[i]:
            raise ShapeError(
                f"einsum {subscripts!r}: operand {i} has {ranks[i]} axes, its subscripts "
                f"{text!r} name {len(inputs[i])}.",
                "Name every axis once, or use `...` for the leading ones.",
            )
    if arrow:
        if hidden and "..." not in right:
            raise ValueError(
                "output has more dimensions than subscripts given in einstein sum, but no '...' "
                "ellipsis provided to broadcast the extra dimensions over."
            )
        return inputs, right.replace("...", hidden)
    every = "".join(inputs)
    once = sorted(c for c in set(every) if every.count(c) == 1 and c not in hidden)
    return inputs, hidden + "".join(once)


def _check_sizes(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> None:
    sizes: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, n in zip(labels, shape, strict=True):
            known = sizes.get(label, 1)
            if n != 1 and known not in (1, n):
                raise ShapeError(
                    f"einsum: label {label!r} has size {known} in one place and {n} in another.",
                    "Axes with one label must have equal sizes, or 1.",
                )
            sizes[label] = max(known, n) if n else 0


def _without_ones(terms: list[Labelled]) -> list[Labelled]:
    """Operands without the axes of size 1 that another operand's axis stretches."""
    longest = {
        label: n
        for x, labels in terms
        for label, n in zip(labels, typeof(x).shape, strict=True)
        if n != 1
    }
    found = []
    for x, labels in terms:
        shape = typeof(x).shape
        drop = tuple(i for i, c in enumerate(labels) if shape[i] == 1 and c in longest)
        kept = "".join(c for i, c in enumerate(labels) if i not in drop)
        found.append((squeeze(x, dimensions=drop) if drop else x, kept))
    return found


def _path(
    inputs: Sequence[str], output: str, shapes: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    if len(inputs) <= 2:
        return [tuple(range(len(inputs)))] if len(inputs) == 2 else []
    blanks = [np.broadcast_to(np.float64(0), s) for s in shapes]
    text = ",".join(inputs) + "->" + output
    steps = np.einsum_path(text, *blanks, optimize="greedy")[0][1:]
    pairs: list[tuple[int, ...]] = []
    for step in steps:  # one of more than two operands takes all that are left
        pairs += [tuple(sorted(step))] if len(step) == 2 else [(0, 1)] * (len(step) - 1)
    return pairs


def _single(x: Any, labels: str, needed: set[str]) -> Labelled:
    """One operand with diagonals taken and unneeded labels summed."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = diagonal(x, 0, i, j)
            labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + label
    axes = tuple(i for i, label in enumerate(labels) if label not in needed)
    if axes:
        x = reduce_sum(x, axes=axes)
    return x, "".join(label for label in labels if label in needed)


def _product(first: Labelled, second: Labelled, needed: set[str]) -> Labelled:
    """Two operands contracted over the labels that only they have."""
    (x, a), (y, b) = first, second
    x, a = _single(x, a, needed | set(b))
    y, b = _single(y, b, needed | set(a))
    if (set(a) == set(b) and set(a) <= needed) or not a or not b:
        if a and b:
            y = _ordered(y, b, a)
        return mul(x, y), a or b
    shared = [c for c in a if c in b]
    batch = [c for c in shared if c in needed]
    summed = [c for c in shared if c not in needed]
    numbers = tuple(
        (tuple(a.index(c) for c in group), tuple(b.index(c) for c in group))
        for group in (summed, batch)
    )
    free = [c for c in a if c not in shared] + [c for c in b if c not in shared]
    return dot_general(x, y, dimension_numbers=numbers), "".join(batch + free)


def _ordered(x: Any, labels: str, wanted: str) -> Any:
    if labels == wanted:
        return x
    if sorted(labels) != sorted(wanted):
        raise ValueError(f"einsum: the output labels {wanted!r} are not all in the inputs")
    return transpose(x, permutation=tuple(labels.index(c) for c in wanted))


@numpy_function
def einsum_path(*operands: Any, optimize: Any = "greedy") -> Any:
    """The order in which einsum would multiply, and a report."""
    subscripts, arrays = _arguments(operands)
    blanks = [np.broadcast_to(typeof(x).dtype.type(0), typeof(x).shape) for x in arrays]
    return np.einsum_path(subscripts, *blanks, optimize=optimize)
