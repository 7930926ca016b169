"""The machines that polymap knows by name, and `load_arch`, which also takes a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from os.path import isdir
from pathlib import Path

from polymap.inputs.arguments import answers_in_words
from polymap.inputs.host import host_cpu
from polymap.inputs.machines import arch_from_document
from polymap.inputs.parsing import mistakes_in, parse_json, parse_toml
from polymap.inputs.reading import expected_text, is_table, read_text, refuse_yaml, shown
from polymap.ir import ArchError, Architecture, Mistake, did_you_mean

HOST = "host_cpu"


@lru_cache(maxsize=1)
def preset_names() -> tuple[str, ...]:
    """Return the names that `load_arch` knows, sorted; `host_cpu` is the machine that runs this program."""
    folder = files("polymap.inputs") / "presets"
    stored = [entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")]
    return tuple(sorted((*stored, HOST)))


@answers_in_words
def load_arch(name_or_path: str | Path | Mapping[str, object]) -> Architecture:
    """Return a preset by its name, or the machine of a .json or .toml file, or of a table as in such a file.

    Raises ArchError for an unknown name and for every mistake of a description, InputError for a file that cannot be
    read.
    """
    if isinstance(name_or_path, str) and name_or_path in preset_names():
        return _preset(name_or_path)
    if is_table(name_or_path):
        return arch_from_document(name_or_path)
    if not isinstance(name_or_path, str | Path):
        name_or_path = expected_text(name_or_path, "the name of the machine", ArchError)
    path = Path(name_or_path)
    parse = {".json": parse_json, ".toml": parse_toml}.get(path.suffix.lower())
    if parse is None:
        refuse_yaml(path, "machine")
        what = f"there is no machine {shown(str(name_or_path))}"
        hint = f"{did_you_mean(str(name_or_path)[:64], preset_names())} A file's name ends in .json or .toml."
        hint = f"It is a folder: name a file in it. {hint}" if isdir(path) else hint
        raise ArchError(Mistake("PM312", what, hint))
    where = shown(path.name)
    text = read_text(path)
    document = parse(text, where)
    with mistakes_in(where, text):
        return arch_from_document(document)


@lru_cache(maxsize=32)
def _preset(name: str) -> Architecture:
    if name == HOST:
        return host_cpu()
    text = (files("polymap.inputs") / "presets" / f"{name}.json").read_text(encoding="utf-8")
    return arch_from_document(parse_json(text, name), name)
