"""The table of all rows: `ALL` in a fixed order, `by_name`.

The only module that imports every row file. A row is listed by being a module-level value of its
file; rows that a file imports from another count once. The generated tests and the reference
documentation go through this table.
"""

from types import ModuleType
from typing import Final

from ftrace.core.primitive import Primitive
from ftrace.primitives import (
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

MODULES: Final = (
    linear,
    compare,
    arithmetic,
    powers,
    elementwise,
    special,
    probability,
    scipy_functions,
    scipy_errors,
    scipy_bessel,
    scipy_integrals,
    incomplete,
    scipy_gammas,
    scipy_elliptic,
    scipy_polynomials,
    scipy_waves,
    scipy_cdfs,
    convert,
    create,
    shape,
    slicing,
    dynamic,
    index,
    scatter,
    sort,
    reduce,
    cumulative,
    dot,
    windows,
    conv,
    triangular,
    definite,
    determinants,
    lu_factors,
    systems,
    matrix_equations,
    banded,
    matrix_roots,
    fourier,
    gaps,
    outside,
    spectra,
    singular_values,
    orthogonal,
    eigenvalues,
    least_squares,
)


def _rows(modules: tuple[ModuleType, ...]) -> tuple[Primitive, ...]:
    """The rows among the values of some modules, each once."""
    found = [v for m in modules for v in vars(m).values() if isinstance(v, Primitive)]
    return tuple(dict.fromkeys(found))


ALL: Final = _rows(MODULES)
by_name: Final = {row.name: row for row in ALL}
LATE: Final = (
    index_bounds.index_error,
    index_bounds.gather_clipped,
    index_bounds.scatter_at,
    small_systems.small_system,
    few_terms.sum_of_products,
)
"""Rows that lowering alone makes: no transformation meets them."""
