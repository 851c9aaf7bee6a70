"""The byte ranges that the planner process returns for ORC files: each holds the first byte of a kept stripe, by which
Spark's reader selects stripes, and of no other stripe."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.planning.evidence.formats import FileFormat
from pyspark_bloomparquet.jar.planner_worker import ranges
from pyspark_bloomparquet.jar.protocol import agreed_zone
from tests.support.orc import OrcFile
from tests.support.planner_process import Planner


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files with several stripes. No id is in two stripes, and statistics exclude nothing."""
    root = tmp_path_factory.mktemp("worker")
    for i in range(2):
        ids = np.random.default_rng(i).permutation(10_000) * 2 + i
        options: dict[str, Any] = {"bloom_filter_columns": [1], "bloom_filter_fpp": 1e-4, "row_index_stride": 1000}
        orc.write_table(pa.table({"id": ids}), root / f"{i}.orc", stripe_size=16_384, batch_size=1000, **options)
    return sorted(root.iterdir())


def ask(planner: Planner, lake: list[Path], predicate: dict[str, Any], **more: Any) -> tuple[dict[str, Any], Any]:
    planner.send(1, lake, predicate, format="orc", **more)
    head, ranges_kept = planner.receive()
    return head.get("plan", head), ranges_kept


def test_an_answer_is_the_byte_range_of_the_stripe(planner: Planner, lake: list[Path]) -> None:
    files = [OrcFile.open(path) for path in lake]
    total = sum(len(file.tail.stripes) for file in files)
    assert total > 6
    for i, file in enumerate(files):
        for stripe, extent in enumerate(file.tail.stripes):
            value = int(file.row_groups("id", stripe)[0][0])
            plan, answer = ask(planner, lake, {"op": "=", "column": ["id"], "type": "int64", "value": value})
            assert answer == [[i, extent.offset, extent.length]]
            assert (plan["numStripesTotal"], plan["numStripesRead"]) == (total, 1)
            skipped = plan["numStripesSkippedByStatistics"] + plan["numStripesSkippedByBloomFilter"]
            assert skipped == total - 1
            assert plan["numRowGroupsTotal"] == 20
            excluded = plan["numRowGroupsExcludedByStatistics"] + plan["numRowGroupsExcludedByBloomFilter"]
            assert excluded >= 18


def test_a_column_read_as_another_type_excludes_nothing(planner: Planner, lake: list[Path]) -> None:
    wanted = {"op": "=", "column": ["id"], "type": "int64", "value": -5}
    plan, answer = ask(planner, lake, wanted)
    assert (plan["numStripesRead"], answer) == (0, [])
    for kind in ("int", "string", "timestamp", "double", "interval"):
        plan, answer = ask(planner, lake, wanted, readerTypes=[[["id"], kind]])
        assert plan["numStripesRead"] == plan["numStripesTotal"] == len(answer)


def test_files_of_the_other_format_are_read_whole(planner: Planner, lake: list[Path]) -> None:
    planner.send(1, lake, {"op": "=", "column": ["id"], "type": "int64", "value": -5}, format="parquet")
    head, answer = planner.receive()
    assert head["plan"]["numFilesReadWhole"] == 2
    assert answer == [[i, 0, path.stat().st_size] for i, path in enumerate(lake)]


def test_only_a_known_clock_equal_to_the_readers_excludes() -> None:
    summer, winter = (
        (int(dt.datetime(2026, month, 1, tzinfo=dt.timezone.utc).timestamp()) * 10**6, hours * 3_600_000)
        for month, hours in ((7, 2), (1, 1))
    )
    assert agreed_zone("Europe/Zurich", [summer, winter]) == "Europe/Zurich"
    assert agreed_zone("Europe/Zurich", [summer, (winter[0], 0)]) is None
    assert agreed_zone("Europe/Zurich", [(-62_135_596_800_000_000, -3_600_000)]) is None
    assert agreed_zone("SystemV/PST8", [summer]) is None
    assert agreed_zone(None, [summer]) is None


_extents = st.tuples(st.integers(0, 60), st.integers(0, 40), st.booleans())


@given(st.lists(st.lists(_extents, max_size=6), min_size=1, max_size=3))
def test_ranges_match_one_stripe_whatever_the_footer_says(files: list[list[tuple[int, int, bool]]]) -> None:
    """Only stripes with the same offset are kept together: a reader cannot distinguish them."""
    file = np.array([i for i, stripes in enumerate(files) for _ in stripes], np.int64)
    start, length = (np.array([each[at] for stripes in files for each in stripes], np.int64) for at in (0, 1))
    kept = np.array([each[2] for stripes in files for each in stripes], np.bool_)
    table = SimpleNamespace(format=FileFormat.ORC, file=file, extents_of=lambda some: (start[some], length[some]))
    plan: Any = SimpleNamespace(table=table, codes=np.where(kept, 0, 1))
    spans = list(zip(*(part.tolist() for part in ranges(plan)), strict=True))
    for i in range(len(file)):
        taken = sum(of == file[i] and begin <= start[i] < begin + size for of, begin, size in spans)
        wanted = bool(kept[(file == file[i]) & (start == start[i])].any())
        assert taken == wanted
    assert all(size > 0 for _, _, size in spans)
