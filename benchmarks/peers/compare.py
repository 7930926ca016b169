"""polymap and its peers side by side: CPU seconds, the value by each tool's own counting, and by polymap's exact one.

Every peer runs in its own virtual environment (README.md in this folder); without one, the answers of the last run are
read from answers.json. A peer's mapping is translated to a loop tree, which polymap evaluates; polymap answers the same
question with dividing tiles.
Run: python benchmarks/peers/compare.py [--accelforge VENV/bin/python] [--zigzag VENV/bin/python] [--limit CPU_SECONDS]
     [CASE ...]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.json"
PEERS = {"accelforge": "AccelForge", "zigzag": "ZigZag"}


def cases() -> list[dict]:
    """Return the questions of peers.json."""
    return json.loads((HERE / "peers.json").read_text(encoding="utf-8"))["cases"]


def asked(python: str, script: str, case: dict, limit: int) -> dict:
    """Return a peer's answer to a question, or what it ended with."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({key: case[key] for key in ("workload", "arch", "objective")}, file)
        file.flush()
        command = [python, str(HERE / script), file.name, "--limit", str(limit)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = done.stderr.strip().splitlines()[-1:] or [""]
    return {"value": None, "cpu_s": round(spent, 1), "ended": f"exit {done.returncode} {said[0][:100]}".strip()}


def own_value(case: dict, nodes: list[dict]) -> tuple[float, str]:
    """Return polymap's exact value of a mapping, and what is wrong with it ("" where it is legal)."""
    import polymap as pm

    workload, arch = pm.io.workload_from_document(case["workload"]), pm.io.arch_from_document(case["arch"])
    cost = pm.evaluate(workload, arch, pm.io.mapping_from_document({"nodes": nodes}))
    values = {"energy": cost.energy_pj, "latency": cost.latency_cycles, "edp": cost.energy_pj * cost.latency_cycles}
    return values[case["objective"]], "; ".join(str(violation) for violation in cost.violations)


def ours(name: str, limit: int) -> dict:
    """Return polymap's answer, found in a fresh process, with its CPU seconds (start-up included)."""
    command = [sys.executable, str(Path(__file__)), "--child", name, "--limit", str(limit)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(done.stdout), "cpu_s": spent}


def child(name: str, limit: int) -> None:
    """Print polymap's answer to one question."""
    import polymap as pm

    case = next(case for case in cases() if case["id"] == name)
    workload, arch = pm.io.workload_from_document(case["workload"]), pm.io.arch_from_document(case["arch"])
    found = pm.explore(workload, arch, objective=case["objective"], tiles="divide", time_limit_s=limit)
    json.dump({"value": found.value, "status": found.status, "gap": found.gap}, sys.stdout)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value < 1e12 else f"{value:.6g}"


def row(case: dict, who: str, theirs: float | None, exact: float | None, cpu_s: float, note: str) -> None:
    name = case["id"] if who == "polymap" else ""
    print(f"{name:28}{who:12}{number(theirs):>17}{number(exact):>17}{cpu_s:>8.1f}  {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="polymap and its peers side by side")
    parser.add_argument("case", nargs="*", help="all where none is given")
    for peer, name in PEERS.items():
        parser.add_argument(f"--{peer}", help=f"the Python of {name}'s virtual environment")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds per question and tool")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.limit)
        return
    answers = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    print(f"dividing tiles, one worker, limit {options.limit} CPU s; pJ, or pJ x cycles for edp")
    print(f"{'case':28}{'tool':12}{'own value':>17}{'exact value':>17}{'CPU s':>8}")
    for case in cases():
        if options.case and case["id"] not in options.case:
            continue
        mine = ours(case["id"], options.limit)
        row(case, "polymap", mine["value"], mine["value"], mine["cpu_s"], mine["status"])
        for peer, name in PEERS.items():
            if getattr(options, peer):
                found = asked(getattr(options, peer), f"run_{peer}.py", case, options.limit)
                answers.setdefault(peer, {})[case["id"]] = found
                ANSWERS.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
            known = answers.get(peer, {}).get(case["id"])
            if known is not None:
                exact, wrong = own_value(case, known["nodes"]) if "nodes" in known else (None, known["ended"])
                row(case, name, known["value"], exact, known["cpu_s"], wrong)


if __name__ == "__main__":
    main()
