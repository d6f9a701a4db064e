"""Plans: places in memory, results, what depends on sizes and what does not."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.scalar import OPS
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime.main import module_text
from ftrace.lowering.fusion.weights import LIMIT
from ftrace.lowering.kernel.ir import Let, blocks_of, loops_of
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.show import text
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.machine import Machine
from ftrace.lowering.memory.arena import ALIGNMENT, Arena
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import (
    ARENA,
    ARGUMENT,
    CONSTANT,
    RESULT,
    Apply,
    BranchStep,
    Callback,
    Copy,
    Multiply,
    PartOf,
    Scan,
    ScatterStep,
)
from tests.lowering import programs
from tests.lowering.programs import counted, planned
from tests.lowering.simulate import simulate

S = ftrace.ShapeDtypeStruct
V, X = np.linspace(-2, 3, 12), np.linspace(-2, 3, 12).reshape(3, 4)


def checked(f, *args):
    """The results of a program, run both ways, and compared with the function's."""
    program = planned(f, *args)
    assert_places_are_disjoint(program)
    leaves = ftrace.tree_util.tree_leaves(args)
    with np.errstate(all="ignore"):
        expected = ftrace.tree_util.tree_leaves(f(*args))
    for reverse in (False, True):
        found = simulate(program, leaves, reverse=reverse)
        for y, e in zip(found, expected, strict=True):
            assert y.shape == np.shape(e)
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)
    return program


# ---------------------------------------------------------------------------------- memory


def assert_places_are_disjoint(program: Any) -> None:
    """No place in the arena is written while another one at the same bytes is still to be read.

    The steps are followed with every loop taken twice and the first or the last arm of every
    choice: a step may only read bytes that were last written as the same slot.
    """
    for last in (False, True):
        _Follower(program, last).steps(program.steps)


class _Follower:
    """Who wrote each byte of the arena last."""

    def __init__(self, program: Any, last: bool) -> None:
        self.program = program
        self.last = last
        self.owner: dict[int, int] = {}
        self.bytes: dict[int, range] = {}
        self.shown: dict[int, int] = {}  # a window -> what it looks at
        self.parts: dict[int, range] = {}  # a part of an array -> its bytes there
        for k in program.of_place(ARENA):
            a = program.slots[k].aval
            start = program.table[program.slots[k].entry]
            self.bytes[k] = range(start, start + a.size * a.dtype.itemsize)
            assert start % ALIGNMENT == 0
            assert self.bytes[k].stop <= program.arena

    def behind(self, slots: Any) -> set[int]:
        """Slots, with what windows look at in their place."""
        return {k if k not in self.shown else min(self.behind([self.shown[k]])) for k in slots}

    def read(self, slots: Any) -> None:
        for k in self.behind(slots):
            writers = {self.owner.get(byte) for byte in self.bytes.get(k, ())}
            assert writers <= {k}, f"slot {k} was overwritten by {writers}"

    def move(self, inputs: set[int], outputs: set[int]) -> None:
        """A step that reads and writes in any order."""
        for a in inputs & self.parts.keys():
            for b in outputs & self.parts.keys():
                if self.shown[a] == self.shown[b]:  # two parts of one array
                    low, high = sorted((self.parts[a], self.parts[b]), key=lambda r: r.start)
                    assert low.stop <= high.start
                    inputs = inputs - {a}
        inputs, outputs = self.behind(inputs), self.behind(outputs)
        assert not inputs & outputs
        self.read(inputs)
        for k in outputs:
            assert self.program.slots[k].place in (ARENA, RESULT)
            self.owner.update(dict.fromkeys(self.bytes.get(k, ()), k))
        self.read(inputs | outputs)

    def steps(self, steps: Any) -> None:
        for step in steps:
            if isinstance(step, Launch):
                inputs, outputs, own = self.launch(step)
                self.read(own)
                self.move(inputs - own, outputs)
            elif isinstance(step, Copy):
                self.move({step.source}, {step.target})
            elif isinstance(step, Callback):
                call = self.program.callbacks[step.number]
                self.move({k for k in call.operands if k is not None}, set(call.results))
            elif isinstance(step, Multiply):
                self.move({step.lhs, step.rhs}, {step.out})
            elif isinstance(step, Apply):
                self.move({*step.inputs} - {*step.outputs}, {*step.outputs})
                self.steps(step.fails)
            elif isinstance(step, BranchStep):
                self.read([step.index])
                self.steps(step.arms[-1 if self.last else 0])
            elif isinstance(step, ScatterStep):
                self.read([step.out])
                self.move({step.updates, step.places}, {step.out})
            elif isinstance(step, PartOf):
                start, a = self.program.table[step.start], self.program.slots[step.slot].aval
                self.shown[step.slot] = step.base
                self.parts[step.slot] = range(start, start + a.size * a.dtype.itemsize)
            else:
                self.turns(step)

    def launch(self, step: Launch) -> tuple[set[int], set[int], set[int]]:
        """Slots that are read and written, and those read only where they are written, before it.

        A loop over scalars keeps them in variables until its end; other kernels may overwrite an
        operand element by element.
        """
        seen: dict[str, dict[int, set[Any]]] = {"in": {}, "out": {}}
        for buffer, operand in zip(step.kernel.buffers, step.operands, strict=True):
            numbers = [self.program.table[e] for e in (operand.offset, *operand.steps)]
            where = (buffer.steps, *numbers)
            seen[buffer.space].setdefault(operand.slot, set()).add(where)
        inputs, outputs = seen["in"], seen["out"]
        scalar = not loops_of(step.kernel.body)
        own = {k for k in inputs if k in outputs}
        own = {k for k in own if scalar or len(inputs[k] | outputs[k]) == 1}
        return set(inputs), set(outputs), own

    def turns(self, loop: Any) -> None:
        if isinstance(loop, Scan):
            self.shown.update((w.slot, w.base) for w in loop.windows)
            self.steps((*loop.body, *loop.body))
            return
        self.steps(loop.cond)
        for _ in range(2):
            self.read([loop.predicate])
            self.steps(loop.body)
            self.steps(loop.cond)


