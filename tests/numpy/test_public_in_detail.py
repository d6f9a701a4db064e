"""What one call in the table does not show: views, many segments, errors, values that are known."""

import threading
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial import polynomial

import ftrace
import ftrace.numpy as fnp
from ftrace import errors

V = np.array([0.5, -1.25, 2.0, 0.75, -0.3, 1.5, -0.7])
M = np.arange(12.0).reshape(3, 4)


def both(f: Any, *xs: Any) -> None:
    """`jit` and `jvp` give NumPy's values."""
    wanted = f(*xs)
    for found in (ftrace.jit(f)(*xs), ftrace.jvp(f, xs, tuple(map(np.ones_like, xs)))[0]):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype


# ---------------------------------------------------------------------------------- windows


def test_windows_show_what_is_written_into_the_array_and_cannot_be_written() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        windows = sliding_window_view(y, 3)
        y[2] = 10.0
        return windows * 1.0

    both(f, V)

    def g(x: Any) -> Any:
        windows = sliding_window_view(x * 1.0, 3)
        windows[0] = 1.0
        return windows

    with pytest.raises(errors.MutationError, match="read-only view"):
        ftrace.jit(g)(V)

    def h(x: Any) -> Any:
        windows = sliding_window_view(x * 1.0, 2, writeable=True)
        windows[0] = 1.0
        return windows

    both(lambda x: sliding_window_view(x, 2, writeable=True) * x[0], V)
    with pytest.raises(errors.MutationError, match="read-only view"):
        ftrace.jit(h)(V)


@pytest.mark.parametrize(
    "options",
    [
        {"window_shape": 0},
        {"window_shape": 7},
        {"window_shape": (2, 3)},
        {"window_shape": (2, 2), "axis": (1, 1)},
        {"window_shape": 3, "axis": -1},
        {"window_shape": 8},
        {"window_shape": -1},
        {"window_shape": (2, 2), "axis": 0},
    ],
    ids=str,
)
def test_windows_of_any_shape_or_numpys_error(options: Any) -> None:
    x = M if np.ndim(options["window_shape"]) or "axis" in options else V
    try:
        wanted = sliding_window_view(x, **options)
    except ValueError:
        with pytest.raises(ValueError, match="window"):
            ftrace.jit(lambda x: sliding_window_view(x, **options))(x)
    else:
        np.testing.assert_array_equal(
            ftrace.jit(lambda x: sliding_window_view(x, **options))(x), wanted
        )


# ---------------------------------------------------------------------------------- ufunc methods


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "fmin", "subtract", "logaddexp"])
def test_segments_few_and_many_known_and_traced(name: str) -> None:
    ufunc = getattr(np, name)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 60))
    for starts in (np.array([0, 7, 3, 3, 59]), rng.permutation(60)[:40]):
        both(lambda x, i=starts: ufunc.reduceat(x, i, axis=1), x)
        if name != "subtract":
            np.testing.assert_allclose(
                ftrace.jit(lambda x, i: ufunc.reduceat(x, i, axis=1))(x, starts),
                ufunc.reduceat(x, starts, axis=1),
                rtol=1e-12,
                atol=1e-12,
            )
    small = rng.integers(0, 5, 9).astype(np.int8)
    both(lambda x: ufunc.reduceat(x, [0, 4]), small.astype(float))
    assert ftrace.jit(lambda x: np.add.reduceat(x, [0, 4]))(small).dtype == np.int64


def test_segments_out_of_range_and_without_identity_are_errors() -> None:
    for f in (lambda x, i: np.add.reduceat(x, [0, 7]), lambda x, i: np.add.reduceat(x, i)):
        with pytest.raises(IndexError, match=r"index (7 )?out-of-bounds in add\.reduceat"):
            ftrace.jit(f)(V, np.array([0, 7]))
    with pytest.raises(errors.RuleError, match="has no identity"):
        ftrace.jit(lambda x, i: np.subtract.reduceat(x, i))(V, np.array([0, 3]))


