"""`debug.blame`: the line that made a NaN, an infinity, an exact zero, a jump or a kink.

Each program marks its line with a comment: the report must name it.
"""

import inspect
import itertools

import numpy as np
import pytest

import ftrace
from ftrace import errors, grad, jit, lax, value_and_grad, vmap
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.primitive import Unsupported
from ftrace.debug import blame
from tests.laws import cases

V = np.array([0.5, 1.0, 2.0])
Z = np.zeros(3)


def marked(fun):
    """The line of a program that has the mark."""
    lines, first = inspect.getsourcelines(inspect.unwrap(fun))
    (line,) = [first + i for i, text in enumerate(lines) if "# here" in text]
    return line


# ---------------------------------------------------------------------------------- NaN programs


def masked_by_product(x):
    mask = (x > 0) * 1.0
    root = np.sqrt(x)  # here
    return np.sum(mask * root)


def norm_at_zero(x):
    squares = np.sum(x * x)
    return np.sqrt(squares)  # here


def distance_of_a_point_to_itself(x):
    d = x[:, None] - x[None, :]
    return np.sum(np.sqrt(d * d))  # here


def root_at_zero(x):
    y = x * 2.0
    return np.sum(np.sqrt(y))  # here


def overwritten_root(x):
    y = np.sqrt(x - 1.0)  # here
    z = y * 0.0
    return np.sum(z + x)


def zero_times_infinity(x):
    big = np.exp(1000.0 * x)  # here
    small = np.exp(-1000.0 * x)
    return np.sum(big * small)


def logsumexp_by_hand(x):
    terms = np.exp(x)  # here
    return np.log(np.sum(terms))


def softmax_by_hand(x):
    e = np.exp(x)  # here
    return e / np.sum(e)


def quotient_with_itself(x):
    y = x - x
    return np.sum(y / y)  # here


def sinc_by_hand(x):
    return np.sum(np.sin(x) / x)  # here


def arc_cosine_past_one(x):
    c = x / np.sqrt(x * x) * (1 + 1e-12)
    return np.sum(np.arccos(c))  # here


def arc_cosine_at_one(x):
    c = np.minimum(x, 1.0)
    return np.sum(np.arccos(c))  # here


def power_at_zero(x):
    y = np.abs(x)
    return np.sum(y**0.5)  # here


def power_of_a_negative(x):
    y = -x
    return np.sum(y**1.5)  # here


def logarithm_of_zero(p):
    q = 1.0 - p
    return -np.sum(p * np.log(p) + q * np.log(q))  # here


def cumulative_product(x):
    p = np.cumprod(x)
    return np.sum(np.log(p))  # here


def variance_by_hand(x):
    mean = np.mean(x)
    variance = np.mean(x * x) - mean * mean - 1e-12
    return np.sqrt(variance)  # here


def normalised(x):
    length = np.sqrt(np.sum(x**2))
    return x / length  # here


def scan_that_blows_up(x):
    def turn(c, k):
        c = c * c  # here
        return c, c - k

    return lax.scan(turn, x, np.arange(12.0))[1]


def while_that_blows_up(x):
    def body(c):
        i, y = c
        return i + 1, np.exp(y)  # here

    return lax.while_loop(lambda c: c[0] < 7, body, (0, x))[1]


def fori_into_a_negative_root(x):
    def body(i, y):
        y = y - 2.0
        return y + np.sqrt(y)  # here

    return lax.fori_loop(0, 6, body, x)


@jit
def jitted(x):
    y = x * x - 4.0
    return np.sum(np.log(y))  # here


@jit
def in_a_branch(x):
    def low(x):
        y = 1.0 - x
        return np.log(y)  # here

    return lax.cond(x < 10.0, low, lambda x: x, x)


@jit
def branch_in_a_loop(x):
    def body(i, y):
        return lax.cond(
            i == 3,
            lambda y: y / (y - y),  # here
            lambda y: y + 1.0,
            y,
        )

    return lax.fori_loop(0, 5, body, x)


