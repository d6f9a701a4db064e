"""Every row on CuPy arrays: which functions of CuPy it calls, and what comes out."""

from typing import Any

import cupy
import cupyx.scipy.special
import numpy as np
import pytest
import scipy.special

from ftrace.core.avals import TYPEOF, strengthen, typeof
from ftrace.core.errors import DtypeError
from ftrace.gpu import library
from tests.gpu.spies import Namespace, Spy, plain
from tests.laws.cases import CASES, Case, assert_close

SPECIAL = Namespace(cupyx.scipy.special, scipy.special)
MISSING = ("bessel_iv", "bessel_ive", "bessel_jv")
READS = ("gather", "scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max")


@pytest.fixture(autouse=True)
def spied(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's functions run NumPy's, on arrays that answer as CuPy's do."""
    monkeypatch.setattr(library, "namespace", lambda: Namespace(cupy, np))
    monkeypatch.setattr(library, "special", lambda: SPECIAL)
    monkeypatch.setitem(TYPEOF, Spy, lambda x: typeof(x.memory))
    monkeypatch.setattr(Spy, "synchronised", 0)


def on_device(x: Any, least: int) -> Any:
    """An operand as a device has it, unless it is a number, or a rank-0 value to be left out."""
    if isinstance(x, np.ndarray | np.generic) and np.ndim(x) >= least:
        return Spy(np.array(x))
    return x


def given(case: Case, least: int) -> list[Any]:
    return [on_device(a, least) for a in case.args]


CASES_ON_DEVICE = [
    pytest.param(case, least, id=f"{case.name}-{least}")
    for case in CASES
    for least in (0, 1)
    if any(isinstance(x, Spy) for x in given(case, least))
    and case.row.name not in MISSING
    and (least == 0 or any(np.ndim(a) == 0 for a in case.args))
]


def unsupported(case: Case) -> bool:
    """Complex special functions, which CuPy does not have."""
    return any(a.dtype.kind == "c" for a in case.avals) and case.row.name in library._SPECIAL


@pytest.mark.parametrize(("case", "least"), CASES_ON_DEVICE)
def test_a_row_calls_functions_that_cupy_has_and_gives_its_impls_values(
    case: Case, least: int
) -> None:
    args = given(case, least)
    before = [np.array(plain(a)) for a in args]
    if unsupported(case):
        with pytest.raises(DtypeError, match=f"CuPy .* cannot evaluate {case.row.name}"):
            library.evaluate(case.row, args, case.sample.params)
        return
    found = library.evaluate(case.row, args, case.sample.params)
    assert all(type(y) is Spy for y in found)
    assert [typeof(y) for y in found] == [strengthen(a) for a in case.types(*map(typeof, args))]
    expected = case.row.impl(*case.args, **case.sample.params)
    for y, z in zip(found, expected if case.row.multiple else [expected], strict=True):
        assert_close(y.memory, z)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(plain(a), b)
    if case.sample.params.get("mode") != "raise":
        assert Spy.synchronised == 0
