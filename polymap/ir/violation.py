"""Why a mapping is not legal, as data."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.ir.display import Shown


@dataclass(frozen=True, slots=True)
class InstancePoint:
    """One statement instance: the statement's name and the value of each of its dims."""

    statement: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Violation(Shown):
    """One broken rule. kind: "dependence", "capacity", "fanout" or "placement".

    witness: two statement instances (source before sink in the program) for a dependence; else named numbers, such as
    (("level", "RF"), ("needed_bits", 80), ("capacity_bits", 64)).
    """

    kind: str
    message: str
    witness: tuple[InstancePoint, InstancePoint] | tuple[tuple[str, str | int], ...]
