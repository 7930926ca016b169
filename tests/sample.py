"""A random legal mapping: every legal canonical tree has a chance, none that is not legal has (capacity aside).

Not uniform: holders, the order of nodes, loops and tiles are drawn one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from polymap.ir import (
    Architecture,
    BudgetError,
    Compute,
    Mapping,
    MappingNode,
    Mistake,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.schedules.chains import TileRule
from polymap.schedules.loop_view import trip_count
from polymap.schedules.placement import Group, groups_of, holdings_of
from polymap.schedules.size import any_order_is_legal

Accept = Callable[[Mapping], bool]
TRIES = 10_000  # draws of which one has to be accepted
LOOP_CHANCE = 0.4  # that a dim has a temporal loop in a block


def sample_mapping(
    workload: Workload, arch: Architecture, tiles: TileRule | str, rng: Random, *, accept: Accept | None = None
) -> Mapping:
    """Return a random legal mapping of a single statement; capacity is not looked at.

    accept: mappings for which it says no are drawn again; give one that asks for capacity to get only mappings that
    fit. Where the dependences do not allow all orders of loops, they are asked for each draw.
    Raises BudgetError after 10,000 draws that were all refused.
    """
    assert len(workload.statements) == 1, "trees of several statements branch"
    possible = all(
        may or not must for h in holdings_of(workload, arch) for may, must in zip(h.may, h.must, strict=True)
    )
    free = any_order_is_legal(workload)
    for _ in range(TRIES if possible else 0):
        mapping = _drawn(workload, arch, TileRule(tiles), rng)
        if mapping is None:
            continue
        if (free or _keeps_dependences(workload, mapping)) and (accept is None or accept(mapping)):
            return mapping
    raise BudgetError(
        Mistake(
            "PM521",
            f"no acceptable mapping of '{workload.name}' on '{arch.name}' among {TRIES} random ones",
            "Larger capacities or fewer requirements (must_hold, holds, dims) leave more mappings.",
        )
    )


def _keeps_dependences(workload: Workload, mapping: Mapping) -> bool:
    from polymap.schedules.legality import dependence_violations  # isl, only where it is needed

    return not dependence_violations(workload, mapping)


@dataclass(slots=True)
class _Draw:
    """A tree while it is drawn, outermost node first. tile: what is left of each dim."""

    rule: TileRule
    rng: Random
    tile: dict[str, int]
    nodes: list[MappingNode] = field(default_factory=list[MappingNode])

    def shrink(self, dim: str, most_trips: int) -> int:
        """Take a random smaller tile for the dim, at most `most_trips` iterations; return the trips, 1 if none exists.

        Half of the time it is a dividing one: among any tiles these would be rare.
        """
        enclosing = self.tile[dim]
        tiles = range(-(-enclosing // most_trips), enclosing)
        dividing = [tile for tile in tiles if enclosing % tile == 0]
        few = self.rule is TileRule.DIVIDE or (bool(dividing) and self.rng.random() < 0.5)
        choice = dividing if few else tiles
        if not choice:
            return 1
        self.tile[dim] = self.rng.choice(choice)
        return trip_count(enclosing, self.tile[dim])

    def unit(self, group: Group) -> None:
        """Add the spatial loops of a group, by fan-out and dim."""
        dims = list(self.tile)
        for fanout in group.fanouts:
            room = fanout.size
            spread = self.rng.sample(dims, self.rng.randint(0, len(dims)))
            for dim in dims:
                if dim in spread and fanout.may_spread(dim):
                    trips = self.shrink(dim, room)
                    room //= trips
                    if trips > 1:
                        self.nodes.append(Spatial(dim, self.tile[dim], fanout.name))


def _drawn(workload: Workload, arch: Architecture, rule: TileRule, rng: Random) -> Mapping | None:
    """Return a random tree; None where the loops of the last block cannot be brought to tile 1."""
    order = _node_order(workload, arch, rng)
    groups = groups_of(arch)
    homes = [next((i for i, (_, level) in enumerate(order) if level >= g.below), len(order)) for g in groups]
    draw = _Draw(rule, rng, {dim.name: dim.extent for dim in workload.dims})
    looped: dict[str, int] = {}
    for position in range(len(order) + 1):
        looped = _draw_block(draw, [g for g, home in zip(groups, homes, strict=True) if home == position])
        if position < len(order):
            tensor, level = order[position]
            draw.nodes.append(Storage(arch.levels[level].name, (workload.tensors[tensor].name,)))
    if not _finished(draw, looped):
        return None
    return Mapping((*_tidied(workload, arch, draw.nodes), Compute(workload.statements[0].name)))


def _draw_block(draw: _Draw, units: Sequence[Group]) -> dict[str, int]:
    """Add a block: some dims in random order, the units anywhere. Return where the dims' loops stand."""
    items: list[str | Group] = [dim for dim in draw.tile if draw.rng.random() < LOOP_CHANCE]
    items += units
    draw.rng.shuffle(items)
    looped: dict[str, int] = {}
    for item in items:
        if isinstance(item, Group):
            draw.unit(item)
        elif draw.shrink(item, draw.tile[item]) > 1:
            looped[item] = len(draw.nodes)
            draw.nodes.append(Temporal(item, draw.tile[item]))
    return looped


