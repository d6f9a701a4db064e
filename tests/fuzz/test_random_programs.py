"""Random programs against NumPy and finite differences, under every transformation.

Thousands with `pytest --hypothesis-profile=fuzz tests/fuzz`. Points where a program is not smooth,
or too steep for differences, are recognised by differences of two step sizes that disagree, and
passed over.
"""

from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import ftrace
from tests.fuzz.programs import PROGRAMS, SHAPE, WEIGHTS, Step, run, through_loop
from tests.sampling import examples

SEEDS = st.integers(0, 10_000)


def point(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.2, 1.2, SHAPE), rng.normal(size=SHAPE)


def program(steps: list[Step], *, wrapped: bool = True) -> Any:
    return lambda x: run(steps, x, wrapped=wrapped)


def loss(steps: list[Step], *, wrapped: bool = True) -> Any:
    return lambda x: np.sum(run(steps, x, wrapped=wrapped) * WEIGHTS)


def value(steps: list[Step], x: Any) -> Any:
    with np.errstate(all="ignore"):
        y = np.asarray(run(steps, x, wrapped=False))
    assume(np.all(np.isfinite(y)) and np.max(np.abs(y)) < 1e3)
    return y


def differences(steps: list[Step], x: Any, v: Any) -> Any:
    """The directional derivative by central differences, where two step sizes agree."""
    found = []
    for h in (1e-5, 4e-6):
        with np.errstate(all="ignore"):
            found.append((value(steps, x + h * v) - value(steps, x - h * v)) / (2 * h))
    scale = 1.0 + np.max(np.abs(found[0]))
    assume(np.max(np.abs(found[0] - found[1])) < 1e-6 * scale)
    return found[0]


def close(actual: Any, expected: Any, tolerance: float) -> None:
    scale = 1.0 + np.max(np.abs(expected))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


@examples(PROGRAMS, SEEDS)
def test_values_are_numpys_under_every_transformation(steps: list[Step], seed: int) -> None:
    x, v = point(seed)
    expected = value(steps, x)
    f = program(steps)
    close(ftrace.jit(f)(x), expected, 1e-12)
    close(ftrace.jvp(f, (x,), (v,))[0], expected, 1e-12)
    close(ftrace.vjp(f, x)[0], expected, 1e-12)
    close(ftrace.linearize(f, x)[0], expected, 1e-12)


@examples(PROGRAMS, SEEDS)
def test_jvp_agrees_with_differences(steps: list[Step], seed: int) -> None:
    x, v = point(seed)
    close(ftrace.jvp(program(steps), (x,), (v,))[1], differences(steps, x, v), 1e-5)


@examples(PROGRAMS, SEEDS)
def test_reverse_mode_is_the_transpose_of_forward_mode(steps: list[Step], seed: int) -> None:
    x, v = point(seed)
    value(steps, x)
    pushed = ftrace.jvp(program(steps), (x,), (v,))[1]
    assume(np.all(np.isfinite(pushed)) and np.max(np.abs(pushed)) < 1e6)
    gradient = ftrace.grad(loss(steps))(x)
    close(np.sum(gradient * v), np.sum(pushed * WEIGHTS), 1e-9)


@examples(PROGRAMS, SEEDS)
def test_wrappers_and_jit_do_not_change_a_gradient(steps: list[Step], seed: int) -> None:
    x, _ = point(seed)
    value(steps, x)
    expected = ftrace.grad(loss(steps, wrapped=False))(x)
    assume(np.all(np.isfinite(expected)) and np.max(np.abs(expected)) < 1e6)
    close(ftrace.grad(loss(steps))(x), expected, 1e-10)
    close(ftrace.jit(ftrace.grad(loss(steps)))(x), expected, 1e-10)
    close(ftrace.grad(ftrace.jit(loss(steps)))(x), expected, 1e-10)


@examples(PROGRAMS, SEEDS)
def test_vmap_is_the_loop(steps: list[Step], seed: int) -> None:
    x, v = point(seed)
    batch = np.stack([x, x * 0.5, v * 0.3])
    expected = np.stack([value(steps, member) for member in batch])
    close(ftrace.vmap(program(steps))(batch), expected, 1e-11)
    gradients = np.stack([ftrace.grad(loss(steps))(member) for member in batch])
    assume(np.all(np.isfinite(gradients)) and np.max(np.abs(gradients)) < 1e6)
    close(ftrace.vmap(ftrace.grad(loss(steps)))(batch), gradients, 1e-9)


@examples(PROGRAMS, SEEDS)
def test_second_derivatives_agree_in_every_order_of_modes(steps: list[Step], seed: int) -> None:
    x, v = point(seed)
    value(steps, x)
    f = loss(steps, wrapped=False)
    forward = ftrace.jvp(ftrace.grad(f), (x,), (v,))[1]
    assume(np.all(np.isfinite(forward)) and np.max(np.abs(forward)) < 1e5)
    close(ftrace.grad(lambda y: ftrace.jvp(f, (y,), (v,))[1])(x), forward, 1e-8)
    close(ftrace.grad(lambda y: np.sum(ftrace.grad(loss(steps))(y) * v))(x), forward, 1e-8)


@examples(PROGRAMS, SEEDS)
def test_forward_mode_and_vmap_go_through_loops(steps: list[Step], seed: int) -> None:
    x, v = point(seed)
    value(steps, x)

    def looped(y: Any) -> Any:
        return run(steps, y, wrapped=True, wrapper=through_loop)

    pushed = ftrace.jvp(program(steps, wrapped=False), (x,), (v,))
    assume(np.all(np.isfinite(pushed[1])) and np.max(np.abs(pushed[1])) < 1e6)
    for actual, expected in zip(ftrace.jvp(looped, (x,), (v,)), pushed, strict=True):
        close(actual, expected, 1e-10)
    batch = np.stack([x, v * 0.3])
    close(ftrace.vmap(looped)(batch), np.stack([value(steps, y) for y in batch]), 1e-11)
