"""The effect of rules on a search: limits in its measure, and the check of a finished mapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from polymap.costmodel import Cost
from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Workload,
    accesses_of,
)
from polymap.search.problem.measure import Measure, measure_of, measure_with_limit, objective_value
from polymap.search.problem.objectives import Objective
from polymap.search.problem.rules import (
    AtLeast,
    AtMost,
    Factor,
    Held,
    Innermost,
    Intrinsic,
    Outermost,
    Outside,
    Rule,
    Rules,
    Span,
    Utilization,
    rule_text,
)


def measure_under(objective: Objective, workload: Workload, arch: Architecture, rules: Rules) -> Measure:
    """Return the compiled objective with the limits of the rules."""
    measure = measure_of(objective, workload, arch)
    for rule in rules:
        if isinstance(rule, AtMost):
            measure = measure_with_limit(measure, measure_of(rule.objective, workload, arch), rule.most)
    return measure


def refusals(workload: Workload, arch: Architecture, rules: Rules, mapping: Mapping, cost: Cost) -> tuple[str, ...]:
    """Return the reasons why a mapping is not an answer, a sentence each; () where it is one.

    They are the violations of the machine and of dependences (`cost.violations`), and the rules not met. Every answer
    is checked here.
    """
    broken = (rule for rule in rules if not _meets(workload, arch, rule, mapping, cost))
    return (*(violation.message for violation in cost.violations), *map(rule_text, broken))


def distance_from_rules(workload: Workload, arch: Architecture, rules: Rules, mapping: Mapping, cost: Cost) -> Fraction:
    """Return a measure of violation (0: all rules are met).

    A limit or a utilization counts by the share that is missing, any other rule that is not met counts 1.
    """
    found = Fraction(0)
    for rule in rules:
        if not _meets(workload, arch, rule, mapping, cost):
            found += _distance(workload, arch, rule, cost)
    return found


def _distance(workload: Workload, arch: Architecture, rule: Rule, cost: Cost) -> Fraction:
    """Return the violation of a rule that is not met."""
    match rule:
        case AtMost(objective, most) if most:
            return objective_value(workload, arch, objective, cost) / most - 1
        case Utilization(least):
            lanes = arch.compute.per_cycle * prod(fanout.size for fanout in arch.fanouts)
            return least * cost.compute_cycles * lanes / cost.instances - 1
        case _:
            return Fraction(1)


def _meets(workload: Workload, arch: Architecture, rule: Rule, mapping: Mapping, cost: Cost) -> bool:
    match rule:
        case Utilization(least):
            lanes = arch.compute.per_cycle
            for fanout in arch.fanouts:
                lanes *= fanout.size
            return cost.instances >= least * cost.compute_cycles * lanes
        case AtMost(objective, most):
            return objective_value(workload, arch, objective, cost) <= most
        case Held(level, tensor, True):
            users = (way for way in tree_paths(workload, mapping) if accesses_of(way.statement, tensor))
            return all(way.holds(level, tensor) for way in users)
        case Held(level, tensor, _):
            return not any(way.holds(level, tensor) for way in tree_paths(workload, mapping))
        case Outside() | Outermost() | Innermost() | Factor() | AtLeast() | Span() | Intrinsic():
            return all(_Loops(workload, arch, way).meets(rule) for way in tree_paths(workload, mapping))


@dataclass(frozen=True, slots=True)
class TreePath:
    """The nodes above one Compute node."""

    statement: Statement
    nodes: tuple[Storage | Temporal | Spatial, ...]

    def holds(self, level: str, tensor: str) -> bool:
        return any(isinstance(node, Storage) and node.level == level and tensor in node.tensors for node in self.nodes)


def tree_paths(workload: Workload, mapping: Mapping) -> tuple[TreePath, ...]:
    """Return the path to every statement, left to right."""
    return tuple(_tree_paths(workload, mapping.nodes, ()))


def _tree_paths(
    workload: Workload, nodes: tuple[MappingNode, ...], above: tuple[Storage | Temporal | Spatial, ...]
) -> Iterator[TreePath]:
    for node in nodes:
        match node:
            case Storage() | Temporal() | Spatial():
                above = (*above, node)
            case Compute():
                yield TreePath(workload.statement(node.statement), above)
            case Branch():
                for child in node.children:
                    yield from _tree_paths(workload, child, above)


class _Loops:
    """The loops of one path with more than one iteration: (dim, trips, fan-out).

    A rule about a dim that the statement does not have is met.
    """

    def __init__(self, workload: Workload, arch: Architecture, way: TreePath) -> None:
        self.arch, self.way, self.extents = arch, way, workload.extents()
        tiles = dict(self.extents)
        self.rows: list[tuple[str, int, str | None]] = []
        for node in way.nodes:
            if not isinstance(node, Storage):
                trips = -(-tiles[node.dim] // node.tile)
                tiles[node.dim] = min(node.tile, tiles[node.dim])
                if trips > 1:
                    self.rows.append((node.dim, trips, getattr(node, "fanout", None)))
        self.order = [dim for dim, _, fanout in self.rows if fanout is None]

    def meets(self, rule: Outside | Outermost | Innermost | Factor | AtLeast | Span | Intrinsic) -> bool:
        match rule:
            case Outside(outer, inner):
                return inner not in self.order or outer not in self.order[self.order.index(inner) :]
            case Outermost(dims):
                return _begins_with(list(dict.fromkeys(self.order)), dims)
            case Innermost(dims):
                return _begins_with(list(dict.fromkeys(reversed(self.order))), tuple(reversed(dims)))
            case Factor(fanout, dim, least, most):
                own = (trips for name, trips, over in self.rows if (name, over) == (dim, fanout))
                factor = prod(own)
                enough = least <= factor or dim not in self.way.statement.dims
                return enough and (most is None or factor <= most)
            case AtLeast(level, tensor, elements):
                return all(self._spanned_elements(tensor, place) >= elements for place in self._places(level, tensor))
            case Span(level, tensor, at, dim, least, most):
                places = self._places(level, tensor)
                return all(least <= max(self._covered_indices(dim, place, at)) <= most for place in places)
            case Intrinsic(dim, size):
                if dim not in self.way.statement.dims:
                    return True
                inner = [p for p, n in enumerate(self.way.nodes) if isinstance(n, Storage) and self._is_inner(n)]
                tiles = {self.extents[dim]}.union(*(self._covered_indices(dim, place) for place in inner))
                return all(count % size == 0 for count in tiles)  # the outermost level's tile is the whole

    def _places(self, level: str, tensor: str) -> list[int]:
        """Return where the tensor's nodes in a level stand."""
        nodes = enumerate(self.way.nodes)
        return [place for place, n in nodes if isinstance(n, Storage) and n.level == level and tensor in n.tensors]

    def _spanned_elements(self, tensor: str, place: int) -> int:
        """Return the elements of the tensor that a full tile of a storage node spans."""
        accesses = accesses_of(self.way.statement, tensor)
        dims = {dim for access in accesses for index in access.index for dim in index.dims}
        return prod(max(self._covered_indices(dim, place)) for dim in sorted(dims))

    def _is_inner(self, node: Storage) -> bool:
        return node.level != self.arch.levels[0].name

    def _covered_indices(self, dim: str, place: int, at: str | None = None) -> set[int]:
        """Return the numbers of indices of the dim that the tiles of a storage node cover, smaller last tiles included;
        at: those that the instances below one of another level cover together.

        Temporal loops above the node and spatial loops over fan-outs above its level select one piece. Of a dim spread
        below its level, the node covers all pieces.
        """
        store = self.way.nodes[place]
        assert isinstance(store, Storage)
        above = {fanout.name for fanout in self.arch.fanouts_above(at or store.level)}
        tiles: set[Pieces] = {((self.extents[dim], 1),)}
        for node in self.way.nodes[:place]:
            if isinstance(node, Storage) or node.dim != dim:
                continue
            if isinstance(node, Temporal) or node.fanout in above:
                tiles = {one for tile in tiles for one in _covered_by_iteration(tile, node.tile)}
            else:
                tiles = {_cut_into_tiles(tile, node.tile) for tile in tiles}
        return {sum(length * count for length, count in tile) for tile in tiles}


