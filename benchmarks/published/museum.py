"""Recompute published numbers, and say how far each published mapping is from the proven optimum.

    python benchmarks/published/museum.py            # prints the tables
    python benchmarks/published/museum.py --write    # and puts them into docs/published.md

Numbers and their sources: benchmarks/published/tables.json; the mappings of other tools: benchmarks/peers/answers.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator
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


def rounded(what: str, published: str, value: Fraction, *, may_cut: bool = False) -> Exhibit:
    """Return a number that is published with some digits; may_cut: the others may be cut off."""
    digits = len(published.partition(".")[2])
    own = f"{float(value):.{digits}f}"
    verdict = "exact to its digits" if own == published else f"differs by {float(value / Fraction(published) - 1):+.1%}"
    if (
        may_cut
        and own != published
        and f"{float(value // Fraction(1, 10**digits) / 10**digits):.{digits}f}" == published
    ):
        verdict = "exact to its digits, the rest cut off"
    return Exhibit(what, published, own, verdict)


def eyeriss_chip(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield what each layer of AlexNet takes on the chip, row stationary; the chip compresses what DRAM moves."""
    sums = dict.fromkeys(("10^6 MACs", "10^3 weights", "MB at the buffer"), Fraction(0))
    for name, entry in table["layers"].items():
        layer = chip_layer(entry, table)
        own = row_stationary(layer, entry, entry["pass"], table)
        for what, published in entry["published"].items():
            if what in sums:
                sums[what] += own[what]
            there = rounded(f"{name}: {what}", published, own[what], may_cut="MACs" in what)
            if "drawn" in entry and what == "MB at the buffer":
                drawn = float(row_stationary(layer, entry, entry["drawn"], table)[what])
                there = there._replace(verdict=f"{there.verdict} with layer 4's sets; {drawn:.1f} with those drawn")
            yield there
        yield dram_compressed(f"{name}: MB at DRAM", entry, own["MB at DRAM"], least_moved(layer, table))
        waits = "measured; passes begin, DRAM is waited for"
        yield Exhibit(f"{name}: ms", entry["ms"], f"{float(own['ms']):.1f} at least", waits)
    total = table["total"]
    for what, value in sums.items():
        yield rounded(f"all layers: {what}", total[what], value)
    rate, words = sums["10^6 MACs"] / 10**3, Fraction(total["MB at DRAM"]) / 2
    what = f"10^9 MACs per second, in {total['ms']} ms"
    yield rounded(what, total["10^9 MACs per second"], rate * 1000 / Fraction(total["ms"]))
    what = f"words of DRAM per MAC, of {total['MB at DRAM']} MB"
    yield rounded(what, total["words per MAC"], words / sums["10^6 MACs"])
    yield rounded("peak, 10^9 MACs per second", total["peak"], Fraction(table["units"] * table["mhz"], 1000))


def chip_layer(entry: dict[str, Any], table: dict[str, Any]) -> Any:
    """Return one group of a layer; inputs have their zeros around them."""
    sizes = {"n": table["images"], **entry["sizes"], "x": entry["sizes"]["y"], "s": entry["sizes"]["r"]}
    stride = entry["stride"]
    return pm.einsum(f"O[n,k,y,x] += I[n,c,{stride}*y+r,{stride}*x+s] * W[k,c,r,s]", sizes=sizes, bits=16)


def chip_levels(table: dict[str, Any], pads: int) -> list[dict[str, Any]]:
    """Return the memories, with the pads of so many units as one."""
    room = {"level": "buffer", "capacity_bits": 8 * table["buffer_bytes"], "holds": ["I", "O"]}
    return [
        {"level": "DRAM"},
        room,
        {"level": "pads", "capacity_bits": 16 * table["pad_words"] * pads},
        {"compute": "mac"},
    ]


