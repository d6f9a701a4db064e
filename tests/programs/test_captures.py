"""Users' arrays are mutable: what a transformation captured keeps the value it had then."""

import threading

import numpy as np
import pytest

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import MutationError
from ftrace.interpreters import captures

SMALL, LARGE = 3, 20_000


def overwriting(buffer):
    """f(x) = sum(x * b) + sum(x * 10 b), overwriting b in between."""

    def f(x):
        nonlocal buffer
        y = np.sum(x * buffer)
        buffer *= 10
        return y + np.sum(x * buffer)

    return f


def test_a_number_in_a_linear_program_is_written_where_it_is_used_and_not_captured():
    _, push = ftrace.linearize(ftrace.jit(lambda x: np.sqrt(x) * x), 4.0)
    (call,) = [e for e in ftrace.make_jaxpr(push)(1.0).eqns if e.primitive.name == "jit"]
    assert call.params["jaxpr"].consts == ()
    assert " 0.5\n" in str(call.params["jaxpr"])


def test_each_capture_of_a_small_array_keeps_its_own_value():
    gradient = ftrace.grad(overwriting(np.full(SMALL, 2.0)))(np.ones(SMALL))
    np.testing.assert_array_equal(gradient, np.full(SMALL, 22.0))


def test_each_capture_of_a_small_array_keeps_its_own_value_under_vjp():
    _, pull = ftrace.vjp(overwriting(np.full(SMALL, 2.0)), np.ones(SMALL))
    np.testing.assert_array_equal(pull(1.0)[0], np.full(SMALL, 22.0))


@pytest.mark.parametrize("transform", [ftrace.grad, lambda f: lambda x: ftrace.vjp(f, x)])
def test_writing_a_large_captured_array_during_the_call_raises(transform):
    buffer = np.full(LARGE, 2.0)
    with pytest.raises(MutationError, match="buffer"):
        transform(overwriting(buffer))(np.ones(LARGE))
    assert buffer.flags.writeable


def test_a_large_captured_array_is_writeable_after_the_call():
    w = np.full(LARGE, 2.0)
    ftrace.grad(lambda x: np.sum(x * w))(np.ones(LARGE))
    w[:] = 3.0
    assert w[0] == 3.0


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_writing_before_the_pull_does_not_change_the_derivative(size):
    w = np.full(size, 2.0)
    _, pull = ftrace.vjp(lambda x: np.sum(x * w), np.ones(size))
    w[:] = 7.0
    np.testing.assert_array_equal(pull(1.0)[0], np.full(size, 2.0))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_array_captured_twice_and_overwritten_after_vjp_keeps_both(size):
    w = np.full(size, 3.0)
    _, pull = ftrace.vjp(lambda x: np.sum(x * w * w), np.ones(size))
    w[:] = 0.0
    np.testing.assert_array_equal(pull(1.0)[0], np.full(size, 9.0))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_writing_an_argument_before_the_pull_does_not_change_the_derivative(size):
    x = np.full(size, 3.0)
    _, pull = ftrace.vjp(lambda x: np.sum(x * x), x)
    x[:] = 0.0
    np.testing.assert_array_equal(pull(1.0)[0], np.full(size, 6.0))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_writing_the_result_before_the_pull_does_not_change_the_derivative(size):
    y, pull = ftrace.vjp(np.exp, np.zeros(size))
    y *= 5.0
    np.testing.assert_array_equal(pull(np.ones(size))[0], np.ones(size))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_optimiser_may_update_in_place_while_the_pull_is_bound(size):
    w = np.full(size, 1.0)
    for _ in range(3):
        _, pull = ftrace.vjp(lambda w: np.sum(w * w), w)
        w -= 0.1 * pull(1.0)[0]
    np.testing.assert_allclose(w, 0.512)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_an_optimiser_may_update_in_place_with_grad(size):
    w = np.full(size, 1.0)
    for _ in range(3):
        w -= 0.1 * ftrace.grad(lambda w: np.sum(w * w))(w)
    np.testing.assert_allclose(w, 0.512)


def test_nested_gradients_over_one_large_array_release_it():
    w = np.full(LARGE, 2.0)

    def inner(x):
        return np.sum(x * x * w)

    ftrace.grad(lambda x: np.sum(ftrace.grad(inner)(x) * w))(np.ones(LARGE))
    assert w.flags.writeable
    assert not captures._marks


@pytest.mark.parametrize("transform", [ftrace.grad, lambda f: lambda x: ftrace.vjp(f, x)])
def test_an_exception_inside_releases_captured_arrays(transform):
    w = np.full(LARGE, 2.0)

    def f(x):
        np.sum(x * w)
        raise ZeroDivisionError("the user's own")

    with pytest.raises(ZeroDivisionError):
        transform(f)(np.ones(LARGE))
    assert w.flags.writeable
    assert not captures._marks


def test_two_threads_share_one_captured_array():
    w = np.full(LARGE, 2.0)
    failures = []

    def work():
        for _ in range(100):
            g = ftrace.grad(lambda x: np.sum(x * w))(np.ones(LARGE))
            if g[0] != 2.0:
                failures.append(g[0])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert w.flags.writeable
    assert not captures._marks


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_memory_behind_frombuffer_may_be_written_after_vjp(size):
    memory = bytearray(np.full(size, 2.0).tobytes())
    w = np.frombuffer(memory)
    _, pull = ftrace.vjp(lambda x: np.sum(x * w), np.ones(size))
    memory[:8] = np.float64(9.0).tobytes()
    np.testing.assert_array_equal(pull(1.0)[0], np.full(size, 2.0))


