"""The kernels of a few programs, as `jit(f).lower(*args).kernels` prints them.

They show what fusion makes of a program: one kernel for a softmax, views that are nothing but
offsets and steps, complex numbers in their parts, float16 rounded after every operation.
"""

import numpy as np
import pytest

import ftrace
from ftrace.lowering.kernel.show import text
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from tests.lowering import programs

X, V = np.ones((3, 4)), np.ones(5)
Z, H = np.ones(4, np.complex128), np.ones(4, np.float16)
KERNELS = {
    "softmax": (programs.softmax, (X,)),
    "layernorm": (programs.layernorm, (X, V[:4], V[:4])),
    "gradient of layernorm": (
        ftrace.grad(programs.layernorm_loss, argnums=(0, 1)),
        (X, V[:4], V[:4]),
    ),
    "gradient of rosenbrock": (ftrace.grad(programs.rosenbrock), (V,)),
    "cell": (programs.cell, (X,) * 6),
    "complex": (programs.product, (Z, Z)),
    "half": (programs.half, (H,)),
    "views": (programs.views, (X,)),
    "running sums": (programs.running, (X,)),
    "argmax": (programs.largest, (X,)),
    "while": (programs.halve_until_small, (V,)),
    "cond": (programs.chosen, (V,)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_print_as_in_their_golden_section(name, golden):
    f, args = KERNELS[name]
    program = plan(ftrace.make_jaxpr(f)(*args), Machine(64))
    kernels = "\n\n".join(text(launch.kernel) for launch in program.launches)
    golden.check("kernels.txt", name, kernels)


def test_no_golden_kernel_is_out_of_date(golden):
    assert set(golden.sections("kernels.txt")) == set(KERNELS)
