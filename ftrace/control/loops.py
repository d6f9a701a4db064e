"""`cond` and `while_loop` as users call them: containers, captured values, checks, then the row.

Branches and bodies are traced once per signature and cached like jitted functions. What they
captured becomes leading operands that all of them take.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ftrace.control.cond import cond_call
from ftrace.control.functions import result_avals
from ftrace.control.traces import Trace, Traces
from ftrace.control.while_loop import while_call
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.dtypes import bool_, int64, promote
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.trace import Tracer
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch, tree_words
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.convert import convert_element_type

T = TypeVar("T")


def _padded(trace: Trace, before: Sequence[Any], after: Sequence[Any]) -> Jaxpr:
    """A trace's jaxpr that also takes, and ignores, what its siblings captured."""
    jaxpr = trace.jaxpr
    n = len(trace.captured)
    return Jaxpr(
        [
            *(Var(typeof(x)) for x in before),
            *jaxpr.invars[:n],
            *(Var(typeof(x)) for x in after),
            *jaxpr.invars[n:],
        ],
        jaxpr.eqns,
        jaxpr.outvars,
    )


def fitting(jaxpr: Jaxpr, wanted: Sequence[ShapedArray]) -> Jaxpr:
    """The jaxpr with weak results made arrays of the wanted dtypes."""
    if jaxpr.out_avals == tuple(wanted):
        return jaxpr

    def converted(*args: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, args)
        return [
            x if typeof(x) == a else convert_element_type(x, new_dtype=a.dtype)
            for x, a in zip(outs, wanted, strict=True)
        ]

    return trace_closed(converted, jaxpr.in_avals)


def _check_same(true: Trace, false: Trace) -> list[ShapedArray]:
    """The common result types of two branches; names the first difference."""
    if false.out_tree != true.out_tree:
        raise TreeError(
            "cond: false_fun must return the containers that true_fun returns, and its result "
            f"differs {tree_mismatch(true.out_tree, false.out_tree, 'result')}.",
            "Return the same structure from both functions.",
        )
    pairs = list(zip(true.jaxpr.out_avals, false.jaxpr.out_avals, strict=True))
    for (a, b), path in zip(pairs, paths(true.out_tree, "result"), strict=True):
        if a.shape != b.shape or (a.dtype != b.dtype and not (a.weak or b.weak)):
            error = ShapeError if a.shape != b.shape else DtypeError
            raise error(
                f"cond: true_fun returns {a} and false_fun returns {b} for {path}.",
                "Return the same shapes and dtypes from both functions (`x.astype(...)`).",
            )
    return [strengthen(b if a.weak else a) for a, b in pairs]


def check_functions(what: str, **functions: Any) -> None:
    """Raise unless what a control function was given are functions."""
    for name, fun in functions.items():
        if not callable(fun):
            raise DtypeError(
                f"{name} of {what} must be a function, not a value of type {type(fun).__name__}.",
                "Pass the function itself, not the result of calling it.",
            )


def cond(
    pred: Any,
    true_fun: Callable[..., T],
    false_fun: Callable[..., T],
    *operands: Any,
) -> T:
    """Evaluate one of two functions, chosen by a scalar.

    Args:
        pred: a boolean (or number, true unless zero) scalar, traced or not.
        true_fun, false_fun: functions of the operands that return the same containers, shapes
            and dtypes.
        *operands: arrays, or containers of arrays.

    Returns:
        The chosen function's result. Under `vmap` with a mapped predicate both functions run
        and each member takes its own; the other contributes nothing to any derivative.

    Raises:
        TreeError, ShapeError, DtypeError: the functions' results do not match.

    Example:
        >>> import ftrace
        >>> f = lambda x: ftrace.lax.cond(x > 0, lambda y: y * y, lambda y: -y, x)
        >>> float(ftrace.grad(f)(3.0))
        6.0
    """
    predicate = typeof(pred)
    if predicate.shape:
        raise ShapeError(
            f"cond: the predicate must be a scalar, and it is {predicate}.",
            "Use numpy.where for an elementwise choice, or reduce the predicate with any() or "
            "all().",
        )
    check_functions("cond", true_fun=true_fun, false_fun=false_fun)
    found = [Traces(f, ("cond",)).find(f, operands, {}) for f in (false_fun, true_fun)]
    leaves = found[0][0]
    traces = [t for _, t in found]
    wanted = _check_same(traces[1], traces[0])
    captured = [t.captured for t in traces]
    branches = (
        fitting(_padded(traces[0], (), captured[1]), wanted),
        fitting(_padded(traces[1], captured[0], ()), wanted),
    )
    with quietly():
        outs = cond_call(_index(pred), *captured[0], *captured[1], *leaves, branches=branches)
    return traces[0].out_tree.unflatten(outs)


