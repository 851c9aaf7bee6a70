"""Iceberg tables: deleted rows by Iceberg's specification, and files that cannot be read."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

import bloomparquet as bp
from bloomparquet.tables.iceberg_deletes import parse_vector
from tests.support import iceberg
from tests.support.iceberg_tables import DAYS, IDS, ids_of, make, rows, with_filters


def test_deleted_positions_count_rows_that_are_not_read(table: Table) -> None:
    path = with_filters(table, rows(), "id")
    (file,) = iceberg.live_files(table)
    iceberg.add_position_deletes(table, {path: [0, 14, 15, 29]}, file)
    dataset = bp.Dataset.from_iceberg(table)
    for where, expected in (("id = 15", []), ("id = 16", [16]), ("id IN (13, 14, 15, 16)", [13, 16])):
        assert ids_of(dataset, where) == expected
        assert dataset.plan(where).skipped == {"bloom": 2}
    assert ids_of(dataset) == [i for i in range(30) if i not in (0, 14, 15, 29)]


@pytest.mark.parametrize("bounds", [False, True], ids=["of a partition", "of a file"])
def test_position_deletes_concern_files_that_are_not_newer(bounds: bool, table: Table) -> None:
    path = iceberg.add_data_file(table, rows(0, 5).cast(iceberg.with_ids(IDS)))
    (file,) = iceberg.live_files(table)
    table.delete("id >= 0")
    iceberg.add_position_deletes(table, {path: [1]}, file, bounds=bounds, adding=[file])
    assert ids_of(bp.Dataset.from_iceberg(table)) == [0, 2, 3, 4] == table.scan().to_arrow()["id"].to_pylist()
    table.delete("id >= 0")
    iceberg.append_files(table, file)
    assert ids_of(bp.Dataset.from_iceberg(table)) == [*range(5)] == table.scan().to_arrow()["id"].to_pylist()


def test_a_puffin_file_holds_vectors_of_several_files(table: Table) -> None:
    paths = [iceberg.add_data_file(table, rows(i, 4).cast(iceberg.with_ids(IDS))) for i in (0, 100)]
    like = iceberg.live_files(table)[0]
    iceberg.add_position_deletes(table, {paths[0]: [1]}, like)
    vectors = iceberg.add_deletion_vectors(table, {paths[0]: [0, 1], paths[1]: [3]}, like)
    newer = iceberg.as_version_3(table)
    dataset = bp.Dataset.from_iceberg(newer)
    assert ids_of(dataset) == sorted(newer.scan().to_arrow()["id"].to_pylist()) == [2, 3, 100, 101, 102]
    puffin = iceberg.local(vectors)
    puffin.write_bytes(puffin.read_bytes()[:20] + b"\x55" + puffin.read_bytes()[21:])
    with pytest.raises(bp.FormatError, match=rf"{puffin.name}: the deletion vector of .* checksum"):
        dataset.read_table()


@pytest.mark.parametrize(
    "positions",
    [[], [0], [7, 3, 3], [*range(70_000)], [*range(0, 140_000, 3)], [5, 2**32, 2**32 + 70_000, 2**34 + 1]],
    ids=["none", "one", "unsorted", "a run", "a bitset", "beyond 32 bits"],
)
def test_vectors_of_all_shapes_are_parsed(positions: list[int]) -> None:
    blob = iceberg.vector(positions)
    assert parse_vector(blob).tolist() == sorted(set(positions))
    for end in range(len(blob) % 1000):
        with pytest.raises((bp.FormatError, ValueError, struct.error)):
            parse_vector(blob[:end])


def test_equality_deletes_are_refused_while_they_matter(catalog: SqlCatalog) -> None:
    table = make(catalog, IDS, PartitionField(3, 1000, IdentityTransform(), "d"))
    table.append(rows(0, 2))
    like = next(file for file in iceberg.live_files(table) if file.partition[0] == (DAYS[1] - dt.date(1970, 1, 1)).days)
    path = iceberg.add_equality_deletes(table, pa.table({"id": [1]}), [1], like)
    with pytest.raises(bp.UnsupportedError, match=rf"{Path(path).name}: .* by equality \(field ids 1\).*compact"):
        bp.Dataset.from_iceberg(table)
    snapshot = table.snapshots()[0]
    assert ids_of(bp.Dataset.from_iceberg(table, snapshot_id=snapshot.snapshot_id)) == [0, 1]
    table.append(rows(10, 2))  # newer than the deletes
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(like)  # as a compaction does
    assert ids_of(bp.Dataset.from_iceberg(table)) == [0, 10, 11]
    iceberg.add_equality_deletes(table, pa.table({"id": [1]}), [1], like, adding=[like])  # as Flink replaces a row
    table.delete("id >= 10")  # other files of the partition
    assert ids_of(bp.Dataset.from_iceberg(table)) == [0, 1]


def test_equality_deletes_of_an_emptied_spec_are_global(catalog: SqlCatalog) -> None:
    """A table of version 1 keeps a removed partition field as ``void``."""
    table = make(catalog, IDS, PartitionField(3, 1000, IdentityTransform(), "d"), version=1)
    table.append(rows(0, 2))
    with table.update_spec() as update:
        update.remove_field("d")
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows(2, 1))
    like = next(file for file in iceberg.live_files(table) if file.spec_id == table.spec().spec_id)
    iceberg.add_equality_deletes(table, pa.table({"id": [1]}), [1], like)
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(like)  # so that only files of the older partitions are left
    with pytest.raises(bp.UnsupportedError, match=r"by equality \(field ids 1\)"):
        bp.Dataset.from_iceberg(table)


def test_files_that_cannot_be_read_are_named(table: Table) -> None:
    path = iceberg.add_data_file(table, rows(0, 5).cast(iceberg.with_ids(IDS)))
    (file,) = iceberg.live_files(table)
    deletes = iceberg.local(iceberg.add_position_deletes(table, {path: [1]}, file))
    pq.write_table(pa.table({"file_path": [path], "position": [1]}), deletes)
    with pytest.raises(bp.FormatError, match=rf"{deletes.name}: .*columns file_path and pos"):
        bp.Dataset.from_iceberg(table).read_table()
    iceberg.append_files(table, file)
    with pytest.raises(bp.FormatError, match=rf"{Path(path).name}: the snapshot has this file twice"):
        bp.Dataset.from_iceberg(table)
    iceberg.local(path).unlink()
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    with pytest.raises(FileNotFoundError, match=Path(path).name):
        bp.Dataset.from_iceberg(table)


@pytest.mark.parametrize(
    ("path", "entry", "message"),
    [
        ("{}/data/a.avro", {"file_format": "AVRO"}, "a.avro: this data file is an AVRO file; expected Parquet"),
        ("{}/data/b.parquet", {"key_metadata": b"k"}, "b.parquet: this file is encrypted with a key of the Iceberg"),
        ("memory://c/c.parquet", {}, "c.parquet: this file of the table lies on another storage"),
        ("{}/data/d.parquet", {}, "d.parquet: this file is gone"),
    ],
)
def test_entries_that_cannot_be_read_are_refused(path: str, entry: dict[str, Any], message: str, table: Table) -> None:
    iceberg.add_entry(table, path.format(table.location()), **entry)
    with pytest.raises((bp.UnsupportedError, FileNotFoundError), match=message):
        bp.Dataset.from_iceberg(table)


def test_a_pyarrow_data_set_has_only_rows_that_it_can_describe(table: Table) -> None:
    table.append(rows())
    with table.update_schema() as update:
        update.add_column("n", LongType())
    dataset = bp.Dataset.from_iceberg(table)
    kept = dataset.to_dataset("id = 15")
    assert kept.to_table().num_rows == 10
    assert kept.to_table(filter=pa.compute.field("id") == 15).to_pylist() == dataset.read_table("id = 15").to_pylist()
    defaults = {table.schema().find_field("n").field_id: 3}
    with pytest.raises(bp.UnsupportedError, match="lacks columns that have a value"):
        bp.Dataset.from_iceberg(iceberg.as_version_3(table, defaults)).to_dataset()
    with table.update_schema() as update:
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    with pytest.raises(bp.UnsupportedError, match="under other names"):
        bp.Dataset.from_iceberg(table).to_dataset("id = 15")
    assert bp.Dataset.from_iceberg(table).to_dataset("id = 150").to_table().num_rows == 0
    (file,) = iceberg.live_files(table)
    iceberg.add_position_deletes(table, {file.file_path: [1]}, file)
    with table.update_schema() as update:
        update.delete_column("name")
        update.rename_column("label", "name")
    with pytest.raises(bp.UnsupportedError, match="some rows of this file are deleted"):
        bp.Dataset.from_iceberg(table).to_dataset("id = 15")
