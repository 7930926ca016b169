"""Writes certificates: the head in canonical form, and a proof for every structure, found with the checker's bounds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction

from polymap.checker import (
    DEADLINE,
    FITS,
    FORMAT,
    Case,
    OutOfTime,
    Places,
    Prices,
    Problem,
    Program,
    Prover,
    Refused,
    Rows,
    cost,
    digest,
    label,
    label_of_places,
    least,
    parsed,
)
from polymap.inputs import mapping_to_document
from polymap.ir import (
    Access,
    Architecture,
    Fanout,
    Mapping,
    MemoryLevel,
    Mistake,
    Node,
    Operator,
    OptionError,
    Workload,
    accesses_of,
    nest_of,
)
from polymap.search.options import TUNING
from polymap.search.problem import (
    AtLeast,
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
    analyse,
    beyond_sums,
    parse_objective,
    rules_from_document,
)

Alone = Callable[[Workload, Architecture, Rules, float], Mapping | None]  # in so many seconds
Vector = tuple[int, ...]  # a unit, the prices of bits held per level, those of the parts after the first

UNIT = 1 << 10
NO_MAPPING = "this answer has no certificate: there is no mapping"


def check_certifiable(workload: Workload, arch: Architecture, objective: str, rules: Rules = ()) -> None:
    """Raise OptionError PM515 for a problem that is none of those which are certified."""
    _checker_question(workload, arch, objective, rules)


def asked_head(workload: Workload, arch: Architecture, objective: str, constraints: object) -> dict[str, object]:
    """Return what the head of a certificate of this question says, by its words; raises OptionError as
    check_certifiable does, and for mistakes in the constraints."""
    rules = rules_from_document(constraints, workload, arch)
    check_certifiable(workload, arch, objective, rules)
    return _head(workload, arch, objective, rules)


def _head(workload: Workload, arch: Architecture, objective: str, rules: Rules) -> dict[str, object]:
    table = program_table if len(workload.statements) > 1 else workload_table
    tables = {"workload": table(workload), "machine": machine_table(arch)}
    return {**tables, "constraints": constraints_table(rules), "objective": objective_line(arch, objective)}


def _checker_question(workload: Workload, arch: Architecture, objective: str, rules: Rules) -> Problem | Program:
    """Return a question as the checker reads it; OptionError PM515 for one that it does not read."""
    is_program = len(workload.statements) > 1
    reason = _beyond_boxes(workload) if is_program else analyse(workload, arch).reason
    if reason is None:
        reason = beyond_sums(arch, rules, parse_objective(objective, arch)) or None
    try:
        if reason is None:
            tables = [parsed(canonical(table)) for table in _head(workload, arch, objective, rules).values()]
            return (Program if is_program else Problem)(tables[0], tables[1], tables[2], tables[3])
    except (Refused, ArithmeticError) as refusal:
        reason = str(refusal)
    raise OptionError(Mistake("PM515", f"this answer cannot be certified: {reason}", HINT))


def _problem(workload: Workload, arch: Architecture, objective: str, rules: Rules) -> Problem:
    found = _checker_question(workload, arch, objective, rules)
    assert isinstance(found, Problem), "a workload of one statement"
    return found


def _beyond_boxes(workload: Workload) -> str | None:
    """Return why the tables of a program do not say all that it is; None where they do."""
    forms = [form for each in workload.statements for access in (each.target, *each.reads) for form in access.index]
    if any(each.constraints for each in workload.statements) or not all(form.is_linear for form in forms):
        return "its statements are not over boxes with affine indices"
    if any(form.constant for form in forms):
        return "its indices have constants"
    return None if workload.associative else "its sums may not be reordered"


def program_certificate(
    workload: Workload,
    arch: Architecture,
    objective: str,
    mapping: Mapping,
    rules: Rules,
    best_alone: Alone | None,
    seconds: float = 600,
) -> str:
    """Return the certificate's text of what no tree of a program costs less than, and of what a tree costs.

    best_alone: gives the best dividing mapping of a statement alone (None: tiles are of any size). It is asked while
    that raises the bound, for at most so many seconds. Raises OptionError: PM515 for programs outside the class that is
    certified, PM517 where the checker counts no such tree.
    """
    program, words = _checker_question(workload, arch, objective, rules), _head(workload, arch, objective, rules)
    assert isinstance(program, Program), "a workload of several statements"
    nodes, until, divides = mapping_to_document(mapping)["nodes"], time.process_time() + seconds, best_alone is not None
    try:
        value = program.cost(parsed(canonical(nodes)), divides=divides)
    except Refused as refusal:
        raise OptionError(Mistake("PM517", f"this answer has no certificate: {refusal}")) from None
    lines = [*_lines(words), f"value {value}", f"mapping {canonical(nodes)}"]
    known, legs, tried = dict[Case, Fraction](), dict[str, list[str]](), set[Case]()
    try:
        count, bound, weakest = program.least(known)
        while best_alone and bound < value and time.process_time() < until and not tried.issuperset(weakest):
            case = next(each for each in weakest if each not in tried)
            tried.add(case)
            leg = _leg(program, case, workload, arch, best_alone, until - time.process_time())
            if leg is not None:
                known[case], legs[program.label(case)] = leg
                count, bound, weakest = program.least(known)
    except Refused as refusal:
        raise OptionError(Mistake("PM515", f"this answer cannot be certified: {refusal}", HINT)) from None
    if divides:
        lines += [
            f"legs {len(legs)}",
            *(line for label, own in sorted(legs.items()) for line in (f"leg {label}", *own)),
        ]
        count += sum(int(own[2].split(" ")[1]) for own in legs.values())
    return _finish_certificate([*lines, f"bound {bound}", f"structures {count}"])


def _leg(
    program: Program, case: Case, workload: Workload, arch: Architecture, best_alone: Alone, seconds: float
) -> tuple[Fraction, list[str]] | None:
    """Return what a statement alone costs at least with dividing tiles, and the lines that prove it; None where none
    are found, and for one that shares what it reads."""
    statement, problem = workload.statement(case[0]), program.alone(case)
    initial = workload.tensor(statement.target.tensor).initial and statement.operator is not Operator.ASSIGN
    nest, held = nest_of(workload, statement, workload.extents(), is_initial=initial), list[Held]()
    for name, level in program.levels_of(case).items():
        held += [Held(arch.levels[number].name, name, must=number == level) for number in range(1, level + 1)]
    best = None if program.once(case) else best_alone(nest, arch.naming_only(nest.tensors), tuple(held), seconds / 2)
    if best is None:
        return None
    nodes = mapping_to_document(best)["nodes"]
    try:
        scaled = cost(problem, nodes, divides=True)
        with _deadline(seconds / 2):
            proofs = _proofs(problem, scaled)
    except (Refused, OptionError):  # the limit of time has ended the search before
        return None
    value, is_word = Fraction(scaled, problem.scale), any(" word " in f"{line} " for line in proofs)
    return None if is_word else (value, [f"value {value}", f"mapping {canonical(nodes)}", *proofs])


def certificate(
    workload: Workload, arch: Architecture, objective: str, mapping: Mapping, rules: Rules = (), seconds: float = 600
) -> str:
    """Return the certificate's text that `mapping` is the best one with dividing tiles that meets the rules.

    Structures that are not refuted after `seconds` of CPU time are marked as the solver's word. Raises OptionError:
    PM515 for problems outside the class that is certified, PM517 where the mapping is not the best or breaks a rule.
    """
    problem = _problem(workload, arch, objective, rules)
    lines, value = _begin_certificate(workload, arch, objective, mapping, rules, divides=True)
    with _deadline(seconds):
        proofs = _proofs(problem, value)
    return _finish_certificate([*lines, *proofs])


def bound_certificate(
    workload: Workload, arch: Architecture, objective: str, mappings: Sequence[Mapping | None], rules: Rules = ()
) -> str:
    """Return the certificate's text of what no mapping of any tile sizes costs less than, and of what the first of
    `mappings` costs that the checker counts.

    Raises OptionError: PM515 for problems outside the class that is certified, PM517 where there is no such mapping.
    """
    problem, refused = _problem(workload, arch, objective, rules), OptionError(Mistake("PM517", NO_MAPPING))
    for mapping in filter(None, mappings):
        try:
            lines, _ = _begin_certificate(workload, arch, objective, mapping, rules, divides=False)
        except OptionError as refusal:
            refused = refusal
            continue
        try:
            count, bound = least(problem)
        except Refused as refusal:
            raise OptionError(Mistake("PM515", f"this answer cannot be certified: {refusal}", HINT)) from None
        return _finish_certificate([*lines, f"bound {Fraction(bound, problem.scale)}", f"structures {count}"])
    raise refused


def _begin_certificate(
    workload: Workload, arch: Architecture, objective: str, mapping: Mapping, rules: Rules, *, divides: bool
) -> tuple[list[str], int]:
    """Return a certificate's lines up to the mapping, and what that costs, scaled; OptionError PM517 where the checker
    does not take it, or with tiles that do not divide where they must."""
    lines = _lines(_head(workload, arch, objective, rules))
    nodes, problem = mapping_to_document(mapping)["nodes"], _problem(workload, arch, objective, rules)
    try:
        value = cost(problem, nodes, divides=divides)
    except Refused as refusal:
        raise OptionError(Mistake("PM517", f"this answer has no certificate: {refusal}")) from None
    return [*lines, f"value {Fraction(value, problem.scale)}", f"mapping {canonical(nodes)}"], value


def _lines(words: dict[str, object]) -> list[str]:
    """Return a certificate's lines up to the hash of its head."""
    head = [f"{word} {said if isinstance(said, str) else canonical(said)}" for word, said in words.items()]
    return [FORMAT, *head, f"sha256 {digest(head)}"]


