"""Laws of Taylor mode: series through a row are what nested forward mode gives along the curve."""

from typing import Any

import numpy as np
import pytest

from ftrace.api.derivatives.series import jet_flat
from ftrace.core.errors import RuleError
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add
from tests.laws.cases import DIFFERENTIABLE, Case, assert_close, over_cases, precision, random_like

ORDER = 3
FACTORIALS = (1.0, 2.0, 6.0)
DOUBLE = [c for c in DIFFERENTIABLE if c.double]


def nested(case: Case, series: list[list[Any]]) -> list[list[Any]]:
    """The coefficients of each result, by forward mode of forward mode along the curve."""

    def curve(t: Any) -> list[Any]:
        moved: list[Any] = []
        for x, terms, a in zip(case.args, series, case.avals, strict=True):
            if terms[0] is ZERO:
                moved.append(x)
                continue
            t_ = convert_element_type(t, new_dtype=a.dtype)
            power, total = t_, x
            for term in terms:
                total = add(total, mul(term, power))
                power = mul(power, t_)
            moved.append(total)
        return case.flat(*moved)

    def slope(f: Any) -> Any:
        def pushed(t: Any) -> list[Any]:
            ys, ts = jvp_flat(f, [t], [np.float64(1.0)])
            return [instantiate(t, y) for t, y in zip(ts, ys, strict=True)]

        return pushed

    found, f = [], curve
    for k in range(ORDER):
        f = slope(f)
        found.append([np.asarray(y) / FACTORIALS[k] for y in f(np.float64(0.0))])
    return [list(column) for column in zip(*found, strict=True)]


@over_cases(DOUBLE)
def test_series_are_those_of_nested_forward_mode(case):
    rng = case.rng()
    series = [
        [0.3 * random_like(rng, a) for _ in range(ORDER)]
        if i in case.differentiable
        else [ZERO] * ORDER
        for i, a in enumerate(case.avals)
    ]
    with np.errstate(all="ignore"):
        try:
            expected = nested(case, series)
        except RuleError:
            with pytest.raises(RuleError):
                jet_flat(case.flat, case.args, series, ORDER)
            return
        found = jet_flat(case.flat, case.args, series, ORDER)
    plain = case.flat(*case.args)
    for (y, terms), want, own in zip(found, expected, plain, strict=True):
        np.testing.assert_array_equal(y, own)
        for k, (term, e) in enumerate(zip(terms, want, strict=True)):
            got = instantiate(term, y)
            if np.asarray(own).dtype.kind in "fc":
                assert_close(got, e, 1e3 * precision((e,)), f"coefficient {k + 1}")
            else:
                assert not np.any(got)
