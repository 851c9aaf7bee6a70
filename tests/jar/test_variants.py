"""Conditions on fields of shredded VARIANT columns, in queries of Spark's own sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.support.files import write_groups
from tests.support.plain import compare
from tests.support.scenarios import PRUNED
from tests.support.spark import conf
from tests.support.spark_rows import skipped_by

pytestmark = pytest.mark.slow

# Spark 4.0 neither shreds nor reads shredded files unless it is told to.
SETTINGS = {"spark.sql.variant.writeShredding.enabled": "true", "spark.sql.variant.allowReadingShredded": "true"}
SETTINGS["spark.sql.codegen.factoryMode"] = "FALLBACK"  # Spark cannot interpret casts of VARIANT values
FORCED, PUSHED = "spark.sql.variant.forceShreddingSchemaForTest", "spark.sql.variant.pushVariantIntoScan"
LEAVES = ["a", "b", "c.d"]
SHREDDED = "a BIGINT, b STRING, `c.d` INT, p DECIMAL(18, 1), o STRUCT<x: BIGINT>, l ARRAY<BIGINT>"

# Row groups of integers from 10 i to 10 i + 4, in which odd ones are missing. One in which some fields are missing; one
# in which the same fields are missing, while others are not shredded; one with values of other types.
GROUPS = [
    [
        f'{{"a": {n}, "b": "s{n}", "c.d": {n}, "p": {n // 10}.{n % 10}, "o": {{"x": {n}}}, "l": [{n}]}}'
        for n in range(10 * i, 10 * i + 6, 2)
    ]
    for i in range(4)
]
MISSING = ['{"a": 40}', '{"b": "s44", "c.d": 44, "p": 4.4, "o": {"x": 44}}', "{}"]
PARTIAL = ['{"a": 50, "zz": 1}', '{"b": "s54", "c.d": 54, "p": 5.4, "o": {"x": 54, "y": 1}}', "{}"]
ODD = [
    '{"a": "12"}', '{"a": 12.0, "b": 12}', '{"a": null, "b": "s12"}', '{"a": "x", "p": 1.25}', '{"c.d": 99}', "12",
    "[12]", "null", "{}", '{"A": 12}', '{"a": true, "o": {"x": "12"}, "p": "1.2"}', '{"o": 12, "c.d": 12.5}',
    '{"p": 1e0, "b": {"x": 1}}',
]  # fmt: skip


@pytest.fixture(autouse=True)
def shredding(jar_spark: SparkSession) -> Iterator[None]:
    with conf(jar_spark, SETTINGS):
        yield


@pytest.fixture(scope="module")
def path(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Seven files of one row group."""
    path = str(tmp_path_factory.mktemp("variants") / "t")
    with conf(jar_spark, SETTINGS | {FORCED: SHREDDED}):
        for i, group in enumerate([*GROUPS, MISSING, PARTIAL, ODD]):
            rows = [(100 * i + k, text) for k, text in enumerate([*group, None] if group is ODD else group)]
            frame = jar_spark.createDataFrame(rows, "id BIGINT, j STRING").coalesce(1)
            frame = frame.selectExpr("id", "parse_json(j) AS v", "named_struct('w', parse_json(j)) AS st")
            writer = frame.write.mode("append")
            for name in LEAVES:
                leaf = f"v.typed_value.{name}.typed_value"
                writer = writer.option(f"parquet.bloom.filter.enabled#{leaf}", "true")
                writer = writer.option(f"parquet.enable.dictionary#{leaf}", "false")
            writer.parquet(path)
    return path


