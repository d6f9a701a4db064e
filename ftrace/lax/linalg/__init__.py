"""`ftrace.lax.linalg`: factorisations and systems under JAX's names, without promotion."""

from ftrace.core.arguments import explain as _explain
from ftrace.lax.matrix_factors import cholesky as cholesky
from ftrace.lax.matrix_factors import cholesky_update as cholesky_update
from ftrace.lax.matrix_factors import householder_product as householder_product
from ftrace.lax.matrix_factors import lu as lu
from ftrace.lax.matrix_factors import lu_pivots_to_permutation as lu_pivots_to_permutation
from ftrace.lax.matrix_factors import symmetric_product as symmetric_product
from ftrace.lax.matrix_factors import triangular_solve as triangular_solve
from ftrace.lax.matrix_factors import tridiagonal_solve as tridiagonal_solve

_explain(globals())
