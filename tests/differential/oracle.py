"""The oracle: evaluates predicates row by row in plain Python, in SQL's three-valued logic.

It also writes predicates as Spark's SQL. It knows files, partitions and what each reader makes of types.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from bloomparquet.query import predicate as p
from tests.differential.cases import ROW_ID, Data, File, partition_value
from tests.differential.kinds import Kind, row_key
from tests.differential.literals import literal_key
from tests.support import row_oracle

Row = dict[p.Column, Any]


def rows_of(data: Data) -> list[Row]:
    """The values of every row by column path, in file order; None where missing. A struct is True or None."""
    rows = []
    for number, file in enumerate(data.files):
        for at in range(file.rows):
            row: Row = {path: file.values[path][at] if path in file.values else None for path in data.columns}
            for group in groups_of(data.columns):
                row[group] = True if is_group_valid(file, group, at, data.first_rid(number) + at) else None
            if data.partition:
                row["p",] = partition_value(data.partition, file.partition)
            rows.append(row)
    return rows


def groups_of(paths: Any) -> list[p.Column]:
    """The structs above the leaves."""
    return list(dict.fromkeys(path[:n] for path in paths for n in range(1, len(path))))


def is_group_valid(file: File, group: p.Column, at: int, rid: int) -> bool:
    """A struct without values is null in even rows, and a struct of nulls in odd rows."""
    below = [values for path, values in file.values.items() if path[: len(group)] == group and len(path) > len(group)]
    return bool(below) and (
        any(values[at] is not None for values in below) or (rid % 2 == 1 and not file.required) or file.required
    )


def truth(predicate: p.Predicate, row: Row, kinds: dict[p.Column, Kind], timezone: str) -> bool | None:
    """SQL's TRUE, FALSE or NULL (None)."""

    def keys(column: p.Column, value: Any, literal: Any) -> tuple[Any, Any]:
        return row_key(kinds[column], value), literal_key(kinds[column], literal, timezone)

    return row_oracle.oracle(predicate, row, keys)


def expected_rows(data: Data) -> list[tuple[Any, ...]]:
    """All rows in the form of `comparable_rows`: row id, columns, partition column."""
    tops = list(dict.fromkeys(path[0] for path in data.columns))
    kinds = data.schema_kinds()
    rows = []
    for rid, row in enumerate(rows_of(data)):
        values = [_nested((name,), row, kinds) for name in tops]
        rows.append((rid, *values, row["p",]) if data.partition else (rid, *values))
    return rows


def column_names(data: Data) -> list[str]:
    """The top-level columns in the order of `expected_rows`."""
    names = [ROW_ID, *dict.fromkeys(path[0] for path in data.columns)]
    return [*names, "p"] if data.partition else names


def _nested(path: p.Column, row: Row, kinds: dict[p.Column, Kind]) -> Any:
    if path in kinds:
        return _float(row[path]) if kinds[path].family == "float" and row[path] is not None else row[path]
    if row[path] is None:
        return None
    names = sorted({other[len(path)] for other in kinds if other[: len(path)] == path})
    inner = {name: _nested((*path, name), row, kinds) for name in names}
    return {name: value for name, value in inner.items() if value is not None}


def _float(value: float) -> Any:
    return "NaN" if value != value else (float(value), math.copysign(1, value))


# -- rows to compare --------------------------------------------------------------------------------------------------


def comparable_rows(table: pa.Table, columns: list[str] | None = None) -> list[tuple[Any, ...]]:
    """Rows in which equal means the same value: numbers by value, all NaN alike, -0.0 not as 0.0, times in nanoseconds.

    A column that is not there is null, and so is a field of a struct.
    """
    columns_of_values = []
    for name in columns or table.column_names:
        there = name in table.column_names
        columns_of_values.append(_comparable(table.column(name)) if there else [None] * table.num_rows)
    return list(zip(*columns_of_values))


