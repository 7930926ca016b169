"""One table from the operators of models to loop nests with affine indices, for every importer.

An operator becomes one workload or several in order, each a single statement that `explore` can prove. Elementwise
functions are accumulations of one term, which move what an assignment moves. A padded input is part of the input, as
in `conv2d`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product as combinations
from math import prod

from polymap.importers.calls import (
    Call,
    NotMapped,
    Shape,
    Why,
    broadcast,
    divided,
    indices,
    integer,
    joined,
    nests,
    rank_of,
    rows_along,
    sized,
)
from polymap.importers.contractions import contraction
from polymap.importers.functions import FUNCTIONS
from polymap.importers.recurrences import recurrence
from polymap.ir import Apply, Expression, Number, Read
from polymap.networks import Part
from polymap.workload import Letters, Step, attention_steps, softmax_steps

_SPACE = ("p", "q", "t")  # output positions
_TAPS = ("r", "s", "u")  # kernel positions
_PHASES = ("a", "b", "e")  # output positions within a stride
_OPERANDS = "ABCDEFGHLMNPQRST"  # of elementwise functions


def parts_of(call: Call) -> tuple[Part, ...]:
    """Return the workloads of a call; raises NotMapped, with the reason, where there are none."""
    build = _TABLE.get(call.operator)
    if build is None:
        raise NotMapped("no affine loop nest is known for this operator")
    if 0 in call.output or any(0 in shape for shape in call.inputs):
        raise NotMapped("a tensor without elements", 0)
    parts = build(call)
    # Only a call of one loop nest reads its operands in the order in which they are given.
    return tuple(Part(call.typed(one), is_product) for one, is_product in parts) if len(parts) == 1 else parts


def operand_tensors(operator: str, parts: Sequence[Part]) -> tuple[str, ...]:
    """Return which tensor of its workloads each operand of a call is, in their order; () where several workloads read
    them otherwise."""
    reads = [each.tensor for part in parts for each in part.workload.statements[0].reads]
    if len(parts) == 1:
        return tuple(reads)
    written = {part.workload.statements[0].target.tensor for part in parts}
    return tuple(dict.fromkeys(each for each in reads if each not in written)) if operator in _IN_ORDER else ()


STATISTICS = ("reduce_l2", "reduce_log_sum", "reduce_log_sum_exp", "variance", "deviation")
_IN_ORDER = (*STATISTICS, "dynamic_quantisation", "softmax", "log_softmax", "layer_norm", "attention")


def _axis(scale: int, outer: str, dilation: int, inner: str) -> str:
    first = outer if scale == 1 else f"{scale}*{outer}"
    return f"{first}+{inner if dilation == 1 else f'{dilation}*{inner}'}"


def _spatial_rank(call: Call, macs: int | None = None) -> int:
    rank = len(call.output) - 2
    if not 1 <= rank <= 3 or len(call.inputs) < 1 or len(call.inputs[0]) != rank + 2:
        raise NotMapped("not over 1, 2 or 3 spatial axes", macs)
    return rank


def _check_windows(call: Call, kernel: Shape, dilations: Shape) -> None:
    """Raise NotMapped where not even one window fits (option: padding, before and behind together, per axis)."""
    padding = call.integers("padding", len(kernel), -1)
    for size, more, taps, dilation in zip(call.inputs[0][2:], padding, kernel, dilations, strict=True):
        if more >= 0 and dilation * (taps - 1) >= size + more:
            raise NotMapped("its window is larger than its padded input")


def _convolution_macs(call: Call) -> int | None:
    """Return the multiply-accumulates of a convolution over any number of axes: all outputs times a filter."""
    if len(call.inputs) < 2 or not len(call.inputs[0]) == len(call.inputs[1]) == len(call.output) > 2:
        return None
    _check_windows(call, call.inputs[1][2:], call.steps("dilations", len(call.output) - 2))
    return prod(call.output) * prod(call.inputs[1][1:])


def _groups(call: Call, rank: int, first: int, second: int) -> int:
    """Return the groups of a convolution; raises NotMapped where its weights are not [first, second / groups, ...]."""
    weight, groups = call.inputs[1], integer(call, "groups", 1)
    is_whole = len(weight) == rank + 2 and weight[0] == first and groups > 0 and first % groups == 0
    if not is_whole or weight[1] * groups != second or call.inputs[0][0] != call.output[0]:
        raise NotMapped("the shapes of input, weights and output do not fit together")
    if call.integers("kernel", rank, 0) not in ((0,) * rank, weight[2:]):
        raise NotMapped("its kernel_shape is not that of the weights")
    return groups


def convolution(call: Call) -> tuple[Part, ...]:
    """O[n,k,p,q] += I[n,c,stride*p+dilation*r,...] * W[k,c,r,s]; groups: O[n,g,k,p,q]; depthwise: no k and c."""
    rank = _spatial_rank(call, _convolution_macs(call))
    weight, outputs = call.inputs[1], call.output[1]
    groups = _groups(call, rank, outputs, call.inputs[0][1])
    channels = weight[1]
    strides, dilations = call.steps("strides", rank), call.steps("dilations", rank)
    space, taps = _SPACE[:rank], _TAPS[:rank]
    sizes = {"n": call.output[0], **sized(space, call.output[2:]), **sized(taps, weight[2:])}
    per_group = outputs // groups
    letters = [("g", groups)] if groups > 1 else []
    kept = [*letters, *([("k", per_group)] if groups == 1 or per_group > 1 else [])]
    summed = [*letters, *([("c", channels)] if groups == 1 or channels > 1 else [])]
    sizes |= dict((*kept, *summed))
    window = [_axis(*each) for each in zip(strides, space, dilations, taps, strict=True)]
    inner = [("c", channels)] if ("c", channels) in summed else []
    names = [[letter for letter, _ in each] for each in (kept, summed, [*kept, *inner])]
    text = (
        f"O[{','.join(('n', *names[0], *space))}] += I[{','.join(('n', *names[1], *window))}]"
        f" * W[{','.join((*names[2], *taps))}]"
    )
    return (Part(call.workload(text, sizes, "convolution"), is_product=True),)


def _scattered_macs(call: Call) -> int | None:
    """Return the multiply-accumulates of a transposed convolution: each element of the input, each of its weights."""
    if len(call.inputs) < 2 or len(call.inputs[1]) != len(call.inputs[0]):
        return None
    return prod(call.inputs[0]) * prod(call.inputs[1][1:])


def transposed_convolution(call: Call) -> tuple[Part, ...]:
    """O[n,k,stride*p+dilation*r] += I[n,c,p] * W[c,k,r]: every element of the input adds a scaled kernel to the output.

    What is cut off at the borders is part of the output, as padding is part of a convolution's input. Where the outputs
    of each phase of the stride read as many elements in all, that is what is computed: O[n,k,x,a] += I[n,c,x+u] *
    W[c,k,u,a], in which output position stride*x+a reads every stride-th tap.
    """
    rank = _spatial_rank(call, _scattered_macs(call))
    (images, inputs, *space), weight = call.inputs[:2]
    groups = _groups(call, rank, inputs, call.output[1])
    strides, dilations = call.steps("strides", rank), call.steps("dilations", rank)
    begins = call.integers("pads_begin", rank, 0)
    axes = [_phases(*each) for each in zip(call.output[2:], weight[2:], strides, begins, strict=True)]
    gathered = prod(sum(prod(kind) for kind in kinds) for kinds in axes)
    if set(dilations) == {1} and gathered == prod(space) * prod(weight[2:]):
        return _of_phases(call, axes)
    letters, taps = _SPACE[:rank], _TAPS[:rank]
    window = [_axis(*each) for each in zip(strides, letters, dilations, taps, strict=True)]
    group = ["g"] if groups > 1 else []
    sizes = {"n": images, "k": weight[1], "c": inputs // groups, **sized(letters, space), **sized(taps, weight[2:])}
    sizes |= {"g": groups} if groups > 1 else {}
    text = (
        f"O[{joined(['n'], *group, 'k', *window)}] += I[{joined(['n'], *group, 'c', *letters)}]"
        f" * W[{joined(group, 'c', 'k', *taps)}]"
    )
    return (Part(call.workload(text, sizes, "transposed"), is_product=True),)


def _of_phases(call: Call, axes: Sequence[list[tuple[int, int, int]]]) -> tuple[Part, ...]:
    """Return a workload for each combination of numbers of outputs, taps and phases along the axes."""
    weight, groups = call.inputs[1], integer(call, "groups", 1)
    parts: list[Part] = []
    for kinds in combinations(*axes):
        sizes = {"n": call.output[0], "k": weight[1], "c": weight[0] // groups} | ({"g": groups} if groups > 1 else {})
        out, read, tap = (["n", "g", "k"], ["n", "g", "c"], ["g", "c", "k"])
        for axis, (outputs, taps, phases) in enumerate(kinds):
            x, u, a = _SPACE[axis], _TAPS[axis], _PHASES[axis]
            sizes |= {x: outputs, u: taps, a: phases}
            out, read, tap = [*out, x, a], [*read, f"{x}+{u}"], [*tap, u, a]
        if groups == 1:
            out, read, tap = ([letter for letter in each if letter != "g"] for each in (out, read, tap))
        text = f"O[{','.join(out)}] += I[{','.join(read)}] * W[{','.join(tap)}]"
        name = "transposed" if len(parts) == 0 else f"transposed_{len(parts)}"
        parts.append(Part(call.workload(text, sizes, name), is_product=True))
    return tuple(parts)


def _phases(outputs: int, kernel: int, stride: int, begin: int) -> list[tuple[int, int, int]]:
    """Return (outputs, taps, phases) of the phases of one axis, those with equal numbers together.

    Output y of the whole result (before `begin` positions are cut off) reads the taps r = y modulo stride.
    """
    counts: dict[tuple[int, int], int] = {}
    for phase in range(stride):
        taps = len(range(phase, kernel, stride))
        first = (phase - begin) % stride
        made = len(range(first, outputs, stride))
        if taps and made:
            counts[made, taps] = counts.get((made, taps), 0) + 1
    return [(made, taps, phases) for (made, taps), phases in counts.items()]


def matrix_product(call: Call) -> tuple[Part, ...]:
    """C[...,m,n] += A[...,m,k] * B[...,k,n]: leading dims broadcast; vectors as numpy's matmul takes them."""
    first, second = call.inputs[:2]
    left, right = (first if len(first) > 1 else (1, *first)), (second if len(second) > 1 else (*second, 1))
    if len(first) < 1 or len(second) < 1 or left[-1] != right[-2]:
        raise NotMapped("the shapes of the operands do not fit together")
    leading = broadcast((left[:-2], right[:-2]))
    letters = [f"b{axis}" for axis in range(len(leading))]
    sizes = sized(letters, leading) | {"m": left[-2], "n": right[-1], "k": left[-1]}
    of_a, of_b = (indices(shape[:-2], leading, letters) for shape in (left, right))
    if not of_b and leading:  # the weights of a linear layer: all leading dims are rows
        sizes = {"m": prod(leading) * left[-2], "n": right[-1], "k": left[-1]}
        letters = of_a = []
    text = f"C[{joined(letters, 'm', 'n')}] += A[{joined(of_a, 'm', 'k')}] * B[{joined(of_b, 'k', 'n')}]"
    return (Part(call.workload(text, sizes, "product"), is_product=True),)


