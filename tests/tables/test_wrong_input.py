"""Tables that are not there, and versions and snapshots that they do not have: named errors that say what to do."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import Table

import bloomparquet as bp
from tests.support import files


def delta(root: Path) -> Path:
    """A table of versions 0 to 3, whose log before version 2 was cleaned up."""
    for version in range(4):
        write_deltalake(root, pa.table({"id": [version]}), mode="append")
        if version == 2:
            DeltaTable(root).create_checkpoint()
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    return root


def test_a_version_that_a_delta_table_lacks_is_an_error(tmp_path: Path) -> None:
    root = delta(tmp_path / "t")
    ids = [sorted(bp.Dataset.from_delta(root, version=v).read_table()["id"].to_pylist()) for v in (2, 3)]
    assert ids == [[0, 1, 2], [0, 1, 2, 3]]
    cases: list[tuple[Any, type[Exception], str]] = [
        (9, bp.PlanError, r"t/?: this table has no version 9; its newest one is 3\. Give version=3 or less"),
        (1, bp.PlanError, r"version 1 of this table cannot be read.* is 3, and DeltaTable.history\(\) lists"),
        (-1, bp.OptionError, "version is -1; expected the number of a version, 0 or more"),
        ("1", bp.OptionError, "version is '1'; expected the number"),
    ]
    for version, error, message in cases:
        for table in (root, DeltaTable(root)):
            with pytest.raises(error, match=message):
                bp.Dataset.from_delta(table, version=version)


def test_what_is_no_delta_table_is_an_error(tmp_path: Path) -> None:
    path = files.write(tmp_path / "plain" / "x.parquet", {"id": [1]})
    for place in (tmp_path / "plain", path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match=r"no Delta Lake table here; expected the directory.*read_table"):
            bp.Dataset.from_delta(place)
    number: Any = 5
    with pytest.raises(bp.OptionError, match="table is 5; expected the directory or URL of a table"):
        bp.Dataset.from_delta(number)


def test_what_is_no_iceberg_table_is_an_error(table: Table, tmp_path: Path) -> None:
    path = files.write(tmp_path / "plain" / "x.parquet", {"id": [1]})
    for place in (tmp_path / "plain", path, tmp_path / "nothing.metadata.json", table.location()):
        with pytest.raises(FileNotFoundError, match=r"no Iceberg table here: .*the table's catalog knows"):
            bp.Dataset.from_iceberg(place)
    for name, content in (("1.metadata.json", '{"a": 1}'), ("2.metadata.json", "no JSON")):
        (tmp_path / name).write_text(content)
        with pytest.raises(bp.FormatError, match=f"{name}: this is no metadata of an Iceberg table: .*; expected"):
            bp.Dataset.from_iceberg(tmp_path / name)
    text: Any = "7"
    with pytest.raises(bp.OptionError, match="snapshot_id is '7'; expected the number of a snapshot"):
        bp.Dataset.from_iceberg(table, snapshot_id=text)
    with pytest.raises(bp.PlanError, match="no snapshot 7, or it has expired; its snapshots are none"):
        bp.Dataset.from_iceberg(table, snapshot_id=7)


@pytest.mark.parametrize(
    ("package", "read"), [("deltalake", bp.Dataset.from_delta), ("pyiceberg", bp.Dataset.from_iceberg)]
)
def test_the_remedy_for_a_missing_package_is_its_requirement(
    package: str, read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    required = re.search(rf'^\w+ = \["({package}>=[\d.]+)"\]', project, re.MULTILINE)
    assert required is not None
    with pytest.raises(bp.UnsupportedError, match=f"pip install '{required[1]}'$"):
        read(tmp_path)
