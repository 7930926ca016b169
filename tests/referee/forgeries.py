"""Certificates changed into lies, their hashes repaired: what a checker must refuse.

Every forgery claims something false or skips a step of the proof; texts that are still valid proofs are not made (a
bandwidth changed where only energy counts, loops exchanged that change nothing).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from math import prod

from polymap.checker.counts import cost
from polymap.checker.model import Problem as Checked, parsed
from polymap.checker.proofs import label
from polymap.checker.prover import Prover
from polymap.checker.rules import Refused
from polymap.costmodel.evaluation import evaluate
from polymap.inputs.mappings import mapping_from_document, mapping_to_document
from polymap.ir.errors import PolymapError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping, Spatial, Temporal
from polymap.search.problem.goals import parse_single
from polymap.search.problem.measure import objective_value
from tests.sample import sample_mapping

LOOPS = (Temporal, Spatial)
HEAD = ("workload", "machine", "constraints", "objective")


class Forger:
    """Forgeries of one certificate; `make` gives one that differs from the original, or None where a try failed."""

    def __init__(self, text: str, workload: Workload, arch: Architecture, rng: random.Random) -> None:
        self.lines = text.split("\n")[:-2]
        self.workload, self.arch, self.rng = workload, arch, rng
        self.start = next(i for i, line in enumerate(self.lines) if line.startswith("structures "))
        self.kinds: dict[str, Callable[[], str | None]] = {
            "bound raised": lambda: self._bound(1),
            "bound lowered": lambda: self._bound(-1),
            "structure dropped": self._dropped,
            "structure doubled": self._doubled,
            "structures exchanged": self._exchanged,
            "factor changed": self._factor,
            "multiplier changed": self._price,
            "multiplier of a bandwidth changed": self._band_price,
            "multiplier negative": self._negative_price,
            "multiplier of another bandwidth": self._other_band,
            "price of what is not limited": self._outer_price,
            "count of nodes changed": self._nodes,
            "proof of another line": self._copied,
            "kind of proof changed": self._kind,
            "a tile that leaves a rest": self._rest,
            "worse winner": self._worse,
            "value changed": self._value,
            "mapping changed": self._mapping,
            "another machine": self._machine,
            "other wires": self._wires,
            "another machine, value repaired": lambda: self._machine(repaired=True),
            "other sizes": self._sizes,
            "other bits": self._bits,
            "another objective": self._objective,
            "all on the solver's word, a worse winner": self._words,
            "a constraint dropped": self._unconstrained,
            "structures of another machine": self._other_structures,
            "bound moved by a power of two": self._wrapped_bound,
            "prices that overflow": self._wrapped_price,
            "energies near 64 bits": lambda: self._machine(repaired=True, huge=True),
            "an odd number": self._odd_number,
            "cut short": self._cut,
            "hash not repaired": self._broken_hash,
            "a byte changed": self._byte,
        }

    @property
    def objective(self) -> str:
        return self._named("objective")

    def make(self, kind: str) -> str | None:
        """Return a forgery of the kind; None where this certificate has none."""
        for _ in range(20):
            text = self.kinds[kind]()
            if text is not None and text != finished(self.lines):
                return text
        return None

    def _body(self) -> range:
        return range(self.start + 1, len(self.lines))

    def _any(self, pattern: str) -> int | None:
        found = [i for i in self._body() if re.search(pattern, self.lines[i])]
        return self.rng.choice(found) if found else None

    def _with(self, changes: dict[int, str | None]) -> str:
        kept = [changes.get(i, line) for i, line in enumerate(self.lines)]
        return finished([line for line in kept if line is not None])

    def _bound(self, sign: int) -> str | None:
        at = self._any(r" (apart|joint|search) ")
        if at is None:
            return None
        words = self.lines[at].split(" ")
        place = -2 if "search" in words else -1
        words[place] = str(int(words[place]) + sign * self.rng.choice((1, 2, 7, 1000, 10**6)))
        return self._with({at: " ".join(words)})

    def _recounted(self, lines: list[str], change: int) -> str:
        count = int(lines[self.start].split(" ")[1]) + (change if self.rng.random() < 0.7 else 0)
        return finished([*lines[: self.start], f"structures {count}", *lines[self.start + 1 :]])

    def _dropped(self) -> str:
        at = self.rng.choice(self._body())
        return self._recounted([line for i, line in enumerate(self.lines) if i != at], -1)

    def _doubled(self) -> str:
        at, before = self.rng.choice(self._body()), self.rng.choice(self._body())
        return self._recounted([*self.lines[:before], self.lines[at], *self.lines[before:]], 1)

    def _exchanged(self) -> str:
        one, other = self.rng.choice(self._body()), self.rng.choice(self._body())
        return self._with({one: self.lines[other], other: self.lines[one]})

    def _factor(self) -> str | None:
        at = self._any("^[0-9]")
        if at is None:
            return None
        places = [m.start() for m in re.finditer("[0-9]", self.lines[at].split(" ")[0])]
        place = self.rng.choice(places)
        line = self.lines[at]
        return self._with({at: line[:place] + str(self.rng.randrange(10)) + line[place + 1 :]})

    def _prices(self) -> tuple[int, list[str], int, list[list[list[int]]]] | None:
        """Return a line with prices, its words, which of them says the prices, and these: per vector the unit, those of
        the levels and, where there are any, those of bandwidths."""
        at = self._any(r" [0-9]+:[0-9,:;]* ")
        if at is None:
            return None
        words = self.lines[at].split(" ")
        place = next(i for i, word in enumerate(words) if ":" in word)
        vectors = [[[int(n) for n in part.split(",")] for part in one.split(":")] for one in words[place].split(";")]
        return at, words, place, vectors

    def _repriced(
        self, change: Callable[[list[list[int]]], None], *, passed: bool = False, lawful: bool = True
    ) -> str | None:
        """Return the certificate with one vector of prices changed; passed: one with prices of bandwidths. lawful: to
        prices that another proof might have."""
        found = self._prices()
        if found is None:
            return None
        at, words, place, vectors = found
        some = [vector for vector in vectors if not passed or (len(vector) > 2 and any(vector[2]))]
        if not some:
            return None
        change(self.rng.choice(some))
        words[place] = ";".join(":".join(",".join(map(str, part)) for part in one) for one in vectors)
        text = self._with({at: " ".join(words)})
        return None if lawful and self._is_true(at, words, vectors) else text

    def _is_true(self, at: int, words: list[str], vectors: list[list[list[int]]]) -> bool:
        """Return whether a structure's bound is the one listed at other prices too, which would be another proof."""
        if self.lines[at].startswith(" "):
            return False
        machine, workload, rules = (parsed(self._named(word)) for word in ("machine", "workload", "constraints"))
        rows = tuple(tuple(map(int, row.split(","))) for row in words[0].split("/"))
        prover = Prover(Checked(workload, machine, rules, self.objective), 0)
        prices = tuple((*unit, *(n for part in others for n in part)) for unit, *others in vectors)
        return str(prover.joint(rows, (), prices)) == words[-2 if "search" in words else -1]

    def _price(self) -> str | None:
        def change(vector: list[list[int]]) -> None:
            level = self.rng.choice([i for i, price in enumerate(vector[1]) if price] or [len(vector[1]) - 1])
            vector[1][level] = vector[1][level] * self.rng.choice((3, 5, 20)) + self.rng.randrange(50)

        return self._repriced(change)

    def _band_price(self) -> str | None:
        """A bandwidth's multiplier is another one."""

        def change(vector: list[list[int]]) -> None:
            at = self.rng.choice([i for i, price in enumerate(vector[2]) if price])
            vector[2][at] = vector[2][at] * self.rng.choice((0, 2, 7)) + self.rng.randrange(1, 50)

        return self._repriced(change, passed=True)

    def _negative_price(self) -> str | None:
        def change(vector: list[list[int]]) -> None:
            part = self.rng.choice([one for one in vector if any(one)])
            at = self.rng.choice([i for i, price in enumerate(part) if price])
            part[at] = -part[at]

        return self._repriced(change, lawful=False)

    def _other_band(self) -> str | None:
        """The multipliers stand at other bandwidths, or at one that the machine does not have."""
        there = self.rng.random() < 0.5

        def change(vector: list[list[int]]) -> None:
            vector[2] = [*vector[2][1:], vector[2][0]] if there else [*vector[2], self.rng.randrange(1, 99)]

        return self._repriced(change, passed=True, lawful=there)

    def _outer_price(self) -> str | None:
        """The level that holds everything has a price; or what counts for one is divided by nothing."""

        def change(vector: list[list[int]]) -> None:
            at = self.rng.randrange(2)
            vector[at][0] = 0 if at == 0 else self.rng.randrange(1, 10**6)

        return self._repriced(change, lawful=False)

    def _nodes(self) -> str | None:
        at = self._any(" search ")
        if at is None:
            return None
        *words, nodes = self.lines[at].split(" ")
        return self._with({at: " ".join((*words, str(max(0, int(nodes) + self.rng.choice((-3, -1, 1, 10))))))})

    def _copied(self) -> str | None:
        one, other = self._any("^[0-9]"), self._any("^[0-9]")
        if one is None or other is None or re.search(" places ", self.lines[one] + self.lines[other]):
            return None  # symmetric structures have the same bounds
        if {*self.lines[one].split(" ")[1:]} & {*self.lines[other].split(" ")[-2:]}:
            return None  # of equal bounds: what proves one may prove the other
        return self._with({one: " ".join((self.lines[one].split(" ")[0], *self.lines[other].split(" ")[1:]))})

    def _kind(self) -> str | None:
        at = self._any(" (search|joint|apart) ")
        if at is None:
            return None
        label, kind, *rest = self.lines[at].rsplit(" ", 3 if " search " in self.lines[at] else 2)
        if kind == "search":  # a bound that does not refute, without the search below it
            return self._with({at: f"{label} joint {rest[0]} {rest[1]}"})
        return self._with({at: f"{label} {kind} empty"})

    def _rest(self) -> str | None:
        """A mapping whose tiles do not all divide, with its true value, as the best one whose tiles do."""
        mapping = sample_mapping(self.workload, self.arch, "any", self.rng)
        left = self.workload.extents()
        for node in mapping.nodes:
            if isinstance(node, LOOPS):
                if left[node.dim] % node.tile:
                    break
                left[node.dim] = node.tile
        else:
            return None
        value = self._value_of(self.arch, mapping)
        return None if value is None else self._given(value, mapping)

    def _given(self, value: Fraction, mapping: Mapping) -> str:
        nodes = _canonical(mapping_to_document(mapping)["nodes"])
        return self._with({self._head("value"): f"value {value}", self._head("mapping"): f"mapping {nodes}"})

    def _head(self, word: str) -> int:
        return next(i for i, line in enumerate(self.lines) if line.startswith(f"{word} "))

    def _named(self, word: str) -> str:
        return self.lines[self._head(word)].partition(" ")[2]

    def _value_of(self, arch: Architecture, mapping: Mapping) -> Fraction | None:
        """Return the value of a mapping (None: it is not legal)."""
        goal = parse_single(self._named("objective"), arch)
        try:
            cost = evaluate(self.workload, arch, mapping)
        except PolymapError:
            return None
        return objective_value(self.workload, arch, goal, cost) if cost.legal else None

    def _worse(self) -> str | None:
        mapping = sample_mapping(self.workload, self.arch, "divide", self.rng)
        value = self._value_of(self.arch, mapping)
        if value is None or value <= Fraction(self._named("value")):
            return None
        return self._given(value, mapping)

    def _value(self) -> str:
        value = Fraction(self._named("value"))
        other = value + self.rng.choice((-1, 1)) * self.rng.choice((Fraction(1, 3), 1, 100, value / 2))
        return self._with({self._head("value"): f"value {other}"})

    def _mapping(self) -> str | None:
        nodes = json.loads(self._named("mapping"))
        at = self.rng.randrange(len(nodes) - 1)
        if self.rng.random() < 0.5:
            del nodes[at]
        elif "tile" in nodes[at]:
            nodes[at]["tile"] = self.rng.choice((1, 2, 3, 4, 8))
        else:
            other = self.rng.randrange(len(nodes) - 1)
            nodes[at], nodes[other] = nodes[other], nodes[at]
        try:
            value = self._value_of(self.arch, mapping_from_document({"nodes": nodes}))
        except PolymapError:
            value = None
        if value == Fraction(self._named("value")):
            return None  # another mapping that is as good
        return self._with({self._head("mapping"): f"mapping {_canonical(nodes)}"})

    def _words(self) -> str | None:
        """A worse winner, and every structure taken from the solver's word with its true bound."""
        worse = self._worse()
        if worse is None:
            return None
        lines = worse.split("\n")[:-2]
        machine, workload, rules = (parsed(self._named(word)) for word in ("machine", "workload", "constraints"))
        prover = Prover(Checked(workload, machine, rules, self.objective), 0)
        proofs = [f"{label(rows)} word {prover.apart(rows)}" for rows in prover.structures]
        return finished([*lines[: self.start + 1], *(one for one in proofs if not one.endswith("None"))])

    def _unconstrained(self) -> str | None:
        rules = json.loads(self._named("constraints"))
        if not rules:
            return None
        del rules[self.rng.randrange(len(rules))]
        return self._with({self._head("constraints"): f"constraints {_canonical(rules)}"})

    def _other_structures(self) -> str | None:
        """The list is complete for a machine with a smaller fan-out than the head's."""
        machine = json.loads(self._named("machine"))
        fan = self.rng.choice([node for node in machine["nodes"] if "fanout" in node])
        fan["size"] *= self.rng.choice((2, 3, 4))
        return self._with({self._head("machine"): f"machine {_canonical(machine)}"})

    def _wrapped_bound(self) -> str | None:
        at = self._any(r" (apart|joint|search) ")
        if at is None:
            return None
        words = self.lines[at].split(" ")
        place = -2 if "search" in words else -1
        words[place] = str(int(words[place]) + 2 ** self.rng.choice((31, 32, 53, 58, 60, 61, 63, 64, 128)))
        return self._with({at: " ".join(words)})

    def _wrapped_price(self) -> str | None:
        def change(vector: list[list[int]]) -> None:
            part = self.rng.choice([one for one in vector[1:] if any(one)] or [vector[0]])
            at = self.rng.choice([i for i, price in enumerate(part) if price])
            part[at] += 2 ** self.rng.choice((53, 58, 60, 62, 63, 64, 70))

        return self._repriced(change)

    def _odd_number(self) -> str | None:
        """A number of the text becomes one that is malformed, negative or beyond all that is wanted there."""
        text = "\n".join(self.lines)
        found = self.rng.choice([one for one in re.finditer("[0-9]+", text) if not _in_hash(text, one.start())])
        odd = ("NaN", "-1", "-0", "1e9", "9" * 5000, "0x10", "1/0", "Infinity", "007", "1_000", "+3", "1.0")
        # In the head another number asks another question, which the proof may answer as well.
        in_head = found.start() < text.index("\nsha256 ")
        other = self.rng.choice(odd if in_head else (*odd, "0", "9" * 40))
        if other == "-1" and re.search(r'"index":\[[^]]*$', text[: found.start()]):
            return None  # an index that runs backwards asks another question
        return finished((text[: found.start()] + other + text[found.end() :]).split("\n"))

    def _machine(self, *, repaired: bool = False, huge: bool = False) -> str | None:
        """Dearer or cheaper accesses at the outermost level, which every mapping pays for."""
        machine = json.loads(self._named("machine"))
        factor = Fraction(self.rng.choice((1, 3, 7)), self.rng.choice((2, 5)))
        factor = Fraction(2 ** self.rng.choice((50, 56, 58, 60, 63, 64))) if huge else factor
        before = {key: Fraction(machine["nodes"][0][key]) for key in ("read_pj", "write_pj")}
        for key, energy in before.items():
            machine["nodes"][0][key] = str(energy * factor)
        changes: dict[int, str | None] = {self._head("machine"): f"machine {_canonical(machine)}"}
        if repaired:
            value = Fraction(self._named("value"))
            changes[self._head("value")] = f"value {value + self._outermost() * (factor - 1)}"
        return self._with(changes)

    def _wires(self) -> str | None:
        """Other energies of what always passes a fan-out: words and hops; or no wires at all, the value kept."""
        machine = json.loads(self._named("machine"))
        wired = [node for node in machine["nodes"] if "hops" in node]
        if not wired:
            return None
        free = self.rng.random() < 0.3
        for node in wired if free else ():
            for key in ("hops", "pj_per_word", "pj_per_word_hop", "reduce_pj"):
                del node[key]
        node, key = self.rng.choice(wired), self.rng.choice(("pj_per_word", "pj_per_word_hop"))
        node |= {} if free else {key: str(Fraction(node[key]) * self.rng.choice((0, 2, 1000)) + Fraction(1, 7))}
        return self._with({self._head("machine"): f"machine {_canonical(machine)}"})

    def _outermost(self) -> Fraction:
        """Return the energy spent at the outermost level by the winner."""
        mapping = mapping_from_document({"nodes": json.loads(self._named("mapping"))})
        outer, total = self.arch.levels[0], Fraction(0)
        for row in evaluate(self.workload, self.arch, mapping).traffic:
            if row.level == outer.name:
                share = Fraction(self.workload.tensor(row.tensor).bits, outer.word_bits)
                total += share * (row.reads * outer.read_pj + row.writes * outer.write_pj)
        return total

    def _sizes(self) -> str:
        workload = json.loads(self._named("workload"))
        dim = self.rng.choice(workload["dims"])
        dim[1] = self.rng.choice([size for size in (1, 2, 4, 6, 8, 12, 32) if size != dim[1]])
        return self._with({self._head("workload"): f"workload {_canonical(workload)}"})

    def _bits(self) -> str:
        workload = json.loads(self._named("workload"))
        tensor = self.rng.choice(workload["tensors"])
        tensor["bits"] = self.rng.choice([bits for bits in (1, 4, 16, 32) if bits != tensor["bits"]])
        return self._with({self._head("workload"): f"workload {_canonical(workload)}"})

    def _objective(self) -> str | None:
        other = self.rng.choice(("energy", "latency", "edp", "ed2p", f"traffic:{self.arch.levels[0].name}"))
        if other == self._named("objective"):
            return None
        return self._with({self._head("objective"): f"objective {other}"})

    def _cut(self) -> str:
        lines = self.lines[: self.rng.randrange(len(self.lines))]
        return finished(lines) if self.rng.random() < 0.7 else finished(self.lines)[: self.rng.randrange(1, 500)]

    def _broken_hash(self) -> str:
        text = finished(self.lines)
        place = self.rng.choice([m.start() for m in re.finditer("[0-9a-f]", text) if _in_hash(text, m.start())])
        return text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :]

    def _byte(self) -> str:
        text = finished(self.lines)
        place = self.rng.randrange(len(text))
        return text[:place] + chr(self.rng.randrange(32, 127)) + text[place + 1 :]


