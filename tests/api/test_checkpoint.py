"""`checkpoint`: policies, names, budgets; what is kept, what runs again, the same derivatives."""

import re

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, checkpoint_name, errors, grad, hessian, jit, jvp, lax, vmap
from ftrace import checkpoint_policies as policies
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
    "smallest budget": {"budget": None},
    "budget": {"budget": "1MiB"},
}


def used(use, program, keeping):
    """What `use` makes of a checkpoint of a program; the smallest budget is found by trying."""
    options, budget = KEEPING[keeping], 100
    while options == {"budget": None}:
        try:
            return use(checkpoint(program, budget=budget))
        except errors.BudgetError:
            budget += budget // 4
    return use(checkpoint(program, **options))


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


SOME = ("everything", "dots", "names", "not names", "smallest budget")


@pytest.mark.sampled(3, each="keeping")
@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("keeping", SOME)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_kept_changes_no_derivative(program, keeping, use):
    close(used(USES[use], program, keeping), USES[use](program))


@pytest.mark.parametrize("keeping", KEEPING)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_are_those_of_finite_differences(program, keeping):
    gradient = used(lambda f: grad(f)(X), program, keeping)
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


@pytest.mark.slow
@pytest.mark.parametrize("keeping", KEEPING)
def test_compiled_gradients_are_the_same(keeping):
    for use in (lambda f: jit(grad(f))(X), lambda f: grad(f)(X)):
        np.testing.assert_allclose(used(use, layers, keeping), grad(layers)(X), rtol=1e-12)


@pytest.mark.parametrize("keeping", KEEPING)
def test_an_untaken_side_contributes_nothing(keeping):
    def f(x):
        return np.sum(np.where(x > 0, np.sqrt(x) * np.sqrt(x), 3.0 * x))

    gradient = used(lambda f: grad(f)(np.array([0.0, -1.0, 4.0])), f, keeping)
    np.testing.assert_array_equal(gradient, [3.0, 3.0, 1.0])
    second = used(lambda f: hessian(f)(np.array([0.0, -1.0])), f, keeping)
    np.testing.assert_array_equal(second, np.zeros((2, 2)))


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
    "all but another name": (
        policies.save_anything_except_these_names("c"),
        ["cos", "exp", "sin"],
    ),
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
