"""What handwritten kernels use of a device."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Triple = tuple[int, int, int]


class Launching(Protocol):
    """What is used of a device (`runtime/device_interface.py`)."""

    def empty(self, shape: Sequence[int], dtype: Any) -> Any: ...

    def pointer(self, array: Any) -> int: ...

    def compile(self, source: str, entries: tuple[str, ...]) -> Mapping[str, Any]: ...

    def launch(
        self, function: Any, grid: Triple, block: Triple, shared: int, words: Sequence[int]
    ) -> None: ...
