"""What loops are estimated to take, in nanoseconds, and which of them threads share."""

from dataclasses import replace

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.cpu.foreign.gufuncs import has_loop
from ftrace.lowering.kernel.ir import Fold, Kernel, loops_of
from ftrace.lowering.kernel.launching import Launch, repeated
from ftrace.lowering.kernel.schedule import LANE, SERIAL, Schedule
from ftrace.lowering.kernel.show import text
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.planning.thread_sharing import AWAKE, EACH, ELEMENT, WORTH, _Times, share
from ftrace.lowering.program.program import every
from tests.lowering.nests import Nest

N = 1000
pytestmark = pytest.mark.by_size


def rows(inner, dtype="f8", steps=("any", "one"), folds=()):
    """A kernel with a loop over rows and one inside it, which `inner` writes."""
    k = Nest("rows")
    x, o = k.buffer("x", dtype, list(steps)), k.buffer("o", dtype, list(steps), "out")
    n, m = k.scalar(), k.scalar()
    with k.loop(n) as row, k.loop(m) as element:
        inner(k, x, o, (row.axis, element.axis))
    return k.kernel()


def copied(k, x, o, at):
    k.store(o, at, k.load(x, *at))


def computed(*ops):
    def inner(k, x, o, at):
        value = k.load(x, *at)
        for op in ops:
            value = k.let(op, value)
        k.store(o, at, value)

    return inner


def times(kernel: Kernel, roles, sizes, lanes=16):
    loops = loops_of(kernel.body)
    chosen = Schedule(tuple((x.axis.id, r) for x, r in zip(loops, roles, strict=True)), lanes)
    extents = {x.axis.id: n for x, n in zip(loops, sizes, strict=True) if n is not None}
    return _Times(kernel, chosen, extents), loops


def nanoseconds(kernel, roles, sizes):
    found, loops = times(kernel, roles, sizes)
    return found._time(loops[0], None)


@pytest.mark.parametrize(
    ("inner", "options", "roles", "sizes", "each"),
    [
        (copied, {}, (SERIAL, SERIAL), (N, 10), 10 * 2 * 0.3),
        (copied, {}, (SERIAL, LANE), (N, 10), 10 * 2 * 8 * 0.005 * 1.5),
        (copied, {"dtype": "f4"}, (SERIAL, LANE), (N, 10), 10 * (4 + 8) * 0.005 * 1.5),
        (copied, {}, (LANE, SERIAL), (N, 10), 10 * 2 * 8 * 0.005 * 12.0),
        (copied, {"steps": ("one", "any")}, (LANE, SERIAL), (N, 10), 10 * 2 * 8 * 0.005 * 1.5),
        (copied, {}, (SERIAL, SERIAL), (N, None), 16 * 2 * 0.3),
        (computed("neg"), {}, (SERIAL, LANE), (N, 10), 10 * (2 * 8 * 0.0075 + 8 * 0.005)),
        (computed("sin"), {}, (SERIAL, LANE), (N, 10), 10 * (2 * 8 * 0.0075 + 8 * 0.075)),
        (computed("sin", "neg"), {}, (SERIAL, SERIAL), (N, 1), 2 * 0.3 + 4.5 + 0.3),
        (
            computed("sin"),
            {"dtype": "f4"},
            (SERIAL, LANE),
            (N, 10),
            10 * ((4 + 8) * 0.0075 + 4 * 0.075),
        ),
    ],
)
def test_an_iteration_is_estimated_to_take(inner, options, roles, sizes, each):
    assert nanoseconds(rows(inner, **options), roles, sizes) == pytest.approx(N * each)


def test_folds_ifs_and_whiles_are_counted():
    def f(x):
        root = lax.while_loop(lambda s: s * s < x, lambda s: s + 1.0, 0.0)
        return lax.cond(root > 2.0, lambda r: r + x, lambda r: r, root)

    program = plan(ftrace.make_jaxpr(ftrace.vmap(f))(np.ones(N)), Machine(64))
    (launch,) = program.launches
    (loop,) = loops_of(launch.kernel.body)
    found = _Times(launch.kernel, launch.schedule, {loop.axis.id: 1})._time(loop, None)
    once = 8 * 0.005
    # a load and a store; per iteration a product, a comparison (of booleans, 1 byte), a sum
    assert found == pytest.approx(2 * once * 1.5 + 16 * (2 * once + 0.005) + 0.005 + once, rel=0.1)
    arm = plan(
        ftrace.make_jaxpr(lambda x: fnp.where(x > 0, fnp.exp(x), 0.0))(np.ones(N)), Machine(64)
    )
    assert " if " in text(arm.launches[0].kernel)
    (loop,) = loops_of(arm.launches[0].kernel.body)
    found = _Times(arm.launches[0].kernel, arm.launches[0].schedule, {loop.axis.id: 1})
    assert found._time(loop, None) == pytest.approx(2 * once * 1.5 + 15 * once, rel=0.1)
    summed = plan(ftrace.make_jaxpr(lambda x: x.sum())(np.ones(N)), Machine(64)).launches[0]
    (loop,) = loops_of(summed.kernel.body)
    found = _Times(summed.kernel, summed.schedule, {loop.axis.id: 100})._time(loop, None)
    assert found == pytest.approx(100 * (once * 1.5 + 0.005))


