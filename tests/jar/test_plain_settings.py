"""Settings of Spark's own scans. Those by which Spark reads: tests.jar.test_plain_random and test_random_settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jar.test_queries import lake  # noqa: F401 - a fixture
from tests.support import plain
from tests.support.scenarios import PRUNED, TRANSPARENT, UNPRUNED, Readers, read
from tests.support.spark import conf

pytestmark = pytest.mark.slow


def views(readers: Readers, lake: Path) -> None:  # noqa: F811
    readers.oracle(lake / "orders").createOrReplaceTempView("o")
    readers.oracle(lake / "customers").createOrReplaceTempView("c")


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("single", ["true", "false"])
def test_a_global_aggregate_of_nothing_has_a_row(
    readers: Readers,
    lake: Path,  # noqa: F811
    adaptive: str,
    single: str,
) -> None:
    settings = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.optimizer.singleTaskExecution.enabled": single,
        "spark.sql.optimizer.singleTaskExecution.enabled.maxBytes": "1g",
    }
    with conf(readers.spark, settings):
        for path in (lake / "orders", lake / "orders" / "day=2026-01-01" / "0.parquet"):
            frame = readers.oracle(path).where("id = -5").selectExpr("count(*)", "sum(id)", "max(place.city)")
            assert len(plain.compare(readers.spark, lambda: frame.select("*")).rows) == 1  # noqa: B023


def test_a_query_without_data_filters_keeps_its_plan(readers: Readers, lake: Path) -> None:  # noqa: F811
    views(readers, lake)
    for sql in (
        "SELECT count(*) FROM o",
        "SELECT id FROM o WHERE day = DATE'2026-01-02'",
        "SELECT day, max(id) FROM o GROUP BY day",
        f"SELECT id FROM parquet.`{lake}/orders` WHERE _metadata.file_name = 'x'",
    ):
        texts_of_plans = []
        for pruning in (UNPRUNED, PRUNED):
            with conf(readers.spark, pruning):
                text = plain.executed(readers.spark.sql(sql))
                texts_of_plans.append(plain.without_ids(text))
        assert texts_of_plans[0] == texts_of_plans[1]
        assert plain.NODE not in texts_of_plans[1]


@pytest.mark.parametrize(("setting", "is_pruned"), [("TRUE", True), (" false ", False)])
def test_pruning_is_turned_on_and_off(readers: Readers, lake: Path, setting: str, is_pruned: bool) -> None:  # noqa: F811
    with conf(readers.spark, {**PRUNED, TRANSPARENT: setting}):
        executed = plain.executed(read(readers.spark, "parquet", lake / "orders").where("id = 100"))
    assert (plain.NODE in executed) is is_pruned


def test_a_misspelt_setting_is_an_error(readers: Readers, lake: Path) -> None:  # noqa: F811
    with conf(readers.spark, {TRANSPARENT: "flase"}):
        frame = read(readers.spark, "parquet", lake / "orders").where("id = 100")
        with pytest.raises(Exception, match=r"spark\.bloomparquet\.transparent is 'flase'; expected true or false"):
            frame.collect()
