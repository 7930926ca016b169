"""The closed form where every tile divides the enclosing one: all instances have equal tiles, one formula per carry.

docs/closed_form.md defines the terms (carry, kept, events, arrivals) and derives the formulas. Numbers are Python
integers, arrays of them, or expressions in the tiles (`polymap.costmodel.closed_form`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from polymap.costmodel.closed_form.accounting import Amount, Busiest, Row, UniformNode, uniform_rows
from polymap.costmodel.closed_form.groups import DimKind, TensorModel, WorkloadModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, MachineModel, Node
from polymap.poly import Placed, Shape, difference, overlap, progressions, too_large, translated_sum


class Sized(Protocol):
    """A set of integers."""

    @property
    def size(self) -> Any: ...


TileSet = TypeVar("TileSet", bound=Sized)
Steps = list[tuple[Amount, Amount]]  # (stride, count) per progression {0, stride, ..., (count - 1) * stride}


class Progressions(Protocol[Amount, TileSet]):
    """Sums of arithmetic progressions, as sets of integers whose least element is 0; over one type of number.

    loops_move: whether every loop has several iterations (in a column of mappings a loop may have one in some rows).
    """

    @property
    def one(self) -> Amount: ...

    @property
    def loops_move(self) -> bool: ...

    def tile(self, steps: Steps[Amount]) -> TileSet:
        """Return the sum of progressions; strides may be negative."""
        ...

    def count(self, steps: Steps[Amount]) -> Amount:
        """Return the number of elements of a sum of progressions."""
        ...

    def overlap(self, tile: TileSet, shift: Amount) -> Amount:
        """Return the number of elements that a set shares with its translate by `shift`."""
        ...

    def spread_size(self, tile: TileSet, steps: Steps[Amount]) -> Amount:
        """Return the number of elements of the sum of a set and progressions."""
        ...

    def new_size(self, tile: TileSet, shift: Amount, steps: Steps[Amount]) -> Amount:
        """Return the number of elements of the sum of progressions and the part of the set outside its translate by
        -shift."""
        ...


class NodeView(Generic[Amount]):
    """One node of one tensor: its loops by their effect.

    above: the temporal loops above, outermost first, each with the product of the trips outside of it. steps: the
    product of all their trips. tile: elements along singles. free: per window the progressions of its tile, one per run
    of loops over a dim without a fixed one between them. instances: of the node. apart: the product of the trips of
    sibling loops over singles. idle: (fan-out, trips) of sibling loops over dims that the tensor lacks. spread: per
    window (fan-out, stride, trips) of its sibling loops.
    """

    __slots__ = ("above", "apart", "free", "idle", "instances", "is_compute", "level", "spread", "steps", "tile")

    def __init__(
        self, one: Amount, tensor: TensorModel, loops: Sequence[Loop[Amount]], parent: Node, node: Node
    ) -> None:
        kinds, position, fans, outer_fans = tensor.kinds, node.position, node.fans, parent.fans
        steps = tile = instances = apart = one
        self.level, self.is_compute = node.level, node.level < 0
        self.above: list[tuple[Loop[Amount], Amount]] = []
        self.free: list[Steps[Amount]] = [[] for _ in tensor.windows]
        self.spread: list[list[tuple[int, Amount, Amount]]] = [[] for _ in tensor.windows]
        self.idle: list[tuple[int, Amount]] = []
        runs: dict[int, int] = {}  # dim of a window -> number of the progression that its free loops go on with
        for loop in loops:
            dim, _, trips, fanout, _ = loop
            if fanout == TEMPORAL:
                if loop.position < position:
                    self.above.append((loop, steps))
                    steps = steps * trips
                    runs.pop(dim, None)
                    continue
            elif fanout < fans:
                instances = instances * trips
                runs.pop(dim, None)
                if fanout < outer_fans:
                    pass
                elif kinds[dim] is DimKind.SINGLE:
                    apart = apart * trips
                elif kinds[dim] is DimKind.IDLE:
                    self.idle.append((fanout, trips))
                else:
                    window, factor = window_of(tensor, dim)
                    self.spread[window].append((fanout, loop.tile * factor, trips))
                continue
            if kinds[dim] is DimKind.SINGLE:
                tile = tile * trips
            elif kinds[dim] is DimKind.WINDOW:
                window, factor = window_of(tensor, dim)
                free = self.free[window]
                if dim in runs:
                    free[runs[dim]] = (loop.tile * factor, free[runs[dim]][1] * trips)
                else:
                    runs[dim] = len(free)
                    free.append((loop.tile * factor, trips))
        self.steps, self.tile, self.instances, self.apart = steps, tile, instances, apart


def window_of(tensor: TensorModel, dim: int) -> tuple[int, int]:
    """Return (number of the window that has the dim, the dim's coefficient in it)."""
    for number, window in enumerate(tensor.windows):
        for member, factor in window.terms:
            if member == dim:
                return number, factor
    raise AssertionError("the dim is in a window")


class DividingTiles(Generic[Amount, TileSet]):
    """Counts of the nodes of one tensor. Raises BudgetError where a sum of progressions is out of reach."""

    __slots__ = ("_entries", "_machine", "_sums", "_tensor", "_tiles", "views")

    def __init__(
        self,
        sums: Progressions[Amount, TileSet],
        machine: MachineModel,
        tensor: TensorModel,
        loops: Sequence[Loop[Amount]],
        nodes: Sequence[Node],
    ) -> None:
        self._sums, self._machine, self._tensor = sums, machine, tensor
        self.views = [
            NodeView(sums.one, tensor, loops, parent, node)
            for parent, node in zip((nodes[0], *nodes), nodes, strict=False)
        ]
        self._tiles: dict[int, list[TileSet]] = {}
        self._entries: dict[int, Amount] = {}

    def tiles(self, number: int) -> list[TileSet]:
        """Return the tile of node `number` along each window."""
        found = self._tiles.get(number)
        if found is None:
            found = self._tiles[number] = [self._sums.tile(steps) for steps in self.views[number].free]
        return found

    def tile(self, number: int) -> Amount:
        """Return the elements of the tile of node `number`."""
        return _product(self.views[number].tile, [tile.size for tile in self.tiles(number)])

    def entries(self, number: int) -> Amount:
        """Return the number of elements that enter one instance of node `number`, over all steps."""
        found = self._entries.get(number)
        if found is None:
            found = self._entries[number] = self._tiles_minus_kept(number)
        return found

    def _tiles_minus_kept(self, number: int) -> Amount:
        """Return the elements of the tiles of all steps minus the elements that stay at each carry."""
        view, tiles, overlap_of = self.views[number], self.tiles(number), self._sums.overlap
        whole = _product(view.steps, [tile.size for tile in tiles])
        for kept, shifts in self._carries(view):
            for tile, shift in zip(tiles, shifts, strict=True):
                kept = kept * overlap_of(tile, shift)
                if _is_zero(kept):
                    break
            whole = whole - kept
        return view.tile * whole

    def _carries(self, view: NodeView[Amount]) -> Iterator[tuple[Amount, list[Amount]]]:
        """Yield (steps, shift of each window's tile) per carry at which the singles stay, innermost first."""
        tensor, one = self._tensor, self._sums.one
        stands: Amount | None = None  # in a column of mappings, 0 where a carry further in moves the singles
        wraps = [one - one for _ in tensor.windows]
        for loop, outer in reversed(view.above):
            kind, further = tensor.kinds[loop.dim], loop.trips - one
            if kind is DimKind.SINGLE:
                if self._sums.loops_move:
                    break  # from here on outwards, every carry moves the singles
                unmoved = further == 0
                stands = one * unmoved if stands is None else stands * unmoved
                continue
            shifts = list(wraps)
            if kind is DimKind.WINDOW:
                window, factor = window_of(tensor, loop.dim)
                shifts[window] = shifts[window] + loop.tile * factor
                wraps[window] = wraps[window] - loop.tile * factor * further
            times = outer * further
            yield times if stands is None else times * stands, shifts

    def loads(self, number: int) -> Amount:
        """Return the elements that one instance of the parent of node `number` reads to serve the node's loads."""
        view, machine, sums = self.views[number], self._machine, self._sums
        copies = view.apart
        for fanout, trips in view.idle:
            if machine.repeats[fanout]:
                copies = copies * trips
        united: list[Steps[Amount]] = []
        for spread in view.spread:
            alike: Steps[Amount] = []
            together: Steps[Amount] = []
            for fanout, stride, trips in spread:
                if machine.repeats[fanout]:
                    copies = copies * trips
                elif machine.unites[fanout]:
                    together.append((stride, trips))
                else:
                    alike.append((stride, trips))
            if alike:
                copies = copies * sums.count(alike)
            united.append(together)
        if view.is_compute:
            for together in united:
                copies = copies * sums.count(together)
            return copies * self._tensor.reads * view.steps
        return copies * (self._united_entries(number, united) if any(united) else self.entries(number))

    def _united_entries(self, number: int, united: list[Steps[Amount]]) -> Amount:
        """Return the elements of all loads, each the union over siblings displaced by the progressions `united`."""
        view, tiles, sums = self.views[number], self.tiles(number), self._sums
        spread = [sums.spread_size(tile, steps) for tile, steps in zip(tiles, united, strict=True)]
        whole = _product(view.steps, spread)
        for kept, shifts in self._carries(view):
            for tile, steps, size, shift in zip(tiles, united, spread, shifts, strict=True):
                kept = kept * (size - sums.new_size(tile, shift, steps))
            whole = whole - kept
        return view.tile * whole

    def arrivals(self, number: int) -> Amount:
        """Return the drains of node `number` that reach one parent instance; siblings are added on the way where there
        are adders."""
        view, adds = self.views[number], self._machine.adds
        total = view.apart
        for fanout, trips in view.idle:
            if not adds[fanout]:
                total = total * trips
        for spread in view.spread:
            added: Steps[Amount] = []
            for fanout, stride, trips in spread:
                if view.is_compute and adds[fanout]:
                    added.append((stride, trips))
                else:
                    total = total * trips
            if added:
                total = total * self._sums.count(added)
        return total * (view.steps if view.is_compute else self.entries(number))

    def shares(self, number: int) -> Amount:
        """Return an upper bound on the siblings of node `number` with different elements; exact without windows."""
        view = self.views[number]
        apart = view.apart
        for spread in view.spread:
            for _, _, trips in spread:
                apart = apart * trips
        return apart

    def is_lopsided(self, number: int) -> bool:
        """Return whether siblings at node `number` or further out may share an element of a window.

        Then they take unequal shares of its partial sums.
        """
        return any(spread for view in self.views[1 : number + 1] for spread in view.spread)

    def nodes(self) -> list[UniformNode[Amount]]:
        """Return the counts of each node of the tensor."""
        served = self.arrivals if self._tensor.written else self.loads
        return [
            UniformNode(
                view.level,
                view.instances,
                self.shares(number) if self._tensor.written else self._sums.one,
                self.tile(number),
                self.entries(number) if number else self.tile(number),
                served(number + 1),
            )
            for number, view in enumerate(self.views[:-1])
        ]


def _is_zero(amount: Any) -> bool:
    """Return whether an amount is the number 0; an array of amounts is not."""
    return not getattr(amount, "ndim", 0) and amount == 0


def _product(first: Any, factors: Iterable[Any]) -> Any:
    for factor in factors:
        first = first * factor
    return first


class IntegerProgressions:
    """Sums of progressions of Python integers; raises BudgetError where a set has too many gaps."""

    __slots__ = ()
    one = 1
    loops_move = True

    def tile(self, steps: Steps[int]) -> Shape:
        """Return the sum of progressions."""
        return progressions(steps)[1]

    def count(self, steps: Steps[int]) -> int:
        """Return the elements of a sum of progressions."""
        return progressions(steps)[1].size

    def overlap(self, tile: Shape, shift: int) -> int:
        """Return the number of elements that a set shares with its translate by `shift`."""
        return overlap(tile, tile, shift)

    def spread_size(self, tile: Shape, steps: Steps[int]) -> int:
        """Return the number of elements of the sum of a set and progressions."""
        return translated_sum(Placed(0, tile), steps).size

    def new_size(self, tile: Shape, shift: int, steps: Steps[int]) -> int:
        """Return the number of elements of the sum of progressions and the part of the set outside its translate by
        -shift."""
        now = Placed(0, tile)
        new = difference(now, Placed(-shift, tile)) if abs(shift) <= tile.span else now
        return 0 if new is None else translated_sum(new, steps).size


INTEGERS = IntegerProgressions()


def count_dividing(
    sums: Progressions[Any, Any],
    model: WorkloadModel,
    machine: MachineModel,
    loops: Sequence[Loop[Any]],
    holders: Sequence[Sequence[Node]],
) -> tuple[list[Row[Any]], tuple[Busiest[Any], ...]]:
    """Return the rows of all tensors and the busiest instance per level, which is the same one for all tensors.

    holders: per tensor its nodes. Raises BudgetError where a tile is out of reach, or where siblings take unequal
    shares of partial sums.
    """
    rows: list[Row[Any]] = []
    use: list[list[Any]] = [[0, 0] for _ in machine.level_names]
    for tensor, nodes in zip(model.tensors, holders, strict=True):
        counted = DividingTiles(sums, machine, tensor, loops, nodes)
        for number, (row, (reads, writes)) in enumerate(uniform_rows(tensor, counted.nodes())):
            if tensor.written and counted.is_lopsided(number) and row.fills:
                raise too_large()
            rows.append(row)
            level = use[row.level]
            level[0], level[1] = reads * tensor.bits + level[0], writes * tensor.bits + level[1]
    return rows, tuple(Busiest(read, written, read + written) for read, written in use)


class DividingCrossings(Generic[Amount]):
    """Traffic over fan-outs where all tiles divide."""

    __slots__ = ("_loops", "_machine", "_sums")

    def __init__(self, sums: Progressions[Amount, Any], machine: MachineModel, loops: Sequence[Loop[Amount]]) -> None:
        self._sums, self._machine, self._loops = sums, machine, loops

    def messages(self, tensor: TensorModel, parent: Node, node: Node) -> Amount:
        """Return the elements that the parent's instances send to serve the node's loads."""
        tiles = self._between(tensor, parent, node)
        return tiles.loads(1) * tiles.views[0].instances

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node) -> Amount:
        """Return the drains (of the compute unit: results) that reach the parent's instances."""
        tiles = self._between(tensor, parent, node)
        return tiles.arrivals(1) * tiles.views[0].instances

    def _between(self, tensor: TensorModel, parent: Node, node: Node) -> DividingTiles[Amount, Any]:
        return DividingTiles(self._sums, self._machine, tensor, self._loops, (parent, node))
