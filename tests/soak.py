"""The long tally: random cases counted by the closed form, by sets and by the simulator, and what the cases exercised.

Every fourth case goes beyond one accumulation in a box (constraints, several accesses, fused statements, ...), and
every eighth crosses the features of both kinds.
Prints how many cases each pair of counters agreed on, and which features and pairs of features occurred.
Run: python -m tests.soak [--cases N] [--seconds S] [--first SEED] [--sets-every K] [--workers N]. Exit code 1 where
two counters differ; the seed of such a case is printed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations, islice
from multiprocessing import get_context

from polymap.arch.machine import Architecture
from polymap.costmodel.closed_form import count_closed_form
from polymap.costmodel.cost import Counts
from polymap.costmodel.simulate import count_by_simulation
from polymap.errors import BudgetError
from polymap.schedules.mapping import Mapping
from polymap.workload.loopnest import Workload
from tests.case_crossed import random_crossed_case
from tests.case_features import BOX_FEATURES, GENERAL_FEATURES
from tests.cases import Case, random_case, random_general_case

Count = Callable[[Workload, Architecture, Mapping], Counts]
FEATURES = (*BOX_FEATURES, *GENERAL_FEATURES)
CHUNK = 200


@dataclass(slots=True)
class Tally:
    """What a stretch of cases gave. closed, sets: outcome -> cases. wrong: (seed, counter). features, pairs: cases."""

    cases: int = 0
    closed: Counter[str] = field(default_factory=Counter[str])
    sets: Counter[str] = field(default_factory=Counter[str])
    wrong: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    features: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

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


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    if seed % 8 == 1:
        return random_crossed_case(rng)
    return random_general_case(rng) if seed % 4 == 3 else random_case(rng)


def sets_counter() -> Count | None:
    """Return the counter by sets; None where it is not there."""
    try:
        return import_module("polymap.costmodel.sets").count_with_sets
    except ModuleNotFoundError:
        return None


def tally_of(first: int, count: int, sets_every: int) -> Tally:
    """Return the tally of `count` seeds from `first` on; sets count every `sets_every`-th case (0: none)."""
    tally = Tally()
    by_sets = sets_counter() if sets_every else None
    for seed in range(first, first + count):
        case = case_of(seed)
        subject = (case.workload, case.arch, case.mapping)
        truth = count_by_simulation(*subject)
        tally.cases += 1
        found = count_closed_form(*subject)
        _note(tally.closed, tally.wrong, seed, "closed form", truth, found)
        if by_sets is not None and seed % sets_every == 0:
            try:
                found = by_sets(*subject)
            except BudgetError:
                found = None
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


def run(cases: int, seconds: float, first: int, sets_every: int, workers: int) -> Tally:
    """Return the tally of up to `cases` cases; no further stretch begins after `seconds`."""
    total = Tally()
    begin = time.monotonic()
    stretches = [(start, min(CHUNK, first + cases - start)) for start in range(first, first + cases, CHUNK)]

    def in_time() -> Iterator[tuple[int, int]]:
        for stretch in stretches:
            if time.monotonic() - begin > seconds:
                return
            yield stretch

    if workers == 1:
        for start, count in in_time():
            total.add(tally_of(start, count, sets_every))
        return total
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = in_time()
        running = [pool.submit(tally_of, *each, sets_every) for each in islice(waiting, workers)]
        while running:
            total.add(running.pop(0).result())
            running += [pool.submit(tally_of, *each, sets_every) for each in islice(waiting, 1)]
    return total


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
    lines += [f"WRONG: seed {seed}, {counter}" for seed, counter in tally.wrong[:50]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The long tally of counters against the simulator.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sets-every", type=int, default=1, help="sets count every K-th case; 0: none")
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    begin = time.monotonic()
    tally = run(asked.cases, asked.seconds, asked.first, asked.sets_every, asked.workers)
    print(text(tally, time.monotonic() - begin))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
