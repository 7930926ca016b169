"""Ask ZigZag for its best mapping of one product of two tensors, for energy; runs in a virtual environment of its own.

Reads and prints what run_accelforge.py does. Levels that may bypass a tensor are shared by all operands here, as ZigZag
decides what stays where; capacities are shared. Accesses are of one word, so only energies compare, no latencies.
Run: VENV/bin/python benchmarks/peers/run_zigzag.py QUESTION.json [--limit CPU_SECONDS]
"""

from __future__ import annotations

import json
import re
import resource
import tempfile
from pathlib import Path

from question import asked

UNLIMITED = 1 << 40  # bits; every level has a size


def machine(arch: dict) -> dict:
    """Return the machine in ZigZag's form: levels innermost first, fan-outs as the dimensions of the array."""
    fanouts = [node for node in arch["nodes"] if "fanout" in node]
    names = [f"D{i + 1}" for i in range(len(fanouts))]
    memories: dict[str, dict] = {}
    below = list(names)
    for node in arch["nodes"]:
        if "fanout" in node:
            below.remove(names[fanouts.index(node)])
        elif "level" in node:
            memories[node["level"]] = memory(node, list(below))
    compute = arch["nodes"][-1]
    array = {"unit_energy": float(compute.get("pj", 0)), "unit_area": 0.0, "input_precision": [8, 8]}
    array |= {"dimensions": names, "sizes": [node["size"] for node in fanouts]}
    return {"name": "machine", "memories": dict(reversed(memories.items())), "operational_array": array}


def memory(node: dict, served: list[str]) -> dict:
    word = node.get("word_bits", 8)
    ports = []
    for number, (kind, ends) in enumerate((("read", ("tl", "th")), ("write", ("fh", "fl"))), start=1):
        # Operands are loaded from above and read below; only outputs also come up from below and go above.
        used = [f"O, {end}" for end in ends] + [f"{operand}, {ends[0]}" for operand in ("I1", "I2")]
        port = {"name": f"{kind[0]}_port_{number}", "type": kind, "bandwidth_min": word, "bandwidth_max": word}
        ports.append(port | {"allocation": used})
    return {
        "size": node.get("capacity_bits") or UNLIMITED,
        "r_cost": float(node["read_pj"]),
        "w_cost": float(node["write_pj"]),
        "area": 0.0,
        "latency": 1,
        "operands": ["I1", "I2", "O"],
        "ports": ports,
        "served_dimensions": served,
    }


def layer(workload: dict) -> tuple[list[dict], list[str]]:
    """Return the workload as a list of one layer, and its tensors: output, first and second operand."""
    accesses = re.findall(r"(\w+)\[([^\]]*)\]", workload["einsum"])
    if len(accesses) != 3 or any("+" in index for _, index in accesses):
        raise SystemExit("only products of two tensors without windows are translated")
    indices = ["".join(f"[{dim.strip()}]" for dim in index.split(",")) for _, index in accesses]
    bits = workload.get("bits", 8)
    width = [bits if isinstance(bits, int) else bits[name] for name, _ in accesses]
    one = {
        "id": 0,
        "name": "S",
        "operator_type": "Gemm",
        "equation": f"O{indices[0]}+=I{indices[1]}*W{indices[2]}",
        "dimension_relations": [],
        "loop_dims": [dim.upper() for dim in workload["sizes"]],
        "loop_sizes": list(workload["sizes"].values()),
        "operand_precision": {"O": width[0], "O_final": width[0], "I": width[1], "W": width[2]},
        "operand_source": {"I": 0, "W": 0},
    }
    return [one], [name for name, _ in accesses]


def nodes_of(found: object, question: dict, tensors: list[str]) -> list[dict]:
    """Return ZigZag's mapping as nodes of polymap's JSON.

    Per operand it lists, level by level from the innermost, the loops that run while the level holds its tile; all
    operands have the same loops in the same order. The loops of the array stand above the innermost level's nodes.
    """
    temporal = found.temporal_mapping.mapping_dic_origin  # type: ignore[attr-defined]
    spatial = found.layer.spatial_mapping  # type: ignore[attr-defined]
    levels = [node["level"] for node in question["arch"]["nodes"] if "level" in node]
    fanouts = [node["fanout"] for node in question["arch"]["nodes"] if "fanout" in node]
    named: dict[str, str] = dict(zip(("O", "I", "W"), tensors, strict=True))
    loops = [loop for of_level in next(iter(temporal.values())) for loop in of_level]
    above: dict[int, list[tuple[str, str]]] = {}
    for operand, of_levels in temporal.items():
        inside = 0
        for level, of_level in zip(reversed(levels), of_levels, strict=True):
            inside += len(of_level)
            above.setdefault(inside, []).append((level, named[str(operand)]))
    size = dict(question["workload"]["sizes"])
    nodes: list[dict] = []
    waiting = True
    for inside in range(len(loops), -1, -1):
        for level, tensor in sorted(above.get(inside, []), key=lambda at: levels.index(at[0])):
            if level == levels[-1] and waiting:
                nodes += array_loops(spatial, fanouts, size)
                waiting = False
            nodes.append({"store": level, "tensors": [tensor]})
        if inside:
            dim, trips = loops[inside - 1]
            size[str(dim).lower()] = -(-size[str(dim).lower()] // int(trips))
            nodes.append({"for": str(dim).lower(), "tile": size[str(dim).lower()]})
    return [*nodes, {"compute": "S"}]


def array_loops(spatial: object, fanouts: list[str], size: dict[str, int]) -> list[dict]:
    nodes: list[dict] = []
    for position, of_array in sorted(spatial.items(), key=lambda item: str(item[0])):  # type: ignore[attr-defined]
        for dim, trips in of_array.items():
            name = str(dim).lower()
            if trips > 1:
                size[name] = -(-size[name] // int(trips))
                nodes.append({"par": name, "tile": size[name], "over": fanouts[int(str(position)[1:]) - 1]})
    return nodes


def main() -> None:
    question = asked("ZigZag's best mapping of one question")
    if question["objective"] != "energy":
        raise SystemExit("only energies compare")
    from zigzag.api import get_hardware_performance_zigzag

    layers, tensors = layer(question["workload"])
    links = [{"name": "default", "memory_operand_links": {"O": "O", "I": "I1", "W": "I2"}}]
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, document in (("workload", layers), ("machine", machine(question["arch"])), ("mapping", links)):
            paths.append(Path(folder) / f"{name}.yaml")  # JSON is YAML
            paths[-1].write_text(json.dumps(document), encoding="utf-8")
        energy, _, found = get_hardware_performance_zigzag(
            *map(str, paths), opt="energy", dump_folder=folder, loma_show_progress_bar=False
        )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    answer = {
        "value": float(energy),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "megabytes": usage.ru_maxrss // 1024,
        "nodes": nodes_of(found[0][1][0][0], question, tensors),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
