"""docs/extending.md: what it says to write is all that is to be written, and laws hold for it.

Each block of the page is written into a copy of ftrace, a block of `+` lines behind the line above
it. Then a process of its own runs the laws on what is new, or asks the program below.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import without

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(python|diff)\n(.*?)```", (ROOT / "docs/extending.md").read_text(), re.S)
FILES = [text for kind, text in BLOCKS if kind == "python"]
LINES = [text for kind, text in BLOCKS if kind == "diff"]

DOUBLED = """
import numpy as np
import ftrace
f = ftrace.jit(lambda x: np.sin(x) * 2)
lowered, x = f.lower(np.ones(3)), np.linspace(0.1, 0.3, 3)
assert lowered.passes[-1] == "doubling", lowered.passes
assert "add" in lowered.kernels[0] and "mul" not in lowered.kernels[0]
np.testing.assert_array_equal(f(x), 2 * np.sin(x))
"""
EVERYWHERE = """
import numpy as np
import ftrace
from ftrace.control.rows.repeated import repeated

jaxpr = ftrace.make_jaxpr(lambda a, b: (b, a + np.sin(b)))(0.5, 1.0)
def f(x):
    return repeated(x, x * 2, jaxpr=jaxpr, times=4)[1]
def g(x):
    a, b = x, x * 2
    for _ in range(4):
        a, b = b, a + np.sin(b)
    return b
x = 0.25
for each in (f, ftrace.jit(f)):
    assert each(x) == g(x)
    np.testing.assert_allclose(ftrace.grad(each)(x), ftrace.grad(g)(x), rtol=1e-13)
    np.testing.assert_allclose(ftrace.jvp(each, (x,), (1.0,))[1], ftrace.grad(g)(x), rtol=1e-13)
    kept = ftrace.checkpoint(each, policy=ftrace.checkpoint_policies.dots_saveable)
    np.testing.assert_allclose(ftrace.grad(kept)(x), ftrace.grad(g)(x), rtol=1e-13)
    np.testing.assert_allclose(
        ftrace.vmap(each)(np.array([x, 1.0])), [g(x), g(1.0)], rtol=1e-14
    )
kernels = ftrace.jit(f).lower(x).kernels
assert len(kernels) == 2 and "sin" in kernels[1] and "for" in kernels[1], kernels
assert not ftrace.check_differentiable(f, x).findings
assert not ftrace.debug.blame(f, x)
assert ftrace.saved_residuals(f, x)
"""


def written(folder, files, lines):
    """A copy of ftrace, in which these blocks are written."""
    shutil.copytree(ROOT / "ftrace", folder / "ftrace")
    for text in files:
        path = folder / text.partition("\n")[0].removeprefix("# ")
        assert not path.exists()
        path.write_text(text.partition("\n")[2])
    for text in lines:
        name, before, new, after, _ = text.split("\n")
        path = folder / name
        found = path.read_text()
        known = f"{before[1:]}\n{after[1:]}\n"
        assert new[0] == "+"
        assert found.count(known) == 1
        path.write_text(found.replace(known, f"{before[1:]}\n{new[1:]}\n{after[1:]}\n"))


def run(folder, program, **settings):
    """A program of the copy that ends well."""
    path = os.pathsep.join((str(folder), str(ROOT)))
    settings = {**os.environ, **settings, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=settings, capture_output=True, text=True
    )
    assert not done.returncode, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def laws(folder, *options, tests="tests/laws", **settings):
    """How many laws hold; ftrace is that of the copy, the tests are ours."""
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}", *options]
    program = f"""
import sys, pathlib, ftrace
assert pathlib.Path(ftrace.__file__).is_relative_to({str(folder)!r})
import pytest
sys.exit(pytest.main({[*words, str(ROOT / tests)]!r}))
"""
    found = run(folder, program, FTRACE_LAWS="all", **settings)
    passed = re.search(r"(\d+) passed", found)
    assert passed is not None, found
    return int(passed[1])


def test_an_elementwise_primitive_is_one_file_and_one_line(tmp_path):
    written(tmp_path, [FILES[0]], [LINES[0]])
    assert laws(tmp_path, FTRACE_LAWS_ROWS="serpentine") > 200
    if not without():
        on_a_device = {"tests": "tests/gpu/test_laws.py", "FTRACE_GPU_LAWS": "all"}
        assert laws(tmp_path, FTRACE_LAWS_ROWS="serpentine", **on_a_device) == 8


# The samples of ftrace's own rows cover more than those of the page do.
FEW = ("-k", "not samples and not samples_hold")


def test_a_control_primitive_is_one_file(tmp_path):
    written(tmp_path, [FILES[1]], [])
    assert laws(tmp_path, *FEW, FTRACE_LAWS_MODULE="ftrace.control.rows.repeated") > 20
    run(tmp_path, EVERYWHERE)


def test_a_pass_over_kernels_is_one_file_and_one_line(tmp_path):
    written(tmp_path, [FILES[2]], [LINES[1]])
    run(tmp_path, DOUBLED)
    assert laws(tmp_path, "-k", "jit_is_the_function", FTRACE_LAWS_ROWS="mul,sin,integer_pow") > 10


def test_a_primitive_of_a_user_is_one_file(tmp_path):
    written(tmp_path, [FILES[3]], [])
    assert laws(tmp_path, *FEW, FTRACE_LAWS_MODULE="cubes") > 20
