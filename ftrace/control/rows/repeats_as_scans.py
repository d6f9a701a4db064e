"""Long jaxprs are shortened before they are differentiated: what repeats itself becomes a `scan`.

A Python loop leaves its iterations one after the other. Lowering finds them again
(`lowering/rolling`), but only behind a derivative, which by then is several times as long. Here the
same search runs first, and its loops become scans, whose rules see one iteration.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.control.rows.scan import scan_call
from ftrace.core import source
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, cached_on_jaxpr
from ftrace.core.scan_layout import ScanLoop
from ftrace.interpreters.induction import Evolution, along
from ftrace.interpreters.invariants import moved_before
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.rolling.roll import roll
from ftrace.lowering.rolling.rolled_row import RolledLoop, rolled, weakened


@cached_on_jaxpr
def with_scans(jaxpr: Jaxpr, least: int) -> Jaxpr:
    """The jaxpr with scans for what repeats itself so many times, if that makes it much shorter."""
    found = roll(jaxpr, least)
    if 2 * len(found.eqns) > len(jaxpr.eqns) or not _can_be_scans(found.eqns):
        return jaxpr
    return _scanning(found)


def _can_be_scans(eqns: Sequence[Eqn]) -> bool:
    """Whether all loops read their arrays element by element, and none makes a number of Python's.

    Such a number cannot be told from others once it has a derivative.
    """
    for e in eqns:
        if e.primitive is weakened:
            return False
        if e.primitive is rolled:
            if not all(step for _, step in e.params["loop"].along):
                return False
            if not _can_be_scans(e.params["body"].eqns):
                return False
    return True


def _scanning(jaxpr: Jaxpr) -> Jaxpr:
    return trace_closed(lambda *args: _evaluated_with_scans(jaxpr, args), jaxpr.in_avals)


@source.replaying
def _evaluated_with_scans(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        operands = [env[a] if type(a) is Var else a.value for a in eqn.invars]
        if eqn.primitive is rolled:
            found = _scanned(operands, **eqn.params)
        else:
            found = eqn.primitive(*operands, **eqn.params)
        env.update(zip(eqn.outvars, found if eqn.primitive.multiple else (found,), strict=True))
    return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def _scanned(operands: list[Any], body: Jaxpr, loop: RolledLoop) -> list[Any]:
    """What a loop gives, by a scan over the parts of its arrays that it reads."""
    n, fixed = loop.n_consts, loop.n_consts + loop.n_carry
    consts, (body,) = moved_before(operands[:n], _scanning(body))
    xs = [
        along(x, Evolution(*places), loop.length)
        for x, places in zip(operands[fixed:], loop.along, strict=True)
    ]
    scan = ScanLoop(loop.length, loop.reverse, len(consts), loop.n_carry)
    return scan_call(*consts, *operands[n:fixed], *xs, body=body, loop=scan)
