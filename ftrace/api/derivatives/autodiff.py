"""Derivatives: `jvp`, `linearize`, `vjp`, `grad`, `value_and_grad`, `canonical_grad`.

Each is a thin face over `interpreters/`: flatten, check, run, unflatten. Integer and boolean
inputs have no tangent. Complex derivatives follow JAX's convention: for real-valued `f`,
`grad(f)(z)` is df/dx - i df/dy, the bilinear cotangent.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ftrace.api.calls import (
    ArgNums,
    ArgumentSelection,
    check_argnums,
    check_callable,
    differentiable,
    name_of,
    shortened,
    transformed,
)
from ftrace.api.derivatives.matching import (
    check_tuple,
    checked_tangent,
    checked_tangents,
    match_cotangents,
    match_tangents,
)
from ftrace.control.functions import (
    Apart,
    FlatFunction,
    argument_avals,
    flatten_call,
    is_no_value,
    result_avals,
)
from ftrace.control.rules.vector_spaces import first_cotangents
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, aval, typeof
from ftrace.core.device import is_array, place_of, placed
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError, FtraceError, ShapeError, TreeError
from ftrace.core.lazy import lazy
from ftrace.core.tree import PyTreeDef, tree_flatten, tree_words
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import Tape, linearize_flat, push
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.tangents import instantiate, zeros
from ftrace.lifting.restart import Eager
from ftrace.primitives.arithmetic import conj as conjugate

P = ParamSpec("P")
R = TypeVar("R")

_verify_gradient = lazy("ftrace.api.derivatives.numerical", "verify_gradient")


# ---------------------------------------------------------------------------------- forward


def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
    *,
    lift: bool = True,
) -> tuple[Any, ...]:
    """Value and directional derivative (Jacobian-vector product).

    Args:
        fun: function of arrays, or containers of arrays.
        primals: a tuple of arguments.
        tangents: a tuple of the same structure, shapes and dtypes; for integer arguments 0 or
            None. Tangents that all have one extra leading axis are pushed together, one pass
            for all of them, and so is the result's tangent.
        has_aux: `fun` returns `(result, aux)`; aux is returned last, without derivative.
        lift: as in `value_and_grad`.

    Returns:
        `(result, tangent)` or `(result, tangent, aux)`.

    Raises:
        TreeError, ShapeError, DtypeError: primals and tangents do not match.

    Example:
        >>> import numpy as np, ftrace
        >>> y, dy = ftrace.jvp(lambda x: np.sin(x) * x, (2.0,), (1.0,))
        >>> bool(dy == np.cos(2.0) * 2.0 + np.sin(2.0))
        True
    """
    check_callable(fun, "jvp")
    restart = Eager(fun, lift)
    check_tuple("jvp", "primals", primals)
    check_tuple("jvp", "tangents", tangents)
    apart = Apart(*flatten_call(tuple(primals)), is_no_value)
    leaves, tree = apart.leaves, apart.tree
    given = match_tangents(("jvp of", fun), tuple(primals), tuple(tangents), apart)
    avals = argument_avals(fun, leaves, tree)
    flat = FlatFunction(fun, tree)
    count = _extra_axis(avals, given)
    with quietly():
        if count is None:
            ts = checked_tangents(given, avals, tree.children()[0])
            ys, dys = restart(lambda: jvp_flat(flat, leaves, ts), primals)
        else:
            ys, dys = restart(lambda: _batched_jvp(flat, leaves, given, avals, count), primals)
    return _forward_results(flat.out_tree, ys, dys, (*leaves, *given), has_aux, count)


def _forward_results(
    out_tree: PyTreeDef, ys: list[Any], dys: list[Any], inputs: Any, has_aux: bool, count: Any
) -> tuple[Any, ...]:
    ys = owned(ys, inputs)
    if has_aux:
        result_tree, aux_tree = aux_trees(out_tree)
        n = result_tree.num_leaves
    else:
        result_tree, aux_tree, n = out_tree, None, len(ys)
    ts = owned(
        [_real_tangent(t, y, count) for t, y in zip(dys[:n], ys[:n], strict=True)], (*inputs, *ys)
    )
    result = result_tree.unflatten(ys[:n]), result_tree.unflatten(ts)
    return (*result, aux_tree.unflatten(ys[n:])) if aux_tree is not None else result


def _real_tangent(t: Any, y: Any, count: int | None) -> Any:
    if t is not ZERO or count is None:
        return instantiate(t, y)
    a = typeof(y)
    return zeros(aval((count, *a.shape), a.dtype))


def aux_trees(out_tree: PyTreeDef) -> tuple[PyTreeDef, PyTreeDef]:
    """The structures of a result and of what is returned beside it."""
    parts = out_tree.children()
    if out_tree.node_data() is None or out_tree.node_data()[0] is not tuple or len(parts) != 2:  # type: ignore[index]
        raise TreeError(
            f"With has_aux=True the function must return a pair (result, aux), and it returned "
            f"{tree_words(out_tree)}.",
            "Return two things, the differentiated result first.",
        )
    return parts[0], parts[1]


def _extra_axis(avals: Sequence[ShapedArray], tangents: Sequence[Any]) -> int | None:
    """The length of the leading axis that all tangents have beyond their primals, if any."""
    for t in tangents:
        if type(t) not in SCALAR_AVALS:
            break
    else:
        return None
    counts = {
        np.shape(t)[0] if np.ndim(t) == a.ndim + 1 and np.shape(t)[1:] == a.shape else None
        for a, t in zip(avals, tangents, strict=True)
        if is_inexact(a.dtype) and t is not None
    }
    return counts.pop() if len(counts) == 1 else None


def _batched_jvp(
    flat: FlatFunction, leaves: Any, given: Any, avals: Any, count: int
) -> tuple[list[Any], list[Any]]:
    members = [aval(a.shape, a.dtype) for a in avals]
    ts = [
        checked_tangent(t, aval((count, *a.shape), a.dtype), "") if is_inexact(a.dtype) else ZERO
        for t, a in zip(given, members, strict=True)
    ]
    live = [t for t in ts if t is not ZERO]
    shape: list[Any] = []

    def pushed(*args: Any) -> list[Any]:
        supply = iter(args)
        ys, dys = jvp_flat(flat, leaves, [ZERO if t is ZERO else next(supply) for t in ts])
        shape[:] = [t is not ZERO for t in dys]
        return [*ys, *(t for t in dys if t is not ZERO)]

    axis = Axis(count)
    outs, dims = batch_flat(pushed, axis, live, [0] * len(live))
    n = len(shape)
    rest = iter(place_axis(v, d, axis, 0) for v, d in zip(outs[n:], dims[n:], strict=True))
    return outs[:n], [next(rest) if s else ZERO for s in shape]


# ---------------------------------------------------------------------------------- linearize


def linearize(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, lift: bool = True
) -> tuple[Any, ...]:
    """Value at a point, and the derivative there as a linear function.

    Args:
        fun: function of arrays, or containers of arrays.
        *primals: the point.
        has_aux: `fun` returns `(result, aux)`.
        lift: as in `value_and_grad`.

    Returns:
        `(result, pushforward)`, and aux if asked for. `pushforward(*tangents)` costs no
        evaluation of `fun`; it is a plain function and can itself be transformed.

    Example:
        >>> import numpy as np, ftrace
        >>> y, push = ftrace.linearize(np.exp, 0.0)
        >>> float(push(2.0))
        2.0
    """
    check_callable(fun, "linearize")
    apart, flat, ys, tape = _linearized(fun, primals, lift)
    leaves = apart.leaves
    result_tree, aux = _split_aux(flat.out_tree, ys, has_aux)
    n = result_tree.num_leaves
    tape = Tape(tape.eqns, tape.invars, tape.outs[:n])
    avals = [typeof(x) for x in leaves]
    in_tree = apart.without(tree_flatten(primals)[1])

    def pushforward(*tangents: Any) -> Any:
        given = match_tangents(("The linearized", fun), primals, tangents, apart)
        ts = checked_tangents(given, avals, in_tree)
        live = [
            instantiate(t, x)
            for t, x, v in zip(ts, leaves, tape.invars, strict=True)
            if v is not None
        ]
        with quietly():
            return result_tree.unflatten(owned(push(tape, live, ys[:n]), live))

    outs = _detached(ys, leaves, tape)
    result = result_tree.unflatten(outs[:n])
    return (result, pushforward, aux) if has_aux else (result, pushforward)


def _linearized(
    fun: Callable[..., Any], args: tuple[Any, ...], lift: bool
) -> tuple[Apart, FlatFunction, list[Any], Tape]:
    apart = Apart(*flatten_call(args), is_no_value)
    leaves = apart.leaves
    argument_avals(fun, leaves, apart.tree)
    flat = FlatFunction(fun, apart.tree)
    with quietly():
        ys, tape = Eager(fun, lift)(lambda: linearize_flat(flat, leaves, outlives=True), args)
    return apart, flat, ys, tape


def _split_aux(out_tree: PyTreeDef, ys: list[Any], has_aux: bool) -> tuple[PyTreeDef, Any]:
    if not has_aux:
        return out_tree, None
    result_tree, aux_tree = aux_trees(out_tree)
    return result_tree, aux_tree.unflatten(ys[result_tree.num_leaves :])


def _detached(ys: list[Any], inputs: Any, tape: Tape) -> list[Any]:
    """Results that share no memory with the tape's residuals."""
    return owned(ys, (*inputs, *tape.residuals())) if any_array(ys) else ys


