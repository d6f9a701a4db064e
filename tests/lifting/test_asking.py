"""What asks no tracer: `type(x) is`, `is True`, `case True`, `hasattr`; and `match`."""

import collections.abc
import copy
import inspect
import operator
import typing
from dataclasses import dataclass

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import ConcretizationTypeError, LiftError
from ftrace.lifting.sources.asking import facts
from ftrace.lifting.sources.reach import asking
from tests.lifting import asked


@dataclass
class Point:
    x: object
    y: object


class Shape:
    def __init__(self, x):
        self.x = x

    def is_plain(self):
        return type(self.x) is float

    def doubled(self):
        return self.x * (2 if hasattr(self.x, "__len__") else 3)


def is_python(x):
    return type(x) in (float, int)


# ---------------------------------------------------------------------------------- questions


def by_identity(x):
    return x * 2 if (x > 0) is True else x * 3


def by_identity_reversed(x):
    return x * 2 if True is not (x > 0) else x * 3


def by_false(x):
    if (x > 0) is False:
        return x * 2
    return x * 3


def in_and(x):
    return x * 2 if (x > 0) is True and (x < 1) is not False else x * 3


def of_negation(x):
    return x * 2 if (not x > 0) is True else x * 3


def of_bits(x):
    return x * 2 if ((x > 0) & (x < 1)) is True else x * 3


def in_a_loop(x):
    n = 0
    while (x < 3) is True:
        x, n = x + 1, n + 1
    return x * n


def by_type(x):
    return x * 2 if type(x) is np.ndarray else x * 3


def by_equal_type(x):
    return x * 2 if type(x) == float else x * 3  # noqa: E721


def by_types(x):
    return x * 2 if type(x) in (float, int) else x * 3


def type_of_comparison(x):
    return x * 2 if type(x > 0) is bool else x * 3


def instance_of_comparison(x):
    return x * 2 if isinstance(x > 0, bool) else x * 3


def by_length(x):
    return x * 2 if hasattr(x, "__len__") else x * 3


def by_default(x):
    return x * 2 if getattr(x, "ndim", None) is None else x * 3


def by_protocol(x):
    return x * 2 if isinstance(x, collections.abc.Iterable) else x * 3


def in_helper(x):
    return x * 2 if asked.is_array(x) else x * 3


def in_helper_of_helper(x):
    return x * 2 if asked.by_way_of(x) else x * 3


def in_helper_here(x):
    return x * 2 if is_python(x) else x * 3


def in_method(x):
    return Shape(x).doubled() + (1 if Shape(x).is_plain() else 2) * x


def in_inner(x):
    return (lambda y: y * 2 if type(y) is float else y * 3)(x)


def in_list(x):
    return sum([y * 2 if type(y) is float else y * 3 for y in (x, x + 1)])


def by_variable(x):
    flag = True
    return x * 2 if (x > 0) is flag else x * 3


def by_two_comparisons(x):
    return x * 2 if (x > 0) is not (x < 1) else x * 3


def by_operator(x):
    return x * (2 if operator.is_(x > 0, True) else 3) + operator.is_not(x < 1, False) * x


def by_numpy_true(x):
    return x * 2 if np.greater(x, 0) is np.True_ else x * 3


def by_setting(x):
    return x * 2 if (x > 0) is asked.SETTINGS.flag else x * 3


def of_bool(x):
    return x * 2 if bool(x > 0) is True else x * 3


def in_a_chain(x):
    return x * 2 if True is (x > 0) is True else x * 3


def by_membership(x):
    y = x * 2 if (x > 0) in (True, None) else x * 3
    return y + 1 if x not in (0.5, -0.5) else y * (2 if (0.5 in [1, x]) is True else 4)


def by_operator_contains(x):
    return x * 2 if operator.contains((0.5, 1.0), x) else x * 3


def by_missing_attribute(x):
    try:
        n = x.ndim
    except AttributeError:
        n = 4
    return n * x + x


@typing.runtime_checkable
class HasRank(typing.Protocol):
    ndim: int


class Asking(type):
    def __instancecheck__(cls, x):
        return type(x) is float


class Number(metaclass=Asking):
    pass


def by_protocol_of_a_user(x):
    return x * 2 if isinstance(x, HasRank) else x * 3


REALS = typing.Union[float, int]  # noqa: UP007 - another object than `float | int`
KINDS_OF_NUMBERS = (bytes, REALS)


def by_union(x):
    return x * 2 if isinstance(x, typing.Optional[float]) else x * 3  # noqa: UP045


def by_named_union(x):
    return x * 2 if isinstance(x, REALS) else x * 3


def by_union_in_a_tuple(x):
    return x * 2 if isinstance(x, KINDS_OF_NUMBERS) else x * 3


def by_protocol_of_a_module(x):
    return x * 2 if isinstance(x, typing.SupportsIndex) else x * 3


def by_scalar(x):
    return x * 2 if np.isscalar(x) and type(x) is not bytes else x * 3


def by_class_of_a_user(x):
    return x * 2 if isinstance(x, (Number, str)) else x * 3


