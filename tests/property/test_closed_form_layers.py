"""The closed form on the built-in layers at their real size: it answers, and isl sets, which share no code, agree."""

from __future__ import annotations

import random

import pytest

from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from polymap.workload.networks import builtin_names, builtin_workload
from tests.sample import sample_mapping
from tests.set_counts import count_with_sets

pytestmark = pytest.mark.slow

MACHINES = ("eyeriss_like", "flat3", "simba_like", "cluster4", "tpu_like", "tutorial3", "simple3")


def random_mapping(rng: random.Random, name: str) -> tuple[Workload, Architecture, Mapping]:
    """Return a random legal mapping of a layer on a random machine, with any tiles or with dividing ones."""
    workload, arch = builtin_workload(name), load_arch(rng.choice(MACHINES))
    return workload, arch, sample_mapping(workload, arch, rng.choice(("any", "divide")), rng)


def test_the_closed_form_answers_random_legal_mappings_of_every_layer() -> None:
    rng = random.Random(1)
    asked = unanswered = 0
    for name in builtin_names():
        for _ in range(5):
            asked += 1
            unanswered += count_closed_form(*random_mapping(rng, name)) is None
    assert asked >= 5 * 50
    assert unanswered * 100 <= asked


@pytest.mark.slow
def test_isl_sets_count_the_same_at_full_size() -> None:
    rng = random.Random(1)  # other seeds, and other lists, draw mappings on which sets take minutes
    names = [name for name in builtin_names() if not name.startswith("resnet18.")]
    for _ in range(10):
        name = rng.choice(names)
        workload, arch, mapping = random_mapping(rng, name)
        counts = count_closed_form(workload, arch, mapping)
        assert counts is not None
        assert counts == count_with_sets(workload, arch, mapping), (name, arch.name, mapping)
