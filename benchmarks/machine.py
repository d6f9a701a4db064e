"""Facts about the machine and the Python that a measured table names.

Not the versions of the systems measured: each worker says its own. Read next: `benchmarks/run.py`.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

COPY_BYTES = 1 << 27


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def copy_gb_per_s() -> float:
    """Bytes read and written per second by NumPy's copy of a large array, best of five."""
    source = np.ones(COPY_BYTES // 8)
    target = np.empty_like(source)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return round(2 * COPY_BYTES / best / 1e9, 1)


def facts() -> dict[str, Any]:
    """What a reader needs to judge a figure."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "load": [round(x, 2) for x in os.getloadavg()],
        "copy_gb_per_s": copy_gb_per_s(),
    }