def by_method_of_floats(x):
    return x * 2 if hasattr(x, "is_integer") else x * 3


def by_item(x):
    try:
        return x[0]
    except TypeError:
        return x * 2
    except IndexError:
        return x * 3


def by_library(x):
    return x * 2 if inspect.isclass(type(x)) else x * 3


def by_chosen_bool(x):
    positive = True if x > 0 else False  # noqa: SIM210
    found = False
    for k in range(3):
        if x > k:
            found = True
    return x * (2 if positive is True else 3) + (x if found is True else 1)


def in_a_class_body(x):
    class Local:
        flag = type(x) is float
        other = 2 if flag else 3
        both = flag and (x > 0) is not None

        def method(self):
            return self.other

    return x * Local().method() * (2 if Local.both else 3)


# ---------------------------------------------------------------------------------- match


def match_true(x):
    match x > 0:
        case True:
            return x * 2
        case _:
            return x * 3


def match_false_only(x):
    y = x
    match x > 0:
        case False:
            y = x * 5
    return y


def match_values(x):
    match x:
        case 0.5 | 1:
            return x * 2
        case -0.5:
            y = x * 3
        case _:
            y = x * 4
    return y + 1


def match_guards(x):
    match x:
        case float(y) if y > 0:
            return y * 2
        case np.ndarray():
            return x * 3
        case z if z < -1:
            return z * 4
        case other:
            return other * 5


def match_parts(x):
    match (x, [x + 1, 2.0, x]):
        case (0.5, [y, *_]):
            return y * 2
        case (a, [b, *rest, c]) if a < b and len(rest) == 1:
            return a * b + c
        case _:
            return x


def match_attributes(x):
    match Point(x, y=2 * x):
        case Point(0.5, y):
            return y * 2
        case Point(x=a, y=b) if a < 0:
            return a * b
        case Point():
            return x * 7


def match_nested(x):
    total = 0.0
    for k in range(3):
        match k:
            case 0:
                total = total + x
            case 1:
                match x > 0:
                    case True:
                        total = total * 2
                        continue
                    case None:
                        total = 100.0
            case _ if x > 0:
                break
        total = total + 10 * x
    return total


PROGRAMS = (
    *(by_identity, by_identity_reversed, by_false, in_and, of_negation, of_bits, in_a_loop),
    *(by_type, by_equal_type, by_types, type_of_comparison, instance_of_comparison, by_length),
    *(by_default, by_protocol, in_helper, in_helper_of_helper, in_helper_here, in_method),
    *(by_variable, by_two_comparisons, by_operator, by_numpy_true, by_setting, of_bool),
    *(by_protocol_of_a_user, by_class_of_a_user, by_method_of_floats, by_item, by_library),
    *(
        by_chosen_bool,
        in_a_chain,
        by_membership,
        by_operator_contains,
        by_missing_attribute,
        in_a_class_body,
    ),
    *(by_union, by_named_union, by_union_in_a_tuple, by_protocol_of_a_module, by_scalar),
    *(in_inner, in_list, match_true, match_false_only, match_values, match_guards),
    *(match_parts, match_attributes, match_nested),
)
JUMPING = (match_values, match_parts, match_attributes, by_membership, by_operator_contains)
# of these errors of tracing tell
DECIDED = (instance_of_comparison, by_membership, by_operator_contains, of_bool, by_item)
ASKING = [p for p in PROGRAMS if p not in DECIDED and "match" not in p.__name__]
POINTS = (-1.5, -0.5, 0.5, 2.1)


def slope(f, x):
    h = x * 0 + 1e-6
    return (np.sum(f(x + h)) - np.sum(f(x - h))) / 2e-6


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_no_tracer_is_asked_is_answered_as_by_the_value(f):
    for x in POINTS:
        assert ftrace.jit(f)(x) == f(x)
        assert ftrace.jit(f)(np.float64(x)) == f(np.float64(x))
        assert ftrace.jvp(f, (x,), (1.0,))[0] == f(x)
        if f not in JUMPING or abs(x) != 0.5:
            np.testing.assert_allclose(ftrace.grad(f)(x), slope(f, x), rtol=1e-6)
            np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(x), slope(f, x), rtol=1e-6)
    np.testing.assert_array_equal(
        ftrace.vmap(f)(np.array(POINTS)), [f(x) for x in np.array(POINTS)]
    )


@pytest.mark.parametrize(
    "f",
    [
        by_type,
        by_types,
        by_missing_attribute,
        by_length,
        by_default,
        by_protocol,
        by_union,
        by_union_in_a_tuple,
        by_protocol_of_a_module,
        by_scalar,
        in_helper_of_helper,
        in_method,
    ],
)
def test_arrays_are_told_from_scalars(f):
    for x in (np.array([1.0, 2.0]), np.array(1.5)):
        np.testing.assert_array_equal(ftrace.jit(f)(x), f(x))
        np.testing.assert_allclose(ftrace.grad(lambda v, f=f: np.sum(f(v)))(x), f(np.ones_like(x)))
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(ftrace.vmap(f)(rows), [f(x) for x in rows])


