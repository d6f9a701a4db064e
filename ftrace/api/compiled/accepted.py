"""Settings of JAX's that programs write and ftrace has one answer to, and names for scopes.

Each is taken where it asks for what ftrace does anyway, and is an error where it asks for something
else: nothing is accepted that would change a value.
"""

import functools
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ftrace.core import avals, config
from ftrace.core.avals import ShapedArray
from ftrace.core.errors import ConfigError, DtypeError
from ftrace.numpy.precision import check_precision

_WITHOUT_EFFECT: Final = ("compiler_options", "keep_unused", "donate_argnames", "abstracted_axes")
_PLACES: Final = ("in_shardings", "out_shardings", "device", "backend")


def check_options(function: str, options: Mapping[str, Any]) -> None:
    """Raise for options of JAX's that ask for something else than what is done anyway.

    `compiler_options`, `keep_unused` and `donate_argnames` are accepted without effect; a device, a
    backend and shardings may be None.

    Raises:
        TypeError: no option of JAX's.
        ConfigError: one that is not None.
    """
    for name, given in options.items():
        if name not in _WITHOUT_EFFECT + _PLACES:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        if given is not None and name not in _WITHOUT_EFFECT[:-1]:
            raise ConfigError(
                f"{function} was given {name}={given!r}, which it does not take.",
                "Device follows data: a program runs where its arguments are. Leave it out.",
            )


@contextmanager
def _accepting(name: str, given: Any, accepted: tuple[Any, ...], instead: str) -> Generator[None]:
    if given not in accepted:
        raise ConfigError(f"{name} was given {given!r}.", instead)
    yield


def default_matmul_precision(precision: Any) -> Any:
    """A context in which products are as precise as they always are: in full.

    Args:
        precision: any name of a precision that JAX has.

    Example:
        >>> import ftrace
        >>> with ftrace.default_matmul_precision("highest"):
        ...     pass
    """
    check_precision("default_matmul_precision", precision)
    return _accepting("default_matmul_precision", None, (None,), "")


def numpy_rank_promotion(value: str) -> Any:
    """A context in which ranks are promoted as in NumPy: always, and without a warning.

    Args:
        value: "allow".

    Raises:
        ConfigError: "warn" or "raise".

    Example:
        >>> import ftrace
        >>> with ftrace.numpy_rank_promotion("allow"):
        ...     pass
    """
    fix = 'Arrays broadcast as in NumPy: use "allow", and compare shapes where ranks must agree.'
    return _accepting("numpy_rank_promotion", value, ("allow",), fix)


def numpy_dtype_promotion(value: str) -> Any:
    """A context in which dtypes are promoted as in NumPy: always.

    Args:
        value: "standard".

    Raises:
        ConfigError: "strict".

    Example:
        >>> import ftrace
        >>> with ftrace.numpy_dtype_promotion("standard"):
        ...     pass
    """
    fix = 'Dtypes are promoted as in NumPy 2: use "standard"; ftrace.lax does not promote.'
    return _accepting("numpy_dtype_promotion", value, ("standard",), fix)


def enable_x64(new_val: bool = True) -> Any:
    """A context in which double precision is double precision: always.

    Args:
        new_val: True.

    Raises:
        ConfigError: False.

    Example:
        >>> import ftrace
        >>> with ftrace.enable_x64():
        ...     pass
    """
    fix = "Arrays have the dtype that NumPy gives them: make them with dtype=numpy.float32."
    return _accepting("enable_x64", bool(new_val), (True,), fix)


def enable_checks(new_val: bool = True) -> Any:
    """A context in which every jaxpr is checked as soon as it is made.

    Args:
        new_val: whether it is; `ftrace.config.update(check_jaxprs=True)` is the same.

    Example:
        >>> import ftrace
        >>> with ftrace.enable_checks():
        ...     y = ftrace.jit(lambda x: x + 1)(1.0)
    """
    return config.update(check_jaxprs=bool(new_val))


class named_scope:  # noqa: N801 - JAX's name
    """A context, or a decorator, that gives a name to a part of a program: without effect.

    `ftrace.named_call(f, name=...)` records the name in the jaxpr.

    Args:
        name: the name.

    Example:
        >>> import numpy as np, ftrace
        >>> def f(x):
        ...     with ftrace.named_scope("attention"):
        ...         return np.sin(x)
        >>> float(ftrace.jit(f)(0.0))
        0.0
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not issubclass(type(name), str):
            raise DtypeError(f"named_scope takes a name, not {type(name).__name__}.", "Give a str.")
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself, under its own name."""

        @functools.wraps(fn)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return scoped


def typeof(x: Any) -> ShapedArray:
    """The abstract type of an array, a number or a traced value: its shape and dtype.

    Args:
        x: the value.

    Returns:
        An object with `shape`, `dtype`, `ndim`, `size` and `weak`.

    Raises:
        DtypeError: it is no array and no number.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.typeof(np.zeros((2, 3)))
        f64[2,3]
    """
    return avals.typeof(x)
