"""Scans whose members turn by themselves: kernels in the place of steps.

The kernels are simulated, with members in both orders, and compared bit by bit with the program
that goes from turn to turn; compiled programs compute the same.
"""

from typing import Any
from unittest import mock

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, jvp, lax, vjp, vmap
from ftrace.cpu.llvm.machine_code import host
from ftrace.lowering.kernel.ir import While, loops_of
from ftrace.lowering.kernel.schedule import LANE
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import BranchStep, Copy, Repeat, Scan, every
from tests.lowering.programs import planned
from tests.lowering.simulate import simulate
from tests.lowering.test_plan import assert_places_are_disjoint

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=5) * 0.7, RNG.normal(size=5)
X = RNG.normal(size=(6, 5))
M, XS = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 3, 4))
V = RNG.normal(size=7)
MANY = RNG.normal(size=(4, 300))


def stepwise(f: Any, *args: Any) -> Any:
    """The program that goes from turn to turn."""
    with mock.patch("ftrace.lowering.planning.plan.loop_kernels", return_value=None):
        return program_of(f, *args)


def program_of(f: Any, *args: Any) -> Any:
    """The program of a function; what it captured is read at each call."""
    return plan(ftrace.make_jaxpr(f)(*args), Machine(host().vector_bytes))


def is_whole(program: Any) -> bool:
    """Whether a program is kernels, but for copies of what loops start from."""
    return not any(isinstance(s, Scan | Repeat | BranchStep) for s in every(program.steps))


def same(found: Any, expected: Any) -> None:
    """The same bits."""
    for y, e in zip(found, expected, strict=True):
        assert (y.shape, y.dtype) == (e.shape, e.dtype)
        assert y.tobytes() == e.tobytes() or np.array_equal(y, e, equal_nan=True)
        if y.dtype.kind == "f":
            there = ~np.isnan(e)
            np.testing.assert_array_equal(np.signbit(y)[there], np.signbit(e)[there])


def checked(f: Any, *args: Any, exact: bool = True) -> Any:
    """The program of a function: simulated, compared with its steps, compiled."""
    program, leaves = program_of(f, *args), ftrace.tree.leaves(args)
    assert is_whole(program)
    if not any(s.aval.dtype.kind == "c" for s in program.slots):  # parts lie side by side
        assert_places_are_disjoint(program)
    for launch in program.launches:
        verify(launch.kernel)
        verify_schedule(launch.kernel, launch.schedule)
    expected = simulate(stepwise(f, *args), leaves)
    for reverse in (False, True):
        same(simulate(program, leaves, reverse=reverse), expected)
    compiled = ftrace.tree.leaves(jit(f)(*args))
    with np.errstate(all="ignore"):
        plain = ftrace.tree.leaves(f(*args))
    for y, e, z in zip(compiled, expected, plain, strict=True):
        assert (np.shape(y), np.asarray(y).dtype) == (e.shape, e.dtype)
        if exact:
            np.testing.assert_array_equal(y, e)
        else:
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)
        kind = np.asarray(z).dtype
        rough = kind.itemsize // (1 + (kind.kind == "c")) < 8 and kind.kind in "fc"
        tolerance = 2e-2 if kind.itemsize == 2 else 1e-5 if rough else 1e-11
        np.testing.assert_allclose(y, z, rtol=tolerance, atol=tolerance)
    return program


# ---------------------------------------------------------------------------------- programs


def both(a, x):
    return lax.scan(lambda c, x: (c * a + x, c * x), x[0] * 0.5, x)


def squashed(a, x):
    return lax.scan(lambda c, x: (np.tanh(c * a + x), c), x[0], x)


def counting(a, x):
    """A number is carried beside the array, and both are results."""

    def turn(c, x):
        i, y = c
        return (i + 1, y * a + x * i), (y, i * 2)

    return lax.scan(turn, (0, x[0]), x)


