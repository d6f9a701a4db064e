"""`ftrace.scipy.integrate`: integrals of samples and of functions, by SciPy's names.

With no trace running each is SciPy's own function. Solvers of differential equations are in
`ftrace.implicit`, which `scipy.integrate.solve_ivp` and `odeint` become on traced arguments.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.integrate.quadrature import fixed_quad as fixed_quad
from ftrace.scipy.integrate.quadrature import newton_cotes as newton_cotes
from ftrace.scipy.integrate.quadrature import quad as quad
from ftrace.scipy.integrate.quadrature import quad_vec as quad_vec
from ftrace.scipy.integrate.sampled_integrals import cumulative_simpson as cumulative_simpson
from ftrace.scipy.integrate.sampled_integrals import cumulative_trapezoid as cumulative_trapezoid
from ftrace.scipy.integrate.sampled_integrals import romb as romb
from ftrace.scipy.integrate.sampled_integrals import simpson as simpson
from ftrace.scipy.integrate.sampled_integrals import trapezoid as trapezoid

_explain(globals())