def linear(call: Call) -> tuple[Part, ...]:
    """C[m,n] += A[m,k] * B[k,n] with the weights given as [n, k]; all leading dims of the input are rows m."""
    if not call.inputs[0]:
        raise NotMapped("the shapes of the operands do not fit together")
    *leading, wide = call.inputs[0]
    weight = call.inputs[1]
    if len(weight) != 2 or weight[1] != wide:
        raise NotMapped("the shapes of the operands do not fit together")
    return matrix_product(replace(call, inputs=((prod(leading), wide), weight[::-1])))


def grouped_product(call: Call) -> tuple[Part, ...]:
    """O[e,m,n] += A[e,m,k] * B[e,k,n]: rows routed to experts, as if all got equally many (or one more, where they do
    not divide)."""
    (rows, wide), (experts, high, columns) = call.inputs[:2]
    if wide != high:
        raise NotMapped("the shapes of the operands do not fit together", rows * wide * columns)
    return _routed(call, rows, (experts, wide, columns))


def _routed(call: Call, rows: int, weights: Shape, tag: str = "") -> tuple[Part, ...]:
    experts, wide, columns = weights
    each, more = divmod(rows, experts)
    text = "O[e,m,n] += A[e,m,k] * B[e,k,n]"
    return tuple(
        Part(call.workload(text, {"e": count, "m": taken, "n": columns, "k": wide}, f"{name}{tag}"), is_product=True)
        for name, count, taken in (("experts", experts - more, each), ("larger_experts", more, each + 1))
        if count and taken
    )