def numbers(a, x):
    """What is scanned is a number; so is one of the operands."""
    return lax.scan(lambda c, s: (c * s + a, c), x[0], x[:, 0])


def outer(x, y):
    """A vector is carried, and a matrix that its elements change."""

    def turn(c, x):
        v, m = c
        return (v * 0.5 + x, m * 0.9 + v[:, None] * y), m

    return lax.scan(turn, (x[0] * 1.0, x[0][:, None] * y), x)


def delayed(x):
    """Every turn reads what two turns before it left, and swaps."""
    return lax.scan(lambda c, x: ((c[1] + x, c[0]), c[0] - c[1]), (x[0], x[1]), x)


def chosen(a, x):
    def turn(c, x):
        y = np.where(c > 0, c * a, x - c)
        return y, (y > 0, np.sign(y))

    return lax.scan(turn, x[0], x)


def constants(x):
    """A turn leaves numbers that are written in it."""
    return lax.scan(lambda c, x: ((x, 1.0), (2.5, c[0])), (x[0] * 2.0, 3.0), x)


def captured(x):
    return lax.scan(lambda c, x: (c * B + x, x - B[0]), x[0], x)


PROGRAMS = {
    "a carry and what turns leave": (both, (A, X)),
    "backwards": (lambda a, x: lax.scan(lambda c, x: (c * a + x, c), a, x, reverse=True), (A, X)),
    "a number beside it": (counting, (A, X)),
    "numbers on the way": (numbers, (A, X)),
    "two axes": (both, (M, XS)),
    "a vector and a matrix": (outer, (X, B)),
    "carries that are exchanged": (delayed, (X,)),
    "a choice": (chosen, (A, X)),
    "constants": (constants, (X,)),
    "a captured array": (captured, (X,)),
    "of numbers": (lambda v: lax.scan(lambda c, s: (c * 0.5 + s, c), 0.0, v), (V,)),
    "no array is scanned": (
        lambda a: lax.scan(lambda c, _: (c * 0.5 + a, None), a, None, length=6)[0],
        (A,),
    ),
    "nothing is carried": (lambda x: lax.scan(lambda _, x: (None, x * 2.0), None, x)[1], (X,)),
    "a counted loop": (lambda a: lax.fori_loop(0, 6, lambda i, c: c * 0.5 + i, a), (A,)),
    "an operand that is transposed": (
        lambda m, x: lax.scan(lambda c, x: (c * m.T + x, c.sum() * 0.0 if False else x), x[0], x),
        (M.T.copy(), XS),
    ),
    "one turn": (both, (A, X[:1])),
    "no turns": (lambda a, x: lax.scan(lambda c, x: (c * a + x, c), a, x), (A, X[:0])),
    "no members": (both, (A[:0], X[:, :0])),
    "one member": (both, (A[:1], X[:, :1])),
    "an axis of size 1": (both, (M[:, :1], XS[:, :, :1])),
    "more members than a vector has lanes": (both, (MANY[0], MANY)),
    "mapped": (vmap(both, in_axes=(0, 1)), (A, X)),
    "mapped over one operand": (vmap(both, in_axes=(None, 0)), (A, XS[..., None] + A)),
    "in a branch": (
        lambda a, x: both(lax.cond(a[0] > 0, lambda a: a, lambda a: a * 2.0, a), x),
        (A, X),
    ),
}
WHOLE = [name for name in PROGRAMS if name != "in a branch"]


@pytest.mark.parametrize("name", WHOLE)
def test_members_turn_by_themselves(name):
    f, args = PROGRAMS[name]
    checked(f, *args)


def test_a_scan_in_a_branch_and_in_a_loop():
    f, args = PROGRAMS["in a branch"]
    assert not any(isinstance(s, Scan) for s in every(planned(f, *args).steps))
    np.testing.assert_allclose(jit(f)(*args)[1], f(*args)[1], rtol=1e-14)

    def g(x):
        return lax.scan(lambda c, m: (both(c, m)[0] + np.sum(c), both(c, m)[1]), x[0, 0], x)

    (outside,) = [s for s in every(planned(g, XS).steps) if isinstance(s, Scan)]
    assert not any(isinstance(s, Scan) for s in every(outside.body))
    for y, e in zip(jit(g)(XS), g(XS), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-14)


