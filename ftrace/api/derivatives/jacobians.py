"""Whole Jacobians and Hessians, in passes of `chunk_size` directions at a time.

A pass runs one transformed evaluation with a batch of unit tangents (or cotangents): the batch
is an ordinary `vmap` over the linear part, so the primal runs once a pass and k inputs take
ceil(k / N) passes. Blocks are laid out as in JAX: the result's structure outside, the inputs'
inside, shapes `result.shape + input.shape`.
"""

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from ftrace.api.calls import (
    ArgNums,
    ArgumentSelection,
    brief,
    check_argnums,
    check_callable,
    differentiable,
    name_of,
    transformed,
)
from ftrace.api.derivatives.autodiff import aux_trees, grad, jvp
from ftrace.api.derivatives.matching import check_tuple, match_tangents
from ftrace.api.derivatives.unit_vectors import (
    Basis,
    Chunk,
    check_chunk,
    chunks,
    looped,
    loops,
    resolved,
    total,
)
from ftrace.control.functions import FlatFunction
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.kinds import has_loops
from ftrace.core.primitive import RAISES
from ftrace.core.tree import PyTreeDef
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat
from ftrace.interpreters.linearize import push as push_tape
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import instantiate, zeros
from ftrace.lifting.restart import Eager
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import transpose
from ftrace.primitives.shape import concatenate, reshape, squeeze
from ftrace.primitives.slicing import along
from ftrace.primitives.slicing import slice as slice_row

P = ParamSpec("P")
Check = Callable[[PyTreeDef, list[Any]], Any] | None
Push = Callable[..., tuple[list[Any], list[Any]]]


