"""What a count says beside its numbers: bounds, dataflows, footprints, rooflines, crossover points."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
