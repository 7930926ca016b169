"""The counts of one mapping by integer sets: exact for every loop nest, also those that the closed form refuses."""

from __future__ import annotations

from polymap.costmodel.counts import Counts, LevelUse, Traffic, WireUse
from polymap.costmodel.referees.flow import Ledger, Scene
from polymap.costmodel.referees.peak import coordinates, peak_bits
from polymap.costmodel.referees.set_rules import count_moves
from polymap.costmodel.referees.set_tree import Tree, read_tree
from polymap.ir import Architecture, Mapping, Workload
from polymap.poly import Tally, budget


def counts_of_sets(workload: Workload, arch: Architecture, mapping: Mapping) -> Counts:
    """Return the counts of a mapping that `check_mapping` accepts, within the caller's budget; raises BudgetError (see
    `is_exhausted`) beyond it."""
    with budget(what="counting this mapping with sets"):
        tree = read_tree(workload, arch, mapping)
        ledger = Ledger()
        scenes = [Scene.of(workload, arch, tree, tensor, ledger) for tensor in workload.tensors]
        for scene in scenes:
            count_moves(scene)
        instances = sum(leaf.rows.count() for leaf in tree.leaves)
        steps = sum(leaf.rows.computed({name: leaf.at(name) for name in leaf.clock}).count() for leaf in tree.leaves)
        peaks = [_peak(arch, tree, scenes, level) for level in range(len(arch.levels))]
    traffic, uses = _traffic(workload, arch, tree, ledger), _uses(workload, arch, tree, ledger, peaks)
    return Counts(instances, steps, traffic, uses, _wires(workload, arch, ledger))


def _peak(arch: Architecture, tree: Tree, scenes: list[Scene], level: int) -> int:
    held = [(flow, scene.tensor.bits) for scene in scenes for flow in scene.flows.values() if flow.place.level == level]
    return peak_bits(tree, held, len(arch.fanouts)) if held else 0


def _traffic(workload: Workload, arch: Architecture, tree: Tree, ledger: Ledger) -> tuple[Traffic, ...]:
    rows: list[Traffic] = []
    for index, level in enumerate(arch.levels):
        for tensor in workload.tensors:
            here = [n for n, place in enumerate(tree.places) if (place.level, place.tensor) == (index, tensor.name)]
            if here:
                books = (ledger.reads, ledger.writes, ledger.fills, ledger.drains)
                sums = (sum(sum(book.get(number, {}).values()) for number in here) for book in books)
                rows.append(Traffic(level.name, tensor.name, *sums))
    return tuple(rows)


def _wires(workload: Workload, arch: Architecture, ledger: Ledger) -> tuple[WireUse, ...]:
    rows: list[WireUse] = []
    for number, fanout in enumerate(arch.fanouts):
        for tensor in workload.tensors if fanout.has_energies else ():
            outside, inside = (tensor.name, number, False), (tensor.name, number, True)
            down = [ledger.down.get(at, 0) for at in (outside, inside)]
            up = [ledger.up.get(at, 0) for at in (inside, outside)]
            rows.append(WireUse(fanout.name, tensor.name, *down, *up))
    return tuple(rows)


def _uses(workload: Workload, arch: Architecture, tree: Tree, ledger: Ledger, peaks: list[int]) -> tuple[LevelUse, ...]:
    rows: list[LevelUse] = []
    for index, level in enumerate(arch.levels):
        read: Tally = {}
        written: Tally = {}
        for number, place in enumerate(tree.places):
            if place.level == index:
                bits = workload.tensor(place.tensor).bits
                for total, book in ((read, ledger.reads), (written, ledger.writes)):
                    for digits, amount in book.get(number, {}).items():
                        where = coordinates(place, digits, len(arch.fanouts))
                        total[where] = total.get(where, 0) + bits * amount
        moved = {where: read.get(where, 0) + written.get(where, 0) for where in (*read, *written)}
        busiest = (max(book.values(), default=0) for book in (read, written, moved))
        rows.append(LevelUse(level.name, peaks[index], *busiest))
    return tuple(rows)