def jacfwd(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: Chunk = None,
    *,
    lift: bool = True,
) -> Callable[P, Any]:
    """Jacobian by forward mode: cheap for few inputs.

    Args:
        fun: function of arrays, or containers of arrays.
        argnums: which arguments, as in `grad`.
        has_aux: `fun` returns `(result, aux)`.
        holomorphic: `fun` is complex-analytic. Otherwise arguments are real for `jacfwd` and
            `hessian`, results for `jacrev` and `hessian`.
        chunk_size: how many of the k input elements go through one pass together (default:
            all); there are ceil(k / chunk_size) passes. "auto": where the program is compiled, so
            that passes are one loop, what is fastest of some numbers, which is measured once for
            a function and a machine and kept on disk (100, where it cannot be measured, and under
            `config.deterministic`); else as many as take 64 MiB.
        lift: as in `grad`.

    Returns:
        A function with `fun`'s signature. For each result and input array a block of shape
        `result.shape + input.shape`.

    Raises:
        DtypeError: an argument that has no derivative, or is complex without `holomorphic`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    check_callable(fun, "jacfwd")
    call = forward_call(fun, "jacfwd", argnums, has_aux, holomorphic, chunk_size, lift)
    key = ("jacfwd", check_argnums("jacfwd", argnums), has_aux, holomorphic, chunk_size, lift)
    return transformed(fun, call, key, f"Forward-mode Jacobian of {name_of(fun)}.")


def forward_call(
    fun: Callable[..., Any],
    what: str,
    argnums: ArgNums,
    has_aux: bool,
    holomorphic: bool,
    chunk_size: Any,
    lift: bool,
    *,
    check: Check = None,
    push: Push = jvp_flat,
) -> Callable[..., Any]:
    """What `jacfwd` does at a call.

    With `check`, which looks at the structure and the leaves of the result, it is a gradient: of
    the dtype of the argument, not of the result. `push` is what is done with each direction.
    """
    restart = Eager(fun, lift)
    argnums = check_argnums(what, argnums)
    wanted = check_chunk(chunk_size)

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, flat = inputs_of(fun, argnums, args, kwargs, holomorphic, what)
        avals = [typeof(x) for x in leaves]
        chunk = resolved(wanted, avals)
        if not holomorphic:
            check_real(what, fun, "a complex argument", avals)
        given = (*args, *kwargs.values())

        outs: list[Any] = []

        def result_tree() -> PyTreeDef:
            return aux_trees(flat.out_tree)[0] if has_aux else flat.out_tree

        def forward(basis: Basis, count: int) -> list[Any]:
            ys, tangents = restart(lambda: forward_pass(flat, leaves, basis, count, push), given)
            if check is not None:
                check(result_tree(), ys)
            outs[:] = ys
            return tangents[: result_tree().num_leaves]

        with quietly():
            if chunk is not None and loops(avals, chunk):
                one_pass: Callable[[Basis, int], list[Any]] = forward
                if push is jvp_flat and not has_aux:
                    one_pass = _pass_of_a_loop(restart, flat, leaves, given, check)
                stacked = looped(one_pass, avals, chunk, wanted)
                joined = [_columns(s, total(avals)) for s in stacked]
                results = [aval(typeof(j).shape[:-1], typeof(j).dtype) for j in joined]
                if has_aux:
                    outs[:] = restart(lambda: flat(*leaves), given)
            else:
                passes = [forward(basis, count) for basis, count in chunks(avals, chunk)]
                joined = [_join(parts) for parts in zip(*passes, strict=True)]
                results = [typeof(y) for y in outs[: len(joined)]]
        blocks = [_split_last(j, y, avals) for j, y in zip(joined, results, strict=True)]
        if check is not None:
            blocks = [list(map(_of_dtype, row, avals)) for row in blocks]
        return finished(flat.out_tree, blocks, outs, (chosen, leaves), has_aux)

    return call


def _of_dtype(block: Any, a: ShapedArray) -> Any:
    return (
        block if typeof(block).dtype == a.dtype else convert_element_type(block, new_dtype=a.dtype)
    )


def jacrev(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    chunk_size: Chunk = None,
    *,
    lift: bool = True,
) -> Callable[P, Any]:
    """Jacobian by reverse mode: cheap for few results.

    Args:
        fun, argnums, has_aux, holomorphic, lift: as in `jacfwd`.
        allow_int: integer arrays among the arguments get None.
        chunk_size: how many result elements are pulled back together (default: all).

    Returns:
        A function with `fun`'s signature, giving blocks as `jacfwd` does.

    Raises:
        DtypeError: an argument that has no derivative, or a complex result without `holomorphic`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jacrev(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        array([ 3., 12.])
    """
    check_callable(fun, "jacrev")
    restart = Eager(fun, lift)
    argnums = check_argnums("jacrev", argnums)
    wanted = check_chunk(chunk_size)

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen, leaves, flat = inputs_of(
            fun, argnums, args, kwargs, holomorphic, "jacrev", allow_int=allow_int
        )
        with quietly():
            given = (*args, *kwargs.values())
            outs, tape = restart(lambda: linearize_flat(flat, leaves, outlives=False), given)
            n = flat.out_tree.children()[0].num_leaves if has_aux else len(outs)
            out_avals = [typeof(y) for y in outs[:n]]
            chunk = resolved(wanted, out_avals)
            if not holomorphic:
                check_real("jacrev", fun, "a complex result", out_avals)
            extra = len(outs) - n

            def backward(basis: Basis, count: int) -> list[Any]:
                return backward_pass(tape, basis, leaves, (count, extra))

            if chunk is not None and loops(out_avals, chunk):
                made = looped(lambda b, n: _live(backward(b, n)), out_avals, chunk, wanted)
                live = iter(made)
                joined = [
                    _rows(next(live), total(out_avals)) if is_inexact(typeof(x).dtype) else None
                    for x in leaves
                ]
            else:
                passes = [backward(basis, count) for basis, count in chunks(out_avals, chunk)]
                joined = [_join_rows(parts) for parts in zip(*passes, strict=True)]
        per_input = [
            split_first(j, typeof(x), out_avals) for j, x in zip(joined, leaves, strict=True)
        ]
        blocks = [[column[i] for column in per_input] for i in range(n)]
        return finished(flat.out_tree, blocks, outs, (chosen, leaves), has_aux)

    key = ("jacrev", argnums, has_aux, holomorphic, allow_int, chunk_size, lift)
    return transformed(fun, call, key, f"Reverse-mode Jacobian of {name_of(fun)}.")


def hessian(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: Chunk | tuple[Chunk, Chunk] = None,
    *,
    lift: bool = True,
) -> Callable[P, Any]:
    """Second derivatives: forward over reverse, `chunk_size` columns a pass.

    Args:
        fun, argnums, has_aux, holomorphic, lift: as in `jacfwd`.
        chunk_size: columns of a pass; a pair (M, N) is forward over forward mode, M x N second
            derivatives a pass (hyper-dual numbers).

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    if not isinstance(chunk_size, tuple):
        inner = jacrev(fun, argnums, has_aux, holomorphic, lift=lift)
        return jacfwd(inner, argnums, has_aux, holomorphic, chunk_size, lift=lift)
    if len(chunk_size) != 2:
        raise ShapeError(
            f"chunk_size of hessian is a number or a pair, not {brief(chunk_size)}.",
            "(M, N) takes M x N second derivatives together.",
        )
    inner = jacfwd(fun, argnums, has_aux, holomorphic, chunk_size[1], lift=lift)
    return jacfwd(inner, argnums, has_aux, holomorphic, chunk_size[0], lift=lift)


def hvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    vectors: Sequence[Any],
    *,
    lift: bool = True,
) -> Any:
    """Hessian-vector product of a scalar function, by forward over reverse.

    Args:
        fun: returns a real scalar.
        primals: a tuple of arguments.
        vectors: a tuple of directions of the same structure.
        lift: as in `grad`.

    Returns:
        One product of `primals[0]`'s structure, or a tuple if there are several primals.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.ones(2),))
        array([ 6., 12.])
    """
    check_callable(fun, "hvp")
    check_tuple("hvp", "primals", primals)
    check_tuple("hvp", "vectors", vectors)
    match_tangents(("hvp of", fun), tuple(primals), tuple(vectors), name="vectors")
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(fun, argnums, lift=lift), primals, vectors, lift=lift)[1]


