"""The callers' arrays, from numpy, DLPack or the buffer protocol, checked before they are passed to C."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from polymap.codegen.lower import LINE_BYTES
from polymap.codegen.native.arrays import ArrayForm
from polymap.codegen.native.tuning import TUNING
from polymap.ir import InputError, Mistake, PolymapError

Values = NDArray[Any]
ALIGNED, WRITEABLE = 0x100, 0x400  # NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE


class _Fields(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("axes", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


@cache
def is_known_layout() -> bool:
    """Return whether a probe has its fields as numpy's binary interface lays them out (ndarraytypes.h)."""
    probe = np.empty((3, 5), np.float32)[1:]
    found = _Fields.from_address(id(probe) + object.__basicsize__)
    return (
        found.data == probe.ctypes.data
        and found.axes == probe.ndim
        and found.dtype == id(probe.dtype)
        and found.flags & (ALIGNED | WRITEABLE) == ALIGNED | WRITEABLE
        and (*found.shape[:2], *found.strides[:2]) == (*probe.shape, *probe.strides)
    )


def address_of(values: Values) -> int:
    """Return the address of the first element."""
    if is_known_layout():
        return ctypes.c_ssize_t.from_address(id(values) + object.__basicsize__).value
    return values.ctypes.data


def dtype_of(form: ArrayForm) -> np.dtype[Any]:
    """Return the dtype of an array's elements; for bfloat16 the unsigned integer of its 16 bits."""
    return np.dtype("uint16" if form.kind == "bfloat16" else form.kind)


def empty(form: ArrayForm, elements: int | None = None) -> Values:
    """Return a new array of a form, aligned to a cache line unless it is short: to align one takes a microsecond.
    elements: instead, a flat one of so many elements."""
    dtype = dtype_of(form)
    shape = form.shape if elements is None else (elements,)
    if elements is None and form.elements <= TUNING.few_elements:
        return np.empty(shape, dtype)
    raw = np.empty(math.prod(shape) * dtype.itemsize + LINE_BYTES, np.uint8)
    return np.ndarray(shape, dtype, raw, -address_of(raw) % LINE_BYTES)


def array_of(value: object, form: ArrayForm, *, written: bool, packs: bool = False) -> Values:
    """Return a caller's value as a numpy array, without a copy.

    written: the function stores into it. packs: it is packed for the function. Raises InputError: no array (PM630),
    elements of another type (PM631), another shape (PM632), elements that are not dense in C order or not aligned
    (PM633), memory that cannot be written (PM634).
    """
    found = _view_of(value, form)
    mistake = _mistake(found, form, written=written)
    if mistake is not None:
        told = f"pack_weights() of this function takes {form.tensor} (its `packed`). " if packs else ""
        raise InputError(replace(mistake, hint=told + mistake.hint))
    return found


def check_disjoint(outputs: Sequence[tuple[str, Values]], others: Sequence[tuple[str, Values]]) -> None:
    """Raise InputError (PM634) if an array that is written shares memory with another one."""
    for number, (name, values) in enumerate(outputs):
        for other, read in (*others, *outputs[number + 1 :]):
            if np.may_share_memory(values, read):  # of dense arrays the bounds decide it
                what = f"the arrays of {name} and {other} overlap, and {name} is written"
                raise InputError(Mistake("PM634", what, "Pass another array as out, or leave it out."))


def _view_of(value: object, form: ArrayForm) -> Values:
    if isinstance(value, np.ndarray):
        return _as_bits(cast("Values", value), form)
    hint = f"Expected a numpy array of {form.kind}{list(form.shape)}, or what has DLPack or the buffer protocol."
    kind = type(value).__name__
    if kind in ("str", "bytes", "list", "tuple", "int", "float"):
        what = f"{form.tensor} is given as {kind}"
        raise InputError(Mistake("PM630", what, f"{hint} numpy.asarray() makes one."))
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(cast("Any", value))
        return _as_bits(np.asarray(memoryview(cast("Any", value))), form)
    except PolymapError:
        raise
    except (AttributeError, BufferError, LookupError, RuntimeError, TypeError, ValueError) as error:
        told = str(error).splitlines()[0][:200] if str(error) else ""
        what = f"{form.tensor} is given as {kind}, which is no array here: {told}"
        more = " A bfloat16 tensor of torch is passed as x.view(torch.uint16)." if form.kind == "bfloat16" else ""
        raise InputError(Mistake("PM630", what, hint + more)) from None


def _as_bits(values: Values, form: ArrayForm) -> Values:
    """Return a bfloat16 array of the package ml_dtypes as the integers of its bits."""
    if form.kind == "bfloat16" and values.dtype.name == "bfloat16" and values.flags.c_contiguous:
        return values.view(np.uint16)
    return values


def _mistake(found: Values, form: ArrayForm, *, written: bool) -> Mistake | None:
    expected = dtype_of(form)
    if found.dtype != expected:
        hint = f"x.astype(numpy.{expected}) converts; types= of the workload decides what the function takes."
        return Mistake("PM631", f"{form.tensor} has elements of {found.dtype}, expected {form.kind}", hint)
    if found.shape != form.shape:
        what = f"{form.tensor} has shape {_text(found.shape)}, expected {_text(form.shape)}"
        same = math.prod(found.shape) == form.elements
        hint = "Its axes may be those of the other layout (NHWC, NCHW)." if same else "Compile for the sizes you have."
        return Mistake("PM632", what, hint)
    if not found.flags.c_contiguous:
        what = f"{form.tensor} has strides of {_text(found.strides)} bytes: it is not dense in C order"
        return Mistake("PM633", what, "numpy.ascontiguousarray() copies it.")
    if found.ctypes.data % expected.itemsize:
        what = f"{form.tensor} begins at an address that is no multiple of {expected.itemsize} bytes"
        return Mistake("PM633", what, "x.copy() is aligned.")
    if written and not found.flags.writeable:
        return Mistake("PM634", f"the array for {form.tensor} is read-only", "Pass one that may be written as out.")
    return None


def _text(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"
