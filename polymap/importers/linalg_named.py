"""Named operations of linalg written as `linalg.generic` as MLIR defines them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# Indices of each operand, the result last; `S0` and `D0` are the step and the dilation of window dim 0.
_PRODUCTS = {
    "dot": "m, m -> ",
    "matvec": "m n, n -> m",
    "vecmat": "m, m n -> n",
    "batch_matvec": "b m n, b n -> b m",
    "batch_vecmat": "b m, b m n -> b n",
    "matmul": "m k, k n -> m n",
    "matmul_transpose_a": "k m, k n -> m n",
    "matmul_transpose_b": "m k, n k -> m n",
    "batch_matmul": "b m k, b k n -> b m n",
    "batch_matmul_transpose_a": "b k m, b k n -> b m n",
    "batch_matmul_transpose_b": "b m k, b n k -> b m n",
    "batch_reduce_matmul": "b m k, b k n -> m n",
    "mmt4d": "m k x z, n k y z -> m n x y",
    "batch_mmt4d": "b m k x z, b n k y z -> b m n x y",
    "conv_1d": "p+r, r -> p",
    "conv_2d": "p+r q+s, r s -> p q",
    "conv_3d": "p+r q+s o+t, r s t -> p q o",
}
_WINDOWED = re.compile(
    r"(?:(depthwise_)?conv_[123]d_([ngcdhw]+)_([gfcdhwm]+)|pooling_([ncdhw]+)_(?:sum|max|min)(?:_unsigned)?)"
)
_UNARY = {"abs": "math.absf", "ceil": "math.ceil", "floor": "math.floor", "negf": "arith.negf", "tanh": "math.tanh",
          "erf": "math.erf", "rsqrt": "math.rsqrt", "round": "math.round", "reciprocal": "1/", "square": "^2",
          "exp": "math.exp", "log": "math.log", "sqrt": "math.sqrt"}  # fmt: skip
_BINARY = {"div": "div", "div_unsigned": "div", "powf": "math.powf", "add": "add", "sub": "sub", "mul": "mul",
           "max": "max", "min": "min", "max_signed": "max", "min_signed": "min"}  # fmt: skip

# Values of bodies are named so that they are none of the text's own: `%$x`.
_HIDDEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_START = re.compile(r"(?:(?<=[=\n{])|^)([ \t]*)linalg\.(\w+)(?![\w.])")
_OPERANDS = re.compile(r"\b(ins|outs)\s*\(")
_RESULT = re.compile(r"\s*->\s*(?=[\w!])")
_TYPE = re.compile(r"\w+<")
_ELEMENT = re.compile(r"^(?:tensor|memref|vector)<((?:(?:\d+|\?)x)*)([\w!]+)")
_SHORT_BODY = re.compile(r"\s*\{\s*((?:arith|math)\.\w+)\s*(?:\{[^{}]*\}|[\w<>, ]*)\s*\}\s*\Z")
_LONG_BODY = re.compile(r"\s*\(([^()]*)\)\s*\{")
_WINDOW = re.compile(r"\b(strides|dilations)\s*=\s*dense<\s*(\[[^]]*\]|-?\d+)\s*>")
_DIMENSION = re.compile(r"\bdimensions?\s*(?:=\s*\[([^]]*)\]|\(\s*(\d+)\s*\))")
_MAPS = re.compile(r"\bindexing_maps\s*=\s*\[")
_KIND = re.compile(r"\bkind\s*=\s*#linalg\.elementwise_kind<(\w+)>")


class _Operation(NamedTuple):
    """The parts of an operation's text: what stands between the name and the operands, the operands' names and types,
    the result's type with its arrow, and where the text behind that begins."""

    name: str
    attributes: str
    inputs: tuple[str, ...]
    input_types: tuple[str, ...]
    output: str
    output_type: str
    result: str
    end: int
    body: str = ""


def generalized(text: str) -> str:
    """Return the text of a module in which named operations of linalg are written as `linalg.generic`, with their names
    as `library_call`; line numbers stay. What is not known stays as it is."""
    seen = _HIDDEN.sub(lambda found: " " * len(found[0]), text)  # texts and comments have no operations
    pieces, place = list[str](), 0
    for start in _START.finditer(seen):
        if start.start(2) < place:
            continue
        operation = _operation(seen, start.end(), start[2])
        written = operation and _written(operation)
        if operation and written:
            before = start.end(1)
            lines = text.count("\n", before, operation.end) - written.count("\n")
            pieces += [text[place:before], written, "\n" * max(0, lines)]
            place = operation.end
    return "".join((*pieces, text[place:]))


