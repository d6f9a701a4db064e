"""Names of JAX's that ftrace has not, and what takes their place.

A module whose `__getattr__` is `refusing("lax")` raises `AbsentNameError` for these, which
`hasattr` and `from ftrace.lax import name` take as any missing name, and Python's own error for
all others.
"""

from collections.abc import Callable
from typing import Any, Final

from ftrace.core.errors import AbsentNameError

_ONE_DEVICE = (
    "A program runs on the device of its arguments: batch with ftrace.vmap, and sum over its axis "
    "with lax.psum."
)
_FOLLOWS = (
    "Device follows data: ftrace.device_put(x) and cupy.asarray(x) move an array to the GPU, and "
    "x.device says where it is."
)
_PLACED = "Arrays are not spread over devices: leave it out."
_WRITES = "Arrays are written in place, `x[i] = v`, or by `x.at[i].set(v)`; loops carry them."
_SETTING = "ftrace.config lists what can be set."
_TYPES = "NumPy has no such dtype: use numpy.float16, numpy.float32 or numpy.int8."
_INSIDE = "It is a part of JAX's implementation: ftrace.make_jaxpr shows programs of ours."
_CACHES = "A jitted function forgets what it has compiled by f.clear_cache()."
_MESSAGES = "Derivatives tell integers by None or 0: nothing of such a dtype is shown."
_TOKENS = "Effects keep their order without tokens: ftrace.pure_callback and ftrace.io_callback."
_RAGGED = "Use a loop over groups, or lax.dot_general on padded operands."
_KEYS = "Keys are arrays of two words, uint32[2], of threefry2x32: leave it out."
_XLA = "Programs are compiled by ftrace itself: jit(f).lower(x) shows kernels, LLVM or CUDA C."

