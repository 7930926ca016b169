"""One layer's optimum on machines that differ in what their wires cost: which dataflow wins.

    python benchmarks/wires.py [WORKLOAD] [--arch flat3] [--time-limit S]

Every fan-out of the machine gets the same energies: none, then rising ones per word and hop, of both kinds of hops. The
last column is what the best mapping without wire energies costs on the machine of the row.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from fractions import Fraction

import polymap as pm
from polymap.costmodel import dataflow
from polymap.ir import Hops

STEPS = (Fraction(0), Fraction(1, 100), Fraction(1, 20), Fraction(1, 5), Fraction(1))


def wired(arch: pm.Architecture, hop: Fraction, hops: Hops) -> pm.Architecture:
    """Return the machine whose fan-outs cost `hop` pJ per word and link, and as much per addition."""
    nodes = (
        replace(node, pj_per_word_hop=hop, hops=hops, reduce_pj=hop) if isinstance(node, pm.Fanout) else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def main() -> None:
    """Print a row per machine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", nargs="?", default="resnet50.conv2_x")
    parser.add_argument("--arch", default="flat3")
    parser.add_argument("--time-limit", type=float, default=60)
    options = parser.parse_args()
    arch, free = pm.load_arch(options.arch), None
    print(f"{options.workload} on {options.arch}, energy, tiles that divide")
    head = f"{'hops':10} {'pJ/hop':>7} {'status':8} {'uJ':>10} {'wires':>7}  {'dataflow':18}"
    print(f"{head} {'spread over fan-outs':34} optimum without wires")
    for hops in Hops:
        for hop in STEPS:
            machine = wired(arch, hop, hops)
            found = pm.explore(options.workload, machine, "energy", tiles="divide", time_limit_s=options.time_limit)
            assert found.best is not None
            assert found.cost is not None
            free = free or found.best
            fanouts = {fanout.name for fanout in machine.fanouts}
            crossing = sum(pj for name, pj in found.cost.energy_by_level_pj if name in fanouts)
            spread = " ".join(f"{n.dim}/{n.fanout}" for n in found.best.nodes if isinstance(n, pm.Spatial))
            name = dataflow(found.workload, machine, found.best, found.cost).value
            other = pm.evaluate(options.workload, machine, free).energy_pj
            print(
                f"{hops.value:10} {float(hop):7.2f} {found.status:8} {found.value / 1e6:10.2f} "
                f"{crossing / found.cost.energy_pj:7.1%}  {name:18} {spread:34} {other / found.value:.3f}x"
            )


if __name__ == "__main__":
    main()
