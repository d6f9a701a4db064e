"""One iteration of a run as the body of a loop: its inputs, equations and results.

The iteration's operands are constants, carried values with as many registers as the furthest of
them lies back, or elements of arrays. What is read behind the loop is what the registers hold at
its end, an element of an array that the iterations leave, or of one that was there before.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.core.avals import aval
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import is_reshape, way
from ftrace.core.lower import Moving
from ftrace.interpreters.dce import dce_equations
from ftrace.lowering.rolling.listing import Numbered
from ftrace.lowering.rolling.loop_stacks import InStack, Stacks, StackWindow
from ftrace.lowering.rolling.rolled_row import RolledLoop, rolled
from ftrace.lowering.rolling.unify import Handed, Listed, Literals, Local, Same, Unified
from ftrace.primitives.dynamic import dynamic_slice, dynamic_update_slice
from ftrace.primitives.shape import reshape

INTEGER = aval((), np.dtype(np.int64))


@dataclass(slots=True)
class Chain:
    """What is carried of one result: register k holds that of k iterations before.

    Attributes:
        result: its number in an iteration.
        inits: numbers of what the registers start from; None for zeros.
        registers: their variables in the body.
    """

    result: int
    inits: tuple[int | None, ...]
    registers: list[Var]


class Body:
    """Builds the loop of a run.

    Args:
        listing: where it lies.
        unified: the run.
        stacks: the program that is being written.
        windows: for each operand that is a list, and each equation whose part moves by elements
            of an array, the window that shows it.
    """

    def __init__(
        self, listing: Numbered, unified: Unified, stacks: Stacks, windows: dict[Any, StackWindow]
    ) -> None:
        self.listing = listing
        self.unified = unified
        self.stacks = stacks
        self.windows = windows
        self.run = unified.run
        self.base = int(listing.first_made[self.run.start])
        self.consts: dict[Any, Var] = {}
        self.chains: list[Chain] = []
        self.arrays: dict[Any, tuple[Any, tuple[int, int], Var]] = {}
        self.results: list[Var] = []
        self.shows: dict[int, StackWindow] = {}  # results that are elements of arrays
        self.fixed: dict[int, Any] = {}  # results that are the same in all iterations: outside
        self.eqns: list[Eqn] = []
        self._chain()
        for q in range(self.run.period):
            self._equation(q)
        self.left = self._left()

    # --- operands

    def _chain(self) -> None:
        """Registers for what is carried: the furthest first, which has the others in it."""
        carried = {x for x in self.unified.operands if type(x) is Handed}
        for x in sorted(carried, key=lambda x: -x.delay):
            wanted = x.inits[::-1]
            if not any(c.result == x.result and c.inits[: x.delay] == wanted for c in self.chains):
                a = self.listing.atom(self.base + x.result).aval
                self.chains.append(Chain(x.result, wanted, [Var(a) for _ in wanted]))

    def _operand(self, x: Any, old: Any) -> Any:
        """The atom of an operand in the body."""
        if type(x) is Local:
            return self.results[x.result]
        if type(x) is Handed:
            found = (c for c in self.chains if c.result == x.result)
            match = next(c for c in found if c.inits[: x.delay] == x.inits[::-1])
            return match.registers[x.delay - 1]
        if type(x) is Same:
            return self._const(x.atom)
        if type(x) is Literals:
            return self._numbers(x.atoms, old.aval)
        window = self.windows.get(x.numbers)
        if window is None:
            return self._element(x.numbers, self._stacked(x), (0, 1), old.aval)
        return self._through(window, old.aval)

    def _const(self, atom: Any) -> Any:
        now = self.stacks.atom(atom)
        if type(now) is Literal:
            return now
        return self.consts.setdefault(now, Var(atom.aval))

    def _numbers(self, atoms: Iterable[Any], a: Any) -> Var:
        """An element of an array of numbers that the program holds."""
        values = [np.asarray(x.value, a.dtype) for x in atoms]
        array = np.array(values, a.dtype)
        array.flags.writeable = False
        key = array.tobytes(), a
        if key not in self.arrays:
            var = Var(aval(array.shape, a.dtype))
            self.stacks.consts.append((var, array))
            self._element(key, var, (0, 1), a)
        return self.arrays[key][2]

    def _element(self, key: Any, array: Any, along: tuple[int, int], a: Any) -> Var:
        if key not in self.arrays:
            self.arrays[key] = array, along, Var(a)
        return self.arrays[key][2]

    def _through(self, window: StackWindow, a: Any) -> Any:
        """What a window shows, in the shape of a value."""
        shape = window.array.aval.shape[1:]
        key = window, a if shape == a.shape else None
        own = a if shape == a.shape else aval(shape, a.dtype)
        found = self._element(key, window.array, (window.first, window.step), own)
        return found if shape == a.shape else self._write(reshape, [found], {"new_sizes": a.shape})

    def _stacked(self, x: Listed) -> Any:
        """A list of variables, copied into one array."""
        atoms = [self.stacks.atom(self.listing.atom(n)) for n in x.numbers]
        return self.stacks.stacked(atoms)

    def _write(self, row: Any, operands: list[Any], params: dict[str, Any]) -> Var:
        out = Var(row.type(*(a.aval for a in operands), **params))
        self.eqns.append(Eqn(row, operands, params, [out], None))
        return out

    # --- equations

    def _equation(self, q: int) -> None:
        listing, at = self.listing, self.run.start + q
        old = listing.eqns[at]
        first = int(listing.first_read[at] - listing.first_read[self.run.start])
        kinds = self.unified.operands[first : first + len(old.invars)]
        number = len(self.results)
        window = self._shown(q, old, kinds)
        if window is not None:
            self.shows[number] = window
            self.results.append(self._through(window, old.outvars[0].aval))
            return
        operands = [self._operand(x, a) for x, a in zip(kinds, old.invars, strict=True)]
        starts = self.unified.starts.get(q)
        if starts is not None:
            self.results.append(self._moved(q, old, operands, starts))
            return
        new = [Var(v.aval) for v in old.outvars]
        self.eqns.append(Eqn(old.primitive, operands, old.params, new, old.source))
        self.results += new
        self._note(number, old, kinds)

    def _shown(self, q: int, old: Eqn, kinds: tuple[Any, ...]) -> StackWindow | None:
        """The window of a result that is an element of an array, whatever its shape."""
        found = self.windows.get(("part", q))
        if found is None and is_reshape(old):
            (x,) = kinds
            if type(x) is Local:
                found = self.shows.get(x.result)
            elif type(x) is Listed:
                found = self.windows.get(x.numbers)
        return found

    def _note(self, number: int, old: Eqn, kinds: tuple[Any, ...]) -> None:
        """Whether results are the same in all iterations."""
        if old.primitive.host is None and all(
            type(x) is Same or (type(x) is Local and x.result in self.fixed) for x in kinds
        ):
            for k in range(len(old.outvars)):
                self.fixed[number + k] = old

    def _moved(self, q: int, old: Eqn, operands: list[Any], starts: Any) -> Var:
        """A part whose place is another one in each iteration."""
        place: list[Any] = []
        for column in starts.T:
            number = [Literal(np.int64(n)) for n in column]
            same = (column == column[0]).all()
            place.append(number[0] if same else self._numbers(number, INTEGER))
        moving = way(old.primitive, Moving)
        assert moving is not None
        if moving.reads == "shifted":
            sizes = self.listing.parts[self.run.start + q][1]
            return self._write(dynamic_slice, [*operands, *place], {"slice_sizes": tuple(sizes)})
        return self._write(dynamic_update_slice, [*operands, *place], {})

    # --- results

    def _left(self) -> list[tuple[int, Any]]:
        """Results of which every iteration leaves one, and what the body leaves in their place."""
        read, n = self.unified.read, self.run.iterations
        left: list[tuple[int, Any]] = []
        for r in np.flatnonzero(read.any(0)).tolist():
            first = int(np.argmax(read[:, r]))
            depth = max((len(c.registers) for c in self.chains if c.result == r), default=0)
            if r in self.shows or r in self.fixed or first >= n - depth:
                continue
            if first == n - 1:
                a = self._old(r, 0).aval
                self.chains.append(Chain(r, (None,), [Var(a)]))
            else:
                before = self._before(r)
                left.append((r, self.results[r] if before is None else before.registers[0]))
        return left

    @property
    def bytes_left(self) -> int:
        """What the iterations leave, beyond what they carry."""
        return self.run.iterations * sum(v.aval.size * v.aval.dtype.itemsize for _, v in self.left)

    def write(self) -> None:
        """Write the loop, and say what the values of its iterations are from now on."""
        for r, window in self.shows.items():
            for j in np.flatnonzero(self.unified.read[:, r]).tolist():
                element = InStack(window.array, window.first + j * window.step, None)
                self.stacks.put(self._old(r, j), element)
        self._write_fixed()
        self._write_loop()

    def _old(self, result: int, iteration: int) -> Any:
        """The variable of a result in an iteration of the old program."""
        return self.listing.atom(self.base + result + iteration * len(self.results))

    def _before(self, result: int) -> Chain | None:
        """The register to leave in the place of a result: what it was an iteration before.

        That is what somebody wants who reads the first of these values as the others: a derivative
        reads what iterations started from.
        """
        uses, names = self.listing.last_use, self.listing.names

        def reader(number: int) -> int:
            at = int(uses[number])
            return int(names[at]) if self.run.end <= at < len(names) else -1

        first, step = self.base + result, len(self.results)
        for c in self.chains:
            if c.result == result and c.inits[0] is not None:
                middle = reader(first + step * (self.run.iterations // 2))
                last = reader(first + step * (self.run.iterations - 1))
                if middle >= 0 and reader(c.inits[0]) == middle != last:
                    return c
        return None

    def _write_fixed(self) -> None:
        """What is the same in all iterations, and read behind them, once."""
        read = self.unified.read
        written: set[int] = set()
        for r, old in self.fixed.items():
            if id(old) not in written:
                written.add(id(old))
                self.stacks.add(old)
            for j in np.flatnonzero(read[:, r]).tolist():
                if j:
                    self.stacks.put(self._old(r, j), self._old(r, 0))

    def _write_loop(self) -> None:
        outs: list[Any] = []
        for c in self.chains:
            outs += [self.results[c.result], *c.registers[:-1]]
        outs += [x for _, x in self.left]
        eqns = dce_equations(self.eqns, outs)
        if not outs and not eqns:  # all is fixed, and nothing raises
            return
        used = {*outs, *(a for e in eqns for a in e.invars)}
        consts = [(a, v) for a, v in self.consts.items() if v in used]
        arrays = [x for x in self.arrays.values() if x[2] in used]
        registers = [v for c in self.chains for v in c.registers]
        binders = [*(v for _, v in consts), *registers, *(v for *_, v in arrays)]
        along = tuple(x[1] for x in arrays)
        loop = RolledLoop(self.run.iterations, len(consts), len(registers), along)
        operands = [*(a for a, _ in consts), *self._inits(), *(x[0] for x in arrays)]
        body = Jaxpr(binders, eqns, outs)
        body.cache["rolled"] = True
        avals = rolled.type(*(a.aval for a in operands), body=body, loop=loop)
        new = [Var(a) for a in avals]
        place = self.listing.eqns[self.run.start].source
        self.stacks.eqns.append(Eqn(rolled, operands, {"body": body, "loop": loop}, new, place))
        self._say(new)

    def _inits(self) -> list[Any]:
        """What the registers start from."""
        return [
            self.stacks.zeros(v.aval) if n is None else self.stacks.atom(self.listing.atom(n))
            for c in self.chains
            for n, v in zip(c.inits, c.registers, strict=True)
        ]

    def _say(self, new: list[Var]) -> None:
        """What the values of iterations are: what the loop gives."""
        supply = iter(new)
        n, read = self.run.iterations, self.unified.read
        for c in self.chains:
            for k in range(len(c.registers)):
                final = next(supply)
                if n - 1 - k >= 0:
                    self.stacks.put(self._old(c.result, n - 1 - k), final)
        for r, x in self.left:
            stack = next(supply)
            before = x is not self.results[r]
            for j in np.flatnonzero(read[:, r]).tolist():
                if j + before < n:
                    self.stacks.put(self._old(r, j), InStack(stack, j + before, None))
            if before:
                chain = next(c for c in self.chains if c.registers[0] is x)
                assert chain.inits[0] is not None
                start = self.listing.atom(chain.inits[0])
                self.stacks.put_also(start, InStack(stack, 0, None))
