"""One table from the operators of models to loop nests with affine indices, for every importer.

An operator becomes one workload or several in order, each a single statement that `explore` can prove. Elementwise
functions are accumulations of one term, which move what an assignment moves. A padded input is part of the input, as
in `conv2d`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as combinations
from math import prod

from polymap.inputs import is_list
from polymap.ir import Apply, Expression, Number, Read, Workload
from polymap.networks import Part
from polymap.workload import Letters, Step, attention_steps, einsum, sizes_within, softmax_steps

Shape = tuple[int, ...]
_SPACE = ("p", "q", "t")  # output positions
_TAPS = ("r", "s", "u")  # kernel positions
_PHASES = ("a", "b", "e")  # output positions within a stride
_OPERANDS = "ABCDEFGHLMNPQRST"  # of elementwise functions


class NotMapped(Exception):
    """Why an operator has no workload; the text is the reason that the network tells. macs: its multiply-accumulates,
    where they are known all the same."""

    def __init__(self, reason: str, macs: int | None = None) -> None:
        super().__init__(reason)
        self.macs = macs


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an input of a call comes from: the model's name of the value, its element type ("float32", None where
    workloads have no such type) and bits, and whether its axes are turned over on the way (a transposed matrix)."""

    value: str
    element_type: str | None = None
    bits: int = 8
    is_turned: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """An operator and what it is applied to.

    inputs: shapes of the tensors among its arguments, () for scalars. output: the first output's shape. options:
    attributes by the names that the functions of this table read. element_type: of the output ("float32"), which all
    tensors of the workload have but those that `operands` tell of; bits: of all tensors, where the caller said so.
    operands: where the inputs come from, in their order; () where that is not known.
    """

    operator: str
    inputs: tuple[Shape, ...]
    output: Shape
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    element_type: str | None = None
    bits: int | None = None
    operands: tuple[Operand, ...] = ()

    def workload(
        self, text: str, sizes: Mapping[str, int], name: str, expression: Expression | None = None
    ) -> Workload:
        """Return the workload of an einsum, with another right side if `expression` is given."""
        width = {"types": self.element_type} if self.element_type and self.bits is None else {"bits": self.bits or 8}
        made = einsum(text, sizes=sizes, name=name, **width)  # type: ignore[arg-type]
        if expression is None:
            return made
        return replace(made, statements=(replace(made.statements[0], expression=expression),))

    def typed(self, workload: Workload) -> Workload:
        """Return a workload whose reads are the operands, in order, with the operands' types."""
        if self.bits is not None:
            return workload
        types: dict[str, Operand] = {}
        for read, operand in zip(workload.statements[0].reads, self.operands, strict=False):
            types.setdefault(read.tensor, operand)
        tensors = tuple(
            replace(each, element_type=types[each.name].element_type, bits=types[each.name].bits)
            if each.name in types
            else each
            for each in workload.tensors
        )
        return replace(workload, tensors=tensors)

    def integers(self, name: str, rank: int, default: int) -> Shape:
        """Return an option with one integer per axis; raises NotMapped for another number of them."""
        value = self.options.get(name)
        if isinstance(value, int):
            return (value,) * rank
        numbers = tuple(item for item in value if isinstance(item, int)) if is_list(value) else ()
        if not numbers:
            return (default,) * rank
        if len(numbers) not in (1, rank):
            raise NotMapped(f"{name} has {len(numbers)} numbers for {rank} axes")
        return numbers * rank if len(numbers) == 1 else numbers

    def steps(self, name: str, rank: int) -> Shape:
        """Return an option with one step of at least 1 per axis, 1 where it is not given; raises NotMapped."""
        numbers = self.integers(name, rank, 1)
        if min(numbers) < 1:
            raise NotMapped(f"{name} has a number below 1")
        return numbers


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


_IN_ORDER = ("softmax", "layer_norm", "attention")


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


