"""Cells at the borders of transformations: what is captured, what is refused, what is shared.

A linear map keeps the values it was made with, a result is never the operand itself, a write that
would escape raises an error that names the variable, and so does a write whose effect depends on
a memory layout that is not known. Whole programs that write are in `test_mutation.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, jvp, lax, vjp, vmap
from ftrace.errors import (
    DtypeError,
    MutationError,
    RuleError,
    ShapeError,
    TracerArrayConversionError,
    UnexpectedTracerError,
)

X = np.array([0.9, 1.3, -0.7, 0.4])
V = np.array([0.3, -1.1, 0.8, 0.6])
BATCH = np.stack([X, X[::-1] * 1.1, X + 0.2])
for array in (X, V, BATCH):
    array.flags.writeable = False  # a write that is not refused shows at once


def differences(f: Callable[[Any], Any], x: Any) -> Any:
    step = 1e-5
    unit = np.eye(x.size) * step
    return np.array([(f(x + d) - f(x - d)) / (2 * step) for d in unit])


def close(found: Any, wanted: Any, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------- captures


def test_a_linear_map_over_a_captured_cell_keeps_the_value_it_was_made_with() -> None:
    def f(x: Any) -> Any:
        c = x * 1.0
        _, pull = vjp(lambda z: (z * c).sum(), c * 1.0)
        c[0] = 100.0
        (g,) = pull(1.0)
        return (g * g).sum()

    close(grad(f)(X), 2 * X, 1e-12)
    close(grad(f)(X)[0], 1.8, 1e-12)
    close(jit(grad(f))(X), 2 * X, 1e-12)
    close(grad(jit(f))(X), 2 * X, 1e-12)
    close(vmap(grad(f))(BATCH), 2 * BATCH, 1e-12)


def test_a_linear_map_at_a_cell_keeps_the_value_of_its_argument() -> None:
    def f(x: Any) -> Any:
        c = x * 1.0
        y, pull = vjp(lambda z: z * z, c)
        c[0] = 100.0
        y[1] = 50.0
        (g,) = pull(np.ones(4))
        return (g * g).sum()

    close(grad(f)(X), 8 * X, 1e-12)
    close(jit(grad(f))(X), 8 * X, 1e-12)


def test_writing_a_result_does_not_change_the_linear_map_that_uses_it() -> None:
    def f(x: Any) -> Any:
        c = x * 1.0
        y, pull = vjp(np.exp, c)
        y[:] = 0.0
        (g,) = pull(np.ones(4))
        return (g * np.array([1.0, 2.0, 3.0, 4.0])).sum()

    close(grad(f)(X), np.exp(X) * np.arange(1.0, 5.0), 1e-12)


def test_a_cell_captured_by_jit_may_change_between_calls() -> None:
    def f(x: Any) -> Any:
        c = np.copy(x)
        g = jit(lambda y: (c * y).sum())
        first = g(2.0)
        c[0] = 10 * c[1]
        return first + g(3.0)

    close(grad(f)(X), [2, 35, 5, 5], 1e-12)
    close(jit(grad(f))(X), [2, 35, 5, 5], 1e-12)
    close(vmap(grad(f))(BATCH), np.tile([2.0, 35, 5, 5], (3, 1)), 1e-12)


def the_argument_as_aux(c: Any) -> Any:
    (_, aux), _ = ftrace.value_and_grad(lambda z: ((z * z).sum(), z), has_aux=True)(c)
    return aux


@pytest.mark.parametrize(
    "identity",
    [
        jit(lambda z: z),
        vmap(lambda z: z),
        ftrace.checkpoint(lambda z: z),
        lambda c: jvp(lambda z: z, (c,), (c,))[0],
        lambda c: jvp(lambda z: z, (c,), (c,))[1],
        lambda c: vjp(lambda z: z, c)[0],
        lambda c: lax.cond(c[0] > 0, lambda z: z, lambda z: -z, c),
        the_argument_as_aux,
        np.positive,
        np.asarray(1.0).__mul__,
        lambda c: c.astype(float),
        lambda c: c.copy(),
        lambda c: fnp.at(c)[:].get(),
        lambda c: c[...].copy(),
        lambda c: np.where(True, c, 0.0),
        lambda c: np.clip(c, None, None),
        lambda c: np.concatenate([c]),
        lambda c: np.round(c, 15),
        lambda c: np.roll(c, 0),
        lambda c: c.flatten(),
    ],
)
def test_a_result_that_is_the_operand_is_a_new_array(identity: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        c = x * 1.0
        d = identity(c)
        d[0] = 0.0
        return (c * c).sum()

    close(grad(f)(X), 2 * X, 1e-12)
    close(jit(f)(X), (X * X).sum(), 1e-12)


def test_one_array_returned_twice_gives_two_arrays() -> None:
    def f(x: Any) -> Any:
        c = x * 1.0
        a, b = jit(lambda z: (z, z))(c)
        a[0] = 7.0
        d, e = vmap(lambda z: (z, z))(c)
        d[0] = 7.0
        return (b * e * c).sum()

    close(grad(f)(X), 3 * X**2, 1e-12)


def test_linear_maps_return_new_arrays() -> None:
    def f(x: Any) -> Any:
        c = x * 1.0
        _, pull = vjp(lambda a, b: a + b, c, c)
        left, right = pull(c)
        left[0] = 0.0
        right[1] = 0.0
        _, push = ftrace.linearize(lambda a: a, c)
        pushed = push(c)
        pushed[2] = 0.0
        return (c * V).sum() + (left * right * pushed).sum()

    wanted = V + 3 * X**2 * np.array([0.0, 0.0, 0.0, 1.0])
    close(grad(f)(X), wanted, 1e-12)
    close(jit(grad(f))(X), wanted, 1e-12)


def test_a_second_name_for_the_whole_array_leaves_its_views_alone() -> None:
    def f(xp: Any, x: Any) -> Any:
        u = x * 1.0
        part = u[1:]
        whole = u[...]
        u[1] = x[0] * x[2]
        whole[2] = x[0]
        part[2] = x[1]
        return (u + whole).sum() + (part * np.array([1.0, 2.0, 3.0])).sum()

    close(jit(lambda x: f(fnp, x))(X), f(np, X), 1e-12)
    close(grad(lambda x: f(fnp, x))(X), differences(lambda x: f(np, x), X))


def test_what_is_born_in_a_region_can_hold_inner_values() -> None:
    def f(x: Any) -> Any:
        def inner(z: Any) -> Any:
            b = x * 2
            b[0] = z
            return (b * b).sum()

        return grad(inner)(x[1]) * x[2]

    # the derivative of inner is 2z
    close(grad(f)(X), [0, 2 * X[2], 2 * X[1], 0], 1e-12)
    close(jit(grad(f))(X), [0, 2 * X[2], 2 * X[1], 0], 1e-12)


def test_a_mapped_value_can_be_written_into_an_unmapped_cell() -> None:
    table = np.arange(12.0).reshape(4, 3)

    def f(i: Any, v: Any) -> Any:
        t = fnp.array(table)
        t[i] = v
        t[:, 0] += i
        np.add.at(t, (slice(None), i), v)
        return t

    places = np.array([2, 0, -1])
    values = np.array([10.0, 20.0, 30.0])
    found = vmap(f)(places, values)
    for i, v, t in zip(places, values, found, strict=True):
        wanted = table.copy()
        wanted[i] = v
        wanted[:, 0] += i
        wanted[:, i] += v
        close(t, wanted, 1e-15)
    assert table[2, 0] == 6.0


# ---------------------------------------------------------------------------------- refusals


def raised(f: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(MutationError) as caught:
        f(*args)
    return str(caught.value)


def rechecked(f: Callable[..., Any]) -> Callable[..., Any]:
    return grad(ftrace.checkpoint(f))


def with_rule(body: Callable[..., Any]) -> Callable[..., Any]:
    f = ftrace.custom_jvp(body)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f


def with_both_rules(body: Callable[..., Any]) -> Callable[..., Any]:
    f = ftrace.custom_vjp(body)
    f.defvjp(lambda x: (body(x), None), lambda _, ct: (ct,))
    return f


@pytest.mark.parametrize("transform", [grad, jit, vmap, rechecked])
def test_writing_an_argument_is_refused_by_name(transform: Callable[..., Any]) -> None:
    def f(weights: Any) -> Any:
        weights[0] = 1.0
        return weights.sum()

    message = raised(transform(f), BATCH if transform is vmap else X)
    assert "`weights` is an argument" in message
    assert "`weights = weights.copy()`" in message
    assert "test_cells.py" in message


def test_writing_a_view_of_an_argument_is_refused_by_name() -> None:
    def named(x: Any) -> Any:
        part = x[1:]
        part[0] = 1.0
        return x.sum()

    def chained(x: Any) -> Any:
        x[1:][0] = 1.0
        return x.sum()

    def augmented(x: Any) -> Any:
        x[1:] += 1.0
        return x.sum()

    def transposed(x: Any) -> Any:
        t = x.reshape(2, 2).T
        t *= 2.0
        return x.sum()

    def unnamed(arrays: Any) -> Any:
        part = arrays["a"][1:]
        part[0] = 1.0
        return part.sum()

    assert "An array is an argument" in raised(grad(unnamed), {"a": X})
    assert "through its view `part`" in raised(grad(unnamed), {"a": X})
    assert "`x` is an argument" in raised(grad(named), X)
    assert "through its view `part`" in raised(grad(named), X)
    assert "`x` is an argument" in raised(grad(chained), X)
    assert "written through a view" in raised(grad(chained), X)
    assert "`x = x.copy()`" in raised(jit(augmented), X)
    assert "`t = t.copy()`" in raised(grad(transposed), X)


def test_writing_an_inner_value_into_an_outer_cell_is_refused() -> None:
    def f(x: Any) -> Any:
        buffer = x * 1.0

        def inner(z: Any) -> Any:
            buffer[0] = z
            return buffer.sum()

        return grad(inner)(x[1])

    for outer, argument in ((grad(f), X), (jit(f), X), (vmap(f), BATCH)):
        assert "`buffer` belongs to code outside" in raised(outer, argument)


@pytest.mark.parametrize(
    "region",
    [
        lambda body, x: jit(body)(x),
        lambda body, x: vmap(body)(x),
        lambda body, x: lax.cond(x[0] > 0, body, lambda z: z, x),
        lambda body, x: lax.while_loop(lambda z: z[0] < 9.0, body, x),
        lambda body, x: ftrace.checkpoint(body)(x),
        lambda body, x: jvp(body, (x,), (x,))[0],
    ],
    ids=["jit", "vmap", "cond", "while", "checkpoint", "jvp"],
)
def test_a_captured_cell_is_frozen_in_every_region(region: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        cell = x * 1.0

        def body(z: Any) -> Any:
            cell[0] = 5.0
            return z + 1.0

        return region(body, x).sum()

    assert "`cell` belongs to code outside" in raised(grad(f), X)


@pytest.mark.parametrize("wrap", [with_rule, with_both_rules])
def test_a_function_with_its_own_rule_can_write_neither_captures_nor_arguments(
    wrap: Callable[..., Any],
) -> None:
    def f(x: Any) -> Any:
        cell = x * 1.0

        def body(z: Any) -> Any:
            cell[0] = 5.0
            return z + 1.0

        return wrap(body)(x).sum()

    def argument(x: Any) -> Any:
        x[0] = 5.0
        return x * 1.0

    for transform in (grad, jit):
        assert "Write to a copy: `cell = cell.copy()`" in raised(transform(f), X)
    for transform in (jit, vmap):
        assert "`x` is an argument" in raised(transform(wrap(argument)), BATCH)
    x = X.copy()
    with pytest.raises(ValueError, match="custom rule"):
        grad(lambda x: wrap(argument)(x).sum())(x)
    close(x, X, 0.0)


def test_a_leaked_cell_cannot_be_written() -> None:
    kept: list[Any] = []
    grad(lambda x: kept.append(x * 1.0) or (x * x).sum())(X)
    with pytest.raises(UnexpectedTracerError):
        kept[0][0] = 1.0


@pytest.mark.parametrize("key", [0, ...])
def test_a_leaked_view_cannot_be_written(key: Any) -> None:
    def f(x: Any) -> Any:
        y, kept = x * 1.0, []
        jit(lambda z: kept.append(y[1:]) or z * 1.0)(x)
        kept[0][key] = 5.0
        return y

    assert f(X)[1] == 5.0
    for transform in (jit, vmap):
        with pytest.raises(UnexpectedTracerError, match="that has ended"):
            transform(f)(BATCH)


def test_a_refused_write_leaves_the_array_as_it_was() -> None:
    def f(x: Any) -> Any:
        with pytest.raises(MutationError):
            x[0] = 100.0
        with pytest.raises(MutationError):
            x *= 2.0
        values.append(float((x * x).sum().known(exact=False)))
        return (x * x).sum()

    values: list[float] = []
    with pytest.raises(MutationError):  # caught, and raised after all
        grad(f)(X)
    assert values == [(X * X).sum()]


def test_a_plain_array_cannot_receive_a_traced_value() -> None:
    plain = np.zeros(4)

    def store(x: Any) -> Any:
        plain[0] = x[0]
        return x.sum()

    def out(x: Any) -> Any:
        np.add(x, 1.0, out=plain)
        return x.sum()

    def augmented(x: Any) -> Any:
        buffer = plain
        buffer += x
        return x.sum()

    def scattered(x: Any) -> Any:
        np.add.at(plain, [0, 1], x[:2])
        return x.sum()

    def copied(x: Any) -> Any:
        np.copyto(plain, x)
        return x.sum()

    for f in (store, out, augmented, scattered, copied):
        for transform in (grad, jit):
            with pytest.raises(TracerArrayConversionError, match=r"ftrace\.numpy\.zeros"):
                transform(f)(X)
    assert not plain.any()


def test_in_place_operators_keep_the_shape_and_the_kind() -> None:
    def wider(x: Any) -> Any:
        u = x * 1.0
        u += np.ones((2, 4))
        return u.sum()

    def other_kind(x: Any) -> Any:
        n = fnp.zeros(4, dtype=int)
        n += x
        return n.sum()

    def complex_into_real(x: Any) -> Any:
        u = x * 1.0
        u[0] = 1j
        return u.sum()

    def wrong_length(x: Any) -> Any:
        u = x * 1.0
        u[:2] = x[:3]
        return u.sum()

    for transform in (grad, jit):
        with pytest.raises(ShapeError, match="does not fit"):
            transform(wider)(X)
        with pytest.raises(DtypeError, match="cannot be stored"):
            transform(other_kind)(X)
        with pytest.raises(DtypeError, match="complex"):
            transform(complex_into_real)(X)
        with pytest.raises(ShapeError, match="could not broadcast"):
            transform(wrong_length)(X)


def test_at_with_equal_indices_needs_an_arithmetic_ufunc() -> None:
    def distinct(x: Any) -> Any:
        u = x * 1.0
        np.arctan2.at(u, [0, 2], x[:2])
        return u.sum()

    def equal(x: Any) -> Any:
        u = x * 1.0
        np.arctan2.at(u, [0, 0], x[:2])
        return u.sum()

    wanted = np.arctan2(X[0], X[0]) + X[1] + np.arctan2(X[2], X[1]) + X[3]
    close(jit(distinct)(X), wanted, 1e-12)
    with pytest.raises(RuleError, match=r"arctan2\.at"):
        jit(equal)(X)


# ---------------------------------------------------------------------------------- layout


def test_where_numpy_decides_by_layout_a_later_write_is_refused() -> None:
    def write_the_original(x: Any) -> Any:
        y = fnp.outer(x, x) * 2.0
        flat = y.reshape(-1)
        y[0, 0] = 0.0
        return flat.sum()

    def write_the_reshaped(x: Any) -> Any:
        y = fnp.outer(x, x) * 2.0
        flat = y.ravel()
        flat[0] = 0.0
        return y.sum()

    def write_after_two_steps(x: Any) -> Any:
        y = fnp.outer(x, x) * 2.0
        z = y.reshape(2, 8).reshape(8, 2)
        y[0, 0] = 0.0
        return z.sum()

    for f in (write_the_original, write_the_reshaped, write_after_two_steps):
        for transform in (grad, jit):
            message = raised(transform(f), X)
            assert "memory layout" in message


def test_where_only_one_name_is_left_the_layout_does_not_matter() -> None:
    def f(xp: Any, x: Any) -> Any:
        flat = (xp.outer(x, x) * 2.0).reshape(-1)
        flat[0] = x[3]
        flat *= 3.0
        y = xp.outer(x, x) * 1.0
        y = y.ravel()
        y[1:3] = 0.0
        return (flat * y).sum()

    close(jit(lambda x: f(fnp, x))(X), f(np, X), 1e-12)
    close(grad(lambda x: f(fnp, x))(X), differences(lambda x: f(np, x), X))


def test_a_copy_has_a_known_layout() -> None:
    def f(xp: Any, x: Any) -> Any:
        y = (xp.outer(x, x) * 2.0).T.copy()
        flat = y.reshape(-1)
        flat[1] = x[0]
        y[0, 0] = x[1]
        return (y * np.arange(16.0).reshape(4, 4)).sum() + flat[0]

    close(jit(lambda x: f(fnp, x))(X), f(np, X), 1e-12)
    close(grad(lambda x: f(fnp, x))(X), differences(lambda x: f(np, x), X))


def test_read_only_views_are_refused_as_in_numpy() -> None:
    def broadcast(x: Any) -> Any:
        y = x * 1.0
        w = np.broadcast_to(y, (2, 4))
        y[0] = 5.0
        assert w.shape == (2, 4)
        w[0, 0] = 1.0
        return y.sum()

    def diagonal(x: Any) -> Any:
        y = fnp.outer(x, x) * 1.0
        d = np.diagonal(y)
        d[0] = 1.0
        return y.sum()

    assert "`w` is a read-only view" in raised(jit(broadcast), X)
    assert "`d` is a read-only view" in raised(jit(diagonal), X)


def test_a_read_only_view_follows_its_base() -> None:
    def f(xp: Any, x: Any) -> Any:
        y = x * 1.0
        w = np.broadcast_to(y, (2, 4))
        y[0] = x[1] * x[2]
        m = xp.outer(x, x) * 1.0
        d = np.diagonal(m)
        m[1, 1] = x[0]
        return (w * w).sum() + (d * np.arange(4.0)).sum()

    close(jit(lambda x: f(fnp, x))(X), f(np, X), 1e-12)
    close(grad(lambda x: f(fnp, x))(X), differences(lambda x: f(np, x), X))


# ---------------------------------------------------------------------------------- cost


def test_dead_views_add_no_equations() -> None:
    def f(x: Any) -> Any:
        u = x * 1.0
        for i in range(4):
            u[i:].sum()
        u[0] = 1.0
        return u

    names = [e.primitive.name for e in ftrace.make_jaxpr(f)(X).eqns]
    assert names == ["mul", "reshape", "update_slice"]


def test_an_augmented_slice_is_written_once() -> None:
    def f(x: Any) -> Any:
        u = x * 1.0
        u[1:] += 2.0
        return u

    names = [e.primitive.name for e in ftrace.make_jaxpr(f)(X).eqns]
    assert names == ["mul", "slice", "add", "update_slice"]


@pytest.mark.parametrize("custom", ["function", "jvp rule", "fwd rule", "bwd rule"])
def test_functions_with_custom_rules_may_not_write_their_arguments(custom):
    def writing(x, result):
        x[0] = 5.0
        return result

    f = ftrace.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda p, t: writing(p[0], (p[0] * 2.0, t[0] * 2.0)))
    if custom == "function":
        f = ftrace.custom_jvp(lambda x: writing(x, x * 2.0))
        f.defjvp(lambda p, t: (f(*p), t[0] * 2.0))
    elif custom != "jvp rule":
        f = ftrace.custom_vjp(lambda x: x * 2.0)
        wanted = custom == "fwd rule"
        f.defvjp(
            lambda x: writing(x, (x * 2.0, x)) if wanted else (x * 2.0, x),
            lambda x, ct: (ct * 2.0,) if wanted else writing(x, (ct * 2.0,)),
        )
    with pytest.raises(MutationError, match="copy"):
        ftrace.grad(lambda x: np.sum(f(x)))(np.ones(3))
