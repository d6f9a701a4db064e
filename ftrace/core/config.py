"""Settings: one frozen record, read everywhere, changed in one place.

Every setting has a default, an environment variable `FTRACE_<NAME>` read at import (all but
`passes`), and can be changed for a while with `with ftrace.config.update(name=value)` or for good
with `set_default`.
The record is replaced as a whole, so a reader never sees half a change.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be configured.

    Attributes:
        check_jaxprs: type-check every jaxpr as soon as it is made (on in the tests).
        check_captures: compare large captured arrays with their content at capture time and
            raise `MutationError` if they changed before they were used (0.6 of the design).
        traceback: "user" hides ftrace's own frames, "full" shows them.
        disable_jit: `jit` calls its function directly.
        compile: `jit` turns jaxprs into machine code; False interprets them.
        deterministic: library calls are pinned to one thread.
        lift: `jit`, `vmap` and `vectorize` rewrite a function that Python's control flow or a
            plain NumPy array keeps from being traced; False leaves the error.
        recycled_memory: bytes of freed large results that compiled functions keep for their next
            ones, at most (and at most a quarter of the machine's memory); 0 keeps none.
        kernel_cache: bytes of compiled GPU kernels that are kept on disk, at most; 0 keeps none.
        cache_directory: where they are kept; by default in the user's cache directory.
        passes: what `ftrace.passes.inserted` added to lowering.
    """

    check_jaxprs: bool = False
    check_captures: bool = False
    traceback: str = "user"
    disable_jit: bool = False
    compile: bool = True
    deterministic: bool = False
    lift: bool = True
    recycled_memory: int = 1 << 30
    kernel_cache: int = 256 << 20
    cache_directory: str = ""
    passes: tuple[Any, ...] = ()


def _from_environment() -> Settings:
    changes: dict[str, Any] = {}
    for field in fields(Settings):
        text = os.environ.get(f"FTRACE_{field.name.upper()}")
        if text is not None and field.name != "passes":
            changes[field.name] = _parsed(field.name, text, type(field.default))
    return Settings(**changes)


def _parsed(name: str, text: str, kind: type) -> Any:
    if kind is bool:
        return text.lower() in ("1", "true", "yes", "on")
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"FTRACE_{name.upper()} is {text!r}; it must be a whole number.") from None


class _Config:
    """Holds the current record; attribute reads go to it."""

    __slots__ = ("settings",)

    def __init__(self) -> None:
        self.settings = _from_environment()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.settings, name)


config = _Config()


def set_default(**changes: Any) -> None:
    """Change settings for the rest of the process."""
    config.settings = replace(config.settings, **changes)


@contextmanager
def update(**changes: Any) -> Generator[None]:
    """Change settings inside a `with` block.

    Example:
        >>> import ftrace
        >>> with ftrace.config.update(check_jaxprs=True):
        ...     float(ftrace.grad(lambda x: x * x)(3.0))
        6.0
    """
    before = config.settings
    config.settings = replace(before, **changes)
    try:
        yield
    finally:
        config.settings = before