@pytest.mark.by_size
@pytest.mark.parametrize(
    "f",
    [
        squashed,
        lambda a, x: lax.scan(
            lambda c, x: (np.exp(-c * c) / (1.5 + np.sin(x)), np.sqrt(np.abs(c))), a, x
        ),
    ],
)
def test_functions_in_turns(f):
    checked(f, A, X, exact=False)


# ---------------------------------------------------------------------------------- dtypes


def mixed(a, x):
    return lax.scan(lambda c, x: (c * a - x, c + x), x[0], x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i1", "u1", "u4", "c16", "c8"])
def test_dtypes_keep_their_bits(dtype, reverse):
    x = (RNG.normal(size=(6, 5)) * 3).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x = x + x[:, ::-1] * np.asarray(1j, dtype)

    def f(a, x):
        return lax.scan(lambda c, x: (c * a - x, c + x), x[0], x, reverse=reverse)

    checked(f, x[1], x)


def test_booleans_and_what_becomes_of_them():
    def f(x):
        def turn(c, x):
            some, count = c
            return (some ^ (x > 0), count + some), (some & (x < 0.5), count.astype(np.float32))

        return lax.scan(turn, (x[0] > 0, fnp.zeros(5, np.int32)), x)

    checked(f, X)


def test_a_half_is_rounded_in_every_turn():
    x = np.full((40, 3), 0.1, np.float16)
    program = checked(lambda x: lax.scan(lambda c, x: (c + x, c), x[0], x), x)
    last, total = simulate(program, [x])[0], np.float16(0.1)
    for _ in range(40):
        total = np.float16(total + np.float16(0.1))
    assert last[0] == total
    assert last[0] != np.float16(4.1)  # what float32 would have made of it


def test_special_values():
    x = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan], [-0.0, -0.0, -np.inf, 1.0, 2.0]])
    checked(lambda x: lax.scan(lambda c, x: (c * -x, c + x), x[0], x), x)


# ---------------------------------------------------------------------------------- derivatives


def loss(a, x):
    c, ys = squashed(a, x)
    return np.sum(c * c) + np.sum(ys * ys)


def central(f, x, step=1e-5):
    """The gradient of a function by differences."""
    found = np.empty_like(x)
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = step
        found[i] = (f(x + d) - f(x - d)) / (2 * step)
    return found


@pytest.mark.by_size
def test_gradients_are_kernels_forwards_and_backwards():
    f = grad(loss, argnums=(0, 1))
    checked(f, A, X, exact=False)
    found = jit(f)(A, X)
    np.testing.assert_allclose(found[0], central(lambda a: loss(a, X), A), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found[1], central(lambda x: loss(A, x), X), rtol=1e-7, atol=1e-8)


@pytest.mark.by_size
def test_second_derivatives():
    def f(a, x):
        return jvp(grad(loss), (a, x), (B, x))[1]

    def g(a, x):
        return grad(lambda a: np.sum(grad(loss)(a, x) * B))(a)

    checked(f, A, X, exact=False)
    checked(g, A, X, exact=False)
    slope = (grad(loss)(A + 1e-5 * B, X) - grad(loss)(A - 1e-5 * B, X)) / 2e-5
    np.testing.assert_allclose(jit(g)(A, X), slope, rtol=1e-6, atol=1e-8)


def test_the_two_halves_of_a_compiled_function():
    f = jit(squashed)
    value, back = vjp(f, A, X)
    expected, plain = vjp(squashed, A, X)
    for y, e in zip(value, expected, strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-13)
    for y, e in zip(back(value), plain(expected), strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-12)


