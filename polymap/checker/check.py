"""Accepts or refuses certificates: every structure once, every bound derived again (docs/certificate.md)."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from polymap.checker.bounds import NEVER, Array, Edge, Places, Tables, divisors, grid_of
from polymap.checker.model import Problem, Refused, Rows, Structure, Tile, cost, need, parsed, rational

Reach = list[Callable[[Tile], Array]]
# A chain: joint state, tile, priced cost so far per part, bits per level, tiles passed, last node (level, tensor).
Spot = tuple[Tile, Tile, list[int], list[int], tuple[Tile, ...], tuple[int, int]]


class Prover:
    """Derives bounds and searches for one problem. value: what is to be refuted; deadline: on the CPU's clock."""

    def __init__(self, problem: Problem, value: int, deadline: float) -> None:
        self.problem, self.value, self.deadline = problem, value, deadline
        self.known: dict[int, dict[Rows, list[int]]] = {}

    @cached_property
    def structures(self) -> list[Rows]:
        """Return every structure, ascending: per class of fan-outs the factor of every dim."""
        extents, found = self.problem.extents, {()}
        for own in self.problem.classes:
            known = {(1,) * len(extents)}
            for fan in own:
                vectors: list[Tile] = [()]
                for d, extent in enumerate(extents):
                    free = divisors(extent) if d in fan.dims else (1,)
                    vectors = [(*v, x) for v in vectors for x in free if prod(v) * x <= fan.size]
                    need(len(known) * len(vectors) < 1 << 21, "there are too many structures")
                known = {tuple(a * b for a, b in zip(one, v, strict=True)) for one in known for v in vectors}
                known = {one for one in known if all(e % x == 0 for e, x in zip(extents, one, strict=True))}
            need(len(known) * len(found) < 1 << 21, "there are too many structures")
            found = {(*rows, row) for rows in found for row in known}
            found = {
                rows for rows in found if all(e % prod(row[d] for row in rows) == 0 for d, e in enumerate(extents))
            }
        return sorted(found)

    def apart(self, rows: Rows) -> int | None:
        """Return the bound of every tensor at its own best (None: nothing fits)."""
        tensors, steps = range(len(self.problem.tensors)), Structure(self.problem, rows).steps
        found = [self._alone(t)[self._seen(t, rows)] for t in tensors]
        total = [sum(parts) for parts in zip(*found, strict=True)]
        return None if max(max(parts) for parts in found) >= NEVER // 2 else self.problem.value(total, steps)

    def _seen(self, t: int, rows: Rows) -> Rows:
        """Return what a tensor sees of a structure."""
        return tuple((*(row[d] for d in sorted(self.problem.tensors[t].dims)), prod(row)) for row in rows)

    def _alone(self, t: int) -> dict[Rows, list[int]]:
        """Return the least cost per part of a tensor on its own, for all that it may see of a structure."""
        if t not in self.known:
            self.known[t], alike = {}, dict[Tile, dict[Rows, Rows]]()
            for rows in self.structures:
                spread = tuple(row[d] for row in rows for d in self.problem.tensors[t].window)
                alike.setdefault(spread, {})[self._seen(t, rows)] = rows
            for group in alike.values():
                self._derive(t, group)
        return self.known[t]

    def _derive(self, t: int, group: dict[Rows, Rows]) -> None:
        """Derive these costs for structures that spread the window dims alike, many at once."""
        tensor, extents, keys = self.problem.tensors[t], self.problem.extents, list(group)
        fixed, own = group[keys[0]], Structure(self.problem, group[keys[0]]).top
        tops = [own[d] if d in tensor.window else extent for d, extent in enumerate(extents)]
        top = tuple(extent if d in tensor.dims else 1 for d, extent in enumerate(tops))
        size, ones = max(1, (1 << 17) // len(grid_of(top).tiles)), [1] * len(grid_of(top).shape)
        for some in (keys[i : i + size] for i in range(0, len(keys), size)):
            each = np.array([group[key] for key in some], np.int64).reshape(len(some), *ones, len(fixed), len(extents))
            rows = [
                [row[d] if d in tensor.window else each[..., c, d] for d in range(len(extents))]
                for c, row in enumerate(fixed)
            ]
            costs = Tables(Structure(self.problem, rows), (t,), (top,)).least()
            self.known[t].update((key, [int(part[i]) for part in costs]) for i, key in enumerate(some))

    def tables(self, rows: Rows, places: Places, prices: Tile, marks: tuple[Tile, ...] = ()) -> Tables:
        """Return the tables of all tensors."""
        structure = Structure(self.problem, rows)
        return Tables(structure, tuple(range(len(self.problem.tensors))), marks or (structure.top,), places, prices)

    def free(self, prices: Tile) -> int:
        """Return what the whole capacity costs at these prices."""
        return sum(price * (room or 0) for price, room in zip(prices[1:], self.problem.room, strict=False))

    def joint(self, rows: Rows, places: Places, prices: Tile) -> int | None:
        """Return the bound of all tensors together, capacity priced (None: nothing fits)."""
        tables = self.tables(rows, places, prices)
        parts = [int(part[0]) for part in tables.least()]
        if max(parts) >= NEVER // 2:
            return None
        parts[0] = -((self.free(prices) - parts[0]) // tables.unit)  # rounded up: the objective is an integer
        return self.problem.value(parts, tables.structure.steps)

    def places(self, rows: Rows) -> list[Places]:
        """Return every choice of places for the spatial loops over window dims."""
        structure = Structure(self.problem, rows)
        dims = [d for tensor in self.problem.tensors for d in tensor.window]
        wide = sorted({(fan.below, d) for fan, row in structure.spread for d in dims if row[d] > 1})
        return list(product(*([(one, y) for y in divisors(structure.top[one[1]])] for one in wide)))

    def descend(self, rows: Rows, places: Places, prices: Tile, most: int) -> int:
        """Return how many chains a search for one below the value visits; refuse where it meets one, or visits more."""
        problem, visited = self.problem, 0

        def view(marks: tuple[Tile, ...]) -> tuple[Tables, Reach]:
            tables = self.tables(rows, places, prices, marks)
            return tables, [tables.inside(part) for part in range(len(problem.parts))]

        def visit(tables: Tables, reach: Reach, spot: Spot) -> None:
            nonlocal visited
            visited += 1
            need(visited <= most, "a search visits more nodes than listed")
            need(time.process_time() < self.deadline, "time is up before the end of the check")
            state, _, parts, used, marks, _ = spot
            end, priced = tables.end(state), sum(p * bits for p, bits in zip(tables.prices, used, strict=True))
            if end is not None:
                total = [part + int(own) for part, own in zip(parts, end, strict=True)]
                total[0] = (total[0] - priced) // tables.unit
                cost = problem.value(total, tables.structure.steps)
                need(cost >= self.value, "a search meets a chain that costs less")
            if [*marks] != tables.marks and any(problem.tensors[i].window for i, _, _ in tables.moves(state)):
                tables, reach = view(marks)
            for child in [one for move in tables.moves(state) for one in self._next(tables, reach, spot, move)]:
                visit(tables, reach, child)

        tables, reach = view(())
        for state in tables.firsts:
            visit(
                tables,
                reach,
                (state, tables.grid.top, tables.start, [0] * len(problem.room), tuple(tables.marks), (-1, -1)),
            )
        return visited

    def _next(self, tables: Tables, reach: Reach, spot: Spot, move: tuple[int, Edge, Tile]) -> Iterator[Spot]:
        """Yield the chains with one more node that may still cost less than the value."""
        (i, (_, _, level, costs, bits), after), problem, shape = move, self.problem, tables.grid.shape
        _, outer, before, used, marks, last = spot
        region = tuple(slice(0, place + 1) for place in tables.grid.index(outer))
        parts = [cost[region] + part for cost, part in zip(costs, before, strict=True)]
        totals = [part + inside(after)[region] for part, inside in zip(parts, reach, strict=True)]
        bits, room, limit = np.broadcast_to(bits, shape)[region], problem.room[level], NEVER // 2
        if problem.is_linear:
            limit = (self.value - problem.fixed) * tables.unit + self.free((1, *tables.prices))
        wins = (totals[0] < limit) & (bits <= (NEVER if room is None else room - used[level]))
        for place in map(tuple, np.argwhere(wins).tolist()):
            all_parts = [int(total[place]) for total in totals]
            if problem.is_linear or problem.value(all_parts, tables.structure.steps) < self.value:
                tile = tuple(int(np.broadcast_to(value, shape)[place]) for value in tables.grid.values)
                now = [own + int(bits[place]) * (number == level) for number, own in enumerate(used)]
                if tile != outer or (level, i) > last:  # nodes of one tile stand in one order
                    passed = (*marks, tile) if tile != outer else marks
                    yield after, tile, [int(part[place]) for part in parts], now, passed, (level, i)


class Verdict(NamedTuple):
    """accepted: the value is the optimum, but for `words` structures that the solver alone vouches for. reason: why
    not. value: in pJ, cycles, pJ x cycle or bits. head: SHA-256 of workload, machine and objective. seconds: of CPU."""

    accepted: bool
    reason: str
    objective: str
    value: Fraction | None
    structures: int
    words: int
    head: str
    seconds: float


def digest(lines: list[str]) -> str:
    """Return the SHA-256 of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def integer(word: str, most: int = 10**31) -> int:
    """Return the integer that a word says."""
    need(re.fullmatch("0|-?[1-9][0-9]{0,30}", word) and int(word) <= most, "a number is malformed or too large")
    return int(word)


class Check:
    """A certificate, read line by line."""

    def __init__(self, text: str, deadline: float) -> None:
        need(len(text) <= 1 << 24 and text.isascii() and text[-1:] == "\n", "the text is cut short or not ASCII")
        self.lines, self.at, self.words, self.claims = text[:-1].split("\n"), 0, 0, list[Callable[[], None]]()
        need(self.lines[-1] == f"end {digest(self.lines[:-1])}", "the last line does not belong to the text")
        need(self._next("polymap") == "certificate 1", "the format is unknown")
        workload, machine, self.objective = (self._next(word) for word in ("workload", "machine", "objective"))
        self.head = digest(self.lines[1:4])
        need(self._next("sha256") == self.head, "the head does not belong to its SHA-256")
        self.problem = Problem(parsed(workload), parsed(machine), self.objective)
        self.value = rational(self._next("value"))
        scaled_value = cost(self.problem, parsed(self._next("mapping")))
        need(Fraction(scaled_value, self.problem.scale) == self.value, "the mapping does not cost the value")
        self.prover = Prover(self.problem, scaled_value, deadline)

    def _next(self, word: str) -> str:
        line, self.at = self.lines[self.at], self.at + 1
        need(line.startswith(f"{word} "), f"line {self.at} should begin with '{word}'")
        return line[len(word) + 1 :]

    def run(self) -> int:
        """Check everything below the head; return the number of structures."""
        images: list[Tile] = []
        while self.lines[self.at].startswith("symmetry "):
            images.append(self._symmetry(self._next("symmetry").split(",")))
        wanted = self.prover.structures
        need(self._next("structures") == str(len(wanted)), f"there are {len(wanted)} structures, not as many as listed")
        kinds: list[str] = []
        for rows in wanted:
            proof = self._next("/".join(",".join(map(str, row)) for row in rows) or "-").split(" ")
            if proof[0] == "as":
                line, image = (integer(word, len(self.lines)) - 1 for word in proof[1:])
                proven = 0 <= line < len(kinds) and kinds[line] not in ("as", "word") and image >= 0
                need(proven, f"line {self.at}: no proof there")
                moved = tuple(tuple(row[images[image].index(d)] for d in range(len(row))) for row in wanted[line])
                need(moved == rows, f"line {self.at}: the symmetry does not lead here")
                kinds.append("as")
            else:
                kinds.append(self._claim(rows, (), proof))
        self._next("end")
        need(self.at == len(self.lines), "lines follow the end")
        for derive in self.claims:
            need(time.process_time() < self.prover.deadline, "time is up before the end of the check")
            derive()
        self.words = kinds.count("word")
        return len(wanted)

    def _symmetry(self, names: list[str]) -> Tile:
        image, problem = tuple(map(self.problem.dims.index, names)), self.problem
        need(sorted(image) == list(range(len(problem.dims))), "a symmetry does not rename all dims")
        for d, e in enumerate(image):
            alike = all((d in fan.dims) == (e in fan.dims) for fan in problem.fanouts)
            need(alike and problem.extents[d] == problem.extents[e], "a symmetry changes the problem")
        for tensor in problem.tensors:
            moved = {frozenset((image[d], weight) for d, weight in group) for group in tensor.groups}
            need(moved == set(map(frozenset, tensor.groups)), "a symmetry changes the problem")
        return image

    def _prices(self, word: str) -> Tile:
        unit, *prices = (integer(one, 1 << 58) for one in word.replace(":", ",").split(","))
        need(self.problem.is_linear and unit > 0 and unit * self.problem.reach < 1 << 58, "no such unit of prices")
        for price, room in zip(prices, self.problem.room, strict=True):
            need(price >= 0 and price * (room or 1 << 58) < 1 << 58, "no such price")
        return (unit, *prices)

    def _claim(self, rows: Rows, places: Places, proof: list[str]) -> str:
        """Read a proof, to be derived once all have been read; return its kind ("word": not proven here)."""
        kind, prover, line = proof[0], self.prover, f"line {self.at}"
        if kind == "places" and not places:
            choices = prover.places(rows)
            need(len(choices) > 1 and proof[1:] == [str(len(choices))], f"{line}: there are {len(choices)} places")
            below = [(one, self._next("  " + ",".join(str(y) for _, y in one)).split(" ")) for one in choices]
            return "word" if "word" in [self._claim(rows, one, words) for one, words in below] else kind
        form = {"apart": "kb", "word": "kb", "joint": "kpb", "empty": "k", "search": "kpbn"}.get(kind, "")
        need(len(proof) == len(form), f"{line}: no such proof")
        given = dict(zip(form, proof, strict=True))
        bound, nodes = (integer(given[one]) if one in given else None for one in "bn")
        prices = self._prices(given["p"]) if given.get("p", "-") != "-" else ()
        need(kind not in ("apart", "joint") or (bound or 0) >= prover.value, f"{line}: the bound does not refute")

        def derive() -> None:
            found = prover.apart(rows) if kind in ("apart", "word") else prover.joint(rows, places, prices)
            need(found == bound, f"{line}: the bound is {found}")
            if nodes is not None:
                need(prover.descend(rows, places, prices, nodes) == nodes, f"{line}: the search is shorter")

        self.claims.append(derive)
        return kind


def verify(text: str, seconds: float = 600) -> Verdict:
    """Return whether a certificate's text proves its claim, within `seconds` of CPU time."""
    begin, check, count, reason = time.process_time(), None, 0, ""
    try:
        check = Check(text, begin + seconds)
        count = check.run()
    except Refused as refusal:
        reason = str(refusal)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        reason = f"the text is malformed ({type(error).__name__})"
    about = (check.objective, check.value, count, check.words, check.head) if check else ("", None, 0, 0, "")
    return Verdict(not reason, reason, *about, time.process_time() - begin)
