"""What a machine answers about itself: what a level may hold, what fits, how siblings share."""

from __future__ import annotations

import pytest

from polymap.ir.loopnest import ROLE_WORDS, Role, Tensor
from polymap.ir.machine import Fanout, MemoryLevel, Multicast

WEIGHTS = Tensor("W", (4,), (0,), 8, Role.WEIGHT)


def test_roles_have_words() -> None:
    assert ROLE_WORDS == ("@input", "@weight", "@output")


@pytest.mark.parametrize(
    ("holds", "may"),
    [(None, True), ((), False), (("W",), True), (("@weight",), True), (("A", "@input"), False), (("weight",), False)],
)
def test_levels_hold_tensors_by_name_or_role(holds: tuple[str, ...] | None, may: bool) -> None:
    assert MemoryLevel("Buf", holds=holds).may_hold(WEIGHTS) is may
    assert MemoryLevel("Buf", must_hold=holds or ()).requires(WEIGHTS) is (may and holds is not None)


@pytest.mark.parametrize(("capacity", "buffering", "usable"), [(None, 3, None), (100, 1, 100), (100, 3, 33), (1, 2, 0)])
def test_tiles_may_fill_what_buffering_leaves(capacity: int | None, buffering: int, usable: int | None) -> None:
    level = MemoryLevel("Buf", capacity_bits=capacity, buffering=buffering)
    assert level.usable_bits == usable
    for bits in (0, 1, 33, 34, 100, 101):
        assert level.has_room_for(bits) is (capacity is None or bits * buffering <= capacity)


def test_policies_of_fanouts() -> None:
    assert [one.shares_reads for one in (Multicast.IDENTICAL, Multicast.UNION, Multicast.NONE)] == [True, True, False]
    assert [one.unites_tiles for one in (Multicast.IDENTICAL, Multicast.UNION, Multicast.NONE)] == [False, True, False]
    assert Fanout("X", 4).may_spread("k")
    assert Fanout("X", 4, dims=("k",)).may_spread("k")
    assert not Fanout("X", 4, dims=("k",)).may_spread("m")
