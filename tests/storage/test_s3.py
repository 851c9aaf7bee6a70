"""S3 through pyarrow's own file system, against a local server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.storage.open import open_storage
from tests.support.files import write
from tests.support.s3 import S3Server, s3_server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("s3")
    for day in (1, 2):
        for part in range(2):
            path = folder / f"day=2026-01-0{day}" / f"{part}.parquet"
            values = [1000 * day + 100 * part + i for i in range(0, 100, 2)]
            write(path, {"x": values, "y": range(50)}, ["x"], rows_per_group=10)
    (folder / "_SUCCESS").touch()
    with s3_server() as server:
        server.upload(folder, "table")
        yield server


@pytest.mark.parametrize(
    "path", ["table", "table/", "table/*/*.parquet", "table/day=2026-01-0[12]/?.parquet", "table/**/*.parquet"]
)
def test_a_url_with_an_endpoint_is_listed_and_read(path: str, s3: S3Server) -> None:
    plan = bp.plan(s3.url(path), "x = 2104")
    assert (plan.total, plan.kept) == (20, 1)
    assert plan.kept_row_groups()[0].path == "bucket/table/day=2026-01-02/1.parquet"
    assert bp.read_table(s3.url(path), "x = 2104").column("y").to_pylist() == [2]


@pytest.mark.parametrize("name", ["a b", "100%", "é", "a#b", "a|b", "a+b", "p=1%2F2"])
def test_names_that_a_uri_may_not_contain(name: str, s3: S3Server, tmp_path: Path) -> None:
    """In a URL as they are, with escapes, and with storage options."""
    write(tmp_path / "x.parquet", {"x": [1, 2]}, ["x"])
    s3.upload(tmp_path, f"names/{name}")
    escaped = name.replace("%", "%25").replace("#", "%23").replace(" ", "%20")
    for path in (escaped, name) if "%2" not in name else (escaped,):
        assert bp.read_table(s3.url(f"names/{path}"), "x = 2").num_rows == 1
        assert bp.read_table(f"s3://bucket/names/{path}", "x = 2", storage_options=s3.options).num_rows == 1


@pytest.mark.parametrize("path", ["bucket//t", "/bucket/t", "bucket//*", "/bucket/t/*"])
def test_a_path_that_pyarrow_refuses_is_a_named_error(path: str, s3: S3Server) -> None:
    table, file, options = pa.table({"x": [1]}), "bucket/table/day=2026-01-01/0.parquet", {"filesystem": s3.filesystem}
    for use in (
        lambda: bp.plan(path, "x = 1", **options),
        lambda: bp.build_index(path, **options),
        lambda: bp.write_table(table, path, **options),
        lambda: bp.add_filters(file, path, bloom="x", **options),
    ):
        with pytest.raises(bp.OptionError, match="expected a path of the storage"):
            use()


def test_a_file_system_object_is_used(s3: S3Server) -> None:
    for path in ("bucket/table", "s3://bucket/table", "bucket/table/day=*", "bucket/table/**/*.parquet"):
        assert bp.read_table(path, "x = 2104", filesystem=s3.filesystem).num_rows == 1, path
    assert bp.plan("bucket/table", "day = DATE '2026-01-01'", filesystem=s3.filesystem).skipped == {"partition": 2}


def test_names_that_cannot_be_read_or_written_are_errors(s3: S3Server) -> None:
    """No listing would show an object whose name ends with a slash."""
    with pytest.raises(bp.UnsupportedError, match="bucket/a//b: pyarrow opens no file of this name"):
        open_storage(s3.url("x"))[0].open_file("bucket/a//b")
    with pytest.raises(IsADirectoryError):
        bp.write_table(pa.table({"x": [1]}), "bucket/new/", filesystem=s3.filesystem)
    for path in ("nothing", "nothing/*.parquet"):
        with pytest.raises(FileNotFoundError, match="nothing"):
            bp.plan(s3.url(path))
