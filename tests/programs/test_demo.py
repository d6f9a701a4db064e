"""The demo keeps its promises: accuracy, agreement, the launch angle, derivatives, pictures.

One fixture runs `examples/demo.py` as a user would, warnings as errors, and the tests read what it
printed and drew; the rest call the demo's own functions on small inputs.
"""

import importlib
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ftrace

EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES = ("training", "decisions", "projectile", "jaxpr", "compiled")

pytest.importorskip("sklearn", reason="the demo needs the extra 'examples'")
pytest.importorskip("matplotlib", reason="the demo needs the extra 'examples'")
pytest.importorskip("tqdm", reason="the demo needs the extra 'examples'")


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-W", "error", str(EXAMPLES / "demo.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, printed=done.stdout, progress=done.stderr)


@pytest.fixture(scope="module")
def examples():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        names = ("digits_mlp", "projectile", "compiled", "jaxpr_picture", "demo")
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def figures_after(pattern, text):
    found = re.findall(pattern + r"\s*(-?[\d.]+(?:e[+-]?\d+)?)", text)
    assert found, f"{pattern!r} was not printed"
    return [float(figure) for figure in found]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ftrace", "NumPy by hand"])
def test_the_network_reads_at_least_97_per_cent_of_the_test_digits(demo_run, system):
    (accuracy,) = figures_after(rf"\n{system}", demo_run.printed)
    assert accuracy >= 97.0


@pytest.mark.slow
def test_the_losses_of_both_training_loops_agree_to_rounding(demo_run):
    (gap,) = figures_after("largest relative difference of the two losses:", demo_run.printed)
    assert gap < 1e-10


@pytest.mark.slow
def test_the_launch_angle_of_greatest_distance_is_44_997_degrees(demo_run):
    assert " at 44.997 degrees" in demo_run.printed


