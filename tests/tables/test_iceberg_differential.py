"""Random histories of Iceberg tables: the same rows as pyiceberg reads, whatever the predicate skips."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import bloomparquet as bp
from bloomparquet.query.predicate import columns
from tests.support import iceberg
from tests.support.iceberg_histories import History, literals
from tests.support.table_questions import ask, canonical, matching

pytestmark = pytest.mark.slow

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
        where = ask(history.random, literals(scan.projection()), depth=1)
        described = f"seed {seed}, snapshot {snapshot_id}, {where}"
        everything = dataset.read_table()
        assert everything.schema.names == expected.schema.names, described
        assert canonical(everything) == canonical(expected), described
        index: Any = "auto"
        if history.random.random() < 0.2 and (columns := _indexable(dataset, where)):
            with suppress(bp.PlanError):  # no file has one of the columns
                dataset.build_index(columns, directory / "index")
                index = directory / "index"
                counts["indexed"] += 1
        wanted = matching(where, expected.to_pylist())
        assert canonical(dataset.read_table(where, index=index)) == canonical(wanted), described
        counts.update(f"skipped by {reason}" for reason in dataset.plan(where, index=index).skipped)
        counts["rows"] += len(wanted)
        counts["files with deletes"] += sum(each is not None for each in dataset.deletes)
        counts["snapshots"] += snapshot_id is not None
        counts["files without a column whose value their partition tells"] += sum(map(bool, dataset.fallbacks))
        counts["version 3"] += table.metadata.format_version == 3
        counts["questions"] += 1
    shutil.rmtree(directory / "db" / f"t{seed}")
    return counts


def _indexable(dataset: bp.Dataset, where: bp.Predicate) -> dict[str, bp.Bloom | None]:
    """The columns of `where` for an index with filters."""
    assert dataset.columns is not None
    schema = dataset.columns.schema
    names = {path[0] for path in columns(where) if len(path) == 1}
    return {
        name: bp.Bloom()
        for name in sorted(names.difference(dataset.partition_names))
        if dataset.files and not pa.types.is_boolean(schema.field(name).type)
    }


@pytest.mark.parametrize("first", range(8, 24, 8))
def test_rows_are_those_of_pyiceberg(first: int, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    with iceberg.open_catalog(tmp_path) as catalog:
        for seed in range(first, first + 8):
            counts += check(catalog, seed, tmp_path)
    assert counts["questions"] + counts["refused by pyiceberg"] == 8 * QUESTIONS
    assert counts["rows"]
    assert all(counts[f"skipped by {reason}"] for reason in ("statistics", "bloom"))
    assert counts["files with deletes"]
