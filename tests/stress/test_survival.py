"""Every program of programs.py, `--runs` times, each within a minute."""

import subprocess
import sys

import pytest

from tests.stress.programs import MEMORY, PROGRAMS

FAST = (
    "eight threads make the first calls of a process",
    "forks while another thread compiles",
    "Ctrl-C inside every kind of compiled loop",
)


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS]
)
def test_it_survives(name, request, tmp_path):
    text, printed = PROGRAMS[name]
    program = tmp_path / "program.py"  # a file, so that its functions can be lifted
    program.write_text(text)
    runs = request.config.getoption("--runs")
    once, size = (1, runs) if name == MEMORY else (runs, 1)
    for _ in range(once):
        done = subprocess.run(
            [sys.executable, str(program), str(size)],
            capture_output=True,
            text=True,
            timeout=90 * size,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, printed), done.stderr[-4000:]
        assert not done.stderr