def _finish_certificate(lines: list[str]) -> str:
    return "\n".join((*lines, f"end {digest(lines)}", ""))


def _proofs(problem: Problem, value: int) -> list[str]:
    """Return the lines of all structures; OptionError PM515 for numbers that the checker does not reach."""
    try:
        return _Writer(Prover(problem, value)).lines()
    except Refused as refusal:
        raise OptionError(Mistake("PM515", f"this answer cannot be certified: {refusal}", HINT)) from None


@contextmanager
def _deadline(seconds: float) -> Generator[None]:
    """Return the hook by which the checker's bounds raise OutOfTime after so many seconds of CPU time."""
    before = DEADLINE.set(time.process_time() + seconds)
    try:
        yield
    finally:
        DEADLINE.reset(before)


@dataclass(slots=True)
class _Writer:
    """Looks for the cheapest proof of every structure. found: the lines that refute a structure."""

    prover: Prover
    found: dict[Rows, list[str]] = field(default_factory=dict[Rows, list[str]])

    def lines(self) -> list[str]:
        """Return the list of structures, each with its proof."""
        structures = self.prover.structures
        with _deadline(float("inf")):  # what rests on the solver's word is told with this bound
            apart = {rows: self.prover.apart(rows) for rows in structures}
        left = [rows for rows in structures if not self._refute_by_tensors(rows, apart[rows])]
        with suppress(OutOfTime):
            self._together(left)
        lines = [f"structures {len(structures)}"]
        for rows in structures:
            proof = self.found.get(rows, [f"word {apart[rows]}"])
            lines += [f"{label(rows)} {proof[0]}", *proof[1:]]
        return lines

    def _refute_by_tensors(self, rows: Rows, bound: int) -> bool:
        """Return whether the bound of every tensor at its own best refutes a structure, and note that."""
        if bound >= self.prover.value:
            self.found[rows] = [f"apart {bound}"]
        else:
            for number, limit in enumerate(self.prover.problem.measures[1:], start=1):
                above = self.prover.apart(rows, number)
                if limit.most is not None and above > limit.most:
                    self.found[rows] = [f"over {number} {above}"]
        return rows in self.found

    def _together(self, left: list[Rows]) -> None:
        """Refute structures by bounds of all tensors together: without prices, with prices that served another
        structure or their own, and last by cases or a search."""
        bounds = {rows: self.prover.joint(rows, (), ()) for rows in left}
        left = [rows for rows in left if not self._note(rows, (), bounds[rows])]
        while left:
            first, *left = left
            best, prices = self._best_prices(first, (), bounds[first] or 0)
            if best >= self.prover.value and prices:
                self._note(first, prices, best)
                left = [rows for rows in left if not self._note(rows, prices, self.prover.joint(rows, (), prices))]
            else:
                self.found[first] = self._cases(first, prices, best)

    def _note(self, rows: Rows, prices: Prices, bound: int | None) -> bool:
        proof = self._proof_by_bound(prices, bound)
        if proof is not None:
            self.found[rows] = [proof]
        return proof is not None

    def _cases(self, rows: Rows, prices: Prices, best: int) -> list[str]:
        """Return the proof of a structure by the places of its spatial loops, or by a search."""
        choices = self.prover.places(rows)
        if len(choices) < 2:
            return [self._proof_by_search(rows, (), prices, best)]
        lines = [f"places {len(choices)}"]
        for one in choices:
            bound = self.prover.joint(rows, one, ())
            proof, used = self._proof_by_bound((), bound), Prices()
            if proof is None:
                least, used = self._best_prices(rows, one, bound or 0)
                proof = self._proof_by_bound(used, least) or self._proof_by_search(rows, one, used, least)
            lines.append(f"  {label_of_places(one, choices)} {proof}")
        return lines

    def _proof_by_search(self, rows: Rows, places: Places, prices: Prices, best: int) -> str:
        """Return the proof of a structure by a search; where that meets a mapping that costs less, there is no
        certificate at all."""
        prover = self.prover
        try:
            nodes = prover.descend(rows, places, prices, TUNING.most_nodes)
            return f"search {self._text(prices)} {best} {nodes}"
        except OutOfTime:
            raise
        except Refused:
            if prover.meets_better(rows, places, TUNING.most_nodes):
                what = f"this answer has no certificate: a mapping of structure {label(rows)} costs less"
                raise OptionError(Mistake("PM517", what, "This is a bug of the search: please report it.")) from None
        return f"word {prover.apart(rows)}"

    def _best_prices(self, rows: Rows, places: Places, best: int) -> tuple[int, Prices]:
        """Return the best bound of all tensors together above `best`, the one without prices, and its prices."""
        prices = _PriceSearch(self.prover, rows, places).best()
        least = (self.prover.joint(rows, places, prices) or 0) if prices else best
        return (least, prices) if least > best else (best, ())

    def _proof_by_bound(self, prices: Prices, bound: int | None) -> str | None:
        """Return the proof by a bound of all tensors together; None where it is too low."""
        if bound is None:
            return "empty"
        return f"joint {self._text(prices)} {bound}" if bound >= self.prover.value else None

    def _text(self, prices: Prices) -> str:
        """Return prices as certificates write them."""
        levels, each = len(self.prover.problem.room), list[str]()
        for unit, *others in prices:
            lists = [others[:levels], others[levels:]]
            each.append(":".join((str(unit), *(",".join(map(str, one)) for one in lists if one))))
        return ";".join(each) or "-"


