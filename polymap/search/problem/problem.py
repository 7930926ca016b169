"""The question as the search reads it: one accumulation over a box, its tensors' index groups, the classes of
fan-outs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod
from operator import itemgetter

from polymap.ir import Architecture, Fanout, MemoryLevel, Multicast, Operator, Tensor, Workload, accesses_of, is_box
from polymap.poly import INT64, count_type, split
from polymap.schedules import groups_of, has_few_orders, kinds_of, orders_that_count
from polymap.search.problem.components import Component, Prices
from polymap.search.problem.magnitudes import most_counted
from polymap.search.problem.rules import Rules, narrow_machine

Classes = tuple[tuple[int, ...], ...]  # [fan-out class][dim], the product of the dim's factors over the class


@dataclass(frozen=True, slots=True)
class Tuning:
    """Limits of the lattice search and of the list of structures: they change memory and time, never an answer with a
    proof.

    "limits.py" is benchmarks/limits.py: seconds past a time limit. A number without a benchmark follows from memory or
    from numpy, and was not swept.
    """

    most_reach: int = 1 << 20
    """Elements that a window spans, at most: it is kept as one bit per element."""
    most_windowed: int = 1 << 48
    """Points of all window dims together, at most, so that what is counted of them fits int64."""
    most_axes: int = 60
    """Axes of a table, at most: numpy allows 64."""
    most_cells: int = 1 << 28
    """Entries of the tables of all states, at most: 2 GiB of int64;"""
    most_long_cells: int = 1 << 22
    """the same where they are Python's integers."""
    structures_at_once: int = 4096
    """Structures that are listed between two looks at the clock (limits.py)."""
    some_structures: int = 1 << 14
    """About how many are kept of a list that time ended: nothing is proven with them."""
    products_at_once: int = 1 << 20
    """Products of rows of factors that are formed together."""
    most_sharings: int = 1 << 10
    """Numbers of siblings that may be left of all fan-outs, of which all pairs are looked at (2^20 of them)."""
    symmetric_dims: int = 8
    """Dims up to which permutations of them are tried."""
    most_choices: int = 64
    """Choices of the levels that hold the tensors, each of which is bounded by itself (not swept)."""
    most_bits: int = 400
    """Of costs whose square is still a float (derived)."""
    whole_floats: float = 2.0**35
    """Up to which lower bounds in floats say the whole number above them (derived);"""
    rounding: float = 2.0**-36
    """by this part, others may be lowered (derived)."""
    model_seconds: float = 10.0
    """Deterministic seconds of CP-SAT after which it is not known whether there is a structure,"""
    most_listed: int = 1024
    """and as many again for so many that are asked for at once: each of those found before takes time to exclude."""


TUNING = Tuning()


@dataclass(frozen=True, slots=True)
class IndexGroup:
    """Dims of a tensor that share axes, combined into one linear form: an element's number is sum coefficient * index.

    A group of one dim is an ordinary axis; several dims form a window such as p + r.
    """

    dims: tuple[str, ...]
    coefficients: tuple[int, ...]

    @property
    def is_window(self) -> bool:
        return len(self.dims) > 1


@dataclass(frozen=True, slots=True)
class TensorTerm:
    """A tensor of the problem. groups: of its index; dims: of all of these; window_dims: of those that are windows, in
    order. may_hold, must_hold: level indices, without the outermost. zero_starts: the elements of an output that start
    from zero."""

    tensor: Tensor
    index: int
    is_output: bool
    groups: tuple[IndexGroup, ...]
    may_hold: frozenset[int]
    must_hold: frozenset[int]
    zero_starts: int = 0
    dims: frozenset[str] = field(init=False, repr=False)
    window_dims: tuple[str, ...] = field(init=False, repr=False)
    is_window: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Asked for several times per node of every structure.
        object.__setattr__(self, "dims", frozenset(dim for group in self.groups for dim in group.dims))
        windows = tuple(dim for group in self.groups if group.is_window for dim in group.dims)
        object.__setattr__(self, "window_dims", windows)
        object.__setattr__(self, "is_window", bool(windows))


