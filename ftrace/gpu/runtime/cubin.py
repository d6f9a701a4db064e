"""CUDA C to machine code for one kind of device, kept on disk.

Here: our options, the cache's files, and what a user reads when a text is refused. The idea: a
CUBIN depends on its text, the device's kind, the compiler's version and the options alone, so it is
kept under a hash of these and never goes stale. PTX is never used: a driver older than the
compiler refuses it. The cache is a convenience that must never stand in the way: a folder that
cannot be written, a file that is damaged or gone count as "not there".
"""

import hashlib
import os
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ftrace.core.config import config
from ftrace.core.errors import BackendError, KernelError
from ftrace.gpu.runtime import nvrtc
from ftrace.gpu.runtime.nvrtc import Nvrtc

# No contraction and no flushing of subnormals: + - * / sqrt give NumPy's bits.
OPTIONS = ("-std=c++17", "-default-device", "-fmad=false")

_MAGIC = b"ftrace cubin 1\n"
_DIGEST = hashlib.sha256().digest_size
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
    path = _file(source, options, compiler.version)
    found = _read(path)
    if found is None:
        found = compiled(source, arch, compiler).cubin
        _write(path, found)
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


# --- the cache --------------------------------------------------------------------------------


def folder() -> Path:
    """Where CUBINs are kept: `config.cache_directory`, or the user's cache directory."""
    if config.cache_directory:
        return Path(config.cache_directory, "cubin")
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if not home:
        inner = "Library/Caches" if sys.platform == "darwin" else ".cache"
        home = os.path.join(os.path.expanduser("~"), inner)
    return Path(home, "ftrace", "cubin")


def _file(source: str, options: tuple[str, ...], version: tuple[int, int]) -> Path | None:
    """The file of one compilation; None if nothing is to be kept."""
    if config.kernel_cache <= 0:
        return None
    key = hashlib.sha256(repr((version, options, source)).encode())
    return folder() / f"{key.hexdigest()}.cubin"


def _read(path: Path | None) -> bytes | None:
    """The machine code in a file, or None if it is not there, unreadable or damaged."""
    if path is None:
        return None
    with suppress(OSError):
        data = path.read_bytes()
        body = data[len(_MAGIC) + _DIGEST :]
        if data == _MAGIC + hashlib.sha256(body).digest() + body and body:
            with suppress(OSError):
                os.utime(path)  # the least recently used go first
            return body
    return None


def _write(path: Path | None, body: bytes) -> None:
    """Keep machine code; other processes see all of the file or none of it."""
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        _shrink(path.parent, config.kernel_cache)


def _shrink(home: Path, limit: int) -> None:
    """Delete what was not used for longest until at most `limit` bytes are left."""
    with os.scandir(home) as entries:
        files = sorted(
            (entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in entries
        )
    excess = sum(size for _, size, _ in files) - limit
    for _, size, path in files:
        if excess <= 0:
            return
        with suppress(OSError):
            os.unlink(path)
            excess -= size
