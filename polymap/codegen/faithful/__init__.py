"""The program that does what the machine does, every word counted where it moves."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