ABSENT: Final[dict[str, dict[str, str]]] = {
    "": {
        "NamedSharding P Shard sharding set_mesh reshard make_mesh": _ONE_DEVICE,
        "smap shard_map pmap": _ONE_DEVICE,
        "make_array_from_callback make_array_from_process_local_data distributed": _ONE_DEVICE,
        "make_array_from_single_device_arrays host_count host_id host_ids": _ONE_DEVICE,
        "process_count process_index process_indices local_device_count device_count": _ONE_DEVICE,
        "remove_size_one_mesh_axis_from_type auto_pcast": _ONE_DEVICE,
        "Device devices local_devices default_backend default_device memory": _FOLLOWS,
        "transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host": _FOLLOWS,
        "transfer_guard_host_to_device copy_to_host_async live_arrays": _FOLLOWS,
        "Ref ref new_ref empty_ref free_ref freeze": _WRITES,
        "allow_f16_reductions check_tracer_leaks checking_leaks debug_key_reuse": _SETTING,
        "array_garbage_collection_guard enable_custom_prng explain_cache_misses": _SETTING,
        "legacy_prng_key default_prng_impl threefry_partitionable thread_guard": _SETTING,
        "jax2tf_associative_scan_reductions softmax_custom_jvp log_compiles": _SETTING,
        "make_user_context no_execution no_tracing print_environment_info": _SETTING,
        "debug_nans debug_infs": "ftrace.debug.blame(f, x) names the line that made a NaN.",
        "clear_caches": _CACHES,
        "float0": _MESSAGES,
        "api_util ad lib monitoring profiler": _INSIDE,
        "stages export ffi": _XLA + " A C or Fortran function is called by ftrace.external.",
        "image": "Use ftrace.numpy.interp, or indexing with weights.",
        "dlpack": "Use numpy.from_dlpack and cupy.from_dlpack.",
        "test_util": "ftrace.check_differentiable(f, x) looks at a function's derivatives.",
        "ds": "Use lax.dynamic_slice, or x[i : i + n] with a known n.",
        "fwd_and_bwd": "Use ftrace.vjp, whose pullback is a tree that jit takes and returns.",
        "effects_barrier": "Use ftrace.block_until_ready(x).",
        "version": "Use ftrace.__version__.",
    },
    "lax": {
        "AccuracyMode Tolerance": "Elementary functions are within 2 units of the last place.",
        "DotAlgorithm DotAlgorithmPreset PrecisionLike": "Products have full precision.",
        "RandomAlgorithm rng_bit_generator rng_uniform": "Use ftrace.random.bits and uniform.",
        "after_all create_token": _TOKENS,
        "dce_sink": "An unused result is dropped; return what is to be kept.",
        "all_gather all_to_all pbroadcast pcast ppermute precv psend pshuffle": _ONE_DEVICE,
        "psum_scatter pswapaxes ragged_all_to_all with_sharding_constraint": _ONE_DEVICE,
        "ragged_dot ragged_dot_general RaggedDotDimensionNumbers": _RAGGED,
        "scaled_dot": "Use ftrace.nn.scaled_matmul.",
        "composite": "Call the function: it is compiled with what is around it.",
        "conv_general_dilated_local conv_general_dilated_patches": (
            "Use numpy.lib.stride_tricks.sliding_window_view and numpy.einsum."
        ),
        "conv_general_permutations conv_general_shape_tuple conv_shape_tuple": (
            "ftrace.eval_shape(f, x) gives the shape of any function's result."
        ),
        "conv_transpose_shape_tuple reduce_window_shape_tuple shape_as_value": (
            "ftrace.eval_shape(f, x) gives the shape of any function's result."
        ),
        "igamma_grad_a random_gamma_grad": (
            "ftrace.grad of lax.igamma differentiates by both arguments, and that of "
            "ftrace.random.gamma by the parameter."
        ),
        "stage": "Use ftrace.jit.",
        "axis_size": "lax.psum(1, axis_name) is the size of an axis.",
        "DotDimensionNumbers": "Give a nest of tuples, as lax.dot_general documents them.",
        "scatter_apply": "Use lax.gather, the function, and lax.scatter; or x.at[i].set(f(x[i])).",
        "index_take": "Use numpy.take, or x[i, j].",
    },
    "numpy": {
        "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn": _TYPES,
        "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu": _TYPES,
        "float4_e2m1fn float6_e2m3fn float6_e3m2fn int1 int2 int4 uint1 uint2 uint4": _TYPES,
        "fromfile": "Use numpy.fromfile outside of the traced function.",
        "complex_": "Use complex128.",
        "float_": "Use float64.",
        "matrix asmatrix bmat": "Use two-dimensional arrays, `@` and numpy.block.",
        "nditer nested_iters": "Use functions of whole arrays, or `for v in x.flat`.",
    },
    "nn": {"get_scaled_dot_general_config scaled_dot_general": "Use ftrace.nn.scaled_matmul."},
    "nn.initializers": {
        "delta_orthogonal": "Use nn.initializers.orthogonal() for the middle of a kernel of zeros."
    },
    "random": {"key_impl key_dtype random_gamma_p": _KEYS},
    "tree_util": {
        "KeyEntry": "Steps of a path are GetAttrKey, DictKey, SequenceKey and FlattenedIndexKey.",
        "default_registry": "Use register_pytree_node and its kin.",
    },
    "custom_derivatives": {
        "custom_jvp_call_p custom_vjp_call_p remat_opt_p": _INSIDE,
        "CustomVJPPrimal custom_vjp_primal_tree_values": (
            "A rule is told which arguments are differentiated by "
            "custom_jvp's defjvp(rule, symbolic_zeros=True)."
        ),
    },
    "dtypes": {
        "bfloat16": _TYPES,
        "extended prng_key": _KEYS,
        "float0": _MESSAGES,
        "TypePromotionError": "Use ftrace.errors.DtypeError.",
    },
    "errors": {
        "InconclusiveDimensionOperation": "Shapes are known while tracing.",
        "JAXIndexError": "An index out of range is Python's IndexError.",
        "JAXTypeError": "Use ftrace.errors.DtypeError.",
        "JaxRuntimeError": "Use ftrace.errors.BackendError.",
        "JaxprTypeError": "Use ftrace.errors.JaxprError.",
        "KeyReuseError": "A key that is used twice gives the same numbers: nothing is raised.",
        "NonConcreteBooleanIndexError": "Use ftrace.errors.ConcretizationTypeError.",
    },
    "debug": {
        "DebugEffect OrderedDebugEffect": _INSIDE,
        "inspect_array_sharding visualize_array_sharding visualize_sharding": _PLACED,
        "log": "Use ftrace.debug.print.",
    },
    "ad_checkpoint": {
        "Offloadable Recompute Saveable": "Use ftrace.checkpoint_policies, or checkpoint(budget=)."
    },
    "scipy.spatial": {
        "transform": "Write rotations as matrices, or quaternions, of ftrace.numpy's functions."
    },
    "scipy.special": {"sph_harm": "Use sph_harm_y(n, m, theta, phi): theta is the polar angle."},
    "scipy.signal": {
        "stft istft": (
            "Use ftrace.numpy.fft.rfft of windowed lib.stride_tricks.sliding_window_view(x, n), "
            "and irfft; welch and csd are averages of such."
        ),
    },
    "scipy.stats": {"mode": "Use values, counts = ftrace.numpy.unique(..., size=), and argmax."},
    "experimental": {
        "EArray cur_qdd primal_tangent_dtype": _INSIDE,
    },
}
_LONELY: Final[dict[str, dict[str, str]]] = {
    module: {name: advice for names, advice in groups.items() for name in names.split()}
    for module, groups in ABSENT.items()
}
_ROW: Final = (
    "Primitives are functions here: ftrace.lax.{name} is, or calls, the primitive, and "
    "ftrace.Primitive makes one of your own."
)


def refusing(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: why a name of JAX's is not there, and what to use.

    Args:
        module: under `ftrace`, and the same under `jax`.
    """
    here = f"ftrace.{module}" if module else "ftrace"
    there = here.replace("ftrace", "jax")

    def __getattr__(name: str) -> Any:  # noqa: N807
        """Refuse a name."""
        advice = _LONELY.get(module, {}).get(name)
        if advice is None and module == "lax" and name.endswith("_p"):
            advice = _ROW.format(name=name.removesuffix("_p"))
        if advice is None:
            raise AttributeError(f"module {here!r} has no attribute {name!r}")
        raise AbsentNameError(f"{there}.{name} has no counterpart in {here}.", advice)

    return __getattr__
