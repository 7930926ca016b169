"""Programs of MLIR's linalg dialect as networks: indexing maps as index expressions, the body as the statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from polymap.importers.calls import Call, NotMapped, Operand
from polymap.importers.linalg_named import generalized
from polymap.importers.linalg_sizes import Sizes, owner_of
from polymap.importers.nodes import OUTER, Inner, Loops, Nodes, extra
from polymap.importers.stablehlo import LAYERS, VIEWS, as_linalg
from polymap.importers.tuning import TUNING
from polymap.inputs import answers_in_words, expected_text
from polymap.ir import Apply, Expression, InputError, Mistake, Number, Read
from polymap.networks import Network, Part
from polymap.workload import einsum

_DIALECTS = ("builtin", "func", "linalg", "arith", "tensor", "memref", "math", "affine", "scf")
_FRAMES = ("builtin.module", "func.func")
_VIEWS = ("tensor.", "memref.", "arith.constant", "linalg.transpose", "linalg.fill", "linalg.index", "linalg.broadcast",
          "linalg.pack", "linalg.unpack", *VIEWS)  # fmt: skip
_NAMES_OF = ("linalg.", "stablehlo.")
"""Of operations that are written as linalg.generic."""
_ENDS = (".return", ".yield", ".terminator")  # of operations of other dialects that end a block
_OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "max": "max", "min": "min"}
_FUNCTIONS = {"exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos", "absf": "fabs",
              "erf": "erf", "floor": "floor", "ceil": "ceil"}  # fmt: skip
_CASTS = ("ext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast", "index_cast")
_DAMAGE = (ValueError, KeyError, IndexError, AttributeError, AssertionError, TypeError, NotImplementedError)


@answers_in_words
def from_linalg(
    text: str, *, name: str = "linalg", bits: int | None = None, sizes: Mapping[str, int] | None = None
) -> Network:
    """Return the network of the operations of linalg in a module of MLIR; needs the extra `xdsl`.

    Every `linalg.generic` and named operation is a layer: its indexing maps are the indices, and its body is the
    accumulation (`+=`, `max=`, `min=`) or an elementwise function. So are products, convolutions, elementwise
    operations and reductions of StableHLO. Operations on tensors and memrefs that compute nothing are views, all others
    unmapped. bits: of all tensors, instead of their element types. sizes: of the dynamic axes of arguments, and integer
    arguments, by their names: {"a[0]": 128, "n": 4}; "f.a[0]" in the function f alone.
    Raises InputError (PM643) for a text that is no such module, (PM641) for sizes that it does not have or contradicts,
    MissingPackageError without the package.
    """
    parsed = _parsed(expected_text(text, "the module", InputError))
    reader = _Reader(parsed, bits, Sizes(sizes))
    reader.tell(parsed.module, OUTER)
    reader.sizes.refuse()
    return reader.nodes.network(name)


class _Parsed(NamedTuple):
    """A module, the operations that stand for what xdsl could not read (with the reason), and which of these have the
    values as results that no other operation defines."""

    module: Any
    skipped: dict[Any, str]
    producers: dict[Any, Any]


class _Reader:
    """Tells the operations of a module in order, without what stands in the bodies of operations of linalg."""

    def __init__(self, parsed: _Parsed, bits: int | None, sizes: Sizes) -> None:
        self.nodes, self.sizes = Nodes(), sizes
        self._parsed, self._bits, self._count = parsed, bits, 0
        self._functions, self._inlined = _functions(parsed.module)
        self._calls: tuple[str, ...] = ()  # the functions that are told at their calls, the outermost first
        self._frame, self._keys = "", dict[Any, str]()  # keys: of arguments and of results of calls
        self._results: list[str] = []  # of the function that was told last

    def tell(self, operation: Any, inner: Inner) -> None:
        """Tell what stands inside an operation."""
        for each in (one for region in operation.regions for block in region.blocks for one in block.ops):
            name = _name(each)
            if name in _FRAMES or name.endswith(".func"):
                if each not in self._inlined:
                    self.sizes.enter(each)
                    self.tell(each, inner)
                continue
            if name.endswith(_ENDS) and not each.results:
                self._results = list(map(self._key, each.operands))
                if name != "func.return" or not self._calls:
                    self.nodes.returns(self._results)
                continue
            if self._is_told_at(each):
                self._tell_call(each, inner)
                continue
            node = f"{name}#{self._count}"
            self._count += 1
            is_layer = name.startswith("linalg.") or name in LAYERS
            enters = name.startswith("scf.") or (bool(each.regions) and not is_layer)
            times = self._times(each, inner) if enters else None
            self.sizes.carry(each)
            is_view = name.startswith(_VIEWS) or (enters and times is not None)
            read = (lambda: None) if is_view else partial(self._loops, each)
            self.nodes.tell(node, name, read, map(self._key, each.operands), map(self._key, each.results), inner)
            self.nodes.produces(
                node, [self._key(value) for value, own in self._parsed.producers.items() if own is each]
            )
            if enters:
                self.tell(each, Inner("", name, times))

    def _is_told_at(self, operation: Any) -> bool:
        """Return whether an operation is a call at which the function is told: its body is known and not around."""
        called = _called(operation)
        return called in self._functions and called not in self._calls and self._count < TUNING.most_called_nodes

    def _tell_call(self, operation: Any, inner: Inner) -> None:
        """Tell what stands inside a called function, on the values of the call."""
        function = self._functions[_called(operation)]
        around = self._calls, self._frame, self._keys
        arguments = list(function.regions[0].blocks[0].args)
        keys = dict(zip(arguments, map(self._key, operation.operands), strict=False))
        self.sizes.enter(function)
        for argument, value in zip(arguments, operation.operands, strict=False):
            self.sizes.note(argument, self.sizes.shape(value))
        self._calls, self._frame, self._keys = (*self._calls, _called(operation)), f"@{self._count}", keys
        self._count += 1
        self._results = []
        self.tell(function, inner)
        self._calls, self._frame, self._keys = around
        self._keys.update(zip(operation.results, self._results, strict=False))

    def _key(self, value: Any) -> str:
        known = self._keys.get(value)
        return f"{id(value)}{self._frame}" if known is None else known  # the module keeps all values while it is read

    def _loops(self, operation: Any) -> Loops:
        if operation in self._parsed.skipped:
            raise NotMapped(self._parsed.skipped[operation])
        if _called(operation):
            raise NotMapped("its function has no body here, calls itself, or makes too many nodes")
        if operation.name.startswith("scf."):
            raise NotMapped("how often it runs depends on values", 0)
        if _name(operation) == "linalg.softmax":
            return Loops.of(self._softmax(operation))
        part, places = _part(operation, self._bits, self.sizes)
        return Loops((part,), tuple(Operand(self._key(operation.operands[place])) for place in places))

    def _softmax(self, operation: Any) -> Call:
        """Return the call of a softmax; raises NotMapped."""
        operand = operation.operands[0]
        shape = self.sizes.shape(operand)
        if not shape or any(size < 1 for size in shape):
            raise NotMapped(f"a dynamic size, or a tensor without elements{self.sizes.advice()}")
        for result in operation.results:
            self.sizes.note(result, shape)
        width = self._bits or _bits(operand)
        axis = operation.attributes["dimension"].value.data
        return Call(
            "softmax", (shape,), shape, {"axis": axis}, None, width, (Operand(self._key(operand), None, width),)
        )

    def _times(self, operation: Any, inner: Inner) -> int | None:
        """Return how often the body of an operation runs: a loop with known bounds; None for others."""
        if inner.times is None or operation.name != "scf.for":
            return None
        self.sizes.loop(operation)
        bounds = [self.sizes.number(each) for each in operation.operands[:3]]
        if None in bounds or not bounds[2]:
            return None
        low, high, step = (each or 0 for each in bounds)
        return inner.times * max(0, -(-(high - low) // step)) or None


def _functions(module: Any) -> tuple[dict[str, Any], frozenset[Any]]:
    """Return the functions with a body by their names, and those that are told where they are called, if at all."""
    every = [each for each in module.walk() if each.name == "func.func"]
    found = {str(each.sym_name.data): each for each in every if each.regions[0].blocks}
    called = {_called(each) for each in module.walk()}
    private = {name for name, each in found.items() if getattr(each.sym_visibility, "data", "") == "private"}
    inlined = (called | private) & found.keys()
    if inlined == found.keys():  # each calls another one, or there is no entry
        inlined = frozenset[str]()
    return found, frozenset(found[name] for name in inlined)


def _called(operation: Any) -> str:
    """Return the name of the function that an operation calls, "" for other operations."""
    return str(operation.callee.string_value()) if operation.name == "func.call" else ""


def _name(operation: Any) -> str:
    """Return an operation's name as the text has it, also where xdsl does not know the operation."""
    if operation.name == "linalg.generic" and str(getattr(operation.library_call, "data", "")).startswith(_NAMES_OF):
        return operation.library_call.data
    found = operation.attributes.get("op_name__") if operation.name == "builtin.unregistered" else None
    return str(getattr(found, "data", operation.name))


