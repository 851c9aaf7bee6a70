"""Runs each query twice, through the jar and through Spark's own reader, under equal random settings.

The jar's side is its own source, or Spark's own source with pruning.

The name of a pair, ``seed:data set:number``, reproduces it: ``BLOOMPARQUET_PAIR=7:12:3`` runs only that pair. Spark's
reader pushes nothing down, so its rows are right.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pyspark_bloomparquet import last_plan
from tests.differential import random_files, random_sql
from tests.differential.random_files import DataSet
from tests.differential.random_sql import Statement
from tests.differential.settings import PRUNED, UNPRUNED, random_settings
from tests.support.scenarios import PYTHON
from tests.support.spark import conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAR = {"parquet": "bloomparquet", "orc": "bloomorc"}
PER_DATA_SET = 8
_ALWAYS = {"spark.sql.binaryOutputStyle": "HEX"}
_ENTRIES = ("load", "load", "load", "using", "path", "table", "where", "sql view", "files")


@dataclass(frozen=True)
class Outcome:
    """The sorted rows of a query as texts, or the kind of its error."""

    rows: tuple[str, ...] = ()
    error: str = ""
    message: str = field(default="", compare=False)


@dataclass(frozen=True)
class Pair:
    """A query and its settings: `at_load` while the files are loaded, `settings` while the query runs."""

    name: str
    data: DataSet
    statement: Statement
    entry: str
    schema: str | None
    options: Mapping[str, str]
    settings: Mapping[str, str]
    at_load: Mapping[str, str]
    reader: str

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.data.format} through {self.reader} by {self.entry!r}, options {dict(self.options)}\n"
            f"  schema: {self.schema}\n"
            f"  files: {self.data.notes}\n  settings: {dict(self.settings)}\n"
            + (f"  settings at load: {dict(self.at_load)}\n" if self.at_load != self.settings else "")
            + f"  {self.statement.sql('t')}\n  where: {self.statement.predicate.sql()}"
        )


def data_set(spark: SparkSession, seed: str, number: int, home: Path) -> DataSet:
    """Write the files of a data set: by Arrow and others, or by Spark's own writers."""
    random = Random(f"{seed}:{number}")
    format_ = random.choice(("parquet", "parquet", "orc"))
    by_spark = random.random() < (0.6 if format_ == "orc" else 0.25)
    root = home / f"{seed}-{number}"
    data = random_files.write(random, root / "t", "parquet" if by_spark else format_)
    if by_spark:
        with contextlib.suppress(PySparkException, Py4JError):  # the files that Spark would have read remain
            return _by_spark(spark, random, data, format_)
    return data


def _by_spark(spark: SparkSession, random: Random, data: DataSet, format_: str) -> DataSet:
    settings = {
        "spark.sql.parquet.outputTimestampType": random.choice(("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")),
        "spark.sql.parquet.writeLegacyFormat": random.choice(("true", "false")),
        "spark.sql.parquet.datetimeRebaseModeInWrite": random.choice(("LEGACY", "CORRECTED")),
        "spark.sql.parquet.int96RebaseModeInWrite": random.choice(("LEGACY", "CORRECTED")),
        "spark.sql.orc.columnarWriterBatchSize": "4",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.caseSensitive": "true",
        **UNPRUNED,
    }
    flat = ",".join(c.name for c in data.columns if re.fullmatch(r"\w+", c.name) and c.type.name not in ("list", "map"))
    options = {
        "parquet.block.row.count.limit": random.randint(1, 9), "parquet.bloom.filter.enabled": "true",
        "parquet.bloom.filter.max.bytes": 1024, "parquet.enable.dictionary": random.choice(("true", "false")),
        "orc.stripe.row.count": random.randint(4, 9), "orc.bloom.filter.columns": flat, "orc.bloom.filter.fpp": 0.01,
    }  # fmt: skip
    root = data.root.parent / "spark"
    with conf(spark, settings):
        frame = spark.read.option("mergeSchema", "true").parquet(str(data.root))
        if len({name.lower() for name in frame.columns}) < len(frame.columns):
            return data if format_ == "parquet" else replace(data, format="parquet")
        keys = [column.name for column in data.partitions]
        writer = frame.repartition(random.randint(1, 3)).write.options(**options).partitionBy(*keys)
        writer.format(format_).save(str(root))
    return replace(data, root=root, format=format_, notes=f"{data.notes}; rewritten by Spark {settings} {options}")


