"""What is wrong with the arguments of a public function, where its own checks did not say.

A function checks what it can say best; any other argument fails wherever it is first used, with
Python's words about a line inside ftrace. `explained` makes a named error of that: it compares the
arguments with the annotations of the function, which say what it takes, and names the first that
does not fit. Where nothing fails this costs a frame; errors of users' functions are left alone.
"""

import dis
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, Final, Literal, NoReturn, TypeVar

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.errors import (
    DomainError,
    DtypeError,
    FtraceError,
    HostMemoryError,
    RangeError,
    brief,
)
from ftrace.core.source import PACKAGE, is_internal
from ftrace.core.trace import Tracer

F = TypeVar("F", bound=Callable[..., Any])

# what Python raises where an argument is used as what it is not
BARE: Final = (
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError, StopIteration),
    MemoryError,
)
_NUMBERS: Final = {
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    bool: (bool, np.bool_, int),
}


_EXPLAINED: dict[Callable[..., Any], Any] = {}  # a function with two names is one


def explained(fn: F, name: str) -> F:
    """The function under its public name, whose bare errors name the argument that does not fit.

    A parameter annotated `bool` takes truths only: of anything else Python would find one.
    """
    if fn in _EXPLAINED:
        return _EXPLAINED[fn]
    call = _rewording(fn, name)
    call.__module__, _, call.__qualname__ = name.rpartition(".")  # where pickle finds it
    _EXPLAINED[fn] = _EXPLAINED[call] = call
    return typing.cast(F, call)


def _rewording(fn: Any, name: str) -> Any:
    code, hints = fn.__code__, fn.__annotations__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    truths = [
        (i if i < code.co_argcount else sys.maxsize, key)
        for i, key in enumerate(named)
        if hints.get(key) in (bool, "bool")
    ]

    first = min((place for place, _ in truths), default=sys.maxsize)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) > first:
            for place, key in truths:
                value = args[place] if place < len(args) else kwargs.get(key, True)
                if type(value) is not bool and not _is_truth(value):
                    raise _misfit(name, key, value, bool)
        try:
            return fn(*args, **kwargs)
        except BARE as error:
            reword(error, fn, args, kwargs, name)

    return call


def reworded(fn: F) -> F:
    """A decorator of functions that a public function makes: their bare errors are named, too."""
    return typing.cast(F, _rewording(fn, f"{fn.__module__}: {fn.__name__}"))


C = TypeVar("C", bound=type)


def explained_methods(cls: C) -> C:
    """A class decorator: the methods are as `explained` functions are."""
    home = cls.__module__.rpartition(".")[0]
    for key, fn in [*vars(cls).items()]:
        if type(fn) is FunctionType and (key[0] != "_" or key in _SPECIAL):
            setattr(cls, key, _rewording(fn, f"{home}.{cls.__name__}.{key}"))
    return cls


_SPECIAL: Final = (
    *("__init__", "__call__", "__getitem__", "__matmul__", "__rmatmul__", "__mul__", "__rmul__"),
    *("__truediv__", "__pow__", "__add__", "__radd__", "__sub__", "__rsub__"),
)


def _is_truth(value: Any) -> bool:
    if issubclass(type(value), int | np.bool_):
        return value in (0, 1)
    return isinstance(value, Tracer)  # which has an error of its own


def explain(namespace: dict[str, Any]) -> None:
    """Make the public functions of a package `explained`; its modules use them as they are."""
    for key in [*namespace.get("__all__", namespace)]:
        fn = namespace[key]
        if type(fn) is FunctionType and not key.startswith("_"):
            namespace[key] = explained(fn, f"{namespace['__name__']}.{key}")


def reword(
    error: Exception, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], name: str
) -> NoReturn:
    """Raise what is meant by an error that is being handled."""
    found = better_error(error, fn, args, kwargs, name)
    if found is error:
        raise error
    raise found from error


