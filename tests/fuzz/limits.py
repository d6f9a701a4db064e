"""Sizes from which the compiler does something else, made so small that every program meets them.

Random programs have small arrays, so that thousands run in a minute. What happens only to large
ones is found all the same where "large" begins at two elements: `python -m tests.fuzz --large`.
"""

import importlib
from typing import Any, Final

from ftrace.core.config import set_default

LARGE: Final = "TESTS_FUZZ_LARGE"  # the environment variable of processes where it holds
LIMITS: Final[dict[str, dict[str, Any]]] = {
    "ftrace.interpreters.transpose": {"SMALL": 2},
    "ftrace.interpreters.constant_values": {"LIMIT": 2},
    "ftrace.lowering.fusion.groups": {"MANY": 2},
    "ftrace.lowering.fusion.fuse": {"MANY": 2, "OFTEN": 2},
    "ftrace.lowering.fusion.column_sums": {"FEWEST": 2},
    "ftrace.lowering.kernel.schedule": {"MANY": 2, "LONG": 4},
    "ftrace.lowering.planning.build": {"BLOCK": 32, "ROWS": 2, "WIDE": 64},
    "ftrace.lowering.planning.streaming": {"LARGE": 1},
    "ftrace.lowering.planning.thread_sharing": {
        "WORTH": 0.0,
        "AWAKE": 0.0,
        "EACH": 1e-3,
        "FEWEST": 1,
    },
    "ftrace.cpu.runtime.recycling": {"WORTH": 1},
    "ftrace.control.rows.jit": {"LONG": 2},
}


def make_small() -> None:
    """As above, for the rest of the process and those that it forks; three threads share loops."""
    set_default(threads=3)
    for name, values in LIMITS.items():
        module = importlib.import_module(name)
        for limit, value in values.items():
            assert hasattr(module, limit), (name, limit)
            setattr(module, limit, value)
