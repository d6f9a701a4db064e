"""Constant propagation: what the variables of a trace hold that no argument decides.

Staged code makes traced arrays of plain numbers, too: of shapes, axes, labels. Where Python asks
for the value of one, the equations behind it are evaluated, if they read nothing but literals,
captured arrays and other constants. (Wegman and Zadeck, Constant propagation with conditional
branches, 1991; here sparse and on demand.)
"""

from itertools import islice
from typing import Any, Final

import numpy as np

from ftrace.core import device
from ftrace.core.jaxpr import Atom, Eqn, Literal, Var
from ftrace.core.trace import EVAL, UNKNOWN, ctx

LIMIT: Final = 1 << 16  # elements of a value that is computed while a function is traced


class ConstantValues:
    """The variables of one trace that are constants, and the values of those that were asked for.

    Args:
        trace: a `JaxprTrace`, whose equations are read as it records them.
    """

    __slots__ = ("_consts", "_hoisted", "_last", "_made", "_read", "_trace", "_values", "asked")

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self._read = self._consts = self._hoisted = 0  # how many of each were looked at
        self._last: Eqn | None = None
        self._made: dict[Var, Eqn] = {}  # constants, and the equations that compute them
        self._values: dict[Var, Any] = {}
        self.asked: set[Var] = set()  # captured arrays whose content a value depends on

    def value(self, atom: Atom) -> Any:
        """The value of an atom, or UNKNOWN."""
        if type(atom) is Literal:
            return atom.value
        self._look()
        if atom not in self._made and atom not in self._values:
            return UNKNOWN
        todo = [atom]
        while todo:
            var = todo[-1]
            if var in self._values:
                todo.pop()
                continue
            eqn = self._made[var]
            missing = [v for v in eqn.invars if type(v) is Var and v not in self._values]
            if missing:
                todo += missing
            else:
                self._evaluate(eqn)
        self.asked.update(self._captured_by(atom))
        return self._values[atom]

    def _look(self) -> None:
        """Find the constants among what was captured and recorded since the last question."""
        trace = self._trace
        for array, var in islice(trace.consts.values(), self._consts, None):
            self._enter(var, array)
        for tracer, var in islice(trace.hoisted.values(), self._hoisted, None):
            self._enter(var, tracer.known(exact=True))
        self._consts, self._hoisted = len(trace.consts), len(trace.hoisted)
        eqns = trace.eqns
        if self._read and (len(eqns) < self._read or eqns[self._read - 1] is not self._last):
            self._read = 0  # some were taken back
        for eqn in eqns[self._read :]:
            if self._is_constant(eqn):
                self._made.update((v, eqn) for v in eqn.outvars)
        self._read, self._last = len(eqns), eqns[-1] if eqns else None

    def _enter(self, var: Var, found: Any) -> None:
        if found is not UNKNOWN and not device.on_device(found) and var.aval.size <= LIMIT:
            self._values[var] = found

    def _is_constant(self, eqn: Eqn) -> bool:
        known, made = self._values, self._made
        return (
            eqn.primitive.effects is None  # nor has a row that holds jaxprs: a loop may not end
            and eqn.primitive.host is None  # a user's function runs as often as it is called
            and all(type(v) is Literal or v in made or v in known for v in eqn.invars)
            and all(v.aval.size <= LIMIT for v in eqn.outvars)
        )

    def _evaluate(self, eqn: Eqn) -> None:
        args = [v.value if type(v) is Literal else self._values[v] for v in eqn.invars]
        outer, ctx.trace = ctx.trace, EVAL
        try:
            with np.errstate(all="ignore"):
                found = eqn.primitive(*args, **eqn.params)
        finally:
            ctx.trace = outer
        results = found if eqn.primitive.multiple else [found]
        for v, x in zip(eqn.outvars, results, strict=True):
            self._values[v] = x

    def _captured_by(self, atom: Var) -> list[Var]:
        """The captured arrays that a constant was computed from."""
        found, todo, seen = [], [atom], {atom}
        while todo:
            var = todo.pop()
            eqn = self._made.get(var)
            if eqn is None:
                found.append(var)
                continue
            new = {v for v in eqn.invars if type(v) is Var} - seen
            seen |= new
            todo += new
        return found