Pieces = tuple[tuple[int, int], ...]  # (length, how many of them), side by side


def _covered_by_iteration(pieces: Pieces, tile: int) -> Iterator[Pieces]:
    """Yield the pieces that an iteration of a loop with this tile covers, each distinct result once.

    Iteration i covers part i of every piece that is long enough.
    """
    longest = max(length for length, _ in pieces)
    numbers = {n for length, _ in pieces for n in (length // tile - 1, length // tile, length // tile + 1)}
    for number in sorted(n for n in numbers if 0 <= n < -(-longest // tile)):
        yield _merge_equal_lengths((min(tile, length - number * tile), count) for length, count in pieces)


def _cut_into_tiles(pieces: Pieces, tile: int) -> Pieces:
    """Return all pieces cut into parts of `tile` indices."""
    whole = ((min(tile, length), count * (length // tile)) for length, count in pieces)
    rest = ((length % tile, count) for length, count in pieces)
    return _merge_equal_lengths((*whole, *rest))


def _merge_equal_lengths(pieces: Iterable[tuple[int, int]]) -> Pieces:
    counts: dict[int, int] = {}
    for length, count in pieces:
        if length > 0 and count > 0:
            counts[length] = counts.get(length, 0) + count
    return tuple(sorted(counts.items()))


def _begins_with(order: list[str], dims: tuple[str, ...]) -> bool:
    wanted = [dim for dim in dims if dim in order]
    return order[: len(wanted)] == wanted
