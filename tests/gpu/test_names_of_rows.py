"""Rows of users under all of ftrace's names on a device: as on the host, evaluated and compiled."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.core.config import update
from ftrace.primitives import table
from tests.gpu.hosted import here, there
from tests.programs.users_rows import KINDS, TRANSFORMED, Chain, X

NAMES = ("jit", "checkpoint", "cond", "while", "scan", "revolve", "custom_jvp", "custom_vjp")
CHAINS = {
    kind: Chain([made(name) for name in (*table.by_name, *NAMES)]) for kind, made in KINDS.items()
}
WAYS = ("nothing", "jvp", "vjp", "grad", "vmap", "checkpoint", "scan")


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WAYS)
def test_a_device_does_not_go_by_names(
    name: str, kind: str, compiled: bool, host_device: Any
) -> None:
    made, expected = TRANSFORMED[name]
    f = made(CHAINS[kind])
    x = there(X)
    with update(compile=compiled):
        found = here((ftrace.jit(f) if compiled else f)(x))
    np.testing.assert_array_equal(found, expected(X))
