"""Whose memory a graph uses, and what it reads anew.

The device's memory is a pool as CuPy's is: what is free again is given to the next that asks for
as much, the last one first. So calls find everything in the places of an earlier one.
"""

import gc
import weakref
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from ftrace import jit
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.emulation.memory import Block, Memory

X = np.linspace(0.5, 1.5, 1024)


class Owner:
    """What lives as long as an array's memory is used."""


class Pool(Memory):
    """Memory that is used again."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.free = defaultdict(list)
        self.used = 0

    def allocate(self, size):
        from cupy.cuda import MemoryPointer, UnownedMemory

        block = self.free[size].pop() if self.free[size] else Block(size, "plain")
        self.blocks.add(block)
        self.used += size
        owner = Owner()
        weakref.finalize(owner, self._back, block)
        return MemoryPointer(UnownedMemory(block.address, size, owner, 0), 0)

    def _back(self, block):
        self.used -= block.size
        self.free[block.size].append(block)


class Recorder(HostDevice):
    """A device that counts what it records and replays."""

    recorded = replayed = 0

    def __init__(self) -> None:
        super().__init__(schedules=["forwards"])
        self.memory = Pool()

    def record(self, thunk):
        self.recorded += 1
        replay = super().record(thunk)

        def counted():
            self.replayed += 1
            replay()

        return counted


@pytest.fixture
def recorder(emulation) -> Iterator[Recorder]:
    with selected(Recorder()) as device:
        yield device


def chain(x, factor=0.0005):
    for _ in range(4):
        x = x - factor * x.sum()
    return x


def test_calls_in_the_same_places_are_one_graph_compiled(recorder):
    f, x = jit(chain), recorder.from_host(X)
    for _ in range(6):
        np.testing.assert_allclose(recorder.to_host(f(x)), chain(X), rtol=1e-12)
    assert (recorder.recorded, recorder.replayed) == (1, 5)


def test_a_loop_over_calls_goes_to_and_fro_between_two_graphs_compiled(recorder):
    f, x, expected = jit(chain), recorder.from_host(X), X
    for _ in range(10):
        x, expected = f(x), chain(expected)
        np.testing.assert_allclose(recorder.to_host(x), expected, rtol=1e-12)
    assert recorder.recorded == 2
    assert recorder.replayed >= 6


def test_results_that_are_kept_are_never_written_again_compiled(recorder):
    f = jit(chain)
    arguments = [recorder.from_host(X + n) for n in range(3)]
    kept = []
    for turn in range(4):
        for n, x in enumerate(arguments):
            found = f(x)
            if turn % 2:
                kept.append((n, found))
            del found
    assert recorder.replayed
    for n, found in kept:
        np.testing.assert_allclose(recorder.to_host(found), chain(X + n), rtol=1e-12)


def test_a_graph_holds_no_memory_compiled(recorder):
    f, x = jit(chain), recorder.from_host(X)
    f(x)
    gc.collect()
    before = recorder.memory.used
    for _ in range(4):
        f(x)
    gc.collect()
    assert recorder.recorded == 1
    assert recorder.memory.used == before


def test_a_graph_reads_numbers_and_arguments_anew_compiled(recorder):
    f, x = jit(chain), recorder.from_host(X)
    for factor in (0.1, 0.2, 0.3, 0.4):
        recorder.copy(recorder.pointer(x), recorder.pointer(recorder.from_host(X * factor)), 8192)
        found = recorder.to_host(f(x, factor))
        np.testing.assert_allclose(found, chain(X * factor, factor), rtol=1e-9)
    assert recorder.replayed


def test_memory_that_a_graph_of_the_user_writes_to_is_not_given_to_others(recorder, monkeypatch):
    x = recorder.from_host(X)
    compiled = jit(lambda x: np.sin(x * x.sum()).sum() * x)
    compiled(x)
    before = recorder.memory.used
    compiled(x)
    assert recorder.memory.used == before  # nothing but the result, which is gone
    monkeypatch.setattr(recorder, "capturing", lambda: True)
    compiled(x)
    assert recorder.memory.used > before
