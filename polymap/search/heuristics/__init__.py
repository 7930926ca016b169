"""Mappings without proof: sampling, annealing, dataflow templates, polish."""
