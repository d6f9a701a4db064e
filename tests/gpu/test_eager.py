"""Eager transformations of functions on CuPy arrays: as on NumPy arrays, and nothing leaves."""

import ast
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core import device
from ftrace.core.avals import TYPEOF, aval, typeof
from ftrace.core.config import update
from ftrace.core.errors import DeviceError, DtypeError, MutationError, RuleError
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import cupy, here, leaves_here, there, write
from tests.numpy.cases import CASES
from tests.numpy.function_table import Case, leaves, lookup, rebuild
from tests.programs import matrix

X = np.array([0.5, 1.0, -2.0])
PACKAGE = Path(ftrace.__file__).parent


@pytest.fixture(autouse=True)
def interpreted(host_device: HostDevice) -> Iterator[None]:
    """On the emulated device; what is jitted is interpreted."""
    device.watch()
    with update(compile=False):
        yield


@pytest.fixture
def reads(host_device: HostDevice, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays that were copied to the host."""
    found: list[Any] = []
    to_host = host_device.to_host

    def noted(array: Any) -> Any:
        found.append(array)
        return to_host(array)

    monkeypatch.setattr(host_device, "to_host", noted)
    return found


# ---------------------------------------------------------------------------------- programs

# User functions called on plain CuPy arrays compute by CuPy itself, which needs a driver.
PLAIN_RULES = ("custom_vjp", "custom_rule")
ORDERS = {
    "jvp": lambda f: lambda x, v: ftrace.jvp(f, (x,), (v,)),
    "grad": lambda f: lambda x, v: ftrace.grad(f)(x),
    "vjp": lambda f: lambda x, v: ftrace.vjp(f, x)[1](1.0)[0],
    "linearize": lambda f: lambda x, v: ftrace.linearize(f, x)[1](v),
    "hessian": lambda f: lambda x, v: ftrace.hessian(f)(x),
    "grad of jit": lambda f: lambda x, v: ftrace.grad(ftrace.jit(f))(x),
    "jit of grad": lambda f: lambda x, v: ftrace.jit(ftrace.grad(f))(x),
    "vmap of grad": lambda f: lambda x, v: ftrace.vmap(ftrace.grad(f))(stacked(x, v)),
    "checkpoint": lambda f: lambda x, v: ftrace.grad(ftrace.checkpoint(f))(x),
}


def stacked(*xs: Any) -> Any:
    """Two vectors as the rows of a matrix, where they are."""
    return there(np.stack([here(x) for x in xs])) if device.on_device(xs[0]) else np.stack(xs)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A point and a direction; what the programs of the matrix close over is on the device too."""
    for name in ("V", "W", "MEMBERS", "TURNS"):
        monkeypatch.setattr(matrix, name, there(getattr(matrix, name)))
    return there(matrix.X), there(X)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", matrix.FUNCTIONS)
def test_a_program_has_its_derivatives_on_the_device(
    name: str, order: str, request: pytest.FixtureRequest, reads: list[Any]
) -> None:
    f = matrix.FUNCTIONS[name]
    expected = ORDERS[order](f)(matrix.X, X)
    x, v = request.getfixturevalue("on_device")
    found = leaves_here(ORDERS[order](f)(x, v))
    for y, z in zip(found, expected if order == "jvp" else (expected,), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-12, atol=1e-12)
    assert all(array.ndim == 0 for array in reads), "more was read than what decides"


# Not those whose program hands a NumPy array to vectorize, or runs on plain arrays.
INNER = [t for t in matrix.TRANSFORMATIONS if t not in (*PLAIN_RULES, "inside vectorize")]
OUTER = [t for t in INNER if t != "custom_gradient"]


@pytest.mark.sampled(3, each="outer")
@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_a_pair_of_transformations_is_right_on_the_device(
    outer: str, inner: str, request: pytest.FixtureRequest
) -> None:
    two = lambda f: matrix.TRANSFORMATIONS[outer][0](matrix.TRANSFORMATIONS[inner][0](f))  # noqa: E731
    expected = ftrace.jvp(two(matrix.FUNCTIONS["while"]), (matrix.X,), (X,))
    x, v = request.getfixturevalue("on_device")
    found = ftrace.jvp(two(matrix.FUNCTIONS["while"]), (x,), (v,))
    np.testing.assert_allclose(leaves_here(found), expected, rtol=1e-11, atol=1e-11)


# ---------------------------------------------------------------------------------- functions

PLAIN_CODE = ("piecewise", "apply_over_axes")  # they run functions of the user on plain arrays
SAMPLES = [pytest.param(case, id=repr(case)) for case in CASES]


def on_the_device(case: Case, module: Any) -> Any:
    """The case as a function of its arrays."""
    options = {k: there(v) if isinstance(v, np.ndarray) else v for k, v in case.kwargs.items()}

    def function(*xs: Any) -> Any:
        found = lookup(module, case.name)(*rebuild(case.args, iter(xs)), **options)
        return tuple(found) if isinstance(found, list | tuple) else found

    return function


def agree(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        for y, z in zip(found, expected, strict=True):
            agree(y, z)
    elif np.ndim(expected):
        assert here(found).dtype == expected.dtype
        np.testing.assert_allclose(here(found), expected, rtol=1e-5, atol=1e-6)
    else:
        found = here(found) if device.on_device(found) else found
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", [c for c in SAMPLES if c.values[0].name not in PLAIN_CODE])
def test_a_function_of_ftrace_numpy_takes_plain_cupy_arrays(case: Case) -> None:
    expected = lookup(np, case.name)(*case.args, **case.kwargs)
    agree(on_the_device(case, fnp)(*map(there, leaves(case.args))), expected)


@pytest.mark.parametrize("case", SAMPLES)
def test_a_function_of_numpy_takes_tracers_of_cupy_arrays(case: Case) -> None:
    expected = lookup(np, case.name)(*case.args, **case.kwargs)
    members = [there(np.asarray(x)[None]) for x in leaves(case.args)]
    found = ftrace.vmap(on_the_device(case, np))(*members)
    rows = [row[0] for row in leaves_here(found)]
    flat = expected if isinstance(expected, list | tuple) else (expected,)
    for y, z in zip(rows, flat, strict=True):
        assert y.dtype == np.asarray(z).dtype
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6)


def test_what_a_function_makes_of_nothing_lies_beside_its_operand():
    x = there(X)
    for found in (fnp.zeros_like(x), fnp.full_like(x, 2.0), fnp.broadcast_arrays(x, 1.0)[1]):
        assert here(found).shape == (3,)


def test_a_plain_array_gets_the_result_of_a_function_of_ftrace_numpy(monkeypatch):
    monkeypatch.setattr(cupy, "copyto", lambda to, x, where=True: write(to, here(x)))
    out = there(np.zeros(3))
    assert fnp.clip(there(X), 0.0, 0.75, out=out) is out
    np.testing.assert_array_equal(here(out), np.clip(X, 0.0, 0.75))


@pytest.mark.parametrize("index", [np.uint8([2, 0]), np.int8([2, 0]), np.array([1, 0, 1], bool)])
def test_an_index_may_lie_on_the_device(index):
    found = ftrace.grad(lambda x, i: x[i].sum())(there(X), there(index))
    np.testing.assert_array_equal(here(found), [1.0, 0.0, 1.0])


def test_an_index_on_the_device_that_is_no_integer_is_refused():
    with pytest.raises(IndexError, match=r"not f64\[2\]"):
        ftrace.grad(lambda x, i: x[i].sum())(there(X), there(np.zeros(2)))


def test_a_list_of_rows_is_a_matrix():
    row = there(X)
    np.testing.assert_array_equal(here(fnp.asarray([row, there(X * 2)])), [X, X * 2])


def test_the_first_cupy_array_of_a_program_makes_cupy_known(monkeypatch: pytest.MonkeyPatch):
    libraries, plain = dict(device.LIBRARIES), set(device.PLAIN)
    known = TYPEOF.pop(cupy.ndarray)
    device.LIBRARIES.clear()
    device.PLAIN.add(np.ndarray)
    try:
        found = fnp.linalg.vector_norm(there(X))  # NumPy's own function refuses
        np.testing.assert_allclose(here(found), np.linalg.norm(X))
        assert device.LIBRARIES.keys() == libraries.keys()
    finally:
        device.LIBRARIES.update(libraries)
        TYPEOF[cupy.ndarray] = known
        device.PLAIN.clear()
        device.PLAIN.update(plain)


# ---------------------------------------------------------------------------------- values


def test_a_cupy_array_has_a_type_and_is_an_array():
    assert typeof(there(X)) is aval((3,), np.dtype("f8"))
    assert typeof(there(1.5)) is aval((), np.dtype("f8"))
    assert isinstance(there(X), ftrace.Array)
    assert ftrace.tree_util.tree_map(lambda a: a.shape, {"w": [there(X)]}) == {"w": [(3,)]}
    assert ftrace.eval_shape(np.sin, there(X)).shape == (3,)


def test_a_dtype_that_ftrace_does_not_trace_is_named():
    record = cupy.ndarray((3,), np.dtype("V8"), memptr=there(X).data)
    with pytest.raises(DtypeError, match="V8"):
        ftrace.grad(np.sum)(record)


def test_results_of_rank_0_stay_on_the_device_and_nothing_is_read(reads: list[Any]):
    value, gradient = ftrace.value_and_grad(lambda x: np.sum(np.sin(x) * x))(there(X))
    assert here(value).shape == ()
    np.testing.assert_allclose(here(gradient), np.sin(X) + X * np.cos(X))
    assert not reads


def test_a_derivative_that_is_zero_lies_on_the_device():
    x = there(X)
    np.testing.assert_array_equal(here(ftrace.grad(lambda x: 2.0)(x)), np.zeros(3))
    np.testing.assert_array_equal(here(ftrace.jacfwd(lambda x: fnp.zeros(2))(x)), np.zeros((2, 3)))
    y, t = ftrace.jvp(lambda x: fnp.ones(3), (x,), (x,))
    np.testing.assert_array_equal(here(t), np.zeros(3))
    np.testing.assert_array_equal(here(y), np.ones(3))
    y, pull = ftrace.vjp(lambda x, s: x * 1.0, x, 2.0)
    to_x, to_s = pull(x)
    np.testing.assert_array_equal(here(to_x), X)
    assert to_s == 0.0


def test_a_gradient_lies_where_its_argument_does():
    to_x, to_s, to_z = ftrace.grad(lambda x, s, z: np.sum(x) * s * z, (0, 1, 2))(
        there(X), 2.0, there(3.0)
    )
    np.testing.assert_allclose(here(to_x), np.full(3, 6.0))
    assert here(to_s) == 3.0 * X.sum()
    assert here(to_z) == 2.0 * X.sum()
    host = ftrace.grad(lambda x, w: fnp.sum(x) * 0.0 + np.sum(w), 1)(there(X), np.ones(2))
    assert type(host) is np.ndarray


def test_a_tracer_gives_python_the_numbers_it_asks_for(reads: list[Any]):
    seen: list[Any] = []

    def f(x: Any) -> Any:
        first = lax.stop_gradient(x[0])
        seen.extend([bool(x[0] > 0), float(first), first.item(), int(first * 4)])
        assert "value=0.5" in repr(x[0])
        return np.sum(x) if x[0] > 0 else np.sum(x * x)

    ftrace.grad(f)(there(X))
    assert seen == [True, 0.5, 0.5, 2]
    assert len(reads) == 6


def test_a_numpy_array_is_never_made_of_a_tracer_on_the_device():
    with pytest.raises(DeviceError, match=r"A NumPy array was asked of f64\[3\].*on a GPU") as e:
        ftrace.grad(lambda x: np.asarray(lax.stop_gradient(x)).sum() * x[0])(there(X))
    assert "ftrace.device_get(x)" in str(e.value)


# ---------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("size", [3, 20000])
def test_a_pullback_keeps_the_values_of_its_arguments_and_captures(size: int):
    x, w = there(np.full(size, 2.0)), there(np.full(size, 3.0))
    _, pull = ftrace.vjp(lambda x: np.sum(x * x * w), x)
    write(x, 7.0)
    write(w, 7.0)
    np.testing.assert_array_equal(here(pull(1.0)[0]), np.full(size, 12.0))
    _, push = ftrace.linearize(lambda x: x * w, x)
    write(w, 0.0)
    np.testing.assert_array_equal(here(push(x)), np.full(size, 49.0))


def test_an_argument_is_copied_once_however_often_it_is_kept(
    host_device: HostDevice, monkeypatch: pytest.MonkeyPatch
):
    rows: list[str] = []
    library = host_device.library

    def noted(row: Any, args: Any, params: Any) -> Any:
        rows.append(row.name)
        return library(row, args, params)

    monkeypatch.setattr(host_device, "library", noted)
    ftrace.grad(lambda x: np.sum(x * x * np.sin(x) / x))(there(np.ones(20000)))
    assert rows.count("copy") == 1


def test_a_write_during_the_call_does_not_reach_what_was_read_before():
    w = there(X)

    def f(x: Any) -> Any:
        y = x * w
        write(w, 0.0)
        return np.sum(y)

    np.testing.assert_array_equal(here(ftrace.grad(f)(there(X))), X)


def test_results_share_no_memory_with_arguments_captures_and_each_other():
    x, w = there(X), there(X)
    results = [
        *ftrace.jvp(lambda x: (x, x.T, w), (x,), (x,))[0],
        *ftrace.vjp(lambda x: (x, x), x)[0],
        ftrace.vmap(lambda x: x)(x),
        ftrace.grad(lambda x: np.sum(x * w))(x),
        ftrace.jit(lambda x: x)(x),
    ]
    pointers = [a.data.ptr for a in (x, w, *results)]
    assert len(set(pointers)) == len(pointers)
    for y in results:
        np.testing.assert_array_equal(here(y), X)


def test_cells_are_written_on_the_device():
    def f(x: Any) -> Any:
        out = fnp.zeros(4)
        out[0] = x[0]
        out[1:] = x * x
        out[2] *= np.sin(out[1])
        out[fnp.asarray([0, 0])] += x[1]
        return np.sum(out)

    expected = ftrace.grad(f)(X)
    np.testing.assert_allclose(here(ftrace.grad(f)(there(X))), expected)
    np.testing.assert_allclose(here(ftrace.jit(ftrace.grad(f))(there(X))), expected)

    def writes(x: Any) -> Any:
        x[0] = 1.0
        return np.sum(x)

    with pytest.raises(MutationError, match="`x` is an argument"):
        ftrace.grad(writes)(there(X))


def test_free_arrays_are_forgotten_when_they_die():
    gc.collect()
    before = len(device._free)
    ftrace.hessian(lambda x: np.sum(fnp.arange(3.0) * x * x))(there(X))
    gc.collect()
    assert len(device._free) <= before  # what other tests left may die here, too


# ---------------------------------------------------------------------------------- control


def test_loops_and_branches_run_on_the_device():
    def f(x: Any) -> Any:
        c, ys = lax.scan(lambda c, t: (c * 0.5 + t, c), x, fnp.stack([x, x * x]))
        d = lax.while_loop(lambda c: np.sum(c) < 9.0, lambda c: c + 1.5, c)
        e = lax.fori_loop(0, 3, lambda i, c: c * (i + 1.0) + ys[i % 2], d)
        return lax.cond(e[0] > 0, np.sum, lambda e: np.sum(e * e), e) + np.sum(
            lax.switch(there(1), [lambda e: e, lambda e: e * x], e)
        )

    expected = ftrace.jvp(lambda x: ftrace.jvp(lambda x: _on_host(f)(x), (x,), (X,))[1], (X,), (X,))
    x = there(X)
    found = ftrace.jvp(lambda x: ftrace.jvp(f, (x,), (there(X),))[1], (x,), (x,))
    np.testing.assert_allclose(leaves_here(found), expected, rtol=1e-12)


def _on_host(f: Any) -> Any:
    """The same function with its number on the host."""

    def run(x: Any) -> Any:
        global there
        before = there
        there = lambda n: np.int64(n)  # noqa: E731
        try:
            return f(x)
        finally:
            there = before

    return run


def test_custom_rules_get_values_on_the_device_that_they_cannot_spoil():
    seen: list[Any] = []

    @ftrace.custom_vjp
    def f(x: Any) -> Any:
        return fnp.sum(fnp.sin(x))

    def forward(x: Any) -> Any:
        return fnp.sum(fnp.sin(x)), x

    def backward(x: Any, ct: Any) -> Any:
        seen.append(x)
        found = fnp.multiply(ct, fnp.cos(x))
        write(x, 9.0)
        return (found,)

    f.defvjp(forward, backward)
    y, pull = ftrace.vjp(f, there(X))
    for _ in range(2):
        np.testing.assert_allclose(here(pull(1.0)[0]), np.cos(X))
    assert all(type(x) is cupy.ndarray for x in seen)
    np.testing.assert_allclose(here(y), np.sum(np.sin(X)))


def test_a_callback_runs_on_the_host_and_its_result_goes_back():
    shape = ftrace.ShapeDtypeStruct((3,), np.float64)

    def host(x: Any) -> Any:
        assert type(x) is np.ndarray
        return np.cumsum(x)

    found = ftrace.jvp(
        lambda x: x * ftrace.pure_callback(host, shape, lax.stop_gradient(x)),
        (there(X),),
        (there(np.ones(3)),),
    )
    np.testing.assert_allclose(leaves_here(found), [X * np.cumsum(X), np.cumsum(X)])


def test_residuals_on_the_device_are_listed():
    found = ftrace.saved_residuals(lambda x: np.sum(np.sin(x) ** 2), there(np.ones(100)))
    assert [(r.name, r.bytes) for r in found] == [("cos", 800), ("mul", 800)]


# ---------------------------------------------------------------------------------- doors


def test_cupys_ufuncs_take_tracers():
    for f, g in (
        (cupy.sin, np.sin),
        (lambda x: cupy.add(x, 2.0) * cupy.true_divide(1.0, x), lambda x: (x + 2.0) / x),
        (lambda x: cupy.sinc(x), np.sinc),
        (lambda x: cupy.sum(x) * x, lambda x: np.sum(x) * x),
    ):
        found = ftrace.jvp(f, (there(X),), (there(X),))
        np.testing.assert_allclose(leaves_here(found), ftrace.jvp(g, (X,), (X,)), rtol=1e-12)


def test_a_kernel_of_the_users_has_no_rule():
    kernel = cupy.ElementwiseKernel("float64 x", "float64 y", "y = x * x", "squared")
    with pytest.raises(RuleError, match="kernel squared of CuPy has no rule"):
        ftrace.grad(lambda x: np.sum(kernel(x)))(there(X))


def test_arrays_move_by_hand(reads: list[Any]):
    moved = ftrace.device_put({"w": X, "b": 2.0, "c": (there(X), np.float32(1))})
    np.testing.assert_array_equal(here(moved["w"]), X)
    assert here(moved["b"]).shape == ()
    assert here(moved["c"][1]).dtype == np.float32
    back = ftrace.device_get(moved)
    assert type(back["w"]) is np.ndarray
    assert type(back["b"]) is np.float64
    assert len(reads) == 4
    assert ftrace.device_get("text") == "text"


def test_what_cannot_move_is_named():
    with pytest.raises(DtypeError, match=r"device_put was given 'text' .*which is not an array"):
        ftrace.device_put("text")
    for move in (ftrace.device_put, ftrace.device_get):
        with pytest.raises(DeviceError, match=rf"{move.__name__} was given f64\[3\], a traced"):
            ftrace.vmap(move)(np.ones((2, 3)))


class Foreign:
    """A CUDA tensor of another library."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_memory_of_another_library_becomes_a_cupy_array(monkeypatch: pytest.MonkeyPatch):
    """CuPy looks such memory up with the driver, which is not here."""
    monkeypatch.setattr(cupy, "asarray", lambda x: there(x.array))
    monkeypatch.setattr(cupy, "from_dlpack", lambda x: there(x.array))
    for enter in (fnp.asarray, fnp.from_dlpack, ftrace.device_put):
        np.testing.assert_array_equal(here(enter(Foreign(X))), X)
    found = ftrace.grad(lambda x: np.sum(x * fnp.asarray(Foreign(X))))(there(X))
    np.testing.assert_array_equal(here(found), X)
    np.testing.assert_array_equal(fnp.from_dlpack(X), X)


# ---------------------------------------------------------------------------------- the source


def test_only_the_gpu_folder_names_cupy():
    """Everything else reaches values on a device through rows, and rows through the device."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if PACKAGE / "gpu" in path.parents or "cupy" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if isinstance(node, ast.Name):
                names = [node.id]
            found += [(path, name) for name in names if name.partition(".")[0] in ("cupy", "cupyx")]
    assert not found
