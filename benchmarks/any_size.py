"""Tiles of any size: value, bound, gap, CPU seconds and memory of layers, products and ragged shapes on five machines.

Every question runs in a process of its own (start-up included in its figures), with the least energy asked for. Answers
are kept in a file of JSON lines as soon as they are known and the table is written anew each time, so a run that was
interrupted goes on; an answer is asked for again only under another limit or objective.
Run: python benchmarks/any_size.py [--machines NAME,...] [--limit CPU_SECONDS] [--workers N] [--objective OBJECTIVE]
[--seed N] [--draw COUNT] [--out FOLDER] [CASE ...]   (a CASE is the beginning of a name: resnet50, product, ...)
"""

from __future__ import annotations

import argparse
import json
import resource
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.networks import NETWORKS
from benchmarks.search import Case, answer, gemm, run_child, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

MACHINES = ("eyeriss_like", "simba_like", "tpu_like", "flat3", "cluster4")
RAGGED_SHAPES = 30
RAGGED_SEED = 2026
WITHIN = 0.01  # the gap that an answer should have at most
Answer = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A case under its full name, and the machine's name in the table."""

    name: str
    machine: str
    case: Case

    @property
    def key(self) -> str:
        """Return what tells this question from every other."""
        return f"{self.name}@{self.machine}"


def layer_cases() -> list[Case]:
    """Return every distinct layer of the networks, once per shape; the machine is to be put in."""
    import polymap as pm

    seen: set[str] = set()
    found: list[Case] = []
    for name in pm.io.builtin_names():
        if name.split(".")[0] not in NETWORKS:
            continue
        document = pm.io.workload_to_document(pm.io.builtin_workload(name))
        shape = json.dumps({key: value for key, value in document.items() if key != "name"}, sort_keys=True)
        if shape not in seen:
            seen.add(shape)
            found.append(Case(name, name, "", tiles="any"))
    return found


def one_buffer(capacity_words: int) -> dict[str, object]:
    """Return a machine of DRAM, one buffer of 8-bit words that need not hold anything, and compute."""
    level: dict[str, object] = {"word_bits": 8, "read_pj": 1, "write_pj": 1}
    return {
        "name": f"buffer_{capacity_words}",
        "nodes": [
            {"level": "DRAM", "capacity_bits": None, **level},
            {"level": "BUF", "capacity_bits": 8 * capacity_words, **level},
            {"compute": "MAC", "pj": 0, "per_cycle": 1},
        ],
    }


def product_questions() -> list[Question]:
    """Return the products: odd ones on every machine, and two large ones."""
    odd = [(127, 127, 127), (31, 37, 41)]
    found = [_of_product(shape, machine) for shape in odd for machine in MACHINES]
    large = Case("product.4096x4096x4096", gemm(4096, 4096, 4096), "flat3", tiles="any", keep=True)
    words = Case("product.4096x4096x8192", gemm(4096, 4096, 8192), one_buffer(16384), "traffic:DRAM", tiles="any")
    return [*found, Question(large.name, "flat3_keep", large), Question(words.name, "buffer_16384", words)]


def _of_product(shape: tuple[int, int, int], machine: str) -> Question:
    name = "product." + "x".join(map(str, shape))
    return Question(name, machine, Case(name, gemm(*shape), machine, tiles="any"))


def ragged_questions(seed: int) -> list[Question]:
    """Return products, convolutions and depthwise layers of drawn sizes, the machines in turn."""
    rng = Random(seed)
    found: list[Question] = []
    for number in range(RAGGED_SHAPES):
        machine = MACHINES[number % len(MACHINES)]
        document = _ragged(number, rng)
        name = f"ragged.{number:02}_{document['name']}"
        found.append(Question(name, machine, Case(name, document, machine, tiles="any")))
    return found


