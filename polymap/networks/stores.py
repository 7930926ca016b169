"""Where a sweep keeps its questions and answers, so that nothing acknowledged is lost: sqlite, or lines of JSON.

Every entry has the hash of its question as its key. An answer is replaced only by one that says more.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, cast

from polymap.inputs import answers_in_words, as_fraction, is_table, shown
from polymap.ir import Mistake, OptionError, OutputError, PolymapError
from polymap.networks.tuning import TUNING
from polymap.version import __version__

Document = dict[str, Any]
LIMITS = ("time_limit_s", "work_limit")  # of a question's options: not part of its key, since an answer outlives them
_TABLE = """CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, question TEXT NOT NULL, state TEXT NOT NULL,
since REAL NOT NULL, answer TEXT)"""


class State(Enum):
    """How far a question is; `since` of its entry tells when it got there."""

    ASKED = "asked"
    RUNNING = "running"
    LIMIT = "limit reached"
    PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class Entry:
    """A question, its state since a time (s since 1970), and its answer where it has one. question: with its limits."""

    key: str
    question: Document
    state: State
    since: float
    answer: Document | None = None


class Store(Protocol):
    """What a sweep asks of a store. `put` returns when the entry would survive a crash."""

    def find(self, key: str) -> Entry | None:
        """Return the entry of a key; what other writers have put counts where they share a sqlite file."""
        ...

    def put(self, entry: Entry) -> None:
        """Keep an entry, unless what stands there says more."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, by key."""
        ...


def key_of(question: Document) -> str:
    """Return the hash of a question without its limits, and of polymap's version."""
    plain = {name: value for name, value in question.items() if name not in LIMITS}
    return hashlib.sha256(f"{__version__}\n{json.dumps(plain, sort_keys=True)}".encode()).hexdigest()


def entry_of(question: Document, answer: Document | None = None, state: State = State.RUNNING) -> Entry:
    """Return the entry of a question: in the state given without an answer, else proven (over all mappings) or limit
    reached."""
    if answer is not None:
        is_proven = answer["status"] in ("OPTIMAL", "INFEASIBLE") and not _space_of(answer)
        state = State.PROVEN if is_proven else State.LIMIT
    return Entry(key_of(question), question, state, time.time(), answer)


def known_answer(store: Store | None, question: Document) -> Document | None:
    """Return the answer that a store has, unless a longer time might tell more."""
    entry = None if store is None else store.find(key_of(question))
    if entry is None or entry.answer is None:
        return None
    if entry.state is State.LIMIT and float(entry.question["time_limit_s"]) < question["time_limit_s"]:
        return None
    return entry.answer


@contextmanager
def opened_store(path: str | Path | None) -> Generator[Store | None, None, None]:
    """Open a store: lines of JSON where the name ends in .jsonl, else a sqlite file; None where no path is given.

    Raises OutputError (PM703) where it cannot be opened, read or written, at any time while it is open.
    """
    if path is None:
        yield None
        return
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
        raise OptionError(Mistake("PM120", f"the store is {shown(path)}", "Expected the path of a file, or None."))
    kind = _JsonLines if str(path).endswith(".jsonl") else _Sqlite
    try:
        os.access(path, os.F_OK)  # ValueError where it is no name of a file
        store = kind(Path(path))
    except (sqlite3.Error, OSError, ValueError) as error:
        raise _refusal(path, error) from None
    try:
        yield store
    except PolymapError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise _refusal(path, error) from None
    finally:
        store.close()


@answers_in_words
def merge_stores(target: str | Path, parts: Iterable[str | Path]) -> int:
    """Put all entries of the parts into the target, the better answer where several have one; return how many entries
    the target then has. Raises OutputError (PM703) for a part that does not exist or is no store."""
    parts = [""] if isinstance(parts, str | bytes) else list(parts)
    wrong = [each for each in (target, *parts) if not isinstance(each, str | Path) or not str(each)]  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong:
        raise OptionError(Mistake("PM120", f"a store is {shown(wrong[0])}", "Expected the paths of files."))
    with opened_store(target) as store:
        assert store is not None, "a path was given"
        for part in parts:
            if not Path(part).is_file():
                raise OutputError(Mistake("PM703", f"the store {shown(str(part))} does not exist"))
            with opened_store(part) as other:
                assert other is not None, "a path was given"
                for entry in other.entries():
                    if entry.answer is not None:
                        store.put(entry)
        return sum(1 for _ in store.entries())


