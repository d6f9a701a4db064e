"""CUDA C to machine code for one kind of device, kept on disk.

Here: our options, and what a user reads when a text is refused. A CUBIN depends on its text, the
device's kind, the compiler's build and the options alone: these are its name in the cache
(core/disk_cache.py). PTX is never used: a driver older than the compiler refuses it.
"""

import re

from ftrace.core import disk_cache
from ftrace.core.errors import BackendError, KernelError
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.machine_code.nvrtc import Nvrtc

# No contraction and no flushing of subnormals: + - * / sqrt give NumPy's bits.
OPTIONS = ("-std=c++17", "-default-device", "-fmad=false")

_CONTEXT = 4  # lines shown above and below the one that an error is about


def cubin(source: str, arch: str, compiler: Nvrtc | None = None) -> bytes:
    """Machine code of a complete CUDA C text.

    Args:
        source: prelude and kernels, no includes.
        arch: what it is for, such as `"sm_90"`.
        compiler: from `nvrtc.load`; its newest version if not given.

    Raises:
        BackendError: no compiler, or one that does not know `arch`.
        KernelError: the compiler refuses the text.
    """
    compiler = compiler or nvrtc.load()
    options = (*OPTIONS, f"-arch={arch}")
    name = disk_cache.name_of("cubin", compiler.version, compiler.build, options, source)
    found = disk_cache.read(name)
    if found is None:
        found = compiled(source, arch, compiler).cubin
        disk_cache.write(name, found)
    return found


def compiled(
    source: str, arch: str, compiler: Nvrtc | None = None, more: tuple[str, ...] = ()
) -> nvrtc.Compilation:
    """As `cubin`, but always compiled, with further options, and with the compiler's log."""
    compiler = compiler or nvrtc.load()
    known = [f"sm_{number}" for number in compiler.archs()]
    if arch not in known:
        raise BackendError(
            f"{compiler} does not compile for {arch}, only for {', '.join(known)}.",
            "Install an NVRTC whose version knows this GPU: `pip install -U nvidia-cuda-nvrtc`.",
        )
    outcome = compiler.compile(source, (*OPTIONS, *more, f"-arch={arch}"))
    if outcome.error:
        raise KernelError(
            f"{compiler} refuses a generated kernel for {arch} ({outcome.error}):\n"
            f"{outcome.log.strip()}{_excerpt(source, outcome.log)}",
            "This is a bug of ftrace: please report this message, and the text in the error's"
            " `source`. `ftrace.config.update(compile=False)` goes on without kernels.",
            source=source,
        )
    return outcome


def _excerpt(source: str, log: str) -> str:
    """The first line that the log complains about, marked, among its neighbours."""
    said = re.search(r"kernels\.cu\((\d+)\)", log)
    if said is None:
        return ""
    wrong = int(said.group(1))
    first = max(1, wrong - _CONTEXT)
    shown = source.splitlines()[first - 1 : wrong + _CONTEXT]
    return "".join(
        f"\n{'>' if number == wrong else ' '}{number:5} {text}"
        for number, text in enumerate(shown, first)
    )
