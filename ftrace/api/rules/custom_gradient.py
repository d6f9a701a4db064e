"""Rules from closures: `custom_gradient` and `closure_convert`."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ftrace.api.calls import check_callable, name_of
from ftrace.api.rules.custom import custom_vjp
from ftrace.api.rules.pullbacks import Pullback, pulled
from ftrace.api.rules.rules import home
from ftrace.control.functions import argument_avals, flatten_call, stage_function
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError, TreeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.trace import Tracer, lifted
from ftrace.core.tree import tree_flatten, tree_mismatch, tree_words
from ftrace.lifting.restart import Restart

P = ParamSpec("P")
R = TypeVar("R")


def custom_gradient(fun: Callable[P, tuple[R, Callable[..., Any]]]) -> Callable[P, R]:
    """Give a function its backward rule in the function itself.

    Args:
        fun: returns `(result, vjp_fn)`; `vjp_fn` takes a cotangent of the result and returns a
            tuple with one cotangent per argument (one argument: the cotangent itself). What it
            reads of the function's local values is kept for the backward pass.

    Returns:
        A function that returns `result` alone. Forward mode works too where `vjp_fn` is linear.

    Raises:
        CustomRuleError: `fun` does not return a pair, or `vjp_fn` returns the wrong structure,
            shapes or dtypes.

    Example:
        >>> import ftrace
        >>> @ftrace.custom_gradient
        ... def f(x):
        ...     return x**2, lambda ct: ct * x
        >>> float(f(3.0)), float(ftrace.grad(f)(3.0))
        (9.0, 3.0)
    """
    check_callable(fun, "custom_gradient")

    def value(*args: P.args, **kwargs: P.kwargs) -> R:
        return _pair(fun, lifted(fun)(*args, **kwargs))[0]

    def fwd(*args: Any) -> Any:
        answer: Any = lifted(fun)
        result, pull = _pair(fun, answer(*args))
        return result, Pullback.of(pull, result, (), len(args))

    value.__name__ = name_of(fun)
    value.__wrapped__ = fun  # type: ignore[attr-defined] - its signature
    made = custom_vjp(value)
    made.defvjp(fwd, pulled)
    return made


def _pair(fun: Any, answer: Any) -> Any:
    if isinstance(answer, tuple | list) and len(answer) == 2 and callable(answer[1]):
        return answer
    raise CustomRuleError(
        f"{name_of(fun)}, decorated with custom_gradient, returned "
        f"{tree_words(tree_flatten(answer)[1])}, not a result and a function.",
        "Return (result, vjp_fn).",
        place=home(fun),
    )


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Make the traced values that a function closes over arguments of it.

    For functions given to rules: what they close over and is being differentiated has to be an
    operand, so that a rule can return its derivative.

    Args:
        fun: function of arrays, or containers of arrays.
        *example_args: arguments of the structures, shapes and dtypes it will be called with.

    Returns:
        `(converted, hoisted)`: `converted(*args, *hoisted)` is `fun(*args)`, and `hoisted` the
        list of captured traced floats. `fun` is traced once, here.

    Raises:
        TreeError: `converted` is called with arguments of another structure.

    Example:
        >>> import ftrace
        >>> def f(x):
        ...     converted, hoisted = ftrace.closure_convert(lambda y: x * y, 2.0)
        ...     return converted(2.0, *hoisted)
        >>> float(ftrace.grad(f)(5.0))
        2.0
    """
    check_callable(fun, "closure_convert")
    leaves, tree = flatten_call(example_args)
    avals = argument_avals(fun, leaves, tree)
    made = Restart(fun, True)(lambda: stage_function(fun, tree, avals), example_args)
    moves = [isinstance(x, Tracer) and is_inexact(typeof(x).dtype) for x in made.captured]
    hoisted = [x for x, m in zip(made.captured, moves, strict=True) if m]
    rest = [None if m else x for x, m in zip(made.captured, moves, strict=True)]
    jaxpr, out_tree, expected = made.jaxpr, made.out_tree, tree.children()[0]
    name, count = name_of(fun), len(hoisted)  # the result may not close over what is hoisted

    def converted(*args: Any) -> Any:
        n = len(args) - count
        flat, given = tree_flatten(args[:n])
        if given != expected:
            raise TreeError(
                f"{name} was converted for arguments that differ from those of this call "
                f"{tree_mismatch(expected, given, 'args')}.",
                "Call it with arguments like the examples, then the hoisted values.",
            )
        supply = iter(args[n:])
        captured = [next(supply) if m else x for x, m in zip(rest, moves, strict=True)]
        return out_tree.unflatten(eval_jaxpr(jaxpr, [*captured, *flat]))

    return converted, hoisted
