"""Loop tree to cost: exact integers until the last step."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
