"""The space of mappings: its size, its structures, samples, neighbours and distances."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.trees.listing import structures as structures
    from polymap.search.trees.moves import distance as distance, features as features, neighbours as neighbours
    from polymap.search.trees.samples import Sample as Sample, sample as sample, size as size
    from polymap.search.trees.scores import Scores as Scores, score as score
    from polymap.search.trees.structure import MappingStructure as MappingStructure, StructureScore as StructureScore
