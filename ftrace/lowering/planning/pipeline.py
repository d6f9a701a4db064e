"""The passes of lowering as a list: what `plan.py` runs, and what users insert.

Lowering turns a call (a jaxpr and its operands) into a jaxpr without calls, that into groups of
equations, and every group into a kernel. The passes that turn one form into the next are stages;
between them stand passes that keep the form: ftrace's own, and those of users, after whatever pass
they name. The body of a loop and the arm of a branch are calls of their own, so every pass sees
them too. `Pipeline` runs the list and checks what a user's pass returns; the list is a setting, and
part of the key of compiled code.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from ftrace.core import config
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray
from ftrace.core.check import check_jaxpr
from ftrace.core.errors import DtypeError, JaxprError, TreeError
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from ftrace.core.kinds import element, layout, way
from ftrace.core.lazy import lazy
from ftrace.core.lower import Iteration, Scattering, Solving
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.scan_layout import Each
from ftrace.core.trace import Trace, ctx
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.fusion.fuse import fuse
from ftrace.lowering.fusion.fusible import is_pulled
from ftrace.lowering.fusion.inline import in_chunks, inline
from ftrace.lowering.kernel.ir import Kernel, loops_of
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.schedule import schedule
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.memory.assembly import elided
from ftrace.lowering.planning.build import build
from ftrace.lowering.planning.refusals import looked_at_late
from ftrace.lowering.rolling.roll import is_rolled, roll

JAXPR: Final = "jaxpr"
KERNEL: Final = "kernel"


def _any_machine(machine: Machine) -> bool:
    return True


def _calls_cheaply(machine: Machine) -> bool:
    """Whether a program of many steps costs no more than one of few."""
    return machine.pages is not None


def _few_threads(machine: Machine) -> bool:
    """Whether blocks in one thread are faster than iterations that all threads share."""
    return _calls_cheaply(machine) and machine.threads <= 8


@record
class Pass:
    """One pass.

    Attributes:
        name: its name.
        takes, gives: "call", "jaxpr", "groups" or "kernel"; a user's pass gives what it takes, a
            jaxpr or a kernel.
        run: the function.
        after: the pass that a user's pass was inserted after; empty for ftrace's own.
        on: the machines that it is for.
        of: the kind of rows that it changes; it is not even loaded where there are none.
    """

    name: str
    takes: str
    gives: str
    run: Callable[..., Any]
    after: str = ""
    on: Callable[[Machine], bool] = _any_machine
    of: Any = None

    def __repr__(self) -> str:
        form = self.takes if self.takes == self.gives else f"{self.takes} -> {self.gives}"
        return f"<pass {self.name}: {form}>"


def opened(jaxpr: Jaxpr, args: Sequence[Any]) -> Jaxpr:
    """A call of a jaxpr as equations over the variables among its operands."""
    eqns, outs, consts = inline(jaxpr, args)
    free = dict.fromkeys(a for a in args if type(a) is Var)
    return Jaxpr(tuple(free), eqns, outs, [v for v, _ in consts], [x for _, x in consts])


def alive(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without the equations that nothing reads."""
    eqns = dce_equations(jaxpr.eqns, jaxpr.outvars)
    if len(eqns) == len(jaxpr.eqns):
        return jaxpr
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts)


def _rolled(jaxpr: Jaxpr) -> Jaxpr:
    return roll(jaxpr, config.config.settings.roll)


def _fused(jaxpr: Jaxpr, machine: Machine) -> Any:
    eqns, outs = in_chunks(jaxpr.eqns), list(jaxpr.outvars)
    return fuse(eqns, outs, machine.in_order, machine.blocks, machine.lanes)


_accumulated = lazy("ftrace.lowering.fusion.accumulation", "accumulated")
_in_blocks = lazy("ftrace.lowering.loops.loop_blocks", "in_blocks")
_factored = lazy("ftrace.lowering.fusion.shared_systems", "factored")
_OWN: Final = (
    Pass("inline", "call", JAXPR, opened),
    Pass("accumulate", JAXPR, JAXPR, _accumulated, of=Scattering),
    Pass("dce", JAXPR, JAXPR, alive),
    Pass("block", JAXPR, JAXPR, _in_blocks, on=_few_threads, of=Iteration),
    Pass("factor", JAXPR, JAXPR, _factored, of=Solving),
    Pass("roll", JAXPR, JAXPR, _rolled),
    Pass("elide", JAXPR, JAXPR, elided, on=_calls_cheaply),
    Pass("fuse", JAXPR, "groups", _fused),
    Pass("build", "groups", KERNEL, build),
)


