"""Random SQL over a data set of :mod:`tests.differential.random_files`: predicates, aggregates, joins, subqueries.

A statement names the table ``{t}``, so that several readers can run it. No result depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.differential.column_types import converted, quoted
from tests.differential.comparisons import COMPARISONS, comparison, membership, null_test, portable, some_value
from tests.differential.nested_sql import NESTED, field_leaf, nested_leaf
from tests.differential.random_files import Column, DataSet

ROWS = "SELECT rid FROM {t} WHERE {p}"


@dataclass(frozen=True)
class Predicate:
    """A tree: `operator` is AND, OR, NOT, or empty for a leaf, whose SQL is `leaf`."""

    operator: str
    children: tuple[Predicate, ...] = ()
    leaf: str = ""

    def sql(self) -> str:
        if not self.operator:
            return self.leaf
        if self.operator == "NOT":
            return f"NOT ({self.children[0].sql()})"
        return f" {self.operator} ".join(f"({child.sql()})" for child in self.children)


@dataclass(frozen=True)
class Statement:
    """A SQL text: `template` with ``{t}`` for the table and ``{p}`` for the predicate, each any number of times."""

    template: str
    predicate: Predicate

    def sql(self, table: str) -> str:
        return self.template.replace("{t}", table).replace("{p}", self.predicate.sql())


Leaf = Callable[[Random, DataSet, bool | None], str]
"""Makes a condition. The last argument: whether it should be TRUE for the one row of :meth:`DataSet.at_row`."""


def predicate(random: Random, data: DataSet, leaf: Leaf | None = None) -> Predicate:
    wanted = None
    if data.rows and random.random() < 0.7:  # TRUE for one row: it is lost if one leaf is misjudged
        data, wanted = data.at_row(random.randrange(len(data.rows))), True
    return tree(random, data, leaf or _leaf, random.choice((1, 1, 1, 2, 2, 3, 4)), wanted)


def tree(random: Random, data: DataSet, leaf: Leaf, leaves: int, wanted: bool | None) -> Predicate:
    """A tree with this number of leaves. It is `wanted` for a row if each leaf is what it should be."""
    if random.random() < 0.15:
        return Predicate("NOT", (tree(random, data, leaf, leaves, None if wanted is None else not wanted),))
    if leaves == 1:
        return Predicate("", leaf=leaf(random, data, wanted))
    operator, first = random.choice(("AND", "OR")), random.randint(1, leaves - 1)
    decides_alone = wanted == (operator == "OR")
    other = random.random() < 0.3 if decides_alone else wanted
    parts = [(first, wanted), (leaves - first, other)]
    random.shuffle(parts)
    return Predicate(operator, tuple(tree(random, data, leaf, count, each) for count, each in parts))


def portable_leaf(random: Random, data: DataSet, wanted: bool | None) -> str:
    """A condition that the package's own `where` has too: a column beside literals of the column's type."""
    column = _special(random, data.columns)
    name, kind = column.sql, column.type.name
    # pyarrow reads times in the last second before 1970 from ORC files of Java as one second later.
    is_misread = data.format == "orc" and kind in ("timestamp", "timestamp_ms", "int96")
    if is_misread or kind in ("list", "map", "variant") or kind.startswith("timestamp_n"):
        return f"{name} {null_test(random, column, wanted)}" if kind != "variant" else "rid > 7"
    if kind == "struct":
        return field_leaf(random, column, name, wanted)
    return portable(random, column, name, wanted)


def _special(random: Random, columns: Sequence[Column]) -> Column:
    """A column, more often one with special values."""
    return random.choices(columns, [5 if any(v in c.type.special for v in c.pool) else 1 for c in columns])[0]


def _leaf(random: Random, data: DataSet, wanted: bool | None) -> str:
    if random.random() < 0.06:
        return random.choice(
            ("TRUE", "FALSE", "NULL", "cast(NULL AS BOOLEAN)", "rid % 3 = 1", "rid IN (0, 5, 21)", "rid > 30")
        )
    # Nested columns have more leaves and more kinds of predicates.
    columns = [c for c in data.columns for _ in range(2 if c.type.name in NESTED else 1)]
    column = random.choice(data.partitions) if data.partitions and random.random() < 0.1 else _special(random, columns)
    name = column.sql
    if random.random() < 0.08:
        name = name.swapcase() if random.random() < 0.5 else name.upper()
    if column.type.name in NESTED:
        return nested_leaf(random, column, name, wanted)
    shape = random.random()
    if shape < 0.42:
        value = some_value(random, column)
        return f"{name} {comparison(random, column, value, wanted)} {_as_literal(random, column, value)}"
    if shape < 0.62:
        some = [some_value(random, column) for _ in range(random.choice((1, 2, 3, 12)))]
        values = [_as_literal(random, column, each) for each in some]
        values += random.choice(([], [], ["NULL"]))
        return f"{name} {membership(random, column, some, wanted)} ({', '.join(values)})"
    if shape < 0.67 or (column.pool == (None,) and random.random() < 0.5):
        return f"{name} {null_test(random, column, wanted)}"
    if shape < 0.72:
        return f"{name} {random.choice(('', 'NOT '))}BETWEEN {_literal(random, column)} AND {_literal(random, column)}"
    if shape < 0.76:
        return f"{_literal(random, column)} {random.choice(COMPARISONS)} {name}"
    if shape < 0.8:
        other = random.choice(data.columns)
        return f"{name} {random.choice(COMPARISONS)} {other.sql}"
    if shape < 0.86:
        return _cast(random, column, name)
    return _function(random, column, name)


def _literal(random: Random, column: Column) -> str:
    return _as_literal(random, column, some_value(random, column))


def _as_literal(random: Random, column: Column, value: Any) -> str:
    if value is None or random.random() < 0.03:
        return "NULL"
    choices = column.type.literals(value)
    return choices[0] if random.random() < 0.8 else random.choice(choices)


def _function(random: Random, column: Column, name: str) -> str:
    literal = _literal(random, column)
    general: list[str] = [
        f"coalesce({name}, {literal}) = {literal}", f"if({name} IS NULL, FALSE, {name} = {literal})",
        f"CASE WHEN {name} = {literal} THEN TRUE WHEN {name} IS NULL THEN NULL ELSE rid % 2 = 0 END",
        f"cast({name} AS STRING) = cast({literal} AS STRING)", f"nullif({name}, {literal}) IS NULL",
        f"{name} = (SELECT {literal})", f"try_cast({name} AS INT) = 1", f"hash({name}) % 2 = 0",
        f"equal_null({name}, {literal})", f"isnull({name}) = FALSE", f"({name} = {literal}) IS NOT TRUE",
        f"({name} = {literal}) = ({name} > {literal})", f"({name}, rid) = ({literal}, 3)",
        f"greatest({name}, {literal}) = {literal}", f"cast({name} AS {column.type.ddl}) = {literal}",
    ]  # fmt: skip
    text = quoted(str(random.choice(column.pool) or "")[: random.randint(0, 2)].replace("\\", ""))
    textual = [
        f"{name} LIKE concat({text}, '%')", f"{name} LIKE 'a%'", f"{name} LIKE '%b'", f"{name} LIKE '%b%'",
        f"{name} LIKE 'a_c%'", f"startswith({name}, {text})", f"endswith({name}, {text})",
        f"contains({name}, {text})", f"upper({name}) = 'A'", f"length({name}) = 1", f"trim({name}) = 'a'",
        f"{name} RLIKE '^a'", f"{name} ILIKE 'A%'", f"{name} || 'x' = 'ax'", f"substring({name}, 1, 1) = 'a'",
        f"collate({name}, 'UTF8_LCASE') = 'AB'", f"{name} = 1", f"rtrim({name}) IN ('a', 'b')",
    ]  # fmt: skip
    numeric = [
        f"{name} + 1 = {literal}", f"-{name} = {literal}", f"abs({name}) = 1", f"{name} % 2 = 0",
        f"{name} * 2 > {literal}", f"isnan({name})", f"round({name}) = 2", f"{name} = {literal} + 0",
        f"cast({name} AS DOUBLE) = {literal}", f"cast({name} AS DECIMAL(20, 2)) = {literal}",
        f"{name} BETWEEN -1 AND 1", f"cast({name} AS BIGINT) IN (1, 42)", f"{name} = 9223372036854775807",
        f"{name} > 1e40D", f"{name} = 0.1", f"{name} < -129", f"{name} <=> double('NaN')",
    ]  # fmt: skip
    temporal = [
        f"year({name}) = 2026", f"cast({name} AS DATE) = DATE '2026-01-01'",
        f"cast({name} AS TIMESTAMP) >= TIMESTAMP '2026-01-01'", f"date_trunc('DAY', {name}) = TIMESTAMP '2026-01-01'",
        f"{name} < TIMESTAMP '2026-01-01 00:00:00Z'", f"{name} = '2026-01-01'",
        f"cast({name} AS TIMESTAMP_NTZ) <= TIMESTAMP_NTZ '2026-01-01 12:00:00'", f"{name} > DATE '2011-12-30'",
        f"{name} - INTERVAL 1 DAY < DATE '2026-01-01'", f"hour({name}) = 5", f"{name} >= '1900'",
        f"unix_date(cast({name} AS DATE)) > 0",
    ]  # fmt: skip
    of_type = {
        "string": textual, "boolean": [name, f"NOT {name}", f"{name} = 1"], "null": general,
        **dict.fromkeys(("binary", "fixed"), textual[:8]),
        **dict.fromkeys(("date", "timestamp", "timestamp_ntz", "timestamp_ms", "timestamp_ns", "int96"), temporal),
    }.get(column.type.name, numeric)  # fmt: skip
    return random.choice(general if random.random() < 0.35 else of_type)


def _cast(random: Random, column: Column, name: str) -> str:
    """A comparison after a cast, which may make one value of several."""
    cast = random.choice(("cast", "try_cast"))
    to = random.choice(
        (converted(random, column.type).ddl, "STRING", "INT", "DATE", "TIMESTAMP", "DECIMAL(5,1)", "FLOAT")
    )
    return f"{cast}({name} AS {to}) {random.choice(COMPARISONS)} {cast}({_literal(random, column)} AS {to})"


def statement(random: Random, data: DataSet) -> Statement:
    shape: Callable[[Random, DataSet], str] = random.choice(
        (_rows, _rows, _rows, _aggregate, _grouped, _joined, _joined, _twice)
    )
    return Statement(shape(random, data), predicate(random, data))


def _rows(random: Random, data: DataSet) -> str:
    projected = random.choice((
        "*", "*", "rid", "1", f"rid, {random.choice(data.columns).sql}",
        "rid, _metadata.file_name, _metadata.row_index", "count(*) OVER (), rid", "DISTINCT *", "rid + 1 AS a, rid",
        "rid, _metadata.file_block_length > 0",
    ))  # fmt: skip
    if projected.startswith("DISTINCT") and any(c.type.name == "map" for c in data.columns):
        projected = "DISTINCT rid"
    tail = random.choice(("", "", "", " ORDER BY rid LIMIT 3", " ORDER BY rid DESC LIMIT 5 OFFSET 1"))
    return f"SELECT {projected} FROM {{t}} WHERE {{p}}{tail if projected[0] in '*r' else ''}"


def _plain(random: Random, data: DataSet) -> str:
    """A column that supports comparing, grouping and joining, or the row number if there is none."""
    columns = [c.sql for c in (*data.columns, *data.partitions) if c.type.name not in NESTED]
    return random.choice(columns or ["rid"])


def _aggregate(random: Random, data: DataSet) -> str:
    column, other = _plain(random, data), _plain(random, data)
    what = random.choice((
        "count(*)", f"count({column})", f"min({column}), max({column})", f"count(DISTINCT {column})",
        f"max({other}), count(*), min({column})", "count(*), min(rid), max(rid), sum(rid)",
        f"count(*) FILTER (WHERE {{p}}), max({column})", f"any_value({column}) IS NULL OR TRUE",
    ))  # fmt: skip
    return f"SELECT {what} FROM {{t}}" + random.choice(("", " WHERE {p}", " WHERE {p}"))


def _grouped(random: Random, data: DataSet) -> str:
    column = _plain(random, data)
    having = random.choice(("", "", " HAVING count(*) > 1"))
    return f"SELECT {column}, count(*), max(rid) FROM {{t}} WHERE {{p}} GROUP BY {column}{having}"


def _joined(random: Random, data: DataSet) -> str:
    columns = [c for c in (*data.columns, *data.partitions) if c.type.name not in NESTED]
    if not columns:
        return _rows(random, data)
    column = random.choice(columns)
    keys = ", ".join(f"({_literal(random, column)})" for _ in range(random.choice((1, 2, 3))))
    small = f"(VALUES {keys} AS s(key))"
    if random.random() < 0.3:
        small = f"(SELECT {column.sql} AS key FROM {{t}} WHERE {{p}})"
    hint = random.choice(("", "/*+ BROADCAST(d) */ ", "/*+ MERGE(d) */ ", "/*+ SHUFFLE_HASH(d) */ "))
    kind = random.choice(("", "", "LEFT ", "LEFT SEMI ", "LEFT ANTI ", "RIGHT ", "FULL "))
    equal = random.choice(("=", "=", "<=>"))
    among, exists = random.choice(("IN", "IN", "NOT IN")), random.choice(("", "NOT "))
    return random.choice(
        (
            f"SELECT {hint}t.rid FROM {{t}} t {kind}JOIN {small} d ON t.{column.sql} {equal} d.key"
            + ("" if kind.startswith("RIGHT") else random.choice(("", " WHERE t.rid > 3", ""))),
            f"SELECT {hint}t.rid FROM {{t}} t JOIN {small} d ON t.{column.sql} = d.key WHERE {{p}}",
            f"SELECT * FROM {{t}} WHERE {column.sql} {among} (SELECT key FROM {small} d)",
            f"SELECT rid FROM {{t}} WHERE {{p}} AND {column.sql} IN (SELECT key FROM {small} d)",
            f"SELECT rid FROM {{t}} t WHERE {exists}EXISTS (SELECT 1 FROM {small} d WHERE key = t.{column.sql})",
            f"SELECT rid FROM {{t}} WHERE {column.sql} = (SELECT max(key) FROM {small} d)",
            f"SELECT count(*), max(t.rid) FROM {{t}} t JOIN {small} d ON t.{column.sql} = d.key",
        )
    )


def _twice(random: Random, data: DataSet) -> str:
    column = _plain(random, data)
    return random.choice(
        (
            "SELECT rid FROM {t} WHERE {p} UNION ALL SELECT rid FROM {t} WHERE NOT ({p})",
            "SELECT rid FROM {t} EXCEPT SELECT rid FROM {t} WHERE {p}",
            "SELECT rid FROM {t} WHERE {p} INTERSECT SELECT rid FROM {t} WHERE rid > 2",
            f"SELECT x.rid, y.rid FROM {{t}} x JOIN {{t}} y ON x.{column} = y.{column} WHERE x.rid < 9",
            (
                "WITH w AS (SELECT * FROM {t} WHERE {p}) "
                f"SELECT w.rid FROM w JOIN {{t}} u ON w.{column} = u.{column} WHERE u.rid < 7"
            ),
            f"SELECT rid FROM {{t}} WHERE {{p}} AND rid IN (SELECT max(rid) FROM {{t}} WHERE {column} IS NOT NULL)",
            (
                "SELECT (SELECT count(*) FROM {t} WHERE {p}), "
                f"(SELECT max({column}) FROM {{t}}), (SELECT min(rid) FROM {{t}})"
            ),
        )
    )