def better_error(
    error: Exception, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], name: str
) -> Exception:
    """The error itself if it is named already or the user's, else one that says what is wrong."""
    if not is_accident(error):
        return error
    given = _bound(fn, args, kwargs)
    if given is None:
        return error  # Python's words on the signature
    given.pop("self", None)
    for key, value in given.items():
        hint = _hint(fn, key)
        if not _fits(value, hint):
            return _misfit(name, key, value, hint)
    huge = next((k for k, v in given.items() if type(v) is int and v.bit_length() > 64), None)
    if huge is not None:
        return RangeError(
            f"{name} was given {shown(given[huge])} as its argument {huge}, which no dtype holds.",
            "Pass a float, or an integer of 64 bits.",
        )
    if any(_may_raise(v, error) for k, v in given.items() if _is_function(_hint(fn, k))):
        return error
    return unfit(error, name, given)


def options_check(fn: Callable[..., Any], name: str) -> Callable[[Any, Mapping[str, Any]], None]:
    """A function of arguments that raises `DtypeError` for an option of another type than it says.

    For functions that have no use for some of their options on traced values, and do not look at
    them.
    """
    code = inspect.unwrap(fn).__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    hints = {key: _hint(fn, key) for key in named}
    options = [
        (i if i < code.co_argcount else sys.maxsize, key, hints[key])
        for i, key in enumerate(named)
        if all(part in _OPTIONS for part in typing.get_args(hints[key]) or (hints[key],))
    ]
    absent = object()

    def check(args: Any, kwargs: Mapping[str, Any]) -> None:
        for place, key, hint in options:
            value = args[place] if place < len(args) else kwargs.get(key, absent)
            if value is absent or isinstance(value, Tracer):
                continue
            if not (_is_truth(value) if hint is bool else _fits(value, hint)):
                raise _misfit(name, key, value, hint)

    return check


_OPTIONS: Final = (bool, int, str, None, type(None))


def _is_function(hint: Any) -> bool:
    """Whether an annotation says that functions are taken."""
    return Callable in (hint, typing.get_origin(hint)) or any(
        map(_is_function, typing.get_args(hint))
    )


def _may_raise(value: Any, error: Exception) -> bool:
    """Whether an error may be that of a function of the user's that has left no frame."""
    if not callable(value):
        return False
    return not hasattr(value, "__code__") or f"{value.__name__}()" in str(error)


def _misfit(name: str, key: str, value: Any, hint: Any) -> DtypeError:
    return DtypeError(
        f"{name} was given {shown(value)} as its argument {key}, which is to be "
        f"{_described(hint)}.",
        f"See help({name}) for what its arguments mean.",
    )


def row_error(
    error: Exception, row: Any, args: tuple[Any, ...], params: Mapping[str, Any]
) -> Exception:
    """What is to be raised where a row failed: what its type rule says, if it says anything."""
    if isinstance(error, FtraceError) or any(map(_runs_the_users, params.values())):
        return error
    try:
        types = [typeof(a) for a in args]
        if _bound(row.type, types, params) is None:
            known = inspect.signature(row.type).parameters.values()
            operands = ", ".join(p.name for p in known if p.kind <= p.VAR_POSITIONAL)
            more = ", ".join(p.name for p in known if p.kind == p.KEYWORD_ONLY) or "no params"
            return DtypeError(
                f"{row.name} was given {len(args)} operands and the params {[*params]}: it takes "
                f"({operands}) and {more}.",
                f"See help(ftrace.lax) for what {row.name} takes.",
            )
        row.type(*types, **params)
    except FtraceError as named:
        return named
    except BARE as accident:
        return unfit(accident, row.name, {**_numbered(args), **params})
    if isinstance(error, _ACCIDENTS) and is_accident(error) and not is_raised(error):
        return unfit(error, row.name, {**_numbered(args), **params})
    return error


def _runs_the_users(param: Any) -> bool:
    """Whether it is a function or a jaxpr, or several: what they raise is the user's."""
    parts = param if isinstance(param, tuple) else (param,)
    return any(callable(p) or hasattr(p, "eqns") for p in parts)


