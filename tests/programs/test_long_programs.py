"""Long programs are differentiated when they are known: one iteration in the place of all.

Ids: B11, C14 (compile time of unrolled loops), A2.
"""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.control.rows import jit
from ftrace.core.jaxpr import subjaxprs
from ftrace.interpreters import jvp
from tests.deferring import deferring
from tests.lowering.random_loops import RandomLoop

STARTS = (0, 7, 40)  # operations before the first that waits


def field(x, rates):
    return np.stack([x[0] * (1.0 - rates[0] * x[1]), x[1] * (rates[1] * x[0] - 1.0)])


def trajectory(rates, x, steps=40):
    out = []
    for _ in range(steps):
        k = field(x, rates)
        x = x + 0.01 * (k + field(x + 0.02 * k, rates))
        out.append(x)
    return np.sum(np.stack(out) ** 2)


RATES, X = np.array([1.2, 0.8]), np.array([1.0, 0.5])


def close(found, wanted, rtol=1e-11):
    for a, b in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def size(f):
    """How many equations a function has, with those of its loops and calls."""

    def count(jaxpr):
        return sum(1 + sum(count(j) for _, j in subjaxprs(e.params)) for e in jaxpr.eqns)

    return count(ftrace.make_jaxpr(f)(RATES, X))


def long(steps):
    return lambda r, x: trajectory(r, x, steps)


WAYS = {
    "grad": lambda f: ftrace.grad(f, (0, 1)),
    "grad of jit": lambda f: ftrace.grad(ftrace.jit(f), (0, 1)),
    "jvp": lambda f: lambda r, x: ftrace.jvp(f, (r, x), (x, r)),
    "jacfwd": lambda f: ftrace.jacfwd(f, (0, 1)),
    "vmap(grad)": lambda f: (
        lambda r, x: ftrace.vmap(ftrace.grad(f, (0, 1)), (0, None))(
            fnp.stack([r, 0.9 * r, 0.5 * r]), x
        )
    ),
    "grad(vmap)": lambda f: ftrace.grad(
        lambda r, x: ftrace.vmap(f, (0, None))(fnp.stack([r, 0.9 * r]), x).sum(), (0, 1)
    ),
    "hessian": lambda f: ftrace.hessian(f),
    "grad(grad)": lambda f: ftrace.grad(lambda r, x: (ftrace.grad(f)(r, x) ** 2).sum()),
    "hvp": lambda f: lambda r, x: ftrace.jvp(lambda y: ftrace.grad(f)(y, x), (r,), (x,)),
    "linearize": lambda f: lambda r, x: ftrace.linearize(f, r, x)[1](x, r),
    "vjp": lambda f: lambda r, x: ftrace.vjp(f, r, x)[1](2.0),
    "checkpoint": lambda f: ftrace.grad(ftrace.checkpoint(f), (0, 1)),
}


@pytest.mark.sampled(3, each="way")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_what_it_gives_at_once(way, start):
    transform = WAYS[way]
    wanted = transform(trajectory)(RATES, X)
    with deferring(start):
        close(ftrace.jit(transform(trajectory))(RATES, X), wanted)


@pytest.mark.sampled(3, each="start")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed, start):
    loop = RandomLoop(seed)
    wanted = ftrace.grad(loop, (0, 1))(loop.x, loop.rows)
    with deferring(start), np.errstate(all="ignore"):
        close(ftrace.jit(ftrace.grad(loop, (0, 1)))(loop.x, loop.rows), wanted, 1e-9)


@pytest.mark.at_once
def test_one_iteration_is_differentiated_in_the_place_of_all():
    with deferring():
        few, more = (size(ftrace.grad(long(n))) for n in (60, 240))
        of_a_call = size(ftrace.grad(ftrace.jit(long(240))))
    with deferring(10**9):
        at_once = size(ftrace.grad(long(240)))
    assert few == more < at_once / 10
    assert of_a_call < at_once / 10


def test_a_program_is_long_without_being_told():
    forward = size(long(400))
    assert forward > jit.MANY
    assert size(ftrace.grad(long(400))) < forward / 10
    assert size(ftrace.grad(ftrace.jit(long(400)))) < forward / 10


