"""Edges of the checker that small mistakes move: limits of words and sizes, lists that are cut, windows that run
backwards, what a verdict says, what rules about order mean."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import prod
from typing import Any

import pytest

from polymap.checker import Verdict
from polymap.checker.check import LISTED
from polymap.checker.counts import CARRY, INNER, OUTER, Digits, loads, placed
from polymap.checker.head import check_mapping, check_tree, name, positive
from polymap.checker.model import Problem
from polymap.checker.rules import Refused, Rules


def test_names_have_at_most_a_thousand_letters_and_bandwidths_are_above_0() -> None:
    assert name("x" * 1000)
    assert positive("1/3") == Fraction(1, 3)
    for wrong in ("", "x" * 1001, 7):
        with pytest.raises(Refused, match="expected a name"):
            name(wrong)
    with pytest.raises(Refused, match="a bandwidth is 0"):
        positive("0")


@pytest.mark.parametrize("more", [0, 1, 3])
def test_a_verdict_lists_some_structures_and_counts_the_others(more: int) -> None:
    words = tuple(f"structure {number}: 1,1" for number in range(LISTED + more))
    told = str(Verdict(proven=False, unproven=words, reason="", objective="energy", value=Fraction(7),
                       structures=99, head="", seconds=0.5))  # fmt: skip
    assert [line for line in told.splitlines() if "structure " in line][-1].strip() == words[LISTED - 1]
    assert told.count("structure ") == LISTED
    assert (f"and {more:,} more" in told) is (more > 0)
    assert "more" not in told or more


@pytest.mark.parametrize("weights", [(1, 1), (2, -1), (-1, -3), (-2, 1)])
def test_what_a_window_touches_is_the_set_of_its_sums(weights: tuple[int, int]) -> None:
    """Referee: every pair of indices, added up."""
    group = (Digits(7, (3,), (OUTER,)), Digits(4, (2,), (OUTER,)))
    spans = [[range(at * tile, min(extent, (at + 1) * tile)) for at in range(-(-extent // tile))]
             for extent, tile in ((7, 3), (4, 2))]  # fmt: skip
    moved = sum(-weight * (extent - 1) for weight, extent in zip(weights, (7, 4), strict=True) if weight < 0)
    for one, other in product(range(3), range(2)):
        sums = {weights[0] * i + weights[1] * j + moved for i, j in product(spans[0][one], spans[1][other])}
        assert placed(group, weights, ((one,), (other,))) == sum(1 << each for each in sums)


def steps(extent: int, tiles: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """Return the iterations of loops over a dim in their order: digits, indices left."""
    if not tiles:
        return [((), extent)]
    parts = [(at, min(tiles[0], extent - at * tiles[0])) for at in range(-(-extent // tiles[0]))]
    return [((at, *rest), left) for at, own in parts for rest, left in steps(own, tiles[1:])]


@pytest.mark.parametrize("seed", range(3))
def test_digits_that_count_alike_stand_for_all_iterations(seed: int) -> None:
    """Referee: the loops, walked one iteration after the other; any of them moves, and those inside start again."""
    rng = random.Random(f"digits {seed}")
    for _ in range(40):
        extent = rng.randrange(1, 40)
        tiles = tuple(sorted((rng.randrange(1, extent + 1) for _ in range(rng.randrange(1, 4))), reverse=True))
        walked = steps(extent, tiles)
        places = {digits: at for at, (digits, _) in enumerate(walked)}
        for carry in range(-1, len(tiles)):
            roles = [OUTER if i < carry or carry < 0 else CARRY if i == carry else INNER for i in range(len(tiles))]
            digits, found = Digits(extent, tiles, tuple(roles)), Counter[int]()
            for times, values in digits.contexts():
                known = tuple(value or 0 for value in values)
                found[digits.left(values)] += times
                assert digits.left(values) == dict(walked)[known]
                assert carry < 0 or digits.before(values, own=True) == walked[places[known] - 1][0], (digits, values)
            moved = [left for at, left in walked if carry < 0 or (at[carry] and not any(at[carry + 1 :]))]
            assert found == Counter(moved), digits


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_equal_loads_of_siblings_are_one_load(axes: int) -> None:
    """Referee: the elements themselves, of tiles and of what is kept, at every place of every axis."""
    rng, unlike = random.Random(f"loads {axes}"), 0
    for _ in range(400 // axes**3):
        sides = [{(tile := rng.randrange(1, 4), tile & rng.randrange(4)) for _ in range(3)} for _ in range(axes)]
        tiles, new = set[frozenset[Any]](), set[frozenset[Any]]()
        for box in product(*sides):
            held, kept = (frozenset(product(*(bits(side[i]) for side in box))) for i in (0, 1))
            tiles.add(held)
            new.add(held - kept)
        assert loads(tuple(map(frozenset, sides))) == (sum(map(len, tiles)), sum(map(len, new))), sides
        unlike += len(new) < prod(map(len, sides))
    assert unlike > 5


def bits(mask: int) -> list[int]:
    return [at for at in range(mask.bit_length()) if mask >> at & 1]


@pytest.mark.parametrize("value", [None, Fraction(7)])
@pytest.mark.parametrize("reason", ["", "the bound is 6"])
@pytest.mark.parametrize("unproven", [(), ("structure 1: 1,1",)])
@pytest.mark.parametrize("bound", [None, Fraction(7), Fraction(6)])
def test_a_verdict_says_no_more_than_was_found(
    value: Fraction | None, reason: str, unproven: tuple[str, ...], bound: Fraction | None
) -> None:
    proven = not reason and not unproven
    told = str(Verdict(proven, unproven, reason, "energy", value, 99, "", 0.5, bound))
    refused, word = bool(reason) or value is None, told.split(" ")[0].rstrip(":")
    assert (word == "REFUSED") == refused
    assert (word == "NOT") == (not refused and bool(unproven))
    assert (word == "OPTIMAL") == (not refused and proven and bound in (None, value))
    assert (word == "BOUND") == (not refused and proven and bound not in (None, value))


def tables(dims: int, tensors: int, levels: int, fanouts: int) -> tuple[Any, Any]:
    """Return a workload, every tensor indexed by every dim, and a machine with its fan-outs below the last level."""
    names, level = [f"d{number}" for number in range(dims)], OUTER_LEVEL
    index = [{one: 1} for one in names]
    rows = [{"bits": 8, "index": index, "initial": False, "name": f"T{number}", "role": "input"}
            for number in range(tensors)]  # fmt: skip
    nodes = [
        *({**level, "level": f"L{number}"} for number in range(levels)),
        *({"dims": None, "fanout": f"F{n}", "reduction": True, "size": 1, "multicast": "none"} for n in range(fanouts)),
        {"compute": "PE", "per_cycle": 1, "pj": "1"},
    ]
    return {"dims": [[one, 1] for one in names], "tensors": rows}, {"nodes": nodes, "overlap": True}


OUTER_LEVEL: dict[str, Any] = {
    **dict.fromkeys(("bandwidth_bits_per_cycle", "read_bandwidth_bits_per_cycle", "write_bandwidth_bits_per_cycle")),
    **dict.fromkeys(("leak_pj_per_cycle", "read_pj", "write_pj"), "1"),
    "buffering": 1,
    "capacity_bits": None,
    "holds": None,
    "must_hold": [],
    "word_bits": 8,
}


@pytest.mark.parametrize("most", [(24, 6, 8, 11), (24, 1, 1, 18), (0, 1, 8, 0), (1, 1, 1, 0)])
def test_a_problem_of_the_largest_size_is_read(most: tuple[int, int, int, int]) -> None:
    problem = Problem(*tables(*most), [], "energy")
    assert (len(problem.dims), len(problem.tensors), len(problem.levels), len(problem.fanouts)) == most


@pytest.mark.parametrize("more", [(25, 6, 8, 11), (24, 7, 8, 11), (24, 6, 9, 0), (24, 6, 8, 12), (1, 0, 1, 0)])
def test_a_problem_that_is_larger_by_one_is_refused(more: tuple[int, int, int, int]) -> None:
    with pytest.raises(Refused, match="too large|too many levels"):
        Problem(*tables(*more), [], "energy")


def test_of_dims_and_tensors_and_of_parts_of_a_machine_no_two_have_one_name() -> None:
    """Constraints, trees and proofs tell them apart by their names."""
    workload, machine = tables(2, 2, 2, 2)
    workload["tensors"] = [{**row, "index": []} for row in workload["tensors"]]
    parts = [(node, next(key for key in ("level", "fanout", "compute") if key in node)) for node in machine["nodes"]]
    named = [(row, "name") for row in workload["tensors"]] + [(row, 0) for row in workload["dims"]]
    for group in (parts, named):
        for (one, key), (other, word) in permutations(group, 2):
            kept, one[key] = one[key], other[word]
            with pytest.raises(Refused, match="each once"):
                Problem(workload, machine, [], "energy")
            one[key] = kept
    assert len(Problem(workload, machine, [], "energy").fanouts) == 2, "as it was it is read"


def test_every_node_of_a_tree_with_branches_is_read() -> None:
    """Whatever stands in the place of one node, above a branch or below, is refused unless it is a node."""
    chain: list[Any] = [{"store": "L0", "tensors": ["A"]}, {"for": "i", "tile": 1}, {"for": "j", "tile": 1}]
    chain.append({"compute": "S"})

    def check(above: int, steps: list[Any]) -> None:
        check_tree([*steps[:above], {"branch": [steps[above:]] * 2}], ["L0"], ["A"])

    for above, place in product(range(4), repeat=2):
        check(above, chain)
        for wrong in ({}, {"tile": 1}, 7, *([{"compute": "S"}] if place < 3 else [])):
            with pytest.raises(Refused):
                check(above, [*chain[:place], wrong, *chain[place + 1 :]])


RULES = (
    [{"rule": "outermost", "dims": ["a", "b"]}],
    [{"rule": "innermost", "dims": ["a", "b"]}],
    [{"rule": "outside", "outer": "a", "inner": "b"}],
    [{"rule": "outside", "outer": "a", "inner": "b"}, {"rule": "outside", "outer": "b", "inner": "c"}],
    [{"rule": "outermost", "dims": ["a"]}, {"rule": "innermost", "dims": ["c"]}],
    [{"rule": "outermost", "dims": ["a"]}, {"rule": "outside", "outer": "b", "inner": "c"}],
    [{"rule": "outermost", "dims": ["a"]}, {"rule": "outside", "outer": "b", "inner": "a"}],
    [{"rule": "innermost", "dims": ["c"]}, {"rule": "outside", "outer": "a", "inner": "b"}],
)


def orders(loops: list[int]) -> set[tuple[int, ...]]:
    return set(permutations(loops))


@pytest.mark.parametrize("rows", RULES, ids=str)
def test_rules_about_order_let_just_those_nodes_and_loops_stand_that_some_order_allows(rows: list[Any]) -> None:
    """Referee: every order of the loops above a node, and of those below it."""
    rules, count = Rules(rows, [*"abc"], ["T"], ["L0", "L1"], []), 0
    for whole in product((1, 2), repeat=3):
        for tile in product(*(range(1, one + 1) for one in whole)):
            over, under = ([d for d in range(3) if of[d] > to[d]] for of, to in ((whole, tile), (tile, (1, 1, 1))))
            allowed = any(rules.ordered([*one, *other]) for one in orders(over) for other in orders(under))
            assert bool(rules.standing(tile, whole)) or not allowed, (whole, tile)
            assert len(rows) > 1 or allowed or not rules.standing(tile, whole), (whole, tile)
            if not under:
                found = rules.order(whole, whole, tile)
                assert (found is not None) == allowed, (whole, tile)
                assert found is None or (sorted(found) == over and rules.ordered(found)), (whole, tile)
                count += len(over) > 1
    assert count == 4


@pytest.mark.parametrize("rows", RULES, ids=str)
def test_what_rules_about_order_mean(rows: list[Any]) -> None:
    """Referee: the rules, written down once more about lists of loops in which a dim stands several times."""
    rules, seen = Rules(rows, [*"abc"], ["T"], ["L0", "L1"], []), set[bool]()
    for loops in (each for count in range(5) for each in product("abc", repeat=count)):
        wanted = all(meant(row, loops) for row in rows)
        assert rules.ordered(["abc".index(one) for one in loops]) == wanted, loops
        seen.add(wanted)
    assert seen == {True, False}


def meant(row: Any, loops: tuple[str, ...]) -> bool:
    """Return whether loops meet a rule: `dims` begin first (end last), in this order, or none of one inside another."""
    if row["rule"] == "outside":
        outer, inner = ([at for at, one in enumerate(loops) if one == row[key]] for key in ("outer", "inner"))
        return not outer or not inner or max(outer) < min(inner)
    inward = row["rule"] == "outermost"
    ends = list(dict.fromkeys(loops if inward else reversed(loops)))
    own = [one for one in (row["dims"] if inward else reversed(row["dims"])) if one in ends]
    return ends[: len(own)] == own


def test_a_mapping_may_be_one_node() -> None:
    check_mapping([{"compute": "MAC"}], ["DRAM"], ["A"])
