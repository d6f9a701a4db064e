"""The cases of the measurements on a GPU, ours and those written by hand, on an emulated device."""

import pytest

from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.child import Session, answer
from benchmarks.gpu.parent import jobs_of
from tests.gpu.benchmarked import EmulatedCuda, EmulatedFtrace

TINY = all_cases("tiny")
OURS = [job for job in jobs_of(TINY, "ftrace", "") if "op by op" not in job[1]]  # that is CuPy's
BY_HAND = [job for job in jobs_of(TINY, "cuda", "") if "copy of" not in job[0]]  # by the driver


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "column"), OURS)
def test_ftrace_is_right(name, column, host_device):
    before = host_device.launches
    found = answer(Session(EmulatedFtrace(host_device), TINY, "check"), name, column)
    assert found["status"] == "ok", found
    assert host_device.launches > before


@pytest.mark.parametrize(("name", "column"), BY_HAND)
def test_kernels_written_by_hand_are_right(name, column, host_device):
    found = answer(Session(EmulatedCuda(host_device), TINY, "check"), name, column)
    assert found["status"] == "ok", found
