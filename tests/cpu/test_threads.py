"""Loops that threads share: the same bits for any number of threads, and who is asked to help."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.errors import ConfigError
from ftrace.cpu.emit.thread_regions import ALIGN, FIRST, FUNCTION, SHARE, STOP, THREADS, WORDS
from ftrace.cpu.threads import thread_pool
from ftrace.cpu.threads.thread_pool_text import (
    LAST,
    NEXT,
    NUMBER,
    OWNER,
    WORKERS,
)
from ftrace.lowering.planning import thread_sharing

N = 200_003
rng = np.random.default_rng(5)
X = rng.normal(size=N)
WITH_NAN = X.copy()
WITH_NAN[[17, 150_000]] = np.nan
TALL = rng.normal(size=(40_001, 7))
WIDE = rng.normal(size=(23, 30_011))
ROWS = rng.normal(size=(4001, 257))


def root(a):
    """Newton's square root, of which elements take different numbers of iterations."""
    return lax.while_loop(lambda s: abs(s * s - a) > 1e-12 * a, lambda s: 0.5 * (s + a / s), a)


def softmax(x):
    shifted = fnp.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def steps(x):
    return lax.scan(lambda c, _: (fnp.sin(c) + 0.1 * x, c.sum()), x, None, length=5)


PROGRAMS = {
    "elementwise": (lambda x: fnp.sin(x) * fnp.exp(-x * x) + fnp.tanh(x), X),
    "float32": (lambda x: fnp.sin(x) * fnp.exp(-x * x), X.astype("f4")),
    "complex": (lambda x: fnp.exp(x) * x.conj(), X[::2] + 1j * X[: (N + 1) // 2]),
    "a function of NumPy's": (fnp.sqrt, X + 0.5j),
    "one that is turned over": (lambda x: fnp.sqrt(x[::-3] * 1j), X),
    "transforms of rows": (fnp.fft.fft, ROWS),
    "transforms of columns": (lambda x: fnp.fft.rfft(x, axis=0), ROWS),
    "transforms of few": (fnp.fft.rfft, WIDE[:3]),
    "several results": (lambda x: (fnp.cos(x), fnp.log1p(x * x), x > 0), X),
    "sum": (lambda x: fnp.exp(x).sum(), X),
    "sum of float32": (lambda x: fnp.exp(x).sum(), X.astype("f4")),
    "sum of float16": (lambda x: fnp.exp(x).sum(), X.astype("f2")),
    "mean and variance": (lambda x: (fnp.exp(x).mean(), fnp.exp(x).var()), X),
    "sum that reaches infinity": (lambda x: fnp.exp(900 * x).sum(), X),
    "extremes": (lambda x: (fnp.sin(x).max(), fnp.sin(x).min()), X),
    "extremes with NaN": (lambda x: (fnp.sin(x).max(), fnp.sin(x).min()), WITH_NAN),
    "places of extremes": (lambda x: (fnp.sin(x).argmax(), fnp.cos(x).argmin()), WITH_NAN),
    "sums of integers": (lambda x: (fnp.sin(x) * 1e6).astype("i8").sum(), X),
    "whether": (lambda x: ((fnp.sin(x) > 2).any(), (fnp.exp(x) > 0).all()), X),
    "a sum and an extreme": (lambda x: fnp.exp(x).sum() + fnp.sin(x).max(), X),
    "one loop after another": (softmax, X),
    "rows": (softmax, ROWS),
    "few rows": (softmax, WIDE),
    "few columns": (lambda x: (x * x).sum(axis=0), TALL),
    "many columns": (lambda x: fnp.exp(x).sum(axis=0), WIDE),
    "transposed": (lambda x: fnp.exp(x).T + 1.0, ROWS),
    "gathered": (lambda x: fnp.exp(x[fnp.argsort(-x)]), X),
    "elements leave a loop one by one": (ftrace.vmap(root), np.abs(X) + 1e-3),
    "a loop in order": (steps, X),
    "gradient": (ftrace.grad(lambda x: (fnp.sin(x) * fnp.exp(-x * x)).sum()), X),
    "gradient of rows": (ftrace.grad(lambda x: fnp.log(softmax(x)[:, 3]).sum()), ROWS),
    "forward mode": (lambda x: ftrace.jvp(lambda y: fnp.exp(y).sum(), (x,), (x,)), X),
    "past the caches": (lambda x: fnp.exp(x), rng.normal(size=5_000_000)),
    "shorter than a range": (lambda x: fnp.exp(x), rng.normal(size=(17, 5))),
}


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in ftrace.tree_util.tree_leaves(tree)]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_bits_do_not_depend_on_the_number_of_threads(name):
    f, x = PROGRAMS[name]
    other = np.flip(x).copy()  # leaves other numbers in the memory of results
    found = {}
    for count in (1, 2, 3, 7):
        with ftrace.config.update(threads=count):
            compiled = ftrace.jit(f)
            found[count] = [bits((compiled(other), compiled(x))[1]) for _ in range(3)]
    first = found[1][0]
    assert all(run == first for runs in found.values() for run in runs)
    with np.errstate(over="ignore"):
        plain = f(x)
    got = ftrace.tree_util.tree_leaves(ftrace.jit(f)(x))
    want = ftrace.tree_util.tree_leaves(plain)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3 if x.dtype.itemsize == 2 else 3e-6, atol=1e-8)


