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
    chosen = _improve_choice(stays, arch, options, chosen)
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
    ways: list[Holding] = [()]
    for number in levels:
        level = arch.levels[number]
        if not level.may_hold(tensor):
            continue
        longer = [
            (*way, *((number, place) for place in places))
            for way in ways
            for places in _best_places(stays, arch, weights, tensor, number, way, deeper)
        ]
        if level.requires(tensor):
            ways = [way for way in longer if covers_users(stays, tensor.name, number, way)]
        else:
            ways += longer
    found = [option_of(stays, arch, weights, tensor, way) for way in ways]
    found.sort(key=lambda option: (option.cost, option.peaks))
    kept: list[Option] = []
    for option in found:
        if not any(all(a <= b for a, b in zip(each.peaks, option.peaks, strict=True)) for each in kept):
            kept.append(option)
    return kept


def _best_places(
    stays: Stays, arch: Architecture, weights: Weights, tensor: Tensor, level: int, way: Holding, deeper: int
) -> list[tuple[Place, ...]]:
    """Return the choices of places of one more level, no two on one way, that cost least for the most that they hold
    at a time: what is in one child of a branch is gone when the next one runs, so what places cost adds up, and of what
    they hold the most counts."""
    fitting = _fitting_places(stays, arch, tensor, level, way, deeper)
    without = option_of(stays, arch, weights, tensor, way).cost
    more = {place: option_of(stays, arch, weights, tensor, (*way, (level, place))).cost - without for place in fitting}
    peaks = {place: stays.count(tensor.name, place).peak for place in fitting}
    found: dict[tuple[Place, ...], None] = {}
    for most in sorted(set(peaks.values())):
        small = [place for place in fitting if peaks[place] <= most]
        found[_cheapest_places(stays, tensor.name, small, more, needed=arch.levels[level].requires(tensor))] = None
    return [places for places in found if places]


def _cheapest_places(
    stays: Stays, tensor: str, places: list[Place], more: dict[Place, Fraction], *, needed: bool
) -> tuple[Place, ...]:
    """Return the places, no two on one way, that cost least. more: what each adds to the cost. needed: every user of
    the tensor below a place that is looked at must be below one that is chosen; else a place that adds to the cost is
    left out."""
    outer = [place for place in places if not any(is_inside(place, one) and place != one for one in places)]
    chosen: list[Place] = []
    for place in outer:
        inner = [one for one in places if one != place and is_inside(one, place)]
        below = _cheapest_places(stays, tensor, inner, more, needed=needed) if inner else ()
        covered = sum(stays.is_user(number, tensor) for one in below for number in range(one.low, one.high))
        users = sum(stays.is_user(number, tensor) for number in range(place.low, place.high))
        least = sum((more[one] for one in below), Fraction(0))
        if needed and covered < users:
            chosen.append(place)
        elif not needed and min(more[place], least) >= 0:
            continue
        else:
            chosen += [place] if more[place] <= least else below
    return tuple(chosen)


def _fitting_places(
    stays: Stays, arch: Architecture, tensor: Tensor, level: int, way: Holding, deeper: int
) -> list[Place]:
    """Return, along every way into the tree, the outermost places at which the tensor fits and some below."""
    capacity = arch.levels[level].usable_bits
    found: list[Place] = []
    fits: dict[Place, int] = {}
    for place in stays.places(tensor.name):
        if not all(may_stand_below(place, outer) for _, outer in way):
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


def are_apart(place: Place, other: Place) -> bool:
    """Return whether two places are on no way together."""
    return place.high <= other.low or other.high <= place.low


def may_stand_below(place: Place, outer: Place) -> bool:
    """Return whether a node of an inner level may stand at a place if one of an outer level stands at another."""
    return is_inside(place, outer) or are_apart(place, outer)


def covers_users(stays: Stays, tensor: str, level: int, holding: Holding) -> bool:
    """Return whether every statement that uses the tensor is below a node of the level."""
    below = {number for at, place in holding if at == level for number in range(place.low, place.high)}
    users = {number for number in range(len(stays.shape.statements)) if stays.is_user(number, tensor)}
    return users <= below


def option_of(stays: Stays, arch: Architecture, weights: Weights, tensor: Tensor, holding: Holding) -> Option:
    """Return a way to hold a tensor with what it costs and holds: in different children of a branch one after the
    other."""
    peaks = [0] * len(arch.levels)
    for level, place in holding:
        peaks[level] = max(peaks[level], stays.count(tensor.name, place).peak * tensor.bits)
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


def _improve_choice(
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
