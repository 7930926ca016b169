"""YAML as tables and lists that know their lines, so that a mistake can name the line it is in."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from polymap.formatting import listing
from polymap.importers.nodes import extra
from polymap.importers.timeloop.findings import Findings, Place
from polymap.importers.timeloop.libconfig import read_libconfig
from polymap.importers.timeloop.templates import NoTemplate, Sources, expand, is_template
from polymap.importers.tuning import TUNING
from polymap.inputs import LIMITS, as_fraction, expected_kind, read_text, shown
from polymap.ir import InputError, Mistake, PolymapError, did_you_mean

_INTEGER = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_VERSIONS = ("0.1", "0.2", "0.3", "0.4")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


class Value:
    """A YAML value. plain: a text, number, bool or None; a list of Values; or a dict of them. tag: "!Component", "" for
    YAML's own."""

    __slots__ = ("place", "plain", "tag")

    def __init__(self, plain: Any, place: Place, tag: str = "") -> None:
        self.plain, self.place, self.tag = plain, place, tag

    def refuse(self, what: str, hint: str = "") -> InputError:
        """Return the error that says what of this value is not read, and where it stands."""
        return InputError(Mistake("PM661", f"{self.place}: {what}", hint))

    @contextmanager
    def blamed(self, before: str = "", *, has_hint: bool = False) -> Generator[None]:
        """Let what is raised inside be told at this value, behind the words `before`. has_hint: with its hint."""
        try:
            yield
        except PolymapError as error:
            first = error.mistakes[0]
            raise self.refuse(f"{before}{first.what}", first.hint if has_hint else "") from None

    def table(self, what: str) -> Record:
        """Return its fields."""
        if not isinstance(self.plain, dict):
            raise self.refuse(f"{what} is {self.told()}", "Expected a table of fields.")
        return Record(self.plain)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def fields(
        self, what: str, known: Iterable[str], told: Findings | None = None, needed: Sequence[str] = ()
    ) -> Record:
        """Return its fields, with - in names as _. Raises InputError with every field that is not among the known ones
        (with `told`: tells it there, and leaves it out), or given in both spellings, and with needed ones that lack."""
        found = Record()
        mistakes: list[Mistake] = []
        names = tuple(known)
        for written, value in self.table(what).items():
            name = written.replace("-", "_")
            if name in found:
                mistakes.extend(value.refuse(f"{what}.{name} is given twice, with - and with _").mistakes)
            elif name not in names:
                shown_name = written if written.isprintable() and len(written) <= 60 else shown(written)
                unread = f"{what}.{shown_name} is not read (it is {value.told()})"
                if told is not None:
                    told.no_equal(value.place, unread, did_you_mean(name[:64], names))
                    continue
                mistakes.extend(value.refuse(unread, did_you_mean(name[:64], names)).mistakes)
            found[name] = value
        if missing := [name for name in needed if name not in found]:
            mistakes.extend(self.refuse(f"{what} has no {listing(missing)}", f"Needed: {listing(needed)}.").mistakes)
        if mistakes:
            raise InputError(mistakes)
        return found

    def check_version(self, what: str) -> None:
        """Raise InputError where it is a table of a version that is not known."""
        given = self.table(what).get("version") if self.is_table else None
        if given is not None and given.plain is not None and str(given.plain) not in _VERSIONS:
            raise given.refuse(f"{what}.version is {given.told()}", f"Known: {listing(_VERSIONS)}.")

    def items(self, what: str) -> list[Value]:
        """Return its items."""
        if not isinstance(self.plain, list):
            raise self.refuse(f"{what} is {self.told()}", "Expected a list.")
        return self.plain  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def text(self, what: str) -> str:
        """Return its text."""
        if not isinstance(self.plain, str):
            raise self.refuse(f"{what} is {self.told()}", "Expected a text.")
        return self.plain

    def integer(self, what: str, least: int = 1) -> int:
        """Return its integer, at least `least` and at most 10^100."""
        if not isinstance(self.plain, int) or isinstance(self.plain, bool) or not least <= self.plain <= LIMITS.integer:
            raise self.refuse(f"{what} is {self.told()}", f"Expected an integer >= {least}.")
        return self.plain

    def flag(self, what: str) -> bool:
        """Return its truth value."""
        if not isinstance(self.plain, bool):
            raise self.refuse(f"{what} is {self.told()}", "Expected true or false.")
        return self.plain

    def number(self, what: str) -> Any:
        """Return its number, 0 or more, as a rational."""
        found = None if isinstance(self.plain, bool) else as_fraction(self.plain)
        if found is None or found < 0:
            raise self.refuse(f"{what} is {self.told()}", "Expected a number >= 0.")
        return found

    def told(self) -> str:
        """Return the value as messages tell it."""
        return "a table" if self.is_table else "a list" if self.is_list else shown(self.plain)

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return isinstance(self.plain, dict)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.plain, list)


