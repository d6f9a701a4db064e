"""Arrays of the emulated device in tests: there, back, and whole containers of them."""

from typing import Any

import numpy as np
import pytest

from ftrace.core.tree import tree_flatten
from tests.gpu.emulation.memory import host_view

cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install 'ftrace[gpu-static]'")


def there(x: Any) -> Any:
    """A `cupy.ndarray` over host memory with the elements of an array or number."""
    x = np.asarray(x)
    found = cupy.empty(x.shape, x.dtype)
    host_view(found)[...] = x
    return found


def here(x: Any) -> Any:
    """The elements of a `cupy.ndarray`; anything that is none fails."""
    assert type(x) is cupy.ndarray, f"{type(x)} is not on the device"
    return host_view(x).copy()


def write(x: Any, value: Any) -> None:
    """Overwrite a `cupy.ndarray` as `x[...] = value` does on a GPU."""
    host_view(x)[...] = value


def leaves_here(tree: Any) -> list[Any]:
    """The elements of all arrays of a container."""
    return [here(leaf) for leaf in tree_flatten(tree)[0]]