def inputs_of(
    fun: Any,
    argnums: ArgNums,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    holomorphic: bool,
    what: str,
    allow_int: bool = False,
) -> tuple[ArgumentSelection, list[Any], FlatFunction]:
    """The arguments that a Jacobian is by, their leaves, and the function of these."""
    chosen = ArgumentSelection(fun, argnums, args, kwargs)
    leaves, tree = differentiable(what, fun, chosen, holomorphic, allow_int)
    return chosen, leaves, chosen.function(fun, tree)


def check_real(what: str, fun: Any, which: str, avals: Sequence[ShapedArray]) -> None:
    """Raise where one number cannot say how a complex one moves: it moves in two directions."""
    if any(a.dtype.kind == "c" for a in avals):
        raise DtypeError(
            f"{what} of {name_of(fun)} has {which}.",
            "For a complex-analytic function pass holomorphic=True; otherwise differentiate a "
            "function of the real and the imaginary part that returns np.real and np.imag.",
        )


def forward_pass(
    flat: Callable[..., Sequence[Any]],
    leaves: list[Any],
    basis: list[Any],
    count: int,
    push: Push = jvp_flat,
) -> tuple[list[Any], list[Any]]:
    """Results, and their tangents with the batch as last axis."""
    nonzero: list[bool] = []
    live = [b for b in basis if b is not None]

    def pushed(*args: Any) -> list[Any]:
        supply = iter(args)
        ys, ts = push(flat, leaves, [ZERO if b is None else next(supply) for b in basis])
        nonzero[:] = [t is not ZERO for t in ts]
        return [*ys, *(t for t in ts if t is not ZERO)]

    axis = Axis(count)
    values, dims = batch_flat(pushed, axis, live, [0] * len(live))
    n = len(nonzero)
    rest = iter(place_axis(v, d, axis, -1) for v, d in zip(values[n:], dims[n:], strict=True))
    ys = [
        y if d is None else squeeze(along(y, d, 0, 1), dimensions=(d,))
        for y, d in zip(values[:n], dims[:n], strict=True)
    ]
    tangents = [
        next(rest) if z else _no_tangent(y, count) for z, y in zip(nonzero, ys, strict=True)
    ]
    return ys, tangents


