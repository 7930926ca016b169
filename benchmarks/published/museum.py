"""Recompute published numbers, and say how far each published mapping is from the proven optimum.

    python benchmarks/published/museum.py            # prints the tables
    python benchmarks/published/museum.py --write    # and puts them into docs/published.md

Numbers and their sources: benchmarks/published/tables.json; the mappings of other tools: benchmarks/peers/answers.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import polymap as pm

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "published.md"
START, END = "<!-- made by benchmarks/published/museum.py -->", "<!-- end -->"


class Exhibit(NamedTuple):
    """A published number. verdict: exact; exact to its digits; differs (by what). far: the published mapping
    over the optimum less 1, "" where no mapping is published."""

    what: str
    published: str
    polymap: str
    verdict: str
    far: str = ""


def eyeriss(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield multiply-accumulates and weights of the convolutions of two networks."""
    for name, entry in table["networks"].items():
        layers = [pm.conv2d(**each) for each in entry["layers"]]
        macs = sum(math.prod(each.extents().values()) for each in layers)
        weights = sum(math.prod(each.tensor("W").shape) for each in layers)
        for what, published in entry.items():
            if what != "layers":
                value = macs if what.endswith("MACs") else weights
                yield rounded(f"{name}: {what}", published, Fraction(value, 10 ** int(what[3])))


def rounded(what: str, published: str, value: Fraction) -> Exhibit:
    """Return a number that is published with some digits."""
    digits = len(published.partition(".")[2])
    own = f"{float(value):.{digits}f}"
    verdict = "exact to its digits" if own == published else f"differs by {float(value / Fraction(published) - 1):+.1%}"
    return Exhibit(what, published, own, verdict)


def tpu(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield the peak: a product that fills the array takes one cycle per 65,536 multiply-accumulates."""
    arch = pm.io.arch_from_document({"name": "tpu", "nodes": [
        {"level": "memory"}, {"fanout": "rows", "size": 256}, {"fanout": "columns", "size": 256}, {"compute": "mac"},
    ]})  # fmt: skip
    product = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=1024, n=256, k=256)
    mapping = pm.io.mapping_from_document({"nodes": [
        {"store": "memory", "tensors": ["A", "B", "C"]}, {"for": "m", "tile": 1},
        {"par": "k", "tile": 1, "over": "rows"}, {"par": "n", "tile": 1, "over": "columns"}, {"compute": "S"},
    ]})  # fmt: skip
    macs = Fraction(math.prod(product.extents().values()), pm.evaluate(product, arch, mapping).latency_cycles)
    yield rounded("peak, 10^12 operations per second", table["peak_tops"], 2 * macs * table["mhz"] / 10**6)


def scale_sim(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield cycles and demands of systolic arrays, and how far the SRAM's traffic is from the least."""
    for entry in table["products"]:
        workload, arch, mapping = systolic(**{name: entry[name] for name in ("m", "n", "k", "rows", "columns", "kept")})
        cost = pm.evaluate(workload, arch, mapping)
        rows = {row.tensor: row for row in cost.traffic if row.level == "SRAM"}
        own = (cost.latency_cycles, rows["A"].reads, rows["B"].reads, rows["C"].writes)
        there = tuple(entry[name] for name in ("cycles", "A", "B", "C"))
        best = pm.explore(workload, arch, "traffic:SRAM", tiles="divide", time_limit_s=60)
        words = sum(row.reads + row.writes for row in rows.values())
        far = distance(words * 8, best)
        kept = "outputs" if entry["kept"] == "C" else "weights"
        what = (
            f"{entry['m']} x {entry['n']} x {entry['k']}, {entry['rows']} x {entry['columns']} units that keep {kept}"
        )
        verdict = "exact" if own == there else "differs"
        yield Exhibit(f"{what}: cycles; A, B, C", told(there), told(own), verdict, far)


def told(numbers: tuple[int, ...]) -> str:
    """Return the cycles and the demands."""
    return f"{numbers[0]}; {', '.join(map(str, numbers[1:]))}"


def systolic(m: int, n: int, k: int, rows: int, columns: int, kept: str) -> tuple[Any, Any, Any]:
    """Return a product on an array whose units keep C or B: as docs/howto/coming_from.md."""
    arch = pm.io.arch_from_document({"name": "systolic", "nodes": [
        {"level": "SRAM"}, {"fanout": "rows", "size": rows}, {"fanout": "columns", "size": columns},
        {"level": "PE", "capacity_words": 1},
        {"compute": "mac", "fill_cycles": rows + columns - 2, "preload_cycles": rows if kept == "B" else 0},
    ]})  # fmt: skip
    down, stream = ("m", "k") if kept == "C" else ("k", "m")
    mapping = pm.io.mapping_from_document({"nodes": [
        {"store": "SRAM", "tensors": ["A", "B", "C"]}, {"for": "n", "tile": columns}, {"for": down, "tile": rows},
        {"par": down, "tile": 1, "over": "rows"}, {"par": "n", "tile": 1, "over": "columns"},
        {"store": "PE", "tensors": [kept]}, {"for": stream, "tile": 1}, {"compute": "S"},
    ]})  # fmt: skip
    return pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k), arch, mapping


def distance(value: Fraction | int, best: Any) -> str:
    """Return how far a value is above the best one, with what is proven of that."""
    above = f"{float(Fraction(value) / best.value - 1):.2%}"
    return above if best.status == "OPTIMAL" else f"{above} (bound {float(Fraction(value) / best.bound - 1):.2%})"


