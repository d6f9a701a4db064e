"""Lines per folder, and the limits on files and functions.

Prints a table of lines by folder and the change since the branch main. Exits 1 when a file outside
the tests has more than 600 lines, or a function more than 60, and lists those above the softer aims
(400 and 40); also when a folder of the compiler holds more than 12 files, and when two files or
two public classes of ftrace have one name. Counts what git would commit: tracked files and new ones
that are not ignored.
"""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

FILE_AIM, FILE_LIMIT = 400, 600
FUNCTION_AIM, FUNCTION_LIMIT = 40, 60
ROOMS, ROOM_LIMIT = ("lowering", "cpu", "gpu", "control", "lifting", "api"), 12
ROOT = Path(__file__).resolve().parent.parent


def python_files(root: Path) -> list[Path]:
    """Python files of the repository; without git, all outside hidden and build folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [Path(name) for name in listed.stdout.splitlines()]
    else:
        names = [path.relative_to(root) for path in root.rglob("*.py")]
    hidden = ("build", "dist")
    kept = (p for p in names if p.parts[0] not in hidden and not p.parts[0].startswith("."))
    return sorted(path for path in kept if (root / path).is_file())


def functions(source: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, number of lines) of each function, its docstring not counted."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield node.name, node.lineno, last - node.lineno + 1 - _docstring_lines(node)


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def excesses(path: Path, source: str, limits: tuple[int, int]) -> Iterator[str]:
    """Sentences about a file and its functions that are longer than (file, function) limits."""
    if path.parts[0] == "tests":
        return
    file_limit, function_limit = limits
    lines = source.count("\n")
    if lines > file_limit:
        yield f"{path}: {lines} lines, more than {file_limit}"
    for name, line, length in functions(source):
        if length > function_limit:
            yield f"{path}:{line}: {name} has {length} lines, more than {function_limit}"


def misplaced(paths: Sequence[Path]) -> Iterator[str]:
    """Sentences about folders with too many files, and about names that two files have.

    What lies in `ftrace` itself only exports, under the names of what it exports.
    """
    files = [p for p in paths if p.parts[0] == "ftrace" and not p.name.startswith("__")]
    rooms = Counter(p.parent for p in files if p.parts[1] in ROOMS)
    for room, count in sorted(rooms.items()):
        if count > ROOM_LIMIT:
            yield f"{room}: {count} files, more than {ROOM_LIMIT}"
    homes: dict[str, list[str]] = defaultdict(list)
    for p in files:
        if len(p.parts) > 2:
            homes[p.name].append(str(p))
    yield from _shared(homes, "files")


def namesakes(sources: Mapping[Path, str]) -> Iterator[str]:
    """Sentences about names that two public classes of ftrace have."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path, source in sources.items():
        if path.parts[0] == "ftrace":
            for node in ast.parse(source).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(f"{path}:{node.lineno}")
    yield from _shared(homes, "classes")


def _shared(homes: Mapping[str, Sequence[str]], what: str) -> Iterator[str]:
    for name, places in homes.items():
        if len(places) > 1:
            yield f"{what} called {name}: {', '.join(places)}"


def folder(path: Path) -> str:
    """The row of the table that a file belongs to: `ftrace/core`, `tests/laws`, `tools`."""
    parts = path.parts[:-1]
    return "/".join(parts[:2]) or "."


def committed_lines(root: Path, branch: str = "main") -> dict[str, int]:
    """Lines by folder at the head of a branch; empty without git or without the branch."""
    command = ["git", "grep", "--count", "", branch, "--", "*.py"]
    counted = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    lines: dict[str, int] = defaultdict(int)
    for row in counted.stdout.splitlines():
        _, name, count = row.split(":")
        lines[folder(Path(name))] += int(count)
    return lines


def print_table(lines: dict[str, int], before: dict[str, int]) -> None:
    """One row for each folder, then the package and everything."""
    for name in sorted({*lines, *before}):
        print_row(name, lines.get(name, 0), before.get(name, 0) if before else None)
    for title, prefix in (("package", "ftrace"), ("all", "")):
        now, then = (
            sum(
                count for name, count in table.items() if name.split("/")[0] == prefix or not prefix
            )
            for table in (lines, before)
        )
        print_row(title, now, then if before else None)


def print_row(title: str, now: int, then: int | None) -> None:
    """A title, a count, and the change where there is something to compare with."""
    change = "" if then is None or now == then else f"{now - then:>+8}"
    print(f"{title:<24}{now:>8} lines{change}")


def report(root: Path) -> int:
    """Print the table and the excesses; the number of broken limits."""
    lines: dict[str, int] = defaultdict(int)
    above_aim: list[str] = []
    sources = {p: (root / p).read_text(encoding="utf-8") for p in python_files(root)}
    broken = [*misplaced(list(sources)), *namesakes(sources)]
    for path, source in sources.items():
        lines[folder(path)] += source.count("\n")
        over = list(excesses(path, source, (FILE_LIMIT, FUNCTION_LIMIT)))
        broken += over
        if not over:
            above_aim += excesses(path, source, (FILE_AIM, FUNCTION_AIM))
    print_table(lines, committed_lines(root))
    for title, sentences in (("above the aim", above_aim), ("NOT ALLOWED", broken)):
        for sentence in sentences:
            print(f"{title}: {sentence}")
    return len(broken)


if __name__ == "__main__":
    sys.exit(1 if report(ROOT) else 0)