def _ragged(number: int, rng: Random) -> dict[str, object]:
    """Return the document of a drawn layer: of six three products, two convolutions, a depthwise one."""
    kind = number // len(MACHINES) % 6
    if kind < 3:
        return gemm(*(_ragged_size(rng, 11, 700) for _ in range(3)))
    k, c = _ragged_size(rng, 5, 200), _ragged_size(rng, 3, 200)
    p, q, r = _ragged_size(rng, 7, 60), _ragged_size(rng, 7, 60), rng.choice((3, 5, 7))
    stride = rng.choice(("p+r", "2p+r")), rng.choice(("q+s", "2q+s"))
    if kind < 5:
        text = f"O[k,p,q] += I[c,{stride[0]},{stride[1]}] * W[k,c,r,s]"
        sizes = {"k": k, "c": c, "p": p, "q": q, "r": r, "s": r}
        return {"name": f"conv_{k}x{c}x{p}x{q}x{r}", "einsum": text, "sizes": sizes}
    text = f"O[c,p,q] += I[c,{stride[0]},{stride[1]}] * W[c,r,s]"
    return {"name": f"dw_{c}x{p}x{q}x{r}", "einsum": text, "sizes": {"c": c, "p": p, "q": q, "r": r, "s": r}}


def _ragged_size(rng: Random, low: int, high: int) -> int:
    """Return a drawn odd number; half of the time the least prime from there on."""
    size = rng.randint(low, high) | 1
    while rng.random() < 0.5 and any(size % n == 0 for n in range(3, int(size**0.5) + 1, 2)):
        size += 2
    return size


def questions(starts: Sequence[str], machines: Sequence[str], seed: int, objective: str | None) -> list[Question]:
    """Return the questions whose names begin so, on these machines."""
    layers = [Question(one.name, name, replace(one, arch=name)) for one in layer_cases() for name in MACHINES]
    found = [*layers, *product_questions(), *ragged_questions(seed)]
    wanted = [
        one
        for one in found
        if (not starts or one.name.startswith(tuple(starts))) and (not machines or one.machine in machines)
    ]
    if objective is None:
        return wanted
    return [replace(one, case=replace(one.case, objective=objective)) for one in wanted]


