"""Every tree of a small program (docs/program_space.md), and the exact best storage nodes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise, permutations, product, takewhile
from math import factorial

from polymap.ir import Architecture, Tensor, Workload
from polymap.search.problem import divisors
from polymap.search.programs.counting import Holding
from polymap.search.programs.moves import common_loops
from polymap.search.programs.placement import Option, Weights, are_apart, covers_users, fits, may_stand_below, option_of
from polymap.search.programs.shapes import Loops, Nodes, Place, Shape
from polymap.search.programs.stays import Stays


def count_bound(workload: Workload) -> int:
    """Return a bound of how many shapes `every_shape` yields."""
    total = factorial(len(workload.statements))
    for each in workload.statements:
        total *= count_loops(workload, each.name) * (1 + 2 * len(each.dims))
    return total


def count_loops(workload: Workload, name: str) -> int:
    """Return how many `statement_loops` there are: with k of n dims tiled, the orders of n + k loops with the larger
    tile of each outside, (n + k)! / 2^k, times the choices of tiles."""
    extents = workload.extents()
    dims = [dim for dim in workload.statement(name).dims if extents[dim] > 1]
    tilings = [1]  # by k: the choices of k dims and a tile of each
    for dim in dims:
        larger = sum(1 < tile < extents[dim] for tile in divisors(extents[dim]))
        tilings = [same + larger * one for same, one in zip([*tilings, 0], [0, *tilings], strict=True)]
    return sum(count * factorial(len(dims) + k) // 2**k for k, count in enumerate(tilings))


def statement_loops(workload: Workload, name: str) -> Iterator[Loops]:
    """Yield the loops that a statement may have: over every dim one of tile 1, and at most one of a larger tile that
    divides the extent, in any order with larger tiles outside."""
    extents = workload.extents()
    dims = [dim for dim in workload.statement(name).dims if extents[dim] > 1]
    choices = [[(), *((tile,) for tile in divisors(extents[dim]) if 1 < tile < extents[dim])] for dim in dims]
    for tiles in product(*choices):
        chains = {dim: (*tile, 1) for dim, tile in zip(dims, tiles, strict=True)}
        yield from _interleave_loops(chains)


def _interleave_loops(chains: dict[str, tuple[int, ...]]) -> Iterator[Loops]:
    """Yield the loops of all dims in every order that keeps each dim's own."""
    if not any(chains.values()):
        yield ()
    for dim in sorted(chains):
        if chains[dim]:
            for rest in _interleave_loops({**chains, dim: chains[dim][1:]}):
                yield ((dim, chains[dim][0]), *rest)


def every_shape(workload: Workload) -> Iterator[Shape]:
    """Yield every shape: statements in any order, each with any loops, neighbours sharing as many leading ones as they
    have in common or fewer."""
    for names in permutations(each.name for each in workload.statements):
        for loops in product(*(tuple(statement_loops(workload, name)) for name in names)):
            common = [common_loops(one, other) for one, other in pairwise(loops)]
            for shared in product(*(range(count + 1) for count in common)):
                yield Shape(names, loops, shared)


def exact_nodes(
    stays: Stays, arch: Architecture, weights: Weights, beat: Fraction | None, stop: Callable[[], bool]
) -> tuple[Fraction, Nodes] | None:
    """Return the storage nodes that cost least within the capacities, and their cost; None where nothing costs less
    than `beat`."""
    accesses = stays.arrays.accesses
    tensors = [each for each in stays.arrays.workload.tensors if accesses[each.name].element.size]
    options = [every_option(stays, arch, weights, tensor, stop) for tensor in tensors]
    if not all(options):
        return None
    least = [sum((each[0].cost for each in options[place:]), Fraction(0)) for place in range(len(options) + 1)]
    best: tuple[Fraction, Nodes] | None = None

    def descend(place: int, cost: Fraction, nodes: Nodes) -> None:
        nonlocal best
        if place == len(options):
            best = cost, tuple(sorted(nodes, key=lambda node: arch.level_index(node[1])))
            return
        for option in options[place]:
            limit = best[0] if best is not None else beat
            if stop() or (limit is not None and cost + option.cost + least[place + 1] >= limit):
                return
            own = tuple((where, arch.levels[level].name, tensors[place].name) for level, where in option.holding)
            if fits(stays, arch, (*nodes, *own)):
                descend(place + 1, cost + option.cost, (*nodes, *own))

    descend(0, Fraction(0), ())
    return best


def every_option(
    stays: Stays, arch: Architecture, weights: Weights, tensor: Tensor, stop: Callable[[], bool]
) -> list[Option]:
    """Return every way to hold a tensor: on each way into the tree at most one node per level, each at or below those
    of the levels outside it; cheapest first. None where `stop` ends that."""
    ways: list[Holding] = [()]
    places = stays.places(tensor.name)
    for number, level in enumerate(arch.levels[1:], 1):
        if not level.may_hold(tensor):
            continue
        longer = [
            (*way, *((number, place) for place in apart))
            for way in takewhile(lambda _: not stop(), ways)
            for apart in _separate_places(
                [place for place in places if all(may_stand_below(place, one) for _, one in way)]
            )
        ]
        ways = [way for way in longer if not level.requires(tensor) or covers_users(stays, tensor.name, number, way)]
    found = [option_of(stays, arch, weights, tensor, way) for way in takewhile(lambda _: not stop(), ways)]
    return [] if stop() else sorted(found, key=lambda one: one.cost)


def _separate_places(places: list[Place]) -> Iterator[tuple[Place, ...]]:
    """Yield every choice of places of which no two are on one way."""
    if not places:
        yield ()
        return
    first, *others = places
    yield from _separate_places(others)
    for rest in _separate_places([place for place in others if are_apart(first, place)]):
        yield (first, *rest)
