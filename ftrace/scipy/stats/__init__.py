"""`ftrace.scipy.stats`: distributions with SciPy's names and arguments, and with derivatives.

A distribution has SciPy's methods: `norm.logpdf(x, loc, scale)`, `gamma.cdf(x, a)`,
`poisson.logpmf(k, mu)`. They compute in the dtype of their arguments.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.jax_names import refusing as _refusing
from ftrace.scipy.stats.continuous_distributions import beta as beta
from ftrace.scipy.stats.continuous_distributions import cauchy as cauchy
from ftrace.scipy.stats.continuous_distributions import chi2 as chi2
from ftrace.scipy.stats.continuous_distributions import expon as expon
from ftrace.scipy.stats.continuous_distributions import f as f
from ftrace.scipy.stats.continuous_distributions import gamma as gamma
from ftrace.scipy.stats.continuous_distributions import gennorm as gennorm
from ftrace.scipy.stats.continuous_distributions import gumbel_l as gumbel_l
from ftrace.scipy.stats.continuous_distributions import gumbel_r as gumbel_r
from ftrace.scipy.stats.continuous_distributions import invgamma as invgamma
from ftrace.scipy.stats.continuous_distributions import laplace as laplace
from ftrace.scipy.stats.continuous_distributions import logistic as logistic
from ftrace.scipy.stats.continuous_distributions import lognorm as lognorm
from ftrace.scipy.stats.continuous_distributions import norm as norm
from ftrace.scipy.stats.continuous_distributions import pareto as pareto
from ftrace.scipy.stats.continuous_distributions import t as t
from ftrace.scipy.stats.continuous_distributions import truncnorm as truncnorm
from ftrace.scipy.stats.continuous_distributions import uniform as uniform
from ftrace.scipy.stats.continuous_distributions import vonmises as vonmises
from ftrace.scipy.stats.continuous_distributions import weibull_min as weibull_min
from ftrace.scipy.stats.continuous_distributions import wrapcauchy as wrapcauchy
from ftrace.scipy.stats.discrete_distributions import bernoulli as bernoulli
from ftrace.scipy.stats.discrete_distributions import betabinom as betabinom
from ftrace.scipy.stats.discrete_distributions import binom as binom
from ftrace.scipy.stats.discrete_distributions import geom as geom
from ftrace.scipy.stats.discrete_distributions import nbinom as nbinom
from ftrace.scipy.stats.discrete_distributions import poisson as poisson
from ftrace.scipy.stats.divergences import chisquare as chisquare
from ftrace.scipy.stats.divergences import power_divergence as power_divergence
from ftrace.scipy.stats.joint_distributions import dirichlet as dirichlet
from ftrace.scipy.stats.joint_distributions import multinomial as multinomial
from ftrace.scipy.stats.joint_distributions import multivariate_normal as multivariate_normal
from ftrace.scipy.stats.sample_statistics import gaussian_kde as gaussian_kde
from ftrace.scipy.stats.sample_statistics import rankdata as rankdata
from ftrace.scipy.stats.sample_statistics import sem as sem

__getattr__ = _refusing("scipy.stats")
