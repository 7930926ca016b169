"""The words of the house, as frozen data: loop nests, machines, mappings, violations; and every exception."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
