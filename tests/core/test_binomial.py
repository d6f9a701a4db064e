"""The binomial schedule: right in every step, with as few turns as possible."""

import functools

import pytest

from ftrace.core.binomial import ADVANCE, BACK, KEEP, RESTORE, repeated, schedule

SIZES = [(n, s) for s in (1, 2, 3, 5, 40) for n in (0, 1, 2, 3, 7, 20, 33)]


def followed(n, slots):
    """Follow a schedule with states that are turn numbers; turns backwards, and turns again."""
    state, places, back, again = 0, {}, [], 0
    for action, i in schedule(n, slots):
        if action == ADVANCE:
            assert i == state
            state, again = state + 1, again + 1
        elif action == BACK:
            assert i == state
            back.append(i)
        elif action == KEEP:
            assert 0 <= i < slots
            places[i] = state
        else:
            assert action == RESTORE
            state = places[i]
    return back, again


@functools.cache
def fewest(n, slots):
    """The least number of turns again, tried out."""
    if n < 2:
        return 0
    if slots == 1:
        return n * (n - 1) // 2
    return min(m + fewest(n - m, slots - 1) + fewest(m, slots) for m in range(1, n))


@pytest.mark.parametrize(("n", "slots"), SIZES)
def test_every_turn_goes_back_once_from_the_state_before_it(n, slots):
    back, _ = followed(n, slots)
    assert back == list(reversed(range(n)))


@pytest.mark.parametrize(("n", "slots"), SIZES)
def test_as_few_turns_as_possible_run_again(n, slots):
    _, again = followed(n, slots)
    assert fewest(n, slots) == again
    if n:
        assert repeated(n, slots) == again


def test_a_thousand_turns_with_ten_states():
    assert followed(1000, 10)[1] == repeated(1000, 10) == 3636