def any_array(values: Sequence[Any]) -> bool:
    """Whether memory could be shared at all."""
    return any(map(is_array, values))


# ---------------------------------------------------------------------------------- reverse


def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, lift: bool = True
) -> tuple[Any, ...]:
    """Value at a point, and the function that pulls cotangents back (vector-Jacobian product).

    Args:
        fun: function of arrays, or containers of arrays.
        *primals: the point.
        has_aux: `fun` returns `(result, aux)`.
        lift: as in `value_and_grad`.

    Returns:
        `(result, pullback)`, and aux if asked for. `pullback(ct)` takes one cotangent of the
        result's structure (None for "no contribution") and returns a tuple with one entry per
        primal; integer primals get None.

    Example:
        >>> import numpy as np, ftrace
        >>> y, pull = ftrace.vjp(lambda a, b: a * b, 3.0, 8.0)
        >>> [float(g) for g in pull(1.0)]
        [8.0, 3.0]
    """
    check_callable(fun, "vjp")
    apart, flat, ys, tape = _linearized(fun, primals, lift)
    leaves = apart.leaves
    result_tree, aux = _split_aux(flat.out_tree, ys, has_aux)
    n = result_tree.num_leaves
    out_avals = result_avals(fun, ys[:n], result_tree)
    avals = [typeof(x) for x in leaves]
    places = [place_of(x) for x in leaves]
    in_tree = apart.without(tree_flatten(primals)[1])
    tape = Tape(tape.eqns, tape.invars, tape.outs[:n])

    def pullback(ct: Any) -> Any:
        cts = match_cotangents(fun, result_tree, out_avals, ct)
        with quietly():
            found = real_cotangents(tape.pull(cts), avals, places)
        return in_tree.unflatten(owned(found, (*cts, *tape.residuals())))

    result = result_tree.unflatten(_detached(ys, leaves, tape)[:n])
    return (result, pullback, aux) if has_aux else (result, pullback)