def pair(data: DataSet, seed: str, number: int, of_data: int) -> Pair:
    random = Random(f"{seed}:{number}:{of_data}")
    settings = random_settings(random)
    at_load = random_settings(random) if random.random() < 0.1 else settings
    options: dict[str, str] = {}
    if random.random() < 0.25:
        key, values = random.choice(
            (
                ("mergeSchema", ("true", "false")), ("recursiveFileLookup", ("true",)),
                ("pathGlobFilter", ("*-000*", "*")),
                ("datetimeRebaseMode", ("LEGACY", "CORRECTED", "EXCEPTION")),
                ("int96RebaseMode", ("LEGACY", "CORRECTED")),
                ("ignoreCorruptFiles", ("true", "false")), ("modifiedAfter", ("2020-01-01T00:00:00",)),
            )
        )  # fmt: skip
        options[key] = random.choice(values)
    chance = random.random()
    schema = None
    if chance < 0.55:
        schema = data.ddl()
    elif chance < 0.6:  # other types than the files', most of them an error
        columns = [replace(c, type=random.choice(list(random_files.TYPES.values()))) for c in data.columns]
        schema = replace(data, columns=(*data.columns[1:], columns[0])).ddl()
    entry = random.choice(_ENTRIES)
    if schema and entry == "table" and not data.partitions and random.random() < 0.5:
        kind = random.choice(("CHAR(3)", "VARCHAR(3)", "STRING COLLATE UTF8_LCASE"))
        schema = re.sub(r"(?<=` )STRING", kind, schema)
    name, statement = f"{seed}:{number}:{of_data}", random_sql.statement(random, data)
    if entry == "where" and "bloom" in settings.get("spark.sql.sources.useV1SourceList", ""):
        entry = "load"  # without pushdown the jar's readers reject `where`
    reader = JAR[data.format]
    plain = entry in ("load", "where") and not options and not (schema and data.partitions)
    if data.format == "parquet" and plain and random.random() < 0.15:  # what the Python data source supports
        reader = PYTHON
        settings["spark.sql.python.filterPushdown.enabled"] = "true"
    elif random.random() < 0.35:
        reader, entry = data.format, "load" if entry == "where" else entry
    return Pair(name, data, statement, entry, schema, options, settings, at_load, reader)


def run(
    spark: SparkSession, pair: Pair, format_: str, settings: Mapping[str, str] | None = None
) -> tuple[Outcome, list[Any]]:
    """Run the pair's query by a reader. Gives the outcome, and the plans of its scans unless they are unpruned."""
    more = settings or {}
    try:
        with (
            _table(spark, pair, format_, more) as (table, statement),
            conf(spark, {**_ALWAYS, **pair.settings, **more}),
        ):
            frame = spark.sql(statement.sql(table))
            outcome = Outcome(_rows(spark, frame))
            return outcome, last_plan(frame) if settings is not UNPRUNED else []
    except (PySparkException, Py4JError) as error:
        causes = re.findall(r"(?m)^Caused by: (.*)|^([\w.]*Error: .*)", str(error))
        return Outcome(error=_kind(error), message=("".join(causes[-1]) if causes else str(error))[:400]), []


def _rows(spark: SparkSession, frame: DataFrame) -> tuple[str, ...]:
    """Rows as Spark's SQL shell prints them: it supports all types and years. -0.0 becomes 0.0, as they are equal."""
    jvm: Any = spark._jvm
    result = jvm.org.apache.spark.sql.execution.HiveResult.hiveResultString(frame._jdf.queryExecution().executedPlan())
    text = result.mkString("\x01") if result.length() else None
    return () if text is None else tuple(sorted(re.sub(r"-0\.0\b", "0.0", row) for row in text.split("\x01")))


