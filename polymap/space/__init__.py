"""The space of mappings: its size, its structures, samples, neighbours and distances."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.sampling.sample import Sample as Sample
    from polymap.sampling.scores import Scores as Scores
    from polymap.space.listing import structures as structures
    from polymap.space.structure import MappingStructure as MappingStructure, StructureScore as StructureScore
    from polymap.space.trees import (
        distance as distance,
        features as features,
        neighbours as neighbours,
        sample as sample,
        score as score,
        size as size,
    )
