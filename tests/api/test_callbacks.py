"""Host functions in programs: pure_callback, io_callback, debug.print, callback and breakpoint."""

import bdb
import io
import pdb
import sys

import numpy as np
import pytest

import ftrace
from ftrace import debug, errors, grad, jit, lax, vmap

F8 = ftrace.ShapeDtypeStruct((), np.float64)
MODES = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])


def lines(capsys):
    return capsys.readouterr().out.splitlines()


# ---------------------------------------------------------------------------------- printing


def talking(x):
    debug.print("x = {}", x)
    y = np.sin(x) * x
    debug.print("y = {y:.3f} {word}", y=y, word="here")
    return y * y


ONE = ["x = 0.5", "y = 0.240 here"]
WAYS = {
    "eager": lambda f: f(0.5),
    "jit": lambda f: jit(f)(0.5),
    "jit of jit": lambda f: jit(lambda x: jit(f)(x))(0.5),
    "jvp": lambda f: ftrace.jvp(f, (0.5,), (1.0,)),
    "linearize": lambda f: ftrace.linearize(f, 0.5)[1](1.0),
    "vjp": lambda f: ftrace.vjp(f, 0.5)[1](1.0),
    "grad": lambda f: grad(f)(0.5),
    "jit of grad": lambda f: jit(grad(f))(0.5),
    "grad of jit": lambda f: grad(jit(f))(0.5),
    "grad of grad": lambda f: grad(grad(f))(0.5),
    "hessian": lambda f: ftrace.hessian(f)(0.5),
    "jit of grad of grad of jit": lambda f: jit(grad(grad(jit(f))))(0.5),
    "jacfwd": lambda f: ftrace.jacfwd(f)(0.5),
    "a branch": lambda f: lax.cond(True, f, lambda x: x, 0.5),
    "grad of a branch under jit": lambda f: jit(grad(lambda x: lax.cond(x > 0, f, lambda x: x, x)))(
        0.5
    ),
    "vmap of one member": lambda f: vmap(f)(np.array([0.5])),
    "vmap of what is not mapped": lambda f: vmap(lambda x, y: f(x) + y, (None, 0))(0.5, np.ones(3)),
    "a custom rule": lambda f: grad(with_rule(f))(0.5),
}


def with_rule(f):
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda p, t: (f(*p), t[0]))
    return g


@MODES
@pytest.mark.parametrize("way", WAYS)
def test_a_program_prints_primal_values_once_in_order(way, compiled, capsys):
    with ftrace.config.update(compile=compiled):
        WAYS[way](talking)
    assert lines(capsys) == ONE


@MODES
@pytest.mark.parametrize(
    "way",
    [vmap, lambda f: jit(vmap(f)), lambda f: vmap(grad(f)), lambda f: jit(vmap(grad(jit(f))))],
    ids=["vmap", "jit of vmap", "vmap of grad", "jit of vmap of grad of jit"],
)
def test_vmap_prints_once_per_member(way, compiled, capsys):
    with ftrace.config.update(compile=compiled):
        way(talking)(np.array([0.5, 1.0]))
    assert lines(capsys) == ["x = 0.5", "x = 1.0", "y = 0.240 here", "y = 0.841 here"]


def test_nested_vmap_prints_the_inner_axis_first(capsys):
    vmap(vmap(lambda x: debug.print("{}", x)))(np.array([[1, 2], [3, 4]]))
    assert lines(capsys) == ["1", "2", "3", "4"]


def test_a_compiled_function_prints_at_every_call_with_its_values(capsys):
    f = jit(lambda x: debug.print("{}", x))
    f(np.float64(1.0))
    f(np.float64(2.0))
    assert lines(capsys) == ["1.0", "2.0"]


def test_a_compiled_function_without_operands_for_it_prints_at_every_call(capsys):
    @jit
    def f(x):
        debug.print("called")
        debug.print("constant {}", 3)
        return x * 2

    assert [float(f(1.0)), float(f(2.0))] == [2.0, 4.0]
    assert lines(capsys) == ["called", "constant 3"] * 2


