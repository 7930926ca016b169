"""The representation of values in terminals and notebooks."""
