"""The counts against a second walk of the rules that shares no code with the simulator, the first referee."""

from __future__ import annotations

import random
from math import prod
from typing import Any

from polymap.costmodel.evaluation import evaluate, simulate
from polymap.inputs.machines import arch_from_document
from polymap.inputs.mappings import mapping_from_document
from polymap.workload.einsums import einsum
from tests.walker import Form, Question, Walk

CASES = 160


def test_the_simulator_and_evaluate_count_what_a_second_walk_counts() -> None:
    returned = 0  # cases in which partial sums come back
    for seed in range(CASES):
        question = random_question(random.Random(seed))
        text = f"{_text(*question.output)} += {' * '.join(_text(*each) for each in question.inputs)}"
        workload = einsum(text, sizes=question.extents, initial=["O"] if question.initial else [])
        arch = arch_from_document({"name": "machine", "nodes": question.machine})
        mapping = mapping_from_document({"nodes": question.mapping})
        wanted = Walk(question).rows()
        returned += any(wanted[place][2] for place in wanted if place[1] == "O")
        for count in (simulate, evaluate):
            rows = count(workload, arch, mapping).traffic
            found = {(row.level, row.tensor): (row.reads, row.writes, row.fills, row.drains) for row in rows}
            assert found == wanted, f"seed {seed}, {count.__name__}: {text} {question}"
    assert returned > CASES / 10


def random_question(rng: random.Random) -> Question:
    """Return one accumulation with windows, strides and negative factors in any access, up to five loops per dim."""
    while True:
        dims = "pqrs"[: rng.choice((1, 2, 2, 3, 3, 4))]
        extents = {
            dim: rng.choice({1: (9, 13, 17, 24), 2: (2, 5, 7, 9), 3: (2, 3, 5, 6), 4: (2, 3, 4)}[len(dims)])
            for dim in dims
        }
        output = ("O", _access(rng, dims))
        inputs = tuple((name, _access(rng, dims)) for name in ("I", "W")[: rng.choice((1, 2, 2))])
        used = {dim for _, forms in (output, *inputs) for terms, _ in forms for dim in terms}
        if used == set(dims) and prod(extents.values()) <= 250:
            machine, tensors = _machine(rng), ["O", *(name for name, _ in inputs)]
            return Question(
                extents, output, inputs, machine, _mapping(rng, extents, machine, tensors), rng.random() < 0.25
            )


def _access(rng: random.Random, dims: str) -> tuple[Form, ...]:
    if rng.random() < 0.5:
        return tuple(({dim: 1}, 0) for dim in rng.sample(dims, rng.randint(0, len(dims))))
    forms: list[Form] = []
    for _ in range(rng.choice((1, 1, 2))):
        terms = rng.sample(dims, min(len(dims), rng.choice((1, 2, 2, 3))))
        forms.append(({dim: rng.choice((1, 1, 1, 2, 3, -1, -2)) for dim in terms}, rng.choice((0, 0, 5))))
    return tuple(forms)


def _text(name: str, forms: tuple[Form, ...]) -> str:
    listed = (" + ".join([*(f"{factor}*{dim}" for dim, factor in terms.items()), str(start)]) for terms, start in forms)
    return f"{name}[{', '.join(listed).replace('+ -', '- ')}]".replace("[-", "[0 - ").replace(", -", ", 0 - ")


def _machine(rng: random.Random) -> list[dict[str, Any]]:
    fanouts = [{"fanout": name, "size": rng.choice((2, 3, 4, 8)), "reduction": rng.random() < 0.6} for name in "XYZ"]
    for each in fanouts:
        each["multicast"] = rng.choice(("identical", "identical", "union", "none"))
    nodes: list[dict[str, Any]] = [{"level": name} for name in ("A", "B")[: rng.choice((1, 2))]]
    for each in fanouts[: rng.choice((0, 1, 1, 1, 2, 3))]:
        nodes.insert(rng.randint(0, len(nodes)), each)
    return [{"level": "DRAM"}, *nodes, {"compute": "MAC"}]


def _mapping(
    rng: random.Random, extents: dict[str, int], machine: list[dict[str, Any]], tensors: list[str]
) -> list[dict[str, Any]]:
    room = {node["fanout"]: int(node["size"]) for node in machine if "fanout" in node}
    chains: list[list[dict[str, Any]]] = []
    for dim, extent in extents.items():
        chain: list[dict[str, Any]] = []
        for _ in range(rng.randint(0, 5)):
            tile = rng.randint(1, extent)
            over = [name for name, free in room.items() if free >= -(-extent // tile)]
            if over and rng.random() < 0.4:
                chain.append({"par": dim, "tile": tile, "over": rng.choice(over)})
                room[chain[-1]["over"]] //= -(-extent // tile)
            else:
                chain.append({"for": dim, "tile": tile})
            extent = tile
        chains.append([*chain, {"for": dim, "tile": 1}])
    loops: list[dict[str, Any]] = []
    while any(chains):
        loops.append(rng.choice([chain for chain in chains if chain]).pop(0))
    order = [node.get("level") or node.get("fanout") for node in machine]
    at: list[list[dict[str, Any]]] = [[] for _ in range(len(loops) + 1)]
    for tensor in tensors:
        lowest = 0
        for level in ("A", "B"):
            if level in order and rng.random() < 0.7:
                outside = [
                    k + 1
                    for k, loop in enumerate(loops)
                    if "par" in loop and order.index(loop["over"]) < order.index(level)
                ]
                lowest = rng.randint(max([lowest, *outside]), len(loops))
                at[lowest].append({"store": level, "tensors": [tensor]})
    return [each for k, loop in enumerate([*loops, {"compute": "S"}]) for each in (*at[k], loop)]
