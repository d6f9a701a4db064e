"""Arrays of other devices: which types they are, who evaluates rows on them, what follows whom.

NumPy's arrays need nothing from here: a row runs its `impl`. An array type of a device has a
`Library` (`LIBRARIES`), entered when that package is first seen (`watch`), which evaluates rows,
copies and moves. The one idea: *a host array that ftrace made is free*. It belongs to no device
yet, and moves to the device of the first array it meets; what is made of free arrays alone is
free. Every other host array is the user's and never moves by itself.

Until a device's package is imported nothing is tracked and all of this costs one set look-up.
"""

import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.weak import dropping

_PACKAGE: Final = "cupy"
_register: Final = lazy("ftrace.gpu.eager.cupy_arrays", "register")


class Library(Protocol):
    """What evaluates rows on the arrays of a device."""

    def evaluate(self, row: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """A row on operands of which one at least is on the device, as its `impl` answers."""
        ...

    def copy(self, array: Any) -> Any:
        """A new array with the same elements, in C order."""
        ...

    def stack(self, arrays: Sequence[Any]) -> Any:
        """Arrays of one shape along a new first axis."""
        ...

    def from_host(self, array: Any) -> Any:
        """An array of the device with the elements of a NumPy array or scalar."""
        ...

    def adopt(self, array: Any) -> Any:
        """An array of the device over memory that something else offers, not copied."""
        ...

    def from_dlpack(self, array: Any) -> Any:
        """The same by the DLPack protocol."""
        ...

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """A NumPy array with the elements of one of the device; waits for them."""
        ...


LIBRARIES: Final[dict[type, Library]] = {}

# Types of operands that a row's impl takes without a second look. Empty once there is a device.
PLAIN: Final[set[type]] = {
    np.ndarray,
    *(bool, int, float, complex),
    *(np.dtype(code).type for code in "?bhilqBHILQefdFD"),
}


def watch() -> bool:
    """Take notice of a device's package, if the program has imported it; whether it is new."""
    if LIBRARIES or _PACKAGE not in sys.modules:
        return False
    _register()
    return True


def recognise(cls: type) -> bool:
    """Whether this is the array type of a device; its package is entered if it is new."""
    if str(cls.__module__).partition(".")[0] != _PACKAGE:
        return False
    watch()
    return cls in LIBRARIES


def enter(cls: type, library: Library) -> None:
    """Make the array type of a device known."""
    LIBRARIES[cls] = library
    PLAIN.clear()


# ---------------------------------------------------------------------------------- what it is


def on_device(x: Any) -> bool:
    """Whether a value is the array of a device."""
    return type(x) in LIBRARIES


def is_array(x: Any) -> bool:
    """Whether a value is a plain array, of the host or of a device."""
    return issubclass(type(x), np.ndarray) or type(x) in LIBRARIES


# ---------------------------------------------------------------------------------- free arrays

_free: dict[int, "weakref.ref[Any]"] = {}


def free(array: Any) -> Any:
    """The array itself, which ftrace made: it belongs to no device yet."""
    if LIBRARIES and issubclass(type(array), np.ndarray) and array.ndim and not is_free(array):
        number = id(array)
        _free[number] = dropping(array, _free, number)
    return array


def following(index: Any) -> Any:
    """Indices, which follow what they index: a view of a host array that belongs to no device."""
    return free(index.view()) if LIBRARIES and issubclass(type(index), np.ndarray) else index


def made_of(array: Any, parts: Sequence[Any]) -> Any:
    """The array itself, computed from these: free if all of them are."""
    return free(array) if LIBRARIES and all(map(is_free, parts)) else array


def is_free(x: Any) -> bool:
    """Whether a value belongs to no device: a number, or an array that ftrace made."""
    if not issubclass(type(x), np.ndarray):
        return type(x) not in LIBRARIES
    found = _free.get(id(x))
    return not x.ndim or (found is not None and found() is x)


def evaluate(row: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """A row on operands that may be on a device."""
    watch()
    for a in args:
        library = LIBRARIES.get(type(a))
        if library is not None:
            return library.evaluate(row, args, params)
    found = row.impl(*args, **params)
    if LIBRARIES:
        for y in found if row.multiple else (found,):
            made_of(y, args)
    return found


def platform(values: Iterable[Any]) -> str:
    """Where an operation on these values runs: "gpu" where one of them is on a device, or "cpu"."""
    return "gpu" if LIBRARIES and any(type(x) in LIBRARIES for x in values) else "cpu"


def place_of(x: Any) -> Library | None:
    """Where a value is; None for the host."""
    return LIBRARIES.get(type(x))


def placed(x: Any, place: Library | None) -> Any:
    """A value at a place, if it belongs to no device yet."""
    if place is None or not issubclass(type(x), np.ndarray | np.generic | int | float | complex):
        return x
    return place.from_host(x) if is_free(x) else x


def follow(x: Any, like: Any) -> Any:
    """A value where another is, if it belongs to no device yet."""
    return placed(x, LIBRARIES.get(type(like)))


def together(values: Sequence[Any]) -> Sequence[Any]:
    """Operands of a loop: free arrays go where others are once, and not at every iteration."""
    like = next(filter(on_device, values), None) if LIBRARIES else None
    if like is None:
        return values
    return [follow(x, like) if issubclass(type(x), np.ndarray) and x.ndim else x for x in values]


# ---------------------------------------------------------------------------------- moving


def copied(array: Any) -> Any:
    """A copy of a plain array, where it is; a copy of a free one is free."""
    if not LIBRARIES:
        return array.copy()
    library = LIBRARIES.get(type(array))
    return made_of(array.copy(), (array,)) if library is None else library.copy(array)


def stacked(values: Sequence[Any]) -> Any:
    """Arrays and numbers of one shape along a new first axis; None if none is on a device."""
    for value in values:
        library = LIBRARIES.get(type(value))
        if library is not None:
            return library.stack(values)
    return None


def to_host(x: Any) -> Any:
    """A value that Python decides by: that of a device is read, which waits for it."""
    library = LIBRARIES.get(type(x))
    return x if library is None else library.to_host(x)
