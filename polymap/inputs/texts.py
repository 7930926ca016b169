"""Explains why a text is no JSON, and finds the lines of fields in JSON and TOML texts.

Used only to report mistakes: Python's own parsers read valid texts (polymap.inputs.parsing).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]  # ("nodes", 0, "read_pj"): the keys and places on the way to a field

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NUMBER_LIKE = re.compile(r"[+-]?[0-9.][0-9A-Za-z_.+-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_YAML_START = re.compile(r"(?:---|- |[A-Za-z_][\w.-]*[ \t]*:(?:\s|$))")
_TOML_START = re.compile(r"(?:\[{1,2}[ \t]*[A-Za-z_][\w.-]*[ \t]*\]{1,2}[ \t]*$|[A-Za-z_][\w.-]*[ \t]*=)")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null", "nil": "null", "undefined": "null"}
_QUOTES = "'`\u2018\u2019\u201c\u201d"
_CLOSING = {"}": "{", "]": "["}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a text, how to correct it, and the character `at` which it shows."""

    what: str
    hint: str
    at: int


def line_of(text: str, at: int) -> int:
    """Return the line of the character, from 1."""
    return text.count("\n", 0, at) + 1


def column_of(text: str, at: int) -> int:
    """Return the column of the character, from 1."""
    return at - text.rfind("\n", 0, at)


def json_mistake(text: str, message: str, at: int) -> Mistake:
    """Return why a text is no JSON; message, at: the error of Python's parser and the character where it stopped."""
    if not text.strip():
        return Mistake("it is empty", "Expected a JSON text.", 0)
    inside = _mistake_in_a_string(text, message, at)
    if inside is not None:
        return inside
    if message.startswith("Illegal trailing comma"):
        at += 1  # from Python 3.13 on the comma is named, before it the bracket behind
    at += len(text[at:]) - len(text[at:].lstrip())
    for judge in (_other_language, _comment, _ends_early, _bracket, _word, _number, _separator):
        found = judge(text, message, at)
        if found is not None:
            return found
    return Mistake(f"{text[at]!a} cannot stand here", f"Python's reader says: {message}.", at)


def _mistake_in_a_string(text: str, message: str, at: int) -> Mistake | None:
    if message.startswith("Unterminated string"):
        return Mistake("the text that begins here is never closed", 'Add the closing ". Is the file cut off?', at)
    if message.startswith("Invalid control character"):
        if text[at] in "\r\n":
            return Mistake("a text is not closed in its line", 'Add the closing " (a line break is written \\n).', at)
        return Mistake(f"the character {text[at]!a} stands in a text", "Write a tab as \\t.", at)
    if message.startswith("Invalid \\"):
        return Mistake("a backslash in a text begins no escape", "Write a backslash as \\\\.", at)
    return None