def _parsed(text: str) -> _Parsed:
    context = extra("xdsl.context", "from_linalg").Context(allow_unregistered=True)
    for dialect, load in extra("xdsl.dialects", "from_linalg").get_all_dialects().items():
        if dialect in _DIALECTS:
            context.register_dialect(dialect, load)
    errors = extra("xdsl.utils.exceptions", "from_linalg")
    told = (errors.ParseError, errors.VerifyException, errors.DiagnosticException, *_DAMAGE, RecursionError)
    base, reason = extra("xdsl.parser", "from_linalg").Parser, ""
    for written in dict.fromkeys((generalized(as_linalg(text)), text)):
        # Not verified: xdsl refuses named operations whose operands have several element types, which MLIR allows.
        skips = _Skips(told)
        try:
            return _Parsed(_lenient(base, skips)(context, written).parse_module(), skips.skipped, skips.producers)
        except told as error:
            reason = _line(error)
    raise InputError(Mistake("PM643", f"the text is no module of linalg: {reason}"))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


_RESULTS = r"%[\w$.-]+(?::\d+)?\s*(?:,\s*%[\w$.-]+(?::\d+)?\s*)*="
_OPERATION = r"[A-Za-z_]\w*\.[\w.$]+(?![\w.$]|\s*[,}=])"  # not the name of an attribute
_START = rf'(?:{_RESULTS}|{_OPERATION}|return\b|"[\w.$]+"\s*\()'
_NEXT = re.compile(rf"\s*(?://[^\n]*\s*)*(?:{_START}|\}}|\^|\Z|[#!][\w.$]+\s*=|\{{-#)")
_BODY = re.compile(rf"\{{\s*(?://[^\n]*\s*)*(?:{_START}|\^|\}}\s*(?:\n|\Z))")
_HEAD = re.compile(r"\s*(?:((?:%[\w$.-]+(?::\d+)?[\s,]*)+)=\s*)?\"?([A-Za-z_]\w*(?:\.[\w.$]+)?)")
_NAMED = re.compile(r"[^\n]*\blibrary_call = \"((?:linalg|stablehlo)\.\w+)\"")  # what was written as linalg.generic
_NAMES = re.compile(r"%([\w$.-]+)")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[][(){}<>]|\n|[^][(){}<>\n"/-]+|.', re.DOTALL)


_OPENING, _CLOSING = ("(", "[", "{", "<"), (")", "]", "}", ">")
_NEVER_SKIPPED = ("func.", "builtin.", "module", "return")


def _reason(name: str, error: Exception) -> str:
    dialect = name.partition(".")[0]
    if dialect not in _DIALECTS:
        return f"no operation of linalg, but of the dialect {dialect[:60]}"
    return f"xdsl cannot read it: {_line(error)}"


def _lenient(base: Any, skips: _Skips) -> Any:
    """Return a parser in which an operation that xdsl cannot read stands for itself."""

    def parse_operation(parser: Any) -> Any:
        return skips.operation(parser, lambda: base.parse_operation(parser))

    def parse_optional_region(parser: Any, arguments: Any = None) -> Any:
        return skips.region(lambda: base.parse_optional_region(parser, arguments))

    members = {"parse_operation": parse_operation, "parse_optional_region": parse_optional_region}
    return type("Lenient", (base,), members)


class _Skips:
    """Skips the operations that xdsl cannot read: their results have the types of their uses, and the operations in
    their regions are read.

    told: what xdsl raises. skipped: the operations that stand for what was skipped, and why. producers: which of these
    operations has a value as its result that no other one defines.
    """

    def __init__(self, told: tuple[type[Exception], ...]) -> None:
        self._told = told
        self._unregistered = extra("xdsl.dialects.builtin", "from_linalg").UnregisteredOp
        self.skipped: dict[Any, str] = {}
        self.producers: dict[Any, Any] = {}
        self._open: dict[str, Any] = {}  # names that skipped text defines in this region, and its operation
        self._arguments: list[str] = []  # that the next region may have

    def operation(self, parser: Any, read: Callable[[], Any]) -> Any:
        """Return the next operation of a text, or what stands for it."""
        names, references = dict(parser.ssa_values), {n: dict(v) for n, v in parser.forward_ssa_references.items()}
        blocks = (parser.blocks, parser.forward_block_references, self._open)
        start, stack = parser.pos, list(parser._parser_state.dialect_stack)
        head = _HEAD.match(parser.lexer.input.content, start)
        try:
            made = read()
        except self._told as error:
            if head is None or head[2].startswith(_NEVER_SKIPPED):
                raise
            parser.ssa_values, parser.forward_ssa_references = names, references
            parser.blocks, parser.forward_block_references, self._open = blocks
            parser._parser_state.dialect_stack[:] = stack
            made = self._skip(parser, start, head, error)
        for name in parser.forward_ssa_references.keys() & self._open.keys():
            values = parser.forward_ssa_references.pop(name).values()
            self.producers |= dict.fromkeys(values, self._open[name])
        return made

    def region(self, read: Callable[[], Any]) -> Any:
        """Return the next region of a text; what skipped text defines in it is not known outside."""
        outer, self._open = self._open, dict.fromkeys(self._arguments)
        self._arguments = []
        region = read()
        self._open = outer
        return region

    def _skip(self, parser: Any, start: int, head: re.Match[str], error: Exception) -> Any:
        """Return the operation that stands for the text from `start` on, and go on behind it."""
        regions: list[Any] = []
        text, place, depth = str(parser.lexer.input.content), head.end(), 0
        while place < len(text) and not (depth == 0 and text[place] == "\n" and _NEXT.match(text, place)):
            if depth == 0 and _BODY.match(text, place):
                defined = _NAMES.findall(text, head.end(), place)
                self._arguments = [name for name in defined if name not in parser.ssa_values]
                parser._resume_from(place)
                regions.append(parser.parse_region())
                place = text.rindex("}", place, parser.pos) + 1  # what is next may stand on another line
                continue
            token = _TOKEN.match(text, place)
            assert token is not None, "any character is a token"
            depth += (token[0] in _OPENING) - (token[0] in _CLOSING)
            if depth < 0:  # the end of the region around, on the same line
                break
            place = token.end()
        if depth > 0:
            raise error
        parser._resume_from(place)
        used = dict.fromkeys(_NAMES.findall(text, head.end(), place))
        operands = [parser.ssa_values[name][0] for name in used if name in parser.ssa_values]
        named = _NAMED.match(text, head.end()) if head[2] == "linalg.generic" else None
        name = named[1] if named is not None else head[2]
        made = self._unregistered.with_name(name).create(operands=operands, regions=regions)
        self._open |= dict.fromkeys(_NAMES.findall(head[1] or ""), made)
        self.skipped[made] = _reason(name, error)
        return made


def _part(operation: Any, bits: int | None, known: Sizes) -> tuple[Part, list[int]]:
    """Return the workload of a structured operation, and which operands it reads; raises NotMapped with the reason."""
    if not operation.name.startswith("linalg.") or not hasattr(operation, "get_indexing_maps"):
        raise NotMapped("no operation of linalg with indexing maps")
    try:
        maps = [each.data if hasattr(each, "data") else each for each in operation.get_indexing_maps()]
        block = operation.regions[0].blocks[0]
        operands, count = list(operation.operands), len(operation.inputs)
    except _DAMAGE:
        raise NotMapped("its indexing maps or its body cannot be read") from None
    if len(operands) != count + 1 or len(maps) != len(operands) or len(block.args) != len(operands):
        raise NotMapped("several results, or an operand without an indexing map")
    shapes = [known.shape(each) for each in operands]
    axes = [[_index(result) for result in each.results] for each in maps]
    sizes = _sizes(maps[0].num_dims, axes, shapes, known)
    if [each.type for each in operation.results] not in ([], [operands[count].type]):
        raise NotMapped("its result has another type than the tensor that it writes")
    for result in operation.results:
        known.note(result, [sizes[next(iter(axis))] if list(axis.values()) == [1] else -1 for axis in axes[count]])
    return _statement(operation, block, axes, sizes, bits)


def _statement(
    operation: Any, block: Any, axes: list[list[dict[int, int]]], sizes: list[int], bits: int | None
) -> tuple[Part, list[int]]:
    count = len(axes) - 1
    used: list[int] = []
    last = block.last_op
    if last is None or last.name != "linalg.yield" or len(last.operands) != 1:
        raise NotMapped("the body does not end with the yield of one value")
    value = _value(last.operands[0], list(block.args), used)
    operator = "+="
    if count in used:
        if (
            not isinstance(value, Apply)
            or value.operation not in ("+", "max", "min")
            or Read(count) not in value.arguments
        ):
            raise NotMapped("the body is no accumulation")
        rest = [each for each in value.arguments if each != Read(count)]
        operator = {"+": "+=", "max": "max=", "min": "min="}[value.operation]
        if len(rest) != 1 or used.count(count) > 1:
            raise NotMapped("the body reads the result twice")
        value = rest[0]
    elif any(size > 1 for dim, size in enumerate(sizes) if all(dim not in axis for axis in axes[count])):
        raise NotMapped("a reduction whose body does not read the result")
    reads = [each for each in dict.fromkeys(used) if each != count]
    if not reads:
        raise NotMapped("no tensor is read")
    width = {f"T{place}": bits or _bits(operation.operands[place]) for place in (*reads, count)}
    text = f"{_access(count, axes)} {operator} {' * '.join(_access(place, axes) for place in reads)}"
    dims = {dim for place in (*reads, count) for axis in axes[place] for dim in axis}
    if any(size > 1 and dim not in dims for dim, size in enumerate(sizes)):
        raise NotMapped("a dim that no access of the body uses")
    made = einsum(
        text,
        sizes={f"d{dim}": sizes[dim] for dim in sorted(dims)},
        bits=width,
        name=_name(operation).rpartition(".")[2],
    )
    expression = _renumbered(value, {place: number for number, place in enumerate(reads)})
    statement = replace(made.statements[0], expression=expression)
    scalars = [place for place in reads if not axes[place]]  # zero points
    factors = len(reads) - len(scalars)
    is_product = operator == "+=" and count in used and _is_product(value, scalars) and factors > 1
    return Part(replace(made, statements=(statement,)), is_product), reads


def _access(place: int, axes: list[list[dict[int, int]]]) -> str:
    texts = [" + ".join(f"{factor}*d{dim}" for dim, factor in axis.items()) for axis in axes[place] if axis]
    return f"T{place}[{', '.join(texts)}]"


def _index(expression: Any) -> dict[int, int]:
    """Return the multiples of dims in a result of an affine map; {} for the constant 0."""
    kind = type(expression).__name__
    if kind == "AffineDimExpr":
        return {expression.position: 1}
    if kind == "AffineConstantExpr" and expression.value == 0:
        return {}
    if kind == "AffineBinaryOpExpr" and expression.kind.name == "Add":
        left, right = _index(expression.lhs), _index(expression.rhs)
        return {dim: left.get(dim, 0) + right.get(dim, 0) for dim in (*left, *right)}
    if kind == "AffineBinaryOpExpr" and expression.kind.name == "Mul" and hasattr(expression.rhs, "value"):
        return {dim: factor * expression.rhs.value for dim, factor in _index(expression.lhs).items()}
    raise NotMapped(f"the index {expression}: only sums of multiples of dims are read")


def _sizes(count: int, axes: list[list[dict[int, int]]], shapes: list[tuple[int, ...]], known: Sizes) -> list[int]:
    """Return the extent of each dim, from an axis that it alone indexes; raises NotMapped."""
    sizes: dict[int, int] = {}
    is_open = any(size < 1 for shape in shapes for size in shape)
    for indices, shape in zip(axes, shapes, strict=True):
        for axis, size in zip(indices, shape, strict=False):
            if len(axis) != 1 or 1 not in axis.values() or size == -1:
                continue
            dim = next(iter(axis))
            if sizes.setdefault(dim, size) != size:
                raise NotMapped(f"its operands give one dim the sizes {sizes[dim]} and {size}")
    if is_open and (len(sizes) < count or 0 in sizes.values()):
        raise NotMapped(f"a dynamic size, or a tensor without elements{known.advice()}")
    if len(sizes) < count:
        raise NotMapped("a dim that no axis has alone, so that its size is unknown")
    for indices, shape in zip(axes, shapes, strict=True):
        if len(indices) != len(shape):
            raise NotMapped(f"an indexing map of {len(indices)} results for a tensor of {len(shape)} axes")
        for axis, size in zip(indices, shape, strict=True):
            ends = [factor * (sizes[dim] - 1) for dim, factor in axis.items()]
            low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
            if low < 0 or high >= size >= 0:
                raise NotMapped(f"an index runs from {low} to {high} on an axis of {size} elements")
    return [sizes[dim] for dim in range(count)]


def _value(value: Any, arguments: list[Any], used: list[int]) -> Expression:
    """Return a value of the body as an expression of Read(operand); notes the operands read."""
    if value in arguments:
        used.append(arguments.index(value))
        return Read(arguments.index(value))
    operation = owner_of(value)
    if not hasattr(operation, "operands"):
        raise NotMapped("the body reads a value from outside")
    kind = operation.name.rpartition(".")[2]
    if operation.name == "arith.constant":
        return Number(_literal(operation))
    if operation.parent is not arguments[0].owner:
        raise NotMapped("the body reads a value from outside")
    inner = tuple(_value(each, arguments, used) for each in operation.operands)
    if kind.startswith(_CASTS):
        return inner[0]
    if operation.name.startswith("math.") and kind in _FUNCTIONS:
        return Apply(_FUNCTIONS[kind], inner)
    for word, sign in _OPERATIONS.items():
        if operation.name.startswith(f"arith.{word}") and len(inner) == 2:
            return Apply(sign, inner)
    if operation.name == "arith.negf":
        return Apply("neg", inner)
    raise NotMapped(f"{operation.name} in the body")


def _literal(operation: Any) -> str:
    found = getattr(operation.value, "value", None)
    number = getattr(found, "data", None)
    if not isinstance(number, int | float):
        raise NotMapped("a constant that is no number")
    return repr(number)


def _renumbered(value: Expression, places: dict[int, int]) -> Expression:
    match value:
        case Read(access):
            return Read(places[access])
        case Apply(operation, arguments):
            return Apply(operation, tuple(_renumbered(each, places) for each in arguments))
        case _:
            return value


def _is_product(value: Expression, scalars: list[int]) -> bool:
    """Return whether a value is a product of reads, each less a scalar or not (of quantised operands)."""
    match value:
        case Read():
            return True
        case Apply("*", arguments):
            return all(_is_product(each, scalars) for each in arguments)
        case Apply("-", (Read(_), right)):
            return isinstance(right, Number) or (isinstance(right, Read) and right.access in scalars)
        case _:
            return False


def _bits(operand: Any) -> int:
    """Return the bits of an operand's elements."""
    kind = getattr(operand.type, "element_type", operand.type)
    width = getattr(kind, "bitwidth", None)
    if not isinstance(width, int) or width < 1:
        raise NotMapped(f"elements of the type {kind}")
    return width
