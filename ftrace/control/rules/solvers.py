"""What `custom_root` and `custom_linear_solve` share: the unknown, and users' solvers as jaxprs.

A solver is never differentiated, so it need not be traceable: one that asks for plain values (a
SciPy function, a Python loop until convergence) or calls what has no rule runs on the host when
the program runs. What a
function captured is an operand of the row, so that it gets a derivative.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.control.functions import Staged, flatten_call, frozen, result_avals, stage_function
from ftrace.control.rules.host_calls import solver_call
from ftrace.control.user_loops import strengthened
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import ConcretizationTypeError, DtypeError, RuleError, ShapeError, TreeError
from ftrace.core.jaxpr import Jaxpr, Var
from ftrace.core.trace import attempting
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch, tree_words
from ftrace.interpreters.captures import owned

Flat = Callable[..., Sequence[Any]]


class Space:
    """The structure and types of an unknown, given one value of it.

    Attributes:
        leaves: the given value's arrays.
        tree, avals: its structure and types; `call` is the structure of `((value,), {})`.
    """

    __slots__ = ("_name", "_what", "avals", "call", "leaves", "tree")

    def __init__(self, what: str, name: str, value: Any) -> None:
        self._what, self._name = what, name
        leaves, self.tree = tree_flatten(value)
        result_avals(what, leaves, self.tree, name)
        self.leaves = [strengthened(x) for x in leaves]
        self.avals = tuple(typeof(x) for x in self.leaves)
        self.call: PyTreeDef = flatten_call((value,))[1]
        for a, path in zip(self.avals, paths(self.tree, name), strict=True):
            if not is_inexact(a.dtype):
                raise DtypeError(
                    f"{what}: {path} is {a}, and an unknown is a float or complex array.",
                    "Convert it: `x.astype(float)`.",
                )

    def flat(self, whose: str, value: Any) -> list[Any]:
        """The leaves of what a function returned, which must be of this space."""
        leaves, tree = tree_flatten(value)
        if tree != self.tree:
            raise TreeError(
                f"{self._what}: {whose} must return the containers of {self._name}, and its result "
                f"differs {tree_mismatch(self.tree, tree, 'result')}.",
                f"Return the structure of {self._name}.",
            )
        leaves = [strengthened(x) for x in leaves]
        for x, a, path in zip(leaves, self.avals, paths(tree, "result"), strict=True):
            got = typeof(x)
            if got != a:
                raise (ShapeError if got.shape != a.shape else DtypeError)(
                    f"{self._what}: {whose} returns {got} for {path}, and {self._name} has {a} "
                    "there.",
                    f"Return the shapes and dtypes of {self._name}.",
                )
        return leaves

    def pair(self, whose: str, value: Any) -> tuple[list[Any], Any]:
        """The leaves and the rest of what a function with has_aux=True returned."""
        if not isinstance(value, tuple) or len(value) != 2:
            raise TreeError(
                f"{self._what}: with has_aux=True {whose} must return a pair (result, aux), and "
                f"it returned {tree_words(tree_flatten(value)[1])}.",
                "Return two things, the solution first.",
            )
        return self.flat(whose, value[0]), value[1]

    def checked(self, whose: str, value: Any, has_aux: bool) -> Any:
        """The same value, or pair of it and aux, after the checks of `flat`."""
        if not has_aux:
            return self.tree.unflatten(self.flat(whose, value))
        leaves, aux = self.pair(whose, value)
        return self.tree.unflatten(leaves), aux

    def own(self, value: Any) -> Any:
        """What a solver returned, in memory of its own."""
        leaves, tree = tree_flatten(value)
        return tree.unflatten(owned(leaves, self.leaves))

    def frozen(self) -> Any:
        """The given value as users' functions get it: it cannot be written."""
        return self.tree.unflatten([frozen(x) for x in self.leaves])

    def function(self, fun: Flat, whose: str) -> Callable[[Any], Any]:
        """A function of flat values of this space as one of the user's containers."""
        return lambda value: self.tree.unflatten(fun(*self.flat(whose, value)))


def stage_solver(
    solve: Callable[..., Any],
    whose: str,
    inner: tuple[Flat, Sequence[Any]],
    space: Space,
    has_aux: bool = False,
) -> Staged:
    """`solve(function, value)` as a jaxpr of the value; on the host if it asks for plain values.

    Args:
        solve: the user's solver.
        whose: its name in messages.
        inner: the function it is given, of (operands, values), and its operands.
        space: of the value, and of the result.
        has_aux: the result is a pair.
    """
    fun, captured = inner
    n = len(captured)

    def run(operands: Sequence[Any], value: Any) -> Any:
        given = space.function(
            lambda *xs: fun(*operands, *xs), f"the argument of {whose}'s function"
        )
        return space.checked(whose, solve(given, value), has_aux)

    def on_host(value: Any) -> Any:
        def plain(*operands: Any) -> list[Any]:
            return tree_flatten(run(operands[:n], space.tree.unflatten(operands[n:])))[0]

        leaves = tree_flatten(value)[0]
        return space.tree.unflatten(
            solver_call(*captured, *leaves, fun=plain, out_avals=space.avals)
        )

    try:
        with attempting():
            return stage_function(lambda value: run(captured, value), space.call, space.avals)
    except (ConcretizationTypeError, RuleError):
        if has_aux:  # nobody knows the types of aux
            raise
    return stage_function(on_host, space.call, space.avals)


def share_captures(parts: Sequence[Staged]) -> tuple[list[Jaxpr], list[Any]]:
    """The jaxprs of several functions, all taking what any of them captured; and these values."""
    shared = list({id(x): x for part in parts for x in part.captured}.values())
    jaxprs: list[Jaxpr] = []
    for part in parts:
        n = len(part.captured)
        mine = dict(zip(map(id, part.captured), part.jaxpr.invars[:n], strict=True))
        binders = [mine.get(id(x)) or Var(typeof(x)) for x in shared]
        own = [*binders, *part.jaxpr.invars[n:]]
        jaxprs.append(Jaxpr(own, part.jaxpr.eqns, part.jaxpr.outvars))
    return jaxprs, shared
