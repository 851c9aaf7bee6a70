"""Files that DuckDB wrote, and what DuckDB's own probe says of the files of others.

DuckDB writes a filter only for chunks that it dictionary encodes: those where at most a fifth of the values differ.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support import files, interop
from tests.support.core import kept_indexes
from tests.support.interop import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

duckdb = pytest.importorskip("duckdb")

ROWS_PER_GROUP = 4_096
"""Two of DuckDB's vectors, its unit of row groups: about eight rows per distinct value."""

_NAMES = (
    "dictionary_string", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "decimal_9_0", "decimal_18_4", "string", "json", "binary", "uuid", "date32", "time_us", "time_ns", "timestamp_s",
    "timestamp_ms", "timestamp_us", "timestamp_ns", "utc_us", "struct.int64", "struct.string",
)  # fmt: skip
COLUMNS = {name: interop.TYPES[name] for name in _NAMES} | {"decimal_4_1": interop.decimal(4, 1)}
WITHOUT_FILTER = {"decimal_38_10": interop.decimal(38, 10)}
"""Never dictionary encoded."""

STORED_AS = {
    "int8": "INT32", "uint32": "INT32", "uint64": "INT64", "decimal_4_1": "INT32", "decimal_18_4": "INT64",
    "uuid": "FIXED_LEN_BYTE_ARRAY(16)", "time_us": "INT64", "timestamp_s": "INT64",
}  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with duckdb.connect() as made:
        made.execute("SET threads = 1")
        made.execute("SET TimeZone = 'UTC'")
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("duckdb")


def write(connection: Any, path: Path, columns: dict[str, Kind], *options: str) -> str:
    connection.register("made", interop.table(columns, ROWS_PER_GROUP))
    settings = ", ".join(["FORMAT parquet", f"ROW_GROUP_SIZE {ROWS_PER_GROUP}", *options])
    connection.execute(f"COPY made TO '{path}' ({settings})")
    connection.unregister("made")
    return str(path)


@pytest.fixture(scope="module")
def written(connection: Any, folder: Path) -> str:
    return write(connection, folder / "types.parquet", {**COLUMNS, **WITHOUT_FILTER})


@pytest.fixture(scope="module")
def version_2(connection: Any, folder: Path) -> str:
    return write(connection, folder / "version2.parquet", COLUMNS, "PARQUET_VERSION V2")


def test_which_types_have_a_filter(written: str, version_2: str) -> None:
    assert pq.ParquetFile(written).metadata.num_row_groups == 2
    assert interop.filtered_columns(written) == set(COLUMNS)
    assert interop.filtered_columns(version_2) == set(COLUMNS)
    assert {column: interop.physical(written, column) for column in STORED_AS} == STORED_AS
    for column, kind in WITHOUT_FILTER.items():
        interop.assert_keeps_all(written, column, [*kind.literals[0][::64], *kind.absent[::64]])


@pytest.mark.parametrize("column", COLUMNS)
def test_filters_of_every_type_are_used(written: str, version_2: str, column: str) -> None:
    interop.assert_filters_are_used(written, column, COLUMNS[column])
    interop.assert_same_bits(version_2, column, COLUMNS[column])


def test_no_filter_for_mostly_distinct_values_or_enums(connection: Any, folder: Path) -> None:
    path = folder / "distinct.parquet"
    query = "SELECT 2 * r AS n, (['a', 'c'])[1 + r % 2]::ENUM ('a', 'c') AS e FROM range(4096) t(r)"
    connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    assert interop.filtered_columns(str(path)) == set()
    interop.assert_keeps_all(str(path), "n", [0, 1, 4_095, 8_190])
    interop.assert_keeps_all(str(path), "e", ["a", "b", "c"])


@pytest.mark.parametrize(("data", "check"), interop.SPECIAL.values(), ids=interop.SPECIAL)
def test_special_values_are_found(
    connection: Any, tmp_path: Path, data: dict[str, pa.Array], check: Callable[[str], None]
) -> None:
    connection.register("snags", pa.table(data))
    connection.execute(f"COPY snags TO '{tmp_path / 'snags.parquet'}' (FORMAT parquet)")
    check(str(tmp_path / "snags.parquet"))


