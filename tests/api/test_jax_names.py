"""JAX's names and keywords: the same meaning, or an error that says what to use instead.

`jax_names.txt` has the public names of JAX 0.10.2, module by module, without its primitives.
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, lax
from ftrace.core.jax_names import ABSENT

FILE = Path(__file__).with_name("jax_names.txt")
X = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
M = np.arange(12.0).reshape(3, 4)


def lists() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("["):
            names = found[line.strip("[]")] = []
        else:
            names.extend(line.split())
    return found


def module_of(name: str) -> Any:
    return ftrace if name == "ftrace" else importlib.import_module(f"ftrace.{name}")


def is_told(module: Any, name: str) -> bool:
    try:
        getattr(module, name)
    except AttributeError as error:
        return isinstance(error, errors.AbsentNameError) and bool(error.fix)
    return True


@pytest.mark.parametrize("module", lists())
def test_every_name_of_jax_is_there_or_refused_with_advice(module: str) -> None:
    silent = [name for name in lists()[module] if not is_told(module_of(module), name)]
    assert not silent


@pytest.mark.parametrize("module", ABSENT)
def test_a_name_that_is_refused_is_not_there(module: str) -> None:
    found = module_of(module or "ftrace")
    for names in ABSENT[module]:
        for name in names.split():
            assert name not in vars(found), f"{module}.{name} is there, and refused"
            assert not hasattr(found, name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        found.nonsense  # noqa: B018


def test_primitives_are_told_by_the_name_of_their_function() -> None:
    with pytest.raises(errors.AbsentNameError, match=r"ftrace\.lax\.sin is"):
        lax.sin_p  # noqa: B018


def test_rows_have_the_name_of_a_function() -> None:
    for name in ("sin", "add", "max", "select", "dot_general", "gather", "reduce_sum", "sort"):
        assert getattr(lax, name).__name__ == name
    assert ftrace.jit(lax.sin)(1.0) == np.sin(1.0)


# ---------------------------------------------------------------------------------- keywords


def test_products_take_precision_and_the_type_that_is_added_up_in() -> None:
    small = np.array([100, 100], np.int8)
    for f in (fnp.dot, fnp.matmul, fnp.inner, fnp.vdot, fnp.vecdot, fnp.linalg.vecdot):
        for way in (lambda g: g, ftrace.jit):
            found = way(lambda x, f=f: f(x, x, precision="highest", preferred_element_type=int))(
                small
            )
            assert (found, found.dtype) == (20000, np.int64)
    narrow = {"preferred_element_type": np.float32}
    columns = ftrace.jit(lambda x: fnp.dot([[x[0]], [x[1]]], x[:1], **narrow))
    assert columns(np.ones(2)).dtype == np.float32
    wide = {"preferred_element_type": np.float64}
    single = M.astype(np.float32)
    for f in (
        lambda x: fnp.einsum("ij,kj", x, x, precision=lax.Precision.HIGH, **wide),
        lambda x: fnp.tensordot(x, x, axes=(1, 1), **wide),
        lambda x: fnp.matvec(x, x[0], **wide),
        lambda x: fnp.convolve(x[0], x[1], precision=None, **wide),
    ):
        assert f(single).dtype == ftrace.jit(f)(single).dtype == np.float64
        np.testing.assert_array_equal(ftrace.jit(f)(single), f(M))
    with pytest.raises(errors.DtypeError, match="given the precision 'much'"):
        fnp.dot(X, X, precision="much")
    assert ftrace.grad(lambda x: fnp.dot(x, x, precision="high"))(2.0) == 4.0


def test_keys_are_of_one_implementation() -> None:
    for make in (ftrace.random.key, ftrace.random.PRNGKey):
        np.testing.assert_array_equal(make(3, impl="threefry2x32"), make(3))
        with pytest.raises(errors.DomainError, match="impl='rbg'"):
            make(3, impl="rbg")


def test_arguments_without_derivative_are_given_by_name() -> None:
    def power(x: Any, n: Any) -> Any:
        return x**n

    forward = ftrace.custom_jvp(power, nondiff_argnames=("n",))
    forward.defjvp(lambda n, xs, ts: (xs[0] ** n, ts[0] * 10.0 * n))
    assert ftrace.grad(forward)(2.0, 3) == 30.0
    backward = ftrace.custom_vjp(power, nondiff_argnames="n")
    backward.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (ct * 10.0 * n,))
    assert ftrace.grad(backward)(2.0, 3) == 30.0
    with pytest.raises(errors.DtypeError, match="no argument called 'm'"):
        ftrace.custom_vjp(power, nondiff_argnames="m")


def test_options_of_jit_without_effect_are_taken_and_others_refused() -> None:
    f = ftrace.jit(np.sin, compiler_options={"xla_flag": True}, keep_unused=True, device=None)
    assert f(1.0) == np.sin(1.0)
    assert ftrace.jit(donate_argnames="x")(lambda x: x + 1)(1.0) == 2.0
    with pytest.raises(errors.ConfigError, match="device='gpu'"):
        ftrace.jit(np.sin, device="gpu")
    with pytest.raises(TypeError, match="unexpected keyword argument 'fast'"):
        ftrace.jit(np.sin, fast=True)


def test_settings_ask_for_what_is_done_anyway_or_are_refused() -> None:
    for context in (
        ftrace.numpy_rank_promotion("allow"),
        ftrace.numpy_dtype_promotion("standard"),
        ftrace.default_matmul_precision("float32"),
        ftrace.enable_x64(),
        ftrace.enable_checks(True),
        ftrace.named_scope("part"),
    ):
        with context:
            assert ftrace.jit(np.sin)(1.0) == np.sin(1.0)
    for name, value in (
        ("numpy_rank_promotion", "raise"),
        ("numpy_dtype_promotion", "strict"),
        ("enable_x64", False),
    ):
        with (
            pytest.raises(errors.ConfigError, match=name),
            getattr(ftrace, name)(value),
        ):
            pass
    with pytest.raises(TypeError, match="takes a name"):
        ftrace.named_scope(3)  # type: ignore[arg-type]
    assert ftrace.named_scope("part")(np.sin)(1.0) == np.sin(1.0)
    assert repr(ftrace.typeof(M)) == "f64[3,4]"


# ---------------------------------------------------------------------------------- functions


def test_a_linear_call_has_its_transpose_in_every_mode() -> None:
    calls = []

    def back(r: Any, ct: Any) -> Any:
        calls.append("back")
        return ct / r

    def f(x: Any, r: Any) -> Any:
        return ftrace.custom_derivatives.linear_call(lambda r, x: x / r, back, r, x)

    assert f(3.0, 4.0) == 0.75
    assert ftrace.jvp(lambda x: f(x, 4.0), (3.0,), (2.0,)) == (0.75, 0.5)
    assert not calls
    assert ftrace.jit(ftrace.grad(f))(3.0, 4.0) == 0.25
    assert calls
    np.testing.assert_allclose(ftrace.vmap(ftrace.grad(f), (0, None))(X, 4.0), 0.25 * np.ones(5))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_segments_are_reduced_as_by_hand(name: str) -> None:
    ids = np.array([2, 0, 2, 5, -1])
    f = getattr(ftrace.ops, f"segment_{name}")
    rows = {i: X[ids == i] for i in range(3)}
    empty = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[name]
    wanted = np.array([getattr(np, name)(v) if v.size else empty for v in rows.values()])
    np.testing.assert_array_equal(f(X, ids, 3), wanted)
    np.testing.assert_array_equal(ftrace.jit(f, static_argnums=2)(X, ids, 3), wanted)
    slope = ftrace.grad(lambda x: np.sum(f(x, ids, 3)[np.array([0, 2])]))(X)
    assert slope[3] == slope[4] == 0.0
    assert f(np.array([1, 2]), np.array([0, 1])).dtype == np.int64
    with pytest.raises(errors.ConcretizationTypeError, match="num_segments"):
        ftrace.jit(f)(X, ids)


def test_extremes_over_a_named_axis_have_derivatives() -> None:
    for over, fold in ((lax.pmax, np.max), (lax.pmin, np.min)):
        f = ftrace.vmap(lambda x, over=over: x * over(x, "i"), axis_name="i")
        np.testing.assert_array_equal(f(X), X * fold(X))
        np.testing.assert_array_equal(ftrace.jit(f)(X), X * fold(X))
        slope = ftrace.grad(lambda x, f=f: f(x).sum())(X)
        wanted = ftrace.grad(lambda x, fold=fold: (x * fold(x)).sum())(X)
        np.testing.assert_allclose(slope, wanted)

    def inside(x: Any) -> Any:
        return ftrace.grad(lambda t: lax.pmax(t, "i") ** 2)(x)

    np.testing.assert_array_equal(
        ftrace.vmap(inside, axis_name="i")(X), [0, 0, 0, 0, 50.0]
    )  # of all members together, as psum's
    with pytest.raises(errors.AxisError):
        lax.pmax(1.0, "i")


def test_extremes_over_an_outer_axis_are_those_of_its_members() -> None:
    x = np.array([[1.0, 5.0], [4.0, 2.0]])
    for over, fold in ((lax.pmax, np.max), (lax.pmin, np.min)):
        rows = ftrace.vmap(lambda t, over=over: over(t, "outer"), axis_name="inner")
        found = ftrace.vmap(rows, axis_name="outer")(x)
        np.testing.assert_array_equal(found, [fold(x, axis=0)] * 2)


def test_bits_and_ranks() -> None:
    for kind in (np.uint8, np.int16, np.uint32, np.int64):
        x = np.array([0, 1, 5, np.iinfo(kind).max], kind)
        bits = np.dtype(kind).itemsize * 8
        wanted = [bits - int(v).bit_length() for v in x]
        np.testing.assert_array_equal(lax.clz(x), np.array(wanted, kind))
        np.testing.assert_array_equal(ftrace.jit(lax.clz)(x), np.array(wanted, kind))
    a, b = np.array([-(1 << 30), 7, 1 << 30], np.int32), np.array([9, -5, 12], np.int32)
    wanted = (a.astype(np.int64) * b >> 32).astype(np.int32)
    np.testing.assert_array_equal(lax.mulhi(a, b), wanted)
    assert lax.dtype(1.0) == lax.dtype(np.float64) == np.float64
    assert lax.platform_dependent(X, cpu=np.sum, tpu=np.max) == X.sum()


def test_sequential_vmap_calls_once_for_each_member() -> None:
    f = ftrace.custom_batching.sequential_vmap(lambda x, y: x * y.sum())
    np.testing.assert_array_equal(ftrace.vmap(f, (0, None))(X, M), X * M.sum())
    np.testing.assert_array_equal(ftrace.vmap(f)(X[:3], M), X[:3] * M.sum(1))
