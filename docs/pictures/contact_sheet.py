"""Draw every figure of polymap for one small convolution, and all of them on one sheet.

python docs/pictures/contact_sheet.py FOLDER      writes NAME.svg of each and sheet.svg; with chromium also PNG: all
pictures at 320, 800 and 1,600 px, on light and on dark pages
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polymap as pm

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS, WIDTH, GAP = 3, 900.0, 20.0
STENCIL = (
    "int A[8][10]; for (int i = 1; i < 8; i++) for (int j = 1; j < 9; j++) A[i][j] = A[i - 1][j + 1] + A[i][j - 1];"
)


def figures() -> Callable[[int], dict[str, str]]:
    """Return what draws all figures, name -> SVG text, at a width in pixels."""
    layer, arch = pm.load_workload(str(EXAMPLES / "my_layer.json")), pm.load_arch(str(EXAMPLES / "my_machine.toml"))
    result = pm.explore(layer, arch, tiles="divide")
    verdict = pm.verify(result.certificate())
    twice = replace(arch, nodes=tuple(_doubled(node) for node in arch.nodes))
    doubled = pm.explore(layer, twice, tiles="divide")
    sample = pm.sample_mappings(layer, arch, 2000)
    families = pm.compare(layer, arch, time_limit_s=20)
    small = pm.einsum("O[m,p,q] += I[p+r,q+s] * W[m,r,s]", m=16, p=6, q=6, r=3, s=3, name="small convolution")
    other = families["output-stationary"].mapping
    loops = _loops(other)
    split = [
        place
        for place, loop in enumerate(loops)
        if isinstance(loop, pm.Temporal) and any(inner.dim == loop.dim for inner in loops[place + 1 :])
    ]
    across = split[0]
    up = next(place for place in split if loops[place].dim != loops[across].dim)
    net = pm.network("alexnet")
    answers = [pm.explore_network(net, name, tiles="divide", time_limit_s=30) for name in ("flat3", "tpu_like")]
    product, sizes = pm.matmul(m=64, n=64, k=64), [1 << power for power in range(8, 18)]
    timed = pm.explore(product, "gemmini_like", "latency", tiles="divide", time_limit_s=5)
    stencil = pm.from_c(STENCIL)
    chain = pm.program(["R[i,j] = max(X[i,j], 0.0)", "Y[i,j] = R[i,j] * 2.0"], i=16, j=16, types="float32")
    grid = {"base": "flat3", "grid": {"GLB.capacity_bits": [1 << 14, 1 << 18], "X.size": [8, 16]}}
    table = pm.sweep([product], grid, tiles="divide")
    front = pm.explore(layer, arch, "pareto:energy,latency", tiles="divide")
    few = pm.sample_mappings(layer, arch, 30, seed=1)
    some = pm.sample_mappings(layer, arch, 200)
    pairs = pm.study.tiles(layer, arch, other, across, up)
    winners = pm.study.winners(layer, arch, ("RF", ["4 B", "16 B", "64 B", "256 B"]), ("Buffer", ["1 KiB", "16 KiB"]))
    sizes_of_rf = pm.study.capacity(layer, arch, "RF", [64, 128, 256, 512, 1024, 2048])
    sensitivity = pm.study.sensitivity(layer, arch, tiles="divide")
    fusion = pm.study.fusion(chain, _one_buffer(), "traffic:DRAM", work_limit=400)
    curve = pm.study.buffer_curve(product, "tutorial3", "SRAM", sizes)
    return lambda width: {
        "machine": pm.plot.machine(arch, width_px=width),
        "mapping": pm.plot.mapping(result),
        "traffic": pm.plot.traffic(result, width_px=width),
        "roofline": pm.plot.roofline({"by hand": families["output-stationary"].cost, "best": result}, width_px=width),
        "array": pm.plot.array(result, width_px=width),
        "steps": pm.plot.steps(timed, width_px=width),
        "residency": pm.plot.residency(doubled, width_px=width),
        "residency of fusion": pm.plot.residency(fusion, width_px=width),
        "fate": pm.plot.fate(result, width_px=width),
        "fate of a verdict": pm.plot.fate(verdict, width_px=width),
        "proof": pm.plot.proof(verdict, width_px=width),
        "convergence": pm.plot.convergence(result, width_px=width),
        "front": pm.plot.front(front, width_px=width),
        "cloud": pm.plot.cloud(sample, families, width_px=width),
        "rarity": pm.plot.rarity(sample, result, width_px=width),
        "smoothness": pm.plot.smoothness(few, width_px=width),
        "coordinates": pm.plot.coordinates(some, width_px=width),
        "orders": pm.plot.orders(small, "simple3", width_px=width),
        "tiles": pm.plot.tiles(pairs, width_px=width),
        "winners": pm.plot.winners(winners, width_px=width),
        "compare": pm.plot.compare(result, families["output-stationary"].cost, ("optimum", "OS"), width_px=width),
        "capacity": pm.plot.capacity(sizes_of_rf, width_px=width),
        "sensitivity": pm.plot.sensitivity(sensitivity, width_px=width),
        "domain": pm.plot.domain(stencil, tile=(2, 3), width_px=width),
        "dependences": pm.plot.dependences(chain, width_px=width),
        "schedule": pm.plot.schedule(pm.Schedule.original(stencil), width_px=width),
        "layers": pm.plot.layers(answers[0], width_px=width),
        "layers by machine": pm.plot.layers(answers, width_px=width),
        "layers by dataflow": pm.plot.layers([families], width_px=width),
        "machines": pm.plot.machines(table, width_px=width),
        "binding": pm.plot.binding(table, width_px=width),
        "fusion": pm.plot.fusion(fusion, width_px=width),
        "buffer curve": pm.plot.capacity(curve, width_px=width),
    }


def _one_buffer() -> pm.Architecture:
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 2048}, {"compute": "MAC"}]
    return pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})


def _doubled(node: pm.MemoryLevel | pm.Fanout | pm.ComputeUnit) -> pm.MemoryLevel | pm.Fanout | pm.ComputeUnit:
    """Return a node with two buffers, where it is a level of limited capacity."""
    return replace(node, buffering=2) if isinstance(node, pm.MemoryLevel) and node.capacity_bits else node


def _loops(mapping: pm.Mapping) -> list[pm.Temporal | pm.Spatial]:
    return [node for node in mapping.nodes if isinstance(node, pm.Temporal | pm.Spatial)]


def extent(text: str) -> tuple[float, float]:
    """Return the width and the height of a picture."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)[0]
    return float(width), float(height)