@MODES
def test_a_loop_prints_at_every_step_and_a_branch_where_it_is_taken(compiled, capsys):
    def body(carry):
        i, x = carry
        debug.print("{} {}", i, x)
        x = lax.cond(i == 1, lambda v: (debug.print("one"), v)[1], lambda v: v * 2.0, x)
        return i + 1, x

    def f(x):
        return lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1]

    with ftrace.config.update(compile=compiled):
        assert float(jit(f)(1.5)) == 6.0
        told = ["0 1.5", "1 3.0", "one", "2 3.0"]
        assert lines(capsys) == told
        assert float(ftrace.jvp(jit(f), (1.5,), (1.0,))[1]) == 4.0
        assert lines(capsys) == told


@MODES
def test_a_mapped_branch_prints_for_its_own_members(compiled, capsys):
    def positive(x):
        debug.print("positive {}", x)
        return x * x

    def negative(x):
        debug.print("negative {}", x)
        return 3 * x

    f = vmap(lambda x: lax.cond(x > 0, positive, negative, x))
    x = np.array([1.0, -2.0, 4.0])
    told = ["positive 1.0", "negative -2.0", "positive 4.0"]
    with ftrace.config.update(compile=compiled):
        np.testing.assert_array_equal(f(x), [1.0, -6.0, 16.0])
        assert lines(capsys) == told
        np.testing.assert_array_equal(jit(f)(x), [1.0, -6.0, 16.0])
        assert lines(capsys) == told
        np.testing.assert_array_equal(grad(lambda v: f(v).sum())(x), [2.0, 3.0, 8.0])
        assert lines(capsys) == told
        np.testing.assert_array_equal(
            jit(vmap(grad(lambda x: lax.cond(x > 0, positive, negative, x))))(x), [2.0, 3.0, 8.0]
        )
        assert lines(capsys) == told


def test_a_mapped_branch_with_effects_over_no_member_runs_nothing(capsys):
    f = vmap(lambda x: lax.cond(x > 0, talking, lambda x: x, x))
    assert f(np.zeros(0)).shape == (0,)
    assert lines(capsys) == []


def test_containers_and_other_values_are_shown_as_they_are(capsys):
    def f(p):
        debug.print("{} {} {}", p, {"k": p["w"][0]}, None)
        return p["w"].sum()

    grad(f)({"w": np.array([1.0, 2.0])})
    assert lines(capsys) == ["{'w': array([1., 2.])} {'k': np.float64(1.0)} None"]


@pytest.mark.parametrize(
    ("args", "phrase"),
    [
        (("{} {}", 1.0), "does not fit its 1 positional and 0 named arguments"),
        (("{y}", 1.0), "KeyError: 'y'"),
        (("{", 1.0), "does not fit"),
        (("x =", 1.0), r"was given args\[0\], for which its format has no place"),
        ((1.0,), "takes a format first, and was given a float"),
    ],
)
def test_a_format_is_checked_when_the_program_is_traced(args, phrase):
    with pytest.raises(errors.CallbackError, match=phrase):
        jit(lambda x: debug.print(*args))(2.0)


def test_an_unused_named_argument_is_named():
    with pytest.raises(errors.CallbackError, match="was given y, for which"):
        debug.print("{}", 1.0, y=2.0)


# ---------------------------------------------------------------------------------- callback


@MODES
def test_effects_happen_in_program_order_between_kernels(compiled):
    seen = []

    @jit
    def f(x):
        debug.callback(lambda v: seen.append(("first", v.sum())), x)
        y = np.sin(x) @ x
        ftrace.io_callback(lambda v: seen.append(("second", float(v))), None, y)
        z = (x * y).sum()
        debug.callback(lambda v: seen.append(("third", float(v))), z, ordered=True)
        debug.callback(lambda: seen.append(("fourth",)))
        return x + 1

    x = np.array([0.5, -1.0])
    y = float(np.sin(x) @ x)
    with ftrace.config.update(compile=compiled):
        for _ in range(2):
            seen.clear()
            f(x)
            assert [s[0] for s in seen] == ["first", "second", "third", "fourth"]
            np.testing.assert_allclose([s[1] for s in seen[:3]], [-0.5, y, -0.5 * y], rtol=1e-14)


