"""The JSON Schemas of the files that polymap reads and writes (polymap/schemas)."""

from __future__ import annotations

from polymap.ir import Mistake, OptionError, did_you_mean

SCHEMAS = ("machine", "workload", "mapping", "constraints", "sweep", "result", "network", "transform")


def schema_text(name: str) -> str:
    """Return a schema (draft 2020-12) as JSON text; raises OptionError for a name that is none of SCHEMAS."""
    from importlib.resources import files  # loads modules that the names alone do not need

    if name not in SCHEMAS:
        raise OptionError(Mistake("PM564", f"there is no schema '{name[:64]}'", did_you_mean(name[:64], SCHEMAS)))
    return (files("polymap") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
