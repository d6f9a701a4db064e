"""Errors of tracing that the traced function catches: no result comes of it, unless it is right."""

import contextlib
import functools
import math

import numpy as np
import pytest

import ftrace
from ftrace.core import trace
from ftrace.core.errors import (
    ConcretizationTypeError,
    LiftError,
    MutationError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    UnexpectedTracerError,
)


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    assert not trace.refused


def early(x):
    try:
        if x > 0:
            return x * 2
    except Exception:
        pass
    return x * 3


def converting(x):
    try:
        y = float(x)
    except (TypeError, ValueError):
        y = 0.0
    return x + y


def of_math(x):
    y = 0.0
    try:  # noqa: SIM105
        y = math.sin(x)
    except TypeError:
        pass
    return x + y


def number(x):
    try:
        return float(x)
    except Exception:
        return 0.0


def by_a_helper(x):
    return x * number(x)


def other_words(x):
    try:
        float(x)
    except TypeError:
        raise KeyError("no number") from None
    return x


def other_words_caught(x):
    try:
        return other_words(x)
    except KeyError:
        return -x


def filling(x):
    out = np.zeros(2)
    with contextlib.suppress(Exception):
        out[0] = x
    return out.sum() + x


def bound(x):
    y = x
    try:
        if x > 0:
            y = 2 * x
    except:  # noqa: E722
        pass
    return y


def inside(x):
    def inner(z):
        try:
            return z * float(x)  # of the function around it
        except Exception:
            return z

    return ftrace.grad(inner)(2.0)


def counting(x):
    try:
        n = len([*range(int(x))])
    except TypeError:
        n = 0
    return x * n


SCOPE: dict = {}
exec(  # without source
    """
def unread(x):
    y = x
    try:
        if x > 0: y = 2*x
    except: pass
    return y
def unread_helper(x):
    try: return float(x)
    except Exception: return 0.0
""",
    SCOPE,
)


def by_an_unread_helper(x):
    return x * SCOPE["unread_helper"](x)


LIFTED = {
    f.__name__: f
    for f in (
        early,
        converting,
        of_math,
        by_a_helper,
        other_words,
        other_words_caught,
        filling,
        bound,
        inside,
        early,
    )
}
REFUSED = {f.__name__: f for f in (counting, by_an_unread_helper)}
X = 2.5


def mapped(f):
    return lambda x: ftrace.vmap(f)(np.array([x]))[0]


def pushed(f):
    return lambda x: ftrace.jvp(f, (x,), (1.0,))[0]


STAGED = {
    "jit": ftrace.jit,
    "vmap": mapped,
    "jit vmap": lambda f: ftrace.jit(mapped(f)),
    "vmap jit": lambda f: mapped(ftrace.jit(f)),
    "jvp of jit": lambda f: pushed(ftrace.jit(f)),
    "jit of jvp": lambda f: ftrace.jit(pushed(f)),
}


@pytest.mark.parametrize("f", LIFTED.values(), ids=LIFTED)
def test_a_caught_error_of_tracing_is_lifted_away(f):
    for name, transform in STAGED.items():
        for _ in range(2):
            np.testing.assert_allclose(transform(f)(X), f(X), err_msg=name)


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED)
def test_or_raised_after_all(f):
    for transform in STAGED.values():
        for _ in range(2):
            with pytest.raises((ConcretizationTypeError, LiftError)):
                transform(f)(X)


@pytest.mark.parametrize("transform", [ftrace.jit, mapped, ftrace.grad], ids=lambda t: t.__name__)
def test_with_lift_false_the_error_is_raised_and_says_that_it_was_caught(transform):
    wrap = {"mapped": lambda f: mapped_plainly(f)}.get(transform.__name__)
    made = wrap(converting) if wrap else transform(converting, lift=False)
    with pytest.raises(TracerArrayConversionError, match="float") as caught:
        made(X)
    _, note = caught.value.__notes__
    assert "isinstance(x, ftrace.Tracer)" in note
    assert "test_swallowed.py" in str(caught.value)


def mapped_plainly(f):
    return lambda x: ftrace.vmap(f, lift=False)(np.array([x]))


def test_asking_for_tracers_needs_no_error():
    def f(x):
        return x if isinstance(x, ftrace.Tracer) else -x

    assert f(X) == -X
    assert ftrace.jit(f, lift=False)(X) == X


# ---------------------------------------------------------------------------------- what counts


def test_an_error_converted_and_raised_is_the_error_of_tracing():
    with pytest.raises(TracerArrayConversionError):
        ftrace.jit(other_words, lift=False)(X)


