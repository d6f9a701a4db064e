"""`jacfwd`, `jacrev`, `hessian`: blocks, chunks, and how often the primal runs (counted)."""

from math import ceil

import numpy as np
import pytest

import ftrace
from ftrace import errors
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.primitives.elementwise import cos, mul

X = np.array([0.5, -1.0, 2.0, 0.25])
A = np.arange(12.0).reshape(3, 4) / 7 - 0.5
BOTH = pytest.mark.parametrize("jacobian", [ftrace.jacfwd, ftrace.jacrev], ids=lambda j: j.__name__)


def f(x):
    return np.sin(A @ x) * x[0]


def jacobian_of_f(x):
    j = np.cos(A @ x)[:, None] * A * x[0]
    j[:, 0] += np.sin(A @ x)
    return j


class Counted:
    """`sin` as a user's primitive that counts its evaluations: of values, and of derivatives."""

    def __init__(self):
        self.values, self.tangents, self.cotangents = 0, 0, 0
        self.row = Primitive(
            name="counted_sin",
            impl=self.value,
            type=lambda x: x,
            jvp=lambda p, t: (self.row(*p), self.scaled(t[0], cos(p[0]))),
            transpose=Unsupported("not linear"),
            batch=lambda axis, values, dims: (self.row(*values), dims[0]),
            doc="Sine, counted.",
        )
        self.scaled = Primitive(
            name="counted_mul",
            impl=self.tangent,
            type=lambda t, c: t,
            jvp=lambda p, t: (self.scaled(*p), mul(t[0], p[1])),
            transpose=lambda ct, t, c: (self.pulled(ct, c), None),
            batch=lambda axis, values, dims: self.batched(self.scaled, axis, values, dims),
            doc="A tangent times a cosine, counted.",
        )
        self.pulled = Primitive(
            name="counted_pull",
            impl=self.cotangent,
            type=lambda ct, c: ct,
            jvp=Unsupported("not needed"),
            transpose=Unsupported("not needed"),
            batch=lambda axis, values, dims: self.batched(self.pulled, axis, values, dims),
            doc="A cotangent times a cosine, counted.",
        )

    def batched(self, row, axis, values, dims):
        t, c = values
        if dims[1] is None:
            c = np.broadcast_to(np.expand_dims(c, dims[0]), np.shape(t))
        return row(t, c), dims[0]

    def value(self, x):
        self.values += 1
        return np.sin(x)

    def tangent(self, t, c):
        self.tangents += 1
        return t * c

    def cotangent(self, ct, c):
        self.cotangents += 1
        return ct * c


# ---------------------------------------------------------------------------------- values


@BOTH
@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4, 5, 100])
def test_a_jacobian_is_the_same_for_every_chunk_size(jacobian, chunk):
    found = jacobian(f, chunk_size=chunk)(X)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(found, jacobian_of_f(X), rtol=1e-14, atol=1e-16)
    whole = jacobian(f)(X)
    np.testing.assert_allclose(found, whole, rtol=1e-15, atol=1e-17)


@pytest.mark.parametrize("chunk", [None, 1, 3, 4, 9])
def test_a_hessian_is_the_same_for_every_chunk_size(chunk):
    def energy(x):
        return np.sum(np.sin(x) * x[::-1])

    found = ftrace.hessian(energy, chunk_size=chunk)(X)
    np.testing.assert_allclose(found, ftrace.jacrev(ftrace.grad(energy))(X), atol=1e-15)
    np.testing.assert_allclose(found, found.T, atol=1e-15)


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4, 7])
def test_forward_passes_run_the_primal_once_each(chunk):
    counted = Counted()
    passes = 1 if chunk is None else ceil(4 / chunk)
    found = ftrace.jacfwd(lambda x: counted.row(x) * x, chunk_size=chunk)(X)
    np.testing.assert_allclose(found, np.diag(np.cos(X) * X + np.sin(X)), rtol=1e-15)
    assert counted.values == passes
    assert counted.tangents == passes


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4, 7])
def test_backward_passes_share_one_primal(chunk):
    counted = Counted()
    passes = 1 if chunk is None else ceil(4 / chunk)
    found = ftrace.jacrev(lambda x: counted.row(x) * x, chunk_size=chunk)(X)
    np.testing.assert_allclose(found, np.diag(np.cos(X) * X + np.sin(X)), rtol=1e-15)
    assert counted.values == 1
    assert counted.cotangents == passes


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4])
def test_a_hessian_runs_the_primal_once_a_pass(chunk):
    runs = []
    row = Primitive(
        name="counted_sin",
        impl=lambda x: runs.append(None) or np.sin(x),
        type=lambda x: x,
        jvp=lambda p, t: (row(*p), mul(t[0], cos(p[0]))),
        transpose=Unsupported("not linear"),
        batch=lambda axis, values, dims: (row(*values), dims[0]),
        doc="Sine, counted.",
    )
    found = ftrace.hessian(lambda x: np.sum(row(x) * x), chunk_size=chunk)(X)
    np.testing.assert_allclose(found, np.diag(2 * np.cos(X) - X * np.sin(X)), rtol=1e-15)
    assert len(runs) == (1 if chunk is None else ceil(4 / chunk))


