"""Items at traced places of lists and dicts: set, and what is changed in the one that is chosen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError, MutationError

PLACES = np.array([0, 1, 2, -1])
X = np.array([1.5, -2.1, 3.1, 0.5])
PROGRAMS: list[Callable[[Any, Any], Any]] = []
LOST: list[Callable[[Any, Any], Any]] = []


def program(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS.append(fn)
    return fn


def lost(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    LOST.append(fn)
    return fn


@dataclass
class Particle:
    v: Any


class Body:
    def __init__(self, v: Any) -> None:
        self.v = v


@program
def set_at_a_traced_place(x: Any, i: Any) -> Any:
    xs = [x, 1.0, 2.0]
    other = xs
    xs[i] = x * 5
    return other[0] + 10 * other[1] + 100 * xs[2]


@program
def added_to(x: Any, i: Any) -> Any:
    xs = [x, 1, 2.0]
    xs[i] += x * 5
    xs[i] *= 2
    return xs[0] + 10 * xs[1] + 100 * xs[2]


@program
def many_times(x: Any, i: Any) -> Any:
    xs = [0.0] * 4
    for k in range(6):
        xs[(i + k) % 4] += x * k
    return xs[0] + 10 * xs[1] + 100 * xs[2] + 1000 * xs[3]


@program
def counted_in_a_staged_loop(x: Any, i: Any) -> Any:
    counts, n = [0] * 3, 0
    while n < abs(x) * 3:
        counts[(n + i) % 3] += 1
        n += 1
    return counts[0] + 10 * counts[1] + 100 * counts[2]


@program
def swapped(x: Any, i: Any) -> Any:
    xs = [x, 1.0, 2.0]
    xs[i], xs[0] = xs[0], xs[i]
    return xs[0] + 10 * xs[1] + 100 * xs[2]


@program
def under_a_decision(x: Any, i: Any) -> Any:
    xs = [x, 1.0, 2.0]
    if x > 0:
        xs[i] = x * x
    else:
        xs[-1] = 4.0
    return xs[0] + 10 * xs[1] + 100 * xs[2]


@program
def an_item_of_a_chosen_list(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]]
    other = rows[1]
    rows[i][1] = 7.0 * x
    rows[i][0] += other[1]
    rows[i][-1] *= 2
    return sum(rows[0]) + 10 * rows[1][0] + 100 * rows[1][1] + 1000 * sum(rows[2]) + other[1]


@program
def a_name_that_is_read_before_its_list_changes(x: Any, i: Any) -> Any:
    rows, n, total = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]], 0, 0.0
    while n < 3 + 0 * abs(x):
        row = rows[i - n]
        total = total + row[0]
        rows[i - n][0] = row[1] * total
        n += 1
    return total + rows[0][0] + 10 * rows[1][0] + 100 * rows[2][0]


@program
def a_grid(x: Any, i: Any) -> Any:
    grid = [[0.0] * 3 for _ in range(3)]
    for k in range(4):
        grid[(i + k) % 3][(i * k) % 3] += x * (k + 1)
        grid[k % 3][i] -= 1.0
    return sum(sum(row) * 10**k + row[0] for k, row in enumerate(grid))


@program
def one_list_in_two_places(x: Any, i: Any) -> Any:
    row = [x, 1.0]
    rows = [row, row, [2.0, 3.0]]
    rows[i][0] = 5.0 * x
    return row[0] + 10 * rows[0][0] + 100 * rows[2][0]


@program
def an_attribute_of_a_chosen_object(x: Any, i: Any) -> Any:
    particles = (Particle(x), Particle(2.0), Particle(3.0))
    particles[i].v += 1.0
    particles[i - 1].v = x * particles[i].v
    return particles[0].v + 10 * particles[1].v + 100 * particles[2].v


@program
def an_attribute_of_an_object_that_is_no_container(x: Any, i: Any) -> Any:
    bodies = [Body(x), Body(2.0), Body(3.0)]
    bodies[i].v += 1.0
    bodies[i].v = bodies[0].v * 2
    return bodies[0].v + 10 * bodies[1].v + 100 * bodies[2].v


@program
def something_within_a_chosen_list(x: Any, i: Any) -> Any:
    rows: list[list[Any]] = [[Particle(x), 1.0], [Particle(2.0), 3.0], [Particle(1.0), 0.0]]
    rows[i][0].v = 7.0 * x
    rows[i][1] += x
    return sum(row[0].v * 10**k + row[1] for k, row in enumerate(rows))


@program
def a_dict_of_lists(x: Any, i: Any) -> Any:
    table: dict[str, Any] = {"a": [x, 2.0, 3.0], "n": [{"v": 1.0}, {"v": x}, {"v": 2.0}]}
    table["a"][i] = 5.0
    table["n"][i]["v"] += x
    return sum(table["a"]) + sum(d["v"] * 10**k for k, d in enumerate(table["n"]))


@program
def a_list_of_arrays(x: Any, i: Any) -> Any:
    rows = [np.array([x, 1.0]), np.array([2.0, x]), np.array([x * 3, 0.0])]
    rows[i][1] = 7.0 * x
    rows[i][0] += 1.0
    return rows[0][0] + 10 * rows[0][1] + 100 * rows[1][0] + 1000 * rows[1][1] + rows[2][1]


@program
def arrays_of_chosen_objects_in_place(x: Any, i: Any) -> Any:
    particles = [Particle(np.array([x * k, 1.0 + k])) for k in range(3)]
    other = particles[1].v
    particles[i].v += np.array([x, 10.0])
    particles[i].v[0] *= 2.0
    return sum((p.v[0] + 3 * p.v[1]) * 10**k for k, p in enumerate(particles)) + other[1] * 7


@program
def parts_of_a_tuple_as_targets(x: Any, i: Any) -> Any:
    rows, particles = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]], [Particle(1.0), Particle(x), Particle(2)]
    rows[i][0], particles[i].v = particles[0].v, rows[i][1]
    return sum(map(sum, rows)) + 10 * particles[0].v + 100 * particles[1].v


@program
def values_of_a_dict(x: Any, i: Any) -> Any:
    counts = {-1: 0.0, 0: 0.0, 1: x, 2: 0.0, "name": 3.0}
    for v in (x, x * 2):
        counts[i] += v
    counts[i % 2] = 4.0
    return sum(v * 10**k for k, v in enumerate(counts.values()))


@program
def sorted_in_place(x: Any, i: Any) -> Any:
    xs, pairs = [x, 2.0, 1.0], [(x, 1), (i * 1.0, 2), (0.3, 3)]
    other = xs
    if x > 0:
        xs.sort()
    pairs.sort(key=lambda pair: -pair[0], reverse=True)
    return other[0] + 10 * other[1] + 100 * xs[2] + 1000 * pairs[0][1] + pairs[2][0]


@program
def out_of_range_of_the_outer_list_and_caught(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0]]
    try:
        rows[i][0] = 7.0
    except IndexError:
        rows[0][1] = -1.0
    return rows[0][0] + 10 * rows[1][0] + 100 * rows[0][1]


@program
def out_of_range_and_caught(x: Any, i: Any) -> Any:
    xs = [x, 1.0]
    try:
        xs[i] = 7.0
    except IndexError:
        xs[0] = -1.0
    return xs[0] + 10 * xs[1]


@program
def a_number_that_stays_an_integer(x: Any, i: Any) -> Any:
    xs = [3, 4, 5]
    xs[i] = 7
    return xs[0] // 2 + 10 * (xs[1] // 2) + 100 * (xs[2] // 2)


@program
def read_of_what_is_chosen(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, x * 3], [4.0, 5.0]]
    row = rows[i]
    rows.append([0.0, 0.0])
    copied = list(row)
    copied[0] = 9.0
    return row[0] + 10 * row[1] + copied[0]


@program
def an_item_of_what_is_chosen(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]]
    y, row = rows[i][0], list(rows[i])
    rows[0][0] = 9.0
    return y + 10 * row[0]


@program
def the_best_by_a_key(x: Any, i: Any) -> Any:
    best = max([Particle(x), Particle(2.0), Particle(i)], key=lambda p: p.v)
    return best.v * 2


@lost
def an_item_of_a_list_that_a_name_is_bound_to(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]]
    row = rows[i]
    row[1] = 7.0 * x
    return rows[0][1] + 10 * rows[1][1]


@lost
def an_attribute_of_an_object_that_a_function_gets(x: Any, i: Any) -> Any:
    def push(p: Any) -> None:
        p.v += 1.0

    particles = (Particle(x), Particle(2.0), Particle(3.0))
    push(particles[i])
    return particles[0].v + 10 * particles[1].v


@lost
def an_item_that_goes(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]]
    del rows[i][0]
    return rows[0][0]


@lost
def an_item_of_a_chosen_dict(x: Any, i: Any) -> Any:
    table = {0: {"v": x}, 1: {"v": 2.0}, 2: {"v": 3.0}, -1: {"v": 4.0}}
    table[i]["v"] = 5.0
    return table[0]["v"]


@lost
def an_item_that_may_be_the_chosen_one(x: Any, i: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]]
    row = rows[i]
    rows[0][0] = 9.0
    return row[0]


@lost
def an_object_that_may_be_the_chosen_one(x: Any, i: Any) -> Any:
    particles = [Particle(x), Particle(2.0), Particle(3.0)]
    p = particles[i]
    particles[0].v = 9.0
    return p.v


@lost
def the_best_and_what_it_may_be(x: Any, i: Any) -> Any:
    particles = [Particle(x), Particle(2.0), Particle(3.0)]
    best = max(particles, key=lambda p: p.v)
    particles[1].v = 0.0
    return best.v


@lost
def an_attribute_of_the_best(x: Any, i: Any) -> Any:
    particles = [Particle(x), Particle(2.0), Particle(3.0)]
    best = max(particles, key=lambda p: p.v)
    best.v = 0.0
    return sum(p.v for p in particles)


@lost
def an_attribute_of_the_first_in_order(x: Any, i: Any) -> Any:
    particles = [Particle(x), Particle(2.0), Particle(3.0)]
    ordered: list[Any] = sorted(particles, key=lambda p: p.v)
    ordered[0].v = 0.0
    return sum(p.v for p in particles)


def python(fn: Any) -> list[Any]:
    return [fn(float(x), int(i)) for x, i in zip(X, PLACES, strict=True)]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_values_are_those_of_python(fn: Any) -> None:
    got = [ftrace.jit(fn)(x, i) for x, i in zip(X, PLACES, strict=True)]
    np.testing.assert_allclose(got, python(fn), rtol=1e-12)
    np.testing.assert_allclose(ftrace.vmap(fn)(X, PLACES), python(fn), rtol=1e-12)
    np.testing.assert_allclose(ftrace.vectorize(fn)(X, PLACES), python(fn), rtol=1e-12)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_derivatives_are_those_of_python(fn: Any) -> None:
    pairs = [(float(x), int(i)) for x, i in zip(X, PLACES, strict=True)]
    wanted = [(fn(x + 1e-6, i) - fn(x - 1e-6, i)) / 2e-6 for x, i in pairs]
    gradient: Any = ftrace.grad(lambda x, i: fn(x, i) + 0.0 * x)
    got = [ftrace.jit(gradient)(x, i) for x, i in pairs]
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ftrace.vmap(gradient)(X, PLACES), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fn", LOST, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("way", [ftrace.jit, lambda f: lambda *p: ftrace.vmap(f)(*p)[0]])
def test_a_change_of_what_is_chosen_is_refused(fn: Any, way: Any) -> None:
    given = (X, PLACES) if way is not ftrace.jit else (X[0], PLACES[0])
    with pytest.raises(MutationError, match=r"was changed after a decision .* one of two or more"):
        way(fn)(*given)


def test_places_out_of_range_are_errors_of_python() -> None:
    def f(x: Any, i: Any) -> Any:
        xs = [x, 1.0]
        xs[i] = 4.0
        return xs[0]

    with pytest.raises(IndexError, match="list assignment index out of range"):
        ftrace.jit(f)(1.0, 2)
    with pytest.raises(IndexError, match="list assignment index out of range"):
        ftrace.vmap(f)(X, PLACES - 2)


def test_new_keys_are_not_set_at_a_traced_place() -> None:
    def f(i: Any, x: Any) -> Any:
        table = {0: x}
        table[i] = 2.0
        return table[0]

    def g(i: Any, x: Any) -> Any:
        table = {0: x}
        table[i] += 2.0
        return table[0]

    assert ftrace.jit(f)(0, 1.0) == 2.0
    with pytest.raises(LiftError, match="A traced key, 3, of a dict was bound that the dict"):
        ftrace.jit(f)(3, 1.0)
    with pytest.raises(KeyError, match="3"):
        ftrace.jit(g)(3, 1.0)


def test_what_is_no_number_is_not_set_at_a_traced_place() -> None:
    def f(x: Any, i: Any) -> Any:
        xs = [x, np.ones(2)]
        xs[i] = 4.0
        return xs[0]

    def g(x: Any, i: Any) -> Any:
        xs = [x, 1.0]
        xs[i] = np.array([x, x])
        return xs[0]

    def h(x: Any, i: Any) -> Any:
        rows = ((x, 1.0), (2.0, 3.0))
        rows[i][0] = 4.0  # type: ignore[index]
        return rows[0][0]

    with pytest.raises(TypeError, match="does not support item assignment"):
        ftrace.jit(h)(1.0, 0)
    for broken in (f, g):
        with pytest.raises(LiftError, match="What is no number was bound at a traced place"):
            ftrace.jit(broken)(1.0, 0)
