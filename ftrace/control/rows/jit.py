"""The `jit` row: a call of a jaxpr, and what every row that holds one jaxpr shares.

Every array the user's function captured is an ordinary leading operand, so that it is read at
each call and protected like any other; the jaxpr itself is closed. Derived jaxprs are cached on
the jaxpr they come from: `grad(jit(f))` called twice traces and derives nothing the second time.
Evaluating the row compiles the jaxpr, once, for the backend of the arrays' device, and runs the
code; `ftrace.config.compile = False` interprets it instead, equation by equation.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ftrace.control.rows.gating import gate_call
from ftrace.core import hooks
from ftrace.core.config import config
from ftrace.core.device import platform
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, cached_on_jaxpr, eval_jaxpr
from ftrace.core.kinds import branches
from ftrace.core.lazy import MAKING, is_importing, lazy
from ftrace.core.lower import Call
from ftrace.core.primitive import Effects, Linear, Primitive
from ftrace.core.rare_collections import rare_collections
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import batch_jaxpr
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import RES, Half, Split, SplitJaxpr, partial_jaxpr
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.transpose import (
    flatten_masked,
    kinds_of,
    transpose_jaxpr,
    unflatten_masked,
)
from ftrace.lowering.fusion.inline import is_one_program
from ftrace.lowering.program.compilations import watched

BACKENDS: Final = {
    "cpu": lazy("ftrace.cpu.cpu_backend", "cpu_backend"),
    "gpu": lazy("ftrace.gpu.gpu_backend", "gpu_backend"),
}
"""By the platform of the arrays; imported when something is first compiled."""
_cut_at_tapes = lazy("ftrace.lowering.program.segments", "cut_at_tapes")
_with_scans = lazy("ftrace.control.rows.repeats_as_scans", "with_scans")
_least_moved = lazy("ftrace.control.remat.mincut", "least_moved")
LONG: Final = 64  # iterations after which the body of a loop is compiled
MANY: Final = 4000  # equations from which on a search for repeats takes less time than it saves
ARMS: Final = 24  # equations that take as long as a branch: it is several, and each has derivatives


def executable(
    jaxpr: Jaxpr, place: str, name: str = "", why: Callable[[], str] = str
) -> Callable[..., list[Any]]:
    """The compiled code of a jaxpr on a platform: a function of the list of its arguments.

    Where tapes leave the jaxpr, Python runs their loops, and what lies between them compiles. The
    name of a function, and why it is compiled (again), are for messages.
    """
    settings = config.settings
    key = "code", place, settings.passes, settings.roll, settings.threads
    found = jaxpr.cache.get(key)
    if found is None:
        with MAKING:  # a thread that imports something is this one, or has finished
            if BACKENDS[place].loading or is_importing():
                return partial(_without_backend, jaxpr, place)
        if is_one_program(jaxpr):
            with watched(jaxpr, name, why), rare_collections():
                backend = BACKENDS[place]()
                found = backend.compile(backend.plan(jaxpr))
        else:
            found = _InPieces(jaxpr, place)
        jaxpr.cache[key] = found
    return found


def _without_backend(jaxpr: Jaxpr, place: str, args: Sequence[Any]) -> list[Any]:
    """Run what was asked for by a signal handler, say, while its thread imports something."""
    if not (BACKENDS[place].loading or is_importing()):
        return executable(jaxpr, place)(args)
    with quietly():
        return owned(eval_jaxpr(jaxpr, args), (*args, *jaxpr.consts))


class _InPieces:
    """Runs a jaxpr that is cut at its tapes. Call it with the list of its arguments."""

    __slots__ = ("_pieces", "_runs")

    def __init__(self, jaxpr: Jaxpr, place: str) -> None:
        self._pieces = _cut_at_tapes(jaxpr)
        self._runs = [
            None if isinstance(step, Eqn) else executable(step[0], place)
            for step in self._pieces.steps
        ]

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run it."""
        pieces = self._pieces
        env: dict[Any, Any] = {**dict(pieces.consts), **dict(zip(pieces.invars, args, strict=True))}

        def values(atoms: Sequence[Any]) -> list[Any]:
            return [a.value if type(a) is Literal else env[a] for a in atoms]

        with quietly():
            for step, run in zip(pieces.steps, self._runs, strict=True):
                if isinstance(step, Eqn):
                    found = step.primitive(*values(step.invars), **step.params)
                    outs = step.outvars
                    results = found if step.primitive.multiple else (found,)
                else:
                    assert run is not None
                    jaxpr, outs = step
                    results = run(values(jaxpr.invars))
                env.update(zip(outs, results, strict=True))
        return owned(values(pieces.outs), (*args, *(array for _, array in pieces.consts)))


