"""`checkpoint`: policies, names, budgets; what is kept, what runs again, the same derivatives."""

import re
import time
import tracemalloc

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, checkpoint_name, errors, grad, hessian, jit, jvp, lax, vjp, vmap
from ftrace import checkpoint_policies as policies
from ftrace.control import saving
from ftrace.control.saving import late_jaxpr
from ftrace.core.jaxpr import eval_jaxpr
from tests.counting import CountedSin

X = np.array([0.3, -0.7, 1.1])
W = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [-0.1, 0.2, 0.7]])


def names_of(fun, *args):
    """What is kept, without arguments and captured arrays."""
    found = ftrace.saved_residuals(fun, *args)
    return sorted(r.name for r in found if r.kind in ("named", "intermediate"))


@pytest.fixture(autouse=True)
def interpreted(request):
    """Only tests about compiled code compile."""
    with ftrace.config.update(compile="compiled" in request.node.name):
        yield


# ---------------------------------------------------------------------------------- programs


def layers(x):
    for i in range(3):
        x = checkpoint_name(np.sin(W @ x), f"h{i}") * x
    return np.sum(np.exp(x) * np.arange(1.0, 4.0))


def branching(x):
    y = lax.cond(x[0] > 0, lambda v: np.sin(v) * v, lambda v: np.exp(v) * 2.0, W @ x)
    return np.sum(np.tanh(y) * np.arange(1.0, 4.0))


def looping(x):
    y, _ = lax.while_loop(
        lambda c: c[1] < 3, lambda c: (np.sin(c[0]) * c[0] + 0.1, c[1] + 1), (W @ x, 0)
    )
    return np.sum(np.exp(y) * np.arange(1.0, 4.0))


def called(x):
    inner = jit(lambda v: checkpoint_name(np.sin(W @ v), "s") * v)
    return np.sum(np.exp(inner(inner(x))) * np.arange(1.0, 4.0))


def nested(x):
    inner = checkpoint(lambda v: np.exp(np.sin(W @ v)), policy=policies.dots_saveable)
    return np.sum(inner(inner(x)) * np.arange(1.0, 4.0))


def guarded(x):
    root = np.sqrt(np.where(x > 0, x, 0.0))
    return np.sum(np.where(x > 0, root * root * x, np.sin(W @ x)) * np.arange(1.0, 4.0))


def ruled(x):
    f = ftrace.custom_jvp(lambda v: np.sin(v))
    f.defjvp(lambda p, t: (f(p[0]), np.cos(p[0]) * t[0]))
    return np.sum(f(W @ f(x)) * np.arange(1.0, 4.0))


PROGRAMS = (layers, branching, called, nested, guarded, ruled)
FORWARD = (*PROGRAMS, looping)

KEEPING = {
    "nothing said": {},
    "everything": {"policy": policies.everything_saveable},
    "nothing": {"policy": policies.nothing_saveable},
    "dots": {"policy": policies.dots_saveable},
    "plain dots": {"policy": policies.dots_with_no_batch_dims_saveable},
    "names": {"policy": policies.save_only_these_names("h1", "s")},
    "other names": {"policy": policies.save_any_names_but_these("h1", "s")},
    "not names": {"policy": policies.save_anything_except_these_names("h1", "s")},
    "both": {
        "policy": policies.save_from_both_policies(
            policies.dots_saveable, policies.save_only_these_names("h0")
        )
    },
    "own": {"policy": lambda prim, *avals, **params: prim.name in ("sin", "exp")},
    "budget 0": {"budget": 0},
    "budget 50": {"budget": 50},
    "budget": {"budget": "1MiB"},
}

USES = {
    "value": lambda f: f(X),
    "grad": lambda f: grad(f)(X),
    "jvp": lambda f: jvp(f, (X,), (X * 2.0,)),
    "jit of grad": lambda f: jit(grad(f))(X),
    "grad of jit": lambda f: grad(jit(f))(X),
    "vmap": lambda f: vmap(f)(np.stack([X, -X])),
    "vmap of grad": lambda f: vmap(grad(f))(np.stack([X, -X])),
    "grad of vmap": lambda f: grad(lambda xs: np.sum(vmap(f)(xs)))(np.stack([X, -X])),
    "jit of vmap of grad": lambda f: jit(vmap(grad(f)))(np.stack([X, -X])),
    "hessian": lambda f: hessian(f)(X),
    "grad of grad": lambda f: grad(lambda x: np.sum(grad(f)(x) * np.arange(1.0, 4.0)))(X),
    "jvp of grad": lambda f: jvp(grad(f), (X,), (X * 2.0,)),
    "linearize": lambda f: ftrace.linearize(f, X)[1](X * 2.0),
    "checkpoint": lambda f: grad(checkpoint(f))(X),
    "checkpoint with names": lambda f: grad(checkpoint(f, policy=KEEPING["names"]["policy"]))(X),
}