def _other_language(text: str, _message: str, at: int) -> Mistake | None:
    """Return a mistake that names YAML or TOML if the first line looks like it and parsing stopped there."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "%")))
    first = next(lines, "").strip()
    if at > len(text) - len(text.lstrip()) + len(first) + 1 and not text.lstrip().startswith("#"):
        return None
    if _YAML_START.match(first):
        return Mistake("it looks like YAML", "YAML is not read: write the same tables and lists as JSON.", at)
    if _TOML_START.match(first):
        return Mistake("it looks like TOML", "Machines may be TOML files: the name then ends in .toml.", at)
    return None


def _comment(text: str, _message: str, at: int) -> Mistake | None:
    if text.startswith(("//", "/*", "#"), at):
        return Mistake("a comment stands here", "JSON has no comments: take it out.", at)
    return None


def _ends_early(text: str, _message: str, at: int) -> Mistake | None:
    if at < len(text):
        return None
    opened = _open_brackets(text, at)
    if not opened:
        return Mistake("it ends where a value is expected", "Is the file cut off?", at)
    most = opened[-1]
    what = f"it ends before its brackets are closed: the last open {text[most]} stands in line {line_of(text, most)}"
    return Mistake(what, f"{len(opened)} to close. Is the file cut off?", at)


def _open_brackets(text: str, at: int) -> list[int]:
    """Return the positions of the brackets that are open at a character, outermost first."""
    opened: list[int] = []
    for match in _TOKEN.finditer(text, 0, at):
        if match.group() in ("{", "["):
            opened.append(match.start())
        elif match.group() in ("}", "]") and opened:
            opened.pop()
    return opened


def _bracket(text: str, message: str, at: int) -> Mistake | None:
    """Return the mistake of a closing bracket: after a comma, unmatched, or of the other kind."""
    if text[at] not in _CLOSING:
        return None
    before = len(text[:at].rstrip()) - 1
    if text[before] == ",":
        return Mistake(f"a comma stands before the closing {text[at]}", "Take the trailing comma out.", before)
    if message.startswith("Extra data"):
        return Mistake(f"a closing {text[at]} too many", "Take it out.", at)
    opened = _open_brackets(text, at)
    if opened and text[opened[-1]] != _CLOSING[text[at]]:
        what = f"{text[at]} stands where the {text[opened[-1]]} of line {line_of(text, opened[-1])} is still open"
        return Mistake(what, "Close that bracket first.", at)
    return Mistake(f"a value is missing before {text[at]}", "Add it.", at)


def _word(text: str, _message: str, at: int) -> Mistake | None:
    """Return the mistake of other quotes, or of a word without quotes."""
    if text[at] in _QUOTES:
        return Mistake(f"the quote {text[at]} stands here", 'Texts and names stand in double quotes ("...").', at)
    match = _WORD.match(text, at)
    if match is None or (at > 0 and text[at - 1].isalnum()):
        return None
    word = match.group()
    if word in _PYTHON_WORDS:
        return Mistake(f"{word} is no word of JSON", f"Write {_PYTHON_WORDS[word]}.", at)
    if text.startswith('"', match.end()):
        return Mistake(f"the opening quote before {word[:60]} is missing", f'Write "{word[:60]}".', at)
    hint = f'Write "{word[:60]}"; only true, false and null stand without quotes.'
    return Mistake(f"the word {word[:60]} stands without quotes", hint, at)


def _number(text: str, _message: str, at: int) -> Mistake | None:
    """Return the mistake of text right behind a number, or of a number that begins with + or a point."""
    begin = at
    while begin > 0 and (text[begin - 1].isalnum() or text[begin - 1] in "+-._"):
        begin -= 1
    match = _NUMBER_LIKE.match(text, begin)
    if match is None or match.end() <= at or _NUMBER.fullmatch(match.group()):
        return None
    hint = "Numbers are written like 16, 0.5 or 1e3: decimal, digits on both sides of a point, no leading zeros."
    return Mistake(f"{ascii(match.group()[:60])[1:-1]} is no number of JSON", hint, begin)


def _separator(text: str, message: str, at: int) -> Mistake | None:
    after = len(text[:at].rstrip())
    if message.startswith("Extra data"):
        return Mistake("more follows behind the end", "Expected one value: one { ... }.", at)
    if text[at] in ",:":
        return Mistake(f"a value or name is missing before {text[at]}", "Add it, or take the sign out.", at)
    if "',' delimiter" in message:
        return Mistake("a comma is missing here", "A comma stands between two entries.", after)
    if "':' delimiter" in message:
        return Mistake("a colon is missing behind a name", 'An entry is written "name": value.', after)
    if "property name" in message:
        return Mistake("expected a name in double quotes here", 'An entry is written "name": value.', at)
    return None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a table or list: its path, its line, its value's first token, and the table that contains it."""

    path: Path
    line: int
    token: str
    table: int


@dataclass(slots=True)
class _Frame:
    """A table or list that is being read; key: the name whose value comes next, with its line."""

    path: Path
    number: int
    index: int | None  # None in a table
    key: str | None = None
    line: int = 0


