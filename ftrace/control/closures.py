"""Closure conversion: the traced values that functions close over become values one can pass.

Rules run at another level than the function they belong to, and later; a tracer in a closure
would belong to neither. `Closure` finds the tracers that functions reach through closure cells,
defaults, partials, methods, containers and other functions with rules, and makes the same
functions over other values. What is reached in another way (a global, an attribute, the function
of a `jit`) stays where it is and is refused as a leak when it is used.
"""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

from ftrace.control.traces import Traces
from ftrace.core.closure_cells import content
from ftrace.core.errors import TreeError
from ftrace.core.trace import EVAL, Tracer, ctx, is_within
from ftrace.core.tree import tree_flatten

_ATOMS: Final = (str, bytes, int, float, complex, type, types.ModuleType, type(None))


def is_captured(value: Any) -> bool:
    """Whether a value is a tracer of a transformation that runs around this one."""
    return isinstance(value, Tracer) and value.owner.alive and is_within(value.owner, ctx.trace)


class Closure:
    """Functions, and the values they close over.

    Attributes:
        values: the captured values, each once, those of the first functions first.
    """

    __slots__ = ("_functions", "_rebuilt", "values")

    def __init__(
        self, functions: Sequence[Any], captured: Callable[[Any], bool] = is_captured
    ) -> None:
        self._functions = tuple(functions)
        nothing = captured is is_captured and ctx.trace is EVAL
        if nothing or all(map(_is_bare, self._functions)):
            self.values, self._rebuilt = [], {}
        else:
            self.values, self._rebuilt = _search(self._functions, captured)

    def bind(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The functions over other values."""
        if not self.values:
            return self._functions
        made = {id(old): new for old, new in zip(self.values, values, strict=True)}
        build = _Builder(made, self._rebuilt)
        return tuple(map(build, self._functions))


def _is_bare(x: Any) -> bool:
    """Whether a function holds nothing: most do, and are not searched."""
    if x is None:
        return True
    plain = type(x) is types.FunctionType and not x.__closure__ and not x.__dict__
    return plain and not x.__defaults__ and not x.__kwdefaults__


def _search(
    functions: Sequence[Any], captured: Callable[[Any], bool]
) -> tuple[list[Any], dict[int, Any]]:
    """The captured values, and everything on the way to one of them."""
    values: list[Any] = []
    seen: dict[int, Any] = {}
    holders: dict[int, list[Any]] = {}  # id of a part -> what holds it
    queue = list(reversed(functions))
    while queue:
        x = queue.pop()
        if id(x) in seen or issubclass(type(x), _ATOMS):
            continue
        seen[id(x)] = x
        if captured(x):
            values.append(x)
            continue
        for part in _parts(x):
            holders.setdefault(id(part), []).append(x)
            queue.append(part)
    rebuilt: dict[int, Any] = {}
    reach = list(values)
    while reach:
        for holder in holders.get(id(reach.pop()), ()):
            if id(holder) not in rebuilt:
                rebuilt[id(holder)] = holder
                reach.append(holder)
    return values, rebuilt


def _parts(x: Any) -> Sequence[Any]:
    """What a value holds and closure conversion can replace in it."""
    if isinstance(x, types.FunctionType):
        parts = [content(c) for c in x.__closure__ or ()]
        if any(isinstance(p, Traces) for p in parts):
            return ()  # its cache knows the function it was made for
        return [*parts, x.__defaults__, x.__kwdefaults__, x.__dict__]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, functools.partial):
        return [x.func, x.args, x.keywords]
    if isinstance(x, Tracer):
        return ()
    names = getattr(type(x), "__closes_over__", None)
    if names is not None:
        return [getattr(x, name) for name in names]
    try:
        leaves, tree = tree_flatten(x)
    except TreeError:
        return ()
    return leaves if tree.children() else ()


class _Builder:
    """Copies of functions and containers, with captured values replaced."""

    __slots__ = ("_changing", "_made")

    def __init__(self, made: dict[int, Any], rebuilt: dict[int, Any]) -> None:
        self._made = made
        self._changing = {*made, *rebuilt}

    def __call__(self, x: Any) -> Any:
        key = id(x)
        if key not in self._made:
            if key not in self._changing:
                return x
            self._made[key] = self._build(x)
        return self._made[key]

    def _build(self, x: Any) -> Any:
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if isinstance(x, types.MethodType):
            return types.MethodType(self(x.__func__), self(x.__self__))
        if isinstance(x, functools.partial):
            return functools.partial(self(x.func), *self(x.args), **self(x.keywords))
        names = getattr(type(x), "__closes_over__", None)
        if names is None:
            leaves, tree = tree_flatten(x)
            return tree.unflatten(list(map(self, leaves)))
        made = self._made[id(x)] = object.__new__(type(x))
        made.__dict__.update(x.__dict__)  # `copy.copy` gives the object itself, as of functions
        for name in names:
            setattr(made, name, self(getattr(x, name)))
        return made

    def _function(self, x: types.FunctionType) -> types.FunctionType:
        cells = x.__closure__ or ()
        fresh = [id(content(c)) in self._changing for c in cells]
        opened = tuple(types.CellType() if f else c for c, f in zip(cells, fresh, strict=True))
        made = types.FunctionType(x.__code__, x.__globals__, x.__name__, None, opened)
        self._made[id(x)] = made  # before its parts: a function may close over itself
        for new, old, f in zip(opened, cells, fresh, strict=True):
            if f:
                new.cell_contents = self(old.cell_contents)
        made.__defaults__ = self(x.__defaults__)
        made.__kwdefaults__ = self(x.__kwdefaults__)
        made.__qualname__, made.__module__ = x.__qualname__, x.__module__
        made.__dict__.update(self(x.__dict__))
        return made