def real_cotangents(
    cts: Sequence[Any], avals: Sequence[ShapedArray], places: Sequence[Any]
) -> list[Any]:
    """Cotangents where their arguments are; zeros for those that nothing reaches."""
    return [
        (ct if p is None else placed(ct, p))
        if ct is not None
        else (placed(zeros(a), p) if is_inexact(a.dtype) else None)
        for ct, a, p in zip(cts, avals, places, strict=True)
    ]


def value_and_grad(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    lift: bool = True,
    verify: bool = False,
    seed: Any = 1,
    conj: bool = False,
) -> Callable[P, tuple[Any, Any]]:
    """Make a function that returns `fun`'s value and gradient together.

    Args:
        fun: returns a real scalar (rank 0), or `(scalar, aux)`.
        argnums: which arguments to differentiate: positions, parameter names (also of those left
            at their defaults, and "self" of a bound method), paths to a part of one
            ("params['w']", "self.w"), or a tuple of them (then the gradient is a tuple).
        has_aux: `fun` returns `(value, aux)`.
        holomorphic: `fun` is complex-analytic; inputs and output are complex.
        allow_int: integer arrays among the arguments get gradient None instead of an error.
        lift: where the function asks for a plain value that would lose its derivative
            (`math.sin(x)`, `np.array([x, 1.0])`, `plain[i] = x`), it runs again, lifted
            (`ftrace.lift`), and from then on at once. What it had done before that line, it does
            again. False leaves it and all that it calls as they are: questions such as
            `type(x) is float` are then answered for a tracer.
        verify: at each call compare the gradient with differences of `fun` along one random
            direction (`ftrace.testing`), which costs some twenty calls of it.
        seed: the cotangent of the value, of its structure: then `fun` may return arrays, and the
            gradient is that of the sum of seed times value. None: no contribution.
        conj: conjugate gradients by complex arguments: that of a real function then points uphill,
            `z + rate * gradient`.

    Returns:
        A function with `fun`'s signature returning `(value, gradient)`, or
        `((value, aux), gradient)`; the gradient has the containers, shapes and dtypes of the
        chosen arguments. A Python integer that is itself an argument counts as a float. Inside
        containers, what cannot have a derivative (integers, booleans, strings, functions) stays
        as it is, and the gradient is None there: update parameters by
        `tree_map(lambda g, p: p if g is None else p - rate * g, gradient, parameters,
        is_leaf=lambda g: g is None)`.

    Raises:
        ShapeError: the value is not a scalar.
        DtypeError: an argument or the value has no derivative.
        DerivativeError: with `verify`, the gradient is not that of `fun`, or there is a kink.

    Example:
        >>> import ftrace
        >>> value, gradient = ftrace.value_and_grad(lambda a, b: a * b + a**2, (0, 1))(3.0, 8.0)
        >>> float(value), [float(g) for g in gradient]
        (33.0, [14.0, 3.0])
    """
    check_callable(fun, "value_and_grad")
    argnums = check_argnums("value_and_grad", argnums)
    pulled = _seeded(fun, argnums, (has_aux, holomorphic, allow_int, conj), lift, verify)

    def call(*args: Any, **kwargs: Any) -> Any:
        return pulled(seed, args, kwargs)

    own = None if type(seed) is int and seed == 1 else object()  # arrays are no keys
    key = ("value_and_grad", argnums, has_aux, holomorphic, allow_int, lift, verify, conj, own)
    doc = f"Value and gradient of {name_of(fun)} with respect to {argnums!r}."
    return transformed(fun, call, key, doc)


