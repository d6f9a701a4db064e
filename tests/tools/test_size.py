"""The size report counts what it says and fails where it must."""

import subprocess

import pytest

from tools import size


@pytest.fixture
def project(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    write("ftrace/core/small.py", "x = 1\n" * 10)
    write("tests/test_small.py", "x = 1\n" * 5)
    return tmp_path, write


def function(lines, docstring=0):
    text = '    """' + "word\n" * (docstring - 1) + '"""\n' if docstring else ""
    return "def f():\n" + text + "    x = 1\n" * (lines - 1)


def test_lines_are_summed_by_folder(project, capsys):
    root, _ = project
    assert size.report(root) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["ftrace/core", "10", "lines"] in rows
    assert ["package", "10", "lines"] in rows
    assert ["all", "15", "lines"] in rows


def test_a_file_above_the_limit_fails(project, capsys):
    root, write = project
    write("ftrace/core/long.py", "x = 1\n" * 601)
    assert size.report(root) == 1
    assert "NOT ALLOWED: ftrace/core/long.py: 601 lines, more than 600" in capsys.readouterr().out


def test_a_file_above_the_aim_is_only_mentioned(project, capsys):
    root, write = project
    write("ftrace/core/longish.py", "x = 1\n" * 401)
    assert size.report(root) == 0
    assert "above the aim: ftrace/core/longish.py: 401 lines" in capsys.readouterr().out


def test_a_function_above_the_limit_fails_with_its_line(project, capsys):
    root, write = project
    write("tools/long.py", "\n" + function(61))
    assert size.report(root) == 1
    assert "tools/long.py:2: f has 61 lines, more than 60" in capsys.readouterr().out


def test_docstrings_do_not_count_towards_the_length_of_a_function(project):
    root, write = project
    write("ftrace/documented.py", function(30, docstring=50))
    assert size.report(root) == 0
    assert list(size.functions(function(30, docstring=50))) == [("f", 1, 30)]


def test_tests_may_be_long(project):
    root, write = project
    write("tests/test_long.py", function(700))
    assert size.report(root) == 0


def test_the_change_since_main_is_shown(project, capsys):
    root, write = project
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-b", "main"], ["add", "."], [*who, "commit", "-m", "first"]):
        subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)
    write("ftrace/core/small.py", "x = 1\n" * 7)
    write("ftrace/api/new.py", "x = 1\n" * 4)
    assert size.report(root) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["ftrace/core", "7", "lines", "-3"] in rows
    assert ["ftrace/api", "4", "lines", "+4"] in rows
    assert ["tests", "5", "lines"] in rows
    assert ["package", "11", "lines", "+1"] in rows


def test_a_crowded_folder_of_the_compiler_fails(project, capsys):
    root, write = project
    for i in range(12):
        write(f"ftrace/gpu/emit/part{i}.py", "")
        write(f"ftrace/numpy/more{i}.py", "")
    write("ftrace/gpu/emit/__init__.py", "")
    write("ftrace/numpy/last.py", "")
    assert size.report(root) == 0
    write("ftrace/gpu/emit/last_part.py", "")
    assert size.report(root) == 1
    assert "ftrace/gpu/emit: 13 files, more than 12" in capsys.readouterr().out


def test_two_files_of_one_name_fail(project, capsys):
    root, write = project
    write("ftrace/small.py", "")  # exports
    write("ftrace/core/__init__.py", "")
    write("ftrace/gpu/__init__.py", "")
    assert size.report(root) == 0
    write("ftrace/gpu/small.py", "")
    assert size.report(root) == 1
    same = "files called small.py: ftrace/core/small.py, ftrace/gpu/small.py"
    assert same in capsys.readouterr().out


def test_two_public_classes_of_one_name_fail(project, capsys):
    root, write = project
    write("ftrace/core/shapes.py", "class Square:\n    class Side: ...\n\nclass _Own: ...\n")
    write("ftrace/gpu/sides.py", "class Side: ...\n\nclass _Own: ...\n")
    assert size.report(root) == 0
    write("ftrace/gpu/squares.py", "\nclass Square: ...\n")
    assert size.report(root) == 1
    same = "classes called Square: ftrace/core/shapes.py:1, ftrace/gpu/squares.py:2"
    assert same in capsys.readouterr().out
