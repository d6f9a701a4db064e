"""Every NumPy key, read and written, against NumPy itself.

Reading is linear in the array and writing in array and value together, so their derivatives are
themselves: tangents must be indexed as NumPy indexes them, and the transpose must satisfy
<ct, J t> = <J' ct, t>, exactly up to rounding. Keys are drawn by hypothesis over all kinds.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, jvp, vjp, vmap
from ftrace.errors import ConcretizationTypeError, RuleError, ShapeError

SHAPES = st.sampled_from([(4,), (3, 4), (2, 3, 4), (1, 3), (0, 2), (5, 1, 2), ()])


@st.composite
def integers_below(draw: Any, n: int) -> Any:
    return draw(st.integers(-n, n - 1)) if n else 0


@st.composite
def items(draw: Any, n: int) -> Any:
    """One item of a key for an axis of size n; sometimes out of range."""
    kind = draw(st.sampled_from(["int", "slice", "slice", "array", "list", "far"]))
    if kind == "slice":
        bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
        step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
        return slice(draw(bound), draw(bound), step)
    if kind == "far" and draw(st.integers(0, 9)) == 0:
        return n + draw(st.integers(0, 2))
    if kind in ("int", "far") or not n:
        return draw(integers_below(n))
    shape = draw(st.sampled_from([(2,), (3,), (1,), (2, 3), (2, 1), (0,), ()]))
    if kind == "list":
        return draw(st.lists(integers_below(n), min_size=2, max_size=2))
    flat = draw(
        st.lists(integers_below(n), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
    )
    dtype = draw(st.sampled_from([np.int64, np.int8, np.int32]))
    return np.array(flat, dtype).reshape(shape)


@st.composite
def keys(draw: Any, shape: tuple[int, ...]) -> Any:
    """A key for an array of this shape: basic, advanced and masks, mixed."""
    key: list[Any] = []
    axis = 0
    stop = draw(st.integers(0, len(shape)))
    while axis < stop:
        rank = draw(st.sampled_from([1, 1, 1, 2])) if draw(st.booleans()) else 0
        if rank and axis + rank <= stop:
            mask = draw(st.integers(0, 2**12 - 1))
            size = int(np.prod(shape[axis : axis + rank]))
            bits = [bool(mask >> i & 1) for i in range(size)]
            key.append(np.array(bits, bool).reshape(shape[axis : axis + rank]))
            axis += rank
        else:
            key.append(draw(items(shape[axis])))
            axis += 1
    for extra in (None, ..., True, False):
        if draw(st.integers(0, 7)) == 0:
            key.insert(draw(st.integers(0, len(key))), extra)
    if len(key) == 1 and draw(st.booleans()):
        return key[0]
    return tuple(key)


@st.composite
def arrays_and_keys(draw: Any) -> tuple[Any, Any]:
    shape = draw(SHAPES)
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    return x, draw(keys(shape))


def numpy_read(x: Any, key: Any) -> Any:
    """NumPy's result, or the type of its error."""
    try:
        return np.array(x[key])
    except (IndexError, ValueError) as error:
        return type(error)


@given(arrays_and_keys())
def test_every_key_reads_what_numpy_reads(case: tuple[Any, Any]) -> None:
    x, key = case
    wanted = numpy_read(x, key)
    if isinstance(wanted, type):
        for transform in (jit, lambda f: lambda y: jvp(f, (y,), (y,))):
            with pytest.raises(IndexError):
                transform(lambda y: y[key])(x)
        return
    for found in (
        jit(lambda y: y[key])(x),
        jvp(lambda y: y[key], (x,), (x,))[0],
        jvp(lambda y: y[key], (x,), (x,))[1],
    ):
        np.testing.assert_array_equal(found, wanted)
        assert np.shape(found) == wanted.shape
    pair = np.stack([x, 2 * x], axis=x.ndim)
    mapped = vmap(lambda y: y[key], in_axes=x.ndim)(pair)
    np.testing.assert_array_equal(mapped, np.stack([wanted, 2 * wanted]))
    ct = np.random.default_rng(1).normal(size=wanted.shape)
    (back,) = vjp(lambda y: y[key], x)[1](ct)
    into = np.zeros_like(x)
    np.add.at(into, key, ct)
    np.testing.assert_allclose(back, into, rtol=1e-14)


