"""Random C programs against their own text: generated C in program order and in another legal tree, gcc and clang.

`python -m tests.c_tally 2000 --state FILE` goes on where it stopped. Fifty programs share one translation unit.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from polymap.codegen.forms import Form
from polymap.codegen.interpret import Data, UndefinedValueError
from polymap.codegen.lower.elements import element_types
from polymap.codegen.reference import compute_workload
from polymap.codegen.run import ORIGINAL_FLAGS, agree, generate_c, keeps_order, original_source, random_data
from polymap.costmodel.coherence import stale_copies
from polymap.ir.errors import PolymapError
from polymap.ir.loopnest import Statement, Workload, written_tensors
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.legality import dependence_violations
from polymap.workload.c.reader import from_c
from tests.c_programs import random_program

BATCH = 50
MACHINE = Architecture(
    "machine", (MemoryLevel("DRAM"), MemoryLevel("L2"), Fanout("X", 4), MemoryLevel("L1"), ComputeUnit("MAC"))
)


def compilers() -> tuple[str, ...]:
    """Return the compilers of this machine, gcc and clang first; one that is the same as another is left out."""
    found = [name for name in ("gcc", "clang") if shutil.which(name)]
    return tuple(found) or ("cc",)


# --- mappings ---


def program_order(workload: Workload) -> Mapping:
    """Return the program's own order: loops as they stand, a branch wherever statements part."""
    return Mapping(tuple(_in_order(list(workload.statements), 0)))


def _in_order(statements: list[Statement], depth: int) -> list[MappingNode]:
    groups: dict[int, list[Statement]] = {}
    for each in statements:
        groups.setdefault(each.position[depth], []).append(each)
    children: list[list[MappingNode]] = []
    for group in groups.values():
        if len(group[0].dims) == depth:
            children.append([Compute(group[0].name)])
        else:
            children.append([Temporal(group[0].dims[depth], 1), *_in_order(group, depth + 1)])
    if len(children) == 1:
        return children[0]
    return [Branch(tuple(tuple(child) for child in children))]


def another_tree(workload: Workload, rng: random.Random) -> Mapping:
    """Return a legal tree: loops strip-mined or spread over instances, arrays held in two levels; checked by isl."""
    plain = program_order(workload)
    for spread in (True, False):
        tensors = [tensor.name for tensor in workload.tensors]
        inner = tuple(name for name in tensors if rng.random() < 0.6)
        outer = tuple(name for name in tensors if rng.random() < 0.4)
        nodes = list(plain.nodes)
        loops = [place for place, node in enumerate(nodes) if isinstance(node, Temporal)]
        if len(workload.statements) == 1:
            order = rng.sample(loops, len(loops))
            nodes = [nodes[order[place]] if place in order else node for place, node in enumerate(nodes)]
        if loops and rng.random() < 0.7:
            first = nodes[0]
            assert isinstance(first, Temporal)
            cut: MappingNode = Temporal(first.dim, 2)
            if spread and rng.random() < 0.5:
                nodes[0] = Spatial(first.dim, 1, "X")
                cut = Temporal(first.dim, 4)
            nodes.insert(0, cut)
        at = max((place + 1 for place, node in enumerate(nodes) if isinstance(node, Spatial)), default=0)
        at = rng.randint(at, sum(isinstance(node, Temporal | Spatial) for node in nodes))
        nodes.insert(at, Storage("L1", inner))
        nodes.insert(0, Storage("L2", outer))
        tree = Mapping(tuple(nodes))
        if not dependence_violations(workload, tree) and not stale_copies(workload, MACHINE, tree):
            return tree
    return plain


# --- many programs in one translation unit ---

_STATIC = re.compile(r"^static (.*)$|^typedef char (\w+)", re.MULTILINE)
_NAME = re.compile(r"([A-Za-z_]\w*)(?= ?[\[(;,=])")


