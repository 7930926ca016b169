"""Accepts or refuses certificates: every structure once, every bound derived again (docs/certificate.md)."""

import time
import warnings
from fractions import Fraction
from typing import NamedTuple

from polymap.checker.any_size import least
from polymap.checker.model import DEADLINE, Problem, parsed, rational
from polymap.checker.programs import Case, Program
from polymap.checker.proofs import Lines, Nest, Reason, digest, integer
from polymap.checker.rules import Refused, need

FORMAT = "polymap certificate 3"
HEAD = ("workload", "machine", "constraints", "objective")
UNITS = {"energy": "pJ", "latency": "cycles", "edp": "pJ*cycle", "ed2p": "pJ*cycle^2"}
LISTED = 5  # structures that are not proven, of those that a verdict prints
MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


class Verdict(NamedTuple):
    """What a certificate proves.

    proven: whether all that the text claims was derived: no mapping with dividing tiles costs less than `value`, or,
    where there is a `bound`, no mapping of any tile sizes costs less than that, and one costs `value`. divides: whether
    that is about dividing tiles, also where there is a bound (of a program). unproven: what
    rests on the solver's word, a line each. reason: what is wrong with the text ("": nothing was found). value,
    bound: in pJ, cycles, pJ x cycle, pJ x cycle^2 or bits. head: SHA-256 of workload, machine, constraints and
    objective. seconds: of CPU. reasons: of a text that is accepted, one per structure, each as the checker derived it
    (none where there is a `bound`)."""

    proven: bool
    unproven: tuple[str, ...]
    reason: str
    objective: str
    value: Fraction | None
    structures: int
    head: str
    seconds: float
    bound: Fraction | None = None
    reasons: tuple[Reason, ...] = ()
    divides: bool = True

    def __str__(self) -> str:
        """Return the verdict, what it is about, and the first parts that are not proven."""
        about = f"\nof the workload, machine, constraints and objective with SHA-256 {self.head}" if self.head else ""
        if self.reason or self.value is None:
            return f"REFUSED: {self.reason}{about}"
        checked = f"checked against {self.structures:,} structure{'s'[: self.structures != 1]} in {self.seconds:.1f} s"
        words, value = len(self.unproven), amount(self.value, self.objective)
        if words:
            listed = "".join(f"\n  {line}" for line in self.unproven[:LISTED])
            more = f"\n  and {words - LISTED:,} more" if words > LISTED else ""
            told = f"NOT PROVEN (the solver's word for {words:,} of {self.structures:,} structures)"
            return f"{told}: {self.objective} {value}, {checked}{about}{listed}{more}"
        if self.bound is None or self.bound == self.value:
            sizes = "" if self.divides else " over tiles of any size"
            return f"OPTIMAL{sizes}: {self.objective} {value}, {checked}{about}"
        gap = float(100 * (1 - self.bound / self.value)) if self.value else 0
        bound = amount(self.bound, self.objective)
        sizes = "with dividing tiles" if self.divides else "of any tile sizes"
        least = f"BOUND: no mapping {sizes} costs less {self.objective} than {bound}"
        return f"{least}; the mapping given costs {value}, gap {gap:.3g} %; {checked}{about}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{str(self).replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}</pre>"

    @property
    def accepted(self) -> bool:
        """Return `proven`, by its old name."""
        warnings.warn("Verdict.accepted is called Verdict.proven now", DeprecationWarning, stacklevel=2)
        return self.proven


def amount(value: Fraction, objective: str) -> str:
    """Return a value with its unit."""
    unit = "bits" if ":" in objective and "*" not in objective else UNITS.get(objective, "")
    if 0 < value < 1:
        return f"{float(value):.3g} {unit}".rstrip()
    whole, rest = divmod(round(1000 * value), 1000)
    return f"{whole:,}{f'.{rest:03}'.rstrip('0') if rest else ''} {unit}".rstrip()


