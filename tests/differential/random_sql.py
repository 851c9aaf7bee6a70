"""Random SQL over a data set of :mod:`tests.differential.random_files`: predicates, aggregates, joins, subqueries.

A statement names the table ``{t}``, so that several readers can run it. No result depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.differential.column_types import converted, quoted
from tests.differential.nested_sql import COMPARISONS, NESTED, field_leaf, nested_leaf
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

    def simpler(self) -> list[Predicate]:
        """Smaller trees, to shrink a failure."""
        return [*self.children] + [
            replace(self, children=(*self.children[:i], smaller, *self.children[i + 1 :]))
            for i, child in enumerate(self.children)
            for smaller in child.simpler()
        ]


@dataclass(frozen=True)
class Statement:
    """A SQL text: `template` with ``{t}`` for the table and ``{p}`` for the predicate, each any number of times."""

    template: str
    predicate: Predicate

    def sql(self, table: str) -> str:
        return self.template.replace("{t}", table).replace("{p}", self.predicate.sql())


def predicate(random: Random, data: DataSet, leaf: Callable[[Random, DataSet], str] | None = None) -> Predicate:
    make = leaf or _leaf
    if data.rows and random.random() < 0.6:  # conditions that are TRUE for one row: it is lost if one is misjudged
        data = data.at_row(random.choice(data.rows))
    trees = [_negated(random, 0.1, make(random, data)) for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4)))]
    while len(trees) > 1:
        joined = Predicate(random.choice(("AND", "OR")), (trees.pop(), trees.pop(0)))
        trees.append(Predicate("NOT", (joined,)) if random.random() < 0.2 else joined)
    return Predicate("NOT", (trees[0],)) if random.random() < 0.1 else trees[0]


def _negated(random: Random, chance: float, leaf: str) -> Predicate:
    tree = Predicate("", leaf=leaf)
    return Predicate("NOT", (tree,)) if random.random() < chance else tree


def portable_leaf(random: Random, data: DataSet) -> str:
    """A condition that the package's own `where` has too: a column beside literals of the column's type."""
    column = random.choice(data.columns)
    name, kind = column.sql, column.type.name
    # pyarrow reads times in the last second before 1970 from ORC files of Java as one second later.
    is_misread = data.format == "orc" and kind in ("timestamp", "timestamp_ms", "int96")
    if is_misread or kind in ("list", "map", "variant") or kind.startswith("timestamp_n"):
        return f"{name} IS {random.choice(('', 'NOT '))}NULL" if kind != "variant" else "rid > 7"
    if column.pool == (None,) and random.random() < 0.5:
        return f"{name} {random.choice(('IS NULL', '<=> NULL'))}"
    if kind == "struct":
        return field_leaf(random, column, name)
    pool = [value for value in column.pool if value is not None and value == value]  # `where` has no NaN
    value = random.choice(pool) if pool and random.random() < 0.6 else random.choice(column.type.values)
    literals = [column.type.sql(v) for v in (value, *random.sample(pool, min(len(pool), 2))) if v is not None]
    shape = random.random()
    if not pool and column.pool != (None,) and literals:  # NaN, which is above every number
        return f"{name} {random.choice(('>', '>=', '<>'))} {literals[0]}"
    if not literals or shape < 0.15:
        return f"{name} {random.choice(('IS NULL', 'IS NOT NULL', '<=> NULL'))}"
    if shape < 0.35 and kind == "string":
        prefix = str(value)[: random.randint(0, 2)].replace("'", "")
        return f"{name} {random.choice(('LIKE', 'NOT LIKE'))} '{prefix}%'"
    if shape < 0.75:
        return f"{name} {random.choice(COMPARISONS)} {literals[0]}"
    return f"{name} {random.choice(('IN', 'IN', 'NOT IN'))} ({', '.join(literals)})"


def _leaf(random: Random, data: DataSet) -> str:
    if random.random() < 0.06:
        return random.choice(
            ("TRUE", "FALSE", "NULL", "cast(NULL AS BOOLEAN)", "rid % 3 = 1", "rid IN (0, 5, 21)", "rid > 30")
        )
    # Nested columns have more leaves and more kinds of predicates.
    columns = [c for c in data.columns for _ in range(4 if c.type.name in NESTED else 2)]
    column = random.choice((*columns, *data.partitions))
    name = column.sql
    if random.random() < 0.08:
        name = name.swapcase() if random.random() < 0.5 else name.upper()
    if column.type.name in NESTED:
        return nested_leaf(random, column, name)
    shape = random.random()
    if shape < 0.42:
        return f"{name} {random.choice(COMPARISONS)} {_literal(random, column)}"
    if shape < 0.62:
        values = [_literal(random, column) for _ in range(random.choice((1, 2, 3, 12)))]
        return (
            f"{name} {random.choice(('IN', 'IN', 'NOT IN'))} ({', '.join(values + random.choice(([], [], ['NULL'])))})"
        )
    if shape < 0.67 or (column.pool == (None,) and random.random() < 0.5):
        return f"{name} {random.choice(('IS NULL', 'IS NOT NULL'))}"
    if shape < 0.72:
        return f"{name} {random.choice(('', 'NOT '))}BETWEEN {_literal(random, column)} AND {_literal(random, column)}"
    if shape < 0.76:
        return f"{_literal(random, column)} {random.choice(COMPARISONS)} {name}"
    if shape < 0.8:
        other = random.choice(data.columns)
        return f"{name} {random.choice(COMPARISONS)} {other.sql}"
    return _function(random, column, name)


def _literal(random: Random, column: Column) -> str:
    value = random.choice(column.pool if random.random() < 0.6 else column.type.values)
    if value is None or random.random() < 0.03:
        return "NULL"
    choices = column.type.literals(value)
    return choices[0] if random.random() < 0.8 else random.choice(choices)


def _function(random: Random, column: Column, name: str) -> str:
    literal = _literal(random, column)
    general: list[str] = [
        f"coalesce({name}, {literal}) = {literal}",
        f"if({name} IS NULL, FALSE, {name} = {literal})",
        f"CASE WHEN {name} = {literal} THEN TRUE WHEN {name} IS NULL THEN NULL ELSE rid % 2 = 0 END",
        f"cast({name} AS STRING) = cast({literal} AS STRING)",
        f"nullif({name}, {literal}) IS NULL",
        f"{name} = (SELECT {literal})",
        f"try_cast({name} AS INT) = 1",
        f"hash({name}) % 2 = 0",
        f"equal_null({name}, {literal})",
        f"isnull({name}) = FALSE",
        f"({name} = {literal}) IS NOT TRUE",
        f"({name} = {literal}) = ({name} > {literal})",
        f"({name}, rid) = ({literal}, 3)",
        f"greatest({name}, {literal}) = {literal}",
        f"cast({name} AS {column.type.ddl}) = {literal}",
        *[_cast(random, column, name) for _ in range(4)],
    ]
    text = quoted(str(random.choice(column.pool) or "")[: random.randint(0, 2)].replace("\\", ""))
    textual = [
        f"{name} LIKE concat({text}, '%')",
        f"{name} LIKE 'a%'",
        f"{name} LIKE '%b'",
        f"{name} LIKE '%b%'",
        f"{name} LIKE 'a_c%'",
        f"startswith({name}, {text})",
        f"endswith({name}, {text})",
        f"contains({name}, {text})",
        f"upper({name}) = 'A'",
        f"length({name}) = 1",
        f"trim({name}) = 'a'",
        f"{name} RLIKE '^a'",
        f"{name} ILIKE 'A%'",
        f"{name} || 'x' = 'ax'",
        f"substring({name}, 1, 1) = 'a'",
        f"collate({name}, 'UTF8_LCASE') = 'AB'",
        f"{name} = 1",
        f"rtrim({name}) IN ('a', 'b')",
    ]
    numeric = [
        f"{name} + 1 = {literal}",
        f"-{name} = {literal}",
        f"abs({name}) = 1",
        f"{name} % 2 = 0",
        f"{name} * 2 > {literal}",
        f"isnan({name})",
        f"round({name}) = 2",
        f"{name} = {literal} + 0",
        f"cast({name} AS DOUBLE) = {literal}",
        f"cast({name} AS DECIMAL(20, 2)) = {literal}",
        f"{name} BETWEEN -1 AND 1",
        f"cast({name} AS BIGINT) IN (1, 42)",
        f"{name} = 9223372036854775807",
        f"{name} > 1e40D",
        f"{name} = 0.1",
        f"{name} < -129",
        f"{name} <=> double('NaN')",
    ]
    temporal = [
        f"year({name}) = 2026",
        f"cast({name} AS DATE) = DATE '2026-01-01'",
        f"cast({name} AS TIMESTAMP) >= TIMESTAMP '2026-01-01'",
        f"date_trunc('DAY', {name}) = TIMESTAMP '2026-01-01'",
        f"{name} < TIMESTAMP '2026-01-01 00:00:00Z'",
        f"{name} = '2026-01-01'",
        f"cast({name} AS TIMESTAMP_NTZ) <= TIMESTAMP_NTZ '2026-01-01 12:00:00'",
        f"{name} > DATE '2011-12-30'",
        f"{name} - INTERVAL 1 DAY < DATE '2026-01-01'",
        f"hour({name}) = 5",
        f"{name} >= '1900'",
        f"unix_date(cast({name} AS DATE)) > 0",
    ]
    of_type = {
        "string": textual,
        "binary": textual[:8],
        "fixed": textual[:8],
        "boolean": [name, f"NOT {name}", f"{name} = 1"],
        "date": temporal,
        "timestamp": temporal,
        "timestamp_ntz": temporal,
        "timestamp_ms": temporal,
        "timestamp_ns": temporal,
        "int96": temporal,
        "null": general,
    }.get(column.type.name, numeric)
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
    projected = random.choice(
        (
            "*",
            "*",
            "rid",
            "1",
            f"rid, {random.choice(data.columns).sql}",
            "rid, _metadata.file_name, _metadata.row_index",
            "count(*) OVER (), rid",
            "DISTINCT *",
            "rid + 1 AS a, rid",
            "rid, _metadata.file_block_length > 0",
        )
    )
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
    what = random.choice(
        (
            "count(*)",
            f"count({column})",
            f"min({column}), max({column})",
            f"count(DISTINCT {column})",
            f"max({other}), count(*), min({column})",
            "count(*), min(rid), max(rid), sum(rid)",
            f"count(*) FILTER (WHERE {{p}}), max({column})",
            f"any_value({column}) IS NULL OR TRUE",
        )
    )
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
