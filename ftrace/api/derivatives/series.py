"""Taylor mode: all derivatives along a curve up to some order, in one pass over the program.

`JetTrace` carries, for each value on a curve x(t), the coefficients of its Taylor series. They are
computed when they are asked for, so that a value may be defined by itself: where a row has the
derivative rule y' = r(x, y) x', coefficient k of y is coefficient k - 1 of the right-hand side
over k, which needs lower coefficients of y alone. The same operation on the same values is one
object, so that sin and cos need each other's series and no further ones: order n takes O(n^2)
products for each operation. (Griewank and Walther, Evaluating Derivatives, 2nd edition, 2008,
section 13.2; Bettencourt, Johnson and Duvenaud, Taylor-Mode Automatic Differentiation for
Higher-Order Derivatives in JAX, 2019.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.control.scanning import scan
from ftrace.control.user_loops import switch, while_loop
from ftrace.core import trace as core
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.kinds import way
from ftrace.core.lower import Branch, Call, Iteration, Layout, Pointwise
from ftrace.core.primitive import LINEAR, NONDIFFERENTIABLE, Primitive
from ftrace.core.tapes import is_tape
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.core.zero import ZERO
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives.arithmetic import div, mul, sub
from ftrace.primitives.linear import add

Params = dict[str, Any]


class Series:
    """Taylor coefficients of a value on a curve.

    Args:
        terms: those that are known; ZERO for none.
        more: k -> coefficient k, where those below are known.
    """

    __slots__ = ("more", "terms")

    def __init__(self, terms: list[Any], more: Callable[[int], Any]) -> None:
        self.terms, self.more = terms, more

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return typeof(self.terms[0])

    @property
    def moves(self) -> bool:
        """Whether the value is no constant."""
        return self.more is not _constant

    def term(self, k: int) -> Any:
        """Coefficient k."""
        while len(self.terms) <= k:
            self.terms.append(self.more(len(self.terms)))
        return self.terms[k]


class Jet(Tracer):
    """A value on a curve: writing into it gives it another series."""

    __slots__ = ("series",)
    slots = ("owner", "series")

    def __init__(self, trace: Trace, series: Series) -> None:
        self.owner = trace
        self.series = series

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return self.series.aval

    def known(self, exact: bool) -> Any:
        """The value, or UNKNOWN."""
        if exact and self.series.moves:
            return core.UNKNOWN
        value = self.series.terms[0]
        return value.known(exact) if isinstance(value, Tracer) else value


core.register(Jet)


def _constant(_: int) -> Any:
    return ZERO


class JetTrace(Trace):
    """Applies each operation to series.

    Args:
        parent: computes coefficients.
        order: of the highest one that will be asked for.
    """

    __slots__ = ("in_rule", "made", "order")
    name = "Taylor mode"

    def __init__(self, parent: Trace, order: int) -> None:
        super().__init__(parent)
        self.order = order
        self.in_rule = False
        # (primitive, operands) -> (params, what has to live as long, results)
        self.made: dict[Any, list[tuple[Params, Any, list[Series]]]] = {}

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: Params) -> Any:
        """One operation on series."""
        operands = [a.series if self._is_own(a) else self._entered(a) for a in args]
        live = [k for k, x in enumerate(operands) if x.moves]
        found = self._opened(primitive, operands, params) if live else None
        if found is None:
            key = id(primitive), *map(_key, args, operands)
            found = next((y for p, _, y in self.made.get(key, ()) if _same(p, params)), None)
            if found is None:
                found = self._applied(primitive, operands, live, params)
                self.made.setdefault(key, []).append((params, (args, operands), found))
            if not self.in_rule:  # at once, while captured arrays are what they are
                for y in found:
                    y.term(self.order)
        outs = [Jet(self, y) for y in found]
        return outs if primitive.multiple else outs[0]

    def lift(self, value: Any) -> Jet:
        """A constant."""
        return value.fresh() if self._is_own(value) else Jet(self, self._entered(value))

    def series(self, primal: Any, terms: Sequence[Any]) -> Series:
        """A value with known coefficients."""
        if not is_inexact(typeof(primal).dtype) or all(t is ZERO for t in terms):
            return Series([primal], _constant)
        return Series([primal, *terms], _none_left)

    def _entered(self, value: Any) -> Series:
        return Series([value.fresh() if isinstance(value, Tracer) else value], _constant)

    def _is_own(self, a: Any) -> bool:
        return type(a) is Jet and a.owner is self

    def _applied(
        self, row: Primitive, operands: Sequence[Series], live: Sequence[int], params: Params
    ) -> list[Series]:
        """The results of an operation, with what their coefficients will come from."""
        ctx.trace = self.parent
        found = row(*(x.terms[0] for x in operands), **params)
        results = list(found) if row.multiple else [found]
        smooth = [is_inexact(typeof(y).dtype) for y in results]
        if not live or row.jvp is NONDIFFERENTIABLE or not any(smooth):
            return [Series([y], _constant) for y in results]
        if row.bilinear and len(live) == 2:
            return [Series(results, _product(self.parent, row, params, operands))]
        if _divides(row) and 1 in live:
            return [_quotient(self.parent, Series(results, _none_left), operands)]
        if set(live) <= set(row.linear_in):
            return self._together(results, smooth, self._linear(row, params, operands, live))
        return self._together(results, smooth, self._by_rule(row, params, operands))

    def _together(
        self, results: Sequence[Any], smooth: Sequence[bool], more: Callable[[int], Sequence[Any]]
    ) -> list[Series]:
        """Results whose coefficients are computed together."""
        kept: dict[int, Sequence[Any]] = {}

        def of(i: int) -> Callable[[int], Any]:
            def term(k: int) -> Any:
                if k not in kept:
                    kept[k] = more(k)
                return kept[k][i]

            return term

        return [
            Series([y], of(i) if s else _constant)
            for i, (y, s) in enumerate(zip(results, smooth, strict=True))
        ]

    def _linear(
        self, row: Primitive, params: Params, operands: Sequence[Series], live: Sequence[int]
    ) -> Callable[[int], Sequence[Any]]:
        """An operation that is linear in what moves: coefficient by coefficient."""
        first = [x.terms[0] for x in operands]

        def more(k: int) -> Sequence[Any]:
            terms = [x.term(k) if i in live else ZERO for i, x in enumerate(operands)]
            if all(t is ZERO for t in terms):
                return _Zeros()
            return _under(self.parent, lambda: _pushed(row, first, terms, params))

        return more

    def _by_rule(
        self, row: Primitive, params: Params, operands: Sequence[Series]
    ) -> Callable[[int], Sequence[Any]]:
        """Any operation: its derivative rule, applied to series, gives the derivative's series."""
        slopes: list[Any] = []

        def by_rule() -> list[Any]:
            primals = [Jet(self, x) for x in operands]
            tangents = [Jet(self, self._slope(x)) if x.moves else ZERO for x in operands]
            return _pushed(row, primals, tangents, params)

        def more(k: int) -> Sequence[Any]:
            if not slopes:
                before, self.in_rule = self.in_rule, True
                try:
                    found = _under(self, by_rule)
                finally:
                    self.in_rule = before
                slopes.extend(t if t is ZERO else self.lift(t).series for t in found)
            return [ZERO if s is ZERO else self._scaled(s.term(k - 1), 1.0 / k) for s in slopes]

        return more

    def _slope(self, x: Series) -> Series:
        """The derivative of a series."""
        first = _under(self.parent, lambda: instantiate(x.term(1), x.terms[0]))
        return Series([first], lambda k: self._scaled(x.term(k + 1), k + 1))

    def _scaled(self, term: Any, factor: float) -> Any:
        if term is ZERO or factor == 1:
            return term
        dtype = typeof(term).dtype
        return _under(self.parent, lambda: mul(term, dtype.type(factor)))

    # --- rows that hold jaxprs

    def _opened(self, row: Primitive, operands: Sequence[Series], params: Params) -> Any:
        """The results of a row that other rows compute; None where it is closed."""
        loop, branch = way(row, Iteration), way(row, Branch)
        if loop is not None:
            return self._loop(row, loop.layout(len(operands), **params), operands)
        if branch is not None:
            return self._branch(branch.jaxprs(**params), operands)
        call = way(row, Call)
        if call is not None and call.loses != "rule":
            inner = call.jaxpr([x.aval for x in operands], **params)
            if inner is not None:
                ctx.trace = self
                found = eval_jaxpr(inner, [Jet(self, x) for x in operands])
                return [self.lift(y).series for y in found]
        return None

    def _branch(self, branches: Sequence[Jaxpr], operands: Sequence[Series]) -> list[Series]:
        ctx.trace = self.parent
        spread = [self._spread(x) for x in operands[1:]]
        found = switch(operands[0].terms[0], [self._staged(b) for b in branches], spread)
        return [self.series(*parts) for parts in found]

    def _loop(self, row: Primitive, loop: Layout, operands: Sequence[Series]) -> list[Series]:
        tapes = any(map(is_tape, loop.body.in_avals + loop.body.out_avals))
        if tapes or loop.records or loop.along is not None:
            raise RuleError(
                f"Taylor mode meets a {row.name} that keeps its iterations for a backward pass.",
                "Take derivatives of the series, grad of jet, instead of series of the gradient.",
            )
        ctx.trace = self.parent
        consts = [self._spread(x) for x in loop.consts(operands)]
        carry = [self._spread(x) for x in loop.carry(operands)]
        xs = [self._spread(x) for x in loop.xs(operands)]
        body = self._staged(loop.body)
        n = loop.n_carry
        if loop.cond is None:
            length = operands[0].terms[0] if loop.first else loop.length

            def step(c: Any, x: Any) -> Any:
                outs = body([*consts, *c, *x])
                return outs[:n], outs[n:]

            last, left = scan(step, carry, xs, length, loop.reverse)
            return [self.series(*parts) for parts in (*last, *left)]
        cond = loop.cond

        def going(c: Any) -> Any:
            return eval_jaxpr(cond, [p[0] for p in (*consts, *c)])[0]

        last = while_loop(going, lambda c: body([*consts, *c]), carry)
        return [self.series(*parts) for parts in last]

    def _spread(self, x: Series) -> tuple[Any, list[Any]]:
        """A value and its coefficients as arrays; none of what is no float."""
        primal = x.terms[0]
        if not is_inexact(typeof(primal).dtype):
            return primal, []
        terms = [x.term(k) for k in range(1, self.order + 1)]
        return primal, _under(self.parent, lambda: [instantiate(t, primal) for t in terms])

    def _staged(self, jaxpr: Jaxpr) -> Callable[..., Any]:
        """A jaxpr as a function of values with coefficients."""

        def run(parts: Sequence[Any]) -> list[Any]:
            found = jet_flat(
                lambda *xs: eval_jaxpr(jaxpr, xs),
                [p for p, _ in parts],
                [t or [ZERO] * self.order for _, t in parts],
                self.order,
            )
            return [
                (y, [instantiate(t, y) for t in terms] if is_inexact(typeof(y).dtype) else [])
                for y, terms in found
            ]

        return run


