"""`gradient`, `jacobian`: derivatives by the mode that is asked for, or by the one of less work."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, ParamSpec

import ftrace.numpy as fnp
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
from ftrace.api.derivatives.autodiff import aux_trees, check_scalar, grad
from ftrace.api.derivatives.jacobians import finished, forward_call, inputs_of, jacfwd, jacrev
from ftrace.api.derivatives.unit_vectors import Chunk, check_chunk, resolved, total
from ftrace.api.modes.chain_products import blocks, plan
from ftrace.api.modes.predicted_work import CALL, ModeChoice, programs, work
from ftrace.control.functions import FlatFunction, flatten_call
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import DtypeError, TreeError
from ftrace.core.lazy import lazy
from ftrace.core.trace import attempting, ctx, is_staged
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.lifting.restart import Restart

P = ParamSpec("P")
MODES: Final = ("auto", "forward", "reverse")
REMEMBERED: Final = 256  # signatures
TRACED: Final = 10 * CALL  # work of tracing an operation, and of choosing where to cut

_structured_jacobian = lazy("ftrace.sparse.structured_jacobians", "structured_jacobian")


def gradient(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    mode: str = "auto",
    chunk_size: Chunk = None,
    lift: bool = True,
) -> Callable[P, Any]:
    """Make the gradient of a scalar function, in the mode that takes less work.

    The work of a mode is counted on its program. Both are traced at the first call with arguments
    of each signature: the function runs twice more then, on abstract values. An operation costs its
    largest operand or result in elements, and 5000 more for being called; a product its
    multiplications, a loop its iterations. Forward mode carries all input elements along, reverse
    mode walks the function backwards once. `ftrace.explain(gradient(f), x)` shows what was chosen,
    and why. What cannot be traced on abstract values is done in reverse mode, and so are functions
    of complex arguments that are not holomorphic.

    Args:
        fun, argnums, has_aux, holomorphic, lift: as in `grad`.
        mode: "auto", "forward" or "reverse".
        chunk_size: how many elements go through one pass of forward mode (default: all).

    Returns:
        A function with `fun`'s signature; the gradient has the structure of the chosen arguments.

    Raises:
        DtypeError: another mode, or an argument without derivative.
        ShapeError: the value is not a scalar.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.gradient(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        array([ 3., 12.])
        >>> ftrace.gradient(np.sin, mode="forward")(0.0)
        np.float64(1.0)

    Source: the choice of modes by predicted work follows Griewank and Walther, Evaluating
    Derivatives, 2008, chapter 4.
    """
    check_callable(fun, "gradient")
    check = lambda tree, ys: check_scalar(fun, tree, ys, holomorphic)  # noqa: E731
    forward = forward_call(
        fun, "gradient", argnums, has_aux, holomorphic, chunk_size, lift, check=check
    )
    reverse = grad(fun, argnums, has_aux, holomorphic, lift=lift)
    options = Choosing(fun, argnums, has_aux, holomorphic, chunk_size, lift, scalar=True)
    return options.function("gradient", mode, forward, reverse, reverse)


def jacobian(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    mode: str = "reverse",
    flat: bool = False,
    structured: bool = False,
    chunk_size: Chunk = None,
    lift: bool = True,
) -> Callable[P, Any]:
    """Make the Jacobian of a function: `jacrev` under JAX's other name, or in another mode.

    Args:
        fun, argnums, has_aux, holomorphic, chunk_size, lift: as in `jacfwd`.
        allow_int: as in `jacrev`; reverse mode only.
        mode: "reverse", "forward", or "auto": what takes less work, as in `gradient`, or a mixture
            of both: where few numbers are live the program is cut, parts are differentiated in the
            mode that is better for each, and their Jacobians multiplied or sent through others, in
            the order of least work.
        flat: one matrix for all: a row for each element of the result, a column for each of the
            arguments, in the order of their leaves (pqR's form of a gradient).
        structured: the Jacobian by its structure, of a function of one real array (and others that
            stay) to one: an object with a `kind` ("Zero", "ScaledIdentity", "Diagonal", "OneInRow",
            "Banded", "Sparse", "Kronecker", "LowRank", "Product", "Sum", "Dense", "Operator"),
            products `J @ v` and `J.T @ w`, `J.toarray()`, `J.as_linear_operator()` and `J.nbytes`.
            A product keeps its `factors` and multiplies them in the cheapest order, `J.order`.

    Returns:
        A function with `fun`'s signature, giving blocks as `jacfwd` does, or the matrix, of shape
        (elements of the result, elements of the argument).

    Raises:
        DtypeError: another mode, or an argument or result without derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.jacobian(lambda x: x[:2] * x[2], mode="auto")(np.array([1.0, 2.0, 3.0]))
        array([[3., 0., 1.],
               [0., 3., 2.]])
        >>> ftrace.jacobian(lambda x: x**2, structured=True)(np.ones((1000, 1000)))
        <Diagonal 1000000 x 1000000, float64, 8,000,000 bytes>

    Source: of mixtures, U. Naumann, Optimization of Generalized Jacobian Chain Products without
    Memory Constraints, 2020.
    """
    check_callable(fun, "jacobian")
    if structured:
        given = argnums, has_aux, holomorphic, allow_int, mode, flat, chunk_size
        if given != (0, False, False, False, "reverse", False, None):
            raise DtypeError(
                "jacobian(structured=True) takes no other option than lift.",
                "Differentiate a function of one array that returns one.",
            )
        return _structured_jacobian(fun, lift)
    forward = jacfwd(fun, argnums, has_aux, holomorphic, chunk_size, lift=lift)
    reverse = jacrev(fun, argnums, has_aux, holomorphic, allow_int, chunk_size, lift=lift)
    options = Choosing(fun, argnums, has_aux, holomorphic, chunk_size, lift, allow_int=allow_int)
    mixed = options.mixed(reverse)
    if flat:
        forward, reverse, mixed = map(options.flattened, (forward, reverse, mixed))
    return options.function("jacobian", mode, forward, reverse, mixed, flat)


class Choosing:
    """The choice of a mode, remembered for each signature of arguments."""

    def __init__(
        self,
        fun: Any,
        argnums: ArgNums,
        has_aux: bool,
        holomorphic: bool,
        chunk_size: Any,
        lift: bool,
        *,
        scalar: bool = False,
        allow_int: bool = False,
    ) -> None:
        self.fun, self.has_aux, self.holomorphic = fun, has_aux, holomorphic
        self.argnums = check_argnums("gradient" if scalar else "jacobian", argnums)
        self.chunk = check_chunk(chunk_size)
        self.scalar, self.allow_int, self.lift = scalar, allow_int, lift
        self._restart = Restart(fun, lift)
        self._known: dict[Any, ModeChoice] = {}

    def function(
        self,
        what: str,
        mode: str,
        forward: Callable[..., Any],
        reverse: Callable[..., Any],
        mixed: Callable[..., Any],
        flat: bool = False,
    ) -> Callable[..., Any]:
        """The derivative as a function with the signature of the user's."""
        if mode not in MODES:
            raise DtypeError(
                f"mode of {what} must be one of {MODES}, not {brief(mode)}.",
                'Leave it out, or give "forward" or "reverse".',
            )
        ways = {"forward": forward, "reverse": reverse, "mixed": mixed}

        def choice(*args: Any, **kwargs: Any) -> ModeChoice:
            return self.choice(args, kwargs) if mode == "auto" else ModeChoice(mode, "as asked for")

        def call(*args: Any, **kwargs: Any) -> Any:
            return ways[choice(*args, **kwargs).mode](*args, **kwargs)

        options = self.argnums, self.has_aux, self.holomorphic, self.allow_int, self.chunk
        key = (what, *options, self.lift, mode, flat)
        made: Any = transformed(self.fun, call, key, f"{what.title()} of {name_of(self.fun)}.")
        made.choice, made.ways = choice, ways
        return made

    def mixed(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """The Jacobian as a product of those of parts; `otherwise` where one mode is as good."""

        def call(*args: Any, **kwargs: Any) -> Any:
            chosen, leaves, flat = inputs_of(
                self.fun, self.argnums, args, kwargs, self.holomorphic, "jacobian"
            )
            with quietly():
                found = self._in_parts(flat, leaves, (*args, *kwargs.values()))
            if found is None:
                return otherwise(*args, **kwargs)
            return finished(flat.out_tree, found, [], (chosen, leaves), False)

        return call

    def _in_parts(
        self, flat: FlatFunction, leaves: list[Any], given: tuple[Any, ...]
    ) -> list[list[Any]] | None:
        """The blocks of a Jacobian that is best made of parts."""
        avals = list(map(typeof, leaves))
        if self.scalar or self.has_aux or self.chunk is not None or not avals:
            return None
        jaxpr, captured = self._restart(lambda: trace_to_jaxpr(flat, avals), given)
        found = plan(jaxpr, jaxpr.invars[len(captured) :])
        return found and blocks(*found, [*captured, *leaves])

    def flattened(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """The blocks of a Jacobian as one matrix."""

        def matrix(*args: Any, **kwargs: Any) -> Any:
            chosen = ArgumentSelection(self.fun, self.argnums, args, kwargs)
            leaves, _ = differentiable("jacobian", self.fun, chosen, self.holomorphic, False)
            found = made(*args, **kwargs)
            blocks = tree_flatten(found[0] if self.has_aux else found)[0]
            sizes = [typeof(x) for x in leaves]
            rows = [
                fnp.concatenate([_matrix(b, a) for b, a in zip(row, sizes, strict=True)], axis=1)
                for row in _rows(blocks, len(sizes))
            ]
            whole = fnp.concatenate(rows, axis=0) if rows else fnp.zeros((0, total(sizes)))
            return (whole, found[1]) if self.has_aux else whole

        return matrix

    def choice(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModeChoice:
        """The mode for arguments like these."""
        leaves, tree = flatten_call(args, kwargs)
        key = (tree, is_staged(ctx.trace), *map(_kind, leaves))
        found = self._known.get(key)
        if found is None:
            found = self._chosen(args, kwargs)
            if len(self._known) == REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModeChoice:
        chosen = ArgumentSelection(self.fun, self.argnums, args, kwargs)
        leaves, tree = differentiable(
            "The gradient" if self.scalar else "jacobian",
            self.fun,
            chosen,
            self.holomorphic,
            self.allow_int,
        )
        avals = [typeof(x) for x in leaves]
        if any(a.dtype.kind not in ("c" if self.holomorphic else "f") for a in avals):
            return ModeChoice("reverse", "an argument is complex or an integer")
        given = (*args, *kwargs.values())
        if self._restart.repeats(given):
            return ModeChoice("reverse", "a run of the function changes what the next one reads")
        flat = chosen.function(self.fun, tree)
        inputs = total(avals)
        chunk = resolved(self.chunk, avals)
        count = inputs if chunk is None else min(chunk, inputs)
        try:
            with attempting(), quietly():
                forward, reverse, results = self._restart(
                    lambda: programs(flat, avals, count, lambda: self._wanted(flat)), given
                )
        except Exception as error:  # reverse mode will say it, or does not need a program
            return ModeChoice("reverse", f"it cannot be traced ({type(error).__name__})")
        passes = -(-inputs // count) if count else 0
        costs = passes * work(forward), work(reverse)
        mixed = self._mixed_work(flat, avals, given)
        if mixed is not None and mixed < min(costs):
            why = "less work in parts, whose Jacobians are multiplied"
            return ModeChoice("mixed", why, inputs, results, *costs, mixed)
        if costs[0] < costs[1]:
            return ModeChoice("forward", "less work", inputs, results, *costs, mixed)
        return ModeChoice("reverse", "no more work", inputs, results, *costs, mixed)

    def _mixed_work(
        self, flat: FlatFunction, avals: list[ShapedArray], given: tuple[Any, ...]
    ) -> int | None:
        """The work of a Jacobian in parts; None where one mode is as good.

        Where it is not compiled, the program is traced and cut at every call.
        """
        there: list[bool] = []

        def in_parts(*leaves: Any) -> list[Any]:
            found = self._in_parts(flat, list(leaves), given)
            there.append(found is not None)
            return [b for row in found or () for b in row]

        with attempting(), quietly():
            jaxpr, _ = trace_to_jaxpr(in_parts, avals)
        if not all(there):
            return None
        return work(jaxpr) + (0 if is_staged(ctx.trace) else TRACED * len(jaxpr.eqns))

    def _wanted(self, flat: FlatFunction) -> int:
        """How many of the results are differentiated."""
        tree = aux_trees(flat.out_tree)[0] if self.has_aux else flat.out_tree
        if self.scalar and (tree.num_leaves != 1 or tree.children()):
            raise TreeError("The value is no number.", "Reverse mode knows its vector space.")
        return tree.num_leaves


def _kind(x: Any) -> Any:
    try:
        return typeof(x)
    except DtypeError:
        return type(x)


def _matrix(block: Any, a: ShapedArray) -> Any:
    shape = typeof(block).shape
    return fnp.reshape(block, (prod(shape[: len(shape) - a.ndim]), a.size))


def _rows(blocks: list[Any], width: int) -> list[list[Any]]:
    return [blocks[i : i + width] for i in range(0, len(blocks), width)] if width else []
