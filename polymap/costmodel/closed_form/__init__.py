"""The counts of one mapping as sums over kinds of steps (docs/closed_form.md)."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
