"""Numbers of the host as arguments of compiled calls: words, and stored only where needed."""

import numpy as np
import pytest

import ftrace
from ftrace import jit, lax
from ftrace.gpu.runtime import steps

X = np.linspace(-2.0, 3.0, 37)


def refusing(device, monkeypatch):
    def refuse(array):
        raise AssertionError("a number went to the device by a copy of its own")

    monkeypatch.setattr(device, "from_host", refuse)


NUMBERS = [
    *(0.0, -0.0, 2.5, -1e300, np.inf, np.nan, 5e-324, 3, -(2**40), 2**62, True, False),
    *(1.5 - 2j, complex(-0.0, np.inf)),
    *(np.float32(0.1), np.float16(-2.5), np.float64(1e-300), np.int8(-128), np.uint8(255)),
    *(np.int64(-(2**63)), np.uint64(2**64 - 1), np.int32(7), np.bool_(True), np.complex64(2 - 3j)),
    *(np.complex128(1 + 2j), np.array(4.5), np.array(-3, np.int16), np.array(1j, np.complex64)),
]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_number_is_read_to_the_last_bit(number, host_device, monkeypatch):
    """By kernels, and by copies: the second result is the number itself."""
    f = jit(lambda x, a: (np.where(x > 0, a, a), a))
    there = host_device.from_host(X)
    with np.errstate(all="ignore"):
        expected = f(X, number)
    refusing(host_device, monkeypatch)
    for found, wanted in zip(f(there, number), expected, strict=True):
        back = host_device.to_host(found)
        assert back.dtype == np.asarray(wanted).dtype
        assert back.tobytes() == np.asarray(wanted).tobytes()


def test_a_number_changes_from_call_to_call(host_device, monkeypatch):
    f = jit(lambda x, a, b: (x * a + b, (x * a).sum() + b))
    x, there = X, host_device.from_host(X)
    refusing(host_device, monkeypatch)
    for a, b in ((1.0, 2.0), (1.0, 3.0), (-2.5, 3.0), (0.0, -1.0)):
        for found, wanted in zip(f(there, a, b), f(x, a, b), strict=True):
            np.testing.assert_allclose(host_device.to_host(found), wanted, rtol=1e-14)


def test_numbers_and_arrays_of_rank_0_take_turns(host_device):
    f = jit(lambda x, a, b: x * a + b)
    x = host_device.from_host(X)
    two, three = (host_device.from_host(np.array(n)) for n in (2.0, 3.0))
    for a, b in ((2.0, 3.0), (two, three), (two, 3.0), (2.0, three), (2.0, 3.0)):
        np.testing.assert_array_equal(host_device.to_host(f(x, a, b)), X * 2.0 + 3.0)


READ = {
    "a row of Python": lambda x, a: np.sort(x * a) * a,
    "a row of Python reads it": lambda x, a: np.sort(np.stack([a, a * 2, x[0]])),
    "a branch": lambda x, a: lax.cond(a > 1, lambda: np.sort(x), lambda: x.sum() * x),
    "a switch": lambda x, a: lax.switch(
        ftrace.numpy.asarray(a, "i8"), [lambda: np.sort(x), lambda: np.sort(-x), lambda: x * 2]
    ),
    "a scan of rows": lambda x, a: lax.scan(
        lambda c, y: (np.sort(c * a + y), c[0]), x[:4], x[:16].reshape(4, 4)
    ),
    "a loop": lambda x, a: lax.while_loop(lambda c: c.sum() < 50 * a, lambda c: np.sort(c + a), x),
    "a count": lambda x, a: lax.fori_loop(
        0, ftrace.numpy.asarray(a, "i8"), lambda i, c: np.sort(c * 1.5), x
    ),
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", [float, int])
def test_steps_that_read_memory_find_numbers(name, kind, host_device):
    f = jit(READ[name])
    x = host_device.from_host(X)
    for a in (2, 1, 2):
        found, wanted = f(x, kind(a)), f(X, kind(a))
        for each, other in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(host_device.to_host(each), other, rtol=1e-13)


def nested(x, a):
    def outer(c, row):
        def inner(d, y):
            return d * a + y.sum() * d.sum(), d.sum()

        return lax.scan(inner, c, row, reverse=True)

    return lax.scan(outer, x[0, 0] * a, x)


@pytest.mark.parametrize("longest", [4096, 5, 1])
def test_scans_are_written_out_or_run(longest, host_device, monkeypatch):
    monkeypatch.setattr(steps, "LONGEST", longest)
    made = []
    sequence = host_device.sequence
    monkeypatch.setattr(host_device, "sequence", lambda s: made.append(len(s)) or sequence(s))
    x = np.random.default_rng(0).random((3, 4, 5))
    f = jit(lambda x, a: nested(x, a))
    wanted = f(x, 0.5)
    found = f(host_device.from_host(x), 0.5)
    for each, other in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(host_device.to_host(each), other, rtol=1e-13)
    assert made
