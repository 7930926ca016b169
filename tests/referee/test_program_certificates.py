"""Certificates of programs: the checker counts trees as the cost model does, bounds no program above the least of its
trees, and refuses a text of which any number was changed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import polymap as pm
from polymap.checker import Program, Refused, parsed
from polymap.costmodel.evaluation import evaluate
from polymap.explore import search
from polymap.inputs import arch_from_document, mapping_from_document, mapping_to_document
from polymap.ir import Architecture, Mapping, MappingError, OptionError, Workload
from polymap.schedules.check import check_mapping
from polymap.search.certificate import canonical, machine_table, program_table
from polymap.search.problem import objective_value, parse_single
from tests.programs import random_tree, with_room
from tests.referee.all_fused import Program as Tiny, least_words
from tests.referee.test_all_fused import drawn, question
from tests.referee.test_certificate_fields import finished
from tests.referee.test_fused_counts import drawn_program
from tests.times import few

SHARED = (  # a tensor that several statements read, over and over at times
    ("T[m,n] = A[m] * B[n]", "E[m,p] += T[m,n] * D[n,p]", "F[m,p] += T[m,n] * G[n,p]"),
    ("E[m,p] += X[m,n] * D[n,p]", "F[m,p] += X[m,n] * G[n,p]"),
    ("M[m] max= X[m,n]", "P[m,n] = X[m,n] - M[m]"),
)
PROGRAMS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,n] = max(T[m,n], 0)", "E[m] += U[m,n] * x[n]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,n] = max(T[m,n], 0)", "E[m,n] = U[m,n] + T[m,n]"),
    ("T[c,p] += I[p+r] * W[c,r]", "E[c,p] = max(T[c,p], 0)", "F[d,p] += E[c,p] * V[c,d]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m] += T[m,n] * x[n]", "F[n] max= T[m,n]"),
    ("S[b,m,n] += Q[b,m,c] * K[b,n,c]", "M[b,m] max= S[b,m,n]", "E[b,m] += S[b,m,n] * M[b,m]"),
    ("T[m] += A[m,k]", "E[n] += B[n,k]", "F[m,n] = T[m] * E[n]"),
)


UNLIKE = (  # a tensor that two statements index by other dims
    ("T[m,n] += X[m,k] * B[k,n]", "E[m,n] += T[m,n] * X[n,k]"),
    ("T[m,n] = X[m] * B[n]", "E[m,n] = T[m,n] + X[n]"),
    ("M[m] max= X[m,n]", "P[m,n] = X[n,m] - M[m]"),
)


def counted_case(
    rng: random.Random, programs: tuple[tuple[str, ...], ...] = PROGRAMS
) -> tuple[Workload, Architecture, Mapping]:
    """Return a program, a machine whose accesses cost energy, with room, and a random tree."""
    work = drawn_program(rng, programs, 0.7)
    multicast, adds = rng.choice(("identical", "union", "none")), rng.random() < 0.5
    nodes = [
        {"level": "DRAM", "read_pj": rng.randint(100, 109), "write_pj": rng.randint(100, 109)},
        {"level": "G", "read_pj": rng.randint(10, 19), "write_pj": rng.randint(10, 19)},
        *([{"fanout": "X", "size": 1, "multicast": multicast, "reduction": adds}] if rng.random() < 0.5 else []),
        *([{"level": "R", "read_pj": rng.randint(0, 9), "write_pj": 1}] if rng.random() < 0.6 else []),
        {"compute": "PE", "pj": rng.randint(0, 9)},
    ]
    arch = arch_from_document({"name": "random", "nodes": nodes})
    while True:
        mapping = random_tree(rng, work, arch)
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue
        return work, with_room(arch, work, mapping), mapping


def read(work: Workload, arch: Architecture, objective: str) -> Program:
    tables = [parsed(canonical(table)) for table in (program_table(work), machine_table(arch))]
    return Program(tables[0], tables[1], [], objective)


def compared(seeds: range, programs: tuple[tuple[str, ...], ...] = PROGRAMS) -> tuple[int, list[int]]:
    """Return how many random trees the checker counts, and the seeds of those that it counts otherwise than the cost
    model, or takes though they are not legal."""
    counted, wrong = 0, list[int]()
    for seed in seeds:
        rng = random.Random(f"program certificates {seed}")
        work, arch, mapping = counted_case(rng, programs)
        objective = rng.choice(("energy", "traffic:DRAM", "traffic:G", "weighted:1*energy+1/3*traffic:DRAM"))
        try:
            found = read(work, arch, objective).cost(parsed(canonical(mapping_to_document(mapping)["nodes"])))
        except Refused:
            continue
        cost, counted = evaluate(work, arch, mapping), counted + 1
        if objective.startswith("weighted"):
            values = [objective_value(work, arch, parse_single(one, arch), cost) for one in ("energy", "traffic:DRAM")]
            value = values[0] + Fraction(values[1], 3)
        else:
            value = objective_value(work, arch, parse_single(objective, arch), cost)
        wrong += [] if cost.legal and found == value else [seed]
    return counted, wrong


def test_trees_are_counted_as_the_cost_model_counts_them() -> None:
    counted, wrong = compared(range(60))
    assert not wrong
    assert counted > 25, "the others are of kinds that are not certified, or not legal"


def test_trees_that_hold_for_all_what_statements_index_unlike_are_refused() -> None:
    counted, wrong = compared(range(30), UNLIKE)
    assert not wrong
    assert counted > 5, "held for one statement, or far out"


@pytest.mark.soak
def test_thousands_of_trees_are_counted_as_the_cost_model_counts_them() -> None:
    assert not compared(range(1_000, 6_000))[1]


@pytest.mark.parametrize("seed", few(range(100), 2, late=(1,)))
def test_no_tree_moves_less_than_a_certificate_says(seed: int) -> None:
    few_words, room = drawn(seed)
    work, arch = question(few_words, room)
    least = 8 * least_words(few_words, room)
    for tiles in ("divide", "any"):
        answer = search(work, arch, "traffic:DRAM", tiles, work_limit=20, time_limit_s=60)
        try:
            text = answer.certificate()
        except OptionError:  # the best tree is of the program with its loops rewritten, or of another kind
            continue
        verdict = pm.verify(text, work, arch, "traffic:DRAM")
        assert verdict.proven, verdict.reason
        assert verdict.bound is not None, "of programs bounds are certified"
        assert verdict.bound <= least, "of all trees, written out"


@pytest.mark.parametrize("seed", few(range(60), 3))
def test_what_statements_share_is_charged_to_one_of_them(seed: int) -> None:
    rng = random.Random(f"shared {seed}")
    texts = SHARED[seed % len(SHARED)]
    sizes = {"m": 1 if len(texts) > 2 else rng.choice((1, 2)), "n": rng.choice((2, 3)), "p": 2}
    sizes = {
        name: size for name, size in sizes.items() if f"{name}]" in " ".join(texts) or f"{name}," in " ".join(texts)
    }
    few_words, room = (
        Tiny(texts, tuple(sizes.items()), "".join(sorted({"T", "M"} & {text[0] for text in texts[:-1]}))),
        rng.randint(3, 6),
    )
    work, arch = question(few_words, room)
    bound = read(work, arch, "traffic:DRAM").least({})[1]
    assert 0 < bound <= 8 * least_words(few_words, room)


def products(rows: int, temporary: str = "T") -> Workload:
    sizes = dict(zip("mknp", (rows, 8, 16, 8), strict=True))
    return pm.program(list(PROGRAMS[0]), sizes=sizes, temporary=list(temporary), bits=8)


def test_what_is_needed_after_the_run_goes_out_once() -> None:
    bounds = [read(products(16, temporary), one_buffer(600), "energy").least({})[1] for temporary in ("T", "")]
    assert bounds == [71_808, 71_808 + 256 * 101], "256 words of T: 1 pJ to read, 100 pJ to write"


@pytest.mark.parametrize("tiles", ["divide", "any"])
def test_a_level_that_nothing_passes_costs_no_less_than_nothing(tiles: str) -> None:
    """What shares T might save more there than it costs: the bound was -8, a number that no certificate has."""
    work = pm.program(["T[m,n] = A[m] * B[n]", "E[m] += T[m,n]", "F[m] max= T[m,n]"], m=2, n=3, temporary=["T"], bits=8)
    found = search(work, one_buffer(4), "traffic:GLB", tiles, work_limit=20, time_limit_s=60)
    verdict = pm.verify(found.certificate(), work, one_buffer(4), "traffic:GLB")
    assert (verdict.proven, verdict.value, verdict.bound) == (True, 0, 0), verdict.reason


def test_a_tree_that_does_not_fit_is_refused() -> None:
    refused = 0
    for seed in range(40):
        work, arch, mapping = counted_case(random.Random(f"program certificates {seed}"))
        nodes = parsed(canonical(mapping_to_document(mapping)["nodes"]))
        try:
            read(work, arch, "energy").cost(nodes)
        except Refused:
            continue
        for name, bits in evaluate(work, arch, mapping).occupancy_bits:
            if name != "DRAM" and bits > 1:
                less = [replace(one, capacity_bits=bits - 1) if one.name == name else one for one in arch.nodes]
                with pytest.raises(Refused, match="does not fit"):
                    read(work, replace(arch, nodes=tuple(less)), "energy").cost(nodes)  # pyright: ignore[reportArgumentType]
                refused += 1
    assert refused > 10


def one_buffer(words: int) -> Architecture:
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100},
        {"level": "GLB", "word_bits": 8, "capacity_bits": 8 * words, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    return arch_from_document({"name": "one buffer", "nodes": nodes})


@cache
def certificates() -> tuple[tuple[str, Workload, Architecture], ...]:
    """Return the certificates of two programs: of tiles of any size, and of dividing tiles with legs."""
    found: list[tuple[str, Workload, Architecture]] = []
    for tiles, words in (("any", 600), ("divide", 40)):
        work, arch = products(16), one_buffer(words)
        found.append((search(work, arch, "energy", tiles, work_limit=200, time_limit_s=60).certificate(), work, arch))
    return tuple(found)


@pytest.mark.parametrize("own", [[], [{"store": "GLB", "tensors": ["T"]}]])
def test_what_is_read_outside_of_its_node_goes_out(own: list[dict[str, Any]]) -> None:
    work = pm.program(list(PROGRAMS[2]), sizes={"m": 4, "k": 3, "n": 5}, temporary=["T", "U"], bits=8)
    legs = [
        [*({"for": dim, "tile": 1} for dim in dims), {"compute": f"S{at}"}]
        for at, dims in enumerate(("mnk", "mn", "mn"))
    ]
    nodes = [{"branch": [[{"store": "GLB", "tensors": ["T"]}, {"branch": legs[:2]}], [*own, *legs[2]]]}]
    cost = evaluate(work, one_buffer(600), mapping_from_document({"nodes": nodes}))
    assert cost.legal
    assert read(work, one_buffer(600), "energy").cost(parsed(canonical(nodes))) == cost.energy_pj_exact


def test_an_optimum_over_all_trees_is_certified() -> None:
    text, work, arch = certificates()[0]
    verdict = pm.verify(text, work, arch)
    assert verdict.proven, verdict.reason
    assert verdict.bound == verdict.value, "T stays in the buffer, all else passes once"
    assert "OPTIMAL over tiles of any size" in str(verdict)


def test_where_tiles_divide_statements_alone_are_proven() -> None:
    text, work, arch = certificates()[1]
    verdict, plain = pm.verify(text, work, arch), read(work, arch, "energy").least({})[1]
    assert verdict.proven, verdict.reason
    assert verdict.bound is not None, "of programs bounds are certified"
    assert verdict.bound > plain, "what tensors cost alone is less: the buffer holds one tile"
    assert "no mapping with dividing tiles costs less" in str(verdict)


def changed(text: str) -> Iterator[tuple[str, str]]:
    """Yield every number of a certificate's lines below its head, with the text in which it is another one, hashes
    repaired."""
    lines = text.split("\n")[:-2]
    for number, line in enumerate(lines[6:], start=6):
        for found in re.finditer(r"(?<![\w.])[0-9]+(?![\w.])", line):
            for other in (int(found[0]) + 1, 2 * int(found[0]), max(0, int(found[0]) - 1)):
                if other != int(found[0]):
                    new = f"{line[: found.start()]}{other}{line[found.end() :]}"
                    yield f"{line[:60]}: {found[0]} as {other}", finished([*lines[:number], new, *lines[number + 1 :]])


@pytest.mark.parametrize("number", range(2))
def test_a_text_of_which_a_number_is_another_one_is_refused(number: int) -> None:
    text, work, arch = certificates()[number]
    tried = 0
    for what, forged in changed(text):
        tried += 1
        assert not pm.verify(forged, work, arch).proven, what
    assert tried > 20, "values, tiles, bounds, numbers of structures"


def test_the_head_is_compared_with_the_question() -> None:
    text, work, _ = certificates()[0]
    lines = text.split("\n")[:-2]
    for found in re.finditer(r"(?<=[:,\"\[])[0-9]+", lines[1] + "\n" + lines[2]):
        both = lines[1] + "\n" + lines[2]
        new = f"{both[: found.start()]}{int(found[0]) + 1}{both[found.end() :]}".split("\n")
        forged = finished([lines[0], *new, *lines[3:]])
        assert not pm.verify(forged, work, one_buffer(600)).proven, found[0]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (("T[m,n] = A[m] * B[n]", "T[m,n] += C[m,n]", "E[m] += T[m,n] * x[n]"), "read before it is written"),
        (("T[p] += I[p] * W[k]", "E[q] += T[q+s] * V[s]"), "not indexed by single dims"),
        (("T[m,n] = A[m] * A[n]", "E[m] += T[m,n] * x[n]"), "touches a tensor twice"),
        (("U[m] = A[m] * B[m]", "T[m,m] = U[m] * C[m]", "E[m] += T[m,m] * x[m]"), "T has a dim in two axes"),
    ],
)
def test_what_is_not_certified_says_why(texts: tuple[str, ...], reason: str) -> None:
    names = sorted(set(re.findall(r"(?<=[\[,+])[a-z]", " ".join(texts))))
    sizes = dict.fromkeys(names, 3) | ({"p": 5} if "p" in names else {})
    work = pm.program(list(texts), sizes=sizes, temporary=["T"], bits=8)
    with pytest.raises(OptionError, match=f"PM515.*{reason}"):
        pm.verify("", work, one_buffer(100))
