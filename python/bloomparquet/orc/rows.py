"""Reads the rows of stripes with pyarrow's ORC reader, in the types by which planning judges the columns.

The Arrow schema is made from the file's tail, and pyarrow's columns are cast to it. pyarrow decodes a whole stripe at
once and selects columns by name only, and some names are ambiguous to it.

A TIMESTAMP becomes ``timestamp[ns]`` without a zone: the reading of the writer's clock. A TIMESTAMP_INSTANT
becomes ``timestamp[ns, UTC]``, and Spark's TIMESTAMP_NTZ, which is stored as a LONG, ``timestamp[us]``. A CHAR keeps
its padding.

Sources: apache/arrow ``cpp/src/arrow/adapters/orc``; apache/orc ``c++/src/Reader.cc`` (ColumnSelector).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from bloomparquet.errors import FormatError, PlanError, UnsupportedError, first_line
from bloomparquet.orc.encoding import orc_family
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.prefetch import PrefetchedFile
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.query import literals
from bloomparquet.query.literals import NANOSECONDS_PER_SECOND, Family
from bloomparquet.query.values import Value
from bloomparquet.storage.files import ReadCount, Storage

_TIMESTAMPS = {Kind.TIMESTAMP: pa.timestamp("ns"), Kind.TIMESTAMP_INSTANT: pa.timestamp("ns", "UTC")}
_ARROW_TYPES = {
    Kind.BOOLEAN: pa.bool_(), Kind.BYTE: pa.int8(), Kind.SHORT: pa.int16(), Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.STRING: pa.string(),
    Kind.VARCHAR: pa.string(), Kind.CHAR: pa.string(), Kind.BINARY: pa.binary(), Kind.DATE: pa.date32(), **_TIMESTAMPS,
}  # fmt: skip
_MAX_PRECISION = 38
_HIVE_11_DECIMAL = pa.decimal128(38, 6)  # the type that readers give a decimal without a precision
_FIRST_SECOND, _LAST_SECOND = -9_214_560_000, 9_214_646_400  # 1678 and 2262: Arrow's nanoseconds reach no further
_WRAPS_TIMESTAMPS = int(pa.__version__.partition(".")[0]) < 25
"""Whether pyarrow silently returns a wrong timestamp for one that does not fit 64 bits of nanoseconds."""


def arrow_schema(tail: Tail) -> pa.Schema:
    """The columns of a file as :func:`read_stripes` returns them.

    UnsupportedError, which names the file, if its rows are not structs, or for a type that pyarrow does not read.
    """
    root = tail.types[0]
    if root.kind != Kind.STRUCT:
        raise UnsupportedError(
            f"{tail.path}: the rows are of type {root.describe()}; expected a STRUCT, whose fields are the columns"
        )
    types: dict[int, pa.DataType] = {}
    for column in range(len(tail.types) - 1, 0, -1):  # children have greater numbers than their parents
        types[column] = _arrow_type(tail, column, [types[child] for child in tail.types[column].children])
    return pa.schema([(name, types[child]) for name, child in zip(root.names, root.children, strict=True)])


def _arrow_type(tail: Tail, column: int, children: Sequence[pa.DataType]) -> pa.DataType:
    orc_type = tail.types[column]
    kind = orc_type.kind
    if kind == Kind.STRUCT:
        return pa.struct(list(zip(orc_type.names, children, strict=True)))
    if kind == Kind.LIST:
        return pa.list_(children[0])
    if kind == Kind.MAP:
        return pa.map_(*children)
    if kind == Kind.UNION:
        return pa.sparse_union([pa.field(f"_union_{i}", child) for i, child in enumerate(children)])
    if kind == Kind.DECIMAL:
        if not orc_type.precision:
            return _HIVE_11_DECIMAL
        if orc_type.precision <= _MAX_PRECISION:
            return pa.decimal128(orc_type.precision, orc_type.scale or 0)
    if kind == Kind.LONG and orc_family(orc_type) == "timestamp_ntz":
        return pa.timestamp("us")
    if kind not in _ARROW_TYPES:
        raise UnsupportedError(
            f"{tail.path}: column {column} is of type {orc_type.describe()}, which pyarrow does not read; "
            "read the file with Spark"
        )
    return _ARROW_TYPES[Kind(kind)]


def coerce_all(
    values: Sequence[Value], family: Family, *, timezone: str = "UTC", column: str = "", kind: str = ""
) -> list[Any]:
    """Coerce literals as :func:`bloomparquet.query.literals.coerce_all` does, with one difference: for a column without
    a zone, a timestamp with an offset becomes the reading of the clock of `timezone` at that instant."""
    if family != "timestamp_ntz":
        return literals.coerce_all(values, family, timezone=timezone, column=column, kind=kind)
    return [_coerce_to_wall_clock(value, timezone, column, kind) for value in values]


def _coerce_to_wall_clock(value: Value, timezone: str, column: str, kind: str) -> int | None:
    try:
        return literals.coerce(value, "timestamp_ntz", column=column, kind=kind)  # type: ignore[no-any-return]
    except PlanError:  # the value has an offset, or is not a timestamp
        instant: int = literals.coerce(value, "timestamp", timezone=timezone, column=column, kind=kind)
    zone = literals.find_zone(timezone)
    seconds = min(max(instant // NANOSECONDS_PER_SECOND, _FIRST_SECOND), _LAST_SECOND)
    offset = dt.datetime.fromtimestamp(seconds, zone).utcoffset() or dt.timedelta()
    return instant + offset // dt.timedelta(seconds=1) * NANOSECONDS_PER_SECOND


def read_stripes(
    storage: Storage,
    tail: Tail,
    stripes: Sequence[int],
    columns: Collection[str] | None = None,
    *,
    source: pa.NativeFile | None = None,
    batch_rows: int = 64 * 1024,
) -> Iterator[pa.RecordBatch]:
    """The rows of some stripes of a file, in record batches of at most `batch_rows`; one stripe is decoded at a time.

    `source` is the open file; without it, the file is opened. `columns` names top-level columns, which come in the
    order of the file, in the types of :func:`arrow_schema`. If
    requests are expensive, their bytes in a stripe are fetched together. FormatError if a stripe is damaged or the file
    is no longer that of `tail`, UnsupportedError for values that pyarrow cannot represent, such as timestamps beyond
    the years 1677 to 2262. OSError is not caught.
    """
    schema = arrow_schema(tail)
    fields = [i for i, name in enumerate(schema.names) if columns is None or name in columns]
    if not fields:
        for stripe in stripes:
            yield from _empty_rows(tail.stripes[stripe].rows, batch_rows)
        return
    wanted = pa.schema([schema.field(i) for i in fields])
    if _WRAPS_TIMESTAMPS and any(tail.types[column].kind in _TIMESTAMPS for column in _columns_of(tail.types, fields)):
        raise UnsupportedError(
            f"{tail.path}: pyarrow {pa.__version__} may return wrong timestamps from ORC; install pyarrow 25.0 or later"
        )
    names = _pyarrow_names(tail.types, fields)
    source = source or storage.open_file(tail.path)
    prefetched = PrefetchedFile(source) if storage.threads > 1 else None
    try:
        file = orc.ORCFile(source if prefetched is None else pa.PythonFile(prefetched, "r"))
        is_unchanged = file.nstripes == len(tail.stripes) and file.nrows == tail.rows
    except (OSError, pa.ArrowException) as error:
        _require_readable(storage, tail.path, max(source.size() - tail.size, 0), tail.size)
        raise FormatError(f"{tail.path}: pyarrow cannot read the tail of the file: {first_line(error)}") from error
    if not is_unchanged:
        raise FormatError(f"{tail.path}: the file was replaced since it was listed; read it again")
    for stripe in stripes:
        if prefetched is not None:
            read = range(len(schema)) if names is None else fields
            prefetched.fetch_columns(storage, tail, stripe, set(read), ReadCount())
        batch = _read_stripe(storage, tail, file, stripe, names)
        positions = fields if names is None else range(len(fields))
        arrays = [_cast(tail, stripe, batch.column(i), field) for i, field in zip(positions, wanted, strict=True)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=wanted)
        del batch, arrays
        for start in range(0, rows.num_rows, batch_rows):
            yield rows.slice(start, batch_rows)


def _empty_rows(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without columns."""
    for start in range(0, rows, batch_rows):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(batch_rows, rows - start))], ["rows"]).select([])


