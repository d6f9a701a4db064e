"""Compiled, `chunk_size="auto"` is measured once for a program and a machine (A3, A4)."""

import numpy as np
import pytest

import ftrace
from ftrace.api.derivatives import measured_chunks

X = np.linspace(0.2, 1.4, 301)


def f(x):
    return np.sin(x) * x[0]


@pytest.fixture
def timed(monkeypatch, tmp_path):
    """Loops of so many passes take the times of a table; the list of those that were timed."""
    monkeypatch.setattr(measured_chunks, "_known", {})
    seen = []

    def seconds(jaxpr, values):
        (loop,) = (e for e in jaxpr.eqns if e.primitive.name == "scan")
        seen.append(loop.params["loop"].length)
        return {301: 9.0, 75: 7.0, 18: 2.0, 4: 3.0, 1: 5.0}[seen[-1]]

    monkeypatch.setattr(measured_chunks, "_seconds", seconds)
    with ftrace.config.update(cache_directory=str(tmp_path), compile=True):
        yield seen


def lengths(jacobian, x=X):
    """How many passes the loops of a compiled Jacobian have."""
    eqns = ftrace.make_jaxpr(jacobian)(x).eqns
    return [e.params["loop"].length for e in eqns if e.primitive.name == "scan"]


@pytest.mark.parametrize("jacobian", [ftrace.jacfwd, ftrace.jacrev], ids=lambda j: j.__name__)
def test_the_fastest_size_is_taken_and_remembered(jacobian, timed):
    made = jacobian(f, chunk_size="auto")
    best = -(-X.size // 16)
    assert lengths(made) == [best]
    assert len(timed) == len(measured_chunks.SIZES)
    assert lengths(jacobian(f, chunk_size="auto")) == [best]
    measured_chunks._known.clear()  # another process: the folder remembers
    assert lengths(made) == [best]
    assert len(timed) == len(measured_chunks.SIZES)
    assert lengths(jacobian(lambda x: np.cos(x) * x[0], chunk_size="auto")) == [best]
    assert len(timed) == 2 * len(measured_chunks.SIZES)


def test_without_a_folder_it_is_measured_in_each_process(timed):
    with ftrace.config.update(kernel_cache=0):
        for _ in range(2):
            measured_chunks._known.clear()
            lengths(ftrace.jacfwd(f, chunk_size="auto"))
    assert len(timed) == 2 * len(measured_chunks.SIZES)


def newton(x):
    def going(z):
        return np.any(np.abs(z * z - x) > 1e-12)

    return ftrace.lax.while_loop(going, lambda z: 0.5 * (z + x / z), x)


def printed(x):
    ftrace.debug.print("x is {}", x[0])
    return f(x)


@pytest.mark.parametrize("fun", [newton, printed])
def test_programs_that_may_not_end_or_act_on_the_outside_are_not_run(fun, timed, capfd):
    assert lengths(ftrace.jacfwd(fun, chunk_size="auto")) == [-(-X.size // 100)]
    assert not timed
    assert capfd.readouterr().out == ""


def test_results_that_may_not_depend_on_a_measurement_do_not(timed):
    with ftrace.config.update(deterministic=True):
        assert lengths(ftrace.jacfwd(f, chunk_size="auto")) == [-(-X.size // 100)]
    assert not timed


def test_what_random_numbers_cannot_run_has_the_usual_size():
    """A loop of the function's own is run with every pass, and here refuses its matrix."""

    def inverted(x):
        def step(c, _):
            return np.linalg.solve(np.zeros((1, 1)) * c[0] + n[0], c[:1]) * c, None

        return ftrace.lax.scan(step, x, None, length=2)[0]

    n = np.zeros((1, 1, 1))
    assert lengths(ftrace.jacfwd(inverted, chunk_size="auto"))[-1] == -(-X.size // 100)


def test_a_measured_jacobian_is_right(tmp_path):
    with ftrace.config.update(cache_directory=str(tmp_path), compile=True):
        for jacobian in (ftrace.jacfwd, ftrace.jacrev):
            found = ftrace.jit(jacobian(f, chunk_size="auto"))(X)
            np.testing.assert_allclose(found, ftrace.jacfwd(f)(X), rtol=1e-13)
        a = np.linspace(-1, 1, 3)
        mapped = ftrace.jit(
            ftrace.vmap(lambda a: ftrace.jacfwd(lambda x: f(x) * a, chunk_size="auto")(X))
        )
        np.testing.assert_allclose(mapped(a), a[:, None, None] * ftrace.jacfwd(f)(X), rtol=1e-13)
        total = ftrace.jit(ftrace.laplacian(lambda x: np.sum(x**4), chunk_size="auto"))
        np.testing.assert_allclose(total(X), 12 * np.sum(X**2), rtol=1e-13)