def row_stationary(
    layer: Any, entry: dict[str, Any], passed: dict[str, int], table: dict[str, Any]
) -> dict[str, Fraction]:
    """Return what a layer takes, nothing compressed.

    A pass: sets of r by e units for t groups of p filters and v of q channels, n images, one column of outputs after
    the other; m filters share what the buffer holds.
    """
    n, m, e, p, q, t, v = (passed[name] for name in "nmepqtv")
    memory, room, pads, compute = chip_levels(table, 1)
    chip = machine(memory, room, {"fanout": "array", "size": table["units"], "multicast": "union"}, pads, compute)
    text = f"DRAM=IWO n/{n} y/{e} k/{m} buffer=O c/{q * v} buffer=I k/{p * t} k/{p}@array c/{q}@array r@array y@array"
    nodes = [*written(f"{text} pads=W n/1 x/1 pads=IO k/1 c/1 s/1"), {"compute": "S"}]
    rows, cycles = counted(layer, chip, nodes)
    sums, maps, groups = rows["buffer", "O"], rows["buffer", "I"], entry["groups"]
    every = sum(rows["DRAM", tensor].reads + rows["DRAM", tensor].writes for tensor in "IWO")
    return {
        "10^6 MACs": Fraction(groups * math.prod(layer.extents().values()), 10**6),
        "10^3 weights": Fraction(groups * math.prod(layer.tensor("W").shape), 10**3),
        "active units": Fraction(entry["sizes"]["r"] * e * t * v),
        "MB at the buffer": Fraction(2 * groups * (maps.reads + sums.reads + sums.writes), 10**6),
        "MB at DRAM": Fraction(2 * groups * every, 10**6),
        "ms": groups * cycles / (10**3 * table["mhz"]),
    }


def least_moved(layer: Any, table: dict[str, Any]) -> Any:
    """Return the answer about the least that DRAM moves where the pads of all units are one memory."""
    arch = machine(*chip_levels(table, table["units"]))
    return pm.explore(layer, arch, "traffic:DRAM", tiles="divide", time_limit_s=300)


def dram_compressed(what: str, entry: dict[str, Any], own: Fraction, best: Any) -> Exhibit:
    """Return what DRAM moves: the ratio to what is published must be that of the published figure, to its digits."""
    half = Fraction(1, 20)
    published, ratio = Fraction(entry["MB at DRAM"]), Fraction(entry["compressed by"])
    fits = own / (published + half) <= ratio + half and own / (published - half) >= ratio - half
    verdict = f"{'exact to its digits' if fits else 'differs'} where compression divides by {entry['compressed by']}"
    far = distance(own * 8 * 10**6 / entry["groups"], best)
    return Exhibit(what, entry["MB at DRAM"], f"{float(own):.1f}", verdict, far)


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
        own = (int(cost.latency_cycles), rows["A"].reads, rows["B"].reads, rows["C"].writes)
        there = tuple(entry[name] for name in ("cycles", "A", "B", "C"))
        folds = math.ceil(entry["m"] / entry["rows"]) * math.ceil(entry["n"] / entry["columns"])
        more = folds * (entry["rows"] + entry["columns"]) if entry["kept"] == "C" else 0
        best = pm.explore(workload, arch, "traffic:SRAM", tiles="divide", time_limit_s=60)
        words = sum(row.reads + row.writes for row in rows.values())
        far = distance(words * 8, best)
        kept = {"A": "inputs", "B": "weights", "C": "outputs"}[entry["kept"]]
        what = (
            f"{entry['m']} x {entry['n']} x {entry['k']}, {entry['rows']} x {entry['columns']} units that keep {kept}"
        )
        verdict = "exact" if own == there else "differs"
        if there == (own[0] - 1, *own[1:3], own[3] + more):  # as its reports have them
            verdict = "exact with cycles numbered from 0" + (
                f" and {more:,} writes that are no outputs" if more else ""
            )
        yield Exhibit(f"{what}: cycles; A, B, C", told(there), told(own), verdict, far)


