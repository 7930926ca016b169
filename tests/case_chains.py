"""Random cases of what general draws meet too rarely: long ragged chains over one dim, windows whose dims are spread.

case = chain_case(random.Random(seed))  # partial sums below three to six ragged loops over a dim
case = tower_case(random.Random(seed))  # a sum below ragged loops over two dims, siblings innermost
case = output_window_case(random.Random(seed))  # outputs that are windows: transposed convolutions
case = input_window_case(random.Random(seed))  # convolutions of one and two dims
case = returning_case(tiles)  # a window whose siblings take elements where no inner loop starts again
case = transposed_case(random.Random(seed))  # transposed convolutions on machines that their bandwidths slow down
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum
from tests import cases
from tests.case_machines import wide_machine
from tests.cases import Case
from tests.sample import sample_mapping

# The first dim of each text gets the longest chain. S and D before a star are coefficients.
CHAINED = (
    ("r", "O += A[r]"),
    ("r", "O += A[r] * B[k]"),
    ("r", "O[m] += A[m,r]"),
    ("r", "O[m] += A[r] * B[m]"),
    ("r", "O[m] += A[r] * B[m,c]"),
    ("r", "O += A[r] * B[r]"),
    ("r", "O[m] += A[S*r] * B[m,r]"),
    ("p", "O[p] += I[p+D*r] * W[r]"),
    ("r", "O[p] += I[p+D*r] * W[r]"),
    ("p", "O[p] += A[p] * B[q]"),
)
OUTPUT_WINDOWS = (
    "O[2*p+q] += W[q,r]",
    "O[3*p+q] += W[q,r]",
    "O[S*p+q] += I[p] * W[q]",
    "O[S*p+D*q] += W[q,r]",
    "O[p+q] += A[p,r] * W[q,r]",
    "O[3*p+q] += A[p,r] * W[q]",
    "O[k,2*p+q] += A[p,r] * W[k,q,r]",
    "O[2*p+q,m] += I[p,c] * W[q,c,m]",
    "O[S*p+D*r] += I[p] * W[r]",
    "O[3*p+5*r] += I[p] * W[r]",
    "O[k,S*p+r] += I[c,p] * W[k,c,r]",
    "O[S*p+r,S*q+s] += I[p,q] * W[r,s]",
    "O[k,p-r+6] += I[k,p] * W[r]",
    "O[p+q,r] += A[p,r] * B[q]",
    "O[S*p+q,p] += A[p,r] * B[q]",
)
INPUT_WINDOWS = (
    "O[k,p] += I[c,S*p+r] * W[k,c,r]",
    "O[k,p] += I[c,p-r+8] * W[k,c,r]",
    "O[p] += I[3*p-r+9] * W[r]",
    "O[p] += I[S*p+D*r] * W[r]",
    "O[k,p,q] += I[p+r,S*q+s] * W[k,r,s]",
)
MOST_INSTANCES = 200


def random_chain_case(rng: random.Random) -> Case:
    """Return a case with long chains of ragged loops over one dim or two."""
    return (chain_case if rng.random() < 0.7 else tower_case)(rng)


def chain_case(rng: random.Random) -> Case:
    """Return an accumulation with three to six loops that do something over one dim, most of them ragged."""
    chained, text = rng.choice(CHAINED)
    extent = rng.choice((rng.randrange(6, 20), rng.randrange(9, 65)))
    workload = _workload(rng, text, {chained: extent}, MOST_INSTANCES // extent)
    tiles = {chained: _chain(rng, extent, rng.choice((3, 3, 4, 5, 5, 6)))}
    return _mapped(rng, workload, tiles, chained)


def output_window_case(rng: random.Random) -> Case:
    """Return a case whose output's index is a window: a transposed convolution, or sums of dims."""
    workload = _workload(rng, rng.choice(OUTPUT_WINDOWS), {}, MOST_INSTANCES)
    extents = workload.extents()
    kept = {dim for index in workload.statements[0].target.index for dim in index.dims}
    long = [dim for dim in extents if extents[dim] > 2]
    reduced = [dim for dim in long if dim not in kept]
    spread = rng.choice(reduced if reduced and rng.random() < 0.6 else long or list(extents))
    return _mapped(rng, workload, {spread: _chain(rng, extents[spread], rng.choice((1, 2, 2, 3, 4)))}, spread)


