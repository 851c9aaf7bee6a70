"""EXPLAIN, SQL metrics and statistics of a scan."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.support import files
from tests.support.scenarios import Readers, run, scans
from tests.support.spark import conf

FILES = 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files of one row group. Four have ids below 1000, so statistics exclude the others."""
    root = tmp_path_factory.mktemp("explain")
    for i in range(FILES):
        ids = [(i >= 4) * 1000 + i % 4 + 4 * (row * 7 % 100) for row in range(100)]
        data = {"id": ids, "s": [f"s{i}" for i in ids], "fill": [f"{i:0200}" for i in ids]}
        files.write(root / f"{i}.parquet", data, {"id": {"ndv": 100, "fpp": 1e-4}, "s": {"ndv": 100, "fpp": 1e-4}})
    return str(root)


def explained(frame: DataFrame, mode: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode=mode)
    return text.getvalue()


MODES = ("simple", "extended", "formatted", "cost")


@pytest.mark.parametrize("mode", MODES)
def test_explain_shows_the_predicate_and_the_plan(readers: Readers, path: str, mode: str) -> None:
    frame = readers.jar(path).where("id = 6 OR (id = 7 AND trim(s) = 'X')").select("id")
    assert run(frame).plan.kept == 2
    with conf(readers.spark, {"spark.sql.maxMetadataStringLength": "2000"}):
        text = explained(frame, mode)
    assert "id = 6 OR id = 7" in text  # a part that cannot be translated is dropped
    assert "2 of 8 row groups (4 skipped by statistics, 2 by Bloom filter)" in text


@pytest.mark.parametrize("mode", MODES)
def test_explain_of_a_scan_that_reads_everything(readers: Readers, path: str, mode: str) -> None:
    text = explained(readers.jar(path).select("id"), mode)
    assert "no predicate" in text
    assert "row groups (" not in text


def test_explain_shortens_long_lists(readers: Readers, path: str) -> None:
    frame = readers.jar(path).where(f"id IN ({', '.join(map(str, range(500)))})")
    assert "495 more" in explained(frame, "formatted")


def test_metrics_are_those_of_the_plan(readers: Readers, path: str) -> None:
    frame = readers.jar(path).where("id = 6").select("s")
    ran = run(frame)
    (node,) = scans(frame._jdf.queryExecution().executedPlan())
    shown = {name: value(node, name) for name in NAMES}
    assert ran.rows == ["('s6',)"]
    assert shown["numRowGroupsTotal"] == FILES
    assert (shown["numRowGroupsSkippedByStatistics"], shown["numRowGroupsSkippedByBloomFilter"]) == (4, 3)
    assert (shown["numRowGroupsRead"], shown["numFilterErrors"], shown["numPlanningFailures"]) == (1, 0, 0)
    assert ran.plan.bloom_bytes_read == shown["bloomFilterBytes"]
    assert ran.plan.seconds == shown["planningTimeMs"] / 1000


NAMES = (
    "numRowGroupsTotal",
    "numRowGroupsSkippedByStatistics",
    "numRowGroupsSkippedByBloomFilter",
    "numRowGroupsRead",
    "bloomFilterBytes",
    "planningTimeMs",
    "numFilterErrors",
    "numPlanningFailures",
)


def value(node: Any, name: str) -> int:
    return int(node.metrics().apply(name).value())


def test_metrics_have_descriptions(readers: Readers, path: str) -> None:
    frame = readers.jar(path).where("id = 6")
    frame.collect()
    (node,) = scans(frame._jdf.queryExecution().executedPlan())
    names = [node.metrics().apply(name).name() for name in NAMES]
    assert all(name.isDefined() and " " in name.get() for name in names)


def size_and_rows(frame: DataFrame) -> tuple[int, int | None]:
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    rows = statistics.rowCount()
    return int(statistics.sizeInBytes()), int(rows.get()) if rows.isDefined() else None


def test_statistics_cover_the_kept_row_groups(readers: Readers, path: str) -> None:
    everything, _ = size_and_rows(readers.jar(path))
    with conf(readers.spark, {"spark.sql.cbo.enabled": "true"}):
        some, rows = size_and_rows(readers.jar(path).where("id = 6"))
    assert 0 < some < everything / (FILES / 2)
    assert rows is None or 1 <= rows <= 100


def test_a_pruned_side_is_broadcast(readers: Readers, path: str) -> None:
    big = readers.oracle(path)
    whole, _ = size_and_rows(big)
    with conf(
        readers.spark,
        {"spark.sql.autoBroadcastJoinThreshold": str(whole // 3), "spark.sql.adaptive.enabled": "false"},
    ):
        for frame, kind in ((readers.jar(path), "BroadcastHashJoin"), (readers.oracle(path), "SortMergeJoin")):
            joined = frame.where("id IN (6, 1006)").join(big, "id")
            assert kind in explained(joined, "simple")
            assert sorted(row[0] for row in joined.collect()) == [6, 1006]
