"""Copies of primitives under names that say nothing: lowering is to make the same of them.

`pytest --renamed tests/lowering tests/cpu tests/gpu` plans every program with copies in place of
ftrace's primitives: other objects under other names, also in branches, loops and calls. Tests of
passes that name a primitive are marked `by_name` and left out.
"""

import dataclasses

from ftrace.core.jaxpr import Eqn, Jaxpr
from ftrace.lowering.planning import plan


class Renaming:
    """Copies of primitives, one each."""

    def __init__(self):
        self.copies = {}

    def row(self, row):
        """The copy of a row of ftrace."""
        if not row.own:
            return row
        if row not in self.copies:
            name = f"p{len(self.copies)}"
            self.copies[row] = dataclasses.replace(row, name=name)
        return self.copies[row]

    def jaxpr(self, jaxpr):
        """A jaxpr of copies, those that it holds included."""
        eqns = [
            Eqn(self.row(e.primitive), e.invars, self.value(e.params), e.outvars, e.source)
            for e in jaxpr.eqns
        ]
        return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts)

    def value(self, x):
        """A parameter with copies in the jaxprs that it holds."""
        if isinstance(x, Jaxpr):
            return self.jaxpr(x)
        if isinstance(x, dict):
            return {k: self.value(v) for k, v in x.items()}
        if isinstance(x, tuple):
            made = map(self.value, x)
            return type(x)(*made) if hasattr(x, "_fields") else tuple(made)
        return x


def rename_everything():
    """Plan every program of this process with copies; they are the same ones for all programs."""
    planned, renaming = plan._Planner.program, Renaming()
    plan._Planner.program = lambda self, jaxpr: planned(self, renaming.jaxpr(jaxpr))
