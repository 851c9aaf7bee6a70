"""Of a kept row group, only the condition's columns are read, and then the pages that hold matching rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.thrift.definitions import FileMetaData
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.reading import cost
from bloomparquet.reading.parquet_file import ParquetFileReader
from tests.support.core import read_footer, replace_footer
from tests.support.events import write

ROWS = 60_000
NUMBERS = np.arange(ROWS)
TABLE = pa.table(
    {
        "id": NUMBERS * 7919 % 100_003,
        "text": [f"text {i * 31 % 5_003}" for i in range(ROWS)],
        "part": pa.array(NUMBERS % 7, pa.int8()),
        "struct": pa.array([None if i % 5 == 0 else {"a": i, "b": str(i)} for i in range(ROWS)]),
        "list": pa.array([list(range(i % 4)) for i in range(ROWS)]),
        "number": NUMBERS,
    }
)


@pytest.fixture(scope="module", params=["parquet", "orc"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / f"x.{request.param}"
    if request.param == "orc":
        write(path, TABLE)
    else:
        pq.write_table(TABLE, path, row_group_size=25_000, data_page_size=4_096, dictionary_pagesize_limit=4_096)
    return path


@pytest.mark.parametrize(
    ("where", "mask"),
    [
        ("number = 59999", pc.field("number") == 59_999),
        ("number IN (0, 24999, 25000, 59999)", pc.field("number").isin([0, 24_999, 25_000, 59_999])),
        ("id < 40 AND part > 2", (pc.field("id") < 40) & (pc.field("part") > 2)),
        ("part = 3", pc.field("part") == 3),
        ("part >= 0", pc.field("part") >= 0),
        ("number < 0 OR number IS NULL", pc.field("number") < 0),
        ("struct.a = 7", pc.field("number") == 7),
        ("number < 30000", pc.field("number") < 30_000),
    ],
)
@pytest.mark.parametrize("columns", [None, ["list", "text"], ["number"], ["id", "struct"]])
def test_the_rows_are_those_of_the_condition(
    path: Path, where: str, mask: pc.Expression, columns: list[str] | None
) -> None:
    expected = TABLE.filter(mask).select(columns or TABLE.column_names)
    assert bp.read_table(path, where, columns).equals(expected)
    assert bp.count(path, where) == expected.num_rows
    assert bp.read_table(path, where, columns, limit=3).equals(expected.slice(0, 3))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What is read of the file: columns of whole row groups, and rows."""
    reads: list[tuple[str, Any]] = []

    def record(name: str, note: Callable[..., Any]) -> None:
        original = getattr(ParquetFileReader, name)

        def recorded(self: ParquetFileReader, *arguments: Any) -> Any:
            reads.append((name, note(*arguments)))
            return original(self, *arguments)

        monkeypatch.setattr(ParquetFileReader, name, recorded)

    record("read", lambda units, columns: (list(units), sorted(columns)))
    record("read_rows", lambda unit, columns, rows: (unit, sorted(columns), rows.tolist()))
    return reads


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    path = str(tmp_path / "x.parquet")
    pq.write_table(TABLE, path, row_group_size=25_000, data_page_size=4_096, use_dictionary=False)
    return path


def test_without_a_match_only_the_condition_is_read(parquet: str, reads: list[tuple[str, Any]]) -> None:
    absent = (ROWS + 1) * 7919 % 100_003
    assert bp.read_table(parquet, f"id = {absent} AND number >= 0").num_rows == 0
    assert sorted(reads) == [("read", (units, ["id", "number"])) for units in ([0], [1, 2])]


def test_other_columns_are_read_at_the_matching_rows(parquet: str, reads: list[tuple[str, Any]]) -> None:
    assert bp.read_table(parquet, "number = 30001", ["text", "part"]).num_rows == 1
    assert sorted(reads) == [("read", ([1], ["number"])), ("read_rows", (1, ["part", "text"], [5_001]))]


def test_a_limit_stops_the_reading(parquet: str, reads: list[tuple[str, Any]]) -> None:
    assert bp.read_table(parquet, limit=10).num_rows == 10
    assert [units for _, (units, _) in reads] == [[0]]


@pytest.mark.parametrize("limit", [-1, "3", 1.5])
def test_a_wrong_limit_is_an_error(parquet: str, limit: Any) -> None:
    with pytest.raises(bp.OptionError, match=r"limit is .*; expected a number of rows"):
        bp.read_table(parquet, limit=limit)


