"""Programs as chains of products, and the trees that chains of products say."""

from __future__ import annotations

from collections.abc import Callable, Mapping as Table, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

from polymap.ir import (
    Access,
    Architecture,
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Operator,
    Statement,
    Storage,
    Temporal,
    Workload,
    is_box,
    part_of,
)
from polymap.resources import Stop, never
from polymap.search.problem import Objective, analyse, exact_score, measure_of
from polymap.search.single_level.product_chains import ROWS, Fork, Hold, Loop, Priced, Run, Steps, least_of_chain
from polymap.search.single_level.question import priced_question
from polymap.search.single_level.sizes import OfSize

Nodes = tuple[MappingNode, ...]
Refund = Callable[[str, str], Fraction]  # of a statement, what one pass of a tensor costs that does not stay


@dataclass(frozen=True, slots=True)
class ProductChain:
    """A program of products in a row, each the source of the next one. axes: the dims that are one dim each for these:
    the rows, and the depth of each product (its number). runs: dims that all accesses have: whatever moves, each of
    their indices moves for itself. operands: source, matrix and result of each product."""

    workload: Workload
    axes: dict[int, str]
    runs: tuple[str, ...]
    operands: tuple[tuple[str, str, str], ...]

    @staticmethod
    def of(workload: Workload, alike: Table[str, Access]) -> ProductChain | None:
        """Return what a program is as a chain; None where it is none. alike: tensors that all statements access alike,
        each axis by a dim of its own."""
        statements = workload.statements
        if len(statements) < 2 or len(alike) != 2 * len(statements) + 1 or not all(map(_is_product, statements)):
            return None
        runs = frozenset(statements[0].dims).intersection(*(access.dims for access in alike.values()))
        own = {name: frozenset(access.dims) - runs for name, access in alike.items()}
        chains = (_read(workload, own, tuple(sorted(runs)), rows) for rows in statements[0].target.dims)
        return next((each for each in chains if each is not None), None)

    def extent(self, axis: int) -> int:
        return self.workload.extents()[self.axes[axis]] if axis in self.axes else 1

    def priced(
        self, arch: Architecture, objective: Objective, alone: Sequence[Fraction], refund: Refund
    ) -> list[Priced] | None:
        """Return what the products cost; None where costs of tiles are not told. alone: what each costs at least."""
        found = list[Priced]()
        for number, (each, names) in enumerate(zip(self.workload.statements, self.operands, strict=True)):
            nest = part_of(self.workload, (each,))
            measure = measure_of(objective, nest, arch)
            read = priced_question(analyse(nest, arch, ()), measure)
            if read is None:
                return None
            own = {nest.tensors[one.number].name: one for one in read[0].operands}
            source, matrix, result = (own[name] for name in names)
            passes = refund(each.name, names[0]), refund(each.name, names[2])
            sizes = self.extent(number), self.extent(number + 1)
            costs = measure.unscaled(1), measure.unscaled(read[1])
            found.append(Priced(*sizes, (source, matrix, result), *costs, alone[number], passes))
        return found

    def solved(
        self,
        arch: Architecture,
        objective: Objective,
        refund: Refund,
        alone: Sequence[Sequence[OfSize]],
        rooms: Sequence[int],
    ) -> list[OfSize] | None:
        """Return the least that cases cost (as a bound), and a tree of such a case, for buffers with so much room; None
        where costs are not told, or too large. alone: each product's, by size."""
        found = list[OfSize]()
        for room, own in zip(rooms, zip(*alone, strict=True), strict=True):
            floors = [Fraction(each.bound) for each in own if each.bound is not None]
            priced = self.priced(arch, objective, floors, refund) if len(floors) == len(own) else None
            least = None if priced is None else self.least(priced, room, divide=False, stop=never)
            if least is None:
                return None
            nodes = {each.name: one.best for each, one in zip(self.workload.statements, own, strict=True)}
            tree = self.tree(arch.levels[1].name, least[1], lambda each, nodes=nodes: _nodes_of(nodes[each.name]))
            score = exact_score(self.workload, arch, objective, tree)
            fits = score is not None and dict(score.cost.occupancy_bits)[arch.levels[1].name] <= room
            found.append(OfSize(ceil(least[0]), tree if fits else None, int(score.value) if score and fits else None))
        return found

    def least(
        self, priced: Sequence[Priced], room: int | None, *, divide: bool, stop: Stop
    ) -> tuple[Fraction, tuple[Steps, ...]] | None:
        """Return what no case costs less than, and the parts of its tree (least_of_chain). Raises OutOfTime."""
        runs = prod(self.workload.extents()[name] for name in self.runs)
        return least_of_chain(self.extent(ROWS), runs, priced, room, divide=divide, stop=stop)

    def tree(self, level: str, parts: Sequence[Steps], alone: Callable[[Statement], Nodes]) -> Mapping:
        """Return the tree of parts through a level. alone: the nodes of a statement that is a part."""
        extents, children = self.workload.extents(), list[Nodes]()
        above = tuple(Temporal(name, 1) for name in self.runs if extents[name] > 1)
        for steps in parts:
            match steps:
                case (Run(number),):
                    children.append(alone(self.workload.statements[number]))
                case _:
                    children.append(
                        (*above, *self._nodes(level, steps, {axis: self.extent(axis) for axis in self.axes}))
                    )
        return Mapping(children[0] if len(children) == 1 else (Branch(tuple(children)),))

    def _nodes(self, level: str, steps: Steps, left: dict[int, int]) -> Nodes:
        found, left = list[MappingNode](), dict(left)
        for step in steps:
            match step:
                case Loop(axis, tile) if tile < left.get(axis, 1):
                    left[axis] = tile
                    found.append(Temporal(self.axes[axis], tile))
                case Hold(product, place):
                    found.append(Storage(level, (self.operands[product][place],)))
                case Fork(children):
                    found.append(Branch(tuple(self._nodes(level, child, left) for child in children)))
                case Run(product):
                    found.append(Compute(self.workload.statements[product].name))
                case _:
                    pass  # a loop of one iteration
        return tuple(found)


def _nodes_of(mapping: Mapping | None) -> Nodes:
    return () if mapping is None else mapping.nodes


def _is_product(statement: Statement) -> bool:
    return statement.operator is Operator.ADD and is_box(statement) and len(statement.reads) == 2


def _read(workload: Workload, own: Table[str, frozenset[str]], runs: tuple[str, ...], rows: str) -> ProductChain | None:
    """Return the chain with such rows; None where it is none. own: the dims of tensors."""
    axes, operands = {ROWS: rows}, list[tuple[str, str, str]]()
    for number, each in enumerate(workload.statements):
        names, result = [access.tensor for access in each.reads], each.target.tensor
        source = operands[-1][2] if operands else next((name for name in names if rows in own[name]), "")
        matrix = next((name for name in names if name != source), "")
        if source not in names or not matrix or not all(rows in own[name] for name in (source, result)):
            return None
        ends = own[source] - {rows}, own[result] - {rows}
        if max(map(len, ends)) > 1 or ends[0] & ends[1] or own[matrix] != ends[0] | ends[1] or rows in own[matrix]:
            return None
        if {*each.dims} != {rows, *runs, *own[matrix]}:
            return None  # of a dim that no tensor has, no case has a loop
        axes |= {number + at: name for at, dims in enumerate(ends) for name in dims}
        operands.append((source, matrix, result))
    return ProductChain(workload, axes, runs, tuple(operands))