def nested(x):
    """A choice in a loop in a choice in a loop, with values around that live on."""
    before = np.sort(x, axis=0)

    def inner(c):
        i, y = c
        z = np.sort(y, axis=0)
        y = lax.cond(i % 2 == 0, lambda z, y: np.sort(z * 0.25 + y, 0), lambda z, y: y - z, z, y)
        return i + 1, np.tanh(y + before)

    def outer(c):
        i, y = c
        turned = lax.cond(
            i == 1,
            lambda y: lax.while_loop(lambda c: c[0] < 3, inner, (0, y))[1],
            lambda y: np.sort(y[::-1], axis=0) * 0.5,
            y,
        )
        return i + 1, turned + np.sort(before, 0) * 0.1

    return lax.while_loop(lambda c: c[0] < 3, outer, (0, x))[1] + before


def swapped(x):
    """Carries that change places, one that stays, and one that is computed from both."""
    state = (0, x, x * 2.0, x - 1.0)
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[2], c[1], c[1] + c[2] * 0.5), state
    )


def reshaped(x):
    """Reshapes are names for the same memory; they outlive what they rename."""
    y = np.sort(x * 2.0, axis=0)
    flat = np.reshape(np.reshape(y, (2, 2, 3)), (12,))
    other = x + 1.0
    for _ in range(4):
        other = np.sort(other, axis=0)
    return flat, other @ x.T, flat[::-1] * 2.0, np.reshape(flat, (6, 2))


def turned(start, x=0.0):
    """A loop that leaves what it started from changed."""
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sort(c[1], axis=0) * 0.5 + x), (0, start)
    )[1]


def both(a, b):
    """A loop over two values that swap."""
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[2], np.sort(c[1], 0)), (0, a, b)
    )


# What a loop starts from is read by others too, or by none.
STARTS = {
    "alone": (0, lambda x: turned(x + 1.0)),
    "in the arena": (0, lambda x: np.sort(turned(x + 1.0), 1)),
    "one after another": (0, lambda x: turned(turned(turned(x + 1.0)))),
    "under another name": (0, lambda x: np.sort(turned(np.reshape(np.sort(x, 0), (6, 2))), 0)),
    "an input": (1, lambda x: turned(x)),
    "read afterwards": (1, lambda x: (lambda y: np.sort(turned(y), 0) * y)(np.sort(x, 0))),
    "read by a later one": (1, lambda x: (lambda y: (turned(y), y * 2.0))(np.sort(x, 0))),
    "a result": (1, lambda x: (lambda y: (turned(y), y))(np.sort(x, 0))),
    "read by the loop": (1, lambda x: (lambda y: turned(y, y))(np.sort(x, 0))),
    "carried twice": (2, lambda x: (lambda y: both(y, y)[1:])(np.sort(x, 0))),
    "read under another name": (
        1,
        lambda x: (lambda y: turned(y, np.reshape(np.reshape(y, (12,)), (3, 4))))(np.sort(x, 0)),
    ),
    "of two loops": (1, lambda x: (lambda y: turned(y) - turned(y, 1.0))(np.sort(x, 0))),
}


