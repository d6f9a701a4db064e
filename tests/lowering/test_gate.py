"""What a `select` does not choose is not computed, and changes no value."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ftrace
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace.lowering.kernel.conditions import ALWAYS, COLUMNS, DECIDING, Conditions
from ftrace.lowering.kernel.ir import (
    Block,
    Buffer,
    If,
    Kernel,
    KernelVar,
    Let,
    Lit,
    Load,
    Loop,
    Store,
)
from ftrace.lowering.kernel.reference import run
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.kernel.verify import verify
from ftrace.lowering.kernel_passes.predication import gate
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from tests.lowering.kernels import kernels
from tests.lowering.programs import planned
from tests.lowering.simulate import simulate

N = 37
V = np.linspace(-2, 2, N)
M = np.linspace(-3, 3, 5 * N).reshape(5, N)
ROWS = np.array([0.0, 1.0, 2.0, 1.0, 0.0])[:, None]


def cell(x, row):
    update = 1 / (1 + np.exp(-x)) * np.tanh(x)
    return np.where(row == 1, update, np.where(row == 2, np.sin(x) * x + update, x))


def contradiction(x, row):
    inner = np.where(row == 1, np.exp(x), np.cos(x))
    return np.where(row == 1, inner, np.where(row == 1, np.sin(x), inner * x))


def nested(x, row):
    a = np.where(x > 0, np.exp(x), x)
    b = np.where(row == 1, np.tanh(a) + np.where(x > 1, np.log(x * x + 1), a), a)
    return np.where(x < 1, b, np.sin(b))


def parts(x, row):
    """What decides about two sides is computed under a condition, and nothing else reads it."""
    p, k = np.sin(x) > 0, np.cos(x) > 0
    return np.where(row == 1, np.where(p & k, np.exp(x), x) + np.where(p & ~k, np.tanh(x), x), x)


def negated(x, row):
    c = (row == 1) & ~(x > 0)
    return np.where(~c, np.exp(x), np.where(c | (row == 0), np.tanh(x), x))


def many(x, row):
    for k in range(DECIDING + 3):
        x = np.where(x * k > row, np.tanh(x + k), x)
    return x


def gathered(x, row):
    index = fnp.floor(np.abs(np.sin(x)) * 4.0).astype(np.int64)
    return np.where(row == 1, x[0][index] * np.exp(x), x)


def looped(x, row):
    def body(c):
        i, y = c
        return i + 1, np.where(row == 1, np.exp(-y * y), np.where(i > 1, np.sin(y), y))

    return lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1]


def scalar_loop(x, row):
    def body(c):
        i, y = c
        return i + 1, np.where(y > 0.5, np.exp(-y), np.tanh(y) + 0.3)

    return x + lax.while_loop(lambda c: c[0] < 5, body, (0, x[0, 0]))[1]


def summed(x, row):
    return np.where(row == 1, np.exp(x), 0.0).sum(-1) + np.where(row == 2, x, 1.0).sum()


PROGRAMS = (
    cell,
    contradiction,
    nested,
    parts,
    negated,
    many,
    gathered,
    looped,
    scalar_loop,
    summed,
)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gating_changes_no_value(f, monkeypatch):
    program = planned(f, M, ROWS)
    for reverse in (False, True):
        (found,) = simulate(program, [M, ROWS], reverse=reverse)
        np.testing.assert_allclose(found, f(M, ROWS), rtol=1e-13, atol=1e-15)
    compiled = ftrace.jit(f)(M, ROWS)
    np.testing.assert_allclose(compiled, f(M, ROWS), rtol=1e-13, atol=1e-15)
    monkeypatch.setattr("ftrace.lowering.planning.build.gate", lambda kernel, **_: kernel)
    plain = ftrace.jit(lambda *args: f(*args))(M, ROWS)
    assert compiled.tobytes() == plain.tobytes()


def branches(f, *args):
    """For each branch of a program's kernels, the ops computed under it."""
    found = []
    for launch in planned(f, *args).launches:
        for stmt in inside(launch.kernel.body):
            if isinstance(stmt, If):
                ops = [s.op for s in stmt.then.stmts if isinstance(s, Let)]
                found.append((ops, sum(isinstance(s, Load) for s in stmt.then.stmts)))
    return found


