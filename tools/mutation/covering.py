"""Which tests run which statement: recorded once, and asked to find the tests for a mutant.

The sources are compiled with a mark before each statement of a function. Each test file runs in a
forked child of a process that has collected all tests, so that what one file has compiled or
remembered hides nothing from the next. A statement is named by its text, so that a record outlives
edits elsewhere in the file.
"""

import ast
import builtins
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import CodeType
from typing import Any

from tools.mutation.sources import Mutant

MARKS = "_marks_of_mutation"
# Seconds that tests, and their other cases, take unchanged: those that a mutant is tried on first,
# and then, when all mutants were tried.
GRANTED = (2.0, 1.0), (30.0, 10.0)


def statements(node: ast.AST, *, inside: bool = False) -> Iterator[tuple[list[ast.stmt], int]]:
    """(block, index) of every statement of a function, outer ones before those in them."""
    inside = inside or isinstance(node, ast.FunctionDef)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and inside:
            yield from ((block, i) for i in range(len(block)))
    for child in ast.iter_child_nodes(node):
        yield from statements(child, inside=inside)


def name_of(path: str, statement: ast.stmt) -> str:
    """What a record calls a statement."""
    return f"{path}:{zlib.crc32(ast.unparse(statement).encode()):08x}"


class Marking:
    """Compiles sources with marks; knows which statements were run since it was last asked."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.marks: dict[int, None] = {}
        setattr(builtins, MARKS, self.marks)

    def code(self, path: str, text: str, file: str) -> CodeType:
        """The code of a module, which marks what runs."""
        tree = ast.parse(text)
        places = [(block, i, block[i]) for block, i in statements(tree)]
        names = [name_of(path, statement) for _, _, statement in places]
        for (block, i, statement), name in reversed(list(zip(places, names, strict=True))):
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                mark = ast.parse(f"{MARKS}[{len(self.names)}] = None").body[0]
                for node in ast.walk(mark):
                    ast.copy_location(node, statement)
                self.names.append(name)
                block.insert(i, mark)
        return compile(tree, file, "exec", dont_inherit=True)

    def run(self) -> list[str]:
        """The statements that were run since the last time."""
        found = sorted({self.names[i] for i in self.marks})
        self.marks.clear()
        return found


# ---------------------------------------------------------------------------------- the record


@dataclass(slots=True)
class Record:
    """Which tests run a statement of some sources, how long they take, what importing runs."""

    paths: frozenset[str]
    chosen: list[str] = field(default_factory=list)  # the test files that count
    tests: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, float] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    files: dict[str, int] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def read(self, path: Path) -> None:
        """Add what a file says of chosen test files: a line for each, of which the last counts."""
        lines: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            lines[line.partition(",")[0]] = line
        for line in lines.values():
            if line[10 : line.index('",')] in self.chosen:  # {"file": "tests/...",
                self.add(json.loads(line))

    def add(self, line: dict[str, Any]) -> None:
        """What one test file ran; not what failed without any change."""
        self.files[line["file"]] = line["crc"]
        self.imported.update(line.get("imported", ()))
        names = line["statements"]
        ours = {i for i, name in enumerate(names) if name.partition(":")[0] in self.paths}
        for test, (seconds, found) in line["tests"].items():
            self.seconds[test] = seconds
            for i in ours.intersection(found):
                self.tests[names[i]].append(test)

    def of(self, mutant: Mutant, text: str) -> str | None:
        """The statement that a mutant changes, if it is one of a function."""
        found = None
        for block, i in statements(ast.parse(text)):
            first, last = block[i].lineno, block[i].end_lineno or 0
            if first <= mutant.line <= last:
                found = block[i]
        return found and name_of(mutant.path, found)

    def likely(self, statement: str, unit: str, turn: int = 1) -> list[str]:
        """Tests that run a statement: of each function with tests first one, the short ones first.

        Those that noticed a change of the same unit come before all others. Other cases of these
        functions come last: they may have found remembered what the statement makes.
        """
        found = sorted(self.tests.get(statement, ()), key=self._cost)
        near, far = self._spread(found, unit), self._spread(self._others(found))
        parts = zip((near, far), GRANTED[turn], strict=True)
        return list(dict.fromkeys(t for tests, most in parts for t in self._granted(tests, most)))

    def _others(self, tests: Sequence[str]) -> list[str]:
        functions = {t.partition("[")[0] for t in tests}
        return [t for t in self.seconds if t.partition("[")[0] in functions]

    def _spread(self, tests: Sequence[str], unit: str = "") -> list[str]:
        ranks: dict[str, Iterator[int]] = defaultdict(count)
        place = {t: (next(ranks[t.partition("[")[0]]) // 2, self._cost(t)) for t in tests}
        return sorted(tests, key=lambda t: (-self.kills.get(f"{unit} {t}", 0), place[t]))

    def _cost(self, test: str) -> float:
        return (self.seconds[test] + 0.02) / (1 + self.kills.get(test, 0))

    def _granted(self, tests: Iterable[str], left: float) -> Iterator[str]:
        for test in tests:
            if left > 0:
                yield test
            left -= self.seconds[test]

    def killed(self, test: str, unit: str) -> None:
        """Remember what noticed a change: it may notice the next one, too."""
        self.kills[test] += 1
        self.kills[f"{unit} {test}"] += 1


def by_file(names: Sequence[str]) -> dict[str, list[str]]:
    """Tests by their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[name.partition("::")[0]].append(name)
    return found


def digest(root: Path, file: str) -> int:
    """What a test file's line of a record is good for."""
    return zlib.crc32((root / file).read_bytes())
