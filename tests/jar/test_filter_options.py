"""Which columns get filters, and how large they may be, by the options of a write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from bloomparquet.parquet.bloom_filter.sizes import TOLERANCE
from pyspark_bloomparquet import last_plan
from tests.support.planners import warnings
from tests.support.spark import rows
from tests.support.written_filters import ROWS_PER_GROUP, filtered_columns, filters, save

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("options", "fpp"), [({}, 1e-4), ({"bloomRowGroups": 5}, 0.01), ({"bloomRowGroups": 10**9}, 1e-6)]
)
def test_auto_fpp_follows_the_row_groups_of_the_table(
    jar_spark: SparkSession, tmp_path: Path, options: dict[str, int], fpp: float
) -> None:
    frame = jar_spark.range(12_000).selectExpr("xxhash64(id) AS n", "id")
    limit = {ROWS_PER_GROUP.replace(".", "__"): 1_000}
    path = save(frame, tmp_path / "t", bloomColumns="n", bloomFpp="Auto", **options, **limit)
    blooms = filters(path)
    assert len(blooms) == 12
    for bloom in blooms.values():
        assert bloom.estimated_fpp <= TOLERANCE * fpp < bloom.fold().estimated_fpp
    found = jar_spark.read.format("bloomparquet").load(path).where("n = xxhash64(7777L)")
    assert rows(found) == rows(jar_spark.read.parquet(path).where("n = xxhash64(7777L)"))
    assert found.count() == 1
    (plan,) = last_plan(found)
    assert (plan.total, plan.kept) == (12, 1)


@pytest.fixture
def mixed(jar_spark: SparkSession) -> DataFrame:
    """Columns of many kinds, of which some profit from a filter."""
    return jar_spark.range(4_000).selectExpr(
        "id",
        "xxhash64(id) AS user",
        "concat('k', id % 5) AS kind",
        "concat('name-', id) AS name",
        "cast(id AS DOUBLE) / 7 AS price",
        "id % 2 = 0 AS flag",
        "array(id) AS tags",
        "map('k', id) AS props",
        "named_struct('code', concat('c', id), 'on', id % 3 = 0) AS st",
        "cast(id * 7919 % 100003 AS DECIMAL(30,2)) AS amount",
        "date_add(date'2020-01-01', cast(id % 100 AS INT)) AS day",
        "concat('n', id) COLLATE UTF8_LCASE AS folded",
        "cast(NULL AS STRING) AS nothing",
    )


def test_a_star_selects_the_columns_that_profit(jar_spark: SparkSession, mixed: DataFrame, tmp_path: Path) -> None:
    """Not selected: dense numbers and dates, few values, fractions, lists, maps, strings with a collation."""
    assert filtered_columns(save(mixed, tmp_path / "t", bloomColumns="*")) == {"user", "name", "st.code", "amount"}
    with_named = save(mixed, tmp_path / "t", bloomColumns="*, price,kind")
    assert filtered_columns(with_named) == {"user", "name", "st.code", "amount", "price", "kind"}
    without = save(mixed, tmp_path / "t", bloomColumns="*", **{"parquet.bloom.filter.enabled#name": "false"})
    assert filtered_columns(without) == {"user", "st.code", "amount"}
    assert rows(jar_spark.read.parquet(without)) == rows(mixed)


def test_columns_with_the_same_path_have_no_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    """A field b of a struct a, and a column "a.b": parquet-java would write one filter for both."""
    frame = jar_spark.range(2_000).selectExpr(
        "named_struct('b', id * 2) AS a", "id * 2 + 1 AS `a.b`", "xxhash64(id) AS c"
    )
    assert filtered_columns(save(frame, tmp_path / "star", bloomColumns="*")) == {"c"}
    own = {"parquet.bloom.filter.enabled#a.b": "true", "parquet.enable.dictionary": "false"}
    assert filters(save(frame, tmp_path / "own", **own)) == {}
    assert filters(save(frame, tmp_path / "all", **{**own, "parquet.bloom.filter.enabled": "true"})).keys() == {
        (0, "c")
    }
    with pytest.raises(IllegalArgumentException, match="which is one of several columns"):
        save(frame, tmp_path / "named", bloomColumns="a.b")
    for condition in ("a.b = 20", "`a.b` = 21"):
        assert jar_spark.read.parquet(str(tmp_path / "own")).where(condition).count() == 1


def test_a_reached_limit_warns_once_per_file_and_column(jar_spark: SparkSession, tmp_path: Path) -> None:
    frame = jar_spark.range(20_000).selectExpr("xxhash64(id) AS a", "concat('b', id) AS b", "id % 3 AS c")
    with warnings(jar_spark) as lines:
        path = save(frame, tmp_path / "t", bloomColumns="a,b,c", bloomMaxBytes="8k", **{ROWS_PER_GROUP: 10_000})
    blooms = filters(path)
    assert {bloom.num_bytes for (_, column), bloom in blooms.items() if column != "c"} == {8192}
    (file,) = Path(path).glob("*.parquet")
    assert len(lines) == 2
    for column, line in zip("ab", sorted(lines, key=lambda each: "column b" in each)):
        worst = max(bloom.estimated_fpp for (_, name), bloom in blooms.items() if name == column)
        assert file.name in line
        assert f"column {column} " in line
        assert "bloomMaxBytes" in line
        assert f"false positive probability is {worst:.3g} instead of 0.01" in line
    with warnings(jar_spark) as lines:
        save(frame, tmp_path / "t", bloomColumns="a,b,c", **{ROWS_PER_GROUP: 10_000})
    assert lines == []


def test_a_useless_filter_is_left_out_with_a_warning(jar_spark: SparkSession, tmp_path: Path) -> None:
    frame = jar_spark.range(20_000).selectExpr("xxhash64(id) AS a")
    with warnings(jar_spark) as lines:
        path = save(frame, tmp_path / "t", bloomColumns="a", bloomMaxBytes=32)
    assert filters(path) == {}
    assert len(lines) == 1
    assert "so it is left out" in lines[0]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        *(("bloomMaxBytes", given, "a number of bytes") for given in ("31", "129m", "")),
        *(("bloomFpp", given, "a number between 0 and 1") for given in ("0", "1", "NaN")),
        *(("bloomRowGroups", given, "the number of") for given in ("0", "1.5")),
    ],
)
def test_a_wrong_number_is_an_error(
    jar_spark: SparkSession, tmp_path: Path, name: str, given: str, expected: str
) -> None:
    message = f"option {name} is '{given}'; expected {expected}"
    with pytest.raises(IllegalArgumentException, match=message):
        save(jar_spark.range(3), tmp_path / "x", **{"bloomColumns": "id", "bloomFpp": "auto", name: given})
    assert not (tmp_path / "x").exists()


def test_a_limit_is_rounded_down_to_a_power_of_two(jar_spark: SparkSession, tmp_path: Path) -> None:
    frame = jar_spark.range(300_000).selectExpr("xxhash64(id) AS a")
    (bloom,) = filters(save(frame, tmp_path / "t", bloomColumns="a", bloomMaxBytes=" 1023k", bloomFpp=0.0001)).values()
    assert bloom.num_bytes == 524_288
