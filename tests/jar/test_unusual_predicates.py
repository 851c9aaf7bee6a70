"""Predicates that Spark's optimizer usually rewrites, and those that Spark builds in no query: never a stronger one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyspark_bloomparquet.jar.protocol import to_predicate
from tests.support.files import write_groups
from tests.support.spark import conf
from tests.support.spark_rows import skipped_by

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("n", pa.list_(pa.int64()))])
ROWS = [(1, "s1", [1, 7]), (2, "s2", [2]), (300, "s3", []), (None, None, None)]
# Conditions, and how many of the four row groups are skipped.
SKIPPED = {
    "NOT (id = 1 AND trim(s) = 'X')": 0,
    "NOT (id <> 1 OR trim(s) = 'X')": 3,
    "NOT (NOT (id = 1 OR trim(s) = 's3'))": 0,
    "id <=> NULL": 3,
    "n[0] <=> NULL": 0,
    "n[0] <=> 2": 3,
    "try_cast(id AS TINYINT) <=> NULL": 0,
    "try_cast(id AS TINYINT) <=> 2": 3,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four row groups of one row."""
    tables = [pa.Table.from_pylist([dict(zip(SCHEMA.names, row))], SCHEMA) for row in ROWS]
    return write_groups(tmp_path_factory.mktemp("rules") / "x.parquet", tables, ["id", "s", "n.list.element"])


def test_no_row_is_lost_without_rules_of_the_optimizer(path: str, jar_spark: SparkSession) -> None:
    """These rules move NOT to the leaves, and write `<=> NULL` as IS NULL."""
    rules = ("BooleanSimplification", "NullPropagation")
    settings = {
        "spark.sql.optimizer.excludedRules": ",".join(f"org.apache.spark.sql.catalyst.optimizer.{r}" for r in rules),
        "spark.sql.ansi.enabled": "false",
    }
    with conf(jar_spark, settings):
        assert skipped_by(jar_spark.read.parquet(path), SKIPPED) == SKIPPED


