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
from polymap.codegen.native.call_arrays import ALIGNED, WRITEABLE, dtype_of, is_known_layout
from polymap.codegen.native.compiler import host_compiler
from polymap.ir import CompilerError

_FASTCALL = 0x80  # METH_FASTCALL of methodobject.h: arguments as an array and their number
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
    void *(*number)(long);
    void *(*release)(void);
    void (*acquire)(void *);
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

static int passed(const door *d, const array *const *arrays)
{{
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
    void *const thread = d->release();
    for (int i = {written}; i < {count}; ++i)
        if (d->forms[i].start >= 0 && arrays[i]->data != arrays[d->forms[i].start]->data)
            memcpy(arrays[i]->data, arrays[d->forms[i].start]->data, (size_t)d->forms[i].bytes);
    d->code({passed});
    d->acquire(thread);
    return 1;
}}

void *enter(const array *self, const array *const *arrays, intptr_t count);

/* Calls the function and returns 1, or returns 0 where an array needs other checks or overlaps one that is written. */
void *enter(const array *self, const array *const *arrays, intptr_t count)
{{
    const door *const d = (const door *)(const void *)self->data;
    return d->number(count == {count} && passed(d, arrays));
}}
"""


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
    _fields_ = (
        ("type", ctypes.c_void_p),
        ("code", ctypes.c_void_p),
        ("forms", ctypes.POINTER(_Form)),
        ("number", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("acquire", ctypes.c_void_p),
    )


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


@dataclass(frozen=True, slots=True)
class Argument:
    """An array of a call. place: of its address among the parameters in C, -1 for none; start: for an array that is
    written, the argument that holds its values at the start, else -1."""

    form: ArrayForm
    place: int
    start: int = -1


@dataclass(frozen=True, slots=True)
class Door:
    """`door.code(*arrays)` checks arrays and calls the function, or returns 0 and does nothing."""

    code: Any = field(repr=False)
    kept: tuple[Any, ...] = field(repr=False)


def door_of(code: Any, read: Sequence[Argument], written: Sequence[Argument]) -> Door | None:
    """Return the door of a function of C; None where numpy lays out its arrays in another way, or the
    user's flags for the compiler do not let a door be built."""
    if not is_known_layout():
        return None
    places = sum(each.place >= 0 for each in (*read, *written))
    python = ctypes.pythonapi
    try:
        entry = _entry(len(read) + len(written), len(read), places)
        calls = [_address(each) for each in (python.PyLong_FromLong, python.PyEval_SaveThread)]
        calls.append(_address(python.PyEval_RestoreThread))
        bound = _bound()
    except (CompilerError, AttributeError):  # such as -Werror, or -fvisibility=hidden; or another Python
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
        forms[number].flags = ALIGNED | (WRITEABLE if number >= len(read) else 0)
    door = _Door(id(np.ndarray), _address(code), forms, *calls)
    method = _Method(b"enter", _address(entry), _FASTCALL, None)
    # The method reads the door as the data of an array, as it reads all others.
    return Door(
        bound(ctypes.addressof(method), np.frombuffer(memoryview(door), np.uint8), None),
        (method, door, forms, dtypes, code),
    )


def _address(code: Any) -> int | None:
    return ctypes.cast(code, ctypes.c_void_p).value


@cache
def _bound() -> Any:
    """Return the function of Python that makes a callable object of a method in C and its first argument."""
    kinds = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(("PyCFunction_NewEx", ctypes.pythonapi))


@cache
def _entry(count: int, written: int, places: int) -> Any:
    """Return the C function of doors with so many arrays, parameters, and arrays in front of those written."""
    text = _TEXT.format(
        head=object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p),
        count=count,
        written=written,
        places=places,
        types=", ".join(["void *"] * places),
        passed=", ".join(f"places[{number}]" for number in range(places)),
    )
    return load_object(text, host_compiler(), 1).enter