def known_answers(file: Path) -> dict[str, Answer]:
    """Return the answers of a file by question, the last of each."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    said = [json.loads(line) for line in lines if line.endswith("}")]  # an interrupted line is asked for again
    return {one["key"]: one for one in said}


def asked(question: Question, options: argparse.Namespace) -> Answer:
    """Return what a process of its own says to a question."""
    extra = ["--seed", str(options.seed), "--machines", question.machine]
    extra += ["--objective", options.objective] if options.objective else []
    said, cpu_s, megabytes = run_child(Path(__file__), question.name, options.limit, extra)
    about = {"key": question.key, "objective": question.case.objective, "limit": options.limit}
    return {**about, **said, "cpu_s": round(cpu_s, 2), "mb": round(megabytes)}


def row(question: Question, said: Answer) -> str:
    """Return a line of the table."""
    value, dividing, gap = said.get("value"), said.get("dividing"), said.get("gap")
    loss = "-" if not value or dividing is None else f"{100 * (dividing / value - 1):.3g}"
    percent = "-" if gap is None else f"{100 * gap:.3g}"
    cells = (question.name, question.machine, shown(value), shown(said.get("bound")), percent, said["status"])
    return "| " + " | ".join((*cells, f"{said['cpu_s']:.1f}", str(said["mb"]), loss)) + " |"


def summary(group: str, answers: Sequence[Answer]) -> str:
    """Return how many answers of a group are proven or near."""
    proven = sum(one["status"] == "OPTIMAL" for one in answers)
    near = sum(one["status"] == "FEASIBLE" and one["gap"] <= WITHIN for one in answers)
    worst = max((one["gap"] for one in answers if one.get("gap") is not None), default=0.0)
    cpu = sorted(one["cpu_s"] for one in answers)
    figures = f"{proven} | {near} | {len(answers) - proven - near} | {100 * worst:.3g}"
    return f"| {group} | {len(answers)} | {figures} | {sum(cpu):.0f} | {cpu[-1]:.1f} |"


def table(wanted: Sequence[Question], answers: dict[str, Answer], options: argparse.Namespace) -> str:
    """Return the document: totals per machine, then a line per question that is answered."""
    done = [one for one in wanted if one.key in answers]
    groups: dict[str, list[Answer]] = {}
    for one in done:
        kind = one.name.split(".")[0]
        kind = "networks" if kind in NETWORKS else kind
        for name in (f"{kind}, {one.machine}" if kind == "networks" else kind, "all"):
            groups.setdefault(name, []).append(answers[one.key])
    lines = [
        f"Limit {options.limit:g} CPU s per question, one worker, a process each (start-up included in CPU s and MB);",
        f"ragged shapes drawn by seed {options.seed}. gap: (value - bound) / value. loss: how much more the best",
        "mapping with tiles that divide costs.",
        "",
        "| group | questions | proven | within 1 % | others | worst gap % | CPU s, together | the longest |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(summary(name, members) for name, members in groups.items()),
        "",
        "| layer | machine | value | bound | gap % | status | CPU s | MB | loss % |",
        "|---|---|---:|---:|---:|---|---:|---:|---:|",
        *(row(one, answers[one.key]) for one in done),
    ]
    return "\n".join(lines) + "\n"


def report(wanted: Sequence[Question], options: argparse.Namespace) -> bool:
    """Ask what is not known, write every answer and the table as soon as it comes; return whether every mapping
    evaluates to the cost that was claimed."""
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"any_size_{(options.objective or 'energy').replace(':', '_')}"
    answers = known_answers(folder / f"{stem}.jsonl")
    objectives = {one.key: one.case.objective for one in wanted}
    left = [
        one
        for one in wanted
        if (said := answers.get(one.key)) is None
        or (said["limit"], said["objective"]) != (options.limit, objectives[one.key])
    ]
    print(f"{len(wanted)} questions, {len(left)} to ask; ragged shapes drawn by seed {options.seed}", flush=True)
    with ThreadPoolExecutor(options.workers) as pool, (folder / f"{stem}.jsonl").open("a", encoding="utf-8") as kept:
        waiting = {pool.submit(asked, one, options): one for one in left}
        for one in as_completed(waiting):
            said = one.result()
            answers[said["key"]] = said
            kept.write(json.dumps(said) + "\n")
            kept.flush()
            (folder / f"{stem}.md").write_text(table(wanted, answers, options), encoding="utf-8")
            print(row(waiting[one], said), flush=True)
    (folder / f"{stem}.md").write_text(table(wanted, answers, options), encoding="utf-8")
    return all(answers[one.key].get("same") for one in wanted)


def answered_in_child(options: argparse.Namespace, wanted: Sequence[Question]) -> None:
    """Print the answer to the one question of this process, which ends where it takes far longer than its limit."""
    most = int(3 * options.limit) + 20
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    question = next(one for one in wanted if one.name == options.child)
    print(json.dumps(answer(question.case, options.limit)))


def main() -> None:
    parser = argparse.ArgumentParser(description="tiles of any size: layers, products and ragged shapes")
    parser.add_argument("cases", nargs="*", help="names, or their beginnings; all where none is given")
    parser.add_argument("--machines", default="", help="names, separated by commas; all where none is given")
    parser.add_argument("--limit", type=float, default=20, help="CPU seconds per question")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--objective", default=None, help="energy where none is given")
    parser.add_argument("--seed", type=int, default=RAGGED_SEED, help="of the ragged shapes")
    parser.add_argument("--draw", type=int, default=None, help="ask so many of them, drawn by the seed")
    parser.add_argument("--out", default="out", help="folder of the answers and the table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    machines = [name for name in options.machines.split(",") if name]
    wanted = questions(options.cases, machines, options.seed, options.objective)
    if options.child:
        answered_in_child(options, wanted)
        return
    if options.draw is not None:
        wanted = Random(options.seed).sample(wanted, min(options.draw, len(wanted)))
    if not report(wanted, options):
        raise SystemExit("an answer's mapping does not evaluate to the cost that was claimed, or none came")


if __name__ == "__main__":
    main()
