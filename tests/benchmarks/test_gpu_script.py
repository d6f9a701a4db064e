"""The measurements on a GPU, without one: cases, clocks, children that die or hang, lines."""

import json
import os
import re
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from benchmarks.gpu import clocks, figures, parent, profilers, shown
from benchmarks.gpu.case import Case, ends, everything, framework, numbers
from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.child import MARKER, Session, answer
from benchmarks.gpu.systems import SYSTEMS, Ftrace, entry_kernels
from benchmarks.pool import ROOT

pytestmark = pytest.mark.slow

TINY = all_cases("tiny")
FULL = all_cases("full")
PAPER = all_cases("paper")


def jobs(cases, system):
    return parent.jobs_of(cases, system, "")


# --- cases


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "column"), jobs(TINY, "ftrace"))
def test_ftrace_is_right_on_numpy_arrays(name, column):
    found = answer(Session(Ftrace(), TINY, "check"), name, column)
    assert found["status"] == "ok", found


@pytest.mark.parametrize("scale", ["quick", "full", "paper"])
def test_every_column_is_of_a_known_framework_and_moves_something(scale):
    for case in all_cases(scale).values():
        assert {framework(column) for column in case.builds} <= set(SYSTEMS)
        assert case.moved or case.step in (0, 1, 7)


def test_the_plan_has_the_steps_and_the_sizes_of_the_paper():
    assert {case.step for case in FULL.values()} == {0, 1, 2, 3, 4, 5, 6, 7}
    for n in (512, 1024, 2048, 4096, 8192):
        assert FULL[f"cell: gradient n={n}"].moved == 8 * 4 * n * n
    arities = [int(name[9:].split(",")[0]) for name in FULL if name.startswith("arity")]
    assert sorted(set(arities)) == [*range(1, 11), 14, 18, 20, 32]


def test_the_paper_has_its_three_figures_and_its_sizes():
    assert {case.step for case in PAPER.values()} == {2, 3, 4}
    for n in (512, 1024, 2048):
        assert {
            "ftrace",
            "ftrace: where, op by op",
            "cuda: paper",
            "jax",
            "triton",
            "torchc",
        } <= set(PAPER[f"cell: gradient n={n}"].builds)
        assert "cuda: lazy_x1" in PAPER[f"control random n={n}"].builds
    assert [f"arity: N={k}, n=1024" in PAPER for k in range(1, 21)] == [True] * 20


def _case(part, exact=False):
    return Case(
        step=1, name="twice", inputs=tuple, builds={}, reference=lambda x: [2 * x], part=part,
        exact=exact,
    )  # fmt: skip


@pytest.mark.parametrize("part", [everything, ends(4)])
@pytest.mark.parametrize("row", [0, 50, 99])
def test_a_wrong_row_is_found(part, row):
    case, x = _case(part), numbers((100, 3))
    y = 2 * x
    assert case.wrong(case.compared([x], 100), case.compared([y], 100)) == ""
    y[row, 2] = np.nan
    assert "output 0" in case.wrong(case.compared([x], 100), case.compared([y], 100))


def test_bits_and_types_count_where_a_case_is_exact():
    case, x = _case(everything, exact=True), numbers((4,))
    assert case.wrong([x], [2 * x]) == ""
    assert case.wrong([x], [np.nextafter(2 * x, np.float32(9))]) == "not the same bits"
    assert case.wrong([x], [(2 * x).astype(np.float64)]) == "not the same bits"


def test_other_turns_have_other_numbers_and_no_row_is_like_the_next():
    a, b = numbers((64, 64)), numbers((64, 64), 1)
    assert not np.any(a == b)
    assert len(np.unique(numbers((3000, 4096))[:, 0])) > 2900
    assert numbers((5,), 0, -2.0, 2.0).dtype == np.float32


# --- clocks


def test_results_live_until_their_inputs_come_again():
    alive = []

    class Result:
        def __init__(self, name):
            alive.append(name)
            self.name = name

        def __del__(self):
            alive.remove(self.name)

    calls = [lambda k=k: Result(k) for k in range(3)]
    run = clocks.in_turn(calls, 5)
    run()
    assert sorted(alive) == [0, 1, 2]