def default() -> tuple[Pass, ...]:
    """The passes that run where none is inserted, in order.

    "inline" opens calls, "accumulate" lets scatters add into one array, "dce" drops equations that
    nothing reads, "block" has loops that record for reverse mode take many batch elements in blocks
    that end together, "factor" has systems with one matrix share its factors, "roll" makes loops of
    equations that repeat each other, "elide" has what would be copied into a concatenation made
    there, "fuse" gathers equations into groups, and "build" writes the kernel of each group: its
    loops, which it joins, splits at the bounds of conditions, gates (what `where` does not choose
    is not computed) and gives roles.

    Example:
        >>> import ftrace
        >>> ftrace.passes.default()
        (<pass inline: call -> jaxpr>, <pass accumulate: jaxpr>, <pass dce: jaxpr>,
         <pass block: jaxpr>, <pass factor: jaxpr>, <pass roll: jaxpr>,
         <pass elide: jaxpr>, <pass fuse: jaxpr -> groups>, <pass build: groups -> kernel>)
    """
    return _OWN


def current() -> tuple[Pass, ...]:
    """The passes that run here: the default ones and those inserted around this call."""
    found = list(_OWN)
    for one in config.config.settings.passes:
        at = next(i for i, p in enumerate(found) if p.name == one.after) + 1
        while at < len(found) and found[at].after == one.after:
            at += 1
        found.insert(at, one)
    return tuple(found)


@contextmanager
def inserted(
    run: Callable[[Any], Any], *, after: str = "dce", name: str | None = None
) -> Generator[Pass]:
    """Inside the block, whatever is compiled goes through one more pass.

    Args:
        run: a function of a `Jaxpr`, or after "build" of a kernel
            (`ftrace.lowering.kernel.ir.Kernel`), that gives another one of the same inputs and
            results (for a kernel: the same buffers and scalars); the very same object where it
            changes nothing. It must not change what it is given.
        after: the pass that it follows: "inline", "dce", "build", or an inserted one.
        name: for `jit(f).lower(x).passes` and messages (default: the function's).

    Functions that were compiled outside the block are compiled again inside, and the other way
    round. Several passes after the same one run in the order in which they were inserted. A pass on
    jaxprs is also given the scalar programs inside one row (`vectorize`), with their arms and the
    bodies of their loops, each on its own. What is not compiled (`config.update(compile=False)`,
    the first iterations of loops that Python runs) does not go through passes.

    Raises:
        TreeError: there is no such pass, it gives groups, or the name is taken.
        DtypeError: `run` is no function.
        JaxprError: while something is compiled: what the pass returned is malformed.

    Example:
        >>> import numpy as np, ftrace
        >>> def rational(x):
        ...     return x * (27.0 + x * x) / (27.0 + 9.0 * x * x)
        >>> f = ftrace.jit(np.tanh)
        >>> with ftrace.passes.inserted(ftrace.passes.replacing("tanh", rational), after="dce"):
        ...     lowered = f.lower(np.ones(3))
        ...     print(f(np.ones(3)), lowered.passes)
        [0.77777778 0.77777778 0.77777778] ('inline', 'replace tanh', 'fuse', 'build')
        >>> "tanh" in lowered.kernels[0], "tanh" in f.lower(np.ones(3)).kernels[0]
        (False, True)
    """
    if not callable(run):
        raise DtypeError(
            f"passes.inserted takes a function first, and was given a {type(run).__name__}.",
            "Pass a function of a jaxpr, or of a kernel.",
        )
    known = {p.name: p for p in current()}
    label = name or getattr(run, "__name__", type(run).__name__)
    if after not in known or known[after].gives not in (JAXPR, KERNEL):
        places = ", ".join(repr(p.name) for p in known.values() if p.gives in (JAXPR, KERNEL))
        raise TreeError(
            f"The pass {label!r} cannot be inserted after {after!r}.", f"Name one of {places}."
        )
    if label in known:
        raise TreeError(
            f"There is a pass of the name {label!r} already.", "Give the new one another `name`."
        )
    form = known[after].gives
    one = Pass(label, form, form, run, after)
    with config.update(passes=(*config.config.settings.passes, one)):
        yield one


