"""`saved_residuals`: the arrays between the passes, where they come from, what they weigh."""

import tracemalloc

import numpy as np
import pytest

import ftrace
from ftrace import checkpoint, checkpoint_name, errors, jit, lax, saved_residuals, vjp
from ftrace import checkpoint_policies as policies
from ftrace.core import source

rng = np.random.default_rng(5)
BIG = rng.normal(size=(150, 150)) / 12.0
DATA = rng.normal(size=(150, 120))
SMALL = rng.normal(size=(20, 20))


@pytest.fixture(autouse=True)
def interpreted(request):
    """Only tests about compiled code compile."""
    with ftrace.config.update(compile="compiled" in request.node.name):
        yield


def mlp(x):
    for _ in range(3):
        x = np.tanh(BIG @ x)
    return np.sum(x)


def views(x):
    y = x.T[10:].reshape(-1, 10) * 2.0
    return np.sum(np.sin(y[::2]) * y[1::2]) + np.sum(x[5:] ** 2) + np.sum(x[:-5] ** 3)


def same_twice(x):
    y = np.exp(x)
    return np.sum(y * y) + np.sum(y * np.cos(y))


def softmax(x):
    e = np.exp(x - np.max(x, axis=0))
    return np.sum((e / np.sum(e, axis=0)) ** 2)


def choices(x):
    y = np.where(x > 0, np.sqrt(np.abs(x)), np.sin(x))
    return np.sum(lax.cond(np.sum(y) > 0, np.cos, np.exp, y) ** 2)


def calls(x):
    return np.sum(jit(lambda v: np.tanh(BIG @ v) * np.cos(v))(np.sin(x)))


def indexed(x):
    return np.sum(np.sort(x, axis=0)[rng_index] ** 3)


rng_index = rng.integers(0, 150, size=300)


def single(x):
    return np.sum(np.exp(x.astype(np.float32)) ** 2)


def parameters(p):
    return np.sum(np.tanh(p["w"] @ DATA + p["b"]) * p["s"])


def written(x):
    y = x * 1.0
    y[3:9] = np.sin(y[:6])
    y *= x
    return np.sum(y)


PARAMETERS = {"w": BIG.copy(), "b": np.ones((150, 1)), "s": 2.0}

MEASURED = {
    "mlp": (mlp, DATA),
    "views": (views, DATA),
    "one array read twice": (same_twice, DATA),
    "softmax": (softmax, DATA),
    "where and cond": (choices, DATA),
    "jit inside": (calls, DATA),
    "jit outside": (jit(mlp), DATA),
    "indices": (indexed, DATA),
    "float32": (single, DATA),
    "a dict of parameters": (parameters, PARAMETERS),
    "writes": (written, DATA),
    "checkpoint": (checkpoint(mlp), DATA),
    "checkpoint of dots": (checkpoint(mlp, policy=policies.dots_saveable), DATA),
    "budget": (checkpoint(mlp, budget=800_000), DATA),
    "layers": (lambda x: np.sum(checkpoint(calls)(checkpoint(np.sin)(x)) * x), DATA),
}


def measured(fun, argument):
    """What tracemalloc sees alive between the passes."""
    vjp(fun, argument)  # traced and derived once, so that only arrays are new
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        y, pull = vjp(fun, argument)
        del y
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert callable(pull)
    return after - before


@pytest.mark.parametrize("case", MEASURED)
def test_the_bytes_are_those_that_are_measured(case):
    fun, argument = MEASURED[case]
    assert saved_residuals(fun, argument).bytes == pytest.approx(measured(fun, argument), rel=0.1)


@pytest.mark.parametrize("case", ["jit outside", "checkpoint of dots", "budget"])
def test_the_bytes_of_compiled_functions_are_those_that_are_measured(case):
    fun, argument = MEASURED[case]
    assert saved_residuals(fun, argument).bytes == pytest.approx(measured(fun, argument), rel=0.1)


@pytest.mark.parametrize("case", MEASURED)
def test_every_residual_has_an_origin(case):
    fun, argument = MEASURED[case]
    for r in saved_residuals(fun, argument):
        assert r.name != "unknown"
        assert r.kind in ("argument", "captured", "named", "intermediate")
        assert r.why.startswith("read by ")
        assert (r.place == "") == (r.kind == "argument")
        assert "test_residuals.py" in r.place or r.kind == "argument"


def test_records_say_name_shape_dtype_bytes_line_and_reason():
    def f(x, w):
        h = checkpoint_name(np.sin(w @ x["in"]), "hidden")  # line 1
        return np.sum(h * h * SMALL[0])  # line 3

    first = f.__code__.co_firstlineno
    found = saved_residuals(f, {"in": SMALL[1]}, w=SMALL)
    by_name = {r.name: r for r in found}
    assert set(by_name) == {"x['in']", "w", "cos", "hidden", "SMALL"}
    w = by_name["w"]
    assert (w.kind, w.shape, w.dtype, w.bytes) == ("argument", (20, 20), np.float64, 3200)
    cos = by_name["cos"]
    assert (cos.kind, cos.bytes, cos.why) == ("intermediate", 160, "read by mul")
    assert f"test_residuals.py:{first + 1}: h = checkpoint_name" in cos.place
    assert by_name["hidden"].kind == "named"
    assert f":{first + 2}: return np.sum" in by_name["SMALL"].place
    assert by_name["SMALL"].kind == "captured"