def _kind(error: Exception) -> str:
    text = str(error)
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", text)
    classes = re.findall(r"(?:java|org|io)\.[\w.]+\.(\w+(?:Exception|Error))", text)
    return condition.group(1) if condition else (classes[-1] if classes else type(error).__name__)


@contextlib.contextmanager
def _table(spark: SparkSession, pair: Pair, format_: str, more: Mapping[str, str]) -> Iterator[tuple[str, Statement]]:
    """Register the table as the pair's entry says. Gives its name and the statement."""
    root, statement = str(pair.data.root), pair.statement
    reader = spark.read.format(format_).options(**pair.options)
    if pair.schema is not None and pair.entry != "path":
        reader = reader.schema(pair.schema) if pair.entry in ("load", "where", "files", "sql view") else reader
    if format_ == PYTHON:  # which cannot see the session's
        reader = reader.option("timeZone", pair.settings.get("spark.sql.session.timeZone", "UTC"))
    drop: list[str] = []
    columns = "" if pair.schema is None else f"({pair.schema})"
    given = ", ".join(f"`{key}` '{value}'" for key, value in {**pair.options, "path": root}.items())
    name = "t"
    try:
        with conf(spark, {**pair.at_load, **more}):
            if pair.entry == "path":
                name = f"{format_}.`{root}`"
            elif pair.entry == "using":
                spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t {columns} USING {format_} OPTIONS ({given})")
            elif pair.entry == "table":
                drop.append("DROP TABLE IF EXISTS pair_table")
                spark.sql("DROP TABLE IF EXISTS pair_table")
                columns = columns if not pair.data.partitions else ""
                spark.sql(f"CREATE TABLE pair_table {columns} USING {format_} OPTIONS ({given})")
                listed = format_ != pair.data.format or "recursiveFileLookup" in pair.options
                if pair.data.partitions and not listed:
                    spark.sql("ALTER TABLE pair_table RECOVER PARTITIONS")  # so that the jar lists the files
                name = "pair_table"
            elif pair.entry == "files":
                files = sorted(str(p) for p in pair.data.root.rglob(f"*.{pair.data.format}"))
                reader.option("basePath", root).load(files).createOrReplaceTempView("t")
            elif pair.entry == "where":
                where = statement.predicate.sql()
                if format_ == pair.reader:
                    reader.option("where", where).load(root).createOrReplaceTempView("t")
                else:
                    reader.load(root).where(where).createOrReplaceTempView("t")
            else:
                reader.load(root).createOrReplaceTempView("t")
            if pair.entry == "sql view":
                spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW u AS SELECT * FROM t WHERE {statement.predicate.sql()}")
                name = "u"
        yield name, statement
    finally:
        for each in drop:
            spark.sql(each)


def compare(spark: SparkSession, pair: Pair, tally: Counter[str]) -> str | None:
    """The difference between both outcomes; None if they agree."""
    ours, plans = run(spark, pair, pair.reader, PRUNED if pair.reader == pair.data.format else None)
    right, _ = run(spark, pair, pair.data.format, UNPRUNED)
    tally["pairs"] += 1
    tally[pair.reader] += 1
    for plan in plans:
        tally["row groups"] += plan.total
        tally.update(plan.skipped)
    if ours.error and right.error:
        tally["both fail"] += 1
        tally[f"both fail: {ours.error}"] += 1
        return None
    if right.error:
        tally["rows for Spark's error"] += 1
        tally[f"rows for {right.error}"] += 1
        # Skipping a row group can hide a row that fails, and skipping a file can hide that it is damaged.
        hidden = right.error.startswith("FAILED_READ_FILE") and any(plan.skipped.total() for plan in plans)
        return None if hidden or right.error in _ROW_ERRORS else f"rows, and Spark fails: {right.message}"
    if ours.error:
        if pair.reader == PYTHON and re.match(r".*bloomparquet\.errors\.(Unsupported|Plan|Option)Error", ours.message):
            tally["refused by name"] += 1
            return None
        if run(spark, pair, pair.data.format, _V1)[0].error:  # for example ORC's, for NULL in an IN list
            tally["Spark's pushdown fails as well"] += 1
            return None
        return f"fails, and Spark has {len(right.rows)} rows: {ours.error}: {ours.message}"
    tally["with rows"] += bool(right.rows)
    if ours.rows == right.rows:
        return None
    lost, extra = Counter(right.rows) - Counter(ours.rows), Counter(ours.rows) - Counter(right.rows)
    return f"{len(ours.rows)} rows for {len(right.rows)}; lost {list(lost)[:5]}, extra {list(extra)[:5]}"


