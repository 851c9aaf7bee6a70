"""The notebooks in examples/ run, and show what their stored outputs show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.notebooks import NOTEBOOKS, execute
from tests.support.spark import ENVIRONMENT

pytestmark = pytest.mark.slow

# Times, sizes that depend on the release of a writer, and the temporary directory.
_VARIES = re.compile(
    r"[\d.,]+ (?:ms|B|KiB)\b|bloom_bytes_read=\d+|\(the slowest part: [^)]*\)|seconds=[\d.e-]+"
    r"|(?:file:)?/[^\s<]*/(?=visits|guests)"
)


def shown(notebook: Any) -> list[tuple[str, list[dict[str, str]]]]:
    """The source and the outputs of each cell, without what differs between two runs."""
    return [
        (
            cell.source,
            [{kind: _VARIES.sub("", text) for kind, text in texts(output).items()} for output in cell.outputs],
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def texts(output: Any) -> dict[str, str]:
    """By kind. The text of Arrow tables is left out: it may change with a release of pyarrow."""
    data = dict(output.data) if "data" in output else {"text": output.text}
    return {kind: text for kind, text in data.items() if kind != "text/plain" or "pyarrow.Table" not in text}


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["engines", "existing_files", "spark", "your_files"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_stores(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", ENVIRONMENT["PYSPARK_SUBMIT_ARGS"])
    assert path.stat().st_size < 100_000
    stored = nbformat.read(path, as_version=4)
    assert shown(execute(path, tmp_path)) == shown(stored), "run: make notebooks"
    pictures = [data["text/html"] for _, outputs in shown(stored) for data in outputs if "text/html" in data]
    assert pictures
    assert all('class="bloomparquet"' in picture for picture in pictures)


def test_only_our_tables_are_shown_as_pictures() -> None:
    (path,) = (path for path in NOTEBOOKS if path.stem == "your_files")
    kinds = {
        source.splitlines()[-1]: list(data) for source, outputs in shown(nbformat.read(path, 4)) for data in outputs
    }
    assert kinds["bp.inspect(FILES)"] == ["text/html"]
    assert kinds["bp.read_table(FILES, WHERE)"] == []
