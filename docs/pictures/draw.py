"""Draw the pictures of the README and the documentation: the best mapping of a ResNet-50 layer, what it moves, its
roofline, the machine; and a uniform sample of the layer's mappings on a second machine.

python docs/pictures/draw.py            draws from the stored mappings, which polymap found
python docs/pictures/draw.py --search   searches anew first and rewrites conv2_x.json and families.json

A test holds the stored pictures against what is drawn now.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polymap as pm

HERE = Path(__file__).parent
STORED = HERE / "conv2_x.json"
FAMILIES = HERE / "families.json"
SAMPLED = 3000


def pictures() -> dict[str, str]:
    """Return file name -> SVG text."""
    layer, arch = pm.io.builtin_workload("resnet50.conv2_x"), pm.load_arch("eyeriss_like")
    mapping = pm.io.mapping_from_document(json.loads(STORED.read_text(encoding="utf-8")))
    cost = pm.evaluate(layer, arch, mapping)
    return {
        "mapping.svg": pm.plot.mapping(cost),
        "traffic.svg": pm.plot.traffic(cost),
        "roofline.svg": pm.plot.roofline(cost),
        "machine.svg": pm.plot.machine(arch),
        "space.svg": _space(),
    }


def _space() -> str:
    """Return a uniform sample of the layer's mappings on flat3, with the best mapping of each family."""
    layer, arch = pm.io.builtin_workload("resnet50.conv2_x"), pm.load_arch("flat3")
    members: list[pm.study.Member] = []
    for stored in json.loads(FAMILIES.read_text(encoding="utf-8")):
        mapping = pm.io.mapping_from_document(stored["mapping"])
        cost = pm.evaluate(layer, arch, mapping)
        members.append(
            pm.study.Member(stored["family"], stored["status"], mapping, cost, cost.energy_pj, stored["bound_pj"])
        )
    families = pm.study.Comparison(layer, arch, "energy", tuple(members), members[-1].value)
    return pm.plot.cloud(pm.sample_mappings(layer, arch, SAMPLED, seed=0), families)


def search() -> None:
    """Write the best mapping to conv2_x.json and those of the families to families.json."""
    layer, arch = pm.io.builtin_workload("resnet50.conv2_x"), pm.load_arch("eyeriss_like")
    result = pm.explore(layer, arch, objective="energy", tiles="divide", time_limit_s=600)
    assert result.best is not None, result.status
    STORED.write_text(json.dumps(pm.io.mapping_to_document(result.best), indent=1) + "\n", encoding="utf-8")
    entries: list[dict[str, object]] = []
    for each in pm.compare(layer, pm.load_arch("flat3")).members:
        assert each.mapping is not None, each.family
        mapping = pm.io.mapping_to_document(each.mapping)
        entries.append({"family": each.family, "status": each.status, "bound_pj": each.bound, "mapping": mapping})
    FAMILIES.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--search" in sys.argv[1:]:
        search()
    for name, text in pictures().items():
        (HERE / name).write_text(text, encoding="utf-8")
