"""`ftrace.scipy.linalg`: functions of matrices of SciPy, with derivatives, batches and compiled.

With no trace running they are SciPy's own. Matrices lie in the last two axes, stacks in front.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.scipy.linalg.general_systems import det as det
from ftrace.scipy.linalg.general_systems import inv as inv
from ftrace.scipy.linalg.general_systems import solve as solve
from ftrace.scipy.linalg.general_systems import solve_banded as solve_banded
from ftrace.scipy.linalg.general_systems import solve_toeplitz as solve_toeplitz
from ftrace.scipy.linalg.general_systems import solveh_banded as solveh_banded
from ftrace.scipy.linalg.matrix_functions import expm as expm
from ftrace.scipy.linalg.matrix_functions import expm_frechet as expm_frechet
from ftrace.scipy.linalg.matrix_functions import (
    solve_continuous_lyapunov as solve_continuous_lyapunov,
)
from ftrace.scipy.linalg.matrix_functions import (
    solve_discrete_lyapunov as solve_discrete_lyapunov,
)
from ftrace.scipy.linalg.matrix_functions import solve_sylvester as solve_sylvester
from ftrace.scipy.linalg.riccati_equations import solve_continuous_are as solve_continuous_are
from ftrace.scipy.linalg.riccati_equations import solve_discrete_are as solve_discrete_are
from ftrace.scipy.linalg.special_matrices import block_diag as block_diag
from ftrace.scipy.linalg.special_matrices import circulant as circulant
from ftrace.scipy.linalg.special_matrices import companion as companion
from ftrace.scipy.linalg.special_matrices import convolution_matrix as convolution_matrix
from ftrace.scipy.linalg.special_matrices import dft as dft
from ftrace.scipy.linalg.special_matrices import fiedler as fiedler
from ftrace.scipy.linalg.special_matrices import fiedler_companion as fiedler_companion
from ftrace.scipy.linalg.special_matrices import hadamard as hadamard
from ftrace.scipy.linalg.special_matrices import hankel as hankel
from ftrace.scipy.linalg.special_matrices import helmert as helmert
from ftrace.scipy.linalg.special_matrices import hilbert as hilbert
from ftrace.scipy.linalg.special_matrices import invhilbert as invhilbert
from ftrace.scipy.linalg.special_matrices import invpascal as invpascal
from ftrace.scipy.linalg.special_matrices import leslie as leslie
from ftrace.scipy.linalg.special_matrices import pascal as pascal
from ftrace.scipy.linalg.special_matrices import toeplitz as toeplitz
from ftrace.scipy.linalg.spectral_decompositions import eig as eig
from ftrace.scipy.linalg.spectral_decompositions import eigh as eigh
from ftrace.scipy.linalg.spectral_decompositions import eigh_tridiagonal as eigh_tridiagonal
from ftrace.scipy.linalg.spectral_decompositions import eigvals as eigvals
from ftrace.scipy.linalg.spectral_decompositions import eigvalsh as eigvalsh
from ftrace.scipy.linalg.spectral_decompositions import hessenberg as hessenberg
from ftrace.scipy.linalg.spectral_decompositions import qr as qr
from ftrace.scipy.linalg.spectral_decompositions import rsf2csf as rsf2csf
from ftrace.scipy.linalg.spectral_decompositions import schur as schur
from ftrace.scipy.linalg.spectral_decompositions import svd as svd
from ftrace.scipy.linalg.spectral_decompositions import svdvals as svdvals
from ftrace.scipy.linalg.spectral_functions_of_matrices import funm as funm
from ftrace.scipy.linalg.spectral_functions_of_matrices import logm as logm
from ftrace.scipy.linalg.spectral_functions_of_matrices import polar as polar
from ftrace.scipy.linalg.spectral_functions_of_matrices import sqrtm as sqrtm
from ftrace.scipy.linalg.subspaces import lstsq as lstsq
from ftrace.scipy.linalg.subspaces import norm as norm
from ftrace.scipy.linalg.subspaces import null_space as null_space
from ftrace.scipy.linalg.subspaces import orth as orth
from ftrace.scipy.linalg.subspaces import pinv as pinv
from ftrace.scipy.linalg.subspaces import pinvh as pinvh
from ftrace.scipy.linalg.subspaces import subspace_angles as subspace_angles
from ftrace.scipy.linalg.triangular_systems import cho_factor as cho_factor
from ftrace.scipy.linalg.triangular_systems import cho_solve as cho_solve
from ftrace.scipy.linalg.triangular_systems import cholesky as cholesky
from ftrace.scipy.linalg.triangular_systems import lu as lu
from ftrace.scipy.linalg.triangular_systems import lu_factor as lu_factor
from ftrace.scipy.linalg.triangular_systems import lu_solve as lu_solve
from ftrace.scipy.linalg.triangular_systems import solve_triangular as solve_triangular
