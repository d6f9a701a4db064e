"""NumPy's errors for values that it refuses: where they are traced, when the function runs.

What depends on shapes and options alone is asked of NumPy itself: `refusal` calls its function once
more where ours has failed, with plain arrays in the place of traced ones.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ftrace.control.rows.raising import fail_where, some
from ftrace.core.arguments import BARE, better_error, is_accident, is_raised, shown
from ftrace.core.errors import DtypeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.numpy.stand_ins import ask


class _OptionError(TypeError):
    """An option that an implementation would not look at."""


def _is_truth(x: Any) -> bool:
    return issubclass(type(x), int | np.integer | np.bool_) and abs(int(x)) < 1 << 31


def _is_order(x: Any) -> bool:
    return x is None or (type(x) is str and x.upper() in ("C", "F", "A", "K"))


def _is_casting(x: Any) -> bool:
    return type(x) is str and x in ("no", "equiv", "safe", "same_kind", "same_value", "unsafe")


# what implementations hardly look at
OPTIONS: Final[dict[str, Callable[[Any], bool]]] = {
    "order": _is_order,
    "casting": _is_casting,
    "device": lambda x: x is None or (type(x) is str and x == "cpu"),
    "overwrite_input": lambda x: not np.ndim(x),
    "mean": lambda x: x is not None,
    "correction": lambda x: x is not None,
    "subok": _is_truth,
    "keepdims": lambda x: x is np._NoValue or _is_truth(x),
}
# what programs call at every turn, and looks at all of its arguments itself: NumPy is not asked
# (names, since type checkers take minutes to join the overloads of a hundred functions)
_OFTEN: Final = """
    all allclose any arange argmax argmin argsort array asarray astype atleast_1d atleast_2d
    broadcast_to clip concatenate copy cumsum diag diagonal diff dot einsum empty empty_like
    expand_dims eye flip full full_like hstack imag inner isclose linspace matrix_transpose
    max mean meshgrid min moveaxis ndim ones ones_like outer prod ravel real repeat reshape
    roll round shape size sort squeeze stack std sum swapaxes take tensordot tile trace
    transpose tril triu var vstack where zeros zeros_like
"""
OFTEN: Final[frozenset[Any]] = frozenset(
    {
        *[f for f in vars(np.ndarray).values() if callable(f)],
        *(getattr(np, name) for name in _OFTEN.split()),
    }
)
MANY: Final = 1 << 20  # elements, or iterations of a loop of NumPy's, that are too many only to ask


def refuse(bad: Any, error: type[Exception], words: str) -> None:
    """Raise an error where a boolean holds anywhere."""

    def throw() -> None:
        raise error(words)

    fail_where(some(bad), (), throw, error)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `TypeError` for a value that an option of NumPy's functions cannot have."""
    for name, given in options.items():
        if name in OPTIONS and not OPTIONS[name](given):
            raise _OptionError(f"{name}={shown(given)} was given, which is none of its values.")


@functools.lru_cache(maxsize=1024)
def _options_of(fn: Callable[..., Any]) -> tuple[tuple[int, str], ...]:
    """Which arguments of a function are options, by position."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None:
        return ()
    named = enumerate(code.co_varnames[: code.co_argcount])
    return tuple((i, key) for i, key in named if key in OPTIONS)


def attempt(
    plain: Callable[..., Any], fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Call an implementation of NumPy's function; where it fails, with the error of NumPy's own.

    Raises:
        FtraceError, or what NumPy raises on such arguments.
    """
    try:
        if kwargs:
            check_options(kwargs)
        if len(args) > 2 and (places := _options_of(fn)):
            check_options({key: args[i] for i, key in places if i < len(args)})
        result = fn(*args, **kwargs)
    except BARE as error:
        if (found := refusal(error, plain, fn, args, kwargs)) is error:
            raise
        raise found from None
    if plain not in OFTEN:
        ask(plain, args, kwargs, plain)
    return result


def refusal(
    error: Exception,
    plain: Callable[..., Any],
    fn: Callable[..., Any],
    args: Any,
    kwargs: Any,
    name: str = "",
) -> Exception:
    """What is to be raised where an implementation failed: NumPy's error, if it has one."""
    if not is_accident(error) or _holds(_is_function, (args, *kwargs.values())):
        return error
    name = name or f"numpy.{plain.__name__}"
    if _holds(_is_large, (args, *kwargs.values())):
        return _ours(error, name, fn, args, kwargs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain(*map(_stand_in, args), **{k: _stand_in(v) for k, v in kwargs.items()})
    except Exception as numpys:
        chosen = is_raised(error) and type(error) is type(numpys)  # words of ours, as a rule better
        return error if chosen else numpys.with_traceback(None)
    return _ours(error, name, fn, args, kwargs)


def _ours(error: Exception, name: str, fn: Any, args: Any, kwargs: Any) -> Exception:
    if isinstance(error, _OptionError):
        return DtypeError(f"{name}: {error}", f"See help({name}).")
    if is_raised(error):
        return error
    return better_error(error, fn, args, kwargs, name)


def _holds(property_: Callable[[Any], bool], x: Any) -> bool:
    if type(x) in (list, tuple):
        return any(_holds(property_, item) for item in x)
    return property_(x)


def _is_function(x: Any) -> bool:
    return callable(x) and not issubclass(type(x), type | np.ufunc)


def _is_large(x: Any) -> bool:
    if issubclass(type(x), int):
        return abs(x) > MANY
    return issubclass(type(x), Tracer | np.ndarray) and x.size > MANY


def _stand_in(x: Any) -> Any:
    """A plain value of the same type and shape, which may be written."""
    if type(x) in (list, tuple):
        return type(x)(map(_stand_in, x))
    if not isinstance(x, Tracer):
        return x.copy() if type(x) is np.ndarray else x
    known = x.known(exact=False)
    return np.zeros(x.shape, x.dtype) if known is UNKNOWN else np.array(known)
