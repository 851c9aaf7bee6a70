"""The rows of stripes, by pyarrow's ORC reader, with the types that planning judges columns by.

The Arrow schema is made of the file's tail, so that knowing it takes no reading; what pyarrow shows is converted to it.
pyarrow decodes a stripe at once and finds columns by their names alone, of which some are ambiguous to it.

A TIMESTAMP comes as the reading of the writer's clock, ``timestamp[ns]`` without a zone, whoever reads it where;
TIMESTAMP_INSTANT as ``timestamp[ns, UTC]``, and Spark's TIMESTAMP_NTZ, which is a LONG, as ``timestamp[us]``. CHAR
comes with the blanks that it is padded with.

Sources: apache/arrow ``cpp/src/arrow/adapters/orc``; apache/orc ``c++/src/Reader.cc`` (ColumnSelector).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from bloomparquet.errors import FormatError, PlanError, UnsupportedError
from bloomparquet.orc.encoding import family_of
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.prefetch import FetchedFile, fetch_columns
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.query import literals
from bloomparquet.query.literals import NANOSECONDS, Family, Value
from bloomparquet.storage.files import ReadCount, Storage

_NANOSECONDS = {Kind.TIMESTAMP: pa.timestamp("ns"), Kind.TIMESTAMP_INSTANT: pa.timestamp("ns", "UTC")}
_PLAIN = {
    Kind.BOOLEAN: pa.bool_(), Kind.BYTE: pa.int8(), Kind.SHORT: pa.int16(), Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.STRING: pa.string(),
    Kind.VARCHAR: pa.string(), Kind.CHAR: pa.string(), Kind.BINARY: pa.binary(), Kind.DATE: pa.date32(), **_NANOSECONDS,
}  # fmt: skip
_MOST_PRECISION = 38
_HIVE_11_DECIMAL = pa.decimal128(38, 6)  # what readers take for a decimal without a precision
_FIRST_SECOND, _LAST_SECOND = -9_214_560_000, 9_214_646_400  # 1678 and 2262: no column holds what is further off
_WRAPS = int(pa.__version__.partition(".")[0]) < 25
"""Whether pyarrow shows a timestamp that does not fit 64 bits of nanoseconds as another one, without a word."""


def arrow_schema(tail: Tail) -> pa.Schema:
    """The columns of a file as :func:`read_stripes` gives them. UnsupportedError, which names
    the file, where its rows are no structs, and for types that pyarrow does not read."""
    root = tail.types[0]
    if root.kind != Kind.STRUCT:
        raise UnsupportedError(
            f"{tail.path}: the rows are of type {root.describe()}; expected a STRUCT, whose fields are the columns"
        )
    found: dict[int, pa.DataType] = {}
    for column in range(len(tail.types) - 1, 0, -1):  # children come after their parents
        found[column] = _arrow_type(tail, column, [found[child] for child in tail.types[column].children])
    return pa.schema([(name, found[child]) for name, child in zip(root.names, root.children, strict=True)])


def _arrow_type(tail: Tail, column: int, children: Sequence[pa.DataType]) -> pa.DataType:
    found = tail.types[column]
    if found.kind == Kind.STRUCT:
        return pa.struct(list(zip(found.names, children, strict=True)))
    if found.kind == Kind.LIST:
        return pa.list_(children[0])
    if found.kind == Kind.MAP:
        return pa.map_(*children)
    if found.kind == Kind.UNION:
        return pa.sparse_union([pa.field(f"_union_{i}", child) for i, child in enumerate(children)])
    if found.kind == Kind.DECIMAL:
        if not found.precision:
            return _HIVE_11_DECIMAL
        if found.precision <= _MOST_PRECISION:
            return pa.decimal128(found.precision, found.scale or 0)
    if found.kind == Kind.LONG and family_of(found) == "timestamp_ntz":
        return pa.timestamp("us")
    if found.kind not in _PLAIN:
        raise UnsupportedError(
            f"{tail.path}: column {column} is of type {found.describe()}, which pyarrow does not read; "
            "read the file with Spark"
        )
    return _PLAIN[Kind(found.kind)]


def coerce_all(
    values: Sequence[Value], family: Family, *, timezone: str = "UTC", column: str = "", kind: str = ""
) -> list[Any]:
    """As :func:`bloomparquet.query.literals.coerce_all`; but to a column without a zone, a timestamp with an offset
    is what
    the clock of `timezone` showed then."""
    if family != "timestamp_ntz":
        return literals.coerce_all(values, family, timezone=timezone, column=column, kind=kind)
    return [_reading(value, timezone, column, kind) for value in values]


def _reading(value: Value, timezone: str, column: str, kind: str) -> int | None:
    try:
        return literals.coerce(value, "timestamp_ntz", column=column, kind=kind)  # type: ignore[no-any-return]
    except PlanError:  # it has an offset, or else is no timestamp
        moment: int = literals.coerce(value, "timestamp", timezone=timezone, column=column, kind=kind)
    zone = literals.find_zone(timezone)
    seconds = min(max(moment // NANOSECONDS, _FIRST_SECOND), _LAST_SECOND)
    offset = dt.datetime.fromtimestamp(seconds, zone).utcoffset() or dt.timedelta()
    return moment + offset // dt.timedelta(seconds=1) * NANOSECONDS


def read_stripes(
    storage: Storage,
    tail: Tail,
    stripes: Sequence[int],
    columns: Collection[str] | None = None,
    *,
    batch_rows: int = 64 * 1024,
) -> Iterator[pa.RecordBatch]:
    """Some stripes of the file whose tail is `tail`, as record batches of `batch_rows` at most; one is decoded at a
    time.

    `columns` names top-level columns; they come in the order of the file, with the types of :func:`arrow_schema`. Their
    bytes in a stripe are fetched at once where requests are dear. FormatError where a stripe is damaged or the file is
    not the one any more that `tail` is of, UnsupportedError for what pyarrow cannot show, such as timestamps beyond
    1677 to 2262. OSError passes.
    """
    schema = arrow_schema(tail)
    places = [i for i, name in enumerate(schema.names) if columns is None or name in columns]
    if not places:
        for stripe in stripes:
            yield from _without_columns(tail.stripes[stripe].rows, batch_rows)
        return
    shown = pa.schema([schema.field(i) for i in places])
    if _WRAPS and any(tail.types[column].kind in _NANOSECONDS for column in _below(tail.types, places)):
        raise UnsupportedError(
            f"{tail.path}: pyarrow {pa.__version__} may show timestamps of ORC as others; 25.0 or later is needed"
        )
    asked = _selection(tail.types, places)
    with storage.filesystem.open_input_file(tail.path) as source:
        fetched = FetchedFile(source) if storage.threads > 1 else None
        try:
            file = orc.ORCFile(source if fetched is None else pa.PythonFile(fetched, "r"))
            same = file.nstripes == len(tail.stripes) and file.nrows == tail.rows
        except (OSError, pa.ArrowException) as error:
            _read_bytes(storage, tail.path, max(source.size() - tail.size, 0), tail.size)
            raise FormatError(f"{tail.path}: pyarrow cannot read the tail of the file: {_first_line(error)}") from error
        if not same:
            raise FormatError(f"{tail.path}: the file was replaced since it was listed; read it again")
        for stripe in stripes:
            if fetched is not None:
                read = places if asked is not None else range(len(schema))
                fetch_columns(storage, tail, stripe, set(read), fetched, ReadCount())
            batch = _read_stripe(storage, tail, file, stripe, asked)
            taken = range(len(places)) if asked is not None else places
            arrays = [_converted(tail, stripe, batch.column(i), field) for i, field in zip(taken, shown, strict=True)]
            whole = pa.RecordBatch.from_arrays(arrays, schema=shown)
            del batch, arrays
            for at in range(0, whole.num_rows, batch_rows):
                yield whole.slice(at, batch_rows)


def _without_columns(rows: int, most: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, rows, most):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(most, rows - at))], ["rows"]).select([])


def _selection(types: Sequence[OrcType], places: Sequence[int]) -> list[str] | None:
    """The names that pyarrow takes for exactly the top-level columns at `places`; None where it has to read all.

    To it a column is called after the fields of structs around it, joined by dots; lists, maps and unions around it do
    not count, and of several with one name it takes the last.
    """
    root = types[0]
    if len(places) == len(root.children):
        return None
    last: dict[str, int] = {}
    for place, top in enumerate(root.children):
        last[root.names[place]] = place
        pending = [(root.names[place], top)]
        while pending:
            path, column = pending.pop()
            found = types[column]
            inner = [f"{path}.{name}" for name in found.names] or [path] * len(found.children)
            last.update(dict.fromkeys(inner if found.names else (), -1))
            pending += zip(inner, found.children, strict=True)
    names = [root.names[place] for place in places]
    return names if all(last[name] == place for name, place in zip(names, places, strict=True)) else None


def _below(types: Sequence[OrcType], places: Sequence[int]) -> Iterator[int]:
    pending = [types[0].children[place] for place in places]
    while pending:
        column = pending.pop()
        yield column
        pending += types[column].children


def _read_stripe(
    storage: Storage, tail: Tail, file: orc.ORCFile, stripe: int, asked: list[str] | None
) -> pa.RecordBatch:
    try:
        batch = file.read_stripe(stripe, columns=asked)
    except (OSError, pa.ArrowException) as error:
        where = f"{tail.path}: stripe {stripe}"
        if "out of range for nanosecond" in str(error):
            raise UnsupportedError(
                f"{where}: a timestamp is beyond the years 1677 to 2262, which pyarrow's nanoseconds cannot hold; "
                "leave its column out (columns=…), or read the file with Spark"
            ) from None
        place = tail.stripes[stripe]
        _read_bytes(storage, tail.path, place.offset, place.length)
        kind = (
            UnsupportedError if isinstance(error, pa.ArrowNotImplementedError | pa.ArrowCapacityError) else FormatError
        )
        raise kind(f"{where}: pyarrow cannot read it: {_first_line(error)}") from error
    if batch.num_rows != tail.stripes[stripe].rows:
        raise FormatError(
            f"{tail.path}: stripe {stripe} has {batch.num_rows} rows; expected {tail.stripes[stripe].rows}; "
            "the file is damaged, or was replaced since it was listed"
        )
    return batch


def _read_bytes(storage: Storage, path: str, start: int, length: int) -> None:
    """Nothing where these bytes of a file can be read, and what the storage says where they cannot: to pyarrow, errors
    of both kinds are the same."""
    with storage.filesystem.open_input_file(path) as source:
        source.seek(start)
        while length > 0 and (read := len(source.read(min(length, 1 << 20)))):
            length -= read


def _converted(tail: Tail, stripe: int, column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise UnsupportedError(
            f"{tail.path}: stripe {stripe}: column {field.name} is {column.type} to pyarrow; expected {field.type}"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
