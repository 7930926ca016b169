"""Costs and sizes of storage nodes as monomials in real tiles and spatial factors (docs/any_tiles.md)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from polymap.search.any_size.node_costs import AnyEdge, AnyTables
from polymap.search.dividing import zero_starts
from polymap.search.objective import Component
from polymap.search.problem import Problem, TensorTerm


@dataclass(frozen=True, slots=True)
class Monomial:
    """coefficient x product of own tile ^ tile[dim] x product of factor ^ factors[class][dim]."""

    coefficient: float
    tile: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]


class Forms:
    """Costs and sizes of the nodes as monomials, for one component of a measure."""

    def __init__(self, tables: AnyTables, component: int) -> None:
        self.problem: Problem = tables.problem
        self.tables = tables
        self.component: Component = tables.measure.components[component]
        self.instances = float(prod(self.problem.extents))

    def _along(self, after: int, upto: int, dims: list[int], merging: str) -> tuple[tuple[int, ...], ...]:
        """Return exponents 1 at the factors of classes between two levels, along some dims."""
        rows: list[tuple[int, ...]] = []
        for one in self.problem.classes:
            merges = {"all": True, "multicast": one.multicast.shares_reads, "reduction": one.reduction}[merging]
            here = after < one.below <= upto and merges
            rows.append(tuple(int(here and d in dims) for d in range(len(self.problem.dims))))
        return tuple(rows)

    def _others(self, term: TensorTerm) -> list[int]:
        return [d for d, dim in enumerate(self.problem.dims) if dim not in term.dims]

    def _stays(self, term: TensorTerm, scale: float | Fraction, merged: tuple[tuple[int, ...], ...]) -> Monomial:
        """Return scale x instances over what one load serves: its tile in other dims, and siblings that merge."""
        others = self._others(term)
        tile = tuple(-int(d in others) for d in range(len(self.problem.dims)))
        factors = tuple(tuple(-x for x in row) for row in merged)
        return Monomial(float(scale) * self.instances, tile, factors)

    def _copies(self, level: int) -> int:
        if not self.component.busiest:
            return 1
        return prod(
            self.problem.arch.fanouts[f].size for one in self.problem.classes if one.below <= level for f in one.fanouts
        )

    def held(self, term: TensorTerm, scale: float) -> Monomial:
        """Return scale x the elements of an instance's tile."""
        counts = [0] * len(self.problem.dims)
        for group in term.groups:
            counts[self.problem.dims.index(group.dims[0])] += 1
        return Monomial(scale, tuple(counts), tuple((0,) * len(counts) for _ in self.problem.classes))

    def edge(self, term: TensorTerm, edge: AnyEdge) -> tuple[list[Monomial], float] | None:
        """Return the monomials and the constant of a node's cost; None where it is no sum of monomials."""
        if self.component.held and self.component.held[edge.level][term.index]:
            own = [self.held(term, self.component.held[edge.level][term.index])]
        else:
            own = []
        if not term.is_output:
            return own + self._read(term, edge), 0.0
        drained = self._drained(term, edge)
        return None if drained is None else (own + drained[0], drained[1])

    def _read(self, term: TensorTerm, edge: AnyEdge) -> list[Monomial]:
        write = self.component.write[edge.level][term.index] / self._copies(edge.level)
        read = self.component.read[edge.parent][term.index] / self._copies(edge.parent)
        none = self._along(0, 0, [], "all")
        merged = self._along(edge.parent, edge.level, self._others(term), "multicast")
        return [self._stays(term, write, none), self._stays(term, read, merged)]

    def _drained(self, term: TensorTerm, edge: AnyEdge) -> tuple[list[Monomial], float] | None:
        level, parent = edge.level, edge.parent
        others = self._others(term)
        # Exact until the monomials: where large weights cancel, floats would leave nothing but their errors.
        read = [Fraction(row[term.index]) / self._copies(n) for n, row in enumerate(self.component.read)]
        write = [Fraction(row[term.index]) / self._copies(n) for n, row in enumerate(self.component.write)]
        none = self._along(0, 0, [], "all")
        added = self._along(parent, level, others, "reduction")
        together = self._along(parent, level, others, "all")
        if self.component.busiest:
            arrives = write[parent] + (0 if parent == 0 else read[parent])
            return [self._stays(term, read[level], none), self._stays(term, arrives, added)], 0.0
        saved = sum((read[n] + write[n] for n in edge.rest), Fraction(0)) - write[level]
        per_stay, per_entry = read[level] - saved, write[level] + saved
        arrivals = self._stays(term, read[parent] + write[parent], added)
        constant = -float(zero_starts(term) * (read[level] + write[level]))
        if per_stay < 0:
            # No more stays enter together than the fan-outs have instances.
            per_entry += per_stay * self._most(together)
            per_stay = Fraction(0)
        stays = [self._stays(term, per_stay, none), self._stays(term, per_entry, together)]
        return None if per_entry < 0 else ([*stays, arrivals], constant)

    def _most(self, rows: tuple[tuple[int, ...], ...]) -> int:
        """Return the instances of the fan-outs of classes that have a factor in the rows."""
        classes = (one for one, row in zip(self.problem.classes, rows, strict=True) if any(row))
        return prod(self.problem.arch.fanouts[f].size for one in classes for f in one.fanouts)

    def final(self, term: TensorTerm, holder: int) -> Monomial:
        """Return what the statement instances cost at the level that holds the tensor at the end."""
        upto, others = self.problem.level_count, self._others(term)
        merged = self._along(holder, upto, others, "reduction" if term.is_output else "multicast")
        weight = self.component.write[holder][term.index] if term.is_output else 0
        if not term.is_output or not self.component.busiest or holder == 0:
            weight += self.component.read[holder][term.index]
        factors = tuple(tuple(-x for x in row) for row in merged)
        zero = (0,) * len(self.problem.dims)
        return Monomial(weight * self.instances / self._copies(holder), zero, factors)
