from polymap.sampling.sample import Sample as Sample
