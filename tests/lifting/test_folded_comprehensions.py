"""`sum(v for v in x if v > 0)`: traced values decide which items a builtin folds."""

import math

import numpy as np
import pytest

from ftrace import grad, jit, make_jaxpr, vmap
from ftrace.errors import LiftError

ROWS = np.array(
    [
        [1.2, -2.0, 3.1, 0.25],
        [-1.2, 2.5, 0.4, -3.0],
        [0.1, 0.2, 0.3, 0.4],
        [3.2, 1.1, 2.3, -0.7],
    ]
)
NONE = np.array([-1.0, -2.0, -0.5, -3.0])

SMOOTH = {
    "a sum": lambda x: sum(v for v in x if v > 0),
    "a sum of a list from a start": lambda x: sum([v * v for v in x if v > 0], start=1),
    "a sum of squares": lambda x: sum(math.sqrt(v) for v in x if v > 0),
    "a product": lambda x: math.prod(v for v in x if v > 0),
    "a maximum": lambda x: max(v for v in x if v > 0),
    "a maximum or else": lambda x: max((v for v in x if v > 1), default=-1.0),
    "a minimum": lambda x: min([v * v for v in x if v > 0]),
    "several conditions": lambda x: sum(v for v in x if v > 0 if v < 2),
    "several loops": lambda x: sum((v * w for v in x if v > 0 for w in x if w < v if w > -1), 2.0),
    "a maximum of several loops": lambda x: max(
        (v * w for v in x if v > 0 for w in x if w > v), default=0.0
    ),
    "folds in folds": lambda x: sum(sum(w for w in x if w > v) for v in x if v < 2),
    "pairs": lambda x: sum((v * w for v, w in zip(x, x[::-1], strict=True) if v > w), 0.0),
    "some conditions known": lambda x: sum(v for k, v in enumerate(x) if k % 2 or v > 0),
}
DISCRETE = {
    "a count": lambda x: sum(1 for v in x if v < 0.5),
    "a length": lambda x: len([v for v in x if v > 0]),
    "whether any": lambda x: any(v > 2 for v in x if v > 0),
    "whether any of a list": lambda x: any([v > 2 for v in x if v > 0]),  # noqa: C419
    "whether all": lambda x: all(v < 2 for v in x if v > 0),
    "whether all of several loops": lambda x: all(w > -2 for v in x if v > 0 for w in x if w < v),
    "the first place": lambda x: min((i for i, v in enumerate(x) if v > 0), default=-1),
    "one number, perhaps": lambda x: max((3 for v in x if v > 2), default=2),
}
BOTH = SMOOTH | DISCRETE


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_jit_folds_as_python_does(name, dtype):
    for x in ROWS.astype(dtype):
        found, wanted = jit(BOTH[name])(x), BOTH[name](x)
        assert found == wanted
        assert np.asarray(found).dtype.kind == np.asarray(wanted).dtype.kind or wanted == 0


@pytest.mark.parametrize("name", BOTH)
def test_each_member_of_vmap_takes_its_own_items(name):
    wanted = [BOTH[name](x) for x in ROWS]
    np.testing.assert_array_equal(vmap(BOTH[name])(ROWS), wanted)
    np.testing.assert_array_equal(jit(vmap(BOTH[name]))(ROWS), wanted)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_the_items_taken(name):
    f, h = SMOOTH[name], 1e-6
    for x in ROWS:
        wanted = [float(f(x + e) - f(x - e)) / (2 * h) for e in h * np.eye(4)]
        differentiated = grad(lambda x: 1.0 * f(x))
        np.testing.assert_allclose(differentiated(x), wanted, atol=1e-5)
        np.testing.assert_allclose(jit(differentiated)(x), wanted, atol=1e-5)
        np.testing.assert_allclose(grad(jit(lambda x: 1.0 * f(x)))(x), wanted, atol=1e-5)


def test_counts_stay_ints_of_python():
    for f in (DISCRETE["a count"], DISCRETE["a length"], DISCRETE["the first place"]):
        assert make_jaxpr(jit(f))(ROWS[0]).out_avals[0].weak
        assert jit(lambda x, f=f: x.astype(np.float32) * f(x))(ROWS[0]).dtype == np.float32


