"""Names of files that are not UTF-8, as Linux allows them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bloomparquet as bp
from bloomparquet.cli.main import cli

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
TABLE = pa.table({"x": [1, 2]})


@pytest.fixture(params=["parquet", "orc"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One file with the name ``\\xff`` and its suffix."""
    write = pq.write_table if request.param == "parquet" else orc.write_table
    write(TABLE, tmp_path / f"x.{request.param}")
    os.rename(tmp_path / f"x.{request.param}", os.fsencode(tmp_path) + b"/\xff." + request.param.encode())
    return tmp_path


def test_such_files_are_read(directory: Path) -> None:
    assert bp.read_table(directory, "x = 2").to_pylist() == [{"x": 2}]
    assert bp.scan_batches(directory, "x = 3").read_all().num_rows == 0
    assert CliRunner().invoke(cli, ["read", str(directory), "--where", "x = 2"]).output == "x\n2\n"


def test_tables_show_a_replacement_character(directory: Path) -> None:
    (row,) = bp.plan(directory, "x = 2").to_arrow().to_pylist()
    assert row["path"] == f"{directory}/\ufffd{row['path'][row['path'].rindex('.') :]}"
    if row["path"].endswith("parquet"):
        bp.add_filters(directory, bloom=["x"])
        assert bp.inspect(directory).column("file").to_pylist() == [row["path"]]
        assert bp.plan(directory, "x = 7").skipped.total() == 1


def test_partition_columns_need_another_name(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/p\xff=1"
    os.mkdir(directory)
    pq.write_table(TABLE, tmp_path / "x.parquet")
    os.rename(tmp_path / "x.parquet", directory + b"/x.parquet")
    with pytest.raises(bp.PlanError, match=r"the name 'p\\udcff' of a partition column is not UTF-8; rename"):
        bp.read_table(tmp_path, "x = 2")
