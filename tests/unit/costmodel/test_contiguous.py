"""Blocks that sets of addresses touch, against the definition: every address of every set looked at."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from polymap.costmodel.contiguous import Blocks, Ints, count_blocks


def counted(addresses: set[int], blocks: Blocks) -> int:
    """Return the blocks of one set: distinct ones, or those of each contiguous run."""
    if not blocks.of_runs:
        return len({address // blocks.size for address in addresses})
    return sum(address - 1 not in addresses or address % blocks.size == 0 for address in addresses)


def random_offsets(rng: random.Random) -> list[Ints]:
    """Return offsets of up to three parts: separate, interleaved, with gaps of any kind."""
    parts: list[Ints] = []
    stride = 1
    for _ in range(rng.randint(0, 3)):
        parts.append(np.array(sorted(rng.sample(range(8), rng.randint(1, 6)))) * stride + rng.randint(-3, 3))
        stride *= rng.choice([1, 2, 4, 7, 8, 9, 16])
    if parts and rng.random() < 0.4:  # an axis in blocks: one of them, here and further on
        further = np.arange(rng.randint(2, 4)) * rng.choice([3, 20, 64, 200])
        parts[0] = np.unique(parts[0][:, None] + further)
    return parts


@pytest.mark.parametrize("of_runs", [False, True])
def test_blocks_of_a_sum_of_offsets_are_those_of_its_addresses(of_runs: bool) -> None:
    interleaved = 0
    for seed in range(1500):
        rng = random.Random(seed)
        parts = random_offsets(rng)
        starts = [np.array([rng.randint(0, 50) for _ in range(rng.randint(1, 3))]) for _ in range(rng.randint(0, 2))]
        blocks = Blocks(rng.choice([1, 2, 3, 4, 8, 16, 40, 90, 10**30]), of_runs)
        base = rng.choice([0, 0, 5, blocks.size - rng.randint(0, 60), 7 * 10**40])
        form = {sum(int(each) for each in offsets) for offsets in product(*parts)}
        interleaved += len(form) < np.prod([len(part) for part in parts])
        places = [sum(int(each) for each in place) for place in product(*starts)]
        expected = sum(counted({a + place + base for a in form}, blocks) for place in places)
        assert count_blocks(parts, starts, blocks, base) == expected, seed
    assert interleaved > 50


def test_a_row_of_pixels_of_three_channels_is_a_request_per_pixel_or_a_burst_per_row() -> None:
    # 112 pixels of 3 one-byte channels of 4: 112 runs, each in one aligned piece of 64 bytes; 448 bytes in 7 bursts.
    parts = [np.arange(3), np.arange(112) * 4]
    assert count_blocks(parts, [], Blocks(64, of_runs=True)) == 112
    assert count_blocks(parts, [], Blocks(64, of_runs=False)) == 7
