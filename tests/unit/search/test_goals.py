"""How objectives are written, and what is said of mistakes in them."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from polymap.inputs.presets import load_arch
from polymap.ir.errors import OptionError
from polymap.search.problem.goals import parse_objective, parse_single
from polymap.search.problem.measure import packed_value, part_values
from polymap.search.problem.objectives import Goal, Powers, objective_unit

ARCH = load_arch("flat3")


def test_parts_and_weights_are_read() -> None:
    found = parse_objective("weighted:energy+0.5*latency+1/3*traffic:GLB", ARCH)
    assert found.goal is Goal.WEIGHTED
    assert [(weight, part.text) for weight, part in found.parts] == [
        (Fraction(1), "energy"),
        (Fraction(1, 2), "latency"),
        (Fraction(1, 3), "traffic:GLB"),
    ]
    assert found.singles == (found,)
    ranked = parse_objective("lex: latency, energy", ARCH)
    assert [part.text for part in ranked.singles] == ["latency", "energy"]


@pytest.mark.parametrize("powers", [Powers(1, 1), Powers(1, 2), Powers(2, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_product_under_sums_is_that_of_the_least_of_many_points(seed: int, powers: Powers) -> None:
    """No point is below it, and those on a fine grid come near."""
    rng = random.Random(seed)
    energy, cycles = Fraction(rng.randint(1, 9)), Fraction(rng.randint(1, 9))
    sums = [(Fraction(rng.randint(1, 8), 4), Fraction(rng.randint(5, 40))) for _ in range(rng.randint(0, 3))]
    found = powers.least_product(energy, cycles, sums)

    def value(at: Fraction) -> Fraction:
        return powers.product(max(energy, *(least - price * at for price, least in sums), Fraction(0)), at)

    values = [value(cycles + Fraction(step, 16)) for step in range(16 * 200)]
    assert found <= min(values) <= found * Fraction(21, 20)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pareto:energy,latncy", "PM501 unknown objective 'latncy'\\n.*Did you mean 'latency'"),
        ("pareto:energy", "PM508 objective 'pareto:energy' has one part\\n.*pareto:energy,latency"),
        ("pareto:", "PM508 objective 'pareto:' has no parts"),
        ("lex", "PM508 objective 'lex' has no parts\\n.*lex:latency,energy"),
        ("lex:edp,edp", "PM508 objective 'lex:edp,edp' has edp twice"),
        ("pareto:capacity:GLB,traffic:GLBB", "PM502 .*'traffic:GLBB' names the level 'GLBB'\\n.*Did you mean 'GLB'"),
        ("capacity:DRAM", "PM502 .* the outermost level holds everything"),
        ("weighted:0*energy", "PM509 the weight '0' of 'energy' is no number above 0"),
        ("weighted:-1*energy+nan*edp", "PM509 the weight '-1'(?s:.*)PM509 the weight 'nan'"),
        ("pareto:weighted:energy,latency", "PM501 unknown objective 'weighted:energy'"),
    ],
)
def test_mistakes_are_named(text: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        parse_objective(text, ARCH)


def test_where_one_value_is_wanted_several_are_refused() -> None:
    with pytest.raises(OptionError, match="PM508 objective 'pareto:energy,latency' has several values"):
        parse_single("pareto:energy,latency", ARCH, ranked=True)
    with pytest.raises(OptionError, match="PM508 objective 'lex:energy,latency' has several values"):
        parse_single("lex:energy,latency", ARCH)
    assert parse_single("lex:energy,latency", ARCH, ranked=True).goal is Goal.LEXICOGRAPHIC


def test_packed_values_compare_by_rank_and_come_back() -> None:
    vectors = [(0, 5, 1), (1, 0, 0), (1, 0, 7), (2**200, 0, 3), (2**200, 1, 0)]
    assert [part_values(packed_value(vector, 256), 3, 256) for vector in vectors] == vectors
    assert sorted(packed_value(vector, 256) for vector in reversed(vectors)) == [
        packed_value(vector, 256) for vector in vectors
    ]
    assert part_values(packed_value((-3, 4), 256), 2, 256) == (0, 4)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("energy", "pJ"),
        ("latency", "cycles"),
        ("traffic:GLB", "bits"),
        ("capacity:GLB", "bits"),
        ("pareto:edp,energy", ""),
    ],
)
def test_values_have_the_unit_of_their_objective(text: str, unit: str) -> None:
    assert objective_unit(text) == unit
