"""CPU seconds to draw mappings uniformly and to score them: `python benchmarks/sampling.py [COUNT]`.

The Python before and after a change is compared by running both on one machine, one after the other; the last column is
a digest of mappings and scores, which a change of speed alone leaves as it was.
"""

from __future__ import annotations

import argparse
import time
from hashlib import sha256

import polymap as pm

WORKLOAD, ARCH = "resnet50.conv2_x", "flat3"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=100_000, help="mappings (100,000)")
    count = parser.parse_args().count
    workload, arch = pm.load_workload(WORKLOAD), pm.load_arch(ARCH)
    pm.sample_mappings(workload, arch, 20).scores()  # imports
    begin = time.process_time()
    sample = pm.sample_mappings(workload, arch, count)
    drawn = time.process_time()
    scores = pm.space.score(workload, arch, sample.mappings)
    end = time.process_time()
    digest = sha256(repr(sample.mappings).encode())
    for column in (scores.energy_pj, scores.latency_cycles, scores.fits):
        digest.update(column.tobytes())
    print(f"{WORKLOAD} on {ARCH}: {count:,} mappings")
    print(f"{'drawn':>10} {'scored':>10} {'in all':>10}   digest")
    print(f"{drawn - begin:8.1f} s {end - drawn:8.1f} s {end - begin:8.1f} s   {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
