"""The table of all rows: `ALL` in a fixed order, `by_name`.

The only module that imports every row file, and a file is listed by being imported here. A row is
listed by being a module-level value of its file; rows that a file imports from another count once.
The generated tests and the reference documentation go through this table.
"""
# pyright: reportUnusedImport=false

from types import ModuleType
from typing import Final

from ftrace.core.primitive import Primitive
from ftrace.primitives import (  # noqa: F401 - read below, all of them
    arithmetic,
    banded,
    compare,
    conv,
    convert,
    create,
    cumulative,
    definite,
    determinants,
    dot,
    dynamic,
    eigenvalues,
    elementwise,
    factored,
    few_terms,
    fourier,
    gaps,
    incomplete,
    index,
    index_bounds,
    least_squares,
    linear,
    lu_factors,
    matrix_equations,
    matrix_roots,
    orthogonal,
    outside,
    powers,
    probability,
    reduce,
    scatter,
    scipy_bessel,
    scipy_cdfs,
    scipy_elliptic,
    scipy_errors,
    scipy_functions,
    scipy_gammas,
    scipy_integrals,
    scipy_polynomials,
    scipy_waves,
    shape,
    singular_values,
    slicing,
    small_systems,
    sort,
    special,
    spectra,
    systems,
    triangular,
    windows,
)

LATE: Final = (
    index_bounds.index_error,
    index_bounds.gather_clipped,
    index_bounds.scatter_at,
    small_systems.small_system,
    few_terms.sum_of_products,
    factored.lu_factors,
    factored.solve_factored,
)
"""Rows that lowering alone makes: no transformation meets them."""
_FOUND = [v for m in [*globals().values()] if isinstance(m, ModuleType) for v in vars(m).values()]
ALL: Final = tuple(dict.fromkeys(v for v in _FOUND if isinstance(v, Primitive) and v not in LATE))
by_name: Final = {row.name: row for row in ALL}
