"""A compiled function that takes and returns checked arrays."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, replace
from typing import Any

from polymap.codegen.native.arrays import ArrayForm
from polymap.codegen.native.cache import load_object
from polymap.codegen.native.call_arrays import Values, array_of, check_disjoint, empty
from polymap.codegen.native.compiler import host_compiler
from polymap.codegen.native.door import Argument, Door, door_of
from polymap.codegen.native.function import NativeFunction
from polymap.codegen.native.region import RegionCall, as_tuple, check_count, outputs
from polymap.ir import CompilerError, InputError, Mistake


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """One operand in the order in which one function reads it. source: the text of that function. address: of the
    values."""

    tensor: str
    values: Values = field(repr=False)
    source: str = field(repr=False)
    address: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A loaded function of the host's C compiler. It holds no state, so several Python threads may run it at once.

    function: its text, and the arrays that it takes. reads, writes: its arrays, in order. started: outputs that the
    workload adds to, which callers must pass. weights: the operand that may be packed ahead, -1 for none. door,
    packed_door: of arrays, and of arrays with weights packed ahead.
    """

    function: NativeFunction
    plain: Any = field(repr=False)
    pack: Any = field(repr=False)
    with_packed: Any = field(repr=False)
    reads: tuple[ArrayForm, ...] = field(repr=False)
    writes: tuple[ArrayForm, ...] = field(repr=False)
    started: frozenset[str] = field(repr=False)
    weights: int = field(repr=False)
    door: Door | None = field(repr=False)
    packed_door: Door | None = field(repr=False)

    def call(self, arrays: tuple[object, ...], out: object) -> Values | tuple[Values, ...]:
        """Return the output (of several a tuple) for the arrays that are read, in order.

        out: the array for it (of several a tuple), or None. Raises InputError as `array_of`, for another number of
        arrays (PM636) and for weights packed by another function (PM637).
        """
        made = self._enter(arrays, out)
        if made is not None:
            return made[0] if len(made) == 1 else made
        read, starts, packed = self._operands(arrays)
        written = self._outputs(out)
        ends = [values.ctypes.data for values in written]
        if self._may_overlap(starts, read, ends, written):
            named = [(expected.tensor, values) for expected, values in zip(self.writes, written, strict=True)]
            check_disjoint(named, [(each.tensor, values) for each, values in zip(self.reads, read, strict=True)])
        (self.with_packed if packed else self.plain)(*starts, *ends)
        return written[0] if len(written) == 1 else tuple(written)

    def _enter(self, arrays: tuple[object, ...], out: object) -> tuple[Values, ...] | None:
        """Return the outputs if a door accepts the arrays."""
        door = self.door
        if door is None or (out is None and self.started) or len(arrays) != len(self.reads):
            return None
        if out is None:
            ends: tuple[Any, ...] = tuple(empty(form) for form in self.writes)
        else:
            ends = (out,) if len(self.writes) == 1 else as_tuple(out)
        if door.code(*arrays, *ends):
            return ends
        at, packed = self.weights, self.packed_door
        given = arrays[at]
        if packed is None or not isinstance(given, PackedWeights) or given.source != self.function.text:
            return None
        return ends if packed.code(*arrays[:at], given.values, *arrays[at + 1 :], *ends) else None

    def _may_overlap(self, starts: list[int], read: list[Values], ends: list[int], written: list[Values]) -> bool:
        """Return whether an array that is written may share memory with another one."""
        spans = [(start, start + values.nbytes) for start, values in zip(starts, read, strict=True)]
        for start, values in zip(ends, written, strict=True):
            stop = start + values.nbytes
            if any(start < other_stop and other < stop for other, other_stop in spans):
                return True
            spans.append((start, stop))
        return False

    def pack_weights(self, values: object) -> PackedWeights:
        """Return an operand in the order in which the function reads it: `packed` of the function; if it has none, the
        last operand as a copy. Raises InputError as `call` does."""
        function = self.function
        if function.packed is None:
            form = next(each for each in self.reads if each.tensor == function.weights)
            copy = array_of(values, form, written=False, packs=True).copy()
            return PackedWeights(form.tensor, copy, function.text, copy.ctypes.data)
        form = next(each for each in self.reads if each.tensor == function.packed)
        given = array_of(values, form, written=False, packs=True)
        packed = empty(form, function.packed_elements)
        self.pack(given.ctypes.data, packed.ctypes.data)
        return PackedWeights(form.tensor, packed, function.text, packed.ctypes.data)

    def _operands(self, arrays: tuple[object, ...]) -> tuple[list[Values], list[int], bool]:
        """Return the operands, their addresses, and whether one of them is packed."""
        check_count(arrays, self.reads)
        found: list[Values] = []
        starts: list[int] = []
        is_packed = False
        for value, expected in zip(arrays, self.reads, strict=True):
            if isinstance(value, PackedWeights):
                tensor = expected.tensor
                if value.tensor != tensor or value.source != self.function.text:
                    what = f"{tensor} is given as weights that another function packed, or for {value.tensor}"
                    raise InputError(Mistake("PM637", what, "Pack them with pack_weights() of this function."))
                found.append(value.values)
                starts.append(value.address)
                is_packed = self.function.packed is not None
                continue
            values = array_of(value, expected, written=False)
            found.append(values)
            starts.append(values.ctypes.data)
        return found, starts, is_packed

    def _outputs(self, out: object) -> list[Values]:
        if out is None:
            for expected in self.writes:
                if expected.tensor in self.started:
                    name = expected.tensor
                    what = f"{name} has values at the start, to which the function adds: out is missing"
                    raise InputError(Mistake("PM636", what, f"Pass out=, an array that holds {name}."))
        return outputs((out,) if out is not None and len(self.writes) == 1 else out, self.writes)


