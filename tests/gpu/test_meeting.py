"""Tracers meet plain CuPy arrays: on both sides of operators, in functions, and in questions."""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.core import device
from ftrace.core.config import update
from ftrace.numpy.layouts import memory_of
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import cupy, here, leaves_here, there
from tests.gpu.test_eager import PLAIN_CODE, agree, on_the_device
from tests.numpy.cases import CASES
from tests.numpy.function_table import leaves, lookup

X = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 2.0], [1.0, 1.0, 1.5]])
W = np.array([[2.0, 2.0, 1.0], [1.0, 3.0, 1.0], [2.0, 1.0, 2.0]])


@pytest.fixture(autouse=True)
def interpreted(host_device: HostDevice) -> Iterator[None]:
    """On the emulated device; what is jitted is interpreted."""
    device.watch()
    with update(compile=False):
        yield


def pushed(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ftrace.jvp(f, (x,), (x,))[0]


TRANSFORMATIONS: dict[str, Callable[..., Callable[[Any], Any]]] = {
    "jvp": pushed,
    "vmap": ftrace.vmap,
    "jit": ftrace.jit,
    "linearize": lambda f: lambda x: ftrace.linearize(f, x)[0],
    "jit of jvp": lambda f: ftrace.jit(pushed(f)),
    "jvp of jit": lambda f: pushed(ftrace.jit(f)),
    "vmap of jvp": lambda f: ftrace.vmap(pushed(f)),
}
ARITHMETIC = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.matmul, divmod),
    *(operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge),
)
BITS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_operators_take_a_cupy_array_on_either_side_of_a_tracer(name: str):
    transformed = TRANSFORMATIONS[name]
    for op in (*ARITHMETIC, *(() if "jvp" in name or name == "linearize" else BITS)):
        x, w = (X.astype(int), W.astype(int)) if op in BITS else (X, W)
        c = there(w)
        for f, g in (
            (lambda t: op(c, t), lambda t: op(w, t)),  # noqa: B023
            (lambda t: op(t, c), lambda t: op(t, w)),  # noqa: B023
        ):
            agree(transformed(f)(there(x)), transformed(g)(x))


def test_a_rule_of_the_users_multiplies_its_tangent_by_a_cupy_array():
    c = there(W)

    @ftrace.custom_jvp
    def f(x: Any) -> Any:
        return fnp.matmul(c, x)

    f.defjvp(lambda primals, tangents: (f(*primals), c @ tangents[0]))
    found = ftrace.grad(lambda x: np.sum(f(x)))(there(X))
    np.testing.assert_allclose(here(found), np.outer(W.sum(0), np.ones(3)))


SOLVERS = {"linalg.inv", "linalg.solve", "linalg.slogdet"}  # cuSOLVER's: they need a driver
WITHOUT = {*PLAIN_CODE, *SOLVERS}
FIRST = {case.name: case for case in reversed(CASES) if case.name not in WITHOUT}


def test_functions_of_ftrace_numpy_take_plain_cupy_arrays():
    for case in FIRST.values():
        expected = lookup(np, case.name)(*case.args, **case.kwargs)
        agree(on_the_device(case, fnp)(*map(there, leaves(case.args))), expected)


def test_functions_take_plain_cupy_arrays_beside_a_traced_one():
    for case in FIRST.values():
        expected = lookup(np, case.name)(*case.args, **case.kwargs)
        xs = [there(x) for x in leaves(case.args)]
        for k, x in enumerate(xs):
            function = on_the_device(case, fnp)
            beside = lambda t: function(*xs[:k], t, *xs[k + 1 :])  # noqa: B023, E731
            if x.dtype.kind in "fc":
                agree(pushed(beside)(x), expected)


