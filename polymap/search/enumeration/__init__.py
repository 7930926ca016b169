"""Every legal canonical loop tree, scored exactly: small spaces, and the referee of the search."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
