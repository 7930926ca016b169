"""The storage nodes of a tree without its loops: counted by the number of blocks between them, and drawn uniformly.

A canonical tree is B0 S1 B1 S2 ... Sm Bm (see `placement`): sets S of storage nodes, blocks B of loops. A skeleton is
S1 ... Sm with the blocks in which the used groups of fan-outs stand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product
from math import prod
from random import Random

from polymap.ir import BudgetError, Mistake
from polymap.schedules.placement import Group, Holding, Vector
from polymap.schedules.tuning import TUNING

# (tensor, level) of the nodes of a set
NodeSet = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BlockCount:
    """How many blocks a skeleton has. plain: without a group; parts: how many groups stand in each other block. first,
    last: whether the first and the last block are without a group."""

    plain: int
    parts: Vector
    last: bool
    first: bool = False


@dataclass(frozen=True, slots=True)
class Skeleton:
    """sets: the node sets, outermost first. units: per block (one more than sets) the groups that stand in it."""

    sets: tuple[NodeSet, ...]
    units: tuple[Vector, ...]


@dataclass(frozen=True, slots=True)
class _State:
    """levels: the innermost level that holds each tensor so far. placed: how many used groups stand further out."""

    levels: Vector
    placed: int


class Skeletons:
    """All skeletons in which exactly the groups `used` have spatial loops."""

    def __init__(self, holdings: tuple[Holding, ...], groups: tuple[Group, ...], used: Vector) -> None:
        self._holdings = holdings
        self._below = tuple(groups[g].below for g in used)
        self._used = used
        levels = [sum(holding.may) for holding in holdings]
        listed = prod(2 ** (most + 1) - 1 for most in levels)
        if listed > TUNING.most_sets:
            what = f"{listed:,} sets of storage nodes would be listed"
            raise BudgetError(Mistake("PM527", what, "Fewer levels, or levels that hold fewer tensors, leave fewer."))
        self._start = _State((0,) * len(holdings), 0)
        self.steps = cache(self._steps)
        self.counts = cache(self._counts)
        self._choices = cache(self._listed)

    def by_blocks(self) -> dict[BlockCount, int]:
        """Return the number of skeletons by their blocks."""
        totals: dict[BlockCount, int] = {}
        for blocks in self.counts(self._start):
            for first in (False, True):
                ends, _ = self._choices(self._start, replace(blocks, first=first))
                if ends:
                    totals[replace(blocks, first=first)] = ends[-1]
        return totals

    def draw(self, blocks: BlockCount, rng: Random) -> Skeleton:
        """Return one of the skeletons with these blocks, each as likely as any other."""
        sets: list[NodeSet] = []
        units: list[Vector] = []
        state = self._start
        totals, choices = self._choices(state, blocks)
        while True:
            choice = choices[bisect_right(totals, rng.randrange(totals[-1]))]
            if choice.after is None:
                units.append(self._used[state.placed :])
                return Skeleton(tuple(sets), tuple(units))
            sets.append(choice.nodes)
            units.append(self._used[state.placed : choice.after.placed])
            state = choice.after
            if choice.following is None:
                choice.following = self._choices(state, choice.blocks)
            totals, choices = choice.following

    def _steps(self, state: _State) -> tuple[tuple[NodeSet, _State], ...]:
        """Return what the next set of nodes may be, and the state after it."""
        options = [_own_sets(holding, level) for holding, level in zip(self._holdings, state.levels, strict=True)]
        found: list[tuple[NodeSet, _State]] = []
        for choice in product(*options):
            heads = [own[0] for own in choice if own]
            if not heads:
                continue
            deepest = max(own[-1] for own in choice if own)
            placed = max([state.placed, *(i + 1 for i, below in enumerate(self._below) if below <= deepest)])
            if placed > state.placed and max(heads) < self._below[placed - 1]:
                continue  # no node of the set can stand first below the groups
            nodes = tuple((tensor, level) for tensor, own in enumerate(choice) for level in own)
            levels = tuple(own[-1] if own else before for own, before in zip(choice, state.levels, strict=True))
            found.append((nodes, _State(levels, placed)))
        return tuple(found)

    def _is_end(self, state: _State) -> bool:
        pairs = zip(self._holdings, state.levels, strict=True)
        return not any(any(holding.must[level:]) for holding, level in pairs)

    def _last(self, state: _State) -> BlockCount:
        left = len(self._used) - state.placed
        return BlockCount(0, (left,), last=False) if left else BlockCount(1, (), last=True)

    def _counts(self, state: _State) -> dict[BlockCount, int]:
        totals: dict[BlockCount, int] = {self._last(state): 1} if self._is_end(state) else {}
        for after, sets in Counter(after for _, after in self.steps(state)).items():
            for inner, ways in self.counts(after).items():
                blocks = _with_block(inner, after.placed - state.placed)
                totals[blocks] = totals.get(blocks, 0) + sets * ways
        return totals

    def _listed(self, state: _State, blocks: BlockCount) -> _Choices:
        """Return running totals of the ways to go on with exactly these blocks, and the choices they belong to.

        Of the first block it is said whether it has a group; of later ones that is open.
        """
        is_first = state is self._start
        ways: list[int] = []
        choices: list[_Choice] = []
        if (
            self._is_end(state)
            and replace(blocks, first=False) == self._last(state)
            and (not is_first or blocks.first == blocks.last)
        ):
            ways.append(1)
            choices.append(_Choice((), None, blocks))
        for nodes, after in self.steps(state):
            units = after.placed - state.placed
            inner = _without_block(blocks, units) if not is_first or blocks.first == (not units) else None
            count = self.counts(after).get(inner, 0) if inner else 0
            if count and inner:
                ways.append(count)
                choices.append(_Choice(nodes, after, inner))
        return list(accumulate(ways)), choices


@dataclass(slots=True)
class _Choice:
    """The next set of nodes, the state after it and the blocks that are left. after None: there is no further set."""

    nodes: NodeSet
    after: _State | None
    blocks: BlockCount
    following: _Choices | None = None


_Choices = tuple[list[int], list[_Choice]]


def _with_block(blocks: BlockCount, units: int) -> BlockCount:
    """Return the blocks with one more in front, of so many groups."""
    if units:
        return BlockCount(blocks.plain, (units, *blocks.parts), blocks.last)
    return BlockCount(blocks.plain + 1, blocks.parts, blocks.last)


def _without_block(blocks: BlockCount, units: int) -> BlockCount | None:
    """Return the blocks without the first one, of so many groups; None where there is none such."""
    if not units:
        return BlockCount(blocks.plain - 1, blocks.parts, blocks.last) if blocks.plain else None
    return BlockCount(blocks.plain, blocks.parts[1:], blocks.last) if blocks.parts[:1] == (units,) else None


@cache
def _own_sets(holding: Holding, before: int) -> tuple[Vector, ...]:
    """Return the sets of levels further in than `before` that one tensor may have in one set, () for none."""
    found: list[Vector] = [()]
    for last in range(before + 1, len(holding.may) + 1):
        if not holding.may[last - 1]:
            continue
        kept = [
            [(level,)] if holding.must[level - 1] else [(), (level,)] if holding.may[level - 1] else [()]
            for level in range(before + 1, last)
        ]
        if any(holding.must[level - 1] and not holding.may[level - 1] for level in range(before + 1, last)):
            continue
        found += [(*(level for part in parts for level in part), last) for parts in product(*kept)]
    return tuple(found)
