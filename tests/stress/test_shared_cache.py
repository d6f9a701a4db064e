"""Many processes with one cache of compiled code: all of them write it, and it overflows.

Four processes start at once; in `make stress` (`--runs 20`) fifty.
"""

import os
import subprocess
import sys
import time

import pytest

import ftrace
from ftrace.core import disk_cache

PROGRAM = """
import os, sys, time
import numpy as np
import ftrace
from ftrace.cpu.llvm import machine_code

def programs(k):
    yield lambda x: np.cumsum(np.sin(x)) * x
    yield lambda x: np.sum(np.exp(x) * x)
    yield (lambda x: x * x + 1.0, lambda x: np.sqrt(x) - 2.0, lambda x: x[::-1] / 3.0)[k % 3]

rank, gate = int(sys.argv[1]), sys.argv[2]
x = np.linspace(0.1, 1.0, 37)
while not os.path.exists(gate):
    time.sleep(0.001)
found = [ftrace.jit(ftrace.value_and_grad(lambda x: np.sum(f(x))))(x) for f in programs(rank)]
bits = [np.array(value).tobytes().hex() for pair in found for value in pair]
print(rank % 3, machine_code.translations(), *bits)
"""


def start(count, home, gate, limit):
    environment = {
        **os.environ,
        "FTRACE_CACHE_DIRECTORY": str(home),
        "FTRACE_KERNEL_CACHE": str(limit),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(gate)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def finish(processes):
    """What each kind of process printed of numbers, and how often each translated."""
    bits, translated = {}, []
    for process in processes:
        out, complaints = process.communicate(timeout=600)
        assert process.returncode == 0, complaints
        assert not complaints
        kind, count, *values = out.split()
        assert bits.setdefault(kind, values) == values
        translated.append(int(count))
    return bits, translated


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1 << 28, 20_000], ids=["roomy", "overflowing"])
def test_processes_that_write_one_cache_at_once_agree(tmp_path, request, limit):
    count = 50 if request.config.getoption("--runs") >= 20 else 4
    gate = tmp_path / "open"
    processes = start(count, tmp_path / "cache", gate, limit)
    time.sleep(0.1)
    gate.touch()
    bits, translated = finish(processes)
    assert max(translated) > 0
    code = tmp_path / "cache" / "code"
    files = list(code.iterdir())
    assert not [f for f in files if f.suffix == ".part"]
    with ftrace.config.update(cache_directory=str(tmp_path / "cache")):
        assert all(disk_cache.read(f.name) is not None for f in files)
    if limit > 1 << 20:  # what comes later compiles nothing, and computes the same
        later, translated = finish(start(3, tmp_path / "cache", gate, limit))
        assert set(translated) == {0}
        assert {kind: later[kind] for kind in bits} == bits
    else:
        assert sum(f.stat().st_size for f in files) < 1 << 20
