"""What is known of traced values by the equations that computed them.

Whether two are certainly one value, and whether two integers seem to differ by a constant. The
first compares structures. The second evaluates both at a few values of what they are computed from
(Schwartz, Fast probabilistic algorithms for verification of polynomial identities, 1980): it is a
guess, which whoever asks has to check.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.device import to_host
from ftrace.core.dtypes import int64
from ftrace.core.jaxpr import Eqn, Literal
from ftrace.core.trace import EVAL, Tracer, ctx, now
from ftrace.interpreters.staging import JaxprTracer

DEPTH: Final = 8  # of equations behind two values that are compared
PROBES: Final = 12


def is_same(a: Any, b: Any) -> bool:
    """Whether two masks are one value, as far as tracing tells: `x > 0` and again `x > 0`."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, Tracer) or a.owner is not b.owner:
        return False
    if type(a) is JaxprTracer:
        return _same_atom(a.owner, a.atom, b.atom, DEPTH)
    slots = [slot for slot in a.slots if slot not in ("owner", "tangent")]
    pairs = [(getattr(a, slot), getattr(b, slot)) for slot in slots]
    return all(x is y or is_same(x, y) for x, y in pairs)


def _same_atom(trace: Any, a: Any, b: Any, depth: int) -> bool:
    if a is b:
        return True
    if type(a) is Literal or type(b) is Literal:
        return type(a) is type(b) and a.aval == b.aval and repr(a.value) == repr(b.value)
    e, f = _made(trace, a), _made(trace, b)
    if e is None or f is None:
        outside = [
            next((x for x, v in trace.hoisted.values() if v is atom), None) for atom in (a, b)
        ]
        return None not in outside and is_same(*outside)
    return (
        depth > 0
        and e.primitive is f.primitive
        and not e.effects
        and _place(e, a) == _place(f, b)
        and len(e.invars) == len(f.invars)
        and _alike(e.params, f.params)
        and all(_same_atom(trace, x, y, depth - 1) for x, y in zip(e.invars, f.invars, strict=True))
    )


def _made(trace: Any, var: Any) -> Any:
    """The equation that gives a variable, or None."""
    return next((e for e in reversed(trace.eqns) if any(out is var for out in e.outvars)), None)


def _place(eqn: Any, var: Any) -> int:
    return next(i for i, out in enumerate(eqn.outvars) if out is var)


def _alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    try:
        return bool(a == b)
    except ValueError:  # parameters that are arrays
        return False


# ---------------------------------------------------------------------------------- differences


def difference(a: Any, b: Any, n: int) -> int | None:
    """The number by which `b` seems to exceed `a`, whatever both are computed from; else None.

    Args:
        a, b: traced or plain integers.
        n: a number about which values are tried: the size of an axis.
    """
    found: set[int] = set()
    made: dict[Any, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for i in range(PROBES):
                probe = _Probe(i, *((0, 2 * n + 2), (n, 4), (0, 4))[i % 3], made)
                one, other = (np.asarray(probe.value(x), int64) for x in (a, b))
                found.update(np.ravel(other - one).tolist())
                if len(found) > 1:
                    return None
    except (ArithmeticError, TypeError, ValueError):
        return None
    return found.pop() if found else None


class _Probe:
    """Values of integers for some choice of those that they are computed from.

    Args:
        seed: of the choice.
        middle, reach: of the values that are chosen.
        made: the equations that were found, by what they make.
    """

    def __init__(self, seed: int, middle: int, reach: int, made: dict[Any, Any]) -> None:
        self._state = seed
        self._middle, self._reach = middle, reach
        self._made = made
        self._values: dict[Any, Any] = {}

    def value(self, x: Any) -> Any:
        """The value of a traced or plain integer."""
        while isinstance(x, Tracer) and type(x) is not JaxprTracer:
            x = getattr(now(x), x.slots[1])
        if isinstance(x, Tracer):
            x = now(x)
            return self._of(x.owner, x.atom)
        return np.asarray(to_host(x), int64)

    def _of(self, trace: Any, atom: Any) -> Any:
        if type(atom) is Literal:
            return atom.value
        if atom not in self._values:
            self._values[atom] = self._found(trace, atom)
        return self._values[atom]

    def _found(self, trace: Any, atom: Any) -> Any:
        if atom not in self._made:
            self._made[atom] = _made(trace, atom)
        eqn = self._made[atom]
        if eqn is not None and _is_arithmetic(eqn):
            args = [self._of(trace, v) for v in eqn.invars]
            outer, ctx.trace = ctx.trace, EVAL
            try:
                return eqn.primitive(*args, **eqn.params)
            finally:
                ctx.trace = outer
        outside = next((x for x, v in trace.hoisted.values() if v is atom), None)
        return self._chosen(atom.aval) if outside is None else self.value(outside)

    def _chosen(self, aval: Any) -> Any:
        """Integers of a linear congruential generator (Knuth's MMIX)."""
        some: list[int] = []
        for _ in range(aval.size):
            self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
            some.append(self._middle + (self._state >> 33) % (2 * self._reach + 1) - self._reach)
        found = np.array(some, int64).reshape(aval.shape)
        return (abs(found) if aval.dtype.kind == "u" else found).astype(aval.dtype)[()]


def _is_arithmetic(eqn: Eqn) -> bool:
    return (
        not eqn.primitive.multiple
        and eqn.primitive.effects is None
        and eqn.primitive.host is None
        and all(v.aval.dtype.kind in "iu" for v in (*eqn.invars, *eqn.outvars))
    )