@st.composite
def writes(draw: Any) -> tuple[Any, Any, Any]:
    x, key = draw(arrays_and_keys())
    shape = np.shape(wanted) if not isinstance(wanted := numpy_read(x, key), type) else (2,)
    how = draw(st.sampled_from(["full", "scalar", "ones", "row", "wrong"]))
    if how == "scalar":
        shape = ()
    elif how == "ones":
        shape = (1, *tuple(1 if draw(st.booleans()) else n for n in shape))
    elif how == "row":
        shape = shape[1:]
    elif how == "wrong" and draw(st.booleans()):
        shape = (*shape, 7)
    v = np.random.default_rng(2).normal(size=shape)
    return x, key, v


def numpy_write(x: Any, key: Any, v: Any) -> Any:
    y = np.array(x)
    try:
        y[key] = v
    except (IndexError, ValueError) as error:
        return type(error)
    except DeprecationWarning:  # what became an error in NumPy 2.4
        return ValueError
    except TypeError:  # NumPy takes leading axes of size 1 everywhere but for one mask
        reject()
    return y


def write(key: Any) -> Any:
    def written(x: Any, v: Any) -> Any:
        y = x.copy()
        y[key] = v
        return y

    return written


@given(writes())
def test_every_key_writes_what_numpy_writes(case: tuple[Any, Any, Any]) -> None:
    x, key, v = case
    f = write(key)
    wanted = numpy_write(x, key, v)
    if isinstance(wanted, type):
        with pytest.raises(wanted):
            jit(f)(x, v)
        return
    tx, tv = x * 3 + 1, v - 0.5
    np.testing.assert_array_equal(jit(f)(x, v), wanted)
    value, tangent = jvp(f, (x, v), (tx, tv))
    np.testing.assert_array_equal(value, wanted)
    np.testing.assert_array_equal(tangent, numpy_write(tx, key, tv))
    ct = np.random.default_rng(3).normal(size=wanted.shape)
    back = vjp(f, x, v)[1](ct)
    left = np.sum(ct * tangent)
    right = np.sum(back[0] * tx) + np.sum(back[1] * tv)
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)
    mapped = vmap(f)(np.stack([x, tx]), np.stack([v, tv]))
    np.testing.assert_array_equal(mapped, np.stack([wanted, numpy_write(tx, key, tv)]))
    mapped = vmap(f, in_axes=(None, 0))(x, np.stack([v, tv]))
    np.testing.assert_array_equal(mapped, np.stack([wanted, numpy_write(x, key, tv)]))


# ---------------------------------------------------------------------------------- traced keys

M = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i],
        lambda x, i: x[i, 1:],
        lambda x, i: x[..., i],
        lambda x, i: x[[0, 1], i],
        lambda x, i: x[i][1:],
        lambda x, i: x[fnp.array([i, 0])],
        lambda x, i: x[[i, 0]],
        lambda x, i: x[i, None, ::2],
        lambda x, i: x[None, i, ..., [1, 2]],
    ],
)
def test_traced_integers_index_as_known_ones(read: Any) -> None:
    for i in (0, 2, -1):
        wanted = read(M, i) if not isinstance(i, list) else None
        np.testing.assert_array_equal(jit(read)(M, i), wanted)
        np.testing.assert_array_equal(jit(read)(M, np.int32(i)), wanted)
    index = np.array([0, 2, -1])
    stacked = np.stack([read(M, i) for i in index])
    np.testing.assert_array_equal(vmap(read, in_axes=(None, 0))(M, index), stacked)
    np.testing.assert_array_equal(jit(vmap(read, in_axes=(None, 0)))(M, index), stacked)

    def loss(x: Any) -> Any:
        return (vmap(read, in_axes=(None, 0))(x, index) ** 2).sum()

    (direction,) = np.random.default_rng(0).normal(size=(1, 3, 4))
    step = 1e-6
    slope = (loss(M + step * direction) - loss(M - step * direction)) / (2 * step)
    np.testing.assert_allclose((grad(loss)(M) * direction).sum(), slope, rtol=1e-7)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, i, v: x.__setitem__(i, v),
        lambda x, i, v: x.__setitem__((i, 1), v),
        lambda x, i, v: x.__setitem__((slice(None), i), v),
        lambda x, i, v: x.__setitem__((slice(1, None), i), v),
        lambda x, i, v: x.__setitem__((i, [0, 2]), v),
        lambda x, i, v: x.__setitem__((i, slice(None, None, -2)), v),
    ],
)
def test_traced_integers_write_as_known_ones(write: Any) -> None:
    def written(x: Any, i: Any, v: Any) -> Any:
        y = x.copy()
        write(y, i, v)
        return y

    for i in (0, 2, -1):
        np.testing.assert_array_equal(jit(written)(M, i, 7.0), written(M, i, 7.0))
    index, values = np.array([0, 2, -1]), np.array([7.0, 8.0, 9.0])
    found = vmap(written, in_axes=(None, 0, 0))(M, index, values)
    wanted = [written(M, i, v) for i, v in zip(index, values, strict=True)]
    np.testing.assert_array_equal(found, np.stack(wanted))