def test_folds_with_a_mask_need_a_start_where_there_is_no_identity() -> None:
    both(lambda x: np.hypot.reduce(x, where=x > 0), V)
    both(lambda x: np.divide.reduce(x, initial=3.0, where=[True, False] * 3 + [True]), V)
    both(lambda x: np.fmin.reduce(x, axis=(0, 1), where=x > 2, initial=99.0, keepdims=True), M)
    with pytest.raises(ValueError, match="does not have an identity"):
        ftrace.jit(lambda x: np.fmax.reduce(x, where=x > 0))(V)
    with pytest.raises(ValueError, match="not reorderable"):
        ftrace.jit(lambda x: np.subtract.reduce(x, axis=(0, 1)))(M)


# ---------------------------------------------------------------------------------- shapes


def test_a_shape_is_set_of_an_array_of_ones_own_without_views() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        y.shape = (2, -1)
        y[0] += 1.0
        return y

    both(f, M)

    def argument(x: Any) -> Any:
        x.shape = (12,)
        return x

    def viewed(x: Any) -> Any:
        y = x * 2.0
        row = y[0]
        y.shape = (12,)
        return y + row.sum()

    def misfit(x: Any) -> Any:
        y = x * 2.0
        y.shape = (5,)
        return y

    for wrong in (argument, viewed):
        with pytest.raises(errors.TracerAttributeError, match=r"reshape\(shape\)"):
            ftrace.jit(wrong)(M)
    with pytest.raises(errors.ShapeError, match="cannot reshape"):
        ftrace.jit(misfit)(M)


def test_questions_about_dtypes_are_answered_as_of_what_is_traced() -> None:
    single = V.astype(np.float32)

    def asked(x: Any, n: Any) -> Any:
        assert np.result_type(x, 1.5) == np.float32
        assert np.result_type(x, n) == np.float32  # a Python number is weak
        assert np.result_type(n, np.int8) == np.int8
        assert np.can_cast(x, np.float16) is False
        assert np.common_type(x, np.zeros(2, np.int64)) is np.float64
        assert np.min_scalar_type(x) == np.float32
        return x * n

    ftrace.jit(asked)(single, 3)
    with pytest.raises(errors.ConcretizationTypeError, match="min_scalar_type"):
        ftrace.jit(lambda s: s * np.min_scalar_type(s).itemsize)(np.float64(2.0))


# ---------------------------------------------------------------------------------- refusals

