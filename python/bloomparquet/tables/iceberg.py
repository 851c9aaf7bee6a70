"""Iceberg tables: the live files of a snapshot, their columns, partition values and deleted rows.

Manifests are read through pyiceberg; delete files are matched with data files here. pyiceberg's ``plan_files`` refuses
tables with equality deletes that concern no row any more, and cannot tell apart the vectors of one Puffin file.

Source: Iceberg's spec ("Manifests", "Scan Planning", "Column Projection").
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bloomparquet.errors import FormatError, OptionError, PlanError, UnsupportedError, join_names, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, PathLike
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.storage.files import Storage
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.threads import in_threads
from bloomparquet.tables.iceberg_deletes import DeletionVector, FileDeletes, PositionDeleteFile
from bloomparquet.tables.iceberg_schema import arrow_schema, table_columns, to_values
from bloomparquet.tables.live_files import list_live_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_DATA, _POSITION_DELETES, _EQUALITY_DELETES = range(3)  # what a file contains
_ADDED, _DELETED = 1, 2  # status of a manifest's entry
_PATH_ID = 2147483546  # the field id of the data file's path in position delete files
_THREADS = 8  # for manifests
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")
_PATHS_WITHOUT_AUTHORITY = ("file", "hdfs", "viewfs")

Partition = tuple[int, tuple[Any, ...]]
"""The id of a partition spec, and the values of its fields."""


class Entry(NamedTuple):
    """A live file of a snapshot, as its manifest describes it."""

    sequence_number: int
    content: int
    path: str
    format: str
    partition: Partition
    rows: int  # of data, or of deleted rows
    size: int
    path_bounds: tuple[bytes | None, bytes | None]  # of the data files that a position delete file names
    is_encrypted: bool
    equality_ids: tuple[int, ...]
    data_file: str | None  # the only one that a delete file concerns
    extent: tuple[int, int] | None  # offset and length of a deletion vector


def open_iceberg(table: Table | PathLike, snapshot_id: int | None, filesystem: Any, keys: Keys | None) -> Dataset:
    """The live files of an Iceberg table; see :meth:`bloomparquet.Dataset.from_iceberg`."""
    table = open_metadata(table)
    snapshot = _find_snapshot(table, snapshot_id)
    schema = table.schema()
    if snapshot is not None and snapshot_id is not None and snapshot.schema_id is not None:
        schema = table.schemas().get(snapshot.schema_id, schema)
    entries = [] if snapshot is None else _read_entries(table.io, snapshot)
    live = [entry for entry in entries if entry.content == _DATA]
    for entry in entries:
        _require_readable(entry)
    paths = Counter(entry.path for entry in live)
    if len(paths) < len(live):
        raise FormatError(
            f"{paths.most_common(1)[0][0]}: the snapshot has this file twice, so that each of its rows would be read "
            "twice; expected one entry per file. Delete the file's rows, and add them again"
        )
    locations = _Locations(table, filesystem)
    rules = _DeleteRules([entry for entry in entries if entry.content != _DATA], table, locations)
    deletes = tuple(map(rules.deletes_of, live))
    fields, mapping = json.loads(schema.model_dump_json())["fields"], table.name_mapping()
    partitions = _partition_columns(table, schema, arrow_schema(fields), live)
    columns = table_columns(
        fields,
        None if mapping is None else json.loads(mapping.model_dump_json()),
        defaults={field.field_id: field.initial_default for field in schema.fields},
        varying=partitions.varying,
    )
    root = locations.path(table.location()).rstrip("/") + "/"
    files = list_live_files(
        locations.storage, [locations.path(entry.path) for entry in live], [entry.size for entry in live], root
    )
    return Dataset(
        locations.storage, files, partitions.names, partitions.values,
        tuple(columns.schema.field(name).type for name in partitions.names), FileFormat.PARQUET, keys, columns,
        deletes if any(deletes) else (), root, partitions.fallbacks,
    )  # fmt: skip


def open_metadata(table: Table | PathLike) -> Table:
    """`table` itself, or the table that a metadata file describes."""
    try:
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.table import StaticTable, Table
    except ImportError as error:
        raise UnsupportedError("Iceberg tables need the package pyiceberg: pip install 'pyiceberg>=0.12'") from error
    if isinstance(table, Table):
        return table
    if isinstance(table, str | os.PathLike):
        expected = (
            "expected the path of a metadata file (….metadata.json), which the table's catalog knows, or a directory "
            "with metadata/version-hint.text"
        )
        try:
            return StaticTable.from_metadata(os.fspath(table))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(f"{table}: there is no Iceberg table here: {error}; {expected}") from error
        except (ValueError, ValidationError) as error:
            reason = " ".join(str(error).splitlines()[1:2]).strip() or str(error)
            raise FormatError(f"{table}: this is no metadata of an Iceberg table: {reason}; {expected}") from error
    raise OptionError(
        f"table is a {type(table).__name__}; expected a pyiceberg.table.Table, or the path of a metadata file "
        "(….metadata.json)"
    )


def _find_snapshot(table: Table, snapshot_id: int | None) -> Snapshot | None:
    """The snapshot to read; None if the table has none yet."""
    if snapshot_id is None:
        return table.current_snapshot()
    if not isinstance(snapshot_id, int) or isinstance(snapshot_id, bool):
        raise OptionError(f"snapshot_id is {quoted(snapshot_id)}; expected the number of a snapshot")
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise PlanError(
            f"{table.location()}: this table has no snapshot {snapshot_id}, or it has expired; its snapshots are "
            f"{join_names(str(each.snapshot_id) for each in table.snapshots()) or 'none'}"
        )
    return snapshot


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
                    (manifest.partition_spec_id, _partition_values(value["partition"])), value["record_count"],
                    value["file_size_in_bytes"], bounds, value["key_metadata"] is not None,
                    tuple(value["equality_ids"] or ()), value["referenced_data_file"],
                    None if offset is None else (offset, value["content_size_in_bytes"]),
                )
            )  # fmt: skip
    return entries


def _partition_values(partition: Any) -> tuple[Any, ...]:
    """The values of a partition. NaN is one object, so that it is equal to itself in tuples."""
    return tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in partition)


def _require_readable(entry: Entry) -> None:
    if entry.is_encrypted:
        raise UnsupportedError(
            f"{entry.path}: this file is encrypted with a key of the Iceberg table, which is not supported; read the "
            "table with Spark"
        )
    if entry.content == _DATA and entry.format != "PARQUET":
        raise UnsupportedError(
            f"{entry.path}: this data file is an {entry.format} file; expected Parquet. Rewrite the table's files as "
            "Parquet (write.format.default), or read it with Spark"
        )


class _Locations:
    """Translates the locations in a table's metadata to paths on its storage. All files must be on one storage."""

    def __init__(self, table: Table, filesystem: Any) -> None:
        self._io, self._filesystem = table.io, filesystem
        self._storages: dict[tuple[str, str], Storage] = {}
        self.storage, self._root = self._open(table.location()), table.location()

    def path(self, location: str) -> str:
        """The path on the storage of the file at `location`, in which characters are not URL encoded."""
        storage = self._open(location)
        if storage.key != self.storage.key:
            raise UnsupportedError(
                f"{location}: this file of the table lies on another storage than the table ({self._root}); expected "
                "one storage. Give filesystem= for both, or copy the file into the table"
            )
        match = _SCHEME.match(location)
        if match is None:
            return location.removeprefix("file:")
        return location[match.end() if match[1] in _PATHS_WITHOUT_AUTHORITY else match.start(2) :]

    def _open(self, location: str) -> Storage:
        match = _SCHEME.match(location)
        key = ("file", "") if match is None else (match[1].lower(), match[2])
        if key not in self._storages:
            self._storages[key] = open_storage(location, self._filesystem or self._filesystem_of(*key))[0]
        return self._storages[key]

    def _filesystem_of(self, scheme: str, authority: str) -> Any:
        """The file system with which pyiceberg opens such files, with the credentials of the table's catalog."""
        if scheme == "file":
            return None
        with suppress(ValueError):  # a scheme that pyiceberg does not know
            if hasattr(self._io, "fs_by_scheme"):  # PyArrowFileIO
                return self._io.fs_by_scheme(scheme, authority)
            if hasattr(self._io, "get_fs"):  # FsspecFileIO
                return self._io.get_fs(scheme, authority)
        return None


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    """Whether `spec` has no fields, as Iceberg's own library decides it: a partition field that was removed from a
    table of version 1 stays as ``void``."""
    from pyiceberg.transforms import VoidTransform

    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


