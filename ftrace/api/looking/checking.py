"""`check_differentiable`: what stands between inputs and outputs, found before anything runs.

The function is traced on abstract values; `flow.py` follows the inputs through its equations. The
report has every cut on a way from the chosen inputs to an output.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from operator import or_
from typing import Any

from ftrace.api.calls import ArgNums, ArgumentSelection, check_argnums, check_callable
from ftrace.api.compiled.inspecting import abstract
from ftrace.api.looking.flow import NOTHING, Cut, Flow, Walk
from ftrace.control.functions import (
    FlatFunction,
    argument_paths,
    flatten_call,
    is_no_value,
    name_of,
)
from ftrace.core import source
from ftrace.core.avals import ShapedArray
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import (
    RuleError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from ftrace.core.trace import attempting, lifted
from ftrace.core.tree import paths
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.lifting.restart import Restart


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that a derivative does not pass.

    Attributes:
        kind: "opaque call", "missing rule", "conversion", "stop_gradient", "integer path",
            "comparison", "piecewise constant", "non-float input", "non-float output",
            "unused input" or "constant output".
        what: a sentence.
        where: the user's `file:line: code`, if it is at a line.
        blocks: whether a derivative is lost or cannot be taken; if not, others lead past it.
        inputs: paths of the inputs whose derivatives that are; none: of all.
    """

    kind: str
    what: str
    where: str
    blocks: bool
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.kind}{'' if self.blocks else ' (other paths lead past it)'}: {self.what}"
        return f"{text}\n    at {self.where}" if self.where else text


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of `check_differentiable`; true where nothing blocks.

    Attributes:
        name: of the function.
        wrt: paths of the inputs.
        outputs: per path of an output whether a derivative path leads to it.
        findings: what was found, in program order.
    """

    name: str
    wrt: tuple[str, ...]
    outputs: dict[str, bool]
    findings: tuple[Cause, ...]

    def __bool__(self) -> bool:
        return not any(f.blocks for f in self.findings)

    @property
    def blocked(self) -> tuple[str, ...]:
        """The inputs whose derivatives are lost or cannot be taken."""
        found = {path for f in self.findings if f.blocks for path in f.inputs or self.wrt}
        return tuple(path for path in self.wrt if path in found)

    def __str__(self) -> str:
        answer, about = ("is", self.wrt) if self else ("is not", self.blocked)
        lines = [f"{self.name} {answer} differentiable with respect to {', '.join(about)}."]
        lines += [f"  {str(f).replace(chr(10), chr(10) + '  ')}" for f in self.findings]
        lost = [path for path, reached in self.outputs.items() if not reached]
        if lost:
            lines.append(f"  No differentiable path leads to {', '.join(lost)}.")
        return "\n".join(lines)


def check_differentiable(
    fun: Callable[..., Any],
    *avals: Any,
    wrt: ArgNums | None = None,
    raise_: bool = False,
    **kwargs: Any,
) -> Report:
    """Say what blocks derivatives of a function, without running it.

    Args:
        fun: function of arrays, or containers of arrays.
        *avals, **kwargs: its arguments: arrays, numbers or `ShapeDtypeStruct`s.
        wrt: arguments, by position or name; None for all floats in all arguments.
        raise_: raise instead of returning a report that is false.

    Returns:
        A report: its truth value, `findings` with the user's lines, `outputs`; `print` shows it.
        A cut that others lead past (`x * floor(x)`) is a finding that does not block. That a
        predicate of `where` or `cond` compares floats is none. A carry that every iteration of a
        loop cuts has lost its derivative; a `while_loop` is taken to iterate at least once.

    Raises:
        RuleError: the report is false, and `raise_`.
        LiftError: the function decides about values in a way that cannot be traced.

    Example:
        >>> import numpy as np, ftrace
        >>> report = ftrace.check_differentiable(lambda x: np.floor(x) * 2, np.ones(3))
        >>> bool(report), report.findings[0].kind
        (False, 'piecewise constant')
    """
    check_callable(fun, "check_differentiable")
    leaves, tree = flatten_call(avals, kwargs)
    names = argument_paths(fun, tree)
    chosen = _chosen(fun, wrt, avals, kwargs, names)
    types = [abstract(x) for x in leaves]
    if wrt is None:
        chosen = [i for i in chosen if is_inexact(types[i].dtype)]
    for i in chosen:
        if type(leaves[i]) is int:  # as grad takes it
            types[i] = abstract(0.0)
    report = _report(fun, FlatFunction(fun, tree), types, chosen, names)
    if raise_ and not report:
        raise RuleError(str(report), "See the findings; lax.stop_gradient says what is meant so.")
    return report


def differentiable(*avals: Any, wrt: ArgNums | None = None, **kwargs: Any) -> Any:
    """A decorator that refuses a function through which derivatives do not pass.

    Args:
        *avals, **kwargs: arguments like those of its calls: arrays, numbers or
            `ShapeDtypeStruct`s. Then it is checked where it is defined. Without them
            (`@ftrace.differentiable`) it is checked at its first call with arguments of each shape
            and dtype.
        wrt: as in `check_differentiable`.

    Returns:
        A decorator; with `avals` it returns the function itself.

    Raises:
        RuleError: a derivative is lost, or cannot be taken: as `check_differentiable(raise_=True)`.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.differentiable(np.ones(3))
        ... def f(x):
        ...     return np.sum(np.floor(x))
        Traceback (most recent call last):
        ftrace.core.errors.RuleError: ...

    Source: `@differentiable` of the white paper on differentiation in Swift, 2018.
    """
    if len(avals) == 1 and callable(avals[0]) and wrt is None and not kwargs:
        return _checked_at_calls(avals[0], None)

    def decorate(fun: Callable[..., Any]) -> Callable[..., Any]:
        if not avals and not kwargs:
            return _checked_at_calls(fun, wrt)
        check_differentiable(fun, *avals, wrt=wrt, raise_=True, **kwargs)
        return fun

    return decorate


def _checked_at_calls(fun: Callable[..., Any], wrt: ArgNums | None) -> Callable[..., Any]:
    check_callable(fun, "differentiable")
    known: set[Any] = set()

    @wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten_call(args, kwargs)
        key = (tree, *(a if is_no_value(a) else abstract(a) for a in leaves))
        if key not in known:
            check_differentiable(fun, *args, wrt=wrt, raise_=True, **kwargs)
            known.add(key)
        return lifted(fun)(*args, **kwargs)

    return checked


def _chosen(
    fun: Any, wrt: ArgNums | None, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
) -> list[int]:
    """The positions of the leaves that `wrt` names."""
    if wrt is None:
        return list(range(len(names)))
    selection = ArgumentSelection(fun, check_argnums("check_differentiable", wrt), args, kwargs)
    leaves, tree = flatten_call(selection.values)
    wanted = set(selection.paths(fun, tree.children()[0]))
    assert len(wanted) == len(leaves)
    return [i for i, path in enumerate(names) if path in wanted]


def _report(
    fun: Any, flat: FlatFunction, types: list[ShapedArray], chosen: list[int], names: list[str]
) -> Report:
    wrt = tuple(names[i] for i in chosen)
    findings = [
        Cause("non-float input", f"{names[i]} is {types[i]}.", "", True, (names[i],))
        for i in chosen
        if not is_inexact(types[i].dtype)
    ]
    try:
        with attempting():
            jaxpr, captured = trace_to_jaxpr(flat, types)
    except TracerBoolConversionError:
        jaxpr, captured = Restart(fun, True)(lambda: trace_to_jaxpr(flat, types))
    except (TracerIntegerConversionError, TracerArrayConversionError) as error:
        lost = Cause("conversion", error.what, error.where, True)
        return Report(name_of(fun), wrt, {}, (*findings, lost))
    walk = Walk()
    bits = {k: 1 << n for n, k in enumerate(chosen) if is_inexact(types[k].dtype)}
    inputs = [NOTHING] * len(captured) + [Flow(bits.get(i, 0)) for i in range(len(types))]
    outs = walk.jaxpr(jaxpr, inputs, None)
    results = list(zip(paths(flat.out_tree, "result"), jaxpr.out_avals, outs, strict=True))
    inputs_of = {names[k]: b for k, b in bits.items()}
    findings += _cut_findings(walk.cuts, outs, inputs_of)
    findings += _output_findings(results)
    findings += _input_findings(walk.cuts, outs, inputs_of)
    reached = {path: bool(f.reach) for path, _, f in results}
    return Report(name_of(fun), wrt, reached, tuple(findings))


def _on_the_way(outs: Sequence[Flow]) -> frozenset[int]:
    return reduce(or_, outs, NOTHING).cuts


def _cut_findings(cuts: Sequence[Cut], outs: Sequence[Flow], bits: dict[str, int]) -> list[Cause]:
    """The cuts on a way to an output; one blocks where an input or output has no other way."""
    reached = reduce(or_, outs, NOTHING).reach
    last = frozenset[int]().union(*(f.cuts for f in outs if not f.reach))
    found: list[Cause] = []
    for i, cut in enumerate(cuts):
        if i in _on_the_way(outs):
            whole = cut.fatal or i in last
            lost = cut.via if whole else cut.via & ~reached
            inputs = tuple(path for path, bit in bits.items() if bit & lost)
            place = source.describe(cut.place)
            found.append(Cause(cut.kind, cut.what, place, whole or bool(inputs), inputs))
    return found


def _output_findings(results: Sequence[tuple[str, ShapedArray, Flow]]) -> list[Cause]:
    found: list[Cause] = []
    for path, a, flow in results:
        if not is_inexact(a.dtype):
            found.append(Cause("non-float output", f"{path} is {a}.", "", True))
        elif flow == NOTHING:
            what = f"{path} does not depend on the inputs."
            found.append(Cause("constant output", what, "", True))
    return found


def _input_findings(cuts: Sequence[Cut], outs: Sequence[Flow], bits: dict[str, int]) -> list[Cause]:
    used = reduce(or_, outs, NOTHING).reach
    for i in _on_the_way(outs):
        used |= cuts[i].via
    return [
        Cause("unused input", f"No output depends on {path}.", "", True, (path,))
        for path, bit in bits.items()
        if not bit & used
    ]
