"""What a certificate is about, as its head says it: workload, machine, constraints and objective in canonical form."""

from __future__ import annotations

import json
from fractions import Fraction

from polymap.ir import Access, Architecture, Fanout, MemoryLevel, Mistake, Node, OptionError, Workload, accesses_of
from polymap.search.problem import (
    AtMost,
    Factor,
    Goal,
    Held,
    Innermost,
    Intrinsic,
    Objective,
    Outermost,
    Outside,
    Rule,
    Rules,
    Utilization,
    parse_objective,
)

HINT = "docs/certificate.md tells which problems are."


def canonical(value: object) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def workload_table(workload: Workload) -> dict[str, object]:
    """Return the workload of one accumulation over a box as certificates write it."""
    statement = workload.statements[0]
    return {
        "dims": [[dim.name, dim.extent] for dim in workload.dims],
        "tensors": [
            {
                "name": tensor.name,
                "bits": tensor.bits,
                "initial": tensor.initial,
                "role": tensor.role.value,
                "index": _index(accesses_of(statement, tensor.name)[0]),
            }
            for tensor in sorted(workload.tensors, key=lambda tensor: tensor.name != statement.target.tensor)
        ],
    }


def _index(access: Access) -> list[dict[str, int]]:
    return [dict(expression.coefficients()) for expression in access.index]


def machine_table(arch: Architecture) -> dict[str, object]:
    """Return the machine as certificates write it: every field, numbers exact."""
    return {"overlap": arch.overlap, "nodes": [_node(node) for node in arch.nodes]}


def _node(node: Node) -> dict[str, object]:
    if isinstance(node, MemoryLevel):
        return {
            "level": node.name,
            "capacity_bits": node.capacity_bits,
            "word_bits": node.word_bits,
            "buffering": node.buffering,
            "read_pj": _number(node.read_pj),
            "write_pj": _number(node.write_pj),
            "leak_pj_per_cycle": _number(node.leak_pj_per_cycle),
            "bandwidth_bits_per_cycle": _number(node.bandwidth_bits_per_cycle),
            "read_bandwidth_bits_per_cycle": _number(node.read_bandwidth_bits_per_cycle),
            "write_bandwidth_bits_per_cycle": _number(node.write_bandwidth_bits_per_cycle),
            "holds": None if node.holds is None else list(node.holds),
            "must_hold": list(node.must_hold),
        }
    if isinstance(node, Fanout):
        return {
            "fanout": node.name,
            "size": node.size,
            "multicast": node.multicast.value,
            "reduction": node.reduction,
            "dims": None if node.dims is None else list(node.dims),
        }
    return {"compute": node.name, "pj": _number(node.pj), "per_cycle": node.per_cycle}


def _number(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def constraints_table(rules: Rules) -> list[dict[str, object]]:
    """Return the rules as certificates write them, in one order; OptionError PM515 for one that is not certified."""
    return sorted((_rule(rule) for rule in rules), key=canonical)


def _rule(rule: Rule) -> dict[str, object]:
    match rule:
        case Outside(outer, inner):
            return {"rule": "outside", "outer": outer, "inner": inner}
        case Outermost(dims):
            return {"rule": "outermost", "dims": list(dims)}
        case Innermost(dims):
            return {"rule": "innermost", "dims": list(dims)}
        case Factor(fanout, dim, least, most):
            return {"rule": "factor", "fanout": fanout, "dim": dim, "least": least, "most": most}
        case Held(level, tensor, must):
            return {"rule": "held", "level": level, "tensor": tensor, "must": must}
        case Intrinsic(dim, size):
            return {"rule": "intrinsic", "dim": dim, "size": size}
        case Utilization(least):
            return {"rule": "utilization", "least": str(least)}
        case AtMost(objective, most):
            return {"rule": "at_most", "objective": _objective(objective), "most": str(most)}
        case _:  # pyright: ignore[reportUnnecessaryComparison]  # a kind of rule that comes later has no certificate
            what = f"this answer cannot be certified: a constraint of kind {type(rule).__name__}"
            raise OptionError(Mistake("PM515", what, HINT))


def objective_line(arch: Architecture, objective: str) -> str:
    """Return an objective as certificates write it: weights as "a/b"."""
    return _objective(parse_objective(objective, arch))


def _objective(read: Objective) -> str:
    if read.goal is not Goal.WEIGHTED:
        return read.text
    return "weighted:" + "+".join(f"{weight}*{part.text}" for weight, part in read.parts)
