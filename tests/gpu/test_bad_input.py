"""What programs on a device say to what they cannot do, and give for unusual values and arrays.

Errors of the driver itself are in test_device.py, mixtures of NumPy's and CuPy's arrays in
test_mixing.py: here is what a user of `jit` meets.
"""

import gc
import warnings
from collections.abc import Iterator
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import errors, grad, jit, lax
from ftrace.gpu.machine_code import cubin as compiling
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.runtime.copying import _joined, contiguous
from ftrace.gpu.runtime.kernels import planned
from tests.gpu import conftest
from tests.gpu.devices import without_gpu
from tests.gpu.emulation.device import HostDevice, selected

RNG = np.random.default_rng(5)
X = RNG.standard_normal((6, 37))


def same(found, expected):
    """Values, shapes, dtypes; NaN where NaN is."""
    for a, b in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(expected), strict=True):
        b = np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-3 if b.dtype == np.float16 else 2e-6)


def on(device, x):
    return device.from_host(np.asarray(x))


def fetched(device, tree):
    return ftrace.tree.map(device.to_host, tree)


# --- no device, too little memory, a kernel that is refused


def test_an_array_without_a_driver_says_what_is_missing(host_device, monkeypatch):
    """An array of CuPy can be there where no GPU can be used."""
    if not without_gpu():
        pytest.skip("there is a device")
    x = on(host_device, X)
    monkeypatch.setattr("ftrace.gpu.runtime.current_device._chosen.device", None)
    for f in (lambda: jit(np.sin)(x), lambda: grad(lambda x: np.sin(x).sum())(x)):
        with pytest.raises(errors.BackendError, match=r"(?s)CuPy.*GPU"):
            f()


class Limited(HostDevice):
    """A device that has so many bytes."""

    limit = 1 << 40

    @property
    def used(self) -> int:
        return sum(block.size for block in self.memory.blocks)

    def allocate(self, size):
        if self.used + size > self.limit:
            raise errors.DeviceMemoryError(
                f"Allocating {size:,} bytes failed: {self.limit - self.used:,} of its "
                f"{self.limit:,} bytes are free."
            )
        return super().allocate(size)


@pytest.fixture
def limited(emulation) -> Iterator[Limited]:
    with selected(Limited(schedules=["forwards"])) as device:
        yield device


def several(x):
    """Results, an arena, and what the stages of sums leave to each other."""
    e = np.exp(x - x.max(1, keepdims=True))
    y = np.sort(e, axis=1)
    return y / e.sum(1, keepdims=True), (y @ y.T).sum(), np.tanh(x) * y.sum()


def test_out_of_memory_names_the_size_frees_everything_and_the_next_call_works_compiled(limited):
    """Whichever allocation of a call fails."""
    f, x = jit(several), on(limited, X)
    expected = several(X)
    same(fetched(limited, f(x)), expected)  # compiled, constants there
    before = limited.used
    said: list[str] = []
    found = None
    while found is None:
        limited.limit = before + 1000 * len(said)
        try:
            found = f(x)
        except errors.DeviceMemoryError as error:
            said.append(str(error))
        gc.collect()
        assert found is not None or limited.used == before  # arena and results so far are free
    assert len(said) > 2
    assert all("bytes failed" in text for text in said)
    same(fetched(limited, found), expected)
    del found
    assert limited.used == before
    limited.limit = before
    with pytest.raises(errors.DeviceMemoryError):
        f(x)
    limited.limit = 1 << 40
    same(fetched(limited, f(x)), expected)


def test_a_size_that_no_device_has_is_refused_before_anything_runs_compiled(limited):
    limited.limit = limited.used + (1 << 20)
    x = on(limited, np.zeros(40_000))
    launches = limited.launches
    with pytest.raises(errors.DeviceMemoryError, match="12,800,000,000 bytes"):
        jit(lambda x: x[:, None] * x)(x)
    assert limited.launches == launches


