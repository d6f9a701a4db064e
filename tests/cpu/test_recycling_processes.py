"""Recycled memory at the ends of processes: exit, and forks while threads allocate."""

import subprocess
import sys


def run_script(text):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


START = """
import builtins, os, sys, threading
import numpy as np
import ftrace
f = ftrace.jit(lambda x: (x * 2.0, x + 1.0))
x = np.ones(1_000_000)
"""


def test_results_may_outlive_everything_at_exit():
    text = """
class Late:
    def __init__(self):
        self.kept = f(x)
    def __del__(self):
        self.kept[0][:] = 3.0
builtins.late, sys.late, os.late, late = Late(), Late(), f(x), f(x)
np.late = f(x)
cycle = [f(x)]
cycle.append(cycle)
print("end")
"""
    assert run_script(START + text) == (0, "end\n", "")


FORKS = """
import ctypes
import os
from ftrace.cpu.runtime.recycling import _recycler
f(x)
r = _recycler()
take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(r._struct.malloc)
put = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(r._struct.free)
stop = False
def with_gil():
    while not stop:
        f(x)
def without():
    while not stop:
        put(r.state, take(r.state, 300_000), 0)
threads = [threading.Thread(target=w) for w in (with_gil, without, without)]
os.register_at_fork(before=lambda: [f(x) for _ in range(3)])
for t in threads:
    t.start()
for _ in range(8):
    child = os.fork()
    if child == 0:
        y, z = f(x)
        place = y.ctypes.data
        ok = (y == 2.0).all() and (z == 2.0).all()
        del z, y
        ok &= f(x)[0].ctypes.data == place
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for t in threads:
    t.join()
print("end")
"""


def test_a_forked_process_goes_on_while_threads_allocate():
    ignore = "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"
    assert run_script(START + ignore + FORKS) == (0, "end\n", "")
