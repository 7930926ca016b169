"""Registers how each value prints and shows itself in notebooks; loaded before the first one is shown."""
