"""How a peer's script is asked: a file with the question, and the CPU seconds after which it is ended."""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path


def asked(description: str) -> dict:
    """Return the question named on the command line; from now on the CPU seconds are counted."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("question")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds; it is ended there, with no answer")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))
    return json.loads(Path(options.question).read_text(encoding="utf-8"))
