"""Plans with an index, with a stale one and without keep the same row groups for the same reasons, over random data."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.indexing import build
from bloomparquet.planning.dataset import Dataset
from tests.differential import oracle, writers
from tests.differential.cases import Case, Data, cases, data_sets
from tests.differential.test_core import check_law, examples, spelled
from tests.support.index import outcome, plan_by
from tests.support.switches import is_on, require_off, require_used

pytestmark = pytest.mark.slow

_write_table = pq.write_table


@pytest.mark.parametrize("what", ["all columns", "one column", "filters of values"])
def test_random_data_gives_the_same_plans_and_rows(what: str) -> None:
    tally: Counter[str] = Counter()

    @examples(0.4)
    @given(st.data())
    def check(draws: st.DataObject) -> None:
        data = draws.draw(data_sets(spark=False, max_files=4), label="data")
        chosen = draws.draw(cases(data, spark=False, number=6), label="cases")
        fates = [draws.draw(st.sampled_from(["kept"] * 4 + ["new", "rewritten"])) for _ in data.files]
        most_row_groups = draws.draw(st.sampled_from([1, 5, 8192]))
        root = Path(tempfile.mkdtemp(prefix="bloomparquet-index-"))
        try:
            with pytest.MonkeyPatch.context() as patch:
                if what == "filters of values":
                    patch.setattr(pq, "write_table", without_filters)
                files = writers.write(data, root)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(build, "MOST_ROW_GROUPS", most_row_groups)
                build_and_change(root, dict(zip(files, fates, strict=True)), columns_of(data, what))
            compare(data, root, [str(path) for path in files], chosen, tally, what)
        finally:
            shutil.rmtree(root)

    check()
    print(f"\n{dict(tally)}")
    if is_on("index", "partitions"):
        assert tally["files"] > tally["indexed"] > tally["files"] / 4  # most others are new or rewritten
    require_used(tally, "statistics", 0)
    if is_on("index") or what != "filters of values":
        require_used(tally, "bloom", 0)


def without_filters(table: pa.Table, path: Path, **options: Any) -> None:
    _write_table(table, path, **{**options, "bloom_filter_options": None})


def columns_of(data: Data, what: str) -> Any:
    """The columns to index: all, one of them, or filters of the values of those that can have one."""
    if what == "all columns":
        return None
    kinds = {path: [file.kinds[path] for file in data.files if path in file.kinds] for path in data.columns}
    names = [".".join(path) for path in kinds]
    if what == "one column":
        return names[:1]
    suitable = [all(kind.family != "boolean" for kind in some) for some in kinds.values()]
    return {name: bp.Bloom() if ok else None for name, ok in zip(names, suitable, strict=True)}


def build_and_change(root: Path, fates: dict[Path, str], columns: Any) -> None:
    """Index the files below `root` that are not ``"new"``, then rewrite some of them."""
    hidden = {path: path.with_name(f"_{path.name}") for path, fate in fates.items() if fate == "new"}
    if len(hidden) < len(fates):
        for path, name in hidden.items():
            path.rename(name)
        try:
            assert not bp.build_index(root, columns=columns).left_out
        except bp.PlanError:  # only the new files have the column
            bp.build_index(root)
        for path, name in hidden.items():
            name.rename(path)
    for path in (path for path, fate in fates.items() if fate == "rewritten"):
        content, before = path.read_bytes(), path.stat()
        path.unlink()
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def compare(
    data: Data, root: Path, files: Sequence[str], chosen: Sequence[Case], tally: Counter[str], what: str
) -> None:
    rows, kinds, names = oracle.rows_of(data), data.schema_kinds(), oracle.column_names(data)
    expected = oracle.expected_rows(data)
    dataset = Dataset.open(root)
    for case in chosen:
        where = spelled(case, kinds)
        note(f"where = {where!r}")
        plan = plan_by("auto", dataset, where, timezone=data.timezone)
        if what == "filters of values":  # they skip more
            off = plan_by("off", dataset, where, timezone=data.timezone)
            both = zip(plan.row_groups, off.row_groups, strict=True)
            assert all(new == old or (old.kept and new.reason == "bloom") for new, old in both)
            assert not off.skipped["bloom"]
        else:
            auto, off = (outcome(index, dataset, where, timezone=data.timezone) for index in ("auto", "off"))
            assert auto == off
        wanted = {rid for rid, row in enumerate(rows) if oracle.truth(case.predicate, row, kinds, data.timezone)}
        check_law(plan, data, files, wanted)
        require_off(plan)
        table = bp.read_table(root, where, merge_schema=True, timezone=data.timezone)
        actual = oracle.comparable_rows(table, names)
        assert sorted(actual, key=repr) == sorted((expected[rid] for rid in wanted), key=repr)
        tally.update({"files": len(files), "indexed": plan.indexed, **plan.skipped})
