"""No file breaks the command line: damaged workloads, machines and mappings are answered or told, never a bug."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from polymap.cli.command_line import main
from polymap.cli.exit_codes import ExitCode

WORKLOAD = {
    "name": "w",
    "einsum": "O[k,p] += I[p+r] * W[k,r]",
    "sizes": {"k": 4, "p": 5, "r": 3},
    "bits": {"O": 32, "I": 8, "W": 8},
    "roles": {"I": "input", "W": "weight", "O": "output"},
    "initial": ["O"],
    "associative": True,
}
ARCH = {
    "name": "toy",
    "overlap": False,
    "nodes": [
        {"level": "DRAM", "read_pj": 100, "write_pj": 100.5, "bandwidth_bits_per_cycle": 64},
        {
            "level": "Buf",
            "capacity_bits": 1000,
            "word_bits": 16,
            "read_pj": 1,
            "buffering": 2,
            "holds": ["@input", "O"],
        },
        {"fanout": "X", "size": 4, "multicast": "union", "reduction": False, "dims": ["p"]},
        {"compute": "MAC", "pj": 1, "per_cycle": 1},
    ],
}
MAPPING = {
    "nodes": [
        {"store": "DRAM", "tensors": ["O", "I", "W"]},
        {"for": "k", "tile": 2},
        {"store": "Buf", "tensors": ["I", "O"]},
        {"par": "p", "tile": 2, "over": "X"},
        {"for": "k", "tile": 1},
        {"for": "p", "tile": 1},
        {"for": "r", "tile": 1},
        {"compute": "S"},
    ]
}
DOCUMENTS = {"w.json": WORKLOAD, "a.json": ARCH, "m.json": MAPPING}
WORDS = ("evaluate", "w.json", "--arch", "a.json", "--mapping", "m.json", "--json", "-")

SCALARS = st.one_of(
    st.sampled_from([None, True, 0, 1, 3, 4, -1, 2**53 + 1, 2**63, 10**30, 0.5, 1e308, "", "k", "O", "p*r", "@output"]),
    st.sampled_from(["DRAM", "Buf", "X", "S", "union", "O[k] += I[k]", "é", "int", "a" * 300, "\x00"]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Return the path of every value inside a document."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, object]:
    """Return the documents with one or two values replaced, removed or doubled."""
    documents: dict[str, object] = {**copy.deepcopy(DOCUMENTS)}
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(places(documents)))
        holder: object = documents
        for key in way:
            holder = holder[key]  # type: ignore[index]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "remove" if way:
                del holder[last]  # type: ignore[attr-defined]
            case "add" if isinstance(holder, list):
                assert isinstance(last, int)
                holder.insert(last, draw(VALUES))
            case "add" if isinstance(holder, dict) and way:
                holder[draw(st.text(max_size=6))] = draw(VALUES)
            case _:
                holder[last] = draw(VALUES)  # type: ignore[index]
    return documents


@pytest.mark.slow
@given(documents=damaged())
def test_damaged_documents_are_answered_or_told(documents: dict[str, object]) -> None:
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYMAP_TRACEBACK", "1")
        os.chdir(folder)
        try:
            for name, document in documents.items():
                Path(name).write_text(json.dumps(document), encoding="utf-8")
            code = main(WORDS)
        finally:
            os.chdir(here)
    assert code in (ExitCode.ANSWERED, ExitCode.BAD_INPUT, ExitCode.NO_ANSWER)


def test_the_whole_documents_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, document in DOCUMENTS.items():
        Path(name).write_text(json.dumps(document), encoding="utf-8")
    assert main(WORDS) == ExitCode.ANSWERED
