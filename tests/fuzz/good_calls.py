"""Calls that make sense, over the whole public API: bad inputs are made of them.

`GOOD` are (family, name, arguments, keywords). The calls of NumPy's functions are those of
`tests/numpy/cases.py`. Users' functions are written here: an error that one of them raises because
of a bad value is the user's, and its innermost frame shows it.
"""

from typing import Any

import numpy as np

import ftrace
from ftrace import random
from ftrace import tree_util as tu
from tests.fuzz import good_scipy
from tests.numpy.cases import CASES

X = np.array([1.0, 2.0, 3.0])
M = np.arange(9.0).reshape(3, 3) + np.eye(3)
INTS = np.array([2, 0, 1])
KEY = random.PRNGKey(0)
IMAGE, FILTERS = np.ones((1, 2, 5, 5)), np.ones((3, 2, 2, 2))
TREE = {"a": X, "b": (X, None)}
TREEDEF = tu.tree_structure(TREE)

Good = tuple[str, str, tuple[Any, ...], dict[str, Any]]


def sines(x: Any) -> Any:
    """An array from an array."""
    return np.sin(x)


def squares(x: Any) -> Any:
    """A number from an array."""
    return (x * x).sum()


def doubled(x: Any) -> Any:
    """A linear function."""
    return 2.0 * x


def added(x: Any, y: Any) -> Any:
    """A function of two values."""
    return x + y


def turn(c: Any, x: Any) -> Any:
    """A body for scan."""
    return c + x, c * x


def turned(i: Any, c: Any) -> Any:
    """A body for fori_loop."""
    return c + i


def small(c: Any) -> Any:
    """A condition for while_loop."""
    return c < 9.0


def solved(a: Any, b: Any) -> Any:
    """A solver for custom_linear_solve."""
    return b / 2.0


def _call(family: str, name: str, *args: Any, **kwargs: Any) -> Good:
    return family, name, args, kwargs


def _lax() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("argmax", X, 0), ("cumsum", M, 1), ("cumlogsumexp", X, 0), ("broadcast", X, (2,)),
        ("broadcast_in_dim", X, (2, 3), (1,)), ("broadcasted_iota", np.float64, (2, 3), 1),
        ("broadcast_shapes", (2, 1), (3,)), ("clamp", 0.0, X, 2.0), ("collapse", M, 0, 2),
        ("concatenate", [X, X], 0), ("cond", True, sines, doubled, X), ("complex", X, X),
        ("switch", 1, [sines, doubled], X), ("convert_element_type", X, np.float32),
        ("bitcast_convert_type", X, np.int64), ("conv", IMAGE, FILTERS, (1, 1), "SAME"),
        ("conv_general_dilated", IMAGE, FILTERS, (1, 1), [(0, 0), (1, 1)]),
        ("conv_transpose", IMAGE, np.ones((2, 2, 3, 2)), (1, 1), "VALID"),
        ("conv_dimension_numbers", (1, 2, 5, 5), (3, 2, 2, 2), ("NCHW", "OIHW", "NCHW")),
        ("custom_linear_solve", doubled, X, solved), ("dot", X, X), ("dot", M, X),
        ("custom_root", small, 1.0, solved, solved), ("batch_matmul", M[None], M[None]),
        ("dot_general", M, M, (((1,), (0,)), ((), ()))), ("dynamic_slice", X, (1,), (2,)),
        ("dynamic_slice_in_dim", X, 1, 2), ("dynamic_index_in_dim", M, 1, 0),
        ("dynamic_update_slice", X, X[:2], (1,)), ("dynamic_update_slice_in_dim", X, X[:2], 0, 0),
        ("dynamic_update_index_in_dim", M, X, 1, 0), ("expand_dims", X, (0,)),
        ("fori_loop", 0, 3, turned, X), ("full", (2, 3), 1.5), ("full_like", X, 2.0),
        ("index_in_dim", M, 1, 0), ("integer_pow", X, 3), ("iota", np.int64, 4), ("map", sines, X),
        ("associative_scan", added, X), ("optimization_barrier", X), ("empty", (2,), np.float64),
        ("pad", X, 0.0, [(1, 1, 0)]), ("population_count", INTS), ("reciprocal", X),
        ("padtype_to_pads", (5, 5), (2, 2), (1, 1), "SAME"), ("polygamma", 1.0, X),
        ("reduce", X, 0.0, added, (0,)), ("reduce_sum", M, (0,)), ("reduce_max", M, (1,)),
        ("reduce_precision", X, 5, 10), ("reshape", M, (9,)), ("rev", M, (0,)), ("round", X),
        ("reduce_window", M, 0.0, added, (2, 2), (1, 1), "VALID"), ("scan", turn, 0.0, X),
        ("select", X > 2, X, X), ("select_n", X > 2, X, X), ("slice", X, (0,), (2,), (1,)),
        ("slice_in_dim", X, 0, 2, 1, 0), ("sort", X, 0), ("sort_key_val", INTS, X, 0),
        ("split", X, (1, 2), 0), ("squeeze", X[None], (0,)), ("stack", [X, X], 0),
        ("tile", X, (2,)), ("top_k", X, 2), ("transpose", M, (1, 0)), ("unstack", M, 0),
        ("while_loop", small, doubled, 1.0), ("zeros_like_array", X), ("add", X, X),
        ("mul", X, X), ("pow", X, X), ("sin", X), ("lt", X, X), ("bessel_jv", 1.0, X),
        ("igamma", X, X), ("rem", X, X), ("atan2", X, X), ("max", X, X), ("stop_gradient", X),
    ]  # fmt: skip
    return [_call("lax", *call) for call in calls]


