"""What makes no sense is refused by name, in eager calls as under jit."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import jit, jvp, lax, random, tree_util, vmap
from ftrace.errors import DomainError, DtypeError, FtraceError, RangeError, ShapeError

X, M = np.array([1.0, 2.0, 3.0]), np.ones((3, 3))
KEY = random.PRNGKey(0)

REFUSED = {
    "a conversion to objects": (lambda: jit(lambda x: x.astype(object))(X), DtypeError),
    "a conversion to text": (lambda: jit(lambda x: x.astype("S3"))(X), DtypeError),
    "no sections": (lambda: jit(lambda x: np.split(x, 0))(X), ShapeError),
    "no positions": (lambda: ftrace.custom_vjp(np.sin, nondiff_argnums=None), DtypeError),
    "half a position": (lambda: ftrace.custom_jvp(np.sin, nondiff_argnums=3.5), DtypeError),
    "a position from the end": (lambda: ftrace.custom_vjp(np.sin, nondiff_argnums=-5), DtypeError),
    "a truth as position": (lambda: ftrace.custom_jvp(np.sin, nondiff_argnums=True), DtypeError),
    "a text as out_axes": (lambda: vmap(np.sin, out_axes="abc")(X), DtypeError),
    "a list as axis_size": (lambda: vmap(np.sin, axis_size=[3]), DtypeError),
    "a list as axis_name": (lambda: vmap(np.sin, axis_name=[3]), DtypeError),
    "a text as inline": (lambda: jit(np.sin, inline="yes"), DtypeError),
    "a number as lift": (lambda: jit(np.sin, lift=2), DtypeError),
    "no starts": (lambda: lax.dynamic_slice(X, None, (2,)), DtypeError),
    "no sizes": (lambda: lax.dynamic_slice(X, (0,), None), DtypeError),
    "a text as a start": (lambda: lax.dynamic_slice(X, ("a",), (2,)), DtypeError),
    "half a size": (lambda: lax.dynamic_slice(X, (0,), (2.5,)), DtypeError),
    "half a turn": (lambda: lax.scan(lambda c, x: (c, x), 0.0, None, length=2.5), DtypeError),
    "no branches": (lambda: lax.switch(0, None), DtypeError),
    "padding in pairs": (lambda: lax.pad(X, 0.0, [(1, 1)]), ShapeError),
    "no padding": (lambda: lax.pad(X, 0.0, None), DtypeError),
    "no dimension numbers": (lambda: lax.dot_general(M, M, None), ShapeError),
    "a number as structure": (lambda: tree_util.tree_unflatten(1, [2]), DtypeError),
    "numbers as structures": (lambda: tree_util.tree_transpose(1, 2, 3), DtypeError),
    "a number as function": (lambda: tree_util.tree_map(3, X), DtypeError),
    "a number as rule": (lambda: ftrace.custom_jvp(np.sin).defjvp(3), DtypeError),
    "numbers as rules": (lambda: ftrace.custom_vjp(np.sin).defvjp(np.sin, 4), DtypeError),
    "a negative size": (lambda: jit(lambda x: x + fnp.zeros((2, -1)))(X), ShapeError),
    "a negative count": (lambda: lax.iota(np.float64, -3), ShapeError),
    "a choice of another shape": (lambda: lax.select(np.array([True]), X, X), ShapeError),
    "bounds of other shapes": (lambda: lax.clamp(np.zeros(2), X, np.ones(3)), ShapeError),
    "a text as shape": (lambda: ftrace.ShapeDtypeStruct("a", float), ShapeError),
    "a negative shape": (lambda: ftrace.ShapeDtypeStruct((2, -1), float), ShapeError),
    "integers as tangents": (lambda: jvp(np.sin, (X,), (np.array([1, 2, 3]),)), DtypeError),
    "a dtype that is none": (lambda: lax.convert_element_type(X, "foo"), DtypeError),
    "a negative probability": (
        lambda: random.choice(KEY, 3, p=np.array([-1.0, 1.0, 1.0])),
        DomainError,
    ),
    "no probability": (lambda: random.choice(KEY, 2, p=np.array([np.nan, 1.0])), DomainError),
    "a number of too many bits": (lambda: lax.bitwise_not(10**40), RangeError),
    "a negative rate": (lambda: random.poisson(KEY, -1.0), DomainError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nonsense_is_refused_in_three_parts(name):
    call, expected = REFUSED[name]
    with pytest.raises(expected) as caught:
        call()
    error = caught.value
    assert isinstance(error, FtraceError)
    assert all((error.what, error.where, error.fix))


def test_an_element_can_be_asked_of_what_is_known():
    seen = []
    ftrace.jvp(lambda x: seen.append((x * 2).item(1)) or x, (np.arange(3),), (None,))
    assert seen == [2]
