"""Strict readers of user input: files, JSON and TOML texts, names and numbers; every mistake with its position."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