def mapped(x):
    def member(v):
        w = v - 1.0
        return np.log(w)  # here

    return np.sum(vmap(member)(x))


@ftrace.checkpoint
def checkpointed(x):
    y = np.sin(x) - 1.0
    return np.sum(np.sqrt(y))  # here


@ftrace.vectorize
def vectorized(x):
    y = x - 1.0
    return np.sqrt(y)  # here


def native_loop(x):
    for k in range(5):
        x = x - k
        y = np.log(x)  # here
    return y


def written(x):
    out = ftrace.numpy.zeros(3)
    out[0] = x[0]
    out[1] = np.log(x[1] - 1.0)  # here
    return np.sum(out)


def unstable_sigmoid(x):
    e = np.exp(x)  # here
    return e / (1.0 + e)


def hypotenuse_by_hand(x):
    squares = x * x  # here
    return np.sqrt(squares + 1.0)


def integer_power_at_zero(x):
    y = x * 3.0
    return np.sum(y**-2)  # here


def jitted_gradient(x):
    @jit
    def inner(v):
        w = v * 2.0
        return np.sum(np.sqrt(w))  # here

    return grad(inner)(x)


def angle_at_the_origin(x):
    y = x[0] * x[1]
    return np.sqrt(y) * x[2]  # here


NANS = {
    masked_by_product: (np.array([-1.0, 2.0]), "nan", ()),
    norm_at_zero: (Z, "inf", ()),
    distance_of_a_point_to_itself: (V, "inf", ()),
    root_at_zero: (Z, "inf", ()),
    overwritten_root: (V, "nan", ()),
    zero_times_infinity: (V, "inf", ()),
    logsumexp_by_hand: (np.array([1000.0, 1.0]), "inf", ()),
    softmax_by_hand: (np.array([1000.0, 1.0]), "inf", ()),
    quotient_with_itself: (V, "nan", ()),
    sinc_by_hand: (np.array([0.0, 1.0]), "nan", ()),
    arc_cosine_past_one: (V, "nan", ()),
    arc_cosine_at_one: (2 * V, "inf", ()),
    power_at_zero: (Z, "inf", ()),
    power_of_a_negative: (V, "nan", ()),
    logarithm_of_zero: (np.array([0.0, 0.5]), "inf", ()),
    cumulative_product: (np.array([2.0, 0.0, 3.0]), "inf", ()),
    variance_by_hand: (np.ones(4), "nan", ()),
    normalised: (Z, "nan", ()),
    scan_that_blows_up: (np.float64(3.0), "inf", ("turn 9 of scan",)),
    while_that_blows_up: (1.0, "inf", ("turn 3 of while",)),
    fori_into_a_negative_root: (2.5, "nan", ("turn 1 of scan",)),
    jitted: (V, "nan", ()),
    in_a_branch: (3.0, "nan", ("branch 1 of cond",)),
    branch_in_a_loop: (1.0, "inf", ("turn 3 of scan", "branch 1 of cond")),
    mapped: (V, "nan", ()),
    checkpointed: (V, "nan", ()),
    vectorized: (V, "nan", ()),
    native_loop: (2.5, "nan", ()),
    written: (V, "inf", ()),
    unstable_sigmoid: (np.array([800.0]), "inf", ()),
    hypotenuse_by_hand: (np.float64(1e200), "inf", ()),
    integer_power_at_zero: (Z, "inf", ()),
    jitted_gradient: (Z, "inf", ()),
    angle_at_the_origin: (np.array([0.0, 1.0, 0.0]), "nan", ()),
}


@pytest.mark.parametrize("fun", NANS, ids=lambda f: f.__name__)
def test_the_line_of_what_is_not_finite_is_named_first(fun):
    x, kind, path = NANS[fun]
    report = blame(fun, x, radius=0)
    first = report.findings[0]
    assert (first.file, first.line) == (__file__, marked(fun))
    assert "# here" in first.text
    assert (first.kind, first.path) == (kind, path)
    assert report
    assert f"{__file__}:{first.line}: {first.text}" in str(report)


