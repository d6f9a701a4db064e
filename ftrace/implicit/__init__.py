"""`ftrace.implicit`: SciPy's solvers, differentiable by the equations they solve.

`root`, `root_scalar`, `brentq`, `fixed_point`, `minimize`, `minimize_scalar`, `least_squares` and
`curve_fit` find x with F(x, *args) = 0; `solve`, `spsolve`, `cg`, `gmres` and `bicgstab` solve
A x = b; `solve_ivp` and `odeint` solve differential equations, `quad` integrates. SciPy does the
solving, on plain arrays; the derivatives of the solution, of any order and in both modes, come from
the equation alone: one linear solve, one sensitivity or adjoint equation, however long the solver
took. Transformed functions may call SciPy's own functions, too: where something is traced, these
take their place. Under `vmap` the solver runs once per member, under `jit`
it is called from the compiled program. `lax.custom_root` and `lax.custom_linear_solve` take other
solvers.
"""

from ftrace.core.arguments import explain as _explain
from ftrace.implicit.fitting import curve_fit as curve_fit
from ftrace.implicit.fitting import least_squares as least_squares
from ftrace.implicit.fitting import minimize_scalar as minimize_scalar
from ftrace.implicit.fitting import root_scalar as root_scalar
from ftrace.implicit.integrate import odeint as odeint
from ftrace.implicit.integrate import quad as quad
from ftrace.implicit.integrate import solve_ivp as solve_ivp
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
