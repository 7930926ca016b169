"""The order that a program is printed in: contractions and steps of time in tiles, loops exchanged where that pays."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