def test_nan_counts_are_used(connection: Any, tmp_path: Path) -> None:
    nan = float("nan")
    groups: list[list[float | None]] = [[1, 2, None, -0.0], [1, nan, 2, None], [nan] * 4, [None] * 4, [7, 9, 7, 7]]
    values = [value for group in groups for value in group * 512]
    connection.register("numbers", pa.table({"d": pa.array(values), "f": pa.array(values, pa.float32())}))
    path = str(tmp_path / "nan.parquet")
    connection.execute(f"COPY (SELECT * FROM numbers) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    for column in ("d", "f"):
        for where, kept in (
            (bp.Eq(column, nan), {1, 2}),
            (bp.Gt(column, 2.0), {1, 2, 4}),
            (bp.GtEq(column, 2.0), {0, 1, 2, 4}),
            (bp.Lt(column, 1.0), {0, 1, 2}),  # beside NaN, DuckDB writes no minimum
        ):
            assert kept_indexes(bp.plan(path, where)) == kept, where
    matching = connection.execute(f"SELECT count(*) FROM '{path}' WHERE d > 2").fetchone()
    assert bp.read_table(path, "d > 2").num_rows == matching[0] == 512 + 2048 + 2048


def test_types_not_equal_by_bytes_prove_nothing(connection: Any, folder: Path) -> None:
    path = folder / "others.parquet"
    connection.execute(
        f"COPY (SELECT to_seconds(r % 10) AS interval, [r % 10] AS list, r % 2 = 0 AS flag FROM range(4096) t(r)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    assert interop.filtered_columns(str(path)) == {"interval", "list.list.element"}
    interop.assert_keeps_all(str(path), "list.list.element", [0, 11])
    interop.assert_keeps_all(str(path), "flag", [True, False])
    assert bp.plan(str(path), bp.IsNotNull("interval")).kept == 1


PROBED = {
    "int32": (interop.INT32, "INTEGER"),
    "int64": (interop.INT64, "BIGINT"),
    "float": (interop.FLOAT, "FLOAT"),
    "double": (interop.DOUBLE, "DOUBLE"),
    "decimal_9_2": (interop.decimal(9, 2), "DECIMAL(9, 2)"),
    "decimal_18_4": (interop.decimal(18, 4), "DECIMAL(18, 4)"),
    "string": (interop.STRING, "VARCHAR"),
    "date": (interop.DATE, "DATE"),
    "timestamp_ntz": (interop.timestamp("us"), "TIMESTAMP"),
    "timestamp": (interop.timestamp("us", "UTC"), "TIMESTAMPTZ"),
}
KINDS = {column: kind for column, (kind, _) in PROBED.items()}


@pytest.fixture(scope="module")
def of_arrow(folder: Path) -> str:
    options: Any = {"rows_per_group": interop.ROWS, "fpp": 0.05, "store_decimal_as_integer": True}
    return files.write(folder / "arrow.parquet", interop.table(KINDS), list(KINDS), **options)


@pytest.fixture(scope="module")
def of_spark(spark: SparkSession, folder: Path) -> str:
    from tests.support import spark as support

    made = spark.createDataFrame(interop.table(KINDS)).coalesce(1)
    made = made.withColumn("timestamp_ntz", made.timestamp_ntz.cast("timestamp_ntz"))
    with support.conf(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        path = support.write(made, folder / "spark", dict.fromkeys(KINDS, 300), rows_per_group=interop.ROWS)
    return interop.only_file(path)


@pytest.mark.parametrize("column", PROBED)
@pytest.mark.parametrize("file", ["of_arrow", "of_spark"])
def test_verdicts_equal_duckdbs_probe(request: pytest.FixtureRequest, connection: Any, file: str, column: str) -> None:
    """32 present and 103 absent values. The filters are small, so that both report false positives."""
    path = request.getfixturevalue(file)
    kind, sql_type = PROBED[column]
    literals = [*kind.literals[0][::16], *kind.absent[::10]]
    probes = " UNION ALL ".join(
        f"SELECT {at} AS at, row_group_id, bloom_filter_excludes "
        f"FROM parquet_bloom_probe('{path}', '{column}', {as_sql(value)}::{sql_type})"
        for at, value in enumerate(literals)
    )
    theirs = np.zeros((len(literals), 2), np.bool_)
    for at, group, excluded in connection.execute(probes).fetchall():
        theirs[at, group] = not excluded
    ours = [interop.reasons(path, bp.Eq(column, literal)) for literal in literals]
    assert ours == [[None if kept else "bloom" for kept in groups] for groups in theirs]
    assert 0.9 < np.mean(~theirs[-len(kind.absent[::10]) :]) < 1


def as_sql(value: Any) -> str:
    if isinstance(value, dt.date | str):
        return f"'{value}'"
    return f"({value!r})" if isinstance(value, float) else f"({value})"
