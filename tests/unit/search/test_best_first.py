"""The queue of every bound engine: order, splitting, and going on elsewhere."""

from __future__ import annotations

import pickle
import random

from polymap.resources.best_first import BestFirst


def by_name(part: str) -> str:
    return part


def test_parts_come_by_bound_then_rank_then_as_added() -> None:
    rng = random.Random(0)
    added = [(rng.randrange(4), rng.choice("abc") + str(rng.randrange(3))) for _ in range(60)]
    queue = BestFirst[int, str](by_name, added[:20])
    for each in added[20:]:
        queue.add(*each)
    expected = [part for _, part in sorted(added)]
    assert [part for _, part in queue] == expected
    again = pickle.loads(pickle.dumps(queue))
    assert [again.take() for _ in range(len(added))] == [queue.take() for _ in range(len(added))] == expected
    assert queue.bound is None
    assert not queue


def test_equal_parts_come_as_they_were_added() -> None:
    queue = BestFirst[int, list[int]]()
    parts = [[9], [1], [5]]
    for part in parts:
        queue.add(7, part)
    assert [queue.take() for _ in parts] == parts


def halves(bound: int, part: tuple[int, int]) -> list[tuple[int, tuple[int, int]]] | None:
    """Split an interval; its bound is its least number. A single number is not split."""
    low, high = part
    middle = (low + high) // 2
    return None if low == high else [(max(bound, low), (low, middle)), (middle + 1, (middle + 1, high))]


def test_the_least_part_is_split_until_it_cannot_be() -> None:
    queue = BestFirst[int, tuple[int, int]](parts=[(0, (3, 40)), (0, (11, 12))])
    assert queue.split(halves, lambda _bound, _part: False)
    assert (queue.bound, queue.first) == (3, (3, 3))


def test_a_search_that_is_ended_goes_on_to_the_same_end() -> None:
    whole, ended = (BestFirst[int, tuple[int, int]](parts=[(0, (5, 70))]) for _ in range(2))
    assert whole.split(halves, lambda _bound, _part: False)
    steps = 0
    while True:
        count = 0

        def is_over(_bound: int, _part: tuple[int, int]) -> bool:
            nonlocal count
            count += 1
            return count > 1

        if ended.split(halves, is_over):
            break
        steps += 1
        ended = pickle.loads(pickle.dumps(ended))
    assert steps > 3
    assert list(ended) == list(whole)


def test_nothing_is_left_where_all_is_refuted() -> None:
    queue = BestFirst[int, int](parts=[(1, 1), (2, 2)])
    assert not queue.split(lambda _bound, _part: [], lambda _bound, _part: False)
    assert queue.bound is None