def test_what_a_callback_returns_is_dropped():
    assert debug.callback(lambda x: x, 1.0) is None


def test_a_callback_keeps_what_a_compiled_program_gave_it():
    seen = []
    f = jit(lambda x: (debug.callback(seen.append, x * 2), x.sum())[1])
    for k in range(3):
        f(np.arange(4.0) + k)
    np.testing.assert_array_equal(seen, [2 * (np.arange(4.0) + k) for k in range(3)])


def test_a_callback_is_no_function():
    with pytest.raises(errors.DtypeError, match=r"debug\.callback takes a function first"):
        debug.callback(3.0)


# ---------------------------------------------------------------------------------- stopping


def stopped(way, *args, commands="p y\nc\np y\nc\n"):
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=out)

    def f(x):
        y = {"a": x * x}
        debug.breakpoint(debugger=debugger)
        return y["a"]

    return way(f)(*args), out.getvalue()


@MODES
def test_a_breakpoint_shows_concrete_locals_at_the_users_line(compiled):
    with ftrace.config.update(compile=compiled):
        value, text = stopped(lambda f: jit(grad(f)), np.float64(3.0), commands="p y\np x\nw\nc\n")
    assert float(value) == 6.0
    assert "{'a': np.float64(9.0)}" in text
    assert "(Pdb) np.float64(3.0)" in text
    assert "test_callbacks.py" in text
    assert "f()" in text
    assert "-> debug.breakpoint(" in text


def test_a_breakpoint_stops_for_every_member():
    _, text = stopped(vmap, np.array([1.0, 2.0]))
    assert text.count("-> debug.breakpoint(") == 2
    assert text.index("np.float64(1.0)") < text.index("np.float64(4.0)")


def test_stepping_past_the_line_goes_on_without_the_debugger():
    before = sys.gettrace()
    value, text = stopped(jit, 3.0, commands="n\nn\nn\nn\n")
    assert sys.gettrace() is before
    assert value == 9.0
    assert text.count("(Pdb)") == 2


def test_quitting_the_debugger_ends_the_program():
    with pytest.raises(bdb.BdbQuit):
        stopped(jit, 3.0, commands="q\n")


# ---------------------------------------------------------------------------------- pure_callback


def opaque_sin(x):
    assert not isinstance(x, np.ndarray) or not x.flags.writeable
    return np.array([np.sin(v) for v in np.ravel(x)]).reshape(np.shape(x))


def sin(x):
    return ftrace.pure_callback(opaque_sin, ftrace.ShapeDtypeStruct(x.shape, x.dtype), x)


@MODES
def test_a_pure_callback_is_its_function(compiled):
    x = np.array([[0.5, -1.0, 2.0], [0.0, 3.0, 1.0]])
    with ftrace.config.update(compile=compiled):
        np.testing.assert_array_equal(sin(x), np.sin(x))
        np.testing.assert_array_equal(jit(lambda x: sin(x) * 2)(x), np.sin(x) * 2)
        np.testing.assert_array_equal(vmap(sin)(x), np.sin(x))
        np.testing.assert_array_equal(vmap(sin, 1, 1)(x), np.sin(x))
        np.testing.assert_array_equal(jit(vmap(vmap(sin)))(x), np.sin(x))
        np.testing.assert_array_equal(vmap(sin)(x[:0]), x[:0])
        assert type(jit(sin)(np.float64(1.0))) is np.float64


