"""Loops, mutation and closures whose gradients are silently wrong in other systems, or refused.

Reverse mode through loops that run as long as values say, arrays that are overwritten while a
loop needs their old content, variables that a branch overwrites, counters, aliases, and closures
over values of an outer derivative. The answers are those of forward mode on the plain program.
"""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, hessian, jacfwd, jit, lax, vmap

X = 2.03


def newton(x):
    """sqrt(x): the number of turns depends on x."""
    step = lambda z: z - (z * z - x) / (2.0 * z)  # noqa: E731
    return lax.while_loop(lambda z: np.abs(z * z - x) > 1e-14 * x, step, x * 1.0)


def power_of_power(x):
    """(x**3)**2 in two loops whose bounds are values."""
    three = lax.stop_gradient(fnp.floor(x) + 1.0).astype(np.int64)
    cube = lax.fori_loop(0, three, lambda i, p: p * x, 1.0)
    return lax.fori_loop(0, three - 1, lambda i, p: p * cube, 1.0)


def overwritten_element(x):
    """Every turn needs what the element held before it was overwritten."""
    y = fnp.zeros(2)
    y[0] = x
    for _ in range(4):
        y[1] = y[0] * y[0]
        y[0] = np.sin(y[1]) + x * y[0]
    return y[0] * y[1]


def overwritten_in_a_loop(x):
    """The same in a compiled loop, the array a carry."""

    def body(c):
        i, y = c
        y = y.copy()
        y[1] = y[0] * y[0]
        y[0] = np.sin(y[1]) + x * y[0]
        return i + 1, y

    y = lax.while_loop(lambda c: c[0] < 4, body, (0, fnp.array([x, 0.0])))[1]
    return y[0] * y[1]


def overwritten_plain(x):
    a, b = x, 0.0
    for _ in range(4):
        b = a * a
        a = np.sin(b) + x * a
    return a * b


def branch_overwrites(x):
    """A variable that a branch in a loop overwrites, or not."""

    def body(i, c):
        return lax.cond(c > 3.0, lambda c: c / x, lambda c: c * c + x, c)

    return lax.fori_loop(0, 5, body, x)


def branch_overwrites_plain(x):
    c = x
    for _ in range(5):
        c = c / x if c > 3.0 else c * c + x
    return c


def early_exit(x):
    """A flag ends the loop; later turns must not count."""

    def body(c):
        i, y, _ = c
        y = y * x + i
        return i + 1, y, y > 20.0

    return lax.while_loop(lambda c: ~c[2], body, (0, x, np.bool_(False)))[1]


def early_exit_plain(x):
    i, y = 0, x
    while True:
        y = y * x + i
        i += 1
        if y > 20.0:
            return y


def swapped(x):
    """Carries change places in each turn."""
    a, b, _ = lax.while_loop(
        lambda c: c[2] < 5, lambda c: (c[1], c[0] + c[1] * x, c[2] + 1), (x, 1.0, 0)
    )
    return a * b


def swapped_plain(x):
    a, b = x, 1.0
    for _ in range(5):
        a, b = b, a + b * x
    return a * b


def swapped_elements(x):
    """Elements of an array change places in place."""
    y = fnp.array([x, x * x, 1.0])
    for _ in range(3):
        t = y[0] * 1.0
        y[0] = y[1] * y[2]
        y[1] = t + y[2]
        y[2] = t * x
    return np.sum(y * np.array([1.0, 2.0, 3.0]))


def swapped_elements_plain(x):
    a, b, c = x, x * x, 1.0
    for _ in range(3):
        a, b, c = b * c, a + c, a * x
    return a + 2.0 * b + 3.0 * c


def counter_as_value(x):
    """A float counter that the body multiplies by."""
    return lax.while_loop(lambda c: c[0] < 4.5, lambda c: (c[0] + 1.0, c[1] * c[0] * x), (1.0, x))[
        1
    ]


def nested_dynamic(x):
    """A loop in a loop, each as long as its value says."""

    def outer(c):
        i, y = c
        inner = lax.while_loop(lambda z: z < 8.0 + i, lambda z: z * x + 0.5, y)
        return i + 1, inner / x**2

    return lax.while_loop(lambda c: c[0] < 3, outer, (0, x))[1]


def nested_dynamic_plain(x):
    y = x
    for i in range(3):
        z = y
        while z < 8.0 + i:
            z = z * x + 0.5
        y = z / x**2
    return y


def alias_written(x):
    """Writes through views, while the base is read in between."""
    base = fnp.array([x, 2.0 * x, 3.0 * x])
    tail = base[1:]
    tail *= base[0]
    first = base[:2]
    first += tail[1]
    return np.sum(base * np.array([1.0, 2.0, 3.0]))


def alias_written_plain(x):
    a, b, c = x, 2.0 * x * x, 3.0 * x * x
    return (a + c) + 2.0 * (b + c) + 3.0 * c


def scaled_after_use(x):
    """An array is scaled in place after something was computed from it."""
    y = fnp.array([x, x * x])
    z = np.sin(y)
    y *= z
    z += y
    return np.sum(y * z)


def scaled_after_use_plain(x):
    total = 0.0
    for v in (x, x * x):
        y = v * np.sin(v)
        total = total + y * (np.sin(v) + y)
    return total


def closure_over_the_outer_value(x):
    """d/dx of x d/dy (x + y) at y = 1 is 1; perturbation confusion gives 2."""
    return x * grad(lambda y: x + y)(1.0)


def derivative_of_a_captured_product(x):
    return grad(lambda y: y * np.sin(x * y))(3.0 * x)


