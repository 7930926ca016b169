"""Writes certificates: the head in canonical form, and a proof for every structure, found with the checker's bounds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from polymap.arch.machine import Architecture, Fanout, MemoryLevel, Node
from polymap.checker.bounds import Places
from polymap.checker.check import Prover, digest
from polymap.checker.model import Problem, Refused, Rows, cost
from polymap.errors import OptionError, Problem as Mistake
from polymap.schedules.document import mapping_to_document
from polymap.schedules.mapping import Mapping
from polymap.search.goals import Goal, parse_objective
from polymap.search.problem import analyse
from polymap.search.symmetry import symmetries
from polymap.workload.loopnest import Access, Workload, accesses_of


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


Prices = tuple[int, ...]
MOST_NODES = 200_000
UNIT = 1 << 10


def check_certifiable(workload: Workload, arch: Architecture, objective: str) -> None:
    """Raise OptionError PM515 for a problem that is none of those which are certified."""
    _problem(workload, arch, objective)


def objective_line(arch: Architecture, objective: str) -> str:
    """Return an objective as certificates write it: weights as "a/b"."""
    read = parse_objective(objective, arch)
    if read.goal is not Goal.WEIGHTED:
        return objective
    return "weighted:" + "+".join(f"{weight}*{part.text}" for weight, part in read.parts)


def _problem(workload: Workload, arch: Architecture, objective: str) -> Problem:
    reason = analyse(workload, arch).reason
    if reason is None and any(tensor.temporary for tensor in workload.tensors):
        reason = "a tensor is temporary"
    try:
        if reason is None:
            return Problem(workload_table(workload), machine_table(arch), objective_line(arch, objective))
    except Refused as refusal:
        reason = str(refusal)
    hint = "docs/certificate.md tells which problems are."
    raise OptionError(Mistake("PM515", f"this answer cannot be certified: {reason}", hint))


def certificate(workload: Workload, arch: Architecture, objective: str, mapping: Mapping, seconds: float = 600) -> str:
    """Return the certificate's text that `mapping` is the best one with dividing tiles.

    Structures that are not refuted after `seconds` of CPU time are marked as the solver's word. Raises OptionError for
    problems outside the class that is certified.
    """
    head = [
        f"workload {canonical(workload_table(workload))}",
        f"machine {canonical(machine_table(arch))}",
        f"objective {objective_line(arch, objective)}",
    ]
    nodes = mapping_to_document(mapping)["nodes"]
    problem = _problem(workload, arch, objective)
    value = cost(problem, nodes)
    images = symmetries(analyse(workload, arch))
    lines = [
        "polymap certificate 1",
        *head,
        f"sha256 {digest(head)}",
        f"value {Fraction(value, problem.scale)}",
        f"mapping {canonical(nodes)}",
        *(f"symmetry {','.join(problem.dims[d] for d in image)}" for image in images),
        *_proofs(problem, value, images, time.process_time() + seconds),
    ]
    return "\n".join((*lines, f"end {digest(lines)}", ""))


def _proofs(problem: Problem, value: int, images: tuple[tuple[int, ...], ...], deadline: float) -> list[str]:
    prover = Prover(problem, value, deadline)
    found = prover.structures
    writer = _Writer(prover)
    known: dict[Rows, str] = {}
    lines = [f"structures {len(found)}"]
    for number, rows in enumerate(found, start=1):
        label = "/".join(",".join(map(str, row)) for row in rows) or "-"
        if rows in known:
            lines.append(f"{label} {known[rows]}")
            continue
        proof = writer.proof(rows, ())
        lines += [f"{label} {proof[0]}", *proof[1:]]
        if not any(" word " in f" {line} " for line in proof):
            for by, image in enumerate(images, start=1):
                moved = tuple(tuple(row[image.index(d)] for d in range(len(row))) for row in rows)
                if moved > rows:
                    known.setdefault(moved, f"as {number} {by}")
    return lines


@dataclass(slots=True)
class _Writer:
    """Looks for the cheapest proof of one structure after the other. prices: those that served last."""

    prover: Prover
    prices: Prices = ()

    def proof(self, rows: Rows, places: Places) -> list[str]:
        """Return the lines that refute a structure (with its spatial loops at `places`)."""
        prover = self.prover
        alone = prover.apart(rows)
        if alone is None:
            return ["empty"]
        if alone >= self.prover.value and not places:
            return [f"apart {alone}"]
        if time.process_time() > prover.deadline:
            return [f"word {alone}"]
        best, prices = self._best(rows, places)
        if best is None:
            return ["empty"]
        if best >= self.prover.value:
            return [f"joint {_prices_text(prices)} {best}"]
        choices = [] if places else prover.places(rows)
        if len(choices) > 1:
            return self._split(rows, choices)
        try:
            nodes = prover.descend(rows, places, prices, MOST_NODES)
        except Refused:
            return [f"word {alone}"]
        return [f"search {_prices_text(prices)} {best} {nodes}"]

    def _split(self, rows: Rows, choices: list[Places]) -> list[str]:
        lines = [f"places {len(choices)}"]
        for one in choices:
            lines.append(f"  {','.join(str(y) for _, y in one)} {self.proof(rows, one)[0]}")
        return lines

    def _best(self, rows: Rows, places: Places) -> tuple[int | None, Prices]:
        """Return the best bound of all tensors together, and its prices."""
        best, prices = self.prover.joint(rows, places, ()), ()
        levels = [level for level, room in enumerate(self.prover.problem.room) if self._is_shared(level, room)]
        if best is None or best >= self.prover.value or not self.prover.problem.is_linear or not levels:
            return best, prices
        unit = UNIT
        while unit > 1 and unit * self.prover.problem.reach >= 1 << 58:
            unit //= 2
        tried: dict[Prices, int] = {(unit, *(0 for _ in self.prover.problem.room)): best}

        def bound(one: Prices) -> int:
            if one not in tried:
                tried[one] = self.prover.joint(rows, places, one) or 0
            return tried[one]

        prices = self.prices if self.prices and bound(self.prices) > best else next(iter(tried))
        for _ in range(2):
            for level in levels:
                prices = self._climbed(bound, prices, level)
                if bound(prices) >= self.prover.value:
                    self.prices = prices
                    return bound(prices), prices
        if bound(prices) <= best:
            return best, ()
        self.prices = prices
        return bound(prices), prices

    def _is_shared(self, level: int, room: int | None) -> bool:
        return room is not None and sum(level in tensor.may for tensor in self.prover.problem.tensors) > 1

    def _climbed(self, bound: Callable[[Prices], int], prices: Prices, level: int) -> Prices:
        """Return prices with the level's one moved to where the bound is highest, within a tenth (it is concave)."""
        room = self.prover.problem.room[level] or 1
        start = prices[level + 1] or max(1, abs(self.prover.value) * prices[0] // (50 * room))

        def priced(amount: int) -> Prices:
            limit = (1 << 57) // room
            return (*prices[: level + 1], min(amount, limit), *prices[level + 2 :])

        best = max((prices, priced(start)), key=bound)
        for numerator, denominator in ((4, 1), (1, 4), (2, 1), (1, 2), (4, 3), (3, 4), (11, 10), (10, 11)):
            while bound(best) < self.prover.value:
                new = priced(best[level + 1] * numerator // denominator)
                if new == best or bound(new) <= bound(best):
                    break
                best = new
        return best


def _prices_text(prices: Prices) -> str:
    return f"{prices[0]}:{','.join(map(str, prices[1:]))}" if prices else "-"
