"""Ask AccelForge for its best mapping of one question; runs in a virtual environment of its own (Python 3.12).

Reads {"workload": ..., "arch": ..., "objective": "energy"|"latency"|"edp"} (polymap's JSON) from the file named on the
command line, prints {"value", "cpu_s", "megabytes", "nodes"}: its own value, CPU seconds with start-up, and the mapping
as nodes of polymap's JSON. Imports nothing of polymap.
Run: VENV/bin/python benchmarks/peers/run_accelforge.py QUESTION.json [--limit CPU_SECONDS]
"""

from __future__ import annotations

import json
import re
import resource
import tempfile
from pathlib import Path

from question import asked

LEVEL = """
  - !Memory
    name: {name}
    size: {size}
    leak_power: 0
    area: 0
    tensors: {{keep: {keep}, may_keep: {may}}}
    total_latency: {combined}(a.n_calls / a.throughput for a in actions)
    actions:
    - {{name: read, energy: {read}, throughput: {reads}, latency: 0, bits_per_action: {word}}}
    - {{name: write, energy: {write}, throughput: {writes}, latency: 0, bits_per_action: {word}}}"""
COMPUTE = """
  - !Compute
    name: {name}
    leak_power: 0
    area: 0
    actions:
    - {{name: compute, energy: {pj}, throughput: {per_cycle}, latency: 0}}"""


def machine_text(arch: dict, tensors: list[str]) -> str:
    """Return the machine in AccelForge's YAML; fan-outs must merge loads and sums, its only policy."""
    text, fanouts = "arch:\n  nodes:", []
    for node in arch["nodes"]:
        if "fanout" in node:
            if node.get("multicast", "identical") != "identical" or not node.get("reduction", True):
                raise SystemExit(f"AccelForge always merges on a fan-out; {node['fanout']} does not")
            fanouts.append(f"    - {{name: {node['fanout']}, fanout: {node['size']}}}")
            continue
        if fanouts:
            text += f"\n  - !Container\n    name: below_{fanouts[0].split()[2].strip(',')}\n    spatial:\n"
            text += "\n".join(fanouts)
            fanouts = []
        text += level_text(node, tensors) if "level" in node else COMPUTE.format(name=node["compute"], **rest(node))
    return text


def level_text(node: dict, tensors: list[str]) -> str:
    outermost = node.get("capacity_bits") is None and not node.get("must_hold")
    keep = tensors if outermost else node.get("must_hold") or []
    return LEVEL.format(
        name=node["level"],
        size=node.get("capacity_bits") or "inf",
        keep=" | ".join(keep) or "Nothing",
        may=" | ".join(node.get("holds") or tensors),
        combined="max" if node.get("read_bandwidth_bits_per_cycle") else "sum",  # one shared bandwidth, or two
        reads=throughput(node, "read"),
        writes=throughput(node, "write"),
        read=node["read_pj"],
        write=node["write_pj"],
        word=node.get("word_bits", 8),
    )


def throughput(node: dict, action: str) -> str:
    """Return the words per cycle of reads or writes."""
    band = node.get("bandwidth_bits_per_cycle") or node.get(f"{action}_bandwidth_bits_per_cycle")
    return f"{band} / {node.get('word_bits', 8)}" if band else "inf"


def rest(node: dict) -> dict:
    return {"pj": node.get("pj", 0), "per_cycle": node.get("per_cycle", 1)}


def workload_text(workload: dict) -> tuple[str, list[str]]:
    """Return the workload in AccelForge's YAML, and its tensors."""
    accesses = re.findall(r"(\w+)\[([^\]]*)\]", workload["einsum"])
    bits = workload.get("bits", 8)
    lines = ["workload:", "  iteration_space_shape:"]
    lines += [f"    {dim}: 0 <= {dim} < {size}" for dim, size in workload["sizes"].items()]
    names = [name for name, _ in accesses]
    each = ", ".join(f"{name}: {bits if isinstance(bits, int) else bits[name]}" for name in names)
    lines += [f"  bits_per_value: {{{each}}}", "  einsums:", "  - name: S", "    tensor_accesses:"]
    for position, (name, index) in enumerate(accesses):
        axes = ", ".join(f"{name}{i}: {axis.strip()}" for i, axis in enumerate(index.split(",")))
        output = ", output: True" if position == 0 else ""
        lines.append(f"    - {{name: {name}, projection: {{{axes}}}{output}}}")
    lines.append(
        f"    renames: {{output: {names[0]}, input: {names[1]}, weight: {' | '.join(names[2:]) or 'Nothing'}}}"
    )
    return "\n".join(lines), names


def nodes_of(mapping: object) -> list[dict]:
    """Return AccelForge's loop tree as nodes of polymap's JSON."""
    nodes: list[dict] = []
    for node in mapping.nodes:  # type: ignore[attr-defined]
        kind = type(node).__name__
        if kind == "Storage":
            nodes.append({"store": str(node.component), "tensors": sorted(str(t) for t in node.tensors)})
        elif kind == "Temporal":
            nodes.append({"for": str(node.rank_variable), "tile": int(node.tile_shape)})
        elif kind == "Spatial":
            nodes.append({"par": str(node.rank_variable), "tile": int(node.tile_shape), "over": str(node.name)})
        elif kind == "Compute":
            nodes.append({"compute": "S"})
        elif kind != "Reservation":
            raise SystemExit(f"a node of kind {kind} is not translated")
    return nodes


def main() -> None:
    question = asked("AccelForge's best mapping of one question")
    import accelforge
    from accelforge.mapper.FFM.main import map_workload_to_arch

    accelforge.set_n_parallel_jobs(1)
    metrics = {"energy": "ENERGY", "latency": "LATENCY", "edp": "ENERGY_DELAY_PRODUCT"}
    workload, tensors = workload_text(question["workload"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.yaml"
        path.write_text(f"{machine_text(question['arch'], tensors)}\n{workload}\n", encoding="utf-8")
        spec = accelforge.Spec.from_yaml(str(path))
    spec.mapper.metrics = accelforge.Metrics[metrics[question["objective"]]]
    found = map_workload_to_arch(spec, print_progress=False, eval_in_detail=False).data
    totals = [name for name in found.columns if name.startswith("Total<SEP>") and "mapping" not in name]
    row = found.sort_values(totals[0]).iloc[0]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    answer = {
        "value": float(row[totals[0]]),
        "columns": {name: float(row[name]) for name in totals},
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "megabytes": usage.ru_maxrss // 1024,
        "nodes": nodes_of(row["Total<SEP>mapping"]()),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