def close(actual, expected):
    if isinstance(expected, tuple):
        for a, e in zip(actual, expected, strict=True):
            close(a, e)
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)


SOME = ("everything", "dots", "names", "not names", "budget 50")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("keeping", SOME)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_kept_changes_no_derivative(program, keeping, use):
    close(USES[use](checkpoint(program, **KEEPING[keeping])), USES[use](program))


@pytest.mark.parametrize("keeping", KEEPING)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_are_those_of_finite_differences(program, keeping):
    gradient = grad(checkpoint(program, **KEEPING[keeping]))(X)
    steps = 1e-6 * np.eye(3)
    slopes = [(program(X + s) - program(X - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-7)


@pytest.mark.parametrize("use", ["value", "jvp", "jvp of jvp", "vmap"])
@pytest.mark.parametrize("keeping", KEEPING)
def test_loops_inside_keep_their_forward_derivatives(keeping, use):
    uses = USES | {
        "jvp of jvp": lambda f: jvp(lambda x: jvp(f, (x,), (X,))[1], (X,), (X * 2.0,)),
    }
    close(uses[use](checkpoint(looping, **KEEPING[keeping])), uses[use](looping))


@pytest.mark.parametrize("keeping", KEEPING)
def test_compiled_gradients_are_the_same(keeping):
    f = checkpoint(layers, **KEEPING[keeping])
    np.testing.assert_allclose(jit(grad(f))(X), grad(layers)(X), rtol=1e-12)
    np.testing.assert_allclose(grad(f)(X), grad(layers)(X), rtol=1e-12)


@pytest.mark.parametrize("keeping", KEEPING)
def test_an_untaken_side_contributes_nothing(keeping):
    def f(x):
        return np.sum(np.where(x > 0, np.sqrt(x) * np.sqrt(x), 3.0 * x))

    f = checkpoint(f, **KEEPING[keeping])
    np.testing.assert_array_equal(grad(f)(np.array([0.0, -1.0, 4.0])), [3.0, 3.0, 1.0])
    np.testing.assert_array_equal(hessian(f)(np.array([0.0, -1.0])), np.zeros((2, 2)))


@pytest.mark.parametrize("keeping", ["everything", "dots", "names", "budget"])
def test_a_function_of_containers_integers_and_keywords(keeping):
    def f(p, n, *, scale):
        s = checkpoint_name({"y": np.sin(p["x"]) * n}, "h1")
        return {"y": np.exp(s["y"]) * scale, "n": n + 1}

    def loss(p, f):
        out = f(p, 2, scale=3.0)
        return np.sum(out["y"]) * out["n"]

    kept = checkpoint(f, **KEEPING[keeping])
    close(grad(loss)({"x": X}, kept)["x"], grad(loss)({"x": X}, f)["x"])


def test_a_function_that_captures_tracers_and_writes():
    def loss(w, policy):
        def f(x):
            y = fnp.zeros(3)
            y[1:] = np.sin(w @ x)[1:]
            y *= x
            return np.sum(np.exp(y))

        return checkpoint(f, policy=policy)(X)

    for policy in (policies.everything_saveable, policies.dots_saveable):
        close(grad(loss)(W, policy), grad(loss)(W, None))
        close(hessian(loss)(W, policy), hessian(loss)(W, None))


# ---------------------------------------------------------------------------------- what is kept


def named_layers(x):
    a = checkpoint_name(np.sin(W @ x), "a")
    b = checkpoint_name(np.cos(W @ a), "b")
    return np.sum(np.exp(b))


KEPT = {
    "everything": (policies.everything_saveable, ["cos", "exp", "sin"]),
    "nothing": (policies.nothing_saveable, []),
    "dots": (policies.dots_saveable, ["dot_general", "dot_general"]),
    "names": (policies.save_only_these_names("a", "b"), ["a", "b"]),
    "one name": (policies.save_only_these_names("a"), ["a"]),
    "no such name": (policies.save_only_these_names("c"), []),
    "other names": (policies.save_any_names_but_these("a"), ["b"]),
    "both": (
        policies.save_from_both_policies(
            policies.dots_saveable, policies.save_only_these_names("b")
        ),
        ["b", "dot_general", "dot_general"],
    ),
    "own": (lambda prim, *avals, **params: prim.name == "exp", ["exp"]),
}


@pytest.mark.parametrize("case", KEPT)
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit inside"])
def test_a_policy_keeps_what_it_says(case, wrap):
    policy, expected = KEPT[case]
    assert names_of(checkpoint(wrap(named_layers), policy=policy), X) == expected


def test_a_value_refused_by_name_is_not_kept_before_it_gets_the_name():
    def f(x):
        s = checkpoint_name(np.sin(x), "s")
        return np.sum(s * s * x)

    assert "s" in names_of(checkpoint(f, policy=policies.everything_saveable), X)
    policy = policies.save_anything_except_these_names("s")
    names = names_of(checkpoint(f, policy=policy), X)
    assert "cos" in names
    assert not {"s", "sin"} & set(names)
    close(grad(checkpoint(f, policy=policy))(X), grad(f)(X))


def test_products_with_batch_axes_are_told_from_products_with_weights():
    batch = np.stack([W, W + 1.0])

    def f(x):
        return np.sum(np.sin(fnp.matmul(batch, np.sin(batch @ x)[..., None])))

    every = names_of(checkpoint(f, policy=policies.dots_saveable), X)
    plain = names_of(checkpoint(f, policy=policies.dots_with_no_batch_dims_saveable), X)
    assert (every.count("dot_general"), plain.count("dot_general")) == (2, 1)
    assert policies.checkpoint_dots is policies.dots_saveable
    assert policies.checkpoint_dots_with_no_batch_dims is policies.dots_with_no_batch_dims_saveable


def test_a_policy_is_asked_with_the_row_the_types_and_the_parameters():
    asked = []

    def policy(prim, *avals, **params):
        asked.append((prim.name, tuple(a.shape for a in avals), params.get("name")))
        return True

    grad(checkpoint(named_layers, policy=policy))(X)
    assert ("dot_general", ((3, 3), (3,)), None) in asked
    assert ("name", ((3,),), "a") in asked


def test_what_is_kept_is_not_computed_again():
    for policy, runs in (
        (None, 2),
        (policies.nothing_saveable, 2),
        (policies.save_only_these_names("s"), 1),
        (policies.everything_saveable, 1),
    ):
        counted = CountedSin()
        f = checkpoint(lambda x, c=counted: np.exp(checkpoint_name(c.row(x), "s")), policy=policy)
        assert grad(f)(0.5) == pytest.approx(np.exp(np.sin(0.5)) * np.cos(0.5))
        assert counted.runs == runs


@pytest.mark.parametrize("policy", [None, policies.everything_saveable])
def test_forward_mode_runs_the_function_once(policy):
    counted = CountedSin()
    jvp(checkpoint(lambda x: counted.row(x) * x, policy=policy), (0.5,), (1.0,))
    assert counted.runs == 1


def test_a_gradient_called_twice_splits_its_function_once():
    asked = []

    def policy(prim, *avals, **params):
        asked.append(prim.name)
        return True

    g = grad(checkpoint(named_layers, policy=policy))
    g(X)
    before = len(asked)
    g(X)
    assert 0 < before == len(asked)


def test_a_cond_is_one_equation_to_a_policy():
    names = names_of(checkpoint(branching, policy=policies.dots_saveable), X)
    assert names == ["dot_general"]
    assert "cond" in names_of(checkpoint(branching, policy=policies.everything_saveable), X)


# ---------------------------------------------------------------------------------- names


@pytest.mark.parametrize("use", USES)
def test_a_name_is_the_identity(use):
    def f(x):
        return np.sum(checkpoint_name(np.sin(checkpoint_name(x, "x")), "y") ** 2 * W[0])

    close(USES[use](f), USES[use](lambda x: np.sum(np.sin(x) ** 2 * W[0])))


def test_a_name_is_in_the_jaxpr_and_not_on_tangents():
    text = str(ftrace.make_jaxpr(lambda x: checkpoint_name(x, "h"))(X))
    assert "name[name='h']" in text
    pushed = ftrace.make_jaxpr(lambda x: jvp(lambda y: checkpoint_name(y, "h"), (x,), (x,)))(X)
    assert [e.primitive.name for e in pushed.eqns] == ["name"]


def test_a_named_array_shares_no_memory():
    x = X.copy()
    y = checkpoint_name(x, "x")
    y[0] = 9.0
    assert x[0] == X[0]
    assert checkpoint_name({"a": 2.0, "b": [X]}, "t")["a"] == 2.0


# ---------------------------------------------------------------------------------- budgets

rng = np.random.default_rng(3)
BIG = rng.normal(size=(120, 120)) / 12.0
DATA = rng.normal(size=(120, 100))
ONE = DATA.nbytes  # 96 kB


def mlp(x):
    for _ in range(6):
        x = np.tanh(BIG @ x)
    return np.sum(x)


def softmaxes(x):
    for _ in range(4):
        e = np.exp(x - np.max(x, axis=0))
        x = BIG @ (e / np.sum(e, axis=0)) * 5.0
    return np.sum(x * x)


def residual_blocks(x):
    for _ in range(5):
        h = np.sin(BIG @ x)
        x = x + np.exp(-h * h) * h
    return np.sum(x)


def sums_of_powers(x):
    total = 0.0
    for k in range(8):
        total = total + np.sum(np.log1p(np.exp(x * (k + 1.0))) ** 2)
    return total


def with_calls(x):
    layer = jit(lambda v: np.tanh(BIG @ v) * np.cos(v))
    for _ in range(4):
        x = layer(x)
    return np.sum(x)


def with_branches(x):
    for k in range(4):
        x = lax.cond(np.sum(x) > 1e9, np.cos, lambda v: np.sin(BIG @ v), x) * (k + 1.0)
    return np.sum(np.exp(x))


def slices_and_joins(x):
    for _ in range(5):
        a, b = np.tanh(x[:60]), np.exp(-(x[60:] ** 2))
        x = BIG @ fnp.concatenate([b * a, a])
    return np.sum(x)


def recurrence(x):
    y, v = x, x
    for _ in range(12):
        y, v = y + 0.1 * v, v - 0.1 * np.sin(y) * np.exp(-v * v)
    return np.sum(y * v)


BUDGETED = (
    mlp,
    softmaxes,
    residual_blocks,
    sums_of_powers,
    with_calls,
    with_branches,
    slices_and_joins,
    recurrence,
)


def held(fun, *args):
    """The bytes that are alive between the passes, and the gradient."""
    vjp(fun, *args)  # traced and derived once, so that only arrays are new
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        y, pull = vjp(fun, *args)
        del y
        return tracemalloc.get_traced_memory()[0] - before, pull(1.0)[0]
    finally:
        tracemalloc.stop()


SLACK = 20_000  # Python's own objects, and arrays of rank 0


@pytest.mark.parametrize("budget", [0, ONE, 3 * ONE + 10, 7 * ONE, 10**9])
@pytest.mark.parametrize("program", BUDGETED, ids=lambda p: p.__name__)
def test_what_is_held_stays_within_the_budget(program, budget):
    x = DATA.copy()
    nothing, _ = held(checkpoint(program), x)  # the argument and captured arrays
    found, gradient = held(checkpoint(program, budget=budget), x)
    assert found - nothing <= budget + SLACK
    np.testing.assert_allclose(gradient, grad(program)(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("program", [mlp, with_calls], ids=lambda p: p.__name__)
def test_what_compiled_code_holds_stays_within_the_budget(program):
    x = DATA.copy()
    nothing, _ = held(checkpoint(program), x)
    found, gradient = held(checkpoint(program, budget=3 * ONE), x)
    assert 2 * ONE <= found - nothing <= 3 * ONE + SLACK
    np.testing.assert_allclose(gradient, grad(program)(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("program", BUDGETED, ids=lambda p: p.__name__)
def test_a_budget_is_used(program):
    """A large one keeps all that the derivative needs, and a smaller one at least its half."""
    x = DATA.copy()
    nothing, _ = held(checkpoint(program), x)
    for budget in (4 * ONE, 6 * ONE):
        assert held(checkpoint(program, budget=budget), x)[0] - nothing >= budget / 2
    large = checkpoint(program, budget=10**9)
    everything = checkpoint(program, policy=policies.everything_saveable)
    assert held(large, x)[0] <= held(everything, x)[0] + SLACK


def peak(fun, x):
    """The most that is alive during the backward pass, in arrays of the size of `DATA`."""
    vjp(fun, x)[1](1.0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _, pull = vjp(fun, x)
        tracemalloc.reset_peak()
        pull(1.0)
        return (tracemalloc.get_traced_memory()[1] - before) / ONE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["interpreted", "compiled"])
def test_the_backward_pass_computes_again_one_stretch_at_a_time(kind):
    def deep(x):
        for _ in range(16):
            x = np.tanh(BIG @ x)
        return np.sum(x)

    with_budget = checkpoint(lambda x: deep(x), budget=4 * ONE)
    without = checkpoint(lambda x: deep(x), policy=policies.nothing_saveable)
    assert peak(with_budget, DATA) < 14 < 18 < peak(without, DATA)
    close(grad(with_budget)(DATA), grad(deep)(DATA))


def test_late_recomputation_keeps_the_order_of_what_depends_on_each_other():
    def program(a, b, ct):
        early = np.sin(a)
        late = np.cos(early) * b
        first = ct * 2.0
        second = first * early
        return second * late + a, late

    jaxpr = ftrace.make_jaxpr(program)(X, X, X)
    ordered = late_jaxpr(jaxpr, 2)
    names = [e.primitive.name for e in ordered.eqns]
    assert [e.primitive.name for e in jaxpr.eqns] == [
        "sin",
        "cos",
        "mul",
        "mul",
        "mul",
        "mul",
        "add",
    ]
    assert names == ["mul", "sin", "mul", "cos", "mul", "mul", "add"]
    for j in (jaxpr, ordered):
        for a, e in zip(eval_jaxpr(j, (X, X, X)), program(X, X, X), strict=True):
            np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("program", BUDGETED, ids=lambda p: p.__name__)
def test_the_work_that_keeping_saves_is_counted_exactly(program):
    known = ftrace.make_jaxpr(lambda x: ftrace.linearize(program, x)[1](x))(DATA)
    graph = saving.Graph(known, known.outvars)
    keep = set()
    for _ in range(3):
        again, _ = graph.cut(keep)
        parents, sizes = graph.dominators(again)
        gains = graph.gains(again, parents)
        whole = sum(graph.works[i] for i in again)
        for i in again:
            less, kept = graph.cut(keep | {i})
            assert gains[i] == pytest.approx(whole - sum(graph.works[j] for j in less))
            own = [v for v in kept if v in known.eqns[i].outvars]
            assert sizes[i] == sum(saving.nbytes(v.aval) for v in own)
        keep.add(sorted(again)[len(again) // 3])


def test_a_budget_is_chosen_quickly_for_long_programs():
    def long(x):
        for k in range(400):
            x = np.tanh(x * (1.0 + k)) + np.sin(x)
        return np.sum(x)

    started = time.perf_counter()
    grad(checkpoint(long, budget=60 * 80))(np.ones(10))
    assert time.perf_counter() - started < 30.0


def test_a_larger_budget_computes_less_again():
    runs = []
    for budget in (0, ONE, 2 * ONE, 4 * ONE, 8 * ONE, 16 * ONE):
        counted = CountedSin()

        def f(x, sin=counted.row):
            for _ in range(8):
                x = sin(BIG @ x)
            return np.sum(x * x)

        gradient = grad(checkpoint(f, budget=budget))(DATA)
        np.testing.assert_allclose(gradient, grad(lambda x, f=f: f(x, np.sin))(DATA))
        runs.append(counted.runs)
    assert runs == sorted(runs, reverse=True)
    assert runs[0] == 16
    assert runs[-1] == 8
    assert len(set(runs)) >= 4


def test_a_budget_goes_to_what_is_dear_to_compute():
    def f(x):
        cheap = x * 2.0 + 1.0  # both are needed, one is dear
        dear = BIG @ (BIG @ x)
        return np.sum(cheap * cheap * dear)

    names = names_of(checkpoint(f, budget=ONE), DATA)
    assert names == ["dot_general"]


def test_a_budget_is_chosen_the_same_way_every_time():
    def chosen():
        fun = checkpoint(lambda x: residual_blocks(x), budget=5 * ONE)
        return [(r.name, r.bytes, r.why) for r in ftrace.saved_residuals(fun, DATA)]

    assert chosen() == chosen()


def test_members_of_a_vmap_share_a_budget():
    members = np.stack([DATA] * 5)

    def kept(budget):
        """How many values the known half gives besides its result."""
        f = checkpoint(mlp, budget=budget)

        def member(x):
            y, push = ftrace.linearize(f, x)
            return y, push(x)

        jaxpr = ftrace.make_jaxpr(vmap(member))(members)
        (known,) = [e for e in jaxpr.eqns if e.params.get("name") == "checkpoint"]
        return len(known.outvars) - 1

    assert [kept(n * ONE) for n in (4, 5, 11, 24)] == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (0, 0),
        (7, 7),
        ("7", 7),
        ("9B", 9),
        ("2kB", 2000),
        ("2KB", 2000),
        ("3MB", 3 * 10**6),
        ("1TB", 10**12),
        ("1KiB", 1024),
        ("64MiB", 64 * 2**20),
        ("1.5 GiB", 3 * 2**29),
    ],
)
def test_sizes_are_numbers_or_text_with_a_unit(text, expected):
    f = checkpoint(np.sin, budget=text)
    (eqn,) = ftrace.make_jaxpr(f)(X).eqns
    assert eqn.params["policy"].nbytes == expected


# ---------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("budget", [-1, 1.5, True, "64 monkeys", "MiB", "", "-3MB", [4]])
def test_a_budget_that_is_no_size_is_refused(budget):
    with pytest.raises(errors.DtypeError, match="number of bytes, at least 0, not") as caught:
        checkpoint(np.sin, budget=budget)
    assert '"64MiB"' in caught.value.fix


def test_a_policy_that_is_no_function_is_refused():
    with pytest.raises(errors.DtypeError, match="must be a function, not 'dots'") as caught:
        checkpoint(np.sin, policy="dots")
    assert "ftrace.checkpoint_policies" in caught.value.fix


def test_a_policy_that_cannot_be_hashed_is_refused():
    class Policy:
        __hash__ = None

        def __call__(self, prim, *avals, **params):
            return True

    with pytest.raises(errors.DtypeError, match="policy of checkpoint cannot be hashed"):
        checkpoint(np.sin, policy=Policy())


def test_policy_and_budget_exclude_each_other():
    with pytest.raises(errors.DtypeError, match="both a policy and a budget"):
        checkpoint(policy=policies.dots_saveable, budget=3)


def test_names_are_strings():
    with pytest.raises(errors.DtypeError, match=re.escape("checkpoint_name was given 3 ")):
        checkpoint_name(X, 3)
    for make in (
        policies.save_only_these_names,
        policies.save_any_names_but_these,
        policies.save_anything_except_these_names,
    ):
        with pytest.raises(errors.DtypeError, match="no name"):
            make("a", ["b"])


@pytest.mark.parametrize("keeping", KEEPING)
def test_effects_inside_are_refused_when_differentiated(keeping):
    row = ftrace.Primitive(
        name="noted",
        impl=lambda x: x + 0,
        type=lambda x: x,
        jvp="linear",
        transpose=lambda ct, x: (ct,),
        batch=lambda axis, values, dims: (row(*values), dims[0]),
        effects=lambda: frozenset({"note"}),
        doc="An effect.",
    )
    f = checkpoint(lambda x: np.sin(row(x)), **KEEPING[keeping])
    assert f(0.5) == np.sin(0.5)
    with pytest.raises(errors.RuleError, match=r"repeat the effects \['note'\]"):
        grad(f)(0.5)


def test_the_names_of_jax_are_there():
    from ftrace import ad_checkpoint

    assert ad_checkpoint.checkpoint is ftrace.checkpoint is ftrace.remat is ad_checkpoint.remat
    assert ad_checkpoint.checkpoint_name is ftrace.checkpoint_name
    assert ad_checkpoint.checkpoint_policies is ftrace.checkpoint_policies
    assert ad_checkpoint.print_saved_residuals is ftrace.print_saved_residuals
    assert checkpoint(np.sin, prevent_cse=False)(0.5) == np.sin(0.5)
