"""Iceberg tables: the live files of a snapshot, their columns, partition values and deleted rows.

Manifests are read through pyiceberg; delete files are matched with data files here. pyiceberg's ``plan_files`` refuses
tables with equality deletes that concern no row any more, and cannot tell apart the vectors of one Puffin file.

Source: Iceberg's spec ("Manifests", "Scan Planning", "Column Projection").
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomparquet.errors import OptionError, PlanError, UnsupportedError, join_names
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.storage.files import Storage, open_storage
from bloomparquet.storage.ranges import in_threads
from bloomparquet.tables.iceberg_deletes import DeletionVector, FileDeletes, PositionDeleteFile
from bloomparquet.tables.iceberg_schema import table_columns, to_arrow
from bloomparquet.tables.live_files import list_live_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_DATA, _POSITION_DELETES, _EQUALITY_DELETES = range(3)  # what a file contains
_ADDED, _DELETED = 1, 2  # status of a manifest's entry
_PATH_ID = 2147483546  # the field id of the data file's path in position delete files
_THREADS = 8  # for manifests
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")

Partition = tuple[int, tuple[Any, ...]]
"""The id of a partition spec, and the values of its fields."""


class Entry(NamedTuple):
    """A live file of a snapshot, as its manifest describes it."""

    sequence_number: int
    content: int
    path: str
    format: str
    partition: Partition
    count: int  # of its rows or deleted rows
    size: int
    path_bounds: tuple[bytes | None, bytes | None]  # of the data files that a position delete file names
    is_encrypted: bool
    equality_ids: tuple[int, ...]
    data_file: str | None  # the only one that a delete file concerns
    extent: tuple[int, int] | None  # offset and length of a deletion vector


def open_iceberg(table: Table | str, snapshot_id: int | None, filesystem: Any, keys: Keys | None) -> Dataset:
    """The live files of an Iceberg table; see :meth:`bloomparquet.Dataset.from_iceberg`."""
    table = _open(table)
    snapshot = _find_snapshot(table, snapshot_id)
    schema = table.schema()
    if snapshot is not None and snapshot_id is not None and snapshot.schema_id is not None:
        schema = table.schemas().get(snapshot.schema_id, schema)
    columns = table_columns(schema, table.name_mapping())
    entries = [] if snapshot is None else _read_entries(table.io, snapshot)
    live = [entry for entry in entries if entry.content == _DATA]
    for entry in entries:
        _require_readable(entry)
    locate = _Locations(table, filesystem)
    rules = _DeleteRules([entry for entry in entries if entry.content != _DATA], table, locate)
    deletes = tuple(map(rules.deletes_of, live))
    names = _identity_columns(table, schema, live)
    storage, root = locate.storage, locate(table.location())
    return Dataset(
        storage,
        list_live_files(storage, [locate(entry.path) for entry in live], [entry.size for entry in live], root),
        names,
        _partition_values(table, schema, names, live),
        tuple(columns.schema.field(name).type for name in names),
        FileFormat.PARQUET,
        keys,
        columns,
        deletes if any(deletes) else (),
        root,
    )


def _open(table: Any) -> Table:
    try:
        from pyiceberg.table import StaticTable, Table
    except ImportError as error:
        raise UnsupportedError(
            "Iceberg tables need the package pyiceberg: pip install 'bloomparquet[iceberg]'"
        ) from error
    if isinstance(table, Table):
        return table
    if isinstance(table, str):
        return StaticTable.from_metadata(table)
    raise OptionError(
        f"table is a {type(table).__name__}; expected a pyiceberg.table.Table, or the path of a metadata file "
        "(….metadata.json)"
    )


def _find_snapshot(table: Table, snapshot_id: int | None) -> Snapshot | None:
    """The snapshot to read; None if the table has none yet."""
    if snapshot_id is None:
        return table.current_snapshot()
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise PlanError(
            f"{table.location()}: this table has no snapshot {snapshot_id}, or it has expired; its snapshots are "
            f"{join_names(str(each.snapshot_id) for each in table.snapshots()) or 'none'}"
        )
    return snapshot


# ---- manifests ----


def _read_entries(io: FileIO, snapshot: Snapshot) -> list[Entry]:
    """The live files of `snapshot`, in the order of its manifests."""
    entries = in_threads(_THREADS, lambda manifest: _read_manifest(io, manifest), list(snapshot.manifests(io)))
    return [entry for of_manifest in entries for entry in of_manifest]


def _read_manifest(io: FileIO, manifest: ManifestFile) -> list[Entry]:
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS

    # ManifestFile.fetch_manifest_entry reads no field of version 3.
    schema = MANIFEST_ENTRY_SCHEMAS[3]
    entry_at = {field.name: i for i, field in enumerate(schema.fields)}
    file_at = {field.name: i for i, field in enumerate(DATA_FILE_TYPE[3].fields)}
    entries = []
    with AvroFile[Any](io.new_input(manifest.manifest_path), schema) as records:
        for record in records:
            status, sequence_number, file = (
                record[entry_at[name]] for name in ("status", "sequence_number", "data_file")
            )
            if status == _DELETED:
                continue
            if sequence_number is None:  # inherited
                sequence_number = manifest.sequence_number
            value = {name: file[i] for name, i in file_at.items()}
            lower, upper = value["lower_bounds"] or {}, value["upper_bounds"] or {}
            is_data = value["content"] == _DATA
            bounds = (None, None) if is_data else (lower.get(_PATH_ID), upper.get(_PATH_ID))
            offset = value["content_offset"]
            entries.append(
                Entry(
                    sequence_number, value["content"], value["file_path"], str(value["file_format"]).upper(),
                    (manifest.partition_spec_id, tuple(map(_comparable, value["partition"]))), value["record_count"],
                    value["file_size_in_bytes"], bounds, value["key_metadata"] is not None,
                    tuple(value["equality_ids"] or ()), value["referenced_data_file"],
                    None if offset is None else (offset, value["content_size_in_bytes"]),
                )
            )  # fmt: skip
    return entries
