"""Random C functions full of macros and conditions, and the options that they are compiled with."""

# ruff: noqa: E501  # tables of texts read best unbroken

from __future__ import annotations

import random

HEADER = "#define HEADER 1\n#define HN 6\n#ifdef FAST\n#define HFAST 2\n#endif\n#ifndef T\n#define T 8\n#endif\n"
SETTINGS: tuple[tuple[str, ...], ...] = (
    (),
    ("-DN=7",),
    ("-DN=2+3",),
    ("-DFAST",),
    ("-DMODE=2", "-DM=4"),
    ("-DS=5", "-DT=1"),
    ("-fopenmp", "-DMODE"),
    ("-DKIND=long", "-DFAST", "-DN=11"),
    ("-UFAST", "-DSTEP(x)=((x)+7)", "-DM=9u"),
)
_VALUES = ("S", "T")
_SIZES = ("N", "M")


class ProgramMaker:
    """Writes a function `NAME(int n, int A[100], int B[100])` whose loops stay inside the arrays under all settings."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.name = f"f{seed}"
        self.is_marked = self.draw.random() < 0.4
        self.lines: list[str] = []

    def text(self) -> str:
        self.head()
        if self.draw.random() < 0.2:
            self.guarded_function()
        head = self.draw.choice(("void NAME(int n, int A[100], int B[100]) {", "void NAME(int n, int *A, int *B)\n{"))
        self.lines.append(head.replace("NAME", self.name))
        self.lines += ["  KIND k;"] if self.draw.random() < 0.3 and not self.is_marked else []
        if self.is_marked:
            self.lines += ["  int m = 3;", "#ifdef _OPENMP", "  double begun = 1;", "#endif", "#pragma scop"]
        self.statements(self.draw.randint(0, 3), 0)
        self.loop(0)
        self.statements(self.draw.randint(0, 2), 0)
        if self.is_marked:
            self.lines += ["#pragma endscop", f"  A[0] += {self.value()} + m;"]
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    # --- definitions ---

    def head(self) -> None:
        if self.draw.random() < 0.3:
            self.lines.append(self.draw.choice(("#include <math.h>", "#include <stdio.h>", '#include "own.h"')))
        self.define("N", ("12", "(6 + 3)", "9", "0x8"))
        self.define("M", ("5", "N", "(N - 2)", "6"))
        self.define("S", ("3", "(N + 1)", "T", "-2", "T + 1"))
        self.define("T", ("4", "S", "2"))
        self.define("KIND", ("int", "long"))
        self.define(
            "STEP(x)", ("((x) + 1)", "(S + (x))", "x * 2", "((x) ## 1)" if self.draw.random() < 0.1 else "(2 * (x))")
        )
        self.define(
            "ADD(p, q)",
            ("((p) + (q))", "p - STEP(q)", "(p) + \\\n  (q)", "ADD(p, q) + 1" if self.draw.random() < 0.1 else "(q)"),
        )
        self.lines.append("#define AT(v, ...) v[__VA_ARGS__]")
        for _ in range(self.draw.randint(0, 2)):
            self.between()
        if self.draw.random() < 0.3:
            self.lines += [f"#if {self.condition()}", "#define EXTRA 1", "#else", "#define EXTRA 2", "#endif"]
        else:
            self.lines.append(self.draw.choice(("#define EXTRA 3", "#define EXTRA S", "#define EXTRA /* none\n */ 4")))

    def define(self, name: str, bodies: tuple[str, ...]) -> None:
        plain = f"#define {name} {self.draw.choice(bodies)}"
        bare = name.split("(")[0]
        kind = self.draw.random()
        if kind < 0.35:
            self.lines += [f"#ifndef {bare}", plain, "#endif"]
        elif kind < 0.45:
            self.lines += [f"#if !defined({bare}) || defined(FAST)", f"#undef {bare}", plain, "#endif"]
        elif kind < 0.55:
            self.lines += ["#ifdef FAST", plain, "#else", f"#define {name} {self.draw.choice(bodies)}", "#endif"]
        else:
            self.lines += [f"#undef {bare}", plain]

    def between(self) -> None:
        """Write a directive that changes what a name means."""
        name = self.draw.choice((*_VALUES, "EXTRA", "M"))
        new = self.draw.choice(("1", "6", "(N - 1)", "n") if name != "M" else ("4", "7"))
        plain = [f"#undef {name}", f"#define {name} {new}"]
        if self.draw.random() < 0.3:
            plain = [f"#if {self.condition()}", *plain, "#endif"]
        self.lines += plain

    def condition(self) -> str:
        choices = (
            "defined(FAST)", "!defined FAST", "MODE", "MODE > 1", "N > 8", "defined(MODE) && MODE == 2", "0", "1", "T < 3",
            "defined(EXTRA)", "M == 5 || defined(FAST)", "defined _OPENMP", "HEADER", "defined(__GNUC__)", "N % 2 ? 1 : MODE",
            "-1 < M", "defined(HFAST) || S == 3",
        )  # fmt: skip
        return self.draw.choice(choices[:11] if self.draw.random() < 0.93 else choices)

    def guarded_function(self) -> None:
        test = self.draw.choice(("FAST", "_OPENMP", "TEST_MAIN"))
        self.lines += [f"#ifdef {test}", "static int other(int z) { return z + S; }", "#endif"]

    # --- statements ---

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            kind = self.draw.random()
            if kind < 0.2:
                self.between()
            elif kind < 0.4:
                self.conditional(depth)
            elif depth < 2 and kind < 0.8:
                self.loop(depth)
            else:
                self.assignment(depth)
        self.assignment(depth)

    def loop(self, depth: int) -> None:
        name = "ij"[depth]
        bound = self.draw.choice((*_SIZES, "N - 1", "n", "M + 2", "ADD(N, 1)", "5"))
        self.lines.append(f"  for (int {name} = 0; {name} < {bound}; {name}++) {{")
        self.statements(self.draw.randint(0, 2), depth + 1)
        self.lines.append("  }")

    def conditional(self, depth: int) -> None:
        self.lines.append(
            f"#if {self.condition()}" if self.draw.random() < 0.7 else self.draw.choice(("#ifdef FAST", "#ifndef MODE"))
        )
        self.assignment(depth)
        if self.draw.random() < 0.3:
            self.lines.append(f"#elif {self.condition()}")
            self.assignment(depth)
        if self.draw.random() < 0.6:
            self.lines.append("#else")
            self.assignment(depth)
        self.lines.append("#endif")

    def assignment(self, depth: int) -> None:
        subscript = self.draw.choice(
            (("2", "N", "EXTRA + 3"), ("i", "i + 1", "STEP(i)"), ("i", "j", "i + j", "2 * j"))[depth]
        )
        target = self.draw.choice((f"A[{subscript}]", f"AT(B, {subscript})"))
        sign = self.draw.choice(("=", "+=", "-="))
        line = f"    {target} {sign} {self.value()} + A[{self.draw.choice(('1', 'i')[: depth + 1])}] + ADD({self.value()}, {self.value()});"
        self.lines.append(line + self.draw.choice(("", "", " // S", " /* #define S 9 */", " /* a\n#define S 9\n b */")))

    def value(self) -> str:
        return self.draw.choice(
            ("S", "T", "EXTRA", "2", "STEP(S)", "ADD(T, EXTRA)", "ADD(STEP(1),\n  2)", "N", "M", "-S")
        )
