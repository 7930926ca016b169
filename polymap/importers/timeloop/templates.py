"""Jinja templates of Timeloop's front end, expanded in a sandbox, with the file and line that each line comes from.

Read: texts, `set`, `if`, comparisons, `~`, the filter `default`, and the front end's functions of files. There are no
loops, macros or attributes, so that the work is bounded by the length of the files.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from polymap.importers.nodes import extra
from polymap.importers.timeloop.findings import Place
from polymap.importers.tuning import TUNING
from polymap.inputs import LIMITS, read_text, shown
from polymap.ir import InputError, Mistake

_OPENINGS = ("{{", "{%", "{#")
# Of the private characters of Unicode: they mark where a line comes from, and no file has them.
_BEGIN, _END = "\ue0f0", "\ue0f1"
_MARK = re.compile(f"{_BEGIN}([0-9]+):([0-9]+){_END}")
_KNOWN = (
    "Template", "Output", "TemplateData", "Name", "Const", "Call", "Filter", "Test", "If", "Assign", "Concat",
    "Compare", "Operand", "Not", "And", "Or", "Add", "Sub", "Neg", "CondExpr", "List", "Keyword",
)  # fmt: skip
_FILTERS = ("default", "d", "int", "float", "string", "lower", "upper")


Load = Callable[[Path, str, list[Path]], Any]


class NoTemplate(Exception):
    """Raised by a function of a template: what is wrong, and what would work."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


class Sources:
    """Where files may be included from, and what has been. folders: given by the caller; values: of the names in
    templates; load: reads a file and returns what stands under a dotted name, given folders that are searched, too."""

    def __init__(self, folders: Iterable[Path], values: dict[str, Any], load: Load) -> None:
        self.folders = tuple(folders)
        self.roots = [folder.resolve() for folder in self.folders]
        self.values = values
        self.loaded: dict[str, Any] = {}
        self.names: list[str] = []
        self.left = TUNING.most_template_characters
        self.depth = 0
        self._files = 0
        self._load = load

    def name(self, name: str) -> int:
        """Return the number of a file's name."""
        self.names.append(name)
        return len(self.names) - 1

    def find(self, pattern: object, around: tuple[Path, ...], *, must: bool = True) -> list[Path]:
        """Return the files of a name or pattern below the first folder that has it. Raises NoTemplate where there is
        none, or where it is not below the folders that are given."""
        if not isinstance(pattern, str) or not pattern or "**" in pattern or "\0" in pattern:
            raise NoTemplate(f"{pattern!r} is no name of a file")
        for folder in (*around, *self.folders):
            parent, last = (folder / pattern).parent, Path(pattern).name
            found = sorted(parent.glob(last))[: TUNING.most_included] if re.search(r"[*?\[]", last) else [parent / last]
            found = [path.resolve() for path in found if path.exists()]
            for path in found:
                if not any(path.is_relative_to(root) for root in self.roots):
                    hint = f"Give the folder that holds it: folders=[{str(path.parent)!r}]."
                    raise NoTemplate(f"{shown(pattern)} is not below the folder of the file", hint)
            if found:
                return found
        if must:
            raise NoTemplate(f"there is no file {shown(pattern)}", "Give the folder that holds it: folders=[...].")
        return []

    def include(self, paths: list[Path], inside: str, added: list[Path], *, single: bool) -> str:
        """Load files and return the tag that stands for what they say under the dotted name `inside`. added: folders
        that templates have added to the search."""
        if single and len(paths) > 1:
            raise NoTemplate(f"include() names {len(paths)} files", "include_all() takes several.")
        self.enter(len(paths))
        found = [self._load(path, inside.strip("."), added) for path in paths]
        self.depth -= 1
        name = f"file{len(self.loaded)}"
        self.loaded[name] = found[0] if single else found
        return f"!include_loaded {name}"

    def enter(self, files: int) -> None:
        """Note that a file includes so many others."""
        self.depth += 1
        self._files += files
        if self.depth > TUNING.most_template_depth or self._files > TUNING.most_included:
            raise NoTemplate("files include each other too deeply, or too many", "Does a file include itself?")


def is_template(text: str) -> bool:
    """Whether a text has anything that Jinja would expand."""
    return any(each in text for each in _OPENINGS)


def expand(text: str, path: Path | None, sources: Sources, caller: str, added: list[Path]) -> tuple[str, list[Place]]:
    """Return the expanded text, and where each of its lines comes from. added: folders that are searched as well.

    Raises InputError (PM660) with file and line for what is no template, or none that is read.
    """
    name = "the text" if path is None else shown(path.name)
    marked = _render(text, path, sources, name, caller, list(added))
    lines: list[str] = []
    places: list[Place] = []
    last = Place(name, 1)
    for line in marked.split("\n"):
        for number, at in _MARK.findall(line):  # the last one: of a text that is included there
            last = Place(sources.names[int(number)], int(at))
        lines.append(_MARK.sub("", line))
        places.append(last)
    return "\n".join(lines), places


