"""The counts of one mapping as sums over kinds of steps (docs/closed_form.md)."""
