"""Random histories of Iceberg tables: the same rows as pyiceberg reads, whatever the predicate skips.

More cases by hand: ``python -m tests.tables.test_iceberg_differential FIRST_SEED HISTORIES``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import bloomparquet as bp
from tests.support import iceberg
from tests.support.iceberg_histories import History, Test, matches, random_where, to_where

QUESTIONS = 4


def check(catalog: SqlCatalog, seed: int, directory: Path) -> Counter[str]:
    """Check one history at random snapshots. Returns what happened, to prove that something did."""
    with iceberg.quiet():
        history = History(catalog, f"t{seed}", seed)
    counts: Counter[str] = Counter()
    for _ in range(QUESTIONS):
        table, snapshot_id = history.state()
        scan = table.scan(snapshot_id=snapshot_id)
        dataset = bp.Dataset.from_iceberg(table, snapshot_id=snapshot_id)
        try:
            expected = scan.to_arrow()
        except ValueError as error:
            if "Could not find field with name" not in str(error):  # of a field that the name mapping lacks
                raise
            counts["refused by pyiceberg"] += 1
            dataset.read_table()
            continue
        where = random_where(history.random, scan.projection())
        described = f"seed {seed}, snapshot {snapshot_id}, {where}"
        everything = dataset.read_table()
        assert everything.schema.names == expected.schema.names, described
        assert _rows(everything.to_pylist()) == _rows(expected.to_pylist()), described
        index: Any = "auto"
        if history.random.random() < 0.2 and (columns := _indexable(dataset, where)):
            with suppress(bp.PlanError):  # no file has one of the columns
                dataset.build_index(columns, directory / "index")
                index = directory / "index"
                counts["indexed"] += 1
        matching = [row for row in expected.to_pylist() if matches(row, where)]
        answer = dataset.read_table(to_where(where), index=index)
        assert _rows(answer.to_pylist()) == _rows(matching), described
        counts.update(f"skipped by {reason}" for reason in dataset.plan(to_where(where), index=index).skipped)
        counts["rows"] += len(matching)
        counts["files with deletes"] += sum(each is not None for each in dataset.deletes)
        counts["snapshots"] += snapshot_id is not None
        counts["files without a column whose value their partition tells"] += sum(map(bool, dataset.fallbacks))
        counts["version 3"] += table.metadata.format_version == 3
        counts["questions"] += 1
    shutil.rmtree(directory / "db" / f"t{seed}")
    return counts


def _indexable(dataset: bp.Dataset, where: list[list[Test]]) -> dict[str, bp.Bloom | None]:
    """The columns of `where` for an index with filters."""
    assert dataset.columns is not None
    schema = dataset.columns.schema
    names = {path[0] for conjunction in where for path, _, _ in conjunction if len(path) == 1}
    return {
        name: bp.Bloom()
        for name in sorted(names.difference(dataset.partition_names))
        if dataset.files and not pa.types.is_boolean(schema.field(name).type)
    }


def _rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_rows_are_those_of_pyiceberg(first: int, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    with iceberg.open_catalog(tmp_path) as catalog:
        for seed in range(first, first + 8):
            counts += check(catalog, seed, tmp_path)
    assert counts["questions"] + counts["refused by pyiceberg"] == 8 * QUESTIONS
    assert counts["rows"]
    assert all(counts[f"skipped by {reason}"] for reason in ("statistics", "bloom"))
    assert counts["files with deletes"]


def main(first: int, histories: int) -> None:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory, iceberg.open_catalog(Path(directory)) as catalog:
        for seed in range(first, first + histories):
            counts += check(catalog, seed, Path(directory))
    print(dict(counts.most_common()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
