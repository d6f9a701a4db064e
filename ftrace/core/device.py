"""Where arrays are: the platforms beside NumPy's, known once the first array of one is met."""

from collections.abc import Iterable
from typing import Any, Final

PLATFORMS: Final[dict[type, str]] = {}
"""By the type of arrays: "gpu" for `cupy.ndarray`."""


def platform(values: Iterable[Any]) -> str:
    """Where an operation on these values runs: where its arrays are."""
    if PLATFORMS:
        for x in values:
            found = PLATFORMS.get(type(x))
            if found is not None:
                return found
    return "cpu"
