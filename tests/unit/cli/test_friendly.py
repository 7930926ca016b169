"""What makes the command line friendly: layers by name, completion, lists, colours, files that cannot be written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TextIO, cast

import pytest

import polymap as pm
from polymap.cli.arguments import SHELLS, commands
from polymap.cli.command_line import main
from polymap.cli.completion import completion_text
from polymap.cli.output import Document, painted_answer, painted_remark, write_documents
from polymap.ir.errors import OutputError

Captured = pytest.CaptureFixture[str]
SMALL = ("matmul", "m=4", "n=6", "k=2")
LAYER = ("conv2d", "K=4", "C=3", "H=6", "W=6", "R=3", "S=3", "padding=0")


def answer_of(capsys: Captured, *words: str, code: int = 0) -> dict[str, object]:
    assert main((*words, "--json", "-")) == code
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def test_layers_are_named_on_the_command_line_and_in_files(capsys: Captured, tmp_path: Path) -> None:
    told = answer_of(capsys, "explore", *LAYER, "--arch", "flat3", "--tiles", "divide")
    expected = pm.io.workload_to_document(pm.conv2d(K=4, C=3, H=6, W=6, R=3, S=3))
    assert told["workload"] == expected
    sizes = {"K": 4, "C": 3, "H": 6, "W": 6, "R": 3, "S": 3, "padding": 0}
    (tmp_path / "layer.json").write_text(json.dumps({"conv2d": sizes}))
    read = answer_of(capsys, "explore", str(tmp_path / "layer.json"), "--arch", "flat3", "--tiles", "divide")
    assert {**read, "seconds": 0} == {**told, "seconds": 0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("conv2d", "K=4"), "PM2.*C"),
        (("conv2d", "K=4", "Q=4"), r"PM123 conv2d\(\) has no argument 'Q'"),
        (("matmul", "m=4", "n=4"), r"PM123 matmul\(\) lacks the argument 'k'"),
        (("matmul", "m=4", "n=4", "k=4", "l=4"), r"PM123 matmul\(\) has no argument 'l'"),
        (("matmul", "m=0", "n=4", "k=4"), "PM"),
        (("matmul", "m=4", "n=4", "k=4", "m=5"), "PM559"),
        (("matmuls", "m=4"), "PM230 there is no built-in workload 'matmuls'\n +Did you mean 'matmul'"),
        (("conv4d", "K=4"), "PM230 there is no built-in workload 'conv4d'\n +Did you mean 'conv[123]d'"),
        (("matmul", "M=4", "n=4", "k=4"), r"PM123 matmul\(\) has no argument 'M'\n +Did you mean 'm'"),
        (("matmul m=4 n=4", "n=4", "k=4"), "PM206 the size of 'n' is given twice"),
        (
            ("matmul m=4 n=4 k=4", "--tile", "any"),
            "PM552 explore has no option '--tile'\n +It .* transform. Did you mean '--tiles'",
        ),
    ],
)
def test_wrong_arguments_of_layers_are_told(words: tuple[str, ...], message: str, capsys: Captured) -> None:
    assert main(("explore", *words, "--arch", "flat3")) == 2
    error = capsys.readouterr().err
    assert "PM" in error
    assert re.search(message, error, re.DOTALL)


def test_a_folder_in_place_of_a_file_is_told(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "designs").mkdir()
    assert main(("explore", "designs", "--arch", "designs")) == 2
    assert capsys.readouterr().err.count("It is a folder: name a file in it.") == 2
    (tmp_path / "layer").write_text("{}")
    assert main(("explore", "layer", "--arch", "flat3")) == 2
    assert "The name of a file ends in .json, .c, .scop, .mlir or .onnx." in capsys.readouterr().err


def test_a_mapping_of_another_question_is_refused_by_name(capsys: Captured, tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    assert main(("explore", *SMALL, "--arch", "flat3", "--tiles", "divide", "--json", path)) == 0
    assert main(("evaluate", *SMALL, "--arch", "flat3", "--mapping", path)) == 0
    capsys.readouterr()
    assert main(("evaluate", "matmul", "m=4", "n=6", "k=4", "--arch", "flat3", "--mapping", path)) == 2
    error = capsys.readouterr().err
    assert "PM455 the mapping in 'run.json' was made for another question: workload.sizes.k is 2 there, and 4" in error
    assert "save its `mapping` as a file of its own" in error
    assert main(("evaluate", *SMALL, "--arch", "eyeriss_like", "--mapping", path)) == 2
    assert "another question: arch." in capsys.readouterr().err
    assert main(("codegen", *SMALL, "--arch", "simple3", "--mapping", path)) == 2
    assert "another question: arch." in capsys.readouterr().err
    (tmp_path / "own.json").write_text(json.dumps(json.loads(Path(path).read_text())["mapping"]))
    assert main(("evaluate", *SMALL, "--arch", "flat3", "--mapping", str(tmp_path / "own.json"))) == 0


def test_a_label_is_no_other_question(capsys: Captured, tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    assert main(("explore", *SMALL, "--arch", "flat3", "--tiles", "divide", "--json", path)) == 0
    einsum = ("C[m,n] += A[m,k] * B[k,n]", "m=4", "n=6", "k=2")
    assert main(("evaluate", *einsum, "--arch", "flat3", "--mapping", path)) == 0


def test_a_layer_may_be_one_text_and_json_may_lack_its_value(capsys: Captured) -> None:
    assert main(("explore", "matmul m=4 n=6 k=2", "--json", "--arch", "flat3", "--tiles", "divide")) == 0
    told = json.loads(capsys.readouterr().out)
    assert {**told, "seconds": 0} == {
        **answer_of(capsys, "explore", *SMALL, "--arch", "flat3", "--tiles", "divide"),
        "seconds": 0,
    }
    assert pm.load_workload(" ".join(SMALL)) == pm.matmul(m=4, n=6, k=2)
    assert main(("list", "conv2_x", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["machines"] == []


def test_lists_match_patterns(capsys: Captured) -> None:
    told = answer_of(capsys, "list", "conv2_*")
    names = [each["name"] for each in told["workloads"]]  # type: ignore[attr-defined, index]
    assert "resnet50.conv2_x" in names
    assert all("conv2_" in name for name in names)
    assert (told["schema"], told["machines"]) == ("polymap.list/1", [])
    assert main(("list", "EYERISS")) == 0
    printed = capsys.readouterr().out
    assert "eyeriss_like" in printed
    assert "resnet50" not in printed
    assert main(("list", "nothing like it")) == 0
    assert "no built-in workload or machine" in capsys.readouterr().out
    for kind, other in (("machines", "workloads"), ("workloads", "machines")):
        told = answer_of(capsys, "list", kind)
        assert told[other] == []
        assert told[kind]
    everything = answer_of(capsys, "list")
    assert len(everything["workloads"]) == len(pm.io.builtin_names())  # type: ignore[arg-type]


def test_help_names_the_version_and_helps_with_commands(capsys: Captured) -> None:
    assert main(("help",)) == 0
    assert "polymap --version" in capsys.readouterr().out
    assert main(("help", "explore")) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: polymap explore WORKLOAD")
    assert main(("explore", "--help")) == 0
    assert capsys.readouterr().out == text
    assert main(("help", "explroe")) == 2
    assert "Did you mean 'explore'?" in capsys.readouterr().err


def test_native_programs_are_written_and_run(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "native.c"
    words = ("codegen", *SMALL, "--arch", "host_cpu", "--tiles", "divide", "--native", "-o", str(path), "--run")
    told = answer_of(capsys, *words)
    assert told["run"]["matches_reference"] is True  # type: ignore[index]
    assert told["run"]["counts_match"] is None  # type: ignore[index]
    layer, arch = pm.matmul(m=4, n=6, k=2), pm.load_arch("host_cpu")
    best = pm.io.mapping_from_document(told)
    assert path.read_text() == pm.generate_c(layer, arch, best, "native")


# Output


def test_what_cannot_be_written_is_told_before_the_search(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polymap.cli import commands as cli_commands

    monkeypatch.setattr(cli_commands, "explore", None)  # a search would fail
    words = ("explore", *SMALL, "--arch", "flat3", "--json", str(tmp_path / "no" / "run.json"))
    assert main(words) == 4
    assert "PM701 cannot write" in capsys.readouterr().err


def test_the_answer_is_printed_where_the_file_fails_afterwards(capsys: Captured, tmp_path: Path) -> None:
    words = ("explore", *SMALL, "--arch", "flat3", "--tiles", "divide", "--json", "/dev/full")
    assert main(words) == 4
    told = capsys.readouterr()
    assert told.out.startswith("OPTIMAL")
    assert "PM701 cannot write '/dev/full'" in told.err
    folder = tmp_path / "gone"
    with pytest.raises(OutputError, match="PM701"):
        write_documents([Document(str(folder / "x.json"), "{}"), Document("-", "the answer")])
    assert capsys.readouterr().out == "the answer\n"


class Terminal:
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_and_not_under_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = cast(TextIO, Terminal())
    assert painted_answer("OPTIMAL: 3 pJ", screen) == "\x1b[1;32mOPTIMAL\x1b[0m: 3 pJ"
    assert painted_answer("INFEASIBLE: x", screen).startswith("\x1b[1;31mINFEASIBLE\x1b[0m")
    assert painted_answer("{}", screen) == "{}"
    assert painted_remark("polymap: warning: dear", screen) == "polymap: \x1b[1;33mwarning\x1b[0m: dear"
    assert painted_remark("polymap: PM101 gone", screen) == "polymap: \x1b[1;31mPM101\x1b[0m gone"
    with open(os.devnull, encoding="utf-8") as pipe:
        assert painted_answer("OPTIMAL: 3 pJ", pipe) == "OPTIMAL: 3 pJ"
    assert painted_answer("OPTIMAL: 3 pJ", None) == "OPTIMAL: 3 pJ"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted_answer("OPTIMAL: 3 pJ", screen) == "OPTIMAL: 3 pJ"
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert painted_answer("OPTIMAL: 3 pJ", screen) == "OPTIMAL: 3 pJ"


@pytest.mark.parametrize("name", ["layer.yaml", "layer.yml"])
def test_yaml_is_refused_with_the_word(name: str, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("problem: {}\n")
    for words in (
        ("explore", str(path), "--arch", "flat3"),
        ("explore", *SMALL, "--arch", str(path)),
        ("explore", *SMALL, "--arch", "flat3", "--constraints", str(path)),
        ("evaluate", *SMALL, "--arch", "flat3", "--mapping", str(path)),
    ):
        assert main(words) == 2
        assert "is a YAML file, and YAML is not read" in capsys.readouterr().err
    with pytest.raises(pm.errors.InputError, match="YAML"):
        pm.load_result(path)


# Completion


def completed(*words: str) -> set[str]:
    """Return what bash offers for the last of the words."""
    script = completion_text("bash") + (
        f"COMP_WORDS=(polymap {' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words)}\n_polymap\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-u", "-c", script], capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_names() -> None:
    assert completed("ex") == {"explore"}
    assert set(commands()) <= completed("")
    assert "--version" in completed("--v")
    assert "--time-limit" in completed("explore", "--ti")
    assert completed("explore", "resnet50.conv2_x", "--arch", "eyer") == {"eyeriss_like"}
    assert completed("explore", "--tiles", "") >= {"any", "divide"}
    assert "resnet50.conv2_x" in completed("explore", "resnet50.conv2")
    assert completed("explore", "resnet50.fc", "resnet50.f") == set()  # one workload
    assert completed("report", "alexn") >= {"alexnet", "alexnet.fc6"}
    assert "--arch" not in completed("explore", "")
    assert "--arch" in completed("explore", "resnet50.fc", "")
    assert "weight-stationary" in completed("compare", "resnet50.fc", "weight")
    assert "weight-stationary" not in completed("compare", "weight")
    assert completed("schema", "mach") == {"machine"}
    assert "explore" in completed("help", "exp")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_scripts_are_printed_and_read_by_their_shell(shell: str, capsys: Captured) -> None:
    assert main(("completion", shell)) == 0
    text = capsys.readouterr().out
    for name, options in commands().items():
        assert name in text
        assert all(option.removeprefix("--") in text for option in options)
    if shutil.which(shell) is not None:
        check = [shell, "--no-execute"] if shell == "fish" else [shell, "-n"]
        assert subprocess.run(check, input=text, text=True, capture_output=True, check=False).stderr == ""