@pytest.mark.parametrize("name", STARTS)
def test_loops_start_where_they_end_unless_others_read_it(name):
    copies, f = STARTS[name]
    program = checked(f, X)
    assert arrays_copied(program) == copies


def arrays_copied(program):
    sizes = [program.slots[s.target].aval.size for s in program.steps if isinstance(s, Copy)]
    return len([n for n in sizes if n > 1])


@pytest.mark.parametrize("read", [False, True])
def test_scans_start_where_they_end_unless_others_read_it(read):
    def f(x):
        start = np.sort(x[0] + 1.0)
        end, ys = lax.scan(lambda c, x: (np.sort(c) * 0.5 + x, c[0]), start, x)
        return (end, ys, start) if read else (end, ys)

    program = planned(f, X)
    assert arrays_copied(program) == int(read)
    for y, e in zip(simulate(program, [X]), f(X), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-12)


STRUCTURES = {
    "nested": nested,
    "swapped": swapped,
    "reshaped": reshaped,
    "inputs": lambda x: (x, x, x + 1.0, x),
    "literals": lambda x: (1.5, x * 0.0, np.float32(2.0), True, 3),
    "duplicates": lambda x: (lambda y: (y, y, y[:1], y))(np.sin(x)),
    "unused": lambda x: (np.sort(x, axis=0), x * 2.0)[1],
    "an alias of an input": lambda x: np.reshape(x, (12,)),
    "a view of an input": lambda x: (x.T, x[1], x[::-1, 1:3]),
    "results in the middle": lambda x: (lambda y: (y, np.sort(y, 0), np.sort(y, 0) * y))(x + 1),
    "a chain of products": lambda x: x @ x.T @ x @ x.T @ x,
    "products of a library": lambda x: (lambda y: y @ y.T @ y)(np.concatenate([x * 0.5] * 8)),
    "written": lambda x: written(x),
    "places that reshapes hold": lambda x: places_that_reshapes_hold(x),
    "at a computed place": lambda x: at_a_computed_place(x),
    "a row and then all": lambda x: a_row_and_then_all(x),
    "joined": lambda x: np.concatenate([x, x[:1] * 2.0, np.sort(x, 0)], axis=0)[::-2],
    "arms of inputs": lambda x: lax.cond(x[0, 0] > 0, lambda y: (y, y), lambda y: (y, -y), x),
    "no turn": lambda x: lax.while_loop(lambda c: c[0] < 0, lambda c: (c[0], c[1] * 2.0), (0, x)),
    "literal carries": lambda x: lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, 1.0 + c[1], x * c[1]), (0, 0.0, x)
    ),
    "truths": lambda x: (
        lambda t: [f(t, axis=a) for f in (np.max, np.min, np.any, np.all) for a in (0, 1)]
    )(x > 0.0),
    "in place": lambda x: np.sort(np.sin(np.sort(x, 0)) * 2.0, 1),
    "not in place": lambda x: np.sort((lambda y: y[::-1] * y)(np.sort(x, 0)), 1),
    "two that die": lambda x: np.sort(np.sort(x, 0) - np.sort(x, 1)[:, ::-1], 1),
    "a loop in a condition": lambda x: lax.while_loop(
        lambda c: lax.while_loop(lambda d: d > 4.0, lambda d: d - 4.0, np.sum(c)) < 2.0,
        lambda c: c + 0.375,
        x,
    ),
}


def places_that_reshapes_hold(x):
    """A reshape holds the first place in the arena, which others would take."""
    held = np.reshape(np.sort(x, axis=0), (12,))
    return held, np.sort(np.sort(np.sort(x, axis=1), axis=0), axis=1)


def at_a_computed_place(x):
    """A window whose place is known at run time, on what is itself a view of a view."""
    n = np.sum(x > 0.0) - 6
    return lax.dynamic_slice((x[:, 1:] * 2.0)[::-1, ::2], (n, n), (2, 1))


def a_row_and_then_all(x):
    """A kernel that reads the first row of what its second pass could overwrite."""
    y = np.sort(x @ x.T, axis=0)
    row = y[0] * 2.0
    return row, np.sort(y * row[:, None], axis=0)


def written(x):
    out = fnp.zeros((4, 4))
    out[1:] = x
    out[0] += out[2] * 2.0
    out[:, 1] = out[1, :]
    return out


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_program_of_a_structure_gives_its_value(name):
    checked(STRUCTURES[name], X)


def test_results_are_slots_of_their_own():
    program = planned(STRUCTURES["inputs"], X)
    assert len(program.of_place(RESULT)) == 4
    assert len([s for s in program.steps if isinstance(s, Copy)]) == 3


