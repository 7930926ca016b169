"""What a case exercises, found by looking at it (not by trusting its generator)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from polymap.ir.loopnest import Access, Apply, Expression, Operator, Statement, Workload, accesses_of
from polymap.ir.machine import Architecture, Fanout, Multicast
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal

BOX_FEATURES = (
    "window", "stride", "dilation", "negative coefficient", "diagonal", "bypass", "uneven", "interleaved",
    "two fan-outs with mixed policies", "several loops per fan-out", "partial tiles", "spatial partial tiles",
    "lower spatial loop above an upper node", "initial", "mixed bits", "reduction off", "union", "none",
    "bandwidth-limited",
)  # fmt: skip
GENERAL_FEATURES = ("constraints", "several accesses", "plain written array", "branch", "temporary")
# What only the cases of the long tally draw (tests.soak).
LONG_FEATURES = (
    "three ragged loops over a dim", "five ragged loops over a dim", "output window", "assignment reads its target",
    "target read elsewhere", "quotient", "choice", "product kept", "mixed element types", "narrow types",
    "extent over 1,000", "long energies", "odd bandwidths", "four fan-outs",
)  # fmt: skip
MANY_DIGITS = 6  # digits from which an energy is called long


@dataclass(frozen=True, slots=True)
class Path:
    """The way to one Compute: nodes, and per loop its trip count and the tile around it."""

    statement: Statement
    nodes: tuple[Storage | Temporal | Spatial, ...]
    trips: tuple[int, ...]
    enclosing: tuple[int, ...]


def paths(workload: Workload, mapping: Mapping) -> tuple[Path, ...]:
    found: list[Path] = []

    def walk(nodes: tuple[MappingNode, ...], above: tuple[Storage | Temporal | Spatial, ...]) -> None:
        for node in nodes:
            match node:
                case Compute(name):
                    found.append(_measured(workload, workload.statement(name), above))
                case Branch(children):
                    for child in children:
                        walk(child, above)
                case _:
                    above = (*above, node)

    walk(mapping.nodes, ())
    return tuple(found)


def _measured(workload: Workload, statement: Statement, nodes: tuple[Storage | Temporal | Spatial, ...]) -> Path:
    tiles = workload.extents()
    trips: list[int] = []
    enclosing: list[int] = []
    for node in nodes:
        if isinstance(node, Storage):
            trips.append(1)
            enclosing.append(1)
            continue
        enclosing.append(tiles[node.dim])
        trips.append(-(-tiles[node.dim] // node.tile))
        tiles[node.dim] = min(node.tile, tiles[node.dim])
    return Path(statement, nodes, tuple(trips), tuple(enclosing))


def features_of(workload: Workload, arch: Architecture, mapping: Mapping) -> frozenset[str]:
    """Return the features that the case exercises; loops of one iteration exercise nothing."""
    found = _workload_features(workload) | _statement_features(workload) | machine_features(arch)
    if any(level.bandwidth_bits_per_cycle or level.read_bandwidth_bits_per_cycle for level in arch.levels):
        found.add("bandwidth-limited")
    ways = paths(workload, mapping)
    if len(ways) > 1:
        found.add("branch")
    for path in ways:
        found |= _loop_features(arch, path) | _storage_features(arch, path)
    return frozenset(found)


def _workload_features(workload: Workload) -> set[str]:
    found: set[str] = set()
    for statement in workload.statements:
        kept = {dim for index in statement.target.index for dim in index.dims}
        for access in (statement.target, *statement.reads):
            found |= _access_features(access, kept)
        if statement.constraints:
            found.add("constraints")
        names = {access.tensor for access in (statement.target, *statement.reads)}
        if any(len(accesses_of(statement, name)) > 1 for name in names):
            found.add("several accesses")
        if statement.operator is Operator.ASSIGN:
            found.add("plain written array")
    written = {each.target.tensor for each in workload.statements}
    if any(access.tensor in written for each in workload.statements for access in each.reads):
        found.add("plain written array")
    if any(tensor.initial for tensor in workload.tensors):
        found.add("initial")
    if any(tensor.temporary for tensor in workload.tensors):
        found.add("temporary")
    if len({tensor.bits for tensor in workload.tensors}) > 1:
        found.add("mixed bits")
    return found


def _statement_features(workload: Workload) -> set[str]:
    found: set[str] = set()
    for statement in workload.statements:
        elsewhere = [read for read in statement.reads if read.tensor == statement.target.tensor]
        if statement.target in elsewhere and statement.operator is Operator.ASSIGN:
            found.add("assignment reads its target")
        if any(read != statement.target for read in elsewhere):
            found.add("target read elsewhere")
        if any(len(index.dims) > 1 for index in statement.target.index):
            found.add("output window")
        operations = set(_operations(statement.expression))
        found |= {"quotient"} if "/" in operations else set()
        found |= {"choice"} if operations & {"?:", "max", "min", "fmax", "fmin"} else set()
        found |= {"product kept"} if statement.operator is Operator.MULTIPLY else set()
    types = {tensor.element_type for tensor in workload.tensors}
    if len(types) > 1:
        found.add("mixed element types")
    if any(kind is not None and kind.endswith(("int8", "int16")) for kind in types):
        found.add("narrow types")
    if max(workload.extents().values(), default=1) > 1000:
        found.add("extent over 1,000")
    return found


def _operations(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Apply):
        yield expression.operation
        for argument in expression.arguments:
            yield from _operations(argument)


def machine_features(arch: Architecture) -> set[str]:
    found: set[str] = set()
    energies = [energy for level in arch.levels for energy in (level.read_pj, level.write_pj)]
    if any(energy.denominator >= 10 ** (MANY_DIGITS - 1) or energy >= 10**MANY_DIGITS for energy in energies):
        found.add("long energies")
    widths = [
        width
        for level in arch.levels
        for width in (level.bandwidth_bits_per_cycle, level.read_bandwidth_bits_per_cycle)
        if width is not None
    ]
    if any(width.denominator % 7 == 0 or width.denominator % 997 == 0 for width in widths):
        found.add("odd bandwidths")
    if len(arch.fanouts) > 3:
        found.add("four fan-outs")
    return found


def _access_features(access: Access, kept: set[str]) -> set[str]:
    found: set[str] = set()
    for index in access.index:
        terms = index.coefficients()
        if any(factor < 0 for factor in terms.values()):
            found.add("negative coefficient")
        if len(terms) > 1:
            found.add("window")
            found |= {"stride" for dim, factor in terms.items() if abs(factor) > 1 and dim in kept}
            found |= {"dilation" for dim, factor in terms.items() if abs(factor) > 1 and dim not in kept}
    for one, other in combinations(access.index, 2):
        if set(one.dims) & set(other.dims):
            found.add("diagonal")
    return found


def _loop_features(arch: Architecture, path: Path) -> set[str]:
    found: set[str] = set()
    used: dict[str, int] = {}
    ragged: dict[str, int] = {}
    for node, trips, enclosing in zip(path.nodes, path.trips, path.enclosing, strict=True):
        if isinstance(node, Storage) or trips == 1:
            continue
        if enclosing % node.tile:
            found.add("partial tiles")
            ragged[node.dim] = ragged.get(node.dim, 0) + 1
            if isinstance(node, Spatial):
                found.add("spatial partial tiles")
        if isinstance(node, Spatial):
            used[node.fanout] = used.get(node.fanout, 0) + 1
    most = max(ragged.values(), default=0)
    found |= {"three ragged loops over a dim"} if most >= 3 else set()
    found |= {"five ragged loops over a dim"} if most >= 5 else set()
    fanouts: list[Fanout] = [fanout for fanout in arch.fanouts if fanout.name in used]
    if len({fanout.multicast for fanout in fanouts}) > 1:
        found.add("two fan-outs with mixed policies")
    if any(number > 1 for number in used.values()):
        found.add("several loops per fan-out")
    if any(not fanout.reduction for fanout in fanouts):
        found.add("reduction off")
    found |= {"union" for fanout in fanouts if fanout.multicast is Multicast.UNION}
    found |= {"none" for fanout in fanouts if fanout.multicast is Multicast.NONE}
    return found


def _storage_features(arch: Architecture, path: Path) -> set[str]:
    found: set[str] = set()
    loops_above = 0
    depths: dict[str, set[int]] = {}
    stored: dict[str, set[str]] = {}
    spread: set[str] = set()
    deepest = -1
    for node, trips in zip(path.nodes, path.trips, strict=True):
        if not isinstance(node, Storage):
            loops_above += trips > 1
            if isinstance(node, Spatial) and trips > 1:
                spread.add(node.fanout)
            continue
        index = arch.level_index(node.level)
        if index == 0:
            continue
        depths.setdefault(node.level, set()).add(loops_above)
        stored.setdefault(node.level, set()).update(node.tensors)
        if index < deepest:
            found.add("interleaved")
        deepest = max(deepest, index)
        if spread - {fanout.name for fanout in arch.fanouts_above(node.level)}:
            found.add("lower spatial loop above an upper node")
    if any(len(places) > 1 for places in depths.values()):
        found.add("uneven")
    accessed = {access.tensor for access in (path.statement.target, *path.statement.reads)}
    if any(accessed - stored.get(level.name, set()) for level in arch.levels[1:]):
        found.add("bypass")
    return found
