"""`ftrace.implicit`: SciPy's solvers, differentiable by the implicit function theorem.

`root`, `brentq`, `fixed_point` and `minimize` find x with F(x, *args) = 0; `solve`, `spsolve`,
`cg`, `gmres` and `bicgstab` solve A x = b. SciPy does the solving, on plain arrays; the derivatives
of the solution, of any order and in both modes, come from the equation alone and so cost one linear
solve each, however long the solver took. Under `vmap` the solver runs once per member, under `jit`
it is called from the compiled program. `lax.custom_root` and `lax.custom_linear_solve` take other
solvers.
"""

from ftrace.core.arguments import explain as _explain
from ftrace.implicit.linear_systems import bicgstab as bicgstab
from ftrace.implicit.linear_systems import cg as cg
from ftrace.implicit.linear_systems import gmres as gmres
from ftrace.implicit.linear_systems import solve as solve
from ftrace.implicit.linear_systems import spsolve as spsolve
from ftrace.implicit.optimize import Result as Result
from ftrace.implicit.optimize import brentq as brentq
from ftrace.implicit.optimize import fixed_point as fixed_point
from ftrace.implicit.optimize import minimize as minimize
from ftrace.implicit.optimize import root as root

_explain(globals())
