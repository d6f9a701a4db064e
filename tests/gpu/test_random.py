"""Random numbers on a device: the bits of the host, where the key is, the key decides.

The device is emulated: the same kernels, compiled for this machine's processor (emulation/).
"""

import cupy
import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, random, vmap
from tests.gpu.emulation.device import HostDevice

KEY = random.PRNGKey(42)
LOGITS = np.log(np.array([0.1, 0.2, 0.7]))
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])

# between the words of Threefry and these samples there are exact operations only
EXACT = {
    "split": lambda k: random.split(k, (2, 3)),
    "fold_in": lambda k: random.fold_in(k, 7),
    "bits 8": lambda k: random.bits(k, (3, 5), np.uint8),
    "bits 64": lambda k: random.bits(k, (3, 5)),
    "uniform 16": lambda k: random.uniform(k, (3, 5), np.float16, -2, 3),
    "uniform 32": lambda k: random.uniform(k, (3, 5), np.float32, -2, 3),
    "uniform 64": lambda k: random.uniform(k, (3, 5), np.float64, -2, 3),
    "randint 8": lambda k: random.randint(k, (40,), -7, 11, np.int8),
    "randint 32": lambda k: random.randint(k, (40,), 0, 2**31, np.int32),
    "randint 64": lambda k: random.randint(k, (40,), -(2**60), 2**62),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (40,)),
    "rademacher": lambda k: random.rademacher(k, (40,), np.float32),
    "normal 16": lambda k: random.normal(k, (100,), np.float16),
    "normal 32": lambda k: random.normal(k, (1000,), np.float32),
    "normal 64": lambda k: random.normal(k, (1000,)),
    "normal complex": lambda k: random.normal(k, (10,), np.complex64),
    "exponential": lambda k: random.exponential(k, (1000,)),
    "gumbel": lambda k: random.gumbel(k, (1000,), np.float32),
    "laplace": lambda k: random.laplace(k, (1000,)),
    "logistic": lambda k: random.logistic(k, (1000,)),
    "rayleigh": lambda k: random.rayleigh(k, 2.0, (100,)),
    "triangular": lambda k: random.triangular(k, 0.0, 1.0, 3.0, (100,)),
    "permutation": lambda k: random.permutation(k, 50),
    "choice": lambda k: random.choice(k, 50, (7,), replace=False),
}
CLOSE = {
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 2.0, (100,)),
    "cauchy": lambda k: random.cauchy(k, (100,)),
    "gamma": lambda k: random.gamma(k, 2.5, (100,)),
    "gamma below 1": lambda k: random.gamma(k, 0.3, (100,)),
    "beta": lambda k: random.beta(k, 2.0, 3.0, (100,)),
    "poisson": lambda k: random.poisson(k, 5.0, (100,)),
    "poisson, large": lambda k: random.poisson(k, 50.0, (100,)),
    "binomial": lambda k: random.binomial(k, 100, 0.4, (100,)),
    "ball": lambda k: random.ball(k, 3, 2.0, (10,)),
    "orthogonal": lambda k: random.orthogonal(k, 3),
    "derivative": grad(lambda k, a: random.gamma(k, a, (5,)).sum(), argnums=1),
}


def on_device(device: HostDevice, f, *args):
    """The result for a key on the device, which is there, too."""
    found = f(device.from_host(KEY), *args)
    assert isinstance(found, cupy.ndarray)
    return device.to_host(found)


@pytest.mark.parametrize("name", EXACT)
def test_samples_have_the_same_bits_on_both_devices(name, host_device):
    expected = EXACT[name](KEY)
    found = on_device(host_device, EXACT[name])
    assert expected.dtype == found.dtype
    np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize("name", CLOSE)
def test_samples_are_nearly_the_same_on_both_devices(name, host_device):
    args = (2.5,) if name == "derivative" else ()
    expected = CLOSE[name](KEY, *args)
    np.testing.assert_allclose(on_device(host_device, CLOSE[name], *args), expected, rtol=1e-11)


@pytest.mark.parametrize("transform", [jit, lambda f: jit(vmap(f, in_axes=0))])
def test_programs_that_sample_run_on_the_device_of_the_key(transform, host_device):
    f = transform(lambda k: np.tanh(random.normal(k, (3, 2))) + random.uniform(k, (2,)))
    keys = KEY if transform is jit else random.split(KEY, 4)
    found = host_device.to_host(f(host_device.from_host(keys)))
    np.testing.assert_allclose(found, f(keys), rtol=1e-14)


def test_parameters_on_the_device_go_with_a_key_there(host_device):
    scale = np.array([1.0, 2.0])
    found = random.rayleigh(host_device.from_host(KEY), host_device.from_host(scale), (3, 2))
    expected = random.rayleigh(KEY, scale, (3, 2))
    np.testing.assert_array_equal(host_device.to_host(found), expected)


def test_a_key_that_ftrace_made_goes_with_parameters_on_the_device(host_device):
    host_device.from_host(KEY)
    ftrace.core.device.watch()
    scale = np.array([1.0, 2.0])
    found = random.rayleigh(random.PRNGKey(42), host_device.from_host(scale), (3, 2))
    np.testing.assert_array_equal(host_device.to_host(found), random.rayleigh(KEY, scale, (3, 2)))
