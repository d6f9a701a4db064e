"""Small helpers for sequences, and a weak cache. Nothing here knows what a tracer is.

`safe_map` and `safe_zip` are `map` and `zip` that return lists and refuse unequal lengths: most
bugs in an interpreter are a list that is one too short, and `zip` hides exactly those.
"""

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def safe_zip(first: Iterable[Any], *rest: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`zip` as a list; unequal lengths raise."""
    return list(zip(first, *rest, strict=True))


def safe_map(f: Callable[..., A], first: Iterable[Any], *rest: Iterable[Any]) -> list[A]:
    """`map` as a list; unequal lengths raise."""
    if not rest:
        return list(map(f, first))
    return [f(*args) for args in zip(first, *rest, strict=True)]


def unzip2(pairs: Iterable[tuple[A, B]]) -> tuple[list[A], list[B]]:
    """The firsts and the seconds of pairs, as two lists."""
    firsts: list[A] = []
    seconds: list[B] = []
    for first, second in pairs:
        firsts.append(first)
        seconds.append(second)
    return firsts, seconds


def split_list(values: Sequence[A], sizes: Sequence[int]) -> list[list[A]]:
    """Consecutive parts of the given sizes, and what is left as the last part."""
    ends = list(itertools.accumulate(sizes, initial=0))
    if ends[-1] > len(values) or min(sizes, default=0) < 0:
        raise ValueError(f"cannot take {list(sizes)} from {len(values)} values")
    starts_and_ends = zip(ends, [*ends[1:], len(values)], strict=True)
    return [list(values[start:end]) for start, end in starts_and_ends]


def partition_list(choose: Sequence[bool], values: Sequence[A]) -> tuple[list[A], list[A]]:
    """Values where `choose` is false, and values where it is true."""
    out: tuple[list[A], list[A]] = ([], [])
    for which, value in zip(choose, values, strict=True):
        out[bool(which)].append(value)
    return out


def merge_lists(
    choose: Sequence[bool], where_false: Iterable[A], where_true: Iterable[A]
) -> list[A]:
    """The inverse of `partition_list`."""
    sources = iter(where_false), iter(where_true)
    merged = [next(sources[bool(which)]) for which in choose]
    if any(True for _ in itertools.chain(*sources)):
        raise ValueError(f"more values than the {len(merged)} places")
    return merged


def weakref_cache(f: Callable[..., A]) -> Callable[..., A]:
    """Cache `f(first, *rest)` for as long as `first` lives; `rest` must be hashable.

    The key is the identity of `first`: two equal objects do not share an entry.
    """
    table: dict[int, tuple[Any, dict[tuple[Any, ...], A]]] = {}

    @functools.wraps(f)
    def cached(first: Any, *rest: Any) -> A:
        key = id(first)
        entry = table.get(key)
        if entry is None:
            entry = table[key] = (weakref.ref(first, lambda _: table.pop(key, None)), {})
        results = entry[1]
        if rest not in results:
            results[rest] = f(first, *rest)
        return results[rest]

    return cached
