"""Whose memory a call uses, and what a graph reads anew.

The device's memory is a pool as CuPy's is: what is free again is given to the next that asks for
as much, the last one first. So calls find everything in the places of an earlier one. Launches are
the real ones over a stand-in for the driver, in which kernels run on the host.
"""

import ctypes
import gc
import weakref
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from ftrace import jit
from ftrace import numpy as fnp
from ftrace.gpu.runtime.sequences import Launches
from tests.gpu import plans
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.emulation.memory import Block, Memory
from tests.gpu.fake_driver import FakeDriver

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


class Driven(HostDevice):
    """A device whose sequences are launches and graphs of a driver."""

    stream = 5, False

    def __init__(self) -> None:
        super().__init__(schedules=["forwards"])
        self.memory = Pool()
        self.cuda = FakeDriver()

    def order(self):
        return self.stream

    def sequence(self, starts):
        known = [self._known(s) for s in starts]
        return Launches(known, self.cuda.entries)

    def _known(self, start):
        dims = (ctypes.c_uint * 6)(*start.grid, *start.block)

        def kernel(words):
            block = (ctypes.c_longlong * len(words))(*words)
            self._run(start.function, dims, start.shared, block)

        function = self.cuda.function(kernel, len(start.words))
        return type(start)(
            function, start.grid, start.block, start.shared, start.words, start.moving
        )


@pytest.fixture
def driven(emulation) -> Iterator[Driven]:
    with selected(Driven()) as device:
        yield device


def chain(x, factor=0.0005):
    for _ in range(4):
        x = x - factor * x.sum()
    return x


def test_calls_are_one_graph_compiled(driven):
    f, x = jit(chain), driven.from_host(X)
    for _ in range(6):
        np.testing.assert_allclose(driven.to_host(f(x)), chain(X), rtol=1e-12)
    assert (driven.cuda.count("instantiate"), driven.cuda.count("replay")) == (1, 5)


def test_a_loop_over_calls_is_one_graph_compiled(driven):
    f, x, expected = jit(chain), driven.from_host(X), X
    for _ in range(10):
        x, expected = f(x), chain(expected)
        np.testing.assert_allclose(driven.to_host(x), expected, rtol=1e-12)
    assert (driven.cuda.count("instantiate"), driven.cuda.count("replay")) == (1, 9)


def test_results_that_are_kept_are_never_written_again_compiled(driven):
    f = jit(chain)
    arguments = [driven.from_host(X + n) for n in range(3)]
    kept = []
    for turn in range(4):
        for n, x in enumerate(arguments):
            found = f(x)
            if turn % 2:
                kept.append((n, found))
            del found
    assert driven.cuda.count("instantiate") == 1
    for n, found in kept:
        np.testing.assert_allclose(driven.to_host(found), chain(X + n), rtol=1e-12)


def test_a_graph_holds_no_memory_compiled(driven):
    f, x = jit(chain), driven.from_host(X)
    f(x)
    gc.collect()
    before = driven.memory.used
    for _ in range(4):
        f(x)
    gc.collect()
    assert driven.cuda.count("replay") == 4
    assert driven.memory.used == before


def test_a_graph_reads_numbers_and_arguments_anew_compiled(driven):
    f, x = jit(chain), driven.from_host(X)
    for factor in (0.1, 0.2, 0.3, 0.4):
        driven.copy(driven.pointer(x), driven.pointer(driven.from_host(X * factor)), 8192)
        found = driven.to_host(f(x, factor))
        np.testing.assert_allclose(found, chain(X * factor, factor), rtol=1e-9)
    assert (driven.cuda.count("instantiate"), driven.cuda.count("replay")) == (1, 3)


def test_launches_between_rows_of_python_are_graphs_too_compiled(driven):
    f, x = jit(lambda x, a: chain(np.sort(chain(x, a)), a)), driven.from_host(X)
    for factor in (0.1, 0.2, 0.3, 0.4):
        found = driven.to_host(f(x, factor))
        np.testing.assert_allclose(found, chain(np.sort(chain(X, factor)), factor), rtol=1e-9)
    assert (driven.cuda.count("instantiate"), driven.cuda.count("replay")) == (2, 6)


def test_memory_that_a_graph_of_the_user_writes_to_is_not_given_to_others(driven):
    x = driven.from_host(X)
    compiled = jit(lambda x: np.sin(x * x.sum()).sum() * x)
    compiled(x)
    before = driven.memory.used
    compiled(x)
    assert driven.memory.used == before  # nothing but the result, which is gone
    driven.stream = 5, True
    compiled(x)
    assert driven.memory.used > before


def test_a_captured_call_has_the_numbers_of_the_capture(driven):
    f, x = jit(chain), driven.from_host(X)
    f(x, 0.1)
    f(x, 0.2)
    driven.stream = 5, True
    driven.cuda.calls.clear()
    np.testing.assert_allclose(driven.to_host(f(x, 0.3)), chain(X, 0.3), rtol=1e-9)
    assert {name for name, *_ in driven.cuda.calls} == {"start"}


def numbered(x):
    for i in range(40):
        x = x / x.sum() * (0.5 + i) + 0.25 * i
    return x


def test_other_streams_find_the_constants_of_a_program(driven, monkeypatch):
    """They are there before the first call returns, whose stream sent them."""
    waits = []
    monkeypatch.setattr(driven, "synchronize", lambda: waits.append(1))
    x, f, g = driven.from_host(X), jit(numbered), jit(chain)
    assert plans.planned(numbered, plans.array(1024, dtype="f8")).constants
    for _ in range(3):
        np.testing.assert_allclose(driven.to_host(f(x)), numbered(X), rtol=1e-12)
        g(x)
    assert waits == [1]


def test_sums_at_places_and_running_sums_are_part_of_a_graph_compiled(driven):
    i = np.random.default_rng(0).integers(0, 9, 1024)

    def f(x, i, a):
        sums = fnp.at(fnp.zeros(9))[i].add(x * a, mode="clip")
        return fnp.cumsum(sums)[i] * a, fnp.cumsum(x * a)

    def expected(a):
        sums = np.zeros(9)
        np.add.at(sums, i, X * a)
        return np.cumsum(sums)[i] * a, np.cumsum(X * a)

    compiled, x, places = jit(f), driven.from_host(X), driven.from_host(i)
    for a in (0.5, 1.5, -2.0):
        for found, wanted in zip(compiled(x, places, a), expected(a), strict=True):
            np.testing.assert_allclose(driven.to_host(found), wanted, rtol=1e-12)
    assert (driven.cuda.count("instantiate"), driven.cuda.count("replay")) == (1, 2)
