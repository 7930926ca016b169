"""Runs the preprocessor over one file: directives in order, macros as they stand at each line.

No include is followed. What the text alone does not decide is read as a compiler without options has it, and noted
(`Group.assumed`), or left out, and noted as well (`Group.undecided`): whether that matters is for `decisions`.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from polymap.inputs import shown
from polymap.ir import InputError, Mistake
from polymap.workload.c.conditions import Group, WrongConditionError, decided
from polymap.workload.c.macros import Expander, Macro, macro_of, macros_of_header, same_number
from polymap.workload.c.words import (
    LogicalLine,
    Token,
    is_word,
    logical_lines,
    plain_lines,
    tokens_of,
    without_comments,
)
from polymap.workload.tuning import TUNING

_PARTS = re.compile(r"[ \t\f\v]*#[ \t\f\v]*([A-Za-z_]*)(.*)", re.DOTALL)
_SCOP = re.compile(r"[ \t]*(scop|endscop)\b")
_BAD_PRAGMA = re.compile(r"[ \t]*(push_macro|pop_macro)\b")
_STANDARD_HEADERS = frozenset(
    word
    for words in (
        "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg",
        "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype omp",
        "unistd sys/time sys/types sys/resource sys/stat malloc memory strings alloca sched pthread",
        "immintrin x86intrin xmmintrin emmintrin",
    )
    for word in words.split()
)
_HEADER = re.compile(r"[ \t]*<([A-Za-z0-9_/]+)\.h>[ \t]*")
_NEVER = ("__cplusplus", "__OBJC__", "__ASSEMBLER__")  # C99 6.10.8: of other languages
_COMPILERS = re.compile(r"__\w*|_[A-Z]\w*|linux|unix|i386")
_OF_STANDARD_HEADERS = re.compile(
    r"M_\w+|\w+_(MAX|MIN|DIG|EPSILON|BIT|RADIX|WIDTH|EXP|MANT|INIT)|(NULL|NAN|INFINITY|EOF|I|bool|true|false|complex|"
    r"imaginary|assert|errno|offsetof|BUFSIZ|MAXFLOAT|major|minor|makedev|and|or|not|xor|compl|bitand|"
    r"bitor|and_eq|or_eq|xor_eq|not_eq|alignas|alignof|noreturn|thread_local|static_assert|stdin|stdout|stderr|alloca)|"
    r"(E|SIG|FE_|FP_|PRI|SCN|LC_|SEEK_|CLOCK|HUGE|FLT_|DBL_|LDBL_|INT|UINT|MATH_|TIME_|ATOMIC_|O_|S_)[A-Z0-9_]*\w*"
)


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive with its continuations joined, wherever it stands. height: how many lines of the text it takes."""

    line: int
    height: int
    word: str
    rest: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A line of text that is there, or not there, because of what groups were decided to be.

    branch: the line at which its branch of the innermost group begins.
    """

    line: int
    text: str
    groups: frozenset[Group]
    read: bool
    branch: int


@dataclass(frozen=True, slots=True)
class Change:
    """A definition (or, macro None, the end of one). read: it is in a branch that is read."""

    line: int
    name: str
    macro: Macro | None
    read: bool


@dataclass(frozen=True, slots=True)
class Expanded:
    """A file after the preprocessor; ends of lines are tokens of their own, as many as in the user's text.

    marks: lines of `#pragma scop` and `#pragma endscop`. lines: the user's, comments blanked. live: the same, with
    directives and what is not read blanked too. uses: (line, groups) where a macro's meaning depends on these. always:
    groups that matter whatever is read. includes: lines of `#include` that are, or may be, obeyed.
    """

    tokens: list[str]
    marks: tuple[int, ...]
    lines: tuple[str, ...]
    live: tuple[str, ...]
    directives: tuple[Directive, ...]
    groups: tuple[Group, ...]
    uncertain: tuple[Uncertain, ...]
    uses: tuple[tuple[int, frozenset[Group]], ...]
    always: frozenset[Group]
    changes: tuple[Change, ...]
    includes: tuple[int, ...]

    def macros_at(self, line: int) -> dict[str, Macro]:
        """Return the macros of the text that are in force above a line."""
        found: dict[str, Macro] = {}
        for change in self.changes:
            if change.line < line and change.read:
                found.pop(change.name, None)
                if change.macro is not None:
                    found[change.name] = change.macro
        return found

    def around(self, line: int) -> tuple[tuple[Group, int], ...]:
        """Return the groups that a line stands in, each with the number of the branch."""
        return tuple(
            (group, sum(branch < line for branch in group.branches) - 1)
            for group in self.groups
            if group.branches[0] < line < group.branches[-1]
        )


def expanded(source: str, sizes: Mapping[str, int], builtin: Mapping[str, Macro], file: str) -> Expanded:
    """Return a file's text after the preprocessor.

    sizes: names that stand for themselves, defined with these values. builtin: macros that headers, which are not
    followed, would define. Raises InputError for what no preprocessor reads, and for the little that this one does not.
    """
    plain = without_comments(source, file)
    walker = _Walker(sizes, builtin, file)
    for line in logical_lines(plain):
        walker.line(line)
    return walker.end(plain_lines(plain))


class _Branch(Enum):
    READ = "read"
    LEFT_OUT = "left out"
    MAYBE = "not known"


@dataclass(slots=True)
class _Open:
    """An open group. decides: it stands in text that is read, so that its conditions are asked."""

    group: Group
    branch: _Branch
    decides: bool
    over: bool = False  # no later branch can be read
    has_else: bool = False


@dataclass(slots=True)
class _Walker:
    sizes: Mapping[str, int]
    builtin: Mapping[str, Macro]
    file: str
    macros: dict[str, Macro] = field(default_factory=dict[str, Macro])
    ended: set[str] = field(default_factory=set[str])  # by #undef
    doubts: dict[str, frozenset[Group]] = field(default_factory=dict[str, "frozenset[Group]"])
    stack: list[_Open] = field(default_factory=list[_Open])
    groups: list[Group] = field(default_factory=list[Group])
    waiting: list[LogicalLine] = field(default_factory=list[LogicalLine])
    tokens: list[str] = field(default_factory=list[str])
    live: list[bool] = field(default_factory=list[bool])
    directives: list[Directive] = field(default_factory=list[Directive])
    uncertain: list[Uncertain] = field(default_factory=list[Uncertain])
    uses: list[tuple[int, frozenset[Group]]] = field(default_factory=list[tuple[int, "frozenset[Group]"]])
    always: set[Group] = field(default_factory=set[Group])
    changes: list[Change] = field(default_factory=list[Change])
    includes: list[int] = field(default_factory=list[int])
    given: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    foreign: str = ""  # the first header of the project's own
    has_header: bool = False
    opened: int = 0
    marks: list[int] = field(default_factory=list[int])
    call: tuple[str, int] | None = None  # a macro with parameters ended the text above a directive
    expander: Expander = field(init=False)

    def __post_init__(self) -> None:
        self.expander = Expander(self.file)

    # --- lines ---

    def line(self, line: LogicalLine) -> None:
        match = _PARTS.fullmatch(line.text) if line.is_directive else None
        is_read = match is None and self._text(line)
        self.live += [is_read] * line.height
        if match is None:
            self.waiting.append(LogicalLine(line.number, line.text if is_read else "", line.height))
            return
        self._flush()
        directive = Directive(line.number, line.height, match.group(1), match.group(2))
        self.directives.append(directive)
        self.tokens += [*self._directive(directive), *["\n"] * line.height]

    def _text(self, line: LogicalLine) -> bool:
        """Return whether a line of text is read."""
        read, doubted = self._standing()
        if read is not None and doubted and line.text.strip():
            branch = self.stack[-1].group.branches[-1]
            self.uncertain.append(Uncertain(line.number, line.text, doubted, read, branch))
            self._holds_more(doubted)
        return read is True

    def _standing(self) -> tuple[bool | None, frozenset[Group]]:
        """Return whether what stands here is read (None: no decision would let it be), and the groups that decide."""
        if any(each.branch is _Branch.LEFT_OUT and each.group.is_certain for each in self.stack):
            return None, frozenset()
        doubted = frozenset(each.group for each in self.stack if not each.group.is_certain)
        return all(each.branch is _Branch.READ for each in self.stack), doubted

    def _holds_more(self, groups: frozenset[Group]) -> None:
        for group in groups:  # any order: each is told
            group.only_changes = False

    def _flush(self) -> None:
        """Expand the lines of text since the last directive."""
        if not self.waiting:
            return
        text = "".join(each.text + "\n" * each.height for each in self.waiting)
        first, self.waiting = self.waiting[0].number, []
        tokens = [Token(each) for each in tokens_of(text)]
        visible = [each.text for each in tokens if not each.text.isspace()]
        if not visible:
            self.tokens += [each.text for each in tokens]
            return
        if self.call is not None and visible[0] == "(":
            raise self._wrong(f"a directive stands in the call of the macro {shown(self.call[0])}", self.call[1], "")
        macros = ChainMap(self.macros, {name: each for name, each in self.builtin.items() if self._is_open(name)})
        found = self.expander.expand(tokens, macros, first, self._note)
        self.tokens += [each.text for each in found if each.text]
        last = next((each for each in reversed(found) if not each.text.isspace() and each.text), None)
        macro = None if last is None or last.text in last.hidden else macros.get(last.text)
        self.call = (last.text, first) if last and macro and macro.parameters is not None else None

    def _note(self, name: str, line: int) -> None:
        if name in self.doubts:
            self.uses.append((line, self.doubts[name]))

    def _is_open(self, name: str) -> bool:
        return name not in self.ended and name not in self.macros and name not in self.sizes

    # --- directives ---

    def _directive(self, directive: Directive) -> list[str]:
        """Obey a directive; return the mark of a region, of other directives nothing."""
        word, rest, number = directive.word, directive.rest, directive.line
        if word in ("if", "ifdef", "ifndef"):
            self._opens(directive)
        elif word in ("elif", "elifdef", "elifndef", "else"):
            self._continues(directive)
        elif word == "endif":
            self._closes(number)
        else:
            read, doubted = self._standing()
            if read is None:
                return []
            if word in ("define", "undef"):
                self._changes(directive, doubted, read=read)
            elif word in ("include", "include_next", "import"):
                self._include(rest, number, doubted, read=read)
            elif word == "pragma":
                return self._pragma(rest, number, doubted, read=read)
            elif word == "error" and read:
                what = f"'#error{' ' + rest.strip() if rest.strip() else ''}' is reached"
                raise self._wrong(
                    what[:200], number, "Give the sizes that it asks for (N=64), or define what it tests."
                )
            elif read and word not in ("line", "", "warning", "ident"):
                raise self._wrong(
                    f"the directive '#{word[:40]}' is not read", number, "#define and #include are known."
                )
        return []

    def _pragma(self, rest: str, number: int, doubted: frozenset[Group], *, read: bool) -> list[str]:
        if found := _BAD_PRAGMA.match(rest):
            raise self._wrong(f"'#pragma {found.group(1)}' is not read", number, "Use #undef and #define.")
        mark = _SCOP.match(rest)
        if mark is None:
            self._holds_more(doubted)
            return []
        self.always |= doubted
        if not read:
            return []
        word = mark.group(1)
        opens = word == "scop"
        if opens == bool(self.opened) or (opens and self.marks):
            found = "a second '#pragma scop'" if opens else "'#pragma endscop' without its '#pragma scop'"
            raise self._wrong(f"{found} was found", number, "One region is read.")
        self.opened = number if opens else 0
        self.marks.append(number)
        return ["#", "pragma", " ", word]

    def _include(self, rest: str, number: int, doubted: frozenset[Group], *, read: bool) -> None:
        self._holds_more(doubted)
        header = _HEADER.fullmatch(rest)
        standard = header is not None and header.group(1) in _STANDARD_HEADERS
        if not standard and not read:
            self.always |= {each for each in doubted if not each.undecided}
        if read and standard and header is not None:
            self.builtin = {**self.builtin, **macros_of_header(header.group(1))}
        if read or any(each.undecided for each in doubted):
            self.has_header = True
            self.includes.append(number)
            if not standard:
                self.foreign = self.foreign or rest.strip()

    def _changes(self, directive: Directive, doubted: frozenset[Group], *, read: bool) -> None:
        """Obey #define and #undef."""

        def refuse(what: str, hint: str) -> InputError:
            return self._wrong(what, directive.line, hint)

        macro: Macro | None = None
        if directive.word == "define":
            name, macro = macro_of(directive.rest, refuse)
        else:
            name = directive.rest.strip()
            if not is_word(name):
                raise refuse("'#undef' is not followed by one name", "Write it as #undef N.")
        if macro is not None and not read and same_number(macro, self.builtin.get(name)):
            return  # `#ifndef M_PI`: whoever defines it, it is this
        self.changes.append(Change(directive.line, name, macro, read))
        for group in doubted:  # any order: each is told
            group.changes.add(name)
        before = self.doubts.pop(name, frozenset())
        if doubted:
            self.doubts[name] = before | doubted
        if read:
            self._set(name, macro, directive.line)

    def _set(self, name: str, macro: Macro | None, line: int) -> None:
        if name in self.sizes and macro is not None:
            if self.given.setdefault(name, macro.body) != macro.body:
                what = f"the size {shown(name)} is given, and {self.file} defines it twice, differently"
                raise InputError(
                    Mistake("PM264", f"{what} ({self.file}:{line})", "Give the two uses names of their own.")
                )
            self.ended.discard(name)
        elif macro is None:
            self.macros.pop(name, None)
            self.ended.add(name)
        else:
            self.macros[name] = macro
            self.ended.discard(name)

    # --- conditions ---

    def _opens(self, directive: Directive) -> None:
        read, doubted = self._standing()
        self._holds_more(doubted)
        group = Group(directive.line, f"#{directive.word}{directive.rest.rstrip()}", branches=[directive.line])
        self.groups.append(group)
        if len(self.groups) > TUNING.most_conditions:
            what = f"{self.file} has more than {TUNING.most_conditions:,} conditions"
            raise InputError(Mistake("PM151", what, "Keep the loop nest."))
        if read is not True:
            self.stack.append(_Open(group, _Branch.LEFT_OUT if read is None else _Branch.READ, decides=False))
            return
        self.stack.append(_Open(group, _Branch.LEFT_OUT, decides=True))
        self._ask(directive, self.stack[-1])

    def _continues(self, directive: Directive) -> None:
        word, number = directive.word, directive.line
        if not self.stack:
            raise self._wrong(f"'#{word}' has no '#if'", number, "Remove it.")
        top = self.stack[-1]
        if top.has_else:
            raise self._wrong(f"'#{word}' stands behind '#else'", number, "Remove it.")
        top.group.branches.append(number)
        top.has_else = word == "else"
        if not top.decides:
            return
        if top.over:
            top.branch = _Branch.LEFT_OUT
        elif word == "else":
            top.branch = _Branch.MAYBE if top.group.undecided else _Branch.READ
        else:
            maybe = top.group.undecided
            self._ask(directive, top)
            if maybe and top.branch is _Branch.READ:
                top.branch = _Branch.MAYBE

    def _closes(self, number: int) -> None:
        if not self.stack:
            raise self._wrong("'#endif' has no '#if'", number, "Remove it.")
        self.stack.pop().group.branches.append(number)

    def _ask(self, directive: Directive, top: _Open) -> None:
        """Decide a branch by its condition."""
        word, rest, group = directive.word, directive.rest, top.group
        question = _Question(self, group)
        try:
            if word in ("if", "elif"):
                value = question.value(rest, directive.line)
            else:
                name = rest.split()[:1]
                if not name or not is_word(name[0]):
                    raise WrongConditionError("a name is missing")
                known = question.is_defined(name[0])
                value = None if known is None else int(known == (word in ("ifdef", "elifdef")))
        except WrongConditionError as error:
            raise self._wrong(f"'#{word}' cannot be decided: {error}", directive.line, "") from None
        if value is None:
            group.undecided = group.undecided or question.reason or "it divides by zero"
        top.branch = _Branch.MAYBE if value is None else _Branch.READ if value else _Branch.LEFT_OUT
        top.over = bool(value)

    def end(self, lines: Sequence[str]) -> Expanded:
        """Return the whole; refuse a region and conditions that are still open."""
        self._flush()
        if self.opened:
            raise self._wrong("'#pragma scop' is never closed", self.opened, "Put '#pragma endscop' behind the nest.")
        if self.stack:
            raise self._wrong("a condition has no '#endif'", self.stack[-1].group.line, "Close it.")
        return Expanded(
            self.tokens[:-1],
            tuple(self.marks),
            tuple(lines),
            tuple(line if is_read else "" for line, is_read in zip(lines, self.live, strict=True)),
            tuple(self.directives),
            tuple(self.groups),
            tuple(self.uncertain),
            tuple(self.uses),
            frozenset(self.always),
            tuple(self.changes),
            tuple(self.includes),
        )

    def _wrong(self, what: str, number: int, hint: str) -> InputError:
        return InputError(Mistake("PM152", f"{what} ({self.file}:{number})", hint))


