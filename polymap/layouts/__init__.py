"""How tensors lie in the outermost level: what reading them costs in bursts, and the best layouts of a network."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
