"""Schedules and loop trees: what they mean, legality and size."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
