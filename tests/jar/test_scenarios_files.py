"""Loads of files of many kinds: rows, types and errors are those of ``spark.read.parquet``. More: test_plain_files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.corrupt.test_filters import DAMAGE
from tests.support import files
from tests.support.files import EVEN, even
from tests.support.scenarios import JAR, ORACLE, Readers, read, run
from tests.support.spark import conf

pytestmark = pytest.mark.slow


# -- other files -------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_parquet(readers: Readers, tmp_path: Path) -> None:
    even(tmp_path / "b.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + b"\xff" * 40 + b"PAR1")
    for source in (ORACLE, JAR):
        with pytest.raises(Exception, match=r"a\.parquet"):
            read(readers.spark, source, tmp_path, "id BIGINT").where("id = 18").collect()
    ran = readers.ask(tmp_path, "id = 18", schema="id BIGINT", read_whole=1, ignoreCorruptFiles="true")
    assert ran.plan.kept == 1
    assert ran.plan.skipped.total() == 3


def test_missing_paths_are_sparks_errors(readers: Readers, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "gone", tmp_path / "empty", str(tmp_path / "no*such")):
        messages = []
        for source in (ORACLE, JAR):
            with pytest.raises(Exception, match=r"\[[A-Z_]+") as caught:
                read(readers.spark, source, path).collect()
            messages.append(str(caught.value).split("]", maxsplit=1)[0])
        assert messages[0] == messages[1]


# -- filters -----------------------------------------------------------------------------------------------------------


def test_files_without_filters_among_others(readers: Readers, tmp_path: Path) -> None:
    even(tmp_path / "1.parquet")
    even(tmp_path / "2.parquet", bloom=())
    even(tmp_path / "3.parquet")
    ran = readers.ask(tmp_path, "id = 19", rows_per_group=5)
    assert (ran.plan.total, ran.plan.skipped["bloom"] > 0) == (12, True)
    only = readers.ask(tmp_path / "2.parquet", "id = 19", rows_per_group=5)
    assert ran.plan.kept == only.plan.kept > 0
    assert only.plan.skipped["bloom"] == 0
    assert ran.plan.without_filters == {"id": only.plan.kept}
    assert f"; {only.plan.kept} of 12 row groups have no Bloom filter on id" in str(ran.plan)


def file_of(damage: str) -> str:
    return f"{damage.replace(' ', '-')}.parquet"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each kind of damage to the filter of `x`."""
    root, data = tmp_path_factory.mktemp("damaged"), list(range(0, 200, 2))
    for name, (damage, *_) in DAMAGE.items():
        damage(files.write(root / file_of(name), {"x": data, "y": data}, ["x", "y"]))
    return root


def test_a_damaged_filter_excludes_nothing(readers: Readers, damaged: Path) -> None:
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):  # Spark would read the filter too
        ran = run(readers.jar(damaged).where("x = 31"))
        assert (ran.rows, ran.plan.kept, ran.plan.errors) == ([], len(DAMAGE), len(DAMAGE))
        assert run(readers.jar(damaged).where("x = 30")).rows == ["(30, 30)"] * len(DAMAGE)
        assert run(readers.jar(damaged).where("y = 31")).plan.kept == 0


def test_a_damaged_filter_fails_if_set(readers: Readers, damaged: Path) -> None:
    for file in map(file_of, DAMAGE):
        frame = readers.jar(damaged / file, onFilterError="fail").where("x = 31")
        with pytest.raises(Exception, match=f"{file}: row group 0, column x: its Bloom filter cannot be used"):
            frame.collect()


# -- no rows -----------------------------------------------------------------------------------------------------------


def test_row_groups_without_rows(readers: Readers, tmp_path: Path) -> None:
    groups: list[dict[str, Any]] = [{"id": [2, 6]}, {"id": []}, {"id": [1, 9]}, {"id": []}]
    groups = [pa.table({"id": pa.array(each["id"], pa.int64())}) for each in groups]  # type: ignore[misc]
    path = files.write_groups(tmp_path / "t.parquet", groups, ["id"])
    for where, count in (("id = 2", 1), ("id = 9", 1), ("id = 4", 0), ("id IS NULL", 0), ("id IS NOT NULL", 4)):
        assert (where, len(readers.ask(path, where, by_python=count == 4).rows)) == (where, count)


# -- partitions --------------------------------------------------------------------------------------------------------


def test_partition_types_follow_the_users_schema(readers: Readers, tmp_path: Path) -> None:
    for value in ("01", "2"):
        even(tmp_path / f"p={value}" / "x.parquet", 100 * int(value))
    for where in ("p = 1 AND id = 118", "p = '01' OR id = 218", "id = 218"):
        readers.ask(tmp_path, where, schema="id BIGINT, p STRING", by_python="OR" in where)
    # Spark moves partition columns to the end of the schema, except for a Python source.
    readers.ask(tmp_path, "p = 1 AND id = 118", schema="p DOUBLE, id BIGINT")


# -- columns -----------------------------------------------------------------------------------------------------------


def column(path: Path, values: Any, kind: pa.DataType, **more: Any) -> str:
    return files.write(path, pa.table({"c": pa.array(values, kind), **more}), ["c"], rows_per_group=5, fpp=0.0001)


def test_nanoseconds_that_spark_reads_as_numbers_are_found(readers: Readers, tmp_path: Path) -> None:
    path = column(tmp_path / "t.parquet", [v * 1001 for v in EVEN], pa.timestamp("ns"), k=pa.array(range(20)))
    with conf(readers.spark, {"spark.sql.legacy.parquet.nanosAsLong": "true"}):
        for where, count in (("c = 18018", 1), ("c = 18", 0), ("c = 19019", 0), ("c IN (0, 38038)", 2)):
            ran = readers.ask(path, where, rows_per_group=5)
            assert (where, len(ran.rows)) == (where, count)


def test_a_uuid_as_binary(readers: Readers, tmp_path: Path) -> None:
    values = [bytes([v]) * 16 for v in EVEN]
    path = files.write(tmp_path / "t.parquet", pa.table({"u": pa.array(values, pa.uuid())}), ["u"], rows_per_group=5)
    ran = readers.ask(path, f"u = X'{'12' * 16}'", schema="u BINARY", rows_per_group=5, by_python=True)
    assert (len(ran.rows), ran.plan.kept) == (1, 1)


def test_intervals_and_times_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    frame = readers.spark.sql(
        "SELECT id, make_dt_interval(0, 0, 0, id) AS dt, make_ym_interval(0, CAST(id AS INT)) AS ym,"
        " id % 2 = 0 AS even, CAST(id AS STRING) COLLATE UTF8_LCASE AS lower FROM range(20)"
    )
    bloom = {f"parquet.bloom.filter.enabled#{name}": "true" for name in ("dt", "ym", "even", "lower")}
    frame.coalesce(1).write.options(**bloom).parquet(str(tmp_path / "t"))
    for where in ("dt = INTERVAL '7' SECOND", "ym = INTERVAL '7' MONTH", "even AND id = 8", "lower = '7'"):
        assert readers.ask(tmp_path / "t", where, select=("id",)).rows in (["(7,)"], ["(8,)"])