def test_errors_of_loops_are_raised_for_any_number_of_threads():
    i, j = np.full(400_000, 2), np.full(400_000, 3)
    j[-1] = -1
    with ftrace.config.update(threads=3):
        power = ftrace.jit(lax.pow)
        for _ in range(20):
            with pytest.raises(ValueError, match="negative integer powers"):
                power(i, j)


def shared(f, *args, threads=3):
    """The threads of each loop of a compiled function that is shared."""
    with ftrace.config.update(threads=threads):
        return ftrace.jit(f).lower(*args).program.sharing


@pytest.mark.by_size
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_large_loops_are_shared_and_small_ones_are_not(name):
    f, x = PROGRAMS[name]
    assert any(shared(f, x)) == (name not in ("few columns", "shorter than a range"))
    assert not any(shared(f, x, threads=1))
    assert not any(shared(f, x.ravel()[:24].reshape((24,) if x.ndim == 1 else (4, 6))))


@pytest.mark.by_size
def test_the_estimate_counts_what_iterations_cost():
    few = X[:20_000]
    assert not any(shared(lambda x: x + 1.0, few))
    assert any(shared(lambda x: fnp.sin(x) + fnp.exp(x) * fnp.tanh(x), few))
    assert not any(shared(lambda x: lax.scan(lambda c, a: (c * a + a, c), 0.0, x)[1], X))


@pytest.mark.parametrize("n", [2 * 1024, 2 * 1024 + 1, 255 * 1024, 256 * 1024 + 5, 700_001])
def test_sums_of_every_number_of_blocks_are_those_of_one_thread(monkeypatch, n):
    monkeypatch.setattr(thread_sharing, "WORTH", 0.0)
    monkeypatch.setattr(thread_sharing, "EACH", 1.0)
    x = np.random.default_rng(n).normal(size=n)

    def f(x):
        return x.sum(), (x * x).sum(), x.max(), x.argmin()

    assert all(shared(f, x))
    with ftrace.config.update(threads=1):
        want = bits(ftrace.jit(f)(x))
    with ftrace.config.update(threads=3):
        assert bits(ftrace.jit(f)(x)) == want


def regions():
    """How many regions the pool has opened so far."""
    pool = thread_pool._pool()
    assert pool is not None
    return pool._state[NUMBER]


