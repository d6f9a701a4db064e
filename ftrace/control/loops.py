"""`cond` and `while_loop` as users call them: containers, captured values, checks, then the row.

Branches and bodies are traced once per signature and cached like jitted functions. What they
captured becomes leading operands that all of them take.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ftrace.control.cond import cond_call
from ftrace.control.functions import name_of
from ftrace.control.traces import Trace, Traces
from ftrace.control.while_loop import while_call
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.dtypes import bool_, int64
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.trace import Tracer
from ftrace.core.tree import paths, tree_flatten, tree_mismatch
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


def _strong(jaxpr: Jaxpr, wanted: Sequence[ShapedArray]) -> Jaxpr:
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


def _check_same(what: str, traces: Sequence[Trace]) -> list[ShapedArray]:
    """The common result types of branches; names the first difference."""
    first = traces[0]
    for other in traces[1:]:
        if other.out_tree != first.out_tree:
            raise TreeError(
                f"{what}: branches return different containers "
                f"{tree_mismatch(first.out_tree, other.out_tree, 'result')}: "
                f"{first.out_tree} and {other.out_tree}.",
                "Return the same structure from every branch.",
            )
        for a, b, path in zip(
            first.jaxpr.out_avals,
            other.jaxpr.out_avals,
            paths(first.out_tree, "result"),
            strict=True,
        ):
            if a.shape != b.shape:
                raise ShapeError(f"{what}: branches return {a} and {b} at {path}.", _SAME)
            if a.dtype != b.dtype and not (a.weak or b.weak):
                raise DtypeError(f"{what}: branches return {a} and {b} at {path}.", _SAME)
    columns = zip(*(t.jaxpr.out_avals for t in traces), strict=True)
    return [strengthen(next((a for a in c if not a.weak), c[0])) for c in columns]


_SAME = "Give every branch the same shapes and dtypes (`x.astype(...)`)."


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
            f"cond: the predicate must be a scalar, not {predicate}.",
            "Use numpy.where for an elementwise choice, or reduce with any()/all().",
        )
    found = [Traces(f, ("cond",)).find(f, operands, {}) for f in (false_fun, true_fun)]
    leaves = found[0][0]
    traces = [t for _, t in found]
    wanted = _check_same(f"cond of {name_of(true_fun)} and {name_of(false_fun)}", traces)
    captured = [t.captured for t in traces]
    branches = (
        _strong(_padded(traces[0], (), captured[1]), wanted),
        _strong(_padded(traces[1], captured[0], ()), wanted),
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
    leaves, tree = tree_flatten(init_val)
    leaves = [_strengthened(x) for x in leaves]
    carry = tree.unflatten(leaves)
    _, test = Traces(cond_fun, ("while",)).find(cond_fun, (carry,), {})
    leaves, step = Traces(body_fun, ("while",)).find(body_fun, (carry,), {})
    wanted = [typeof(x) for x in leaves]
    if step.out_tree != tree:
        raise TreeError(
            f"while_loop: the body {name_of(body_fun)} changes the carry "
            f"{tree_mismatch(tree, step.out_tree, 'carry')}: {tree} becomes {step.out_tree}.",
            "Return the same containers as init_val.",
        )
    for a, b, path in zip(wanted, step.jaxpr.out_avals, paths(tree, "carry"), strict=True):
        if a.shape != b.shape or (a.dtype != b.dtype and not b.weak):
            error = ShapeError if a.shape != b.shape else DtypeError
            raise error(
                f"while_loop: the body {name_of(body_fun)} changes {path} from {a} to {b}.",
                "Convert init_val to the type the body returns.",
            )
    if len(test.jaxpr.outvars) != 1:
        raise TreeError(
            f"while_loop: the condition {name_of(cond_fun)} returns {test.out_tree}.",
            "Return one boolean scalar.",
        )
    body = _strong(_padded(step, test.captured, ()), wanted)
    with quietly():
        outs = while_call(
            *test.captured,
            *step.captured,
            *leaves,
            cond=_padded(test, (), step.captured),
            body=body,
            n_consts=len(test.captured) + len(step.captured),
        )
    return tree.unflatten(outs)


def _strengthened(x: Any) -> Any:
    a = typeof(x)
    return convert_element_type(x, new_dtype=a.dtype) if a.weak else x
