"""The preprocessor of C: text to words, with what was decided on the way.

Why it is our own: a reader that must not decide silently needs to know, of every word, which conditions it depends on,
and no library keeps that. The one in Python (pcpp 1.30, of 2021) has neither that nor a limit on what macros expand
to, and pastes no `##` in macros without parameters: 51 of 106 random texts came out otherwise than `gcc -E` has them.
Here none does (`tests/preprocessor_texts.py`), and no dependency comes with it.
"""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.workload.preprocessor.conditions import Group as Group
    from polymap.workload.preprocessor.decisions import (
        Assumption as Assumption,
        Interest as Interest,
        Part as Part,
        assumptions as assumptions,
        identifiers as identifiers,
        undecided_error as undecided_error,
    )
    from polymap.workload.preprocessor.directives import Expanded as Expanded, expanded as expanded
    from polymap.workload.preprocessor.macros import Macro as Macro
