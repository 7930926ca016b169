"""Programs of MLIR's linalg dialect as networks: indexing maps as index expressions, the body as the statement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polymap.importers.nodes import Nodes, extra
from polymap.importers.operators import NotMapped
from polymap.inputs import expected_text
from polymap.ir import Apply, Expression, InputError, Mistake, Number, Read
from polymap.networks import Network, Part
from polymap.workload import einsum

_DIALECTS = ("builtin", "func", "linalg", "arith", "tensor", "memref", "math", "affine", "scf")
_FRAMES = ("builtin.module", "func.func", "func.return")
_VIEWS = ("tensor.", "memref.", "arith.constant", "linalg.transpose", "linalg.fill", "linalg.index", "linalg.broadcast")
_OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "max": "max", "min": "min"}
_FUNCTIONS = {"exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos", "absf": "fabs",
              "erf": "erf", "floor": "floor", "ceil": "ceil"}  # fmt: skip
_CASTS = ("ext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast", "index_cast")
_DAMAGE = (ValueError, KeyError, IndexError, AttributeError, AssertionError, TypeError, NotImplementedError)


def from_linalg(text: str, *, name: str = "linalg", bits: int | None = None) -> Network:
    """Return the network of the operations of linalg in a module of MLIR; needs the extra `xdsl`.

    Every `linalg.generic` and named operation of static sizes is a layer: its indexing maps are the indices, and its
    body is the accumulation (`+=`, `max=`, `min=`) or an elementwise function. Operations on tensors and memrefs that
    compute nothing are views, all others unmapped. bits: of all tensors, instead of their element types. Raises
    InputError (PM643) for a text that is no such module, MissingPackageError without the package.
    """
    module = _parsed(expected_text(text, "the module", InputError))
    nodes = Nodes()
    names: dict[Any, str] = {}
    for number, operation in enumerate(_top_level(module)):
        node = f"{operation.name}#{number}"
        if operation.name.startswith(_VIEWS):
            nodes.tell(node, operation.name, lambda: None)
        else:
            nodes.tell(node, operation.name, lambda each=operation: (_part(each, bits),))
        reads = [names[operand] for operand in operation.operands if operand in names]
        names |= dict.fromkeys(operation.results, node)
        nodes.connect(node, reads, [node])
    return nodes.network(name)


def _parsed(text: str) -> Any:
    context = extra("xdsl.context", "from_linalg").Context(allow_unregistered=True)
    for dialect, load in extra("xdsl.dialects", "from_linalg").get_all_dialects().items():
        if dialect in _DIALECTS:
            context.register_dialect(dialect, load)
    errors = extra("xdsl.utils.exceptions", "from_linalg")
    told = (errors.ParseError, errors.VerifyException, errors.DiagnosticException, *_DAMAGE, RecursionError)
    try:
        # Not verified: xdsl refuses named operations whose operands have several element types, which MLIR allows.
        return extra("xdsl.parser", "from_linalg").Parser(context, text).parse_module()
    except told as error:
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(Mistake("PM643", f"the text is no module of linalg: {what}")) from None


def _top_level(operation: Any) -> list[Any]:
    """Return the operations in order, without what stands in the bodies of operations of linalg."""
    found: list[Any] = []
    for each in (inner for region in operation.regions for block in region.blocks for inner in block.ops):
        if each.name not in _FRAMES:
            found.append(each)
        if each.name in _FRAMES or each.name.startswith("scf."):
            found += _top_level(each)
    return found


def _part(operation: Any, bits: int | None) -> Part:
    """Return the workload of a structured operation; raises NotMapped with the reason."""
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
    shapes = [tuple(each.type.get_shape()) if hasattr(each.type, "get_shape") else () for each in operands]
    if any(size < 1 for shape in shapes for size in shape):
        raise NotMapped("a dynamic size, or a tensor without elements")
    axes = [[_index(result) for result in each.results] for each in maps]
    sizes = _sizes(maps[0].num_dims, axes, shapes)
    return _statement(operation, block, axes, sizes, bits)


def _statement(
    operation: Any, block: Any, axes: list[list[dict[int, int]]], sizes: list[int], bits: int | None
) -> Part:
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
    made = einsum(text, sizes={f"d{dim}": sizes[dim] for dim in sorted(dims)}, bits=width, name=operation.name[7:])
    expression = _renumbered(value, {place: number for number, place in enumerate(reads)})
    statement = replace(made.statements[0], expression=expression)
    is_product = operator == "+=" and count in used and _is_product(value) and len(reads) > 1
    return Part(replace(made, statements=(statement,)), is_product)


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


def _sizes(count: int, axes: list[list[dict[int, int]]], shapes: list[tuple[int, ...]]) -> list[int]:
    """Return the extent of each dim, from an axis that it alone indexes."""
    sizes: dict[int, int] = {}
    for indices, shape in zip(axes, shapes, strict=True):
        for axis, size in zip(indices, shape, strict=False):
            if len(axis) == 1 and 1 in axis.values():
                sizes.setdefault(next(iter(axis)), size)
    if len(sizes) < count:
        raise NotMapped("a dim that no axis has alone, so that its size is unknown")
    return [sizes[dim] for dim in range(count)]


def _value(value: Any, arguments: list[Any], used: list[int]) -> Expression:
    """Return a value of the body as an expression of Read(operand); notes the operands read."""
    if value in arguments:
        used.append(arguments.index(value))
        return Read(arguments.index(value))
    operation = value.owner
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


def _is_product(value: Expression) -> bool:
    return isinstance(value, Read) or (
        isinstance(value, Apply) and value.operation == "*" and all(map(_is_product, value.arguments))
    )


def _bits(operand: Any) -> int:
    """Return the bits of an operand's elements."""
    kind = getattr(operand.type, "element_type", operand.type)
    width = getattr(kind, "bitwidth", None)
    if not isinstance(width, int) or width < 1:
        raise NotMapped(f"elements of the type {kind}")
    return width
