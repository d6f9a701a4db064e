"""`ftrace.nn`: activation functions, softmax and attention under JAX's names.

Nothing here holds parameters; `nn.initializers` makes their first values.
"""

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing
from ftrace.nn import initializers as initializers
from ftrace.nn.activations import celu as celu
from ftrace.nn.activations import elu as elu
from ftrace.nn.activations import gelu as gelu
from ftrace.nn.activations import glu as glu
from ftrace.nn.activations import hard_sigmoid as hard_sigmoid
from ftrace.nn.activations import hard_silu as hard_silu
from ftrace.nn.activations import hard_swish as hard_swish
from ftrace.nn.activations import hard_tanh as hard_tanh
from ftrace.nn.activations import identity as identity
from ftrace.nn.activations import leaky_relu as leaky_relu
from ftrace.nn.activations import log1mexp as log1mexp
from ftrace.nn.activations import log_sigmoid as log_sigmoid
from ftrace.nn.activations import mish as mish
from ftrace.nn.activations import relu as relu
from ftrace.nn.activations import relu6 as relu6
from ftrace.nn.activations import selu as selu
from ftrace.nn.activations import sigmoid as sigmoid
from ftrace.nn.activations import silu as silu
from ftrace.nn.activations import soft_sign as soft_sign
from ftrace.nn.activations import softplus as softplus
from ftrace.nn.activations import sparse_plus as sparse_plus
from ftrace.nn.activations import sparse_sigmoid as sparse_sigmoid
from ftrace.nn.activations import squareplus as squareplus
from ftrace.nn.activations import swish as swish
from ftrace.nn.activations import tanh as tanh
from ftrace.nn.attention import dot_product_attention as dot_product_attention
from ftrace.nn.attention import scaled_matmul as scaled_matmul
from ftrace.nn.normalising import log_softmax as log_softmax
from ftrace.nn.normalising import logmeanexp as logmeanexp
from ftrace.nn.normalising import logsumexp as logsumexp
from ftrace.nn.normalising import one_hot as one_hot
from ftrace.nn.normalising import softmax as softmax
from ftrace.nn.normalising import standardize as standardize

_explain(globals())
__getattr__ = _refusing("nn")