def test_a_nan_made_of_an_infinity_names_both_lines():
    def f(x):
        e = np.exp(x)
        return e / np.sum(e)

    first, second = blame(f, np.array([1000.0, 0.0]), radius=0).findings
    line = f.__code__.co_firstlineno
    assert (first.kind, first.line) == ("inf", line + 1)
    assert (second.kind, second.line) == ("nan", line + 2)
    assert first.values == (1000.0,)
    assert first.what == "result is not finite: exp made inf of 1000 at element [0]."


def test_a_derivative_of_a_derivative_is_blamed_at_the_line_of_the_function():
    def f(x):
        y = x + 0.0
        return np.sum(y**1.5)

    assert not blame(f, Z, radius=0)
    assert not blame(lambda x: f(x), Z, radius=0)
    line = f.__code__.co_firstlineno + 2
    for gradient in (grad(f), jit(grad(f)), grad(jit(f)), vmap(grad(lambda v: f(v)))):
        (found,) = blame(gradient, Z, radius=0).findings
        assert (found.kind, found.line) == ("inf", line)
        assert "gradient" in found.what


def test_a_loop_inside_a_gradient_says_its_turn():
    def loss(x):
        def body(c):
            k, y = c
            return k + 1, y * np.sqrt(x - k)

        return lax.while_loop(lambda c: c[0] < 5, body, (0.0, x))[1]

    for f in (loss, grad(loss), jit(value_and_grad(loss))):
        found = blame(f, 3.5, radius=0).findings[0]
        assert (found.kind, found.path) == ("nan", ("turn 4 of while",))
        assert found.line == loss.__code__.co_firstlineno + 3
        assert found.values == (-0.5,)


def test_a_gradient_that_overflows_on_the_way_back_is_blamed_in_the_program():
    def f(x):
        y = x * 1e-200
        z = np.sin(y * 1e200)
        return np.sum(z * 1e200)

    (found,) = blame(lambda x: f(x * 1e120), 0.0, radius=0).findings
    assert (found.kind, found.line) == ("inf", f.__code__.co_firstlineno + 2)
    assert "the gradient with respect to x is not finite: mul made inf of" in found.what


@pytest.mark.parametrize(
    ("fun", "x"),
    [
        (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), np.array([-1.0, 2.0])),
        (lambda x: np.sum(np.where(x > 0, np.log(x), x)), np.array([-1.0, 2.0])),
        (lambda x: np.sum(np.where(x == 0, 1.0, np.sin(x) / x)), np.array([0.0, 2.0])),
        (lambda x: lax.cond(x > 0, np.log, lambda v: -v, x), -3.0),
        (lambda x: np.sum(np.sin(x) * np.exp(-x)), V),
        (lambda x: np.sum(np.where(x < 1, x**2, 2 * x - 1)), np.array([1.0])),
        (lambda x: np.max(np.array([1.0, np.inf])) * 0 + 1.0 if x < 0 else x, 2.0),
        (lambda x: np.minimum(x, np.inf), V),
        (lambda tree: tree["a"] @ tree["b"], {"a": V, "b": V + 1}),
    ],
)
def test_nothing_is_found_where_nothing_is_wrong(fun, x):
    report = blame(fun, x)
    assert not report
    assert report.findings == ()
    assert str(report).startswith("Nothing was found in")


def test_an_infinity_that_was_given_is_no_finding_and_what_is_made_of_it_is():
    mask = np.array([0.0, -np.inf])

    def f(x):
        scores = x + mask
        e = np.exp(scores - np.max(scores))
        return e / np.sum(e)

    assert not blame(f, np.array([1.0, 2.0]), radius=0)
    mask[0] = -np.inf
    found = blame(f, np.array([1.0, 2.0]), radius=0).findings[0]
    assert (found.kind, found.line) == ("nan", f.__code__.co_firstlineno + 2)


