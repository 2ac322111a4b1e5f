"""Sequences that grow by one number after every epoch: `fgrn.flow.series`."""

from __future__ import annotations

import numpy as np
import pytest

from fgrn.flow.series import Series


def test_each_state_of_a_sequence_stays_as_it_was() -> None:
    states = [Series([1.0, 2.0])]
    for number in range(5):
        states.append(states[-1].and_one(float(number)))
    assert list(states[0]) == [1.0, 2.0]
    assert list(states[3]) == [1.0, 2.0, 0.0, 1.0, 2.0]
    other = states[0].and_one(9.0)  # another one that goes on from the same state
    assert list(other) == [1.0, 2.0, 9.0]
    assert list(states[5]) == [1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0]


def test_it_knows_where_its_largest_number_is() -> None:
    assert Series().largest_at == -1
    one = Series([1.0, 3.0, 3.0])
    assert one.largest_at == 1
    assert one.and_one(3.0).largest_at == 1
    assert one.and_one(4.0).largest_at == 3
    assert one.largest_at == 1
    assert Series().and_one(float("-inf")).and_one(float("-inf")).largest_at == 0


def test_it_is_a_sequence() -> None:
    one = Series([1.0, 2.0, 3.0])
    one.and_one(4.0)
    assert (one[0], one[-1], one[1:], len(one)) == (1.0, 3.0, [2.0, 3.0], 3)
    assert one == [1.0, 2.0, 3.0]
    assert one != [1.0, 2.0]
    np.testing.assert_array_equal(np.array([one, one]), [[1.0, 2.0, 3.0]] * 2)
    with pytest.raises(IndexError):
        one[3]