def _none_left(k: int) -> Any:
    raise AssertionError(f"coefficient {k} was not given")


def _under(trace: Trace, thunk: Callable[[], Any]) -> Any:
    """Compute with a trace as the current one."""
    before, ctx.trace = ctx.trace, trace
    try:
        return thunk()
    finally:
        ctx.trace = before


def _pushed(row: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: Params) -> Any:
    """The tangents of a row's results, by its rule."""
    if row.jvp is LINEAR:
        found = row(*map(instantiate, tangents, primals), **params)
        return list(found) if row.multiple else [found]
    tangents = list(tangents)
    if not row.zeros and len(tangents) > 1:
        tangents = [
            t if t is not ZERO or not is_inexact(typeof(p).dtype) else instantiate(t, p)
            for t, p in zip(tangents, primals, strict=True)
        ]
    _, t = row.jvp(list(primals), tangents, **params)  # type: ignore[operator]
    return list(t) if row.multiple else [t]


def _product(
    parent: Trace, row: Primitive, params: Params, operands: Sequence[Series]
) -> Callable[[int], Any]:
    """The coefficients of a product: sums of products of coefficients."""
    x, y = operands

    def more(k: int) -> Any:
        return _under(
            parent,
            lambda: _sum_of(
                lambda a, b: row(a, b, **params), ((x.term(i), y.term(k - i)) for i in range(k + 1))
            ),
        )

    return more


