"""Which runs of a program's statements to cut into tiles of rows and columns, where windows stand between them: by an
estimate of what each moves at the outermost level beside a level of so much room.

In an iteration of the loops over tiles a run passes on its tensors an index of the other loops that all share at a
time; what it reads and writes for others is held for the iteration, throughout, or not at all, as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from polymap.ir import Access, Workload, accesses_of, bounds, part_of
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
            moved = _moved(part_of(cut, cut.statements[slice(*ends)]), len(chosen), room)
            if moved is not None:
                again = made_again(workload, cut)
                yield Tiling(moved + again * price, chosen, again)


def _moved(program: Workload, many: int, room: int) -> int | None:
    """Return how many bits a program in tiles moves at the outermost level; None where there is no room for what it
    passes on. many: loops over tiles, outermost."""
    extents, around = program.extents(), program.statements[-1].dims[:many]
    every = {
        each.name: [one for s in program.statements for one in accesses_of(s, each.name)] for each in program.tensors
    }
    written = {each.target.tensor for each in program.statements}
    passed = [name for name, accesses in every.items() if len(accesses) > 1 and name in written]
    shared = [
        name
        for name in extents
        if all(name in each.dims for each in program.statements)
        and all(name in each.dims for one in passed for each in every[one])
    ]
    tile = extents | dict.fromkeys(around, 1)
    inside, trips = tile | dict.fromkeys(shared, 1), prod(extents[name] for name in around)
    left = room - sum(max(_bits(program, each, inside) for each in every[name]) for name in passed)
    choices = list[list[tuple[int, int]]]()  # of each tensor: bits taken, bits moved
    for name, (access, *_) in every.items():
        if name not in passed:
            own, whole = _bits(program, access, tile), _bits(program, access, extents)
            again = prod(extents[one] for one in shared if one not in around and one not in access.dims)
            choices.append([(program.tensor(name).bits, trips * own * again), (own, trips * own), (whole, whole)])
    left -= sum(taken for ((taken, _), *_) in choices)
    while left >= 0:  # the one that saves most for its room
        gains = [
            (Fraction(at[0][1] - each[1], max(1, each[0] - at[0][0])), number, after)
            for number, at in enumerate(choices)
            for after, each in enumerate(at)
            if each[0] - at[0][0] <= left and each[1] < at[0][1]
        ]
        if not gains:
            return sum(at[0][1] for at in choices)
        _, number, after = max(gains)
        left -= choices[number][after][0] - choices[number][0][0]
        choices[number] = choices[number][after:]
    return None


def _bits(program: Workload, access: Access, extents: dict[str, int]) -> int:
    """Return the bits of the box that an access touches."""
    sides = (bounds(form, extents) for form in access.index)
    return program.tensor(access.tensor).bits * prod(high - low + 1 for low, high in sides)
