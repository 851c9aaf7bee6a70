"""Files of tables whose log knows their sizes are not changed where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

import bloomparquet as bp
from tests.support import files

KINDS = [
    ("_delta_log/00000000000000000000.json", "Delta Lake"),
    (".hoodie/hoodie.properties", "Hudi"),
    ("metadata/v3.metadata.json", "Iceberg"),
    ("metadata/version-hint.text", "Iceberg"),
]


@pytest.mark.parametrize(("log", "kind"), KINDS)
@pytest.mark.parametrize("inner", ["part-0.parquet", "data/day=2026-01-01/part-0.parquet"])
def test_a_table_with_a_log_is_refused_and_left(tmp_path: Path, log: str, kind: str, inner: str) -> None:
    path = Path(files.write(tmp_path / "table" / inner, {"v": range(100)}))
    (tmp_path / "table" / log).parent.mkdir(parents=True)
    (tmp_path / "table" / log).touch()
    before = path.read_bytes()
    for src in (tmp_path / "table", path, str(tmp_path / "table" / "**" / "*.parquet")):
        for change in (lambda src=src: bp.add_filters(src, bloom="v"), lambda src=src: bp.shrink_filters(src)):
            with pytest.raises(bp.UnsupportedError, match=f"table is a table of {kind}"):
                change()
    assert path.read_bytes() == before
    outcomes = bp.add_filters(path, tmp_path / "elsewhere.parquet", bloom="v")
    assert [outcome.action for outcome in outcomes] == ["added"]


def test_a_directory_that_is_called_metadata_is_no_table(tmp_path: Path) -> None:
    files.write(tmp_path / "table" / "part-0.parquet", {"v": range(100)})
    (tmp_path / "table" / "metadata").mkdir()
    (tmp_path / "table" / "metadata" / "notes.json").touch()
    assert [outcome.action for outcome in bp.add_filters(tmp_path / "table", bloom="v")] == ["added"]


def test_a_relative_path_is_looked_at_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(tmp_path / "part-0.parquet", {"v": range(100)})
    (tmp_path / "_delta_log").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bp.UnsupportedError, match="Delta Lake"):
        bp.add_filters("part-0.parquet", bloom="v")


def test_neither_another_place_nor_a_link_leads_round_it(tmp_path: Path) -> None:
    path = Path(files.write(tmp_path / "delta" / "part-0.parquet", {"v": range(100)}))
    (tmp_path / "delta" / "_delta_log").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "part-0.parquet").symlink_to(path)
    other = files.write(tmp_path / "other.parquet", {"v": range(100)})
    before = path.read_bytes()
    for src, dst in (
        (path, path),
        (path.parent, path.parent),
        (tmp_path / "links", None),
        (other, path),
        (path, path.parent),
    ):
        with pytest.raises(bp.UnsupportedError, match="delta is a table of Delta Lake"):
            bp.add_filters(src, dst, bloom="v")
    assert path.read_bytes() == before
