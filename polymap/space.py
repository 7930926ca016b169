"""The space of mappings: its size, its structures, samples, neighbours and distances."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.mapping_space.listing import structures as structures
    from polymap.mapping_space.samples import Sample as Sample
    from polymap.mapping_space.scores import Scores as Scores
    from polymap.mapping_space.structure import MappingStructure as MappingStructure, StructureScore as StructureScore
    from polymap.mapping_space.trees import (
        distance as distance,
        features as features,
        neighbours as neighbours,
        sample as sample,
        score as score,
        size as size,
    )