def states_of(path: str | Path) -> dict[State, tuple[float, ...]]:
    """Return, of each state, since when the questions of a store are in it (s since 1970), rising. Raises OutputError
    (PM703) for a file that is no store."""
    if not _is_file(path):
        raise OutputError(Mistake("PM703", f"the store {shown(str(path))} does not exist"))
    found: dict[State, list[float]] = {state: [] for state in State}
    with opened_store(path) as store:
        assert store is not None, "a path was given"
        for entry in store.entries():
            found[entry.state].append(entry.since)
    return {state: tuple(sorted(times)) for state, times in found.items()}


def _is_file(path: str | Path) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # no name of a file
        return False


def tighter(old: Entry | None, new: Entry) -> Entry:
    """Return the entry that stands after `new` came to `old`: what is proven stays, and of two answers that a limit
    ended the lower value and the higher bound are kept; where these meet, they prove each other. What is proven among
    some trees bounds no others."""
    if old is None or old.answer is None:
        return new
    if new.answer is None or old.state is State.PROVEN:
        return old
    if new.state is State.PROVEN:
        return new
    pair = sorted((old, new), key=lambda each: (_value(each, "value", float("inf")), not _space_of(each.answer)))
    first, second = pair
    assert first.answer is not None and second.answer is not None, "both were checked"
    told = () if any(_space_of(each.answer) for each in pair) else pair
    bounds = [each for each in told if each.answer and each.answer.get("bound") is not None]
    bound = max(bounds, key=lambda each: _value(each, "bound", 0)).answer if bounds else None
    answer = first.answer if bound is None else {**first.answer, "bound": bound["bound"]}
    value, least = _value(first, "value", 0), _value(replace(first, answer=answer), "bound", 0)
    if bound is not None and first.answer.get("value") is not None and value:
        answer["gap"] = float((value - least) / value)
    limit = max((old, new), key=lambda each: float(each.question.get("time_limit_s", 0)))
    if bound is not None and isinstance(answer["value"], int | str) and value == least:  # floats may be rounded
        return replace(limit, answer={**answer, "status": "OPTIMAL"}, state=State.PROVEN, since=new.since)
    return replace(limit, answer=answer, since=new.since)


def _space_of(answer: Document | None) -> str:
    """Return the trees among which an answer is proven; "" where that is all mappings, and where it is not."""
    if answer is None or answer["status"] != "OPTIMAL":
        return ""
    return answer.get("space", {}).get("name", "")


def _value(entry: Entry, name: str, missing: float) -> Any:
    found = None if entry.answer is None else entry.answer.get(name)
    return missing if found is None else as_fraction(int(found) if isinstance(found, str) else found)


