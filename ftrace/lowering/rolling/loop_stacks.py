"""Values that are elements of arrays: what loops leave and read, without a copy.

What the iterations of a loop leave is one array; who read the values of single iterations now finds
`InStack`s. They are cut out only where somebody reads one alone: a list of them that lies evenly in
its array is a `StackWindow`, and joined they are the array. Slices and reshapes of elements wait
until they are needed.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Eqn, Literal, Var
from ftrace.core.kinds import is_reshape, layout, way
from ftrace.core.lower import Moving
from ftrace.core.records import record
from ftrace.lowering.rolling.rolled_row import weakened
from ftrace.primitives.linear import broadcast_in_dim, transpose
from ftrace.primitives.shape import concatenate, reshape, rev
from ftrace.primitives.slicing import slice as cut

PEELED: Final = 2  # iterations at either end of a loop that are left out for a window
FEW: Final = 4  # elements that are joined one by one


class InStack(NamedTuple):
    """A value that is an element of an array along its first axis, in a shape of its own.

    Attributes:
        array: the variable of the array.
        number: which element.
        eqn: what makes the value, if it is in the program and waits.
    """

    array: Any
    number: int
    eqn: Eqn | None


@record
class StackWindow:
    """In iteration i, element `first + i step` of an array."""

    array: Any
    first: int
    step: int


def unit_part(eqn: Eqn, part: Any) -> bool:
    """Whether an equation with a part reads one element along the first axis."""
    moving = way(eqn.primitive, Moving)
    if moving is None or part is None or moving.reads != "shifted":
        return False
    shape, sizes = eqn.invars[0].aval.shape, part[1]
    return bool(shape) and sizes[0] == 1 and sizes[1:] == shape[1:]


class Stacks:
    """The program that is being written, and which of its values are elements.

    Attributes:
        eqns: the equations so far.
        consts: (variable, array) of the constants that were added.
        flipped: arrays -> what they are, from the last element to the first.
    """

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.consts: list[tuple[Var, Any]] = []
        self.flipped: dict[Any, Any] = {}
        self._now: dict[Any, Any] = {}  # a variable of the old program -> atom or element
        self._also: dict[Any, list[InStack]] = {}

    # --- what values are

    def put(self, var: Any, value: Any) -> None:
        """Say what a variable of the old program is: an atom, or an element."""
        self._now[var] = value

    def put_also(self, var: Any, element: InStack) -> None:
        """Say that a value lies in an array, too."""
        self._also.setdefault(var, []).append(element)

    def atom(self, a: Any) -> Any:
        """What stands for an atom of the old program; an element is cut out."""
        if type(a) is Literal:
            return a
        found = self._now.get(a, a)
        if type(found) is InStack:
            found = self._now[a] = self._cut_out(a, found)
        return found

    def _cut_out(self, var: Any, element: InStack) -> Any:
        if element.eqn is not None:
            self._now.pop(var)
            self.add(element.eqn)
            return self._now.get(var, var)
        return self.shaped(self.stretch(element.array, element.number, 1), var.aval)

    def add(self, eqn: Eqn) -> None:
        """Write an equation of the old program."""
        operands = [self.atom(a) for a in eqn.invars]
        if any(a is not b for a, b in zip(operands, eqn.invars, strict=True)):
            eqn = Eqn(eqn.primitive, operands, eqn.params, eqn.outvars, eqn.source)
        self.eqns.append(eqn)

    def plain(self, eqn: Eqn, part: Any) -> None:
        """Write an equation of the old program, or let it wait if it only shows an element."""
        moving = way(eqn.primitive, Moving)
        if moving is not None:
            first = self._now.get(eqn.invars[0]) if eqn.invars else None
            if type(first) is InStack:
                if is_reshape(eqn):
                    self.put(eqn.outvars[0], InStack(first.array, first.number, eqn))
                    return
            elif unit_part(eqn, part):
                array = self.atom(eqn.invars[0])
                self.put(eqn.outvars[0], InStack(array, part[0][0], eqn))
                return
            if moving.joins is not None and self._join(eqn, moving.joins(**eqn.params)):
                return
        self.add(eqn)

    # --- lists of elements

    def window(self, atoms: Sequence[Any]) -> tuple[StackWindow | None, int, int]:
        """The window that shows a list of values one after the other.

        Returns:
            The window, of the values between; and how many at both ends are not in it.
        """
        places = [self._places(a) for a in atoms]
        n, middle = len(atoms), len(atoms) // 2
        for one in places[middle]:
            for two in places[middle + 1] if middle + 1 < n else ():
                if two.array is one.array:
                    step = two.number - one.number
                    first = one.number - step * middle
                    fits = [
                        any(e.array is one.array and e.number == first + step * i for e in here)
                        for i, here in enumerate(places)
                    ]
                    low, high = middle, middle
                    while low > 0 and fits[low - 1]:
                        low -= 1
                    while high + 1 < n and fits[high + 1]:
                        high += 1
                    return StackWindow(one.array, first + step * low, step), low, n - 1 - high
        return None, 0, 0

    def _places(self, atom: Any) -> list[InStack]:
        now = self._now.get(atom)
        also = self._also.get(atom, [])
        return [now, *also] if type(now) is InStack else also

    def _join(self, eqn: Eqn, axis: int) -> bool:
        """Write a concatenation of elements that are neighbours as their array."""
        places: list[Any] = [self._now.get(a) for a in eqn.invars]
        operands: list[Any] = []
        joined, at = False, 0
        while at < len(places):
            end, step = self._neighbours(places, eqn.invars, at)
            if end - at >= FEW:
                lowest = min(places[at].number, places[end - 1].number)
                found = self.stretch(places[at].array, lowest, end - at, reverse=step < 0)
                operands.append(self._in_a_row(found, eqn.invars[at].aval, end - at, axis))
                joined, at = True, end
            else:
                operands.append(self.atom(eqn.invars[at]))
                at += 1
        if not joined:
            return False
        if len(operands) == 1:
            self.put(eqn.outvars[0], operands[0])
        else:
            self.eqns.append(Eqn(eqn.primitive, operands, eqn.params, eqn.outvars, eqn.source))
        return True

    def _neighbours(self, places: Sequence[Any], atoms: Sequence[Any], at: int) -> tuple[int, int]:
        """One behind the last of the elements from one on that are neighbours; and their step."""
        one, end, step = places[at], at + 1, 0
        while end < len(places) and type(one) is InStack and type(places[end]) is InStack:
            two, by = places[end], places[end].number - places[end - 1].number
            alike = atoms[end].aval == atoms[at].aval and two.array is one.array
            if not alike or by not in (1, -1) or by == -step:
                break
            step, end = by, end + 1
        return end, step

    # --- writing

    def write(self, row: Any, operand: Any, params: dict[str, Any]) -> Any:
        """The result of one more equation."""
        out = Var(row.type(operand.aval, **params))
        self.eqns.append(Eqn(row, [operand], params, [out], None))
        return out

    def shaped(self, x: Any, wanted: ShapedArray) -> Any:
        """The same elements in another shape."""
        if x.aval.shape != wanted.shape:
            x = self.write(reshape, x, {"new_sizes": wanted.shape})
        return self.write(weakened, x, {}) if wanted.weak else x

    def stretch(self, array: Any, first: int, count: int, *, reverse: bool = False) -> Any:
        """Some elements of an array along its first axis."""
        shape = array.aval.shape
        if (first, count) != (0, shape[0]):
            params = {
                "start_indices": (first, *(0 for _ in shape[1:])),
                "limit_indices": (first + count, *shape[1:]),
                "strides": (1,) * len(shape),
            }
            array = self.write(cut, array, params)
        if not reverse:
            return array
        out = self.write(rev, array, {"dimensions": (0,)})
        self.flipped[out] = array
        return out

    def stacked(self, atoms: Sequence[Any]) -> Any:
        """One array of several values."""
        a = atoms[0].aval
        rows = [self.shaped(x, aval((1, *a.shape), a.dtype)) for x in atoms]
        out = Var(aval((len(rows), *a.shape), a.dtype))
        self.eqns.append(Eqn(concatenate, rows, {"dimension": 0}, [out], None))
        return out

    def zeros(self, a: ShapedArray) -> Any:
        """An array of zeros, or the number."""
        zero = Literal(a.dtype.type(0))
        if not a.shape:
            return zero
        return self.write(broadcast_in_dim, zero, {"shape": a.shape, "broadcast_dimensions": ()})

    def _in_a_row(self, stack: Any, element: ShapedArray, count: int, axis: int) -> Any:
        """Elements of a stack one behind the other along an axis of theirs."""
        shape = element.shape
        if axis:
            stack = self.shaped(stack, aval((count, *shape), element.dtype))
            order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
            stack = self.write(transpose, stack, {"permutation": order})
        whole = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
        assert prod(whole) == stack.aval.size
        return self.shaped(stack, aval(whole, element.dtype))


def turned(
    eqns: Sequence[Eqn], outs: Sequence[Any], flipped: Mapping[Any, Any]
) -> tuple[list[Eqn], list[Any]]:
    """Equations and results where loops leave their values in the order in which these are read.

    A loop whose values are only read from the last to the first counts down.

    Args:
        eqns: equations.
        outs: their results.
        flipped: variables that are others from the last element to the first.
    """
    readers: dict[Any, list[Any]] = {a: [None] for a in outs if type(a) is Var}
    for e in eqns:
        for a in e.invars:
            if type(a) is Var:
                readers.setdefault(a, []).append(e.outvars[0] if e.outvars else None)
    found: list[Eqn] = []
    now: dict[Any, Any] = {}  # what flips the values of a loop that counts down -> the values
    for e in eqns:
        loop = layout(e)
        if loop is not None and loop.along is not None:
            left = [v for v in e.outvars[loop.n_carry :] if v in readers]
            if left and all(flipped.get(r) is v for v in left for r in readers[v]):
                now.update((r, v) for v in left for r in readers[v])
                params = {**e.params, "loop": e.params["loop"].turned()}
                e = Eqn(e.primitive, e.invars, params, e.outvars, e.source)
        if e.outvars and e.outvars[0] in now:
            continue
        if any(type(a) is Var and a in now for a in e.invars):
            operands = [now.get(a, a) if type(a) is Var else a for a in e.invars]
            e = Eqn(e.primitive, operands, e.params, e.outvars, e.source)
        found.append(e)
    return found, [now.get(a, a) if type(a) is Var else a for a in outs]
