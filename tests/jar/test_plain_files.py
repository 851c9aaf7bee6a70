"""Files of many kinds, and ways to name them, through Spark's own scans: rows, types and errors as without pruning."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files, plain
from tests.support.files import even
from tests.support.plain import Pruned
from tests.support.scenarios import PRUNED, UNPRUNED
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled")]


def ask(
    spark: SparkSession, path: Any, where: str, select: str = "*", schema: str | None = None, **options: Any
) -> Pruned:
    reader = spark.read.options(**options)
    reader = reader.schema(schema) if schema else reader
    paths = [str(each) for each in (path if isinstance(path, list) else [path])]
    return plain.compare(spark, lambda: reader.parquet(*paths).where(where).selectExpr(*select.split("; ")))


# -- which files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files below the root, one of them in a directory, beside junk."""
    root = tmp_path_factory.mktemp("files") / "a b%20c"
    even(root / "a.parquet")
    even(root / "b.parquet", 1)
    even(root / "more" / "c.parquet", 100)
    even(root / "_hidden.parquet", 200)
    even(root / ".dot.parquet", 200)
    for name in ("_SUCCESS", ".other.parquet.crc", "_committed_1", "empty.parquet"):
        (root / name).touch()
    files.write(root / "norows.parquet", {"id": pa.array([], pa.int64())}, ["id"])
    return root


def test_all_ways_to_name_files_are_pruned(jar_spark: SparkSession, lake: Path) -> None:
    def load(*paths: Path, **options: str) -> DataFrame:
        return jar_spark.read.schema("id BIGINT").options(**options).parquet(*map(str, paths))

    a = lake / "a.parquet"
    cases = {
        "a directory": (load(lake), 1, [1]),
        "recursively": (load(lake, recursiveFileLookup="true"), 1, [1]),
        "a pattern": (load(lake / "[ab].parquet"), 1, [1]),
        "a file twice": (load(a, a), 2, [2]),
        "a file and its directory": (load(lake, a), 2, [2]),
        "by name": (load(lake, pathGlobFilter="b*"), 0, [0]),
        "a file of no rows": (load(lake / "norows.parquet"), 0, [0]),
    }
    pruned = plain.compare_all(jar_spark, lambda name: cases[name][0].where("id = 18"), cases)
    for name, (_, rows, kept) in cases.items():
        assert (name, len(pruned[name].rows), pruned[name].kept) == (name, rows, kept)
    with conf(jar_spark, {"spark.sql.adaptive.enabled": "false"}):
        recursive = load(lake, recursiveFileLookup="true").where("id IN (118, 119)")
        assert plain.compare(jar_spark, lambda: recursive.groupBy().count()).kept == [1]


def test_damaged_and_missing_files_fail_as_in_spark(jar_spark: SparkSession, tmp_path: Path) -> None:
    whole = Path(even(tmp_path / "a.parquet")).read_bytes()
    even(tmp_path / "b.parquet")
    even(tmp_path / "c.parquet", 1)
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    for option in ("option", "setting"):
        ignored = {"ignoreCorruptFiles": "true"} if option == "option" else {}
        with conf(jar_spark, {"spark.sql.files.ignoreCorruptFiles": str(option == "setting").lower()}):
            pruned = plain.compare(
                jar_spark,
                lambda: jar_spark.read.schema("id BIGINT").options(**ignored).parquet(str(tmp_path)).where("id = 18"),  # noqa: B023
            )
            assert (len(pruned.rows), pruned.plans[0].skipped.total()) == (1, 7)
    for pruning in (UNPRUNED, PRUNED):
        with conf(jar_spark, pruning), pytest.raises(Exception, match=r"a\.parquet"):
            jar_spark.read.schema("id BIGINT").parquet(str(tmp_path)).where("id = 18").collect()
    for ignore in ("true", "false"):
        even(tmp_path / "a.parquet")
        frame = jar_spark.read.option("ignoreMissingFiles", ignore).parquet(str(tmp_path))
        os.remove(tmp_path / "a.parquet")
        if ignore == "true":
            assert len(plain.compare(jar_spark, lambda: frame.where("id = 18")).rows) == 1  # noqa: B023
        else:
            with conf(jar_spark, PRUNED), pytest.raises(Exception, match=r"a\.parquet"):
                frame.where("id = 18").collect()


