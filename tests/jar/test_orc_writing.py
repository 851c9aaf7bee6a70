"""Writing ORC through the jar: exactly the wanted filters, and tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from bloomparquet.errors import unless_error
from bloomparquet.orc.stripe_indexes import read_filters
from bloomparquet.storage.files import ReadCount
from pyspark_bloomparquet import last_plan
from tests.support.orc import OrcFile, columns_by_path
from tests.support.spark import conf, rows


@pytest.fixture(scope="module")
def mixed(jar_spark: SparkSession) -> DataFrame:
    return jar_spark.range(0, 3000, 1, 1).selectExpr(
        "xxhash64(id) AS UserId",
        "concat('k', id) AS kind",
        "id / 7D AS price",
        "id % 2 = 0 AS flag",
        "array(id) AS tags",
        "map('k', id) AS props",
        "named_struct('City', concat('c', id), 'ok', true, 'a.b', id) AS st",
        "CAST(id AS DECIMAL(30,2)) AS amount",
        "date_add(DATE'2020-01-01', CAST(id AS INT)) AS day",
        "timestamp_seconds(id) AS at",
        "id AS `x.y`",
        "id AS `x,z`",
        "concat('n', id) COLLATE UTF8_LCASE AS folded",
        "id % 3 AS p",
    )


def columns_with_filters(path: Path | str) -> set[str]:
    """The columns with filters; they must be the same in every file."""
    files = [OrcFile.open(file) for file in Path(path).rglob("*.orc")]
    columns = [
        {".".join(path) for path, column in columns_by_path(file.tail.types).items() if _has_filters(file, column)}
        for file in files
    ]
    assert columns
    assert all(each == columns[0] for each in columns)
    return columns[0]


def _has_filters(file: OrcFile, column: int) -> bool:
    return unless_error(read_filters(file.storage, [(file.stripes[0], column)], ReadCount())[0]) is not None


def test_named_columns_have_filters_that_prune(jar_spark: SparkSession, mixed: DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    writer = mixed.repartition(3, "kind").write.format("bloomorc").option("bloomColumns", "userid, st.City,price")
    writer.option("bloomFpp", "0.001").option("orc.row.index.stride", "1000").save(path)
    assert columns_with_filters(path) == {"UserId", "st.City", "price"}
    assert rows(jar_spark.read.orc(path).selectExpr("count(*)", "sum(p)")) == [(3000, 3000 - 3000 // 3 + 1000)]
    frame = jar_spark.read.format("bloomorc").load(path).where("st.City = 'c1234'").select("kind")
    assert rows(frame) == [("k1234",)]
    (plan,) = last_plan(frame)
    assert (plan.total, plan.kept, plan.skipped["bloom"]) == (3, 1, 2)


def test_a_star_selects_the_columns_worth_a_filter(mixed: DataFrame, tmp_path: Path) -> None:
    mixed.limit(10).write.format("bloomorc").option("bloomColumns", "*").save(str(tmp_path / "t"))
    assert columns_with_filters(tmp_path / "t") == {"UserId", "kind", "st.City", "amount", "day", "at", "p"}


def test_orcs_own_options_combine_with_ours(mixed: DataFrame, tmp_path: Path) -> None:
    writer = mixed.limit(10).write.format("bloomorc").option("orc.bloom.filter.columns", "kind")
    writer.option("orc.bloom.filter.fpp", "0.2").save(str(tmp_path / "own"))
    assert columns_with_filters(tmp_path / "own") == {"kind"}
    writer.option("bloomColumns", "day,UserId").mode("append").save(str(tmp_path / "both"))
    assert columns_with_filters(tmp_path / "both") == {"kind", "day", "UserId"}
    sizes = []
    for fpp in ("0.2", "0.001", "0.0001", "auto"):
        path = tmp_path / fpp
        mixed.limit(10).write.format("bloomorc").options(bloomColumns="kind", bloomFpp=fpp).save(str(path))
        (file,) = path.glob("*.orc")
        sizes.append(file.stat().st_size)
    assert sizes[0] < sizes[1] < sizes[2] == sizes[3]


WRONG = {
    "an unknown name": ({"bloomColumns": "UserIdd"}, "the files will have no such column; did you mean 'UserId'?"),
    "a struct": ({"bloomColumns": "st"}, "is a struct; name its fields"),
    "a map": ({"bloomColumns": "props"}, "is a map"),
    "BOOLEAN": ({"bloomColumns": "kind,flag"}, "names 'flag', which is BOOLEAN"),
    "a dot in a name": ({"bloomColumns": "x.y"}, "names 'x.y', which has a name that ORC's writer cannot find"),
    "fpp": ({"bloomFpp": "1.5"}, "option bloomFpp is '1.5'; expected a number between 0 and 1"),
    "fpp of one column": ({"bloomFpp#kind": "0.1"}, "bloomorc has no option 'bloomFpp#kind'; did you mean 'bloomFpp'?"),
    "bytes": (
        {"bloomMaxBytes": "1m"},
        "bloommaxbytes is not for filters of ORC; ORC sizes each filter for orc.row.index.stride",
    ),
    "parquet-java's": ({"parquet.bloom.filter.enabled#kind": "true"}, "it is for Parquet"),
    "keys": ({"keyProvider": "company.keys:keys"}, "keyProvider is for encrypted Parquet"),
    "fpp twice": ({"bloomFpp": "0.1", "orc.bloom.filter.fpp": "0.2"}, "expected one of them"),
    "a column twice": (
        {"bloomColumns": "kind,day", "orc.bloom.filter.columns": "p, Kind"},
        "orc.bloom.filter.columns is 'p, Kind', and both name 'kind'",
    ),
    "no indexes": ({"bloomColumns": "kind", "orc.create.index": "false"}, "orc.create.index is false"),
}


@pytest.mark.parametrize("case", WRONG)
def test_impossible_options_are_errors_before_writing(mixed: DataFrame, tmp_path: Path, case: str) -> None:
    options, message = WRONG[case]
    with pytest.raises(IllegalArgumentException) as raised:
        mixed.write.format("bloomorc").options(**options).save(str(tmp_path / "t"))
    assert message.lower() in str(raised.value).lower()
    assert not list(tmp_path.rglob("*.orc"))


def test_options_of_the_session_are_those_of_its_writes(
    jar_spark: SparkSession, mixed: DataFrame, tmp_path: Path
) -> None:
    with conf(jar_spark, {"spark.datasource.bloomorc.bloomColumns": "kind"}):
        mixed.limit(5).write.format("bloomorc").save(str(tmp_path / "t"))
        assert columns_with_filters(tmp_path / "t") == {"kind"}
        with conf(jar_spark, {"spark.datasource.bloomorc.planning": "off"}):
            frame = jar_spark.read.format("bloomorc").load(str(tmp_path / "t")).where("kind = 'k3'")
            assert (len(frame.collect()), last_plan(frame)[0].reason) == (1, "planning is off")