_V1 = {"spark.sql.sources.useV1SourceList": UNPRUNED["spark.sql.sources.useV1SourceList"]}

_ROW_ERRORS = {
    "CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW", "DIVIDE_BY_ZERO", "NUMERIC_VALUE_OUT_OF_RANGE",
    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION",
    "INVALID_ARRAY_INDEX",
    "BINARY_ARITHMETIC_OVERFLOW",
}  # fmt: skip
"""Errors in an expression on one row's values."""


def _sort(difference: str | None) -> list[str]:
    """What differs: the rows, or which error."""
    return (
        [] if difference is None else re.findall(r"^fails|^rows|lost|[A-Z_.]{6,}|\w+Exception|\w+Error", difference)[:2]
    )


def minimised(spark: SparkSession, pair: Pair, difference: str) -> Pair:
    """The smallest pair with this difference: fewer settings, options and parts of the predicate."""
    again, sort = True, _sort(difference)
    while again:
        again = False
        for smaller in _smaller(pair):
            if _sort(compare(spark, smaller, Counter())) == sort:
                pair, again = smaller, True
                break
    return pair


def _smaller(pair: Pair) -> Iterator[Pair]:
    if pair.at_load != pair.settings:
        yield replace(pair, at_load=pair.settings)
        yield replace(pair, settings=pair.at_load)
    for key in pair.settings:
        fewer = {k: v for k, v in pair.settings.items() if k != key}
        loaded = fewer if pair.at_load == pair.settings else {k: v for k, v in pair.at_load.items() if k != key}
        yield replace(pair, settings=fewer, at_load=loaded)
    for key in pair.options:
        yield replace(pair, options={k: v for k, v in pair.options.items() if k != key})
    if pair.entry != "load":
        yield replace(pair, entry="load")
    if pair.schema is not None:
        yield replace(pair, schema=None)
    if pair.statement.template != "SELECT rid FROM {t} WHERE {p}":
        yield replace(pair, statement=replace(pair.statement, template="SELECT rid FROM {t} WHERE {p}"))
    for predicate in pair.statement.predicate.simpler():
        yield replace(pair, statement=replace(pair.statement, predicate=predicate))


def attack(
    spark: SparkSession, seed: str, data_sets: range, home: Path, tally: Counter[str], only: int | None = None
) -> Iterator[str]:
    """Run the pairs of some data sets, or only pair `only` of each. Gives every difference and how to reproduce it."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark's, which writes each error to stderr
    for number in data_sets:
        data = data_set(spark, seed, number, home)
        for of_data in range(PER_DATA_SET) if only is None else [only]:
            each = pair(data, seed, number, of_data)
            difference = compare(spark, each, tally)
            if difference is not None:
                small = minimised(spark, each, difference)
                again = compare(spark, small, Counter())
                yield f"{each}\n{difference}\nsmall: {small}\n{again}\n{_others(spark, small)}"
        shutil.rmtree(home / f"{seed}-{number}")


def _others(spark: SparkSession, pair: Pair) -> str:
    """Says whether pushdown in Spark's own readers makes an equal difference."""
    right, _ = run(spark, pair, pair.data.format, UNPRUNED)
    ours, _ = run(spark, pair, pair.reader)
    v1, _ = run(spark, pair, pair.data.format, _V1)
    v2, _ = run(spark, pair, pair.data.format, {"spark.sql.sources.useV1SourceList": ""})
    return "; ".join(
        f"Spark's {name} is {'right' if outcome == right else 'as ours' if outcome == ours else 'different again'}"
        for name, outcome in (("V1", v1), ("V2", v2))
    )
