"""`ftrace.random`: JAX's random numbers, functions of a key, the same bits on every device."""

from ftrace.random.keys import PRNGKey as PRNGKey
from ftrace.random.keys import clone as clone
from ftrace.random.keys import fold_in as fold_in
from ftrace.random.keys import key as key
from ftrace.random.keys import key_data as key_data
from ftrace.random.keys import split as split
from ftrace.random.keys import wrap_key_data as wrap_key_data
from ftrace.random.uniforms import bernoulli as bernoulli
from ftrace.random.uniforms import bits as bits
from ftrace.random.uniforms import rademacher as rademacher
from ftrace.random.uniforms import randint as randint
from ftrace.random.uniforms import uniform as uniform
from ftrace.random.continuous import cauchy as cauchy
from ftrace.random.continuous import exponential as exponential
from ftrace.random.continuous import gumbel as gumbel
from ftrace.random.continuous import laplace as laplace
from ftrace.random.continuous import logistic as logistic
from ftrace.random.continuous import pareto as pareto
from ftrace.random.continuous import rayleigh as rayleigh
from ftrace.random.continuous import triangular as triangular
from ftrace.random.continuous import weibull_min as weibull_min
from ftrace.random.normals import lognormal as lognormal
from ftrace.random.normals import maxwell as maxwell
from ftrace.random.normals import normal as normal
from ftrace.random.normals import truncated_normal as truncated_normal
