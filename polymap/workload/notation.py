"""The einsum notation: text -> accesses, and back.

    einsum = access ("+=" | "max=" | "min=" | "=") access ("*" access)*
    access = tensor ["[" [index ("," index)*] "]"]                  a scalar is `T` or `T[]`
    index  = ["+" | "-"] term (("+" | "-") term)*
    term   = dim | integer | integer dim | integer "*" dim | dim "*" integer

Every mistake is noted with its column (from 1), and reading continues behind it if possible.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from polymap.inputs import LIMITS, NAME_RULE, is_name, shown
from polymap.ir import Access, Affine, Mistake, Operator, Statement, WorkloadError, affine, block_of, dim
from polymap.workload.tuning import TUNING

TERM_RULE = "An index is a signed sum of dim, int*dim, dim*int, 2p and int."
_OPERATORS = {operator.value: operator for operator in (Operator.ADD, Operator.MAX, Operator.MIN, Operator.ASSIGN)}
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<operator>max=(?!=)|min=(?!=)|[-+*/%&|^<>:=!]*=|->|<-)|(?P<integer>[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/%,()\[\]])|(?P<other>.)",
    re.ASCII | re.DOTALL,
)
_NO_FACTORS = ("(", "+", "-", "*", "/", "%")  # what stands behind them is no factor of what stands before
_QUASI_AFFINE_TOKEN = re.compile(r"[0-9]+|[A-Za-z_]\w*|[-+*/()]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text: its kind, its characters and its column (from 1)."""

    kind: str
    text: str
    column: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a text. dims: every dim that is mentioned -> the access and column of its first mention."""

    target: Access
    operator: Operator
    reads: tuple[Access, ...]
    dims: dict[str, str]


def read_einsum(text: object, mistakes: list[Mistake]) -> Reading | None:
    """Return the content of an einsum; mistakes are collected.

    Indices that cannot be read are left out (their dims are kept); None if the text as a whole cannot be read.
    """
    if not isinstance(text, str) or len(text) > TUNING.most_text:
        what = shown(text) if not isinstance(text, str) else f"{len(text):,} characters long"
        mistakes.append(
            Mistake("PM201", f"the einsum is {what}", f"Expected a text of at most {TUNING.most_text:,} characters.")
        )
        return None
    tokens = [token for token in _tokens(text) if token.kind != "space"]
    reader = _Reader(text, tokens, mistakes)
    try:
        return reader.einsum()
    except WorkloadError:  # what follows makes no sense; the problem is noted
        return None


def einsum_text(statement: Statement) -> str:
    """Return the statement in the notation that `read_einsum` reads (assert: it is a product of its reads)."""
    right = " * ".join(access_text(access) for access in statement.reads)
    return f"{access_text(statement.target)} {statement.operator.value} {right}"


def access_text(access: Access) -> str:
    """Return "T[2*p+r,q]", or "T" for a scalar."""
    indices = ",".join(affine_text(index) for index in access.index)
    return f"{access.tensor}[{indices}]" if access.index else access.tensor


def read_index(text: object, where: str, mistakes: list[Mistake]) -> Affine | None:
    """Return one index expression, or None with its mistakes noted; `where` names it in messages."""
    if not isinstance(text, str) or len(text) > TUNING.most_text:
        mistakes.append(Mistake("PM201", f"{where} is {shown(text)}", TERM_RULE))
        return None
    before = len(mistakes)
    tokens = [token for token in _tokens(text) if token.kind != "space"]
    index = _Reader(text, tokens, mistakes).index(tokens, where)
    return index if len(mistakes) == before else None


def affine_text(index: Affine) -> str:
    """Return the expression in the notation that `read_index` reads; floors, which it does not read, as floor(...)."""
    return str(index).replace(" ", "")


def read_affine(text: object, extents: Mapping[str, int], where: str, mistakes: list[Mistake]) -> Affine:
    """Return the expression that `affine_text` wrote; record mistakes."""
    if isinstance(text, str):
        try:
            found = quasi_affine(text, {name: name for name in extents})
        except ValueError:
            found = None
        if found is not None and _largest_intermediate(found, extents) < TUNING.largest_value:
            return found
    hint = f"Expected a sum of multiples of {', '.join(extents) or 'nothing'} and of floor((...)/integer)."
    mistakes.append(Mistake("PM112", f"{where} is {shown(text)}", hint))
    return Affine()


def _largest_intermediate(value: Affine, extents: Mapping[str, int]) -> int:
    """Return an upper bound on all intermediate sums of the value."""
    total = abs(value.constant)
    for factor, atom in value.terms:
        inner = extents[atom] if isinstance(atom, str) else _largest_intermediate(atom.argument, extents)
        total += max(abs(factor), 1) * inner
    return total


def quasi_affine(text: str, dims: Mapping[str, str]) -> Affine:
    """Return a sum such as `2*i - floor((i + 3)/8) + 3(j mod 4)`; dims: name in the text -> dim.

    Raises ValueError with the reason for texts that are none.
    """

    def divisor_of(node: ast.expr) -> int:
        match node:
            case ast.Constant(int(divisor)) if divisor > 0:
                return divisor
            case _:
                raise ValueError(f"{text.strip()!r} divides by no positive integer")

    def floored(node: ast.expr) -> Affine:
        match node:
            case ast.BinOp(left, ast.Div(), right):
                return block_of(value(left), divisor_of(right))
            case ast.BinOp(ast.Constant(0), ast.Sub(), ast.BinOp(left, ast.Div(), right)):  # -i/8
                return block_of(value(left) * -1, divisor_of(right))
            case _:
                raise _unread(text)

    def value(node: ast.expr) -> Affine:
        match node:
            case ast.Constant(int(number)):
                return Affine((), number)
            case ast.Name(name) if name[1:] in dims:
                return dim(dims[name[1:]])
            case ast.Name(name):
                raise ValueError(f"{name[1:]!r} in {text.strip()!r} is no loop of the statement")
            case ast.Call(ast.Name("_floor"), [argument]):
                return floored(argument)
            case ast.BinOp(left, ast.Mod(), right):
                return _remainder(value(left), divisor_of(right))
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() as operator, right):
                one, other = value(left), value(right)
                if not isinstance(operator, ast.Mult):
                    return one + other if isinstance(operator, ast.Add) else one - other
                if one.terms and other.terms:
                    raise ValueError(f"{text.strip()!r} multiplies loops")
                return one * other.constant if not other.terms else other * one.constant
            case _:
                raise _unread(text)

    try:
        return value(ast.parse(_as_python(text, dims), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise _unread(text) from None


def _unread(text: str) -> ValueError:
    return ValueError(f"{shown(text.strip())} cannot be read")


def _as_python(text: str, dims: Mapping[str, str]) -> str:
    """Return a sum whose names are no words of Python, as text for its parser."""
    tokens: list[str] = _QUASI_AFFINE_TOKEN.findall(text)
    if len(text) > TUNING.most_affine_text or "".join(tokens) != "".join(text.split()):
        raise _unread(text)
    tokens = ["%" if each == "mod" and each not in dims else each for each in tokens]
    code: list[str] = []
    for before, each in zip(("(", *tokens), tokens, strict=False):
        is_word = each[0].isalpha() or each[0] == "_"
        if before == "(" and each in ("+", "-"):
            code.append("0")
        elif before not in _NO_FACTORS and (is_word or each == "(") and (before, each) != ("floor", "("):
            code.append("*")
        number = str(int(each)) if each.isdigit() else each
        code.append(f"_{each}" if is_word else number)
    return " ".join(code)


def _remainder(value: Affine, divisor: int) -> Affine:
    """Return the value modulo the divisor. Raises ValueError for a long one, as it is there twice."""
    if len(str(value)) > TUNING.most_affine_text:
        raise _unread(str(value))
    return value - block_of(value, divisor) * divisor


def _tokens(text: str) -> list[Token]:
    return [Token(str(match.lastgroup), match.group(), match.start() + 1) for match in _TOKEN.finditer(text)]


class _Reader:
    """A recursive-descent parser over the tokens; its recursion depth is two for any text."""

    def __init__(self, text: str, tokens: list[Token], mistakes: list[Mistake]) -> None:
        self.text = text
        self.tokens = tokens
        self.mistakes = mistakes
        self.place = 0
        self.dims: dict[str, str] = {}

    def einsum(self) -> Reading:
        target = self.access("The einsum starts with the output, as in C[m,n] += A[m,k] * B[k,n].")
        operator = self.operator()
        reads = [self.access("Expected an operand after the operator.")]
        while self.peek("*"):
            self.place += 1
            reads.append(self.access("Expected an operand after *."))
        if self.place < len(self.tokens):
            token = self.tokens[self.place]
            sums = "A sum of products is no einsum: write it as a C program."
            hint = sums if token.text in "+-" else "Operands are joined by *."
            raise self.stop(f"{shown(token.text)} in column {token.column} cannot stand here", hint)
        return Reading(target, operator, tuple(reads), self.dims)

    def operator(self) -> Operator:
        wanted = f"Expected one of {', '.join(_OPERATORS)} after the output, as in C[m,n] += A[m,k] * B[k,n]."
        if self.place == len(self.tokens):
            raise self.stop("the einsum ends before its operator", wanted)
        token = self.tokens[self.place]
        if token.text not in _OPERATORS:
            raise self.stop(f"{shown(token.text)} in column {token.column} is no operator of an einsum", wanted)
        self.place += 1
        return _OPERATORS[token.text]

    def access(self, wanted: str) -> Access:
        if self.place == len(self.tokens):
            raise self.stop("the einsum ends too early", wanted)
        token = self.tokens[self.place]
        if token.kind == "integer":
            raise self.stop(f"the number {shown(token.text)} in column {token.column} is no tensor", wanted)
        if token.kind != "name":
            raise self.stop(f"{shown(token.text)} in column {token.column} is no tensor", wanted)
        self.check_name(token)
        self.place += 1
        if not self.peek("["):
            return Access(token.text, ())
        return Access(token.text, self.indices(token))

    def indices(self, tensor: Token) -> tuple[Affine, ...]:
        """Return the indices of an access whose opening bracket is the next token."""
        start = self.place + 1
        end = self.closing(tensor)
        self.place = end + 1
        whole = _short(self.text[tensor.column - 1 : self.tokens[end].column])
        if start == end:
            return ()
        pieces = _split(self.tokens[start:end])
        return tuple(self.index(piece, whole) for piece in pieces)

    def closing(self, tensor: Token) -> int:
        """Return the position of the bracket that closes the next token."""
        depth = 0
        for place in range(self.place, len(self.tokens)):
            text = self.tokens[place].text
            depth += (text == "[") - (text == "]")
            if depth == 0:
                return place
        raise self.stop(f"the bracket after {tensor.text} in column {tensor.column} is never closed", "Add ].")

    def index(self, piece: list[Token], where: str) -> Affine:
        """Return one index expression; 0 with a noted mistake if it is none."""
        terms: list[tuple[int, str]] = []
        constant = 0
        for sign, term in _terms(piece):
            match [token.kind if token.text != "*" else "*" for token in term]:
                case ["integer"]:
                    constant += sign * self.number(term[0], where)
                case ["name"]:
                    terms.append((sign, self.dim(term[0], where)))
                case ["integer", "name"] | ["integer", "*", "name"]:
                    terms.append((sign * self.number(term[0], where), self.dim(term[-1], where)))
                case ["name", "*", "integer"]:
                    terms.append((sign * self.number(term[2], where), self.dim(term[0], where)))
                case _:
                    self.refuse_term(term, piece, where)
        return affine(tuple(terms), constant)

    def refuse_term(self, term: list[Token], piece: list[Token], where: str) -> None:
        if not term:
            what = "a term is missing" if piece else "an index is empty"
            self.mistakes.append(Mistake("PM201", f"{what} in {where}", TERM_RULE))
            return
        text = self.text[term[0].column - 1 : term[-1].column - 1 + len(term[-1].text)]
        where = f"{where} (column {term[0].column})"
        names = [token for token in term if token.kind == "name"]
        kinds = {token.text for token in term if token.kind not in ("name", "integer")}
        if "[" in kinds:
            what = f"{shown(text)} in {where} reads a tensor inside an index"
            self.mistakes.append(Mistake("PM202", what, TERM_RULE))
            return
        for token in names:
            self.dim(token, where)
        if kinds <= {"*"} and len(names) > 1:
            what = f"the product {_short(text)} in {where} is not affine: it multiplies dims"
            self.mistakes.append(Mistake("PM202", what, TERM_RULE))
        elif kinds & {"/", "%"}:
            what = f"{shown(text)} in {where} divides"
            self.mistakes.append(Mistake("PM202", what, "/ and % by constants are read in C programs only."))
        else:
            self.mistakes.append(Mistake("PM201", f"{shown(text)} in {where} cannot be read", TERM_RULE))

    def number(self, token: Token, where: str) -> int:
        if len(token.text) <= 101 and int(token.text) <= LIMITS.integer:
            return int(token.text)
        self.mistakes.append(Mistake("PM201", f"an integer in {where} (column {token.column}) is larger than 10^100"))
        return 1

    def dim(self, token: Token, where: str) -> str:
        self.check_name(token)
        self.dims.setdefault(token.text, where if "(column" in where else f"{where} (column {token.column})")
        return token.text

    def check_name(self, token: Token) -> None:
        if not is_name(token.text):
            self.mistakes.append(
                Mistake("PM114", f"the name in column {token.column} is {shown(token.text)}", NAME_RULE)
            )

    def peek(self, text: str) -> bool:
        return self.place < len(self.tokens) and self.tokens[self.place].text == text

    def stop(self, what: str, hint: str) -> WorkloadError:
        self.mistakes.append(Mistake("PM201", what, hint))
        return WorkloadError(self.mistakes)


def _short(text: str) -> str:
    """Return a piece of the text for a message: on one line, at most 80 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 80 and text.isprintable() else ascii(text[:77])[1:-1] + "..."


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Return the tokens between the commas outside inner brackets."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in "[(") - (token.text in "])")
        if token.text == "," and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _terms(piece: list[Token]) -> list[tuple[int, list[Token]]]:
    """Return the signed terms of an index: split at + and - outside of brackets; a leading sign is allowed."""
    terms: list[tuple[int, list[Token]]] = [(1, [])]
    depth = 0
    for place, token in enumerate(piece):
        depth += (token.text in "[(") - (token.text in "])")
        if depth == 0 and token.text in ("+", "-"):
            sign = 1 if token.text == "+" else -1
            if place == 0:
                terms = [(sign, [])]
            else:
                terms.append((sign, []))
        else:
            terms[-1][1].append(token)
    return terms
