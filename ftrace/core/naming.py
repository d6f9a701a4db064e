"""Objects that are copied and pickled as functions are: by reference to a module's variable.

A function has one identity: `copy.deepcopy` gives the function itself, and `pickle` writes down
where it is found. The objects that `jit`, `custom_jvp` and their kin put in the place of functions
behave alike, and so do rows. What no module names is pickled by its parts, if it has any.
"""

import copyreg
import importlib
import pickle
import sys
from typing import Any, Self


def attribute(module: str, path: str) -> Any:
    """What a module calls by a dotted name.

    Raises:
        AttributeError, ImportError: nothing has this name.
    """
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def name_of(x: Any) -> tuple[str, str] | None:
    """The module and the name under which a function, or what stands for one, is found."""
    module, path = getattr(x, "__module__", None), getattr(x, "__qualname__", "")
    try:
        return (module, path) if module and path and attribute(module, path) is x else None
    except (AttributeError, ImportError):
        return None


def variable_of(x: Any, name: str, package: str) -> tuple[str, str] | None:
    """The module and the variable that hold an object without a name of its own.

    Only a variable `name`, or one of a package, is taken: others may hold something else later.
    """
    for module, scope in list(sys.modules.items()):
        variables = getattr(scope, "__dict__", {})
        if variables.get(name) is x:
            return module, name
        if module.partition(".")[0] == package:
            for key, value in list(variables.items()):
                if value is x:
                    return module, key
    return None


class Named:
    """A base of classes whose objects are copied as functions are."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        found = name_of(self)
        if found is not None:
            return attribute, found
        parts = self._parts()
        if parts is None:
            raise pickle.PicklingError(
                f"{self!r} cannot be pickled: no module has it under its name. Assign it to a "
                "variable of that name in a module; it is pickled as functions are."
            )
        return parts

    def _parts(self) -> Any:
        """What makes an equal object, as `__reduce__` gives it; None if nothing does."""
        state = getattr(self, "__dict__", None)
        return None if state is None else (copyreg.__newobj__, (type(self),), state)  # pyright: ignore[reportAttributeAccessIssue]
