"""`ftrace.scipy.special`: SciPy's special functions, with derivatives.

With no trace running each is SciPy's own function. The ufuncs among them may also be called by
SciPy's name on traced arrays: `scipy.special.ndtr(t)`.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing
from ftrace.numpy.elementary import sinc as sinc
from ftrace.scipy.special.composed_functions import bernoulli as bernoulli
from ftrace.scipy.special.composed_functions import comb as comb
from ftrace.scipy.special.composed_functions import euler as euler
from ftrace.scipy.special.composed_functions import factorial as factorial
from ftrace.scipy.special.composed_functions import lambertw as lambertw
from ftrace.scipy.special.composed_functions import log_softmax as log_softmax
from ftrace.scipy.special.composed_functions import logsumexp as logsumexp
from ftrace.scipy.special.composed_functions import multigammaln as multigammaln
from ftrace.scipy.special.composed_functions import perm as perm
from ftrace.scipy.special.composed_functions import polygamma as polygamma
from ftrace.scipy.special.composed_functions import softmax as softmax
from ftrace.scipy.special.composed_functions import softplus as softplus
from ftrace.scipy.special.composed_functions import spherical_in as spherical_in
from ftrace.scipy.special.composed_functions import spherical_jn as spherical_jn
from ftrace.scipy.special.composed_functions import spherical_kn as spherical_kn
from ftrace.scipy.special.composed_functions import spherical_yn as spherical_yn
from ftrace.scipy.special.composed_functions import zeta as zeta
from ftrace.scipy.special.elementwise_functions import FUNCTIONS as _FUNCTIONS
from ftrace.scipy.special.legendre_functions import assoc_laguerre as assoc_laguerre
from ftrace.scipy.special.legendre_functions import assoc_legendre_p as assoc_legendre_p
from ftrace.scipy.special.legendre_functions import assoc_legendre_p_all as assoc_legendre_p_all
from ftrace.scipy.special.legendre_functions import bessel_jn as bessel_jn
from ftrace.scipy.special.legendre_functions import diric as diric
from ftrace.scipy.special.legendre_functions import h1vp as h1vp
from ftrace.scipy.special.legendre_functions import h2vp as h2vp
from ftrace.scipy.special.legendre_functions import ivp as ivp
from ftrace.scipy.special.legendre_functions import jvp as jvp
from ftrace.scipy.special.legendre_functions import kvp as kvp
from ftrace.scipy.special.legendre_functions import legendre_p as legendre_p
from ftrace.scipy.special.legendre_functions import legendre_p_all as legendre_p_all
from ftrace.scipy.special.legendre_functions import lmbda as lmbda
from ftrace.scipy.special.legendre_functions import pbdv_seq as pbdv_seq
from ftrace.scipy.special.legendre_functions import pbvv_seq as pbvv_seq
from ftrace.scipy.special.legendre_functions import riccati_jn as riccati_jn
from ftrace.scipy.special.legendre_functions import riccati_yn as riccati_yn
from ftrace.scipy.special.legendre_functions import sph_harm_y as sph_harm_y
from ftrace.scipy.special.legendre_functions import sph_harm_y_all as sph_harm_y_all
from ftrace.scipy.special.legendre_functions import sph_legendre_p as sph_legendre_p
from ftrace.scipy.special.legendre_functions import sph_legendre_p_all as sph_legendre_p_all
from ftrace.scipy.special.legendre_functions import yvp as yvp

globals().update({name: f for name, f in _FUNCTIONS.items() if name not in globals()})
_explain(globals())
__getattr__ = _refusing("scipy.special")
