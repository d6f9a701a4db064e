"""A number that traced values choose may be of Python or of NumPy: division by zero, dtypes, types.

Python raises ZeroDivisionError where both operands are its own numbers, and NumPy does not.
"""

import numpy as np
import pytest

from ftrace import jit, jvp, make_jaxpr, vectorize, vmap
from ftrace.errors import LiftError


def jvp_value(f):
    return lambda x: jvp(f, (x,), (1.0,))[0]


POINTS = [(2.0, 3.0), (-0.5, 0.0), (0.5, 0.0), (-3.0, 2.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]


def an_arm(x, y):
    d = x if x > 0 else 0
    try:
        return 1 / d
    except ZeroDivisionError:
        return -7.0


def a_statement(x, y):
    d = 0
    if x > 0:
        d = y
    try:
        return 2.0 // d
    except ZeroDivisionError:
        return -7.0


def two_decisions(x, y):
    if x > 0:
        d = y
    elif x > -1:
        d = 0
    else:
        d = 2.0
    try:
        return 1 / (2 * d)
    except ZeroDivisionError:
        return -7.0


def nested_expressions(x, y):
    d = x if x > 0 else (y if y > 1 else 0)
    try:
        return 5 % d
    except ZeroDivisionError:
        return -7.0


def the_larger(x, y):
    try:
        return 3 / max(x, 0)
    except ZeroDivisionError:
        return -7.0


def a_difference(x, y):
    d = 1.0
    if x > 1:
        d = x
    try:
        return 1 / (d - 1)
    except ZeroDivisionError:
        return 100.0


def a_negative_one(x, y):
    d = -(0 if x > 0 else y)
    try:
        return divmod(7.0, d)[0] + 1.0
    except ZeroDivisionError:
        return -7.0


def powers(x, y):
    d = 0 if x > 0 else y
    try:
        return d**-1 if y < 50 else d**-2.0
    except ZeroDivisionError:
        return -7.0


def in_place(x, y):
    d = 0 if x > 0 else y
    try:
        d /= 0 if y > 0 else 1
    except ZeroDivisionError:
        return -7.0
    return d


def a_helper(x, y):
    d = 0 if x > 0 else y
    try:
        return _half(d)
    except ZeroDivisionError:
        return _half(d + 1)


def _half(d):
    return 2.0 / d


def an_item(x, y):
    d = [0, x, y][int(y) % 3]
    try:
        return 1 / d
    except ZeroDivisionError:
        return -7.0


def an_absolute_value(x, y):
    d = abs(0 if x > 0 else y)
    for _ in range(3):
        d = d * 2
    try:
        return 1 / d
    except ZeroDivisionError:
        return -7.0


def an_outer_number(x, y):
    d = 0 if y > 0 else y
    e = d if x > 0 else (1.0 if y > 1 else d)
    try:
        return 1 / e
    except ZeroDivisionError:
        return -7.0


def a_number_of_python(x, y):
    q = 0 if x > 0 else 1
    try:
        return 1 / q
    except ZeroDivisionError:
        return -7.0


def never_zero(x, y):
    d = x if x > 1 else 1.0
    return 1 / d


def of_numpy(x, y):
    d = x if x > 1 else 0
    return y / d


def two_choices(x, y):
    n = 1 if y > 1 else x
    d = 0 if x > 0 else y - 2
    try:
        return n / d
    except ZeroDivisionError:
        return -7.0


def mixed_in_a_loop(x, y):
    d, n = 1.0, 0
    while n < 2:
        d = x if y > 1 else 4.0
        n = n + 1
    return 1 / d if d != 0 else y


def carried_through_a_loop(x, y):
    d, n = (0 if x > 0 else y), 0
    while n < 2 and x < 5:
        n = n + 1
    try:
        return (n + 1) / d
    except ZeroDivisionError:
        return -7.0


PROGRAMS = [
    *(an_arm, a_statement, two_decisions, nested_expressions, the_larger, a_difference),
    *(a_negative_one, powers, in_place, a_helper, an_item, an_absolute_value, an_outer_number),
    *(a_number_of_python, never_zero, of_numpy, two_choices, mixed_in_a_loop),
    carried_through_a_loop,
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrap", [vmap, vectorize, lambda f: jit(vmap(f))])
@pytest.mark.parametrize("program", PROGRAMS)
def test_zero_is_an_error_where_both_operands_are_pythons(program, wrap):
    xs, ys = np.array(POINTS).T
    wanted = [program(x, y) for x, y in zip(xs, ys, strict=True)]
    np.testing.assert_array_equal(wrap(program)(xs, ys), wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_so_in_single_calls(program):
    compiled = jit(program)
    for x, y in np.array(POINTS):
        np.testing.assert_array_equal(compiled(x, y), program(x, y))


def by_a_known_zero(x):
    n = 1
    try:
        a = x / (n - 1)
    except ZeroDivisionError:
        a = x % 2
    return a


def in_a_loop(x):
    a = 0.0
    for e in (1, 2.0):
        try:
            a = 1.0
            a = divmod(x, 0)[0]
        except ZeroDivisionError:
            a = a + e
    return a + x


@pytest.mark.parametrize("program", [by_a_known_zero, in_a_loop])
@pytest.mark.parametrize("wrap", [jit, jvp_value, lambda f: jit(jvp_value(f))])
def test_a_known_zero_is_an_error_at_once(program, wrap):
    assert wrap(program)(-0.75) == program(-0.75)


def test_an_error_that_nobody_catches_comes_back():
    def f(x):
        return 1 / (x if x > 0 else 0)

    with pytest.raises(ZeroDivisionError, match="division by zero"):
        jit(f)(np.float64(-1.0))
    with pytest.raises(ZeroDivisionError):
        vmap(f)(np.array([1.0, -1.0]))
    assert jit(f)(np.float64(2.0)) == 0.5


def test_behind_a_loop_that_mixes_classes_zero_is_refused_where_it_may_be_caught():
    def f(x):
        s = 0.0
        while x > 1:
            s = s + x
            x = x - 1
        try:
            return 1 / s
        except ZeroDivisionError:
            return -1.0

    assert jit(f)(np.float64(2.0)) == 0.5
    with pytest.raises(LiftError, match="behind a loop"):
        jit(f)(np.float64(0.5))


def test_a_number_that_a_loop_binds_first_is_of_either_class():
    def f(x, y):
        while True:
            d = x if y > 1 else 0
            x = x - 2
            if x < 1:
                break
        try:
            return 1 / d
        except ZeroDivisionError:
            return -1.0

    assert jit(f)(np.float64(4.0), np.float64(2.0)) == f(4.0, 2.0) == 0.5
    with pytest.raises(LiftError, match="behind a loop"):
        jit(f)(np.float64(4.0), np.float64(0.5))


def chosen_factor(x):
    q = 0.5 if x > 0 else 1.5
    return x * q


def counted(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    return x * n


def returned(x):
    return jit(lambda t: 2.0 if t > 0 else 3.0)(x) * x


def bisected(x):
    low, high = 0.0, 4.0
    for _ in range(8):
        middle = (low + high) / 2
        if middle * middle > abs(x):
            high = middle
        else:
            low = middle
    return low * x


def item_of_a_list(x):
    n = 1
    if x > 0:
        n = 2
    return [x, 0, x * 2][n] * x


def sorted_items(x):
    return sorted([x, 1, x * 2])[1] * x


@pytest.mark.parametrize("wrap", [jit, vmap, vectorize, lambda f: jit(vmap(f))])
@pytest.mark.parametrize(
    "program", [chosen_factor, counted, returned, bisected, item_of_a_list, sorted_items]
)
def test_a_chosen_number_of_python_leaves_float32_as_it_is(program, wrap):
    xs = np.array([2.0, -2.0, 5.0], np.float32)
    if wrap is jit:
        found = np.array([jit(program)(x) for x in xs])
    else:
        found = wrap(program)(xs)
    wanted = np.array([program(x) for x in xs])
    assert found.dtype == wanted.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("wrap", [jit, vmap, vectorize])
def test_a_chosen_number_of_python_is_one_for_isinstance(wrap):
    def f(x):
        q = 1 if x > 0 else 2
        return x * 10.0 if isinstance(q, int) else x

    assert wrap(f)(np.array([3.0]) if wrap is not jit else np.float64(3.0)) == 30.0


@pytest.mark.parametrize("held", [{"v": 0}, [0]])
@pytest.mark.parametrize("wrap", [jit, vmap])
def test_an_int_in_a_container_is_replaced_by_a_traced_value(held, wrap):
    key = "v" if isinstance(held, dict) else 0

    def f(x):
        d = held.copy()
        if x > 0:
            d[key] = x
        return d[key] * 2.0

    xs = np.array([3.0, -3.0])
    found = vmap(f)(xs) if wrap is vmap else [jit(f)(x) for x in xs]
    np.testing.assert_array_equal(found, [6.0, 0.0])


def test_a_number_that_is_kept_changes_nothing_for_others():
    kept = []

    def mixed(x):
        kept.append(x if x > 0 else 0)
        return x

    def halved(x):
        return x / 2 + 2 * x + x * x

    before = str(make_jaxpr(halved)(np.float64(1.0)))
    make_jaxpr(mixed)(np.float64(1.0))
    assert str(make_jaxpr(halved)(np.float64(1.0))) == before


@pytest.mark.parametrize("wrap", [jit, vmap])
def test_the_larger_of_two_scalars_is_a_scalar(wrap):
    def f(x, y):
        m = max(x, y)
        return x * isinstance(m, np.ndarray), y * isinstance(min(m, y), np.float64)

    args = (1.0, 2.0) if wrap is jit else ([1.0], [2.0])
    found = wrap(f)(*map(np.float64, args))
    assert np.all(found[0] == 0)
    assert np.all(found[1] == 2)


def best_scalar(x, a):
    best = x[0]
    for v in x:
        if v > 0:
            best = max(best, v)
    return best


def best_row(x, a):
    best = a[0]
    for v, row in zip(x, a, strict=True):
        if v > 0:
            best = row if v > 1 else best
    return best


@pytest.mark.parametrize("program", [best_scalar, best_row])
def test_choices_in_choices_grow_with_their_number_alone(program):
    def size(n):
        return len(str(make_jaxpr(program)(np.ones(n), np.ones((n, 3)))))

    few, more, most = map(size, (4, 8, 12))
    assert most - more < 1.6 * (more - few)
    x, a = np.array([0.5, -1.0, 2.0, 1.5]), np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(jit(program)(x, a), program(x, a))


def test_a_write_reaches_what_choices_in_choices_show():
    def f(x, a):
        b = a * 1.0
        best = b[0]
        for i in range(4):
            if x[i] > 0:
                best = b[i] if x[i] > 1 else best
        best[1] = 100.0
        return b

    a = np.arange(12.0).reshape(4, 3)
    for x in ([0.5, -1.0, 2.0, 1.5], [0.5, 0.5, -1.0, 0.5], [2.0, 0.5, 0.5, -1.0], [-1.0] * 4):
        np.testing.assert_array_equal(jit(f)(np.array(x), a), f(np.array(x), a))


def winding(x, steps):
    y = total = 0.0
    for _ in range(steps):
        total += y
        u = x[0] + total
        if u > 2:  # of NumPy's class on one path, of Python's on the other
            u = 2.0
            total -= y
        y += u + y
    return y


def test_each_step_with_a_number_of_two_classes_adds_as_much():
    x = np.array([0.01])
    sizes = [len(make_jaxpr(winding, static_argnums=1)(x, n).eqns) for n in (10, 20, 30, 40)]
    assert len(set(np.diff(sizes))) == 1
    assert jit(winding, static_argnums=1)(x, 12) == winding(x, 12)