# ---------------------------------------------------------------------------------- blocks


@BOTH
def test_blocks_have_the_results_containers_outside_and_the_inputs_inside(jacobian):
    def g(p, s):
        return {"y": p["w"] @ p["v"] * s, "t": (np.sum(p["v"]), s * s)}

    p = {"w": A, "v": X}
    blocks = jacobian(g, argnums=(0, 1))(p, 2.0)
    assert type(blocks["y"]) is tuple
    assert blocks["y"][0]["w"].shape == (3, 3, 4)
    assert blocks["y"][0]["v"].shape == (3, 4)
    np.testing.assert_allclose(blocks["y"][0]["w"], 2 * np.einsum("ik,j->ikj", np.eye(3), X))
    np.testing.assert_allclose(blocks["y"][0]["v"], 2 * A)
    np.testing.assert_allclose(blocks["y"][1], A @ X)
    np.testing.assert_array_equal(blocks["t"][0][0]["v"], np.ones(4))
    np.testing.assert_array_equal(blocks["t"][0][0]["w"], np.zeros((3, 4)))
    assert blocks["t"][1][1] == 4.0


@BOTH
@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_chunks_may_cross_the_borders_of_arrays(jacobian, chunk):
    def g(a, b):
        return np.outer(a, b), np.sum(a) * b[0]

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    found = jacobian(g, (0, 1), chunk_size=chunk)(a, b)
    np.testing.assert_allclose(found[0][0], np.einsum("ik,j->ijk", np.eye(2), b))
    np.testing.assert_allclose(found[0][1], np.einsum("i,jk->ijk", a, np.eye(3)))
    np.testing.assert_allclose(found[1][0], [3.0, 3.0])
    np.testing.assert_allclose(found[1][1], [3.0, 0.0, 0.0])


@BOTH
def test_scalars_and_matrices_as_input_and_result(jacobian):
    assert jacobian(lambda x: x**3)(2.0) == 12.0
    assert type(jacobian(np.sin)(2.0)) is np.float64
    found = jacobian(lambda m: m @ m.T)(A)
    assert found.shape == (3, 3, 3, 4)
    eye = np.eye(3)
    expected = np.einsum("ia,jb->ijab", eye, A) + np.einsum("ja,ib->ijab", eye, A)
    np.testing.assert_allclose(found, expected)


@BOTH
def test_a_result_that_does_not_depend_has_a_zero_block(jacobian):
    found = jacobian(lambda x: (np.ones(2), x, np.argmax(x) * 1.0))(X)
    np.testing.assert_array_equal(found[0], np.zeros((2, 4)))
    np.testing.assert_array_equal(found[1], np.eye(4))
    np.testing.assert_array_equal(found[2], np.zeros(4))


@BOTH
def test_empty_inputs_and_results_have_empty_blocks(jacobian):
    assert jacobian(lambda x: x * 2)(np.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: x[:0])(X).shape == (0, 4)


# ---------------------------------------------------------------------------------- options


@BOTH
@pytest.mark.parametrize("argnums", [1, -1, "b", (1,), ("b",)])
def test_argnums_choose_by_position_or_name(jacobian, argnums):
    found = jacobian(lambda a, b: a * b, argnums)(2.0, X)
    block = found[0] if isinstance(argnums, tuple) else found
    np.testing.assert_array_equal(block, 2 * np.eye(4))


@BOTH
def test_aux_is_returned_beside_the_jacobian(jacobian):
    found, aux = jacobian(lambda x: (x * x, {"x": x, "note": "text"}), has_aux=True)(X)
    np.testing.assert_array_equal(found, np.diag(2 * X))
    np.testing.assert_array_equal(aux["x"], X)
    assert aux["note"] == "text"


