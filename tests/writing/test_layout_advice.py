"""What `advise` and `inspect` say about page indexes, row groups and codecs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import bloomparquet as bp
from bloomparquet.cli.advice import advice_report
from bloomparquet.cli.render import filters_report

ROWS = 6_000
TABLE = pa.table(
    {"id": [i * 7919 % 1_000_003 for i in range(ROWS)], "key": [f"{i * 7919 % 1_000_003}" for i in range(ROWS)]}
)
KEYS = bp.Keys(footer=b"0123456789abcdef", columns={"key": b"abcdef0123456789"})


def write(path: Path, **options: Any) -> str:
    bp.write_table(TABLE, path, bloom=["id", "key"], row_group_size=1_000, **options)
    return str(path)


def shown(report: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=400).print(report)
    return out.getvalue()


def lines(advice: pa.Table, start: str) -> list[str]:
    return [line for line in shown(advice_report(advice)).splitlines() if line.startswith(start)]


def with_rows(advice: pa.Table, rows: int) -> pa.Table:
    """`advice` on row groups of `rows` rows."""
    each = pa.array([rows * n for n in advice["row_groups"].to_pylist()])
    return advice.set_column(advice.column_names.index("rows"), "rows", each)


@pytest.mark.parametrize(("indexes", "word"), [((True, True), "yes"), ((False, False), "no"), ((True, False), "in ")])
def test_page_indexes_are_counted(tmp_path: Path, indexes: tuple[bool, bool], word: str) -> None:
    for i, has_index in enumerate(indexes):
        write(tmp_path / f"{i}.parquet", write_page_index=has_index)
    advice, filters = bp.advise(str(tmp_path)), bp.inspect(str(tmp_path))
    assert advice["page_indexes"].to_pylist() == [6 * sum(indexes)] * 2
    by_file = {Path(row["file"]).name: row["page_index"] for row in filters.to_pylist()}
    assert by_file == {f"{i}.parquet": has_index for i, has_index in enumerate(indexes)}
    assert f"page index: {word}" in shown(advice_report(advice))
    assert f"page index: {word}" in shown(filters_report(filters, width=400))


def test_encrypted_files_tell_the_page_index_without_column_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", encryption=KEYS)
    advice = bp.advise(path, keys=bp.Keys(footer=KEYS.footer)).to_pylist()
    assert [row["page_indexes"] for row in advice] == [6, 6]
    assert [row["codec"] for row in advice] == ["SNAPPY", None]


def test_large_row_groups_of_lookups_get_one_line(tmp_path: Path) -> None:
    advice = bp.advise(write(tmp_path / "a.parquet"))
    assert lines(advice, "row groups:") == []
    assert lines(with_rows(advice, 300_000), "row groups:") == []
    (line,) = lines(with_rows(advice, 1_000_000), "row groups:")
    assert "1,000,000 rows" in line
    bp.write_table(pa.table({"country": ["CH", "DE"] * 3_000}), tmp_path / "b.parquet", row_group_size=1_000)
    assert lines(with_rows(bp.advise(tmp_path / "b.parquet"), 1_000_000), "row groups:") == []


@pytest.mark.parametrize(("codec", "name"), [("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("lz4", "LZ4_RAW")])
def test_text_keys_in_snappy_get_one_line(tmp_path: Path, codec: str, name: str) -> None:
    advice = bp.advise(write(tmp_path / "a.parquet", compression=codec))
    assert advice["codec"].to_pylist() == [name, name]
    assert lines(advice, "codec:") == []
    assert len(lines(with_rows(advice, 100_000), "codec:")) == (codec == "snappy")
    assert lines(with_rows(advice.slice(0, 1), 100_000), "codec:") == []
