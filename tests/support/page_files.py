"""Files with many pages, and the check that rows read by pages are those that pyarrow reads."""

from __future__ import annotations

import datetime as dt
import math
import os
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import bloomparquet as bp
from bloomparquet.errors import PlanError
from bloomparquet.parquet.metadata.footer import Footer, parse_footer
from bloomparquet.parquet.pages import image
from bloomparquet.parquet.pages.image import find_column, read_rows
from bloomparquet.parquet.pages.places import find_pages
from bloomparquet.parquet.pages.search import rows_of_pages_with
from bloomparquet.parquet.values.encoding import plain_values
from bloomparquet.reading import cost
from bloomparquet.storage.ranges import ReadBytes
from tests.support.core import read_footer

ROUNDS = int(os.environ.get("BLOOMPARQUET_ROUNDS", "4"))
"""Sets of rows that are read from each column of a row group."""
LOOKUPS = int(os.environ.get("BLOOMPARQUET_LOOKUPS", "1"))
"""Values of each column of a file that are looked up, each in three conditions."""
SEED = int(os.environ.get("BLOOMPARQUET_SEED", "0"))
COMPARED = {"int64", "int32", "few", "bool", "text", "sparse_text", "few_texts", "decimal", "timestamp", "date"}
"""The columns of :func:`flat_table` that lookups compare. Floating-point numbers have tests of their own."""


def flat_table(rows: int) -> pa.Table:
    """Columns without nesting, with nulls, with few and with many distinct values."""
    rng = np.random.default_rng(rows)
    numbers = rng.integers(-(2**31), 2**31, rows)
    few = rng.integers(0, 20, rows)
    nulls = pa.array(rng.random(rows) < 0.1)
    texts = [f"text {number}" for number in numbers.tolist()]

    def sparse(values: pa.Array) -> pa.Array:
        return pa.compute.if_else(nulls, None, values)

    return pa.table({
        "int64": pa.array(numbers),
        "int32": sparse(pa.array(numbers.astype(np.int32))),
        "few": sparse(pa.array(few)),
        "bool": sparse(pa.array(few % 3 == 0)),
        "double": sparse(pa.array(numbers / 7)),
        "text": pa.array(texts),
        "sparse_text": sparse(pa.array(texts)),
        "few_texts": pa.array([f"value {each}" for each in few.tolist()]),
        "decimal": sparse(pa.array([Decimal(each).scaleb(-2) for each in numbers.tolist()], pa.decimal128(20, 2))),
        "timestamp": sparse(pa.array(numbers, pa.timestamp("us", "UTC"))),
        "date": sparse(pa.array(few.astype(np.int32), pa.date32())),
    })  # fmt: skip


def nested_table(rows: int) -> pa.Table:
    """Structs, lists and maps, whose leaves have pages that end at different rows."""
    rng = np.random.default_rng(rows)
    base = flat_table(rows)
    fields = ["int64", "text", "few", "bool"]
    struct = pa.StructArray.from_arrays(
        [base[name].combine_chunks() for name in fields], fields, mask=pa.array(rng.random(rows) < 0.1)
    )
    sizes = rng.integers(0, 4, rows)
    offsets = pa.array(np.append(0, sizes.cumsum()).astype(np.int32))
    values = flat_table(int(sizes.sum()))
    text, number = values["text"].combine_chunks(), values["int32"].combine_chunks()
    pairs = pa.StructArray.from_arrays([number, text], ["number", "text"])
    return pa.table({
        "struct": struct,
        "outer": pa.StructArray.from_arrays([struct, base["double"].combine_chunks()], ["struct", "double"]),
        "list": pa.ListArray.from_arrays(offsets, number, mask=pa.array(sizes == 0)),
        "list_of_structs": pa.ListArray.from_arrays(offsets, pairs),
        "map": pa.MapArray.from_arrays(offsets, text, number),
        "mixed": pa.StructArray.from_arrays(
            [base["text"].combine_chunks(), pa.ListArray.from_arrays(offsets, number)], ["text", "list"]
        ),
    })  # fmt: skip


def footer_of(path: Path | str) -> Footer:
    return parse_footer(read_footer(str(path)))


def reader_of(path: Path | str, log: list[tuple[int, int]] | None = None) -> ReadBytes:
    """Reads bytes of a file. `log` gets the extents."""
    data = memoryview(Path(path).read_bytes())

    def read(start: int, end: int) -> memoryview:
        if log is not None:
            log.append((start, end))
        return data[start:end]

    return read


def random_rows(rng: np.random.Generator, rows: int) -> np.ndarray:
    """One row, some rows, or a range; often at the borders of the row group."""
    kind = rng.integers(0, 4)
    if kind == 0:
        return rng.choice([0, rows - 1, rng.integers(0, rows)], 1).astype(np.int64)
    if kind == 1:
        return np.unique(rng.integers(0, rows, rng.integers(1, 6)))
    start = int(rng.integers(0, rows))
    return np.arange(start, min(rows, start + int(rng.integers(1, 50))))


