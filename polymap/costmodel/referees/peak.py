"""The peak of a level: the most bits that one of its instances holds at a time.

If the level's nodes are nested in one path of the loop tree, the bits held in a step are a sum of products of tables
over few columns each (`maximum.py`). Otherwise, and where an idle instance may keep a tile beside later tiles of other
nodes, the steps are walked.
"""

from __future__ import annotations

from itertools import combinations, permutations

from polymap.costmodel.referees.flow import Flow, before, unite_tables
from polymap.costmodel.referees.maximum import SumTerm, largest_sum
from polymap.costmodel.referees.set_tree import StatementRows, TileColumns, Tree
from polymap.costmodel.referees.tuning import TUNING
from polymap.ir import Affine, BudgetError, Mistake, PlaceRule
from polymap.poly import Columns, Table

Clock = tuple[int, ...]
Coordinates = tuple[int, ...]
Held = tuple[Flow, int]  # a place of the level, and the bits of an element


def coordinates(place: TileColumns, digits: tuple[int, ...], fanouts: int) -> Coordinates:
    """Return the position of an instance along each fan-out. digits: of its lanes, outermost first."""
    position = [0] * fanouts
    for lane, digit in zip(place.lanes, digits, strict=True):
        position[lane.fanout] = position[lane.fanout] * lane.trips + digit
    return tuple(position)


def peak_bits(tree: Tree, held: list[Held], fanouts: int) -> int:
    """Return the peak of one level. held: its nodes, each with the bits of an element.

    Raises BudgetError (PM494, PM499) where the maximum takes too many candidates or steps.
    """
    if all(_on_one_path(one, other) for (one, _), (other, _) in combinations(held, 2)):
        terms = [_terms(flow, bits) for flow, bits in held]
        together = largest_sum([term for each in terms for term in each])
        # An idle instance may still hold the tile of an earlier step. If letting each such node choose its step freely
        # gives no larger sum, no combination of stale tiles does.
        keeping = {
            one
            for one, other in permutations(range(len(held)), 2)
            if _may_keep_stale_tile(held[one][0], held[other][0])
        }
        if not keeping:
            return together
        apart = [
            _on_its_own_clock(each, held[number][0].place.clock, number) if number in keeping else each
            for number, each in enumerate(terms)
        ]
        if largest_sum([term for each in apart for term in each]) == together:
            return together  # no choice of kept tiles gives more
    return _peak_by_walk(tree, held, fanouts)


def _terms(flow: Flow, bits: int) -> list[SumTerm]:
    """Return the bits of a node's tile as a sum of products of tables over its clock and lanes."""
    return [(bits * scale, parts) for scale, parts in flow.tile.terms((*flow.place.clock, *flow.lanes))]


def _on_its_own_clock(terms: list[SumTerm], clock: Columns, number: int) -> list[SumTerm]:
    """Return the terms with the clock's columns renamed, so that the node's step is chosen independently of the
    others'."""
    names = {name: f"{name}_{number}" for name in clock}
    return [
        (factor, [(tuple(names.get(name, name) for name in columns), tally) for columns, tally in parts])
        for factor, parts in terms
    ]


def _on_one_path(one: Flow, other: Flow) -> bool:
    """Return whether one node's clock extends the other's, below the same spatial loops."""
    depth = min(len(one.place.clock), len(other.place.clock))
    return one.place.clock[:depth] == other.place.clock[:depth] and one.lanes == other.lanes


def _may_keep_stale_tile(keeper: Flow, other: Flow) -> bool:
    """Return whether an instance of `keeper` may hold a tile of an earlier step when the other node's tile changes.

    It does where it works at that value of the other's clock, has worked before, and is idle in the first step there.
    """
    box = len(keeper.leaves) == len(keeper.tree.leaves) == 1 and not keeper.leaves[0].statement.constraints
    if box or keeper.rule is not PlaceRule.READ_ONLY:
        return False  # in a box an instance that works in a view works in its first step
    clock, lanes = keeper.place.clock, keeper.lanes
    depth = min(len(clock), len(other.place.clock))
    works = keeper.tile.keep((*lanes, *clock))
    starts = keeper.clock_values.first(clock[:depth], clock[depth:])
    new = other.tile.keep((*lanes, *clock[:depth]))
    late = new.minus(works.join(starts).keep(new.columns))
    if late.is_empty():
        return False
    names = before(clock[:depth])
    earlier = works.keep(new.columns).rename(names)
    return not late.join(earlier).less(tuple(names.values()), tuple(names)).is_empty()


def _peak_by_walk(tree: Tree, held: list[Held], fanouts: int) -> int:
    """Return the peak by walking the steps at which some tile of the level changes."""
    sizes = [_sizes(flow.place, flow.tile, fanouts) for flow, _ in held]
    depth = max(len(flow.place.clock) for flow, _ in held)
    now: list[dict[Coordinates, int]] = [{} for _ in held]
    shown_clocks: list[Clock | None] = [None for _ in held]
    most = 0
    for view in _views(tree, depth):
        for number, (flow, bits) in enumerate(held):
            at, shown, scope = view[: len(flow.place.clock)], shown_clocks[number], flow.place.scope
            if at == shown:
                continue
            shown_clocks[number] = at
            found = {where: bits * size for where, size in sizes[number].get(at, {}).items()}
            goes_on = shown is not None and at[:scope] == shown[:scope]  # the same execution of a Branch's child
            now[number] = {**now[number], **found} if flow.rule is PlaceRule.READ_ONLY and goes_on else found
        total: dict[Coordinates, int] = {}
        for amounts in now:
            for where, amount in amounts.items():
                total[where] = total.get(where, 0) + amount
        most = max(most, *total.values()) if total else most
    return most


def _sizes(place: TileColumns, tile: Table, fanouts: int) -> dict[Clock, dict[Coordinates, int]]:
    """Return the elements held: clock -> position of the instance -> elements."""
    depth = len(place.clock)
    columns = (*place.clock, *(lane.column for lane in place.lanes))
    _check_length(tile.keep(columns))
    sizes: dict[Clock, dict[Coordinates, int]] = {}
    for key, size in tile.tally(columns).items():
        sizes.setdefault(key[:depth], {})[coordinates(place, key[depth:], fanouts)] = size
    return sizes


def _views(tree: Tree, depth: int) -> list[Clock]:
    """Return the values of the first `depth` components of the clock, in order, zeros beyond the end of a short
    clock."""
    names = tuple(f"t{place}" for place in range(depth))

    def leaf_rows(leaf: StatementRows) -> Table:
        clock = leaf.clock[:depth]
        values = [leaf.at(column) for column in clock] + [Affine()] * (depth - len(clock))
        return leaf.rows.computed(dict(zip(names, values, strict=True)))

    views = unite_tables(leaf_rows(leaf) for leaf in tree.leaves)
    _check_length(views)
    return sorted(views.tally(names))


def _check_length(rows: Table) -> None:
    length = rows.count()
    if length > TUNING.walked_tiles:
        what = f"the peak of a level needs {length:,} tiles looked at one by one, more than {TUNING.walked_tiles:,}"
        raise BudgetError(Mistake("PM499", what, "Smaller extents or larger tiles would help."))
