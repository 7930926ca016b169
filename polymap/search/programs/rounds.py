"""What statements move anew in each round of the temporal loops above the branch where the two users of a tensor part.

When a child of a branch ends, its nodes are emptied. So what has no node above the branch is loaded in each round, and
sums leave and come back. Meanwhile the tensor's node has room for all that its users touch of it in a round, all
siblings together: few rounds need much room, many load the rest often. Loops above the branch are over dims of both
users, which a tensor that is complete before it is read has, too, or tiles of what its reader makes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import lcm, prod
from operator import le

from polymap.ir import Access, Affine, Architecture, Operator, Statement, Tensor, Workload, accesses_of, is_box
from polymap.search.problem import divisors
from polymap.search.programs.tuning import TUNING
from polymap.search.programs.windows import makes_rows_again

Price = Callable[[int, int, int], int]
Known = dict[tuple[Access, tuple[int, ...], int, bool], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds of the loops above a branch. tensor: what its node in a level above all fan-outs holds around both users.
    held: others that stand in that level above the branch, and so around both, too. bits: that these take at least in a
    round; those that the reader alone touches, if nothing else joins it to others: else they may stand around that,
    too, and are counted there, once at most.
    cuts: by user, in how many parts the loops cut its dims, each dim that they may."""

    tensor: str
    level: int
    held: tuple[str, ...]
    bits: int
    cuts: Mapping[str, Mapping[str, int]]


def without_room(workload: Workload, arch: Architecture) -> tuple[str, ...]:
    """Return the tensors that one statement leaves for one other where a level above all fan-outs has no room for all
    that the two touch: else all may run in one round."""
    found = list[str]()
    for tensor in workload.tensors:
        users = [each for each in workload.statements if accesses_of(each, tensor.name)]
        own = [each for each in workload.tensors if any(accesses_of(one, each.name) for one in users)]
        above = [each for each in arch.levels[1:] if not arch.fanouts_above(each.name) and each.may_hold(tensor)]
        kept = ((level, [each for each in own if level.may_hold(each)]) for level in above)
        is_full = any(not level.has_room_for(sum(each.bits * prod(each.shape) for each in own)) for level, own in kept)
        found += [tensor.name] if len(users) == 2 and is_full else []
    return tuple(found)


def rounds_above(
    workload: Workload, arch: Architecture, tensor: str, level: int, *, in_lines: bool
) -> Iterator[Rounds] | None:
    """Yield in how many rounds the two users of a tensor may run, its node in a level above all fan-outs; None where
    that is not known. in_lines: whether the program is in lines, and so in no tiles. Where there are fan-outs, no
    program is in tiles of two dims."""
    users = [each for each in workload.statements if accesses_of(each, tensor)]
    axes = _axes_in_common(users, tensor)
    return None if axes is None else _rounds(workload, arch, (tensor, level), (users, axes), in_lines=in_lines)


def best_rounds(
    workload: Workload,
    arch: Architecture,
    place: tuple[str, int],
    costs: Sequence[Sequence[Fraction]],
    *,
    in_lines: bool,
) -> list[tuple[tuple[tuple[str, Fraction, Fraction], ...], int]] | None:
    """Return what is moved anew by each user of a tensor in a level, and the bits that this holds, in those numbers of
    rounds that cost least, and in all others together; None where they are not known. costs: of a bit read, and of one
    written, by level."""
    every = rounds_above(workload, arch, *place, in_lines=in_lines)
    if every is None:
        return None
    found = list[tuple[list[int], tuple[str, ...]]]()
    scale = lcm(*(each.denominator for pair in costs for each in pair))
    whole = [[int(each * scale) for each in pair] for pair in costs]

    def price(level: int, read: int, written: int) -> int:
        return whole[level][0] * read + whole[level][1] * written

    users = {each.name: each for each in workload.statements}
    alone = {name: moved_alone(workload, each) for name, each in users.items()}
    known: dict[str, Known] = {name: {} for name in users}
    for each in every:
        own = [cost_anew(workload, arch, users[name], each, price, alone[name], known[name]) for name in each.cuts]
        found.append(([each.bits, *(cost for pair in own for cost in pair)], (*each.cuts,)))
    found.sort(key=lambda each: (sum(each[0][1:]), each[0]))
    named, at = list[tuple[list[int], tuple[str, ...]]](), 0
    while at < len(found) and len(named) < TUNING.most_rounds:
        if not any(all(map(le, values, found[at][0])) for values, _ in named):
            named.append(found[at])
        at += 1
    if at < len(found):
        named.append(([*map(min, zip(*(values for values, _ in found[at:]), strict=True))], found[at][1]))
    halves = [(values, [Fraction(each, scale) for each in values[1:]], names) for values, names in named]
    return [(tuple(zip(names, own[::2], own[1::2], strict=True)), values[0]) for values, own, names in halves]


