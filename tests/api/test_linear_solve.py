"""`lax.custom_linear_solve`: values and derivatives against NumPy's solver and differences."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, lax
from tests.api.ways import GRADIENTS, HESSIANS, differences

A0 = np.array([[4.0, 1.0, -0.5], [0.3, 3.0, 0.7], [-1.0, 0.2, 5.0]])
A1 = np.array([[0.5, -0.2, 0.1], [0.0, 0.4, 0.3], [0.2, 0.0, -0.6]])
B = np.array([1.0, -2.0, 0.5])
W = np.array([1.0, 2.0, -3.0])
P = np.array([0.7, -0.4])


def close(actual, expected, tol=1e-11):
    np.testing.assert_allclose(actual, expected, rtol=tol, atol=tol)


def richardson(matvec, b):
    """A solver of traceable operations."""

    def step(carry):
        i, x = carry
        return i + 1, x + 0.2 * (b - matvec(x))

    return lax.while_loop(lambda carry: carry[0] < 150, step, (0, fnp.zeros_like(b)))[1]


def gauss(matvec, b):
    """A solver of plain values: the matrix, then LAPACK."""
    matrix = np.array([matvec(e) for e in np.eye(len(np.asarray(b)))]).T
    return np.linalg.solve(matrix, b)


def looping(matvec, b):
    """A solver whose number of steps depends on the values."""
    x, r = 0 * b, b
    while np.max(np.abs(r)) > 1e-14:
        x = x + 0.2 * r
        r = b - matvec(x)
    return x


SOLVERS = {"traceable": richardson, "of plain values": gauss, "a Python loop": looping}


def matrix(p):
    return A0 + p[0] * A1 + p[0] * p[1] * A1.T


def value(solve, p):
    """The matrix is a captured value; the right-hand side depends on p, too."""
    m = matrix(p)
    x = lax.custom_linear_solve(lambda x: m @ x, B * p[1], solve, solve)
    return np.sum(W * np.sin(x))


def reference(p):
    return np.sum(W * np.sin(np.linalg.solve(matrix(p), B * p[1])))


def analytic(p):
    """The gradient of the reference, by the formula."""
    m = matrix(p)
    x = np.linalg.solve(m, B * p[1])
    moves = [A1 + p[1] * A1.T, p[0] * A1.T]
    rhs = [-moves[0] @ x, B - moves[1] @ x]
    return np.array([np.sum(W * np.cos(x) * np.linalg.solve(m, r)) for r in rhs])


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_solution_is_numpys(solver):
    f = SOLVERS[solver]
    close(value(f, P), reference(P))
    close(ftrace.jit(lambda p: value(f, p))(P), reference(P))
    stack = np.stack([P, 2 * P, -P])
    close(ftrace.vmap(lambda p: value(f, p))(stack), [reference(p) for p in stack])
    close(ftrace.jit(ftrace.vmap(lambda p: value(f, p)))(stack), [reference(p) for p in stack])


@pytest.mark.parametrize("way", GRADIENTS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_first_derivatives(solver, way):
    close(GRADIENTS[way](lambda p: value(SOLVERS[solver], p))(P), analytic(P))


def test_the_formula_of_the_gradient_agrees_with_differences():
    close(analytic(P), differences(reference, P), 1e-8)


@pytest.mark.parametrize("way", HESSIANS)
@pytest.mark.parametrize("solver", ["traceable", "of plain values"])
def test_second_derivatives(solver, way):
    expected = differences(analytic, P)
    close(HESSIANS[way](lambda p: value(SOLVERS[solver], p))(P), expected, 1e-8)


def test_compiled_programs_call_the_solver():
    with ftrace.config.update(compile=True):
        close(ftrace.jit(ftrace.grad(lambda p: value(gauss, p)))(P), analytic(P))
        close(ftrace.jit(ftrace.grad(lambda p: value(richardson, p)))(P), analytic(P))


def test_vmap_over_the_right_hand_side_and_over_the_matrix_alone():
    def solved(m, b):
        return lax.custom_linear_solve(lambda x: m @ x, b, gauss, gauss)

    bs = np.stack([B, W], axis=1)
    ms = np.stack([A0, A0.T])
    over_b = ftrace.vmap(solved, (None, 1), 1)(A0, bs)
    close(over_b, np.linalg.solve(A0, bs))
    close(ftrace.vmap(solved, (0, None))(ms, B), [np.linalg.solve(m, B) for m in ms])
    jacobian = ftrace.vmap(ftrace.jacrev(solved, 1), (0, None))(ms, B)
    close(jacobian, np.linalg.inv(ms))
    pairs = ftrace.vmap(ftrace.vmap(solved, (None, 0)), (0, None))(ms, bs.T)
    close(pairs, [np.linalg.solve(m, bs).T for m in ms])


def test_containers_of_unknowns():
    def solved(a, b):
        def matvec(x):
            return {"u": a * x["u"] + x["v"].sum(), "v": 3.0 * x["v"] - x["u"]}

        def solve(matvec, b):  # two unknowns u and v_i = (b_v + u) / 3
            u = (b["u"] - b["v"].sum() / 3) / (a + 2 / 3)
            return {"u": u, "v": (b["v"] + u) / 3}

        def transposed(vecmat, b):  # a u - sum(v) = b_u, u + 3 v_i = b_v
            u = (b["u"] + b["v"].sum() / 3) / (a + 2 / 3)
            return {"u": u, "v": (b["v"] - u) / 3}

        return lax.custom_linear_solve(matvec, b, solve, transposed)

    def scalar(p):
        x = solved(p[0], {"u": p[1], "v": p[2:]})
        return x["u"] ** 2 + np.sum(W[:2] * x["v"]) ** 2

    def plain(p):
        m = np.array([[p[0], 1, 1], [-1, 3, 0], [-1, 0, 3]])
        x = np.linalg.solve(m, p[1:])
        return x[0] ** 2 + np.sum(W[:2] * x[1:]) ** 2

    p = np.array([2.0, 0.5, -1.0, 0.3])
    close(scalar(p), plain(p))
    close(ftrace.grad(scalar)(p), differences(plain, p), 1e-8)
    close(ftrace.jacfwd(scalar)(p), differences(plain, p), 1e-8)
    close(ftrace.jit(ftrace.grad(scalar))(p), differences(plain, p), 1e-8)


def test_the_solver_itself_is_never_differentiated():
    """A solver that lies about its dependence changes nothing: the equation decides."""

    def solve(matvec, b):
        return lax.stop_gradient(gauss_traceable(b))

    def gauss_traceable(b):
        return b / 2.0

    def f(a):
        return lax.custom_linear_solve(lambda x: a * x, 3.0, solve, solve)

    close(ftrace.grad(f)(2.0), -3.0 / 4.0)
    close(ftrace.jacfwd(f)(2.0), -3.0 / 4.0)


def test_what_the_solver_captures_is_an_operand_without_a_derivative():
    def f(a):
        return lax.custom_linear_solve(lambda x: a * x, 3.0, lambda _, b: b / a, lambda _, b: b / a)

    close(ftrace.grad(f)(2.0), -3.0 / 4.0)
    close(ftrace.grad(ftrace.grad(f))(2.0), 3.0 / 4.0)
    close(ftrace.jit(ftrace.grad(ftrace.grad(ftrace.grad(f))))(2.0), -18.0 / 16.0)


def test_the_transposed_solver_gets_the_transposed_map():
    seen = []

    def transposed(vecmat, ct):
        x = np.linalg.solve(A0.T, ct)  # no rule: the solver runs on the host
        seen.append(np.array([vecmat(e) for e in np.eye(3)]))
        return x

    def f(b, m):
        return lax.custom_linear_solve(lambda x: m @ x, b, gauss, transposed).sum()

    close(ftrace.grad(f)(B, A0), np.linalg.solve(A0.T, np.ones(3)))
    assert len(seen) == 1
    close(seen[0], A0)  # row by row: A.T e_i


def test_symmetric_systems_need_one_solver():
    s = A0 + A0.T

    def f(m, b):
        return np.sum(W * lax.custom_linear_solve(lambda x: m @ x, b, gauss, symmetric=True))

    x, y = np.linalg.solve(s, B), np.linalg.solve(s, W)
    close(ftrace.grad(f, 1)(s, B), y)
    close(ftrace.grad(f, 0)(s, B), -np.outer(y, x))
    close(ftrace.jit(ftrace.grad(f, 0))(s, B), -np.outer(y, x))


def test_a_symmetric_map_is_never_transposed():
    """`abs` has no transpose; where it is used it is linear, and its own transpose."""

    def f(b):
        return lax.custom_linear_solve(
            lambda x: 2.0 * np.abs(x), b, lambda m, b: b / 2, symmetric=True
        )

    assert ftrace.grad(f)(3.0) == 0.5


def test_aux_comes_beside_the_solution():
    def solve(matvec, b):
        return b / 2.0, {"steps": 3, "first": b[0]}

    def f(b):
        x, aux = lax.custom_linear_solve(lambda x: 2.0 * x, b, solve, solve, has_aux=True)
        return np.sum(W * x) + aux["first"], aux

    y, aux = f(B)
    close(y, np.sum(W * B) / 2 + B[0])
    assert aux == {"steps": 3, "first": B[0]}
    g, aux = ftrace.grad(f, has_aux=True)(B)
    close(g, W / 2)
    assert aux["steps"] == 3
    close(ftrace.jit(ftrace.grad(lambda b: f(b)[0]))(B), W / 2)
    close(ftrace.vmap(lambda b: f(b)[0])(np.stack([B, W]))[1], np.sum(W * W) / 2 + W[0])


def test_complex_systems():
    m, b = A0 + 1j * A1, B + 2j

    def f(b):
        return np.sum(W * lax.custom_linear_solve(lambda x: m @ x, b, gauss_c, gauss_c)).imag

    def gauss_c(matvec, b):
        b = np.asarray(b)
        return np.linalg.solve(np.array([matvec(e + 0j) for e in np.eye(3)]).T, b)

    w = np.linalg.solve(m.T, W.astype(complex))  # d sum(W x) / db
    close(ftrace.grad(f)(b), w / 1j)


def test_single_precision_stays():
    m, b = A0.astype(np.float32), B.astype(np.float32)

    def f(b):
        return lax.custom_linear_solve(lambda x: m @ x, b, richardson, richardson).sum()

    g = ftrace.grad(f)(b)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, np.linalg.solve(A0.T, np.ones(3)), rtol=1e-5)


def test_an_untaken_solution_contributes_nothing():
    def f(a):
        x = lax.custom_linear_solve(lambda x: a * x, 1.0, lambda m, b: b / a, lambda m, b: b / a)
        return np.where(a > 0.0, x, a * 3.0)

    with np.errstate(divide="ignore", invalid="ignore"):
        assert ftrace.grad(f)(0.0) == 3.0
        assert ftrace.jit(ftrace.grad(f))(0.0) == 3.0
        assert ftrace.vmap(ftrace.grad(f))(np.array([0.0, 2.0])).tolist() == [3.0, -0.25]


def test_a_result_shares_no_memory():
    b = B.copy()
    x = lax.custom_linear_solve(lambda x: x, b, lambda m, b: b)
    assert not np.shares_memory(x, b)
    x[0] = 5.0
    assert b[0] == 1.0
    (eqn,) = ftrace.make_jaxpr(lambda b: lax.custom_linear_solve(np.copy, b, lambda m, b: b))(
        b
    ).eqns
    (x,) = eqn.primitive(b, **eqn.params)
    np.testing.assert_array_equal(x, b)
    assert not np.shares_memory(x, b)


# ---------------------------------------------------------------------------------- errors


def each_context(f):
    yield lambda: f(B)
    yield lambda: ftrace.grad(lambda b: np.sum(f(b)))(B)
    yield lambda: ftrace.jit(f)(B)
    yield lambda: ftrace.vmap(f)(np.stack([B, B]))


def test_reverse_mode_needs_a_transposed_solver():
    def f(b):
        return lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda m, b: b / 2.0)

    close(ftrace.jacfwd(f)(B), np.eye(3) / 2)
    with pytest.raises(errors.RuleError, match=r"no\s+transpose_solve was given") as caught:
        ftrace.jacrev(f)(B)
    assert "symmetric=True" in caught.value.fix


@pytest.mark.parametrize(
    ("matvec", "solve", "error", "words"),
    [
        (
            lambda x: x,
            lambda m, b: (b, b),
            errors.TreeError,
            "solve must return the containers of b",
        ),
        (lambda x: x, lambda m, b: b[:2], errors.ShapeError, r"solve returns f64\[2\] for result"),
        (lambda x: x, lambda m, b: b > 0, errors.DtypeError, r"solve returns bool\[3\] for result"),
        (
            3.0,
            lambda m, b: b,
            errors.DtypeError,
            "matvec of custom_linear_solve must be a function",
        ),
        (lambda x: x, 3.0, errors.DtypeError, "solve of custom_linear_solve must be a function"),
    ],
)
def test_wrong_functions_are_named_in_every_context(matvec, solve, error, words):
    for run in each_context(lambda b: lax.custom_linear_solve(matvec, b, solve)):
        with pytest.raises(error, match=words):
            run()


def test_a_wrong_matvec_is_named():
    def solve(m, b):
        return b

    with pytest.raises(errors.ShapeError, match=r"matvec returns f64\[2\] for result, and b has"):
        ftrace.grad(lambda b: lax.custom_linear_solve(lambda x: x[:2], b, solve).sum())(B)


def test_an_integer_right_hand_side_is_named():
    with pytest.raises(errors.DtypeError, match=r"b is i64\[2\], and an unknown is a float"):
        lax.custom_linear_solve(lambda x: x, np.array([1, 2]), lambda m, b: b)


def test_aux_must_be_a_pair():
    with pytest.raises(errors.TreeError, match="with has_aux=True solve must return a pair"):
        lax.custom_linear_solve(lambda x: x, B, lambda m, b: b, has_aux=True)


def test_a_host_solver_that_captures_a_tracer_is_told_to_take_it_as_an_operand():
    def f(a):
        def solve(matvec, b):
            return np.asarray(b) / a

        return lax.custom_linear_solve(lambda x: a * x, 3.0, solve, solve)

    with pytest.raises(errors.UnexpectedTracerError, match="closing over"):
        ftrace.grad(f)(2.0)


def test_an_argument_cannot_be_written():
    def solve(matvec, b):
        b[0] = 0.0
        return b

    with pytest.raises(ValueError, match="read-only"):
        lax.custom_linear_solve(lambda x: x, B, solve)
    with pytest.raises(errors.MutationError):
        ftrace.jit(lambda b: lax.custom_linear_solve(lambda x: x, b, solve))(B)


# ---------------------------------------------------------------------------------- lifted

S = np.array([[3.0, 1.0], [1.0, 2.0]])


def signed(x):
    y = S @ x
    if x[0] > 0:
        return y
    return 1.0 * y


def conjugate(matvec, b):
    """Conjugate gradients with native control flow."""
    x, r = 0 * b, b
    p, k = r, 0
    while np.dot(r, r) > 1e-24:
        q = matvec(p)
        a = np.dot(r, r) / np.dot(p, q)
        rest = r - a * q
        x = x + a * p
        p, r = rest + np.dot(rest, rest) / np.dot(r, r) * p, rest
        k += 1
        if k > 9:
            break
    return x


def sweeping(matvec, b):
    """Jacobi's method, written in place."""
    x = np.zeros(2)
    for _ in range(300):
        r = b - matvec(x)
        if np.abs(r).max() < 1e-14:
            break
        for j in range(2):
            x[j] += 0.7 * r[j] / S[j, j]
    return x


@pytest.mark.parametrize("solver", [conjugate, sweeping])
def test_traced_values_may_decide_in_the_map_and_in_its_solver(solver):
    b = np.array([1.0, -2.0])

    def solved(b):
        return lax.custom_linear_solve(signed, b, solver, symmetric=True)

    right, slope = np.linalg.solve(S, b), np.linalg.solve(S, np.ones(2))
    for found in (solved(b), ftrace.jit(solved)(b), ftrace.vmap(solved)(np.stack([b, b]))[1]):
        close(found, right)
    for wrap in (lambda f: f, ftrace.jit, ftrace.lift):
        close(wrap(ftrace.grad(wrap(lambda b: solved(b).sum())))(b), slope)


def test_a_map_that_its_argument_decides_has_no_transpose():
    def solved(b):
        return lax.custom_linear_solve(signed, b, conjugate, conjugate).sum()

    with pytest.raises(errors.RuleError, match="depends on the linear operands"):
        ftrace.grad(solved)(np.ones(2))
