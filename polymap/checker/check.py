"""Accepts or refuses certificates: every structure once, every bound derived again (docs/certificate.md)."""

import hashlib
import re
import time
import warnings
from fractions import Fraction
from typing import NamedTuple

from polymap.checker.any_size import least
from polymap.checker.bounds import Places, Prices
from polymap.checker.counts import cost
from polymap.checker.model import DEADLINE, Problem, Rows, Tile, parsed, rational, tick
from polymap.checker.programs import Program
from polymap.checker.prover import Prover
from polymap.checker.rules import Refused, need

FORMAT = "polymap certificate 3"
HEAD = ("workload", "machine", "constraints", "objective")
UNITS = {"energy": "pJ", "latency": "cycles", "edp": "pJ*cycle", "ed2p": "pJ*cycle^2"}
LISTED = 5  # structures that are not proven, of those that a verdict prints
ATTEMPTS, VISITS = 32, 200  # searches for a mapping that refutes the claim, below structures that are not proven
MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


class Reason(NamedTuple):
    """Why a structure holds no better mapping. spread: (fan-outs, dim, over how many of their instances), those above
    1. kind: of the proof, as certificates name it. bound: what every mapping of the structure costs at least, in the
    unit of the value (None: nothing fits, or a limit is broken; of "search" that from which the search went on)."""

    spread: tuple[tuple[str, str, int], ...]
    kind: str
    bound: Fraction | None


class Verdict(NamedTuple):
    """What a certificate proves.

    proven: whether all that the text claims was derived: no mapping with dividing tiles costs less than `value`, or,
    where there is a `bound`, no mapping of any tile sizes costs less than that, and one costs `value`. unproven: what
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
            sizes = "" if self.bound is None else " over tiles of any size"
            return f"OPTIMAL{sizes}: {self.objective} {value}, {checked}{about}"
        gap = float(100 * (1 - self.bound / self.value)) if self.value else 0
        bound = amount(self.bound, self.objective)
        least = f"BOUND: no mapping of any tile sizes costs less {self.objective} than {bound}"
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


def digest(lines: list[str]) -> str:
    """Return the SHA-256 of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def integer(word: str) -> int:
    """Return the integer that a word says."""
    need(re.fullmatch("0|-?[1-9][0-9]{0,999}", word), "a number is malformed or too long")
    return int(word)


class Claim(NamedTuple):
    """A line that says why a structure (with its spatial loops at `places`) holds no better mapping."""

    line: int
    kind: str
    rows: Rows
    places: Places
    prices: Prices
    bound: int | None
    number: int