def test_what_is_closed_over_is_differentiated_by_whom_it_belongs_to():
    def outer(a):
        def inner(x):
            for _ in range(30):
                x = np.sin(a * x) + x * a
            return x

        return ftrace.grad(inner)(a * 2.0)

    wanted = ftrace.grad(outer)(0.3)
    with deferring():
        close(ftrace.jit(ftrace.grad(outer))(0.3), wanted)


def test_cells_hold_what_was_written_last():
    def f(x):
        y = fnp.zeros(3)
        total = 0.0
        for i in range(30):
            y[i % 3] += x[i % 3] * (i + 1.0)
            y *= 0.5
            total = total + (y * x).sum()
        return total

    x = np.array([0.3, -1.0, 2.0])
    wanted = ftrace.grad(f)(x)
    for start in (0, 5, 50):
        with deferring(start):
            close(ftrace.jit(ftrace.grad(f))(x), wanted)


def test_a_cell_of_an_outer_trace_is_read_as_it_was():
    def f(x, a):
        cell = a * 1.0

        def inner(y):
            for i in range(20):
                y = y * cell.sum() * 0.1 + np.sin(y)
                if i == 9:
                    y = y + cell[0]
            return y.sum()

        first = ftrace.grad(inner)(x)
        cell *= 2.0
        return first + ftrace.grad(inner)(x)

    x = np.array([0.5, 0.25])
    wanted = f(x, np.array([1.0, 2.0]))
    with deferring():
        close(ftrace.jit(f)(x, np.array([1.0, 2.0])), wanted)


def test_what_runs_in_the_middle_runs_once_and_in_order():
    seen = []

    def f(x):
        for i in range(12):
            x = np.sin(x) + 0.5 * x
            if i == 6:
                ftrace.debug.callback(lambda v: seen.append(float(v)), x)
        return x

    wanted = ftrace.grad(f)(0.7)
    once = list(seen)
    seen.clear()
    with deferring():
        found = ftrace.jit(ftrace.grad(f))(0.7)
    close(found, wanted)
    assert seen == once


def test_rules_of_users_in_the_middle():
    @ftrace.custom_jvp
    def clipped(x):
        return np.clip(x, -1.0, 1.0)

    @clipped.defjvp
    def _(primals, tangents):
        return clipped(*primals), 3.0 * tangents[0]

    def f(x):
        for _ in range(10):
            x = clipped(np.sin(x) * 1.5) + 0.25 * x
        return x

    wanted = ftrace.grad(f)(0.4)
    with deferring():
        close(ftrace.jit(ftrace.grad(f))(0.4), wanted)


def test_control_flow_in_the_middle():
    def f(x):
        for i in range(8):
            x = lax.cond(x > 0.3, np.sin, lambda v: v * v + 0.1, x)
            x = lax.fori_loop(0, 3, lambda k, v: v * 0.9 + 0.01 * k, x) + i * 0.01
            if x > 0.5:
                x = x * 0.5
        return x

    wanted = ftrace.grad(f)(0.8)
    for start in (0, 9):
        with deferring(start):
            close(ftrace.jit(ftrace.grad(f))(0.8), wanted)


def test_values_without_derivatives():
    def f(x, n):
        count = n
        for _ in range(12):
            count = (count * 5 + 3) % 17
            x = np.where(count > 8, np.sin(x), x * 0.9) + lax.stop_gradient(x) * 0.1
        return x.sum(), count

    x = np.array([0.3, 0.9])
    wanted = ftrace.grad(f, has_aux=True)(x, 4)
    with deferring():
        close(ftrace.jit(ftrace.grad(f, has_aux=True))(x, 4), wanted)


def test_a_result_that_is_an_argument_or_a_number():
    def f(x):
        for _ in range(6):
            x = x * 1.5
        return x, (3.0, np.arange(2.0))

    with deferring():
        (value, (number, array)), slope = ftrace.jit(ftrace.value_and_grad(f, has_aux=True))(2.0)
        same = ftrace.jit(ftrace.grad(lambda x, y: y, 1))(1.0, 2.0)
    assert (value, number, slope) == (2.0 * 1.5**6, 3.0, 1.5**6)
    assert array.tolist() == [0.0, 1.0]
    assert same == 1.0


