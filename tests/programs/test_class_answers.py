"""Traced values answer questions of type as what they stand for, in every transformation."""

import functools
import numbers
import pickle

import numpy as np
import pytest

import ftrace
from ftrace import errors
from tests.programs import asked

V = np.array([1.0, 2.0])


@functools.singledispatch
def dispatched(x):
    return "other"


dispatched.register(np.ndarray, lambda x: "array")
dispatched.register(float, lambda x: "float")
dispatched.register(int, lambda x: "int")


class Methods:
    @functools.singledispatchmethod
    def kind(self, x):
        return "other"

    @kind.register
    def _(self, x: np.ndarray):
        return "array"

    @kind.register
    def _(self, x: numbers.Real):
        return "real"


class Scaled:
    """A class whose operator asks for the type of the other operand."""

    def __mul__(self, other):
        return 3 * other if isinstance(other, int | float | np.ndarray) else NotImplemented

    __rmul__ = __mul__


def by_pattern(x):
    match x:
        case np.ndarray():
            return "array"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
    return "other"


QUESTIONS = (
    lambda x: isinstance(x, np.ndarray),
    lambda x: isinstance(x, float),
    lambda x: isinstance(x, int | float | np.number),
    lambda x: isinstance(x, np.floating),
    lambda x: isinstance(x, bool | np.bool_),
    lambda x: isinstance(x, numbers.Number),
    lambda x: isinstance(x, numbers.Integral),
    lambda x: issubclass(x.__class__, np.generic),
    lambda x: np.isscalar(x),
    lambda x: np.ndim(x),
    lambda x: callable(x),
    dispatched,
    Methods().kind,
    by_pattern,
    asked.by_type,
    lambda x: isinstance(x + x, np.ndarray),
)


def answers(x):
    return [str(question(x)) for question in QUESTIONS]


def told(transform, x):
    """The answers inside a transformed function."""
    found = []

    def f(y):
        found[:] = answers(y)
        return y * 1.0

    transform(f)(x)
    return found


FLOATING = {
    "grad": lambda f: ftrace.grad(lambda y: np.sum(f(y))),
    "jacrev": ftrace.jacrev,
    "jacfwd": ftrace.jacfwd,
    "jvp": lambda f: lambda x: ftrace.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: ftrace.vjp(f, x),
    "linearize": lambda f: lambda x: ftrace.linearize(f, x),
    "hessian": lambda f: ftrace.hessian(lambda y: np.sum(f(y))),
    "checkpoint": lambda f: ftrace.grad(lambda y: np.sum(ftrace.checkpoint(f)(y))),
    "jit of grad": lambda f: ftrace.jit(ftrace.grad(lambda y: np.sum(f(y)))),
    "grad of grad": lambda f: ftrace.grad(lambda y: np.sum(ftrace.grad(lambda z: np.sum(f(z)))(y))),
}
ANY = {
    "jit": ftrace.jit,
    "make_jaxpr": ftrace.make_jaxpr,
    "jit without lifting": functools.partial(ftrace.jit, lift=False),
    "jit of jit": lambda f: ftrace.jit(ftrace.jit(f)),
}


@pytest.mark.parametrize("way", [*FLOATING, *ANY])
def test_answers_are_those_of_plain_values(way):
    values = [V, V.astype(np.float32), 2.0, np.float64(2), np.float32(2), np.array(2.0)]
    if way in ANY:
        values += [2, True, np.int32(2), np.bool_(True), np.array([1, 2])]
    transform = (FLOATING | ANY)[way]
    for x in values:
        assert told(transform, x) == answers(x), f"of {x!r}"


def mapped(f):
    return lambda xs: ftrace.lax.map(f, xs)


def scanned(f):
    return lambda xs: ftrace.lax.scan(lambda c, x: (c, f(x["x"])), 0.0, {"x": xs})[1]


def mapped_in_pairs(f):
    return lambda xs: ftrace.lax.map(f, xs, batch_size=2)


MEMBERS = [
    *(ftrace.vmap, ftrace.vectorize, lambda f: ftrace.jit(ftrace.vmap(f))),
    *(mapped, scanned, mapped_in_pairs, lambda f: ftrace.jit(mapped(f))),
    lambda f: ftrace.grad(lambda xs: np.sum(mapped(f)(xs))),
]


@pytest.mark.parametrize("transform", MEMBERS)
def test_members_answer_as_elements(transform):
    assert told(transform, V) == answers(V[0])
    if transform is not ftrace.vectorize:
        assert told(transform, np.ones((2, 3))) == answers(np.ones(3))


def test_operators_of_users_classes_take_traced_values():
    assert ftrace.grad(lambda x: Scaled() * x)(2.0) == 3
    assert ftrace.jit(lambda x: x * Scaled())(2.0) == 6


def test_rounding_gives_a_python_int():
    for x in (2.5, np.float64(2.5), 3):
        for f in (lambda x: round(x), lambda x: x * isinstance(round(x), int)):
            assert ftrace.jit(f)(x) == f(x)
            assert type(ftrace.jit(f)(x)) is type(f(x))


def test_a_python_int_differentiated_is_a_float():
    assert told(ftrace.grad, 2) == answers(2.0)


@pytest.mark.parametrize("text", [str, lambda x: f"{x}", lambda x: f"{x:.3f}", "{}".format])
def test_a_text_of_an_unknown_value_is_refused_and_a_known_one_is_as_in_python(text):
    with pytest.raises((errors.ConcretizationTypeError, errors.LiftError), match=r"debug\.print"):
        ftrace.jit(lambda x: x * len(text(x)))(2.0)
    assert ftrace.grad(lambda x: x * len(text(x)))(2.0) == len(text(2.0))
    assert "f64" in ftrace.grad(lambda x: (x, repr(x)), has_aux=True)(2.0)[1]


@pytest.mark.parametrize(
    "number",
    [
        lambda x: float(str(x)),
        lambda x: float(f"{x:.3f}"),
        lambda x: int(f"{x:.0f}"),
    ],
)
def test_a_number_read_out_of_the_text_of_what_is_differentiated_is_refused(number):
    with pytest.raises(errors.ConcretizationTypeError, match="derivative would be lost"):
        ftrace.grad(lambda x: x * number(x))(2.0)
    assert ftrace.grad(lambda x: x * number(ftrace.lax.stop_gradient(x)))(2.0) == 2.0
    assert pickle.loads(pickle.dumps(ftrace.grad(lambda x: (x, f"{x}"), has_aux=True)(2.0)[1]))


def test_pickle_of_a_traced_value_names_the_fix():
    for transform in (ftrace.jit, ftrace.grad):
        with pytest.raises(errors.ConcretizationTypeError, match="store the result"):
            transform(lambda x: (x, pickle.dumps(x))[0])(2.0)
