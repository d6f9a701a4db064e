"""Launches that follow each other: their words, when they are a graph, and what goes wrong.

The machine code is the real one; the driver is a stand-in (fake_driver.py).
"""

import gc
import random
import threading
import time
from types import SimpleNamespace

import pytest

from ftrace.gpu.runtime import sequences
from ftrace.gpu.runtime.device_interface import Start
from ftrace.gpu.runtime.sequences import KEPT, DriverError, Launches
from tests.gpu.fake_driver import FakeDriver

STREAM = 77


def told(bases, stream=STREAM, captured=False):
    return SimpleNamespace(addresses=bases, stream=stream, captured=captured)


class Chain:
    """Launches of which each notes its words: a number, where it reads, and where it writes."""

    def __init__(self, count, driver=None):
        self.driver = driver or FakeDriver()
        self.ran = []
        function = self.driver.function(self.ran.append, 3)
        self.starts = [
            Start(function, (i + 1, 2, 3), (32, 1, 1), 8 * i, (0, 16 * i, i), ((0, 3), (1, i % 2)))
            for i in range(count)
        ]
        self.launches = Launches(self.starts, self.driver.entries)

    def wanted(self, bases):
        return [[bases[3], bases[i % 2] + 16 * i, i] for i in range(len(self.starts))]

    def call(self, bases, stream=STREAM, captured=False):
        """Run, and see that every kernel found the words of this call."""
        self.ran.clear()
        self.launches(told(bases, stream, captured))
        assert self.ran == self.wanted(bases)


def test_few_launches_are_started_one_by_one_on_the_stream():
    chain = Chain(2)
    for n in range(5):
        chain.call([1000 * n, 2000, 9, -n])
    assert chain.driver.calls[:2] == [
        ("start", (1, 2, 3), (32, 1, 1), 0, STREAM, [0, 0, 0]),
        ("start", (2, 2, 3), (32, 1, 1), 8, STREAM, [0, 2016, 1]),
    ]
    assert chain.driver.count("start") == len(chain.driver.calls) == 10


def test_more_launches_are_a_graph_from_the_second_call_on():
    chain = Chain(5)
    for _ in range(7):
        chain.call([1000, 2000, 0, 4])
    names = [name for name, *_ in chain.driver.calls]
    assert names == ["start"] * 5 + ["instantiate"] + ["replay"] * 6
    assert chain.driver.calls[-1] == ("replay", STREAM)


def test_a_graph_is_told_what_is_new_and_no_more():
    chain = Chain(4)
    for _ in range(2):
        chain.call([1000, 2000, 0, 4])
    chain.driver.calls.clear()
    chain.call([1000, 3000, 0, 4])
    assert chain.driver.calls == [
        ("update", [4, 3016, 1]),
        ("update", [4, 3048, 3]),
        ("replay", STREAM),
    ]
    chain.driver.calls.clear()
    chain.call([1000, 3000, 5, 4])  # nobody asks for this base
    assert chain.driver.calls == [("replay", STREAM)]


PLACES = {
    "one": lambda n: 0,
    "two by turns": lambda n: n % 2,
    "six by turns": lambda n: n % 6,
    "six at random": lambda n: random.Random(n).randrange(6),
    "always new": lambda n: n,
    "rarely another": lambda n: n // 50 % 3,
}


@pytest.mark.parametrize("places", PLACES)
def test_wherever_results_lie_one_graph_is_made(places):
    chain = Chain(3)
    for n in range(1000):
        chain.call([4096, 512 * PLACES[places](n), 0, n % 7])
    assert chain.driver.count("instantiate") == 1
    assert chain.driver.count("replay") == 999


def test_words_of_64_bits_come_as_they_are():
    seen = []
    driver = FakeDriver()
    words = (-1, 2**63, 2**64 - 1, -(2**63), 2**63 - 1, 0)
    start = Start(driver.function(seen.append, 6), (1, 1, 1), (1, 1, 1), 0, words, ((5, 0),))
    Launches([start], driver.entries)(told([-(2**63)]))
    assert seen == [[-1, -(2**63), -1, -(2**63), 2**63 - 1, -(2**63)]]


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1), (4, 1, 0)])
def test_an_empty_grid_starts_nothing(grid):
    driver = FakeDriver()
    function = driver.function(lambda words: None, 1)
    starts = [Start(function, g, (1, 1, 1), 0, (7,), ()) for g in (grid, (1, 1, 1), grid)]
    Launches(starts, driver.entries)(told([]))
    assert [call[1] for call in driver.calls] == [(1, 1, 1)]
    Launches(starts[:1], driver.entries)(told([]))
    assert len(driver.calls) == 1


