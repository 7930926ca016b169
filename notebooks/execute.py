"""Execute every notebook here from top to bottom; any error or failed assertion ends with exit code 1.

The files are left as they are. Run: python notebooks/execute.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent


def main() -> int:
    """Return how many notebooks failed; none at all is a failure too."""
    notebooks = sorted(HERE.glob("*.ipynb"))
    if not notebooks:
        print("no notebook found")
        return 1
    failed = 0
    for path in notebooks:
        start = time.perf_counter()
        notebook = nbformat.read(path, as_version=4)
        client = NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(HERE)}}
        )
        try:
            client.execute()
            verdict = "passed"
        except CellExecutionError as error:
            verdict = f"FAILED\n{error}"
            failed += 1
        print(f"{path.name}: {verdict} ({time.perf_counter() - start:.1f} s)")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
