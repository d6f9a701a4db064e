"""References that take an entry out of a table when what they refer to is gone."""

import weakref
from collections.abc import MutableMapping
from typing import Any, TypeVar

X = TypeVar("X")


def dropping(x: X, table: MutableMapping[Any, Any], key: Any) -> "weakref.ref[X]":
    """A weak reference to `x`; `table` loses `key` when `x` is gone.

    It also does where the interpreter ends, which has taken the modules' names away by then.
    """
    drop = table.pop
    return weakref.ref(x, lambda _: drop(key, None))
