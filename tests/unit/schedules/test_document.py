"""Mappings as JSON: read, written, and refused with every mistake."""

from __future__ import annotations

import re

import pytest

from polymap.inputs.mappings import mapping_from_document, mapping_to_document, with_names_of
from polymap.inputs.parsing import parse_json
from polymap.ir.errors import MappingError
from polymap.ir.mapping import Branch, Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.c.reader import from_c

# The example of the interface, word for word.
TEXT = """{"nodes": [{"store": "DRAM", "tensors": ["A", "B", "C"]}, {"store": "GLB", "tensors": ["B"]},
  {"for": "m", "tile": 8}, {"par": "m", "tile": 1, "over": "Y"}, {"par": "k", "tile": 16, "over": "Y"},
  {"par": "k", "tile": 1, "over": "X"},
  {"store": "RF", "tensors": ["A"]}, {"for": "n", "tile": 1}, {"compute": "S"}]}"""
TREE = Mapping(
    (
        Storage("DRAM", ("A", "B", "C")),
        Storage("GLB", ("B",)),
        Temporal("m", 8),
        Spatial("m", 1, "Y"),
        Spatial("k", 16, "Y"),
        Spatial("k", 1, "X"),
        Storage("RF", ("A",)),
        Temporal("n", 1),
        Compute("S"),
    )
)
FUSED = Mapping((Temporal("i", 2), Branch(((Temporal("i", 1), Compute("S0")), (Temporal("i#2", 1), Compute("S1"))))))


def test_the_example_of_the_interface() -> None:
    assert mapping_from_document(parse_json(TEXT, "example")) == TREE


@pytest.mark.parametrize("mapping", [TREE, FUSED])
def test_what_is_written_is_read_back(mapping: Mapping) -> None:
    assert mapping_from_document(mapping_to_document(mapping)) == mapping


def test_what_explore_printed_is_read_as_its_mapping() -> None:
    answer = {"status": "OPTIMAL", "value": 3, "mapping": mapping_to_document(FUSED), "cost": {}}
    assert mapping_from_document(answer) == FUSED


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (3, r"PM112 mapping is 3\n"),
        ({}, r"PM111 mapping lacks the field 'nodes'"),
        ({"nodes": []}, None),
        ({"nodes": {}}, r"PM112 mapping: nodes is a table"),
        ({"nodes": [], "colour": 1}, r"PM110 mapping has an unknown field 'colour'"),
        ({"mapping": None, "status": "TIMEOUT"}, r"PM452 .* found no mapping"),
        ({"mapping": [1]}, r"PM112 mapping: mapping is a list"),
        ({"front": []}, r"PM451 mapping holds a front of mappings"),
        (
            {"schema": "polymap.network/1", "nodes": [], "layers": []},
            r"PM451 mapping holds several mappings, in 'layers'",
        ),
        ({"nodes": [7]}, r"PM454 nodes\[0\] is 7"),
        ({"nodes": [{}]}, r"PM454 nodes\[0\] is an empty table"),
        ({"nodes": [{"for": "m", "par": "m"}]}, r"PM454 nodes\[0\] has 'for' and 'par', which exclude"),
        ({"nodes": [{"for": "m"}]}, r"PM111 nodes\[0\] lacks the field 'tile'"),
        ({"nodes": [{"for": "m", "tile": 0}]}, r"PM113 nodes\[0\]: tile is 0"),
        ({"nodes": [{"for": "m", "tile": "4"}]}, r"PM112 nodes\[0\]: tile is '4'"),
        ({"nodes": [{"for": "m", "tile": True}]}, r"PM112 nodes\[0\]: tile is true"),
        ({"nodes": [{"for": "1m", "tile": 1}]}, r"PM114 nodes\[0\]: for is '1m'"),
        ({"nodes": [{"for": "m#x", "tile": 1}]}, r"PM114 nodes\[0\]: for is 'm#x'"),
        ({"nodes": [{"par": "m", "tile": 1, "over": None}]}, r"PM114 nodes\[0\]: over is null"),
        ({"nodes": [{"store": "L", "tensors": ["A", "A"]}]}, r"PM116 nodes\[0\]: tensors lists 'A' twice"),
        ({"nodes": [{"store": "L", "tensors": "A"}]}, r"PM112 nodes\[0\]: tensors is 'A'"),
        ({"nodes": [{"compute": 4}]}, r"PM114 nodes\[0\]: compute is 4"),
        ({"nodes": [{"branch": [[], 3]}]}, r"PM112 nodes\[0\]\.branch\[1\] is 3"),
        ({"nodes": [{"for": "m", "tile": 1}] * 10_001}, r"PM453 the loop tree has more than 10,000 nodes"),
    ],
)
def test_each_mistake_has_its_message(document: object, message: str | None) -> None:
    if message is None:
        assert mapping_from_document(document) == Mapping(())
        return
    with pytest.raises(MappingError, match=message):
        mapping_from_document(document)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(MappingError, match=r"^PM") as caught:
        mapping_from_document(
            {"nodes": [{"for": 3, "tile": 0}, {"store": "?", "tensors": []}, {"compute": "S", "x": 1}]}
        )
    assert re.findall(r"PM\d+", str(caught.value)) == ["PM112", "PM113", "PM114", "PM110"]


def test_endless_nesting_is_refused() -> None:
    document: object = {"compute": "S"}
    for _ in range(150):
        document = {"branch": [[document]]}
    with pytest.raises(MappingError, match="PM104 .* nests more than 100 levels deep"):
        mapping_from_document({"nodes": [document]})


def test_an_older_name_of_the_second_loop_over_a_variable_is_read() -> None:
    text = "for (int i = 0; i < 4; i++) a[i] = 0; for (int i = 0; i < 4; i++) b[i] = a[i];"
    work = from_c(text)
    named = with_names_of(work, FUSED)
    assert [dim.name for dim in work.dims] == ["i", "i_2"]
    assert named == with_names_of(work, named)
    assert mapping_to_document(named)["nodes"][1]["branch"][1][0]["for"] == "i_2"  # type: ignore[index]
