"""Figure data, and the pictures drawn from them."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