class Refusing(HostDevice):
    """A device whose compiler is NVRTC, and whose texts are wrong for a while."""

    wrong = True

    def compile(self, source, entries):
        if self.wrong:
            compiling.cubin(source + "\nwrong", self.arch)
        return super().compile(source, entries)


def test_a_kernel_that_is_refused_is_shown_and_nothing_is_kept_of_it_compiled(emulation):
    try:
        nvrtc.load()
    except errors.BackendError as error:
        pytest.skip(str(error).splitlines()[0])
    with selected(Refusing(schedules=["forwards"])) as device:
        f, x = jit(lambda x: np.sin(x) * 0.123456), on(device, X)
        for _ in range(2):
            with pytest.raises(errors.KernelError, match="refuses a generated kernel") as caught:
                f(x)
            assert "sin(" in caught.value.source
            assert "__global__" in caught.value.source
            assert "config.update(compile=False)" in str(caught.value)
        device.wrong = False
        same(device.to_host(f(x)), np.sin(X) * 0.123456)


@pytest.mark.parametrize("dtype", ["g", [("a", "f4")], "M8[s]", "bfloat16"])
def test_a_dtype_without_a_rule_is_named(host_device, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = host_device.empty((3,), np.dtype(dtype))
    for f in (jit(lambda x: x * 2), grad(fnp.sum), fnp.sin):
        with pytest.raises(errors.DtypeError, match=r"(?s)dtype .* cannot be traced.*Use bool"):
            f(x)


def test_nothing_is_emulated_where_there_is_a_gpu(emulation, monkeypatch):
    assert not conftest.without()
    monkeypatch.setattr(conftest, "without_gpu", lambda: "")
    assert conftest.without().startswith("CuPy uses a GPU here")


def test_two_devices_in_one_call_are_named_compiled(host_device):
    f = jit(lambda a, b: a * b + 1.0)
    x = on(host_device, X)
    with pytest.raises(errors.DeviceError, match=r"(?s)NumPy array.*CuPy.*device_put"):
        f(x, X)
    with pytest.raises(errors.DeviceError, match=r"(?s)NumPy array.*CuPy.*device_put"):
        f(X, x)
    same(host_device.to_host(f(x, 2.0)), X * 2.0 + 1.0)


# --- NaN and infinities


FOLDS = {
    "sum": lambda x, a: x.sum(a),
    "prod": lambda x, a: x.prod(a),
    "mean": lambda x, a: x.mean(a),
    "max": lambda x, a: x.max(a),
    "min": lambda x, a: x.min(a),
    "argmax": lambda x, a: x.argmax(a),
    "argmin": lambda x, a: x.argmin(a),
    "any": lambda x, a: (x > 0).any(a),
    "all": lambda x, a: (x == x).all(a),
    "var": lambda x, a: x.var(a),
    "logsumexp": lambda x, a: np.log(np.exp(x - x.max(a, keepdims=True)).sum(a)),
}
ALL = slice(None)
SPECIAL = {
    "nan first": [(0, np.nan)],
    "nan last": [(-1, np.nan)],
    "nan inside": [(100, np.nan)],
    "two nans": [(40, np.nan), (41, np.nan)],
    "inf": [(100, np.inf)],
    "-inf": [(100, -np.inf)],
    "inf and -inf": [(3, np.inf), (100, -np.inf)],
    "inf and nan": [(3, np.inf), (4, np.nan), (100, -np.inf)],
    "all inf": [(ALL, np.inf)],
    "all -inf": [(ALL, -np.inf)],
    "all nan": [(ALL, np.nan)],
    "equal": [(ALL, 2.0)],
    "zeros of both signs": [(ALL, 0.0), (slice(1, None, 2), -0.0)],
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("name", FOLDS)
def test_folds_of_nan_and_infinities_are_numpys_compiled(name, dtype, host_device):
    f = FOLDS[name]
    axes = (0, 1) if name == "logsumexp" else (0, 1, None)
    together = jit(lambda x: [f(x, axis) for axis in axes])
    x = X.astype(dtype)
    for what, special in SPECIAL.items():
        y = x.copy()
        for at, value in special:
            y.reshape(-1)[at] = value
        found = fetched(host_device, together(on(host_device, y)))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = [np.asarray(f(y, axis)) for axis in axes]
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape
            tolerance = {"f2": 3e-2, "f4": 3e-5, "f8": 1e-12}[dtype]
            np.testing.assert_allclose(
                a.astype("f8"), b.astype("f8"), rtol=tolerance, atol=tolerance, err_msg=what
            )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_elements_that_are_special_are_numpys_compiled(dtype, host_device):
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-310, 3e38], "f8")
    with np.errstate(over="ignore"):
        a, b = (m.ravel().astype(dtype) for m in np.meshgrid(values, values))

    def f(a, b):
        return (
            np.maximum(a, b),
            np.minimum(a, b),
            np.where(a > b, a, b),
            a + b,
            a * b,
            np.sign(a),
            np.clip(a, -1.0, 1.0),
            np.isfinite(a),
            1.0 / (1.0 + np.exp(-a)),
            1.0 / (1.0 + a * a),
        )

    with np.errstate(all="ignore"):
        expected = f(a, b)
        found = fetched(host_device, jit(f)(on(host_device, a), on(host_device, b)))
    same(found, expected)


