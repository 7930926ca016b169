"""What C to C tells of itself: laws over several kernels, not texts."""

from __future__ import annotations

import json
import pickle
import re
from html import unescape
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.report import transform_page, transform_text
from polymap.report.transform_html import original_marks, result_marks

PRODUCT = """\
void product(int n, double A[n][n], double B[n][n], double C[n][n]) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        C[i][j] += A[i][k] * B[k][j];
}
"""
STREAM = """\
void stream(int n, double A[n], double B[n]) {
  for (int i = 0; i < n; i++)
    A[i] = B[i] + 1.0;
}
"""
TWO = """\
void two(int n, double A[n][n], double B[n][n], double C[n][n]) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      A[j][i] = B[j][i] + 1.0;
  for (int k = 0; k < n; k++)
    C[k][0] = 2.0 * A[k][0];
}
"""
RUNNING = "void run(int n, double A[n]) {\n  for (int i = 1; i < n; i++)\n    A[i] = A[i] + A[i - 1];\n}\n"
KERNELS = {"product": PRODUCT, "stream": STREAM, "two": TWO, "running": RUNNING}


def without_remarks(text: str) -> str:
    return "".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split())


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("order", ["auto", "isl", "original"])
def test_the_summary_says_left_exactly_where_the_text_is(name: str, order: str) -> None:
    made = pm.transform_c(KERNELS[name], order=order, file=f"{name}.c")
    is_left = without_remarks(made) == without_remarks(KERNELS[name])
    assert is_left == ("left as it is, because" in repr(made)), "the summary and the texts disagree"
    assert is_left == (made.report.order == ""), "the report and the texts disagree"
    assert len(repr(made).splitlines()) <= 15, "a summary has at most 15 lines"


@pytest.mark.parametrize("name", KERNELS)
def test_every_statement_is_named_with_its_line_and_loops(name: str) -> None:
    source = KERNELS[name]
    report = pm.transform_c(source, order="isl", tile=8).report
    for each in report.statements:
        assert "=" in source.split("\n")[each.line - 1], "the line is that of the assignment"
        assert f"{each.name} (line {each.line})" in transform_text(report), "a statement is missing in the summary"
        assert set(each.before) <= set(re.findall(r"[a-z]\w*", " ".join(each.after))), "a loop is lost"


def test_the_tiles_of_a_product_are_told() -> None:
    report = pm.transform_c(PRODUCT).report
    assert report.statements[0].before == ("i", "j", "k"), "as in the text"
    tiles = ("floor(i/96)", "floor(j/96)", "floor(k/128)")
    assert report.statements[0].after == (*tiles, "k", "i", "j"), "a tile's sums stay in vector registers"
    assert "not measured" in report.ground, "an estimate is told as one"


def test_tiles_and_parallel_loops_are_told() -> None:
    report = pm.transform_c(PRODUCT, order="original", tile=8, parallel=True).report
    assert report.statements[0].after[:3] == ("floor(i/8)", "floor(j/8)", "floor(k/8)"), "tiles of 8"
    assert [(each.counts, "omp parallel" in each.pragma) for each in report.marked] == [("floor(i/8)", True)], (
        "the rows of tiles are independent, the only pragma"
    )


def test_dependences_are_those_that_a_reader_finds() -> None:
    found = pm.transform_c(RUNNING, order="original").report.dependences
    assert {(each.array, each.source, each.sink, each.kept) for each in found} == {("A", "S0", "S0", True)}, "one array"
    assert pm.transform_c(STREAM, order="original").report.dependences == (), "no element is touched twice"
    sums = pm.transform_c(PRODUCT, order="original", reorder_sums=True).report.dependences
    assert [each.kept for each in sums] == [False], "sums may change their order"


