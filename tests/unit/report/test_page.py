"""The page of a report: one file, nothing from elsewhere, everything in it; and how a browser shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.networks import LayerAnswer
from polymap.report import html
from polymap.report.explanation import explain
from polymap.report.figures import Picture, cloud_figure, cloud_svg, picture_html
from polymap.report.figures.course import course_figure, course_svg
from polymap.report.report import network_page, report_page, sweep_page
from tests.times import few

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Tags(HTMLParser):
    """Checks that tags nest, and collects them with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@cache
def asked() -> tuple[pm.Workload, pm.Architecture, pm.SearchResult]:
    layer = pm.conv2d(K=8, C=8, H=8, W=8, R=3, S=3, padding=1, name="<first> & layer")
    arch = pm.load_arch(str(ROOT / "examples" / "my_machine.toml"))
    return layer, arch, pm.explore(layer, arch, tiles="divide")


@cache
def page() -> str:
    return report_page(*asked())


def test_the_page_is_one_small_file_that_loads_nothing() -> None:
    assert len(page().encode()) < 2_000_000
    tags = Tags(page()).seen
    for tag, attributes in tags:
        assert tag not in ("link", "img", "iframe", "object"), tag
        assert "src" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        target = attributes.get("href") or attributes.get("xlink:href") or "#"
        assert target.startswith("#"), target
    outside = re.findall(r"(?:https?:)?//[a-z][a-z0-9.-]+\.[a-z]+", page())
    assert set(outside) <= {"http://www.w3.org"}
    assert "default-src 'none'" in page()


def test_links_lead_to_sections() -> None:
    tags = Tags(page()).seen
    names = {attributes["id"] for _, attributes in tags if attributes.get("id")}
    targets = [str(attributes["href"])[1:] for tag, attributes in tags if tag == "a"]
    assert len(targets) > 7
    assert set(targets) <= names


def test_the_page_holds_answer_proof_tables_program_and_a_second_mapping() -> None:
    layer, arch, result = asked()
    assert result.cost is not None
    assert "&lt;first&gt; &amp; layer" in page()
    assert "<first>" not in page()
    assert '<span class="status OPTIMAL">' in page()
    assert " % of the compute units busy" in page().split("</p>")[0]
    assert re.search(r"^p \{[^}]*overflow-wrap: anywhere", page(), re.MULTILINE), "numbers of 30 digits on narrow pages"
    for row in result.cost.traffic:
        assert f'data-sort="{row.reads}"' in page()
    assert "checked against" in page()
    assert "polymap certificate 3" in page()
    assert "Beside it: best for latency" in page()
    assert "#include &lt;stdint.h&gt;" in page()
    assert result.best is not None
    assert f"<p>{explain(layer, arch, result.best, result.cost).splitlines()[0]}</p>" in page()


def test_pages_and_pictures_of_a_proof_among_some_trees_say_so() -> None:
    plain = asked()[2]
    result = replace(plain, space=replace(plain.space, name="chains"))
    assert '<span class="status OPTIMAL">OPTIMAL among chains</span>' in report_page(*asked()[:2], result)
    assert "OPTIMAL among chains, gap 0 %" in course_svg(course_figure(result))
    layer = pm.io.NetworkLayer("one", asked()[0], 1, "Conv")
    answer = LayerAnswer(layer, result, Fraction(result.value), Fraction(result.value))
    net = pm.study.NetworkAnswer(pm.Network("net", (layer,)), asked()[1], "energy", (answer,))
    assert ">OPTIMAL among chains</span>" in network_page(net)
    assert "1 not proven" in pm.plot.layers(net).svg


def test_the_same_question_gives_the_same_page_but_for_times() -> None:
    def without_times(text: str) -> str:
        text = re.sub(r"<svg(?:(?!</svg>).)*seconds(?:(?!</svg>).)*</svg>", "", text, flags=re.DOTALL)
        return re.sub(r"[0-9.]+ s\b", "", text)

    assert without_times(report_page(*asked())) == without_times(page())


def test_a_mapping_of_the_user_stands_beside_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = ROOT / "examples"
    out = tmp_path / "report.html"
    words = ["report", str(examples / "my_layer.json"), "--arch", str(examples / "my_machine.toml")]
    words += ["--mapping", str(examples / "my_mapping.json"), "--tiles", "divide", "-o", str(out)]
    assert main(words) == 0
    assert "wrote" in capsys.readouterr().err
    assert "Beside it:" in out.read_text(encoding="utf-8")
    assert "my_mapping.json" in out.read_text(encoding="utf-8")
    assert main(words[:-2]) == 2
    assert "report needs --output" in capsys.readouterr().err
    assert main([*words[:-1], "-"]) == 2


