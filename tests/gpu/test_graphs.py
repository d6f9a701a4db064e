"""When a program on a device becomes a graph: everything lies where it did in a recent call."""

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from ftrace import jit
from tests.gpu.emulation.device import HostDevice

X = np.linspace(0.0, 1.0, 64)


def three(x):
    """Three kernels: each needs the sum before it."""
    for _ in range(3):
        x = x * x.sum()
    return x


class Noting:
    """New arrays of a size lie in a few places in turn; how many graphs were made and run."""

    def __init__(self, device: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.replayed, self.places = 0, 0, 0
        self._empty, self._record = device.empty, device.record
        self._pools: dict[tuple[Any, Any], Iterator[Any]] = {}
        monkeypatch.setattr(device, "empty", self.empty)
        monkeypatch.setattr(device, "record", self.record)

    def empty(self, shape: Any, dtype: Any) -> Any:
        if not self.places:
            return self._empty(shape, dtype)
        key = tuple(shape), np.dtype(dtype)
        if key not in self._pools:
            self._pools[key] = cycle([self._empty(shape, dtype) for _ in range(self.places)])
        return next(self._pools[key])

    def record(self, thunk: Callable[[], None]) -> Callable[[], None]:
        self.made += 1
        graph = self._record(thunk)

        def replay() -> None:
            self.replayed += 1
            graph()

        return replay


@pytest.fixture
def noting(host_device: HostDevice, monkeypatch: pytest.MonkeyPatch) -> Noting:
    return Noting(host_device, monkeypatch)


def run(device: HostDevice, noting: Noting, places: int, calls: int, f: Any = three) -> None:
    """Call a program with results in so many places in turn."""
    x = device.from_host(X)
    noting.places = places
    compiled = jit(lambda x: f(x))
    for _ in range(calls):
        np.testing.assert_allclose(device.to_host(compiled(x)), f(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("places", "made", "replayed"),
    [
        (1, 1, 11),  # the second call is recorded, and run as a graph
        (2, 2, 10),  # a loop that binds its result to one name
        (4, 4, 8),
        (12, 0, 0),  # no place comes again
    ],
)
def test_calls_that_find_everything_in_recent_places_are_a_graph(
    places: int, made: int, replayed: int, host_device: HostDevice, noting: Noting
) -> None:
    run(host_device, noting, places, 12)
    assert (noting.made, noting.replayed) == (made, replayed)


def test_few_launches_are_no_graph(host_device: HostDevice, noting: Noting) -> None:
    run(host_device, noting, 1, 4, lambda x: np.sin(x) * x.sum())
    assert noting.made == 0


def test_what_asks_the_device_is_no_graph(host_device: HostDevice, noting: Noting) -> None:
    run(host_device, noting, 1, 4, lambda x: np.sort(three(x)))
    assert noting.made == 0
