"""A module of functions that ftrace decorates, for test_naming.py: pickles refer to it."""

import numpy as np

import ftrace


@ftrace.jit
def cube(x):
    return x**3


def power(x, n):
    return x**n


@ftrace.vectorize
def positive(x):
    return x if x > 0 else -x


@ftrace.lift
def lifted(x):
    return -x if x < 0 else x


@ftrace.custom_jvp
def steep(x):
    return x * 2


steep.defjvp(lambda primals, tangents: (steep(*primals), 5 * tangents[0]))


@ftrace.custom_vjp
def flat(x):
    return x * 2


flat.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct,))


class Model:
    def __init__(self, w):
        self.weights = [w]
        self.step = ftrace.jit(lambda x: x * w)

    @ftrace.jit
    def method(self):
        return self + 1


class Plain:
    def __init__(self):
        self.step = cube


twice = ftrace.Primitive(
    name="twice",
    impl=lambda x: 2 * np.asarray(x),
    type=lambda x: x,
    jvp="linear",
    transpose=lambda ct, x: (twice(ct),),
    batch=lambda axis, values, dims: (twice(*values), dims[0]),
    doc="Two times x.",
)

FUNCTIONS = [cube, positive, lifted, steep, flat, Model.method]