def json_entries(text: str) -> Iterator[Entry]:
    """Yield the entries of a valid JSON text in order, duplicate keys included."""
    frames: list[_Frame] = []
    line, at, tables = 1, 0, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        token = match.group()
        frame = frames[-1] if frames else None
        if token in ("}", "]"):
            frames.pop()
        elif token == ",":
            assert frame is not None, "valid JSON"
            frame.key, frame.index = None, None if frame.index is None else frame.index + 1
        elif token == ":":
            continue
        elif frame is not None and frame.index is None and frame.key is None:
            frame.key, frame.line = str(json.loads(token, strict=False)), line
        else:
            path: Path = ()
            if frame is not None:
                step = frame.key if frame.index is None else frame.index
                assert step is not None, "a key was read"
                path = (*frame.path, step)
                yield Entry(path, frame.line if frame.index is None else line, token, frame.number)
            if token in ("{", "["):
                tables += 1
                frames.append(_Frame(path, tables, 0 if token == "[" else None))


def json_lines(text: str, wanted: Sequence[Path]) -> dict[Path, int]:
    """Return the lines of the given fields of a valid JSON text, without those that it lacks.

    A field of an answer of explore is also found inside its `mapping`.
    """
    asked = frozenset(wanted)
    lines: dict[Path, int] = {}
    for entry in json_entries(text):
        for path in (entry.path, entry.path[1:] if entry.path[:1] == ("mapping",) else ()):
            if path in asked:
                lines.setdefault(path, entry.line)
    return lines


def toml_lines(text: str, wanted: Sequence[Path]) -> dict[Path, int]:
    """Return the lines of the given fields of a TOML text, as far as headers and plain keys determine them."""
    found: dict[Path, int] = {}
    counts: dict[str, int] = {}
    section: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[\s*([\w-]+)\s*\]\]", line)
        key = re.match(r"\s*[\"']?([\w-]+)[\"']?\s*=", line)
        if header:
            name = header.group(1)
            section = (name, counts.get(name, 0))
            counts[name] = counts.get(name, 0) + 1
            found.setdefault(section, number)
        elif key:
            found.setdefault((*section, key.group(1)), number)
    return {path: found[path] for path in wanted if path in found}


def path_text(path: Path) -> str:
    """Return a path as messages write it: nodes[0].read_pj."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


_PLACE = re.compile(r"\b(nodes|constraints|order)((?:\[\d+\]|\.branch(?=\[))*)(?: \(\w+ '[^']*'\))?")
_FIELD = re.compile(r"(?:: (\w+)((?:\[\d+\])*)| has an unknown field '(\w+)')")
_TABLE = re.compile(r"(?:machine|mapping|the workload|the constraints|constraints)(?=: | has an unknown)")
_OF_A_NAME = re.compile(r"(?:the )?(size|bits|type|role) of (\w+) (?:is|has)\b")
_OF_ALL = re.compile(r"(?:the )?(einsum|initial|temporary|associative|bits|types|roles|sizes)\b")
_NAMED_TABLES = {"size": "sizes", "bits": "bits", "type": "types", "role": "roles"}


def paths_in(what: str) -> tuple[Path, ...]:
    """Return the fields of a document that a message mentions: "nodes[0] (level 'D'): read_pj is -1" and the like."""
    whole = _TABLE.match(what)
    field = _FIELD.match(what, whole.end()) if whole else None
    if field:
        return (_field_path((), field),)
    named = _OF_A_NAME.match(what)
    if named:
        return ((_NAMED_TABLES[named.group(1)], named.group(2)),)
    found: list[Path] = []
    for place in _PLACE.finditer(what):
        path: Path = (place.group(1), *_steps(place.group(2)))
        field = _FIELD.match(what, place.end())
        found.append(_field_path(path, field) if field else path)
    plain = _OF_ALL.match(what)
    if plain and not found:
        found.append((plain.group(1),))
    return tuple(dict.fromkeys(found))


def _field_path(path: Path, field: re.Match[str]) -> Path:
    name, steps, unknown = field.groups()
    return (*path, unknown) if unknown else (*path, name, *_steps(steps))


def _steps(text: str) -> Iterator[str | int]:
    for step in re.findall(r"\d+|branch", text):
        yield int(step) if step.isdigit() else step
