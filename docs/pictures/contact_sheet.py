"""Draw every figure of polymap for one small convolution, and all of them on one sheet.

python docs/pictures/contact_sheet.py FOLDER      writes NAME.svg of each and sheet.svg; with rsvg-convert also as PNG
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polymap as pm
from polymap.report.figures import buffer_curve_svg
from polymap.report.space import side_by_side_svg

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS, WIDTH, GAP = 3, 900.0, 20.0
BYTE = 8
STENCIL = (
    "int A[8][10]; for (int i = 1; i < 8; i++) for (int j = 1; j < 9; j++) A[i][j] = A[i - 1][j + 1] + A[i][j - 1];"
)


def figures() -> dict[str, str]:
    """Return name -> SVG text of each figure."""
    layer, arch = pm.load_workload(str(EXAMPLES / "my_layer.json")), pm.load_arch(str(EXAMPLES / "my_machine.toml"))
    result = pm.explore(layer, arch, tiles="divide")
    twice = replace(arch, nodes=tuple(_doubled(node) for node in arch.nodes))
    doubled = pm.explore(layer, twice, tiles="divide")
    sample = pm.sample_mappings(layer, arch, 2000)
    scores = sample.scores()
    families = pm.compare(layer, arch, time_limit_s=20)
    fitting = scores.energy_pj[scores.fits].tolist()
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
    return {
        "machine": pm.machine_svg(arch),
        "mapping": pm.mapping_svg(layer, arch, result.best, result.cost),
        "traffic": pm.traffic_svg(layer, arch, result.cost),
        "roofline": pm.roofline_svg(layer, arch, [("best", result.cost)]),
        "array": pm.array_svg(pm.array_figure(layer, arch, result.best)),
        "residency": pm.residency_svg(pm.residency_figure(layer, twice, doubled.best)),
        "structures": pm.fate_svg(pm.fate_figure(result)),
        "course": pm.course_svg(pm.course_figure(result)),
        "front": pm.front_svg(pm.explore(layer, arch, "pareto:energy,latency", tiles="divide")),
        "cloud": pm.cloud_svg(pm.cloud_figure(sample, families)),
        "rarity": pm.rarity_svg(
            pm.rarity_figure(f"{layer.name} on {arch.name}, within capacity", fitting, result.value)
        ),
        "neighbours": pm.smooth_svg(pm.smooth_figure(pm.sample_mappings(layer, arch, 30, seed=1))),
        "orders": pm.order_svg(pm.order_figure(small, "simple3")),
        "tiles": pm.tile_map_svg(pm.tile_map_figure(layer, arch, other, across, up)),
        "winners": pm.winner_svg(
            pm.winner_figure(
                layer,
                arch,
                ("RF", [4 * BYTE, 16 * BYTE, 64 * BYTE, 256 * BYTE]),
                ("Buffer", [1024 * BYTE, 16384 * BYTE]),
            )
        ),
        "side by side": side_by_side_svg(pm.side_by_side(layer, arch, result.best, other, ("optimum", "OS"))),
        "capacity": pm.capacity_svg(pm.capacity_figure(layer, arch, "RF", [64, 128, 256, 512, 1024, 2048])),
        "sensitivity": pm.sensitivity_svg(pm.sensitivity_figure(layer, arch)),
        "domain": pm.domain_svg(pm.domain_figure(pm.from_c(STENCIL), "S0", tile=(2, 3))),
        "layers": pm.layer_bars_svg(pm.layer_bars_figure(f"Layers on {arch.name}", _layers(arch))),
        "buffer curve": buffer_curve_svg(
            pm.study.buffer_curve(
                pm.matmul(m=64, n=64, k=64), "tutorial3", "SRAM", [1 << power for power in range(8, 18)]
            )
        ),
    }


def _layers(arch: pm.Architecture) -> list[tuple[str, float | None, int, str]]:
    """Return products of a small network with their least energies; the last one is given no time for a proof."""
    sizes = {"first": (64, 32, 27), "middle": (64, 64, 64), "wide": (128, 64, 64), "last": (10, 1, 640)}
    rows: list[tuple[str, float | None, int, str]] = []
    for times, (name, (m, n, k)) in enumerate(sizes.items(), start=1):
        work = 1 if name == "last" else None
        found = pm.explore(pm.matmul(m=m, n=n, k=k), arch, tiles="divide", work_limit=work)
        rows.append((name, found.value, times, found.status))
    return rows


def _doubled(node: pm.MemoryLevel | pm.Fanout | pm.ComputeUnit) -> pm.MemoryLevel | pm.Fanout | pm.ComputeUnit:
    """Return a node with two buffers, where it is a level of limited capacity."""
    return replace(node, buffering=2) if isinstance(node, pm.MemoryLevel) and node.capacity_bits else node


def _loops(mapping: pm.Mapping) -> list[pm.Temporal | pm.Spatial]:
    return [node for node in mapping.nodes if isinstance(node, pm.Temporal | pm.Spatial)]


def sheet(pictures: dict[str, str]) -> str:
    """Return one SVG with all pictures in columns, each below the one that leaves most room."""
    heights = [GAP] * COLUMNS
    placed: list[str] = []
    for text in pictures.values():
        width, height = (float(each) for each in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)[0])
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
    folder.mkdir(parents=True, exist_ok=True)
    pictures = figures()
    convert = shutil.which("rsvg-convert")
    for name, text in {**pictures, "sheet": sheet(pictures)}.items():
        path = folder / f"{name.replace(' ', '_')}.svg"
        path.write_text(text, encoding="utf-8")
        if convert:
            subprocess.run([convert, "-o", str(path.with_suffix(".png")), str(path)], check=True)
    print(f"{len(pictures)} figures in {folder}" + ("" if convert else "; PNG needs rsvg-convert"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
