"""What a process makes once, at its first use, whichever thread comes first.

`lazy("scipy.special", "erf")` is a callable; SciPy is imported when it is called. `Late` are a
package's modules that are imported when one of their names is asked for. `@once` gives a function
without arguments one answer for the process. `MAKING` is held while anything is imported,
compiled or freed on this way: a process forks only between such works, so that no child inherits
half of one, or a lock whose holder it has not. The lock is reentrant, because a signal handler or
a finalizer may need the same in the middle of the making; whoever finishes first then wins.
"""

import importlib
import os
import sys
from _thread import RLock
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from ftrace.core.rare_collections import rare_collections

T = TypeVar("T")


def forkable_lock() -> Any:
    """A reentrant lock that nobody else holds while the process forks."""
    lock = RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


MAKING: Final = forkable_lock()


class Once(Generic[T]):
    """A function without arguments that makes a value at its first call, and gives it ever after.

    Attributes:
        made: a list of that value; empty before the first call.
    """

    __slots__ = ("__wrapped__", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        self.__wrapped__ = make
        self.made: list[T] = []

    def __call__(self) -> T:
        made = self.made
        if not made:
            with MAKING:
                value = made[0] if made else self.__wrapped__()
                if not made:  # what the making itself interrupted may have been first
                    made.append(value)
        return made[0]


def once(make: Callable[[], T]) -> Once[T]:
    """A decorator: the function makes its value once for the process."""
    return Once(make)


class Lazy:
    """A function that is looked up, once, when it is first called.

    `loading` is true for whoever interrupts the thread that imports it: a call would fail.
    """

    __slots__ = ("_found", "loading", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.loading = False
        self._found: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._found
        if found is None:
            with MAKING:
                self.loading = True
                _importing.append(self)
                try:
                    with rare_collections():
                        module = importlib.import_module(self.module)
                    found = self._found = getattr(module, self.name)
                finally:
                    self.loading = False
                    _importing.pop()
        return found(*args, **kwargs)

    def __repr__(self) -> str:
        return f"lazy({self.module!r}, {self.name!r})"


_importing: Final[list[Any]] = []


def is_importing() -> bool:
    """Whether an import by `lazy` is under way, for who holds `MAKING`: a signal handler inside it.

    What it imports may be half there.
    """
    return bool(_importing)


def lazy(module: str, name: str) -> Lazy:
    """`module.name`, imported at its first call."""
    return Lazy(module, name)


class Late:
    """Modules of a package that are loaded when one of their names is asked for.

    Attributes:
        homes: the module of each name that the package gets of them, those of the modules too.
    """

    __slots__ = ("_package", "homes")

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        """As above; `names` are those that the package gets of each module, apart by spaces."""
        self._package = package
        self.homes = {name: module for module, of in names.items() for name in of.split()}
        self.homes.update({module: module for module in names if module not in self.homes})

    def getter(self, absent: Callable[[str], Any]) -> Callable[[str], Any]:
        """The package's `__getattr__`; `absent` answers for names that are of none of them."""
        scope = vars(sys.modules[self._package])

        def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes the package's
            """A name of a module that is loaded now."""
            if name == "__all__":
                return [n for n in (*scope, *self.homes) if not n.startswith("_")]
            if name not in self.homes:
                return absent(name)
            with MAKING, rare_collections():
                found = importlib.import_module(f"{self._package}.{self.homes[name]}")
                value = found if self.homes[name] == name else getattr(found, name)
            scope[name] = value
            return value

        return __getattr__

    def load_all(self) -> None:
        """Load those that nobody has asked for."""
        with MAKING, rare_collections():
            for module in dict.fromkeys(self.homes.values()):
                importlib.import_module(f"{self._package}.{module}")
