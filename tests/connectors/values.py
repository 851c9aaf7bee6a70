"""SQL for random values of any type of Spark's: columns of new rows, and literals that rows of a table have."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

UNIQUE = "id"
"""The column whose values are unique as long as the numbers of rows are."""


def row_sql(schema: T.StructType, seed: int, number: str = "i") -> str:
    """Columns of the row whose number is the column `number`. Equal names have values of one domain in each call."""
    return ", ".join(f"{value_sql(each.dataType, each.name, seed, number)} AS `{each.name}`" for each in schema)


def value_sql(kind: T.DataType, path: str, seed: int, number: str = "i") -> str:
    random = Random(f"{seed}/{path}")
    sql = kind.simpleString()
    if path == UNIQUE:
        return f"CAST(pmod({number} * 7919L, 1000003L) AS {sql})"
    salt = random.randrange(1 << 30)
    n = f"pmod(xxhash64({number}, {salt}), {random.choice((6, 300, 100_000, 10**9))})"
    if isinstance(kind, T.StructType):
        fields = (f"'{each.name}', {value_sql(each.dataType, f'{path}.{each.name}', seed, number)}" for each in kind)
        value = f"named_struct({', '.join(fields)})"
    elif isinstance(kind, T.ArrayType):
        items = ", ".join(value_sql(kind.elementType, f"{path}[{i}]", seed, number) for i in range(3))
        value = f"slice(array({items}), 1, CAST(pmod({n}, 4) AS INT))"
    elif isinstance(kind, T.MapType):
        keys = [value_sql(kind.valueType, f"{path}[{key}]", seed, number) for key in "ab"]
        value = f"map('a', {keys[0]}, 'b', {keys[1]})"
    elif isinstance(kind, T.StringType):
        # ids as text, which a column of Iceberg's type UUID shows too, and short texts of three beginnings
        uuid = (
            f"regexp_replace(md5(CAST({n} AS STRING)), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', '$1-$2-$3-$4-$5')"
        )
        value = uuid if path.startswith("uu") else f"concat('p', {n} % 3, '-', {n})"
    elif isinstance(kind, T.BinaryType):
        value = f"CAST(lpad(CAST({n} AS STRING), 10, '0') AS BINARY)"
    elif isinstance(kind, T.BooleanType):
        value = f"{n} % 2 = 0"
    elif isinstance(kind, T.DateType):
        value = f"date_add(DATE'1969-12-20', CAST({n} % 40 AS INT))"
    elif isinstance(kind, T.TimestampType | T.TimestampNTZType):
        value = f"CAST(timestamp_micros(1583020800000000 + {n} % 400 * 864000001) AS {sql})"
    elif isinstance(kind, T.DecimalType):
        value = f"CAST({n} % 1000000 / 100 AS {sql})"
    elif isinstance(kind, T.FloatType | T.DoubleType):
        value = f"CAST(IF({n} % 50 = 0, double(if({n} % 100 = 0, 'NaN', '-0.0')), {n} / 4) AS {sql})"
    else:
        value = f"CAST({n} AS {sql})"
    nulls = random.choice((0, 9, 9, 40))
    return f"IF(pmod(xxhash64({number}, {salt + 1}), {nulls}) = 0, NULL, {value})" if nulls else value


def literal(random: Random, kind: T.DataType, value: Any) -> str:
    """A value that Spark returned, as SQL: of its type, or of one that Spark casts."""
    sql = kind.simpleString()
    if value is None:
        return f"CAST(NULL AS {sql})"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return random.choice(
            (str(value), str(value), f"CAST({value} AS {sql})", f"{value}L", f"{value}.0", f"'{value}'")
        )
    if isinstance(value, float):
        text = f"CAST('{value}' AS {sql})"
        return text if math.isnan(value) else random.choice((text, text, f"{value:.2f}"))
    if isinstance(value, Decimal):
        return random.choice((f"CAST('{value}' AS {sql})", str(value)))
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    if isinstance(kind, T.TimestampType):
        return f"timestamp_micros({round(value.timestamp() * 1e6)})"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP_NTZ'{value}'"
    return f"DATE'{value}'"


def leaves(
    kind: T.DataType, sql: str = "", path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], T.DataType]]:
    """SQL, path and type of each column that has values of its own: fields of structs, arrays and maps as they are."""
    if isinstance(kind, T.StructType):
        for each in kind:
            name = f"`{each.name}`"
            yield from leaves(each.dataType, f"{sql}.{name}" if sql else name, (*path, each.name))
    else:
        yield sql, path, kind


def value_at(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row
