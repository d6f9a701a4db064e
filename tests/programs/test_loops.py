"""scan, map, fori_loop and while_loop equal the loop written in Python, in every mode.

The programs are asymmetric: weights differ along every axis, carries and consts differ, and the
number of turns of a while depends on the values.
"""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, hessian, jacfwd, jacrev, jit, jvp, lax, linearize, vjp, vmap
from ftrace.control.remat.revolve import revolve, scan_again
from ftrace.control.rows import jit as control_jit
from ftrace.control.rows.jit import LONG, Turns
from ftrace.control.rows.scan import scan_call
from ftrace.control.rows.while_loop import while_call
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.scan_layout import ScanLoop
from ftrace.core.tapes import is_tape
from ftrace.lowering.planning import replay

X = np.array([0.5, -0.8, 1.3])
V = np.array([1.0, -2.0, 0.5])
W = np.array([[1.0, 0.3, -0.2], [0.1, 0.9, 0.4], [-0.5, 0.2, 1.1]])
T = np.linspace(0.1, 0.9, 4)
TOLERANCE = 1e-11


def recurrence(x):
    """A carry and ys, from xs and a captured operand."""

    def step(c, t):
        c = np.tanh(W @ c + t * x)
        return c, c * t + x[0]

    c, ys = lax.scan(step, x, T)
    return np.sum(c * V) + np.sum(ys * W[:, 1] * np.arange(1.0, 5.0)[:, None])


def recurrence_plain(x):
    c, total = x, 0.0
    for i, t in enumerate(T):
        c = np.tanh(W @ c + t * x)
        total = total + np.sum((c * t + x[0]) * W[:, 1]) * (i + 1.0)
    return np.sum(c * V) + total


def backwards(x):
    """From the last element to the first, over xs that depend on the input; a tree carry."""

    def step(c, xt):
        return {"a": c["a"] * xt + c["b"][1], "b": np.sin(c["b"]) * xt}, (c["a"], xt * c["b"])

    c, (a, b) = lax.scan(step, {"a": x[0], "b": x}, x * x + 1.0, reverse=True)
    return c["a"] + np.sum(c["b"] * V) + np.sum(a * V) + np.sum(b * W)


def backwards_plain(x):
    xs, a, b, total = x * x + 1.0, x[0], x, 0.0
    for i in (2, 1, 0):
        total = total + a * V[i] + np.sum(xs[i] * b * W[i])
        a, b = a * xs[i] + b[1], np.sin(b) * xs[i]
    return a + np.sum(b * V) + total


def counted(x):
    """fori_loop with known bounds: the counter is used, and one carry never changes."""
    a, b = lax.fori_loop(1, 4, lambda i, c: (c[0] * c[1] + i * c[0] ** 2, c[1]), (x, V + 1.0))
    return np.sum(a * b)


def counted_plain(x):
    a = x
    for i in range(1, 4):
        a = a * (V + 1.0) + i * a**2
    return np.sum(a * (V + 1.0))


def newton(x):
    """Turns depend on the value."""
    z = lax.while_loop(
        lambda z: np.abs(z * z - x[2]) > 1e-13, lambda z: z - (z * z - x[2]) / (2 * z), x[2] * 1.0
    )
    return z * x[0]


def newton_plain(x):
    return np.sqrt(x[2]) * x[0]


def growing(x):
    """Turns depend on a carry that has a derivative; a vector carry, consts, an integer."""

    def body(c):
        n, y, total = c
        return n + 1, y * 1.7 + np.sin(x), total + np.sum(y * V) * n

    n, y, total = lax.while_loop(lambda c: np.sum(c[1] * c[1]) < 60.0, body, (0, x, 0.0))
    return total + np.sum(y * V) * n


def growing_plain(x):
    n, y, total = 0, x, 0.0
    while np.sum(y * y) < 60.0:
        n, y, total = n + 1, y * 1.7 + np.sin(x), total + np.sum(y * V) * n
    return total + np.sum(y * V) * n


def never(x):
    """No turn at all."""
    return np.sum(lax.while_loop(lambda y: y[0] > 100.0, lambda y: y * x, x * V))


def never_plain(x):
    return np.sum(x * V)


def bounded(x):
    """fori_loop whose bound is a value."""
    n = fnp.floor(np.sum(x * x) * 2.0).astype(np.int64)
    return np.sum(lax.fori_loop(0, n, lambda i, y: np.sin(y) * x + i * y, x) * V)


def bounded_plain(x):
    y = x
    n = float(np.floor(np.sum(ftrace.lax.stop_gradient(x) ** 2) * 2.0))
    for i in range(int(n)):
        y = np.sin(y) * x + i * y
    return np.sum(y * V)


