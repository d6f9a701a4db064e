"""Settings: per thread and task, checked, restored."""

import asyncio
import subprocess
import sys
import threading

import pytest

import ftrace
from ftrace.core.config import config, set_default, update
from ftrace.core.trace import Tracer
from ftrace.errors import ConfigError


def in_turns(*works):
    """Run generators in threads of their own, one step of each in turn."""
    results = [[] for _ in works]
    gates = [threading.Semaphore(0) for _ in works]
    done = threading.Semaphore(0)

    def run(k):
        generator = works[k]()
        while True:
            gates[k].acquire()
            try:
                results[k].append(next(generator))
            except StopIteration:
                return
            finally:
                done.release()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread, gate in zip(threads, gates, strict=True):
            if thread.is_alive():
                gate.release()
                done.acquire()
                thread.join(0.05 if gate is gates[-1] else 0)
    return results


def test_interleaved_blocks_of_two_threads_restore_what_was_before():
    """The first block ends while the second is open: `disable_jit` once stuck for good."""
    before = config.defaults

    def first():
        with ftrace.disable_jit():
            yield config.disable_jit, config.lift
            yield config.disable_jit, config.lift
        yield config.disable_jit, config.lift

    def second():
        yield config.disable_jit, config.lift
        with update(lift=False):
            yield config.disable_jit, config.lift
            yield config.disable_jit, config.lift
        yield config.disable_jit, config.lift

    ours, theirs = in_turns(first, second)
    assert ours == [(True, True), (True, True), (False, True)]
    assert theirs == [(False, True), (False, False), (False, False), (False, True)]
    assert config.defaults is before


def test_tasks_have_settings_of_their_own():
    async def task(lift, other):
        with update(lift=lift):
            other.set()
            await asyncio.sleep(0.01)
            return config.lift

    async def both():
        event = asyncio.Event()
        return await asyncio.gather(task(True, event), task(False, event))

    assert asyncio.run(both()) == [True, False]


def test_a_default_set_inside_a_block_outlives_it_and_reaches_other_threads():
    before = config.recycled_memory
    seen = []
    try:
        with update(lift=False), update(traceback="full"):
            set_default(recycled_memory=123456)
            thread = threading.Thread(
                target=lambda: seen.append((config.recycled_memory, config.lift))
            )
            thread.start()
            thread.join()
            assert (config.recycled_memory, config.lift, config.traceback) == (
                123456,
                False,
                "full",
            )
        assert (config.recycled_memory, config.lift, config.traceback) == (123456, True, "user")
        assert seen == [(123456, True)]
    finally:
        set_default(recycled_memory=before)


def test_a_block_inside_a_block_keeps_the_outer_changes():
    with update(lift=False, deterministic=True):
        with update(lift=True):
            assert (config.lift, config.deterministic) == (True, True)
        assert (config.lift, config.deterministic) == (False, True)
    assert (config.lift, config.deterministic) == (True, False)


def test_a_jitted_function_asks_the_settings_of_its_thread():
    traced = []

    @ftrace.jit
    def f(x):
        traced.append(not isinstance(x, Tracer))
        return x * 2.0

    with ftrace.disable_jit():
        f(1.0)
        thread = threading.Thread(target=f, args=(1.0,))
        thread.start()
        thread.join()
        f(1.0)
    assert traced == [True, False, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"foo": 1}, "There is no setting 'foo'."),
        ({"compiles": True}, "There is no setting 'compiles'. Is 'compile' meant?"),
        ({"compile": "banana"}, "The setting compile is 'banana'; it must be True or False."),
        ({"lift": 1}, "The setting lift is 1; it must be True or False."),
        ({"kernel_cache": -1}, "kernel_cache is -1; it must be a whole number, not negative."),
        ({"recycled_memory": True}, "recycled_memory is True; it must be a whole number"),
        ({"traceback": "long"}, "The setting traceback is 'long'; it must be 'user' or 'full'."),
        ({"passes": 3}, "The setting passes is 3; it must be a tuple."),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(changes, words):
    before = config.settings
    with pytest.raises(ConfigError) as caught:
        set_default(**changes)
    assert words in str(caught.value)
    with pytest.raises(ConfigError), update(**changes):
        pass
    assert config.settings is before


@pytest.mark.parametrize("holder", [ftrace.config, config], ids=["module", "record"])
def test_an_assigned_setting_is_refused_since_it_would_change_nothing(holder):
    with pytest.raises(ConfigError, match=r"The setting threads was assigned.*\n.*\n?Use `with"):
        holder.threads = 2
    with pytest.raises(ConfigError, match=r"no setting 'thread'\. Is 'threads' meant"):
        holder.thread = 2
    assert config.threads == 0


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("FTRACE_COMPILE", "off", "False"),
        ("FTRACE_KERNEL_CACHE", "", "268435456"),
        ("FTRACE_COMPILE", "banana", "FTRACE_COMPILE is 'banana'; it must be 1 or 0"),
        ("FTRACE_KERNEL_CACHE", "-5", "FTRACE_KERNEL_CACHE is -5; it must be a whole number, not"),
        ("FTRACE_TRACEBACK", "long", "FTRACE_TRACEBACK is 'long'; it must be 'user' or 'full'"),
    ],
)
def test_environment_variables_are_checked(name, text, found):
    field = name.removeprefix("FTRACE_").lower()
    done = subprocess.run(
        [sys.executable, "-c", f"from ftrace.config import current; print(current.{field})"],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), name: text},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found in (done.stdout + done.stderr)
    assert bool(done.returncode) == ("FTRACE_" in found)
