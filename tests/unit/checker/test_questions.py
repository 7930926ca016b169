"""A certificate is compared with the user's own files: whatever differs in its head is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.checker.head import check_mapping
from polymap.checker.rules import Refused
from polymap.cli.command_line import main
from polymap.ir.errors import OptionError

DEMANDS = {
    "order": ["m", "k"],
    "innermost": ["n"],
    "fanouts": {"X": {"forbid": ["k"]}},
    "store": {"GLB": {"never": ["B"]}},
    "intrinsic": {"m": 2},
    "min_utilization": 0.01,
    "limits": {"latency": 4096},
}
FILES = ("C[m,n] += A[m,k] * B[k,n]", "m=8", "n=8", "k=4", "--arch", "flat3", "--constraints", json.dumps(DEMANDS))


def question() -> dict[str, Any]:
    return {"workload": pm.matmul(m=8, n=8, k=4), "arch": pm.load_arch("flat3"), "constraints": DEMANDS}


@cache
def text() -> str:
    asked = question()
    found = pm.explore(asked["workload"], asked["arch"], tiles="divide", constraints=DEMANDS)
    return found.certificate()


def rehashed(lines: list[str]) -> str:
    head = sha256("".join(f"{line}\n" for line in lines[1:5]).encode()).hexdigest()
    lines = [f"sha256 {head}" if line.startswith("sha256 ") else line for line in lines]
    return "\n".join((*lines, f"end {sha256(''.join(f'{line}{chr(10)}' for line in lines).encode()).hexdigest()}", ""))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (table or list, key or index) of everything in a JSON value that is no table and no list."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, dict | list) and item:
            yield from places(item)
        else:
            yield value, key


def other(item: Any) -> Any:
    """Return another value of the kind, one that the field could have."""
    if isinstance(item, bool):
        return not item
    if isinstance(item, int):
        return item + 1
    return {None: 7, "identical": "union"}.get(item, f"{item}1") if not isinstance(item, list) else ["A"]


def changed_heads() -> Iterator[tuple[str, str]]:
    """Yield (word of the head, certificate that differs there in one field, hashes repaired)."""
    lines = text().split("\n")[:-2]
    for number, line in enumerate(lines[1:5], start=1):
        word, _, rest = line.partition(" ")
        if word == "objective":
            yield word, rehashed([*lines[:number], "objective edp", *lines[number + 1 :]])
            continue
        table = json.loads(rest)
        for owner, key in places(table):
            before = owner[key]
            owner[key] = other(before)
            new = f"{word} {json.dumps(table, sort_keys=True, separators=(',', ':'))}"
            owner[key] = before
            yield word, rehashed([*lines[:number], new, *lines[number + 1 :]])


def test_the_certificate_answers_the_question() -> None:
    verdict = pm.verify(text(), **question())
    assert verdict.proven, verdict
    assert verdict == pm.verify(text())._replace(seconds=verdict.seconds)


def test_a_head_that_differs_in_one_field_is_refused_by_name() -> None:
    seen = 0
    for word, changed in changed_heads():
        verdict = pm.verify(changed, **question())
        assert not verdict.proven
        assert verdict.reason.startswith(f"the certificate is about another question: {word}"), verdict.reason
        assert len(verdict.head) == 64
        seen += 1
    assert seen > 90


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"workload": pm.matmul(m=8, n=8, k=8)}, "workload.dims[k][1] is 4 in the certificate, and 8 is asked about"),
        ({"workload": pm.matmul(m=8, n=8, k=4, bits=16)}, "workload.tensors[C].bits is 8"),
        ({"arch": pm.load_arch("simple3"), "constraints": None}, "machine.nodes is [DRAM][GLB][X][Y][RF][MAC] in"),
        ({"objective": "edp"}, 'objective is "energy" in the certificate, and "edp" is asked about'),
        ({"constraints": None}, "constraints is ["),
        ({"constraints": {**DEMANDS, "intrinsic": {"m": 4}}}, ".size is 2 in the certificate, and 4 is asked about"),
    ],
)
def test_the_field_that_differs_is_named(asked: dict[str, Any], named: str) -> None:
    assert named in pm.verify(text(), **{**question(), **asked}).reason


def test_a_machine_that_differs_in_what_is_not_counted_is_another_question() -> None:
    arch = question()["arch"]
    nodes = (arch.nodes[0], replace(arch.nodes[1], must_hold=("A",)), *arch.nodes[2:])
    verdict = pm.verify(text(), **{**question(), "arch": replace(arch, nodes=nodes)})
    assert "machine.nodes[GLB].must_hold is [] in the certificate" in verdict.reason


def test_half_a_question_is_told() -> None:
    with pytest.raises(OptionError, match="PM519 verify needs an arch"):
        pm.verify(text(), workload=question()["workload"])
    with pytest.raises(OptionError, match="PM519 verify needs a workload"):
        pm.verify(text(), objective="energy")
    with pytest.raises(OptionError, match="PM515"):
        pm.verify(text(), workload=question()["workload"], arch=question()["arch"], objective="lex:latency,energy")


def test_the_command_line_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = tmp_path / "proof.txt"
    assert main(("explore", *FILES, "--tiles", "divide", "--certificate", str(proof))) == 0
    capsys.readouterr()
    for words in (("verify", str(proof)), ("verify", str(proof), *FILES)):
        assert main(words) == 0
        assert f"SHA-256 {pm.verify(text()).head}" in capsys.readouterr().out
    assert main(("verify", str(proof), *FILES, "--objective", "edp")) == 3
    said = capsys.readouterr().out
    assert "REFUSED: the certificate is about another question: objective" in said
    assert f"SHA-256 {pm.verify(text()).head}" in said
    for words, told in (
        (("verify", str(proof), FILES[0], *FILES[1:4]), "Add --arch"),
        (("verify", str(proof), "--arch", "flat3"), "Give WORKLOAD after the FILE"),
        (("verify", str(proof), "--objective", "edp"), "Give WORKLOAD after the FILE"),
    ):
        assert main(words) == 2
        assert told in capsys.readouterr().err


def test_what_is_no_certificate_exits_with_2_and_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("other.txt")
    old = text().replace("polymap certificate 3", "polymap certificate 2")
    for content, told in (
        (b"", "its first line is not 'polymap certificate 3'"),
        (b"hello\n", "its first line is not 'polymap certificate 3'"),
        (old.encode(), "its format is 'polymap certificate 2', and 'polymap certificate 3' is read here"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"x" * (16 * 2**20 + 1), "larger than 16 MiB"),
    ):
        path.write_bytes(content)
        assert main(("verify", str(path))) == 2
        said = capsys.readouterr().err
        assert "other.txt" in said
        assert told in said
    for content in (text()[: len(text()) // 2], text() + "x" * 2**20, "polymap certificate 3"):
        path.write_text(content, encoding="ascii")
        assert main(("verify", str(path))) == 3
        assert "REFUSED: " in capsys.readouterr().out


def test_what_a_certificate_stores_is_a_tensor_in_a_level_of_its_machine() -> None:
    def stored(level: str, tensor: str) -> None:
        check_mapping([{"store": level, "tensors": [tensor]}, {"compute": "S"}], ["L0"], ["A"])

    stored("L0", "A")
    for level, tensor in (("L0", "Z"), ("L9", "A")):
        with pytest.raises(Refused, match="no such level or tensor is stored"):
            stored(level, tensor)
