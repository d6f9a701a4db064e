"""`scan`, `map` and `fori_loop` as users call them: containers, lengths, checks, then the row."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import numpy as np

from ftrace.control.drawing import ELEMENTS, TURNS
from ftrace.control.functions import result_avals
from ftrace.control.once import Batching, checked
from ftrace.control.progress import reporting
from ftrace.control.remat.revolve import run_again
from ftrace.control.rows.scan import scan_call
from ftrace.control.traces import Traces
from ftrace.control.user_loops import (
    check_carry,
    check_functions,
    fitting,
    strengthened,
    while_loop,
)
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import free
from ftrace.core.dtypes import int64
from ftrace.core.errors import (
    ConcretizationTypeError,
    DomainError,
    DtypeError,
    ShapeError,
    TreeError,
    brief,
)
from ftrace.core.scan_layout import ScanLoop
from ftrace.core.trace import Tracer, lifted
from ftrace.core.tree import PyTreeDef, argument, paths, tree_flatten, tree_map, tree_words
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.induction import Evolution, elements_along
from ftrace.interpreters.invariants import moved_before
from ftrace.interpreters.quiet import quietly
from ftrace.primitives.compare import lt
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add
from ftrace.primitives.shape import concatenate, reshape
from ftrace.primitives.slicing import slice as slice_row

LISTED: Final = 1 << 16  # iterations of a fori_loop whose numbers are an array; others are counted
Carry = TypeVar("Carry")


def scan(  # noqa: PLR0913 - JAX's signature
    f: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: str | None = None,
    slots: int = 10,
    progress: bool | Callable[[int, int], None] = False,
) -> tuple[Carry, Any]:
    """Carry a value along the first axis of arrays, and stack what each iteration leaves.

    Args:
        f: `(carry, x) -> (carry, y)`; the carry keeps its containers, shapes and dtypes.
        init: the first carry.
        xs: arrays, or containers of arrays, with one leading axis of the same length; iteration i
            gets their elements i. None: `f` gets None, and `length` says how many iterations.
        length: the number of iterations.
        reverse: whether to go from the last element to the first; ys stay in the order of xs.
        unroll: accepted for JAX's sake: compiled loops are native and choose for themselves.
        checkpoint: "binomial" keeps at most `slots` states of the carry for reverse mode, instead
            of what the derivative needs of every iteration, and runs iterations again, as few as
            possible.
        slots: how many states; the first one counts.
        progress: whether to write how far the loop is to the standard error, or a function
            `(done, total)` that is called about a hundred times; also where the scan is compiled.

    Returns:
        The last carry, and the ys, stacked along a new leading axis.

    Raises:
        TreeError, ShapeError, DtypeError: `f` returns no pair or changes the carry's type, or
            the lengths differ.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.lax.scan(lambda c, x: (c + x, c * x), 0.0, np.array([1.0, 2.0, 3.0]))
        (np.float64(6.0), array([0., 2., 9.]))
    """
    check_functions("scan", f=f)
    operator.index(unroll)
    return _scan(f, init, xs, length, bool(reverse), _again(checkpoint, slots), progress)


def _scan(  # noqa: PLR0913 - what scan and fori_loop say
    f: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any,
    length: int | None,
    reverse: bool = False,
    again: Any = None,
    progress: bool | Callable[[int, int], None] = False,
    counted: Literal["", "carry", "xs"] = "",
    start: int = 0,
) -> tuple[Carry, Any]:
    """A scan; `counted` says whether the first carry or x counts iterations, `start` from where."""
    leaves, tree = tree_flatten(init)
    result_avals(scan, leaves, tree, "init")
    leaves = [strengthened(x) for x in leaves]
    rows, rows_tree = tree_flatten(xs)
    n, elements = _elements(rows, rows_tree, length)
    x = argument(rows_tree, elements)
    if progress:
        f, x = reporting(f, n, progress, reverse), (np.int64(0), x)
        rows = [free(np.arange(n, dtype=np.int64)), *rows]
    loop = ScanLoop(n, reverse, 0, len(leaves), again)
    at = {"carry": 0, "xs": len(leaves)}.get(counted) if n else None
    counter = None if at is None else (at, Evolution(start, 1))
    return _scanned(f, (argument(tree, leaves), x), leaves, rows, loop, counter)


def _scanned(
    f: Callable[..., Any],
    args: tuple[Any, Any],
    leaves: list[Any],
    rows: list[Any],
    loop: ScanLoop,
    counter: tuple[int, Evolution] | None,
) -> tuple[Any, Any]:
    """A scan of a body that takes `args` in its first iteration, whose carry has these leaves.

    What `counter` says of an input is said of those behind the constants.
    """
    tree = tree_flatten(args[0])[1]
    _, step = Traces(f, ("scan",), times=TURNS).find(f, args, {})
    wanted = [typeof(x) for x in leaves]
    carry_tree, y_tree = _pair(step.out_tree)
    check_carry("scan", "f", carry_tree, tree, wanted, step.jaxpr.out_avals)
    ys = [_strong(a) for a in step.jaxpr.out_avals[len(wanted) :]]
    with quietly():
        consts, (body,) = moved_before(step.captured, fitting(step.jaxpr, [*wanted, *ys]))
        if counter is not None:
            here = len(consts) + counter[0], counter[1]
            assert loop.length is not None
            consts, body, elements = elements_along(consts, body, here, loop.length)
            rows = [*rows, *elements]
        outs = scan_call(*consts, *leaves, *rows, body=body, loop=loop.with_more(len(consts), 0))
    m = len(leaves)
    return tree.unflatten(outs[:m]), y_tree.unflatten(outs[m:])


def _pair(tree: PyTreeDef) -> Sequence[PyTreeDef]:
    """The containers of the carry and of y that a body returned."""
    parts = tree.children()
    if len(parts) != 2 or (tree.node_data() or [None])[0] not in (tuple, list):
        raise TreeError(
            f"scan: f returned {tree_words(tree)}, not a pair.",
            "Return (carry, y); y may be None.",
        )
    return parts


def _again(checkpoint: str | None, slots: int) -> tuple[Any, int] | None:
    """What a scan that keeps few states has for its linear half, and how many."""
    if checkpoint not in (None, "binomial"):
        raise DomainError(
            f"scan: checkpoint is 'binomial' or None, not {brief(repr(checkpoint))}.",
            "Leave it out, or pass 'binomial'.",
        )
    if operator.index(slots) < 1:
        raise DomainError(
            f"scan: slots is {slots}; at least the first state is kept.", "Pass 1 or more."
        )
    return None if checkpoint is None else (run_again, slots)


def _strong(a: ShapedArray) -> ShapedArray:
    return aval(a.shape, a.dtype)


def _length(length: Any) -> int | None:
    if length is None:
        return None
    try:
        return operator.index(length)
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise DtypeError(
            f"scan: length is {length!r}, which is no integer.", "Give a Python int, or none."
        ) from None


def _elements(rows: Sequence[Any], tree: Any, length: int | None) -> tuple[int, list[Any]]:
    """The number of iterations, and zeros of no memory in place of the elements of an iteration.

    As `xs[i]` is, they are scalars where xs have rank 1.
    """
    avals = result_avals(scan, rows, tree, "xs")
    n = _length(length)
    what = "length"
    for a, path in zip(avals, paths(tree, "xs"), strict=True):
        if not a.shape:
            raise ShapeError(
                f"scan: {path} is {a}, which has no axis to go along.",
                "Close over what is the same in every iteration, or give it a leading axis.",
            )
        if n is None:
            n, what = a.shape[0], f"the length of {path}"
        elif a.shape[0] != n:
            raise ShapeError(
                f"scan: the length of {path} is {a.shape[0]}, and {what} is {n}.",
                "All xs have the same leading axis.",
            )
    if n is None:
        raise TreeError(
            "scan: there are no xs, and no length.",
            "Give xs, or length=, the number of iterations.",
        )
    if n < 0:
        raise ShapeError(
            f"scan: length is {n}.", "Give a number of iterations that is not negative."
        )
    return n, [np.broadcast_to(a.dtype.type(), a.shape[1:])[()] for a in avals]


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:  # noqa: A001 - JAX's name
    """Apply a function to each element along the first axis, one after the other.

    Args:
        f: a function of one element.
        xs: arrays, or containers of arrays, with one leading axis of the same length.
        batch_size: how many elements are worked on at once, as `vmap` does.

    Returns:
        The results, stacked along a new leading axis.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.lax.map(lambda x: x * x, np.array([1.0, 2.0, 3.0]))
        array([1., 4., 9.])
    """
    check_functions("map", f=f)
    if batch_size is None:
        return scan(lambda _, x: (None, lifted(f)(x)), None, xs)[1]
    size = operator.index(batch_size)
    if size < 1:
        raise ShapeError(f"map: batch_size is {size}.", "Give a number of at least 1.")
    rows, tree = tree_flatten(xs)
    n, _ = _elements(rows, tree, None)
    whole = n // size * size
    head = [
        reshape(_range(x, 0, whole), new_sizes=(n // size, size, *typeof(x).shape[1:]))
        for x in rows
    ]
    ys = scan(lambda _, x: (None, _all(f, x, size)), None, argument(tree, head))[1]
    ys = tree_map(lambda y: reshape(y, new_sizes=(whole, *typeof(y).shape[2:])), ys)
    if whole == n:
        return ys
    rest = _all(f, argument(tree, [_range(x, whole, n) for x in rows]), n - whole)
    return tree_map(lambda a, b: concatenate(a, b, dimension=0), ys, rest)


def _range(x: Any, start: int, stop: int) -> Any:
    """Elements along the first axis."""
    shape = typeof(x).shape
    begin, end = (start, *(0 for _ in shape[1:])), (stop, *shape[1:])
    return slice_row(x, start_indices=begin, limit_indices=end, strides=(1,) * len(shape))


def _all(f: Callable[[Any], Any], xs: Any, size: int) -> Any:
    """A function of one element on `size` of them at once."""
    rows, tree = tree_flatten(xs)
    trees: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        outs, out_tree = tree_flatten(lifted(f)(argument(tree, leaves)))
        trees.append(out_tree)
        return outs

    axis, mapped = Axis(size), (0,) * len(rows)

    def run(rows: list[Any]) -> tuple[list[Any], list[Any]]:
        return batch_flat(flat, axis, rows, mapped)

    ys, dims = checked(Batching(run, rows, mapped), f, ELEMENTS)
    placed = [place_axis(y, d, axis, 0) for y, d in zip(ys, dims, strict=True)]
    return trees[0].unflatten(placed)


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Carry], Carry],
    init_val: Carry,
    *,
    unroll: int | bool | None = None,
) -> Carry:
    """Repeat `body_fun` for the integers from `lower` up to `upper`.

    Args:
        lower, upper: integer scalars; where both are known while tracing the loop is a `scan`.
        body_fun: `(i, carry) -> carry` of the same containers, shapes and dtypes; i is an int64.
        init_val: the first carry.
        unroll: accepted for JAX's sake.

    Returns:
        The last carry. Every transformation works, reverse mode with traced bounds too.

    Raises:
        TreeError, ShapeError, DtypeError: the body changes the carry's type, or a bound is no
            integer scalar.

    Example:
        >>> import ftrace
        >>> float(ftrace.lax.fori_loop(0, 4, lambda i, x: x * 2 + i, 1.0))
        27.0
    """
    check_functions("fori_loop", body_fun=body_fun)
    for name, bound in (("lower", lower), ("upper", upper)):
        a = typeof(bound)
        if a.shape or a.dtype.kind not in "iu":
            raise DtypeError(
                f"fori_loop: {name} is {a}, not an integer scalar.", "Convert it: `int(...)`."
            )
    leaves, tree = tree_flatten(init_val)
    wanted = [_strong(a) for a in result_avals(fori_loop, leaves, tree, "init_val")]

    def turn(i: Any, carry: Carry) -> Carry:
        after = lifted(body_fun)(i, carry)
        found, given = tree_flatten(after)
        check_carry("fori_loop", "body_fun", given, tree, wanted, [typeof(x) for x in found])
        return after

    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        first, last = (convert_element_type(b, new_dtype=int64) for b in (lower, upper))
        _, _, out = while_loop(
            lambda c: lt(c[0], c[1]),
            lambda c: (add(c[0], np.int64(1)), c[1], turn(c[0], c[2])),
            (first, last, init_val),
        )
        return out
    start, n = int(lower), max(int(upper) - int(lower), 0)
    if n <= LISTED:
        turns = free(np.arange(start, start + n, dtype=np.int64))
        found = _scan(
            lambda c, i: (turn(i, c), None), init_val, turns, None, counted="xs", start=start
        )
        return found[0]
    first = (np.int64(start), init_val)
    found = _scan(
        lambda c, _: ((add(c[0], np.int64(1)), turn(*c)), None),
        first,
        None,
        n,
        counted="carry",
        start=start,
    )
    return found[0][1]
