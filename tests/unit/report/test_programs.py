"""Figures of programs hold the instances, arrows, tiles and wavefronts that a skewed stencil has."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from polymap.ir.errors import OptionError
from polymap.report.figures.domain import domain_figure, domain_svg
from polymap.workload.c.reader import from_c

STENCIL = (
    "int A[6][6]; for (int i = 1; i < 5; i++) for (int j = 1; j < 5; j++) A[i][j] = A[i - 1][j] * 2 + A[i][j - 1];"
)


def test_domain_of_a_stencil() -> None:
    figure = domain_figure(from_c(STENCIL), "S0", tile=(2, 2))
    assert figure.loops == ("i", "j")
    assert figure.points == tuple((i, j) for i in range(4) for j in range(4))
    assert figure.arrows == ((0, 1), (1, 0))
    assert figure.wavefronts == tuple(i + j for i in range(4) for j in range(4))
    assert figure.tiles == tuple((i // 2, j // 2) for i in range(4) for j in range(4))
    svg = str(domain_svg(figure))
    assert svg.count("<circle") == 16
    assert svg.count("<line") == 24


def test_other_depths_are_refused() -> None:
    line = from_c("int A[6]; for (int i = 0; i < 5; i++) A[i] = 0;")
    with pytest.raises(OptionError, match=r"'S0' of .* has 1 loop; this figure shows two"):
        domain_figure(line, "S0")


@pytest.mark.parametrize(
    ("statement", "tile", "message"),
    [
        ("S7", (2, 2), r"no statement 'S7'.*\n?.*With two loops: S0"),
        (7, (2, 2), "the statement is 7"),
        ("S0", 4, "tile is 4"),
        ("S0", (4, 0), "tile is "),
        ("S0", (4,), "Use two integers"),
    ],
)
def test_what_cannot_be_drawn_is_said(statement: str, tile: tuple[int, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        domain_figure(from_c(STENCIL), statement, tile=tile)


def test_arrows_have_heads_and_axes_numbers() -> None:
    root = ElementTree.fromstring(str(domain_svg(domain_figure(from_c(STENCIL), "S0", tile=(2, 2)))))
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [word for word in words if word and word.isdigit()] == ["0", "1", "2", "3", "0", "1", "2", "3"]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polygon"))) == 24
    hints = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "i = 3, j = 2: wavefront 5, tile (1, 1)" in hints
