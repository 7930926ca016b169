"""Which runs of a program's statements to cut into tiles of rows and columns, where windows stand between them: by an
estimate of what each moves at the outermost level beside a level of so much room.

In an iteration of the loops over tiles a run passes on its tensors an index of the other loops that all share at a
time; what it reads and writes for others is held for the iteration, throughout, or not at all, as there is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from polymap.ir import Access, Statement, Workload, accesses_of, bounds, part_of
from polymap.search.problem import divisors
from polymap.search.programs.tuning import TUNING
from polymap.search.programs.windows import in_tiles, made_again

Ends = tuple[int, int]  # the number of a run's first statement, and of the one after its last


@dataclass(frozen=True, slots=True)
class Tiling:
    """Dims of what a run ends in, outermost first, with their tiles; none where it stays whole. moved: bits at the
    outermost level, as estimated, and what costs as much as instances made again, of which it has so many more."""

    moved: Fraction
    tiles: tuple[tuple[str, int], ...] = ()
    again: int = 0

    def of(self, workload: Workload, ends: Ends) -> Workload | None:
        """Return the program with the run in these tiles; None where it has none."""
        found: Workload | None = workload
        for name, tile in self.tiles:
            found = None if found is None else in_tiles(found, name, tile, ends)
        return found


def best_tilings(workload: Workload, room: int, price: Fraction, most_dims: int = 2) -> dict[Ends, Tiling]:
    """Return the best tilings of the runs of statements, alone and in tiles. room: bits of the level inside. price:
    bits at the outermost level that cost what an instance does."""
    statements, found = workload.statements, dict[Ends, Tiling]()
    for end in range(1, len(statements) + 1):
        alone = part_of(workload, statements[end - 1 : end])
        accesses = [accesses_of(alone.statements[0], each.name)[0] for each in alone.tensors]
        found[end - 1, end] = Tiling(Fraction(sum(_bits(alone, each, alone.extents()) for each in accesses)))
        for begin in range(max(0, end - TUNING.most_in_tiles), end - 1):
            tried = _tilings_of(workload, (begin, end), room, price, most_dims)
            least = min(tried, key=lambda each: (each.moved, each.again), default=None)
            found |= {} if least is None else {(begin, end): least}
    return found


def _tilings_of(workload: Workload, ends: Ends, room: int, price: Fraction, most_dims: int) -> Iterator[Tiling]:
    """Yield the tilings of a run, by one dim or more, for which there is room."""
    end, extents = workload.statements[ends[1] - 1].target, workload.extents()
    dims = [name for name in end.dims if name in end.dims_alone and in_tiles(workload, name, 1, ends) is not None]
    for tiles in product(*(divisors(extents[name]) for name in dims[:most_dims])):
        chosen = tuple((name, tile) for name, tile in zip(dims, tiles, strict=False) if tile < extents[name])
        cut = Tiling(Fraction(0), chosen).of(workload, ends) if chosen else None
        if cut is not None:
            plan = tile_plan(part_of(cut, cut.statements[slice(*ends)]), len(chosen), room)
            if plan is not None:
                again = made_again(workload, cut)
                yield Tiling(plan.moved + again * price, chosen, again)


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours of a run in tiles below loops of their own, over dims that all of them have and that index all that
    they alone pass on (kept)."""

    statements: tuple[Statement, ...]
    shared: tuple[str, ...]
    kept: tuple[str, ...]

    @staticmethod
    def of(program: Workload, statements: tuple[Statement, ...], around: tuple[str, ...]) -> Group:
        """Return neighbours as a group. around: loops over tiles."""
        written = dict.fromkeys(each.target.tensor for each in statements)
        kept = tuple(
            name
            for name in written
            if sum(bool(accesses_of(each, name)) for each in statements) > 1
            and all(each in statements for each in program.statements if accesses_of(each, name))
        )
        touched = [access.dims for each in statements for name in kept for access in accesses_of(each, name)]
        have = [each.dims for each in statements] + touched
        own = (name for name in program.extents() if kept and name not in around)
        return Group(statements, tuple(name for name in own if all(name in dims for dims in have)), kept)


