"""Loops over a few objects, or containers that they change, which a traced value ends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import make_jaxpr
from ftrace.errors import LiftError, MutationError
from ftrace.lifting.staging.staged_loops import UNROLLED
from tests.lifting.agreeing import derivatives_agree, values_agree

X = np.array([0.47, 2.2, -1.1, 5.3])
PROGRAMS: list[Callable[[Any], Any]] = []


def program(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(fn)
    return fn


class Body:
    """An object that is no container."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def step(self, by: Any) -> Any:
        self.v = self.v + by
        return self.v


@dataclass
class Particle:
    v: Any


@program
def rows_that_are_changed(x: Any) -> Any:
    rows = [[x, 1.0], [2.0, 3.0], [4.0, 5.0]]
    for row in rows:
        if x * row[1] > 3:
            break
        row[0] = 50.0
    return rows[0][0] + 10 * rows[1][0] + 100 * rows[2][0]


@program
def dicts_that_are_changed(x: Any) -> Any:
    rows = [{"a": x}, {"a": 2.0}, {"a": 4.0}]
    for row in rows:
        if x * row["a"] > 3:
            break
        row.update(a=row["a"] * x)
    return rows[0]["a"] + 10 * rows[1]["a"] + 100 * rows[2]["a"]


@program
def fields_that_are_changed(x: Any) -> Any:
    particles = [Particle(x), Particle(2.0), Particle(3.0)]
    for k, p in enumerate(particles):
        if x * k > 1:
            break
        p.v += x
    return particles[0].v + 10 * particles[1].v + 100 * particles[2].v


@program
def methods_and_else(x: Any) -> Any:
    bodies = [Body(x), Body(2.0), Body(4.0)]
    for k, b in enumerate(bodies):
        if b.step(k) > x * 3:
            break
    else:
        bodies[0].v = 100.0
    return bodies[0].v + 10 * bodies[1].v + 100 * bodies[2].v


@program
def continued_and_returned(x: Any) -> Any:
    bodies = [Body(x), Body(2.0), Body(4.0)]
    for b in bodies:
        if x > b.v:
            continue
        b.v += 1
        if x > 2:
            return b.v
    return bodies[0].v + 10 * bodies[1].v + 100 * bodies[2].v


@program
def two_at_a_time(x: Any) -> Any:
    particles, rows = [Particle(x), Particle(2.0)], [[1.0, x], [3.0, 4.0]]
    for p, row in zip(particles, rows, strict=True):
        if p.v > row[1]:
            break
        p.v, row[0] = row[0], p.v
    return particles[0].v + 10 * particles[1].v + 100 * rows[0][0] + 1000 * rows[1][0]


@program
def loops_in_loops(x: Any) -> Any:
    total = 0.0
    for p in [Body(1.0), Body(x), Body(3.0)]:
        for q in [Body(2.0), Body(x)]:
            if p.v * q.v > 5:
                break
            q.v = p.v
            total = total + q.v
        if total > 4:
            break
        total = total * 2
    return total


@program
def values_of_a_dict(x: Any) -> Any:
    bodies = {"a": Body(x), "b": Body(2.0)}
    for _, b in bodies.items():  # noqa: PERF102 - pairs are what is meant
        if b.v > 1.0:
            break
        b.v = 5.0
    return bodies["a"].v + 10 * bodies["b"].v


@program
def backwards_and_counted(x: Any) -> Any:
    bodies, n = [Body(x), Body(2.0), Body(4.0)], 0
    for b in reversed(bodies):
        n += 1
        if b.v * x > 6:
            break
        b.v = 7.0
    return bodies[0].v + 10 * bodies[1].v + 100 * bodies[2].v + 1000 * n


@program
def many_whose_names_a_comprehension_has(x: Any) -> Any:
    bodies = [Body(1.0) for _ in range(40)]
    y = x
    for b in bodies:
        y = y - 0.15
        if y < 0:
            break
        b.v = y
    return sum(b.v for b in bodies)


@program
def raised_and_caught(x: Any) -> Any:
    bodies = [Body(x), Body(2.0)]
    try:
        for b in bodies:
            if b.v > 1:
                raise ValueError
            b.v = 9.0
    except ValueError:
        return bodies[0].v + 10 * bodies[1].v + 1000
    return bodies[0].v + 10 * bodies[1].v


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_values_are_those_of_python(fn: Any) -> None:
    values_agree(fn, X)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_derivatives_are_those_of_python(fn: Any) -> None:
    derivatives_agree(fn, X)


def test_an_object_that_is_read_after_its_loop_is_refused() -> None:
    def f(x: Any) -> Any:
        for b in (Body(1.0), Body(2.0)):
            if b.v > x:
                break
        return b.v

    with pytest.raises(LiftError, match="`b` is a Body on one side"):
        ftrace.jit(f)(1.5)


def test_a_helper_that_changes_a_container_is_refused() -> None:
    def pushed(p: Any) -> None:
        p.v = 9.0

    def f(x: Any) -> Any:
        particles = [Particle(x), Particle(2.0), Particle(3.0)]
        for p in particles:
            if p.v > x:
                break
            pushed(p)
        return sum(p.v for p in particles)

    with pytest.raises(MutationError, match="was changed after a decision"):
        ftrace.jit(f)(1.5)


def test_containers_that_are_only_read_and_many_are_one_loop() -> None:
    def f(x: Any, n: int) -> Any:
        total = 0.0
        for row in [[1.0 * k, x] for k in range(n)]:
            if row[0] * x > 40:
                break
            total = total + row[1]
        return total

    def g(x: Any) -> Any:
        rows = [[1.0 * k, x] for k in range(UNROLLED + 1)]
        for row in rows:
            if row[0] * x > 40:
                break
            row[0] = 0.0
        return rows[0][0]

    few, many = (len(make_jaxpr(ftrace.lift(f), static_argnums=1)(1.5, n).eqns) for n in (5, 90))
    assert many - few < 100  # one loop, and its items put into arrays
    with pytest.raises(MutationError, match="was changed after a decision"):
        ftrace.jit(g)(1.5)