class BoundForger(Forger):
    """Forgeries of one certificate of a bound over tiles of any size. A worse mapping with its true value is none, nor
    is another question that the bound answers as well."""

    def __init__(self, text: str, workload: Workload, arch: Architecture, rng: random.Random) -> None:
        super().__init__(text, workload, arch, rng)
        true = (
            "value changed",
            "mapping changed",
            "another machine",
            "other sizes",
            "other bits",
            "cut short",
            "hash not repaired",
            "a byte changed",
        )
        self.kinds = {
            **{kind: self.kinds[kind] for kind in true},
            "an odd number": self._odd_bound,
            "bound moved": self._bound_moved,
            "bound is the value": lambda: self._with({self._head("bound"): f"bound {self._named('value')}"}),
            "bound dropped": lambda: self._with({self._head("bound"): None}),
            "bound doubled": lambda: self._with({self._head("bound"): f"bound {self._named('bound')}\n" * 2}),
            "count of structures changed": self._counted,
            "partial tiles counted as whole": lambda: self._miscounted(padded=True),
            "counts of another mapping": lambda: self._miscounted(padded=False),
            "a dividing optimum": self._optimum,
            "structures listed": lambda: self._with({self.start: f"{self.lines[self.start]}\n1,1,1 apart 1"}),
        }

    def _miscounted(self, *, padded: bool) -> str | None:
        """A mapping of any tiles with a value that is not its own: what it would cost if every tile were whole, or what
        another mapping costs."""
        mapping = sample_mapping(self.workload, self.arch, "any", self.rng)
        true, other = self._value_of(self.arch, mapping), sample_mapping(self.workload, self.arch, "any", self.rng)
        value = self._padded(mapping) if padded else self._value_of(self.arch, other)
        return None if value is None or value in (true, Fraction(0)) else self._given(value, mapping)

    def _padded(self, mapping: Mapping) -> Fraction | None:
        """Return what the mapping costs where each extent is so long that all tiles are whole."""
        workload, machine, rules = (parsed(self._named(word)) for word in ("workload", "machine", "constraints"))
        for dim in workload["dims"]:
            tiles = [dim[1], *(one.tile for one in mapping.nodes if isinstance(one, LOOPS) and one.dim == dim[0])]
            dim[1] = prod(-(-outer // inner) for outer, inner in pairwise(tiles))
        padded = Checked(workload, machine, rules, self.objective)
        try:
            return Fraction(cost(padded, parsed(_canonical(mapping_to_document(mapping)["nodes"]))), padded.scale)
        except Refused:
            return None

    def _optimum(self) -> str:
        """The bound is left out, and the structures are those of dividing tiles, refuted by bounds made up."""
        workload, machine, rules = (parsed(self._named(word)) for word in ("workload", "machine", "constraints"))
        prover = Prover(Checked(workload, machine, rules, self.objective), 0)
        lines = [f"{label(rows)} apart {max(10**9, prover.apart(rows))}" for rows in prover.structures]
        head = [line for line in self.lines[: self.start] if not line.startswith("bound ")]
        return finished([*head, f"structures {len(lines)}", *lines])

    def _bound_moved(self) -> str:
        amount = self.rng.choice((Fraction(1, 3), 1, 7, 10**6, 2 ** self.rng.choice((31, 53, 60, 63, 64))))
        bound = max(Fraction(0), Fraction(self._named("bound")) + self.rng.choice((-1, 1)) * amount)
        return self._with({self._head("bound"): f"bound {bound}"})

    def _odd_bound(self) -> str:
        """Among the numbers below the head one is malformed: those of the head may ask what the bound answers too."""
        at = self.rng.choice([self._head(word) for word in ("value", "bound", "structures")])
        odd = self.rng.choice(
            ("NaN", "-1", "-0", "1e9", "9" * 5000, "0x10", "1/0", "2/4", "Infinity", "007", "+3", "1.0")
        )
        return self._with({at: f"{self.lines[at].split(' ')[0]} {odd}"})

    def _counted(self) -> str:
        count = int(self._named("structures")) + self.rng.choice((-2, -1, 1, 100))
        return self._with({self.start: f"structures {max(0, count)}"})


def _in_hash(text: str, place: int) -> bool:
    line = text[text.rfind("\n", 0, place) + 1 :]
    return line.startswith(("sha256 ", "end ")) and place - text.rfind("\n", 0, place) - 1 >= 7


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _hash(lines: list[str]) -> str:
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def finished(lines: list[str]) -> str:
    """Return the text of the lines with both hashes repaired."""
    head = [line for line in lines if line.startswith(HEAD)]
    lines = [f"sha256 {_hash(head)}" if line.startswith("sha256 ") else line for line in lines]
    return "\n".join((*lines, f"end {_hash(lines)}", ""))
