"""Every rule of the checker has a kernel that breaks just it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from ftrace.core.errors import JaxprError
from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.ir import (
    DTYPES,
    Block,
    Buffer,
    Fold,
    If,
    Kernel,
    KernelVar,
    Let,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    While,
)
from ftrace.lowering.kernel.schedule import LANE, LONG, SERIAL, Schedule, schedule
from ftrace.lowering.kernel.verify import verify, verify_schedule
from tests.lowering.kernels import SAMPLES, Sample, kernels
from tests.lowering.nests import i8

X, Y = Buffer("x", "f8", ("one",), "in"), Buffer("y", "f8", ("one",), "out")
N, K, A = KernelVar(1, "i8"), KernelVar(2, "i8"), KernelVar(3, "f8")
READ, WRITE = Load(A, "x", (K,)), Store("y", (K,), A)
TRUE, ZERO = Lit(True, "b1"), Lit(0.0, "f8")


def inside(*stmts: Stmt, buffers: tuple[Buffer, ...] = (X, Y), **loop: Any) -> Kernel:
    """A kernel `for i < n: a = x[i]; stmts; y[i] = a`."""
    body = Block((READ, *stmts, WRITE), loop.pop("leave", ()))
    nest = Loop(loop.pop("outs", ()), K, N, body, **loop)
    return Kernel("planted", buffers, (N,), Block((nest,)))


def let(op: str, *args: Any, to: str = "f8") -> Let:
    return Let(KernelVar(10, to), op, args)


def folding(fold: Fold, *leave: Any, out: str = "") -> Kernel:
    return inside(folds=(fold,), leave=leave, outs=(KernelVar(20, out or fold.acc),))


def body_of(*stmts: Stmt, buffers: tuple[Buffer, ...] = (X, Y)) -> Kernel:
    return Kernel("planted", buffers, (N,), Block(stmts))


def loop(axis: int, *stmts: Stmt, extent: Any = N, **more: Any) -> Loop:
    return Loop(more.pop("outs", ()), KernelVar(axis, "i8"), extent, Block(stmts), **more)


def at(axis: int) -> tuple[KernelVar]:
    return (KernelVar(axis, "i8"),)


def choice(*stmts: Stmt, cond: Any = TRUE) -> If:
    return If((), cond, Block(stmts), Block(()))


def repeat(cond: Block, body: Block | None = None, **more: Any) -> While:
    params = more.get("params", (KernelVar(31, "f8"),))
    body = Block((), params) if body is None else body
    outs = more.get("outs", (KernelVar(30, "f8"),))
    return While(outs, params, more.get("inits", (A,)), cond, body)


ALWAYS = Block((), (TRUE,))
CARRIED = {"params": (KernelVar(21, "f8"),), "inits": (ZERO,), "outs": (KernelVar(20, "f8"),)}

FAULTS: dict[str, list[Kernel]] = {"two buffers are named x": [inside(buffers=(X, Y, X))]}


def fault(rule: str, *broken: Kernel) -> None:
    FAULTS[rule] = list(broken)


fault("buffer x has the unknown type c16", inside(buffers=(replace(X, dtype="c16"), Y)))
fault("buffer x has an unknown class of step", inside(buffers=(replace(X, steps=("two",)), Y)))
fault("buffer x has the unknown space local", inside(buffers=(replace(X, space="local"), Y)))
fault("the body of a kernel leaves no values", Kernel("planted", (), (N,), Block((), (N,))))
fault("a variable has the unknown type f16", inside(let("cast", A, to="f16")))
fault(
    "a variable is bound twice",
    inside(READ),
    inside(Let(K, "add", (K, K))),
    inside(loop(2)),
    inside(choice(let("neg", A)), let("neg", A)),
    Kernel("planted", (), (N, N), Block(())),
    inside(repeat(ALWAYS, params=(A,))),
)
fault(
    "a variable is read outside of its scope",
    inside(let("neg", KernelVar(99, "f8"))),
    inside(let("neg", KernelVar(10, "f8"))),
    inside(choice(let("neg", A)), Let(KernelVar(11, "f8"), "neg", (KernelVar(10, "f8"),))),
    inside(loop(5, let("neg", A)), Let(KernelVar(11, "f8"), "neg", (KernelVar(10, "f8"),))),
    body_of(loop(5), Store("y", at(5), ZERO)),
    inside(repeat(ALWAYS), Let(KernelVar(11, "f8"), "neg", (KernelVar(31, "f8"),))),
    inside(
        repeat(
            Block((let("lt", A, A, to="b1"),), (KernelVar(10, "b1"),)),
            Block((), (KernelVar(10, "b1"),)),
        )
    ),
    inside(folds=(Fold("sum", "f8"),), leave=(KernelVar(20, "f8"),), outs=(KernelVar(20, "f8"),)),
)
fault("a variable of type f8 is read as f4", inside(let("neg", KernelVar(3, "f4"), to="f4")))
fault("a literal has the unknown type c8", inside(let("neg", Lit(0.0, "c8"))))
fault("0 is not a canonical literal of type f8", inside(let("add", A, Lit(0, "f8"))))
fault("1 is not a canonical literal of type b1", inside(choice(cond=Lit(1, "b1"))))
fault("True is not a canonical literal of type i4", inside(let("neg", Lit(True, "i4"), to="i4")))
fault("128 is not a canonical literal of type i1", inside(let("neg", Lit(128, "i1"), to="i1")))
fault("-1 is not a canonical literal of type u8", inside(let("neg", Lit(-1, "u8"), to="u8")))
fault(
    "1.0 is not a canonical literal of type i8",
    inside(Load(KernelVar(10, "f8"), "x", (Lit(1.0, "i8"),))),
)
fault("an extent has type i8", body_of(loop(5, extent=Lit(3, "i4"))))
fault("an extent is not negative", body_of(loop(5, extent=i8(-1))))
fault(
    "an extent is a scalar of the kernel or a literal",
    inside(loop(5, extent=K)),
)
fault("there is no operation twice", inside(let("twice", A)))
fault("add takes 2 operands", inside(let("add", A)))
fault("the condition of select has type b1", inside(let("select", A, A, A)))
fault("the operands of add differ in type", inside(let("add", A, K)))
fault("the operands of select differ in type", inside(let("select", TRUE, A, K)))
fault("and is not defined for f8", inside(let("and", A, A)))
fault("exp is not defined for i8", inside(let("exp", K, to="i8")))
fault("neg is not defined for b1", inside(let("neg", TRUE, to="b1")))
fault(
    "float16 is converted, not computed with",
    inside(let("add", Lit(0.0, "f2"), Lit(1.0, "f2"), to="f2")),
    inside(let("bitcast", Lit(0.0, "f2"), to="u2")),
)
fault("a result of type f8 is bound as f4", inside(let("neg", A, to="f4")))
fault("a result of type b1 is bound as f8", inside(let("lt", A, A)))
fault("bitcast from f8 to i4 changes the size", inside(let("bitcast", A, to="i4")))
fault(
    "there is no buffer z here",
    inside(Load(KernelVar(10, "f8"), "z", (K,))),
    inside(Store("z", (K,), A)),
)
fault(
    "buffer x has 1 coordinates, not 2",
    inside(Load(KernelVar(10, "f8"), "x", (K, K))),
)
fault(
    "a coordinate has type i8",
    inside(Load(KernelVar(10, "f8"), "x", (A,))),
    inside(Load(KernelVar(10, "f8"), "x", (Lit(0, "i4"),))),
)
fault("a result of type f8 is bound as i8", inside(Load(KernelVar(10, "i8"), "x", (K,))))
fault(
    "an output is read where this iteration has not written it",
    inside(Load(KernelVar(10, "f8"), "y", (K,))),
    body_of(loop(5, Store("y", at(5), ZERO), Load(A, "y", (i8(0),)))),
    body_of(loop(5, choice(Store("y", at(5), ZERO)), Load(A, "y", at(5)))),
    body_of(loop(5, Store("y", at(5), ZERO)), loop(6, Load(A, "y", at(6)), extent=i8(4))),
    body_of(loop(5, Store("y", at(5), ZERO), loop(6, Load(A, "y", at(6))))),
    body_of(loop(5, Store("y", at(5), ZERO), extent=i8(4)), Load(A, "y", (i8(4),))),
    body_of(loop(5, Store("y", at(5), ZERO, "sum")), loop(6, Load(A, "y", at(6)))),
    inside(
        repeat(ALWAYS, Block((WRITE,), (ZERO,))),
        Load(KernelVar(10, "f8"), "y", (K,)),
    ),
)
fault(
    "an output is read while a loop still combines into it",
    body_of(
        loop(5, Store("y", at(5), ZERO)),
        loop(6, loop(7, Store("y", at(7), ZERO, "sum"), Load(A, "y", at(7)))),
    ),
)
fault(
    "the condition of a While stores nothing",
    inside(repeat(Block((WRITE,), (TRUE,)))),
    inside(repeat(Block((choice(WRITE),), (TRUE,)))),
)
fault("an input is not written", inside(Store("x", (K,), A)))
fault("f4 is stored to a buffer of f8", inside(Store("y", (K,), Lit(0.0, "f4"))))
fault(
    "argmax is not a fold that a store can combine with",
    inside(Store("y", (K,), A, "argmax")),
)
fault("add is not a fold that a store can combine with", inside(Store("y", (K,), A, "add")))
fault("or is not defined for f8", inside(Store("y", (K,), A, "or")))
fault(
    "sum is not defined for f2",
    body_of(loop(5, Store("y", at(5), Lit(0.0, "f2"), "sum")), buffers=(replace(Y, dtype="f2"),)),
)
fault(
    "a store names every enclosing loop, or combines",
    inside(Store("y", (i8(0),), A)),
    inside(loop(5, Store("y", (K,), A))),
    inside(Let(KernelVar(9, "i8"), "add", (K, K)), Store("y", at(9), A)),
    body_of(loop(5, Store("y", (i8(0),), ZERO), params=(KernelVar(6, "f8"),), inits=(ZERO,))),
)
fault(
    "there is no loop below If or While",
    inside(choice(loop(5))),
    inside(repeat(ALWAYS, Block((loop(5),), (ZERO,)))),
    inside(repeat(Block((loop(5),), (TRUE,)))),
)
fault("the axis of a loop has type i8", body_of(Loop((), KernelVar(5, "i4"), N, Block(()))))
fault(
    "the body of the loop leaves 1 values", inside(leave=(), **CARRIED), folding(Fold("sum", "f8"))
)
fault("the body of the loop leaves 0 values", inside(leave=(A,)))
fault("the body of the loop leaves 2 values", folding(Fold("argmax", "f8"), A))
fault(
    "carried values keep their types",
    inside(leave=(K,), **CARRIED),
    inside(repeat(ALWAYS, Block((), (K,)))),
    inside(repeat(ALWAYS, Block(()))),
)
fault(
    "parameters have the types of their inits",
    inside(leave=(A,), **CARRIED | {"inits": (N,)}),
    inside(leave=(A,), **CARRIED | {"inits": ()}),
    inside(repeat(ALWAYS, inits=(i8(0),))),
)
fault("there is no fold mean", folding(Fold("mean", "f8"), A))
fault("fold or is not defined for f8", folding(Fold("or", "f8"), A))
fault("fold sum is not defined for b1", folding(Fold("sum", "b1"), TRUE))
fault("fold sum is not defined for f2", folding(Fold("sum", "f2"), Lit(0.0, "f2")))
fault("a value of type f8 is folded in f4", folding(Fold("sum", "f4"), A))
fault(
    "a value of type i8 is folded in f8",
    inside(
        folds=(Fold("argmax", "f8"),), leave=(K, K), outs=(KernelVar(20, "f8"), KernelVar(22, "i8"))
    ),
)
fault("a value of type f2 is folded in f4", folding(Fold("sum", "f4"), Lit(0.0, "f2")))
fault(
    "the ways of a fold are a power of two",
    folding(Fold("sum", "f8", 3), A),
    folding(Fold("sum", "f8", 0), A),
)
fault("the block of a fold is a multiple of its ways", folding(Fold("sum", "f8", 4, 6), A))
fault(
    "only sums of floats have blocks",
    folding(Fold("max", "f8", 4, 8), A),
    folding(Fold("sum", "i8", 4, 8), K),
)
fault("the index of a pair is an integer", folding(Fold("argmax", "f8"), A, A))
fault(
    "1 results are bound to 0",
    inside(folds=(Fold("sum", "f8"),), leave=(A,)),
    inside(If((), TRUE, Block((), (A,)), Block((), (A,)))),
    inside(repeat(ALWAYS, outs=())),
)
fault(
    "a result of type f8 is bound as f2",
    folding(Fold("sum", "f8"), A, out="f2"),
    inside(If((KernelVar(10, "f2"),), TRUE, Block((), (A,)), Block((), (A,)))),
)
fault("the condition of If has type b1", inside(choice(cond=A)))
fault(
    "the arms of If leave values of the same types",
    inside(If((KernelVar(10, "f8"),), TRUE, Block((), (A,)), Block((), (K,)))),
    inside(If((KernelVar(10, "f8"),), TRUE, Block((), (A,)), Block(()))),
)
fault(
    "the condition of While leaves one b1",
    inside(repeat(Block((), (A,)))),
    inside(repeat(Block(()))),
    inside(repeat(Block((), (TRUE, TRUE)))),
)


def test_the_kernel_that_the_faults_are_planted_in_is_well_formed() -> None:
    verify(inside())
    verify(inside(let("add", A, ZERO)))
    verify(folding(Fold("sum", "f8", 4, 8), A))
    verify(inside(repeat(ALWAYS), choice(WRITE)))
    verify(inside(leave=(A,), **CARRIED))


@pytest.mark.parametrize("rule", FAULTS)
def test_a_broken_rule_is_named(rule: str) -> None:
    wanted = "two buffers are named" if rule.startswith("two buffers") else rule
    for broken in FAULTS[rule]:
        with pytest.raises(JaxprError) as caught:
            verify(broken)
        assert caught.value.what.startswith(f"kernel planted: {wanted}"), caught.value.what


def test_the_statement_is_named() -> None:
    with pytest.raises(JaxprError, match=r"kernel planted: .* In: v3:f8 = add v2 v1"):
        verify(inside(let("add", A, K)))


def test_samples_are_well_formed() -> None:
    for make in SAMPLES.values():
        verify(make().kernel)


@pytest.mark.parametrize("op", OPS)
def test_every_operation_is_accepted_on_its_kinds_only(op: str) -> None:
    row = OPS[op]
    for dtype in DTYPES:
        v, cond = KernelVar(1, dtype), KernelVar(2, "b1")
        args = (cond, v, v) if op == "select" else (v,) * row.arity
        result = {"same": dtype, "b1": "b1", "to": "f4" if op == "cast" else dtype}[row.result]
        kernel = Kernel("one", (), (v, cond), Block((Let(KernelVar(3, result), op, args),)))
        if dtype[0] in row.kinds and (dtype != "f2" or op == "cast"):
            verify(kernel)
        else:
            with pytest.raises(JaxprError, match=r"defined for|float16"):
                verify(kernel)


# --- what is allowed


def allowed(*stmts: Stmt) -> None:
    verify(body_of(*stmts))


def test_an_output_may_be_read_after_both_arms_wrote_it() -> None:
    write = Store("y", at(5), ZERO)
    both = If((), TRUE, Block((write,)), Block((write,)))
    allowed(loop(5, both, Load(A, "y", at(5))))


def test_an_output_may_be_read_by_a_later_loop_over_the_same_extent() -> None:
    allowed(loop(5, Store("y", at(5), ZERO)), loop(6, Load(A, "y", at(6))))
    fixed = loop(5, Store("y", at(5), ZERO), extent=i8(4))
    allowed(fixed, Load(A, "y", (i8(3),)))


# --- schedules


@pytest.mark.parametrize(("length", "lanes"), [(LONG, 16), (LONG + 1, 8)])
def test_long_bodies_fill_one_register_for_each_value(length: int, lanes: int) -> None:
    read_choose_write = 3
    kernel = inside(choice(*[let("neg", A)] * (length - read_choose_write)))
    assert schedule(kernel, 64).lanes == lanes


def roles(*given: str) -> tuple[tuple[int, str], ...]:
    return tuple((5 + i, role) for i, role in enumerate(given))


NESTED = body_of(loop(5, loop(6)))
COLUMNS = body_of(loop(5, loop(6, Store("y", at(6), ZERO, "sum"))))
SIBLINGS = body_of(loop(5), loop(6))
FOLDED = folding(Fold("sum", "f8", 16), A)
CARRYING = inside(leave=(A,), **CARRIED)


@pytest.mark.parametrize(
    ("kernel", "given", "lanes", "rule"),
    [
        (NESTED, ((5, SERIAL), (6, LANE), (6, LANE)), 8, "a schedule gives a loop two roles"),
        (NESTED, roles(LANE), 8, "a schedule gives every loop a role"),
        (NESTED, roles(LANE, SERIAL, LANE), 8, "names a loop that the kernel does not have"),
        (NESTED, roles("warp", SERIAL), 8, "a role is lane or serial"),
        (NESTED, roles(LANE, SERIAL), 12, "lanes are a power of two"),
        (NESTED, roles(LANE, SERIAL), 0, "lanes are a power of two"),
        (NESTED, roles(LANE, LANE), 8, "a loop in lanes lies inside another"),
        (COLUMNS, roles(LANE, SERIAL), 8, "that a combining store does not name are serial"),
        (FOLDED, ((2, LANE),), 8, "a loop in lanes has at least as many lanes as ways"),
        (CARRYING, ((2, LANE),), 8, "a loop in lanes carries no values"),
    ],
)
def test_a_schedule_that_does_not_fit_is_named(
    kernel: Kernel, given: tuple[tuple[int, str], ...], lanes: int, rule: str
) -> None:
    with pytest.raises(JaxprError, match=rule):
        verify_schedule(kernel, Schedule(given, lanes))


@pytest.mark.parametrize(
    ("kernel", "given", "lanes"),
    [
        (NESTED, roles(LANE, SERIAL), 1),
        (SIBLINGS, roles(LANE, LANE), 8),
        (COLUMNS, roles(SERIAL, LANE), 8),
        (FOLDED, ((2, LANE),), 16),
        (FOLDED, ((2, SERIAL),), 1),
        (CARRYING, ((2, SERIAL),), 8),
    ],
)
def test_a_schedule_that_fits_is_accepted(
    kernel: Kernel, given: tuple[tuple[int, str], ...], lanes: int
) -> None:
    verify_schedule(kernel, Schedule(given, lanes))


@pytest.mark.parametrize("vector_bytes", [16, 64])
def test_chosen_schedules_fit(vector_bytes: int) -> None:
    for make in SAMPLES.values():
        kernel = make().kernel
        verify_schedule(kernel, schedule(kernel, vector_bytes))


@given(kernels())
def test_random_kernels_are_well_formed_and_their_schedules_fit(sample: Sample) -> None:
    verify(sample.kernel)
    verify_schedule(sample.kernel, schedule(sample.kernel, 32))
