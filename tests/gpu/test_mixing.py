"""NumPy arrays and CuPy arrays together: what moves, what raises, and what the error says."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core import device
from ftrace.core.config import update
from ftrace.core.errors import DeviceError
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import cupy, here, leaves_here, there

X = np.array([0.5, 1.0, -2.0])
W = np.array([3.0, 1.0, 2.0])
HOLDER = SimpleNamespace(w=W.copy())
LISTED = [W.copy()]


@pytest.fixture(autouse=True)
def interpreted(host_device: HostDevice) -> Iterator[None]:
    """On the emulated device; what is jitted is interpreted unless a test says otherwise."""
    device.watch()
    with update(compile=False):
        yield


@pytest.fixture
def moved(host_device: HostDevice, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes of what was moved to the device."""
    found: list[Any] = []
    from_host = host_device.from_host

    def noted(array: Any) -> Any:
        found.append(np.shape(array))
        return from_host(array)

    monkeypatch.setattr(host_device, "from_host", noted)
    return found


def closing() -> dict[str, Any]:
    k = W.copy()
    return {
        "left": lambda x: k * x,
        "right": lambda x: x * k,
        "function": lambda x: fnp.multiply(k, x),
        "ufunc": lambda x: np.add(k, x),
        "list": lambda x: np.concatenate([k, x]),
        "list, ours": lambda x: fnp.stack([x, k]),
        "choice": lambda x: np.where(x > 0, k, x),
        "choice beside a temporary": lambda x: np.where(x > 0, np.ones(3), k) * x,
        "list with a temporary": lambda x: np.concatenate([x, np.ones(3), k]),
        "choice, ours": lambda x: fnp.where(x > 0, x, k),
        "view": lambda x: x * k[::-1],
        "part": lambda x: x * k[1:2],
        "reshaped": lambda x: k.reshape(3, 1) * x,
        "product": lambda x: x @ k,
        "product, reflected": lambda x: k @ x,
        "dot": lambda x: np.dot(k, x),
        "method": lambda x: x.dot(k),
        "computed": lambda x: fnp.sin(fnp.multiply(k, 2.0)) * x,
        "in place": lambda x: fnp.zeros(3) + x * k,
    }


def local(x: Any) -> Any:
    made = np.ones(3)
    return made * x


def inner(w: Any, x: Any) -> Any:
    return w * x


NAMED = {
    **closing(),
    "global": lambda x: W * x,
    "attribute": lambda x: HOLDER.w * x,
    "attribute, right": lambda x: x * HOLDER.w,
    "item": lambda x: x * LISTED[0],
    "item, ours": lambda x: fnp.multiply(LISTED[0], x),
    "local": local,
    "argument": lambda x: inner(W, x),
    "keyword": lambda x: inner(w=HOLDER.w, x=x),
    "transposed": lambda x: W.T * x,
}
TRANSFORMED = {
    "jvp": lambda f, x: ftrace.jvp(f, (x,), (x,)),
    "grad": lambda f, x: ftrace.grad(lambda x: fnp.sum(f(x)))(x),
    "vmap": lambda f, x: ftrace.vmap(f)(there(np.stack([X, X]))),
    "jit": lambda f, x: ftrace.jit(f)(x),
}


@pytest.mark.parametrize("how", TRANSFORMED)
@pytest.mark.parametrize("name", NAMED)
def test_a_numpy_array_with_a_name_does_not_move(name: str, how: str, moved: list[Any]) -> None:
    with pytest.raises(DeviceError, match="two devices") as e:
        TRANSFORMED[how](NAMED[name], there(X))
    assert "is a NumPy array" in str(e.value).replace("(f64[3])", "")
    assert "ftrace.device_put(x)" in str(e.value)
    assert not [shape for shape in moved if len(shape)]


@pytest.mark.parametrize("operation", [fnp.add, fnp.dot, fnp.outer, fnp.kron])
def test_functions_of_ours_refuse_plain_arrays_of_two_devices(operation: Any) -> None:
    with pytest.raises(DeviceError, match="two devices"):
        operation(there(X), W)