class _Sqlite:
    """A sqlite file in WAL mode; every `put` is a transaction that is on the disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._may_write = not path.exists() or all(
            os.access(each, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
            for each in (path, path.absolute().parent)
        )
        where: str | Path = path
        if not self._may_write:  # a WAL file cannot be read without its index, which a read-only folder may lack
            mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
            where = f"{path.absolute().as_uri()}?{mode}"
        self._file = sqlite3.connect(where, isolation_level=None, timeout=TUNING.busy_s, uri=not self._may_write)
        if self._may_write:
            self._prepare()
        self._file.execute("SELECT key, question, state, since, answer FROM entries LIMIT 1").fetchone()

    def _prepare(self) -> None:
        """Make a new file a store. sqlite itself does not wait where two writers change the mode at once: this does."""
        end = time.monotonic() + TUNING.busy_s
        while True:
            try:
                self._file.execute("PRAGMA journal_mode=WAL")
                self._file.execute("PRAGMA synchronous=FULL")
                self._file.execute(_TABLE)
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(TUNING.retry_s)

    def find(self, key: str) -> Entry | None:
        found = self._file.execute("SELECT * FROM entries WHERE key = ?", (key,)).fetchone()
        return None if found is None else _entry_of_row(found)

    def put(self, entry: Entry) -> None:
        if not self._may_write:
            raise PermissionError("it is read-only")
        self._file.execute("BEGIN IMMEDIATE")
        try:
            kept = tighter(self.find(entry.key), entry)
            answer = None if kept.answer is None else json.dumps(kept.answer)
            row = (kept.key, json.dumps(kept.question, sort_keys=True), kept.state.value, kept.since, answer)
            self._file.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", row)
            self._file.execute("COMMIT")
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def entries(self) -> Iterator[Entry]:
        for row in self._file.execute("SELECT * FROM entries ORDER BY key"):
            yield _entry_of_row(row)

    def close(self) -> None:
        self._file.close()


def _entry_of_row(row: tuple[str, str, str, float, str | None]) -> Entry:
    key, question, state, since, answer = row
    return Entry(key, json.loads(question), State(state), since, None if answer is None else json.loads(answer))


class _JsonLines:
    """A file of one writer, an entry a line, the last that says most counts. A line that a crash cut is no entry."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Entry] = {}
        self._file: FileIO | None = None
        text = path.read_bytes() if path.exists() else b""
        self._is_cut = bool(text) and not text.endswith(b"\n")
        for line in text.splitlines():
            entry = _entry_of_line(line)
            if entry is not None:
                self._found[entry.key] = tighter(self._found.get(entry.key), entry)
        if text and not self._found and not text.startswith(b'{"answer"'):
            raise OSError("it holds no line that a sweep wrote")

    def find(self, key: str) -> Entry | None:
        return self._found.get(key)

    def put(self, entry: Entry) -> None:
        if self._file is None:
            self._file = FileIO(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), "w")
        document = {"key": entry.key, "question": entry.question, "state": entry.state.value, "since": entry.since}
        line = json.dumps({**dict(sorted(document.items())), "answer": entry.answer}).encode() + b"\n"
        self._write(b"\n" + line if self._is_cut else line)
        os.fsync(self._file.fileno())
        self._found[entry.key] = tighter(self._found.get(entry.key), entry)

    def _write(self, data: bytes) -> None:
        assert self._file is not None, "put() opens it"
        self._is_cut = True
        while data:
            data = data[self._file.write(data) :]
        self._is_cut = False

    def entries(self) -> Iterator[Entry]:
        yield from (self._found[key] for key in sorted(self._found))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _entry_of_line(line: bytes) -> Entry | None:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not is_table(found) or not {"key", "question", "state", "since", "answer"} <= set(found):
        return None
    table = cast("dict[str, Any]", found)
    if table["state"] not in [state.value for state in State]:
        return None
    return Entry(table["key"], table["question"], State(table["state"]), table["since"], table["answer"])


def _refusal(path: str | Path, error: Exception) -> OutputError:
    """Return what to tell of a store that cannot be used, and what to do."""
    text = str(error.strerror or error) if isinstance(error, OSError) else str(error)
    is_full = "full" in text or "No space" in text or "too large" in text or "disk I/O" in text
    is_readonly = "read-only" in text or "readonly" in text or "ermission denied" in text
    hint = "Expected a file in a folder that may be written, on a local disk (on shared disks: a .jsonl part for each)."
    if is_full:
        hint = "Its answers so far are whole. Make room, or name a store on another disk, and run again."
    elif is_readonly:
        hint = "What it holds is read; further answers need a file that may be written: copy it, or give another."
    elif "locked" in text:
        hint = f"Another process has written to it for {TUNING.busy_s} s. "
        hint += "Wait, or give this writer a .jsonl part of its own."
    elif "not a database" in text or "no such" in text or "no line" in text:
        hint = "It is a file of something else, or of another version of polymap. Name another file."
    return OutputError(Mistake("PM703", f"the store {shown(str(path))} cannot be used: {text}", hint))
