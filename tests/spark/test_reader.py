"""Planning and reading without a Spark session: splits, the warning, memory, imports, pickling."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read import reader as reader_module
from pyspark_bloomparquet.read.reader import BloomParquetReader, PushingReader, make_reader
from pyspark_bloomparquet.read.splits import Split, first_of_splits
from tests.support import files

ID = T.StructType([T.StructField("id", T.LongType())])
MB = 1 << 20


def options(path: str, **given: str) -> Options:
    return Options.parse({"path": path, **given})


@pytest.mark.parametrize(
    ("files_and_lengths", "expected"),
    [
        ([], 0),
        ([(0, 10_000)] * 1000, 2),  # one file of tiny row groups, 10 MB, on two cores
        ([(file, 10_000) for file in range(60)], 2),  # tiny files, of which opening is the main cost
        ([(0, 500 * MB)] * 3, 3),  # a row group is never split
        ([(0, 70 * MB)] * 3, 3),  # two of them are more than the limit
        ([(0, MB)] * 1280, 11),
        ([(0, 500 * MB), *[(1, MB)] * 9], 2),
    ],
)
def test_splits_are_few_and_balanced(files_and_lengths: list[tuple[int, int]], expected: int) -> None:
    of_files, lengths = np.array(files_and_lengths, np.int64).reshape(-1, 2).T
    limits = {"max_partition_bytes": 128 * MB, "open_cost": 4 * MB, "min_partitions": 2}
    firsts = first_of_splits(of_files, lengths, **limits)
    assert len(firsts) == expected
    assert firsts == sorted(set(firsts))
    assert firsts[:1] == [0][: len(lengths)]
    assert all(len(some) == 1 or some.sum() <= 128 * MB for some in np.split(lengths, firsts[1:]) if len(some))


def test_every_kept_row_group_is_in_one_split_in_order(tmp_path: Path) -> None:
    for i in range(5):
        files.write(tmp_path / f"{i}.parquet", {"id": range(i, 20, 5)}, rows_per_group=1)
    options_of_splits = {"pushFilters": "off", "minPartitionNum": "3", "openCostInBytes": "1"}
    splits = with_row_groups(make_reader(options(str(tmp_path), **options_of_splits), ID))
    pairs = [
        (file.path[-9], i)
        for split in splits
        for file, some in zip(split.dataset.files, split.row_groups)
        for i in some
    ]
    assert pairs == [(str(file), i) for file in range(5) for i in range(4)]
    assert len(splits) == 3


def with_row_groups(reader: BloomParquetReader) -> list[Split]:
    """The splits that have row groups."""
    return [split for split in reader.partitions() if isinstance(split, Split) and split.row_groups]


def test_a_plan_that_keeps_nothing_reads_nothing(tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": [1, 2]}, ["id"])
    reader = make_reader(options(path, where="id = 77"), ID)
    assert with_row_groups(reader) == []
    for split in (*reader.partitions(), ds.InputPartition(None)):  # the last is Spark's placeholder for no splits
        assert list(reader.read(split)) == []


def test_a_filter_of_another_type_skips_nothing(tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": ["1", "2"]}, ["id"])
    reader = PushingReader(options(path), ID)  # the user says BIGINT, the file has text
    pushed: list[ds.Filter] = [ds.EqualTo(("id",), 77), ds.StringContains(("id",), "x")]
    assert list(reader.pushFilters(pushed)) == pushed  # Spark applies them to the rows
    assert len(reader.partitions()) == 1
    assert len(pickle.dumps(reader)) < 3000  # no listing, and no filters


def test_a_filter_on_a_retyped_partition_skips_nothing(tmp_path: Path) -> None:
    path = files.hive(tmp_path / "t", {"p=01": {"id": [1]}, "p=1": {"id": [2]}})
    schema = T.StructType([*ID.fields, T.StructField("p", T.StringType())])
    reader = PushingReader(options(path, pushFilters="on", maxPartitionBytes="1", openCostInBytes="1"), schema)
    for pushed in (ds.EqualTo(("p",), "01"), ds.IsNull(("p",))):  # read as another type, a value may be null
        reader.pushFilters([pushed])
        assert len(with_row_groups(reader)) == 2
    typed = PushingReader(
        options(path, pushFilters="on", maxPartitionBytes="1", openCostInBytes="1"),
        T.StructType([T.StructField("p", T.IntegerType())]),
    )
    typed.pushFilters([ds.EqualTo(("p",), 2)])
    assert with_row_groups(typed) == []


def test_a_missing_column_with_a_dot_is_not_taken_for_a_field(tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"a": [{"b": 1}], "c.d": [1]})
    schema = T.StructType([T.StructField("a.b", T.LongType()), T.StructField("c.d", T.LongType())])
    for pushed, kept in ((ds.IsNull(("a.b",)), 1), (ds.IsNull(("c.d",)), 0)):
        reader = PushingReader(options(path), schema)
        reader.pushFilters([pushed])
        assert len(with_row_groups(reader)) == kept


def test_push_filters_exists_only_where_requested() -> None:
    made = [type(make_reader(options("/x", pushFilters=mode), ID)) for mode in ("auto", "on", "off")]
    assert made == [BloomParquetReader, PushingReader, BloomParquetReader]


def test_push_filters_on_is_an_error_on_a_spark_that_pushes_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": range(10)}, rows_per_group=5)
    monkeypatch.setattr(reader_module, "CAN_PUSH", False)
    with pytest.raises(UnsupportedError, match=r"needs Spark 4\.1 or newer.*\.option\(\"where\", \"id = 1\"\)"):
        make_reader(options(path, pushFilters="on"), ID)
    with pytest.warns(UserWarning, match="pushes no filters") as caught:
        make_reader(options(path), ID).partitions()
    assert "one query only" not in str(caught[0].message)


def test_one_warning_says_how_to_skip_row_groups(tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": range(10)}, rows_per_group=5)
    with pytest.warns(UserWarning, match=r"\.option\(\"where\", \"id = 1\"\).*pushFilters") as caught:
        make_reader(options(path), ID).partitions()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_reader(options(path, pushFilters="off"), ID).partitions()
        make_reader(options(path, where="id = 1"), ID).partitions()
        make_reader(options(files.write(tmp_path / "one.parquet", {"id": [1]})), ID).partitions()


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    return done.stdout.strip()


def test_importing_the_source_imports_little() -> None:
    # Every Spark session that looks for data sources imports the package.
    code = """
        import sys, pyspark.sql.datasource
        before = set(sys.modules)
        import pyspark_bloomparquet
        print(sorted(name for name in set(sys.modules) - before if not name.startswith("pyspark_bloomparquet")))
    """
    assert run(code) == "[]"


def test_memory_stays_below_three_row_groups(tmp_path: Path) -> None:
    rows = 400_000
    text = [f"{i * 2654435761 % 2**32:020d}" for i in range(rows)]
    path = files.write(
        tmp_path / "t.parquet",
        {"id": [*range(rows)] * 2, "text": text * 2, "other": text * 2},
        rows_per_group=rows,
        use_dictionary=False,
        compression="none",
    )
    code = """
        import sys
        import pyarrow as pa
        from pyspark.sql.types import StructType
        from pyspark_bloomparquet.options.load import Options
        from pyspark_bloomparquet.read.reader import make_reader
        schema = StructType().add("id", "long").add("text", "string")
        reader = make_reader(Options.parse({"path": sys.argv[1], "pushFilters": "off", "where": sys.argv[2]}), schema)
        pool = pa.default_memory_pool()
        before, rows = pool.bytes_allocated(), 0
        for split in reader.partitions():
            for batch in reader.read(split):
                rows += batch.num_rows
        print(rows, pool.max_memory() - before)
    """
    row_group = rows * (8 + 20 + 4)
    for where, expected in (("id >= 0", 2 * rows), ("id < 1000", 2000)):
        count, peak = map(int, run(code, path, where).split())
        assert count == expected
        assert peak < 3 * row_group, f"{peak} bytes at the peak, {row_group} in the columns of one row group"
