"""One statement, run by plain Spark and by one way in, under equal settings: the rows or the errors must be equal.

Plain Spark reads everything and filters the rows itself, so its rows are right.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

import bloomparquet as bp
from pyspark_bloomparquet import last_plan
from tests.differential import sparkside
from tests.differential.loads import Load
from tests.differential.random_sql import Statement
from tests.differential.settings import PRUNED, UNPRUNED
from tests.support.scenarios import PYTHON as PYTHON_SOURCE
from tests.support.spark import conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN, JAR, WHERE, PYTHON, PYTHON_WHERE, READ_TABLE = "plain", "jar", "where", "python", "python where", "read_table"
"""The ways in: Spark's own scans, the jar's format without and with the option `where`, the Python data source by Spark
and called without it, and `bp.read_table`."""
WAYS = (PLAIN, JAR, WHERE, PYTHON, PYTHON_WHERE, READ_TABLE)
IN_PYTHON = (READ_TABLE, PYTHON_WHERE)
"""The ways in that need no JVM."""
_JAR_FORMAT = {"parquet": "bloomparquet", "orc": "bloomorc"}
_ALWAYS = {"spark.sql.binaryOutputStyle": "HEX", "spark.sql.python.filterPushdown.enabled": "true"}
ERRORS = (PySparkException, Py4JError)
_ONLY_IDS = StructType([StructField("rid", LongType())])  # with other columns, it refuses files for their sake
_GREGORIAN = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days


@dataclass(frozen=True)
class Pair:
    load: Load
    statement: Statement
    way: str

    def __str__(self) -> str:
        load = self.load
        lines = [
            f"{load.data.format} by {self.way!r}, loaded by {load.entry!r}, options {dict(load.options)}",
            f"  schema: {load.schema}",
            f"  files: {load.data.notes}",
            f"  settings: {dict(load.settings)}",
            f"  {self.statement.sql('t')}",
        ]
        if load.at_load != load.settings:
            lines.insert(4, f"  settings at load: {dict(load.at_load)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """The sorted rows of a query as texts, or the kind of its error. `plans` are those of pruned scans."""

    rows: tuple[str, ...] = ()
    error: str = ""
    message: str = field(default="", compare=False)
    is_of_task: bool = field(default=False, compare=False)  # the error is one of reading, not of the statement
    plans: tuple[Any, ...] = field(default=(), compare=False)


def run(spark: SparkSession, pair: Pair, way: str | None) -> Outcome:
    """The outcome of the pair's statement by a way in; None: by plain Spark."""
    if way in IN_PYTHON:
        return run_in_python(pair)
    try:
        with table(spark, pair.load, way, "t", pair.statement.predicate.sql()) as name, settings(spark, pair.load, way):
            frame = spark.sql(f"SELECT rid FROM {name}" if way == WHERE else pair.statement.sql(name))
            rows = _rows(spark, frame)
            return Outcome(rows, plans=() if way in (None, PYTHON) else tuple(last_plan(frame)))
    except ERRORS as error:
        causes = re.findall(r"(?m)^Caused by: (.*)|^([\w.]*Error: .*)", str(error))
        message = ("".join(causes[-1]) if causes else str(error))[:400]
        # The JVM leaves out the stack of an error that it throws often.
        is_of_task = re.search(r"executor\.Executor\$TaskRunner|aborted due to stage failure", str(error)) is not None
        return Outcome(error=kind_of_error(error), message=message, is_of_task=is_of_task)


def settings(spark: SparkSession, load: Load, way: str | None) -> contextlib.AbstractContextManager[None]:
    """The settings of a query in a block."""
    return conf(spark, {**_ALWAYS, **load.settings, **_pruning(way)})


def _pruning(way: str | None) -> Mapping[str, str]:
    return {None: UNPRUNED, PLAIN: PRUNED}.get(way, {})


def run_in_python(pair: Pair) -> Outcome:
    """The ids of the rows for which the predicate is TRUE, by a way in that needs no JVM."""
    load, where = pair.load, pair.statement.predicate.sql()
    try:
        if pair.way == READ_TABLE:
            given: dict[str, Any] = {"timezone": load.zone, "case_sensitive": load.case_sensitive}
            plan = bp.plan(load.data.root, where, **given)
            table = bp.read_table(load.data.root, where, ["rid"], **given)
            rids, plans = table.column("rid").to_pylist(), (plan,)
        else:
            options = {"where": where, "timeZone": load.zone, "caseSensitive": str(load.case_sensitive).lower()}
            table = sparkside.read_by_data_source(load.data.root, _ONLY_IDS, **options)
            rids, plans = table.column("rid").to_pylist() if table.num_columns else [], ()
        return Outcome(tuple(sorted(str(rid) for rid in rids)), plans=plans)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        kind = f"bloomparquet: {type(error).__name__}" if isinstance(error, bp.BloomParquetError) else ""
        return Outcome(error=kind or type(error).__name__, message=str(error)[:400])


