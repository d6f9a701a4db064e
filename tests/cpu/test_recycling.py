"""Recycled memory: whose it is, when it is used again, how much is kept, what may go wrong."""

import copy
import ctypes
import os
import pickle
import random
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core import config
from ftrace.cpu.runtime import recycling
from ftrace.cpu.runtime.native_launch import compile_program
from ftrace.cpu.runtime.recycling_text import (
    BOUND,
    COUNT,
    HEAD,
    KEPT,
    LIMIT,
    LOCK,
    MOST,
    MOVED,
    PAGE,
    POISON,
    TABLE,
)
from tests.cpu.programs import planned, row

MIB = 1 << 20
LARGE = np.arange(MIB // 8, dtype=np.float64)
BYTES = np.dtype(np.uint8)


@pytest.fixture
def recycler():
    """The one of the process, empty; what is freed is filled with NaN."""
    with ftrace.config.update(recycled_memory=256 * MIB):
        found = recycling._recycler()
        assert found is not None
        assert found.is_on()
        found.release()
        found.state[POISON] = 1
        yield found
        found.state[POISON] = 0
        found.release()


@ftrace.jit
def square(x):
    return x * x + 1.0


def address(array):
    return array.ctypes.data


def block(size):
    """An array of bytes on recycled memory."""
    return recycling.maker((size,), BYTES)()


# --- whose it is


def test_a_large_result_owns_its_memory(recycler):
    y = square(LARGE)
    assert y.base is None
    assert y.flags.owndata
    assert y.flags.writeable
    assert address(y) % 64 == 0
    assert sys.getsizeof(y) == sys.getsizeof(np.empty_like(y))
    assert get_handler_name(y) == "ftrace"
    np.testing.assert_array_equal(y, LARGE * LARGE + 1.0)


def test_only_large_results_are_recycled_and_numpy_allocates_as_before(recycler):
    small, large, sum_ = ftrace.jit(lambda x: (x[:9] * 2.0, x * 2.0, fnp.sum(x)))(LARGE)
    assert get_handler_name(large) == "ftrace"
    assert get_handler_name(small) == get_handler_name() == get_handler_name(np.empty(MIB))
    assert sum_ == LARGE.sum()
    np.testing.assert_array_equal(small, LARGE[:9] * 2.0)
    np.testing.assert_array_equal(large, LARGE * 2.0)
    assert get_handler_name(square(LARGE[:100])) == get_handler_name()


def test_results_that_are_worth_it_only_together_are_recycled_together(recycler):
    x = np.ones(LIMIT // 8)
    names = {
        count: {
            get_handler_name(y) for y in ftrace.jit(lambda x, n=count: [x + k for k in range(n)])(x)
        }
        for count in (3, 4)
    }
    assert names == {3: {"default_allocator"}, 4: {"ftrace"}}
    many = ftrace.jit(lambda x: [x + k for k in range(9)])(x[:-1])
    assert {get_handler_name(y) for y in many} == {"default_allocator"}


def test_what_a_callback_allocates_is_numpys(recycler):
    names = []

    def look(x):
        names.append(get_handler_name(np.empty(x.size)))
        return x * 2.0

    run = compile_program(planned(lambda x: row(look)(x + 1.0) + 1.0, LARGE)[1])
    assert get_handler_name(run([LARGE])[0]) == "ftrace"
    assert names == ["default_allocator"]


@pytest.mark.parametrize("through", [pickle.dumps, copy.copy, copy.deepcopy])
def test_results_are_copied_like_any_array(recycler, through):
    y = square(LARGE)
    want = y.copy()
    made = through(y)
    del y
    again = pickle.loads(made) if isinstance(made, bytes) else made
    np.testing.assert_array_equal(again, want)


def test_results_are_resized_in_place(recycler):
    y = square(LARGE)
    first = y[:1000].copy()
    for size in (LARGE.size + 1, 3 * LARGE.size, LARGE.size // 2, 1000, 2 * LARGE.size):
        y.resize(size, refcheck=False)
        assert get_handler_name(y) == "ftrace"
        np.testing.assert_array_equal(y[:1000], first)
        y[1000:] = 7.0
    del y
    assert recycler.state[KEPT] > 0


# --- when it is used again


def test_memory_is_used_again_when_its_array_is_gone(recycler):
    y = square(LARGE)
    place = address(y)
    view = y[10:20]
    del y
    other = square(LARGE)
    assert address(other) != place  # a view holds it
    np.testing.assert_array_equal(view, LARGE[10:20] ** 2 + 1.0)
    del view
    assert recycler.state[KEPT] > MIB
    assert address(square(LARGE)) == place
    del other


def test_what_was_freed_last_is_used_first(recycler):
    a, b = square(LARGE), square(LARGE)
    first, second = address(a), address(b)
    del b
    del a
    again = [square(LARGE), square(LARGE)]
    assert [address(y) for y in again] == [first, second]


def test_a_block_is_used_for_what_wastes_little_of_it(recycler):
    length = 1 << 20
    place = address(block(length - HEAD))
    smallest = length * 8 // 9 // PAGE * PAGE + PAGE  # 1/8 of it is just as long as the rest
    assert address(block(smallest - HEAD)) == place
    assert address(block(length - HEAD)) == place
    too_small = block(smallest - PAGE - HEAD)
    assert address(too_small) != place
    too_large = block(length)
    assert address(too_large) != place


def test_the_block_that_fits_best_is_taken(recycler):
    sizes = [MIB + k * PAGE - HEAD for k in (3, 1, 0, 2, 1)]
    blocks = [block(n) for n in sizes]
    places = [address(b) for b in blocks]
    del blocks
    again = [block(n) for n in sorted(sizes)]
    assert [address(b) for b in again] == [places[k] for k in (2, 1, 4, 3, 0)]


def test_of_blocks_that_fit_equally_the_last_is_taken(recycler):
    older, newer = block(MIB), block(MIB)
    place = address(newer)
    del older
    del newer
    assert address(block(MIB - 2 * PAGE)) == place


def test_poison_reaches_what_is_freed_and_the_allocator_clears_for_calloc(recycler):
    y = square(LARGE)
    y[:] = 1.0
    del y
    assert np.isnan(recycling.maker(LARGE.shape, LARGE.dtype)()).all()
    before = recycler.exchange(recycler.handler)
    try:
        zeros = np.zeros(LARGE.size)
    finally:
        recycler.exchange(before)
    assert get_handler_name(zeros) == "ftrace"
    assert not zeros.any()


def test_living_results_never_share_memory(recycler):
    """Threads keep results for random times; each must still be what it was when it goes."""
    programs = [ftrace.jit(lambda x: (x + 1.0, fnp.sin(x), x * 2.0)) for _ in range(2)]
    sizes = [LIMIT // 8 * k for k in (2, 3, 4, 5, 16)]
    wrong, moved = [], []

    def work(seed):
        chance, held = random.Random(seed), []
        for turn in range(150):
            x = np.full(chance.choice(sizes), seed * 1000.0 + turn)
            for y, want in zip(
                programs[turn % 2](x), (x[0] + 1, np.sin(x[0]), x[0] * 2), strict=True
            ):
                held.append((y, want))
            while len(held) > chance.randrange(12):
                y, want = held.pop(chance.randrange(len(held)))
                if not np.allclose(y, want, rtol=1e-12):
                    wrong.append((seed, turn))
                if chance.random() < 0.2:
                    moved.append(y)  # another thread's to free
                if len(moved) > 8:
                    moved.pop(0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert recycler.state[KEPT] <= recycler.state[BOUND]


def test_threads_without_the_gil_share_the_allocator(recycler):
    """The allocator alone, called from four threads at once; each stamps what it holds."""
    malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    take, put = malloc(recycler._struct.malloc), free(recycler._struct.free)
    recycler.state[POISON] = 0  # filling would take most of the time
    wrong = []

    def work(seed):
        chance, held = random.Random(seed), []
        for _ in range(4000):
            place = take(recycler.state, LIMIT + chance.randrange(4) * LIMIT)
            stamp = ctypes.c_int64.from_address(place)
            stamp.value = seed
            held.append((place, stamp))
            if len(held) > chance.randrange(8):
                place, stamp = held.pop(chance.randrange(len(held)))
                if stamp.value != seed:
                    wrong.append(seed)
                put(recycler.state, place, 0)
        for place, _ in held:
            put(recycler.state, place, 0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    entries = [tuple(recycler.state[TABLE + 2 * k : TABLE + 2 * k + 2]) for k in range(MOST)]
    lengths = [n for _, n in entries[: recycler.state[COUNT]]]
    assert sum(lengths) == recycler.state[KEPT]
    assert len({start for start, _ in entries[: recycler.state[COUNT]]}) == len(lengths)


# --- how much is kept


def resident():
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_at_most_so_many_bytes_are_kept_and_the_oldest_go_first(recycler):
    with ftrace.config.update(recycled_memory=4 * MIB):
        blocks = [block(MIB - HEAD) for _ in range(6)]
        places = [address(b) for b in blocks]
        while blocks:
            blocks.pop(0)
        assert recycler.state[KEPT] == 4 * MIB
        again = [block(MIB - HEAD) for _ in range(4)]
        assert [address(b) for b in again] == places[:1:-1]
        assert recycler.state[KEPT] == 0


def test_a_lower_bound_gives_back_at_once_and_zero_turns_recycling_off(recycler):
    blocks = [block(MIB - HEAD) for _ in range(6)]
    del blocks
    with ftrace.config.update(recycled_memory=2 * MIB):
        square(LARGE)
        assert recycler.state[KEPT] <= 2 * MIB
    with ftrace.config.update(recycled_memory=0):
        y = square(LARGE)
        assert get_handler_name(y) == get_handler_name()
        assert recycler.state[KEPT] == 0
    assert get_handler_name(square(LARGE)) == "ftrace"


def test_few_blocks_are_kept(recycler):
    blocks = [block(LIMIT * 4) for _ in range(MOST + 5)]
    last = [address(b) for b in blocks[-MOST:]]
    while blocks:
        blocks.pop(0)
    assert recycler.state[COUNT] == MOST
    again = [block(LIMIT * 4) for _ in range(MOST)]
    assert sorted(map(address, again)) == sorted(last)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_what_is_above_the_bound_goes_back_to_the_system(recycler):
    with ftrace.config.update(recycled_memory=16 * MIB):
        before = resident()
        y = block(200 * MIB)
        y[:] = 1
        assert resident() > before + 150 * MIB
        del y
        assert recycler.state[KEPT] == 0
        assert resident() < before + 50 * MIB


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_growing_sizes_do_not_pile_up(recycler):
    recycler.state[POISON] = 0
    with ftrace.config.update(recycled_memory=16 * MIB):
        x = np.ones(10 * MIB // 8)
        square(x)
        before = resident()
        for k in range(40):
            y = block(4 * MIB + k * 131072)
            y[:] = 1
            assert recycler.state[KEPT] <= 16 * MIB
        assert resident() < before + 60 * MIB


def test_release_memory_gives_everything_back(recycler):
    y, z = square(LARGE), square(LARGE)
    del y
    kept = recycler.state[KEPT]
    assert kept >= MIB
    assert ftrace.release_memory() == kept
    assert (recycler.state[KEPT], recycler.state[COUNT]) == (0, 0)
    assert ftrace.release_memory() == 0
    np.testing.assert_array_equal(z, LARGE * LARGE + 1.0)


def test_tracemalloc_sees_results_while_they_live(recycler):
    square(LARGE)
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        y = square(LARGE)
        assert MIB <= tracemalloc.get_traced_memory()[0] - base < MIB + 10_000
        del y
        assert tracemalloc.get_traced_memory()[0] - base < 10_000
    finally:
        tracemalloc.stop()


# --- arenas and tapes


def test_scratch_memory_is_recycled(recycler):
    f = ftrace.jit(lambda x: fnp.sum(fnp.sort(fnp.sin(x))[::2]))
    f(LARGE)
    kept = recycler.state[KEPT]
    assert kept >= MIB
    f(LARGE)
    assert recycler.state[KEPT] == kept


@ftrace.jit
@ftrace.grad
def turned(x):
    return fnp.sum(
        lax.while_loop(lambda s: s[0] < 50, lambda s: (s[0] + 1, fnp.sin(s[1])), (0, x))[1]
    )


def test_tapes_are_recycled_and_small_ones_are_the_c_librarys(recycler):
    want = np.ones(3)
    x = np.array([0.5, 1.0, 2.0])
    for _ in range(50):
        want, x = want * np.cos(x), np.sin(x)
    np.testing.assert_allclose(turned(np.array([0.5, 1.0, 2.0])), want, rtol=1e-12)
    assert recycler.state[KEPT] == 0
    long = turned(np.tile([0.5, 1.0, 2.0], 4000))
    np.testing.assert_allclose(long, np.tile(want, 4000), rtol=1e-12)
    kept = recycler.state[KEPT]
    assert kept > 50 * 12000 * 8
    again = turned(np.tile([0.5, 1.0, 2.0], 4000))
    np.testing.assert_array_equal(again, long)
    assert recycler.state[KEPT] == kept


# --- what may go wrong


def test_an_exception_in_a_callback_loses_no_memory(recycler):
    def refuse(x):
        if x[0] < 0:
            raise KeyError("negative")
        return x * 2.0

    run = compile_program(planned(lambda x: (row(refuse)(x + 1.0), x * 3.0), LARGE)[1])
    run([LARGE])
    kept = recycler.state[KEPT]
    for _ in range(20):
        with pytest.raises(KeyError, match="negative"):
            run([LARGE - 10.0])
    assert get_handler_name() == "default_allocator"
    run([LARGE])
    assert recycler.state[KEPT] == kept


def test_too_much_is_a_memory_error_and_what_is_kept_goes_first(recycler):
    square(LARGE)
    assert recycler.state[KEPT]
    with pytest.raises(MemoryError, match="Unable to allocate"):
        block(1 << 60)
    assert recycler.state[KEPT] == 0
    assert get_handler_name() == "default_allocator"
    assert get_handler_name(square(LARGE)) == "ftrace"


def test_impossible_requests_give_no_memory(recycler):
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 1, *[ctypes.c_size_t] * 2)
    calloc = kind(recycler._struct.calloc)
    assert calloc(recycler.state, 1 << 33, 1 << 33) is None
    place = calloc(recycler.state, 3, 5)
    assert ctypes.string_at(place, 15) == bytes(15)
    free = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_size_t)(recycler._struct.free)
    free(recycler.state, place, 15)
    free(recycler.state, None, 0)
    again = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 2, ctypes.c_size_t)
    realloc = again(recycler._struct.realloc)
    place = realloc(recycler.state, None, MIB)
    assert realloc(recycler.state, place, 1 << 62) is None  # the old one is as it was
    assert realloc(recycler.state, place, MIB - 1000) == place
    free(recycler.state, place, 0)
    assert recycler.state[KEPT] == MIB + PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="no mremap")
def test_what_is_too_large_to_be_kept_grows_without_a_copy(recycler):
    with ftrace.config.update(recycled_memory=2 * MIB):
        y = block(MIB)
        y[:] = np.arange(MIB) % 251
        want = y.copy()
        before = resident()
        for size in (3 * MIB, 64 * MIB, 256 * MIB):
            y.resize(size, refcheck=False)
            np.testing.assert_array_equal(y[:MIB], want)
            assert recycler.state[KEPT] == 0
        y.resize(5 * MIB, refcheck=False)
        np.testing.assert_array_equal(y[:MIB], want)
        assert resident() < before + 16 * MIB
        y.resize(MIB, refcheck=False)
        np.testing.assert_array_equal(y, want)


def test_what_was_moved_to_grow_is_not_kept(recycler):
    y = block(MOVED // 2)
    y.resize(MOVED // 2 + MIB * 8, refcheck=False)
    kept = recycler.state[KEPT]
    assert kept > MOVED // 2  # it was copied, and what it left waits
    y.resize(MOVED + MIB, refcheck=False)
    assert recycler.state[KEPT] == kept
    del y
    assert recycler.state[KEPT] == kept
    z = block(MOVED * 2)
    del z
    assert recycler.state[KEPT] > kept + MOVED * 2


def test_results_are_resized_after_recycling_was_turned_off(recycler):
    y, z = square(LARGE), square(LARGE)
    want = y[:100].copy()
    with ftrace.config.update(recycled_memory=0):
        square(LARGE)
        y.resize(100, refcheck=False)
        np.testing.assert_array_equal(y, want)
        z.resize(3 * LARGE.size, refcheck=False)
        np.testing.assert_array_equal(z[: LARGE.size], LARGE * LARGE + 1.0)
        z.resize(100, refcheck=False)
        np.testing.assert_array_equal(z, want)
        del y, z
        assert recycler.state[KEPT] == 0


def test_without_moving_pages_memory_is_copied(monkeypatch):
    monkeypatch.setattr(sys, "platform", "elsewhere")
    with ftrace.config.update(recycled_memory=2 * MIB):
        other = recycling.Recycler()
        assert other.is_on()
        monkeypatch.setattr(recycling, "_recycler", lambda: other)
        assert "mremap" not in recycling.allocator_text()
        y = block(MIB)
        y[:] = 7
        y.resize(5 * MIB, refcheck=False)
        assert (y[:MIB] == 7).all()
        assert not y[MIB:].any()


@pytest.mark.parametrize("missing", [AttributeError, ImportError, OSError])
def test_where_something_is_missing_numpy_allocates(recycler, monkeypatch, missing):
    def gone():
        raise missing

    monkeypatch.setattr(recycling, "_exchange", gone)
    assert recycling._recycler.__wrapped__() is None
    monkeypatch.setattr(recycling, "_recycler", recycling._recycler.__wrapped__)
    y = square(LARGE)
    assert get_handler_name(y) == get_handler_name()
    np.testing.assert_array_equal(y, LARGE * LARGE + 1.0)
    assert recycling.tape_functions() is None


def test_another_abi_of_numpy_is_not_touched(monkeypatch):
    monkeypatch.setattr(recycling, "ABI", 3)
    with pytest.raises(AttributeError, match="ABI 0x2"):
        recycling._exchange()


def test_a_containers_limit_counts(monkeypatch, tmp_path):
    whole = recycling.machine_memory()
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text(f"{64 * MIB}\n")
    absent, free = str(tmp_path / "absent"), str(tmp_path / "max")
    monkeypatch.setattr(recycling, "CGROUPS", (absent, free))
    assert recycling.machine_memory() >= whole
    monkeypatch.setattr(recycling, "CGROUPS", (absent, free, str(tmp_path / "limit")))
    assert recycling.machine_memory() == 64 * MIB


def test_the_setting_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("FTRACE_RECYCLED_MEMORY", "12345")
    assert config._from_environment().recycled_memory == 12345
    monkeypatch.setenv("FTRACE_RECYCLED_MEMORY", "1 GB")
    with pytest.raises(
        ValueError, match="FTRACE_RECYCLED_MEMORY is '1 GB'; it must be a whole number"
    ):
        config._from_environment()


def test_a_fork_in_the_middle_of_an_allocation_loses_what_was_kept(recycler):
    square(LARGE)
    kept = tuple(recycler.state[: TABLE + 2])
    recycler._forked()
    assert tuple(recycler.state[: TABLE + 2]) == kept
    recycler.state[LOCK] = 1
    recycler._forked()
    assert recycler.state[LOCK] == recycler.state[KEPT] == recycler.state[COUNT] == 0
    np.testing.assert_array_equal(square(LARGE), LARGE * LARGE + 1.0)