@pytest.mark.slow
def test_the_printed_third_derivatives_differ_from_the_closed_form_by_rounding(demo_run):
    rows = re.findall(r"^ +-?[\d.]+ +(-?\d+\.\d{16}) +(-?\d+\.\d{16}) ", demo_run.printed, re.M)
    assert len(rows) == 4
    np.testing.assert_allclose(*np.array(rows, dtype=float).T, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_the_jaxpr_of_the_gradient_is_printed(demo_run):
    assert re.search(r"\{ lambda a:f64\[\].*cos a.*\}", demo_run.printed, re.S)


@pytest.mark.slow
def test_the_kernel_and_the_llvm_of_the_gradient_are_printed(demo_run):
    assert re.search(
        r"^kernel k1\(in x0:f8\[1\], out o1:f8\[1\].*= exp ", demo_run.printed, re.M | re.S
    )
    assert re.search(r"^define internal void @kernel0", demo_run.printed, re.M)


@pytest.mark.slow
def test_every_compiled_case_is_one_program_that_agrees_with_the_work_by_hand(demo_run, examples):
    number = r" +([\d.]+(?:e[+-]\d+)?)"
    names = [case.name for case in examples.compiled.cases()]
    for name in names:
        (row,) = re.findall(rf"^{name}{number * 7}$", demo_run.printed, re.M)
        *times, kernels, library, difference = map(float, row)
        assert min(times) > 0
        assert kernels >= 1
        assert library == 0
        assert difference < 1e-9


@pytest.mark.slow
def test_a_progress_bar_counts_the_epochs(demo_run, examples):
    epochs = examples.digits_mlp.EPOCHS
    assert f"{epochs}/{epochs}" in demo_run.progress


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_written_and_shows_something(demo_run, name):
    image = importlib.import_module("matplotlib.image").imread(demo_run.folder / f"{name}.png")
    ink = (image[..., :3].min(axis=2) < 0.9).mean()
    assert image.shape[1] > 1000
    assert 0.005 < ink < 0.5


@pytest.mark.parametrize("part", ["w1", "b1", "w2", "b2"])
def test_the_gradient_written_by_hand_is_the_traced_one(examples, part):
    mlp = examples.digits_mlp
    rng = np.random.default_rng(1)
    params = mlp.initial(rng)
    x, target = rng.normal(size=(5, 64)), np.eye(10)[rng.integers(0, 10, 5)]
    value, by_hand = mlp.gradient_by_hand(params, x, target)
    traced_value, traced = mlp.loss_and_gradient(params, x, target)
    assert traced_value == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(getattr(traced, part), getattr(by_hand, part), atol=1e-14)


def test_saliency_is_the_slope_of_the_winning_score(examples):
    mlp = examples.digits_mlp
    rng = np.random.default_rng(2)
    params, pictures = mlp.initial(rng), rng.normal(size=(3, 64))
    direction = rng.normal(size=64)
    h = 1e-6
    ahead, behind = (mlp.logits(params, pictures + s * h * direction).max(axis=1) for s in (1, -1))
    expected = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(mlp.saliency(params, pictures) @ direction, expected, rtol=1e-7)


def test_the_simulated_distance_is_that_of_the_closed_form_of_the_steps(examples):
    vx, vy, dt, g = 0.8, 0.6, 0.001, 9.8
    n = np.arange(200)
    x, y = n * vx * dt, n * vy * dt - g * dt**2 * n * (n - 1) / 2
    k = np.flatnonzero(y < 0)[0]
    impact = (x[k] * y[k - 1] - x[k - 1] * y[k]) / (y[k - 1] - y[k])
    assert examples.projectile.distance_travelled(vx, vy, dt) == pytest.approx(impact, rel=1e-12)


@pytest.mark.parametrize("degrees", [0.5, 20.0, 44.0, 70.0])
def test_the_slope_of_the_distance_agrees_with_a_difference_quotient(examples, degrees):
    angle, h = np.radians(degrees), 1e-8
    distance = examples.projectile.distance_at
    quotient = (distance(angle + h) - distance(angle - h)) / (2 * h)
    value, slope = examples.projectile.distance_and_slope(angle)
    assert value == distance(angle)
    assert slope == pytest.approx(quotient, abs=1e-6)


def test_the_compiled_search_for_an_angle_is_the_one_by_hand(examples):
    projectile = examples.projectile
    angle = projectile.aim(0.06)
    assert angle == pytest.approx(projectile.aim_by_hand(0.06), rel=1e-12)
    assert projectile.distance_at(float(angle)) == pytest.approx(0.06, abs=projectile.TOLERANCE)


@pytest.mark.parametrize("degrees", [0.5, 20.0, 70.0])
def test_the_slope_derived_on_paper_is_the_traced_one(examples, degrees):
    projectile, angle = examples.projectile, float(np.radians(degrees))
    traced = projectile.distance_and_slope(angle)
    assert projectile.distance_and_slope_by_hand(angle) == pytest.approx(traced, rel=1e-11)


def test_the_gradients_written_by_hand_are_the_traced_ones(examples):
    compiled = examples.compiled
    x = np.linspace(-1.0, 2.0, 7)
    np.testing.assert_allclose(
        compiled.slope_by_hand(x), ftrace.vmap(ftrace.grad(compiled.f))(x), rtol=1e-14
    )
    np.testing.assert_allclose(
        compiled.rosenbrock_slope_by_hand(x), ftrace.grad(compiled.rosenbrock)(x), rtol=1e-13
    )


def test_the_boxes_of_the_picture_bear_the_letters_of_the_printed_form(examples):
    jaxpr = ftrace.make_jaxpr(ftrace.grad(examples.demo.f))(np.float64(0.7))
    labels = [box.label for box in examples.jaxpr_picture.boxes_of(jaxpr)]
    printed = re.findall(r"(\w+):f64\[\] = (\w+)", str(jaxpr))
    drawn = [tuple(label.split()[:3:2]) for label in labels if " = " in label]
    assert printed == drawn


def test_every_box_of_the_picture_stands_below_what_it_reads(examples):
    jaxpr = ftrace.make_jaxpr(ftrace.grad(examples.demo.f))(np.float64(0.7))
    boxes = examples.jaxpr_picture.boxes_of(jaxpr)
    assert all(source.layer < box.layer for box in boxes for source in box.reads)


def test_no_two_boxes_or_bends_of_a_layer_overlap(examples):
    picture = examples.jaxpr_picture
    boxes = picture.boxes_of(
        ftrace.make_jaxpr(ftrace.grad(ftrace.grad(examples.demo.f)))(np.float64(0.7))
    )
    routes = picture.routes_of(boxes)
    picture.place(boxes, routes)
    everything = boxes + [bend for route in routes for bend in route[1:-1]]
    ordered = sorted(everything, key=lambda box: (box.layer, box.x))
    gaps = [
        (right.x - right.width / 2) - (left.x + left.width / 2)
        for left, right in pairwise(ordered)
        if left.layer == right.layer
    ]
    assert gaps
    assert min(gaps) > 0
