"""Programs of MLIR's linalg dialect as networks: indexing maps as index expressions, the body as the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from polymap.importers import linalg_named, stablehlo
from polymap.importers.calls import Call, NotMapped, Operand
from polymap.importers.functions import FUNCTIONS
from polymap.importers.index_maps import Structure, axes_of_maps, extents_of, nest_of
from polymap.importers.linalg_named import dimensions_of
from polymap.importers.mlir_modules import DAMAGE, Module, Written, module_of
from polymap.importers.nodes import OUTER, Inner, Loops, Nodes, check_bits, checked_size, given_table
from polymap.importers.stablehlo import LAYERS, VIEWS
from polymap.importers.tuning import TUNING
from polymap.inputs import answers_in_words, expected_text, shown
from polymap.ir import Apply, Expression, InputError, Mistake, Number, Read
from polymap.networks import Network, Part

_FRAMES = ("builtin.module", "func.func")
_VIEWS = ("tensor.", "memref.", "arith.constant", "linalg.transpose", "linalg.fill", "linalg.index", "linalg.broadcast",
          "linalg.pack", "linalg.unpack", *VIEWS)  # fmt: skip
_ENDS = (".return", ".yield", ".terminator")  # of operations of other dialects that end a block
_OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "max": "max", "min": "min"}
_FUNCTIONS = {"absf": "fabs", "powf": "power", "roundeven": "rint"}
_CASTS = ("ext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast", "index_cast")


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
    check_bits(bits)
    parsed = module_of(expected_text(text, "the module", InputError))
    reader = _Reader(parsed, bits, Sizes(sizes))
    reader.tell(parsed.module, OUTER)
    reader.sizes.refuse()
    return reader.nodes.network(name)


class _Reader:
    """Tells the operations of a module in order, without what stands in the bodies of operations of linalg."""

    def __init__(self, parsed: Module, bits: int | None, sizes: Sizes) -> None:
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
        part, places = _part(operation, self._parsed.written.get(operation), self._bits, self.sizes)
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
        written, given = self._parsed.written.get(operation), operation.attributes.get("dimension")
        text = f"dimension({given.value.data})" if given is not None else ""
        (axis, *_) = dimensions_of(text if written is None else written.text)
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
    found = operation.attributes.get("op_name__") if operation.name == "builtin.unregistered" else None
    return str(getattr(found, "data", operation.name))


def _part(operation: Any, written: Written | None, bits: int | None, known: Sizes) -> tuple[Part, list[int]]:
    """Return the workload of a structured operation, and which operands it reads; raises NotMapped with the reason."""
    dialect, _, word = _name(operation).partition(".")
    values = [*operation.operands, *(operation.results if dialect == "stablehlo" else ())]
    shapes = [known.shape(each) for each in values]
    if written is None:
        found = _generic(operation)
    elif dialect == "stablehlo":
        found = stablehlo.structure_of(word, written.text, shapes)
    else:
        ranks = [len(shape) for shape in shapes]
        found = linalg_named.structure_of(word, written.text, written.maps, ranks, partial(_body, operation))
    axes = found.axes
    sizes = extents_of(axes, found.shapes or shapes, known.advice())
    if [each.type for each in operation.results] not in ([], [values[-1].type]):
        raise NotMapped("its result has another type than the tensor that it writes")
    for result in operation.results:
        known.note(result, [sizes[next(iter(axis))] if list(axis.values()) == [1] else -1 for axis in axes[-1]])
    return nest_of(word, axes, sizes, found.value, [bits or _bits(each) for each in values])


def _generic(operation: Any) -> Structure:
    """Return what an operation with indexing maps and a body computes."""
    if not operation.name.startswith("linalg.") or not hasattr(operation, "get_indexing_maps"):
        raise NotMapped("no operation of linalg with indexing maps")
    try:
        maps = [each.data if hasattr(each, "data") else each for each in operation.get_indexing_maps()]
        block = operation.regions[0].blocks[0]
        count = len(operation.inputs) + 1
    except DAMAGE:
        raise NotMapped("its indexing maps or its body cannot be read") from None
    if not len(operation.operands) == len(maps) == len(block.args) == count:
        raise NotMapped("several results, or an operand without an indexing map")
    return Structure(axes_of_maps(maps), _body(operation))


def _body(operation: Any, word: str = "") -> Expression:
    """Return what the body of an operation computes of its operands, or what an operation of this name does, which a
    reduction applies to its result, too."""
    count = len(operation.operands)
    if word:
        return _applied(word, tuple(map(Read, range(count if _name(operation) == "linalg.reduce" else count - 1))))
    block = operation.regions[0].blocks[0] if operation.regions else None
    last = None if block is None else block.last_op
    if block is None or last is None or last.name != "linalg.yield" or len(last.operands) != 1:
        raise NotMapped("the body does not end with the yield of one value")
    if not count - 1 <= len(block.args) <= count:
        raise NotMapped("its body has not an argument for each operand")
    return _value(last.operands[0], list(block.args))


def _value(value: Any, arguments: list[Any]) -> Expression:
    """Return a value of the body as an expression of Read(operand)."""
    if value in arguments:
        return Read(arguments.index(value))
    operation = owner_of(value)
    if not hasattr(operation, "operands"):
        raise NotMapped("the body reads a value from outside")
    if operation.name == "arith.constant":
        return Number(_literal(operation))
    if operation.parent is not arguments[0].owner:
        raise NotMapped("the body reads a value from outside")
    return _applied(operation.name, tuple(_value(each, arguments) for each in operation.operands))


def _applied(name: str, inner: tuple[Expression, ...]) -> Expression:
    """Return an operation of arith or math on values."""
    dialect, _, word = name.partition(".")
    if dialect == "arith":
        if word.startswith(_CASTS):
            return inner[0]
        for start, sign in _OPERATIONS.items():
            if word.startswith(start) and len(inner) == 2:
                return Apply(sign, inner)
        if word == "negf":
            return Apply("neg", inner)
    function = FUNCTIONS.get(_FUNCTIONS.get(word, word)) if dialect == "math" else None
    if function is None or len(inner) != function.operands:
        raise NotMapped(f"{name} in the body")
    return function.make(inner)


def _literal(operation: Any) -> str:
    found = getattr(operation.value, "value", None)
    number = getattr(found, "data", None)
    if not isinstance(number, int | float):
        raise NotMapped("a constant that is no number")
    return repr(number)


def _bits(operand: Any) -> int:
    """Return the bits of an operand's elements."""
    kind = getattr(operand.type, "element_type", operand.type)
    width = getattr(kind, "bitwidth", None)
    if not isinstance(width, int) or width < 1:
        raise NotMapped(f"elements of the type {kind}")
    return width


