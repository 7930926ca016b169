"""Figures of the space: their data, and that their text stays inside the picture."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest

from polymap.checker import Reason, Verdict
from polymap.costmodel.evaluation import evaluate
from polymap.explore import explore
from polymap.formatting import size
from polymap.inputs.machines import arch_from_document
from polymap.inputs.presets import load_arch
from polymap.ir.errors import OptionError
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Compute, Mapping, Storage, Temporal
from polymap.networks.capacity_sweep import capacity
from polymap.networks.comparison import compare
from polymap.networks.resource_prices import sensitivity
from polymap.networks.tile_map import tiles as tiles_of
from polymap.networks.winner_map import winners as winners_of
from polymap.report.figures.buffer_curve import capacity_svg
from polymap.report.figures.chart import grid, new_chart, round_axis, tick_text, ticks_of
from polymap.report.figures.cloud import cloud_figure, cloud_svg, undominated
from polymap.report.figures.cost_maps import tile_map_svg, winner_svg
from polymap.report.figures.course import course_figure, course_svg, fate_figure, fate_svg
from polymap.report.figures.order_classes import order_figure, order_svg
from polymap.report.figures.proof import proof_figure, proof_svg, refuted_svg
from polymap.report.figures.sampled_costs import rarity_figure, rarity_svg, smooth_figure, smooth_svg
from polymap.report.figures.sensitivity import sensitivity_svg
from polymap.report.figures.two_mappings import side_by_side, side_by_side_svg, side_by_side_text
from polymap.search.trees.samples import sample_mappings
from polymap.verify import verify
from polymap.workload.einsums import einsum
from polymap.workload.layers import matmul
from polymap.workload.networks import builtin_workload
from tests.unit.report.shared import assert_apart, assert_inside

_LAYER, _ARCH = matmul(m=16, n=8, k=12), load_arch("flat3")


@pytest.mark.parametrize("objective", ["energy", "latency", "edp", "traffic:DRAM"])
def test_numbers_of_an_axis_differ_where_its_ends_are_nearly_alike(objective: str) -> None:
    axis = round_axis([415_600_000, 415_690_000], 0, 100, is_size=objective.startswith("traffic"))
    told = [tick_text(objective)(value) for value in ticks_of(axis)]
    assert len({*told}) == len(told) > 3
    for width in (320, 860):
        chart = new_chart("", "", width)
        x, y = (
            side([415_600_000, 415_690_000], is_size=axis.is_size) for side in (chart.frame.x_axis, chart.frame.y_axis)
        )
        picture = chart.picture("", grid(chart.frame, x, y, tick_text(objective), tick_text(objective)), (), None)
        assert_inside(picture)
        assert_apart(picture)


@pytest.mark.parametrize(
    ("low", "high", "logarithmic"),
    [(0, 7.3, False), (-3, 11, False), (3.2e5, 9e8, True), (40, 75, True), (5, 5, False)],
)
def test_ticks_are_round_and_axes_hold_the_values(low: float, high: float, logarithmic: bool) -> None:
    axis = round_axis([low, high], 0, 100, logarithmic=logarithmic)
    assert axis.low <= low <= high <= axis.high
    ticks = ticks_of(axis)
    assert 2 <= len(ticks) <= 14
    for tick in ticks:
        digits = re.sub(r"e.*|[.0-]", "", f"{abs(tick):.10e}")
        assert len(digits) <= 2


@pytest.mark.parametrize(("low", "high"), [(0, 13312), (0, 7 * 2**33), (1100, 3e9), (4e6, 4.1e6), (64, 64)])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_ticks_of_sizes_are_round_in_bytes_kib_and_mib(low: float, high: float, logarithmic: bool) -> None:
    axis = round_axis([low, high], 0, 100, logarithmic=logarithmic, is_size=True)
    assert axis.low <= low <= high <= axis.high
    ticks = ticks_of(axis)
    assert 2 <= len(ticks) <= 12
    for tick in ticks:
        assert tick == int(tick)
        if tick >= 2**13:
            assert re.fullmatch(r"[\d.]+ [KMGT]iB", size(int(tick)))
            assert len(bin(int(tick)).rstrip("0")) <= 14, "few digits: 3.9 MiB has more"


def test_the_cloud_holds_the_sample_its_front_and_the_families() -> None:
    sample = sample_mappings(_LAYER, _ARCH, 60, seed=1)
    figure = cloud_figure(sample, compare(_LAYER, _ARCH, ["optimum"], time_limit_s=10))
    costs = [evaluate(_LAYER, _ARCH, mapping) for mapping in sample]
    assert figure.points == tuple((cost.latency_cycles, cost.energy_pj, cost.legal) for cost in costs)
    fitting = [(cost.latency_cycles, cost.energy_pj) for cost in costs if cost.legal]
    for point in fitting:
        assert any(a <= point[0] and b <= point[1] for a, b in figure.front)
    assert set(figure.front) <= set(fitting)
    assert figure.marked[0][0] == "optimum"
    assert figure.marked[0][2] <= min(pj for _, pj in fitting)
    assert_inside(cloud_svg(figure))


def drawn_structures(picture: str) -> int:
    """Return how many structures the columns or cells of a picture stand for, by what they say under the pointer."""
    said = [each.text or "" for each in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}title")][1:]
    many = (re.match(r"the weakest of ([\d,]+) structures", each) for each in said)
    return sum(int(each[1].replace(",", "")) if each else 1 for each in many)


@pytest.mark.parametrize(
    ("layer", "machine", "objective"),
    [
        (builtin_workload("resnet50.conv2_x"), "flat3", "energy"),
        (matmul(m=24, n=24, k=24), "tutorial3", "energy"),
        (matmul(m=6, n=10, k=4), "eyeriss_like", "edp"),
    ],
    ids=["1,171 structures", "one structure", "edp"],
)
def test_pictures_of_a_proof_hold_every_structure_on_its_side_of_the_cut(
    layer: Workload, machine: str, objective: str
) -> None:
    result = explore(layer, load_arch(machine), objective, tiles="divide")
    verdict = verify(result.certificate())
    figure = proof_figure(verdict)
    assert len(figure.reasons) == verdict.structures == sum(figure.counts.values())
    bounds = [each.bound for each in figure.reasons if each.bound is not None]
    assert bounds == sorted(bounds), "columns stand by rising bound"
    below = [each.kind for each in figure.reasons if each.bound is not None and each.bound < figure.value]
    assert set(below) <= {"search", "word"}, "only a structure that was searched may have a bound below the best"
    for drawn in (proof_svg(figure), refuted_svg(figure)):
        assert drawn_structures(drawn) == verdict.structures, "a structure is drawn twice, or not at all"
        assert drawn.data is figure
        assert_inside(drawn)
    line = re.search(r'<line [^>]*y1="([\d.]+)"[^>]* stroke-width="2"', proof_svg(figure))
    assert line is not None
    tops = re.findall(r'y="([\d.]+)" width="[\d.]+" height="[\d.]+" fill="#[0-9a-f]{6}"/></g>', proof_svg(figure))
    assert below or all(float(top) <= float(line[1]) + 0.1 for top in tops), "a column ends below the cut"


def test_structures_without_a_mapping_and_on_trust_are_drawn_as_such() -> None:
    spread = (("X", "m", 2),)
    kinds = [Reason((), "empty", None), Reason(spread, "word", Fraction(3)), Reason(spread, "over", None)]
    figure = proof_figure(Verdict(False, ("1",), "", "latency", Fraction(5), 3, "", 0.0, None, tuple(kinds)))
    assert [each.kind for each in figure.reasons] == ["word", "empty", "over"]
    assert "1 of them not proven" in figure.title
    for drawn in (proof_svg(figure), refuted_svg(figure)):
        assert drawn_structures(drawn) == 3
        assert "not proven: the search's word" in drawn
        assert_inside(drawn)


def test_what_lists_no_structures_is_told() -> None:
    with pytest.raises(OptionError, match="PM575 there is no proof to draw: the certificate is refused"):
        proof_figure(verify("nothing"))
    bound = verify(explore(_LAYER, _ARCH).certificate())
    assert bound.proven
    with pytest.raises(OptionError, match="its structures are not listed"):
        proof_figure(bound)


def test_undominated_points_rise_and_fall() -> None:
    assert undominated([(3, 1), (1, 3), (2, 2), (2, 3), (3, 2), (1, 3)]) == ((1, 3), (2, 2), (3, 1))


def test_rarity_counts_every_mapping_once() -> None:
    figure = rarity_figure("six", [2, 2, 3, 10, 40, 200], 2)
    assert sum(share for _, _, share in figure.bins) == pytest.approx(1)
    assert figure.share_within(1) == pytest.approx(2 / 6)
    assert figure.share_within(5) == pytest.approx(4 / 6)
    assert figure.share_within(0.5) == 0
    assert_inside(rarity_svg(figure))


def test_the_textbooks_120_orders_fall_into_five_classes() -> None:
    """S9: ML systems textbook, chapter Hardware Acceleration."""
    layer = einsum("O[m,p,q] += I[p+r,q+s] * W[m,r,s]", m=16, p=6, q=6, r=3, s=3)
    buffers = [{"level": f"R{tensor}", "holds": [tensor]} for tensor in "WIO"]
    arch = arch_from_document({"name": "one", "nodes": [{"level": "DRAM"}, *buffers, {"compute": "MAC"}]})
    figure = order_figure(layer, arch)
    assert figure.orders == 120
    assert len(figure.classes) == 5
    counts: dict[tuple[str, int], int] = {}
    for each in figure.classes:
        for moved in each.moved:
            counts[moved] = counts.get(moved, 0) + len(each.orders)
    assert {n: c for (t, n), c in counts.items() if t == "W"} == {144: 12, 864: 36, 5184: 72}
    assert {n: c for (t, n), c in counts.items() if t == "I"} == {324: 24, 5184: 96}
    assert {n: c for (t, n), c in counts.items() if t == "O"} == {576: 12, 1728: 36, 5184: 72}
    assert_inside(order_svg(figure))


def test_a_searchs_course_and_the_fate_of_its_structures() -> None:
    result = explore(_LAYER, _ARCH, tiles="divide", time_limit_s=20)
    fates = fate_figure(result)
    assert sum(count for _, count in fates.fates) == result.space.listed
    assert_inside(fate_svg(fates))
    assert "count once" in fate_svg(fates).svg
    course = course_figure(result)
    assert course.values[-1][1] == result.value
    assert all(bound <= course.values[-1][1] for _, bound in course.bounds)
    assert_inside(course_svg(course))


def test_a_searchs_structures_are_the_checkers_up_to_symmetry() -> None:
    layer = einsum("O[p,q] += I[p+r,q+s] * W[r,s]", p=6, q=6, r=3, s=3)
    result = explore(layer, _ARCH, tiles="divide", time_limit_s=20)
    reasons = proof_figure(verify(result.certificate())).reasons
    turned = dict(zip("pqrs", "qpsr", strict=True))
    spreads = {tuple(sorted(each.spread)) for each in reasons}
    mirrors = {each: tuple(sorted((where, turned[dim], size) for where, dim, size in each)) for each in spreads}
    assert len(reasons) == len(spreads) == len(set(mirrors.values()) | spreads)
    assert result.space.listed == len({min(pair) for pair in mirrors.items()}) < len(reasons)


def test_neighbours_costs_are_those_of_evaluate() -> None:
    sample = sample_mappings(_LAYER, _ARCH, 4, seed=2)
    figure = smooth_figure(sample)
    assert {one for one, _ in figure.pairs} == {evaluate(_LAYER, _ARCH, mapping).energy_pj for mapping in sample}
    assert_inside(smooth_svg(figure))


def test_more_of_a_resource_is_never_worse() -> None:
    answer = sensitivity(_LAYER, _ARCH, tiles="divide", time_limit_s=40)
    for price in answer.prices:
        assert price.raised.value is None or price.raised.value <= answer.value
        assert price.lowered is None or price.lowered.value is None or price.lowered.value >= answer.value
    assert_inside(sensitivity_svg(answer))


def test_larger_buffers_never_cost_more() -> None:
    figure = capacity(_LAYER, _ARCH, "GLB", [256, 1024, 4096], time_limit_s=20)
    paid = [point.energy_pj for point in figure.points if point.energy_pj is not None]
    assert paid == sorted(paid, reverse=True)
    assert all(point.energy_pj is None or point.energy_bound <= point.energy_pj for point in figure.points)
    assert figure.own == 1048576
    assert_inside(capacity_svg(figure))


def test_winners_are_the_optima() -> None:
    figure = winners_of(_LAYER, _ARCH, ("RF", [16, 64]), ("GLB", [1024]), time_limit_s=20)
    assert [len(row) for row in figure.winners] == [2]
    assert figure.winners[0][1].energy_pj <= figure.winners[0][0].energy_pj
    assert_inside(winner_svg(figure))


def test_the_tile_map_holds_what_evaluate_says_of_each_pair() -> None:
    mapping = Mapping((Temporal("m", 8), Temporal("k", 6), Storage("GLB", ("A", "B", "C")), Temporal("m", 2),
                       Temporal("k", 2), Storage("RF", ("C",)), Temporal("n", 1), Temporal("m", 1), Temporal("k", 1),
                       Compute("S")))  # fmt: skip
    small = arch_from_document(
        {"name": "s", "nodes": [{"level": "DRAM", "read_pj": 9}, {"level": "GLB", "capacity_bits": 700, "read_pj": 2},
                                {"level": "RF"}, {"compute": "MAC", "pj": 1}]}
    )  # fmt: skip
    figure = tiles_of(_LAYER, small, mapping, 0, 1)
    assert (figure.across[1], figure.up[1], figure.own) == ((2, 4, 8, 16), (2, 4, 6, 12), (8, 6))
    seen = set[bool]()
    for up, row in enumerate(figure.up[1]):
        for across, column in enumerate(figure.across[1]):
            nodes = (Temporal("m", column), Temporal("k", row), *mapping.nodes[2:])
            cost = evaluate(_LAYER, small, Mapping(nodes))
            assert figure.energy_pj[up][across] == pytest.approx(cost.energy_pj)
            assert figure.fits[up][across] == cost.legal
            seen.add(cost.legal)
    assert seen == {True, False}
    drawn = tile_map_svg(figure)
    assert "does not fit" in drawn
    assert_inside(drawn)


def test_two_loops_over_one_dim_have_names_of_their_own() -> None:
    layer = matmul(m=12, n=2, k=2, name="tall")
    arch = load_arch("simple3")
    nodes = [Storage(level.name, ("C", "A", "B")) for level in arch.levels]
    loops = [Temporal("m", 6), Temporal("n", 1), Temporal("m", 3), Temporal("k", 1), Temporal("m", 1)]
    tree = Mapping((nodes[0], loops[0], loops[1], nodes[1], loops[2], *nodes[2:], *loops[3:], Compute("S")))
    found = tiles_of(layer, arch, tree, 0, 2)
    assert found.across == ("tile of the outer loop over m", (1, 2, 3, 4, 6, 12))
    assert found.up == ("tile of the inner loop over m", (1, 2, 3, 4, 6, 12))
    assert found.own == (6, 3)
    for row, inner in enumerate(found.up[1]):
        for column, outer in enumerate(found.across[1]):
            other = replace(
                tree,
                nodes=tuple(
                    Temporal("m", outer) if node is loops[0] else Temporal("m", inner) if node is loops[2] else node
                    for node in tree.nodes
                ),
            )
            cost = evaluate(layer, arch, other)
            assert found.energy_pj[row][column] == pytest.approx(float(cost.energy_pj), rel=1e-12)
            assert found.fits[row][column] == cost.legal
    # With another dim the loop next to it bounds the range.
    assert tiles_of(layer, arch, tree, 0, 1).across[1] == (3, 6, 12)


def test_figures_take_names() -> None:
    layer, arch = builtin_workload("alexnet.fc8"), load_arch("flat3")
    one, other = sample_mappings(layer, arch, 2, seed=1)
    assert side_by_side("alexnet.fc8", "flat3", one, other) == side_by_side(layer, arch, one, other)
    assert order_figure("alexnet.fc8", "flat3") == order_figure(layer, arch)
    sizes = [1 << 14]
    assert capacity("alexnet.fc8", "flat3", "GLB", sizes) == capacity(layer, arch, "GLB", sizes)


def test_side_by_side_rows_are_the_costs() -> None:
    one, other = sample_mappings(_LAYER, _ARCH, 2, seed=3)
    figure = side_by_side(_LAYER, _ARCH, one, other)
    costs = [evaluate(_LAYER, _ARCH, mapping) for mapping in (one, other)]
    assert (figure.rows[0].one, figure.rows[0].other) == tuple(cost.energy_pj for cost in costs)
    assert sum(a for _, a, _ in figure.by_level) == pytest.approx(costs[0].energy_pj)
    assert "ratio" in side_by_side_text(figure)
    assert_inside(side_by_side_svg(figure))


def test_side_by_side_a_tile_beyond_its_dim_is_one_step() -> None:
    layer = matmul(m=4, n=4, k=4)
    loops = (Temporal("m", 9), Temporal("m", 2), Temporal("n", 1), Temporal("k", 1), Temporal("m", 1))
    tree = Mapping((*loops, Compute(layer.statements[0].name)))
    figure = side_by_side(layer, load_arch("flat3"), tree, tree)
    assert figure.loops[0] == ("for m 1", "for m 2", "for n 4", "for k 4", "for m 2")


def hints_of(picture: str) -> list[str]:
    """Return what is said under the pointer, the title of the whole aside."""
    titles = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}title")
    return [each.text or "" for each in titles][1:]


def test_figures_of_the_space_say_their_numbers_under_the_pointer() -> None:
    scores = sample_mappings(_LAYER, _ARCH, 60, seed=1).scores()
    rarity = rarity_figure("x", scores.energy_pj.tolist(), float(scores.energy_pj.min()))
    assert len(hints_of(rarity_svg(rarity))) == sum(share > 0 for _, _, share in rarity.bins)
    smooth = smooth_figure(sample_mappings(_LAYER, _ARCH, 4, seed=2))
    assert len(hints_of(smooth_svg(smooth))) == len({own for own, _ in smooth.pairs})
    orders = order_figure(matmul(m=2, n=2, k=2), "simple3")
    assert sorted(hints_of(order_svg(orders))) == sorted(" ".join(o) for c in orders.classes for o in c.orders)
    best = explore(_LAYER, _ARCH, tiles="divide").best
    tiles = tiles_of(_LAYER, _ARCH, best, 0, 1)
    cells = hints_of(tile_map_svg(tiles))
    assert len(cells) == len(tiles.across[1]) * len(tiles.up[1])
    assert sum("does not fit" in cell for cell in cells) == sum(not fits for row in tiles.fits for fits in row)
    winners = winners_of(_LAYER, _ARCH, ("RF", [64, 4096]), ("GLB", [1024]))
    assert all(("proven" in told) or ("nothing fits" in told) for told in hints_of(winner_svg(winners)))
    assert len(hints_of(winner_svg(winners))) == 2
    curve = capacity(_LAYER, _ARCH, "RF", [64, 4096])
    drawn = [p for p in curve.points if p.moved_bits is not None] + [p for p in curve.points if p.energy_pj]
    assert len(hints_of(capacity_svg(curve))) == len(drawn)
    capacities = str(capacity_svg(curve))
    assert capacities.rindex('stroke="#e5e7eb" stroke-width="1"') < capacities.rindex(">machine's own<")
    answer = sensitivity(_LAYER, _ARCH, tiles="divide")
    others = [other for price in answer.prices for other in (price.lowered, price.raised) if other is not None]
    assert len(hints_of(sensitivity_svg(answer))) == len(others)