def chosen(kernel, roles, sizes, worth=1.0, lanes=16):
    """Which loops are shared, by their depth."""
    found, loops = times(kernel, roles, sizes, lanes)
    places = [x.axis.id for x in loops]
    return [places.index(axis) for axis, _ in found.shared(kernel.body, worth)]


@pytest.mark.parametrize(
    ("roles", "sizes", "shared"),
    [
        ((SERIAL, LANE), (8, 32), [0]),  # eight ranges are enough
        ((SERIAL, LANE), (7, 32), [1]),  # better those inside, of which there are two
        ((SERIAL, LANE), (7, 31), [0]),  # which are none here
        ((SERIAL, LANE), (2, 16), [0]),
        ((SERIAL, LANE), (1, 16), []),
        ((SERIAL, LANE), (1, 32), [1]),
        ((LANE, SERIAL), (31, 100), []),  # what is inside lanes is not shared
        ((LANE, SERIAL), (32, 100), [0]),
        ((SERIAL, SERIAL), (1, 2), [1]),
    ],
)
def test_loops_are_shared_where_there_are_ranges(roles, sizes, shared):
    assert chosen(rows(copied), roles, sizes) == shared


def test_loops_are_shared_where_they_are_worth_it():
    kernel, roles = rows(copied), (SERIAL, SERIAL)
    time = nanoseconds(kernel, roles, (N, 10))
    assert chosen(kernel, roles, (N, 10), worth=time) == [0]
    assert chosen(kernel, roles, (N, 10), worth=time * 1.01) == []
    inner = nanoseconds(kernel, roles, (1, 10))
    assert chosen(kernel, roles, (7, 10), worth=inner) == [1]
    assert chosen(kernel, roles, (7, 10), worth=inner * 1.01) == [0]


def test_a_sum_has_a_range_for_each_block():
    k = Nest("sum")
    x, o, n = k.buffer("x", "f8", ["one"]), k.buffer("o", "f8", [], "out"), k.scalar()
    with k.loop(n, Fold("sum", "f8", 32, 1024)) as row:
        row.leave(k.load(x, row.axis))
    k.store(o, (), row.outs[0])
    kernel = k.kernel()
    assert chosen(kernel, (LANE,), (2 * 1024,), lanes=32) == [0]
    assert chosen(kernel, (LANE,), (2 * 1024 - 1,), lanes=32) == []


def test_a_kernel_beside_others_has_an_entry_of_its_own():
    large, small = np.ones(400_000), np.ones(100_000)

    def f(x, y):
        return fnp.sin(fnp.cumsum(x)), fnp.cos(y)

    program = share(plan(ftrace.make_jaxpr(f)(large, small), Machine(64)), 64)
    given = [program.table[k.threads] for k in program.launches if k.schedule.shared]
    assert len(given) == 2
    assert given[0] > 2 * given[1] > 2
    two = plan(ftrace.make_jaxpr(lambda x: (x.sum(), fnp.sin(x).max()))(small), Machine(64))
    assert share(two, 1) is two
    assert share(two, 2) is not two


def launches(f, *args, threads=8):
    """(entry of the table, loops that are shared) of each kernel, inner ones last."""
    program = share(plan(ftrace.make_jaxpr(f)(*args), Machine(64)), threads)
    return [
        (program.table[s.threads] if s.schedule.shared else 0, len(s.schedule.shared))
        for s in every(program.steps)
        if isinstance(s, Launch)
    ]


def test_a_kernel_has_as_many_threads_as_have_something_to_do():
    def f(x):
        return fnp.sin(x) + 1.0

    each = 8 * (0.005 * 16 + 2 * 0.0075)  # a load, a store, a sine and a sum
    few = np.ones(int(WORTH / each) + 64)
    assert launches(f, few) == [(int(WORTH / EACH), 1)]
    assert launches(f, few, threads=3) == [(3, 1)]
    assert launches(f, np.ones(few.size - 200)) == [(0, 0)]
    assert launches(f, np.ones(20 * few.size)) == [(8, 1)]
    assert launches(f, np.ones(20 * few.size), threads=1) == [(0, 0)]


def test_inside_of_loops_shorter_kernels_have_threads():
    each = 8 * (0.005 * 16 + 2 * 0.0075)
    x = np.ones(int(1.2 * AWAKE / each))

    def body(c):
        return fnp.sin(c) + 1.0

    assert launches(body, x) == [(0, 0)]
    grown = lambda c: (fnp.roll(body(c[0]), 1), c[1] + c[0][0])  # noqa: E731
    assert (2, 1) in launches(lambda x: lax.while_loop(lambda c: c[1] < 3.0, grown, (x, 0.0)), x)
    scanned = lambda c, a: (fnp.roll(body(c), 1) + a, c[0])  # noqa: E731
    assert (2, 1) in launches(lambda x: lax.scan(scanned, x, np.ones(3)), x)
    arms = launches(lambda x: lax.cond(x[0] > 2.0, body, lambda c: fnp.sort(c), x), x)
    assert (2, 1) not in arms
    large = np.ones(10 * x.size)
    assert (8, 1) in launches(lambda x: lax.cond(x[0] > 2.0, body, lambda c: fnp.sort(c), x), large)


