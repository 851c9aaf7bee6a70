"""`advise`, `add` and `shrink` refuse ORC files, and say how to write ORC files with filters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from tests.support.commands import Run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two ORC files."""
    root = tmp_path / "orc"
    root.mkdir()
    for i in range(2):
        orc.write_table(pa.table({"id": [1, 2, i]}), root / f"{i}.orc")
    return root


def test_advise_refuses_orc_and_says_how_to_write_filters(run: Run, files: Path) -> None:
    with pytest.raises(bp.UnsupportedError, match=r"0\.orc is an ORC file.*as a file is written") as raised:
        bp.advise(files)
    assert "bloomColumns" in str(raised.value)
    assert "bloom_filter_columns" in str(raised.value)
    result = run("advise", files)
    assert (result.code, result.out) == (1, "")
    assert "bloomColumns" in result.err


def test_filters_cannot_be_added_to_files_that_exist(run: Run, files: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in files.iterdir()}
    for call in (bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.UnsupportedError, match=r"0\.orc is an ORC file.*bloomColumns"):
            call(files)
    for command in (("add", "--yes"), ("shrink",)):
        result = run(*command, files)
        assert result.code == 1
        assert "bloomColumns" in result.err
    (outcome,) = bp.add_filters(files / "0.orc", bloom="id", on_error="report")
    assert outcome.error is not None
    assert "bloomColumns" in outcome.error
    assert before == {path: path.read_bytes() for path in files.iterdir()}
    (tmp_path / "x.orc").write_bytes(b"neither of them" * 10)
    with pytest.raises(bp.FormatError, match="not a Parquet file"):
        bp.add_filters(tmp_path / "x.orc")


def test_write_table_refuses_a_path_of_orc(tmp_path: Path) -> None:
    with pytest.raises(bp.UnsupportedError, match=r"new\.orc: only Parquet files"):
        bp.write_table(pa.table({"x": [1]}), tmp_path / "new.orc")
    assert not list(tmp_path.iterdir())