def test_long_calls_are_timed_less_often():
    calls = [lambda: time.sleep(0.03)]
    assert clocks.times_of(calls, 20, 0.03) == 1
    assert clocks.times_of(calls, 20, 1e-6) == 20
    assert clocks.times_of(calls * 32, 20, 1e-6) == 32
    found = clocks.by_the_host([lambda: time.sleep(0.002)], lambda: None, 20)
    assert 0.002 <= found["stream"] < 0.02


# --- children


def _children(monkeypatch, tmp_path, body, seconds=20.0):
    """Let a script be the child of `ftrace`; it gets the request as `jobs`."""
    script = tmp_path / "child.py"
    script.write_text(
        "import json, sys, os, time\n"
        "say = lambda **r: print(json.dumps(r), flush=True)\n"
        "say(status='ok', version='1')\n"
        "jobs = json.loads(sys.stdin.readline())['jobs']\n" + textwrap.dedent(body)
    )
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
    python.chmod(0o755)
    monkeypatch.setenv("FTRACE_BENCH_PYTHON_FTRACE", str(python))
    asked = [("a", "ftrace"), ("b", "ftrace"), ("c", "ftrace")]
    talk = parent.conversation("ftrace", asked, "tiny", "time", seconds, tmp_path / "log.txt")
    hello, *records = talk
    assert hello == {"system": "ftrace", "status": "ok", "version": "1"}
    return [(r["case"], r["status"], r.get("reason", "")) for r in records]


def test_a_child_that_dies_loses_one_job(monkeypatch, tmp_path):
    found = _children(
        monkeypatch,
        tmp_path,
        """
        for case, column in jobs:
            if case == "b":
                os.abort()
            say(case=case, column=column, status="ok")
        """,
    )
    assert found == [("a", "ok", ""), ("b", "failed", "the process died"), ("c", "ok", "")]


def test_a_child_that_gives_up_is_started_again_behind_what_failed(monkeypatch, tmp_path):
    found = _children(
        monkeypatch,
        tmp_path,
        """
        for case, column in jobs:
            say(case=case, column=column, status="failed" if case == "a" else "ok")
            if case == "a":
                sys.exit(3)
        """,
    )
    assert found == [("a", "failed", ""), ("b", "ok", ""), ("c", "ok", "")]


def test_a_child_that_hangs_is_ended_with_what_it_started(monkeypatch, tmp_path):
    monkeypatch.setattr(parent, "ONE_JOB", 0.5)
    pid = tmp_path / "pid"
    found = _children(
        monkeypatch,
        tmp_path,
        f"""
        import subprocess
        if jobs[0][0] == "a":
            sleeper = subprocess.Popen(["sleep", "1000"])
            open({str(pid)!r}, "w").write(str(sleeper.pid))
            time.sleep(1000)
        for case, column in jobs:
            say(case=case, column=column, status="ok")
        """,
    )
    assert found == [("a", "failed", "took too long"), ("b", "ok", ""), ("c", "ok", "")]
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", pid.read_text()], capture_output=True, text=True, check=False
    )
    assert state.stdout.strip()[:1] in ("", "Z")


def test_jobs_without_time_are_said_to_have_had_none(monkeypatch, tmp_path):
    body = "say(case=jobs[0][0], column='ftrace', status='ok'); time.sleep(1.2)"
    found = _children(monkeypatch, tmp_path, body, seconds=1.0)
    assert found[0] == ("a", "ok", "")
    assert found[1:] == [(case, "not run", "no time was left") for case in "bc"]


def test_a_framework_that_is_absent_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("FTRACE_BENCH_DEVICE", "cpu")
    asked = jobs(TINY, "triton")
    found = [*parent.conversation("triton", asked, "tiny", "time", 60.0, tmp_path / "log.txt")]
    reason = "does not run on the cpu here"
    assert found == [{"system": "triton", "status": "absent", "reason": reason}]


# --- tools

