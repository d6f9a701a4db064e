"""`_ft`: what rewritten code calls."""

import builtins
import importlib
import re
import sys
from typing import Any
from weakref import WeakKeyDictionary

from ftrace.core import source
from ftrace.core.errors import LiftError
from ftrace.core.trace import EVAL, ctx
from ftrace.lifting.staging.catching import Attempt, caught, failing, reraise
from ftrace.lifting.staging.conditional_values import both, chosen, decided, either
from ftrace.lifting.staging.folding import Level, folded
from ftrace.lifting.staging.items import (
    Items,
    backwards,
    enumerated,
    items_of,
    ranged,
    zipped,
)
from ftrace.lifting.staging.managers import Managed
from ftrace.lifting.staging.sites import give_up
from ftrace.lifting.state.leaves import truth, undecided
from ftrace.lifting.state.local_state import MISSING, LocalFrame, Mark, Outcome
from ftrace.lifting.state.watching import RegionWatch, refuse_held
from ftrace.lifting.substitutes import array_functions, python, targets
from ftrace.lifting.syntax import patterns, users_operators, users_targets
from ftrace.numpy.masking import Selection
from ftrace.numpy.tracer_operators import refuse_division
from ftrace.primitives.compare import bitwise_not

_ITERATING = {
    id(range): ranged,
    id(zip): zipped,
    id(enumerate): enumerated,
    id(reversed): backwards,
}


_FEW = 300  # objects that are looked at before every loop


class Helper:
    """The object that rewritten code knows as `_ft`; one for each code object."""

    missing = MISSING
    undecided = staticmethod(undecided)
    locals = staticmethod(builtins.locals)

    def __init__(self, template: Any) -> None:
        self.sites = template.sites
        self.outer: tuple[str, ...] = template.outer  # names that may be globals
        self._template = template
        self._unbound: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
        lifted_calls = importlib.import_module("ftrace.lifting.lifted_calls")  # calls `rewrite`
        self.call = lifted_calls.call

    def leave(self, way: int, value: Any, local: dict[str, Any]) -> Outcome:
        """The end of a region."""
        return Outcome(way, local, value)

    def mark(self, local: dict[str, Any], probe: Any, runs: bool, writes: bool) -> Any:
        """The state before a loop, if anything is traced.

        Args:
            local, probe: the state.
            runs: whether turns may run natively before the loop is staged.
            writes: whether its statements may change items or attributes.
        """
        if ctx.trace is EVAL:
            return False
        frame = LocalFrame(local, probe)
        watch = RegionWatch(frame, most=_FEW) if runs and writes else None
        whole = not runs or (watch is not None and watch.is_complete)
        return Mark(frame, watch if whole else None, whole)

    @staticmethod
    def items(x: Any) -> Any:
        """What a loop runs over that only a traced length can make a staged one."""
        return items_of(x) if type(x) is Selection else x

    @staticmethod
    def counted(x: Any) -> Any:
        """What a loop runs over whose body may end it."""
        return x if ctx.trace is EVAL else items_of(x)

    @staticmethod
    def is_endless(x: Any) -> bool:
        """Whether the items cannot be run over natively."""
        return isinstance(x, Items) and x.native is None

    def iterating(self, fn: Any) -> Any:
        """What `range`, `zip`, `enumerate` and `reversed` mean where a loop runs over them."""
        found = None if ctx.trace is EVAL else _ITERATING.get(id(fn))
        return found or self.call(fn)

    # ------------------------------------------------------------------ expressions

    slice = builtins.slice
    Exception = Exception
    attempt = Attempt
    looked_after = Managed
    failing = staticmethod(failing)
    give_up = staticmethod(give_up)
    reraise = staticmethod(reraise)

    def caught(self, local: dict[str, Any], probe: Any) -> Outcome:
        """The exit of a region by an error that Python raised."""
        error = sys.exception()
        assert isinstance(error, Exception)
        if isinstance(error, NameError):
            self.explain()
        return caught(LocalFrame(local, probe), error)

    def handling(self) -> None:
        """A handler of the user's begins."""
        error = sys.exception()
        if isinstance(error, NameError):
            self.explain()
        refuse_held(error)

    @staticmethod
    def dividing(name: str, x: Any, y: Any) -> None:
        """Note that `x / y`, which is about to be computed in place, may divide by zero."""
        if ctx.trace is not EVAL:
            refuse_division(name, x, y)

    same = staticmethod(python.same)
    contains = staticmethod(python.contains)
    attribute_of = staticmethod(python.attribute)
    sequence = staticmethod(patterns.sequence)
    middle = staticmethod(patterns.middle)
    instance = staticmethod(patterns.instance)
    parts = staticmethod(patterns.parts)
    item = staticmethod(array_functions.item)
    into = staticmethod(targets.into)
    operate = staticmethod(users_operators.operate)
    attribute = staticmethod(users_operators.attribute)
    managed = staticmethod(users_operators.managed)
    target = staticmethod(users_targets.target)
    cell = staticmethod(array_functions.cell)
    cells = staticmethod(array_functions.cells)
    choose = staticmethod(chosen)
    both = staticmethod(both)
    either = staticmethod(either)
    decided = staticmethod(decided)
    level = Level

    @staticmethod
    def negated(x: Any) -> Any:
        """`not x`, which is a Python bool."""
        return python.weak(bitwise_not(truth(x))) if undecided(x) else not x

    def fold(self, fn: Any, listed: bool, level: Level) -> Any:
        """What `fn` means whose first argument is a comprehension with conditions."""
        return folded(fn, self.call, listed, level)

    # ------------------------------------------------------------------ names

    NameError = NameError

    def unbind(self, names: dict[str, str]) -> None:
        """Remember why names are not bound after a decision, also behind the regions around."""
        trace = ctx.trace if names else None
        while trace is not None:
            self._unbound.setdefault(trace, {}).update(names)
            trace = trace.parent if getattr(trace, "cells", None) is not None else None

    def explain(self) -> None:
        """Say why the name that was just read is not bound, if a decision is the reason.

        Raises:
            LiftError: the reason.
        """
        error: Any = sys.exception()
        found = re.search("'([^']+)'", str(error))
        name, why, trace = found[1] if found else "", None, ctx.trace
        while why is None and trace is not None:  # an arm reads what a decision around it left out
            why, trace = self._unbound.get(trace, {}).get(name), trace.parent
        if why is not None:
            raise LiftError(
                f"{why}, and is read.",
                "Give it a value before the decision.",
                place=source.raised_at(error),
            ) from None
