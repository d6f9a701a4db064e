"""The threads that share large loops of compiled code with whoever calls it.

Workers are threads of the operating system that know nothing of Python: they run ranges of loops
and sleep. They are started when a program that has shared loops is bound, as many as it may use,
and live as long as the process. In a copy of the process (`fork`) there are none, and loops run in
one thread, until a program is bound there. The protocol is in thread_pool_text.py.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ftrace.core.config import config
from ftrace.core.errors import BackendError
from ftrace.core.lazy import MAKING, once
from ftrace.cpu.emit.thread_regions import SHARE
from ftrace.cpu.llvm.machine_code import compile_module, host
from ftrace.cpu.threads.thread_pool_text import (
    CONDITION,
    HOLD,
    MUTEX,
    NEXT,
    OWNER,
    STATE,
    WORDS,
    WORKER,
    WORKERS,
    pool_text,
)

MOST: Final = 256  # threads
QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def threads() -> int:
    """How many threads may share a loop: what `config.threads` says, else one per processor."""
    wanted = config.settings.threads
    if wanted == 1:
        return 1
    wanted = min(wanted or processors(), MOST)
    return wanted if wanted > 1 and _pool() is not None else 1


def processors() -> int:
    """How many processors the process may use at once, as far as the system says."""
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    try:
        share, period = QUOTA.read_text().split()
        return max(1, min(found, -(-int(share) // int(period))))
    except (OSError, ValueError):  # there is none, or it is "max"
        return found


def symbols() -> dict[str, int]:
    """The address of what kernels with shared loops call."""
    pool = _pool()
    return {} if pool is None else {SHARE: pool.share}


def start(count: int) -> None:
    """Let there be so many threads, with the one that calls."""
    pool = _pool()
    if pool is not None:
        pool.start(count - 1)


class _Pool:
    """The workers of this process. Their code and state are never freed."""

    def __init__(self) -> None:
        self._room = (ctypes.c_int64 * (WORDS + 8))()
        self._place = -(-ctypes.addressof(self._room) // 64) * 64
        self._state = (ctypes.c_int64 * WORDS).from_address(self._place)
        self._library = ctypes.CDLL(None)
        self._create = self._library.pthread_create
        self._create.argtypes = [ctypes.c_void_p] * 4
        self._prepare()
        self._module = compile_module(pool_text(), {STATE: self._place}, host(), level=1)
        self.share = self._module.address(SHARE)
        self._worker = self._module.address(WORKER)
        hold = ctypes.CFUNCTYPE(ctypes.c_int64)(self._module.address(HOLD))
        self._hold: Callable[[], int] = hold
        self._held: int | None = None  # where this thread goes on with a loop, once it has forked
        os.register_at_fork(
            before=self._before, after_in_parent=self._after, after_in_child=self._forked
        )

    def _prepare(self) -> None:
        """Begin without workers."""
        ctypes.memset(self._place, 0, 8 * WORDS)
        for name, word in (("mutex", MUTEX), ("cond", CONDITION)):
            init = getattr(self._library, f"pthread_{name}_init")
            init.argtypes = [ctypes.c_void_p] * 2
            init(self._place + 8 * word, None)

    def _before(self) -> None:
        """A signal handler may fork inside a shared loop: what others have begun is finished."""
        if self._state[OWNER] == threading.get_ident():
            self._held = self._hold()

    def _after(self) -> None:
        """Go on with the loop."""
        if self._held is not None:
            self._state[NEXT], self._held = self._held, None

    def _forked(self) -> None:
        """In a copy of the process there are no workers, and no loops of other threads."""
        held = self._held
        self._prepare()
        if held is not None:
            self._state[OWNER] = threading.get_ident()
            self._after()

    def start(self, count: int) -> None:
        """Start workers until there are so many, or the system has no more."""
        if self._state[WORKERS] >= count:
            return
        with MAKING:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:  # signals are for Python's own threads
                while self._state[WORKERS] < count and self._started():
                    self._state[WORKERS] += 1
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _started(self) -> bool:
        thread = ctypes.c_void_p()
        if self._create(ctypes.addressof(thread), None, self._worker, None):
            return False
        self._library.pthread_detach(thread)
        return True


@once
def _pool() -> _Pool | None:
    """The one of this process, or None where the system has not what it needs."""
    try:
        return _Pool()
    except (AttributeError, BackendError, OSError, TypeError):
        return None