def test_an_answer_without_a_mapping_has_no_page() -> None:
    layer, arch, _ = asked()
    nothing = pm.explore(layer, arch, tiles="divide", constraints={"limits": {"latency": 1}})
    with pytest.raises(pm.errors.OptionError, match="PM574 a report is about a mapping, .* INFEASIBLE answer has none"):
        report_page(layer, arch, nothing)


def test_points_of_the_cloud_are_where_they_are_drawn() -> None:
    layer, arch, _ = asked()
    data = cloud_figure(pm.sample_mappings(layer, arch, 50))
    drawn = set(re.findall(r"M([0-9.]+),([0-9.]+)h0", cloud_svg(data)))
    places = {(f"{x:.1f}", f"{y:.1f}") for _, ((x, y),) in cloud_svg(data).marks}
    assert drawn == places


def test_the_answer_is_marked_in_the_space_around_it() -> None:
    _, _, result = asked()
    section = page().split('id="space"')[1].split("</section>")[0]
    assert result.cost is not None
    assert "optimum, proven" in section
    places = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', section)[0])
    assert places[-1][0].endswith("best known optimum")
    ((x, y),) = places[-1][1]
    assert re.search(rf'<circle cx="{x:g}0*" cy="{y:g}0*"', section), (x, y)


def test_texts_cannot_break_out_of_the_page() -> None:
    evil = "</script><script>alert(1)</script>"
    text = html.page(
        evil,
        "",
        [
            html.Section(
                "a", evil, picture_html(Picture("<svg></svg>", None, [(evil, [(1, 2)])])) + html.text_block(evil)
            )
        ],
    )
    assert "<script>alert" not in text
    Tags(text)
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    assert json.loads(data) == [[evil, [[1, 2]]]]


