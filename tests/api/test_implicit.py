"""`ftrace.implicit`: SciPy's solvers, their derivatives against formulas and differences."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, implicit, lax
from tests.api.ways import GRADIENTS, HESSIANS, differences

P = np.array([1.7, 0.6])
W = np.array([1.0, -2.0])


def close(actual, expected, tol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol)


# ---------------------------------------------------------------------------------- every solver

A0 = np.array([[4.0, 1.0], [1.0, 3.0]])
A1 = np.array([[0.5, -0.2], [-0.2, 0.4]])
TIGHT = {"rtol": 1e-13, "maxiter": 200}


def residual(x, p):
    return [x[0] ** 3 + x[0] * p[1] - p[0] + 0.3 * x[1], 2 * x[1] + p[0] * x[0] - 1.0]


def objective(x, p):
    return (x[0] - p[0]) ** 2 * (1 + x[1] ** 2) + np.exp(x[1] * p[1]) + x[1] ** 2


def system(p):
    """A symmetric positive definite matrix and a right-hand side."""
    return A0 + p[0] * A1 + p[1] ** 2 * np.eye(2), p * W


def csr(p):
    """The same matrix as the arrays of a CSR matrix."""
    matrix = system(p)[0]
    return fnp.reshape(matrix, 4), np.array([0, 1, 0, 1]), np.array([0, 2, 4])


SOLUTIONS = {
    "root": lambda p: implicit.root(residual, [1.0, 0.5], args=(p,), tol=1e-11).x,
    "root with captures": lambda p: (
        implicit.root(lambda x: residual(x, p), [1.0, 0.5], tol=1e-11).x
    ),
    "root by lm": lambda p: implicit.root(residual, [1.0, 0.5], (p,), "lm", tol=1e-11).x,
    "root by krylov": lambda p: implicit.root(residual, [1.0, 0.5], (p,), "krylov", tol=1e-12).x,
    "brentq": lambda p: W * implicit.brentq(lambda x, q: x**3 + q[1] * x - q[0], 0.0, 5.0, (p,)),
    "brentq with captures": lambda p: (
        W * implicit.brentq(lambda x: x**3 + p[1] * x - p[0], 0.0, 5.0)
    ),
    "fixed_point": lambda p: implicit.fixed_point(
        lambda x, q: 0.4 * np.cos(q[0] * x) + 0.3 * q[1] * x[::-1], W, args=(p,), xtol=1e-13
    ),
    "minimize": lambda p: implicit.minimize(objective, [0.0, 0.0], (p,), tol=1e-9).x,
    "minimize with captures": lambda p: (
        implicit.minimize(lambda x: objective(x, p), np.zeros(2), method="Newton-CG", tol=1e-9).x
    ),
    "solve": lambda p: implicit.solve(*system(p)),
    "spsolve": lambda p: implicit.spsolve(csr(p), system(p)[1]),
    "cg": lambda p: implicit.cg(*system(p), **TIGHT)[0],
    "cg of CSR arrays": lambda p: implicit.cg(csr(p), system(p)[1], **TIGHT)[0],
    "gmres of a function": lambda p: implicit.gmres(
        lambda x: system(p)[0] @ x, system(p)[1], **TIGHT
    )[0],
    "bicgstab": lambda p: implicit.bicgstab(*system(p), **TIGHT)[0],
}
LOOSE = {"minimize": 1e-6, "minimize with captures": 1e-7, "root by krylov": 1e-7}


def scalar(name):
    return lambda p: np.sum(W * np.sin(SOLUTIONS[name](p)))


# What SciPy finds without ftrace, to its last digits.
def plainly(name, p):
    if name.startswith("root"):
        return scipy.optimize.root(residual, [1.0, 0.5], args=(p,), tol=1e-14).x
    if name.startswith("brentq"):
        roots = np.roots([1.0, 0.0, p[1], -p[0]])
        return W * roots[np.abs(roots.imag) < 1e-9].real[0]
    if name == "fixed_point":
        x = W
        for _ in range(200):
            x = 0.4 * np.cos(p[0] * x) + 0.3 * p[1] * x[::-1]
        return x
    if name.startswith("minimize"):

        def gradient(x):
            e = np.exp(x[1] * p[1])
            d = x[0] - p[0]
            return [2 * d * (1 + x[1] ** 2), 2 * d**2 * x[1] + p[1] * e + 2 * x[1]]

        return scipy.optimize.root(gradient, [p[0], -0.2], tol=1e-14).x
    return np.linalg.solve(*system(p))


def reference(name):
    return lambda p: np.sum(W * np.sin(plainly(name, p)))


@pytest.mark.parametrize("name", SOLUTIONS)
def test_the_solution_is_found_everywhere(name):
    tol = LOOSE.get(name, 1e-9)
    f = SOLUTIONS[name]
    close(f(P), plainly(name, P), tol)
    close(ftrace.jit(f)(P), plainly(name, P), tol)
    stack = np.stack([P, 1.1 * P, P[::-1]])
    expected = [plainly(name, p) for p in stack]
    close(ftrace.vmap(f)(stack), expected, tol)
    close(ftrace.jit(ftrace.vmap(f))(stack), expected, tol)


@pytest.mark.sampled(3, each="name")
@pytest.mark.slow
@pytest.mark.parametrize("way", GRADIENTS)
@pytest.mark.parametrize("name", SOLUTIONS)
def test_first_derivatives(name, way):
    tol = max(LOOSE.get(name, 0.0), 2e-8)
    close(GRADIENTS[way](scalar(name))(P), differences(reference(name), P), tol)


@pytest.mark.sampled(3, each="name")
@pytest.mark.slow
@pytest.mark.parametrize("way", HESSIANS)
@pytest.mark.parametrize("name", SOLUTIONS)
def test_second_derivatives(name, way):
    expected = differences(ftrace.grad(scalar(name)), P, 1e-4)
    twice = second_differences(reference(name), P)
    close(expected, twice, 1e-4)
    close(HESSIANS[way](scalar(name))(P), expected, 1e-5 if name in LOOSE else 1e-6)


def second_differences(f, x, step=1e-3):
    """The Hessian from values alone."""
    e = step * np.eye(2)
    pairs = [[f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b) for a in e] for b in e]
    return np.array(pairs) / (4 * step**2)


@pytest.mark.parametrize("name", ["root", "minimize", "spsolve", "gmres of a function"])
def test_compiled_programs_call_scipy(name):
    with ftrace.config.update(compile=True):
        tol = max(LOOSE.get(name, 0.0), 2e-8)
        expected = differences(reference(name), P)
        close(ftrace.jit(ftrace.grad(scalar(name)))(P), expected, tol)
        stack = np.stack([P, P + 0.1])
        mapped = ftrace.jit(ftrace.vmap(ftrace.grad(scalar(name))))(stack)
        close(mapped, [differences(reference(name), p) for p in stack], tol)


# ---------------------------------------------------------------------------------- root, brentq


def test_arguments_may_be_containers_and_integers():
    def f(x, params, power):
        return params["a"] * x**power - params["b"]

    def root(params, power):
        return implicit.root(f, np.ones(2), args=(params, power)).x

    params = {"a": np.array([1.0, 2.0]), "b": np.array([8.0, 16.0])}
    close(root(params, 3), [2.0, 2.0])
    jacobian = ftrace.jacrev(root)(params, 3)
    close(jacobian["a"], np.diag([-8 / 12, -8 / 24]))
    close(jacobian["b"], np.diag([1 / 12, 1 / 24]))
    close(ftrace.jit(ftrace.jacfwd(root))(params, 3)["b"], np.diag([1 / 12, 1 / 24]))


def test_an_integer_argument_has_no_part_in_the_derivative():
    """As a float, the power of a negative x would make it NaN."""

    def root(b, power):
        return implicit.root(lambda x, b, n: x**n - b, [-1.0], args=(b, power)).x[0]

    close(ftrace.grad(root)(-8.0, 3), 1 / 12)
    close(ftrace.jit(ftrace.grad(root))(-8.0, 3), 1 / 12)


def test_any_axis_can_be_mapped():
    shifts = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])

    def root(scale, shift):
        return implicit.root(lambda x: scale * x - shift, np.zeros(2), tol=1e-12).x

    scales = np.array([1.0, 2.0, 4.0])
    close(ftrace.vmap(root, (0, 1), 1)(scales, shifts), shifts / scales)
    jacobians = ftrace.vmap(ftrace.jacrev(root, 1), (0, 1))(scales, shifts)
    close(jacobians, [np.eye(2) / c for c in scales])
    matrices = np.stack([M, M.T + 1.0], axis=2)
    solutions = ftrace.vmap(implicit.solve, (2, None))(matrices, B)
    close(solutions, [np.linalg.solve(M, B), np.linalg.solve(M.T + 1.0, B)])


def test_one_argument_needs_no_tuple():
    close(implicit.root(lambda x, a: x**2 - a, [1.0], args=4.0).x, [2.0])


def test_the_starting_point_has_no_derivative():
    def f(x0):
        return implicit.root(lambda x: x**2 - 4.0, x0).x[0]

    assert ftrace.grad(f)(np.array([1.5])).tolist() == [0.0]
    close(f(np.array([-1.5])), -2.0)
    close(implicit.root(lambda x: x**2 - 4.0, 1).x, [2.0])  # an integer starts, too

    def g(a):
        return implicit.brentq(lambda x: x - 1.0, a, 5.0)

    assert ftrace.grad(g)(0.0) == 0.0


def test_a_function_with_a_python_loop_differentiates_eagerly():
    def squareroot(x):
        z = x
        while abs(z * z - x) > 1e-13:
            z = z - (z * z - x) / (2 * z)
        return z

    def f(a):
        return implicit.brentq(lambda x, a: squareroot(x) - a, 1.0, 50.0, args=(a,))

    close(f(3.0), 9.0)
    close(ftrace.grad(f)(3.0), 6.0)
    close(ftrace.grad(ftrace.grad(f))(3.0), 2.0)
    close(ftrace.jit(f)(3.0), 9.0)  # the solver calls it with plain values
    with pytest.raises(errors.TracerBoolConversionError):
        ftrace.jit(ftrace.grad(f), lift=False)(3.0)
    close(ftrace.jit(ftrace.grad(f))(3.0), 6.0)  # lifted


def test_a_python_loop_takes_traced_values_as_arguments_only():
    def f(x):
        while x > 100.0:
            x = x / 2
        return x

    for transform in (ftrace.grad, ftrace.jacfwd):
        with pytest.raises(errors.UnexpectedTracerError, match="closes over") as caught:
            transform(lambda a: implicit.brentq(lambda x: f(x) - a, 1.0, 50.0))(3.0)
        assert "Pass the value as an argument" in caught.value.fix


def test_the_value_beside_the_solution_is_differentiated():
    def best(a):
        return implicit.minimize(lambda x, a: np.sum((x - a) ** 2) + a**3, [0.0], args=(a,)).fun

    close(best(2.0), 8.0)
    close(ftrace.grad(best)(2.0), 12.0)
    close(ftrace.grad(ftrace.grad(best))(2.0), 12.0)
    x, fun = implicit.root(lambda x: x - 2.0, [0.0])
    close([x[0], fun[0]], [2.0, 0.0])


def test_an_empty_batch():
    assert ftrace.vmap(lambda a: implicit.root(lambda x: x - a, np.zeros(2)).x)(
        np.zeros(0)
    ).shape == (
        0,
        2,
    )


def test_solutions_inside_control_flow():
    def root(a):
        return implicit.brentq(lambda x: x**2 - a, 0.0, 10.0)

    def f(a):
        return lax.cond(a > 1.0, root, lambda a: 5.0 * a, a)

    close(ftrace.grad(f)(4.0), 0.25)
    close(ftrace.grad(f)(0.5), 5.0)
    close(ftrace.vmap(ftrace.grad(f))(np.array([4.0, 0.5])), [0.25, 5.0])
    close(ftrace.jit(ftrace.vmap(ftrace.grad(f)))(np.array([4.0, 0.5])), [0.25, 5.0])

    def g(a):
        return lax.while_loop(lambda c: c > 2.0, root, a)

    close(g(100.0), 100.0**0.125)
    close(ftrace.jvp(g, (100.0,), (1.0,))[1], 0.125 * 100.0**-0.875)


def test_members_without_a_solution():
    """Mapped, they are NaN, and those on an untaken side contribute nothing."""

    def root(a):
        return implicit.brentq(lambda x: x**2 - a, 0.0, 10.0)

    assert np.isnan(ftrace.vmap(root)(np.array([4.0, -1.0]))).tolist() == [False, True]

    def total(a, b):
        def f(a):
            return lax.cond(a > 0.0, lambda a: root(a * b), lambda a: a * b, a)

        return ftrace.vmap(f)(a).sum()

    a, b = np.array([4.0, -1.0, 9.0]), 1.0  # sqrt(a b), a b, sqrt(a b)
    close(total(a, b), 4.0)
    for wrap in (lambda f: f, ftrace.jit, ftrace.checkpoint):
        f = wrap(total)
        close(ftrace.grad(f)(a, b), [0.25, 1.0, 1 / 6])
        close(ftrace.grad(f, 1)(a, b), 2.5 - 1.0)
        close(ftrace.jacfwd(f, 1)(a, b), 2.5 - 1.0)
        close(ftrace.hessian(f)(a, b), np.diag([-1 / 32, 0.0, -1 / 108]))


def test_a_solution_of_a_solution():
    def inner(a):
        return implicit.root(lambda x: x**3 - a, [1.0]).x[0]

    def outer(b):
        return implicit.root(lambda a: [inner(a[0]) - b], [1.0]).x[0]  # b³

    close(outer(1.5), 3.375, 1e-7)
    close(ftrace.grad(outer)(1.5), 6.75, 1e-6)
    close(ftrace.grad(ftrace.grad(outer))(1.5), 9.0, 1e-5)


# ---------------------------------------------------------------------------------- minimize

METHODS = {
    None: 1e-6,
    "BFGS": 1e-6,
    "CG": 1e-6,
    "L-BFGS-B": 1e-6,
    "TNC": 1e-6,
    "SLSQP": 1e-5,
    "Newton-CG": 1e-6,
    "trust-exact": 1e-8,
    "trust-ncg": 1e-8,
    "trust-krylov": 1e-8,
    "trust-constr": 1e-5,
    "Nelder-Mead": 1e-4,
    "Powell": 1e-4,
    "COBYLA": 1e-4,
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_derivatives(method):
    def best(p):
        return implicit.minimize(objective, [1.0, 0.0], (p,), method=method, tol=1e-8).x

    tol = 10 * METHODS[method]
    expected = differences(lambda p: plainly("minimize", p), P)
    close(best(P), plainly("minimize", P), tol)
    close(ftrace.jacrev(best)(P), expected, tol)
    close(ftrace.jacfwd(best)(P), expected, tol)


@pytest.mark.parametrize(
    "method", [None, "L-BFGS-B", "TNC", "SLSQP", "trust-constr", "Nelder-Mead"]
)
def test_elements_at_a_bound_move_with_the_bound_only(method):
    q = np.array([[2.0, 0.5, 0.3], [0.5, 3.0, 0.2], [0.3, 0.2, 1.0]])

    def fun(x, a):
        d = x - a
        return d @ q @ d / 2

    def best(a, upper=1.0, lower=-1.0):
        bounds = [(None, None), (None, upper), (lower, None)]
        options = {"maxiter": 3000} if method in ("trust-constr", "Nelder-Mead") else None
        return implicit.minimize(
            fun, np.zeros(3), (a,), method=method, bounds=bounds, tol=1e-9, options=options
        ).x

    a = np.array([0.5, 2.0, -4.0])  # elements 1 and 2 are held
    x = best(a)
    close(x[1:], [1.0, -1.0], 1e-5)
    # element 0 solves q00 d0 + q01 d1 + q02 d2 = 0
    expected = np.zeros((3, 3))
    expected[0] = [1.0, 0.25, 0.15]
    close(ftrace.jacrev(best)(a), expected, 1e-9)
    close(ftrace.jacfwd(best)(a), expected, 1e-9)
    by_bound = ftrace.jacfwd(best, 1)(a, 1.0)
    close(by_bound, [-0.25, 1.0, 0.0], 1e-9)
    close(ftrace.jacfwd(best, 2)(a, 1.0, -1.0), [-0.15, 0.0, 1.0], 1e-9)
    free = np.array([0.5, 0.1, 0.2])
    close(ftrace.jacrev(best)(free), np.eye(3), 1e-9)


def test_bounds_of_scipy_and_their_second_derivatives():
    def best(a):
        bounds = scipy.optimize.Bounds(np.array([-np.inf, 0.5]), np.inf)

        def f(x):
            return (x[0] - a**2 * x[1]) ** 2 + (x[1] - a) ** 2

        return implicit.minimize(f, np.ones(2), bounds=bounds, tol=1e-12).x[0]

    close(best(0.3), 0.045, 1e-6)  # x1 is held at 0.5: x0 = a² / 2
    close(ftrace.grad(best)(0.3), 0.3, 1e-6)
    close(ftrace.grad(ftrace.grad(best))(0.3), 1.0, 1e-5)
    close(ftrace.grad(best)(1.5), 3 * 1.5**2, 1e-5)  # free: x0 = a³
    close(ftrace.vmap(ftrace.grad(best))(np.array([0.3, 1.5])), [0.3, 6.75], 1e-5)
    close(ftrace.jit(ftrace.vmap(ftrace.grad(best)))(np.array([0.3, 1.5])), [0.3, 6.75], 1e-5)


def test_the_solver_gets_the_exact_gradient():
    seen = []

    def fun(x):
        seen.append(type(x) is np.ndarray)
        return np.sum((x - 1.0) ** 4)

    for _ in range(2):  # the second time what was traced is found
        implicit.minimize(fun, np.zeros(20))
    assert seen == [False, True, True]  # its gradient is traced once, the result's value is plain


def test_a_jacobian_is_traced_once_for_each_type_of_argument():
    seen = []

    def fun(x, a):
        seen.append(type(x) is np.ndarray)
        return x**3 - a["a"] + 0.1 * x[::-1]

    def solved(a):
        return implicit.root(fun, np.ones(2), args=({"a": a},), tol=1e-12).x

    for a in (np.array([1.0, 2.0]), np.array([3.0, 8.0])):
        x = solved(a)
        close(x**3 + 0.1 * x[::-1], a)
    assert seen.count(False) == 1
    solved(2.0)  # another type
    assert seen.count(False) == 2
    slope = ftrace.jacrev(solved)(np.array([1.0, 2.0]))
    x = solved(np.array([1.0, 2.0]))
    close(slope, np.linalg.inv(np.diag(3 * x * x) + np.array([[0.0, 0.1], [0.1, 0.0]])))


def test_what_the_traced_jacobian_reads_may_change():
    scale, table = 1.0, np.array([2.0, 3.0])

    def fun(x):
        return scale * x * x - table

    close(implicit.root(fun, np.ones(2)).x, np.sqrt([2.0, 3.0]))
    scale, table[:] = 4.0, 1.0
    close(implicit.root(fun, np.ones(2), tol=1e-13).x, [0.5, 0.5])
    calls = implicit.root(fun, np.full(2, 0.4), method="hybr", options={"maxfev": 8}).x
    close(calls, [0.5, 0.5], 1e-6)  # few steps: with a Jacobian of the old scale it is not there


def test_containers_of_args_are_part_of_what_was_traced():
    def fun(x, a):
        return x * x - (a["b"] if isinstance(a, dict) else 2.0 * a[0])

    close(implicit.root(fun, np.ones(1), args=({"b": 4.0},)).x, [2.0])
    close(implicit.root(fun, np.ones(1), args=([4.0],)).x, [np.sqrt(8.0)])


def test_a_function_that_needs_plain_values_is_differentiated_at_each_x():
    def fun(x):
        y = x * x - 2.0
        return y * 1.0 if y[0] > 0 else y * 3.0

    close(implicit.root(fun, np.ones(1)).x, [np.sqrt(2.0)])
    close(implicit.minimize(lambda x: np.sum(fun(x) ** 2), np.ones(1), tol=1e-12).x, [2**0.5], 1e-5)


# ---------------------------------------------------------------------------------- linear systems

M = np.array([[4.0, 1.0, 0.0], [-0.5, 3.0, 0.7], [0.0, 0.2, 5.0]])
B = np.array([1.0, -2.0, 0.5])
KRYLOV = {"gmres": implicit.gmres, "bicgstab": implicit.bicgstab}
FORMS = {
    "dense": lambda m: m,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "old csr": scipy.sparse.csr_matrix,
    "function": lambda m: lambda x: m @ x,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KRYLOV)
def test_every_form_of_a_matrix(name, form):
    def solve(b):
        return KRYLOV[name](FORMS[form](M), b, rtol=1e-13)[0]

    close(solve(B), np.linalg.solve(M, B))
    close(ftrace.jacrev(solve)(B), np.linalg.inv(M))
    close(ftrace.jit(ftrace.jacfwd(solve))(B), np.linalg.inv(M))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "old csr"])
def test_sparse_matrices_are_factorised(form):
    def solve(b):
        return implicit.spsolve(FORMS[form](M), b)

    close(solve(B), np.linalg.solve(M, B))
    close(ftrace.jacrev(solve)(B), np.linalg.inv(M))

    def symmetric(b):
        return implicit.cg(FORMS[form](M + M.T), b, rtol=1e-13)[0]

    close(ftrace.jacrev(symmetric)(B), np.linalg.inv(M + M.T))


@pytest.mark.parametrize(
    "solve", [implicit.spsolve, lambda A, b: implicit.gmres(A, b, rtol=1e-14)[0]]
)
def test_the_data_of_a_sparse_matrix_has_derivatives(solve):
    c = scipy.sparse.csr_array(M)

    def f(data):
        return np.sum(B * solve((data, c.indices, c.indptr), np.sin(data[:3])))

    rows, columns = c.nonzero()

    def plain(data):
        m = np.zeros((3, 3))
        m[rows, columns] = data
        return B @ np.linalg.solve(m, np.sin(data[:3]))

    close(ftrace.grad(f)(c.data), differences(plain, c.data), 1e-8)
    close(ftrace.jacfwd(f)(c.data), differences(plain, c.data), 1e-8)
    h = ftrace.hessian(f)(c.data)
    close(h, differences(ftrace.grad(f), c.data), 1e-7)
    close(h, h.T)


def test_several_right_hand_sides_and_complex_matrices():
    b = np.stack([B, B[::-1]], axis=1)
    close(implicit.solve(M, b), np.linalg.solve(M, b))

    def f(m):
        return np.sum(b * implicit.solve(m, b))

    close(ftrace.grad(f)(M), differences(lambda m: np.sum(b * np.linalg.solve(m, b)), M), 1e-8)
    c = M + 1j * M.T
    w = np.linalg.solve(c.T, np.ones(3))
    close(ftrace.grad(lambda b: implicit.solve(c, b).sum().real)(B + 0j), w)
    close(ftrace.grad(lambda b: implicit.gmres(c, b, rtol=1e-14)[0].sum().real)(B + 0j), w)
    hermitian = c + c.conj().T
    g = ftrace.grad(lambda b: implicit.cg(hermitian, b, rtol=1e-14)[0].sum().real)(B + 0j)
    close(g, np.linalg.solve(hermitian.T, np.ones(3)))


def test_a_preconditioner_is_transposed_for_reverse_mode():
    inverse = np.linalg.inv(M)

    def f(b):
        return implicit.gmres(M, b, rtol=1e-12, maxiter=1, restart=1, M=inverse)[0]

    close(ftrace.jacrev(f)(B), inverse)


def test_integers_and_single_precision():
    close(implicit.solve(np.array([[2, 0], [1, 4]]), np.array([2, 9])), [1.0, 2.0])
    x = implicit.cg(np.eye(2, dtype=np.float32), np.ones(2, np.float32))[0]
    assert x.dtype == np.float32
    g = ftrace.grad(lambda b: implicit.cg(np.eye(2, dtype=np.float32), b)[0].sum())
    assert g(np.ones(2, np.float32)).dtype == np.float32


# ---------------------------------------------------------------------------------- errors


def fails(error, words, run, *args):
    with pytest.raises(error, match=words) as caught:
        run(*args)
    assert caught.value.fix.endswith(".")


def test_failures_quote_scipy():
    def never(x):
        return x**2 + 1.0

    for run in (never_root, ftrace.jit(never_root), ftrace.grad(never_root)):
        fails(errors.SolverError, r"root of f: The iteration is not making good progress", run, 1.0)
    fails(
        errors.SolverError,
        r"brentq: never is 2 at 1 and 5 at 2",
        implicit.brentq,
        never,
        1.0,
        2.0,
    )
    fails(
        errors.SolverError,
        "brentq of <lambda>: convergence error after 2 iterations",
        lambda: implicit.brentq(lambda x: x**3 - 2.0, 0.0, 9.0, maxiter=2),
    )
    fails(
        errors.SolverError,
        "fixed_point of <lambda>: Failed to converge after 20 iterations",
        lambda: implicit.fixed_point(lambda x: 2.0 * x + 1, 3.0, method="iteration", maxiter=20),
    )
    fails(
        errors.SolverError,
        "minimize of <lambda>: Maximum number of iterations has been exceeded",
        lambda: implicit.minimize(lambda x: (x[0] - 3.0) ** 4, [0.0], options={"maxiter": 1}),
    )
    fails(
        errors.SolverError,
        "cg stopped with no convergence within 1 iterations, at tolerance rtol=1e-05",
        lambda: implicit.cg(np.diag([1.0, 2.0]), np.ones(2), maxiter=1),
    )
    fails(errors.SolverError, r"shape \(2, 2\) is singular", implicit.solve, np.ones((2, 2)), W)
    sparse = scipy.sparse.csr_array([[1.0, 0.0], [1.0, 0.0]])
    fails(errors.SolverError, "spsolve: Factor is exactly singular", implicit.spsolve, sparse, W)
    assert issubclass(errors.SolverError, RuntimeError)


def never_root(a):
    def f(x, a):
        return x**2 + a

    return implicit.root(f, [0.3], args=(a,)).x[0]


def test_a_root_without_a_derivative_is_an_error():
    def double(a):
        return implicit.root(lambda x, a: x * x * a, [0.0], args=(a,)).x[0]

    assert double(2.0) == 0.0
    fails(errors.SolverError, "is singular", ftrace.grad(double), 2.0)
    fails(errors.SolverError, "is singular", ftrace.jit(ftrace.grad(double)), 2.0)


def test_constraints_are_refused():
    fails(
        errors.RuleError,
        "takes no constraints",
        lambda: implicit.minimize(np.sum, np.ones(2), constraints={"type": "eq", "fun": np.sum}),
    )


def test_wrong_shapes_are_named():
    fails(errors.ShapeError, r"root: <lambda> returns shape \(1,\) for an x of shape \(2,\)",
          implicit.root, lambda x: x[:1], np.ones(2))  # fmt: skip
    fails(errors.ShapeError, r"brentq: <lambda> returns shape \(1,\) for an x of shape \(\)",
          lambda: implicit.brentq(lambda x: np.array([x]), -1.0, 1.0))  # fmt: skip
    fails(errors.ShapeError, r"root: x0 has shape \(2, 2\)", implicit.root, np.sin, np.ones((2, 2)))
    fails(
        errors.ShapeError, r"brentq: a has shape \(2,\)", implicit.brentq, np.sin, np.ones(2), 2.0
    )
    fails(errors.ShapeError, "x0 has 2 elements, and bounds are given for 3",
          lambda: implicit.minimize(np.sum, np.ones(2), bounds=[(0, 1)] * 3))  # fmt: skip
    fails(errors.ShapeError, r"the matrix has shape \(2, 3\)", implicit.solve, np.ones((2, 3)), W)
    fails(
        errors.ShapeError, r"the matrix has 2 rows, and b has shape \(3,\)", implicit.solve, A0, B
    )
    fails(errors.ShapeError, r"the matrix has 2 rows, and b has shape \(3,\)", implicit.cg, A0, B)
    fails(errors.ShapeError, r"b must have one axis, and has shape \(3, 3\)", implicit.cg, M, M)
    fails(errors.ShapeError, "the matrix has 3 rows, and b has", implicit.spsolve,
          scipy.sparse.csr_array(M), W)  # fmt: skip
    fails(errors.ShapeError, "a matrix of 2 arrays", implicit.cg, (B, B), B)
    fails(errors.ShapeError, r"CSR arrays with \(3,\) data, \(2,\) indices", implicit.cg,
          (B, [0, 1], [0, 1, 2]), W)  # fmt: skip


def test_wrong_types_are_named():
    fails(errors.DtypeError, "root takes a function first", implicit.root, 3.0, [1.0])
    fails(errors.DtypeError, r"root: x0 is c128\[1\], and the unknown is real",
          implicit.root, np.sin, [1j])  # fmt: skip
    fails(errors.DtypeError, "spsolve: A is a ndarray, not a SciPy sparse matrix",
          implicit.spsolve, A0, W)  # fmt: skip
    operator = scipy.sparse.linalg.aslinearoperator(A0)
    fails(errors.DtypeError, "nothing is known about what it is made of", implicit.cg, operator, W)
    fails(
        errors.DtypeError, "not an array or a number", implicit.root, lambda x, s: x, [1.0], ("s",)
    )


def test_a_users_own_error_passes_through():
    class OwnError(Exception):
        pass

    def f(x):
        raise OwnError("own words")

    for run in (implicit.root, implicit.minimize, implicit.fixed_point):
        with pytest.raises(OwnError, match=r"^own words\nRaised in a solver .*test_implicit"):
            run(f, np.ones(1))
    with pytest.raises(OwnError, match=r"^own words$"):
        ftrace.grad(lambda a: implicit.brentq(f, a, 2.0))(0.0)


@pytest.mark.parametrize(
    "solve",
    [
        lambda a: implicit.minimize(lambda x: np.sum((x - a) ** 2), np.zeros(2)),
        lambda a: implicit.root(lambda x: x - a, np.zeros(2)),
        lambda a: implicit.least_squares(lambda x: x - a, np.zeros(2)),
    ],
)
def test_results_may_leave_a_program(solve):
    a = np.array([1.0, 2.0])
    found = ftrace.jit(solve)(a)
    np.testing.assert_allclose(found.x, a, atol=1e-6)
    assert type(found).__name__ in ("Result", "Answer")
    both = ftrace.vmap(solve)(np.stack([a, 2 * a]))
    np.testing.assert_allclose(both.x, [a, 2 * a], atol=1e-6)
    np.testing.assert_allclose(ftrace.jvp(solve, (a,), (a,))[1].x, a, atol=1e-6)
