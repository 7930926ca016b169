"""What stands around the legs of a segment: storage nodes and loops, outermost first, above a branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise, permutations, product, takewhile
from math import prod

from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    Fanout,
    MappingNode,
    MemoryLevel,
    Operator,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Workload,
    accesses_of,
    is_box,
    statements_below,
    written_tensors,
)
from polymap.search.driver import Search
from polymap.search.forms import part_paid
from polymap.search.legs import (
    Leg,
    Nodes,
    common_accesses,
    dividing_legs,
    elements_of,
    is_long,
    move_cost,
    passes_through_windows,
    shared_tile,
    simple_accesses,
)
from polymap.search.problem import Objective, Span, divisors
from polymap.search.programs import best_rounds, touched_alone, without_room


@dataclass(frozen=True, slots=True)
class HeldTile:
    """A tensor that a node above the legs holds, beside all of them. elements: of its tile, on one instance of the
    level."""

    tensor: str
    level: int
    elements: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Nodes above a branch, and what they leave to the legs. extents: of all dims, below the temporal loops. spread:
    (fan-out, dim, instances). held: outermost first."""

    nodes: Nodes
    extents: tuple[tuple[str, int], ...]
    spread: tuple[tuple[str, str, int], ...]
    held: tuple[HeldTile, ...]

    @staticmethod
    def of(program: Workload, arch: Architecture, nodes: Nodes) -> Surroundings | None:
        """Return what nodes leave to the legs; None where siblings cut a dim before a temporal loop does, statements
        may touch unlike parts of a tensor that some node holds, or there is no room."""
        tiles = program.extents()
        spread, held = list[tuple[str, str, int]](), list[HeldTile]()
        for node in nodes:
            if isinstance(node, Temporal):
                if any(dim == node.dim for _, dim, _ in spread):
                    return None
                tiles[node.dim] = min(tiles[node.dim], node.tile)
            elif isinstance(node, Spatial):
                length = lengths_per_instance(tiles, spread)[node.dim]
                if node.tile < length:
                    spread.append((node.fanout, node.dim, -(-length // node.tile)))
            elif isinstance(node, Storage):
                above = {fanout.name for fanout in arch.fanouts_above(node.level)}
                own = lengths_per_instance(tiles, [each for each in spread if each[0] in above])
                level = arch.level_index(node.level)
                sizes = {name: shared_tile(program, name, own) for name in node.tensors}
                if None in sizes.values():
                    return None
                if level:  # the outermost one holds everything
                    held += (HeldTile(name, level, elements or 0) for name, elements in sizes.items())
        taken = _bits_taken(program, held)
        rooms = {number: level.usable_bits for number, level in enumerate(arch.levels)}
        if any(room is not None and taken[number] > room for number, room in rooms.items()):
            return None
        nodes = tuple(node for node in nodes if not (isinstance(node, Storage) and not arch.level_index(node.level)))
        return Surroundings(nodes, tuple(tiles.items()), tuple(spread), tuple(held))

    def leaves_one(self, statement: Statement) -> bool:
        """Return whether each instance of a statement runs on siblings of its own."""
        instances = Counter[str]()
        for _, dim, many in self.spread:
            instances[dim] = many * (instances[dim] or 1)
        return all((instances[dim] or 1) >= extent for dim, extent in self.extents if dim in statement.dims)

    def leg(self, program: Workload, arch: Architecture, statement: Statement) -> Leg:
        """Return what is left of a statement."""
        inside = dict(self.extents)
        given = {each.tensor: each.level for each in self.held if accesses_of(statement, each.tensor)}
        taken = _bits_taken(program, self.held)
        for name, level in given.items():
            above = {fanout.name for fanout in arch.fanouts_above(arch.levels[level].name)}
            own = lengths_per_instance(inside, [each for each in self.spread if each[0] in above])
            taken[level] -= elements_of(accesses_of(statement, name)[0], own) * program.tensor(name).bits
        names = [each[0] for each in self.spread]
        names += [fanout.name for each in self.held for fanout in arch.fanouts_above(arch.levels[each.level].name)]
        return replace(
            Leg.of(statement, inside),
            given=tuple(given.items()),
            taken=tuple(sorted(taken.items())),
            spread=self.spread,
            fixed=tuple(dict.fromkeys(names)),
        )


@dataclass(frozen=True, slots=True)
class State:
    """Loops around a segment, and what stands in a level around some of them.

    loops: (dim, tile), outermost first. kept: what passes between the statements, below all loops. held: (tensor,
    number of loops above its node). backed: (tensor, level) whole in a level further out, as it passes often. bits:
    that the level holds. read, written: bits at the outermost level, if every leg moves each tensor once: no tree of
    the state moves fewer. again: (level, bits read, bits written) there.
    """

    loops: tuple[tuple[str, int], ...]
    level: int
    kept: tuple[str, ...]
    held: tuple[tuple[str, int], ...]
    bits: int
    read: int
    written: int
    backed: tuple[tuple[str, int], ...] = ()
    again: tuple[tuple[int, int, int], ...] = ()

    @property
    def kind(self) -> tuple[object, ...]:
        """What states have in common that differ in their tiles."""
        return tuple(dim for dim, _ in self.loops), self.level, self.held, self.backed

    def nodes(self, arch: Architecture) -> Nodes:
        """Return what stands above the legs."""
        found: list[MappingNode] = [
            Storage(arch.levels[number].name, tuple(name for name, level in self.backed if level == number))
            for number in sorted({level for _, level in self.backed})
        ]
        level = arch.levels[self.level].name
        for number in range(len(self.loops) + 1):
            here = tuple(name for name, place in self.held if place == number)
            here += self.kept if number == len(self.loops) else ()
            found += [Storage(level, here)] if here else []
            found += [Temporal(*self.loops[number])] if number < len(self.loops) else []
        return tuple(found)


def _bits_taken(program: Workload, held: Iterable[HeldTile]) -> Counter[int]:
    """Return the bits of tiles, by level."""
    taken = Counter[int]()
    for each in held:
        taken[each.level] += each.elements * program.tensor(each.tensor).bits
    return taken


def lengths_per_instance(extents: dict[str, int], spread: Iterable[tuple[str, str, int]]) -> dict[str, int]:
    """Return how long the dims are on one instance."""
    found = dict(extents)
    for _, dim, instances in spread:
        found[dim] = -(-found[dim] // instances)
    return found


def loops_above(leg: Nodes, level: str, tensors: tuple[str, ...]) -> set[str]:
    """Return the dims of the loops above the nodes of some tensors in a level."""
    return {_dim(node) for node in leg[: _place(leg, level, tensors)]}


def loops_first(nodes: Nodes, arch: Architecture) -> Nodes:
    """Return nodes with the spatial loops at first before the nodes of levels above fan-outs: tiles there are those of
    all siblings."""

    def is_first(node: MappingNode) -> bool:
        return isinstance(node, Spatial) or (isinstance(node, Storage) and not arch.fanouts_above(node.level))

    head = [*takewhile(is_first, nodes)]
    return (*sorted(head, key=lambda node: isinstance(node, Storage)), *nodes[len(head) :])


def read_off(leg: Nodes, program: Workload, level: str, kept: tuple[str, ...], shared: tuple[str, ...]) -> Nodes:
    """Return what would stand around the legs of a program as it stands, in the nodes of one of its statements, above
    the nodes of what passes between them in a level: loops over dims that all statements share, and the nodes of other
    tensors above them."""
    above = leg[: _place(leg, level, kept)]
    end = max((at + 1 for at, node in enumerate(above) if _dim(node) in shared), default=0)
    common, nodes = common_accesses(program), list[MappingNode]()
    for node in above[:end]:
        if isinstance(node, Storage):
            nodes += node.of(lambda name: name in common and name not in kept)
        elif _dim(node) in shared:
            nodes.append(node)
    return (*nodes, Storage(level, kept))


def _place(leg: Nodes, level: str, tensors: tuple[str, ...]) -> int:
    """Return the number of the innermost node of some tensors in a level."""
    return max((at for at, node in enumerate(leg) if _holds(node, level, tensors)), default=0)


def _dim(node: MappingNode) -> str:
    return node.dim if isinstance(node, Temporal | Spatial) else ""


def _holds(node: MappingNode, level: str, tensors: tuple[str, ...]) -> bool:
    return isinstance(node, Storage) and node.level == level and any(name in tensors for name in node.tensors)


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring statements that share a dim which fan-outs may spread: `begin` to `end` of a program. inner: what
    stands around them alone, outer: around all statements."""

    begin: int
    end: int
    outer: Nodes
    inner: Nodes


def runs_over_fanouts(program: Workload, arch: Architecture, kept: tuple[str, ...]) -> Iterator[Run]:
    """Yield what may stand around the statements that have a dim spread over one fan-out, or over all those above a
    level; the dims that all accesses have, and what passes on without that dim, stand around all statements."""
    accesses, statements = simple_accesses(program), program.statements
    touched = [{dim for index in each.index for dim in index.dims} for s in statements for each in (s.target, *s.reads)]
    batch = {dim for dim in program.extents() if all(dim in dims for dims in touched)}
    outer = tuple(Temporal(dim, 1) for dim, extent in program.extents().items() if dim in batch and extent > 1)
    dims = [dim for dim, extent in program.extents().items() if extent > 1 and dim not in batch]
    together = (permutations(arch.fanouts_above(each.name)) for each in arch.levels)
    orders = dict.fromkeys((*((each,) for each in arch.fanouts), *(order for some in together for order in some)))
    for dim, time in product(dims, dims):
        places = [at for at, each in enumerate(statements) if dim in each.dims]
        begin, end = places[0], places[-1] + 1
        own = statements[begin:end]
        if dim == time or not 2 <= len(places) == end - begin or not all(time in each.dims for each in own):
            continue
        names = [name for name in accesses if any(accesses_of(each, name) for each in own)]
        inside = [name for name in kept if name in names and dim in accesses[name].dims]
        whole = _storage_nodes(program, _above(arch), [name for name in kept if name not in inside])
        if whole is None or not all(time in accesses[name].dims for name in kept if name in names):
            continue
        read = [name for name in names if name not in kept and {dim, time} & set(accesses[name].dims)]
        for order in filter(None, orders):
            ways = _inside(program, arch, order, (dim, time), (read, inside))
            inner = next(
                (each for each in ways if Surroundings.of(program, arch, (*outer, *whole, *each)) is not None), None
            )
            if inner is not None:
                yield Run(begin, end, (*outer, *whole), inner)


def _inside(
    program: Workload,
    arch: Architecture,
    order: tuple[Fanout, ...],
    dims: tuple[str, str],
    names: tuple[list[str], list[str]],
) -> Iterator[Nodes]:
    """Yield what may stand below what passes on without a dim: fan-outs over which it is spread, first of all those of
    an order, a loop over another dim, with the largest tiles first, and what passes on with the dim. Of what is read
    again, siblings hold their parts; else it stands around them, and the other dim is spread, too."""
    accesses, extents, (dim, time) = simple_accesses(program), program.extents(), dims
    read, inside = names
    again = [name for name in read if dim in accesses[name].dims and time not in accesses[name].dims]
    below = [each for each in arch.levels[1:] if {*order} <= {*arch.fanouts_above(each.name)}]
    held, passed = _storage_nodes(program, below, again), _storage_nodes(program, below, inside)
    whole, tiles = (
        _storage_nodes(program, _above(arch), [name for name in read if (name in again) == is_whole])
        for is_whole in (True, False)
    )
    if passed is None or not again:
        return
    loops = [
        (tile, (Temporal(time, tile),) if tile < extents[time] else ()) for tile in reversed(divisors(extents[time]))
    ]
    if held is not None:
        yield from ((*_spread_loops(arch, order, {dim: extents[dim]}), *held, *loop, *passed) for _, loop in loops)
    if whole is not None and tiles is not None and len(order) > 1:
        for tile, loop in loops:
            yield (*whole, *loop, *tiles, *_spread_loops(arch, order, {dim: extents[dim], time: tile}), *passed)


def _spread_loops(arch: Architecture, order: tuple[Fanout, ...], left: dict[str, int]) -> Nodes:
    """Return loops over fan-outs, of each in an order as many instances as there are, of the first dims first."""
    found = list[tuple[int, str, str, int]]()
    for fanout in order:
        size = fanout.size
        for dim, extent in left.items():
            if fanout.dims is None or dim in fanout.dims:
                many = max(n for n in divisors(extent) if n <= size)
                left, size = left | {dim: extent // many}, size // many
                found += [(arch.fanouts.index(fanout), fanout.name, dim, many)] if many > 1 else []
    nodes = list[MappingNode]()
    for _, name, dim, many in sorted(found, key=lambda each: each[0], reverse=True):
        nodes.insert(0, Spatial(dim, left[dim], name))
        left[dim] *= many
    return tuple(nodes)


def _above(arch: Architecture) -> list[MemoryLevel]:
    """Return the levels above all fan-outs but the outermost, the innermost first."""
    return [each for each in reversed(arch.levels[1:]) if not arch.fanouts_above(each.name)]


def _storage_nodes(program: Workload, levels: list[MemoryLevel], names: list[str]) -> Nodes | None:
    """Return nodes for some tensors, each in the first of the levels that may hold it; None where one has no level."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        level = next((each.name for each in levels if each.may_hold(program.tensor(name))), None)
        if level is None:
            return None
        found[level] = (*found.get(level, ()), name)
    return tuple(Storage(level.name, found[level.name]) for level in levels if level.name in found)


def levels_above_fanouts(arch: Architecture, program: Workload, kept: tuple[str, ...]) -> list[int]:
    """Return the levels that may hold what passes between statements for all siblings: those of one instance."""
    tensors = [program.tensor(name) for name in kept]
    return [
        number
        for number, level in enumerate(arch.levels)
        if number and not arch.fanouts_above(level.name) and all(level.may_hold(each) for each in tensors)
    ]


def with_one_more(program: Workload, arch: Architecture, nodes: Nodes, tensors: frozenset[str]) -> Iterator[Nodes]:
    """Yield the trees with one more node above the branch, for which there is room: one of some tensors in a level and
    above some of the loops, in place of its nodes in that level in the legs."""
    *around, last = nodes
    if not isinstance(last, Branch):
        return
    there = {(name, node.level) for node in around if isinstance(node, Storage) for name in node.tensors}
    places = [0, *(at + 1 for at, node in enumerate(around) if isinstance(node, Temporal | Spatial))]
    for name in (each.name for each in program.tensors if each.name in tensors):
        for level in arch.levels[1:]:
            if (name, level.name) in there or not level.may_hold(program.tensor(name)):
                continue
            inside = Branch(tuple(without_nodes(child, (name,), (level.name,)) for child in last.children))
            for at in places:
                above = (*around[:at], Storage(level.name, (name,)), *around[at:])
                if is_in_order(arch, (*above, inside)) and Surroundings.of(program, arch, above) is not None:
                    yield (*above, inside)


def with_one_level_changed(program: Workload, arch: Architecture, nodes: Nodes) -> Iterator[Nodes]:
    """Yield the trees with one tensor above the branch in another level above all fan-outs, if there is room for it."""
    *around, last = nodes
    stores = [(at, node, name) for at, node in enumerate(around) if isinstance(node, Storage) for name in node.tensors]
    for at, node, name in stores:
        for level in (arch.levels[number].name for number in levels_above_fanouts(arch, program, (name,))):
            moved = (*node.of(lambda each, name=name: each != name), Storage(level, (name,)))
            above = (*around[:at], *moved, *around[at + 1 :])
            is_new = level != node.level and isinstance(last, Branch) and is_in_order(arch, above)
            if is_new and Surroundings.of(program, arch, above) is not None:
                yield (*above, last)


def is_in_order(arch: Architecture, nodes: Nodes, above: Nodes = ()) -> bool:
    """Return whether each tensor's nodes follow the order of levels on every way, and loops over fan-outs above a level
    stand above its nodes."""
    for node in nodes:
        if isinstance(node, Branch):
            return all(is_in_order(arch, child, above) for child in node.children)
        stores = [each for each in above if isinstance(each, Storage)]
        if isinstance(node, Spatial):
            inner = (each.level for each in stores)
            if any(node.fanout == fanout.name for level in inner for fanout in arch.fanouts_above(level)):
                return False
        elif isinstance(node, Storage):
            level = arch.level_index(node.level)
            if any(set(node.tensors) & set(each.tensors) and arch.level_index(each.level) >= level for each in stores):
                return False
        above = (*above, node)
    return True


def without_nodes(nodes: Nodes, tensors: Collection[str], levels: Collection[str] | None = None) -> Nodes:
    """Return the nodes without those for some tensors, in some levels (None: in all)."""
    found: list[MappingNode] = []
    for node in nodes:
        if isinstance(node, Branch):
            found.append(Branch(tuple(without_nodes(child, tensors, levels) for child in node.children)))
        elif isinstance(node, Storage) and (levels is None or node.level in levels):
            found += node.of(lambda name: name not in tensors)
        else:
            found.append(node)
    return tuple(found)


def element_by_element(program: Workload) -> Iterator[tuple[Statement, Statement]]:
    """Yield neighbouring statements of which the second makes an element of each that the first leaves for it alone."""
    for first, second in pairwise(program.statements):
        passed, made = program.tensor(first.target.tensor), program.tensor(second.target.tensor)
        touching = [each for each in program.statements if accesses_of(each, passed.name)]
        is_alone = touching == [first, second] and passed.temporary and not (passed.initial or made.initial)
        is_each = {*second.dims} == {*first.target.dims} == {*second.target.dims} and first.target.is_box
        is_each &= all(access == first.target for each in touching for access in accesses_of(each, passed.name))
        is_set = second.operator is Operator.ASSIGN and made.name not in {each.tensor for each in second.reads}
        if is_alone and is_each and is_set and is_box(first) and is_box(second):
            yield first, second


def with_second_inside(
    program: Workload, arch: Architecture, pair: tuple[Statement, Statement], nodes: Nodes
) -> Iterator[Nodes]:
    """Yield the trees in which what the second of a pair (`element_by_element`) takes of the first one stands in a node
    of a level inside the first one's loops, above those over what that sums up; the second one runs beside these."""
    first, second = pair
    passed, summed = first.target.tensor, {*first.dims} - {*first.target.dims}
    leg = (*(Temporal(name, 1) for name in second.dims), Compute(second.name))

    def without_second(own: Nodes) -> Nodes:
        *above, last = own
        if not isinstance(last, Branch):
            return () if second.name in statements_below(own) else own
        children = tuple(child for child in map(without_second, last.children) if child)
        stores = without_nodes(tuple(above), (passed,))
        return () if not children else (*stores, *(children[0] if len(children) == 1 else (Branch(children),)))

    def inside(own: Nodes) -> Iterator[Nodes]:
        *above, last = own
        if isinstance(last, Branch):
            (at,) = (at for at, each in enumerate(last.children) if first.name in statements_below(each))
            for child in inside(last.children[at]):
                yield (*above, Branch((*last.children[:at], child, *last.children[at + 1 :])))
            return
        end = next((at for at, node in enumerate(own) if _dim(node) in summed), len(above))
        for at, number in product(range(end, -1, -1), levels_that_may_hold(program, arch, passed, 1)):
            outer = [each.name for each in arch.levels[: number + 1]]
            rest = without_nodes(own[at:], (passed,), outer)
            stores = Storage(arch.levels[number].name, (passed,))
            yield (*without_nodes(own[:at], (passed,)), stores, Branch((rest, leg)))

    yield from (each for each in inside(without_second(nodes)) if is_in_order(arch, each))


@dataclass(frozen=True, slots=True)
class Met:
    """A tensor that a statement does not touch, and what it shares with a user of it: the nodes of both stand on the
    user's way, so the one inside stands on the statement's, too, or the other does."""

    tensor: str
    shared: str
    user: str


def nodes_met(workload: Workload, once: Mapping[str, Collection[str]]) -> dict[str, Met]:
    """Return, by statement, what it meets, the largest such tensor. once: by statement, what is charged to others."""
    written, found = written_tensors(workload), dict[str, Met]()
    sizes = {each.name: prod(each.shape) for each in workload.tensors if each.name in written}
    for own in workload.statements:
        met = list[Met]()
        for shared in sizes:
            users = [
                each for each in workload.statements if accesses_of(each, shared) and shared not in once[each.name]
            ]
            if own in users and len(users) == 2:
                user = next(each for each in users if each != own)
                before = {each.target.tensor for each in workload.statements[: workload.statements.index(own)]}
                names = [each for each in sizes if each in before and accesses_of(user, each)]
                names = [each for each in names if not accesses_of(own, each)]
                met += [Met(name, shared, user.name) for name in names]
        if met:
            found[own.name] = max(met, key=lambda each: sizes[each.tensor])
    return found


def levels_that_may_hold(program: Workload, arch: Architecture, tensor: str, least: int) -> list[int]:
    """Return the levels that may hold a tensor, from one inwards."""
    own, levels = program.tensor(tensor), [*enumerate(arch.levels)][least:]
    return [number for number, level in levels if not number or level.may_hold(own)]


def sides_of(
    program: Workload,
    arch: Architecture,
    statement: str,
    met: Met,
    level: int,
    ranges: Mapping[str, tuple[int, int]],
    nodes: Mapping[str, list[int]],
) -> Iterator[tuple[Span, ...]]:
    """Yield what is left at nodes of a statement in every case of where the node stands that it meets: inside that of
    what it shares with the user; or around it, and inside some nodes of its largest other operand. level: of the node
    that it meets. ranges: of indices left there, by dim. nodes: levels of tensors that have some, outermost first."""
    whole, names = program.extents(), [each.name for each in arch.levels]

    def left(tensor: str, around: Sequence[int], inside: Sequence[int]) -> Iterator[Span]:
        for at, (dim, (least, most)) in product((*around, *inside), ranges.items()):
            ends = (least, whole[dim]) if at in around else (1, most)
            if ends != (1, whole[dim]):
                yield Span(names[at], tensor, names[min(at, level)], dim, *ends)

    shared = nodes[met.shared]
    yield tuple(left(met.shared, shared[:1], ()))
    others = {each.tensor for each in program.statement(statement).reads if each.tensor in nodes} - {met.shared}
    sizes = {each.name: prod(each.shape) for each in program.tensors if each.name in others}
    other = max(sizes, key=lambda name: sizes[name], default="")
    places = nodes[other] if other else []
    for outer in range(len(places) + 1):
        yield (*left(met.shared, (), shared), *left(other, places[:outer], places[outer:]))


@dataclass(frozen=True, slots=True)
class Stay:
    """Where a tensor that one statement leaves for another stands first on their ways.

    level: 0: nowhere around both, it passes through the outermost one. spans: (dim, least, most): as many indices are
    left there. held: (other tensor, whether its node in that level stands around both statements); where nothing is
    said of one, either may be. also_outside: whether one of several readers gets it from the outermost level. inside:
    whether it is known that none does: then it stands there first on the ways of all. shared: the level of the
    innermost node that two readers share, if there is no room for what both alone read, and the one that has none of
    its own around loops around that node; 0: another level. apart: level 0, and its one reader is charged for all that
    it gets from the outermost level. anew: (user, what it costs at least, of what is not paid in its leg, that the
    outermost level moves what that alone touches, and that levels above all fan-outs do) in so many rounds of the loops
    around both; bits: that the level holds in one. wider: the stay of which this is a part.
    """

    level: int
    spans: tuple[tuple[str, int, int], ...] = ()
    held: tuple[tuple[str, bool], ...] = ()
    also_outside: bool = False
    inside: bool = False
    shared: tuple[int, str] | None = None
    apart: bool = False
    anew: tuple[tuple[str, Fraction, Fraction], ...] = ()
    bits: int = 0
    wider: Stay | None = field(default=None, compare=False, repr=False)

    @property
    def of_any_rounds(self) -> Stay:
        """Return the stay in any number of rounds."""
        return replace(self, anew=(), bits=0, wider=self.wider and self.wider.of_any_rounds)

    @property
    def whole(self) -> Stay:
        """Return the stay in any number of rounds that this is a part of."""
        return self.wider.whole if self.wider is not None else self.of_any_rounds


Stays = Mapping[str, Stay]  # by the tensor


def told_in_rounds(search: Search) -> tuple[str, ...]:
    """Return the tensors of which it is told what their two users move anew in rounds of the loops above both."""
    workload = search.workload
    is_known = dividing_legs(search, workload.statements[-1]) and not is_long(workload)
    return without_room(workload, search.arch) if is_known and passes_through_windows(workload) else ()


def in_rounds(search: Search, objective: Objective, of: tuple[str, Stay], *, in_lines: bool) -> list[Stay]:
    """Return a tensor's stay above all fan-outs in every number of rounds that matters; as it is where none are."""
    own, (tensor, stay), numbers = (search.arch, objective), of, range(len(search.arch.levels))
    costs = [[(1 - part_paid(at)) * move_cost(*own, at, *way) for way in ((1, 0), (0, 1))] for at in numbers]
    found = best_rounds(search.workload, search.arch, (tensor, stay.level), costs, in_lines=in_lines)
    return [stay] if found is None else [replace(stay, anew=anew, bits=bits) for anew, bits in found]


def full_when_shared(
    search: Search, tensor: str, readers: Sequence[str], levels: Iterable[int]
) -> list[tuple[int, str]]:
    """Return the levels without room for an element of a tensor and one of what each of its two readers alone touches,
    each with both of these: one has none around loops around a node that they share there."""
    workload, found = search.workload, list[tuple[int, str]]()
    for number in levels if len(readers) == 2 and tensor in simple_accesses(workload) else ():
        level = search.arch.levels[number]
        every = [touched_alone(workload, one, [each for each in readers if each != one]) for one in readers]
        kept = [[each.bits for each in own if level.may_hold(each)] for own in every]
        bits = workload.tensor(tensor).bits + sum(min(each, default=0) for each in kept)
        found += [] if level.has_room_for(bits) else [(number, reader) for reader in readers]
    return found


def have_room(arch: Architecture, stays: Iterable[Stay]) -> bool:
    """Return whether levels have room for what stands around a statement in some rounds."""
    taken = Counter[int]()
    for stay in stays:
        taken[stay.level] += stay.bits
    return all(arch.levels[level].has_room_for(bits) for level, bits in taken.items() if level)


def with_room(search: Search, tensor: str, stay: Stay, above: Collection[int]) -> Stay:
    """Return a stay in one of the levels above fan-outs without sizes for which that has no room."""
    own, room = search.workload.tensor(tensor), search.arch.levels[stay.level].usable_bits
    if room is None or stay.level not in above:
        return stay
    least, whole = prod(least for _, least, _ in stay.spans), search.workload.extents()
    spans = (
        (dim, low, max(size for size in divisors(whole[dim]) if low <= size <= max(low, most)))
        for dim, low, high in stay.spans
        for most in (min(high, room // own.bits * low // least),)
    )
    return replace(stay, spans=tuple(spans))


def not_said(search: Search, tensor: str, stay: Stay) -> Iterator[str]:
    """Yield the tensors of which a stay says nothing, and of which it matters whether they are around both users."""
    workload, level = search.workload, search.arch.levels[stay.level]
    users = [each for each in workload.statements if accesses_of(each, tensor)]
    if not stay.spans or len(users) != 2:
        return
    for name, access in simple_accesses(workload).items():
        own = [each for each in users if accesses_of(each, name)]
        lacks = any(dim not in access.dims for dim, _, _ in stay.spans)
        is_open = len(own) == 1 and lacks and name not in dict(stay.held)
        if is_open and level.may_hold(workload.tensor(name)):
            yield name


def in_two(stay: Stay, dim: str, sizes: tuple[int, ...]) -> list[Stay]:
    """Return a stay with all of a dim, if it may have that, and with less; else with its larger and its smaller
    sizes."""
    (own,) = ([size for size in sizes if least <= size <= most] for name, least, most in stay.spans if name == dim)
    middle = len(own) - 1 if own[-1] == sizes[-1] else len(own) // 2
    ends = [(part[0], part[-1]) for part in (own[middle:], own[:middle])]
    spans = (tuple((each[0], *end) if each[0] == dim else each for each in stay.spans) for end in ends)
    return [replace(stay, spans=each, wider=stay) for each in spans]


def read_in_parts(search: Search) -> dict[str, tuple[str, ...]]:
    """Return, by tensor, the readers that load as much of it, each more than once perhaps, if there are several."""
    workload, found = search.workload, dict[str, tuple[str, ...]]()
    written, alike, extents = written_tensors(workload), simple_accesses(workload), workload.extents()
    for tensor in workload.tensors:
        readers = [each for each in workload.statements if _reads(each, tensor.name)]
        sizes = {each.name: prod(extents[name] for name in each.dims) for each in readers}
        often = [each for each in readers if set(accesses_of(each, tensor.name)[0].dims) < set(each.dims)]
        most = [each.name for each in often if sizes[each.name] == max(sizes.values())]
        is_alike = tensor.name in alike or tensor.name not in written
        is_needed = tensor.name in written and any(level.requires(tensor) for level in search.arch.levels)
        if len(most) > 1 and is_alike and not is_needed:
            found[tensor.name] = tuple(most)
    return found


def read_once(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Return, by statement, the tensors that are charged to others: what several statements read (the one with most
    instances is charged), or what one reads otherwise than another writes it (all that it loads may stay)."""
    found: dict[str, tuple[str, ...]] = {each.name: () for each in workload.statements}
    written, extents = written_tensors(workload), workload.extents()
    alike = simple_accesses(workload)
    for tensor in workload.tensors:
        readers = [each for each in workload.statements if _reads(each, tensor.name)]
        if len(readers) < 2 and (tensor.name in alike or tensor.name not in written):
            continue
        is_alike = tensor.name in alike or tensor.name not in written
        most = max(readers, key=lambda each: prod(extents[name] for name in each.dims)) if is_alike else None
        for each in readers:
            if each is not most:
                found[each.name] = (*found[each.name], tensor.name)
    return found


def _reads(statement: Statement, tensor: str) -> bool:
    """Return whether a statement reads what it does not write itself."""
    return statement.target.tensor != tensor and bool(accesses_of(statement, tensor))


def summed_up_between(workload: Workload, tensor: str) -> tuple[str, ...]:
    """Return the dims of a tensor over which one of its readers sums up what another one needs, all in between touched
    alike: no temporal loop over them stands above both."""
    alike, found = simple_accesses(workload), dict[str, None]()
    readers = [each for each in workload.statements if tensor in alike and _reads(each, tensor)]
    for reader in readers:
        needed = {reader.target.tensor}
        for each in workload.statements[workload.statements.index(reader) + 1 :]:
            if any(name in alike and _reads(each, name) for name in needed):
                needed.add(each.target.tensor)
                if each in readers and reader.operator is not Operator.ASSIGN:
                    found |= dict.fromkeys(dim for dim in alike[tensor].dims if dim not in reader.target.dims)
    return tuple(found)


def pass_cost(workload: Workload, own: tuple[Architecture, Objective], passed: tuple[str, str], level: int) -> Fraction:
    """Return what a pass to or from a level costs (passed: statement, tensor); a writer's where it stays needed."""
    statement, tensor = passed
    writes = workload.statement(statement).target.tensor == tensor
    if writes and not workload.tensor(tensor).temporary:
        return Fraction(0)
    target = next(each.target for each in workload.statements if each.target.tensor == tensor)
    bits = workload.tensor(tensor).bits * elements_of(target, workload.extents())
    source, drain = (level, 0) if writes else (0, level)
    return move_cost(*own, source, bits, 0) + move_cost(*own, drain, 0, bits)
