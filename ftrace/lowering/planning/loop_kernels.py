"""Loops that kernels do as a whole: those whose members iterate by themselves, and small ones."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.lower import Layout
from ftrace.lowering.fusion.backward_slice import Producers
from ftrace.lowering.loops.interchange import Interchange, interchanged
from ftrace.lowering.loops.small_loops import SmallLoop, small_loop
from ftrace.lowering.machine import Machine
from ftrace.lowering.memory.liveness import Slots
from ftrace.lowering.planning.pipeline import Pipeline


class LoopKernels(NamedTuple):
    """What computes a loop.

    Attributes:
        kernels: in an order in which none reads what one before has written.
        producers: of what they compute on the way.
        slots: where stored variables lie.
    """

    kernels: Sequence[Interchange | SmallLoop]
    producers: Producers
    slots: Slots


def loop_kernels(
    eqn: Eqn,
    loop: Layout,
    slots: Slots,
    passes: Pipeline,
    constant: Callable[[Any], int],
    machine: Machine,
) -> LoopKernels | None:
    """The kernels of a loop, if it needs no steps for each iteration.

    Args:
        eqn: the loop.
        loop: what it does.
        slots: where the variables around it lie; results that nobody reads have none.
        passes: what is done on the way to kernels.
        constant: gives an array a slot.
        machine: what the kernels are made for.
    """
    if loop.cond is None and loop.length is None:
        return None
    consts = loop.consts(eqn.invars)
    jaxprs = [loop.body] if loop.cond is None else [loop.cond, loop.body]
    bound = [[Var(a) for a in j.in_avals[len(consts) :]] for j in jaxprs]
    forms = [passes.jaxpr(j, [*consts, *names]) for j, names in zip(jaxprs, bound, strict=True)]
    wanted = [v for v in eqn.outvars if v in slots]
    inside = {**slots}
    if loop.cond is None:
        found = interchanged(eqn, loop, forms[0], bound[0], wanted, machine)
        if found is not None:
            inside.update(_constants(forms, constant))
            written: set[int] = set()
            apart = True
            for one in found[0]:
                apart = apart and written.isdisjoint(inside[v] for v in one.reads)
                written.update(inside[v] for v in one.writes)
            return LoopKernels(*found, inside) if apart else None
    if not loop.n_carry or not wanted:
        return None
    one = small_loop(eqn, loop, forms, bound, wanted, lambda form: len(passes.groups(form)[0]))
    if one is None:
        return None
    inside.update(_constants(forms, constant))
    return LoopKernels([one], one.producers, inside)


def _constants(forms: Sequence[Jaxpr], constant: Callable[[Any], int]) -> Slots:
    """Slots of what the jaxprs hold."""
    pairs = [p for f in forms for p in zip(f.constvars, f.consts, strict=True)]
    return {v: constant(array) for v, array in pairs}
