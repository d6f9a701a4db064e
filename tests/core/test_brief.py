"""Messages and reprs stay short, however large the arrays and trees that they speak of."""

import numpy as np
import pytest

import ftrace
from ftrace import errors, tree_util
from ftrace.core.errors import brief

LARGE = np.arange(250_000.0).reshape(500, 500)
WIDE = {f"key{i}": float(i) for i in range(4_000)}


def test_a_text_loses_its_middle_where_it_is_long():
    assert brief("short") == "short"
    assert brief("a" * 40 + "b" * 60, 20) == "aaaaaaa ... bbbbbbbb"
    assert len(brief("x" * 10_000)) == 1500


def test_tracers_and_literals_show_large_arrays_as_numpy_does():
    seen = []
    ftrace.grad(lambda x: seen.append(repr(x)) or (x * x).sum())(LARGE)
    assert "..." in seen[0]
    assert "2.49999e+05" in seen[0]
    ftrace.grad(lambda x: seen.append(repr(x)) or (x * x).sum())(np.arange(3.0))
    assert seen[1] == "JVPTracer<f64[3], value=[0.0, 1.0, 2.0]>"
    ftrace.grad(lambda x: seen.append(repr(x)) or x.sum())(np.ones((2,) * 12))
    assert max(map(len, seen)) <= 4000


def test_no_message_is_longer_than_four_thousand_characters():
    pull = ftrace.vjp(lambda t: t, WIDE)[1]
    other = {**WIDE, "one": 1.0}
    calls = [
        lambda: pull(other),
        lambda: tree_util.tree_map(lambda x, y: x, WIDE, {f"x{k}": 1.0 for k in range(4_000)}),
        lambda: tree_util.tree_structure(WIDE).unflatten([1.0]),
        lambda: ftrace.jit(lambda x: np.array([x[0], *LARGE.tolist()], dtype=object))(LARGE),
        lambda: ftrace.jit(lambda x: x, lift=False)("s" * 100_000),
        lambda: ftrace.jit(lambda x: x + np.ones((1,) * 30 + (7,)))(np.ones((1,) * 30 + (5,))),
        lambda: ftrace.jit(lambda x, n: x, static_argnums=1)(1.0, [LARGE.tolist()]),
        lambda: ftrace.vmap(lambda x: x, in_axes=LARGE.tolist())(LARGE),
    ]
    for call in calls:
        with pytest.raises(errors.FtraceError) as caught:
            call()
        assert len(str(caught.value)) <= 4000
    assert len(repr(tree_util.tree_structure(WIDE))) <= 4100