@dataclass(frozen=True, slots=True)
class TilePlan:
    """What a run in tiles moves at the outermost level (bits), where it holds of some tensors a tile below so many of
    its loops over tiles (places), and passes on what no group keeps (between) a tile at a time."""

    moved: int
    around: tuple[str, ...]
    groups: tuple[Group, ...]
    between: tuple[str, ...]
    places: dict[str, int]


def _groups(program: Workload, around: tuple[str, ...]) -> tuple[Group, ...]:
    """Return the groups of a run in tiles: all of it, if it has more loops in common, else the longest that do."""
    found, rest = list[Group](), program.statements
    while rest:
        groups = (Group.of(program, rest[:many], around) for many in range(len(rest), 0, -1))
        group = next(each for each in groups if each.shared or len(each.statements) == 1)
        found.append(group)
        rest = rest[len(group.statements) :]
    return tuple(found)


def tile_plan(program: Workload, many: int, room: int) -> TilePlan | None:
    """Return what a program in tiles is estimated to hold beside a level of so many bits; None where there is no room
    for what it passes on. many: loops over tiles, outermost."""
    extents, around = program.extents(), program.statements[-1].dims[:many]
    groups, every = _groups(program, around), dict[str, list[Access]]()
    for each in program.tensors:
        every[each.name] = [one for s in program.statements for one in accesses_of(s, each.name)]
    written = {each.target.tensor for each in program.statements}
    kept = [name for group in groups for name in group.kept]
    between = tuple(name for name, each in every.items() if len(each) > 1 and name in written and name not in kept)
    inside = [extents | dict.fromkeys(around[:place], 1) for place in range(many + 1)]

    def most(names: Iterable[str], ones: tuple[str, ...] = ()) -> int:
        tile = inside[-1] | dict.fromkeys(ones, 1)
        return sum(max(_bits(program, each, tile) for each in every[name]) for name in names)

    left = room - most(between) - max(most(group.kept, group.shared) for group in groups)
    choices = dict[str, list[tuple[int, int, int | None]]]()  # of each tensor: bits taken, bits moved, loops around
    for name, (access, *_) in every.items():
        if name not in kept and name not in between:
            own = next(each.shared for each in groups if any(accesses_of(one, name) for one in each.statements))
            again = prod(extents[one] for one in own if one not in access.dims)
            again = 2 * again - 1 if name in written else again  # sums come back
            taken = [_bits(program, access, each) for each in inside]
            ways = [(taken[at], _passes(access, at, around, extents, taken), at) for at in range(many, -1, -1)]
            trips = prod(extents[one] for one in around)
            choices[name] = [(program.tensor(name).bits, trips * taken[-1] * again, None), *ways]
            left -= choices[name][0][0]
    while left >= 0:  # the one that saves most for its room
        gains = [
            (Fraction(at[0][1] - each[1], max(1, each[0] - at[0][0])), name, after)
            for name, at in choices.items()
            for after, each in enumerate(at)
            if each[0] - at[0][0] <= left and each[1] < at[0][1]
        ]
        if not gains:
            places = {name: at[0][2] for name, at in choices.items()}
            held = {name: place for name, place in places.items() if place is not None}
            return TilePlan(sum(at[0][1] for at in choices.values()), around, groups, between, held)
        _, name, after = max(gains)
        left -= choices[name][after][0] - choices[name][0][0]
        choices[name] = choices[name][after:]
    return None


def _passes(access: Access, place: int, around: tuple[str, ...], extents: dict[str, int], taken: Sequence[int]) -> int:
    """Return the bits moved of a tensor that is held below so many loops over tiles: along the innermost of these that
    moves its tile only what is new. taken: bits of the tile below each number of loops."""
    while place and around[place - 1] not in access.dims:
        place -= 1
    return prod(extents[name] for name in around[: max(0, place - 1)]) * taken[max(0, place - 1)]


def _bits(program: Workload, access: Access, extents: dict[str, int]) -> int:
    """Return the bits of the box that an access touches."""
    sides = (bounds(form, extents) for form in access.index)
    return program.tensor(access.tensor).bits * prod(high - low + 1 for low, high in sides)