def _rows(spark: SparkSession, frame: Any) -> tuple[str, ...]:
    """Rows as Spark's SQL shell prints them: it supports all types and years."""
    jvm: Any = spark._jvm
    result = jvm.org.apache.spark.sql.execution.HiveResult.hiveResultString(frame._jdf.queryExecution().executedPlan())
    text = result.mkString("\x01") if result.length() else None
    return () if text is None else tuple(sorted(comparable(row) for row in text.split("\x01")))


def as_structs(rids: tuple[str, ...]) -> tuple[str, ...]:
    """Row ids as Spark writes structs of them."""
    return tuple(sorted(f"{{{rid}}}" for rid in rids))


def comparable(row: str) -> str:
    """-0.0 becomes 0.0, as they are equal."""
    return re.sub(r"-0\.0\b", "0.0", row)


def kind_of_error(error: Exception) -> str:
    text = str(error)
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", text)
    classes = re.findall(r"(?:java|org|io)\.[\w.]+\.(\w+(?:Exception|Error))", text)
    return condition.group(1) if condition else (classes[-1] if classes else type(error).__name__)


@contextlib.contextmanager
def table(spark: SparkSession, load: Load, way: str | None, name: str, where: str = "") -> Iterator[str]:
    """Load the data set by a way in. Gives the name of the table.

    For `WHERE`, the load has the condition `where`.
    """
    data, root = load.data, str(load.data.root)
    format_ = {None: data.format, PLAIN: data.format, PYTHON: PYTHON_SOURCE}.get(way, _JAR_FORMAT[data.format])
    reader = spark.read.format(format_).options(**load.options)
    if load.schema is not None:
        reader = reader.schema(load.schema)
    if way == PYTHON:
        reader = reader.options(timeZone=load.zone, pushFilters="on")  # it cannot see the session's zone
    if way == WHERE:
        reader = reader.option("where", where)
    columns = "" if load.schema is None else f"({load.schema})"
    given = ", ".join(f"`{key}` '{value}'" for key, value in {**load.options, "path": root}.items())
    with conf(spark, {**load.at_load, **_pruning(way)}):
        if load.entry == "path":
            name = f"{format_}.`{root}`"
        elif load.entry == "using":
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} {columns} USING {format_} OPTIONS ({given})")
        elif load.entry == "table":
            name = f"pair_{name}"
            spark.sql(f"DROP TABLE IF EXISTS {name}")
            spark.sql(f"CREATE TABLE {name} {'' if data.partitions else columns} USING {format_} OPTIONS ({given})")
            if data.partitions and "recursiveFileLookup" not in load.options:
                spark.sql(f"ALTER TABLE {name} RECOVER PARTITIONS")
        elif load.entry == "files":
            files = sorted(str(p) for p in data.root.rglob(f"*.{data.format}") if "_bloomparquet" not in str(p))
            reader.option("basePath", root).load(files).createOrReplaceTempView(name)
        else:
            reader.load(root).createOrReplaceTempView(name)
    try:
        yield name
    finally:
        if load.entry == "table":
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def compare(spark: SparkSession, pair: Pair, tally: Counter[str]) -> str | None:
    """The difference between both outcomes. None if they agree, or differ in a way that is known and counted."""
    sparks = run(spark, pair, None)
    ours = run(spark, pair, pair.way)
    tally["pairs"] += 1
    tally[pair.way] += 1
    count_plans(ours.plans, pair.way, tally)
    if ours.error and sparks.error:
        tally["both fail"] += 1
        return None
    if sparks.error:
        tally["rows for Spark's error"] += 1
        if _may_have_rows(pair, ours, sparks):
            return None
        # ORC's pushdown may not read what fails.
        known = "Spark's pushdown differs as well" if _is_as_pushed(spark, pair, ours) else None
        difference = f"rows, and Spark fails: {sparks.message}"
    elif ours.error:
        known = _why_ours_fails_alone(spark, pair, ours)
        difference = f"fails, and Spark has {len(sparks.rows)} rows: {ours.error}: {ours.message}"
    else:
        tally["with rows"] += bool(sparks.rows)
        if ours.rows == sparks.rows:
            return None
        known = _why_rows_differ(spark, pair, ours, sparks)
        lost, extra = Counter(sparks.rows) - Counter(ours.rows), Counter(ours.rows) - Counter(sparks.rows)
        difference = f"{len(ours.rows)} rows for {len(sparks.rows)}; lost {list(lost)[:5]}, extra {list(extra)[:5]}"
    if known is None:
        return difference
    tally[known] += 1
    return None


def _may_have_rows(pair: Pair, ours: Outcome, sparks: Outcome) -> bool:
    """Whether skipping, or another order of evaluation, can hide what Spark fails for."""
    # Skipping a row group can hide a row that fails, and skipping a file can hide that it is damaged.
    hidden = sparks.is_of_task and any(plan.kept < plan.total or plan.total == 0 for plan in ours.plans)
    return hidden or pair.way in (PYTHON, *IN_PYTHON) or sparks.error in _ROW_ERRORS


