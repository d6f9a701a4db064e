"""The check on a GPU, rehearsed with steps that need none: times are kept, nothing said is lost."""

import subprocess
import sys
import time

import pytest

from tools import gpu_check
from tools.gpu_check import Step

STEPS = (
    Step("hangs", ["-c", "import time; print('before', flush=True); time.sleep(20)"], 0.5),
    Step("fails", ["-c", "print('in vain'); raise SystemExit(3)"], 20),
    Step("works", ["-c", "import os; print(os.environ['FTRACE_GPU_LAWS'])"], 20),
)


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "steps", lambda: STEPS)


def test_a_step_that_hangs_or_fails_does_not_stop_the_next(rehearsed, tmp_path, capsys):
    began = time.monotonic()
    assert gpu_check.main(str(tmp_path)) == 1
    assert time.monotonic() - began < 30
    kept = (tmp_path / "check.txt").read_text()
    assert kept == capsys.readouterr().out
    order = [
        "before",
        "hangs was ended after 0.5 s",
        "in vain",
        "fails ended with 3",
        "\nall\n",
        "works ended with 0",
    ]
    places = [kept.index(text) for text in order]
    assert places == sorted(places)


def test_all_is_well_where_every_step_is(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_check, "steps", lambda: STEPS[2:])
    assert gpu_check.main(str(tmp_path)) == 0


def test_the_steps_fit_into_four_minutes():
    assert sum(step.seconds for step in gpu_check.steps()) <= 240
    for step in gpu_check.steps():
        for name in step.arguments:
            assert not name.startswith("tests/") or (gpu_check.ROOT / name).exists()


def test_a_check_that_is_killed_leaves_what_was_said(tmp_path):
    program = (
        "import sys\nfrom tools import gpu_check\nfrom tests.tools.test_gpu_check import STEPS\n"
        "gpu_check.steps = lambda: STEPS[2:] + (gpu_check.Step('long', STEPS[0].arguments, 60),)\n"
        f"gpu_check.main({str(tmp_path)!r})\n"
    )
    log = tmp_path / "check.txt"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=gpu_check.ROOT, stdout=subprocess.DEVNULL
    ) as run:
        end = time.monotonic() + 60
        while not (log.exists() and "before" in log.read_text()):
            assert time.monotonic() < end
            time.sleep(0.05)
        run.kill()
    assert "works ended with 0" in log.read_text()
