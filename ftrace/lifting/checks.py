"""`assert` and `raise` where traced values decide: checks at run time, on the host.

Both become a callback that raises the user's exception when it runs; that of a `raise` stands in
the arm of a `cond`. Derivatives pass by.
"""

import ast
from functools import cached_property
from typing import Any

from ftrace.control.callbacks import Host, debug_callback_call
from ftrace.core import source
from ftrace.core.trace import Tracer
from ftrace.lifting import names
from ftrace.lifting.leaves import truth
from ftrace.lifting.names import RAISE, RETURN
from ftrace.lifting.sites import Region, Site
from ftrace.lifting.state import Frame, Outcome


def fail(error: Any) -> Outcome:
    """The exit of a region by `raise`."""

    def raised() -> None:
        raise error

    _on_host("raise", raised)
    return Outcome(RAISE, {})


def _on_host(what: str, fn: Any, *values: Any) -> None:
    debug_callback_call(*values, host=Host(fn, fn, what, place=source.location()), ordered=False)


class Asserting(Site):
    """`assert`."""

    @cached_property
    def message(self) -> Region | None:
        """The message as a region."""
        if self.node.msg is None:
            return None
        value = ast.copy_location(ast.Return(self.node.msg), self.node.msg)
        return self.region([value], {RETURN: names.NONE})

    def check(self, test: Any, local: Any, probe: Any) -> None:
        """Check a traced condition when the function runs; the message sees the values then."""
        frame = Frame(local, probe)
        state = frame.state
        shown = names.loads([self.node.msg]) if self.node.msg is not None else names.NONE
        traced = [n for n in sorted(shown) if isinstance(state.get(n), Tracer)]
        known = {n: state[n] for n in shown if n in state and n not in traced}

        def checked(holds: Any, *values: Any) -> None:
            if not holds:
                now = {**known, **dict(zip(traced, values, strict=True))}
                text = () if self.message is None else (self.message.call(frame, now).value,)
                raise AssertionError(*text)

        _on_host("assert", checked, truth(test), *(state[n] for n in traced))
