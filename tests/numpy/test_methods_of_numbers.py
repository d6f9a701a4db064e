"""Methods that Python's and NumPy's numbers have, and arrays have not, on traced numbers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ftrace import grad, jit, vmap
from ftrace.errors import ConcretizationTypeError

POINTS = np.array([1.0, -2.0, 0.5, -0.0, 1e300, np.inf, np.nan])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8])
def test_whole_numbers_are_told_as_in_numpy(dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x = POINTS[:3].astype(dtype) if np.dtype(dtype).kind in "iu" else POINTS.astype(dtype)
    wanted = [bool(v.is_integer()) for v in x]
    assert jit(lambda x: [v.is_integer() for v in x])(x) == wanted
    np.testing.assert_array_equal(vmap(lambda v: v.is_integer())(x), wanted)


def test_a_whole_number_decides() -> None:
    def f(x: Any) -> Any:
        return x * 3 if float(x).is_integer() else -x

    assert [jit(f)(v) for v in (2.0, 2.5)] == [6.0, -2.5]
    assert [jit(grad(f))(v) for v in (2.0, 2.5)] == [3.0, -1.0]
    np.testing.assert_array_equal(vmap(grad(f))(np.array([2.0, 2.5])), [3.0, -1.0])


def test_close_numbers_decide() -> None:
    def f(x: Any) -> Any:
        return x[0] if math.isclose(x[0], x[1], rel_tol=0.5) else x[1]

    for x in (np.array([1.0, 1.6]), np.array([1.0, 3.0])):
        assert jit(f)(x) == f(x)
        np.testing.assert_array_equal(jit(grad(f))(x), [x[1] < 2, x[1] > 2])


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("as_integer_ratio", Fraction),
        ("as_integer_ratio", lambda v: v.as_integer_ratio()),
        ("hex", lambda v: float(v).hex()),
        ("bit_length", lambda v: int(v).bit_length()),
    ],
)
def test_what_needs_the_plain_number_is_refused_by_name(name: str, ask: Any) -> None:
    def f(x: Any) -> Any:
        ask(x)
        return x

    for run in (jit(f), lambda v: vmap(f)(np.array([v]))):
        with pytest.raises(ConcretizationTypeError, match=rf"{name}\(\) needs the plain value"):
            run(2.5)
    if name != "bit_length":
        with pytest.raises(ConcretizationTypeError, match="would drop its derivative"):
            grad(f)(2.5)


def test_arrays_have_no_methods_of_numbers() -> None:
    def has(x: Any) -> list[bool]:
        return [hasattr(x, n) for n in ("is_integer", "as_integer_ratio", "bit_count", "hex")]

    assert jit(has)(np.ones(2)) == [False] * 4
    assert jit(lambda x: has(x[0]))(np.ones(2)) == has(np.float64(1))
    with pytest.raises(AttributeError, match="'ndarray' object has no attribute 'is_integer'"):
        jit(lambda x: x.is_integer())(np.ones(2))


OF_ARRAYS: dict[str, Any] = {
    "item": lambda x: x[1].item() * 2,
    "item of one": lambda x: x[2:].item() + 1,
    "item by place": lambda x: x.item(0) * x.item(-1),
    "item by places": lambda x: x[None].item(0, 1) + x[None].item((0, 2)),
    "list": lambda x: sum(v * v for v in x.tolist()),
    "nested lists": lambda x: math.exp(np.stack([x, 2 * x]).tolist()[1][0]),
    "list of a number": lambda x: x[0].tolist() * 3,
    "of Python's classes": lambda x: [isinstance(v, float | int) for v in x.tolist()],
    "no NumPy scalars": lambda x: np.float32(0.1) + x.tolist()[0],
}


@pytest.mark.parametrize("name", OF_ARRAYS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.bool_])
def test_numbers_of_arrays_are_pythons(name: str, dtype: Any) -> None:
    f, x = OF_ARRAYS[name], np.array([0.5, 1.5, 0.0]).astype(dtype)
    got, wanted = jit(f)(x), f(x)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    if not isinstance(wanted, list):
        assert np.asarray(got).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(vmap(f)(x[None]), [wanted], rtol=1e-6)


def test_numbers_of_arrays_keep_derivatives() -> None:
    x = np.array([0.5, 1.5, 2.0])
    for f, wanted in (
        (lambda x: x[1].item() ** 2, [0, 3, 0]),
        (lambda x: sum(v * v for v in x.tolist()), 2 * x),
    ):
        for way in (grad(f), jit(grad(f)), lambda x, f=f: vmap(grad(f))(x[None])[0]):
            np.testing.assert_allclose(way(x), wanted)


def test_what_has_no_such_number() -> None:
    for f, error, words in (
        (lambda x: x.item(), ValueError, "size 1"),
        (lambda x: x.item(7), IndexError, "out of bounds"),
        (lambda x: x[None].item((0,)), ValueError, "incorrect number of indices"),
        (lambda x: (x * np.ones((400, 1))).tolist(), ConcretizationTypeError, "tolist"),
    ):
        with pytest.raises(error, match=words):
            jit(f)(np.array([0.5, 1.5, 2.0]))
    with pytest.raises(ConcretizationTypeError, match=r"item\(\)"):
        jit(lambda x: x[0].item(), lift=False)(np.ones(2))
