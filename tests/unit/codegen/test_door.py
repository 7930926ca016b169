"""Calls whose arrays are checked in C: they answer as the checks in Python do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.native import NativeCall, PackedWeights, RegionCall

Arrays = dict[str, Any]
SCALED = """void f(const float x[4][3], float y[4][3], float z[4]) {
    for (int i = 0; i < 4; i++) for (int j = 0; j < 3; j++) { y[i][j] += 2 * x[i][j]; z[i] += y[i][j]; } }"""


@cache
def _layer() -> pm.CompiledFunction:
    return pm.compile(pm.matmul(3, 5, 4, types="float32"))


@cache
def _region() -> pm.CompiledFunction:
    return pm.compile(pm.from_c(SCALED))


def _numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


def _misaligned(*shape: int) -> Any:
    raw = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return raw[1:].view(np.float32).reshape(shape)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _packed() -> PackedWeights:
    return _layer().pack_weights(_numbers(4, 5))


def _of_another() -> PackedWeights:
    return pm.compile(pm.matmul(3, 5, 2, types="float32")).pack_weights(_numbers(2, 5))


WHOLE = np.zeros(100, np.float32)
# Of the layer A[3,4] B[4,5] -> C[3,5]: operands and output.
LAYER: dict[str, Callable[[], tuple[tuple[Any, ...], Any]]] = {
    "plain": lambda: ((_numbers(3, 4), _numbers(4, 5)), _numbers(3, 5)),
    "new output": lambda: ((_numbers(3, 4), _numbers(4, 5)), None),
    "read-only operand": lambda: ((_read_only(_numbers(3, 4)), _numbers(4, 5)), _numbers(3, 5)),
    "read-only output": lambda: ((_numbers(3, 4), _numbers(4, 5)), _read_only(_numbers(3, 5))),
    "doubles": lambda: ((_numbers(3, 4).astype(float), _numbers(4, 5)), _numbers(3, 5)),
    "other byte order": lambda: ((_numbers(3, 4).astype(">f4"), _numbers(4, 5)), _numbers(3, 5)),
    "transposed": lambda: ((_numbers(4, 3).T, _numbers(4, 5)), _numbers(3, 5)),
    "another shape": lambda: ((_numbers(3, 5), _numbers(4, 5)), _numbers(3, 5)),
    "fewer axes": lambda: ((_numbers(12), _numbers(4, 5)), _numbers(3, 5)),
    "misaligned": lambda: ((_misaligned(3, 4), _numbers(4, 5)), _numbers(3, 5)),
    "too few": lambda: ((_numbers(3, 4),), _numbers(3, 5)),
    "too many": lambda: ((_numbers(3, 4), _numbers(4, 5), _numbers(4, 5)), _numbers(3, 5)),
    "a list": lambda: (([1.0], _numbers(4, 5)), _numbers(3, 5)),
    "nothing": lambda: ((None, _numbers(4, 5)), _numbers(3, 5)),
    "a tuple": lambda: ((_numbers(3, 4), _numbers(4, 5)), (_numbers(3, 5),)),
    "overlap": lambda: ((WHOLE[:12].reshape(3, 4), _numbers(4, 5)), WHOLE[11:26].reshape(3, 5)),
    "packed": lambda: ((_numbers(3, 4), _packed()), _numbers(3, 5)),
    "packed, new output": lambda: ((_numbers(3, 4), _packed()), None),
    "packed, in the other's place": lambda: ((_packed(), _numbers(4, 5)), _numbers(3, 5)),
    "packed by another": lambda: ((_numbers(3, 4), _of_another()), _numbers(3, 5)),
    "packed, as plain numbers": lambda: ((_numbers(3, 4), _packed().values), _numbers(3, 5)),
    "packed, doubles beside": lambda: ((_numbers(3, 4).astype(float), _packed()), _numbers(3, 5)),
    "neighbours": lambda: ((WHOLE[:12].reshape(3, 4), _numbers(4, 5)), WHOLE[12:27].reshape(3, 5)),
}


def _region_case(name: str) -> tuple[tuple[Any, ...], Any]:
    x, y, z = _numbers(4, 3), _numbers(4, 3), _numbers(4)
    cases: Arrays = {
        "in place": ((x, y, z), (y, z)),
        "elsewhere": ((x, y, z), (_numbers(4, 3), _numbers(4))),
        "new outputs": ((x, y, z), None),
        "one in place": ((x, y, z), (y, _numbers(4))),
        "read-only start": ((x, _read_only(y), z), (_numbers(4, 3), z)),
        "read-only in place": ((x, _read_only(y), z), (y, z)),
        "reads what it writes": ((x, x, z), (x, z)),
        "reads twice": ((x, x, z), (y, z)),
        "exchanged": ((x, y, y.reshape(-1)[:4]), (_numbers(4, 3), y.reshape(-1)[:4])),
        "numbers": ((x, y, 3.0), (y, z)),
        "one of two": ((x, y, z), (y,)),
        "one array": ((x, y, z), y),
    }
    return cases[name]


REGION = [
    *("in place", "elsewhere", "new outputs", "one in place", "read-only start", "read-only in place"),
    *("reads what it writes", "reads twice", "exchanged", "numbers", "one of two", "one array"),
]


def _outcome(loaded: NativeCall | RegionCall, given: tuple[tuple[Any, ...], Any]) -> str:
    """Return the results of a call, or the error, and what became of the arrays."""
    arrays, out = given
    try:
        found = repr(loaded.call(arrays, out))
    except pm.PolymapError as error:
        found = str(error)
    return f"{found} {arrays!r} {out!r}"


@pytest.mark.parametrize("name", LAYER)
def test_arrays_of_a_layer_are_taken_as_by_the_checks_in_python(name: str) -> None:
    loaded = _layer().loaded
    assert loaded.door is not None, "numpy lays out arrays as C reads them"
    slow = replace(loaded, door=None)
    found = []
    for each in (loaded, slow):
        WHOLE[:] = np.arange(100)
        found.append(_outcome(each, LAYER[name]()))
    assert found[0] == found[1], name


def test_packed_weights_take_the_door_too() -> None:
    loaded, out = _layer().loaded, _numbers(3, 5)
    assert isinstance(loaded, NativeCall), "a layer, no region of C"
    assert loaded.packed_door is not None, "numpy lays out arrays as C reads them"
    assert loaded.packed_door.code(_numbers(3, 4), _packed().values, out) == 1, "of the size of the packed array"
    assert np.array_equal(out, _numbers(3, 4) @ _numbers(4, 5)), "whole numbers below 2^24"


@pytest.mark.parametrize("name", REGION)
def test_arrays_of_a_region_are_taken_as_by_the_checks_in_python(name: str) -> None:
    loaded = _region().loaded
    assert loaded.door is not None, "numpy lays out arrays as C reads them"
    slow = replace(loaded, door=None)
    assert _outcome(loaded, _region_case(name)) == _outcome(slow, _region_case(name)), name


def test_the_door_takes_plain_arrays_and_nothing_that_needs_a_closer_look() -> None:
    door = _layer().loaded.door
    assert door is not None, "numpy lays out arrays as C reads them"
    taken = [
        name
        for name, case in LAYER.items()
        for arrays, out in [case()]
        if len(arrays) == 2 and out is not None and door.code(*arrays, out)
    ]
    assert taken == ["plain", "read-only operand", "neighbours"], "the others are for the checks in Python"


@cache
def _pair() -> pm.CompiledFunction:
    lines = ["C[m,n] += A[m,k] * B[k,n]", "D[m,n] = C[m,n] + C[m,n]"]
    return pm.compile(pm.program(lines, m=3, k=4, n=5, types="float32"))


@pytest.mark.parametrize("read", range(5))
def test_arrays_are_not_taken_for_outputs_nor_outputs_for_arrays(read: int) -> None:
    arrays = (_numbers(3, 4), _numbers(4, 5), _numbers(3, 5), _numbers(3, 5))
    given = arrays[:read], arrays[read:]
    if read == 2:
        assert _pair()(*given[0], out=given[1]) == given[1], "two are read and two are written"
    else:
        with pytest.raises(pm.errors.InputError, match="PM636"):
            _pair()(*given[0], out=given[1])


def test_a_function_tells_the_arrays_of_a_call() -> None:
    """A region takes what it writes, too: its text once named only what it reads."""
    taken, returned = "x: float32[4, 3], y: float32[4, 3], z: float32[4]", "y: float32[4, 3], z: float32[4]"
    assert repr(_region()) == f"<CompiledFunction of f: ({taken}) -> {returned}>"
    assert "(A: float32[3, 4], B: float32[4, 5]) -> C: float32[3, 5]>" in repr(_layer()), "a layer returns its output"