def test_a_derivative_that_does_not_exist_is_refused_on_its_line():
    def f(x):
        for _ in range(4):
            x = np.sin(x)
        try:
            return ftrace.pure_callback(np.cos, x, x)  # this line
        except ftrace.errors.FtraceError as error:
            raise ValueError("refused here") from error

    with deferring(), pytest.raises((ValueError, ftrace.errors.FtraceError)) as caught:
        ftrace.jit(ftrace.grad(f))(0.5)
    assert "callback" in str(caught.value) or "refused here" in str(caught.value)


def test_a_number_of_pythons_keeps_its_kind():
    def f(x):
        for _ in range(60):
            x = x * 0.9 + 0.01
        return x

    with deferring():
        found = ftrace.jit(ftrace.value_and_grad(f))(np.float32(2.0))
        plain = ftrace.jit(ftrace.value_and_grad(f))(2.0)
    assert [a.dtype for a in found] == [np.float32, np.float32]
    assert [np.asarray(a).dtype for a in plain] == [np.float64, np.float64]
    close(plain, ftrace.value_and_grad(f)(2.0))


def test_reads_from_the_end_and_every_second_element():
    def f(w, x):
        n = w.shape[0]
        for i in range(n // 2):
            x = np.sin(x * w[n - 1 - i]) + w[2 * i] * 0.5
        return x

    w = np.linspace(-1.0, 1.0, 48)
    wanted = ftrace.grad(f, (0, 1))(w, 0.3)
    with deferring():
        close(ftrace.jit(ftrace.grad(f, (0, 1)))(w, 0.3), wanted)


@pytest.mark.at_once
def test_short_programs_are_differentiated_at_once():
    def f(x):
        return np.sin(x) * x

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jvp.DeferringJVPTrace, "_record", None)
        assert np.isfinite(ftrace.jit(ftrace.grad(f))(1.0))


def test_each_iteration_stands_alone_where_a_pattern_is_looked_for():
    def valley(x):
        total = 0.0
        for i in range(x.size - 1):
            total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    x = np.linspace(0.0, 1.0, 20)
    with deferring():
        found = ftrace.sparse.hessian(valley)(x)
    assert found.nnz == 3 * x.size - 2
    close(found.toarray(), ftrace.hessian(valley)(x))


def test_a_policy_is_asked_of_every_operation():
    def f(x):
        for _ in range(20):
            x = ftrace.checkpoint_name(np.sin(x), "kept") * 1.5 - x * x * 0.1
        return x.sum()

    kept = ftrace.checkpoint_policies.save_only_these_names("kept")
    checked = ftrace.checkpoint(f, policy=kept)
    with deferring():
        assert len(ftrace.saved_residuals(checked, X)) >= 20
        close(ftrace.jit(ftrace.grad(checked))(X), ftrace.grad(f)(X))


@pytest.mark.parametrize("start", range(12))
def test_arrays_that_change_among_the_first_operations(start):
    """What an operation read is what it is given again, not what the array holds by then."""

    def around_a_linear_map(x):
        c = x * 1.0
        y, pull = ftrace.vjp(lambda z: z * z, c)
        c[0] = 100.0
        y[1] = 50.0
        (g,) = pull(np.ones(4))
        return np.sum(g * g)

    def between_views(x):
        c = x * 1.0
        d = c[1:]
        z = np.sin(c) * c
        c[0] = 100.0
        u = c * z
        c[1] = x[2]
        d[1] += z[0]
        w = np.cos(u) * c * d[0]
        return np.sum(w * w) + np.sum(d)

    x = np.array([0.3, 0.5, 0.7, 0.2])
    for f in (around_a_linear_map, between_views):
        wanted = ftrace.grad(f)(x)
        with deferring(start):
            close(ftrace.jit(ftrace.grad(f))(x), wanted, 1e-12)