def nested(x):
    """A while in a scan in a while."""

    def inner(c, t):
        y = lax.while_loop(lambda y: y < 4.0, lambda y: y * 1.5 + t * np.sin(y), c * c + 0.3)
        return np.cos(y) * c, y

    def body(c):
        n, y = c
        y, ys = lax.scan(inner, y, T[:2])
        return n + 1, y + 0.1 * np.sum(ys * T[:2])

    return sum(
        w * lax.while_loop(lambda c: c[0] < 2, body, (0, xi))[1] for w, xi in zip(V, x, strict=True)
    )


def nested_plain(x):
    total = 0.0
    for k, weight in enumerate(V):
        c = x[k]
        for _ in range(2):
            extra = 0.0
            for t in T[:2]:
                y = c * c + 0.3
                while y < 4.0:
                    y = y * 1.5 + t * np.sin(y)
                c, extra = np.cos(y) * c, extra + y * t
            c = c + 0.1 * extra
        total = total + weight * c
    return total


def branching(x):
    """A while in a branch of a cond in a while in a scan: tapes of tapes, some of them empty."""

    def grow(y):
        return lax.while_loop(lambda y: np.sum(y * y) < 9.0, lambda y: y * 1.4 + np.sin(x), y)

    def step(c, t):
        def body(e):
            n, y = e
            return n + 1, lax.cond(y[0] > 0.4, grow, lambda y: y * x[1], y) * 0.6

        return lax.while_loop(lambda e: e[0] < t, body, (0, c))[1] + 0.1 * x, c[2]

    c, ys = lax.scan(step, x, np.array([2, 0, 3]))
    return np.sum(c * V) + np.sum(ys * T[:3])


def branching_plain(x):
    c, total = x, 0.0
    for t, weight in zip((2, 0, 3), T, strict=False):
        total, y = total + c[2] * weight, c
        for _ in range(t):
            if y[0] > 0.4:
                while np.sum(y * y) < 9.0:
                    y = y * 1.4 + np.sin(x)
            else:
                y = y * x[1]
            y = y * 0.6
        c = y + 0.1 * x
    return np.sum(c * V) + total


def few_states(x):
    """Carries, consts and xs with derivatives, backwards, with two states in memory."""

    def step(c, t):
        a, b = c
        a = np.tanh(W @ a + t * x)
        return (a, b + np.sum(a * t)), a * b

    xs = x * T[:, None]
    c, ys = lax.scan(step, (x, x[1]), xs, reverse=True, checkpoint="binomial", slots=2)
    return np.sum(c[0] * V) + c[1] ** 2 + np.sum(ys * W[:, 1] * T[:, None])


def few_states_plain(x):
    a, b, total = x, x[1], 0.0
    for t in T[::-1]:
        new = np.tanh(W @ a + t * x * x)
        total = total + np.sum(new * b * W[:, 1]) * t
        a, b = new, b + np.sum(new * t * x)
    return np.sum(a * V) + b**2 + total


def mapped(x):
    return np.sum(lax.map(lambda v: {"a": np.sin(v) * x[1], "b": v}, x)["a"] * V)


def in_batches(x):
    return np.sum(lax.map(lambda v: np.sin(v) * x[1], x, batch_size=2) * V)


def mapped_plain(x):
    return np.sum(np.sin(x) * x[1] * V)


def with_branches(x):
    """cond and where inside a scan; the untaken side would be NaN."""

    def step(c, t):
        y = lax.cond(c > 0.6, lambda c: c * t, lambda c: c + t * x[0], c)
        return np.where(y > 0, np.sqrt(np.where(y > 0, y, 1.0)), y * y), y

    c, ys = lax.scan(step, x[2], T)
    return c + np.sum(ys * T)


def with_branches_plain(x):
    c, total = x[2], 0.0
    for t in T:
        y = c * t if c > 0.6 else c + t * x[0]
        total = total + y * t
        c = np.sqrt(y) if y > 0 else y * y
    return c + total


def checkpointed(x):
    step = ftrace.checkpoint(lambda c, t: (np.tanh(W @ c + t * x), c[1] * t))
    c, ys = lax.scan(step, x, T)
    return np.sum(c * V) + np.sum(ys * T)


def checkpointed_plain(x):
    c, total = x, 0.0
    for t in T:
        c, total = np.tanh(W @ c + t * x), total + c[1] * t * t
    return np.sum(c * V) + total