def test_nests_that_are_joined_or_parted_are_told() -> None:
    schedule = pm.transform.schedule_from_text(pm.from_c(TWO, {"n": 8}), "S0[i,j] -> [0, i, j]\nS1[k] -> [1, k, 0]")
    assert pm.transform_c(TWO, schedule=schedule).report.nests == (("S0",), ("S1",)), "as in the text"
    schedule = pm.transform.schedule_from_text(pm.from_c(TWO, {"n": 8}), "S0[i,j] -> [j, 0, i]\nS1[k] -> [k, 1, 0]")
    joined = pm.transform_c(TWO, schedule=schedule)
    assert joined.report.nests == (("S0", "S1"),), "one loop is around both"
    assert "in one nest now: S0, S1" in repr(joined), "the summary tells what was joined"


def test_the_answer_is_a_string_also_after_pickling() -> None:
    made = pm.transform_c(PRODUCT)
    assert isinstance(made, str), "a string as before"
    assert str(made) == made.report.result, "its text is the C text"
    again = pickle.loads(pickle.dumps(made))
    assert again == made, "the same text"
    assert again.report == made.report, "the report travels along"


@pytest.mark.parametrize("order", ["auto", "isl"])
def test_hostile_names_and_comments_are_escaped(order: str) -> None:
    hostile = "<script>alert(1)</script>&\"'"
    source = TWO.replace("{\n", "{ // </pre><img src=x onerror=alert(2)>\n", 1)
    made = pm.transform_c(source, order=order, file=hostile)
    for html in (transform_page(made.report), made._repr_html_()):
        for word in ("<script>alert", "<img", "http:", "https:"):
            assert word not in html, "text of the user is no HTML, and nothing is loaded"
    shown = unescape(re.sub(r"<[^>]*>", "", transform_page(made.report)))
    assert "</pre><img src=x onerror=alert(2)>" in shown, "the text is shown as it is"


@pytest.mark.parametrize("name", KERNELS)
def test_marks_name_each_statement_once_in_its_own_line(name: str) -> None:
    report = pm.transform_c(KERNELS[name], order="isl", tile=1).report
    old, new = original_marks(report), result_marks(report)
    for each in report.statements:
        assert old[each.line] == (each.nest, each.name), "the original's line"
        lines = report.result.split("\n")
        assert [lines[at - 1].strip() for at, mark in new.items() if mark[1] == each.name] == [each.text], (
            "the result's"
        )
    assert {mark[0] for mark in new.values()} <= {each.nest for each in report.statements}, "an unknown nest"


def test_the_command_tells_beside_the_file_and_keeps_stdout_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, page = tmp_path / "k.c", tmp_path / "out.c", tmp_path / "page.html"
    source.write_text(PRODUCT, encoding="utf-8")
    made = pm.transform_c(PRODUCT, file="k.c")
    assert main(["transform", str(source), "-o", str(out), "--report", str(page)]) == 0, "it is answered"
    assert capsys.readouterr().out.strip() == transform_text(made.report), "the summary is on stdout"
    assert out.read_text(encoding="utf-8") == made, "the file is C"
    assert page.read_text(encoding="utf-8") == transform_page(made.report), "the page is the report's"
    assert main(["transform", str(source)]) == 0, "it is answered"
    shown = capsys.readouterr()
    assert shown.out == made, "stdout is C"
    assert transform_text(made.report) in shown.err, "the summary is on stderr"
    assert main(["transform", str(source), "--json"]) == 0, "it is answered"
    found = json.loads(capsys.readouterr().out)
    assert found["text"] == made, "JSON alone holds the text"
    assert found["changed"] is True, "and says so"
    assert found["summary"] == transform_text(made.report).splitlines(), "JSON holds the summary"


def test_outputs_do_not_overwrite_one_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.c"
    source.write_text(PRODUCT, encoding="utf-8")
    assert main(["transform", str(source), "-o", "x.c", "--report", "x.c"]) == 2, "both would go to one file"
    assert "PM556 --report writes to 'x.c', as another output does" in capsys.readouterr().err, "the mistake is told"
