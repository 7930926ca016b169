"""What is asked of the space of loop trees besides its structures: how large it is, samples, neighbours, distances."""

from __future__ import annotations

from polymap.inputs import answers_in_words
from polymap.mapping_space.moves import distance as distance, features as features, neighbours as neighbours
from polymap.mapping_space.samples import sample_mappings as sample
from polymap.mapping_space.scores import score as score
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import SpaceSize, check_machine, space_size
from polymap.search import Options

__all__ = ["distance", "features", "neighbours", "sample", "score", "size"]


@answers_in_words
def size(workload: WorkloadLike, arch: ArchitectureLike, tiles: str = "divide") -> SpaceSize:
    """Return the exact numbers of canonical loop trees, syntactic and legal ones (docs/counting.md, "The mapping
    space"); where they are not known, None and the reason. tiles: "divide" or "any"."""
    workload, arch = question_of(workload, arch)
    check_machine(workload, arch)
    Options(tiles=tiles).check()
    return space_size(workload, arch, tiles)