@pytest.mark.parametrize("wrap", [jit, checkpoint, lambda f: jit(jit(f))])
def test_lines_are_the_users_inside_calls_too(wrap):
    def inner(v):
        y = np.sin(SMALL @ v)
        return np.exp(y)  # two lines below

    outer = wrap(inner)
    if wrap is checkpoint:
        outer = checkpoint(inner, policy=policies.everything_saveable)
    first = inner.__code__.co_firstlineno
    lines = {
        r.name: r.place.rpartition("test_residuals.py:")[2].partition(":")[0]
        for r in saved_residuals(lambda x: np.sum(outer(x)), 2.0 * SMALL)
    }
    assert lines["cos"] == str(first + 1)
    assert lines["exp"] == str(first + 2)
    assert lines["captured array"] == str(first + 1)


def test_derived_jaxprs_keep_the_users_lines():
    def f(x):
        y = np.sin(x)
        return np.exp(y) * y

    g = jit(f)
    first = f.__code__.co_firstlineno
    jaxpr = ftrace.make_jaxpr(lambda x: ftrace.jvp(g, (x,), (x,)))(1.0)
    (call,) = [e for e in jaxpr.eqns if e.primitive.name == "jit"]
    lines = {e.primitive.name: source.line_of(e.source) - first for e in call.params["jaxpr"].eqns}
    assert (lines["sin"], lines["cos"], lines["exp"], lines["add"]) == (1, 1, 2, 2)


def test_policies_and_budgets_are_given_as_reasons():
    def why(**options):
        return {r.why for r in saved_residuals(checkpoint(mlp, **options), DATA)}

    assert why() == {"read by checkpoint"}
    assert "read by checkpoint with policy dots_saveable" in why(policy=policies.dots_saveable)
    assert "read by checkpoint with a budget of 800,000 bytes" in why(budget=800_000)


def test_memory_that_two_residuals_share_counts_once():
    def f(x):
        y = np.exp(x)
        return np.sum(y[10:] * y[:-10])

    found = saved_residuals(f, DATA)
    slices = [r.bytes for r in found if r.shape == (140, 120)]
    assert slices == [0, 0]  # of the exponential, which is kept itself
    assert found.bytes == DATA.nbytes
    assert found.bytes == pytest.approx(measured(f, DATA), rel=0.1)


def test_functions_that_need_values_are_listed_too():
    def f(x):
        while np.sum(x) > 1.0:
            x = np.sin(x) * 0.5
        return np.sum(x)

    names = [r.name for r in saved_residuals(f, np.full(100, 2.0))]
    assert set(names) == {"cos"}
    assert len(names) >= 3


def test_a_linear_function_keeps_nothing():
    found = saved_residuals(lambda x: np.sum(x) * 2.0, DATA)
    assert (len(found), found.bytes, repr(found)) == (0, 0, "           0 bytes in 0 residuals")


def test_the_table_is_printed(capsys):
    ftrace.print_saved_residuals(lambda x, y: np.sum(np.sin(x) * y), SMALL[0], 2)
    text = capsys.readouterr().out
    assert text.endswith("168 bytes in 2 residuals\n")
    assert "160 bytes: float64[20] result of cos, at " in text
    ftrace.print_saved_residuals(lambda x: np.sum(checkpoint_name(x, "q") ** 2 * BIG), BIG * 2)
    text = capsys.readouterr().out
    assert "captured array BIG, at " in text


def test_numbers_that_depend_on_arguments_are_listed():  # D12
    found = saved_residuals(lambda a, b: a * b + np.sin(a) ** 2.0, 2.0, 3.0)
    listed = [(r.kind, r.name, r.shape, r.bytes) for r in found]
    assert listed[:3] == [
        ("argument", "b", (), 8),
        ("argument", "a", (), 8),
        ("intermediate", "cos", (), 8),
    ]
    assert found.bytes == 8 * len(found)
    (single,) = saved_residuals(lambda a: np.exp(a), np.float32(1.0))
    assert (single.name, single.bytes) == ("exp", 4)
    (complex_,) = saved_residuals(lambda z: z * z, 1.0 + 2.0j)
    assert (complex_.name, complex_.bytes) == ("z", 16)


def test_constants_of_the_program_are_no_residuals():
    scale = 1.5
    (found,) = saved_residuals(lambda x: np.sum(np.sin(x) * scale * 2.0), SMALL[0])
    assert found.name == "cos"
    assert len(saved_residuals(lambda a: a * 2.0, 2.0)) == 0  # nor where it is the argument's


def test_captured_arrays_have_the_names_of_their_variables():  # D12
    weights = SMALL.copy()
    (found,) = saved_residuals(jit(lambda x: np.sum(weights[2:] @ x)), SMALL[0])
    assert (found.kind, found.name) == ("captured", "weights")
    held = [SMALL.copy()]
    (found,) = saved_residuals(lambda x: np.sum(held[0] @ x), SMALL[0])
    assert found.name == "captured array"


def test_nothing_of_the_users_is_changed_or_held():
    x = DATA.copy()
    saved_residuals(mlp, x)
    x[0] = 1.0  # writeable again
    assert BIG.flags.writeable


def test_traced_arguments_are_refused():
    with pytest.raises(errors.ConcretizationTypeError, match="its argument x is a traced value"):
        jit(lambda x: saved_residuals(mlp, x).bytes)(DATA)
    with pytest.raises(errors.DtypeError, match="takes a function first"):
        saved_residuals(DATA)
    with pytest.raises(errors.DtypeError, match="x of mlp"):
        saved_residuals(mlp, "text")
