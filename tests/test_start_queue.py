"""Random starts side by side: `fgrn.flow.start_queue`."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence

import pytest

from fgrn.flow.start_queue import StartQueue


def start(number: int, questions: int, ended: list[int]) -> Generator[tuple[int, int], int]:
    """Ask some questions, check the answers, and end."""
    for question in range(questions):
        answer = yield number, question
        assert answer == 100 * number + question
    ended.append(number)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("together", [1, 3, 20])
def test_every_start_has_its_own_answers_and_ends(together: int, threads: int) -> None:
    ended: list[int] = []
    calls: list[list[tuple[int, int]]] = []

    def answered(asked: Sequence[tuple[int, int]]) -> list[int]:
        calls.append(list(asked))
        return [100 * number + question for number, question in asked]

    lengths = [0, 7, 1, 3, 12, 0, 5, 2, 9, 4]
    starts = (start(number, length, ended) for number, length in enumerate(lengths))
    StartQueue(starts, answered, together, threads).run()
    assert sorted(ended) == list(range(10))
    assert sorted(one for call in calls for one in call) == [
        (number, question) for number, length in enumerate(lengths) for question in range(length)
    ]
    assert max(map(len, calls)) <= together
    if together == threads == 1:
        assert ended == list(range(10))
        assert calls == sorted(calls)


def test_threads_share_the_starts_evenly() -> None:
    sizes: list[int] = []
    both = threading.Barrier(2, timeout=20)

    def answered(asked: Sequence[tuple[int, int]]) -> list[int]:
        sizes.append(len(asked))
        both.wait()  # so that both threads are in a call at the same time
        return [100 * number + question for number, question in asked]

    StartQueue((start(number, 4, []) for number in range(10)), answered, 10, 2).run()
    assert sizes == [5] * 8


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_ends_all_starts(threads: int) -> None:
    ended: list[int] = []

    def answered(asked: Sequence[tuple[int, int]]) -> list[int]:
        if (4, 2) in asked:
            raise ValueError("no answer")
        return [100 * number + question for number, question in asked]

    with pytest.raises(ValueError, match="no answer"):
        StartQueue((start(number, 10_000, ended) for number in range(6)), answered, 6, threads).run()
    assert ended == []