def _rounds(
    workload: Workload,
    arch: Architecture,
    place: tuple[str, int],
    ways: tuple[list[Statement], list[tuple[str, str]]],
    *,
    in_lines: bool,
) -> Iterator[Rounds]:
    (tensor, level), (users, axes), extents = place, ways, workload.extents()
    divides, is_last = in_lines or not makes_rows_again(workload), users[1] == workload.statements[-1]
    parts = [
        [1]
        if in_lines and read != written
        else divisors(extents[read])
        if divides or (is_last and read != written)
        else _rounds_of(extents[read])
        for written, read in axes
    ]
    alone = [(each, name) for each in users for name in moved_alone(workload, each)]
    alone = [(each, name) for each, name in alone if arch.levels[level].may_hold(workload.tensor(name))]
    touched = {each.tensor for each in (users[1].target, *users[1].reads)}
    others = [each for each in workload.statements if each != users[1]]
    is_end = not any(accesses_of(each, name) for each in others for name in touched - {tensor})
    for many in product(*parts):
        in_tiles = [each for each, (written, read) in zip(many, axes, strict=True) if each > 1 and written != read]
        if len(in_tiles) > 1 and arch.fanouts:
            continue
        cuts = {
            own.name: {axis[at]: each for axis, each in zip(axes, many, strict=True)} for at, own in enumerate(users)
        }

        def bits(own: Statement, name: str, cuts: Mapping[str, Mapping[str, int]] = cuts) -> int:
            return workload.tensor(name).bits * _touched(accesses_of(own, name)[0], extents, cuts[own.name])

        first = max(bits(each, tensor) for each in users)
        for held in product(*(((), (each,)) for each in alone)):
            chosen = [each for some in held for each in some]
            own = [each for each in chosen if each[0] != users[1] or is_end]
            if arch.levels[level].has_room_for(first + sum(bits(*each) for each in chosen)):
                taken = first + sum(bits(*each) for each in own)
                yield Rounds(tensor, level, tuple(name for _, name in chosen), taken, cuts)


def least_bits(workload: Workload, arch: Architecture, tensor: str, *, in_lines: bool) -> int:
    """Return the bits that a node around the two users of a tensor holds at least, in whatever rounds and on whichever
    sibling of a fan-out; 0 where that is not known. On machines with fan-outs no program is in tiles of two dims."""
    users = [each for each in workload.statements if accesses_of(each, tensor)]
    axes = _axes_in_common(users, tensor) or []
    common = [axis for axis in axes if axis[0] == axis[1]]
    others = [axis for axis in axes if axis not in common and not in_lines]
    in_tiles = [[axis] for axis in others] if arch.fanouts else [others]
    sizes = (
        max(
            _touched(accesses_of(own, tensor)[0], workload.extents(), {axis[at]: 0 for axis in (*common, *cut)})
            for at, own in enumerate(users)
        )
        for cut in in_tiles or [[]]
    )
    return workload.tensor(tensor).bits * min(sizes) if axes else 0


def cost_anew(
    workload: Workload,
    arch: Architecture,
    statement: Statement,
    rounds: Rounds,
    price: Price,
    alone: Sequence[str],
    known: Known | None = None,
) -> tuple[int, int]:
    """Return what it costs at least that the outermost level moves what a statement alone touches, and that levels
    above all fan-outs do, in some rounds. price: of bits read and written in a level. alone: `moved_alone`. known: what
    was found out for that statement, price and level."""
    outer = above = 0
    known = {} if known is None else known
    for name in alone:
        access, cuts = accesses_of(statement, name)[0], rounds.cuts[statement.name]
        own = {dim: many for dim, many in cuts.items() if dim in access.dims}
        again, is_held = prod(many for dim, many in cuts.items() if dim not in own), name in rounds.held
        key = access, (*own.values(),), again, is_held
        if key not in known:
            is_sum = name == statement.target.tensor
            known[key] = _cost_of(workload, arch, access, own, price, rounds.level, (again, is_sum, is_held))
        outer, above = outer + known[key][0], above + known[key][1]
    return outer, above


def _cost_of(
    workload: Workload,
    arch: Architecture,
    access: Access,
    cuts: Mapping[str, int],
    price: Price,
    level: int,
    how: tuple[int, bool, bool],
) -> tuple[int, int]:
    """Return so of a tensor. how: how often its parts come anew, whether it is summed up, and whether it stands in a
    level above the branch."""
    (again, is_sum, is_held), extents, own = how, workload.extents(), workload.tensor(access.tensor)
    uncut = dict.fromkeys(cuts, 1)
    whole, total = (own.bits * _touched_in_all(access, extents, parts) for parts in (uncut, cuts))
    moved = total * again
    often = price(0, moved - total, moved) if is_sum else price(0, moved, 0)
    once = price(0, 0, whole) if is_sum else price(0, whole, 0)
    ways = [(often, often)]
    for number, each in enumerate(arch.levels):
        parts = dict.fromkeys(cuts, 0) if arch.fanouts_above(each.name) else cuts
        bits = own.bits * _touched(access, extents, parts)
        is_kept = is_held if number == level else each.may_hold(own) and each.has_room_for(bits)
        if number and is_kept:
            inside = price(number, moved - total + whole, moved) if is_sum else price(number, moved, whole)
            ways.append((once, once + (0 if arch.fanouts_above(each.name) else inside)))
    outer, above = map(min, zip(*ways, strict=True))
    return outer, above


