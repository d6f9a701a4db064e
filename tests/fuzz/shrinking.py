"""Makes a finding small: takes away statements and parts of expressions while it stays.

Works on the syntax trees of both modules of a program, and on nothing that the checks call.
Read next: `machine.py`.
"""

import ast
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.fuzz.checking import Outcome
from tests.fuzz.modules import BORDER

KEPT = {"f", "arguments"}


@dataclass
class Edit:
    """One change of a tree, made and taken back: a slice of a list, or a field of a node."""

    target: Any
    place: Any
    new: Any

    def swap(self) -> None:
        """Make the change; again: take it back."""
        if isinstance(self.target, list):
            i, j = self.place
            old = self.target[i:j]
            self.target[i:j] = self.new
            self.place = (i, i + len(self.new))
        else:
            old = getattr(self.target, self.place)
            setattr(self.target, self.place, self.new)
        self.new = old


def kind_of(o: Outcome) -> tuple[str, str]:
    """What findings that are taken for one have in common: for a value where, for an error what."""
    if o.verdict == "mismatch":
        return re.sub(r"\d$", lambda m: str(min(1, int(m[0]))), o.check), o.reason.split(" ")[0]
    words = re.sub(r"[-+.\w]*\d[-+.\w]*|\[.*?\]|<.*?>|['`].*?['`]", "#", o.reason).split()
    return o.verdict, " ".join(words[: 4 if o.verdict == "crash" else 9])


def inner(s: ast.stmt) -> list[ast.stmt]:
    """The statements inside a compound one, which may stand in its place."""
    if isinstance(s, ast.FunctionDef | ast.ClassDef):
        return []
    parts = [*getattr(s, "body", []), *getattr(s, "orelse", []), *getattr(s, "finalbody", [])]
    return [p for p in parts if isinstance(p, ast.stmt)]


def edits_of_statements(tree: ast.AST) -> Iterator[Edit]:
    """Statements away, runs of them first, or a compound statement by what is inside."""
    names = ("body", "orelse", "finalbody")
    fields = [getattr(n, name, None) for n in ast.walk(tree) for name in names]
    bodies = [body for body in fields if isinstance(body, list) and body]
    for body in bodies:
        for size in (8, 4, 2, 1):
            for i in range(len(body) - size, -1, -1):
                these = body[i : i + size]
                rest = [] if len(body) > size else [ast.Pass()]
                if not any(
                    getattr(s, "name", "") in KEPT or isinstance(s, ast.Pass) for s in these
                ):
                    yield Edit(body, (i, i + size), rest)
                elif size == 1 and len(body) > 1 and isinstance(these[0], ast.Pass):
                    yield Edit(body, (i, i + 1), [])
    for body in bodies:
        for i, s in enumerate(body):
            if inner(s):
                yield Edit(body, (i, i + 1), inner(s))
            if getattr(s, "orelse", None):
                yield Edit(s, "orelse", [])


def edits_of_expressions(tree: ast.AST) -> Iterator[Edit]:
    """An expression by one of its parts, or by a number."""
    for node in list(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            for i, e in enumerate(values):
                if not isinstance(e, ast.expr) or isinstance(getattr(e, "ctx", None), ast.Store):
                    continue
                listed = isinstance(value, list)
                if listed and len(value) > 1 and name in ("args", "elts"):
                    yield Edit(value, (i, i + 1), [])
                parts = [p for p in ast.iter_child_nodes(e) if isinstance(p, ast.expr)]
                if not isinstance(e, ast.Constant | ast.Name):
                    parts.insert(0, ast.Constant(1.5))
                for part in parts:
                    yield Edit(value, (i, i + 1), [part]) if listed else Edit(node, name, part)


def unparsed(tree: ast.AST) -> str:
    """The text of a changed tree; empty where it is no program."""
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a number that is called or indexed
            compile(text, "", "exec")
    except (SyntaxWarning, SyntaxError, AttributeError, ValueError, TypeError):
        return ""
    return text


def candidates(text: str) -> Iterator[tuple[int, str]]:
    """Smaller programs, with their place in the order of edits."""
    parts = text.split(f"\n{BORDER}\n")
    place = 0
    for edits in (edits_of_statements, edits_of_expressions):
        for which, part in enumerate(parts):
            tree = ast.parse(part)
            for edit in list(edits(tree)):
                place += 1
                edit.swap()
                changed = unparsed(tree)
                edit.swap()
                if changed and len(changed) < len(part):
                    news = [changed if k == which else p for k, p in enumerate(parts)]
                    yield place, f"\n{BORDER}\n".join(news)


def shrink(text: str, persists: Callable[[str], bool], seconds: float) -> str:
    """The smallest program found in some time that still shows the finding."""
    end = time.monotonic() + seconds
    text = f"\n{BORDER}\n".join(ast.unparse(ast.parse(p)) for p in text.split(BORDER))
    start = 0
    while time.monotonic() < end:
        for place, smaller in candidates(text):
            if place >= start and persists(smaller):
                text, start = smaller, place
                break
            if time.monotonic() > end:
                break
        else:
            if start == 0:
                break
            start = 0
    return text
