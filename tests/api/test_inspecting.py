"""`make_jaxpr`, `eval_shape`, `ShapeDtypeStruct`, settings."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.core.jaxpr import eval_jaxpr

X = np.array([0.5, -1.0, 2.0])


def test_a_jaxpr_is_printed_and_has_typed_inputs_and_outputs():
    jaxpr = ftrace.make_jaxpr(lambda x, n: (np.sin(x) * n, n))(X, np.int32(2))
    assert str(jaxpr).startswith("{ lambda a:f64[3] b:i32[] . let\n    c:f64[3] = sin a\n")
    assert [repr(a) for a in jaxpr.in_avals] == ["f64[3]", "i32[]"]
    assert [repr(a) for a in jaxpr.out_avals] == ["f64[3]", "i32[]"]
    np.testing.assert_array_equal(eval_jaxpr(jaxpr, [X, np.int32(2)])[0], np.sin(X) * 2)


def test_nothing_is_computed():
    jaxpr = ftrace.make_jaxpr(lambda x: np.linalg.norm(x) / 0.0)(X)
    assert jaxpr.eqns[-1].primitive.name == "div"


@pytest.mark.parametrize("static", [1, (1,), -1, [1]])
def test_static_arguments_are_python_values(static):
    jaxpr = ftrace.make_jaxpr(lambda x, n: x**n if n > 1 else x, static_argnums=static)(X, 3)
    assert [e.primitive.name for e in jaxpr.eqns] == ["integer_pow"]
    assert len(jaxpr.invars) == 1


def test_return_shape_gives_the_results_containers_too():
    jaxpr, shapes = ftrace.make_jaxpr(lambda x: {"y": x * 2, "n": 3}, return_shape=True)(X)
    assert shapes["y"] == ftrace.ShapeDtypeStruct((3,), float)
    assert shapes["n"] == ftrace.ShapeDtypeStruct((), np.int64)
    assert len(jaxpr.outvars) == 2


def test_keyword_arguments_are_inputs():
    jaxpr = ftrace.make_jaxpr(lambda x, *, s: x * s)(X, s=2.0)
    assert len(jaxpr.invars) == 2


def test_structs_stand_for_arrays():
    spec = {
        "x": ftrace.ShapeDtypeStruct((2, 3), np.float32),
        "n": ftrace.ShapeDtypeStruct((), "i4"),
    }
    out = ftrace.eval_shape(lambda p: (p["x"] @ p["x"].T, p["n"] + 1), spec)
    assert out == (
        ftrace.ShapeDtypeStruct((2, 2), np.float32),
        ftrace.ShapeDtypeStruct((), np.int32),
    )
    jaxpr = ftrace.make_jaxpr(lambda p: p["x"] * 2)(spec)
    assert [repr(v.aval) for v in jaxpr.invars] == ["i32[]", "f32[2,3]"]


def test_a_struct_is_a_value():
    s = ftrace.ShapeDtypeStruct([2, 3], "float32")
    assert s == ftrace.ShapeDtypeStruct((2, 3), np.float32)
    assert hash(s) == hash(ftrace.ShapeDtypeStruct((2, 3), np.float32))
    assert (s.shape, s.dtype, s.ndim, s.size) == ((2, 3), np.float32, 2, 6)
    assert s != ftrace.ShapeDtypeStruct((3, 2), np.float32)
    with pytest.raises(errors.DtypeError, match="object"):
        ftrace.ShapeDtypeStruct((2,), object)


def test_eval_shape_knows_no_values():
    with pytest.raises(errors.TracerIntegerConversionError):
        ftrace.eval_shape(lambda x: np.zeros(int(x)), 1.0)
    assert ftrace.eval_shape(lambda x: x if x > 0 else -x, 1.0).shape == ()
    large = ftrace.ShapeDtypeStruct((1 << 20, 1 << 20), float)
    assert ftrace.eval_shape(lambda x: np.sum(x @ x, axis=0), large).shape == (1 << 20,)


def test_eval_shape_of_a_transformed_function():
    spec = ftrace.ShapeDtypeStruct((5, 3), np.float32)
    out = ftrace.eval_shape(ftrace.vmap(ftrace.grad(lambda x: np.sum(x * x))), spec)
    assert out == spec


def test_numpy_and_ftrace_numpy_give_the_same_jaxpr():
    def with_numpy(x):
        return np.where(x > 0, np.sin(x), np.sum(x, axis=0)) + np.concatenate([x[:1], x[1:]])

    def with_ftrace(x):
        return fnp.where(x > 0, fnp.sin(x), fnp.sum(x, axis=0)) + fnp.concatenate([x[:1], x[1:]])

    assert str(ftrace.make_jaxpr(with_numpy)(X)) == str(ftrace.make_jaxpr(with_ftrace)(X))


def test_html_shows_the_text():
    jaxpr = ftrace.make_jaxpr(lambda x: x < 1.0)(X)
    assert jaxpr._repr_html_().startswith("<pre>{ lambda a:f64[3]")
    assert "<" not in jaxpr._repr_html_().removeprefix("<pre>").removesuffix("</pre>")


def test_settings_are_changed_for_a_while():
    assert not ftrace.config.current.disable_jit
    with ftrace.config.update(disable_jit=True):
        assert ftrace.config.current.disable_jit
    assert not ftrace.config.current.disable_jit
    with pytest.raises(ftrace.errors.ConfigError), ftrace.config.update(no_such_setting=1):
        pass


def test_arrays_and_tracers_are_instances_of_array():
    seen = []
    ftrace.jit(lambda x: (seen.append(isinstance(x, ftrace.Array)), x)[1])(X)
    ftrace.grad(lambda x: (seen.append(isinstance(x, ftrace.Array)), x)[1])(1.0)
    assert seen == [True, True]
    assert isinstance(X, ftrace.Array)
    assert not isinstance([1.0], ftrace.Array)


def test_everything_public_is_listed_and_loads():
    names = [n for n in dir(ftrace) if not n.startswith("_")]
    assert {"grad", "vmap", "jit", "lax", "numpy", "tree", "errors", "Array"} <= set(names)
    for name in names:
        assert getattr(ftrace, name) is not None
    with pytest.raises(AttributeError, match="no_such"):
        ftrace.no_such_name  # noqa: B018 - the access itself is the test