def test_dead_code_leaves_no_trace():
    program = planned(STRUCTURES["unused"], X)
    assert (len(program.launches), len(program.callbacks), program.arena) == (1, 0, 0)


def test_memory_of_the_past_is_used_again():
    def deep(x):
        for _ in range(20):
            x = np.sort(np.sin(x), axis=0)
        return x

    size = 100 * 8 * 8
    assert counted(deep, np.ones((100, 8))).arena <= 2 * size
    assert counted(STRUCTURES["in place"], np.ones((100, 8))).arena == size
    assert counted(STRUCTURES["not in place"], np.ones((100, 8))).arena == 2 * size


def test_a_loop_gives_back_its_memory():
    def turned(x):
        return lax.while_loop(lambda c: np.sum(c) < 9.0, lambda c: np.sort(c + 0.5, axis=0), x)

    def times(n):
        def repeated(x):
            for _ in range(n):
                x = turned(x * 0.1)
            return x

        return repeated

    assert counted(times(6), X).arena == counted(times(2), X).arena


def test_signs_of_zeros_survive():
    x = np.array([0.0, -0.0, 1.0, -1.0])
    f = ftrace.jit(lambda x: (x + 0.0, x - 0.0, x * 1.0, x / 1.0, 0.0 - x, x + -0.0, -x, 0.0 + x))
    expected = (x + 0.0, x, x, x, 0.0 - x, x, -x, x + 0.0)
    for y, e in zip(f(x), expected, strict=True):
        np.testing.assert_array_equal(np.signbit(y), np.signbit(e))


def test_captured_arrays_are_constants_and_read_again():
    table = X * 2.0
    program = plan(ftrace.make_jaxpr(lambda x: x + table + table)(X), Machine(64))
    assert len(program.of_place(ARGUMENT)) == len(program.of_place(CONSTANT)) == 1
    before = simulate(program, [X])[0]
    table += 1.0
    np.testing.assert_allclose(simulate(program, [X])[0], before + 2.0)


# ---------------------------------------------------------------------------------- the arena


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 300)), max_size=40))
def test_places_in_an_arena_never_overlap(moves):
    arena, alive = Arena(), []
    for free, which, size in moves:
        if free and alive:
            arena.give(*alive.pop(which % len(alive)))
            continue
        start = arena.take(size)
        assert start % ALIGNMENT == 0
        assert start + size <= arena.size
        for other, length in alive:
            assert start + max(size, 1) <= other or other + max(length, 1) <= start
        alive.append((start, size))
    for place in alive:
        arena.give(*place)
    assert arena.take(arena.size) == 0


# ---------------------------------------------------------------------------------- sizes


def sized(f, *shapes):
    """The text of a function's code for some shapes."""
    return module_text(planned(f, *(S(shape, np.float64) for shape in shapes)), host())