class Check:
    """A certificate, read line by line."""

    def __init__(self, text: str) -> None:
        need(len(text) <= 1 << 24 and text.isascii() and text[-1:] == "\n", "the text is cut short or not ASCII")
        self.lines, self.at, self.claims, self.bound = text[:-1].split("\n"), 1, list[Claim](), None
        need(self.lines[-1] == f"end {digest(self.lines[:-1])}", "the last line does not belong to the text")
        workload, machine, constraints = (parsed(self._next(word)) for word in HEAD[:3])
        self.objective = self._next("objective")
        need(self._next("sha256") == digest(self.lines[1:5]), "the head does not belong to its SHA-256")
        self.program, head = None, (workload, machine, constraints, self.objective)
        if type(workload) is dict and "statements" in workload:
            self.program = Program(*head)
        else:
            self.problem = Problem(*head)
        self.value = rational(self._next("value"))
        mapping = parsed(self._next("mapping"))
        self.any_sizes = self.at < len(self.lines) and self.lines[self.at].startswith("bound ")
        if self.program is not None:
            need(self.any_sizes, "of a program a bound is certified")
            need(self.program.cost(mapping) == self.value, "the mapping does not cost the value")
            return
        scaled_value = cost(self.problem, mapping, divides=not self.any_sizes)
        need(Fraction(scaled_value, self.problem.scale) == self.value, "the mapping does not cost the value")
        self.prover = Prover(self.problem, scaled_value)

    def _next(self, word: str) -> str:
        need(self.at < len(self.lines), "the text ends early")
        line, self.at = self.lines[self.at], self.at + 1
        need(line.startswith(f"{word} "), f"line {self.at} should begin with '{word[:200]}'")
        return line[len(word) + 1 :]

    def run(self) -> tuple[int, tuple[str, ...]]:
        """Check everything below the head; return the number of structures, and what rests on the solver's word."""
        if self.any_sizes:
            return self._any_sizes(), ()
        wanted = self.prover.structures
        need(self._next("structures") == str(len(wanted)), f"there are {len(wanted)} structures, not as many as listed")
        kinds = [self._claim(rows, (), self._next(label(rows)).split(" ")) for rows in wanted]
        self._next("end")
        need(self.at == len(self.lines), "lines follow the end")
        self._derive()
        doubts = [
            (number, rows) for number, (rows, kind) in enumerate(zip(wanted, kinds, strict=True), 1) if kind == "word"
        ]
        return len(wanted), tuple(f"structure {number}: {label(rows)}" for number, rows in doubts)

    def reasons(self) -> tuple[Reason, ...]:
        """Return why each structure holds no better mapping: of one that is proven by cases the weakest."""
        weakest: dict[Rows, Claim] = {}
        for claim in self.claims:
            known = weakest.get(claim.rows)
            if known is None or self._rank(claim) < self._rank(known):
                weakest[claim.rows] = claim
        found = list[Reason]()
        for rows, claim in weakest.items():
            none = claim.bound is None or claim.kind in ("over", "empty")
            bound = None if none else Fraction(claim.bound or 0, self.problem.scale)
            found.append(Reason(self._spread(rows), claim.kind, bound))
        return tuple(found)

    @staticmethod
    def _rank(claim: Claim) -> tuple[int, int]:
        """Return a key that is less for weaker claims: the solver's word, then by bounds, then where nothing fits."""
        order = {"word": 0, "over": 2, "empty": 2}
        return order.get(claim.kind, 1), claim.bound or 0

    def _spread(self, rows: Rows) -> tuple[tuple[str, str, int], ...]:
        """Return which dims a structure spreads over which fan-outs, and how far."""
        names = [" x ".join(fan.name for fan in own) for own in self.problem.classes]
        each = [(name, zip(self.problem.dims, row, strict=True)) for name, row in zip(names, rows, strict=True)]
        return tuple((name, dim, factor) for name, row in each for dim, factor in row if factor > 1)

    def _any_sizes(self) -> int:
        """Check what is claimed of mappings of any tile sizes; return the number of structures."""
        bound = rational(self._next("bound"))
        if self.program is not None:
            count, found = self.program.least()
        else:
            count, scaled = least(self.problem)
            found = Fraction(scaled, self.problem.scale)
        need(self._next("structures") == str(count), f"there are {count} structures, not as many as listed")
        need(bound == found, f"the bound is {found}")
        need(self.value >= bound, "the mapping costs less than the bound")
        self._next("end")
        need(self.at == len(self.lines), "lines follow the end")
        self.bound = bound
        return count

    def _prices(self, text: str) -> Prices:
        """Return the prices of a proof: of the bits of limited levels, then of what bandwidths pass."""
        problem, found, measure = self.problem, list[Tile](), self.problem.measures[0]
        passed = [part.band is not None and i in measure.own for i, part in enumerate(problem.parts)][1:]
        for word in text.split(";"):
            unit, *lists = ([integer(one) for one in each.split(",")] for each in word.split(":"))
            prices = sum(lists, list[int]())
            may = [room is not None for room in problem.room] + (passed if len(lists) == 2 else [])
            need(len(unit) == 1 and unit[0] > 0 and 1 <= len(lists) <= 2, "no such unit of prices")
            for price, allowed in zip(prices, may, strict=True):
                need(price == 0 or (price > 0 and allowed), "no such price")
            found.append((*unit, *prices))
        need(len(found) <= (1 if measure.linear else 8), "there are too many prices")
        return tuple(found)

    def _claim(self, rows: Rows, places: Places, proof: list[str]) -> str:
        """Read a proof, to be derived once all have been read; return its kind ("word": not proven here)."""
        kind, prover, line = proof[0], self.prover, f"line {self.at}"
        if kind == "places" and not places:
            choices = prover.places(rows)
            need(len(choices) > 1 and proof[1:] == [str(len(choices))], f"{line}: there are {len(choices)} places")
            below = [(one, self._next(f"  {label_of_places(one, choices)}").split(" ")) for one in choices]
            return "word" if "word" in [self._claim(rows, one, words) for one, words in below] else kind
        forms = {"apart": "kb", "word": "kb", "over": "knb", "joint": "kpb", "empty": "k", "search": "kpbn"}
        form = forms.get(kind, "")
        need(len(proof) == len(form), f"{line}: no such proof")
        given = dict(zip(form, proof, strict=True))
        bound, number = (integer(given[one]) if one in given else None for one in "bn")
        prices = self._prices(given["p"]) if given.get("p", "-") != "-" else ()
        need(kind not in ("apart", "joint") or (bound or 0) >= prover.value, f"{line}: the bound does not refute")
        if kind == "over":
            need(0 < (number or 0) < len(self.problem.measures), f"{line}: there is no such limit")
            most = self.problem.measures[number or 0].most or 0
            need((bound or 0) > most, f"{line}: the bound is within the limit")
        self.claims.append(Claim(self.at, kind, rows, places, prices, bound, number or 0))
        return kind

    def _derive(self) -> None:
        """Derive all bounds again, and search where it is claimed."""
        for claim in self.claims:
            tick()
            if claim.kind in ("apart", "word", "over"):
                found = self.prover.apart(claim.rows, claim.number)
            else:
                found = self.prover.joint(claim.rows, claim.places, claim.prices)
            need(found == claim.bound, f"line {claim.line}: the bound is {found}")
            if claim.kind == "search":
                visited = self.prover.descend(claim.rows, claim.places, claim.prices, claim.number)
                need(visited == claim.number, f"line {claim.line}: the search is shorter")
        # A mapping that costs less is soon met below some structure, if the claim is false and most is taken on trust.
        doubts = sorted((claim for claim in self.claims if claim.kind == "word"), key=lambda claim: claim.bound or 0)
        for claim in doubts[:ATTEMPTS]:
            better = self.prover.meets_better(claim.rows, claim.places, VISITS)
            need(not better, f"line {claim.line}: a mapping of this structure costs less than the value")


def label_of_places(places: Places, choices: list[Places]) -> str:
    """Return places as certificates write them, with the order of loops where there is a choice of that."""
    orders = [len({order for _, (_, order) in own}) > 1 for own in zip(*choices, strict=True)]
    told = [
        str(y) + "".join(f"/{i}" for i in order) * many for (_, (y, order)), many in zip(places, orders, strict=True)
    ]
    return ",".join(told)


def label(rows: Rows) -> str:
    """Return a structure's factors as certificates write them."""
    return "/".join(",".join(map(str, row)) for row in rows) or "-"


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
    return Verdict(proven, unproven, reason, objective, value, count, head, used, bound, reasons)
