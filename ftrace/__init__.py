"""ftrace: derivatives, batching and compiling for Python functions over NumPy and CuPy arrays.

Functions are traced into small typed graphs of primitives (jaxprs), transformed by composable
interpreters, and compiled. Arrays stay `numpy.ndarray` and `cupy.ndarray`; names are JAX's.

Everything is loaded when it is first asked for, NumPy and the standard library's modules included:
`import ftrace` alone executes this file.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than all that is here

if TYPE_CHECKING:
    from typing import Any

    from ftrace import ad_checkpoint as ad_checkpoint
    from ftrace import checkpoint_policies as checkpoint_policies
    from ftrace import config as config
    from ftrace import custom_batching as custom_batching
    from ftrace import custom_derivatives as custom_derivatives
    from ftrace import debug as debug
    from ftrace import dtypes as dtypes
    from ftrace import errors as errors
    from ftrace import experimental as experimental
    from ftrace import flatten_util as flatten_util
    from ftrace import implicit as implicit
    from ftrace import lax as lax
    from ftrace import nn as nn
    from ftrace import numpy as numpy
    from ftrace import ops as ops
    from ftrace import passes as passes
    from ftrace import random as random
    from ftrace import scipy as scipy
    from ftrace import sparse as sparse
    from ftrace import testing as testing
    from ftrace import tree as tree
    from ftrace import tree_util as tree_util
    from ftrace.api.compiled.accepted import default_matmul_precision as default_matmul_precision
    from ftrace.api.compiled.accepted import enable_checks as enable_checks
    from ftrace.api.compiled.accepted import enable_x64 as enable_x64
    from ftrace.api.compiled.accepted import named_scope as named_scope
    from ftrace.api.compiled.accepted import numpy_dtype_promotion as numpy_dtype_promotion
    from ftrace.api.compiled.accepted import numpy_rank_promotion as numpy_rank_promotion
    from ftrace.api.compiled.accepted import typeof as typeof
    from ftrace.api.compiled.callbacks import io_callback as io_callback
    from ftrace.api.compiled.callbacks import pure_callback as pure_callback
    from ftrace.api.compiled.checkpointing import checkpoint as checkpoint
    from ftrace.api.compiled.checkpointing import checkpoint_name as checkpoint_name
    from ftrace.api.compiled.checkpointing import remat as remat
    from ftrace.api.compiled.compiling import block_until_ready as block_until_ready
    from ftrace.api.compiled.compiling import disable_jit as disable_jit
    from ftrace.api.compiled.compiling import ensure_compile_time_eval as ensure_compile_time_eval
    from ftrace.api.compiled.compiling import jit as jit
    from ftrace.api.compiled.compiling import named_call as named_call
    from ftrace.api.compiled.compiling import prepare as prepare
    from ftrace.api.compiled.devices import device_get as device_get
    from ftrace.api.compiled.devices import device_put as device_put
    from ftrace.api.compiled.inspecting import ShapeDtypeStruct as ShapeDtypeStruct
    from ftrace.api.compiled.inspecting import eval_shape as eval_shape
    from ftrace.api.compiled.inspecting import make_jaxpr as make_jaxpr
    from ftrace.api.compiled.inspecting import tangent_type as tangent_type
    from ftrace.api.compiled.vectorize import elementwise_partials as elementwise_partials
    from ftrace.api.compiled.vectorize import vectorize as vectorize
    from ftrace.api.derivatives.autodiff import canonical_grad as canonical_grad
    from ftrace.api.derivatives.autodiff import grad as grad
    from ftrace.api.derivatives.autodiff import jvp as jvp
    from ftrace.api.derivatives.autodiff import linearize as linearize
    from ftrace.api.derivatives.autodiff import value_and_grad as value_and_grad
    from ftrace.api.derivatives.autodiff import vjp as vjp
    from ftrace.api.derivatives.jacobians import hessian as hessian
    from ftrace.api.derivatives.jacobians import hvp as hvp
    from ftrace.api.derivatives.jacobians import jacfwd as jacfwd
    from ftrace.api.derivatives.jacobians import jacrev as jacrev
    from ftrace.api.derivatives.jets import derivative as derivative
    from ftrace.api.derivatives.jets import jet as jet
    from ftrace.api.derivatives.second_order import hessian_diagonal as hessian_diagonal
    from ftrace.api.derivatives.second_order import laplacian as laplacian
    from ftrace.api.derivatives.transposing import linear_transpose as linear_transpose
    from ftrace.api.looking.checking import check_differentiable as check_differentiable
    from ftrace.api.looking.checking import differentiable as differentiable
    from ftrace.api.looking.residuals import print_saved_residuals as print_saved_residuals
    from ftrace.api.looking.residuals import saved_residuals as saved_residuals
    from ftrace.api.modes.explaining import explain as explain
    from ftrace.api.modes.mode_choice import gradient as gradient
    from ftrace.api.modes.mode_choice import jacobian as jacobian
    from ftrace.api.rules.custom import custom_jvp as custom_jvp
    from ftrace.api.rules.custom import custom_vjp as custom_vjp
    from ftrace.api.rules.custom_gradient import closure_convert as closure_convert
    from ftrace.api.rules.custom_gradient import custom_gradient as custom_gradient
    from ftrace.api.rules.custom_rule import Diagonal as Diagonal
    from ftrace.api.rules.custom_rule import Products as Products
    from ftrace.api.rules.custom_rule import custom_rule as custom_rule
    from ftrace.api.rules.custom_vmap import custom_vmap as custom_vmap
    from ftrace.api.rules.external import external as external
    from ftrace.api.rules.preferring import prefer as prefer
    from ftrace.api.rules.surgery import clip_gradient as clip_gradient
    from ftrace.api.rules.surgery import replace_gradient as replace_gradient
    from ftrace.api.rules.surgery import reverse_gradient as reverse_gradient
    from ftrace.api.rules.surgery import scale_gradient as scale_gradient
    from ftrace.api.tracking import gradient_of as gradient_of
    from ftrace.api.tracking import track as track
    from ftrace.api.tracking import with_gradient as with_gradient
    from ftrace.api.vmap import vmap as vmap
    from ftrace.control.rules.vector_spaces import register_vector_space as register_vector_space
    from ftrace.core.primitive import Primitive as Primitive
    from ftrace.core.trace import Tracer as Tracer
    from ftrace.core.zero import SymbolicZero as SymbolicZero
    from ftrace.cpu.runtime.recycling import release_memory as release_memory
    from ftrace.lax.operations import stop_gradient as stop_gradient
    from ftrace.lifting.lifted import lift as lift
    from ftrace.typing import Array as Array

__version__ = "0.1.0"

_MODULES = (
    "ad_checkpoint checkpoint_policies config custom_batching custom_derivatives debug dtypes "
    "errors experimental flatten_util implicit lax nn numpy ops passes random scipy sparse "
    "testing tree tree_util"
)
_HOMES = {
    "ftrace.api.derivatives.autodiff": "canonical_grad grad jvp linearize value_and_grad vjp",
    "ftrace.api.modes.mode_choice": "gradient jacobian",
    "ftrace.api.derivatives.jets": "derivative jet",
    "ftrace.api.derivatives.transposing": "linear_transpose",
    "ftrace.api.derivatives.second_order": "hessian_diagonal laplacian",
    "ftrace.api.tracking": "gradient_of track with_gradient",
    "ftrace.api.vmap": "vmap",
    "ftrace.api.compiled.accepted": "default_matmul_precision enable_checks enable_x64 named_scope "
    "numpy_dtype_promotion numpy_rank_promotion typeof",
    "ftrace.api.compiled.callbacks": "io_callback pure_callback",
    "ftrace.api.looking.checking": "check_differentiable differentiable",
    "ftrace.api.compiled.checkpointing": "checkpoint checkpoint_name remat",
    "ftrace.api.compiled.compiling": "block_until_ready disable_jit ensure_compile_time_eval jit "
    "named_call prepare",
    "ftrace.api.rules.custom": "custom_jvp custom_vjp",
    "ftrace.api.rules.custom_gradient": "closure_convert custom_gradient",
    "ftrace.api.rules.custom_rule": "Diagonal Products custom_rule",
    "ftrace.api.rules.custom_vmap": "custom_vmap",
    "ftrace.api.compiled.devices": "device_get device_put",
    "ftrace.api.rules.external": "external",
    "ftrace.api.compiled.inspecting": "ShapeDtypeStruct eval_shape make_jaxpr tangent_type",
    "ftrace.api.derivatives.jacobians": "hessian hvp jacfwd jacrev",
    "ftrace.api.modes.explaining": "explain",
    "ftrace.api.looking.residuals": "print_saved_residuals saved_residuals",
    "ftrace.api.rules.preferring": "prefer",
    "ftrace.api.rules.surgery": "clip_gradient replace_gradient reverse_gradient scale_gradient",
    "ftrace.api.compiled.vectorize": "elementwise_partials vectorize",
    "ftrace.control.rules.vector_spaces": "register_vector_space",
    "ftrace.core.primitive": "Primitive",
    "ftrace.core.trace": "Tracer",
    "ftrace.core.zero": "SymbolicZero",
    "ftrace.cpu.runtime.recycling": "release_memory",
    "ftrace.lax.operations": "stop_gradient",
    "ftrace.lifting.lifted": "lift",
    "ftrace.typing": "Array",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    """Load a public name, or a submodule, at its first use."""
    import importlib
    from types import FunctionType

    from ftrace.core.lazy import MAKING
    from ftrace.core.rare_collections import rare_collections

    with MAKING, rare_collections():
        if name in _HOME_OF:
            value = getattr(importlib.import_module(_HOME_OF[name]), name)
            if type(value) is FunctionType:
                from ftrace.core.arguments import explained  # imports NumPy

                value = explained(value, f"ftrace.{name}")
        elif name in _MODULES.split():
            value = importlib.import_module(f"ftrace.{name}")
        else:
            from ftrace.core.jax_names import refusing

            return refusing("")(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES.split(), *_HOME_OF})
