"""Rows on CuPy arrays by CuPy's own functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from ftrace.core.primitive import Primitive


def evaluate(row: Primitive, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """A row on CuPy arrays and numbers: one array per result."""
    found = row.impl(*args, **params)
    return list(found) if row.multiple else [found]