def test_errors_of_the_user_stay_his():
    def f(x):
        try:
            raise KeyError("mine")
        except KeyError:
            return x * {}["other"]

    with pytest.raises(KeyError, match="other"):
        ftrace.jit(f)(X)


def test_shapes_and_indices_may_be_tried():
    def f(x):
        try:
            return x @ np.ones((3, 3))
        except ValueError:
            pass
        try:
            return x[7]
        except IndexError:
            return x[0] * 2

    assert ftrace.jit(f)(np.array([1.0, 2.0])) == 2.0
    assert ftrace.grad(f)(np.array([1.0, 2.0]))[0] == 2.0


def test_a_write_to_an_argument_that_is_caught_raises():
    def f(x):
        with contextlib.suppress(ValueError):
            x[0] = 1.0
        return x.sum()

    for transform in (ftrace.jit, ftrace.grad):
        with pytest.raises(MutationError):
            transform(f)(np.ones(3))


def test_a_value_that_escaped_and_is_caught_raises():
    kept = []
    ftrace.jit(lambda x: kept.append(x) or x)(X)

    def f(x):
        try:
            return x * kept[0]
        except Exception:
            return x

    with pytest.raises(UnexpectedTracerError):
        ftrace.jit(f)(X)


def test_an_inner_transformation_that_failed_counts_for_the_outer_one():
    def f(x):
        try:
            return ftrace.jit(lambda z: z if z > 0 else -z, lift=False)(x)
        except Exception:
            return 7 * x

    for transform in (ftrace.grad, ftrace.jit, mapped):
        with pytest.raises(TracerBoolConversionError):
            transform(f)(X)
    with pytest.raises(TracerBoolConversionError):
        ftrace.grad(ftrace.grad(f))(X)
    assert f(X) == 7 * X  # outside of transformations users catch what they like


def test_constants_at_compile_time_count_too():
    def f(x):
        try:
            with ftrace.ensure_compile_time_eval():
                y = float(x)
        except Exception:
            y = 0.0
        return x * y

    for transform in (ftrace.jit, ftrace.grad):
        with pytest.raises(TracerArrayConversionError):
            transform(f)(X)


def test_an_interrupt_is_no_error_of_tracing():
    def f(x):
        try:
            float(x)
        except TypeError:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        ftrace.jit(f, lift=False)(X)


def test_a_function_without_source_may_catch_everything():
    for transform in (ftrace.jit, mapped, pushed):
        assert transform(SCOPE["unread"])(X) == 2 * X
        assert transform(SCOPE["unread"])(-X) == -X


class TestHashes:
    """Keys of dicts, items of sets and arguments of caches: a number has a hash, an array none."""

    def test_a_caught_lookup_is_decided_by_the_value(self):
        def f(x):
            try:
                return {1.0: 2.0, 2.0: 3.0}[x] * x
            except TypeError:
                return 0.0 * x

        assert ftrace.jit(f)(2.0) == 6.0
        assert ftrace.grad(f)(2.0) == 3.0
        np.testing.assert_array_equal(ftrace.vmap(f)(np.array([1.0, 2.0])), [2.0, 6.0])

    def test_a_key_that_is_traced_is_refused_also_where_its_error_is_caught(self):
        def f(x):
            try:
                memo = {x: 1.0}
            except TypeError:
                return 0.0 * x
            return x * len(memo)

        for run in (ftrace.jit(f), ftrace.grad(f), ftrace.vectorize(f)):
            with pytest.raises(ConcretizationTypeError, match="A hash needs the plain value"):
                run(2.0)

    def test_arrays_have_none(self):
        def f(x):
            try:
                return x * hash(x)
            except TypeError as error:
                return x * len(str(error))

        for x in (np.ones(2), np.array(3.0)):
            np.testing.assert_array_equal(ftrace.jit(f)(x), f(x))

    def test_a_decision_is_a_key(self):
        def f(x):
            return x * {True: 2.0, False: 3.0}[x > 0]

        for x in (2.0, -2.0):
            assert ftrace.jit(f)(x) == f(x)
            assert ftrace.grad(f)(x) == f(x) / x

    def test_an_item_of_a_set(self):
        def f(x):
            return x * 2 if x in {1.0, 2.0} else -x

        for x in (2.0, 3.0):
            assert ftrace.jit(f)(x) == f(x)

    def test_a_cache_is_passed_by(self):
        @functools.lru_cache
        def h(v):
            return v * 2 if v > 0 else -v

        def f(x):
            return h(x) + h(3.0)

        for x in (2.0, -2.0):
            assert ftrace.jit(f)(x) == f(x)
