"""What must work in an environment that holds nothing but the installed wheel and its dependencies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polymap as pm

HERE = Path(sys.prefix)


def command(*words: str) -> str:
    """Return what the installed command prints; it must end with 0."""
    done = subprocess.run([HERE / "bin" / "polymap", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


def main() -> None:
    """Use the package and the command as a new user would."""
    assert pm.__file__ is not None
    assert Path(pm.__file__).is_relative_to(HERE), f"{pm.__file__} is not the installed package"
    gemm = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=16, n=8, k=4)
    result = pm.explore(gemm, pm.load_arch("flat3"), tiles="divide")
    assert result.status == "OPTIMAL", result.status
    assert pm.simulate(gemm, pm.load_arch("flat3"), result.best).traffic == result.cost.traffic
    run = pm.run_c(gemm, pm.load_arch("flat3"), result.best)
    assert run.matches_reference
    assert run.counts_match

    assert "eyeriss_like" in command("list")
    words = ("C[m,n] += A[m,k] * B[k,n]", "m=16", "n=8", "k=4")
    answer = json.loads(command("explore", *words, "--arch", "flat3", "--tiles", "divide", "--json", "-"))
    assert answer["value"] == result.value, (answer["value"], result.value)
    bad = subprocess.run([HERE / "bin" / "polymap", "explore", "nothing"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2, bad
    assert "Traceback" not in bad.stderr
    print(f"wheel works: {result.status}, {result.value} pJ")


if __name__ == "__main__":
    main()
