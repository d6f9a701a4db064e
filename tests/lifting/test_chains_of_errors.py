"""Where an error comes from that a traced value decides about: as in Python, or refused."""

import sys
import traceback

import numpy as np
import pytest

from ftrace import grad, jit, vectorize, vmap
from ftrace.errors import LiftError

POINTS = (-1.37, 0.61, 2.43)


class Wrapped(Exception):  # noqa: N818
    pass


def chain(error):
    """The classes of an error and of those that it comes from."""
    found = []
    while error is not None:
        found.append(type(error).__name__)
        hidden = None if error.__suppress_context__ else error.__context__
        error = hidden if error.__cause__ is None else error.__cause__
    return found


def checked(x):
    if x > 0:
        raise ValueError("q")
    return x


def one_of_two(x):
    if x > 1:
        raise KeyError("k")
    return checked(x)


def wrap(f, x):
    try:
        return f(x)
    except (ValueError, KeyError) as error:
        raise Wrapped("w") from error


def a_chain_in_a_helper(x):
    try:
        return wrap(checked, x)
    except Wrapped as error:
        return x * len(chain(error))


def a_cause(x):
    try:
        return wrap(checked, x)
    except Wrapped as error:
        return x * (2 if isinstance(error.__cause__, ValueError) else 3)


def no_cause(x):
    try:
        return checked(x)
    except ValueError as error:
        return x * (2 if error.__cause__ is None is error.__context__ else 3)


def kept_behind_the_handler(x):
    try:
        return wrap(checked, x)
    except Wrapped as error:
        kept = error
    return x * (2 if kept.__cause__ else 3)


def an_explicit_cause(x):
    try:
        if x > 0:
            raise ValueError("z") from KeyError("a")
        return x
    except ValueError as error:
        return x * len(chain(error)) * (2 if isinstance(error.__cause__, KeyError) else 3)


def without_a_context(x):
    def inner(x):
        try:
            return checked(x)
        except ValueError:
            raise Wrapped from None

    try:
        return inner(x)
    except Wrapped as error:
        return x * len(chain(error)) * (2 if isinstance(error.__context__, ValueError) else 3)


def an_implicit_context(x):
    def inner(x):
        try:
            return checked(x)
        except ValueError:
            if x > 1:
                raise Wrapped  # noqa: B904 - the context is what is tested
            return x * 5

    try:
        return inner(x)
    except Wrapped as error:
        return x * len(chain(error))


def a_native_error_in_a_handler(x):
    try:
        return checked(x)
    except ValueError as error:
        try:
            raise KeyError
        except KeyError as other:
            return x * (2 if other.__context__ is error else 3)


def a_decision_in_a_native_handler(x):
    def inner(x):
        try:
            return wrap(checked, x)
        except Wrapped as error:
            return x * (2 if isinstance(error.__cause__.__context__, IndexError) else 3)

    try:
        raise IndexError
    except IndexError:
        y = inner(x)
    return y


def raised_again(x):
    try:
        try:
            return checked(x)
        except ValueError:
            raise
    except ValueError as error:
        return x * len(chain(error)) * 7


def what_python_is_asked(x):
    try:
        return checked(x)
    except ValueError:
        text = traceback.format_exc().splitlines()[-1]
        return x * (2 if sys.exc_info()[0] is ValueError else 3) * len(text)


def notes(x):
    try:
        return checked(x)
    except ValueError as error:
        error.add_note("n")
        return x * len(error.__notes__)


def reads_the_cause_of_a_handlers_error(x):
    try:
        try:
            if x > 1:
                raise KeyError("k")
            y = x * 2
        except KeyError as error:
            raise ValueError("v") from error
    except ValueError as error:
        y = x * x if isinstance(error.__cause__, KeyError) else 0.0
    return y


def reads_the_cause_by_name(x):
    try:
        if x > 1:
            raise ValueError("v") from KeyError("k")
        y = x * 2
    except ValueError as error:
        y = x * x if getattr(error, "__cause__", None) is not None else 0.0
    return y


def reads_the_cause(x):
    try:
        try:
            if x > 0:
                raise ValueError
        except ValueError as error:
            raise RuntimeError from error
    except RuntimeError as error:
        return 1.0 if error.__cause__ is None else 2.0
    return 0.0


RIGHT = (
    *(a_chain_in_a_helper, a_cause, no_cause, kept_behind_the_handler, an_explicit_cause),
    *(without_a_context, an_implicit_context, a_native_error_in_a_handler),
    *(a_decision_in_a_native_handler, raised_again, what_python_is_asked, notes),
    *(reads_the_cause_of_a_handlers_error, reads_the_cause_by_name, reads_the_cause),
)


def slope(f, x):
    return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5


@pytest.mark.parametrize("f", RIGHT)
def test_handlers_see_where_an_error_comes_from(f):
    wanted = [f(x) for x in POINTS]
    np.testing.assert_allclose([jit(f)(x) for x in POINTS], wanted)
    np.testing.assert_allclose(vmap(f)(np.array(POINTS)), wanted)
    np.testing.assert_allclose(vectorize(f)(np.array(POINTS)), wanted)
    for x in POINTS:
        assert grad(jit(lambda x: x * f(x)))(x) == pytest.approx(slope(lambda x: x * f(x), x))


def handed_on(x):
    try:
        return wrap(one_of_two, x)
    except Wrapped as error:
        return x * len(chain(error))


def asked_for_its_context(x):
    try:
        return wrap(one_of_two, x)
    except Wrapped as error:
        return x * (2 if isinstance(error.__context__, KeyError) else 3)


def asked_for_what_is_handled(x):
    try:
        return one_of_two(x)
    except (KeyError, ValueError):
        return x * (2 if sys.exc_info()[0] is KeyError else 3)


@pytest.mark.parametrize("f", [handed_on, asked_for_its_context, asked_for_what_is_handled])
def test_one_of_several_errors_is_refused_where_it_matters_which(f):
    for mode in (jit, vmap):
        with pytest.raises(LiftError, match="not known while the function is traced"):
            mode(f)(np.array([2.0]) if mode is vmap else 2.0)


def test_one_of_several_errors_may_be_read_by_its_text():
    def f(x):
        try:
            return wrap(one_of_two, x)
        except Wrapped as error:
            return x * len(str(error)) * len(error.args)

    assert [jit(f)(x) for x in POINTS] == [f(x) for x in POINTS]


def fails_with_a_value(x):
    try:
        if x > 0:
            raise ValueError("v", x)
        return x
    except ValueError as error:
        raise Wrapped("z", x) from error


def fails_with_an_explicit_cause(x):
    if x > 0:
        raise ValueError("z") from KeyError("a")
    return x


def fails_in_a_helper(x):
    return wrap(checked, x)


def told(f):
    try:
        return f(2.0)
    except Exception as error:
        found = (error, error.__cause__, error.__context__)
        return [(type(e), getattr(e, "args", ())) for e in found]


@pytest.mark.parametrize("f", [fails_with_a_value, fails_with_an_explicit_cause, fails_in_a_helper])
def test_an_error_that_leaves_compiled_code_has_its_cause(f):
    assert told(jit(f)) == told(f)
    assert told(lambda x: vmap(f)(np.array([x]))) == told(f)
