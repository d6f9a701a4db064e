"""Lifted code knows NumPy's rarer functions before anybody has named them: modules load late."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
CALLS = {
    "np.linalg.norm([x, 1.0])": 0.5734623443633283,
    "np.linalg.det([[x, 1.0], [1.0, 2.0]])": 2.0,
    "np.fft.fft([x, 1.0]).real.sum()": 2.0,
    "np.polyval([x, 1.0], 3.0)": 3.0,
    "np.pad([x, 2.0], 1, mode='edge').sum()": 2.0,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_lists_is_the_first_use(call, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        f"import numpy as np, ftrace\ndef f(x):\n    return {call}\nprint(ftrace.grad(f)(0.7))\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        cwd=HERE,
        env={"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert float(done.stdout) == pytest.approx(CALLS[call], rel=1e-12)
