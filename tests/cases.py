"""Random small workloads on random machines in random loop trees: what every referee test draws from.

    case = random_case(random.Random(seed))
    assert count_closed_form(case.workload, case.arch, case.mapping) == count_by_simulation(...)

Cases are readable (`check_mapping` accepts them), small (at most about 200 statement instances) and say what they
exercise (`features`). They may break dependences and capacities, never the sizes of fan-outs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod

from polymap.costmodel.counts import Counts
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from tests.case_features import features_of, paths
from tests.case_workloads import general_workload, parallel_dims, random_accumulation, random_self_product

Loop = Temporal | Spatial


@dataclass(frozen=True, slots=True)
class Case:
    """One workload, machine and loop tree, and the names of the features that it exercises."""

    workload: Workload
    arch: Architecture
    mapping: Mapping
    features: frozenset[str]
    truth: Callable[[], Counts | None] | None = field(default=None, compare=False)  # of a case too large to be walked


def random_case(rng: random.Random) -> Case:
    """Return one accumulation in a box: windows, strides, bypass, uneven nodes, partial tiles, fan-outs, ..."""
    return _random_box_case(rng, random_accumulation(rng))


def random_self_product_case(rng: random.Random) -> Case:
    """Return a product of a tensor with itself, with the same features."""
    return _random_box_case(rng, random_self_product(rng))


def _random_box_case(rng: random.Random, workload: Workload) -> Case:
    arch = random_machine(rng)
    dims = tuple(workload.extents())
    loops = _loops(rng, workload, arch, dims, spreadable=frozenset(dims))
    held = _held(rng, workload, arch)
    nodes = (*_placed(rng, arch, loops, held), Compute(workload.statements[0].name))
    return _finished(rng, workload, arch, Mapping(nodes))


def random_general_case(rng: random.Random) -> Case:
    """Return a case beyond that: constraints, several accesses, arrays read and written, two statements in a Branch.

    Spatial loops run only over dims along which no two instances share an element of an array of the plain rule.
    """
    workload = general_workload(rng)
    arch = random_machine(rng)
    mapping = _branched(rng, workload, arch) if len(workload.statements) > 1 else _single(rng, workload, arch)
    return _finished(rng, workload, arch, mapping)


def random_machine(rng: random.Random) -> Architecture:
    """Return two to four levels with up to three fan-outs between and below them (sizes are set later)."""
    nodes: list[Node] = [_level(rng, "DRAM", outermost=True)]
    names = ["L1", "L2", "L3"][: rng.choice((1, 2, 2, 2, 3))]
    fanouts = iter("XYZ")
    for name in names:
        nodes += _fanouts(rng, fanouts, (0, 0, 1, 2) if name == "L1" else (0, 1, 2, 2))
        nodes.append(_level(rng, name))
    nodes += _fanouts(rng, fanouts, (0, 0, 1))
    pj = Fraction(rng.randrange(1, 20), 10)
    compute = ComputeUnit("MAC", pj, rng.choice((1, 1, 1, 2)))
    return Architecture("random", (*nodes, compute), overlap=rng.random() < 0.7)


def _fanouts(rng: random.Random, names: Iterator[str], numbers: tuple[int, ...]) -> list[Node]:
    found: list[Node] = []
    for _ in range(rng.choice(numbers)):
        name = next(names, None)
        if name is not None:
            multicast = rng.choice((*Multicast, Multicast.IDENTICAL))
            found.append(Fanout(name, 1, multicast, rng.random() < 0.6))
    return found


def _level(rng: random.Random, name: str, *, outermost: bool = False) -> MemoryLevel:
    level = MemoryLevel(
        name,
        None if outermost or rng.random() < 0.5 else rng.randrange(20, 400),
        rng.choice((8, 16, 64)),
        Fraction(rng.randrange(0, 400), 4),
        Fraction(rng.randrange(0, 400), 10),
        Fraction(rng.randrange(0, 30), 10) if rng.random() < 0.3 else Fraction(0),
        buffering=1 if outermost else rng.choice((1, 1, 2)),
    )
    draw = rng.random()
    if draw < 0.2:
        return replace(level, bandwidth_bits_per_cycle=Fraction(rng.randrange(1, 200), 3))
    if draw < 0.3:
        read, write = Fraction(rng.randrange(1, 99), 2), Fraction(rng.randrange(1, 99), 5)
        return replace(level, read_bandwidth_bits_per_cycle=read, write_bandwidth_bits_per_cycle=write)
    return level


def _tiles(rng: random.Random, extent: int) -> list[int]:
    """Return the tiles of the loops over one dim, outermost first, ending at 1: dividing, ragged, or doing nothing."""
    tiles: list[int] = []
    enclosing = extent
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        if rng.random() < 0.12:
            tiles.append(enclosing + rng.randrange(3))
        elif enclosing > 2:
            divisors = [tile for tile in range(2, enclosing) if enclosing % tile == 0]
            ragged = not divisors or rng.random() < 0.3
            tiles.append(rng.randrange(2, enclosing) if ragged else rng.choice(divisors))
            enclosing = tiles[-1]
    return [*tiles, 1] if extent > 1 or rng.random() < 0.2 else tiles


def _loops(
    rng: random.Random,
    workload: Workload,
    arch: Architecture,
    dims: tuple[str, ...],
    *,
    spreadable: frozenset[str],
    tiles: dict[str, list[int]] | None = None,
) -> list[Loop]:
    """Return the loops over the dims in a random order in which each dim's tiles shrink."""
    extents = workload.extents()
    chains = {dim: list((tiles or {}).get(dim) or _tiles(rng, extents[dim])) for dim in dims}
    share = rng.choice((0.0, 0.3, 0.5, 0.6, 0.7)) if arch.fanouts else 0.0
    loops: list[Loop] = []
    while any(chains.values()):
        dim = rng.choice([dim for dim, chain in chains.items() for _ in chain])
        tile = chains[dim].pop(0)
        if dim in spreadable and rng.random() < share:
            loops.append(Spatial(dim, tile, rng.choice(arch.fanouts).name))
        else:
            loops.append(Temporal(dim, tile))
    if rng.random() < 0.3:  # spatial loops further out, so that inner levels find room below them
        loops = _outwards(loops)
    return loops


