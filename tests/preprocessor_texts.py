"""Random texts for the preprocessor; what `gcc -E` makes of them is right."""

# ruff: noqa: E501, SIM905  # tables of texts read best unbroken

from __future__ import annotations

import random
import re

_OBJECTS, _CALLS, _OPEN = ("A", "B", "C", "D"), ("F", "G", "H", "V"), ("X", "Y")
TOKEN = re.compile(
    r"[A-Za-z_]\w*|\.?[0-9](?:[eEpP][+-]|[\w.])*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||##|[^\s]"
)


class TextMaker:
    """Writes lines of directives and words: every kind of directive and macro, nested conditions, comments."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lines: list[str] = []
        self.calls: dict[str, int] = {}

    def text(self) -> str:
        self.block(self.draw.randint(6, 16), 0)
        return "\n".join(self.lines) + "\n"

    def block(self, length: int, depth: int) -> None:
        for _ in range(length):
            kind = self.draw.choices(("words", "define", "undef", "if"), (5, 5, 1, 2 if depth < 3 else 0))[0]
            if kind == "words":
                self.lines.append(self.broken(self.phrase(6)))
            elif kind == "define":
                self.define()
            elif kind == "undef":
                self.lines.append(f"# undef {self.draw.choice((*_OBJECTS, *_CALLS))}{self.comment()}")
            else:
                self.condition(depth)

    def comment(self) -> str:
        return self.draw.choice(("", "", "", " // F(1) \" '", " /* A */", " /* B\n#define A 77\n*/ "))

    def broken(self, line: str) -> str:
        """Return a line, now and then continued, commented, or with a call over several lines."""
        if self.draw.random() < 0.15:
            at = self.draw.randrange(len(line) + 1)
            line = line[:at] + "\\\n" + line[at:]
        return line + self.comment()

    def word(self) -> str:
        kind = self.draw.random()
        if kind < 0.35:
            return self.draw.choice(_OBJECTS)
        if kind < 0.55:
            return self.call(2)
        if kind < 0.6:
            return self.draw.choice(_CALLS)
        if kind < 0.7:
            return self.draw.choice(_OPEN)
        return self.draw.choice(("1", "2", "x", "yy", "+", "-", "*", "(", ")", ";", '"A B"', "'A'", "3.5e+1", "."))

    def call(self, depth: int) -> str:
        name = self.draw.choice(_CALLS)
        count = self.calls.get(name, 1) + (self.draw.random() < 0.05)
        blank = self.draw.choice(("", "", " ", "\n"))
        return f"{name}{blank}({self.draw.choice((',', ', ', ' , ', ',' + blank)).join(self.argument(depth) for _ in range(count))})"

    def argument(self, depth: int) -> str:
        if depth and self.draw.random() < 0.3:
            return self.call(depth - 1)
        return self.draw.choice((*_OBJECTS, "1", "z", "-1", "", "(A, 2)", "+", "F", "z A", '"A"', "B C"))

    def phrase(self, most: int) -> str:
        return " ".join(self.word() for _ in range(self.draw.randint(1, most)))

    def define(self) -> None:
        name = self.draw.choice((*_OBJECTS, *_CALLS))
        if name in _OBJECTS:
            self.lines.append(f"#define {name} {self.body((), 4)}{self.comment()}")
            return
        count = self.draw.randint(0, 2)
        words = ["p", "q"][:count]
        rest = name == "V"
        self.calls[name] = count + rest
        shown = ",".join([*words, *(["..."] if rest else [])])
        self.lines.append(f"#  define {name}({shown}) {self.body((*words, *(['__VA_ARGS__'] if rest else [])), 5)}")

    def body(self, words: tuple[str, ...], most: int) -> str:
        parts: list[str] = []
        for _ in range(self.draw.randint(0, most)):
            kind = self.draw.random()
            if words and kind < 0.4:
                parts.append(self.draw.choice(words))
            elif words and kind < 0.47:
                parts.append("#" + self.draw.choice(("", " ")) + self.draw.choice(words))
            elif kind < 0.56:
                sides = (*words, *words, "x", "A", "1")
                parts.append(self.draw.choice(sides) + self.draw.choice(("##", " ## ")) + self.draw.choice(sides))
            elif kind < 0.6 and "__VA_ARGS__" in words:
                parts.append(", ## __VA_ARGS__")
            else:
                parts.append(self.word().replace("\n", " "))
        return " ".join(parts)

    # --- conditions ---

    def condition(self, depth: int) -> None:
        name = self.draw.choice((*_OBJECTS, *_CALLS, *_OPEN))
        first = self.draw.choice((f"#ifdef {name}", f"#ifndef {name}", f"#if {self.expression(3)}", "#if 0"))
        self.lines.append(first + self.comment())
        self.block(self.draw.randint(0, 4), depth + 1)
        for _ in range(self.draw.choice((0, 0, 1, 2))):
            self.lines.append(f"#elif {self.expression(3)}")
            self.block(self.draw.randint(0, 3), depth + 1)
        if self.draw.random() < 0.5:
            self.lines.append("#else")
            self.block(self.draw.randint(0, 4), depth + 1)
        self.lines.append("#endif" + self.comment())

    def expression(self, depth: int) -> str:
        if depth == 0 or self.draw.random() < 0.2:
            return self.draw.choice(
                (
                    "0",
                    "1",
                    "2",
                    "7u",
                    "0x10",
                    "010",
                    "'a'",
                    "X",
                    "-1",
                    "defined A",
                    "defined(B)",
                    "defined X",
                    "(A+1)",
                    "1L",
                )
            )
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        sign = self.draw.choice("+ - * / % < <= > >= == != && || & | ^ << >> ?: ! ~".split())
        if sign == "?:":
            return f"({one} ? {two} : {self.expression(depth - 1)})"
        return f"{sign}({one})" if sign in "!~" else f"({one} {sign} {two})" if depth % 2 else f"{one} {sign} {two}"
