"""Random functions of `wild_programs` through `transform_c` with their size symbolic, against their own text: every
element of every array, bit for bit, at sizes that no tile divides, under the sanitizers of gcc and clang."""

from __future__ import annotations

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from polymap import Schedule, from_c, transform, transform_c
from polymap.codegen.source.orders import isl_order
from polymap.ir import PolymapError
from tests.c_to_c import CTYPES, SANITIZERS, Job, builds, compiled, flags_of, run_jobs
from tests.wild_programs import Function, random_function

BATCH = 10
ISL_S = 2.0  # CPU time of isl's scheduler
LARGEST = {1: 33, 2: 33, 3: 33, 4: 13, 5: 7}  # by depth
SIZES = (0, 1, 2, 3, 7, 13, 33)
VARIANTS: dict[str, dict[str, Any]] = {
    "original": {"order": "original", "tile": 1},
    "auto": {"order": "auto", "tile": 3, "parallel": True},
    "tiled": {"order": "original", "tile": 2, "parallel": True},
    "sums": {"order": "auto", "tile": 4, "parallel": True, "reorder_sums": True},
    "sized": {"order": "auto", "tile": 2, "sizes": {"n": 7}},
    "chosen": {},
}


@dataclass(slots=True)
class Tally:
    """What was found: texts refused by code, functions and texts compared, texts of what is wrong."""

    refused: Counter[str] = field(default_factory=Counter[str])
    functions: int = 0
    texts: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


Step = Callable[[Schedule], Schedule]


def random_step(rng: random.Random, schedule: Schedule) -> Step:
    """Return a transformation of some of the loops, which may not be legal."""
    loops = [each.name for each in schedule.loops()]
    one, other = rng.choice(loops), rng.choice(loops)
    return rng.choice((
        partial(transform.interchange, loop=one, other=other),
        partial(transform.tile, sizes={one: rng.randint(2, 5), other: rng.randint(2, 4)}),
        partial(transform.skew, loop=one, by=other, factor=rng.choice((1, 1, 2, -1))),
        partial(transform.shift, loop=one, by=rng.randint(-2, 3), statements=schedule.loop(one).statements[:1]),
        partial(transform.reverse, loop=one), partial(transform.fuse, first=one, second=other, shift=rng.randint(0, 2)),
        partial(transform.distribute, loop=one), partial(transform.parallelize, loop=one),
        partial(transform.vectorize, loop=one), partial(transform.unroll, loop=one, factor=rng.randint(2, 3)),
        partial(transform.split, loop=one, inner=rng.randint(2, 4)),
    ))  # fmt: skip


def explicit(function: Function, rng: random.Random) -> dict[str, Any]:
    """Return the options of a transformation by random steps, chosen at a size of 5."""
    sums = function.whole and rng.random() < 0.5
    schedule = Schedule.original(from_c(function.text, {function.size: 5}), strict=not sums)
    for _ in range(6):
        if schedule.loops():
            try:
                schedule = random_step(rng, schedule)(schedule)
            except PolymapError:
                continue
    return {"schedule": schedule, "reorder_sums": sums}


def texts_of(seed: int, function: Function, tally: Tally) -> Iterator[tuple[str, str]]:
    """Yield (variant, text) of everything that a function is made into."""
    rng = random.Random(f"explicit {seed}")
    for name in (*VARIANTS, "explicit"):
        if name == "sums" and not function.whole:
            continue  # fractions are then rounded differently, and may decide what is computed
        try:
            options = dict(VARIANTS[name]) if name in VARIANTS else explicit(function, rng)
            if "sizes" in options:
                options["sizes"] = {function.size: options["sizes"]["n"]}
            text = transform_c(function.text, **options)
            if text.report.assumed:  # at other sizes the original may never end
                tally.refused[f"{name} assumes"] += 1
                continue
            yield name, text
            tally.texts[name] += 1
        except PolymapError as error:
            tally.refused[f"{name} {str(error)[:5]}"] += 1
        except Exception as error:  # noqa: BLE001 - whatever is raised in place of an answer is a finding
            tally.wrong.append(f"{seed}: {name}: {type(error).__name__}: {error}")


