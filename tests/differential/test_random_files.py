"""What random SQL is made of: the rows that predicates are about are rows of the files."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from tests.differential import random_files, random_sql
from tests.differential.column_types import TYPES, VARIANT, converted
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


def test_predicates_are_often_true_for_one_row(tmp_path: Path) -> None:
    columns = tuple(Column(name, TYPES["int64"], (1, 2, 3)) for name in "abcdefgh")
    row = {column.name: 10 + i for i, column in enumerate(columns)}
    data = DataSet(tmp_path, "parquet", columns, (), "", ({"rid": 0, **row},))
    texts = [random_sql.predicate(Random(seed), data, random_sql.portable_leaf).sql() for seed in range(100)]
    assert sum(any(f"`{name}` = {value}L" in text for name, value in row.items()) for text in texts) > 10
    assert sum(any(f" {value}L" in text for value in (1, 2, 3)) for text in texts) > 10


def test_every_type_is_converted_to_a_type() -> None:
    random = Random(1)
    names = {each.name: {converted(random, each).name for _ in range(50)} for each in (*TYPES.values(), VARIANT)}
    assert names["variant"] == {"variant"}
    assert "int64" in names["decimal(9,2)"]
    assert names["int32"] >= {"int8", "int64", "float64"}
