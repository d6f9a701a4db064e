"""The table of support, `docs/support.md`: primitive, transformation, device, found by planning.

`python -m tools.support` writes it. Nothing in it is written by hand: every sample of every row is
transformed and planned for both devices, and the steps of the plan say whether a kernel does it.
Rows that a plan leaves to CuPy are evaluated on arrays that answer as CuPy's do
(tests/gpu/spies.py), which also tells the functions that are called. It needs CuPy, but no GPU.
"""

import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import cupy
import cupyx.scipy.special
import numpy as np
import scipy.special

import ftrace
from ftrace.core.avals import TYPEOF, ShapedArray, typeof
from ftrace.core.errors import FtraceError, RuleError
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal
from ftrace.core.kinds import way
from ftrace.core.lower import Refusal
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive
from ftrace.gpu.eager import cupy_library, library_products
from ftrace.gpu.gpu_backend import MACHINE
from ftrace.lowering.fusion.inline import is_one_program
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import (
    Apply,
    BranchStep,
    Callback,
    Copy,
    Look,
    Multiply,
    Program,
    Repeat,
    Scan,
    every,
)
from ftrace.primitives import table
from ftrace.primitives.scipy_functions import FUNCTIONS, scipy_name
from tests.gpu import spies
from tests.gpu.lacking import has_function
from tests.gpu.test_laws import mapped, pulled, pushed, values
from tests.laws.cases import Case
from tests.laws.test_squares import batched_args, vmapped
from tests.laws.test_vmap import stacked
from tools.higher_order import PROGRAMS, WITHIN
from tools.higher_order import Program as Sample

FILE: Final = Path(__file__).resolve().parent.parent / "docs" / "support.md"
DEVICES: Final = {
    "CPU": Machine(64, lambda: 2**31 - 1, loops=lambda loop, fails: True),
    "GPU": MACHINE,
}
LAWS: Final = {"value": values, "jvp": pushed, "transpose": pulled, "batch": mapped}
MEMBERS: Final = 3  # along the axis that is mapped
SHOWN: Final = 4  # functions of CuPy that a row's line names

KERNEL, STEPS, BLAS, LIBRARY, HOST, NAMED = "K", "S", "B", "L", "H", "E"
ORDER: Final = KERNEL + STEPS + BLAS + LIBRARY + HOST + NAMED
NONE: Final = "·"


# ---------------------------------------------------------------------------------- CuPy


