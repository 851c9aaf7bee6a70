"""Files that change after they were listed, without the jar: rows of one version, or an error, but never fewer rows."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import bloomparquet as bp
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.listing import LoadListing
from pyspark_bloomparquet.read.reader import make_reader
from pyspark_bloomparquet.read.splits import Split
from tests.support import changes
from tests.support.changes import BASE, CHANGED, CHANGES, FIRST, KEPT, SKIPPED, WHERE, Row
from tests.support.scenarios import read

pytestmark = pytest.mark.slow

ERRORS = (Py4JJavaError, PySparkException)
READERS: dict[str, dict[str, str]] = {"where": {"where": WHERE}, "none": {}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    changes.write(tmp_path / "t" / "other.parquet", (0,), "a")
    return tmp_path / "t" / "x.parquet"


@pytest.mark.parametrize(("kind", "units"), [("same, in place", KEPT), ("replaced", SKIPPED)])
def test_a_second_action_over_changed_files_is_an_error(
    spark: SparkSession, path: Path, kind: str, units: tuple[int, ...]
) -> None:
    """The first action lists the files when it runs."""
    changes.write(path, units, "a")
    frame = read(spark, "bloomparquet", path.parent, where=WHERE).select("id", "v")
    changes.change(path, "grown", units)
    changes.write(path, units, "b")
    assert changes.shown(frame.collect()) == changes.matching(units, "b")
    changes.change(path, kind, units)
    allowed = [changes.matching(units, "b"), changes.after(kind, units)]
    assert changes.outcome(lambda: changes.shown(frame.collect()), allowed, ERRORS, CHANGED) == "named error"


class Worker:
    """Uses a reader as Spark does: plan, pickle the splits, read each of them."""

    def __init__(self, path: Path, **options: str) -> None:
        given = Options.parse({"path": str(path.parent), "pushFilters": "off", **options})
        self.reader = make_reader(given, LoadListing(given).schema())
        self.splits: list[Any] = pickle.loads(pickle.dumps(self.reader.partitions()))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for split in self.splits:
            yield from self.reader.read(split)


def as_rows(batches: Any) -> list[Row]:
    pairs = (row for batch in batches for row in zip(*batch.select(["id", "v"]).to_pydict().values(), strict=True))
    return [row for row in changes.shown(pairs) if row[0] + BASE >= FIRST]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_kept_file_changed_after_the_plan_is_an_error(path: Path, kind: str, reader: str) -> None:
    changes.write(path, KEPT, "a")
    worker = Worker(path, **READERS[reader])
    changes.change(path, kind, KEPT)
    with pytest.raises((bp.FileChangedError, FileNotFoundError), match=f"{CHANGED}|No such file"):
        list(worker.batches())


@pytest.mark.parametrize("kind", CHANGES)
def test_a_skipped_file_changed_later_is_an_error(path: Path, kind: str) -> None:
    changes.write(path, SKIPPED, "a")
    worker = Worker(path, where=WHERE)
    assert len(worker.splits) == 1, "one split without row groups, to check the files"
    changes.change(path, kind, SKIPPED)
    with pytest.raises(bp.FileChangedError, match=rf"x\.parquet.*{CHANGED}"):
        list(worker.batches())


@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_changed_during_a_read_is_an_error(path: Path, kind: str) -> None:
    changes.write(path, KEPT, "a")
    batches = Worker(path, where=f"id >= {BASE + changes.ROWS}").batches()
    next(batches)
    changes.change(path, kind, KEPT)
    with pytest.raises(bp.FileChangedError, match=rf"x\.parquet.*{CHANGED}"):
        list(batches)


def test_options_of_spark_do_not_hide_a_change(path: Path) -> None:
    for units in (KEPT, SKIPPED):
        changes.write(path, units, "a")
        lenient = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}
        worker = Worker(path, where=WHERE, **lenient)
        changes.change(path, "shrunk", units)
        with pytest.raises(bp.FileChangedError, match=CHANGED):
            list(worker.batches())
        worker = Worker(path, where=WHERE, **lenient)
        path.unlink()
        assert as_rows(worker.batches()) == []


def test_inodes_of_another_machine_are_not_compared(path: Path) -> None:
    changes.write(path, KEPT, "a")
    worker = Worker(path, where=WHERE)
    worker.splits = [replace(split, host="elsewhere") for split in worker.splits]
    before = path.stat()
    os.link(path, path.with_name("_link"))  # another change time
    assert path.stat().st_ctime_ns != before.st_ctime_ns
    assert len(as_rows(worker.batches())) == 500
    changes.change(path, "replaced", KEPT)
    with pytest.raises(bp.FileChangedError, match=CHANGED):
        list(worker.batches())


def test_plans_that_skip_nothing_check_nothing(path: Path) -> None:
    changes.write(path, KEPT, "a")
    assert all(isinstance(split, Split) and not split.skipped_files() for split in Worker(path).splits)
