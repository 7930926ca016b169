"""Checks of a loop tree: is it a program at all (otherwise MappingError), and which rules of the machine does it break
(violations, as data).

A loop tree is a program if each tensor's nodes follow the machine's order of levels and the spatial loops over the
fan-outs above a level stand above its nodes (docs/counting.md, "A mapping is a loop tree").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from polymap import ir
from polymap.inputs import LIMITS, as_integer, shown
from polymap.resolve import mapping_of
from polymap.schedules.loop_view import ComputeInTree, view_of
from polymap.schedules.membership import outside_the_space


def check_machine(workload: ir.Workload, arch: ir.Architecture) -> None:
    """Raise ArchError where `holds` or `must_hold` names a tensor that the workload lacks; roles are always known."""
    names = tuple(tensor.name for tensor in workload.tensors)
    mistakes = [
        ir.Mistake("PM390", f"{word} of the level '{level.name}' names {shown(name)}, which the workload lacks", hint)
        for level in arch.levels
        for word, listed in (("holds", level.holds or ()), ("must_hold", level.must_hold))
        for name in listed
        if name not in ir.ROLE_WORDS and name not in names
        for hint in (ir.did_you_mean(name, (*names, *ir.ROLE_WORDS)),)
    ]
    if mistakes:
        raise ir.ArchError(mistakes)


def check_mapping(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> None:
    """Raise MappingError with every reason why the tree is no program of the workload on the machine.

    Unknown names, tiles below 1, dims that do not end at tile 1, levels out of order, a tensor twice in one level,
    spatial loops below the nodes that they place, ends other than one Compute per statement, loops that nothing uses.
    Raises ArchError first where the machine names tensors that the workload lacks.
    """
    mapping = mapping_of(mapping)
    check_machine(workload, arch)
    checker = _Checker(workload, arch)
    checker.sequence(mapping.nodes, "nodes", _Way.start(workload))
    checker.every_statement_once()
    if checker.mistakes:
        raise ir.MappingError(checker.mistakes)


@dataclass(frozen=True, slots=True)
class _Way:
    """State of the walk from the root to a node.

    tiles: dim -> smallest tile so far. stored: tensor -> its innermost level so far. nodes: (level, where) of the
    Storage nodes passed. depth: Branches around. places: (level, tensor) -> where the node that stores it stands.
    """

    tiles: dict[str, int]
    stored: dict[str, str]
    nodes: tuple[tuple[str, str], ...]
    depth: int
    places: dict[tuple[str, str], str]

    @staticmethod
    def start(workload: ir.Workload) -> _Way:
        return _Way(workload.extents(), {}, (), 0, {})


@dataclass(slots=True)
class _Checker:
    """Walks the tree and collects its mistakes. levels, tensors, dims, fanouts: their names, in order."""

    workload: ir.Workload
    arch: ir.Architecture
    levels: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    fanouts: tuple[str, ...] = ()
    mistakes: list[ir.Mistake] = field(default_factory=list[ir.Mistake])
    computed: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.levels = tuple(level.name for level in self.arch.levels)
        self.tensors = tuple(tensor.name for tensor in self.workload.tensors)
        self.dims = tuple(dim.name for dim in self.workload.dims)
        self.fanouts = tuple(fanout.name for fanout in self.arch.fanouts)

    def note(self, code: str, what: str, hint: str = "") -> None:
        self.mistakes.append(ir.Mistake(code, what, hint))

    def unknown(self, code: str, where: str, kind: str, word: object, known: Sequence[str]) -> None:
        hint = ir.did_you_mean(word[:64], known) if isinstance(word, str) else f"Known: {', '.join(known[:20])}."
        self.note(code, f"{where} names the {kind} {shown(word)}, which there is not", hint)

    def sequence(self, nodes: Sequence[ir.MappingNode], where: str, way: _Way) -> set[str]:
        """Check a sequence of nodes; return the names of the statements below it."""
        self._check_ends(nodes, where)
        below: set[str] = set()
        loops: list[tuple[str, str]] = []
        for index, node in enumerate(nodes):
            at = f"{where}[{index}]"
            match node:
                case ir.Storage():
                    way = self._stored(node, at, way)
                case ir.Temporal() | ir.Spatial():
                    if self._loop_is_known(node, at):
                        loops.append((node.dim, at))
                    way = self._looped(node, at, way)
                case ir.Compute():
                    below |= self._computed(node, at, way)
                case ir.Branch():
                    below |= self._branched(node, at, way)
                case _:  # pyright: ignore[reportUnnecessaryComparison]  # what a Python user may have put there
                    self.note(
                        "PM401", f"{at} is {shown(node)}", "A node is Storage, Temporal, Spatial, Branch or Compute."
                    )
        for dim, at in loops:
            self._check_use(dim, at, below)
        return below

    def _check_ends(self, nodes: Sequence[ir.MappingNode], where: str) -> None:
        hint = "Only the last node is a compute or a branch."
        if not nodes:
            self.note("PM401", f"{where} is empty", 'The least tree is one node: {"compute": "S"}.')
            return
        if not isinstance(nodes[-1], ir.Compute | ir.Branch):
            self.note("PM401", f"{where} ends without a compute or a branch", hint)
        for index, node in enumerate(nodes[:-1]):
            if isinstance(node, ir.Compute | ir.Branch):
                kind = "compute" if isinstance(node, ir.Compute) else "branch"
                self.note("PM401", f"{where}[{index}] is a {kind}, and nodes follow it", hint)

    def _stored(self, node: ir.Storage, at: str, way: _Way) -> _Way:
        known = node.level in self.levels
        inner = known and node.level != self.levels[0]
        if not known:
            self.unknown("PM402", at, "level", node.level, self.levels)
        stored, places = dict(way.stored), dict(way.places)
        for tensor in node.tensors:
            if tensor not in self.tensors:
                self.unknown("PM403", at, "tensor", tensor, self.tensors)
                continue
            first = way.places.get((node.level, tensor), at)
            if first != at or node.tensors.count(tensor) > 1:
                what = f"{at} stores {tensor} in '{node.level}', where {first if first != at else 'it'} does already"
                self.note("PM404", what, "On the way to a statement there is at most one node per tensor and level.")
            places[node.level, tensor] = at
            if inner:
                self._check_order(tensor, node.level, at, way)
                stored[tensor] = node.level
        nodes = (*way.nodes, (node.level, at)) if inner else way.nodes
        return _Way(way.tiles, stored, nodes, way.depth, places)

    def _check_order(self, tensor: str, level: str, at: str, way: _Way) -> None:
        above = way.stored.get(tensor)
        if above is not None and self.levels.index(above) > self.levels.index(level):
            order = ", ".join(self.levels)
            what = f"{at} stores {tensor} in '{level}' below its node in '{above}'"
            self.note("PM405", what, f"A tensor's nodes follow the machine's order of levels: {order}.")

    def _loop_is_known(self, node: ir.Temporal | ir.Spatial, at: str) -> bool:
        known = node.dim in self.dims
        if not known:
            self.unknown("PM406", at, "dim", node.dim, self.dims)
        tile = as_integer(node.tile)
        if tile is None or tile < 1:
            self.note("PM407", f"{at} has the tile {shown(node.tile)}", "A tile is an integer >= 1.")
        return known

    def _looped(self, node: ir.Temporal | ir.Spatial, at: str, way: _Way) -> _Way:
        if isinstance(node, ir.Spatial):
            self._check_fanout(node, at, way)
        tile = as_integer(node.tile)
        if tile is None or tile < 1 or node.dim not in way.tiles:
            return way
        tiles = {**way.tiles, node.dim: min(tile, way.tiles[node.dim])}
        return replace(way, tiles=tiles)

    def _check_fanout(self, node: ir.Spatial, at: str, way: _Way) -> None:
        if node.fanout not in self.fanouts:
            self.unknown("PM408", at, "fan-out", node.fanout, self.fanouts)
            return
        for level, place in way.nodes:
            if any(fanout.name == node.fanout for fanout in self.arch.fanouts_above(level)):
                what = f"{at} spreads {node.dim} over '{node.fanout}' below {place}, which stores in '{level}'"
                hint = f"'{node.fanout}' is above '{level}': its loops must stand above the nodes of '{level}'."
                self.note("PM409", what, hint)

    def _computed(self, node: ir.Compute, at: str, way: _Way) -> set[str]:
        names = tuple(statement.name for statement in self.workload.statements)
        if node.statement not in names:
            self.unknown("PM410", at, "statement", node.statement, names)
            return set()
        if node.statement in self.computed:
            what = f"{at} computes {node.statement}, which {self.computed[node.statement]} computes already"
            self.note("PM411", what, "Every statement has one compute.")
        self.computed.setdefault(node.statement, at)
        extents = self.workload.extents()
        for dim in self.workload.statement(node.statement).dims:
            if extents[dim] > 1 and way.tiles[dim] > 1:
                tile = way.tiles[dim]
                found = "has no loop over it" if tile == extents[dim] else f"leaves it at tile {tile}"
                what = f"the way to {at} ({node.statement}) {found}: {dim} has {extents[dim]} indices"
                self.note("PM412", what, f"End with a loop over {dim} of tile 1.")
        return {node.statement}

    def _branched(self, node: ir.Branch, at: str, way: _Way) -> set[str]:
        if not node.children:
            self.note("PM401", f"{at} is a branch without children", "A branch holds sequences of nodes.")
        if way.depth >= LIMITS.depth:
            self.note("PM413", f"{at} stands in more than {LIMITS.depth} branches", "Trees are not that deep.")
            return set()
        inside = replace(way, depth=way.depth + 1)
        below: set[str] = set()
        for number, child in enumerate(node.children):
            below |= self.sequence(child, f"{at}.branch[{number}]", inside)
        return below

    def _check_use(self, dim: str, at: str, below: set[str]) -> None:
        """Statements without the dim of a loop run in its first iteration only."""
        if below and not any(dim in self.workload.statement(name).dims for name in below):
            dims = sorted({each for name in below for each in self.workload.statement(name).dims})
            what = f"{at} loops over {dim}, which no statement below it has"
            self.note("PM414", what, f"Below it: {', '.join(sorted(below))} over {', '.join(dims) or 'no dims'}.")

    def every_statement_once(self) -> None:
        for statement in self.workload.statements:
            if statement.name not in self.computed:
                self.note(
                    "PM411", f"no node computes the statement {statement.name}", "Every statement has one compute."
                )


def placement_violations(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> tuple[ir.Violation, ...]:
    """Return the violations of the machine's fan-out sizes and dims, `holds` and `must_hold` by a readable tree.

    Each violation occurs once, in the order of the tree and the machine.
    """
    found: dict[ir.Violation, None] = {}
    for path in view_of(workload.extents(), mapping).computes:
        found.update(dict.fromkeys(_fanout_violations(arch, path)))
        found.update(dict.fromkeys(_holds_violations(workload, arch, path)))
        found.update(dict.fromkeys(_must_hold_violations(workload, arch, path)))
    return tuple(found)


def idle_fanouts(workload: ir.Workload, arch: ir.Architecture) -> tuple[str, ...]:
    """Return a sentence for each fan-out whose `dims` name no dim of the workload, so that it stays idle."""
    known = {dim.name for dim in workload.dims}
    return tuple(
        f"the fan-out '{fanout.name}' may spread only {', '.join(fanout.dims)}, and the workload has "
        f"{', '.join(sorted(known))}: it stays unused"
        for fanout in arch.fanouts
        if fanout.dims and not known & set(fanout.dims)
    )


def mapping_warnings(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> tuple[str, ...]:
    """Return warnings about a readable tree: nodes of the outermost level inside a loop have no effect, and the tree is
    none of those that OPTIMAL speaks of."""
    found: dict[str, None] = {}
    outermost = arch.levels[0].name

    def walk(nodes: Sequence[ir.MappingNode], where: str, loops: tuple[str, ...], tiles: dict[str, int]) -> None:
        for index, node in enumerate(nodes):
            match node:
                case ir.Temporal(dim, tile) | ir.Spatial(dim, tile, _) if tile < tiles[dim]:
                    loops, tiles = (*loops, dim), {**tiles, dim: tile}
                case ir.Storage(level, tensors) if loops and level == outermost:
                    inside = f"a loop over {loops[-1]}"
                    what = f"{where}[{index}] stores {', '.join(tensors) or 'nothing'} in '{level}' inside {inside}"
                    found[f"{what}: the place of the outermost level has no effect, it always holds everything"] = None
                case ir.Branch(children):
                    for number, child in enumerate(children):
                        walk(child, f"{where}[{index}].branch[{number}]", loops, tiles)
                case _:
                    pass

    walk(mapping.nodes, "nodes", (), workload.extents())
    outside = outside_the_space(workload, arch, mapping)
    return (*found, *([f"the mapping is {outside}"] if outside else []))


def _fanout_violations(arch: ir.Architecture, path: ComputeInTree) -> Iterator[ir.Violation]:
    """Yield fan-outs with more iterations than instances, and dims spread over fan-outs that exclude them."""
    used = {fanout.name: 1 for fanout in arch.fanouts}
    fanouts = {fanout.name: fanout for fanout in arch.fanouts}
    for loop in path.loops:
        node = loop.node
        if isinstance(node, ir.Temporal) or loop.trips == 1:
            continue
        used[node.fanout] *= loop.trips
        fanout = fanouts[node.fanout]
        if not fanout.may_spread(node.dim):
            allowed = f"only {', '.join(fanout.dims)}" if fanout.dims else "no dim"
            message = f"{node.dim} is spread over the fan-out '{node.fanout}', where {allowed} may be"
            yield ir.Violation("fanout", message, (("fanout", node.fanout), ("dim", node.dim)))
    for name, needed in used.items():
        size = fanouts[name].size
        if needed > size:
            message = (
                f"the spatial loops over the fan-out '{name}' have {needed} iterations side by side; it has {size}"
            )
            yield ir.Violation("fanout", message, (("fanout", name), ("needed", needed), ("size", size)))


def _holds_violations(workload: ir.Workload, arch: ir.Architecture, path: ComputeInTree) -> Iterator[ir.Violation]:
    levels = {level.name: level for level in arch.levels[1:] if level.holds is not None}
    for storage in path.storages if levels else ():
        level = levels.get(storage.node.level)
        if level is None:
            continue
        for tensor in storage.node.tensors:
            if not level.may_hold(workload.tensor(tensor)):
                may = f"only {', '.join(level.holds)}" if level.holds else "nothing"
                message = f"{tensor} is stored in '{level.name}', which may hold {may}"
                yield ir.Violation("placement", message, (("level", level.name), ("tensor", tensor)))


def _must_hold_violations(workload: ir.Workload, arch: ir.Architecture, path: ComputeInTree) -> Iterator[ir.Violation]:
    stored = {(each.node.level, tensor) for each in path.storages for tensor in each.node.tensors}
    statement = workload.statement(path.node.statement)
    accesses = (statement.target, *statement.reads)
    for level in arch.levels[1:]:
        for tensor in dict.fromkeys(access.tensor for access in accesses):
            if (level.name, tensor) not in stored and level.requires(workload.tensor(tensor)):
                message = f"{tensor} is not stored in '{level.name}', which must hold {', '.join(level.must_hold)}"
                yield ir.Violation("placement", message, (("level", level.name), ("tensor", tensor)))