@contextmanager
def recorded(names: list[str]) -> Generator[None]:
    """Let rows run on arrays that answer as CuPy's do, and note the functions that they call."""
    call = spies.call

    def noted(theirs: Any, ours: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(NAMES[id(theirs)])
        return call(theirs, ours, *args, **kwargs)

    def ours(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            names.append(OWN)
            return function(*args)

        return run

    def cublas() -> Any:
        names.append(PRODUCTS)
        return spies.Cublas(), lambda: 7

    class Matrices:
        """The functions of `cupyx.scipy.linalg`, by SciPy's."""

        def __getattr__(self, name: str) -> Any:
            names.append(f"scipy.linalg.{name}")
            return getattr(spies.LinearAlgebra, name)

    special = spies.Namespace(cupyx.scipy.special, scipy.special)
    with ExitStack() as stack:
        stack.enter_context(patch.object(cupy_library, "scipys_linear_algebra", Matrices))
        stack.enter_context(patch.object(spies, "call", noted))
        stack.enter_context(
            patch.object(cupy_library, "namespace", lambda: spies.Namespace(cupy, np))
        )
        stack.enter_context(patch.object(cupy_library, "special", lambda: special))
        for name in ("own", "added", "accumulated", "compiled"):
            stack.enter_context(patch.object(cupy_library, name, ours(getattr(spies, name))))
        stack.enter_context(patch.object(library_products, "cublas", cublas))
        stack.enter_context(patch.dict(TYPEOF, {spies.Spy: lambda x: typeof(x.memory)}))
        yield


def _names() -> dict[int, str]:
    """What functions of CuPy are called, by their identity: `sum` of `cupy`, `special.erf`."""
    modules = {"special.": cupyx.scipy.special, "fft.": cupy.fft, "linalg.": cupy.linalg, "": cupy}
    found: dict[int, str] = {}
    for prefix, module in modules.items():
        for name, function in vars(module).items():
            own = getattr(function, "__name__", "").rpartition("_")[2]
            if own == name.rpartition("_")[2] or id(function) not in found:  # not an alias
                found[id(function)] = f"{prefix}{name}"
    return found


NAMES: Final = _names()
OWN: Final = "a kernel of ours"
PRODUCTS: Final = "cuBLAS"
PASSING: Final = frozenset({"asarray", "array", "shape", "ndim"})  # that evaluate nothing


class Cupy:
    """Which functions of CuPy a row calls, and where it has none."""

    def __init__(self) -> None:
        self.names: dict[Primitive, list[str]] = {}
        self.refused: dict[Primitive, set[str]] = {}
        self._known: dict[Any, bool] = {}

    def does(self, row: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
        """Whether CuPy evaluates a row on these operands; what it calls is kept."""
        names: list[str] = []
        operands = [spies.Spy(a) if isinstance(a, np.ndarray | np.generic) else a for a in args]
        if not any(isinstance(a, spies.Spy) for a in operands):
            return True
        with recorded(names):
            try:
                with (
                    np.errstate(all="ignore"),
                    warnings.catch_warnings(action="ignore"),
                    suppress(np.linalg.LinAlgError),
                ):  # zeros are singular
                    cupy_library.evaluate(row, operands, params)
            except FtraceError:
                self.refused.setdefault(row, set()).add(kind_of(map(typeof, args)))
                return False
        found = self.names.setdefault(row, [])
        found.extend(n for n in dict.fromkeys(names) if n not in found)
        return True

    def runs(self, eqn: Eqn) -> bool:
        """Whether it evaluates an equation of a plan."""
        key = eqn.primitive, tuple(a.aval for a in eqn.invars), repr(eqn.params)
        if key not in self._known:
            args = [
                a.value if type(a) is Literal else np.zeros(a.aval.shape, a.aval.dtype)
                for a in eqn.invars
            ]
            self._known[key] = self.does(eqn.primitive, args, eqn.params)
        return self._known[key]


# ---------------------------------------------------------------------------------- plans


def ways(program: Program, device: str, theirs: Cupy) -> set[str]:
    """Who does the steps of a program."""
    found: set[str] = set()
    loops = [s for s in every(program.steps) if isinstance(s, Apply)]
    failing = {s for loop in loops for s in every(loop.fails)}
    for step in every(program.steps):
        if isinstance(step, Callback):
            eqn = program.callbacks[step.number].eqn
            if way(eqn.primitive, Refusal) or step in failing:
                continue  # it is only called to raise
            if eqn.primitive not in (*table.ALL, *table.LATE):
                found.add(HOST)
            elif device == "CPU" or theirs.runs(eqn):
                found.add(LIBRARY)
            else:
                found.add(NAMED)
        elif isinstance(step, Multiply | Apply):
            found.add(BLAS)
        elif isinstance(step, BranchStep | Repeat | Scan | Look):
            if not _refuses(step, program):
                found.add(STEPS)
        elif not isinstance(step, Copy):
            found.add(KERNEL)
    return found or {KERNEL}


def _refuses(step: Any, program: Program) -> bool:
    """Whether a branch does nothing but raise an error."""
    return isinstance(step, BranchStep) and all(
        isinstance(s, Callback) and way(program.callbacks[s.number].eqn.primitive, Refusal)
        for arm in step.arms
        for s in arm
    )


def ways_of(jaxpr: Jaxpr, device: str, theirs: Cupy) -> set[str]:
    """Who does a jaxpr on a device."""
    if not is_one_program(jaxpr):
        return {STEPS}
    return ways(plan(jaxpr, DEVICES[device]), device, theirs)


# ---------------------------------------------------------------------------------- the table


PLAIN, COMPLEX, BOOLEAN = "", "ℂ", "𝔹"


def kind_of(avals: Iterable[ShapedArray]) -> str:
    """Of numbers, complex ones, or booleans alone."""
    kinds = {a.dtype.kind for a in avals}
    return COMPLEX if "c" in kinds else BOOLEAN if kinds == {"b"} else PLAIN


class Cell:
    """Who does the samples of a row under a transformation, by the kind of their operands."""

    def __init__(self) -> None:
        self.ways: dict[str, set[str]] = {}

    def add(self, kind: str, ways: set[str]) -> None:
        """One more sample."""
        self.ways.setdefault(kind, set()).update(ways)

    @property
    def texts(self) -> dict[str, str]:
        """By kind, in order."""
        return {k: "".join(sorted(self.ways[k], key=ORDER.index)) for k in sorted(self.ways)}

    @property
    def first(self) -> str:
        """Of ordinary numbers, if there are such samples."""
        return next(iter(self.texts.values()), NONE)

    def __str__(self) -> str:
        others = [f"{k}{t}" for k, t in self.texts.items() if t != self.first]
        return " ".join([self.first, *others])


Line = dict[tuple[str, str], Cell]  # by (device, transformation)


def empty() -> Line:
    return {(device, law): Cell() for device in DEVICES for law in LAWS}


def transformed(case: Case, law: str) -> tuple[Any, Sequence[Any]] | None:
    """A sample under a transformation; None where there is nothing to transform."""
    if law in ("jvp", "transpose") and (
        case.row.jvp is NONDIFFERENTIABLE or not case.differentiable
    ):
        return None
    if law == "batch" and not any(d is not None for d in batched_args(case)[1]):
        dims = [0 if isinstance(x, np.ndarray | np.generic) else None for x in case.args]
        args = [stacked(x, d, MEMBERS) for x, d in zip(case.args, dims, strict=True)]
        return (vmapped(case.flat, dims), args) if 0 in dims else None
    return LAWS[law](case)


def line_of(row: Primitive, theirs: Cupy) -> Line:
    """The cells of a row of the table."""
    found = empty()
    for case in (Case(row, sample) for sample in row.samples()):
        theirs.does(row, case.args, case.sample.params)
        for law in LAWS:
            pair = transformed(case, law)
            if pair is not None:
                f, args = pair
                try:
                    jaxpr = ftrace.make_jaxpr(f)(*args)
                except RuleError:
                    for device in DEVICES:
                        found[device, law].add(kind_of(case.avals), {NAMED})
                    continue
                add(found, law, jaxpr, kind_of(case.avals), theirs)
    return found


def line_of_programs(samples: Iterable[Sample], theirs: Cupy) -> Line:
    """The cells of a row that holds jaxprs or functions, from programs that contain it."""
    found = empty()
    for sample in samples:
        for law, f, args in sample.transformed():
            add(found, law, ftrace.make_jaxpr(f)(*args), PLAIN, theirs)
    return found


def add(line: Line, law: str, jaxpr: Jaxpr, kind: str, theirs: Cupy) -> None:
    """One more program of a line."""
    for device in DEVICES:
        line[device, law].add(kind, ways_of(jaxpr, device, theirs))


def functions_of(row: Primitive, theirs: Cupy) -> str:
    """The functions of CuPy that evaluate a row."""
    names, refused = theirs.names.get(row), theirs.refused.get(row)
    if names is None:
        return "none" if refused else NONE
    if OWN in names:
        return OWN
    telling = [n for n in names if n not in PASSING] or names
    shown = ", ".join(f"`{n}`" for n in telling[:SHOWN]) or "views"
    more = ", …" if len(telling) > SHOWN else ""
    return f"{shown}{more}{f' (not {COMPLEX})' if refused == {COMPLEX} else ''}"


# ---------------------------------------------------------------------------------- the page

HEAD: Final = """\
# What is supported where

Made by `python -m tools.support` (`make golden`) with CuPy {version}: every sample of every row of
`ftrace/primitives` is transformed and planned for both devices, and the plan says who does it.
Nothing is written by hand, and no GPU is needed.

Columns are the row itself, its value and tangent (jvp), its cotangents with what they need of the
forward pass (transpose), and the row over one more axis (batch), as compiled by `jit`. The last
column is what evaluates the row on CuPy arrays outside of `jit`.

| | |
| --- | --- |
| K | a kernel of ours, fused with its neighbours |
| S | a branch or a loop over arrays: machine code on the CPU, Python that starts kernels on a GPU |
| B | called by machine code: BLAS for products, compiled loops of NumPy's and SciPy's |
| L | the library from the middle of a program: NumPy and SciPy on the CPU, CuPy on the GPU |
| H | a Python function that the row holds, called from the middle of a program |
| E | a named error that says what to do instead |
| · | nothing to do: no derivative, no array operand |
| {complex}, {boolean} | samples of complex numbers, of booleans alone, where they differ |

{summary}
"""
COLUMNS: Final = "| | CPU | jvp | transpose | batch | GPU | jvp | transpose | batch | by CuPy |"
RULE: Final = "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"


def page() -> str:
    """The text of the file."""
    theirs = Cupy()
    lines = {row: line_of(row, theirs) for row in table.ALL}
    sections = [
        HEAD.format(
            version=cupy.__version__,
            summary=summary(lines),
            complex=COMPLEX,
            boolean=BOOLEAN,
        )
    ]
    shown = [
        shown_line(f"`{row.name}`", lines[row], functions_of(row, theirs))
        for row in sorted(table.ALL, key=lambda row: row.name)
    ]
    sections.append("\n".join([COLUMNS, RULE, *shown, ""]))
    held = [
        shown_line(f"`{name}`", line_of_programs(samples, theirs), NONE)
        for name, samples in PROGRAMS.items()
    ]
    text = "They have no samples; each is planned in the programs of `tools/higher_order.py`."
    sections.append(
        "\n".join(["## Rows that hold programs or functions", "", text, "", COLUMNS, RULE, *held])
    )
    rest = [f"- `{name}`: {why}." for name, why in WITHIN.items()]
    sections.append("\n".join(["", "In no line of their own:", "", *rest, ""]))
    return "\n".join(sections)


def shown_line(name: str, line: Line, last: str) -> str:
    """A line of the table."""
    return f"| {name} | {' | '.join(map(str, line.values()))} | {last} |"


def summary(lines: dict[Primitive, Line]) -> str:
    """How many rows have kernels, and which are refused on a GPU."""
    kernels = {
        device: sum(line[device, "value"].first == KERNEL for line in lines.values())
        for device in DEVICES
    }
    always = [r for r, line in lines.items() if line["GPU", "value"].first == NAMED]
    partly = [
        r
        for r, line in lines.items()
        if r not in always and any(NAMED in str(line["GPU", law]) for law in LAWS)
    ]
    return (
        f"Of {len(lines)} rows {kernels['CPU']} are kernels on the CPU and {kernels['GPU']} on the "
        "GPU, for all samples of real numbers.\nRows that have no way on a GPU, but a named error: "
        f"{_listed(always)}; for derivatives, complex numbers or some parameters {_listed(partly)}."
        "\nOf the functions of `special` CuPy has these, and each other one is a named error: "
        f"{_has()}."
    )


def _has() -> str:
    there = {scipy_name(f.name) for f in FUNCTIONS.values() if not f.own and has_function(f.name)}
    return ", ".join(f"`{name}`" for name in sorted(there))


def _listed(rows: Sequence[Primitive]) -> str:
    return ", ".join(f"`{r.name}`" for r in sorted(rows, key=lambda r: r.name)) or "none"


def main() -> None:
    """Write the file."""
    FILE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{FILE.name}\n")


if __name__ == "__main__":
    main()
