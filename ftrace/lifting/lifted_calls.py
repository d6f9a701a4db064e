"""What a call means in lifted code, where every `f(x)` has become `call(f)(x)`.

The user's own functions become their lifted selves; builtins, `math` and NumPy's constructors
become what they mean on traced values (`python.py`, `mathematics.py`, `array_functions.py`);
everything else is called as it is. The user's own is what belongs to the package, or lies in the
directory of the script, of the function that was lifted first: its `Territory`. While lifted code
runs, `ctx.lift` is that territory, and ftrace's own wrappers ask it (`trace.lifted`) when they call
a user's function: so `grad(f)` in lifted code lifts f.
"""

import functools
import itertools
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ftrace import tree_util
from ftrace.core import source, traced_text
from ftrace.core.closure_cells import content
from ftrace.core.device import is_array
from ftrace.core.trace import EVAL, Tracer, ctx, lifted, running
from ftrace.core.weak import dropping
from ftrace.lifting.sources.reach import place_of
from ftrace.lifting.state.roots import (
    STANDARD,
    call_of,
    is_denied,
    is_installed,
    is_library,
    is_over_arrays,
)
from ftrace.lifting.state.throwing import refuse_unknown
from ftrace.lifting.substitutes import array_functions, mathematics, python
from ftrace.lifting.substitutes.array_functions import ALWAYS, CONSTRUCTORS, FILLED
from ftrace.lifting.substitutes.mathematics import MATH
from ftrace.lifting.substitutes.python import BUILTINS, holds_tracer
from ftrace.lifting.substitutes.scipy_names import counterpart, is_foreign_operator
from ftrace.lifting.substitutes.trailing_zeros import checking
from ftrace.lifting.substitutes.unasked import ANSWERED, REFUSED
from ftrace.lifting.syntax import users_operators, users_targets
from ftrace.lifting.syntax.rewriting import rewrite
from ftrace.numpy.scalar_classes import agreed

_CACHED: Final = type(functools.lru_cache(lambda: None))
_DISPATCHING: Final = functools.singledispatch(lambda x: x).__code__  # type: ignore[attr-defined]


def call(fn: Any) -> Any:
    """What lifted code calls instead of `fn`: with no trace running, `fn` itself.

    Traced values come from ftrace's transformations only, and these lift what they call.
    """
    if not running or ctx.trace is EVAL:
        return fn
    found = SUBSTITUTES.get(id(fn))
    if found is not None:
        return found
    adapted = _BY_TYPE.get(type(fn))
    if adapted is not None:
        return adapted(fn)
    return lifted(fn)


# ---------------------------------------------------------------------------------- substitutes


# Not `__type_params__`: that of `type` itself is no tuple, which Python 3.12 refuses.
_NAMES: Final = ("__module__", "__name__", "__qualname__", "__doc__")


def _where_traced(plain: Any, traced: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain, _NAMES, updated=())
    def substitute(*args: Any, **options: Any) -> Any:
        if holds_tracer(args) or (options and holds_tracer(options)):
            return traced(*args, **options)
        return plain(*args, **options)

    return substitute


def _of_iterable(plain: Any, traced: Callable[..., Any]) -> Callable[..., Any]:
    """The same where the items may come from what nobody looks into, or go to a key."""

    @functools.wraps(plain, _NAMES, updated=())
    def substitute(*args: Any, **options: Any) -> Any:
        hidden = any(map(_hides, (*args, *options.values())))
        if hidden or holds_tracer(args) or (options and holds_tracer(options)):
            return traced(*args, **options)
        return plain(*args, **options)

    return substitute


_PLAIN: Final = (list, tuple, dict, set, frozenset, str, bytes, range, Tracer)


def _hides(x: Any) -> bool:
    """Whether a value may give traced values that only iteration or a call of it shows."""
    plain = issubclass(type(x), _PLAIN) or is_array(x)
    return callable(x) or (isinstance(x, Iterable) and not plain)


def _of_functions(plain: Any, *, classes: bool = True) -> Callable[..., Any]:
    """What calls the functions it is given, as far as anybody knows: they are lifted.

    Classes such as `float` may be called, too, or tell a dtype.
    """

    def meant(x: Any) -> Any:
        known = id(x) in SUBSTITUTES and (classes or not isinstance(x, type))
        return call(x) if isinstance(x, _FUNCTIONS) or known else x

    @functools.wraps(plain, _NAMES, updated=())
    def caller(*args: Any, **options: Any) -> Any:
        return plain(*map(meant, args), **{k: meant(v) for k, v in options.items()})

    return caller


_FUNCTIONS: Final = (types.FunctionType, types.MethodType, functools.partial)


def _of_handled(plain: Any) -> Callable[..., Any]:
    """What asks Python for the error that is being handled."""

    @functools.wraps(plain, _NAMES, updated=())
    def substitute(*args: Any, **options: Any) -> Any:
        refuse_unknown(f"{plain.__module__}.{plain.__name__}")
        return plain(*args, **options)

    return substitute


