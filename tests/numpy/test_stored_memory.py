"""What a traced array stores is a copy: writing the plain array afterwards changes nothing."""

import numpy as np
import pytest

import ftrace

STORES = {
    "column": ((4, 1), np.s_[:, 0], (4,)),
    "row": ((1, 4), np.s_[0], (4,)),
    "all": ((4,), np.s_[:], (4,)),
    "backwards": ((4,), np.s_[::-1], (4,)),
    "ellipsis": ((2, 2), np.s_[...], (2, 2)),
    "rank 0": ((3,), np.s_[:], ()),
    "new axis": ((4,), np.s_[None], (4,)),
    "part": ((2, 4), np.s_[1], (4,)),
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("way", ["jvp", "vmap", "grad"])
def test_what_is_stored_is_a_copy(name, way):
    shape, key, of = STORES[name]
    plain = np.ones(of)

    def f(y):
        plain[...] = 1.0
        a = np.zeros(shape)
        a[key] = plain
        view = plain[...]
        view *= 3.0
        return a.sum() * y

    g = ftrace.lift(f)
    expected = f(2.0)
    if way == "jvp":
        assert ftrace.jvp(g, (2.0,), (1.0,)) == (expected, expected / 2)
    elif way == "grad":
        assert ftrace.value_and_grad(g)(2.0) == (expected, expected / 2)
    else:
        np.testing.assert_array_equal(ftrace.vmap(g)(np.full(2, 2.0)), expected)
