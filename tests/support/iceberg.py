"""Iceberg tables made with pyiceberg, and what pyiceberg cannot write: position deletes, deletion vectors, equality
deletes, and version 3 with default values. pyiceberg reads all of them but equality deletes, so it is the oracle.

Source: Iceberg's spec ("Delete Formats", "Deletion Vectors"), Puffin's spec (``deletion-vector-v1``).
"""

from __future__ import annotations

import itertools
import json
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

import bloomparquet as bp
from tests.support.delta_log import bitmap

PATH_ID, POSITION_ID = 2147483546, 2147483545
_numbers = itertools.count()


@contextmanager
def open_catalog(directory: Path) -> Iterator[SqlCatalog]:
    """A catalog in memory, with its tables below `directory`."""
    catalog = InMemoryCatalog("test", warehouse=f"file://{directory}")
    catalog.create_namespace("db")
    try:
        yield catalog
    finally:
        catalog.close()


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def live_files(table: Table) -> list[DataFile]:
    """The data files of the current snapshot."""
    return [task.file for task in table.scan().plan_files()]


def with_ids(schema: Schema) -> pa.Schema:
    """The Arrow schema with which pyarrow writes field ids."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema, metadata={})


def new_path(table: Table, suffix: str = ".parquet", *, outside: bool = False) -> str:
    """`outside`: not in the table's directory, into which bloomparquet does not write."""
    directory = Path(f"{local(table.location())}-files") if outside else local(table.location()) / "data"
    directory.mkdir(parents=True, exist_ok=True)
    return f"file://{directory}/by-hand-{next(_numbers)}{suffix}"


def add_data_file(
    table: Table, rows: pa.Table, partition: Sequence[Any] = (), bloom: Sequence[str] | None = None, **options: Any
) -> str:
    """Append a file with the field ids of `rows`, or without, and with Bloom filters on the columns `bloom`. The
    manifest has no bounds of its columns."""
    path = new_path(table, outside=bloom is not None)
    if bloom is None:
        pq.write_table(rows, local(path), **options)
    else:
        bp.write_table(rows, local(path), bloom=bloom, **options)
    add_entry(table, path, partition, record_count=rows.num_rows, file_size_in_bytes=local(path).stat().st_size)
    return path


def add_entry(table: Table, path: str, partition: Sequence[Any] = (), **more: Any) -> None:
    """Append a data file that is at `path`, or that nothing reads."""
    known = {"file_format": FileFormat.PARQUET, "record_count": 1, "file_size_in_bytes": 1, **more}
    data_file = DataFile.from_args(content=DataFileContent.DATA, file_path=path, partition=Record(*partition), **known)
    data_file.spec_id = table.spec().spec_id
    append_files(table, data_file)


def append_files(table: Table, *files: DataFile) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)


def add_position_deletes(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    like: DataFile,
    *,
    bounds: bool = True,
    adding: Sequence[DataFile] = (),
) -> str:
    """Delete the rows at `positions` of data files, all in the partition of `like`, with one Parquet delete file. The
    same commit adds the files `adding`."""
    pairs = sorted((path, position) for path, all_of_file in positions.items() for position in all_of_file)
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
        ]
    )
    path = new_path(table, "-deletes.parquet")
    columns = [[name for name, _ in pairs], [position for _, position in pairs]]
    pq.write_table(pa.table(columns, schema=schema), local(path))
    names = sorted(positions)
    limits: dict[str, Any] = {}
    if bounds:
        limits = {"lower_bounds": {PATH_ID: names[0].encode()}, "upper_bounds": {PATH_ID: names[-1].encode()}}
    file = _delete_file(path, like, DataFileContent.POSITION_DELETES, FileFormat.PARQUET, len(pairs), **limits)
    _commit_deletes(table, [file], adding=adding)
    return path


def add_equality_deletes(
    table: Table, rows: pa.Table, ids: Sequence[int], like: DataFile, *, adding: Sequence[DataFile] = ()
) -> str:
    """Delete the rows that are equal to one of `rows` in the columns with the field `ids`. The same commit adds the
    files `adding`."""
    path = new_path(table, "-equality-deletes.parquet")
    pq.write_table(rows, local(path))
    file = _delete_file(
        path, like, DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, rows.num_rows, equality_ids=list(ids)
    )
    _commit_deletes(table, [file], adding=adding)
    return path


