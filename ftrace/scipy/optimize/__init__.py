"""`ftrace.scipy.optimize`: minimisation in programs, assignments, Rosenbrock's function.

`minimize` has JAX's signature and is a loop of the program. SciPy's own solvers, with derivatives,
are in `ftrace.implicit`, which `scipy.optimize.minimize` becomes on traced arguments.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.scipy.optimize.active_sets import linear_sum_assignment as linear_sum_assignment
from ftrace.scipy.optimize.active_sets import nnls as nnls
from ftrace.scipy.optimize.quasi_newton import OptimizeResults as OptimizeResults
from ftrace.scipy.optimize.quasi_newton import minimize as minimize
from ftrace.scipy.optimize.rosenbrock import rosen as rosen
from ftrace.scipy.optimize.rosenbrock import rosen_der as rosen_der
from ftrace.scipy.optimize.rosenbrock import rosen_hess as rosen_hess
from ftrace.scipy.optimize.rosenbrock import rosen_hess_prod as rosen_hess_prod

_explain(globals())