def told(numbers: tuple[int, ...]) -> str:
    """Return the cycles and the demands."""
    return f"{numbers[0]}; {', '.join(map(str, numbers[1:]))}"


def systolic(m: int, n: int, k: int, rows: int, columns: int, kept: str) -> tuple[Any, Any, Any]:
    """Return a product on an array whose units keep A, B or C: as docs/howto/coming_from.md."""
    arch = pm.io.arch_from_document({"name": "systolic", "nodes": [
        {"level": "SRAM"}, {"fanout": "rows", "size": rows}, {"fanout": "columns", "size": columns},
        {"level": "PE", "capacity_words": 1},
        {"compute": "mac", "fill_cycles": rows + columns - 2, "preload_cycles": 0 if kept == "C" else rows},
    ]})  # fmt: skip
    down, across, stream = {"A": "kmn", "B": "knm", "C": "mnk"}[kept]
    mapping = pm.io.mapping_from_document({"nodes": [
        {"store": "SRAM", "tensors": ["A", "B", "C"]}, {"for": across, "tile": columns}, {"for": down, "tile": rows},
        {"par": down, "tile": 1, "over": "rows"}, {"par": across, "tile": 1, "over": "columns"},
        {"store": "PE", "tensors": [kept]}, {"for": stream, "tile": 1}, {"compute": "S"},
    ]})  # fmt: skip
    return pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k), arch, mapping


def distance(value: Fraction | int, best: Any) -> str:
    """Return how far a value is above the best one, with what is proven of that."""
    above = f"{float(Fraction(value) / best.value - 1):.2%}"
    _, _, space = best.stated.partition("OPTIMAL among ")
    if space:
        return f"{above} (proven among {space})"
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


def machine(*nodes: dict[str, Any]) -> Any:
    """Return a machine of nodes as machine files have them."""
    return pm.io.arch_from_document({"name": "museum", "nodes": list(nodes)})


def written(text: str) -> list[dict[str, Any]]:
    """Return nodes of a mapping: `Buf=AB` stores A and B, `m/16` is a loop of tile 16, `m/16@rows` and `m@rows` are
    spatial ones of tile 16 and 1."""
    nodes: list[dict[str, Any]] = []
    for word in text.split():
        name, is_store, tensors = word.partition("=")
        loop, _, fanout = word.partition("@")
        dim, _, tile = loop.partition("/")
        nodes.append(
            {"store": name, "tensors": list(tensors)} if is_store
            else {"par": dim, "tile": int(tile or 1), "over": fanout} if fanout else {"for": dim, "tile": int(tile)}
        )  # fmt: skip
    return nodes


def counted(workload: Any, arch: Any, nodes: list[dict[str, Any]]) -> tuple[dict[tuple[str, str], Any], Fraction]:
    """Return the traffic of a mapping by level and tensor, and its cycles; the mapping must be legal."""
    mapping = pm.io.mapping_from_document({"nodes": nodes})
    assert not pm.violations(workload, arch, mapping), "a published mapping is written here as an illegal one"
    cost = pm.evaluate(workload, arch, mapping)
    return {(row.level, row.tensor): row for row in cost.traffic}, Fraction(cost.latency_cycles)


def branches(*legs: str) -> dict[str, Any]:
    """Return the node below which statements run one after the other, each with its own loops."""
    return {"branch": [[*written(leg), {"compute": f"S{place}"}] for place, leg in enumerate(legs)]}


def two_levels(words: int, bits: int = 16) -> Any:
    """Return DRAM above one buffer of some words."""
    return machine({"level": "DRAM"}, {"level": "buffer", "capacity_bits": words * bits}, {"compute": "mac"})


def least(workload: Any, words: int) -> Any:
    """Return the answer about the least that DRAM moves."""
    return pm.explore(workload, two_levels(words), "traffic:DRAM", tiles="divide", time_limit_s=300)


def listed(numbers: Iterable[int]) -> str:
    """Return numbers with separators."""
    return ", ".join(f"{each:,}" for each in numbers)


