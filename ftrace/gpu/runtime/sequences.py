"""Launches that follow each other, started by one call: directly, or as a graph.

Where everything lies differs from call to call: the words of a launch are numbers, or the distance
from one of the *bases* that a call gives. Some launches are started one by one in machine code
(launch_loop.py). More are a graph, made at the second call on a stream. A graph is told the words
that are others than at its last start, so it follows its arguments and results wherever they lie,
and numbers are words like any other; it owns no memory. CUDA orders the starts of one graph, so
each stream has its own. A graph cannot be started in a stream that is captured: there the launches
become part of the user's graph, one by one.
"""

import ctypes
import itertools
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from threading import RLock
from typing import Any, Final, NamedTuple
from weakref import finalize

import numpy as np

from ftrace.gpu.runtime import launch_loop as loop
from ftrace.gpu.runtime.device_interface import DeviceCall, Start

GRAPH: Final = 3  # launches from which a graph is quicker
LONGEST: Final = 4096  # launches of a graph
KEPT: Final = 4  # graphs of a sequence, one for a stream
_WORD: Final = 1 << 64


class Driver(NamedTuple):
    """Entry points of the CUDA driver, as functions of ctypes; each answers 0, or an error."""

    start: Any
    update: Any
    replay: Any
    create: Any
    add: Any
    instantiate: Any
    destroy: Any
    forget: Any


@cache
def driver() -> Driver:
    """The entry points of this machine's driver."""
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    return Driver(
        library.cuLaunchKernel,
        library.cuGraphExecKernelNodeSetParams_v2,
        library.cuGraphLaunch,
        library.cuGraphCreate,
        library.cuGraphAddKernelNode_v2,
        library.cuGraphInstantiateWithFlags,
        library.cuGraphDestroy,
        library.cuGraphExecDestroy,
    )


class DriverError(Exception):
    """A status of the driver, and the launch that it is about."""

    def __init__(self, status: int, start: Start) -> None:
        super().__init__(status)
        self.status = status
        self.start = start


class Launches:
    """Launches in order.

    Args:
        starts: what is launched; functions have their address as `ptr`.
        entries: of the driver.
        error: makes the error to raise from a status and the launch that it is about.
    """

    def __init__(
        self,
        starts: Sequence[Start],
        entries: Driver,
        error: Callable[[int, Start], Exception] = DriverError,
    ) -> None:
        self.starts = starts = [s for s in starts if 0 not in s.grid]  # they would run one block
        used = sorted({base for s in starts for _, base in s.moving})
        number = {base: i for i, base in enumerate(used)}
        firsts = [0, *itertools.accumulate(len(s.words) for s in starts)]
        self.words = np.array([_signed(w) for s in starts for w in s.words], np.int64)
        self.firsts = np.array(firsts[:-1], np.int64)
        self.moving = np.array(
            [
                (first + at, number[base], _signed(s.words[at]))
                for first, s in zip(firsts, starts, strict=False)
                for at, base in s.moving
            ],
            np.int64,
        ).reshape(-1, 3)
        ends = itertools.accumulate(len(s.moving) for s in starts)
        self.ends = np.array(list(ends), np.int64)
        self.params = np.zeros((len(starts), loop.PARAM), np.int64)
        for param, s in zip(self.params, starts, strict=True):
            param[0] = s.function.ptr
            param[1:5].view(np.uint32)[:7] = (*s.grid, *s.block, s.shared)
        self._functions = [s.function for s in starts]  # their modules must stay
        self.driver = entries
        self._error = error
        self._pick = _picking(used)
        self._pack = struct.Struct(f"{len(used)}q").pack
        self._run = loop.run()
        self._lock = RLock()
        self._direct = _State(self)
        self._graphs: dict[int, LaunchGraph | None] | None = (
            {} if GRAPH <= len(starts) <= LONGEST else None
        )

    def __call__(self, call: DeviceCall) -> None:
        """Start them.

        Raises:
            DriverError: the driver refused; or what `error` makes.
        """
        given = self._pack(*self._pick(call.addresses))
        with self._lock:
            if (
                self._graphs is not None
                and not call.captured
                and self._replayed(self._graphs, given, call.stream)
            ):
                return
            status = self._run(self._direct.address, given, call.stream)
        if status:
            raise self._error(status & 0xFFFFFFFF, self.starts[status >> 32])

    def _replayed(self, graphs: dict[int, "LaunchGraph | None"], given: bytes, stream: int) -> bool:
        """Whether they ran as a graph, which is made at the second call on a stream."""
        graph = graphs.get(stream)
        if graph is None:
            if stream not in graphs:
                if len(graphs) < KEPT:
                    graphs[stream] = None
                return False
            graph = graphs[stream] = LaunchGraph(self)
            graph.record(given)
        if not graph.made or self._run(graph.address, given, stream):
            self._graphs = None  # if more is wrong than graphs, launches will tell
            return False
        return True


class _State:
    """The words of launches, and the table by which `launch_loop.run` knows them."""

    def __init__(self, of: Launches) -> None:
        self._of = of
        self._words = of.words.copy()
        self._cells = self._words.ctypes.data + 8 * of.firsts  # one argument each
        self._params = of.params.copy()
        self._params[:, 5] = self._cells.ctypes.data + 8 * np.arange(len(of.starts))
        self._nodes = np.zeros(len(of.starts), np.int64)
        arrays = (of.ends, of.moving, self._words, self._params, self._nodes)
        entries = (of.driver.start, of.driver.update, of.driver.replay)
        addresses = (ctypes.cast(entry, ctypes.c_void_p).value or 0 for entry in entries)
        numbers = (len(of.starts), *(a.ctypes.data for a in arrays), 0, *addresses)
        self._table = np.array(numbers, np.int64)
        assert len(self._table) == loop.STATE
        self.address = self._table.ctypes.data


class LaunchGraph(_State):
    """Launches that are started together.

    Attributes:
        made: whether there is a graph to start.
    """

    def record(self, given: bytes) -> None:
        """Make the graph, with the words of a call."""
        driver, moving = self._of.driver, self._of.moving
        self._words[moving[:, 0]] = np.frombuffer(given, np.int64)[moving[:, 1]] + moving[:, 2]
        graph, made = ctypes.c_void_p(), ctypes.c_void_p()
        status = driver.create(ctypes.byref(graph), 0)
        if status:
            return
        finalize(self, driver.destroy, graph).atexit = False  # as long as its nodes have names
        nodes, params = self._nodes.ctypes.data, self._params.ctypes.data
        for i in range(len(self._nodes)):
            before = ctypes.c_void_p(nodes + 8 * (i - 1)) if i else None
            node = ctypes.c_void_p(nodes + 8 * i)
            param = ctypes.c_void_p(params + 8 * loop.PARAM * i)
            status = status or driver.add(node, graph, before, ctypes.c_size_t(min(i, 1)), param)
        flags = ctypes.c_ulonglong(0)
        if not status and not driver.instantiate(ctypes.byref(made), graph, flags):
            finalize(self, driver.forget, made).atexit = False
            self._table[loop.GRAPH] = made.value or 0

    @property
    def made(self) -> bool:
        return bool(self._table[loop.GRAPH])


def _signed(word: int) -> int:
    """A word as the signed number of the same bits."""
    return (int(word) + _WORD // 2) % _WORD - _WORD // 2


def _picking(used: Sequence[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """A function that picks some of a sequence's elements."""
    if len(used) > 1:
        return itemgetter(*used)
    return lambda bases: [bases[i] for i in used]