_ASKING: Final = (sys.exc_info, sys.exception, traceback.format_exc, traceback.print_exc)
HIGHER: Final = (
    map,
    functools.reduce,
    itertools.accumulate,
    itertools.starmap,
    itertools.takewhile,
    itertools.dropwhile,
    itertools.filterfalse,
    itertools.groupby,
    tree_util.tree_map,
    tree_util.tree_map_with_path,
    tree_util.tree_reduce,
    tree_util.tree_reduce_associative,
)


def _table() -> dict[int, Callable[..., Any]]:
    table: dict[Any, Callable[..., Any]] = {}
    for traced in (BUILTINS, MATH, CONSTRUCTORS, ANSWERED, REFUSED):
        table |= {plain: _where_traced(plain, fn) for plain, fn in traced.items()}
    iterated = (
        {f: BUILTINS[f] for f in python.ITERATED} | array_functions.ITERATED | mathematics.ITERATED
    )
    table |= {plain: _of_iterable(plain, fn) for plain, fn in iterated.items()}
    table |= {plain: _of_functions(plain) for plain in HIGHER}
    table |= {plain: _of_handled(plain) for plain in _ASKING}
    table |= FILLED | ALWAYS
    table |= users_operators.functions() | users_targets.functions()
    table[complex] = traced_text.asking(complex, table[complex])
    for plain in (abs, float, int, complex, round, len, iter, next, reversed):
        table[plain] = users_operators.by_method(table.get(plain, plain), f"__{plain.__name__}__")
    _KEPT.extend(table)
    return {id(plain): fn for plain, fn in table.items()}


_KEPT: Final[list[Any]] = []  # so that no other object gets one of the ids
SUBSTITUTES: Final = _table()
"""By the id of what Python or NumPy offers: what takes its place while a trace runs."""


def _builtin(fn: Any) -> Any:
    """What a call of a compiled function or method calls."""
    return counterpart(fn, lifted) or array_functions.numpy_method(fn)


_BY_TYPE: Final[dict[type, Callable[[Any], Any]]] = {
    types.BuiltinFunctionType: _builtin,
    type(np.sum): array_functions.numpy_function,
    np.ufunc: array_functions.numpy_function,
    np.vectorize: array_functions.numpy_vectorized,
}


# ---------------------------------------------------------------------------------- territory


