"""Everything a file can hold against us: size, encoding, syntax, depth, duplicates, numbers, names, fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from polymap.inputs.limits import LIMITS
from polymap.inputs.parsing import located, parse_json, parse_toml
from polymap.inputs.reading import (
    Fields,
    as_fraction,
    as_integer,
    is_label,
    is_name,
    parse_integer,
    read_text,
    shown,
)
from polymap.inputs.texts import json_entries
from polymap.ir.errors import InputError, Mistake

BAD_JSON = [
    ("[" * 3000, "PM104 .* more than 100 levels"),
    ("[" * 101 + "]" * 101, "PM104"),
    ('{"a":' * 3000 + "1" + "}" * 3000, "PM104"),
    ('{"a": 1, "b": 2, "a": 3}', "PM107 file: the key 'a' stands twice in one table, in line 1\n"),
    ('{"n": [{"a": 1,\n"b": [3],\n"a": 2}]}', "PM107 .*twice in one table, in line 1 and again in line 3 .n.0..a.\n"),
    ('{"x": {"a": 1, "a": 1}}', "PM107"),
    ("NaN", "PM108"),
    ('{"a": -Infinity}', "PM108"),
    ('{"nodes": [{"level": "D",\n"read_pj": NaN}]}', "PM108 file, line 2: nodes.0..read_pj cannot be read: 'NaN'"),
    ('{"a": NaN, "b": 1e999999, "b": 2}', "(?s)PM108 .*: a cannot .*PM109 .*: b cannot .*PM107 .*'b' stands twice"),
    ("1" * 4301, "PM109 .* of 4,301 digits is too large"),
    ("-" + "1" * 5000, "PM109"),
    ("0." + "1" * 5000, "PM109"),
    ("1e999999999", "PM109 .* exponent"),
    ("1e-999999999", "PM109 .* exponent"),
    ("[1,]", "PM105 file is not JSON: a comma stands before the closing \\] \\(line 1, column 3\\)"),
    ('{"a": 1,\n}', "PM105 .*comma stands before the closing } \\(line 1, column 8\\)\n.*trailing comma"),
    ('{"a": 1} // one', "PM105 .*a comment stands here \\(line 1, column 10\\)"),
    ('{"a": 1, # one\n "b": 2}', "PM105 .*a comment stands here \\(line 1, column 10\\)"),
    ('{\n/* one */ "a": 1}', "PM105 .*a comment stands here \\(line 2, column 1\\)"),
    ('{"a": [1,\n{"b": 2', "PM105 .*ends before its brackets are closed: the last open { stands in line 2"),
    ('{"a": [1, 2', "PM105 .*\n.*2 to close. Is the file cut off"),
    ('{"a":', "PM105 .*ends before its brackets"),
    ('["a', "PM105 .*is never closed .*line 1, column 2"),
    ("{'a': 1}", "PM105 .*the quote ' stands here \\(line 1, column 2\\)\n.*double quotes"),
    ('["a", \u201cb\u201d]', "PM105 .*the quote \u201c stands here"),
    ('{a": 1}', "PM105 .*the opening quote before a is missing \\(line 1, column 2\\)"),
    ('{"a: 1,\n"b": 2}', "PM105 .*a text is not closed in its line \\(line 1, column 8\\)"),
    ("{a: 1}", "PM105 .*the word a stands without quotes"),
    ('{"a": True}', "PM105 .*True is no word of JSON .*\n.*Write true"),
    ('{"a": None}', "PM105 .*\n.*Write null"),
    ('{"a" 1}', "PM105 .*a colon is missing"),
    ('{"a": }', "PM105 .*a value is missing before } \\(line 1, column 7\\)"),
    ('{"a": , "b": 1}', "PM105 .*is missing before ,"),
    ('{"a": [1}', "PM105 .*} stands where the \\[ of line 1 is still open"),
    ('{"a": 1}}', "PM105 .*a closing } too many"),
    ('["a\tb"]', "PM105 .*stands in a text .*\n.*Write a tab as"),
    ('["a\\x"]', "PM105 .*begins no escape"),
    ("[0x10]", "PM105 .*0x10 is no number of JSON \\(line 1, column 2\\)"),
    ("[+5]", "PM105 .*\\+5 is no number"),
    ("[.5]", "PM105 .*\\.5 is no number"),
    ("[5.]", "PM105 .*5\\. is no number"),
    ("[1_000]", "PM105 .*1_000 is no number"),
    ("# a\nname: toy\nnodes:\n  - level: DRAM\n", "PM105 .*looks like YAML"),
    ("---\n- 1\n", "PM105 .*looks like YAML"),
    ('[[nodes]]\nlevel = "DRAM"\n', "PM105 .*looks like TOML"),
    ("\0", "PM105 .*cannot stand here"),
    ('{"a": 1\n"b": 2}', "PM105 .*a comma is missing here \\(line 1, column 8\\)"),
    ("", "PM105 .*it is empty"),
    (" \n ", "PM105 .*it is empty"),
    ("[1] [2]", "PM105"),
    ("01", "PM105"),
    ('"a\nb"', "PM105"),
    (" " * (LIMITS.file_bytes + 1), "PM102"),
]


@pytest.mark.parametrize("text, message", BAD_JSON, ids=range(len(BAD_JSON)))
def test_bad_json_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_json(text, "file")


BAD_TOML = [
    ("a = " + "[" * 3000, "PM104"),
    ("a = " + "{b=" * 300, "PM104"),
    ("a." * 3000 + "b = 1", "PM104"),
    ("[" + '"a".' * 3000 + "b]", "PM104"),
    ("'a' . " * 100000 + "b = 1", "PM104"),
    ("a = nan", "PM108"),
    ("a = -inf", "PM108"),
    ("a = 1\nb = 3\na = 2", "PM107 .*the key 'a' stands twice in one table, in line 1 and again in line 3"),
    ("[[n]]\nlevel = 'D'\nread_pj = nan", "PM108 file, line 3: read_pj cannot be read: 'nan'"),
    ("a = 1\nb = " + "1" * 5000, "PM109 file, line 2: b cannot be read: a number of 5,000 digits"),
    ('{"a": 1}', "PM106 .*looks like JSON"),
    ("a = {b = 1,\nc = 2}", "PM106 .*\n.*one line"),
    ("a = " + "1" * 5000, "PM109"),
    ("a = 1e1000000", "PM109 .* exponent"),
    ("a = ", "PM106"),
    ("[t]\n[t]", r"PM106 file is not TOML: t is declared before, and again in line 2\n.*\[\[t\]\] before each item"),
    ("[[nodes]]\na = 1\n[nodes]\nb = 2", r"PM106 .* nodes is declared .* line 3\n.*\[\[nodes\]\]"),
    ("[nodes]\na = 1\n[[nodes]]\nb = 2", r"PM106 .* nodes is declared .* line 3\n.*\[\[nodes\]\]"),
    ("nodes = []\n[[nodes]]\na = 1", r"PM106 .* nodes is declared .* line 2\n.*\[\[nodes\]\]"),
]


@pytest.mark.parametrize("text, message", BAD_TOML, ids=range(len(BAD_TOML)))
def test_bad_toml_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_toml(text, "file")


def test_mistakes_in_a_file_are_told_with_its_name_and_their_lines() -> None:
    text = '{\n"nodes": [\n{"level": "D"},\n{"level":\n"E", "holds": ["A",\n4]}],\n"overlap": 1}'
    whats = {
        "nodes[0] (level 'D') is bad": ", line 3",
        "nodes[1] (level 'E'): level is bad": ", line 4",
        "nodes[1] (level 'E'): holds[1] is bad": ", line 6",
        "nodes[1] (level 'E') has an unknown field 'holds'": ", line 5",
        "nodes[1] (level 'E'): absent is bad": ", line 4",
        "nodes[0] and nodes[1] have it": ", lines 3 and 4",
        "machine: overlap is bad": ", line 7",
        "something else is bad": "",
    }
    found = located([Mistake("PM1", what, "hint") for what in whats], "'a.json'", text)
    assert [each.what for each in found] == [f"{what} ('a.json'{line})" for what, line in whats.items()]
    assert {each.hint for each in found} == {"hint"}


def test_the_lines_of_a_toml_file_are_found_by_its_headers() -> None:
    text = 'overlap = 1\n[[nodes]]\nlevel = "D"\n\n[[nodes]]\nfanout = "X"\nsize = 0\n'
    whats = {"nodes[1] (fanout 'X'): size is 0": 7, "nodes[0] (level 'D') is bad": 2, "machine: overlap is 1": 1}
    found = located([Mistake("PM1", what) for what in whats], "'a.toml'", text)
    assert [each.what for each in found] == [f"{what} ('a.toml', line {line})" for what, line in whats.items()]


def test_the_mapping_in_an_answer_is_found() -> None:
    text = '{"status": "OPTIMAL",\n"mapping": {"nodes": [\n{"for": "m",\n"tile": 0}]}}'
    (found,) = located([Mistake("PM1", "nodes[0]: tile is 0")], "'m.json'", text)
    assert found.what == "nodes[0]: tile is 0 ('m.json', line 4)"


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def test_numbers_stay_exact() -> None:
    big = 10**30 + 1
    assert parse_json(f'{{"a": 0.1, "b": [1, 2e3, {big}], "c": 1.5e-3}}', "file") == {
        "a": Fraction(1, 10),
        "b": [1, 2000, big],
        "c": Fraction(3, 2000),
    }
    assert parse_toml("a = 0.1\nb = 1_000.2_5\nc = 7", "file") == {"a": Fraction(1, 10), "b": Fraction(4001, 4), "c": 7}


def test_brackets_inside_texts_and_comments_are_no_nesting() -> None:
    many = "[" * 500
    assert parse_json(f'["{many}", "\\"{many}"]', "file") == [many, f'"{many}']
    toml = f'a = "{many}\\""\nb = \'{many}\'\nc = """{many}"\n{many}"""\nd = \'\'\'{many}\'\'\' # {many}\n'
    assert parse_toml(toml, "file") == {"a": many + '"', "b": many, "c": f'{many}"\n{many}', "d": many}


