"""Rewrites of loop trees: each takes a tree and returns a new one, and shows its rewrite.

A node is named by its place: its index among the tree's nodes, or a tuple that goes on into a Branch, as
(5, 0, 2): node 5 is a Branch, its child 0, node 2 there. Whether the result is legal is `violations` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from polymap.inputs import answers_in_words, shown
from polymap.ir import Branch, Mapping, MappingError, MappingNode, Mistake, Spatial, Storage, Temporal

Nodes = tuple[MappingNode, ...]
Place = int | tuple[int, ...]
Edit = Callable[[Nodes, int], Nodes]
Old = TypeVar("Old", Temporal, Spatial)


def split(mapping: Mapping, dim: str, *, inner: int) -> Mapping:
    """Return the mapping with the outermost temporal loop over `dim` split in two; the inner one runs `inner` times.

    The order of the iterations stays, so no count changes.

    Rewrite:
        for m in 12 {body}   ->   for m in 3 { for m in 4 {body} }        # inner=4

    Raises MappingError where there is no such loop, or `inner` is below 1.
    """
    if inner < 1:
        raise _impossible(f"a loop over {dim} cannot be split into loops of {inner} iterations", "inner is at least 1.")
    for place, node in places(mapping):
        if isinstance(node, Temporal) and node.dim == dim:
            return _edited(mapping, place, _inserting(Temporal(dim, node.tile * inner)))
    raise _impossible(f"there is no temporal loop over {dim}", "")


def interchange(mapping: Mapping, at: Place) -> Mapping:
    """Return the mapping with the loop at `at` and the loop directly inside it exchanged.

    Rewrite:
        for m { for n {body} }   ->   for n { for m {body} }

    Raises MappingError where one of the two is no loop, or both are over one dim.
    """

    def exchanged(nodes: Nodes, index: int) -> Nodes:
        pair = nodes[index : index + 2]
        if len(pair) < 2 or not all(isinstance(node, Temporal | Spatial) for node in pair):
            raise _impossible(f"at {at} there are no two loops, one directly inside the other", _ASK)
        one, other = pair
        assert isinstance(one, Temporal | Spatial)
        assert isinstance(other, Temporal | Spatial)
        if one.dim == other.dim:
            what = f"at {at} both loops are over {one.dim}: the inner one runs over the tile of the outer one"
            raise _impossible(what, "Loops over different dims can be exchanged.")
        return (*nodes[:index], other, one, *nodes[index + 2 :])

    return _edited(mapping, at, exchanged)


@answers_in_words
def move_storage(mapping: Mapping, at: Place, *, by: int) -> Mapping:
    """Return the mapping with the Storage node at `at` moved inwards by `by` nodes (outwards where `by` is negative).

    Rewrite:
        store A in RF { for m {body} }   ->   for m { store A in RF {body} }        # by=1

    Raises MappingError where it is no Storage node, or there is no such place in its sequence.
    """

    def moved(nodes: Nodes, index: int) -> Nodes:
        target = index + by
        last = len(nodes) - 1  # the Compute or Branch
        if not isinstance(nodes[index], Storage):
            raise _impossible(f"the node at {at} stores nothing", _ASK)
        if not 0 <= target < last:
            raise _impossible(f"the node at {at} cannot be moved by {by}: the sequence has {last} places for it", "")
        rest = (*nodes[:index], *nodes[index + 1 :])
        return (*rest[:target], nodes[index], *rest[target:])

    return _edited(mapping, at, moved)


@answers_in_words
def stage(mapping: Mapping, at: Place, *, level: str, tensor: str) -> Mapping:
    """Return the mapping with a tile of a tensor copied into a level: a new Storage node before the node at `at`.

    Rewrite:
        for m {body}   ->   store A in RF { for m {body} }        # the tile of A that `for m` touches

    Raises MappingError where a node holds the tensor in that level already.
    """
    if any(isinstance(node, Storage) and node.level == level and tensor in node.tensors for _, node in places(mapping)):
        raise _impossible(f"{tensor} is stored in '{level}' already", "There is at most one node per tensor and level.")
    return _edited(mapping, at, _inserting(Storage(level, (tensor,))))


@answers_in_words
def bypass(mapping: Mapping, *, level: str, tensor: str) -> Mapping:
    """Return the mapping without the node of `tensor` in `level`; other tensors of that node stay.

    Rewrite:
        store A, B in RF {body}   ->   store B in RF {body}        # tensor=A

    Raises MappingError where no node holds the tensor in that level.
    """
    for place, node in places(mapping):
        if isinstance(node, Storage) and node.level == level and tensor in node.tensors:
            others = tuple(each for each in node.tensors if each != tensor)
            return _edited(mapping, place, _replacing_by(*((Storage(level, others),) if others else ())))
    raise _impossible(f"{tensor} is not stored in '{level}'", "")


def parallelize(mapping: Mapping, at: Place, *, fanout: str) -> Mapping:
    """Return the mapping with the temporal loop at `at` spread over `fanout`.

    Rewrite:
        for m {body}   ->   par m over X {body}

    Raises MappingError where the node is no temporal loop.
    """

    return _with_loop(mapping, at, Temporal, "temporal", lambda loop: Spatial(loop.dim, loop.tile, fanout))


def serialize(mapping: Mapping, at: Place) -> Mapping:
    """Return the mapping with the spatial loop at `at` run one iteration after the other.

    Rewrite:
        par m over X {body}   ->   for m {body}

    Raises MappingError where the node is no spatial loop.
    """

    return _with_loop(mapping, at, Spatial, "spatial", lambda loop: Temporal(loop.dim, loop.tile))


@answers_in_words
def places(mapping: Mapping) -> Iterator[tuple[tuple[int, ...], MappingNode]]:
    """Return the place and the node of every node, from the outside in, a Branch before its children."""
    return _places(mapping.nodes, ())


def _places(nodes: Nodes, above: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], MappingNode]]:
    for index, node in enumerate(nodes):
        yield (*above, index), node
        if isinstance(node, Branch):
            for number, child in enumerate(node.children):
                yield from _places(child, (*above, index, number))


_ASK = "places(mapping) lists the nodes and their places."


def _impossible(what: str, hint: str) -> MappingError:
    return MappingError(Mistake("PM420", what, hint))


def _inserting(new: MappingNode) -> Edit:
    return lambda nodes, at: (*nodes[:at], new, *nodes[at:])


def _replacing_by(*new: MappingNode) -> Edit:
    return lambda nodes, at: (*nodes[:at], *new, *nodes[at + 1 :])


def _with_loop(
    mapping: Mapping, at: Place, kind: type[Old], word: str, change: Callable[[Old], MappingNode]
) -> Mapping:
    """Return the mapping with the loop at `at`, which is of a kind, changed."""

    def changed(nodes: Nodes, index: int) -> Nodes:
        node = nodes[index]
        if not isinstance(node, kind):
            raise _impossible(f"the node at {at} is no {word} loop", _ASK)
        return _replacing_by(change(node))(nodes, index)

    return _edited(mapping, at, changed)


def _edited(mapping: Mapping, at: Place, edit: Edit) -> Mapping:
    """Return the mapping with the sequence that holds the node at `at` edited there."""
    place = (at,) if isinstance(at, int) else at
    if place not in [known for known, _ in places(mapping)]:
        raise _impossible(f"there is no node at {at if isinstance(at, tuple) else shown(at)}", _ASK)
    return replace(mapping, nodes=_edited_nodes(mapping.nodes, place, edit))


def _edited_nodes(nodes: Nodes, place: tuple[int, ...], edit: Edit) -> Nodes:
    index, *inside = place
    if not inside:
        return edit(nodes, index)
    branch = nodes[index]
    assert isinstance(branch, Branch), "the place was found among the nodes"
    number, *rest = inside
    child = _edited_nodes(branch.children[number], tuple(rest), edit)
    children = (*branch.children[:number], child, *branch.children[number + 1 :])
    return (*nodes[:index], Branch(children), *nodes[index + 1 :])
