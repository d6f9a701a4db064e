"""A tree as a vector and back: shapes and dtypes return, and derivatives pass through."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import ShapeError
from ftrace.flatten_util import ravel_pytree


@dataclass
class Params:
    w: Any
    b: Any


def params():
    return Params(np.arange(6.0).reshape(2, 3), {"k": np.array(7.0), "empty": np.zeros((0, 2))})


def test_the_vector_holds_the_leaves_in_order():
    vector, _ = ravel_pytree(params())
    np.testing.assert_array_equal([0, 1, 2, 3, 4, 5, 7], vector)
    assert vector.dtype == np.float64


def test_unravel_restores_shapes_and_containers():
    vector, unravel = ravel_pytree(params())
    again = unravel(2 * vector)
    assert type(again) is Params
    np.testing.assert_array_equal(2 * params().w, again.w)
    assert again.b["empty"].shape == (0, 2)
    assert float(again.b["k"]) == 14.0


def test_dtypes_are_promoted_as_numpy_does_and_restored():
    tree = [np.float32([1.5]), np.arange(2), np.array([True]), 2.5]
    vector, unravel = ravel_pytree(tree)
    assert vector.dtype == np.result_type(np.float32, np.int64, np.bool_, np.float64)
    again = unravel(vector)
    assert [np.asarray(x).dtype for x in again] == [np.asarray(x).dtype for x in tree]
    assert [np.asarray(x).tolist() for x in again] == [np.asarray(x).tolist() for x in tree]


def test_leaves_of_one_dtype_keep_it():
    vector, _ = ravel_pytree((np.float32([1]), np.float32(2)))
    assert vector.dtype == np.float32


def test_a_tree_without_leaves_is_an_empty_vector():
    vector, unravel = ravel_pytree({"none": None})
    assert (vector.shape, vector.dtype) == ((0,), np.float64)
    assert unravel(vector) == {"none": None}


def test_unravel_refuses_another_length():
    _, unravel = ravel_pytree(params())
    with pytest.raises(ShapeError, match=r"takes a vector of shape \(7,\), got \(8,\)"):
        unravel(np.zeros(8))


def test_the_vector_shares_no_memory_with_the_leaves():
    leaf = np.arange(3.0)
    vector, _ = ravel_pytree([leaf])
    vector[0] = 100.0
    assert leaf[0] == 0.0


def test_derivatives_pass_through_in_both_directions():
    vector, unravel = ravel_pytree(params())

    def from_tree(tree):
        return (ravel_pytree(tree)[0] ** 3).sum()

    def from_vector(v):
        tree = unravel(v)
        return (tree.w**2).sum() + 5 * tree.b["k"]

    gradient = ftrace.grad(from_tree)(params())
    np.testing.assert_allclose(3 * params().w ** 2, gradient.w)
    np.testing.assert_allclose([0, 2, 4, 6, 8, 10, 5], ftrace.grad(from_vector)(vector))


def test_it_can_be_staged_and_batched():
    _, unravel = ravel_pytree(params())
    vectors = np.arange(14.0).reshape(2, 7)
    staged = ftrace.jit(lambda v: ravel_pytree(unravel(v))[0])
    np.testing.assert_array_equal(vectors[1], staged(vectors[1]))
    batched = ftrace.vmap(lambda v: unravel(v).w)(vectors)
    np.testing.assert_array_equal(vectors[:, :6].reshape(2, 2, 3), batched)