def _comparable(array: pa.Array) -> list[Any]:
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _comparable(chunk)]
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _comparable(array.dictionary_decode())
    if pa.types.is_struct(kind):
        children = [_comparable(array.field(i)) for i in range(kind.num_fields)]
        named = sorted(zip([field.name for field in kind], children), key=lambda pair: pair[0])
        valid = array.is_valid().to_pylist()
        return [
            {name: child[i] for name, child in named if child[i] is not None} if ok else None
            for i, ok in enumerate(valid)
        ]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        step = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        ticks = array.view(pa.int32() if pa.types.is_time32(kind) else pa.int64()).to_pylist()
        return [None if tick is None else tick * step for tick in ticks]
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date64(kind):
        return [None if ms is None else ms // 86_400_000 for ms in array.view(pa.int64()).to_pylist()]
    if pa.types.is_floating(kind):
        return [None if v is None else _float(v) for v in array.to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


# -- Spark's SQL ------------------------------------------------------------------------------------------------------


def spark_sql(predicate: p.Predicate, kinds: dict[p.Column, Kind], style: int = 0) -> str:
    """The predicate for Spark's parser. `style` picks one of several equivalent spellings."""
    styles = _bits(style)
    return _sql(predicate, kinds, styles)


def _bits(number: int) -> Iterator[int]:
    while True:
        number = (number * 1103515245 + 12345) % 2**31
        yield number >> 16


def _sql(predicate: p.Predicate, kinds: dict[p.Column, Kind], styles: Iterator[int]) -> str:
    if isinstance(predicate, p.Not):
        return f"(NOT {_sql(predicate.child, kinds, styles)})"
    if isinstance(predicate, (p.And, p.Or)):
        word = " AND " if isinstance(predicate, p.And) else " OR "
        return f"({word.join(_sql(child, kinds, styles) for child in predicate.children)})"
    assert isinstance(predicate, p.Leaf)
    column = ".".join("`" + part + "`" for part in predicate.column)
    if isinstance(predicate, (p.IsNull, p.IsNotNull)):
        return f"({column} IS {'NOT ' if isinstance(predicate, p.IsNotNull) else ''}NULL)"
    style = next(styles)
    kind = kinds[predicate.column]
    if isinstance(predicate, (p.In, p.NotIn)):
        if not predicate.values:
            return "FALSE" if isinstance(predicate, p.In) else "TRUE"
        values = ", ".join(literal_sql(kind, value) for value in predicate.values)
        if isinstance(predicate, p.In):
            return f"({column} IN ({values}))"
        return f"({column} NOT IN ({values}))" if style & 1 else f"(NOT {column} IN ({values}))"
    if isinstance(predicate, p.StartsWith):
        prefix = predicate.prefix
        if isinstance(prefix, str) and prefix and style & 1 and not set(prefix) & set("%_\\"):
            pattern = literal_sql(kind, prefix)
            return f"({column} LIKE {pattern[:-1]}%')"
        return f"startswith({column}, {literal_sql(kind, prefix)})"
    assert isinstance(predicate, p.Comparison)
    symbols = {p.Eq: "=", p.NotEq: "<>", p.EqNullSafe: "<=>", p.Lt: "<", p.LtEq: "<=", p.Gt: ">", p.GtEq: ">="}
    symbol = symbols[type(predicate)]
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(symbol, symbol)
    value = literal_sql(kind, predicate.value)
    if style & 3 == 3:
        return f"({value} {mirrored} {column})"
    if style & 4:
        symbol = {"=": "==", "<>": "!="}.get(symbol, symbol)
    return f"({column} {symbol} {value})"


def literal_sql(kind: Kind, literal: Any) -> str:
    if literal is None:
        return "NULL"
    if isinstance(literal, bool):
        return "TRUE" if literal else "FALSE"
    if isinstance(literal, int):
        return str(literal) if abs(literal) < 10**38 or kind.family == "integer" else f"{literal}"
    if isinstance(literal, Decimal):
        text = f"{literal:f}"
        return text if "." in text else text + "BD"
    if isinstance(literal, float):
        return f"{literal!r}D" if math.isfinite(literal) else f"double('{literal}')"
    if isinstance(literal, bytes):
        return f"X'{literal.hex()}'"
    if isinstance(literal, (dt.datetime, np.datetime64)):
        word = "TIMESTAMP_NTZ" if kind.family == "ntz" else "TIMESTAMP"
        return f"{word} '{literal}'"
    if isinstance(literal, dt.date):
        return f"DATE '{literal.isoformat()}'"
    if isinstance(literal, dt.time):
        return f"TIME '{literal.isoformat()}'"
    if isinstance(literal, str) and kind.family in ("timestamp", "ntz") and len(literal.partition(".")[2]) <= 6:
        return f"{'TIMESTAMP_NTZ' if kind.family == 'ntz' else 'TIMESTAMP'} '{literal}'"
    if isinstance(literal, (str, UUID)):
        escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x00": "\\0"}
        return "'" + "".join(escapes.get(c, c) for c in str(literal)) + "'"
    raise AssertionError(f"no SQL for {literal!r}")
