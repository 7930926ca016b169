"""A pair of statements with a window between them never moves more words through one buffer than the best of its rows
kept, made again, fetched again, and in lines."""

from __future__ import annotations

from time import process_time

import pytest

import polymap as pm
from polymap.explore import search
from tests.referee.window_ways import Leg, Pair, least_words
from tests.times import few
from tests.unit.search.run.test_nest_after_nest import buffer

ROOMS = (8, 12, 16, 24, 40, 64)
PAIRS = {
    "7/2 and pool 3/2": (
        ["T[k,y] += I[c,2*y+r] * W[k,c,r]", "O[k,v] max= T[k,2*v+a]"],
        Pair(
            Leg(
                "kycr",
                (("I", lambda p: (p["c"], 2 * p["y"] + p["r"])), ("W", lambda p: (p["k"], p["c"], p["r"]))),
                ("T", lambda p: (p["k"], p["y"])),
            ),
            Leg("kva", (("T", lambda p: (p["k"], 2 * p["v"] + p["a"])),), ("O", lambda p: (p["k"], p["v"]))),
            2,
            3,
            (("k", 2), ("c", 2), ("r", 7), ("y", 9), ("v", 4), ("a", 3)),
        ),
    ),
    "pointwise and depthwise 3/2": (
        ["T[k,y] += I[c,y] * W[k,c]", "O[k,v] += T[k,2*v+a] * V[k,a]"],
        Pair(
            Leg(
                "kyc",
                (("I", lambda p: (p["c"], p["y"])), ("W", lambda p: (p["k"], p["c"]))),
                ("T", lambda p: (p["k"], p["y"])),
            ),
            Leg(
                "kva",
                (("T", lambda p: (p["k"], 2 * p["v"] + p["a"])), ("V", lambda p: (p["k"], p["a"]))),
                ("O", lambda p: (p["k"], p["v"])),
            ),
            2,
            3,
            (("k", 4), ("c", 2), ("y", 13), ("v", 6), ("a", 3)),
        ),
    ),
    "3 and 3": (
        ["T[k,y] += I[c,y+r] * W[k,c,r]", "O[z,v] += T[k,v+a] * V[z,k,a]"],
        Pair(
            Leg(
                "kycr",
                (("I", lambda p: (p["c"], p["y"] + p["r"])), ("W", lambda p: (p["k"], p["c"], p["r"]))),
                ("T", lambda p: (p["k"], p["y"])),
            ),
            Leg(
                "zvka",
                (("T", lambda p: (p["k"], p["v"] + p["a"])), ("V", lambda p: (p["z"], p["k"], p["a"]))),
                ("O", lambda p: (p["z"], p["v"])),
            ),
            1,
            3,
            (("k", 2), ("c", 2), ("r", 3), ("y", 8), ("z", 2), ("v", 6), ("a", 3)),
        ),
    ),
}


@pytest.mark.parametrize(("name", "room"), few([(name, room) for room in ROOMS for name in PAIRS], 1))
def test_no_way_to_pass_rows_moves_less(name: str, room: int) -> None:
    texts, pair = PAIRS[name]
    work = pm.program(texts, sizes=dict(pair.sizes), temporary=["T"], bits=8)
    found = search(work, buffer(room), "traffic:DRAM", "divide", time_limit_s=1, clock=process_time)
    assert found.value is not None
    assert found.value <= 8 * min(least_words(pair, room).values())
