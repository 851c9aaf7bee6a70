"""Many pairs in few queries: a union of scans, each of which is planned by itself.

Plain Spark says in one query, without a filter, for which rows each predicate is TRUE. Only pairs whose rows differ
there, or that fail, are run one by one.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from pyspark_bloomparquet import last_plan
from tests.differential import loads, pairs, random_sql
from tests.differential.loads import Load
from tests.differential.pairs import ERRORS, IN_PYTHON, JAR, PLAIN, PYTHON, PYTHON_WHERE, READ_TABLE, WAYS, WHERE, Pair
from tests.differential.random_files import DataSet
from tests.differential.random_sql import ROWS, Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORTABLE, PREDICATES, STATEMENTS, MOST_WHERE, MOST_ERRORS = 24, 16, 8, 4, 2
"""How many conditions a data set is asked in a way that all ways in support; how many other conditions and statements;
how many of the conditions by `WHERE`; and how many of each that fail are compared."""
Rows = tuple[str, ...]
Answers = dict[int, Rows | None]


def pairs_of(
    spark: SparkSession, random: Random, data: DataSet, tally: Counter[str], among: Collection[str] = WAYS
) -> Iterator[Pair]:
    """Compare many pairs of a data set by the ways in `among`, and give those that are to be compared one by one."""

    def screen(load: Load, statements: Sequence[Statement], ways: Sequence[str]) -> Iterator[Pair]:
        # Each statement goes one way, so that a number of pairs has as many different ones as possible.
        dealt = {way: statements[at :: len(ways)] for at, way in enumerate(ways) if way in among}
        return _screen(spark, load, dealt, tally) if dealt else iter(())

    load = loads.plain_load(random, data)
    portable = [Statement(ROWS, random_sql.predicate(random, data, random_sql.portable_leaf)) for _ in range(PORTABLE)]
    ways = [READ_TABLE, *([PYTHON_WHERE] if data.format == "parquet" else []), PLAIN, JAR]
    yield from screen(load, portable, ways)
    if random.random() < 0.05 and data.format == "parquet" and PYTHON in among:
        yield Pair(load, portable[0], PYTHON)
    load = loads.random_load(random, data)
    rows = [Statement(ROWS, random_sql.predicate(random, load.data)) for _ in range(PREDICATES)]
    yield from screen(load, rows, [PLAIN, JAR])
    if "bloom" not in load.settings.get("spark.sql.sources.useV1SourceList", ""):
        # The option is one of a reader, and is resolved when that loads.
        read = replace(load, entry="files" if load.entry == "files" else "load", at_load=load.settings)
        yield from screen(read, rows[:MOST_WHERE], [WHERE])
    statements = [random_sql.statement(random, load.data) for _ in range(STATEMENTS)]
    yield from screen(load, statements, [PLAIN, JAR])


def _screen(
    spark: SparkSession, load: Load, dealt: Mapping[str, Sequence[Statement]], tally: Counter[str]
) -> Iterator[Pair]:
    """Compare the statements that are `dealt` to each way."""
    everything = [(way, each) for way, statements in dealt.items() for each in statements]
    try:
        with pairs.table(spark, load, None, "t") as name, pairs.settings(spark, load, None):
            spark.sql(f"SELECT rid FROM {name}").collect()
            asked = [(way, each) for way, each in everything if _is_analysed(spark, each.sql(name))]
            is_rows = all(each.template == ROWS for _, each in asked)
            right = (_truths if is_rows else _union)(spark, [name] * len(asked), [each for _, each in asked])
    except ERRORS:  # the load fails, and so does each of its statements
        yield from (Pair(load, statements[0], way) for way, statements in dealt.items() if way not in IN_PYTHON)
        return
    failing = [i for i, rows in right.items() if rows is None and asked[i][0] not in IN_PYTHON]
    yield from (Pair(load, asked[i][1], asked[i][0]) for i in failing[:MOST_ERRORS])
    for way in dealt:
        mine = [i for i, rows in right.items() if rows is not None and asked[i][0] == way]
        if not mine:
            continue
        tally["with rows"] += sum(bool(right[i]) for i in mine)
        texts = [asked[i][1] for i in mine]
        ours = _in_python(load, texts, way, tally) if way in IN_PYTHON else _in_spark(spark, load, texts, way, tally)
        for at, i in enumerate(mine):
            if at in ours and ours[at] != right[i]:
                yield Pair(load, asked[i][1], way)
            elif at in ours:
                tally["pairs"] += 1
                tally[way] += 1
            else:
                tally[f"{way}: refused by name"] += 1


def _in_python(load: Load, asked: Sequence[Statement], way: str, tally: Counter[str]) -> Answers:
    """The rows of each statement by a way in that needs no JVM; None to those that fail. Those that it does not support
    are missing."""
    outcomes = [pairs.run_in_python(Pair(load, each, way)) for each in asked]
    for outcome in outcomes:
        pairs.count_plans(outcome.plans, way, tally)
    return {
        i: None if outcome.error else pairs.as_structs(outcome.rows)
        for i, outcome in enumerate(outcomes)
        if not pairs.is_refusal(way, outcome)
    }


def _in_spark(
    spark: SparkSession, load: Load, asked: Sequence[Statement], way: str, tally: Counter[str]
) -> Answers:  # fmt: skip
    """The rows of each statement by a way in of Spark; None to those that fail."""
    try:
        with contextlib.ExitStack() as stack:
            if way == WHERE:
                names = []
                for i, each in enumerate(asked):
                    names.append(stack.enter_context(pairs.table(spark, load, way, f"t{i}", each.predicate.sql())))
                asked = [Statement("SELECT rid FROM {t}", each.predicate) for each in asked]
            else:
                names = [stack.enter_context(pairs.table(spark, load, way, "t"))] * len(asked)
            with pairs.settings(spark, load, way):
                return _union(spark, names, asked, lambda plans: pairs.count_plans(plans, way, tally))
    except ERRORS:
        return dict.fromkeys(range(len(asked)))


def _is_analysed(spark: SparkSession, sql: str) -> bool:
    try:
        spark.sql(sql)
    except ERRORS:
        return False
    return True


def _truths(spark: SparkSession, names: Sequence[str], asked: Sequence[Statement]) -> Answers:
    """The rows for which each predicate is TRUE, by one scan of the table."""

    def ask(part: Sequence[int]) -> Answers:
        truths = ", ".join(f"coalesce(({asked[i].predicate.sql()}), FALSE)" for i in part)
        rows = spark.sql(f"SELECT rid, {truths} FROM {names[0]}").collect()
        return {
            i: tuple(sorted("{null}" if row[0] is None else f"{{{row[0]}}}" for row in rows if row[1 + at]))
            for at, i in enumerate(part)
        }

    return _bisected(ask, range(len(asked)))


def _union(
    spark: SparkSession, names: Sequence[str], asked: Sequence[Statement], count: Callable[..., None] = lambda _: None
) -> Answers:
    """The rows of each statement, by one query."""

    def ask(part: Sequence[int]) -> Answers:
        texts = [f"SELECT {i} AS n, CAST(struct(*) AS STRING) AS r FROM ({asked[i].sql(names[i])})" for i in part]
        frame = spark.sql(f"SELECT /*+ COALESCE(1) */ * FROM ({' UNION ALL '.join(texts)})")
        rows = defaultdict(list)
        for number, row in frame.collect():
            rows[number].append(pairs.comparable(row))
        count(last_plan(frame))
        return {i: tuple(sorted(rows[i])) for i in part}

    return _bisected(ask, range(len(asked)))


def _bisected(ask: Callable[[Sequence[int]], Answers], part: Sequence[int]) -> Answers:
    """The answers to `part`; None to those that fail alone."""
    if not part:
        return {}
    try:
        return ask(part)
    except ERRORS:
        if len(part) == 1:
            return {part[0]: None}
        half = len(part) // 2
        return _bisected(ask, part[:half]) | _bisected(ask, part[half:])
