"""The paper's cases and the table of what they show: plans that fit, ratios that are right."""

import re

import numpy as np
import pytest

import ftrace
from benchmarks import paper, plots, pool
from benchmarks.case import in_float64, mismatch
from benchmarks.cases import all_cases, arity, divergence, hmlstm, newton, projectile
from benchmarks.cases.functions import hmlstm_inputs, hmlstm_partials
from benchmarks.systems import SYSTEMS

LINES = [
    *paper.cell_lines(),
    *paper.product_lines(),
    *paper.loop_lines(),
    *paper.mask_lines("cheap"),
    *paper.mask_lines("dear"),
]


def planned():
    """Case, system and threads of everything that the plan measures."""
    cases = all_cases()
    return [
        (key, system, threads)
        for threads, systems, pattern in paper.PLAN
        for key, case in cases.items()
        for system in systems.split(",")
        if re.search(pattern, key) and case.offered(system)
    ]


def test_every_line_is_measured_and_nothing_twice():
    found = planned()
    assert len(found) == len(set(found))
    needed = {x for line in LINES for x in (line.ours, line.theirs) if isinstance(x, tuple)}
    assert needed <= set(found)


def test_a_line_is_a_ratio_and_is_open_when_a_time_is_missing():
    line = paper.against("ours / C", "g: c", "c", 1.5)
    times = {("g: c", "ftrace", 1): 3.0, ("g: c", "c", 1): 2.0, ("g: c", "c", 2): 100.0}
    assert line.figure(times) == 1.5
    assert line.figure({("g: c", "ftrace", 1): 3.0}) is None
    assert paper.Line("", ("g: c", "ftrace", 1), 0.5, 1.0).figure(times) == 6.0


def test_the_table_says_what_is_met_missed_and_not_measured(monkeypatch):
    monkeypatch.setattr(paper, "kernels", lambda: (1, 2))
    case = f"{paper.CELL} random n=1024"
    times = {(case, "ftrace", 1): 1.0, (case, "jax", 1): 2.0, (case, "csimd", 1): 0.5}
    text = paper.shown(times, [{"status": "ok", "system": "ftrace"}])
    assert "| HM-LSTM n=1024 / jax | 0.50 | <= 0.5 | yes |" in text
    assert "| HM-LSTM n=1024 / C that vectorises | 2.00 | <= 1.5 | **no** |" in text
    assert "| HM-LSTM n=2048 / jax | - | <= 0.5 | not measured |" in text
    assert "| wrong or failed results of 1 | 0.00 | <= 0 | yes |" in text
    assert "forward pass | 1.00 | <= 1 | yes |" in text
    assert "backward pass | 2.00 | <= 1 | **no** |" in text
    records = [{"status": s, "system": "ftrace"} for s in ("ok", "wrong")]
    assert "of 2 | 1.00 | <= 0 | **no** |" in paper.shown(times, records)


def test_the_worst_mask_counts_and_a_missing_one_leaves_the_line_open():
    lines = paper.mask_lines("dear")
    times = {line.theirs: 1.0 for line in lines} | {line.ours: 1.0 for line in lines}
    times[lines[3].ours] = 1.5
    assert paper.worst(lines, times) == 1.5
    del times[lines[0].ours]
    assert paper.worst(lines, times) is None


def test_the_time_per_partial_is_flat_when_it_grows_with_the_arity():
    elements = arity.SIDE**2
    keys = {n: (f"{paper.PRODUCT} N={n}", "ftrace", 1) for n in (1, 2, 4)}
    times = {keys[n]: 2e-9 * n * elements for n in keys}
    assert paper.per_partial(times, "ftrace") == pytest.approx({1: 2.0, 2: 2.0, 4: 2.0})
    assert paper.flatness(times) == pytest.approx(0.0)
    assert paper.flatness(times | {keys[4]: 24e-9 * elements}) == pytest.approx(0.5)
    assert paper.flatness({}) is None


def test_the_cell_is_one_kernel_forward_and_one_backward():
    assert paper.kernels() == (1, 1)


def test_the_paper_forces_flush_copy_and_update_and_varies_along_the_contiguous_axis():
    z1, z2 = hmlstm_inputs(64)[4:]
    assert z1.shape == z2.shape == (1, 64)
    assert [tuple(z) for z in zip(z1[0, :3], z2[0, :3], strict=True)] == [(1, 0), (0, 0), (0, 1)]
    runs = hmlstm_inputs(64, "runs")[4]
    assert (runs.reshape(2, 32) == runs.reshape(2, 32)[:, :1]).all()
    assert hmlstm_inputs(64, "rows")[4].shape == (64, 1)
    assert not np.any(hmlstm_inputs(64, "copy")[4:])


