"""A compiled function that takes and returns checked arrays."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, cast

from polymap.codegen.native.cache import load_object
from polymap.codegen.native.call_arrays import (
    FastCheck,
    Values,
    address_of,
    array_of,
    check_disjoint,
    empty,
    fast_check_of,
)
from polymap.codegen.native.compiler import host_compiler
from polymap.codegen.native.function import NativeFunction
from polymap.codegen.native.region import RegionCall
from polymap.inputs import shown
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

    function: its text, and the arrays that it takes. reads, writes: fast checks of its arrays, in order.
    """

    function: NativeFunction
    plain: Any = field(repr=False)
    pack: Any = field(repr=False)
    with_packed: Any = field(repr=False)
    reads: tuple[FastCheck, ...] = field(repr=False)
    writes: tuple[FastCheck, ...] = field(repr=False)

    def call(self, arrays: tuple[object, ...], out: object, initialized: frozenset[str]) -> Values | tuple[Values, ...]:
        """Return the output (of several a tuple) for the arrays that are read, in order.

        out: the array for it (of several a tuple), or None. initialized: outputs that the workload adds to, which
        callers must pass. Raises InputError as `array_of`, for another number of arrays (PM636) and for weights packed
        by another function (PM637).
        """
        quick = self._quick(arrays, out) if len(self.writes) == 1 else None
        if quick is not None:
            self.plain(*quick)
            return cast("Values", out)
        read, starts, packed = self._operands(arrays)
        written = self._outputs(out, initialized)
        ends = [address_of(values) for values in written]
        if self._may_overlap(starts, read, ends):
            named = [(expected.form.tensor, values) for expected, values in zip(self.writes, written, strict=True)]
            check_disjoint(named, [(each.form.tensor, values) for each, values in zip(self.reads, read, strict=True)])
        (self.with_packed if packed else self.plain)(*starts, *ends)
        return written[0] if len(written) == 1 else tuple(written)

    def _quick(self, arrays: tuple[object, ...], out: object) -> list[int] | None:
        """Return the addresses of arrays that need no further check and lie apart, None for others."""
        (written,) = self.writes
        if len(arrays) != len(self.reads) or not written.is_met_by(out):
            return None
        end = address_of(cast("Values", out))
        stop = end + written.bytes
        found: list[int] = []
        for value, expected in zip(arrays, self.reads, strict=True):
            if not expected.is_met_by(value):
                return None
            start = address_of(cast("Values", value))
            if start < stop and end < start + expected.bytes:
                return None
            found.append(start)
        return [*found, end]

    def _may_overlap(self, starts: list[int], read: list[Values], ends: list[int]) -> bool:
        """Return whether an array that is written may share memory with another one."""
        spans = [(start, start + values.nbytes) for start, values in zip(starts, read, strict=True)]
        for start, expected in zip(ends, self.writes, strict=True):
            stop = start + expected.bytes
            if any(start < other_stop and other < stop for other, other_stop in spans):
                return True
            spans.append((start, stop))
        return False

    def pack_weights(self, values: object) -> PackedWeights:
        """Return an operand in the order in which the function reads it: `packed` of the function; if it has none, the
        last operand as a copy. Raises InputError as `call` does."""
        function = self.function
        if function.packed is None:
            form = next(each.form for each in self.reads if each.form.tensor == function.weights)
            copy = array_of(values, form, written=False).copy()
            return PackedWeights(form.tensor, copy, function.text, address_of(copy))
        form = next(each.form for each in self.reads if each.form.tensor == function.packed)
        given = array_of(values, form, written=False)
        packed = empty(form, function.packed_elements)
        self.pack(address_of(given), address_of(packed))
        return PackedWeights(form.tensor, packed, function.text, address_of(packed))

    def _operands(self, arrays: tuple[object, ...]) -> tuple[list[Values], list[int], bool]:
        """Return the operands, their addresses, and whether one of them is packed."""
        if len(arrays) != len(self.reads):
            forms = [each.form for each in self.reads]
            names = ", ".join(f"{form.tensor}: {form.kind}{list(form.shape)}" for form in forms)
            raise InputError(Mistake("PM636", f"{len(arrays)} arrays are given", f"Expected {names}."))
        found: list[Values] = []
        starts: list[int] = []
        is_packed = False
        for value, expected in zip(arrays, self.reads, strict=True):
            if isinstance(value, PackedWeights):
                tensor = expected.form.tensor
                if value.tensor != tensor or value.source != self.function.text:
                    what = f"{tensor} is given as weights that another function packed, or for {value.tensor}"
                    raise InputError(Mistake("PM637", what, "Pack them with pack_weights() of this function."))
                found.append(value.values)
                starts.append(value.address)
                is_packed = self.function.packed is not None
                continue
            values = _array_argument(value, expected, written=False)
            found.append(values)
            starts.append(address_of(values))
        return found, starts, is_packed

    def _outputs(self, out: object, initialized: frozenset[str]) -> list[Values]:
        if out is None:
            for expected in self.writes:
                if expected.form.tensor in initialized:
                    name = expected.form.tensor
                    what = f"{name} has values at the start, to which the function adds: out is missing"
                    raise InputError(Mistake("PM636", what, f"Pass out=, an array that holds {name}."))
            return [empty(each.form) for each in self.writes]
        given = (out,) if len(self.writes) == 1 else _as_tuple(out)
        if len(given) != len(self.writes):
            names = ", ".join(each.form.tensor for each in self.writes)
            what = f"out is {shown(type(out).__name__)}, and {len(self.writes)} arrays are written"
            raise InputError(Mistake("PM636", what, f"Expected a tuple of {names}."))
        return [
            _array_argument(value, expected, written=True) for value, expected in zip(given, self.writes, strict=True)
        ]


def _array_argument(value: object, expected: FastCheck, *, written: bool) -> Values:
    """Return a caller's array. Raises InputError as `array_of` does."""
    if expected.is_met_by(value):
        return cast("Values", value)
    return array_of(value, expected.form, written=written)


def _as_tuple(out: object) -> tuple[object, ...]:
    """Return a tuple's values; () for anything else."""
    return cast("tuple[object, ...]", out) if isinstance(out, tuple) else ()


def load_function(function: NativeFunction, threads: int) -> NativeCall:
    """Return the function compiled by the host's compiler, or loaded from the cache.

    Raises CompilerError if there is no compiler, or it fails.
    """
    library = load_object(function.text, host_compiler(function.flags), threads)
    pack = with_packed = None
    plain = _symbol(library, function.name, len(function.arrays))
    if function.packed is not None:
        pack = _symbol(library, f"{function.name}_pack", 2)
        with_packed = _symbol(library, f"{function.name}_with_packed", len(function.arrays))
    reads = tuple(fast_check_of(form) for form in function.arrays if not form.is_written)
    writes = tuple(fast_check_of(form) for form in function.arrays if form.is_written)
    return NativeCall(function, plain, pack, with_packed, reads, writes)


def load_region(function: NativeFunction, threads: int) -> RegionCall:
    """Return the function of a region of C, compiled or loaded like that of `load_function`."""
    library = load_object(function.text, host_compiler(function.flags), threads)
    checks = tuple(fast_check_of(form) for form in function.arrays)
    return RegionCall(function, _symbol(library, function.name, len(function.arrays)), checks)


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
