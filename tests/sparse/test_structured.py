"""`jacobian(f, structured=True)`: kinds, products, memory, dense Jacobians (E16, E17)."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse.linalg

import ftrace
from ftrace import errors, lax
from ftrace.sparse import pictures
from ftrace.sparse.linear_maps import (
    DenseMap,
    DiagonalMap,
    FewMap,
    IdentityMap,
    KroneckerMap,
    OneInRowMap,
    ProductMap,
    SumMap,
    ZeroMap,
    after,
    as_csr,
    plus,
)
from ftrace.sparse.matrix_chains import best_order

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((5, 3))
C = RNG.standard_normal((4, 2))
M = RNG.standard_normal((3, 4))
X = np.linspace(0.2, 1.4, 4)


def looped(x):
    return lax.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x)


def added(x):
    y = np.zeros(5)
    np.add.at(y, [0, 3, 3], x[:3] ** 2)
    return y


def assigned(x):
    y = np.zeros(6)
    y[1] = x[3]
    y[2:4] = x[:2] ** 2
    return y


KINDS = {
    "Zero": [(lambda x: np.ones(3), X), (lambda x: np.floor(x), X)],
    "ScaledIdentity": [
        (lambda x: x, X),
        (lambda x: 2 * x - x / 3, X),
        (lambda x: -x.reshape(2, 2), X),
        (np.copy, X),
    ],
    "Diagonal": [
        (lambda x: x**2, X),
        (lambda x: 3 * np.sin(x), M),
        (lambda x: x * np.arange(4.0) + x, X),
        (lambda x: np.where(x > 0.5, x**2, 0.0), X),
        (lambda x: ftrace.jit(np.sin)(x) * 2, X),
        (lambda x: ftrace.vectorize(lambda a: a * a if a > 1 else a)(x), X),
        (lambda x: np.clip(x, 0.3, 1.0) ** 3, X),
    ],
    "OneInRow": [
        (lambda x: x[::-1], X),
        (np.sort, X[::-1]),
        (lambda x: np.sin(x)[[0, 2, 2]], X),
        (lambda x: np.pad(x, 2) ** 2, X),
        (lambda m: m.T, M),
        (lambda m: np.exp(m[1:, ::2]), M),
        (lambda x: np.broadcast_to(x, (3, 4)) * 2, X),
    ],
    "Banded": [
        (np.diff, X),
        (lambda x: x[:-1] * x[1:], X),
        (lambda x: -np.pad(x, 1)[:-2] + 2 * x - np.pad(x, 1)[2:] * x, X),
    ],
    "Sparse": [(lambda x: np.stack([x, x**2]), X), (lambda m: m.sum(1), M)],
    "Dense": [(lambda x: A @ x, X), (np.sum, X), (lambda x: np.sum(x**2), M)],
    "Kronecker": [
        (lambda m: B @ m, M),
        (lambda m: m @ C, M),
        (lambda m: 2 * (B @ m @ C), M),
    ],
    "LowRank": [
        (lambda x: np.sum(x) * np.ones(4), X),
        (lambda x: np.sin(A.T @ np.cos(A @ x)), X),
    ],
    "Product": [(lambda x: np.sin(A @ x), X), (lambda m: np.sin(B @ m @ C), M)],
    "Sum": [(lambda x: x - np.mean(x), X), (lambda m: m @ m.T, M)],
    "Operator": [
        (np.cumsum, X),
        (lambda x: np.real(np.fft.fft(x)), X),
        (lambda x: np.abs(np.exp(1j * x) * x + 1), X),
        (lambda m: np.real(ftrace.jit(lambda z: z * z)(m + 2j)), M),
    ],
    None: [
        (looped, X),
        (assigned, X),
        (added, X),
        (lambda x: np.take(x, [3, 7], mode="clip"), X),
        (lambda x: np.outer(x, x), X),
        (lambda x: x / np.sum(x), X),
        (lambda x: np.linalg.solve(np.eye(4) + np.outer(x, x), x), X),
        (lambda m: m.T @ B.T, M),
        (lambda m: np.einsum("ij,kj->ki", m, C.T), M),
        (lambda x: lax.cond(x[0] > 0, np.sin, np.cos, x), X),
        (lambda x: np.sort(x)[::-1] * x, X),
        (lambda x: x[0] * np.ones(5), X),
        (lambda m: np.cumsum(m, 1)[0], M),
        (lambda x: np.sin(x), 1.5),
        (lambda x: np.float32(2) * x.astype(np.float32), X),
    ],
}
CASES = [(kind, f, x) for kind, pairs in KINDS.items() for f, x in pairs]


def dense(f, x):
    y = np.asarray(f(x))
    return ftrace.jacfwd(f)(x).reshape(y.size, np.size(x))


@pytest.mark.parametrize(("kind", "f", "x"), CASES)
def test_a_structured_jacobian_is_the_dense_one(kind, f, x):
    found, wanted = ftrace.jacobian(f, structured=True)(x), dense(f, x)
    assert kind is None or found.kind == kind
    assert found.shape == wanted.shape
    close = {"rtol": 1e-6 if found.dtype == np.float32 else 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(found.toarray(), wanted, **close)
    np.testing.assert_allclose(np.asarray(found.T), wanted.T, **close)
    v, w = RNG.standard_normal(wanted.shape[1]), RNG.standard_normal((2, wanted.shape[0]))
    np.testing.assert_allclose(found @ v, wanted @ v, **close)
    np.testing.assert_allclose(found.T @ w[0], wanted.T @ w[0], **close)
    np.testing.assert_allclose(w @ found, w @ wanted, **close)
    operator = found.as_linear_operator()
    np.testing.assert_allclose(operator @ v, wanted @ v, **close)
    np.testing.assert_allclose(operator.T @ w[0], wanted.T @ w[0], **close)
    twice = after(found.T, found)
    np.testing.assert_allclose(twice.toarray(), wanted.T @ wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(plus(found, found).toarray(), 2 * wanted, **close)


def test_a_jacobian_of_a_million_elements_takes_some_megabytes():
    big = RNG.standard_normal((1000, 1000))
    tracemalloc.start()
    try:
        found = ftrace.jacobian(lambda m: m**2, structured=True)(big)
        total = ftrace.jacobian(lambda m: np.sum(m**2), structured=True)(big)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6
    assert (found.kind, found.nbytes) == ("Diagonal", 8_000_000)
    assert (total.kind, total.nbytes) == ("Dense", 8_000_000)
    np.testing.assert_array_equal(found.diagonal, 2 * big.reshape(-1))
    np.testing.assert_array_equal(total.matrix[0], 2 * big.reshape(-1))
    with pytest.raises(errors.HostMemoryError, match="GiB"):
        found.toarray()
    with pytest.raises(errors.HostMemoryError, match="structured=True"):
        ftrace.jacobian(lambda m: m**2)(big)


def test_an_elementwise_step_updates_the_diagonal_factor_alone():
    def f(x):
        y = A @ x
        for _ in range(5):
            y = 3 * np.sin(y)
        return y

    found = ftrace.jacobian(f, structured=True)(X)
    assert [factor.kind for factor in found.factors] == ["Diagonal", "Dense"]
    np.testing.assert_array_equal(found.factors[1].matrix, A)


def test_what_was_captured_may_be_changed_afterwards():
    a, x = A.copy(), X.copy()
    found = ftrace.jacobian(lambda x: np.cumsum(a @ x * x[:3]), structured=True)(x)
    wanted = found.toarray()
    a[:], x[:] = 0.0, 0.0
    np.testing.assert_array_equal(found.toarray(), wanted)
    assert np.any(wanted)


def test_further_arguments_stay():
    found = ftrace.jacobian(lambda x, k, *, c: x * k * c, structured=True)(X, 2.0, c=3.0)
    assert (found.kind, found.scale) == ("ScaledIdentity", 6.0)
    assert ftrace.jacobian(lambda x: x * 1.0, structured=True)(2).scale == 1.0


def test_krylov_solvers_take_it():
    def f(x):
        return x**3 + np.sum(x) * np.ones(4)

    found = ftrace.jacobian(f, structured=True)(X)
    step, info = scipy.sparse.linalg.gmres(found.as_linear_operator(), f(X), rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(step, np.linalg.solve(dense(f, X), f(X)), rtol=1e-9)


def test_bad_requests_are_named():
    for options in ({"argnums": 1}, {"has_aux": True}, {"mode": "forward"}, {"chunk_size": 2}):
        with pytest.raises(errors.DtypeError, match="no other option"):
            ftrace.jacobian(np.sin, structured=True, **options)
    made = ftrace.jacobian(np.sin, structured=True)
    with pytest.raises(errors.DtypeError, match="real floats"):
        made(X + 1j)
    with pytest.raises(errors.DtypeError, match="real floats"):
        made(np.arange(3))
    with pytest.raises(errors.DtypeError, match="returns one array"):
        ftrace.jacobian(lambda x: (x, x), structured=True)(X)
    with pytest.raises(errors.DtypeError, match="real floats"):
        ftrace.jacobian(lambda x: x * 1j, structured=True)(X)
    with pytest.raises(errors.ConcretizationTypeError, match="outside of transformations"):
        ftrace.jit(lambda x: made(x).toarray())(X)
    with pytest.raises(errors.ShapeError, match="cannot be multiplied"):
        made(X) @ np.ones(3)
    assert made(np.zeros((0, 2))).toarray().shape == (0, 0)


# ---------------------------------------------------------------------------------- maps


COLUMNS = np.array([2, -1, 0, 0, 3])
MAPS = {
    "zero": ZeroMap((4, 4), float),
    "identity": IdentityMap(1, 4, float),
    "scaled": IdentityMap(-2.5, 4, float),
    "diagonal": DiagonalMap(np.array([1.0, 0.0, -2.0, 3.0])),
    "moved": OneInRowMap(np.array([1, 1, -1, 3]), None, 4, float),
    "one": OneInRowMap(np.array([3, 0, -7, 3]), np.arange(1.0, 5.0), 4, float),
    "few": FewMap(
        as_csr(DiagonalMap(np.ones(4))) + as_csr(OneInRowMap(np.arange(4)[::-1], None, 4, float))
    ),
    "dense": DenseMap(RNG.standard_normal((4, 4))),
    "kronecker": KroneckerMap(DenseMap(RNG.standard_normal((2, 2))), IdentityMap(2, 2, float)),
    "product": ProductMap(
        [DenseMap(RNG.standard_normal((4, 1))), DenseMap(RNG.standard_normal((1, 4)))]
    ),
}


@pytest.mark.parametrize("left", MAPS)
@pytest.mark.parametrize("right", MAPS)
def test_products_and_sums_of_all_kinds(left, right):
    a, b = MAPS[left], MAPS[right]
    x, y = a.toarray(), b.toarray()
    np.testing.assert_allclose((a @ b).toarray(), x @ y, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose((a @ b).T.toarray(), (x @ y).T, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(plus(a, b).toarray(), x + y, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(
        plus(a, b).T @ np.arange(4.0), (x + y).T @ np.arange(4.0), atol=1e-13
    )
    thrice = a @ b @ a
    np.testing.assert_allclose(thrice.toarray(), x @ y @ x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "sizes", [(10, 30, 5, 60), (40, 20, 30, 10, 30), (5, 5, 5), (1, 9, 1, 9, 1)]
)
def test_the_order_of_products_is_the_best_one(sizes):
    """Against all orders, for dense matrices (E16)."""

    def cost(order):
        if isinstance(order, int):
            return 0, sizes[order], sizes[order + 1]
        (a, m, n), (b, _, p) = map(cost, order)
        return a + b + m * n * p, m, p

    def every(i, j):
        if i == j:
            return [i]
        return [(a, b) for k in range(i, j) for a in every(i, k) for b in every(k + 1, j)]

    factors = [DenseMap(RNG.standard_normal((m, n))) for m, n in pairwise(sizes)]
    orders = every(0, len(factors) - 1)
    assert cost(best_order(factors))[0] == min(cost(o)[0] for o in orders)
    product = ProductMap(factors)
    wanted = np.linalg.multi_dot([f.matrix for f in factors])
    np.testing.assert_allclose(product.toarray(), wanted, rtol=1e-11, atol=1e-11)


def test_an_order_is_shown():
    thin = [DenseMap(np.ones((50, 2))), DenseMap(np.ones((2, 50))), DenseMap(np.ones((50, 1)))]
    assert ProductMap(thin).order == "(A0 (A1 A2))"
    assert ProductMap(thin).kind == "Product"
    assert ProductMap(thin[:2]).kind == "LowRank"
    assert ProductMap(thin[:2]).rank == 2
    assert repr(IdentityMap(2.0, 3, float)) == "<ScaledIdentity 3 x 3, float64, 8 bytes>"


# ---------------------------------------------------------------------------------- pictures


def dots(text):
    """A picture as booleans, without its edge."""
    rows = [line[1:-1] for line in text.splitlines()[2:-1]]
    codes = np.array([[ord(c) - 0x2800 for c in row] for row in rows])
    order = np.array([[0, 3], [1, 4], [2, 5], [6, 7]])  # bits of the characters
    bits = (codes[:, None, :, None] >> order[None, :, None, :]) & 1
    return bits.reshape(4 * codes.shape[0], 2 * codes.shape[1]).astype(bool)


@pytest.mark.parametrize(
    "f",
    [np.sin, lambda x: np.cumsum(x) * x, np.diff, lambda x: x[::-1] * 2, lambda x: x[3:9], np.flip],
)
def test_a_picture_shows_where_elements_are(f):  # E8, E9
    found = ftrace.jacobian(f, structured=True)(np.arange(1.0, 21.0))
    text = found.draw()
    assert text.splitlines()[0] == repr(found)
    m, n = found.shape
    shown = dots(text)
    np.testing.assert_array_equal(shown[:m, :n], found.toarray() != 0)
    assert not shown[m:].any()
    assert found._repr_html_().startswith("<pre")
    assert max(map(len, found.draw(5).splitlines()[1:])) <= 7


PICTURED = {
    "diagonal": (lambda x: x**2, (60, 50)),
    "kronecker": (lambda x: np.tril(np.ones((60, 60))) @ x, (60, 50)),
    "moved": (lambda x: x[::-1] * 3.0, (60, 50)),
    "sum": (lambda x: np.cumsum(x, 0) + x, (60, 50)),
    "product": (lambda x: np.sum(np.sin(x), 1)[::-1], (60, 50)),
    "nothing": (lambda x: np.floor(x), (60, 50)),
}


@pytest.mark.parametrize("case", PICTURED)
def test_a_large_picture_misses_no_element(case):
    f, shape = PICTURED[case]
    found = ftrace.jacobian(f, structured=True)(np.full(shape, 0.5))
    m, n = found.shape
    assert m * n > 100_000
    shown = pictures.occupied(found, min(m, 40), min(n, 80))
    there = pictures._by_values(found, *shown.shape)
    assert not (there & ~shown).any()
    if case != "sum":  # cumulative sums are an operation, of which no structure is known
        assert shown.mean() <= there.mean() + 0.1


def random_map(rng, m, n, depth=2):
    """A map of random structure, with few elements."""
    count = 2 * min(m, n)
    at = rng.integers(m, size=count), rng.integers(n, size=count)
    few = FewMap(scipy.sparse.csr_array((np.ones(count), at), shape=(m, n)))
    kind = rng.integers(5 if depth else 2)
    if kind == 0:
        return OneInRowMap(rng.integers(-1, n, m), None, n, float)
    if kind == 1:
        return few
    if kind == 2:
        return SumMap([random_map(rng, m, n, depth - 1), few])
    if kind == 3:
        k = int(rng.integers(50, 700))
        return ProductMap([random_map(rng, m, k, depth - 1), random_map(rng, k, n, depth - 1)])
    a, b = (int(rng.choice([d for d in range(1, k + 1) if k % d == 0])) for k in (m, n))
    return KroneckerMap(
        random_map(rng, a, b, depth - 1), random_map(rng, m // a, n // b, depth - 1)
    )


@pytest.mark.parametrize("seed", range(40))
def test_pictures_of_random_structures_miss_no_element(seed):
    rng = np.random.default_rng(seed)
    m, n = (int(k) for k in rng.choice([210, 360, 391, 509, 660, 1302], 2))
    found = random_map(rng, m, n)
    i, j = np.nonzero(found.toarray())
    for rows, columns in ((min(m, 160), min(n, 80)), (37, 53), (min(m, 299), 7), (1, 1)):
        there = np.zeros((rows, columns), bool)
        there[i * rows // m, j * columns // n] = True
        assert not (there & ~pictures.occupied(found, rows, columns)).any()


@pytest.mark.parametrize("n", [1300, 1500, 2777])
def test_pictures_of_products_with_kronecker_products_miss_no_element(n):
    def f(x):
        return np.sin(np.convolve(np.sin(x), [1, 2, 1]))

    found = ftrace.jacobian(f, structured=True)(np.linspace(0.1, 1.0, n))
    there = pictures._by_values(found, 80, 80)
    shown = pictures.occupied(found, 80, 80)
    assert not (there & ~shown).any()
    assert shown.sum() <= 1.2 * there.sum()
    np.testing.assert_array_equal(dots(found.draw())[:80, :80], shown)


def test_pictures_of_what_is_too_large_to_be_an_array():
    text = ftrace.jacobian(lambda m: m**2, structured=True)(np.ones((1000, 1000))).draw(20)
    np.testing.assert_array_equal(dots(text), np.eye(40, dtype=bool))


@pytest.mark.parametrize("width", [0, -3, True, 2.5, "wide"])
def test_the_width_of_a_picture_is_a_positive_integer(width):
    with pytest.raises(errors.DtypeError, match="width of draw must be a positive integer"):
        ftrace.jacobian(np.sin, structured=True)(np.ones(3)).draw(width)
