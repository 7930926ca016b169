"""The long tally: random cases counted by every counter and by the simulator, and what the cases exercised.

Sixteen seeds in turn make cases of each kind (`MAKERS`): accumulations in a box, programs beyond that, both crossed,
chains of ragged loops over one dim, windows in outputs and in inputs, C texts of every form of assignment, and extents
to 10^6, where smaller members of a family are walked in the large one's place. Half of them run on machines with
energies of 1 to 9 digits. Counted: by the closed form (every case), as a table of tiles (every K-th sixteen,
`--tables-every K`), by sets (`--sets-every K`); and what the counts cost is computed a second time.
Prints how many cases each pair of counters agreed on, which features and pairs of features occurred, and the time.
Run: python -m tests.soak [--cases N] [--seconds S] [--first SEED] [--sets-every K] [--workers N] [--tally FILE|FOLDER].
Exit code 1 where two counters differ; the seed of such a case is printed. With a tally file a run goes on after the
last seed of the file and writes the file after every stretch, so that a long run may be interrupted (Ctrl-C) and cut
into pieces; a file made by another version of the counters is refused, in a folder each version has its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import polymap
from polymap.costmodel.assembly import assemble
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.set_counts import counts_of_sets
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.costmodel.tables.cost_arrays import evaluate_many
from polymap.ir.errors import BudgetError
from polymap.ir.mapping import Spatial, Temporal
from polymap.poly import within
from tests.case_chains import input_window_case, output_window_case, random_chain_case
from tests.case_crossed import random_crossed_case
from tests.case_features import BOX_FEATURES, GENERAL_FEATURES, LONG_FEATURES, features_of
from tests.case_machines import cost_of, with_long_numbers
from tests.case_programs import random_program_case
from tests.case_scaled import random_scaled_case, without_busiest
from tests.cases import Case, random_case, random_general_case

FEATURES = (*BOX_FEATURES, *GENERAL_FEATURES, *LONG_FEATURES)
CHUNK = 200
SLOWEST = 8
BOX, CHAIN, WINDOW, INPUT = "box", "chain", "output window", "input window"
MAKERS: dict[str, Callable[[random.Random], Case]] = {
    BOX: random_case,
    "crossed": random_crossed_case,
    "general": random_general_case,
    CHAIN: random_chain_case,
    WINDOW: output_window_case,
    INPUT: input_window_case,
    "C text": random_program_case,
    "long extent": random_scaled_case,
}
ORDER = (
    BOX, "crossed", BOX, "general", BOX, CHAIN, WINDOW, "C text",
    INPUT, "crossed", WINDOW, "general", CHAIN, "long extent", "C text", CHAIN,
)  # fmt: skip
KINDS = len(ORDER)
COUNTERS = ("closed form", "table of tiles", "sets", "cost")
TABLED = (BOX, CHAIN, WINDOW, INPUT)  # kinds that tables of tiles are asked about, where the closed form answers


@dataclass(slots=True)
class Tally:
    """What a stretch of cases gave. unknown: cases too large to be walked of which smaller ones say nothing. outcomes:
    counter -> outcome -> cases. wrong: (seed, counter). features, pairs: cases.

    took: CPU seconds per part of the work; wall: seconds of all runs. slowest: the longest counts, as (CPU seconds,
    seed, counter).
    """

    cases: int = 0
    unknown: int = 0
    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in COUNTERS})
    wrong: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    features: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    took: Counter[str] = field(default_factory=Counter[str], compare=False)
    wall: float = field(default=0.0, compare=False)
    slowest: list[tuple[float, int, str]] = field(default_factory=list[tuple[float, int, str]], compare=False)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.unknown += other.unknown
        self.wrong += other.wrong
        for name in COUNTERS:
            self.outcomes[name].update(other.outcomes[name])
        self.features.update(other.features)
        self.pairs.update(other.pairs)
        self.took.update(other.took)
        self.slowest = sorted([*self.slowest, *other.slowest], reverse=True)[:SLOWEST]

    @contextmanager
    def timed(self, part: str, seed: int) -> Generator[None, None, None]:
        """Note the CPU time that what is inside takes, also among the slowest where it is a count."""
        begin = time.process_time()
        yield
        seconds = time.process_time() - begin
        self.took[part] += seconds  # pyright: ignore[reportArgumentType]  # a Counter of seconds
        if part in COUNTERS:
            self.slowest = sorted([*self.slowest, (seconds, seed, part)], reverse=True)[:SLOWEST]

    def note(self, seed: int, counter: str, *, is_right: bool | None) -> None:
        """Note an outcome; None where the counter gave no answer."""
        self.outcomes[counter]["no answer" if is_right is None else "equal" if is_right else "wrong"] += 1
        if is_right is False:
            self.wrong.append((seed, counter))


def kind_of(seed: int) -> str:
    """Return the kind of a seed's case."""
    return ORDER[seed % KINDS]


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    case = MAKERS[kind_of(seed)](rng)
    if rng.random() < 0.5:
        return case
    arch = with_long_numbers(rng, case.arch)
    return replace(case, arch=arch, features=features_of(case.workload, arch, case.mapping))


