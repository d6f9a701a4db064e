"""Settings: one frozen record, read everywhere, changed in one place.

Every setting has a default, an environment variable `FTRACE_<NAME>` read at import (all but
`passes`; an empty one is none; that of `threads` is FTRACE_NUM_THREADS), and can be changed for a
while with `with ftrace.config.update(name=value)`, in this thread or asyncio task alone, or for
good and everywhere with `set_default`. The record is replaced as a whole, so a reader never sees
half a change. FTRACE_CPU, which is no setting, chooses the instructions of compiled code: `native`,
`avx512`, `avx2` or `sse2` (cpu/llvm/machine_code.py).
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, replace
from types import ModuleType
from typing import Any, Final

from ftrace.core.errors import ConfigError
from ftrace.core.lazy import lazy
from ftrace.core.records import record

_close_matches = lazy("difflib", "get_close_matches")


@record
class Settings:
    """What can be configured.

    Attributes:
        check_jaxprs: type-check every jaxpr as soon as it is made (on in the tests).
        check_captures: compare large captured arrays with their content at capture time and
            raise `MutationError` if they changed before they were used (0.6 of the design); trace
            anew where Python read elements of one that has changed.
        traceback: "user" hides ftrace's own frames, "full" shows them.
        disable_jit: `jit` calls its function directly.
        compile: `jit` turns jaxprs into machine code; False interprets them.
        deterministic: library calls are pinned to one thread.
        threads: that share a large kernel of compiled code, at most; 0 for as many as the process
            may run at once. Results do not depend on it. The environment variable is
            FTRACE_NUM_THREADS.
        lift: `jit`, `vmap` and `vectorize` rewrite a function that Python's control flow or a
            plain NumPy array keeps from being traced; False leaves the error.
        kept_traces: signatures (shapes, dtypes, static arguments) whose traces and code a function
            keeps, at most; those that were not used for longest go first and are made again.
        recycled_memory: bytes of freed large results that compiled functions keep for their next
            ones, at most (and at most a quarter of the machine's memory); 0 keeps none.
        kernel_cache: bytes of compiled code (CPU, GPU) that are kept on disk, at most; 0 keeps and
            reads none.
        cache_directory: where they are kept; by default in the user's cache directory.
        roll: equations that repeat each other, as an unrolled Python loop leaves them, are compiled
            as a loop where there are at least so many iterations; 0 compiles them one by one.
        progress: a compilation that takes more than two seconds says so on the standard error, if
            that is a terminal, and what would make it shorter.
        log_compiles: each compilation is logged (`logging`, "ftrace.compile"): of what, why, how
            long it took, and which repeats became loops.
        passes: what `ftrace.passes.inserted` added to lowering.
    """

    check_jaxprs: bool = False
    check_captures: bool = False
    traceback: str = "user"
    disable_jit: bool = False
    compile: bool = True
    deterministic: bool = False
    threads: int = 0
    lift: bool = True
    kept_traces: int = 512
    recycled_memory: int = 1 << 30
    kernel_cache: int = 256 << 20
    cache_directory: str = ""
    roll: int = 4
    progress: bool = True
    log_compiles: bool = False
    passes: tuple[Any, ...] = ()


def _defaults() -> dict[str, Any]:
    return {field.name: field.default for field in fields(Settings)}


def _from_environment() -> Settings:
    changes: dict[str, Any] = {}
    for name, default in _defaults().items():
        variable = _variable(name)
        text = os.environ.get(variable, "")
        if text and name != "passes":
            changes[name] = _parsed(variable, text, type(default))
    _check(changes, environment=True)
    return Settings(**changes)


def _variable(name: str) -> str:
    """The environment variable of a setting."""
    return "FTRACE_NUM_THREADS" if name == "threads" else f"FTRACE_{name.upper()}"


_WORDS: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


_WANTED: Final[dict[type, str]] = {
    bool: "True or False",
    int: "a whole number, not negative",
    str: "a string",
    tuple: "a tuple",
}


def _parsed(name: str, text: str, kind: type) -> Any:
    """The value of an environment variable."""
    try:
        return _WORDS[text.strip().lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        wanted = "1 or 0 (true, yes, on, false, no, off)" if kind is bool else "a whole number"
        raise ConfigError(
            f"The environment variable {name} is {text!r}; it must be {wanted}.",
            f"Correct {name}, or remove it for the default.",
        ) from None


def _check(changes: dict[str, Any], environment: bool = False) -> None:
    """Raise unless these are settings, with values that they can have.

    Raises:
        ConfigError: as above.
    """
    known = _defaults()
    for name, value in changes.items():
        if name not in known:
            close = _close_matches(name, known, 1)
            raise ConfigError(
                f"There is no setting {name!r}." + (f" Is {close[0]!r} meant?" if close else ""),
                f"The settings are {', '.join(known)}.",
            )
        kind = type(known[name])
        wrong = type(value) is not kind or (kind is int and value < 0)
        if wrong or (name == "traceback" and value not in ("user", "full")):
            label = f"The setting {name}"
            if environment:
                label = f"The environment variable {_variable(name)}"
            allowed = "'user' or 'full'" if name == "traceback" else _WANTED[kind]
            raise ConfigError(
                f"{label} is {value!r}; it must be {allowed}.",
                "See ftrace.config.Settings for what it means.",
            )


def _refuse_assignment(name: str) -> None:
    """Raise `ConfigError`: an attribute that is assigned changes no setting."""
    _check({name: getattr(config.defaults, name, None)})
    raise ConfigError(
        f"The setting {name} was assigned, which would change nothing.",
        f"Use `with ftrace.config.update({name}=...)`, or ftrace.config.set_default({name}=...).",
    )


class _Changes:
    """What `update` changes in a block, and the record that follows from it."""

    __slots__ = ("_base", "_record", "changes")

    def __init__(self, changes: dict[str, Any]) -> None:
        self.changes = changes
        self._base: Settings | None = None

    def applied(self, base: Settings) -> Settings:
        """The record, made again when the defaults were replaced."""
        if self._base is not base:
            self._record = replace(base, **self.changes)
            self._base = base
        return self._record


_changes: Final[ContextVar[_Changes | None]] = ContextVar("ftrace settings", default=None)
changes: Final = _changes.get
"""Gives None where no `update` is around: then `config.defaults` are the settings."""


class _Config:
    """Holds the defaults; reads of other attributes go to the record of this context."""

    __slots__ = ("defaults",)

    def __init__(self) -> None:
        self.defaults = _from_environment()

    def __reduce__(self) -> str:
        return "config"  # there is one

    @property
    def settings(self) -> Settings:
        """The record that holds here."""
        own = changes()
        return self.defaults if own is None else own.applied(self.defaults)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.settings, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "defaults":
            _refuse_assignment(name)
        object.__setattr__(self, name, value)


config = _Config()


class _Module(ModuleType):
    """A module in which an assignment to a new name is a mistake: nothing would read it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            _refuse_assignment(name)
        super().__setattr__(name, value)


def refuse_assignments(module: str) -> None:
    """Let assignments to names that a module does not have raise `ConfigError`."""
    sys.modules[module].__class__ = _Module


def set_default(**changes: Any) -> None:
    """Change settings for the rest of the process, in every thread.

    Raises:
        ConfigError: there is no such setting, or it cannot have the value.
    """
    _check(changes)
    config.defaults = replace(config.defaults, **changes)


@contextmanager
def update(**changes: Any) -> Generator[None]:
    """Change settings inside a `with` block, for this thread or asyncio task alone.

    Threads that are started inside the block begin with the defaults.

    Raises:
        ConfigError: there is no such setting, or it cannot have the value.

    Example:
        >>> import ftrace
        >>> with ftrace.config.update(check_jaxprs=True):
        ...     float(ftrace.grad(lambda x: x * x)(3.0))
        6.0
    """
    _check(changes)
    before = _changes.get()
    token = _changes.set(_Changes({**(before.changes if before else {}), **changes}))
    try:
        yield
    finally:
        with suppress(ValueError):  # a generator that is closed elsewhere: its context is gone
            _changes.reset(token)
