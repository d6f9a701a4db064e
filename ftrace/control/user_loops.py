"""`cond`, `switch`, `while_loop` as users call them: containers, captured values, checks, the row.

Branches and bodies are traced once per signature and cached like jitted functions. What they
captured becomes leading operands that all of them take.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ftrace.control.drawing import BRANCHES, TURNS
from ftrace.control.forms.narrow_arms import branch
from ftrace.control.functions import result_avals
from ftrace.control.rows.while_loop import while_call
from ftrace.control.traces import CachedTrace, Traces
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.device import to_host
from ftrace.core.dtypes import bool_, int64, promote
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.trace import Tracer
from ftrace.core.tree import PyTreeDef, argument, paths, tree_flatten, tree_mismatch, tree_words
from ftrace.interpreters.invariants import moved_before
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.compare import clamp
from ftrace.primitives.convert import convert_element_type

T = TypeVar("T")


def _padded(trace: CachedTrace, before: Sequence[Any], after: Sequence[Any]) -> Jaxpr:
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


def _check_same(
    what: str, names: Sequence[str], traces: Sequence[CachedTrace]
) -> list[ShapedArray]:
    """The common result types of branches; names the first difference."""
    first, wanted = traces[0], list(traces[0].jaxpr.out_avals)
    for name, other in zip(names[1:], traces[1:], strict=True):
        if other.out_tree != first.out_tree:
            raise TreeError(
                f"{what}: {name} must return the containers that {names[0]} returns, and its "
                f"result differs {tree_mismatch(first.out_tree, other.out_tree, 'result')}.",
                "Return the same structure from all functions.",
            )
        pairs = list(zip(wanted, other.jaxpr.out_avals, strict=True))
        for (a, b), path in zip(pairs, paths(first.out_tree, "result"), strict=True):
            if a.shape != b.shape or (a.dtype != b.dtype and not (a.weak or b.weak)):
                error = ShapeError if a.shape != b.shape else DtypeError
                raise error(
                    f"{what}: {names[0]} returns {a} and {name} returns {b} for {path}.",
                    "Return the same shapes and dtypes from all functions (`x.astype(...)`).",
                )
        wanted = [b if a.weak else a for a, b in pairs]
    return [strengthen(a) for a in wanted]


def _choose(what: str, functions: dict[str, Any], index: Any, operands: Any) -> Any:
    """Call the function of an index; `functions` have the names that messages use."""
    found = [Traces(f, ("cond",), times=BRANCHES).find(f, operands, {}) for f in functions.values()]
    leaves = found[0][0]
    traces = [t for _, t in found]
    names = list(functions)
    order = slice(None, None, -1) if what == "cond" else slice(None)  # true_fun is named first
    wanted = _check_same(what, names[order], traces[order])
    captured = [t.captured for t in traces]
    branches: list[Jaxpr] = []
    for i, trace in enumerate(traces):
        before = [x for group in captured[:i] for x in group]
        after = [x for group in captured[i + 1 :] for x in group]
        branches.append(fitting(_padded(trace, before, after), wanted))
    given = [x for group in captured for x in group]
    with quietly():
        outs = branch(index, [*given, *leaves], tuple(branches))
    return traces[0].out_tree.unflatten(outs)


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
    if predicate.dtype.kind == "c":
        raise DtypeError(
            f"cond: the predicate must be a boolean or a real number, and it is {predicate}.",
            "Compare: `x != 0`.",
        )
    check_functions("cond", true_fun=true_fun, false_fun=false_fun)
    functions = {"false_fun": false_fun, "true_fun": true_fun}
    return _choose("cond", functions, _index(pred), operands)


def switch(index: Any, branches: Sequence[Callable[..., T]], *operands: Any) -> T:
    """Evaluate one of several functions, chosen by an integer scalar.

    Args:
        index: an integer scalar, traced or not; too small or large ones take the first or last.
        branches: functions of the operands that return the same containers, shapes and dtypes.
        *operands: arrays, or containers of arrays.

    Returns:
        The chosen function's result. Under `vmap` with a mapped index all functions run and each
        member takes its own; the others contribute nothing to any derivative.

    Raises:
        TreeError, ShapeError, DtypeError: the functions' results do not match, there are none,
            or the index is no integer scalar.

    Example:
        >>> import ftrace
        >>> f = lambda i, x: ftrace.lax.switch(i, [lambda y: y, lambda y: y * y, lambda y: -y], x)
        >>> float(f(1, 3.0)), float(f(7, 3.0))
        (9.0, -3.0)
    """
    if not issubclass(type(branches), Sequence):
        raise DtypeError(
            f"switch takes a sequence of functions, and was given {branches!r}.",
            "Give a list of functions.",
        )
    functions = {f"branches[{i}]": f for i, f in enumerate(branches)}
    if not functions:
        raise TreeError("switch: there are no branches.", "Give at least one function.")
    check_functions("switch", **functions)
    a = typeof(index)
    if a.shape or a.dtype.kind not in "iu":
        error = ShapeError if a.shape else DtypeError
        raise error(
            f"switch: the index is {a}, not an integer scalar.",
            "Convert it (`index.astype(int)`), or use cond for a boolean.",
        )
    last = np.int64(len(functions) - 1)
    if isinstance(index, Tracer):
        index = clamp(np.int64(0), convert_element_type(index, new_dtype=int64), last)
    else:
        index = np.int64(min(max(int(to_host(index)), 0), int(last)))
    return _choose("switch", functions, index, operands)


def _index(pred: Any) -> Any:
    """A predicate as the index of a branch."""
    if not isinstance(pred, Tracer):
        return np.int64(bool(to_host(pred)))
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
        The last carry. Every transformation works for any number of iterations; under `vmap` each
        member stops by itself. Reverse mode keeps what the derivative needs of each iteration
        (`checkpoint` around the body keeps less).

    Raises:
        TreeError, ShapeError, DtypeError: the body changes the carry's type.

    Example:
        >>> import ftrace
        >>> float(ftrace.lax.while_loop(lambda x: x < 100.0, lambda x: x * 2, 3.0))
        192.0
    """
    check_functions("while_loop", cond_fun=cond_fun, body_fun=body_fun)
    leaves, tree = tree_flatten(init_val)
    result_avals(while_loop, leaves, tree, "init_val")
    leaves = [strengthened(x) for x in leaves]
    carry = argument(tree, leaves)
    _, test = Traces(cond_fun, ("while",), times=TURNS).find(cond_fun, (carry,), {})
    leaves, step = Traces(body_fun, ("while",), times=TURNS).find(body_fun, (carry,), {})
    wanted = [typeof(x) for x in leaves]
    check_carry("while_loop", "body_fun", step.out_tree, tree, wanted, step.jaxpr.out_avals)
    _check_condition(test)
    cond = _padded(test, (), step.captured)
    body = fitting(_padded(step, test.captured, ()), wanted)
    with quietly():
        outs = bind_while([*test.captured, *step.captured], leaves, cond, body)
    return tree.unflatten(outs)


def bind_while(consts: Sequence[Any], carry: Sequence[Any], cond: Jaxpr, body: Jaxpr) -> Any:
    """The last carry of a loop; what is the same in all iterations is computed before it."""
    consts, (cond, body) = moved_before(consts, cond, body)
    return while_call(
        *consts, *carry, cond=cond, body=body, n_consts=len(consts), record=False, each=None
    )


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
        start = "init" if what == "scan" else "init_val"
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


def _check_condition(test: CachedTrace) -> None:
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