def test_a_nan_that_was_given_is_named():
    data = np.array([1.0, np.nan])

    def f(x):
        y = 2 * x
        return np.sum(y * data)

    found = blame(f, np.ones(2), radius=0).findings[0]
    assert (found.kind, found.line) == ("nan", f.__code__.co_firstlineno + 2)
    assert "captured array holds nan" in found.what
    found = blame(lambda tree: tree["w"] * 2.0, {"w": data}, radius=0).findings[0]
    assert "argument tree['w'] holds nan" in found.what


def test_an_element_that_nothing_chose_is_not_blamed():
    def f(x):
        a = np.log(x)
        b = np.sqrt(x * np.array([-1.0, -1.0, 1.0]))
        return np.where(np.array([True, True, False]), b, a)

    found = blame(f, np.array([2.0, -1.0, 3.0]), radius=0).findings[0]
    assert (found.kind, found.line, found.values) == ("nan", f.__code__.co_firstlineno + 2, (-2.0,))
    assert "sqrt made nan of -2 at element [0]" in found.what
    assert (
        "of -1 at element [1]" in blame(lambda x: np.log(x), np.array([2.0, -1.0])).findings[0].what
    )


def test_elements_are_followed_where_they_are_moved():
    def f(x):
        a = np.log(x)
        b = np.sqrt(np.concatenate([x, a])[::-1].reshape(2, 3).T)
        return lax.stop_gradient(b[np.array([2, 0])])

    # b is a transposed [[a2, a1, a0], [x2, x1, x0]]; its rows 2 and 0 hold a0, x0, a2 and x2
    first = f.__code__.co_firstlineno
    assert blame(f, np.array([2.0, -1.0, 3.0]), radius=0).findings[0].kind == "zero"
    found = blame(f, np.array([2.0, -1.0, 0.5]), radius=0).findings[0]
    assert (found.kind, found.line, found.values) == ("nan", first + 2, (np.log(0.5),))
    found = blame(f, np.array([2.0, 1.0, -3.0]), radius=0).findings[0]
    assert (found.kind, found.line, found.values) == ("nan", first + 1, (-3.0,))


def test_a_difference_of_infinities_names_the_first():
    def f(x):
        a = np.exp(x)
        b = np.exp(2 * x)
        return b - a

    found = blame(f, 1000.0, radius=0).findings
    first = f.__code__.co_firstlineno
    assert [(f.kind, f.line) for f in found[:2]] == [("inf", first + 1), ("nan", first + 3)]


def test_every_line_that_spoils_an_element_of_the_result_is_named():
    def f(x):
        a = np.log(x)
        b = np.sqrt(1.0 - x)
        return a + b

    found = blame(f, np.array([-1.0, 2.0]), radius=0).findings
    first = f.__code__.co_firstlineno
    assert [(f.kind, f.line) for f in found] == [("nan", first + 1), ("nan", first + 2)]


def test_the_side_that_where_chose_is_blamed():
    def f(x):
        a = np.log(x)
        b = np.sqrt(x)
        return np.where(x > 0, a, b)

    found = blame(f, -1.0, radius=0).findings[0]
    assert (found.kind, found.line) == ("nan", f.__code__.co_firstlineno + 2)


def test_a_sum_is_nan_by_its_nan_term():
    def f(x):
        a = np.exp(x[0])
        b = np.log(x[1])
        return lax.stop_gradient(np.sum(np.stack([a, b])))

    found = blame(f, np.array([1000.0, -1.0]), radius=0).findings[0]
    assert (found.kind, found.line) == ("nan", f.__code__.co_firstlineno + 2)


