"""A rule that is set again is the one that compiled functions differentiate by."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace


def _jvp(f: Any, slope: float) -> None:
    f.defjvp(lambda primals, tangents: (primals[0] * 2.0, tangents[0] * slope))


def _vjp(f: Any, slope: float) -> None:
    f.defvjp(lambda x: (x * 2.0, None), lambda kept, ct: (ct * slope,))


_WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": ftrace.grad,
    "jit of grad": lambda f: ftrace.jit(ftrace.grad(f)),
    "grad inside jit": lambda f: ftrace.jit(lambda x: ftrace.grad(f)(x) * 1.0),
    "grad of jit": lambda f: ftrace.grad(ftrace.jit(f)),
    "vmap": lambda f: lambda x: ftrace.jit(ftrace.vmap(ftrace.grad(f)))(x[None])[0],
    "cond": lambda f: ftrace.jit(ftrace.grad(lambda x: ftrace.lax.cond(x > 0, f, f, x))),
    "checkpoint": lambda f: ftrace.jit(ftrace.grad(ftrace.checkpoint(lambda x: f(x)))),
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize(("kind", "set_rule"), [("custom_jvp", _jvp), ("custom_vjp", _vjp)])
def test_a_rule_that_is_set_again_is_seen(kind: str, set_rule: Any, way: str) -> None:
    f = getattr(ftrace, kind)(lambda x: x * 2.0)
    set_rule(f, 5.0)
    slope = _WAYS[way](f)
    assert slope(np.float64(1.0)) == 5.0
    set_rule(f, 6.0)
    assert slope(np.float64(1.0)) == 6.0


def test_a_batching_rule_that_is_set_again_is_seen() -> None:
    f = ftrace.custom_batching.custom_vmap(lambda x: x * 2.0)
    f.def_vmap(lambda size, mapped, x: (x * 3.0, mapped[0]))
    batched = ftrace.jit(ftrace.vmap(f))
    assert batched(np.ones(2))[0] == 3.0
    f.def_vmap(lambda size, mapped, x: (x * 4.0, mapped[0]))
    assert batched(np.ones(2))[0] == 4.0