def test_a_damaged_row_group_hides_no_other(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Spark drops the rest of a split after damage. Its splits may separate row groups that pruning keeps together."""
    path = files.write(
        tmp_path / "a.parquet", {"id": range(200), "s": [f"{i:040}" for i in range(200)]}, ["id"], rows_per_group=10
    )
    metadata = pq.ParquetFile(path).metadata
    for row_group in (3, 9, 14):
        chunk = metadata.row_group(row_group).column(1)
        files.patch(path, chunk.dictionary_page_offset or chunk.data_page_offset, b"\xff" * 20)
    reader = jar_spark.read.schema("id BIGINT, s STRING")
    for size in ("1500", "4000"):
        splits = {"spark.sql.files.maxPartitionBytes": size, "spark.sql.files.openCostInBytes": "500"}
        for where in ("id BETWEEN 30 AND 59", "id BETWEEN 90 AND 119", "id BETWEEN 140 AND 179"):
            with conf(jar_spark, {**splits, "spark.sql.files.ignoreCorruptFiles": "true"}):
                with conf(jar_spark, UNPRUNED):
                    expected = reader.parquet(path).where(where).collect()
                with conf(jar_spark, PRUNED):
                    frame = reader.parquet(path).where(where)
                    assert set(frame.collect()) >= set(expected)
                    assert last_plan(frame)[0].skipped.total() > 10


def test_files_with_other_columns_lose_no_row(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Files lack columns, have them in another order, in another case or as another integer."""
    root = tmp_path / "t"
    even(root / "a.parquet", extra=[f"e{i}" for i in range(20)], st=[{"x": i} for i in range(20)])
    files.write(root / "b.parquet", {"name": ["x"] * 6, "id": range(30, 36)}, ["id"], rows_per_group=2)
    files.write(root / "c.parquet", {"ID": pa.array(range(40, 46), pa.int32())}, ["ID"], rows_per_group=2)
    wheres = ["id = 18", "id = 42", "extra IS NULL AND id = 34", "name = 'x' AND id = 34", "extra = 'e3' OR st.x = 7"]
    for schema in ("id BIGINT, name STRING, extra STRING, st STRUCT<x: BIGINT>",
                   "st STRUCT<x: BIGINT>, extra STRING, Id BIGINT, name STRING"):  # fmt: skip
        plain.compare_all(jar_spark, jar_spark.read.schema(schema).parquet(str(root)).where, wheres)
    with conf(jar_spark, {"spark.sql.caseSensitive": "true"}):
        frame = jar_spark.read.schema("id BIGINT, name STRING").parquet(str(root))
        plain.compare_all(jar_spark, frame.where, ["id = 42", "id IS NULL", "id = 18 OR id IS NULL"])
    (root / "c.parquet").unlink()
    pruned = ask(jar_spark, root, "id = 34 AND extra IS NULL", mergeSchema="true")
    assert (len(pruned.rows), pruned.kept) == (1, [1])


def test_a_name_in_two_cases_is_two_columns(jar_spark: SparkSession, tmp_path: Path) -> None:
    path = files.write(tmp_path / "u.parquet", {"a": range(40), "A": range(40, 80)}, ["a", "A"], rows_per_group=10)
    with conf(jar_spark, {"spark.sql.caseSensitive": "true"}):
        assert ask(jar_spark, path, "A = 47").kept == [1]
        assert ask(jar_spark, path, "a = 47").kept == [0]


def test_columns_matched_by_id_are_not_pruned_by_name(jar_spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(i)}) for i, name in enumerate("ab", 1)]
    table = pa.table([pa.array(range(4)), pa.array(range(10, 14))], schema=pa.schema(fields))
    path = files.write(tmp_path / "t.parquet", table, ["a", "b"], rows_per_group=1)
    swapped = StructType(
        [StructField(name, LongType(), True, {"parquet.field.id": i}) for name, i in (("b", 1), ("a", 2))]
    )
    settings = {"spark.sql.parquet.fieldId.read.enabled": "true", "spark.sql.parquet.filterPushdown": "false"}
    counts = {"a = 12": 1, "b = 2": 1, "a = 2": 0, "b = 12": 0}
    with conf(jar_spark, settings):  # Spark pushes filters down by name, and loses rows
        ours = plain.compare_all(jar_spark, jar_spark.read.schema(swapped).parquet(path).where, counts)
        assert {where: len(each.rows) for where, each in ours.items()} == counts
        assert sum(each.skipped for each in ours.values()) == 0
    by_id = "spark.sql.parquet.fieldId.read.enabled"
    hadoop: Any = jar_spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    with conf(jar_spark, {"spark.sql.parquet.filterPushdown": "false"}):
        for where, found in (("a = 12", 1), ("b = 12", 0)):
            # Only loads by our sources hand options to Hadoop in the case in which they are given.
            frame = jar_spark.read.schema(swapped).option(by_id, "true").format("bloomparquet").load(path)
            assert len(frame.where(where).collect()) == found
            hadoop.set(by_id, "true")
            try:
                for source in ("parquet", "bloomparquet"):
                    frame = jar_spark.read.schema(swapped).format(source).load(path)
                    assert len(frame.where(where).collect()) == found
            finally:
                hadoop.unset(by_id)


