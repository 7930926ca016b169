"""The JSON Schemas: valid themselves, and the files that polymap reads and writes are valid under them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import polymap as pm
from polymap.cli.command_line import main
from polymap.networks import sweep_of_document
from polymap.report import SCHEMAS, schema_text

ROOT = Path(__file__).parents[3]


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema_text(name)))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid_and_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == {"sweep": "polymap.sweep_question/1"}.get(name, f"polymap.{name}/1")
    assert main(("schema", name)) == 0
    assert json.loads(capsys.readouterr().out) == schema


def fields_without_words(node: object, place: str = "") -> list[str]:
    """Return the places of the fields that a schema does not describe."""
    if isinstance(node, list):
        return [each for item in node for each in fields_without_words(item, place)]
    if not isinstance(node, dict):
        return []
    fields = node.get("properties", {})
    found = [f"{place}/{name}" for name, field in fields.items() if len(field.get("description", "")) < 4]
    return found + [each for name, value in node.items() for each in fields_without_words(value, f"{place}/{name}")]


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_of_a_schema_is_described(name: str) -> None:
    assert fields_without_words(json.loads(schema_text(name))) == []
    assert fields_without_words({"anyOf": [{"properties": {"a": {"type": "string"}}}]}) == ["/anyOf/a"]


@pytest.mark.parametrize("name", [name for name in pm.io.preset_names() if name != "host_cpu"])
def test_presets_are_valid_machines(name: str) -> None:
    stored = json.loads((ROOT / "polymap/inputs/presets" / f"{name}.json").read_text())
    validator("machine").validate(stored)
    validator("machine").validate(pm.io.arch_to_document(pm.load_arch(name)))


def test_built_in_workloads_are_valid() -> None:
    for name in pm.io.builtin_names():
        validator("workload").validate(pm.io.workload_to_document(pm.io.builtin_workload(name)))


COPY = {"dims": ["m"], "target": "C[m]", "operator": "=", "reads": ["A[m]"]}
WORKLOADS: list[tuple[dict[str, Any], bool]] = [
    ({"statements": [COPY], "sizes": {"m": 3}}, True),
    ({"statements": [COPY], "sizes": {"m": 3}, "einsum": "C[m] += A[m]"}, False),
    ({"statements": [COPY | {"value": ["neg", 0]}, COPY | {"name": "last"}], "sizes": {"m": 3}}, True),
    ({"statements": [], "sizes": {"m": 3}}, False),
    ({"statements": [{"dims": ["m"]}], "sizes": {"m": 3}}, False),
    ({"einsum": "C[m] += A[m]", "sizes": {"m": 3}}, True),
    ({"einsum": "C[m] += A[m]", "sizes": {"m": 3}, "bits": 16, "types": {"A": "int8"}}, False),
    ({"einsum": "C[m] += A[m]", "sizes": {"m": 3.5}}, False),
    ({"einsum": "C[m] += A[m]", "sizes": {"m": 0}}, False),
    ({"einsum": "C[m] += A[m]", "sizes": {"m": 3}, "size": 1}, False),
    ({"conv2d": {"K": 4, "C": 4, "H": 8, "W": 8, "R": 3, "S": 3, "padding": [1, 1]}, "name": "layer"}, True),
    ({"conv2d": {"K": 4, "C": 4, "H": 8, "W": 8, "R": 3, "S": 3, "strides": 2}}, False),
    ({"matmul": {"m": 4, "n": 4, "k": 4, "bits": {"A": 8, "B": 8, "C": 32}}}, True),
    ({"matmul": {"m": 4, "n": 4}}, False),
    ({"depthwise": {"C": 4, "H": 8, "W": 8, "R": 3, "S": 3, "multiplier": 2}}, True),
    ({"depthwise": {"K": 4, "C": 4, "H": 8, "W": 8, "R": 3, "S": 3}}, False),
    ({"conv1d": {"K": 4, "C": 4, "L": 8, "R": 3, "padding": 1}, "name": "layer"}, True),
    ({"conv3d": {"K": 4, "C": 4, "D": 8, "H": 8, "W": 8, "T": 3, "R": 3, "S": 3, "padding": [1, 1, 0]}}, True),
    ({"pool": {"C": 4, "H": 8, "W": 8, "R": 2, "S": 2, "kind": "sum"}}, True),
    ({"pool": {"C": 4, "H": 8, "W": 8, "R": 2, "S": 2, "kind": "median"}}, False),
    ({"attention": {"heads": 4, "queries": 8, "keys": 8, "dim": 2, "softmax": "none"}}, True),
    ({"attention": {"heads": 4, "queries": 8, "keys": 8, "dim": 2, "softmax": "online"}}, False),
    ({"c": "for (int i = 0; i < 4; i++) x[i] = 0;", "sizes": {}}, True),
]


@pytest.mark.parametrize(("document", "valid"), WORKLOADS)
def test_what_the_workload_schema_refuses_the_reader_refuses(document: dict[str, Any], valid: bool) -> None:
    if document.get("types") and document.get("bits"):
        with pytest.raises(pm.errors.WorkloadError, match="PM2"):
            pm.io.workload_from_document(document)
        return
    assert validator("workload").is_valid(document) is valid
    if valid and "c" not in document:
        pm.io.workload_from_document(document)
    elif not valid:
        with pytest.raises(pm.errors.WorkloadError, match="PM"):
            pm.io.workload_from_document(document)


LEVELS: list[tuple[dict[str, Any], bool]] = [
    ({"capacity_bits": 8}, True),
    ({"capacity_bits": "512 KiB"}, True),
    ({"capacity_bytes": "1e3 B"}, True),
    ({"capacity_words": 12}, True),
    ({"capacity_bits": 8, "capacity_bytes": 1}, False),
    ({"capacity_bits": "512 KB"}, False),
    ({"capacity_bits": 16.0}, True),
    ({"capacity_bits": 0}, False),
    ({"read_pj": -1}, False),
    ({"holds": ["@input", "W"]}, True),
    ({"holds": ["@inputs"]}, False),
    ({"bandwidth_bits_per_cycle": None}, True),
    ({"bandwidth_bits_per_cycle": "64/3", "read_pj": "1/3"}, True),
    ({"bandwidth_bits_per_cycle": "64/3 B"}, False),
    ({"read_pj": "1/0"}, False),
    ({"read_pj": "-1/3"}, False),
]


@pytest.mark.parametrize(("fields", "valid"), LEVELS)
def test_the_machine_schema_agrees_with_the_reader(fields: dict[str, Any], valid: bool) -> None:
    document = {"nodes": [{"level": "DRAM"}, {"level": "L", **fields}, {"compute": "MAC"}]}
    assert validator("machine").is_valid(document) is valid
    if valid:
        pm.io.arch_from_document(document)
    else:
        with pytest.raises(pm.errors.ArchError, match="PM"):
            pm.io.arch_from_document(document)


@pytest.mark.parametrize("objective", ["energy", "pareto:energy,latency", "lex:latency,energy", "traffic:DRAM"])
@pytest.mark.parametrize("tiles", ["any", "divide"])
def test_answers_are_valid(objective: str, tiles: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("conv2d", "K=2", "C=2", "H=4", "W=4", "R=3", "S=3", "padding=1", "--arch", "flat3", "--tiles", tiles)
    assert main(("explore", *words, "--objective", objective, "--time-limit", "5", "--json", "-")) == 0
    answer = json.loads(capsys.readouterr().out)
    validator("result").validate(answer)
    validator("mapping").validate(answer["mapping"])
    assert answer["options"]["seed"] == 0
    assert answer["workload"]["sizes"]["p"] == 4


def test_the_answer_about_a_program_is_valid(tmp_path: Path) -> None:
    relu = pm.program(["T[m] += A[m,k]", "C[m] = max(T[m], 0)"], m=4, k=2, temporary=["T"])
    nodes = [{"level": "DRAM", "read_pj": 9}, {"level": "L1", "capacity_bits": 64}, {"compute": "MAC"}]
    pm.explore(relu, {"nodes": nodes}, tiles="divide", work_limit=20).save(tmp_path / "run.json")
    validator("result").validate(json.loads((tmp_path / "run.json").read_text()))


def test_answers_without_a_mapping_and_with_constraints_are_valid(tmp_path: Path) -> None:
    layer, arch = pm.matmul(m=4, n=4, k=4), pm.load_arch("flat3")
    for table in ({"limits": {"latency": 1}}, {"innermost": ["k"], "fanouts": {"X": {"forbid": ["m"]}}}):
        validator("constraints").validate(table)
        pm.explore(layer, arch, tiles="divide", constraints=table).save(tmp_path / "run.json")
        validator("result").validate(json.loads((tmp_path / "run.json").read_text()))
    assert not validator("constraints").is_valid({"inermost": ["k"]})


def test_the_files_of_the_documents_are_valid() -> None:
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        document = json.loads(block)
        name = "mapping" if "nodes" in document else "workload"
        validator(name).validate(document)


LAYER = {"matmul": {"m": 4, "n": 4, "k": 4}}
SWEEPS: list[tuple[dict[str, Any], bool]] = [
    ({"workloads": [LAYER], "machines": ["flat3"]}, True),
    ({"workloads": "alexnet.fc8", "machines": "flat3"}, True),
    ({"workloads": ["bert_base.scores"], "machines": {"base": "flat3"}, "objective": ["energy"]}, True),
    ({"workloads": [LAYER], "machines": {"base": "flat3", "grid": {"GLB.capacity_bits": ["32 KiB"]}}}, True),
    ({"workloads": [], "machines": ["flat3"]}, False),
    ({"workloads": [LAYER], "machines": []}, False),
    ({"workloads": [LAYER]}, False),
    ({"workloads": [LAYER], "machines": {"grid": {}}}, False),
    ({"workloads": [LAYER], "machines": {"base": "flat3", "grid": {"GLB": [1]}}}, False),
    ({"workloads": [LAYER], "machines": {"base": "flat3", "grid": {"X.size": []}}}, False),
    ({"workloads": [LAYER], "machines": ["flat3"], "objective": []}, False),
    ({"workloads": [LAYER], "machines": ["flat3"], "seed": -1}, False),
    ({"workloads": [LAYER], "machines": ["flat3"], "time_limit_s": 0}, False),
    ({"workloads": [LAYER], "machines": ["flat3"], "front_only": 1}, False),
    ({"workloads": [LAYER], "machines": ["flat3"], "tile": "divide"}, False),
    ({"workloads": [LAYER], "machines": ["flat3"], "tiles": "all"}, False),
]


@pytest.mark.parametrize(("document", "valid"), SWEEPS)
def test_the_schema_of_sweeps_agrees_with_the_reader(document: dict[str, Any], valid: bool) -> None:
    assert validator("sweep").is_valid(document) == valid
    if valid:
        sweep_of_document({**document, "time_limit_s": 0.01})
    else:
        with pytest.raises(pm.PolymapError):
            sweep_of_document(document)


def test_an_unknown_schema_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("schema", "machines")) == 2
    assert "Did you mean 'machine'?" in capsys.readouterr().err
    assert main(("schema",)) == 2


@pytest.mark.parametrize("body", ["A[i] = A[i] + 1;", "for (int j = 1; j < n; j++) B[j][i] = B[j - 1][i] + A[j];"])
@pytest.mark.parametrize("words", [(), ("--size", "n=9"), ("--order", "original", "--tile", "4", "--parallel")])
def test_what_transform_writes_is_valid(
    body: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "f.c"
    source.write_text(f"void f(int n, int A[n], int B[n][n]) {{ for (int i = 0; i < n; i++) {{ {body} }} }}")
    assert main(("transform", str(source), *words, "--json")) == 0, "it is answered"
    found = json.loads(capsys.readouterr().out)
    validator("transform").validate(found)
    assert found["schema"] == "polymap.transform/1", "it names its schema"
    for name in found:
        without = {key: value for key, value in found.items() if key != name}
        assert not validator("transform").is_valid(without), f"{name} is always there"


def test_answers_of_networks_are_valid_and_a_store_answers_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ("explore", "alexnet", "--arch", "flat3", "--tiles", "divide", "--time-limit", "30")
    kept = (*wanted, "--store", str(tmp_path / "kept.jsonl"), "--json", "-")
    documents: list[dict[str, Any]] = []
    for command in (kept, kept, (*wanted, "--json", "-")):
        assert main(command) == 0
        documents.append(json.loads(capsys.readouterr().out))
        validator("network").validate(documents[-1])
    first, again, plain = documents
    seconds = [[row["seconds"] for row in document["rows"]] for document in (first, again)]
    assert seconds[0] == seconds[1], "it was searched again"
    for document in (again, plain):
        assert [each["mapping"] for each in document["layers"]] == [each["mapping"] for each in first["layers"]]
        assert document["value"] == first["value"]
    assert len((tmp_path / "kept.jsonl").read_text(encoding="utf-8").splitlines()) >= 8
    page, lines = tmp_path / "page.html", (tmp_path / "kept.jsonl").read_bytes()
    assert main(("report", *wanted[1:], "--store", str(tmp_path / "kept.jsonl"), "-o", str(page))) == 0
    assert "alexnet.fc6" in page.read_text(encoding="utf-8")
    assert (tmp_path / "kept.jsonl").read_bytes() == lines, "the page was searched again"
    broken = first | {"rows": [{"layer": 3}]}
    assert not validator("network").is_valid(broken)
    assert not validator("network").is_valid({name: first[name] for name in first if name != "bound"})
    assert main(("explore", "alexnett", "--arch", "flat3", "--store", "x.sqlite")) == 2
    assert "PM230 there is no built-in workload 'alexnett'" in capsys.readouterr().err
    assert main(("explore", "matmul m=4 n=4 k=4", "--arch", "flat3", "--store", "x.sqlite")) == 2
    assert "PM556 --store: an option of a network" in capsys.readouterr().err
