"""Which files are mutated, and which tests can notice a change: the likeliest first.

A change of a row, or of a function that rows use, is tried on the laws of these rows only. Who
uses whom is read from the sources: the names that each top-level definition mentions. A change of
a trace or of control flow is tried on the programs, one of the compiler on plans and kernels.
Each mutant has several *tiers* of tests; a tier runs where the ones before it noticed nothing.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tools.mutation.sources import COLUMNS, Mutant, mutants_of, row_of, sample

# (files, in a folder or in one of its rooms; how many mutants of one unit at least and at most, and
# one in how many of these); 0: with `--all` only. The first line that fits a file counts: oracles
# and printing are left out.
FILES = (
    ("ftrace/primitives/*.py", 1, 1, 1),
    ("ftrace/interpreters/*.py", 1, 3, 1),
    ("ftrace/control/*.py", 1, 3, 1),
    ("ftrace/core/trace.py", 1, 3, 1),
    ("ftrace/core/primitive.py", 1, 3, 1),
    ("ftrace/core/jaxpr.py", 1, 2, 1),
    ("ftrace/core/zero.py", 1, 1, 1),
    ("ftrace/core/tapes.py", 1, 2, 1),
    ("ftrace/core/scan_layout.py", 1, 2, 1),
    *((f"ftrace/{folder}/*.py", 1, 3, 1) for folder in ("lifting", "numpy", "random", "gpu")),
    *((f"ftrace/lowering/*/{n}.py", 0, 0, 1) for n in ("verify", "reference", "fold_trees")),
    *((f"ftrace/lowering/*/{n}.py", 0, 0, 1) for n in ("show", "cost", "ir")),
    ("ftrace/lowering/*/backends.py", 0, 0, 1),
    ("ftrace/lowering/*.py", 1, 1, 4),
    ("ftrace/cpu/*.py", 1, 1, 5),
)
LAWS = "tests/laws/test_"
# Rows of different kinds: elementwise, masked, of several results, moving, contracting, indexed.
MIXED = (
    "mul,div,select,max,sin,frexp,transpose,broadcast_in_dim,reduce_sum,reduce_prod,reshape,pad,"
    "concatenate,split,gather,scatter_add,dynamic_slice,sort,cumsum,dot_general"
)
# The files that most often notice a change of a module, by its name: of tests/programs, or where
# they say. A module whose own tests are not named here costs minutes a mutant, not seconds.
LIKELY = {
    "jvp": "boundaries confusion control captures",
    "batching": "boundaries confusion control",
    "partial": "control confusion caches captures",
    "linearize": "boundaries control captures",
    "transpose": "control strong_zeros",
    "tangents": "control strong_zeros",
    "staging": "boundaries control control_details caches",
    "captures": "boundaries captures",
    "dce": "control_details control",
    "budgets": "api/budgets api/checkpoint",
    "host_calls": "api/callbacks api/external",
    "checkpoint": "api/checkpoint api/budgets control control_details",
    "closures": "control_details api/custom_rules api/custom_vmap api/custom",
    "collectives": "control api/vmap",
    "cond": "control control_details loops strong_zeros switch",
    "custom_derivatives": "control control_details api/custom api/custom_rules",
    "custom_lin": "control api/custom_rules api/custom control_details",
    "batching_rule": "api/custom_vmap control_details",
    "functions": "control control_details caches",
    "directions": "api/vectorize",
    "guards": "caches",
    "jit": "control control_details loops lowering/pieces caches api/jit",
    "linear_call": "control_details api/external",
    "linear_solve": "api/linear_solve api/implicit api/custom_root",
    "linearity": "api/linearity api/custom_rules",
    "invariants": "lax/invariants loops",
    "user_loops": "control control_details loops core/tapes switch",
    "peak_memory": "api/budgets",
    "members": "api/callbacks control",
    "mincut": "api/residuals api/budgets",
    "partials": "api/vectorize",
    "policies": "api/checkpoint api/residuals api/budgets",
    "progress": "lax/progress",
    "revolve": "lax/binomial strong_zeros",
    "root": "api/custom_root api/implicit",
    "flat_rules": "control api/custom_rules api/custom control_details",
    "saving": "api/budgets api/checkpoint api/residuals",
    "scan": "loops control control_details strong_zeros",
    "scanning": "loops control",
    "solvers": "api/custom_root api/linear_solve api/implicit",
    "tapes": "core/tapes loops control cpu/tapes",
    "traces": "control_details caches",
    "trace": "boundaries concretization confusion",
    "primitive": "boundaries control_details",
    "jaxpr": "control control_details",
    "vectorized": "api/vectorize",
    "while_loop": "loops control control_details",
    "zero": "control strong_zeros",
    "cells": "mutation cells views",
    "views": "views mutation cells",
    "indexing": "mutation views cells",
    "assigning": "mutation views cells",
    "writers": "mutation views cells",
}
# The files of tests/lowering and tests/cpu that most often notice a change of the compiler.
COMPILER = {
    "elements": "lowering/test_rows lowering/test_split",
    "splitting": "lowering/test_split lowering/test_plan",
    "predication": "lowering/test_gate",
    "conditions": "lowering/test_gate",
    "traversal": "lowering/test_gate lowering/test_scalars lowering/test_split",
    "forwarding": "lowering/test_keeping lowering/test_plan",
    "small_loops": "lowering/test_small_loops lowering/test_scan_kernels",
    "loop_kernels": "lowering/test_small_loops lowering/test_scan_kernels",
    "interchange": "lowering/test_scan_kernels lowering/test_small_loops",
    "schedule": "lowering/test_short_rows lowering/test_verify lowering/test_plan",
    "build": "lowering/test_short_rows lowering/test_plan golden/test_kernels",
    "fuse": "lowering/test_short_rows lowering/test_fuse lowering/test_plan golden/test_kernels",
    "groups": "lowering/test_short_rows lowering/test_fuse lowering/test_plan golden/test_kernels",
    "small_products": "lowering/test_short_rows lowering/test_few_terms lowering/test_fuse",
    "contraction": "lowering/test_contraction cpu/test_products",
    "thread_sharing": "lowering/test_thread_sharing cpu/test_threads",
    "thread_regions": "cpu/test_threads cpu/test_emit",
    "counted_loops": "cpu/test_emit",
    "lane_loops": "cpu/test_emit cpu/test_threads",
    "thread_pool": "cpu/test_threads",
    "thread_pool_text": "cpu/test_threads",
    "launching": "cpu/test_threads cpu/test_steps lowering/test_plan",
    "column_sums": "lowering/test_columns",
    "main": "cpu/test_launch cpu/test_steps",
    "native_launch": "cpu/test_launch cpu/test_steps",
    "python_rows": "cpu/test_steps cpu/test_launch",
    "entry": "cpu/test_launch cpu/test_steps",
    "entry_text": "cpu/test_launch cpu/test_steps",
    "machine_code": "cpu/test_compile cpu/test_launch",
    "llvm_spelling": "cpu/test_spelling cpu/test_emit",
    "division": "cpu/test_spelling cpu/test_emit",
    "casts": "cpu/test_spelling cpu/test_emit",
    "rounding": "cpu/test_spelling cpu/test_emit",
}
# Folders with tests of their own, and where else a change of them shows.
OWN = {
    "lifting": ("tests/programs/test_*.py", "tests/api/test_*.py"),
    "numpy": ("tests/programs/test_*.py", "tests/lifting/test_*.py", "tests/laws/test_jit.py"),
    "random": ("tests/laws/test_jit.py", "tests/programs/test_compiled.py"),
    "gpu": ("tests/benchmarks/test_*.py",),
}
# Folders whose mutants are tried on the tests that run the changed statement (`serving.py`).
RECORDED = (*OWN, "control")
# Slow, or about something else than what is mutated.
LEFT_OUT = ("tests/programs/test_demo.py",)


@dataclass(frozen=True, slots=True)
class Tier:
    """Test files to run, restricted to some rows where they are generated from rows.

    Single tests are left out (`without`), or the others are (`names`). A `whole` tier goes on
    after a failure, however long it takes.
    """

    files: tuple[str, ...]
    rows: str | None = None
    fast: bool = False
    without: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    whole: bool = False


def sources(root: Path) -> dict[str, str]:
    """The mutated files and their texts."""
    paths = sorted(p.relative_to(root).as_posix() for p in (root / "ftrace").rglob("*.py"))
    return {p: (root / p).read_text(encoding="utf-8") for p in paths if _numbers(p) is not None}


def _numbers(path: str) -> Any:
    """The numbers of the line of `FILES` that fits a file, if one does."""
    return next((rest for pattern, *rest in FILES if fnmatch(path, pattern)), None)


def mutants(texts: dict[str, str], *, every: bool = False) -> list[Mutant]:
    """The sample of mutants, or every one, in the order of files and places."""
    found: list[Mutant] = []
    for path, text in texts.items():
        these, (wanted, most, part) = mutants_of(path, text), _numbers(path)
        found += these if every else sample(these, wanted, most)[::part]
    return found


# ---------------------------------------------------------------------------------- who uses whom

Name = tuple[str, str]  # (module, top-level name)


class Uses:
    """Which rows mention a definition of `ftrace/primitives`, directly or through others."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.users: dict[Name, list[Name]] = defaultdict(list)
        self.rows: dict[Name, str] = {}
        for path, text in texts.items():
            if path.startswith("ftrace/primitives/"):
                self._read(Path(path).stem, ast.parse(text))

    def _read(self, module: str, tree: ast.Module) -> None:
        imported = dict(_imports(tree))
        for node in tree.body:
            name = _defined(node)
            if name is None:
                continue
            row = row_of(node)
            if row:
                self.rows[module, name] = row
            for used in _mentioned(node, module, imported):
                if used != (module, name):
                    self.users[used].append((module, name))

    def rows_reached(self, module: str, name: str) -> list[list[str]]:
        """The rows that a change of a definition can reach, those nearest to it first."""
        level, seen = [(module, name)], {(module, name)}
        found: list[list[str]] = []
        while level:
            rows = [self.rows[n] for n in level if n in self.rows]
            if rows:
                found.append(rows)
            level = list(dict.fromkeys(u for n in level for u in self.users[n] if u not in seen))
            seen.update(level)
        return found


