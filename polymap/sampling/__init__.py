"""Uniform samples of the mapping space, scored together; neighbours and distances of mappings."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.sampling.moves import distance as distance, features as features, neighbours as neighbours
    from polymap.sampling.sample import Sample as Sample, sample_mappings as sample_mappings
    from polymap.sampling.scores import Scores as Scores, score_mappings as score_mappings
