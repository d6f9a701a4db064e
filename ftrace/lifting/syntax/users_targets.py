"""What assignments run in users' classes: setters, `__setitem__`, `__setattr__`, `__set__`.

In functions whose operators are written as calls (`users_operators.py`), `x.p = v` becomes
`_ft.target("p", x).p = v`, and `x[i][j] = v` becomes `_ft.target(None, x, i)[j] = v`: where a
method of a user's class would bind what is assigned, the target is a stand-in that runs it lifted.
"""

import operator
import types
from collections.abc import Callable
from typing import Any

from ftrace.core.trace import lifted
from ftrace.lifting.substitutes.targets import into
from ftrace.lifting.syntax import users_operators
from ftrace.lifting.syntax.users_operators import class_attribute, own_method


def target(name: str | None, x: Any, *keys: Any) -> Any:
    """`x[key]...`, of which an attribute, or an item (None), is assigned or deleted."""
    while keys and (read := own_method(x, "__getitem__")) is not None:
        x, keys = read(keys[0]), keys[1:]
    x = into(x, *keys) if keys else x
    if name is None:
        ways = [own_method(x, m) for m in ("__setitem__", "__delitem__")]
    else:
        ways = [_setter(x, name), _deleter(x, name)]
    return x if ways == [None, None] else _Target(x)


def set_attribute(x: Any, name: str, value: Any) -> None:
    """`setattr`."""
    set_ = _setter(x, name)
    setattr(x, name, value) if set_ is None else set_(value)


def delete_attribute(x: Any, name: str) -> None:
    """`delattr`."""
    delete = _deleter(x, name)
    delattr(x, name) if delete is None else delete()


def functions() -> dict[Any, Callable[..., Any]]:
    """What takes the place of Python's functions that assign."""
    return {setattr: set_attribute, delattr: delete_attribute}


class _Target:
    """An object of a user's class, whose methods that assign and delete are lifted."""

    __slots__ = ("_of",)
    _of: Any

    def __init__(self, x: Any) -> None:
        object.__setattr__(self, "_of", x)

    def __getitem__(self, key: Any) -> Any:  # in `x[key] += v`
        return users_operators.operate("getitem", self._of, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        made = own_method(self._of, "__setitem__")
        operator.setitem(self._of, key, value) if made is None else made(key, value)

    def __delitem__(self, key: Any) -> None:
        made = own_method(self._of, "__delitem__")
        operator.delitem(self._of, key) if made is None else made(key)

    def __getattr__(self, name: str) -> Any:
        return users_operators.attribute(self._of, name)

    def __setattr__(self, name: str, value: Any) -> None:
        set_attribute(self._of, name, value)

    def __delattr__(self, name: str) -> None:
        delete_attribute(self._of, name)


def _setter(x: Any, name: str) -> Callable[[Any], Any] | None:
    """What a user's class does where an attribute is assigned."""
    return _way(x, name, "__setattr__", "fset", "__set__")


def _deleter(x: Any, name: str) -> Callable[[], Any] | None:
    """What a user's class does where an attribute is deleted."""
    return _way(x, name, "__delattr__", "fdel", "__delete__")


def _way(x: Any, name: str, of_class: str, of_property: str, of_descriptor: str) -> Any:
    whole = own_method(x, of_class)
    if whole is not None:
        return lambda *value: whole(name, *value)
    found = class_attribute(type(x), name)
    if type(found) is property:
        bound = getattr(found, of_property)
        return None if type(bound) is not types.FunctionType else types.MethodType(lifted(bound), x)
    made = own_method(found, of_descriptor)
    return None if made is None else lambda *value: made(x, *value)