def convolution(call: Call) -> tuple[Part, ...]:
    """O[n,k,p,q] += I[n,c,stride*p+dilation*r,...] * W[k,c,r,s]; groups: O[n,g,k,p,q]; depthwise: no k and c."""
    rank = _spatial_rank(call, _convolution_macs(call))
    weight = call.inputs[1]
    groups, outputs = _integer(call, "groups", 1), call.output[1]
    if len(weight) != rank + 2 or weight[0] != outputs or groups < 1 or outputs % groups:
        raise NotMapped("the shapes of input, weights and output do not fit together")
    channels = weight[1]
    if channels * groups != call.inputs[0][1] or call.inputs[0][0] != call.output[0]:
        raise NotMapped("the shapes of input, weights and output do not fit together")
    if call.integers("kernel", rank, 0) not in ((0,) * rank, weight[2:]):
        raise NotMapped("its kernel_shape is not that of the weights")
    strides, dilations = call.steps("strides", rank), call.steps("dilations", rank)
    space, taps = _SPACE[:rank], _TAPS[:rank]
    sizes = {"n": call.output[0], **_sized(space, call.output[2:]), **_sized(taps, weight[2:])}
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
    (images, inputs, *space), weight, groups = call.inputs[0], call.inputs[1], _integer(call, "groups", 1)
    if len(weight) != rank + 2 or weight[0] != inputs or groups < 1 or inputs % groups:
        raise NotMapped("the shapes of input, weights and output do not fit together")
    if weight[1] * groups != call.output[1] or images != call.output[0]:
        raise NotMapped("the shapes of input, weights and output do not fit together")
    if call.integers("kernel", rank, 0) not in ((0,) * rank, weight[2:]):
        raise NotMapped("its kernel_shape is not that of the weights")
    strides, dilations = call.steps("strides", rank), call.steps("dilations", rank)
    begins = call.integers("pads_begin", rank, 0)
    axes = [_phases(*each) for each in zip(call.output[2:], weight[2:], strides, begins, strict=True)]
    gathered = prod(sum(prod(kind) for kind in kinds) for kinds in axes)
    if set(dilations) == {1} and gathered == prod(space) * prod(weight[2:]):
        return _of_phases(call, axes)
    letters, taps = _SPACE[:rank], _TAPS[:rank]
    window = [_axis(*each) for each in zip(strides, letters, dilations, taps, strict=True)]
    group = ["g"] if groups > 1 else []
    sizes = {"n": images, "k": weight[1], "c": inputs // groups, **_sized(letters, space), **_sized(taps, weight[2:])}
    sizes |= {"g": groups} if groups > 1 else {}
    text = (
        f"O[{_joined(['n'], *group, 'k', *window)}] += I[{_joined(['n'], *group, 'c', *letters)}]"
        f" * W[{_joined(group, 'c', 'k', *taps)}]"
    )
    return (Part(call.workload(text, sizes, "transposed"), is_product=True),)


def _of_phases(call: Call, axes: Sequence[list[tuple[int, int, int]]]) -> tuple[Part, ...]:
    """Return a workload for each combination of numbers of outputs, taps and phases along the axes."""
    weight, groups = call.inputs[1], _integer(call, "groups", 1)
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
    leading = _broadcast((left[:-2], right[:-2]))
    letters = [f"b{axis}" for axis in range(len(leading))]
    sizes = _sized(letters, leading) | {"m": left[-2], "n": right[-1], "k": left[-1]}
    of_a, of_b = (_indices(shape[:-2], leading, letters) for shape in (left, right))
    if not of_b and leading:  # the weights of a linear layer: all leading dims are rows
        sizes = {"m": prod(leading) * left[-2], "n": right[-1], "k": left[-1]}
        letters = of_a = []
    text = f"C[{_joined(letters, 'm', 'n')}] += A[{_joined(of_a, 'm', 'k')}] * B[{_joined(of_b, 'k', 'n')}]"
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


def attention(call: Call) -> tuple[Part, ...]:
    """Scores of each head, softmax over the keys, context; queries [..., m, k], keys [..., n, k], values [..., n, d].

    Fewer heads of keys than of queries are shared by consecutive heads (grouped queries). A mask is not used: all
    scores are computed. options: past, how many keys and values stand in a cache before those of the operands.
    """
    queries, keys, values = (_headed(shape) for shape in call.inputs[:3])
    past = _integer(call, "past", 0)
    fits = queries[0] == keys[0] == values[0] and keys[1:3] == values[1:3] and queries[3] == keys[3]
    if not fits or queries[1] % keys[1]:
        raise NotMapped("the shapes of queries, keys and values do not fit together")
    shared, length = queries[1] // keys[1], past + keys[2]
    sizes = {"b": queries[0], "h": keys[1], "m": queries[2], "n": length, "k": queries[3], "d": values[3]}
    sizes |= {} if shared == 1 else {"g": shared}
    letters = Letters(("b", "h"), () if shared == 1 else ("g",), "m", "n", "k", "d")
    return _parts(call, attention_steps(letters, context="C"), sizes)


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
    sizes = {"n": call.output[0], "c": call.output[1], **_sized(space, call.output[2:]), **_sized(taps, kernel)}
    window = ",".join(_axis(*each) for each in zip(strides, space, dilations, taps, strict=True))
    is_max = call.operator == "max_pool"
    text = f"O[n,c,{','.join(space)}] {'max=' if is_max else '+='} I[n,c,{window}]"
    mean = None if is_max else _divided(Read(0), prod(kernel))
    return (Part(call.workload(text, sizes, "pooling", mean), is_product=False),)


def reduction(call: Call) -> tuple[Part, ...]:
    """O[kept dims] += I[all dims] (max=, min=); averages divide each term."""
    (shape, *_), axes = call.inputs, call.integers("axes", _rank_of(call, "axes"), 0)
    letters = [f"i{axis}" for axis in range(len(shape))]
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise NotMapped("an axis lies outside the tensor")
    reduced = {axis % len(shape) for axis in axes} if axes and shape else set(range(len(shape)))
    kept = [letter for axis, letter in enumerate(letters) if axis not in reduced]
    operator = {"reduce_max": "max=", "reduce_min": "min="}.get(call.operator, "+=")
    text = f"O[{','.join(kept)}] {operator} I[{','.join(letters)}]"
    terms: dict[str, Expression] = {
        "reduce_mean": _divided(Read(0), prod(shape[axis] for axis in reduced)),
        "reduce_sum_square": Apply("*", (Read(0), Read(0))),
        "reduce_l1": Apply("fabs", (Read(0),)),
    }
    return (Part(call.workload(text, _sized(letters, shape), "reduction", terms.get(call.operator)), is_product=False),)


def elementwise(call: Call) -> tuple[Part, ...]:
    """O[i,j] += f(A[i,j], B[j], ...): operands broadcast; an operand of one element is O's scalar."""
    make = FUNCTIONS[call.operator]
    operands = call.inputs[: make.operands] if make.operands else call.inputs
    if not operands:
        raise NotMapped("no tensor among the operands")
    if len(operands) > len(_OPERANDS):
        raise NotMapped(f"more than {len(_OPERANDS)} operands", 0)
    letters = [f"i{axis}" for axis in range(len(call.output))]
    reads = [_indices(shape, call.output, letters) for shape in operands]
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
    letters, row = _rows(call, _integer(call, "axis", -1))
    return _parts(call, softmax_steps(",".join(letters), row), _sized(letters, call.inputs[0]))


def _parts(call: Call, steps: Sequence[Step], sizes: Mapping[str, int]) -> tuple[Part, ...]:
    """Return the workloads of nests that read each other's results by their names."""
    return tuple(
        Part(call.workload(each.text, sizes_within(each.text, sizes), each.name, each.expression), each.is_product)
        for each in steps
    )


def layer_norm(call: Call) -> tuple[Part, ...]:
    """Mean and variance of each row (the mean not for RMS normalisation), then the scaled and shifted quotient.

    options: axes (how many last dims are a row), rms, epsilon. inputs: x, and the scale and the shift where there are.
    """
    shape, parameters = call.inputs[0], call.inputs[1:3]
    last = _integer(call, "axes", 1)
    if not 1 <= last <= len(shape):
        raise NotMapped("the axis lies outside the tensor")
    letters = [f"i{axis}" for axis in range(len(shape))]
    row, inner = ",".join(letters[: len(shape) - last]), letters[len(shape) - last :]
    sizes, each, width = _sized(letters, shape), ",".join(letters), prod(shape[len(shape) - last :])
    is_rms = bool(call.options.get("rms"))
    reads = [f"X[{each}]"] if is_rms else [f"X[{each}]", f"M[{row}]"]
    centred: Expression = Read(0) if is_rms else Apply("-", (Read(0), Read(1)))
    variance = f"V[{row}] += {' * '.join(reads)}"
    steps: list[tuple[str, str, Expression]] = []
    if not is_rms:
        steps.append(("means", f"M[{row}] += X[{each}]", _divided(Read(0), width)))
    steps.append(("variances", variance, _divided(Apply("*", (centred, centred)), width)))
    at = len(reads)
    epsilon = call.options.get("epsilon", 1e-5)
    root = Apply("sqrt", (Apply("+", (Read(at), Number(repr(float(str(epsilon)))))),))
    value: Expression = Apply("/", (centred, root))
    for place, operation in zip(range(at + 1, at + 1 + len(parameters)), "*+", strict=False):
        value = Apply(operation, (value, Read(place)))
    scales = [f"{name}[{','.join(inner)}]" for name, _ in zip("GB", parameters, strict=False)]
    steps.append(("quotients", f"O[{each}] += {' * '.join((*reads, f'V[{row}]', *scales))}", value))
    return tuple(Part(call.workload(text, sizes, name, value), is_product=False) for name, text, value in steps)


def batch_norm(call: Call) -> tuple[Part, ...]:
    """O[n,c,p,q] += X[n,c,p,q] * G[c] + H[c]: the statistics of inference, folded into one scale and one shift."""
    shape = call.output
    if len(shape) < 2:
        raise NotMapped("not over [batch, channels, ...]")
    letters = [f"i{axis}" for axis in range(len(shape))]
    each = ",".join(letters)
    value = Apply("+", (Apply("*", (Read(0), Read(1))), Read(2)))
    text = f"O[{each}] += X[{each}] * G[i1] * H[i1]"
    return (Part(call.workload(text, _sized(letters, shape), "normalisation", value), is_product=False),)


def group_norm(call: Call) -> tuple[Part, ...]:
    """Rows of a group's channels are normalised, then each channel is scaled and shifted (options: groups, epsilon)."""
    shape, groups = call.output, _integer(call, "groups", 1)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise NotMapped("not over [batch, channels, ...] with channels in groups")
    rows = (shape[0] * groups, shape[1] // groups * prod(shape[2:]))
    parts = layer_norm(replace(call, inputs=(rows,), output=rows, options={**call.options, "axes": 1}))
    return (*parts, *batch_norm(call)) if len(call.inputs) > 1 else parts


def contraction(call: Call) -> tuple[Part, ...]:
    """The product of two tensors that an equation such as "bhmk,bhnk->bhmn" says; options: equation.

    Without an arrow the result has the letters that stand once, in alphabetical order, as numpy has it.
    """
    equation = str(call.options.get("equation", "")).replace(" ", "")
    left, arrow, output = equation.partition("->")
    terms = left.split(",")
    if not arrow:
        joined = "".join(terms)
        output = "".join(sorted(letter for letter in joined if joined.count(letter) == 1))
    letters = "".join((*terms, output))
    if not letters.isalpha() or len(terms) != 2 or any(len(set(t)) < len(t) for t in (*terms, output)):
        raise NotMapped("not an equation of two tensors without diagonals")
    if len(call.inputs) != 2 or any(len(t) != len(s) for t, s in zip(terms, call.inputs, strict=True)):
        raise NotMapped("the equation does not fit the shapes of the operands")
    if not set(output) <= set("".join(terms)):
        raise NotMapped("the equation's result has a letter that no operand has")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, call.inputs, strict=True):
        for letter, size in _sized(term, shape).items():
            if sizes.setdefault(f"i{letter}", size) != size:
                raise NotMapped("the shapes of the operands do not fit together")
    first, second, result = (",".join(f"i{letter}" for letter in term) for term in (*terms, output))
    text = f"O[{result}] += A[{first}] * B[{second}]"
    return (Part(call.workload(text, sizes, "contraction"), is_product=True),)


def embedding(call: Call) -> tuple[Part, ...]:
    """O[i,d] += T[i,d]: the row that index i looks up, as if the rows stood in this order in the table."""
    letters = [f"i{axis}" for axis in range(len(call.output))]
    each = ",".join(letters)
    return (Part(call.workload(f"O[{each}] += T[{each}]", _sized(letters, call.output), "rows"), is_product=False),)


def _sized(letters: Sequence[str], extents: Sequence[int]) -> dict[str, int]:
    return dict(zip(letters, extents, strict=True))


def _integer(call: Call, name: str, default: int) -> int:
    value = call.options.get(name, default)
    return value if isinstance(value, int) else default


def _rank_of(call: Call, name: str) -> int:
    value = call.options.get(name)
    return len(value) if is_list(value) else int(isinstance(value, int))


def _rows(call: Call, axis: int) -> tuple[list[str], str]:
    """Return the dims of the first input, and those that are not reduced along `axis` as text."""
    letters = [f"i{place}" for place in range(len(call.inputs[0]))]
    if not -len(letters) <= axis < len(letters):
        raise NotMapped("the axis lies outside the tensor")
    return letters, ",".join(each for each in letters if each != letters[axis])


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    sizes = [sorted(set(column)) for column in columns]
    if any(len(each) > 2 or (len(each) == 2 and each[0] != 1) for each in sizes):
        raise NotMapped("the shapes of the operands do not broadcast")
    return tuple(each[-1] for each in sizes)


def _indices(shape: Shape, output: Shape, letters: Sequence[str]) -> list[str]:
    """Return the dims of the output that index an operand: those along which it is not broadcast."""
    if len(shape) > len(output):
        raise NotMapped("an operand has more dims than the result")
    found: list[str] = []
    for size, whole, letter in zip(reversed(shape), reversed(output), reversed(letters), strict=False):
        if size not in (1, whole):
            raise NotMapped("the shapes of the operands do not broadcast")
        if size == whole and (size > 1 or len(shape) == len(output)):
            found.insert(0, letter)
    return found


def _joined(letters: Sequence[str], *more: str) -> str:
    return ",".join((*letters, *more))


def _divided(value: Expression, count: int) -> Expression:
    return Apply("/", (value, Number(f"{count}.0")))


@dataclass(frozen=True, slots=True)
class Function:
    """What an elementwise operator computes of its operands. operands: how many are read; 0: all."""

    operands: int
    make: Callable[[tuple[Expression, ...]], Expression]


def _number(value: float) -> Number:
    return Number(repr(float(value)))


def _call(name: str) -> Function:
    return Function(1, lambda reads: Apply(name, reads[:1]))


def _folded(operation: str) -> Function:
    def make(reads: tuple[Expression, ...]) -> Expression:
        value = reads[0]
        for read in reads[1:]:
            value = Apply(operation, (value, read))
        return value

    return Function(0, make)


def _sigmoid(value: Expression) -> Expression:
    return Apply("/", (_number(1), Apply("+", (_number(1), Apply("exp", (Apply("neg", (value,)),))))))


def _gelu(value: Expression) -> Expression:
    erf = Apply("erf", (Apply("*", (value, _number(0.5**0.5))),))
    return Apply("*", (Apply("*", (_number(0.5), value)), Apply("+", (_number(1), erf))))


def _clipped(value: Expression, low: float, high: float) -> Expression:
    return Apply("min", (Apply("max", (value, _number(low))), _number(high)))


def _hard_sigmoid(value: Expression) -> Expression:
    return Apply("/", (_clipped(Apply("+", (value, _number(3))), 0, 6), _number(6)))


def _compared(sign: str) -> Function:
    return Function(0, lambda reads: Apply(sign, reads[:2]) if reads[1:] else reads[0])


def _selected(reads: tuple[Expression, ...]) -> Expression:
    return Apply("?:", (Apply("!=", (reads[0], _number(0))), *reads[1:])) if len(reads) == 3 else reads[0]


FUNCTIONS: dict[str, Function] = {
    **{name: _folded(sign) for name, sign in (("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "/"))},
    **{name: _folded(name) for name in ("max", "min")},
    **{name: _call(name) for name in ("exp", "log", "sqrt", "tanh", "erf", "fabs", "sin", "cos", "floor", "ceil")},
    "power": Function(2, lambda reads: Apply("pow", reads) if len(reads) > 1 else Apply("*", (*reads, *reads))),
    "negate": Function(1, lambda reads: Apply("neg", reads)),
    "reciprocal": Function(1, lambda reads: Apply("/", (_number(1), reads[0]))),
    "rsqrt": Function(1, lambda reads: Apply("/", (_number(1), Apply("sqrt", reads)))),
    "relu": Function(1, lambda reads: Apply("max", (reads[0], _number(0)))),
    "relu6": Function(1, lambda reads: _clipped(reads[0], 0, 6)),
    "sigmoid": Function(1, lambda reads: _sigmoid(reads[0])),
    "silu": Function(1, lambda reads: Apply("*", (reads[0], _sigmoid(reads[0])))),
    "gelu": Function(1, lambda reads: _gelu(reads[0])),
    "hard_sigmoid": Function(1, lambda reads: _hard_sigmoid(reads[0])),
    "hard_swish": Function(1, lambda reads: Apply("*", (reads[0], _hard_sigmoid(reads[0])))),
    "leaky_relu": Function(1, lambda reads: Apply("max", (reads[0], Apply("*", (_number(0.01), reads[0]))))),
    "where": Function(3, _selected),
    "less": _compared("<"),
    "equal": _compared("=="),
    "copy": Function(1, lambda reads: reads[0]),  # casts, constants applied, masks
}
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square", "reduce_l1")
_TABLE: dict[str, Callable[[Call], tuple[Part, ...]]] = {
    "convolution": convolution,
    "transposed_convolution": transposed_convolution,
    "product": matrix_product,
    "linear": linear,
    "attention": attention,
    "max_pool": pooling,
    "average_pool": pooling,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "contraction": contraction,
    "embedding": embedding,
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(FUNCTIONS, elementwise),
}
OPERATORS = tuple(_TABLE)