def _render(text: str, path: Path | None, sources: Sources, name: str, caller: str, added: list[Path]) -> str:
    """Return the expanded text with a mark in front of what each line of the file gave. added: folders that templates
    have added to the search, for included texts as well."""
    jinja = extra("jinja2", caller)
    sandbox = extra("jinja2.sandbox", caller)
    if _BEGIN in text or _END in text:
        raise InputError(Mistake("PM660", f"{name} has characters that Unicode leaves to private use", "Remove them."))
    env = sandbox.ImmutableSandboxedEnvironment(undefined=jinja.StrictUndefined, keep_trailing_newline=True)
    env.globals = _functions(path, sources, caller, added)
    env.filters = {each: env.filters[each] for each in _FILTERS}
    try:
        _check(env.parse(text), env.globals, sources.values, name)
        marked = _marked(env, text, sources.name(name))
        return "".join(_within(env.from_string(marked).generate(sources.values), sources))
    except jinja.TemplateSyntaxError as error:
        _refuse(name, error.lineno, f"the template is not read: {error.message}")
    except (jinja.TemplateError, NoTemplate, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        what, hint = (error.what, error.hint) if isinstance(error, NoTemplate) else (str(error), "")
        if isinstance(error, jinja.UndefinedError):
            hint = "Say what it is: values={'NAME': ...}."
        _refuse(name, _line(error), what, hint)
    except RecursionError:
        _refuse(name, 1, "the template is nested too deeply")


def _refuse(name: str, line: int, what: str, hint: str = "") -> NoReturn:
    raise InputError(Mistake("PM660", f"{Place(name, line)}: {what}", hint)) from None


def _line(error: BaseException) -> int:
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == "<template>"]
    return next((line for line in reversed(lines) if line), 1)


def _within(parts: Iterable[str], sources: Sources) -> Iterable[str]:
    for part in parts:
        sources.left -= len(part)
        if sources.left < 0:
            raise NoTemplate(f"the expanded text is longer than {TUNING.most_template_characters:,} characters")
        yield part


def _marked(env: Any, text: str, number: int) -> str:
    """Return a template whose lines begin, where they are plain text, with a mark of the file and line."""
    found: list[str] = [f"{_BEGIN}{number}:1{_END}"]
    for first, kind, value in env.lex(text):
        if kind != "data":
            found.append(value)
            continue
        lines = value.split("\n")
        found.append(lines[0])
        found += [f"\n{_BEGIN}{number}:{first + at}{_END}{line}" for at, line in enumerate(lines[1:], 1)]
    return "".join(found)


def _functions(path: Path | None, sources: Sources, caller: str, added: list[Path]) -> dict[str, Callable[..., Any]]:
    """The functions of the front end, as they act in one file."""
    own = () if path is None else (path.parent,)

    def find(pattern: object) -> list[Path]:
        return sources.find(pattern, (*own, *added))

    def include_text(pattern: object) -> str:
        paths = find(pattern)
        sources.enter(len(paths))
        texts = [_render(read_text(each), each, sources, shown(each.name), caller, list(added)) for each in paths]
        sources.depth -= 1
        return "\n".join(texts)

    def add_to_path(pattern: object) -> str:
        added.extend(each for each in find(pattern) if each.is_dir())
        return ""

    def include(pattern: object, inside: object = "") -> str:
        return sources.include(find(pattern), str(inside), added, single=True)

    def include_all(pattern: object, inside: object = "") -> str:
        return sources.include(find(pattern), str(inside), added, single=False)

    def find_path(pattern: object) -> str:
        return str(find(pattern)[0])

    def path_exists(pattern: object) -> bool:
        return bool(sources.find(pattern, (*own, *added), must=False))

    return {
        "cwd": lambda: str(path.resolve().parent) if path else "",
        "include": include,
        "include_all": include_all,
        "include_text": include_text,
        "find_path": find_path,
        "path_exists": path_exists,
        "add_to_path": add_to_path,
        "setenv": lambda *_: "",  # Timeloop's own environment, which no count depends on
    }


def _check(template: Any, functions: dict[str, Any], values: dict[str, Any], name: str) -> None:
    """Refuse what is not in the list above, and texts that grow beyond measure as they are put together."""
    nodes: list[Any] = [template]
    longest = {each: len(str(value)) for each, value in values.items()}
    while nodes:
        node = nodes.pop()
        kind = type(node).__name__
        if kind not in _KNOWN:
            _refuse(name, node.lineno, f"the template has a {kind}, which is not read", "Write its lines out.")
        if kind == "Call" and (type(node.node).__name__ != "Name" or node.node.name not in functions):
            hint = f"Known: {', '.join(functions)}."
            _refuse(name, node.lineno, "the template calls a function that is not known", hint)
        if kind == "Assign":
            if type(node.target).__name__ != "Name":
                _refuse(name, node.lineno, "a template sets several names at once", "Set one after the other.")
            length = _length(node.node, longest)
            longest[node.target.name] = max(longest.get(node.target.name, 0), length)
            if length > LIMITS.file_bytes:
                _refuse(name, node.lineno, f"a text of the template has over {LIMITS.file_bytes:,} characters")
        nodes += reversed(list(node.iter_child_nodes()))


def _length(node: Any, longest: dict[str, int]) -> int:
    """Return a bound on the characters of an expression."""
    kind = type(node).__name__
    if kind == "Const":
        return len(str(node.value))
    if kind == "Name":
        return longest.get(node.name, 0)
    if kind == "Call":
        is_text = getattr(node.node, "name", "") == "include_text"
        return TUNING.most_template_characters if is_text else TUNING.most_path_characters
    return sum(_length(child, longest) for child in node.iter_child_nodes()) + 32