def checked_builds() -> dict[str, tuple[str, ...]]:
    """Return compiler -> flags: sanitizers; undefined behaviour that traps where their library is missing."""
    whole = {compiler: flags_of(compiler, sanitized=True) for compiler, sanitized in builds() if sanitized}
    trapping = ("-fsanitize=undefined", "-fsanitize-trap=undefined")
    plain = {
        each: (*(flag for flag in flags_of(each, sanitized=False) if flag != "-fwrapv"), *trapping)
        for each, _ in builds()
    }
    return {**plain, **whole}


def run_functions(
    first: int,
    count: int,
    tally: Tally | None = None,
    turns: int = 0,
    make: Callable[[int], Function] = random_function,
) -> Tally:
    """Return what the functions of some seeds show. turns: of the compilers (0: all)."""
    tally = tally or Tally()
    with mock.patch("polymap.codegen.source.transform.isl_order", partial(isl_order, cpu_s=ISL_S)):
        for start in range(first, first + count, BATCH):
            functions = {seed: make(seed) for seed in range(start, min(start + BATCH, first + count))}
            texts = {seed: dict(texts_of(seed, each, tally)) for seed, each in functions.items()}
            for compiler, flags in list(checked_builds().items())[: turns or None]:
                compare(functions, texts, compiler, flags, tally)
            tally.functions += sum(bool(each) for each in texts.values())
    return tally


def compare(
    functions: dict[int, Function],
    texts: dict[int, dict[str, str]],
    compiler: str,
    flags: tuple[str, ...],
    tally: Tally,
) -> None:
    """Compile all originals into one library and the texts of each variant into others; note what differs."""
    sanitized = SANITIZERS[0] in flags
    with tempfile.TemporaryDirectory() as directory:
        whole = "\n".join(_named(functions[seed].text, seed) for seed in functions)
        original = compiled(whole, Path(directory, "source.so"), compiler, flags)
        jobs: list[Job] = []
        labels: list[str] = []
        for name in (*VARIANTS, "explicit"):
            mine = {seed: own[name] for seed, own in texts.items() if name in own}
            if not mine:
                continue
            text = "\n".join(_named(each, seed) for seed, each in mine.items())
            path = compiled(text, Path(directory, f"{name}.so"), compiler, flags)
            jobs += [_job(original, path, seed, functions[seed]) for seed in mine]
            labels += [f"{seed}: {name}, {compiler}" for seed in mine]
        for label, wrong in zip(labels, run_jobs(jobs, compiler, sanitized=sanitized), strict=True):
            if wrong:
                tally.wrong.append(f"{label}: {'; '.join(wrong)}")


def _job(original: str, changed: str, seed: int, function: Function) -> Job:
    listed = (("n", "int32", ()), *((each.name, CTYPES[each.type], function.shape(each)) for each in function.given))
    sizes = tuple({"n": size} for size in SIZES if size <= LARGEST[function.depth])
    return Job(original, changed, f"f_{seed}", listed, sizes, reach=100)


def _named(text: str, seed: int) -> str:
    """Return the text with its function named by its seed, its macros undefined behind it."""
    undefined = "".join(f"#undef {name}\n" for name in re.findall(r"^#define (\w+)", text, re.MULTILINE))
    return re.sub(r"\bvoid f\(", f"void f_{seed}(", text) + undefined


def function_tally(first: int, count: int) -> int:
    """Print what the functions of some seeds show; return the exit code."""
    tally = Tally()
    for start in range(first, first + count, BATCH):
        before = len(tally.wrong)
        run_functions(start, min(BATCH, first + count - start), tally)
        sys.stdout.write("".join(f"{each}\n" for each in tally.wrong[before:]))
        sys.stdout.flush()
    sys.stdout.write(f"{tally.functions} functions of {count}: {dict(tally.texts)} texts compared by ")
    names = (
        "both sanitizers" if SANITIZERS[0] in flags else "undefined behaviour traps"
        for flags in checked_builds().values()
    )
    sys.stdout.write(
        f"{', '.join(map(' with '.join, zip(checked_builds(), names, strict=True)))}; {len(tally.wrong)} wrong; "
    )
    sys.stdout.write(f"refused: {dict(tally.refused)}\n")
    return 1 if tally.wrong else 0