SIZES = {
    "chain": (programs.chain, [((7,),), ((1000,),), ((0,),)]),
    "softmax": (programs.softmax, [((3, 5),), ((64, 32),), ((5, 5),), ((2**20, 1024),)]),
    "layernorm": (programs.layernorm, [((3, 5), (5,), (5,)), ((4, 4), (4,), (4,))]),
    "gradient": (
        ftrace.grad(programs.layernorm_loss),
        [((3, 5), (5,), (5,)), ((64, 32), (32,), (32,))],
    ),
    "rosenbrock": (ftrace.grad(programs.rosenbrock), [((10,),), ((200,),)]),
    "views": (programs.views, [((30, 20),), ((7, 9),)]),
    "nested": (nested, [((4, 3),), ((7, 5),)]),
    "rectangles": (
        lambda x, y: x @ y.T + np.tanh(x[:, :1]),
        [((3, 9), (4, 9)), ((7, 11), (6, 11))],
    ),
    "columns": (lambda x: np.sum(np.sin(x), axis=0), [((3, 5),), ((64, 7),)]),
    "pads": (lambda x: np.pad(x, ((1, 2), (2, 1))), [((5, 7),), ((6, 6),), ((7, 6),), ((7, 8),)]),
    "two sums": (lambda x: (x.sum(axis=0), x.sum(axis=1)), [((5, 7),), ((6, 6),)]),
    "parts": (lambda x, y: np.concatenate([x, y]), [((5,), (7,)), ((6,), (6,)), ((6,), (12,))]),
    "running": (lambda x: np.sort(x, axis=0)[::-1] + x, [((3, 5),), ((8, 6),)]),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_no_part_of_the_code(name):
    f, shapes = SIZES[name]
    assert len({sized(f, *s) for s in shapes}) == 1


def test_rows_have_three_classes_of_lengths():
    shapes = [(100, 3), (32, 24), (31, 16), (100, 25), (7, 1024), (100, 1025), (3, 2**20)]
    codes = [sized(lambda x: np.sum(x * x, axis=1), shape) for shape in shapes]
    assert codes[0] == codes[1] != codes[2] == codes[3] == codes[4] != codes[5] == codes[6]


def test_sizes_that_coincide_give_the_same_code_where_loops_stay_apart():
    def f(x, y):
        return np.sin(x), np.cos(y)

    apart, equal = sized(f, (7, 3), (5, 4)), sized(f, (6, 6), (6, 6))
    assert apart != equal  # siblings of one shape share a loop: the only known exception
    assert equal == sized(f, (9, 8), (9, 8))


def test_an_axis_of_size_one_is_another_structure():
    assert sized(programs.softmax, (5, 1)) != sized(programs.softmax, (5, 2))


def test_numbers_are_no_part_of_the_code():
    def scaled(k):
        return lambda x: x * k + 7.0

    codes = {module_text(planned(scaled(k), V), host()) for k in (3.0, -8.25, np.pi)}
    assert len(codes) == 1
    assert module_text(planned(scaled(2.0), V), host()) not in codes  # 0, 1, -1, 2, 0.5 stay


def test_programs_beyond_two_to_the_31_are_planned():
    n = 2**33
    program = planned(lambda x: np.sum(np.sin(x[1:, ::-1]) * x[:-1], axis=1), S((n, 3), np.float64))
    assert n - 1 in program.table
    assert 3 * 8 + 2 * 8 in program.table  # from the array's start to row 1, last column
    program = planned(lambda x: x.T[::-1] * 2.0, S((2**20, 2**20), np.float32))
    assert (2**20 - 1) * 4 in program.table
    program = planned(lambda x: (np.sin(x), np.sort(np.sin(x[::-1])) + 1), S((n,), np.float64))
    assert program.arena >= 8 * n
    assert (n - 1) * 8 in program.table


# ---------------------------------------------------------------------------------- long programs


def deep(n):
    def chain(x):
        for i in range(n):
            x = np.sin(x) * 0.5 if i % 3 else x + 1.0
        return x

    return chain


def test_long_chains_are_planned_without_recursion():
    limit = sys.getrecursionlimit()
    with ftrace.config.update(roll=0):
        program = planned(deep(2000), V)
        assert 10 < len(program.launches) < 40
        assert all(len(text(each.kernel).splitlines()) < LIMIT for each in program.launches)
        program = planned(lambda x: ftrace.grad(lambda y: np.sum(deep(600)(y)))(x), V)
        assert len(program.launches) < 100
    assert sys.getrecursionlimit() == limit


def _operations(program):
    """Names of the operations of all kernels."""

    def walk(block):
        for s in block.stmts:
            if isinstance(s, Let):
                yield s.op
            for b in blocks_of(s):
                yield from walk(b)

    return [op for launch in program.launches for op in walk(launch.kernel.body)]


def test_a_choice_between_equals_is_none():
    (launch,) = checked(lambda x: np.where(x > 0.0, x + 1.0, x + 1.0), X).launches
    assert "select" not in text(launch.kernel)


def test_nothing_costly_is_done_twice_in_a_kernel():
    program = planned(programs.cell_and_partials, *(X,) * 7)
    costly = [op for op in _operations(program) if OPS[op].costly]
    assert costly.count("exp") == 2  # two sigmoids
    assert costly.count("tanh") == 1


@pytest.mark.parametrize("value", [0.1, 1e-5, -2.5, 1e300, 1e-300, np.nan])
def test_a_number_beside_float32_is_rounded_before_the_kernel(value):
    """No kernel of float32 starts with a conversion."""
    x = np.array([1.0, -2.0, np.inf], np.float32)

    def f(x):
        return x * value + value

    program = planned(f, x)
    (launch,) = program.launches
    assert {v.dtype for v in launch.kernel.scalars} == {"f4", "i8"}
    assert not [s for s in inside(launch.kernel.body) if isinstance(s, Let) and s.op == "cast"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(simulate(program, [x])[0], f(x))


def test_a_number_that_is_needed_in_two_precisions_is_there_in_both():
    x, y = np.ones(3, np.float32), np.ones(3)
    program = planned(lambda x, y: (x * 0.1, y * 0.1), x, y)
    (launch,) = program.launches
    assert sorted(v.dtype for v in launch.kernel.scalars) == ["f4", "f8", "i8"]
    for found, expected in zip(
        simulate(program, [x, y]), (x * np.float32(0.1), y * 0.1), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
