"""`scan(progress=)`: what is reported, how often, and that nothing else changes."""

import io
import sys

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, lax, vmap

MODES = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])


def recorded(n, *, reverse=False, **options):
    """A loop of n turns over some numbers, and the list of what it reports."""
    seen = []

    def loop(x):
        def step(c, t):
            return np.sin(c) * x + t, c * t

        return lax.scan(
            step,
            x,
            np.linspace(0.0, 1.0, n),
            reverse=reverse,
            progress=lambda *report: seen.append(report),
            **options,
        )

    return loop, seen


@MODES
@pytest.mark.parametrize("reverse", [False, True])
def test_each_turn_of_a_short_loop_is_reported_in_order(reverse, compiled):
    loop, seen = recorded(5, reverse=reverse)
    with ftrace.config.update(compile=compiled):
        for f in (loop, jit(loop)):
            seen.clear()
            f(0.5)
            assert seen == [(k, 5) for k in (1, 2, 3, 4, 5)]
            assert all(type(k) is int for report in seen for k in report)


@MODES
@pytest.mark.parametrize(
    ("n", "done"),
    [
        (100, range(1, 101)),
        (400, range(4, 401, 4)),
        (402, [*range(5, 401, 5), 402]),  # a hundred reports at most, and the last turn
        (199, [*range(2, 199, 2), 199]),
    ],
)
def test_a_long_loop_reports_every_hundredth_part_and_the_end(n, done, compiled):
    loop, seen = recorded(n)
    with ftrace.config.update(compile=compiled):
        jit(loop)(0.5)
    assert seen == [(k, n) for k in done]


def test_a_long_loop_from_the_back_reports_every_hundredth_part():
    loop, seen = recorded(400, reverse=True)
    loop(0.5)
    assert seen == [(k, 400) for k in range(4, 401, 4)]


def test_a_long_loop_from_the_back_reports_its_end():
    loop, seen = recorded(402, reverse=True)
    loop(0.5)
    assert seen == [(k, 402) for k in (*range(5, 401, 5), 402)]


@pytest.mark.parametrize("options", [{}, {"checkpoint": "binomial", "slots": 2}])
@pytest.mark.parametrize("reverse", [False, True])
def test_reports_change_no_value_and_no_derivative(reverse, options):
    loop, _ = recorded(6, reverse=reverse, **options)

    def plain(x):
        return lax.scan(
            lambda c, t: (np.sin(c) * x + t, c * t), x, np.linspace(0.0, 1.0, 6), reverse=reverse
        )

    for a, b in zip(loop(0.5), plain(0.5), strict=True):
        np.testing.assert_array_equal(a, b)
    total, wanted = (
        (lambda f: lambda x: f(x)[0] + f(x)[1].sum())(loop),
        lambda x: sum(np.sum(p) for p in plain(x)),
    )
    np.testing.assert_allclose(grad(total)(0.5), grad(wanted)(0.5), rtol=1e-13)
    np.testing.assert_allclose(jit(grad(total))(0.5), grad(wanted)(0.5), rtol=1e-13)
    np.testing.assert_allclose(grad(grad(total))(0.5), grad(grad(wanted))(0.5), rtol=1e-12)


def test_the_derivative_of_a_loop_reports_each_turn_once():
    loop, seen = recorded(3)
    grad(lambda x: loop(x)[0])(0.5)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_mapped_loop_is_one_loop():
    loop, seen = recorded(3)
    c, _ = vmap(loop)(np.array([0.5, 1.0]))
    np.testing.assert_array_equal(c, [loop(0.5)[0], loop(1.0)[0]])
    assert seen[:3] == [(1, 3), (2, 3), (3, 3)]
    assert len(seen) == 9


def test_a_loop_of_no_turns_reports_nothing():
    loop, seen = recorded(0)
    loop(0.5)
    assert seen == []


@pytest.mark.parametrize("way", [lambda f: f, jit])
def test_progress_true_writes_one_line_to_the_standard_error(way, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    way(
        lambda x: lax.scan(lambda c, t: (c + t, None), x, length=None, xs=np.ones(3), progress=True)
    )(1.0)
    assert sys.stderr.getvalue() == (
        "\rscan: 1 of 3 iterations (33%)\rscan: 2 of 3 iterations (67%)"
        "\rscan: 3 of 3 iterations (100%)\n"
    )


def test_an_error_of_the_function_says_where_it_was_called():
    def report(done, total):
        raise KeyError(done)

    with pytest.raises(KeyError, match="1") as caught:
        lax.scan(lambda c, t: (c + t, None), 0.0, np.ones(3), progress=report)
    (note,) = caught.value.__notes__
    assert note.startswith("Raised in scan(progress=), called at ")
    assert "test_progress.py" in note
