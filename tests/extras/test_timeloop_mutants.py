"""Mutants of Timeloop files: each is read as Timeloop reads it, or refused with its line.

1,000 of each kind: `.venv-extras/bin/python -m pytest -m soak tests/extras`, in the environment of `make extras`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import polymap as pm
from tests.extras.timeloop_mutants import (
    ARRAY,
    SPACES,
    Table,
    constraints,
    mapping,
    mutant,
    nodes,
    question,
    text_of,
    tree,
)
from tests.extras.timeloop_readings import Level, Refused, constraints_read, machine_read, mapping_read, problem_read

FILES = {"tree": tree, "nodes": nodes}
WINDOW = """\
problem:
  shape:
    name: window
    dimensions: [C, P, R]
    data_spaces:
    - {name: I, projection: [[[C]], [[P], [R]]]}
    - {name: W, projection: [[[C]], [[R]]]}
    - {name: O, projection: [[[P]]], read_write: true}
  instance: {C: 4, P: 8, R: 3}
"""
KINDS = ("machine", "problem", "mapping", "constraints")


def machine_seen(arch: pm.Architecture, bits: int) -> list[tuple[object, ...]]:
    """What polymap's machine says, in the words of the other side."""
    copies, found = {"X": 1, "Y": 1}, []
    for node in arch.nodes:
        if isinstance(node, pm.Fanout):
            copies["Y" if node.name.endswith("_Y") else "X"] *= node.size
        elif isinstance(node, pm.MemoryLevel):
            bandwidths = (
                node.bandwidth_bits_per_cycle,
                node.read_bandwidth_bits_per_cycle,
                node.write_bandwidth_bits_per_cycle,
            )
            words = None if node.usable_bits is None else node.usable_bits // bits
            energies = (node.read_pj, node.write_pj, node.leak_pj_per_cycle)
            place = (copies["X"], copies["Y"])
            found.append((node.name, bits, node.word_bits, words, bandwidths, energies, node.must_hold, place))
        else:
            found.append((node.name, node.pj, (copies["X"], copies["Y"])))
    return found


def machine_expected(file: Table) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for each in machine_read(file):
        if isinstance(each, Level):
            found.append(
                (each.name, each.bits, each.width, each.words, each.bandwidths, each.energies, each.kept, each.copies)
            )
        else:
            found.append((each.name, each.energy, each.copies))
    return found


Answer = tuple[str, str, list[str], str]


def answers(kind: str, seed: int, *, change: bool = True) -> Answer:
    """Return what became of a mutant ("read", "refused", "refused though read" or what is wrong), its text, its
    changes and the message."""
    rng = random.Random(f"{kind} {seed}")
    files: dict[str, Table] = {}
    files["problem"] = question(rng)
    form = "tree" if rng.random() < 0.6 else "nodes"
    files["machine"] = FILES[form](rng)
    files["mapping"], files["constraints"] = mapping(rng), constraints(rng)
    files[kind], told = mutant(files[kind], rng) if change else (files[kind], [])
    text = text_of(files[kind])
    expected: Any
    try:
        expected = EXPECTED[kind](files[kind])
    except Refused as error:
        expected = error
    try:
        seen = seen_of(kind, {name: text_of(file) for name, file in files.items()})
    except pm.errors.InputError as error:
        message = str(error)
        assert "PM66" in message, message
        assert "line" in message, message
        return ("refused" if isinstance(expected, Refused) else "refused though read"), text, told, message
    if isinstance(expected, Refused):
        return f"read, and not told: {expected}", text, told, ""
    if kind == "machine" and form == "nodes":  # a fan-out that has its container's name says nothing of the axis
        expected, seen = ([(*each[:-1], math.prod(each[-1])) for each in side] for side in (expected, seen))
    return ("read" if seen == expected else f"read as {seen}, not {expected}"), text, told, ""


def seen_of(kind: str, texts: dict[str, str]) -> Any:
    """What polymap reads in the file of a kind, in the words of the other side."""
    if kind in ("problem", "machine"):
        workload, arch, _ = pm.from_timeloop(texts["problem"], texts["machine"])
        return problem_seen(workload) if kind == "problem" else machine_seen(arch, workload.tensors[0].bits)
    if kind == "constraints":
        return pm.from_timeloop(WINDOW, ARRAY, constraints=texts[kind])[3]
    workload, _, mapping = pm.from_timeloop(WINDOW, ARRAY, texts[kind])
    return mapping_seen(workload, mapping)


def mapping_seen(workload: pm.Workload, mapping: pm.Mapping) -> list[tuple[object, ...]]:
    left, found = workload.extents(), list[tuple[object, ...]]()
    for node in mapping.nodes:
        if isinstance(node, pm.Storage):
            found.append(("store", node.level, tuple(each for each in SPACES if each in node.tensors)))
        elif isinstance(node, pm.Temporal | pm.Spatial):
            trips, left[node.dim] = left[node.dim] // node.tile, node.tile
            found.append(("for", node.dim, trips) if isinstance(node, pm.Temporal)
                         else ("par", node.fanout[-1], node.dim, trips))  # fmt: skip
    return found


def problem_seen(workload: pm.Workload) -> tuple[object, ...]:
    statement = workload.statements[0]
    spaces = {
        access.tensor: [{dim: factor for factor, dim in index.terms} for index in access.index]
        for access in (*statement.reads, statement.target)
    }
    return workload.extents(), spaces, [statement.target.tensor]


EXPECTED: dict[str, Callable[[Table], Any]] = {
    "machine": machine_expected,
    "problem": problem_read,
    "mapping": mapping_read,
    "constraints": constraints_read,
}


def tally(kind: str, seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        answer, text, told, _ = answers(kind, seed)
        assert answer in ("read", "refused", "refused though read"), f"{kind} {seed}: {answer}\n{told}\n{text}"
        found[answer] += 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_files_without_changes_are_read(kind: str) -> None:
    for seed in range(8):
        answer, text, _, message = answers(kind, seed, change=False)
        assert answer == "read", f"{answer} {message}\n{text}"


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_are_read_as_timeloop_reads_them_or_refused(kind: str) -> None:
    found = tally(kind, range(80))
    assert found["read"] >= 8
    assert found["refused"] >= 50


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_1000_mutants_are_read_as_timeloop_reads_them_or_refused(kind: str) -> None:
    found = tally(kind, range(1000))
    assert found["read"] >= 120
    assert found["refused"] >= 400
