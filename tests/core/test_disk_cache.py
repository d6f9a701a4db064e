"""Compiled code on disk: what is kept, what is never read; that nothing about it is an error."""

import ctypes
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import ftrace
from ftrace.__main__ import main
from ftrace.core import disk_cache
from ftrace.cpu.llvm import machine_code

BODY = bytes(range(256)) * 4
NAME = disk_cache.name_of("o", "a", 1)


@pytest.fixture
def home(tmp_path):
    """An empty cache."""
    with ftrace.config.update(cache_directory=str(tmp_path)):
        yield tmp_path / "code"


def only(home):
    (file,) = home.iterdir()
    return file


def test_what_was_written_is_read_and_only_this_user_may_look(home):
    assert disk_cache.read(NAME) is None
    disk_cache.write(NAME, BODY)
    assert disk_cache.read(NAME) == BODY
    assert disk_cache.read(disk_cache.name_of("o", "a", 2)) is None
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(only(home).stat().st_mode) == 0o600


def test_names_tell_all_parts_apart():
    names = {disk_cache.name_of(*parts) for parts in (("o", "ab"), ("o", "a", "b"), ("x", "ab"))}
    assert len(names) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
        lambda data: data + b"\0",
    ],
    ids=["empty", "short", "last bit", "hash", "longer"],
)
def test_a_damaged_file_is_not_there(home, damage):
    disk_cache.write(NAME, BODY)
    file = only(home)
    file.write_bytes(damage(file.read_bytes()))
    assert disk_cache.read(NAME) is None


def test_what_others_could_have_written_is_never_read(home, monkeypatch, tmp_path):
    disk_cache.write(NAME, BODY)
    file = only(home)
    for path, mode in ((file, 0o620), (file, 0o602), (home, 0o720), (home, 0o702)):
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        assert disk_cache.read(NAME) is None
        path.chmod(before)
    assert disk_cache.read(NAME) == BODY
    target = tmp_path / "elsewhere"
    file.rename(target)
    file.symlink_to(target)
    assert disk_cache.read(NAME) is None
    file.unlink()
    target.rename(file)
    assert disk_cache.read(NAME) == BODY
    monkeypatch.setattr(disk_cache, "_USER", os.geteuid() + 1)
    assert disk_cache.read(NAME) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_never_read(home):
    disk_cache.write(NAME, BODY)
    os.chown(only(home), 1234, -1)
    assert disk_cache.read(NAME) is None


def test_a_folder_of_others_is_not_written_to(home):
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    disk_cache.write(NAME, BODY)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "link"])
def test_a_folder_that_cannot_be_used_is_no_error(tmp_path, place):
    if place == "file":
        (tmp_path / "code").touch()
    else:
        (tmp_path / "inner").mkdir(mode=0o700)
        (tmp_path / "code").symlink_to(tmp_path / "inner")
    with ftrace.config.update(cache_directory=str(tmp_path)):
        disk_cache.write(NAME, BODY)
        assert disk_cache.read(NAME) is None