class Record(dict[str, Value]):
    """The fields of a table. One that is not given has its default; without a default it must be given."""

    def given(self, name: str) -> Value | None:
        """Return a field that is given and not null."""
        value = self.get(name)
        return None if value is None or value.plain is None else value

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        return self[name].text(name) if default is None or name in self else default

    def integer(self, name: str, least: int = 1, default: int | None = None) -> int:
        """Return an integer of at least `least`."""
        return self[name].integer(name, least) if default is None or name in self else default

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a truth value."""
        return self[name].flag(name) if name in self else default

    def listed(self, name: str) -> list[Value]:
        """Return a list."""
        return self[name].items(name) if name in self else []


class Reading(NamedTuple):
    """What the files that include each other share. budget: as many values as may still be read; added: folders that
    templates have added to the search."""

    sources: Sources
    budget: Iterator[int]
    added: list[Path]


class Files:
    """The files of one question, each read once. folders: what templates may include files from, beside the folders of
    the files; values: of the names in templates; repeated: is told where a key is given again (the last one holds), in
    place of a refusal. Needs the extra `timeloop`."""

    def __init__(
        self,
        caller: str,
        folders: Iterable[Path] = (),
        values: dict[str, Any] | None = None,
        repeated: Callable[[Place, str], None] | None = None,
    ) -> None:
        self._caller, self._repeated = caller, repeated
        self._folders, self._values = tuple(folders), dict(values or {})
        self._read: dict[str | Path, Value] = {}

    def read(self, given: object) -> Value:
        """Return what a YAML file, a text of several lines, or a libconfig file (of a name that ends in .cfg) says.

        Raises InputError (PM660) with the line for what is no YAML, several documents, keys given twice, or too deep.
        """
        source = given if isinstance(given, str) else expected_kind(given, Path, "the path", InputError)
        if source not in self._read:
            is_text = isinstance(source, str) and "\n" in source
            path = None if is_text else Path(source)
            folders = self._folders if path is None else (path.parent, *self._folders)
            budget = iter(range(TUNING.most_values))

            def load(included: Path, inside: str, added: list[Path]) -> Value:
                return self._load(included, inside, Reading(sources, budget, added))

            sources = Sources(folders, self._values, load)
            text = str(source) if path is None else read_text(path)
            self._read[source] = self._parse(text, path, Reading(sources, budget, []))
        return self._read[source]

    def beside(self, name: str, suffixes: Iterable[str]) -> Value | None:
        """Return the file of a name, without its suffix, in the folders that are given; None where there is none."""
        if re.fullmatch(r"[\w-]{1,100}", name):
            for path in (folder / f"{name}{suffix}" for folder in self._folders for suffix in suffixes):
                if path.exists():
                    return self.read(path)
        return None

    def _load(self, path: Path, inside: str, reading: Reading) -> Value:
        """Return what an included file says under a dotted name."""
        found = self._parse(read_text(path), path, reading)
        for key in inside.split(".") if inside else []:
            table = found.table(inside) if found.is_table else Record()
            if key not in table:
                raise NoTemplate(f"{shown(path.name)} has no {inside}")
            found = table[key]
        return found

    def _parse(self, text: str, path: Path | None, reading: Reading) -> Value:
        name = "the text" if path is None else shown(path.name)
        if path is not None and path.suffix == ".cfg":
            return _libconfig_values(text, name)
        ruamel = extra("ruamel.yaml", self._caller)
        places: list[Place] | None = None
        if is_template(text):
            text, places = expand(text, path, reading.sources, self._caller, reading.added)
        reader = _Reader(name, places, reading.sources, reading.budget, self._repeated)
        return _read(_compose(ruamel, text, name, places), reader, 0)


def read_yaml(source: object, caller: str = "from_timeloop") -> Value:
    """Return what a YAML file, or a text of several lines, says: `Files.read`, without templates' values."""
    return Files(caller).read(source)


def _libconfig_values(text: str, name: str) -> Value:
    def as_value(found: Any) -> Value:
        plain, line = found
        if isinstance(plain, dict):
            plain = {key: as_value(each) for key, each in plain.items()}  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(plain, list):
            plain = [as_value(each) for each in plain]  # pyright: ignore[reportUnknownVariableType]
        return Value(plain, Place(name, line))

    return as_value(read_libconfig(text, name))