class Check:
    """A certificate, read line by line. legs: of a program, statements alone whose least cost the text proves; then
    tiles divide."""

    def __init__(self, text: str) -> None:
        self.lines, self.legs, self.bound, self.divides = Lines(text), list[Nest](), None, True
        workload, machine, constraints = (parsed(self.lines.next(word)) for word in HEAD[:3])
        self.objective = self.lines.next("objective")
        need(self.lines.next("sha256") == digest(self.lines.all[1:5]), "the head does not belong to its SHA-256")
        head = workload, machine, constraints, self.objective
        self.program = Program(*head) if type(workload) is dict and "statements" in workload else None
        if self.program is None:
            self.nest = Nest(self.lines, Problem(*head))
            self.value = self.nest.value
        else:
            self.value = rational(self.lines.next("value"))

    def run(self) -> tuple[int, tuple[str, ...]]:
        """Check everything below the value; return the number of structures, and what rests on the solver's word."""
        if self.program is not None:
            return self._program(self.program), ()
        if self.nest.any_sizes:
            count, scaled = least(self.nest.problem)
            self._bound(count, Fraction(scaled, self.nest.problem.scale))
            self.lines.end()
            return count, ()
        count = self.nest.read()
        self.lines.end()
        self.nest.derive()
        return count, self.nest.doubts

    def reasons(self) -> tuple[Reason, ...]:
        """Return why each structure holds no better mapping (none of a program)."""
        return () if self.program is not None else self.nest.reasons()

    def _bound(self, count: int, found: Fraction, *, divides: bool = False) -> None:
        """Check the line of a bound against what is derived, and the number of structures."""
        bound = rational(self.lines.next("bound"))
        need(self.lines.next("structures") == str(count), f"there are {count} structures, not as many as listed")
        need(bound == found, f"the bound is {found}")
        need(self.value >= bound, "the mapping costs less than the bound")
        self.bound, self.divides = bound, divides

    def _program(self, program: Program) -> int:
        """Check what is claimed of a program; return the number of structures."""
        mapping, divides = parsed(self.lines.next("mapping")), self.lines.begins("legs")
        need(program.cost(mapping, divides=divides) == self.value, "the mapping does not cost the value")
        known, counted, before = dict[Case, Fraction](), 0, ""
        for _ in range(integer(self.lines.next("legs")) if divides else 0):
            text = self.lines.next("leg")
            need(before < text, "the legs are not in ascending order")
            case, before = program.case(text), text
            nest = Nest(self.lines, program.alone(case))
            need(not nest.any_sizes, "the tiles of a leg divide")
            counted += nest.read()
            need(not nest.doubts, f"the leg {text[:200]} rests on the solver's word")
            known[case] = nest.value
            self.legs.append(nest)
        count, found, _ = program.least(known)
        self._bound(count + counted, found, divides=divides)
        self.lines.end()
        for nest in self.legs:
            nest.derive()
        return count + counted


def verify(text: str, seconds: float = 600) -> Verdict:
    """Return whether a certificate's text proves its claim, within `seconds` of CPU time."""
    begin, check, count, reason, head = time.process_time(), None, 0, "", ""
    before, unproven = DEADLINE.set(begin + seconds), tuple[str, ...]()
    try:
        need(text.startswith(f"{FORMAT}\n"), f"the first line is not '{FORMAT}'")
        head = digest(text.split("\n", 5)[1:5])
        check = Check(text)
        count, unproven = check.run()
    except Refused as refusal:
        reason = str(refusal)
    except MALFORMED as error:
        reason = f"the text is malformed ({type(error).__name__}: {str(error)[:100]})"
    finally:
        DEADLINE.reset(before)
    objective, value, bound = (check.objective, check.value, check.bound) if check else ("", None, None)
    proven, used = not reason and not unproven, time.process_time() - begin
    reasons = check.reasons() if check and not reason else ()
    divides = check is None or check.divides
    return Verdict(proven, unproven, reason, objective, value, count, head, used, bound, reasons, divides)
