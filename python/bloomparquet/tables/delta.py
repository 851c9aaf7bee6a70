"""Delta Lake tables: the live files, columns and deleted rows of one version, as ``deltalake`` reads them from the log.

The statistics in the log are not used: they may be missing, cut off or wrong, and the files have better ones.

Source: Delta Lake's PROTOCOL.md ("Column Mapping", "Deletion Vectors", "Primitive Types").
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import (
    FormatError,
    OptionError,
    PlanError,
    UnsupportedError,
    first_line,
    join_names,
    located,
    quoted,
)
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, PathLike
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.table_columns import TableColumns, TableField
from bloomparquet.storage.files import Storage
from bloomparquet.storage.open import open_storage
from bloomparquet.tables.live_files import list_live_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

_READER_FEATURES = {
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck",
    # A column of such a type is refused; deltalake announces the feature for tables without one.
    "variantType", "variantType-preview", "variantShredding-preview",
}  # fmt: skip
_NEWEST_READER = 3
_PRIMITIVES = {
    "string": pa.string(), "long": pa.int64(), "integer": pa.int32(), "short": pa.int16(), "byte": pa.int8(),
    "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MODE = "delta.columnMapping.mode"
_ID, _PHYSICAL_NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one file: their positions as little-endian int64."""

    positions: bytes

    def read(self, storage: Storage) -> NDArray[np.int64]:
        return np.frombuffer(self.positions, np.dtype("<i8"))


def open_delta(
    table: PathLike | DeltaTable,
    version: int | None,
    storage_options: dict[str, str] | None,
    filesystem: Any,
    keys: Keys | None,
) -> Dataset:
    """The live files of a Delta Lake table; see :meth:`bloomparquet.Dataset.from_delta`."""
    opened = open_log(table, version, storage_options)
    location = opened.table_uri.rstrip("/") + "/"
    _require_features(opened, location)
    columns = _columns(opened, location)
    storage, root = _open_uri(location, filesystem)
    with _deltalake_reads(location, "the live files"):
        actions = pa.table(opened.get_add_actions(flatten=True))
    paths = [_locate(path, storage, root, filesystem) for path in actions.column("path").to_pylist()]
    if len(set(paths)) < len(paths):
        raise FormatError(f"{location}: the log names a file twice in version {opened.version()}")
    partitions = opened.metadata().partition_columns
    return Dataset(
        storage,
        list_live_files(storage, paths, actions.column("size_bytes").to_pylist(), location),
        tuple(partitions),
        _partition_values(actions, partitions, columns),
        tuple(columns.schema.field(name).type for name in partitions),
        FileFormat.PARQUET,
        keys,
        columns,
        _deletes(opened, location, paths, storage, root, filesystem),
        root,
    )


def open_log(table: PathLike | DeltaTable, version: int | None, storage_options: dict[str, str] | None) -> DeltaTable:
    """The table at `version`; None stands for its newest version. Raises FileNotFoundError if there is no table."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise UnsupportedError("Delta Lake tables need the package deltalake: pip install 'deltalake>=1.6'") from error
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
        raise OptionError(f"version is {quoted(version)}; expected the number of a version, 0 or more")
    if not isinstance(table, str | os.PathLike | DeltaTable):
        raise OptionError(
            f"table is {quoted(table)}; expected the directory or URL of a table, or an open deltalake.DeltaTable"
        )
    if isinstance(table, DeltaTable):
        if version is None or version == table.version():
            return table
        location, options = table.table_uri, storage_options or table._storage_options
    else:
        location, options = os.fspath(table), storage_options
    try:
        return DeltaTable(location, version=version, storage_options=options)
    except (TableNotFoundError, DeltaError) as error:
        if version is not None:
            newest = open_log(location, None, options).version()
            raise _no_version(location, version, newest, error) from error
        if isinstance(error, TableNotFoundError) or os.path.isfile(location):
            raise _no_table(location, error) from error
        raise UnsupportedError(f"{location}: deltalake cannot open this table: {error}") from error


def _no_version(location: str, version: int, newest: int, error: Exception) -> PlanError:
    if version > newest:
        return PlanError(
            f"{location}: this table has no version {version}; its newest one is {newest}. Give version={newest} or "
            "less, or leave out the version"
        )
    return PlanError(
        f"{location}: version {version} of this table cannot be read, perhaps because its log was cleaned up; the "
        f"newest one is {newest}, and DeltaTable.history() lists others. deltalake says: {error}"
    )


def _no_table(location: str, error: Exception) -> FileNotFoundError:
    return FileNotFoundError(
        f"{location}: there is no Delta Lake table here; expected the directory of a table, which holds _delta_log. "
        f"Plain Parquet files are read by bloomparquet.read_table. deltalake says: {first_line(error)}"
    )


@contextmanager
def _deltalake_reads(location: str, what: str) -> Iterator[None]:
    """Turn the errors of deltalake in the block into FormatErrors."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except DeltaError as error:
        raise FormatError(
            f"{location}: deltalake cannot read {what} of this version, so it is unknown which rows are live: {error}. "
            "Restore what is missing, or read another version"
        ) from error


def _require_features(table: DeltaTable, location: str) -> None:
    protocol = table.protocol()
    unknown = {*(protocol.reader_features or ())} - _READER_FEATURES
    if protocol.min_reader_version > _NEWEST_READER:
        unknown.add(f"reader version {protocol.min_reader_version}")
    if unknown:
        raise UnsupportedError(
            f"{location}: this Delta Lake table needs {join_names(sorted(unknown))} of its readers, which is not "
            f"supported here; supported are {join_names(sorted(_READER_FEATURES))}. Read the table with Spark or "
            "deltalake, or drop the feature from the table"
        )


