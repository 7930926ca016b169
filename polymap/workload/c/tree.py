"""The part of C that is read, as typed data: expressions and statements with their line; which parts C evaluates.

Of `c ? a : b` one side is evaluated, of `a && b` and `a || b` the right side only where the left one does not decide
(C99 6.5.13 to 6.5.15). Where such a condition is about loop counters alone, an assignment is two: one where it holds
and one where it does not. A subscript that is a `?:`, a maximum or a minimum is taken apart in the same way. What is
left reads as many elements in every instance, each by one quasi-affine subscript per axis:

    B[i] = (i > 0 ? A[i-1] : C[i]) + 1;   ->   if (i > 0) B[i] = A[i-1] + 1; else B[i] = C[i] + 1;
    B[i] = A[max(i - 1, 0)];              ->   if (i - 1 > 0) B[i] = A[i-1]; else B[i] = A[0];
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from polymap.ir import Mistake
from polymap.workload.c.types import ABSOLUTES, FLOATS, SPELLING, common, function_type, promoted
from polymap.workload.tuning import TUNING

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
SHIFTS = ("<<", ">>")
BITS = (*SHIFTS, "&", "|", "^")
MAXIMA = ("max", "fmax", "fmaxf", "MAX", "imax")
MINIMA = ("min", "fmin", "fminf", "MIN", "imin")
# Functions of the language itself, their f forms aside: name -> the type of argument and result.
EXTREMES = {"fmax": "float64", "fmaxf": "float32", "fmin": "float64", "fminf": "float32"}


@dataclass(frozen=True, slots=True)
class Literal:
    """A number with its type; `number` is its value if it is an integer."""

    text: str
    number: int | None
    line: int
    element_type: str = "int32"


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Item:
    """An array element: every subscript in order."""

    array: str
    index: tuple[CExpression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Unary:
    """operator: "-", "+", "~" or "!"."""

    operator: str
    operand: CExpression
    line: int


@dataclass(frozen=True, slots=True)
class Binary:
    """operator: + - * / % << >> & | ^ < <= > >= == != && or ||."""

    operator: str
    left: CExpression
    right: CExpression
    line: int


@dataclass(frozen=True, slots=True)
class Choice:
    """condition ? then : other."""

    condition: CExpression
    then: CExpression
    other: CExpression
    line: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a named function."""

    function: str
    arguments: tuple[CExpression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to an element type ("float32"); written: it stands in the text."""

    element_type: str
    operand: CExpression
    line: int
    written: bool = True


CExpression = Literal | Name | Item | Unary | Binary | Choice | Call | Cast


@dataclass(frozen=True, slots=True)
class Declare:
    """A variable. shape: () for a scalar; an axis without a size (a pointer, `A[]`) is None."""

    name: str
    element_type: str | None
    shape: tuple[CExpression | None, ...]
    value: CExpression | None
    line: int


@dataclass(frozen=True, slots=True)
class Assign:
    """operator: "=", "+=", "-=", "*=" or "/=".

    guard: a condition on data under which it runs, None for always. guarded: what `with_guard` returns: it stands for
    `if (condition) target = then;`, and its value is `condition ? then : target`, `target` where it never runs.
    """

    target: Name | Item
    operator: str
    value: CExpression
    line: int
    guarded: bool = False
    guard: CExpression | None = None

    @property
    def writes(self) -> bool:
        """Whether it assigns something, in some instance."""
        return not self.guarded or render(self.value) != render(self.target)


@dataclass(frozen=True, slots=True)
class For:
    """A counting loop: the variable starts at `start` and `condition` is asked before each iteration.

    element_type: of the variable, where the loop declares it.
    """

    variable: str
    start: CExpression
    condition: CExpression
    step: CExpression
    element_type: str | None
    body: tuple[CStatement, ...]
    line: int


@dataclass(frozen=True, slots=True)
class If:
    """if (condition) then else other."""

    condition: CExpression
    then: tuple[CStatement, ...]
    other: tuple[CStatement, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with a scope of their own."""

    body: tuple[CStatement, ...]


CStatement = Declare | Assign | For | If | Block


def all_statements(body: Sequence[CStatement]) -> Iterator[CStatement]:
    """Yield the statements and all inside them, in textual order."""
    for each in body:
        yield each
        match each:
            case For() | Block():
                yield from all_statements(each.body)
            case If():
                yield from all_statements((*each.then, *each.other))
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Program:
    """What is read. outside: what the file, the parameters and the function around a marked region declare.

    wrapped: there was no function, so what the body declares at its top is alive after it as well. lasting: names of
    variables that outlive a call: those of the file, and static ones. result: what the function returns, where that
    depends on what is read; returned: the declaration of a variable that stands for it. replaced: variables of the body
    that are no more, as expressions of loop variables stand in their place.
    """

    name: str
    outside: tuple[Declare, ...]
    body: tuple[CStatement, ...]
    wrapped: bool
    lasting: frozenset[str] = frozenset()
    result: CExpression | None = None
    returned: Declare | None = None
    replaced: frozenset[str] = frozenset()


def with_result(program: Program) -> Program:
    """Return the program with what its function returns as a variable that it sets at the end."""
    if program.result is None or program.returned is None:
        return program
    line = program.returned.line
    last = Assign(Name(program.returned.name, line), "=", program.result, line)
    return replace(program, outside=(*program.outside, program.returned), body=(*program.body, last), result=None)


@dataclass(slots=True)
class Complaints:
    """Collects mistakes, each with its line; `file` names the source."""

    file: str
    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def add(self, code: str, line: int, what: str, hint: str = "") -> None:
        problem = Mistake(code, f"{what} ({self.file}:{line})", hint)
        if problem not in self.mistakes:
            self.mistakes.append(problem)

    def note(self, refused: Refused) -> None:
        """Add what a part of the text was refused for."""
        self.add(refused.code, refused.line, refused.what, refused.hint)
        for each in refused.more:
            self.note(each)


class Refused(Exception):  # never leaves the C front end: it becomes a Mistake
    """A construct that cannot be read; the walker records it and continues with the next statement.

    more: what else of the same statement cannot be read.
    """

    def __init__(self, code: str, line: int, what: str, hint: str = "", more: tuple[Refused, ...] = ()) -> None:
        super().__init__(what)
        self.code, self.line, self.what, self.hint, self.more = code, line, what, hint, more


def render(expression: CExpression) -> str:
    """Return the expression as C, with the parentheses that it needs at most."""
    match expression:
        case Literal(text):
            return text
        case Name(name):
            return name
        case Item(array, index):
            return array + "".join(f"[{render(each)}]" for each in index)
        case Unary(operator, operand):
            return operator + _inner(operand)
        case Binary(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case Choice(condition, then, other):
            return f"{_inner(condition)} ? {_inner(then)} : {_inner(other)}"
        case Call(function, arguments):
            return f"{function}({', '.join(render(each) for each in arguments)})"
        case Cast(element_type, operand):
            return f"({SPELLING[element_type]}){_inner(operand)}"


def _inner(expression: CExpression) -> str:
    text = render(expression)
    return f"({text})" if isinstance(expression, Binary | Choice) else text


def parts(expression: CExpression) -> tuple[CExpression, ...]:
    """Return the expressions that an expression is made of, in textual order."""
    match expression:
        case Literal() | Name():
            return ()
        case Item(_, index):
            return index
        case Unary(_, operand) | Cast(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Choice(condition, then, other):
            return condition, then, other
        case Call(_, arguments):
            return arguments


def inside(expression: CExpression) -> Iterator[CExpression]:
    """Yield an expression and all in it, in textual order."""
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(parts(one))


def rebuilt(expression: CExpression, change: Callable[[CExpression], CExpression]) -> CExpression:
    """Return the expression with other parts."""
    match expression:
        case Literal() | Name():
            return expression
        case Item(_, index):
            return replace(expression, index=tuple(change(each) for each in index))
        case Unary(_, operand) | Cast(_, operand):
            return replace(expression, operand=change(operand))
        case Binary(_, left, right):
            return replace(expression, left=change(left), right=change(right))
        case Choice(condition, then, other):
            return replace(expression, condition=change(condition), then=change(then), other=change(other))
        case Call(_, arguments):
            return replace(expression, arguments=tuple(change(each) for each in arguments))


# --- pieces of assignments ---


@dataclass(frozen=True, slots=True)
class Rules:
    """What an assignment is taken apart by.

    is_static: whether a condition is about loop counters alone. is_affine: whether a subscript can be read as it is.
    is_data: whether a name stands for data. kind: the type of a name or element, None where it is not told.
    """

    is_static: Callable[[CExpression], bool]
    is_affine: Callable[[CExpression], bool]
    is_data: Callable[[str], bool]
    kind: Callable[[Name | Item], str | None]

    def reads(self, expression: CExpression) -> bool:
        """Return whether an expression holds data."""
        places = (each for each in inside(expression) if isinstance(each, Name | Item))
        return any(isinstance(each, Item) or self.is_data(each.name) for each in places)


def next_condition(each: Assign, rules: Rules) -> CExpression | None:
    """Return a condition on which it depends what an assignment reads, or which elements; None if there is none left.

    The condition of a `?:` that is the whole right side is one as well, whatever its sides are.
    """
    value = each.value
    if each.operator == "=" and isinstance(value, Choice) and not each.guarded:
        found = static_part(value.condition, rules)
        if found is not None:
            return found
    wholes = (value, *(Item("", (index,), each.line) for index in _subscripts(each.target)))
    return _first(_lazy(whole, rules) for whole in wholes)


def _subscripts(place: Name | Item) -> tuple[CExpression, ...]:
    return place.index if isinstance(place, Item) else ()


def _first(found: Iterator[CExpression | None]) -> CExpression | None:
    return next((each for each in found if each is not None), None)


def _lazy(expression: CExpression, rules: Rules) -> CExpression | None:
    """Return a condition that decides what an expression reads."""
    found = None
    match expression:
        case Choice(condition, then, other) if rules.reads(then) or rules.reads(other):
            found = static_part(condition, rules)
        case Binary("&&" | "||", left, right) if rules.reads(right):
            found = static_part(left, rules)
        case Item(_, index):
            wholes = (each for each in index if is_piecewise(each) and not rules.is_affine(each))
            return _first(piecewise_condition(each, rules) for each in wholes)
        case _:
            pass
    return found or _first(_lazy(part, rules) for part in parts(expression))


def static_part(condition: CExpression, rules: Rules) -> CExpression | None:
    """Return a part of a condition, which is one of loop counters alone and helps to decide it, None if there is none.

    Of `A[i] > 0 && i > 0` it is `i > 0`.
    """
    if isinstance(condition, Literal):
        return None
    if not rules.reads(condition) and rules.is_static(condition):
        return condition
    match condition:
        case Unary("!") | Binary("&&" | "||") | Choice():
            return _first(static_part(part, rules) for part in parts(condition))
        case _:
            return None


def is_piecewise(expression: CExpression) -> bool:
    """Return whether an integer expression holds a `?:`, a maximum, a minimum or an absolute value."""
    return any(isinstance(each, Choice) or _is_extreme(each) for each in inside(expression))


def piecewise_condition(expression: CExpression, rules: Rules) -> CExpression | None:
    """Return the condition of the first `?:`, maximum or minimum in an integer expression; None if there is none, or
    it is not one of loop counters alone."""
    if isinstance(expression, Choice) or _is_extreme(expression):
        condition = expression.condition if isinstance(expression, Choice) else _compared(expression)
        if not isinstance(condition, Literal) and not rules.reads(condition) and rules.is_static(condition):
            return condition
    return _first(piecewise_condition(part, rules) for part in parts(expression))


def _is_extreme(expression: CExpression) -> bool:
    match expression:
        case Call(function, (_, _)):
            return function in (*MAXIMA, *MINIMA)
        case Call(function, (_,)):
            return function in (*ABSOLUTES, "fabs")
        case _:
            return False


def _sides(expression: CExpression) -> tuple[CExpression, CExpression]:
    """Return the values of which a maximum, minimum or absolute value is one."""
    assert isinstance(expression, Call)
    first, *rest = expression.arguments
    return (Unary("-", first, expression.line), first) if not rest else (first, rest[0])


def _compared(expression: CExpression) -> Binary:
    """Return the comparison that decides a maximum, minimum or absolute value: where it holds, the first side is it."""
    assert isinstance(expression, Call)
    first, *rest = expression.arguments
    other = rest[0] if rest else Literal("0", 0, expression.line)
    return Binary(">" if expression.function in MAXIMA else "<", first, other, expression.line)


def simplified(each: Assign, rules: Rules) -> Assign:
    """Return the assignment without the sides that conditions of literals alone exclude."""
    return _changed(each, _Decision("", holds=True, rules=rules))


def decided(each: Assign, condition: CExpression, rules: Rules, *, holds: bool) -> Assign:
    """Return the assignment where a condition of `next_condition` holds, or does not."""
    return _changed(each, _Decision(render(condition), holds, rules))


def _changed(each: Assign, decision: _Decision) -> Assign:
    target = each.target
    if isinstance(target, Item):
        target = replace(target, index=tuple(decision.changed(index, inside=True) for index in target.index))
    if not each.guarded or not isinstance(each.value, Choice):
        return replace(each, target=target, value=decision.changed(each.value))
    asked, then = decision.test(each.value.condition), decision.changed(each.value.then)
    known = None if decision.rules.reads(asked) else truth(asked)
    if known is None:
        return replace(each, target=target, value=Choice(asked, then, target, each.line))
    return replace(each, target=target, value=then if known else target, guarded=not known)


def decided_expression(expression: CExpression, condition: CExpression, rules: Rules, *, holds: bool) -> CExpression:
    """Return an integer expression, or a condition, where a condition of `piecewise_condition` holds, or does not."""
    return _Decision(render(condition), holds, rules).changed(expression, inside=True)


def loop_condition(loop: For, rules: Rules) -> CExpression | None:
    """Return a condition on which it depends where a loop starts or ends; None if there is none that is static."""
    found = piecewise_condition(loop.start, rules) or piecewise_condition(loop.condition, rules)
    return found or static_part(loop.condition, rules)


def decided_loop(loop: For, condition: CExpression, rules: Rules, *, holds: bool) -> For:
    """Return the loop where a condition of `loop_condition` holds, or does not."""
    decision = _Decision(render(condition), holds, rules)
    start = decision.changed(loop.start, inside=True)
    return replace(loop, start=start, condition=decision.test(loop.condition, inside=True))


@dataclass(frozen=True, slots=True)
class _Decision:
    """Puts the outcome of a condition, given as its text, wherever an expression asks for it."""

    text: str
    holds: bool
    rules: Rules

    def test(self, expression: CExpression, *, inside: bool = False) -> CExpression:
        """Return what is left of an expression of which only the truth matters."""
        if render(expression) == self.text:
            return Literal(str(int(self.holds)), int(self.holds), expression.line)
        if isinstance(expression, Choice):
            asked, *sides = (self.test(part, inside=inside) for part in parts(expression))
            return self._chosen(asked, _as_truth(sides[0]), _as_truth(sides[1]))
        return self.changed(expression, inside=inside)

    def changed(self, expression: CExpression, *, inside: bool = False) -> CExpression:
        """Return what is left of an expression; inside: of a subscript, where maxima are taken apart."""
        match expression:
            case Choice(condition, then, other):
                sides = (self.changed(each, inside=inside) for each in (then, other))
                return self._chosen(self.test(condition, inside=inside), *sides)
            case Binary("&&" | "||" as operator, left, right):
                tests = (self.test(each, inside=inside) for each in (left, right))
                return self._joined(operator, *tests)
            case Unary("!", operand, line):
                asked = self.test(operand, inside=inside)
                known = truth(asked)
                whole = known is None or self.rules.reads(asked)
                return Unary("!", asked, line) if whole else _truth_value(line, holds=not known)
            case Call() if inside and _is_extreme(expression) and render(_compared(expression)) == self.text:
                left, right = (self.changed(each, inside=True) for each in _sides(expression))
                return self._converted(left if self.holds else right, left, right)
            case Item(array, index, line):
                return Item(array, tuple(self.changed(each, inside=True) for each in index), line)
            case _:
                return rebuilt(expression, lambda part: self.changed(part, inside=inside))

    def _chosen(self, asked: CExpression, then: CExpression, other: CExpression) -> CExpression:
        known = truth(asked)
        if known is None:
            return Choice(asked, then, other, asked.line)
        if not self.rules.reads(asked):
            return self._converted(then if known else other, then, other)
        # What the condition reads is read: the side that is never chosen becomes a zero of its type.
        zero = Literal("0", 0, asked.line)
        dead = self._converted(zero, then if not known else other, zero)
        return Choice(asked, then if known else dead, dead if known else other, asked.line)

    def _joined(self, operator: str, left: CExpression, right: CExpression) -> CExpression:
        deciding = operator == "||"  # the truth of one side that decides
        for own, rest in ((left, right), (right, left)):
            known = truth(own)
            if known is not None and known is not deciding and not self.rules.reads(own):
                return _as_truth(rest)
        if truth(left) is deciding:
            if not self.rules.reads(left):
                return _truth_value(left.line, holds=deciding)
            right = _truth_value(left.line, holds=deciding)
        return Binary(operator, left, right, left.line)

    def _converted(self, chosen: CExpression, one: CExpression, other: CExpression) -> CExpression:
        """Return the chosen side in the common type of both."""
        kinds = [kind_of(each, self.rules.kind) for each in (one, other)]
        kind = None if None in kinds else common(*(each for each in kinds if each is not None))
        same = kind is None or kind_of(chosen, self.rules.kind) == kind
        return chosen if same or kind is None else Cast(kind, chosen, chosen.line, written=False)


def _truth_value(line: int, *, holds: bool) -> Literal:
    return Literal(str(int(holds)), int(holds), line)


def truth(expression: CExpression) -> bool | None:
    """Return the truth of a condition where it is decided already, None for others."""
    match expression:
        case Literal(_, number):
            return None if number is None else bool(number)
        case Unary("!", operand):
            known = truth(operand)
            return None if known is None else not known
        case Binary("&&" | "||" as operator, left, right):
            deciding, sides = operator == "||", (truth(left), truth(right))
            return deciding if deciding in sides else None if None in sides else not deciding
        case _:
            return None


def _as_truth(expression: CExpression) -> CExpression:
    """Return 1 where a value is not zero, else 0."""
    match expression:
        case Binary(operator) if operator in (*COMPARISONS, "&&", "||"):
            return expression
        case Unary("!"):
            return expression
        case Literal(_, number, line) if number is not None:
            return _truth_value(line, holds=bool(number))
        case _:
            return Binary("!=", expression, Literal("0", 0, expression.line), expression.line)


def kind_of(expression: CExpression, kind: Callable[[Name | Item], str | None]) -> str | None:
    """Return the C type of an expression, None where it is not told. kind: of names and elements."""
    match expression:
        case Literal() | Cast():
            return expression.element_type
        case Name() | Item():
            return kind(expression)
        case Unary("!") | Binary("<" | "<=" | ">" | ">=" | "==" | "!=" | "&&" | "||"):
            return "int32"
        case Unary(_, operand) | Binary("<<" | ">>", operand):
            found = kind_of(operand, kind)
            return None if found is None else promoted(found)
        case Call(function) if function in EXTREMES:
            return EXTREMES[function]
        case Call(function) if function in ("floord", "ceild"):
            return "int32"
        case Call(function) if function not in (*MAXIMA, *MINIMA):
            return function_type(function)
        case _:
            sides = parts(expression)[1:] if isinstance(expression, Choice) else parts(expression)
            found = [kind_of(each, kind) for each in sides]
            if len(found) != 2 or None in found:
                return None
            return common(*(each for each in found if each is not None))


def replaced(expression: CExpression, names: Mapping[str, CExpression]) -> CExpression:
    """Return the expression with other expressions in the place of names."""
    if not names:
        return expression
    if isinstance(expression, Name):
        return names.get(expression.name, expression)
    return rebuilt(expression, lambda part: replaced(part, names))


def assign_with(each: Assign, names: Mapping[str, CExpression]) -> Assign:
    """Return the assignment with expressions in the place of names."""
    target = each.target
    if isinstance(target, Item):
        target = replace(target, index=tuple(replaced(part, names) for part in target.index))
    guard = None if each.guard is None else replaced(each.guard, names)
    return replace(each, target=target, value=replaced(each.value, names), guard=guard)


def with_expressions(each: CStatement, names: Mapping[str, CExpression]) -> CStatement:
    """Return the statement with expressions in the place of names; the bodies of loops and branches stay."""
    if not names:
        return each
    match each:
        case Assign():
            return assign_with(each, names)
        case Declare(_, _, shape, value):
            sizes = tuple(None if size is None else replaced(size, names) for size in shape)
            return replace(each, shape=sizes, value=None if value is None else replaced(value, names))
        case For(variable, start, condition, step):
            inner = {name: value for name, value in names.items() if name != variable}
            own = {"start": replaced(start, names), "step": replaced(step, names)}
            return replace(each, condition=replaced(condition, inner), **own)
        case If(condition):
            return replace(each, condition=replaced(condition, names))
        case _:
            return each


def with_guard(each: Assign) -> Assign:
    """Return a statement under a guard as an assignment in every instance, of its old value where the guard fails."""
    if each.guard is None:
        return each
    new = each.value if each.operator == "=" else Binary(each.operator[0], each.target, each.value, each.line)
    choice = Choice(each.guard, new, each.target, each.line)
    return replace(each, operator="=", value=choice, guarded=True, guard=None)


def array_of(place: Name | Item) -> str:
    """Return the name of a variable, or of an element's array."""
    return place.name if isinstance(place, Name) else place.array


def names_of(expression: CExpression) -> frozenset[str]:
    """Return the names that occur in an expression."""
    return frozenset(each.name for each in inside(expression) if isinstance(each, Name))


def data_names(statements: Iterable[CStatement]) -> frozenset[str]:
    """Return the names that are declared as arrays or fractions, or set to such at once."""
    found: set[str] = set()
    for each in statements:
        if isinstance(each, Declare):
            value = each.value
            rules = textual_rules(frozenset(found))
            if each.shape or each.element_type in FLOATS or (value is not None and rules.reads(value)):
                found.add(each.name)
    return frozenset(found)


def textual_rules(data: frozenset[str]) -> Rules:
    """Return rules that go by the names of data alone."""
    return Rules(lambda _: True, lambda _: False, data.__contains__, lambda _: None)


def count_pieces(each: Assign, data: frozenset[str]) -> int:
    """Return into how many pieces an assignment is taken apart that never runs; data: names that stand for data."""
    rules, waiting, count = textual_rules(data), [each], 0
    while waiting and count <= TUNING.most_pieces:
        one = waiting.pop()
        condition = next_condition(one, rules)
        if condition is None:
            count += 1
        else:
            waiting += [decided(one, condition, rules, holds=holds) for holds in (True, False)]
    return count


def check_count(pieces: int, line: int) -> None:
    """Refuse an assignment of too many pieces."""
    if pieces > TUNING.most_pieces:
        what = f"the conditions of an assignment take it apart into more than {TUNING.most_pieces:,} pieces"
        raise Refused("PM278", line, what, "Split it into several assignments, or write its borders as loops.")
