"""Looking into running programs: `print`, `callback`, `breakpoint`, and `blame`.

`blame` names the line that spoils a value or a gradient (api/looking/blame.py). The others work
where Python's own see only tracers: under jit, vmap and grad and in the bodies of control flow, at
every run and in program order. Derivatives pass them by: they show primals. One row does it all,
`debug_callback` in `control/rules/host_calls.py`.
"""

import bdb
import pdb
import string
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ftrace.api.calls import check_callable
from ftrace.api.looking.blame import Blame as Blame
from ftrace.api.looking.blame import Finding as Finding
from ftrace.api.looking.blame import blame as blame
from ftrace.control.functions import name_of
from ftrace.control.rules.host_calls import Host, debug_callback_call
from ftrace.core import source
from ftrace.core.avals import typeof
from ftrace.core.errors import CallbackError, DtypeError
from ftrace.core.jax_names import refusing as _refusing
from ftrace.core.tree import tree_flatten


def callback(fn: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a host function with the values of traced arguments; its result is dropped.

    Args:
        fn: function of NumPy arrays (scalars for rank 0), which it must not write.
        *args, **kwargs: arrays, containers of arrays, or anything else, which is passed as it is.
        ordered: accepted as in JAX; calls always run in program order.

    Example:
        >>> import ftrace
        >>> seen = []
        >>> def f(x):
        ...     ftrace.debug.callback(lambda y: seen.append(float(y)), x * x)
        ...     return x * x * x
        >>> float(ftrace.grad(ftrace.jit(f))(2.0)), seen
        (12.0, [4.0])
    """
    check_callable(fn, "debug.callback")
    leaves, tree = tree_flatten((args, kwargs))
    _show("debug.callback", fn, leaves, tree, ordered)


def _show(what: str, fn: Callable[..., Any], leaves: list[Any], tree: Any, ordered: bool) -> None:
    """Bind the row to those leaves that are arrays or numbers; the others stay Python values."""
    dynamic = [i for i, x in enumerate(leaves) if _is_value(x)]

    def shown(*values: Any) -> None:
        full = list(leaves)
        for i, v in zip(dynamic, values, strict=True):
            full[i] = v
        args, kwargs = tree.unflatten(full)
        fn(*args, **kwargs)

    values = [leaves[i] for i in dynamic]
    leaves = [None if i in dynamic else x for i, x in enumerate(leaves)]  # no tracer is kept
    host = Host(fn, shown, f"{what} of {name_of(fn)}", place=source.location())
    debug_callback_call(*values, host=host, ordered=ordered)


def _is_value(x: Any) -> bool:
    try:
        typeof(x)
    except DtypeError:
        return False
    return True


# ---------------------------------------------------------------------------------- print


class _Fields(string.Formatter):
    """Formats, and complains about arguments that the format does not show."""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [f"args[{i}]" for i in range(len(args)) if i not in used_args]
        unused += [k for k in kwargs if k not in used_args]
        if unused:
            raise CallbackError(
                f"debug.print was given {', '.join(unused)}, for which its format has no place.",
                'Write a format with one {} per value: debug.print("x = {}", x).',
            )


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:  # noqa: A001
    """Print traced values when the program runs.

    Args:
        fmt: a format as for `str.format`: `"x = {}, y = {y:.3f}"`. No f-string, which would show
            tracers.
        *args, **kwargs: what the format shows: arrays, containers of arrays, or other values.
        ordered: accepted as in JAX; prints always come in program order.

    Under `vmap` it prints once per member, under `grad` once, the primal values. In a `while_loop`
    whose condition is mapped, members that have finished go along until the last one has.

    Raises:
        CallbackError: the format does not fit the arguments.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.jit
        ... def f(x):
        ...     ftrace.debug.print("x = {}, twice = {twice:.1f}", x, twice=2 * x)
        ...     return x * x
        >>> float(ftrace.grad(f)(1.5))
        x = 1.5, twice = 3.0
        3.0
    """
    if not isinstance(fmt, str):
        raise CallbackError(
            f"debug.print takes a format first, and was given a {type(fmt).__name__}.",
            'Write debug.print("{}", x).',
        )
    _check_format(fmt, args, kwargs)

    def show(*values: Any, **named: Any) -> None:
        sys.stdout.write(fmt.format(*values, **named) + "\n")
        sys.stdout.flush()

    leaves, tree = tree_flatten((args, kwargs))
    _show("debug.print", show, leaves, tree, ordered)


class _Anything:
    """Stands for a value in a format that is checked before there is one."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> "_Anything":
        return self

    def __getitem__(self, key: Any) -> "_Anything":
        return self

    def __repr__(self) -> str:
        return ""


def _check_format(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    stand_in = _Anything()
    try:
        _Fields().vformat(fmt, (stand_in,) * len(args), dict.fromkeys(kwargs, stand_in))
    except (IndexError, KeyError, ValueError) as error:
        raise CallbackError(
            f"The format {fmt!r} of debug.print does not fit its {len(args)} positional and "
            f"{len(kwargs)} named arguments: {type(error).__name__}: {error}.",
            "Give one argument for each {} and each {name}; write {{ for a brace.",
        ) from error


# ---------------------------------------------------------------------------------- stopping


def breakpoint(*, debugger: bdb.Bdb | None = None) -> None:  # noqa: A001
    """Stop in a debugger where the program runs, with the values of the caller's variables.

    Args:
        debugger: a `pdb.Pdb`, or another debugger of that kind; a new `pdb.Pdb()` if None.

    The debugger sees the local variables of the calling function, tracers replaced by what they
    are in this run: NumPy arrays and scalars. It cannot change the program's values. `c` goes
    on, `q` raises `bdb.BdbQuit` as after Python's `breakpoint()`. Under `vmap` it stops once per
    member.

    Example:
        >>> import io, pdb, ftrace
        >>> terminal = io.StringIO()
        >>> def f(x):
        ...     y = x * x
        ...     ftrace.debug.breakpoint(debugger=pdb.Pdb(stdin=io.StringIO("p y"), stdout=terminal))
        ...     return y
        >>> ftrace.jit(f)(3.0)
        Traceback (most recent call last):
        bdb.BdbQuit
        >>> terminal.getvalue().splitlines()[-2]
        '(Pdb) 9.0'
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    code, scope = _stop(frame), frame.f_globals
    leaves, tree = tree_flatten(((dict(frame.f_locals),), {}))

    def stop(variables: dict[str, Any]) -> None:
        before = sys.gettrace()
        chosen = debugger or pdb.Pdb()
        chosen.reset()
        try:
            sys.settrace(chosen.trace_dispatch)
            exec(code, scope, variables)
        finally:
            sys.settrace(before)

    _show("debug.breakpoint", stop, leaves, tree, True)


def _stop(frame: FrameType) -> CodeType:
    """Code that does nothing, at the line and in the function where a frame is."""
    place = "\n" * (frame.f_lineno - 1) + "pass"
    nothing = compile(place, frame.f_code.co_filename, "exec")
    return nothing.replace(co_name=frame.f_code.co_name)


__getattr__ = _refusing("debug")