def test_a_full_disk_and_an_interrupt_leave_nothing_behind(home, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    def interrupted(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", full)
    disk_cache.write(NAME, BODY)
    assert list(home.iterdir()) == []
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        disk_cache.write(NAME, BODY)
    assert list(home.iterdir()) == []


def test_what_was_not_used_for_longest_goes_first(home):
    names = [disk_cache.name_of("o", k) for k in range(4)]
    for age, name in enumerate(names[:3]):
        disk_cache.write(name, BODY)
        os.utime(home / name, (age + 1, age + 1))
    size = (home / names[0]).stat().st_size
    assert disk_cache.read(names[0])  # used now: the oldest is names[1]
    with ftrace.config.update(kernel_cache=3 * size):
        disk_cache.write(names[3], BODY)
    assert [disk_cache.read(name) is not None for name in names] == [True, False, True, True]


def test_what_is_not_of_the_cache_is_neither_counted_nor_deleted(home):
    first, second = (disk_cache.name_of("o", k) for k in range(2))
    disk_cache.write(first, BODY)
    foreign = home / "notes.txt"
    foreign.write_bytes(BODY * 100)
    os.utime(foreign, (1, 1))
    with ftrace.config.update(kernel_cache=2 * (home / first).stat().st_size):
        disk_cache._sizes.clear()
        disk_cache.write(second, BODY)
    assert foreign.exists()
    assert disk_cache.read(first)
    assert disk_cache.read(second)


def test_nothing_is_kept_or_read_if_the_setting_is_zero(home):
    disk_cache.write(NAME, BODY)
    with ftrace.config.update(kernel_cache=0):
        assert disk_cache.read(NAME) is None
        disk_cache.write(disk_cache.name_of("o", "b"), BODY)
    assert len(list(home.iterdir())) == 1


def test_the_folder_follows_the_systems_habits(monkeypatch, tmp_path):
    with ftrace.config.update(cache_directory=""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert disk_cache.folder() == tmp_path / "ftrace" / "code"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.delenv("LOCALAPPDATA", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(sys, "platform", "linux")
        assert disk_cache.folder() == tmp_path / ".cache" / "ftrace" / "code"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert disk_cache.folder() == tmp_path / "Library" / "Caches" / "ftrace" / "code"


PROGRAM = """
import numpy as np, sys, ftrace
from ftrace.cpu.llvm import machine_code
f = ftrace.jit(ftrace.grad(lambda x: np.sum(np.sin(x) * np.sort(x)) ** 2))
x = np.linspace(0, 1, 37)
print(f(x).tobytes().hex(), machine_code.translations())
"""


def started(home):
    environment = {**os.environ, "FTRACE_CACHE_DIRECTORY": str(home.parent)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_second_process_translates_nothing_compiled(home):
    """Nor do several at once disturb each other."""
    said = [process.communicate()[0].split() for process in [started(home) for _ in range(3)]]
    bits, translated = started(home).communicate()[0].split()
    assert translated == "0"
    assert {found[0] for found in said} == {bits}
    files = list(home.iterdir())
    assert len(files) >= 2  # the program and the entry
    for file in files:
        file.write_bytes(file.read_bytes()[:-9])  # all damaged: made again
    bits_again, translated = started(home).communicate()[0].split()
    assert (bits_again, translated) == (bits, str(len(files)))


def test_code_for_other_processors_and_levels_is_another_file_compiled(home):
    text = "define i32 @f() {\n  ret i32 7\n}\n"
    before = machine_code.translations()
    for level in (0, 2):
        for made_for in (machine_code.host("sse2"), machine_code.host("native")):
            for _ in range(2):
                machine_code.compile_module(text, {}, made_for, level)
    assert machine_code.translations() - before == 4
    assert len(list(home.iterdir())) == 4


def _number(n):
    return f"define i32 @f() {{\n  ret i32 {n}\n}}\n"


def _run(n):
    module = machine_code.compile_module(_number(n), {}, machine_code.host())
    return ctypes.CFUNCTYPE(ctypes.c_int)(module.address("f"))()


@pytest.mark.parametrize("how", ["writable", "linked", "cut", "not framed", "another user's"])
def test_planted_code_is_never_executed_compiled(home, tmp_path, how):
    assert _run(8) == 8
    file = only(home)
    file.unlink()
    assert _run(7) == 7
    only(home).rename(file)  # whole code of this user, and of another text: it would be run
    assert _run(8) == 7
    if how == "writable":
        file.chmod(0o620)
    elif how == "linked":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif how == "not framed":
        file.write_bytes(disk_cache.read(file.name) or b"")
    elif os.geteuid() == 0:
        os.chown(file, 1234, -1)
    else:
        pytest.skip("only root can give a file to another user")
    before = machine_code.translations()
    assert _run(8) == 8
    assert machine_code.translations() == before + 1
    assert _run(8) == 8  # what was planted has been replaced
    assert machine_code.translations() == before + 1


def test_the_command_shows_and_deletes(home, capsys):
    assert main(["cache"]) == 0
    assert "0 files of 0 bytes" in capsys.readouterr().out
    ftrace.jit(np.sin)(np.ones(3))
    disk_cache.write(NAME, BODY)
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(home) in shown
    assert f"{len(list(home.iterdir()))} files" in shown
    assert main(["cache", "--clear"]) == 0
    assert "deleted" in capsys.readouterr().out
    assert list(home.iterdir()) == []
    home.chmod(0o777)
    assert main(["cache"]) == 1
    assert "other users may write to it" in capsys.readouterr().out
