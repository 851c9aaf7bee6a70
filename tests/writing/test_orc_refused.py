"""`advise`, `add`, `shrink` and `write_table` refuse ORC files, and say how to write ORC files with filters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

import bloomparquet as bp
from tests.support.commands import Run


def test_orc_files_are_refused_and_unchanged(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "0.orc"
    orc.write_table(pa.table({"id": [1, 2]}), path)
    before = path.read_bytes()
    for call in (bp.advise, bp.add_filters, bp.shrink_filters):
        with pytest.raises(bp.UnsupportedError, match=r"0\.orc is an ORC file.*bloomColumns.*bloom_filter_columns"):
            call(tmp_path)
    for command in (("advise",), ("add", "--yes"), ("shrink",)):
        result = run(*command, tmp_path)
        assert (result.code, "bloomColumns" in result.err) == (1, True)
    assert path.read_bytes() == before


def test_other_files_and_new_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "x.orc").write_bytes(b"neither of them" * 10)
    with pytest.raises(bp.FormatError, match="not a Parquet file"):
        bp.add_filters(tmp_path / "x.orc")
    with pytest.raises(bp.UnsupportedError, match=r"new\.orc: only Parquet files"):
        bp.write_table(pa.table({"x": [1]}), tmp_path / "new.orc")
