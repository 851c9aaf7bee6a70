"""Test cases: the files of a data set as plain values, and random predicates over its columns.

hypothesis draws everything, so a failure shrinks and its example can be pasted into a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from bloomparquet.query import predicate as p
from tests.differential import kinds, literals
from tests.differential.kinds import KINDS, Kind

ROW_ID = "rid"  # identifies a row over all files; no predicate names it


@dataclass(frozen=True)
class File:
    """One file: its values by column path, and how it is written. The file lacks a column whose path is not there."""

    kinds: dict[p.Column, Kind]
    values: dict[p.Column, list[Any]]
    rows: int
    group_size: int
    partition: str | None = None
    required: bool = False
    statistics: bool = True
    dictionary: bool = True
    store_schema: bool = True
    decimal_as_integer: bool = False
    page_version: str = "1.0"
    fpp: float = 0.01


@dataclass(frozen=True)
class Data:
    """A data set: its files, and `columns` as readers see them, each in its widest kind."""

    columns: dict[p.Column, Kind]
    files: tuple[File, ...]
    partition: str | None = None  # "integer", "string" or "date": the kind of the hive column `p`
    timezone: str = "UTC"

    def schema_kinds(self) -> dict[p.Column, Kind]:
        """Every column that a predicate may name, the partition column too."""
        columns = dict(self.columns)
        if self.partition:
            columns["p",] = {"integer": KINDS["int32"], "string": KINDS["string"], "date": KINDS["date32"]}[
                self.partition
            ]
        return columns

    def first_rid(self, file: int) -> int:
        return sum(f.rows for f in self.files[:file])


_NAMES: list[p.Column] = [("a",), ("b",), ("Spalte Ü",), ("e.f",), ("s", "x"), ("s", "y"), ("s", "t", "z"), ("select",)]
_PARTITIONS = {
    "integer": ["0", "1", "-7", "2147483647", "007", None],
    "string": ["x", "a b", "é", "a=b", "50%", "x/y", "Z", None],
    "date": ["2026-01-01", "1969-12-31", "2026-01-02", None],
}
_ZONES = ["UTC", "America/New_York", "Asia/Kolkata"]


@st.composite
def data_sets(
    draw: st.DrawFn,
    *,
    spark: bool,
    max_files: int = 3,
    max_rows: int = 24,
    only: Sequence[str] | None = None,
    plain: bool = False,
) -> Data:
    """Data sets of all kinds, of the kinds that Spark reads (`spark`), or of the kinds `only`.

    With `plain`, no file lacks a column or has a narrower one.
    """
    names = [name for name, kind in KINDS.items() if (kind.spark or not spark) and (only is None or name in only)]
    paths = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    columns = {path: KINDS[draw(st.sampled_from(names))] for path in sorted(paths)}
    if any(kind.int96 for kind in columns.values()):
        # INT96 is a switch of the whole file.
        columns = {
            path: KINDS["int96 UTC"] if kind.family in ("timestamp", "ntz") else kind for path, kind in columns.items()
        }
    partition = None if plain else draw(st.sampled_from([None, None, *_PARTITIONS]))
    pools = {path: draw(st.lists(kind.values, min_size=1, max_size=12)) for path, kind in columns.items()}
    files = tuple(
        draw(_files(columns, pools, partition, max_rows, plain, only)) for _ in range(draw(st.integers(1, max_files)))
    )
    if not any(path in file.kinds for path in columns for file in files):
        return draw(data_sets(spark=spark, max_files=max_files, max_rows=max_rows, only=only, plain=plain))
    columns = {path: kind for path, kind in columns.items() if any(path in file.kinds for file in files)}
    for path, kind in columns.items():
        if not any(file.kinds.get(path) is kind for file in files):  # at least one file must have the wide kind
            first = next(i for i, file in enumerate(files) if path in file.kinds)
            files = (*files[:first], _widened(files[first], path, kind), *files[first + 1 :])
    if all(file.partition is None for file in files):
        partition = None
        files = tuple(replace(file, partition=None) for file in files)
    return Data(columns, files, partition, draw(st.sampled_from(_ZONES)))


def _widened(file: File, path: p.Column, kind: Kind) -> File:
    values = file.values[path]
    if kind.family == "float":
        values = [None if value is None else float(value) for value in values]
    return replace(file, kinds={**file.kinds, path: kind}, values={**file.values, path: values})


@st.composite
def _files(
    draw: st.DrawFn,
    columns: dict[p.Column, Kind],
    pools: dict[p.Column, list[Any]],
    partition: str | None,
    max_rows: int,
    plain: bool,
    only: Sequence[str] | None,
) -> File:
    rows = draw(st.integers(0, max_rows))
    group_size = draw(st.integers(1, max(1, min(8, rows))))
    kinds: dict[p.Column, Kind] = {}
    values: dict[p.Column, list[Any]] = {}
    bits = draw(st.integers(0, 511))
    null_bits = draw(st.sampled_from([0, 0, 1, 1, 2]))  # no nulls, some, only
    for path, kind in columns.items():
        choices = [kind]
        if not plain:
            choices = [kind, kind, *(KINDS[name] for name in kind.narrower if only is None or name in only)]
            if draw(st.integers(0, 9)) == 9:
                continue  # missing from this file
        narrow = draw(st.sampled_from(choices)) if len(choices) > 1 else kind
        pool = [v for v in pools[path] if narrow is kind or fits(narrow, v)]
        if narrow is not kind and not pool:
            pool = [draw(narrow.values)]
        pool = [narrowed(narrow, kind, v) for v in pool]
        picks = draw(st.binary(min_size=rows, max_size=rows))
        kinds[path] = narrow
        if null_bits == 2:
            values[path] = [None] * rows
        elif bits & 256:  # few values in each row group, and others in the next
            values[path] = [pool[(at // group_size + pick % 2) % len(pool)] for at, pick in enumerate(picks)]
        else:
            limit = len(pool) + null_bits
            values[path] = [None if pick % limit == len(pool) else pool[pick % limit] for pick in picks]
    return File(
        kinds,
        values,
        rows,
        group_size=group_size,
        partition=draw(st.sampled_from(_PARTITIONS[partition])) if partition else None,
        required=bool(bits & 1),
        statistics=bool(bits & 2),
        dictionary=bool(bits & 4),
        store_schema=bool(bits & 8),
        decimal_as_integer=bool(bits & 16),
        page_version="2.0" if bits & 32 else "1.0",
        fpp=0.5 if bits & 192 == 192 else 0.01,
    )


def fits(kind: Kind, value: Any) -> bool:
    """Whether a column of the narrower `kind` can hold `value` unchanged."""
    if kind.family == "integer":
        low, high = kinds.integer_range(kind)
        return value == value and abs(value) < 2**65 and value == int(value) and low <= value <= high
    if kind.name == "float32":
        import numpy as np

        with np.errstate(over="ignore"):
            return bool(value != value or float(np.float32(value)) == value)
    if kind.family == "decimal":
        return len(value.as_tuple().digits) + kind.arrow.scale + value.as_tuple().exponent <= kind.arrow.precision and (
            value == round(value, kind.arrow.scale)
        )
    if kind.family in ("timestamp", "ntz"):
        return bool(value % kinds.UNIT_NS[kind.arrow.unit] == 0 and abs(value) < 2**57 * 1000)
    return True


def narrowed(kind: Kind, wide: Kind, value: Any) -> Any:
    """`value`, or None, in the file's own kind."""
    if kind is wide or value is None:
        return value
    if kind.family == "integer":
        return int(value)
    if kind.family == "decimal":
        return round(value, kind.arrow.scale)
    return value


