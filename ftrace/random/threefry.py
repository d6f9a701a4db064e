"""Threefry-2x32: random bits as a function of a key and a counter, written in rows of uint32.

Twenty rounds of add, rotate and xor scramble the counter under the key. Nothing is carried from
one element to the next, so that a kernel computes every element by itself, on any device, and a
prefix of a longer array has the same bits. The layout is JAX's (`jax_threefry_partitionable`):
element i of an array has counter i, as two words.

Source: J. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
"""

from typing import Any, Final

import numpy as np

from ftrace.numpy.promote import cast
from ftrace.primitives.create import iota

WORD: Final = np.dtype(np.uint32)
_WORD_BITS: Final = 32
_PARITY: Final = np.uint32(0x1BD11BDA)
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS: Final = 5  # of four rounds each

Pair = tuple[Any, Any]


def _rotated(x: Any, by: int) -> Any:
    return (x << np.uint32(by)) | (x >> np.uint32(_WORD_BITS - by))


def threefry(key: Pair, counter: Pair) -> Pair:
    """Two words of random bits for two words of a counter, under two words of a key.

    Operands are traced uint32 of one shape, or rank 0.
    """
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(_GROUPS):
        for by in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ _rotated(y, by)
        x = x + keys[(group + 1) % 3]
        y = y + (keys[(group + 2) % 3] + np.uint32(group + 1))
    return x, y


def words_of(place: Any) -> Pair:
    """The high and the low word of an integer of 64 bits."""
    return cast(place >> np.uint64(_WORD_BITS), WORD), cast(place, WORD)


def counters(size: int) -> Pair:
    """The counters of an array of so many elements."""
    if size <= 1 << _WORD_BITS:
        return np.uint32(0), iota(dtype=WORD, shape=(size,), dimension=0)
    return words_of(iota(dtype=np.dtype(np.uint64), shape=(size,), dimension=0))


def words(key: Any) -> Pair:
    """The two words of a traced key."""
    return key[0], key[1]


def random_words(key: Pair, size: int) -> Pair:
    """Two words of random bits for each element of a vector."""
    return threefry(key, counters(size))


def flat_bits(key: Pair, size: int, dtype: np.dtype[Any]) -> Any:
    """Random bits as a vector of unsigned integers."""
    return joined(random_words(key, size), dtype)


def joined(both: Pair, dtype: np.dtype[Any]) -> Any:
    """One unsigned integer from two words of random bits."""
    high, low = both
    if dtype.itemsize == 8:
        return cast(high, dtype) << np.uint64(_WORD_BITS) | cast(low, dtype)
    return cast(high ^ low, dtype)


def split_words(key: Pair, count: int) -> list[Pair]:
    """Independent keys from one, as words: what `split` gives."""
    return [threefry(key, (np.uint32(0), np.uint32(i))) for i in range(count)]
