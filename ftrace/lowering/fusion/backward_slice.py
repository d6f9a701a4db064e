"""What an element needs: elements of results as expressions over stored arrays.

Equations with a `Pointwise` or `Moving` column are *pulled*: whoever wants an element of their
result asks at an index, and the rule asks its operands in turn, down to what is stored. Nothing
is copied for a slice, a transpose or a broadcast; they only change the index. `SliceReader` writes
the expression into a kernel; `reads` only finds out which stored elements it would touch.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Eqn, Literal
from ftrace.core.kinds import element
from ftrace.core.lower import Cumulative, Moving, Reduction
from ftrace.lowering.fusion.fusible import Element, pointwise, unreduced
from ftrace.lowering.fusion.scalar_jaxprs import evaluate
from ftrace.lowering.kernel.builder import Builder
from ftrace.lowering.kernel.complexes import ComplexParts
from ftrace.lowering.kernel.index_maps import ORIGIN, Coord, Gathered, Index
from ftrace.lowering.kernel.ir import PAIRS, KernelVar, Lit

SPELLED: Final = {"sum": "add", "prod": "mul"}  # what a fold does with two values
Producers = Mapping[Any, tuple[int, Eqn, int]]  # variable -> number and equation, which result


def _params(eqn: Eqn, position: int) -> dict[str, Any]:
    """A row's params; a row of several results is told which one is asked for."""
    return {**eqn.params, "position": position} if eqn.primitive.multiple else eqn.params


class SliceReader:
    """Elements of variables, written into a kernel.

    Args:
        builder: the kernel.
        producers: the equations of pulled variables.
        slots: where stored variables lie.
    """

    def __init__(self, builder: Builder, producers: Producers, slots: Mapping[Any, int]) -> None:
        self.builder = builder
        self.producers = producers
        self.slots = slots
        self.local: dict[Any, Any] = {}  # folded values of this kernel

    def at(self, atom: Any, index: Index) -> Any:
        """The element of an atom at an index (which rank-0 values ignore)."""
        if not atom.aval.shape:
            index = ()
        if type(atom) is Literal:
            return self.builder.constant(atom.value, atom.aval.dtype)
        found = self.local.get(atom)
        if found is not None:
            return found
        key = (atom, index)
        found = self.builder.find(key)
        if found is None:
            found = self._compute(atom, index)
            self.builder.remember(key, found)
        return found

    def _compute(self, var: Any, index: Index) -> Any:
        slot = self.slots.get(var)
        if slot is not None:
            return self.load(slot, var.aval, index)
        number, eqn, position = self.producers[var]
        builder, rule = self.builder, eqn.primitive.lower
        if isinstance(rule, Moving):
            before, builder.site = builder.site, number
            params = _params(eqn, position)
            operands = [Element(a, self.at) for a in eqn.invars]
            found = rule.rule(builder, index, var.aval, *operands, **params)
            builder.site = before
            return found
        if isinstance(rule, Reduction):
            return self._folded(eqn, rule, index)
        if isinstance(rule, Cumulative):  # along an axis of size 1
            return self.at(eqn.invars[0], index)
        values = [self.at(a, index) for a in eqn.invars]
        each = element(eqn)
        if each is not None:
            outs = evaluate(builder, each, values)
            for v, found in zip(eqn.outvars, outs, strict=True):
                builder.remember((v, index), found)
            return outs[position]
        return pointwise(builder, eqn, values)

    def _folded(self, eqn: Eqn, rule: Reduction, index: Index) -> Any:
        """A reduction of few elements, one after the other."""
        (x,), out = eqn.invars, eqn.outvars[0].aval
        if rule.fold in PAIRS:  # of axes of size 1
            return self.builder.constant(0, out.dtype)
        first, *rest = (self.at(x, at) for at in unreduced(eqn, index))
        if not rest:
            return first
        half = x.aval.dtype == np.float16  # it is added in single precision
        values = [self.builder.cast(v, "f4") if half else v for v in (first, *rest)]
        op = SPELLED.get(rule.fold, rule.fold)
        return self.builder.convert(reduce(partial(self.builder.op, op), values), out.dtype)

    def load(self, slot: int, aval: ShapedArray, index: Index, space: str = "in") -> Any:
        """An element of a stored array."""
        return _parts(self.builder, slot, aval, index, space, self.builder.load)

    def store(
        self, slot: int, aval: ShapedArray, index: Index, value: Any, combine: str | None = None
    ) -> None:
        """Write an element of a stored array, or combine it with what is there."""
        values = iter(value if isinstance(value, ComplexParts) else (value,))

        def put(buffer: str, dtype: str, at: Any) -> Any:
            self.builder.store(buffer, at, next(values), combine)
            return Lit(0, "i8")

        _parts(self.builder, slot, aval, index, "out", put)


