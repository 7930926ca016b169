"""`make demo`: a real ResNet-50 layer from its loop nest to the best mapping, its proof, its numbers and its program.

python examples/demo.py [WORKLOAD [ARCH]]      (default: resnet50.conv2_x eyeriss_like)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from polymap.cli.command_line import guarded
from polymap.cli.output import Document, write_documents
from polymap.codegen import CRun, generate_c, run_c
from polymap.costmodel import Cost, mapping_text
from polymap.explore import explore
from polymap.formatting import exact, table
from polymap.inputs import load_arch
from polymap.ir import Architecture, Mapping, Workload
from polymap.poly import function
from polymap.report import ProgressLine, explain, figures_text, status_text
from polymap.report.figures import traffic_text
from polymap.report.figures.roofline import roofline_text
from polymap.report.summary import orders_text
from polymap.schedules import checkup
from polymap.search import SearchResult
from polymap.workload import dependences, domain_of, load_workload

OUT = Path("out")


def main(words: tuple[str, ...] = ()) -> int:
    """Run the demo; 0 where the search proved its answer and the program agreed with reference and prediction."""
    name, machine = (*words, *("resnet50.conv2_x", "eyeriss_like")[len(words) :])[:2]
    start = time.perf_counter()
    workload, arch = load_workload(name), load_arch(machine)
    print(f"polymap: {workload.name} on {arch.name}")
    _section("The loop nest as integer sets (isl)", list(_polyhedra(workload)))
    _section("Loop orders", orders_text(checkup(workload)).splitlines())
    with ProgressLine() as progress:
        result = explore(workload, arch, "energy", tiles="divide", time_limit_s=120, on_progress=progress)
    _section("Search", [str(result.space), status_text(result)])
    if result.best is None or result.cost is None:
        return 3
    _report(workload, arch, result.best, result.cost, result)
    run = _run(workload, arch, result.best, result.cost)
    print(f"\ndone in {time.perf_counter() - start:.1f} s")
    return 0 if result.status == "OPTIMAL" and run.matches_reference and run.counts_match else 1


def _section(title: str, lines: list[str]) -> None:
    print(f"\n== {title} ==")
    print("\n".join(lines), flush=True)


def _polyhedra(workload: Workload) -> Iterator[str]:
    """Yield domain, access relations and dependences as isl prints them."""
    for statement in workload.statements:
        yield _wrapped("domain", domain_of(workload, statement).to_str())
        for verb, access in (("writes", statement.target), *(("reads", access) for access in statement.reads)):
            yield _wrapped(verb, function(statement.name, statement.dims, access.index, access.tensor).to_str())
    for each in dependences(workload):
        yield _wrapped("dependence", f"{each.kind.value} of {each.tensor}, {each.source} to {each.sink}:")
        yield _wrapped("", each.relation_text)


def _wrapped(label: str, text: str) -> str:
    """Return the text beside its label, in lines of at most 118 characters."""
    return fill(text, 118, initial_indent=f"{label:11} ", subsequent_indent=" " * 14, break_on_hyphens=False)


def _report(workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost, result: SearchResult) -> None:
    _section("The best mapping: what runs where, and what is resident", [mapping_text(workload, mapping, arch)])
    _section("Traffic", [traffic_text(cost)])
    _section("Figures", [figures_text(cost)])
    _section("Roofline", [roofline_text(workload, arch, cost)])
    _section("Why", [explain(workload, arch, mapping, cost)])


def _run(workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost) -> CRun:
    """Write the C program to ./out, run it, and print what it counted beside what was predicted."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{workload.name.replace('.', '_')}.c"
    source = generate_c(workload, arch, mapping)
    write_documents([Document(str(path), source)])
    run = run_c(workload, arch, mapping)
    equal = {True: "equal", False: "DIFFERENT", None: "not counted"}
    lines = [
        f"program     {path} ({source.count(chr(10))} lines), ran in {run.seconds:.1f} s",
        f"result      every element against an independent reference: {equal[run.matches_reference]}",
        f"counts      predicted against counted by the program: {equal[run.counts_match]}",
        "",
        _comparison(cost, run),
    ]
    _section("The program", lines)
    return run


def _comparison(cost: Cost, run: CRun) -> str:
    """Return predicted and counted elements side by side, one row per level and tensor."""
    counted = {(row.level, row.tensor): row for row in run.counted}
    rows: list[tuple[str, ...]] = []
    for row in cost.traffic:
        own = counted.get((row.level, row.tensor))
        pairs = ((row.reads, own.reads if own else None), (row.writes, own.writes if own else None))
        cells = [exact(value) if value is not None else "-" for pair in pairs for value in pair]
        agree = own is not None and (row.reads, row.writes) == (own.reads, own.writes)
        rows.append((row.level, row.tensor, *cells, "equal" if agree else "DIFFERENT"))
    head = ("level", "tensor", "reads predicted", "counted", "writes predicted", "counted", "")
    return table(head, rows, left=2)


if __name__ == "__main__":
    sys.exit(guarded(lambda: main(tuple(sys.argv[1:]))))