def test_a_traced_index_out_of_range_raises_when_it_is_evaluated() -> None:
    compiled = jit(lambda x, i: x[i])
    np.testing.assert_array_equal(compiled(M, 2), M[2])
    with pytest.raises(IndexError):
        compiled(M, 3)
    with pytest.raises(IndexError):
        vmap(lambda i: fnp.array(M)[i])(np.array([0, -4]))


def test_a_known_index_out_of_range_names_index_axis_and_size() -> None:
    for key, words in (
        ((1, 7), "index 7 is out of bounds for axis 1 with size 4"),
        (-4, "index -4 is out of bounds for axis 0 with size 3"),
        ((slice(None), [0, 9]), "index 9 is out of bounds for axis 1 with size 4"),
        (np.array([[0], [-5]]), "index -5 is out of bounds for axis 0 with size 3"),
        ((0, 0, 0), "array is 2-dimensional, but 3 were indexed"),
        ((..., 0, ...), "single ellipsis"),
        (np.array([True, False]), "size of axis is 3 but size of corresponding boolean axis is 2"),
        (([0, 1], [0, 1, 2]), "could not be broadcast together"),
        ("a", "only integers"),
        (1.0, "only integers|must be of integer"),
        (np.array([0.5]), "must be of integer"),
    ):
        with pytest.raises(IndexError, match=words):
            jit(lambda x, key=key: x[key])(M)
        with pytest.raises(IndexError):
            M[key]


def test_an_unknown_mask_selects_by_number_but_not_by_shape() -> None:
    def clipped(x: Any) -> Any:
        y = x.copy()
        y[y > 5] = 5.0
        y[x.sum(axis=1) < 10] = np.arange(4.0)
        return y

    np.testing.assert_array_equal(jit(clipped)(M), clipped(M))
    np.testing.assert_array_equal(vmap(clipped)(np.stack([M, -M])), [clipped(M), clipped(-M)])
    np.testing.assert_array_equal(grad(lambda x: clipped(x).sum())(M), (M <= 5) & (M >= 4))
    with pytest.raises(ConcretizationTypeError, match=r"numpy\.where"):
        jit(lambda x: x[x > 5])(M)
    np.testing.assert_array_equal(grad(lambda x: (x[x > 5] ** 2).sum())(M), 2 * M * (M > 5))


def test_a_masked_write_hides_infinite_derivatives() -> None:
    def f(x: Any) -> Any:
        y = np.sqrt(x)
        y[x <= 0] = 0.0
        return y.sum()

    np.testing.assert_allclose(grad(f)(np.array([0.0, 4.0])), [0.0, 0.25])