def canonical_grad(
    fun: Callable[..., Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    conj: bool = False,
    lift: bool = True,
) -> Callable[..., tuple[Any, Any]]:
    """Make the gradient that takes a seed and keeps the result; `grad` is it with the seed 1.

    Args:
        fun: returns arrays, or containers of arrays; one number only if the seed is 1.
        argnums, has_aux, holomorphic, allow_int, conj, lift: as in `value_and_grad`.

    Returns:
        A function of the seed, then of `fun`'s arguments: `(value, gradient)`. The seed is the
        cotangent of the value: of its structure, or None for no contribution.

    Raises:
        TreeError, ShapeError, DtypeError: the seed is none for the value, or an argument has no
            derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> g = ftrace.canonical_grad(lambda x: x**2)
        >>> g(np.array([1.0, 0.5]), np.array([3.0, 4.0]))
        (array([ 9., 16.]), array([6., 4.]))

    Source: the canonical gradient of the white paper on differentiation in Swift, 2018.
    """
    check_callable(fun, "canonical_grad")
    argnums = check_argnums("canonical_grad", argnums)
    pulled = _seeded(fun, argnums, (has_aux, holomorphic, allow_int, conj), lift)

    @functools.wraps(fun, updated=())
    def seeded(seed: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return pulled(seed, args, kwargs)
        except FtraceError as error:
            raise shortened(error)  # noqa: B904 - the same error, with fewer frames

    del seeded.__wrapped__  # type: ignore[attr-defined] - the signature is another one
    return seeded


def _seeded(
    fun: Callable[..., Any],
    argnums: ArgNums,
    options: tuple[bool, bool, bool, bool],
    lift: bool,
    verify: bool = False,
) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]:
    """(seed, arguments) -> value and gradient: what all gradients do."""
    has_aux, holomorphic, allow_int, conj = options
    restart = Eager(fun, lift)

    def pulled(seed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        chosen = ArgumentSelection(fun, argnums, args, kwargs)
        leaves, tree = differentiable("The gradient", fun, chosen, holomorphic, allow_int)
        flat = chosen.function(fun, tree)
        with quietly():
            ys, tape = restart(
                lambda: linearize_flat(flat, leaves, outlives=False), (*args, *kwargs.values())
            )
            out_tree = aux_trees(flat.out_tree)[0] if has_aux else flat.out_tree
            cts = _first_cotangents(fun, seed, out_tree, ys, holomorphic)
            cts += [None] * (len(ys) - len(cts))
            avals, places = [typeof(x) for x in leaves], [place_of(x) for x in leaves]
            found = real_cotangents(tape.pull(cts), avals, places)
            if conj:
                found = [_conjugated(c) for c in found]
        if verify:
            scalar = lambda *moved: flat(*moved)[:1]  # noqa: E731
            _verify_gradient(scalar, leaves, found, name_of(fun))
        found = owned(found, (*leaves, *cts))
        ys = owned(ys, (*leaves, *found))
        gradient = chosen.tree.unflatten(found)
        result = flat.out_tree.unflatten(ys)
        return result, gradient[0] if chosen.single else gradient

    return pulled


def _conjugated(ct: Any) -> Any:
    return ct if ct is None or typeof(ct).dtype.kind != "c" else conjugate(ct)


def _first_cotangents(
    fun: Any, seed: Any, out_tree: PyTreeDef, ys: list[Any], holomorphic: bool
) -> list[Any]:
    """Where the backward pass begins: at a seed, or at 1."""
    values = ys[: out_tree.num_leaves]
    if not (type(seed) is int and seed == 1):
        return match_cotangents(fun, out_tree, result_avals(fun, values, out_tree), seed)
    cts = first_cotangents(out_tree.kind, values)
    if cts is None:
        cts = [typeof(check_scalar(fun, out_tree, ys, holomorphic)).dtype.type(1)]
    return cts


def grad(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    lift: bool = True,
    verify: bool = False,
    conj: bool = False,
) -> Callable[P, Any]:
    """Make a function that returns the gradient of a scalar function.

    Args:
        fun, argnums, has_aux, holomorphic, allow_int, lift, verify, conj: as in `value_and_grad`.

    Returns:
        A function with `fun`'s signature returning the gradient, or `(gradient, aux)`.

    Example:
        >>> import numpy as np, ftrace
        >>> bool(ftrace.grad(ftrace.grad(np.sin))(1.0) == -np.sin(1.0))
        True
    """
    check_callable(fun, "grad")
    argnums = check_argnums("grad", argnums)
    both: Any = value_and_grad(
        fun, argnums, has_aux, holomorphic, allow_int, lift=lift, verify=verify, conj=conj
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    key = ("grad", *both.__ftrace__[1][1:])
    doc = f"Gradient of {name_of(fun)} with respect to {argnums!r}."
    return transformed(fun, call, key, doc)


def check_scalar(fun: Any, out_tree: PyTreeDef, ys: list[Any], holomorphic: bool) -> Any:
    """The one number that a function with a gradient returns.

    Raises:
        TreeError, ShapeError, DtypeError: it returned something else.
    """
    if out_tree.num_leaves != 1 or out_tree.children():
        words = tree_words(out_tree)
        raise TreeError(
            f"The gradient of {name_of(fun)} needs one scalar result, and it returned {words}.",
            "End the function with `return`: Python returns None otherwise."
            if words == "None"
            else "Return one number; use has_aux=True for more values, jacrev for arrays.",
        )
    (a,) = result_avals(fun, ys[:1], out_tree)
    if a.shape:
        raise ShapeError(
            f"The gradient of {name_of(fun)} needs a scalar result, and it returned {a}.",
            "Sum or average it, or use ftrace.jacrev.",
        )
    if holomorphic and a.dtype.kind != "c":
        raise DtypeError(
            f"With holomorphic=True the result of {name_of(fun)} must be complex, not {a}.",
            "Leave holomorphic out for a real result.",
        )
    if not holomorphic and a.dtype.kind != "f":
        raise DtypeError(
            f"The gradient of {name_of(fun)} needs a real floating-point result, not {a}.",
            "For a complex-analytic function pass holomorphic=True; otherwise return np.real or "
            "np.abs of it."
            if a.dtype.kind == "c"
            else "Integers and booleans have no derivative: return a float.",
        )
    return ys[0]
