"""`debug.blame`: the user's line that made a NaN, an exact zero, a jump, and what it was given.

The function runs once as `vjp` runs it, between two traces: above, a walk that opens calls,
branches and loops and follows which inputs reach which results (`reaching.py`); below, an
evaluation that follows what is not finite, in the value and then in the gradient
(`interpreters/origins.py`). It runs again at points beside the given one, to find decisions that
fall differently there (`probing.py`).
"""

import inspect
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from ftrace.api.calls import check_callable, name_of
from ftrace.api.compiled.devices import check_on_host
from ftrace.api.looking.flow import NOTHING, Flow, cuts_of
from ftrace.api.looking.probing import Break, breaks
from ftrace.api.looking.reaching import Reaching
from ftrace.control.forms.walking import WalkTrace, walk
from ftrace.control.functions import FlatFunction, argument_avals, argument_paths, flatten_call
from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import ConcretizationTypeError, DtypeError
from ftrace.core.source import Location
from ftrace.core.trace import Tracer, ctx
from ftrace.core.tree import paths
from ftrace.interpreters.linearize import Tape, linearize_flat
from ftrace.interpreters.origins import Origin, OriginTrace, Path
from ftrace.interpreters.quiet import quietly


@dataclass(frozen=True, slots=True)
class Finding:
    """One line to blame.

    Attributes:
        kind: "nan", "inf", "zero", "jump" or "kink".
        what: a sentence.
        file, line, text: the user's line; 0 and empty where there is none.
        path: iterations and branches around it, outermost first; iterations count from 0.
        values: what the operation was given there, as far as these are numbers.
    """

    kind: str
    what: str
    file: str = ""
    line: int = 0
    text: str = ""
    path: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        inside = "".join(f", in {step}" for step in reversed(self.path))
        text = f"{self.kind}: {self.what}"
        if not self.file:
            return text
        return f"{text}\n    at {self.file}:{self.line}: {self.text}{inside}"


@dataclass(frozen=True, slots=True)
class Blame:
    """The answer of `blame`; true where anything was found.

    Attributes:
        name: of the function.
        findings: NaNs and infinities first, in the order in which they were made; then zeros; then
            jumps and kinks, the closest first.
    """

    name: str
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        if not self.findings:
            return f"Nothing was found in {self.name}."
        plural = "" if len(self.findings) == 1 else "s"
        lines = [f"{len(self.findings)} finding{plural} in {self.name}:"]
        return "\n".join([*lines, *(f"  {f}".replace("\n", "\n  ") for f in self.findings)])


def blame(fun: Callable[..., Any], *args: Any, radius: float = 1e-3, **kwargs: Any) -> Blame:
    """Name the line of a function that spoils its value or its gradient at a point.

    Args:
        fun: function of arrays, or containers of arrays. It runs several times, calls of `jit`,
            branches and loops row by row; a transformed function (`grad(f)`) may be blamed too.
        *args, **kwargs: its arguments, with their values.
        radius: how far to look for jumps, relative to the root mean square of each array in the
            arguments (absolutely, where that is 0); 0 looks for none.

    Returns:
        A report, true if anything was found; `print` shows it. Its `findings` are of these kinds:
        "nan" and "inf", where a result or a gradient is not finite: the line that first made such a
        number of finite ones (an infinity that was an argument is none). "zero", where a result
        depends on no float input by a derivative, or an input reaches no result: the line that cuts
        it off (an integer path, `stop_gradient`, a function constant but for jumps, a decision), or
        that of the function. "jump" and "kink", where a decision (a comparison, a rounding, the
        choice of the greater one) falls differently close by and the value, or else the derivative,
        jumps there: the line of the decision.

    Raises:
        ConcretizationTypeError: an argument is a traced value.
        DtypeError: an argument is no array, or the radius is not a number from 0 on.

    Example:
        >>> import numpy as np, ftrace
        >>> def distance(x):
        ...     return np.sqrt(np.sum(x * x))
        >>> report = ftrace.debug.blame(distance, np.zeros(3))
        >>> [(f.kind, f.text) for f in report.findings]
        [('inf', 'return np.sqrt(np.sum(x * x))'), ('nan', 'return np.sqrt(np.sum(x * x))')]
    """
    check_callable(fun, "debug.blame")
    _check_radius(radius)
    leaves, tree = flatten_call(args, kwargs)
    argument_avals(fun, leaves, tree)
    names = argument_paths(fun, tree)
    _check_concrete(fun, leaves, names)
    check_on_host("debug.blame", leaves)
    flat = FlatFunction(fun, tree)
    with quietly():
        run = _Run(flat, leaves, names)
        found = [*run.not_finite(), *run.zeros()]
        if radius:
            found += [_broken(b, names) for b in breaks(flat, leaves, radius)]
    seen: dict[Any, Finding] = {}
    for f in found:
        seen.setdefault((f.kind, f.file, f.line) if f.file else f, f)
    return Blame(name_of(fun), tuple(seen.values()))


def _check_radius(radius: Any) -> None:
    if not issubclass(type(radius), int | float) or not 0 <= radius < np.inf:
        raise DtypeError(
            f"The radius of debug.blame is {radius!r}, and must be a finite number from 0 on.",
            "Pass how far to look for jumps, relative to the arguments: radius=1e-3.",
        )


def _check_concrete(fun: Any, leaves: Sequence[Any], names: Sequence[str]) -> None:
    for x, name in zip(leaves, names, strict=True):
        if isinstance(x, Tracer):
            raise ConcretizationTypeError(
                f"debug.blame runs {name_of(fun)}, and its argument {name} is a traced value.",
                "Call it outside transformations, on arrays: blame(grad(f), x), not grad of blame.",
            )


