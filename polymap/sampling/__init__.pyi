from polymap.sampling.moves import neighbours as neighbours
from polymap.sampling.sample import Sample as Sample, sample_mappings as sample_mappings
