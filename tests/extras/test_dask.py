"""A sweep on a Dask cluster of two worker processes answers what it does alone."""

from __future__ import annotations

from distributed import Client, LocalCluster

import polymap as pm

LAYERS = [pm.matmul(m=8, n=8, k=8, name="a"), pm.matmul(m=4, n=16, k=4, name="b")]
GRID = {"base": "flat3", "grid": {"GLB.capacity_bits": [512, 1024, 8192], "X.size": [2, 4]}}


def test_a_sweep_on_dask_answers_what_it_does_alone() -> None:
    alone = pm.sweep(LAYERS, GRID, tiles="divide")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        there = pm.sweep(LAYERS, GRID, tiles="divide", executor=client.get_executor(pure=False))
    assert [(row.status, row.value) for row in there.rows] == [(row.status, row.value) for row in alone.rows]
    assert there.asked == alone.asked
