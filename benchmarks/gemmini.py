"""Predicted against measured cycles of an accelerator: which constants of single steps are worth what.

    python benchmarks/gemmini.py [--runs benchmarks/gemmini_runs.json]

The runs are executions of Gemmini's RTL (arrays of 4 x 4 to 64 x 64, ten layers): their loop trees are rebuilt, counted
by the library, and the constants of each model fitted on nine layers and tested on the tenth. A row per model: the mean
over the layers left out of the rank correlation inside a layer, and the median over all runs of the error.
"""

from __future__ import annotations

import argparse
import json
import time
from fractions import Fraction
from pathlib import Path
from statistics import mean, median

import polymap as pm
from polymap.ir import Compute, Mapping, Spatial, Storage, Temporal

LETTERS = "KCPQRS"
LADDER = {  # of each model what single steps take; fitted are its constants beside those that are known (KNOWN)
    "bits / bandwidth": (),
    "and issue": ("SPAD.step_cycles",),
    "and beats": ("SPAD.step_cycles", "DRAM.beat"),
    "and passes": ("SPAD.step_cycles", "DRAM.beat", "MAC.pass"),
    "and start, by driver": ("SPAD.step_cycles", "DRAM.beat", "MAC.pass", "driver", "start_cycles"),
    "and misses": (
        *("SPAD.step_cycles", "DRAM.beat", "MAC.pass", "driver", "start_cycles"),
        *("L2.miss_cycles", "L2.write_miss_cycles"),
    ),
    "and one bus": (
        *("SPAD.step_cycles", "DRAM.beat", "MAC.pass", "driver", "start_cycles"),
        *("L2.miss_cycles", "L2.write_miss_cycles"),
        *("DRAM.one_bus", "DRAM.read_bandwidth_bits_per_cycle", "DRAM.write_bandwidth_bits_per_cycle"),
    ),
    "and commands": (
        *("SPAD.step_cycles", "DRAM.beat", "MAC.pass", "driver", "start_cycles"),
        *("L2.miss_cycles", "L2.write_miss_cycles"),
        *("DRAM.one_bus", "DRAM.read_bandwidth_bits_per_cycle", "DRAM.write_bandwidth_bits_per_cycle"),
        *("DRAM.commands", "DRAM.request_latency_cycles", "MAC.preload_cycles"),
    ),
}
KNOWN = (
    "DRAM.beat",
    "DRAM.commands",
    "DRAM.one_bus",
    "MAC.pass",
    "driver",
)  # a bus of 16 bytes, requests of 64; commands that load 64 bytes of a row and store what the array's columns have of
# it; four cycles a row of pixels, a preload per block, and two drivers: a step of a convolution begins with about twice
# the instructions of one of a product


def machine(size: int, parts: tuple[str, ...], stored: int, *, convolves: bool) -> pm.Architecture:
    """Return the accelerator with an array of size x size, and of what single steps take these parts alone. stored: the
    bytes of a row that a command stores. convolves: with the driver of convolutions, whose arrays begin 8 bytes after a
    multiple of 64."""

    def told(name: str, value: float) -> Fraction:
        return Fraction(value) if name in parts else Fraction(0)

    beats, split = "DRAM.beat" in parts, "DRAM.write_bandwidth_bits_per_cycle" in parts
    commands = "DRAM.commands" in parts
    dram = pm.MemoryLevel(
        "DRAM",
        bandwidth_bits_per_cycle=None if split else Fraction(128),
        read_bandwidth_bits_per_cycle=Fraction(100) if split else None,
        write_bandwidth_bits_per_cycle=Fraction(40) if split else None,
        beat_bits=128 if beats else None,
        request_bits=512 if beats else None,
        row_requests=beats,
        command_bits=512 if commands else None,
        write_command_bits=8 * stored if commands else None,
        request_latency_cycles=told("DRAM.request_latency_cycles", 1),
        in_flight=1 if commands else None,
        one_bus="DRAM.one_bus" in parts,
        base_offset_bits=64 if beats and convolves else 0,
    )
    steps = told("SPAD.step_cycles", 150 if "driver" not in parts else 265 if convolves else 134)
    misses, written = told("L2.miss_cycles", 4), told("L2.write_miss_cycles", 20)
    lines = 512 if misses else None
    cache = pm.MemoryLevel(
        "L2",
        capacity_bits=512 * 1024 * 8,
        implicit=True,
        line_bits=lines,
        ways=8,
        miss_cycles=misses,
        write_miss_cycles=written,
        holds=(),
    )
    scratchpad = pm.MemoryLevel("SPAD", buffering=2, holds=("@input", "@weight"), step_cycles=steps, keeps=not parts)
    unit = pm.ComputeUnit(
        "MAC",
        pass_least_cycles=told("MAC.pass", 4),
        preload_cycles=told("MAC.pass", size),
    )
    nodes = (
        dram,
        cache,
        pm.MemoryLevel("ACC", holds=("@output",)),
        scratchpad,
        pm.Fanout("rows", size),
        pm.Fanout("columns", size),
        pm.MemoryLevel("WREG", holds=("@weight",)),
        pm.MemoryLevel("ROW", holds=("@output",)),
        unit,
    )
    return pm.Architecture(f"gemmini{size}", nodes, start_cycles=told("start_cycles", 830))


