"""explain() says what moves what and why, with the numbers of the cost."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import polymap as pm
from polymap.costmodel import simulate
from polymap.ir import written_tensors
from polymap.report.explanation import Loop, compare, explain, stays
from tests.referee.test_fused_counts import fused_case
from tests.unit.report.shared import (
    CONVOLUTION,
    FLAT,
    OUTPUTS_STAY,
    PRODUCT,
    SPREAD,
    TUTORIAL,
    WEIGHTS_STAY,
    cost_of,
    nest,
)

TWO = pm.Architecture("two", (pm.MemoryLevel("DRAM"), pm.MemoryLevel("GLB", 4096), pm.ComputeUnit("MAC")))


def test_the_sentences(golden: Callable[[str, str], None]) -> None:
    weights, outputs = (cost_of(CONVOLUTION, TUTORIAL, mapping) for mapping in (WEIGHTS_STAY, OUTPUTS_STAY))
    parts = (
        explain(CONVOLUTION, TUTORIAL, OUTPUTS_STAY, outputs, (WEIGHTS_STAY, weights)),
        explain(PRODUCT, FLAT, SPREAD, cost_of(PRODUCT, FLAT, SPREAD)),
    )
    golden("report/explain.txt", "\n\n".join(parts) + "\n")


def test_stays_tell_what_refills_and_what_keeps() -> None:
    found = {stay.tensor: stay for stay in stays(CONVOLUTION, TUTORIAL, WEIGHTS_STAY)}
    m, r, s, h, w = Loop("m", 4), Loop("r", 3), Loop("s", 2), Loop("h", 3), Loop("w", 4)
    assert (found["W"].again, found["W"].kept) == ((), (h, w))
    assert (found["I"].again, found["I"].swept) == ((m,), (r, s, h, w))
    assert (found["O"].again, found["O"].swept, found["O"].kept) == ((r, s), (h, w), ())


def test_loops_below_a_node_reuse_what_it_holds() -> None:
    (stay,) = stays(PRODUCT, FLAT, nest("k3 GLB:A m1 n1 k1"))
    assert (stay.parent, stay.changing, stay.used) == ("DRAM", (Loop("k", 2),), (Loop("n", 4),))


def test_all_on_chip_is_called_compulsory() -> None:
    everything = nest("GLB:A,B,C m1 n1 k1")
    text = explain(PRODUCT, FLAT, everything, cost_of(PRODUCT, FLAT, everything))
    assert "DRAM moves 104 elements, exactly the compulsory ones: no mapping can move less there." in text
    assert "A: DRAM -> GLB 48 read, each element once; one tile for the whole run" in " ".join(text.split())


def test_what_other_statements_move_is_not_told_as_moved_into_a_level() -> None:
    """A of 4 x 4 goes into GLB once for S0; S1 reads 64 times past it."""
    program = pm.program(["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += A[m,k] * D[k,p]"], m=4, n=4, k=4, p=4, bits=8)
    legs = (
        (pm.Storage("GLB", ("A",)), *(pm.Temporal(dim, 1) for dim in "mkn"), pm.Compute("S0")),
        (*(pm.Temporal(dim, 1) for dim in "mkp"), pm.Compute("S1")),
    )
    mapping = pm.Mapping((pm.Branch(legs),))
    text = " ".join(explain(program, TWO, mapping, cost_of(program, TWO, mapping)).split())
    assert "of all together DRAM 80 read and 0 written, GLB 64 read and 16 written; one tile for the whole run" in text
    assert "overlap" not in text


def test_counts_of_an_arrow_are_of_what_passes_it() -> None:
    checked = left = 0
    for seed in range(60):
        workload, arch, mapping = fused_case(random.Random(f"arrows {seed}"))
        arch = replace(arch, nodes=tuple(node for node in arch.nodes if not isinstance(node, pm.Fanout)))
        nodes = mapping.nodes
        if arch.is_timed_by_step or "Spatial" in repr(nodes):
            continue
        rows = {(row.level, row.tensor): row for row in simulate(workload, arch, mapping).traffic}
        written = written_tensors(workload)
        for stay in stays(workload, arch, mapping):
            row, parent = rows.get((stay.level, stay.tensor)), rows.get((stay.parent, stay.tensor))
            if row is None or parent is None or not stay.has_all:
                left += 1
            elif stay.tensor not in written:
                checked += 1
                assert parent.reads == row.fills, (seed, stay)
            else:
                checked += 1
                assert parent.writes - parent.fills == row.drains, (seed, stay)
    assert min(checked, left) > 9


def test_a_tensor_that_bypasses_every_level_is_told() -> None:
    bare = nest("m1 n1 k1")
    text = explain(PRODUCT, FLAT, bare, cost_of(PRODUCT, FLAT, bare))
    assert "B: held nowhere but in DRAM: every access goes there." in text
    assert "Dataflow: no local reuse" in text


def test_the_runner_up_is_compared_by_its_largest_differences() -> None:
    best, other = (OUTPUTS_STAY, WEIGHTS_STAY)
    costs = [cost_of(CONVOLUTION, TUTORIAL, mapping) for mapping in (best, other)]
    text = compare(CONVOLUTION, TUTORIAL, (best, costs[0]), (other, costs[1]))
    assert "less for W at DRAM" in text
    assert "more for O at DRAM" in text
    same = compare(CONVOLUTION, TUTORIAL, (best, costs[0]), (best, costs[0]))
    assert same.endswith("Its accesses cost the same at every level.")


def test_equal_differences_stand_in_the_machines_order_in_every_process() -> None:
    program = (
        "import polymap as pm; from polymap.report.explanation import compare;"
        "w = pm.einsum('C[m] += A[m] * B[m]', m=8);"
        "a = pm.io.arch_from_document({'name': 'x', 'nodes': [{'level': 'D', 'read_pj': 8, 'write_pj': 8},"
        " {'level': 'L', 'read_pj': 1, 'write_pj': 1}, {'compute': 'M'}]});"
        "t = lambda *s: pm.Mapping((*s, pm.Temporal('m', 1), pm.Compute('S')));"
        "both = [(t(*s), pm.evaluate(w, a, t(*s))) for s in ((), (pm.Storage('L', ('A', 'B', 'C')),))];"
        "print(compare(w, a, *both))"
    )
    told = set[str]()
    for seed in "1234":
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1


def test_means_follow_what_they_count() -> None:
    """What is no whole number says "on average" behind its noun: "shared by 1.5 instances on average"."""
    layer, machine = pm.conv2d(K=5, C=3, H=9, W=7, R=3, S=2), pm.load_arch("flat3")
    texts = [
        explain(layer, machine, mapping, pm.evaluate(layer, machine, mapping)).replace("\n    ", " ")
        for mapping in pm.sample_mappings(layer, machine, 60).mappings
    ]
    means = [text for text in texts if "on average" in text]
    assert means
    assert not [text for text in means if re.search(r"on average \w", text)]
    assert [text for text in means if re.search(r"\d (instances|units|products|drained) on average", text)]