# Conditions, and how many row groups are skipped. The last two never are: a value may lie outside of its leaf.
SKIPPED = {
    "try_variant_get(v, '$.a', 'bigint') = 12": 4,
    "try_variant_get(v, '$.a', 'bigint') = 13": 5,
    "try_variant_get(v, '$.a', 'int') IN (12, 13, 33, NULL)": 4,
    "try_variant_get(v, '$.a', 'int') <=> 12": 4,
    "try_variant_get(v, '$.a', 'double') = 12D": 4,
    "try_variant_get(v, '$.a', 'bigint') < 10": 4,
    "try_variant_get(st.w, '$.a', 'bigint') = 12": 4,
    "variant_get(v, '$.b', 'string') = 's12'": 4,
    "try_variant_get(v, '$[\"c.d\"]', 'int') = 12": 4,
    "try_variant_get(v, \"$['c.d']\", 'bigint') = 13": 4,
    "try_variant_get(v, '$.p', 'double') = 1.2D": 4,
    "try_variant_get(v, '$.o.x', 'bigint') = 12": 4,
    "try_variant_get(variant_get(v, '$.o'), '$.x', 'bigint') = 12": 4,
    "try_variant_get(v, '$.a', 'bigint') = 12 AND try_variant_get(v, '$.b', 'string') = 's32'": 5,
    "try_variant_get(v, '$.a', 'bigint') = 12 OR try_variant_get(v, '$.a', 'string') = 'x'": 0,
    "try_variant_get(v, '$.p', 'decimal(18,0)') = 1": 0,
    "try_variant_get(v, '$.A', 'bigint') = 12": 0,
    "try_variant_get(v, '$.zz', 'bigint') = 12": 0,
    "try_variant_get(v, '$.l[0]', 'bigint') = 9": 0,
    "try_variant_get(v, '$.o', 'struct<x BIGINT>').x = 9": 0,
    "try_variant_get(v, '$.a', 'bigint') IS NULL": 0,
    "try_variant_get(v, '$.a', 'bigint') <=> NULL": 0,
    "NOT try_variant_get(v, '$.a', 'bigint') <=> 12": 0,
    "try_variant_get(v, '$.a', 'bigint') <> 12": 0,
}


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_rows_are_those_of_an_unpruned_scan(pushed: str, path: str, jar_spark: SparkSession) -> None:
    """Whether Spark's optimizer lets the scan extract the field or not."""
    with conf(jar_spark, {PUSHED: pushed}):
        assert skipped_by(jar_spark.read.parquet(path), SKIPPED, "id") == SKIPPED


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t WHERE {a} <= 22",
        "SELECT st FROM t WHERE try_variant_get(st.w, '$.a', 'bigint') = 12",
        "SELECT *, {a} AS a FROM t WHERE id < 200 ORDER BY id DESC LIMIT 5",
        "SELECT t.v, k.id FROM t JOIN (VALUES (12L), (22L)) k(id) ON {a} = k.id WHERE {a} > 2",
        "SELECT * FROM t x WHERE id IN (SELECT id FROM t WHERE {a} = 12)",
    ],
)
def test_whole_values_beside_conditions_on_fields(query: str, path: str, jar_spark: SparkSession) -> None:
    """Spark 4.3 gives a source that extracts the field a struct in place of the whole value."""
    sql = query.format(a="try_variant_get(v, '$.a', 'bigint')")
    results = []
    for format_ in ("parquet", "bloomparquet"):
        jar_spark.read.format(format_).load(path).createOrReplaceTempView("t")
        results.append(sorted(map(repr, jar_spark.sql(sql).collect())))
    assert results[0] == results[1]
    assert results[0]


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="v:a is new in Spark 4.1")
def test_the_operator_of_fields(path: str, jar_spark: SparkSession) -> None:
    for where in ("try_cast(v:a AS BIGINT) = 12", "try_cast(v:['c.d'] AS INT) = 12", "try_cast(v:o.x AS BIGINT) = 12"):
        ran = compare(jar_spark, lambda where=where: jar_spark.read.parquet(path).where(where).select("id"))
        assert ran.skipped == 4


def test_explain_shows_the_field(path: str, jar_spark: SparkSession) -> None:
    with conf(jar_spark, PRUNED):
        frame = jar_spark.read.parquet(path).where("try_variant_get(v, '$.a', 'int') IN (12, 13)")
        frame.collect()
        text = frame._jdf.queryExecution().executedPlan().toString()
    assert "variant_get(v, $.a, int) IN (12, 13)" in text


METADATA = b"\x01\x01\x00\x01a"  # the names of fields: a
SEVEN, OBJECT = b"\x0c\x07", b"\x02\x01\x00\x00\x02\x0c\x07"  # the int8 7, and {"a": 7}
LEAF = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
VARIANT = pa.struct(
    [
        pa.field("metadata", pa.binary(), False),
        pa.field("value", pa.binary()),
        pa.field("typed_value", pa.struct([pa.field("a", LEAF, False)])),
    ]
)


def row(typed: int | None, residual: bytes | None = None, value: bytes | None = None) -> dict[str, Any]:
    field = {"a": {"value": residual, "typed_value": typed}}
    return {"metadata": METADATA, "value": value, "typed_value": None if value == OBJECT else field}


FORGED = [
    [row(1), row(5)],
    [row(1), row(None, value=OBJECT)],  # against the specification: an object must be shredded
    [row(5, residual=SEVEN), row(5)],  # against the specification: two values, of which readers take the typed one
    [row(1), row(9)],
    [row(1), row(None, residual=SEVEN)],
    [row(1), row(2**32 + 7)],
]


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_files_that_break_the_rules(pushed: str, jar_spark: SparkSession, tmp_path: Path) -> None:
    """Rows are those that Spark returns, also where another reader would return others; integers do not wrap around."""
    groups = [
        pa.table({"id": pa.array([10 * i, 10 * i + 1]), "v": pa.array(rows, VARIANT)}) for i, rows in enumerate(FORGED)
    ]
    write_groups(tmp_path / "x.parquet", groups, ["v.typed_value.a.typed_value"])
    with conf(jar_spark, {PUSHED: pushed}):
        for kind in ("int", "bigint"):
            where = f"try_variant_get(v, '$.a', '{kind}') = 7"
            frame = jar_spark.read.schema("id BIGINT, v VARIANT").parquet(str(tmp_path))
            ran = compare(jar_spark, lambda frame=frame, where=where: frame.where(where).select("id"))
            assert ran.rows == (["(41,)"] if pushed == "true" else ["(11,)", "(41,)"])
            assert (ran.kept, ran.skipped) == ([2], 4)
