"""The table of support is what plans say, and no row is missing from it."""

import importlib
import pkgutil
import re

import numpy as np
import pytest

import ftrace
from ftrace.core.jaxpr import subjaxprs
from ftrace.core.primitive import Primitive
from ftrace.primitives.table import ALL, by_name

cupy = pytest.importorskip("cupy", reason="the table of support needs the extra 'gpu-static'")

from tools import support  # noqa: E402
from tools.higher_order import PROGRAMS, WITHIN  # noqa: E402

X = np.ones((64, 64))


def rows_of(jaxpr):
    """The names of all rows in a jaxpr, and in those that its equations hold."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for _, inner in subjaxprs(eqn.params):
            yield from rows_of(inner)


def ways(f, *args, device="GPU"):
    return support.ways_of(ftrace.make_jaxpr(f)(*args), device, support.Cupy())


@pytest.mark.parametrize(
    ("f", "args", "cpu", "gpu"),
    [
        (np.sin, (X,), "K", "K"),
        (lambda x: x, (X,), "K", "K"),
        (lambda x, y: x @ y, (X, X), "B", "L"),
        (np.sort, (X,), "B", "L"),
        (lambda x: np.sort(x) + 1.0, (X,), "KB", "KL"),
        (lambda x: ftrace.lax.bessel_jv(2, x), (X,), "B", "L"),
        (ftrace.lax.erf, (X * 1j,), "L", "E"),
        (np.exp, (X * 1j,), "K", "K"),
        (np.sqrt, (X * 1j,), "B", "L"),
        (lambda x: x[np.array([1, 0])], (X,), "K", "K"),
        (PROGRAMS["while"][1].function, (X[0],), "KS", "KS"),
        (PROGRAMS["pure_callback"][0].function, (X,), "H", "H"),
    ],
)
def test_steps_of_a_plan_say_who_does_a_program(f, args, cpu, gpu):
    assert ways(f, *args, device="CPU") == set(cpu)
    assert ways(f, *args) == set(gpu)


def test_a_cell_tells_complex_numbers_and_booleans_where_they_differ():
    cell = support.Cell()
    assert str(cell) == "·"
    cell.add("", {"L", "K"})
    cell.add("ℂ", {"E"})
    cell.add("𝔹", {"K", "L"})
    assert str(cell) == "KL ℂE"
    only = support.Cell()
    only.add("ℂ", {"K"})
    assert str(only) == "K"


def test_functions_of_cupy_have_the_names_that_users_know():
    theirs = support.Cupy()
    for name in ("sin", "reduce_sum", "lgamma", "slice", "bessel_jv", "erf", "iota", "sort"):
        support.line_of(by_name[name], theirs)
    found = {row.name: support.functions_of(row, theirs) for row in ALL}
    assert found["sin"] == "`sin`"
    assert found["reduce_sum"] == "`sum`, `any`"
    assert found["lgamma"] == "`special.gammaln`"
    assert found["slice"] == "views"
    assert found["bessel_jv"] == "a kernel of ours"
    assert found["erf"] == "`special.erf` (not ℂ)"
    assert found["sort"] == "`sort`, `argsort`, `take_along_axis`"
    assert found["iota"] == "·"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_contain_the_row_that_they_are_for(name):
    for program in PROGRAMS[name]:
        assert name in rows_of(ftrace.make_jaxpr(program.function)(program.x)) or name in rows_of(
            ftrace.make_jaxpr(lambda x, f=program.function: ftrace.jvp(f, (x,), (x,)))(program.x)
        )


def test_no_row_of_the_package_is_missing():
    found = set()
    for module in pkgutil.walk_packages(ftrace.__path__, "ftrace."):
        if not module.name.endswith("__main__"):
            values = vars(importlib.import_module(module.name)).values()
            found |= {v.name for v in values if isinstance(v, Primitive) and v not in ALL}
    assert found == {*PROGRAMS, *WITHIN}


@pytest.mark.slow
def test_the_committed_table_is_what_plans_say():
    text = support.FILE.read_text(encoding="utf-8")
    made_with = re.search(r"with CuPy (\S+):", text)
    assert made_with
    if made_with[1] != cupy.__version__:
        pytest.skip(f"docs/support.md was made with CuPy {made_with[1]}, not {cupy.__version__}")
    assert text == support.page(), "run `make golden`, and read the difference"