@dataclass(slots=True)
class _Question:
    """What a condition looks up, noted in its group. reason: why something is not known."""

    walker: _Walker
    group: Group
    reason: str = ""

    def is_defined(self, name: str) -> bool | None:
        """Return whether a name is a macro, None where the text does not tell."""
        walker = self.walker
        if not self._depends(name):
            return None
        if name in walker.sizes and name not in walker.ended:
            self.group.assumed[name] = walker.sizes[name]
            return True
        if name in walker.macros or name in walker.ended or name in _NEVER:
            return name in walker.macros
        if reason := self._unknown(name):
            self.reason = self.reason or reason
            return None
        self.group.assumed[name] = None
        return False

    def _depends(self, name: str) -> bool:
        """Note the groups that decide what a name means; return whether all are decided."""
        found = self.walker.doubts.get(name, frozenset())
        self.group.behind |= found
        undecided = min(((each.line, each.undecided) for each in found if each.undecided), default=(0, ""))[1]
        self.reason = self.reason or undecided
        return not undecided

    def _unknown(self, name: str) -> str:
        if _COMPILERS.fullmatch(name):
            return f"the compiler tells what {shown(name)} is"
        if self.walker.foreign:
            return f"{self.walker.foreign}, which is not followed, may define {shown(name)}"
        if self.walker.has_header and _OF_STANDARD_HEADERS.fullmatch(name):
            return f"a header may define {shown(name)}"
        return ""

    def value(self, text: str, line: int) -> int | None:
        """Return the value of the expression of #if, None where the text does not tell."""
        walker = self.walker
        tokens = self._without_defined([each for each in tokens_of(text) if not each.isspace()])
        full = walker.expander.expand([Token(each) for each in tokens], walker.macros, line, self._note)
        return decided([each.text for each in full if each.text], self._number)

    def _note(self, name: str, line: int) -> None:
        assert line  # the first line is 1
        self._depends(name)

    def _without_defined(self, tokens: list[str]) -> list[str]:
        """Return the tokens with 0, 1 or, where it is not known, `defined` for `defined X`."""
        out, place = list[str](), 0
        while place < len(tokens):
            if tokens[place] != "defined":
                out += [tokens[place], " "]
                place += 1
                continue
            length = 4 if tokens[place + 1 : place + 2] == ["("] else 2
            name = tokens[place + length // 2 : place + length // 2 + 1]
            if not name or not is_word(name[0]) or (length == 4 and tokens[place + 3 : place + 4] != [")"]):
                raise WrongConditionError("'defined' is not followed by a name")
            known = self.is_defined(name[0])
            out += ["defined" if known is None else str(int(known)), " "]
            place += length
        return out

    def _number(self, name: str) -> int | None:
        if name == "defined" or not self._depends(name):
            return None
        walker = self.walker
        if name in walker.sizes and name not in walker.ended:
            self.group.assumed[name] = walker.sizes[name]
            return walker.sizes[name]
        return None if self.is_defined(name) is None else 0