def test_reads_of_elements_are_slices_and_never_gathers() -> None:
    def names(f: Any) -> list[str]:
        return [e.primitive.name for e in ftrace.make_jaxpr(f)(M).eqns]

    assert names(lambda x: x[1, 2]) == ["slice", "squeeze"]
    assert names(lambda x: x[1:, ::2]) == ["slice"]
    assert names(lambda x: x[::-1]) == ["rev"]
    assert names(lambda x: x[None]) == ["expand_dims"]
    assert names(lambda x: x[...] * 1.0) == ["mul"]
    assert names(lambda x: x[[0, 1]]) == ["gather"]


# ---------------------------------------------------------------------------------- at


@pytest.mark.parametrize("key", [1, (1, 2), slice(1, 3), [0, 2, 0], ([0, 0], [1, 1]), (..., [3])])
def test_at_updates_a_copy_as_numpy_updates_in_place(key: Any) -> None:
    v = np.random.default_rng(4).uniform(0.5, 2.0, size=np.shape(M[key]))
    for method, ufunc in (
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.divide),
        ("min", np.minimum),
        ("max", np.maximum),
    ):
        wanted = M.copy()
        ufunc.at(wanted, key, v)
        for found in (
            getattr(fnp.at(M)[key], method)(v),
            getattr(fnp.at(M, key), method)(v),
            jit(lambda x, u, m=method: getattr(x.at[key], m)(u))(M, v),
            jvp(lambda x, m=method: getattr(x.at[key], m)(v), (M,), (M,))[0],
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
    wanted = M.copy()
    wanted[key] = v
    np.testing.assert_array_equal(fnp.at(M)[key].set(v), wanted)
    np.testing.assert_array_equal(jit(lambda x: x.at[key].set(v))(M), wanted)
    np.testing.assert_array_equal(fnp.at(M)[key].get(), M[key])
    np.testing.assert_array_equal(M, np.arange(12.0).reshape(3, 4))


def test_at_power_raises_to_the_product() -> None:
    np.testing.assert_allclose(fnp.at(M)[1].power(2.0)[1], M[1] ** 2)
    np.testing.assert_allclose(fnp.at(M)[[1, 1]].power(2.0)[1], M[1] ** 4)


def test_at_never_writes_its_array() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        z = y.at[:].set(x)
        z[0] = 0.0
        w = y.at[0].get()
        w *= 2.0
        return (y * np.arange(4.0)).sum()

    np.testing.assert_array_equal(jit(f)(M), (M * np.arange(4.0)).sum())
    np.testing.assert_array_equal(grad(f)(M), np.tile(np.arange(4.0), (3, 1)))


FAR = np.array([0, 3, -1, -4, 7])
IN = np.array([0, 2, -1])


def test_at_modes_say_what_out_of_range_means() -> None:
    x = np.array([10.0, 20.0, 30.0])
    at = fnp.at(x)[FAR]
    np.testing.assert_array_equal(at.get(), [10, 30, 30, 10, 30])
    np.testing.assert_array_equal(at.get(mode="clip"), [10, 30, 30, 10, 30])
    np.testing.assert_array_equal(at.get(mode="wrap"), [10, 10, 30, 30, 20])
    np.testing.assert_array_equal(at.get(mode="fill"), [10, np.nan, 30, np.nan, np.nan])
    np.testing.assert_array_equal(at.get(mode="fill", fill_value=-1), [10, -1, 30, -1, -1])
    np.testing.assert_array_equal(at.add(1.0), [11, 20, 31])
    np.testing.assert_array_equal(at.add(1.0, mode="drop"), [11, 20, 31])
    np.testing.assert_array_equal(at.add(1.0, mode="clip"), [12, 20, 33])
    np.testing.assert_array_equal(at.add(1.0, mode="wrap"), [12, 21, 32])
    np.testing.assert_array_equal(fnp.at(x)[5].set(1.0), x)
    np.testing.assert_array_equal(fnp.at(x)[5].get(), 30.0)
    np.testing.assert_array_equal(fnp.at(x)[-5].get(), 10.0)
    for mode in ("raise", "promise_in_bounds"):
        with pytest.raises(IndexError):
            at.get(mode=mode)
        with pytest.raises(IndexError):
            at.set(1.0, mode=mode)
        with pytest.raises(IndexError):
            fnp.at(x)[5].get(mode=mode)


def test_at_modes_hold_for_traced_indices_and_have_derivatives() -> None:
    x = np.array([10.0, 20.0, 30.0])
    w = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    compiled = jit(lambda x, i: x.at[i].get(mode="fill", fill_value=0.0))
    np.testing.assert_array_equal(compiled(x, FAR), [10, 0, 30, 0, 0])
    slope = grad(lambda x: (w * x.at[FAR].get(mode="fill")[[0, 2]].sum()).sum())(x)
    np.testing.assert_array_equal(slope, [31.0, 0.0, 31.0])
    slope = grad(lambda x: (w * x.at[FAR].get()).sum())(x)
    np.testing.assert_array_equal(slope, [9.0, 0.0, 22.0])
    slope = grad(lambda v: (x * fnp.at(x)[FAR].set(v)).sum())(w)
    np.testing.assert_array_equal(slope, [10.0, 0.0, 30.0, 0.0, 0.0])
    slope = grad(lambda x: x.at[FAR].set(w, mode="drop").sum())(x)
    np.testing.assert_array_equal(slope, [0.0, 1.0, 0.0])
    mapped = vmap(lambda i: fnp.at(x)[i].add(1.0))(FAR)
    np.testing.assert_array_equal(
        mapped, x + np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1]] + [[0] * 3] * 2)
    )


