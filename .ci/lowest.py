"""Print requirements that hold the lowest version of every dependency that pyproject.toml allows, and the pinned tools
that the tests need."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ("hatchling", "hypothesis", "jsonschema", "pytest", "pytest-xdist")


def main() -> None:
    """Print them, a line each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for bound in project["dependencies"]:
        print(bound.replace(">=", "=="))
    for line in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines():
        if line.split("==")[0] in TOOLS:
            print(line)


if __name__ == "__main__":
    main()
