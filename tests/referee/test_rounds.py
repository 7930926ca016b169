"""Each tree moves anew in the rounds of the loops above its branch what is claimed of these rounds: random
trees of pairs and triples with a window, with siblings and other nodes above the branch, each counted as it is."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from polymap import evaluate, program
from polymap.costmodel import Cost
from polymap.explore import provers
from polymap.inputs import arch_from_document
from polymap.ir.errors import MappingError
from polymap.ir.loopnest import Workload, accesses_of
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.search import legs, refunds
from polymap.search.around import told_in_rounds
from polymap.search.forms import part_paid
from polymap.search.options import Options
from polymap.search.programs import in_lines, in_tiles, rounds
from polymap.search.programs.rounds import cost_anew, least_bits, moved_alone, rounds_above
from polymap.search.provers import read_question
from tests.referee.test_windowed_passes import leg
from tests.times import few

Nodes = tuple[MappingNode, ...]

TEXTS = (
    ("T[k,y] += I[y+r] * W[k,r]", "O[z,v] += T[k,{s}*v+a] * V[z,k,a]"),
    ("T[k,y] += I[k,c,y] * W[k,c]", "O[z,v] += T[k,{s}*v+a] * V[z,a]"),
    ("T[y] = I[y] * W[y]", "O[v] += T[{s}*v+a] * V[a]"),
    ("T[k,y] += I[c,y] * W[k,c]", "G[k,y] = T[k,y] * B[k]", "O[z,v] += G[k,{s}*v+a] * V[z,k,a]"),
    ("T[k,y] += I[c,y] * W[k,c]", "O[z,y] += T[k,y] * V[z,k]"),
)
TWO = (("T[k,y] += I[c,y] * W[k,c]", "G[k,y] = J[k,y] * B[k]", "O[z,v] += T[k,{s}*v+a] * G[k,{s}*v+a] * V[z,k,a]"),)


def question(rng: random.Random, all_texts: tuple[tuple[str, ...], ...] = TEXTS) -> tuple[Workload, Architecture]:
    step, reach, rows = rng.choice((1, 2)), rng.choice((2, 3)), rng.choice((2, 3, 4))
    texts = [text.format(s=step) for text in rng.choice(all_texts)]
    sizes = {"k": rng.choice((1, 2, 4)), "c": 2, "r": 2, "z": 2, "a": reach, "v": rows, "y": step * (rows - 1) + reach}
    sizes = {name: size for name, size in sizes.items() if any(name in text for text in texts)}
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 5, "write_pj": 9},
        {"level": "G", "word_bits": 8, "capacity_bits": 8 * rng.randint(4, 40), "read_pj": 2},
        *([{"fanout": "U", "size": 2, "reduction": rng.random() < 0.5}] if rng.random() < 0.5 else []),
        *([{"level": "R", "word_bits": 8, "capacity_bits": 8 * rng.randint(2, 9)}] if rng.random() < 0.5 else []),
        {"compute": "PE", "pj": 1},
    ]
    passed = [text[0] for text in texts[:-1]]
    return program(texts, sizes=sizes, temporary=passed, bits=8), arch_from_document({"name": "small", "nodes": nodes})


def forms(work: Workload) -> list[tuple[Workload, Workload, int]]:
    """Return programs of which trees are drawn: theirs, the one of which the rounds are, and how many statements stand
    before the loops."""
    last, found = work.statements[-1].target.dims[-1], [(work, work, 0)]
    cuts = [in_tiles(work, last, tile) for tile in range(1, work.extents()[last]) if work.extents()[last] % tile == 0]
    found += [(each, work, 0) for each in cuts if each is not None]
    lined = in_lines(work, last)
    if lined is not None:
        own = tuple(each for each in lined.statements if not each.name.endswith("_first"))
        tensors = tuple(each for each in lined.tensors if any(accesses_of(one, each.name) for one in own))
        inside = replace(lined, statements=own, tensors=tensors)
        found.append((lined, inside, len(lined.statements) - len(own)))
    return found


def above_branch(rng: random.Random, own: Workload, arch: Architecture, first: int) -> tuple[Nodes, dict[str, int]]:
    """Return loops over dims that the last statements share and nodes around all of them, and how many indices these
    leave."""
    statements, left = own.statements[first:], own.extents()
    common = [dim for dim in statements[0].dims if left[dim] > 1 and all(dim in each.dims for each in statements)]
    nodes: list[MappingNode] = []
    for dim in rng.sample(common, rng.randint(0, len(common))):
        tile = rng.choice([each for each in range(1, left[dim]) if left[dim] % each == 0])
        is_spread = bool(arch.fanouts) and rng.random() < 0.3 and left[dim] // tile == 2
        spread = is_spread and not any(isinstance(each, Spatial) for each in nodes)
        nodes.append(Spatial(dim, tile, "U") if spread else Temporal(dim, tile))
        left[dim] = tile
    names = [each.name for each in own.tensors if any(accesses_of(one, each.name) for one in statements)]
    for name in names:
        is_passed = name in {each.target.tensor for each in statements[:-1]}
        if rng.random() < (0.95 if is_passed else 0.3):
            nodes.insert(rng.randint(0, len(nodes)), Storage("G", (name,)))
    for name in names:
        if len(arch.levels) > 2 and rng.random() < 0.15:
            nodes.append(Storage("R", (name,)))
    return tuple(nodes), left


def drawn(rng: random.Random, own: Workload, arch: Architecture, first: int) -> tuple[Nodes, Mapping, dict[str, int]]:
    """Return what stands above the branch of a tree, the tree, and how many indices are left there."""
    above, left = above_branch(rng, own, arch, first)
    held = {name for each in above if isinstance(each, Storage) for name in each.tensors}
    inner = {name for each in above if isinstance(each, Storage) and each.level == "R" for name in each.tensors}
    used = any(isinstance(each, Spatial) for each in above)
    parts = list[Nodes]()
    for at, each in enumerate(own.statements):
        inside = at >= first
        nodes = leg(rng, each, left if inside else own.extents(), arch, "")
        nodes = tuple(
            one
            for one in nodes
            if not (inside and isinstance(one, Storage) and {*one.tensors} <= (held if one.level == "G" else inner))
            and not (inside and used and isinstance(one, Spatial))
        )
        parts.append(nodes)
    tree = (*above, Branch(tuple(parts[first:])))
    return above, Mapping((Branch((*parts[:first], tree)),) if first else tree), left


def claims_hold(seed: int, texts: tuple[tuple[str, ...], ...] = TEXTS) -> int:
    """Return how many trees were looked at; each is held against what is claimed of its rounds."""
    rng, looked = random.Random(f"rounds {seed}"), 0
    work, arch = question(rng, texts)
    for own, asked, first in forms(work):
        in_line = first > 0
        common = own.statements[-1].dims[0] if own is not work else ""
        for _ in range(60):
            above, tree, _ = drawn(rng, own, arch, first)
            try:
                cost = evaluate(own, arch, tree)
            except MappingError:
                continue
            if cost.legal:
                looked += look(rng, (own, asked, common), arch, above, cost, in_line=in_line)
    return looked


def look(
    rng: random.Random,
    programs: tuple[Workload, Workload, str],
    arch: Architecture,
    above: Nodes,
    cost: Cost,
    *,
    in_line: bool,
) -> int:
    (own, asked, common), sizes, many = programs, programs[0].extents(), dict[str, int]()
    for each in above:
        if isinstance(each, Temporal):
            many[each.dim] = many.get(each.dim, 1) * (sizes[each.dim] // each.tile)
        if isinstance(each, Temporal | Spatial):
            sizes[each.dim] = each.tile
    held = {name for each in above if isinstance(each, Storage) and each.level == "G" for name in each.tensors}
    prices = {(level, kind): rng.randint(0, 9) for level in range(2) for kind in ("read", "write")}

    def price(level: int, read: int, written: int) -> int:
        return prices[level, "read"] * read + prices[level, "write"] * written if level < 2 else 0

    def left(dim: str, parts: int) -> int:
        return -(-asked.extents()[dim] // parts)

    looked, taken = 0, dict[str, int]()
    for tensor in (each.target.tensor for each in asked.statements[:-1]):
        every = rounds_above(asked, arch, tensor, 1, in_lines=in_line)
        if tensor not in held or every is None:
            continue
        assert dict(cost.occupancy_bits)["G"] >= least_bits(asked, arch, tensor, in_lines=in_line)
        users = [each for each in asked.statements if accesses_of(each, tensor)]
        alone = {name for each in users for name in moved_alone(asked, each)}
        trips = {"v": many.get(common, 1), "y": many.get(common, 1)} if common else many  # of the loops over rows
        found = [
            one
            for one in every
            if {*one.held} == held & alone
            and all(
                parts == n or (own is not asked and parts < n and left(dim, parts) == left(dim, n))
                for cuts in one.cuts.values()
                for dim, parts in cuts.items()
                for n in ((trips if dim in trips else many).get(dim, 1),)
            )
        ]
        assert found, f"{tensor} has no such rounds: {many} {held}"
        one = found[0]
        for user in users:
            taken[user.name] = taken.get(user.name, 0) + one.bits
        assert max(taken.values()) <= dict(cost.occupancy_bits)["G"], "the level holds it, and what is around another"
        for user in users:
            names = moved_alone(asked, user)
            moved = [0, 0]
            for row in cost.traffic:
                number = [each.name for each in arch.levels].index(row.level)
                if row.tensor in names and number < 2:
                    bits = own.tensor(row.tensor).bits
                    own_cost = price(number, bits * row.reads, bits * row.writes)
                    moved[1] += own_cost
                    moved[0] += own_cost if not number else 0
            claimed = cost_anew(asked, arch, user, one, price, names)
            assert claimed[0] <= moved[0], (tensor, user.name, "the outermost level")
            assert claimed[1] <= moved[1], (tensor, user.name, "levels above fan-outs")
        looked += 1
    return looked


@pytest.mark.parametrize("seed", few(range(120), 6))
def test_each_tree_moves_anew_what_is_claimed_of_its_rounds(seed: int) -> None:
    claims_hold(seed)


@pytest.mark.parametrize("seed", few(range(40), 3))
def test_what_a_reader_of_two_tensors_holds_takes_its_room_once(seed: int) -> None:
    claims_hold(seed, TWO)


def test_where_nothing_is_spread_two_dims_may_be_in_tiles() -> None:
    texts = ["T[k,y,x] += I[y,x] * W[k]", "O[z,v,u] += T[k,v+a,u+b] * V[z,k,a,b]"]
    sizes = {"k": 2, "y": 5, "x": 5, "z": 2, "v": 4, "u": 4, "a": 2, "b": 2}
    nodes = [{"level": "DRAM", "word_bits": 8}, {"level": "G", "word_bits": 8}, {"compute": "PE", "pj": 1}]
    spread = [*nodes[:2], {"fanout": "U", "size": 2}, nodes[2]]
    work = program(texts, sizes=sizes, temporary=["T"], bits=8)
    found = [
        least_bits(work, arch_from_document({"name": "small", "nodes": each}), "T", in_lines=False)
        for each in (nodes, spread)
    ]
    assert found == [8 * 2 * 2, 8 * 2 * 5]  # a window; rows of one, all columns


def test_siblings_keep_an_element_each_in_all_rounds() -> None:
    texts, sizes = ["T[k,y] = I[y] * W[k]", "O[z,v] += T[k,v+a] * V[z,k,a]"], {"k": 4, "y": 4, "z": 2, "v": 3, "a": 2}
    levels = [{"level": "DRAM", "word_bits": 8}, {"level": "G", "word_bits": 8}]
    inside = [
        {"fanout": "U", "size": 4},
        {"level": "R", "word_bits": 8, "capacity_bits": 8},
        {"compute": "PE", "pj": 1},
    ]
    work = program(texts, sizes=sizes, temporary=["T"], bits=8)
    arch = arch_from_document({"name": "small", "nodes": [*levels, *inside]})
    every = [*(rounds_above(work, arch, "T", 1, in_lines=False) or ())]
    moved = {
        cost_anew(work, arch, work.statements[0], each, lambda level, read, _: 0 if level else read, ["W"])[0]
        for each in every
    }
    assert any(each.cuts["S0"]["y"] > 1 for each in every)
    assert moved == {8 * 4}


def test_the_rest_of_a_leg_whose_rows_are_made_again_is_not_of_tiles_that_divide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legs, "may_be_climbed", lambda *_: False)  # as of programs that are too large for that
    sizes, prices = {"c": 24, "y": 5, "v": 4, "a": 2}, {"DRAM": 400, "G": 50, "R": 0}
    work = program(["T[y] += I[c,y] * W[c]", "O[v] += T[v+a] * V[a]"], sizes=sizes, temporary=["T"], bits=8)
    rooms = {"DRAM": {}, "G": {"capacity_bits": 8 * 28}, "R": {"capacity_bits": 8 * 4}}
    levels = [
        {"level": name, "word_bits": 8, "read_pj": price, "write_pj": price, **rooms[name]}
        for name, price in prices.items()
    ]
    arch = arch_from_document({"name": "small", "nodes": [*levels, {"compute": "PE", "pj": 1}]})
    asked, _ = read_question(work, arch, Options("energy", "divide", time_limit_s=60), provers)
    assert told_in_rounds(asked) == ("T",)
    assert not legs.dividing_legs(asked, work.statements[0])
    claimed = refunds.Cases.of(asked, asked.objective).alone("S0", {}, unpaid=1)
    made = program(["T[y] += I[c,y] * W[c]"], sizes={"c": 24, "y": 6}, bits=8)  # three rows for each two of O
    inside = (Temporal("c", 1), Storage("R", ("W",)), Temporal("y", 1), Compute("S0"))
    cost = evaluate(made, arch, Mapping((Temporal("y", 3), Storage("R", ("T",)), *inside)))
    outer = sum(row.reads for row in cost.traffic if row.level == "DRAM" and row.tensor in ("I", "W"))
    assert cost.legal
    assert claimed is not None
    assert claimed <= cost.energy_pj_exact - (1 - part_paid(0)) * prices["DRAM"] * outer


def claims_of_all(seeds: tuple[int, ...]) -> int:
    test_siblings_keep_an_element_each_in_all_rounds()
    return sum(claims_hold(seed, texts) for seed in seeds for texts in (TEXTS, TWO))


SEEN: dict[str, tuple[int, ...]] = {}  # the seed that sees a mistake soonest
MISTAKES = {
    "what is held moves in each round": ("if number and is_kept:", "if number < 0:"),
    "sums come back at first": ("often = price(0, moved - total, moved)", "often = price(0, moved, moved)"),
    "halos are as long as windows": ("max(0, one - step)", "one"),
    "both users have tiles of their own": ("first = max(", "first = sum("),
    "the room of what a reader holds is taken twice": ("or is_end]", "or True]"),
    "registers hold nothing": ("dict.fromkeys(cuts, 0) if arch", "cuts if arch"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_what_is_moved_anew_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = MISTAKES[name]
    source = Path(rounds.__file__).read_text(encoding="utf-8")
    assert source.count(right) == 1
    mutant = ModuleType("mutant")
    monkeypatch.setitem(sys.modules, "mutant", mutant)
    exec(compile(source.replace(right, wrong), "mutant", "exec"), mutant.__dict__)
    for each in ("cost_anew", "rounds_above"):
        monkeypatch.setitem(globals(), each, mutant.__dict__[each])
    with pytest.raises(AssertionError):
        claims_of_all(SEEN.get(name, (0,)))
