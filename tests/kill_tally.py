"""How often a sweep that is killed at a random moment loses a row: it must be never.

    python -m tests.kill_tally 200

Starts a sweep in a process of its own, which prints the key of each answer after the store has acknowledged it, and
kills it (or a worker of its pool) with SIGKILL after a random time, again and again; a sweep that ends begins
anew with another store. Every acknowledged answer must be in the store, and the last table must be that of an
undisturbed run. Prints the tally.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polymap as pm
from polymap.networks import stores

LAYERS = [pm.matmul(m=m, n=n, k=4, name=f"p{m}_{n}") for m in (2, 4, 6) for n in (2, 4)]
GRID = {"GLB.capacity_bits": [64, 128, 256, 512, 1024], "RF.capacity_bits": [24, 32, 64], "X.size": [2, 4]}
_STUCK_S = 20.0  # a whole sweep of these takes some 3 s
MACHINES = {"base": "flat3", "grid": GRID}


@dataclass(slots=True)
class Tally:
    """kills: of writers and of workers; whole: runs that ended by themselves; lost, torn: acknowledged answers that the
    store lacks, entries that cannot be read; different: last tables unlike the undisturbed one; stuck: writers that
    did not end after they lost a worker, and were killed, too."""

    writers: int = 0
    workers: int = 0
    whole: int = 0
    acknowledged: int = 0
    lost: int = 0
    torn: int = 0
    different: int = 0
    stuck: int = 0


def run(store: str, workers: int) -> None:
    """Sweep with this store, printing keys as they are acknowledged."""
    kinds = (stores._Sqlite, stores._JsonLines)  # pyright: ignore[reportPrivateUsage]  # where rows are acknowledged
    for kind in kinds:
        put = kind.put

        def telling(self: Any, entry: stores.Entry, put: Any = put) -> None:
            put(self, entry)
            if entry.answer is not None:
                print(entry.key, flush=True)  # the acknowledgement

        kind.put = telling  # type: ignore[method-assign]
    if workers == 1:
        pm.sweep(LAYERS, MACHINES, tiles="divide", store=store)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        # All workers run before one is killed: a pool of Python 3.11 that breaks while it starts one never ends.
        wait([pool.submit(time.sleep, 0.2) for _ in range(workers)])
        threading.Thread(target=_kill_when_told, args=(pool,), daemon=True).start()
        pm.sweep(LAYERS, MACHINES, tiles="divide", store=store, executor=pool)


def _kill_when_told(pool: ProcessPoolExecutor) -> None:
    sys.stdin.readline()
    for pid in list(pool._processes):  # pyright: ignore[reportPrivateUsage]  # the workers' ids
        os.kill(pid, signal.SIGKILL)
        return


def kill_once(store: Path, rng: random.Random, tally: Tally, longest_s: float) -> bool:
    """Start a sweep, kill it or a worker of it, and compare what it acknowledged with its store. Return whether it had
    ended before."""
    workers = rng.choice((1, 2))
    command = [sys.executable, "-m", "tests.kill_tally", "--run", str(store), "--workers", str(workers)]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    # A session of its own: workers outlive a writer that is killed, and hold its pipes.
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        first = process.stdout.readline()
        time.sleep(rng.random() * longest_s)
        has_ended = process.poll() is not None
        if workers == 2 and rng.random() < 0.8:
            tally.workers += not has_ended
            process.stdin.write("\n")
        elif not has_ended:
            tally.writers += 1
            os.killpg(process.pid, signal.SIGKILL)
        try:
            told, errors = process.communicate(timeout=_STUCK_S)
        except subprocess.TimeoutExpired:  # a pool that lost a worker may never end: then the writer is killed, too
            tally.stuck += 1
            os.killpg(process.pid, signal.SIGKILL)
            told, errors = process.communicate()
    assert "PM567" in errors or process.returncode <= 0, errors
    tally.whole += has_ended
    keys = set((first + told).split("\n")[:-1])
    tally.acknowledged += len(keys)
    with stores.opened_store(store) as opened:
        assert opened is not None
        for key in keys:
            entry = opened.find(key)
            tally.lost += entry is None or entry.answer is None
        try:
            assert all(entry.key == stores.key_of(entry.question) for entry in opened.entries())
        except (ValueError, AssertionError):
            tally.torn += 1
    if store.suffix == ".sqlite":
        with sqlite3.connect(store) as file:
            tally.torn += file.execute("PRAGMA integrity_check").fetchone() != ("ok",)
    return has_ended


def tallied(kills: int, seed: int = 0, longest_s: float = 0.5) -> Tally:
    """Return the tally of so many kills; the stores are sqlite and lines of JSON in turn."""
    rng, tally, undisturbed = random.Random(seed), Tally(), rows(pm.sweep(LAYERS, MACHINES, tiles="divide"))
    number = 0
    while tally.writers + tally.workers < kills:
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / ("runs.sqlite", "runs.jsonl")[number % 2]
            number += 1
            while tally.writers + tally.workers < kills and not kill_once(store, rng, tally, longest_s):
                pass
            tally.different += rows(pm.sweep(LAYERS, MACHINES, tiles="divide", store=store)) != undisturbed
    return tally


def rows(table: pm.study.SweepTable) -> list[tuple[object, ...]]:
    """Return what a table says, without where it comes from and how long it took."""
    return [(row.workload, str(row.machine), row.status, row.value, row.bound) for row in table.rows]


def main(words: Sequence[str] | None = None) -> None:
    """Run the tally of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(words)
    if options.run is not None:
        run(options.run, options.workers)
        return
    tally = tallied(options.kills, options.seed)
    print(tally)
    sys.exit(bool(tally.lost or tally.torn or tally.different))


if __name__ == "__main__":
    main()