class Territory:
    """Which functions are the user's own, and what they are lifted to. Call it with a function.

    Args:
        root: a function; without one, nothing is the user's own.
    """

    __slots__ = ("_directory", "_known", "_name", "_operated")

    def __init__(self, root: types.FunctionType | None) -> None:
        self._known: dict[tuple[str, str], bool] = {}
        self._operated = False  # whether operators and attributes are lifted, too
        self._name: str | None = None  # of the package, or of an installed module
        self._directory: str | None = None  # of the script
        file = "" if root is None else root.__code__.co_filename
        if root is None or file.startswith(STANDARD):
            return
        package = _package(root)
        if package or is_installed(file):
            self._name = package or root.__globals__["__name__"]
        else:
            self._directory = _directory(file)

    def follow(self, traceback: types.TracebackType | None, again: bool) -> bool:
        """Own the code of every function that an error passed through; whether any is new.

        Args:
            traceback: the error's.
            again: whether what is owned was lifted already. A function that was not for all that
                is one that no call names, but an operator or a property.
        """
        news = False
        while traceback is not None:
            frame = traceback.tb_frame
            if not self._operated and is_foreign_operator(frame):
                self._operated = news = True
            place = frame.f_code.co_filename, str(frame.f_globals.get("__name__"))
            if not is_denied(*place):
                if not self._known.get(place):
                    self._known[place] = news = True
                elif again and not self._operated and "_ft" not in frame.f_code.co_freevars:
                    self._operated = news = True
            traceback = traceback.tb_next
        return news

    def own(self, places: Iterable[tuple[str, str]], operated: bool) -> None:
        """Own all code of files and modules; `operated`: lift operators and properties, too."""
        self._known |= {place: True for place in places if not is_denied(*place)}
        self._operated = self._operated or operated

    def owns(self, fn: types.FunctionType) -> bool:
        """Whether a function is the user's own."""
        place = place_of(fn)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._find(fn, *place)
        return found

    def _find(self, fn: types.FunctionType, file: str, module: str) -> bool:
        if file.startswith(source.PACKAGE):
            return False
        if self._name is not None:
            return (_package(fn) or module) == self._name
        if self._directory is None or is_library(fn):
            return False
        inside = os.path.abspath(file).startswith(os.path.join(self._directory, ""))
        return inside or module == "__main__"

    def __call__(self, fn: Any) -> Any:
        """The function, method, class or other callable, lifted where it is the user's own."""
        found = counterpart(fn, self) or SUBSTITUTES.get(id(fn)) or traced_text.asking(fn)
        if found is not None:
            return found
        kind = type(fn)
        if kind is types.FunctionType:
            return self._function(fn)
        if kind is types.MethodType:
            made = self(fn.__func__)
            return fn if made is fn.__func__ else types.MethodType(made, fn.__self__)
        if kind is functools.partial:
            made = self(fn.func)
            return fn if made is fn.func else functools.partial(made, *fn.args, **fn.keywords)
        if kind is _CACHED:
            return self._cached(fn)
        if isinstance(fn, type):
            return self._class(fn)
        method = call_of(kind)
        if method is not None and self.owns(method):
            return types.MethodType(rewrite(method, self._operated), fn)
        return fn

    def _function(self, fn: types.FunctionType) -> Any:
        if self.owns(fn):
            made = rewrite(fn, self._operated)
            return checking(fn, made) if is_over_arrays(fn.__globals__.get("__name__")) else made
        inner = fn.__dict__.get("__wrapped__")
        if "__ftrace__" in fn.__dict__:
            return fn
        if inner is None:
            ours = fn.__code__.co_filename.startswith(source.PACKAGE)
            return fn if ours else _of_functions(fn, classes=False)
        if fn.__code__ is _DISPATCHING:
            return self._dispatched(fn)
        made = self(inner)
        return fn if made is inner else _around(fn, inner, made)

    def _dispatched(self, fn: Any) -> Any:
        """A function of `functools.singledispatch`, which calls what is registered lifted."""

        def dispatch(x: Any, /, *args: Any, **options: Any) -> Any:
            return self(agreed(fn.__name__, x, fn.dispatch))(x, *args, **options)

        return dispatch

    def _cached(self, fn: Any) -> Any:
        """A function behind `functools.lru_cache`, which cannot look traced arguments up."""
        made = self(fn.__wrapped__)
        if made is fn.__wrapped__:
            return fn

        def call_or_look_up(*args: Any, **options: Any) -> Any:
            traced = holds_tracer(args) or holds_tracer(options)
            return made(*args, **options) if traced else fn(*args, **options)

        return call_or_look_up

    def _class(self, cls: type) -> Any:
        """A class whose instances are made by a lifted `__init__`, if it is the user's own."""
        new: Any = cls.__new__
        init: Any = cls.__init__
        if types.FunctionType not in (type(init), type(new)):
            return cls
        if type(cls).__call__ is not type.__call__:
            return cls
        method: Any = init if type(init) is types.FunctionType else new
        if method.__code__.co_filename == "<string>":  # of a dataclass or a named tuple
            after = getattr(cls, "__post_init__", None)
            return cls if after is None else self._dataclass(cls, after)
        if not self.owns(method):
            return cls

        def make(*args: Any, **options: Any) -> Any:
            own = type(new) is types.FunctionType
            made: Any = self(new)(cls, *args, **options) if own else new(cls)
            if issubclass(type(made), cls) and type(init) is types.FunctionType:
                self(made.__init__)(*args, **options)
            return made

        return make

    def _dataclass(self, cls: type, after: Any) -> Any:
        """A dataclass whose instances are made with a lifted `__post_init__`."""

        def make(*args: Any, **options: Any) -> Any:
            made = cls.__new__(cls)  # pyright: ignore[reportCallIssue]
            own = getattr(made, "__dict__", None)
            if own is None:
                return cls(*args, **options)
            own["__post_init__"] = types.MethodType(self(after), made)
            try:
                cls.__init__(made, *args, **options)
            finally:
                del own["__post_init__"]
            return made

        return make


_territories: Final[dict[int, tuple[Any, Territory]]] = {}


def territory_of(root: types.FunctionType | None) -> Territory:
    """The territory of a function: one for its code, so that what it follows is found once."""
    if root is None:
        return Territory(None)
    key = id(root.__code__)
    entry = _territories.get(key)
    if entry is None:
        dead = dropping(root.__code__, _territories, key)
        entry = _territories[key] = dead, Territory(root)
    return entry[1]


def _package(fn: types.FunctionType) -> str:
    """The name of the top-level package of a function, empty for a script or single module."""
    return (fn.__globals__.get("__package__") or "").partition(".")[0]


def _directory(file: str) -> str:
    """Where a script lies; of notebooks and the prompt, the working directory."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    typed = file.startswith("<") or (main is None and not os.path.exists(file))
    return os.getcwd() if typed else os.path.dirname(os.path.abspath(file))


def _around(wrapper: types.FunctionType, inner: Any, made: Any) -> types.FunctionType:
    """A decorator's wrapper around the lifted function, which a closure cell of it holds plain."""
    cells = wrapper.__closure__ or ()
    held = [content(c) is inner for c in cells]
    if not any(held):
        return wrapper
    fresh = tuple(types.CellType(made) if h else c for c, h in zip(cells, held, strict=True))
    copy = types.FunctionType(
        wrapper.__code__, wrapper.__globals__, wrapper.__name__, wrapper.__defaults__, fresh
    )
    copy.__kwdefaults__ = wrapper.__kwdefaults__
    functools.update_wrapper(copy, wrapper)
    return copy
