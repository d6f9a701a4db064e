"""Functions compiled ahead of their calls, and results written into the caller's arrays."""

import threading
import tracemalloc

import numpy as np
import pytest

import ftrace
from ftrace.control.traces import counter
from ftrace.errors import (
    BackendError,
    ConcretizationTypeError,
    DtypeError,
    ShapeError,
    TreeError,
)

X = np.linspace(0.1, 1.0, 7)


def double_and_sum(x, y):
    return {"a": x * 2.0 + y, "b": np.sum(x * y)}


def test_a_compiled_function_computes_as_jit_does_and_traces_nothing():
    f = ftrace.jit(double_and_sum)
    struct = ftrace.ShapeDtypeStruct(X.shape, X.dtype)
    compiled = f.lower(struct, struct).compile()
    before = counter.count
    for y in (X, X[::-1], np.asarray(X, X.dtype.newbyteorder())):
        found, expected = compiled(X, y), f(X, np.array(y, X.dtype))
        np.testing.assert_array_equal(found["a"], expected["a"])
        assert found["b"] == expected["b"]
        assert type(found["b"]) is type(expected["b"])
    assert counter.count == before
    assert [str(a) for a in compiled.in_avals] == ["f64[7]", "f64[7]"]
    assert sorted(map(str, compiled.out_avals)) == ["f64[7]", "f64[]"]
    assert compiled.out_tree == ftrace.tree_util.tree_structure({"a": 0, "b": 0})
    assert repr(compiled) == "<double_and_sum compiled for (f64[7], f64[7])>"


def test_texts_and_costs():
    lowered = ftrace.jit(lambda x: np.sin(x) * x).lower(X)
    compiled = lowered.compile()
    assert lowered.as_text() == lowered.llvm
    assert compiled.as_text() == lowered.asm
    costs = compiled.cost_analysis()
    assert costs == lowered.cost_analysis()
    assert costs["bytes accessed"] == 2 * X.nbytes
    assert costs["flops"] == 2 * X.size
    assert costs["kernels"] == 1


def test_keywords_static_arguments_and_containers():
    @ftrace.jit
    def f(x, *, scale):
        return x["v"] * scale

    compiled = f.lower({"v": X}, scale=2.0).compile()
    np.testing.assert_array_equal(compiled({"v": X}, scale=3.0), X * 3.0)
    with pytest.raises(TreeError, match="was compiled for arguments of the structure"):
        compiled({"w": X}, scale=3.0)
    power = ftrace.jit(lambda x, n: x**n, static_argnums=1)
    np.testing.assert_array_equal(power.lower(X, 2).compile()(X), power(X, 2))
    with pytest.raises(TreeError, match="Static arguments are left out"):
        power.lower(X, 2).compile()(X, 2)
    np.testing.assert_array_equal(ftrace.prepare(power, X, 2)(X), power(X, 2))


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((X[1:], X), ShapeError, r"argument x of type f64\[7\], and called with f64\[6\]"),
        ((X, X.astype(np.float32)), DtypeError, r"argument y of type f64\[7\]"),
        ((X,), TreeError, "structure"),
        ((X, "a"), DtypeError, "y"),
    ],
)
def test_another_signature_is_refused(args, error, words):
    compiled = ftrace.jit(double_and_sum).lower(X, X).compile()
    for _ in range(2):
        with pytest.raises(error, match=words):
            compiled(*args)
        compiled(X, X)  # from now on the signature is known


def test_numbers_and_arrays_of_rank_0_are_other_signatures():
    f = ftrace.jit(lambda x: x * 2.0)
    assert f.lower(1.0).compile()(3.0) == 6.0
    with pytest.raises(DtypeError, match="f64"):
        f.lower(1.0).compile()(np.float64(3.0))
    with pytest.raises(DtypeError, match="rank 0"):
        f.lower(np.float64(1)).compile()(np.array(3.0))
    with pytest.raises((DtypeError, OverflowError)):
        f.lower(1).compile()(1 << 70)


def test_transformations_are_refused_and_transformed_functions_are_not():
    compiled = ftrace.jit(np.sum).lower(X).compile()
    for transform, x in ((ftrace.grad, X), (ftrace.jit, X), (ftrace.vmap, np.stack([X, X]))):
        with pytest.raises(ConcretizationTypeError):
            transform(compiled)(x)
    gradient = ftrace.prepare(ftrace.grad(lambda x: np.sum(x**3)), X)
    np.testing.assert_allclose(gradient(X), 3 * X**2)


def test_a_function_of_an_outer_transformations_values_is_not_compiled():
    def outer(y):
        return ftrace.jit(lambda x: x * y).lower(X).compile()(X)

    with pytest.raises(ConcretizationTypeError, match="outer transformation"):
        ftrace.jit(outer)(2.0)


def test_captured_arrays_are_read_at_each_call_and_changed_numbers_are_an_error():
    weights, scale = X.copy(), 2.0

    def f(x):
        return x * weights * scale

    prepared = ftrace.prepare(f, X)
    out = prepared.empty()
    np.testing.assert_array_equal(prepared(X, out=out), X * X * 2.0)
    weights[:] = 1.0
    np.testing.assert_array_equal(prepared(X, out=out), X * 2.0)
    scale = 3.0
    for call in (lambda: prepared(X), lambda: prepared(X, out=out)):
        with pytest.raises(BackendError, match="has changed since"):
            call()