def test_archives_are_read_whole_and_once(jar_spark: SparkSession, tmp_path: Path) -> None:
    if jar_spark.version < "4.3":
        pytest.skip("Spark reads no archives before 4.3")
    even(tmp_path / "t" / "a.parquet")
    even(tmp_path / "b.parquet", 1)
    with tarfile.open(tmp_path / "t" / "b.tar", "w") as archive:
        archive.add(tmp_path / "b.parquet", "b.parquet")
    settings = {
        "spark.sql.files.archive.reader.enabled": "true",
        "spark.sql.files.maxPartitionBytes": "1000b",
        "spark.sql.files.openCostInBytes": "0",
    }
    with conf(jar_spark, settings):
        counts = {"id = 18": 1, "id = 19": 1, "id IN (18, 19)": 2, "id = -1": 0}
        reader = jar_spark.read.schema("id BIGINT")
        ours = plain.compare_all(jar_spark, reader.parquet(str(tmp_path / "t")).where, counts)
        assert {where: len(each.rows) for where, each in ours.items()} == counts
        assert all(each.skipped > 0 for each in ours.values())
        assert reader.format("bloomparquet").load(str(tmp_path / "t")).count() == 40


# -- columns about files -----------------------------------------------------------------------------------------------


def test_metadata_columns_are_those_of_spark(jar_spark: SparkSession, lake: Path) -> None:
    names = ("file_path", "file_name", "file_size", "row_index")
    columns = ["id", *(f"_metadata.{name}" for name in names), "input_file_name() AS file"]
    wheres = [
        "id IN (18, 19)",
        "id = 18 AND _metadata.file_name = 'a.parquet'",
        "id > 30 AND _metadata.row_index > 17",
        "id = 18 OR _metadata.row_index = 3",
        "_metadata.row_index = 17",
    ]
    frame = jar_spark.read.schema("id BIGINT").parquet(str(lake / "*.parquet"))
    plain.compare_all(jar_spark, lambda where: frame.where(where).selectExpr(*columns), wheres)
    assert ask(jar_spark, lake / "[ab].parquet", "id IN (18, 19)", "id; _metadata.row_index").kept == [2]


def test_data_columns_named_as_metadata_are_not_mixed_up(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Each file holds names of files in its columns: the wrong ones."""
    for i in range(4):
        rows = ", ".join(
            f"({k}, 'f{(i + 1) % 4}.parquet', named_struct('file_name', 'g{i}', 'row_index', {k + 100}L))"
            for k in range(i * 10, i * 10 + 10)
        )
        frame = jar_spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, file_name, _metadata)").coalesce(1)
        for target, shown in (("named", frame.drop("_metadata")), ("hidden", frame)):
            shown.write.mode("overwrite").parquet(str(tmp_path / "w"))
            (written,) = (tmp_path / "w").glob("*.parquet")
            (tmp_path / target).mkdir(exist_ok=True)
            os.replace(written, tmp_path / target / f"f{i}.parquet")
    named, hidden = (jar_spark.read.parquet(str(tmp_path / name)) for name in ("named", "hidden"))
    wheres = ["_metadata.file_name = 'f1.parquet'", "file_name = 'f1.parquet'", "_metadata.file_name > file_name"]
    ours = plain.compare_all(jar_spark, lambda where: named.where(f"{where} AND id >= 5"), wheres)
    assert all(pruned.rows for pruned in ours.values())
    assert ours["file_name = 'f1.parquet'"].skipped
    counts = {"_metadata.file_name = 'g2'": 10, "_metadata.row_index = 112L": 1, "id = 12": 1}
    ours = plain.compare_all(jar_spark, hidden.where, counts)
    assert {where: len(pruned.rows) for where, pruned in ours.items()} == counts
    column = hidden.metadataColumn("_metadata")
    for name, count in (("f1.parquet", 10), ("g2", 0)):
        shown = hidden.where(column.file_name == name).where("id < 40").select("id", column.file_name.alias("n"))
        assert len(plain.compare(jar_spark, lambda: shown).rows) == count  # noqa: B023


# -- rows --------------------------------------------------------------------------------------------------------------


def test_a_file_of_300_row_groups_is_split_without_loss(jar_spark: SparkSession, tmp_path: Path) -> None:
    ids = [i * 7919 % 10007 for i in range(3000)]
    path = files.write(tmp_path / "t.parquet", {"id": ids, "k": range(3000)}, ["id"], rows_per_group=10, fpp=0.001)
    assert pq.ParquetFile(path).num_row_groups == 300
    settings = ({}, {"maxPartitionBytes": "2000b", "openCostInBytes": "0"}, {"openCostInBytes": "1g"})
    some = ", ".join(map(str, ids[::30]))
    counts = {f"id = {ids[-1]}": 1, f"id IN ({some})": 100, "k % 10 = 3 AND (k < 500 OR k > 2500)": 100}
    for values in settings:
        with conf(jar_spark, {f"spark.sql.files.{key}": value for key, value in values.items()}):
            ours = plain.compare_all(jar_spark, jar_spark.read.parquet(path).where, counts)
        assert {where: len(pruned.rows) for where, pruned in ours.items()} == counts
        assert ours[f"id = {ids[-1]}"].kept == [1]