def test_an_infinity_in_another_element_is_no_cause():
    def f(x):
        e = np.exp(x)
        q = (x - x) / (x - x + e * 0.0)
        return lax.stop_gradient(q[0])

    found = blame(f, np.array([1.0, 1000.0]), radius=0).findings[0]
    assert (found.kind, found.line) == ("nan", f.__code__.co_firstlineno + 2)


def test_a_scan_from_the_end_says_the_element_and_keeps_their_order():
    def f(x):
        ys = lax.scan(lambda c, t: (c + t, c + t), x, np.array([1.0, 2.0, 4.0]), reverse=True)[1]
        return np.log(ys - 6.5)

    found = blame(f, 0.0, radius=0).findings[0]
    assert (found.kind, found.values) == ("nan", (-0.5,))

    def g(x):
        return lax.scan(lambda c, t: (c + np.log(c - t), c), x, np.arange(3.0), reverse=True)[0]

    assert blame(g, 1.5, radius=0).findings[0].path == ("turn 2 of scan",)


def test_loops_in_loops_inside_a_gradient_are_blamed():
    def f(x):
        def inner(c):
            return c[0] + 1, np.sin(c[1])

        def outer(c):
            y = lax.while_loop(lambda c: c[0] < 2, inner, (0, c[1]))[1]
            return c[0] + 1, np.sqrt(y - 0.8)

        return lax.while_loop(lambda c: c[0] < 3, outer, (0, x))[1]

    line = f.__code__.co_firstlineno + 6
    (value,) = blame(f, 1.5, radius=0).findings
    assert (value.kind, value.line, value.path) == ("nan", line, ("turn 1 of while",))
    assert blame(grad(f), 1.5, radius=0).findings[0].kind == "nan"


# ---------------------------------------------------------------------------------- zeros


def rounded(x):
    y = np.sin(x)
    return np.sum(np.round(y) + 1.0)  # here


def integers(x):
    n = x.astype(int)  # here
    return np.sum(n * 2.0)


def stopped(x):
    y = lax.stop_gradient(x)  # here
    return np.sum(y * y)


def signed(x):
    return np.sum(np.sign(x) * 2.0)  # here


def compared(x):
    inside = x > 0.7  # here
    return np.mean(inside * 1.0)


def chosen(x):
    best = np.argmax(x)  # here
    return np.array([1.0, 2.0, 3.0])[best]


def by_python(x):
    if x[0] > 0:  # here
        return 2.0
    return 1.0


def by_a_loop(x):
    return lax.while_loop(
        lambda c: c[1] < x[2],  # here
        lambda c: (c[0] + 1.0, c[1] + 0.25),
        (0.0, 0.0),
    )[0]


@jit
def by_a_branch(x):
    small = x[0] < 1.0  # here
    return lax.cond(small, lambda: 1.0, lambda: 2.0)


def in_a_rule(x):
    @ftrace.custom_jvp
    def step(v):
        return np.floor(v)

    step.defjvp(lambda p, t: (step(*p), 0.0 * t[0]))
    return np.sum(np.floor(step(x) + x))  # here


@pytest.mark.parametrize(
    "fun",
    [
        rounded,
        integers,
        stopped,
        signed,
        compared,
        chosen,
        by_python,
        by_a_loop,
        by_a_branch,
        in_a_rule,
    ],
)
def test_the_line_that_cuts_a_derivative_off_is_named(fun):
    found = [f for f in blame(fun, V, radius=0).findings if f.file]
    assert {(f.kind, f.line) for f in found} == {("zero", marked(fun))}
    assert "the derivative with respect to x is exactly zero" in found[0].what
    assert not np.any(grad(fun)(V))


def test_an_input_that_nothing_is_computed_from_is_blamed_on_the_function():
    def f(x, unused):
        return x * 2.0

    (found,) = blame(f, 1.0, V).findings
    assert found.kind == "zero"
    assert found.line == f.__code__.co_firstlineno
    assert "with respect to unused is exactly zero: no result is computed from it" in found.what