def _imports(tree: ast.Module) -> Iterator[tuple[str, Name]]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            package, _, module = node.module.rpartition(".")
            for a in node.names:
                if package == "ftrace.primitives":
                    yield a.asname or a.name, (module, a.name)
                elif node.module == "ftrace.primitives":
                    yield a.asname or a.name, (a.name, "")


def _defined(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def _mentioned(node: ast.AST, module: str, imported: dict[str, Name]) -> set[Name]:
    found: set[Name] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(imported.get(part.id, (module, part.id)))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            home = imported.get(part.value.id)
            if home and not home[1]:
                found.add((home[0], part.attr))
    return found


def spread(levels: Sequence[Sequence[str]], count: int) -> list[str]:
    """Some rows of some levels: near ones first, evenly spaced within a level."""
    chosen: list[str] = []
    for level in levels:
        room = count - len(chosen)
        if len(level) <= room:
            chosen += level
        elif room > 0:
            chosen += [level[i * len(level) // room] for i in range(room)]
    return chosen


# ---------------------------------------------------------------------------------- tiers


def tiers(mutant: Mutant, uses: Uses, root: Path) -> list[Tier]:
    """The tests to try a mutant on."""
    programs = _existing(root, "tests/programs/test_*.py")
    others = _existing(
        root,
        "tests/numpy/test_*.py",
        "tests/core/test_*.py",
        "tests/primitives/*.py",
        "tests/golden/*.py",
    )
    laws = _existing(root, f"{LAWS}*.py")
    folder = mutant.path.split("/")[1]
    if folder in OWN:
        return _tiers_of_folder(mutant, folder, root)
    if mutant.path.startswith(("ftrace/lowering/", "ftrace/cpu/", "ftrace/primitives/elements")):
        return _tiers_of_compiler(mutant, root)  # elements.py: the rows' columns for kernels
    if mutant.path.startswith("ftrace/primitives/"):
        return _tiers_of_row(mutant, uses, laws, (*others, *programs))
    public = _existing(root, "tests/api/test_*.py", "tests/lax/test_*.py", "tests/test_*.py")
    likely = _likely(mutant)
    generated = [f for f in laws if f.endswith(("squares.py", "jit.py", "survivors.py"))]
    rest = [f for f in (*programs, *others) if f not in likely]
    return [
        Tier(likely[:1], fast=True),
        Tier((*likely[1:], "tests/golden/test_errors.py"), fast=True),
        Tier(tuple(generated), "mul,select,frexp,sort,reduce_prod,dot_general", fast=True),
        Tier(tuple(f for f in public if f not in likely), fast=True),
        Tier(likely),
        Tier(tuple(f for f in rest if "numpy" not in f and "primitives" not in f)),
        Tier(laws, MIXED, fast=True),
        Tier(tuple(f for f in rest if "numpy" in f or "primitives" in f)),
    ]


def _tiers_of_folder(mutant: Mutant, folder: str, root: Path) -> list[Tier]:
    """The folder's own tests, those first that name what the module defines; then the others."""
    own = _existing(root, f"tests/{folder}/test_*.py", *_named(LIKELY.get(_stem(mutant), "")))
    words = _words(mutant.path, (root / mutant.path).read_text(encoding="utf-8"))
    texts = {f: (root / f).read_text(encoding="utf-8") for f in own}
    share = {f: sum(t.count(w) for w in words) / (1000 + len(t)) for f, t in texts.items()}
    own = tuple(sorted(own, key=lambda f: -share[f]))
    others = tuple(f for f in _existing(root, *OWN[folder]) if f not in own)
    return [
        Tier(own[:1], fast=True),
        Tier(own[1:3], fast=True),
        Tier(own[3:], fast=True),
        Tier(others, MIXED, fast=True),
        Tier(own),
    ]


def _stem(mutant: Mutant) -> str:
    return Path(mutant.path).stem


def _words(path: str, text: str) -> list[str]:
    """What a test of a module says: its name, and those of its functions and classes."""
    defined = (_defined(node) for node in ast.parse(text).body)
    module = path.removesuffix(".py").replace("/", ".")
    package, _, stem = module.rpartition(".")
    return [module, f"{package} import {stem}", *(n for n in defined if n and len(n) > 3)]


def _named(names: str) -> list[str]:
    paths = (name if "/" in name else f"programs/{name}" for name in names.split())
    return ["tests/{}/test_{}.py".format(*path.split("/")) for path in paths]


def _likely(mutant: Mutant) -> tuple[str, ...]:
    return tuple(_named(LIKELY.get(_stem(mutant), "confusion")))


def _tiers_of_row(
    mutant: Mutant, uses: Uses, laws: tuple[str, ...], others: tuple[str, ...]
) -> list[Tier]:
    name, _, column = mutant.unit.partition(".")
    levels = uses.rows_reached(Path(mutant.path).stem, name)
    if levels and column:
        levels = [levels[0][:1], *levels[1:]]
    first = "vmap" if "batch" in mutant.unit else "evaluation"
    if "jvp" in mutant.unit or "transpose" in mutant.unit:
        first = "derivatives"
    likely = [f"{LAWS}{n}.py" for n in dict.fromkeys((first, "transpose", "derivatives"))][:2]
    near = ",".join(spread(levels, 1 if column else 4))
    rest = tuple(f for f in laws if f not in likely)
    return [
        Tier(tuple(likely), near),
        Tier(rest, near),
        Tier(tuple(f for f in others if "primitives" in f or "numpy" in f)),
        Tier(laws, ",".join(spread(levels, 16)), fast=True),
        Tier(tuple(f for f in others if "primitives" not in f and "numpy" not in f)),
    ]


def _tiers_of_compiler(mutant: Mutant, root: Path) -> list[Tier]:
    """Plans and printed kernels, or emitted code; then what is compiled and run."""
    lowering = _existing(root, "tests/lowering/test_*.py")
    native = _existing(root, "tests/cpu/test_*.py")
    plans = "lowering/test_fuse lowering/test_plan golden/test_kernels"
    usual = plans if "lowering" in mutant.path else "cpu/test_emit cpu/test_launch"
    names = COMPILER.get(Path(mutant.path).stem, usual).split()
    likely = tuple(f"tests/{name}.py" for name in names)
    called = tuple(f"tests/cpu/test_{name}.py" for name in ("launch", "steps"))
    own, others = (lowering, called) if "lowering" in mutant.path else (native, ())
    return [
        Tier(likely),
        Tier(("tests/programs/test_compiled.py",), fast=True),
        Tier(tuple(f for f in own if f not in likely), MIXED, fast=True),
        Tier((f"{LAWS}jit.py",), MIXED, fast=True),
        *([Tier(others, fast=True)] if others else []),
    ]


def unchanged(root: Path) -> Tier:
    """What must pass before any change: all but the laws, whose failures are looked at later."""
    folders = ("programs", "api", "lax", "numpy", "core", "primitives", "golden", "lowering", "cpu")
    names = (*folders, "lifting", "random", "gpu")
    return Tier(_existing(root, *(f"tests/{f}/test_*.py" for f in names)), whole=True)


def _existing(root: Path, *patterns: str) -> tuple[str, ...]:
    found = (p.relative_to(root).as_posix() for pattern in patterns for p in root.glob(pattern))
    return tuple(sorted(f for f in found if f not in LEFT_OUT and Path(f).name.startswith("test_")))


def uncovered(chosen: Sequence[Mutant], uses: Uses) -> list[str]:
    """Rows without a mutant of one of their rules, or of a function that only few rows share."""
    reached: set[str] = set()
    for m in chosen:
        name, _, column = m.unit.partition(".")
        if m.path.startswith("ftrace/primitives/") and column in (*COLUMNS, "impl", "out", ""):
            for level in uses.rows_reached(Path(m.path).stem, name)[:1]:
                reached.update(level if len(level) <= 4 else ())
    return sorted(set(uses.rows.values()) - reached)