NCU = """==PROF== Connected to process 1
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","MARK","gpu__time_duration.sum","nsecond","900"
"0","MARK","launch__registers_per_thread","register/thread","16"
"1","k_0","gpu__time_duration.sum","nsecond","30,000"
"1","k_0","dram__bytes.sum","byte","1,000"
"1","k_0","launch__registers_per_thread","register/thread","40"
"2","k_0","gpu__time_duration.sum","nsecond","20,000"
"2","k_0","launch__registers_per_thread","register/thread","32"
"3","MARK","gpu__time_duration.sum","nsecond","900"
"4","MARK","gpu__time_duration.sum","nsecond","900"
"5","j","gpu__time_duration.sum","usecond","5"
"""


def test_kernels_that_were_profiled_are_counted_by_job():
    first, second, third = profilers.summaries(NCU.replace("MARK", MARKER))
    assert first["seconds"] == pytest.approx(50e-6 / profilers.PROFILED)
    assert first["dram"] == 1000 / profilers.PROFILED
    assert first["registers"] == 40
    assert first["kernels"] == 2 / profilers.PROFILED
    assert second is None
    assert third["seconds"] == pytest.approx(5e-6 / profilers.PROFILED)
    assert profilers.summaries("==ERROR== no permission") == []


def test_the_sanitizers_verdict_is_its_summary_and_the_number_of_right_results():
    lines = [{"status": "ok"}] * 4
    text = "\n".join([*map(json.dumps, lines), "========= ERROR SUMMARY: 0 errors"])
    done = subprocess.CompletedProcess([], 0, text)
    assert profilers.verdict(done, 4) == "0 errors; 3 of 4 results right"
    refused = subprocess.CompletedProcess([], 1, "Device not supported\n")
    assert profilers.verdict(refused, 4) == "did not run (Device not supported)"
    assert profilers.verdict(None, 4) == "took too long"


def test_what_is_profiled_and_sanitized_exists():
    for pattern in profilers.PROFILES:
        assert any(re.search(pattern, name) for name in FULL), pattern
    for pattern in profilers.SANITIZED:
        assert any(re.search(pattern, name) for name in TINY), pattern