def test_a_sequence_of_shorter_kernels_has_threads():
    each = 8 * (0.005 * 16 + 2 * 0.0075)

    def rolled(x, times, between=lambda x: x):
        for _ in range(times):
            x = between(fnp.roll(fnp.sin(x) + 1.0, 1))
        return x

    x = np.ones(int(1.2 * AWAKE / each))
    needed = int(WORTH / (1.2 * AWAKE)) + 1
    assert needed == 3
    together = [x for x in launches(lambda x: rolled(x, 6), x) if x != (0, 0)]
    assert together == [(2, 1)] * len(together)
    assert len(together) >= 5
    assert not any(shared for _, shared in launches(lambda x: rolled(x, 2), x))
    assert not any(shared for _, shared in launches(lambda x: rolled(x, 6), x[: x.size // 2]))
    # a sort or a product of unknown time lets the threads fall asleep
    apart = launches(lambda x: rolled(x, 6, fnp.sort), x)
    assert not any(shared for _, shared in apart)
    # and so does a kernel that one thread runs for as long
    in_order = launches(lambda x: rolled(x, 6, fnp.cumsum), x)
    assert not any(shared for _, shared in in_order)


def test_what_one_thread_does_alone_ends_a_sequence():
    short = np.ones((130, 129), complex)  # 50 us together with its transform along the other axis
    assert loops(lambda x: fnp.fft.fft(fnp.fft.fft(x, axis=0), axis=1), short[:100, :99]) == [4, 4]
    assert loops(lambda x: fnp.fft.fft(fnp.fft.fft(x[:1], axis=1), axis=0), short) == [0, 0]
    between = loops(
        lambda x: fnp.fft.fft(fnp.linalg.inv(fnp.fft.fft(x))), np.eye(90, dtype=complex)
    )
    assert not any(between)


def test_what_is_shared_is_equal_wherever_its_memory_lies():
    x = np.ones(100_000)
    program = share(plan(ftrace.make_jaxpr(lambda x: fnp.sin(x) + 1.0)(x), Machine(64)), 4)
    (launch,) = program.launches
    assert (
        replace(launch.schedule, shared=())
        == plan(ftrace.make_jaxpr(lambda x: fnp.sin(x) + 1.0)(x), Machine(64)).launches[0].schedule
    )


def test_equal_kernels_are_equal_where_threads_share_them():
    def f(x):
        for _ in range(4):
            x = fnp.sort(fnp.sin(x) * 2.0)
        return x

    x = np.ones(100_000)
    program = share(plan(ftrace.make_jaxpr(f)(x), Machine(64)), 4)
    found = [same for same, _ in repeated(program.launches)]
    assert found == [0, 1, 1, 1]  # all but the first are done in place
    assert [program.table[k.threads] for k in program.launches] == [4, 4, 4, 4]


def loops(f, *args, threads=8):
    """Threads of each of NumPy's loops, 0 where it is not shared."""
    program = share(plan(ftrace.make_jaxpr(f)(*args), Machine(64, loops=has_loop)), threads)
    found = [program.table[s.threads] if s.threads >= 0 else 0 for s in program.loops]
    assert sorted(x for x in found if x) == sorted(program.sharing)
    return found


def test_loops_of_numpy_are_shared_along_the_batch():
    large = np.ones(100_000, complex)
    assert loops(fnp.sqrt, large) == [8]
    assert loops(fnp.sqrt, large, threads=2) == [2]
    assert loops(fnp.sqrt, large, threads=1) == [0]
    least = int(WORTH / (2 * ELEMENT)) + 1
    assert loops(fnp.sqrt, large[:least]) == [int(WORTH / EACH)]
    assert loops(fnp.sqrt, large[: least - 2]) == [0]
    assert loops(fnp.fft.fft, np.ones((200, 200), complex)) == [8]
    assert loops(fnp.fft.fft, np.ones((100, 100), complex)) == [0]  # 15 us
    assert loops(fnp.fft.fft, np.ones((10, 100), complex)) == [0]
    assert loops(fnp.fft.fft, np.ones((1, 100_000), complex)) == [0]


def test_loops_that_have_threads_or_tell_what_fails_are_not_shared():
    stack = np.ones((2000, 9, 9)) + np.eye(9)
    assert not any(loops(np.linalg.inv, stack))
    assert loops(lambda x: np.sort(x, axis=1), np.ones((1000, 1000))) == [0]
    assert loops(ftrace.scipy.special.jv, np.ones(100_000), np.ones(100_000)) == [0]
    whole = np.full(100_000, 3)
    assert not any(loops(lax.pow, whole, whole))  # negative exponents are told to Python
    deep = np.ones((20, 30, 40, 50), complex)
    assert loops(lambda x: fnp.fft.fft(x, axis=1), deep) == [0]  # loops are around it