def _index(pred: Any) -> Any:
    """A predicate as the index of a branch."""
    if not isinstance(pred, Tracer):
        return np.int64(bool(pred))
    if typeof(pred).dtype != bool_:
        pred = convert_element_type(pred, new_dtype=bool_)
    return convert_element_type(pred, new_dtype=int64)


def while_loop(cond_fun: Callable[[T], Any], body_fun: Callable[[T], T], init_val: T) -> T:
    """Repeat `body_fun` while `cond_fun` holds.

    Args:
        cond_fun: carry -> boolean scalar.
        body_fun: carry -> carry of the same containers, shapes and dtypes.
        init_val: the first carry.

    Returns:
        The last carry. Forward mode and `vmap` work for any number of steps; under `vmap` each
        member stops by itself.

    Raises:
        TreeError, ShapeError, DtypeError: the body changes the carry's type.
        RuleError: reverse mode through the loop.

    Example:
        >>> import ftrace
        >>> float(ftrace.lax.while_loop(lambda x: x < 100.0, lambda x: x * 2, 3.0))
        192.0
    """
    check_functions("while_loop", cond_fun=cond_fun, body_fun=body_fun)
    leaves, tree = tree_flatten(init_val)
    result_avals(while_loop, leaves, tree, "init_val")
    leaves = [strengthened(x) for x in leaves]
    carry = tree.unflatten(leaves)
    _, test = Traces(cond_fun, ("while",)).find(cond_fun, (carry,), {})
    leaves, step = Traces(body_fun, ("while",)).find(body_fun, (carry,), {})
    wanted = [typeof(x) for x in leaves]
    check_carry("while_loop", "body_fun", step.out_tree, tree, wanted, step.jaxpr.out_avals)
    _check_condition(test)
    body = fitting(_padded(step, test.captured, ()), wanted)
    with quietly():
        outs = while_call(
            *test.captured,
            *step.captured,
            *leaves,
            cond=_padded(test, (), step.captured),
            body=body,
            n_consts=len(test.captured) + len(step.captured),
            record=False,
        )
    return tree.unflatten(outs)


def check_carry(
    what: str,
    fun: str,
    given: PyTreeDef,
    tree: PyTreeDef,
    wanted: Sequence[ShapedArray],
    found: Sequence[ShapedArray],
) -> None:
    """Raise unless a loop's body keeps the containers, shapes and dtypes of the carry.

    Args:
        what, fun: the loop and its body, as users call them.
        given, found: the structure and the types that the body returned.
        tree, wanted: those of the carry.
    """
    if given != tree:
        start = "init_val" if what == "while_loop" else "init"
        raise TreeError(
            f"{what}: {fun} must return the containers of {start}, and its result differs "
            f"{tree_mismatch(tree, given, 'carry')}.",
            "Return the carry in the same containers.",
        )
    for a, b, path in zip(wanted, found, paths(tree, "carry"), strict=False):
        if a.shape != b.shape:
            raise ShapeError(
                f"{what}: {fun} changes {path} from {a} to {b}.",
                "A carry keeps its shape: make the array as large as it will be, and write into "
                "it at an index.",
            )
        kept = promote((a.dtype, False), (b.dtype, True))[0] if b.weak else b.dtype
        if kept != a.dtype:
            raise DtypeError(
                f"{what}: {fun} changes {path} from {a} to {b}.",
                f"Start from the dtype that the body returns (`np.{b.dtype}(...)`), or convert "
                "in the body.",
            )


def _check_condition(test: Trace) -> None:
    """Raise unless a loop's condition is one boolean scalar."""
    if test.out_tree.num_leaves != 1 or test.out_tree.children():
        raise TreeError(
            f"while_loop: cond_fun returned {tree_words(test.out_tree)}.",
            "Return one boolean scalar.",
        )
    (a,) = test.jaxpr.out_avals
    if a.shape or a.dtype != bool_:
        error = ShapeError if a.shape else DtypeError
        raise error(
            f"while_loop: cond_fun returned {a}, not a boolean scalar.",
            "Combine elements with any() or all()." if a.shape else "Compare: `n != 0`, not `n`.",
        )


def strengthened(x: Any) -> Any:
    """A Python scalar as an array of its dtype; anything else as it is."""
    a = typeof(x)
    return convert_element_type(x, new_dtype=a.dtype) if a.weak else x
