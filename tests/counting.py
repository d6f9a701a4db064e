"""A primitive that counts: how often is a known primal evaluated?"""

import numpy as np

from ftrace.core.primitive import Primitive, Unsupported
from ftrace.primitives.elementwise import cos, mul


class CountedSin:
    """`sin` as a user's primitive; `runs` is how often its value was computed."""

    def __init__(self):
        self.runs = 0
        self.row = Primitive(
            name="counted_sin",
            impl=self.impl,
            type=lambda x: x,
            jvp=lambda p, t: (self.row(*p), mul(t[0], cos(p[0]))),
            transpose=Unsupported("not linear"),
            batch=lambda axis, values, dims: (self.row(*values), dims[0]),
            doc="Sine, counted.",
        )

    def impl(self, x):
        self.runs += 1
        return np.sin(x)
