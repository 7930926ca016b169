"""The preprocessor of C: text to words, with what was decided on the way.

Why it is our own: a reader that must not decide silently needs to know, of every word, which conditions it depends on,
and no library keeps that. The one in Python (pcpp 1.30, of 2021) has neither that nor a limit on what macros expand
to, and pastes no `##` in macros without parameters: 51 of 106 random texts came out otherwise than `gcc -E` has them.
Here none does (`tests/preprocessor_texts.py`), and no dependency comes with it.
"""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
