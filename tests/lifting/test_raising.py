"""Errors that values decide about: as in Python, of the first member that has one, with its line.

Each program is compared with plain Python over all its arguments: one by one under `jit`, together
under `vmap`, `vectorize` and their nestings. Either the value is the same, or class and text of
the error are, and a note names the member and the line.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, vectorize, vmap
from ftrace.core.config import update
from ftrace.errors import LiftError, TracerBoolConversionError
from tests.lifting import excepting, raised

Function = Callable[[Any], Any]
MAPPED: dict[str, Callable[[Function], Function]] = {
    "vmap": vmap,
    "vectorize": vectorize,
    "jit(vmap)": lambda f: jit(vmap(f)),
    "vmap(jit)": lambda f: vmap(jit(f)),
    "jit(vectorize)": lambda f: jit(vectorize(f)),
}


def outcome(f: Function, x: Any) -> Any:
    """The value, or the error."""
    try:
        return f(x)
    except Exception as error:
        return error


def agree(found: Any, expected: Any, member: int | None = None) -> None:
    """Raise AssertionError unless both are one value, or one error."""
    if not isinstance(expected, Exception):
        if isinstance(found, Exception):
            raise found
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        return
    assert type(found) is type(expected), repr(found)
    assert str(found) == str(expected)
    (note,) = found.__notes__
    assert "raised.py" in note or "excepting.py" in note
    assert member is None or f"batch element {member}," in note, note


def ragged(f: Function, xs: Any) -> Any:
    """Plain Python over all members: the results, or the first error and its member."""
    found = []
    for i, x in enumerate(xs):
        try:
            found.append(f(x))
        except Exception as error:
            return error, i
    return np.array(found), None


PROGRAMS = [*raised.PROGRAMS, *excepting.PROGRAMS]


def called(f: Function) -> str:
    return f"{f.__module__.rpartition('.')[2]}.{f.__name__}"


@pytest.mark.parametrize("f", PROGRAMS, ids=called)
def test_one_member_is_as_in_python(f):
    compiled = jit(f)
    for x in raised.ARGUMENTS:
        agree(outcome(compiled, x), outcome(f, x))


@pytest.mark.sampled(3, each="f")
@pytest.mark.parametrize("way", MAPPED)
@pytest.mark.parametrize("f", PROGRAMS, ids=called)
def test_members_are_as_in_python(f, way):
    mapped = MAPPED[way](f)
    xs = np.array(raised.ARGUMENTS)
    with np.errstate(all="ignore"):
        good = np.array([x for x in xs if not isinstance(outcome(f, x), Exception)])
        for part in (good, xs, xs[::-1].copy()):
            expected, member = ragged(f, part)
            agree(outcome(mapped, part), expected, None if way == "vmap(jit)" else member)


# ---------------------------------------------------------------------------------- more


X = np.array([2.0, 0.5, 3.0])
BAD = np.array([2.0, -1.0, -3.0])
WEIGHTS = np.array([1.0, 10.0, 100.0])


def quotient(x):
    if x <= 0:
        raise ValueError(f"no root of {x}")
    return np.sqrt(x) * x


DERIVATIVES = {
    "grad(jit)": lambda f: lambda xs: np.array([grad(jit(f))(x) for x in xs]),
    "vmap(grad)": lambda f: vmap(grad(f)),
    "grad of vmap": lambda f: grad(lambda xs: vmap(f)(xs).sum()),
    "grad of vectorize": lambda f: grad(lambda xs: vectorize(f)(xs).sum()),
    "jit(grad) of vectorize": lambda f: jit(grad(lambda xs: vectorize(f)(xs).sum())),
    "jvp of vectorize": lambda f: lambda xs: ftrace.jvp(vectorize(f), (xs,), (np.ones(3),))[1],
    "vectorize(grad)": lambda f: vectorize(grad(f)),
    "elementwise_partials": lambda f: lambda xs: ftrace.elementwise_partials(f)(xs)[1][0],
    "linearize": lambda f: lambda xs: ftrace.linearize(vmap(f), xs)[1](np.ones(3)),
}


@pytest.mark.parametrize("way", DERIVATIVES)
def test_derivatives_pass_by_and_errors_stay(way):
    derivative = DERIVATIVES[way](quotient)
    np.testing.assert_allclose(derivative(X), 1.5 * np.sqrt(X))
    with pytest.raises(ValueError, match=r"no root of -1\.0"):
        derivative(BAD)


def test_two_mapped_axes_give_an_index_of_two_numbers():
    for way in (vectorize, lambda f: vmap(vmap(f)), lambda f: jit(vmap(vmap(f)))):
        with pytest.raises(ValueError, match="no root of -1") as caught:
            way(quotient)(np.array([[4.0, 1.0], [-1.0, -2.0]]))
        assert "batch element (1, 0), at" in caught.value.__notes__[0]


def test_an_index_of_a_mapped_branch_is_looked_at_by_its_members_alone():
    table = np.array([1.0, 2.0, 3.0])

    def f(i):
        if i < 3:
            return table[i]
        raise KeyError(int(i))

    np.testing.assert_array_equal(vmap(f)(np.array([0, 2])), [1.0, 3.0])
    with pytest.raises(KeyError, match="3"):
        vmap(f)(np.array([0, 3, 4]))


def test_a_kernel_that_cannot_raise_has_no_flag():
    def text(f):
        return str(jit(vectorize(f)).trace(X))

    assert "raise" not in text(lambda x: x if x > 1 else -x)
    assert "raise" in text(quotient)


def test_compiled_kernels_fold_one_flag_and_python_is_called_behind_it_alone():
    f = jit(vectorize(quotient))
    program = f.lower(X)
    (kernel,) = map(str, program.kernels)
    assert kernel.count("fold or<b1") == 1
    (branch,) = [s for s in program.program.steps if type(s).__name__ == "BranchStep"]
    nothing, arm = branch.arms
    assert nothing == ()
    assert len(arm) == 1
    with update(compile=True):
        np.testing.assert_allclose(f(X), X * np.sqrt(X))
        with pytest.raises(ValueError, match=r"no root of -1\.0") as caught:
            f(BAD)
    assert "batch element 1, at" in caught.value.__notes__[0]


def test_functions_without_source_raise_what_their_path_raises():
    scope = {}
    exec("def f(x):\n if x > 1: raise ValueError('large', x)\n return x", scope)
    assert jit(scope["f"])(0.5) == 0.5
    with pytest.raises(ValueError, match=r"\('large', 2\.0\)"):
        jit(scope["f"])(2.0)
    exec("def g(x):\n if x > 1: raise ValueError(f'large {x!r}')\n return x", scope)
    with pytest.raises(LiftError, match="ValueError is raised where a traced value decides"):
        jit(scope["g"])(0.5)


def test_the_first_of_two_errors_of_one_member_is_told():
    def f(x):
        if x > 1:
            raise ValueError("first")
        assert x < 1, "second"
        return x

    for way in MAPPED.values():
        with pytest.raises(ValueError, match="first"):
            way(f)(np.array([3.0]))
        with pytest.raises(AssertionError, match="second"):
            way(f)(np.array([1.0]))


def reads_the_text(x):
    try:
        return math.log(x)
    except ValueError as error:
        return float(len(str(error)))


class Plain:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def crosses_a_with(x):
    try:
        with Plain():
            y = math.sqrt(x)
            y = y + 1
    except ValueError:
        y = 0.0
    return y


def appends(x):
    found = [0.0]
    try:
        found.append(1.0)
        found.append(math.sqrt(x))
    except ValueError:
        found.append(-1.0)
    return sum(found)


def of_an_unknown_class(x):
    def made():
        return ValueError("v")

    try:
        if x > 1:
            raise made()
    except ValueError:
        return 1.0
    return 0.0


def suppressed(x):
    with contextlib.suppress(ValueError):
        if x > 0:
            raise ValueError
        return x * 2
    return x * 3


def suppressed_in_a_loop(x):
    total = 0.0
    for k in range(3):
        with contextlib.suppress(ZeroDivisionError, KeyError):
            if x > 1 and k == 1:
                continue
            total += 1 / float(k - x) + math.sqrt(k + 1)
    return total


def suppressed_and_named(x):
    with contextlib.suppress(ValueError) as found:
        if x > 0:
            raise ValueError
    return x if found is None else 0.0


class Taking:
    def __exit__(self, kind, error, traceback):
        return kind is ValueError

    def __enter__(self):
        return self


def taken_by_a_manager(x):
    y = x
    with Taking():
        y = math.sqrt(x)
        y = y + 1
    return y


@contextlib.contextmanager
def catching():
    try:
        yield
    except ValueError as error:
        assert not error.args  # noqa: PT017


def taken_by_a_generator(x):
    y = x
    for _ in range(2):
        with catching():
            if x > 0:
                raise ValueError
            y = y + 1
    return y


@contextlib.contextmanager
def closing(log):
    try:
        yield
    finally:
        log.append(1)


def passes_managers(x):
    log = []
    with closing(log), np.errstate(all="ignore"), Plain():
        if x > 5:
            raise ValueError("too large")
        with contextlib.suppress(ValueError):
            x = x + 1
            try:
                x = math.sqrt(x - 2)
            except ValueError:
                x = -1.0
    return x * len(log)


def test_managers_that_swallow_nothing_are_passed_by():
    for x in (1.0, 3.0, 0.5):
        assert jit(passes_managers)(x) == passes_managers(x)
    np.testing.assert_array_equal(vmap(passes_managers)(X), [passes_managers(x) for x in X])
    with pytest.raises(ValueError, match="too large"):
        jit(passes_managers)(6.0)


def test_an_error_that_is_known_while_tracing_is_the_managers_affair():
    def f(x, n):
        with contextlib.suppress(ValueError):
            if n > 0:
                raise ValueError
            x = x * 2
        return x + math.sqrt(x)

    for n in (0, 1):
        assert jit(f, static_argnums=1)(4.0, n) == f(4.0, n)
    assert grad(suppressed)(1.0) == 3.0


@pytest.mark.parametrize("f", [suppressed, suppressed_in_a_loop], ids=lambda f: f.__name__)
def test_suppressed_errors_are_those_that_handlers_pass_over(f):
    xs = np.array([-1.0, 0.0, 1.0, 1.5, 2.0])
    wanted = [f(float(x)) for x in xs]
    np.testing.assert_allclose([jit(f)(float(x)) for x in xs], wanted)
    np.testing.assert_allclose(vmap(lambda x: f(x * 1.0))(xs), wanted)

    def shadowed(x):
        contextlib = Shadow
        with contextlib.suppress(ValueError):
            if x > 0:
                raise ValueError("not caught")
        return x

    with pytest.raises(ValueError, match="not caught"):
        jit(shadowed)(1.0)


QUIET = contextlib.suppress


def quiet(x):
    with QUIET(ValueError):
        if x > 0:
            raise ValueError("not caught")
    return x


def test_another_manager_of_the_same_name_suppresses_nothing(monkeypatch):
    compiled = jit(quiet)
    assert compiled(1.0) == 1.0
    monkeypatch.setitem(globals(), "QUIET", contextlib.nullcontext)
    for f in (jit(quiet), compiled, lambda x: vmap(quiet)(np.array([x]))):
        with pytest.raises(ValueError, match="not caught"):
            f(1.0)
    monkeypatch.undo()
    assert compiled(1.0) == jit(quiet)(1.0) == 1.0


class Shadow:
    suppress = contextlib.nullcontext


REFUSED = {
    reads_the_text: "`error` is an error that a traced value decides about",
    crosses_a_with: "out of the `with`",
    appends: "`found` is a list of 2 on one side",
    suppressed_and_named: "a `with` whose context manager may swallow it",
    taken_by_a_manager: "a `with` whose context manager may swallow it",
    taken_by_a_generator: "a `with` whose context manager may swallow it",
    of_an_unknown_class: "may or may not catch: its class may be BaseException",
}


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_what_cannot_be_followed_is_refused_by_name(f):
    for way, x in ((jit, 2.0), (vmap, X), (vectorize, X), (lambda f: jit(vmap(f)), X)):
        with pytest.raises(LiftError, match=REFUSED[f]):
            way(f)(x)


def test_without_lifting_a_try_around_an_undecided_error_is_refused():
    def f(x):
        try:
            return 1 / x
        except ZeroDivisionError:
            return -1.0

    assert jit(f)(0.0) == -1.0
    assert jit(f)(2.0) == 0.5
    assert grad(f)(0.0) == 0.0
    with pytest.raises(TracerBoolConversionError, match="A `try` may catch an error"):
        jit(f, lift=False)(2.0)


@pytest.mark.parametrize("f", [raised.plain, excepting.a_function_that_raises])
def test_second_derivatives_of_members_without_errors(f):
    xs = np.array([2.0, 3.0])
    np.testing.assert_allclose(
        vmap(grad(grad(f)))(xs),
        [(grad(f)(x + 1e-5) - grad(f)(x - 1e-5)) / 2e-5 for x in xs],
        atol=1e-4,
    )


def test_a_part_of_and_that_raises_is_looked_at_by_those_who_come_by():
    def f(x):
        return 1.0 if x > 0 and math.sqrt(x - 1) > 1 else 2.0

    xs = np.array([-3.0, 1.0, 5.0])
    for way in MAPPED.values():
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(way(f)(xs), [2.0, 2.0, 1.0])
            with pytest.raises(ValueError, match="math domain"):
                way(f)(np.array([5.0, 0.5]))


def test_numpy_scalars_divide_as_numpy_and_python_numbers_as_python():
    def f(x):
        if x > 5:
            return x
        return 1 / x

    with pytest.raises(ZeroDivisionError):
        jit(f)(0.0)
    with np.errstate(all="ignore"):
        assert jit(f)(np.float64(0.0)) == np.inf
        np.testing.assert_array_equal(vectorize(f)(np.array([0.0, 2.0])), [np.inf, 0.5])
    assert jit(lambda x: 1 / x)(0.0) == np.inf  # nothing in it decides by values
    assert grad(lambda x: np.where(x > 0, 1 / x, 3 * x))(0.0) == 3.0