def _why_ours_fails_alone(spark: SparkSession, pair: Pair, ours: Outcome) -> str | None:
    """The name under which an error for rows of Spark is counted; None for a difference."""
    if is_refusal(pair.way, ours):
        return f"{pair.way}: refused by name"
    if pair.way != PLAIN and _pushed(spark, pair).error:  # for example ORC's, for NULL in an IN list
        return "Spark's pushdown fails as well"
    return None


def _why_rows_differ(spark: SparkSession, pair: Pair, ours: Outcome, sparks: Outcome) -> str | None:
    """The name under which other rows than Spark's are counted; None for a difference."""
    if _is_as_pushed(spark, pair, ours):  # for example ORC's, for fields of null structs
        return "Spark's pushdown differs as well"
    if pair.way == READ_TABLE and _names_old_days(pair):
        return "other days than Spark's"
    if pair.way in IN_PYTHON and _names_mixed_numbers(pair):
        return "other numbers than Spark's"
    is_python = pair.way in (PYTHON, *IN_PYTHON)
    if is_python and not Counter(sparks.rows) - Counter(ours.rows) and _ignores_errors(pair.load):
        return "rows for Spark's error"
    return None


def _ignores_errors(load: Load) -> bool:
    """Whether Spark leaves out the rest of a file that it fails to read."""
    settings = {**load.settings, **load.at_load}
    return "true" in (load.options.get("ignoreCorruptFiles"), settings.get("spark.sql.files.ignoreCorruptFiles"))


def _names_old_days(pair: Pair) -> bool:
    """Whether a statement names a column of ORC with days before the Gregorian calendar. Its writer names no calendar
    there, so pyarrow and Spark show other days."""
    data = pair.load.data
    old = [c for c in data.columns if c.type.name == "date" and min(c.pool) < _GREGORIAN]
    return data.format == "orc" and any(column.sql in pair.statement.predicate.sql() for column in old)


def _names_mixed_numbers(pair: Pair) -> bool:
    """Whether a statement names a column of several types of integers and decimals. Spark reads other numbers where a
    value does not fit the first file's type."""
    data, where = pair.load.data, pair.statement.predicate.sql()
    types: dict[str, set[pa.DataType]] = {column.name: set() for column in data.columns if column.sql in where}
    for path in data.root.rglob("*.parquet"):
        with contextlib.suppress(pa.ArrowException, OSError):  # a damaged file
            for name in types.keys() & set((schema := pq.read_schema(path)).names):
                types[name].add(schema.field(name).type)
    return any(
        len(each) > 1 and all(pa.types.is_integer(one) or pa.types.is_decimal(one) for one in each)
        for each in types.values()
    )


def count_plans(plans: Any, way: str, tally: Counter[str]) -> None:
    """Count scans and what they skipped."""
    for plan in plans:
        tally["row groups"] += plan.total
        tally.update(plan.skipped)
        tally[f"{way}: scans that skipped"] += plan.skipped.total() > 0


def is_refusal(way: str, outcome: Outcome) -> bool:
    """Whether an error says that this way in does not support the statement."""
    if way in IN_PYTHON:
        return outcome.error in {f"bloomparquet: {kind}Error" for kind in ("Plan", "Unsupported", "Option", "Format")}
    named = re.match(r".*bloomparquet\.errors\.(Unsupported|Plan|Option)Error", outcome.message)
    return bool(named) if way == PYTHON else way == WHERE and "where" in outcome.message


def _pushed(spark: SparkSession, pair: Pair, **more: str) -> Outcome:
    """The outcome by Spark's own reader, with its own pushdown and `more` settings."""
    pushing = {key: "true" for key in UNPRUNED if key.endswith("ilterPushdown")} | more
    load = replace(pair.load, settings={**pair.load.settings, **pushing})
    try:
        with table(spark, load, None, "t") as name, conf(spark, {**_ALWAYS, **load.settings, **UNPRUNED, **pushing}):
            return Outcome(_rows(spark, spark.sql(pair.statement.sql(name))))
    except ERRORS as error:
        return Outcome(error=kind_of_error(error))


def _is_as_pushed(spark: SparkSession, pair: Pair, ours: Outcome) -> bool:
    """Whether our rows are those of Spark's own reader with its pushdown, which plain scans do not use here. A planned
    scan does not ask filters again, so that it finds -0.0 for 0.0 where the reader's filter would exclude it."""
    if pair.way == PLAIN:
        return False
    filters = ({}, {"parquet.filter.bloom.enabled": "false"})
    return any(
        not pushed.error and pushed.rows == ours.rows for pushed in (_pushed(spark, pair, **each) for each in filters)
    )


_ROW_ERRORS = {
    "CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW", "DIVIDE_BY_ZERO", "NUMERIC_VALUE_OUT_OF_RANGE",
    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION",
    "INVALID_ARRAY_INDEX",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
    "BINARY_ARITHMETIC_OVERFLOW",
}  # fmt: skip
"""Errors in an expression on one row's values."""
