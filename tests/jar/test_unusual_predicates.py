"""Predicates that Spark's optimizer usually rewrites, and those that Spark builds in no query: never a stronger one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.files import write_groups
from tests.support.plain import compare
from tests.support.spark import conf

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("n", pa.list_(pa.int64()))])
ROWS = [(1, "s1", [1, 7]), (2, "s2", [2]), (300, "s3", []), (None, None, None)]
# Conditions, and how many of the four row groups are skipped.
SKIPPED = {
    "NOT (id = 1 AND trim(s) = 'X')": 0,
    "NOT (id <> 1 OR trim(s) = 'X')": 3,
    "NOT (NOT (id = 1 AND trim(s) = 's1'))": 3,
    "NOT (NOT (id = 1 OR trim(s) = 's3'))": 0,
    "NOT (NOT (id = 1 OR s = 's3'))": 2,
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


@pytest.mark.parametrize("where", SKIPPED)
def test_no_row_is_lost_without_rules_of_the_optimizer(where: str, path: str, jar_spark: SparkSession) -> None:
    """These rules move NOT to the leaves, and write `<=> NULL` as IS NULL."""
    rules = ("BooleanSimplification", "NullPropagation")
    settings = {
        "spark.sql.optimizer.excludedRules": ",".join(f"org.apache.spark.sql.catalyst.optimizer.{r}" for r in rules),
        "spark.sql.ansi.enabled": "false",
    }
    with conf(jar_spark, settings):
        ran = compare(jar_spark, lambda: jar_spark.read.parquet(path).where(where))
    assert ran.skipped == SKIPPED[where]


class Planned:
    """The requests to the planner for predicates, made by hand, on a file with the columns `schema`."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        self.jvm: Any = spark._jvm
        self.api = self.jvm.org.apache.spark.sql.connector.expressions
        self.catalyst = self.jvm.org.apache.spark.sql.catalyst
        self._gateway: Any = spark.sparkContext._gateway
        classes = spark._jsparkSession.sharedState().jarClassLoader()
        parquet = classes.loadClass("io.bloomparquet.spark.support.FileFormat").getEnumConstants()[0]
        struct = self.jvm.org.apache.spark.sql.types.StructType
        columns = self.catalyst.util.CharVarcharUtils.replaceCharVarcharWithStringInSchema(struct.fromDDL(schema))
        (constructor,) = classes.loadClass("io.bloomparquet.spark.planner.PlannerPredicate").getConstructors()
        given = (spark._jsparkSession, parquet, columns, struct(), None)
        self._translator = constructor.newInstance(self._array(self.jvm.java.lang.Object, given))

    def of_connector(self, tree: tuple[Any, ...]) -> Any:
        """For a predicate of Spark's connector API: its name and its children. Text is a column, bytes are text."""
        return self._sent(self._array(self.api.filter.Predicate, [self._expression(tree)]))

    def of_catalyst(self, expression: Any) -> Any:
        return self._sent(self.jvm.java.util.List.of(expression))

    def _sent(self, given: Any) -> Any:
        json_node = self._translator.ofAll(given)
        return None if json_node is None else json.loads(json_node.toString())

    def _expression(self, part: Any) -> Any:
        if isinstance(part, str):
            return self.api.FieldReference.apply(part)
        if isinstance(part, bytes):
            text = self.jvm.org.apache.spark.unsafe.types.UTF8String.fromString(part.decode())
            return self.api.LiteralValue(text, self.jvm.org.apache.spark.sql.types.DataTypes.StringType)
        if not isinstance(part, tuple):
            return self.api.Expressions.literal(part)
        name, *children = part
        array = self._array(self.api.Expression, [self._expression(child) for child in children])
        kind = self.api.GeneralScalarExpression if name in ("LOWER", "UPPER") else self.api.filter.Predicate
        return kind(name, array)

    def _array(self, kind: Any, values: Sequence[Any]) -> Any:
        array = self._gateway.new_array(kind, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array


KNOWN, UNKNOWN = ("=", "id", 1), ("UNKNOWN", "id", 1)
ID_IS_1 = {"op": "=", "column": ["id"], "type": "int32", "value": 1}
NOT_ID_IS_1 = {"not": ID_IS_1}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (KNOWN, ID_IS_1),
        (UNKNOWN, None),
        (("<>", "id", 1), NOT_ID_IS_1),
        (("AND", KNOWN, UNKNOWN), ID_IS_1),
        (("OR", KNOWN, UNKNOWN), None),
        (("NOT", ("AND", KNOWN, UNKNOWN)), None),
        (("NOT", ("OR", KNOWN, UNKNOWN)), NOT_ID_IS_1),
        (("NOT", ("NOT", ("AND", KNOWN, UNKNOWN))), {"not": NOT_ID_IS_1}),
        (("NOT", ("NOT", ("OR", KNOWN, UNKNOWN))), None),
        (("=", ("LOWER", "s"), b"a"), {"op": "=", "case": "lower", "column": ["s"], "type": "string", "value": "a"}),
        (("=", ("LOWER", "id"), 1), None),
        (("=", "s", b"a"), {"op": "=", "column": ["s"], "type": "string", "value": "a"}),
        (("=", "c", b"a"), None),  # Spark pads what it reads of CHAR
        (("=", "v", b"a"), None),
    ],
)
def test_predicates_that_spark_does_not_push(given: tuple[Any, ...], sent: Any, jar_spark: SparkSession) -> None:
    """A part that the planner does not know is left out where that makes the predicate weaker, and only there."""
    assert Planned(jar_spark, "id INT, s STRING, c CHAR(3), v VARCHAR(3)").of_connector(given) == sent


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