def test_a_shared_side_is_computed_once_under_both_conditions():
    found = branches(cell, M, ROWS)
    assert [ops.count("tanh") for ops, _ in found] == [1, 0]
    assert [ops.count("sin") for ops, _ in found] == [0, 1]


def test_what_always_counts_stays_outside():
    assert branches(lambda x: np.where(x > 0, np.exp(x), np.exp(x) + 1), V) == []


def test_cheap_sides_of_a_changing_condition_stay_selects():
    assert branches(lambda x, y: np.where(x > 0, y + 1, x), V, V) == []


def test_a_side_that_only_loads_is_read_where_whole_rows_need_it():
    found = branches(lambda x, y, row: np.where(row == 1, y, x), M, M, ROWS)
    assert sorted(found) == [([], 1), ([], 1)]


def test_statements_of_one_condition_stand_together():
    found = branches(lambda x: np.where(x > 0, np.exp(x) * np.sin(x + 1) * np.cos(x), x), V)
    assert [sorted(ops) for ops, _ in found] == [["add", "cos", "exp", "mul", "mul", "sin"]]


def test_a_side_nobody_can_take_is_no_branch():
    found = branches(lambda x: np.where(x > 0, np.where(x > 0, x, np.exp(x)), x), V)
    assert found == []


def test_straight_code_has_no_branch():
    assert branches(lambda x: np.where(x > 0, np.exp(x), x), np.float64(2.0)) == []


def test_an_address_is_always_computed():
    for launch in planned(gathered, M, ROWS).launches:
        for stmt in inside(launch.kernel.body):
            if isinstance(stmt, If):
                assert not {"floor", "cast"} & {s.op for s in stmt.then.stmts if type(s) is Let}


def test_the_first_that_is_ready_need_not_be_the_first_written():
    """A shared value under a weak condition comes before a stronger one that needs it."""

    def f(x, row):
        e = np.exp(x)
        return np.where(row == 1, e, np.where(x > 0, np.sin(x) * e, x))

    assert [ops for ops, _ in branches(f, M, ROWS)] == [["exp"], ["sin", "mul"]]


# --- kernels


def gated(kernel):
    """A kernel after gating, verified."""
    new = gate(kernel)
    verify(new)
    return new


@given(kernels())
def test_random_kernels_keep_their_bits_though_all_is_called_dear(sample):
    before, after = sample.operands(), sample.operands()
    run(sample.kernel, before, sample.scalars)
    with mock.patch("ftrace.lowering.kernel_passes.predication._costly", return_value=True):
        run(gated(sample.kernel), after, sample.scalars)
    for name, (memory, _, _) in before.items():
        np.testing.assert_array_equal(memory, after[name][0], err_msg=name)


def loads_under_conditions(f, *args, lazy):
    """The buffers that the kernel of a program reads below an `If`."""
    program = plan(ftrace.make_jaxpr(f)(*args), Machine(16, lazy=lazy))
    ifs = [s for s in inside(program.launches[0].kernel.body) if isinstance(s, If)]
    assert ifs
    return {s.buffer for i in ifs for s in inside(i.then) if isinstance(s, Load)}


def test_without_laziness_a_condition_of_elements_keeps_nothing_from_being_loaded():
    def f(x, y):
        return np.where(x > 0, np.exp(y), 0.0)

    assert loads_under_conditions(f, M, M, lazy=True) == {"x1"}
    assert loads_under_conditions(f, M, M, lazy=False) == set()
    # a condition that a whole row shares still does
    assert loads_under_conditions(f, ROWS, M, lazy=False) == {"x1"}


@pytest.mark.parametrize("f", [cell, contradiction, nested])
def test_without_laziness_values_are_the_same(f):
    jaxpr = ftrace.make_jaxpr(f)(M, M)
    found = [simulate(plan(jaxpr, Machine(16, lazy=lazy)), [M, M])[0] for lazy in (True, False)]
    np.testing.assert_array_equal(*found)


