"""One nest for all that differ in names alone, or in dims that are one for every count.

Dims that the same accesses have, each on an axis of its own, are one dim of as many indices: tiles, loads and shares of
siblings depend on products of both alone. A dividing loop over it is a loop over each, of which the factors share its
primes. A dim that every access has moves everything anew: a tree without loops over it costs its part of the tree with
them at most, as sums of traffic do, and with one such loop outermost exactly that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, prod

from polymap.ir import (
    Access,
    Affine,
    Architecture,
    Compute,
    Dim,
    Mapping,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    bounds,
    dim,
    substituted,
)
from polymap.search.options import TUNING
from polymap.search.problem import AtLeast, Component, Factor, Goal, Held, Objective, Rule, Rules, Span
from polymap.search.relatives import Relative, is_plain_energy

Extents = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """The nest that is asked for. dims: what each of its dims stands for, in the order of its factors. tensors,
    statement: own names. batch: dims of loops outermost, which it lacks."""

    relative: Relative
    dims: dict[str, Extents]
    tensors: dict[str, str]
    statement: str
    batch: Extents = ()

    @property
    def times(self) -> int:
        """How often the nest runs."""
        return prod(extent for _, extent in self.batch)

    def own_nodes(self, mapping: Mapping) -> tuple[MappingNode, ...]:
        """Return the nodes of the own nest in place of those of a mapping."""
        left = {name: list(own) for name, own in self.dims.items()}
        nodes: list[MappingNode] = [Temporal(name, 1) for name, extent in self.batch if extent > 1]
        for node in mapping.nodes:
            if isinstance(node, Storage):
                nodes.append(replace(node, tensors=tuple(self.tensors[name] for name in node.tensors)))
            elif isinstance(node, Compute):
                nodes.append(Compute(self.statement))
            elif isinstance(node, Temporal | Spatial) and len(left[node.dim]) == 1:
                nodes.append(replace(node, dim=left[node.dim][0][0]))
            elif isinstance(node, Temporal | Spatial):
                trips = prod(length for _, length in left[node.dim]) // node.tile
                for at, (name, length) in enumerate(left[node.dim]):
                    own = gcd(trips, length)
                    trips //= own
                    left[node.dim][at] = name, length // own
                    nodes += [replace(node, dim=name, tile=length // own)] if own > 1 else []
        return tuple(nodes)

    def own_nodes_side_by_side(
        self, mapping: Mapping, arch: Architecture, fixed: Collection[str], given: Collection[tuple[str, str]]
    ) -> tuple[tuple[MappingNode, ...], int]:
        """Return the nodes of the own nest, its runs side by side over what a mapping leaves of fan-outs, as far as
        that divides them, which moves no more; and how many are. fixed: fan-outs that have all of their loops. given:
        (tensor, level) with room for all runs; what stands elsewhere outside a fan-out would take more."""
        batch, names = [pair for pair in self.batch if pair[1] > 1], [each.name for each in arch.nodes]
        nodes, around, beside = list(self.own_nodes(mapping))[len(batch) :], list[MappingNode](), 1
        left, free = dict(sum(self.dims.values(), ())), {each.name: each.size for each in arch.fanouts}
        last = len(names)
        for node in nodes:
            if isinstance(node, Storage) and node.level != names[0]:
                is_given = all((name, node.level) in given for name in node.tensors)
                last = last if is_given else min(last, names.index(node.level))
            elif isinstance(node, Temporal | Spatial):
                trips, left[node.dim] = left[node.dim] // node.tile, node.tile
                if isinstance(node, Spatial):
                    free[node.fanout] //= trips
        for name, extent in batch:
            loops, rest = list[tuple[str, int]](), extent
            for fanout in (each for each in names[:last] if each in free and each not in fixed):
                own = gcd(rest, free[fanout])
                rest, free[fanout] = rest // own, free[fanout] // own
                loops += [(fanout, own)] if own > 1 else []
            tile = extent // rest
            around += [Temporal(name, tile)] if rest > 1 else []
            beside *= tile
            for fanout, own in loops:
                inner, tile = names[names.index(fanout) :], tile // own
                first = (at for at, node in enumerate(nodes) if _part_of(node) in inner)
                nodes.insert(next(first, len(nodes) - 1), Spatial(name, tile, fanout))
        return (*around, *nodes), beside


def form_of(
    relative: Relative, objective: Objective, apart: Collection[str], *, divides: bool, relaxes: bool = False
) -> Form | None:
    """Return the form of a nest, None where there is no room for it. apart: dims that rules tell from others. Rules say
    where tensors stand, all of them at once (AtLeast), and over how many siblings dims are spread. relaxes: whether of
    dims that are one no more is said than how many indices of all of them together are left at nodes (Span); rules on
    their siblings (Factor) then say that there is one, of all that are one."""
    nest, arch = relative.workload, relative.arch
    (statement,) = nest.statements
    accesses, extents = (statement.target, *statement.reads), nest.extents()
    is_alike = all(len(set(accesses_of(statement, each.name))) == 1 for each in nest.tensors)
    names_some = arch != arch.naming_only(()) or any(fanout.dims is not None for fanout in arch.fanouts)
    if not is_alike or names_some or not all(index.is_linear for each in accesses for index in each.index):
        return own_form(relative)
    is_plain = all(each.is_plain for each in accesses)
    plain = is_plain and is_plain_energy(arch) and not arch.is_timed_by_step
    groups = dict[tuple[tuple[bool, ...], str], list[tuple[str, int]]]()
    factors = [rule for rule in relative.rules if isinstance(rule, Factor)]
    which = {name: tuple(name in access.dims for access in accesses) for name in extents}
    order = (
        sorted(extents.items(), key=lambda pair: which[pair[0]], reverse=True) if nest.associative else extents.items()
    )
    for name, extent in order:
        same = str([each.fanout for each in factors if each.dim == name])
        told = same if relaxes else name if name in apart else ""
        key = which[name], told if plain and divides else name
        groups.setdefault(key, []).append((name, extent))
    adds_up = plain and objective.goal in (Goal.ENERGY, Goal.TRAFFIC)
    batch = [
        key
        for key, own in groups.items()
        if not any(name in apart for name, _ in own) and ((adds_up and all(key[0])) or all(n == 1 for _, n in own))
    ]
    batch = batch if len(batch) < len(groups) else []
    dims = {f"d{at}": tuple(groups[key]) for at, key in enumerate(key for key in groups if key not in batch)}
    tensors = {f"t{at}": name for at, name in enumerate(dict.fromkeys(each.tensor for each in accesses))}
    left_out = tuple(pair for key in batch for pair in groups[key])
    times = prod(extent for _, extent in left_out)
    others = [rule for rule in relative.rules if isinstance(rule, AtLeast)]  # stand there as often
    taken = [(each.level, nest.tensor(each.tensor).bits * each.elements * (times - 1) // times) for each in others]
    room = with_less_room(arch, taken)
    if room is None:
        return None
    rules = _rules(relative.rules, dims, tensors, times)
    return Form(Relative(_rename_nest(nest, dims, tensors), room, rules), dims, tensors, statement.name, left_out)


def _part_of(node: MappingNode) -> str:
    """Return the level or the fan-out of a node; "" where it has none."""
    return node.level if isinstance(node, Storage) else node.fanout if isinstance(node, Spatial) else ""


def own_form(relative: Relative) -> Form:
    """Return a nest as it is."""
    nest = relative.workload
    own = {name: ((name, extent),) for name, extent in nest.extents().items()}
    return Form(relative, own, {each.name: each.name for each in nest.tensors}, nest.statements[0].name)


def _rename_nest(nest: Workload, dims: dict[str, Extents], tensors: dict[str, str]) -> Workload:
    (statement,) = nest.statements
    names = {own: name for name, own in tensors.items()}
    extents = {name: prod(extent for _, extent in own) for name, own in dims.items()}

    def access(old: Access) -> Access:
        if old.is_plain:
            return Access(names[old.tensor], tuple(dim(name) for name, own in dims.items() if own[0][0] in old.dims))
        values = {name: Affine() for name in old.dims} | {own[0][0]: dim(name) for name, own in dims.items()}
        forms = (substituted(form - form.constant, values) for form in old.index)
        return Access(names[old.tensor], tuple(forms))

    def tensor(old: Tensor) -> Tensor:
        own = next(each for each in (target, *reads) if each.tensor == names[old.name])
        ends = [bounds(form, extents) for form in own.index]
        shape, origin = tuple(high - low + 1 for low, high in ends), tuple(low for low, _ in ends)
        return replace(old, name=names[old.name], shape=shape, origin=origin)

    target, reads = access(statement.target), tuple(access(each) for each in statement.reads)
    alone = replace(statement, name="S", dims=tuple(dims), target=target, reads=reads, counters=())
    alone = replace(alone, position=(0,) * (len(dims) + 1))
    own_dims = tuple(Dim(name, extent) for name, extent in extents.items())
    return Workload("nest", own_dims, tuple(tensor(nest.tensor(own)) for own in names), (alone,), nest.associative)


def _rules(rules: Rules, dims: dict[str, Extents], tensors: dict[str, str], times: int) -> Rules:
    """Return the rules in other names, of one of so many times; of dims that are one, once."""
    names = {own: name for name, own in tensors.items()}
    places = {name: new for new, own in dims.items() for name, _ in own}
    found = list[Rule]()
    for rule in rules:
        if isinstance(rule, Held):
            found.append(replace(rule, tensor=names[rule.tensor]))
        elif isinstance(rule, AtLeast):
            found.append(replace(rule, tensor=names[rule.tensor], elements=rule.elements // times))
        elif isinstance(rule, Span):
            least, most = _left_of_all(rule, rules, dims[places[rule.dim]])
            found.append(replace(rule, tensor=names[rule.tensor], dim=places[rule.dim], least=least, most=most))
        elif isinstance(rule, Factor) and rule.dim in places:
            found.append(replace(rule, dim=places[rule.dim]))
    return tuple(dict.fromkeys(found))


def _left_of_all(rule: Span, rules: Rules, dims: Extents) -> tuple[int, int]:
    """Return how many indices of some dims together rules leave where one of them says it of one, at least and most."""
    place = rule.level, rule.tensor, rule.at
    alike = [each for each in rules if isinstance(each, Span) and (each.level, each.tensor, each.at) == place]
    least = prod(max((each.least for each in alike if each.dim == name), default=1) for name, _ in dims)
    return least, prod(min((each.most for each in alike if each.dim == name), default=extent) for name, extent in dims)


def with_less_room(arch: Architecture, taken: Iterable[tuple[str, int]]) -> Architecture | None:
    """Return the machine with so many bits fewer for tiles in some levels; None where one does not have as many, or
    none is left where a tensor must stand. A level of which none is left holds nothing."""
    fewer = Counter[str]()
    for level, bits in taken:
        fewer[level] += bits
    nodes = list(arch.nodes)
    for number, node in enumerate(nodes):
        if isinstance(node, MemoryLevel) and fewer[node.name] and node.usable_bits is not None:
            left = node.usable_bits - fewer[node.name]
            if left < 0 or (not left and node.must_hold):
                return None
            holds = node.holds if left else ()
            nodes[number] = replace(node, capacity_bits=max(1, left) * node.buffering, holds=holds)
    return replace(arch, nodes=tuple(nodes)) if any(fewer.values()) else arch


def with_time_priced(
    arch: Architecture, names: Collection[str], prices: Iterable[Fraction]
) -> Iterator[tuple[Architecture, Fraction]]:
    """Yield the machine where what some levels transfer in a cycle at most, all instances together, costs more energy,
    as much in each, and how much in all of them, nearly each of some prices (of few bits: near a better tree many are
    the same again): of a tree no more than that times its cycles, as no level takes more of these."""
    for price in prices:
        nodes, total = list(arch.nodes), Fraction(0)
        for at, level in enumerate(nodes):
            if isinstance(level, MemoryLevel) and level.name in names:
                width = bits_per_cycle(arch, level)
                per_bit = _in_few_bits(price / len(names) / width)
                more = per_bit * level.word_bits
                nodes[at] = replace(level, read_pj=level.read_pj + more, write_pj=level.write_pj + more)
                total += per_bit * width
        if total:
            yield replace(arch, nodes=tuple(nodes)), total


def _in_few_bits(value: Fraction) -> Fraction:
    """Return a value to four or five significant bits."""
    step = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - 4)
    return round(value / step) * step


def bits_per_cycle(arch: Architecture, level: MemoryLevel) -> Fraction:
    """Return the bits that all instances of a level read and write in a cycle at most."""
    apart = level.read_bandwidth_bits_per_cycle, level.write_bandwidth_bits_per_cycle
    width = Fraction(level.bandwidth_bits_per_cycle or sum(each or 0 for each in apart))
    return width * prod(fanout.size for fanout in arch.fanouts_above(level.name))


def part_paid(level: int) -> Fraction:
    """Return the part of what a level moves that is paid in a leg where the rest is counted by rounds."""
    return Fraction(1, 2 if level else TUNING.outermost_in_parts)


def paid_in_part(component: Component, places: Collection[tuple[int, int]]) -> Component:
    """Return a sum with a part of what so many outermost levels move of some tensors. places: (tensor, levels), by
    number."""
    in_part = {(level, tensor) for tensor, levels in places for level in range(levels)}
    read, write = (
        tuple(
            tuple(int(weight * part_paid(at)) if (at, tensor) in in_part else weight for tensor, weight in row)
            for at, row in enumerate(map(enumerate, rows))
        )
        for rows in (component.read, component.write)
    )
    return replace(component, read=read, write=write)
