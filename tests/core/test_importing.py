"""What `import ftrace` and the first use of its names load, and what they leave for later."""

import subprocess
import sys

import pytest

HEAVY = (
    *("numpy", "scipy", "llvmlite", "jaxtyping", "cupy", "typing_extensions"),
    *("typing", "re", "enum", "contextlib"),  # four fifths of what an empty package may cost
)
LATER = (  # what only a failing trace, a compiled call or an error needs
    *(
        "ftrace.lifting.lifted_calls",
        "ftrace.lifting.substitutes.python",
        "ftrace.cpu.cpu_backend",
        "difflib",
        "scipy",
    ),
    *("llvmlite", "ftrace.control.guards", "numpy.random", "hashlib", "sysconfig"),
    *("numpy.fft", "ftrace.numpy.linalg", "ftrace.numpy.scipy_special", "ftrace.numpy.sets"),
)


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after some code."""
    shown = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import ftrace", HEAVY),
        ("import ftrace; ftrace.numpy.sin, ftrace.grad, ftrace.vmap, ftrace.jit", LATER),
    ],
)
def test_an_import_loads_what_is_needed_at_once(code: str, absent: tuple[str, ...]) -> None:
    found = loaded(code)
    assert "ftrace" in found
    assert found.isdisjoint(absent)


IN_THE_MIDDLE = """
import sys
import ftrace

SCALE = [2.0]
inner, outer = ftrace.jit(lambda x: x * SCALE[0]), ftrace.jit(lambda x: x + SCALE[0])
found = []


class Handler:  # as a signal's that comes while the walk of functions is being imported
    def find_spec(self, name, path=None, target=None):
        if name == "ftrace.control.freshness.stack":
            found.append(inner(3.0))


sys.meta_path.insert(0, Handler())
found.append(outer(3.0))
SCALE[0] = 5.0
print([float(x) for x in (*found, inner(3.0), outer(3.0), inner(3.0))])
"""


def test_a_handler_may_trace_in_the_middle_of_an_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_MIDDLE], check=True, capture_output=True, text=True
    )
    assert done.stdout.split("\n")[0] == "[6.0, 5.0, 15.0, 8.0, 15.0]"


NEW_GENERATOR = """
import sys
import ftrace


def f(x):
    import numpy
    return x + numpy.random.default_rng(0).normal(), numpy.random.rand()


ftrace.vmap, ftrace.numpy.arange
assert "numpy.random" not in sys.modules
try:
    ftrace.vmap(f)(ftrace.numpy.arange(3.0))
except ftrace.errors.LiftError as error:
    print("np.random" in str(error))
"""


def test_a_generator_that_a_trace_loads_is_found() -> None:
    done = subprocess.run([sys.executable, "-c", NEW_GENERATOR], check=False, capture_output=True)
    assert done.stdout.strip() == b"True", done.stderr


DOORS = """
import sys
import numpy as np
import ftrace

assert "ftrace.numpy.linalg" not in sys.modules
print(ftrace.grad(np.linalg.det)(np.eye(2))[0, 0])  # NumPy's function brings its rule
assert "polyval" in dir(ftrace.numpy)
scope = {}
exec("from ftrace.numpy import *", scope)
print(scope["polyval"] is ftrace.numpy.polyval, scope["fft"] is ftrace.numpy.fft, "sin" in scope)
print(hasattr(ftrace.numpy, "no_such_name"))
"""


def test_what_is_loaded_late_is_there_for_every_door() -> None:
    done = subprocess.run([sys.executable, "-c", DOORS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1.0", "True", "True", "True", "False"]
