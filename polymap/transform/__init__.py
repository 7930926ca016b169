"""Transformations of schedules, loop trees and programs, each documented as before -> after and checked."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
