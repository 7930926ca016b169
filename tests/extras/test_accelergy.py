"""Accelergy's tables as the energies of a machine: the numbers written arrive where they belong, mistakes are told."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest

import polymap as pm

ACTIONS = {"level": ("read", "write"), "compute": ("compute",)}


def machine() -> pm.Architecture:
    return pm.load_arch("flat3")


def table(name: str, actions: list[tuple[str, str]], arguments: bool = False) -> list[str]:
    lines = [f"    - name: {name}", "      actions:"]
    for action, energy in actions:
        lines += [f"        - name: {action}"]
        lines += ["          arguments: {address_delta: 1, data_delta: 0}"] if arguments else []
        lines += [f"          energy: {energy}"]
    return lines


def ert(tables: list[list[str]], version: str = "0.4") -> str:
    return "\n".join(["ERT:", f"  version: '{version}'", "  tables:", *(line for each in tables for line in each), ""])


def whole(version: str = "0.4") -> str:
    pe = "system.chip.PE[0..255]." if version == "0.3" else "system_top_level."
    return ert(
        [
            table("system.DRAM[1..1]", [("read", "512.25"), ("write", "500"), ("leak", "0")]),
            table("system.chip.GLB", [("read", "6.4"), ("update", "7"), ("idle", "0.125")]),
            table(f"{pe}RF[0..3]", [("read", "0.1"), ("read", "0.9"), ("read", "0.5"), ("write", "1e-3")], True),
            table(f"{pe}MAC", [("mac_random", "2.2"), ("mac_reused", "1")]),
        ],
        version,
    )


@pytest.mark.parametrize("version", ["0.3", "0.4"])
def test_energies_arrive_where_they_belong(version: str, tmp_path: Path) -> None:
    path = tmp_path / "ERT.yaml"
    path.write_text(whole(version))
    arch, areas = pm.io.from_accelergy(machine(), path)
    levels = {level.name: level for level in arch.levels}
    assert areas == {}
    assert (levels["DRAM"].read_pj, levels["DRAM"].write_pj) == (Fraction(2049, 4), 500)
    assert (levels["GLB"].read_pj, levels["GLB"].write_pj) == (Fraction(32, 5), 7)  # update stands for write
    assert levels["GLB"].leak_pj_per_cycle == Fraction(1, 8)  # idle stands for leak
    assert (levels["RF"].read_pj, levels["RF"].write_pj) == (Fraction(9, 10), Fraction(1, 1000))  # the dearest
    assert arch.compute.pj == Fraction(11, 5)
    assert [node.name for node in arch.nodes] == [node.name for node in machine().nodes]
    assert arch.fanouts == machine().fanouts


def test_energy_of_a_mapping_is_the_sum_over_the_tables_numbers() -> None:
    layer = pm.matmul(m=4, n=4, k=4)
    arch, _ = pm.io.from_accelergy("flat3", whole())
    result = pm.explore(layer, arch, tiles="divide")
    pj = {"DRAM": ("512.25", "500"), "GLB": ("6.4", "7"), "RF": ("0.9", "0.001")}
    words = {level.name: level.word_bits for level in arch.levels}
    total = Fraction(64) * Fraction("2.2") + Fraction("0.125") * result.cost.latency_cycles
    for row in result.cost.traffic:
        read, write = (Fraction(each) for each in pj[row.level])
        total += Fraction(layer.tensor(row.tensor).bits, words[row.level]) * (row.reads * read + row.writes * write)
    assert result.cost.energy_pj_exact == total


def test_areas_are_told_by_component() -> None:
    art = "ART:\n  version: 0.4\n  tables:\n    - {name: s.GLB, area: 1234.5}\n    - {name: s.noc, area: 3}\n"
    _, areas = pm.io.from_accelergy("flat3", whole(), art, ignore=["noc"])
    assert areas == {"GLB": Fraction(2469, 2)}
    with pytest.raises(pm.errors.InputError, match=r"PM661 the text, line 5: 'noc' is no level"):
        pm.io.from_accelergy("flat3", whole(), art)


def test_summaries_say_what_the_tables_say() -> None:
    """An ERT_summary has one energy per action and who estimated it; an ART has the front end's dummy storages, too."""
    names = {"DRAM": ("read", "write"), "GLB": ("read", "write"), "RF": ("read", "write"), "MAC": ("compute",)}
    lines = ["ERT_summary:", "  version: '0.4'", "  table_summary:"]
    for name, actions in names.items():
        lines += [f"  - name: system_top_level.{name}[1..1]", "    actions:"]
        lines += [f"    - {{name: {action}, energy: {at}.5}}" for at, action in enumerate(actions)]
        lines += ["    primitive_estimation(s):", f"    - {{name: {name}, estimator: Library}}"]
    areas = [
        "ART_summary:",
        "  table_summary:",
        "  - {name: system.GLB, area: 3.5, primitive_estimations: Library}",
        "  - {name: system.inter_PE_spatial, area: 1.0, primitive_estimations: dummy_table}",
    ]
    arch, found = pm.io.from_accelergy("flat3", "\n".join(lines), "\n".join(areas))
    assert [(level.read_pj, level.write_pj) for level in arch.levels] == [(Fraction(1, 2), Fraction(3, 2))] * 3
    assert (arch.compute.pj, found) == (Fraction(1, 2), {"GLB": Fraction(7, 2)})


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "ERT.yaml"
    path.write_text(
        ert(
            [
                table("s.DRAM", [("read", "1")]),
                table("s.GBL", [("read", "1"), ("write", "1")]),
                table("s.RF", [("read", "-1"), ("write", "-2")]),
            ]
        )
    )
    with pytest.raises(pm.errors.InputError) as caught:
        pm.io.from_accelergy("flat3", path)
    told = str(caught.value)
    assert "energy is -2" in told
    assert "has no table of 'RF'" not in told
    for part in (
        "'ERT.yaml', line 4: the table of 'DRAM' has no action write or update",
        "'ERT.yaml', line 8: 'GBL' is no level or compute unit of 'flat3'",
        "line 17: energy is -1",
        "has no table of 'GLB'",
        "has no table of 'MAC'",
        "Did you mean 'GLB'",
    ):
        assert part in told, told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ERT:\n  version: 0.4\n", "there is no ERT with tables"),
        ("ART:\n  x: 1\n", "there is no ERT with tables"),
        ("ERT:\n  tables: 5\n", "ERT.tables is 5"),
        ("ERT:\n  tables:\n    - {actions: []}\n", "a table has no name"),
        ("ERT:\n  tables:\n    - {name: GLB}\n", "a table of the ERT has no actions"),
        ("ERT:\n  tables:\n    - {name: GLB, actions: [{name: read}]}\n", "an action has no energy"),
        ("ERT: [\n", "PM660"),
        (whole() + "    - {name: x.y.GLB, actions: []}\n", "'GLB' has a second table"),
    ],
)
def test_what_is_no_table_is_told(text: str, message: str) -> None:
    with pytest.raises(pm.errors.InputError, match=message):
        pm.io.from_accelergy("flat3", text)


def test_damaged_tables_never_fail_unforeseen() -> None:
    rng, text = random.Random(5), whole()
    codes: set[str] = set()
    for _ in range(200):
        at, length = rng.randrange(len(text)), rng.randrange(6)
        damaged = text[:at] + rng.choice(("", ":", "[", "-", "\n", "1e9", "{", "'")) + text[at + length :]
        try:
            pm.io.from_accelergy("flat3", damaged)
        except pm.PolymapError as error:
            codes |= {mistake.code for mistake in error.mistakes}
    assert codes == {"PM660", "PM661"}
