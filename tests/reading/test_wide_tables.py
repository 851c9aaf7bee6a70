"""The work for a column does not grow with the number of columns."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import bloomparquet as bp
from bloomparquet.query.names import Positions, find
from bloomparquet.reading import file_scan, parquet_file
from tests.support.files import write

Work = Callable[[Path, list[str]], Any]
WORK: dict[str, Work] = {
    "all columns": lambda path, _: bp.read_table(path),
    "names in another case": lambda path, names: bp.read_table(
        path, columns=[name.upper() for name in names], case_sensitive=False
    ),
    "one row": lambda path, names: bp.read_table(path, f"{names[-1]} = 1"),
    "data set": lambda path, _: bp.plan(path).to_dataset(),
    "write": lambda path, names: bp.write_table(bp.read_table(path), path.parent / "a.parquet", bloom=names),
    "index": lambda path, names: bp.build_index(path, columns=names, to=path.parent / "_index"),
}


def lines_run(work: Callable[[], Any]) -> int:
    """The number of lines that run, loops within one line included."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]
    return count


@pytest.mark.parametrize("work", WORK)
def test_twice_the_columns_are_twice_the_work(work: str, tmp_path: Path) -> None:
    counts = []
    for columns in (50, 100, 200):  # the first run imports modules
        names = [f"c{i}" for i in range(columns)]
        path = Path(write(tmp_path / f"{columns}" / "t.parquet", {name: [1, 2] for name in names}))
        counts.append(lines_run(lambda path=path, names=names: WORK[work](path, names)))  # type: ignore[misc]
    assert counts[2] < 2.3 * counts[1]


@pytest.mark.parametrize("case_sensitive", [True, False])
def test_positions_of_many_names_are_those_of_one(case_sensitive: bool) -> None:
    names = ["a", "A", "b", "B", "c", "c", "D", "İ", "i̇"]
    positions = Positions(names, case_sensitive)
    for name in [*names, "C", "d", "e", "I"]:
        assert positions.find(name) == find(names, name, case_sensitive)


@pytest.mark.parametrize("where", [None, "id = 1"])
def test_a_column_may_be_named_twice(where: str | None, tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"id": [1], "b": [3]})
    rows = bp.read_table(path, where, ["id", "b", "b", "id"])
    assert [column.to_pylist() for column in rows.columns] == [[1], [3], [3], [1]]


def test_pages_of_many_small_columns_are_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet", {f"c{i}": [i, i + 1] for i in range(50)})
    monkeypatch.setattr(file_scan, "reads_condition_first", lambda *_: True)
    monkeypatch.setattr(parquet_file, "find_column", lambda *_, **__: pytest.fail("pages were looked for"))
    assert bp.read_table(path, "c7 = 8")["c49"].to_pylist() == [50]
