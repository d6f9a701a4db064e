"""The tables of forward mode are made, and their gradients are right."""

import numpy as np
import pytest

import ftrace
from benchmarks import forwarddiff


@pytest.mark.parametrize("name", forwarddiff.FUNCTIONS)
def test_both_forms_are_the_same_function(name):
    whole, loop = forwarddiff.FUNCTIONS[name]
    x = np.linspace(0.2, 1.2, 7)
    np.testing.assert_allclose(whole(x), loop(x), rtol=1e-14)
    np.testing.assert_allclose(ftrace.grad(whole)(x), ftrace.grad(loop)(x), rtol=1e-13)


def test_a_table_has_a_line_for_each_chunk_and_size():
    rows = list(forwarddiff.chunk_rows(30, 0.0))
    assert [(r[0], int(r[1])) for r in rows] == [
        (name, n) for name in forwarddiff.FUNCTIONS for n in forwarddiff.CHUNKS
    ]
    rows = list(forwarddiff.size_rows((10,), 0.0))
    assert [r[-1] for r in rows] == ["reverse", "reverse"]
    assert float(rows[0][2]) == 0.000866


def test_table_2_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need the extra 'viz'")
    rows = [
        [name, "10", "1e-3", "", "", "", "1e-6", "2e-6", "reverse"]
        for name in forwarddiff.FUNCTIONS
    ]
    heads = ["function", "k", "paper", "", "", "", "ftrace", "loop", "mode"]
    forwarddiff.draw(rows, heads, tmp_path / "table.svg")
    assert "<svg" in (tmp_path / "table.svg").read_text()
