"""The command line's words: read, refused with every mistake at once, or helped."""

from __future__ import annotations

import pytest

from polymap.cli.arguments import Options, parse, wanted_help
from polymap.ir.errors import OptionError


def test_defaults_of_explore() -> None:
    assert parse(("explore", "gemm", "--arch", "flat3")) == Options("explore", "gemm", (), "flat3")


def test_words_may_stand_in_any_order() -> None:
    words = ("explore", "--arch=flat3", "C[m] += A[m]", "--json", "-", "m=3", "--tiles", "divide", "--seed", "7")
    expected = Options("explore", "C[m] += A[m]", (("m", 3),), "flat3", tiles="divide", seed=7, json="-", searches=True)
    assert parse(words) == expected


def test_sizes_of_a_c_file() -> None:
    options = parse(("check", "kernel.c", "--size", "N=8", "--size", "M=9"))
    assert options.sizes == (("N", 8), ("M", 9))


def test_short_output_option() -> None:
    options = parse(("codegen", "gemm", "--arch", "flat3", "-o", "gemm.c", "--run"))
    assert (options.output, options.run) == ("gemm.c", True)


def problems_of(*words: str) -> list[str]:
    with pytest.raises(OptionError, match="PM55") as caught:
        parse(words)
    return [str(problem) for problem in caught.value.mistakes]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explroe", "gemm"), r"PM551 unknown command 'explroe'\n      Did you mean 'explore'?"),
        (("--jsno",), "PM551 unknown option '--jsno'"),
        (("--verison",), "PM551 unknown option '--verison'\n      Did you mean '--version'?"),
        (
            ("explore", "g", "--arch", "a", "--simulate"),
            "PM552 explore has no option '--simulate'\n      It belongs to: evaluate.",
        ),
        (("explore", "g", "--arch", "a", "--objctive", "edp"), "PM552 explore has no option '--objctive'"),
        (
            ("check", "g", "-DN=4"),
            "PM552 check has no option '-DN'\n      The size of a parameter is --size NAME=INT, a macro",
        ),
        (
            ("transform", "g", "-DN=4"),
            "PM552 transform has no option '-DN'\n      The size of a parameter is --size NAME",
        ),
        (("explore", "conv2d", "K=-4", "--arch", "a"), "PM558 the size of K is '-4'\n      Expected an integer >= 1"),
        (("check", "g", "--arch", "a"), "PM552 check has no option '--arch'\n      It belongs to: explore, evaluate"),
        (("explore", "g", "--arch"), "PM553 --arch lacks its value, ARCH\n      `polymap list` shows"),
        (
            ("sweep", "g", "--rows=3"),
            "PM553 argument --rows: ignored explicit argument '3'\n      --rows takes no value",
        ),
        (("explore", "--arch", "a"), "PM553 explore needs a WORKLOAD"),
        (("transform", "", "-o", "a.c"), "PM553 transform needs a "),
        (("sweep", "", "--store", "s.db"), "PM553 sweep needs a "),
        (("explore", "g"), "PM553 explore needs --arch ARCH"),
        (("evaluate", "g", "--arch", "a"), "PM553 evaluate needs --mapping FILE"),
        (("list", "conv", "fc"), "PM554 list takes one PATTERN, found 'fc' too"),
        (("schema",), "PM553 schema needs a NAME\n      Known: machine, workload"),
        (("schema", "results"), "PM554 schema knows no 'results'\n      Did you mean 'result'?"),
        (("completion", "csh"), "PM554 completion knows no 'csh'"),
        (("explore", "conv2d", "padding=-1", "--arch", "a"), "PM558 the size of padding is '-1'"),
        (
            ("explore", "g", "--arch", "a", "--tiles", "divides"),
            "PM554 --tiles is 'divides'\n      Did you mean 'divide'",
        ),
        (("explore", "g", "--arch", "a", "--time-limit", "nan"), "PM554 --time-limit is 'nan'"),
        (("explore", "g", "--arch", "a", "--time-limit", "-3"), "PM554 --time-limit is '-3'"),
        (("explore", "g", "--arch", "a", "--time-limit", "1_0"), "PM554 --time-limit is '1_0'"),
        (
            ("explore", "g", "--arch", "a", "--workers", "0"),
            "PM554 --workers is '0'\n      Expected an integer from 1 to 256",
        ),
        (("explore", "g", "--arch", "a", "--seed", "1.5"), "PM554 --seed is '1.5'"),
        (("explore", "g", "--arch", "a", "--seed", "١"), "PM554 --seed is '١'"),
        (("explore", "g", "--arch", ""), "PM554 --arch is ''\n      Expected ARCH."),
        (("explore", "g", "--arch", "a", "--arch", "b"), "PM555 --arch is given 2 times"),
        (("codegen", "g", "--arch", "a", "--mapping", "m.json", "--seed", "1"), "PM556 --seed and --mapping exclude"),
        (("codegen", "g", "--arch", "a", "-o", "x", "--json", "x"), "PM556 -o and --json both write to 'x'"),
        (("explore", "g", "m", "--arch", "a"), "PM557 'm' is no size\n      Sizes are written like m=512."),
        (("explore", "g", "m=", "--arch", "a"), "PM557 'm=' is no size"),
        (
            ("explore", "g", "flat3", "--arch", "a"),
            "PM557 'flat3' is no size\n      Sizes are written like m=512. A machine is given as --arch flat3.",
        ),
        (("explore", "g", "m=3.5", "--arch", "a"), "PM558 the size of m is '3.5'\n      Expected an integer >= 1"),
        (("explore", "g", "m=0", "--arch", "a"), "PM558 the size of m is '0'"),
        (("explore", "g", "m=-2", "--arch", "a"), "PM558 the size of m is '-2'"),
        (("explore", "g", "m=1", "--size", "m=1", "--arch", "a"), "PM559 the size of m is given twice"),
    ],
)
def test_a_mistake_is_named(words: tuple[str, ...], message: str) -> None:
    problems = problems_of(*words)
    assert len(problems) == 1
    assert problems[0].startswith(message.replace(r"\n", "\n"))


def test_all_mistakes_at_once() -> None:
    problems = problems_of("explore", "g", "m=x", "k=0", "--tiles", "no", "--workers", "many", "--seed", "-1")
    codes = [problem.split()[0] for problem in problems]
    assert sorted(codes) == ["PM553", "PM554", "PM554", "PM554", "PM558", "PM558"]


@pytest.mark.parametrize("name", ["explore", "evaluate", "codegen", "check", "list"])
def test_every_command_has_help(name: str) -> None:
    text = wanted_help((name, "--help"))
    assert text is not None
    assert text.startswith(f"usage: polymap {name}")
    assert max(len(line) for line in text.splitlines()) <= 120


def test_the_whole_command_has_help() -> None:
    assert wanted_help(()) == wanted_help(("--help",)) == wanted_help(("-h",))
    assert wanted_help(("explore", "gemm")) is None
