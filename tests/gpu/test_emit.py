"""Emitted kernels against the reference interpreter, bit for bit, on the host."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ftrace.core.errors import BackendError
from ftrace.gpu.compile import compiled
from ftrace.lowering import reference
from ftrace.lowering.verify import verify
from tests.gpu.running import Machine, mapped_sample, run_sample, source_of
from tests.lowering.kernels import SAMPLES, kernels

ROUNDED = {"softmax", "transcendental"}
SCRATCH = {"centred_squares", "scratch_matrix"}


def same(got: np.ndarray, want: np.ndarray, ulp: int = 0) -> bool:
    if got.tobytes() == want.tobytes():
        return True
    if got.dtype.kind != "f":
        return False
    equal = (got == want) | ((got != got) & (want != want))
    if ulp:
        with np.errstate(all="ignore"):
            equal |= np.abs(got - want) <= ulp * np.spacing(np.abs(want))
    return bool(equal.all())


def check(sample: Any, machine: Machine | None = None) -> Any:
    """Run a sample forwards and backwards, and compare with the reference; what was mapped."""
    found: Any = None
    expected = sample.operands()
    for back in (False, True):
        operands = sample.operands()
        found, text = run_sample(sample, operands, machine, back)
        if not back:
            verify(found.kernel)
            reference.run(found.kernel, expected, [*sample.scalars, *found.extra])
        for name, (memory, _, _) in expected.items():
            good = same(operands[name][0], memory, 0 if sample.exact else 4)
            assert good, (name, operands[name][0], memory, text)
    return found


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - SCRATCH))
def test_samples_compute_what_the_reference_does(name: str) -> None:
    check(SAMPLES[name]())


@pytest.mark.parametrize("name", sorted(SCRATCH))
def test_scratch_memory_is_refused_by_name(name: str) -> None:
    with pytest.raises(BackendError, match=f"Kernel {name} cannot be compiled for a GPU: its scr"):
        mapped_sample(SAMPLES[name]())


@settings(max_examples=10, deadline=None)
@given(kernels())
def test_random_kernels_compute_what_the_reference_does(sample: Any) -> None:
    check(sample)


@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
def test_every_sample_compiles_for_devices(arch: str) -> None:
    texts = []
    for number, name in enumerate(sorted(SAMPLES.keys() - SCRATCH)):
        texts.append(mapped_sample(SAMPLES[name](), symbol=f"k{number}")[1])
    compiled(source_of("\n".join(texts)), arch)