def test_a_hessian_with_aux_and_several_arguments():
    def g(a, b):
        return a * a * b + b**3, {"sum": a + b}

    blocks, aux = ftrace.hessian(g, (0, 1), has_aux=True)(2.0, 3.0)
    assert [[float(c) for c in row] for row in blocks] == [[6.0, 4.0], [4.0, 18.0]]
    assert aux == {"sum": 5.0}


def test_jacrev_allows_integers_and_gives_none_for_them():
    found = ftrace.jacrev(lambda p: p["x"] * p["n"], allow_int=True)({"x": X, "n": np.int64(3)})
    np.testing.assert_array_equal(found["x"], 3 * np.eye(4))
    assert found["n"] is None


@BOTH
def test_holomorphic_jacobians_are_complex(jacobian):
    z = np.array([1 + 1j, 2 - 1j])
    found = jacobian(lambda v: v * v * 1j, holomorphic=True)(z)
    np.testing.assert_allclose(found, np.diag(2j * z))


@BOTH
def test_float32_stays_float32(jacobian):
    found = jacobian(lambda x: np.sin(x) * 2.0)(X.astype(np.float32))
    assert found.dtype == np.float32


@BOTH
def test_jacobians_compose_with_the_other_transformations(jacobian):
    expected = jacobian_of_f(X)
    np.testing.assert_allclose(ftrace.jit(jacobian(f))(X), expected, rtol=1e-13)
    np.testing.assert_allclose(jacobian(ftrace.jit(f), chunk_size=3)(X), expected, rtol=1e-13)
    mapped = ftrace.vmap(jacobian(f))(np.stack([X, 2 * X]))
    np.testing.assert_allclose(mapped[1], jacobian_of_f(2 * X), rtol=1e-13, atol=1e-16)
    second = ftrace.jacfwd(jacobian(lambda x: x**3))(X)
    np.testing.assert_allclose(np.einsum("iii->i", second), 6 * X)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, "2"])
@BOTH
def test_a_chunk_size_is_a_positive_integer(jacobian, chunk):
    with pytest.raises(errors.ShapeError, match="chunk_size"):
        jacobian(f, chunk_size=chunk)


def test_blocks_own_their_memory():
    x = X.copy()
    for block in ftrace.jacfwd(lambda v: (v, v[:2]))(x):
        assert block.flags.writeable
        assert block.base is None


@pytest.mark.parametrize(
    ("jacobian", "f", "x"),
    [
        (ftrace.jacfwd, np.conj, np.array([1 + 1j])),  # moves against its argument
        (ftrace.jacfwd, lambda z: np.abs(z) ** 2, np.array([1 + 1j])),
        (ftrace.jacrev, np.conj, np.array([1 + 1j])),
        (ftrace.jacrev, lambda x: x * x * (1 + 2j), np.array([1.0, 2.0])),
        (ftrace.hessian, lambda z: np.sum(np.abs(z) ** 2), np.array([1 + 1j])),
    ],
)
def test_one_number_is_not_the_derivative_of_a_complex_one(jacobian, f, x):
    for way in (jacobian(f), ftrace.jit(jacobian(f))):
        with pytest.raises(errors.DtypeError, match="holomorphic=True"):
            way(x)


def test_real_sides_of_complex_functions_have_jacobians():
    x, c = np.array([1.0, 2.0]), 1 + 2j
    np.testing.assert_allclose(ftrace.jacfwd(lambda x: x * x * c)(x), np.diag(2 * x * c))
    found = ftrace.jacrev(lambda z: np.abs(z) ** 2)(np.array([1 + 2j]))
    np.testing.assert_allclose(found, [[ftrace.grad(lambda z: np.abs(z) ** 2)(1 + 2j)]])


@BOTH
@pytest.mark.parametrize("chunk", [None, 2])
def test_integers_among_the_results_do_not_move(jacobian, chunk):
    def g(x):
        return np.argsort(x), x * 2, {"n": 3, "most": np.argmax(x)}

    for call in (jacobian(g, chunk_size=chunk), ftrace.jit(jacobian(g, chunk_size=chunk))):
        found = call(X)
        assert found[0].shape == (4, 4)
        assert not np.any(found[0])
        np.testing.assert_array_equal(found[1], 2 * np.eye(4))
        assert found[2]["most"].shape == found[2]["n"].shape == (4,)
        assert found[2]["n"].dtype.kind == "i"