@pytest.mark.parametrize(
    ("f", "x", "count"),
    [
        (lambda x: fnp.sin(x) + 1.5, X, 1),
        (lambda x: fnp.exp(x).sum(), X, 4),
        (lambda x: fnp.sin(x).max(), X, 7),  # of 32 pieces: vectors of extremes, and of NaNs
        (lambda x: fnp.exp(x).sum(), np.linspace(0.0, 1.0, 64 * 1024), 1),
        (lambda x: fnp.exp(x).sum(), np.linspace(0.0, 1.0, 72 * 1024), 2),  # blocks of a round
        (lambda x: fnp.exp(x).sum(), np.linspace(0.0, 1.0, 200 * 1024), 4),
        (lambda x: fnp.exp(x).sum() + fnp.exp(x).max(), np.linspace(0.0, 1.0, 80 * 1024), 4),
        (lambda x: fnp.exp(x).sum(1), ROWS, 1),
        (ftrace.vmap(root), np.abs(X) + 1e-3, 1),
    ],
)
def test_the_pool_opens_a_region_for_each_loop_and_each_full_buffer(f, x, count):
    for threads, opened in ((3, count), (2, count), (1, 0)):
        with ftrace.config.update(threads=threads):
            compiled = ftrace.jit(f)
            compiled(x)
            before = regions()
            compiled(x)
            assert regions() - before == opened


def shared_by_pool(n, align, threads, work=lambda first: None, first=0):
    """Ranges that the pool makes of a loop: (first, stop, worker, thread)."""
    found = []

    def function(region, start, stop, worker):
        found.append((start, stop, worker, threading.get_ident()))
        time.sleep(0.003)
        work(start)

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    called, words = kind(function), (ctypes.c_int64 * WORDS)()
    words[FUNCTION] = ctypes.cast(called, ctypes.c_void_p).value
    words[FIRST], words[STOP], words[ALIGN], words[THREADS] = first, first + n, align, threads
    thread_pool.start(threads)
    share = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(thread_pool.symbols()[SHARE])
    share(ctypes.addressof(words))
    return sorted(found)


@pytest.mark.parametrize("first", [0, 3200])
@pytest.mark.parametrize(("n", "align", "threads"), [(1000, 16, 3), (999, 1, 2), (64, 16, 4)])
def test_ranges_are_claimed_by_whoever_is_there(first, n, align, threads):
    thread_pool.start(8)  # more than may help
    found = shared_by_pool(n, align, threads, first=first)
    assert [a for a, _, _, _ in found] == [first, *(b for _, b, _, _ in found[:-1])]
    assert found[-1][1] == first + n
    assert all((a - first) % align == 0 for a, _, _, _ in found)
    assert 4 <= len(found) <= 4 * threads
    who = {thread for _, _, _, thread in found}
    assert 2 <= len(who) <= threads
    here = threading.get_ident()
    assert all((worker == 0) == (thread == here) for _, _, worker, thread in found)


def test_what_is_no_more_than_a_range_is_done_alone():
    here = threading.get_ident()
    assert shared_by_pool(15, 16, 3) == [(0, 15, 0, here)]
    assert shared_by_pool(16, 16, 3) == [(0, 16, 0, here)]
    assert shared_by_pool(1000, 1, 1) == [(0, 1000, 0, here)]
    assert shared_by_pool(0, 1, 3) == [(0, 0, 0, here)]


def test_a_pool_that_is_in_use_is_not_waited_for():
    inner = []
    outer = shared_by_pool(
        100, 1, 3, lambda _: inner.append(shared_by_pool(50, 1, 3)) if not inner else None
    )
    assert len(outer) > 4
    assert [(a, b) for a, b, _, _ in inner[0]] == [(0, 50)]


def test_a_worker_that_sleeps_is_woken():
    with ftrace.config.update(threads=3):
        f = ftrace.jit(lambda x: fnp.sin(x).sum())
        first = f(X)
        for _ in range(3):
            time.sleep(0.05)
            assert f(X) == first


