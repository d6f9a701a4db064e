"""scipy.special's ufuncs as functions of ftrace.scipy.special, from one table.

With no trace running they are SciPy's; else the rows of `ftrace.numpy.scipy_special`, which SciPy's
own ufuncs reach, too: `scipy.special.ndtr(t)` and this file's `ndtr(t)` give the same jaxpr.
"""

import importlib
from collections.abc import Callable
from typing import Any

from ftrace.core.device import LIBRARIES
from ftrace.core.lazy import once
from ftrace.core.trace import EVAL, ctx, running
from ftrace.numpy.promote import document, untraced
from ftrace.numpy.scipy_special import DOCS, ROWS, traced


def elementwise(name: str) -> Callable[..., Any]:
    """The function of this package for a ufunc of SciPy."""

    @once
    def pair() -> tuple[Any, Callable[..., Any]]:
        ufunc = getattr(importlib.import_module("scipy.special"), name)
        return ufunc, traced(ufunc, ROWS[name])

    def function(*operands: Any, **options: Any) -> Any:
        ufunc, ours = pair()
        if running and ctx.trace is not EVAL:
            return ours(*operands, **options)
        if LIBRARIES:
            return untraced(ufunc, ours, operands, options)
        return ufunc(*operands, **options)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "ftrace.scipy.special"
    function.__doc__ = document(DOCS[name], f"scipy.special.{name}")
    return function


agm = elementwise("agm")
airy = elementwise("airy")
bdtr = elementwise("bdtr")
bdtrc = elementwise("bdtrc")
beta = elementwise("beta")
betainc = elementwise("betainc")
betaincc = elementwise("betaincc")
betainccinv = elementwise("betainccinv")
betaincinv = elementwise("betaincinv")
betaln = elementwise("betaln")
binom = elementwise("binom")
boxcox = elementwise("boxcox")
boxcox1p = elementwise("boxcox1p")
cbrt = elementwise("cbrt")
chdtr = elementwise("chdtr")
chdtrc = elementwise("chdtrc")
chdtri = elementwise("chdtri")
cosm1 = elementwise("cosm1")
dawsn = elementwise("dawsn")
ellipe = elementwise("ellipe")
ellipeinc = elementwise("ellipeinc")
ellipk = elementwise("ellipk")
ellipkinc = elementwise("ellipkinc")
ellipkm1 = elementwise("ellipkm1")
entr = elementwise("entr")
erf = elementwise("erf")
erfc = elementwise("erfc")
erfcinv = elementwise("erfcinv")
erfcx = elementwise("erfcx")
erfi = elementwise("erfi")
erfinv = elementwise("erfinv")
eval_chebyt = elementwise("eval_chebyt")
eval_chebyu = elementwise("eval_chebyu")
eval_gegenbauer = elementwise("eval_gegenbauer")
eval_genlaguerre = elementwise("eval_genlaguerre")
eval_hermite = elementwise("eval_hermite")
eval_hermitenorm = elementwise("eval_hermitenorm")
eval_laguerre = elementwise("eval_laguerre")
eval_legendre = elementwise("eval_legendre")
exp1 = elementwise("exp1")
exp10 = elementwise("exp10")
exp2 = elementwise("exp2")
expi = elementwise("expi")
expit = elementwise("expit")
expm1 = elementwise("expm1")
expn = elementwise("expn")
exprel = elementwise("exprel")
fdtr = elementwise("fdtr")
fdtrc = elementwise("fdtrc")
fdtri = elementwise("fdtri")
fresnel = elementwise("fresnel")
gamma = elementwise("gamma")
gammainc = elementwise("gammainc")
gammaincc = elementwise("gammaincc")
gammainccinv = elementwise("gammainccinv")
gammaincinv = elementwise("gammaincinv")
gammaln = elementwise("gammaln")
gammasgn = elementwise("gammasgn")
gdtr = elementwise("gdtr")
gdtrc = elementwise("gdtrc")
huber = elementwise("huber")
hyp0f1 = elementwise("hyp0f1")
hyp1f1 = elementwise("hyp1f1")
hyp2f1 = elementwise("hyp2f1")
hyperu = elementwise("hyperu")
i0 = elementwise("i0")
i0e = elementwise("i0e")
i1 = elementwise("i1")
i1e = elementwise("i1e")
inv_boxcox = elementwise("inv_boxcox")
inv_boxcox1p = elementwise("inv_boxcox1p")
iv = elementwise("iv")
ive = elementwise("ive")
j0 = elementwise("j0")
j1 = elementwise("j1")
jv = elementwise("jv")
jve = elementwise("jve")
k0 = elementwise("k0")
k0e = elementwise("k0e")
k1 = elementwise("k1")
k1e = elementwise("k1e")
kl_div = elementwise("kl_div")
kn = elementwise("kn")
kv = elementwise("kv")
kve = elementwise("kve")
log1p = elementwise("log1p")
log_expit = elementwise("log_expit")
log_ndtr = elementwise("log_ndtr")
loggamma = elementwise("loggamma")
logit = elementwise("logit")
nbdtr = elementwise("nbdtr")
nbdtrc = elementwise("nbdtrc")
ndtr = elementwise("ndtr")
ndtri = elementwise("ndtri")
ndtri_exp = elementwise("ndtri_exp")
owens_t = elementwise("owens_t")
pdtr = elementwise("pdtr")
pdtrc = elementwise("pdtrc")
poch = elementwise("poch")
powm1 = elementwise("powm1")
pseudo_huber = elementwise("pseudo_huber")
psi = elementwise("psi")
rel_entr = elementwise("rel_entr")
rgamma = elementwise("rgamma")
shichi = elementwise("shichi")
sici = elementwise("sici")
spence = elementwise("spence")
stdtr = elementwise("stdtr")
stdtrit = elementwise("stdtrit")
tklmbda = elementwise("tklmbda")
wofz = elementwise("wofz")
wrightomega = elementwise("wrightomega")
xlog1py = elementwise("xlog1py")
xlogy = elementwise("xlogy")
y0 = elementwise("y0")
y1 = elementwise("y1")
yn = elementwise("yn")
yv = elementwise("yv")
yve = elementwise("yve")
digamma = psi
jn = jv
