"""Every public function of NumPy on traced values: its values and derivatives, or a named error."""

import re
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from tests.numpy.cases import CASES
from tests.numpy.public_calls import CALLS, MODULES_OUTSIDE, OUTSIDE
from tests.numpy.test_ufuncs import UFUNCS
from tools import numpy_support as table

LIKE_OTHERS = tuple(f"polynomial.{n}" for n in ("legendre", "hermite", "laguerre"))
TRIED_ELSEWHERE = {case.name for case in CASES} | {ufunc.__name__ for ufunc in UFUNCS}


def is_slow(name: str) -> bool:
    """Whether whole runs alone call it: other tests do, or it is written as another one is."""
    return name in TRIED_ELSEWHERE or name.startswith(LIKE_OTHERS)


def test_no_public_function_of_numpy_is_missing() -> None:
    missing = [name for name, call in table.names().items() if call not in {**CALLS, **OUTSIDE}]
    assert not missing, "give it a call, or a reason why there is none"
    own = {"linalg", "fft", "emath", "polynomial"}
    assert table.modules() <= own | set(MODULES_OUTSIDE)
    assert not [name for name in OUTSIDE if name in CALLS]


def test_public_functions_are_in_the_namespace_of_ftrace() -> None:
    texts = {"isnat", "row_stack", "isfortran", "typename"}
    refused = {"asmatrix", "bmat", "matrix", "nditer", "nested_iters", "broadcast", "poly1d"}
    printed = {"format_float_positional", "format_float_scientific"}
    names = {n for n in CALLS if "." not in n and "(" not in n and hasattr(np, n)}
    assert {n for n in names if not hasattr(fnp, n)} <= texts | refused | printed


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if is_slow(name) else []) for name in CALLS],
)
def test_a_public_function_is_numpys_or_a_named_error(name: str) -> None:
    ways = ("eager", "vjp") if name in TRIED_ELSEWHERE else table.WAYS
    cells = shown().get(name)
    for way in ways:
        found = table.outcome(CALLS[name], way)
        if cells is not None and way in cells and cells[way] == table.YES:
            assert found == table.YES, f"docs/numpy.md says that {name} works under {way}"


def shown() -> dict[str, dict[str, str]]:
    """The rows of the committed table: jvp, vjp and vmap."""
    if not table.FILE.exists():
        return {}
    rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", table.FILE.read_text("utf-8"), re.MULTILINE)
    return {n: dict(zip(("jvp", "vjp", "vmap"), c.split(" | "), strict=False)) for n, c in rows}


def test_an_error_without_advice_and_a_wrong_value_are_found() -> None:
    def half(x: Any) -> Any:
        return np.cos(x) if isinstance(x, ftrace.Tracer) else np.sin(x)

    call = CALLS["sin"]._replace(f=half)
    for way in ("jvp", "vmap", "jit"):
        with pytest.raises(table.WrongError):
            table.outcome(call, way)


@pytest.mark.slow
def test_the_committed_page_is_what_is_found() -> None:
    pytest.importorskip("cupy", reason="the table needs the extra 'gpu-static'")
    text = table.FILE.read_text(encoding="utf-8")
    made_with = re.search(r"with NumPy (\S+)\. Each", text)
    assert made_with
    if made_with[1] != np.__version__:
        pytest.skip(f"docs/numpy.md was made with NumPy {made_with[1]}, not {np.__version__}")
    assert text == table.page(), "run `make golden`, and read the difference"
