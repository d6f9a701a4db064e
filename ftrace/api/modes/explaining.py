"""`explain`: what becomes of a function, stage by stage, and the mode of its derivative."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from ftrace.api.calls import check_callable, name_of
from ftrace.api.compiled.compiling import JitFunction, jit
from ftrace.api.modes.predicted_work import ModeChoice
from ftrace.core.errors import BackendError
from ftrace.core.records import record

ROUNDS = 3


@record
class Stage:
    """One stage of a function's way to machine code.

    Attributes:
        name: of the stage.
        text: what the function is there.
    """

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}\n" + "\n".join(f"  {line}" for line in self.text.splitlines())


@record
class Explanation:
    """What `explain` found; prints as a text.

    Attributes:
        name: of the function.
        stages: in order.
        choice: of a `gradient` or `jacobian`: the mode, and the predicted work.
        measured: seconds of a call in each mode; empty unless asked for.
    """

    name: str
    stages: tuple[Stage, ...]
    choice: ModeChoice | None
    measured: dict[str, float]

    def __getitem__(self, stage: str) -> str:
        """The text of a stage."""
        return {s.name: s.text for s in self.stages}[stage]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))


def explain(fun: Callable[..., Any], *args: Any, measure: bool = False) -> Explanation:
    """Show every stage of a function's way from Python to machine code.

    The stages are "function" (the transformations around the user's function), "mode" (of a
    `gradient` or `jacobian`: which was chosen, and why), "jaxpr", "passes" (of lowering, that
    changed something), "loops" (found in repeated equations), "kernels", "launches", "costs" and
    "code" (what LLVM or CUDA's compiler is given).

    Args:
        fun: a function, transformed or not; it is traced, and not run without `measure`.
        *args: arguments of the kind that it is called with.
        measure: also run a `gradient` or `jacobian` in each mode, and say how long each takes:
            the least of three calls after a first one.

    Returns:
        An `Explanation`: `print(e)` shows all, `e["jaxpr"]` one stage.

    Example:
        >>> import numpy as np, ftrace
        >>> e = ftrace.explain(ftrace.gradient(lambda x: np.sum(np.sin(x))), np.ones(1000))
        >>> print(e["function"])
        gradient of <lambda>
        >>> e.choice.mode, e.choice.forward > e.choice.reverse
        ('reverse', True)
    """
    check_callable(fun, "explain")
    words: list[str] = []
    inner: Any = fun
    choice: ModeChoice | None = None
    ways: dict[str, Callable[..., Any]] = {}
    while hasattr(inner, "__ftrace__"):
        if hasattr(inner, "choice") and choice is None:
            found: ModeChoice = inner.choice(*args)
            choice = found
            ways = dict(inner.ways) if inner is fun else {}
            if found.mixed is None:
                ways.pop("mixed", None)
        inner, key = inner.__ftrace__
        words.append(f"{key[0]} of ")
    stages = [Stage("function", "".join(words) + name_of(inner))]
    measured = {mode: _seconds(way, args) for mode, way in ways.items()} if measure else {}
    if choice is not None:
        times = [f"measured: {mode} {s * 1e6:,.0f} us" for mode, s in measured.items()]
        stages.append(Stage("mode", "\n".join([str(choice), *times])))
    stages += _lowered(fun, args)
    return Explanation(name_of(fun), tuple(stages), choice, measured)


def _lowered(fun: Any, args: tuple[Any, ...]) -> list[Stage]:
    lowered = (fun if isinstance(fun, JitFunction) else jit(fun)).lower(*args)
    stages = [Stage("jaxpr", str(lowered.jaxpr))]
    try:
        cost = lowered.cost_analysis()
        return [
            *stages,
            Stage("passes", "\n".join(lowered.passes)),
            Stage("loops", "\n".join(lowered.rolled)),
            Stage("kernels", "\n".join(lowered.kernels)),
            Stage("launches", "\n".join(lowered.launches)),
            Stage("costs", "\n".join(f"{name}: {n:,}" for name, n in cost.items())),
            Stage("code", lowered.as_text()),
        ]
    except BackendError as error:
        return [*stages, Stage("passes", str(error))]


def _seconds(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    call(*args)
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        call(*args)
        times.append(perf_counter() - start)
    return min(times)