def moved_alone(workload: Workload, statement: Statement) -> list[str]:
    """Return the tensors that a statement alone touches, by one access: what it reads and what it sums up."""
    found, target = list[str](), statement.target
    for tensor in workload.tensors:
        users = [each for each in workload.statements if accesses_of(each, tensor.name)]
        accesses = dict.fromkeys(accesses_of(statement, tensor.name))
        if users != [statement] or len(accesses) != 1 or not next(iter(accesses)).is_box:
            continue
        is_sum = target.is_plain and statement.operator is not Operator.ASSIGN and not tensor.initial
        if tensor.name != target.tensor or (is_sum and not any(each.tensor == tensor.name for each in statement.reads)):
            found.append(tensor.name)
    return found


def touched_alone(workload: Workload, reader: str, others: Collection[str]) -> list[Tensor]:
    """Return what a reader of a tensor touches and others do not, in the same way each time."""
    own = [each for each in workload.tensors if len({*accesses_of(workload.statement(reader), each.name)}) == 1]
    return [each for each in own if not any(accesses_of(workload.statement(one), each.name) for one in others)]


def _axes_in_common(users: list[Statement], tensor: str) -> list[tuple[str, str]] | None:
    """Return the dims of writer and reader that loops above both may cut together, by axis; None where others may."""
    if len(users) != 2 or users[0].target.tensor != tensor or not all(map(is_box, users)):
        return None
    if any(len(accesses_of(each, tensor)) != 1 for each in users):
        return None
    (writer, reader), found = users, list[tuple[str, str]]()
    target, access = writer.target, accesses_of(reader, tensor)[0]
    if reader.target.tensor == tensor or not (target.is_box and access.is_box):
        return None
    kept = {*reader.target.dims, *writer.dims}
    for form, other in zip(target.index, access.index, strict=True):
        cut = [name for name in other.dims if name in kept]
        if len(form.dims) != 1 or not other.is_linear or len(cut) > 1:
            return None
        is_one = cut == [*form.dims] or not ({*cut} & {*writer.dims} or {*form.dims} & {*reader.dims})
        if not is_one:
            return None
        found += [(form.dims[0], cut[0])] if cut else []
    return found


def _rounds_of(extent: int) -> list[int]:
    """Return the least numbers of rounds that leave so many indices."""
    return sorted({-(-extent // left) for left in range(1, extent + 1)})


def _touched(access: Access, extents: Mapping[str, int], cuts: Mapping[str, int]) -> int:
    """Return how many elements an access touches at least in the largest of the parts of its dims; 0 parts: by one
    index each."""
    left = {name: -(-extents[name] // many) if many else 1 for name, many in cuts.items()}
    sizes = {**extents, **left}
    return prod(_along(form, tuple((name, sizes[name]) for name in form.dims)) for form in access.index)


def _touched_in_all(access: Access, extents: Mapping[str, int], cuts: Mapping[str, int]) -> int:
    """Return how many elements an access touches at least, summed over the parts of its dims."""
    return prod(
        _along_in_all(
            form, tuple((name, extents[name]) for name in form.dims), tuple(cuts.get(name, 1) for name in form.dims)
        )
        for form in access.index
    )


@lru_cache(maxsize=4096)
def _along(form: Affine, sizes: tuple[tuple[str, int], ...]) -> int:
    """Return how many elements an index touches at least. sizes: of its dims."""
    if not form.is_linear:
        return 1  # of a floor many dims touch the same
    return (form - form.constant).reach(dict(sizes)) or max((size for _, size in sizes), default=1)


@lru_cache(maxsize=4096)
def _along_in_all(form: Affine, sizes: tuple[tuple[str, int], ...], parts: tuple[int, ...]) -> int:
    """Return how many elements an index touches at least, summed over so many parts of its dims."""
    cut = [(name, size, many) for (name, size), many in zip(sizes, parts, strict=True) if many > 1]
    whole = _along(form, sizes)
    if len(cut) != 1 or not form.is_linear:
        return whole
    ((name, size, many),), rest = cut, form - form.constant
    one, is_known, step = rest.reach({**dict(sizes), name: 1}), rest.reach(dict(sizes)), abs(form.coefficients()[name])
    if not is_known or is_known != step * (size - 1) + one:
        return whole
    return whole + (many - 1) * max(0, one - step)