def _operation(text: str, start: int, name: str) -> _Operation | None:
    """Return the operation whose name ends at `start`; None where it has no such form."""
    groups: dict[str, list[str]] = {}
    first = _OPERANDS.search(text, start)
    if first is None or "linalg." in text[start : first.start()].replace("#linalg.", ""):
        return None
    place = first.start()
    while (found := _OPERANDS.match(text, place)) is not None:
        end = _closed(text, found.end())
        groups[found[1]] = _listed(text[found.end() : end - 1], ":")
        place = end + len(text[end:]) - len(text[end:].lstrip())
    if sorted(groups) != ["ins", "outs"] or any(len(each) != 2 for each in groups.values()):
        return None
    (inputs, input_types), (outputs, output_types) = (
        [tuple(_listed(part, ",")) for part in groups[word]] for word in ("ins", "outs")
    )
    if len(outputs) != 1 or len(output_types) != 1 or len(inputs) != len(input_types):
        return None
    place = len(text[:place].rstrip())
    attributes, body = text[start : first.start()], ""
    if name in ("reduce", "map"):
        attributes, body, place = _with_body(text, place, attributes)
    result, end = "", place
    if (arrow := _RESULT.match(text, place)) is not None:
        end = _type_end(text, arrow.end())
        result = f" -> {text[arrow.end() : end]}"
    elif name in ("reduce", "map") and output_types[0].startswith("tensor"):
        result = f" -> {output_types[0]}"
    return _Operation(name, attributes, inputs, input_types, outputs[0], output_types[0], result, end, body)


def _with_body(text: str, place: int, attributes: str) -> tuple[str, str, int]:
    """Return attributes, body and end of an operation whose attributes and body stand behind the operands."""
    if (dimensions := re.compile(r"\s*dimensions\s*=\s*\[[^]]*\]").match(text, place)) is not None:
        attributes += dimensions[0]
        place = dimensions.end()
    if (found := _LONG_BODY.match(text, place)) is None:
        return attributes, "", place
    end = _closed(text, found.end())
    return attributes, f"({found[1]}){text[found.end() : end - 1]}", end


def _closed(text: str, place: int) -> int:
    """Return the place behind the bracket that closes the one before `place`."""
    depth = 1
    while place < len(text) and depth:
        depth += (text[place] in "([{<") - (text[place] in ")]}" or (text[place] == ">" and text[place - 1] != "-"))
        place += 1
    return place


def _type_end(text: str, place: int) -> int:
    found = _TYPE.match(text, place)
    return _closed(text, found.end()) if found is not None else place + len(re.split(r"[\s,)]", text[place:])[0])