class _DeleteRules:
    """The rules by which delete files concern data files (spec, "Scan Planning")."""

    def __init__(self, deletes: Sequence[Entry], table: Table, locations: _Locations) -> None:
        self._vectors: dict[str, list[Entry]] = defaultdict(list)
        self._by_path: dict[str, list[Entry]] = defaultdict(list)
        self._by_partition: dict[Partition, list[Entry]] = defaultdict(list)
        self._equality: dict[Partition | None, list[Entry]] = defaultdict(list)  # None: all partitions
        self._files: dict[str, PositionDeleteFile] = {}
        self._locations = locations
        everywhere = {spec_id for spec_id, spec in table.specs().items() if _is_unpartitioned(spec)}
        for entry in deletes:
            lower, upper = entry.path_bounds
            if entry.content == _EQUALITY_DELETES:
                self._equality[None if entry.partition[0] in everywhere else entry.partition].append(entry)
            elif entry.format == "PUFFIN":
                self._vectors[_require_vector(entry)].append(entry)
            elif entry.data_file is not None:
                self._by_path[entry.data_file].append(entry)
            elif lower is not None and lower == upper:
                self._by_path[lower.decode()].append(entry)
            else:
                self._by_partition[entry.partition].append(entry)

    def deletes_of(self, data: Entry) -> FileDeletes | None:
        """The deleted rows of a data file; None if it has none.

        Raises UnsupportedError if equality deletes concern the file.
        """
        for entry in (*self._equality.get(None, ()), *self._equality.get(data.partition, ())):
            if entry.sequence_number > data.sequence_number:
                raise UnsupportedError(
                    f"{entry.path}: this file deletes rows of {data.path} by equality (field ids "
                    f"{', '.join(map(str, entry.equality_ids))}), which is not supported; compact the table (in Spark: "
                    "CALL system.rewrite_data_files with the option 'delete-file-threshold' = '1'), or read it with "
                    "Spark"
                )
        # A vector has the deletes of all earlier position delete files too.
        vectors = [entry for entry in self._vectors.get(data.path, ()) if _concerns(entry, data)]
        files = [] if vectors else [*self._by_path.get(data.path, ()), *self._by_partition.get(data.partition, ())]
        sources: list[PositionDeleteFile | DeletionVector] = [self._vector(entry) for entry in vectors]
        sources += (self._file(entry) for entry in files if _concerns(entry, data))
        return FileDeletes(data.path, tuple(sources)) if sources else None

    def _vector(self, entry: Entry) -> DeletionVector:
        assert entry.extent is not None
        return DeletionVector(self._locations.path(entry.path), *entry.extent, entry.rows)

    def _file(self, entry: Entry) -> PositionDeleteFile:
        if entry.format != "PARQUET":
            raise UnsupportedError(
                f"{entry.path}: this file of deleted rows is an {entry.format} file; expected Parquet. Compact the "
                "table, or read it with Spark"
            )
        if entry.path not in self._files:
            self._files[entry.path] = PositionDeleteFile(self._locations.path(entry.path))
        return self._files[entry.path]


