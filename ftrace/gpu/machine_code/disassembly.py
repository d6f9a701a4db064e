"""Machine code as text, by NVIDIA's disassembler where it is installed."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ftrace.core.errors import BackendError


def disassembled(cubin: bytes) -> str:
    """Registers and memory of every kernel of a CUBIN, and its instructions (SASS).

    Raises:
        BackendError: `cuobjdump` or `nvdisasm` is missing.
    """
    tool, helper = _tool("cuobjdump"), _tool("nvdisasm")
    path = os.pathsep.join((str(Path(helper).parent), os.environ.get("PATH", "")))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernels.cubin")
        file.write_bytes(cubin)
        done = subprocess.run(
            [tool, "-sass", "-res-usage", str(file)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path},
        )
    if done.returncode:
        raise BackendError(f"cuobjdump failed: {done.stderr.strip()}")
    return done.stdout


def _tool(name: str) -> str:
    """One of NVIDIA's programs, from its wheel or the PATH."""
    spec = importlib.util.find_spec("nvidia")
    for home in (spec.submodule_search_locations or ()) if spec else ():
        for found in Path(home).glob(f"*/bin/{name}"):
            return str(found)
    found = shutil.which(name)
    if found is None:
        raise BackendError(
            f"{name} is not installed.",
            "Install CUDA's tools, or the wheels nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm.",
        )
    return found