def test_in_a_stream_that_is_captured_launches_are_started_one_by_one():
    chain = Chain(3)
    for captured in (True, True, False, False, True):
        chain.call([1, 2, 3, 4], captured=captured)
    names = [name for name, *_ in chain.driver.calls]
    assert names == ["start"] * 9 + ["instantiate", "replay"] + ["start"] * 3


def test_each_stream_has_its_own_graph_up_to_a_number():
    chain = Chain(3)
    for n in range(3):
        for stream in range(KEPT + 3):
            chain.call([stream, n, 0, 4], stream)
    assert chain.driver.count("instantiate") == KEPT
    assert {call[1] for call in chain.driver.calls if call[0] == "replay"} == set(range(KEPT))


def test_very_many_launches_are_no_graph(monkeypatch):
    monkeypatch.setattr(sequences, "LONGEST", 4)
    long, short = Chain(5), Chain(4)
    for _ in range(3):
        long.call([1, 2, 3, 4])
        short.call([1, 2, 3, 4])
    assert (long.driver.count("replay"), short.driver.count("replay")) == (0, 2)


def test_a_graph_goes_with_its_launches():
    chain = Chain(3)
    driver = chain.driver
    for _ in range(3):
        chain.call([1, 2, 3, 4])
    assert len(driver.running) == len(driver.graphs) == 1
    del chain
    gc.collect()
    assert driver.running == driver.graphs == {}


def test_threads_do_not_mix_their_words():
    """Each call of a graph runs with its own words, though the interpreter is left in between."""
    chain = Chain(3)
    for _ in range(2):
        chain.call([0, 0, 0, 0])
    chain.ran.clear()
    update = chain.driver._update

    def slow(*args):
        time.sleep(0.0005)
        update(*args)

    chain.driver._update = slow

    def work(n):
        for k in range(20):
            number = 100 * n + k
            chain.launches(told([number, number, 0, number]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(chain.ran) == 240
    for i in range(0, 240, 3):
        number = chain.ran[i][0]
        assert chain.ran[i : i + 3] == chain.wanted([number, number, 0, number])


# --- what goes wrong


def test_an_error_names_the_launch():
    chain = Chain(2)
    chain.driver.trouble["start"] = [0, 700]
    with pytest.raises(DriverError) as caught:
        chain.launches(told([1, 2, 3, 4]))
    assert (caught.value.status, caught.value.start) == (700, chain.starts[1])
    chain.call([1, 2, 3, 4])


@pytest.mark.parametrize("entry", ["update", "replay"])
def test_where_a_graph_fails_launches_are_started_one_by_one(entry):
    chain = Chain(3)
    for _ in range(2):
        chain.call([1, 2, 3, 4])
    chain.driver.trouble[entry] = [0, 1] if entry == "update" else [1]
    for n in range(3):
        chain.call([n, 9, 3, 5])
    assert chain.driver.calls[-1][0] == "start"


def test_an_error_of_launches_is_told_whatever_the_graph_said():
    chain = Chain(3)
    for _ in range(2):
        chain.call([1, 2, 3, 4])
    chain.driver.trouble.update(replay=[700], start=[700])
    with pytest.raises(DriverError) as caught:
        chain.launches(told([1, 2, 3, 4]))
    assert (caught.value.status, caught.value.start) == (700, chain.starts[0])


@pytest.mark.parametrize("entry", ["create", "add", "instantiate"])
def test_where_no_graph_can_be_made_launches_are_started_one_by_one(entry):
    chain = Chain(3)
    chain.driver.trouble[entry] = [2]
    for n in range(4):
        chain.call([n, 2, 3, 4])
    assert chain.driver.count("start") == 12
    gc.collect()
    assert chain.driver.graphs == {}
