"""One framework in one process: builds, checks and times the jobs that it is given.

Reads one JSON line, `{"scale", "mode", "jobs", "seconds"}`, and answers with one line when it is
there and one per job, as it is done. Modes: `time`; `check` (no times); `profile` (five calls
between the driver's start and stop of profiling, for ncu). What a framework prints goes to standard
error. Read next: `parent.py`, which asks.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from ctypes import CDLL, byref, c_int, c_void_p
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.case import UnsupportedError, leaves
from benchmarks.gpu.case import Case, framework
from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.systems import SYSTEMS

SPREAD = 200e6  # bytes over which the inputs of successive calls are spread
MOST = 32  # sets of inputs
PROFILED = 5
GAVE_UP = 3  # the exit code of a process whose device may be in no state for other cases
MARKER = "ftrace_next_job"
MARKING = f".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry {MARKER}() {{ ret; }}\n"
GAPS = (UnsupportedError, NotImplementedError, AttributeError)
Record = dict[str, Any]


def size_of(arrays: Any) -> int:
    """Bytes of some arrays of any framework."""
    return sum(int(np.prod(np.shape(x))) * 4 for x in leaves(arrays))


def sets_of(system: Any, case: Case, inputs: tuple[Any, ...], out: Any) -> list[tuple[Any, ...]]:
    """Copies of the inputs, enough that no call finds the ones of its last turn in a cache."""
    sets = [inputs]
    if case.spread and system.gpu:
        one = max(size_of(inputs) + size_of(out), 1)
        count = min(MOST, int(SPREAD // one) + 1)
        sets += [tuple(system.copied(x) for x in inputs) for _ in range(count - 1)]
    return sets


class Session:
    """The jobs of one framework."""

    def __init__(self, system: Any, cases: dict[str, Case], mode: str) -> None:
        self.system, self.cases, self.mode = system, cases, mode
        self._given: tuple[str, Any, Any] = ("", (), ())
        self._driver: Driver | None = None

    def job(self, name: str, column: str) -> Record:
        """Build, call, call again into poisoned memory, check; then what the mode asks for."""
        system, case = self.system, self.cases[name]
        arrays, inputs = self._inputs(case)
        began = perf_counter()
        f = case.builds[column](system)
        out = self._called(f, inputs)
        found: Record = {"first": perf_counter() - began}
        system.poison(leaves(out))
        del out
        out = self._called(f, inputs)
        n = len(arrays[0])
        outputs = case.compared(leaves(out), n, system.get)
        wrong = case.wrong(case.compared(arrays, n), outputs)
        if wrong:
            return found | {"status": "wrong", "reason": wrong}
        if self.mode == "profile":
            self._profile(partial(self._called, f, inputs))
        elif self.mode == "time":
            sets = sets_of(system, case, inputs, out)
            del out
            calls = [partial(f, *each) for each in sets]
            found |= system.clock(calls, getattr(f, "graphs", True))
            found["sets"] = len(sets)
            if case.step in system.counted:
                found |= self._counted(f, inputs)
        return found | {"status": "ok"}

    def _inputs(self, case: Case) -> tuple[Any, Any]:
        """A case's inputs on the host and here, made once for its columns."""
        if self._given[0] != case.name:
            self._given = ("", (), ())
            arrays = case.inputs()
            self._given = (case.name, arrays, tuple(self.system.put(a) for a in arrays))
        return self._given[1:]

    def _called(self, f: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
        out = f(*inputs)
        self.system.sync(out)
        self.system.wait()
        return out

    def _counted(self, f: Callable[..., Any], inputs: tuple[Any, ...]) -> Record:
        try:
            return self.system.count(f, inputs)
        except Exception:
            traceback.print_exc()
            return {}

    def _profile(self, call: Callable[[], Any]) -> None:
        self._driver = self._driver or Driver()
        self._driver.profiled(call)


class Driver:
    """The CUDA driver without a framework: starts and stops profiling in everybody's context."""

    def __init__(self) -> None:
        self._cuda = cuda = CDLL("libcuda.so.1")
        number, context, module = c_int(), c_void_p(), c_void_p()
        self._marker = c_void_p()
        self._done(cuda.cuInit(0))
        self._done(cuda.cuDeviceGet(byref(number), 0))
        self._done(cuda.cuDevicePrimaryCtxRetain(byref(context), number))
        self._done(cuda.cuCtxSetCurrent(context))
        self._done(cuda.cuModuleLoadData(byref(module), MARKING.encode()))
        name = MARKER.encode()
        self._done(cuda.cuModuleGetFunction(byref(self._marker), module, name))

    def profiled(self, call: Callable[[], Any]) -> None:
        """A marker, then some calls."""
        self._done(self._cuda.cuProfilerStart())
        one = (1,) * 6
        self._done(self._cuda.cuLaunchKernel(self._marker, *one, 0, None, None, None))
        for _ in range(PROFILED):
            call()
        self._done(self._cuda.cuCtxSynchronize())
        self._done(self._cuda.cuProfilerStop())

    def _done(self, code: int) -> None:
        if code:
            raise RuntimeError(f"the CUDA driver answered {code}")


def answer(session: Session, name: str, column: str) -> Record:
    """The record of one job, whatever happens in it."""
    head = {"case": name, "column": column, "mode": session.mode}
    try:
        return head | session.job(name, column)
    except GAPS as gap:
        text = str(gap).strip() or type(gap).__name__
        return head | {"status": "unsupported", "reason": text.splitlines()[0][:200]}
    except Exception as error:
        traceback.print_exc()
        text = (str(error).strip().splitlines() or [""])[0]
        reason = f"{type(error).__name__}: {text}"[:300]
        return head | {"status": "failed", "reason": reason}
    finally:
        gc.collect()


def serve(name: str) -> int:
    """Do the jobs of one request."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(record: Record) -> None:
        print(json.dumps(record), file=channel)

    missing = SYSTEMS[name].missing()
    if missing:
        say({"status": "not installed", "reason": missing})
        return 0
    try:
        system = SYSTEMS[name]()
        hello = {"status": "ok", "version": system.version()}
    except Exception as error:
        traceback.print_exc()
        say({"status": "failed", "reason": f"{type(error).__name__}: {error}"[:300]})
        return 1
    say(hello)
    request = json.loads(sys.stdin.readline())
    end = perf_counter() + request["seconds"]
    session = Session(system, all_cases(request["scale"]), request["mode"])
    for case, column in request["jobs"]:
        assert framework(column) == name
        if perf_counter() > end:
            break
        record = answer(session, case, column)
        say(record)
        if record["status"] == "failed" and system.gpu:
            return GAVE_UP
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
