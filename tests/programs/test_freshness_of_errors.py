"""Objects that errors carry from where they are raised to where they are caught are watched."""

import contextlib
import sys

import numpy as np
import pytest

import ftrace

X = np.float64(1.5)


class Thing:
    """An object with a number."""

    def __init__(self):
        self.w = 2.0


class ProblemError(Exception):
    """An error that carries something."""

    def __init__(self, a):
        super().__init__("bad")
        self.a = a


class BareError(Exception):
    """An error with what it was raised with."""


class DeeperError(ProblemError):
    """An error whose class keeps more."""

    def __init__(self, a):
        super().__init__(a)
        self.b = [a]


class Catching:
    """A context that catches what is raised in it."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.got = error
        return True


b = Thing()
weights = np.array([2.0, 3.0])
kept, wrapped = ProblemError(b), KeyError(b)


def throw(kind=ProblemError):
    raise kind(b)


def caught(f, *args):
    try:
        return f(*args)
    except ProblemError as e:
        return e.a.w


def elsewhere(x):
    try:
        throw()
    except ProblemError as e:
        return x * e.a.w


def array(x):
    def ask():
        raise ProblemError(weights)

    try:
        ask()
    except ProblemError as e:
        return x * e.a[0]


def listed(x):
    def ask():
        raise ProblemError([weights, b])

    try:
        ask()
    except ProblemError as e:
        found = e.a
    return x * found[0][0] * found[1].w


def raised_with(x):
    try:
        throw(BareError)
    except BareError as e:
        return x * e.args[0].w


def kept_outside(x):
    try:
        raise kept
    except ProblemError as e:
        return x * e.a.w


def wrapped_outside(x):
    try:
        raise wrapped
    except KeyError as e:
        return x * e.args[0].w


def missing(x):
    try:
        return {}[b]
    except KeyError as e:
        return x * e.args[0].w


def returned_by_a_generator(x):
    def items():
        yield 1
        return b

    it = items()
    next(it)
    try:
        next(it)
    except StopIteration as e:
        return x * e.value.w


def cause(x):
    try:
        try:
            throw()
        except ProblemError as e:
            raise ValueError("other") from e
    except ValueError as e:
        return x * e.__cause__.a.w


def context(x):
    try:
        try:
            throw()
        except ProblemError:
            raise ValueError("other")  # noqa: B904 - the context is asked for
    except ValueError as e:
        return x * e.__context__.a.w


def again(x):
    try:
        try:
            throw(DeeperError)
        except ProblemError:
            raise
    except DeeperError as e:
        return x * e.b[0].w


def grouped(x):
    y = x
    try:
        raise ExceptionGroup("several", [kept])
    except* ProblemError as e:
        y = x * e.exceptions[0].a.w
    return y


def in_a_with(x):
    with Catching() as c:
        throw()
    return x * c.got.a.w


def of_the_system(x):
    try:
        throw()
    except ProblemError:
        return x * sys.exc_info()[1].a.w


@contextlib.contextmanager
def handling(out):
    try:
        yield
    except ProblemError as e:
        out.append(e.a)


def in_a_manager(x):
    out = []
    with handling(out):
        throw()
    return x * out[0].w


def caught_before_it_was_known(x):
    return x * caught(lambda: 1.0) * caught(throw)


PROGRAMS = [
    elsewhere, array, listed, raised_with, kept_outside, wrapped_outside, missing,
    returned_by_a_generator, cause, context, again, grouped, in_a_with, of_the_system, in_a_manager,
    caught_before_it_was_known,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_an_error_carries_is_fresh(f, monkeypatch):
    jitted = ftrace.jit(f)
    assert jitted(X) == f(X)
    monkeypatch.setattr(b, "w", 7.0)
    before = weights.copy()
    weights[0] = 5.0
    try:
        assert jitted(X) == f(X)
    finally:
        weights[:] = before
