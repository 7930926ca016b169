"""The best mapping of a product over tiles that divide, in milliseconds: for who asks often."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
