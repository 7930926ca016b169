"""Writes certificates: the head in canonical form, and a proof for every structure, found with the checker's bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction

from polymap.checker import (
    DEADLINE,
    FITS,
    FORMAT,
    OutOfTime,
    Places,
    Problem,
    Prover,
    Refused,
    Rows,
    cost,
    digest,
    label,
    parsed,
)
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload
from polymap.schedules import mapping_to_document
from polymap.search.problem import Rules, analyse, rules_from_document, symmetries
from polymap.search.run.certificate_head import (
    HINT,
    canonical,
    constraints_table,
    machine_table,
    objective_line,
    workload_table,
)
from polymap.search.run.options import TUNING

Multipliers = tuple[int, ...]
Images = tuple[tuple[int, ...], ...]

UNIT = 1 << 10


def check_certifiable(workload: Workload, arch: Architecture, objective: str, rules: Rules = ()) -> None:
    """Raise OptionError PM515 for a problem that is none of those which are certified."""
    _problem(workload, arch, objective, rules)


def asked_head(workload: Workload, arch: Architecture, objective: str, constraints: object) -> dict[str, object]:
    """Return what the head of a certificate of this question says, by its words; raises OptionError as
    check_certifiable does, and for mistakes in the constraints."""
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    check_certifiable(workload, arch, objective, rules)
    return {
        "workload": workload_table(workload),
        "machine": machine_table(arch),
        "constraints": constraints_table(rules),
        "objective": objective_line(arch, objective),
    }


def _problem(workload: Workload, arch: Architecture, objective: str, rules: Rules) -> Problem:
    reason = analyse(workload, arch).reason
    if reason is None and any(tensor.temporary for tensor in workload.tensors):
        reason = "a tensor is temporary"
    try:
        if reason is None:
            tables = workload_table(workload), machine_table(arch), constraints_table(rules)
            dims, machine, demands = (parsed(canonical(table)) for table in tables)
            return Problem(dims, machine, demands, objective_line(arch, objective))
    except (Refused, ArithmeticError) as refusal:
        reason = str(refusal)
    raise OptionError(Mistake("PM515", f"this answer cannot be certified: {reason}", HINT))


def certificate(
    workload: Workload, arch: Architecture, objective: str, mapping: Mapping, rules: Rules = (), seconds: float = 600
) -> str:
    """Return the certificate's text that `mapping` is the best one with dividing tiles that meets the rules.

    Structures that are not refuted after `seconds` of CPU time are marked as the solver's word. Raises OptionError:
    PM515 for problems outside the class that is certified, PM517 where the mapping is not the best or breaks a rule.
    """
    head = [
        f"workload {canonical(workload_table(workload))}",
        f"machine {canonical(machine_table(arch))}",
        f"constraints {canonical(constraints_table(rules))}",
        f"objective {objective_line(arch, objective)}",
    ]
    nodes = mapping_to_document(mapping)["nodes"]
    problem = _problem(workload, arch, objective, rules)
    try:
        value = cost(problem, nodes)
    except Refused as refusal:
        raise OptionError(Mistake("PM517", f"this answer has no certificate: {refusal}")) from None
    images = symmetries(analyse(workload, arch, rules))
    with _deadline(seconds):
        proofs = _proofs(problem, value, images)
    lines = [
        FORMAT,
        *head,
        f"sha256 {digest(head)}",
        f"value {Fraction(value, problem.scale)}",
        f"mapping {canonical(nodes)}",
        *(f"symmetry {','.join(problem.dims[d] for d in image)}" for image in images),
        *proofs,
    ]
    return "\n".join((*lines, f"end {digest(lines)}", ""))


def _proofs(problem: Problem, value: int, images: Images) -> list[str]:
    """Return the lines of all structures; OptionError PM515 for numbers that the checker does not reach."""
    try:
        return _Writer(Prover(problem, value), images).lines()
    except Refused as refusal:
        raise OptionError(Mistake("PM515", f"this answer cannot be certified: {refusal}", HINT)) from None


@contextmanager
def _deadline(seconds: float) -> Generator[None]:
    """Let the checker's bounds raise OutOfTime after so many seconds of CPU time."""
    before = DEADLINE.set(time.process_time() + seconds)
    try:
        yield
    finally:
        DEADLINE.reset(before)