def _quotient(parent: Trace, z: Series, operands: Sequence[Series]) -> Series:
    """z = x / y with its coefficients: those of x = z y, for the highest of z."""
    x, y = operands

    def more(k: int) -> Any:
        def term() -> Any:
            above = x.term(k) if x.moves else ZERO
            beside = _sum_of(mul, ((y.term(j), z.term(k - j)) for j in range(1, k + 1)))
            if above is ZERO and beside is ZERO:
                return ZERO
            if beside is not ZERO:
                above = sub(instantiate(above, beside), beside)
            return div(above, y.terms[0])

        return _under(parent, term)

    z.more = more
    return z


def _sum_of(multiply: Callable[[Any, Any], Any], pairs: Iterable[tuple[Any, Any]]) -> Any:
    """The sum of products, without those that are zero."""
    found: Any = ZERO
    for a, b in pairs:
        if a is not ZERO and b is not ZERO:
            product = multiply(a, b)
            found = product if found is ZERO else add(found, product)
    return found


def _divides(row: Primitive) -> bool:
    pointwise = way(row, Pointwise)
    return pointwise is not None and pointwise.rule == "div"


class _Zeros(Sequence[Any]):
    """As many zeros as are asked for."""

    def __getitem__(self, i: Any) -> Any:
        return ZERO

    def __len__(self) -> int:
        return 0


def _key(x: Any, series: Series) -> Any:
    """What makes an operand the same as another."""
    if type(x) is Jet:
        return id(series)
    return (type(x), x) if type(x) in SCALAR_AVALS else id(x)


def _same(a: Params, b: Params) -> bool:
    """Whether params surely mean the same."""
    return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    plain = (str, int, tuple, np.dtype, type(None))
    return type(a) is type(b) and issubclass(type(a), plain) and bool(a == b)


def jet_flat(
    fn: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int,
) -> list[tuple[Any, list[Any]]]:
    """Push Taylor coefficients through a function of flat values.

    Args:
        fn: the function.
        primals: its arguments.
        series: for each the coefficients from 1 to `order`; ZERO for none.
        order: of the highest.

    Returns:
        For each result its value and coefficients.
    """
    trace = JetTrace(ctx.trace, order)
    inputs = [Jet(trace, trace.series(p, s)) for p, s in zip(primals, series, strict=True)]
    for x, p in zip(inputs, primals, strict=True):
        core.freeze(x, p)
    try:
        found = [trace.lift(y).series for y in core.run(trace, fn, *inputs)]
    finally:
        trace.alive = False
    return [(core.renew(y.terms[0]), [y.term(k) for k in range(1, order + 1)]) for y in found]