@dataclass(slots=True)
class _PriceSearch:
    """Looks for prices of bits held and, where cycles count, of bits passed, at which a structure's bound is high.

    Each vector of prices gives a line: energy is at least a - b x cycles (b is 0 where cycles do not count). lines:
    (a, b) of the vectors tried."""

    prover: Prover
    rows: Rows
    places: Places
    lines: dict[Vector, tuple[Fraction, Fraction]] = field(default_factory=dict[Vector, tuple[Fraction, Fraction]])

    def best(self) -> Prices:
        """Return the prices: those whose line is highest at the least cycles, then where the lines so far leave the
        least value."""
        problem, found, tables = self.prover.problem, list[Vector](), self.prover.tables(self.rows, self.places, ())
        linear, steps, plain = problem.measures[0].linear, tables.structure.steps, tables.least()
        for _ in range(1 if linear else TUNING.most_lines):
            lines = [self._line(vector) for vector in found]
            least, cycles = problem.weakest(plain, steps, lines=lines)
            vector = self._highest(cycles) if least < self.prover.value else None
            if vector is None or vector in found:
                break
            found.append(vector)
        return tuple(found)

    def _line(self, vector: Vector) -> tuple[Fraction, Fraction]:
        problem, linear = self.prover.problem, self.prover.problem.measures[0].linear
        if vector not in self.lines:
            tables = self.prover.tables(self.rows, self.places, (vector,))
            parts, lines = problem.bounded(tables.least(), (vector,), tables.structure.steps)
            self.lines[vector] = (Fraction(parts[0]), Fraction(0)) if linear else lines[0]
        return self.lines[vector]

    def _highest(self, cycles: int) -> Vector | None:
        """Return the prices whose line is highest at so many cycles, or high enough (None: nothing has a price)."""
        problem, unit, value = self.prover.problem, UNIT, self.prover.value
        measure, levels = problem.measures[0], len(problem.room)
        while unit > 1 and unit * problem.reach >= FITS // 4:
            unit //= 2
        wanted = Fraction(value, max(1, cycles) ** measure.power) - measure.fixed - measure.slope * cycles
        slots = {1 + i: 50 * (room or 1) for i, room in enumerate(problem.room) if self._is_shared(i, room)}
        for i, part in enumerate(problem.parts[1:], start=1 + levels):
            if part.band and i - levels in measure.own:
                slots[i] = 4 * int(part.band * cycles + 1)
        vector: Vector = (unit, *(0 for _ in range(levels + (len(problem.parts) - 1) * (not measure.linear))))
        for slot, amount in list(slots.items()) * 2:
            start = vector[slot] or max(1, int(abs(wanted) * unit) // amount)
            vector = self._climb_along(vector, slot, start, cycles, wanted)
            if self._height(vector, cycles) >= wanted:
                break
        return vector if any(vector[1:]) else None

    def _is_shared(self, level: int, room: int | None) -> bool:
        return bool(room) and sum(level in tensor.may for tensor in self.prover.problem.tensors) > 1

    def _height(self, vector: Vector, cycles: int) -> Fraction:
        first, slope = self._line(vector)
        return first - slope * cycles

    def _climb_along(self, vector: Vector, slot: int, start: int, cycles: int, wanted: Fraction) -> Vector:
        """Return the vector with one price moved to where its line is highest, within a tenth (it is concave)."""

        def priced(amount: int) -> Vector:
            return (*vector[:slot], amount, *vector[slot + 1 :])

        def height(one: Vector) -> Fraction:
            return self._height(one, cycles)

        best = max((vector, priced(start)), key=height)
        for numerator, denominator in ((4, 1), (1, 4), (2, 1), (1, 2), (4, 3), (3, 4), (11, 10), (10, 11)):
            while height(best) < wanted:
                new = priced(best[slot] * numerator // denominator)
                if new == best or height(new) <= height(best):
                    break
                best = new
        return best


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


def program_table(workload: Workload) -> dict[str, object]:
    """Return the program of several statements as certificates write it."""
    return {
        "dims": [[dim.name, dim.extent] for dim in workload.dims],
        "statements": [
            {
                "name": each.name,
                "dims": list(each.dims),
                "adds": each.operator is not Operator.ASSIGN,
                "accesses": [
                    {"tensor": access.tensor, "index": _index(access)}
                    for access in dict.fromkeys((each.target, *each.reads))
                ],
            }
            for each in workload.statements
        ],
        "tensors": [
            {
                "name": tensor.name,
                "bits": tensor.bits,
                "initial": tensor.initial,
                "role": tensor.role.value,
                "temporary": tensor.temporary,
            }
            for tensor in workload.tensors
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
        prices = {key: str(getattr(node, key)) for key in ("pj_per_word", "pj_per_word_hop", "reduce_pj")}
        wires = {"hops": node.hops.value} | prices if node.has_energies else {}
        dims = None if node.dims is None else list(node.dims)
        own = {"size": node.size, "multicast": node.multicast.value, "reduction": node.reduction, "dims": dims}
        return {"fanout": node.name, **own, **wires}
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
        case AtLeast(level, tensor, elements):
            return {"rule": "at_least", "level": level, "tensor": tensor, "elements": elements}
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
