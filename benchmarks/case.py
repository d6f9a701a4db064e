"""What a benchmark case is: inputs, a float64 reference and one builder per system.

A case is written once over a `System` (`body`), which gives the namespace and the transformations
by JAX's names; hand-written kernels (`own`) are the floor. The worker checks every output against
`reference` before it takes a time. Not here: how times are taken (`worker.py`), which systems exist
(`systems.py`). Read next: any file of `benchmarks/cases/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

HANDWRITTEN = ("numba", "numpy", "c", "csimd")
KINDS = ("steady", "first", "stage", "memory")

Outputs = Sequence[np.ndarray]
Builder = Callable[..., Callable[[], Any]]


class UnsupportedError(Exception):
    """A system cannot do a case; the text says why and is shown in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of a table.

    `kind`: `steady` times calls of the built function; `first` times building, compiling and the
    first call; `stage` times `make_jaxpr`; `memory` takes the growth of the peak resident set.
    `body(system)` returns a function of the inputs; `own[name](system, *inputs)` returns a call
    without arguments. `parallel` says that the thread count can matter.
    """

    name: str
    inputs: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Outputs]
    body: Callable[[Any], Callable[..., Any]] | None = None
    own: Mapping[str, Builder] = field(default_factory=dict)
    skip: tuple[str, ...] = ()
    tolerance: float = 1e-9
    kind: str = "steady"
    quick: bool = False
    parallel: bool = False
    numpy_in: bool = False
    relative: bool = False
    """Whether each element is compared relative to itself, not to the largest of its array."""
    noise: float = 1e-30
    """Below this an element is compared as if it were so large."""
    moved: int = 0
    """Bytes that any implementation must move: the floor where nobody wrote a kernel."""

    def offered(self, system: str) -> bool:
        """Whether there is anything to build for this system."""
        if system in self.skip:
            return False
        return system in self.own or (self.body is not None and system not in HANDWRITTEN)


def hand(function: Callable[..., Any]) -> Builder:
    """The builder of a plain function over ndarrays."""

    def build(system: Any, *inputs: Any) -> Callable[[], Any]:
        return partial(function, *inputs)

    return build


def built(body: Callable[[Any], Callable[..., Any]]) -> Builder:
    """The builder of a `body` that belongs to one system, where it has a way of its own."""

    def build(system: Any, *inputs: Any) -> Callable[[], Any]:
        return partial(body(system), *inputs)

    return build


def compiled(function: Callable[..., Any], **options: Any) -> Builder:
    """The builder of a function for `numba.njit`; every output is allocated by the function."""

    def build(system: Any, *inputs: Any) -> Callable[[], Any]:
        return partial(system.njit(**options)(function), *inputs)

    return build


def kernel(name: str, outputs: Callable[..., Sequence[tuple[Any, Any]]], *sizes: int) -> Builder:
    """The builder of a C function; `outputs(*inputs)` gives (shape, dtype) of what it returns."""

    def build(system: Any, *inputs: Any) -> Callable[[], Any]:
        return system.bind(name, inputs, outputs(*inputs), sizes)

    return build


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def mismatch(
    actual: Outputs,
    expected: Outputs,
    tolerance: float,
    relative: bool = False,
    noise: float = 1e-30,
) -> str:
    """What is wrong with the outputs, or the empty string."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs where the reference has {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        a, e = np.asarray(a, np.float64), np.asarray(e, np.float64)
        if a.shape != e.shape:
            return f"output {i} has shape {a.shape} where the reference has {e.shape}"
        size = np.abs(e) if relative else np.max(np.abs(e), initial=0.0)
        error = float(np.max(np.abs(a - e) / np.maximum(size, noise), initial=0.0))
        if not error <= tolerance:
            return f"output {i} is off by {error:.1e}, tolerance {tolerance:.1e}"
    return ""


def in_float64(arrays: Sequence[Any]) -> list[Any]:
    """The arrays, floating ones in double precision: what a reference computes with."""
    arrays = [np.asarray(a) for a in arrays]
    return [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]


def random(*shapes: tuple[int, ...], dtype: Any = np.float64, low: float = 0.0, high: float = 1.0):
    """Uniform arrays from a fixed seed, as a tuple."""
    rng = np.random.default_rng(7)
    return tuple((low + (high - low) * rng.random(shape)).astype(dtype) for shape in shapes)
