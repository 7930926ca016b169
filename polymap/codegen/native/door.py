"""Calls of compiled functions whose arrays are checked in C: what Python would compare takes longer than small layers.

The C text reads numpy's arrays as its binary interface lays them out (PyArrayObject_fields of ndarraytypes.h), and is
used only where a probe shows this layout.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import numpy as np

from polymap.codegen.native.arrays import ArrayForm
from polymap.codegen.native.cache import load_object
from polymap.codegen.native.call_arrays import dtype_of
from polymap.codegen.native.compiler import host_compiler
from polymap.ir import CompilerError

_ALIGNED, _WRITEABLE = 0x100, 0x400
_TEXT = """#include <stdint.h>
#include <string.h>
typedef struct {{
    char head[{head}];
    const void *type;
    char *data;
    int axes;
    const intptr_t *shape, *strides;
    const void *base, *dtype;
    int flags;
}} array;
typedef struct {{
    const void *dtype;
    const intptr_t *shape, *strides;
    intptr_t axes, flags, bytes, place, start;
}} form;
typedef struct {{
    const void *type;
    void (*code)({types});
    const form *forms;
}} door;

static int is_met(const array *a, const form *f, const void *type)
{{
    if (a->type != type || a->dtype != f->dtype || a->axes != f->axes || (a->flags & f->flags) != f->flags)
        return 0;
    for (int axis = 0; axis < a->axes; ++axis)
        if (a->shape[axis] != f->shape[axis] || a->strides[axis] != f->strides[axis])
            return 0;
    return 1;
}}

int enter(const door *d{parameters});

/* Calls the function and returns 1, or returns 0 where an array needs other checks or overlaps one that is written. */
int enter(const door *d{parameters})
{{
    const array *const arrays[] = {{{names}}};
    char *places[{places}];
    for (int i = 0; i < {count}; ++i) {{
        if (!is_met(arrays[i], d->forms + i, d->type))
            return 0;
        if (d->forms[i].place >= 0)
            places[d->forms[i].place] = arrays[i]->data;
    }}
    for (int i = {written}; i < {count}; ++i)
        for (int j = 0; j < {count}; ++j) {{
            const char *const one = arrays[i]->data, *const other = arrays[j]->data;
            if (j != i && !(j == d->forms[i].start && one == other)
                && one < other + d->forms[j].bytes && other < one + d->forms[i].bytes)
                return 0;
        }}
    for (int i = {written}; i < {count}; ++i)
        if (d->forms[i].start >= 0 && arrays[i]->data != arrays[d->forms[i].start]->data)
            memcpy(arrays[i]->data, arrays[d->forms[i].start]->data, (size_t)d->forms[i].bytes);
    d->code({passed});
    return 1;
}}
"""


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


class _Form(ctypes.Structure):
    _fields_ = (
        ("dtype", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("axes", ctypes.c_ssize_t),
        ("flags", ctypes.c_ssize_t),
        ("bytes", ctypes.c_ssize_t),
        ("place", ctypes.c_ssize_t),
        ("start", ctypes.c_ssize_t),
    )


class _Door(ctypes.Structure):
    _fields_ = (("type", ctypes.c_void_p), ("code", ctypes.c_void_p), ("forms", ctypes.POINTER(_Form)))


@dataclass(frozen=True, slots=True)
class Argument:
    """An array of a call. place: of its address among the parameters in C, -1 for none; start: for an array that is
    written, the argument that holds its values at the start, else -1."""

    form: ArrayForm
    place: int
    start: int = -1


@dataclass(frozen=True, slots=True)
class Door:
    """`door.code(door.at, *arrays)` checks arrays and calls the function, or returns 0 and does nothing. count: how
    many arrays it takes."""

    count: int
    code: Any = field(repr=False)
    at: int = field(repr=False)
    kept: tuple[Any, ...] = field(repr=False)


def door_of(code: Any, read: Sequence[Argument], written: Sequence[Argument]) -> Door | None:
    """Return the door of a function of C; None where numpy lays out its arrays in another way, or the
    user's flags for the compiler do not let a door be built."""
    if not _is_known_layout():
        return None
    places = sum(each.place >= 0 for each in (*read, *written))
    try:
        entry = _entry(len(read) + len(written), len(read), places)
    except (CompilerError, AttributeError):  # such as -Werror, or -fvisibility=hidden
        return None
    arguments = (*read, *written)
    forms, dtypes = (_Form * len(arguments))(), [dtype_of(each.form) for each in arguments]
    for number, each in enumerate(arguments):
        shape = each.form.shape
        numbers = ctypes.c_ssize_t * len(shape)
        bytes_ = [prod(shape[axis:]) * dtypes[number].itemsize for axis in range(len(shape) + 1)]
        forms[number].dtype, forms[number].axes, forms[number].bytes = id(dtypes[number]), len(shape), bytes_[0]
        forms[number].shape, forms[number].strides = numbers(*shape), numbers(*bytes_[1:])
        forms[number].place, forms[number].start = each.place, each.start
        forms[number].flags = _ALIGNED | (_WRITEABLE if number >= len(read) else 0)
    door = _Door(id(np.ndarray), ctypes.cast(code, ctypes.c_void_p), forms)
    return Door(len(arguments), entry, ctypes.addressof(door), (door, forms, dtypes, code))


@cache
def _entry(count: int, written: int, places: int) -> Any:
    """Return the C function of doors with so many arrays, parameters, and arrays in front of those written."""
    names = [f"a{number}" for number in range(count)]
    text = _TEXT.format(
        head=object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p),
        count=count,
        written=written,
        places=places,
        types=", ".join(["void *"] * places),
        parameters="".join(f", const array *{each}" for each in names),
        names=", ".join(names),
        passed=", ".join(f"places[{number}]" for number in range(places)),
    )
    entry = load_object(text, host_compiler(), 1).enter
    entry.argtypes = [ctypes.c_void_p, *[ctypes.py_object] * count]
    return entry


@cache
def _is_known_layout() -> bool:
    """Return whether a probe has its fields where the C text reads them."""
    probe = np.empty((3, 5), np.float32)[1:]
    found = _Fields.from_address(id(probe) + object.__basicsize__)
    return (
        found.data == probe.ctypes.data
        and found.axes == probe.ndim
        and found.dtype == id(probe.dtype)
        and found.flags & (_ALIGNED | _WRITEABLE) == _ALIGNED | _WRITEABLE
        and (*found.shape[:2], *found.strides[:2]) == (*probe.shape, *probe.strides)
    )
