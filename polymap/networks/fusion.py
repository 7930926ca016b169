"""What groups of a network cost as programs beside their layers apart, and where what passes between nodes stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod

from polymap.costmodel import Cost, integer_root
from polymap.formatting import listing, plural, size
from polymap.inputs import shown
from polymap.ir import (
    Architecture,
    Branch,
    Mapping,
    MappingNode,
    MaybeNone,
    Mistake,
    OptionError,
    Shown,
    Spatial,
    Storage,
    Temporal,
    Workload,
    accesses_of,
    bounds,
)
from polymap.networks.groups import Apart, Group, Plan
from polymap.search import SearchResult
from polymap.search.problem import Goal, Objective, Powers

_ADDITIVE = (Goal.ENERGY, Goal.LATENCY, Goal.TRAFFIC)
_SCALE = 1 << 20  # of the denominators of roots

Sums = tuple[Fraction, Fraction]
Loops = tuple[Temporal | Spatial, ...]
Place = tuple[str, Loops]  # a level, and the loops above a node of it


@dataclass(frozen=True, slots=True)
class Total:
    """How a network's value comes of those of its parts, which run one after the other: the product of two sums to
    these powers. is_product: of energies and of latencies, where layers are fused for a product of these; else of the
    values, and of nothing to the power of 0."""

    powers: Powers
    is_product: bool

    @staticmethod
    def of(goal: Objective, *, fuse: bool) -> Total:
        """Return the total of an objective. fuse: whether layers are asked together, too."""
        powers = goal.goal.powers
        is_product = fuse and powers is not None and powers.energy > 0 < powers.cycles
        return Total(powers if is_product and powers else Powers(1, 0), is_product)

    def sums(self, exact: Fraction, cost: Cost) -> Sums:
        """Return what a part of the network adds to the two sums."""
        return (cost.energy_pj_exact, Fraction(cost.latency_cycles)) if self.is_product else (exact, Fraction(0))

    def root(self, bound: Fraction) -> Fraction:
        """Return at most the root of the total's degree. By Hölder's inequality the sum of the parts' roots is at most
        that of their total: (E1 + E2)^a (L1 + L2)^b >= (r1 + r2)^(a + b) where each E^a L^b >= r^(a + b)."""
        if self.degree == 1:
            return bound
        return Fraction(integer_root(bound.numerator * _SCALE**self.degree // bound.denominator, self.degree), _SCALE)

    @property
    def degree(self) -> int:
        """How many of the two sums are factors."""
        return self.powers.energy + self.powers.cycles


@dataclass(frozen=True, slots=True)
class Passing:
    """A result that one loop nest leaves for others.

    level: where it is held on its way ("": it goes through the outermost level, `through`). shape: of the whole tensor;
    tile, tile_bits: what is held there at a time. writes: elements that are written to the outermost level besides: all
    that others need, or what is made before the loop in which the others stay.
    reason: why it does not stay. times: how many equal groups of the network pass it on.
    """

    producer: str
    consumers: tuple[str, ...]
    tensor: str
    through: str
    level: str = ""
    tile: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    tile_bits: int = 0
    writes: int = 0
    reason: str = ""
    times: int = 1

    def __str__(self) -> str:
        who = f"{self.producer} to {listing(self.consumers)}" + (f" ({self.times} times)" if self.times > 1 else "")
        if not self.level:
            return f"{who}: goes through {self.through}: {self.reason}"
        whole = "as a whole" if self.tile == self.shape else f"in tiles of {' x '.join(map(str, self.tile))}"
        also = f"; written to {self.through} once besides, as others need it" if self.writes else ""
        if 0 < self.writes < prod(self.shape):
            also = f"; {self.writes} of {prod(self.shape)} elements, made before, go through {self.through}"
        return f"{who}: {self.tensor} stays in {self.level} {whole}: {size(self.tile_bits)}{also}"


@dataclass(frozen=True, slots=True, repr=False)
class GroupAnswer(Shown):
    """The answer about neighbouring nodes as one program, beside that about each alone.

    groups: all equal ones, each by the names of its nests; `result` is about the first. exact, exact_bound: of one of
    them as a program; apart, apart_bound: of its layers, each alone, one after the other. more: what the program adds
    to the network's sums more than its layers apart (Total). is_together: whether the program counts for the network;
    else its layers do.
    """

    groups: tuple[tuple[str, ...], ...]
    result: SearchResult = field(repr=False)
    exact: Fraction | MaybeNone
    exact_bound: Fraction
    apart: Fraction | MaybeNone
    apart_bound: Fraction
    more: Sums = (Fraction(0), Fraction(0))
    is_together: bool = False

    @property
    def title(self) -> str:
        """The nests of the first group, and how many groups are equal."""
        return f"{' + '.join(self.groups[0])} ({plural(self.times, 'group')})"

    @property
    def times(self) -> int:
        """How many equal groups there are."""
        return len(self.groups)

    @property
    def saved(self) -> Fraction:
        """What one of the groups costs less than its layers apart; 0 where that is the better answer."""
        return self.apart - self.exact if self.is_together else Fraction(0)

    @property
    def least(self) -> Fraction:
        """What neither the program nor the layers apart go below."""
        return min(self.exact_bound, self.apart_bound)


def check_additive(goal: Objective, *, asked: bool) -> None:
    """Raise OptionError where layers are asked together for what does not follow from sums over layers."""
    if asked and goal.goal.powers is None and any(each.goal not in _ADDITIVE for each in _parts_of(goal)):
        what = f"layers are fused for {shown(goal.text)}, which no sum over layers gives"
        hint = "Ask for energy, latency, their products, traffic:LEVEL or a weighted sum of what adds up."
        raise OptionError(Mistake("PM578", what, f"{hint} Or leave out fuse."))


def _parts_of(goal: Objective) -> tuple[Objective, ...]:
    return tuple(part for _, part in goal.parts) or (goal,)


def with_better_together(groups: Sequence[GroupAnswer], alone: Sums, total: Total) -> tuple[GroupAnswer, ...]:
    """Return the groups, those as programs that cost less than their layers apart, and leave less of the network.
    alone: the network's sums with all layers apart."""
    found = list[GroupAnswer]()
    for each in groups:
        then = (alone[0] + each.more[0] * each.times, alone[1] + each.more[1] * each.times)
        is_less = each.exact is not None and each.apart is not None and each.exact < each.apart
        is_less = is_less and total.powers.product(*then) < total.powers.product(*alone)
        alone = then if is_less else alone
        found.append(replace(each, is_together=is_less))
    return tuple(found)


