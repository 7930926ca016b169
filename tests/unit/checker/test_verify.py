"""What the checker says of texts that are no certificates, of large claims, and of what it takes on trust."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import cache
from hashlib import sha256
from math import prod

import pytest

from polymap import conv2d, explore, load_arch, matmul, verify
from polymap.checker.grids import divisors, primes
from polymap.checker.model import spread, sums
from polymap.cli.command_line import main
from polymap.inputs.machines import arch_from_document
from polymap.ir.errors import OptionError
from polymap.search.certificate import check_certifiable
from polymap.search.trees.listing import structures

SMALL = ("C[m,n] += A[m,k] * B[k,n]", "m=8", "n=8", "k=4")


@cache
def small() -> str:
    return explore(matmul(m=8, n=8, k=4), load_arch("flat3"), tiles="divide").certificate()


def finished(lines: list[str]) -> str:
    """Return the text of the lines, hashes made anew."""
    head = sha256("".join(f"{line}\n" for line in lines[1:5]).encode()).hexdigest()
    lines = [f"sha256 {head}" if line.startswith("sha256") else line for line in lines]
    return "\n".join((*lines, f"end {sha256(''.join(f'{line}{chr(10)}' for line in lines).encode()).hexdigest()}", ""))


def changed(pattern: str, new: str) -> str:
    """Return the small certificate with the first match replaced, hashes repaired."""
    text, count = re.subn(pattern, lambda _: new, "\n".join(small().split("\n")[:-2]), count=1)
    assert count == 1
    return finished(text.split("\n"))


def test_the_small_certificate_is_accepted_with_its_head() -> None:
    verdict = verify(small())
    assert (verdict.proven, verdict.reason, verdict.unproven, verdict.structures) == (True, "", (), 48)
    assert f"sha256 {verdict.head}\n" in small()
    assert verdict.value == 25856


@pytest.mark.parametrize(
    "text", ["", "\n", "hello\n", "\0\n", "é\n", "polymap certificate 3\n", "end \n", "[" * 10**6 + "\n"]
)
def test_texts_that_are_no_certificates_are_refused(text: str) -> None:
    assert not verify(text).proven
    assert verify(text).reason


DEEP = "[" * 50_000 + "]" * 50_000


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r'\["m",8\]', '["m",8000000]'),
        (r'\["m",8\]', f'["m",{10**30}]'),
        (r'\["m",8\]', '["m",-8]'),
        (r'\["m",8\]', '["m",8.0]'),
        (r'\["m",8\]', '["m",true]'),
        (r'\["m",8\]', '["m",NaN]'),
        (r'\["m",8\]', '["m",1e999]'),
        (r'\["m",8\]', f'["m",{"9" * 6000}]'),
        (r'\["m",8\]', f'["m",{DEEP}]'),
        (r'"read_pj":"200"', '"read_pj":"-200"'),
        (r'"read_pj":"200"', '"read_pj":"1e9999999"'),
        (r'"read_pj":"200"', f'"read_pj":"{"9" * 30}"'),
        (r'"read_pj":"200"', '"read_pj":"1/0"'),
        (r'"read_pj":"200"', '"read_pj":null'),
        (r'"bits":8', '"bits":4096'),
        ("value 25856", f"value {'9' * 5000}"),
        ("mapping .*", f"mapping {DEEP}"),
        ("mapping .*", "mapping []"),
        ("mapping .*", "mapping {}"),
        ("structures 48", f"structures {10**12}"),
        ("objective energy", "objective weighted:2*energy"),
        ("objective energy", "objective weighted:1*energy+1*energy"),
        ("objective energy", "objective weighted:1*edp"),
        ("objective energy", "objective weighted:1*ed2p"),
        ("objective energy", "objective ed3p"),
        ("objective energy", "objective weighted:1*latency"),
        ("objective energy", "objective weighted:"),
        ("apart 26944", f"apart {'9' * 5000}"),
        ("1,1,1 apart 26944", f"1,1,1 search - 25000 {10**15}"),
        ("1,1,1 apart 26944", "1,1,1 joint 1:1,1,1 26944"),
        ("1,1,1 apart 26944", f"1,1,1 joint 1024:0,{10**17},0 26944"),
        ("1,1,1 apart 26944", "1,1,1 joint 0:0,0,0 26944"),
        ("1,1,1 apart 26944", "1,1,1 joint 1:0,-5,0 26944"),
        ("1,1,1 apart 26944", "1,1,1 places 1"),
        ("1,1,1 apart 26944", "1,1,1 as 1 1"),
        ("1,1,1 apart 26944", "1,1,1"),
        ("structures", "symmetry m,m,m\nstructures"),
    ],
)
def test_hostile_claims_are_refused_at_once(pattern: str, new: str) -> None:
    verdict = verify(changed(pattern, new))
    assert not verdict.proven
    assert verdict.reason


def test_a_check_ends_when_its_time_is_up() -> None:
    verdict = verify(small(), time_limit_s=0)
    assert not verdict.proven
    assert "time is up" in verdict.reason


def test_what_only_the_solver_knows_is_said(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    text = changed("1,1,1 apart", "1,1,1 word")
    verdict = verify(text)
    assert not verdict.proven
    assert (verdict.reason, verdict.unproven) == ("", ("structure 1: 1,1,1",))
    with pytest.warns(DeprecationWarning, match="called Verdict.proven"):
        assert not verdict.accepted
    path = tmp_path / "word.txt"
    path.write_text(text, encoding="ascii")
    assert main(("verify", str(path))) == 3
    assert "NOT PROVEN (the solver's word for 1 of 48 structures): energy 25,856 pJ" in capsys.readouterr().out
    assert main(("verify", str(path), "--accept-word")) == 0


def test_the_command_line_writes_and_checks(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "proof.txt"
    assert main(("explore", *SMALL, "--arch", "flat3", "--tiles", "divide", "--certificate", str(path))) == 0
    capsys.readouterr()
    assert main(("verify", str(path))) == 0
    assert "OPTIMAL: energy 25,856 pJ, checked against 48 structures" in capsys.readouterr().out
    path.write_text(path.read_text(encoding="ascii").replace("value 25856", "value 25855"), encoding="ascii")
    assert main(("verify", str(path), "--json", "-")) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["proven"] is False
    assert "last line" in answer["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("verify",), "verify needs a FILE"),
        (("verify", "no/such/file"), "cannot read"),
    ],
)
def test_bad_words_are_told(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_weighted_sums_are_certified_with_exact_weights() -> None:
    found = explore(matmul(m=8, n=8, k=4), load_arch("flat3"), "weighted:1*energy+0.5*latency", tiles="divide")
    text = found.certificate()
    assert "\nobjective weighted:1*energy+1/2*latency\n" in text
    verdict = verify(text)
    assert verdict.proven
    assert verdict.value == found.value


def test_constraints_that_narrow_the_machine_are_certified() -> None:
    demands = {"store": {"GLB": {"never": ["A", "B"]}}, "fanouts": {"X": {"forbid": ["m", "n"]}}}
    found = explore(matmul(m=8, n=8, k=4), load_arch("flat3"), tiles="divide", constraints=demands)
    verdict = verify(found.certificate())
    assert verdict.proven
    assert verdict.value == found.value
    assert verdict.value == 26_144
    assert verdict.structures < 48


CONSTRAINTS = (
    ({"limits": {"capacity:GLB": 64}}, 106_624),
    ({"fanouts": {"X": {"factors": {"m": 8}}, "Y": {"factors": {"m": 2}}}}, 106_752),
    ({"intrinsic": {"m": 8, "n": 8}}, None),
    ({"order": ["k", "m"]}, None),
    ({"outermost": ["k"], "innermost": ["n"]}, None),
    ({"min_utilization": 0.5, "limits": {"latency": 64}}, None),
    ({"store": {"GLB": {"must": ["@output"], "never": ["@input"]}}}, None),
    ({"store": {"GLB": {"must": ["A"], "least": {"A": 100}}}}, None),
    ({"limits": {"traffic:RF": 60_000, "edp": 40_000_000}}, None),
    ({"limits": {"ed2p": 5_000_000_000}}, None),
)


@pytest.mark.parametrize(("demands", "value"), CONSTRAINTS)
def test_every_kind_of_constraint_is_in_the_head_and_proven(demands: dict[str, object], value: int | None) -> None:
    question = matmul(m=16, n=8, k=16), load_arch("flat3")
    found = explore(*question, tiles="divide", constraints=demands)
    text = found.certificate()
    verdict = verify(text, workload=question[0], arch=question[1], constraints=demands)
    assert verdict.proven, verdict
    assert verdict.value == found.value
    assert value is None or verdict.value == value
    free = "\n".join("constraints []" if one.startswith("constraints ") else one for one in text.split("\n")[:-2])
    assert not verify(finished(free.split("\n"))).proven or found.value == explore(*question, tiles="divide").value


def test_what_is_not_certified_is_told() -> None:
    with pytest.raises(OptionError, match="PM515"):
        check_certifiable(conv2d(K=2, C=2, H=4, W=4, R=3, S=3, padding=1), load_arch("flat3"), "lex:latency,energy")
    with pytest.raises(OptionError, match="PM516"):
        explore(matmul(m=64, n=64, k=64), load_arch("flat3"), tiles="divide", work_limit=1).certificate()


def test_bounds_over_any_sizes_are_written_and_checked(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    path, question = tmp_path / "bound.txt", (*SMALL, "--arch", "flat3")
    assert main(("explore", *question, "--certificate", str(path))) == 0
    capsys.readouterr()
    assert main(("verify", str(path), *question)) == 0
    said = capsys.readouterr().out
    assert "OPTIMAL over tiles of any size: energy 25,856 pJ, checked against 75 structures" in said
    below = str(verify(path.read_text(encoding="ascii"))._replace(bound=Fraction(25_000)))
    assert "BOUND: no mapping of any tile sizes costs less energy than 25,000 pJ" in below
    assert "the mapping given costs 25,856 pJ, gap 3.31 %" in below
    assert main(("verify", str(path), "--json", "-")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["proven"]
    assert 0 < answer["bound"] <= answer["value"] == 25_856


def test_what_held_tensors_cost_is_in_the_bound_over_any_sizes() -> None:
    question = matmul(m=16, n=8, k=16), load_arch("flat3")
    demands = {"store": {"GLB": {"must": ["@output"], "never": ["@input"]}}}
    free, held = (verify(explore(*question, constraints=one).certificate()) for one in (None, demands))
    assert free.proven
    assert held.proven
    assert (free.bound or 0) < (held.bound or 0) <= (held.value or 0)


def test_no_structure_is_above_a_limit_of_the_objective_itself() -> None:
    """Limits are numbered from 1; number 0 is the objective, whose every bound would be above no limit."""
    question = matmul(m=4, n=4, k=4), load_arch("flat3")
    lines = explore(*question, tiles="divide", constraints={"limits": {"latency": 64}}).certificate().split("\n")[:-2]
    assert any(" apart " in line for line in lines)
    forged = [re.sub(r" apart (\d+)$", r" over 0 \1", line) for line in lines]
    assert verify(finished(lines)).proven
    assert "there is no such limit" in verify(finished(forged)).reason


def test_sets_as_bit_masks() -> None:
    assert spread(0b11, 5, 3) == 0b11011011011011
    assert sums(0b101, 0b11) == 0b1111
    assert primes(360) == (2, 2, 2, 3, 3, 5)
    assert divisors(12) == (1, 2, 3, 4, 6, 12)


def test_no_structure_has_a_mapping_below_what_the_checker_derived_for_it() -> None:
    """Referee: the best mapping of every structure that CP-SAT lists, scored by the search structure by structure."""
    inner: list[dict[str, object]] = [
        {"level": "RF", "capacity_bits": 40, "read_pj": 1, "write_pj": 2},
        {"compute": "MAC", "pj": 1},
    ]
    nodes = [
        {"level": "DRAM", "read_pj": 100, "write_pj": 90},
        {"fanout": "X", "size": 3},
        {"fanout": "Y", "size": 2},
        *inner,
    ]
    workload, arch = matmul(m=6, n=4, k=3), arch_from_document({"name": "two fans", "nodes": nodes})
    result = explore(workload, arch, tiles="divide")
    verdict = verify(result.certificate())
    derived = {tuple((dim, factor) for _, dim, factor in each.spread): each for each in verdict.reasons}
    assert len(derived) == len(verdict.reasons) == verdict.structures, "a structure stands twice, or is left out"
    least: dict[tuple[tuple[str, int], ...], Fraction] = {}
    for structure in structures(workload, arch):
        dims = {dim: prod(count for _, other, count in structure.spread if other == dim) for dim in "mnk"}
        spread = tuple((dim, factor) for dim, factor in dims.items() if factor > 1)
        found = structure.score("energy")
        if found.value is not None:
            least[spread] = min(found.value, least.get(spread, found.value))
    assert set(least) <= set(derived), "a structure with a mapping is not in the proof"
    for spread, value in least.items():
        each = derived[spread]
        assert each.bound is not None, f"{spread} has a mapping of {value}, and nothing fits by {each.kind}"
        assert each.bound <= value, f"{spread} has a mapping of {value}, below {each.bound}"
        assert each.kind in ("search", "word") or each.bound >= result.value, f"{each} does not refute"
    assert min(least.values()) == result.value == verdict.value