# ---------------------------------------------------------------------------------- running


class Pipeline:
    """Runs the current passes, and keeps the names of those that changed something."""

    def __init__(self, machine: Machine) -> None:
        self._passes = tuple(p for p in current() if p.on(machine))
        self._machine = machine
        self._changing: set[str] = set()

    @property
    def changing(self) -> tuple[str, ...]:
        """The passes that changed something, in their order."""
        return tuple(p.name for p in self._passes if p.name in self._changing)

    def jaxpr(self, jaxpr: Jaxpr, args: Sequence[Any]) -> Jaxpr:
        """A call, opened, after all passes on jaxprs.

        The body of a loop that "roll" has made goes through those behind it.
        """
        if is_rolled(jaxpr):
            names = [p.name for p in self._passes]
            found = opened(jaxpr, args)
            for p in self._passes[names.index("roll") + 1 :]:
                found = self._passed(p, _next_jaxpr, found) if p.gives == JAXPR else found
            return found
        return self._through(JAXPR, _next_jaxpr, jaxpr, args)

    def groups(self, jaxpr: Jaxpr) -> Any:
        """The items of a jaxpr, and the producers of what is pulled into them."""
        items, producers = self._through("groups", _next_jaxpr, jaxpr, self._machine)
        return looked_at_late(items, producers) if self._machine.waits else items, producers

    def kernel(self, *context: Any) -> Launch:
        """A group as a kernel, after all passes on kernels."""
        following = partial(_next_kernel, vector_bytes=self._machine.vector_bytes)
        return self._through(KERNEL, following, *context, self._machine)

    def _through(self, form: str, following: Callable[..., Any], *context: Any) -> Any:
        """What the stage that gives a form makes of its context, after the passes on the form."""
        value: Any = None
        for p in self._passes:
            if p.gives == form:
                value = self._passed(p, following, value, context if p.takes != form else None)
        return value

    def _passed(
        self, p: Pass, following: Callable[..., Any], value: Any, context: Any = None
    ) -> Any:
        """What a pass makes of a value, or a stage of its context."""
        new = following(p, value) if context is None else p.run(*context)
        if new is not value:
            self._changing.add(p.name)
        return new


def _next_jaxpr(one: Pass, jaxpr: Jaxpr) -> Jaxpr:
    """What a pass makes of a jaxpr; a user's result is checked, and its calls are opened."""
    if one.after:
        jaxpr = _with_elements(one, jaxpr)
    if one.of is not None and all(way(e.primitive, one.of) is None for e in jaxpr.eqns):
        return jaxpr
    new = one.run(jaxpr)
    if new is jaxpr or not one.after:
        return new
    if not isinstance(new, Jaxpr):
        _refuse(one, f"gave {type(new).__name__}, no jaxpr")
    if _types(new.in_avals, new.out_avals) != _types(jaxpr.in_avals, jaxpr.out_avals):
        _refuse(one, f"turned {_signature(jaxpr)} into {_signature(new)}")
    try:
        check_jaxpr(new)
    except JaxprError as error:
        _refuse(one, f"left a malformed jaxpr: {error.what}", error)
    return opened(new, jaxpr.invars)


