"""Compiled code on disk, from one process to the next.

A file is named after a hash of all that its content depends on, so it never goes stale, and holds
the hash of its content, so damage shows. Only files of this user, in a folder of this user that
nobody else may write to, are read: nobody plants code. The cache is a convenience that must never
stand in the way: a folder that cannot be used and a file that is damaged, foreign or gone count as
"not there". Processes need no lock: files appear whole, and may go at any time. What else lies in
the folder is left alone.
"""

import hashlib
import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ftrace.core.config import config

_MAGIC: Final = b"ftrace code 1\n"
_DIGEST: Final = hashlib.sha256().digest_size
_OURS: Final = re.compile(r"[0-9a-f]{64}\.\w+|tmp\w+\.part")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_USER: Final = getattr(os, "geteuid", lambda: None)()

_sizes: Final[dict[Path, int]] = {}  # bytes in a folder, as far as this process knows


def folder() -> Path:
    """Where code is kept: in `config.cache_directory`, or in the user's cache directory."""
    if config.cache_directory:
        return Path(config.cache_directory, "code")
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if not home:
        inner = "Library/Caches" if sys.platform == "darwin" else ".cache"
        home = os.path.join(os.path.expanduser("~"), inner)
    return Path(home, "ftrace", "code")


def name_of(kind: str, *parts: Any) -> str:
    """The name of a file.

    Args:
        kind: its extension.
        parts: what its content depends on, each with a `repr` that says all of it.
    """
    return f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.{kind}"


def read(name: str) -> bytes | None:
    """The content of a file; None if it is not there, damaged, or not ours."""
    if config.kernel_cache <= 0:
        return None
    home = folder()
    with suppress(OSError):
        if obstacle(home) is not None:
            return None
        path = home / name
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            if not _is_safe(os.fstat(file.fileno())):
                return None
            data = file.read()
        body = data[len(_MAGIC) + _DIGEST :]
        if body and data == _framed(body):
            with suppress(OSError):
                os.utime(path)  # the least recently used go first
            return body
    return None


def write(name: str, body: bytes) -> None:
    """Keep a content; other processes see all of the file or none of it."""
    limit = config.kernel_cache
    if limit <= 0:
        return
    home = folder()
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if obstacle(home) is not None:
            return
        handle, made = tempfile.mkstemp(dir=home, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_framed(body))
            os.replace(made, home / name)
        except BaseException:
            with suppress(OSError):
                os.unlink(made)
            raise
        _bound(home, len(body), limit)


def obstacle(home: Path) -> str | None:
    """Why a folder is not used, in words; None if it may be.

    Raises:
        OSError: it is not there, or cannot be asked.
    """
    found = os.lstat(home)
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder"
    if _USER is not None and found.st_uid != _USER:
        return "it belongs to another user"
    if _USER is not None and found.st_mode & _OTHERS_WRITE:
        return "other users may write to it"
    return None


def contents(home: Path) -> list[tuple[int, int, str]]:
    """(time of last use in ns, bytes, path) of each file of ours in a folder, the oldest first.

    Raises:
        OSError: the folder cannot be read.
    """
    found: list[tuple[int, int, str]] = []
    with os.scandir(home) as entries:
        for entry in entries:
            if not _OURS.fullmatch(entry.name):
                continue
            with suppress(OSError):  # gone in the meantime
                about = entry.stat(follow_symlinks=False)
                found.append((about.st_mtime_ns, about.st_size, entry.path))
    return sorted(found)


def shrink(home: Path, limit: int) -> int:
    """Delete what was not used for longest until at most `limit` bytes are left; how many are."""
    files = contents(home)
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= limit:
            break
        with suppress(OSError):
            os.unlink(path)
            total -= size
    return total


def _bound(home: Path, added: int, limit: int) -> None:
    """Look at the whole folder where it may have become too large; else only count."""
    known = _sizes.get(home)
    total = limit + 1 if known is None else known + added
    _sizes[home] = shrink(home, limit) if total > limit else total


def _is_safe(about: os.stat_result) -> bool:
    """Whether a file can only have been written by this user."""
    if not stat.S_ISREG(about.st_mode):
        return False
    return _USER is None or (about.st_uid == _USER and not about.st_mode & _OTHERS_WRITE)


def _framed(body: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(body).digest() + body
