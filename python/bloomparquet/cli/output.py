"""Rows on their way out of the command line: a table in the terminal, JSON lines, CSV, or a file.

Arrow's own conversions do not fit: ``to_pylist`` refuses nanoseconds without pandas, its CSV writer refuses nested
values, and it has no JSON writer. What leaves here is exact: decimals, NaN and infinities are text, bytes hexadecimal.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.storage.files import LocalStorage
from bloomparquet.storage.table_formats import directories_of, require_writable

Batches = Iterator[pa.RecordBatch]


def head(batches: Batches, limit: int | None) -> Batches:
    """The first `limit` rows (None: all). Batches after them are never asked for; one batch at least, be it empty."""
    left = limit
    for batch in batches:
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch as values that JSON has."""
    columns = [
        column.to_pylist() if _is_json_already(column.type) else [_plain(value) for value in column]
        for column in batch.columns
    ]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def write_jsonl(out: IO[str], schema: pa.Schema, batches: Batches) -> None:
    """One JSON object per row and line."""
    for batch in batches:
        for row in rows(batch):
            out.write(json.dumps(dict(zip(schema.names, row, strict=True)), ensure_ascii=False))
            out.write("\n")
    out.flush()


def write_csv(out: IO[str], schema: pa.Schema, batches: Batches) -> None:
    """A header and one line per row; nulls are empty, nested values are JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(schema.names)
    for batch in batches:
        writer.writerows(["" if value is None else _cell(value) for value in row] for row in rows(batch))
    out.flush()


def print_table(schema: pa.Schema, batches: Batches, most: int) -> None:
    """At most `most` rows as a table on stdout; that there are more is said on stderr."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for field in schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        table.add_column(escape(field.name), justify="right" if numeric else "left", overflow="fold")
    left = most
    more = False
    for batch in batches:
        for row in islice(rows(batch), left):
            table.add_row(*(Text("null", style="dim") if value is None else Text(_cell(value)) for value in row))
        more = batch.num_rows > left
        left -= min(left, batch.num_rows)
        if more:
            break
    console().print(table)
    if more:
        console(stderr=True).print(
            f"only the first {most} rows are shown; --limit, --json, --csv and -o give more", style="dim"
        )


def write_file(path: str, schema: pa.Schema, batches: Batches) -> None:
    """Write the rows to `path`, in the format of its suffix. The file appears whole or not at all."""
    storage = LocalStorage()
    require_writable(storage, directories_of(storage, [path]))
    write = FILE_WRITERS[os.path.splitext(path)[1]]
    directory = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix="._", suffix=".tmp", dir=directory)
    os.close(handle)
    try:
        write(temporary, schema, batches)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def console(*, stderr: bool = False) -> Any:
    """A rich console as wide as the terminal; where there is none, wide enough that no path is folded."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=400)


def _write_parquet(path: str, schema: pa.Schema, batches: Batches) -> None:
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_arrow(path: str, schema: pa.Schema, batches: Batches) -> None:
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _as_text(write: Callable[[IO[str], pa.Schema, Batches], None]) -> Callable[[str, pa.Schema, Batches], None]:
    def to_path(path: str, schema: pa.Schema, batches: Batches) -> None:
        with open(path, "w", encoding="utf-8", newline="") as out:
            write(out, schema, batches)

    return to_path


FILE_WRITERS: dict[str, Callable[[str, pa.Schema, Batches], None]] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".csv": _as_text(write_csv),
    ".jsonl": _as_text(write_jsonl),
}


def _is_json_already(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def _plain(scalar: Any) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_struct(kind):
        return {field.name: _plain(scalar[i]) for i, field in enumerate(kind)}
    if pa.types.is_map(kind):
        return [[_plain(item[0]), _plain(item[1])] for item in scalar.values]
    if pa.types.is_nested(kind):
        return [_plain(item) for item in scalar.values]
    if pa.types.is_dictionary(kind):
        return _plain(scalar.value)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return scalar.cast(pa.string()).as_py()
    if pa.types.is_duration(kind):
        return scalar.value
    return _json_value(scalar.as_py())


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    return value


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