def joined(sources: list[str]) -> str:
    """Return one program that runs the programs of the numbers given to it, each with its own files in%d and out%d."""
    parts: list[str] = []
    for number, source in enumerate(sources):
        found = [text for line, name in _STATIC.findall(source) for text in (_NAME.findall(line) or [name])]
        pattern = re.compile(r"\b(" + "|".join(sorted({*found, "main"})) + r")\b")
        parts.append(pattern.sub(rf"\1__{number}", source))
    table = ", ".join(f"main__{number}" for number in range(len(sources)))
    driver = f"""
int main(int argc, char **argv)
{{
    int (*const all[])(int, char **) = {{{table}}};
    for (int i = 1; i < argc; ++i) {{
        char in[40], out[40], *arguments[] = {{"", in, out}};
        sprintf(in, "../in%d", atoi(argv[i]));
        sprintf(out, "out%d", atoi(argv[i]));
        all[atoi(argv[i])](3, arguments);
    }}
    return 0;
}}
"""
    return "\n".join(parts) + driver


@dataclass(slots=True)
class Program:
    """One program that was read: its texts and values. ordered: whether each tree adds fractions in order."""

    seed: int
    text: str
    workload: Workload
    data: Data
    sources: list[str] = field(default_factory=list[str])
    ordered: list[bool] = field(default_factory=list[bool])


@dataclass(slots=True)
class Tally:
    """What was found so far. wrong: seeds with what disagreed. split: seeds on whose text the compilers disagree with
    each other (one of them has a bug, or the text computes what C does not define): to be looked into by hand."""

    programs: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    undefined: int = 0
    compared: int = 0
    wrong: list[str] = field(default_factory=list[str])
    split: list[str] = field(default_factory=list[str])


def prepare(seed: int, text: str, tally: Tally, trees: int = 2) -> Program | None:
    """Return the program of a seed with its texts, or None if it is refused or computes what C does not define.

    trees: 1 for the program's own order alone.
    """
    tally.programs += 1
    try:
        workload = from_c(text)
    except PolymapError as error:
        tally.refused[str(error)[:5]] += 1
        return None
    data = random_data(workload, element_types(workload), seed)
    try:
        expected = compute_workload(workload, data)
    except UndefinedValueError:
        tally.undefined += 1
        return None
    program = Program(seed, text, workload, data)
    mappings = [program_order(workload)]
    if trees > 1:
        mappings.append(another_tree(workload, random.Random(seed)))
    for mapping, form in zip(mappings, (Form.FAITHFUL, Form.NATIVE if seed % 2 else Form.FAITHFUL), strict=False):
        program.sources.append(generate_c(workload, MACHINE, mapping, form))
        program.ordered.append(keeps_order(workload, mapping))
    program.data |= {f"expected {name}": values for name, values in expected.items()}
    return program


def run_batch(programs: list[Program], tally: Tally, directory: Path) -> None:
    """Compile the programs, run all texts on the same values, and compare every element."""
    for number, program in enumerate(programs):
        with (directory / f"in{number}").open("wb") as file:
            for tensor in program.workload.tensors:
                if tensor.name in program.data:
                    file.write(program.data[tensor.name].astype(tensor.element_type or "int32").tobytes())
    found = compilers()
    texts = {name: [original_source(program.workload) for program in programs] for name in found}
    for place, label in enumerate(("program order", "another tree")[: len(programs[0].sources)]):
        texts[label] = [program.sources[place] for program in programs]
    for number, (label, sources) in enumerate(texts.items()):
        turn = programs[0].seed // BATCH
        compiler = label if label in found else found[(number + turn) % len(found)]
        level = "-O1" if label in found else "-O2" if turn % 4 == 0 else "-O0"
        _compile_and_run((compiler, level), sources, directory / label.replace(" ", "_"))
    for number, program in enumerate(programs):
        _compare(number, program, tuple(texts), tally, directory)


def _compile_and_run(compiler: tuple[str, str], sources: list[str], inside: Path) -> None:
    inside.mkdir()
    (inside / "all.c").write_text(joined(sources), encoding="ascii")
    command = [*compiler, *ORIGINAL_FLAGS[1:], "-w", "-o", "all", "all.c", "-lm"]
    subprocess.run(command, cwd=inside, check=True, timeout=600, stderr=subprocess.PIPE)
    numbers = [str(number) for number in range(len(sources))]
    done = subprocess.run(["./all", *numbers], cwd=inside, check=False, timeout=600, stdout=subprocess.DEVNULL)
    if done.returncode:  # one of them ended badly: which shows in its missing output
        for number in numbers:
            (inside / f"out{number}").unlink(missing_ok=True)
            subprocess.run(["./all", number], cwd=inside, check=False, timeout=60, stdout=subprocess.DEVNULL)


