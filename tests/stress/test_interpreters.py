"""The same programs on other processors' instructions, and on other versions of Python.

Python 3.12 and 3.13 are tested where `python3.12` and `python3.13`, or the paths in the variable
FTRACE_PYTHONS, have the packages; `make test PYTHON=python3.12` runs everything on one of them.
"""

import os
import shutil
import subprocess
import sys

import pytest

SAMPLE = """
import numpy as np
import ftrace, ftrace.numpy as fnp
from ftrace import lax

rng = np.random.default_rng(0)
X, A, Z = rng.normal(size=37), rng.normal(size=(7, 5)), rng.normal(size=9) + 1j

def steps(x):
    n = 0
    while x > 1.0:
        x = x * 0.5
        n = n + 1
    return n + x if n > 2 else -x

def table(x):
    out = np.zeros(5)
    for i in range(5):
        out[i] = x[i] if x[i] > 0 else np.sin(x[i])
    return out

SCALE = 2.0
PROGRAMS = {
    "elementwise": (lambda x: np.exp(-x * x) * np.cos(x) + np.tanh(x) / (1 + x * x), X),
    "powers": (lambda x: np.abs(x) ** 1.5 + np.cbrt(x) + np.log1p(x * x), X),
    "integers": (lambda x: (x * 7).astype(np.int64) // 3 % 5 + np.sign(x).astype(np.int8), X),
    "halves": (lambda x: np.sqrt(np.abs(x.astype(np.float32))) * np.float32(SCALE), X),
    "sums": (lambda a: (a.sum(0), a.max(1), np.argmin(a, 1), np.cumsum(a, 0), a.mean()), A),
    "products": (lambda a: (a @ a.T, a.T @ a, np.einsum("ij,kj->ik", a, a)), A),
    "complex": (lambda z: (z * z.conj() / (z + 2), np.abs(z), np.exp(z)), Z),
    "masks": (lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x[::-1]), X),
    "gathers": (lambda x: x[np.array([3, 1, 4, 1, 5, 9, 2, 6])] + x[-8:], X),
    "table": (table, X),
}
for name, (f, x) in PROGRAMS.items():
    found, wanted = ftrace.jit(f)(x), f(x)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if name == "halves" else 1e-12, atol=1e-12,
                                   err_msg=name)
many = np.abs(X) * 100
each = ftrace.vectorize(steps)(many)
np.testing.assert_allclose(each, [steps(x) for x in many], rtol=1e-14)
np.testing.assert_allclose(ftrace.jit(ftrace.vmap(steps))(many), each, rtol=1e-14)
loss = lambda x: np.sum(np.sin(x) * steps(x[0]) + lax.fori_loop(0, 5, lambda i, c: c * x, x))
slope = ftrace.jit(ftrace.grad(loss))(X)
np.testing.assert_allclose(slope, ftrace.grad(loss)(X), rtol=1e-12)
scaled = ftrace.jit(lambda x: x * SCALE)
assert scaled(3.0) == 6.0
SCALE = 5.0
assert scaled(3.0) == 15.0
x = ftrace.jit(lambda x: np.sin(x) * 2.0 + x).lower(X)
print("ok", "zmm" in x.asm, "ymm" in x.asm)
"""


def run(tmp_path, python=sys.executable, **variables):
    program = tmp_path / "program.py"
    program.write_text(SAMPLE)
    return subprocess.run(
        [python, str(program)],
        env={**os.environ, "PYTHONPATH": os.getcwd(), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("level", "wide"), [("sse2", (False, False)), ("avx2", (False, True))])
def test_a_set_of_instructions_is_chosen_by_a_variable(level, wide, tmp_path):
    done = run(tmp_path, FTRACE_CPU=level)
    if "lacks" in done.stderr:
        pytest.skip(f"this processor has no {level}")
    assert done.stdout.split() == ["ok", *map(str, wide)], done.stderr[-3000:]


def test_a_set_that_does_not_exist_is_refused(tmp_path):
    done = run(tmp_path, FTRACE_CPU="mmx")
    assert "FTRACE_CPU is 'mmx'" in done.stderr
    assert "native, avx512, avx2, sse2" in done.stderr


def interpreters():
    """Other versions of Python on this machine."""
    named = os.environ.get("FTRACE_PYTHONS", "").split(os.pathsep)
    usual = [f"python3.{m}" for m in range(11, 15) if m != sys.version_info.minor]
    return [*filter(None, named), *usual]


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters())
def test_the_sample_runs_on_other_versions_of_python(python, tmp_path):
    found = shutil.which(python)
    packages = "import numpy, scipy, llvmlite, jaxtyping"
    if found is None or subprocess.run([found, "-c", packages], capture_output=True).returncode:
        pytest.skip(f"{python} is not here, or has not the packages")
    done = run(tmp_path, found)
    assert done.stdout[:2] == "ok", done.stderr[-3000:]