def timeloop(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield Timeloop's statistics of its mappings; it counts no reads of sums that leave a level."""
    for what, words in table["loops"].items():
        sizes = {"K": 32, "P": 16, "R": 3} if "K" in words or "K 2" in words else {"P": 16, "R": 3}
        k = "K," if "K" in sizes else ""
        layer = pm.einsum(f"O[{k}P] += W[{k}R] * I[P+R]", sizes=sizes)
        names = [word for word in words if word.islower()]
        arch = pm.io.arch_from_document(
            {"name": "timeloop", "nodes": [*({"level": name} for name in names), {"compute": "mac"}]}
        )
        nodes: list[dict[str, Any]] = []
        for word in words:
            dim, _, tile = word.partition(" ")
            stored = {"store": word, "tensors": ["W", "I", "O"]}
            nodes.append(stored if word.islower() else {"for": dim, "tile": int(tile or 1)})
        cost = pm.evaluate(layer, arch, pm.io.mapping_from_document({"nodes": [*nodes, {"compute": "S"}]}))
        rows = {(row.level, row.tensor): row for row in cost.traffic}
        for level, there in table["statistics"][what].items():
            weights, inputs, sums = (rows[level, tensor] for tensor in "WIO")
            own = (weights.reads, weights.fills, inputs.reads, inputs.fills, sums.reads, sums.writes)
            drained = [*own[:4], own[4] - sums.drains, own[5]]
            verdict = "exact" if there == list(own) else f"exact but for {sums.drains} reads of sums that leave"
            exhibit = f"{what}: {level}", ", ".join(map(str, there)), ", ".join(map(str, own))
            yield Exhibit(*exhibit, verdict if there in (list(own), drained) else "differs")


def zigzag_rules(workload: Any, arch: Any, nodes: list[dict[str, Any]], cost: Any) -> Fraction:
    """Return what ZigZag counts beside what is counted here, in pJ, at an innermost level of one access per element.

    Operands stay at the ports through the innermost loops that do not index them; all sums are read, the first too.
    """
    level = arch.nodes[-2]
    runs = math.prod(workload.extents().values())
    more = Fraction(0)
    (statement,) = workload.statements
    for access in (statement.target, *statement.reads):
        (row,) = (each for each in cost.traffic if (each.level, each.tensor) == (level.name, access.tensor))
        if access is statement.target:
            there = runs + row.drains
        else:
            dims = {dim for index in access.index for _, dim in index.terms}
            there = runs // math.prod(stationary(workload, nodes, dims))
        more += (there - row.reads) * Fraction(level.read_pj)
    return more


def stationary(workload: Any, nodes: list[dict[str, Any]], dims: set[str]) -> Iterator[int]:
    """Yield the trip counts of the innermost loops over other dims."""
    tiles = dict(workload.extents())
    trips: list[tuple[str, int]] = []
    for node in nodes:
        dim = node.get("for", node.get("par"))
        if dim is not None:
            trips.append((dim, tiles[dim] // node["tile"] if "for" in node else 1))
            tiles[dim] = node["tile"]
    for dim, count in reversed(trips):
        if dim in dims:
            return
        yield count


def peers(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield what other mappers say that their mappings cost, and how far these are from the optimum."""
    folder = HERE.parent / "peers"
    cases = {each["id"]: each for each in json.loads((folder / "peers.json").read_text())["cases"]}
    for tool, answers in json.loads((folder / "answers.json").read_text()).items():
        for name, answer in answers.items():
            if not answer.get("nodes"):
                continue
            workload, arch = (
                pm.io.workload_from_document(cases[name]["workload"]),
                pm.io.arch_from_document(cases[name]["arch"]),
            )
            cost = pm.evaluate(workload, arch, pm.io.mapping_from_document({"nodes": answer["nodes"]}))
            objective = cases[name]["objective"]
            own = Fraction(cost.energy_pj) * (1 if objective == "energy" else Fraction(cost.latency_cycles))
            verdict = "exact" if own == answer["value"] else "differs"
            if tool == "zigzag" and own + zigzag_rules(workload, arch, answer["nodes"], cost) == answer["value"]:
                verdict = f"differs by {own - answer['value']:,.0f}, exact with the two rules of ZigZag"
            best = pm.explore(workload, arch, objective, tiles="divide", time_limit_s=300)
            yield Exhibit(
                f"{tool}, {name}", f"{answer['value']:,.0f}", f"{float(own):,.0f}", verdict, distance(own, best)
            )


ROOMS = (
    ("Eyeriss", eyeriss), ("TPU v1", tpu), ("SCALE-Sim", scale_sim), ("Timeloop", timeloop), ("Other mappers", peers),
)  # fmt: skip


def page() -> str:
    """Return the tables as Markdown."""
    tables = json.loads((HERE / "tables.json").read_text())
    lines: list[str] = []
    for title, room in ROOMS:
        table = tables[room.__name__]
        lines += [f"## {title}", "", f"{table['source']}.", ""]
        lines += [
            "| number | published | polymap | | published mapping above the optimum |",
            "|---|---:|---:|---|---:|",
        ]
        lines += [f"| {' | '.join(exhibit)} |" for exhibit in room(table)]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Recompute published numbers.")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/published.md")
    text = page()
    print(text)
    if parser.parse_args().write:
        old = PAGE.read_text(encoding="utf-8")
        before, after = old[: old.index(START) + len(START)], old[old.index(END) :]
        PAGE.write_text(f"{before}\n\n{text}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