def test_a_read_only_owner_is_not_copied():
    w = np.full(LARGE, 2.0)
    w.flags.writeable = False
    seen = captures.Captures()
    seen.enter(w)
    assert seen.protect(w) is w
    assert not captures._marks


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_read_only_view_of_a_writeable_base_is_protected_and_keeps_its_flag(size):
    base = np.full(size, 2.0)
    view = base.view()
    view.flags.writeable = False
    _, pull = ftrace.vjp(lambda x: np.sum(x * view), np.ones(size))
    base[:] = 9.0
    np.testing.assert_array_equal(pull(1.0)[0], np.full(size, 2.0))
    assert not view.flags.writeable


def test_check_captures_finds_a_write_through_another_view():
    base = np.full(LARGE, 2.0)
    other = base[:]

    def f(x):
        y = np.sum(x * base)
        other[:] = 5.0
        return y

    with update(check_captures=True), pytest.raises(MutationError, match="another view"):
        ftrace.grad(f)(np.ones(LARGE))


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize(
    "f",
    [lambda x: x, lambda x: x.T, lambda x: x.reshape(-1), lambda x: x[:2], lambda x: x * 1],
    ids=["identity", "transpose", "reshape", "slice", "product"],
)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: ftrace.jit(f)(x),
        lambda f, x: ftrace.vmap(f)(x[None])[0],
        lambda f, x: ftrace.jvp(f, (x,), (x,))[0],
        lambda f, x: ftrace.jvp(f, (x,), (x,))[1],
        lambda f, x: ftrace.vjp(f, x)[0],
        lambda f, x: ftrace.linearize(f, x)[1](x),
        lambda f, x: ftrace.vjp(f, x)[1](f(x))[0],
    ],
    ids=["jit", "vmap", "jvp-primal", "jvp-tangent", "vjp", "linearize", "pull"],
)
def test_returned_arrays_are_writeable_and_own_their_memory(transform, f, size):
    x = np.arange(float(size))
    y = transform(f, x)
    assert y.flags.writeable
    assert not np.shares_memory(x, y)


def test_returned_arrays_do_not_share_memory_with_each_other():
    a, b = ftrace.jit(lambda x: (x, x))(np.ones(3))
    assert not np.shares_memory(a, b)


def test_returned_constants_are_copies():
    w = np.ones(3)
    assert not np.shares_memory(ftrace.jit(lambda x: (w, x))(1.0)[0], w)
    assert not np.shares_memory(ftrace.jvp(lambda x: (w, x), (1.0,), (1.0,))[0][0], w)


class Holder:
    """Something with an array in an attribute."""

    def __init__(self, w):
        self.w = w


def test_in_place_writes_to_a_captured_array_are_seen_by_jit():
    w = np.array([1.0, 2.0])
    f = ftrace.jit(lambda x: np.sum(x * w))
    x = np.array([11.0, 11.0])
    assert f(x) == 33.0
    w[1] = 3.0
    assert f(x) == 44.0


def test_in_place_writes_behind_an_attribute_and_an_item_are_seen_by_jit():
    holder, table = Holder(np.ones(3)), {"w": np.ones(3)}
    f = ftrace.jit(lambda x: np.sum(x * holder.w) + np.sum(x * table["w"]))
    assert f(np.ones(3)) == 6.0
    holder.w[:] = 9.0
    table["w"][:] = 2.0
    assert f(np.ones(3)) == 33.0


def test_rebinding_an_attribute_an_item_or_a_closure_cell_is_seen_by_jit():
    holder, table, scale = Holder(np.ones(3)), {"w": np.ones(3)}, 1.0
    f = ftrace.jit(lambda x: scale * (np.sum(x * holder.w) + np.sum(x * table["w"])))
    assert f(np.ones(3)) == 6.0
    holder.w = np.full(3, 2.0)
    assert f(np.ones(3)) == 9.0
    table["w"] = np.full(3, 2.0)
    assert f(np.ones(3)) == 12.0
    scale = 10.0
    assert f(np.ones(3)) == 120.0


def test_the_gradient_through_a_jitted_capture_follows_the_array():
    w = np.array([1.0, 2.0, 3.0])
    gradient = ftrace.grad(ftrace.jit(lambda x: np.sum(x * w)))
    np.testing.assert_array_equal(gradient(np.ones(3)), [1.0, 2.0, 3.0])
    w[0] = 7.0
    np.testing.assert_array_equal(gradient(np.ones(3)), [7.0, 2.0, 3.0])


@pytest.mark.parametrize("change", [np.flip, np.sort, lambda a: np.roll(a, 7)])
@pytest.mark.parametrize("transform", [ftrace.grad, ftrace.jit])
def test_check_captures_finds_elements_that_changed_places(change, transform):
    base = np.random.default_rng(0).permutation(LARGE).astype(float)
    other = base[:]

    def f(x):
        y = np.sum(x * base)
        other[:] = change(other).copy()
        return y

    with update(check_captures=True), pytest.raises(MutationError):
        transform(f)(np.ones(LARGE))
