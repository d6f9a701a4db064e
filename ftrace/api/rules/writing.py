"""Functions with rules that write arguments: as functions that return what they have written.

A rule for such a function leaves the state that the function leaves, in the primals and in the
tangents (`mul!(Z, X, Y)` overwrites Z, and the rule overwrites Z's tangent). Both are given copies,
which they may write; what is in these afterwards is a result like any other, and the caller's
arrays are written outside of the rule.

Source: the design of Mooncake's forward mode, 2025.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.calls import name_of, positions
from ftrace.control.functions import argument_name, flatten_call, stage_function
from ftrace.core.avals import typeof
from ftrace.core.device import is_array
from ftrace.core.errors import DtypeError, MutationError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.records import record
from ftrace.core.registration import register_pytree_node
from ftrace.core.trace import Tracer, is_cell, lifted
from ftrace.core.tree import paths, tree_flatten, tree_map
from ftrace.numpy.cells import write_out
from ftrace.numpy.views import Chosen, View


@record
class Mutated:
    """In a result: the argument at a position, which was written, itself."""

    position: int


register_pytree_node(Mutated, lambda b: ((), b.position), lambda position, _: Mutated(position))


def returning(fun: Any, written: tuple[int, ...]) -> Callable[..., Any]:
    """The function that returns (result, what was written), of arguments that it leaves alone."""

    def pure(*args: Any) -> Any:
        own = _own(args, written)
        result = lifted(fun)(*own)
        _check_views(fun, result, own, written)
        return _marked(result, own, written), [own[i] for i in written]

    pure.__name__ = name_of(fun)
    return pure


def returning_rule(fun: Any, rule: Any, written: tuple[int, ...], nondiff: tuple[int, ...]) -> Any:
    """A jvp rule of `returning(fun)`, from one that writes primals and tangents.

    It is staged: then all is traced, and any array takes any value.
    """
    fixed = len(nondiff)
    places = tuple(i - sum(n < i for n in nondiff) for i in written)  # among the dynamic arguments

    def pure_rule(*args: Any) -> Any:
        def staged(primals: Any, tangents: Any) -> Any:
            given = _own(primals, places), _own(tangents, places)
            answer = lifted(rule)(*args[:fixed], *map(tuple, given))
            if not isinstance(answer, tuple | list) or len(answer) != 2:
                return answer
            _check_views(fun, answer[0], given[0], places, written)
            parts = zip(answer, given, strict=True)
            return tuple(
                (_marked(y, own, places, written), [own[i] for i in places]) for y, own in parts
            )

        leaves, tree = flatten_call(args[fixed:])
        found = stage_function(staged, tree, [typeof(x) for x in leaves])
        return found.out_tree.unflatten(eval_jaxpr(found.jaxpr, [*found.captured, *leaves]))

    return pure_rule


def _own(args: Sequence[Any], written: tuple[int, ...]) -> list[Any]:
    """The arguments with copies in the place of those that are written."""
    return [_copied(x) if i in written else x for i, x in enumerate(args)]


def _copied(x: Any) -> Any:
    """A copy that takes what is traced, too: arrays of a trace are made by the trace."""
    made = fnp.zeros(typeof(x).shape, typeof(x).dtype)
    made[...] = x
    return made


def _marked(
    result: Any, own: Sequence[Any], places: tuple[int, ...], names: tuple[int, ...] = ()
) -> Any:
    """A result with marks for the arguments that were written, which the caller has."""
    by_id = {id(own[i]): Mutated(n) for i, n in zip(places, names or places, strict=True)}
    return tree_map(lambda x: by_id.get(id(x), x), result)


def _check_views(
    fun: Any,
    result: Any,
    own: Sequence[Any],
    places: tuple[int, ...],
    names: tuple[int, ...] = (),
) -> None:
    """Raise where a result is a part of what was written: it would be one of the copy alone."""
    for leaf in tree_flatten(result)[0]:
        for i, n in zip(places, names or places, strict=True):
            if leaf is not own[i] and _share(own[i], leaf):
                name = argument_name(fun, n)
                raise MutationError(
                    f"{name_of(fun)}, or its rule, returns a view of {name}, which "
                    "it writes (mutates=): the view would not follow the caller's array.",
                    f"Return a copy of it, all of {name}, or nothing: the caller can take the "
                    f"view of {name}.",
                )


def check_written(fun: Any, args: Sequence[Any], written: tuple[int, ...]) -> None:
    """Raise unless these arguments are arrays that can be written, each in memory of its own.

    Raises:
        DtypeError: one is no array.
        MutationError: it shares memory with another argument, or with a part of one.
        TreeError: there is no such argument.
    """
    for i in written:
        positions("mutates", fun, (i,), len(args))
        x = args[i]
        if not (is_array(x) or isinstance(x, Tracer)) or not is_cell(x):
            raise DtypeError(
                f"{argument_name(fun, i)} of {name_of(fun)}, which is written (mutates=), is no "
                "array.",
                "Pass an array: it is changed in place.",
            )
        for j, other in enumerate(args):
            if j == i:
                continue
            leaves, tree = tree_flatten(other)
            for k, leaf in enumerate(leaves):
                if _share(x, leaf):
                    second = paths(tree, argument_name(fun, j))[k]
                    raise MutationError(
                        f"{argument_name(fun, i)} and {second} of {name_of(fun)} share memory, and "
                        "the function writes the first.",
                        "Pass a copy of one of them.",
                    )


def _share(x: Any, y: Any) -> bool:
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        first = _roots(x)
        return any(a is b for b in _roots(y) for a in first)
    both = issubclass(type(x), np.ndarray) and issubclass(type(y), np.ndarray)
    return both and np.shares_memory(x, y)


def _roots(x: Any) -> list[Any]:
    """The arrays whose memory a traced array shows: several where a traced decision chose."""
    alias = getattr(x, "alias", None)
    if isinstance(alias, Chosen):
        return [root for way in alias.ways for root in _roots(way.base)]
    return _roots(alias.base) if isinstance(alias, View) else [x]


def deliver(args: Sequence[Any], written: tuple[int, ...], answer: Any) -> Any:
    """Write what a call has written into the caller's arrays; gives the function's result."""
    result, new = answer
    for i, value in zip(written, new, strict=True):
        write_out(args[i], value)
    return tree_map(
        lambda x: args[x.position] if type(x) is Mutated else x,
        result,
        is_leaf=lambda x: type(x) is Mutated,
    )
