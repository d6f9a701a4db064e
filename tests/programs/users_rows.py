"""Primitives of users, three times x, under whatever name: one for each way to be computed."""

import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.control.rows.cond import cond_call
from ftrace.control.rows.jit import jit_call
from ftrace.control.rows.scan import scan_call
from ftrace.core.avals import typeof
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.lower import Branch, Call, Iteration, Layout, Pointwise
from ftrace.core.scan_layout import ScanLoop
from ftrace.interpreters.captures import owned
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.arithmetic import mul


def tripled(name, lower=None):
    """Three times x, under a name."""
    row = ftrace.Primitive(
        name=name,
        impl=lambda x: mul(3.0, x),
        type=lambda x: x,
        jvp="linear",
        transpose=lambda ct, x: (row(ct),),
        batch=lambda axis, values, dims: (row(*values), dims[0]),
        lower=lower,
        doc="Three times x.",
    )
    return row


def element(b, out, x):
    """An element of three times x."""
    return b.op("mul", b.constant(3, out.dtype), x)


def of_relative(name, relative, translated, lower):
    """A row that holds a jaxpr and has the rules of one of ftrace's, whose params are others."""

    def column(rule):
        def translating(*args, jaxpr):
            return rule(*args, **translated(jaxpr))

        return translating

    row = ftrace.Primitive(
        name=name,
        impl=lambda *args, jaxpr: owned(eval_jaxpr(jaxpr, args[-1:]), (*args, *jaxpr.consts)),
        type=lambda *avals, jaxpr: jaxpr.out_avals,
        jvp=column(relative.jvp),
        transpose=column(relative.transpose),
        batch=column(relative.batch),
        partial=column(relative.partial),
        mask="call",
        zeros=True,
        lower=lower,
        multiple=True,
        doc="A jaxpr.",
    )
    first = (np.int64(0),) if relative is cond_call else ()

    def function(x):
        jaxpr = trace_closed(lambda v: [mul(3.0, v)], [typeof(x)])
        return row(*first, x, jaxpr=jaxpr)[0]

    return function


KINDS = {
    "call": lambda name: of_relative(
        name,
        jit_call,
        lambda jaxpr: {"jaxpr": jaxpr, "name": "tripled"},
        Call(lambda avals, jaxpr: jaxpr),
    ),
    "branch": lambda name: of_relative(
        name,
        cond_call,
        lambda jaxpr: {"branches": (jaxpr, jaxpr)},
        Branch(lambda jaxpr: (jaxpr, jaxpr)),
    ),
    "loop": lambda name: of_relative(
        name,
        scan_call,
        lambda jaxpr: {"body": jaxpr, "loop": ScanLoop(1, False, 0, 1)},
        Iteration(lambda operands, jaxpr: Layout(jaxpr, None, 0, 1, 1)),
    ),
    "library": tripled,
    "elementwise": lambda name: tripled(name, Pointwise(element)),
}
"""Each kind: a function of a name that gives a function of x."""

X = np.array([0.5, 2.0])


class Chain:
    """Functions of which each row of some has a part; `ruled`'s derivative is a user's rule."""

    def __init__(self, rows):
        self.rows = rows
        self.ruled = ftrace.custom_vjp(self.summed)
        self.ruled.defvjp(lambda x: (self.summed(x), None), lambda _, ct: (self.summed(ct),))

    def summed(self, x):
        """x + x, by the way of every row."""
        for row in self.rows:
            x = fnp.subtract(row(x), fnp.multiply(x, 2))
        return fnp.add(x, x)

    def squared(self, x):
        """The sum of x ** 2."""
        for row in self.rows:
            x = fnp.subtract(row(x), fnp.multiply(x, 2))
        return fnp.sum(fnp.multiply(x, x))

    def looped(self, x):
        """4 x, in a loop of two iterations."""
        start = (0, x)
        return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, self.summed(c[1])), start)[1]

    def scanned(self, x):
        """4 x, in a loop of which the number of iterations is known."""
        return lax.scan(lambda c, _: (self.summed(c), None), x, None, length=2)[0]

    def kept(self, x):
        """2 x, of which the backward pass keeps everything."""
        policy = ftrace.checkpoint_policies.everything_saveable
        return ftrace.checkpoint(self.summed, policy=policy)(x)


TRANSFORMED = {
    "nothing": (lambda c: c.summed, lambda x: 2 * x),
    "jvp": (lambda c: lambda x: ftrace.jvp(c.summed, (x,), (x,))[1], lambda x: 2 * x),
    "linearize": (lambda c: lambda x: ftrace.linearize(c.summed, x)[1](x), lambda x: 2 * x),
    "vjp": (lambda c: lambda x: ftrace.vjp(c.summed, x)[1](x)[0], lambda x: 2 * x),
    "linear_transpose": (
        lambda c: lambda x: ftrace.linear_transpose(c.summed, x)(x)[0],
        lambda x: 2 * x,
    ),
    "grad": (lambda c: ftrace.grad(c.squared), lambda x: 2 * x),
    "hessian": (lambda c: ftrace.hessian(c.squared), lambda x: 2 * np.eye(2)),
    "jet": (
        lambda c: lambda x: ftrace.jet(c.squared, (x,), ((x, x),))[1][1],
        lambda x: 4 * (x @ x),
    ),
    "vmap": (lambda c: ftrace.vmap(c.summed), lambda x: 2 * x),
    "grad of vmap": (
        lambda c: ftrace.grad(lambda x: ftrace.vmap(c.squared)(x[None]).sum()),
        lambda x: 2 * x,
    ),
    "checkpoint": (
        lambda c: ftrace.grad(lambda x: ftrace.checkpoint(c.squared)(x)),
        lambda x: 2 * x,
    ),
    "policy": (lambda c: ftrace.grad(lambda x: c.kept(x).sum()), lambda x: np.full(2, 2.0)),
    "scan": (lambda c: c.scanned, lambda x: 4 * x),
    "grad of scan": (
        lambda c: ftrace.grad(lambda x: c.scanned(x).sum()),
        lambda x: np.full(2, 4.0),
    ),
    "while": (lambda c: c.looped, lambda x: 4 * x),
    "jvp of while": (lambda c: lambda x: ftrace.jvp(c.looped, (x,), (x,))[1], lambda x: 4 * x),
    "cond": (
        lambda c: lambda x: lax.cond(x[0] > 0, c.summed, lambda x: x, x),
        lambda x: 2 * x,
    ),
    "rule": (lambda c: ftrace.grad(lambda x: c.ruled(x).sum()), lambda x: np.full(2, 2.0)),
    "rule forwards": (
        lambda c: lambda x: ftrace.jvp(c.ruled, (x,), (x,))[1],
        lambda x: 2 * x,
    ),
    "vectorize": (lambda c: ftrace.vectorize(c.summed), lambda x: 2 * x),
}
"""What is done to a chain, and what comes of x."""
