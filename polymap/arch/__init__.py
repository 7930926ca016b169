"""The machine: memory levels, fan-outs and the compute unit; presets with a source for each number."""
