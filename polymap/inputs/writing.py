"""Writes files completely or not at all: a file beside the target is written and then renamed."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from polymap.inputs.reading import shown
from polymap.ir import Mistake, OutputError


def write_text(path: str | Path, text: str) -> None:
    """Write a text, which gets an end of line, to a file (or device); raises OutputError where that fails."""
    write_bytes(path, encoded(text))


def encoded(text: str) -> bytes:
    """Return a text as the bytes of a file: UTF-8, with an end of line."""
    return (text if text.endswith("\n") else text + "\n").encode("utf-8")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write bytes to a file (or device); raises OutputError where that fails."""
    name = str(path)
    if "\0" in name:
        raise OutputError(unwritten(name, "its name holds a null byte"))
    if is_special(Path(path)):
        write_device(name, content)
        return
    temporary, target = stage(name, content)
    put_in_place(name, temporary, target)


def stage(name: str, content: bytes) -> tuple[Path, Path]:
    """Return a finished file beside the target, and the target (the file that a symbolic link names)."""
    try:
        target = Path(os.path.realpath(name))
        handle, temporary = tempfile.mkstemp(prefix=".polymap-", dir=target.parent)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, _mode(target))
        except BaseException:  # also Ctrl-C leaves no half file behind
            os.unlink(temporary)
            raise
    except (OSError, UnicodeEncodeError) as error:
        raise _failure(name, error) from None
    return Path(temporary), target


def put_in_place(name: str, temporary: Path, target: Path) -> None:
    """Rename a finished file to its target; where that fails, remove it and raise OutputError."""
    try:
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _failure(name, error) from None


def is_special(path: Path) -> bool:
    """Return whether the path is a device or pipe, which is written to and not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_device(name: str, content: bytes) -> None:
    """Write bytes to a device or pipe."""
    try:
        with open(name, "wb") as file:
            file.write(content)
    except OSError as error:
        raise _failure(name, error) from None


def unwritten(name: str, reason: str) -> Mistake:
    """Return the mistake of a file that cannot be written."""
    return Mistake("PM701", f"cannot write {shown(name)}: {reason}", "Nothing was written.")


def _mode(target: Path) -> int:
    """Return the permissions that the file has, or that a new file gets."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _failure(name: str, error: OSError | UnicodeEncodeError) -> OutputError:
    return OutputError(unwritten(name, getattr(error, "strerror", None) or str(error)))