PROGRAMS = {
    "recurrence": (recurrence, recurrence_plain),
    "backwards": (backwards, backwards_plain),
    "counted": (counted, counted_plain),
    "newton": (newton, newton_plain),
    "growing": (growing, growing_plain),
    "never": (never, never_plain),
    "bounded": (bounded, bounded_plain),
    "nested": (nested, nested_plain),
    "branching": (branching, branching_plain),
    "few states": (few_states, few_states_plain),
    "mapped": (mapped, mapped_plain),
    "in batches": (in_batches, mapped_plain),
    "branches": (with_branches, with_branches_plain),
    "checkpoint": (checkpointed, checkpointed_plain),
}
MANY = np.stack([X, X[::-1] * 0.7 + 0.1, np.array([1.1, 0.2, 2.5])])
DIRECTION = np.array([0.3, -1.0, 0.7])


def each(f):
    """Member by member."""
    return lambda m: np.stack([f(x) for x in m])


MODES = {
    "value": (lambda f: f, X),
    "grad": (grad, X),
    "jvp": (lambda f: lambda x: jvp(f, (x,), (DIRECTION,))[1], X),
    "vjp": (lambda f: lambda x: vjp(f, x)[1](1.5)[0], X),
    "linearize": (lambda f: lambda x: linearize(f, x)[1](DIRECTION), X),
    "jit": (jit, X),
    "grad jit": (lambda f: grad(jit(f)), X),
    "jit grad": (lambda f: jit(grad(f)), X),
    "hessian": (hessian, X),
    "jacfwd grad jit": (lambda f: jacfwd(grad(jit(f))), X),
    "jacrev grad": (lambda f: jacrev(grad(f)), X),
    "jacfwd jacfwd": (lambda f: jacfwd(jacfwd(f)), X),
    "jit hessian": (lambda f: jit(hessian(f)), X),
    "grad of a norm of grad": (lambda f: grad(lambda x: np.sum(np.sin(grad(f)(x)) * V)), X),
    "checkpoint grad": (lambda f: grad(ftrace.checkpoint(f)), X),
    "vmap": (vmap, MANY),
    "vmap grad": (lambda f: vmap(grad(f)), MANY),
    "jit vmap grad": (lambda f: jit(vmap(grad(f))), MANY),
    "grad vmap": (lambda f: grad(lambda m: np.sum(vmap(f)(m) * V)), MANY),
    "vmap hessian": (lambda f: vmap(hessian(f)), MANY),
    "vmap jvp": (lambda f: vmap(lambda x: jvp(f, (x,), (DIRECTION,))[1]), MANY),
    "grad jit vmap": (lambda f: grad(lambda m: np.sum(jit(vmap(f))(m) * V)), MANY),
}
PLAIN = {
    "vmap": each,
    "vmap grad": lambda f: each(grad(f)),
    "jit vmap grad": lambda f: each(grad(f)),
    "grad vmap": lambda f: lambda m: np.stack([v * grad(f)(x) for v, x in zip(V, m, strict=True)]),
    "vmap hessian": lambda f: each(jacfwd(grad(f))),
    "vmap jvp": lambda f: each(lambda x: jvp(f, (x,), (DIRECTION,))[1]),
    "grad jit vmap": lambda f: (
        lambda m: np.stack([v * grad(f)(x) for v, x in zip(V, m, strict=True)])
    ),
    "jit": lambda f: f,
    "grad jit": grad,
    "jit grad": grad,
    "hessian": lambda f: jacfwd(grad(f)),
    "jacfwd grad jit": lambda f: jacfwd(grad(f)),
    "jit hessian": lambda f: jacfwd(grad(f)),
    "checkpoint grad": grad,
}


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_equals_the_loop_in_python(name, mode):
    looped, plain = PROGRAMS[name]
    transform, x = MODES[mode]
    expected = PLAIN.get(mode, transform)(plain)(x)
    found = transform(looped)(x)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_what_a_loop_of_no_turns_gives_shares_no_memory_with_what_it_got():
    x = np.arange(3.0)
    body = ftrace.make_jaxpr(lambda c, row: (c, row))(x, x)
    carry, _ = scan_call(x, np.zeros((0, 3)), body=body, loop=ScanLoop(0, False, 0, 1))
    assert not np.shares_memory(carry, x)


def test_what_is_the_same_in_every_turn_is_kept_once():
    def scanned(x):
        return np.sum(lax.scan(lambda c, t: (np.tanh(W @ c) * t, None), x, T)[0])

    def turned(x):
        return lax.while_loop(lambda c: np.sum(c * c) < 50.0, lambda c: W @ c * 1.5 + np.tanh(c), x)

    for f in (scanned, turned, lambda x: lax.scan(lambda c, _: (W @ (c * c), None), x, length=4)):
        shapes = [r.shape for r in ftrace.saved_residuals(f, X)]
        assert shapes.count((3, 3)) >= 1
        assert not any(len(shape) > 2 for shape in shapes)


