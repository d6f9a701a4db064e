"""Tapes and the layout of loops, apart from the loops that use them."""

import numpy as np

from ftrace.core.avals import aval, typeof
from ftrace.core.scan_layout import ScanLoop, cut, parts
from ftrace.core.tapes import TURNS, is_tape, levels, stack, tape

F8 = np.dtype(np.float64)
SHORT, LONG = np.arange(6.0).reshape(1, 2, 3), np.arange(12.0).reshape(2, 2, 3)


def ragged():
    """Two tapes of matrices, of lengths 1 and 2."""
    return stack([SHORT, LONG], tape(aval((2, 3), F8)))


def test_a_tape_has_an_axis_in_front_whose_length_is_not_known():
    a = tape(aval((3,), F8))
    assert a.shape == (TURNS, 3)
    assert is_tape(a)
    assert not is_tape(aval((3,), F8))
    assert "turns" in repr(a)


def test_elements_of_known_lengths_are_one_array_even_if_there_are_none():
    np.testing.assert_array_equal(stack([1.0, 2.0], aval((), F8)), [1.0, 2.0])
    assert stack([], aval((3,), F8)).shape == (0, 3)


def test_tapes_of_different_lengths_are_kept_apart():
    tapes = ragged()
    assert typeof(tapes).shape == (2, TURNS, 2, 3)
    assert tapes.element() == tape(aval((2, 3), F8))
    assert tapes[1] is LONG


def test_ragged_tapes_add_and_change_axes_item_by_item():
    twice = np.add(ragged(), ragged())
    assert typeof(twice) == typeof(ragged())
    turned = ragged().transpose((0, 1, 3, 2))
    assert typeof(turned).shape == (2, TURNS, 3, 2)
    for i, x in enumerate((SHORT, LONG)):
        np.testing.assert_array_equal(twice[i], 2 * x)
        np.testing.assert_array_equal(turned[i], x.transpose(0, 2, 1))


def test_an_axis_of_known_length_may_come_first():
    """A mapped axis comes to the front of tapes of different lengths, and goes back."""
    front = ragged().transpose((2, 0, 1, 3))
    assert typeof(front).shape == (2, 2, TURNS, 3)
    for member in range(2):
        for i, x in enumerate((SHORT, LONG)):
            np.testing.assert_array_equal(front[member][i], x[:, member])
    back = front.transpose((1, 2, 0, 3))
    assert typeof(back) == typeof(ragged())
    for i, x in enumerate((SHORT, LONG)):
        np.testing.assert_array_equal(back[i], x)


def test_tapes_of_tapes_of_tapes():
    element = tape(aval((2, 3), F8))
    deep = stack([ragged(), ragged()], aval((2, *element.shape), F8))
    turned = deep.transpose((0, 3, 1, 2, 4))
    assert typeof(turned).shape == (2, 2, 2, TURNS, 3)
    np.testing.assert_array_equal(turned[1][0][1], LONG[:, 0])
    np.testing.assert_array_equal(np.add(deep, deep)[0][1], 2 * LONG)


def test_tapes_of_equal_lengths_become_an_array():
    same = stack([LONG, LONG + 1.0], tape(aval((2, 3), F8)))
    found = same.transpose((0, 2, 1, 3))
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, np.stack([LONG, LONG + 1.0]).transpose(0, 2, 1, 3))
    total = np.add(same, found.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(total[1], 2 * (LONG + 1.0))


def test_operands_of_a_loop_are_cut_into_tuples():
    found = parts(list("ncabx"), ScanLoop(None, False, 1, 2))
    assert found == (("n",), ("c",), ("a", "b"), ("x",))
    assert parts(list("cabx"), ScanLoop(3, False, 1, 2))[1:] == found[1:]
    assert cut("abcde", (1, 2, 5)) == ["a", "bc", "de"]


def test_levels_count_the_stacks_of_different_lengths():
    assert levels(aval((3,), F8)) == 0
    assert levels(tape(aval((3,), F8))) == 1
    assert levels(tape(aval((3, TURNS, 2), F8))) == 3
    assert levels(aval((3, TURNS, 2), F8)) == 2


def test_an_axis_moves_behind_two_stacks_of_different_lengths():
    element = tape(aval((2, 3), F8))
    deep = stack([ragged(), stack([LONG], element)], tape(element))
    front = deep.transpose((3, 0, 1, 2, 4))
    assert typeof(front).shape == (2, 2, TURNS, TURNS, 3)
    back = front.transpose((1, 2, 3, 0, 4))
    for items, others in zip(deep, back, strict=True):
        for one, other in zip(items, others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_ragged_tapes_add_with_an_operator_too():
    twice = ragged() + ragged()
    np.testing.assert_array_equal(twice[1], 2 * LONG)


def test_a_length_of_minus_one_is_not_that_of_a_tape():
    wrong = aval((-1, 7, 11), F8)
    assert not is_tape(wrong)
    assert is_tape(tape(aval((7, 11), F8)))