def test_derivatives_keep_nan_where_it_belongs_compiled(host_device):
    x = np.array([-1.0, 0.0, 4.0, np.inf, np.nan])

    def f(x):
        return np.where(x > 0, np.sqrt(x), 0.0).sum()

    with np.errstate(all="ignore"):
        found = host_device.to_host(jit(grad(f))(on(host_device, x)))
    np.testing.assert_array_equal(found, [0.0, 0.0, 0.25, 0.0, 0.0])


# --- arrays without elements


EMPTY = {
    "elements": (lambda x: np.exp(x) * 2.0, (0,)),
    "matrix": (lambda x: x * 2.0 + x, (4, 0)),
    "sums": (lambda x: (x.sum(0), x.sum(1), x.sum(), x.prod(), (x > 0).all()), (0, 3)),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), (0, 5)),
    "product": (lambda x: x @ x.T, (3, 0)),
    "sorted": (lambda x: np.sort(x, axis=1), (3, 0)),
    "cumulative": (lambda x: np.cumsum(x, axis=0), (0, 3)),
    "concatenated": (lambda x: np.concatenate([x, x + 1.0]), (0, 3)),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r.sum(), r * c), x.sum(), x), (0, 3)),
    "gradient": (grad(lambda x: (np.sin(x) * x).sum()), (0, 3)),
    "transposed": (lambda x: x.T[::-1] * 2.0, (0, 3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_arrays_without_elements_compiled(name, host_device):
    f, shape = EMPTY[name]
    x = np.zeros(shape)
    same(fetched(host_device, jit(f)(on(host_device, x))), jit(f)(x))


def test_the_largest_of_nothing_is_an_error_on_both(host_device):
    for x in (np.zeros((0, 3)), on(host_device, np.zeros((0, 3)))):
        with pytest.raises(ValueError, match=r"no identity|empty|no elements"):
            jit(lambda x: x.max(0))(x)


# --- arrays that lie unusually


def views(device, x):
    """The same 37 columns, in memory as other programs leave them."""
    yield "backwards", on(device, x[::-1].copy())[::-1]
    yield "both backwards", on(device, x[::-1, ::-1].copy())[::-1, ::-1]
    yield "transposed", on(device, x.T.copy()).T
    yield "every other row", on(device, np.repeat(x, 2, axis=0))[::2]
    yield "every other column", on(device, np.repeat(x, 2, axis=1))[:, ::2]
    yield "window", on(device, np.pad(x, 3))[3:-3, 3:-3]
    yield (
        "one element on",
        on(device, np.concatenate([[0.0], x.ravel()]).astype(x.dtype))[1:].reshape(x.shape),
    )
    for shift in (1, 2, 4, 8, 12):
        data = np.zeros(x.nbytes + shift, np.uint8)
        data[shift:] = np.frombuffer(x.tobytes(), np.uint8)
        yield f"{shift} bytes on", on(device, data)[shift:].view(x.dtype).reshape(x.shape)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "c16"])