def experts(call: Call) -> tuple[Part, ...]:
    """The two or three products of each expert with the rows routed to it; options: k, to how many a row goes.

    inputs: rows [..., hidden], then the weights [experts, inner, hidden], the second ones [experts, hidden, inner];
    each may stand transposed. The router and what stands between the products is not counted.
    """
    *leading, hidden = call.inputs[0]
    rows = prod(leading) * integer(call, "k", 1)
    parts: list[Part] = []
    for place, weights in enumerate(call.inputs[1:]):
        if len(weights) != 3 or hidden not in weights[1:]:
            raise NotMapped("the shapes of the operands do not fit together")
        inner = prod(weights[1:]) // hidden
        wide, columns = (inner, hidden) if place == 1 else (hidden, inner)
        parts += _routed(call, rows, (weights[0], wide, columns), f"_{place}" if place else "")
    return tuple(parts)


def attention(call: Call) -> tuple[Part, ...]:
    """Scores of each head, softmax over the keys, context; queries [..., m, k], keys [..., n, k], values [..., n, d].

    Fewer heads of keys than of queries are shared by consecutive heads (grouped queries), keys without a batch by all
    of it. A mask is not used: all
    scores are computed. options: past, how many keys and values stand in a cache before those of the operands.
    """
    queries, keys, values = (_headed(shape) for shape in call.inputs[:3])
    past = integer(call, "past", 0)
    fits = keys[0] == values[0] in (queries[0], 1) and keys[1:3] == values[1:3] and queries[3] == keys[3]
    if not fits or queries[1] % keys[1]:
        raise NotMapped("the shapes of queries, keys and values do not fit together")
    shared, length = queries[0] // keys[0] * (queries[1] // keys[1]), past + keys[2]
    sizes = {"b": keys[0], "h": keys[1], "m": queries[2], "n": length, "k": queries[3], "d": values[3]}
    sizes |= {} if shared == 1 else {"g": shared}
    letters = Letters(("b", "h"), () if shared == 1 else ("g",), "m", "n", "k", "d")
    return nests(call, attention_steps(letters, context="C"), sizes)


