"""The program that does what the machine does, every word counted where it moves."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.faithful.main_part import (
        extremes as extremes,
        has_floors as has_floors,
        includes as includes,
        main_text as main_text,
    )
    from polymap.codegen.faithful.program import lower_faithful as lower_faithful