def test_long_lines_of_toml_are_no_nesting() -> None:
    numbers = ", ".join(["1.5"] * 300)
    tables = ", ".join(f'k{key} = {{"a"."b" = {key}.5}}' for key in range(200))
    assert parse_toml(f"a = [{numbers}]\nb = {{{tables}}}", "file")


def test_depth_of_a_hundred_is_read() -> None:
    value = parse_json("[" * 100 + "]" * 100, "file")
    for _ in range(99):
        assert isinstance(value, list)
        value = value[0]
    assert value == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_json_that_python_writes_is_read_back(value: object) -> None:
    assert parse_json(json.dumps(value), "file") == value


@given(json_values)
def test_every_entry_of_a_json_text_has_its_place_and_line(value: object) -> None:
    flat, lines = json.dumps(value), json.dumps(value, indent=0)
    assert [entry.path for entry in json_entries(flat)] == list(_paths(value))
    assert {entry.line for entry in json_entries(flat)} <= {1}
    for entry in json_entries(lines):
        key = json.dumps(entry.path[-1]) + ":" if isinstance(entry.path[-1], str) else entry.token
        assert lines.splitlines()[entry.line - 1].startswith(key)


@given(st.text(alphabet='[]{}",:\\ 019eE.-+aNtrufls\n', max_size=60))
def test_no_text_raises_anything_but_input_error(text: str) -> None:
    for parse in (parse_json, parse_toml):
        with suppress(InputError):
            parse(text, "file")