def test_a_function_of_integers_has_no_derivative():
    def f(n):
        return n * 2.0

    (found,) = blame(f, 3).findings
    assert found.line == f.__code__.co_firstlineno
    assert found.what == (
        "the derivative of result is exactly zero: it is computed from no float input."
    )


def test_a_result_that_no_input_reaches_is_named_beside_one_that_is_reached():
    def f(x):
        return {"loss": x * x, "steps": np.floor(x) * 1.0}

    (found,) = blame(f, 1.5).findings
    assert found.line == f.__code__.co_firstlineno + 1
    assert "the derivative of result['steps'] is exactly zero: floor is constant" in found.what


def test_inputs_that_end_in_each_other_s_cuts_have_each_their_own():
    def f(x, z):
        y = np.floor(z)
        return np.round(x + y)

    found = blame(f, 1.2, 3.4).findings
    first = f.__code__.co_firstlineno
    assert [(f.kind, f.line) for f in found] == [("zero", first + 2), ("zero", first + 1)]
    assert "with respect to x" in found[0].what
    assert "with respect to z" in found[1].what


def test_what_others_lead_past_is_no_zero():
    assert not blame(lambda x: x + lax.stop_gradient(np.round(x) - x), 1.2)
    assert not blame(lambda x: (x * 2.0, np.argmax(x)), V)


# ---------------------------------------------------------------------------------- jumps


def landing(vx, vy, dt, g=9.8):
    """The projectile of the pqR paper without its interpolation."""
    x = y = 0.0
    while True:
        x = x + vx * dt
        y = y + vy * dt
        if y < 0:  # here
            return x
        vy = vy - g * dt


def landing_interpolated(vx, vy, dt, g=9.8):
    x = y = 0.0
    while True:
        last_x, last_y = x, y
        x = x + vx * dt
        y = y + vy * dt
        if y < 0:
            return (x * last_y - last_x * y) / (last_y - y)
        vy = vy - g * dt


def staged_landing(angle, dt=0.002):
    def flies(c):
        return c[1] >= 0  # here

    def step(c):
        x, y, vy = c
        return x + np.cos(angle) * dt, y + vy * dt, vy - 9.8 * dt

    return lax.while_loop(flies, step, (0.0, 0.0, np.sin(angle)))[0]


def test_the_projectile_without_interpolation_is_blamed_on_its_decision():
    dt = 0.001
    zero, jump = blame(lambda vx, vy: landing(vx, vy, dt), 0.7, 0.7, radius=0.01).findings
    assert (zero.kind, zero.line) == ("zero", marked(landing))
    assert "with respect to vy is exactly zero" in zero.what
    assert (jump.kind, jump.line) == ("jump", marked(landing))
    assert "where vy is" in jump.what
    (jump,) = blame(lambda a: landing(np.cos(a), np.sin(a), dt), 0.7, radius=0.01).findings
    assert (jump.kind, jump.line) == ("jump", marked(landing))


@pytest.mark.slow
def test_the_projectile_of_the_paper_is_blamed_with_its_own_step():
    (jump,) = blame(lambda a: landing(np.cos(a), np.sin(a), 0.0001), 0.7).findings
    assert (jump.kind, jump.line) == ("jump", marked(landing))


def test_a_staged_projectile_says_the_turn():
    (jump,) = blame(jit(staged_landing), 0.7, radius=0.01).findings
    turns = int(2 * np.sin(0.7) / 9.8 / 0.002)
    assert (jump.kind, jump.line) == ("jump", marked(staged_landing))
    assert jump.path in [(f"turn {turns + k} of while",) for k in range(4)]


def test_the_projectile_with_interpolation_has_no_jump_of_its_value():
    f = lambda a: landing_interpolated(np.cos(a), np.sin(a), 0.002)  # noqa: E731
    assert "jump" not in [f.kind for f in blame(f, 0.7, radius=0.01).findings]


