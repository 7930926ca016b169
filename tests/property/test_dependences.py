"""Laws of dependences and legality on random small programs, held against running them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from islpy import Context

from polymap.ir.loopnest import Access, Operator, Workload
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Temporal
from polymap.ir.quasi_affine import Affine, Floor, affine, dim
from polymap.ir.violation import InstancePoint
from polymap.schedules.legality import dependence_violations, legal_orders
from polymap.schedules.relation import original_schedule
from polymap.workload.dependence_analysis import dependence_relations, dependences
from tests.nests import (
    at,
    broken_pairs,
    orders_that_keep,
    referee_flow,
    referee_pairs,
    statement,
    workload,
)
from tests.referee.value_flow import value_based_flow

pytestmark = pytest.mark.slow

OPERATORS = st.sampled_from([Operator.ASSIGN, Operator.ADD, Operator.ADD, Operator.MAX])


@st.composite
def indices(draw: st.DrawFn, dims: str) -> Affine:
    """Return a small index: mostly a dim plus a shift, sometimes a sum, a multiple, a floor or a modulo."""
    first = dim(draw(st.sampled_from(dims)))
    other = dim(draw(st.sampled_from(dims)))
    shift = draw(st.integers(-2, 2))
    form = draw(st.integers(0, 9))
    if form < 6:
        return first + shift
    if form == 6:
        return first + other * draw(st.sampled_from([-1, 1, 2]))
    if form == 7:
        return affine(((1, Floor(first + other, 2)),), shift)
    if form == 8:
        return first - affine(((3, Floor(first + shift, 3)),))
    return Affine((), shift)


@st.composite
def programs(draw: st.DrawFn, most: int = 2) -> Workload:
    """Return one or two statements over up to three loops, some of them shared; triangular domains now and then."""
    extents = {name: draw(st.integers(1, 4)) for name in "ijk"}
    shared = draw(st.integers(0, 2))
    count = draw(st.integers(1, most))
    found = []
    for number in range(count):
        depth = draw(st.integers(max(shared, 1), 3)) if number == 0 else max(shared, 1)
        dims = "ijk"[:depth] if number == 0 or shared else "k"
        rank = draw(st.integers(1, 2))

        def access(dims: str = dims, rank: int = rank) -> Access:
            name = draw(st.sampled_from("ab"))
            return at(name + str(rank), *(draw(indices(dims)) for _ in range(rank)))

        constraints = ()
        if len(dims) > 1 and draw(st.booleans()):
            constraints = (dim(dims[0]) - dim(dims[1]) + draw(st.integers(-1, 1)),)
        position = (*([0] * shared), number, *([0] * (len(dims) - shared)))
        reads = [access() for _ in range(draw(st.integers(0, 2)))]
        found.append(
            statement(
                dims, access(), reads, draw(OPERATORS), name=f"S{number}", constraints=constraints, position=position
            )
        )
    return workload(extents, *found, associative=draw(st.booleans()))


@given(programs())
def test_dependences_are_exactly_the_pairs_that_running_the_program_finds(work: Workload) -> None:
    expected = referee_pairs(work)
    found = {
        (each.source, each.sink, each.kind.value, each.tensor, *points)
        for each, relation in dependence_relations(work)
        for points in pairs_of(relation)
    }
    assert found == expected


def pairs_of(relation: object) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    import islpy as isl

    assert isinstance(relation, isl.Map)
    arity = relation.dim(isl.dim_type.in_)
    found = set()

    def add(point: isl.Point) -> None:
        size = relation.dim(isl.dim_type.in_) + relation.dim(isl.dim_type.out)
        values = tuple(point.get_coordinate_val(isl.dim_type.set, place).to_python() for place in range(size))
        found.add((values[:arity], values[arity:]))

    relation.wrap().foreach_point(add)
    return found


@given(programs())
def test_signs_and_distances_are_those_of_the_pairs(work: Workload) -> None:
    expected = referee_pairs(work)
    for each in dependences(work):
        key = (each.source, each.sink, each.kind.value, each.tensor)
        shared = len(each.dims)
        deltas = {
            tuple(b - a for a, b in zip(pair[4][:shared], pair[5][:shared], strict=True))
            for pair in expected
            if pair[:4] == key
        }
        assert set(each.signs) == {tuple((d > 0) - (d < 0) for d in delta) for delta in deltas}
        for delta in deltas:
            assert any(all(c in (None, d) for c, d in zip(known, delta, strict=True)) for known in each.distances)


@given(programs())
def test_value_based_flow_names_the_last_writer_of_each_value_read(work: Workload) -> None:
    from polymap.poly.budgets import budget
    from polymap.poly.sets import Map

    found = set()
    with budget():
        for each in value_based_flow(work):
            for points in pairs_of(Map.read_from_str(_context(), each.relation_text)):
                found.add((each.source, each.sink, each.kind.value, each.tensor, *points))
    assert found == referee_flow(work)


def _context() -> Context:
    from polymap.poly.budgets import CONTEXT

    return CONTEXT


@given(programs(most=1), st.booleans())
def test_legal_orders_are_those_that_no_pair_of_instances_forbids(work: Workload, strict: bool) -> None:
    assert set(legal_orders(work, strict=strict)) == set(orders_that_keep(work, strict=strict))


@st.composite
def trees(draw: st.DrawFn, work: Workload) -> Mapping:
    """Return a loop tree of the program: random tiles, orders and spatial loops, one child per statement."""
    extents = work.extents()
    common = [name for name in work.statements[0].dims if all(name in each.dims for each in work.statements)]
    above = draw(st.permutations(common))[: draw(st.integers(0, len(common)))] if len(work.statements) > 1 else common
    nodes: list[MappingNode] = []
    tiles = dict(extents)

    def loop(name: str, tiles: dict[str, int], tile: int) -> MappingNode:
        tiles[name] = tile
        return Spatial(name, tile, "X") if draw(st.integers(0, 4)) == 0 else Temporal(name, tile)

    for _ in range(draw(st.integers(0, 3))):
        if above:
            name = draw(st.sampled_from(above))
            nodes.append(loop(name, tiles, draw(st.integers(1, tiles[name]))))
    children: list[tuple[MappingNode, ...]] = []
    for each in work.statements:
        own = dict(tiles)
        inner = [loop(name, own, 1) for name in draw(st.permutations(each.dims)) if own[name] > 1]
        children.append((*inner, Compute(each.name)))
    if len(children) == 1:
        return Mapping((*nodes, *children[0]))
    return Mapping((*nodes, Branch(tuple(draw(st.permutations(children))))))


@given(st.data(), programs(), st.booleans())
def test_broken_dependences_of_a_mapping_are_those_of_running_it(
    data: st.DataObject, work: Workload, strict: bool
) -> None:
    tree = data.draw(trees(work))
    expected = broken_pairs(work, tree, strict=strict)
    found = dependence_violations(work, tree, strict=strict)
    assert len(found) == len({pair[:4] for pair in expected})
    for each in found:
        first, second = each.witness
        assert isinstance(first, InstancePoint)
        assert isinstance(second, InstancePoint)
        points = tuple(tuple(number for _, number in one.values) for one in (first, second))
        assert any(
            pair[4:] == points and (pair[0], pair[1]) == (first.statement, second.statement) for pair in expected
        )


@given(programs())
def test_the_programs_own_order_breaks_nothing(work: Workload) -> None:
    from polymap.schedules.legality import schedule_violations

    assert schedule_violations(work, original_schedule(work), strict=True) == ()
