"""What sequences.py uses of the CUDA driver, as functions of Python that C calls.

Functions are Python's, of their words. `calls` is what was asked, in order; `trouble` maps the name
of an entry to the statuses that it answers next. A graph keeps the words that it was told.
"""

import ctypes
from types import SimpleNamespace
from typing import Any

from ftrace.gpu.runtime.sequences import Driver

_P = ctypes.c_void_p
_TYPES: dict[str, list[Any]] = {
    "start": [_P, *[ctypes.c_uint] * 7, _P, _P, _P],
    "update": [_P, _P, _P],
    "replay": [_P, _P],
    "create": [_P, ctypes.c_uint],
    "add": [_P, _P, _P, ctypes.c_size_t, _P],
    "instantiate": [_P, _P, ctypes.c_ulonglong],
    "destroy": [_P],
    "forget": [_P],
}


def _at(address: int, count: int = 1) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def _put(address: int, value: int) -> None:
    ctypes.c_int64.from_address(address).value = value


class FakeDriver:
    """A driver whose streams run at once."""

    def __init__(self, work=lambda stream, step: step()):
        self.calls, self.trouble, self.functions = [], {}, {}
        self.graphs, self.running = {}, {}
        self._work, self._numbers = work, iter(range(16, 1 << 40, 16))
        kinds = {name: ctypes.CFUNCTYPE(ctypes.c_int, *types) for name, types in _TYPES.items()}
        self.entries = Driver(**{n: kinds[n](self._answering(n)) for n in Driver._fields})

    def function(self, python, words):
        """A kernel of so many words."""
        number = next(self._numbers)
        self.functions[number] = python, words
        return SimpleNamespace(ptr=number)

    def count(self, name):
        """How often an entry was called."""
        return sum(call[0] == name for call in self.calls)

    def _answering(self, name):
        def answer(*args):
            if self.trouble.get(name):
                status = self.trouble[name].pop(0)
                if status:
                    return status
            try:
                getattr(self, "_" + name)(*args)
            except AssertionError:
                return 1  # as the driver: an invalid value
            return 0

        return answer

    def _given(self, params):
        """A node's function, grid, block, shared memory, and words."""
        (function,) = _at(params)
        numbers = list((ctypes.c_uint * 7).from_address(params + 8))
        (cell,) = _at(params + 40)
        assert _at(params + 48, 3) == [0, 0, 0]
        return function, numbers, self._words(function, cell)

    def _words(self, function, cells):
        (address,) = _at(cells)
        return _at(address, self.functions[function][1])

    def _start(self, function, *rest):
        *numbers, stream, cells, extra = rest
        assert extra is None
        words = self._words(function, cells)
        grid, block, shared = tuple(numbers[:3]), tuple(numbers[3:6]), numbers[6]
        self.calls.append(("start", grid, block, shared, stream or 0, words))
        self._work(stream or 0, lambda: self.functions[function][0](words))

    def _create(self, graph, flags):
        assert flags == 0
        number = next(self._numbers)
        self.graphs[number] = []
        _put(graph, number)

    def _add(self, node, graph, before, count, params):
        nodes = self.graphs[graph]
        assert (_at(before) if before else []) == [n for n, _ in nodes[-1:]][:count]
        assert count == min(len(nodes), 1)
        number = next(self._numbers)
        nodes.append((number, self._given(params)))
        _put(node, number)

    def _instantiate(self, made, graph, flags):
        assert flags == 0
        number = next(self._numbers)
        self.running[number] = dict(self.graphs[graph])
        self.calls.append(("instantiate",))
        _put(made, number)

    def _destroy(self, graph):
        del self.graphs[graph]

    def _forget(self, running):
        del self.running[running]

    def _update(self, running, node, params):
        given = self._given(params)
        if all(node != n for nodes in self.graphs.values() for n, _ in nodes):
            raise AssertionError("the graph of this node was destroyed")
        assert given[:2] == self.running[running][node][:2]
        assert given[2] != self.running[running][node][2], "the graph knows that"
        self.calls.append(("update", given[2]))
        self.running[running][node] = given

    def _replay(self, running, stream):
        self.calls.append(("replay", stream or 0))
        assert running in self.running
        for function, _, words in list(self.running[running].values()):
            self._work(stream or 0, lambda f=function, w=words: self.functions[f][0](w))