def test_indices_follow_what_they_index():
    at, none, x = np.array([0, 2, 1]), np.array([], int), X.ravel()

    def f(x: Any) -> Any:
        pieces = [x[at], np.take(x, at), np.repeat(x, 2), np.pad(x, 2, mode="edge")]
        pieces += [np.convolve(x, x), fnp.at(x)[at].add(1.0), np.take(x, none)]
        pieces += [np.take_along_axis(x, at, 0), np.insert(x, 1, 2.0), np.delete(x, 1)]
        return np.concatenate(pieces)

    expected, gradient = f(x), ftrace.grad(lambda x: np.sum(f(x) ** 2))(x)
    for transformed in (lambda f: f, ftrace.jit):
        agree(pushed(transformed(f))(there(x)), expected)
        agree(transformed(ftrace.grad(lambda x: np.sum(f(x) ** 2)))(there(x)), gradient)
    agree(fnp.take(there(x), there(none)), x[none])
    at = at.copy()
    agree(ftrace.jit(lambda x: x[at] + fnp.take(x, at))(there(x)), 2 * x[at])
    assert not device.is_free(at), "a view of it moves, not the array itself"


def test_quantiles_on_the_device_may_not_lie_outside():
    x = there(X)
    with pytest.raises(ValueError, match="Quantiles must be in the range"):
        fnp.quantile(x, there([0.5, 1.5]))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "axes moved": lambda a: a.transpose(1, 2, 0),
    "steps": lambda a: a[::2, :, 1::2],
    "backwards": lambda a: a[::-1, :, ::-1],
    "one element": lambda a: a[1, 1, 1],
    "nothing": lambda a: a[:0],
    "repeated": lambda a: a[:1, None],
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_memory_of_a_cupy_array_is_known(name: str):
    for dtype in (np.float32, np.complex128):
        a = VIEWS[name](np.ones((2, 3, 4), dtype))
        c = VIEWS[name](there(np.ones((2, 3, 4), dtype)))
        m = memory_of(c)
        assert m is not None
        assert m.shape == a.shape
        assert [s // m.itemsize for s in m.strides] == [s // a.itemsize for s in a.strides]
        assert m.flags.c_contiguous == a.flags.c_contiguous
        assert m.flags.f_contiguous == a.flags.f_contiguous
        m[...] = 1  # its memory is its own
        found = ftrace.jvp(lambda s: fnp.full_like(c, s).ravel("K"), (there(2.0),), (there(1.0),))  # noqa: B023
        np.testing.assert_array_equal(here(found[1]), np.ones(a.size))


def kind(x: Any) -> int:
    """What a program may ask before it decides how to compute."""
    if isinstance(x, cupy.ndarray):
        return 1
    return 2 if isinstance(x, np.ndarray) else 4


@functools.singledispatch
def dispatched(x: Any) -> int:
    return 2


@dispatched.register(cupy.ndarray)  # pyright: ignore[reportUntypedFunctionDecorator]
def _(x: Any) -> int:
    return 1


def matched(x: Any) -> int:
    match x:
        case cupy.ndarray():
            return 1
        case _:
            return 2


def of_numpy(x: Any) -> int:
    """The same, where nothing names CuPy: nothing needs to be lifted."""
    return 3 if isinstance(x, np.ndarray) else 5


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_isinstance_tells_cupys_arrays_from_numpys(name: str):
    def program(x: Any) -> Any:
        y = 2.0 * x
        return (x * kind(x), y * kind(y), y * of_numpy(y), y.sum() * of_numpy(y.sum()))

    on_device, on_host = (TRANSFORMATIONS[name](program)(x) for x in (there(X), X))
    total = 2 * (X.sum(1) if name.startswith("vmap") else X.sum())
    for y, z in zip(leaves_here(on_device), (X, 2 * X, 10 * X, 5 * total), strict=True):
        np.testing.assert_allclose(y, z)
    for y, z in zip(on_host, (2 * X, 4 * X, 6 * X, 5 * total), strict=True):
        np.testing.assert_allclose(y, z)


def test_other_questions_of_type_are_answered_in_loops_too():
    def f(x: Any) -> Any:
        def turn(i: Any, c: Any) -> Any:
            return c * kind(c) * dispatched(c) * matched(c) * (1 if hasattr(c, "get") else 2)

        return ftrace.lax.fori_loop(0, 2, turn, x)

    for transformed in (pushed, ftrace.jit):
        agree(transformed(f)(there(X)), X)
        np.testing.assert_allclose(transformed(f)(X), 2.0**8 * X)


def test_a_jitted_function_is_traced_apart_for_each_device():
    f = ftrace.jit(lambda x: x * kind(x))
    for _ in range(2):
        np.testing.assert_allclose(f(X), 2 * X)
        np.testing.assert_allclose(here(f(there(X))), X)