Shape = tuple[int, ...]
"""-1 is a size that is not known."""


class Sizes:
    """What is known of the shapes of a module's values, and of its integers, while its operations are told in order.

    given: sizes by the names of arguments, "a[0]" for an axis, "n" for an integer; "f.a[0]" means only the function f.
    """

    def __init__(self, given: object) -> None:
        self._mistakes: list[Mistake] = []
        self._given = {
            str(word): checked_size(f"the size of {shown(word)}", value, self._mistakes)
            for word, value in given_table(given, "sizes", '{"a[0]": 128}').items()
        }
        if self._mistakes:
            raise InputError(self._mistakes)
        self._used: set[str] = set()
        self._open: list[str] = []
        self._shapes: dict[Any, Shape] = {}
        self._numbers: dict[Any, int] = {}

    def enter(self, function: Any) -> None:
        """Note the arguments of a function."""
        label = str(getattr(function.attributes.get("sym_name") or function.properties.get("sym_name"), "data", ""))
        for value in (each for region in function.regions if region.blocks for each in region.blocks[0].args):
            name, shape = str(value.name_hint or ""), _typed(value)
            if shape is None:
                found = self._size(label, name)
                if found is not None:
                    self._numbers[value] = found
                continue
            self._shapes[value] = tuple(self._axis(label, f"{name}[{axis}]", size) for axis, size in enumerate(shape))

    def _axis(self, label: str, word: str, size: int) -> int:
        found = self._size(label, word)
        if size >= 0 and found is not None and found != size:
            what = f"the size of {shown(word)} is given as {found}, and the type says {size}"
            self._mistakes.append(Mistake("PM641", what, "Only dynamic sizes (`?`) take a size."))
        if size >= 0:
            return size
        self._open.append(word)
        return -1 if found is None else found

    def _size(self, label: str, word: str) -> int | None:
        for key in (f"{label}.{word}", word):
            if key in self._given:
                self._used.add(key)
                return self._given[key]
        return None

    def shape(self, value: Any) -> Shape:
        """Return the shape of a value, () for one that is no tensor."""
        return self._shapes.get(value) or _typed(value) or ()

    def number(self, value: Any) -> int | None:
        """Return the integer that a value is known to be."""
        return self._numbers[value] if value in self._numbers else constant(value)

    def note(self, value: Any, shape: Sequence[int]) -> None:
        """Note the shape of a value where its type leaves sizes open."""
        typed = _typed(value)
        if typed is not None and len(typed) == len(shape) and -1 in typed:
            self._shapes[value] = tuple(known if known >= 0 else size for known, size in zip(typed, shape, strict=True))

    def carry(self, operation: Any) -> None:
        """Note what an operation that computes nothing says of sizes."""
        name, operands, results = operation.name, list(operation.operands), list(operation.results)
        if name in ("tensor.dim", "memref.dim") and len(operands) == 2:
            shape, axis = self.shape(operands[0]), self.number(operands[1])
            if axis is not None and 0 <= axis < len(shape) and shape[axis] >= 0:
                self._numbers[results[0]] = shape[axis]
        elif name in ("tensor.empty", "memref.alloc", "memref.alloca"):
            numbers = iter([self.number(each) for each in operands])
            typed = _typed(results[0]) or ()
            self.note(results[0], [size if size >= 0 else _or_open(next(numbers, None)) for size in typed])
        elif name in ("tensor.cast", "memref.cast"):
            self.note(results[0], self.shape(operands[0]))
        elif name == "linalg.fill":
            for result in results:
                self.note(result, self.shape(operands[-1]))

    def loop(self, operation: Any) -> None:
        """Note that what a loop carries keeps its shape."""
        arguments = [each for region in operation.regions[:1] if region.blocks for each in region.blocks[0].args]
        for value, inside, result in zip(operation.operands[3:], arguments[1:], operation.results, strict=False):
            self.note(inside, self.shape(value))
            self.note(result, self.shape(value))

    def advice(self) -> str:
        """Return how to give a size, in words; "" where no argument has an open one."""
        left = [word for word in dict.fromkeys(self._open) if word not in self._given]
        words = ", ".join(f'"{word}": 128' for word in left[:4])
        return f"; from_linalg(text, sizes={{{words}}}) gives it" if left else ""

    def refuse(self) -> None:
        """Raise InputError (PM641) for sizes that contradict the types or that nothing has."""
        for word in [each for each in self._given if each not in self._used]:
            found = ", ".join(list(dict.fromkeys(self._open))[:20]) or "none"
            hint = f"Dynamic sizes of arguments: {found}; an integer goes by its own name."
            self._mistakes.append(Mistake("PM641", f"no argument of a function has the size {shown(word)}", hint))
        if self._mistakes:
            raise InputError(self._mistakes)


def constant(value: Any) -> int | None:
    """Return the integer that a constant is; None for other values."""
    owner = owner_of(value)
    number = getattr(getattr(getattr(owner, "value", None), "value", None), "data", None)
    return number if getattr(owner, "name", "") == "arith.constant" and isinstance(number, int) else None


def owner_of(value: Any) -> Any:
    """Return what defines a value; None for the results of operations that xdsl could not read."""
    try:
        return value.owner
    except ValueError:
        return None


def _typed(value: Any) -> Shape | None:
    return tuple(max(-1, size) for size in value.type.get_shape()) if hasattr(value.type, "get_shape") else None


def _or_open(size: int | None) -> int:
    return -1 if size is None else size
