"""The long tally: random cases counted by the closed form, by sets and by the simulator, and what the cases exercised.

Every fourth case goes beyond one accumulation in a box (constraints, several accesses, fused statements, ...), and
every eighth crosses the features of both kinds.
Prints how many cases each pair of counters agreed on, and which features and pairs of features occurred.
Run: python -m tests.soak [--cases N] [--seconds S] [--first SEED] [--sets-every K] [--workers N] [--tally FILE].
Exit code 1 where two counters differ; the seed of such a case is printed. With a tally file a run goes on after the
last seed of the file and writes the file after every stretch, so that a long run may be cut into pieces; a file made by
another version of the counters is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polymap
from polymap.costmodel.closed_form import count_closed_form
from polymap.costmodel.cost import Counts
from polymap.costmodel.sets import count_with_sets
from polymap.costmodel.simulate import count_by_simulation
from polymap.errors import BudgetError
from tests.case_crossed import random_crossed_case
from tests.case_features import BOX_FEATURES, GENERAL_FEATURES
from tests.cases import Case, random_case, random_general_case

FEATURES = (*BOX_FEATURES, *GENERAL_FEATURES)
CHUNK = 200
KINDS = 8  # so many seeds in turn make cases of each kind (`case_of`)
SLOWEST = 8


@dataclass(slots=True)
class Tally:
    """What a stretch of cases gave. closed, sets: outcome -> cases. wrong: (seed, counter). features, pairs: cases.

    slowest: the longest counts, as (CPU seconds, seed, counter).
    """

    cases: int = 0
    closed: Counter[str] = field(default_factory=Counter[str])
    sets: Counter[str] = field(default_factory=Counter[str])
    wrong: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    features: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    slowest: list[tuple[float, int, str]] = field(default_factory=list[tuple[float, int, str]], compare=False)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.wrong += other.wrong
        for mine, theirs in (
            (self.closed, other.closed),
            (self.sets, other.sets),
            (self.features, other.features),
            (self.pairs, other.pairs),
        ):
            mine.update(theirs)  # type: ignore[arg-type]  # each beside its own kind
        self.took(*other.slowest)

    def took(self, *counts: tuple[float, int, str]) -> None:
        self.slowest = sorted([*self.slowest, *counts], reverse=True)[:SLOWEST]


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    if seed % 8 == 1:
        return random_crossed_case(rng)
    return random_general_case(rng) if seed % 4 == 3 else random_case(rng)


def tally_of(first: int, count: int, sets_every: int) -> Tally:
    """Return the tally of `count` seeds from `first` on; sets count every `sets_every`-th eight of cases (0: none)."""
    tally = Tally()
    for seed in range(first, first + count):
        case = case_of(seed)
        subject = (case.workload, case.arch, case.mapping)
        truth = count_by_simulation(*subject)
        tally.cases += 1
        begin = time.process_time()
        found = count_closed_form(*subject)
        tally.took((time.process_time() - begin, seed, "closed form"))
        _note(tally.closed, tally.wrong, seed, "closed form", truth, found)
        if sets_every and seed // KINDS % sets_every == 0:
            begin = time.process_time()
            try:
                found = count_with_sets(*subject)
            except BudgetError:
                found = None
            tally.took((time.process_time() - begin, seed, "sets"))
            _note(tally.sets, tally.wrong, seed, "sets", truth, found)
        tally.features.update(case.features)
        tally.pairs.update(combinations(sorted(case.features), 2))
    return tally


def _note(
    outcomes: Counter[str], wrong: list[tuple[int, str]], seed: int, counter: str, truth: Counts, found: Counts | None
) -> None:
    if found is None:
        outcomes["no answer"] += 1
    elif found == truth:
        outcomes["equal"] += 1
    else:
        outcomes["wrong"] += 1
        wrong.append((seed, counter))


def run(cases: int, seconds: float, first: int, sets_every: int, workers: int, kept: Path | None = None) -> Tally:
    """Return the tally of `cases` cases from seed `first` on; no further stretch begins after `seconds`.

    kept: a file with the tally of the first of these cases, which is gone on with and kept up to date.
    """
    total = read_tally(kept, first, sets_every) if kept and kept.exists() else Tally()
    begin = time.monotonic()
    end = first + cases
    stretches = [(start, min(CHUNK, end - start)) for start in range(first + total.cases, end, CHUNK)]

    def add(stretch: Tally) -> None:
        total.add(stretch)
        if kept:
            write_tally(kept, total, first, sets_every)

    def in_time() -> Iterator[tuple[int, int]]:
        for stretch in stretches:
            if time.monotonic() - begin > seconds:
                return
            yield stretch

    if workers == 1:
        for start, count in in_time():
            add(tally_of(start, count, sets_every))
        return total
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = in_time()
        running = [pool.submit(tally_of, *each, sets_every) for each in islice(waiting, workers)]
        while running:
            add(running.pop(0).result())
            running += [pool.submit(tally_of, *each, sets_every) for each in islice(waiting, 1)]
    return total


def counters_version() -> str:
    """Return a digest of the sources that a tally depends on: those of the counters and of the random cases."""
    house, here = Path(polymap.__file__).parent, Path(__file__).parent
    rooms = ("poly", "workload", "arch", "schedules", "costmodel")
    sources = [path for room in rooms for path in sorted(house.glob(f"{room}/*.py"))]
    sources += sorted(here.glob("case*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def write_tally(path: Path, tally: Tally, first: int, sets_every: int) -> None:
    """Write the tally of the seeds from `first` on."""
    document = {
        "version": counters_version(),
        "first": first,
        "sets_every": sets_every,
        "cases": tally.cases,
        "closed": tally.closed,
        "sets": tally.sets,
        "wrong": tally.wrong,
        "features": tally.features,
        "pairs": [[*pair, cases] for pair, cases in tally.pairs.items()],
        "slowest": tally.slowest,
    }
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document))
    fresh.replace(path)


def read_tally(path: Path, first: int, sets_every: int) -> Tally:
    """Return the tally of a file; ends the program where it is of other seeds or was made by other counters."""
    document: dict[str, Any] = json.loads(path.read_text())
    asked = {"version": counters_version(), "first": first, "sets_every": sets_every}
    if asked != {name: document[name] for name in asked}:
        sys.exit(f"{path} was made by another version or from other seeds; name another file")
    return Tally(
        cases=document["cases"],
        closed=Counter(document["closed"]),
        sets=Counter(document["sets"]),
        wrong=[(seed, counter) for seed, counter in document["wrong"]],
        features=Counter(document["features"]),
        pairs=Counter({(one, other): cases for one, other, cases in document["pairs"]}),
        slowest=[(seconds, seed, counter) for seconds, seed, counter in document["slowest"]],
    )


def text(tally: Tally, seconds: float) -> str:
    """Return the tally as lines: agreements, features, pairs of features that never met."""
    lines = [f"{tally.cases:,} random cases in {seconds:.0f} s", ""]
    for name, outcomes in (("closed form", tally.closed), ("sets", tally.sets)):
        asked = sum(outcomes.values())
        lines.append(
            f"{name:11} against the simulator: {asked:,} asked, {outcomes['equal']:,} equal to the last word, "
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
    lines += ["", "longest counts"]
    lines += [f"  {took:8.2f} CPU s, seed {seed}, {counter}" for took, seed, counter in tally.slowest]
    lines += [f"WRONG: seed {seed}, {counter}" for seed, counter in tally.wrong[:50]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The long tally of counters against the simulator.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sets-every", type=int, default=1, help="sets count every K-th eight of cases; 0: none")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tally", type=Path, help="go on with the tally in this file, and keep it up to date")
    asked = parser.parse_args()
    begin = time.monotonic()
    tally = run(asked.cases, asked.seconds, asked.first, asked.sets_every, asked.workers, asked.tally)
    print(text(tally, time.monotonic() - begin))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
