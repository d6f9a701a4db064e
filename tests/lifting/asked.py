"""A module whose functions ask what a tracer cannot be asked."""

import numpy as np


def is_array(x):
    return type(x) is np.ndarray


def by_way_of(x):
    return is_array(x)


def kind(x):
    return 2.0 if type(x) is float else 3.0


class Box:
    def __init__(self, x):
        self.x = x

    @property
    def kind(self):
        return kind(self.x)

    def __mul__(self, other):
        return self.x * kind(other)


def boxed(x):
    return Box(x)


TABLE = {"kind": kind}


class SETTINGS:
    flag = True
