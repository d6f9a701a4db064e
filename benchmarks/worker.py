"""One system in one process: prepares a case, checks its output, then takes times when asked.

Speaks JSON lines: `prepare` (build, run once, compare with the reference), `time` (one sample,
seconds per call or megabytes), `drop`. What a case prints goes to standard error. The idea: the
parent asks the systems in turn, so that a slow minute of the machine falls on everybody. Read
next: `benchmarks/pool.py`, which asks.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from itertools import repeat
from time import perf_counter
from typing import Any

from benchmarks.case import Case, UnsupportedError, in_float64, leaves, mismatch
from benchmarks.systems import SYSTEMS

BURST = 0.002
"""Seconds timed at once: short, so that some bursts of a busy machine are not interrupted."""
GAPS = (UnsupportedError, NotImplementedError, AttributeError)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seconds_per_call(call: Callable[[], Any], calls: int) -> float:
    """The mean over `calls` calls, without the garbage collector."""
    gc.disable()
    start = perf_counter()
    for _ in repeat(None, calls):
        call()
    elapsed = perf_counter() - start
    gc.enable()
    return elapsed / calls


def _unprepared() -> float:
    raise RuntimeError("nothing is prepared: the process was started again")


def _calibrate(call: Callable[[], Any], sample: float) -> tuple[int, int]:
    """How many calls make a burst, and how many bursts a sample (whose minimum counts)."""
    calls, once = 1, min(seconds_per_call(call, 1) for _ in range(2))
    while once * calls < BURST:
        calls *= 2
        once = min(seconds_per_call(call, calls) for _ in range(2))
    return calls, max(1, int(sample / (once * calls)))


class Session:
    """The state between `prepare` and `drop`."""

    def __init__(self, system: Any, cases: dict[str, Case]) -> None:
        self.system, self.cases = system, cases
        self.drop()

    def prepare(self, case: str, sample: float) -> dict[str, Any]:
        """Build, check, calibrate."""
        chosen = self.cases[case]
        arrays = chosen.inputs()
        inputs = arrays if chosen.numpy_in else tuple(self.system.put(a) for a in arrays)
        if chosen.kind == "memory":
            return self._memory(chosen, arrays, inputs)
        call = self._build(chosen, inputs)
        out = call()
        expected = chosen.reference(*in_float64(arrays))
        wrong = self._mismatch(chosen, out, expected)
        if wrong:
            return {"status": "wrong", "reason": wrong}
        del out, expected
        call = self._timed(chosen, inputs, call)
        plan = [(1, 1)] if chosen.kind == "first" else []

        def take() -> float:
            """A sample; the first one, taken alone, also chooses the number of calls."""
            if not plan:
                plan.append(_calibrate(call, sample))
            calls, bursts = plan[0]
            return min(seconds_per_call(call, calls) for _ in range(bursts))

        self.take = take
        return {"status": "ok"}

    def _build(self, case: Case, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        system = self.system
        if system.name in case.own:
            call = case.own[system.name](system, *inputs)
        elif case.body is None:
            raise UnsupportedError("nobody wrote it")
        else:
            f = case.body(system)
            f = f if case.kind == "steady" else system.jit(f)
            accept = system.accept
            if case.numpy_in:
                return lambda: system.sync(f(*map(accept, inputs)))
            call = lambda: f(*inputs)  # noqa: E731
        return lambda: system.sync(call())

    def _timed(self, case: Case, inputs: tuple[Any, ...], checked: Any) -> Callable[[], Any]:
        """What is timed: the call that was checked, or the making of one like it."""
        if case.kind == "stage":
            system = self.system
            return lambda: system.make_jaxpr(case.body(system))(*inputs)
        if case.kind == "first":

            def first() -> Any:
                self.system.forget()
                return self._build(case, inputs)()

            return first
        return checked

    def _mismatch(self, case: Case, out: Any, expected: Any) -> str:
        actual = [self.system.get(x) for x in leaves(out)]
        return mismatch(actual, expected, case.tolerance, case.relative, case.noise)

    def _memory(self, case: Case, arrays: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
        """The growth of the peak over one call, in a process that did nothing else."""
        expected = case.reference(*in_float64(arrays))
        before = _peak_mb()
        out = self._build(case, inputs)()
        grown = _peak_mb() - before
        wrong = self._mismatch(case, out, expected)
        self.take = lambda: grown
        return {"status": "wrong", "reason": wrong} if wrong else {"status": "ok"}

    def drop(self) -> dict[str, Any]:
        """Free what the case held."""
        self.take: Callable[[], float] = _unprepared
        gc.collect()
        return {"status": "ok"}


def _answer(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    try:
        if message["do"] == "prepare":
            return session.prepare(message["case"], message["sample"])
        if message["do"] == "time":
            return {"status": "ok", "value": session.take()}
        return session.drop()
    except GAPS as gap:
        text = str(gap).strip() or type(gap).__name__
        return {"status": "unsupported", "reason": text.splitlines()[0][:200]}
    except Exception as error:
        traceback.print_exc()
        text = (str(error).strip().splitlines() or [""])[0]
        return {"status": "failed", "reason": f"{type(error).__name__}: {text}"[:200]}


def serve(name: str, cases_module: str) -> None:
    """Answer until standard input ends."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    missing = SYSTEMS[name].missing()
    if missing:
        print(json.dumps({"status": "not installed", "reason": missing}), file=channel)
        return
    try:
        system = SYSTEMS[name]()
    except Exception as error:
        traceback.print_exc()
        reason = f"does not import: {type(error).__name__}: {error}"[:200]
        print(json.dumps({"status": "failed", "reason": reason}), file=channel)
        return
    session = Session(system, import_module(cases_module).all_cases())
    print(json.dumps({"status": "ok", "version": system.version()}), file=channel)
    for line in sys.stdin:
        print(json.dumps(_answer(session, json.loads(line))), file=channel)


if __name__ == "__main__":
    serve(*sys.argv[1:3])
