"""The signature of the last call of a compiled function: what it compares, and what to run."""

from typing import Any, Final

import numpy as np

from ftrace.control.traces import CachedTrace
from ftrace.core import config
from ftrace.core.avals import SCALAR_AVALS
from ftrace.core.device import LIBRARIES
from ftrace.core.tree import LEAF

_CONFIG: Final = config.config
_changes: Final = config.changes
ANOTHER: Final = object()
"""The answer to a call of another signature."""


class Signature:
    """The arguments of the last call, if they were plain arrays and numbers, and what to run.

    Most functions are called with the same signature again and again: comparing with the last one
    costs a fraction of finding it.
    """

    __slots__ = (
        "_captured",
        "_enter",
        "_guard",
        "_make",
        "_plain",
        "_rest",
        "_run",
        "_settings",
        "_specs",
        "_unflatten",
    )

    def __init__(
        self, specs: list[tuple[Any, ...]], entry: CachedTrace, run: Any, settings: config.Settings
    ) -> None:
        self._specs = specs
        self._settings = settings  # by which it was compiled
        self._guard = entry.guard
        self._captured = tuple(entry.captured)
        self._run = run.__call__  # a bound method is faster than an object
        self._plain = entry.out_tree == LEAF
        self._unflatten = entry.out_tree.unflatten
        direct: Any = getattr(run, "direct", None)
        if direct is None or not self._plain or self._captured:
            direct = None, None, ()
        self._make: Any
        self._enter: Any
        self._make, self._enter, self._rest = direct

    @staticmethod
    def of(
        args: tuple[Any, ...], entry: CachedTrace, run: Any, settings: config.Settings
    ) -> "Signature | None":
        """The signature of a call, unless an argument is a container."""
        specs: list[tuple[Any, ...]] = []
        for a in args:
            if type(a) is np.ndarray or type(a) in LIBRARIES:
                specs.append((type(a), a.shape, a.dtype))
            elif type(a) in SCALAR_AVALS:
                specs.append((type(a), None, None))
            else:
                return None
        return Signature(specs, entry, run, settings)

    def call(self, args: tuple[Any, ...]) -> Any:
        """The result of a call, or `ANOTHER` if it is not of this signature.

        Nor may the settings have changed, or what the function means.
        """
        own = _changes()
        settings = _CONFIG.defaults if own is None else own.applied(_CONFIG.defaults)
        if settings is not self._settings and not self._compiles(settings):
            return ANOTHER
        enter = self._enter
        if enter is not None:  # it looks at the arguments itself
            guard = self._guard
            if guard is not None and not guard():
                return ANOTHER
            out = self._make()
            if not enter(*args, *self._rest, out):
                return out
        if not self.fits(args):
            return ANOTHER
        outs = self._run((*self._captured, *args) if self._captured else args)
        return outs[0] if self._plain else self._unflatten(outs)

    def fits(self, args: tuple[Any, ...]) -> bool:
        """Whether the code is for these arguments, and what it rests on has not changed.

        It is `call` without the settings: code that was compiled ahead is the same for all.
        """
        specs = self._specs
        if len(args) != len(specs):
            return False
        i = 0
        for a in args:  # a counter by hand is a third faster than `zip` here
            cls, shape, dtype = specs[i]
            i += 1  # noqa: SIM113
            if type(a) is not cls or (
                shape is not None and (a.shape != shape or a.dtype is not dtype)
            ):
                return False
        return self._guard is None or self._guard()

    def _compiles(self, settings: config.Settings) -> bool:
        """Whether other settings would have compiled the same."""
        mine = self._settings
        same = settings.passes is mine.passes and settings.roll == mine.roll
        same = same and settings.threads == mine.threads
        return same and settings.lift == mine.lift and settings.compile and not settings.disable_jit