def tally_of(first: int, count: int, sets_every: int, tables_every: int = 4) -> Tally:
    """Return the tally of `count` seeds from `first` on; sets and tables count every K-th sixteen (0: none)."""
    tally = Tally()
    for seed in range(first, first + count):
        with tally.timed("drawing", seed):
            case = case_of(seed)
        sixteen = seed // KINDS
        by_sets = bool(sets_every) and sixteen % sets_every == 0
        by_table = bool(tables_every) and sixteen % tables_every == 0 and kind_of(seed) in TABLED
        _count(tally, seed, case, by_sets=by_sets, by_table=by_table)
        tally.cases += 1
        tally.features.update(case.features)
        tally.pairs.update(combinations(sorted(case.features), 2))
    return tally


def _count(tally: Tally, seed: int, case: Case, *, by_sets: bool, by_table: bool) -> None:
    """Let each counter count a case, and note whether it is right."""
    subject = (case.workload, case.arch, case.mapping)
    with tally.timed("simulator", seed):
        truth = case.truth() if case.truth else count_by_simulation(*subject)
    if truth is None:  # too large, and its smaller members say nothing of it
        tally.unknown += 1
        return
    with tally.timed("closed form", seed):
        found = count_closed_form(*subject)
    tally.note(seed, "closed form", is_right=agrees(found, truth))
    if by_sets:
        with tally.timed("sets", seed):
            by_isl = _counted_with_sets(case)
        tally.note(seed, "sets", is_right=agrees(by_isl, truth))
    if all(use.busiest_total_bits >= 0 for use in truth.uses):  # everything is known, also the busiest instances
        energy, latency = cost_of(case.workload, case.arch, truth)
        with tally.timed("cost", seed):
            cost = assemble(case.workload, case.arch, truth, (), "")
        tally.note(seed, "cost", is_right=(cost.energy_pj, cost.latency_cycles) == (energy, latency))
        if by_table:
            with tally.timed("table of tiles", seed):
                right = None if found is None else _table_agrees(case, truth, energy, latency)
            tally.note(seed, "table of tiles", is_right=right)


def agrees(found: Counts | None, truth: Counts) -> bool | None:
    """Return whether counts equal the truth as far as it is known; None for no counts."""
    return None if found is None else _without_unknown(found, truth) == truth


def _without_unknown(found: Counts, truth: Counts) -> Counts:
    return without_busiest(found) if any(use.busiest_total_bits < 0 for use in truth.uses) else found


def _counted_with_sets(case: Case) -> Counts | None:
    try:
        return within(60, "counting with sets", counts_of_sets, case.workload, case.arch, case.mapping)
    except BudgetError:
        return None