def test_several_threads_of_python_share_at_once():
    with ftrace.config.update(threads=3):
        programs = [
            ftrace.jit(lambda x, k=k: (fnp.sin(k * x) + fnp.exp(-x * x)).sum()) for k in range(4)
        ]
        want = [f(X) for f in programs]
    wrong = []

    def work(k):
        wrong.extend(k for _ in range(20) if programs[k](X) != want[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_programs_inside_callbacks_share_too():
    inner = ftrace.jit(lambda x: fnp.sin(x).sum())
    with ftrace.config.update(threads=3):
        outer = ftrace.jit(
            lambda x: (
                fnp.exp(x).sum()
                + ftrace.pure_callback(lambda a: np.float64(inner(a)), np.zeros(()), x)
            )
        )
        np.testing.assert_allclose(outer(X), np.exp(X).sum() + np.sin(X).sum())


@pytest.mark.parametrize("value", [-1, 2.0, "2", None, True])
def test_other_numbers_of_threads_are_refused(value):
    with pytest.raises(ConfigError, match="threads"), ftrace.config.update(threads=value):
        pass


def test_more_threads_than_processors_do_the_same():
    with ftrace.config.update(threads=10**6):
        assert thread_pool.threads() == thread_pool.MOST
    with ftrace.config.update(threads=thread_pool.processors() + 5):
        f = ftrace.jit(lambda x: fnp.exp(x).sum())
        np.testing.assert_allclose(f(X), np.exp(X).sum())


@pytest.mark.parametrize(
    ("text", "found"),
    [("max 100000", 2), ("100000 100000", 1), ("150000 100000", 2), ("9000000 100000", 2), ("", 2)],
)
def test_processors_are_those_that_the_process_may_use(monkeypatch, tmp_path, text, found):
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    monkeypatch.setattr(thread_pool, "QUOTA", quota)
    monkeypatch.setattr(os, "sched_getaffinity", {0: {0, 3}}.__getitem__)
    assert thread_pool.processors() == found
    monkeypatch.setattr(os, "sched_getaffinity", {0: {3}}.__getitem__)
    assert thread_pool.processors() == 1


def test_processors_of_a_system_without_masks(monkeypatch, tmp_path):
    monkeypatch.setattr(thread_pool, "QUOTA", tmp_path / "nothing")
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, found in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert thread_pool.processors() == found


@pytest.mark.parametrize(("there", "found"), [(1, 1), (5, 5), (300, thread_pool.MOST)])
def test_without_a_setting_there_is_a_thread_for_each_processor(monkeypatch, there, found):
    monkeypatch.setattr(thread_pool, "processors", lambda: there)
    with ftrace.config.update(threads=0):
        assert thread_pool.threads() == found


def test_one_thread_asks_for_no_pool(monkeypatch):
    monkeypatch.setattr(thread_pool, "_pool", None)
    with ftrace.config.update(threads=1):
        assert thread_pool.threads() == 1


def test_workers_are_started_once_and_without_signals():
    pool = thread_pool._Pool()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert pool._state[WORKERS] == 0
    for count in (2, 1, 3):
        pool.start(count)
        assert pool._state[WORKERS] == max(count, 2)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    pool._create = lambda *_: 11  # EAGAIN: there are no more
    pool.start(5)
    assert pool._state[WORKERS] == 3
    masks = Path("/proc/self/task")
    if masks.is_dir():  # those of Python's threads are not blocked
        blocked = [
            (task / "status").read_text().partition("SigBlk:")[2] for task in masks.iterdir()
        ]
        assert sum(int(text.split()[0], 16) >> 1 & 1 for text in blocked) >= 3


def test_a_pool_knows_how_many_workers_it_wants(monkeypatch):
    wanted = []
    monkeypatch.setattr(thread_pool, "_pool", lambda: SimpleNamespace(start=wanted.append))
    thread_pool.start(4)
    assert wanted == [3]


@pytest.mark.parametrize("mine", [False, True])
def test_a_copy_of_a_process_has_no_workers_and_goes_on_alone(mine):
    pool = thread_pool._Pool()
    state, me = pool._state, threading.get_ident()
    state[OWNER], state[NEXT], state[LAST] = (me if mine else me + 64), 7, 100
    state[WORKERS] = 5
    pool._before()
    assert state[NEXT] == (100 if mine else 7)  # nobody claims what this thread will do
    pool._forked()
    assert (state[OWNER], state[NEXT]) == ((me, 7) if mine else (0, 0))
    assert state[WORKERS] == 0
    pool._after()
    assert state[NEXT] == (7 if mine else 0)


def test_a_process_that_forks_inside_a_loop_goes_on_with_it():
    pool = thread_pool._Pool()
    state = pool._state
    state[OWNER], state[NEXT], state[LAST] = threading.get_ident(), 7, 100
    pool._before()
    pool._after()
    assert state[NEXT] == 7


ZEROS = np.where(rng.random(1_000_000) < 0.5, -0.0, 0.0) - (rng.random(1_000_000) < 0.5)
NANS = np.where(rng.random(300_000) < 0.01, np.nan, rng.random(300_000))
NANS.view("u8")[np.isnan(NANS)] |= rng.integers(1, 999, int(np.isnan(NANS).sum())).astype("u8")


@pytest.mark.parametrize("x", [ZEROS, -ZEROS, NANS, ZEROS[::-1].astype("f4")])
def test_extremes_that_are_equal_are_the_same_one(x):
    found = []
    for count in (1, 2, 3):
        with ftrace.config.update(threads=count):
            f = ftrace.jit(lambda x: (x.max(), x.min(), x.argmax(), x.argmin()))
            found.append(bits(f(x.copy())))
    assert found[0] == found[1] == found[2]


def test_threads_with_small_stacks_share():
    with ftrace.config.update(threads=2):
        f = ftrace.jit(lambda x: fnp.exp(x - x.max()).sum())
        want, got = f(X), []
        before = threading.stack_size(64 << 10)
        try:
            thread = threading.Thread(target=lambda: got.append(f(X)))
            thread.start()
            thread.join()
        finally:
            threading.stack_size(before)
    assert got == [want]


def test_where_the_system_has_no_threads_there_is_one(monkeypatch):
    monkeypatch.setattr(thread_pool, "_pool", lambda: None)
    with ftrace.config.update(threads=4):
        assert thread_pool.threads() == 1
        f = ftrace.jit(lambda x: fnp.exp(x) + 3.25)
        np.testing.assert_allclose(f(X), np.exp(X) + 3.25)
    assert thread_pool.symbols() == {}


def run(variable):
    code = "import ftrace; from ftrace.cpu.threads import thread_pool; print(thread_pool.threads())"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FTRACE_NUM_THREADS": variable},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_says_how_many():
    assert run("5").stdout == "5\n"
    assert run("").stdout == f"{thread_pool.processors()}\n"
    refused = run("-2")
    assert "The environment variable FTRACE_NUM_THREADS is -2" in refused.stderr


@pytest.mark.by_size
def test_shorter_kernels_are_shared_inside_of_loops():
    x = np.random.default_rng(2).normal(size=8_000)

    def once(x):
        return fnp.sin(x) * fnp.exp(-x) + fnp.cos(x)

    assert not any(shared(once, x))
    assert any(shared(lambda x: lax.fori_loop(0, 9, lambda i, c: once(fnp.roll(c, 1)), x), x))


@pytest.mark.by_size
def test_transforms_of_twenty_microseconds_are_shared_only_after_others():
    few, many = (np.random.default_rng(0).normal(size=(n, n)) for n in (128, 300))
    assert not any(shared(lambda x: fnp.fft.rfft(x), few))
    assert all(shared(lambda x: fnp.fft.irfft2(fnp.fft.rfft2(x)), few))
    assert all(shared(lambda x: fnp.fft.irfft2(fnp.fft.rfft2(x)), many))