@dataclass(frozen=True, slots=True)
class FanoutClass:
    """Neighbouring fan-outs between the same two levels that merge in the same way: only the product of their factors
    counts.

    below: index of the first level below them (the number of levels where there is none).
    """

    below: int
    multicast: Multicast
    reduction: bool
    fanouts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A workload on a machine, analysed.

    reason: why the lattice search does not apply (None: it does). is_too_large: it would, but for the size of its
    tables. rules: further demands on every mapping.
    """

    workload: Workload
    arch: Architecture
    dims: tuple[str, ...]
    extents: tuple[int, ...]
    terms: tuple[TensorTerm, ...]
    classes: tuple[FanoutClass, ...]
    reason: str | None
    rules: Rules = ()
    is_too_large: bool = False

    @property
    def level_count(self) -> int:
        return len(self.arch.levels)

    def spatial_orders(self, numbers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the orders that count differently of the spatial loops over one dim of a window on some classes (by
        number, outermost first) of one group: the own one first."""
        firsts = {number: self.classes[number].fanouts[0] for number in numbers}
        kinds = {number: _kind_of(self.arch.fanouts[first], first) for number, first in firsts.items()}
        return tuple(orders_that_count(numbers, kinds))

    def crossed(self, component: Component, parent: int, level: int) -> Iterator[tuple[int, Prices]]:
        """Yield each fan-out between two levels that has a weight in a component, with its weights per tensor."""
        if component.wires:
            for one in self.classes:
                for fanout in one.fanouts if parent < one.below <= level else ():
                    if any(map(any, component.wires[fanout])):
                        yield fanout, component.wires[fanout]


def analyse(workload: Workload, arch: Architecture, rules: Rules = ()) -> Problem:
    """Return the problem; it raises nothing for a valid workload and machine.

    rules: the user's demands; those about fan-outs and levels are also written into the problem's machine.
    """
    arch = narrow_machine(workload, arch, rules)
    dims = tuple(dim.name for dim in workload.dims)
    extents = tuple(dim.extent for dim in workload.dims)
    reason = _why_unsupported(workload)
    terms: tuple[TensorTerm, ...] = ()
    too_large: str | None = None
    if reason is None:
        terms = tuple(_term(workload, arch, index) for index in range(len(workload.tensors)))
        if any(term.is_output and term.is_window for term in terms):
            reason = "the output is written through a window"
        elif sum(term.is_window for term in terms) > 1:
            reason = "several tensors are read through windows"
        elif arch.has_wire_energies and any(term.is_window for term in terms) and _has_union_multicast(arch):
            reason = "fan-outs that unite loads of a window cost energy"
        elif any(not _has_few_orders(workload, arch, dim) for term in terms for dim in term.window_dims):
            reason = "many fan-outs between two levels share loads of a window unlike"
        else:
            reason = too_large = _too_large(workload, arch, terms)
    return Problem(
        workload,
        arch,
        dims,
        extents,
        terms,
        _classes(arch, has_window=any(term.is_window for term in terms)),
        reason,
        rules,
        too_large is not None,
    )


def _has_few_orders(workload: Workload, arch: Architecture, dim: str) -> bool:
    return has_few_orders(groups_of(arch), kinds_of(workload, arch, dim))


def _has_union_multicast(arch: Architecture) -> bool:
    return any(fanout.multicast.unites_tiles for fanout in arch.fanouts)


def _why_unsupported(workload: Workload) -> str | None:
    if len(workload.statements) != 1:
        return "there are several statements"
    statement = workload.statements[0]
    if not is_box(statement):
        return "the domain is no box"
    if statement.operator is Operator.ASSIGN:
        return "the statement overwrites its target"
    if not workload.associative:
        return "the order of accumulation is fixed"
    if workload.tensor(statement.target.tensor).temporary:
        return "the output is temporary, so that what is dead is not written"
    for tensor in workload.tensors:
        accesses = accesses_of(statement, tensor.name)
        if len(accesses) > 1:
            return f"tensor {tensor.name} is accessed more than once"
        if not all(index.is_linear for access in accesses for index in access.index):
            return f"tensor {tensor.name} is indexed through a division"
    return None