class Turns:
    """The iterations of a loop that Python runs: compiled, if there are many.

    Args:
        jaxpr: one iteration.
        total: how many there will be, if that is known: then all of them are compiled or none.
    """

    __slots__ = ("_jaxpr", "_left", "_run")

    def __init__(self, jaxpr: Jaxpr, total: int | None = None) -> None:
        self._jaxpr = jaxpr
        short = total is not None and total <= LONG
        self._left = -1 if short or not config.settings.compile else LONG if total is None else 0
        self._run: Any = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """One more iteration."""
        if self._run is not None:
            return self._run(args)
        if not self._left:
            self._run = executable(self._jaxpr, platform(args))
            return self._run(args)
        self._left -= 1
        return eval_jaxpr(self._jaxpr, args)


def _shortened(jaxpr: Jaxpr) -> Jaxpr:
    """What is differentiated in the place of a jaxpr: a long one with scans for its repeats."""
    least = config.settings.roll
    if not least or ARMS * len(jaxpr.eqns) < MANY:
        return jaxpr
    many = len(jaxpr.eqns) + ARMS * sum(bool(branches(e)) for e in jaxpr.eqns)
    return _with_scans(jaxpr, least) if many >= MANY else jaxpr


hooks.shorten.give(_shortened)


def call_type(*avals: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    """The result types of a jaxpr."""
    return jaxpr.out_avals


def call_effects(*, jaxpr: Jaxpr, **params: Any) -> Effects:
    """The effects of a jaxpr."""
    return jaxpr.effects


def call_jvp(
    bind: Callable[..., Any], derive: Callable[..., Any] = jvp_jaxpr
) -> Callable[..., Any]:
    """The jvp column of a row that holds one jaxpr: the same row over the jvp jaxpr."""

    def jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        pushed, nonzero = derive(jaxpr, tuple(t is not ZERO for t in tangents))
        live = [t for t in tangents if t is not ZERO]
        outs = bind(*primals, *live, jaxpr=pushed, **params)
        n = len(jaxpr.outvars)
        rest = iter(outs[n:])
        return outs[:n], [next(rest) if z else ZERO for z in nonzero]

    return jvp


def call_batch(bind: Callable[..., Any]) -> Callable[..., Any]:
    """The batch column of a row that holds one jaxpr."""

    def batch(axis: Any, values: Any, dims: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        batched, out_dims = batch_jaxpr(jaxpr, axis, tuple(dims), False)
        return bind(*values, jaxpr=batched, **params), list(out_dims)

    return batch


def call_transpose(bind: Callable[..., Any]) -> Callable[..., Any]:
    """The transpose column of a row that holds one jaxpr; masks go through as operands."""

    def transpose(cts: Any, *operands: Any, jaxpr: Jaxpr, **params: Any) -> Any:
        linear = tuple(type(x) is Linear for x in operands)
        backward, kinds = transpose_jaxpr(jaxpr, linear, kinds_of(cts))
        known = [x for x, f in zip(operands, linear, strict=True) if not f]
        found = bind(*known, *flatten_masked(cts), jaxpr=backward, **params)
        supply = iter(unflatten_masked(found, kinds))
        return [next(supply) if f else None for f in linear]

    return transpose


def _jit_impl(*args: Any, jaxpr: Jaxpr, name: str) -> list[Any]:
    if config.settings.compile:
        return executable(jaxpr, platform(args), name)(args)
    return owned(eval_jaxpr(jaxpr, args), (*args, *jaxpr.consts))


def _jit_partial(known: tuple[bool, ...], *, jaxpr: Jaxpr, name: str) -> Split:
    split = _halves(jaxpr, known)
    indices = tuple(i for i, k in enumerate(known) if k)
    unknown = tuple(i for i, k in enumerate(known) if not k)
    return Split(
        Half(jit_call, {"jaxpr": split.known, "name": name}, indices),
        Half(jit_call, {"jaxpr": split.linear, "name": name}, (RES, *split.forwarded, *unknown)),
        split.out_known,
    )


@cached_on_jaxpr
def _halves(jaxpr: Jaxpr, known: tuple[bool, ...]) -> SplitJaxpr:
    return _least_moved(partial_jaxpr(jaxpr, known), known)


def _bind(*args: Any, **params: Any) -> Any:
    return jit_call(*args, **params)


jit_call = Primitive(
    name="jit",
    impl=_jit_impl,
    type=call_type,
    jvp=call_jvp(_bind),
    transpose=call_transpose(_bind),
    batch=call_batch(_bind),
    partial=_jit_partial,
    mask="call",
    zeros=True,
    effects=call_effects,
    lower=Call(lambda avals, jaxpr, **_: jaxpr, "nothing"),
    gate=gate_call,
    multiple=True,
    doc="A call of a jaxpr.",
)
