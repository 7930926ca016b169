"""What a person reads: summaries, explanations, tables, JSON answers."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