def _too_large(workload: Workload, arch: Architecture, terms: tuple[TensorTerm, ...]) -> str | None:
    """Return the reason why the tables of the search cannot be built, None where they can."""
    extents = workload.extents()
    if not all(split(extent)[1] for extent in extents.values()):
        return "an extent could not be split into primes"
    groups = [group for term in terms for group in term.groups if group.is_window]
    for group in groups:
        reach = sum(abs(c) * (extents[dim] - 1) for c, dim in zip(group.coefficients, group.dims, strict=True))
        if reach > TUNING.most_reach:
            return "a window is too long"
    if prod(extents[dim] for group in groups for dim in group.dims) > TUNING.most_windowed:
        return "the windows are too large together"
    axes = [exponent for extent in extents.values() for _, exponent in split(extent)[0]]
    states = prod(2 ** len(arch.levels) if term.is_output else len(arch.levels) for term in terms)
    most = TUNING.most_cells if count_type(most_counted(workload)) == INT64 else TUNING.most_long_cells
    if len(axes) > TUNING.most_axes or states * prod(exponent + 1 for exponent in axes) > most:
        return "there are too many choices of tiles for one table"
    return None


def _term(workload: Workload, arch: Architecture, index: int) -> TensorTerm:
    tensor = workload.tensors[index]
    statement = workload.statements[0]
    access = accesses_of(statement, tensor.name)[0]
    axes = [expression.coefficients() for expression in access.index]
    below = list(enumerate(arch.levels))[1:]
    may = frozenset(i for i, level in below if level.may_hold(tensor))
    must = frozenset(i for i, level in below if level.requires(tensor))
    is_output = statement.target.tensor == tensor.name
    groups, extents = _groups(axes, workload.extents()), workload.extents()
    written = prod(extents[dim] for group in groups for dim in group.dims)  # where no group is a window
    starts = written if is_output and not tensor.initial else 0
    return TensorTerm(tensor, index, is_output, groups, may, must, starts)


def _groups(axes: list[dict[str, int]], extents: dict[str, int]) -> tuple[IndexGroup, ...]:
    """Return the connected components of dims that share axes, each combined injectively into one linear form."""
    components: list[list[dict[str, int]]] = []
    for axis in axes:
        if not axis:
            continue
        touching = [part for part in components if any(set(axis) & set(other) for other in part)]
        components = [part for part in components if part not in touching]
        components.append([one for part in touching for one in part] + [axis])
    return tuple(_combined_form(component, extents) for component in components)


def _combined_form(axes: list[dict[str, int]], extents: dict[str, int]) -> IndexGroup:
    totals: dict[str, int] = {}
    factor = 1
    for axis in axes:
        reach = sum(abs(coefficient) * (extents[dim] - 1) for dim, coefficient in axis.items())
        for dim, coefficient in axis.items():
            totals[dim] = totals.get(dim, 0) + factor * coefficient
        # Differences of two elements lie within +-reach, so a factor above twice that keeps axes apart.
        factor *= 4 * reach + 3
    # A dim of one index moves nothing: a window of 1 x 1 is an ordinary axis.
    moving = {dim for dim in totals if extents[dim] > 1} or {next(iter(totals))}
    ordered = [dim for dim in extents if dim in moving]
    return IndexGroup(tuple(ordered), tuple(totals[dim] for dim in ordered))


def _classes(arch: Architecture, *, has_window: bool) -> tuple[FanoutClass, ...]:
    """Return the classes of fan-outs. One that costs energy is a class by itself, and so is each of a group that counts
    loads of a window unlike: another one's loop may stand between theirs."""
    found: list[FanoutClass] = []
    below = number = 0
    for _, run in groupby(arch.nodes, lambda node: isinstance(node, Fanout)):
        nodes = list(run)
        below += sum(isinstance(node, MemoryLevel) for node in nodes)
        own = dict(enumerate((node for node in nodes if isinstance(node, Fanout)), number))
        kinds = {i: _kind_of(fanout, i) for i, fanout in own.items()}
        is_apart = has_window and len(set(kinds.values())) > 1
        keyed = [((i if is_apart else 0, kinds[i], fanout.reduction), i) for i, fanout in own.items()]
        for (_, (multicast, _), reduction), some in groupby(keyed, itemgetter(0)):
            found.append(FanoutClass(below, multicast, reduction, tuple(i for _, i in some)))
        number += len(own)
    return tuple(found)


def _kind_of(fanout: Fanout, number: int) -> tuple[Multicast, int | None]:
    """Return what decides how a fan-out counts loads that pass it."""
    return fanout.multicast, number if fanout.has_energies else None