def row_major(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis of a contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return strides[::-1]


def _parts(
    b: Builder,
    slot: int,
    aval: ShapedArray,
    index: Index,
    space: str,
    access: Callable[[str, str, Any], Any],
) -> Any:
    """Access an element, or both parts of a complex one."""
    strides = row_major(aval.shape)
    kind, size = aval.dtype.kind, aval.dtype.itemsize
    if kind != "c":
        dtype = "b1" if kind == "b" else f"{kind}{size}"
        name, at = b.buffer(slot, dtype, index, strides, 0, space)
        return access(name, dtype, at)
    dtype, strides = f"f{size // 2}", [2 * s for s in strides]
    places = [b.buffer(slot, dtype, index, strides, shift, space) for shift in (0, 1)]
    re, im = (access(name, dtype, at) for name, at in places)
    return ComplexParts(re, im)


# ---------------------------------------------------------------------------------- probing


class _Probe:
    """Stands for a builder where only indices matter."""

    origin = ORIGIN

    def __init__(self) -> None:
        self.guarded = 0

    def _nothing(self, *args: Any, **kwargs: Any) -> Any:
        return Lit(0, "i8")

    op = cast = convert = lit = size = position = inside = complex = constant = _nothing

    def gathered(self, atom: Any) -> Gathered:
        return Gathered(atom)

    def shift(self, c: Any, by: int) -> Any:
        return c.shifted(by) if type(c) is Coord else c

    def scale(self, c: Any, by: int) -> Any:
        return c.scaled(by) if type(c) is Coord else c

    def flip(self, c: Any, n: int) -> Any:
        return c.flipped(n) if type(c) is Coord else c

    def when(self, cond: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        self.guarded += 1
        then()
        orelse()
        self.guarded -= 1
        return Lit(0, "i8")


Places = dict[Any, dict[Index, bool]]  # variable -> index -> whether it is read unguarded


def reads(
    wanted: Iterable[tuple[Any, Index]], producers: Producers, stop: Callable[[Any], bool]
) -> tuple[Places, list[tuple[Any, Index]]]:
    """Which stored elements the wanted ones need.

    Args:
        wanted: variables and indices in symbolic axes.
        producers: the equations of pulled variables.
        stop: whether a variable is stored.

    Returns:
        The stored variables and where they are read; and every computed (variable, index) that
        is needed whatever happens, operands first.
    """
    open_: dict[int, Places] = {}
    order: list[int] = []  # a heap: the last equation first
    found: Places = {}
    within: list[tuple[Any, Index]] = []
    probe = _Probe()

    def ask(atom: Any, index: Index) -> Any:
        if type(atom) is not Literal:
            index = index if atom.aval.shape else ()
            if stop(atom):
                places = found
            else:
                number = -producers[atom][0]
                if number not in open_:
                    heapq.heappush(order, number)
                places = open_.setdefault(number, {})
            at = places.setdefault(atom, {})
            affine = all(type(c) is Coord for c in index)
            at[index] = at.get(index, False) or (affine and not probe.guarded)
        return Lit(0, "i8")

    for var, index in wanted:
        ask(var, index)
    while order:
        for var, indices in open_.pop(heapq.heappop(order)).items():
            for index, certain in indices.items():
                if certain:
                    within.append((var, index))
                probe.guarded = 0 if certain else 1
                _ask_operands(probe, var, index, producers[var], ask)
    return found, within[::-1]


def axes_read(eqn: Eqn, operand: Any) -> set[int]:
    """The axes of a result along which a `Moving` row goes through an operand, read as "axes"."""
    found: set[int] = set()

    def ask(atom: Any, index: Index) -> Any:
        if atom is operand:
            found.update(-1 - c.axis.id for c in index if type(c) is Coord and c.axis is not None)
        return Lit(0, "i8")

    out = eqn.outvars[0]
    wide = enumerate(out.aval.shape)
    index = tuple(Coord(KernelVar(-1 - i, "i8")) if n != 1 else ORIGIN for i, n in wide)
    _ask_operands(_Probe(), out, index, (0, eqn, 0), ask)
    return found


def _ask_operands(
    probe: Any, var: Any, index: Index, producer: tuple[int, Eqn, int], ask: Any
) -> None:
    _, eqn, position = producer
    rule = eqn.primitive.lower
    if isinstance(rule, Moving):
        params = _params(eqn, position)
        rule.rule(probe, index, var.aval, *(Element(a, ask) for a in eqn.invars), **params)
        return
    for at in unreduced(eqn, index) if isinstance(rule, Reduction) else [index]:
        for a in eqn.invars:
            ask(a, at)
