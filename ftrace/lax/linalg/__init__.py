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
from ftrace.lax.spectral_factors import EighImplementation as EighImplementation
from ftrace.lax.spectral_factors import EigImplementation as EigImplementation
from ftrace.lax.spectral_factors import SvdAlgorithm as SvdAlgorithm
from ftrace.lax.spectral_factors import eig as eig
from ftrace.lax.spectral_factors import eigh as eigh
from ftrace.lax.spectral_factors import hessenberg as hessenberg
from ftrace.lax.spectral_factors import qr as qr
from ftrace.lax.spectral_factors import schur as schur
from ftrace.lax.spectral_factors import svd as svd
from ftrace.lax.spectral_factors import tridiagonal as tridiagonal

_explain(globals())
