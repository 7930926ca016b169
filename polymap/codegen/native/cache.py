"""A cache of shared objects in the user's cache directory; concurrent processes and kill -9 do not corrupt it.

An entry is one file, named by the hash of its inputs (text, compiler, flags, processor): the object, then the object's
hash, which the loader does not read. It is written under another name and renamed, so that an entry is complete or
missing. An entry whose hash disagrees (a full disk, a damaged file system) is built again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from polymap.codegen.native.compiler import Compiler, compile_shared, host_compiler
from polymap.ir import CompilerError, Mistake

_FORM = "polymap object 1"
_HASH_BYTES = hashlib.sha256().digest_size
_BUILD_PREFIX = "build-"


def load_object(source: str, compiler: Compiler, threads: int) -> ctypes.CDLL:
    """Return the loaded object of a C text, from the cache or compiled now.

    Warns (RuntimeWarning) if the cache cannot be used. Raises CompilerError if the compiler fails.
    """
    kept = cache_directory()
    if isinstance(kept, Path):
        try:
            return _load(_entry(kept, source, compiler, threads))
        except OSError as error:  # a full disk, a directory that was removed or mounted without execution
            kept = f"{kept}: {error.strerror or error}"
    warnings.warn(f"compiled functions are not kept: {kept}", RuntimeWarning, stacklevel=3)
    with tempfile.TemporaryDirectory(prefix="polymap-") as place:  # what is loaded outlives its file
        try:
            return _load(_entry(Path(place), source, compiler, threads))
        except OSError as error:
            raise CompilerError(Mistake("PM635", f"the compiled function cannot be loaded: {error}")) from error


def build_shared(source: str, place: Path, threads: int, flags: Sequence[str] = ()) -> Path:
    """Return the shared object of a C text, compiled in a directory; raises CompilerError if that fails.

    flags: those of the text.
    """
    text, built = place / "function.c", place / "function.so"
    text.write_text(source, encoding="ascii")
    compile_shared(host_compiler(flags), text, built, threads)
    return built


def cache_directory() -> Path | str:
    """Return the directory of compiled functions, created if missing, or the reason why there is none.

    It is in XDG_CACHE_HOME (if that is an absolute path) or ~/.cache. It must belong to the user, and nobody else may
    be able to write it.
    """
    told = os.environ.get("XDG_CACHE_HOME", "")
    try:
        home = Path(told) if os.path.isabs(told) else Path.home() / ".cache"
        place = home / "polymap" / "native"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.stat()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home directory
        return str(error)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write {place}"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written"
    return place


def _entry(place: Path, source: str, compiler: Compiler, threads: int) -> Path:
    """Return the path of a complete entry, compiled if it is missing or damaged."""
    parts = (_FORM, source, compiler.identity(threads))
    key = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    path = place / f"{key}.so"
    if not _is_whole(path):
        _remove_stale(place)
        _build(place, path, source, compiler, threads)
    return path


def _is_whole(path: Path) -> bool:
    try:
        held = path.read_bytes()
    except OSError:
        return False
    body, told = held[:-_HASH_BYTES], held[-_HASH_BYTES:]
    return bool(body) and hashlib.sha256(body).digest() == told


def _build(place: Path, path: Path, source: str, compiler: Compiler, threads: int) -> None:
    """Compile in a private directory beside the entry, then rename: atomic, as both are on one file system."""
    with tempfile.TemporaryDirectory(prefix=_BUILD_PREFIX, dir=place) as inside:
        text, built = Path(inside) / "function.c", Path(inside) / "function.so"
        text.write_text(source, encoding="ascii")
        compile_shared(compiler, text, built, threads)
        body = built.read_bytes()
        with built.open("wb") as file:
            file.write(body + hashlib.sha256(body).digest())
            file.flush()
            os.fsync(file.fileno())
        built.chmod(0o700)
        os.replace(built, path)


def _remove_stale(place: Path) -> None:
    """Remove directories that killed processes left a day ago or earlier."""
    for left in place.glob(f"{_BUILD_PREFIX}*"):
        try:
            if time.time() - left.stat().st_mtime > 24 * 3600:
                for file in left.iterdir():
                    file.unlink()
                left.rmdir()
        except OSError:
            continue  # another process removes it too


def _load(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
