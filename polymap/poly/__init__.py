"""The only user of isl: named constructors and operations, counting, budgets, error translation."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
