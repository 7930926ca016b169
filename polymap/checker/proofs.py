"""Why no mapping of one statement costs less: proofs of structures, read from a text and derived again."""

import hashlib
import re
from fractions import Fraction
from typing import NamedTuple

from polymap.checker.bounds import Places, Prices
from polymap.checker.counts import cost
from polymap.checker.model import Problem, Rows, Tile, parsed, rational, tick
from polymap.checker.prover import Prover
from polymap.checker.rules import need

ATTEMPTS, VISITS = 32, 200  # searches for a mapping that refutes the claim, below structures that are not proven


class Reason(NamedTuple):
    """Why a structure holds no better mapping. spread: (fan-outs, dim, over how many of their instances), those above
    1. kind: of the proof, as certificates name it. bound: what every mapping of the structure costs at least, in the
    unit of the value (None: nothing fits, or a limit is broken; of "search" that from which the search went on)."""

    spread: tuple[tuple[str, str, int], ...]
    kind: str
    bound: Fraction | None


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


class Lines:
    """The lines of a certificate, read one after the other. at: the number of the next one."""

    def __init__(self, text: str) -> None:
        need(len(text) <= 1 << 24 and text.isascii() and text[-1:] == "\n", "the text is cut short or not ASCII")
        self.all, self.at = text[:-1].split("\n"), 1
        need(self.all[-1] == f"end {digest(self.all[:-1])}", "the last line does not belong to the text")

    def begins(self, word: str) -> bool:
        """Return whether the next line begins with a word."""
        return self.at < len(self.all) and self.all[self.at].startswith(f"{word} ")

    def next(self, word: str) -> str:
        """Return what the next line says, which begins with a word."""
        need(self.at < len(self.all), "the text ends early")
        line, self.at = self.all[self.at], self.at + 1
        need(line.startswith(f"{word} "), f"line {self.at} should begin with '{word[:200]}'")
        return line[len(word) + 1 :]

    def end(self) -> None:
        """Read the last line."""
        self.next("end")
        need(self.at == len(self.all), "lines follow the end")


class Nest:
    """A problem of one statement, its mapping, and why no mapping costs less. claims: as the text makes them; doubts:
    those that rest on the solver's word."""

    def __init__(self, lines: Lines, problem: Problem) -> None:
        self.lines, self.problem, self.claims, self.doubts = lines, problem, list[Claim](), tuple[str, ...]()
        self.value = rational(lines.next("value"))
        mapping = parsed(lines.next("mapping"))
        self.any_sizes = lines.begins("bound")
        scaled_value = cost(problem, mapping, divides=not self.any_sizes)
        need(Fraction(scaled_value, problem.scale) == self.value, "the mapping does not cost the value")
        self.prover = Prover(problem, scaled_value)

    def read(self) -> int:
        """Read the proofs of all structures, to be derived once all has been read; return how many there are."""
        wanted = self.prover.structures
        need(
            self.lines.next("structures") == str(len(wanted)),
            f"there are {len(wanted)} structures, not as many as listed",
        )
        kinds = [self._claim(rows, (), self.lines.next(label(rows)).split(" ")) for rows in wanted]
        doubts = [
            (number, rows) for number, (rows, kind) in enumerate(zip(wanted, kinds, strict=True), 1) if kind == "word"
        ]
        self.doubts = tuple(f"structure {number}: {label(rows)}" for number, rows in doubts)
        return len(wanted)

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
        kind, prover, line = proof[0], self.prover, f"line {self.lines.at}"
        if kind == "places" and not places:
            choices = prover.places(rows)
            need(len(choices) > 1 and proof[1:] == [str(len(choices))], f"{line}: there are {len(choices)} places")
            below = [(one, self.lines.next(f"  {label_of_places(one, choices)}").split(" ")) for one in choices]
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
        self.claims.append(Claim(self.lines.at, kind, rows, places, prices, bound, number or 0))
        return kind

    def derive(self) -> None:
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