class _Run:
    """One run of a function and of its backward pass, with everything noted."""

    def __init__(self, flat: FlatFunction, leaves: Sequence[Any], names: Sequence[str]) -> None:
        path: list[str] = []
        self.flat = flat
        self.names = names
        self.origins = OriginTrace(lambda: tuple(path))
        self.reaching = Reaching(path)
        self.notes: list[Flow] = []
        self.floats = {i: 1 << i for i, x in enumerate(leaves) if is_inexact(typeof(x).dtype)}
        inputs = [
            self.origins.given(x, f"argument {name}") for x, name in zip(leaves, names, strict=True)
        ]
        self.outs, self.tape = core.run(self.origins, self._linearized, path, inputs)
        self.results = paths(flat.out_tree, "result")
        self.gradients = core.run(self.origins, self._pulled) if self.floats else []
        self.origins.alive = False

    def _linearized(self, path: list[str], inputs: list[Any]) -> tuple[list[Any], Tape]:
        def walked(*primals: Any) -> list[Any]:
            notes = [Flow(self.floats.get(i, 0)) for i in range(len(primals))]
            trace = WalkTrace(ctx.trace, self.reaching, path)
            values, found = walk(self.flat, primals, notes, trace)
            self.notes = [NOTHING if n is None else n for n in found]
            return values

        return linearize_flat(walked, inputs, outlives=True)

    def _pulled(self) -> list[Any]:
        """The gradient of the results' sum, with weights that let no two of them cancel."""
        count, cts = 0, list[Any]()
        for y, atom in zip(self.outs, self.tape.outs, strict=True):
            a = typeof(y)
            weights = 1.0 + np.sqrt(np.arange(count, count + a.size, dtype=float))
            count += a.size
            weights = weights.reshape(a.shape).astype(a.dtype)
            cts.append(None if atom is None else weights if a.shape else weights[()])
        return self.tape.pull(cts)

    # --- what is not finite

    def not_finite(self) -> list[Finding]:
        """Where the results' NaNs and infinities come from, then the gradients'."""
        whole = list(zip(self.results, self.outs, strict=True))
        heads = [f"the gradient with respect to {name}" for name in self.names]
        whole += zip(heads, self.gradients or [None] * len(heads), strict=True)
        found: dict[int, Finding] = {}
        for what, y in whole:
            for origin in self.origins.origins(y):
                found.setdefault(origin.number, _made(origin, f"{what} is not finite"))
        return [found[number] for number in sorted(found)]

    # --- what is exactly zero

    def zeros(self) -> list[Finding]:
        """Inputs that reach no result, and results that no input reaches, by derivatives."""
        notes = dict(zip(self.results, self.notes, strict=True))
        real = [r for r, y in zip(self.results, self.outs, strict=True) if _is_inexact(y)]
        notes = {r: notes[r] for r in real or self.results}
        reached = reduce(or_, (n.reach for n in notes.values()), 0)
        cuts = cuts_of(notes.values())
        found: list[Finding] = []
        for i, bit in self.floats.items():
            if not bit & reached:
                what = f"the derivative with respect to {self.names[i]} is exactly zero"
                found += self._lost(what, bit, cuts, "no result is computed from it")
        for result, note in notes.items():
            if not note.reach:
                what = f"the derivative of {result} is exactly zero"
                why = "it is computed from no float input"
                found += self._lost(what, sum(self.floats.values()), note.cuts, why)
        return found

    def _lost(self, what: str, bits: int, cuts: frozenset[int], why: str) -> list[Finding]:
        """The cuts that inputs ended in: those before a result, or else the decisions; or why."""
        known = self.reaching.cuts
        own = [known[n] for n in sorted(cuts) if known[n].via & bits]
        culprits = own or [c for c in known if c.decides and c.via & bits]
        if not culprits:
            return [_finding("zero", f"{what}: {why}.", _start(self.flat.fn))]
        return [_finding("zero", f"{what}: {c.what}", c.place, c.path) for c in culprits]


# ---------------------------------------------------------------------------------- words


def _finding(
    kind: str,
    what: str,
    place: Location | None,
    path: Path = (),
    values: tuple[Any, ...] = (),
) -> Finding:
    if place is None:
        return Finding(kind, what, path=path, values=values)
    file, line = place[0].co_filename, source.line_of(place)
    return Finding(kind, what, file, line, linecache.getline(file, line).strip(), path, values)


def _made(origin: Origin, what: str) -> Finding:
    if not origin.operands:
        return _finding(origin.kind, f"{what}: {origin.row} holds nan.", origin.place, origin.path)
    given = ", ".join(map(_shown, origin.operands))
    at = f" at element {list(origin.element)}" if origin.element else ""
    what = f"{what}: {origin.row} made {origin.kind} of {given}{at}."
    return _finding(origin.kind, what, origin.place, origin.path, origin.operands)


def _broken(found: Break, names: Sequence[str]) -> Finding:
    of, name = ("value", "derivative")[found.kind == "kink"], names[found.leaf]
    distance = f"{abs(found.distance):.2g} away (relative)"
    where = distance if found.point is None else f"{found.point!r}, {distance}"
    d = found.decision
    given = f" of {', '.join(map(_shown, d.operands))}" if d.operands else ""
    what = (
        f"the {of} jumps from {found.before:.6g} to {found.after:.6g} where {name} is {where}: "
        f"{d.row}{given} decides otherwise there."
    )
    return _finding(found.kind, what, d.place, d.path, d.operands)


def _shown(x: Any) -> str:
    return f"{x:.6g}" if issubclass(type(x), float) else repr(x)


def _is_inexact(y: Any) -> bool:
    return is_inexact(typeof(y).dtype)


def _start(fn: Any) -> Location | None:
    """The first line of a function."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return None if code is None else (code, 0)