def load_function(function: NativeFunction, threads: int, started: frozenset[str] = frozenset()) -> NativeCall:
    """Return the function compiled by the host's compiler, or loaded from the cache. started: the arrays that it adds
    to. Raises CompilerError if there is no compiler, or it fails.
    """
    library = load_object(function.text, host_compiler(function.flags), threads)
    pack, plain = None, _symbol(library, function.name, len(function.arrays))
    reads = tuple(form for form in function.arrays if not form.is_written)
    writes = tuple(form for form in function.arrays if form.is_written)
    given, with_packed = reads, plain
    if function.packed is not None:
        pack = _symbol(library, f"{function.name}_pack", 2)
        with_packed = _symbol(library, f"{function.name}_with_packed", len(function.arrays))
        flat = (function.packed_elements,)
        given = tuple(replace(form, shape=flat) if form.tensor == function.packed else form for form in reads)
    weights = [each.tensor for each in reads].index(function.weights) if function.weights else -1
    doors = [
        door_of(code, [Argument(form, at) for at, form in enumerate(forms)], ends)
        for ends in [[Argument(form, len(reads) + at) for at, form in enumerate(writes)]]
        for code, forms in ((plain, reads), (with_packed, given))
    ]
    return NativeCall(function, plain, pack, with_packed, reads, writes, started, weights, *doors)


def load_region(function: NativeFunction, threads: int) -> RegionCall:
    """Return the function of a region of C, compiled or loaded like that of `load_function`."""
    library = load_object(function.text, host_compiler(function.flags), threads)
    plain = _symbol(library, function.name, len(function.arrays))
    given = [Argument(form, -1 if form.is_written else place) for place, form in enumerate(function.arrays)]
    ends = [Argument(form, place, place) for place, form in enumerate(function.arrays) if form.is_written]
    return RegionCall(function, plain, door_of(plain, given, ends))


def _symbol(library: ctypes.CDLL, name: str, pointers: int) -> Any:
    """Return a function of the library that takes `pointers` pointers and returns nothing."""
    try:
        found = library[name]
    except AttributeError as error:
        what = f"the compiled object has no function {name}: {error}"
        raise CompilerError(Mistake("PM635", what, "Look at CFLAGS, such as -fvisibility.")) from None
    found.argtypes = [ctypes.c_void_p] * pointers
    found.restype = None
    return found
