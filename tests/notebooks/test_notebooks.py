"""The notebooks run, print what the committed `.ipynb` files show, and both halves are in step.

Where a test fails after an intended change, `python tests/notebooks/executing.py` rewrites the
`.ipynb` files; read the difference before committing it.
"""

import importlib.util
from functools import cache
from pathlib import Path
from time import perf_counter

import pytest

jupytext = pytest.importorskip("jupytext", reason="notebooks need the extra 'test'")
nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra 'test'")
pytest.importorskip("nbclient", reason="notebooks need the extra 'test'")

_spec = importlib.util.spec_from_file_location("executing", Path(__file__).parent / "executing.py")
executing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(executing)

NAMES = [
    "01-ten-minute-tour",
    "02-exploring-the-ir",
    "03-on-a-gpu",
    "04-statistics",
    "05-orbits-grids-and-tags",
]
SECONDS = 20


@cache
def executed(name):
    start = perf_counter()
    notebook = executing.execute(executing.FOLDER / f"{name}.py")
    return notebook, perf_counter() - start


def committed(name):
    return nbformat.read(executing.FOLDER / f"{name}.ipynb", as_version=4)


def test_every_notebook_is_tested():
    assert [path.stem for path in executing.pairs()] == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_in_twenty_seconds_without_a_warning(name):
    notebook, seconds = executed(name)
    streams = [o for c in notebook.cells for o in c.get("outputs", ()) if o.get("name") == "stderr"]
    assert streams == []
    assert seconds < SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_committed_outputs_are_what_the_notebook_prints(name):
    notebook, _ = executed(name)
    assert executing.outputs(notebook) == executing.outputs(committed(name))


@pytest.mark.parametrize("name", NAMES)
def test_both_halves_of_a_pair_have_the_same_cells(name):
    written = jupytext.read(executing.FOLDER / f"{name}.py")
    shown = committed(name)
    assert [(c.cell_type, c.source) for c in written.cells] == [
        (c.cell_type, c.source) for c in shown.cells
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_code_cell_of_a_committed_notebook_has_been_executed_in_order(name):
    counts = [c.execution_count for c in committed(name).cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