METHODS = {
    "sequential": [((2,), (3,))] * 4,
    "expand_dims": [((4, 2), (1, 3))],
    "broadcast_all": [((4, 2), (4, 3))],
    "legacy_vectorized": [((4, 2), (3,))],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("transformed", [vmap, lambda f, a, o: jit(vmap(f, a, o))])
def test_vmap_methods_give_the_function_what_they_say(method, transformed):
    shapes = []

    def fn(x, y):
        shapes.append((x.shape, y.shape))
        return (x.sum(-1) * y.sum(-1), x * 2)

    def f(x, y):
        promise = (F8, ftrace.ShapeDtypeStruct((2,), np.float64))
        return ftrace.pure_callback(fn, promise, x, y, vmap_method=method)

    x, y = np.arange(8.0).reshape(2, 4), np.arange(3.0)
    total, twice = transformed(f, (1, None), (0, 1))(x, y)
    np.testing.assert_array_equal(total, x.sum(0) * 3)
    np.testing.assert_array_equal(twice, 2 * x)
    assert shapes == METHODS[method]


@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all"])
def test_nested_vmap_adds_one_leading_axis_after_the_other(method):
    shapes = []

    def fn(x, y):
        shapes.append((x.shape, y.shape))
        return x * y

    def f(x, y):
        return ftrace.pure_callback(fn, F8, x, y, vmap_method=method)

    x, y = np.arange(2.0), np.arange(3.0)
    table = vmap(vmap(f, (None, 0)), (0, None))(x, y)
    np.testing.assert_array_equal(table, np.outer(x, y))
    assert shapes == [((2, 1), (1, 3)) if method == "expand_dims" else ((2, 3), (2, 3))]


def test_an_unknown_vmap_method_is_named():
    with pytest.raises(errors.CallbackError, match="vmap_method of pure_callback must be one of"):
        ftrace.pure_callback(np.sin, F8, 1.0, vmap_method="fast")


def test_containers_keywords_and_python_numbers_pass():
    def fn(p, *, scale):
        return {"a": p["w"] * scale, "b": 3}

    promise = {
        "a": ftrace.ShapeDtypeStruct((2,), np.float32),
        "b": ftrace.ShapeDtypeStruct((), np.int32),
    }
    w = np.array([1, 2], np.float32)
    out = jit(lambda p: ftrace.pure_callback(fn, promise, p, scale=np.float32(2)))({"w": w})
    np.testing.assert_array_equal(out["a"], 2 * w)
    assert (out["b"], out["b"].dtype) == (3, np.int32)


BROKEN = {
    "shape": (lambda x: np.ones(3), r"promised f64\[\] as result and returned f64\[3\]"),
    "dtype": (lambda x: np.float32(x), r"promised f64\[\] as result and returned f32\[\]"),
    "number": (lambda x: 1j, r"promised f64\[\] as result and returned c128\[\]"),
    "tree": (lambda x: (x, x), "differ from those it promised at result: expected a leaf"),
    "nothing": (lambda x: None, "differ from those it promised"),
    "text": (lambda x: "text", r"promised f64\[\] as result and returned 'text'"),
}


@MODES
@pytest.mark.parametrize("case", BROKEN)
def test_a_result_that_was_not_promised_is_named(case, compiled):
    fn, phrase = BROKEN[case]
    with (
        ftrace.config.update(compile=compiled),
        pytest.raises(errors.CallbackError, match=phrase) as caught,
    ):
        jit(lambda x: ftrace.pure_callback(fn, F8, x) + 1)(np.float64(2.0))
    assert "test_callbacks.py" in caught.value.where


@pytest.mark.parametrize("number", [True, 2, 2.5, 2j])
def test_a_number_promises_a_number_of_its_kind(number):
    found = jit(lambda x: ftrace.pure_callback(lambda v: number, number, x))(1.0)
    assert (found, found.dtype) == (number, np.asarray(number).dtype)


def test_a_promise_must_describe_an_array():
    with pytest.raises(errors.CallbackError, match="result_shape_dtypes is 'float', which"):
        ftrace.pure_callback(np.sin, "float", 1.0)


@MODES
def test_an_exception_passes_through_with_a_note(compiled):
    def fn(x):
        if x > 1:
            raise KeyError("my own")
        return x

    f = jit(lambda x: ftrace.pure_callback(fn, F8, x) * 2)
    with ftrace.config.update(compile=compiled):
        with pytest.raises(KeyError, match="my own") as caught:
            f(2.0)
        (note,) = caught.value.__notes__
        assert note.startswith("Raised in pure_callback of fn, called at ")
        assert "test_callbacks.py" in note
        assert float(f(0.5)) == 1.0


@MODES
def test_results_are_the_callers_own(compiled):
    buffer = np.zeros(3)

    def fn(x):
        buffer[:] = x
        return buffer

    def f(x):
        return ftrace.pure_callback(fn, ftrace.ShapeDtypeStruct((3,), float), x)

    with ftrace.config.update(compile=compiled):
        g = jit(lambda x: (f(x), f(x + 1)))
        first, second = g(np.zeros(3))
        assert (first[0], second[0]) == (0.0, 1.0)
        assert f(np.ones(3)) is not buffer
        identity = ftrace.pure_callback(lambda x: x, ftrace.ShapeDtypeStruct((3,), float), buffer)
        assert identity.flags.writeable
        assert identity.flags.owndata
        assert not np.shares_memory(identity, buffer)


def test_writing_an_argument_is_refused():
    def fn(x):
        x[0] = 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        ftrace.pure_callback(fn, ftrace.ShapeDtypeStruct((2,), float), np.zeros(2))


def test_a_host_function_may_call_ftrace():
    def fn(x):
        return jit(grad(lambda v: v * v * v))(x)

    f = jit(lambda x: ftrace.pure_callback(fn, F8, x) + 1)
    assert float(f(2.0)) == 13.0
    assert float(f(3.0)) == 28.0


@MODES
def test_an_unread_pure_callback_may_go_and_an_io_callback_stays(compiled):
    seen = []

    def fn(name):
        return lambda x: seen.append(name) or 1.0

    @jit
    def f(x):
        ftrace.pure_callback(fn("pure"), F8, x)
        ftrace.io_callback(fn("io"), F8, x)
        return x

    with ftrace.config.update(compile=compiled):
        f(1.0)
    assert seen == ["io"]


NO_DERIVATIVE = {
    "grad": lambda f: grad(f),
    "jvp": lambda f: lambda x: ftrace.jvp(f, (x,), (1.0,)),
    "grad of jit": lambda f: grad(jit(f)),
    "jit of grad": lambda f: jit(grad(f)),
    "grad of vmap": lambda f: lambda x: grad(lambda v: vmap(f)(v).sum())(np.array([x])),
    "vmap of grad": lambda f: lambda x: vmap(grad(f))(np.array([x])),
}


@pytest.mark.parametrize("way", NO_DERIVATIVE)
@pytest.mark.parametrize("call", [ftrace.pure_callback, ftrace.io_callback])
def test_a_derivative_through_a_callback_names_it_and_its_line(way, call):
    def my_function(x):
        return x

    with pytest.raises(errors.RuleError, match="callback of my_function: it is opaque") as caught:
        NO_DERIVATIVE[way](lambda x: x * call(my_function, F8, x))(2.0)
    line = my_function.__code__.co_firstlineno
    assert f"note: my_function is defined at {__file__}:{line}" in caught.value.what
    assert "call(my_function, F8, x)" in caught.value.where
    assert "custom_jvp" in caught.value.fix
    assert "ftrace.external" in caught.value.fix


def test_results_without_tangents_are_no_obstacle():
    index = ftrace.ShapeDtypeStruct((), np.int64)

    def f(x):
        i = ftrace.pure_callback(np.argmax, index, x)
        ftrace.io_callback(lambda v: None, None, x)
        return (x * i)[0] ** 2 + ftrace.pure_callback(np.sum, F8, lax.stop_gradient(x))

    for g in (grad(f), jit(grad(f)), grad(jit(f))):
        np.testing.assert_array_equal(g(np.array([1.0, 2.0, 3.0])), [8.0, 0.0, 0.0])


@pytest.mark.parametrize("call", [ftrace.pure_callback, ftrace.io_callback])
def test_several_results_without_tangents_are_no_obstacle(call):
    counts = (ftrace.ShapeDtypeStruct((), np.int64), ftrace.ShapeDtypeStruct((2,), np.bool_))

    def f(x):
        i, flags = call(lambda v: (np.argmax(v), v[:2] > 1.5), counts, x)
        return (x * i)[0] ** 2 + (x[:2] * flags).sum()

    for g in (grad(f), jit(grad(f)), grad(jit(f))):
        np.testing.assert_array_equal(g(np.array([1.0, 2.0, 3.0])), [8.0, 1.0, 0.0])


def test_a_callback_inside_a_rule_is_differentiated_by_the_rule():
    f = ftrace.custom_jvp(sin)
    f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * t[0]))
    x = np.float64(0.5)
    np.testing.assert_allclose(grad(f)(x), np.cos(x), rtol=1e-15)
    np.testing.assert_allclose(jit(grad(grad(f)))(x), -np.sin(x), rtol=1e-15)
    np.testing.assert_allclose(vmap(grad(jit(f)))(np.array([x])), [np.cos(x)], rtol=1e-15)
    np.testing.assert_allclose(ftrace.jvp(f, (x,), (1.0,))[1], np.cos(x), rtol=1e-15)


