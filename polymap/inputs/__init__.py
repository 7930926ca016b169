"""What users write, read strictly: files, JSON and TOML texts, names and numbers; every mistake with its place."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
