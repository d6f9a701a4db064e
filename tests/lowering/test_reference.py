"""The interpreter against plain NumPy, and against one that runs iteration after iteration."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftrace.core.errors import JaxprError
from ftrace.lowering.kernel import fold_trees, reference
from ftrace.lowering.kernel.ir import Fold, Lit
from tests.lowering.kernels import SAMPLES, Nest, Sample, kernels
from tests.lowering.nests import f8, i8, random
from tests.lowering.plainly import Plain, tree


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_do_what_plain_numpy_does(name: str, reverse: bool) -> None:
    sample = SAMPLES[name]()
    operands = sample.operands()
    reference.run(sample.kernel, operands, sample.scalars, reverse=reverse)
    results = sample.results(operands)
    assert results.keys() == sample.expected.keys()
    for out, expected in sample.expected.items():
        tolerance = 1e-5 if results[out].dtype == np.float32 else 1e-13
        np.testing.assert_allclose(results[out], expected, rtol=tolerance, atol=1e-14)


def agrees_with_plain(sample: Sample, *, reverse: bool = False) -> None:
    lockstep, plain = sample.operands(), sample.operands()
    reference.run(sample.kernel, lockstep, sample.scalars, reverse=reverse)
    Plain(sample.kernel, plain, sample.scalars)
    for name, (memory, _, _) in lockstep.items():
        np.testing.assert_array_equal(memory, plain[name][0], err_msg=name)


# A row of these takes its exponentials in lockstep, where NumPy's vector code rounds differently.
ROUNDED = {"softmax", "transcendental"}


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - ROUNDED))
def test_samples_do_the_same_one_iteration_after_the_other(name: str) -> None:
    agrees_with_plain(SAMPLES[name]())


@settings(max_examples=5)
@given(kernels())
def test_random_kernels_do_the_same_one_iteration_after_the_other(sample: Sample) -> None:
    agrees_with_plain(sample)


@pytest.mark.slow
@settings(max_examples=120)
@given(kernels(), st.booleans())
def test_many_random_kernels_do_the_same(sample: Sample, reverse: bool) -> None:
    agrees_with_plain(sample, reverse=reverse)


# --- fold_trees, bit by bit


def bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


@pytest.mark.parametrize("acc", ["f4", "f8"])
@pytest.mark.parametrize(
    "tree_of",
    [
        (1, 0),
        (8, 0),
        (1, 3),
        (4, 8),
        (16, 16),
        (2, 64),
        (8, 0, 1),
        (4, 0, 4),
        (2, 32, 4),
        (4, 8, 1),
    ],
)
def test_sums_follow_their_tree_to_the_last_bit(acc: str, tree_of: tuple[int, ...]) -> None:
    fold = Fold("sum", acc, *tree_of)
    for n in (0, 1, 7, 8, 9, 31, 100):
        values = (random(3, n, seed=n) * 10.0 ** random(3, n, seed=1)).astype(acc)
        (found,) = fold_trees.fold_all([fold], [values])
        assert bits(found) == bits([tree(fold, list(row)) for row in values])


def test_products_follow_their_tree_to_the_last_bit() -> None:
    values = random(2, 37)
    for fold in (Fold("prod", "f8", 4), Fold("prod", "f8", 4, near=2)):
        (found,) = fold_trees.fold_all([fold], [values])
        assert bits(found) == bits([tree(fold, list(row)) for row in values])


def test_the_tree_shows_in_the_bits() -> None:
    values = (10 ** random(3, 1000)).astype("f4")
    shapes = [(1, 0), (8, 0), (1, 8), (8, 16), (8, 0, 1), (8, 0, 4)]
    found = {bits(fold_trees.fold_all([Fold("sum", "f4", *s)], [values])[0]) for s in shapes}
    assert len(found) == len(shapes)


def test_blocks_keep_what_a_running_sum_loses() -> None:
    values = np.full((1, 100_000), 0.1, "f4")
    (plain,) = fold_trees.fold_all([Fold("sum", "f4")], [values])
    (kept,) = fold_trees.fold_all([Fold("sum", "f4", 8, 64)], [values])
    exact = 100_000 * float(np.float32(0.1))
    assert abs(plain[0] - exact) > 0.5
    assert abs(kept[0] - exact) <= np.spacing(np.float32(exact))


def test_values_are_converted_before_they_are_added() -> None:
    values = np.array([[2**24, 1, 1]], "f4")
    assert fold_trees.fold_all([Fold("sum", "f4")], [values])[0] == 2**24
    assert fold_trees.fold_all([Fold("sum", "f8")], [values])[0] == 2**24 + 2
    assert fold_trees.fold_all([Fold("sum", "i8")], [values > 1])[0] == 1


@pytest.mark.parametrize(
    ("op", "acc", "value"),
    [
        ("sum", "f8", 0), ("prod", "i4", 1), ("max", "f4", -np.inf), ("min", "f8", np.inf),
        ("max", "i4", -(2**31)), ("min", "u1", 255), ("max", "u8", 0), ("max", "b1", False),
        ("min", "b1", True), ("and", "i2", -1), ("and", "u2", 65535), ("and", "b1", True),
        ("or", "b1", False), ("xor", "i8", 0), ("argmax", "f8", -np.inf), ("argmin", "i1", 127),
    ],
)  # fmt: skip
def test_a_fold_over_nothing_is_its_identity(op: str, acc: str, value: Any) -> None:
    columns = [np.zeros((2, 0), acc), np.zeros((2, 0), "i8")]
    found = fold_trees.fold_all([Fold(op, acc, 2)], columns)
    assert found[0].dtype == np.dtype(acc)
    np.testing.assert_array_equal(found[0], [value, value])
    if op.startswith("arg"):
        np.testing.assert_array_equal(found[1], [0, 0])


def test_ties_go_to_the_least_index() -> None:
    values, index = np.array([[1.0, 3.0, 3.0], [np.nan, 9.0, np.nan]]), np.array([[7, 6, 5]] * 2)
    best, at = fold_trees.fold_all([Fold("argmax", "f8", 4)], [values, index])
    np.testing.assert_array_equal(best, [3.0, np.nan])
    np.testing.assert_array_equal(at, [5, 5])


# --- what lies around an iteration


def test_an_active_load_outside_of_memory_is_named() -> None:
    sample = SAMPLES["gather_elements"]()
    sample.arrays["ids"][7] = 50
    with pytest.raises(
        JaxprError, match=r"element 50 of buffer x lies outside of its memory of 50"
    ):
        reference.run(sample.kernel, sample.operands(), sample.scalars)
    sample.arrays["ids"][7] = -1
    with pytest.raises(JaxprError, match="element -1 of buffer x"):
        reference.run(sample.kernel, sample.operands(), sample.scalars)


def test_a_store_outside_of_memory_is_named() -> None:
    sample = SAMPLES["histogram"]()
    sample.arrays["ids"][3] = 5
    with pytest.raises(JaxprError, match="element 5 of buffer y"):
        reference.run(sample.kernel, sample.operands(), sample.scalars)


def test_a_loop_without_iterations_reads_nothing() -> None:
    k = Nest("empty")
    k.buffer("x", "f8", ["one"])
    k.buffer("y", "f8", ["one"], "out")
    n = k.scalar()
    with k.loop(n) as i, k.loop(i8(2), inits=[f8(0)]) as j:
        v = k.load("x", i8(0))
        k.store("y", [i.axis], v, "sum")
        j.leave(v)
    nothing = np.zeros(0), 0, (1,)
    reference.run(k.kernel(), {"x": nothing, "y": nothing}, [0])


def test_dependent_iterations_differ_in_reverse() -> None:
    k = Nest("last_wins")
    k.buffer("x", "f8", ["one"])
    k.buffer("y", "f8", ["any"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        k.store("y", [i8(0)], k.load("x", i.axis))
    results = []
    for reverse in (False, True):
        y = np.zeros(1)
        buffers = {"x": (np.arange(1.0, 6.0), 0, (1,)), "y": (y, 0, (0,))}
        reference.run(k.kernel(), buffers, [5], reverse=reverse)
        results.append(y[0])
    assert results == [5.0, 1.0]


def test_a_combining_store_counts_every_iteration_it_does_not_name() -> None:
    k = Nest("counted")
    k.buffer("y", "i4", ["one"], "out")
    with k.loop(i8(3)), k.loop(i8(4)) as j:
        k.store("y", [j.axis], Lit(1, "i4"), "sum")
    y = np.zeros(4, "i4")
    reference.run(k.kernel(), {"y": (y, 0, (1,))}, [])
    np.testing.assert_array_equal(y, 3)


def test_inactive_iterations_store_and_repeat_nothing() -> None:
    sample = SAMPLES["collatz"]()
    sample.arrays["x"][:] = 0
    operands = sample.operands()
    reference.run(sample.kernel, operands, sample.scalars)
    np.testing.assert_array_equal(operands["y"][0], -1)