def _pass_of_a_loop(
    restart: Eager, flat: FlatFunction, leaves: list[Any], given: tuple[Any, ...], check: Check
) -> Callable[[Basis, int], list[Any]]:
    """A pass of a loop over passes: what all of them share is computed before it.

    Where the function has loops itself that would keep all their iterations, and each pass computes
    them again; so it does of what acts on the outside.
    """
    jaxpr, captured = restart(lambda: trace_to_jaxpr(flat, [typeof(x) for x in leaves]), given)

    def fun(*xs: Any) -> list[Any]:
        return eval_jaxpr(jaxpr, [*captured, *xs])

    along: Push = jvp_flat
    if not jaxpr.effects - {RAISES} and not has_loops(jaxpr):
        ys, tape = linearize_flat(fun, leaves, outlives=False)

        def linear(_: Any, __: Any, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            live = [t for t, v in zip(tangents, tape.invars, strict=True) if v is not None]
            return ys, push_tape(tape, live, ys)

        along = linear

    def one_pass(basis: Basis, count: int) -> list[Any]:
        results, tangents = forward_pass(fun, leaves, basis, count, along)
        if check is not None:
            check(flat.out_tree, results)
        return tangents

    return one_pass


def _no_tangent(y: Any, count: int) -> Any:
    try:
        a = typeof(y)
    except DtypeError:  # an aux value that is no array
        return None
    return zeros(aval((*a.shape, count), a.dtype))


def backward_pass(
    tape: Any, basis: list[Any], leaves: list[Any], sizes: tuple[int, int]
) -> list[Any]:
    """Cotangents of the inputs with the batch as first axis (None for integers)."""
    count, n_aux = sizes
    axis = Axis(count)
    live = [b for b in basis if b is not None]

    def pulled(*args: Any) -> list[Any]:
        supply = iter(args)
        cts = [None if b is None else next(supply) for b in basis]
        found = tape.pull([*cts, *([None] * n_aux)])
        return [
            instantiate(ZERO if c is None else c, x)
            for c, x in zip(found, leaves, strict=True)
            if is_inexact(typeof(x).dtype)
        ]

    values, dims = batch_flat(pulled, axis, live, [0] * len(live))
    supply = iter(place_axis(v, d, axis, 0) for v, d in zip(values, dims, strict=True))
    return [next(supply) if is_inexact(typeof(x).dtype) else None for x in leaves]


def _live(values: list[Any]) -> list[Any]:
    return [v for v in values if v is not None]


def _join(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return concatenate(*parts, dimension=len(typeof(parts[0]).shape) - 1)


def _join_rows(parts: Sequence[Any]) -> Any:
    if parts[0] is None or len(parts) == 1:
        return parts[0]
    return concatenate(*parts, dimension=0)


def _columns(stacked: Any, count: int) -> Any:
    """[chunk, *result, direction] as [*result, direction], the first `count` of them."""
    shape = typeof(stacked).shape
    last = len(shape) - 1
    moved = transpose(stacked, permutation=(*range(1, last), 0, last))
    joined = reshape(moved, new_sizes=(*shape[1:last], shape[0] * shape[last]))
    return _slice_axis(joined, last - 1, 0, count)


def _rows(stacked: Any, count: int) -> Any:
    """[chunk, direction, *input] as [direction, *input], the first `count` of them."""
    shape = typeof(stacked).shape
    joined = reshape(stacked, new_sizes=(shape[0] * shape[1], *shape[2:]))
    return _slice_axis(joined, 0, 0, count)


def _split_last(joined: Any, result: ShapedArray, inputs: list[ShapedArray]) -> list[Any]:
    """Blocks of each input from an array of shape result.shape + (all input elements,)."""
    blocks, start = [], 0
    for a in inputs:
        part = _slice_axis(joined, len(result.shape), start, start + a.size)
        blocks.append(_reshaped(part, (*result.shape, *a.shape)))
        start += a.size
    return blocks


def split_first(joined: Any, given: ShapedArray, results: list[ShapedArray]) -> list[Any]:
    """Blocks of each result from an array of shape (all result elements,) + input.shape."""
    blocks, start = [], 0
    for a in results:
        if joined is None:
            blocks.append(None)
            continue
        if not is_inexact(a.dtype):  # as `jacfwd` has it
            blocks.append(zeros(aval((*a.shape, *given.shape), a.dtype)))
            continue
        part = _slice_axis(joined, 0, start, start + a.size)
        blocks.append(_reshaped(part, (*a.shape, *given.shape)))
        start += a.size
    return blocks


def _slice_axis(x: Any, axis: int, start: int, stop: int) -> Any:
    shape = typeof(x).shape
    if start == 0 and stop == shape[axis]:
        return x
    lows = tuple(start if i == axis else 0 for i in range(len(shape)))
    highs = tuple(stop if i == axis else n for i, n in enumerate(shape))
    return slice_row(x, start_indices=lows, limit_indices=highs, strides=(1,) * len(shape))


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if typeof(x).shape == shape else reshape(x, new_sizes=shape)


def finished(
    out_tree: PyTreeDef,
    blocks: list[list[Any]],
    outs: list[Any],
    inputs: tuple[ArgumentSelection, list[Any]],
    has_aux: bool,
) -> Any:
    """Blocks, by result and input, in the structure of a Jacobian, and aux."""
    chosen, leaves = inputs
    result_tree = out_tree.children()[0] if has_aux else out_tree
    rows = []
    for row in blocks:
        per_input = chosen.tree.unflatten(owned(row, leaves))
        rows.append(per_input[0] if chosen.single else per_input)
    jacobian_tree = result_tree.unflatten(rows)
    if not has_aux:
        return jacobian_tree
    n = result_tree.num_leaves
    return jacobian_tree, out_tree.children()[1].unflatten(owned(outs[n:], leaves))
