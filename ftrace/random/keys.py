"""Keys: what all randomness is a function of, and how new keys come from old ones.

A key is an array of two words, uint32[2], as JAX's `PRNGKey` gives: it is indexed, stacked, mapped
by `vmap` and saved as any array. A key that was given to a sampler, or was split, is used up.
Samples lie where their key lies; what ftrace makes a key of belongs to no device yet.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.errors import DomainError, DtypeError, ShapeError
from ftrace.lax.stacking import stack
from ftrace.numpy.promote import cast, value
from ftrace.primitives.convert import copy
from ftrace.primitives.shape import reshape
from ftrace.random.parameters import checked_key, checked_shape
from ftrace.random.programs import program
from ftrace.random.threefry import WORD, random_words, threefry, words, words_of

_LONG = np.dtype(np.uint64)
_IMPLEMENTATION: Final = "threefry2x32"


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:  # noqa: N802 - JAX's name
    """A key from a seed.

    Args:
        seed: an integer of up to 64 bits; a Python int, or an array of rank 0, traced or not.
        impl: None or "threefry2x32", which is what there is.

    Returns:
        The key, uint32[2].

    Raises:
        DtypeError: the seed is no integer, or has more than 64 bits.
        DomainError: another `impl`.
        ShapeError: the seed is an array with axes.

    Example:
        >>> import ftrace
        >>> ftrace.random.PRNGKey(42)
        array([ 0, 42], dtype=uint32)
    """
    if impl is not None and impl != _IMPLEMENTATION:
        raise DomainError(
            f"random.key was given impl={impl!r}.",
            'Keys are those of "threefry2x32"; others would give other numbers. Leave impl out.',
        )
    found = _integer("PRNGKey", "seed", seed)
    if type(found) is int:
        if not -(1 << 63) <= found < 1 << 64:
            raise DtypeError(
                f"random.PRNGKey was given seed={found}, which has more than 64 bits.",
                "Take it modulo 2**64.",
            )
        return free(np.array([found >> 32 & 0xFFFFFFFF, found & 0xFFFFFFFF], WORD))
    return _seeded(found)


def key(seed: Any, *, impl: Any = None) -> Any:
    """A key from a seed: another name of `PRNGKey`.

    Args:
        seed, impl: as for `PRNGKey`.

    Returns:
        The key, uint32[2]. It differs from JAX's, which has a type of its own and rank 0.

    Raises:
        DtypeError, ShapeError, DomainError: as `PRNGKey`.

    Example:
        >>> import ftrace
        >>> ftrace.random.key(42)
        array([ 0, 42], dtype=uint32)
    """
    return PRNGKey(seed, impl=impl)


def _integer(name: str, what: str, x: Any) -> Any:
    """A Python int, or an integer of rank 0."""
    if issubclass(type(x), int) and not issubclass(type(x), bool):
        return int(x)
    a = typeof(value(x))
    if a.dtype.kind not in "iu":
        raise DtypeError(
            f"random.{name} was given {what}={a}, which is no integer.", "Give an integer."
        )
    if a.shape:
        raise ShapeError(
            f"random.{name} was given {what}={a}, which has axes.",
            "Map it over several with ftrace.vmap.",
        )
    return x


@program
def _seeded(seed: Any) -> Any:
    # as JAX: the sign of a seed of 64 bits fills the high word, that of a shorter one does not
    if typeof(seed).dtype.itemsize < 8:
        return stack([np.uint32(0), cast(seed, WORD)])
    return stack(list(words_of(cast(seed, _LONG))))


def split(key: Any, num: Any = 2) -> Any:
    """New keys from one, independent of it and of each other.

    Args:
        key: the key, uint32[2]; do not use it again.
        num: how many, or the shape of an array of keys.

    Returns:
        An array of keys, uint32[num, 2] or uint32[*num, 2].

    Raises:
        DtypeError, ShapeError: `key` is no key, or `num` no count.

    Example:
        >>> import ftrace
        >>> key, sub = ftrace.random.split(ftrace.random.PRNGKey(0))
        >>> key
        array([1797259609, 2579123966], dtype=uint32)
    """
    shape = checked_shape("split", num)
    return _split(checked_key("split", key), shape=shape)


@program
def _split(key: Any, *, shape: tuple[int, ...]) -> Any:
    both = random_words(words(key), int(np.prod(shape, dtype=int)))
    return reshape(stack(list(both), axis=1), new_sizes=(*shape, 2))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number, such as the number of a step.

    Args:
        key: the key, uint32[2]; it may be used with other numbers.
        data: an integer, of which 32 bits count; traced or not.

    Returns:
        The key, uint32[2].

    Raises:
        DtypeError: `data` is no integer, or a Python int outside 0 .. 2**32 - 1.
        ShapeError: `data` has axes.

    Example:
        >>> import ftrace
        >>> key = ftrace.random.PRNGKey(0)
        >>> ftrace.random.fold_in(key, 3)
        array([2467461003, 3840466878], dtype=uint32)
    """
    number = _integer("fold_in", "data", data)
    if type(number) is int:
        if not 0 <= number < 1 << 32:
            raise DtypeError(
                f"random.fold_in was given data={number}, which is not in 0 .. 2**32 - 1.",
                "Take it modulo 2**32.",
            )
        number = np.uint32(number)
    return _fold_in(checked_key("fold_in", key), cast(number, WORD))


@program
def _fold_in(key: Any, data: Any) -> Any:
    return stack(list(threefry(words(key), (np.uint32(0), data))))


def clone(key: Any) -> Any:
    """A copy of a key, to use it twice on purpose.

    Args:
        key: the key, uint32[2].

    Returns:
        The same key.

    Raises:
        DtypeError, ShapeError: `key` is no key.

    Example:
        >>> import ftrace
        >>> ftrace.random.clone(ftrace.random.PRNGKey(3))
        array([0, 3], dtype=uint32)
    """
    return copy(checked_key("clone", key))


def key_data(keys: Any) -> Any:
    """The words of keys: the keys themselves, since a key is its words.

    Args:
        keys: an array of keys, uint32[..., 2].

    Returns:
        The same array.

    Raises:
        DtypeError, ShapeError: `keys` are no keys.

    Example:
        >>> import ftrace
        >>> ftrace.random.key_data(ftrace.random.key(3))
        array([0, 3], dtype=uint32)
    """
    return _keys("key_data", keys)


def wrap_key_data(key_bits_array: Any) -> Any:
    """Keys from their words: the words themselves.

    Args:
        key_bits_array: words, uint32[..., 2].

    Returns:
        The same array.

    Raises:
        DtypeError, ShapeError: what is given cannot be keys.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.random.wrap_key_data(np.array([0, 3], np.uint32))
        array([0, 3], dtype=uint32)
    """
    return _keys("wrap_key_data", key_bits_array)


def _keys(name: str, keys: Any) -> Any:
    a = typeof(keys)
    if a.dtype != WORD:
        raise DtypeError(f"random.{name} was given {a}.", "Keys are uint32[..., 2].")
    if not a.ndim or a.shape[-1] != 2:
        raise ShapeError(f"random.{name} was given {a}.", "Keys are uint32[..., 2].")
    return keys
