"""Files are written whole or not at all; what cannot be written is said."""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path

import pytest

from polymap.cli.output import Document, check_writable, print_text, warnings_said, write_documents
from polymap.ir.errors import OutputError


def test_files_and_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_documents([Document(str(tmp_path / "a.json"), "{}"), Document("-", "seen")])
    assert (tmp_path / "a.json").read_text() == "{}\n"
    assert capsys.readouterr().out == "seen\n"
    assert os.listdir(tmp_path) == ["a.json"]


def test_none_is_written_when_one_cannot_be(tmp_path: Path) -> None:
    bad = str(tmp_path / "missing" / "b.c")
    with pytest.raises(OutputError, match="PM701 cannot write .*No such file or directory"):
        write_documents([Document(str(tmp_path / "a.json"), "{}"), Document(bad, "int x;")])
    assert os.listdir(tmp_path) == []


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")
    with pytest.raises(OutputError, match="PM701"):
        write_documents([Document(str(target), "new"), Document(str(tmp_path / "no" / "b"), "")])
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_link_is_followed_and_permissions_stay(tmp_path: Path) -> None:
    target = tmp_path / "real.json"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(target)
    write_documents([Document(str(link), "new")])
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_is_readable_as_the_umask_says(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_documents([Document(str(tmp_path / "a"), "x")])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_documents([Document(os.devnull, "gone")])
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_full_device_is_an_error() -> None:
    with pytest.raises(OutputError, match="PM701 cannot write '/dev/full': No space left on device"):
        write_documents([Document("/dev/full", "text")])


def test_what_cannot_be_written_is_known_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="(?s)PM701.*it names a folder.*PM701.*its folder does not exist"):
        check_writable([str(tmp_path), str(tmp_path / "no" / "x"), "-", str(tmp_path / "good")])
    for name, reason in (
        ("x/", "names a folder"),
        ("a\0b", "null byte"),
        ("\ud800", "surrogates"),
        ("x" * 300, "too long"),
    ):
        with pytest.raises(OutputError, match=f"PM701.*{reason}"):
            check_writable([str(tmp_path / name) + ("/" if name == "x/" else "")])
    assert os.listdir(tmp_path) == []
    check_writable([os.devnull])


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="this system has no /proc")
def test_folders_that_take_no_files_are_known_before_the_work() -> None:
    with pytest.raises(OutputError, match="PM701 cannot write '/proc/x'"):
        check_writable(["/proc/x"])


def test_closed_stdout_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(OutputError, match="PM702 stdout is closed"):
        print_text("text")


def test_warnings_are_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_said():
        for _ in range(2):
            warnings.warn("a process of the search was killed", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == "polymap: warning: a process of the search was killed\n"
