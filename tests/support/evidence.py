"""Made-up evidence about row groups and stripes, and an oracle of what it excludes, row range by row range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Counts, Question
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.ordering import Bounds, Encoded, Point, ValueOrder
from bloomparquet.query.predicate import Always, And, IsNull, Not, NotIn, Or, Predicate, columns
from bloomparquet.storage.files import ReadCount

VALUES = range(-1, 8)
CELLS = [None, *VALUES]
PARTITIONS = [1, None, 3]  # of the files of the data set
FILES = [2, 0]  # the files of the table, in the data set
SCHEMAS = [  # of these files
    FileSchema(SchemaNode("", "REQUIRED", children=tuple(SchemaNode(name, "OPTIONAL", "INT64") for name in names)))
    for names in ("ab", "ca")  # the second file lacks `b`, and `a` has another position in it
]
ZONE = "Asia/Tokyo"


@dataclass(frozen=True)
class Chunk:
    """The cells of a column in a row range, and what is known about them."""

    cells: tuple[int | None, ...]
    has_null_count: bool = True
    has_bounds: bool = True
    has_filter: bool = True
    in_index: bool = False
    is_usable: bool = True  # the filter

    @property
    def present(self) -> list[int]:
        return [cell for cell in self.cells if cell is not None]


@dataclass(frozen=True)
class Range:
    """A row range: a unit, or a row group within one. `file`: an index into FILES."""

    file: int
    chunks: dict[str, Chunk]
    parts: tuple[Range, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.chunks["a"].cells)


class FakeFilters:
    """Exact sets in place of Bloom filters."""

    def __init__(self, chunks: list[Chunk], members: NDArray[np.int64], asked: list[tuple[int, int]], column: int):
        self._chunks, self._members, self._asked, self._column = chunks, members, asked, column
        self.present = np.array([chunk.has_filter for chunk in chunks], np.bool_)
        self.in_index = np.array([chunk.has_filter and chunk.in_index for chunk in chunks], np.bool_)
        self.errors: dict[int, BloomParquetError] = {}

    def check(self, question: Question) -> NDArray[np.bool_]:
        answers = []
        for i, first, last in zip(
            question.chunks.tolist(), question.first.tolist(), question.last.tolist(), strict=True
        ):
            chunk = self._chunks[i]
            assert chunk.has_filter
            assert 0 <= first < last <= len(question.hashes), "a chunk without a value to ask about"
            self._asked.append((int(self._members[i]), self._column))
            question.reads.requests += 1
            if not chunk.is_usable:
                self.errors[i] = FormatError(f"filter {self._column} of {self._members[i]}")
            values = set(question.hashes[first:last].astype(np.int64).tolist())
            answers.append(not chunk.is_usable or not values.isdisjoint(chunk.present))
        return np.array(answers, np.bool_)


class FakeChunks:
    """The chunks of a column of integers."""

    family = "integer"
    why_filters_unusable = ""
    has_order = True
    order = ValueOrder("integer", "x")

    def __init__(self, table: FakeRanges, schema: int, leaf: LeafColumn) -> None:
        (name,) = leaf.path
        self.members = table.members(schema)
        chunks = [table.ranges[i].chunks[name] for i in self.members.tolist()]
        nulls = np.array(
            [len(chunk.cells) - len(chunk.present) if chunk.has_null_count else -1 for chunk in chunks], np.int64
        )
        self.counts = Counts(nulls, np.array([len(chunk.cells) for chunk in chunks], np.int64))
        limits = [(min(chunk.present, default=0), max(chunk.present, default=0)) for chunk in chunks]
        lower, upper = np.array(limits, np.int64).reshape(-1, 2).T
        self.bounds = Bounds(lower, upper, np.array([_knows_bounds(chunk) for chunk in chunks], np.bool_))
        self.shown_as_stored = np.ones(len(self.members), np.bool_)
        self.filters = FakeFilters(chunks, self.members, table.asked, leaf.index)
        self.unreadable = [table.unreadable[name]] if name in table.unreadable else []

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        assert timezone == ZONE
        keys = self.order.keys(values, timezone)
        return None if keys is None else Encoded(keys, keys.astype(np.uint64))

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        assert timezone == ZONE
        return self.order.point(value, timezone)

    def expression_filters(self, case: str) -> None:
        return None


def _knows_bounds(chunk: Chunk) -> bool:
    return chunk.has_bounds and bool(chunk.present)


@dataclass
class FakeRanges:
    """`unreadable`: by column, why some of its evidence cannot be read. `asked`: the row ranges and leaf columns whose
    filters were asked, in order."""

    ranges: list[Range]
    stripe_index: NDArray[np.int64] | None = None
    total: int = 0
    unreadable: dict[str, BloomParquetError] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)
    format = FileFormat.PARQUET
    schemas = SCHEMAS

    def __post_init__(self) -> None:
        self.file = np.array([each.file for each in self.ranges], np.int64)
        self.rows = np.array([each.rows for each in self.ranges], np.int64)

    def __len__(self) -> int:
        return len(self.ranges)

    def members(self, schema: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.file == schema)

    def is_lossless(self, schema: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        assert leaf is None or SCHEMAS[schema].leaves[leaf.index] is leaf
        return reader_type != "other"

    def chunks(self, schema: int, leaf: LeafColumn, reads: ReadCount) -> FakeChunks:
        reads.requests += 1
        return FakeChunks(self, schema, leaf)

    def row_groups_within(self, units: NDArray[np.int64]) -> FakeRanges | None:
        """None for Parquet, that is if no range has parts."""
        if not any(each.parts for each in self.ranges):
            return None
        owners = [(unit, part) for unit in units.tolist() for part in self.ranges[unit].parts]
        total = sum(len(each.parts) for each in self.ranges)
        index = np.array([unit for unit, _ in owners], np.int64)
        return FakeRanges([part for _, part in owners], index, total, unreadable=self.unreadable)


# ---- the oracle ----

Judge = Callable[[Predicate, Range], bool]


def columns_of(each: Range) -> str:
    """The columns of its file, in their order."""
    return "ab" if each.file == 0 else "ca"


class Oracle:
    """The right verdict of the evidence about a row range on a leaf predicate: False if it excludes every row.

    Each kind of evidence includes the kinds before it: partition values, null counts, bounds, filters.
    """

    def __init__(self) -> None:
        self._truths: dict[Predicate, dict[int | None, bool]] = {}

    def truth(self, leaf: Predicate) -> dict[int | None, bool]:
        """The mask of the cells of its column for which `leaf` is TRUE."""
        if leaf not in self._truths:
            table = pa.table({column_of(leaf): pa.array(CELLS, pa.int64())})
            matching = [value is True for value in mask(leaf, table).to_pylist()]
            self._truths[leaf] = dict(zip(CELLS, matching, strict=True))
        return self._truths[leaf]

    def by_partition(self, leaf: Predicate, each: Range) -> bool:
        return column_of(leaf) != "p" or self.truth(leaf)[PARTITIONS[FILES[each.file]]]

    def by_nulls(self, leaf: Predicate, each: Range) -> bool:
        name = column_of(leaf)
        if name == "p":
            return self.by_partition(leaf, each)
        truth = self.truth(leaf)
        if name not in columns_of(each):
            return truth[None]
        chunk = each.chunks[name]
        has_nulls, has_values = None in chunk.cells or not chunk.has_null_count, _may_have_values(chunk)
        return (has_nulls and truth[None]) or (has_values and not isinstance(leaf, IsNull))  # whatever the values are

    def by_statistics(self, leaf: Predicate, each: Range) -> bool:
        name = column_of(leaf)
        chunk = each.chunks.get(name)
        if not self.by_nulls(leaf, each) or name not in columns_of(each) or chunk is None:
            return self.by_nulls(leaf, each)
        truth = self.truth(leaf)
        if (None in chunk.cells or not chunk.has_null_count) and truth[None]:
            return True
        if not _may_have_values(chunk):
            return False
        if not _knows_bounds(chunk):
            return True
        low, high = min(chunk.present), max(chunk.present)
        if isinstance(leaf, NotIn):  # judged by the bounds of one value only
            return low < high or low not in leaf.values
        return any(truth[value] for value in range(low, high + 1))

    def by_filters(self, leaf: Predicate, each: Range) -> bool:
        """A filter that cannot be used excludes nothing."""
        chunk = each.chunks.get(column_of(leaf))
        if not self.by_statistics(leaf, each) or not self.asks(leaf, each) or chunk is None or not chunk.is_usable:
            return self.by_statistics(leaf, each)
        return any(self.truth(leaf)[cell] for cell in chunk.present)

    def asks(self, leaf: Predicate, each: Range) -> bool:
        """Whether there is a filter that can be asked about `leaf`."""
        name = column_of(leaf)
        is_equality = isinstance(leaf, bp.Eq | bp.EqNullSafe | bp.In)
        return is_equality and name in columns_of(each) and each.chunks[name].has_filter


def column_of(leaf: Predicate) -> str:
    ((name,),) = columns(leaf)
    return name


def _may_have_values(chunk: Chunk) -> bool:
    return not chunk.has_null_count or bool(chunk.present)


def holds(predicate: Predicate, each: Range, judge_leaf: Judge) -> bool:
    """Whether `predicate`, in negation normal form, might hold if its leaf predicates do as `judge_leaf` says."""
    if isinstance(predicate, And):
        return all(holds(child, each, judge_leaf) for child in predicate.children)
    if isinstance(predicate, Or):
        return any(holds(child, each, judge_leaf) for child in predicate.children)
    if isinstance(predicate, Always):
        return bool(predicate.value)
    return judge_leaf(predicate, each)


def has_match(conditions: Sequence[Predicate], each: Range) -> bool:
    """Whether a row of the range matches all conditions."""
    rows = {name: list(each.chunks[name].cells) if name in columns_of(each) else [None] * each.rows for name in "ab"}
    rows["p"] = [PARTITIONS[FILES[each.file]]] * each.rows
    table = pa.table({name: pa.array(cells, pa.int64()) for name, cells in rows.items()})
    return any(value is True for value in mask(And(*conditions), table).to_pylist())


# ---- random cases ----


def random_chunk(random: Random, size: int) -> Chunk:
    low = random.choice(VALUES)
    values = [value for value in VALUES if low <= value <= low + random.choice([0, 2, 4])]
    cells = tuple(random.choice(random.choice([values, values, [None]])) for _ in range(size))
    if random.random() < 0.15:
        cells = (None,) * size
    has_null_count, has_bounds, has_filter, in_index, is_usable = (
        random.random() < often for often in (0.8, 0.8, 0.7, 0.4, 0.8)
    )
    return Chunk(cells, has_null_count, has_bounds, has_filter, in_index, is_usable)


def random_range(random: Random, file: int) -> Range:
    size = random.choice([0, 1, 3, 3, 5])
    return Range(file, {name: random_chunk(random, size) for name in "abc"})


def whole(parts: tuple[Range, ...]) -> Range:
    """A stripe of these row groups. Stripes have no filters."""
    chunks = {
        name: Chunk(
            tuple(cell for part in parts for cell in part.chunks[name].cells),
            all(part.chunks[name].has_null_count for part in parts),
            all(part.chunks[name].has_bounds for part in parts),
            has_filter=False,
        )
        for name in "abc"
    }
    return Range(parts[0].file, chunks, parts)


def random_ranges(random: Random, in_parts: bool) -> list[Range]:
    files = sorted(random.choice([0, 1]) for _ in range(random.choice([1, 3, 6])))
    if not in_parts:
        return [random_range(random, file) for file in files]
    return [whole(tuple(random_range(random, file) for _ in range(random.choice([1, 2, 3])))) for file in files]


def random_leaf(random: Random) -> Predicate:
    column, value = random.choice("aabbp"), random.choice(VALUES)
    kind = random.choice([bp.Eq] * 4 + [bp.NotEq, bp.EqNullSafe, bp.Lt, bp.GtEq, bp.In, bp.In, bp.NotIn, IsNull])
    if kind is IsNull:
        return IsNull(column)
    if kind in (bp.In, bp.NotIn):
        return kind(column, random.sample(VALUES, random.choice([1, 2, 3])))
    return kind(column, value)


def random_predicate(random: Random, depth: int = 2) -> Predicate:
    shape = random.choice([And, Or, Not, None]) if depth else None
    if shape is None:
        return random_leaf(random)
    if shape is Not:
        return Not(random_predicate(random, depth - 1))
    return shape(*(random_predicate(random, depth - 1) for _ in range(random.choice([2, 3]))))
