"""Orders of the nodes of a product: their cuts side by side, each kept once, are those of every order by itself."""

from __future__ import annotations

from random import Random

import numpy as np

from polymap.search.dividing.product_plans import SCALAR, Plan, orders_of, sheet_of


def some_plan(rng: Random) -> Plan:
    dims, levels = rng.randint(1, 4), rng.randint(1, 3)
    chains = [(0, *sorted(rng.sample(range(1, levels + 1), rng.randint(0, levels)))) for _ in range(rng.randint(1, 3))]
    free = rng.sample(range(dims), dims)
    lacks = [rng.choice((None, SCALAR, *free[tensor : tensor + 1] * 3)) for tensor in range(len(chains))]
    left = frozenset(
        (tensor, level, rng.randrange(dims), rng.randrange(3))
        for tensor, chain in enumerate(chains)
        for level in chain[1:]
        if rng.random() < 0.3
    )
    limited = frozenset(rng.sample(range(1, levels + 1), rng.randint(0, levels)))
    return Plan(tuple(lacks), tuple(chains), limited, dims, left)


def test_the_cuts_of_all_orders_side_by_side_are_those_of_each() -> None:
    compared = shared = 0
    for seed in range(150):
        plan = some_plan(Random(seed))
        orders, sheet = orders_of(plan), sheet_of(plan)
        if sheet is None:
            assert not all(order.cuts for order in orders)
            continue
        crowds = dict(sheet.crowds)
        rows = iter(sheet.cuts.tolist())
        assert sheet.firsts.tolist() == np.cumsum([0, *(len(order.cuts) for order in orders)])[:-1].tolist()
        for order in orders:
            for number, cut in enumerate(order.cuts):
                row = next(rows)
                assert sheet.dims[row] == cut.dim
                assert set(np.flatnonzero(sheet.visited[row]).tolist()) == set(order.visited[number])
                own = {node for node, tiles in zip(order.nodes, order.tiles, strict=True) if number in tiles}
                assert set(np.flatnonzero(sheet.tiles[row]).tolist()) == own
                for level in plan.limited:
                    room = {node for node in dict(order.rooms).get(level, ()) if number in node[1]}
                    crowd = np.flatnonzero(crowds[level][row]).tolist() if level in crowds else []
                    assert set(crowd) == {node for node, _ in room}
                compared += 1
        assert next(rows, None) is None
        shared += len(sheet.cuts) - len(sheet.dims)
    assert compared > 500
    assert shared > 200