class Planned:
    """The requests to the planner for conditions that Spark did not optimize, on a file with the columns `schema`."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        self.jvm: Any = spark._jvm
        self.catalyst = self.jvm.org.apache.spark.sql.catalyst
        self._spark = spark
        self._classes: Any = spark._jsparkSession.sharedState().jarClassLoader()
        parquet = self._classes.loadClass("io.bloomparquet.spark.support.FileFormat").getEnumConstants()[0]
        struct = self.jvm.org.apache.spark.sql.types.StructType
        columns = self.catalyst.util.CharVarcharUtils.replaceCharVarcharWithStringInSchema(struct.fromDDL(schema))
        self._frame = spark.createDataFrame([], StructType.fromJson(json.loads(columns.json())))
        readers = self._new("ReaderColumns", spark._jsparkSession, parquet, columns, struct(), None, None)
        self._translator = self._new("PredicateTranslator", readers)

    def of(self, where: str) -> Any:
        analyzed: Any = self._frame.where(where)._jdf.queryExecution().analyzed()
        return self.of_catalyst(analyzed.condition())

    def of_catalyst(self, expression: Any) -> Any:
        predicate = self._translator.ofAll(self.jvm.java.util.List.of(expression))
        return None if predicate is None else json.loads(predicate.toJson().toString())

    def _new(self, name: str, *arguments: Any) -> Any:
        (constructor,) = self._classes.loadClass(f"io.bloomparquet.spark.planner.{name}").getConstructors()
        gateway: Any = self._spark.sparkContext._gateway
        array = gateway.new_array(self.jvm.java.lang.Object, len(arguments))
        for i, value in enumerate(arguments):
            array[i] = value
        return constructor.newInstance(array)


UNKNOWN = "id % 3 = 1"
ID_IS_1 = {"op": "=", "column": ["id"], "type": "int32", "value": 1}
NOT_ID_IS_1 = {"not": ID_IS_1}
B = {"op": "=", "column": ["b"], "type": "boolean", "value": True}
ID_IS_NOT_NULL = {"op": "is not null", "column": ["id"]}
S_IS_NULL = {"op": "is null", "column": ["s"]}
WEAKER = ("array_contains(n, 1)", "exists(n, x -> x = 1)", "n[0] = 1",
          "CAST(id AS STRING) = '1'", "CAST(id AS DOUBLE) = 1D", "variant_get(v, '$.a', 'int') = 1")  # fmt: skip


@pytest.mark.parametrize(
    ("where", "sent"),
    [
        ("id = 1", ID_IS_1),
        ("1 > id", {"op": "<", "column": ["id"], "type": "int32", "value": 1}),
        (UNKNOWN, None),
        (f"id = 1 AND {UNKNOWN}", ID_IS_1),
        (f"id = 1 OR {UNKNOWN}", None),
        (f"NOT (id = 1 AND {UNKNOWN})", None),
        (f"NOT (id = 1 OR {UNKNOWN})", NOT_ID_IS_1),
        (f"NOT NOT (id = 1 AND {UNKNOWN})", {"not": NOT_ID_IS_1}),
        (f"NOT NOT (id = 1 OR {UNKNOWN})", None),
        (f"id = 1 OR (id IS NOT NULL AND {UNKNOWN})", {"or": [ID_IS_1, ID_IS_NOT_NULL]}),
        ("b", B),
        ("NOT b", {"not": B}),
        ("s IS NULL", S_IS_NULL),
        ("id = 1 OR b OR s IS NULL", {"or": [ID_IS_1, B, S_IS_NULL]}),
        (f"id = 1 OR ((b OR s IS NULL) AND {UNKNOWN})", {"or": [ID_IS_1, B, S_IS_NULL]}),
        ("id IN (1, 2, 3, 4)", {"op": "in", "column": ["id"], "type": "int32", "values": [1, 2, 3, 4]}),
        ("lower(s) = 'a'", {"op": "=", "case": "lower", "column": ["s"], "type": "string", "value": "a"}),
        ("upper(s) IN ('A')", {"op": "in", "case": "upper", "column": ["s"], "type": "string", "values": ["A"]}),
        ("lower(s) < 'a'", None),
        ("lower(c) = 'a'", None),
        ("lower(n[0]) = '1'", None),
        ("startswith(s, 'a')", {"op": "starts with", "column": ["s"], "type": "string", "value": "a"}),
        ("c = 'a'", None),  # Spark pads what it reads of CHAR
        ("w = 'a'", None),
        *((f"NOT ({condition})", None) for condition in WEAKER),
        *((f"NOT ({condition} OR id = 1)", NOT_ID_IS_1) for condition in WEAKER),
    ],
)
def test_parts_that_are_not_known_are_left_out(where: str, sent: Any, jar_spark: SparkSession) -> None:
    """A part that the planner does not know is left out where that makes the predicate weaker, and only there."""
    schema = "id INT, s STRING, b BOOLEAN, n ARRAY<INT>, v VARIANT, c CHAR(3), w VARCHAR(3)"
    assert Planned(jar_spark, schema).of(where) == sent


@pytest.mark.parametrize("condition", WEAKER)
def test_conditions_that_are_only_necessary_are_sent(condition: str, jar_spark: SparkSession) -> None:
    assert Planned(jar_spark, "id INT, n ARRAY<INT>, v VARIANT").of(condition) is not None


@pytest.mark.parametrize(("levels", "is_sent"), [(49, True), (50, False)])
def test_deeper_predicates_than_the_planner_takes_are_not_sent(
    levels: int, is_sent: bool, jar_spark: SparkSession
) -> None:
    """Each level here is an OR in an AND."""
    where = "id = 1"
    for _ in range(levels):
        where = f"(id < 5 AND (id = 2 OR {where}))"
    sent = Planned(jar_spark, "id INT").of(where)
    assert (sent is not None) == is_sent
    if is_sent:
        to_predicate(sent)


def test_a_default_for_missing_elements_is_in_no_file(jar_spark: SparkSession) -> None:
    planned = Planned(jar_spark, "n ARRAY<INT>")
    expressions, option = planned.catalyst.expressions, planned.jvm.scala.Option
    column = jar_spark.sql("SELECT array(1) AS n")._jdf.queryExecution().analyzed().output().head()
    first, looked_up = (expressions.Literal(number, column.dataType().elementType()) for number in (1, 12))

    def sent(default: Any) -> Any:
        element = expressions.ElementAt(column, first, default, False)
        return planned.of_catalyst(expressions.EqualTo(element, looked_up))

    assert sent(option.empty())["op"] == "contains"
    assert sent(option.apply(looked_up)) is None
