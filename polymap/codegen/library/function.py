"""A compiled function: arrays in, arrays out, everything checked in between."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, cast

from polymap.codegen.library.arrays import Values, array_of, check_apart, empty
from polymap.codegen.library.cache import load_object
from polymap.codegen.library.compiler import host_compiler
from polymap.codegen.library.region import RegionCall
from polymap.codegen.native import ArrayForm, NativeFunction
from polymap.inputs import shown
from polymap.ir import CompilerError, InputError, Mistake


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """One operand in the order in which one function reads it. source: the text of that function."""

    tensor: str
    values: Values = field(repr=False)
    source: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A function of the host's C compiler, loaded. It may run in several Python threads at once: it holds no state.

    function: its text, and the arrays that it takes; text: the text that was compiled.
    """

    function: NativeFunction
    plain: Any = field(repr=False)
    pack: Any = field(repr=False)
    with_packed: Any = field(repr=False)

    @property
    def _read(self) -> tuple[ArrayForm, ...]:
        return tuple(form for form in self.function.arrays if not form.is_written)

    @property
    def _written(self) -> tuple[ArrayForm, ...]:
        return tuple(form for form in self.function.arrays if form.is_written)

    def call(self, arrays: tuple[object, ...], out: object, started: frozenset[str]) -> Values | tuple[Values, ...]:
        """Return the output (of several a tuple) for the arrays that are read, in order.

        out: where it goes (of several a tuple), or None. started: outputs that the workload adds to, which callers must
        give. Raises InputError, also for another number of arrays (PM636) and foreign packed weights (PM637).
        """
        read, packed = self._operands(arrays)
        written = self._outputs(out, started)
        check_apart([(form.tensor, values) for form, values in written], read)
        pointers = [values.ctypes.data for _, values in read] + [values.ctypes.data for _, values in written]
        (self.with_packed if packed else self.plain)(*pointers)
        found = tuple(values for _, values in written)
        return found[0] if len(found) == 1 else found

    def pack_weights(self, values: object) -> PackedWeights:
        """Return an operand in the order in which the function reads it: `packed` of the function, or, where that needs
        no other order, the last one as it is. Raises InputError as calls do."""
        function = self.function
        if function.packed is None:
            form = next(form for form in self._read if form.tensor == function.weights)
            return PackedWeights(form.tensor, array_of(values, form, written=False).copy(), function.text)
        form = next(form for form in self._read if form.tensor == function.packed)
        given = array_of(values, form, written=False)
        packed = empty(form, function.packed_elements)
        self.pack(given.ctypes.data, packed.ctypes.data)
        return PackedWeights(form.tensor, packed, function.text)

    def _operands(self, arrays: tuple[object, ...]) -> tuple[list[tuple[str, Values]], bool]:
        """Return the operands with names, and whether one of them is packed."""
        if len(arrays) != len(self._read):
            names = ", ".join(f"{form.tensor}: {form.kind}{list(form.shape)}" for form in self._read)
            raise InputError(Mistake("PM636", f"{len(arrays)} arrays are given", f"Expected {names}."))
        found: list[tuple[str, Values]] = []
        is_packed = False
        for value, form in zip(arrays, self._read, strict=True):
            if isinstance(value, PackedWeights):
                if value.tensor != form.tensor or value.source != self.function.text:
                    what = f"{form.tensor} is given as weights that another function packed, or for {value.tensor}"
                    raise InputError(Mistake("PM637", what, "Pack them with pack_weights() of this function."))
                found.append((form.tensor, value.values))
                is_packed = self.function.packed is not None
            else:
                found.append((form.tensor, array_of(value, form, written=False)))
        return found, is_packed

    def _outputs(self, out: object, started: frozenset[str]) -> list[tuple[ArrayForm, Values]]:
        forms = self._written
        if out is None:
            for form in forms:
                if form.tensor in started:
                    what = f"{form.tensor} has values at the start, to which the function adds: out is missing"
                    raise InputError(Mistake("PM636", what, f"Pass out=, an array that holds {form.tensor}."))
            return [(form, empty(form)) for form in forms]
        given = (out,) if len(forms) == 1 else _several(out)
        if len(given) != len(forms):
            what = f"out is {shown(type(out).__name__)}, and {len(forms)} arrays are written"
            raise InputError(Mistake("PM636", what, f"Expected a tuple of {', '.join(f.tensor for f in forms)}."))
        return [(form, array_of(each, form, written=True)) for each, form in zip(given, forms, strict=True)]


def _several(out: object) -> tuple[object, ...]:
    """Return the values of a tuple, none of anything else."""
    return cast("tuple[object, ...]", out) if isinstance(out, tuple) else ()


def load_function(function: NativeFunction, threads: int) -> NativeCall:
    """Return the function compiled by the host's compiler, or loaded from the cache.

    Raises CompilerError if there is no compiler, or it fails.
    """
    library = load_object(function.text, host_compiler(exact=function.is_exact), threads)
    pack = with_packed = None
    plain = _symbol(library, function.name, len(function.arrays))
    if function.packed is not None:
        pack = _symbol(library, f"{function.name}_pack", 2)
        with_packed = _symbol(library, f"{function.name}_with_packed", len(function.arrays))
    return NativeCall(function, plain, pack, with_packed)


def load_region(function: NativeFunction, threads: int) -> RegionCall:
    """Return the function of a region of C, compiled or loaded as `load_function` does."""
    library = load_object(function.text, host_compiler(exact=function.is_exact), threads)
    return RegionCall(function, _symbol(library, function.name, len(function.arrays)))


def _symbol(library: ctypes.CDLL, name: str, pointers: int) -> Any:
    """Return a function of pointers that returns nothing."""
    try:
        found = library[name]
    except AttributeError as error:
        what = f"the compiled object has no function {name}: {error}"
        raise CompilerError(Mistake("PM635", what, "Look at CFLAGS, such as -fvisibility.")) from None
    found.argtypes = [ctypes.c_void_p] * pointers
    found.restype = None
    return found
