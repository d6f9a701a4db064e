"""Matrix products of a library, called by machine code without Python.

`library()` looks for the BLAS that NumPy itself uses, among the symbols of NumPy's extension and
of the libraries that came with it: then threads and bits are those of `np.matmul`. Where it is
hidden (linked statically, say), the functions that SciPy exports to C are taken. Each is tried on
a small product first. `product_text` writes the function that loops over a batch; where its sizes
and steps lie in the table is contraction.py's order.
"""

import ctypes
import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.errors import BackendError
from ftrace.core.lazy import once
from ftrace.cpu.llvm.machine_code import Module, compile_module, host
from ftrace.cpu.mathematics.libraries import capsule
from ftrace.cpu.runtime.blas_text import CBLAS, FORTRAN, PREFIX, product_name, product_text

KINDS: Final = {"f4": "s", "f8": "d"}
ROUTINES: Final = ("gemm", "gemv")
SHORT: Final = 2**31 - 1
LONG: Final = 2**62
# names of C functions, and the largest size they take; narrow ones ignore the upper halves
NAMES: Final = (
    ("scipy_cblas_{}64_", LONG),
    ("cblas_{}64_", LONG),
    ("cblas_{}$NEWLAPACK$ILP64", LONG),  # Apple's Accelerate
    ("scipy_cblas_{}", SHORT),
    ("cblas_{}", SHORT),
)


class BlasLibrary(NamedTuple):
    """Functions for matrix products.

    Attributes:
        symbols: their addresses, by the names that `text` uses.
        interface: CBLAS or FORTRAN.
        longest: the largest size they take.
        routine: (name, whether it is one of CBLAS, else of LAPACK) -> the address of another
            function of the library, which takes sizes as these do; 0 where it is not known.
    """

    symbols: dict[str, int]
    interface: str
    longest: int
    routine: Callable[[str, bool], int] = lambda name, cblas: 0


def library() -> BlasLibrary | None:
    """The library of this process, if there is one that works."""
    return _library()


def longest() -> int:
    """The largest size that the library takes; 0 without a library."""
    found = library()
    return found.longest if found else 0


def symbols() -> dict[str, int]:
    """The external symbols that `text` needs."""
    found = library()
    return found.symbols if found else {}


def text(dtype: str, *, vector: bool) -> str:
    """The declaration and the function of a product, for a module.

    Raises:
        BackendError: there is no library.
    """
    found = library()
    if found is None:
        raise BackendError(
            "The program has a matrix product for a library, but this process has no BLAS that "
            "compiled code can call. Plan it for this process: then NumPy computes it."
        )
    return product_text(found.interface, dtype, vector=vector)


@once
def _library() -> BlasLibrary | None:
    return next(filter(_works, itertools.chain(of_numpy(), of_scipy())), None)


# --- where the functions are


def of_numpy() -> Iterator[BlasLibrary]:
    """The libraries that NumPy's extension is linked to, and those beside it."""
    for path in _files():
        try:
            opened = ctypes.CDLL(str(path))
        except OSError:  # not a library of this system
            continue
        for name, largest in NAMES:
            addresses = _addresses(lambda routine, n=name, o=opened: getattr(o, n.format(routine)))
            if addresses:
                yield BlasLibrary(addresses, CBLAS, largest, _routines(opened, name))


def _routines(opened: Any, name: str) -> Callable[[str, bool], int]:
    """How the other functions of a library are found: LAPACK's names are Fortran's."""

    def routine(which: str, cblas: bool) -> int:
        plain = name.replace("cblas_", "")
        plain = plain if "$" in plain else plain.replace("{}", "{}_")
        function = getattr(opened, (name if cblas else plain).format(which), None)
        return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0

    return routine


def _files() -> Iterable[Path]:
    """NumPy's extension, through which its libraries' names are found, and these themselves."""
    extension = importlib.import_module("numpy._core._multiarray_umath").__file__
    package = Path(np.__file__).parent
    beside = (package.parent / "numpy.libs", package / ".dylibs", package / ".libs")
    bundled = sorted(f for folder in beside for f in folder.glob("*openblas*"))
    return [*([Path(extension)] if extension else []), *bundled]


def _addresses(find: Callable[[str], Any]) -> dict[str, int]:
    """The addresses of all routines, or nothing."""
    found: dict[str, int] = {}
    for (dtype, kind), routine in itertools.product(KINDS.items(), ROUTINES):
        try:
            function = find(kind + routine)
        except (AttributeError, KeyError):
            return {}
        value = ctypes.cast(function, ctypes.c_void_p).value
        found[f"{PREFIX}{routine}_{dtype}"] = value or 0
    return found


def of_scipy() -> Iterator[BlasLibrary]:
    """What SciPy exports to C: Fortran's interface with 32-bit sizes."""
    try:
        exported = importlib.import_module("scipy.linalg.cython_blas").__pyx_capi__
    except ImportError:
        return

    def find(routine: str) -> ctypes.c_void_p:
        signature, address = capsule(exported, routine)
        if signature.count("int *") != (5 if routine.endswith("gemv") else 6):
            raise KeyError(routine)
        return ctypes.c_void_p(address)

    addresses = _addresses(find)
    if addresses:
        yield BlasLibrary(addresses, FORTRAN, SHORT)


# --- whether they compute what they should


def _works(found: BlasLibrary) -> bool:
    """Small products, into memory that holds NaN."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return False
    cases = list(itertools.product(KINDS, (False, True)))
    parts = [product_text(found.interface, d, vector=v) for d, v in cases]
    parts += [_TRY.format(product_name(d, vector=v)) for d, v in cases]
    module = compile_module("\n".join(parts), found.symbols, host())
    return all(_right(module, d, vector=v) for d, v in cases)


_TRY: Final = """
define void @try_{0}(ptr %a, ptr %b, ptr %c, ptr %numbers) {{
  call void @{0}(ptr %a, ptr %b, ptr %c, ptr %numbers, i1 true, i1 false)
  ret void
}}
"""


def _right(module: Module, dtype: str, *, vector: bool) -> bool:
    """Whether a^T b is right, of whole numbers."""
    a = np.arange(1, 7).reshape(3, 2).astype(dtype)
    b = np.arange(2, 14).reshape(3, 4).astype(dtype)
    n = 1 if vector else 4
    c = np.full((2, n), np.nan, dtype)
    numbers = np.array([1, 1, 2, n, 3, 2, 4, 0, 0, 0, 0], np.int64)
    address = module.address(f"try_{product_name(dtype, vector=vector)}")
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)
    run(*(x.ctypes.data for x in (a, b, c, numbers)))
    return bool((c == a.T @ b[:, :n]).all())
