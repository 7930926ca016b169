"""The same question twice: the same answer, whatever the seed of Python's hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_seed_of_hashes() -> None:
    words = ["explore", "C[m,n] += A[m,k] * B[k,n]", "m=4", "n=6", "k=4", "--arch", "cluster4", "--objective", "edp"]
    answers: list[dict[str, object]] = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "polymap", *words, "--tiles", "divide", "--time-limit", "600", "--json", "-"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        answer = json.loads(done.stdout)
        assert answer.pop("seconds") >= 0
        answers.append(answer)
    assert answers[0]["status"] == "OPTIMAL"
    assert answers[0] == answers[1]
