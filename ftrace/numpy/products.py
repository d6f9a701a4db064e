"""Products with JAX's keywords `precision=` and `preferred_element_type=` beside NumPy's."""

from ftrace.numpy import matrix_products, numerics
from ftrace.numpy.einsum import einsum as sum_of_products
from ftrace.numpy.precision import product

convolve = product(numerics.convolve)
correlate = product(numerics.correlate)
dot = product(matrix_products.dot)
einsum = product(sum_of_products)
inner = product(matrix_products.inner)
matmul = product(matrix_products.matmul)
matvec = product(matrix_products.matvec)
tensordot = product(matrix_products.tensordot)
vdot = product(matrix_products.vdot)
vecdot = product(matrix_products.vecdot)
vecmat = product(matrix_products.vecmat)
