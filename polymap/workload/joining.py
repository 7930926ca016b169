"""Several nests as one program, in which what an earlier nest writes is what a later one reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from polymap.ir import Access, Dim, Operator, Statement, Tensor, Workload, affine, dim, is_box, with_indices


class Link(NamedTuple):
    """An operand of a nest that an earlier nest's result is. producer, consumer: numbers of nests; tensor: of the
    consumer."""

    producer: int
    consumer: int
    tensor: str


def links_by_name(nests: Sequence[Workload]) -> tuple[Link, ...]:
    """Return the links of nests that call what they read as an earlier nest calls its result."""
    links: list[Link] = []
    writers: dict[str, int] = {}
    for number, nest in enumerate(nests):
        (statement,) = nest.statements
        read = dict.fromkeys(access.tensor for access in statement.reads)
        links += [Link(writers[name], number, name) for name in read if name in writers]
        writers[statement.target.tensor] = number
    return tuple(links)


def why_apart(producer: Workload, consumer: Workload, tensor: str) -> str:
    """Return why the result of a nest cannot be the `tensor` of a nest in one program, without a subject ("reads
    3x3, not 4x4"); "" where it can."""
    if len(producer.statements) != 1 or len(consumer.statements) != 1:
        return "is several loop nests already"
    (first,), (second,) = producer.statements, consumer.statements
    written, read = producer.tensor(first.target.tensor), consumer.tensor(tensor)
    if not is_box(first) or not is_box(second):
        return "skips some of its instances (padding that is left out)"
    if written.initial or second.target.tensor == tensor:
        return "adds to what exists before"
    if not _is_plain(first.target):
        return "is written in windows, not by one dim for each axis"
    if len(written.shape) != len(read.shape):
        return f"has {_shape(written)} elements where it is written and {_shape(read)} where it is read"
    if not all(_contains(*axis) for axis in zip(_ranges(written), _ranges(read), strict=True)):
        return f"is written in {_shape(written)} and read in {_shape(read)}: with padding around it, or other axes"
    if (written.bits, written.element_type) != (read.bits, read.element_type):
        return f"is written in {_kind(written)} and read in {_kind(read)}"
    return ""


def join_nests(nests: Sequence[Workload], links: Sequence[Link], name: str, kept: Collection[int] = ()) -> Workload:
    """Return nests of one statement each as a program that runs them in order, S0, S1, ...

    A linked operand is the result of its producer; where both index an axis by one dim alone and are equally long
    there, that is one dim of both. What keeps its own name and what is renamed depends on the nests alone: dims and
    tensors that are not joined get other names where these are taken (`W_2`). Results that are linked to a later nest
    are temporary, but for those of the nests in `kept`. A nest that adds one term to each element of its result sets
    it. Each link must be one of which `why_apart` says nothing.
    """
    dims, tensors = _Names(), _Names()
    for producer, consumer, tensor in links:
        assert not why_apart(nests[producer], nests[consumer], tensor), "callers ask"
        tensors.join((producer, nests[producer].statements[0].target.tensor), (consumer, tensor))
        for own, other in _joined_dims(nests[producer], nests[consumer], tensor):
            dims.join((producer, own), (consumer, other))
    dead = {link.producer for link in links} - set(kept)
    loops: dict[str, Dim] = {}
    arrays: dict[str, Tensor] = {}
    for number, nest in enumerate(nests):
        for each in nest.dims:
            name_here = dims.name(number, each.name)
            loops.setdefault(name_here, replace(each, name=name_here))
        for tensor in nest.tensors:
            name_here = tensors.name(number, tensor.name)
            is_dead = number in dead and tensor.name == nest.statements[0].target.tensor
            arrays.setdefault(name_here, replace(tensor, name=name_here, temporary=tensor.temporary or is_dead))
    statements = tuple(_placed(number, nest, dims, tensors) for number, nest in enumerate(nests))
    associative = all(nest.associative for nest in nests)
    return Workload(name, tuple(loops.values()), tuple(arrays.values()), statements, associative)


class _Names:
    """Names of (number of nest, name there), those that are joined with one name together."""

    def __init__(self) -> None:
        self._joined: dict[tuple[int, str], list[tuple[int, str]]] = {}
        self._chosen: dict[tuple[int, str], str] = {}

    def join(self, first: tuple[int, str], second: tuple[int, str]) -> None:
        """Let two names be one, unless two names of one nest would be."""
        some, others = (self._joined.get(each, [each]) for each in (first, second))
        if not {number for number, _ in some} & {number for number, _ in others}:
            together = sorted([*some, *others])
            self._joined |= dict.fromkeys(together, together)

    def name(self, number: int, own: str) -> str:
        """Return the name: of the first one that is joined with it, with a number where that is taken."""
        root = self._joined.get((number, own), [(number, own)])[0]
        if root not in self._chosen:
            used, count, text = set(self._chosen.values()), 1, root[1]
            while text in used:
                count += 1
                text = f"{root[1]}_{count}"
            self._chosen[root] = text
        return self._chosen[root]


def _placed(number: int, nest: Workload, dims: _Names, tensors: _Names) -> Statement:
    """Return the statement of a nest as statement number `number` of the program."""
    (statement,) = nest.statements
    names = {each.name: dims.name(number, each.name) for each in nest.dims}
    found = with_indices(statement, {old: dim(new) for old, new in names.items()})
    target, *reads = (Access(tensors.name(number, each.tensor), each.index) for each in (found.target, *found.reads))
    result = nest.tensor(statement.target.tensor)
    once = statement.operator is Operator.ADD and not result.initial and _sets_each_once(nest)
    return replace(
        found,
        name=f"S{number}",
        dims=tuple(names[each] for each in statement.dims),
        target=target,
        reads=tuple(reads),
        operator=Operator.ASSIGN if once else statement.operator,
        position=(number, *(0 for _ in statement.dims)),
    )


def _sets_each_once(nest: Workload) -> bool:
    (statement,) = nest.statements
    return _is_plain(statement.target) and set(statement.dims) <= set(statement.target.dims)


def _joined_dims(producer: Workload, consumer: Workload, tensor: str) -> list[tuple[str, str]]:
    """Return, axis by axis, the dims of two nests that index what passes alone, and are equally long."""
    written = producer.statements[0].target
    read = next(access for access in consumer.statements[0].reads if access.tensor == tensor)
    lengths, others = producer.extents(), consumer.extents()
    return [
        (own.dims[0], other.dims[0])
        for own, other in zip(written.index, read.index, strict=True)
        if len(other.dims) == 1
        and other == dim(other.dims[0])
        and own == dim(own.dims[0])
        and lengths[own.dims[0]] == others[other.dims[0]]
    ]


def without_idle_dims(nest: Workload) -> Workload:
    """Return a nest over a box without its dims of one iteration, and its tensors without axes of one element; one of
    several statements, or that is all one instance, as it is."""
    kept = tuple(each for each in nest.dims if each.extent > 1)
    if len(nest.statements) != 1 or not is_box(nest.statements[0]) or not kept:
        return nest
    (statement,) = nest.statements
    values = {each.name: dim(each.name) if each.extent > 1 else affine(()) for each in nest.dims}
    axes = {each.name: [axis for axis, size in enumerate(each.shape) if size > 1] for each in nest.tensors}
    return _restricted(nest, with_indices(statement, values), kept, lambda access: axes[access.tensor], {})


def _restricted(
    nest: Workload,
    statement: Statement,
    dims: tuple[Dim, ...],
    kept: Callable[[Access], Sequence[int]],
    lengths: Mapping[str, int],
) -> Workload:
    """Return a nest over some dims, its tensors with the axes of their accesses that are kept. lengths: dim -> the
    length of the axis that it indexes, where that is another one."""

    def plain(access: Access) -> Access:
        return Access(access.tensor, tuple(access.index[axis] for axis in kept(access)))

    def cut(tensor: Tensor) -> Tensor:
        access = next(each for each in (statement.target, *statement.reads) if each.tensor == tensor.name)
        sizes = [next((lengths[name] for name in form.dims if name in lengths), size)
                 for form, size in zip(access.index, tensor.shape, strict=True)]  # fmt: skip
        axes = kept(access)
        return replace(
            tensor, shape=tuple(sizes[axis] for axis in axes), origin=tuple(tensor.origin[axis] for axis in axes)
        )

    names = tuple(name for name in statement.dims if any(name == each.name for each in dims))
    own = replace(statement, dims=names, target=plain(statement.target), reads=tuple(map(plain, statement.reads)))
    own = replace(own, position=(statement.position[0], *(0 for _ in names)))
    return replace(nest, dims=dims, tensors=tuple(map(cut, nest.tensors)), statements=(own,), original=None, bare=None)


def with_axes_merged(nest: Workload, tensor: str, shape: Sequence[int]) -> Workload | None:
    """Return a nest of which a tensor has another shape, in which neighbouring axes are one axis; None where they are
    not indexed by dims of their own that go together wherever they occur, each over a whole axis."""
    if len(nest.statements) != 1 or not is_box(nest.statements[0]):
        return None
    (statement,) = nest.statements
    accesses = dict.fromkeys((statement.target, *statement.reads))
    own = [each for each in accesses if each.tensor == tensor]
    axes = _blocks(nest.tensor(tensor).shape, shape)
    if axes is None or len(accesses) != len(nest.tensors) or not _is_plain(own[0]):
        return None
    blocks = [own[0].dims[first:end] for first, end in axes if end - first > 1]
    if not all(_holds_block(nest, access, block) for block in blocks for access in accesses):
        return None
    return with_blocks_as_dims(nest, {block[0]: block for block in blocks})


def with_blocks_as_dims(nest: Workload, blocks: Mapping[str, tuple[str, ...]]) -> Workload:
    """Return a nest in which the first dim of each block stands for all of it."""
    (statement,) = nest.statements
    extents = nest.extents()
    merged = {name: prod(extents[each] for each in block) for name, block in blocks.items()}
    gone = {name for block in blocks.values() for name in block[1:]}

    def kept(access: Access) -> list[int]:
        return [axis for axis, form in enumerate(access.index) if not set(form.dims) & gone]

    dims = (replace(each, extent=merged.get(each.name, each.extent)) for each in nest.dims if each.name not in gone)
    return _restricted(nest, statement, tuple(dims), kept, merged)


def _blocks(shape: Sequence[int], merged: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return which neighbouring axes of a shape make each axis of another one, as (first, end); None where none do."""
    blocks: list[tuple[int, int]] = []
    at = 0
    for length in merged:
        first, product = at, 1
        while product < length and at < len(shape):
            product, at = product * shape[at], at + 1
        if product != length:
            return None
        blocks.append((first, at))
    return blocks if at == len(shape) else None


def _holds_block(nest: Workload, access: Access, block: tuple[str, ...]) -> bool:
    """Return whether an access has none of some dims, or all, side by side in order, each over a whole axis."""
    used = [axis for axis, form in enumerate(access.index) if set(form.dims) & set(block)]
    if not used:
        return True
    tensor, extents = nest.tensor(access.tensor), nest.extents()
    plain = tuple(access.index[axis] for axis in used) == tuple(map(dim, block))
    beside = used == list(range(used[0], used[0] + len(used)))
    whole = all(tensor.shape[axis] == extents[name] for axis, name in zip(used, block, strict=False))
    return plain and beside and whole and all(tensor.origin[axis] == 0 for axis in used)


def _is_plain(access: Access) -> bool:
    """Return whether each axis is indexed by a dim of its own, from 0 on."""
    alone = all(len(form.dims) == 1 and form == dim(form.dims[0]) for form in access.index)
    return alone and len(set(access.dims)) == len(access.index)


def _ranges(tensor: Tensor) -> list[tuple[int, int]]:
    return [(low, low + length) for low, length in zip(tensor.origin, tensor.shape, strict=True)]


def _contains(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "1"


def _kind(tensor: Tensor) -> str:
    return tensor.element_type or f"{tensor.bits} bits"
