"""What a mapping costs, counted exactly whatever its tiles are: sums over kinds of digits (docs/certificate.md)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

from polymap.checker.head import check_mapping
from polymap.checker.model import Fanout, Problem, Rows, Structure, Tensor, Tile, spread, sums, tick
from polymap.checker.rules import fields, need, whole

FREE, OUTER, CARRY, INNER, APART, BESIDE, UNITED = range(7)  # what a loop is to a node
Values = tuple[int | None, ...]
Sides = frozenset[tuple[int, int]]  # what siblings hold of a window, and of that what they keep: sets, as bit masks


class Loop(NamedTuple):
    """Iterations of `stride` indices each, the last one of the rest. fan: its fan-out (None: temporal)."""

    dim: int
    trips: int
    stride: int
    fan: Fanout | None


class Digits(NamedTuple):
    """The loops over a dim, outermost first. An index has a digit per loop: index // tile, rest // next tile, ...
    A node's tile is what all FREE digits reach under the others. roles, at a step where one temporal loop has moved and
    those inside start again: OUTER loops, the CARRY, INNER ones; of spatial loops, whose iterations count APART, are
    siblings BESIDE each other or, of these, UNITED."""

    extent: int
    tiles: Tile
    roles: Tile

    def kinds(self) -> list[list[tuple[int, int]]]:
        """Return per loop (digit, how many like it): those that leave as much, and whose predecessors do."""
        found, lengths = list[list[tuple[int, int]]](), {self.extent}
        for tile in self.tiles:
            most = max(-(-length // tile) for length in lengths)
            ends = {0, most} | {
                x + i for length in lengths for x in (length // tile, -(-length // tile)) for i in (0, 1)
            }
            found.append([(a, b - a) for a, b in pairwise(sorted({1, *ends} if most > 1 else ends)) if b <= most])
            lengths = {min(tile, length) for length in lengths} | {length % tile or tile for length in lengths}
        return found

    def contexts(self) -> Iterator[tuple[int, Values]]:
        """Yield digits that have work, those of siblings at 0, and how many count like these."""
        each: list[list[tuple[int | None, int]]] = []
        for role, kinds in zip(self.roles, self.kinds(), strict=True):
            own = {FREE: [(None, 1)], OUTER: kinds, APART: kinds, CARRY: kinds[1:]}
            each.append([*own.get(role, [(0, 1)])])
        for chosen in product(*each):
            tick()
            values = tuple(value for value, _ in chosen)
            if self.left(values) > 0:
                yield prod(times for _, times in chosen), values

    def left(self, values: Values) -> int:
        """Return how many indices there are under digits; none or fewer: they have no work."""
        left = self.extent
        for tile, value in zip(self.tiles, values, strict=True):
            left = min(tile, left - (value or 0) * tile)
        return left

    def siblings(self, values: Values, *, alike: bool) -> Iterator[Values]:
        """Yield the digits of all siblings, or once of those that count alike."""
        each = list[Sequence[int | None]]()
        for role, value, kinds in zip(self.roles, values, self.kinds(), strict=True):
            own = [digit for digit, _ in kinds] if alike else range(sum(times for _, times in kinds))
            each.append(own if role >= BESIDE else (value,))
        yield from product(*each)

    def before(self, values: Values, *, own: bool) -> Values:
        """Return the digits at the step before: the last one of the instance's `own`, or of the machine's clock."""
        found, left = list[int | None](), self.extent
        for i, (tile, role, value) in enumerate(zip(self.tiles, self.roles, values, strict=True)):
            digit = value
            if role == INNER:
                inner = zip(self.tiles[i:], values[i:], strict=True)
                digit = (left - 1 - sum(t * (x or 0) for t, x in inner if own)) // tile
            elif role == CARRY:
                digit = (value or 0) - 1
            found.append(digit)
            left = min(tile, left - tile * (digit or 0) * (own or role < APART))
        return tuple(found)

    def indices(self, values: Values, at: int = 0, left: int | None = None) -> list[Tile]:
        """Return the set of indices under digits (None: any), as intervals."""
        left = self.extent if left is None else left
        if at == len(self.tiles):
            return [(0, left)]
        tile, value, found = self.tiles[at], values[at], list[Tile]()
        runs = [(0, left // tile, tile), (left // tile, left // tile + 1, left % tile)]
        for first, end, length in runs if value is None else [(value, value + 1, min(tile, left - value * tile))]:
            inner = self.indices(values, at + 1, length) if length > 0 and first < end else []
            first, end, inner = (0, 1, [(first * tile, end * tile)]) if inner == [(0, tile)] else (first, end, inner)
            need(end - first <= 1 << 16, "a tile has too many gaps")
            found += [(a + i * tile, b + i * tile) for i in range(first, end) for a, b in inner]
        joined = found[:1]
        for low, high in found[1:]:
            joined[-1:] = [(joined[-1][0], high)] if joined[-1][1] == low else [joined[-1], (low, high)]
        return joined

    @property
    def apart(self) -> "Digits":
        """Return the same, instances all apart."""
        return self._replace(roles=tuple(min(role, APART) for role in self.roles))


@lru_cache(maxsize=10_000)
def alone(digits: Digits, rule: str) -> int:
    """Return the elements along a dim that no other shares an axis with, in all steps and instances; those that stay
    (by any other rule of `Node.moved`), or "all"."""
    total = 0
    for times, values in digits.apart.contexts():
        if rule == "all" or digits.before(values, own=rule == "own") == values:
            total += times * sum(b - a for a, b in digits.indices(values))
    return total


@lru_cache(maxsize=10_000)
def lacking(digits: Digits, rule: str) -> int:
    """Return, along a dim that the tensor lacks, how often siblings have work, all steps and other instances counted;
    "enter": where none works that did not before; "leave": where none did that does not now."""
    if rule in ("all", "own", "came"):
        return sum(times for times, _ in digits.contexts())
    total = 0
    for times, values in digits.contexts():
        every = [
            (digits.left(one) > 0, digits.left(digits.before(one, own=False)) > 0)
            for one in digits.siblings(values, alike=True)
        ]
        stays = (
            all(was or not now for now, was in every) if rule == "enter" else all(now or not was for now, was in every)
        )
        total += times * (stays and any(was for _, was in every))
    return total


def placed(group: Sequence[Digits], weights: Tile, each: Sequence[Values]) -> int:
    """Return the set of sums of weight x index, as a bit mask, moved alike for all values."""
    total = 1
    for digits, weight, values in zip(group, weights, each, strict=True):
        mask, size = 0, abs(weight)
        for low, high in digits.indices(values):
            mask |= spread(1, high - low, size) << size * (low if weight > 0 else digits.extent - high)
        total = sums(total, mask) if mask.bit_count() < total.bit_count() else sums(mask, total)
    return total


@lru_cache(maxsize=10_000)
def sides(group: tuple[Digits, ...], weights: Tile) -> Counter[Sides]:
    """Return what the siblings below a parent instance hold and keep of an axis of several dims, counted over steps and
    parent instances."""
    found = Counter[Sides]()
    named = [[i for i, role in enumerate(digits.roles) if role == BESIDE] for digits in group]
    moves = any(role in (CARRY, INNER) for digits in group for role in digits.roles)
    for contexts in product(*(list(digits.contexts()) for digits in group)):
        united = dict[Any, tuple[int, int]]()
        working = [
            [v for v in digits.siblings(c[1], alike=False) if digits.left(v) > 0]
            for digits, c in zip(group, contexts, strict=True)
        ]
        for each in product(*working):
            tick()
            tile = placed(group, weights, each)
            was = tuple(digits.before(values, own=True) for digits, values in zip(group, each, strict=True))
            new = tile & ~placed(group, weights, was) if moves else 0
            label = tuple(values[i] for values, own in zip(each, named, strict=True) for i in own)
            both = united.get(label, (0, 0))
            united[label] = both[0] | tile, both[1] | new
        found[frozenset((tile, tile & ~new) for tile, new in united.values())] += prod(times for times, _ in contexts)
    return found


@lru_cache(maxsize=10_000)
def loads(each: tuple[Sides, ...]) -> tuple[int, int]:
    """Return the sizes of the different tiles that siblings hold, and of the different loads: tiles without what is
    kept. A load is a box where one side or none is new in part, or nothing is kept along one."""
    found = dict[Any, int]()
    for box in product(*each):
        parts = [i for i, (tile, kept) in enumerate(box) if kept != tile]
        if not parts:  # all is kept: no load, though it would have the name of one of which nothing is
            continue
        name: Any = box
        if any(not kept for _, kept in box):
            name = tuple(tile for tile, _ in box)
        elif len(parts) < 2:
            name = tuple(tile & ~kept if i in parts else tile for i, (tile, kept) in enumerate(box))
        found[name] = prod(tile.bit_count() for tile, _ in box) - prod(kept.bit_count() for _, kept in box)
    return prod(sum({tile: tile.bit_count() for tile, _ in one}.values()) for one in each), sum(found.values())


class Node(NamedTuple):
    """A node of `tensor` in `level` below `above` loops, held within `parent` (level: the number of levels: the compute
    units, where nothing is held from one step to the next)."""

    problem: Problem
    loops: tuple[Loop, ...]
    tensor: Tensor
    parent: int
    level: int
    above: int

    def seen(self, d: int, merging: frozenset[str], carry: int | None = None) -> Digits:
        """Return the loops over a dim at a step where loop number `carry` moves (None: any step)."""
        roles = list[int]()
        for i, loop in enumerate(self.loops):
            if loop.fan:
                role = APART if loop.fan.name not in merging else UNITED if loop.fan.merge == "union" else BESIDE
                roles.append(FREE if loop.fan.below > self.level else role)
            else:
                role = OUTER if carry is None or i < carry else CARRY if i == carry else INNER
                roles.append(FREE if i >= self.above else role)
        own = [i for i, loop in enumerate(self.loops) if loop.dim == d]
        return Digits(self.problem.extents[d], tuple(self.loops[i].stride for i in own), tuple(roles[i] for i in own))

    def size(self) -> int:
        """Return the elements held by the first instance in the first step: no other holds more in any."""
        first = [self.seen(d, frozenset()) for d in range(len(self.problem.dims))]
        zeros = [tuple(None if role == FREE else 0 for role in digits.roles) for digits in first]
        total = 1
        for group in self.tensor.groups:
            if len(group) == 1:
                total *= sum(b - a for a, b in first[group[0][0]].indices(zeros[group[0][0]]))
            else:
                own, values = [first[d] for d, _ in group], [zeros[d] for d, _ in group]
                total *= placed(own, tuple(weight for _, weight in group), values).bit_count()
        return total

    def moved(self, merging: frozenset[str], rule: str) -> int:
        """Return how many elements come to the node in all steps and instances, siblings over the `merging` fan-outs
        counted once. rule: "own" of what is read (an instance without work keeps its tile); of what is written the
        elements that "enter" where no sibling has them, or that "leave" the last one (without work: an empty tile), or
        that none of the siblings had ("came")."""
        tensor, dims = self.tensor, range(len(self.problem.dims))
        single = [group[0][0] for group in tensor.groups if len(group) == 1]
        windows = [group for group in tensor.groups if len(group) > 1]
        others, holds = [d for d in dims if d not in tensor.dims], self.level < len(self.problem.levels)
        carries = [i for i in range(self.above) if not self.loops[i].fan and holds]
        total = 0
        for carry in (None, *carries):
            at, kind = [self.seen(d, merging, carry) for d in dims], "all" if carry is None else rule
            times = prod(alone(at[d], kind) for d in single) * prod(lacking(at[d], kind) for d in others)
            pairs = [([at[d] for d, _ in group], [weight for _, weight in group]) for group in windows if times]
            each = [sides(tuple(group), tuple(weights)) for group, weights in pairs]
            for chosen in product(*(one.items() for one in each)):
                distinct, new = loads(tuple(side for side, _ in chosen))
                more = times * prod(count for _, count in chosen)
                total += more * (distinct if carry is None else new - distinct)
        return total


def read_mapping(problem: Problem, nodes: Any) -> tuple[tuple[Loop, ...], list[list[Tile]], frozenset[int]]:
    """Return the loops, outermost first, per tensor (level, loops above) of its nodes, and the dims with tiles that
    leave a rest; refuse what is not legal."""
    left, loops, fans = list(problem.extents), list[Loop](), {fan.name: fan for fan in problem.fanouts}
    held: list[list[Tile]] = [[] for _ in problem.tensors]
    partial, innermost = set[int](), 0
    check_mapping(nodes, problem.levels, [tensor.name for tensor in problem.tensors])
    for node in nodes[:-1]:
        if "store" in node:
            level, stored = problem.levels.index(node["store"]), fields(node, "store", "tensors")[1]
            innermost = max(innermost, level)
            for number, tensor in enumerate(problem.tensors):
                held[number] += [(level, len(loops))] * (stored.count(tensor.name) if level else 0)
            continue
        dim, tile, *over = fields(node, *(("par", "tile", "over") if "par" in node else ("for", "tile")))
        d, fan = problem.dims.index(dim), fans[over[0]] if over else None
        partial |= {d} if left[d] % whole(tile) else set()
        need(fan is None or fan.below > innermost, "a spatial loop stands below its level")
        need(fan is None or left[d] <= tile or d in fan.dims, "a fan-out may not take this dim")
        loops += [Loop(d, -(-left[d] // tile), tile, fan)] if left[d] > tile else []
        left[d] = min(left[d], tile)
    need(max(left, default=1) == 1, "the mapping leaves indices out")
    for fan in problem.fanouts:
        need(prod(loop.trips for loop in loops if loop.fan == fan) <= fan.size, f"{fan.name} is too small")
    for tensor, own in zip(problem.tensors, held, strict=True):
        levels = [level for level, _ in own]
        need(levels == sorted(set(levels)) and tensor.must <= set(levels) <= tensor.may, "a tensor is held wrongly")
        for (level, above), (d, size) in product(own, problem.rules.multiples):
            inner = [one for i, one in enumerate(loops) if (one.fan.below > level if one.fan else i >= above)]
            trips = prod(one.trips for one in inner if one.dim == d)
            need(d not in partial and trips % size == 0, f"a tile of {problem.dims[d]} is partial")
    for name, d, least, most in problem.rules.factors:
        factor = prod(loop.trips for loop in loops if loop.fan and loop.fan.name == name and loop.dim == d)
        need(least <= factor and (most is None or factor <= most), f"{problem.dims[d]} is spread wrongly over {name}")
    need(problem.rules.ordered([loop.dim for loop in loops if not loop.fan]), "the loops stand in a forbidden order")
    return tuple(loops), held, frozenset(partial)


def passed(node: Node, partial: frozenset[int], ends: Sequence[int]) -> tuple[int, dict[int, int], int]:
    """Return what a node costs in elements, all instances together: fills (of an output: what comes to the node's
    instances), what passes each of the `ends` between it and its parent, and of an output the difference that fills of
    the node have to those of its parent."""
    between, tensor = [fan for fan in node.problem.fanouts if node.parent < fan.below <= node.level], node.tensor
    rule, amounts = "leave" if tensor.is_output else "own", dict[int, int]()
    for end in ends:
        inner = [fan for own in node.problem.classes[end:] for fan in own if fan.below <= node.level]
        merging = (fan.name for fan in inner if (fan.adds if tensor.is_output else fan.merge != "none"))
        amounts[end] = node.moved(frozenset(merging), rule)
    united = {loop.dim for loop in node.loops if loop.fan in between and loop.fan and loop.fan.merge == "union"}
    holds, none = node.level < len(node.problem.levels), frozenset[str]()
    if not tensor.is_output:
        kept = not tensor.window or not united & partial & tensor.dims - {*tensor.window}
        need(kept, "loads of partial tiles that are united beside a window are not counted")
        return node.moved(none, "own") if holds else 0, amounts, 0
    every = frozenset(fan.name for fan in between)
    if not holds:
        return 0, amounts, 0
    events, above = node.moved(every, "enter"), [loop.dim for loop in node.loops[: node.above] if not loop.fan]
    nested = any(above.count(d) > 1 for d in above if d not in tensor.dims)
    need(not nested or events <= node.moved(every, "came"), "partial sums that come and go are not counted")
    return node.moved(none, "enter"), amounts, events


def cost(problem: Problem, nodes: Any, *, divides: bool = False) -> int:
    """Return the objective, scaled, of a mapping; refuse one that is not legal or does not fit, or whose tiles do not
    divide where they must."""
    loops, held, partial = read_mapping(problem, nodes)
    need(not (divides and partial), "a tile of the mapping does not divide the one around it")
    need(
        not partial or all(part.band is None for part in problem.parts), "partial tiles are counted without bandwidths"
    )
    structure, used, last = Structure(problem, rows_of(problem, loops)), [0] * len(problem.levels), len(problem.levels)
    total = structure.start()
    for t, own in enumerate(held):
        chain, tensor = [(0, 0), *own, (last, len(loops))], problem.tensors[t]
        filled = stays = prod(problem.extents[d] for d in tensor.dims)
        filled *= tensor.initial
        for number, ((parent, _), (level, above)) in enumerate(pairwise(chain)):
            node = Node(problem, loops, tensor, parent, level, above)
            comes, amounts, events = passed(node, partial, problem.ends(t, parent, level))
            filled, stays = events - stays + filled if tensor.is_output else comes, comes
            state, each = tuple(one for one, _ in chain[number:-1]), comes // structure.factor(structure.all, -1, level)
            below = {end: amount // structure.instances(end) for end, amount in amounts.items()}
            one = structure.node(t, state, level, each if level < last else structure.steps, below)
            for i, part in enumerate(problem.parts):
                prices, back = problem.tolls[i, t, parent, level]
                all_instances = sum(price * amounts[end] for end, price in prices.items())
                total[i] += one[i] if part.band else all_instances + filled * back * tensor.is_output
            if level < last:
                size = node.size()
                need(size >= problem.rules.least.get((tensor.name, level), 0), f"a tile of {tensor.name} is too small")
                used[level] += size * tensor.bits
    for level, room in enumerate(problem.room):
        need(room is None or used[level] <= room, f"the mapping does not fit into {problem.levels[level]}")
    clock = Node(problem, loops, problem.tensors[0], 0, last, len(loops))
    beside = frozenset(fan.name for fan in problem.fanouts)
    steps = prod(lacking(clock.seen(d, beside), "all") for d in structure.all)
    need(problem.busy(steps), "the mapping uses too few of the compute units")
    need(problem.allowed(total, steps), "the mapping breaks a limit")
    return problem.value(total, steps)


def rows_of(problem: Problem, loops: Sequence[Loop]) -> Rows:
    """Return the structure of a mapping with these loops."""
    dims = range(len(problem.dims))
    rows = [[prod(p.trips for p in loops if p.fan in own and p.dim == d) for d in dims] for own in problem.classes]
    return tuple(map(tuple, rows))
