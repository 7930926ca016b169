"""Draw the pictures of the README: the best mapping of a ResNet-50 layer, what it moves, its roofline, the machine.

python docs/pictures/draw.py            draws from conv2_x.json, the mapping that `polymap explore` found
python docs/pictures/draw.py --search   searches anew first and rewrites conv2_x.json

A test holds the stored pictures against what is drawn now.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polymap as pm

HERE = Path(__file__).parent
STORED = HERE / "conv2_x.json"


def pictures() -> dict[str, str]:
    """Return file name -> SVG text."""
    layer, arch = pm.builtin_workload("resnet50.conv2_x"), pm.load_arch("eyeriss_like")
    mapping = pm.mapping_from_document(json.loads(STORED.read_text(encoding="utf-8")))
    cost = pm.evaluate(layer, arch, mapping)
    return {
        "mapping.svg": pm.mapping_svg(layer, arch, mapping, cost),
        "traffic.svg": pm.traffic_svg(layer, arch, cost),
        "roofline.svg": pm.roofline_svg(layer, arch, [("", cost)]),
        "machine.svg": pm.machine_svg(arch),
    }


def search() -> None:
    """Write the best mapping to conv2_x.json."""
    layer, arch = pm.builtin_workload("resnet50.conv2_x"), pm.load_arch("eyeriss_like")
    result = pm.explore(layer, arch, objective="energy", tiles="divide", time_limit_s=600)
    assert result.best is not None, result.status
    STORED.write_text(json.dumps(pm.mapping_to_document(result.best), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--search" in sys.argv[1:]:
        search()
    for name, text in pictures().items():
        (HERE / name).write_text(text, encoding="utf-8")