def equal_groups(plan: Plan) -> list[list[Group]]:
    """Return the groups of a plan, those with equal programs together."""
    found: dict[Workload, list[Group]] = {}
    for group in plan.groups:
        found.setdefault(replace(group.program, name=""), []).append(group)
    return list(found.values())


def passing_of(
    answers: list[tuple[list[Group], GroupAnswer]], apart: tuple[Apart, ...], arch: Architecture
) -> tuple[Passing, ...]:
    """Return what becomes of every result that a nest reads of another one."""
    through = arch.levels[0].name
    found = [one for groups, answer in answers for one in _within(groups, answer, arch)]
    return (*found, *(Passing(each.producer, (each.consumer,), "", through, reason=each.reason) for each in apart))


def _within(groups: list[Group], answer: GroupAnswer, arch: Architecture) -> Iterator[Passing]:
    group, through = groups[0], arch.levels[0].name
    for number in dict.fromkeys(link.producer for link in group.links):
        tensor = group.program.statements[number].target.tensor
        readers = dict.fromkeys(group.names[link.consumer] for link in group.links if link.producer == number)
        passing = Passing(group.names[number], tuple(readers), tensor, through, times=len(groups))
        if answer.is_together:
            yield _placed(passing, group.program, answer.result, arch)
        else:
            yield replace(passing, reason="as one program they cost no less than apart")


def _placed(passing: Passing, program: Workload, result: SearchResult, arch: Architecture) -> Passing:
    """Return where a result stays in the best tree of its group."""
    workload, best, cost = result.workload, result.best, result.cost
    assert workload is not None and best is not None and cost is not None, "a group with a value has a mapping"
    rows = [row for row in cost.traffic if row.tensor == passing.tensor and row.level == passing.through]
    place = next(_places(best, passing.tensor, passing.through), None)
    read, tensor = sum(row.reads for row in rows), program.tensor(passing.tensor)
    if place is None or read > _made_ahead(workload, program, passing.tensor):
        return replace(passing, reason="no tree was found that costs less with it on chip")
    (level, loops), extents = place, workload.extents()
    above = {fanout.name for fanout in arch.fanouts_above(level)}
    for loop in loops:
        if isinstance(loop, Temporal) or loop.fanout in above:  # others do not part what a node holds
            extents[loop.dim] = min(loop.tile, extents[loop.dim])
    tile = _tile(workload, passing.tensor, extents)
    return replace(
        passing,
        level=level,
        tile=_over_axes(tile, workload.tensor(passing.tensor).shape, tensor.shape),
        shape=tensor.shape,
        tile_bits=prod(tile) * tensor.bits,
        writes=sum(row.writes for row in rows),
    )


def _made_ahead(workload: Workload, program: Workload, tensor: str) -> int:
    """Return how many elements of a tensor statements make that the program does not have: in lines, the first rows,
    which pass outside."""
    names, extents = {each.name for each in program.statements}, workload.extents()
    targets = (each.target for each in workload.statements if each.name not in names)
    every = [[bounds(form, extents) for form in each.index] for each in targets if each.tensor == tensor]
    return sum(prod(high - low + 1 for low, high in axes) for axes in every)


def _over_axes(tile: tuple[int, ...], own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tile of a tensor of a program in tiles, which has two axes for its rows, over the axes of the program as
    it is."""
    at = next((axis for axis, (one, other) in enumerate(zip(own, shape, strict=False)) if one != other), len(tile) - 2)
    return tile if len(own) == len(shape) else (*tile[:at], tile[at] * tile[at + 1], *tile[at + 2 :])


def _places(mapping: Mapping, tensor: str, outermost: str) -> Iterator[Place]:
    """Yield the level of the outermost node of a tensor on each way from the root, and the loops above it."""

    def walk(nodes: tuple[MappingNode, ...], loops: Loops) -> Iterator[Place]:
        for node in nodes:
            if isinstance(node, Storage) and tensor in node.tensors and node.level != outermost:
                yield node.level, loops
                return
            if isinstance(node, Temporal | Spatial):
                loops = (*loops, node)
            elif isinstance(node, Branch):
                for child in node.children:
                    yield from walk(child, loops)

    return walk(mapping.nodes, ())


def _tile(workload: Workload, tensor: str, extents: dict[str, int]) -> tuple[int, ...]:
    """Return how many elements of each axis the statement that touches most of a tensor does within some extents."""
    every = [access.index for each in workload.statements for access in accesses_of(each, tensor)]
    ranges = [[bounds(form, extents) for form in forms] for forms in zip(*every, strict=True)]
    return tuple(max(high - low + 1 for low, high in axis) for axis in ranges)
