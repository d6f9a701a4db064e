"""Protected captures: a user's array that became a residual keeps the value it had then.

Arrays a user can still write are known by their owner, recorded when they enter a trace as a raw
operand (temporaries are not). One of at most 64 KiB that becomes a residual is copied, every
time; a larger one is marked read-only until the transforming call ends, and copied once on
return where residuals outlive the call. Marks are counted under a lock and remember the old
flag. `config.check_captures` also finds writes that went through another view. Arrays of a device
have no such flag: one that becomes a residual is copied, whatever its size.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core import device, source
from ftrace.core.config import config
from ftrace.core.device import LIBRARIES
from ftrace.core.errors import MutationError
from ftrace.core.jaxpr import Eqn, Literal
from ftrace.core.lazy import forkable_lock, lazy
from ftrace.core.trace import EVAL, ctx, is_staged

COPY_LIMIT = 1 << 16  # bytes; below it a copy is cheaper than the bookkeeping it saves

_sha1 = lazy("hashlib", "sha1")  # OpenSSL takes a while to load
_lock = forkable_lock()
_marks: dict[int, list[Any]] = {}  # id -> [array, how many calls hold it, its flag before]


def owner(array: Any) -> Any:
    """The array at the root of a chain of views."""
    base = array.base
    while base is not None and device.is_array(base):
        array, base = base, base.base
    return array


def is_read_only(array: Any) -> bool:
    """Whether nobody can write this memory through the array or any array it is a view of."""
    while issubclass(type(array), np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, bytes)


class Captures:
    """What one transforming call has seen of the user's arrays, and holds.

    A call that is itself `staged` holds nothing: its jaxpr reads users' arrays by reference.
    """

    __slots__ = ("held", "seen", "staged", "sums")

    def __init__(self, *, staged: bool = False) -> None:
        self.staged = staged
        self.seen: dict[int, Any] = {}
        self.held: list[Any] = []
        self.sums: list[bytes] = []

    def enter(self, array: Any) -> None:
        """Record an array that arrived from the user."""
        self.seen[id(array if array.base is None else owner(array))] = array

    def argument(self, array: Any) -> Any:
        """An argument's value at the moment of the call: a copy if small, else recorded."""
        if not self.staged and (array.nbytes <= COPY_LIMIT or device.on_device(array)):
            return device.copied(array)
        self.enter(array)
        return array

    def protect(self, value: Any) -> Any:
        """The value to keep as a residual."""
        if self.staged:
            return value
        base = value.base
        mine = self.seen.get(id(value if base is None else owner(value)))
        if mine is None:
            return value
        if LIBRARIES and type(value) in LIBRARIES:
            return device.copied(value)
        if base is None and value.nbytes <= COPY_LIMIT and value.flags.writeable:
            return device.copied(value)  # what most captures are
        if is_read_only(value) and id(mine) not in _marks:
            return value  # read-only for good, not because some call holds it
        if value.nbytes <= COPY_LIMIT:
            return device.copied(value)
        if not self._is_held(mine):
            self._hold(mine)
        return value

    def _is_held(self, array: Any) -> bool:
        return any(array is h for h in self.held)

    def _hold(self, array: Any) -> None:
        with _lock:
            # at each line a signal handler may mark and unmark the same array
            entry = _marks.get(id(array))
            if entry is None:
                _marks[id(array)] = [array, 1, array.flags.writeable]
                array.flags.writeable = False
            else:
                entry[1] += 1
        self.held.append(array)
        if config.settings.check_captures:
            self.sums.append(digest(array))

    def release(self, *, check: bool = True) -> None:
        """Give every held array its flag back. Called exactly once, when the call ends."""
        if not self.held:
            return
        with _lock:
            for array in self.held:
                entry = _marks[id(array)]
                if entry[1] == 1:
                    del _marks[id(array)]
                    array.flags.writeable = entry[2]
                else:
                    entry[1] -= 1
        held, sums = self.held, self.sums
        self.held, self.sums = [], []
        for array, before in zip(held, sums, strict=bool(sums)):
            if check and digest(array) != before:
                raise MutationError(
                    f"A captured array of shape {array.shape} was changed through another view "
                    "while its derivative was being computed.",
                    "Pass a copy, or finish writing before the call.",
                )

    def detach(self, eqns: list[Eqn]) -> None:
        """Replace held residuals by copies, so that they outlive the call."""
        if not self.held:
            return
        roots = {id(owner(a)) for a in self.held}
        copies: dict[int, Literal] = {}
        for eqn in eqns:
            for i, atom in enumerate(eqn.invars):
                if type(atom) is not Literal or not issubclass(type(atom.value), np.ndarray):
                    continue
                if id(owner(atom.value)) in roots:
                    key = id(atom.value)
                    if key not in copies:
                        copies[key] = Literal(device.copied(atom.value))
                    eqn.invars[i] = copies[key]

    def explain(self, error: ValueError) -> None:
        """Turn NumPy's complaint about a read-only array that is held here into ours."""
        if not self.held or "read-only" not in str(error):
            return
        name = _name_of(self.held, error)
        what = f"`{name}`, a captured array," if name else "A captured array"
        raise MutationError(
            f"{what} was written while a derivative that uses its value was being computed.",
            f"Write to a copy: `{name or 'x'} = {name or 'x'}.copy()`.",
            place=source.raised_at(error),
        ) from error


def digest(array: Any) -> bytes:
    """What tells two contents of an array apart, also where elements changed places."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return _sha1(data.data, usedforsecurity=False).digest()  # the fastest there is


def _name_of(arrays: list[Any], error: BaseException) -> str | None:
    traceback = error.__traceback__
    found = None
    while traceback is not None:
        for name, value in traceback.tb_frame.f_locals.items():
            if issubclass(type(value), np.ndarray) and any(
                np.may_share_memory(value, a) for a in arrays
            ):
                found = name
        traceback = traceback.tb_next
    return found


def owned(values: Iterable[Any], borrowed: Iterable[Any] = ()) -> list[Any]:
    """Results as the caller may have them: writeable, with memory of their own.

    While a program is recorded they stay as they are: it gives its caller results of its own.
    Arrays that ftrace made and that met no other follow the inputs to their device.

    Args:
        values: results, arrays or tracers.
        borrowed: inputs, constants and residuals, whose memory belongs to somebody else.
    """
    if ctx.trace is not EVAL and is_staged(ctx.trace):
        return list(values)
    borrowed = list(borrowed)
    taken = {id(b) for b in borrowed if issubclass(type(b), np.ndarray) or type(b) in LIBRARIES}
    like = next(filter(device.on_device, borrowed), None) if LIBRARIES else None
    out: list[Any] = []
    for v in values:
        if like is not None and issubclass(type(v), np.ndarray):
            v = device.follow(v, like)
        if type(v) in LIBRARIES:
            if v.base is not None or id(v) in taken:
                v = device.copied(v)
            taken.add(id(v))
        elif issubclass(type(v), np.ndarray):
            if v.base is not None or id(v) in taken or not v.flags.writeable:
                v = device.copied(v) if v.ndim else v[()]
            taken.add(id(v))
        out.append(v)
    return out
