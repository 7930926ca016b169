"""Summaries, explanations and tables as text; answers as JSON."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