def telling(seen):
    """A loop whose number of turns depends on its argument, and that tells of each."""

    def f(x):
        def body(c):
            ftrace.debug.callback(lambda v: seen.append(float(v)), c[0])
            return c[0] * 1.5, c[1] * x

        return lax.while_loop(lambda c: c[0] < 10.0, body, (x, 1.0))[1]

    return f


@pytest.mark.parametrize("way", [lambda f: f, jit], ids=["eager", "jit"])
def test_a_recorded_loop_with_effects_has_the_derivative_of_each_member(way):
    f, x = telling([]), np.array([2.0, 5.0])
    np.testing.assert_array_equal(vmap(f)(x), [16.0, 25.0])
    np.testing.assert_array_equal(way(vmap(grad(f)))(x), [32.0, 10.0])
    np.testing.assert_array_equal(way(grad(lambda v: vmap(f)(v).sum()))(x), [32.0, 10.0])


def test_a_mapped_loop_has_the_effects_of_the_turns_that_each_member_takes():
    seen = []
    f, x = telling(seen), np.array([2.0, 5.0])
    grad(lambda v: vmap(f)(v).sum())(x)
    assert seen == [2.0, 3.0, 4.5, 6.75, 5.0, 7.5]


@pytest.mark.xfail(
    reason="vmap(grad(f)): a callback in a while_loop is also called for members that are done"
)
def test_a_recorded_mapped_loop_has_the_effects_of_the_turns_that_each_member_takes():
    seen = []
    vmap(grad(telling(seen)))(np.array([2.0, 5.0]))
    assert sorted(seen) == [2.0, 3.0, 4.5, 5.0, 6.75, 7.5]


def turns_compiled(monkeypatch, compiled, *, total, turns):
    """The turns after which a body was compiled, and what the turns gave."""
    made, values = [], []

    def executable(jaxpr, place):
        made.append(len(values))
        return lambda args: eval_jaxpr(jaxpr, args)

    monkeypatch.setattr(control_jit, "executable", executable)
    with ftrace.config.update(compile=compiled):
        turn = Turns(ftrace.make_jaxpr(lambda x: x * 2.0)(1.0), total)
        for k in range(turns):
            values += turn([np.float64(k)])
    assert values == [2.0 * k for k in range(turns)]
    return made


def test_a_turn_is_compiled_once_and_where_there_are_many(monkeypatch):
    many = LONG + 3
    assert turns_compiled(monkeypatch, True, total=None, turns=LONG) == []
    assert turns_compiled(monkeypatch, True, total=None, turns=many) == [LONG]
    assert turns_compiled(monkeypatch, True, total=LONG, turns=LONG) == []
    assert turns_compiled(monkeypatch, True, total=many, turns=many) == [0]
    assert turns_compiled(monkeypatch, False, total=None, turns=many) == []
    assert turns_compiled(monkeypatch, False, total=many, turns=many) == []


def test_map_in_batches_calls_the_function_on_nothing_more():
    seen = []

    def f(v):
        seen.append(v)
        return 1.5, v * 2.0

    for n in (4, 5):
        seen.clear()
        constant, doubled = lax.map(f, np.arange(float(n)), batch_size=2)
        assert len(seen) == 1 + n % 2  # whole batches, and the rest
        np.testing.assert_array_equal(constant, np.full(n, 1.5))
        np.testing.assert_array_equal(doubled, 2.0 * np.arange(n))