def _compose(ruamel: Any, text: str, name: str, places: list[Place] | None) -> Any:
    """Return the root node of a YAML text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ruamel.error.ReusedAnchorWarning)  # YAML lets an anchor be set anew
            yaml = ruamel.YAML(typ="safe", pure=True)
            _limit_depth(yaml.composer, lambda line: _place(line, name, places))
            node = yaml.compose(text)
    except InputError:
        raise
    except ruamel.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = _place(0 if mark is None else mark.line, name, places)
        raise InputError(Mistake("PM660", f"{place}: {error.problem or error.context}")) from None
    except ruamel.error.YAMLError as error:
        raise InputError(Mistake("PM660", f"{name} is no YAML: {' '.join(str(error).split())[:200]}")) from None
    except (RecursionError, ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
        # ruamel's own slips on damaged text: the file is still none.
        raise InputError(Mistake("PM660", f"{name} is no YAML: {type(error).__name__}")) from None
    if node is None:
        raise InputError(Mistake("PM660", f"{name} is empty"))
    return node


def _limit_depth(composer: Any, place: Callable[[int], Place]) -> None:
    """Let ruamel stop at the first level that is too deep: its composer calls itself for each, and its scanner, which
    it makes with the first node, walks over all open brackets at each token."""
    compose, depth = composer.compose_node, 0

    def stop(levels: int, line: int) -> None:
        if levels > LIMITS.depth:
            raise InputError(Mistake("PM660", f"{place(line)}: nested over {LIMITS.depth} levels"))

    def composed(parent: Any, index: Any) -> Any:
        nonlocal depth
        if depth == 0:
            scanner = composer.parser.scanner
            opens = scanner.fetch_flow_collection_start

            def opened(*given: Any, **named: Any) -> None:
                stop(scanner.flow_level, scanner.reader.line)
                opens(*given, **named)

            scanner.fetch_flow_collection_start = opened
        stop(depth, composer.parser.peek_event().start_mark.line)
        depth += 1
        found = compose(parent, index)
        depth -= 1
        return found

    composer.compose_node = composed


def _place(line: int, name: str, places: list[Place] | None) -> Place:
    """Return where a line (0 the first) of an expanded text comes from."""
    return Place(name, line + 1) if places is None else places[min(line, len(places) - 1)]


class _Reader(NamedTuple):
    """name: of the file; places: of the lines of an expanded template; budget: as many values as may still be read."""

    name: str
    places: list[Place] | None
    sources: Sources
    budget: Iterator[int]
    repeated: Callable[[Place, str], None] | None = None


def _read(node: Any, reader: _Reader, depth: int) -> Value:
    place = _place(node.start_mark.line, reader.name, reader.places)
    if depth > LIMITS.depth or next(reader.budget, None) is None:
        raise InputError(
            Mistake("PM660", f"{place}: nested over {LIMITS.depth} levels, or over {TUNING.most_values:,} values")
        )
    tag = str(node.tag or "")
    tag = tag if tag.startswith("!") and len(tag) > 1 else ""
    if node.id == "sequence":
        return Value([_read(each, reader, depth + 1) for each in node.value], place, tag)
    if node.id == "scalar":
        if tag == "!include_loaded" and node.value in reader.sources.loaded:
            loaded = reader.sources.loaded[node.value]
            return Value(loaded, place) if isinstance(loaded, list) else loaded
        return Value(_scalar(node), place, tag)
    found: dict[str, Value] = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise InputError(Mistake("PM660", f"{place}: a key that is no text"))
        read = _read(value, reader, depth + 1)
        if key.value in found:
            twice = f"the key {shown(key.value)} is given twice"
            if reader.repeated is None:
                raise InputError(Mistake("PM660", f"{read.place}: {twice}"))
            reader.repeated(read.place, twice)
        found[key.value] = read
    return Value(_merged(found), place, tag)


def _merged(found: dict[str, Value]) -> dict[str, Value]:
    """Return a table with what stands under `<<` (its own fields win) or `<<<` (tables inside each other are joined,
    too, and lists are put after its own)."""
    for key in ("<<", "<<<"):
        if key in found:
            read = found.pop(key)
            merged: dict[str, Value] = {}
            for each in read.items(key) if read.is_list else [read]:
                merged = _join(merged, each.table(key), deeply=key == "<<<")
            found = _join(found, merged, deeply=key == "<<<")
    return found


def _join(table: dict[str, Value], other: dict[str, Value], *, deeply: bool) -> dict[str, Value]:
    joined = dict(table)
    for name, value in other.items():
        own = joined.get(name)
        if own is None:
            joined[name] = value
        elif deeply and own.tag != "!nomerge" and own.is_table and value.is_table:
            joined[name] = Value(_join(own.plain, value.plain, deeply=True), own.place, own.tag)
        elif deeply and own.tag != "!nomerge" and own.is_list and value.is_list:
            joined[name] = Value([*own.plain, *value.plain], own.place, own.tag)
    return joined


def _scalar(node: Any) -> Any:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= 101 else text
    return float(text) if _FLOAT.fullmatch(text) and len(text) <= 100 else text