@pytest.mark.parametrize("f", ASKING, ids=lambda f: f.__name__)
def test_such_functions_are_found_by_their_code(f):
    assert asking(f).asks


def test_sequences_match_by_their_length():
    def f(x):
        match (x, 2.0):
            case [a]:
                return a * 5
            case [a, b] if a > 0:
                return a * b
            case [a, *_]:
                return a * 7
        return x

    assert [ftrace.jit(f)(x) for x in (0.5, -0.5)] == [1.0, -3.5]


def test_a_value_is_in_what_holds_it():
    def f(x):
        return x > 0, x in [2.0, x], x in [2.0, x + 0]

    assert ftrace.jit(ftrace.lift(f))(float("nan")) == (False, True, False)


def test_lifted_functions_that_catch_nothing_keep_attributes_of_arrays():
    def f(x):
        return x * 2 if x > 0 and x.ndim == 0 else x

    assert "attribute_of" not in ftrace.lift(f).source
    assert ftrace.jit(f)(0.5) == 1.0


def test_functions_that_ask_nothing_are_not_lifted_for_it():
    def classes(x, y):
        return x if x.__class__ is y.__class__ else asked.Box(y)

    assert not asking(classes).asks

    def flag(x, exact=True, kind=None):
        if kind is None or exact:
            return getattr(x, "name", 2.0)
        return isinstance(x, np.ndarray) or hasattr(x, "real")

    assert not asking(flag).asks


def test_what_a_closure_holds_is_looked_at_for_each_function():
    def making(ask):
        def f(x):
            return x * 3 if ask(x) else x * 2

        return f

    for ask, want in ((lambda x: False, 2.0), (lambda x: type(x) is np.ndarray, 3.0)):
        f = making(ask)
        assert ftrace.jacfwd(f)(np.ones(1))[0, 0] == want


def test_comparisons_of_python_numbers_are_python_bools():
    assert type(ftrace.jit(lambda x: x > 0)(0.5)) is bool
    assert type(ftrace.jit(lambda x: x > 0)(np.float64(0.5))) is np.bool
    assert type(ftrace.jit(lambda x: np.greater(x, 0))(0.5)) is np.bool
    assert type(ftrace.jvp(lambda x: x > 0, (0.5,), (1.0,))[0]) is bool


def test_what_only_the_plain_number_has_is_refused_though_the_error_is_caught():
    def f(x):
        try:
            return x * 2 if x.hex() else x
        except Exception:
            return x * 3

    for transform in (ftrace.jit, ftrace.grad):
        with pytest.raises(ConcretizationTypeError, match="needs the plain value"):
            transform(f)(0.5)


def test_attributes_of_tracers_alone_are_left():
    def f(x):
        try:
            return x.at[0].set(2.0).sum()
        except AttributeError:
            return x.size

    assert ftrace.jit(f)(np.ones(3)) == 4.0


def test_a_mapping_pattern_that_a_traced_value_decides_is_refused():
    def f(x):
        match x:
            case {"a": _}:
                return x
            case 1.0:
                return 2 * x
        return 3 * x

    with pytest.raises(LiftError, match="in a match"):
        ftrace.jit(f)(0.5)


def test_a_class_pattern_with_too_many_parts_says_so():
    def f(x):
        match x:
            case float(a, b):
                return a + b

    with pytest.raises(TypeError, match="accepts 1 positional"):
        ftrace.lift(f)(0.5)
    with pytest.raises(TypeError, match="accepts 1 positional"):
        f(0.5)


def test_the_body_of_a_counted_loop_is_lifted():
    def f(x):
        return ftrace.lax.fori_loop(0, 2, lambda i, c: c if type(c) is np.ndarray else c * 2, x)

    x = np.ones(2)
    np.testing.assert_array_equal(ftrace.jvp(f, (x,), (x,))[0], x)
    np.testing.assert_array_equal(ftrace.jit(f)(x), x)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_number_is_its_own_copy_and_an_array_is_not(copied):
    def f(x):
        return 1.0 if copied(x) is x else 2.0

    for x in (3.0, np.float64(3.0), np.array(3.0), np.ones(2)):
        assert ftrace.jit(f)(x) == f(x)
        assert ftrace.jvp(f, (x,), (x,))[0] == f(x)


def test_what_was_traced_where_nothing_may_be_lifted_is_kept_apart():
    def f(x):
        return x if type(x) is float else -x

    def g(x):
        return x if type(x) is float else -x

    compiled = ftrace.jit(f)
    with ftrace.config.update(lift=False):
        compiled(0.5)
    assert compiled(0.5) == ftrace.jit(f)(0.5) == 0.5
    inner = ftrace.jit(g)
    ftrace.jit(lambda x: inner(x), lift=False)(0.5)
    assert inner(0.5) == ftrace.jit(lambda x: inner(x))(0.5) == 0.5


def test_the_numbers_of_constants_are_no_instructions():
    short, long = (eval("lambda x: x" + "".join(f" + {i}.5" for i in range(n))) for n in (1, 240))
    assert facts(long.__code__).names == facts(short.__code__).names
