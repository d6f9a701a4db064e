"""Containers of the user's own classes, whose methods ask Python's, and what shows a dict."""

from collections import deque

import pytest

from ftrace import grad, jit, vectorize

BEFORE, AFTER = 2.0, 5.0


class Doubled(list):
    def __getitem__(self, i):
        return super().__getitem__(i) * 2


class DoubledByName(list):
    def __getitem__(self, i):
        return list.__getitem__(self, i) * 2


class DoubledWhenIterated(list):
    def __iter__(self):
        return (v * 2 for v in super().__iter__())


class DoubledDict(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 2


class DoubledDeque(deque):
    def __getitem__(self, i):
        return super().__getitem__(i) * 2


PROGRAMS = {
    "item": (Doubled, lambda h, x: x * h[0]),
    "item by the class": (DoubledByName, lambda h, x: x * h[0]),
    "iteration": (DoubledWhenIterated, lambda h, x: x * sum(h)),
    "length": (Doubled, lambda h, x: x * h[len(h) - 1]),
    "dict": (lambda given: DoubledDict({0: given[0]}), lambda h, x: x * h[0]),
    "deque": (DoubledDeque, lambda h, x: x * h[0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("transform", [jit, vectorize, lambda f: jit(grad(f))])
def test_a_changed_item_is_seen(name, transform):
    make, read = PROGRAMS[name]
    held = make([BEFORE])
    found = transform(lambda x: read(held, x))
    found(1.0)
    held[0] = AFTER
    assert found(1.0) == 2 * AFTER


@pytest.mark.parametrize("show", [dict.keys, dict.values, dict.items])
def test_what_shows_a_dict_shows_its_changes(show):
    held = {1.0: 2.0}
    shown = show(held)

    def total(x):
        for part in shown:
            x = x + sum(part if isinstance(part, tuple) else (part,))
        return x

    found = jit(total)
    found(0.0)
    held[3.0] = 4.0
    assert found(0.0) == total(0.0)


def test_a_container_that_fills_itself_is_traced_twice():
    class Filling(dict):
        def __getitem__(self, key):
            if key not in self:
                self[key] = 3.0
            return super().__getitem__(key)

    held, traced = Filling(), []

    def read(x):
        traced.append(x)
        return x * held[0]

    found = jit(read)
    assert [found(1.0) for _ in range(4)] == [3.0] * 4
    assert len(traced) == 2