def input_window_case(rng: random.Random) -> Case:
    """Return a convolution of one dim or two, any of its dims spread."""
    workload = _workload(rng, rng.choice(INPUT_WINDOWS), {"p": rng.randrange(3, 10)}, MOST_INSTANCES // 9)
    extents = workload.extents()
    tiles = {dim: _chain(rng, extents[dim], rng.choice((1, 2, 3, 3))) for dim in "pr"}
    return _mapped(rng, workload, tiles, rng.choice("pr"))


def transposed_case(rng: random.Random) -> Case:
    """Return a transposed convolution of one dim or two, anything spread in tiles of any size, on a machine of three or
    four levels whose busiest instance tells the latency."""
    sizes = {dim: rng.randrange(2, most + 1) for dim, most in {"k": 3, "c": 4, "p": 6, "r": 4}.items()}
    text = "O[k,S*p+r] += I[c,p] * W[k,c,r]"
    if rng.random() < 0.5:
        sizes |= {"p": rng.randrange(2, 5), "q": rng.randrange(2, 5), "s": rng.randrange(1, 4)}
        sizes |= {"k": rng.randrange(1, 3), "c": rng.randrange(1, 4)}
        text = "O[k,S*p+r,S*q+s] += I[c,p,q] * W[k,c,r,s]"
    workload = einsum(text.replace("S*", rng.choice(("", "2*", "2*", "3*"))), bits=8, sizes=sizes)
    if rng.random() < 0.3:
        workload = _initial(workload)
    arch = _metered(load_arch(rng.choice(("cluster4", "simba_like"))))
    mapping = sample_mapping(workload, arch, "any", rng)
    return cases.as_it_is(workload, arch, mapping)


def returning_case(tiles: tuple[int, int, int, int]) -> Case:
    """Return a transposed convolution without stride under two loops over p and q each, p and q spread.

    tiles: of these loops. A sibling can take an element that another holds where no loop further in starts again.
    """
    workload = einsum("O[p+r,q+s] += I[p,q] * W[r,s]", bits=8, sizes={"p": 4, "q": 4, "r": 3, "s": 3})
    levels = [MemoryLevel(name, bandwidth_bits_per_cycle=Fraction(8)) for name in ("DRAM", "GLB", "RF")]
    fanouts = (Fanout("X", 16), Fanout("Y", 16))
    arch = Architecture("metered", (*levels[:2], *fanouts, levels[2], ComputeUnit("MAC")))
    above = (Temporal(dim, tile) for dim, tile in zip("pqpq", tiles, strict=True))
    held, inner = ("O", "I", "W"), (Temporal(dim, 1) for dim in "prqs")
    nodes = (*above, Storage("GLB", held), Spatial("p", 1, "X"), Spatial("q", 1, "Y"), Storage("RF", held), *inner)
    return cases.as_it_is(workload, arch, Mapping((*nodes, Compute("S"))))


def tower_case(rng: random.Random) -> Case:
    """Return a sum held below ragged loops over two dims, siblings innermost: they idle and come back often."""
    workload = einsum("S += A[r] * B[k]", r=rng.randrange(6, 16), k=rng.randrange(2, 6))
    if rng.random() < 0.3:
        workload = _initial(workload)
    fanouts = (Fanout("X", 1, reduction=rng.random() < 0.5), Fanout("Y", 1, reduction=rng.random() < 0.5))
    arch = Architecture("tower", (MemoryLevel("DRAM"), *fanouts, MemoryLevel("RF"), ComputeUnit("MAC")))
    spread = {"r": Spatial("r", rng.choice((1, 1, 2)), "X"), "k": Spatial("k", 1, rng.choice("XY"))}
    chains = {
        "r": [Temporal("r", tile) for tile in _any_chain(rng, workload.extents()["r"], 5)[:-1]],
        "k": [Temporal("k", tile) for tile in _any_chain(rng, workload.extents()["k"], rng.choice((2, 3)))[:-1]],
    }
    if rng.random() < 0.5:
        chains["k"].append(Temporal("k", 1))
    loops: list[cases.Loop] = []
    while any(chains.values()):
        loops.append(chains[rng.choice([dim for dim, chain in chains.items() for _ in chain])].pop(0))
    inner = [loop for loop in (spread["r"], spread["k"]) if not any(each == Temporal(loop.dim, 1) for each in loops)]
    nodes = (*loops, *inner, Storage("RF", ("S",)), Temporal("r", 1), Compute("S"))
    return cases._finished(rng, workload, _metered(arch), Mapping(nodes))


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
    workload = einsum(text, bits=bits, sizes=extents)
    return _initial(workload) if rng.random() < 0.3 else workload


def _initial(workload: Workload) -> Workload:
    target = workload.statements[0].target.tensor
    return replace(workload, tensors=tuple(replace(each, initial=each.name == target) for each in workload.tensors))


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


def _any_chain(rng: random.Random, extent: int, loops: int) -> list[int]:
    """Return the tiles of up to so many loops, of any size, the last one 1."""
    tiles: list[int] = []
    enclosing = extent
    while enclosing > 2 and len(tiles) + 1 < loops:
        enclosing = rng.randrange(2, enclosing)
        tiles.append(enclosing)
    return [*tiles, 1]


def _machine(rng: random.Random) -> Architecture:
    """Return a random machine with a fan-out, often with a bandwidth at every level."""
    draw = wide_machine if rng.random() < 0.5 else cases.random_machine
    arch = draw(rng)
    while not arch.fanouts:
        arch = draw(rng)
    return _metered(arch) if rng.random() < 0.4 else arch


def _metered(arch: Architecture) -> Architecture:
    """Return the machine with a bandwidth at every level, so low that the busiest instance tells the latency."""
    slow = Fraction(1, 9)
    return replace(
        arch,
        nodes=tuple(
            replace(node, bandwidth_bits_per_cycle=slow) if isinstance(node, MemoryLevel) else node
            for node in arch.nodes
        ),
    )


def _mapped(rng: random.Random, workload: Workload, tiles: dict[str, list[int]], spread: str) -> Case:
    """Return the workload in a random tree. Spatial: any loops; the innermost one of each dim; or one loop over the dim
    `spread`, mostly the last, and then the tensors are held below it."""
    arch = _machine(rng)
    extents = workload.extents()
    if rng.random() < 0.5:
        tiles = {dim: _any_chain(rng, extent, rng.choice((1, 2, 3, 4, 5))) for dim, extent in extents.items()} | tiles
    style = rng.choice(("any", "any", "innermost", "innermost", "one", "one"))
    everywhere = frozenset(extents) if style == "any" else frozenset[str]()
    loops = cases._loops(rng, workload, arch, tuple(extents), spreadable=everywhere, tiles=tiles)
    held = cases._held(rng, workload, arch)
    if style == "innermost":
        loops = _innermost_spread(rng, arch, loops)
    elif style == "one":
        loops, held = _one_spread(rng, workload, arch, loops, held, spread)
    nodes = cases._placed(rng, arch, loops, held)
    return cases._finished(rng, workload, arch, Mapping((*nodes, Compute(workload.statements[0].name))))


def _innermost_spread(rng: random.Random, arch: Architecture, loops: list[cases.Loop]) -> list[cases.Loop]:
    """Return the loops with the innermost one of each dim spatial, the others temporal."""
    last = {loop.dim: number for number, loop in enumerate(loops)}
    return [
        Spatial(loop.dim, loop.tile, rng.choice(arch.fanouts).name)
        if last[loop.dim] == number
        else Temporal(loop.dim, loop.tile)
        for number, loop in enumerate(loops)
    ]


def _one_spread(
    rng: random.Random,
    workload: Workload,
    arch: Architecture,
    loops: list[cases.Loop],
    held: list[tuple[str, str]],
    spread: str,
) -> tuple[list[cases.Loop], list[tuple[str, str]]]:
    """Return the loops with one over a dim spatial, and the tensors held below it too."""
    own = [number for number, loop in enumerate(loops) if loop.dim == spread]
    chosen = own[-1] if rng.random() < 0.6 else rng.choice(own)
    fanout = rng.choice(arch.fanouts).name
    loops = [*loops]
    loops[chosen] = Spatial(spread, loops[chosen].tile, fanout)
    below = [
        level.name for level in arch.levels[1:] if fanout in [each.name for each in arch.fanouts_above(level.name)]
    ]
    held = held + [(level, tensor.name) for level in below[-1:] for tensor in workload.tensors if rng.random() < 0.8]
    order = [level.name for level in arch.levels]
    return loops, sorted(dict.fromkeys(held), key=lambda pair: order.index(pair[0]))
