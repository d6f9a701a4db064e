"""The laws of rows on a device: what NumPy gives for arrays of the host, CuPy's arrays give, too.

Every sample of every row, evaluated at once (by the device's cupy_library) and through jit (as
kernels): values, both modes of derivatives, and mapped. The samples of a row are one program, since
starting a compiler costs more than a kernel. `FTRACE_GPU_LAWS=all` (`make gpu`, `make
gpu-emulation`) runs every law through jit; else only values are compiled. The reference is the same
law on NumPy arrays, to the last bit where nothing in it is rounded as it likes. On a GPU what CuPy
does has bits of its own; what it lacks (`lacking.py`) must be refused by name, and nothing else may
be. Vectors that are unique up to a sign or a phase have one that does not depend on the library.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.core.avals import typeof
from ftrace.core.device import on_device
from ftrace.core.errors import DtypeError, RuleError
from ftrace.core.primitive import Primitive
from ftrace.gpu.gpu_backend import gpu_backend
from tests.gpu.devices import without_gpu
from tests.gpu.lacking import lacking
from tests.gpu.phases import unique
from tests.laws.cases import CASES, DIFFERENTIABLE, Case, assert_all_close, random_like
from tests.laws.test_jit import ROUNDED, SUMS, rows_of, tangents_for
from tests.laws.test_squares import MAPPABLE, batched_args, jvp_of, pullback_of, vmapped

EVERYTHING = os.environ.get("FTRACE_GPU_LAWS") == "all"
JOINED = {"scatter_add", "cumsum", "cumprod"}  # in another order than on a CPU
Flat = Callable[..., list[Any]]


def values(case: Case) -> tuple[Flat, list[Any]]:
    """The row itself."""
    return case.flat, list(case.args)


def pushed(case: Case) -> tuple[Flat, list[Any]]:
    """Results and tangents."""
    return jvp_of(case, case.flat), [*case.args, *tangents_for(case)]


def pulled(case: Case) -> tuple[Flat, list[Any]]:
    """Cotangents of the operands, from those of the results."""
    rng, n = case.rng(), len(case.args)
    cts = [random_like(rng, a) for a in case.types(*case.avals)]

    def f(*flat: Any) -> list[Any]:
        return pullback_of(case, case.flat, flat[n:])(*flat[:n])

    return f, [*case.args, *cts]


def mapped(case: Case) -> tuple[Flat, list[Any]]:
    """The row over a leading axis."""
    args, dims = batched_args(case)
    return vmapped(case.flat, dims), args


Law = Callable[[Case], tuple[Flat, list[Any]]]
LAWS: dict[str, tuple[Law, Sequence[Case]]] = {
    "values": (values, CASES),
    "pushed": (pushed, DIFFERENTIABLE),
    "pulled": (pulled, DIFFERENTIABLE),
    "mapped": (mapped, MAPPABLE),
}


def of_row(cases: Sequence[Case]) -> dict[Primitive, list[Case]]:
    """Cases by their rows."""
    found: dict[Primitive, list[Case]] = {}
    for case in cases:
        found.setdefault(case.row, []).append(case)
    return found


def programs(compiled: bool) -> Any:
    """A test for each law and row: the law's name and the cases of the row."""
    found = [
        pytest.param(law, cases, id=f"{name}-{row.name}")
        for name, (law, every) in LAWS.items()
        if EVERYTHING or not compiled or name == "values"
        for row, cases in of_row(every).items()
    ]
    return pytest.mark.parametrize(("law", "cases"), found)


def together(parts: Sequence[tuple[Flat, list[Any]]]) -> tuple[Flat, list[Any]]:
    """Several functions as one, with the operands of all."""
    ends = [0, *accumulate(len(args) for _, args in parts)]

    def f(*flat: Any) -> list[list[Any]]:
        return [g(*flat[a:b]) for (g, _), (a, b) in zip(parts, pairwise(ends), strict=True)]

    return f, [x for _, args in parts for x in args]


def given(device: Any, args: Sequence[Any]) -> list[Any]:
    """Operands on a device; numbers of Python stay numbers."""
    arrays = (np.ndarray, np.generic)
    return [device.from_host(np.asarray(x)) if isinstance(x, arrays) else x for x in args]


def is_lacking(case: Case, f: Flat, args: Sequence[Any], compiled: bool) -> bool:
    """Whether a law needs something that CuPy does not have.

    What is evaluated at once evaluates the row, too, where only its derivatives are asked for.
    """
    if without_gpu():
        return False
    return bool(lacking(f, args) or (not compiled and lacking(case.flat, case.args)))


@contextmanager
def blaming(case: Case) -> Generator[None]:
    """Name the case in an error: a test has all those of a row."""
    try:
        yield
    except Exception as error:
        error.add_note(f"of {case.name}")
        raise


def is_ours(f: Flat, args: Sequence[Any], compiled: bool) -> bool:
    """Whether nothing of a function is done by CuPy itself."""
    if without_gpu():
        return True
    return compiled and not gpu_backend().plan(ftrace.jit(f).trace(*args)).callbacks


def assert_agree(
    device: Any, f: Flat, args: Sequence[Any], actual: Sequence[Any], compiled: bool
) -> None:
    """The results of a device are those of NumPy, of the same types."""
    expected = f(*args)
    assert len(actual) == len(expected)
    found = [device.to_host(y) if on_device(y) else y for y in actual]
    assert [(np.shape(y), typeof(y).dtype) for y in found] == [
        (np.shape(y), typeof(y).dtype) for y in expected
    ]
    assert_all_close(found, expected)
    rows = set(rows_of(ftrace.make_jaxpr(f)(*args)))
    if not rows & (ROUNDED | SUMS | JOINED | {"complex"}) and is_ours(f, args, compiled):
        for a, e in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, e)


@programs(compiled=False)
def test_rows_on_a_device(law: Law, cases: list[Case], some_device: Any) -> None:
    for case in cases:
        f, args = law(unique(case))
        there = given(some_device, args)
        with blaming(case):
            if is_lacking(case, f, args, False):
                with pytest.raises((RuleError, DtypeError), match="CuPy"):
                    f(*there)
                continue
            actual = f(*there)
            if law is values:  # a derivative may be zeros that nobody has looked at yet
                assert all(map(on_device, actual)) or not any(map(on_device, there))
            assert_agree(some_device, f, args, actual, False)


@pytest.mark.sampled(2)
@programs(compiled=True)
def test_compiled_rows_on_a_device(law: Law, cases: list[Case], some_device: Any) -> None:
    parts = []
    for case in cases:
        f, args = law(unique(case))
        if not is_lacking(case, f, args, True):
            parts.append((case, f, args))
            continue
        with blaming(case), pytest.raises((RuleError, DtypeError), match="CuPy"):
            ftrace.jit(f)(*given(some_device, args))
    if not parts:
        return
    f, args = together([(g, own) for _, g, own in parts])
    compiled = ftrace.jit(f)
    for _ in range(2):  # the second call may be recorded
        there = given(some_device, args)
        results = compiled(*there)
        for (case, g, own), actual in zip(parts, results, strict=True):
            with blaming(case):
                assert all(map(on_device, actual)) or not any(map(on_device, there))
                assert_agree(some_device, g, own, actual, True)