def projected_attention(call: Call) -> tuple[Part, ...]:
    """A product with the weights [width, queries + keys + values], then their attention; options: heads, widths (of
    queries, keys and values; thirds of the weights without), past."""
    if len(call.inputs[0]) != 3 or len(call.inputs[1]) != 2 or call.inputs[0][2] != call.inputs[1][0]:
        raise NotMapped("the shapes of the operands do not fit together")
    (batch, length, _), every, heads = call.inputs[0], call.inputs[1][1], integer(call, "heads", 0)
    widths = call.integers("widths", 3, every // 3)
    if heads < 1 or sum(widths) != every or any(width % heads for width in widths) or widths[0] != widths[1]:
        raise NotMapped("its heads do not divide the width of its weights")
    shapes = tuple((batch, heads, length, width // heads) for width in widths)
    product = matrix_product(replace(call, output=(batch, length, every)))
    return (*product, *attention(replace(call, inputs=shapes, output=(*shapes[0][:3], widths[2] // heads))))


def _headed(shape: Shape) -> Shape:
    """Return a shape as [batch, heads, length, width]: more leading dims are one, fewer are 1."""
    if len(shape) < 2:
        raise NotMapped("not the shapes [batch, heads, length, width]")
    return (prod(shape[:-3]), *((1,) * (3 - len(shape[-3:]))), *shape[-3:])


def pooling(call: Call) -> tuple[Part, ...]:
    """O[n,c,p,q] max= I[n,c,stride*p+dilation*r,...], or += I / (taps of the window) for averages."""
    rank = _spatial_rank(call)
    kernel = call.integers("kernel", rank, 0)
    if min(kernel) < 1 or call.inputs[0][:2] != call.output[:2]:
        raise NotMapped("the size of the window is not known")
    strides, dilations = call.steps("strides", rank), call.steps("dilations", rank)
    _check_windows(call, kernel, dilations)
    space, taps = _SPACE[:rank], _TAPS[:rank]
    sizes = {"n": call.output[0], "c": call.output[1], **sized(space, call.output[2:]), **sized(taps, kernel)}
    window = ",".join(_axis(*each) for each in zip(strides, space, dilations, taps, strict=True))
    is_max = call.operator == "max_pool"
    text = f"O[n,c,{','.join(space)}] {'max=' if is_max else '+='} I[n,c,{window}]"
    mean = None if is_max else divided(Read(0), prod(kernel))
    return (Part(call.workload(text, sizes, "pooling", mean), is_product=False),)


def reduction(call: Call) -> tuple[Part, ...]:
    """O[kept dims] += I[all dims] (max=, min=); averages divide each term."""
    shape, letters = call.inputs[0], _letters(call.inputs[0])
    operator = {"reduce_max": "max=", "reduce_min": "min="}.get(call.operator, "+=")
    text = f"O[{','.join(_kept(call))}] {operator} I[{','.join(letters)}]"
    terms: dict[str, Expression] = {
        "reduce_mean": divided(Read(0), prod(shape) // max(1, prod(_kept_sizes(call)))),
        "reduce_sum_square": Apply("*", (Read(0), Read(0))),
        "reduce_l1": Apply("fabs", (Read(0),)),
    }
    return (Part(call.workload(text, sized(letters, shape), "reduction", terms.get(call.operator)), is_product=False),)


def _letters(shape: Shape) -> list[str]:
    return [f"i{axis}" for axis in range(len(shape))]


def _kept(call: Call) -> list[str]:
    """Return the dims of the first input that a reduction keeps (options: axes; all are reduced without them)."""
    (shape, *_), axes = call.inputs, call.integers("axes", rank_of(call, "axes"), 0)
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise NotMapped("an axis lies outside the tensor")
    reduced = {axis % len(shape) for axis in axes} if axes and shape else set(range(len(shape)))
    return [letter for axis, letter in enumerate(_letters(shape)) if axis not in reduced]


def _kept_sizes(call: Call) -> list[int]:
    sizes = sized(_letters(call.inputs[0]), call.inputs[0])
    return [sizes[letter] for letter in _kept(call)]


def statistic(call: Call) -> tuple[Part, ...]:
    """Roots, logarithms and variances of rows: sums of each row, then a function of the sums.

    options: axes; correction of a variance (what is taken off the number of elements).
    """
    shape, letters, row = call.inputs[0], _letters(call.inputs[0]), ",".join(_kept(call))
    each, count = ",".join(letters), prod(shape) // max(1, prod(_kept_sizes(call)))
    square = Apply("*", (Read(0), Read(0)))
    centred = Apply("-", (Read(0), Read(1)))
    sums, largest = Step("sums", f"S[{row}] += X[{each}]"), Step("largest", f"M[{row}] max= X[{each}]")
    powers = Step("sums", f"S[{row}] += X[{each}] * M[{row}]", Apply("exp", (centred,)))
    means = Step("means", f"M[{row}] += X[{each}]", divided(Read(0), count))
    left = max(1, count - integer(call, "correction", 0))
    spread = divided(Apply("*", (centred, centred)), left)
    variance = f"{'V' if call.operator == 'deviation' else 'O'}[{row}] += X[{each}] * M[{row}]"
    root, logarithm = Apply("sqrt", (Read(0),)), Apply("log", (Read(0),))
    steps = {
        "reduce_l2": (Step("sums", f"S[{row}] += X[{each}]", square), Step("roots", f"O[{row}] += S[{row}]", root)),
        "reduce_log_sum": (sums, Step("logarithms", f"O[{row}] += S[{row}]", logarithm)),
        "reduce_log_sum_exp": (
            *(largest, powers),
            Step("logarithms", f"O[{row}] += S[{row}] * M[{row}]", Apply("+", (logarithm, Read(1)))),
        ),
        "variance": (means, Step("variances", variance, spread)),
        "deviation": (means, Step("variances", variance, spread), Step("roots", f"O[{row}] += V[{row}]", root)),
    }[call.operator]
    return nests(call, steps, sized(letters, shape))


def log_softmax(call: Call) -> tuple[Part, ...]:
    """Largest element of each row, sums of the exponentials of the differences, differences less the logarithms."""
    letters, row = rows_along(call, integer(call, "axis", -1))
    each, centred = ",".join(letters), Apply("-", (Read(0), Read(1)))
    steps = (
        Step("largest", f"M[{row}] max= X[{each}]"),
        Step("sums", f"S[{row}] += X[{each}] * M[{row}]", Apply("exp", (centred,))),
        Step(
            *("differences", f"O[{each}] += X[{each}] * M[{row}] * S[{row}]"),
            Apply("-", (centred, Apply("log", (Read(2),)))),
        ),
    )
    return nests(call, steps, sized(letters, call.inputs[0]))


def dynamic_quantisation(call: Call) -> tuple[Part, ...]:
    """Largest and smallest element, then each element divided by their difference over 255, as ONNX has it."""
    letters, source = _letters(call.inputs[0]), call.operands[0] if call.operands else None
    each, sizes = ",".join(letters), sized(_letters(call.inputs[0]), call.inputs[0])
    ends = Apply("/", (Apply("-", (Read(1), Read(2))), Number("255.0")))
    first = call if source is None else replace(call, element_type=source.element_type)
    found = nests(first, (Step("largest", f"M[] max= X[{each}]"), Step("smallest", f"N[] min= X[{each}]")), sizes)
    value = Apply("rint", (Apply("/", (Read(0), ends)),))
    last = call.workload(f"O[{each}] += X[{each}] * M[] * N[]", sizes, "quotients", value)
    typed = last if source is None else replace(call, operands=(source,) * 3).typed(last)
    return (*found, Part(typed, is_product=False))


def enlarged(call: Call) -> tuple[Part, ...]:
    """O[i,p,a] += I[i,p]: output position times*p+a of an axis repeats element p (nearest, by whole numbers)."""
    shape = call.inputs[0]
    if len(shape) != len(call.output) or any(made % size for made, size in zip(call.output, shape, strict=True)):
        what = f"{Why.ROUNDING}: an axis does not become a whole number of times as long"
        raise NotMapped(what, 0)
    letters, written, sizes = _letters(shape), list[str](), sized(_letters(shape), shape)
    for letter, size, made in zip(letters, shape, call.output, strict=True):
        written.append(letter)
        if made > size:
            written.append(f"{letter}_")
            sizes[f"{letter}_"] = made // size
    text = f"O[{','.join(written)}] += I[{','.join(letters)}]"
    return (Part(call.workload(text, sizes, "enlarged"), is_product=False),)


def elementwise(call: Call) -> tuple[Part, ...]:
    """O[i,j] += f(A[i,j], B[j], ...): operands broadcast; an operand of one element is O's scalar."""
    make = FUNCTIONS[call.operator]
    operands = call.inputs[: make.operands] if make.operands else call.inputs
    if not operands:
        raise NotMapped("no tensor among the operands")
    if len(operands) > len(_OPERANDS):
        raise NotMapped(f"more than {len(_OPERANDS)} operands", 0)
    letters = _letters(call.output)
    reads = [indices(shape, call.output, letters) for shape in operands]
    if not any(reads) and call.output and prod(call.output) > 1:
        raise NotMapped("every operand is a constant")
    used = {letter for read in reads for letter in read}
    kept = [letter for letter in letters if letter in used]
    right = " * ".join(f"{name}[{','.join(read)}]" for name, read in zip(_OPERANDS, reads, strict=False))
    sizes = {letter: size for letter, size in zip(letters, call.output, strict=True) if letter in used}
    expression = make.make(tuple(Read(place) for place in range(len(operands))))
    return (Part(call.workload(f"O[{','.join(kept)}] += {right}", sizes, "elementwise", expression), is_product=False),)


def softmax(call: Call) -> tuple[Part, ...]:
    """Largest element of each row, exponentials of the differences, their sums, quotients."""
    letters, row = rows_along(call, integer(call, "axis", -1))
    return nests(call, softmax_steps(",".join(letters), row), sized(letters, call.inputs[0]))


def layer_norm(call: Call) -> tuple[Part, ...]:
    """Mean and variance of each row (the mean not for RMS normalisation), then the scaled and shifted quotient.

    options: axes (how many last dims are a row), rms, epsilon, skip (a second input is added first). inputs: x, what
    is added, and the scale and the shift where there are.
    """
    if call.options.get("skip"):
        total = replace(call, operator="add", inputs=call.inputs[:2], output=call.inputs[0])
        left = replace(call, inputs=(call.inputs[0], *call.inputs[2:]), options={**call.options, "skip": 0})
        return (*elementwise(total), *layer_norm(left))
    shape, parameters = call.inputs[0], call.inputs[1:3]
    last = integer(call, "axes", 1)
    if not 1 <= last <= len(shape):
        raise NotMapped("the axis lies outside the tensor")
    letters = _letters(shape)
    row = ",".join(letters[: len(shape) - last])
    sizes, each, width = sized(letters, shape), ",".join(letters), prod(shape[len(shape) - last :])
    is_rms = bool(call.options.get("rms"))
    reads = [f"X[{each}]"] if is_rms else [f"X[{each}]", f"M[{row}]"]
    centred: Expression = Read(0) if is_rms else Apply("-", (Read(0), Read(1)))
    variance = f"V[{row}] += {' * '.join(reads)}"
    steps: list[tuple[str, str, Expression]] = []
    if not is_rms:
        steps.append(("means", f"M[{row}] += X[{each}]", divided(Read(0), width)))
    steps.append(("variances", variance, divided(Apply("*", (centred, centred)), width)))
    at = len(reads)
    epsilon = call.options.get("epsilon", 1e-5)
    root = Apply("sqrt", (Apply("+", (Read(at), Number(repr(float(str(epsilon)))))),))
    value: Expression = Apply("/", (centred, root))
    for place, operation in zip(range(at + 1, at + 1 + len(parameters)), "*+", strict=False):
        value = Apply(operation, (value, Read(place)))
    pairs = zip("GB", parameters, strict=False)
    scales = [f"{name}[{','.join(indices(each, shape, letters))}]" for name, each in pairs]
    steps.append(("quotients", f"O[{each}] += {' * '.join((*reads, f'V[{row}]', *scales))}", value))
    return tuple(Part(call.workload(text, sizes, name, value), is_product=False) for name, text, value in steps)


def local_norm(call: Call) -> tuple[Part, ...]:
    """Sums of squares over neighbouring channels (padded ones are part of the input), then the scaled quotient.

    options: size, alpha, beta, bias (Krizhevsky et al. 2012, section 3.3).
    """
    shape, size = call.inputs[0], integer(call, "size", 0)
    if len(shape) < 2 or size < 1:
        raise NotMapped("not over [batch, channels, ...] with a number of neighbours")
    letters = _letters(shape)
    each, window = ",".join(letters), ",".join((letters[0], "i1+r", *letters[2:]))
    alpha, beta, bias = (Number(repr(float(str(call.options.get(key))))) for key in ("alpha", "beta", "bias"))
    sums = Apply("+", (bias, Apply("*", (divided(alpha, size), Read(1)))))
    sizes, square = sized(letters, shape), Apply("*", (Read(0), Read(0)))
    first = call.workload(f"S[{each}] += P[{window}]", sizes | {"r": size}, "sums", square)
    quotient = Apply("/", (Read(0), Apply("pow", (sums, beta))))
    last = call.workload(f"O[{each}] += X[{each}] * S[{each}]", sizes, "quotients", quotient)
    return (Part(first, is_product=False), Part(last, is_product=False))


def batch_norm(call: Call) -> tuple[Part, ...]:
    """O[n,c,p,q] += X[n,c,p,q] * G[c] + H[c]: the statistics of inference, folded into one scale and one shift."""
    shape = call.output
    if len(shape) < 2:
        raise NotMapped("not over [batch, channels, ...]")
    letters = _letters(shape)
    each = ",".join(letters)
    value = Apply("+", (Apply("*", (Read(0), Read(1))), Read(2)))
    text = f"O[{each}] += X[{each}] * G[i1] * H[i1]"
    return (Part(call.workload(text, sized(letters, shape), "normalisation", value), is_product=False),)


def group_norm(call: Call) -> tuple[Part, ...]:
    """Rows of a group's channels are normalised, then each channel is scaled and shifted (options: groups, epsilon)."""
    shape, groups = call.output, integer(call, "groups", 1)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise NotMapped("not over [batch, channels, ...] with channels in groups")
    if any(each != (shape[1],) for each in call.inputs[1:]):  # before ONNX 21: one for each group
        raise NotMapped("its scale and shift are not one number for each channel")
    flat = (shape[0] * groups, shape[1] // groups * prod(shape[2:]))
    parts = layer_norm(replace(call, inputs=(flat,), output=flat, options={**call.options, "axes": 1}))
    return (*parts, *batch_norm(call)) if len(call.inputs) > 1 else parts


def embedding(call: Call) -> tuple[Part, ...]:
    """O[i,d] += T[i,d]: the row that index i looks up, as if the rows stood in this order in the table."""
    letters = _letters(call.output)
    each = ",".join(letters)
    return (Part(call.workload(f"O[{each}] += T[{each}]", sized(letters, call.output), "rows"), is_product=False),)


REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square", "reduce_l1")
_TABLE: dict[str, Callable[[Call], tuple[Part, ...]]] = {
    "convolution": convolution,
    "transposed_convolution": transposed_convolution,
    "product": matrix_product,
    "linear": linear,
    "grouped_product": grouped_product,
    "experts": experts,
    "attention": attention,
    "projected_attention": projected_attention,
    "max_pool": pooling,
    "average_pool": pooling,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "local_norm": local_norm,
    "group_norm": group_norm,
    "contraction": contraction,
    "embedding": embedding,
    "log_softmax": log_softmax,
    "enlarged": enlarged,
    "dynamic_quantisation": dynamic_quantisation,
    **dict.fromkeys(("lstm", "gru", "rnn"), recurrence),
    **dict.fromkeys(STATISTICS, statistic),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(FUNCTIONS, elementwise),
}
OPERATORS = tuple(_TABLE)