def test_at_fills_integers_as_jax_does() -> None:
    signed, unsigned = np.array([1, 2]), np.array([1, 2], np.uint8)
    assert fnp.at(signed)[[5]].get(mode="fill")[0] == np.iinfo(np.int64).min
    assert fnp.at(unsigned)[[5]].get(mode="fill")[0] == 255


def test_at_takes_hints_and_refuses_what_it_does_not_know() -> None:
    hints = {"indices_are_sorted": True, "unique_indices": True}
    np.testing.assert_array_equal(fnp.at(M)[[0, 1]].set(0.0, **hints)[:2], 0.0)
    with pytest.raises(RuleError, match="mode='nearest'"):
        fnp.at(M)[0].get(mode="nearest")
    with pytest.raises(RuleError, match="sorted"):
        fnp.at(M)[0].set(1.0, sorted=True)
    with pytest.raises(ShapeError, match="could not broadcast"):
        fnp.at(M)[0].set(np.ones(3))


@pytest.mark.parametrize("outer", [lambda f: f, ftrace.jit], ids=["eager", "jit"])
def test_an_index_computed_from_the_array_itself_is_read_and_written(outer):
    def f(x):
        y = x * 2
        y[np.argmax(x)] = x[0]
        return (y * y).sum() + x[np.argmax(x)] * x[0]

    found = outer(ftrace.grad(f))(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(found, [10.0 + 3.0, 1.0, 16.0])


@pytest.mark.parametrize("index", [2**63, 2**63 + 7, 2**64 - 1])
def test_unsigned_indices_that_no_signed_integer_holds_are_out_of_range(index):
    """They do not become negative ones, which count from the end."""
    x, i = np.arange(5.0), np.uint64(index)
    read = {
        "drop": lambda x, i: x.at[i].set(9.0),
        "fill": lambda x, i: x.at[i].get(mode="fill", fill_value=7.0),
        "clip": lambda x, i: x.at[i].get(mode="clip"),
        "wrap": lambda x, i: x.at[i].get(mode="wrap"),
    }
    expected = {"drop": x, "fill": 7.0, "clip": x[-1], "wrap": x[index % 5]}
    for mode, f in read.items():
        for indices in (i, np.array([i, i])):
            found = jit(f)(x, indices)
            known = jit(lambda x, f=f, i=indices: f(x, i))(x)
            np.testing.assert_array_equal(found, np.broadcast_to(expected[mode], found.shape))
            np.testing.assert_array_equal(known, found)
    np.testing.assert_array_equal(fnp.at(x)[i].set(9.0), x)
    for mode in ("raise", "promise_in_bounds"):
        with pytest.raises(IndexError):
            fnp.at(x)[i].get(mode=mode)
