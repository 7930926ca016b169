"""C functions as text of MLIR's affine dialect: the way back of `affine_to_c`.

Loops become affine.for, conditions of loop variables affine.if, elements affine.load and affine.store. A variable that
is assigned once and for all is a value; every other one is a memref without axes. Subscripts and bounds are affine
maps of loop variables, sizes and such values; C's division of integers rounds otherwise than floordiv, and is refused
there (floord and ceild are not).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from polymap.inputs import answers_in_words
from polymap.ir import InputError, Mistake
from polymap.workload.c import (
    FLOATS,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    CExpression,
    Choice,
    CStatement,
    Declare,
    For,
    If,
    Item,
    Literal,
    Name,
    Program,
    Unary,
    all_statements,
    bits_of,
    common,
    inside,
    read_program,
    render,
)

_TYPES = {"float32": "f32", "float64": "f64", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"}
_WHOLE = ("int32", "int64")
"""Types whose values an index has as they are: of narrower ones C cuts bits off."""
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem"}
_COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_EXTREMES = {"fmax": "arith.maxnumf", "fmin": "arith.minnumf"}
_MATH = {"exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos", "fabs": "absf",
         "pow": "powf", "floor": "floor", "ceil": "ceil", "erf": "erf"}  # fmt: skip
_FLOORS = {"floord": "floordiv", "ceild": "ceildiv"}
_CHOICES = {"max": "max", "min": "min", "MAX": "max", "MIN": "min"}


@answers_in_words
def c_to_affine(text: str, *, file: str = "the text") -> str:
    """Return the text of a module of MLIR whose one function does what a C function does.

    Integer parameters are of type index, arrays memrefs; an axis of another size than a number is `?`, and a parameter
    that is such a size is none of the function's: it is the memref's. Raises InputError (PM288) with the line for what
    affine loops cannot say: conditions on data, loops that run backwards, unsigned numbers, results; and as `from_c`
    for C that is not read.
    """
    program = read_program(text, {}, file).program
    return "\n".join((*_Writer(program, file).module(), ""))


@dataclass(frozen=True, slots=True)
class _Known:
    """A variable. word: its value or memref; kind: its element type, "index" of loop variables and sizes; memref: its
    type, "" of a value."""

    word: str
    kind: str
    memref: str = ""


class _Writer:
    """Writes a function line by line."""

    def __init__(self, program: Program, file: str) -> None:
        self._program, self._file = program, file
        self._lines: list[str] = []
        self._depth, self._count, self._divisions = 2, 0, 0
        self._known: dict[str, _Known] = {}
        every = list(all_statements(program.body))
        targets = [each.target for each in every if isinstance(each, Assign)]
        self._set = {each.name for each in targets if isinstance(each, Name)}
        self._counters = {each.variable for each in every if isinstance(each, For) and each.element_type is None}

    def _refusal(self, line: int, what: str, hint: str = "") -> InputError:
        return InputError(Mistake("PM288", f"{self._file}, line {line}: {what}", hint))

    def module(self) -> list[str]:
        """Return the lines of the module."""
        if self._program.result is not None:
            raise self._refusal(1, "the function returns a value", "Let it write into an array.")
        arrays = {each.name: each for each in self._program.outside if each.shape}
        axes = {size.name: (each, axis) for each in reversed(arrays.values()) for axis, size in enumerate(each.shape)
                if isinstance(size, Name)}  # fmt: skip
        arguments = [
            self._argument(each) for each in self._program.outside if each.name not in axes and each.value is None
        ]
        valued = {each.name: each for each in self._program.outside if each.value is not None}
        for name, (array, axis) in axes.items():  # declared or not, as sizes of `from_c`
            if name not in valued:
                self._dim(name, array, axis)
        for each in valued.values():
            self._declare(each)
        self._block(self._program.body)
        head = f"  func.func @{self._program.name}({', '.join(arguments)}) {{"
        return ["module {", head, *self._lines, "    return", "  }", "}"]

    def _argument(self, declared: Declare) -> str:
        word = f"%{declared.name}"
        if declared.shape:
            self._known[declared.name] = found = _Known(word, self._kind(declared), self._memref(declared))
            return f"{word}: {found.memref}"
        kind = self._kind(declared)
        if declared.name in self._set:
            raise self._refusal(declared.line, f"the parameter {declared.name} is assigned", "Copy it into a variable.")
        self._known[declared.name] = _Known(word, kind if kind in FLOATS else "index")
        return f"{word}: {_TYPES[kind] if kind in FLOATS else 'index'}"

    def _dim(self, size: str, array: Declare, axis: int) -> None:
        """Write the size of an axis."""
        if size in self._set:
            raise self._refusal(array.line, f"the parameter {size} is assigned", "Copy it into a variable.")
        place = self._new(f"arith.constant {axis} : index")
        word = self._new(f"memref.dim %{array.name}, {place} : {self._memref(array)}")
        self._known[size] = _Known(word, "index")

    def _kind(self, declared: Declare) -> str:
        if declared.element_type not in _TYPES:
            raise self._refusal(
                declared.line, f"{declared.name} is of a type without an equal", f"{', '.join(_TYPES)} are read."
            )
        return declared.element_type

    def _memref(self, declared: Declare) -> str:
        sizes = "".join(
            f"{each.number if isinstance(each, Literal) and each.number is not None else '?'}x"
            for each in declared.shape
        )
        return f"memref<{sizes}{_TYPES[self._kind(declared)]}>"

    def _put(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def _new(self, text: str) -> str:
        self._count += 1
        self._put(f"%{self._count} = {text}")
        return f"%{self._count}"

    # Statements.

    def _block(self, body: Sequence[CStatement]) -> None:
        outer = dict(self._known)
        for each in body:
            match each:
                case For():
                    self._for(each)
                case If():
                    self._if(each)
                case Block():
                    self._block(each.body)
                case Declare():
                    self._declare(each)
                case Assign():
                    self._assign(each)
        self._known = outer

    def _inside(self, body: Sequence[CStatement]) -> None:
        self._depth += 1
        self._block(body)
        self._depth -= 1

    def _for(self, loop: For) -> None:
        step = loop.step
        if loop.variable in self._set:
            raise self._refusal(
                loop.line, f"the loop variable {loop.variable} is assigned", "Count in a variable of its own."
            )
        if not isinstance(step, Literal) or (step.number or 0) < 1:
            raise self._refusal(loop.line, "a loop that does not count up by a number", "Let it run forwards.")
        low = self._map(loop.start, "max", 0)
        high = self._map(*self._end(loop))
        word = self._fresh(loop.variable)
        self._put(f"affine.for {word} = {low} to {high}{f' step {step.number}' if step.number != 1 else ''} {{")
        outer = self._known
        self._known = {**outer, loop.variable: _Known(word, "index")}
        self._inside(loop.body)
        self._known = outer
        self._put("}")

    def _end(self, loop: For) -> tuple[CExpression, str, int]:
        """Return what a loop variable stays below, once so much is added."""
        match loop.condition:
            case Binary("<" | "<=" as sign, Name(name), end) if name == loop.variable:
                return end, "min", int(sign == "<=")
            case Binary(">" | ">=" as sign, end, Name(name)) if name == loop.variable:
                return end, "min", int(sign == ">=")
            case _:
                hint = f"Expected {loop.variable} < ..."
                raise self._refusal(loop.line, "a loop whose end is no bound of its variable", hint)

    def _fresh(self, name: str) -> str:
        taken = {each.word for each in self._known.values()}
        tries = (f"%{name}" if not number else f"%{name}_{number}" for number in range(len(taken) + 1))
        return next(each for each in tries if each not in taken)

    def _if(self, branch: If) -> None:
        operands: list[str] = []
        rows = self._conditions(branch.condition, operands)
        if rows is None:
            hint = "Conditions of loop variables and sizes, joined by &&, are; write a choice of values for others."
            raise self._refusal(branch.line, "a condition that is no affine set", hint)
        dims = ", ".join(f"d{place}" for place in range(len(operands)))
        self._put(f"affine.if affine_set<({dims}) : ({', '.join(rows)})>({', '.join(operands)}) {{")
        self._inside(branch.then)
        if branch.other:
            self._put("} else {")
            self._inside(branch.other)
        self._put("}")

    def _conditions(self, condition: CExpression, operands: list[str]) -> list[str] | None:
        """Return the rows of a set; None where it is none."""
        if not isinstance(condition, Binary):
            return None
        if condition.operator == "&&":
            found = [self._conditions(each, operands) for each in (condition.left, condition.right)]
            return None if None in found else [row for rows in found for row in rows or ()]
        left, right = (self._affine(each, operands) for each in (condition.left, condition.right))
        if left is None or right is None:
            return None
        match condition.operator:
            case "==":
                return [f"{_joined(left, '-', right)} == 0"]
            case ">=" | ">":
                return [f"{_joined(_joined(left, '-', right), '-', str(int(condition.operator == '>')))} >= 0"]
            case "<=" | "<":
                return [f"{_joined(_joined(right, '-', left), '-', str(int(condition.operator == '<')))} >= 0"]
            case _:
                return None

    def _declare(self, declared: Declare) -> None:
        kind, name = self._kind(declared), declared.name
        if name in self._counters:  # behind its loops it has no value here
            self._known.pop(name, None)
        elif declared.shape:
            memref = self._memref(declared)
            sizes = [self._index(each) for each in declared.shape if each is not None and self._is_open(each)]
            word = self._new(f"memref.alloc({', '.join(sizes)}) : {memref}")
            self._known[name] = _Known(word, kind, memref)
        elif declared.value is not None and name not in self._set:
            is_index = kind in _WHOLE and self._affine(declared.value, []) is not None
            word = self._index(declared.value) if is_index else self._as(declared.value, kind)
            self._known[name] = _Known(word, "index" if is_index else kind)
        else:
            memref = f"memref<{_TYPES[kind]}>"
            self._known[name] = found = _Known(self._new(f"memref.alloca() : {memref}"), kind, memref)
            if declared.value is not None:
                self._put(f"affine.store {self._as(declared.value, kind)}, {found.word}[] : {memref}")

    def _is_open(self, size: CExpression) -> bool:
        return not isinstance(size, Literal) or size.number is None

    def _assign(self, each: Assign) -> None:
        if each.guard is not None or each.guarded:
            raise self._refusal(each.line, "an assignment under a condition on data", "Write a choice of values.")
        value = each.value
        if each.operator != "=":
            value = Binary(each.operator[0], each.target, value, each.line)
        found = self._variable(each.target)
        stored = self._as(value, found.kind)
        index = self._subscripts(each.target)
        self._put(f"affine.store {stored}, {found.word}[{index}] : {found.memref}")

    def _variable(self, target: Name | Item) -> _Known:
        name = target.name if isinstance(target, Name) else target.array
        found = self._known.get(name)
        if found is None or (isinstance(target, Item) and not found.memref):
            raise self._refusal(target.line, f"{name} is not declared, or is no array")
        return found

    def _subscripts(self, target: Name | Item) -> str:
        texts: list[str] = []
        for each in target.index if isinstance(target, Item) else ():
            operands: list[str] = []
            text = self._affine(each, operands)
            if text is None:
                raise self._refusal(target.line, f"the subscript {render(each)[:80]} is not affine")
            texts.append(_at(text, operands))
        return ", ".join(texts)

    # Affine expressions.

    def _affine(self, expression: CExpression, operands: list[str]) -> str | None:
        """Return an affine expression over d0, d1, ..., which stand for the operands (added here); None for others."""
        match expression:
            case Literal(_, int(number)):
                return str(number)
            case Unary("-", Literal(_, int(number))):
                return f"(-{number})"
            case Name(name) if (found := self._known.get(name)) is not None and found.kind == "index":
                if found.word not in operands:
                    operands.append(found.word)
                return f"d{operands.index(found.word)}"
            case Cast(kind, operand) if kind in _WHOLE:
                return self._affine(operand, operands)
            case Unary("-", operand):
                text = self._affine(operand, operands)
                return None if text is None else _joined("0", "-", text)
            case Binary("+" | "-" | "*", left, right):
                texts = self._affine(left, operands), self._affine(right, operands)
                is_affine = expression.operator != "*" or any(map(_is_number, (left, right)))
                return _joined(*texts[:1], expression.operator, *texts[1:]) if is_affine else None
            case Call(function, (left, right)) if function in _FLOORS and _is_number(right):
                texts = self._affine(left, operands), self._affine(right, operands)
                return _joined(texts[0], _FLOORS[function], texts[1])
            case _:
                return None

    def _map(self, expression: CExpression, choose: str, more: int) -> str:
        """Return a bound: the largest or smallest of affine expressions, and so much more."""
        operands: list[str] = []
        rows: list[str] = []
        for each in _chosen(expression, choose):
            text = self._affine(each, operands)
            if text is None:
                line = getattr(expression, "line", 1)
                raise self._refusal(
                    line, f"the bound {render(each)[:80]} is not affine", f"Affine ones and their {choose} are."
                )
            rows.append(f"{int(text) + more}" if text.isdigit() else _joined(text, "+", str(more)) or "")
        if len(rows) == 1 and re.fullmatch(r"\d+|d0", rows[0]):
            return _at(rows[0], operands)
        dims = ", ".join(f"d{place}" for place in range(len(operands)))
        word = f"{choose} " if len(rows) > 1 else ""
        return f"{word}affine_map<({dims}) -> ({', '.join(rows)})>({', '.join(operands)})"

    def _index(self, expression: CExpression) -> str:
        """Return a value of type index."""
        operands: list[str] = []
        text = self._affine(expression, operands)
        if text is None:
            raise self._refusal(getattr(expression, "line", 1), f"{render(expression)[:80]} is not affine")
        if text == "d0":
            return operands[0]
        dims = ", ".join(f"d{place}" for place in range(len(operands)))
        return self._new(f"affine.apply affine_map<({dims}) -> ({text})>({', '.join(operands)})")

    # Numbers.

    def _as(self, expression: CExpression, kind: str) -> str:
        """Return a value of an element type."""
        word, found = self._value(expression)
        return self._converted(word, found, kind)

    def _converted(self, word: str, found: str, kind: str) -> str:
        if found == kind:
            return word
        source, target = _TYPES[found], _TYPES[kind]
        wider = bits_of(kind) > bits_of(found)
        name = {
            (True, True): "extf" if wider else "truncf",
            (False, False): "extsi" if wider else "trunci",
            (False, True): "sitofp",
            (True, False): "fptosi",
        }[found in FLOATS, kind in FLOATS]
        return self._new(f"arith.{name} {word} : {source} to {target}")

    def _value(self, expression: CExpression) -> tuple[str, str]:
        """Return a value and its element type."""
        match expression:
            case Literal(text, number, line, kind):
                if kind not in _TYPES:
                    raise self._refusal(line, f"the number {text} is unsigned")
                plain = repr(_float(text)) if kind in FLOATS else str(number)
                plain = plain if "." in plain or kind not in FLOATS else plain.replace("e", ".0e")
                return self._new(f"arith.constant {plain} : {_TYPES[kind]}"), kind
            case Name() | Item():
                found = self._variable(expression)
                if found.kind == "index":
                    return self._new(f"arith.index_cast {found.word} : index to i64"), "int64"
                if not found.memref:
                    return found.word, found.kind
                place = self._subscripts(expression)
                return self._new(f"affine.load {found.word}[{place}] : {found.memref}"), found.kind
            case Cast(kind, operand, line):
                if kind not in _TYPES:
                    raise self._refusal(line, "a conversion to an unsigned number")
                return self._as(operand, kind), kind
            case Unary("-", Literal(_, int(number), _, kind)) if kind in _TYPES and kind not in FLOATS:
                return self._new(f"arith.constant -{number} : {_TYPES[kind]}"), kind
            case Unary("-", operand) if (pair := self._value(operand))[1] in FLOATS:
                return self._new(f"arith.negf {pair[0]} : {_TYPES[pair[1]]}"), pair[1]
            case Unary("-" | "+", operand, line):
                return self._value(Binary(expression.operator, Literal("0", 0, line), operand, line))
            case Binary(operator, left, right) if operator in _ARITHMETIC:
                (one, other), kind = self._alike(left, right)
                self._divisions += kind not in FLOATS and operator in "/%" and not _is_number(right)
                name = _ARITHMETIC[operator] + ("f" if kind in FLOATS else "si" if operator in "/%" else "i")
                return self._new(f"arith.{name} {one}, {other} : {_TYPES[kind]}"), kind
            case Choice():
                return self._choice(expression)
            case Call():
                return self._call(expression)
            case _:
                raise self._refusal(expression.line, f"{render(expression)[:80]} has no equal among values")

    def _alike(self, left: CExpression, right: CExpression) -> tuple[tuple[str, str], str]:
        """Return two values of their common type, and that."""
        (one, first), (other, second) = self._value(left), self._value(right)
        kind = common(first, second)
        return (self._converted(one, first, kind), self._converted(other, second, kind)), kind

    def _choice(self, choice: Choice) -> tuple[str, str]:
        condition = choice.condition
        if not isinstance(condition, Binary) or condition.operator not in _COMPARED:
            raise self._refusal(choice.line, "a choice whose condition is no comparison")
        read = _items(condition)
        if _items(choice.then) - read or _items(choice.other) - read:
            hint = "Both sides of arith.select are read: write an `if`, or read the elements before."
            raise self._refusal(choice.line, "a choice one side of which reads what its condition does not", hint)
        (one, other), kind = self._alike(condition.left, condition.right)
        word = _COMPARED[condition.operator]
        if kind in FLOATS:
            compare = f"arith.cmpf {'une' if word == 'ne' else f'o{word}'}"
        else:
            compare = f"arith.cmpi {word if word in ('eq', 'ne') else f's{word}'}"
        truth = self._new(f"{compare}, {one}, {other} : {_TYPES[kind]}")
        before = self._divisions
        (then, rest), kind = self._alike(choice.then, choice.other)
        if self._divisions > before:
            hint = "Both sides of arith.select are computed: write an `if`."
            raise self._refusal(choice.line, "a choice one side of which divides integers by what may be 0", hint)
        return self._new(f"arith.select {truth}, {then}, {rest} : {_TYPES[kind]}"), kind

    def _call(self, call: Call) -> tuple[str, str]:
        name = call.function.removesuffix("f") if call.function not in (*_MATH, *_EXTREMES) else call.function
        kind = "float64" if name == call.function else "float32"
        if name in _CHOICES and len(call.arguments) == 2:
            left, right = call.arguments
            sign = ">" if _CHOICES[name] == "max" else "<"
            return self._value(Choice(Binary(sign, left, right, call.line), left, right, call.line))
        if name not in (*_MATH, *_EXTREMES):
            raise self._refusal(
                call.line, f"the function {call.function} has no equal", f"{', '.join((*_MATH, *_EXTREMES))} have."
            )
        words = [self._as(each, kind) for each in call.arguments]
        operation = _EXTREMES.get(name) or f"math.{_MATH[name]}"
        return self._new(f"{operation} {', '.join(words)} : {_TYPES[kind]}"), kind


def _float(text: str) -> float:
    is_hexadecimal = text[:2].lower() == "0x"
    return float.fromhex(text.rstrip("lL")) if is_hexadecimal else float(text.rstrip("fFlL"))


def _joined(left: str | None, sign: str, right: str | None) -> str | None:
    """Return an affine expression of two, with the brackets that it needs; None where one is none."""
    if left is None or right is None:
        return None
    if sign in "+-" and right == "0":
        return left
    if sign in "+-":
        return f"{left} {sign} {right if sign == '+' else _inner(right)}"
    return f"{_inner(left)} {sign} {_inner(right)}"


def _inner(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def _at(text: str, operands: Sequence[str]) -> str:
    """Return an affine expression with its operands in place of d0, d1, ..."""
    return re.sub(r"\bd(\d+)\b", lambda found: operands[int(found[1])], text)


def _is_number(expression: CExpression) -> bool:
    if isinstance(expression, Unary):
        return _is_number(expression.operand)
    return isinstance(expression, Literal) and expression.number is not None


def _items(expression: CExpression) -> set[str]:
    """Return the texts of the elements that an expression reads."""
    return {render(each) for each in inside(expression) if isinstance(each, Item)}


def _chosen(expression: CExpression, choose: str) -> list[CExpression]:
    """Return the expressions whose largest (max) or smallest one an expression is."""
    match expression:
        case Call(function, (left, right)) if _CHOICES.get(function) == choose:
            return [*_chosen(left, choose), *_chosen(right, choose)]
        case Choice(Binary(sign, left, right), then, other) if sign[:1] == (">" if choose == "max" else "<") and (
            render(left),
            render(right),
        ) == (render(then), render(other)):
            return [*_chosen(then, choose), *_chosen(other, choose)]
        case _:
            return [expression]