def _finished(draw: _Draw, looped: dict[str, int]) -> bool:
    """Bring every tile down to 1 in the last block, whose loops stand where `looped` says; return whether it could."""
    for dim, tile in draw.tile.items():
        if tile == 1:
            continue
        place = looped.get(dim)
        if place is None:
            draw.nodes.append(Temporal(dim, 1))
        elif any(isinstance(node, Spatial) and node.dim == dim for node in draw.nodes[place:]):
            return False  # a second temporal loop over the dim in one block would be needed
        else:
            draw.nodes[place] = Temporal(dim, 1)
    return True


def _node_order(workload: Workload, arch: Architecture, rng: Random) -> list[tuple[int, int]]:
    """Return (tensor, level) of all nodes in a random order, each tensor's from the outside in."""
    chains: list[list[tuple[int, int]]] = []
    for number, holding in enumerate(holdings_of(workload, arch)):
        levels = enumerate(zip(holding.may, holding.must, strict=True), start=1)
        chains.append([(number, level) for level, (may, must) in levels if must or (may and rng.random() < 0.5)])
    turns = [number for number, chain in enumerate(chains) for _ in chain]
    rng.shuffle(turns)
    following = [iter(chain) for chain in chains]
    return [next(following[number]) for number in turns]


def _tidied(workload: Workload, arch: Architecture, nodes: Sequence[MappingNode]) -> list[MappingNode]:
    """Return the nodes with storage that has no loop between sorted by level, one node per level."""
    tidy: list[MappingNode] = []
    run: dict[int, list[str]] = {}
    for node in (*nodes, None):
        if isinstance(node, Storage):
            run.setdefault(arch.level_index(node.level), []).extend(node.tensors)
            continue
        for level in sorted(run):
            held = tuple(t.name for t in workload.tensors if t.name in run[level])
            tidy.append(Storage(arch.levels[level].name, held))
        run = {}
        if node is not None:
            tidy.append(node)
    return tidy


def one_node_per_tensor(mapping: Mapping) -> Mapping:
    """Return a mapping whose storage nodes hold one tensor each, those of a run in order."""
    nodes: list[MappingNode] = []
    run: list[Storage] = []
    for node in mapping.nodes:
        if isinstance(node, Storage):
            run += [Storage(node.level, (tensor,)) for tensor in node.tensors]
            continue
        nodes += sorted(run, key=lambda s: (s.level, s.tensors))
        run = []
        nodes.append(node)
    return Mapping(tuple(nodes))
