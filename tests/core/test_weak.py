import gc
import os
import subprocess
import sys
from pathlib import Path

from ftrace.core.weak import dropping

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
PROGRAM = """
import copy
import ftrace
def at(f):
    return f()
at(lambda: ftrace.jit(lambda x: 1.0 if copy.copy(x) is x else 2.0)(3.0))
"""


class Thing:
    pass


def test_an_entry_goes_with_what_it_is_of():
    x, table = Thing(), {1: "of x", 2: "of another"}
    kept = dropping(x, table, 1)
    assert kept() is x
    del x
    gc.collect()
    assert table == {2: "of another"}


def test_a_process_that_has_lifted_ends_without_a_word(tmp_path):
    program = tmp_path / "program.py"  # what has no source is not lifted
    program.write_text(PROGRAM)
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stderr == ""