def _with_elements(one: Pass, jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with a user's pass done in the scalar programs of its rows."""

    def through(e: Eqn) -> Eqn:
        each = element(e)
        if each is None:
            return e
        if layout(e) is not None:
            return _through_loop(one, e)
        if "jaxpr" not in e.params:
            return e
        params = dict(e.params)
        if "active" in params:  # derivatives are taken before passes
            params.update(jaxpr=each, active=())
        new = _inside(one, params["jaxpr"])
        return e if new is params["jaxpr"] else _with_params(e, {**params, "jaxpr": new})

    return _with_equations(jaxpr, map(through, jaxpr.eqns))


def _through_loop(one: Pass, e: Eqn) -> Eqn:
    """A loop over numbers after a pass, or one that is such a loop for each batch element."""
    params = dict(e.params)
    each: Each | None = params.get("each")
    if each is None:
        params.update({k: _inside(one, params[k]) for k in ("cond", "body")})
    else:
        params["each"] = Each(*(_inside(one, jaxpr) for jaxpr in each))
    new = _with_params(e, params)
    return new if params != e.params and is_pulled(new) else e  # steps see the pass themselves


def _inside(one: Pass, jaxpr: Jaxpr) -> Jaxpr:
    """A scalar program after a pass, which its arms and loops go through too."""

    def through(e: Eqn) -> Eqn:
        found: dict[str, Any] = {
            k: _inside(one, v) for k, v in e.params.items() if isinstance(v, Jaxpr)
        }
        arms = e.params.get("branches", ())
        new = tuple(_inside(one, b) for b in arms)
        if any(x is not y for x, y in zip(new, arms, strict=True)):
            found["branches"] = new
        changed = any(v is not e.params[k] for k, v in found.items())
        return _with_params(e, {**e.params, **found}) if changed else e

    plain = opened(jaxpr, jaxpr.invars)
    whole = _with_equations(plain, map(through, plain.eqns))
    new = _next_jaxpr(one, whole)
    return jaxpr if new is plain else new


def _with_params(e: Eqn, params: dict[str, Any]) -> Eqn:
    return Eqn(e.primitive, e.invars, params, e.outvars, e.source)


def _with_equations(jaxpr: Jaxpr, eqns: Iterable[Eqn]) -> Jaxpr:
    """The same jaxpr if all equations are the same."""
    eqns = tuple(eqns)
    if all(x is y for x, y in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts, jaxpr.names)


def _next_kernel(one: Pass, launch: Launch, *, vector_bytes: int) -> Launch:
    """What a pass makes of a kernel; where loops are others, it is scheduled anew."""
    kernel = launch.kernel
    new = one.run(kernel)
    if new is kernel:
        return launch
    if not isinstance(new, Kernel):
        _refuse(one, f"gave {type(new).__name__}, no kernel")
    if (new.buffers, new.scalars) != (kernel.buffers, kernel.scalars):
        _refuse(one, f"changed the buffers or scalars of kernel {kernel.name}")
    loops = [[loop.axis for loop in loops_of(k.body)] for k in (kernel, new)]
    chosen = launch.schedule
    try:
        verify(new)
        if loops[0] != loops[1]:
            chosen = schedule(new, vector_bytes)
        verify_schedule(new, chosen)
    except JaxprError as error:
        _refuse(one, f"left a malformed kernel: {error.what}", error)
    return replace(launch, kernel=new, schedule=chosen)


def _types(*avals: Sequence[ShapedArray]) -> list[list[Any]]:
    return [[(a.shape, a.dtype) for a in some] for some in avals]


def _signature(jaxpr: Jaxpr) -> str:
    return f"{list(jaxpr.in_avals)} -> {list(jaxpr.out_avals)}"


def _refuse(one: Pass, what: str, cause: Exception | None = None) -> NoReturn:
    raise JaxprError(
        f"The pass {one.name!r} {what}.",
        "A pass keeps inputs and results as they are, and the rules of its IR: see "
        "ftrace.passes.inserted.",
    ) from cause


# ---------------------------------------------------------------------------------- replacing


class _ReplacingTrace(Trace):
    """Has the parent do everything, with a function in the place of one row."""

    __slots__ = ("_fn", "_row")
    name = "a pass"

    def __init__(self, parent: Trace, row: str, fn: Callable[..., Any]) -> None:
        super().__init__(parent)
        self._row = row
        self._fn = fn

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        ctx.trace = self.parent
        return (self._fn if primitive.name == self._row else primitive)(*args, **params)


def replacing(row: str, fn: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """A pass on jaxprs that puts a function in the place of a row.

    Args:
        row: the primitive's name, as jaxprs print it.
        fn: function of the row's operands, and of its params as keywords, with a result of the same
            shape and dtype; a list of results where the row has several.
        name: of the pass (default: "replace" and the row).

    Example:
        >>> import numpy as np, ftrace
        >>> swap = ftrace.passes.replacing("sin", lambda x: x)
        >>> with ftrace.passes.inserted(swap):
        ...     ftrace.jit(np.sin)(np.arange(3.0))
        array([0., 1., 2.])
    """

    def replaced(jaxpr: Jaxpr) -> Jaxpr:
        if all(e.primitive.name != row for e in jaxpr.eqns):
            return jaxpr

        def evaluate(*args: Any) -> Any:
            return core.run(_ReplacingTrace(ctx.trace, row, fn), eval_jaxpr, jaxpr, args)

        return trace_closed(evaluate, jaxpr.in_avals)

    replaced.__name__ = name or f"replace {row}"
    return replaced
