"""What one mapping costs over the tiles of two of its loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymap.costmodel.tables import evaluate_many
from polymap.inputs import answers_in_words, as_integer, shown
from polymap.ir import Mapping, Mistake, OptionError, Shown, Spatial, Temporal, Workload
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of


@dataclass(frozen=True, slots=True, repr=False)
class TileStudy(Shown):
    """The answer of `tiles`. across, up: what a loop is called, and its tiles, rising. energy_pj, fits:
    [up][across]; own: (across, up) of the mapping shown."""

    title: str
    across: tuple[str, tuple[int, ...]]
    up: tuple[str, tuple[int, ...]]
    energy_pj: tuple[tuple[float, ...], ...]
    fits: tuple[tuple[bool, ...], ...]
    own: tuple[int, int]


@answers_in_words
def tiles(workload: WorkloadLike, arch: ArchitectureLike, mapping: Mapping, across: int, up: int) -> TileStudy:
    """Return the costs when the tiles of two temporal loops (their numbers among all loops, outermost 0) vary over all
    that divide the enclosing tile and are divided by the next one inside; everything else stays. Of two loops over one
    dim each varies as if the other were not there: where the inner tile does not divide the outer one, it is partial.

    Raises OptionError for numbers that are those of no loop, or twice the same.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    loops = [node for node in mapping.nodes if isinstance(node, Temporal | Spatial)]
    numbers = (as_integer(across), as_integer(up))
    if len(set(numbers)) < 2 or not all(number is not None and 0 <= number < len(loops) for number in numbers):
        what = f"the loops are {shown(across)} and {shown(up)}"
        raise OptionError(Mistake("PM120", what, f"Expected two of the numbers 0 to {len(loops) - 1}."))
    choices = [_tiles(workload, loops, across, up), _tiles(workload, loops, up, across)]
    rows = [
        [a if n == across else b if n == up else loop.tile for n, loop in enumerate(loops)]
        for b in choices[1]
        for a in choices[0]
    ]
    costs = evaluate_many(workload, arch, mapping, np.array(rows, dtype=np.int64))
    shape = (len(choices[1]), len(choices[0]))
    pj, fits = costs.energy_pj.reshape(shape).tolist(), costs.legal.reshape(shape).tolist()
    names = [_name(loops, across, up), _name(loops, up, across)]
    return TileStudy(
        f"{workload.name} on {arch.name}: all else as in the mapping marked",
        (names[0], choices[0]),
        (names[1], choices[1]),
        tuple(map(tuple, pj)),
        tuple(map(tuple, fits)),
        (loops[across].tile, loops[up].tile),
    )


def _name(loops: list[Temporal | Spatial], number: int, other: int) -> str:
    """Return what a loop is called beside the other one: by its dim, and where both are over it by its place."""
    dim = loops[number].dim
    place = "" if loops[other].dim != dim else "outer " if number < other else "inner "
    return f"tile of the {place}loop over {dim}"


def _tiles(workload: Workload, loops: list[Temporal | Spatial], number: int, other: int) -> tuple[int, ...]:
    """Return the tiles that a loop may have between the loops over its dim outside and inside it, without `other`."""
    dim = loops[number].dim
    if all(loop.dim != dim for loop in loops[number + 1 :]):
        return (1,)  # the innermost loop over a dim ends at 1
    around = [(place, loop.tile) for place, loop in enumerate(loops) if loop.dim == dim and place != other]
    outer = [tile for place, tile in around if place < number]
    inner = [tile for place, tile in around if place > number]
    most, least = (outer or [workload.extents()[dim]])[-1], (inner or [1])[0]
    return tuple(tile for tile in range(least, most + 1) if most % tile == 0 and tile % least == 0)