def _require_vector(entry: Entry) -> str:
    """The data file of a deletion vector."""
    if entry.data_file is None or entry.extent is None:
        raise FormatError(
            f"{entry.path}: the manifest's entry of a deletion vector lacks its data file or its offset; expected "
            "referenced_data_file, content_offset and content_size_in_bytes"
        )
    return entry.data_file


def _concerns(entry: Entry, data: Entry) -> bool:
    """Whether position deletes that name the path or the partition of a data file concern it."""
    lower, upper = entry.path_bounds
    path = data.path.encode()
    is_within = (lower is None or lower <= path) and (upper is None or path <= upper)
    return entry.sequence_number >= data.sequence_number and is_within


class _PartitionColumns(NamedTuple):
    """The columns whose values are known from the partitions of live files. A file need not store such a column.

    `names`: the columns that have one value in each file; ``values[i]``: their values in file i. `varying`: the columns
    whose value is known for some files, or for files that do not store them; ``fallbacks[i]``: the names and the values
    of those that have one value in file i, none if `varying` is empty.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    varying: tuple[str, ...]
    fallbacks: tuple[tuple[tuple[str, Any], ...], ...]


def _partition_columns(table: Table, schema: Schema, types: pa.Schema, live: Sequence[Entry]) -> _PartitionColumns:
    from pyiceberg.transforms import IdentityTransform

    names = {field.field_id: field.name for field in schema.fields}
    # The position of a column's value in the partitions of each spec. Other transforms lose the value.
    positions = {
        spec_id: {
            names[part.source_id]: i
            for i, part in enumerate(table.specs()[spec_id].fields)
            if isinstance(part.transform, IdentityTransform) and part.source_id in names
        }
        for spec_id in {entry.partition[0] for entry in live}
    }
    values: dict[str, list[Any]] = {}
    varying = []
    for field in schema.fields:
        name, kind = field.name, types.field(field.name).type
        if any(name in known for known in positions.values()):
            at = [positions[entry.partition[0]].get(name) for entry in live]
            stored = [None if i is None else entry.partition[1][i] for i, entry in zip(at, live, strict=True)]
            values[name] = to_values(stored, name, kind)
            is_in_all = all(name in known for known in positions.values())
            # The value of a partition by a float may be 0.0 for rows with -0.0. And a file that lacks the column has
            # the default in a partition of NULL, as in pyiceberg.
            is_replaced = field.initial_default is not None and None in values[name]
            if not is_in_all or pa.types.is_floating(kind) or is_replaced:
                varying.append(name)

    def rows(columns: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
        return tuple(zip(*(values[name] for name in columns), strict=True)) if columns else ((),) * len(live)

    certain = tuple(name for name in values if name not in varying)
    fallbacks = tuple(
        tuple((name, value) for name, value in zip(varying, row, strict=True) if value is not None)
        for row in rows(varying)
    )
    return _PartitionColumns(certain, rows(certain), tuple(varying), fallbacks if varying else ())