def test_the_error_names_both_operands_and_says_what_to_do():
    with pytest.raises(DeviceError) as e:
        ftrace.grad(lambda x: fnp.sum(x * W))(there(X))
    assert re.search(
        r"mul was given operands of two devices: operand 1 is a NumPy array \(f64\[3\]\), "
        r"operand 0 a CuPy array \(f64\[3\]\)\.\nAt .*test_mixing.py:\d+: .*x \* W.*\n"
        r"No array that has a name moves by itself: .*ftrace\.device_put\(x\).*"
        r"ftrace\.device_get\(x\).*ftrace\.numpy\.eye\(3\)",
        str(e.value),
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_a_jitted_call_names_both_arguments(compiled: bool) -> None:
    @ftrace.jit
    def f(params: Any, x: Any, *, scale: Any = 1.0) -> Any:
        return fnp.sum(params["w"] * x) * scale

    with update(compile=compiled):
        with pytest.raises(DeviceError) as e:
            f({"w": W}, there(X), scale=2.0)
        assert (
            "f was called with arrays of two devices: argument params['w'] (f64[3]) is a NumPy "
            "array, argument x (f64[3]) a CuPy array." in str(e.value)
        )
        with pytest.raises(DeviceError, match=r"argument scale \(f64\[3\]\) is a NumPy array"):
            f({"w": there(W)}, there(X), scale=W)
        assert here(f({"w": there(W)}, there(X), scale=2.0)) == 2.0 * np.sum(W * X)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_jitted_call_names_what_it_captured(compiled: bool) -> None:
    k, c = W.copy(), there(W)
    with update(compile=compiled):
        with pytest.raises(
            DeviceError, match=r"`k`, a captured array \(f64\[3\]\) is a NumPy array"
        ):
            ftrace.jit(lambda x: x * k)(there(X))
        with pytest.raises(DeviceError, match=r"argument x \(f64\[3\]\) is a NumPy array"):
            ftrace.jit(lambda x: x * c)(X)


# ---------------------------------------------------------------------------------- what moves


def _sliced(x: Any) -> Any:
    n, y = fnp.argmax(x), x.copy()
    y[:n] *= 2.0
    y[n : n + 1] += x[0]
    return y[n:].sum() * x + y + x[:n] @ x[:n]


MADE = {
    "slices": _sliced,
    "ones": lambda x: fnp.ones(3) * x,
    "range": lambda x: fnp.arange(3.0) - x,
    "linspace": lambda x: fnp.linspace(0.0, 1.0, 3) * x,
    "identity": lambda x: fnp.eye(3) @ x,
    "triangle": lambda x: fnp.tri(3) @ x,
    "list": lambda x: x * [1.0, 2.0, 3.0],
    "array": lambda x: fnp.array([1.0, 2.0, 3.0]) * x,
    "computed": lambda x: fnp.sin(fnp.arange(3.0) * 2.0)[::-1] * x,
    "with like": lambda x: np.eye(3, like=x) @ x,
    "filled": lambda x: fnp.concatenate([fnp.zeros(2), x]),
    "temporary": lambda x: np.ones(3) * x,
    "temporary, right": lambda x: x * np.ones(3),
    "temporary identity": lambda x: np.eye(3) @ x,
    "temporary view": lambda x: np.arange(3.0).reshape(3, 1) * x,
    "temporary part": lambda x: np.arange(6.0).reshape(2, 3)[1] * x,
    "temporary in a function": lambda x: fnp.multiply(np.ones(3), x),
    "temporary in a list": lambda x: np.concatenate([x, np.ones(3)]),
    "temporary choice": lambda x: np.where(x > 0, np.ones(3), x),
    "temporary function of a capture": lambda x: x * np.sin(W),
    "temporary contraction": lambda x: np.einsum("ij,j->i", np.eye(3), x),
    "scalar of a capture": lambda x: x * W[0],
    "rank 0": lambda x: x * np.array(2.0),
    "number": lambda x: 2.0 * x + np.float64(1.0),
}


@pytest.mark.parametrize("how", TRANSFORMED)
@pytest.mark.parametrize("name", MADE)
def test_what_a_function_makes_goes_with_what_it_meets(name: str, how: str) -> None:
    expected = {
        "jvp": lambda f: ftrace.jvp(f, (X,), (X,)),
        "grad": lambda f: ftrace.grad(lambda x: fnp.sum(f(x)))(X),
        "vmap": lambda f: ftrace.vmap(f)(np.stack([X, X])),
        "jit": lambda f: ftrace.jit(f)(X),
    }[how](MADE[name])
    found = leaves_here(TRANSFORMED[how](MADE[name], there(X)))
    for y, z in zip(found, expected if how == "jvp" else (expected,), strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-13)


def test_indices_follow_what_they_index():
    rows, mask = np.array([2, 0, 2]), np.array([True, False, True])
    key = rows.copy()

    def f(x: Any) -> Any:
        y = x[rows] * fnp.take(x, rows) + x[mask].sum()
        out = fnp.zeros(3)
        out[key] = y
        return fnp.sum(fnp.at(out)[rows].add(y) * x[x > 0].sum())

    np.testing.assert_allclose(here(ftrace.grad(f)(there(X))), ftrace.grad(f)(X))


def test_an_index_on_the_device_out_of_range_raises():
    for i in (there([0, 3]), there([0, -4]), np.array([0, 3])):
        with pytest.raises(IndexError, match=r"(?i)index (3|-4) is out of bounds for axis 0"):
            ftrace.jvp(lambda x, i=i: x[i], (there(X),), (there(X),))


def test_a_host_computation_beside_one_on_the_device_stays_on_the_host():
    def f(x: Any, w: Any) -> Any:
        return fnp.sum(fnp.sin(x)) * fnp.sum(fnp.sin(w))

    x, w = there(X), W.copy()
    _, (to_x, to_w) = ftrace.jvp(lambda x, w: (x * 2.0, fnp.sin(w)), (x, w), (x, w))
    assert type(to_w) is np.ndarray
    np.testing.assert_allclose(here(to_x), 2.0 * X)
    np.testing.assert_allclose(here(ftrace.grad(f)(x, w)), np.cos(X) * np.sum(np.sin(W)))


def test_what_runs_on_the_host_says_so():
    with pytest.raises(DeviceError, match=r"debug\.blame runs on NumPy arrays.*\(f64\[3\]\)"):
        ftrace.debug.blame(np.sum, there(X))
    with pytest.raises(DeviceError, match=r"(?s)cg runs on NumPy arrays.*ftrace\.device_get\(x\)"):
        ftrace.implicit.cg(np.eye(3), there(X))


def test_arrays_of_two_gpus_do_not_mix():
    x = there(X)
    memory = cupy.cuda.UnownedMemory(x.data.ptr, x.nbytes, x, 8)
    y = cupy.ndarray((3,), x.dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))
    with pytest.raises(DeviceError, match=r"mul was given CuPy arrays of several GPUs: 0, 8\."):
        fnp.multiply(y, x)


def test_a_loop_brings_a_free_array_over_once(moved: list[Any]):
    def f(x: Any) -> Any:
        return lax.scan(lambda c, t: (c * t, c), x, fnp.arange(1.0, 6.0))[0]

    found = ftrace.jit(f)(there(X))
    np.testing.assert_allclose(here(found), X * 120.0)
    assert moved.count((5,)) == 1


def test_a_temporary_is_known_by_its_references_at_every_door():
    """The counts are measured, not assumed: an array with one more holder is above them."""
    from ftrace.numpy import temporaries

    most = temporaries._most()
    held = np.empty(1)
    probe: Any = temporaries._Probe()
    assert (held * probe)[0] > most["ufunc"]
    assert np.where(probe, held, 1)[0] > most["function"]
    assert probe * held > most["operator"]
    assert temporaries._passed(held) > most["argument"]
    assert temporaries._gathered(held)[0] > most["arguments"]
    assert temporaries._counts([held])[0] > most["list"]
    counts = np.where(probe, held, np.empty(1))
    assert counts[1] == most["functions"] < counts[0]
    assert np.where(probe, np.empty(1), held)[1] > most["functions"]
    assert np.concatenate([probe, held])[0] > most["function of a list"]