def _random() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("ball", 3), ("bernoulli", 0.5, (3,)), ("beta", 1.0, 2.0, (3,)), ("binomial", 5, 0.5, (3,)),
        ("bits", (3,)), ("categorical", X), ("cauchy", (3,)), ("chisquare", 2.0, (3,)),
        ("choice", X, (2,)), ("choice", 5, (2,), False), ("dirichlet", X), ("gamma", X, (3,)),
        ("double_sided_maxwell", 0.0, 1.0, (3,)), ("exponential", (3,)), ("f", 2.0, 3.0, (3,)),
        ("fold_in", 3), ("generalized_normal", 2.0, (3,)), ("geometric", 0.5, (3,)),
        ("gumbel", (3,)), ("laplace", (3,)), ("loggamma", 2.0, (3,)), ("lognormal", 1.0, (3,)),
        ("maxwell", (3,)), ("multinomial", 5, np.array([0.5, 0.5])), ("normal", (3,)),
        ("multivariate_normal", X, np.eye(3)), ("orthogonal", 3), ("pareto", 2.0, (3,)),
        ("permutation", X), ("permutation", 5), ("poisson", 2.0, (3,)), ("rademacher", (3,)),
        ("randint", (3,), 0, 5), ("rayleigh", 1.0, (3,)), ("split", 3), ("t", 2.0, (3,)),
        ("triangular", 0.0, 0.5, 1.0, (3,)), ("truncated_normal", -1.0, 1.0, (3,)),
        ("uniform", (3,)), ("wald", 1.0, (3,)), ("weibull_min", 1.0, 2.0, (3,)), ("clone",),
        ("key_data",), ("wrap_key_data",),
    ]  # fmt: skip
    return [_call("random", name, KEY, *more) for name, *more in calls] + [
        _call("random", "PRNGKey", 3),
        _call("random", "key", 3),
    ]


def _trees() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("all_leaves", [1, 2]), ("keystr", ()), ("tree_all", TREE), ("tree_broadcast", 1, TREE),
        ("tree_flatten", TREE), ("tree_flatten_with_path", TREE), ("tree_leaves", TREE),
        ("tree_leaves_with_path", TREE), ("tree_map", sines, TREE), ("tree_structure", TREE),
        ("tree_map_with_path", added, TREE), ("tree_reduce", added, (X, X)),
        ("tree_reduce_associative", added, (X, X)), ("tree_unflatten", TREEDEF, [X, X]),
        ("tree_transpose", TREEDEF, TREEDEF, TREE), ("treedef_children", TREEDEF),
        ("treedef_is_leaf", TREEDEF), ("treedef_tuple", (TREEDEF,)), ("is_tree_node", dict),
        ("Partial", sines, X), ("flatten_one_level", (X, X)),
    ]  # fmt: skip
    return [_call("tree_util", *call) for call in calls]