def derivative_of_a_captured_product_plain(x):
    y = 3.0 * x
    return np.sin(x * y) + y * x * np.cos(x * y)


def derivative_in_a_loop(x):
    """The body takes a derivative, and closes over the outer value."""
    body = lambda i, c: c + grad(lambda y: np.sin(x * y) * c)(c)  # noqa: E731
    return lax.fori_loop(0, 3, body, 0.3 * x)


def derivative_in_a_loop_plain(x):
    c = 0.3 * x
    for _ in range(3):
        c = c + x * np.cos(x * c) * c
    return c


def mapped_closure(x):
    """A mapped function closes over an outer value; the inner derivative does too."""
    inner = lambda y: grad(lambda z: z * z * x + y * z)(y * x)  # noqa: E731
    return np.sum(vmap(inner)(np.array([1.0, 2.0])) * np.array([1.0, -3.0]))


def mapped_closure_plain(x):
    value = lambda y: 2.0 * (y * x) * x + y  # noqa: E731
    return value(1.0) - 3.0 * value(2.0)


def captured_cell_in_a_scan(x):
    """A scan over an array filled in place, its body closing over it."""
    ts = fnp.zeros(3)
    for k in range(3):
        ts[k] = x ** (k + 1)
    c, ys = lax.scan(lambda c, t: (c * t + ts[0], c), x, ts)
    return c + np.sum(ys * ts)


def captured_cell_in_a_scan_plain(x):
    c, total = x, 0.0
    for k in range(3):
        t = x ** (k + 1)
        c, total = c * t + x, total + c * t
    return c + total


def no_turn(x):
    """A loop that is not entered passes its start through."""
    return lax.while_loop(lambda y: y > 100.0, lambda y: y * 0.0, x * x)


def accumulated_list(x):
    """A Python list collects values of a native loop."""
    values = [x]
    while values[-1] < 30.0:
        values.append(values[-1] * x + 1.0)
    return sum(v * k for k, v in enumerate(values))


def product_prefix(x):
    """A running product written into the array that it reads."""
    y = fnp.array([x, x + 1.0, x * x, 3.0])
    for k in range(1, 4):
        y[k] *= y[k - 1]
    return np.sum(y * np.array([1.0, -1.0, 2.0, 0.5]))


def product_prefix_plain(x):
    parts = [x, x + 1.0, x * x, 3.0]
    for k in range(1, 4):
        parts[k] = parts[k] * parts[k - 1]
    return parts[0] - parts[1] + 2.0 * parts[2] + 0.5 * parts[3]


PROGRAMS = {
    newton: np.sqrt,
    power_of_power: lambda x: x**6,
    overwritten_element: overwritten_plain,
    overwritten_in_a_loop: overwritten_plain,
    branch_overwrites: branch_overwrites_plain,
    early_exit: early_exit_plain,
    swapped: swapped_plain,
    swapped_elements: swapped_elements_plain,
    counter_as_value: lambda x: 24.0 * x**5,
    nested_dynamic: nested_dynamic_plain,
    alias_written: alias_written_plain,
    scaled_after_use: scaled_after_use_plain,
    closure_over_the_outer_value: lambda x: x * 1.0,
    derivative_of_a_captured_product: derivative_of_a_captured_product_plain,
    derivative_in_a_loop: derivative_in_a_loop_plain,
    mapped_closure: mapped_closure_plain,
    captured_cell_in_a_scan: captured_cell_in_a_scan_plain,
    no_turn: lambda x: x * x,
    accumulated_list: accumulated_list,
    product_prefix: product_prefix_plain,
}
NATIVE = {accumulated_list}  # Python decides by the value: only where it is known


def along(f):
    """The derivative of a plain function: forward mode, without loops, cells or closures."""
    return lambda x: ftrace.jvp(f, (x,), (1.0,))[1]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_derivatives_are_those_of_the_formula(f):
    plain = PROGRAMS[f]
    first, second = along(plain)(X), along(along(plain))(X)
    np.testing.assert_allclose(f(X), plain(X), rtol=1e-13)
    np.testing.assert_allclose(grad(f)(X), first, rtol=1e-11)
    np.testing.assert_allclose(ftrace.jvp(f, (X,), (1.0,))[1], grad(f)(X), rtol=1e-12)
    np.testing.assert_allclose(hessian(f)(X), second, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(grad(grad(f))(X), hessian(f)(X), rtol=1e-11, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("f", [f for f in PROGRAMS if f not in NATIVE], ids=lambda f: f.__name__)
def test_compiled_and_mapped_they_are_the_same(f):
    expected = grad(f)(X)
    np.testing.assert_allclose(jit(f)(X), f(X), rtol=1e-12)
    np.testing.assert_allclose(jit(grad(f))(X), expected, rtol=1e-11)
    np.testing.assert_allclose(grad(jit(f))(X), expected, rtol=1e-11)
    xs = np.array([X, 2.1, 1.7])
    each = np.array([grad(f)(x) for x in xs])
    np.testing.assert_allclose(vmap(grad(f))(xs), each, rtol=1e-10)
    np.testing.assert_allclose(jit(vmap(grad(f)))(xs), each, rtol=1e-10)
    np.testing.assert_allclose(jacfwd(vmap(f))(xs), np.diag(each), rtol=1e-10, atol=1e-12)


def test_two_gradients_that_a_system_for_kernels_gets_wrong():
    np.testing.assert_allclose(grad(newton)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-14)
    np.testing.assert_allclose(grad(power_of_power)(2.0), 192.0, rtol=1e-14)
