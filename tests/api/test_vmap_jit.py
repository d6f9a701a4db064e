"""The options of vmap, jit and the functions that look at programs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import AxisError, ShapeError, TreeError

A = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_in_axes_and_out_axes_place_the_mapped_axis(axis):
    got = ftrace.vmap(lambda x: x * 2.0, in_axes=axis, out_axes=axis)(A)
    np.testing.assert_array_equal(got, 2 * A)
    moved = ftrace.vmap(lambda x: x * 2.0, in_axes=axis, out_axes=0)(A)
    np.testing.assert_array_equal(moved, 2 * np.moveaxis(A, axis, 0))


def test_in_axes_may_be_trees_and_prefixes():
    params = {"w": A, "b": np.array([1.0, 2.0])}
    f = lambda p, x: np.sum(p["w"] * x) + p["b"]  # noqa: E731 - a short program
    got = ftrace.vmap(f, in_axes=({"w": 0, "b": 0}, None))(params, np.ones(3))
    np.testing.assert_array_equal(got, A.sum(1) + np.array([1.0, 2.0]))
    shared = ftrace.vmap(f, in_axes=({"w": 0, "b": None}, None))({"w": A, "b": 1.0}, np.ones(3))
    np.testing.assert_array_equal(shared, A.sum(1) + 1.0)
    np.testing.assert_array_equal(ftrace.vmap(f, in_axes=(0, None))(params, np.ones(3)), got)


def test_out_axes_may_be_a_tree_and_none_for_what_is_the_same():
    a, b = ftrace.vmap(lambda x: (x, np.float64(3.0)), out_axes=(1, None))(A)
    np.testing.assert_array_equal(a, A.T)
    assert b == 3.0
    with pytest.raises(TreeError, match="out_axes"):
        ftrace.vmap(lambda x: x, out_axes=None)(A)


def test_keyword_arguments_are_mapped_over_axis_zero():
    np.testing.assert_array_equal(ftrace.vmap(lambda x, y: x + y)(A, y=A), 2 * A)


def test_axis_size_serves_functions_without_mapped_arguments():
    np.testing.assert_array_equal(
        ftrace.vmap(lambda x: x, in_axes=None, axis_size=3)(2.0), np.full(3, 2.0)
    )


def test_collectives_refer_to_axes_by_name():
    x = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(
        ftrace.vmap(lambda v: v / ftrace.lax.psum(v, "i"), axis_name="i")(x), x / 8
    )
    np.testing.assert_allclose(
        ftrace.vmap(lambda v: v - ftrace.lax.pmean(v, "i"), axis_name="i")(x), x - x.mean()
    )
    np.testing.assert_array_equal(
        ftrace.vmap(lambda v: v * ftrace.lax.axis_index("i"), axis_name="i")(x), x * [0, 1, 2]
    )
    nested = ftrace.vmap(
        ftrace.vmap(lambda v: ftrace.lax.psum(v, "outer"), axis_name="inner"), axis_name="outer"
    )(A)
    np.testing.assert_array_equal(nested, np.broadcast_to(A.sum(0), (2, 3)))
    with pytest.raises(AxisError, match="outside any vmap"):
        ftrace.lax.psum(1.0, "i")


def test_collectives_have_derivatives_and_stage():
    x = np.array([1.0, 2.0, 5.0])
    f = ftrace.vmap(lambda v: v * ftrace.lax.psum(v, "i"), axis_name="i")
    gradient = ftrace.grad(lambda x: np.sum(f(x) * np.array([1.0, 2.0, 3.0])))(x)
    np.testing.assert_allclose(gradient, 8 * np.array([1.0, 2.0, 3.0]) + (x @ [1.0, 2.0, 3.0]))
    np.testing.assert_allclose(ftrace.jit(f)(x), x * 8)
    g = ftrace.vmap(ftrace.jit(lambda v: ftrace.lax.psum(v * v, "i")), axis_name="i")
    np.testing.assert_allclose(g(x), np.full(3, 30.0))


@pytest.mark.parametrize(
    ("kwargs", "args", "error", "words"),
    [
        ({}, (A, np.ones(3)), ShapeError, r"mapped axes differ in size: args\[0\] .* args\[1\]"),
        ({"in_axes": None}, (A,), ShapeError, "no argument is mapped, so the size is not known"),
        ({"in_axes": 5}, (A,), AxisError, r"was to map axis 5 of args\[0\]"),
        ({"in_axes": (0, 0, 0)}, (A, A), TreeError, "in_axes has 3 entries for 2 positional"),
        ({"in_axes": ({"a": 0},)}, ({"b": A},), TreeError, r"at in_axes\[0\]: .* missing 'a'"),
        ({"out_axes": 4}, (A,), AxisError, "out_axes of vmap is 4 for result, which has"),
    ],
)
def test_bad_axes_are_named_errors(kwargs, args, error, words):
    with pytest.raises(error, match=words):
        ftrace.vmap(lambda *xs: xs[0], **kwargs)(*args)


def test_static_arguments_are_python_values():
    def power(x, n, *, flip=False):
        y = x
        for _ in range(n - 1):
            y = y * x
        return -y if flip else y

    f = ftrace.jit(power, static_argnums=1, static_argnames="flip")
    assert f(2.0, 3) == 8.0
    assert f(2.0, 3, flip=True) == -8.0
    g = ftrace.jit(power, static_argnames=("n", "flip"))
    assert g(2.0, n=4) == 16.0
    assert g(2.0, 5) == 32.0
    with pytest.raises(TypeError, match="hash"):
        f(2.0, [3])


def test_static_values_that_compare_equal_but_differ_in_type_are_kept_apart():
    f = ftrace.jit(lambda x, n: x * n, static_argnums=1)
    assert f(np.float32(2), 1).dtype == np.float32
    assert f(np.float32(2), np.float64(1)).dtype == np.float64
    assert f(2, True) == 2


@dataclass
class Layer:
    """A dataclass whose methods are jitted: self is an ordinary argument."""

    w: Any

    @ftrace.jit
    def apply(self, x):
        return np.tanh(x @ self.w)


def test_methods_can_be_jitted_and_see_new_attributes():
    layer = Layer(np.eye(3))
    np.testing.assert_allclose(layer.apply(A), np.tanh(A))
    layer.w = 2 * np.eye(3)
    np.testing.assert_allclose(layer.apply(A), np.tanh(2 * A))
    gradient = ftrace.grad(lambda layer: np.sum(layer.apply(A)))(layer)
    assert type(gradient) is Layer


def test_jit_is_a_decorator_with_and_without_options():
    @ftrace.jit
    def f(x):
        return x + 1

    @ftrace.jit(static_argnums=1, donate_argnums=0, lift=False)
    def g(x, n):
        return x * n

    assert (f(1), g(2.0, 3)) == (2, 6.0)


def test_inlined_functions_leave_no_call_in_the_jaxpr():
    inner = ftrace.jit(lambda x: np.sin(x) * x, inline=True)
    assert "jit" not in str(ftrace.make_jaxpr(lambda x: inner(x) + 1.0)(np.ones(3)))
    kept = ftrace.named_call(lambda x: np.sin(x) * x, name="block")
    assert "name='block'" in str(ftrace.make_jaxpr(lambda x: kept(x) + 1.0)(np.ones(3)))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.float32(1.5), 2.0),
        (np.float32(1.5), np.float64(2)),
        (np.int8(3), 2),
        (np.int8(3), 2.5),
        (np.arange(3, dtype=np.uint8), np.arange(3, dtype=np.int8)),
        (np.array([True, False]), 1),
        (2, 3),
        (2, 3.0),
        (np.complex64(1j), 2.0),
    ],
)
@pytest.mark.parametrize(
    "f", [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x / (y + 1), np.maximum, np.hypot]
)
def test_promotion_under_jit_is_numpys(f, x, y):
    if f is np.maximum and np.iscomplexobj(x):
        y = np.complex64(y)
    try:
        expected = f(x, y)
    except TypeError:
        with pytest.raises(TypeError):
            ftrace.jit(f)(x, y)
        return
    actual = ftrace.jit(f)(x, y)
    np.testing.assert_array_equal(actual, expected)
    assert np.asarray(actual).dtype == np.asarray(expected).dtype


def test_shapes_and_dtypes_without_computing():
    def explode(x):
        return {"a": x @ x.T, "b": np.sum(x.astype(np.float32))}

    struct = ftrace.ShapeDtypeStruct((2, 3), np.float64)
    shapes = ftrace.eval_shape(explode, struct)
    assert shapes["a"] == ftrace.ShapeDtypeStruct((2, 2), np.float64)
    assert (shapes["b"].shape, shapes["b"].dtype, shapes["a"].size) == ((), np.float32, 4)
    jaxpr, shapes = ftrace.make_jaxpr(explode, return_shape=True)(struct)
    assert shapes["a"].ndim == 2
    assert len(jaxpr.outvars) == 2
    assert len(ftrace.make_jaxpr(lambda x, n: x[:n], static_argnums=1)(A, 1).invars) == 1


def test_disable_jit_runs_plain_python():
    seen = []
    f = ftrace.jit(lambda x: (seen.append(type(x)), x * 2)[1])
    with ftrace.disable_jit():
        assert f(3.0) == 6.0
    assert seen == [float]


def test_concrete_values_can_be_computed_while_tracing():
    def f(x):
        with ftrace.ensure_compile_time_eval():
            n = int(fnp.sum(fnp.ones(3)))
        return x * n

    assert ftrace.jit(f)(2.0) == 6.0
    assert ftrace.vmap(f)(np.ones(2)).tolist() == [3.0, 3.0]


def test_block_until_ready_returns_its_argument():
    tree = {"a": A}
    assert ftrace.block_until_ready(tree) is tree


def test_users_own_primitives_take_part_in_everything():
    from ftrace.primitives.elementwise import mul

    cube = ftrace.Primitive(
        name="cube",
        impl=lambda x: x**3,
        type=lambda x: x,
        jvp=lambda p, t: (cube(*p), mul(t[0], mul(3.0, mul(p[0], p[0])))),
        transpose=lambda ct, x: (ct,),
        batch=lambda axis, values, dims: (cube(*values), dims[0]),
        doc="x cubed.",
    )
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(ftrace.grad(lambda x: np.sum(cube(x)))(x), 3 * x**2)
    np.testing.assert_array_equal(ftrace.jit(ftrace.vmap(ftrace.grad(cube)))(x), 3 * x**2)
    np.testing.assert_array_equal(ftrace.hessian(lambda x: np.sum(cube(x)))(x), np.diag(6 * x))
    assert "cube" in str(ftrace.make_jaxpr(cube)(x))


def test_arrays_and_tracers_are_ftrace_arrays():
    assert isinstance(A, ftrace.Array)
    assert isinstance(np.float64(1), ftrace.Array)
    assert not isinstance([1.0], ftrace.Array)
    seen = []
    ftrace.jit(lambda x: (seen.append(isinstance(x, ftrace.Array)), x)[1])(A)
    assert seen == [True]
