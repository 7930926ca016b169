"""Functions of MLIR's affine dialect as C: loops, conditions, loads and stores, and the arithmetic between them.

What is read: affine.for (with iter_args), affine.parallel, affine.if, affine.load, affine.store, affine.apply,
affine.min, affine.max, memref.alloc, memref.alloca, memref.dim, and operations of arith and math on numbers. A value
that is loaded is read where it is used; where a store or another block lies between, it is kept in a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from polymap.inputs import LIMITS, answers_in_words, expected_text, shown
from polymap.ir import InputError, Mistake, Workload
from polymap.workload.c import KEYWORDS
from polymap.workload.mlir_text import Cursor, Map, Token, nested, tokens_of
from polymap.workload.tuning import TUNING

_OPERATION = re.compile(r"\"?[a-z_]\w*\.[a-z_][\w.]*\"?")
_MEMREF = re.compile(r"memref<((?:(?:\d+|\?)x)*)(\w+)>")
_TYPES = {
    "f32": "float", "f64": "double", "i1": "int", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long",
    "ui8": "unsigned char", "ui16": "unsigned short", "ui32": "unsigned", "ui64": "unsigned long", "index": "int",
}  # fmt: skip
_INFIX = {"addf": "+", "addi": "+", "subf": "-", "subi": "-", "mulf": "*", "muli": "*", "divf": "/", "divsi": "/",
          "remsi": "%"}  # fmt: skip
_CHOICES = {"maximumf": "fmax", "maxnumf": "fmax", "minimumf": "fmin", "minnumf": "fmin"}
_ORDERS = {"maxsi": ">", "minsi": "<"}
_COMPARISONS = {
    "cmpi": {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="},
    "cmpf": {"oeq": "==", "une": "!=", "olt": "<", "ole": "<=", "ogt": ">", "oge": ">="},
}
_NARROW = ("i8", "i16")
"""Integers that C computes in int: results wrap around only where they are cast."""
_CASTS = ("extf", "truncf", "sitofp", "fptosi", "extsi", "trunci", "index_cast")
_MATH = {"exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos", "absf": "fabs",
         "powf": "pow", "floor": "floor", "ceil": "ceil", "erf": "erf"}  # fmt: skip
_AFFINE = ("for", "parallel", "if", "load", "store", "apply", "min", "max", "yield")
_ARITH = ("constant", "negf", "cmpf", "cmpi", "select", *_INFIX, *_CHOICES, *_ORDERS, *_CASTS)
_MEMORY = ("alloc", "alloca", "dealloc", "dim")
_ROOMS = {"affine": _AFFINE, "arith": _ARITH, "math": tuple(_MATH), "memref": _MEMORY, "func": ("func", "return")}
_KNOWN = frozenset(["builtin.module", *(f"{room}.{name}" for room, names in _ROOMS.items() for name in names)])
_RESERVED = KEYWORDS | {"floord", "ceild", "max", "min"}


@dataclass(slots=True)
class _Value:
    """A value as C. reads: what it reads of memory: (name of the load, memref, version of the memref at that time)."""

    text: str
    kind: str
    block: int
    reads: frozenset[tuple[str, str, int]] = frozenset()


@answers_in_words
def affine_to_c(text: str, *, file: str = "the text") -> str:
    """Return a C function that does what a function of MLIR's affine dialect does.

    Sizes `?` of an argument `%A` become parameters `A_0`, `A_1`, ... arith.maximumf and minimumf become fmax and fmin,
    whose result is the other operand where one is NaN. Raises InputError (PM287) with the line for operations of other
    dialects and text that is none.
    """
    text = expected_text(text, "the MLIR text", InputError)
    tokens = tokens_of(text, file)
    _refuse_others(tokens, file)
    kept: frozenset[str] = frozenset()
    while True:
        writer = _Writer(tokens, file, kept)
        lines = writer.module()
        if writer.kept == kept:
            return "\n".join((*lines, ""))
        kept = writer.kept


@answers_in_words
def workload_from_affine(
    text: str,
    sizes: Mapping[str, int] | None = None,
    *,
    name: str | None = None,
    file: str = "the text",
    associative: bool = True,
) -> Workload:
    """Return the loop nest of a function of MLIR's affine dialect: `from_c` of what `affine_to_c` writes, with values
    of its sizes. Raises what these raise; the lines in messages of `from_c` are those of the C text."""
    from polymap.workload.c import from_c

    return from_c(affine_to_c(text, file=file), sizes, name=name, file=f"{file} as C", associative=associative)


def _refuse_others(tokens: Sequence[Token], file: str) -> None:
    """Raise the mistakes of all operations that are not read, at once."""
    pairs = pairwise([*tokens, Token("", 0)])
    named = (each for each, after in pairs if re.fullmatch(_OPERATION, each.text) and after.text not in ("=", ",", "}"))
    others = [each for each in named if each.text not in _KNOWN]
    hint = "Loops, loads and stores of affine with arithmetic between them are; `from_linalg` reads linalg."
    told = [Mistake("PM287", f"{file}, line {each.line}: {shown(each.text)} is not read", hint) for each in others]
    if told:
        raise InputError(tuple(told[: TUNING.most_mistakes]))


class _Writer(Cursor):
    """Reads a module and writes lines of C. kept: the loads that are variables."""

    def __init__(self, tokens: Sequence[Token], file: str, kept: frozenset[str]) -> None:
        super().__init__(tokens, file)
        self.kept = kept
        self._values: dict[str, _Value] = {}
        self._shapes: dict[str, tuple[str, ...]] = {}
        self._versions: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._yielded: list[_Value] = []
        self._returned = False
        self._block = self._blocks = self._depth = 0

    def named(self, name: str) -> str:
        """Return the C name of a value: its own where that is free."""
        if name not in self._names:
            plain = re.sub(r"\W", "_", name[1:])
            plain = f"v{plain}" if plain[0].isdigit() else plain
            taken = {*self._names.values(), *_RESERVED}
            tries = (plain if not number else f"{plain}_{number + 1}" for number in range(len(taken) + 1))
            self._names[name] = next(each for each in tries if each not in taken)
        return self._names[name]

    # Modules and functions.

    def module(self) -> list[str]:
        """Return the lines of the one function that has a body."""
        found: list[list[str]] = []
        depth = 0
        while self.peek():
            word = self.take()
            if word.startswith("#"):
                self.take("=")
                self.maps[word] = self.map()
            elif word in ("module", "builtin.module"):
                while self.peek() not in ("{", ""):
                    if self.take() == "attributes":
                        self.skip()
                self.take("{")
                depth += 1
            elif word == "func.func":
                function = self.function()
                found += [function] if function else []
            elif word == "}" and depth:
                depth -= 1
            else:
                raise self.refusal(f"{shown(word)} begins no function")
        if depth:
            raise self.refusal("a module is not closed")
        if len(found) != 1:
            raise self.refusal(f"there are {len(found)} functions with a body", "Give the text of one.")
        return found[0]

    def function(self) -> list[str]:
        """Return the lines of a function, none without a body."""
        while self.peek() in ("private", "public", "nested"):
            self.take()
        if not self.peek().startswith("@"):
            raise self.refusal(f"{shown(self.peek())} stands where the name of a function is expected")
        name = re.sub(r"\W", "_", self.take()[1:]) or "f"
        arguments: list[str] = []
        if not self.peek(1).startswith("%"):
            self.skip()  # nothing, or the types of a declaration
        else:
            self.take("(")
        while self.peek(-1) != ")" and not self.takes(")"):
            arguments += self.argument()
            self.skip_attributes()
            if self.peek() != ")":
                self.take(",")
        if self.takes("->"):
            self.skip() if self.peek() == "(" else self.type()
        if self.takes("attributes"):
            self.skip()
        if self.peek() != "{":
            return []
        self.take("{")
        self._returned = False
        body = self.body()
        if not self._returned:
            raise self.refusal("the function ends without a return")
        head = f"void {name}({', '.join(sorted(arguments, key=lambda each: '[' in each))}) {{"
        return [head, *body, "}"]

    def argument(self) -> list[str]:
        """Return the parameters of C that an argument is."""
        word = self.take()
        if not word.startswith("%") or word in self._values or word in self._shapes:
            raise self.refusal(f"{shown(word)} names no argument, or a second one")
        self.take(":")
        kind = self.type()
        if not kind.startswith("memref"):
            self._values[word] = _Value(self.named(word), kind, 0)
            return [f"{self.c_type(kind)} {self.named(word)}"]
        sizes = [self.named(f"{word}#{axis}") for axis, size in self.axes(kind) if size == "?"]
        return [*(f"int {each}" for each in sizes), self.array(word, kind)]

    def array(self, word: str, kind: str) -> str:
        """Return the declaration of a memref, which is noted."""
        sizes = tuple(self.named(f"{word}#{axis}") if size == "?" else size for axis, size in self.axes(kind))
        self._shapes[word], self._versions[word], self._kinds[word] = sizes, 0, kind.replace(" ", "")
        element = _MEMREF.fullmatch(kind.replace(" ", ""))
        assert element is not None, "axes() has read the type"
        brackets = "".join(f"[{size}]" for size in sizes) or "[1]"
        return f"{self.c_type(element[2])} {self.named(word)}{brackets}"

    def axes(self, kind: str) -> list[tuple[int, str]]:
        """Return (number, size) of each axis of a memref."""
        found = _MEMREF.fullmatch(kind.replace(" ", ""))
        if found is None:
            raise self.refusal(f"the type {shown(kind)} is not read", "memrefs without layouts are.")
        return list(enumerate(found[1].split("x")[:-1]))

    def c_type(self, kind: str) -> str:
        """Return the type of C."""
        if kind not in _TYPES:
            raise self.refusal(f"the type {shown(kind)} is not read", f"{', '.join(_TYPES)} are.")
        return _TYPES[kind]

    # Blocks and operations.

    def body(self) -> list[str]:
        """Return the lines of a block, up to its closing brace, which is taken."""
        outer, self._blocks, values = self._block, self._blocks + 1, dict(self._values)
        self._block = self._blocks
        self._depth += 1
        if self._depth > LIMITS.depth:
            raise self.refusal(f"blocks inside each other, over {LIMITS.depth}")
        lines: list[str] = []
        while not self.takes("}"):
            lines += [f"  {line}" for line in self.operation()]
        self._block, self._depth, self._values = outer, self._depth - 1, values
        return lines

    def operation(self) -> list[str]:
        """Return the lines of an operation, and note its results."""
        results: list[str] = []
        if self.peek().startswith("%"):
            results.append(self.take())
            while self.takes(",") or self.peek() == ":":
                results.append(self.take() if self.peek() != ":" else self.take() + self.take())
            self.take("=")
        word = self.take()
        dialect, _, name = word.partition(".")
        if word in ("return", "func.return"):
            self.returned(results)
            return []
        none = dialect == "affine" and name in ("parallel", "if", "store", "yield")
        if word not in _KNOWN or dialect in ("func", "builtin"):
            raise self.refusal(f"{shown(word)} is not read")
        if (dialect, name) != ("affine", "for") and len(results) != (0 if none or name == "dealloc" else 1):
            hint = "Store them." if word == "affine.if" else ""
            raise self.refusal(f"{word} has {len(results)} results", hint)
        if any(each in self._values and self._values[each].block == self._block for each in results):
            raise self.refusal(f"{results[0]} is defined twice")
        if none or (dialect == "affine" and name in ("for", "load")):
            return getattr(self, f"affine_{name}")(results)
        if dialect == "memref":
            return self.memory(name, results)
        self._values[results[0]] = self.map_value(name) if dialect == "affine" else self.arithmetic(dialect, name)
        return []

    def returned(self, results: list[str]) -> None:
        """Note the end of the function."""
        if self.peek().startswith("%") or results:
            raise self.refusal("a function that returns values is not read", "Store them into an argument.")
        self.skip_attributes()
        if self._depth != 1 or self.peek() != "}":
            raise self.refusal("a return stands elsewhere than at the end of the function")
        self._returned = True

    def signature(self) -> list[str]:
        """Return the types behind operands: `: T, U` or `: T to U`."""
        self.skip_attributes()
        self.take(":")
        found = [self.type()]
        while self.peek() in (",", "to"):
            self.take()
            found.append(self.type())
        self.skip_attributes()
        return [each.replace(" ", "") for each in found]

    def expect(self, found: Sequence[str], expected: Sequence[str]) -> None:
        """Refuse types other than those of the operands."""
        if list(found) != list(expected):
            raise self.refusal(f"the types are {', '.join(found)}, and {', '.join(expected)} are expected")

    def use(self, word: str) -> _Value:
        """Return a value that is read here; a load that this is no longer true of becomes a variable."""
        if word not in self._values:
            raise self.refusal(f"{word} is not defined here, or is no number")
        value = self._values[word]
        stale = {name for name, memref, version in value.reads if self._versions[memref] != version}
        if value.block != self._block:
            stale = {name for name, _, _ in value.reads}
        self.kept |= stale
        return value

    def affine_load(self, results: list[str]) -> list[str]:
        word = self.take()
        text, kind = self.element(word)
        (name,) = results
        if name not in self.kept:
            self._values[name] = _Value(text, kind, self._block, frozenset(((name, word, self._versions[word]),)))
            return []
        self._values[name] = _Value(self.named(name), kind, self._block)
        return [f"{self.c_type(kind)} {self.named(name)} = {text};"]

    def affine_store(self, results: list[str]) -> list[str]:
        value = self.use(self.take())
        self.take(",")
        word = self.take()
        text, kind = self.element(word)
        self.expect([value.kind], [kind])
        self._versions[word] += 1
        return [f"{text} = {value.text};"]

    def element(self, word: str) -> tuple[str, str]:
        """Return an element of a memref and the type, from its subscripts on, up to the end of the operation."""
        if word not in self._shapes:
            raise self.refusal(f"{word} is no memref that is read")
        self.take("[")
        indices = self.listed(lambda: self.expression(self.index), "]")
        if len(indices) != len(self._shapes[word]):
            raise self.refusal(f"{word} has {len(self._shapes[word])} axes, not {len(indices)}")
        self.expect(self.signature(), [self._kinds[word]])
        found = _MEMREF.fullmatch(self._kinds[word])
        assert found is not None, "axes() has read the type"
        return self.named(word) + ("".join(f"[{each}]" for each in indices) or "[0]"), found[2]

    def index(self) -> str:
        """Return an operand of an affine expression: a value, symbol(value) or an integer."""
        word = self.take()
        if word == "symbol":
            self.take("(")
            word = self.take()
            self.take(")")
        if word.isdigit():
            return word
        return f"({text})" if not re.fullmatch(r"\w+", text := self.use(word).text) else text

    def memory(self, name: str, results: list[str]) -> list[str]:
        """Return the lines of an operation of memref."""
        if name == "dealloc":
            word = self.take()
            self.expect(self.signature(), [self._kinds.get(word, "a memref")])
            return []
        if name == "dim":
            word, _ = self.take(), self.take(",")
            axis = self.use(self.take()).text
            self.expect(self.signature(), [self._kinds.get(word, "a memref")])
            known = self._shapes.get(word, ())
            if not axis.isdigit() or int(axis) >= len(known):
                raise self.refusal(f"axis {axis} of {word} is not known")
            self._values[results[0]] = _Value(known[int(axis)], "index", self._block)
            return []
        sizes: list[str] = []
        if self.takes("("):
            sizes = self.listed(lambda: self.use(self.take()).text, ")")
        kind, *others = self.signature()
        (word,) = results
        declared = self.array(word, kind)
        if others or kind.count("?") != len(sizes):
            raise self.refusal(f"{len(sizes)} sizes for {shown(kind)}")
        for axis, size in self.axes(kind):
            if size == "?":
                free = self.named(f"{word}#{axis}")
                declared = declared.replace(f"[{free}]", f"[{(given := sizes.pop(0))}]", 1)
                self._shapes[word] = tuple(given if each == free else each for each in self._shapes[word])
        return [f"{declared};"]

    def affine_for(self, results: list[str]) -> list[str]:
        variable = self.take()
        self.take("=")
        low = self.bound("max")
        self.take("to")
        high = self.bound("min")
        step = self.take() if self.takes("step") else "1"
        lines, carried = self.carried(results)
        self.enter((variable,))
        name = self.named(variable)
        body = [*self.body(), *self.yielded(carried)]
        self.skip_attributes()
        return [*lines, f"for (int {name} = {low}; {name} < {high}; {name} += {step}) {{", *body, "}"]

    def carried(self, results: list[str]) -> tuple[list[str], list[str]]:
        """Return the lines that set variables for the values that a loop carries, and their names."""
        if not self.takes("iter_args"):
            return [], []
        inner: list[str] = []
        starts: list[_Value] = []
        self.take("(")

        def pair() -> str:
            inner.append(self.take())
            self.take("=")
            starts.append(self.use(self.take()))
            return ""

        self.listed(pair, ")")
        self.take("->")
        kinds = self.listed(self.type, ")") if self.takes("(") else [self.type()]
        self.expect([each.kind for each in starts], kinds)
        if not results or results[0].partition(":")[2] not in (str(len(inner)), "" if len(inner) == 1 else "-"):
            raise self.refusal(f"the loop carries {len(inner)} values, and has {len(results)} results")
        words = [results[0] if len(inner) == 1 else f"{results[0].partition(':')[0]}#{at}" for at in range(len(inner))]
        names = [self.named(word) for word in words]
        for word, name, kind in zip((*words, *inner), (*names, *names), (*kinds, *kinds), strict=True):
            self._values[word] = _Value(name, kind, self._block)
        lines = [
            f"{self.c_type(kind)} {name} = {start.text};"
            for kind, name, start in zip(kinds, names, starts, strict=True)
        ]
        return lines, names

    def yielded(self, carried: list[str]) -> list[str]:
        """Return the lines that set the variables of a loop to what its block, which ended here, has yielded."""
        texts, self._yielded = [each.text for each in self._yielded], []
        if len(texts) != len(carried):
            raise self.refusal(f"a block yields {len(texts)} values, not {len(carried)}")
        for place, text in enumerate(texts):
            if any(re.search(rf"\b{name}\b", text) for name in carried[:place]):
                raise self.refusal("a value that a loop carries follows from another one that it has just set")
        return [f"  {name} = {text};" for name, text in zip(carried, texts, strict=True)]

    def affine_yield(self, results: list[str]) -> list[str]:
        self._yielded = []
        while self.peek().startswith("%"):
            self._yielded.append(self.use(self.take()))
            if not self.takes(","):
                break
        if self._yielded:
            self.expect(self.signature(), [each.kind for each in self._yielded])
        else:
            self.skip_attributes()
        if self.peek() != "}":
            raise self.refusal("a yield stands elsewhere than at the end of its block")
        return []

    def enter(self, variables: Sequence[str]) -> None:
        """Note loop variables; what the loop stores may have changed when its block begins."""
        depth, at = 0, self.at
        while self.peek(at - self.at):
            text = self.tokens[at].text
            depth += (text == "{") - (text == "}")
            if text == "affine.store":
                memref = next((each.text for each in self.tokens[at + 2 : at + 4] if each.text in self._versions), "")
                self._versions |= {memref: self._versions[memref] + 1} if memref else {}
            at += 1
            if depth == 0 and text == "}":
                break
        for variable in variables:
            self._names.pop(variable, None)
            self._values[variable] = _Value(self.named(variable), "index", self._block)
        self.take("{")

    def affine_parallel(self, results: list[str]) -> list[str]:
        self.take("(")
        variables = self.listed(self.take, ")")
        self.take("=")
        self.take("(")
        lows = self.listed(lambda: self.expression(self.index), ")")
        self.take("to")
        self.take("(")
        highs = self.listed(lambda: self.expression(self.index), ")")
        steps = ["1"] * len(variables)
        if self.takes("step"):
            self.take("(")
            steps = self.listed(self.take, ")")
        if self.peek() != "{" or not len(variables) == len(lows) == len(highs) == len(steps):
            raise self.refusal("affine.parallel with reductions is not read", "Write it as affine.for with iter_args.")
        self.enter(variables)
        names = [self.named(each) for each in variables]
        lines, body = list[str](), self.body()
        for name, low, high, step in zip(names, lows, highs, steps, strict=True):
            lines.append(f"for (int {name} = {low}; {name} < {high}; {name} += {step}) {{")
        return [*lines, *body, "}" * len(names)]

    def affine_if(self, results: list[str]) -> list[str]:
        found = self.map()
        test = " && ".join(f"{text} {compare} 0" for text, compare in self.applied(found))
        if self.takes("attributes"):
            self.skip()
        self.take("{")
        lines = [f"if ({test}) {{", *self.body(), "}"]
        if self.takes("else"):
            self.take("{")
            lines += ["else {", *self.body(), "}"]
        return lines

    def bound(self, choose: str) -> str:
        """Return a bound of a loop."""
        several = self.takes(choose)
        if self.peek().startswith("#") or self.peek() in ("affine_map", "affine_set"):
            texts = [text for text, _ in self.applied(self.map())]
            if len(texts) != 1 and not several:
                raise self.refusal(f"a bound of {len(texts)} values without {choose}")
            return nested(choose, texts)
        sign = "-" if self.takes("-") else ""
        return sign + self.index()

    def map_value(self, name: str) -> _Value:
        """Return the value of affine.apply, affine.min or affine.max."""
        texts = [text for text, _ in self.applied(self.map())]
        self.skip_attributes()
        return _Value(nested(name if name != "apply" else "max", texts), "index", self._block)

    # Maps.

    def applied(self, found: Map) -> Iterator[tuple[str, str]]:
        """Return the rows of a map at the operands that stand here, as C with their comparisons."""
        self.take("(")
        dims = self.listed(self.index, ")")
        symbols = self.listed(self.index, "]") if self.takes("[") else []
        if len(dims) != len(found.dims) or len(symbols) != len(found.symbols):
            raise self.refusal("a map has another number of operands")
        known = dict(zip((*found.dims, *found.symbols), (*dims, *symbols), strict=True))
        tokens, at, line = self.tokens, self.at, self.tokens[self.at - 1].line
        rows: list[tuple[str, str]] = []
        for row, compare in found.rows:
            self.tokens, self.at = [Token(text, line) for text in row], 0
            rows.append((self.expression(lambda: self.operand(known)), compare))
        self.tokens, self.at = tokens, at
        return iter(rows)

    def operand(self, known: Mapping[str, str]) -> str:
        """Return a dim or symbol of a map as the operand that it stands for."""
        word = self.take()
        if not word.isdigit() and word not in known:
            raise self.refusal(f"{shown(word)} is neither dim nor symbol of the map")
        return known.get(word, word)

    # Numbers.

    def arithmetic(self, dialect: str, name: str) -> _Value:
        """Return the value of an operation on numbers."""
        if name == "constant":
            return self.constant()
        self.skip_attributes()
        compare = self.take() if name in ("cmpf", "cmpi") else ""
        if compare:
            self.take(",")
        used: list[_Value] = []
        while self.peek().startswith("%"):
            used.append(self.use(self.take()))
            if not self.takes(","):
                break
        kinds = self.signature()
        kind = kinds[-1]
        self.expect(*self.typed(dialect, name, kinds, used))
        texts = [each.text if re.fullmatch(r"[\w.\[\]]+", each.text) else f"({each.text})" for each in used]
        if "i1" in kinds[:1] and name not in ("select", "extsi", "trunci") and compare not in ("eq", "ne"):
            raise self.refusal(f"{dialect}.{name} of i1 is not read")
        text = self.computed(dialect, name, compare, texts, kinds)
        reads = frozenset(read for each in used for read in each.reads)
        return _Value(text, "i1" if compare else kind, self._block, reads)

    def typed(self, dialect: str, name: str, kinds: list[str], used: list[_Value]) -> tuple[list[str], list[str]]:
        """Return the types of the operands as the operation says, and as they are."""
        actual = [each.kind for each in used]
        if name in _CASTS:
            return kinds[:1] + kinds[2:], actual
        if name == "select":
            return ["i1", *kinds[-1:] * 2], actual
        return kinds * max(1, len(actual)), actual

    def computed(self, dialect: str, name: str, compare: str, texts: list[str], kinds: list[str]) -> str:
        """Return an operation as C."""
        kind = kinds[-1]
        suffix = "f" if kind == "f32" else ""
        arity = (
            3 if name == "select" else 1 if name in ("negf", *_CASTS) or (dialect == "math" and name != "powf") else 2
        )
        if len(texts) != arity:
            raise self.refusal(f"{dialect}.{name} has {len(texts)} operands, not {arity}")
        if dialect == "math":
            return f"{_MATH[name]}{suffix}({', '.join(texts)})"
        if compare:
            sign = _COMPARISONS[name].get(compare)
            if sign is None:
                hint = f"{', '.join(_COMPARISONS[name])} are."
                raise self.refusal(f"the comparison {shown(compare)} is not read", hint)
            return f"{texts[0]} {sign} {texts[1]}"
        if name == "select":
            return f"{texts[0]} ? {texts[1]} : {texts[2]}"
        if name == "negf":
            return f"-{texts[0]}"
        if name in _CASTS:
            texts = [f"(-{texts[0]})"] if (name, kinds[0]) == ("extsi", "i1") else texts  # true is -1
            return texts[0] if kind == "index" else f"({self.c_type(kind)}) {texts[0]}"
        if name in _CHOICES:
            return f"{_CHOICES[name]}{suffix}({', '.join(texts)})"
        if name in _ORDERS:
            return f"{texts[0]} {_ORDERS[name]} {texts[1]} ? {texts[0]} : {texts[1]}"
        text = f"{texts[0]} {_INFIX[name]} {texts[1]}"
        return f"({self.c_type(kind)}) ({text})" if kind in _NARROW else text

    def constant(self) -> _Value:
        """Return the value of a constant."""
        self.skip_attributes()
        sign = "-" if self.takes("-") else ""
        word = self.take()
        if word in ("true", "false"):
            return _Value(str(int(word == "true")), "i1", self._block)
        kind, *others = self.signature() if self.peek() == ":" else ["i64"]
        if others or kind not in _TYPES:
            raise self.refusal(f"the type {shown(', '.join((kind, *others)))} is not read")
        if not re.fullmatch(r"\d+(\.\d*([eE][-+]?\d+)?)?", word):
            raise self.refusal(f"the constant {shown(word)} is not read")
        suffix = {"f32": "f", "i64": "L"}.get(kind, "")
        return _Value(f"{sign}{word}{suffix}", kind, self._block)