@pytest.mark.parametrize("control", hmlstm.CONTROLS)
def test_the_native_cell_has_the_reference_partials(control):
    inputs = in_float64(hmlstm_inputs(16, control))
    value, partials = hmlstm.native(SYSTEMS["ftrace"]())(*inputs)
    assert mismatch([value, *partials], hmlstm_partials(*inputs), 1e-12) == ""


def test_the_native_product_has_the_partials_of_its_definition():
    xs = [np.array([0.2, 0.7]), np.array([0.9, 0.3])]
    value, partials = ftrace.elementwise_partials(arity.product)(*xs)
    assert mismatch([value, *partials], arity.value_and_partials(*xs), 1e-12) == ""


def test_newton_and_the_projectile_have_their_derivatives():
    a = np.array([1.5, 4.0, newton.LONG])
    value, (slope,) = ftrace.elementwise_partials(newton.root)(a)
    assert mismatch([value, slope], [np.sqrt(a), 0.5 / np.sqrt(a)], 1e-8, relative=True) == ""
    angles = np.array([0.01, 0.012])
    expected = projectile._reference_many(angles)
    for f in (projectile.distance, projectile.distance_after):
        value, (slope,) = ftrace.elementwise_partials(f)(angles)
        assert mismatch([value, slope], expected, 1e-9) == ""
    loop = [projectile._dual_loop(float(angle)) for angle in angles]
    assert mismatch(np.transpose(loop), expected, 1e-9) == ""


def test_there_are_twelve_masks_of_which_one_takes_nothing_and_one_everything():
    masks = divergence._masks()
    assert len(masks) == 12
    assert (masks["none"].mean(), masks["all"].mean(), masks["halves"].mean()) == (0, 1, 0.5)
    assert all(0.0 < m.mean() < 1.0 for name, m in masks.items() if name not in ("none", "all"))


def test_elements_can_be_compared_relative_to_themselves():
    actual, expected = [np.array([1e30, 1.1])], [np.array([1e30, 1.0])]
    assert mismatch(actual, expected, 1e-3) == ""
    assert "off by 1.0e-01" in mismatch(actual, expected, 1e-3, relative=True)


def test_references_compute_in_double_precision():
    arrays = in_float64([np.ones(2, np.float32), np.arange(2), np.float32(1.0)])
    assert [a.dtype for a in arrays] == [np.float64, np.int64, np.float64]


def test_a_system_says_which_device_it_lacks(monkeypatch):
    monkeypatch.setenv("FTRACE_BENCH_DEVICE", "gpu")
    assert SYSTEMS["ftrace"].missing() == "does not run on the gpu here"
    assert SYSTEMS["c"].missing() == "does not run on the gpu here"
    assert pool.environment(1)["JAX_PLATFORMS"] == "cuda"
    assert paper.parse(["--device", "gpu"]).out.name == "gpu"


def test_every_worker_keeps_freed_memory():
    env = pool.environment(1)
    assert int(env["MALLOC_TRIM_THRESHOLD_"]) == int(env["MALLOC_MMAP_THRESHOLD_"]) >= 1 << 30


def test_curves_are_drawn_for_the_systems_that_were_measured(tmp_path):
    pytest.importorskip("matplotlib")
    said = plots.curves({"ftrace": {1: 1.0, 2: 1.1}, "jax": {}}, tmp_path / "arity.png")
    assert said == " (arity.png)"
    assert (tmp_path / "arity.png").stat().st_size > 1000
    assert plots.curves({"jax": {}}, tmp_path / "none.png") == ""


@pytest.mark.skipif(bool(SYSTEMS["c"].missing()), reason="needs a C compiler")
@pytest.mark.parametrize("name", ["c", "csimd"])
@pytest.mark.parametrize("control", hmlstm.CONTROLS)
def test_handwritten_cells_agree_with_the_reference(name, control):
    n, system = 100, SYSTEMS[name]()
    suffix = "_simd" if name == "csimd" else ""
    inputs = hmlstm_inputs(n, control)
    expected = hmlstm_partials(*in_float64(inputs))
    outputs = hmlstm._c(f"hmlstm{suffix}", 5, n, control)(system, *inputs)()
    assert mismatch(outputs, expected, 1e-6) == ""
    value = hmlstm._c(f"hmlstm_value{suffix}", 1, n, control)(system, *inputs)()
    assert mismatch(value, expected[:1], 1e-6) == ""
