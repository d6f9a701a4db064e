"""Programs to test calls with: planned from functions, and written by hand."""

import numpy as np

import ftrace
from ftrace.core.avals import aval
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime.native_launch import compile_program
from ftrace.lowering.kernel.launching import Launch, Operand
from ftrace.lowering.kernel.schedule import schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import (
    ARENA,
    ARGUMENT,
    RESULT,
    Program,
    Slot,
)
from tests.lowering.nests import Nest, f8

VECTOR = host().vector_bytes
F8 = np.dtype(np.float64)
X = np.arange(12.0).reshape(3, 4) / 4


def planned(fn, *args):
    """The jaxpr of a function, and its program."""
    jaxpr = ftrace.make_jaxpr(fn)(*args)
    return jaxpr, plan(jaxpr, Machine(VECTOR))


def compiled(fn, *args):
    return compile_program(planned(fn, *args)[1])


def row(impl, *, effects=None):
    """A row of one operand and a result like it, which kernels cannot do."""
    return Primitive(
        name="python",
        impl=impl,
        type=lambda x: x,
        jvp=Unsupported("not needed"),
        transpose=Unsupported("not needed"),
        batch=Unsupported("not needed"),
        doc="A function of Python.",
        effects=effects,
    )


def tripled(source, target, factor=3):
    """A kernel: `target = factor * source`, both one float."""
    k = Nest("tripled")
    x, y = k.buffer("x", "f8", []), k.buffer("y", "f8", [], "out")
    k.store(y, [], k.let("mul", k.load(x), f8(factor)))
    kernel = k.kernel()
    return Launch(
        kernel, schedule(kernel, VECTOR), (Operand(source, 0, ()), Operand(target, 0, ())), ()
    )


def scalar_program(*dtypes, steps, callbacks=(), arena=()):
    """Arguments of these dtypes, a result like the last one, and places in the arena.

    The table starts with 0 and 8: no offset, and the bytes of a float.
    """
    slots = [Slot(ARGUMENT, aval((), np.dtype(d)), i) for i, d in enumerate(dtypes)]
    slots.append(Slot(RESULT, slots[-1].aval, 0))
    slots += [Slot(ARENA, aval((), np.dtype(d)), 2 + i) for i, d in enumerate(arena)]
    table = (0, 8, *(64 * i for i in range(len(arena))))
    return Program(
        tuple(slots), table, tuple(steps), tuple(callbacks), (), 64 * len(arena), (False,)
    )


def below(source, target, limit):
    """A kernel: `target = source < limit`."""
    k = Nest("below")
    x, y = k.buffer("x", "f8", []), k.buffer("y", "b1", [], "out")
    k.store(y, [], k.let("lt", k.load(x), f8(limit)))
    kernel = k.kernel()
    operands = (Operand(source, 0, ()), Operand(target, 0, ()))
    return Launch(kernel, schedule(kernel, VECTOR), operands, ())