# function, point close to a break, point far from any
JUMPS = [
    (lambda x: np.floor(x) + x, 2.0005, 2.3),
    (lambda x: np.sum(np.where(x > 1, x, 0.0)), np.array([0.2, 0.9999]), np.array([1.2, 0.7])),
    (lambda x: x - np.trunc(x), 2.9995, 2.5),
    (lambda x: x % 1.0, 4.0, 4.1),
    (lambda x: np.sign(x) + x, 0.0, 1.0),
    (
        lambda x: lax.cond(x > 1, lambda v: v + 1, lambda v: v, x),
        np.float32(1.0001),
        np.float32(1.01),
    ),
    (lambda x: x[np.argmax(x)] + np.argmax(x), np.array([1.0, 0.9999]), np.array([1.0, 0.9])),
    (lambda x: x + 1.0 if x < 3 else x, 3.0005, 2.9),
    (lambda x: x + (x * 10).astype(int), 0.30001, 0.35),
    (lambda x: x + 0.1 * np.round(x), 2.4999, 2.4),
    (lambda x: x + np.heaviside(x, 0.5), 0.0, -1.0),
    (lambda x: np.copysign(2.0, x) + x, 0.0, 1.0),
]
KINKS = [
    (lambda x: np.abs(x), 0.0, 1.0),
    (lambda x: np.sum(np.abs(x)), np.array([3.0, 1e-5, 2.0]), np.array([3.0, 0.1, 2.0])),
    (lambda x: np.maximum(x, 1.0), 1.0005, 1.1),
    (lambda x: np.clip(x, 0.0, 1.0), 0.9999, 0.9),
    (lambda x: lax.clamp(0.0, x, 1.0) + 0.1 * x, 0.9999, 0.9),
    (lambda x: lax.clamp(x, 0.5, 1.0) + 0.1 * x, 0.5001, 0.4),
    (lambda x: np.max(x) + np.min(x), np.array([1.0, 2.0, 1.9999]), np.array([1.0, 2.0, 1.9])),
    (lambda x: np.sort(x)[0], np.array([1.0, 1.0001]), np.array([1.0, 1.1])),
    (lambda x: np.maximum.accumulate(x), np.array([1.0, 1.0001]), np.array([1.0, 1.1])),
    (lambda x: np.sum(np.where(x > 0, x, 0.1 * x)), np.array([1.0, 0.0]), np.array([1.0, -0.1])),
    (lambda x: jit(lambda v: np.maximum(v, 0.0) ** 2.0 + abs(v))(x - 1.0), 0.9999, 0.9),
]


BREAKS = [("jump", *case) for case in JUMPS] + [("kink", *case) for case in KINKS]


@pytest.mark.parametrize(("kind", "fun", "near", "far"), BREAKS)
def test_a_decision_that_falls_otherwise_close_by_is_found(kind, fun, near, far):
    report = blame(fun, near)
    assert {f.kind for f in report.findings} == {kind}, report
    lines, first = inspect.getsourcelines(fun)
    assert first <= report.findings[0].line < first + len(lines)
    of = "value" if kind == "jump" else "derivative"
    assert f"the {of} jumps from" in str(report)
    assert not blame(fun, far), far


def test_a_kink_in_the_derivative_by_another_input_is_found():
    zero, kink = blame(lambda x, y: np.where(x > 0, y, -y), 0.0, 0.0).findings
    assert (zero.kind, kink.kind) == ("zero", "kink")
    assert "where x is" in kink.what


def test_a_break_says_where_it_is_and_what_happens_there():
    (found,) = blame(lambda x: x + (x > 2.0) * 0.5, 2.0 - 2e-4).findings
    assert found.values == (1.9998, 2.0)
    assert "the value jumps from 2 to 2.5 where x is 2.0000000" in found.what
    assert "0.0001 away (relative): gt of 1.9998, 2 decides otherwise there." in found.what


