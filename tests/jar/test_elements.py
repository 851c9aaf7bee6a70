"""Conditions on elements of lists and maps, and on columns that are cast, in queries and in the option ``where``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from tests.support.files import write_groups
from tests.support.scenarios import JAR, read, run
from tests.support.spark import conf
from tests.support.spark_rows import skipped_by

pytestmark = pytest.mark.slow

BLOOM = [
    "tags.list.element", "m.key_value.key", "m.key_value.value", "items.list.element.sku", "items.list.element.n",
    "n.list.element", "byday.key_value.key", "money.list.element", "f.list.element", "st.l.list.element",
]  # fmt: skip
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("items", pa.list_(pa.struct([("sku", pa.int64()), ("n", pa.int32())]))),
        ("n", pa.list_(pa.int32())),
        ("byday", pa.map_(pa.date32(), pa.string())),
        ("money", pa.list_(pa.decimal128(9, 2))),
        ("f", pa.list_(pa.float32())),
        ("st", pa.struct([("l", pa.list_(pa.timestamp("us", "UTC")))])),
    ]
)
SETTINGS = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "UTC"}
DAY = dt.date(2026, 1, 31)
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone.utc)


def group(i: int) -> pa.Table:
    """Three rows: all columns have values, all are empty, all are null. Only `i` and 90 to 99 are in the values."""
    full = {
        "id": 10 * i, "tags": [f"t{i}", None, "t9"], "m": [("k", i), (f"k{i}", 99), ("z", None)],
        "items": [{"sku": i, "n": 90}, None, {"sku": 99, "n": i}], "n": [i, None, 99],
        "byday": [(DAY + dt.timedelta(i), "x"), (DAY + dt.timedelta(99), "y")],
        "money": [Decimal(i) / 4, Decimal(99)], "f": [i / 4, float("nan")],
        "st": {"l": [NOON + dt.timedelta(hours=i), NOON + dt.timedelta(99)]},
    }  # fmt: skip
    empty = {name: [] for name in SCHEMA.names} | {"id": 10 * i + 1, "st": {"l": []}}
    return pa.Table.from_pylist([full, empty, {"id": 10 * i + 2}], SCHEMA)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six row groups, of numbers 0, 2, 4, …; bounds hide the odd numbers, and filters show that they are absent."""
    folder = tmp_path_factory.mktemp("elements")
    write_groups(folder / "0.parquet", [group(i) for i in (4, 2, 0)], BLOOM)
    write_groups(folder / "1.parquet", [group(i) for i in (6, 10, 8)], BLOOM)
    return str(folder)


@pytest.fixture(autouse=True)
def lenient(jar_spark: SparkSession) -> Iterator[None]:
    """Without ANSI mode, elements that do not exist are NULL."""
    with conf(jar_spark, SETTINGS):
        yield


HITS = [
    "array_contains(tags, 't4')",
    "arrays_overlap(tags, array('t4', 't5'))",
    "arrays_overlap(array('t4', NULL), tags)",
    "exists(tags, x -> x = 't4')",
    "exists(tags, x -> 't4' <=> x)",
    "tags[0] = 't4'",
    "element_at(tags, 1) = 't4'",
    "element_at(tags, -3) IN ('t4', 't5')",
    "try_element_at(tags, 1) = 't4'",
    "m['k'] = 4",
    "m['k'] IN (4, 5, NULL)",
    "element_at(m, 'k') = 4",
    "m['k4'] = 99",
    "map_contains_key(m, 'k4')",
    "array_contains(map_keys(m), 'k4')",
    "array_contains(map_values(m), 4)",
    "exists(map_values(m), v -> v = 4)",
    "array_contains(items.sku, 4)",
    "exists(items, i -> i.sku = 4)",
    "items[0].sku = 4",
    "array_contains(n, 4L)",
    "array_contains(n, 4.0D)",
    "array_contains(n, CAST(4 AS DECIMAL(20, 2)))",
    "exists(n, x -> x = 4L)",
    "map_contains_key(byday, DATE'2026-02-04')",
    "byday[DATE'2026-02-04'] = 'x'",
    "array_contains(money, CAST(1 AS DECIMAL(20, 5)))",
    "array_contains(f, 1.0D)",
    "array_contains(st.l, TIMESTAMP'2026-01-31 16:00:00')",
    "array_contains(tags, 't9') AND m['k'] = 4",
    "(array_contains(tags, 't4') OR m['k'] = 7) AND array_contains(tags, 't9') IS NOT NULL",
    "CAST(m['k'] AS STRING) = '4'",
]
MISSES = [where.replace("4", "5") for where in HITS if "4" in where and "2026" not in where][::4]
KEPT = [
    "NOT array_contains(tags, 't4')",
    "array_contains(tags, 't4') IS NULL",
    "array_contains(tags, 't4') <=> FALSE",
    "m['k'] <> 4",
    "m['k'] > 4",
    "m['k'] IS NULL",
    "m['k'] <=> NULL",
    "coalesce(m['k'], 4) = 4",
    "array_contains(tags, 't9')",
    "CAST(m['k'] AS STRING) > '4'",
    "array_contains(transform(tags, t -> 't4'), 't4')",
    "array_contains(array('t4'), tags[0])",
    "arrays_overlap(tags, array(concat('t', CAST(id AS STRING))))",
    "forall(tags, x -> x = 't4')",
    "exists(tags, x -> x <> 't4')",
    "exists(items, i -> i.sku = id)",
    "array_contains(f, double('NaN'))",
    "array_contains(CAST(f AS ARRAY<STRING>), '1.0')",
    "array_contains(CAST(n AS ARRAY<FLOAT>), CAST(4 AS FLOAT))",
    "split_part(tags[0], 't', 9) = ''",
]


SKIPPED = {**dict.fromkeys(HITS, 5), **dict.fromkeys(MISSES, 6), **dict.fromkeys(KEPT, 0)}


def test_rows_are_sparks_and_other_row_groups_are_skipped(path: str, jar_spark: SparkSession) -> None:
    frame = read(jar_spark, JAR, path)
    assert [row["id"] for row in frame.where(" AND ".join(HITS)).collect()] == [40]
    assert skipped_by(frame, SKIPPED) == SKIPPED


def test_a_default_is_not_null_in_older_files(path: str, jar_spark: SparkSession) -> None:
    field = StructField("late", ArrayType(StringType()), metadata={"EXISTS_DEFAULT": "array('x')"})
    schema = StructType([StructField("id", LongType()), field])
    frame = jar_spark.read.schema(schema).format(JAR).load(path).where("array_contains(late, 'x')")
    ran = run(frame)
    assert len(ran.rows) == 18
    assert not ran.plan.planned
