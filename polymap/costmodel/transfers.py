"""What one mapping moves of a written tensor between the outermost level and the next holders, step by step.

For trees whose steps have no closed form (`exchanged`): tiles that overlap, loops that have fewer iterations at the end
of others. The rules are those of docs/counting.md: drains are added on the way, partial sums come back once; of other
written arrays what changed is drained, and what is not overwritten first is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from polymap.costmodel.arrivals import Loop, Role, Sending
from polymap.costmodel.contiguous import Ints, distinct
from polymap.costmodel.tuning import TUNING
from polymap.ir import BudgetError, Fanout, Mistake, Multicast, Operator, PlaceRule, Tensor, rule_of

Digits = tuple[int, ...]
_NOTHING = np.zeros(0, np.int64)


class Transfer(NamedTuple):
    """Elements of a tensor (numbered by rows) that the outermost level reads or writes at once."""

    is_write: bool
    elements: Ints


def transfers(sending: Sending, fanouts: Sequence[Fanout], tensor: Tensor) -> Iterator[Transfer]:
    """Yield what the outermost level reads and writes of a written tensor, in order.

    sending: of the tensor, with addresses by rows. fanouts: of the machine. Raises BudgetError (PM472) where there is
    too much to walk.
    """
    is_plain = rule_of(sending.workload, tensor.name) is PlaceRule.PLAIN
    partial = np.full(prod(tensor.shape), tensor.initial)
    held: dict[Digits, Ints] = {}
    fanouts = [
        each for each in fanouts if any(loop.role is Role.SIBLINGS and loop.fanout is each for loop in sending.loops)
    ]
    for tiles in (*_steps(sending, fanouts), {}):
        left = {
            where: np.setdiff1d(held[where], tiles.get(where, _NOTHING), assume_unique=True) for where in sorted(held)
        }
        entered = {where: np.setdiff1d(tiles[where], held.get(where, _NOTHING), assume_unique=True) for where in tiles}
        if is_plain:
            yield from (Transfer(is_write=True, elements=each) for each in left.values() if len(each))
            yield from _messages_of_step(sending, fanouts, entered)
        else:
            yield from _merge_arrivals(fanouts, partial, left)
            for where in sorted(entered):
                taken = entered[where][partial[entered[where]]]
                if len(taken):
                    partial[taken] = False
                    yield Transfer(is_write=False, elements=taken)
        held = tiles


def _merge_arrivals(fanouts: list[Fanout], partial: np.ndarray, left: dict[Digits, Ints]) -> Iterator[Transfer]:
    """Yield the arrivals of one step, group by group of siblings that are added on the way, and mark them partial."""
    sent: dict[Digits, list[Ints]] = {}
    for where, leaving in left.items():
        if len(leaving):
            apart = tuple(c for f, c in zip(fanouts, where, strict=True) if not f.reduction)
            sent.setdefault(apart, []).append(leaving)
    for parts in sent.values():
        arriving = distinct(np.concatenate(parts))
        found = arriving[partial[arriving]]
        if len(found):
            yield Transfer(is_write=False, elements=found)
        partial[arriving] = True
        yield Transfer(is_write=True, elements=arriving)


def _messages_of_step(sending: Sending, fanouts: list[Fanout], entered: dict[Digits, Ints]) -> Iterator[Transfer]:
    """Yield the distinct messages of one step, merged as the fan-outs' multicast says."""
    (statement,) = sending.workload.statements
    is_read = any(read.tensor == sending.access.tensor for read in statement.reads)
    if statement.operator is Operator.ASSIGN and not is_read:
        return
    groups: dict[Digits, dict[Digits, list[Ints]]] = {}
    for where, load in entered.items():
        if len(load):
            kinds = [(fanout.multicast, digit) for fanout, digit in zip(fanouts, where, strict=True)]
            apart = tuple(digit for kind, digit in kinds if kind is Multicast.NONE)
            alike = tuple(digit for kind, digit in kinds if kind is Multicast.IDENTICAL)
            groups.setdefault(apart, {}).setdefault(alike, []).append(load)
    for united in groups.values():
        messages = {each.tobytes(): each for each in (distinct(np.concatenate(parts)) for parts in united.values())}
        yield from (Transfer(is_write=False, elements=each) for each in messages.values())


def _steps(sending: Sending, fanouts: list[Fanout]) -> Iterator[dict[Digits, Ints]]:
    """Yield per step the tile of every instance (its coordinates over the fan-outs), without empty ones."""
    siblings = [loop for loop in sending.loops if loop.role is Role.SIBLINGS]
    used = sending.own_dims | {loop.dim for loop in siblings}
    clock = list(sending.clock)
    while clock and clock[-1].dim not in used:  # the innermost loops over other dims bring the same tiles again
        clock.pop()
    count = prod(loop.trips for loop in (*clock, *siblings))
    if count > TUNING.most_tiles:
        what = f"{sending.access.tensor} has {count:,} tiles to walk, and at most {TUNING.most_tiles:,} are walked"
        raise BudgetError(Mistake("PM472", what, "A mapping with larger tiles in the level below has fewer."))
    walked = 0
    for time in product(*(range(loop.trips) for loop in clock)):
        tiles: dict[Digits, Ints] = {}
        for place in product(*(range(loop.trips) for loop in siblings)):
            tile = sending.tile({**dict(zip(clock, time, strict=True)), **dict(zip(siblings, place, strict=True))})
            walked += len(tile)
            if len(tile):
                tiles[_coordinates(fanouts, list(zip(siblings, place, strict=True)))] = tile
        if walked > TUNING.most_walked:
            what = f"{sending.access.tensor} has more than {TUNING.most_walked:,} elements to walk"
            raise BudgetError(Mistake("PM472", what, "A mapping that loads it less often has fewer."))
        if tiles:
            yield tiles


def _coordinates(fanouts: list[Fanout], place: list[tuple[Loop, int]]) -> Digits:
    """Return one number per fan-out: the digits of its loops side by side, the outermost first."""
    found = dict.fromkeys((fanout.name for fanout in fanouts), 0)
    for loop, digit in place:
        assert loop.fanout is not None, "siblings are those of a fan-out"
        found[loop.fanout.name] = found[loop.fanout.name] * loop.trips + digit
    return tuple(found.values())