# -- predicates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A predicate, and a number that picks its form: an object, or SQL in one of several spellings."""

    predicate: p.Predicate
    style: int = 0

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"Case({self.predicate!r}, {self.style})")


def pools(data: Data) -> dict[p.Column, list[Any]]:
    """The distinct values of every column."""
    by_path: dict[p.Column, list[Any]] = {path: [] for path in data.columns}
    for file in data.files:
        for path, values in file.values.items():
            by_path[path] += [value for value in values if value is not None]
    return {path: list({repr(value): value for value in values}.values()) for path, values in by_path.items()}


@st.composite
def cases(draw: st.DrawFn, data: Data, *, spark: bool, number: int = 20) -> list[Case]:
    """Up to `number` random predicates for `data`; with `spark` only comparisons that Spark makes exactly."""
    values_of = pools(data)
    columns = data.schema_kinds()
    names = list(columns)
    if data.partition:
        values_of["p",] = [
            partition_value(data.partition, file.partition) for file in data.files if file.partition is not None
        ]
    leaves = [_leaves(path, columns[path], values_of[path], spark) for path in names]
    leaf = st.one_of(leaves) if len(leaves) > 1 else leaves[0]
    # Every tenth case is left out: a failing example shrinks to none.
    drawn = [Case(draw(_trees(leaf)), draw(st.integers(0, 63))) for _ in range(number) if draw(st.integers(0, 9))]
    return drawn or [Case(draw(_trees(leaf)))]


