"""What a search keeps and counts, against lists written out in full."""

from __future__ import annotations

import random

import pytest

from polymap.ir.mapping import Mapping, Temporal
from polymap.resources import never
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.progress import Count, Incumbent, StructureFates


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_best_trees_are_kept_each_once(keep: int) -> None:
    rng, seen = random.Random(f"kept {keep}"), list[tuple[int, Mapping]]()
    incumbent = Incumbent(never, keep=keep)
    for _ in range(60):
        tile = rng.randrange(1, 12)
        value, mapping = tile * 7 % 5, Mapping((Temporal("m", tile),))
        seen += [(value, mapping)] if (value, mapping) not in seen else []
        better = len(incumbent.found) < keep or value < incumbent.found[-1][0]
        assert incumbent.beats(value) == better
        incumbent.add(value, CompletedMapping((), mapping))
        found = [(own, completed.mapping) for own, completed in incumbent.found]
        assert [own for own, _ in found] == sorted(own for own, _ in seen)[:keep]
        assert len(set(found)) == len(found)
        assert set(found) <= set(seen)


@pytest.mark.parametrize("seed", range(4))
def test_a_structure_is_closed_once_none_of_its_entries_is_left(seed: int) -> None:
    """Referee: the queue itself, entry by entry."""
    rng, listed = random.Random(f"fates {seed}"), 6
    fates, queue, searched, refuted = StructureFates(listed), list[int](), set[int](), set[int]()
    for number in range(listed):
        fits = rng.random() < 0.8
        if fits:
            fates.entries[number] = 1
        else:
            is_refuted = rng.random() < 0.5
            fates.closed_at_once(number, refuted=is_refuted)
            refuted |= {number} if is_refuted else set()
        queue += [number] * fits
    while True:
        closed = set(range(listed)) - set(queue)
        evaluated, pruned = closed & searched, closed & refuted - searched
        told = Count(listed, len(evaluated), len(pruned), len(closed - evaluated - pruned))
        assert fates.count() == told
        assert told.is_whole == (not queue)
        if not queue:
            break
        number = queue.pop(rng.randrange(len(queue)))
        if rng.random() < 0.4:
            fates.prune([number])
            refuted.add(number)
        else:
            entries, is_searched = rng.choice((0, 0, 1, 1, 3)), rng.random() < 0.3
            fates.step(number, entries, searched=is_searched)
            searched |= {number} if is_searched else set()
            queue += [number] * entries