def test_a_load_stays_between_the_stores_around_it():
    i, x, c, y, e, z, w = (
        KernelVar(k, d) for k, d in enumerate(("i8", "f8", "b1", *["f8"] * 4), 1)
    )
    n = KernelVar(20, "i8")
    body = Block(
        (
            Load(x, "x0", (i,)),
            Let(c, "gt", (x, Lit(0.0, "f8"))),
            Store("o1", (i,), x),
            Load(y, "o1", (i,)),
            Let(e, "exp", (y,)),
            Store("o1", (i,), Lit(7.0, "f8")),
            Load(w, "o1", (i,)),
            Let(z, "select", (c, e, w)),
            Store("o1", (i,), z),
        )
    )
    buffers = (Buffer("x0", "f8", ("one",), "in"), Buffer("o1", "f8", ("one",), "out"))
    kernel = gated(Kernel("k", buffers, (n,), Block((Loop((), i, n, body),))))
    order = [type(s).__name__ for s in kernel.body.stmts[0].body.stmts if not isinstance(s, Let)]
    assert order == ["Load", "Store", "If", "Store", "Load", "Store"]
    data, out = np.array([-1.0, 2.0]), np.zeros(2)
    run(kernel, {"x0": (data, 0, (1,)), "o1": (out, 0, (1,))}, [2])
    np.testing.assert_array_equal(out, [7.0, np.exp(2.0)])


# --- conditions

BOOLS = [KernelVar(i, "b1") for i in range(1, DECIDING + 2)]


def evaluated(atom, stmts, values):
    """A boolean from the statements that make it."""
    env = dict(zip(BOOLS, values, strict=False))
    of = lambda a: a.value if isinstance(a, Lit) else env[a]  # noqa: E731
    for s in stmts:
        a = [of(x) for x in s.args]
        env[s.out] = {
            "and": lambda a: a[0] and a[1],
            "or": lambda a: a[0] or a[1],
            "not": lambda a: not a[0],
            "select": lambda a: a[1] if a[0] else a[2],
        }[s.op](a)
    return of(atom)


@given(st.integers(0, ALWAYS))
def test_a_table_is_written_as_it_reads(table):
    conditions = Conditions({})
    for v in BOOLS[:DECIDING]:
        conditions.table(v)
    names = iter(range(100, 1000))
    out = []
    atom = conditions.written(table, lambda dtype: KernelVar(next(names), dtype), out)
    for i in range(1 << DECIDING):
        values = [bool(i >> k & 1) for k in range(DECIDING)]
        assert evaluated(atom, out, values) == bool(table >> i & 1)


def test_tables_follow_the_statements():
    a, b, both, either, neither = (KernelVar(i, "b1") for i in range(1, 6))
    made = {
        both: Let(both, "and", (a, b)),
        either: Let(either, "or", (a, both)),
        neither: Let(neither, "not", (either,)),
    }
    conditions = Conditions(made)
    x, y = conditions.table(a), conditions.table(b)
    assert (x, y) == COLUMNS[:2]
    assert conditions.table(both) == x & y
    assert conditions.table(either) == x
    assert conditions.table(neither) == ALWAYS ^ x
    assert conditions.table(Lit(True, "b1")) == ALWAYS
    assert conditions.table(Lit(False, "b1")) == 0
    assert conditions.support(x & y) == [a, b]
    assert conditions.support(x) == [a]
    assert conditions.support(ALWAYS) == []


def test_more_variables_than_a_table_has_are_not_told():
    conditions = Conditions({})
    tables = [conditions.table(v) for v in BOOLS]
    assert tables[:-1] == list(COLUMNS)
    assert tables[-1] is None
    last = KernelVar(50, "b1")
    assert Conditions({last: Let(last, "and", (BOOLS[0], BOOLS[1]))}).table(last) is not None
    full = Conditions({last: Let(last, "and", (BOOLS[0], BOOLS[-1]))})
    for v in BOOLS[:DECIDING]:
        full.table(v)
    assert full.table(last) is None


def test_what_is_gated_is_said_to_exist_all_the_same():
    """Loads of whole vectors then; not under branches that guard what they read."""
    x, n = np.linspace(-1.0, 1.0, 40), np.ones(7)

    def branches(f, *args):
        stmts = (s for k in planned(f, *args).launches for s in inside(k.kernel.body))
        return {s.skips for s in stmts if isinstance(s, If)}

    assert branches(lambda x, y: fnp.where(x > 0, fnp.exp(y), 0.0), x, x) == {True}
    assert branches(fnp.convolve, x, n) == {False}  # what is beside the array does not exist