def test_what_was_lowered_to_be_looked_at_is_not_compiled():
    lowered = ftrace.jit(np.exp).lower(X)
    with pytest.raises(BackendError, match="looked at"):
        lowered.on("sm_90").compile()
    np.testing.assert_array_equal(lowered.on("cpu").compile()(X), ftrace.jit(np.exp)(X))


def test_results_are_written_into_arrays_of_the_callers():
    prepared = ftrace.prepare(double_and_sum, X, X)
    out = prepared.empty()
    for x in (X, X + 1.0):
        assert prepared(x, X, out=out) is out
        expected = double_and_sum(x, X)
        np.testing.assert_array_equal(out["a"], expected["a"])
        np.testing.assert_allclose(out["b"], expected["b"])
    assert out["b"].shape == ()
    assert repr(prepared) == "<double_and_sum prepared for (f64[7], f64[7])>"


def test_out_may_overlap_what_is_read_and_itself():
    def turned(x):
        return x[::-1] + 0.0, x * 2.0

    memory = np.arange(10.0)
    prepared = ftrace.prepare(turned, memory[:7])
    for first in range(4):
        for second in range(0, 4):
            memory[:] = np.arange(10.0)
            other = np.zeros(10)
            expected = turned(memory[:7].copy())
            out = (memory[first : first + 7], other[second : second + 7])
            prepared(memory[:7], out=out)
            np.testing.assert_array_equal(out[0], expected[0])
            np.testing.assert_array_equal(out[1], expected[1])
    weights = np.arange(7.0)
    captured = ftrace.prepare(lambda x: x + weights[::-1], X)
    expected = X + weights[::-1]
    np.testing.assert_array_equal(captured(X, out=weights), expected)


def test_out_may_be_strided_and_unaligned_and_foreign_arrays_are_refused():
    prepared = ftrace.prepare(np.exp, X)
    strided = np.zeros(14)[::2]
    unaligned = np.zeros(8 * 7 + 1, np.uint8)[1:].view(np.float64)
    for out in (strided, unaligned):
        np.testing.assert_array_equal(prepared(X, out=out), prepared(X))
    frozen = np.zeros(7)
    frozen.flags.writeable = False
    for out, error, words in (
        (np.zeros(6), ShapeError, r"shape \(6,\)"),
        (np.zeros(7, np.float32), DtypeError, "float32"),
        (frozen, DtypeError, "read-only"),
        ([np.zeros(7)], TreeError, "structure"),
        (1.0, DtypeError, "no array"),
    ):
        with pytest.raises(error, match=words):
            prepared(X, out=out)


def test_programs_that_call_python_and_programs_without_kernels_are_written_too():
    def slow(x):
        return ftrace.pure_callback(lambda a: np.sort(a)[::-1], x, x) * 2.0

    for f in (slow, lambda x: np.linalg.inv(np.diag(x)) @ x, lambda x: x, lambda x: np.sort(x)):
        prepared = ftrace.prepare(f, X)
        out = prepared.empty()
        np.testing.assert_array_equal(prepared(X, out=out), prepared(X))
        assert not np.shares_memory(out, X)


def test_a_failing_row_raises_its_error_through_out():
    prepared = ftrace.prepare(lambda x: np.linalg.inv(x) + 1.0, np.eye(3))
    out = prepared.empty()
    np.testing.assert_array_equal(prepared(np.eye(3), out=out), np.eye(3) + 1.0)
    with pytest.raises(np.linalg.LinAlgError):
        prepared(np.zeros((3, 3)), out=out)
    np.testing.assert_array_equal(prepared(np.eye(3), out=out), np.eye(3) + 1.0)


def test_writing_results_allocates_no_arrays():
    x = np.ones((200, 200))

    def f(x):
        y = np.cumsum(np.exp(x), axis=0)
        return np.cumsum(y / np.sum(y), axis=1)

    prepared = ftrace.prepare(f, x)
    out = prepared.empty()
    assert ftrace.jit(f).lower(x).cost_analysis()["arena bytes"] > 1 << 16
    prepared(x, out=out)
    prepared(x, out=out)
    tracemalloc.start()
    try:
        prepared(x, out=out)
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        prepared(x, out=out)
        peak = tracemalloc.get_traced_memory()[1] - base
    finally:
        tracemalloc.stop()
    assert peak < 4096, peak
    np.testing.assert_array_equal(out, ftrace.jit(f)(x))


def test_threads_may_write_at_once():
    x = np.ones((60, 60))
    prepared = ftrace.prepare(lambda x: np.cumsum(np.cumsum(x, axis=0) * 2.0, axis=1), x)
    failures = []

    def work(k):
        out = prepared.empty()
        for _ in range(20):
            prepared(x * k, out=out)
            if not np.array_equal(out, prepared(x * k)):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_complex_and_empty_results():
    z = X + 1j
    prepared = ftrace.prepare(lambda z: (z * z, z[:0]), z)
    out = prepared.empty()
    prepared(z, out=out)
    np.testing.assert_array_equal(out[0], ftrace.jit(lambda z: z * z)(z))
    assert out[1].shape == (0,)
    assert ftrace.prepare(lambda: np.zeros(3))().shape == (3,)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(DtypeError, match="prepare takes a function"):
        ftrace.prepare(X, X)
