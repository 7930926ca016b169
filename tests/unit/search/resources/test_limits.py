"""When a search ends: the shares of time and work, on a clock that the test turns."""

from __future__ import annotations

from mmap import mmap

import pytest

from polymap.resources.limits import Limits, Work, never
from polymap.resources.memory import Memory, resident_mb
from polymap.search import further, of_rest


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limits(seconds: float, work: int | None = None, memory_mb: int | None = None) -> tuple[Limits, Clock]:
    clock = Clock()
    return Limits(clock, seconds, Memory(memory_mb), work), clock


def test_work_is_counted_down() -> None:
    work = Work(10)
    assert (work.left, work.is_spent()) == (10, False)
    work.add()
    work.add(8)
    assert (work.done, work.left, work.is_spent()) == (9, 1, False)
    work.add(5)
    assert (work.left, work.is_spent()) == (0, True)
    free = Work()
    free.add(10**9)
    assert (free.left, free.is_spent()) == (None, False)


def test_without_a_limit_of_work_the_share_is_that_of_the_time() -> None:
    found, clock = limits(8)
    assert (found.share(), found.seconds(), found(), found.time_is_up()) == (0, 0, False, False)
    clock.now += 2
    assert (found.share(), found.seconds()) == (0.25, 2)
    half = found.until(0.5)
    clock.now += 2
    assert not half()
    clock.now += 0.5
    assert half()
    clock.now += 3.5
    assert (found.share(), found(), found.time_is_up()) == (1, False, False)
    clock.now += 0.5
    assert found()
    assert found.time_is_up()


def test_a_share_of_what_is_left_is_over_where_a_limit_was_reached_before() -> None:
    found, clock = limits(8, work=10)
    found.work.add(10)
    stops = [share(found) for share in (further(0.1), of_rest(0.5))]
    assert all(stop() for stop in stops)
    clock.now += 100
    assert all(stop() for stop in stops)


def test_where_work_is_limited_the_clock_decides_nothing_but_the_end() -> None:
    found, clock = limits(8, work=10)
    clock.now += 6
    assert found.share() == 0
    found.work.add(4)
    assert found.share() == 0.4
    assert not found.dividing()()
    found.work.add(2)
    assert found.dividing()()
    assert not found()
    found.work.add(4)
    assert found()
    other, clock = limits(8, work=10)
    clock.now += 9
    assert other()
    assert other.time_is_up()


@pytest.mark.parametrize(("seconds", "dividing"), [(60, 20), (9, 5), (15, 5), (5, 4), (1, 0.8)])
def test_dividing_tiles_have_a_third_of_the_time_or_the_first_seconds(seconds: float, dividing: float) -> None:
    found, clock = limits(seconds)
    spent = found.dividing()
    clock.now = 100 + dividing * 0.999
    assert not spent()
    clock.now = 100 + dividing * 1.001
    assert spent()


def test_new_limits_begin_now() -> None:
    old, clock = limits(8, work=10)
    clock.now += 20
    assert old()
    new = old.renewed(4, None, None)
    assert not new()
    assert new.work.limit is None
    clock.now += 3
    assert new.share() == 0.75
    assert old.renewed(4, None, 7).work.left == 7


def test_a_memory_limit_below_what_is_held_ends_the_search() -> None:
    tight, _ = limits(8, memory_mb=1)
    assert (tight.share(), tight(), tight.time_is_up()) == (2, True, True)
    roomy, _ = limits(8, memory_mb=2**20)
    assert not roomy()
    assert roomy.renewed(8, 1, None)()
    assert not tight.renewed(8, None, None)()


def test_memory_is_what_this_process_holds() -> None:
    before = resident_mb()
    with mmap(-1, 64 << 20) as block:  # pages of its own: freed memory of this process is not used again
        block.write(bytes(64 << 20))
        assert resident_mb() - before > 48
    memory = Memory(None)
    assert 0 < memory.taken_mb() <= resident_mb()
    assert resident_mb([2**22 + 1]) > 0  # a process that is gone counts nothing


def test_never_is_no_limit() -> None:
    assert not never()