POINTER = """
  const figure = document.querySelector("figure[data-marks]"), svg = figure.querySelector("svg");
  const marks = JSON.parse(figure.querySelector("script").textContent);
  const go = (name, x, y) => {
    const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    svg.dispatchEvent(new PointerEvent(name, { clientX: at.x, clientY: at.y, bubbles: true }));
  };
  const told = () => figure.querySelector("[role=status]").textContent;
  const [[x, y]] = marks[0][1];
  go("pointermove", x, y);
  note("hover", told() === marks[0][0]);
  go("pointerdown", x - 50, y - 50);
  go("pointermove", x + 50, y + 50);
  go("pointerup", x + 50, y + 50);
  go("pointerleave", 0, 0);
  const near = marks.filter(([, all]) => all.some(([u, v]) => Math.abs(u - x) <= 50 && Math.abs(v - y) <= 50)).length;
  note("brush", told() === `${near.toLocaleString("en")} of ${marks.length.toLocaleString("en")} chosen`);
"""
PROBE = """
<script>
window.addEventListener("load", () => {
  const found = [];
  const note = (what, value) => found.push(what + "=" + value);
  note("overflow", document.documentElement.scrollWidth - window.innerWidth);
  const table = document.querySelector("table");
  const button = table.querySelectorAll("th button")[2];
  const column = () => [...table.tBodies[0].rows].map(row => Number(row.cells[2].dataset.sort));
  const sorted = (values, sign) => values.every((v, i) => i === 0 || sign * (v - values[i - 1]) >= 0);
  button.focus(); button.click();
  note("rising", sorted(column(), 1));
  button.click();
  note("falling", sorted(column(), -1) && button.parentElement.getAttribute("aria-sort") === "descending");
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "3" }));
  note("key", document.activeElement.id);
POINTER
  const fits = each => each.getBoundingClientRect().right <= window.innerWidth;
  note("small", [...document.querySelectorAll("figure")].every(fits));
  const tall = each => parseFloat(each.getAttribute("font-size")) * each.getScreenCTM().a;
  note("legible", [...document.querySelectorAll("svg text")].every(each => tall(each) >= 8.5));
  note("told", [...document.querySelectorAll("figure")].every(each => each.querySelector("g > title, script")));
  document.title = found.join(" ");
  document.body.innerHTML = "<p>" + found.join(" ") + "</p>";
});
</script></body>""".replace("POINTER", POINTER)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
@pytest.mark.parametrize("width", few([320, 1600, 360, 800], 2))
def test_a_browser_shows_it_without_complaint(width: int, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    path = tmp_path / "report.html"
    path.write_text(page(), encoding="utf-8")
    probed = tmp_path / "probed.html"
    probed.write_text(page().replace("</body>", PROBE), encoding="utf-8")
    options = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1600", "--hide-scrollbars"]
    options += ["--enable-logging=stderr", "--v=0"]
    shot = tmp_path / "page.png"
    drawn = subprocess.run(
        [*options, f"--screenshot={shot}", path.as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
    assert "CONSOLE" not in drawn.stderr, drawn.stderr
    assert shot.stat().st_size > 20_000
    if os.environ.get("POLYMAP_SCREENSHOTS"):
        shutil.copy(shot, Path(os.environ["POLYMAP_SCREENSHOTS"]) / f"report_{width}.png")
    done = subprocess.run(
        [*options, "--dump-dom", probed.as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
    found = dict(
        each.split("=") for each in re.findall(r"(\w+=[\w.-]+)", done.stdout.split("<p>")[-1].split("</p>")[0])
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    assert int(found.pop("overflow")) <= 0
    assert found == {
        "rising": "true",
        "falling": "true",
        "key": "traffic",
        "hover": "true",
        "brush": "true",
        "small": "true",
        "legible": "true",
        "told": "true",
    }


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
@pytest.mark.parametrize("plot", [pm.plot.cloud, pm.plot.coordinates])
def test_a_saved_picture_answers_a_pointer(plot: Callable[..., Picture], tmp_path: Path) -> None:
    assert CHROMIUM is not None
    path = tmp_path / "live.html"
    plot(pm.sample_mappings(*asked()[:2], 60)).save(path)
    begin = "const found = [], note = (what, value) => found.push(what + '=' + value);"
    wide = "note('overflow', document.documentElement.scrollWidth > window.innerWidth);"
    ending = "document.body.innerHTML = '<p>' + found.join(' ') + '</p>';"
    path.write_text(f"{path.read_text('utf-8')}<script>{begin}{POINTER}{wide}{ending}</script>", encoding="utf-8")
    options = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=600,700", "--hide-scrollbars", "--dump-dom"]
    done = subprocess.run([*options, path.as_uri()], capture_output=True, text=True, timeout=300, check=True)
    assert "<p>hover=true brush=true overflow=false</p>" in done.stdout


def pages_of_many() -> list[tuple[str, str]]:
    """Return the pages about a network and a sweep, each with hostile names, and what each must say."""
    hostile = pm.matmul(m=4, n=4, k=4, name='<img src=//x.org/a onerror="1">')
    grid = {"base": "flat3", "grid": {"GLB.capacity_bits": ["1 KiB", "2 KiB"], "X.size": [4, 8]}}
    table = pm.sweep([hostile, pm.matmul(m=6, n=3, k=5, name="second")], grid, tiles="divide")
    answer = pm.explore_network(pm.network("alexnet").beginning(2), "flat3", tiles="divide", work_limit=1)
    return [(network_page(answer), "alexnet.conv2"), (sweep_page(table), "GLB 1 KiB, X 8")]


def test_pages_of_networks_and_sweeps_load_nothing_and_hold_every_row() -> None:
    for text, named in pages_of_many():
        assert named in text
        assert "<img" not in text, "a workload's name is text, not a tag"
        for tag, attributes in Tags(text).seen:
            assert tag not in ("link", "img", "iframe", "object"), tag
            assert not any(name.startswith("on") for name in attributes), (tag, attributes)
            assert str(attributes.get("href") or "#").startswith("#"), (tag, attributes)
        assert "default-src 'none'" in text
    network, sweep = (text for text, _ in pages_of_many())
    assert '<span class="status OPTIMAL">' not in network, "one step of a search proves nothing"
    assert network.count("alexnet.conv") >= 6, "each layer stands in text, picture and table"
    assert sweep.count("<tr>") == (1 + 4) + (1 + 8), "a row for each machine, and for each workload on each machine"
    assert sweep.count('<th scope="col"><button type="button">second</button></th>') == 1, "a layer is a column once"
    assert "Energy against on-chip memory" in sweep
    assert "What binds where" in sweep


def test_the_command_line_writes_pages_of_networks_and_sweeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, spec = tmp_path / "net.html", tmp_path / "spec.json"
    words = ("report", "alexnet", "--arch", "flat3", "--tiles", "divide", "--work-limit", "1")
    assert main((*words, "-o", str(out))) == 0
    assert "alexnet.fc8" in out.read_text(encoding="utf-8")
    mapping = str(ROOT / "examples" / "my_mapping.json")
    assert main((*words, "--mapping", mapping, "-o", str(out))) == 2
    assert "--mapping" in capsys.readouterr().err
    asked = {"workloads": ["alexnet.fc8"], "machines": ["flat3", "simple3"], "tiles": "divide"}
    spec.write_text(json.dumps(asked), encoding="utf-8")
    assert main(("sweep", str(spec), "--report", str(tmp_path / "sweep.html"))) == 0
    assert "simple3" in (tmp_path / "sweep.html").read_text(encoding="utf-8")


def test_answers_of_networks_and_sweeps_write_their_page(tmp_path: Path) -> None:
    answer = pm.explore_network(pm.network("alexnet").beginning(1), "flat3", tiles="divide")
    answer.report(tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == network_page(answer)
    with pytest.raises(pm.PolymapError, match="PM"):
        answer.report(tmp_path / "none" / "x.html")
