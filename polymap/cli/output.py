"""Output to stdout, and to files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from polymap.inputs import encoded, is_special, put_in_place, stage, unwritten, write_device
from polymap.ir import Mistake, OutputError
from polymap.report import to_stderr

STDOUT_FAILED = "PM702"


@dataclass(frozen=True, slots=True)
class Document:
    """A text and where it goes: a path, or "-" for stdout."""

    path: str
    text: str


@contextlib.contextmanager
def warnings_said() -> Generator[None, None, None]:
    """Let warnings of the library be lines of their own on stderr, each once."""
    said: set[str] = set()

    def show(message: Warning | str, *_where: object) -> None:
        if str(message) not in said:
            say(f"polymap: warning: {message}")
        said.add(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = show
        yield


def check_writable(paths: Sequence[str]) -> None:
    """Raise OutputError where a file could clearly not be written later, before any work is done for it."""
    mistakes: list[Mistake] = []
    for name in paths:
        reason = None if name == "-" else _obstacle(name)
        if reason is not None:
            mistakes.append(unwritten(name, reason))
    if mistakes:
        raise OutputError(mistakes)


def _obstacle(name: str) -> str | None:
    """Return why a file of this name could not be written, as far as can be seen in advance, else None."""
    path = Path(name)
    if "\0" in name:
        return "its name holds a null byte"
    try:
        os.fsencode(name)
        if path.is_dir() or name.endswith(("/", os.sep)):
            return "it names a folder"
        if not path.parent.is_dir():
            return "its folder does not exist"
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            return "permission denied"
        if not is_special(path):
            with tempfile.TemporaryFile(dir=Path(os.path.realpath(name)).parent):
                pass  # root may write everywhere, but /proc and full disks take no files
    except (OSError, UnicodeEncodeError) as error:  # a name that is too long, or none of a file
        return getattr(error, "strerror", None) or str(error)
    return None


def write_documents(documents: Sequence[Document]) -> None:
    """Write every document, or none of the files: each goes to a file beside its target, which is then renamed.

    Raises OutputError where one cannot be written; what goes to stdout is printed all the same.
    """
    staged: list[tuple[Document, Path, Path]] = []
    printed = False
    try:
        for document in documents:
            if document.path != "-" and not is_special(Path(document.path)):
                staged.append((document, *stage(document.path, encoded(document.text))))
        for document in documents:
            if document.path == "-":
                printed = True
                print_text(document.text)
            elif is_special(Path(document.path)):
                write_device(document.path, encoded(document.text))
        for document, temporary, target in staged:
            put_in_place(document.path, temporary, target)
    except OutputError:
        for document in () if printed else documents:
            if document.path == "-":
                print_text(document.text)
        raise
    finally:
        for _, temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_answer(
    path: str | None, document: object, text: Callable[[], str] | None, others: Sequence[Document] = ()
) -> None:
    """Write an answer and other documents: as JSON where `path` says so, and as text to stdout unless JSON goes there.
    document: what JSON tells, or what makes it; text: makes the text, None where another document takes its place."""
    documents = list(others)
    if path is not None:
        from polymap.search import json_text  # not loaded by those who only read the command line

        documents.append(Document(path, json_text(document() if callable(document) else document)))
    if path != "-" and text is not None:
        documents.append(Document("-", text()))
    write_documents(documents)


def print_text(text: str) -> None:
    """Print a text to stdout and flush it; raises OutputError, and lets BrokenPipeError through."""
    stream = sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison]  # it is None where the shell closed it (>&-)
        raise OutputError(Mistake(STDOUT_FAILED, "stdout is closed"))
    try:
        text = painted_answer(text, stream)
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(Mistake(STDOUT_FAILED, f"cannot write to stdout: {error.strerror}")) from None


def say(text: str) -> None:
    """Print a remark to stderr, if the process has one; on a terminal `polymap:` and what follows it in colour."""
    to_stderr(painted_remark(text, sys.stderr) + "\n")


_CODES = {"green": "32", "yellow": "33", "red": "31"}
_STATUS = re.compile(r"(OPTIMAL|BOUND|FEASIBLE|NOT PROVEN|TIMEOUT|INFEASIBLE|REFUSED)(?=[ :])")
_COLOUR_OF = {"OPTIMAL": "green", "BOUND": "green", "FEASIBLE": "yellow", "NOT PROVEN": "yellow"}
_REMARK = re.compile(r"polymap: (?:(warning):|(PM[0-9]{3}))")


def is_coloured(stream: TextIO | None) -> bool:
    """Return whether texts for the stream may have colours."""
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def painted_answer(text: str, stream: TextIO | None) -> str:
    """Return an answer with its status, the first word, in colour."""
    found = _STATUS.match(text)
    if found is None or not is_coloured(stream):
        return text
    return _paint(found.group(), _COLOUR_OF.get(found.group(), "red")) + text[found.end() :]


def painted_remark(text: str, stream: TextIO | None) -> str:
    """Return a remark with the word `warning`, or the code of its mistake, in colour."""
    found = _REMARK.match(text)
    if found is None or not is_coloured(stream):
        return text
    start, end = found.span(found.lastindex or 0)
    return text[:start] + _paint(text[start:end], "yellow" if found.group(1) else "red") + text[end:]


def _paint(text: str, colour: str) -> str:
    return f"\x1b[1;{_CODES[colour]}m{text}\x1b[0m"