def _outwards(loops: list[Loop]) -> list[Loop]:
    """Move each spatial loop outwards past the loops over other dims that stand directly above it."""
    moved: list[Loop] = []
    for loop in loops:
        at = len(moved)
        while isinstance(loop, Spatial) and at > 0 and moved[at - 1].dim != loop.dim:
            at -= 1
        moved.insert(at, loop)
    return moved


def _held(rng: random.Random, workload: Workload, arch: Architecture) -> list[tuple[str, str]]:
    """Return which tensors are held where, as (level, tensor), the outer levels first."""
    share = rng.choice((0.4, 0.6, 0.8, 1.0))
    names = [tensor.name for tensor in workload.tensors]
    return [(level.name, name) for level in arch.levels[1:] for name in names if rng.random() < share]


def _placed(
    rng: random.Random, arch: Architecture, loops: list[Loop], held: list[tuple[str, str]]
) -> list[MappingNode]:
    """Return the loops with a Storage node per held pair (outer levels first), in random places that are allowed."""
    places: dict[int, list[Storage]] = {}
    lowest: dict[str, int] = {}
    for level, tensor in held:
        fanouts = {fanout.name for fanout in arch.fanouts_above(level)}
        spatial = [at for at, loop in enumerate(loops) if isinstance(loop, Spatial) and loop.fanout in fanouts]
        least = max(lowest.get(tensor, 0), max(spatial, default=-1) + 1)
        at = rng.randrange(least, len(loops) + 1)
        lowest[tensor] = at
        places.setdefault(at, []).append(Storage(level, (tensor,)))
    nodes: list[MappingNode] = []
    for at in range(len(loops) + 1):
        nodes += _joined(rng, places.get(at, []))
        nodes += loops[at : at + 1]
    return nodes


def _joined(rng: random.Random, stores: list[Storage]) -> list[MappingNode]:
    """Return nodes without a loop between them, some of one level joined."""
    joined: list[MappingNode] = []
    for store in stores:
        last = joined[-1] if joined else None
        if isinstance(last, Storage) and last.level == store.level and rng.random() < 0.5:
            joined[-1] = Storage(last.level, (*last.tensors, *store.tensors))
        else:
            joined.append(store)
    return joined


