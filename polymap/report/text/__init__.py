"""What a person reads: summaries, explanations, tables, JSON answers."""