def partition_value(kind: str, raw: str | None) -> Any:
    if raw is None or kind == "string":
        return raw
    return int(raw) if kind == "integer" else literals.literal_key(KINDS["date32"], raw, "UTC")


@st.composite
def _trees(draw: st.DrawFn, leaf: st.SearchStrategy[p.Predicate]) -> p.Predicate:
    left = [draw(leaf) for _ in range(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4])))]
    while len(left) > 1:
        shape = draw(st.integers(0, 7))
        first, second = left.pop(), left.pop(0)
        joined: p.Predicate = p.And(first, second) if shape & 1 else p.Or(first, second)
        left.append(p.Not(joined) if shape & 6 == 6 else joined)
    return left[0]


_OPERATORS = [
    p.Eq, p.Eq, p.Eq, p.In, p.In, p.EqNullSafe, p.NotEq, p.Lt, p.LtEq, p.Gt, p.GtEq, p.NotIn, p.IsNull, p.IsNotNull,
    p.StartsWith,
]  # fmt: skip


@st.composite
def _leaves(draw: st.DrawFn, path: p.Column, kind: Kind, pool: list[Any], spark: bool) -> p.Predicate:
    operator = draw(st.sampled_from(_OPERATORS))
    if operator is p.StartsWith and kind.family not in ("string", "binary"):
        operator = p.Eq
    literal = _literals(kind, pool, spark)
    leaf: p.Predicate
    if operator in (p.IsNull, p.IsNotNull):
        # Sometimes the predicate is on the struct above the leaf.
        leaf = operator(path[: draw(st.integers(1, len(path)))])  # type: ignore[call-arg]
    elif operator in (p.In, p.NotIn):
        members = draw(st.lists(literal, max_size=5))
        if spark and kind.family == "integer" and not all(isinstance(each, float) for each in members):
            # One float makes Spark compare the column with all members as DOUBLE, which is not exact beyond 2^53.
            members = [each for each in members if not isinstance(each, float)]
        leaf = operator(path, members)  # type: ignore[call-arg, arg-type]
    elif operator is p.StartsWith:
        text = draw(literal)
        if isinstance(text, str) and kind.family == "binary" and spark:
            text = text.encode()
        leaf = p.StartsWith(path, None if text is None else text[: draw(st.integers(0, 3))])
    else:
        leaf = operator(path, draw(literal))  # type: ignore[call-arg]
    return p.Not(leaf) if draw(st.integers(0, 4)) == 4 else leaf


@st.composite
def _literals(draw: st.DrawFn, kind: Kind, pool: list[Any], spark: bool) -> Any:
    how = draw(st.integers(0, 19))
    if how == 19:
        return None
    value = draw(st.sampled_from(pool)) if pool else draw(kind.values)
    if how >= 17:
        value = draw(kind.values)
    elif how >= 12:
        value = draw(st.sampled_from([value, *kind.near(value)]))
    literal = literals.as_literal(kind, value)
    if how in (9, 10, 11) and literal is not None:
        literal = draw(st.sampled_from([literal, *literals.other_forms(kind, literal)]))
    elif how == 8:
        literal = draw(st.sampled_from([literal, *literals.foreign(kind)]))
    return (
        literal if not spark or literals.spark_agrees(kind, literal) else literals.as_literal(kind, draw(kind.values))
    )
