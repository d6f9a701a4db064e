"""No NumPy warnings about numbers that only a derivative rule computed.

Inside a transformation the floating-point warnings of the derivative's own arithmetic (1/sqrt(x)
at the masked 0) would point at code the user never wrote. A user's `np.errstate(... "raise")` is
kept: it is how people look for NaNs.
"""

from functools import lru_cache
from types import TracebackType
from typing import Any

import numpy as np


@lru_cache
def _quieter(*values: str) -> dict[str, Any]:
    return {k: "ignore" for k, v in zip(np.geterr(), values, strict=True) if v == "warn"}


class quietly:  # noqa: N801 - used like a function
    """Context manager: floating-point conditions set to "warn" are ignored."""

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        state = np.geterr()
        self._state: Any = None
        if "warn" in state.values():
            quiet = np.errstate(**_quieter(*state.values()))
            quiet.__enter__()
            self._state = quiet

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state is not None:
            self._state.__exit__(kind, error, traceback)