REFUSED = {
    "numpy.nditer": (lambda x: sum(np.nditer(x)), "ftrace.vectorize"),
    "numpy.lib.stride_tricks.as_strided": (
        lambda x: np.lib.stride_tricks.as_strided(x, (2,)),
        "sliding_window_view",
    ),
    "numpy.matrix": (np.matrix, "two-dimensional array"),
    "numpy.bmat": (lambda x: np.bmat([[x, x]]), "numpy.block"),
    "numpy.array_repr": (np.array_repr, r"repr\(x\)"),
    "numpy.save": (lambda x: np.save("/dev/null", x), "Return the array"),
    "numpy.shares_memory": (lambda x: np.shares_memory(x, x), "no memory"),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_with_what_to_use(name: str) -> None:
    f, advice = REFUSED[name]
    for way in (ftrace.jit, ftrace.grad):
        with pytest.raises(errors.RuleError, match=name) as caught:
            way(lambda x: f(x))(V if name != "numpy.bmat" else M)
        caught.match(advice)


# ---------------------------------------------------------------------------------- known values


def test_real_functions_with_complex_values_beyond_their_domain() -> None:
    for name, x in (("sqrt", V), ("log", -np.abs(V)), ("arcsin", V), ("arctanh", V / 3)):
        function = getattr(np.emath, name)
        assert ftrace.jvp(function, (x,), (np.ones_like(x),))[0].dtype == function(x).dtype
        np.testing.assert_allclose(ftrace.jvp(function, (x,), (x,))[0], function(x))
    slope = ftrace.grad(lambda x: np.sum(np.emath.sqrt(x).real))(np.array([4.0, -9.0]))
    np.testing.assert_allclose(slope, [0.25, 0.0], atol=1e-15)


def test_functions_that_may_become_complex_say_what_to_use() -> None:
    calls: dict[str, Any] = dict.fromkeys(("sqrt", "log", "log2", "log10"), lambda f, x: f(x))
    calls |= dict.fromkeys(("arccos", "arcsin", "arctanh"), lambda f, x: f(x))
    calls |= {"logn": lambda f, x: f(2.0, x), "power": lambda f, x: f(x, 1.5)}
    for name, call in calls.items():
        function = getattr(np.emath, name)
        for way in (ftrace.jit, ftrace.vmap):
            with pytest.raises(errors.ConcretizationTypeError, match=r"numpy\.emath\.") as caught:
                way(lambda x, f=function, c=call: c(f, x))(V)
            assert "for real results, or of x.astype(complex) for complex ones" in caught.value.fix
        found = ftrace.jit(lambda x, f=function, c=call: c(f, x.astype(complex)))(V)
        np.testing.assert_allclose(found, call(function, V), rtol=1e-12)


def test_zeros_at_the_end_of_a_polynomial_are_never_lost_silently() -> None:
    c = np.array([1.0, 2.0, 0.0])
    np.testing.assert_array_equal(polynomial.polyadd(c, c), [2.0, 4.0])
    for way in (lambda f: ftrace.jit(f)(c), lambda f: ftrace.jvp(f, (c,), (c,))):
        with pytest.raises(errors.ShapeError, match=r"numpy\.polynomial leaves out zeros"):
            way(lambda c: polynomial.polyadd(c, c))
    fixed = ftrace.jvp(lambda s: s * polynomial.polyadd(c, c), (2.0,), (1.0,))
    np.testing.assert_array_equal(fixed[1], [2.0, 4.0])
    with pytest.raises(errors.ShapeError, match=r"numpy\.roots leaves out zeros"):
        ftrace.jit(np.roots)(c[::-1])


def test_bytes_are_packed_as_in_numpy() -> None:
    rng = np.random.default_rng(2)
    bits, data = rng.integers(0, 2, (3, 13)), rng.integers(0, 256, (2, 3)).astype(np.uint8)
    for axis in (None, 0, 1):
        for order in ("big", "little"):
            f = lambda x, a=axis, o=order: np.packbits(x, a, o)  # noqa: E731
            np.testing.assert_array_equal(ftrace.jit(f)(bits), f(bits))
            for count in (None, 5, -3, 40):
                g = lambda x, a=axis, o=order, n=count: np.unpackbits(x, a, n, o)  # noqa: E731
                np.testing.assert_array_equal(ftrace.jit(g)(data), g(data))
    with pytest.raises(TypeError):
        ftrace.jit(np.packbits)(V)
    assert fnp.packbits(bits).dtype == np.uint8


# ---------------------------------------------------------------------------------- writes


def put_in_place(at: Any) -> Any:
    def f(x: Any, *rest: Any) -> Any:
        y = x.copy()
        at(y, *rest)
        return y

    return f


def test_a_ufunc_without_a_scatter_takes_indices_that_are_known_to_differ() -> None:
    for index in ([0, 2], slice(0, 3, 2), np.array([2, 0])):
        both(put_in_place(lambda y, i=index: np.hypot.at(y, i, 2.0)), V)
    both(put_in_place(lambda y: np.hypot.at(y, ([0, 1], [1, 1]), 2.0)), M)
    for index in ([0, 0], (np.array([2, 2]),)):
        with pytest.raises(errors.RuleError, match="known to differ"):
            ftrace.jit(put_in_place(lambda y, i=index: np.hypot.at(y, i, 2.0)))(V)
    indices = [lambda i: i, lambda i: (i, 0), lambda i: [i[0], 2], lambda i: i[0]]
    for x, index in zip((V, M, V, V), indices, strict=True):
        with pytest.raises(errors.RuleError, match="known to differ"):
            ftrace.jit(put_in_place(lambda y, i, at=index: np.hypot.at(y, at(i), 2.0)))(
                x, np.array([0, 1])
            )


def first(*given: Any) -> None:
    given[0][0] = 1.0


def first_of_a_view(given: Any) -> None:
    given[1:][0] = 1.0


def first_of_a_named_view(given: Any) -> None:
    part = given[1:]
    part[0] = 1.0


def first_of_a_view_of_one(*given: Any) -> None:
    part = given[0][1:]
    part[0] = 1.0


def added_at(given: Any) -> None:
    np.add.at(given, [0], 1.0)


IS = " is an argument of the function that jit runs, and was written"
WRITTEN = {
    first: (f"An array{IS}.", "x"),
    first_of_a_view: (f"`given`{IS} through a view.", "given"),
    first_of_a_named_view: (f"`given`{IS} through its view `part`.", "part"),
    first_of_a_view_of_one: (f"An array{IS} through its view `part`.", "part"),
    added_at: (f"`given`{IS}.", "given"),
}


@pytest.mark.parametrize("f", WRITTEN)
def test_a_write_of_an_argument_is_refused_by_its_name(f: Any) -> None:
    words, name = WRITTEN[f]
    with pytest.raises(errors.MutationError) as error:
        ftrace.jit(f)(V)
    assert str(error.value).startswith(words)
    assert f"`{name} = {name}.copy()`" in str(error.value)


def test_an_element_takes_no_array() -> None:
    for value in (np.ones(1), np.ones(2)):
        with pytest.raises(errors.ShapeError, match="an array element with a sequence"):
            ftrace.jit(put_in_place(lambda y, v: y.__setitem__(0, v)))(V, value)


def test_what_a_mask_chooses_fits_its_own_places_only() -> None:
    for key in (slice(2), 0):
        with pytest.raises(errors.ConcretizationTypeError, match="a key that is no traced mask"):
            ftrace.jit(put_in_place(lambda y, m, k=key: y.__setitem__(k, y[m])))(V, V > 1)


def test_what_is_stored_loses_leading_axes_of_one() -> None:
    both(put_in_place(lambda y: y.__setitem__(slice(None), np.ones((1, 1, 7)))), V)
    with pytest.raises(errors.ShapeError, match="could not broadcast"):
        ftrace.jit(put_in_place(lambda y: y.__setitem__(slice(None), np.ones((2, 7)))))(V)
    for shape in ((2, 4), (3, 2), (2, 3, 4)):
        with pytest.raises(errors.ShapeError, match="could not broadcast"):
            ftrace.jit(put_in_place(lambda y, n=shape: y.__setitem__(slice(None), np.ones(n))))(M)


def test_complex_values_are_stored_in_complex_arrays_and_as_truth() -> None:
    for dtype in ("c8", "c16", "?"):
        f = put_in_place(lambda y: y.__setitem__(0, 1j))
        np.testing.assert_array_equal(ftrace.jit(f)(V.astype(dtype)), f(V.astype(dtype)))
    with pytest.raises(errors.DtypeError, match="cannot be stored"):
        ftrace.jit(put_in_place(lambda y: y.__setitem__(0, 1j)))(V)


def test_a_mask_has_no_more_axes_than_the_array() -> None:
    for value in (1.0, np.ones(2)):
        with pytest.raises(IndexError, match="too many indices"):
            ftrace.jit(put_in_place(lambda y, m, v=value: y.__setitem__(m, v)))(V, M > 1)


def test_a_mask_and_what_is_stored_have_fitting_sizes() -> None:
    f = put_in_place(lambda y, m, v: y.__setitem__(m, v))
    for mask in (np.array([True, False]), np.ones((3, 2), bool)):
        for way in (ftrace.jit(f), lambda y, m, v: ftrace.jit(lambda y: f(y, m, v))(y)):
            with pytest.raises(IndexError, match="boolean index did not match"):
                way(M, mask, 1.0)
    with pytest.raises(errors.ShapeError, match="could not broadcast"):
        ftrace.jit(f)(M, M[:, 0] > 1, np.ones(3))


def test_a_mask_of_no_axes_takes_all_or_nothing() -> None:
    f = put_in_place(lambda y, m: y.__setitem__(m, 5.0))
    for mask in (np.True_, np.False_):
        np.testing.assert_array_equal(ftrace.jit(f)(V, mask), f(V, mask))


def steps(f: Any, *xs: Any) -> list[str]:
    """The primitives of a program."""
    return [e.primitive.name for e in ftrace.make_jaxpr(f)(*xs).eqns]


def test_one_value_at_a_mask_is_a_choice() -> None:
    mask = np.array([True, False, True])
    wanted = ["copy", "broadcast_in_dim", "select"]
    assert steps(put_in_place(lambda y: y.__setitem__(mask, 5.0)), M) == wanted
    assert steps(put_in_place(lambda y, m: y.__setitem__(m, 5.0)), M, mask) == wanted


def test_small_powers_are_their_own_steps() -> None:
    wanted = {1: "copy", 2: "square", 64: "integer_pow", -64: "integer_pow", 65: "pow", -65: "pow"}
    assert {n: steps(lambda x, n=n: x**n, V)[-1] for n in wanted} == wanted
    truths = np.array([True, False])
    found = ftrace.jit(lambda x: x**3)(truths)
    np.testing.assert_array_equal(found, truths**3)
    assert found.dtype == (truths**3).dtype


def test_a_number_or_an_array_of_no_axes_from_outside_is_not_changed_in_place() -> None:
    outside = np.zeros(())

    def f(given: Any, x: Any, other: Any = None) -> Any:
        y = (given if other is None else other) if x > 0 else 2.0
        y += 1.0
        return y

    for g in (f, lambda given, x: f(given, x, outside)):
        with pytest.raises(errors.MutationError, match="by a traced decision"):
            ftrace.jit(g)(np.zeros(()), 1.0)


def test_an_array_from_outside_that_a_decision_chose_is_not_written() -> None:
    def f(x: Any) -> Any:
        a = V if x > 1 else fnp.zeros(7)
        a[0] = x
        return a

    with pytest.raises(errors.MutationError, match="be an array from outside the traced function"):
        ftrace.jit(f)(2.0)


def test_an_array_of_a_program_of_another_thread_is_not_written() -> None:
    found: list[Exception] = []

    def f(x: Any) -> Any:
        y = x * 1.0

        def elsewhere() -> None:
            try:
                ftrace.jit(lambda z: y.__setitem__(0, z))(1.0)
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return y

    np.testing.assert_array_equal(ftrace.jit(f)(V), V)
    assert [type(e) for e in found] == [errors.UnexpectedTracerError]


def test_an_index_out_of_range_is_told_once() -> None:
    for f in (lambda x, i: x[i], put_in_place(lambda y, i: y.__setitem__(i, 1.0))):
        with pytest.raises(IndexError, match="Index 9") as error:
            ftrace.jit(f)(V, 9)
        assert not any("Raised" in note for note in getattr(error.value, "__notes__", ()))


@pytest.mark.parametrize("value", [5.0, [7.0, 8.0, 9.0, 6.0], np.ones((1, 4)), np.ones((2, 4))])
def test_a_mask_of_leading_axes_takes_one_value_or_rows(value: Any) -> None:
    def f(x: Any, mask: Any) -> Any:
        y = x.copy()
        y[mask] = value
        return y

    mask = np.array([True, False, False] if np.shape(value) != (2, 4) else [True, False, True])
    np.testing.assert_array_equal(ftrace.jit(f)(M, mask), f(M, mask))
    both(lambda x: f(x, mask), M)


# ---------------------------------------------------------------------------------- what is asked


def test_flags_tell_what_is_known_and_nothing_else() -> None:
    def f(x: Any) -> Any:
        z, table = x + 1j * x, fnp.asarray([[x[0], 1.0], [2.0, x[1]]])
        asked = (x.real, z.real, z, table, table.T)
        return np.array([[a.flags.c_contiguous, a.flags["F"], a.flags.forc] for a in asked])

    np.testing.assert_array_equal(ftrace.jit(f)(V), f(V))
    with pytest.raises(errors.TracerAttributeError, match="is contiguous was asked"):
        ftrace.jit(lambda x: x.flags.c_contiguous)(M)
    for ask in (str, lambda flags: flags["WRITEABLE"], lambda flags: flags.__setattr__("o", 1)):
        with pytest.raises(errors.TracerAttributeError, match="has no memory"):
            ftrace.jit(lambda x, ask=ask: ask(x.flags))(V)


def test_without_bounds_a_clipped_array_is_a_copy() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        z = np.clip(y, None, None)
        z[0] = 9.0
        return y, z, np.clip(y, None, 1.0), np.clip(y, 0.0, None)

    for found, wanted in zip(ftrace.jit(f)(V), f(V), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_clipped_zero_has_the_sign_that_numpy_gives_it(dtype: str) -> None:
    zeros = np.array([0.0, -0.0], dtype)
    for low in (None, 0.0, -0.0):
        for high in (None, 0.0, -0.0):
            found, wanted = (
                way(lambda x, a=low, b=high: np.clip(x, a, b))(zeros)
                for way in (ftrace.jit, lambda f: f)
            )
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_bounds_have_one_name_each() -> None:
    for bounds in ({"min": 0.0}, {"max": 1.0}):
        for f in (np.clip, fnp.clip):
            with pytest.raises(ValueError, match="min"):
                ftrace.jit(lambda x, f=f, b=bounds: f(x, 0.0, 1.0, **b))(V)


def test_an_integer_to_the_power_of_nothing_is_one() -> None:
    with pytest.raises(ValueError, match="Integers to negative integer powers"):
        ftrace.jit(lambda x: x**-1)(np.array([3, 1]))
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        ftrace.jit(lambda x: x**-1)(np.array([3, 1], np.uint8))
    for n in (np.array([3, 0]), np.array([3, 0], np.uint8)):
        found = ftrace.jit(lambda x: x**0)(n)
        np.testing.assert_array_equal(found, n**0)
        assert found.dtype == n.dtype


def test_two_bounds_are_given_by_position() -> None:
    for f in (np.clip, fnp.clip):
        with pytest.raises(TypeError):
            ftrace.jit(lambda x, f=f: f(x, 0.0))(V)


def test_parts_along_an_axis_need_that_axis() -> None:
    cube = np.arange(16.0).reshape(2, 2, 4)
    for split, xs in ((np.hsplit, (V[:4], cube)), (np.vsplit, (M[:2], cube)), (np.dsplit, [cube])):
        for x in xs:
            for found, wanted in zip(
                ftrace.jit(lambda x, f=split: f(x, 2))(x), split(x, 2), strict=True
            ):
                np.testing.assert_array_equal(found, wanted)
    for f, x in ((fnp.hsplit, 1.0), (fnp.vsplit, V), (fnp.dsplit, M)):
        with pytest.raises(ValueError, match="only works on arrays of"):
            ftrace.jit(lambda x, f=f: f(x, 1))(x)


def test_functions_that_are_made_have_their_names() -> None:
    for name, axis in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):
        f = getattr(fnp, name)
        assert f.__name__ == f.__qualname__ == name
        assert f.__doc__.startswith(f"Parts of an array along axis {axis}.")


@pytest.mark.parametrize("f", [np.linalg.det, np.linalg.inv, lambda a: np.linalg.solve(a, a)])
@pytest.mark.parametrize("dtype", ["i8", "u1", "f4", "c8"])
def test_matrices_of_integers_are_those_of_floats(f: Any, dtype: str) -> None:
    a = np.array([[2, 1], [1, 3]], dtype)
    found, wanted = ftrace.jit(f)(a), f(a)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize("shape", [(2, 0, 0), (2, 3, 0, 0), (0, 2, 2), (3, 0, 2, 2)])
def test_of_no_elements_there_are_factors(shape: Any) -> None:
    assert ftrace.jit(np.linalg.cholesky)(np.zeros(shape)).shape == shape


def test_a_matrix_of_nan_has_factors_of_nan() -> None:
    nan = np.full((2, 2), np.nan)
    np.testing.assert_array_equal(ftrace.jit(np.linalg.cholesky)(nan), np.linalg.cholesky(nan))


def test_a_member_without_a_power_takes_another_way() -> None:
    def f(x: Any, n: Any) -> Any:
        return x**n if n >= 0 else -1

    xs, ns = np.array([2, 3]), np.array([3, -2])
    for way in (ftrace.vmap(f), ftrace.jit(ftrace.vmap(f))):
        np.testing.assert_array_equal(way(xs, ns), [8, -1])
