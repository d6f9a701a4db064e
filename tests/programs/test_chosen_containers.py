"""Lists, dicts and objects of which a traced decision keeps one, as programs write that."""

from dataclasses import dataclass

import numpy as np
import pytest

import ftrace
from ftrace.errors import MutationError


@dataclass
class Pair:
    a: float
    b: float


def best_so_far(x):
    best = [0.0, np.inf]
    for i in range(4):
        cand = [i * 1.0, (x[0] - i) ** 2]
        if cand[1] < best[1]:
            best = cand
    return best[0], best[1]


def a_step_that_is_taken_or_halved(x):
    state = {"y": x.copy(), "t": 0.0}
    h = 0.1
    n = 0
    while state["t"] < 1.0 and n < 20:
        n += 1
        new = {"y": state["y"] + h * np.cos(state["y"]), "t": state["t"] + h}
        if np.abs(new["y"] - state["y"]).max() > 0.05:
            h = h / 2
        else:
            state = new
    return state["y"], state["t"]


def a_swap(x):
    lo, hi = [x[0], 1.0], [x[1], 2.0]
    if lo[0] > hi[0]:
        lo, hi = hi, lo
    return lo[0], hi[0], lo[1]


def a_swap_then_a_change(x):
    lo, hi = [x[0], 1.0], [x[1], 2.0]
    if lo[0] > hi[0]:
        lo, hi = hi, lo
    lo[0] -= 1
    return lo[0], hi[0], lo[1]


def parameters_that_are_kept_or_not(x):
    p = {"w": x * 1.0, "b": 0.0}
    for _i in range(3):
        q = dict(p)
        q["b"] = q["b"] + x[0]
        if q["b"] < 1:
            p = q
    p["b"] += 1
    return p["w"], p["b"]


def an_object_that_is_kept_or_not(x):
    s = Pair(x[0] * 1.0, 0.0)
    for _i in range(3):
        t = Pair(s.a * 0.5, s.b + 1)
        if t.a > 0.1:
            s = t
    s.b += 2
    return s.a, s.b


def a_list_of_points_in_order(x):
    pts = [x * 1.0, x + 1.0, x - 1.0]
    for _i in range(3):
        k = pts[0].sum() > pts[1].sum()
        if k:
            pts = [pts[1], pts[0], pts[2]]
        pts[2] = pts[2] * 0.5
    return pts[0], pts[1], pts[2]


def a_history(x):
    hist = []
    cur = [x[0], 0.0]
    for _i in range(3):
        hist.append(cur)
        nxt = [cur[0] * 0.5, cur[1] + 1]
        if nxt[0] > 0.1:
            cur = nxt
    return sum(h[1] for h in hist), cur[0]


def settings_in_a_loop(x):
    cfg = {"lr": 0.1, "m": 0.0}
    for i in range(3):
        if x[0] * i > 0.5:
            cfg["lr"] *= 0.5
        else:
            cfg["m"] += 1
    return cfg["lr"], cfg["m"]


def a_list_changed_before_the_choice(x):
    one, other, a = [1.0, 2.0], [3.0, 4.0], 0.0
    if x[0] > 0:
        one[0] = 5.0
        chosen = one if x[1] > 0 else other
        a = chosen[0]
    return a, one[0]


def a_list_changed_when_the_choice_is_over(x):
    one, other, a = [1.0, 2.0], [3.0, 4.0], 0.0
    if x[0] > 0:
        chosen = one if x[1] > 0 else other
        a = chosen[0]
    one[0] = 7.0
    return a, one[0]


def a_list_changed_after_the_choice_in_an_arm(x):
    one, other, a = [1.0, 2.0], [3.0, 4.0], 0.0
    if x[0] > 0:
        chosen = one if x[1] > 0 else other
        one[0] = 7.0
        a = chosen[0]
    return a, one[0]


def two_names_bound_anew_in_one_arm(x):
    one = other = {"k": 1.0}
    if x[0] > 0:
        one = {"k": 2.0}
        other = {"k": 3.0}
    one["k"] += 1
    return one["k"], other["k"]


def a_dict_changed_by_an_iteration_whose_other_name_the_loop_binds(x):
    one = other = {"k": 1.0}
    for _ in x:
        if x[1] > 0:
            other["k"] += 1
            return one["k"]
        one = other
    return one["k"]


def a_list_changed_before_the_loop_binds_its_name_anew(x):
    one = other = [1.0, 2.0]
    n = 0
    while n < x[0]:
        n += 1
        one[0] += 1
        one = [one[0], 3.0]
    return one[0], other[0]


PROGRAMS = (
    best_so_far,
    a_step_that_is_taken_or_halved,
    a_swap,
    a_swap_then_a_change,
    parameters_that_are_kept_or_not,
    an_object_that_is_kept_or_not,
    a_list_of_points_in_order,
    a_history,
    settings_in_a_loop,
    a_list_changed_before_the_choice,
    a_list_changed_when_the_choice_is_over,
)
POINTS = (np.array([0.3, -0.2]), np.array([2.0, 0.5]), np.array([-1.0, 1.5]))


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__.replace("_", " "))
def test_compiled_and_mapped(f):
    jitted, mapped = ftrace.jit(f), ftrace.vmap(f)(np.stack(POINTS))
    for i, x in enumerate(POINTS):
        expected = np.hstack(f(x))
        np.testing.assert_allclose(np.hstack(jitted(x)), expected)
        each = [v[i] for v in mapped]
        np.testing.assert_allclose(np.hstack(each), expected)


@pytest.mark.parametrize(
    "f",
    [
        a_list_changed_after_the_choice_in_an_arm,
        two_names_bound_anew_in_one_arm,
        a_dict_changed_by_an_iteration_whose_other_name_the_loop_binds,
        a_list_changed_before_the_loop_binds_its_name_anew,
    ],
)
def test_what_may_have_two_names_is_not_changed(f):
    with pytest.raises(MutationError, match="had made it one of two"):
        ftrace.jit(f)(POINTS[1])