def sheet(pictures: dict[str, str]) -> str:
    """Return one SVG with all pictures in columns, each below the one that leaves most room."""
    heights = [GAP] * COLUMNS
    placed: list[str] = []
    for text in pictures.values():
        width, height = extent(text)
        column = heights.index(min(heights))
        scale = min(WIDTH / width, 1.0)
        tall = height * scale
        where = (
            f'x="{GAP + column * (WIDTH + GAP):g}" y="{heights[column]:g}" width="{width * scale:g}" height="{tall:g}"'
        )
        placed.append(re.sub(r'width="[\d.]+" height="[\d.]+"', where, text, count=1))
        heights[column] += tall + GAP
    width, height = GAP + COLUMNS * (WIDTH + GAP), max(heights)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}">'
    return f'{head}<rect width="100%" height="100%" fill="#f8fafc"/>{"".join(placed)}</svg>\n'


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    drawn = figures()
    pictures = drawn(860)
    write(folder, {**pictures, "sheet": sheet(pictures)})
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    for width in (320, 800, 1600) if browser else ():
        narrow = drawn(width)
        write(folder / f"{width}", narrow)
        for theme, paper in (("light", "#ffffff"), ("dark", "#111827")):
            photograph(str(browser), folder / f"{width}", narrow, theme, width, paper)
    print(f"{len(pictures)} figures in {folder}" + ("" if browser else "; PNG needs chromium"))


def write(folder: Path, pictures: dict[str, str]) -> None:
    """Write pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pictures.items():
        (folder / f"{name.replace(' ', '_')}.svg").write_text(text, encoding="utf-8")


def photograph(browser: str, folder: Path, pictures: dict[str, str], out: str, width: int, paper: str) -> None:
    """Write a PNG of all pictures in columns, each as wide as a page of `width` pixels makes it."""
    style = f"body{{margin:8px;background:{paper};columns:4;column-gap:8px}}img{{max-width:{width}px;margin:4px 0}}"
    images = (f'<img src="{name.replace(" ", "_")}.svg">' for name in pictures)
    page = folder / "page.html"
    page.write_text(f"<style>{style}</style>" + "".join(images), encoding="utf-8")
    high = sum(tall * min(1.0, width / wide) + 8 for wide, tall in map(extent, pictures.values()))
    size = f"--window-size={4 * width + 40},{round(high / 4 + 2 * width)}"
    shot = f"--screenshot={folder / f'{out}.png'}"
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, shot, str(page)]
    subprocess.run(words, check=True, capture_output=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
