"""AccelForge's files: what AccelForge itself answered for machines and mappings in its YAML, and its words."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import polymap as pm

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
PJ_PER_J = 10**12


def writer() -> ModuleType:
    """Return the script that writes AccelForge's YAML for AccelForge."""
    sys.path.insert(0, str(PEERS))
    try:
        spec = importlib.util.spec_from_file_location("run_accelforge", PEERS / "run_accelforge.py")
        assert spec is not None, "the script has moved"
        assert spec.loader is not None, "the script has moved"
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(PEERS))


def answered() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the cases that AccelForge has answered with a mapping and its energy."""
    cases = {each["id"]: each for each in json.loads((PEERS / "peers.json").read_text())["cases"]}
    answers = json.loads((PEERS / "answers.json").read_text())["accelforge"]
    return [(name, cases[name], each) for name, each in answers.items() if each.get("nodes") and each["value"]]


def mapping_text(nodes: list[dict[str, Any]]) -> str:
    """Return a loop tree in AccelForge's YAML."""
    lines = ["mapping:", "  nodes:"]
    for node in nodes:
        if "store" in node:
            lines.append(f"  - !Storage {{tensors: [{', '.join(node['tensors'])}], component: {node['store']}}}")
        elif "for" in node:
            lines.append(f"  - !Temporal {{rank_variable: {node['for']}, tile_shape: {node['tile']}}}")
        elif "par" in node:
            loop = f"rank_variable: {node['par']}, tile_shape: {node['tile']}"
            lines.append(f"  - !Spatial {{{loop}, name: {node['over']}, component: any}}")
        else:
            lines.append("  - !Compute {einsum: S, component: MAC}")
    return "\n".join(lines) + "\n"


def test_its_mappings_cost_what_it_says() -> None:
    script, done = writer(), 0
    for name, case, answer in answered():
        workload, tensors = script.workload_text(case["workload"])
        machine = script.machine_text(case["arch"], tensors)
        read = pm.io.from_accelforge(machine, workload, mapping_text(answer["nodes"]))
        (layer,) = read.layers
        assert layer.workload.extents() == case["workload"]["sizes"], name
        assert read.mapping is not None, name
        cost = pm.evaluate(layer.workload, read.arch, read.mapping)
        edp = 1 if case["objective"] == "energy" else cost.latency_cycles
        assert cost.energy_pj * edp == answer["value"] * PJ_PER_J, name
        done += 1
    assert done == 2, "answers have come or gone"


MACHINE = """\
arch:
  nodes:
  - !Memory {name: Main, size: inf, tensors: {keep: ~Intermediates, may_keep: All},
      actions: [{name: read, energy: 2, throughput: 8 * 4, bits_per_action: 16},
                {name: write, energy: 3, throughput: 32, bits_per_action: 16}]}
  - !Memory
    name: Buffer
    size: 1024 * 2
    total_latency: max(a.n_calls / a.throughput for a in actions)
    tensors: {keep: weight, may_keep: ~(input | weight)}
    actions:
    - {name: read, energy: 1, throughput: 4}
    - {name: write, energy: 0.5, throughput: 2}
  - !Container
    name: Array
    spatial:
    - {name: X, fanout: 4}
  - !Memory {name: Registers, size: 8, tensors: {keep: All - input - output},
      actions: [{name: read, energy: 0}, {name: write, energy: 0}]}
  - !Compute
    name: MAC
    actions: [{name: compute, energy: 1e-12, throughput: 2}]
"""
WORKLOAD = """\
workload:
  rank_sizes: {N: 2, C: 3, K: 16 // 4}
  bits_per_value: {All: 8, W: 4}
  einsums:
  - name: conv
    tensor_accesses:
    - {name: I, projection: {N: n, C: c, H: 2*p + r}}
    - {name: W, projection: [k, c, r]}
    - {name: O, projection: [n, k, p], output: True}
    iteration_space_shape: [0 <= p < 5, 0 <= r < 3]
    renames: {input: I, weight: W, output: O}
  - einsum: "Z[n, m] = O[n, k, p] * V[k, p, m]"
    iteration_space_shape: {m: 7, p: 5}
"""


