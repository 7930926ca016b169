"""Loop trees of programs: statements fused or distributed, bands permuted and tiled, and where arrays live."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
