"""How large a model or a machine of another tool may be to be read."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of what is read (not swept: beyond what such files hold), and what is meant by silence."""

    most_listed: int = 4096
    """Elements of a constant that is read for its values: axes, shapes."""
    most_steps: int = 10_000
    """Of a recurrence, all layers and directions together: each is a node's loop nests of its own."""
    most_bytes: int = 2**31
    """Of a model file: what protobuf can read."""
    most_size: int = 2**31
    """Of a dim of a model: indices have 32 bits."""
    most_nodes: int = 64
    """Levels and fan-outs of a machine inside each other, as many as machine files have at most."""
    most_values: int = 100_000
    """Of one YAML file, its aliases written out."""
    most_template_characters: int = 2**22
    """Of the texts that templates of one question expand to, all together."""
    most_template_depth: int = 16
    """Files that include each other."""
    most_included: int = 256
    """Files of one question, and of one pattern."""
    word_bits: int = 16
    """Of a Timeloop component that states none: Timeloop's own default."""
    most_path_characters: int = 4096
    """Of the name of a file that a template includes."""
    expression_characters: int = 200
    """Of an expression over variables."""
    most_called_nodes: int = 100_000
    """Of a module whose calls are told: functions that call one another twice would double them."""


TUNING = Tuning()