def test_a_vectorized_function_is_opened():
    @ftrace.vectorize
    def f(x, y):
        return lax.cond(x > y, lambda: np.sqrt(x - y), lambda: x + 0.5)

    assert not blame(f, np.array([3.0, 1.0]), np.array([1.0, 2.0]))
    (found,) = blame(f, np.array([3.0, 1.0]), np.array([1.0, 1.0001])).findings
    assert (found.kind, found.line) == ("jump", inspect.unwrap(f).__code__.co_firstlineno + 2)


# ---------------------------------------------------------------------------------- every row


WITH_RULES = [row for row in cases.ROWS if type(row.jvp) is not Unsupported]


@pytest.mark.parametrize("row", WITH_RULES, ids=lambda row: row.name)
def test_every_row_is_blamed_where_it_or_its_gradient_is_not_finite(row):
    for sample in itertools.islice(row.samples(), 4):
        case = cases.Case(row, sample)
        report = blame(case.flat, *case.args, radius=0)
        ys, pull = ftrace.vjp(case.flat, *case.args)
        cts = [np.ones(y.shape, y.dtype) if is_inexact(typeof(y).dtype) else None for y in ys]
        gradients = [ct for ct in pull(cts) if ct is not None]
        finite = all(np.isfinite(y).all() for y in (*ys, *gradients))
        found = [f for f in report.findings if f.kind in ("nan", "inf")]
        if all(np.isfinite(x).all() for x in case.args):
            assert finite == (not found)
            assert {f.file for f in found} <= {cases.__file__}


# ---------------------------------------------------------------------------------- arguments


def test_blame_does_not_change_arguments_and_leaves_no_trace():
    x = V.copy()

    def f(v):
        w = v.copy()
        w[0] = 3.0
        return np.sum(np.log(w))

    assert not blame(f, x)
    assert np.array_equal(x, V)


def test_writes_mean_what_they_mean_in_a_gradient():
    def f(x):
        w = x * 1.0
        v = jit(lambda t: t)(w)
        v[0] = -1.0
        return np.sum(np.log(w))

    assert not blame(f, V)

    def g(x):
        x[0] = 1.0
        return x

    with pytest.raises(errors.MutationError, match="`x` is an argument"):
        blame(g, V.copy())


def test_a_traced_argument_is_refused():
    with pytest.raises(errors.ConcretizationTypeError, match="its argument x is a traced value"):
        grad(lambda x: blame(lambda x: x, x) or x)(1.0)
    with pytest.raises(errors.ConcretizationTypeError, match="not grad of blame"):
        jit(lambda x: blame(lambda x: x, x) or x)(1.0)


@pytest.mark.parametrize("around", [grad, jit, lambda f: lambda x: blame(f, x)])
@pytest.mark.parametrize(
    "inner",
    [
        lambda y: lambda x: x * y,
        lambda y: lambda x: y,
        lambda y: lambda x: lax.cond(y, lambda: x, lambda: -x),
        lambda y: lambda x: jit(lambda z: z)(y),
        lambda y: lambda x: ftrace.vectorize(lambda z: z * 2.0)(y),
    ],
)
def test_a_captured_value_that_is_traced_is_refused(around, inner):
    def f(x):
        return blame(inner(x), 1.0, radius=0) or x

    with pytest.raises(errors.ConcretizationTypeError, match="not grad of blame"):
        around(f)(1.0)


@pytest.mark.parametrize("radius", [-1.0, np.inf, np.nan, "far"])
def test_a_radius_that_is_none_is_refused(radius):
    with pytest.raises(errors.DtypeError, match="must be a finite number from 0 on"):
        blame(lambda x: x, 1.0, radius=radius)


def test_what_is_no_function_or_array_is_refused():
    with pytest.raises(errors.DtypeError, match=r"debug\.blame takes a function first"):
        blame(3.0, 1.0)
    with pytest.raises(errors.DtypeError, match="x of f"):
        blame(_named_f, "text")


def _named_f(x):
    return x


_named_f.__name__ = "f"
