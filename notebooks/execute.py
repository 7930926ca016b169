"""Execute the notebooks from top to bottom; an error, a failed assertion or an output that has changed ends with exit
code 1.

python notebooks/execute.py [NAME...]            executes them (all, or those whose names begin so), changes no file
python notebooks/execute.py --write [NAME...]    also writes their outputs; look at the pictures before you commit them

Lines that begin with "measured:" hold seconds of the machine: their numbers and bars are not compared, nor are the
seconds that end the first line of an answer.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent
KINDS = ("image/svg+xml", "text/html", "text/plain")


def main(words: list[str]) -> int:
    """Return how many notebooks failed; none at all is a failure too."""
    names = [word for word in words if word != "--write"]
    paths = [path for path in sorted(HERE.glob("*.ipynb")) if not names or path.name.startswith(tuple(names))]
    if not paths:
        print("no notebook found")
        return 1
    return min(sum(not passed(path, write="--write" in words) for path in paths), 1)


def passed(path: Path, *, write: bool) -> bool:
    """Execute one; print what became of it and what it took. write: keep its outputs."""
    notebook = nbformat.read(path, as_version=4)
    stored = [outputs_of(cell) for cell in notebook.cells]
    before = cpu_seconds()
    where = {"metadata": {"path": str(HERE)}}
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=where, record_timing=False)
    try:
        client.execute()
        found = [outputs_of(cell) for cell in notebook.cells]
        different = "" if write else difference(stored, found)
    except CellExecutionError as error:
        different = str(error)
    taken = f"{cpu_seconds() - before:.0f} s of CPU time"
    print(f"{path.name}: {'FAILED ' if different else 'passed'} ({taken}){': ' + different if different else ''}")
    if write and not different:
        write_outputs(path, notebook, found)
    return not different


def cpu_seconds() -> float:
    """Return the CPU time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def outputs_of(cell: Any) -> list[dict[str, str]]:
    """Return what a cell shows: {kind: text} of each output, printed lines joined; a picture without its text form."""
    shown: list[dict[str, str]] = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            if output.name == "stdout":
                if shown and "stdout" in shown[-1]:
                    shown[-1]["stdout"] += output.text
                else:
                    shown.append({"stdout": output.text})
        elif output.output_type in ("execute_result", "display_data"):
            kind = next(kind for kind in KINDS if kind in output.data)
            shown.append({kind: "".join(output.data[kind])})
    return shown


def difference(stored: list[list[dict[str, str]]], found: list[list[dict[str, str]]]) -> str:
    """Return where the first output differs from the stored one; "" if none does."""
    stored, found = ([[without_times(output) for output in cell] for cell in cells] for cells in (stored, found))
    for number, (before, after) in enumerate(zip(stored, found, strict=True)):
        if before == after:
            continue
        lines = [
            [line for output in cell for text in output.values() for line in text.splitlines()]
            for cell in (before, after)
        ]
        for one, other in zip(*lines, strict=False):
            if one != other:
                return f"cell {number} shows\n    {other[:200]}\nwhere the file has\n    {one[:200]}"
        return f"cell {number} shows {len(lines[1])} lines, and {len(lines[0])} are stored"
    return ""


def without_times(output: dict[str, str]) -> dict[str, str]:
    """Return an output without the numbers and bars of lines that hold measured seconds, nor those of an answer."""
    timed = {kind: re.sub(r"(?m)^measured:.*$", measured_words, text) for kind, text in output.items()}
    return {kind: re.sub(r"(?m)^([A-Z]+: .*), [\d.]+ s$", r"\1", text) for kind, text in timed.items()}


def measured_words(line: re.Match[str]) -> str:
    """Return the words of a line."""
    return " ".join(re.findall("[A-Za-z:]+", line[0]))


def write_outputs(path: Path, notebook: Any, found: list[list[dict[str, str]]]) -> None:
    """Write the notebook with these outputs alone: no times, no second forms of a picture."""
    count = 0
    for cell, outputs in zip(notebook.cells, found, strict=True):
        if cell.cell_type != "code":
            continue
        count += 1
        cell["execution_count"], cell["metadata"] = count, {}
        cell["outputs"] = [
            nbformat.v4.new_output("stream", name="stdout", text=text)
            if kind == "stdout"
            else nbformat.v4.new_output("execute_result", data={kind: text}, execution_count=count)
            for output in outputs
            for kind, text in output.items()
        ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook["metadata"] = {"kernelspec": kernel, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
