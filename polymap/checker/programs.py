"""Programs of several statements: what a tree costs, and what no tree costs less than (docs/certificate.md).

Both are sums over the statements, each as a problem of its own: of what one execution of a statement costs in the tree,
and of what it costs at least in any tree.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

from polymap.checker.any_size import least
from polymap.checker.counts import cost
from polymap.checker.head import PROGRAM, check_tree
from polymap.checker.model import Problem, tick
from polymap.checker.rules import fields, need

Lengths = dict[str, int]  # how many indices of every dim are left
Held = tuple[tuple[int, str, int], ...]  # (level, tensor, bits) of the nodes above a branch, outermost first
Case = tuple[str, tuple[int, ...]]  # a statement; per tensor that it leaves for others or gets: as in `Levels`
Levels = dict[str, int]  # the outermost level that holds a tensor, 0: the outermost of all
MOST_CHOICES = 1 << 12


class Statement(NamedTuple):
    """axes: per tensor that it touches the coefficients of every axis, the target first. adds: to the target; if not,
    it sets each element once, whatever was there."""

    name: str
    adds: bool
    dims: tuple[str, ...]
    axes: dict[str, list[dict[str, int]]]

    @property
    def target(self) -> str:
        return next(iter(self.axes))

    def plain(self, tensor: str) -> tuple[str, ...]:
        """Return the dims of a tensor, each of which is an axis of its own; refuse another index."""
        own = [[*axis.items()] for axis in self.axes[tensor]]
        need(all(len(axis) == 1 and axis[0][1] == 1 for axis in own), f"{tensor} is not indexed by single dims")
        found = tuple(axis[0][0] for axis in own)
        need(len({*found}) == len(found), f"{tensor} has a dim in two axes")
        return found


class Program:
    """The head of a program. levels: names, outermost first. users: per tensor the statements that touch it. charged:
    the one that pays for the loads of what others read. passed: what a statement leaves for others."""

    def __init__(self, workload: Any, machine: Any, constraints: Any, objective: str) -> None:
        PROGRAM(workload)
        need(constraints == [], "programs are certified without constraints")
        dims, rows, tensors = fields(workload, "dims", "statements", "tensors")
        need(2 <= len(rows) <= 16 and len(tensors) <= 40 and len(dims) <= 24, "the program is too large")
        self.machine, self.objective, self.extents = machine, objective, dict[str, int](dims)
        self.tensors = {row["name"]: row for row in tensors}
        self.statements = [self._statement(row) for row in rows]
        names = [each.name for each in self.statements]
        for known in ([dim for dim, _ in dims], [row["name"] for row in tensors], names):
            need(len({*known}) == len(known), "expected names, each once")
        self.users = {name: [each for each in self.statements if name in each.axes] for name in self.tensors}
        self.passed, self.charged = list[str](), dict[str, Statement]()
        for name, users in self.users.items():
            self._check_users(name, users)
        first = self.problem(self.statements[0], self.extents)
        self.levels = first.levels
        free = not any(any(fan.wires) for fan in first.fanouts)
        need(
            first.measures[0].linear and free, "of programs energy without leakage and wires, and traffic are certified"
        )
        self._legs, self._divides = dict[Any, Fraction](), False
        self._alone = dict[Case, tuple[int, Fraction]]()

    def _statement(self, row: Any) -> Statement:
        name, dims, accesses, adds = fields(row, "name", "dims", "accesses", "adds")
        index = {each["tensor"]: each["index"] for each in accesses}
        need(1 <= len(accesses) == len(index), f"{name} touches a tensor twice")
        need({*index} <= {*self.tensors} and {*dims} <= {*self.extents}, f"{name} names no tensor or dim")
        need({d for axes in index.values() for axis in axes for d in axis} <= {*dims}, f"{name} has no such loop")
        found = Statement(name, adds, tuple(dims), index)
        need(adds or {*found.plain(found.target)} == {*dims}, f"{name} sets an element twice")
        return found

    def _check_users(self, name: str, users: list[Statement]) -> None:
        """Note the users of a tensor that is passed on; refuse what the bound is not about."""
        writers = [each for each in users if each.target == name]
        row = self.tensors[name]
        readers = [each for each in users if each.target != name]
        need(readers or (writers and not row["temporary"]), f"nobody needs {name}")
        if readers:
            self.charged[name] = max(readers, key=lambda each: prod(self.extents[dim] for dim in each.dims))
        if not writers:
            need(not row["temporary"], f"{name} is temporary, and nobody writes it")
        elif readers:
            need(len(writers) == 1 and users[0] in writers, f"{name} is read before it is written")
            alike = len({each.plain(name) for each in users}) == 1
            need(alike and not row["initial"], f"{name} is passed on otherwise than it is written")
            self.passed.append(name)
        else:
            need(len(writers) == 1, f"several statements write {name}")

    def problem(
        self,
        statement: Statement,
        left: Lengths,
        levels: Levels | None = None,
        once: Sequence[str] = (),
        *,
        back: bool = False,
    ) -> Problem:
        """Return a statement as a problem of its own. left: the indices of its dims. levels: the outermost ones that
        hold tensors, as constraints. once: of which it reads one element over and over. back: whether its target has
        values before."""
        tensors = [
            {key: row[key] for key in ("bits", "name", "role")}
            | {"index": [] if name in once else axes, "initial": back and name == statement.target}
            for name, axes in statement.axes.items()
            for row in (self.tensors[name],)
        ]
        rules = [
            {"rule": "held", "level": self.levels[number], "tensor": name, "must": number == level}
            for name, level in (levels or {}).items()
            for number in range(1, level + 1)
        ]
        dims = [[dim, left[dim]] for dim in statement.dims]
        return Problem({"dims": dims, "tensors": tensors}, self.machine, rules, self.objective)

    def _comes_back(self, own: Statement, moved: frozenset[str]) -> bool:
        """Return whether a statement adds to values that are there, once the loops over some dims have gone on."""
        return own.adds and bool(self.tensors[own.target]["initial"] or moved - {*own.plain(own.target)})

    # What no tree costs less than

    def least(self, legs: dict[Case, Fraction]) -> tuple[int, Fraction, list[Case]]:
        """Return how many structures there are of all cases that are counted, what no tree costs less than, and the
        cases that is of. legs: what other cases are known to cost."""
        known, weakest, counted = dict[Case, Fraction](), None, list[Case]()
        for chosen in self.choices():
            tick()
            for case in (case for case in chosen if case not in known):
                if case not in legs and case not in self._alone:
                    problem = self.alone(case)
                    structures, scaled = least(problem)
                    self._alone[case] = structures, Fraction(scaled, problem.scale)
                counted += [] if case in legs else [case]
                known[case] = (legs[case] if case in legs else self._alone[case][1]) - self._refund(case)
            total = max(Fraction(0), sum((known[case] for case in chosen), start=Fraction(0)))
            if weakest is None or total < weakest[0]:
                weakest = total, chosen
        assert weakest is not None, "one choice is that all passes through the outermost level"
        return sum(self._alone[case][0] for case in counted), *weakest

    def choices(self) -> Iterator[list[Case]]:
        """Yield the cases of all statements for every choice of levels, the same for both statements of a tensor."""
        may = {name: [0, *sorted(self._may_hold(name))] for name in self.passed}  # the outermost one is not shared
        need(prod(map(len, may.values())) <= MOST_CHOICES, "there are too many cases")
        for chosen in product(*may.values()):
            given = dict(zip(may, chosen, strict=True))
            yield [(each.name, tuple(given[name] for name in self._own(each))) for each in self.statements]

    def _own(self, statement: Statement) -> list[str]:
        """Return the tensors that a statement leaves for others, or gets and pays for."""
        return [name for name in self.passed if statement in (self.users[name][0], self.charged[name])]

    def case(self, text: str) -> Case:
        """Return the case that a text names: a statement, then a level per tensor."""
        name, *levels = text.split(" ")
        found = name, tuple(self.levels.index(level) for level in levels)
        need(any(found in cases for cases in self.choices()), "there is no such leg")
        return found

    def label(self, case: Case) -> str:
        """Return how certificates name a case."""
        return " ".join((case[0], *(self.levels[level] for level in case[1])))

    def levels_of(self, case: Case) -> Levels:
        """Return the levels of a case by the tensor."""
        own = next(each for each in self.statements if each.name == case[0])
        return dict(zip(self._own(own), case[1], strict=True))

    def once(self, case: Case) -> list[str]:
        """Return the tensors that a statement shares with one that pays for their loads."""
        own = next(each for each in self.statements if each.name == case[0])
        return [name for name in own.axes if name != own.target and self.charged[name] is not own]

    def alone(self, case: Case) -> Problem:
        """Return what is asked of a statement alone."""
        own = next(each for each in self.statements if each.name == case[0])
        return self.problem(
            own, self.extents, self.levels_of(case), self.once(case), back=self._comes_back(own, frozenset())
        )

    def _may_hold(self, name: str) -> set[int]:
        """Return the levels further in where a tensor may have its outermost node on the ways to its statements."""
        own = [
            next(t for t in self.problem(each, self.extents).tensors if t.name == name)
            for each in (self.users[name][0], self.charged[name])
        ]
        return {i for i in own[0].may if all(not any(must < i for must in tensor.must) for tensor in own)}

    def _refund(self, case: Case) -> Fraction:
        """Return what one pass costs of what a statement gets from others or leaves for them in a level further in, and
        at most one element of what it shares, in every instance of each level."""
        own, total = next(each for each in self.statements if each.name == case[0]), 0
        problem = self.problem(own, self.extents)
        (read, write), names = problem.parts[0][:2], [*own.axes]
        for name, level in ((name, level) for name, level in self.levels_of(case).items() if level):
            t, size = names.index(name), prod(self.extents[dim] for dim in own.plain(name))
            if name != own.target:
                total += size * (read[0][t] + write[level][t])
            elif self.tensors[name]["temporary"]:
                total += size * (read[level][t] + write[0][t])
        for t in map(names.index, self.once(case)):
            each = (max(row[t] for row in read[:level]) + write[level][t] for level in range(1, len(self.levels)))
            total += prod(fan.size for fan in problem.fanouts) * sum(each)
        return Fraction(total, problem.scale)

    # What a tree costs

    def cost(self, nodes: Any, *, divides: bool = False) -> Fraction:
        """Return what a tree costs; refuse one that is not legal or does not fit, or whose tiles must divide and do
        not."""
        self._divides = divides
        check_tree(nodes, self.levels, [*self.tensors])
        order = [each.name for each in self._below(nodes)]
        need(sorted(order) == sorted(each.name for each in self.statements), "expected each statement once")
        for name, users in ((name, self.users[name]) for name in self.passed):
            need(
                min(users, key=lambda each: order.index(each.name)) is users[0], f"{name} is read before it is written"
            )
        return self._tree(nodes, self.extents, frozenset(), ())

    def _below(self, nodes: Any) -> list[Statement]:
        """Return the statements of a chain of nodes, in the order of the tree."""
        if "compute" in nodes[-1]:
            found = [each for each in self.statements if each.name == nodes[-1]["compute"]]
            need(found, "no such statement is computed")
            return found
        return [each for child in nodes[-1]["branch"] for each in self._below(child)]

    def _tree(self, nodes: Any, left: Lengths, moved: frozenset[str], held: Held) -> Fraction:
        """Return what an execution of a chain of nodes costs. moved: the dims of which loops above have gone on from
        their first iteration; held: by nodes above."""
        tick()
        *chain, last = nodes
        below = self._below(nodes)
        if "compute" in last:
            return self._leg(below[0], nodes[:-1], left, moved, held)
        need(not any("par" in node for node in chain), "spatial loops above a branch are not certified")
        loops = [node for node in chain if "for" in node]
        dims = {loop["for"] for loop in loops if left[loop["for"]] > loop["tile"]}
        need(all(dims <= {*each.dims} for each in below), "a loop above a branch is of other statements")
        total, above, inside = Fraction(0), list[tuple[str, int]](), held
        for node in chain:
            if "for" in node:
                even = shortest(left[node["for"]], above, node["for"]) % node["tile"] == 0
                need(even or not self._divides, "a tile of the mapping does not divide the one around it")
                above.append((node["for"], node["tile"]))
                continue
            for name in node["tensors"]:
                level = self.levels.index(node["store"])
                if level:
                    total += self._moved(name, level, above, left, moved, inside, below)
                    size = prod(shortest(left[d], above, d) for d in self._dims(name, below))
                    inside = (*inside, (level, name, size * self.tensors[name]["bits"]))
        for lengths, more, times in iterations(left, above):
            for child in last["branch"]:
                total += times * self._tree(child, lengths, moved | more, inside)
        self._check_order(last["branch"], moved | dims)
        return total

    def _check_order(self, children: Sequence[Any], loops: frozenset[str]) -> None:
        """Refuse loops above a branch in which a tensor is read before it is complete. loops: the dims of those above
        that have gone on once."""
        for name, users in ((name, self.users[name]) for name in self.passed):
            places = {i for i, child in enumerate(children) for each in self._below(child) if each in users}
            parts = len(places) > 1 and any(users[0] in self._below(child) for child in children)
            need(not parts or loops <= {*users[0].plain(name)}, f"{name} is read before it is complete")

    def _dims(self, name: str, below: Sequence[Statement]) -> tuple[str, ...]:
        users = [each for each in below if name in each.axes]
        dims = {each.plain(name) for each in users}
        need(len(dims) == 1, f"{name} is held where nobody touches it, or not alike")
        return dims.pop()  # any order: there is one

    def _moved(
        self,
        name: str,
        level: int,
        above: Sequence[tuple[str, int]],
        left: Lengths,
        moved: frozenset[str],
        held: Held,
        below: Sequence[Statement],
    ) -> Fraction:
        """Return what comes and goes between a node above a branch and the next one outside, in an execution of the
        chain. above: the loops of the chain over the node."""
        dims, users = self._dims(name, below), [each for each in below if name in each.axes]
        outer = max((other for other, tensor, _ in held if tensor == name), default=0)
        need(outer < level, f"{name} is held in the levels in another order")
        loads, problem = loaded(left, above, dims), self.problem(users[0], left)
        t = [*users[0].axes].index(name)
        read, write = ([Fraction(row[t], problem.scale) for row in side] for side in problem.parts[0][:2])
        into, out = read[outer] + write[level], read[level] + write[outer]
        if users[0].target != name:
            return loads * into
        if name in self.passed and self.tensors[name]["temporary"] and len(users) == len(self.users[name]):
            return Fraction(0)  # dead when its node is left: `_check_order` has it complete there
        starts = 0 if self._comes_back(users[0], moved) else prod(left[d] for d in dims)
        return loads * out + (loads - starts) * into

    def _leg(self, own: Statement, nodes: Any, left: Lengths, moved: frozenset[str], held: Held) -> Fraction:
        """Return what an execution of a statement costs, its nodes empty before and after, less what passes between the
        nodes above that hold its tensors."""
        back = self._comes_back(own, moved)
        given = [(level, name) for level, name, _ in held if name in own.axes]
        sizes = {name: prod(left[d] for d in own.plain(name)) for _, name in given}
        taken = [0] * len(self.levels)
        for level, name, bits in held:
            taken[level] += bits - (sizes[name] * self.tensors[name]["bits"] if name in own.axes else 0)
        lengths = {dim: left[dim] for dim in own.dims}
        key = own.name, self._divides, tuple(lengths.values()), back, tuple(given), tuple(taken)
        if key not in self._legs:
            problem = self.problem(own, lengths, back=back)
            problem.room = [
                None if room is None else room - more for room, more in zip(problem.room, taken, strict=True)
            ]
            above = [{"store": self.levels[level], "tensors": [name]} for level, name in given]
            scaled = cost(problem, [*above, *nodes, {"compute": own.name}], divides=self._divides)
            for name, size in sizes.items():
                scaled -= size * sum(
                    between(problem, [*own.axes].index(name), [0, *(level for level, other in given if other == name)])
                )
            self._legs[key] = Fraction(scaled, problem.scale)
        return self._legs[key]


def between(problem: Problem, t: int, levels: Sequence[int]) -> Iterator[int]:
    """Yield what an element of a tensor costs that comes once, and of an output goes, between each two levels."""
    read, write = problem.parts[0][:2]
    for outer, inner in pairwise(levels):
        if problem.tensors[t].is_output:
            yield read[inner][t] + write[outer][t]
        if not problem.tensors[t].is_output or problem.tensors[t].initial:
            yield read[outer][t] + write[inner][t]


def shortest(length: int, loops: Sequence[tuple[str, int]], dim: str) -> int:
    """Return how many indices of a dim are left below loops."""
    return min([length, *(tile for d, tile in loops if d == dim)])


def split(length: int, loops: Sequence[tuple[str, int]], dim: str) -> dict[tuple[int, bool], int]:
    """Return how often each (indices left, whether a loop has gone on) of a dim occurs below loops."""
    found = {(length, False): 1}
    for tile in (tile for d, tile in loops if d == dim):
        inside = dict[tuple[int, bool], int]()
        for (left, gone), times in found.items():
            many, rest = divmod(left, tile)
            first = [(min(left, tile), gone, 1), (tile, True, many - 1), (rest, True, 1 if many and rest else 0)]
            for size, on, more in first:
                if more > 0:
                    inside[size, on] = inside.get((size, on), 0) + times * more
        found = inside
    return found


def loaded(left: Lengths, loops: Sequence[tuple[str, int]], dims: Sequence[str]) -> int:
    """Return how many elements of a tensor with these dims come to a node below loops: none where its tile stays."""
    if all(shortest(left[d], loops, d) == left[d] for d in dims):
        return prod(left[d] for d in dims)
    (d, tile), *inside = loops
    many, rest = divmod(left[d], tile)
    whole = many * loaded(left | {d: tile}, inside, dims) if many else 0
    return whole + (loaded(left | {d: rest}, inside, dims) if rest else 0)


def iterations(left: Lengths, loops: Sequence[tuple[str, int]]) -> Iterator[tuple[Lengths, frozenset[str], int]]:
    """Yield the iterations of loops that are alike: the indices left, the dims whose loops have gone on, how many."""
    dims = list(dict.fromkeys(dim for dim, _ in loops))
    for chosen in product(*(split(left[dim], loops, dim).items() for dim in dims)):
        lengths = left | {dim: length for dim, ((length, _), _) in zip(dims, chosen, strict=True)}
        gone = frozenset(dim for dim, ((_, on), _) in zip(dims, chosen, strict=True) if on)
        yield lengths, gone, prod(times for _, times in chosen)