LOWERED = {
    "value": lambda f: f,
    "grad": grad,
    "hessian": hessian,
    "jvp of grad": lambda f: jacfwd(grad(f)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_loops_hold_no_python(name):
    for transform in LOWERED.values():
        assert jit(transform(PROGRAMS[name][0])).lower(X).cost().callbacks == 0


@pytest.fixture
def run_by_python():
    """The names of the loops that Python runs."""
    rows = {row: row.impl for row in (scan_call, while_call, revolve, scan_again)}
    names = []

    def noting(row, impl):
        def noted(*operands, **params):
            names.append(row.name)
            return impl(*operands, **params)

        return noted

    for row, impl in rows.items():
        object.__setattr__(row, "impl", noting(row, impl))
    yield names
    for row, impl in rows.items():
        object.__setattr__(row, "impl", impl)


@pytest.mark.sampled(3, each="name")
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", ["grad jit", "jit vmap grad", "grad jit vmap"])
def test_compiled_halves_give_their_tapes_to_each_other(name, mode, run_by_python):
    transform, x = MODES[mode]
    f = jit(PROGRAMS[name][0])
    g = transform(f)
    expected = g(x)
    run_by_python.clear()
    np.testing.assert_array_equal(g(x), expected)
    assert run_by_python == []


@pytest.mark.slow
def test_compiled_tapes_of_tapes_are_added_up(run_by_python):
    total = lambda g: lambda x: np.sum(np.sin(g(x)) * V)  # noqa: E731
    third = jit(grad(total(grad(total(grad(nested))))))
    rows = [e.primitive.name for e in third.lower(X).jaxpr.eqns if is_tape(e.outvars[0].aval)]
    assert "add" in rows
    assert third.lower(X).cost().callbacks == 0
    found = third(X)
    assert run_by_python == []
    with ftrace.config.update(compile=False):
        np.testing.assert_allclose(found, third(X), rtol=1e-8)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_a_loop_in_a_branch_that_members_take_differently(wrap):
    def f(x):
        grow = lambda y: np.sum(  # noqa: E731
            lax.while_loop(lambda c: np.sum(c * c) < 50.0, lambda c: c * 1.5 + np.sin(x), y) * V
        )
        return lax.cond(x[0] > 0.5, grow, lambda y: np.sum(np.sin(y) * x), x * 1.1)

    rows = np.stack([X * 0.4, X * 1.3, X + 0.2])
    expected = np.stack([grad(f)(x) for x in rows])
    np.testing.assert_allclose(wrap(vmap(grad(f)))(rows), expected, rtol=TOLERANCE)
    np.testing.assert_allclose(vmap(grad(wrap(f)))(rows), expected, rtol=TOLERANCE)
    second = np.stack([jacfwd(grad(f))(x) for x in rows])
    np.testing.assert_allclose(wrap(vmap(hessian(f)))(rows), second, rtol=TOLERANCE)
    step = 1e-6
    for i, x in enumerate(rows):
        shifts = step * np.eye(3)
        slopes = [(f(x + d) - f(x - d)) / (2 * step) for d in shifts]
        np.testing.assert_allclose(expected[i], slopes, rtol=1e-6)


@pytest.mark.sampled(3, each="length")
@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("length", [0, 1, 2, 12])
@pytest.mark.parametrize("reverse", [False, True])
def test_compiled_few_states_give_the_gradient_to_the_last_bit(
    slots, length, reverse, run_by_python
):
    def f(x, checkpoint):
        xs = np.sin(np.arange(3.0 * length).reshape(length, 3)) * x[1]
        step = lambda c, t: (np.sin(c) * x + c[::-1] * t, np.cos(c * t))  # noqa: E731
        c, ys = lax.scan(step, x, xs, reverse=reverse, checkpoint=checkpoint, slots=slots)
        return np.sum(c * V) + np.sum(np.sin(ys) * V)

    plain = jit(grad(lambda x: f(x, None)))(X)
    run_by_python.clear()
    few = lambda x: f(x, "binomial")  # noqa: E731
    np.testing.assert_array_equal(jit(grad(few))(X), plain)
    np.testing.assert_allclose(grad(jit(few))(X), plain, rtol=1e-13)
    assert run_by_python == []


def test_a_schedule_that_is_too_long_for_a_table_runs_in_python(monkeypatch, run_by_python):
    def f(x):
        step = lambda c, _: (np.sin(c) * x, None)  # noqa: E731
        return np.sum(lax.scan(step, x, length=9, checkpoint="binomial", slots=2)[0])

    expected = jit(grad(f))(X)
    monkeypatch.setattr(replay, "LONGEST", 3)
    run_by_python.clear()
    with ftrace.config.update(compile=True):
        np.testing.assert_allclose(jit(grad(lambda x: f(x)))(X), expected, rtol=1e-13)
    assert "revolve" in run_by_python


def test_a_loop_in_an_arm_that_only_some_members_take():
    """Its tape has turns in one branch and none in the other."""

    def inner(y):
        return lax.while_loop(lambda c: c > 1, lambda c: c * np.sin(c) * 0.6, y)

    def f(x):
        return lax.cond(x > 0, lambda: lax.cond(x > 3, lambda: x, lambda: inner(x) * x), lambda: x)

    def g(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + f(x)), (0, x))[1]

    xs = np.array([0.3, 2.0, 5.0, -1.0])
    for h in (f, g):
        expected = [ftrace.grad(h)(x) for x in xs]
        np.testing.assert_allclose(ftrace.vmap(ftrace.grad(h))(xs), expected)
        np.testing.assert_allclose(ftrace.jit(ftrace.vmap(ftrace.grad(h)))(xs), expected)
