"""Figures of programs hold the instances, arrows, tiles and wavefronts that a skewed stencil has."""

from __future__ import annotations

import pytest

from polymap.report.programs.domain import domain_figure, domain_svg
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
    with pytest.raises(ValueError, match="S0 has 1 loops; this figure shows two"):
        domain_figure(from_c("int A[6]; for (int i = 0; i < 5; i++) A[i] = 0;"), "S0")
