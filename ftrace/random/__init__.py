"""`ftrace.random`: JAX's random numbers, functions of a key, the same bits on every device."""

from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing
from ftrace.random.choosing import categorical as categorical
from ftrace.random.choosing import choice as choice
from ftrace.random.choosing import permutation as permutation
from ftrace.random.continuous import cauchy as cauchy
from ftrace.random.continuous import exponential as exponential
from ftrace.random.continuous import gumbel as gumbel
from ftrace.random.continuous import laplace as laplace
from ftrace.random.continuous import logistic as logistic
from ftrace.random.continuous import pareto as pareto
from ftrace.random.continuous import rayleigh as rayleigh
from ftrace.random.continuous import triangular as triangular
from ftrace.random.continuous import weibull_min as weibull_min
from ftrace.random.counts import binomial as binomial
from ftrace.random.counts import geometric as geometric
from ftrace.random.counts import multinomial as multinomial
from ftrace.random.counts import poisson as poisson
from ftrace.random.gammas import beta as beta
from ftrace.random.gammas import chisquare as chisquare
from ftrace.random.gammas import dirichlet as dirichlet
from ftrace.random.gammas import f as f
from ftrace.random.gammas import gamma as gamma
from ftrace.random.gammas import loggamma as loggamma
from ftrace.random.gammas import t as t
from ftrace.random.keys import PRNGKey as PRNGKey
from ftrace.random.keys import clone as clone
from ftrace.random.keys import fold_in as fold_in
from ftrace.random.keys import key as key
from ftrace.random.keys import key_data as key_data
from ftrace.random.keys import split as split
from ftrace.random.keys import wrap_key_data as wrap_key_data
from ftrace.random.multivariate import ball as ball
from ftrace.random.multivariate import generalized_normal as generalized_normal
from ftrace.random.multivariate import multivariate_normal as multivariate_normal
from ftrace.random.multivariate import orthogonal as orthogonal
from ftrace.random.normals import double_sided_maxwell as double_sided_maxwell
from ftrace.random.normals import lognormal as lognormal
from ftrace.random.normals import maxwell as maxwell
from ftrace.random.normals import truncated_normal as truncated_normal
from ftrace.random.normals import wald as wald
from ftrace.random.over_trees import normal as normal
from ftrace.random.over_trees import normal_like as normal_like
from ftrace.random.uniforms import bernoulli as bernoulli
from ftrace.random.uniforms import bits as bits
from ftrace.random.uniforms import rademacher as rademacher
from ftrace.random.uniforms import randint as randint
from ftrace.random.uniforms import uniform as uniform

_explain(globals())
__getattr__ = _refusing("random")
