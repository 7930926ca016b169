"""Where each array of a shape lives: the best storage nodes within the capacities, one choice per array."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from polymap.ir import Architecture, Tensor
from polymap.search.programs.counting import Holding, holdings, occupancy_bits, rows_of
from polymap.search.programs.shapes import Nodes, Place
from polymap.search.programs.stays import Stays
from polymap.search.programs.tuning import TUNING


@dataclass(frozen=True, slots=True)
class Weights:
    """What a bit read and a bit written cost per level."""

    read: tuple[Fraction, ...]
    write: tuple[Fraction, ...]

    def cost(self, bits: int, rows: dict[int, tuple[int, int, int, int]]) -> Fraction:
        total = Fraction(0)
        for level, (reads, writes, _, _) in rows.items():
            total += bits * (self.read[level] * reads + self.write[level] * writes)
        return total


@dataclass(frozen=True, slots=True)
class Option:
    """One choice for a tensor: what it costs, its nodes, and the most bits it holds per level."""

    cost: Fraction
    holding: Holding
    peaks: tuple[int, ...]


def best_nodes(
    stays: Stays,
    arch: Architecture,
    weights: Weights,
    floors: dict[str, Fraction],
    beat: Fraction | None = None,
    *,
    levels: tuple[int, ...],
) -> tuple[Fraction, Nodes] | None:
    """Return the storage nodes that cost least within the capacities, and their cost.

    Among choices whose peaks fit together, then each tensor again as what is really held at a time allows. floors: what
    each tensor costs at least. levels: those that may hold something, besides the outermost. None where what must be
    held does not fit, or nothing costs less than `beat`.
    """
    accesses = stays.arrays.accesses
    tensors = [each for each in stays.arrays.workload.tensors if accesses[each.name].element.size]
    tensors.sort(key=lambda each: -accesses[each.name].element.size)
    left = sum((floors[tensor.name] for tensor in tensors), Fraction(0))
    options: dict[str, list[Option]] = {}
    for tensor in tensors:
        options[tensor.name] = _options(stays, arch, weights, tensor, levels, 0)
        if not options[tensor.name]:
            return None
        left += options[tensor.name][0].cost - floors[tensor.name]
        if beat is not None and left >= beat:
            return None  # the outermost place at which a tensor fits is the best for it alone
    chosen = _knapsack(arch, options)
    if chosen is None or sum((each.cost for each in chosen.values()), Fraction(0)) > left:
        for tensor in tensors:
            options[tensor.name] = _options(stays, arch, weights, tensor, levels, TUNING.places_deeper)
        chosen = _knapsack(arch, options)
    if chosen is None:
        return None
    chosen = _improved(stays, arch, options, chosen)
    return sum((option.cost for option in chosen.values()), Fraction(0)), _nodes(arch, chosen)


def _nodes(arch: Architecture, chosen: dict[str, Option]) -> Nodes:
    """Return the nodes of a choice, outermost levels first."""
    nodes = [
        (place, arch.levels[level].name, tensor) for tensor, option in chosen.items() for level, place in option.holding
    ]
    return tuple(sorted(nodes, key=lambda node: arch.level_index(node[1])))


def _options(
    stays: Stays, arch: Architecture, weights: Weights, tensor: Tensor, levels: tuple[int, ...], deeper: int
) -> list[Option]:
    """Return the choices of a tensor that no other one is as good as in all respects, cheapest first."""
    found = [option_of(stays, arch, weights, tensor, ())]
    ways: list[Holding] = [()]
    for number in levels:
        level = arch.levels[number]
        longer: list[Holding] = []
        for way in ways:
            if level.may_hold(tensor):
                for place in _fitting(stays, arch, tensor, number, way[-1][1] if way else None, deeper):
                    longer.append((*way, (number, place)))
        if level.requires(tensor):
            ways, found = longer, []
        else:
            ways += longer
        found += [option_of(stays, arch, weights, tensor, way) for way in longer]
    found.sort(key=lambda option: (option.cost, option.peaks))
    kept: list[Option] = []
    for option in found:
        if not any(all(a <= b for a, b in zip(each.peaks, option.peaks, strict=True)) for each in kept):
            kept.append(option)
    return kept


def _fitting(
    stays: Stays, arch: Architecture, tensor: Tensor, level: int, inside: Place | None, deeper: int
) -> list[Place]:
    """Return, along every way into the tree, the outermost places at which the tensor fits and some below."""
    capacity = arch.levels[level].usable_bits
    found: list[Place] = []
    fits: dict[Place, int] = {}
    for place in stays.places(tensor.name):
        if inside is not None and not is_inside(place, inside):
            continue
        above = [count for other, count in fits.items() if is_inside(place, other)]
        if above and max(above) >= deeper:
            continue
        if capacity is None or stays.count(tensor.name, place).peak * tensor.bits <= capacity:
            fits[place] = max(above, default=-1) + 1
            found.append(place)
    return found


def is_inside(place: Place, other: Place) -> bool:
    """Return whether a place stands at another one or below it."""
    return other.low <= place.low and place.high <= other.high and other.depth <= place.depth


def option_of(stays: Stays, arch: Architecture, weights: Weights, tensor: Tensor, holding: Holding) -> Option:
    """Return a way to hold a tensor with what it costs and holds."""
    peaks = [0] * len(arch.levels)
    for level, place in holding:
        peaks[level] = stays.count(tensor.name, place).peak * tensor.bits
    return Option(weights.cost(tensor.bits, rows_of(stays, tensor.name, holding)), holding, tuple(peaks))


def _knapsack(arch: Architecture, options: dict[str, list[Option]]) -> dict[str, Option] | None:
    """Return the cheapest choice whose peaks fit together."""
    capacities = tuple(level.usable_bits for level in arch.levels)
    states: list[tuple[Fraction, tuple[int, ...], tuple[Option, ...]]] = [(Fraction(0), (0,) * len(capacities), ())]
    for choices in options.values():
        grown = [
            (cost + option.cost, used, (*taken, option))
            for cost, before, taken in states
            for option in choices
            for used in (tuple(a + b for a, b in zip(before, option.peaks, strict=True)),)
            if all(room is None or bits <= room for bits, room in zip(used, capacities, strict=True))
        ]
        grown.sort(key=lambda state: state[:2])
        states = []
        for state in grown:
            if len(states) == TUNING.partial_choices:
                break
            if not any(all(a <= b for a, b in zip(each[1], state[1], strict=True)) for each in states[-200:]):
                states.append(state)
    if not states:
        return None
    return dict(zip(options, states[0][2], strict=True))


def _improved(
    stays: Stays, arch: Architecture, options: dict[str, list[Option]], chosen: dict[str, Option]
) -> dict[str, Option]:
    """Return the choice with single tensors held better where the level has room at the time."""
    for _ in range(2):
        before = dict(chosen)
        for tensor, choices in options.items():
            for option in choices:
                if option.cost >= chosen[tensor].cost:
                    break
                if fits(stays, arch, _nodes(arch, chosen | {tensor: option})):
                    chosen = chosen | {tensor: option}
                    break
        if chosen == before:
            break
    return chosen


def fits(stays: Stays, arch: Architecture, nodes: Nodes) -> bool:
    """Return whether every level has room for its nodes at all times."""
    held = holdings(arch, nodes)
    return all(
        level.usable_bits is None or occupancy_bits(stays, held, number) <= level.usable_bits
        for number, level in enumerate(arch.levels)
        if number
    )