def _columns(table: DeltaTable, location: str) -> TableColumns:
    protocol = table.protocol()
    maps_columns = protocol.min_reader_version == 2 or "columnMapping" in (protocol.reader_features or ())
    mode = (table.metadata().configuration or {}).get(_MODE, "none") if maps_columns else "none"
    if mode not in ("none", "name", "id"):
        raise UnsupportedError(f"{location}: {_MODE} is {mode!r}; supported are none, name and id")
    with located(location):
        return table_columns(json.loads(table.schema().to_json())["fields"], mode)


def table_columns(fields: Sequence[Mapping[str, Any]], mode: str) -> TableColumns:
    """The columns of a table, `fields` in the JSON of the log. `mode`: ``delta.columnMapping.mode``.

    Raises FormatError for fields without the metadata of their mapping, and UnsupportedError for types.
    """
    try:
        pairs = [_field(field, mode) for field in fields]
    except KeyError as error:
        raise FormatError(f"the schema in the log lacks {error}, which column mapping needs") from error
    return TableColumns(pa.schema([field for field, _ in pairs]), tuple(own for _, own in pairs), mode == "id")


def _field(field: Mapping[str, Any], mode: str) -> tuple[pa.Field, TableField]:
    name, metadata = field["name"], field.get("metadata", {})
    kind, children = _type(field["type"], mode, name)
    if mode == "name":
        own = TableField(name, (metadata[_PHYSICAL_NAME],), None, children)
    elif mode == "id":
        own = TableField(name, (), int(metadata[_ID]), children)
    else:
        own = TableField(name, children=children)
    return pa.field(name, kind), own


def _type(kind: Any, mode: str, column: str) -> tuple[pa.DataType, tuple[TableField, ...]]:
    """The Arrow type of `kind`, which is the type of `column` or lies inside it, and the fields inside it."""
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2])), ()
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind], ()
    elif kind["type"] == "struct":
        fields = [_field(field, mode) for field in kind["fields"]]
        return pa.struct([field for field, _ in fields]), tuple(own for _, own in fields)
    elif kind["type"] == "array":
        element, children = _type(kind["elementType"], mode, column)
        return pa.list_(pa.field("element", element)), (TableField("element", children=children),)
    elif kind["type"] == "map":
        key, key_children = _type(kind["keyType"], mode, column)
        item, item_children = _type(kind["valueType"], mode, column)
        parts = TableField("key", children=key_children), TableField("value", children=item_children)
        return pa.map_(key, item), parts
    named = kind if isinstance(kind, str) else kind["type"]
    raise UnsupportedError(f"column {column} has the type {named}, which is not supported here")


def _locate(path: str, storage: Storage, root: str, filesystem: Any) -> str:
    """The path on `storage` of the file that the log names `path`: a URL-encoded path relative to the table, or an
    absolute URI."""
    if not _SCHEME.match(path):
        decoded = unquote(path)
        return decoded if decoded.startswith("/") else root + decoded
    other, inner = _open_uri(path, filesystem)
    if other.key != storage.key:
        raise UnsupportedError(
            f"{path}: this file of the table lies on another storage than its log ({root}), as in a shallow clone; "
            "expected one storage. Copy the files into the table (deep clone)"
        )
    return inner


def _open_uri(uri: str, filesystem: Any) -> tuple[Storage, str]:
    """The storage of a URL-encoded URI, and the decoded path on it."""
    local = re.sub("^file:(//[^/]*)?", "", uri)
    if local != uri:
        return open_storage(unquote(local), filesystem)
    # pyarrow decodes URIs; file systems take paths.
    return open_storage(uri if filesystem is None else unquote(uri), filesystem)


def _partition_values(actions: pa.Table, names: Sequence[str], columns: TableColumns) -> tuple[tuple[Any, ...], ...]:
    """The values of the partition columns `names` of each file. The log stores NULL as missing or empty text."""
    if not names:
        return ((),) * len(actions)
    values = []
    for name in names:
        (field,) = (field for field in columns.fields if field.name == name)
        stored = [f"partition.{each}" for each in (name, *field.names) if f"partition.{each}" in actions.column_names]
        if not stored:
            raise FormatError(f"the log has no values of the partition column {name}")
        kind = columns.schema.field(name).type
        try:
            values.append(actions.column(stored[0]).cast(kind).to_pylist())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise PlanError(f"partition column {name}: the log's values are no {kind}: {error}") from error
    return tuple(zip(*values, strict=True))


def _deletes(
    table: DeltaTable, location: str, paths: Sequence[str], storage: Storage, root: str, filesystem: Any
) -> tuple[DeletionVector | None, ...]:
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return ()
    by_path: dict[str, DeletionVector] = {}
    with _deltalake_reads(location, "the deletion vectors"):
        vectors = pa.table(table.deletion_vectors())
    for batch in vectors.to_batches():
        for uri, kept in zip(batch.column("filepath").to_pylist(), batch.column("selection_vector"), strict=True):
            mask = kept.values.to_numpy(zero_copy_only=False)
            positions = np.flatnonzero(~mask).astype("<i8")
            by_path[_locate(uri.removeprefix(location), storage, root, filesystem)] = DeletionVector(
                positions.tobytes()
            )
    if not by_path.keys() <= set(paths):
        unknown = min(by_path.keys() - set(paths))
        raise FormatError(f"{unknown}: the log has a deletion vector of this file, which is not live")
    return tuple(by_path.get(path) for path in paths) if by_path else ()
