"""Random cases with many ragged loops over one dim, and with windows in the output."""

from __future__ import annotations

import random

from polymap.schedules.mapping import Compute, Mapping, Spatial
from polymap.workload.einsum import einsum
from polymap.workload.loopnest import Workload
from tests import cases
from tests.case_machines import wide_machine
from tests.cases import Case

# The first dim of each text gets the chain. Letters in capitals are coefficients.
CHAINED = (
    ("r", "O += A[r]"),
    ("r", "O[m] += A[r] * B[m]"),
    ("r", "O += A[r] * B[r]"),
    ("r", "O[m] += A[S*r] * B[m,r]"),
    ("p", "O[p] += I[p+D*r] * W[r]"),
    ("r", "O[p] += I[p+D*r] * W[r]"),
    ("p", "O[p] += A[p] * B[q]"),
    ("p", "O[S*p+q] += I[p] * W[q]"),
    ("q", "O[S*p+q] += W[q,r]"),
    ("r", "O[S*p+q] += W[q,r]"),
)
WINDOWED = (
    "O[2*p+q] += W[q,r]",
    "O[3*p+q] += A[p,r] * W[q]",
    "O[k,2*p+q] += A[p,r] * W[k,q,r]",
    "O[S*p+D*q] += W[q,r]",
    "O[S*p+D*r] += I[p] * W[r]",
    "O[k,S*p+r] += I[c,p] * W[k,c,r]",
    "O[S*p+r,S*q+s] += I[p,q] * W[r,s]",
    "O[k,p-r+6] += I[k,p] * W[r]",
    "O[p+q,r] += A[p,r] * B[q]",
    "O[S*p+q,p] += A[p,r] * B[q]",
    "O[3*p+5*r] += I[p] * W[r]",
)
MOST_INSTANCES = 200


def random_chain_case(rng: random.Random) -> Case:
    """Return a case with three to six loops that do something over one dim, most of them ragged."""
    chained, text = rng.choice(CHAINED)
    extent = rng.randrange(9, 65)
    workload = _workload(rng, text, {chained: extent}, MOST_INSTANCES // extent)
    tiles = {chained: _chain(rng, extent, rng.choice((3, 3, 4, 5, 5, 6)))}
    return _mapped(rng, workload, tiles, chained if rng.random() < 0.7 else None)


def random_output_window_case(rng: random.Random) -> Case:
    """Return a case whose output's index is a window: a transposed convolution, or sums of dims."""
    workload = _workload(rng, rng.choice(WINDOWED), {}, MOST_INSTANCES)
    extents = workload.extents()
    kept = {dim for index in workload.statements[0].target.index for dim in index.dims}
    reduced = [dim for dim in extents if extents[dim] > 2 and dim not in kept]
    any_dim = [dim for dim in extents if extents[dim] > 2]
    if not any_dim or rng.random() < 0.3:
        return _mapped(rng, workload, {}, None)
    spread = rng.choice(reduced if reduced and rng.random() < 0.7 else any_dim)
    return _mapped(rng, workload, {spread: _chain(rng, extents[spread], rng.choice((1, 2, 2, 3)))}, spread)


def _workload(rng: random.Random, text: str, extents: dict[str, int], room: int) -> Workload:
    for letter in ("S", "D"):
        text = text.replace(f"{letter}*", rng.choice(("", "2*", "2*", "3*")))
    dims = [letter for letter in dict.fromkeys(text) if letter.islower()]
    for dim in rng.sample(dims, len(dims)):
        if dim not in extents:
            extents[dim] = max(1, min(rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 7)), room))
            room //= extents[dim]
    text = text.replace("+=", rng.choice(("+=", "+=", "+=", "max=", "min=")))
    names = [letter for letter in dict.fromkeys(text) if letter.isupper()]
    bits = {name: rng.choice((4, 8, 16)) for name in names} if rng.random() < 0.4 else 8
    return einsum(text, bits=bits, initial=["O"] if rng.random() < 0.3 else [], sizes=extents)


def _chain(rng: random.Random, extent: int, loops: int) -> list[int]:
    """Return falling tiles that end at 1, of so many loops where they fit; ragged ones where there are any."""
    tiles: list[int] = []
    enclosing = extent
    while len(tiles) < loops - 1 and enclosing > 2:
        fitting = [tile for tile in range(2, enclosing) if -(-enclosing // tile) <= 4]
        ragged = [tile for tile in fitting if enclosing % tile]
        tiles.append(rng.choice(ragged if ragged and rng.random() < 0.85 else fitting))
        enclosing = tiles[-1]
    return [*tiles, 1]


def _mapped(rng: random.Random, workload: Workload, tiles: dict[str, list[int]], spread: str | None) -> Case:
    """Return the workload in a random tree; of the dim `spread` one loop is spatial, mostly the last, and the tensors
    are held below it.
    """
    arch = wide_machine(rng)
    dims = tuple(workload.extents())
    everywhere = frozenset(dims) if spread is None else frozenset[str]()
    loops = cases._loops(rng, workload, arch, dims, spreadable=everywhere, tiles=tiles)
    held = cases._held(rng, workload, arch)
    if spread is not None and arch.fanouts:
        own = [number for number, loop in enumerate(loops) if loop.dim == spread]
        chosen = own[-1] if rng.random() < 0.6 else rng.choice(own)
        fanout = rng.choice(arch.fanouts).name
        loops[chosen] = Spatial(spread, loops[chosen].tile, fanout)
        below = [
            level.name for level in arch.levels[1:] if fanout in [each.name for each in arch.fanouts_above(level.name)]
        ]
        held += [(level, tensor.name) for level in below[-1:] for tensor in workload.tensors if rng.random() < 0.8]
        order = [level.name for level in arch.levels]
        held = sorted(dict.fromkeys(held), key=lambda pair: order.index(pair[0]))
    nodes = cases._placed(rng, arch, loops, held)
    return cases._finished(rng, workload, arch, Mapping((*nodes, Compute(workload.statements[0].name))))