@pytest.mark.parametrize("transform", [jit, lambda f: lambda x: vmap(f)(np.array([ROWS[0], x]))])
def test_nothing_to_choose_from_is_an_error(transform):
    with pytest.raises(ValueError, match="empty"):
        transform(SMOOTH["a maximum"])(NONE)


def test_nothing_to_choose_from_may_be_caught():
    def f(x):
        try:
            return max(v for v in x if v > 2.4)
        except ValueError:
            return -7.0

    np.testing.assert_array_equal(vmap(f)(ROWS), [f(x) for x in ROWS])


@pytest.mark.parametrize("stop", [True, False])
def test_any_and_all_ask_no_further_than_python(stop):
    def f(x):
        asked = 0

        def ask(v):
            nonlocal asked
            asked += 1
            return v == stop

        if stop:
            found = any(ask(v > 1) for v in x if v > 0)
        else:
            found = all(ask(v > 1) for v in x if v > 0)
        return found, asked

    assert jit(f)(ROWS[0]) == f(ROWS[0])
    found = vmap(f)(ROWS)
    np.testing.assert_array_equal(np.transpose(found), [f(x) for x in ROWS])


def test_conditions_after_the_end_are_not_asked():
    def f(x):
        return any(v > 1 for v in x if 1 / int(v) > 0)

    assert vmap(f)(np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 0.0]])).all()
    with pytest.raises(ZeroDivisionError):
        vmap(f)(np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 0.0]]))


def test_elements_are_computed_only_where_the_condition_holds():
    def f(x):
        return sum(1 / int(v) for v in x if v != 0), sum(math.log(v) for v in x if v > 0)

    x = np.array([1.0, 0.0, 2.0])
    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-15)
    assert np.isfinite(grad(lambda x: f(x)[1])(x)).all()


def test_elements_may_write_an_array():
    def f(x):
        kept = np.zeros(4)

        def keep(i, v):
            kept[i] = v
            return v

        return sum(keep(i, v) for i, v in enumerate(x) if v > 0), kept

    for x in ROWS:
        for found, wanted in zip(jit(f)(x), f(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_folds_stand_in_branches_and_loops():
    def f(x):
        t = 0.0
        if x[0] > 0:
            t = sum(v for v in x if v > t)
        while t > 2:
            t = t - max((v for v in x if v > 0 and v < t), default=1.0)
        return t

    np.testing.assert_allclose(vmap(f)(ROWS), [f(x) for x in ROWS], rtol=1e-15)


def test_arrays_are_added_where_the_condition_holds():
    def f(x):
        return sum((r for r in np.outer(x, x) if r[0] > 0.5), np.zeros(4))

    np.testing.assert_array_equal(vmap(f)(ROWS), [f(x) for x in ROWS])


def test_an_iterator_goes_on_where_a_sum_has_ended():
    def f(x):
        places = iter(range(4))
        return sum(x[k] for k in places if x[k] > 0), next(places, -1)

    assert jit(f)(ROWS[0]) == f(ROWS[0])


def test_what_is_not_a_known_fold_is_called():
    def f(x):
        def sum(items, start=0):  # noqa: A001 - that of the user
            return [start, *items]

        return sum((k * k for k in range(4) if k % 2), start=x)

    assert jit(f)(2.0) == [2.0, 1, 9]


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: [v for v in x if v > 0], "in a comprehension"),
        (lambda x: tuple(v for v in x if v > 0), "in a comprehension"),
        (lambda x: sum((last := v) for v in x if v > 0) + last, "in a comprehension"),
        (lambda x: max((v for v in x if v > 0), key=lambda v: -v), "in a comprehension"),
        (lambda x: np.sum([v for v in x if v > 0]), "in a comprehension"),
        (lambda x: sum(eval("v") for v in x if v > 0), "in a comprehension"),
        (lambda x: (s := iter(range(4))) and any(x[k] > 2 for k in s if x[k] > 0), "an iterator"),
        (lambda x: sum(w for s in [iter(x)] for v in x if v > 0 for w in s if w), "an iterator"),
    ],
)
def test_what_cannot_be_folded_is_refused(f, reason):
    with pytest.raises(LiftError, match=reason):
        jit(f)(ROWS[0])


def test_the_program_grows_with_the_items():
    def f(x):
        return max(v for v in x if v > 0) + sum(v for v in x if v > 0)

    small, large = (len(str(make_jaxpr(jit(f))(np.ones(n)))) for n in (10, 20))
    assert large < 2.5 * small