def _pyarrow_names(types: Sequence[OrcType], fields: Sequence[int]) -> list[str] | None:
    """The names by which pyarrow selects exactly the top-level columns at the positions `fields`.

    None if pyarrow has to read all columns: it joins the names of the structs around a column with dots, ignores lists,
    maps and unions around it, and of several columns with one name selects the last.
    """
    root = types[0]
    if len(fields) == len(root.children):
        return None
    last: dict[str, int] = {}  # the field that a name selects; -1 is a nested column
    for field, child in enumerate(root.children):
        last[root.names[field]] = field
        pending = [(root.names[field], child)]
        while pending:
            path, column = pending.pop()
            orc_type = types[column]
            inner = [f"{path}.{name}" for name in orc_type.names] or [path] * len(orc_type.children)
            last.update(dict.fromkeys(inner if orc_type.names else (), -1))
            pending += zip(inner, orc_type.children, strict=True)
    names = [root.names[field] for field in fields]
    return names if all(last[name] == field for name, field in zip(names, fields, strict=True)) else None


def _columns_of(types: Sequence[OrcType], fields: Sequence[int]) -> Iterator[int]:
    """The columns at and below some top-level fields."""
    pending = [types[0].children[field] for field in fields]
    while pending:
        column = pending.pop()
        yield column
        pending += types[column].children


