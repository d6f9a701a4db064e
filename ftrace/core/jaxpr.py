"""Jaxprs: the typed intermediate representation, and the one forward loop over it.

`Jaxpr(invars, eqns, outvars)` is in single-assignment form; binders are typed `Var`s, operands
are `Var`s or `Literal`s. A jaxpr is always closed: arrays it captured are `consts`, held by
reference and read at every evaluation; tracers it captured were made leading inputs by whoever
staged it. `eval_jaxpr` binds each equation, so that evaluating under another trace *is* every
forward transformation of a jaxpr. Derived jaxprs are cached on the jaxpr they come from.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from ftrace.core import hooks, source
from ftrace.core.arguments import BARE, reword
from ftrace.core.avals import ShapedArray, check_int, typeof
from ftrace.core.primitive import NO_EFFECTS, Effects, Primitive
from ftrace.core.source import Location


class Var:
    """A binder; identity is its name. Printing gives it letters in order of appearance."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


_WIDEST: Final = (1 << 63) - 1


class Literal:
    """A constant operand. In a finished jaxpr a scalar; while recording, any known value."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any) -> None:
        if type(value) is int:
            check_int(value, _WIDEST, "A constant of a traced function")
        self.value: Any = value
        self.aval: ShapedArray = typeof(value)


Atom = Var | Literal


class Eqn:
    """One application of a primitive: `outvars = primitive[params] invars`."""

    __slots__ = ("invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: list[Any],
        params: dict[str, Any],
        outvars: Sequence[Var],
        place: Location | None,
    ) -> None:
        self.primitive = primitive
        self.invars = invars
        self.params = params
        self.outvars = outvars
        self.source = place

    def __reduce__(self) -> Any:
        """Without its place: code objects are not pickled."""
        return Eqn, (self.primitive, self.invars, self.params, self.outvars, None)

    @property
    def effects(self) -> Effects:
        rule = self.primitive.effects
        return NO_EFFECTS if rule is None else rule(**self.params)


class Jaxpr:
    """A typed program.

    Attributes:
        invars: typed inputs.
        eqns: equations in order.
        outvars: outputs, each a `Var` or a `Literal`.
        constvars, consts: binders of captured arrays and the arrays themselves, by reference.
        names: the user's argument names of the inputs, where known (for messages).
    """

    __slots__ = (
        "__weakref__",
        "cache",
        "consts",
        "constvars",
        "effects",
        "eqns",
        "invars",
        "names",
        "outvars",
    )

    def __init__(
        self,
        invars: Sequence[Var],
        eqns: Sequence[Eqn],
        outvars: Sequence[Atom],
        constvars: Sequence[Var] = (),
        consts: Sequence[Any] = (),
        names: tuple[str, ...] = (),
    ) -> None:
        try:
            self.invars = tuple(invars)
            self.eqns = tuple(eqns)
            self.outvars = tuple(outvars)
            self.constvars = tuple(constvars)
            self.consts = tuple(consts)
            self.names = names
            self.effects: Effects = NO_EFFECTS
            for e in self.eqns:
                if e.primitive.effects is not None:
                    self.effects |= e.effects
        except BARE as error:
            given = (self, invars, eqns, outvars, constvars, consts, names)
            reword(error, Jaxpr.__init__, given, {}, "ftrace.passes.Jaxpr")
        self.cache: dict[Any, Any] = {}

    def __copy__(self) -> "Jaxpr":
        return self  # nothing in it changes

    def __deepcopy__(self, memo: Any) -> "Jaxpr":
        return self

    def __reduce__(self) -> Any:
        """Without what was derived from it and compiled."""
        parts = (self.invars, self.eqns, self.outvars, self.constvars, self.consts, self.names)
        return Jaxpr, parts

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(v.aval for v in self.invars)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(v.aval for v in self.outvars)

    def __repr__(self) -> str:
        return hooks.print_jaxpr(self)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(hooks.print_jaxpr(self))}</pre>"


@source.replaying
def eval_jaxpr(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Bind every equation in order under the current trace; values are dropped at last use."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
        operands = [env[a] if type(a) is Var else a.value for a in eqn.invars]
        result = eqn.primitive(*operands, **eqn.params)
        if eqn.primitive.multiple:
            env.update(zip(eqn.outvars, result, strict=True))
        else:
            env[eqn.outvars[0]] = result
        for v in dead:
            del env[v]
    return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation the variables that nothing after it reads."""
    found = jaxpr.cache.get("last uses")
    if found is not None:
        return found
    seen: set[Any] = {v for v in jaxpr.outvars if type(v) is Var}
    dead: list[list[Var]] = []
    for eqn in reversed(jaxpr.eqns):
        here = dict.fromkeys(v for v in (*eqn.invars, *eqn.outvars) if type(v) is Var)
        dead.append([v for v in here if v not in seen])
        seen.update(here)
    dead.reverse()
    jaxpr.cache["last uses"] = dead
    return dead


def subjaxprs(params: dict[str, Any]) -> Iterator[tuple[str, Jaxpr]]:
    """The jaxprs among an equation's params, with the param's name."""
    for key in sorted(params) if len(params) > 1 else params:
        value = params[key]
        for item in value if isinstance(value, tuple) else (value,):
            inner = getattr(item, "jaxpr", item)
            if isinstance(inner, Jaxpr):
                yield key, inner


P = ParamSpec("P")
R = TypeVar("R")


def cached_on_jaxpr(
    fn: Callable[Concatenate[Jaxpr, P], R],
) -> Callable[Concatenate[Jaxpr, P], R]:
    """Remember `fn(jaxpr, *hashable)` on the jaxpr itself, so that it lives as long as it."""

    @wraps(fn)
    def wrapper(jaxpr: Jaxpr, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (fn, args, tuple(kwargs.items()))
        try:
            return jaxpr.cache[key]
        except KeyError:
            pass
        result = jaxpr.cache[key] = fn(jaxpr, *args, **kwargs)
        return result

    return wrapper


class JaxprFun:
    """A jaxpr used where a row expects a function of flat values."""

    __slots__ = ("jaxpr",)

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr

    def __call__(self, *args: Any) -> list[Any]:
        return eval_jaxpr(self.jaxpr, args)