def test_files_are_utf8_without_their_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')
    assert parse_json(read_text(file), "a.json") == {"a": "é"}
    file.write_bytes(b"{\n\xff}")
    with pytest.raises(InputError, match="PM103 .* not UTF-8: byte 0xff in line 2"):
        read_text(file)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="PM101 cannot read .*: No such file"):
        read_text(tmp_path / "none.json")
    with pytest.raises(InputError, match="PM101 .*directory"):
        read_text(tmp_path)
    with pytest.raises(InputError, match="PM101 .*null"):
        read_text("a\0b")
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(LIMITS.file_bytes + 1)
    with pytest.raises(InputError, match="PM102 .* larger than 16 MiB"):
        read_text(large)


@pytest.mark.parametrize(
    "name, good",
    [
        ("a", True),
        ("_A9", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("", False),
        ("9a", False),
        ("a-b", False),
        ("a\n", False),
        ("ﬁ", False),
        ("é", False),
        ("a٣", False),
        (1, False),
    ],
)
def test_names_are_ascii(name: object, good: bool) -> None:
    assert is_name(name) is good


def test_labels_are_printable() -> None:
    assert is_label("ResNet-50, layer é")
    assert is_label("x" * 200)
    assert not is_label("x" * 201)
    assert not is_label("a\nb")
    assert not is_label("\ud800")


def test_integers_are_no_booleans_and_no_floats() -> None:
    assert as_integer(np.int64(3)) == 3
    assert type(as_integer(np.int64(3))) is int
    for value in (True, False, np.True_, 3.0, "3", None, Fraction(3)):
        assert as_integer(value) is None
    assert parse_integer("-12") == -12
    for text in ("1_0", " 1", "1.0", "٣", "", "1" * 5000):
        assert parse_integer(text) is None


def test_floats_are_the_decimals_that_were_written() -> None:
    assert as_fraction(0.1) == Fraction(1, 10)
    assert as_fraction(3) == 3
    for value in (float("nan"), float("inf"), True, "1"):
        assert as_fraction(value) is None


def test_values_are_shown_short_and_on_one_line() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert shown("x" * 100) == f"'{'x' * 60}'..."
    assert shown(10**5000) == "an integer of about 5001 digits"
    assert [shown(value) for value in (None, True, 3, Fraction(1, 2), {}, [])] == [
        "null",
        "true",
        "3",
        "0.5",
        "a table",
        "a list",
    ]
    assert shown(object()) == "a value of type object"


def test_fields_are_read_with_their_rules() -> None:
    problems: list[Mistake] = []
    table = {"n": 3, "e": 0.5, "f": True, "t": "x", "c": None, "l": ["A", "@input"], "o": "union", "i": [1]}
    fields = Fields.of(table, "node", problems, known=tuple(table), required=("n",))
    assert fields.integer("n", 1) == 3
    assert fields.integer("absent", 7) == 7
    assert fields.integer("c", None, null=True) is None
    assert fields.number("e", Fraction(0)) == Fraction(1, 2)
    assert fields.flag("f", None) is True
    assert (fields.text("t", ""), fields.name("t", ""), fields.label("t", "")) == ("x", "x", "x")
    assert fields.names("l", None, roles=("@input",)) == ("A", "@input")
    assert fields.choice("o", "none", ("none", "union")) == "union"
    assert fields.items("i") == [1]
    assert fields.has("c")
    assert not problems


def test_fields_tell_every_mistake_at_once() -> None:
    problems: list[Mistake] = []
    table: dict[str, object] = {
        "size": True,
        "pj": -1,
        "rate": 0,
        "much": Fraction(10**400),
        "flag": 1,
        "name": "a b",
        "label": "a\nb",
        "text": "\ud800",
        "kind": "unoin",
        "names": ["A", "A", "a b", "@inptu"],
        "list": {},
        "count": 0,
        "few": 3,
        "huge": 10**101,
        "siez": 1,
    }
    known = tuple(key for key in table if key != "siez") + ("needed",)
    fields = Fields.of(table, "nodes[3]", problems, known=known, required=("needed",))
    assert fields.integer("size", 5) == 5
    assert fields.number("pj", None) is None
    assert fields.number("rate", None, positive=True) is None
    assert fields.number("much", None) is None
    assert fields.flag("flag", False) is False
    assert fields.name("name", "d") == "d"
    assert fields.label("label", "d") == "d"
    assert fields.text("text", "d") == "d"
    assert fields.choice("kind", "none", ("none", "union")) == "none"
    assert fields.names("names", None, roles=("@input", "@weight")) == ("A",)
    assert fields.items("list") == ()
    assert fields.integer("count", 1) == 1
    assert fields.integer("few", 1, most=2) == 1
    assert fields.integer("huge", 1) == 1
    assert [str(problem) for problem in problems] == [
        "PM110 nodes[3] has an unknown field 'siez'\n      Did you mean 'size'?",
        "PM111 nodes[3] lacks the field 'needed'\n      Add it; required: needed.",
        "PM112 nodes[3]: size is true\n      Expected an integer >= 1.",
        "PM113 nodes[3]: pj is -1\n      Expected a finite number >= 0.",
        "PM113 nodes[3]: rate is 0\n      Expected a finite number > 0.",
        "PM113 nodes[3]: much is too large: a number over 1e300\n      Expected a number of at most 10^100.",
        "PM112 nodes[3]: flag is 1\n      Expected true or false.",
        "PM114 nodes[3]: name is 'a b'\n      "
        "A name is a letter or _ followed by letters, digits and _ (ASCII, at most 64 characters).",
        "PM115 nodes[3]: label is 'a\\nb'\n      A label is a text of at most 200 printable characters.",
        "PM112 nodes[3]: text is '\\ud800'\n      Expected a text.",
        "PM113 nodes[3]: kind is 'unoin'\n      Expected one of none, union.",
        "PM116 nodes[3]: names lists 'A' twice",
        "PM114 nodes[3]: names[2] is 'a b'\n      "
        "A name is a letter or _ followed by letters, digits and _ (ASCII, at most 64 characters).",
        "PM114 nodes[3]: names[3] is '@inptu'\n      Did you mean '@input'?",
        "PM112 nodes[3]: list is a table\n      "
        "Expected a list: [[list]] before each item in TOML, [{...}, {...}] in JSON.",
        "PM113 nodes[3]: count is 0\n      Expected an integer >= 1.",
        "PM113 nodes[3]: few is too large: 3\n      Expected an integer >= 1 and <= 2.",
        "PM113 nodes[3]: huge is too large: an integer of about 102 digits\n      "
        "Expected an integer >= 1 and at most 10^100.",
    ]


def test_what_is_no_table_has_no_fields() -> None:
    problems: list[Mistake] = []
    fields = Fields.of([1], "the machine", problems, known=("a",), required=("a",))
    assert fields.integer("a", 4) == 4
    assert [str(problem) for problem in problems] == ["PM112 the machine is a list\n      Expected a table of fields."]


def test_very_many_unknown_fields_are_counted_not_listed() -> None:
    problems: list[Mistake] = []
    Fields.of({f"x{number}": 0 for number in range(5000)}, "t", problems, known=("a",))
    assert len(problems) == 21
    assert problems[-1].what == "t has 4980 more unknown fields"
