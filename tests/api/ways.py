"""Every way to ask for a gradient or Hessian of a function of one vector, for comparison."""

import numpy as np

import ftrace
from ftrace import lax

GRADIENTS = {
    "grad": ftrace.grad,
    "value_and_grad": lambda f: lambda x: ftrace.value_and_grad(f)(x)[1],
    "jvp": lambda f: lambda x: np.array([ftrace.jvp(f, (x,), (e,))[1] for e in np.eye(x.size)]),
    "linearize": lambda f: (
        lambda x: np.array([ftrace.linearize(f, x)[1](e) for e in np.eye(x.size)])
    ),
    "vjp": lambda f: lambda x: ftrace.vjp(f, x)[1](1.0)[0],
    "jacfwd": ftrace.jacfwd,
    "jacrev": ftrace.jacrev,
    "jit of grad": lambda f: ftrace.jit(ftrace.grad(f)),
    "jit of jacfwd": lambda f: ftrace.jit(ftrace.jacfwd(f)),
    "grad of jit": lambda f: ftrace.grad(ftrace.jit(f)),
    "grad of checkpoint": lambda f: ftrace.grad(ftrace.checkpoint(f)),
    "vmap of grad": lambda f: lambda x: ftrace.vmap(ftrace.grad(f))(np.stack([1.01 * x, x]))[1],
    "jit of vmap of grad": lambda f: (
        lambda x: ftrace.jit(ftrace.vmap(ftrace.grad(f)))(np.stack([1.01 * x, x]))[1]
    ),
    "grad of vmap": lambda f: (
        lambda x: ftrace.grad(lambda v: ftrace.vmap(f)(v)[1])(np.stack([1.01 * x, x]))[1]
    ),
    "grad of cond": lambda f: ftrace.grad(lambda x: lax.cond(x[0] > -1e9, f, lambda y: y[0], x)),
}

HESSIANS = {
    "hessian": ftrace.hessian,
    "jit of hessian": lambda f: ftrace.jit(ftrace.hessian(f)),
    "hessian of jit": lambda f: ftrace.hessian(ftrace.jit(f)),
    "jacfwd of jacfwd": lambda f: ftrace.jacfwd(ftrace.jacfwd(f)),
    "jacrev of jacrev": lambda f: ftrace.jacrev(ftrace.jacrev(f)),
    "jacrev of jacfwd": lambda f: ftrace.jacrev(ftrace.jacfwd(f)),
    "vmap of hessian": lambda f: (
        lambda x: ftrace.vmap(ftrace.hessian(f))(np.stack([1.01 * x, x]))[1]
    ),
    "jacfwd of grad of checkpoint": lambda f: ftrace.jacfwd(ftrace.grad(ftrace.checkpoint(f))),
}


def differences(f, x, step=1e-6):
    """The Jacobian by central differences, directions last."""
    x = np.asarray(x, float)
    columns = []
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = step
        columns.append((np.asarray(f(x + d)) - np.asarray(f(x - d))) / (2 * step))
    return np.stack(columns, -1).reshape(np.shape(f(x)) + x.shape)