@dataclass(slots=True)
class _Writer:
    """Looks for the cheapest proof of every structure. found: the lines that refute a structure."""

    prover: Prover
    images: Images
    found: dict[Rows, list[str]] = field(default_factory=dict[Rows, list[str]])

    def lines(self) -> list[str]:
        """Return the list of structures, each with its proof."""
        structures = self.prover.structures
        copies = self._copies(structures)
        with _deadline(float("inf")):  # what rests on the solver's word is told with this bound
            apart = {rows: self.prover.apart(rows) for rows in structures}
        left = [rows for rows in structures if rows not in copies and not self._alone(rows, apart[rows])]
        with suppress(OutOfTime):
            self._together(left)
        lines = [f"structures {len(structures)}"]
        for rows in structures:
            line, by = copies.get(rows, (0, 0))
            proof = self.found.get(structures[line - 1] if line else rows, ["word"])
            if any("word" in one.split(" ") for one in proof):
                proof = proof if not line and len(proof) > 1 else [f"word {apart[rows]}"]
            elif line:
                proof = [f"as {line} {by}"]
            lines += [f"{label(rows)} {proof[0]}", *proof[1:]]
        return lines

    def _copies(self, structures: list[Rows]) -> dict[Rows, tuple[int, int]]:
        """Return the structures that are images of earlier ones: number of that one, number of the symmetry."""
        copies: dict[Rows, tuple[int, int]] = {}
        for number, rows in enumerate(structures, start=1):
            for by, image in enumerate(self.images if rows not in copies else (), start=1):
                moved = tuple(tuple(row[image.index(d)] for d in range(len(row))) for row in rows)
                if moved > rows:
                    copies.setdefault(moved, (number, by))
        return copies

    def _alone(self, rows: Rows, bound: int | None) -> bool:
        """Return whether the bound of every tensor at its own best refutes a structure, and note that."""
        if bound is None:
            self.found[rows] = ["empty"]
        elif bound >= self.prover.value:
            self.found[rows] = [f"apart {bound}"]
        else:
            for number, limit in enumerate(self.prover.problem.measures[1:], start=1):
                above = self.prover.apart(rows, number)
                if above is not None and limit.most is not None and above > limit.most:
                    self.found[rows] = [f"over {number} {above}"]
        return rows in self.found

    def _together(self, left: list[Rows]) -> None:
        """Refute structures by bounds of all tensors together: without prices, with prices that served another
        structure or their own, and last by cases or a search."""
        pairs = [(rows, ()) for rows in left]
        bounds = dict(zip(left, self.prover.joints(pairs, ()), strict=True))
        left = [rows for rows in left if not self._note(rows, (), bounds[rows])]
        while left:
            first, *left = left
            best, prices = self._priced(first, (), bounds[first] or 0)
            if best >= self.prover.value and prices:
                self._note(first, prices, best)
                again = self.prover.joints([(rows, ()) for rows in left], prices)
                left = [rows for rows, bound in zip(left, again, strict=True) if not self._note(rows, prices, bound)]
            else:
                self.found[first] = self._cases(first, prices, best)

    def _note(self, rows: Rows, prices: Multipliers, bound: int | None) -> bool:
        proof = _refuted(prices, bound, self.prover.value)
        if proof is not None:
            self.found[rows] = [proof]
        return proof is not None

    def _cases(self, rows: Rows, prices: Multipliers, best: int) -> list[str]:
        """Return the proof of a structure by the places of its spatial loops, or by a search."""
        choices = self.prover.places(rows)
        if len(choices) < 2:
            return [self._searched(rows, (), prices, best)]
        lines = [f"places {len(choices)}"]
        bounds = self.prover.joints([(rows, one) for one in choices], ())
        for one, bound in zip(choices, bounds, strict=True):
            proof, used = _refuted((), bound, self.prover.value), ()
            if proof is None:
                least, used = self._priced(rows, one, bound or 0)
                proof = _refuted(used, least, self.prover.value) or self._searched(rows, one, used, least)
            lines.append(f"  {','.join(str(y) for _, y in one)} {proof}")
        return lines

    def _searched(self, rows: Rows, places: Places, prices: Multipliers, best: int) -> str:
        """Return the proof of a structure by a search; where that meets a mapping that costs less, there is no
        certificate at all."""
        prover = self.prover
        try:
            nodes = prover.descend(rows, places, prices, TUNING.most_nodes)
            return f"search {_prices_text(prices)} {best} {nodes}"
        except OutOfTime:
            raise
        except Refused:
            if prover.meets_better(rows, places, TUNING.most_nodes):
                what = f"this answer has no certificate: a mapping of structure {label(rows)} costs less"
                raise OptionError(Mistake("PM517", what, "This is a bug of the search: please report it.")) from None
        return f"word {prover.apart(rows)}"

    def _priced(self, rows: Rows, places: Places, best: int) -> tuple[int, Multipliers]:
        """Return the best bound of all tensors together above `best`, the one without prices, and its prices."""
        problem, value = self.prover.problem, self.prover.value
        levels = [level for level, room in enumerate(problem.room) if self._is_shared(level, room)]
        if not problem.measures[0].linear or not levels:
            return best, ()
        unit = UNIT
        while unit > 1 and unit * problem.reach >= FITS > problem.reach:
            unit //= 2
        start: Multipliers = (unit, *(0 for _ in problem.room))
        tried: dict[Multipliers, int] = {start: best}

        def bound(one: Multipliers) -> int:
            if one not in tried:
                tried[one] = self.prover.joint(rows, places, one) or 0
            return tried[one]

        prices = start
        for _ in range(2):
            for level in levels:
                prices = self._climbed(bound, prices, level)
                if bound(prices) >= value:
                    return bound(prices), prices
        return (bound(prices), prices) if bound(prices) > best else (best, ())

    def _is_shared(self, level: int, room: int | None) -> bool:
        return bool(room) and sum(level in tensor.may for tensor in self.prover.problem.tensors) > 1

    def _climbed(self, bound: Callable[[Multipliers], int], prices: Multipliers, level: int) -> Multipliers:
        """Return prices with the level's one moved to where the bound is highest, within a tenth (it is concave)."""
        room = self.prover.problem.room[level] or 1
        start = prices[level + 1] or max(1, abs(self.prover.value) * prices[0] // (50 * room))

        def priced(amount: int) -> Multipliers:
            return (*prices[: level + 1], amount, *prices[level + 2 :])

        best = max((prices, priced(start)), key=bound)
        for numerator, denominator in ((4, 1), (1, 4), (2, 1), (1, 2), (4, 3), (3, 4), (11, 10), (10, 11)):
            while bound(best) < self.prover.value:
                new = priced(best[level + 1] * numerator // denominator)
                if new == best or bound(new) <= bound(best):
                    break
                best = new
        return best


def _refuted(prices: Multipliers, bound: int | None, value: int) -> str | None:
    """Return the proof by a bound of all tensors together; None where it is too low."""
    if bound is None:
        return "empty"
    return f"joint {_prices_text(prices)} {bound}" if bound >= value else None


def _prices_text(prices: Multipliers) -> str:
    return f"{prices[0]}:{','.join(map(str, prices[1:]))}" if prices else "-"
