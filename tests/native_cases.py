"""Random workloads and trees for native functions, a reference by numpy, and runs under a compiler's sanitizers."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

import polymap as pm
from polymap.codegen.native.arrays import ArrayForm
from polymap.codegen.native.function import NativeFunction, native_function
from polymap.inputs import load_arch, mapping_from_document
from polymap.ir import Architecture, Mapping, Workload

DTYPES = {
    "float": np.float32, "double": np.float64, "int8_t": np.int8, "int32_t": np.int32, "uint8_t": np.uint8,
    "int16_t": np.int16, "int64_t": np.int64, "uint16_t": np.uint16, "uint32_t": np.uint32,
}  # fmt: skip
KINDS = ("float32", "float64", "int", "bfloat16")


def types_of(kind: str, tensors: tuple[str, ...]) -> str | dict[str, str]:
    """Return element types: all of one kind, or narrow operands (the first tensor is the output)."""
    if kind in ("float32", "float64"):
        return kind
    wide, narrow = ("int32", "int8") if kind == "int" else ("float32", "bfloat16")
    return {name: wide if number == 0 else narrow for number, name in enumerate(tensors)}


@dataclass(frozen=True)
class Conv:
    """A convolution in the user's words."""

    K: int
    C: int
    H: int
    W: int
    R: int
    S: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    N: int = 1

    def workload(self, kind: str, *, skip_padding: bool) -> Workload:
        sizes = {**self.__dict__}
        types = types_of(kind, ("O", "I", "W"))
        try:
            return pm.conv2d(**sizes, types=types, skip_padding=skip_padding)
        except pm.errors.WorkloadError:  # every tap falls on padding
            return pm.conv2d(**sizes, types=types)

    def reference(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return y[N,P,Q,K] of x[N,H,W,C] and w[K,R,S,C/groups], one tap at a time."""
        pad = self.padding
        x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        rows = (self.H + 2 * pad - self.dilation * (self.R - 1) - 1) // self.stride + 1
        columns = (self.W + 2 * pad - self.dilation * (self.S - 1) - 1) // self.stride + 1
        y = np.zeros((self.N, rows, columns, self.K), x.dtype)
        each, out = self.C // self.groups, self.K // self.groups
        for k, r, s in product(range(self.K), range(self.R), range(self.S)):
            first = k // out * each
            top, left = r * self.dilation, s * self.dilation
            part = x[:, top : top + self.stride * rows : self.stride, left : left + self.stride * columns : self.stride]
            part = part[:, :rows, :columns, first : first + each]
            y[..., k] += (part * w[k, r, s]).sum(axis=-1)
        return y


def random_conv(rng: random.Random) -> Conv:
    """Return a small convolution with extents of 1, primes, strides, dilations and groups."""
    while True:
        groups = rng.choice([1, 1, 1, 2, 3])
        depthwise = rng.random() < 0.25
        channels = rng.choice([3, 8, 17, 21, 33])
        R, S = rng.choice([1, 2, 3, 5]), rng.choice([1, 3, 3, 7])
        conv = Conv(
            K=channels if depthwise else groups * rng.choice([1, 4, 7, 16, 19, 35]),
            C=channels if depthwise else groups * rng.choice([1, 2, 3, 5, 9]),
            H=rng.choice([1, 4, 5, 7, 8, 11]),
            W=rng.choice([1, 3, 6, 7, 9, 13]),
            R=R,
            S=S,
            stride=rng.choice([1, 1, 2, 3]),
            padding=rng.choice([0, 0, 1, 1, 2]),
            dilation=rng.choice([1, 1, 1, 2]),
            groups=channels if depthwise else groups,
            N=rng.choice([1, 1, 2]),
        )
        spans = (conv.dilation * (R - 1), conv.dilation * (S - 1))
        fits = spans[0] < conv.H + 2 * conv.padding and spans[1] < conv.W + 2 * conv.padding
        if fits:
            return conv


def random_tree(
    rng: random.Random, workload: Workload, arch: Architecture, *, threads: int = 1, vector: str | None = None
) -> Mapping:
    """Return a random tree of vector code: loops in any order, a register tile, reductions split or not."""
    extents = workload.extents()
    statement = workload.statements[0]
    own = [dim for dim in extents if any(dim in index.dims for index in statement.target.index)]
    lanes = next(node.size for node in arch.fanouts if node.name == "lane")
    wide = [dim for dim in own if dim in ("k", "g", "n", "j") and extents[dim] > 1]
    vector = vector or rng.choice(wide or own)
    slots = rng.choice([1, 1, 2, 3])
    left, nodes = dict(extents), list[dict[str, object]]()
    inner = {dim: rng.choice([1, 1, 2, 3, 4, extents[dim]]) for dim in own if dim != vector}
    while np.prod(list(inner.values())) * slots > 24:
        inner[rng.choice(list(inner))] = 1
    goal = {dim: min(inner.get(dim, extents[dim]), extents[dim]) for dim in extents}
    goal[vector] = lanes * slots
    steps = [dim for dim in extents if goal[dim] < extents[dim]]
    steps += [dim for dim in extents if dim != vector and rng.random() < 0.4]
    rng.shuffle(steps)
    tensors = [tensor.name for tensor in workload.tensors]
    reads = [name for name in tensors if name != statement.target.tensor]
    nodes.append({"store": "DRAM", "tensors": tensors})
    free = {name: iter(("L2", "L1")) for name in reads}
    core = threads > 1
    for number, dim in enumerate(steps):
        for name in reads:
            level = next(free[name], None) if rng.random() < 0.3 else None
            nodes += [{"store": level, "tensors": [name]}] if level else []
        last = dim not in steps[number + 1 :]
        tile = goal[dim] if last else rng.randint(goal[dim], left[dim])
        tile = rng.randint(1, left[dim]) if last and dim not in own and rng.random() < 0.5 else tile
        if core and dim in own and -(-left[dim] // tile) <= threads:
            nodes.append({"par": dim, "tile": tile, "over": "core"})
            core = False
        else:
            nodes.append({"for": dim, "tile": tile})
        left[dim] = min(left[dim], tile)
    each = -(-min(left[vector], goal[vector]) // lanes)
    nodes.append({"par": vector, "tile": each, "over": "lane"})
    if rng.random() < 0.2:  # a loop between the lanes and the register tile
        nodes.append({"for": vector, "tile": rng.randint(1, each)})
    nodes.append({"store": "REG", "tensors": [statement.target.tensor]})
    nodes += [{"for": dim, "tile": 1} for dim in extents if dim not in own]
    nodes += [{"for": dim, "tile": 1} for dim in own]
    nodes.append({"compute": statement.name})
    return mapping_from_document({"nodes": nodes})


def machine(lanes: int, threads: int = 1) -> Architecture:
    """Return a processor with vectors of so many lanes."""
    arch = load_arch("cpu_avx512")
    nodes = [
        replace(node, size={"lane": lanes, "core": max(2, threads)}[node.name])
        if node.name in ("lane", "core")
        else node
        for node in arch.nodes
    ]
    return replace(arch, nodes=tuple(nodes))


def random_array(rng: np.random.Generator, form: ArrayForm) -> np.ndarray:
    """Return values that sums of small products hold exactly in integers, and that round in floats."""
    dtype = DTYPES[form.c_type]
    if form.kind == "bfloat16":
        return (rng.standard_normal(form.shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(form.shape).astype(dtype)
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -128
    return rng.integers(low, 127, form.shape).astype(dtype)


def exact(form: ArrayForm, array: np.ndarray) -> np.ndarray:
    """Return an array's values in float64 or int64, as they are in the array."""
    if form.kind == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


_MAIN = """
#include <stdio.h>
static void *fresh(size_t size)
{{
    void *block = malloc(size);
    if (!block || fread(block, 1, size, stdin) != size)
        exit(3);
    return block;
}}
int main(void)
{{
{arrays}
{calls}
{frees}
    return 0;
}}
"""


def program(function: NativeFunction) -> str:
    """Return a program that reads the arrays of exact size from stdin, and writes the results of every entry."""
    forms = function.arrays
    sizes = [f"{form.elements} * sizeof({form.c_type})" for form in forms]
    arrays = [
        f"    {form.c_type} *a{n} = fresh({size});" for n, (form, size) in enumerate(zip(forms, sizes, strict=True))
    ]
    last = len(forms) - 1
    out = f"    fwrite(a{last}, 1, {sizes[last]}, stdout);"
    names = [f"a{n}" for n in range(len(forms))]
    calls = [f"    {function.name}({', '.join(names)});", out]
    frees = [f"    free(a{n});" for n in range(len(forms))]
    if function.packed is not None:
        at = next(n for n, form in enumerate(forms) if form.tensor == function.packed)
        kind = forms[at].c_type
        names[at] = "packed"
        calls = [
            f"    {kind} *packed = malloc((size_t){function.name}_packed_elements() * sizeof({kind}));",
            f"    {function.name}_pack(a{at}, packed);",
            f"    memset(a{last}, 0, {sizes[last]});",
            *calls,
            f"    memset(a{last}, 0, {sizes[last]});",
            f"    {function.name}_with_packed({', '.join(names)});",
            out,
        ]
        frees.append("    free(packed);")
    parts = {"arrays": arrays, "calls": calls, "frees": frees}
    return function.text + _MAIN.format(**{name: "\n".join(lines) for name, lines in parts.items()})


SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def results(
    function: NativeFunction, arrays: list[np.ndarray], where: Path, cc: str, flags: tuple[str, ...]
) -> list[np.ndarray]:
    """Return the results of every entry of a function on these arrays."""
    source, binary = where / f"{function.name}.c", where / function.name
    source.write_text(program(function))
    command = [cc, *flags, "-Wall", "-Werror", "-o", str(binary), str(source), "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr[:3000]
    done = subprocess.run([str(binary)], input=b"".join(a.tobytes() for a in arrays), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:3000]
    form = function.arrays[-1]
    whole = np.frombuffer(done.stdout, DTYPES[form.c_type])
    assert whole.size % form.elements == 0
    return [part.reshape(form.shape) for part in whole.reshape(-1, form.elements)]


def assert_equal(found: np.ndarray, expected: np.ndarray, magnitude: np.ndarray, additions: int) -> None:
    """Check integers bit for bit, floats to n * eps * sum of |products| (Higham, Accuracy and Stability, 3.1)."""
    if found.dtype.kind != "f":
        assert np.array_equal(found.astype(np.int64), expected)
        return
    bound = (additions + 2) * np.finfo(found.dtype).eps * magnitude
    wrong = np.abs(found.astype(np.float64) - expected) > bound
    assert not wrong.any(), (np.argwhere(wrong)[:5], found[wrong][:5], expected[wrong][:5])


Reference = Callable[..., np.ndarray]


def check(
    function: NativeFunction,
    reference: Reference,
    additions: int,
    where: Path,
    *,
    seed: int,
    cc: str,
    flags: tuple[str, ...],
) -> None:
    """Check every entry of a function against a reference on arrays in the order of the function's."""
    rng = np.random.default_rng(seed)
    arrays = [random_array(rng, form) for form in function.arrays]
    values = [exact(form, array) for form, array in zip(function.arrays, arrays, strict=True)]
    expected = reference(*values[:-1])
    magnitude = reference(*[np.abs(each) for each in values[:-1]])
    for found in results(function, arrays, where, cc, flags):
        assert_equal(found, expected, magnitude, additions)


def printed(workload: Workload, arch: Architecture, mapping: Mapping, number: int, **options: object) -> NativeFunction:
    """Return the function of a tree under a name of its own."""
    return native_function(workload, arch, mapping, name=f"case{number}", **options)  # pyright: ignore[reportArgumentType]