def test_derivatives_of_numbers():
    def f(v):
        return lax.scan(lambda c, s: (np.sin(c) * s + 1.0, c), 0.5, v)[0]

    for g in (grad(f), lambda v: jvp(grad(f), (v,), (v,))[1]):
        checked(g, V, exact=False)
    np.testing.assert_allclose(jit(grad(f))(V), central(f, V), rtol=1e-7, atol=1e-9)


@pytest.mark.by_size
def test_mapped_gradients():
    checked(vmap(grad(loss, argnums=(0, 1))), XS[:3, 0], XS[:3], exact=False)


# ---------------------------------------------------------------------------------- numbers


def alternating(v):
    """A branch and a loop over numbers."""

    def turn(c, s):
        i, y = c
        y = lax.cond(i % 2 == 0, lambda y: y * 0.5 + s, lambda y: y - s, y)
        y = lax.while_loop(lambda z: np.abs(z) > 1.0, lambda z: z * 0.5, y)
        return (i + 1, y), y

    return lax.scan(turn, (0, 4.0), v)


def test_branches_and_loops_over_numbers_are_part_of_the_kernel():
    program = checked(alternating, V * 4.0)
    (kernel,) = kernels_with_turns(program)
    assert any(isinstance(s, While) for s in inside(kernel.body))


def test_a_branch_or_a_loop_beside_arrays_stays_a_step():
    def branch(x):
        turn = lambda c, x: (lax.cond(x[0] > 0, lambda c: c + x, lambda c: c, c), None)  # noqa: E731
        return lax.scan(turn, x[0], x)[0]

    program = planned(branch, X)
    assert [Scan, BranchStep] <= [
        type(s) for s in every(program.steps) if isinstance(s, Scan | BranchStep)
    ]
    np.testing.assert_allclose(jit(branch)(X), branch(X), rtol=1e-14)


# ---------------------------------------------------------------------------------- what stays


def shrunk(y):
    """A number that is halved until it is small."""
    while y > 1.0:
        y = y * 0.5
    return y