def test_words_of_machines_and_einsums() -> None:
    read = pm.io.from_accelforge(MACHINE, WORKLOAD)
    main, buffer, fanout, registers, mac = read.arch.nodes
    assert (main.word_bits, main.read_pj, main.write_pj) == (16, 2 * PJ_PER_J, 3 * PJ_PER_J)
    assert (main.bandwidth_bits_per_cycle, main.holds, main.capacity_bits) == (32 * 16 / 2, None, None)
    assert (buffer.capacity_bits, buffer.must_hold, buffer.holds) == (2048, ("@weight",), ("@output", "@weight"))
    assert (buffer.read_bandwidth_bits_per_cycle, buffer.write_bandwidth_bits_per_cycle) == (2, 1)
    assert (fanout.name, fanout.size, registers.must_hold, registers.holds) == ("X", 4, ("@weight",), ("@weight",))
    assert (mac.pj, mac.name) == (1, "MAC")
    conv, product = (each.workload for each in read.layers)
    assert conv == pm.einsum(
        "O[n,k,p] += I[n,c,2*p+r] * W[k,c,r]", n=2, k=4, p=5, c=3, r=3, name="conv", bits={"O": 8, "I": 8, "W": 4},
        roles={"I": "input", "W": "weight", "O": "output"},
    )  # fmt: skip
    assert product.extents() == {"n": 2, "m": 7, "k": 4, "p": 5}
    assert read.network is not None, "two layers are a network"
    assert read.network.macs == 2 * 4 * 5 * 3 * 3 + 2 * 7 * 4 * 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("energy: 1,", "energy: 1 if x else 2,", "line 12: energy is '1 if x else 2'"),
        ("- {name: read, energy: 1, throughput: 4}", "- {name: read}", "line 12: read has no energy"),
        ("max(a.n_calls", "min(a.n_calls", "line 9: the latency .* is Python's"),
        ("throughput: 2}]", "}]", "a throughput, but none of the compute unit"),
        ("~(input | weight)", "~(input", "line 10: the set '~\\(input' is not read"),
        ("keep: weight,", "keep: weight if All else input,", "line 10: the set .* is not read"),
        ("!Container", "!Fork", "line 14: !Fork has no equal here"),
        ("- {name: X, fanout: 4}", "- {name: X, fanout: 0}", "fanout is 0"),
        ("  - !Compute", "  - !Compute {name: other}\n  - !Compute", "arch has 2 compute units"),
        ("size: 8,", "sizes: 8,", "a memory.sizes is not read"),
        ("name: Buffer", "name: Main", "line 2: the name 'Main' occurs twice"),
    ],
    ids=map(str, range(11)),
)
def test_what_is_not_read_is_told_with_its_line(old: str, new: str, message: str) -> None:
    assert old in MACHINE, "the text has changed"
    with pytest.raises(pm.errors.InputError, match=f"PM66[01].*{message}"):
        pm.io.from_accelforge(MACHINE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 <= p < 5, ", "", "line 5: conv has no sizes for p"),
        ("0 <= p < 5", "1 <= p < 5", "iteration_space_shape has '1 <= p < 5'"),
        ("[n, k, p], output: True", "[n, k, p]", "one access with output: True"),
        ("* V[", "+ V[", "line 12: the einsum is no product"),
        ("2*p + r", "p*p + r", "line 5: conv: "),
    ],
    ids=map(str, range(5)),
)
def test_einsums_that_are_not_read_are_told(old: str, new: str, message: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"PM661.*{message}"):
        pm.io.from_accelforge(MACHINE, WORKLOAD.replace(old, new, 1))


def test_what_python_computes_is_left_out_on_demand() -> None:
    text = MACHINE.replace("size: 8,", "size: weight.bits_per_value,").replace("max(a.n_calls", "min(a.n_calls")
    with pytest.raises(pm.errors.InputError, match=r"(?s)latency.*size is"):
        pm.io.from_accelforge(text)
    read = pm.io.from_accelforge(text, strict=False)
    assert [each.line for each in read.warnings] == [9, 18], read.warnings
    assert read.arch.nodes[3].capacity_bits is None
