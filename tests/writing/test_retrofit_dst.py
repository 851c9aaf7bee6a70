"""Adding and shrinking filters into another place: which path `dst` gives to each file."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.files import write
from tests.support.stored import assert_filters_hold_all

TABLE = pa.table({"id": [i * 3 for i in range(400)], "text": [f"text {i}" for i in range(400)]})


def make(path: Path) -> str:
    return write(path, TABLE, rows_per_group=100)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return make(tmp_path / "a.parquet")


@pytest.mark.parametrize("glob", [False, True])
def test_directory_is_copied_with_its_structure(tmp_path: Path, glob: bool) -> None:
    names = ["day=1/a.parquet", "day=1/b.parquet", "day=2/c.parquet"]
    for name in names:
        make(tmp_path / "t" / name)
    add_filters(tmp_path / "t" / "day=1" / "b.parquet", bloom="id")
    before = {name: (tmp_path / "t" / name).read_bytes() for name in names}
    source = tmp_path / "t" / "day=*" / "*.parquet" if glob else tmp_path / "t"
    outcomes = add_filters(source, tmp_path / "copy", bloom="id")
    assert [each.action for each in outcomes] == ["added", "copied", "added"]
    assert {name: (tmp_path / "t" / name).read_bytes() for name in names} == before
    copies = sorted(str(each.relative_to(tmp_path / "copy")) for each in (tmp_path / "copy").rglob("*.parquet"))
    assert copies == names
    for name in names:
        assert_filters_hold_all(str(tmp_path / "copy" / name), {0})


def test_dst_is_a_file_name_or_a_directory(path: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for target, expected in [
        (tmp_path / "b.parquet", "b.parquet"),
        (tmp_path / "there", "there/a.parquet"),
        (f"{tmp_path}/new/", "new/a.parquet"),
        (tmp_path / "deep" / "er" / "c.parquet", "deep/er/c.parquet"),
        (f"file://{tmp_path}/d.parquet", "d.parquet"),
    ]:
        (outcome,) = add_filters(path, target, bloom="id")
        assert outcome.path == str(tmp_path / expected)
        assert_filters_hold_all(outcome.path, {0})
    with pytest.raises(bp.OptionError, match="dst needs a single src"):
        add_filters([path, path], tmp_path / "x", bloom="id")


@pytest.mark.parametrize(("src", "dst"), [("a.parquet", "a.parquet"), (".", "."), ("a.parquet", ".")])
def test_dst_that_is_src_is_an_error(path: str, tmp_path: Path, src: str, dst: str) -> None:
    """With dst, the old files stay as they are."""
    before = Path(path).read_bytes()
    for change in (add_filters, shrink_filters):
        with pytest.raises(bp.OptionError, match=r"would replace .*a\.parquet, .* leave out dst"):
            change(tmp_path / src, tmp_path / dst)
    assert Path(path).read_bytes() == before
    assert os.listdir(tmp_path) == ["a.parquet"]


@pytest.mark.parametrize("how", ["below src", "link to src", "link in dst"])
def test_dst_does_not_replace_another_file_of_src(tmp_path: Path, how: str) -> None:
    """The rows of the replaced file would be lost."""
    src, dst = tmp_path / "src", tmp_path / "src" / "sub"
    make(src / "a.parquet")
    write(src / "sub" / "a.parquet", {"id": range(1_000, 1_010)}, [])
    if how != "below src":
        dst = tmp_path / "dst"
        dst.mkdir()
        (dst / "a.parquet").symlink_to(src / "sub" / "a.parquet")
    if how == "link in dst":
        (dst / "sub").mkdir()
        (dst / "a.parquet").unlink()
        (dst / "a.parquet").symlink_to(dst / "sub" / "a.parquet")
    before = {each: each.read_bytes() for each in src.rglob("*.parquet")}
    with pytest.raises(bp.OptionError, match=r"would replace .*a\.parquet, which is .* expected a directory outside"):
        add_filters(src, dst, bloom="id")
    assert {each: each.read_bytes() for each in src.rglob("*.parquet")} == before


def test_dst_that_is_no_path_is_an_error(path: str, tmp_path: Path) -> None:
    """Columns or an fpp as the second positional argument, which is dst here."""
    for change in (lambda: add_filters(path, ["id"]), lambda: shrink_filters(path, 0.05)):
        with pytest.raises(bp.OptionError, match=r"dst is a (list|float); expected a path"):
            change()
    assert os.listdir(tmp_path) == ["a.parquet"]