STEPS = {
    "a sum over members": (lambda x: lax.scan(lambda c, x: (c + np.sum(c * x), c), x[0], x), (X,)),
    "neighbours": (lambda x: lax.scan(lambda c, x: (c[::-1] + x, c), x[0], x), (X,)),
    "shifted members": (
        lambda x: lax.scan(lambda c, x: (np.concatenate([c[1:], c[:1]]) + x, c), x[0], x),
        (X,),
    ),
    "a transposed carry": (
        lambda x: lax.scan(lambda c, x: (c.T + c + x, c), x[0], x),
        (XS[:, :, :3],),
    ),
    "a product": (lambda x: lax.scan(lambda c, x: (x @ c, c), x[0], x), (XS[:, :, :3],)),
    "a row of Python": (lambda x: lax.scan(lambda c, x: (np.sort(c) + x, c), x[0], x), (X,)),
    "a loop of each member": (
        lambda x: lax.scan(
            lambda c, x: (
                vmap(lambda c: lax.while_loop(lambda z: z > 1.0, lambda z: z * 0.5, c))(c) + x,
                c,
            ),
            x[0],
            x,
        ),
        (X,),
    ),
    "a loop in a row of each member": (
        lambda x: lax.scan(
            lambda c, x: (ftrace.vectorize(shrunk)(c) + x, c),
            x[0],
            x,
        ),
        (X,),
    ),
    "neighbours of what is scanned": (
        lambda x: lax.scan(
            lambda c, x: (c + (lambda y: y[1:] - y[:-1])(np.exp(x)), c), x[0, 1:], x
        ),
        (X,),
    ),
    "many operands": (
        lambda *xs: lax.scan(lambda c, xs: (c + sum(xs[1:], xs[0]), c), xs[0][0], xs),
        tuple(X + i for i in range(70)),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_members_that_need_others_go_from_turn_to_turn(name):
    f, args = STEPS[name]
    with mock.patch("ftrace.lowering.planning.loop_kernels.small_loop", return_value=None):
        program = planned(f, *args)
    assert any(isinstance(s, Scan) for s in program.steps)
    expected = ftrace.tree.leaves(f(*args))
    for y, z, e in zip(
        simulate(program, args), ftrace.tree.leaves(jit(f)(*args)), expected, strict=True
    ):
        np.testing.assert_allclose(y, e, rtol=1e-12)
        np.testing.assert_allclose(z, e, rtol=1e-12)


def test_tapes_go_from_turn_to_turn():
    def f(x):
        return np.sum(lax.while_loop(lambda c: np.sum(c) < 90.0, lambda c: c * 1.5 + x, x))

    assert any(isinstance(s, Scan) for s in planned(grad(f), np.abs(A)).steps)
    np.testing.assert_allclose(jit(grad(f))(np.abs(A)), grad(f)(np.abs(A)), rtol=1e-12)


def test_a_kernel_never_reads_what_another_one_has_overwritten():
    """The two carries start where they end; the later kernel would read both starts."""

    def f(x, y):
        def turn(c, _):
            row, column = c
            return (row * 0.5 + column[:, 0], column * 0.9 + 1.0), None

        start = (np.sort(x) + 1.0, np.sort(y, axis=0) + 2.0)
        row, column = lax.scan(turn, start, None, length=4)[0]
        return row, column

    args = (A, B[:, None])
    expected = f(*args)
    for y, z, e in zip(simulate(planned(f, *args), args), jit(f)(*args), expected, strict=True):
        np.testing.assert_allclose(y, e, rtol=1e-13)
        np.testing.assert_allclose(z, e, rtol=1e-13)


# ---------------------------------------------------------------------------------- the choice


def kernels_with_turns(program):
    return [k.kernel for k in program.launches if any(x.params for x in loops_of(k.kernel.body))]


def test_long_waits_between_turns_go_over_all_members_first():
    def turned(f, members):
        x = np.ones((20, members))
        return kernels_with_turns(plan(jit(f).trace(x[0], x), Machine(64)))

    assert turned(squashed, 16)  # in two vectors
    assert not turned(squashed, 17)
    before = lambda a, x: lax.scan(lambda c, x: (c * a + np.tanh(x), c), x[0], x)  # noqa: E731
    assert turned(before, 300)  # no turn waits for it


def test_turns_that_touch_many_pages_go_over_all_members_first():
    few, many = np.ones((200, 600)), np.ones((600, 600))
    assert kernels_with_turns(planned(both, few[0], few))
    assert not kernels_with_turns(planned(both, many[0], many))
    start = lambda a: lax.scan(lambda c, _: (c * a, None), a, None, length=10**6)[0]  # noqa: E731
    assert kernels_with_turns(planned(start, many))  # nothing is touched between turns


def test_where_calls_cost_more_all_members_turn_by_themselves():
    many = np.ones((600, 600))
    program = plan(jit(squashed).trace(many[0], many), Machine(64, pages=None))
    assert is_whole(program)


def test_members_are_in_lanes_and_turns_in_order():
    (kernel,) = kernels_with_turns(planned(both, A, X))
    (launch,) = [k for k in planned(both, A, X).launches if loops_of(k.kernel.body)[-1].params]
    assert launch.kernel == kernel
    members, turns = loops_of(kernel.body)
    assert (launch.schedule.role(members), turns.params != ()) == (LANE, True)


def test_nothing_is_copied_between_turns():
    program = planned(both, A, X)
    assert not any(isinstance(s, Copy) for s in every(program.steps))


def test_results_that_nobody_reads_are_not_computed():
    def f(a, x):
        (_, y), _ = counting(a, x)
        return y

    (kernel,) = kernels_with_turns(planned(f, A, X))
    assert sum(b.space == "out" for b in kernel.buffers) == 1
    checked(f, A, X)