def test_a_callback_on_tangents_has_no_transpose():
    f = ftrace.custom_jvp(np.sin)
    f.defjvp(lambda p, t: (f(*p), ftrace.pure_callback(lambda v: 2 * v, F8, t[0])))
    assert float(ftrace.jvp(f, (0.5,), (1.0,))[1]) == 2.0
    with pytest.raises(errors.RuleError, match="on tangents, whose transpose is not known"):
        grad(f)(0.5)


# ---------------------------------------------------------------------------------- io_callback


@MODES
def test_an_io_callback_runs_once_per_member_in_order(compiled):
    seen = []

    def fn(x):
        seen.append(float(x))
        return x * 2

    def f(x):
        return ftrace.experimental.io_callback(fn, F8, x, ordered=True)

    x = np.array([1.0, 5.0, 3.0])
    with ftrace.config.update(compile=compiled):
        np.testing.assert_array_equal(jit(vmap(f))(x), 2 * x)
    assert seen == [1.0, 5.0, 3.0]


@MODES
def test_a_stateful_function_is_asked_each_time_of_a_loop(compiled):
    generator = iter(range(100))

    def draw():
        return ftrace.io_callback(lambda: float(next(generator)), F8)

    @jit
    def f(n):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + draw()), (0, 0.0))[1]

    with ftrace.config.update(compile=compiled):
        assert float(f(4)) == 0 + 1 + 2 + 3
        assert float(f(3)) == 4 + 5 + 6


def test_effects_are_in_the_jaxpr():
    def f(x):
        ftrace.io_callback(lambda v: None, None, x, ordered=True)
        debug.print("{}", x)
        return x

    jaxpr = ftrace.make_jaxpr(jit(f))(1.0)
    (call,) = jaxpr.eqns
    inner = call.params["jaxpr"].eqns
    assert [(e.primitive.name, set(e.effects)) for e in inner] == [
        ("io_callback", {"ordered"}),
        ("debug_callback", {"unordered"}),
    ]
    assert jaxpr.effects == {"ordered", "unordered"}
    assert "io_callback[host=<lambda> ordered=True] a" in str(jaxpr)


def test_effects_in_a_checkpoint_are_refused():
    with pytest.raises(errors.RuleError, match="would repeat the effects"):
        grad(ftrace.checkpoint(talking))(0.5)
