"""C text after the system's preprocessor: macros, conditions and the project's own headers.

What comes from the system's headers is left out again: only the macros that they define matter, and they are replaced
by then. Lines keep their numbers, so that messages name the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from polymap.codegen.compile import find_compiler, plain_english
from polymap.codegen.tuning import TUNING
from polymap.inputs import answers_in_words, read_text, shown
from polymap.ir import CompilerError, Mistake, OptionError
from polymap.resources import Caps, run_within

_MARKER = re.compile(r'#\s+(\d+)\s+"((?:[^"\\]|\\.)*)"([ \d]*)')
_FLAG = re.compile(r"-[DU][A-Za-z_][A-Za-z0-9_]*(=[^\0]*)?|-I[^\0]+")
_LIMITS = Caps(cpu_s=60)
_SYSTEM = "3"  # the mark of lines from the system's headers


@answers_in_words
def preprocessed(path: str | Path, flags: Iterable[str] = ()) -> str:
    """Return the text of a C file after `cc -E`, as `from_c` reads it.

    flags: definitions and folders of headers: "-DNAME=VALUE", "-UNAME", "-Ifolder". Raises OptionError for other flags,
    InputError where the file cannot be read, CompilerError where there is no compiler (PM602) or it refuses (PM605).
    """
    words = tuple(flags)
    wrong = [word for word in words if not isinstance(word, str) or _FLAG.fullmatch(word) is None]  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong:
        hint = "Expected -DNAME=TEXT (--define NAME=TEXT), -UNAME or -Ifolder (--include folder)."
        raise OptionError(
            [Mistake("PM605", f"the preprocessor's flag {shown(word)} is not passed on", hint) for word in wrong]
        )
    read_text(str(path))
    place = Path(path).absolute()
    command = (find_compiler(), "-E", "-x", "c", *words, str(place))
    try:
        done = run_within(_LIMITS, command, variables=plain_english())
    except OSError as error:
        raise CompilerError(Mistake("PM605", f"the preprocessor does not run: {error}")) from error
    if done.took_too_long:
        raise CompilerError(Mistake("PM605", f"the preprocessor did not finish within {_LIMITS.cpu_s:g} s"))
    if done.code != 0:
        said = (
            done.complaint.decode("utf-8", "replace")[: TUNING.shown_characters].strip().replace(str(place), place.name)
        )
        hint = "Name the folders of headers (-I, --include), and what the build defines (-D, --define)."
        raise CompilerError(Mistake("PM605", f"the preprocessor refuses {shown(place.name)}: {said}", hint))
    return _own_lines(done.printed.decode("utf-8", "replace"))


def _own_lines(output: str) -> str:
    """Return the lines of the file itself at their own numbers, and on the line of an #include what it brings."""
    own: dict[int, str] = {}
    main, here, number, last = "", "", 1, 0
    is_system = False
    for line in output.splitlines():
        marker = _MARKER.match(line)
        if marker is not None:
            number, here = int(marker.group(1)), marker.group(2)
            main, is_system = main or here, _SYSTEM in marker.group(3).split()
            continue
        if here == main:
            own[number] = own.get(number, "") + line
            last = number
        elif not is_system and not here.startswith("<") and line.strip() and not line.lstrip().startswith("#"):
            own[last] = own.get(last, "") + " " + line.strip()
        number += 1
    return "\n".join(own.get(number, "") for number in range(1, max(own, default=0) + 1)) + "\n"
