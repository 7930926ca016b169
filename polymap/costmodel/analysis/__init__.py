"""What a count says beside its numbers: bounds, dataflows, footprints, rooflines, crossover points."""