def taken(column: pa.ChunkedArray, rows: np.ndarray) -> pa.Array:
    try:
        return column.take(pa.array(rows)).combine_chunks()
    except pa.ArrowNotImplementedError:  # views of strings
        return pa.chunked_array([column.slice(row, 1).chunk(0) for row in rows.tolist()]).combine_chunks()


def check_file(path: Path | str) -> float:
    """Compare random rows of every column with those of the whole column, found by headers and by index, also where
    reading it whole takes less time. Returns the share of the reads that were made by pages."""
    footer, read, file = footer_of(path), reader_of(path), pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    check_search(path)
    check_lookups(path)
    rng = np.random.default_rng(SEED)
    by_pages = 0
    total = 0
    for row_group, rows in enumerate(footer.rows):
        whole = file.read_row_group(row_group)
        for number, column in enumerate(whole.columns):
            found = [find_column(footer, row_group, number, read, by_index=by_index) for by_index in (False, True)]
            for _ in range(ROUNDS):
                wanted = random_rows(rng, rows)
                for pages in found:
                    total += 1
                    with patch.object(image, "_MOST_OF_COLUMN", math.inf):
                        values = None if pages is None else read_rows(pages, wanted, read)
                    if values is not None:
                        by_pages += 1
                        assert values.type == column.type
                        assert values.equals(taken(column, wanted)), (whole.column_names[number], wanted)
    return by_pages / total


def check_search(path: Path | str) -> None:
    """The rows of pages that may hold a value include those that have it, whether the pages are found by headers or by
    index. Values are those of the file's own rows, and neighbours of them."""
    footer, read, file = footer_of(path), reader_of(path), pq.ParquetFile(path)
    rng, traits = np.random.default_rng(SEED), footer.profile.traits
    for row_group, rows in enumerate(footer.rows):
        whole = file.read_row_group(row_group)
        for leaf in footer.profile.schema.leaves:
            if len(leaf.path) > 1 or leaf.repeated or leaf.path[0] not in whole.column_names:
                continue
            column = whole[leaf.path[0]]
            if str(column.type).partition(",")[0].endswith(("[ns]", "[ns")):  # values of Python are rounded
                continue
            places = [find_pages(footer, row_group, leaf, read, by_index=by_index) for by_index in (False, True)]
            values = column.to_pylist()
            for row in rng.integers(0, rows, ROUNDS).tolist():
                value = values[row]
                for wanted in [] if value is None else [[value], [value, _neighbour(value)], [_neighbour(value)]]:
                    try:
                        plain = plain_values(leaf, wanted, traits, "UTC")
                    except PlanError:  # a literal that is compared with no column of this type
                        continue
                    having = {i for i, each in enumerate(values) if each in wanted}
                    for pages in places if plain is not None else []:
                        possible = rows_of_pages_with(pages, plain, read, 1) if pages is not None else range(rows)
                        assert having <= set(possible), (path, leaf.path, wanted)


def check_lookups(path: Path | str) -> None:
    """Lookups of the file's own values, of neighbours of them, of several, and with a range give the rows of pyarrow.
    The columns of the condition, their pages and the pages of other columns are read apart, whatever it costs."""
    whole = pq.read_table(path, coerce_int96_timestamp_unit="us")
    rng = np.random.default_rng(SEED)
    number, least = whole["int64"] if "int64" in whole.column_names else None, 0
    apart = [(cost, "_GAPS", 0), (cost, "_LEAST_COLUMN", 0), (cost, "_LEAST_SEARCHED", 0)]
    with ExitStack() as patches:
        for module, name, value in [*apart, (image, "_MOST_OF_COLUMN", math.inf)]:
            patches.enter_context(patch.object(module, name, value))
        for name in COMPARED & set(whole.column_names):
            column = whole[name]
            for row in rng.integers(0, whole.num_rows, LOOKUPS).tolist():
                value = column[row].as_py()
                if value is None:
                    continue
                for values in ([value], [_neighbour(value)], [value, _neighbour(value)]):
                    where: bp.Predicate = bp.Eq(name, values[0]) if len(values) == 1 else bp.In(name, values)
                    mask = pc.is_in(column, pa.array(values, column.type))
                    if number is not None and row % 2:
                        where, mask = (
                            bp.And(where, bp.GtEq("int64", least)),
                            pc.and_(mask, pc.greater_equal(number, least)),
                        )
                    rows = bp.read_table(path, where)
                    expected = whole.filter(mask).cast(rows.schema)  # INT96 is shown with a zone
                    assert rows.to_pylist() == expected.to_pylist(), (path, where)


def _neighbour(value: Any) -> Any:
    if isinstance(value, str | bytes):
        return value + value[:1]
    return value + dt.timedelta(days=1) if isinstance(value, dt.date) else value + 1 if type(value) is int else value
