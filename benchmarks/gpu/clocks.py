"""Seconds per call: of the stream, of a graph's replay, and of the host.

`stream` is the time between two events around calls that are issued one after the other, so it is
the larger of what the host and the device need; `graph` replays the same calls from a CUDA graph
and is the device alone. Results are held as long as the set of inputs they came from is not used
again: neither inputs nor results of a call are in a cache. Read next: `systems.py`.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle, islice
from time import perf_counter
from typing import Any

Calls = Sequence[Callable[[], Any]]
Seconds = dict[str, float]

SPEND = 0.25  # seconds for a clock
LONGEST = 0.02  # seconds of one sample
REPEATS = (5, 30)


def times_of(calls: Calls, most: int, once: float) -> int:
    """How many calls a sample has, where one takes `once` seconds."""
    return max(len(calls) if once * len(calls) < LONGEST else 1, min(most, int(LONGEST / once)))


def in_turn(calls: Calls, count: int) -> Callable[[], None]:
    """A function that makes `count` calls, one set of inputs after the other."""
    held: deque[Any] = deque(maxlen=len(calls))

    def run() -> None:
        for call in islice(cycle(calls), count):
            held.append(call())

    return run


def median(sample: Callable[[], float]) -> float:
    """The median of as many samples as there is time for; the first one warms up."""
    first = max(sample(), 1e-9)
    least, most = REPEATS
    return statistics.median(sample() for _ in range(max(least, min(most, int(SPEND / first)))))


def wall(run: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """Seconds until the device is done with what `run` starts."""
    wait()
    start = perf_counter()
    run()
    wait()
    return perf_counter() - start


def by_the_host(calls: Calls, wait: Callable[[], Any], most: int) -> Seconds:
    """Many asynchronous calls, and one wait for all of them."""
    once = wall(calls[0], wait)
    count = times_of(calls, most, once)
    run = in_turn(calls, count)
    return {"stream": median(lambda: wall(run, wait)) / count}


class CupyClock:
    """Events and graphs of CuPy, on its current stream."""

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cuda, self._stream = cupy.cuda, stream

    def __call__(self, calls: Calls, graphs: bool) -> Seconds:
        """The clocks of some calls."""
        once = wall(calls[0], self._stream.synchronize)
        count = times_of(calls, 20, once)
        run = in_turn(calls, count)
        found = {"stream": median(lambda: self._between(run)) / count}
        graph = self._captured(run) if graphs else None
        if graph is not None:
            found["graph"] = median(lambda: self._between(lambda: graph.launch(self._stream)))
            found["graph"] /= count
        return found

    def _between(self, run: Callable[[], Any]) -> float:
        start, end = self._cuda.Event(), self._cuda.Event()
        start.record(self._stream)
        run()
        end.record(self._stream)
        end.synchronize()
        return self._cuda.get_elapsed_time(start, end) * 1e-3

    def _captured(self, run: Callable[[], None]) -> Any:
        """A graph of the calls; None where something in them cannot be captured."""
        self._stream.synchronize()
        self._stream.begin_capture()
        try:
            run()
            graph = self._stream.end_capture()
        except Exception:
            with suppress(Exception):
                self._stream.end_capture()
            return None
        graph.upload(self._stream)
        return graph


class TorchClock:
    """Events and graphs of torch, on a stream of its own."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._stream = torch, torch.cuda.Stream()

    def __call__(self, calls: Calls, graphs: bool) -> Seconds:
        """The clocks of some calls."""
        torch = self._torch
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            once = wall(calls[0], self._stream.synchronize)
            count = times_of(calls, 20, once)
            run = in_turn(calls, count)
            found = {"stream": median(lambda: self._between(run)) / count}
        graph = self._captured(run) if graphs else None
        if graph is not None:
            with torch.cuda.stream(self._stream):
                found["graph"] = median(lambda: self._between(graph.replay)) / count
        torch.cuda.synchronize()
        return found

    def _between(self, run: Callable[[], Any]) -> float:
        event = self._torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record(self._stream)
        run()
        end.record(self._stream)
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def _captured(self, run: Callable[[], None]) -> Any:
        """A graph of the calls; None where something in them cannot be captured."""
        torch = self._torch
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self._stream):
                run()
        except Exception:
            return None
        torch.cuda.synchronize()
        return graph
