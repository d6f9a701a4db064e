"""`ftrace.sparse`: SciPy's sparse matrices in transformed functions.

A `scipy.sparse` matrix in CSR, CSC or COO format is a container whose leaf is `data`: it may be an
argument or a result of any transformation, and has a derivative, again a sparse matrix. Inside of
the function it is a `Sparse`, with the operators and methods that are linear or act on each
element; plain matrices that meet traced values there (`A @ x`, `A.dot(x)`) become one, and so does
`scipy.sparse.csr_array((data, indices, indptr))` of traced data. The places of elements are fixed:
what would depend on values of zero (`A.nonzero()`, `A.eliminate_zeros()`) is not there.

`jacobian` and `hessian` make functions that return sparse derivatives: the pattern is found from
the program (`pattern`) and coloured, and each call takes as many passes as there are colours.
`ftrace.jacobian(f, structured=True)` is a Jacobian by its structure instead (linear_maps.py):
diagonals, Kronecker products, products that are not formed.

Systems are solved by `ftrace.implicit.spsolve`, `cg`, `gmres`, `bicgstab`, or SciPy's functions of
these names.
"""

from ftrace.core.arguments import explain as _explain
from ftrace.sparse.building import coo_array as coo_array
from ftrace.sparse.building import coo_matrix as coo_matrix
from ftrace.sparse.building import csc_array as csc_array
from ftrace.sparse.building import csc_matrix as csc_matrix
from ftrace.sparse.building import csr_array as csr_array
from ftrace.sparse.building import csr_matrix as csr_matrix
from ftrace.sparse.building import diags as diags
from ftrace.sparse.building import diags_array as diags_array
from ftrace.sparse.derivatives import Plan as Plan
from ftrace.sparse.derivatives import hessian as hessian
from ftrace.sparse.derivatives import jacobian as jacobian
from ftrace.sparse.derivatives import pattern as pattern
from ftrace.sparse.jacobians_as_operators import jacobian_operator as jacobian_operator
from ftrace.sparse.traced_data import Sparse as Sparse
from ftrace.sparse.traced_data import as_sparse as as_sparse

_explain(globals())
