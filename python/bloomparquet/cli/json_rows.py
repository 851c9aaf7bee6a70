"""Rows as JSON, exactly: decimals, NaN and infinities are text, bytes are hexadecimal.

Arrow's own conversions do not fit: ``to_pylist`` refuses nanoseconds without pandas, and Arrow has no JSON writer.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa

from bloomparquet.cli.terminal import printable


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, in types that JSON has."""
    columns = [
        column.to_pylist() if _is_json_already(column.type) else [_json_scalar(value) for value in column]
        for column in batch.columns
    ]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def write_json_lines(out: IO[str], batches: Iterable[pa.RecordBatch]) -> None:
    """Write each row as a JSON object on a line of its own."""
    for batch in batches:
        for row in rows(batch):
            out.write(printable(json.dumps(dict(zip(batch.schema.names, row, strict=True)), ensure_ascii=False)))
            out.write("\n")
    out.flush()


def _is_json_already(kind: pa.DataType) -> bool:
    types = pa.types
    return any(test(kind) for test in (types.is_integer, types.is_boolean, types.is_string, types.is_large_string))


def _json_scalar(scalar: Any) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_struct(kind):
        return {field.name: _json_scalar(scalar[i]) for i, field in enumerate(kind)}
    if pa.types.is_map(kind):
        return [[_json_scalar(item[0]), _json_scalar(item[1])] for item in scalar.values]
    if pa.types.is_nested(kind):
        return [_json_scalar(item) for item in scalar.values]
    if pa.types.is_dictionary(kind):
        return _json_scalar(scalar.value)
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