def _table_agrees(case: Case, truth: Counts, energy: float, latency: int) -> bool:
    """Return whether a table of tiles with the case in its two rows gives what the truth costs."""
    tiles = [node.tile for node in case.mapping.nodes if isinstance(node, Temporal | Spatial)]
    arrays = evaluate_many(case.workload, case.arch, case.mapping, np.array([tiles, tiles], dtype=np.int64))
    rows = [
        (row.level, row.tensor, int(row.reads[1]), int(row.writes[1]), int(row.fills[1]), int(row.drains[1]))
        for row in arrays.traffic
    ]
    wanted = [(row.level, row.tensor, row.reads, row.writes, row.fills, row.drains) for row in truth.traffic]
    occupancy = [(level, int(bits[1])) for level, bits in arrays.occupancy_bits]
    return (
        rows == wanted
        and int(arrays.instances[1]) == truth.instances
        and occupancy == [(use.level, use.occupancy_bits) for use in truth.uses[1:]]
        and (float(arrays.energy_pj[1]), int(arrays.latency_cycles[1])) == (energy, latency)
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """What a tally is of: all seeds from `first` on, and how often the slower counters count."""

    first: int
    sets_every: int
    tables_every: int = 4

    def document(self) -> dict[str, object]:
        return {
            "version": counters_version(),
            "first": self.first,
            "sets_every": self.sets_every,
            "tables_every": self.tables_every,
        }


def run(cases: int, seconds: float, asked: Asked, workers: int, kept: Path | None = None) -> Tally:
    """Return the tally of `cases` cases; no further stretch begins after `seconds`, or after Ctrl-C.

    kept: a file with the tally of the first of these cases, which is gone on with and kept up to date.
    """
    total = read_tally(kept, asked) if kept and kept.exists() else Tally()
    begin, before = time.monotonic(), total.wall
    end = asked.first + cases
    stretches = [(start, min(CHUNK, end - start)) for start in range(asked.first + total.cases, end, CHUNK)]

    def add(stretch: Tally) -> None:
        total.add(stretch)
        total.wall = before + time.monotonic() - begin
        if kept:
            write_tally(kept, total, asked)

    def in_time() -> Iterator[tuple[int, int]]:
        for stretch in stretches:
            if time.monotonic() - begin > seconds:
                return
            yield stretch

    rest = (asked.sets_every, asked.tables_every)
    try:
        if workers == 1:
            for start, count in in_time():
                add(tally_of(start, count, *rest))
            return total
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting = in_time()
            running = [pool.submit(tally_of, *each, *rest) for each in islice(waiting, workers)]
            while running:
                add(running.pop(0).result())
                running += [pool.submit(tally_of, *each, *rest) for each in islice(waiting, 1)]
    except KeyboardInterrupt:
        print(f"interrupted; {'the same command goes on' if kept else 'with --tally it could go on'}", file=sys.stderr)
    return total


def counters_version() -> str:
    """Return a digest of the sources that a tally depends on: those of the counters and of the random cases."""
    house, here = Path(polymap.__file__).parent, Path(__file__).parent
    rooms = ("poly", "workload", "arch", "schedules", "costmodel")
    sources = [path for room in rooms for path in sorted(house.glob(f"{room}/*.py"))]
    sources += [*sorted(here.glob("case*.py")), here / "soak.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def write_tally(path: Path, tally: Tally, asked: Asked) -> None:
    """Write the tally of the seeds from the first on."""
    document = {
        **asked.document(),
        "cases": tally.cases,
        "unknown": tally.unknown,
        "outcomes": tally.outcomes,
        "wrong": tally.wrong,
        "features": tally.features,
        "pairs": [[*pair, cases] for pair, cases in tally.pairs.items()],
        "took": tally.took,
        "wall": tally.wall,
        "slowest": tally.slowest,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document))
    fresh.replace(path)


def read_tally(path: Path, asked: Asked) -> Tally:
    """Return the tally of a file; ends the program where it is of other seeds or was made by other counters."""
    document: dict[str, Any] = json.loads(path.read_text())
    wanted = asked.document()
    if wanted != {name: document.get(name) for name in wanted}:
        sys.exit(f"{path} was made by another version or from other seeds; name another file")
    return Tally(
        cases=document["cases"],
        unknown=document["unknown"],
        outcomes={name: Counter(document["outcomes"][name]) for name in COUNTERS},
        wrong=[(seed, counter) for seed, counter in document["wrong"]],
        features=Counter(document["features"]),
        pairs=Counter({(one, other): cases for one, other, cases in document["pairs"]}),
        took=Counter(document["took"]),
        wall=document["wall"],
        slowest=[(seconds, seed, counter) for seconds, seed, counter in document["slowest"]],
    )


def text(tally: Tally) -> str:
    """Return the tally as lines: agreements, features, pairs of features that never met, times."""
    lines = [f"{tally.cases:,} random cases in {tally.wall:.0f} s ({tally.unknown:,} too large for a truth)", ""]
    for name, outcomes in tally.outcomes.items():
        asked = sum(outcomes.values())
        lines.append(
            f"{name:14} against the simulator: {asked:,} asked, {outcomes['equal']:,} equal to the last word, "
            f"{outcomes['wrong']:,} wrong, {outcomes['no answer']:,} left to others"
        )
    lines += ["", "features (cases)"]
    lines += [f"  {tally.features[name]:>9,}  {name}" for name in FEATURES]
    possible = list(combinations(sorted(FEATURES), 2))
    met = [pair for pair in possible if tally.pairs[pair]]
    lines += ["", f"pairs of features: {len(met)} of {len(possible)} met"]
    lines += [f"  never: {one} + {other}" for one, other in possible if not tally.pairs[one, other]]
    if met:
        one, other = min(met, key=lambda pair: tally.pairs[pair])
        lines.append(f"  rarest: {one} + {other}, {tally.pairs[one, other]:,} cases")
    lines += ["", "CPU time"]
    lines += [f"  {seconds:8.1f} s, {1000 * seconds / max(tally.cases, 1):.1f} ms a case: {part}"
              for part, seconds in tally.took.most_common()]  # fmt: skip
    lines += ["", "longest counts"]
    lines += [f"  {took:8.2f} CPU s, seed {seed}, {counter}" for took, seed, counter in tally.slowest]
    kinds = Counter((counter, kind_of(seed)) for seed, counter in tally.wrong)
    lines += [
        f"WRONG: {cases:,} cases of the kind '{kind}', {counter}" for (counter, kind), cases in kinds.most_common()
    ]
    lines += [f"WRONG: seed {seed}, {counter}" for seed, counter in tally.wrong[:50]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The long tally of counters against the simulator.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sets-every", type=int, default=1, help="sets count every K-th sixteen of cases; 0: none")
    parser.add_argument("--tables-every", type=int, default=4, help="tables of tiles likewise")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tally", type=Path, help="go on with the tally in this file (or in its file in this folder)")
    given = parser.parse_args()
    asked = Asked(given.first, given.sets_every, given.tables_every)
    kept: Path | None = given.tally
    if kept is not None and (kept.is_dir() or not kept.suffix):
        kept /= f"soak-{counters_version()}-{asked.first}-{asked.sets_every}-{asked.tables_every}.json"
    tally = run(given.cases, given.seconds, asked, given.workers, kept)
    print(text(tally))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