def moved(rows: dict[tuple[str, str], Any], level: str, word: str) -> int:
    """Return what a level moves for the levels below it (word: reads or writes)."""
    beside = {"reads": "drains", "writes": "fills"}[word]
    return sum(getattr(row, word) - getattr(row, beside) for (name, _), row in rows.items() if name == level)


def tileflow(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield the counters of an accelerator that runs two products and a function between them in one go."""
    arch = machine(
        with_bandwidth("DRAM", 64), with_bandwidth("buffer", 512), {"fanout": "rows", "size": 16},
        {"fanout": "columns", "size": 16}, {"level": "register"}, {"compute": "mac"},
    )  # fmt: skip
    best: dict[tuple[int, ...], Any] = {}
    for (*sizes, tile, mappings, counters), simulation in zip(table["rows"], table["cycles"], strict=True):
        m, j, k, n = sizes
        work = pm.program(
            ["S[m,j] += A[m,k] * B[k,j]", "X[m,j] = S[m,j] * 2", "E[m,n] += X[m,j] * D[j,n]"],
            sizes={"m": m, "j": j, "k": k, "n": n}, temporary=["S", "X"], bits=16,
        )  # fmt: skip
        legs = branches(
            "buffer=AB m/16 k/16 m@rows k@columns register=A j/1", "m/16 m@rows j/1",
            "buffer=D m/16 j/16 m@rows j@columns register=X n/1",
        )  # fmt: skip
        nodes = [*written(f"DRAM=ABDE m/{tile} buffer=SXE"), legs]
        rows, cycles = counted(work, arch, nodes)
        own = [16 * moved(rows, level, word) for level in ("DRAM", "buffer") for word in ("reads", "writes")]
        first = 16 * m * (j + n)
        verdict = "exact" if own == counters else "differs"
        if counters == [own[0], own[1], own[2] + first, own[3]]:
            verdict = f"exact with the first sums read, too ({first:,})"
        if tuple(sizes) not in best:
            best[tuple(sizes)] = least(work, table["buffer_words"])
        what = f"{mappings} mappings of {m} x {k} x {j} x {n} in strips of {tile} rows"
        far = distance(own[0] + own[1], best[tuple(sizes)])
        yield Exhibit(what, listed(counters), listed(own), verdict, far)
        yield simulated(f"the same {mappings}: cycles", [each for row in simulation for each in row], cycles)


def with_bandwidth(level: str, bits: int) -> dict[str, Any]:
    """Return a level that reads and writes so many bits a cycle, side by side."""
    return {"level": level, "read_bandwidth_bits_per_cycle": bits, "write_bandwidth_bits_per_cycle": bits}


def simulated(what: str, cycles: list[int], own: Fraction) -> Exhibit:
    """Return cycles of a simulation of the hardware beside those that its bandwidths alone need."""
    more = [float(each / own - 1) for each in (min(cycles), max(cycles))]
    verdict = f"takes {more[0]:.1%} to {more[1]:.1%} more" if more[0] >= 0 else f"differs by {-more[0]:.1%}"
    return Exhibit(what, f"{min(cycles):,} to {max(cycles):,}", f"{float(own):,.0f} at least", verdict)


def attention(length: int, width: int) -> Any:
    """Return scores and context of one head; the scores stay on the chip."""
    return pm.program(
        ["S[p,n] += Q[p,e] * K[n,e]", "O[p,f] += S[p,n] * V[n,f]"],
        sizes={"p": length, "n": length, "e": width, "f": width}, temporary=["S"], bits=16,
    )  # fmt: skip


def fusemax(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield bytes that DRAM moves for attention, fused and nest after nest, and Timeloop's counters of a product."""
    for heads, length, width, tile, published in table["fused"]:
        work, words = attention(length, width), table["fused_words"]
        text = f"DRAM=QKVO p/{tile} buffer=QO n/256 buffer=KV p/256 buffer=S"
        legs = branches("p/1 n/1 e/1", "p/1 n/1 f/1")
        rows, _ = counted(work, two_levels(words), [*written(text), legs])
        own = 16 * (moved(rows, "DRAM", "reads") + moved(rows, "DRAM", "writes"))
        what = f"FuseMax: {heads} heads of {length:,} x {width}"
        yield bytes_of(what, published, heads * own // 8, distance(own, least(work, words)))
    for heads, length, width, published in table["unfused"]:
        sizes = {"p": length, "n": length, "e": width}
        products = ("S[p,n] += Q[p,e] * K[n,e]", "O[p,e] += S[p,n] * V[n,e]")
        answers = [least(pm.einsum(each, sizes=sizes, bits=16), table["unfused_words"]) for each in products]
        softmax = 2 * 16 * length**2  # a row fits the buffer: scores are read once, weights written once
        own = sum(int(each.value) for each in answers) + softmax
        proven = "0.00%" if all(each.stated == "OPTIMAL" for each in answers) else ""
        yield bytes_of(f"nest after nest: {heads} heads of {length:,} x {width}", published, heads * own // 8, proven)
    yield from scores(table)


def bytes_of(what: str, published: int, own: int, far: str) -> Exhibit:
    verdict = "exact" if own == published else f"differs by {(own - published) / published:+.2%}"
    return Exhibit(what, f"{published:,}", f"{own:,}", verdict, far)


def scores(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield reads and fills of queries and keys, at each level of FuseMax's array."""
    sizes = {"b": 64, "h": 16, "m": 16, "n": 256, "p": 4096, "e": 256}
    work = pm.einsum("S[b,h,m,n,p] += Q[b,h,p,e] * K[b,h,m,n,e]", sizes=sizes, bits=16)
    arch = machine(
        {"level": "DRAM"}, {"level": "L3"}, {"fanout": "columns", "size": 256}, {"fanout": "rows", "size": 256},
        {"level": "register"}, {"compute": "mac"},
    )  # fmt: skip
    text = "DRAM=QKS b/1 h/1 m/1 L3=QK p/256 e/1 p@columns n@rows register=QK"
    rows, _ = counted(work, arch, [*written(text), {"compute": "S"}])
    for level, published in table["scores"].items():
        own = [getattr(rows[level, tensor], word) for tensor in "QK" for word in ("reads", "fills")]
        verdict = "exact" if own == published else "differs"
        yield Exhibit(f"queries and keys at {level}", listed(published), listed(own), verdict)


def flat(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield bytes that DRAM moves for attention of which the scores of a head stay on the chip."""
    arch = machine(
        {"level": "DRAM"}, {"level": "L3", "capacity_bits": 16 * table["words"]}, {"fanout": "columns", "size": 256},
        {"fanout": "rows", "size": 256}, {"level": "register"}, {"compute": "mac"},
    )  # fmt: skip
    for heads, length, width, its_own, modelled in table["rows"]:
        work = attention(length, width)
        legs = branches(
            "p/256 n/256 p@columns n@rows register=S e/1 register=QK",
            "p/256 p@columns f@rows register=O n/1 register=VS",
        )
        rows, _ = counted(work, arch, [*written("DRAM=QKVO L3=S"), legs])
        bits = 16 * (moved(rows, "DRAM", "reads") + moved(rows, "DRAM", "writes"))
        far, own = distance(bits, least(work, table["words"])), heads * bits // 8
        yield bytes_of(f"FLAT's simulator: {heads} heads of {length:,} x {width}", its_own, own, far)
        yield bytes_of(f"FuseMax's model of FLAT: {heads} heads of {length:,} x {width}", modelled, own, far)


def interstellar(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield accesses of inputs, sums and weights at each level; three rules tell its counts from these."""
    layer = pm.einsum("O[k,x,y] += I[c,x+r,y+s] * W[k,c,r,s]", sizes=table["sizes"], bits=16)
    nodes: list[dict[str, Any]] = [{"compute": "mac"}]
    for level, (pj, capacity) in table["levels"].items():
        limit = {} if capacity is None else {"capacity_bits": 8 * capacity}
        fanout = [{"fanout": f"f{level}", "size": table["fanouts"][level]}] if level in table["fanouts"] else []
        nodes = [*fanout, {"level": f"L{level}", "read_pj": pj, "write_pj": pj, "word_bits": 16, **limit}, *nodes]
    arch = machine(*nodes)
    mapping = pm.io.mapping_from_document({"nodes": [*written(table["mapping"]), {"compute": "S"}]})
    cost = pm.evaluate(layer, arch, mapping)
    rows = {(row.level, row.tensor): row for row in cost.traffic}
    best = pm.explore(layer, arch, "energy", tiles="divide", time_limit_s=300)
    stay, runs = table["sizes"]["r"] * table["sizes"]["s"], math.prod(layer.extents().values())
    for level, published in table["accesses"].items():
        inputs, sums, weights = (rows[level, tensor] for tensor in "IOW")
        own = [inputs.reads, sums.reads - sums.drains + sums.writes - sums.fills, weights.reads]
        verdict: list[str] = []
        known = [own[0], 2 * (sums.writes - sums.fills), own[2]]
        if level in ("L0", "L1"):
            verdict.append("inputs that windows share are not read again")
            known[0] = math.prod(layer.tensor("I").shape) * table["sizes"]["k"]
        if level == "L0":
            verdict.append("sums stay at the operation for a window")
            known[1] = 2 * runs // stay
        verdict.append("first sums are read, too")
        far = distance(Fraction(cost.energy_pj), best) if level == "L3" else ""
        told = f"exact but that {'; '.join(verdict)}" if known == published else "differs"
        yield Exhibit(level, listed(published), listed(own), told, far)


def orojenesis(table: dict[str, Any]) -> Iterator[Exhibit]:
    """Yield the smallest buffer at which everything moves once, and measured traffic beside what no loop tree beats."""
    arch = two_levels(1)
    for entry in table["effectual"]:
        work = pm.einsum(entry["einsum"], sizes=entry["sizes"], bits=1)
        every = sum(math.prod(tensor.shape) for tensor in work.tensors)
        sizes = [entry["least"] - 1, entry["least"]] if entry["least"] > 1 else [1]
        *below, there = pm.study.buffer_curve(work, arch, "buffer", sizes).points
        assert there.best_bits == every, "that buffer is too small"
        assert all(point.bound_bits > every for point in below), "a smaller buffer is not excluded"
        what = f"{entry['what']}: least buffer, % of operands"
        yield rounded(what, entry["percent"], Fraction(100 * entry["least"], every))
    product = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=4096, n=4096, k=4096, bits=32)
    points = pm.study.buffer_curve(product, arch, "buffer", [mib * 2**23 for mib in table["mib"]]).points
    for kind, measured in table["measured"].items():
        for mib, published, point in zip(table["mib"], measured, points, strict=True):
            own = Fraction(point.bound_bits, 2**23)
            above = f"{float(Fraction(published) / own - 1):.0%}"
            far = above if point.best_bits == point.bound_bits else f"at most {above}"
            what = f"{kind} product of 4,096 cubed, {mib} MiB of L2: MiB of DRAM"
            yield Exhibit(what, published, f"{float(own):,.0f} at least", "measured", far)


ROOMS = (
    ("Eyeriss", eyeriss), ("Eyeriss, the chip", eyeriss_chip), ("TPU v1", tpu), ("SCALE-Sim", scale_sim),
    ("Interstellar", interstellar),
    ("Timeloop", timeloop), ("TileFlow", tileflow), ("FLAT", flat), ("FuseMax", fusemax), ("Orojenesis", orojenesis),
    ("Other mappers", peers),
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
