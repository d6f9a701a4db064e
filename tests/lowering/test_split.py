"""Loops cut where their conditions change: one loop per range, and the same values."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime.main import module_text
from ftrace.lowering.kernel import reference
from ftrace.lowering.kernel.ir import If, blocks_of, loops_of
from ftrace.lowering.kernel.launching import Operand
from ftrace.lowering.kernel.verify import verify
from ftrace.lowering.kernel_passes.splitting import LONG, RANGES, split
from tests.lowering import programs
from tests.lowering.nests import Nest, Sample, f8, i8
from tests.lowering.programs import planned
from tests.lowering.simulate import simulate

N = LONG + 30
V, M = np.linspace(-1, 2, N), np.linspace(-1, 2, 3 * N).reshape(3, N)


def overlaid(x):
    out = fnp.zeros(N + 40)
    out[10 : N + 10] = x
    out[50:60] = x[:10] * 2.0
    out[N:] = 1.0 + x[:40]
    return out


def strided(x):
    out = fnp.zeros(2 * N)
    out[::2] = x
    out[1:21] += 1.0
    return out


PROGRAMS = {
    "two parts": (lambda x: np.concatenate([x, x * 2.0]), V),
    "four parts": (lambda x: np.concatenate([x, x * 2.0, x[:5], x[::-1] * 3.0]), V),
    "pads in a pad": (lambda x: np.pad(np.pad(x[::-1], (3, 4)) * 2.0, (100, 0)), V),
    "writes over writes": (overlaid, V),
    "a write between": (strided, V),
    "rolled": (lambda x: np.roll(x, 100) - x, V),
    "rolled rows": (lambda x: np.roll(x, (1, -7), axis=(0, 1)) * 2.0, M),
    "rolled columns": (lambda x: np.roll(x.T, (1, -7), axis=(1, 0)) * 2.0, M),
    "scaled rows": (lambda x: np.pad(x, ((0, 0), (40, 0))) * (x[:, :1] + 1.0), M),
    "summed": (lambda x: np.sum(np.concatenate([x, x * 2.0])), V),
    "rosenbrock": (ftrace.grad(programs.rosenbrock), V),
    "many parts": (lambda x: np.concatenate([x * k for k in range(RANGES + 3)]), V),
    "short parts": (lambda x: np.concatenate([x[:1], x[1:2] * 2.0, x[2:] * 3.0, x[:1]]), V),
    "a bound inside an arm": (
        lambda x: np.where(x > 0, np.pad(x[5:], (5, 0)), np.pad(x[:-9], (0, 9)) * 2.0),
        V,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_splitting_changes_no_value(name):
    f, x = PROGRAMS[name]
    program = planned(f, x)
    for reverse in (False, True):
        (found,) = simulate(program, [x], reverse=reverse)
        np.testing.assert_allclose(found, f(x), rtol=1e-13)


def _has_if(block):
    return any(isinstance(s, If) or any(map(_has_if, blocks_of(s))) for s in block.stmts)


CUT = {"four parts": 4, "pads in a pad": 4, "writes over writes": 6, "rosenbrock": 3, "rolled": 2}


@pytest.mark.parametrize("name", CUT)
def test_no_condition_is_left_inside(name):
    f, x = PROGRAMS[name]
    (launch,) = planned(f, x).launches
    assert len(loops_of(launch.kernel.body)) == CUT[name]
    assert not _has_if(launch.kernel.body)


@pytest.mark.parametrize(
    ("name", "size"), [("two parts", LONG // 4), ("many parts", N), ("summed", N)]
)
def test_short_loops_folds_and_many_ranges_stay_whole(name, size):
    f = PROGRAMS[name][0]
    (launch,) = planned(f, np.ones(size)).launches
    assert len(loops_of(launch.kernel.body)) == 1


def counted_up():
    """Written by hand: a `While` that reads memory, and a place that no axis gives."""
    k = Nest("counted_up")
    x, ids = k.buffer("x", "f8", ["one"]), k.buffer("ids", "i8", ["one"])
    y, n, border = k.buffer("y", "f8", ["one"], "out"), k.scalar(), k.scalar()
    with k.loop(n) as i:
        with k.part() as then:
            then.leave(f8(8.0))
        with k.part() as orelse:
            orelse.leave(f8(2.0))
        (limit,) = k.branch(k.let("lt", i.axis, border), then, orelse)
        place = k.let("mod", k.load(ids, i.axis), i8(7))
        total = k.fresh("f8")
        with k.part() as cond:
            cond.leave(k.let("lt", total, limit))
        with k.part(total) as body:
            body.leave(k.let("add", total, k.load(x, place)))
        (total,) = k.repeat([f8(0.0)], cond, body)
        k.store(y, [k.let("add", place, i8(1))], total, "sum")
    arrays = {"x": np.arange(7) / 4 + 0.5, "ids": np.arange(N) * 3, "y": np.zeros(8)}
    return Sample(k.kernel(), arrays, [N, 40])


def test_loops_and_computed_places_are_cut_with_the_rest():
    sample = counted_up()
    wanted, memory = sample.operands(), sample.operands()
    reference.run(sample.kernel, wanted, sample.scalars)
    names = [b.name for b in sample.kernel.buffers]
    table = [0, 0, 0, *sample.scalars]  # offsets, then scalars
    operands = tuple(Operand(slot, slot, ()) for slot in range(3))
    kernel, operands, scalars, _ = split(sample.kernel, operands, (3, 4), table)
    verify(kernel)
    assert len(loops_of(kernel.body)) == 2
    given = {
        b.name: (memory[names[o.slot]][0], table[o.offset] // 8, (1,))
        for b, o in zip(kernel.buffers, operands, strict=True)
    }
    reference.run(kernel, given, [table[entry] for entry in scalars])
    np.testing.assert_array_equal(memory["y"][0], wanted["y"][0])
    assert wanted["y"][0][1:].all()


def test_long_sizes_share_their_code():
    f = PROGRAMS["rosenbrock"][0]

    def texts(*sizes):
        structs = [ftrace.ShapeDtypeStruct((n,), np.float64) for n in sizes]
        return {module_text(planned(f, x), host()) for x in structs}

    assert len(texts(LONG, 1000, 2**20)) == 1
    assert len(texts(2**23, 2**33)) == 1  # these stream their results
