"""One search from question to answer: its phases, results, certificates, and why rules clash."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
