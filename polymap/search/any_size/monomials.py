"""The cost of a storage node as weights per load, message and element held, and as monomials.

    cost of a node = loads x load + entries x entry + messages x message + elements held x held - zero_credit

An input's loads are its fills, an output's the sums that an instance drains. Entries are the loads that siblings begin
together, counted once. Messages are what the parent is read for, or gets. Without windows these
are monomials in real tiles and spatial factors (docs/any_tiles.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from polymap.search.problem import Component, FanoutClass, NodeWeights, Problem, TensorTerm, node_weights

Exponents = tuple[tuple[int, ...], ...]  # [class][dim]


@dataclass(frozen=True, slots=True)
class LoadWeights:
    """The weights of one node in one component, by loads. They are exact, since large ones cancel and floats would lose
    them."""

    load: Fraction
    entry: Fraction
    message: Fraction
    held: int
    zero_credit: Fraction


def load_weights(
    problem: Problem, component: Component, term: TensorTerm, parent: int, levels: tuple[int, ...]
) -> LoadWeights:
    """Return the weights of a node of a tensor (`problem.node_weights`), wires left out; parent: the level above it.

    levels: the node's own level; of an output, then the inner levels that hold it too.

    In measures of the busiest instance, the elements that start from zero below the outermost level are not known: of
    an output's fills only the drains count.
    """
    index, nothing = term.index, Fraction(0)
    known = node_weights(problem, term, replace(component, wires=()), parent, levels)
    here, there = (Fraction(1, instances(problem, component, level)) for level in (levels[0], parent))
    if not term.is_output:
        return LoadWeights(known.fill * here, nothing, known.message * there, known.held, nothing)
    if component.busiest:
        drained, message = component.read[levels[0]][index], _message(component, term, parent, known)
        return LoadWeights(drained * here, nothing, message * there, known.held, nothing)
    further_in, zero_credit = Fraction(known.further_in), Fraction(term.zero_starts * known.fill)
    return LoadWeights(-further_in, known.fill + further_in, Fraction(known.message), known.held, zero_credit)


def compute_weight(problem: Problem, component: Component, term: TensorTerm, holder: int) -> float:
    """Return the cost of one message between the compute units and the innermost holder, wires left out."""
    known = node_weights(problem, term, component, holder, (problem.level_count,))
    return _message(component, term, holder, known) / instances(problem, component, holder)


def _message(component: Component, term: TensorTerm, parent: int, known: NodeWeights) -> int:
    """Return the cost of a message at the parent.

    For the busiest instance of a level below the outermost, only an output's writes count, as it is not known how many
    of its reads are elided.
    """
    unknown = term.is_output and component.busiest and parent > 0
    return known.message - (component.read[parent][term.index] if unknown else 0)


def instances(problem: Problem, component: Component, level: int) -> int:
    """Return the divisor of a total: 1, or for measures of the busiest instance the number of instances of the
    level."""
    if not component.busiest:
        return 1
    fanouts = [f for one in problem.classes if one.below <= level for f in one.fanouts]
    return prod(problem.arch.fanouts[f].size for f in fanouts)


def joins_messages(term: TensorTerm, one: FanoutClass) -> bool:
    """Return whether equal messages of siblings below a class of fan-outs count once at the parent."""
    return one.reduction if term.is_output else one.multicast.shares_reads


@dataclass(frozen=True, slots=True)
class Monomial:
    """coefficient x product of own tile ^ tile[dim] x product of factor ^ factors[class][dim]."""

    coefficient: float
    tile: tuple[int, ...]
    factors: Exponents


class NodeMonomials:
    """Costs and sizes of nodes as monomials, for one component, without windows."""

    def __init__(self, problem: Problem, component: Component) -> None:
        self.problem = problem
        self.component = component
        self.instances = float(prod(problem.extents))

    def footprint(self, term: TensorTerm, scale: float) -> Monomial:
        """Return scale x the elements of an instance's tile."""
        counts = tuple(sum(dim in group.dims for group in term.groups) for dim in self.problem.dims)
        return Monomial(scale, counts, tuple((0,) * len(counts) for _ in self.problem.classes))

    def node_cost(self, term: TensorTerm, parent: int, levels: tuple[int, ...]) -> tuple[list[Monomial], float] | None:
        """Return the monomials and the constant of a node's cost; None where it is not a sum of monomials.

        parent, levels: as in `load_weights`.
        """
        weights = load_weights(self.problem, self.component, term, parent, levels)
        alone = self._sharing(term, 0, 0, lambda _: False)
        together = self._sharing(term, parent, levels[0], lambda _: True)
        joined = self._sharing(term, parent, levels[0], lambda one: joins_messages(term, one))
        load, entry = weights.load, weights.entry
        if load < 0:
            # No more loads enter together than the fan-outs have instances.
            entry += load * self._sibling_count(together)
            load = Fraction(0)
        if entry < 0:
            return None
        loads = [self._loads(term, load, alone)]
        loads += [self._loads(term, entry, together)] if entry else []
        loads.append(self._loads(term, weights.message, joined))
        held = [self.footprint(term, weights.held)] if weights.held else []
        return [*held, *loads], -float(weights.zero_credit)

    def compute_cost(self, term: TensorTerm, holder: int) -> Monomial:
        """Return the cost of the statement instances at the innermost level that holds the tensor."""
        joined = self._sharing(term, holder, self.problem.level_count, lambda one: joins_messages(term, one))
        weight = compute_weight(self.problem, self.component, term, holder)
        zero = (0,) * len(self.problem.dims)
        return Monomial(weight * self.instances, zero, _inverse(joined))

    def _loads(self, term: TensorTerm, weight: Fraction, siblings: Exponents) -> Monomial:
        """Return weight x instances / (instances that one load serves): its tile in other dims, and siblings that share
        it."""
        tile = tuple(-int(dim not in term.dims) for dim in self.problem.dims)
        return Monomial(float(weight) * self.instances, tile, _inverse(siblings))

    def _sharing(self, term: TensorTerm, after: int, upto: int, joins: Callable[[FanoutClass], bool]) -> Exponents:
        """Return exponents 1 at the factors, in dims that the tensor lacks, of classes between two levels that join."""
        return tuple(
            tuple(int(after < one.below <= upto and joins(one) and dim not in term.dims) for dim in self.problem.dims)
            for one in self.problem.classes
        )

    def _sibling_count(self, exponents: Exponents) -> int:
        """Return the instances of the fan-outs of classes that have a factor in the exponents."""
        classes = (one for one, row in zip(self.problem.classes, exponents, strict=True) if any(row))
        return prod(self.problem.arch.fanouts[f].size for one in classes for f in one.fanouts)


def _inverse(exponents: Exponents) -> Exponents:
    return tuple(tuple(-x for x in row) for row in exponents)