def test_columns_are_read_together_where_many_rows_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first row group all rows match, in the others one."""
    path, read, columns = tmp_path / "x.parquet", ParquetFileReader.read, list[list[str] | None]()
    shown = [1] * 40_000 + ([1] + [0] * 39_999) * 2
    table = pa.table({"shown": shown, **{name: np.random.default_rng(0).random(120_000) for name in "abc"}})
    pq.write_table(table, path, row_group_size=40_000)

    def noted(self: ParquetFileReader, units: Sequence[int], names: list[str] | None) -> Any:
        columns.append(names)
        return read(self, units, names)

    monkeypatch.setattr(ParquetFileReader, "read", noted)
    monkeypatch.setattr("bloomparquet.reading.scan.threads_for", lambda *_: 1)
    assert bp.read_table(path, "shown > 0").num_rows == 40_002
    others = ["a", "b", "c"]
    assert columns[:4] == [["shown"], others, ["shown", *others], ["shown"]]


def test_pyarrow_opens_a_local_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened, open_file = tmp_path / "x.parquet", list[object](), pq.ParquetFile
    pq.write_table(pa.table({"x": np.arange(20), "y": np.arange(20)}), path, row_group_size=1)

    def noted(source: Any, **options: Any) -> pq.ParquetFile:
        opened.append(source)
        return open_file(source, **options)

    monkeypatch.setattr(pq, "ParquetFile", noted)
    assert bp.read_table(path, "x >= 5 AND y < 15")["x"].to_pylist() == [*range(5, 15)]
    assert len(opened) == 1


SMALL = np.arange(2_000)
CONDITIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "n = 7 OR n = 160 OR n = 1999": lambda n: (n == 7) | (n == 160) | (n == 1999),
    "n = 1999": lambda n: n == 1999,
    "n >= 149 AND n < 152": lambda n: (n >= 149) & (n < 152),
    "n < 0": lambda n: n < 0,
    "n >= 0": lambda n: n >= 0,
    "n < 150 OR n >= 900 AND n < 1500": lambda n: (n < 150) | (n >= 900) & (n < 1500),
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A file of 14 row groups of 150 rows."""
    texts = pa.array([None if i % 7 == 0 else f"t{i}" for i in range(2_000)])
    pq.write_table(pa.table({"n": SMALL, "t": texts}), tmp_path / "x.parquet", row_group_size=150)
    return tmp_path / "x.parquet"


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("gaps", [0, 1 << 40], ids=["condition first", "all columns"])
@pytest.mark.parametrize("deleted", [[], [0, 7, 150, 160, 1_400, 1_999]])
def test_small_row_groups_are_read_together(
    small: Path, monkeypatch: pytest.MonkeyPatch, where: str, gaps: int, deleted: list[int]
) -> None:
    """Each row has its own values, also behind row groups that are skipped."""
    monkeypatch.setattr(cost, "_GAPS", gaps)
    deletes = SimpleNamespace(read=lambda _: np.array(deleted, np.int64))
    dataset = replace(bp.Dataset.open(small), deletes=(deletes,) if deleted else ())
    expected = SMALL[CONDITIONS[where](SMALL) & ~np.isin(SMALL, deleted)].tolist()
    rows = [{"n": n, "t": None if n % 7 == 0 else f"t{n}"} for n in expected]
    for limit in (None, 1, 3):
        assert dataset.read_table(where, limit=limit).to_pylist() == rows[:limit]


def test_small_row_groups_are_decoded_at_once(small: Path, reads: list[tuple[str, Any]]) -> None:
    """The first one is decoded alone, to measure its rows."""
    assert bp.read_table(small, columns=["n"])["n"].to_pylist() == SMALL.tolist()
    assert [units for _, (units, _) in reads] == [[0], [*range(1, 14)]]


@pytest.mark.parametrize("where", [None, "t LIKE '%9'"])
def test_row_groups_with_long_texts_are_decoded_one_by_one(
    tmp_path: Path, reads: list[tuple[str, Any]], where: str | None
) -> None:
    texts = [f"{'long ' * 400_000}{i}" for i in range(40)]
    pq.write_table(pa.table({"t": texts, "n": range(40)}), tmp_path / "x.parquet", row_group_size=10)
    assert bp.read_table(tmp_path / "x.parquet", where).num_rows == (4 if where else 40)
    assert {len(what[0]) for name, what in reads if name == "read" and "t" in what[1]} == {1}


@pytest.mark.parametrize("where", [None, "n >= 199"])
@pytest.mark.parametrize("nested", [False, True])
def test_rows_of_damaged_row_groups_do_not_move(tmp_path: Path, where: str | None, nested: bool) -> None:
    """The footer claims fewer rows for row group 3 than its pages have. All other rows keep their own values."""
    path, texts = tmp_path / "x.parquet", [f"t{i}" for i in range(2_000)]
    n = [[i] for i in range(2_000)] if nested else [*range(2_000)]
    pq.write_table(pa.table({"n": [*range(2_000)], "t": texts, "m": n}), path, row_group_size=200)
    footer = CompactReader(read_footer(str(path))).read_struct(FileMetaData)
    footer.row_groups[3].num_rows = 190
    replace_footer(str(path), write_struct(footer))
    rows = bp.read_table(path, where)
    assert rows["n"].to_pylist() == [i for i in range(0 if where is None else 199, 2_000) if not 790 <= i < 800]
    assert rows["t"].to_pylist() == [f"t{i}" for i in rows["n"].to_pylist()]
    assert rows["m"].to_pylist() == [[i] if nested else i for i in rows["n"].to_pylist()]


@pytest.mark.parametrize("where", ["n IN (7, 8, 250)", "n < 0", "v = 'v 7'", "n >= 0"])
def test_views_of_strings_are_filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """pyarrow has no filter for them. DataFusion writes them."""
    monkeypatch.setattr(cost, "_GAPS", 0)  # the columns of the condition are read first
    views = pa.array([f"v {i}" if i % 5 else None for i in range(300)], pa.string_view())
    lists = pa.ListArray.from_arrays(pa.array(range(301), pa.int32()), views)
    table = pa.table({"n": range(300), "v": views, "b": views.cast(pa.binary()).cast(pa.binary_view()), "l": lists})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=100)
    rows = bp.read_table(tmp_path / "x.parquet", where)
    wanted = {"n IN (7, 8, 250)": [7, 8, 250], "n < 0": [], "v = 'v 7'": [7], "n >= 0": [*range(300)]}[where]
    assert rows.to_pylist() == [table.slice(i, 1).to_pylist()[0] for i in wanted]