def _compare(number: int, program: Program, labels: tuple[str, ...], tally: Tally, directory: Path) -> None:
    """Compare what every text wrote with what the typed interpreter says."""
    places = {label: directory / label.replace(" ", "_") / f"out{number}" for label in labels}
    raw = {label: path.read_bytes() if path.exists() else b"" for label, path in places.items()}
    different = {label: name for label in labels if (name := _difference(program, label, raw[label]))}
    texts = [label for label in labels if label in compilers()]
    tally.compared += 1
    if len({raw[label] for label in texts}) > 1 and any(label not in different for label in texts):
        tally.split.append(f"{program.seed}: {', '.join(label for label in texts if label in different)}")
        different = {label: name for label, name in different.items() if label not in texts}
    tally.wrong += [f"{program.seed}: {name} of {label}" for label, name in different.items()]


def _difference(program: Program, label: str, raw: bytes) -> str:
    """Return the name of the first tensor that a text got wrong, "" if there is none."""
    written = written_tensors(program.workload)
    order, at = program.ordered[label == "another tree"] if " " in label else True, 0
    for tensor in program.workload.tensors:
        if tensor.name not in written or tensor.temporary:
            continue
        expected = program.data[f"expected {tensor.name}"]
        found = np.frombuffer(raw[at : at + expected.nbytes], dtype=expected.dtype)
        at += expected.nbytes
        wanted = expected.reshape(-1)
        slack = None if order or expected.dtype.kind != "f" else 1e-3 * (1 + np.abs(wanted))
        if found.size != wanted.size or not agree(found, wanted, slack):
            return tensor.name
    return ""


def run(first: int, count: int, tally: Tally) -> None:
    """Add the programs of some seeds to the tally."""
    for start in range(first, first + count, BATCH):
        check({seed: random_program(seed) for seed in range(start, min(start + BATCH, first + count))}, tally)


def check(texts: dict[int, str], tally: Tally, trees: int = 2) -> None:
    """Add these programs, each with its seed, to the tally."""
    prepared = [prepare(seed, text, tally, trees) for seed, text in texts.items()]
    programs = [program for program in prepared if program is not None]
    if programs:
        with tempfile.TemporaryDirectory(prefix="polymap-") as directory:
            run_batch(programs, tally, Path(directory))


def main() -> int:
    parser = argparse.ArgumentParser(description="Random C programs against their own text.")
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--state", type=Path, help="a file that keeps the tally: the next call goes on from there")
    options = parser.parse_args()
    tally, seconds = Tally(), 0.0
    if options.state and options.state.exists():
        seconds, tally = _kept(options.state)
    while tally.programs < options.programs:
        start = time.process_time() + _children()
        run(options.first + tally.programs, min(BATCH, options.programs - tally.programs), tally)
        seconds += time.process_time() + _children() - start
        if options.state:
            document = {"seconds": seconds, **{name: getattr(tally, name) for name in Tally.__slots__}}
            options.state.write_text(json.dumps(document), encoding="utf-8")
        sys.stdout.write(
            f"{tally.programs} programs: {tally.compared} compared with {' and '.join(compilers())}, "
            f"{len(tally.wrong)} wrong, {len(tally.split)} split, "
            f"{sum(tally.refused.values())} refused {dict(tally.refused)}, {tally.undefined} undefined; "
            f"{seconds:.0f} CPU s\n"
        )
        sys.stdout.flush()
    for line in (*(f"wrong: {each}" for each in tally.wrong), *(f"split: {each}" for each in tally.split)):
        sys.stdout.write(f"{line}\n")
    return 1 if tally.wrong else 0


def _kept(state: Path) -> tuple[float, Tally]:
    kept = json.loads(state.read_text(encoding="utf-8"))
    counts = (kept["undefined"], kept["compared"], list(kept["wrong"]), list(kept["split"]))
    return kept["seconds"], Tally(kept["programs"], Counter(kept["refused"]), *counts)


def _children() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