def test_arguments_may_lie_anywhere_compiled(dtype, host_device):
    f = jit(lambda x: (x * 2 + x[0], x.sum(0), x))
    x = (X * 100).astype(dtype)
    expected = f(x)
    for what, view in views(host_device, x):
        kept = host_device.to_host(view).copy()
        found = fetched(host_device, f(view))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=what)
        np.testing.assert_array_equal(host_device.to_host(view), kept, err_msg=what)


@pytest.mark.parametrize(
    ("shift", "dtype", "read"),
    [(1, "f4", "u1"), (2, "f8", "u2"), (4, "f4", "u4"), (4, "c16", "u4"), (8, "c16", "u8")],
)
def test_what_is_not_aligned_is_copied_in_smaller_pieces(shift, dtype, read, host_device):
    """A device reads only at multiples of what it reads."""
    data = np.zeros(X.nbytes * 2 + shift, np.uint8)
    view = on(host_device, data)[shift : shift + X.size * np.dtype(dtype).itemsize].view(dtype)
    seen = []

    def noted(launch, *rest):
        seen.extend(b.dtype for b in launch.kernel.buffers)
        return planned(launch, *rest)

    with mock.patch("ftrace.gpu.runtime.copying.planned", noted):
        found = contiguous(view, host_device)
    assert seen == [read, read]
    assert found.data.ptr % 16 == 0
    np.testing.assert_array_equal(host_device.to_host(found), np.zeros(X.size, dtype))


def test_axes_that_lie_in_memory_as_one_are_copied_as_one() -> None:
    assert _joined([(3, 8), (1, 5), (8, 1)]) == [(24, 1)]
    assert _joined([(1, 7), (3, 9), (8, 1)]) == [(3, 9), (8, 1)]


def test_an_argument_that_repeats_its_memory_compiled(host_device):
    import cupy

    row = on(host_device, X[0])
    wide = cupy.broadcast_to(row, (5, 37))
    same(host_device.to_host(jit(lambda x: x * 2.0)(wide)), np.tile(X[0] * 2.0, (5, 1)))


def test_arguments_that_overlap_compiled(host_device):
    """Windows of one array are read as they were before the call; results are new."""
    x = on(host_device, np.arange(20.0))
    parts = [x[i : i + 10] for i in range(3)]
    found = host_device.to_host(jit(lambda a, b, c: a + 10 * b + 100 * c)(*parts))
    i = np.arange(10.0)
    np.testing.assert_array_equal(found, i + 10 * (i + 1) + 100 * (i + 2))
    np.testing.assert_array_equal(host_device.to_host(x), np.arange(20.0))


def test_results_do_not_share_memory_compiled(host_device):
    f = jit(lambda x: (x, x + 1.0, x[2:], x.T))
    found = f(on(host_device, X))
    spans = sorted((y.data.ptr, y.data.ptr + y.nbytes) for y in found)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


# --- errors that values decide


@pytest.mark.parametrize("bad", [6, -7])
def test_an_index_is_looked_at_after_what_was_started(bad: int, host_device: HostDevice) -> None:
    fine, i = np.array([3, -1, 0]), np.array([0, bad])
    f = jit(lambda x, i: np.cumsum(x[i] @ x.T, axis=0))
    x = on(host_device, X)
    same(host_device.to_host(f(x, on(host_device, fine))), np.cumsum(X[fine] @ X.T, axis=0))
    with pytest.raises(IndexError, match=f"Index {bad} is out of bounds for axis 0 with size 6"):
        f(x, on(host_device, i))
    same(host_device.to_host(f(x, on(host_device, fine))), np.cumsum(X[fine] @ X.T, axis=0))
