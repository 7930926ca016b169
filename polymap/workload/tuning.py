"""How long texts and how large programs are read, and what questions about them may take."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits that decide whether a text is read and an answer comes, never which (not swept)."""

    # Einsums.
    most_text: int = 20_000
    """Characters of one einsum."""
    most_instances: int = 10**1000
    """Of a statement: far beyond any machine, and short enough to print."""
    most_mistakes: int = 100
    """That one error lists."""
    most_place: int = 10_000
    """Of a statement in its program's order."""
    most_affine_text: int = 4_000
    """Characters of an expression with floors."""
    largest_value: int = 2**60
    """Of such an expression: what isl computes with is not much larger."""

    # C and Python.
    most_source_characters: int = 1_000_000
    """Of a C source."""
    most_nesting: int = 200
    """Brackets inside each other, which the parser reads by recursion."""
    most_expression_depth: int = 150
    """Operators inside each other, of C and of Python, which are read by recursion."""
    most_table_values: int = 64
    """Of a list that sets an array: each is a statement."""
    most_pieces: int = 1024
    """Into which the conditions of an assignment take it apart."""
    least_assumed: int = 3
    """Nothing is assumed of sizes that excludes all programs whose sizes are at least this: tiny ones run no loop."""
    most_size: int = 2**50
    """Nothing is told of sizes beyond: no array is so large, and sums of some in 64 bits stay right."""

    # The preprocessor.
    most_condition_depth: int = 60
    """Brackets and operators of a condition inside each other."""
    most_conditions: int = 2_000
    """Of one file."""
    most_macro_depth: int = 100
    """Macros inside each other."""
    most_words: int = 200_000
    """Of one file, and four times as many with macros expanded."""

    # Dependences.
    most_run_instances: int = 100_000
    """Instances that are run one by one where isl gives up."""
    run_operations: int = 300_000
    """Operations of isl before that."""
    step_operations: int = 300_000
    """Operations of isl for each step of one question about a program, up to 1.5 s,"""
    seconds: float = 3.5
    """and CPU seconds of the question."""


TUNING = Tuning()
