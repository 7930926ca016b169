"""The space of mappings: its structures, uniform samples scored together, neighbours and distances."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.mapping_space.moves import neighbours as neighbours
    from polymap.mapping_space.samples import Sample as Sample, sample_mappings as sample_mappings
    from polymap.mapping_space.scores import Scores as Scores, score as score
