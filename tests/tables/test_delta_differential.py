"""Random histories of Delta Lake tables: the same rows as ``deltalake`` reads, whatever the predicate skips."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import bloomparquet as bp
from tests.support.delta_histories import History
from tests.support.table_questions import ask, canonical, matching

STEPS = 6
QUESTIONS = 4


def check(seed: int, directory: Path) -> Counter[str]:
    """Check one history at its end and at a former version. Returns what happened, to prove that something did."""
    history = History(directory / "table", seed)
    choose = random.Random(seed)
    counts: Counter[str] = Counter()
    versions = []
    for _ in range(STEPS):
        history.step()
        versions.append((history.table.version(), dict(history.columns)))
    counts.update(history.log)
    for version, kinds in (versions[-1], choose.choice(versions)):
        table = DeltaTable(history.path, version=version)
        described = f"seed {seed}, version {version}, {history.mapping}, {history.partitions}, {history.log}"
        try:
            dataset = bp.Dataset.from_delta(history.path, version=version)
        except FileNotFoundError:
            assert "vacuum" in history.log, described
            counts["vacuumed"] += 1
            continue
        expected = pa.table(table.scan())
        assert dataset.read_table().schema.names == expected.schema.names, described
        assert canonical(dataset.read_table()) == canonical(expected), described
        if choose.random() < 0.3:
            dataset.build_index()
            counts["indexed"] += 1
        rows, literals = expected.to_pylist(), history.literals(kinds)
        if "struct" in expected.schema.names:
            literals["struct", "x"] = list(range(8))
        for _ in range(QUESTIONS):
            where = ask(choose, literals)
            wanted, plan, answer = matching(where, rows), dataset.plan(where), dataset.read_table(where)
            assert canonical(answer) == canonical(wanted), f"{described}: {where!r}"
            counts.update(f"skipped by {reason}" for reason in plan.skipped)
            counts["questions"] += 1
            counts["rows"] += len(wanted)
        counts["deletion vectors"] += sum(each is not None for each in dataset.deletes)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 48, 8))
def test_rows_are_those_of_deltalake(first: int, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 8):
        (tmp_path / str(seed)).mkdir()
        counts += check(seed, tmp_path / str(seed))
    assert counts["rows"]
    assert all(counts[f"skipped by {reason}"] for reason in ("statistics", "bloom"))
    assert counts["deletion vectors"]
