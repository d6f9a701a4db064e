"""Long programs, deep nestings and trees: no limit is Python's stack, and kernels stay short."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, jvp, lax, tree_util, vmap
from ftrace.core.tree import paths, tree_mismatch
from ftrace.lowering.fusion.weights import LIMIT
from ftrace.lowering.kernel.show import text
from tests.lowering.programs import planned

X = np.array([0.5, 1.0, 2.0])


def chain(n):
    def f(x):
        for _ in range(n):
            x = x * 1.0001
        return x

    return f


def nested(f, n, wrap):
    for _ in range(n):
        f = wrap(f)
    return f


def deep(n, leaf=1.0):
    for i in range(n):
        leaf = [leaf] if i % 2 else {"a": leaf}
    return leaf


def unrolled(f, *args):
    """A program in which repeats of equations stay as they are."""
    with ftrace.config.update(roll=0):
        return planned(f, *args)


def lines_of(program):
    return [len(text(launch.kernel).splitlines()) for launch in program.launches]


@pytest.mark.parametrize("n", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_long_chains_are_traced_printed_and_differentiated(n):
    f, slope = chain(n), 1.0001**n
    assert len(ftrace.make_jaxpr(f)(1.0).eqns) == n
    assert str(ftrace.make_jaxpr(f)(1.0)).count("\n") == n + 1
    np.testing.assert_allclose(jvp(f, (X,), (X,))[1], X * slope)
    np.testing.assert_allclose(grad(f)(1.0), slope)
    np.testing.assert_allclose(vmap(f)(X), X * slope)


@pytest.mark.parametrize("end", [lambda x: x, fnp.sum, lambda x: np.max(x) * x])
def test_kernels_of_long_programs_stay_short(end):
    def f(x):
        y = x
        for i in range(600):
            y = np.sin(y) + x if i % 5 == 0 else y * 1.5 - x
        return end(y)

    program = unrolled(f, X)
    assert 4 < len(program.launches) < 60
    assert max(lines_of(program)) < LIMIT


def test_what_many_results_share_is_no_reason_for_long_kernels():
    def f(x):
        out = []
        for _ in range(300):
            x = np.sin(x) + 0.5
            out.append(x)
        return out

    assert max(lines_of(unrolled(f, X))) < 4 * LIMIT


def test_short_programs_are_never_cut():
    def f(x, y):
        for _ in range(60):
            x, y = x * y + 1.0, x - y  # shared so often that a sum over operands explodes
        return x + y

    assert len(unrolled(f, X, X).launches) == 1


def test_a_sum_of_many_scalar_arguments_is_right_and_in_short_kernels():
    many = [float(i) for i in range(600)]
    np.testing.assert_equal(jit(lambda *a: sum(a))(*many), sum(many))
    program = planned(lambda *a: sum(a), *[1.0] * 1000)
    assert 3 < len(program.launches) < 20


@pytest.mark.parametrize("n", [9, 33, 70])
def test_many_parts_are_stacked_and_joined(n):
    def f(x):
        parts = [x * i if i % 3 else x[: 1 + i % 2] + i for i in range(n)]
        rows = np.stack([x * i for i in range(n)])
        return np.concatenate(parts), rows * 2, rows[n // 2 :].sum(axis=0)

    for got, wanted in zip(jit(f)(X), f(X), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_the_gradient_through_many_parts_is_right():
    def f(x):
        return (np.stack([np.sin(x * i) for i in range(90)]) ** 2).sum()

    np.testing.assert_allclose(jit(grad(f))(X), grad(f)(X), rtol=1e-12)


@pytest.mark.slow
def test_five_thousand_parts_are_planned_without_recursion():
    def f(x):
        return np.concatenate([x * i for i in range(5000)]) * 2.0

    program = planned(f, X)
    assert max(lines_of(program)) < 2 * LIMIT
    assert len(program.launches) < 1000


@pytest.mark.parametrize("n", [90, pytest.param(300, marks=pytest.mark.slow)])
def test_hundreds_of_calls_may_be_nested(n):
    jitted = nested(np.sin, n, lambda f: jit(lambda x: f(x) * 1.0))
    saved = nested(np.sin, n, lambda f: ftrace.checkpoint(lambda x: f(x) * 1.0))
    with ftrace.config.update(compile=False):
        assert jitted(0.5) == np.sin(0.5)
        np.testing.assert_allclose(grad(saved)(0.5), np.cos(0.5))


def test_branches_may_be_nested_deeply():
    f = nested(lambda x: x, 100, lambda f: lambda x: lax.cond(x > 0, f, np.negative, x))
    with ftrace.config.update(compile=False):
        assert jit(f)(2.0) == 2.0
        assert jit(f)(-2.0) == 2.0


def test_endless_recursion_through_transformations_is_pythons_error():
    def f(x):
        return jit(f)(x)

    with pytest.raises(RecursionError):
        f(1.0)


def test_trees_may_be_deeper_than_pythons_stack():
    depth = 1500
    tree = deep(depth, 3.0)
    leaves, structure = tree_util.tree_flatten(tree)
    other = tree_util.tree_structure(deep(depth))
    assert leaves == [3.0]
    assert structure == other
    assert hash(structure) == hash(other)
    assert tree_util.tree_leaves(structure.unflatten([4.0])) == [4.0]
    assert structure.flatten_up_to(structure.unflatten([5.0])) == [5.0]
    assert structure.compose(tree_util.tree_structure((1, 2))).num_leaves == 2
    assert 4000 <= len(repr(structure)) <= 4100
    assert len(tree_util.tree_flatten_with_path(tree)[0][0][0]) == depth
    assert paths(structure)[0].count("['a']") == depth // 2
    assert "a tuple of 2" in tree_mismatch(structure, structure.unflatten([(1, 2)]))


def test_deep_trees_go_through_transformations():
    def loss(t):
        return tree_util.tree_leaves(t)[0] ** 2

    tree = deep(500, 3.0)
    assert tree_util.tree_leaves(grad(loss)(tree)) == [6.0]
    assert tree_util.tree_leaves(jit(lambda t: t)(tree)) == [3.0]
    assert jit(loss)(tree) == 9.0


def test_structures_with_static_data_that_is_no_string_compare_node_by_node():
    one, two = ((tree_util.Partial(f, 1.0), [2.0]) for f in (np.sin, np.cos))
    assert tree_util.tree_structure(one) == tree_util.tree_structure(one)
    assert tree_util.tree_structure(one) != tree_util.tree_structure(two)
