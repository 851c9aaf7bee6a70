"""Execute the notebooks in examples/. As a program, keep their new outputs: ``make notebooks``."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def execute(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of a run in `folder`. Raises CellExecutionError. Log lines are left out."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


if __name__ == "__main__":
    for each in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as temporary:
            text: str = nbformat.writes(execute(each, Path(temporary)))
        each.write_text(re.sub(rf"{tempfile.gettempdir()}/tmp\w+", "/data", text) + "\n")  # its directory, or its own
        print(f"{each.name}: {each.stat().st_size:,} bytes")