def _transformations() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("grad", squares), ("value_and_grad", squares), ("hessian", squares), ("jacfwd", sines),
        ("jacrev", sines), ("jacobian", sines), ("jit", sines), ("vmap", squares), ("lift", sines),
        ("checkpoint", sines), ("vectorize", sines), ("elementwise_partials", sines),
        ("make_jaxpr", sines), ("custom_jvp", sines), ("custom_vjp", sines), ("remat", sines),
        ("custom_gradient", sines), ("custom_rule", sines), ("custom_vmap", sines),
        ("named_call", sines), ("jvp", sines, (X,), (X,)), ("vjp", sines, X),
        ("linearize", sines, X), ("linear_transpose", doubled, X), ("hvp", squares, (X,), (X,)),
        ("eval_shape", sines, X), ("check_differentiable", sines, X),
        ("checkpoint_name", X, "x"), ("clip_gradient", X, -1.0, 1.0), ("scale_gradient", X, 2.0),
        ("closure_convert", sines, X), ("device_get", X), ("pure_callback", sines, X, X),
        ("io_callback", sines, X, X), ("external", sines, X), ("replace_gradient", X, doubled),
        ("reverse_gradient", X), ("saved_residuals", squares, X), ("stop_gradient", X),
        ("ShapeDtypeStruct", (3,), np.float64), ("block_until_ready", X),
    ]  # fmt: skip
    options = [
        _call("ftrace", "pure_callback", sines, ftrace.ShapeDtypeStruct((3,), np.float64), X),
        _call("ftrace", "grad", squares, argnums=0, has_aux=False),
        _call("ftrace", "jit", sines, static_argnums=(), donate_argnums=0, inline=False),
        _call("ftrace", "vmap", sines, in_axes=0, out_axes=0, axis_size=3, axis_name="i"),
        _call("ftrace", "jacfwd", sines, argnums=0, chunk_size=2),
        _call("ftrace", "vectorize", sines, residuals="auto", static_argnums=None),
        _call("ftrace", "checkpoint", sines, policy=None, static_argnums=(), budget=None),
    ]
    return [_call("ftrace", *call) for call in calls] + options


def _solvers() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("cg", M, X), ("gmres", M, X), ("bicgstab", M, X), ("solve", M, X), ("spsolve", M, X),
        ("brentq", small, 0.0, 10.0), ("fixed_point", sines, 0.5), ("minimize", squares, X),
        ("root", sines, X),
    ]  # fmt: skip
    return [_call("implicit", *call) for call in calls]


def _methods() -> list[Good]:
    calls: list[tuple[Any, ...]] = [
        ("reshape", 9), ("reshape", (3, 3)), ("sum", 0), ("mean",), ("std",), ("max", 1),
        ("argmax", 0), ("argsort", 0), ("astype", np.float32), ("transpose", 1, 0), ("flatten",),
        ("ravel", "F"), ("swapaxes", 0, 1), ("squeeze",), ("take", 1, 0), ("repeat", 2, 0),
        ("clip", 0.0, 1.0), ("cumsum", 0), ("dot", X), ("copy",), ("item", 0), ("fill", 2.0),
        ("put", 0, 1.0), ("round", 1), ("sort", 0), ("trace", 0), ("diagonal", 0), ("view",),
        ("partition", 1), ("searchsorted", 1.0), ("choose", (X, X)), ("compress", [True]),
        ("nonzero",), ("prod",), ("var", 0), ("all",), ("conj",), ("resize", (2, 2)),
        ("tolist",), ("tobytes",), ("byteswap",), ("setfield", 1, np.int8),
        ("shape=", (9,)), ("dtype=", np.float32), ("real=", 1.0), ("flat=", 1.0),
        ("strides=", (8,)),
        ("T=", 1.0), ("flags.writeable=", True), ("setflags", True),
    ]  # fmt: skip
    return [_call("methods", name, M, *more) for name, *more in calls]


def _operators() -> list[Good]:
    two = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "eq", "and_")
    two += ("lshift", "iadd", "imul", "ipow", "imatmul")
    items = [("getitem", 1), ("getitem", (0, 1)), ("setitem", 1, 2.0), ("setitem", (0, 1), 2.0)]
    return [_call("operators", name, M, M) for name in two] + [
        _call("operators", name, M, *more) for name, *more in items
    ]


def _numpys() -> list[Good]:
    return [
        (c.name.rpartition(".")[0] or "numpy", c.name.rpartition(".")[2], c.args, c.kwargs)
        for c in CASES
    ]


GOOD: list[Good] = [
    *(call for group in (_lax, _random, _trees, _transformations, _solvers) for call in group()),
    *(_methods() + _operators()) * 2,
    *_numpys(),
    *good_scipy.GOOD,
]