def _numbered(args: tuple[Any, ...]) -> dict[str, Any]:
    return {f"operand {i}": a for i, a in enumerate(args)}


_CLASSES: Final[dict[type[Exception], type[FtraceError]]] = {
    TypeError: DtypeError, AttributeError: DtypeError, OverflowError: RangeError,
    MemoryError: HostMemoryError,
}  # fmt: skip


def unfit(error: Exception, name: str, given: Mapping[str, Any]) -> FtraceError:
    """An error whose cause is in arguments that are of the right types, each by itself."""
    cls = next((_CLASSES[k] for k in type(error).__mro__ if k in _CLASSES), DomainError)
    listed = ", ".join(f"{key}={shown(value)}" for key, value in given.items())
    return cls(
        f"{name} does not take these arguments: {listed}. It failed with {type(error).__name__}: "
        f"{error}.",
        f"Compare them with help({name}).",
    )


def shown(value: Any) -> str:
    """An argument in a message."""
    if issubclass(type(value), Tracer | np.ndarray) and value.ndim and value.size > 6:
        return f"an array {value.dtype}{[*value.shape]}"
    return " ".join(brief(repr(value), 120).split())


def is_accident(error: Exception) -> bool:
    """Whether Python or NumPy raised it inside ftrace, and not because of a value of an array."""
    if isinstance(error, FtraceError | np.linalg.LinAlgError):
        return False
    if isinstance(error, IndexError) and "out of bounds" in str(error):
        return False
    if isinstance(error, ZeroDivisionError) and is_raised(error):
        return False
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not is_internal(file) and "scipy" not in file:
            return False  # a function of the user's raised it, or called what did
        traceback = traceback.tb_next
    return True


def is_raised(error: Exception) -> bool:
    """Whether a `raise` of ftrace made it: words that were chosen, as NumPy's where it refuses."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return False
    code, at = traceback.tb_frame.f_code, traceback.tb_lasti
    return any(i.offset == at and i.opname == "RAISE_VARARGS" for i in dis.get_instructions(code))


_ACCIDENTS: Final = (TypeError, ValueError, OverflowError, MemoryError)


def _bound(fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by name, or None where they do not fit the signature."""
    try:
        signature = inspect.signature(fn)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    return bound


# ---------------------------------------------------------------------------------- annotations


def _hint(fn: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter; Any where that names what only type checkers import."""
    fn = inspect.unwrap(fn)
    found = getattr(fn, "__annotations__", {}).get(name, Any)
    try:
        return eval(found, getattr(fn, "__globals__", {})) if isinstance(found, str) else found
    except (NameError, AttributeError):
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, as far as that can be told by looking at it."""
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in inner)
    if origin is Literal:
        return type(value) is str and value in inner
    if origin is None:
        return value is None
    if origin is Callable:
        return callable(value)
    if origin is Any or not isinstance(origin, type):
        return True
    if origin in _NUMBERS:
        return issubclass(type(value), _NUMBERS[origin])
    if issubclass(origin, Iterable) and origin is not str:
        return _is_sequence(value, inner[0] if inner and origin is not dict else Any)
    return issubclass(type(value), origin)


def _is_sequence(value: Any, item: Any) -> bool:
    if isinstance(value, str | bytes) or not np.iterable(value):
        return False
    sized = isinstance(value, list | tuple) or type(value) is np.ndarray
    return not sized or all(_fits(v, item) for v in value)


def _described(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_described, inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in _WORDS:
        return _WORDS[origin]
    if isinstance(origin, type) and issubclass(origin, Iterable):
        each = f" of {_WORDS[inner[0]]}s" if inner and inner[0] in (int, float, str, bool) else ""
        return "a sequence" + each.replace(" an ", " ").replace(" a ", " ")
    return f"a {origin.__name__}" if isinstance(origin, type) else str(hint)


_WORDS: Final[dict[Any, str]] = {
    int: "an integer", float: "a number", bool: "True or False", str: "a text",
    type(None): "None", None: "None", Callable: "a function", type: "a class",
}  # fmt: skip
