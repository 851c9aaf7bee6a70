"""The parts of random SQL: the rows that predicates are about are rows of the files."""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp
from tests.differential import comparisons, random_files, random_sql
from tests.differential.column_types import TYPES
from tests.differential.random_files import Column, DataSet

PLAIN = ("int8", "int16", "int32", "int64", "string", "float64")  # all writers and pyarrow have these types


def test_rows_are_rows_of_the_files(tmp_path: Path) -> None:
    compared = absent = 0
    for number in range(12):
        data = random_files.write(Random(number), tmp_path / str(number), "parquet", for_spark=True)
        stored = {}
        for path in data.root.rglob("*part-*.parquet"):
            try:
                rows = pq.ParquetFile(path).read().to_pylist()
            except (pa.ArrowException, OSError):  # a damaged file
                continue
            stored |= {row["rid"]: row for row in rows}
        for row in data.rows:
            for column in data.columns:
                if row["rid"] in stored and column.type.name in PLAIN:
                    absent += column.name not in stored[row["rid"]]
                    assert repr(stored[row["rid"]].get(column.name)) == repr(row[column.name])
                    compared += 1
    assert compared > 200
    assert absent > 20


def test_predicates_are_mostly_true_for_the_row_they_are_about(tmp_path: Path) -> None:
    types = ("int64", "string", "float64", "decimal(9,2)", "date", "struct")
    columns = tuple(
        Column(name, TYPES[type_], TYPES[type_].values) for name, type_ in zip("abcdef", types, strict=True)
    )
    random, true = Random(1), 0
    for number in range(100):
        rows = tuple({"rid": at, **{c.name: random.choice(c.pool) for c in columns}} for at in range(9))
        data = DataSet(tmp_path, "parquet", columns, (), "", rows).at_row(4)
        assert all(column.pool == (rows[4][column.name],) and len(column.near) == 9 for column in data.columns)
        arrays = [pa.array([rows[4][c.name]], c.type.arrow) for c in columns]
        pq.write_table(pa.table(arrays, names=[*"abcdef"]), tmp_path / f"{number}.parquet")
        where = random_sql.tree(random, data, random_sql.portable_leaf, 2, wanted=True).sql()
        true += bp.read_table(tmp_path / f"{number}.parquet", where).num_rows
    assert true > 85


def test_literals_are_values_of_rows_around_a_row() -> None:
    column = Column("a", TYPES["int64"], (5,), near=(5, 77))
    texts = [comparisons.portable(Random(seed), column, "a", wanted=True) for seed in range(200)]
    assert "a < 77L" in texts
    assert "a NOT IN (77L)" in [re.sub(r"(77L)(, 77L)+", r"\1", text) for text in texts]
    assert "a >= 77L" not in texts
    nan = Column("a", TYPES["float64"], (math.nan,), near=(math.nan, 1.5))
    assert "a > 1.5D" in [comparisons.portable(Random(seed), nan, "a", wanted=True) for seed in range(200)]
