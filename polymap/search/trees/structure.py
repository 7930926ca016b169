"""The structure of a loop tree: everything discrete about it but its tile sizes; and the best tree that has it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod

from polymap.costmodel import Cost, evaluate, stale_copies
from polymap.inputs import answers_in_words
from polymap.ir import (
    Architecture,
    Compute,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.schedules import dependence_violations, sign_vectors
from polymap.search.dividing import Found, solve
from polymap.search.options import Options
from polymap.search.problem import (
    Factor,
    Held,
    Innermost,
    Objective,
    Outermost,
    Rules,
    analyse,
    clashes,
    measure_under,
    objective_value,
    parse_single,
    refusals,
)


@dataclass(frozen=True, slots=True, repr=False)
class StructureScore:
    """The best mapping of a structure, and whether that is proven.

    status: OPTIMAL (no mapping of the structure with dividing tiles costs less), FEASIBLE (it is not known to be the
    best), INFEASIBLE (none is within capacities and limits) or TIMEOUT (none was found). value: of the objective,
    exact, in its unit; None, like mapping and cost, where there is no mapping.
    """

    status: str
    mapping: Mapping | None = None
    cost: Cost | None = None
    value: Fraction | None = None

    def __repr__(self) -> str:
        return self.status if self.value is None else f"{self.status}: {float(self.value):,.10g}"


@dataclass(frozen=True)
class MappingStructure:
    """Everything discrete about a loop tree of one statement but its tile sizes.

    spread: (fan-out, dim, over how many of its instances), those above 1, in the machine's order. held: (level, tensor)
    below the outermost level, which holds all. order: the dims with temporal loops, each where its outermost loop
    stands, from the outermost. Two structures are equal where these three are.
    """

    spread: tuple[tuple[str, str, int], ...]
    held: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    workload: Workload = field(compare=False, repr=False)
    arch: Architecture = field(compare=False, repr=False)
    rules: Rules = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        spread = ", ".join(f"{dim} over {count} of {fanout}" for fanout, dim, count in self.spread)
        held = ", ".join(f"{tensor} in {level}" for level, tensor in self.held)
        return f"spread: {spread or 'nothing'}; held: {held or 'nothing'}; loops: {' '.join(self.order) or 'none'}"

    @cached_property
    def nest(self) -> Mapping:
        """The plainest tree of the structure: one temporal loop per dim, in order, then fan-outs and nodes as far in as
        they can stand, so that levels hold the least. Rules about tile sizes may ask for larger ones."""
        tiles = self.workload.extents()
        left = {dim: prod(count for _, other, count in self.spread if other == dim) for dim in tiles}
        nodes: list[MappingNode] = [Temporal(dim, left[dim]) for dim in self.order]
        for node in self.arch.nodes:
            if isinstance(node, MemoryLevel):
                tensors = tuple(tensor for level, tensor in self.held if level == node.name)
                nodes += [Storage(node.name, tensors)] if tensors else []
            elif isinstance(node, Fanout):
                for fanout, dim, count in self.spread:
                    if fanout == node.name:
                        left[dim] //= count
                        nodes.append(Spatial(dim, left[dim], fanout))
        return Mapping((*nodes, Compute(self.workload.statements[0].name)))

    def cost(self) -> Cost:
        """Return what `evaluate` says of the plainest tree, capacities that it does not fit among its violations."""
        return evaluate(self.workload, self.arch, self.nest)

    @property
    def keeps_accumulation_order(self) -> bool:
        """Whether the plainest tree adds into each element in the order of the program, as rounding may demand."""
        return _keeps_order(self, strict=True)

    @answers_in_words
    def score(self, objective: str = "energy", *, time_limit_s: float = 60) -> StructureScore:
        """Return the best mapping of the structure with dividing tiles, within capacities, under the constraints and
        limits that the list was asked with. Where all scores are proven, their least is the optimum of
        `explore(tiles="divide")`.

        Where the search does not cover the workload (recurrences, several windows, ...) the plainest tree is scored.
        Where `innermost` leaves no tree of the structure but those with two loops over a dim, the search's costs are
        upper bounds, and its answer is FEASIBLE at most. Raises OptionError for an unknown objective, and for one that
        has several values.
        """
        goal = parse_single(objective, self.arch)
        Options(objective, "divide", time_limit_s=time_limit_s).check()
        rules = tuple(dict.fromkeys((*self.rules, *self._own_rules())))
        problem = analyse(self.workload, self.arch, rules)
        if problem.reason is not None:
            is_refused = bool(refusals(self.workload, self.arch, rules, self.nest, self.cost()))
            return StructureScore("TIMEOUT") if is_refused else self._scored("FEASIBLE", goal, self.nest)
        if clashes(self.workload, self.arch, rules):
            return StructureScore("INFEASIBLE")
        end = time.monotonic() + time_limit_s
        measure = measure_under(goal, self.workload, self.arch, rules)
        outcome = solve(problem, measure, lambda: time.monotonic() > end, _no_report)
        is_proven = outcome.left == () and self._has_single_loops()
        if not outcome.found:
            return StructureScore("INFEASIBLE" if is_proven else "TIMEOUT")
        return self._scored("OPTIMAL" if is_proven else "FEASIBLE", goal, outcome.found[0][1].mapping)

    def _scored(self, status: str, goal: Objective, mapping: Mapping) -> StructureScore:
        cost = evaluate(self.workload, self.arch, mapping)
        return StructureScore(status, mapping, cost, objective_value(self.workload, self.arch, goal, cost))

    def _has_single_loops(self) -> bool:
        """Return whether one loop per dim, in this order, meets the rules about the innermost loops."""
        last = [dim for rule in self.rules if isinstance(rule, Innermost) for dim in rule.dims if dim in self.order]
        return self.order[len(self.order) - len(last) :] == tuple(last)

    def _own_rules(self) -> Rules:
        """Return rules that exactly the trees of the structure meet."""
        counts = {(fanout, dim): count for fanout, dim, count in self.spread}
        dims = [dim.name for dim in self.workload.dims if dim.extent > 1]
        places = [(fanout.name, dim) for fanout in self.arch.fanouts for dim in dims]
        pairs = [(level.name, tensor.name) for level in self.arch.levels[1:] for tensor in self.workload.tensors]
        return (
            *((Outermost(self.order),) if self.order else ()),
            *(Factor(*place, counts.get(place, 1), counts.get(place, 1)) for place in places),
            *(Held(*pair, must=pair in self.held) for pair in pairs),
        )


def signs_of(workload: Workload, *, strict: bool) -> list[dict[str, int]]:
    """Return of each kind of dependence the sign of its distance along each dim."""
    inner = workload.statements[0].dims
    found = [dict(zip(inner, vector, strict=True)) for vector in sign_vectors(workload, strict=strict)]
    return [{dim.name: signs.get(dim.name, 0) for dim in workload.dims} for signs in found]


def keeps_dependences(structure: MappingStructure) -> bool:
    """Return whether the plainest tree runs dependent instances in order, and none of them reads an old copy."""
    workload, nest = structure.workload, structure.nest
    return _keeps_order(structure, strict=False) and not stale_copies(workload, structure.arch, nest)


def _keeps_order(structure: MappingStructure, *, strict: bool) -> bool:
    """Return whether the plainest tree of a structure runs all dependent instances in order: signs decide, unless a dim
    along which some are apart has iterations side by side and one after the other."""
    workload = structure.workload
    partly = {dim for _, dim, _ in structure.spread} & set(structure.order)
    for signs in signs_of(workload, strict=strict):
        if any(signs[dim] for dim in partly):
            return not dependence_violations(workload, structure.nest, strict=strict)
        if next((signs[dim] for dim in structure.order if signs[dim]), 0) <= 0:
            return False
    return True


def _no_report(_found: Found, _bound: int) -> None:
    """Take a report, and keep it."""
