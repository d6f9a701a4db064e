"""Tapes of tapes in a program's memory: what a window leaves, and the type of what is handed on."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ftrace.core.avals import aval
from ftrace.core.tapes import Ragged
from ftrace.gpu.runtime.device_memory import Memory


def memory(*shapes: tuple[Any, ...]) -> Memory:
    slots: Any = [SimpleNamespace(aval=aval(s, np.dtype("f8"))) for s in shapes]
    device: Any = SimpleNamespace(pointer=lambda x: x.ctypes.data)
    return Memory(device, slots, [0] * len(slots))


def test_a_tape_stays_in_its_tape_without_the_room_that_it_did_not_need() -> None:
    m = memory((2, 7), (7,))
    m.arrays[0] = [None, None]
    m.put(1, np.arange(7.0))
    m.lengths[1] = 3
    m.leave(1, 0, 1)
    assert m.arrays[0][0] is None
    np.testing.assert_array_equal(m.arrays[0][1], [0.0, 1.0, 2.0])


def test_a_tape_of_tapes_has_the_type_of_its_slot() -> None:
    m = memory((2, 7, 4))
    m.take(0, Ragged([np.zeros((1, 4)), np.zeros((3, 4))], aval((7, 4), np.dtype("f8"))))
    assert m.tape(0).aval == aval((2, 7, 4), np.dtype("f8"))