def _single(rng: random.Random, workload: Workload, arch: Architecture) -> Mapping:
    (statement,) = workload.statements
    loops = _loops(rng, workload, arch, statement.dims, spreadable=parallel_dims(workload))
    nodes = _placed(rng, arch, loops, _held(rng, workload, arch))
    return Mapping((*nodes, Compute(statement.name)))


def _branched(rng: random.Random, workload: Workload, arch: Architecture) -> Mapping:
    """Return two statements below a random number of shared loops."""
    extents = workload.extents()
    spreadable = parallel_dims(workload)
    # A loop above the branch over a dim that one statement lacks runs that statement in its first iteration.
    alone = rng.random() < 0.15
    shared = [dim for dim in extents if alone or all(dim in each.dims for each in workload.statements)]
    tiles = {dim: _tiles(rng, extents[dim]) for dim in extents}
    outer = {dim: tiles[dim][: rng.randrange(len(tiles[dim]) + 1)] for dim in shared}
    loops = _loops(rng, workload, arch, tuple(dim for dim in shared if outer[dim]), spreadable=spreadable, tiles=outer)
    children: list[tuple[list[Loop], str]] = []
    for statement in workload.statements:
        rest = {dim: tiles[dim][len(outer.get(dim, [])) :] for dim in statement.dims}
        dims = tuple(dim for dim in statement.dims if rest[dim])
        inside = _loops(rng, workload, arch, dims, spreadable=spreadable, tiles=rest)
        children.append((inside, statement.name))
    held = _held(rng, workload, arch)
    below = frozenset(loop.fanout for inside, _ in children for loop in inside if isinstance(loop, Spatial))
    return _with_branch(rng, workload, arch, loops, children, held, below)


def _with_branch(
    rng: random.Random,
    workload: Workload,
    arch: Architecture,
    loops: list[Loop],
    children: list[tuple[list[Loop], str]],
    held: list[tuple[str, str]],
    below: frozenset[str],
) -> Mapping:
    """Place a prefix of each tensor's nodes above the Branch, the rest in some children that access the tensor."""
    homes: dict[str, tuple[int, ...]] = {}
    outside: list[tuple[str, str]] = []
    inside: list[list[tuple[str, str]]] = [[] for _ in children]
    for level, tensor in held:
        users = [number for number, (_, name) in enumerate(children) if _uses(workload, name, tensor)]
        may_stand_above = not {fanout.name for fanout in arch.fanouts_above(level)} & below
        if tensor not in homes and may_stand_above and rng.random() < 0.6:
            outside.append((level, tensor))
            continue
        for home in homes.setdefault(tensor, some_of(rng, users)):
            inside[home].append((level, tensor))
    above = _placed(rng, arch, loops, outside)
    branch = Branch(
        tuple(
            (*_placed(rng, arch, child, inside[number]), Compute(name)) for number, (child, name) in enumerate(children)
        )
    )
    return Mapping((*above, branch))


def some_of(rng: random.Random, numbers: list[int]) -> tuple[int, ...]:
    """Return one or more of the numbers, in order."""
    return tuple(sorted(rng.sample(numbers, rng.randint(1, len(numbers)))))


def _uses(workload: Workload, statement: str, tensor: str) -> bool:
    found = workload.statement(statement)
    return any(access.tensor == tensor for access in (found.target, *found.reads))


def as_it_is(workload: Workload, arch: Architecture, mapping: Mapping) -> Case:
    return Case(workload, arch, mapping, features_of(workload, arch, mapping))


def _finished(rng: random.Random, workload: Workload, arch: Architecture, mapping: Mapping) -> Case:
    """Return the case with fan-outs that are large enough, some of them larger than needed."""
    sizes: dict[str, int] = {}
    for path in paths(workload, mapping):
        for fanout in arch.fanouts:
            loops = zip(path.nodes, path.trips, strict=True)
            needed = prod(trips for node, trips in loops if isinstance(node, Spatial) and node.fanout == fanout.name)
            sizes[fanout.name] = max(sizes.get(fanout.name, 1), needed)
    nodes = tuple(
        replace(node, size=sizes[node.name] + rng.choice((0, 0, 1))) if isinstance(node, Fanout) else node
        for node in arch.nodes
    )
    return as_it_is(workload, replace(arch, nodes=nodes), mapping)
