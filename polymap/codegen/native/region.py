"""A compiled region of C: it takes all arrays that exist outside the region, and returns those it writes as new
ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from polymap.codegen.native.arrays import ArrayForm
from polymap.codegen.native.call_arrays import Values, array_of, check_disjoint, dtype_of, empty
from polymap.codegen.native.door import Door
from polymap.codegen.native.function import NativeFunction
from polymap.inputs import shown
from polymap.ir import InputError, Mistake


@dataclass(frozen=True, slots=True)
class RegionCall:
    """A loaded function of the host's C compiler. It holds no state, so several Python threads may run it at once."""

    function: NativeFunction
    plain: Any = field(repr=False)
    door: Door | None = field(repr=False)

    def call(self, arrays: tuple[object, ...], out: object) -> tuple[Values, ...]:
        """Return the written arrays after the region ran on these values of all its arrays, in order of declaration.

        out: arrays for them (a tuple, or one array where one is written), or None for new ones. The arrays given are
        not changed unless they are also passed as `out`. Variables without axes may be given as numbers. Raises
        InputError for another number of arrays (PM636), and as `array_of` does (PM630 to PM634).
        """
        done = self._enter(arrays, out)
        if done is not None:
            return done
        forms = self.function.arrays
        check_count(arrays, forms)
        given = [(form, _value(value, form)) for value, form in zip(arrays, forms, strict=True)]
        ends = [form for form in forms if form.is_written]
        written = list(zip(ends, outputs(out, ends), strict=True))
        read = [(form.tensor, values) for form, values in given if not form.is_written]
        check_disjoint([(form.tensor, values) for form, values in written], read)
        _check_no_exchange(written, given)
        _copy_initial_values(written, given)
        place = {form.tensor: values for form, values in written}
        place.update(read)
        self.plain(*(place[form.tensor].ctypes.data for form in forms))
        return tuple(values for _, values in written)

    def _enter(self, arrays: tuple[object, ...], out: object) -> tuple[Values, ...] | None:
        """Return the outputs if the door accepts the arrays."""
        door = self.door
        if door is None:
            return None
        ends: tuple[Any, ...]
        if out is None:
            ends = tuple(empty(form) for form in self.function.arrays if form.is_written)
        else:
            ends = as_tuple(out)
        count = len(self.function.arrays)
        return ends if len(arrays) == count and door.code(*arrays, *ends) else None


def check_count(arrays: tuple[object, ...], forms: Sequence[ArrayForm]) -> None:
    """Raise InputError (PM636) for another number of arrays."""
    if len(arrays) != len(forms):
        names = ", ".join(f"{form.tensor}: {form.kind}{list(form.shape)}" for form in forms)
        raise InputError(Mistake("PM636", f"arrays given: {len(arrays)}", f"Expected {names}."))


def outputs(out: object, forms: Sequence[ArrayForm]) -> list[Values]:
    """Return the arrays to write: those given (PM636 for another number), new ones for None."""
    if out is None:
        return [empty(form) for form in forms]
    given = as_tuple(out)
    if len(given) != len(forms):
        what = f"out is {shown(type(out).__name__)}, and {len(forms)} arrays are written"
        raise InputError(Mistake("PM636", what, f"Expected a tuple of {', '.join(form.tensor for form in forms)}."))
    return [array_of(each, form, written=True) for each, form in zip(given, forms, strict=True)]


def as_tuple(out: object) -> tuple[object, ...]:
    """Return what is given for outputs, a single array as a tuple of one."""
    return cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,)


def _value(value: object, form: ArrayForm) -> Values:
    """Return a value as an array; of a variable without axes it may be a number."""
    if form.shape or isinstance(value, bool) or not isinstance(value, int | float):
        return array_of(value, form, written=False)
    dtype = dtype_of(form)
    if dtype.kind == "f":
        try:
            return np.asarray(float(value), dtype)
        except OverflowError:
            pass
    elif isinstance(value, int) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return np.asarray(value, dtype)
    raise InputError(
        Mistake("PM631", f"{form.tensor} is given as {shown(value)}", f"Expected a number of {form.kind}.")
    )


def _check_no_exchange(written: list[tuple[ArrayForm, Values]], given: list[tuple[ArrayForm, Values]]) -> None:
    """Raise InputError (PM634) if an output holds the initial values of another array."""
    for form, values in written:
        others = [(other.tensor, start) for other, start in given if other.is_written and other.tensor != form.tensor]
        check_disjoint([(form.tensor, values)], others)


def _copy_initial_values(written: list[tuple[ArrayForm, Values]], given: list[tuple[ArrayForm, Values]]) -> None:
    """Copy the initial values into the outputs that are other arrays."""
    start = {form.tensor: values for form, values in given}
    for form, values in written:
        if values.ctypes.data != start[form.tensor].ctypes.data:
            np.copyto(values, start[form.tensor])