def test_at_the_papers_sizes_every_column_of_every_framework_is_profiled(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(profilers, "where", lambda tool: tool)
    monkeypatch.setattr(
        profilers, "_profiled", lambda tool, args, system, jobs, left: asked.extend(jobs) or ()
    )
    args = parent.parse(["--scale", "paper", "--out", str(tmp_path), "--systems", "cuda,ftrace"])
    assert list(profilers.profiled(args, 100.0)) == []
    columns = {(n, c) for n, case in PAPER.items() for c in case.builds}
    assert set(asked) == {(n, c) for n, c in columns if framework(c) in ("cuda", "ftrace")}


def test_fusions_of_a_compiled_program_are_counted():
    hlo = """
%fused (p: f32[3]) -> f32[3] {
  ROOT %a = f32[3]{0} fusion(%p), kind=kLoop
}
ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3]{0} parameter(0)
  %loop = f32[3]{0} fusion(f32[3]{0} %x), kind=kLoop, calls=%fused
  ROOT %out = (f32[3]{0}, f32[]) custom-call(%loop), custom_call_target="cub"
}
"""
    assert entry_kernels(hlo) == 2


# --- what is shown


def _records():
    cell, floor = "cell: gradient n=8192", "floor: 4 in, 4 out, n=8192"
    ours = {"case": cell, "column": "ftrace", "mode": "time", "status": "ok"}
    theirs = ours | {"column": "jax", "stream": 0.6e-3}
    return [
        ours | {"graph": 0.5e-3, "stream": 0.7e-3, "kernels": 1, "bytes": 8 * 4 * 8192**2},
        theirs,
        ours | {"case": floor, "column": "cuda", "graph": 0.49e-3, "stream": 0.5e-3},
        ours | {"column": "torchc", "status": "failed", "reason": "no"},
        ours | {"case": "floor: copy of 1024 MB", "column": "cuda", "graph": 0.5e-3, "stream": 1},
    ]


def test_targets_are_met_missed_or_not_measured():
    text = shown.lines(FULL, _records())
    assert "| cell: gradient n=8192 / 4 in, 4 out | 1.02 | <= 1.11 | yes |" in text
    assert "| cell: gradient n=8192 / 0.55 ms | 0.91 | <= 1.0 | yes |" in text
    assert "| cell: gradient n=8192, calls / jax | 1.17 | <= 1.0 | **no** |" in text
    assert "| cell: gradient n=8192 / torchc | - | <= 1.0 | not measured |" in text
    assert "| kernels of the cell's gradient | 1.00 | <= 1 | yes |" in text
    assert "| wrong or failed results of 1 | 0.00 | <= 0 | yes |" in text


def test_the_table_has_a_line_per_case():
    text = shown.table(FULL, _records())
    assert "share of the copy's 4.29 TB/s" in text
    assert "cell: gradient n=8192: ftrace 500 (calls 700) 100% [1 k, 8 u] | jax 600 83%" in text
    assert "failed: cell: gradient n=8192, torchc: no" in text


def test_the_figures_are_ratios_of_the_times_of_kernels():
    profiled = {"mode": "profile", "status": "ok", "kernels": 1.0, "registers": 32.0}
    profiled |= {"occupancy": 92.0, "compute": 41.0, "bandwidth": 88.0}
    records = [
        profiled | {"case": case, "column": column, "seconds": seconds}
        for case, column, seconds in (
            ("cell: gradient n=2048", "ftrace", 40e-6),
            ("cell: gradient n=2048", "ftrace: where, op by op", 200e-6),
            ("control random n=512", "ftrace", 3e-6),
            ("control rows n=512", "ftrace", 2e-6),
            ("arity: N=3, n=1024", "ftrace", 10e-6),
        )
    ]
    timed = {"case": "cell: gradient n=2048", "column": "ftrace", "mode": "time", "status": "ok"}
    text = figures.text([*records, timed | {"stream": 80e-6}])
    assert "| ftrace | - | - | 40 [1 k] |" in text
    assert "| ftrace: where, op by op | - | - | 200 = 5.00 [1 k] |" in text
    assert "of the time of a call in a stream | - | - | 50% |" in text
    assert "| ftrace | - | - | - | 1.50 | - | - | - | - | - |" in text
    assert "| 3 | 10 | 2517 | 32 | 92 | 41 | 88 |" in text
    assert "Not measured." in figures.text([])


def test_only_what_is_ours_and_wrong_makes_the_run_fail():
    ours = {"column": "ftrace: residuals kept", "status": "wrong"}
    assert shown.bad(ours)
    assert not shown.bad(ours | {"status": "not run"})
    assert not shown.bad(ours | {"column": "torchc"})


def test_every_line_is_measured():
    measured = {(name, column) for name, case in FULL.items() for column in case.builds}
    found = [
        line
        for targets in (shown.cell_targets, shown.other_targets, shown.launch_targets)
        for line in targets(FULL)
    ]
    assert len({line.text for line in found}) == len(found)
    needed = {x[:2] for line in found for x in (line.ours, line.theirs) if isinstance(x, tuple)}
    assert needed <= measured


@pytest.mark.slow
def test_the_command_writes_its_lines_and_its_tables(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--platform", "cpu", "--systems", "ftrace"]
    command += ["--only", "^[1267] ", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    records = [r for r in lines if r.get("column") == "ftrace"]
    assert {r["mode"] for r in records} == {"check", "time"}
    assert all(r["status"] == "ok" for r in records)
    assert lines[-1]["machine"]["systems"] == {"ftrace": "0.1.0"}
    targets = (tmp_path / "shown.md").read_text().split("\n\n")[-1]
    assert "| cell: gradient n=64 / triton | - | <= 1.05 | not measured |" in targets
    assert done.stdout.rstrip().endswith(targets.rstrip())
    assert "cell: gradient n=64: ftrace" in (tmp_path / "results.md").read_text()


def test_a_run_that_is_killed_leaves_its_tables(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--platform", "cpu", "--systems", "ftrace"]
    command += ["--scale", "tiny", "--out", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as run:
        table, end = tmp_path / "results.md", time.monotonic() + 120
        while not (table.exists() and "2 cell: gradient" in table.read_text()):
            assert time.monotonic() < end
            assert run.poll() is None
            time.sleep(0.01)
        run.kill()
    assert "ftrace" in table.read_text()
    assert "| cell: gradient n=64 / triton | - |" in (tmp_path / "shown.md").read_text()
    for line in (tmp_path / "results.jsonl").read_text().splitlines():
        json.loads(line)
