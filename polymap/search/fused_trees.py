"""Trees of several statements, from what stands around them: legs asked of the search of nests, each tree counted as it
is, more held above a branch while that pays, and neighbours that share loops inside others'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, product, takewhile
from math import prod

from polymap.ir import (
    Access,
    Branch,
    BudgetError,
    Compute,
    Mapping,
    MappingNode,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Workload,
    accesses_of,
    part_of,
    statements_below,
)
from polymap.resources import Stop
from polymap.search.around import (
    Surroundings,
    element_by_element,
    levels_above_fanouts,
    loops_above,
    loops_first,
    read_off,
    runs_over_fanouts,
    with_one_level_changed,
    with_one_more,
    with_second_inside,
    without_nodes,
)
from polymap.search.driver import Search
from polymap.search.legs import (
    Interface,
    Leg,
    Nodes,
    as_written,
    elements_touched,
    is_long,
    legs_of,
    move_cost,
    passes_through_windows,
    takes_long_to_climb,
)
from polymap.search.options import TUNING
from polymap.search.problem import Goal, Objective, Span, divisors, objective_values
from polymap.search.programs import spread_too, tile_plan


@dataclass(frozen=True, slots=True)
class Part:
    """The best nodes found for a segment, and what they cost alone: outside, of it at the outermost level, which moves
    some tensors more than once."""

    value: Fraction
    nodes: Nodes
    outside: Fraction = Fraction(0)
    moved_again: frozenset[str] = frozenset()
    passes: tuple[tuple[str, int, int], ...] = ()  # tensor, bits read and written at the outermost level


class TreeCounts(dict[tuple[tuple[str, ...], Nodes], Part | float | None]):
    """The trees of some statements of a program that were counted, by one objective: a search that goes on meets them
    again. None: not legal. A number: so many seconds of CPU time do not suffice to say."""


class FusedTrees:
    """Trees of the statements of a program, by one objective. workload: the program, or it with its loops renamed.
    divides: whether tiles divide."""

    def __init__(self, search: Search, workload: Workload, objective: Objective, *, divides: bool) -> None:
        self._search, self._workload, self.objective, self._divides = search, workload, objective, divides
        self._known = search.engines.made(TreeCounts, TreeCounts, (objective.text, workload))

    def alone(self, program: Workload, statement: Statement) -> Part | None:
        """Return a statement in its own best mapping."""
        nodes = self._leg(Leg.of(statement, program.extents()))
        return self._counted(program, nodes or as_written(statement))

    def below(self, program: Workload, nodes: Nodes) -> Part | None:
        """Return the tree with some nodes above the best legs; None where a leg has no mapping, or the tree is not
        legal."""
        children = self._children(program, nodes, program.statements)
        return None if children is None else self._counted(program, (*nodes, Branch(children)))

    def below_tile_loops(self, program: Workload, interface: Interface, is_over: Stop) -> Part | None:
        """Return the best tree of a program in tiles below all loops over these: an iteration holds what lacks the dim
        of one more loop, inside which statements pass on what there is room for; or as it is estimated to move least
        (programs/tilings.py), then with larger tiles of other loops; None where there is none."""
        first = zip(*(each.dims for each in program.statements), strict=False)
        tiles = [dims[0] for dims in takewhile(lambda dims: len({*dims}) == 1, first) if dims[0] in interface.shared]
        found, arch = list[Part | None](), self._search.arch
        others = [name for name in interface.shared if name not in tiles]
        levels = levels_above_fanouts(arch, program, interface.kept) if tiles else []
        for number, dim in product(levels, others):
            lacks = (name for name, dims in _dims_of(program).items() if dim not in dims)
            held = tuple(name for name in lacks if arch.levels[number].may_hold(program.tensor(name)))
            kept = Storage(arch.levels[number].name, interface.kept)
            nodes = (*(Temporal(name, 1) for name in tiles), *_stores(kept.level, held), kept)
            with_room = None if is_over() else self._with_room(program, interface, nodes)
            part = None if with_room is None else self.below(program, with_room)
            found.append(part and self.with_more_held(program, part, is_over))
        for number in levels:
            part = None if is_over() else self._as_estimated(program, len(tiles), number)
            found.append(part and self._with_larger_tiles(program, part, is_over))
        return cheapest(found)

    def _as_estimated(self, program: Workload, many: int, number: int) -> Part | None:
        """Return the tree of a program below so many loops over tiles that holds in a level what it is estimated to;
        groups of neighbours stand below loops of their own. None where there is no room."""
        level = self._search.arch.levels[number]
        room = sum(each.bits * prod(each.shape) for each in program.tensors)
        plan = tile_plan(program, many, room if level.usable_bits is None else level.usable_bits)
        if plan is None:
            return None
        places = {name: at for name, at in plan.places.items() if level.may_hold(program.tensor(name))}
        above = list[MappingNode]()
        for place in range(many + 1):
            above += _stores(level.name, tuple(name for name, own in places.items() if own == place))
            above += (Temporal(name, 1) for name in plan.around[place : place + 1])
        above += _stores(level.name, plan.between)
        children = list[Nodes]()
        for group in plan.groups:
            inner = (*(Temporal(name, 1) for name in group.shared), *_stores(level.name, group.kept))
            legs = self._children(program, (*above, *inner), group.statements)
            if legs is None:
                return None
            children += [(*inner, Branch(legs))] if group.kept else legs
        last = children[0] if len(children) == 1 else (Branch(tuple(children)),)
        return self._counted(program, (*above, *last))

    def read_off(self, program: Workload, interface: Interface, is_over: Stop) -> Part | None:
        """Return the best of the trees that stand around what one statement alone would do."""
        trees = takewhile(lambda _: not is_over(), self._read_off(program, interface, is_over))
        return cheapest(self.with_more_held(program, part, is_over) for part in trees if part is not None)

    def _read_off(self, program: Workload, interface: Interface, is_over: Stop) -> Iterator[Part | None]:
        """Yield the trees that stand around what one statement alone would do, those likely to have room first."""
        seen, slides = set[Nodes](), passes_through_windows(program)
        for nodes in self._around(program, program.statements, interface, (), is_over):
            spread = {node.dim for node in nodes if isinstance(node, Spatial)}
            if slides and not all(spread <= each.dims_alone for each in _accesses(program, interface.kept)):
                continue  # siblings would share rows
            with_room = nodes if is_long(self._workload) else self._with_room(program, interface, nodes)
            trees = self._with_neighbours_inside(program, interface, nodes, is_over) if with_room != nodes else iter(())
            if slides:
                yield from (self._counted(program, each) for each in trees)
            if with_room is not None and with_room not in seen:
                seen.add(with_room)
                yield self.below(program, with_room)
            yield from (self._counted(program, each) for each in trees)

    def _with_neighbours_inside(
        self, program: Workload, interface: Interface, nodes: Nodes, is_over: Stop
    ) -> Iterator[Nodes]:
        """Yield the trees in which what only some of the statements pass on stands above a branch of their own, not
        above all of them."""
        ends = program.statements[0], program.statements[-1]
        inner = [name for name in interface.kept if not all(accesses_of(each, name) for each in ends)]
        for name, rest in product(inner if len(interface.kept) > 1 else (), self._with_rest_outside(program, nodes)):
            above = self._with_room(program, interface, without_nodes(rest, (name,)))
            users = [each for each in program.statements if accesses_of(each, name)]  # of which legs are asked inside
            others = tuple(each for each in program.statements if each not in users)
            legs = None if above is None else self._children(program, above, others)
            if above is not None and legs is not None:
                found = dict(zip(others, legs, strict=True))
                legs = tuple(found.get(each) or as_written(each) for each in program.statements)
                yield from self._with_one_branch_inside(program, (*above, Branch(legs)), is_over, (name,))

    def _with_rest_outside(self, program: Workload, nodes: Nodes) -> Iterator[Nodes]:
        """Yield what stands above a branch, first with what passes through windows in a level further out."""
        *above, last = nodes
        assert isinstance(last, Storage)
        unlike = tuple(name for name in last.tensors if passes_through_windows(program, (name,)))
        arch = self._search.arch
        for number in reversed(levels_above_fanouts(arch, program, unlike)) if unlike else ():
            if number < arch.level_index(last.level):
                yield (*above, Storage(arch.levels[number].name, unlike), *without_nodes((last,), unlike))
        yield nodes

    def _with_room(self, program: Workload, interface: Interface, nodes: Nodes) -> Nodes | None:
        """Return what stands above a branch, where there is no room for it with smaller tiles of the innermost loop, or
        with one more; None where that leaves none, either."""
        *above, kept = nodes
        loops, ways = [(at, node) for at, node in enumerate(above) if isinstance(node, Temporal)], [nodes]
        for at, last in loops[-1:]:
            tiles = [tile for tile in reversed(divisors(program.extents()[last.dim])) if tile < last.tile]
            ways += [(*above[:at], Temporal(last.dim, tile), *above[at + 1 :], kept) for tile in tiles]
        within = {node.dim for _, node in loops}
        for name in (each for each in interface.shared if each not in within):
            tiles = reversed(divisors(program.extents()[name])[:-1])
            ways += [(*above, Temporal(name, tile), kept) for tile in tiles]
        return next((way for way in ways if Surroundings.of(program, self._search.arch, way) is not None), None)

    def nearby(self, program: Workload, nodes: Nodes) -> Iterator[Nodes]:
        """Yield the trees on more siblings; those with one tensor above the branch in another level; and those with
        another tile of one loop there, and smaller ones of the innermost loop where that leaves no room."""
        yield from self._on_more_siblings(program, nodes)
        yield from with_one_level_changed(program, self._search.arch, nodes)
        (*above, last), interface, extents = nodes, Interface.of(program), program.extents()
        loops = [(at, node) for at, node in enumerate(above) if isinstance(node, Temporal)]
        alone = [each for each in loops if sum(node.dim == each[1].dim for _, node in loops) == 1]
        may_change = isinstance(last, Branch) and bool(above) and isinstance(above[-1], Storage)
        for at, node in alone if may_change else ():
            for tile in (each for each in divisors(extents[node.dim]) if each != node.tile):
                other = (Temporal(node.dim, tile),) if tile < extents[node.dim] else ()
                with_room = interface and self._with_room(program, interface, (*above[:at], *other, *above[at + 1 :]))
                if with_room:
                    yield (*with_room, last)

    def _on_more_siblings(self, program: Workload, nodes: Nodes) -> Iterator[Nodes]:
        """Yield the trees in which branches inside spread the dim of a loop around, too, over a fan-out of which they
        then use more siblings: that loop in larger tiles, the innermost one in the largest with room."""
        (*above, branch), extents = nodes, program.extents()
        loops = {node.dim: node for node in above if isinstance(node, Temporal)}
        left = extents | {dim: node.tile for dim, node in loops.items()}
        for fanout, dim in product(self._search.arch.fanouts, loops):
            found = dict[int, tuple[int, Branch]]()  # by how many siblings are used
            for many in divisors(extents[dim] // left[dim])[1:] if isinstance(branch, Branch) else ():
                assert isinstance(branch, Branch)
                tile = left[dim] * many
                parts = [spread_too(child, left | {dim: tile}, fanout, dim, many) for child in branch.children]
                found.setdefault(max(used for used, _ in parts), (tile, Branch(tuple(child for _, child in parts))))
            for tile, last in (each for used, each in found.items() if used):
                loop = (Temporal(dim, tile),) if tile < extents[dim] else ()
                at = above.index(loops[dim])
                yield from self._with_less_above(program, (*above[:at], *loop, *above[at + 1 :], last))

    def _with_less_above(self, program: Workload, nodes: Nodes) -> Iterator[Nodes]:
        """Yield the trees with the largest tiles of the innermost loop above a branch for which there is room if the
        smallest tensors there pass through the outermost level, or one stands above a branch of its users alone."""
        *above, last, branch = nodes
        loops = [(at, node) for at, node in enumerate(above) if isinstance(node, Temporal)]
        if not loops or not isinstance(last, Storage) or not isinstance(branch, Branch):
            return
        (at, loop), arch = loops[-1], self._search.arch
        sizes = {name: prod(program.tensor(name).shape) for name in last.tensors}
        names = sorted(sizes, key=lambda name: -sizes[name])
        below = [statements_below(child) for child in branch.children]
        is_found = False
        for tile, end in product(reversed(divisors(loop.tile)), range(len(names), 0, -1)):
            around, held = (*above[:at], replace(loop, tile=tile), *above[at + 1 :]), tuple(names[:end])
            if is_found and end == len(names):
                return
            if Surroundings.of(program, arch, (*around, Storage(last.level, held))) is not None:
                is_found = True
                yield (*around, Storage(last.level, held), branch)
            for name in held[1:]:
                rest = Storage(last.level, tuple(each for each in held if each != name))
                users = [number for number, own in enumerate(below) if _touch(program, own, name)]
                begin, stop = users[0], users[-1] + 1
                own = (Storage(last.level, (name,)), Branch(branch.children[begin:stop]))
                has_room = Surroundings.of(program, arch, (*around, rest, own[0])) is not None
                if 1 < stop - begin < len(below) and has_room:
                    is_found = True
                    yield (*around, rest, Branch((*branch.children[:begin], own, *branch.children[stop:])))

    def spread(self, program: Workload, interface: Interface, is_over: Stop) -> Part | None:
        """Return the best of the trees in which fan-outs spread a dim of neighbours above their branch."""
        parts, statements = list[Part | None](), program.statements
        for run in takewhile(lambda _: not is_over(), runs_over_fanouts(program, self._search.arch, interface.kept)):
            inside = self._children(program, (*run.outer, *run.inner), statements[run.begin : run.end])
            before = self._children(program, run.outer, statements[: run.begin])
            after = self._children(program, run.outer, statements[run.end :])
            if inside is None or before is None or after is None:
                continue
            own = (*run.inner, Branch(inside))
            nodes = (*run.outer, Branch((*before, own, *after))) if before or after else (*run.outer, *own)
            parts.append(self._counted(program, nodes))
        return cheapest(parts)

    def with_more_held(self, program: Workload, part: Part, is_over: Stop) -> Part:
        """Return a part with more nodes above its branch, one after the other, while that costs less; then with the
        best legs below them."""

        def with_one_more_held(one: Part) -> Iterator[Part | None]:
            trees = with_one_more(program, self._search.arch, one.nodes, one.moved_again)
            return (self._counted(program, nodes) for nodes in takewhile(lambda _: not is_over(), trees))

        best = _while_it_pays(part, with_one_more_held, is_over, TUNING.most_nodes_added)
        again = None if best is part or is_over() else self.part_with_best_legs(program, best.nodes)
        return cheapest((best, again)) or best

    def with_seconds_inside(self, program: Workload, nodes: Nodes, is_over: Stop) -> Part | None:
        """Return the best of a tree and those in which statements that work element by element stand inside the loops
        of those before them, or below loops with these alone: that leaves room for more; None where none is legal."""
        before = part = self._counted(program, nodes)
        for first, second in element_by_element(program):
            if part is None or not isinstance(part.nodes[-1], Branch):
                return part
            trees = with_second_inside(program, self._search.arch, (first, second), part.nodes)
            moved = [self._counted(program, each) for each in trees]  # soon done; of equal ones they leave more room
            below = self._with_one_branch_inside(program, part.nodes, is_over, (first.target.tensor,))
            part = cheapest((*moved, part, *(self._counted(program, each) for each in below)))
        if part is None or part is before:
            return part
        larger = self._with_larger_tiles(program, part, is_over)
        return self.with_more_held(program, larger, is_over)

    def with_room_made(self, program: Workload, part: Part, is_over: Stop) -> Part:
        """Return a part with one more tensor held above its branch, for which smaller tiles of the loops around make
        room, with the best legs below, if that costs less."""
        *above, last = part.nodes
        interface, arch, best = Interface.of(program), self._search.arch, part
        if interface is None or not isinstance(last, Branch) or not above or not isinstance(above[-1], Storage):
            return part
        there = {(name, node.level) for node in above if isinstance(node, Storage) for name in node.tensors}
        for name in (each.name for each in program.tensors if each.name in part.moved_again):
            for level in (arch.levels[number].name for number in levels_above_fanouts(arch, program, (name,))):
                nodes = (*above[:-1], Storage(level, (name,)), above[-1])
                if is_over() or (name, level) in there or Surroundings.of(program, arch, nodes) is not None:
                    continue
                with_room = self._with_room(program, interface, nodes)
                found = None if with_room is None else self.part_with_best_legs(program, (*with_room, last))
                best = cheapest((best, found)) or best
        return best

    def part_with_best_legs(self, program: Workload, nodes: Nodes) -> Part | None:
        """Return a tree with the best legs, None where one has no mapping, or the tree is not legal."""
        found = self.with_best_legs(program, (), nodes)
        return None if found is None else self._counted(program, found)

    def below_common_heads(self, program: Workload, children: Sequence[Nodes], is_over: Stop) -> Part | None:
        """Return parts below the spatial loops with which all of them begin, what several of them load above the branch
        where that pays; None where there are none, or the tree is not legal."""
        apart = [loops_first(child, self._search.arch) for child in children]
        heads = [list(takewhile(lambda node: isinstance(node, Spatial), child)) for child in apart]
        common = tuple(each[0] for each in takewhile(lambda each: len({*each}) == 1, zip(*heads, strict=False)))
        legs = tuple(child[len(common) :] for child in apart)
        part = self._counted(program, (*common, Branch(legs))) if common else None
        return None if part is None else self.with_more_held(program, part, is_over)

    def joined(self, program: Workload, children: Sequence[Nodes], apart: Fraction, is_over: Stop) -> Part | None:
        """Return the best of the trees in which neighbouring parts stand below a loop that all statements share, what
        passes between them with them, and perhaps above the loop what lacks its dim; in the innermost level above
        fan-outs in which some tree is found. apart: what the parts cost."""
        interface, arch = Interface.of(program), self._search.arch
        below = [statements_below(child) for child in children]
        kept = tuple(
            name
            for name in (() if interface is None else interface.kept)
            if sum(_touch(program, one, name) for one in below) > 1
        )
        best: Part | None = None
        within = ""  # the level
        shared, least = () if interface is None else interface.shared, apart - self.saved(program)
        for number, dim in product(reversed(levels_above_fanouts(arch, program, kept)), shared):
            lacks = tuple(name for name, dims in _dims_of(program).items() if dim not in dims)
            for held in dict.fromkeys((lacks, *((name,) for name in lacks), ())):
                in_vain, level = 0, arch.levels[number].name
                for tile in reversed(divisors(program.extents()[dim])[:-1]):
                    if is_over() or in_vain == TUNING.states_without_gain or within not in ("", level):
                        break
                    outside = self._around_all(program, number, [name for name in lacks if name not in held])
                    nodes = (*outside, *_stores(level, held), Temporal(dim, tile), *_stores(level, kept))
                    at_least = least + self._again(program, dim, tile, held)
                    most = apart * TUNING.promising if best is None else best.value
                    if at_least >= most or Surroundings.of(program, arch, nodes) is None:
                        continue
                    inside = [self._inside(program, nodes, child) for child in children]
                    legs = tuple(each for each in inside if each is not None)
                    found = self._counted(program, (*nodes, Branch(legs))) if len(legs) == len(inside) else None
                    if found is not None and (best is None or found.value < best.value):
                        best, in_vain, within = found, 0, level
                    elif found is not None:
                        in_vain += 1
        return None if best is None else self.with_more_held(program, best, is_over)

    def _around_all(self, program: Workload, level: int, names: Sequence[str]) -> Nodes:
        """Return nodes for tensors in the last level outside another one that has room for all of each alone."""
        nodes, levels = list[Storage](), self._search.arch.levels
        for name in names:
            places = [each for each in self._levels_with_room(program, name) if each < level]
            nodes += [Storage(levels[places[-1]].name, (name,))] if places else []
        return tuple(nodes)

    def _again(self, program: Workload, dim: str, tile: int, held: tuple[str, ...]) -> Fraction:
        """Return what it costs that tensors pass anew in each iteration of a loop but the first, each in a level around
        it with room for all of it."""
        again, trips, dims = Fraction(0), -(-program.extents()[dim] // tile), _dims_of(program)
        for each in program.tensors:
            if dim not in dims[each.name] and each.name not in held:
                size, places = prod(each.shape) * each.bits, (0, *self._levels_with_room(program, each.name))
                again += min(self.moved(number, size * (trips - 1), 0) for number in places)
        return again

    def _inside(self, program: Workload, above: Nodes, child: Nodes) -> Nodes | None:
        """Return a part below other nodes, without what these hold and loop over; where there is no room below one more
        loop, of the largest tiles for which there is; None where there is none."""
        arch, names = self._search.arch, statements_below(child)
        held = {name for node in above if isinstance(node, Storage) for name in node.tensors}
        outside = {node.dim for node in above if isinstance(node, Temporal)}
        *own, last = _inner_nodes(child if isinstance(child[-1], Branch) else (Branch((child,)),), held, outside)
        interface = Interface.of(part_of(program, tuple(each for each in program.statements if each.name in names)))
        loops = [
            Temporal(dim, tile)
            for dim in (interface.shared if interface else ())
            for tile in reversed(divisors(program.extents()[dim])[:-1])
            if dim not in outside and not any(isinstance(node, Temporal) and node.dim == dim for node in own)
        ]
        for nodes in (own, *((loop, *own) for loop in loops)):
            if Surroundings.of(program, arch, (*above, *nodes)) is not None:
                found = self.with_best_legs(program, above, (*nodes, last))
                if found is None or len(names) > 1:
                    return found
                (branch,) = found
                assert isinstance(branch, Branch)
                return branch.children[0]
        return None

    def with_branches_inside(self, program: Workload, part: Part, is_over: Stop) -> Part:
        """Return a part with neighbours below loops of their own, while that costs less."""

        def with_one_more_inside(one: Part) -> Iterator[Part | None]:
            for nodes in self._with_one_branch_inside(program, one.nodes, is_over):
                found = self._counted(program, nodes)
                is_promising = found is not None and found.value < one.value * TUNING.promising
                yield self._with_larger_tiles(program, found, is_over) if found and is_promising else found

        return _while_it_pays(part, with_one_more_inside, is_over)

    def _with_one_branch_inside(
        self, program: Workload, nodes: Nodes, is_over: Stop, tensors: Collection[str] = ()
    ) -> Iterator[Nodes]:
        """Yield the trees in which the neighbours from the first to the last user of a tensor (of these, if any are
        told), if not all, have a branch of their own, below what these alone pass on, or of it that tensor alone: first
        those that pass on most."""
        *around, branch = nodes
        assert isinstance(branch, Branch)
        below = [statements_below(child) for child in branch.children]
        passed = dict.fromkeys(tensors or (each.target.tensor for each in program.statements))
        users = {name: [at for at, one in enumerate(below) if _touch(program, one, name)] for name in passed}
        users = {name: (own[0], own[-1] + 1) for name, own in users.items() if own[0] < own[-1]}
        within = {
            (begin, end): tuple(name for name, own in users.items() if begin <= own[0] and own[1] <= end)
            for begin, end in users.values()
            if end - begin < len(below)
        }
        bits = {each.name: each.bits * prod(each.shape) for each in program.tensors}
        for begin, end in sorted(within, key=lambda span: -sum(bits[name] for name in within[span])):
            names = [name for one in below[begin:end] for name in one]
            statements = tuple(each for each in program.statements if each.name in names)
            interface = Interface.of(part_of(program, statements))
            if interface is None:
                continue
            alone = tuple(name for name in within[begin, end] if users[name] == (begin, end))
            for own in dict.fromkeys((within[begin, end], alone)):
                above = without_nodes(tuple(around), own)
                for inner in self._around(program, statements, replace(interface, kept=own), above, is_over):
                    legs = self._children(program, (*above, *inner), statements)
                    if legs is not None:
                        joined = (*inner, Branch(legs))
                        yield (*above, Branch((*branch.children[:begin], joined, *branch.children[end:])))

    def _with_larger_tiles(self, program: Workload, part: Part, is_over: Stop) -> Part:
        """Return a part with larger tiles of the loops above its branch, while that costs less."""

        def with_one_larger(one: Part) -> Iterator[Part | None]:
            for at, node in enumerate((nodes := one.nodes)[:-1]):
                if isinstance(node, Temporal) and not is_over():
                    extent = program.extents()[node.dim]
                    tiles = divisors(extent) if self._divides else (2 * node.tile,)
                    tile = next((each for each in tiles if each > node.tile), extent)
                    loops = (Temporal(node.dim, tile),) if tile < extent else ()
                    yield self.part_with_best_legs(program, (*nodes[:at], *loops, *nodes[at + 1 :]))

        return _while_it_pays(part, with_one_larger, is_over)

    def with_best_legs(self, program: Workload, above: Nodes, nodes: Nodes) -> Nodes | None:
        """Return nodes with the best legs below their branches; None where one has no mapping."""
        *around, branch = nodes
        assert isinstance(branch, Branch)
        above, children = (*above, *around), list[Nodes]()
        for child in branch.children:
            if isinstance(child[-1], Branch):
                found = self.with_best_legs(program, above, child)
            else:
                (name,) = statements_below(child)
                legs = self._children(program, above, (program.statement(name),))
                found = None if legs is None else legs[0]
            if found is None:
                return None
            children.append(found)
        return (*around, Branch(tuple(children)))

    def _around(
        self, program: Workload, statements: tuple[Statement, ...], interface: Interface, above: Nodes, is_over: Stop
    ) -> Iterator[Nodes]:
        """Yield what stands above what statements pass on in the best mapping of one of them alone below some nodes, by
        the level in which it stands first, the innermost one before others, unless there are many."""
        arch = self._search.arch
        around = Surroundings.of(program, arch, above)
        if around is None:
            return
        levels, slides = [*enumerate(arch.levels)][1:], passes_through_windows(program)
        for number, level in levels if self._is_of_many else reversed(levels):
            if not all(level.may_hold(program.tensor(name)) for name in interface.kept):
                continue
            for statement in statements:
                own = tuple(name for name in interface.kept if accesses_of(statement, name))
                leg = around.leg(program, arch, statement)
                leg = replace(leg, first=tuple((name, number) for name in own))
                found = None if is_over() else self._leg(leg)
                if found is None:
                    continue
                yield read_off(found, program, level.name, interface.kept, interface.shared)
                inside = dict.fromkeys(dim for name in own for dim in accesses_of(statement, name)[0].dims)
                inside = [dim for dim in inside if dim not in interface.shared]
                if (
                    is_long(self._workload)
                    or slides
                    or is_over()
                    or not loops_above(found, level.name, own).intersection(inside)
                ):
                    continue
                whole = (
                    Span(level.name, name, level.name, dim, n, n)
                    for name in own
                    for dim, n in leg.extents
                    if dim in inside
                )
                found = self._leg(replace(leg, spans=tuple(whole)))
                if found is not None:
                    yield read_off(found, program, level.name, interface.kept, interface.shared)

    def _children(self, program: Workload, nodes: Nodes, statements: tuple[Statement, ...]) -> tuple[Nodes, ...] | None:
        """Return the best legs of statements below some nodes; None where one has no mapping."""
        around = Surroundings.of(program, self._search.arch, nodes)
        if around is None:
            return None
        legs: list[Nodes] = []
        for statement in statements:
            leg = self._leg(around.leg(program, self._search.arch, statement))
            if leg is None and statement.reads and not around.leaves_one(statement):
                return None
            legs.append(leg or ((Compute(statement.name),) if statement.reads else as_written(statement)))
        return tuple(legs)

    def _leg(self, leg: Leg) -> Nodes | None:
        leg = replace(leg, divides=self._divides)
        is_large = self._is_of_many and takes_long_to_climb(self._search)
        share = TUNING.leg_share_of_large if is_large else TUNING.leg_share
        return legs_of(self._search).nodes(self._search, self._workload, leg, self.objective, share)

    @property
    def _is_of_many(self) -> bool:
        """Return whether each tree takes so long that what is likely to have room goes first."""
        return len(self._workload.statements) >= TUNING.most_in_a_segment

    def _counted(self, program: Workload, nodes: Nodes) -> Part | None:
        """Return a tree with what it costs; None where it is not legal, or there is no time to say."""
        key, limits = (tuple(each.name for each in program.statements), nodes), self._search.limits
        seconds = max(TUNING.least_evaluation_s, TUNING.count_share * limits.left_s())
        found = self._known.get(key, 0.0)
        if isinstance(found, float) and found < seconds and not limits():
            try:
                found = self._counted_within(program, nodes, seconds)
            except BudgetError:
                found = 0.0 if limits() else seconds  # the end of the limit says nothing
            self._known[key] = found
        return found if isinstance(found, Part) else None

    def _counted_within(self, program: Workload, nodes: Nodes, seconds: float) -> Part | None:
        """Return a tree with what it costs; None where it is not legal. Raises BudgetError where that takes longer."""
        self._search.limits.work.add()
        cost = self._search.legal_cost_within(program, Mapping(nodes), seconds)
        if cost is None:
            return None
        value = objective_values(program, self._search.arch, self.objective, cost)[0]
        tensors = {each.name: each for each in program.tensors}
        rows = [row for row in cost.traffic if row.level == self._search.arch.levels[0].name]
        bits = {name: each.bits for name, each in tensors.items()}
        passes = tuple((row.tensor, row.reads * bits[row.tensor], row.writes * bits[row.tensor]) for row in rows)
        outside = self.outside(sum(read for _, read, _ in passes), sum(written for _, _, written in passes))
        touched = {name: elements_touched(program, each) for name, each in tensors.items()}
        again = frozenset(row.tensor for row in rows if row.reads + row.writes > touched[row.tensor])
        return Part(value, nodes, outside, again, passes)

    def on_chip(self, program: Workload, part: Part) -> Fraction:
        """Return what a part of a program costs at least where what it shares with other parts stands whole in a level
        around all of them, as far as each has room alone."""
        value, own = part.value, {each.name for each in program.statements}
        for name, read, written in part.passes:
            users = [each.name for each in self._workload.statements if accesses_of(each, name)]
            if not own.issuperset(users):
                outside = self.moved(0, read, written)
                costs = [self.moved(level, read, written) for level in self._levels_with_room(program, name)]
                value -= max(Fraction(0), outside - min(costs, default=outside))
        return value

    def _levels_with_room(self, program: Workload, name: str) -> list[int]:
        """Return the levels above fan-outs, but the outermost, that have room for all of a tensor alone."""
        arch, tensor = self._search.arch, program.tensor(name)
        size = prod(tensor.shape) * tensor.bits
        numbers = levels_above_fanouts(arch, program, (name,))
        return [number for number in numbers if size <= (arch.levels[number].usable_bits or size)]

    def saved(self, program: Workload) -> Fraction:
        """Return what all passes of tensors between the outermost level and statements that may share them cost at
        most, beside the first pass of each tensor that no statement writes."""
        passed = Counter[tuple[int, int]]()  # bits read, bits written at the outermost level
        for tensor in program.tensors:
            users = sum(bool(accesses_of(each, tensor.name)) for each in program.statements)
            is_written = any(each.target.tensor == tensor.name for each in program.statements)
            bits = prod(tensor.shape) * tensor.bits
            passed[bits, 0] += max(0, users - 1)
            passed[0, bits] += is_written and tensor.temporary and users > 1
        total = Fraction(0)
        for (read, written), times in passed.items():
            inside = (self.moved(level, written, read) for level in range(1, len(self._search.arch.levels)))
            total += times * (self.moved(0, read, written) + max(inside, default=Fraction(0)))
        return total

    def moved(self, number: int, read: int, written: int) -> Fraction:
        """Return what bits read and written in a level cost; of latency, if nothing else took time."""
        return move_cost(self._search.arch, self.objective, number, read, written)

    def passed(self, program: Workload, tensor: str, level: int) -> Fraction:
        """Return what it costs to write all of a tensor into a level once, and to read it there for each reader."""
        bits = prod(program.tensor(tensor).shape) * program.tensor(tensor).bits
        readers = sum(bool(accesses_of(each, tensor)) for each in program.statements) - 1
        return self.moved(level, readers * bits, bits)

    def outside(self, read: int, written: int) -> Fraction:
        """Return what bits read and written at the outermost level cost, as far as the objective adds it up."""
        adds_up = self.objective.goal in (Goal.TRAFFIC, Goal.ENERGY)
        return self.moved(0, read, written) if adds_up else Fraction(0)


def _dims_of(program: Workload) -> dict[str, set[str]]:
    """Return the dims that index each tensor in some statement."""
    return {
        each.name: {dim for s in program.statements for access in accesses_of(s, each.name) for dim in access.dims}
        for each in program.tensors
    }


def _accesses(program: Workload, tensors: Collection[str]) -> list[Access]:
    return [each for name in tensors for one in program.statements for each in accesses_of(one, name)]


def _inner_nodes(nodes: Nodes, held: Collection[str], dims: Collection[str]) -> Nodes:
    """Return nodes without those for some tensors, and without loops over some dims."""
    return tuple(
        Branch(tuple(_inner_nodes(child, held, dims) for child in node.children)) if isinstance(node, Branch) else node
        for node in without_nodes(nodes, held)
        if not (isinstance(node, Temporal) and node.dim in dims)
    )


def _stores(level: str, tensors: tuple[str, ...]) -> Nodes:
    return (Storage(level, tensors),) if tensors else ()


def _touch(program: Workload, statements: Collection[str], tensor: str) -> bool:
    return any(accesses_of(program.statement(name), tensor) for name in statements)


def cheapest(parts: Iterable[Part | None]) -> Part | None:
    """Return the first of the parts that cost least, None where there is none."""
    return min(filter(None, parts), key=lambda each: each.value, default=None)


def _while_it_pays(
    part: Part, steps: Callable[[Part], Iterable[Part | None]], is_over: Stop, most: int | None = None
) -> Part:
    """Return where steps lead to, each to the cheapest of what it may lead to, while that costs less; at most some."""
    for _ in count() if most is None else range(most):
        best = part if is_over() else cheapest((part, *steps(part))) or part
        if best is part:
            break
        part = best
    return part