def add_deletion_vectors(table: Table, positions: Mapping[str, Sequence[int]], like: DataFile) -> str:
    """Delete the rows at `positions` of data files, all in the partition of `like`, with vectors in one Puffin file."""
    path = new_path(table, ".puffin")
    body, blobs = b"PFA1", []
    for name, deleted in positions.items():
        blob = vector(deleted)
        blobs.append(
            {
                "type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1,
                "offset": len(body), "length": len(blob),
                "properties": {"referenced-data-file": name, "cardinality": str(len(set(deleted)))},
            }
        )  # fmt: skip
        body += blob
    payload = json.dumps({"blobs": blobs}).encode()
    local(path).write_bytes(body + b"PFA1" + payload + struct.pack("<i", len(payload)) + bytes(4) + b"PFA1")
    _commit_deletes(
        table,
        [
            _delete_file(
                path, like, DataFileContent.POSITION_DELETES, FileFormat.PUFFIN, len(set(positions[name])), version=3,
                referenced_data_file=name, content_offset=blob["offset"], content_size_in_bytes=blob["length"],
            )
            for name, blob in zip(positions, blobs, strict=True)
        ],
        version=3,
    )  # fmt: skip
    return path


def vector(positions: Sequence[int]) -> bytes:
    """A blob ``deletion-vector-v1``."""
    content = bitmap(positions)
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def _delete_file(
    path: str, like: DataFile, content: DataFileContent, kind: FileFormat, count: int, version: int = 2, **more: Any
) -> DataFile:
    file = DataFile.from_args(
        _table_format_version=cast(Any, version), content=content, file_path=path, file_format=kind,
        partition=like.partition, record_count=count, file_size_in_bytes=local(path).stat().st_size, **more,
    )  # fmt: skip
    file.spec_id = like.spec_id
    return file


class _DeleteManifestWriter(ManifestWriterV2):
    format_version = 2

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def version(self) -> Any:
        return self.format_version

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def new_writer(self) -> Any:
        schema = self._with_partition(self.version)  # as record schema too: pyiceberg takes that of version 2
        return AvroOutputFile[ManifestEntry](
            self._output_file, schema, schema_name="manifest_entry", record_schema=schema, metadata=self._meta
        )


class _AddDeletes(_FastAppendFiles):
    """Appends manifests of delete files, all with one partition spec."""

    def __init__(self, transaction: Transaction, files: Sequence[DataFile], version: int) -> None:
        super().__init__(Operation.OVERWRITE, transaction, transaction._table.io)
        self._files, self._version = files, version

    def _manifests(self) -> list[ManifestFile]:
        writer = _DeleteManifestWriter(
            self.spec(self._files[0].spec_id), self.schema(), self.new_manifest_output(), self._snapshot_id, "null"
        )
        writer.format_version = self._version
        with writer:
            for file in self._files:
                writer.add_entry(
                    ManifestEntry.from_args(
                        _table_format_version=cast(Any, self._version),
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        data_file=file,
                    )
                )
        return [writer.to_manifest_file(), *super()._manifests()]


def _commit_deletes(table: Table, files: Sequence[DataFile], version: int = 2, adding: Sequence[DataFile] = ()) -> None:
    with table.transaction() as transaction:
        producer = _AddDeletes(transaction, files, version)
        for file in adding:
            producer.append_data_file(file)
        producer.commit()


def as_version_3(table: Table, defaults: Mapping[int, Any] | None = None) -> StaticTable:
    """The table as version 3. `defaults`: initial defaults by field id, as Iceberg's JSON writes them."""
    metadata = json.loads(table.metadata.model_dump_json())
    metadata |= {"format-version": 3, "next-row-id": 0}
    for schema in metadata["schemas"]:
        _set_defaults(schema["fields"], defaults or {})
    for snapshot in metadata["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    path = local(table.location()) / "metadata" / f"v3-{next(_numbers)}.metadata.json"
    path.write_text(json.dumps(metadata))
    return StaticTable.from_metadata(f"file://{path}")


def _set_defaults(fields: list[dict[str, Any]], defaults: Mapping[int, Any]) -> None:
    for field in fields:
        if field["id"] in defaults:
            field["initial-default"] = defaults[field["id"]]
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            _set_defaults(field["type"]["fields"], defaults)


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore pyiceberg's warnings about its writes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