def layer(row: dict[str, object]) -> pm.Workload:
    """Return the layer as it was executed, with a ring of padding in its input, channels last."""
    sizes = {name: int(str(row[name])) for name in (*LETTERS, "stride")}
    if row["kind"] == "conv":
        for name in "PQ":  # P and R run along the width, which lies right outside of the channels
            sizes[name] += 1 - sizes["R"] % 2
    stride = sizes.pop("stride")
    text = f"O[q,p,k] += I[{stride}*q+s,{stride}*p+r,c] * W[s,r,c,k]"
    name = " ".join(f"{key}{value}" for key, value in sizes.items()) + f" /{stride}"
    return pm.einsum(text, sizes={key.lower(): value for key, value in sizes.items()}, bits=8, name=name)


def executed(row: dict[str, object]) -> Mapping:
    """Return the loop tree that ran: steps, then blocks of the array's weights, rows of pixels, and their pixels."""
    size = int(str(row["array"]))
    tile = {word[0].lower(): int(word[1:]) for word in str(row["tile"]).split()}
    steps = [Temporal(word[0].lower(), tile[word[0].lower()]) for word in str(row["loops_outermost_first"]).split()]
    reducing = [place for place, loop in enumerate(steps) if loop.dim in "crs"]
    first = reducing[0] if reducing else len(steps)
    blocks = [Temporal("k", size), Temporal("c", size), Temporal("r", 1), Temporal("s", 1)]
    spread = [Spatial("c", 1, "rows"), Spatial("k", 1, "columns")]
    pixels = [Temporal("q", 1), Temporal("p", size), Storage("ROW", ("O",)), Temporal("p", 1)]
    return Mapping(
        (
            *steps[:first],
            Storage("ACC", ("O",)),
            *steps[first:],
            Storage("SPAD", ("I", "W")),
            *blocks,
            *spread,
            Storage("WREG", ("W",)),
            *pixels,
            Compute("S"),
        )
    )


def runs_of(rows: list[dict[str, object]], parts: tuple[str, ...]) -> list[pm.study.MeasuredRun]:
    """Return the runs on machines with these parts; machines that are alike are one."""
    machines: dict[tuple[int, bool, int], pm.Architecture] = {}
    layers: dict[str, pm.Workload] = {}
    found: list[pm.study.MeasuredRun] = []
    for row in rows:
        size, channels = int(str(row["array"])), int(str(row["tile"]).split()[0][1:])
        key = size, row["kind"] == "conv", min(size, channels)
        arch = machines.setdefault(key, machine(size, parts, key[2], convolves=key[1]))
        workload = layer(row)
        workload = layers.setdefault(workload.name, workload)
        found.append(pm.study.MeasuredRun(workload, executed(row), float(str(row["rtl_cycles"])), arch))
    return found


def main() -> None:
    """Print a row per model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default=str(Path(__file__).parent / "gemmini_runs.json"))
    table = json.loads(Path(parser.parse_args().runs).read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    rows = [row for row in rows if not row["broken"]]
    print(f"{len(rows)} runs; each layer predicted by constants fitted on the others")
    print(f"{'model':18} {'constants':>9} {'rank':>6} {'error':>7} {'seconds':>8}  factors")
    for name, parts in LADDER.items():
        start = time.perf_counter()
        shared = () if "DRAM.one_bus" in parts else ("DRAM.bandwidth_bits_per_cycle",)
        constants = (*shared, *(part for part in parts if part not in KNOWN))
        runs = runs_of(rows, parts)
        assert runs[0].arch is not None, "runs_of names the machine of each"
        fit = pm.study.fit_machine(runs[0].arch, runs, constants)
        rank = mean(each.rank for each in fit.left_out if each.rank is not None)
        error = median(each.error for each in fit.left_out)
        factors = ", ".join(f"{key} {value:.3g}" for key, value in fit.factors)
        seconds = time.perf_counter() - start
        print(f"{name:18} {len(constants):9} {rank:6.3f} {100 * error:6.1f} % {seconds:7.1f}  {factors}", flush=True)


if __name__ == "__main__":
    main()