def _read_stripe(
    storage: Storage, tail: Tail, file: orc.ORCFile, stripe: int, names: list[str] | None
) -> pa.RecordBatch:
    where, location = f"{tail.path}: stripe {stripe}", tail.stripes[stripe]
    try:
        batch = file.read_stripe(stripe, columns=names)
    except (OSError, pa.ArrowException) as error:
        if "out of range for nanosecond" in str(error):
            raise UnsupportedError(
                f"{where}: a timestamp is beyond the years 1677 to 2262, which pyarrow's nanoseconds cannot hold; "
                "leave its column out (columns=…), or read the file with Spark"
            ) from None
        _require_readable(storage, tail.path, location.offset, location.length)
        is_unsupported = isinstance(error, pa.ArrowNotImplementedError | pa.ArrowCapacityError)
        error_type = UnsupportedError if is_unsupported else FormatError
        raise error_type(f"{where}: pyarrow cannot read it: {first_line(error)}") from error
    if batch.num_rows != location.rows:
        raise FormatError(
            f"{where} has {batch.num_rows} rows; expected {location.rows}; "
            "the file is damaged, or was replaced since it was listed"
        )
    return batch


def _require_readable(storage: Storage, path: str, start: int, length: int) -> None:
    """Raise the storage's own error if these bytes cannot be read: pyarrow reports damage and failed reads alike."""
    with storage.open_file(path) as source:
        source.seek(start)
        # Not `read`, which never frees its memory when it fails.
        while length > 0 and (read := source.read_buffer(min(length, 1 << 20)).size):
            length -= read


def _cast(tail: Tail, stripe: int, column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise UnsupportedError(
            f"{tail.path}: stripe {stripe}: column {field.name}: pyarrow returns {column.type}; expected {field.type}"
        ) from error
