"""Elements of small arrays that are counts, bounds, shapes, axes and texts: a change is seen."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace

M = np.arange(24.0).reshape(4, 6)

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "range": lambda x, a: sum(x for _ in range(a[0])),
    "range of all": lambda x, a: sum(x * i for i in range(*a)),
    "islice": lambda x, a: sum(v * x for v in itertools.islice((1.0, 2.0, 4.0), a[0])),
    "itertools.repeat": lambda x, a: sum(itertools.repeat(x, a[0])),
    "product": lambda x, a: len(list(itertools.product((1, 2), repeat=a[0]))) * x,
    "enumerate": lambda x, a: sum(i * x for i, _ in enumerate((1.0, 2.0), a[0])),
    "repeat": lambda x, a: np.repeat(x, a[0]).sum(),
    "repeat each": lambda x, a: np.repeat(np.ones(2) * x, a).sum(),
    "broadcast_to": lambda x, a: np.broadcast_to(x, a).sum(),
    "reshape": lambda x, a: np.reshape(M * x, (a[0], -1))[0].sum(),
    "reshape of a traced array": lambda x, a: (M * x).reshape((a[0], -1))[0].sum(),
    "reshape of an array": lambda x, a: M.reshape((a[0], -1))[0].sum() * x,
    "diagonal": lambda x, a: np.diagonal(M * x, a[0]).sum(),
    "swapaxes": lambda x, a: np.swapaxes(M * x, 0, a[0] - 2).shape[0] * x,
    "zeros_like": lambda x, a: np.zeros_like(M, shape=a).size * x,
    "size": lambda x, a: np.size(M, a[0] - 2) * x,
    "an index in a tuple": lambda x, a: (M * x)[(a[0], 1)],
    "an index and an ellipsis": lambda x, a: (M * x)[..., a[0]].sum(),
    "a key in a tuple": lambda x, a: {(2, 5): 1.0, (3, 5): 2.0}[a[0], 5] * x,
    "str.format": lambda x, a: float("{:.1f}".format(a[0])) * x,  # noqa: UP032
    "str.join": lambda x, a: float("".join([str(a[0])])) * x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_element_that_is_a_setting_is_seen(name: str) -> None:
    a = np.array([2, 5])
    f = ftrace.jit(lambda x: PROGRAMS[name](x, a))
    first = float(f(1.5))
    assert first == PROGRAMS[name](1.5, a)
    a[0] = 3
    assert f(1.5) == PROGRAMS[name](1.5, a) != first


@pytest.mark.parametrize("name", ["sum", "max", "tolist", "__getitem__", "__mul__", "dot", "take"])
def test_a_method_that_was_taken_from_an_array_reads_it(name: str) -> None:
    a = np.array([2.0, 5.0])
    method = getattr(a, name)
    given = {"__getitem__": [0], "__mul__": [3.0], "dot": [np.ones(2)], "take": [[0, 1]]}
    f = ftrace.jit(lambda x: np.sum(method(*given.get(name, []))) * x)
    first = float(f(1.5))
    a[0] = 7.0
    assert f(1.5) == np.sum(method(*given.get(name, []))) * 1.5 != first
