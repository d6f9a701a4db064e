"""Whether this interpreter can run the GPU's tests as it is: exit code 0, or 1 and why not.

`make gpu` asks this before it makes an environment: where there is a GPU, the interpreter that has
CuPy runs the source tree, and nothing is installed.
"""

import importlib.util
import sys

NEEDED = ("cupy", "numpy", "scipy", "llvmlite", "pytest", "hypothesis")


def why_not() -> str:
    """Why the tests cannot run on a GPU by this interpreter; empty if they can."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        return f"{sys.executable} lacks {', '.join(absent)}"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy sees no GPU ({error})"
    return "" if count else "CuPy sees no GPU"


if __name__ == "__main__":
    reason = why_not()
    print(reason)
    sys.exit(bool(reason))