def _listed(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that stand in no bracket."""
    parts, depth, start = list[str](), 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}" or (letter == ">" and text[place - 1 : place] != "-"))
        if letter == separator and depth == 0 and not (separator == ":" and parts):
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def _written(operation: _Operation) -> str | None:
    """Return the operation as `linalg.generic`, or in the form that any operation has; None where it is not known."""
    name = operation.name
    if name == "softmax":
        return _softmax(operation)
    if name in ("reduce", "map"):
        return _reduce_or_map(operation)
    if (kind := _KIND.search(operation.attributes)) is not None and name == "elementwise":
        name = kind[1]
    if name in _UNARY or name in _BINARY:
        return _elementwise(operation, name)
    pool = re.fullmatch(r"pooling_\w+?_(sum|max|min)(?:_unsigned)?", name)
    spec = _PRODUCTS.get(name) or _windowed(name)
    if (given := _given_maps(operation.attributes)) is None and spec is not None:
        given = _maps(spec, operation.attributes)
    if given is None or (spec is None and name not in ("contract",)):
        return None
    elements = _elements(operation)
    if elements is None or len(elements) != 3 or len(given[1]) != 3:
        return None
    return _generic(operation, *given, accumulation(elements, pool[1] if pool is not None else "product"))


def _windowed(name: str) -> str | None:
    """Return the indices of a convolution or pooling, whose name says the axes of its operands; None for others."""
    found = _WINDOWED.fullmatch(name)
    if found is None:
        return None
    depthwise, image, taps, pooled = found.groups()
    image = image or pooled
    axes = [letter for letter in image if letter in "dhw"]
    taps = taps or "".join(axes)
    if sorted(axes) != sorted(letter for letter in taps if letter in "dhw"):
        return None

    def indices(letters: str, spatial: Iterable[str], channels: dict[str, str]) -> str:
        of = channels | dict(zip(axes, spatial, strict=False))
        return " ".join(of.get(letter, letter) for letter in letters)

    windows = [f"{place}*S{axis}+{tap}*D{axis}" for axis, (place, tap) in enumerate(zip("pqo", "rst", strict=True))]
    result = indices(image, "pqo", {} if depthwise or pooled else {"c": "k"}) + (" m" if "m" in taps else "")
    return f"{indices(image, windows, {})}, {indices(taps, 'rst', {'f': 'k'})} -> {result}"


def _maps(spec: str, attributes: str) -> tuple[str, list[str]] | None:
    """Return the dims, and the results of each operand's map."""
    numbers = {"S": "", "D": ""}
    for word, value in _WINDOW.findall(attributes):
        numbers[word[0].upper()] = value
    for word in ("strides", "dilations"):
        if word in attributes and not numbers[word[0].upper()]:
            return None
    left, right = spec.split("->")
    results = [_filled(each, numbers) for each in (*left.split(","), right)]
    if None in results:
        return None
    dims = dict.fromkeys(re.findall(r"[a-z]", right + left))
    return ", ".join(dims), [each or "" for each in results]


def _filled(spec: str, numbers: dict[str, str]) -> str | None:
    """Return indices with their steps and dilations; None where there are fewer than dims."""
    text = ", ".join(spec.split())
    for word in re.findall(r"[SD]\d", spec):
        values = re.findall(r"-?\d+", numbers[word[0]]) or ["1"]
        values = values * (int(word[1]) + 1) if not numbers[word[0]].startswith("[") else values
        if int(word[1]) >= len(values):
            return None
        text = text.replace(word, values[int(word[1])])
    return text


def _given_maps(attributes: str) -> tuple[str, list[str]] | None:
    """Return the maps of an attribute, as text; None where there are none."""
    if (found := _MAPS.search(attributes)) is None:
        return None
    return "", _listed(attributes[found.end() : _closed(attributes, found.end()) - 1], ",")


def _elements(operation: _Operation) -> list[str] | None:
    """Return the element types of the operands; None for one that has none."""
    found = [_ELEMENT.match(each) for each in (*operation.input_types, operation.output_type)]
    return [each[2] for each in found if each is not None] if all(found) else None


def _generic(operation: _Operation, dims: str, maps: Iterable[str], body: str) -> str:
    """Return the text of a `linalg.generic`; kinds of iterators do not matter here. maps: results, or whole maps where
    dims is ""."""
    written = [f"affine_map<({dims}) -> ({each})>" if dims or not _is_map(each) else each for each in maps]
    return (
        f"linalg.generic {{indexing_maps = [{', '.join(written)}], iterator_types = [], "
        f'library_call = "linalg.{operation.name}"}} '
        f"ins({', '.join(operation.inputs)} : {', '.join(operation.input_types)}) "
        f"outs({operation.output} : {operation.output_type}) {{ {body} }}{operation.result}"
    )


def _is_map(text: str) -> bool:
    return text.startswith(("affine_map", "#"))


def accumulation(elements: list[str], kind: str) -> str:
    """Return the body of a product, or of another accumulation, of elements of these types, the result's last."""
    left, right, out = elements
    head = f"^bb0(%$x: {left}, %$y: {right}, %$z: {out}): "
    family = "f" if _is_float(out) else "i"
    casts = f"{_cast('x', left, out)}{_cast('y', right, out) if kind == 'product' else ''}"
    if kind == "product":
        return (
            f"{head}{casts}%$t = arith.mul{family} %$x_, %$y_ : {out} %$s = arith.add{family} %$z, %$t : {out} "
            f"linalg.yield %$s : {out}"
        )
    word = {"sum": f"add{family}", "max": "maximumf" if family == "f" else "maxsi"}
    word["min"] = word["max"].replace("max", "min")
    return f"{head}{casts}%$s = arith.{word[kind]} %$z, %$x_ : {out} linalg.yield %$s : {out}"


def _is_float(element: str) -> bool:
    return element.startswith(("f", "bf", "tf"))


def _cast(name: str, source: str, target: str) -> str:
    """Return the operation that casts an argument to the result's type: the name with an underscore."""
    if source == target:
        return f"%${name}_ = arith.bitcast %${name} : {source} to {target} "
    words = {(True, True): "extf", (False, False): "extsi", (False, True): "sitofp", (True, False): "fptosi"}
    return f"%${name}_ = arith.{words[_is_float(source), _is_float(target)]} %${name} : {source} to {target} "


def _elementwise(operation: _Operation, name: str) -> str | None:
    elements = _elements(operation)
    found = _ELEMENT.match(operation.output_type)
    count = 1 if name in _UNARY else 2
    if elements is None or found is None or len(elements) != count + 1 or len(set(elements)) > 1:
        return None
    element = elements[0]
    dims = ", ".join(f"d{place}" for place in range(found[1].count("x")))
    maps = _given_maps(operation.attributes) or (dims, [dims] * (count + 1))
    arguments = ", ".join(f"%$x{place}: {element}" for place in range(count))
    body = applied(_UNARY.get(name) or _BINARY[name], count, element)
    return _generic(operation, *maps, f"^bb0({arguments}, %$z: {element}): {body}linalg.yield %$s : {element}")


def applied(word: str, count: int, element: str) -> str:
    """Return an operation on the first arguments of a body, whose result is %s."""
    family = "f" if _is_float(element) else "i"
    if word == "^2":
        return f"%$s = arith.mul{family} %$x0, %$x0 : {element} "
    if word == "1/":
        one = f"%$one = arith.constant 1{'.0' if family == 'f' else ''} : {element} "
        return f"{one}%$s = arith.div{family if family == 'f' else 'si'} %$one, %$x0 : {element} "
    if "." not in word:
        signed = {"max": "maximumf", "min": "minimumf", "div": "divf"}
        integer = {"max": "maxsi", "min": "minsi", "div": "divsi"}
        word = f"arith.{(signed if family == 'f' else integer).get(word, word + family)}"
    return f"%$s = {word} {', '.join(f'%$x{place}' for place in range(count))} : {element} "


def _reduce_or_map(operation: _Operation) -> str | None:
    elements, source = _elements(operation), _ELEMENT.match(operation.input_types[0])
    if elements is None or source is None or (operation.name == "reduce" and len(operation.inputs) != 1):
        return None
    dims = [f"d{place}" for place in range(source[1].count("x"))]
    gone = _DIMENSION.search(operation.attributes) if operation.name == "reduce" else None
    if operation.name == "reduce" and gone is None:
        return None
    dropped = re.findall(r"\d+", gone[1] or gone[2] or "") if gone is not None else []
    kept = [dim for dim in dims if dim[1:] not in dropped]
    maps = [*[", ".join(dims)] * len(operation.inputs), ", ".join(kept)]
    body = _body(operation, elements)
    return None if body is None else _generic(operation, ", ".join(dims), maps, body)


def _body(operation: _Operation, elements: list[str]) -> str | None:
    """Return the body of a reduce or map, whose arguments stand outside of it or which is one operation's name."""
    if operation.body:
        arguments, _, inside = operation.body[1:].partition(")")
        count = arguments.count("%")
        if count == len(elements) - 1:  # a map does not read what it writes
            arguments += f"{', ' if arguments.strip() else ''}%$written: {elements[-1]}"
        elif count != len(elements):
            return None
        return f"^bb0({arguments}): {inside}"
    short = _SHORT_BODY.search(_before_dimensions(operation.attributes))
    if short is None or len(set(elements)) > 1:
        return None
    names = [f"%$x{place}" for place in range(len(elements))]
    read = names if operation.name == "reduce" else names[:-1]
    arguments = ", ".join(f"{name}: {elements[0]}" for name in names)
    return f"^bb0({arguments}): %$s = {short[1]} {', '.join(read)} : {elements[0]} linalg.yield %$s : {elements[0]}"


def _before_dimensions(attributes: str) -> str:
    return re.split(r"\bdimensions\b", attributes)[0]


def _softmax(operation: _Operation) -> str | None:
    """Return a softmax in the form that any operation has."""
    found = _DIMENSION.search(operation.attributes)
    if found is None or len(operation.inputs) != 1:
        return None
    types = f"({operation.input_types[0]}, {operation.output_type}) -> {operation.result.removeprefix(' -> ') or '()'}"
    return (
        f'"linalg.softmax"({operation.inputs[0]}, {operation.output}) '
        f"{{dimension = {found[1] or found[2]} : i64}} : {types}"
    )
